/* quantised.c - rules of products and convolutions of integers, and of DynamicQuantizeLinear, which
 * has one range for the shards of all ranks. */
#include "ranks/split/split.h"

/* Where an op has its operands. Bits are inputs. */
typedef struct places {
  uint32_t weights;
  uint32_t one; /* scales and zero points that are one number */
  uint32_t
      per_column; /* those that may be a list, one for each column or kernel; biases */
  bool
      sums; /* it adds and does no more: of parts of its rows, ranks have summands */
  bool range; /* the first operand's range is that of all of it */
} places;

static bool is_one(const keel_splitter *s, uint32_t input) {
  const keel_type *type = keel_split_type(s, input);
  return !keel_split_has(s, input) || (type && type->elements == 1);
}

static bool all_one(const keel_splitter *s, uint32_t bits) {
  for (uint32_t i = 0; i < s->node.input_count; i++)
    if ((bits >> i & 1) && !is_one(s, i)) return false;
  return true;
}

/* Each is one number, or its last dimension is of columns. */
static bool all_per_column(const keel_splitter *s, uint32_t bits,
                           int64_t columns) {
  for (uint32_t i = 0; i < s->node.input_count; i++) {
    const keel_type *type = keel_split_type(s, i);
    if (!(bits >> i & 1) || is_one(s, i)) continue;
    if (!type || !type->rank || type->dims[type->rank - 1] != columns)
      return false;
  }
  return true;
}

/* The inputs besides the two operands, for a shard of the columns. */
static keel_status take_columns(keel_splitter *s, const places *p) {
  for (uint32_t i = 1; i < s->node.input_count; i++) {
    if (i == p->weights) continue;
    KEEL_TRY((p->per_column >> i & 1) && !is_one(s, i)
                 ? keel_split_take_part(s, i, keel_split_type(s, i)->rank - 1)
                 : keel_split_take_whole(s, i));
  }
  return KD_OK;
}

static keel_status take_others_whole(keel_splitter *s, uint32_t but) {
  for (uint32_t i = 1; i < s->node.input_count; i++)
    if (i != but) KEEL_TRY(keel_split_take_whole(s, i));
  return KD_OK;
}

/* ---- products -------------------------------------------------------------------------------- */

/* By a matrix of weights, whose columns are its axis `column`. */
static keel_status by_matrix(keel_splitter *s, const places *p, uint32_t column,
                             bool *out_done) {
  const keel_type *a = keel_split_type(s, 0);
  const keel_type *b = keel_split_type(s, p->weights);
  uint32_t axis = 0, last = a->rank - 1, row = 1 - column;
  bool split = keel_split_is_part(s, 0, &axis), inner = split && axis == last;
  bool columns = keel_split_wants(s, p->weights, column) &&
                 (!split || inner || keel_split_by_annotations(s)) &&
                 keel_split_divides(s, b->dims[column]) &&
                 all_per_column(s, p->per_column, b->dims[column]);
  if (p->sums && keel_split_takes_rows(s, inner, p->weights, row) && last &&
      keel_split_divides(s, b->dims[row])) {
    KEEL_TRY(keel_split_take_part(s, 0, last));
    KEEL_TRY(keel_split_take_part(s, p->weights, row));
    KEEL_TRY(take_others_whole(s, p->weights));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_SUM, 0);
  }
  if (split && !inner && !columns && !p->range) {
    KEEL_TRY(take_others_whole(s, 0));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
  }
  if (!columns) return KD_OK;
  KEEL_TRY(keel_split_take_whole(s, 0));
  KEEL_TRY(keel_split_take_part(s, p->weights, column));
  KEEL_TRY(take_columns(s, p));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART,
                         keel_split_out_type(s, 0)->rank - 1);
}

