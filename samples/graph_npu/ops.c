/* ops.c - the ops of the sample NPU: f32, and integers where they are only moved.
 *
 * Plain loops on the host's threads stand in for the silicon. Semantics are those of
 * ONNX's operator documents. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "npu.h"

/* ---- shapes ----------------------------------------------------------------------- */

static uint64_t element_size(uint32_t dtype) {
  return dtype == KD_I64 ? 8 : dtype == KD_F32 || dtype == KD_I32 ? 4 : 1;
}

bool npu_shape_of(const kd_type *type, npu_shape *out) {
  bool good = type->rank <= NPU_RANK &&
              (type->dtype == KD_F32 || type->dtype == KD_I64 ||
               type->dtype == KD_I32 || type->dtype == KD_BOOL);
  *out = (npu_shape){.dtype = type->dtype, .rank = type->rank, .count = 1};
  for (uint32_t i = 0; good && i < type->rank; i++) {
    out->dims[i] = type->dims[i];
    good = type->dims[i] >= 0 &&
           !__builtin_mul_overflow(out->count, type->dims[i], &out->count) &&
           out->count <= INT32_MAX;
  }
  return good;
}

uint64_t npu_size(const npu_shape *shape) {
  return (uint64_t)shape->count * element_size(shape->dtype);
}

