/* norm.c - normalisation: batch, layer, instance, LRN, mean-variance, Lp, softmax. */
#include "norm.h"

#include "dialect.h"
#include "kernels.h"

static double norm_at(const kd_tensor *tensor, int64_t i) {
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
    cpu_set(y->data, y->dtype, i, norm_at(x, i) * scale + shift);
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
    double scale =
        norm_at(&in[1], c) / sqrt(norm_at(&in[4], c) + work->epsilon);
    scale_run(&in[0], &work->launch->outputs[0], i * work->space, work->space,
              scale, norm_at(&in[2], c) - norm_at(&in[3], c) * scale);
  }
}

/* Of small planes: a scale and a shift for each element of an image. */
typedef struct batch_table {
  const float *x, *scale, *shift;
  float *y;
  int64_t row;
} batch_table;

static void batch_rows(void *context, int64_t begin, int64_t end) {
  const batch_table *t = context;
  for (int64_t i = begin; i < end; i++)
    CPU_LOOPS(cpu_norms)->scale(t->x + i * t->row, t->scale, t->shift, t->row,
                                t->y + i * t->row);
}

#define SMALL 16 /* elements of a plane that is not worth a loop */

/* Returns false where there is no memory. */
static bool batch_by_table(const batch_work *work) {
  const kd_tensor *in = work->launch->inputs;
  int64_t row = work->channels * work->space;
  float *table = malloc(2 * (size_t)row * sizeof *table);
  if (!table) return false;
  for (int64_t i = 0; i < row; i++) {
    int64_t c = i / work->space;
    double scale =
        norm_at(&in[1], c) / sqrt(norm_at(&in[4], c) + work->epsilon);
    table[i] = (float)scale;
    table[row + i] = (float)(norm_at(&in[2], c) - norm_at(&in[3], c) * scale);
  }
  batch_table t = {in->data, table, table + row, work->launch->outputs[0].data,
                   row};
  cpu_host->parallel_for(cpu_host, kd_elements(in) / row, CPU_GRAIN / row + 1,
                         batch_rows, &t);
  free(table);
  return true;
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
        sum += norm_at(&in[0], (n * work->channels + c) * work->space + s);
    double mean = sum / count;
    for (int64_t n = 0; n < batch; n++)
      for (int64_t s = 0; s < work->space; s++) {
        double d =
            norm_at(&in[0], (n * work->channels + c) * work->space + s) - mean;
        squares += d * d;
      }
    double variance = squares / count;
    double scale = norm_at(&in[1], c) / sqrt(variance + work->epsilon);
    for (int64_t n = 0; n < batch; n++)
      scale_run(&in[0], &launch->outputs[0],
                (n * work->channels + c) * work->space, work->space, scale,
                norm_at(&in[2], c) - mean * scale);
    if (kd_has_output(launch, 1))
      cpu_set(launch->outputs[1].data, launch->outputs[1].dtype, c,
              norm_at(&in[3], c) * momentum + mean * (1 - momentum));
    if (kd_has_output(launch, 2))
      cpu_set(launch->outputs[2].data, launch->outputs[2].dtype, c,
              norm_at(&in[4], c) * momentum + variance * (1 - momentum));
  }
}

CPU_KERNEL(cpu_run_batch_norm) {
  const kd_tensor *x = &launch->inputs[0];
  batch_work work = {.launch = launch,
                     .channels = x->rank > 1 ? x->dims[1] : 1,
                     .space = x->rank > 2 ? product(x->dims, 2, x->rank) : 1,
                     .epsilon = (double)attr_float(launch, "epsilon", 1e-5f)};
  if (!kd_elements(x)) return KD_OK;
  if (attr_int(launch, "training_mode", 0))
    batch_train(&work);
  else if (x->dtype != KD_F32 || work.space > SMALL || x->rank < 2 ||
           x->dims[0] < 2 || !batch_by_table(&work))
    cpu_host->parallel_for(cpu_host, kd_elements(x) / work.space,
                           CPU_GRAIN / work.space + 1, batch_planes, &work);
  return KD_OK;
}