static keel_status quantised_product(keel_splitter *s, const places *p,
                                     uint32_t column, bool *out_done) {
  const keel_type *a = keel_split_type(s, 0);
  const keel_type *b = keel_split_type(s, p->weights);
  if (!a || !b || !a->rank || !keel_split_out_type(s, 0) || !all_one(s, p->one))
    return KD_OK;
  if (b->rank == 2 && keel_split_is_weight(s, p->weights))
    return by_matrix(s, p, column, out_done);
  if (p->range || !all_one(s, p->per_column)) return KD_OK;
  KEEL_TRY(keel_split_of_batch(s, p->weights, out_done));
  return *out_done ? take_others_whole(s, p->weights) : KD_OK;
}

keel_status keel_split_matmul_integer(keel_splitter *s, bool *out_done) {
  static const places here = {
      .weights = 1, .one = 1 << 2, .per_column = 1 << 3, .sums = true};
  return quantised_product(s, &here, 1, out_done);
}

keel_status keel_split_qlinear_matmul(keel_splitter *s, bool *out_done) {
  static const places here = {.weights = 3,
                              .one = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7,
                              .per_column = 1 << 4 | 1 << 5};
  return quantised_product(s, &here, 1, out_done);
}

/* com.microsoft's MatMulIntegerToFloat. */
keel_status keel_split_matmul_to_float(keel_splitter *s, bool *out_done) {
  static const places here = {.weights = 1,
                              .one = 1 << 2 | 1 << 4,
                              .per_column = 1 << 3 | 1 << 5 | 1 << 6};
  return quantised_product(s, &here, 1, out_done);
}

/* com.microsoft's DynamicQuantizeMatMul. */
keel_status keel_split_dynamic_matmul(keel_splitter *s, bool *out_done) {
  static const places here = {
      .weights = 1, .per_column = 1 << 2 | 1 << 3 | 1 << 4, .range = true};
  return quantised_product(s, &here, 1, out_done);
}

/* com.microsoft's QGemm. */
keel_status keel_split_qgemm(keel_splitter *s, bool *out_done) {
  static const places here = {.weights = 3,
                              .one = 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8,
                              .per_column = 1 << 4 | 1 << 5 | 1 << 6};
  const keel_type *b = keel_split_type(s, 3), *c = keel_split_type(s, 6);
  bool of_rows =
      keel_split_has(s, 6) && (!c || (c->rank == 2 && c->dims[0] > 1));
  if (keel_attr_int(s->node.op, "transA", 0) || !b || b->rank != 2 || of_rows ||
      !keel_split_is_weight(s, 3))
    return KD_OK;
  return quantised_product(
      s, &here, keel_attr_int(s->node.op, "transB", 0) ? 0 : 1, out_done);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static keel_status by_kernels(keel_splitter *s, const places *p,
                              bool *out_done) {
  KEEL_TRY(keel_split_take_part(s, p->weights, 0));
  KEEL_TRY(take_columns(s, p));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, 1);
}

static keel_status conv(keel_splitter *s, const places *p, bool *out_done) {
  const keel_type *x = keel_split_type(s, 0);
  const keel_type *w = keel_split_type(s, p->weights);
  int64_t group = keel_attr_int(s->node.op, "group", 1);
  uint32_t axis = 0;
  bool split = keel_split_is_part(s, 0, &axis), inner = split && axis == 1;
  if (!x || !w || w->rank < 3 || !all_one(s, p->one)) return KD_OK;
  if (split && !axis) {
    KEEL_TRY(take_others_whole(s, 0));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_PART, 0);
  }
  if (!keel_split_is_weight(s, p->weights)) return KD_OK;
  if (p->sums && group == 1 && keel_split_divides(s, w->dims[1]) &&
      keel_split_takes_rows(s, inner, p->weights, 1)) {
    KEEL_TRY(keel_split_take_part(s, 0, 1));
    KEEL_TRY(keel_split_take_part(s, p->weights, 1));
    KEEL_TRY(take_others_whole(s, p->weights));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_SUM, 0);
  }
  if (!keel_split_divides(s, w->dims[0]) ||
      !all_per_column(s, p->per_column, w->dims[0]))
    return KD_OK;
  bool kernels = keel_split_wants(s, p->weights, 0);
  if (inner && keel_split_divides(s, group) &&
      (kernels || !keel_split_by_annotations(s))) {
    KEEL_TRY(keel_split_set_int(s, "group", group / s->params->size));
    return by_kernels(s, p, out_done);
  }
  if (!kernels || group != 1) return KD_OK;
  KEEL_TRY(keel_split_take_whole(s, 0));
  return by_kernels(s, p, out_done);
}

