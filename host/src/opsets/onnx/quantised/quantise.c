/* quantise.c - models that say where numbers are quantised, computed on bytes.
 *
 * DequantizeLinear, an op, QuantizeLinear: Conv and MatMul between them become QLinearConv
 * and QLinearMatMul, whose results differ by one step at most; what only moves elements is
 * done to the bytes, exactly. All scales and zero points are constants. A device must have
 * kernels that bring constant weights into a form of their own: others gain nothing by
 * products of bytes. Comes before constants are folded, as weights would be floats then. */
#include <math.h>

#include "device/device.h"
#include "eager/call_site.h"
#include "opsets/onnx/passes.h"

typedef struct search {
  keel_function *function;
  keel_uses uses;
  keel_device *device;
} search;

/* The maker of a value without another reader, on the same device as its reader. */
static keel_node *sole_maker(const search *all, const keel_node *reader,
                             uint32_t input) {
  if (input >= reader->input_count) return NULL;
  uint32_t value = reader->inputs[input];
  keel_node *node = keel_pass_maker(all->function, value);
  return node && node->output_count == 1 && node->device == reader->device &&
                 all->uses.counts[value] == 1
             ? node
             : NULL;
}

/* ---- a quantisation ------------------------------------------------------------------ */

/* The parameters of DequantizeLinear or QuantizeLinear. */
typedef struct quantisation {
  uint32_t value; /* that is dequantised, or is to be quantised */
  uint32_t scale, zero;
  const float *scales;
  int64_t count; /* of scales */
  int64_t axis;
  kd_dtype dtype;           /* of the bytes */
  const keel_tensor *zeros; /* NULL: 0 */
} quantisation;

static bool is_byte(kd_dtype dtype) {
  return dtype == KD_U8 || dtype == KD_I8;
}

static kd_dtype dtype_of(const search *all, uint32_t value) {
  const keel_value_info *info = &all->function->values[value];
  const keel_type *type = info->constant ? info->constant->type : info->type;
  return type ? type->dtype : KD_NONE; /* a sequence has none */
}

static int zero_at(const quantisation *q, int64_t i) {
  if (!q->zeros) return 0;
  const void *data = q->zeros->data;
  i = q->zeros->type->elements > 1 ? i : 0;
  return q->dtype == KD_I32  ? ((const int32_t *)data)[i]
         : q->dtype == KD_I8 ? ((const int8_t *)data)[i]
                             : ((const uint8_t *)data)[i];
}

static bool read_quantisation(const search *all, const keel_node *node,
                              quantisation *out) {
  const keel_tensor *scale = keel_pass_constant(all->function, node->inputs[1]);
  bool has_zero = node->input_count > 2 && node->inputs[2] != KEEL_ABSENT;
  if (!scale || scale->type->dtype != KD_F32 || scale->type->rank > 1 ||
      scale->type->elements < 1 || keel_attr_int(node->op, "block_size", 0))
    return false;
  *out = (quantisation){.value = node->inputs[0],
                        .scale = node->inputs[1],
                        .zero = has_zero ? node->inputs[2] : KEEL_ABSENT,
                        .scales = scale->data,
                        .count = scale->type->elements,
                        .axis = keel_attr_int(node->op, "axis", 1)};
  if (has_zero) {
    out->zeros = keel_pass_constant(all->function, out->zero);
    if (!out->zeros || out->zeros->type->elements != out->count) return false;
  }
  for (int64_t i = 0; i < out->count; i++)
    if (!(out->scales[i] > 0) || !isfinite(out->scales[i])) return false;
  return true;
}

/* The DequantizeLinear that makes an input, f32 of what has a known type. */
static bool dequantised(const search *all, const keel_node *reader,
                        uint32_t input, quantisation *out) {
  if (input >= reader->input_count) return false;
  const keel_node *node = keel_pass_maker(all->function, reader->inputs[input]);
  if (!node || !keel_pass_is(node, "DequantizeLinear") ||
      node->device != reader->device || !read_quantisation(all, node, out) ||
      out->value == KEEL_ABSENT || keel_attr_int(node->op, "output_dtype", 0))
    return false;
  /* types may be open, but zero points have that of what they belong to */
  out->dtype = out->zeros ? out->zeros->type->dtype : dtype_of(all, out->value);
  return is_byte(out->dtype) || out->dtype == KD_I32;
}

