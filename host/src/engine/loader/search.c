/* search.c - where plugins are searched for, and in which order. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "device/context.h"
#include "loader/loader.h"
#include "system/environment.h"

const char keel_source_application[] = "application";
const char keel_source_environment[] = "environment KEEL_PLUGIN_PATH";

typedef keel_status (*take_fn)(keel_context *, const keel_candidate *);

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n > m && !strcmp(name + n - m, end);
}

static int is_library(const struct dirent *entry) {
  return entry->d_name[0] != '.' && ends_with(entry->d_name, ".so");
}

static int is_manifest(const struct dirent *entry) {
  return entry->d_name[0] != '.' && ends_with(entry->d_name, ".json");
}

/* Calls `each` for the entries of a folder in the order of their names; a
 * folder that is not there has none. */
static keel_status in_folder(keel_context *context, const char *folder,
                             int (*wanted)(const struct dirent *),
                             const char *source, take_fn take,
                             keel_status (*each)(keel_context *, const char *,
                                                 const char *, take_fn)) {
  struct dirent **entries = NULL;
  int count = scandir(folder, &entries, wanted, alphasort);
  keel_status status = KD_OK;
  if (count < 0)
    keel_log_line(&context->log, KD_LOG_DEBUG, "%s (%s): %s", folder, source,
                  strerror(errno));
  else
    keel_log_line(&context->log, KD_LOG_DEBUG, "%s (%s): %d candidate%s",
                  folder, source, count, count == 1 ? "" : "s");
  for (int i = 0; i < count; i++) {
    keel_text path = {0};
    keel_text_add(&path, "%s/%s", folder, entries[i]->d_name);
    if (status == KD_OK)
      status = each(context, keel_text_get(&path), source, take);
    keel_text_free(&path);
    free(entries[i]);
  }
  free(entries);
  return status;
}

static keel_status take_library(keel_context *context, const char *path,
                                const char *source, take_fn take) {
  keel_candidate candidate = {.source = source};
  candidate.path = keel_arena_copy(&context->arena, path);
  return candidate.path ? take(context, &candidate) : KD_OUT_OF_MEMORY;
}

static keel_status take_manifest(keel_context *context, const char *path,
                                 const char *source, take_fn take) {
  keel_candidate candidate = {.source = source};
  keel_manifest_read(&context->arena, path, &candidate);
  return candidate.path ? take(context, &candidate) : KD_OUT_OF_MEMORY;
}

static bool is_folder(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

/* A library, or a manifest. */
static keel_status take_file(keel_context *context, const char *path,
                             const char *source, take_fn take) {
  if (ends_with(path, ".json"))
    return take_manifest(context, path, source, take);
  return take_library(context, path, source, take);
}

static keel_status take_list(keel_context *context, const char *list,
                             take_fn take) {
  while (list && *list) {
    size_t size = strcspn(list, ":");
    if (size) {
      char *path = keel_arena_take(&context->arena, size + 1);
      if (!path) return KD_OUT_OF_MEMORY;
      memcpy(path, list, size);
      KEEL_TRY(is_folder(path)
                   ? in_folder(context, path, is_library,
                               "folder of KEEL_PLUGIN_PATH", take, take_library)
                   : take_file(context, path, keel_source_environment, take));
    }
    list += size + (list[size] == ':');
  }
  return KD_OK;
}

static keel_status take_user_manifests(keel_context *context, take_fn take) {
  char config[PATH_MAX], folder[PATH_MAX + 32];
  if (!keel_user_folder("XDG_CONFIG_HOME", ".config", config, sizeof config))
    return KD_OK;
  snprintf(folder, sizeof folder, "%s/keel/plugins.d", config);
  return in_folder(context, folder, is_manifest, "user's manifest", take,
                   take_manifest);
}

/* The folder keel/ beside libkeel itself. */
static keel_status take_installed(keel_context *context, take_fn take) {
  Dl_info facts;
  if (!dladdr((void *)(uintptr_t)keel_search, &facts) || !facts.dli_fname)
    return KD_OK;
  const char *slash = strrchr(facts.dli_fname, '/');
  keel_text folder = {0};
  keel_text_add(&folder, "%.*s/keel",
                slash ? (int)(slash - facts.dli_fname) : 1,
                slash ? facts.dli_fname : ".");
  keel_status status = in_folder(context, keel_text_get(&folder), is_library,
                                 "install folder", take, take_library);
  keel_text_free(&folder);
  return status;
}

static keel_status take_named(keel_context *context, const char *path,
                              take_fn take) {
  if (!is_folder(path))
    return take_file(context, path, keel_source_application, take);
  struct dirent **entries = NULL;
  int count = scandir(path, &entries, is_library, NULL);
  for (int i = 0; i < count; i++)
    free(entries[i]);
  free(entries);
  if (count > 0)
    return in_folder(context, path, is_library, "application's folder", take,
                     take_library);
  const keel_candidate empty = {
      .path = keel_arena_copy(&context->arena, path),
      .source = keel_source_application,
      .status = KD_NOT_FOUND,
      .reason = "the folder has no plugin (a file NAME.so)",
      .hint = "correct the path"};
  return empty.path ? take(context, &empty) : KD_OUT_OF_MEMORY;
}

keel_status keel_search(keel_context *context,
                        const keel_context_params *params, take_fn take) {
  for (uint32_t i = 0; i < params->entry_count; i++) {
    const keel_candidate linked = {.path = "(linked in)",
                                   .source = keel_source_application,
                                   .entry = params->entries[i]};
    if (!linked.entry)
      return keel_fail(KD_INVALID_ARGUMENT, "entry %u of the plugins is NULL",
                       (unsigned)i);
    KEEL_TRY(take(context, &linked));
  }
  for (uint32_t i = 0; i < params->plugin_count; i++)
    KEEL_TRY(take_named(context, params->plugins[i], take));
  if (params->flags & KEEL_ONLY_NAMED) return KD_OK;
  KEEL_TRY(take_list(context, keel_environment("KEEL_PLUGIN_PATH"), take));
  KEEL_TRY(take_user_manifests(context, take));
  KEEL_TRY(in_folder(context, "/etc/keel/plugins.d", is_manifest,
                     "system's manifest", take, take_manifest));
  KEEL_TRY(in_folder(context, "/usr/share/keel/plugins.d", is_manifest,
                     "system's manifest", take, take_manifest));
  return take_installed(context, take);
}
