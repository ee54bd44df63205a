/* depthwise.c - depthwise convolutions that stand between a Transpose to channels first and
 * one back work on channels last: keel::DepthwiseConv, without the two copies.
 *
 * Models of tokens (SegFormer, CvT, PVT, Conformer) have them so: a row of channels for each
 * pixel is what their products read and write. algebra.c has brought Reshapes of lines of
 * pixels out of the way. */
#include "device/device.h"
#include "opsets/onnx/passes.h"

typedef struct depthwise {
  keel_function *function;
  keel_uses uses;
  keel_device *where;
  const keel_type *x;     /* what the convolution reads, channels first */
  const keel_tensor *w;   /* its weights */
  uint32_t source;        /* what its image is a Transpose of */
  uint32_t back;          /* the Transpose of its result */
  uint32_t shape;         /* a Reshape between that and the activation */
  keel_activation act;    /* behind it; its name is NULL: none */
  const char *activation; /* of the op */
} depthwise;

static const keel_node *maker_of(const keel_function *function,
                                 const keel_node *reader, uint32_t value) {
  const keel_node *node = keel_pass_maker(function, value);
  return node && node->device == reader->device ? node : NULL;
}

static bool find_source(depthwise *d, const keel_node *conv) {
  const keel_node *maker = maker_of(d->function, conv, conv->inputs[0]);
  if (!maker || !keel_pass_moves_channels(maker, d->x->rank, true))
    return false;
  d->source = maker->inputs[0];
  return keel_pass_type(d->function, d->source) != NULL;
}

/* The node that alone reads what a node makes, on the same device; KEEL_ABSENT: none. */
static uint32_t reader_of(const depthwise *d, uint32_t index) {
  const keel_node *node = &d->function->nodes[index];
  uint32_t value = node->outputs[0], at = d->uses.reader[value];
  return d->uses.counts[value] == 1 && at != KEEL_ABSENT &&
                 d->function->nodes[at].device == node->device
             ? at
             : KEEL_ABSENT;
}

static bool find_result(depthwise *d, uint32_t index) {
  d->back = reader_of(d, index);
  return d->back != KEEL_ABSENT &&
         keel_pass_moves_channels(&d->function->nodes[d->back], d->x->rank,
                                  false);
}

static void find_activation(depthwise *d) {
  const keel_node *nodes = d->function->nodes;
  uint32_t next = reader_of(d, d->back), value = nodes[d->back].outputs[0];
  d->shape = KEEL_ABSENT;
  if (strcmp(d->activation, "none") != 0) return;
  if (next != KEEL_ABSENT && keel_pass_is(&nodes[next], "Reshape")) {
    d->shape = next;
    value = nodes[next].outputs[0];
  }
  if (keel_pass_activation(d->function, &d->uses, value, nodes[d->back].device,
                           &d->act))
    d->activation = d->act.name;
}

/* A Conv, or one with a Relu, of one filter for each channel, by constants. */
static bool depthwise_read_conv(depthwise *d, const keel_node *conv) {
  const keel_function *function = d->function;
  bool fused = !strcmp(conv->op->schema->name, "FusedConv") &&
               !strcmp(conv->op->schema->domain, "keel");
  if (conv->dead || (!fused && !keel_pass_is(conv, "Conv"))) return false;
  d->activation = keel_attr_string(conv->op, "activation", "none");
  if (conv->input_count > 3 || (strcmp(d->activation, "none") != 0 &&
                                strcmp(d->activation, "Relu") != 0))
    return false;
  if (conv->inputs[1] == KEEL_ABSENT) return false;
  d->x = keel_pass_type(function, conv->inputs[0]);
  d->w = function->values[conv->inputs[1]].constant;
  /* ranks are unchecked if another input's type is not known */
  return d->x && d->w && d->w->kind == KEEL_DATA && d->x->rank > 2 &&
         d->w->type->dtype == KD_F32 && keel_tensor_host_data(d->w) &&
         d->x->rank == d->w->type->rank && d->w->type->dims[1] == 1 &&
         d->w->type->dims[0] == d->x->dims[1];
}