keel_status keel_split_conv_integer(keel_splitter *s, bool *out_done) {
  static const places here = {
      .weights = 1, .one = 1 << 2, .per_column = 1 << 3, .sums = true};
  return conv(s, &here, out_done);
}

keel_status keel_split_qlinear_conv(keel_splitter *s, bool *out_done) {
  static const places here = {.weights = 3,
                              .one = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7,
                              .per_column = 1 << 4 | 1 << 5 | 1 << 8};
  return conv(s, &here, out_done);
}

/* ---- DynamicQuantizeLinear ------------------------------------------------------------------- */

/* The largest and the smallest number of a rank's part, as a list. NaNs count as 0, which each range
 * has. */
static keel_status range_of(keel_splitter *s, uint32_t value,
                            uint32_t *out_range) {
  const int64_t any = -1;
  const float zero = 0;
  const keel_attr keep = KEEL_INT("keepdims", 1);
  keel_emit e = keel_emit_for(s->function, &s->node);
  uint32_t list = keel_emit_reshape(&e, value, &any, 1);
  uint32_t number =
      keel_emit_where(&e, keel_emit_unary(&e, "IsNaN", list),
                      keel_emit_constant(&e, KD_F32, 0, NULL, &zero), list);
  const uint32_t ends[] = {keel_emit_op(&e, "ReduceMax", &keep, 1, &number, 1),
                           keel_emit_op(&e, "ReduceMin", &keep, 1, &number, 1)};
  *out_range = keel_emit_concat(&e, 0, ends, 2);
  return e.status;
}

/* Gives the node three outputs, of which the first is a new value; out_outputs: those that it had,
 * and new ones in place of omitted ones. */
static keel_status give_outputs(keel_splitter *s, uint32_t *out_outputs) {
  keel_function *f = s->function;
  uint32_t *made = keel_arena_take(f->arena, 3 * sizeof *made);
  if (!made) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < 3; i++) {
    bool given = i < s->node.output_count;
    out_outputs[i] = given ? s->node.outputs[i] : KEEL_ABSENT;
    made[i] = i ? out_outputs[i] : KEEL_ABSENT;
    if (made[i] != KEEL_ABSENT) continue;
    made[i] = keel_function_value(f, "");
    if (made[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    f->values[made[i]].producer = s->index;
    if (i) out_outputs[i] = made[i];
  }
  f->nodes[s->index].outputs = made;
  f->nodes[s->index].output_count = 3;
  return KD_OK;
}

/* The scale and the zero point are those of all ranks' ends, which are few; with them each
 * quantises its part. */
keel_status keel_split_dynamic_quantise(keel_splitter *s, bool *out_done) {
  const keel_type *type = keel_split_type(s, 0);
  uint32_t axis = 0, own = KEEL_ABSENT, all = KEEL_ABSENT, outputs[3];
  if (!keel_split_is_part(s, 0, &axis) || !type->elements) return KD_OK;
  uint32_t part = s->node.inputs[0];
  KEEL_TRY(range_of(s, part, &own));
  KEEL_TRY(keel_split_exchange(s, "AllGather", own, &all));
  keel_split_take(s, 0, all);
  KEEL_TRY(give_outputs(s, outputs));
  const uint32_t inputs[] = {part, outputs[1], outputs[2]};
  KEEL_TRY(
      keel_split_add(s, "QuantizeLinear", NULL, 0, inputs, 3, &outputs[0]));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}
