/* fuse.c - brings BatchNormalization, and sums and products with constants of channels, into
 * the convolution or Gemm before them, BatchNormalization into a MatMul of rows, too, and what follows a convolution into keel::FusedConv or
 * keel::ActivatedConv. */
#include "device/device.h"
#include "eager/call_site.h"
#include "opsets/onnx/passes.h"

/* The node that makes input `input` of `reader`, which alone needs it, on the same
 * device; or NULL. */
static keel_node *sole_maker(keel_function *function, const keel_uses *uses,
                             const keel_node *reader, uint32_t input) {
  uint32_t value = reader->inputs[input];
  if (value == KEEL_ABSENT || uses->counts[value] != 1) return NULL;
  keel_node *node = keel_pass_maker(function, value);
  return node && node->device == reader->device ? node : NULL;
}

/* The same, if it is that op. */
static keel_node *sole_op(keel_function *function, const keel_uses *uses,
                          const keel_node *reader, uint32_t input,
                          const char *op) {
  keel_node *node = sole_maker(function, uses, reader, input);
  return node && keel_pass_is(node, op) ? node : NULL;
}

static const keel_tensor *constant_of(const keel_function *function,
                                      const keel_node *node, uint32_t input) {
  if (input >= node->input_count) return NULL;
  const keel_tensor *tensor = keel_pass_constant(function, node->inputs[input]);
  return tensor && tensor->kind == KEEL_DATA && tensor->type->dtype == KD_F32
             ? tensor
             : NULL;
}

/* ---- what a convolution or Gemm makes, scaled and shifted by channels ------------- */

/* Weights and their channels, those of the output. */
typedef struct made {
  const keel_tensor *weights, *bias; /* bias: or NULL */
  uint32_t axis;                     /* of the weights' dimensions */
  uint32_t behind; /* dimensions of the output after its channels */
  int64_t channels;
} made;

static bool is_maker(const keel_node *node) {
  return keel_pass_is(node, "Conv") || keel_pass_is(node, "ConvTranspose") ||
         keel_pass_is(node, "Gemm");
}

/* False: weights or bias are not constants, or not one for each channel. */
static bool read_maker(const keel_function *function, const keel_node *maker,
                       made *out) {
  bool gemm = keel_pass_is(maker, "Gemm"), given = maker->input_count > 2;
  *out = (made){.weights = constant_of(function, maker, 1),
                .bias = constant_of(function, maker, 2)};
  if (!out->weights || !out->weights->type->elements ||
      out->weights->type->rank < (gemm ? 2 : 3) ||
      (given && maker->inputs[2] != KEEL_ABSENT && !out->bias))
    return false;
  if (gemm)
    out->axis = !keel_attr_int(maker->op, "transB", 0);
  else
    out->axis = keel_pass_is(maker, "ConvTranspose");
  out->behind = gemm ? 0 : out->weights->type->rank - 2;
  out->channels = out->weights->type->dims[out->axis];
  if ((gemm && keel_attr_float(maker->op, "beta", 1) != 1) ||
      (keel_pass_is(maker, "ConvTranspose") &&
       keel_attr_int(maker->op, "group", 1) != 1))
    return false;
  return !out->bias || (out->bias->type->rank == 1 &&
                        out->bias->type->dims[0] == out->channels);
}

/* y = x * scale + shift for each channel: BatchNormalization, or one op with a constant. */
typedef struct affine {
  const float *norm[4]; /* scale, shift, mean, variance; else NULL */
  const float *constant;
  char op;       /* '+', '-', '*', or '/' */
  bool reversed; /* the constant comes first */
  bool each;     /* it has a number for each channel */
  double epsilon;
} affine;

static bool read_norm(const keel_function *function, const keel_node *norm,
                      const made *from, affine *out) {
  if (keel_attr_int(norm->op, "training_mode", 0) || norm->output_count != 1)
    return false;
  out->epsilon = (double)keel_attr_float(norm->op, "epsilon", 1e-5f);
  for (uint32_t i = 0; i < 4; i++) {
    const keel_tensor *vector = constant_of(function, norm, i + 1);
    if (!vector || vector->type->rank != 1 ||
        vector->type->dims[0] != from->channels)
      return false;
    out->norm[i] = vector->data;
  }
  return true;
}

/* Whether a constant has one number, or one for each channel of what is made, and so
 * leaves its shape alone. */
