/* norm.c - normalisation: batch, layer, instance, LRN, mean-variance, Lp, softmax. */
#include "dialect.h"
#include "families/lines.h"
#include "kernels.h"

static double at(const kd_tensor *tensor, int64_t i) {
  return cpu_get(tensor->data, tensor->dtype, i);
}

/* y = x * scale + shift on a run of elements */
static void scale_run(const kd_tensor *x, const kd_tensor *y, int64_t from,
                      int64_t n, double scale, double shift) {
  if (x->dtype == KD_F32) {
    const float *px = (const float *)x->data + from;
    float *py = (float *)y->data + from;
    float a = (float)scale, b = (float)shift;
    for (int64_t i = 0; i < n; i++)
      py[i] = px[i] * a + b;
    return;
  }
  for (int64_t i = from; i < from + n; i++)
    cpu_set(y->data, y->dtype, i, at(x, i) * scale + shift);
}

static void mean_variance(const kd_tensor *x, int64_t from, int64_t n,
                          double *out_mean, double *out_variance) {
  double sum = 0, squares = 0;
  for (int64_t i = from; i < from + n; i++)
    sum += at(x, i);
  double mean = n ? sum / (double)n : 0;
  for (int64_t i = from; i < from + n; i++)
    squares += (at(x, i) - mean) * (at(x, i) - mean);
  *out_mean = mean;
  *out_variance = n ? squares / (double)n : 0;
}

/* ---- BatchNormalization ----------------------------------------------------- */

typedef struct batch_work {
  const kd_launch *launch;
  int64_t channels, space;
  double epsilon;
} batch_work;

static void batch_planes(void *context, int64_t begin, int64_t end) {
  const batch_work *work = context;
  const kd_tensor *in = work->launch->inputs;
  for (int64_t i = begin; i < end; i++) {
    int64_t c = i % work->channels;
    double scale = at(&in[1], c) / sqrt(at(&in[4], c) + work->epsilon);
    scale_run(&in[0], &work->launch->outputs[0], i * work->space, work->space,
              scale, at(&in[2], c) - at(&in[3], c) * scale);
  }
}

/* Training: statistics of this batch, and running ones for the outputs. */
static void batch_train(const batch_work *work) {
  const kd_launch *launch = work->launch;
  const kd_tensor *in = launch->inputs;
  double momentum = (double)attr_float(launch, "momentum", 0.9f);
  int64_t batch = in[0].rank > 1 ? in[0].dims[0] : kd_elements(&in[0]);
  double count = (double)(batch * work->space);
  for (int64_t c = 0; c < work->channels; c++) {
    double sum = 0, squares = 0;
    for (int64_t n = 0; n < batch; n++)
      for (int64_t s = 0; s < work->space; s++)
        sum += at(&in[0], (n * work->channels + c) * work->space + s);
    double mean = sum / count;
    for (int64_t n = 0; n < batch; n++)
      for (int64_t s = 0; s < work->space; s++) {
        double d =
            at(&in[0], (n * work->channels + c) * work->space + s) - mean;
        squares += d * d;
      }
    double variance = squares / count;
    double scale = at(&in[1], c) / sqrt(variance + work->epsilon);
    for (int64_t n = 0; n < batch; n++)
      scale_run(&in[0], &launch->outputs[0],
                (n * work->channels + c) * work->space, work->space, scale,
                at(&in[2], c) - mean * scale);
    if (kd_has_output(launch, 1))
      cpu_set(launch->outputs[1].data, launch->outputs[1].dtype, c,
              at(&in[3], c) * momentum + mean * (1 - momentum));
    if (kd_has_output(launch, 2))
      cpu_set(launch->outputs[2].data, launch->outputs[2].dtype, c,
              at(&in[4], c) * momentum + variance * (1 - momentum));
  }
}

