/* reduce.c - reductions: ONNX's where a body is one of its kinds, and otherwise the body
 * itself on halves of the elements, which is one of the orders that StableHLO permits. */
#include "frontends/stablehlo/reduce.h"

/* ---- bodies ----------------------------------------------------------------------------- */

static const struct {
  const char *op;
  hlo_kind kind;
} kinds[] = {
    {"add", HLO_ADD},         {"multiply", HLO_MULTIPLY},
    {"maximum", HLO_MAXIMUM}, {"minimum", HLO_MINIMUM},
    {"and", HLO_AND},         {"or", HLO_OR},
};

/* For booleans add is or, and the like. */
static hlo_kind of_booleans(hlo_kind kind) {
  if (kind == HLO_ADD || kind == HLO_MAXIMUM) return HLO_OR;
  if (kind == HLO_MULTIPLY || kind == HLO_MINIMUM) return HLO_AND;
  return kind;
}

hlo_kind hlo_body_kind(const hlo *h, const bytecode_block *body) {
  if (body->argument_count != 2 || body->op_count != 2) return HLO_OTHER;
  const bytecode_op *op = &body->ops[0], *end = &body->ops[1];
  uint32_t a = body->first_argument, b = a + 1;
  bool right = op->operand_count == 2 && op->result_count == 1 &&
               vhlo_is(end, "return") && end->operand_count == 1 &&
               end->operands[0] == op->first_result &&
               ((op->operands[0] == a && op->operands[1] == b) ||
                (op->operands[0] == b && op->operands[1] == a));
  if (!right) return HLO_OTHER;
  const vhlo_type *type = hlo_type_of(h, a);
  if (type->kind != VHLO_TENSOR || type->rank ||
      hlo_type_of(h, b)->dtype != type->dtype ||
      hlo_type_of(h, op->first_result)->dtype != type->dtype)
    return HLO_OTHER;
  for (size_t i = 0; i < KEEL_COUNT_OF(kinds); i++)
    if (vhlo_is(op, kinds[i].op))
      return type->dtype == KD_BOOL ? of_booleans(kinds[i].kind)
                                    : kinds[i].kind;
  return HLO_OTHER;
}

keel_value hlo_combine(hlo *h, hlo_kind kind, kd_dtype dtype, keel_value a,
                       keel_value b) {
  static const char *const names[] = {
      [HLO_ADD] = "Add",     [HLO_MULTIPLY] = "Mul",   [HLO_MAXIMUM] = "Max",
      [HLO_MINIMUM] = "Min", [HLO_AND] = "BitwiseAnd", [HLO_OR] = "BitwiseOr"};
  if (dtype == KD_BOOL) return HLO(h, kind == HLO_AND ? "And" : "Or", a, b);
  return HLO(h, names[kind], a, b);
}

/* Whether a value is the scalar that leaves every other as it is. */
static bool is_neutral(const hlo *h, keel_value value, hlo_kind kind,
                       kd_dtype dtype) {
  const keel_function *function = h->at->function;
  const keel_tensor *constant =
      value < function->value_count ? function->values[value].constant : NULL;
  uint64_t bits = 0, want = 0;
  uint32_t size = keel_dtype_size(dtype);
  if (!constant || constant->type->elements != 1 || size > sizeof bits ||
      constant->type->dtype != dtype || !constant->data)
    return false;
  memcpy(&bits, constant->data, size);
  uint64_t sign = UINT64_C(1) << (8 * size - 1), ones = sign | (sign - 1);
  static const uint64_t infinity[] = {[KD_F32] = 0x7f800000,
                                      [KD_F16] = 0x7c00,
                                      [KD_F64] = UINT64_C(0x7ff) << 52,
                                      [KD_BF16] = 0x7f80};
  static const uint64_t one[] = {[KD_F32] = 0x3f800000,
                                 [KD_F16] = 0x3c00,
                                 [KD_F64] = UINT64_C(0x3ff) << 52,
                                 [KD_BF16] = 0x3f80};
  bool is_float = hlo_is_float(dtype), has_sign = hlo_is_signed(dtype);
  switch (kind) {
    case HLO_ADD:
    case HLO_OR:
      return bits == 0 || (is_float && bits == sign);
    case HLO_MULTIPLY:
      want = is_float ? one[dtype] : 1;
      break;
    case HLO_MAXIMUM:
      want = is_float ? infinity[dtype] | sign : has_sign ? sign : 0;
      break;
    case HLO_MINIMUM:
      want = is_float ? infinity[dtype] : has_sign ? sign - 1 : ones;
      break;
    case HLO_AND:
      want = dtype == KD_BOOL ? 1 : ones;
      break;
    default:
      return false;
  }
  return bits == want;
}