static bool goes_by_channel(const keel_type *type, const made *from,
                            bool *out_each) {
  uint32_t channel = type->rank - 1 - from->behind; /* if it has one */
  *out_each = type->elements != 1;
  if (type->rank > from->behind + 2) return false;
  return !*out_each ||
         (type->rank > from->behind && type->elements == from->channels &&
          type->dims[channel] == from->channels);
}

static bool read_arithmetic(const keel_function *function,
                            const keel_node *node, const made *from,
                            uint32_t constant, affine *out) {
  static const struct {
    const char *name;
    char op;
  } ops[] = {{"Add", '+'}, {"Sub", '-'}, {"Mul", '*'}, {"Div", '/'}};
  for (uint32_t i = 0; i < 4; i++)
    if (keel_pass_is(node, ops[i].name)) out->op = ops[i].op;
  const keel_tensor *tensor =
      out->op ? constant_of(function, node, constant) : NULL;
  out->reversed = constant == 0;
  if (!tensor || (out->reversed && out->op == '/') ||
      !goes_by_channel(tensor->type, from, &out->each))
    return false;
  out->constant = tensor->data;
  return true;
}

static void affine_at(const affine *a, int64_t channel, double *scale,
                      double *shift) {
  double c = a->constant ? (double)a->constant[a->each ? channel : 0] : 0;
  *scale = 1;
  *shift = 0;
  if (!a->constant) {
    *scale = (double)a->norm[0][channel] /
             __builtin_sqrt((double)a->norm[3][channel] + a->epsilon);
    *shift = (double)a->norm[1][channel] - (double)a->norm[2][channel] * *scale;
  } else if (a->op == '*' || a->op == '/') {
    *scale = a->op == '*' ? c : 1 / c;
  } else if (a->op == '+') {
    *shift = c;
  } else {
    *scale = a->reversed ? -1 : 1;
    *shift = a->reversed ? c : -c;
  }
}

static bool is_finite(double value) {
  return value - value == 0;
}

/* w' = w * scale, b' = b * scale + shift. *out_fits: none of them becomes infinite, as what
 * is scaled after the sum may not be. */
static keel_status scaled_weights(keel_function *function, const made *from,
                                  const affine *by, keel_tensor **out_weights,
                                  keel_tensor **out_bias, bool *out_fits) {
  const keel_type *type = from->weights->type;
  int64_t channels = from->channels, inner = 1;
  for (uint32_t i = from->axis + 1; i < type->rank; i++)
    inner *= type->dims[i];
  KEEL_TRY(keel_tensor_create(function->context, KD_F32, type->rank, type->dims,
                              from->weights->data, out_weights));
  KEEL_TRY(keel_tensor_create(function->context, KD_F32, 1, &channels, NULL,
                              out_bias));
  float *w = (*out_weights)->data, *b = (*out_bias)->data;
  for (int64_t c = 0; c < channels; c++) {
    double scale, shift;
    affine_at(by, c, &scale, &shift);
    *out_fits &= is_finite(scale) && is_finite(shift);
    double old = from->bias ? (double)((const float *)from->bias->data)[c] : 0;
    for (int64_t at = c * inner; at < type->elements; at += channels * inner)
      for (int64_t i = at; i < at + inner; i++) {
        w[i] = (float)((double)w[i] * scale);
        *out_fits &= is_finite((double)w[i]);
      }
    b[c] = (float)(old * scale + shift);
    *out_fits &= is_finite((double)b[c]);
  }
  return KD_OK;
}

/* x and the scaled weights, as inputs; NULL: they are not numbers. */
static keel_status scaled_inputs(keel_function *function, const made *from,
                                 const affine *by, uint32_t x,
                                 uint32_t **out_inputs) {
  keel_tensor *weights = NULL, *bias = NULL;
  bool fits = true;
  keel_status status =
      scaled_weights(function, from, by, &weights, &bias, &fits);
  uint32_t *inputs = keel_arena_take(function->arena, 3 * sizeof *inputs);
  if (status == KD_OK && inputs && fits) {
    inputs[0] = x;
    inputs[1] = keel_function_constant(function, "", weights);
    inputs[2] = keel_function_constant(function, "", bias);
    if (inputs[1] == KEEL_ABSENT || inputs[2] == KEEL_ABSENT)
      status = KD_OUT_OF_MEMORY;
  }
  keel_tensor_release(weights);
  keel_tensor_release(bias);
  if (status != KD_OK || !inputs) return KD_OUT_OF_MEMORY;
  *out_inputs = fits ? inputs : NULL;
  return KD_OK;
}

