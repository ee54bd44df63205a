/* patterns.c - recognises ops that models write with several others, if the device has the op: Gelu
 * (by erf and by tanh), HardSwish, LayerNormalization and RMSNormalization.
 *
 * A product of several factors is read as one list of them, in whatever order they are multiplied
 * and divided. The nodes in between have no other reader, and are removed. */
#include "base/float.h"
#include "device/device.h"
#include "opsets/onnx/passes.h"

#define FACTORS 6
#define NEAR    1e-4 /* of a number that models round as they like */

typedef struct patterns {
  keel_function *function;
  keel_uses uses;
  uint32_t values; /* that are counted */
} patterns;

/* number * values * 1 / values */
typedef struct factors {
  double number;
  uint32_t count;
  struct {
    uint32_t value;
    bool inverse;
  } list[FACTORS];
} factors;

static const keel_node *patterns_maker(const patterns *all, uint32_t value,
                                       const char *op) {
  const keel_node *node = keel_pass_maker(all->function, value);
  return node && keel_pass_is(node, op) ? node : NULL;
}

/* The same, if the value has no other reader. */
static const keel_node *own_maker(const patterns *all, uint32_t value,
                                  const char *op) {
  return value < all->values && all->uses.counts[value] == 1
             ? patterns_maker(all, value, op)
             : NULL;
}

static const keel_type *patterns_type_of(const patterns *all, uint32_t value) {
  return keel_pass_type(all->function, value);
}

/* A constant of one floating number. */
static bool patterns_read_number(const patterns *all, uint32_t value,
                                 double *out) {
  const keel_tensor *tensor = keel_pass_constant(all->function, value);
  uint64_t bits = 0;
  return tensor && tensor->type->elements == 1 &&
         keel_float_decode(tensor->type->dtype, keel_tensor_host_data(tensor),
                           out, &bits);
}

static bool is_near(double number, double wanted) {
  return number > wanted - NEAR * wanted && number < wanted + NEAR * wanted;
}

static bool is_number(const patterns *all, uint32_t value, double wanted) {
  double number = 0;
  return patterns_read_number(all, value, &number) && is_near(number, wanted);
}

/* The other input of a node of two, if one is that number; KEEL_ABSENT: none is. */
static uint32_t other_than(const patterns *all, const keel_node *node,
                           double number) {
  for (uint32_t i = 0; i < 2; i++)
    if (is_number(all, node->inputs[i], number)) return node->inputs[1 - i];
  return KEEL_ABSENT;
}

/* ---- products ------------------------------------------------------------------------- */

static bool add_factor(const patterns *all, uint32_t value, bool inverse,
                       bool whole, factors *to);

/* The inputs of a node that multiplies or divides; false: there are too many. */
static bool patterns_add_inputs(const patterns *all, const keel_node *node,
                                bool inverse, factors *to) {
  bool divides = keel_pass_is(node, "Div");
  if (keel_pass_is(node, "Reciprocal"))
    return add_factor(all, node->inputs[0], !inverse, false, to);
  return add_factor(all, node->inputs[0], inverse, false, to) &&
         add_factor(all, node->inputs[1], inverse != divides, false, to);
}

/* whole: the value itself is the product, for any readers. */
static bool add_factor(const patterns *all, uint32_t value, bool inverse,
                       bool whole, factors *to) {
  static const char *const ops[] = {"Mul", "Div", "Reciprocal"};
  double number = 0;
  if (patterns_read_number(all, value, &number)) {
    to->number *= inverse ? 1 / number : number;
    return true;
  }
  for (size_t i = 0; i < KEEL_COUNT_OF(ops); i++) {
    const keel_node *node = whole ? patterns_maker(all, value, ops[i])
                                  : own_maker(all, value, ops[i]);
    /* x * x is a square, and read as such */
    if (node && (i || whole || node->inputs[0] != node->inputs[1]))
      return patterns_add_inputs(all, node, inverse, to);
  }
  if (value == KEEL_ABSENT || to->count == FACTORS) return false;
  to->list[to->count].value = value;
  to->list[to->count++].inverse = inverse;
  return true;
}

static bool read_factors(const patterns *all, uint32_t value, bool whole,
                         factors *out) {
  *out = (factors){.number = 1};
  return add_factor(all, value, false, whole, out);
}

/* The only factor that is made so; FACTORS: none. */
static uint32_t find_factor(const patterns *all, const factors *of,
                            const char *op, bool inverse) {
  for (uint32_t i = 0; i < of->count; i++)
    if (of->list[i].inverse == inverse && own_maker(all, of->list[i].value, op))
      return i;
  return FACTORS;
}

