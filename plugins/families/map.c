/* map.c - elementwise ops: what each computes, and what broadcasts to what. */
#include "families/map.h"

#include <stdio.h>
#include <string.h>

#include "defs/small.h"
#include "families/rows.h"
#include "families/small.h"

/* ---- passes ---------------------------------------------------------------------- */

void fam_map_begin(fam_map *map, const fam_op *op) {
  memset(map, 0, sizeof *map);
  strided_begin(&map->space, op->out[0].dims, op->out[0].rank);
}

void fam_map_broadcast(fam_map *map, const fam_tensor *operand) {
  map->inputs++;
  strided_broadcast(&map->space, operand->dims, operand->rank);
}

/* An operand of one dimension that steps along `axis`, or a scalar. */
static void map_along(fam_map *map, const fam_tensor *operand, uint32_t axis) {
  int64_t steps[KD_MAX_RANK] = {0};
  if (operand->count > 1) steps[axis] = 1;
  map->inputs++;
  strided_operand(&map->space, steps);
}

/* Whether four neighbours are steps of the last dimension, of everything that is not one for
 * all of them, and may lie aligned as four. */
static bool by_vec4(const fam_map *map) {
  const strided *space = &map->space;
  int last = space->rank - 1;
  if (space->dims[last] % 4) return false;
  for (int i = 0; i < space->operands; i++) {
    int64_t step = space->steps[i][last];
    if (i == map->inputs ? step != 1 : step != 0 && step != 1) return false;
    if (!step) continue;
    if (map->from[i] % 4) return false;
    for (int d = 0; d < last; d++)
      if (space->steps[i][d] % 4) return false;
  }
  return true;
}

fam_pass *fam_map_pass(fam_plan *plan, fam_map *map, kd_dtype compute,
                       const char *expression) {
  static const char *const numbers = "01234567";
  char name[16];
  int64_t items = strided_count(&map->space);
  if (items) strided_simplify(&map->space);
  strided *space = &map->space;
  fam_pass *pass = fam_begin(plan, "map");
  if (space->rank == 1) fam_define(pass, "FLAT", "1");
  fam_int(plan, pass, "RANK", space->rank);
  fam_define(pass, "INPUTS", "%d", map->inputs);
  fam_define(pass, "V", "%s", kd_dtype_name(fam_compute(compute)));
  fam_define(pass, "EXPR", "(%s)", expression);
  pass->vec4 = plan->vec4 && items && by_vec4(map);
  if (pass->vec4) fam_define(pass, "VEC4", "1");
  fam_items(plan, pass, pass->vec4 ? items / 4 : items);
  fam_dims(plan, pass, "DIMS", space->rank, space->dims);
  for (int i = 0; i < space->operands; i++) {
    char number = i == map->inputs ? 'Z' : numbers[i];
    if (i == map->inputs) fam_define(pass, "SPREAD", "1");
    snprintf(name, sizeof name, "FROM%c", number);
    fam_int(plan, pass, name, map->from[i]);
    snprintf(name, sizeof name, "STEPS%c", number);
    fam_dims(plan, pass, name, space->rank, space->steps[i]);
  }
  return pass;
}

/* Binds inputs 0, 1 ... and output 0. */
static void bind_all(const fam_op *op, fam_pass *pass, uint32_t inputs) {
  char name[] = "X0";
  for (uint32_t i = 0; i < inputs; i++, name[1]++)
    fam_in(pass, name, op, i);
  fam_out(pass, "Z", op, 0);
}

/* What the expressions of elementwise.def need beside the dialect's own. */
void fam_define_language(fam_pass *pass, kd_dtype compute) {
  kd_dtype type = fam_compute(compute);
  static const kd_dtype twins[KD_DTYPE_COUNT] = {
      [KD_I8] = KD_U8, [KD_I16] = KD_U16, [KD_I32] = KD_U32, [KD_I64] = KD_U64};
  fam_define(pass, "T", "%s", kd_dtype_name(type));
  fam_define(pass, "U", "%s", kd_dtype_name(twins[type] ? twins[type] : type));
  fam_define(pass, "BITS", "%u", (unsigned)kd_dtype_size(type) * 8);
  fam_define(pass, "LIT(x)", "CAST(T, x)");
}