/* ---- by lines ------------------------------------------------------------------- */

static void put_at(const kd_tensor *tensor, int64_t i, double value) {
  if (tensor) cpu_set(tensor->data, tensor->dtype, i, value);
}

/* the words of norm.k */
#define FAMILY_BODY
#define ITEMS             end
#define COUNT             work->count
#define KEPT              work->kept.rank
#define KEPT_DIMS(d)      work->kept.dims[d]
#define KEPT_STEPS(d)     work->kept.steps[0][d]
#define GONE              work->gone.rank
#define GONE_DIMS(d)      work->gone.dims[d]
#define GONE_STEPS(d)     work->gone.steps[0][d]
#define EPSILON           work->epsilon
#define X(i)              LOAD(px[i])
#define SET_Y(i, v)       (py[i] = STORE(v))
#define SET_MEAN(line, v) put_at(work->mean, line, v)
#define SET_INV(line, v)  put_at(work->inverse, line, v)
#define SCALE(i)          LOAD(pscale[i])
#define SHIFT(i)          (pshift ? LOAD(pshift[i]) : 0)
#define PARAMETER(count)                                                   \
  (work->space                                                             \
       ? (line * (COUNT / work->space) + i / work->space) % work->channels \
   : work->channels   ? line % work->channels                              \
   : (count) == COUNT ? i                                                  \
                      : i % (count))
#define EACH "axes/norm_typed.h"

#define NORM deviation
#define KIND 0
#define EVENLY
#define SCALE_AT PARAMETER(work->scales)
#define SHIFT_AT PARAMETER(work->shifts)
#define HAS_MEAN
#define HAS_INV
#include "each_float.h"
#undef SCALE_AT
#undef SHIFT_AT
#undef HAS_MEAN
#undef HAS_INV
#undef NORM
#undef KIND
#define NORM length_1
#define KIND 2
#include "each_float.h"
#undef NORM
#undef KIND
#define NORM length_2
#define KIND 3
#include "each_float.h"
#undef NORM
#undef KIND
#undef EVENLY
#define NORM plain
#define KIND 1
#include "each_float.h"
#undef EACH

/* Whether a line is packed, with a scale and a shift for each element or for each channel;
 * or, without them, is made of packed runs. */
static bool fits_rows(const norm_work *work, kd_loop_body rows) {
  int last = work->gone.rank - 1;
  bool packed = work->gone.steps[0][last] == 1 || work->gone.dims[last] == 1;
  if (rows == CPU_LOOPS(cpu_norms)->plain) return packed;
  return packed && !last &&
         (work->channels || !work->scale ||
          (work->scales == work->count &&
           (!work->shift || work->shifts == work->count)));
}

static void run_lines(kd_loop_body plain, kd_loop_body rows, const kd_tensor *x,
                      norm_work *work) {
  bool by_rows = rows && x->dtype == KD_F32 && fits_rows(work, rows);
  work->plain = plain;
  cpu_host->parallel_for(cpu_host, kd_elements(x) / work->count,
                         CPU_GRAIN / work->count + 1, by_rows ? rows : plain,
                         work);
}

/* `rows` are packed lines of f32, or NULL. */
static void run_norm(const kd_loop_body bodies[KD_DTYPE_COUNT],
                     kd_loop_body rows, const kd_launch *launch,
                     const bool *gone, norm_work *work) {
  const kd_tensor *x = &launch->inputs[0];
  work->x = x->data;
  work->y = launch->outputs[0].data;
  lines_split(x->dims, x->rank, gone, &work->kept, &work->gone);
  work->count = strided_count(&work->gone);
  if (kd_elements(x)) run_lines(bodies[x->dtype], rows, x, work);
}

static const kd_loop_body deviations[KD_DTYPE_COUNT] = {FLOAT_TABLE(deviation)};

