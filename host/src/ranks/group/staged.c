/* staged.c - collectives of arbitrary devices, by copies and the members' kernels. Each
 * step gets the values of the step before, which may be pending, so no thread waits. */
#include "ranks/group/group.h"

keel_status keel_group_call_on(keel_device *device, const char *op,
                               const keel_attr *attrs, uint32_t attr_count,
                               keel_tensor *const *inputs, uint32_t n,
                               keel_tensor **outputs, uint32_t m) {
  KEEL_TRY(keel_device_push(device));
  keel_status status =
      keel_call(device->context, op, attrs, attr_count, inputs, n, outputs, m);
  keel_device_pop();
  return status;
}

keel_status keel_group_move(keel_device *device, keel_tensor *tensor,
                            keel_tensor **out_tensor) {
  return keel_group_call_on(device, "keel::Copy", NULL, 0, &tensor, 1,
                            out_tensor, 1);
}

static const char *const reductions[] = {"Add", "Mul", "Min", "Max"};

/* In rank order on every device, so that all members get the same bits. */
static keel_status reduce_on(const keel_group_call *call, keel_device *device,
                             keel_tensor *const *parts,
                             keel_tensor **out_tensor) {
  keel_tensor *all = keel_tensor_retain(parts[0]);
  for (uint32_t i = 1; i < call->group->size; i++) {
    keel_tensor *pair[] = {all, parts[i]}, *next = NULL;
    keel_status status = keel_group_call_on(device, reductions[call->reduction],
                                            NULL, 0, pair, 2, &next, 1);
    keel_tensor_release(all);
    if (status != KD_OK) return status;
    all = next;
  }
  keel_status status = keel_group_move(device, all, out_tensor);
  keel_tensor_release(all);
  return status;
}

/* Side by side along the first dimension. */
static keel_status join_on(const keel_group_call *call, keel_device *device,
                           keel_tensor *const *parts,
                           keel_tensor **out_tensor) {
  const keel_attr axis[] = {KEEL_INT("axis", 0)};
  keel_tensor *joined = NULL;
  KEEL_TRY(keel_group_call_on(device, "Concat", axis, 1, parts,
                              call->group->size, &joined, 1));
  keel_status status = keel_group_move(device, joined, out_tensor);
  keel_tensor_release(joined);
  return status;
}

static keel_status staged_all_reduce(const keel_group_call *call,
                                     keel_tensor **outputs) {
  const keel_group *group = call->group;
  KEEL_TRY(reduce_on(call, group->devices[0], call->inputs, &outputs[0]));
  for (uint32_t i = 1; i < group->size; i++)
    KEEL_TRY(keel_group_move(group->devices[i], outputs[0], &outputs[i]));
  return KD_OK;
}

static keel_status all_gather(const keel_group_call *call,
                              keel_tensor **outputs) {
  const keel_group *group = call->group;
  for (uint32_t i = 0; i < group->size; i++)
    KEEL_TRY(join_on(call, group->devices[i], call->inputs, &outputs[i]));
  return KD_OK;
}

/* parts[r * size + i] becomes block i of member r's value. */
static keel_status split_all(const keel_group *group,
                             keel_tensor *const *inputs, keel_tensor **parts) {
  const keel_attr attrs[] = {KEEL_INT("axis", 0),
                             KEEL_INT("num_outputs", group->size)};
  for (uint32_t r = 0; r < group->size; r++)
    KEEL_TRY(keel_group_call_on(group->devices[r], "Split", attrs, 2,
                                &inputs[r], 1, parts + (size_t)r * group->size,
                                group->size));
  return KD_OK;
}

/* Part i of each member's value, along the first dimension, reduced or joined, to member i. */
static keel_status split_to_all(const keel_group_call *call,
                                keel_tensor **outputs) {
  const keel_group *group = call->group;
  size_t size = group->size;
  keel_tensor **parts = calloc(size * size + size, sizeof *parts);
  if (!parts) return keel_no_memory(size * size * sizeof *parts);
  keel_tensor **column = parts + size * size;
  keel_status status = split_all(group, call->inputs, parts);
  for (size_t i = 0; i < size && status == KD_OK; i++) {
    for (size_t r = 0; r < size; r++)
      column[r] = parts[r * size + i];
    status = (call->kind == KD_REDUCE_SCATTER ? reduce_on : join_on)(
        call, group->devices[i], column, &outputs[i]);
  }
  for (size_t i = 0; i < size * size; i++)
    keel_tensor_release(parts[i]);
  free(parts);
  return status;
}

static keel_status staged_broadcast(const keel_group_call *call,
                                    keel_tensor **outputs) {
  const keel_group *group = call->group;
  for (uint32_t i = 0; i < group->size; i++)
    KEEL_TRY(keel_group_move(group->devices[i], call->inputs[call->root],
                             &outputs[i]));
  return KD_OK;
}

keel_status keel_group_staged(const keel_group_call *call,
                              keel_tensor **outputs) {
  switch (call->kind) {
    case KD_ALL_REDUCE:
      return staged_all_reduce(call, outputs);
    case KD_ALL_GATHER:
      return all_gather(call, outputs);
    case KD_REDUCE_SCATTER:
    case KD_ALL_TO_ALL:
      return split_to_all(call, outputs);
    default:
      return staged_broadcast(call, outputs);
  }
}