static bool is_square(const patterns *all, uint32_t value, uint32_t of) {
  const keel_node *mul = patterns_maker(all, value, "Mul");
  return mul && mul->inputs[0] == of && mul->inputs[1] == of;
}

/* x^3, or x * x * x, times a number */
static bool is_cube(const patterns *all, uint32_t value, uint32_t of,
                    double number) {
  factors f;
  if (!read_factors(all, value, false, &f) || !is_near(f.number, number))
    return false;
  const keel_node *pow =
      f.count == 1 ? patterns_maker(all, f.list[0].value, "Pow") : NULL;
  if (pow) return pow->inputs[0] == of && is_number(all, pow->inputs[1], 3);
  uint32_t power = 0;
  for (uint32_t i = 0; i < f.count; i++) {
    if (f.list[i].inverse) return false;
    power += f.list[i].value == of                 ? 1
             : is_square(all, f.list[i].value, of) ? 2
                                                   : 9;
  }
  return power == 3;
}

/* ---- what becomes of it ------------------------------------------------------------------ */

/* The node becomes that op of these inputs, if the device takes it. */
static keel_status become(patterns *all, keel_device *where, uint32_t index,
                          const char *op, const keel_attr *attrs,
                          uint32_t attr_count, const uint32_t *values,
                          uint32_t count) {
  keel_function *function = all->function;
  keel_node made = function->nodes[index];
  made.inputs = keel_arena_take(function->arena, count * sizeof *made.inputs);
  if (!made.inputs) return KD_OUT_OF_MEMORY;
  memcpy(made.inputs, values, count * sizeof *values);
  made.input_count = count;
  KEEL_TRY(keel_opdef_create(function->context, keel_schema_find("", op), attrs,
                             attr_count, NULL, &made.op));
  if (!keel_pass_takes(function, where, &made)) {
    keel_opdef_release(made.op);
    return KD_OK;
  }
  keel_opdef_release(function->nodes[index].op);
  function->nodes[index] = made;
  return KD_OK;
}

/* ---- activations ------------------------------------------------------------------------- */

#define HALF_ROOT   0.70710678118654752 /* of 2 */
#define TANH_FACTOR 0.79788456080286536 /* the root of 2 / pi */
#define TANH_CUBE   0.044715

/* The argument of tanh in Gelu: c (x + d x^3), or c x (1 + d x^2). */
static bool is_tanh_argument(const patterns *all, uint32_t value, uint32_t x) {
  factors f;
  if (!read_factors(all, value, false, &f) || !is_near(f.number, TANH_FACTOR) ||
      f.count < 1 || f.count > 2)
    return false;
  uint32_t at = find_factor(all, &f, "Add", false);
  if (at == FACTORS) return false;
  const keel_node *add = patterns_maker(all, f.list[at].value, "Add");
  if (f.count == 1) {
    for (uint32_t i = 0; i < 2; i++)
      if (add->inputs[i] == x)
        return is_cube(all, add->inputs[1 - i], x, TANH_CUBE);
    return false;
  }
  uint32_t square = other_than(all, add, 1);
  factors g;
  return f.list[1 - at].value == x && !f.list[1 - at].inverse &&
         square != KEEL_ABSENT && read_factors(all, square, false, &g) &&
         g.count == 1 && is_near(g.number, TANH_CUBE) &&
         is_square(all, g.list[0].value, x);
}

static bool is_erf_argument(const patterns *all, uint32_t value, uint32_t x) {
  factors f;
  return read_factors(all, value, false, &f) && f.count == 1 &&
         f.list[0].value == x && !f.list[0].inverse &&
         is_near(f.number, HALF_ROOT);
}

/* x / 2 * (1 + erf(x / sqrt 2)), or its approximation by tanh: the name of the form; NULL:
 * it is none. */
static const char *read_gelu(const patterns *all, const factors *f,
                             uint32_t *out_x) {
  uint32_t at = f->count == 2 && is_near(f->number, 0.5)
                    ? find_factor(all, f, "Add", false)
                    : FACTORS;
  if (at == FACTORS || f->list[1 - at].inverse) return NULL;
  uint32_t function =
      other_than(all, patterns_maker(all, f->list[at].value, "Add"), 1);
  const keel_node *erf = own_maker(all, function, "Erf");
  const keel_node *tanh = own_maker(all, function, "Tanh");
  *out_x = f->list[1 - at].value;
  if (erf && is_erf_argument(all, erf->inputs[0], *out_x)) return "none";
  return tanh && is_tanh_argument(all, tanh->inputs[0], *out_x) ? "tanh" : NULL;
}

