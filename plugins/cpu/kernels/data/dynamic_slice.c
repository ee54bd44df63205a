/* dynamic_slice.c - keel::DynamicSlice and DynamicUpdateSlice: parts of a fixed size that begin
 * where a value says, inside of the tensor in any case. */
#include "kernels.h"

/* Where a part of `sizes` begins in x, in elements. */
static int64_t offset_of(const kd_tensor *x, const int64_t *sizes,
                         const kd_tensor *starts) {
  int64_t offset = 0, step = 1;
  for (uint32_t d = x->rank; d-- > 0; step *= x->dims[d]) {
    int64_t start = int_at(starts, d), last = x->dims[d] - sizes[d];
    start = start < 0 ? 0 : start > last ? last : start;
    offset += start * step;
  }
  return offset;
}

/* Moves a part of `sizes` between a packed tensor and a larger one, whose dims are given. */
static void move_part(const int64_t *sizes, uint32_t rank, const int64_t *dims,
                      size_t size, bool out, void *to, const void *from) {
  int64_t large[STRIDED_RANK], small[STRIDED_RANK];
  strided space;
  strided_packed(dims, rank, large);
  strided_packed(sizes, rank, small);
  strided_begin(&space, sizes, rank);
  strided_operand(&space, out ? small : large);
  strided_operand(&space, out ? large : small);
  if (strided_count(&space)) cpu_copy_strided(&space, size, to, from);
}

CPU_KERNEL(cpu_run_dynamic_slice) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  size_t size = kd_dtype_size(x->dtype);
  int64_t offset = offset_of(x, y->dims, &launch->inputs[1]);
  move_part(y->dims, x->rank, x->dims, size, true, y->data,
            (const char *)x->data + (size_t)offset * size);
  return KD_OK;
}

/* The output has the input's elements already. */
CPU_KERNEL(cpu_run_dynamic_update) {
  const kd_tensor *x = &launch->inputs[0], *update = &launch->inputs[1];
  const kd_tensor *y = &launch->outputs[0];
  size_t size = kd_dtype_size(x->dtype);
  int64_t offset = offset_of(x, update->dims, &launch->inputs[2]);
  move_part(update->dims, x->rank, x->dims, size, false,
            (char *)y->data + (size_t)offset * size, update->data);
  return KD_OK;
}