keel_value hlo_with_start(hlo *h, hlo_kind kind, kd_dtype dtype,
                          keel_value value, keel_value start) {
  if (is_neutral(h, start, kind, dtype)) return value;
  return hlo_combine(h, kind, dtype, start, value);
}

/* ---- kinds that ONNX has ----------------------------------------------------------------- */

static const char *reduction(hlo_kind kind, kd_dtype dtype) {
  switch (kind) {
    case HLO_ADD:
      return "ReduceSum";
    case HLO_MULTIPLY:
      return "ReduceProd";
    case HLO_MAXIMUM:
      return "ReduceMax";
    case HLO_MINIMUM:
      return "ReduceMin";
    case HLO_AND:
      return dtype == KD_BOOL ? "ReduceMin" : NULL;
    case HLO_OR:
      return dtype == KD_BOOL ? "ReduceMax" : NULL;
    default:
      return NULL;
  }
}

static keel_value reduce_axes(hlo *h, const char *name, keel_value value,
                              const int64_t *axes, uint32_t count) {
  const keel_attr drop = KEEL_INT("keepdims", 0);
  const keel_value in[] = {value, keel_emit_ints(hlo_at(h), axes, count)};
  return count ? hlo_node(h, name, &drop, 1, in, 2) : value;
}

/* ---- any kind ------------------------------------------------------------------------------ */

keel_status hlo_combine_lanes(hlo *h, const hlo_lanes *l, const keel_value *a,
                              const keel_value *b, keel_value *results) {
  if (l->kind != HLO_OTHER) {
    results[0] = hlo_combine(h, l->kind, l->op->in_types[0]->dtype, a[0], b[0]);
    return KD_OK;
  }
  const keel_type *shape = hlo_known(h, b[0]);
  for (uint32_t i = 0; i < l->count; i++) {
    l->args[i] = a[i];
    l->args[l->count + i] = b[i];
  }
  KEEL_TRY(hlo_body(h, l->op, &l->op->raw->regions[0], l->args, 2 * l->count,
                    l->count, results));
  for (uint32_t i = 0; shape && i < l->count; i++)
    results[i] = hlo_expand(h, results[i], shape->rank, shape->dims);
  return KD_OK;
}

/* Neighbours are combined, then what that gave, until one is left: the order stays. */
static keel_status fold_axis(hlo *h, const hlo_lanes *l, int64_t axis,
                             keel_value *values, keel_value *room) {
  int64_t size = l->op->in_types[0]->dims[axis];
  keel_value *even = room, *odd = room + l->count;
  while (size > 1) {
    int64_t half = size / 2;
    for (uint32_t i = 0; i < l->count; i++) {
      even[i] = hlo_part(h, values[i], axis, 0, 2 * half, 2);
      odd[i] = hlo_part(h, values[i], axis, 1, 2 * half, 2);
      values[i] = hlo_part(h, values[i], axis, 2 * half, size, 1);
    }
    KEEL_TRY(hlo_combine_lanes(h, l, even, odd, odd));
    for (uint32_t i = 0; i < l->count; i++) {
      const keel_value parts[] = {odd[i], values[i]};
      values[i] = hlo_concat(h, axis, parts, size % 2 ? 2 : 1);
    }
    size = half + size % 2;
  }
  return KD_OK;
}

/* The axes go from the last to the first, so that neighbours are those of memory. */
static keel_status fold(hlo *h, const hlo_lanes *l, const int64_t *axes,
                        uint32_t count, keel_value *values, keel_value *room) {
  const hlo_op *op = l->op;
  for (int64_t axis = op->in_types[0]->rank - 1; axis >= 0; axis--)
    for (uint32_t k = 0; k < count; k++)
      if (axes[k] == axis) KEEL_TRY(fold_axis(h, l, axis, values, room));
  for (uint32_t i = 0; i < l->count; i++)
    values[i] = hlo_reshape(h, values[i], op->out_types[i]->rank,
                            op->out_types[i]->dims);
  for (uint32_t i = 0; i < l->count; i++)
    room[i] = hlo_expand(h, op->in[l->count + i], op->out_types[i]->rank,
                         op->out_types[i]->dims);
  return hlo_combine_lanes(h, l, room, values, op->out);
}

