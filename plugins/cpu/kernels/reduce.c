/* reduce.c - reductions over axes, and ops along one axis.
 *
 * Floats are summed in double: the result is the nearest float in all but
 * constructed cases, whatever the order. Integers wrap in 64 bits. */
#include "families/lines.h"
#include "kernels.h"

/* ---- what is accumulated -------------------------------------------------- */

typedef enum reduction {
  RED_SUM,
  RED_MEAN,
  RED_PROD,
  RED_MAX,
  RED_MIN,
  RED_L1,
  RED_L2,
  RED_SQUARE,
  RED_LOG_SUM,
  RED_LOG_SUM_EXP
} reduction;

/* A row of n elements, `step` apart, as a double (floats) or int64. */
typedef double (*float_row)(const void *x, int64_t n, int64_t step);
typedef int64_t (*int_row)(const void *x, int64_t n, int64_t step);

#define FLOAT_TYPES(X)       \
  X(f32, float, )            \
  X(f64, double, )           \
  X(f16, cpu_f16, f16_float) \
  X(bf16, cpu_bf16, bf16_float)

#define INT_TYPES(X) \
  X(u8, uint8_t)     \
  X(i8, int8_t)      \
  X(u16, uint16_t)   \
  X(i16, int16_t)    \
  X(u32, uint32_t)   \
  X(i32, int32_t)    \
  X(u64, uint64_t)   \
  X(i64, int64_t)

/* Four sums side by side, where elements lie side by side. */
#define FLOAT_ROW(name, N, S, LOAD, start, step_expression, join)       \
  static double name##_##N(const void *from, int64_t n, int64_t step) { \
    const S *x = from;                                                  \
    double part[4] = {start, start, start, start};                      \
    int64_t i = 0;                                                      \
    for (; step == 1 && i + 4 <= n; i += 4)                             \
      for (int k = 0; k < 4; k++) {                                     \
        const double v = (double)LOAD(x[i + k]), s = part[k];           \
        part[k] = step_expression;                                      \
      }                                                                 \
    for (; i < n; i++) {                                                \
      const double v = (double)LOAD(x[i * step]), s = part[0];          \
      part[0] = step_expression;                                        \
    }                                                                   \
    for (int k = 1; k < 4; k++) {                                       \
      const double v = part[k], s = part[0];                            \
      part[0] = join;                                                   \
    }                                                                   \
    return part[0];                                                     \
  }

#define LARGER  ((s != s || s > v) ? s : v)
#define SMALLER ((s != s || s < v) ? s : v)
#define FLOAT_ROWS(N, S, LOAD)                           \
  FLOAT_ROW(sum, N, S, LOAD, 0, s + v, s + v)            \
  FLOAT_ROW(prod, N, S, LOAD, 1, s *v, s *v)             \
  FLOAT_ROW(max, N, S, LOAD, -INFINITY, LARGER, LARGER)  \
  FLOAT_ROW(min, N, S, LOAD, INFINITY, SMALLER, SMALLER) \
  FLOAT_ROW(l1, N, S, LOAD, 0, s + fabs(v), s + v)       \
  FLOAT_ROW(square, N, S, LOAD, 0, s + v * v, s + v)
FLOAT_TYPES(FLOAT_ROWS)

#define INT_ROW(name, N, S, start, step_expression)                      \
  static int64_t name##_##N(const void *from, int64_t n, int64_t step) { \
    const S *x = from;                                                   \
    uint64_t total = (uint64_t)(start);                                  \
    for (int64_t i = 0; i < n; i++) {                                    \
      const uint64_t v = (uint64_t)x[i * step], s = total;               \
      total = step_expression;                                           \
    }                                                                    \
    return (int64_t)total;                                               \
  }
#define INT_ROWS(N, S)                                                       \
  INT_ROW(sum, N, S, 0, s + v)                                               \
  INT_ROW(prod, N, S, 1, s *v)                                               \
  INT_ROW(max, N, S, n ? x[0] : 0, (S)s > (S)v ? s : v)                      \
  INT_ROW(min, N, S, n ? x[0] : 0, (S)s < (S)v ? s : v)                      \
  INT_ROW(l1, N, S, 0, s + ((S) ~(S)0 < (S)1 && (int64_t)v < 0 ? 0 - v : v)) \
  INT_ROW(square, N, S, 0, s + v * v)
INT_TYPES(INT_ROWS)

static float_row float_row_of(reduction how, kd_dtype dtype) {
#define PICK(name)                      \
  return dtype == KD_F32   ? name##_f32 \
         : dtype == KD_F64 ? name##_f64 \
         : dtype == KD_F16 ? name##_f16 \
                           : name##_bf16
  switch (how) {
    case RED_PROD:
      PICK(prod);
    case RED_MAX:
      PICK(max);
    case RED_MIN:
      PICK(min);
    case RED_L1:
      PICK(l1);
    case RED_L2:
    case RED_SQUARE:
      PICK(square);
    default:
      PICK(sum);
  }
#undef PICK
}

