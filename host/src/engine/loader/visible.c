/* visible.c - lists of devices: "opencl,vulkan:1" shows those alone, "-opencl" all but
 * those; the last entry that names a device decides. */
#include "loader/visible.h"
#include "device/context.h"

#include <string.h>

#include "loader/library.h"

#define ANY UINT32_MAX

typedef struct entry {
  bool hides;
  const char *name;
  size_t size;    /* of the plugin's name */
  uint32_t index; /* ANY: all its devices */
} entry;

/* The next entry; *at moves behind it. False at the end, or if it is not an entry: then *at is
 * where that begins. */
static bool next(const char **at, entry *out) {
  const char *from = *at + strspn(*at, ", ");
  size_t size = strcspn(from, ", ");
  *at = from;
  if (!size) return false;
  *out = (entry){.hides = *from == '-', .index = ANY};
  out->name = from + out->hides;
  out->size = strcspn(out->name, ":, ");
  const char *rest = out->name + out->size;
  if (!out->size) return false;
  if (*rest == ':') {
    size_t digits = strspn(++rest, "0123456789");
    if (!digits || digits > 6) return false;
    out->index = 0;
    for (size_t i = 0; i < digits; i++)
      out->index = out->index * 10 + (uint32_t)(*rest++ - '0');
  }
  if (*rest && *rest != ',' && *rest != ' ') return false;
  *at = rest;
  return true;
}

keel_status keel_visible_check(const char *list) {
  entry e;
  while (list && next(&list, &e))
    continue;
  if (!list || !*list) return KD_OK;
  return keel_fail(KD_INVALID_ARGUMENT,
                   "the list of visible devices has \"%.40s\"; entries are"
                   " plugin, plugin:N, -plugin or -plugin:N, with commas"
                   " between",
                   list);
}

/* If no entry shows a device, all the others are shown. */
static bool at_first(const char *list) {
  entry e;
  while (next(&list, &e))
    if (!e.hides) return false;
  return true;
}

static bool is_of(const entry *e, const char *plugin) {
  return strlen(plugin) == e->size && !strncmp(e->name, plugin, e->size);
}

bool keel_visible_device(const char *list, const char *plugin, uint32_t index) {
  entry e;
  if (!list || !*list) return true;
  bool visible = at_first(list);
  while (next(&list, &e))
    if (is_of(&e, plugin) && (e.index == ANY || e.index == index))
      visible = !e.hides;
  return visible;
}

bool keel_visible_plugin(const char *list, const char *plugin) {
  entry e;
  if (!list || !*list) return true;
  bool visible = at_first(list);
  while (next(&list, &e))
    if (is_of(&e, plugin) && (!e.hides || e.index == ANY)) visible = !e.hides;
  return visible;
}

bool keel_visible_next(const char **at, const char **out_name,
                       size_t *out_size) {
  entry e;
  while (*at && next(at, &e)) {
    if (e.hides) continue;
    *out_name = e.name;
    *out_size = e.size;
    return true;
  }
  return false;
}

const char *keel_visible_file(const char *path, char name[NAME_MAX + 1]) {
  const char *slash = strrchr(path, '/');
  snprintf(name, NAME_MAX + 1, "%s", slash ? slash + 1 : path);
  name[strcspn(name, ".")] = 0;
  return name;
}

bool keel_visible_hides(const char *list, const char *plugin) {
  entry e;
  while (next(&list, &e))
    if (is_of(&e, plugin) && e.hides && e.index == ANY) return true;
  return false;
}

static bool names(const entry *e, const keel_plugin *plugin) {
  char file[NAME_MAX + 1];
  if (plugin->name) return is_of(e, plugin->name);
  return plugin->left_out && is_of(e, keel_visible_file(plugin->path, file));
}

void keel_visible_warn(const keel_context *context) {
  const char *at = context->visible;
  entry e;
  while (at && next(&at, &e)) {
    const keel_plugin *found = NULL;
    for (uint32_t i = 0; i < context->plugin_count && !found; i++)
      if (names(&e, context->plugins[i])) found = context->plugins[i];
    if (!found)
      keel_log_line(&context->log, KD_LOG_WARNING,
                    "the list of visible devices names \"%.*s\", and there is"
                    " no such plugin (`keel plugins` lists them)",
                    (int)e.size, e.name);
    else if (found->open && e.index != ANY &&
             e.index >= found->shared->device_count)
      keel_log_line(&context->log, KD_LOG_WARNING,
                    "the list of visible devices names %s:%u, and it has %u",
                    found->name, (unsigned)e.index,
                    (unsigned)found->shared->device_count);
  }
}