static bool same_shape(const npu_shape *a, const npu_shape *b) {
  return a->rank == b->rank &&
         !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

/* A product of dimensions, from `begin` up to, not including, `end`. */
static int64_t product(const npu_shape *shape, uint32_t begin, uint32_t end) {
  int64_t n = 1;
  for (uint32_t i = begin; i < end; i++)
    n *= shape->dims[i];
  return n;
}

/* An axis in [-rank, rank) as one in [0, rank). */
static bool read_axis(int64_t axis, uint32_t rank, int64_t *out) {
  *out = axis < 0 ? axis + (int64_t)rank : axis;
  return *out >= 0 && *out < (int64_t)rank;
}

/* Where element i of the result is in an operand that broadcasts to it. */
static int64_t broadcast(const npu_shape *from, const npu_shape *to,
                         int64_t i) {
  int64_t at = 0, step = 1;
  for (uint32_t back = 1; back <= from->rank; back++) {
    int64_t dim = to->dims[to->rank - back], index = i % dim;
    i /= dim;
    if (from->dims[from->rank - back] != 1) at += index * step;
    step *= from->dims[from->rank - back];
  }
  return at;
}

/* Work that the device's cores share: rows of a result. */
typedef struct rows {
  const npu_step *step;
  const void *const *in;
  void *out;
} rows;

static void share(const kd_host *host, kd_loop_body body, const npu_step *step,
                  const void *const *in, void *out, int64_t count) {
  rows all = {step, in, out};
  host->parallel_for(host, count, 1, body, &all);
}

/* ---- elementwise ------------------------------------------------------------------- */

enum { RELU, SIGMOID, TANH, ERF, EXP, SQRT, NEG, ABS, RECIPROCAL, GELU };
enum { ADD, SUB, MUL, DIV, POW };

static bool read_unary(const kd_host *host, const kd_node *node,
                       npu_step *step) {
  step->ints[1] =
      !strcmp(host->node->attr_string(node, "approximate", "none"), "tanh");
  return step->input_count == 1 && step->from[0].dtype == KD_F32;
}

static float gelu(float x, bool by_tanh) {
  if (by_tanh)
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
  return 0.5f * x * (1 + erff(x * 0.70710678f));
}

static float unary(const npu_step *step, float x) {
  switch (npu_ops[step->op].variant) {
    case RELU:
      return x < 0 ? 0 : x;
    case SIGMOID:
      return 1 / (1 + expf(-x));
    case TANH:
      return tanhf(x);
    case ERF:
      return erff(x);
    case EXP:
      return expf(x);
    case SQRT:
      return sqrtf(x);
    case NEG:
      return -x;
    case ABS:
      return fabsf(x);
    case RECIPROCAL:
      return 1 / x;
    default:
      return gelu(x, step->ints[1] != 0);
  }
}

static void run_unary(const kd_host *host, const npu_step *step,
                      const void *const *in, void *out) {
  const float *x = in[0];
  float *y = out;
  (void)host;
  for (int64_t i = 0; i < step->to.count; i++)
    y[i] = unary(step, x[i]);
}

static bool read_binary(const kd_host *host, const kd_node *node,
                        npu_step *step) {
  (void)host, (void)node;
  return step->input_count == 2 && step->from[0].dtype == KD_F32 &&
         step->from[1].dtype == KD_F32;
}

static float binary(uint32_t op, float a, float b) {
  return op == ADD   ? a + b
         : op == SUB ? a - b
         : op == MUL ? a * b
         : op == DIV ? a / b
                     : powf(a, b);
}

static void run_binary(const kd_host *host, const npu_step *step,
                       const void *const *in, void *out) {
  const float *a = in[0], *b = in[1];
  float *y = out;
  uint32_t op = npu_ops[step->op].variant;
  (void)host;
  bool plain_a = same_shape(&step->from[0], &step->to);
  bool plain_b = same_shape(&step->from[1], &step->to);
  for (int64_t i = 0; i < step->to.count; i++)
    y[i] = binary(op, a[plain_a ? i : broadcast(&step->from[0], &step->to, i)],
                  b[plain_b ? i : broadcast(&step->from[1], &step->to, i)]);
}

/* ---- moving ------------------------------------------------------------------------ */

/* Ops that give the same elements another shape, which is the output's. */
static bool read_view(const kd_host *host, const kd_node *node,
                      npu_step *step) {
  (void)host, (void)node;
  if (!step->input_count || step->from[0].count != step->to.count) return false;
  step->input_count = 1; /* the others say what the shape is */
  return true;
}

static void run_view(const kd_host *host, const npu_step *step,
                     const void *const *in, void *out) {
  (void)host;
  if (step->to.count) memcpy(out, in[0], npu_size(&step->to));
}

static bool read_transpose(const kd_host *host, const kd_node *node,
                           npu_step *step) {
  const int64_t *perm = NULL;
  int64_t count = host->node->attr_ints(node, "perm", &perm);
  uint32_t rank = step->to.rank, seen = 0;
  if (count >= 0 && count != (int64_t)rank) return false;
  for (uint32_t i = 0; i < rank; i++) {
    step->ints[i] = count < 0 ? (int64_t)(rank - 1 - i) : perm[i];
    if (step->ints[i] < 0 || step->ints[i] >= (int64_t)rank) return false;
    seen |= 1u << step->ints[i];
  }
  return seen == (1u << rank) - 1;
}

static void run_transpose(const kd_host *host, const npu_step *step,
                          const void *const *in, void *out) {
  const char *x = in[0];
  char *y = out;
  size_t each = element_size(step->to.dtype);
  int64_t steps[NPU_RANK];
  (void)host;
  for (uint32_t i = 0; i < step->to.rank; i++)
    steps[i] = product(&step->from[0], (uint32_t)step->ints[i] + 1,
                       step->from[0].rank);
  for (int64_t i = 0; i < step->to.count; i++) {
    int64_t at = 0, left = i;
    for (uint32_t d = step->to.rank; d-- > 0; left /= step->to.dims[d])
      at += left % step->to.dims[d] * steps[d];
    memcpy(y + (size_t)i * each, x + (size_t)at * each, each);
  }
}

static bool read_gather(const kd_host *host, const kd_node *node,
                        npu_step *step) {
  int64_t axis = host->node->attr_int(node, "axis", 0);
  return step->input_count == 2 &&
         (step->from[1].dtype == KD_I64 || step->from[1].dtype == KD_I32) &&
         read_axis(axis, step->from[0].rank, &step->ints[0]);
}

/* An index that is out of range takes the nearest row: the device has no way to fail. */
static int64_t row_index(const npu_step *step, const void *indices, int64_t i) {
  int64_t dim = step->from[0].dims[step->ints[0]];
  int64_t at = step->from[1].dtype == KD_I64 ? ((const int64_t *)indices)[i]
                                             : ((const int32_t *)indices)[i];
  if (at < 0) at += dim;
  return at < 0 ? 0 : at >= dim ? dim - 1 : at;
}

static void run_gather(const kd_host *host, const npu_step *step,
                       const void *const *in, void *out) {
  const npu_shape *data = &step->from[0];
  uint32_t axis = (uint32_t)step->ints[0];
  int64_t outer = product(data, 0, axis), dim = data->dims[axis];
  int64_t inner = product(data, axis + 1, data->rank);
  int64_t count = step->from[1].count;
  size_t row = (size_t)inner * element_size(data->dtype);
  (void)host;
  if (!step->to.count) return;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < count; i++)
      memcpy((char *)out + (size_t)(o * count + i) * row,
             (const char *)in[0] +
                 (size_t)(o * dim + row_index(step, in[1], i)) * row,
             row);
}