/* x * HardSigmoid(x) with its usual numbers, or x * Clip(x + 3, 0, 6) / 6. */
static bool read_hard_swish(const patterns *all, const factors *f,
                            uint32_t *out_x) {
  if (f->count != 2) return false;
  uint32_t gate = find_factor(all, f, "HardSigmoid", false);
  uint32_t clip = find_factor(all, f, "Clip", false);
  uint32_t at = gate != FACTORS ? gate : clip;
  if (at == FACTORS || f->list[1 - at].inverse) return false;
  *out_x = f->list[1 - at].value;
  if (gate != FACTORS) {
    const keel_node *node =
        patterns_maker(all, f->list[at].value, "HardSigmoid");
    return node->inputs[0] == *out_x && is_near(f->number, 1) &&
           is_near((double)keel_attr_float(node->op, "alpha", 0.2f), 1.0 / 6) &&
           is_near((double)keel_attr_float(node->op, "beta", 0.5f), 0.5);
  }
  const keel_node *node = patterns_maker(all, f->list[at].value, "Clip");
  const keel_node *add = own_maker(all, node->inputs[0], "Add");
  double low = 1;
  return add && node->input_count == 3 && is_near(f->number, 1.0 / 6) &&
         patterns_read_number(all, node->inputs[1], &low) && low == 0 &&
         is_number(all, node->inputs[2], 6) &&
         other_than(all, add, 3) == *out_x;
}

/* Whether a value has the type of another: no number has made it larger. */
static bool is_alike(const patterns *all, uint32_t a, uint32_t b) {
  return patterns_type_of(all, a) &&
         patterns_type_of(all, a) == patterns_type_of(all, b);
}

static keel_status visit_activation(patterns *all, keel_device *where,
                                    uint32_t index) {
  uint32_t y = all->function->nodes[index].outputs[0], x = KEEL_ABSENT;
  factors f;
  if (!read_factors(all, y, true, &f)) return KD_OK;
  const char *form = read_gelu(all, &f, &x);
  const keel_attr attr = KEEL_STRING("approximate", form ? form : "");
  if (form && is_alike(all, x, y))
    return become(all, where, index, "Gelu", &attr, 1, &x, 1);
  if (!form && read_hard_swish(all, &f, &x) && is_alike(all, x, y))
    return become(all, where, index, "HardSwish", NULL, 0, &x, 1);
  return KD_OK;
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* The operand of a mean along the last dimension, which stays as 1; KEEL_ABSENT: it is not such a
 * mean. */
static uint32_t read_mean(const patterns *all, const keel_node *mean) {
  const keel_type *type = mean ? patterns_type_of(all, mean->inputs[0]) : NULL;
  uint32_t axes = mean && mean->input_count > 1 ? mean->inputs[1] : KEEL_ABSENT;
  const keel_tensor *tensor = keel_pass_constant(all->function, axes);
  const int64_t *axis = tensor ? keel_tensor_host_data(tensor) : NULL;
  return type && type->rank && axis && tensor->type->dtype == KD_I64 &&
                 tensor->type->elements == 1 &&
                 (*axis == -1 || *axis == (int64_t)type->rank - 1) &&
                 keel_attr_int(mean->op, "keepdims", 1)
             ? mean->inputs[0]
             : KEEL_ABSENT;
}

/* Of sqrt(mean(x x) + epsilon), x; KEEL_ABSENT: it is none. */
static uint32_t read_length(const patterns *all, uint32_t value,
                            double *out_epsilon) {
  const keel_node *root = own_maker(all, value, "Sqrt");
  const keel_node *add = root ? own_maker(all, root->inputs[0], "Add") : NULL;
  for (uint32_t i = 0; add && i < 2; i++) {
    const keel_node *mean = own_maker(all, add->inputs[i], "ReduceMean");
    uint32_t squares = mean ? read_mean(all, mean) : KEEL_ABSENT;
    const keel_node *mul = own_maker(all, squares, "Mul");
    if (mul && mul->inputs[0] == mul->inputs[1] &&
        patterns_read_number(all, add->inputs[1 - i], out_epsilon) &&
        *out_epsilon >= 0)
      return mul->inputs[0];
  }
  return KEEL_ABSENT;
}

/* A scale or shift: one number for each element of a line. */
static bool is_of_line(const patterns *all, uint32_t value, uint32_t x) {
  const keel_type *type = patterns_type_of(all, value),
                  *of = patterns_type_of(all, x);
  return type && of && of->rank && type->rank == 1 &&
         type->dtype == of->dtype && type->dims[0] == of->dims[of->rank - 1];
}

/* x / length(x) * scale */
typedef struct norm {
  uint32_t x, scale;
  double epsilon;
} norm;

static bool read_norm(const patterns *all, uint32_t value, bool whole,
                      norm *out) {
  factors f;
  if (!read_factors(all, value, whole, &f) || f.count != 3 || f.number != 1)
    return false;
  uint32_t at = find_factor(all, &f, "Sqrt", true);
  out->x = at == FACTORS ? KEEL_ABSENT
                         : read_length(all, f.list[at].value, &out->epsilon);
  if (out->x == KEEL_ABSENT) return false;
  uint32_t a = (at + 1) % 3, b = (at + 2) % 3;
  if (f.list[a].inverse || f.list[b].inverse) return false;
  bool first = f.list[a].value == out->x;
  out->scale = f.list[first ? b : a].value;
  return f.list[first ? a : b].value == out->x &&
         is_of_line(all, out->scale, out->x) && is_alike(all, out->x, value);
}

/* Of x less its mean, x; KEEL_ABSENT: it is something else, or read elsewhere. */
static uint32_t read_centred(const patterns *all, uint32_t value) {
  const keel_node *sub = patterns_maker(all, value, "Sub");
  const keel_node *mean =
      sub ? own_maker(all, sub->inputs[1], "ReduceMean") : NULL;
  /* three times: in the square, twice, and in what is scaled */
  return mean && all->uses.counts[value] == 3 &&
                 read_mean(all, mean) == sub->inputs[0]
             ? sub->inputs[0]
             : KEEL_ABSENT;
}

static keel_status visit_layer_norm(patterns *all, keel_device *where,
                                    uint32_t index) {
  const keel_node *add = &all->function->nodes[index];
  norm n;
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t scaled = add->inputs[i], shift = add->inputs[1 - i];
    if (scaled >= all->values || all->uses.counts[scaled] != 1 ||
        !read_norm(all, scaled, true, &n) || !is_of_line(all, shift, n.x))
      continue;
    const keel_attr attrs[] = {KEEL_INT("axis", -1),
                               KEEL_FLOAT("epsilon", (float)n.epsilon)};
    const uint32_t inputs[] = {read_centred(all, n.x), n.scale, shift};
    if (inputs[0] != KEEL_ABSENT)
      return become(all, where, index, "LayerNormalization", attrs, 2, inputs,
                    3);
  }
  return KD_OK;
}