/* Whether it calls more than what every device has on all its floats. */
static bool uses_math(const char *expression) {
  static const char *const everywhere[] = {"fabs", "floor", "ceil", "rint",
                                           "sqrt", "fmax",  "fmin"};
  for (const char *at = strstr(expression, "FN("); at;
       at = strstr(at + 3, "FN(")) {
    bool known = false;
    for (size_t i = 0; i < sizeof everywhere / sizeof *everywhere; i++) {
      size_t size = strlen(everywhere[i]);
      known |= !strncmp(at + 3, everywhere[i], size) && at[3 + size] == ')';
    }
    if (!known) return true;
  }
  return false;
}

/* ---- terms ------------------------------------------------------------------------- */

/* An expression of inputs 0, 1 ... in the type of the first. */
static bool term(const fam_op *op, fam_plan *plan, uint32_t operands,
                 const char *expression, fam_term *out) {
  if (uses_math(expression) && !fam_need_math(op, plan, op->in[0].dtype))
    return false;
  *out = (fam_term){.compute = op->in[0].dtype, .operands = operands};
  for (uint32_t i = 0; i < operands; i++)
    out->inputs[i] = (uint8_t)i;
  snprintf(out->text, sizeof out->text, "%s", expression);
  return true;
}

static void plan_term(const fam_op *op, fam_plan *plan, const fam_term *t) {
  fam_map map;
  char name[] = "X0";
  fam_map_begin(&map, op);
  for (uint32_t i = 0; i < t->operands; i++)
    fam_map_broadcast(&map, &op->in[t->inputs[i]]);
  fam_pass *pass = fam_map_pass(plan, &map, t->compute, t->text);
  fam_define_language(pass, t->compute);
  if (t->has_a) fam_real(pass, "A", t->a);
  if (t->has_b) fam_real(pass, "B", t->b);
  for (uint32_t i = 0; i < t->operands; i++, name[1]++)
    fam_in(pass, name, op, t->inputs[i]);
  fam_out(pass, "Z", op, 0);
}

/* A plan that is a term. */
#define TERM_PLAN(name)                                     \
  void fam_plan_##name(const fam_op *op, fam_plan *plan) {  \
    fam_term t;                                             \
    if (name##_term(op, plan, &t)) plan_term(op, plan, &t); \
  }

/* ---- one and two operands ----------------------------------------------------------- */

typedef struct expression {
  const char *op, *a, *b, *text;
} expression;

static const expression unary_float[] = {
#define UNARY_FLOAT(op, a, b, text) {#op, a, b, #text},
#include "defs/elementwise.def"
};
static const expression unary_int[] = {
#define UNARY_INT(op, text) {#op, "", "", #text},
#include "defs/elementwise.def"
};
static const expression binary_float[] = {
#define BINARY_FLOAT(op, text) {#op, "", "", #text},
#define COMPARE(op, text)      {#op, "", "", #text},
#include "defs/elementwise.def"
};
static const expression binary_int[] = {
#define BINARY_INT(op, text)  {#op, "", "", #text},
#define BINARY_BOOL(op, text) {#op, "", "", #text},
#define COMPARE(op, text)     {#op, "", "", #text},
#include "defs/elementwise.def"
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const expression *map_find(const expression *list, size_t count,
                                  const char *op) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(list[i].op, op)) return &list[i];
  return NULL;
}

static bool unary_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  bool real = fam_is_float(op->in[0].dtype);
  const expression *e =
      real ? map_find(unary_float, COUNT(unary_float), op->row->op)
           : map_find(unary_int, COUNT(unary_int), op->row->op);
  if (!e) {
    fam_fail(op, plan, KD_UNIMPLEMENTED, "not on %s",
             kd_dtype_name(op->in[0].dtype));
    return false;
  }
  if (!term(op, plan, 1, e->text, out)) return false;
  out->has_a = *e->a != 0;
  out->has_b = *e->b != 0;
  if (out->has_a) out->a = fam_attr_real(op, e->a, 0);
  if (out->has_b) out->b = fam_attr_real(op, e->b, 0);
  return true;
}
TERM_PLAN(unary)