/* QuantizeLinear to bytes by one scale. */
static bool quantises(const search *all, const keel_node *node,
                      quantisation *out) {
  if (!keel_pass_is(node, "QuantizeLinear") ||
      !read_quantisation(all, node, out) || out->count != 1 ||
      keel_attr_int(node->op, "output_dtype", 0) ||
      keel_attr_int(node->op, "precision", 0))
    return false;
  out->dtype = out->zeros ? out->zeros->type->dtype : KD_U8;
  return is_byte(out->dtype);
}

static int lowest(const quantisation *q) {
  return q->dtype == KD_I8 ? -128 : 0;
}

/* ---- new constants --------------------------------------------------------------------- */

static uint32_t new_constant(search *all, kd_dtype dtype, int64_t count,
                             bool scalar, const void *data) {
  keel_tensor *tensor = NULL;
  if (keel_tensor_create(all->function->context, dtype, !scalar, &count, data,
                         &tensor) != KD_OK)
    return KEEL_ABSENT;
  uint32_t value = keel_function_constant(all->function, "", tensor);
  keel_tensor_release(tensor);
  return value;
}

/* The zero points' value, made where none are stated. */
static uint32_t zero_value(search *all, const quantisation *q) {
  if (q->zero != KEEL_ABSENT) return q->zero;
  const keel_tensor *scale = keel_pass_constant(all->function, q->scale);
  void *zeros = calloc((size_t)q->count, 1);
  uint32_t value =
      zeros ? new_constant(all, q->dtype, q->count, !scale->type->rank, zeros)
            : KEEL_ABSENT;
  free(zeros);
  return value;
}

/* ---- an op in another's place ------------------------------------------------------------ */

/* Whether the device runs it, by a kernel that keeps weights if that is asked for. Where
 * types are not known yet, such kernels are trusted to take all that the op may be. */
static bool quantise_is_taken(const search *all, const keel_node *node,
                              bool weights) {
  keel_device *where = node->device ? node->device : all->device,
              *device = NULL;
  const keel_kernel_list *list = keel_device_kernels(
      where, node->op->schema->domain, node->op->schema->name);
  const kd_kernel_def *def = list && list->count ? list->defs[0] : NULL;
  keel_view view;
  bool known = keel_view_make(all->function, node, &view);
  bool taken = def && (known ? keel_choose_kernel(all->function->context, where,
                                                  &view.node, node->name,
                                                  &device, &def) == KD_OK &&
                                   device == where
                             : weights);
  keel_view_drop(&view);
  return taken && (!weights || (def->taken));
}

/* `last` becomes the op `made` on those inputs, if the device takes it. Takes over `made`. */
static keel_status quantise_replace(search *all, keel_node *last,
                                    keel_opdef *made, const char *name,
                                    const uint32_t *inputs, uint32_t count,
                                    bool weights, bool *out_done) {
  keel_node node = *last;
  node.op = made;
  node.name = name;
  node.input_count = count;
  node.inputs =
      keel_arena_take(all->function->arena, count * sizeof *node.inputs);
  if (node.inputs) memcpy(node.inputs, inputs, count * sizeof *inputs);
  *out_done = node.inputs && quantise_is_taken(all, &node, weights);
  if (!*out_done) {
    keel_opdef_release(made);
    return node.inputs ? KD_OK : KD_OUT_OF_MEMORY;
  }
  keel_opdef_release(last->op);
  *last = node;
  return KD_OK;
}

/* ---- Conv --------------------------------------------------------------------------------- */

#define MOST_TERMS \
  32768 /* products of bytes that a sum of 32 bits surely holds */

/* How the parts of a product are quantised. */
typedef struct parts {
  quantisation x, w, y;
} parts;

/* The bias in steps of the sums, as a value: half a step of those is less than a 16th of
 * the result's. False: there is one, but not so. */
