/* layers.h - optional layers between the host and a plugin's tables.
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

/* Wraps a plugin's copied tables in the requested layers. */
keel_status keel_layers_wrap(keel_plugin *plugin);

/* The same for the table of native handles, which it has once it is open. */
void keel_layers_wrap_native(keel_plugin *plugin);

/* The same for the services that a library's plugin gets. */
void keel_layers_wrap_host(kd_host *host);

/* For slots that the loader calls. Returns KD_OK, or the injected status; the plugin is not
 * called then. */
keel_status keel_layers_enter(const char *slot);
/* After such a call, for the trace; began: keel_now before the call. */
void keel_layers_exit(const keel_log *log, const char *slot, uint64_t began,
                      kd_status status);

/* Called when a device of the plugin is open: the layers identify it by its handle. */
void keel_layers_opened(const keel_plugin *plugin, uint32_t index,
                        kd_device *device);

/* To be called when a plugin has been closed: reports leaked objects. */
void keel_layers_closed(const keel_plugin *plugin);

/* Reads KEEL_LAYERS on first use. Returns KD_OK, or why it is invalid. */
keel_status keel_layers_ready(void);

/* "memory.allocate", ... : calls that the fault layer can make fail; NULL past the last. */
const char *keel_layers_slot(uint32_t index);

/* Replaces the layers for plugins loaded from now on: text as in KEEL_LAYERS, or NULL for
 * the environment's. Returns KD_OK, KD_INVALID_ARGUMENT. */
keel_status keel_layers_set(const char *text);

/* Reports whether the requested fault has occurred: a test of an error that never happened would
 * prove nothing. */
void keel_layers_report(const keel_log *log);

/* The number of validation errors so far, and of injected faults. */
uint32_t keel_layers_errors(void);
uint32_t keel_layers_faults(void);

#endif /* KEEL_LAYERS_H */