/* `node`, which reads the maker's output alone, becomes an op by other weights than the
 * maker's, if these are numbers. Takes over `op`. */
static keel_status fold_affine(keel_function *function, const keel_uses *uses,
                               keel_node *maker, keel_node *node,
                               const made *from, const affine *by,
                               keel_opdef *op) {
  uint32_t *inputs = NULL;
  keel_status status =
      scaled_inputs(function, from, by, maker->inputs[0], &inputs);
  if (status != KD_OK || !inputs) {
    keel_opdef_release(op);
    return status;
  }
  keel_pass_release_constant(function, uses, maker->inputs[1]);
  keel_opdef_release(node->op);
  node->op = op;
  node->name = maker->name;
  node->inputs = inputs;
  node->input_count = 3;
  maker->dead = true;
  return KD_OK;
}

/* The product of rows by a constant matrix that BatchNormalization follows, with or without a
 * constant that an Add adds to each row (*out_add); NULL: it is another. */
static keel_node *read_product(keel_function *function, const keel_uses *uses,
                               const keel_node *norm, made *out,
                               keel_node **out_add) {
  keel_node *maker = sole_maker(function, uses, norm, 0), *product = maker;
  *out_add = NULL;
  for (uint32_t i = 0; maker && keel_pass_is(maker, "Add") && i < 2; i++) {
    product = sole_op(function, uses, maker, i, "MatMul");
    *out_add = maker;
    *out = (made){.bias = constant_of(function, maker, 1 - i)};
    if (product && out->bias) break;
  }
  if (!product || !keel_pass_is(product, "MatMul")) return NULL;
  const keel_type *x = function->values[product->inputs[0]].type;
  out->weights = constant_of(function, product, 1);
  if (!x || x->rank != 2 || !out->weights || out->weights->type->rank != 2 ||
      !out->weights->type->elements || (*out_add && !out->bias))
    return NULL;
  out->axis = 1;
  out->channels = out->weights->type->dims[1];
  return !out->bias || (out->bias->type->rank == 1 &&
                        out->bias->type->dims[0] == out->channels)
             ? product
             : NULL;
}

/* Becomes a Gemm, where the device has that. */
static keel_status fold_into_product(keel_function *function,
                                     const keel_uses *uses, keel_device *where,
                                     keel_node *norm) {
  made from = {.weights = NULL};
  affine by = {.op = 0};
  keel_node *add = NULL;
  keel_opdef *op = NULL;
  if (!where || !keel_device_kernels(where, "ai.onnx", "Gemm")) return KD_OK;
  keel_node *product = read_product(function, uses, norm, &from, &add);
  if (!product || !read_norm(function, norm, &from, &by)) return KD_OK;
  KEEL_TRY(keel_opdef_create(function->context, keel_schema_find("", "Gemm"),
                             NULL, 0, NULL, &op));
  KEEL_TRY(fold_affine(function, uses, product, norm, &from, &by, op));
  if (add) add->dead |= product->dead;
  return KD_OK;
}

static keel_status fold_into_maker(keel_function *function,
                                   const keel_uses *uses, keel_device *device,
                                   keel_node *node) {
  bool norm = keel_pass_is(node, "BatchNormalization");
  for (uint32_t i = 0; i < node->input_count && i < (norm ? 1 : 2); i++) {
    keel_node *maker = sole_maker(function, uses, node, i);
    affine by = {.op = 0};
    made from;
    if (!maker || !is_maker(maker) || !read_maker(function, maker, &from))
      continue;
    if (norm ? read_norm(function, node, &from, &by)
             : read_arithmetic(function, node, &from, 1 - i, &by))
      return fold_affine(function, uses, maker, node, &from, &by,
                         keel_opdef_retain(maker->op));
  }
  return norm ? fold_into_product(function, uses,
                                  node->device ? node->device : device, node)
              : KD_OK;
}

/* ---- Conv, Add, an activation ---------------------------------------------------- */

/* The final activation, as attributes of keel's op `to`. */
typedef struct activation {
  const char *to, *name;
  bool has_low, has_high, has_alpha;
  float low, high, alpha;
} activation;

