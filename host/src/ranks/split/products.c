/* products.c - rules of products and convolutions: by columns, each rank has a shard of the result;
 * by rows, a summand of it. */
#include "ranks/split/split.h"

bool keel_split_takes_rows(const keel_splitter *s, bool split, uint32_t weights,
                           uint32_t row) {
  return keel_split_by_annotations(s) ? keel_split_wants(s, weights, row)
                                      : split;
}

/* Whether they go by columns; another split of the operand is given up for annotations alone. */
static bool takes_columns(const keel_splitter *s, bool split, uint32_t column) {
  return keel_split_wants(s, 1, column) &&
         (!split || keel_split_by_annotations(s));
}

/* ---- MatMul ---------------------------------------------------------------------------------- */

/* By a matrix of weights. */
static keel_status by_weights(keel_splitter *s, const keel_type *a,
                              const keel_type *b, bool *out_done) {
  uint32_t axis = 0, last = a->rank - 1;
  bool split = keel_split_is_part(s, 0, &axis);
  bool columns =
      takes_columns(s, split, 1) && keel_split_divides(s, b->dims[1]);
  if (keel_split_takes_rows(s, split && axis == last, 1, 0) && a->rank > 1 &&
      keel_split_divides(s, b->dims[0])) {
    KEEL_TRY(keel_split_take_part(s, 0, last));
    KEEL_TRY(keel_split_take_part(s, 1, 0));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_SUM, 0);
  }
  if (split && axis < last && !columns) {
    KEEL_TRY(keel_split_take_whole(s, 1));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
  }
  if (!columns) return KD_OK;
  KEEL_TRY(keel_split_take_whole(s, 0));
  KEEL_TRY(keel_split_take_part(s, 1, 1));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART,
                         keel_split_out_type(s, 0)->rank - 1);
}

/* Rows of A that are split, and a matrix that all ranks have, of weights or not. */
static bool by_rows(const keel_splitter *s, const keel_type *a) {
  uint32_t axis = 0;
  return keel_split_is_part(s, 0, &axis) && axis + 1 < a->rank &&
         !keel_split_is_part(s, 1, &axis) && !keel_split_is_sum(s, 1);
}

/* An axis of the result, as one of an operand of the same rank: of its batch. */
static bool has_batch(const keel_type *type, const keel_type *out,
                      uint32_t axis) {
  return type->rank == out->rank && type->dims[axis] == out->dims[axis];
}

