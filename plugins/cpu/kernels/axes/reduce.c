/* reduce.c - reductions over axes.
 *
 * Floats are summed in double: the result is the nearest float in all but
 * constructed cases, whatever the order. Integers wrap in 64 bits, but where a
 * root or a logarithm follows: those are summed in double, too. A mean of
 * integers is exact, and cut toward zero. */
#include "reduce.h"

#include "dialect.h"
#include "families/lines.h"
#include "kernels.h"

/* ---- rules as loops --------------------------------------------------------- */

static const uint8_t accumulator_of[CPU_REDUCTIONS] = {
#define REDUCE(op, accumulator, result) [CPU_##op] = BY_##accumulator,
#include "families/rules.def"
};

/* results of no integers, and of no floats */
#define PARTS (COUNT > 0 ? COUNT : 1)
#undef V
#define V    int64_t
#define WIDE whole
#include "reduce_wide.h"
#undef V
#undef WIDE
#define V    uint64_t
#define WIDE natural
#include "reduce_wide.h"
#undef V
#undef WIDE
#undef PARTS
#define PARTS COUNT
#define V     double
#define WIDE  real
#include "reduce_wide.h"

enum { REAL, WHOLE, NATURAL };

static void (*const joins[BY_COUNT][3])(cpu_wide *total, const cpu_wide *part,
                                        int64_t n) = {
#define ACCUMULATE(name, first, step, join)               \
  [BY_##name] = {join_##name##_real, join_##name##_whole, \
                 join_##name##_natural},
#include "families/rules.def"
};

static void (*const results[CPU_REDUCTIONS][3])(cpu_wide *total,
                                                const double *mosts, int64_t n,
                                                int64_t count) = {
#define REDUCE(op, accumulator, result) \
  [CPU_##op] = {op##_real, op##_whole, op##_natural},
#include "families/rules.def"
};

/* ---- means of 64 bits ------------------------------------------------------ */

/* Sums of each element's high or low 32 bits, which do not wrap. */
#define SUM_HALVES(name, type, half)                                         \
  static void name(const void *x, int64_t lines, int64_t between, int64_t n, \
                   int64_t apart, const double *most, cpu_wide *out) {       \
    bool columns = between == 1 && lines > 1;                                \
    int64_t inner = columns ? lines : n, outer = columns ? n : lines;        \
    (void)most;                                                              \
    memset(out, 0, (size_t)lines * sizeof *out);                             \
    for (int64_t o = 0; o < outer; o++)                                      \
      for (int64_t i = 0; i < inner; i++) {                                  \
        int64_t line = columns ? i : o, at = columns ? o : i;                \
        type v = ((const type *)x)[line * between + at * apart];             \
        out[line].natural += (uint64_t)(half);                               \
      }                                                                      \
  }
SUM_HALVES(sum_low, uint64_t, v &UINT32_MAX)
SUM_HALVES(sum_high_natural, uint64_t, v >> 32)
SUM_HALVES(sum_high_whole, int64_t, v >> 32)

/* (high * 2^32 + low) / count toward zero; `sign` is all bits where it is negative. */
static uint64_t mean_of(uint64_t high, uint64_t low, uint64_t count,
                        uint64_t sign) {
  high = (high + (low >> 32)) ^ sign;
  low = ((low ^ sign) & UINT32_MAX) + (sign & 1);
  high += low >> 32;
  uint64_t rest = (high % count << 32) + (low & UINT32_MAX);
  return (((high / count << 32) + rest / count) ^ sign) - sign;
}

/* ---- over axes ------------------------------------------------------------ */

typedef struct reduce_work {
  int op, kind;
  bool truth; /* bools, as u8 */
  kd_dtype dtype;
  cpu_reduce loop;
  strided kept;    /* operand 0: the input, over the result's elements */
  strided reduced; /* operand 0: the input, over what is reduced */
  int64_t count;   /* elements reduced into one */
  const char *x;
  char *y;
  size_t size;
} reduce_work;

/* All that is reduced into each of n neighbours, from the first one's first element. */
static void gather_lines(const reduce_work *work, int by, cpu_reduce loop,
                         const char *x, int64_t n, const double *most,
                         cpu_wide *total) {
  int64_t offsets[STRIDED_OPERANDS] = {0}, index[STRIDED_RANK] = {0};
  int last = work->reduced.rank - 1;
  int64_t apart = work->reduced.steps[0][last];
  int64_t between = work->kept.steps[0][work->kept.rank - 1];
  int64_t length = work->count ? work->reduced.dims[last] : 0;
  cpu_wide part[REDUCE_BLOCK];
  loop(x, n, between, length, apart, most, total);
  for (int64_t r = 1, rows = strided_rows(&work->reduced); r < rows; r++) {
    strided_next(&work->reduced, index, offsets);
    loop(x + offsets[0] * (int64_t)work->size, n, between, length, apart, most,
         part);
    joins[by][work->kind](total, part, n);
  }
}

static void reduce_put(const reduce_work *work, int64_t to, int64_t n,
                       const cpu_wide *total) {
  if (work->dtype == KD_F32)
    for (int64_t i = 0; i < n; i++)
      ((float *)work->y)[to + i] = (float)total[i].real;
  else if (work->kind == REAL)
    for (int64_t i = 0; i < n; i++)
      cpu_set(work->y, work->dtype, to + i, total[i].real);
  else if (work->truth) /* of nothing, the least is all bits */
    for (int64_t i = 0; i < n; i++)
      ((uint8_t *)work->y)[to + i] = total[i].natural != 0;
  else /* little-endian: the low bytes come first */
    for (int64_t i = 0; i < n; i++)
      memcpy(work->y + (to + i) * (int64_t)work->size, &total[i], work->size);
}

static void mean_block(const reduce_work *work, const char *x, int64_t n,
                       cpu_wide *total) {
  cpu_wide low[REDUCE_BLOCK];
  bool whole = work->kind == WHOLE;
  gather_lines(work, BY_sum, sum_low, x, n, NULL, low);
  gather_lines(work, BY_sum, whole ? sum_high_whole : sum_high_natural, x, n,
               NULL, total);
  for (int64_t i = 0; i < n; i++) {
    int64_t high = total[i].whole + (int64_t)(low[i].natural >> 32);
    total[i].natural = mean_of(total[i].natural, low[i].natural,
                               work->count ? (uint64_t)work->count : 1,
                               whole && high < 0 ? UINT64_MAX : 0);
  }
}

static void reduce_block(const reduce_work *work, const char *x, int64_t to,
                         int64_t n) {
  int by = accumulator_of[work->op];
  cpu_wide total[REDUCE_BLOCK];
  double largest[REDUCE_BLOCK], *most = NULL;
  if (work->op == CPU_ReduceMean && work->kind != REAL && work->size == 8) {
    mean_block(work, x, n, total);
    reduce_put(work, to, n, total);
    return;
  }
  if (by == BY_powers) { /* so that nothing overflows */
    most = largest;
    gather_lines(work, BY_largest,
                 CPU_LOOPS(cpu_reduces)->real[BY_largest][work->dtype], x, n,
                 NULL, total);
    for (int64_t i = 0; i < n; i++)
      most[i] = isinf(total[i].real) ? 0 : total[i].real;
  }
  gather_lines(work, by, work->loop, x, n, most, total);
  results[work->op][work->kind](total, most, n, work->count);
  reduce_put(work, to, n, total);
}

static void reduce_piece(void *context, int64_t begin, int64_t end) {
  const reduce_work *work = context;
  int64_t offsets[STRIDED_OPERANDS], index[STRIDED_RANK], n = 0;
  int last = work->kept.rank - 1;
  int64_t inner = work->kept.dims[last];
  strided_row(&work->kept, begin / inner, offsets);
  strided_index(&work->kept, begin / inner, index);
  for (int64_t i = begin; i < end; i += n) {
    const char *x =
        work->x + (offsets[0] + i % inner * work->kept.steps[0][last]) *
                      (int64_t)work->size;
    n = inner - i % inner;
    n = n < end - i ? n : end - i;
    n = n < REDUCE_BLOCK ? n : REDUCE_BLOCK;
    reduce_block(work, x, i, n);
    if ((i + n) % inner == 0) strided_next(&work->kept, index, offsets);
  }
}

static void reduce_it(const kd_launch *launch, int op, const bool *gone) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  kd_dtype dtype = x->dtype == KD_BOOL ? KD_U8 : x->dtype;
  bool is_float = (KD_TYPES_FLOAT & KD_TYPES(dtype)) != 0;
  bool real = is_float || op == CPU_ReduceL2 || op == CPU_ReduceLogSum ||
              op == CPU_ReduceLogSumExp;
  reduce_work work = {
      .op = op,
      .kind = real                                ? REAL
              : KD_TYPES_SIGNED & KD_TYPES(dtype) ? WHOLE
                                                  : NATURAL,
      .truth = x->dtype == KD_BOOL,
      .dtype = dtype,
      .loop = (real && !is_float
                   ? CPU_LOOPS(cpu_reduces)->real
                   : CPU_LOOPS(cpu_reduces)->own)[accumulator_of[op]][dtype],
      .x = x->data,
      .y = y->data,
      .size = kd_dtype_size(x->dtype)};
  lines_split(x->dims, x->rank, gone, &work.kept, &work.reduced);
  work.count = strided_count(&work.reduced);
  cpu_host->parallel_for(cpu_host, kd_elements(y),
                         2 * CPU_GRAIN / (work.count + 1) + 1, reduce_piece,
                         &work);
}

CPU_KERNEL(cpu_run_reduce) {
  const kd_tensor *x = &launch->inputs[0];
  bool gone[KD_MAX_RANK];
  int64_t count = kd_has_input(launch, 1) ? kd_elements(&launch->inputs[1]) : 0;
  bool none = !count && attr_int(launch, "noop_with_empty_axes", 0);
  for (uint32_t i = 0; i < x->rank; i++)
    gone[i] = !count && !none;
  for (int64_t i = 0; i < count; i++)
    gone[axis_of(int_at(&launch->inputs[1], i), x->rank)] = true;
  int op = (int)(uintptr_t)launch->data;
  /* over nothing, roots, squares and logarithms are still taken */
  bool same = op != CPU_ReduceL1 && op != CPU_ReduceL2 &&
              op != CPU_ReduceSumSquare && op != CPU_ReduceLogSum;
  if (!none || !x->rank || !same)
    reduce_it(launch, op, gone);
  else if (x->size)
    memcpy(launch->outputs[0].data, x->data, x->size);
  return KD_OK;
}

/* The largest and the mean over all of space. */
CPU_KERNEL(cpu_run_global_pool) {
  bool gone[KD_MAX_RANK];
  for (uint32_t i = 0; i < KD_MAX_RANK; i++)
    gone[i] = i >= 2;
  reduce_it(launch, launch->data ? CPU_ReduceMean : CPU_ReduceMax, gone);
  return KD_OK;
}