/* A constant of one f32, if the input is there: true. Else *good: it is absent. */
static bool read_bound(const keel_function *function, const keel_node *node,
                       uint32_t input, float *out, bool *good) {
  const keel_tensor *tensor = constant_of(function, node, input);
  bool absent =
      input >= node->input_count || node->inputs[input] == KEEL_ABSENT;
  bool there = tensor && tensor->type->elements == 1;
  if (there) memcpy(out, tensor->data, sizeof *out);
  *good &= there || absent;
  return there;
}

/* Whether a node can be an activation: Relu, Clip to what is known and in order, or one
 * that makes 0 of 0 and is not cut off above. */
static bool read_activation(const keel_function *function,
                            const keel_node *node, activation *out) {
  bool good = true;
  *out = (activation){.to = "FusedConv", .name = node->op->schema->name};
  if (keel_pass_is(node, "Relu")) return true;
  if (keel_pass_is(node, "HardSwish") || keel_pass_is(node, "LeakyRelu")) {
    out->to = "ActivatedConv";
    out->has_alpha = keel_pass_is(node, "LeakyRelu");
    out->alpha = keel_attr_float(node->op, "alpha", 0.01f);
    return true;
  }
  if (!keel_pass_is(node, "Clip")) return false;
  out->has_low = read_bound(function, node, 1, &out->low, &good);
  out->has_high = read_bound(function, node, 2, &out->high, &good);
  bool ordered = !(out->has_low && out->has_high) || out->low <= out->high;
  return good && ordered;
}

static keel_status fused_op(const keel_node *conv, const activation *act,
                            keel_opdef **out_op) {
  keel_attr attrs[16];
  uint32_t count = 0;
  for (; count < conv->op->attr_count && count < 13; count++)
    attrs[count] = conv->op->attrs[count].value;
  attrs[count++] = (keel_attr)KEEL_STRING("activation", act->name);
  if (act->has_low) attrs[count++] = (keel_attr)KEEL_FLOAT("low", act->low);
  if (act->has_high) attrs[count++] = (keel_attr)KEEL_FLOAT("high", act->high);
  if (act->has_alpha)
    attrs[count++] = (keel_attr)KEEL_FLOAT("alpha", act->alpha);
  return keel_opdef_create(conv->op->context, keel_schema_find("keel", act->to),
                           attrs, count, NULL, out_op);
}

/* Whether the device runs it. Where types are not known yet, Relu is what all know that
 * have the op. */
static bool fuse_is_taken(const keel_function *function, keel_device *where,
                          const keel_node *fused, const activation *act) {
  keel_view view;
  keel_device *device = NULL;
  const kd_kernel_def *def = NULL;
  bool known = keel_view_make(function, fused, &view);
  bool taken = known
                   ? keel_choose_kernel(function->context, where, &view.node,
                                        fused->name, &device, &def) == KD_OK &&
                         device == where
                   : !strcmp(act->name, "Relu");
  keel_view_drop(&view);
  return taken;
}

/* `last` becomes the fused node, if the device takes that; `conv` and `add` (may be NULL)
 * go. */
static keel_status fuse(keel_function *function, keel_device *where,
                        keel_node *conv, keel_node *add, uint32_t other,
                        keel_node *last, const activation *act) {
  uint32_t *inputs = keel_arena_take(function->arena, 4 * sizeof *inputs);
  keel_node fused = *last;
  if (!inputs) return KD_OUT_OF_MEMORY;
  KEEL_TRY(fused_op(conv, act, &fused.op));
  for (uint32_t i = 0; i < 4; i++)
    inputs[i] = i < conv->input_count ? conv->inputs[i] : KEEL_ABSENT;
  inputs[3] = add ? other : KEEL_ABSENT;
  fused.name = conv->name;
  fused.inputs = inputs;
  fused.input_count = add ? 4 : inputs[2] == KEEL_ABSENT ? 2 : 3;
  if (!fuse_is_taken(function, where, &fused, act)) {
    keel_opdef_release(fused.op);
    return KD_OK;
  }
  keel_opdef_release(last->op);
  *last = fused;
  conv->dead = true;
  if (add && add != last) add->dead = true;
  return KD_OK;
}

