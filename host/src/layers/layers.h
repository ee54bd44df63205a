/* layers.h - what can stand between the host and a plugin's tables.
 *
 * KEEL_LAYERS is a list with commas:
 *
 *   validation             both sides' use of the ABI is checked: objects that are
 *                          gone or another device's, ranges, garbage that a
 *                          plugin returns, leaks at close
 *   trace                  each call, with its time, goes to the log (KEEL_LOG=info)
 *   fault:SLOT=N[:STATUS]  the N-th call of a slot or service fails: plugin.open
 *                          device_info device_open; memory.allocate copy_in
 *                          copy_out copy fill; stream.create wait flush
 *                          synchronize; event.create record query wait;
 *                          kernel.supports create enqueue; capture.begin end
 *                          launch update; peer.copy;
 *                          host.allocate option set_output constant attr_tensor
 *                          cache_get cache_put
 *
 * The layers know handles, not wrappers: a plugin sees its own. */
#ifndef KEEL_LAYERS_H
#define KEEL_LAYERS_H

#include "context.h"

/* Puts the layers that are asked for around a plugin's copied tables. */
keel_status keel_layers_wrap(keel_plugin *plugin);

/* Of the services that a library's plugin gets. */
void keel_layers_wrap_host(kd_host *host);

/* For slots that the loader calls: KD_OK, or the status that the call is to fail
 * with; then the plugin is not called. */
keel_status keel_layers_enter(const char *slot);

/* When a plugin has been closed: reports what is left of its objects. */
void keel_layers_closed(const keel_plugin *plugin);

/* Sets them anew, for what is loaded from now on: the text of KEEL_LAYERS, or
 * NULL for what the environment says. Returns KD_OK, KD_INVALID_ARGUMENT. */
keel_status keel_layers_set(const char *text);

/* What validation has found so far, and whether the fault has struck. */
uint32_t keel_layers_errors(void);
uint32_t keel_layers_faults(void);

#endif /* KEEL_LAYERS_H */