static bool read_concat(const kd_host *host, const kd_node *node,
                        npu_step *step) {
  return read_axis(host->node->attr_int(node, "axis", 0), step->to.rank,
                   &step->ints[0]);
}

static void run_concat(const kd_host *host, const npu_step *step,
                       const void *const *in, void *out) {
  uint32_t axis = (uint32_t)step->ints[0];
  int64_t outer = product(&step->to, 0, axis);
  size_t each = element_size(step->to.dtype);
  char *to = out;
  (void)host;
  for (int64_t o = 0; o < outer; o++)
    for (uint32_t i = 0; i < step->input_count; i++) {
      size_t row =
          (size_t)product(&step->from[i], axis, step->from[i].rank) * each;
      if (row) memcpy(to, (const char *)in[i] + (size_t)o * row, row);
      to += row;
    }
}

/* ---- rows ---------------------------------------------------------------------------- */

static bool read_softmax(const kd_host *host, const kd_node *node,
                         npu_step *step) {
  int64_t axis = host->node->attr_int(node, "axis", -1);
  return host->node->opset(node) >= 13 && step->from[0].dtype == KD_F32 &&
         step->to.rank && read_axis(axis, step->to.rank, &step->ints[0]) &&
         step->ints[0] == (int64_t)step->to.rank - 1;
}

static void softmax_rows(void *context, int64_t begin, int64_t end) {
  const rows *all = context;
  int64_t n = all->step->to.dims[all->step->to.rank - 1];
  for (int64_t r = begin; r < end; r++) {
    const float *x = (const float *)all->in[0] + r * n;
    float *y = (float *)all->out + r * n, most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
      most = x[i] > most || isnan(x[i]) ? x[i] : most;
    for (int64_t i = 0; i < n; i++)
      sum += y[i] = expf(x[i] - most);
    for (int64_t i = 0; i < n; i++)
      y[i] /= sum;
  }
}

static void run_softmax(const kd_host *host, const npu_step *step,
                        const void *const *in, void *out) {
  share(host, softmax_rows, step, in, out,
        product(&step->to, 0, step->to.rank - 1));
}

static bool read_layer_norm(const kd_host *host, const kd_node *node,
                            npu_step *step) {
  int64_t axis = host->node->attr_int(node, "axis", -1);
  step->floats[0] = host->node->attr_float(node, "epsilon", 1e-5f);
  if (step->input_count < 2 || step->from[0].dtype != KD_F32 ||
      !read_axis(axis, step->to.rank, &step->ints[0]))
    return false;
  int64_t n = product(&step->to, (uint32_t)step->ints[0], step->to.rank);
  return step->from[1].count == n &&
         (step->input_count < 3 || step->from[2].count == n);
}