/* The convolution that an Add may go into, and the Add's other input. */
static keel_node *conv_of_add(keel_function *function, const keel_uses *uses,
                              const keel_node *add, uint32_t *out_other) {
  for (uint32_t i = 0; i < 2; i++) {
    keel_node *conv = sole_op(function, uses, add, i, "Conv");
    uint32_t other = add->inputs[1 - i];
    if (!conv || other == add->inputs[i] || other == KEEL_ABSENT) continue;
    const keel_type *type = function->values[other].type;
    if (type && type == function->values[add->inputs[i]].type) {
      *out_other = other;
      return conv;
    }
  }
  return NULL;
}

/* x * Sigmoid(x): `last` is the product, and nothing else reads its operands. Becomes what
 * a unary op of x would be, with *out_gate to be dropped with it. */
static bool read_silu(keel_function *function, const keel_uses *uses,
                      const keel_node *last, uint32_t *out_x,
                      keel_node **out_gate) {
  if (!keel_pass_is(last, "Mul")) return false;
  for (uint32_t i = 0; i < 2; i++) {
    keel_node *gate = sole_op(function, uses, last, i, "Sigmoid");
    uint32_t x = last->inputs[1 - i];
    if (!gate || gate->inputs[0] != x || uses->counts[x] != 2) continue;
    *out_x = x;
    *out_gate = gate;
    return true;
  }
  return false;
}

static keel_status fuse_silu(keel_function *function, const keel_uses *uses,
                             keel_device *where, keel_node *last) {
  const activation act = {.to = "ActivatedConv", .name = "Silu"};
  keel_node *gate = NULL;
  uint32_t x = KEEL_ABSENT;
  if (!read_silu(function, uses, last, &x, &gate)) return KD_OK;
  keel_node *conv = keel_pass_maker(function, x);
  if (!conv || !keel_pass_is(conv, "Conv") || conv->device != last->device)
    return KD_OK;
  KEEL_TRY(fuse(function, where, conv, NULL, KEEL_ABSENT, last, &act));
  gate->dead |= conv->dead;
  return KD_OK;
}

static keel_status fuse_activation(keel_function *function,
                                   const keel_uses *uses, keel_device *where,
                                   keel_node *last, const activation *act) {
  keel_node *conv = sole_op(function, uses, last, 0, "Conv");
  if (conv) return fuse(function, where, conv, NULL, KEEL_ABSENT, last, act);
  keel_node *add = sole_op(function, uses, last, 0, "Add");
  uint32_t other = KEEL_ABSENT;
  conv = add ? conv_of_add(function, uses, add, &other) : NULL;
  return conv ? fuse(function, where, conv, add, other, last, act) : KD_OK;
}

static keel_status fuse_sum(keel_function *function, const keel_uses *uses,
                            keel_device *where, keel_node *add) {
  const activation none = {.to = "FusedConv", .name = "none"};
  uint32_t other = KEEL_ABSENT;
  keel_node *conv = conv_of_add(function, uses, add, &other);
  return conv ? fuse(function, where, conv, add, other, add, &none) : KD_OK;
}

keel_status keel_pass_fuse(keel_function *function, keel_device *device) {
  keel_uses uses = {0};
  keel_status status = keel_uses_count(function, &uses);
  for (uint32_t i = 0; i < function->node_count && status == KD_OK; i++) {
    if (!function->nodes[i].dead)
      status = fold_into_maker(function, &uses, device, &function->nodes[i]);
  }
  keel_uses_drop(&uses);
  if (status != KD_OK) return status;
  status = keel_uses_count(function, &uses);
  for (uint32_t i = 0; i < function->node_count && status == KD_OK; i++) {
    keel_node *last = &function->nodes[i];
    keel_device *where = last->device ? last->device : device;
    activation act;
    if (!where || last->dead) continue;
    if (read_activation(function, last, &act) &&
        keel_device_kernels(where, "keel", act.to))
      status = fuse_activation(function, &uses, where, last, &act);
    else if (keel_device_kernels(where, "keel", "ActivatedConv"))
      status = fuse_silu(function, &uses, where, last);
  }
  /* sums that no activation took */
  for (uint32_t i = 0; i < function->node_count && status == KD_OK; i++) {
    keel_node *add = &function->nodes[i];
    keel_device *where = add->device ? add->device : device;
    if (where && keel_pass_is(add, "Add") &&
        keel_device_kernels(where, "keel", "FusedConv"))
      status = fuse_sum(function, &uses, where, add);
  }
  keel_uses_drop(&uses);
  return status;
}
