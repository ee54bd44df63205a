/* shape.c - ops that move elements, and constants. */
#include "frontends/stablehlo/lower.h"

#define INLINE_MOST 64 /* elements of a splat that are written out */

/* One input and output of known sizes. */
static keel_status one(const hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  if (op->in_types[0]->dynamic || op->out_types[0]->dynamic)
    return hlo_refuse(h, op, "a size that is not known before the run");
  return KD_OK;
}

keel_status hlo_reshape_op(hlo *h, const hlo_op *op) {
  KEEL_TRY(one(h, op));
  op->out[0] =
      hlo_reshape(h, op->in[0], op->out_types[0]->rank, op->out_types[0]->dims);
  return KD_OK;
}

keel_status hlo_transpose_op(hlo *h, const hlo_op *op) {
  int64_t axes[KD_MAX_RANK];
  uint32_t count = 0;
  KEEL_TRY(one(h, op));
  KEEL_TRY(hlo_axes(h, op, "permutation", op->in_types[0]->rank, &count, axes));
  if (count != op->in_types[0]->rank)
    return hlo_wrong(h, op, "the permutation has %u dimensions",
                     (unsigned)count);
  op->out[0] = hlo_transpose(h, op->in[0], axes, count);
  return KD_OK;
}

/* Dimension i of the input is dimension axes[i] of the output, in any order. */
keel_status hlo_broadcast_in_dim(hlo *h, const hlo_op *op) {
  int64_t axes[KD_MAX_RANK], order[KD_MAX_RANK], dims[KD_MAX_RANK];
  uint32_t count = 0, next = 0;
  KEEL_TRY(one(h, op));
  const vhlo_type *from = op->in_types[0], *to = op->out_types[0];
  KEEL_TRY(hlo_axes(h, op, "broadcast_dimensions", to->rank, &count, axes));
  if (count != from->rank)
    return hlo_wrong(h, op, "%u dimensions for an input of rank %u",
                     (unsigned)count, (unsigned)from->rank);
  for (uint32_t i = 0; i < to->rank; i++) {
    dims[i] = 1;
    for (uint32_t k = 0; k < count; k++) {
      if (axes[k] != i) continue;
      order[next++] = k;
      dims[i] = from->dims[k];
    }
    if (dims[i] != 1 && dims[i] != to->dims[i])
      return hlo_wrong(h, op, "%lld elements become %lld", (long long)dims[i],
                       (long long)to->dims[i]);
  }
  keel_value x = hlo_transpose(h, op->in[0], order, count);
  x = hlo_reshape(h, x, to->rank, dims);
  op->out[0] = hlo_expand(h, x, to->rank, to->dims);
  return KD_OK;
}

/* New dimensions in front. */
keel_status hlo_broadcast(hlo *h, const hlo_op *op) {
  KEEL_TRY(one(h, op));
  op->out[0] =
      hlo_expand(h, op->in[0], op->out_types[0]->rank, op->out_types[0]->dims);
  return KD_OK;
}

keel_status hlo_concatenate(hlo *h, const hlo_op *op) {
  int64_t axis = 0;
  KEEL_TRY(hlo_arity(h, op, op->input_count, 1));
  KEEL_TRY(hlo_axis(h, op, "dimension", op->out_types[0]->rank, &axis));
  if (!op->input_count) return hlo_wrong(h, op, "it has no inputs");
  op->out[0] = hlo_concat(h, axis, op->in, op->input_count);
  return KD_OK;
}

keel_status hlo_slice(hlo *h, const hlo_op *op) {
  int64_t first[KD_MAX_RANK], limit[KD_MAX_RANK], step[KD_MAX_RANK];
  int64_t axes[KD_MAX_RANK];
  KEEL_TRY(one(h, op));
  const vhlo_type *type = op->in_types[0];
  KEEL_TRY(hlo_ints(h, op, "start_indices", type->rank, first));
  KEEL_TRY(hlo_ints(h, op, "limit_indices", type->rank, limit));
  KEEL_TRY(hlo_ints(h, op, "strides", type->rank, step));
  bool all = true;
  for (uint32_t i = 0; i < type->rank; i++) {
    axes[i] = i;
    all = all && !first[i] && limit[i] == type->dims[i] && step[i] == 1;
    if (first[i] < 0 || limit[i] < first[i] || limit[i] > type->dims[i] ||
        step[i] < 1)
      return hlo_wrong(h, op, "elements %lld to %lld of %lld",
                       (long long)first[i], (long long)limit[i],
                       (long long)type->dims[i]);
  }
  op->out[0] = all ? op->in[0]
                   : HLO(h, "Slice", op->in[0],
                         keel_emit_ints(hlo_at(h), first, type->rank),
                         keel_emit_ints(hlo_at(h), limit, type->rank),
                         keel_emit_ints(hlo_at(h), axes, type->rank),
                         keel_emit_ints(hlo_at(h), step, type->rank));
  return KD_OK;
}

keel_status hlo_reverse_op(hlo *h, const hlo_op *op) {
  int64_t axes[KD_MAX_RANK];
  uint32_t count = 0;
  KEEL_TRY(one(h, op));
  KEEL_TRY(hlo_axes(h, op, "dimensions", op->in_types[0]->rank, &count, axes));
  op->out[0] = op->in[0];
  for (uint32_t i = 0; i < count; i++)
    op->out[0] = hlo_reverse(h, op->out[0], axes[i]);
  return KD_OK;
}

