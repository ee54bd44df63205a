/* order.c - ops along lines of one axis: ArgMax, ArgMin, CumSum, CumProd, TopK. */
#include <stdatomic.h>

#include "data/keys.h"
#include "dialect.h"
#include "families/lines.h"
#include "kernels.h"

typedef struct line_work {
  lines all;
  const void *x;
  void *y;
  bool most, last;         /* ArgMax; of equal ones */
  bool reverse, exclusive; /* CumSum, CumProd */
} line_work;

#define ORDER_LANES 16        /* lines, or parts of one, that go together */
#define ORDER_ROWS  (1 << 30) /* elements of a line that are numbered at once */
#define SUM_LANES   32

/* A float as an integer in the same order, or in that from the largest to the least; NaN
 * before all: found first by ArgMax and by ArgMin, as families/rules.def has it. */
static inline int32_t rank_of_float(float x, bool most) {
  int32_t bits = (int32_t)float_bits(x + 0.0F);
  bool nan = (bits & INT32_MAX) > 0x7f800000;
  bits ^= (int32_t)((uint32_t)(bits >> 31) >> 1);
  bits = most ? bits : ~bits;
  return nan ? INT32_MAX : bits;
}

static inline int64_t rank_of_double(double x, bool most) {
  double plain = x + 0.0;
  int64_t bits = 0;
  memcpy(&bits, &plain, sizeof bits);
  bool nan = (bits & INT64_MAX) > INT64_C(0x7ff0000000000000);
  bits ^= (int64_t)((uint64_t)(bits >> 63) >> 1);
  bits = most ? bits : ~bits;
  return nan ? INT64_MAX : bits;
}

#define EACH        "axes/order_typed.h"
#define TIMES(a, b) ((a) * (b))
typedef int32_t R_f32, R_f16, R_bf16;
typedef int64_t R_f64;
#define R JOINED(R_, TYPE)
#define RANK(x, most) \
  _Generic((x), float : rank_of_float, double : rank_of_double)(x, most)
#include "each_float.h"
#undef R
#undef RANK
#undef TIMES
#define TIMES(a, b)   ((C)((uint64_t)(a) * (uint64_t)(b))) /* wraps */
#define R             C
#define RANK(x, most) ((C)((most) ? (x) : ~(x)))
#include "each_int.h"

static void run_lines(const kd_loop_body bodies[KD_DTYPE_COUNT],
                      const kd_tensor *x, line_work *work) {
  int64_t lines = work->all.length ? work->all.count : 0;
  cpu_host->parallel_for(cpu_host, lines,
                         CPU_GRAIN / (work->all.length + 1) + 1,
                         bodies[x->dtype], work);
}

CPU_KERNEL(cpu_run_arg_reduce) {
  static const kd_loop_body bodies[KD_DTYPE_COUNT] = {FLOAT_TABLE(arg),
                                                      INT_TABLE(arg)};
  const kd_tensor *x = &launch->inputs[0];
  uint32_t axis = axis_of(attr_int(launch, "axis", 0), x->rank);
  line_work work = {.all = lines_along(x->dims, x->rank, axis),
                    .x = x->data,
                    .y = launch->outputs[0].data,
                    .most = (uintptr_t)launch->data != 0,
                    .last = attr_int(launch, "select_last_index", 0) != 0};
  run_lines(bodies, x, &work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_cum_sum) {
  static const kd_loop_body sums[KD_DTYPE_COUNT] = {FLOAT_TABLE(cum_sum),
                                                    INT_TABLE(cum_sum)};
  static const kd_loop_body products[KD_DTYPE_COUNT] = {FLOAT_TABLE(cum_prod),
                                                        INT_TABLE(cum_prod)};
  bool product = (uintptr_t)launch->data != 0;
  const kd_tensor *x = &launch->inputs[0];
  int64_t axis = kd_elements(&launch->inputs[1]) == 1
                     ? int_at(&launch->inputs[1], 0)
                     : INT64_MAX;
  if (axis < -(int64_t)x->rank || axis >= (int64_t)x->rank)
    return FAIL(KD_INVALID_ARGUMENT, "%s: axis is out of range",
                product ? "CumProd" : "CumSum");
  line_work work = {
      .all = lines_along(x->dims, x->rank, axis_of(axis, x->rank)),
      .x = x->data,
      .y = launch->outputs[0].data,
      .reverse = attr_int(launch, "reverse", 0) != 0,
      .exclusive = attr_int(launch, "exclusive", 0) != 0};
  run_lines(product ? products : sums, x, &work);
  return KD_OK;
}

/* ---- TopK ------------------------------------------------------------------ */

typedef struct top_work {
  const kd_launch *launch;
  lines all, out;
  bool largest;
  atomic_bool failed; /* for want of memory */
} top_work;

static void give_top(const top_work *work, int64_t line, const cpu_key *first) {
  const kd_launch *launch = work->launch;
  const kd_tensor *x = &launch->inputs[0];
  size_t size = kd_dtype_size(x->dtype);
  int64_t to = lines_start(&work->out, line), step = work->out.step;
  int64_t from = lines_start(&work->all, line);
  char *values =
      kd_has_output(launch, 0) ? (char *)launch->outputs[0].data : NULL;
  int64_t *places = kd_has_output(launch, 1) ? launch->outputs[1].data : NULL;
  for (int64_t k = 0; k < work->out.length; k++, to += step) {
    if (values)
      memcpy(values + (size_t)to * size,
             (const char *)x->data +
                 (size_t)(from + first[k].at * work->all.step) * size,
             size);
    if (places) places[to] = first[k].at;
  }
}

static void top_lines(void *context, int64_t begin, int64_t end) {
  top_work *work = context;
  const kd_tensor *x = &work->launch->inputs[0];
  int64_t n = work->all.length, count = work->out.length;
  size_t size = kd_dtype_size(x->dtype);
  int64_t most = cpu_keys_room(n, count);
  cpu_key *keys = malloc(((size_t)most * 2 + 1) * sizeof *keys);
  if (!keys) atomic_store(&work->failed, true);
  for (int64_t i = begin; keys && i < end; i++) {
    const char *line =
        (const char *)x->data + (size_t)lines_start(&work->all, i) * size;
    cpu_keys_first(line, x->dtype, work->all.step, n, work->largest, count,
                   keys, keys + most);
    give_top(work, i, keys);
  }
  free(keys);
}

CPU_KERNEL(cpu_run_top_k) {
  const kd_tensor *x = &launch->inputs[0];
  uint32_t axis = axis_of(attr_int(launch, "axis", -1), x->rank);
  const kd_tensor *y = &launch->outputs[kd_has_output(launch, 0) ? 0 : 1];
  top_work work = {.launch = launch,
                   .all = lines_along(x->dims, x->rank, axis),
                   .out = lines_along(y->dims, y->rank, axis),
                   .largest = attr_int(launch, "largest", 1) != 0};
  cpu_host->parallel_for(cpu_host, kd_elements(y) ? work.all.count : 0,
                         CPU_GRAIN / 2 / (work.all.length + 1) + 1, top_lines,
                         &work);
  return atomic_load(&work.failed)
             ? FAIL(KD_OUT_OF_MEMORY, "TopK: no memory for %lld elements",
                    (long long)work.all.length)
             : KD_OK;
}
