/* estimate.c - arithmetic of ops that do more than one operation an element: functions,
 * windows, sums, products, recurrent cells. A function counts as the multiplications and
 * additions of its polynomial. */
#include "families/estimate.h"

#include <kd/help.h>
#include <stdbool.h>
#include <string.h>

#define MOST \
  1e18 /* what a count is cut to: a float holds it, and so does a uint64 */

typedef struct sizes {
  const kd_host *host;
  const kd_node *node;
  const char *op;
  kd_type in[4], out;          /* rank KD_RANK_UNKNOWN: not there */
  double read, written, bytes; /* elements of all, and bytes */
} sizes;

/* ---- sizes ------------------------------------------------------------------------ */

static double elements_of(const kd_type *type) {
  double n = 1;
  if (type->rank == KD_RANK_UNKNOWN || type->dtype == KD_NONE) return 0;
  for (uint32_t i = 0; i < type->rank; i++)
    n *= (double)type->dims[i];
  return n;
}

/* A dimension, from the end where `index` is negative; 1 where there is none. */
static double dim_of(const kd_type *type, int index) {
  if (type->rank == KD_RANK_UNKNOWN) return 1;
  int at = index < 0 ? index + (int)type->rank : index;
  return at >= 0 && at < (int)type->rank ? (double)type->dims[at] : 1;
}

static bool estimate_is_open(const kd_type *type) {
  if (type->rank == KD_RANK_UNKNOWN) return true;
  for (uint32_t i = 0; i < type->rank; i++)
    if (type->dims[i] < 0) return true;
  return false;
}

/* Adds an argument; false where its size is not known. */
static bool estimate_add(sizes *s, const kd_type *type, double *count) {
  if (type->dtype == KD_NONE) return true; /* it is absent */
  if (estimate_is_open(type)) return false;
  *count += elements_of(type);
  s->bytes += elements_of(type) * kd_dtype_size(type->dtype);
  return true;
}

static bool read_sizes(sizes *s) {
  const kd_node_table *read = s->host->node;
  s->op = read->op(s->node);
  for (int i = 0; i < 4; i++)
    s->in[i] = (kd_type){.rank = KD_RANK_UNKNOWN};
  for (uint32_t i = 0; i < read->input_count(s->node); i++) {
    kd_type type = {0};
    if (read->input_type(s->node, i, &type) != KD_OK) continue;
    if (!estimate_add(s, &type, &s->read)) return false;
    if (i < 4) s->in[i] = type;
  }
  for (uint32_t i = 0; i < read->output_count(s->node); i++) {
    kd_type type = {0};
    if (read->output_type(s->node, i, &type) != KD_OK) continue;
    if (!estimate_add(s, &type, &s->written)) return false;
    if (!i) s->out = type;
  }
  return true;
}

/* ---- kinds of ops ------------------------------------------------------------------ */

typedef struct weight {
  const char *op;
  double each;
} weight;

/* Operations for each element that is written; 0: the op is not listed. */
static double function_weight(const char *op) {
  static const weight functions[] = {
      {"Exp", 16},     {"Log", 20},     {"Sigmoid", 20},   {"Tanh", 24},
      {"Erf", 24},     {"Gelu", 30},    {"Softplus", 36},  {"Mish", 50},
      {"Elu", 18},     {"Selu", 18},    {"Celu", 18},      {"Sin", 24},
      {"Cos", 24},     {"Tan", 40},     {"Cbrt", 40},      {"Expm1", 20},
      {"Log1p", 20},   {"Atan2", 30},   {"Swish", 16},     {"Asin", 24},
      {"Acos", 24},    {"Atan", 24},    {"Sinh", 24},      {"Cosh", 24},
      {"Asinh", 30},   {"Acosh", 30},   {"Atanh", 30},     {"Pow", 40},
      {"Sqrt", 4},     {"Div", 4},      {"Reciprocal", 4}, {"HardSwish", 4},
      {"Softsign", 6}, {"Uniform", 40}, {"Normal", 90}};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (!strcmp(op, functions[i].op)) return functions[i].each;
  return 0;
}