static bool named_binary(const fam_op *op, fam_plan *plan, const char *name,
                         fam_term *out) {
  bool real = fam_is_float(op->in[0].dtype);
  const expression *e = real ? map_find(binary_float, COUNT(binary_float), name)
                             : map_find(binary_int, COUNT(binary_int), name);
  if (e) return term(op, plan, 2, e->text, out);
  fam_fail(op, plan, KD_UNIMPLEMENTED, "not on %s",
           kd_dtype_name(op->in[0].dtype));
  return false;
}

static bool binary_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  return named_binary(op, plan, op->row->op, out);
}
TERM_PLAN(binary)

static bool mod_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  return named_binary(op, plan, fam_attr(op, "fmod", 0) ? "FMod" : "Mod", out);
}
TERM_PLAN(mod)

static bool shift_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  bool left = fam_attr_is(op, "direction", "", "LEFT");
  if (left || fam_attr_is(op, "direction", "", "RIGHT"))
    return named_binary(op, plan, left ? "ShiftLeft" : "ShiftRight", out);
  fam_fail(op, plan, KD_INVALID_ARGUMENT,
           "direction is neither LEFT nor"
           " RIGHT");
  return false;
}
TERM_PLAN(shift)

/* The exponent has a type of its own. */
static bool pow_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  kd_dtype type = op->in[0].dtype;
  bool wide = type == KD_F64 || !fam_is_float(type);
  if (wide && !plan->float64) {
    fam_fail(op, plan, KD_UNIMPLEMENTED, "needs f64");
    return false;
  }
  /* f64 has not all digits of 64 bits, and of the others all of a power, if not exactly */
  bool whole = !fam_is_float(type) && !fam_is_float(op->in[1].dtype);
  if (whole && kd_dtype_size(type) == 8) {
    fam_fail(op, plan, KD_UNIMPLEMENTED, "integers of 64 bits");
    return false;
  }
  if (!fam_need_math(op, plan, wide ? KD_F64 : KD_F32) ||
      !term(op, plan, 2,
            whole ? "FN(rint)(FN(pow)(CAST(V, x), CAST(V, y)))"
                  : "FN(pow)(CAST(V, x), CAST(V, y))",
            out))
    return false;
  out->compute = wide ? KD_F64 : KD_F32;
  return true;
}
TERM_PLAN(pow)

static bool not_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  return term(op, plan, 1, "x == CAST(T, 0)", out);
}
TERM_PLAN(not )

static bool is_nan_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  return term(op, plan, 1, "x != x", out);
}
TERM_PLAN(is_nan)

static bool is_inf_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  bool plus = fam_attr(op, "detect_positive", 1) != 0;
  bool minus = fam_attr(op, "detect_negative", 1) != 0;
  return term(op, plan, 1,
              plus && minus ? "x == CAST(T, INF) || x == -CAST(T, INF)"
              : plus        ? "x == CAST(T, INF)"
              : minus       ? "x == -CAST(T, INF)"
                            : "false",
              out);
}
TERM_PLAN(is_inf)

/* By erfc, which keeps its digits where 1 + erf loses them. */
static bool gelu_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  return term(op, plan, 1,
              fam_attr_is(op, "approximate", "none", "tanh")
                  ? "x * (LIT(1) / (LIT(1) + FN(exp)(LIT(-1.5957691216057308) *"
                    " (x + LIT(0.044715) * x * x * x))))"
                  : "x * LIT(0.5) * FN(erfc)(x * LIT(-0.7071067811865476))",
              out);
}
TERM_PLAN(gelu)

/* ---- types ----------------------------------------------------------------------------- */

const char *fam_cast_of(kd_dtype from, kd_dtype to) {
  if (to == KD_BOOL) return "x != CAST(X0_t, 0)";
  /* by f32, numbers would be rounded twice */
  if (from == KD_F64 && to == KD_F16) return "x";
  if (kd_dtype_size(from) >= 4 && from != KD_F32 && to == KD_BF16)
    return from == KD_F64 ? "REAL_TO_BF16(X0_t, x)" : "WHOLE_TO_BF16(X0_t, x)";
  if (!fam_is_float(from) || fam_is_float(to)) return "CAST(Z_t, x)";
  return to == KD_U64                   ? "TO_U64(x)"
         : to == KD_I64 || to == KD_U32 ? "CAST(Z_t, TO_I64(x))"
                                        : "CAST(Z_t, TO_I32(x))";
}

