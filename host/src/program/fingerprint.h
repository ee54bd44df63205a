/* fingerprint.h - keys of compiled graphs. */
#ifndef KEEL_FINGERPRINT_H
#define KEEL_FINGERPRINT_H

#include "base/base.h"

struct kd_graph;

/* Where a device's compiled form of the graph is kept.
 *
 * device  what must be the same for it to fit: plugin, options, product, driver
 * size    of out_key, which gets "region/" and 32 digits */
void keel_graph_fingerprint(const struct kd_graph *graph, const char *device,
                            char *out_key, size_t size);

#endif /* KEEL_FINGERPRINT_H */