CPU_KERNEL(cpu_run_batch_norm) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0];
  batch_work work = {.launch = launch,
                     .channels = x->rank > 1 ? x->dims[1] : 1,
                     .space = x->rank > 2 ? product(x->dims, 2, x->rank) : 1,
                     .epsilon = (double)attr_float(launch, "epsilon", 1e-5f)};
  if (!kd_elements(x)) return KD_OK;
  if (attr_int(launch, "training_mode", 0))
    batch_train(&work);
  else
    cpu_host->parallel_for(kd_elements(x) / work.space,
                           CPU_GRAIN / work.space + 1, batch_planes, &work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_instance_norm) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0];
  double epsilon = (double)attr_float(launch, "epsilon", 1e-5f);
  if (x->rank < 2 || kd_elements(&launch->inputs[1]) != x->dims[1] ||
      kd_elements(&launch->inputs[2]) != x->dims[1])
    return FAIL(KD_INVALID_ARGUMENT, "scale and B need one element a channel");
  int64_t space = product(x->dims, 2, x->rank);
  for (int64_t i = 0; i < x->dims[0] * x->dims[1]; i++) {
    double mean = 0, variance = 0;
    int64_t c = i % x->dims[1];
    mean_variance(x, i * space, space, &mean, &variance);
    double scale = at(&launch->inputs[1], c) / sqrt(variance + epsilon);
    scale_run(x, &launch->outputs[0], i * space, space, scale,
              at(&launch->inputs[2], c) - mean * scale);
  }
  return KD_OK;
}

/* ---- LayerNormalization ------------------------------------------------------ */

typedef struct layer_work {
  const kd_launch *launch;
  int64_t row;
  double epsilon;
} layer_work;

static void layer_rows(void *context, int64_t begin, int64_t end) {
  const layer_work *work = context;
  const kd_launch *launch = work->launch;
  const kd_tensor *x = &launch->inputs[0], *scale = &launch->inputs[1],
                  *y = &launch->outputs[0];
  const kd_tensor *bias = kd_has_input(launch, 2) ? &launch->inputs[2] : NULL;
  int64_t scales = kd_elements(scale), biases = bias ? kd_elements(bias) : 1;
  for (int64_t r = begin; r < end; r++) {
    double mean = 0, variance = 0;
    mean_variance(x, r * work->row, work->row, &mean, &variance);
    double inverse = 1 / sqrt(variance + work->epsilon);
    for (int64_t i = 0; i < work->row; i++) {
      double value = (at(x, r * work->row + i) - mean) * inverse;
      value = value * at(scale, i % scales) + (bias ? at(bias, i % biases) : 0);
      cpu_set(y->data, y->dtype, r * work->row + i, value);
    }
    if (kd_has_output(launch, 1))
      cpu_set(launch->outputs[1].data, launch->outputs[1].dtype, r, mean);
    if (kd_has_output(launch, 2))
      cpu_set(launch->outputs[2].data, launch->outputs[2].dtype, r, inverse);
  }
}

CPU_KERNEL(cpu_run_layer_norm) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0];
  uint32_t axis = axis_of(attr_int(launch, "axis", -1), x->rank);
  layer_work work = {.launch = launch,
                     .row = product(x->dims, axis, x->rank),
                     .epsilon = (double)attr_float(launch, "epsilon", 1e-5f)};
  int64_t rows = product(x->dims, 0, axis);
  int64_t scales = kd_elements(&launch->inputs[1]);
  if (!kd_elements(x)) return KD_OK;
  if (!scales || work.row % scales ||
      (kd_has_input(launch, 2) && (!kd_elements(&launch->inputs[2]) ||
                                   work.row % kd_elements(&launch->inputs[2]))))
    return FAIL(KD_INVALID_ARGUMENT,
                "Scale and B do not fit the %lld normalised elements",
                (long long)work.row);
  cpu_host->parallel_for(rows, CPU_GRAIN / work.row + 1, layer_rows, &work);
  return KD_OK;
}