static bool bias_value(search *all, const keel_node *conv, const parts *p,
                       int64_t channels, uint32_t *out_value) {
  *out_value = KEEL_ABSENT;
  if (conv->input_count < 3 || conv->inputs[2] == KEEL_ABSENT) return true;
  quantisation q = {0};
  bool quantised = dequantised(all, conv, 2, &q);
  const keel_tensor *bias =
      keel_pass_constant(all->function, quantised ? q.value : conv->inputs[2]);
  if (!bias || bias->type->rank != 1 || bias->type->elements != channels ||
      bias->type->dtype != (quantised ? KD_I32 : KD_F32) ||
      (quantised && q.count != 1 && q.count != channels))
    return false;
  int32_t *steps = malloc((size_t)channels * sizeof *steps + 1);
  bool good = steps != NULL;
  for (int64_t i = 0; good && i < channels; i++) {
    double step =
        (double)p->x.scales[0] * (double)p->w.scales[p->w.count > 1 ? i : 0];
    double value =
        quantised
            ? ((double)((const int32_t *)bias->data)[i] - zero_at(&q, i)) *
                  (double)q.scales[q.count > 1 ? i : 0]
            : (double)((const float *)bias->data)[i];
    value = rint(value / step);
    good = fabs(value) < 1 << 29 && step < (double)p->y.scales[0] / 8;
    if (good) steps[i] = (int32_t)value;
  }
  if (good) *out_value = new_constant(all, KD_I32, channels, false, steps);
  free(steps);
  return good && *out_value != KEEL_ABSENT;
}

static bool can_be_bytes(const search *all, const keel_node *conv, parts *p) {
  if (!keel_pass_is(conv, "Conv") || !dequantised(all, conv, 0, &p->x) ||
      !dequantised(all, conv, 1, &p->w))
    return false;
  const keel_tensor *w = keel_pass_constant(all->function, p->w.value);
  return w && w->type->rank > 2 && w->type->elements > 0 &&
         w->type->elements / w->type->dims[0] <= MOST_TERMS &&
         is_byte(p->x.dtype) && is_byte(p->w.dtype) && p->x.count == 1 &&
         (p->w.count == 1 ||
          (p->w.count == w->type->dims[0] &&
           (p->w.axis == 0 || p->w.axis == -(int64_t)w->type->rank)));
}

static keel_status qlinear_conv(search *all, keel_node *conv, parts *p,
                                keel_node *last, bool *out_done) {
  uint32_t inputs[9], bias = KEEL_ABSENT;
  const keel_tensor *w = keel_pass_constant(all->function, p->w.value);
  keel_opdef *made = NULL;
  keel_attr attrs[16];
  uint32_t count = 0;
  if (!bias_value(all, conv, p, w->type->dims[0], &bias)) return KD_OK;
  inputs[0] = p->x.value;
  inputs[1] = p->x.scale;
  inputs[2] = zero_value(all, &p->x);
  inputs[3] = p->w.value;
  inputs[4] = p->w.scale;
  inputs[5] = zero_value(all, &p->w);
  inputs[6] = p->y.scale;
  inputs[7] = zero_value(all, &p->y);
  inputs[8] = bias;
  if (inputs[2] == KEEL_ABSENT || inputs[5] == KEEL_ABSENT ||
      inputs[7] == KEEL_ABSENT)
    return KD_OUT_OF_MEMORY;
  for (; count < conv->op->attr_count && count < 16; count++)
    attrs[count] = conv->op->attrs[count].value;
  KEEL_TRY(keel_opdef_create(all->function->context,
                             keel_schema_find("", "QLinearConv"), attrs, count,
                             NULL, &made));
  return quantise_replace(all, last, made, conv->name, inputs,
                          bias == KEEL_ABSENT ? 8 : 9, true, out_done);
}

/* ---- MatMul ------------------------------------------------------------------------------- */

static bool can_be_product(const search *all, const keel_node *product,
                           parts *p) {
  if (!keel_pass_is(product, "MatMul") ||
      !dequantised(all, product, 0, &p->x) ||
      !dequantised(all, product, 1, &p->w) || !is_byte(p->x.dtype) ||
      !is_byte(p->w.dtype) || p->x.count != 1)
    return false;
  const keel_value_info *info = &all->function->values[p->w.value];
  const keel_type *type = info->constant ? info->constant->type : info->type;
  if (!type || type->rank < 2) return false;
  int64_t terms = type->dims[type->rank - 2];
  bool last = p->w.axis == (int64_t)type->rank - 1 || p->w.axis == -1;
  return terms >= 0 && terms <= MOST_TERMS &&
         (p->w.count == 1 || (type->rank == 2 && last));
}

