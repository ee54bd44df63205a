/* total.c - the total order of floats: -NaN, -infinity ... -0, 0 ... infinity, NaN. */
#include "frontends/stablehlo/lower.h"

const bytecode_op *hlo_maker(const hlo *h, const bytecode_block *block,
                             uint32_t value) {
  for (uint32_t i = 0; block && i < block->op_count; i++) {
    const bytecode_op *op = &block->ops[i];
    if (op->result_count && value >= op->first_result &&
        value < op->first_result + op->result_count)
      return op;
  }
  return h->bound[value].maker;
}

/* ---- what makes a value canonical ----------------------------------------------------- */

/* The bits of a float that is the same everywhere in a value. */
static bool constant_bits(const hlo *h, const bytecode_block *block,
                          uint32_t value, uint64_t *out_bits) {
  vhlo_dense dense;
  const bytecode_op *op = hlo_maker(h, block, value);
  if (op && vhlo_is(op, "broadcast_in_dim") && op->operand_count == 1)
    op = hlo_maker(h, block, op->operands[0]);
  if (!op || !vhlo_is(op, "constant") ||
      vhlo_dense_of(&h->v, op, "value", &dense) != KD_OK ||
      !hlo_is_float(dense.type->dtype) ||
      (!dense.splat && dense.type->elements != 1))
    return false;
  *out_bits = 0;
  memcpy(out_bits, dense.data, keel_dtype_size(dense.type->dtype));
  return true;
}

static bool is_positive_nan(const hlo *h, const bytecode_block *block,
                            uint32_t value) {
  static const uint64_t infinity[] = {[KD_F32] = 0x7f800000,
                                      [KD_F16] = 0x7c00,
                                      [KD_F64] = UINT64_C(0x7ff) << 52,
                                      [KD_BF16] = 0x7f80};
  uint64_t bits = 0;
  kd_dtype dtype = hlo_type_of(h, value)->dtype;
  return constant_bits(h, block, value, &bits) && bits > infinity[dtype] &&
         !(bits >> (8 * keel_dtype_size(dtype) - 1));
}

static bool is_zero(const hlo *h, const bytecode_block *block, uint32_t value) {
  uint64_t bits = 1;
  return constant_bits(h, block, value, &bits) && !bits;
}

static bool is_compare(const hlo *h, const bytecode_op *op, uint64_t wanted) {
  uint64_t direction = 0;
  return op && vhlo_is(op, "compare") && op->operand_count == 2 &&
         vhlo_enum(&h->v, op, "comparison_direction", VHLO_DIRECTION,
                   &direction) == KD_OK &&
         direction == wanted;
}

/* select(x != x, NaN, select(x == 0, 0, x)) */
bool hlo_is_canonical(const hlo *h, const bytecode_block *block, uint32_t value,
                      uint32_t *out_of) {
  *out_of = value;
  const bytecode_op *outer = hlo_maker(h, block, value);
  if (!outer || !vhlo_is(outer, "select") || outer->operand_count != 3 ||
      !is_positive_nan(h, block, outer->operands[1]))
    return false;
  const bytecode_op *differs = hlo_maker(h, block, outer->operands[0]);
  const bytecode_op *inner = hlo_maker(h, block, outer->operands[2]);
  if (!is_compare(h, differs, VHLO_NE) ||
      differs->operands[0] != differs->operands[1] || !inner ||
      !vhlo_is(inner, "select") || inner->operand_count != 3)
    return false;
  uint32_t x = differs->operands[0];
  const bytecode_op *equals = hlo_maker(h, block, inner->operands[0]);
  if (inner->operands[2] != x || !is_zero(h, block, inner->operands[1]) ||
      !is_compare(h, equals, VHLO_EQ) || equals->operands[0] != x ||
      !is_zero(h, block, equals->operands[1]))
    return false;
  *out_of = x;
  return true;
}

/* ---- its numbers --------------------------------------------------------------------- */

static kd_dtype total_bits_of(kd_dtype dtype) {
  uint32_t size = keel_dtype_size(dtype);
  return size == 2 ? KD_I16 : size == 4 ? KD_I32 : KD_I64;
}

/* Of negative floats all bits but the sign count the other way round. */
keel_value hlo_total_number(hlo *h, keel_value x, kd_dtype dtype) {
  kd_dtype bits = total_bits_of(dtype);
  return hlo_text(h, NULL, "n = %v; Where(n < 0, BitwiseXor(n, %v), n)",
                  hlo_bits_as(h, x, bits), hlo_least(h, bits, true));
}

keel_value hlo_canonical(hlo *h, keel_value x, kd_dtype dtype) {
  (void)dtype;
  return hlo_text(h, NULL,
                  "x = %v; Where(IsNaN(x), %f~x, Where(x == 0, 0~x, x))", x,
                  __builtin_nan(""));
}
