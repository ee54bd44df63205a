/* into.c - puts outputs of a run into memory that the caller has given. */
#include "run/into.h"

#include "device/context.h"
#include "device/device.h"

#define ALIGNMENT 64 /* that kernels may rely on, as of pooled memory */

/* ---- what is given --------------------------------------------------------------- */

static bool ranges_overlap(const void *a, uint64_t a_size, const void *b,
                           uint64_t b_size) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return x < y ? y - x < a_size : x - y < b_size;
}

/* Whether an input's elements lie in a piece. */
static bool is_input(keel_tensor *input, const keel_output_memory *one) {
  return input && keel_tensor_state(input) == KEEL_READY &&
         input->kind == KEEL_DATA && input->data && input->type->bytes &&
         ranges_overlap(input->data, input->type->bytes, one->data, one->size);
}

keel_status keel_into_check(const keel_run_args *args) {
  for (uint32_t i = 0; i < args->into_count; i++) {
    const keel_output_memory *one = &args->into[i];
    if (!one->data || !one->size) continue;
    if (one->size > UINTPTR_MAX - (uintptr_t)one->data)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "the memory for output %u leaves the address space",
                       (unsigned)i);
    for (uint32_t k = 0; k < i; k++)
      if (args->into[k].data &&
          ranges_overlap(args->into[k].data, args->into[k].size, one->data,
                         one->size))
        return keel_fail(KD_INVALID_ARGUMENT,
                         "the memory for outputs %u and %u overlaps; give each"
                         " its own",
                         (unsigned)k, (unsigned)i);
    for (uint32_t k = 0; k < args->input_count; k++)
      if (is_input(args->inputs[k], one))
        return keel_fail(KD_INVALID_ARGUMENT,
                         "the memory for output %u overlaps input %u; give it"
                         " other memory",
                         (unsigned)i, (unsigned)k);
  }
  return KD_OK;
}

/* ---- in place --------------------------------------------------------------------- */

static keel_tensor *tensor_at(keel_context *context, const keel_type *type,
                              void *data) {
  keel_tensor *tensor = NULL;
  return keel_tensor_wrap(context, type->dtype, type->rank, type->dims, data,
                          NULL, NULL, &tensor) == KD_OK
             ? tensor
             : NULL;
}

/* The output that a slot is alone; ABSENT: it is several outputs, which must not share memory. */
static uint32_t output_of_slot(const keel_memory_plan *memory_plan,
                               uint32_t slot) {
  const keel_executable *executable = memory_plan->executable;
  uint32_t found = KEEL_ABSENT;
  for (uint32_t i = 0; i < executable->output_count; i++) {
    const source *at = &memory_plan->values[executable->outputs[i]];
    if (at->origin != FROM_OUTPUT || at->number != slot) continue;
    if (found != KEEL_ABSENT) return KEEL_ABSENT;
    found = i;
  }
  return found;
}

/* Whether a device's kernels write host memory, and have when a call returns. */
static bool writes_here(const keel_device *device, const void *data) {
  return !device || (keel_device_addressable(device) && !device->stream &&
                     keel_aligned_to(data, device->space.alignment
                                               ? device->space.alignment
                                               : ALIGNMENT));
}

keel_tensor *keel_into_slot(const keel_run_args *args,
                            const keel_memory_plan *memory_plan,
                            uint32_t slot) {
  const output_slot *one = &memory_plan->output_slots[slot];
  const uint32_t index = output_of_slot(memory_plan, slot);
  if (index >= args->into_count || one->layout) return NULL;
  const keel_output_memory *into = &args->into[index];
  return into->data && into->size >= one->type->bytes && one->type->bytes &&
                 keel_aligned_to(into->data, ALIGNMENT) &&
                 writes_here(one->heap->device, into->data)
             ? tensor_at(one->heap->context, one->type, into->data)
             : NULL;
}

/* ---- at the end ------------------------------------------------------------------- */

/* Copies an output to where it is to be, and makes it a tensor there. */
static keel_status into_move(keel_context *context, uint32_t index,
                             const keel_output_memory *into,
                             keel_tensor **output) {
  keel_tensor *from = *output, *made = NULL;
  if (from->kind != KEEL_DATA)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "output %u is not a tensor of plain data, which alone can"
                     " be in memory of the caller's",
                     (unsigned)index);
  const keel_type *type = from->type;
  if (into->size < type->bytes)
    return keel_fail(KD_OUT_OF_RANGE,
                     "output %u takes %llu bytes, and the memory for it has"
                     " %llu",
                     (unsigned)index, (unsigned long long)type->bytes,
                     (unsigned long long)into->size);
  if (from->data == into->data || !type->bytes) return KD_OK;
  KEEL_TRY(keel_tensor_read(from, into->data, type->bytes));
  if (!keel_aligned_to(into->data, keel_dtype_alignment(type->dtype)))
    return KD_OK;
  KEEL_TRY(keel_tensor_wrap(context, type->dtype, type->rank, type->dims,
                            into->data, NULL, NULL, &made));
  keel_tensor_release(from);
  *output = made;
  return KD_OK;
}

keel_status keel_into_finish(keel_context *context, const keel_run_args *args) {
  for (uint32_t i = 0; i < args->into_count; i++)
    if (args->into[i].data &&
        keel_tensor_state(args->outputs[i]) != KEEL_FAILED)
      KEEL_TRY(into_move(context, i, &args->into[i], &args->outputs[i]));
  return KD_OK;
}