void fam_plan_cast(const fam_op *op, fam_plan *plan) {
  fam_map map;
  kd_dtype from = op->in[0].dtype, to = op->out[0].dtype;
  bool real =
      fam_is_float(from) || onnx_small_float_of(from) || from == KD_F8E8M0;
  if (to == KD_U32 && !plan->int64 && real)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "to u32, without i64");
  if (fam_small_cast(op, plan)) return;
  const char *text = fam_cast_of(from, to);
  fam_map_begin(&map, op);
  fam_map_broadcast(&map, &op->in[0]);
  fam_pass *pass = fam_map_pass(plan, &map, from, text);
  bind_all(op, pass, 1);
}

/* Scales, or zero points: one; one a step along the axis; or one for each block of it,
 * where the space has the axis as blocks and what is in them. */
static void add_scales(const fam_op *op, fam_map *map, uint32_t input,
                       uint32_t axis, int64_t block) {
  const fam_tensor *scales = &op->in[input];
  int64_t steps[KD_MAX_RANK + 1] = {0}, step = 1;
  if (!block || scales->count == 1) {
    map_along(map, scales, axis);
    return;
  }
  for (uint32_t d = scales->rank; d-- > 0; step *= scales->dims[d])
    steps[d > axis ? d + 1 : d] = step;
  map->inputs++;
  strided_operand(&map->space, steps);
}

static void quantised(const fam_op *op, fam_plan *plan, const char *with_zero,
                      const char *without) {
  fam_map map;
  const fam_tensor *x = &op->in[0];
  bool zero = fam_has(op, 2);
  int64_t block = fam_attr(op, "block_size", 0), dims[KD_MAX_RANK + 1];
  uint32_t axis = 0, to = 0;
  if (op->in[1].count != 1)
    axis = fam_axis(op, plan, fam_attr(op, "axis", 1), x->rank);
  else
    block = 0;
  if (block && x->dims[axis] % block)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "a last block that is shorter");
  for (uint32_t d = 0; d < x->rank; d++) {
    dims[to++] = block && d == axis ? x->dims[d] / block : x->dims[d];
    if (block && d == axis) dims[to++] = block;
  }
  fam_map_begin(&map, op);
  strided_begin(&map.space, dims, to);
  map.inputs++;
  strided_broadcast(&map.space, dims, to);
  add_scales(op, &map, 1, axis, block);
  if (zero) add_scales(op, &map, 2, axis, block);
  fam_pass *pass =
      fam_map_pass(plan, &map, x->dtype == KD_I32 ? KD_F64 : KD_F32,
                   zero ? with_zero : without);
  static const int bounds[KD_DTYPE_COUNT][2] = {
      [KD_U8] = {0, UINT8_MAX},
      [KD_I8] = {INT8_MIN, INT8_MAX},
      [KD_U16] = {0, UINT16_MAX},
      [KD_I16] = {INT16_MIN, INT16_MAX}};
  const int *ends = bounds[op->out[0].dtype];
  fam_define(pass, "LOW", "CAST(V, %d)", ends[0]);
  fam_define(pass, "HIGH", "CAST(V, %d)", ends[1]);
  bind_all(op, pass, zero ? 3 : 2);
}

void fam_plan_quantize(const fam_op *op, fam_plan *plan) {
  kd_dtype by = (kd_dtype)fam_attr(op, "precision", KD_NONE);
  if (!by) by = op->in[1].dtype;
  if (by != KD_F32)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "divided as %s", kd_dtype_name(by));
  if (fam_small_quantize(op, plan)) return;
  quantised(op, plan,
            "FN(fmax)(LOW, FN(fmin)(HIGH, FN(rint)(CAST(V, x) / CAST(V, y)) +"
            " CAST(V, z)))",
            "FN(fmax)(LOW, FN(fmin)(HIGH, FN(rint)(CAST(V, x) / CAST(V, y))))");
}

void fam_plan_dequantize(const fam_op *op, fam_plan *plan) {
  kd_dtype from = op->in[0].dtype;
  if (fam_small_dequantize(op, plan)) return;
  if (from == KD_I32 && !plan->float64)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "of i32, without f64");
  quantised(op, plan, "(CAST(V, x) - CAST(V, z)) * CAST(V, y)",
            "CAST(V, x) * CAST(V, y)");
}