static int_row int_row_of(reduction how, kd_dtype dtype) {
#define PICK(name)       \
  switch (dtype) {       \
    case KD_U8:          \
      return name##_u8;  \
    case KD_I8:          \
      return name##_i8;  \
    case KD_U16:         \
      return name##_u16; \
    case KD_I16:         \
      return name##_i16; \
    case KD_U32:         \
      return name##_u32; \
    case KD_I32:         \
      return name##_i32; \
    case KD_U64:         \
      return name##_u64; \
    default:             \
      return name##_i64; \
  }
  switch (how) {
    case RED_PROD:
      PICK(prod)
    case RED_MAX:
      PICK(max)
    case RED_MIN:
      PICK(min)
    case RED_L1:
      PICK(l1)
    case RED_L2:
    case RED_SQUARE:
      PICK(square)
    default:
      PICK(sum)
  }
#undef PICK
}

/* ---- over axes ------------------------------------------------------------ */

typedef struct reduce_work {
  reduction how;
  kd_dtype dtype;
  float_row row; /* of floats; NULL: integers */
  int_row ints;
  strided kept;    /* operand 0: the input, over the result's elements */
  strided reduced; /* operand 0: the input, over what is reduced */
  int64_t count;   /* elements reduced into one */
  const char *x;
  char *y;
  size_t size;
} reduce_work;

static double join(reduction how, double a, double b) {
  switch (how) {
    case RED_PROD:
      return a * b;
    case RED_MAX:
      return a != a || a > b ? a : b;
    case RED_MIN:
      return a != a || a < b ? a : b;
    default:
      return a + b;
  }
}

static int64_t join_int(const reduce_work *work, int64_t a, int64_t b) {
  bool wide = work->dtype == KD_U64;
  switch (work->how) {
    case RED_PROD:
      return (int64_t)((uint64_t)a * (uint64_t)b);
    case RED_MAX:
      return (wide ? (uint64_t)a > (uint64_t)b : a > b) ? a : b;
    case RED_MIN:
      return (wide ? (uint64_t)a < (uint64_t)b : a < b) ? a : b;
    default:
      return (int64_t)((uint64_t)a + (uint64_t)b);
  }
}

static double finish(reduction how, double value, int64_t count) {
  switch (how) {
    case RED_MEAN:
      return value / (double)count;
    case RED_L2:
      return sqrt(value);
    case RED_LOG_SUM:
      return log(value);
    default:
      return value;
  }
}

/* log(sum(exp(x))), from the largest down, so that nothing overflows. */
static double log_sum_exp(const reduce_work *work, const char *x, double most) {
  double sum = 0;
  int64_t offsets[STRIDED_OPERANDS] = {0}, index[STRIDED_RANK] = {0};
  int last = work->reduced.rank - 1;
  if (isinf(most)) return most;
  for (int64_t r = 0, rows = strided_rows(&work->reduced); r < rows; r++) {
    for (int64_t i = 0; i < work->reduced.dims[last]; i++)
      sum += exp(cpu_get(x, work->dtype,
                         offsets[0] + i * work->reduced.steps[0][last]) -
                 most);
    strided_next(&work->reduced, index, offsets);
  }
  return most + log(sum);
}

static void reduce_float(const reduce_work *work, const char *x, int64_t to) {
  int64_t offsets[STRIDED_OPERANDS] = {0}, index[STRIDED_RANK] = {0};
  int last = work->reduced.rank - 1;
  double total = 0;
  for (int64_t r = 0, rows = strided_rows(&work->reduced); r < rows; r++) {
    double part =
        work->row(x + offsets[0] * (int64_t)work->size,
                  work->reduced.dims[last], work->reduced.steps[0][last]);
    total = r ? join(work->how == RED_LOG_SUM_EXP ? RED_MAX : work->how, total,
                     part)
              : part;
    strided_next(&work->reduced, index, offsets);
  }
  total = work->how == RED_LOG_SUM_EXP ? log_sum_exp(work, x, total)
                                       : finish(work->how, total, work->count);
  cpu_set(work->y, work->dtype, to, total);
}