/* By the length alone, or without a shift. */
static keel_status visit_rms_norm(patterns *all, keel_device *where,
                                  uint32_t index) {
  norm n;
  if (!read_norm(all, all->function->nodes[index].outputs[0], true, &n))
    return KD_OK;
  uint32_t x = read_centred(all, n.x);
  const keel_attr attrs[] = {KEEL_INT("axis", -1),
                             KEEL_FLOAT("epsilon", (float)n.epsilon)};
  return become(all, where, index,
                x == KEEL_ABSENT ? "RMSNormalization" : "LayerNormalization",
                attrs, 2,
                (const uint32_t[]){x == KEEL_ABSENT ? n.x : x, n.scale}, 2);
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* From the last node back: a product is read whole, and not a part of it first. */
static keel_status patterns_visit(patterns *all, keel_device *device,
                                  uint32_t index) {
  const keel_node *node = &all->function->nodes[index];
  keel_device *where = node->device ? node->device : device;
  bool product = keel_pass_is(node, "Mul") || keel_pass_is(node, "Div");
  if (!where || node->output_count != 1 || node->outputs[0] == KEEL_ABSENT)
    return KD_OK;
  if (keel_pass_is(node, "Add")) return visit_layer_norm(all, where, index);
  if (!product) return KD_OK;
  KEEL_TRY(visit_activation(all, where, index));
  return keel_pass_is(&all->function->nodes[index], "Mul")
             ? visit_rms_norm(all, where, index)
             : KD_OK;
}

keel_status keel_pass_patterns(keel_function *function, keel_device *device) {
  patterns all = {.function = function, .values = function->value_count};
  keel_status status = keel_uses_count(function, &all.uses);
  for (uint32_t i = function->node_count; status == KD_OK && i-- > 0;)
    if (!function->nodes[i].dead) status = patterns_visit(&all, device, i);
  keel_uses_drop(&all.uses);
  return status == KD_OK ? keel_pass_prune(function) : status;
}
