/* fingerprint.h - keys of compiled graphs. */
#ifndef KEEL_FINGERPRINT_H
#define KEEL_FINGERPRINT_H

#include "base/base.h"

struct kd_graph;

/* Equal for equal graphs, in each process. */
typedef struct keel_fingerprint {
  uint64_t a, b; /* of the same bytes, from two seeds */
} keel_fingerprint;

keel_fingerprint keel_graph_fingerprint(const struct kd_graph *graph);

#endif /* KEEL_FINGERPRINT_H */
