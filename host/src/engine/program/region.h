/* region.h - regions: parts of a program that a device's own compiler has compiled. */
#ifndef KEEL_REGION_H
#define KEEL_REGION_H

#include "base/refs.h"
#include "device/device.h"
#include "program/forms.h"
#include "values/type.h"

struct kd_graph;
struct keel_function;

typedef struct keel_region keel_region;

/* Infers the types of a region's outputs from those of its inputs. */
typedef keel_status (*keel_region_infer)(const keel_region *region,
                                         const keel_type *const *in,
                                         const keel_type **out);

struct keel_region {
  atomic_uint refs; /* of nodes: several plans may have it */
  keel_device *device;
  kd_region *handle;
  kd_kernel_def def; /* runs it like a kernel that has no instance */
  uint32_t input_count, output_count;
  const keel_type **types; /* of inputs, then outputs; NULL: of each launch */

  /* If types differ per launch: the part as a function, whose inputs are the region's
   * non-constant inputs; otherwise NULL. */
  struct keel_function *shapes;
  struct keel_function *functions; /* that and what is nested in it */
  keel_arena arena;                /* of these */
  uint32_t *fed; /* by input: the function's value, or KEEL_ABSENT */
  keel_region_infer infer;
};

/* Makes a region of a part: from a compiled form that came with the program or is in the
 * cache, or by the device's compiler. *out_region is NULL if the device cannot compile it
 * (KD_UNIMPLEMENTED): the part then runs op by op.
 *
 * infer  called if types are not known yet
 * held   compiled forms that came with the program, or NULL
 * takes  receives the compiled form of the result; or NULL */
keel_status keel_region_compile(keel_device *device,
                                const struct kd_graph *graph,
                                keel_region_infer infer, keel_forms *held,
                                keel_forms *takes, keel_region **out_region);

static inline keel_region *keel_region_retain(keel_region *region) {
  if (region) keel_refs_take(&region->refs);
  return region;
}

/* Frees, with the last reference, a region that no thread is enqueueing; waits for enqueued
 * work. */
void keel_region_release(keel_region *region);

#endif /* KEEL_REGION_H */