/* Weights as the op has them: the window, then channels. */
static keel_status transposed_weights(const depthwise *d, uint32_t *out_value) {
  const keel_type *type = d->w->type;
  int64_t dims[KD_MAX_RANK], channels = type->dims[0];
  int64_t taps = channels ? type->elements / channels : 0;
  keel_tensor *transposed = NULL;
  for (uint32_t i = 2; i < type->rank; i++)
    dims[i - 2] = type->dims[i];
  dims[type->rank - 2] = channels;
  KEEL_TRY(keel_tensor_create(d->function->context, KD_F32, type->rank - 1,
                              dims, NULL, &transposed));
  const float *from = d->w->data;
  float *to = transposed->data;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t k = 0; k < taps; k++)
      to[k * channels + c] = from[c * taps + k];
  *out_value = keel_function_constant(d->function, "", transposed);
  keel_tensor_release(transposed);
  return *out_value == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
}

static keel_status depthwise_make_op(const depthwise *d, const keel_node *conv,
                                     keel_opdef **out_op) {
  static const char *const kept[] = {"auto_pad", "dilations", "kernel_shape",
                                     "pads", "strides"};
  keel_attr attrs[8];
  uint32_t count = 0;
  for (uint32_t i = 0; i < conv->op->attr_count; i++)
    for (size_t k = 0; k < KEEL_COUNT_OF(kept); k++)
      if (!strcmp(conv->op->attrs[i].value.name, kept[k]))
        attrs[count++] = conv->op->attrs[i].value;
  attrs[count++] = (keel_attr)KEEL_STRING("activation", d->activation);
  return keel_opdef_create(d->function->context,
                           keel_schema_find("keel", "DepthwiseConv"), attrs,
                           count, NULL, out_op);
}

/* The convolution in the place of the Transpose back. It makes the activation's output, or that of
 * the Reshape before it. */
static void depthwise_put(const depthwise *d, keel_node made) {
  keel_function *function = d->function;
  keel_node *nodes = function->nodes, *back = &nodes[d->back];
  keel_opdef_release(back->op);
  *back = made;
  if (!d->act.name) return;
  uint32_t maker = d->shape == KEEL_ABSENT ? d->back : d->shape;
  nodes[maker].outputs = nodes[d->act.last].outputs;
  function->values[nodes[maker].outputs[0]].producer = maker;
  nodes[d->act.last].dead = true;
  if (d->act.gate != KEEL_ABSENT) nodes[d->act.gate].dead = true;
}

static keel_status depthwise_replace(const depthwise *d, uint32_t index) {
  keel_function *function = d->function;
  const keel_node *conv = &function->nodes[index];
  keel_node made = *conv;
  uint32_t *inputs = keel_arena_take(function->arena, 3 * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  made.inputs = inputs;
  made.outputs = function->nodes[d->back].outputs;
  inputs[0] = d->source;
  KEEL_TRY(transposed_weights(d, &inputs[1]));
  if (made.input_count > 2) inputs[2] = conv->inputs[2];
  KEEL_TRY(depthwise_make_op(d, conv, &made.op));
  if (!keel_pass_takes(function, d->where, &made)) {
    keel_opdef_release(made.op);
    keel_tensor_release(function->values[inputs[1]].constant);
    function->values[inputs[1]].constant = NULL;
    return KD_OK;
  }
  function->nodes[index].dead = true;
  depthwise_put(d, made);
  return KD_OK;
}

static keel_status depthwise_visit(const depthwise *all, keel_device *device,
                                   uint32_t index) {
  const keel_node *conv = &all->function->nodes[index];
  depthwise d = *all;
  d.where = conv->device ? conv->device : device;
  if (!d.where || !keel_device_kernels(d.where, "keel", "DepthwiseConv") ||
      !depthwise_read_conv(&d, conv) || !find_source(&d, conv) ||
      !find_result(&d, index))
    return KD_OK;
  find_activation(&d);
  return depthwise_replace(&d, index);
}

keel_status keel_pass_depthwise(keel_function *function, keel_device *device) {
  depthwise all = {.function = function};
  keel_status status = keel_uses_count(function, &all.uses);
  for (uint32_t i = 0; i < function->node_count && status == KD_OK; i++)
    if (!function->nodes[i].dead) status = depthwise_visit(&all, device, i);
  keel_uses_drop(&all.uses);
  return status;
}