static void reduce_int(const reduce_work *work, const char *x, int64_t to) {
  int64_t offsets[STRIDED_OPERANDS] = {0}, index[STRIDED_RANK] = {0};
  int last = work->reduced.rank - 1;
  int64_t total = 0;
  for (int64_t r = 0, rows = strided_rows(&work->reduced); r < rows; r++) {
    int64_t part =
        work->ints(x + offsets[0] * (int64_t)work->size,
                   work->reduced.dims[last], work->reduced.steps[0][last]);
    total = r ? join_int(work, total, part) : part;
    strided_next(&work->reduced, index, offsets);
  }
  if (work->how == RED_L2 || work->how == RED_LOG_SUM) {
    cpu_set(work->y, work->dtype, to, finish(work->how, (double)total, 1));
    return;
  }
  if (work->how == RED_MEAN && work->count)
    total = work->dtype == KD_U64
                ? (int64_t)((uint64_t)total / (uint64_t)work->count)
                : total / work->count;
  memcpy(work->y + to * (int64_t)work->size, &total, work->size);
}

static void reduce_piece(void *context, int64_t begin, int64_t end) {
  const reduce_work *work = context;
  int64_t offsets[STRIDED_OPERANDS], index[STRIDED_RANK];
  int last = work->kept.rank - 1;
  int64_t inner = work->kept.dims[last];
  strided_row(&work->kept, begin / inner, offsets);
  strided_index(&work->kept, begin / inner, index);
  for (int64_t i = begin; i < end; i++) {
    const char *x =
        work->x + (offsets[0] + i % inner * work->kept.steps[0][last]) *
                      (int64_t)work->size;
    if (work->row)
      reduce_float(work, x, i);
    else
      reduce_int(work, x, i);
    if (i % inner == inner - 1) strided_next(&work->kept, index, offsets);
  }
}

/* What a reduction over nothing gives. */
static double neutral(reduction how) {
  switch (how) {
    case RED_PROD:
      return 1;
    case RED_MAX:
    case RED_LOG_SUM_EXP:
    case RED_LOG_SUM:
      return -INFINITY;
    case RED_MIN:
      return INFINITY;
    case RED_MEAN:
      return NAN;
    default:
      return 0;
  }
}

/* The same for integers, which have no infinity: the end of their range. */
static uint64_t neutral_bits(reduction how, kd_dtype dtype) {
  uint64_t top = (uint64_t)1 << (8 * kd_dtype_size(dtype) - 1);
  uint64_t least = KD_TYPES_SIGNED & KD_TYPES(dtype) ? top : 0;
  switch (how) {
    case RED_PROD:
      return 1;
    case RED_MAX:
      return least;
    case RED_MIN:
      return ~least;
    default:
      return 0;
  }
}

static void fill_neutral(reduction how, const kd_tensor *y) {
  size_t size = kd_dtype_size(y->dtype);
  bool whole = (KD_TYPES_INT & KD_TYPES(y->dtype)) != 0;
  uint64_t bits = whole ? neutral_bits(how, y->dtype) : 0;
  for (int64_t i = 0, n = kd_elements(y); i < n; i++) {
    if (whole) /* little-endian: the low bytes come first */
      memcpy((char *)y->data + (size_t)i * size, &bits, size);
    else
      cpu_set(y->data, y->dtype, i, neutral(how));
  }
}

static void split_axes(const kd_launch *launch, reduce_work *work) {
  const kd_tensor *x = &launch->inputs[0];
  bool gone[KD_MAX_RANK];
  int64_t count = kd_has_input(launch, 1) ? kd_elements(&launch->inputs[1]) : 0;
  bool all = !count && !attr_int(launch, "noop_with_empty_axes", 0);
  for (uint32_t i = 0; i < x->rank; i++)
    gone[i] = all;
  for (int64_t i = 0; i < count; i++)
    gone[axis_of(int_at(&launch->inputs[1], i), x->rank)] = true;
  lines_split(x->dims, x->rank, gone, &work->kept, &work->reduced);
  work->count = strided_count(&work->reduced);
}

CPU_KERNEL(cpu_run_reduce) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  reduction how = (reduction)(uintptr_t)launch->data;
  reduce_work work = {.how = how,
                      .dtype = x->dtype,
                      .x = x->data,
                      .y = y->data,
                      .size = kd_dtype_size(x->dtype)};
  int64_t results = kd_elements(y);
  split_axes(launch, &work);
  if (!results) return KD_OK;
  if (!work.count) {
    fill_neutral(how, y);
    return KD_OK;
  }
  if (KD_TYPES_FLOAT & KD_TYPES(x->dtype)) {
    work.row = float_row_of(how == RED_LOG_SUM_EXP ? RED_MAX : how, x->dtype);
  } else if (how == RED_LOG_SUM_EXP) {
    return FAIL(KD_UNIMPLEMENTED, "ReduceLogSumExp of integers");
  } else {
    work.ints = int_row_of(how, x->dtype);
  }
  cpu_host->parallel_for(results, CPU_GRAIN / work.count + 1, reduce_piece,
                         &work);
  return KD_OK;
}