/* ---- more operands ------------------------------------------------------------------------ */

void fam_plan_where(const fam_op *op, fam_plan *plan) {
  fam_map map;
  kd_dtype bits = fam_bits(op->in[1].dtype);
  fam_map_begin(&map, op);
  for (uint32_t i = 0; i < 3; i++)
    fam_map_broadcast(&map, &op->in[i]);
  fam_pass *pass = fam_map_pass(plan, &map, bits, "x != CAST(u8, 0) ? y : z");
  fam_in(pass, "X0", op, 0);
  fam_bind(pass, "X1", FAM_INPUT, 1, bits);
  fam_bind(pass, "X2", FAM_INPUT, 2, bits);
  fam_bind(pass, "Z", FAM_OUTPUT, 0, bits);
}

/* Max, Min, Sum, Mean of up to eight. */
static bool variadic_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  static const char *const names[] = {"x",  "y",  "z",  "w",
                                      "x4", "x5", "x6", "x7"};
  bool most = !strcmp(op->row->op, "Max"), least = !strcmp(op->row->op, "Min");
  const char *outer = most ? "LARGER(" : least ? "SMALLER(" : "(";
  const char *between = most || least ? ", " : " + ";
  char text[512] = ""; /* eight times some 14 letters */
  if (op->in_count > COUNT(names)) {
    fam_fail(op, plan, KD_UNIMPLEMENTED, "%u inputs, and 8 are the most",
             op->in_count);
    return false;
  }
  for (uint32_t i = 1; i < op->in_count; i++)
    strcat(text, outer);
  strcat(text, names[0]);
  for (uint32_t i = 1; i < op->in_count; i++) {
    strcat(text, between);
    strcat(text, names[i]);
    strcat(text, ")");
  }
  if (!strcmp(op->row->op, "Mean")) {
    char divisor[] = " / CAST(V, 0)";
    divisor[sizeof divisor - 3] = (char)('0' + op->in_count);
    strcat(text, divisor);
  }
  return term(op, plan, op->in_count, text, out);
}
TERM_PLAN(variadic)

static bool clip_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  bool low = fam_has(op, 1), high = fam_has(op, 2);
  if (!term(op, plan, 1 + low + high,
            low && high ? "SMALLER(LARGER(x, y), z)"
            : low       ? "LARGER(x, y)"
            : high      ? "SMALLER(x, y)"
                        : "x",
            out))
    return false;
  if (!low) out->inputs[1] = 2;
  return true;
}
TERM_PLAN(clip)

/* In a chain; alone it moves bits, whatever they are. */
static bool where_term(const fam_op *op, fam_plan *plan, fam_term *out) {
  if (!term(op, plan, 3, "x != CAST(u8, 0) ? y : z", out)) return false;
  out->compute = op->out[0].dtype;
  return true;
}

bool fam_term_of(const fam_op *op, fam_plan *plan, fam_term *out_term) {
  static const struct {
    void (*plan)(const fam_op *op, fam_plan *plan);
    bool (*term)(const fam_op *op, fam_plan *plan, fam_term *out);
  } all[] = {{fam_plan_unary, unary_term},       {fam_plan_binary, binary_term},
             {fam_plan_mod, mod_term},           {fam_plan_shift, shift_term},
             {fam_plan_pow, pow_term},           {fam_plan_not, not_term},
             {fam_plan_is_nan, is_nan_term},     {fam_plan_is_inf, is_inf_term},
             {fam_plan_gelu, gelu_term},         {fam_plan_clip, clip_term},
             {fam_plan_variadic, variadic_term}, {fam_plan_where, where_term}};
  for (size_t i = 0; i < COUNT(all); i++)
    if (op->row->plan == all[i].plan) return all[i].term(op, plan, out_term);
  return false;
}

