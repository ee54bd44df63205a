/* pick.c - Where, IsNaN and IsInf, as loops that become vectors, shared by the threads. */
#include <math.h>

#include "kernels.h"

/* ---- Where ------------------------------------------------------------------------ */

typedef struct sixteen {
  uint64_t halves[2];
} sixteen;

typedef struct where_work {
  strided space; /* operands: the condition, X, Y */
  const uint8_t *condition;
  const char *x, *y;
  char *to;
  size_t size;
  int64_t parts; /* of a row */
} where_work;

#define PART 16384 /* elements of a row, for one thread */

/* A row of elements of type T; steps of a row that are common are constants. */
#define PICK_ROW(C, X, Y)         \
  for (int64_t i = 0; i < n; i++) \
    to[i] = c[i * (C)] ? x[i * (X)] : y[i * (Y)];
#define PICK(T)                                                               \
  static void pick_##T(const uint8_t *c, const void *from, const void *other, \
                       const int64_t *step, int64_t n, void *place) {         \
    const T *x = from, *y = other;                                            \
    T *to = place;                                                            \
    if (step[0] == 1 && step[1] == 1 && step[2] == 1) {                       \
      PICK_ROW(1, 1, 1)                                                       \
    } else if (step[0] == 1 && step[1] == 1 && !step[2]) {                    \
      const T same = *y;                                                      \
      for (int64_t i = 0; i < n; i++)                                         \
        to[i] = c[i] ? x[i] : same;                                           \
    } else if (step[0] == 1 && !step[1] && step[2] == 1) {                    \
      const T same = *x;                                                      \
      for (int64_t i = 0; i < n; i++)                                         \
        to[i] = c[i] ? same : y[i];                                           \
    } else if (step[0] == 1 && !step[1] && !step[2]) {                        \
      const T yes = *x, no = *y;                                              \
      for (int64_t i = 0; i < n; i++)                                         \
        to[i] = c[i] ? yes : no;                                              \
    } else {                                                                  \
      PICK_ROW(step[0], step[1], step[2])                                     \
    }                                                                         \
  }
PICK(uint8_t)
PICK(uint16_t)
PICK(uint32_t)
PICK(uint64_t)
PICK(sixteen)

static void pick_rows(void *context, int64_t begin, int64_t end) {
  const where_work *work = context;
  const strided *space = &work->space;
  int last = space->rank - 1;
  int64_t offsets[STRIDED_OPERANDS] = {0}, index[STRIDED_RANK] = {0};
  int64_t row = space->dims[last], size = (int64_t)work->size;
  const int64_t step[] = {space->steps[0][last], space->steps[1][last],
                          space->steps[2][last]};
  strided_row(space, begin / work->parts, offsets);
  strided_index(space, begin / work->parts, index);
  for (int64_t i = begin; i < end; i++) {
    int64_t from = i % work->parts * PART;
    int64_t n = row - from < PART ? row - from : PART;
    const uint8_t *c = work->condition + offsets[0] + from * step[0];
    const char *x = work->x + (offsets[1] + from * step[1]) * size;
    const char *y = work->y + (offsets[2] + from * step[2]) * size;
    char *to = work->to + (i / work->parts * row + from) * size;
    switch (size) {
#define PICK_SIZE(T) pick_##T(c, x, y, step, n, to)
      CPU_SIZES(PICK_SIZE)
      default:
        pick_sixteen(c, x, y, step, n, to);
    }
    if (from + n == row) strided_next(space, index, offsets);
  }
}

CPU_KERNEL(cpu_run_where) {
  const kd_tensor *z = &launch->outputs[0];
  where_work work = {.condition = launch->inputs[0].data,
                     .x = launch->inputs[1].data,
                     .y = launch->inputs[2].data,
                     .to = z->data,
                     .size = kd_dtype_size(z->dtype)};
  strided_begin(&work.space, z->dims, z->rank);
  for (uint32_t i = 0; i < 3; i++)
    strided_tensor(&work.space, &launch->inputs[i]);
  if (!strided_count(&work.space)) return KD_OK;
  strided_simplify(&work.space);
  int64_t row = work.space.dims[work.space.rank - 1];
  work.parts = (row + PART - 1) / PART;
  cpu_host->parallel_for(cpu_host, strided_rows(&work.space) * work.parts,
                         2 * CPU_GRAIN / (row + 1) + 1, pick_rows, &work);
  return KD_OK;
}

/* ---- IsNaN, IsInf ------------------------------------------------------------------- */

typedef struct test_work {
  const kd_tensor *x;
  uint8_t *y;
  bool nan, plus, minus; /* nan, or which infinities */
} test_work;

/* Of f32 by its bits: without its sign it lies above infinity, or is that. */
static void test_floats(const uint32_t *x, int64_t n, const test_work *work,
                        uint8_t *y) {
  const uint32_t infinity = 0x7f800000u, sign = 0x80000000u;
  const uint32_t first = work->plus ? infinity : infinity | sign;
  const uint32_t second = work->minus ? infinity | sign : first;
  const bool any = work->plus || work->minus;
  if (work->nan)
    for (int64_t i = 0; i < n; i++)
      y[i] = (x[i] & ~sign) > infinity;
  else
    for (int64_t i = 0; i < n; i++)
      y[i] = any & ((x[i] == first) | (x[i] == second));
}

static void test_piece(void *context, int64_t begin, int64_t end) {
  const test_work *work = context;
  const kd_tensor *x = work->x;
  if (x->dtype == KD_F32) {
    test_floats((const uint32_t *)x->data + begin, end - begin, work,
                work->y + begin);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    double value = cpu_get(x->data, x->dtype, i);
    work->y[i] = work->nan
                     ? isnan(value) != 0
                     : isinf(value) && (value > 0 ? work->plus : work->minus);
  }
}

static kd_status test(const kd_launch *launch, test_work *work) {
  work->x = &launch->inputs[0];
  work->y = launch->outputs[0].data;
  cpu_host->parallel_for(cpu_host, kd_elements(work->x), 2 * CPU_GRAIN,
                         test_piece, work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_is_nan) {
  test_work work = {.nan = true};
  return test(launch, &work);
}

CPU_KERNEL(cpu_run_is_inf) {
  test_work work = {.plus = attr_int(launch, "detect_positive", 1) != 0,
                    .minus = attr_int(launch, "detect_negative", 1) != 0};
  return test(launch, &work);
}
