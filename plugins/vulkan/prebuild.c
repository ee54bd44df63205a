/* prebuild.c - run while the plugin is built: the GLSL of kernels that models use most,
 * for glslc; for drivers that keep NaN, as they do.
 *
 * usage: vulkan_prebuild FOLDER     writes FOLDER/N.comp, and FOLDER/index: "N KEY KEY" */
#include <stdio.h>
#include <string.h>

#include "families/instance.h"
#include "families/nodes.h"
#include "spirv.h"
#include "system/save.h"

static const char *folder;
static FILE *list;
static fam_key keys[2048];
static uint32_t key_count;

static bool write_source(void *context, const char *source) {
  char path[4096];
  fam_key key = vlk_source_key(source);
  (void)context;
  for (uint32_t i = 0; i < key_count; i++)
    if (!memcmp(&keys[i], &key, sizeof key)) return true;
  snprintf(path, sizeof path, "%s/%u.comp", folder, key_count);
  keel_save save;
  bool good = keel_save_begin(&save, path, 0666);
  if (good) fputs(source, save.file);
  if (!good || !keel_save_end(&save, true)) {
    perror(path);
    return false;
  }
  fprintf(list, "%u 0x%016llx 0x%016llx\n", key_count,
          (unsigned long long)key.words[0], (unsigned long long)key.words[1]);
  keys[key_count++] = key;
  return true;
}

int main(int argc, char **argv) {
  const fam_dialect dialect = {
      .float64 = true, .int64 = true, .keeps_nan = true};
  const fam_dialect software = {
      .float64 = true, .int64 = true, .eager = true, .keeps_nan = true};
  char path[4096];
  if (argc != 2) return 2;
  folder = argv[1];
  snprintf(path, sizeof path, "%s/index", folder);
  keel_save save;
  if (!keel_save_begin(&save, path, 0666)) {
    perror(path);
    return 1;
  }
  list = save.file;
  bool good = fam_each_source(&dialect, fam_glsl, write_source, NULL) &&
              fam_each_source(&software, fam_glsl, write_source, NULL);
  fprintf(stderr, "vulkan_prebuild: %u kernels\n", key_count);
  return keel_save_end(&save, good) && good ? 0 : 1;
}