/* Heads, for example. */
keel_status keel_split_of_batch(keel_splitter *s, uint32_t second,
                                bool *out_done) {
  const keel_type *a = keel_split_type(s, 0), *b = keel_split_type(s, second);
  const keel_type *out = keel_split_out_type(s, 0);
  uint32_t axis = 0;
  bool split =
      keel_split_is_part(s, 0, &axis) || keel_split_is_part(s, second, &axis);
  if (!split || a->rank < 3 || axis + 2 >= out->rank ||
      !has_batch(a, out, axis) || !has_batch(b, out, axis))
    return KD_OK;
  KEEL_TRY(keel_split_take_part(s, 0, axis));
  KEEL_TRY(keel_split_take_part(s, second, axis));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

keel_status keel_split_product(keel_splitter *s, bool *out_done) {
  const keel_type *a = keel_split_type(s, 0), *b = keel_split_type(s, 1);
  if (!a || !b || !a->rank || !keel_split_out_type(s, 0)) return KD_OK;
  return b->rank == 2 && (keel_split_is_weight(s, 1) || by_rows(s, a))
             ? by_weights(s, a, b, out_done)
             : keel_split_of_batch(s, 1, out_done);
}

/* ---- Gemm ------------------------------------------------------------------------------------ */

/* C, along an axis of the result that is split. */
static keel_status take_bias(keel_splitter *s, uint32_t axis) {
  const keel_type *c = keel_split_type(s, 2);
  if (!c) return KD_OK;
  bool last = axis == 1 && c->rank && c->dims[c->rank - 1] > 1;
  bool first = axis == 0 && c->rank == 2 && c->dims[0] > 1;
  if (last) return keel_split_take_part(s, 2, c->rank - 1);
  return first ? keel_split_take_part(s, 2, 0) : keel_split_take_whole(s, 2);
}

keel_status keel_split_gemm(keel_splitter *s, bool *out_done) {
  const keel_type *a = keel_split_type(s, 0), *b = keel_split_type(s, 1);
  bool transposed = keel_attr_int(s->node.op, "transB", 0) != 0;
  uint32_t axis = 0, row = transposed ? 1 : 0, column = transposed ? 0 : 1;
  if (!a || !b || !keel_split_is_weight(s, 1) ||
      keel_attr_int(s->node.op, "transA", 0) ||
      (keel_split_has(s, 2) && !keel_split_is_weight(s, 2)))
    return KD_OK;
  bool split = keel_split_is_part(s, 0, &axis);
  bool columns =
      takes_columns(s, split, column) && keel_split_divides(s, b->dims[column]);
  if (keel_split_takes_rows(s, split && axis == 1, 1, row)) {
    if (!keel_split_divides(s, b->dims[row])) return KD_OK;
    KEEL_TRY(keel_split_take_part(s, 0, 1));
    KEEL_TRY(keel_split_take_part(s, 1, row));
    KEEL_TRY(keel_split_take_once(s, 2));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_SUM, 0);
  }
  if (!columns && (!split || axis)) return KD_OK;
  uint32_t to = columns ? 1 : 0;
  if (columns) KEEL_TRY(keel_split_take_whole(s, 0));
  KEEL_TRY(columns ? keel_split_take_part(s, 1, column)
                   : keel_split_take_whole(s, 1));
  KEEL_TRY(take_bias(s, to));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, to);
}

/* ---- Conv ------------------------------------------------------------------------------------ */

/* The output's channels, and the kernels and biases of them. */
static keel_status by_kernels(keel_splitter *s, bool *out_done) {
  KEEL_TRY(keel_split_take_part(s, 1, 0));
  KEEL_TRY(keel_split_take_part(s, 2, 0));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, 1);
}

keel_status keel_split_conv(keel_splitter *s, bool *out_done) {
  const keel_type *x = keel_split_type(s, 0), *w = keel_split_type(s, 1);
  int64_t group = keel_attr_int(s->node.op, "group", 1);
  uint32_t axis = 0;
  bool split = keel_split_is_part(s, 0, &axis);
  bool rows = keel_split_takes_rows(s, split && axis == 1, 1, 1);
  bool kernels = takes_columns(s, split, 0);
  if (split && axis == 0 && !rows && !kernels) {
    KEEL_TRY(keel_split_take_whole(s, 1));
    KEEL_TRY(keel_split_take_whole(s, 2));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_PART, 0);
  }
  if (!x || !w || w->rank < 3 || !keel_split_is_weight(s, 1) ||
      (keel_split_has(s, 2) && !keel_split_is_weight(s, 2)))
    return KD_OK;
  if (rows && group == 1 && keel_split_divides(s, w->dims[1])) {
    KEEL_TRY(keel_split_take_part(s, 0, 1));
    KEEL_TRY(keel_split_take_part(s, 1, 1));
    KEEL_TRY(keel_split_take_once(s, 2));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_SUM, 0);
  }
  if (!keel_split_divides(s, w->dims[0])) return KD_OK;
  bool grouped = keel_split_by_annotations(s) ? kernels : rows;
  if (grouped && split && axis == 1 && keel_split_divides(s, group)) {
    KEEL_TRY(keel_split_set_int(s, "group", group / s->params->size));
    return by_kernels(s, out_done);
  }
  if (!kernels || group != 1) return KD_OK;
  KEEL_TRY(keel_split_take_whole(s, 0));
  return by_kernels(s, out_done);
}