/* ---- along one axis -------------------------------------------------------- */

static lines lines_of(const kd_tensor *x, uint32_t axis) {
  return lines_along(x->dims, x->rank, axis);
}

CPU_KERNEL(cpu_run_arg_reduce) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0];
  int64_t *to = launch->outputs[0].data;
  bool largest = (uintptr_t)launch->data != 0;
  bool last = attr_int(launch, "select_last_index", 0) != 0;
  lines all = lines_of(x, axis_of(attr_int(launch, "axis", 0), x->rank));
  for (int64_t i = 0; i < all.count; i++) {
    int64_t start = lines_start(&all, i), best = 0;
    double most = cpu_get(x->data, x->dtype, start);
    for (int64_t k = 1; k < all.length; k++) {
      double value = cpu_get(x->data, x->dtype, start + k * all.step);
      bool better = largest ? value > most : value < most;
      if (better || (last && value == most)) {
        most = value;
        best = k;
      }
    }
    to[i] = best;
  }
  return KD_OK;
}

CPU_KERNEL(cpu_run_cum_sum) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  bool exclusive = attr_int(launch, "exclusive", 0) != 0;
  bool reverse = attr_int(launch, "reverse", 0) != 0;
  int64_t axis = kd_elements(&launch->inputs[1]) == 1
                     ? int_at(&launch->inputs[1], 0)
                     : INT64_MAX;
  if (axis < -(int64_t)x->rank || axis >= (int64_t)x->rank)
    return FAIL(KD_INVALID_ARGUMENT, "CumSum: axis is out of range");
  lines all = lines_of(x, axis_of(axis, x->rank));
  bool exact = !(KD_TYPES_FLOAT & KD_TYPES(x->dtype));
  size_t size = kd_dtype_size(x->dtype);
  for (int64_t i = 0; i < all.count; i++) {
    int64_t start = lines_start(&all, i);
    double sum = 0;
    uint64_t whole = 0;
    for (int64_t k = 0; k < all.length; k++) {
      int64_t at = start + (reverse ? all.length - 1 - k : k) * all.step;
      double value = cpu_get(x->data, x->dtype, at);
      int64_t bits = 0;
      if (exact)
        cpu_convert((const char *)x->data + at * (int64_t)size, x->dtype, &bits,
                    KD_I64, 1);
      if (!exclusive) {
        sum += value;
        whole += (uint64_t)bits;
      }
      if (exact)
        memcpy((char *)y->data + at * (int64_t)size, &whole, size);
      else
        cpu_set(y->data, y->dtype, at, sum);
      if (exclusive) {
        sum += value;
        whole += (uint64_t)bits;
      }
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
  soft_work work = {.how = (soft)(uintptr_t)launch->data,
                    .all = lines_of(x, axis_of(axis, x->rank)),
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
  lines all = lines_of(x, axis_of(axis, x->rank));
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

/* ---- TopK ------------------------------------------------------------------ */

typedef struct ranked {
  double value;
  int64_t index;
} ranked;

static int rank_order(const ranked *a, const ranked *b) {
  if (a->value != b->value) return a->value > b->value ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}
static int larger_first(const void *a, const void *b) {
  return rank_order(a, b);
}
static int smaller_first(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->value != y->value) return x->value < y->value ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

CPU_KERNEL(cpu_run_top_k) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *values = &launch->outputs[0];
  uint32_t axis = axis_of(attr_int(launch, "axis", -1), x->rank);
  bool largest = attr_int(launch, "largest", 1) != 0;
  lines all = lines_of(x, axis), out = lines_of(values, axis);
  ranked *order = malloc(((size_t)all.length + 1) * sizeof *order);
  size_t size = kd_dtype_size(x->dtype);
  if (!order)
    return FAIL(KD_OUT_OF_MEMORY, "TopK: no memory for %lld elements",
                (long long)all.length);
  for (int64_t i = 0; i < all.count; i++) {
    int64_t start = lines_start(&all, i), to = lines_start(&out, i);
    for (int64_t k = 0; k < all.length; k++)
      order[k] = (ranked){cpu_get(x->data, x->dtype, start + k * all.step), k};
    qsort(order, (size_t)all.length, sizeof *order,
          largest ? larger_first : smaller_first);
    for (int64_t k = 0; k < out.length; k++) {
      int64_t from = start + order[k].index * all.step;
      memcpy((char *)values->data + (to + k * out.step) * (int64_t)size,
             (const char *)x->data + from * (int64_t)size, size);
      if (kd_has_output(launch, 1))
        ((int64_t *)launch->outputs[1].data)[to + k * out.step] =
            order[k].index;
    }
  }
  free(order);
  return KD_OK;
}
