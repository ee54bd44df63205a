/* fuse.c - brings BatchNormalization into the convolution or Gemm before it, and what
 * follows a convolution into keel::FusedConv or keel::ActivatedConv. */
#include "context.h"
#include "eager/site.h"
#include "passes/passes.h"

static bool is_op(const keel_node *node, const char *name) {
  return !node->dead && !strcmp(node->op->schema->name, name) &&
         !strcmp(node->op->schema->domain, "ai.onnx");
}

/* The node that makes input `input` of `reader`, which alone needs it, on the same
 * device; or NULL. */
static keel_node *sole_maker(keel_function *function, const keel_uses *uses,
                             const keel_node *reader, uint32_t input,
                             const char *op) {
  uint32_t value = reader->inputs[input];
  if (value == KEEL_ABSENT || uses->counts[value] != 1) return NULL;
  uint32_t maker = function->values[value].producer;
  keel_node *node = maker == KEEL_ABSENT ? NULL : &function->nodes[maker];
  return node && is_op(node, op) && node->device == reader->device ? node
                                                                   : NULL;
}

static const keel_tensor *constant_of(const keel_function *function,
                                      const keel_node *node, uint32_t input) {
  if (input >= node->input_count || node->inputs[input] == KEEL_ABSENT)
    return NULL;
  const keel_tensor *tensor = function->values[node->inputs[input]].constant;
  return tensor && tensor->type->dtype == KD_F32 ? tensor : NULL;
}

/* ---- Conv or Gemm, BatchNormalization ---------------------------------------- */

/* The dimension of its weights that its output's channels are. */
static uint32_t channel_axis(const keel_node *maker) {
  return is_op(maker, "Gemm") && !keel_attr_int(maker->op, "transB", 0);
}

/* w' = w * s, b' = (b - mean) * s + shift, with s = scale / sqrt(var + eps) */
static keel_status scaled_weights(keel_function *function,
                                  const keel_node *maker, const keel_node *norm,
                                  keel_tensor **out_weights,
                                  keel_tensor **out_bias) {
  const keel_tensor *weights = constant_of(function, maker, 1);
  const keel_tensor *bias = constant_of(function, maker, 2);
  const float *vectors[4];
  const keel_type *type = weights->type;
  uint32_t axis = channel_axis(maker);
  int64_t channels = type->dims[axis], each = type->elements / channels;
  double epsilon = (double)keel_attr_float(norm->op, "epsilon", 1e-5f);
  for (uint32_t i = 0; i < 4; i++)
    vectors[i] = constant_of(function, norm, i + 1)->data;
  KEEL_TRY(keel_tensor_create(function->context, KD_F32, type->rank, type->dims,
                              weights->data, out_weights));
  KEEL_TRY(keel_tensor_create(function->context, KD_F32, 1, &channels, NULL,
                              out_bias));
  float *w = (*out_weights)->data, *b = (*out_bias)->data;
  for (int64_t c = 0; c < channels; c++) {
    double scale =
        (double)vectors[0][c] / __builtin_sqrt((double)vectors[3][c] + epsilon);
    double old = bias ? (double)((const float *)bias->data)[c] : 0;
    for (int64_t i = 0; i < each; i++) {
      float *at = w + (axis ? i * channels + c : c * each + i);
      *at = (float)((double)*at * scale);
    }
    b[c] =
        (float)((old - (double)vectors[2][c]) * scale + (double)vectors[1][c]);
  }
  return KD_OK;
}

/* Whether what a product adds is a number for each column, as it is. */
static bool has_plain_bias(const keel_function *function,
                           const keel_node *gemm) {
  const keel_tensor *weights = constant_of(function, gemm, 1),
                    *bias = constant_of(function, gemm, 2);
  if (weights->type->rank != 2 || keel_attr_float(gemm->op, "beta", 1) != 1)
    return false;
  return !bias ||
         (bias->type->rank == 1 &&
          bias->type->dims[0] == weights->type->dims[channel_axis(gemm)]);
}

