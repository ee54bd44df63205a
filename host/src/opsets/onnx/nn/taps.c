/* taps.c - convolutions whose outer taps see nothing but padding, without these.
 *
 * A kernel that is dilated beyond its image, as pyramids of them have, has a few taps left
 * that see some of it: the others add zeros, whatever the input is. Needs known shapes and
 * constant weights. */
#include <kd/kd.h>
#include "memory/mapping.h"
#include "opsets/onnx/passes.h"

#define SPACE (KD_MAX_RANK - 2)

/* A dimension of space: its taps, and those of them that are kept. */
typedef struct line {
  int64_t taps, dilation, begin, end; /* begin, end: padding */
  int64_t first, kept;
} line;

typedef struct kernel {
  uint32_t space;
  line lines[SPACE];
} kernel;

static bool is_conv(const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  return !node->dead && node->input_count > 1 && node->output_count == 1 &&
         (keel_pass_is(node, "Conv") || (!strcmp(schema->name, "FusedConv") &&
                                         !strcmp(schema->domain, "keel")));
}

/* Which taps see an element in some output; false: all, or none. */
static bool trim(line *l, int64_t in, int64_t out, int64_t stride) {
  int64_t first = l->taps, last = -1;
  for (int64_t t = 0; t < l->taps; t++) {
    int64_t low = t * l->dilation - l->begin, high = low + (out - 1) * stride;
    if (high < 0 || low >= in) continue;
    if (first == l->taps) first = t;
    last = t;
  }
  l->first = first;
  l->kept = last - first + 1;
  l->begin -= first * l->dilation;
  l->end -= (l->taps - 1 - last) * l->dilation;
  return l->kept > 0 && l->begin >= 0 && l->end >= 0;
}

static bool read_kernel(const keel_function *function, const keel_node *node,
                        kernel *k) {
  const keel_value_info *x = &function->values[node->inputs[0]];
  const keel_value_info *y = &function->values[node->outputs[0]];
  const keel_tensor *w = function->values[node->inputs[1]].constant;
  const int64_t *pads = NULL, *strides = NULL, *dilations = NULL;
  const char *automatic = keel_attr_string(node->op, "auto_pad", "NOTSET");
  if (!w || !keel_tensor_host_data(w) || !x->type || !y->type ||
      !keel_type_known(x->type) || !keel_type_known(y->type) ||
      w->type->rank < 3 || x->type->rank != w->type->rank ||
      y->type->rank != w->type->rank || !w->type->elements ||
      !y->type->elements || strcmp(automatic, "NOTSET") != 0)
    return false;
  k->space = w->type->rank - 2;
  bool padded = keel_attr_ints(node->op, "pads", &pads) == 2 * k->space;
  bool strided = keel_attr_ints(node->op, "strides", &strides) == k->space;
  bool dilated = keel_attr_ints(node->op, "dilations", &dilations) == k->space;
  bool less = false, good = padded;
  for (uint32_t i = 0; good && i < k->space; i++) {
    line *l = &k->lines[i];
    *l = (line){.taps = w->type->dims[i + 2],
                .dilation = dilated ? dilations[i] : 1,
                .begin = pads[i],
                .end = pads[k->space + i]};
    good = trim(l, x->type->dims[i + 2], y->type->dims[i + 2],
                strided ? strides[i] : 1);
    less |= l->kept < l->taps;
  }
  return good && less;
}

/* The taps that are kept, of all weights. */
static keel_status kept_weights(const keel_function *function,
                                const keel_tensor *w, const kernel *k,
                                keel_tensor **out_kept) {
  size_t size = kd_dtype_size(w->type->dtype);
  int64_t dims[KD_MAX_RANK] = {w->type->dims[0], w->type->dims[1]};
  const line *last = &k->lines[k->space - 1];
  int64_t rows = dims[0] * dims[1];
  for (uint32_t i = 0; i < k->space; i++) {
    dims[i + 2] = k->lines[i].kept;
    if (i + 1 < k->space) rows *= k->lines[i].kept;
  }
  KEEL_TRY(keel_tensor_create(function->context, w->type->dtype, w->type->rank,
                              dims, NULL, out_kept));
  char *to = (*out_kept)->data;
  for (int64_t row = 0; row < rows; row++) {
    int64_t rest = row, at = 0, step = last->taps;
    for (uint32_t i = k->space - 1; i-- > 0; step *= k->lines[i].taps) {
      at += (rest % k->lines[i].kept + k->lines[i].first) * step;
      rest /= k->lines[i].kept;
    }
    at += rest * step + last->first;
    memcpy(to, (const char *)w->data + (size_t)at * size,
           (size_t)last->kept * size);
    to += (size_t)last->kept * size;
  }
  return KD_OK;
}

/* The op with its window as it is now. */
static keel_status smaller_op(const keel_function *function,
                              const keel_node *node, const kernel *k,
                              keel_opdef **out_op) {
  int64_t pads[2 * SPACE], taps[SPACE];
  keel_attr attrs[16];
  uint32_t count = 0;
  for (uint32_t i = 0; i < k->space; i++) {
    taps[i] = k->lines[i].kept;
    pads[i] = k->lines[i].begin;
    pads[k->space + i] = k->lines[i].end;
  }
  for (uint32_t i = 0; i < node->op->attr_count && count < 14; i++) {
    const keel_attr *attr = &node->op->attrs[i].value;
    if (strcmp(attr->name, "pads") != 0 &&
        strcmp(attr->name, "kernel_shape") != 0)
      attrs[count++] = *attr;
  }
  attrs[count++] = (keel_attr){.name = "pads",
                               .kind = KD_ATTR_INTS,
                               .count = 2 * k->space,
                               .ints = pads};
  attrs[count++] = (keel_attr){.name = "kernel_shape",
                               .kind = KD_ATTR_INTS,
                               .count = k->space,
                               .ints = taps};
  return keel_opdef_create(function->context, node->op->schema, attrs, count,
                           NULL, out_op);
}

static keel_status taps_visit(keel_function *function, keel_node *node) {
  kernel k;
  keel_tensor *kept = NULL;
  keel_opdef *op = NULL;
  if (!read_kernel(function, node, &k)) return KD_OK;
  uint32_t *inputs =
      keel_arena_take(function->arena, node->input_count * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  memcpy(inputs, node->inputs, node->input_count * sizeof *inputs);
  KEEL_TRY(
      kept_weights(function, function->values[inputs[1]].constant, &k, &kept));
  keel_mapping_evict(function->values[inputs[1]].constant);
  inputs[1] = keel_function_constant(function, "", kept);
  keel_tensor_release(kept);
  if (inputs[1] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  KEEL_TRY(smaller_op(function, node, &k, &op));
  keel_opdef_release(node->op);
  node->op = op;
  node->inputs = inputs;
  return KD_OK;
}

keel_status keel_pass_taps(keel_function *function) {
  for (uint32_t i = 0; i < function->node_count; i++)
    if (is_conv(&function->nodes[i]))
      KEEL_TRY(taps_visit(function, &function->nodes[i]));
  return KD_OK;
}