static void norm_rows(void *context, int64_t begin, int64_t end) {
  const rows *all = context;
  const npu_step *step = all->step;
  int64_t n = product(&step->to, (uint32_t)step->ints[0], step->to.rank);
  const float *scale = all->in[1];
  const float *bias = step->input_count > 2 ? all->in[2] : NULL;
  for (int64_t r = begin; r < end; r++) {
    const float *x = (const float *)all->in[0] + r * n;
    float *y = (float *)all->out + r * n;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
      sum += (double)x[i];
    double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
      squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    double by = 1 / sqrt(squares / (double)n + (double)step->floats[0]);
    for (int64_t i = 0; i < n; i++)
      y[i] =
          (float)(((double)x[i] - mean) * by) * scale[i] + (bias ? bias[i] : 0);
  }
}

static void run_layer_norm(const kd_host *host, const npu_step *step,
                           const void *const *in, void *out) {
  share(host, norm_rows, step, in, out,
        product(&step->to, 0, (uint32_t)step->ints[0]));
}

/* Means over the last axes. */
static bool read_mean(const kd_host *host, const kd_node *node,
                      npu_step *step) {
  kd_tensor constant;
  const int64_t *axes = NULL;
  int64_t count = host->node->attr_ints(node, "axes", &axes), axis = 0;
  uint32_t rank = step->from[0].rank, seen = 0;
  if (count < 0 && host->node->constant(node, 1, &constant) == KD_OK &&
      constant.dtype == KD_I64) {
    axes = constant.data;
    count = kd_elements(&constant);
  }
  if (count < 1 || step->from[0].dtype != KD_F32) return false;
  for (int64_t i = 0; i < count; i++) {
    if (!read_axis(axes[i], rank, &axis)) return false;
    seen |= 1u << axis;
  }
  step->input_count = 1;
  step->ints[0] = (int64_t)rank - count;
  uint32_t last = (1u << rank) - (1u << step->ints[0]);
  return step->ints[0] >= 0 && seen == last;
}

static void run_mean(const kd_host *host, const npu_step *step,
                     const void *const *in, void *out) {
  const float *x = in[0];
  float *y = out;
  const npu_shape *from = &step->from[0];
  int64_t n = product(from, (uint32_t)step->ints[0], from->rank);
  (void)host;
  for (int64_t r = 0; r < step->to.count; r++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
      sum += (double)x[r * n + i];
    y[r] = (float)(sum / (double)n);
  }
}

/* ---- products ------------------------------------------------------------------------ */

/* ints: m, n, k, steps of A's row and column and of B's, batch of A and B to broadcast */
static bool read_matmul(const kd_host *host, const kd_node *node,
                        npu_step *step) {
  const npu_shape *a = &step->from[0], *b = &step->from[1];
  (void)host, (void)node;
  if (step->input_count != 2 || a->dtype != KD_F32 || a->rank < 2 ||
      b->rank < 2)
    return false;
  int64_t m = a->dims[a->rank - 2], k = a->dims[a->rank - 1];
  int64_t n = b->dims[b->rank - 1];
  const int64_t ints[] = {m, n, k, k, 1, n, 1};
  memcpy(step->ints, ints, sizeof ints);
  return true;
}

static bool read_gemm(const kd_host *host, const kd_node *node,
                      npu_step *step) {
  const kd_node_table *read = host->node;
  bool ta = read->attr_int(node, "transA", 0) != 0;
  bool tb = read->attr_int(node, "transB", 0) != 0;
  int64_t m = step->to.dims[0], n = step->to.dims[1];
  if (step->from[0].dtype != KD_F32 || step->to.rank != 2) return false;
  int64_t k = step->from[0].dims[ta ? 0 : 1];
  const int64_t ints[] = {m,          n,          k,         ta ? 1 : k,
                          ta ? m : 1, tb ? 1 : n, tb ? k : 1};
  memcpy(step->ints, ints, sizeof ints);
  step->floats[0] = read->attr_float(node, "alpha", 1);
  step->floats[1] = read->attr_float(node, "beta", 1);
  return true;
}

