/* pads.c - zeros around an image go into the convolution that reads it.
 *
 * Models that came from TensorFlow pad by an op of its own, as their "same" padding has no
 * form in ONNX where it is uneven and sizes are open. The image would be copied for that. */
#include "eager/call_site.h"
#include "opsets/onnx/passes.h"

#define SPACE (KD_MAX_RANK - 2)
#define MOST  INT32_MAX /* of padding, on one side */

/* A constant of integers, as the host has it. */
static const keel_tensor *integers(const keel_function *function,
                                   const keel_node *node, uint32_t input) {
  const keel_tensor *tensor = keel_pass_constant(function, node->inputs[input]);
  return tensor && tensor->type->dtype == KD_I64 ? tensor : NULL;
}

static bool has_input(const keel_node *node, uint32_t input) {
  return input < node->input_count && node->inputs[input] != KEEL_ABSENT;
}

static bool adds_zeros(const keel_function *function, const keel_node *pad) {
  static const char zeros[16] = {0};
  if (strcmp(keel_attr_string(pad->op, "mode", "constant"), "constant") != 0)
    return false;
  if (!has_input(pad, 2)) return true;
  const keel_tensor *value = function->values[pad->inputs[2]].constant;
  return value && value->type->elements == 1 && keel_tensor_host_data(value) &&
         kd_dtype_size(value->type->dtype) <= sizeof zeros &&
         !memcmp(keel_tensor_host_data(value), zeros,
                 kd_dtype_size(value->type->dtype));
}

/* The padding that a Pad adds to images of `space` dimensions: before each, then behind each.
 * False: not zeros, not known, to something else, or less than nothing. */
static bool read_pad(const keel_function *function, const keel_node *pad,
                     uint32_t space, int64_t *added) {
  const keel_tensor *pads = integers(function, pad, 1), *axes = NULL;
  const int64_t rank = space + 2;
  if (has_input(pad, 3) && !(axes = integers(function, pad, 3))) return false;
  int64_t count = axes ? axes->type->elements : rank;
  if (!pads || pads->type->elements != 2 * count || !adds_zeros(function, pad))
    return false;
  const int64_t *size = pads->data, *axis = axes ? axes->data : NULL;
  memset(added, 0, 2 * space * sizeof *added);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = axis ? axis[i] + (axis[i] < 0 ? rank : 0) : i;
    if (at < 0 || at >= rank || size[i] < 0 || size[count + i] < 0 ||
        size[i] > MOST || size[count + i] > MOST)
      return false;
    if (at >= 2) {
      added[at - 2] = size[i];
      added[space + at - 2] = size[count + i];
    } else if (size[i] || size[count + i]) {
      return false;
    }
  }
  return true;
}

/* The Pad that makes a convolution's image; NULL: none. */
static const keel_node *pad_before(const keel_function *function,
                                   const keel_node *conv) {
  const keel_node *pad = keel_pass_maker(function, conv->inputs[0]);
  return pad && pad->device == conv->device && keel_pass_is(pad, "Pad") ? pad
                                                                        : NULL;
}

static keel_status padded_op(const keel_node *conv, uint32_t space,
                             const int64_t *added, keel_opdef **out_op) {
  int64_t pads[2 * SPACE];
  const int64_t *old = NULL;
  keel_attr attrs[16];
  uint32_t count = 0;
  bool padded = keel_attr_ints(conv->op, "pads", &old) == 2 * space;
  for (uint32_t i = 0; i < 2 * space; i++)
    pads[i] = added[i] + (padded ? old[i] : 0);
  for (uint32_t i = 0; i < conv->op->attr_count && count < 15; i++)
    if (strcmp(conv->op->attrs[i].value.name, "pads") != 0)
      attrs[count++] = conv->op->attrs[i].value;
  attrs[count++] = (keel_attr)KEEL_INTS("pads", 2 * space, pads);
  return keel_opdef_create(conv->op->context, conv->op->schema, attrs, count,
                           NULL, out_op);
}

/* Whether the device that has it takes it as well with that padding, if types are known. */
static bool pads_is_taken(const keel_function *function, keel_device *where,
                          const keel_node *padded) {
  keel_view view;
  keel_device *device = NULL;
  const kd_kernel_def *def = NULL;
  bool known = where && keel_view_make(function, padded, &view);
  bool taken =
      !known || (keel_choose_kernel(function->context, where, &view.node,
                                    padded->name, &device, &def) == KD_OK &&
                 device == where);
  if (known) keel_view_drop(&view);
  return taken;
}

static keel_status pads_visit(keel_function *function, keel_device *where,
                              keel_node *conv) {
  const keel_node *pad = pad_before(function, conv);
  const keel_value_info *w = &function->values[conv->inputs[1]];
  const keel_type *type = w->constant ? w->constant->type : w->type;
  int64_t added[2 * SPACE];
  keel_opdef *op = NULL;
  if (!pad || !type || type->rank < 3 || type->rank > KD_MAX_RANK ||
      strcmp(keel_attr_string(conv->op, "auto_pad", "NOTSET"), "NOTSET") != 0 ||
      !read_pad(function, pad, type->rank - 2, added))
    return KD_OK;
  uint32_t *inputs =
      keel_arena_take(function->arena, conv->input_count * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  memcpy(inputs, conv->inputs, conv->input_count * sizeof *inputs);
  inputs[0] = pad->inputs[0];
  KEEL_TRY(padded_op(conv, type->rank - 2, added, &op));
  keel_node padded = *conv;
  padded.op = op;
  padded.inputs = inputs;
  if (!pads_is_taken(function, where, &padded)) {
    keel_opdef_release(op);
    return KD_OK;
  }
  keel_opdef_release(conv->op);
  *conv = padded;
  return KD_OK;
}

keel_status keel_pass_pads(keel_function *function, keel_device *device) {
  for (uint32_t i = 0; i < function->node_count; i++) {
    keel_node *node = &function->nodes[i];
    if (keel_pass_is(node, "Conv"))
      KEEL_TRY(
          pads_visit(function, node->device ? node->device : device, node));
  }
  return KD_OK;
}
