/* region.h - a part of a program that a device's own compiler has made one thing of. */
#ifndef KEEL_REGION_H
#define KEEL_REGION_H

#include "context.h"
#include "values/type.h"

struct kd_graph;

typedef struct keel_region {
  keel_device *device;
  kd_region *handle;
  kd_kernel_def def; /* runs it like a kernel that has no instance */
  uint32_t input_count, output_count;
  const keel_type **types; /* of inputs, then outputs */
} keel_region;

/* Compiles a part whose types are known. *out_region is NULL where the device says that
 * it can't (KD_UNIMPLEMENTED): the part is run op by op. */
keel_status keel_region_compile(keel_device *device,
                                const struct kd_graph *graph,
                                keel_region **out_region);

/* When nobody enqueues it any more; waits for what is enqueued. */
void keel_region_free(keel_region *region);

#endif /* KEEL_REGION_H */
