/* group.h - devices that work together, from inside. */
#ifndef KEEL_INSIDE_GROUP_H
#define KEEL_INSIDE_GROUP_H

#include <keel/group.h>
#include <keel/op.h>

#include <pthread.h>

#include "device/device.h"
#include "values/tensor.h"

struct keel_group {
  atomic_uint refs;
  keel_context *context;
  kd_group *handle; /* the plugin's; NULL: the host does all the work */
  _Atomic uint64_t direct, staged; /* counts alone, relaxed */
  /* groups of some of the members, made when first asked for */
  pthread_mutex_t lock;
  keel_group *parts, *next;
  uint32_t size;
  /* the members in the order in which they are locked */
  keel_device **by_address;
  keel_device *devices[];
};

/* One call; all inputs are ready and in their members' memory. */
typedef struct keel_group_call {
  keel_group *group;
  uint32_t kind, reduction, root; /* as kd_collective */
  keel_tensor *const *inputs;     /* of a broadcast, the root's alone */
  const keel_type *out_type;
} keel_group_call;

/* Lets the plugin do it. Returns KD_UNIMPLEMENTED if it does not; otherwise as the calls of
 * keel/group.h. */
keel_status keel_group_direct(const keel_group_call *call,
                              keel_tensor **outputs);

/* By copies and kernels. Outputs may be pending. */
keel_status keel_group_staged(const keel_group_call *call,
                              keel_tensor **outputs);

/* The group of some members, by their ranks, in that order. It's the group's, as long as that
 * is there. */
keel_status keel_group_part(keel_group *group, const int64_t *ranks,
                            uint32_t count, keel_group **out_part);

/* Calls an op on a device. */
keel_status keel_group_call_on(keel_device *device, const char *op,
                               const keel_attr *attrs, uint32_t attr_count,
                               keel_tensor *const *inputs, uint32_t n,
                               keel_tensor **outputs, uint32_t m);

/* Part i of each member's value, along the first dimension, to member i, which gets them in
 * rank order. */
keel_status keel_group_all_to_all(keel_group *group, keel_tensor *const *inputs,
                                  keel_tensor **outputs);

/* The value in a device's memory; pending if the tensor is, or while it is copied. */
keel_status keel_group_move(keel_device *device, keel_tensor *tensor,
                            keel_tensor **out_tensor);

#endif /* KEEL_INSIDE_GROUP_H */
