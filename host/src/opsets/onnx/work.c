/* work.c - how much the kernels of ops do that do more than to read and write elements: upper bounds
 * (steps), and arithmetic (flops). */
#include "passes/work.h"
#include "opsets/onnx/passes.h"
#include "opsets/tables.h"
#include "passes/cost.h"

#define SAMPLES        4096 /* of a bin of RoiAlign, each way, at most */
#define TAPS_OF_RESIZE 16   /* that a resized element may read where it grows */

/* ---- for each element that is written ---- */

static uint64_t product_steps(const keel_work *work) {
  return keel_work_each(work, keel_plus(keel_work_dim(work->in[0], -1), 1));
}

static uint64_t gemm_steps(const keel_work *work) {
  return keel_work_each(work, keel_plus(keel_work_dim(work->in[0], 0),
                                        keel_work_dim(work->in[0], 1)));
}

/* A filter's elements, of one output channel. */
static uint64_t filter_steps(const keel_work *work, const keel_type *filters,
                             int channels) {
  uint64_t count = keel_work_dim(filters, channels);
  return keel_work_each(
      work, keel_plus(keel_work_elements(filters) / (count + !count), 1));
}

static uint64_t conv_steps(const keel_work *work) {
  return filter_steps(work, work->in[1], 0);
}

static uint64_t qlinear_conv_steps(const keel_work *work) {
  return filter_steps(work, work->in[3], 0);
}

static uint64_t depthwise_steps(const keel_work *work) {
  return filter_steps(work, work->in[1], -1);
}

/* Windows are clipped to the image. */
static uint64_t window_steps(const keel_work *work) {
  const keel_type *x = work->in[0];
  uint64_t image = 1;
  for (uint32_t i = 2; x && i < x->rank; i++)
    image = keel_times(image, (uint64_t)x->dims[i]);
  return keel_work_each(work, keel_plus(image, 1));
}

static uint64_t roi_align_steps(const keel_work *work) {
  int64_t given = keel_attr_int(work->node->op, "sampling_ratio", 0);
  uint64_t each = given > 0 ? (uint64_t)given : SAMPLES;
  return keel_work_each(
      work, keel_plus(each, keel_times(keel_work_dim(work->in[0], 2),
                                       keel_work_dim(work->in[0], 3))));
}

static uint64_t dft_steps(const keel_work *work) {
  return keel_work_each(work, keel_plus(work->written, 1));
}

static uint64_t stft_steps(const keel_work *work) {
  return keel_work_each(work, keel_plus(keel_work_dim(work->in[0], 1), 1));
}

/* ---- of all ---- */

static uint64_t conv_transpose_steps(const keel_work *work) {
  return keel_times(work->read, keel_work_elements(work->in[1]) /
                                        (keel_work_dim(work->in[1], 0) + 1) +
                                    1);
}

static uint64_t recurrent_steps(const keel_work *work) {
  return keel_times(
      keel_times(keel_work_dim(work->in[0], 0), keel_work_dim(work->in[0], 1)),
      keel_plus(keel_work_elements(work->in[1]),
                keel_work_elements(work->in[2])));
}

/* All pairs of what is read. */
static uint64_t square_steps(const keel_work *work) {
  return keel_times(work->read, work->read);
}

static uint64_t einsum_steps(const keel_work *work) {
  uint64_t all = 1;
  for (uint32_t i = 0; i < work->node->input_count; i++)
    all = keel_times(all, i < 8 ? keel_work_elements(work->in[i]) : UINT64_MAX);
  return all;
}

/* Its window is of channels. */
static uint64_t lrn_steps(const keel_work *work) {
  return keel_times(work->read, keel_work_dim(work->in[0], 1));
}

static uint64_t resize_steps(const keel_work *work) {
  return keel_times(keel_plus(work->read, work->written), TAPS_OF_RESIZE);
}

/* ---- arithmetic ---- */

static bool work_is_known(const keel_type *type, uint32_t rank) {
  return type && type->rank >= rank && keel_type_known(type);
}