static keel_status qlinear_matmul(search *all, const keel_node *product,
                                  parts *p, keel_node *last, bool *out_done) {
  keel_opdef *made = NULL;
  const uint32_t inputs[] = {p->x.value,
                             p->x.scale,
                             zero_value(all, &p->x),
                             p->w.value,
                             p->w.scale,
                             zero_value(all, &p->w),
                             p->y.scale,
                             zero_value(all, &p->y)};
  for (int i = 0; i < 8; i++)
    if (inputs[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  KEEL_TRY(keel_opdef_create(all->function->context,
                             keel_schema_find("", "QLinearMatMul"), NULL, 0,
                             NULL, &made));
  return quantise_replace(all, last, made, product->name, inputs, 8, true,
                          out_done);
}

/* ---- what moves elements ------------------------------------------------------------------ */

/* Ops whose results are elements of their first input, the largest of some, or it in another
 * shape: quantised alike before and behind, they may see the bytes. */
static bool moves(const keel_node *node) {
  static const char *const names[] = {"MaxPool",      "Reshape", "Transpose",
                                      "Flatten",      "Squeeze", "Unsqueeze",
                                      "Slice",        "Gather",  "DepthToSpace",
                                      "SpaceToDepth", "Expand",  "Tile"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (keel_pass_is(node, names[i])) return true;
  return false;
}

static bool alike(const quantisation *a, const quantisation *b) {
  return a->count == 1 && a->dtype == b->dtype && *a->scales == *b->scales &&
         zero_at(a, 0) == zero_at(b, 0);
}

static keel_status move_bytes(search *all, keel_node *mover,
                              const quantisation *y, keel_node *last,
                              bool *out_done) {
  quantisation x = {0};
  uint32_t inputs[8];
  if (!dequantised(all, mover, 0, &x) || !alike(&x, y) ||
      mover->input_count > 8)
    return KD_OK;
  memcpy(inputs, mover->inputs, mover->input_count * sizeof *inputs);
  inputs[0] = x.value;
  return quantise_replace(all, last, keel_opdef_retain(mover->op), mover->name,
                          inputs, mover->input_count, false, out_done);
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Whether the quantised result is the same without a Relu before it. */
static bool needs_no_relu(const quantisation *y) {
  return zero_at(y, 0) == lowest(y);
}

static keel_status quantise_visit(search *all, keel_node *last) {
  parts p = {0};
  bool done = false;
  if (!quantises(all, last, &p.y)) return KD_OK;
  keel_node *before = sole_maker(all, last, 0), *relu = NULL;
  if (before && keel_pass_is(before, "Relu") && needs_no_relu(&p.y)) {
    relu = before;
    before = sole_maker(all, relu, 0);
  }
  if (!before) return KD_OK;
  if (can_be_bytes(all, before, &p))
    KEEL_TRY(qlinear_conv(all, before, &p, last, &done));
  else if (can_be_product(all, before, &p))
    KEEL_TRY(qlinear_matmul(all, before, &p, last, &done));
  else if (!relu && moves(before))
    KEEL_TRY(move_bytes(all, before, &p.y, last, &done));
  if (done) before->dead = true;
  if (done && relu) relu->dead = true;
  return KD_OK;
}

keel_status keel_pass_quantise(keel_function *function, keel_device *device) {
  search all = {.function = function, .device = device};
  bool any = false;
  for (uint32_t i = 0; i < function->node_count; i++)
    any |= keel_pass_is(&function->nodes[i], "QuantizeLinear");
  if (!any) return KD_OK;
  keel_status status = keel_uses_count(function, &all.uses);
  for (uint32_t i = 0; i < function->node_count && status == KD_OK; i++)
    if (function->nodes[i].device || device)
      status = quantise_visit(&all, &function->nodes[i]);
  keel_uses_drop(&all.uses);
  return status;
}