CPU_KERNEL(cpu_run_instance_norm) {
  const kd_tensor *in = launch->inputs;
  bool gone[KD_MAX_RANK];
  if (in->rank < 2 || kd_elements(&in[1]) != in->dims[1] ||
      kd_elements(&in[2]) != in->dims[1])
    return FAIL(KD_INVALID_ARGUMENT, "scale and B need one element a channel");
  for (uint32_t d = 0; d < in->rank; d++)
    gone[d] = d >= 2;
  norm_work work = {.scale = in[1].data,
                    .shift = in[2].data,
                    .channels = in->dims[1],
                    .epsilon = (double)attr_float(launch, "epsilon", 1e-5f)};
  run_norm(deviations, CPU_LOOPS(cpu_norms)->deviation, launch, gone, &work);
  return KD_OK;
}

/* A line is a group: neighbouring channels of an image. */
CPU_KERNEL(cpu_run_group_norm) {
  const kd_tensor *in = launch->inputs;
  int64_t groups = attr_int(launch, "num_groups", 1);
  if (!kd_elements(in)) return KD_OK;
  norm_work work = {.x = in->data,
                    .y = launch->outputs[0].data,
                    .scale = in[1].data,
                    .shift = in[2].data,
                    .channels = in->dims[1],
                    .space = product(in->dims, 2, in->rank),
                    .epsilon = (double)attr_float(launch, "epsilon", 1e-5f)};
  const int64_t lines = in->dims[0] * groups;
  const int64_t dims[2] = {lines, kd_elements(in) / lines};
  const bool gone[2] = {false, true};
  lines_split(dims, 2, gone, &work.kept, &work.gone);
  work.count = dims[1];
  run_lines(deviations[in->dtype], CPU_LOOPS(cpu_norms)->deviation, in, &work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_layer_norm) {
  const kd_tensor *in = launch->inputs, *out = launch->outputs;
  bool has_shift = kd_has_input(launch, 2), gone[KD_MAX_RANK];
  uint32_t axis = axis_of(attr_int(launch, "axis", -1), in->rank);
  int64_t row = product(in->dims, axis, in->rank);
  norm_work work = {.scale = in[1].data,
                    .shift = has_shift ? in[2].data : NULL,
                    .scales = kd_elements(&in[1]),
                    .shifts = has_shift ? kd_elements(&in[2]) : 1,
                    .mean = kd_has_output(launch, 1) ? &out[1] : NULL,
                    .inverse = kd_has_output(launch, 2) ? &out[2] : NULL,
                    .epsilon = (double)attr_float(launch, "epsilon", 1e-5f)};
  if (!kd_elements(in)) return KD_OK;
  if (!work.scales || row % work.scales || !work.shifts || row % work.shifts)
    return FAIL(KD_INVALID_ARGUMENT,
                "Scale and B do not fit the %lld normalised elements",
                (long long)row);
  for (uint32_t d = 0; d < in->rank; d++)
    gone[d] = d >= axis;
  run_norm(deviations, CPU_LOOPS(cpu_norms)->deviation, launch, gone, &work);
  return KD_OK;
}

/* Any type, and scales that repeat. */
static void squares(void *context, int64_t begin, int64_t end) {
  const norm_work *work = context;
  kd_dtype dtype = work->dtype;
  for (int64_t line = begin; line < end; line++) {
    int64_t from = line * work->count;
    double sum = 0;
    for (int64_t i = from; i < from + work->count; i++) {
      double x = cpu_get(work->x, dtype, i);
      sum += x * x;
    }
    double inverse = 1 / sqrt(sum / (double)work->count + work->epsilon);
    for (int64_t i = 0; i < work->count; i++)
      cpu_set(work->y, dtype, from + i,
              cpu_get(work->x, dtype, from + i) * inverse *
                  cpu_get(work->scale, dtype, i % work->scales));
  }
}

CPU_KERNEL(cpu_run_rms_norm) {
  const kd_tensor *in = launch->inputs;
  uint32_t axis = axis_of(attr_int(launch, "axis", -1), in->rank);
  norm_work work = {.x = in->data,
                    .y = launch->outputs[0].data,
                    .scale = in[1].data,
                    .scales = kd_elements(&in[1]),
                    .dtype = in->dtype,
                    .count = product(in->dims, axis, in->rank),
                    .epsilon = (double)attr_float(launch, "epsilon", 1e-5f)};
  if (!kd_elements(in)) return KD_OK;
  bool by_rows = in->dtype == KD_F32 && work.scales == work.count;
  cpu_host->parallel_for(
      cpu_host, kd_elements(in) / work.count, CPU_GRAIN / work.count + 1,
      by_rows ? CPU_LOOPS(cpu_norms)->squares : squares, &work);
  return KD_OK;
}

/* Axes as flags. */
static kd_status mark_axes(const kd_launch *launch, const int64_t *axes,
                           int64_t count, bool *gone) {
  uint32_t rank = launch->inputs[0].rank;
  for (uint32_t d = 0; d < rank; d++)
    gone[d] = false;
  for (int64_t i = 0; i < count; i++) {
    if (axes[i] < -(int64_t)rank || axes[i] >= (int64_t)rank)
      return FAIL(KD_INVALID_ARGUMENT, "axis %lld in %u dimensions",
                  (long long)axes[i], (unsigned)rank);
    gone[axis_of(axes[i], rank)] = true;
  }
  return KD_OK;
}

CPU_KERNEL(cpu_run_mvn) {
  static const kd_loop_body bodies[KD_DTYPE_COUNT] = {FLOAT_TABLE(plain)};
  static const int64_t usual[] = {0, 2, 3};
  const int64_t *axes = NULL;
  int64_t count = attr_ints(launch, "axes", &axes);
  bool gone[KD_MAX_RANK];
  norm_work work = {0};
  kd_status status =
      mark_axes(launch, count < 0 ? usual : axes, count < 0 ? 3 : count, gone);
  if (status == KD_OK)
    run_norm(bodies, CPU_LOOPS(cpu_norms)->plain, launch, gone, &work);
  return status;
}

CPU_KERNEL(cpu_run_lp_normalization) {
  static const kd_loop_body bodies[2][KD_DTYPE_COUNT] = {
      {FLOAT_TABLE(length_1)}, {FLOAT_TABLE(length_2)}};
  int64_t axis = attr_int(launch, "axis", -1), p = attr_int(launch, "p", 2);
  bool gone[KD_MAX_RANK];
  norm_work work = {0};
  if (p != 1 && p != 2)
    return FAIL(KD_UNIMPLEMENTED, "LpNormalization of p %lld", (long long)p);
  kd_status status = mark_axes(launch, &axis, 1, gone);
  if (status == KD_OK)
    run_norm(bodies[p - 1], CPU_LOOPS(cpu_norms)->lengths[p - 1], launch, gone,
             &work);
  return status;
}

/* ---- LRN ---------------------------------------------------------------------- */

typedef struct lrn_work {
  const void *x;
  void *y;
  int64_t channels, inner, size;
  double alpha, beta, bias;
} lrn_work;

#define CHANNELS work->channels
#define INNER    work->inner
#define SIZE     work->size
#define BEFORE   ((SIZE - 1) / 2)
#define BEHIND   (SIZE / 2)
#define ALPHA    work->alpha
#define BETA     work->beta
#define BIAS     work->bias
#define EACH     "axes/lrn_typed.h"
#include "each_float.h"

CPU_KERNEL(cpu_run_lrn) {
  static const kd_loop_body bodies[KD_DTYPE_COUNT] = {FLOAT_TABLE(lrn)};
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
  cpu_host->parallel_for(cpu_host, kd_elements(x), CPU_GRAIN / 16 / size + 1,
                         bodies[x->dtype], &work);
  return KD_OK;
}

/* ---- Softmax and its kin --------------------------------------------------- */

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
  for (int64_t i = begin; i < end; i++)
    soft_line(work, lines_start(&work->all, i));
}

CPU_KERNEL(cpu_run_softmax) {
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
  bool rows = x->dtype == KD_F32 && work.how != SOFT_HARD;
  if (work.all.length)
    cpu_host->parallel_for(cpu_host, work.all.count,
                           CPU_GRAIN / (rows ? 2 : 8) / work.all.length + 1,
                           rows ? CPU_LOOPS(cpu_norms)->soft : soft_piece,
                           &work);
  return KD_OK;
}
