/* visible.h - which devices a context shows. */
#ifndef KEEL_LOADER_VISIBLE_H
#define KEEL_LOADER_VISIBLE_H

#include <stdbool.h>

#include "device/device.h"

/* `list` is as KEEL_VISIBLE_DEVICES (keel/context.h); NULL or "": all are visible. */
keel_status keel_visible_check(const char *list);
/* Warns of entries that name no existing plugin or device. */
void keel_visible_warn(const keel_context *context);
bool keel_visible_device(const char *list, const char *plugin, uint32_t index);
/* Whether any of its devices may be visible; otherwise it need not be opened. */
bool keel_visible_plugin(const char *list, const char *plugin);

#endif /* KEEL_LOADER_VISIBLE_H */