keel_status hlo_pad_op(hlo *h, const hlo_op *op) {
  int64_t low[KD_MAX_RANK], high[KD_MAX_RANK], interior[KD_MAX_RANK];
  int64_t dims[KD_MAX_RANK];
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  const vhlo_type *type = op->in_types[0];
  if (type->dynamic) return hlo_refuse(h, op, "sizes that are not known");
  KEEL_TRY(hlo_ints(h, op, "edge_padding_low", type->rank, low));
  KEEL_TRY(hlo_ints(h, op, "edge_padding_high", type->rank, high));
  KEEL_TRY(hlo_ints(h, op, "interior_padding", type->rank, interior));
  const int64_t most = INT64_C(1) << 40;
  for (uint32_t i = 0; i < type->rank; i++)
    if (low[i] < -most || low[i] > most || high[i] < -most || high[i] > most ||
        interior[i] < 0 || interior[i] > most)
      return hlo_wrong(h, op, "padding of %lld, %lld and %lld",
                       (long long)low[i], (long long)high[i],
                       (long long)interior[i]);
  memcpy(dims, type->dims, type->rank * sizeof *dims);
  op->out[0] =
      hlo_pad(h, op->in[0], op->in[1], type->rank, dims, low, high, interior);
  return KD_OK;
}

/* ---- constants ----------------------------------------------------------------------------- */

/* Every second number of `count` elements, from `first` on. */
static void take_parts(uint8_t *data, int64_t count, size_t size,
                       size_t first) {
  for (int64_t i = 0; i < count; i++)
    memmove(data + (size_t)i * size, data + (2 * (size_t)i + first) * size,
            size);
}

/* `count` elements: all, or one of a splat. part: 0 or 1 of complex ones. */
static keel_status copy_dense(hlo *h, const vhlo_dense *dense, int64_t count,
                              size_t part, keel_value *out_value) {
  const vhlo_type *type = dense->type;
  kd_dtype dtype = hlo_part_type(type->dtype);
  size_t size = (size_t)count * keel_dtype_size(type->dtype);
  const void *data = dense->data;
  uint8_t *copy = NULL;
  if (dense->splat || type->dtype == KD_BOOL || dtype != type->dtype ||
      !keel_aligned_to(data, keel_dtype_alignment(type->dtype))) {
    data = copy = malloc(size + 1);
    if (!copy) return keel_no_memory(size);
    vhlo_dense_copy(dense, copy, count);
    if (dtype != type->dtype)
      take_parts(copy, count, keel_dtype_size(dtype), part);
  }
  bool scalar = count != type->elements;
  *out_value = keel_emit_constant(hlo_at(h), dtype, scalar ? 0 : type->rank,
                                  type->dims, data);
  free(copy);
  return KD_OK;
}

static keel_status shape_add_constant(hlo *h, const vhlo_dense *dense,
                                      size_t part, keel_value *out_value) {
  const vhlo_type *type = dense->type;
  if (!dense->splat || type->elements <= INLINE_MOST)
    return copy_dense(h, dense, type->elements, part, out_value);
  KEEL_TRY(copy_dense(h, dense, 1, part, out_value));
  *out_value = hlo_expand(h, *out_value, type->rank, type->dims);
  return KD_OK;
}

keel_status hlo_constant_value(hlo *h, const hlo_op *op) {
  vhlo_dense dense;
  KEEL_TRY(hlo_arity(h, op, 0, 1));
  KEEL_TRY(vhlo_dense_of(&h->v, op->raw, "value", &dense));
  KEEL_TRY(shape_add_constant(h, &dense, 0, &op->out[0]));
  return hlo_is_complex(dense.type->dtype)
             ? shape_add_constant(h, &dense, 1, &op->out_imag[0])
             : KD_OK;
}

keel_status hlo_iota(hlo *h, const hlo_op *op) {
  int64_t axis = 0, dims[KD_MAX_RANK];
  KEEL_TRY(hlo_arity(h, op, 0, 1));
  const vhlo_type *type = op->out_types[0];
  KEEL_TRY(hlo_axis(h, op, "iota_dimension", type->rank, &axis));
  if (type->dynamic || hlo_is_complex(type->dtype))
    return hlo_refuse(h, op, "complex numbers, or a size that is not known");
  for (uint32_t i = 0; i < type->rank; i++)
    dims[i] = i == axis ? type->dims[i] : 1;
  keel_value x = hlo_range(h, type->dims[axis]);
  x = keel_emit_cast(hlo_at(h), x, type->dtype);
  x = hlo_reshape(h, x, type->rank, dims);
  op->out[0] = hlo_expand(h, x, type->rank, type->dims);
  return KD_OK;
}

keel_status hlo_get_dimension_size(hlo *h, const hlo_op *op) {
  int64_t axis = 0;
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  KEEL_TRY(hlo_axis(h, op, "dimension", op->in_types[0]->rank, &axis));
  int64_t size = op->in_types[0]->dims[axis];
  if (size < 0 || size > INT32_MAX)
    return hlo_refuse(h, op, "a size that is not known before the run");
  op->out[0] = hlo_number(h, KD_I32, (double)size);
  return KD_OK;
}