/* ---- LRN, MeanVarianceNormalization ------------------------------------------ */

typedef struct lrn_work {
  const void *x;
  void *y;
  int64_t channels, inner, size;
  double alpha, beta, bias;
} lrn_work;

#define FAMILY_BODY
#define ITEMS    end
#define CHANNELS work->channels
#define INNER    work->inner
#define SIZE     work->size
#define BEFORE   ((SIZE - 1) / 2)
#define BEHIND   (SIZE / 2)
#define ALPHA    work->alpha
#define BETA     work->beta
#define BIAS     work->bias
#define EACH     "lrn_typed.h"
#include "each_float.h"

CPU_KERNEL(cpu_run_lrn) {
  static const kd_loop_body bodies[KD_DTYPE_COUNT] = {FLOAT_TABLE(lrn)};
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0];
  int64_t size = attr_int(launch, "size", 1);
  if (x->rank < 2 || size < 1)
    return FAIL(KD_INVALID_ARGUMENT, "LRN needs N,C,... and a size of 1 up");
  lrn_work work = {.x = x->data,
                   .y = launch->outputs[0].data,
                   .channels = x->dims[1],
                   .inner = product(x->dims, 2, x->rank),
                   .size = size,
                   .alpha = (double)attr_float(launch, "alpha", 0.0001f),
                   .beta = (double)attr_float(launch, "beta", 0.75f),
                   .bias = (double)attr_float(launch, "bias", 1)};
  cpu_host->parallel_for(kd_elements(x), CPU_GRAIN / 16 / size + 1,
                         bodies[x->dtype], &work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_mvn) {
  (void)self;
  (void)stream;
  static const int64_t usual[] = {0, 2, 3};
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const int64_t *axes = NULL;
  int64_t count = attr_ints(launch, "axes", &axes), packed[KD_MAX_RANK];
  int64_t dims[2][KD_MAX_RANK], steps[2][KD_MAX_RANK];
  uint32_t ranks[2] = {0};
  bool over[KD_MAX_RANK] = {false};
  if (count < 0) {
    axes = usual;
    count = 3;
  }
  for (int64_t i = 0; i < count; i++) {
    if (axes[i] < -(int64_t)x->rank || axes[i] >= (int64_t)x->rank)
      return FAIL(KD_INVALID_ARGUMENT, "axis %lld in %u dimensions",
                  (long long)axes[i], (unsigned)x->rank);
    over[axis_of(axes[i], x->rank)] = true;
  }
  strided_packed(x->dims, x->rank, packed);
  for (uint32_t i = 0; i < x->rank; i++) {
    dims[over[i]][ranks[over[i]]] = x->dims[i];
    steps[over[i]][ranks[over[i]]++] = packed[i];
  }
  int64_t groups = product(dims[0], 0, ranks[0]);
  int64_t size = product(dims[1], 0, ranks[1]);
  for (int64_t g = 0; g < groups && size; g++) {
    double sum = 0, squares = 0;
    for (int pass = 0; pass < 2; pass++)
      for (int64_t i = 0; i < size; i++) {
        int64_t offset = 0, rest = g, inner = i;
        for (uint32_t d = ranks[0]; d-- > 0; rest /= dims[0][d])
          offset += rest % dims[0][d] * steps[0][d];
        for (uint32_t d = ranks[1]; d-- > 0; inner /= dims[1][d])
          offset += inner % dims[1][d] * steps[1][d];
        double value = at(x, offset);
        if (pass == 0) {
          sum += value;
          squares += value * value;
          continue;
        }
        double mean = sum / (double)size;
        double deviation = sqrt(squares / (double)size - mean * mean);
        cpu_set(y->data, y->dtype, offset, (value - mean) / (deviation + 1e-9));
      }
  }
  return KD_OK;
}

/* ---- Softmax and its kin --------------------------------------------------- */

typedef enum soft { SOFT_MAX, SOFT_LOG, SOFT_HARD } soft;

