/* reduce.c - reductions over axes.
 *
 * Floats are summed in double: the result is the nearest float in all but
 * constructed cases, whatever the order. Integers wrap in 64 bits, but where a
 * root or a logarithm follows: those are summed in double, too. */
#include "dialect.h"
#include "families/lines.h"
#include "kernels.h"

/* ---- rules as loops --------------------------------------------------------- */

typedef union wide {
  double real;
  int64_t whole;
  uint64_t natural;
} wide;

/* A row of n elements that lie `apart`. */
typedef void (*row_loop)(const void *x, int64_t n, int64_t apart, double most,
                         wide *out);

enum {
#define ACCUMULATE(name, first, step, join) BY_##name,
#include "families/rules.def"
  BY_COUNT
};

static const uint8_t accumulator_of[CPU_REDUCTIONS] = {
#define REDUCE(op, accumulator, result) [CPU_##op] = BY_##accumulator,
#include "families/rules.def"
};

#define ABS(x) ((x) < 0 ? -(x) : (x))

/* sums of integers */
#define PARTS (COUNT > 0 ? COUNT : 1)
#define LEAST JOINED(LEAST_, TYPE)
#define MOST  JOINED(MOST_, TYPE)
#define EACH  "reduce_typed.h"
#define WIDE  JOINED(WIDE_, TYPE)
#include "each_int.h"
#undef WIDE
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
#undef LEAST
#undef MOST
#undef PARTS

/* sums as doubles */
#define PARTS COUNT
#define LEAST (-INF)
#define MOST  INF
#define V     double
#define WIDE  real
#include "each_float.h"
#undef NAMED
#define NAMED(name) JOINED(name##_real_, TYPE)
#include "each_int.h"
#include "reduce_wide.h"

static const row_loop rows[BY_COUNT][KD_DTYPE_COUNT] = {
#define ACCUMULATE(name, first, step, join) \
  [BY_##name] = {FLOAT_TABLE(name), INT_TABLE(name)},
#include "families/rules.def"
};
static const row_loop real_rows[BY_COUNT][KD_DTYPE_COUNT] = {
    [BY_sum] = {FLOAT_TABLE(sum), INT_TABLE(sum_real)},
    [BY_largest] = {FLOAT_TABLE(largest), INT_TABLE(largest_real)},
    [BY_squares] = {FLOAT_TABLE(squares), INT_TABLE(squares_real)},
    [BY_powers] = {FLOAT_TABLE(powers), INT_TABLE(powers_real)}};

enum { REAL, WHOLE, NATURAL };

static void (*const joins[BY_COUNT][3])(wide *total, wide part) = {
#define ACCUMULATE(name, first, step, join)               \
  [BY_##name] = {join_##name##_real, join_##name##_whole, \
                 join_##name##_natural},
#include "families/rules.def"
};

static void (*const results[CPU_REDUCTIONS][3])(wide *total, double most,
                                                int64_t count) = {
#define REDUCE(op, accumulator, result) \
  [CPU_##op] = {op##_real, op##_whole, op##_natural},
#include "families/rules.def"
};

/* ---- over axes ------------------------------------------------------------ */

typedef struct reduce_work {
  int op, kind;
  bool truth; /* bools, as u8 */
  kd_dtype dtype;
  row_loop row;
  strided kept;    /* operand 0: the input, over the result's elements */
  strided reduced; /* operand 0: the input, over what is reduced */
  int64_t count;   /* elements reduced into one */
  const char *x;
  char *y;
  size_t size;
} reduce_work;

/* All that is reduced into one, from its first element on. */
static wide gather_rows(const reduce_work *work, int by, row_loop row,
                        const char *x, double most) {
  int64_t offsets[STRIDED_OPERANDS] = {0}, index[STRIDED_RANK] = {0};
  int last = work->reduced.rank - 1;
  wide total, part;
  int64_t n = work->count ? work->reduced.dims[last] : 0;
  row(x, n, work->reduced.steps[0][last], most, &total);
  for (int64_t r = 1, n_rows = strided_rows(&work->reduced); r < n_rows; r++) {
    strided_next(&work->reduced, index, offsets);
    row(x + offsets[0] * (int64_t)work->size, n, work->reduced.steps[0][last],
        most, &part);
    joins[by][work->kind](&total, part);
  }
  return total;
}

static void put(const reduce_work *work, int64_t to, wide total) {
  if (work->kind == REAL)
    cpu_set(work->y, work->dtype, to, total.real);
  else if (work->truth) /* of nothing, the least is all bits */
    ((uint8_t *)work->y)[to] = total.natural != 0;
  else /* little-endian: the low bytes come first */
    memcpy(work->y + to * (int64_t)work->size, &total, work->size);
}

static void reduce_one(const reduce_work *work, const char *x, int64_t to) {
  int by = accumulator_of[work->op];
  double most = 0;
  if (by == BY_powers) { /* so that nothing overflows */
    most =
        gather_rows(work, BY_largest, real_rows[BY_largest][work->dtype], x, 0)
            .real;
    if (isinf(most)) most = 0;
  }
  wide total = gather_rows(work, by, work->row, x, most);
  results[work->op][work->kind](&total, most, work->count);
  put(work, to, total);
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
    reduce_one(work, x, i);
    if (i % inner == inner - 1) strided_next(&work->kept, index, offsets);
  }
}

static void reduce(const kd_launch *launch, int op, const bool *gone) {
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
      .row = (real && !is_float ? real_rows : rows)[accumulator_of[op]][dtype],
      .x = x->data,
      .y = y->data,
      .size = kd_dtype_size(x->dtype)};
  lines_split(x->dims, x->rank, gone, &work.kept, &work.reduced);
  work.count = strided_count(&work.reduced);
  cpu_host->parallel_for(cpu_host, kd_elements(y),
                         CPU_GRAIN / (work.count + 1) + 1, reduce_piece, &work);
}

CPU_KERNEL(cpu_run_reduce) {
  (void)self;
  (void)stream;
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
    reduce(launch, op, gone);
  else if (x->size)
    memcpy(launch->outputs[0].data, x->data, x->size);
  return KD_OK;
}

/* The largest and the mean over all of space. */
CPU_KERNEL(cpu_run_global_pool) {
  (void)self;
  (void)stream;
  bool gone[KD_MAX_RANK];
  for (uint32_t i = 0; i < KD_MAX_RANK; i++)
    gone[i] = i >= 2;
  reduce(launch, launch->data ? CPU_ReduceMean : CPU_ReduceMax, gone);
  return KD_OK;
}