/* Row r of all products: r / m is the product, r % m its row. */
static void product_rows(void *context, int64_t begin, int64_t end) {
  const rows *all = context;
  const npu_step *step = all->step;
  const int64_t *p = step->ints;
  int64_t m = p[0], n = p[1], k = p[2];
  npu_shape batch = step->to, of_a = step->from[0], of_b = step->from[1];
  batch.rank -= 2, of_a.rank -= 2, of_b.rank -= 2;
  for (int64_t r = begin; r < end; r++) {
    const float *a = (const float *)all->in[0] +
                     broadcast(&of_a, &batch, r / m) * m * k + r % m * p[3];
    const float *b =
        (const float *)all->in[1] + broadcast(&of_b, &batch, r / m) * k * n;
    float *y = (float *)all->out + r * n;
    memset(y, 0, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < k; i++) {
      float x = a[i * p[4]];
      const float *row = b + i * p[5];
      if (p[6] == 1)
        for (int64_t j = 0; j < n; j++)
          y[j] += x * row[j];
      else
        for (int64_t j = 0; j < n; j++)
          y[j] += x * row[j * p[6]];
    }
  }
}

static void run_matmul(const kd_host *host, const npu_step *step,
                       const void *const *in, void *out) {
  if (step->to.count)
    share(host, product_rows, step, in, out,
          step->to.count / step->to.dims[step->to.rank - 1]);
}

static void run_gemm(const kd_host *host, const npu_step *step,
                     const void *const *in, void *out) {
  const float *c =
      step->input_count > 2 && step->in[2] != NPU_NONE ? in[2] : NULL;
  float *y = out;
  run_matmul(host, step, in, out);
  for (int64_t i = 0; i < step->to.count; i++) {
    y[i] *= step->floats[0];
    if (c) y[i] += step->floats[1] * c[broadcast(&step->from[2], &step->to, i)];
  }
}

/* ---- images ---------------------------------------------------------------------------- */

enum { KH, KW, SH, SW, TOP, LEFT, DH, DW, GROUPS }; /* in ints */

/* Two dimensions of space, and explicit padding. */
static bool read_window(const kd_host *host, const kd_node *node,
                        npu_step *step) {
  const kd_node_table *read = host->node;
  const int64_t *list = NULL;
  if (step->from[0].dtype != KD_F32 || step->from[0].rank != 4 ||
      strcmp(read->attr_string(node, "auto_pad", "NOTSET"), "NOTSET") != 0)
    return false;
  step->ints[SH] = step->ints[SW] = step->ints[DH] = step->ints[DW] = 1;
  if (read->attr_ints(node, "kernel_shape", &list) == 2)
    memcpy(&step->ints[KH], list, 2 * sizeof *list);
  if (read->attr_ints(node, "strides", &list) == 2)
    memcpy(&step->ints[SH], list, 2 * sizeof *list);
  if (read->attr_ints(node, "pads", &list) == 4)
    memcpy(&step->ints[TOP], list, 2 * sizeof *list);
  if (read->attr_ints(node, "dilations", &list) == 2)
    memcpy(&step->ints[DH], list, 2 * sizeof *list);
  return true;
}

static bool read_conv(const kd_host *host, const kd_node *node,
                      npu_step *step) {
  if (!read_window(host, node, step) || step->from[1].rank != 4) return false;
  step->ints[KH] = step->from[1].dims[2];
  step->ints[KW] = step->from[1].dims[3];
  step->ints[GROUPS] = host->node->attr_int(node, "group", 1);
  return step->ints[GROUPS] > 0;
}

/* Adds one channel of the input, through its taps, to one of the output. */
static void convolve(const npu_step *step, const float *x, const float *w,
                     float *y) {
  const int64_t *p = step->ints, *in = step->from[0].dims, *out = step->to.dims;
  for (int64_t kh = 0; kh < p[KH]; kh++)
    for (int64_t kw = 0; kw < p[KW]; kw++) {
      float weight = w[kh * p[KW] + kw];
      for (int64_t oh = 0; oh < out[2]; oh++) {
        int64_t ih = oh * p[SH] + kh * p[DH] - p[TOP];
        int64_t iw = kw * p[DW] - p[LEFT];
        if (ih < 0 || ih >= in[2]) continue;
        const float *row = x + ih * in[3];
        float *to = y + oh * out[3];
        for (int64_t ow = 0; ow < out[3]; ow++, iw += p[SW])
          if (iw >= 0 && iw < in[3]) to[ow] += weight * row[iw];
      }
    }
}

