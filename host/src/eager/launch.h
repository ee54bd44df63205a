/* launch.h - one run of a kernel: arguments placed, outputs made, enqueued. */
#ifndef KEEL_LAUNCH_H
#define KEEL_LAUNCH_H

#include "eager/site.h"

/* Runs a binding. out_types are the outputs' types, NULL where the kernel will
 * tell them. */
keel_status keel_launch_run(keel_site *site, const keel_binding *binding,
                            const keel_type *const *out_types,
                            keel_tensor *const *inputs, keel_tensor **outputs,
                            uint32_t donated);

/* Completes this thread's message, if the kernel left one, with what was run. Returns
 * `status`. */
keel_status keel_launch_failed(const keel_site *site,
                               const keel_binding *binding, kd_status status);

/* kd_host.set_output */
kd_status keel_launch_set_output(const kd_launch *view, uint32_t index,
                                 uint32_t rank, const int64_t *dims,
                                 kd_tensor *out_tensor);

#endif /* KEEL_LAUNCH_H */
