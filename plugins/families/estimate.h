/* estimate.h - the cost of an op by its types and attributes: arithmetic and memory
 * traffic, the same on every device. The host measures how fast a device is. */
#ifndef KEEL_FAMILIES_ESTIMATE_H
#define KEEL_FAMILIES_ESTIMATE_H

#include <kd/kd.h>

/* For kd_kernel_def.cost: fills flops and bytes; 0 where sizes are open. */
kd_status estimate_cost(const kd_host *host, const kd_node *node,
                        kd_cost *out_cost);

#endif /* KEEL_FAMILIES_ESTIMATE_H */