double keel_product_flops(const keel_flops_of *of) {
  const keel_type *x = of->in[0];
  bool flipped = keel_attr_int(of->node->op, "transA", 0) != 0;
  if (!x->rank) return 0;
  return 2 * (double)of->out->elements *
         (double)x->dims[flipped ? 0 : x->rank - 1];
}

/* Of filters' dimensions [begin, end), for each element of `type`. */
static double taps_flops(const keel_type *filters, uint32_t begin, uint32_t end,
                         const keel_type *type) {
  double taps = 1;
  for (uint32_t i = begin; i < end; i++)
    taps *= (double)filters->dims[i];
  return 2 * taps * (double)type->elements;
}

static double conv_flops(const keel_flops_of *of) {
  const keel_type *w = of->in[1];
  return work_is_known(w, 3) ? taps_flops(w, 1, w->rank, of->out) : 0;
}

static double conv_transpose_flops(const keel_flops_of *of) {
  const keel_type *w = of->in[1];
  return work_is_known(w, 3) ? taps_flops(w, 1, w->rank, of->in[0]) : 0;
}

/* Its filters have their channels last. */
static double depthwise_flops(const keel_flops_of *of) {
  const keel_type *w = of->in[1];
  return work_is_known(w, 2) ? taps_flops(w, 0, w->rank - 1, of->out) : 0;
}

/* Of each query with each key, and of what that weighs the values by. Queries, keys and values
 * are [batch, heads, words, width]. */
static double attention_flops(const keel_flops_of *of) {
  const keel_type *q = of->in[0], *k = of->in[1], *v = of->in[2];
  if (q->rank != 4 || !work_is_known(k, 4) || k->rank != 4 ||
      !work_is_known(v, 4) || v->rank != 4)
    return 0;
  double pairs = (double)q->elements / (double)(q->dims[3] + !q->dims[3]) *
                 (double)k->dims[2];
  return 2 * pairs * (double)(q->dims[3] + v->dims[3]);
}

static const keel_op_rule rules[] = {
    {"MatMul", .steps = product_steps, .flops = keel_product_flops},
    {"MatMulInteger", .steps = product_steps, .flops = keel_product_flops},
    {"QLinearMatMul", .steps = product_steps, .flops = keel_product_flops},
    {"Gemm", .steps = gemm_steps, .flops = keel_product_flops},
    {"Einsum", .steps = einsum_steps},
    {"Conv", .steps = conv_steps, .flops = conv_flops},
    {"ConvInteger", .steps = conv_steps, .flops = conv_flops},
    {"QLinearConv", .steps = qlinear_conv_steps},
    {"keel::FusedConv", .steps = conv_steps, .flops = conv_flops},
    {"keel::ActivatedConv", .steps = conv_steps, .flops = conv_flops},
    {"keel::DepthwiseConv", .steps = depthwise_steps, .flops = depthwise_flops},
    {"ConvTranspose", .steps = conv_transpose_steps,
     .flops = conv_transpose_flops},
    {"MaxPool", .steps = window_steps},
    {"AveragePool", .steps = window_steps},
    {"LpPool", .steps = window_steps},
    {"MaxRoiPool", .steps = window_steps},
    {"RoiAlign", .steps = roi_align_steps},
    {"LRN", .steps = lrn_steps},
    {"Resize", .steps = resize_steps},
    {"DFT", .steps = dft_steps},
    {"STFT", .steps = stft_steps},
    {"LSTM", .steps = recurrent_steps},
    {"GRU", .steps = recurrent_steps},
    {"RNN", .steps = recurrent_steps},
    {"NonMaxSuppression", .steps = square_steps},
    {"Unique", .steps = square_steps},
    {"Det", .steps = square_steps},
    {"keel::FusedMatMul", .flops = keel_product_flops},
    {"DeformConv", .flops = conv_flops},
    {"CausalConvWithState", .flops = conv_flops},
    {"Attention", .flops = attention_flops},
    {"keel::Attention", .flops = attention_flops},
};

const keel_op_table keel_ops_work = {KEEL_TABLE_RULES(rules)};
