/* work.c - bounds of what kernels do, for the ops whose work is more than what they read
 * and write. */
#include "passes/work.h"
#include "passes/passes.h"

#define STEPS_EACH     4    /* of an element that is only read or written */
#define SAMPLES        4096 /* of a bin of RoiAlign, each way, at most */
#define TAPS_OF_RESIZE 16   /* that a resized element may read where it grows */

static uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static const keel_type *input_type(const keel_function *function,
                                   const keel_node *node, uint32_t index) {
  return index < node->input_count
             ? keel_pass_type(function, node->inputs[index])
             : NULL;
}

static uint64_t elements(const keel_type *type) {
  return type ? (uint64_t)type->elements : 0;
}

/* A dimension, from the end where `index` is negative; 1 where there is none. */
static uint64_t dim_of(const keel_type *type, int index) {
  int at = type && index < 0 ? index + (int)type->rank : index;
  return type && at >= 0 && at < (int)type->rank ? (uint64_t)type->dims[at] : 1;
}

typedef struct sizes {
  const keel_type *in[8]; /* NULL: absent, or not known */
  uint64_t read, written; /* elements */
  const keel_node *node;
} sizes;

static bool is_one_of(const char *name, const char *const *names) {
  for (; *names; names++)
    if (!strcmp(name, *names)) return true;
  return false;
}

/* Steps for each element that is written, beside those that are read; 0: no such op. */
static uint64_t per_output(const char *name, const sizes *s) {
  static const char *const products[] = {"MatMul", "MatMulInteger",
                                         "QLinearMatMul", NULL};
  static const char *const convolutions[] = {
      "Conv", "ConvInteger", "QLinearConv", "FusedConv", "ActivatedConv", NULL};
  static const char *const windows[] = {"MaxPool", "AveragePool", "LpPool",
                                        "MaxRoiPool", NULL};
  if (is_one_of(name, products)) return plus(dim_of(s->in[0], -1), 1);
  if (!strcmp(name, "Gemm"))
    return plus(dim_of(s->in[0], 0), dim_of(s->in[0], 1));
  if (is_one_of(name, convolutions)) {
    const keel_type *w = s->in[strcmp(name, "QLinearConv") ? 1 : 3];
    return plus(elements(w) / (dim_of(w, 0) + !dim_of(w, 0)), 1);
  }
  if (!strcmp(name, "DepthwiseConv"))
    return plus(
        elements(s->in[1]) / (dim_of(s->in[1], -1) + !dim_of(s->in[1], -1)), 1);
  if (is_one_of(name, windows)) {
    const keel_type *x = s->in[0];
    uint64_t image = 1;
    for (uint32_t i = 2; x && i < x->rank; i++)
      image = times(image, (uint64_t)x->dims[i]);
    return plus(image, 1); /* windows are clipped to it */
  }
  if (!strcmp(name, "RoiAlign")) {
    int64_t given = keel_attr_int(s->node->op, "sampling_ratio", 0);
    uint64_t each = given > 0 ? (uint64_t)given : SAMPLES;
    return plus(each, times(dim_of(s->in[0], 2), dim_of(s->in[0], 3)));
  }
  if (!strcmp(name, "DFT")) return plus(s->written, 1);
  if (!strcmp(name, "STFT")) return plus(dim_of(s->in[0], 1), 1);
  return 0;
}

/* Steps beside those for what is read and written, of ops that are neither. */
static uint64_t beside(const char *name, const sizes *s) {
  static const char *const recurrent[] = {"LSTM", "GRU", "RNN", NULL};
  static const char *const square[] = {"NonMaxSuppression", "Unique", "Det",
                                       NULL};
  const keel_type *x = s->in[0];
  if (!strcmp(name, "ConvTranspose"))
    return times(s->read, elements(s->in[1]) / (dim_of(s->in[1], 0) + 1) + 1);
  if (is_one_of(name, recurrent))
    return times(times(dim_of(x, 0), dim_of(x, 1)),
                 plus(elements(s->in[1]), elements(s->in[2])));
  if (is_one_of(name, square)) return times(s->read, s->read);
  if (!strcmp(name, "Einsum")) {
    uint64_t all = 1;
    for (uint32_t i = 0; i < s->node->input_count; i++)
      all = times(all, i < 8 ? elements(s->in[i]) : UINT64_MAX);
    return all;
  }
  if (!strcmp(name, "LRN"))
    return times(s->read, dim_of(x, 1)); /* its window is of channels */
  if (!strcmp(name, "Resize") || !strcmp(name, "Upsample"))
    return times(plus(s->read, s->written), TAPS_OF_RESIZE);
  return 0;
}

uint64_t keel_steps_of(const keel_function *function, const keel_node *node) {
  const char *name = node->op->schema->name;
  sizes s = {.node = node};
  for (uint32_t i = 0; i < node->input_count; i++) {
    const keel_type *type = input_type(function, node, i);
    if (!type && node->inputs[i] != KEEL_ABSENT) return UINT64_MAX;
    if (i < 8) s.in[i] = type;
    s.read = plus(s.read, elements(type));
  }
  for (uint32_t i = 0; i < node->output_count; i++) {
    uint32_t value = node->outputs[i];
    const keel_type *type =
        value == KEEL_ABSENT ? NULL : function->values[value].type;
    if (type && keel_type_known(type))
      s.written = plus(s.written, elements(type));
  }
  uint64_t steps = times(plus(s.read, s.written), STEPS_EACH);
  steps = plus(steps, times(s.written, per_output(name, &s)));
  return plus(steps, beside(name, &s));
}

uint64_t keel_bytes_of(const keel_function *function, const keel_node *node) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < node->output_count; i++) {
    uint32_t value = node->outputs[i];
    if (value == KEEL_ABSENT) continue;
    const keel_type *type = function->values[value].type;
    if (type && keel_type_known(type)) {
      bytes = plus(bytes, type->bytes);
      continue;
    }
    /* by the data: at most an index of each element that is read (NonZero) */
    for (uint32_t k = 0; k < node->input_count; k++) {
      const keel_type *in = input_type(function, node, k);
      uint64_t each = in ? times(in->rank + 1, sizeof(int64_t)) : 0;
      bytes = plus(bytes, times(elements(in), each));
    }
  }
  return bytes;
}