static bool foldable_norm(const keel_function *function, const keel_node *maker,
                          const keel_node *norm) {
  const keel_tensor *weights = constant_of(function, maker, 1);
  if (!weights || !weights->type->rank || !weights->type->elements ||
      (is_op(maker, "Gemm") && !has_plain_bias(function, maker)) ||
      keel_attr_int(norm->op, "training_mode", 0) || norm->output_count != 1 ||
      (maker->input_count > 2 && maker->inputs[2] != KEEL_ABSENT &&
       !constant_of(function, maker, 2)))
    return false;
  for (uint32_t i = 1; i < 5; i++) {
    const keel_tensor *vector = constant_of(function, norm, i);
    if (!vector || vector->type->rank != 1 ||
        vector->type->dims[0] != weights->type->dims[channel_axis(maker)])
      return false;
  }
  return true;
}

static keel_status fold_norm(keel_function *function, keel_node *maker,
                             keel_node *norm) {
  keel_tensor *weights = NULL, *bias = NULL;
  keel_status status = scaled_weights(function, maker, norm, &weights, &bias);
  uint32_t *inputs = keel_arena_take(function->arena, 3 * sizeof *inputs);
  if (status == KD_OK && inputs) {
    inputs[0] = maker->inputs[0];
    inputs[1] = keel_function_constant(function, "", weights);
    inputs[2] = keel_function_constant(function, "", bias);
    if (inputs[1] == KEEL_ABSENT || inputs[2] == KEEL_ABSENT)
      status = KD_OUT_OF_MEMORY;
  }
  keel_tensor_release(weights);
  keel_tensor_release(bias);
  if (status != KD_OK || !inputs) return KD_OUT_OF_MEMORY;
  /* the maker takes the normalisation's place */
  keel_opdef *old = norm->op;
  norm->op = keel_opdef_retain(maker->op);
  keel_opdef_release(old);
  norm->name = maker->name;
  norm->inputs = inputs;
  norm->input_count = 3;
  maker->dead = true;
  return KD_OK;
}

/* ---- Conv, Add, an activation ---------------------------------------------------- */

/* What comes last, as attributes of keel's op `to`. */
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
  if (is_op(node, "Relu")) return true;
  if (is_op(node, "HardSwish") || is_op(node, "LeakyRelu")) {
    out->to = "ActivatedConv";
    out->has_alpha = is_op(node, "LeakyRelu");
    out->alpha = keel_attr_float(node->op, "alpha", 0.01f);
    return true;
  }
  if (!is_op(node, "Clip")) return false;
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
static bool is_taken(const keel_function *function, keel_device *where,
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
  if (!is_taken(function, where, &fused, act)) {
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
    keel_node *conv = sole_maker(function, uses, add, i, "Conv");
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
  if (!is_op(last, "Mul")) return false;
  for (uint32_t i = 0; i < 2; i++) {
    keel_node *gate = sole_maker(function, uses, last, i, "Sigmoid");
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
  uint32_t maker = function->values[x].producer;
  keel_node *conv = maker == KEEL_ABSENT ? NULL : &function->nodes[maker];
  if (!conv || !is_op(conv, "Conv") || conv->device != last->device)
    return KD_OK;
  KEEL_TRY(fuse(function, where, conv, NULL, KEEL_ABSENT, last, &act));
  gate->dead |= conv->dead;
  return KD_OK;
}

static keel_status fuse_activation(keel_function *function,
                                   const keel_uses *uses, keel_device *where,
                                   keel_node *last, const activation *act) {
  keel_node *conv = sole_maker(function, uses, last, 0, "Conv");
  if (conv) return fuse(function, where, conv, NULL, KEEL_ABSENT, last, act);
  keel_node *add = sole_maker(function, uses, last, 0, "Add");
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
    keel_node *norm = &function->nodes[i];
    if (!is_op(norm, "BatchNormalization")) continue;
    keel_node *maker = sole_maker(function, &uses, norm, 0, "Conv");
    if (!maker) maker = sole_maker(function, &uses, norm, 0, "Gemm");
    if (maker && foldable_norm(function, maker, norm))
      status = fold_norm(function, maker, norm);
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
    if (where && is_op(add, "Add") &&
        keel_device_kernels(where, "keel", "FusedConv"))
      status = fuse_sum(function, &uses, where, add);
  }
  keel_uses_drop(&uses);
  return status;
}