static keel_status any_kind(hlo *h, const hlo_op *op, const int64_t *axes,
                            uint32_t count) {
  uint32_t lane_count = op->output_count;
  keel_value *values = calloc(5 * (size_t)lane_count, sizeof *values);
  if (!values) return keel_no_memory(lane_count);
  hlo_lanes l = {
      .op = op, .count = lane_count, .args = values + 3 * (size_t)lane_count};
  memcpy(values, op->in, lane_count * sizeof *values);
  keel_status status = fold(h, &l, axes, count, values, values + lane_count);
  free(values);
  return status;
}

/* ---- reduce -------------------------------------------------------------------------------- */

keel_status hlo_check_lanes(const hlo *h, const hlo_op *op) {
  uint32_t lane_count = op->output_count;
  if (!lane_count || op->input_count != 2 * lane_count ||
      op->raw->region_count != 1)
    return hlo_wrong(h, op, "it has %u inputs, %u results and %u bodies",
                     (unsigned)op->input_count, (unsigned)lane_count,
                     (unsigned)op->raw->region_count);
  const vhlo_type *first = op->in_types[0];
  for (uint32_t i = 0; i < lane_count; i++) {
    const vhlo_type *type = op->in_types[i];
    if (type->dynamic) return hlo_refuse(h, op, "a size that is not known");
    if (op->out_types[i]->dtype != type->dtype)
      return hlo_refuse(h, op, "%s become %s", type->what,
                        op->out_types[i]->what);
    if (type->rank != first->rank ||
        memcmp(type->dims, first->dims, type->rank * sizeof *type->dims) != 0 ||
        op->in_types[lane_count + i]->rank ||
        op->in_types[lane_count + i]->dtype != type->dtype)
      return hlo_wrong(h, op, "the types of input %u do not match",
                       (unsigned)i);
  }
  return KD_OK;
}

/* Nothing to reduce: each result is what it starts with. */
static keel_status starts(hlo *h, const hlo_op *op) {
  for (uint32_t i = 0; i < op->output_count; i++)
    op->out[i] = hlo_expand(h, op->in[op->output_count + i],
                            op->out_types[i]->rank, op->out_types[i]->dims);
  return KD_OK;
}

keel_status hlo_reduce(hlo *h, const hlo_op *op) {
  int64_t axes[KD_MAX_RANK];
  uint32_t count = 0;
  KEEL_TRY(hlo_check_lanes(h, op));
  const vhlo_type *type = op->in_types[0];
  KEEL_TRY(hlo_axes(h, op, "dimensions", type->rank, &count, axes));
  if (op->out_types[0]->rank + count != type->rank)
    return hlo_wrong(h, op, "%u of %u dimensions leave %u", (unsigned)count,
                     (unsigned)type->rank, (unsigned)op->out_types[0]->rank);
  if (!type->elements) return starts(h, op);
  hlo_kind kind = op->output_count == 1 ? hlo_body_kind(h, &op->raw->regions[0])
                                        : HLO_OTHER;
  const char *name = reduction(kind, type->dtype);
  if (!name || hlo_is_complex(type->dtype)) return any_kind(h, op, axes, count);
  op->out[0] = reduce_axes(h, name, op->in[0], axes, count);
  op->out[0] = hlo_with_start(h, kind, type->dtype, op->out[0], op->in[1]);
  return KD_OK;
}

keel_status hlo_map(hlo *h, const hlo_op *op) {
  const vhlo_type *type = op->out_types[0];
  KEEL_TRY(hlo_arity(h, op, op->input_count, 1));
  if (op->raw->region_count != 1 || type->dynamic)
    return hlo_refuse(h, op, "a size that is not known before the run");
  KEEL_TRY(hlo_body(h, op, &op->raw->regions[0], op->in, op->input_count, 1,
                    op->out));
  op->out[0] = hlo_expand(h, op->out[0], type->rank, type->dims);
  return KD_OK;
}
