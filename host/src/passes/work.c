/* work.c - bounds of what kernels do, for the ops whose work is more than what they read
 * and write. */
#include "passes/work.h"
#include "passes/passes.h"
#include "values/strings.h"

#define STEPS_EACH     4    /* of an element that is only read or written */
#define SAMPLES        4096 /* of a bin of RoiAlign, each way, at most */
#define TAPS_OF_RESIZE 16   /* that a resized element may read where it grows */
#define STRING_BYTES   32   /* of a string, beside its text */
#define MATCH_STEPS    10000000 /* of one search of an expression, at most */

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

/* The strings of an input that is a constant; NULL: it is not, or is none of strings. */
static const keel_strings *strings_in(const keel_function *function,
                                      const keel_node *node, uint32_t index) {
  uint32_t value = node->inputs[index];
  const keel_tensor *constant =
      value == KEEL_ABSENT ? NULL : function->values[value].constant;
  return keel_is_strings(constant) ? constant->strings : NULL;
}

static uint64_t longest_of(const keel_strings *strings) {
  uint64_t longest = 0;
  for (int64_t i = 0; strings && i < strings->count; i++) {
    uint64_t size = keel_strings_get(strings, i).size;
    if (size > longest) longest = size;
  }
  return longest;
}

/* Of a string that is made of those that are read. */
static uint64_t bytes_of_string(const keel_function *function,
                                const keel_node *node) {
  uint64_t bytes = STRING_BYTES;
  for (uint32_t i = 0; i < node->input_count; i++)
    bytes = plus(bytes, longest_of(strings_in(function, node, i)));
  return bytes;
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
                                       "TfIdfVectorizer", NULL};
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
  if (!strcmp(name, "RegexFullMatch") || !strcmp(name, "Tokenizer"))
    return times(s->read, MATCH_STEPS);
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
    const keel_strings *strings = strings_in(function, node, i);
    if (i < 8) s.in[i] = type;
    s.read = plus(s.read, elements(type));
    if (strings) s.read = plus(s.read, strings->offsets[strings->count]);
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
  uint64_t bytes = 0, each = bytes_of_string(function, node);
  for (uint32_t i = 0; i < node->output_count; i++) {
    uint32_t value = node->outputs[i];
    if (value == KEEL_ABSENT) continue;
    const keel_type *type = function->values[value].type;
    if (type && keel_type_known(type)) {
      bool strings = type->dtype == KD_STRING;
      bytes = plus(bytes, strings ? times(elements(type), each) : type->bytes);
      continue;
    }
    /* by the data: at most an index of each element that is read (NonZero), or as many parts of
     * each string as the longest one has (StringSplit) */
    for (uint32_t k = 0; k < node->input_count; k++) {
      const keel_type *in = input_type(function, node, k);
      bool strings = in && in->dtype == KD_STRING;
      uint64_t index = in ? times(in->rank + 1, sizeof(int64_t)) : 0;
      bytes = plus(bytes, times(elements(in),
                                strings ? times(each, STRING_BYTES) : index));
    }
  }
  return bytes;
}
