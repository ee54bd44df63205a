/* dot.c - products of matrices: any dimensions become those of one MatMul. */
#include "frontends/stablehlo/lower.h"

/* An operand's dimensions: those of batches, those that are summed over, and the others. */
typedef struct side {
  const vhlo_type *type;
  uint32_t batch_count, sum_count, free_count;
  int64_t batch[KD_MAX_RANK], sum[KD_MAX_RANK], free[KD_MAX_RANK];
} side;

static keel_status find_free(const hlo *h, const hlo_op *op, side *s) {
  bool used[KD_MAX_RANK] = {0};
  for (uint32_t i = 0; i < s->batch_count; i++)
    used[s->batch[i]] = true;
  for (uint32_t i = 0; i < s->sum_count; i++) {
    if (used[s->sum[i]])
      return hlo_wrong(h, op, "dimension %lld is a batch's, and summed over",
                       (long long)s->sum[i]);
    used[s->sum[i]] = true;
  }
  for (uint32_t i = 0; i < s->type->rank; i++)
    if (!used[i]) s->free[s->free_count++] = i;
  return KD_OK;
}

static int64_t dot_size_of(const side *s, const int64_t *axes, uint32_t count) {
  int64_t size = 1;
  for (uint32_t i = 0; i < count; i++)
    size *= s->type->dims[axes[i]];
  return size;
}

/* As [batch, rows, columns]; last: what is summed over is the columns. */
static keel_value flatten(hlo *h, keel_value value, const side *s, bool last) {
  int64_t order[KD_MAX_RANK], dims[3];
  uint32_t count = 0;
  for (uint32_t i = 0; i < s->batch_count; i++)
    order[count++] = s->batch[i];
  for (uint32_t i = 0; last && i < s->free_count; i++)
    order[count++] = s->free[i];
  for (uint32_t i = 0; i < s->sum_count; i++)
    order[count++] = s->sum[i];
  for (uint32_t i = 0; !last && i < s->free_count; i++)
    order[count++] = s->free[i];
  int64_t sum = dot_size_of(s, s->sum, s->sum_count);
  int64_t rest = dot_size_of(s, s->free, s->free_count);
  dims[0] = dot_size_of(s, s->batch, s->batch_count);
  dims[1] = last ? rest : sum;
  dims[2] = last ? sum : rest;
  value = hlo_transpose(h, value, order, count);
  return s->batch_count ? hlo_reshape(h, value, 3, dims)
                        : hlo_reshape(h, value, 2, dims + 1);
}

/* Sums of booleans are counted. Others are of the result's type where that keeps more than the inputs'. */
static kd_dtype sum_type(const hlo_op *op) {
  kd_dtype in = op->in_types[0]->dtype, out = op->out_types[0]->dtype;
  if (in == KD_BOOL && op->in_types[1]->dtype == in && out == in) return KD_I64;
  if (op->in_types[1]->dtype != in) return out;
  return keel_dtype_size(out) >= keel_dtype_size(in) ? out : in;
}

static keel_status check_sides(const hlo *h, const hlo_op *op, const side *a,
                               const side *b) {
  bool equal = a->batch_count == b->batch_count && a->sum_count == b->sum_count;
  for (uint32_t i = 0; equal && i < a->batch_count; i++)
    equal = a->type->dims[a->batch[i]] == b->type->dims[b->batch[i]];
  for (uint32_t i = 0; equal && i < a->sum_count; i++)
    equal = a->type->dims[a->sum[i]] == b->type->dims[b->sum[i]];
  if (!equal) return hlo_wrong(h, op, "its operands' dimensions do not match");
  kd_dtype dtype = sum_type(op);
  if (a->type->dynamic || b->type->dynamic)
    return hlo_refuse(h, op, "a size that is not known before the run");
  if (hlo_is_complex(dtype) || dtype == KD_BOOL ||
      hlo_is_float(dtype) != hlo_is_float(a->type->dtype) ||
      hlo_is_float(dtype) != hlo_is_float(b->type->dtype))
    return hlo_refuse(h, op, "%s and %s to %s", a->type->what, b->type->what,
                      op->out_types[0]->what);
  return KD_OK;
}

static keel_status dot_product(hlo *h, const hlo_op *op, side *a, side *b) {
  KEEL_TRY(find_free(h, op, a));
  KEEL_TRY(find_free(h, op, b));
  KEEL_TRY(check_sides(h, op, a, b));
  kd_dtype dtype = sum_type(op);
  keel_value left =
      flatten(h, keel_emit_cast(hlo_at(h), op->in[0], dtype), a, true);
  keel_value right =
      flatten(h, keel_emit_cast(hlo_at(h), op->in[1], dtype), b, false);
  keel_value y = HLO(h, "MatMul", left, right);
  y = hlo_reshape(h, y, op->out_types[0]->rank, op->out_types[0]->dims);
  op->out[0] = keel_emit_cast(hlo_at(h), y, op->out_types[0]->dtype);
  return KD_OK;
}

keel_status hlo_dot_general(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  side a = {.type = op->in_types[0]}, b = {.type = op->in_types[1]};
  KEEL_TRY(hlo_axes(h, op, "lhs_batching_dimensions", a.type->rank,
                    &a.batch_count, a.batch));
  KEEL_TRY(hlo_axes(h, op, "rhs_batching_dimensions", b.type->rank,
                    &b.batch_count, b.batch));
  KEEL_TRY(hlo_axes(h, op, "lhs_contracting_dimensions", a.type->rank,
                    &a.sum_count, a.sum));
  KEEL_TRY(hlo_axes(h, op, "rhs_contracting_dimensions", b.type->rank,
                    &b.sum_count, b.sum));
  return dot_product(h, op, &a, &b);
}

keel_status hlo_dot(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  side a = {.type = op->in_types[0], .sum_count = 1};
  side b = {.type = op->in_types[1], .sum_count = 1};
  if (a.type->rank < 1 || a.type->rank > 2 || b.type->rank < 1 ||
      b.type->rank > 2)
    return hlo_wrong(h, op, "operands of rank %u and %u",
                     (unsigned)a.type->rank, (unsigned)b.type->rank);
  a.sum[0] = a.type->rank - 1;
  return dot_product(h, op, &a, &b);
}

/* Its equations are ONNX's. */
keel_status hlo_einsum(hlo *h, const hlo_op *op) {
  const char *equation = "";
  KEEL_TRY(hlo_arity(h, op, op->input_count, 1));
  KEEL_TRY(vhlo_string(&h->v, op->raw, "einsum_config", &equation));
  kd_dtype dtype = op->out_types[0]->dtype;
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->in_types[i]->dtype != dtype || dtype == KD_BOOL)
      return hlo_refuse(h, op, "%s to %s", op->in_types[i]->what,
                        op->out_types[0]->what);
  const keel_attr attr = KEEL_STRING("equation", equation);
  op->out[0] = hlo_node(h, "Einsum", &attr, 1, op->in, op->input_count);
  return KD_OK;
}