/* Statistics are given: what inference needs. */
void fam_plan_batch_norm(const fam_op *op, fam_plan *plan) {
  fam_map map;
  if (fam_attr(op, "training_mode", 0) || op->in[0].rank < 2)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "training, or no channels");
  fam_map_begin(&map, op);
  fam_map_broadcast(&map, &op->in[0]);
  for (uint32_t i = 1; i < 5; i++)
    map_along(&map, &op->in[i], 1);
  bool wide = op->in[0].dtype == KD_F64;
  fam_pass *pass =
      fam_map_pass(plan, &map, wide ? KD_F64 : KD_F32,
                   "(CAST(V, x) - CAST(V, w)) / FN(sqrt)(CAST(V, x4) + CAST(V,"
                   " EPSILON)) * CAST(V, y) + CAST(V, z)");
  fam_real(pass, "EPSILON", fam_attr_real(op, "epsilon", 1e-5));
  bind_all(op, pass, 5);
}

/* ---- made from nothing ------------------------------------------------------------------------ */

/* A host input's only element as a value of type V. */
static void use_scalar(const fam_op *op, fam_plan *plan, fam_pass *pass,
                       const char *name, uint32_t input) {
  char low[24], high[24];
  kd_dtype type = op->in[input].dtype;
  uint64_t word = 0;
  snprintf(low, sizeof low, "%s_LOW", name);
  snprintf(high, sizeof high, "%s_HIGH", name);
  if (!op->in[input].data)
    FAM_REFUSE(op, plan, KD_INTERNAL, "input %u is not on the host", input);
  memcpy(&word, op->in[input].data, kd_dtype_size(type));
  if (type == KD_I32 || type == KD_I16 || type == KD_I8)
    word = (uint64_t)(int64_t)fam_host_real(&op->in[input], 0);
  fam_int(plan, pass, low, (int32_t)(uint32_t)word);
  fam_int(plan, pass, high, (int32_t)(uint32_t)(word >> 32));
  if (kd_dtype_size(type) < 8)
    fam_define(pass, name,
               type == KD_F32 ? "AS_F32(%s)" : "CAST(V, CAST(u32, %s))", low);
  else
    fam_define(
        pass, name,
        type == KD_F64 ? "AS_F64(WORD(%s, %s))" : "CAST(V, WORD(%s, %s))", high,
        low);
}

void fam_plan_range(const fam_op *op, fam_plan *plan) {
  fam_map map;
  kd_dtype type = op->in[0].dtype;
  if (type == KD_F16 || type == KD_BF16)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "of %s", kd_dtype_name(type));
  fam_map_begin(&map, op);
  fam_pass *pass =
      fam_map_pass(plan, &map, type, "START + CAST(V, ELEMENT) * DELTA");
  use_scalar(op, plan, pass, "START", 0);
  use_scalar(op, plan, pass, "DELTA", 2);
  fam_out(pass, "Z", op, 0);
}

void fam_plan_constant(const fam_op *op, fam_plan *plan) {
  fam_map map;
  kd_tensor value;
  kd_dtype bits = fam_bits(op->out[0].dtype);
  uint64_t word = 0;
  if (bits == KD_C128) FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "of 16 bytes");
  if (op->host->node->attr_tensor(op->node, "value", &value) == KD_OK)
    memcpy(&word, value.data, kd_dtype_size(bits));
  fam_map_begin(&map, op);
  fam_pass *pass = fam_map_pass(
      plan, &map, bits,
      bits == KD_U64 ? "WORD(HIGH, LOW)" : "CAST(V, CAST(u32, LOW))");
  fam_int(plan, pass, "LOW", (int32_t)(uint32_t)word);
  fam_int(plan, pass, "HIGH", (int32_t)(uint32_t)(word >> 32));
  fam_bind(pass, "Z", FAM_OUTPUT, 0, bits);
}

void fam_plan_eye(const fam_op *op, fam_plan *plan) {
  fam_map map;
  fam_map_begin(&map, op);
  fam_pass *pass = fam_map_pass(plan, &map, op->out[0].dtype,
                                "ELEMENT % COLUMNS - ELEMENT / COLUMNS == K ?"
                                " CAST(V, 1) : CAST(V, 0)");
  fam_int(plan, pass, "COLUMNS", op->out[0].dims[1]);
  fam_int(plan, pass, "K", fam_attr(op, "k", 0));
  fam_out(pass, "Z", op, 0);
}

