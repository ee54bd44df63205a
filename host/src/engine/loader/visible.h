/* visible.h - which devices a context shows. */
#ifndef KEEL_LOADER_VISIBLE_H
#define KEEL_LOADER_VISIBLE_H

#include <limits.h>
#include <stdbool.h>

#include "device/device.h"

/* `list` is as KEEL_VISIBLE_DEVICES (keel/context.h); NULL or "": all are visible. */
keel_status keel_visible_check(const char *list);
/* Warns of entries that name no existing plugin or device. */
void keel_visible_warn(const keel_context *context);
bool keel_visible_device(const char *list, const char *plugin, uint32_t index);
/* The next plugin that the list shows by an entry of its own, in *at; false past the last. */
bool keel_visible_next(const char **at, const char **out_name,
                       size_t *out_size);
/* "acme" of /opt/acme/acme.so: the likely name of a plugin that is not loaded. */
const char *keel_visible_file(const char *path, char name[NAME_MAX + 1]);
/* Whether an entry hides all devices of the plugin. */
bool keel_visible_hides(const char *list, const char *plugin);
/* Whether any of its devices may be visible; otherwise it need not be opened. */
bool keel_visible_plugin(const char *list, const char *plugin);

#endif /* KEEL_LOADER_VISIBLE_H */
