/* layers.h - what can stand between the host and a plugin's tables.
 *
 * KEEL_LAYERS is a list with commas:
 *
 *   validation             both sides' use of the ABI is checked: objects that are
 *                          gone or another device's, ranges, garbage that a
 *                          plugin returns, leaks at close
 *   trace                  each call that returns a status goes to the log with its
 *                          time, whatever KEEL_LOG says
 *   fault:SLOT=N[:STATUS]  the N-th call of a slot or service fails; keel_layers_slot
 *                          has their names
 *
 * The layers know handles, not wrappers: a plugin sees its own. */
#ifndef KEEL_LAYERS_H
#define KEEL_LAYERS_H

#include "device/device.h"

/* Puts the layers that are asked for around a plugin's copied tables. */
keel_status keel_layers_wrap(keel_plugin *plugin);

/* The same of the table of native handles, which it has when it is open. */
void keel_layers_wrap_native(keel_plugin *plugin);

/* Of the services that a library's plugin gets. */
void keel_layers_wrap_host(kd_host *host);

/* For slots that the loader calls: KD_OK, or the status that the call is to fail
 * with; then the plugin is not called. */
keel_status keel_layers_enter(const char *slot);
/* And when the call has returned, for the trace; began: keel_now. */
void keel_layers_left(const keel_log *log, const char *slot, uint64_t began,
                      kd_status status);

/* Says that a device of the plugin is open: its handle is what the layers know it by. */
void keel_layers_opened(const keel_plugin *plugin, uint32_t index,
                        kd_device *device);

/* When a plugin has been closed: reports what is left of its objects. */
void keel_layers_closed(const keel_plugin *plugin);

/* Reads KEEL_LAYERS, the first time. Returns KD_OK, or says what is wrong with it. */
keel_status keel_layers_ready(void);

/* "memory.allocate", ... : what the fault layer can make fail; NULL past the last. */
const char *keel_layers_slot(uint32_t index);

/* Sets them anew, for what is loaded from now on: the text of KEEL_LAYERS, or
 * NULL for what the environment says. Returns KD_OK, KD_INVALID_ARGUMENT. */
keel_status keel_layers_set(const char *text);

/* What validation has found so far, and whether the fault has struck. */
uint32_t keel_layers_errors(void);
uint32_t keel_layers_faults(void);

#endif /* KEEL_LAYERS_H */