/* One channel of one image of the output. */
static void conv_channels(void *context, int64_t begin, int64_t end) {
  const rows *all = context;
  const npu_step *step = all->step;
  const int64_t *in = step->from[0].dims, *out = step->to.dims;
  int64_t per_group = in[1] / step->ints[GROUPS];
  int64_t plane = in[2] * in[3], area = out[2] * out[3];
  int64_t taps = step->ints[KH] * step->ints[KW];
  const float *bias =
      step->input_count > 2 && step->in[2] != NPU_NONE ? all->in[2] : NULL;
  for (int64_t r = begin; r < end; r++) {
    int64_t image = r / out[1], channel = r % out[1];
    int64_t first = channel / (out[1] / step->ints[GROUPS]) * per_group;
    float *y = (float *)all->out + r * area;
    for (int64_t i = 0; i < area; i++)
      y[i] = bias ? bias[channel] : 0;
    for (int64_t c = 0; c < per_group; c++)
      convolve(step,
               (const float *)all->in[0] + (image * in[1] + first + c) * plane,
               (const float *)all->in[1] + (channel * per_group + c) * taps, y);
  }
}

static void run_conv(const kd_host *host, const npu_step *step,
                     const void *const *in, void *out) {
  if (step->to.count)
    share(host, conv_channels, step, in, out,
          step->to.dims[0] * step->to.dims[1]);
}

static bool read_pool(const kd_host *host, const kd_node *node,
                      npu_step *step) {
  return host->node->output_count(node) == 1 && read_window(host, node, step);
}

static float most_of(const npu_step *step, const float *x, int64_t oh,
                     int64_t ow) {
  const int64_t *p = step->ints, *in = step->from[0].dims;
  float most = -INFINITY;
  for (int64_t kh = 0; kh < p[KH]; kh++)
    for (int64_t kw = 0; kw < p[KW]; kw++) {
      int64_t ih = oh * p[SH] + kh * p[DH] - p[TOP];
      int64_t iw = ow * p[SW] + kw * p[DW] - p[LEFT];
      if (ih < 0 || ih >= in[2] || iw < 0 || iw >= in[3]) continue;
      float value = x[ih * in[3] + iw];
      if (value > most || isnan(value)) most = value;
    }
  return most;
}

static void run_max_pool(const kd_host *host, const npu_step *step,
                         const void *const *in, void *out) {
  const int64_t *from = step->from[0].dims, *to = step->to.dims;
  int64_t area = to[2] * to[3];
  (void)host;
  for (int64_t i = 0; i < step->to.count; i++)
    ((float *)out)[i] =
        most_of(step, (const float *)in[0] + i / area * from[2] * from[3],
                i % area / to[3], i % to[3]);
}

static bool read_global_pool(const kd_host *host, const kd_node *node,
                             npu_step *step) {
  (void)host, (void)node;
  step->ints[0] = 2;
  return step->from[0].dtype == KD_F32 && step->from[0].rank > 2;
}

static bool read_batch_norm(const kd_host *host, const kd_node *node,
                            npu_step *step) {
  step->floats[0] = host->node->attr_float(node, "epsilon", 1e-5f);
  return step->input_count == 5 && host->node->output_count(node) == 1 &&
         host->node->attr_int(node, "training_mode", 0) == 0 &&
         step->from[0].dtype == KD_F32 && step->from[1].dtype == KD_F32 &&
         step->to.rank >= 2;
}