/* Operations for each element that is read: of a line that is reduced or normalised. */
static double line_weight(const char *op) {
  static const weight lines[] = {{"Softmax", 20},
                                 {"LogSoftmax", 20},
                                 {"ReduceLogSumExp", 18},
                                 {"ReduceLogSum", 1},
                                 {"LayerNormalization", 6},
                                 {"RMSNormalization", 4},
                                 {"InstanceNormalization", 6},
                                 {"GroupNormalization", 6},
                                 {"MeanVarianceNormalization", 6},
                                 {"LpNormalization", 4},
                                 {"CumSum", 1},
                                 {"CumProd", 1},
                                 {"TopK", 12},
                                 {"ArgMax", 1},
                                 {"ArgMin", 1},
                                 {"GlobalAveragePool", 1},
                                 {"GlobalMaxPool", 1},
                                 {"GlobalLpPool", 2}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (!strcmp(op, lines[i].op)) return lines[i].each;
  return strncmp(op, "Reduce", 6) ? 0 : 1;
}

static bool estimate_has(const char *op, const char *part) {
  return strstr(op, part) != NULL;
}

/* Taps of a window: a filter's, or those that kernel_shape names. */
static double window_taps(const sizes *s) {
  const int64_t *shape = NULL;
  int64_t count = s->host->node->attr_ints(s->node, "kernel_shape", &shape);
  double taps = 1;
  for (int64_t i = 0; i < count; i++)
    taps *= (double)shape[i];
  return taps;
}

/* A filter's rows meet the channels of its group. */
static double convolution(const sizes *s) {
  const kd_type *w = &s->in[!strncmp(s->op, "QLinear", 7) ? 3 : 1];
  bool last = !strcmp(s->op, "DepthwiseConv"); /* its channels */
  double filters = dim_of(w, last ? -1 : 0);
  double taps = filters > 0 ? elements_of(w) / filters : 0;
  return 2 * taps *
         (estimate_has(s->op, "Transpose") ? elements_of(&s->in[0])
                                           : elements_of(&s->out));
}

static double estimate_product(const sizes *s) {
  bool transposed = s->host->node->attr_int(s->node, "transA", 0) != 0;
  double k = dim_of(&s->in[0], transposed && !strcmp(s->op, "Gemm") ? 0 : -1);
  return 2 * k * elements_of(&s->out);
}

/* Rows of Q meet all of K, and of V. */
static double attention(const sizes *s) {
  double rows = elements_of(&s->in[0]) / (dim_of(&s->in[0], -1) + 1e-9);
  double each = 2 * (dim_of(&s->in[0], -1) + dim_of(&s->in[2], -1)) + 20;
  return rows * dim_of(&s->in[1], -2) * each;
}

/* Every weight meets every element of the sequence and batch. */
static double recurrent(const sizes *s) {
  return 2 * dim_of(&s->in[0], 0) * dim_of(&s->in[0], 1) *
         (elements_of(&s->in[1]) + elements_of(&s->in[2]));
}

/* Each letter once: what is summed over stands in no output. */
static double einsum(const sizes *s) {
  const char *at = s->host->node->attr_string(s->node, "equation", "");
  double sizes_of[128] = {0}, all = 2;
  uint32_t input = 0, dim = 0;
  for (; *at && *at != '-' && input < 4; at++) {
    if (*at == ',') {
      input++;
      dim = 0;
    } else if (*at == '.') {
      return 2 * elements_of(&s->out) * dim_of(&s->in[0], -1);
    } else if (*at > ' ' && (unsigned char)*at < 128) {
      sizes_of[(unsigned char)*at] = dim_of(&s->in[input], (int)dim++);
    }
  }
  for (int i = 0; i < 128; i++)
    if (sizes_of[i] > 0) all *= sizes_of[i];
  return all;
}

static double arithmetic(const sizes *s) {
  const char *op = s->op;
  double each = function_weight(op);
  if (each > 0) return each * s->written;
  if (estimate_has(op, "MatMul") || !strcmp(op, "Gemm"))
    return estimate_product(s);
  if (estimate_has(op, "Conv") && !estimate_has(op, "Convert"))
    return convolution(s);
  if (!strcmp(op, "LSTM") || !strcmp(op, "GRU") || !strcmp(op, "RNN"))
    return recurrent(s);
  if (!strcmp(op, "Attention")) return attention(s);
  if (!strcmp(op, "Einsum")) return einsum(s);
  each = line_weight(op);
  if (each > 0) return each * elements_of(&s->in[0]);
  if (estimate_has(op, "Pool")) return window_taps(s) * elements_of(&s->out);
  if (!strcmp(op, "LRN"))
    return (double)s->host->node->attr_int(s->node, "size", 1) *
           elements_of(&s->out);
  if (!strcmp(op, "DFT")) return 10 * dim_of(&s->in[0], -2) * s->written;
  if (!strcmp(op, "Resize")) return 16 * s->written;
  if (!strcmp(op, "Det")) return dim_of(&s->in[0], -1) * elements_of(&s->in[0]);
  return s->written;
}

static uint64_t estimate_whole(double count) {
  return count >= MOST ? (uint64_t)MOST : (uint64_t)count;
}

kd_status estimate_cost(const kd_host *host, const kd_node *node,
                        kd_cost *out_cost) {
  sizes s = {.host = host, .node = node};
  kd_cost cost = {.struct_size = out_cost->struct_size};
  if (read_sizes(&s)) {
    cost.flops = estimate_whole(arithmetic(&s));
    cost.bytes = estimate_whole(s.bytes);
  }
  memcpy(out_cost, &cost,
         cost.struct_size < sizeof cost ? cost.struct_size : sizeof cost);
  return KD_OK;
}