void fam_plan_trilu(const fam_op *op, fam_plan *plan) {
  fam_map map;
  int64_t k = 0;
  const fam_tensor *x = &op->in[0];
  if (x->rank < 2)
    FAM_REFUSE(op, plan, KD_INVALID_ARGUMENT, "needs rows and columns");
  if (fam_host_ints(op, plan, 1, &k, 1) < 0) return;
  if (k > INT32_MAX) k = INT32_MAX; /* past every diagonal */
  if (k < -INT32_MAX) k = -INT32_MAX;
  kd_dtype bits = fam_bits(x->dtype);
  fam_map_begin(&map, op);
  fam_map_broadcast(&map, x);
  fam_pass *pass = fam_map_pass(
      plan, &map, bits,
      fam_attr(op, "upper", 1)
          ? "ELEMENT % COLUMNS - ELEMENT / COLUMNS % ROWS >= K ? x : ZERO_OF(V)"
          : "ELEMENT % COLUMNS - ELEMENT / COLUMNS % ROWS <= K ? x : "
            "ZERO_OF(V)");
  fam_int(plan, pass, "COLUMNS", x->dims[x->rank - 1]);
  fam_int(plan, pass, "ROWS", x->dims[x->rank - 2]);
  fam_int(plan, pass, "K", k);
  fam_bind(pass, "X0", FAM_INPUT, 0, bits);
  fam_bind(pass, "Z", FAM_OUTPUT, 0, bits);
}

/* values are {off, on}. */
void fam_plan_one_hot(const fam_op *op, fam_plan *plan) {
  fam_map map;
  const fam_tensor *out = &op->out[0];
  uint32_t axis = fam_axis(op, plan, fam_attr(op, "axis", -1), out->rank);
  int64_t steps[KD_MAX_RANK] = {0}, step = 1;
  for (uint32_t d = out->rank; d-- > 0;) {
    if (d == axis) continue;
    steps[d] = step;
    step *= out->dims[d];
  }
  kd_dtype bits = fam_bits(op->in[2].dtype);
  fam_tensor one = {.count = 1};
  fam_map_begin(&map, op);
  map.inputs++;
  strided_operand(&map.space, steps);
  map_along(&map, &one, 0);
  map_along(&map, &one, 0);
  map.from[2] = 1;
  fam_pass *pass = fam_map_pass(
      plan, &map, bits,
      "(x < CAST(X0_t, 0) ? x + CAST(X0_t, DEPTH) : x) == CAST(X0_t,"
      " ELEMENT / INNER % DEPTH) ? z : y");
  fam_int(plan, pass, "DEPTH", out->dims[axis]);
  fam_int(plan, pass, "INNER", fam_product(out->dims, axis + 1, out->rank));
  fam_in(pass, "X0", op, 0);
  fam_bind(pass, "X1", FAM_INPUT, 2, bits);
  fam_bind(pass, "X2", FAM_INPUT, 2, bits);
  fam_bind(pass, "Z", FAM_OUTPUT, 0, bits);
}

/* Blackman, Hamming, Hann. */
void fam_plan_window(const fam_op *op, fam_plan *plan) {
  fam_map map;
  const char *name = op->row->op;
  kd_dtype wide = op->out[0].dtype == KD_F64 ? KD_F64 : KD_F32;
  if (!fam_need_math(op, plan, wide)) return;
  fam_map_begin(&map, op);
  fam_pass *pass = fam_map_pass(
      plan, &map, wide,
      !strcmp(name, "BlackmanWindow")
          ? "CAST(V, 0.42) - CAST(V, 0.5) * FN(cos)(ANGLE) + CAST(V, 0.08) *"
            " FN(cos)(CAST(V, 2) * ANGLE)"
      : !strcmp(name, "HammingWindow")
          ? "CAST(V, 25.0) / CAST(V, 46.0) - CAST(V, 21.0) / CAST(V, 46.0) *"
            " FN(cos)(ANGLE)"
          : "CAST(V, 0.5) - CAST(V, 0.5) * FN(cos)(ANGLE)");
  fam_define(
      pass, "ANGLE",
      "(CAST(V, 6.283185307179586) * CAST(V, ELEMENT) / CAST(V, PERIOD))");
  fam_int(plan, pass, "PERIOD",
          op->out[0].count - (fam_attr(op, "periodic", 1) ? 0 : 1));
  fam_out(pass, "Z", op, 0);
}