static void run_batch_norm(const kd_host *host, const npu_step *step,
                           const void *const *in, void *out) {
  const float *x = in[0], *scale = in[1], *bias = in[2], *mean = in[3],
              *variance = in[4];
  int64_t inner = product(&step->to, 2, step->to.rank);
  float *y = out;
  (void)host;
  for (int64_t i = 0; i < step->to.count; i++) {
    int64_t c = i / inner % step->to.dims[1];
    y[i] = (x[i] - mean[c]) / sqrtf(variance[c] + step->floats[0]) * scale[c] +
           bias[c];
  }
}

/* ---- the list -------------------------------------------------------------------------- */

const npu_op npu_ops[] = {
    {"Relu", read_unary, run_unary, RELU},
    {"Sigmoid", read_unary, run_unary, SIGMOID},
    {"Tanh", read_unary, run_unary, TANH},
    {"Erf", read_unary, run_unary, ERF},
    {"Exp", read_unary, run_unary, EXP},
    {"Sqrt", read_unary, run_unary, SQRT},
    {"Neg", read_unary, run_unary, NEG},
    {"Abs", read_unary, run_unary, ABS},
    {"Reciprocal", read_unary, run_unary, RECIPROCAL},
    {"Gelu", read_unary, run_unary, GELU},
    {"Add", read_binary, run_binary, ADD},
    {"Sub", read_binary, run_binary, SUB},
    {"Mul", read_binary, run_binary, MUL},
    {"Div", read_binary, run_binary, DIV},
    {"Pow", read_binary, run_binary, POW},
    {"Reshape", read_view, run_view, 0},
    {"Flatten", read_view, run_view, 0},
    {"Squeeze", read_view, run_view, 0},
    {"Unsqueeze", read_view, run_view, 0},
    {"Identity", read_view, run_view, 0},
    {"Transpose", read_transpose, run_transpose, 0},
    {"Gather", read_gather, run_gather, 0},
    {"Concat", read_concat, run_concat, 0},
    {"Softmax", read_softmax, run_softmax, 0},
    {"LayerNormalization", read_layer_norm, run_layer_norm, 0},
    {"ReduceMean", read_mean, run_mean, 0},
    {"MatMul", read_matmul, run_matmul, 0},
    {"Gemm", read_gemm, run_gemm, 0},
    {"Conv", read_conv, run_conv, 0},
    {"MaxPool", read_pool, run_max_pool, 0},
    {"GlobalAveragePool", read_global_pool, run_mean, 0},
    {"BatchNormalization", read_batch_norm, run_batch_norm, 0},
};
const uint32_t npu_op_count = sizeof npu_ops / sizeof *npu_ops;

uint64_t npu_flops(const npu_step *step) {
  uint64_t out = (uint64_t)step->to.count;
  if (npu_ops[step->op].run == run_conv)
    return 2 * out *
           (uint64_t)(step->from[1].dims[1] * step->ints[KH] * step->ints[KW]);
  if (npu_ops[step->op].run == run_matmul || npu_ops[step->op].run == run_gemm)
    return 2 * out * (uint64_t)step->ints[2];
  return out;
}

bool npu_translate(const kd_host *host, const kd_node *node, npu_step *out) {
  const kd_node_table *read = host->node;
  kd_type type;
  memset(out, 0, sizeof *out);
  while (out->op < npu_op_count &&
         strcmp(read->op(node), npu_ops[out->op].name) != 0)
    out->op++;
  out->input_count = read->input_count(node);
  if (out->op == npu_op_count || strcmp(read->domain(node), "ai.onnx") != 0 ||
      read->opset(node) > KD_OPSET || out->input_count > NPU_INPUTS ||
      read->output_count(node) != 1 ||
      read->output_type(node, 0, &type) != KD_OK ||
      !npu_shape_of(&type, &out->to))
    return false;
  for (uint32_t i = 0; i < out->input_count; i++) {
    kd_status status = read->input_type(node, i, &type);
    if (status == KD_NOT_FOUND && i) continue; /* absent */
    if (status != KD_OK || !npu_shape_of(&type, &out->from[i])) return false;
  }
  return npu_ops[out->op].read(host, node, out);
}