typedef struct soft_work {
  soft how;
  lines all;
  const kd_tensor *x, *y;
} soft_work;

static void soft_line_f32(const soft_work *work, const float *x, float *y) {
  int64_t n = work->all.length, step = work->all.step;
  float most = x[0];
  double sum = 0;
  for (int64_t k = 1; k < n; k++)
    most = x[k * step] > most ? x[k * step] : most;
  for (int64_t k = 0; k < n; k++) {
    float value = expf(x[k * step] - most);
    y[k * step] = value;
    sum += (double)value;
  }
  float scale = (float)(1 / sum), shift = (float)log(sum);
  for (int64_t k = 0; k < n; k++)
    y[k * step] = work->how == SOFT_MAX ? y[k * step] * scale
                                        : x[k * step] - most - shift;
}

static void soft_line(const soft_work *work, int64_t start) {
  const kd_tensor *x = work->x, *y = work->y;
  int64_t n = work->all.length, step = work->all.step, best = 0;
  double most = -INFINITY, sum = 0;
  for (int64_t k = 0; k < n; k++) {
    double value = cpu_get(x->data, x->dtype, start + k * step);
    best = value > most ? k : best;
    most = value > most ? value : most;
  }
  for (int64_t k = 0; k < n; k++)
    sum += exp(cpu_get(x->data, x->dtype, start + k * step) - most);
  for (int64_t k = 0; k < n; k++) {
    double value = cpu_get(x->data, x->dtype, start + k * step) - most;
    cpu_set(y->data, y->dtype, start + k * step,
            work->how == SOFT_MAX   ? exp(value) / sum
            : work->how == SOFT_LOG ? value - log(sum)
                                    : k == best);
  }
}

static void soft_piece(void *context, int64_t begin, int64_t end) {
  const soft_work *work = context;
  bool fast = work->x->dtype == KD_F32 && work->how != SOFT_HARD;
  for (int64_t i = begin; i < end; i++) {
    int64_t start = lines_start(&work->all, i);
    if (fast)
      soft_line_f32(work, (const float *)work->x->data + start,
                    (float *)work->y->data + start);
    else
      soft_line(work, start);
  }
}

CPU_KERNEL(cpu_run_softmax) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0];
  int64_t axis = attr_int(launch, "axis", -1);
  if (axis < -(int64_t)x->rank || axis >= (int64_t)x->rank)
    return FAIL(KD_INVALID_ARGUMENT, "axis %lld in %u dimensions",
                (long long)axis, (unsigned)x->rank);
  soft_work work = {
      .how = (soft)(uintptr_t)launch->data,
      .all = lines_along(x->dims, x->rank, axis_of(axis, x->rank)),
      .x = x,
      .y = &launch->outputs[0]};
  if (work.all.length)
    cpu_host->parallel_for(work.all.count, 2048 / work.all.length + 1,
                           soft_piece, &work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_lp_normalization) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  int64_t axis = attr_int(launch, "axis", -1), p = attr_int(launch, "p", 2);
  if (axis < -(int64_t)x->rank || axis >= (int64_t)x->rank)
    return FAIL(KD_INVALID_ARGUMENT, "axis is out of range");
  lines all = lines_along(x->dims, x->rank, axis_of(axis, x->rank));
  for (int64_t i = 0; i < all.count; i++) {
    int64_t start = lines_start(&all, i);
    double norm = 0;
    for (int64_t k = 0; k < all.length; k++) {
      double value = cpu_get(x->data, x->dtype, start + k * all.step);
      norm += p == 1 ? fabs(value) : value * value;
    }
    norm = p == 1 ? norm : sqrt(norm);
    for (int64_t k = 0; k < all.length; k++)
      cpu_set(y->data, y->dtype, start + k * all.step,
              norm == 0
                  ? 0
                  : cpu_get(x->data, x->dtype, start + k * all.step) / norm);
  }
  return KD_OK;
}
