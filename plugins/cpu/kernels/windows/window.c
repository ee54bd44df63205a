/* window.c - keel::ReduceWindow and SelectAndScatter: windows over all dimensions, with any
 * padding and dilations (StableHLO's reduce_window and select_and_scatter).
 *
 *     input, base dilation 2         x . x . x . x        holes between its elements
 *     window, dilation 3               w . . w            holes between its places
 *
 * Direct: each window walks the elements between its first and its last place, and skips those
 * in its holes. A walk is never longer than the input, however large window and padding are.
 *
 * Threads share the windows of ReduceWindow. SelectAndScatter runs on one thread, as several
 * windows may add to one element. Sums are doubles or integers of 64 bits, in the elements'
 * order, and are rounded once. NaN is chosen by the largest and by the smallest. */
#include "kernels.h"

#include "dialect.h"

enum { WINDOW_ADD, WINDOW_MUL, WINDOW_MAX, WINDOW_MIN };

typedef struct window_work {
  uint32_t rank;
  int64_t dims[KD_MAX_RANK], steps[KD_MAX_RANK]; /* of the input */
  int64_t counts[KD_MAX_RANK];                   /* of windows */
  int64_t window[KD_MAX_RANK], strides[KD_MAX_RANK], begin[KD_MAX_RANK];
  int64_t base[KD_MAX_RANK], spread[KD_MAX_RANK]; /* dilations */
  int how;
  const void *x, *source, *init;
  void *y;
} window_work;

/* A walk over the elements that a window has: no longer than the input has elements, however
 * large window and padding are. */
typedef struct window_walk {
  int64_t start[KD_MAX_RANK]; /* of the window, in the padded input */
  int64_t low[KD_MAX_RANK], high[KD_MAX_RANK]; /* elements, by dimension */
  int64_t at[KD_MAX_RANK];
} window_walk;

/* False: the window has padding alone. */
static inline bool walk_begin(const window_work *work, const int64_t *index,
                              window_walk *walk) {
  for (uint32_t d = 0; d < work->rank; d++) {
    int64_t start = index[d] * work->strides[d] - work->begin[d];
    int64_t end = start + (work->window[d] - 1) * work->spread[d];
    int64_t base = work->base[d], last = end < 0 ? -1 : end / base;
    walk->start[d] = start;
    walk->low[d] = walk->at[d] = start > 0 ? (start + base - 1) / base : 0;
    walk->high[d] = last < work->dims[d] ? last + 1 : work->dims[d];
    if (walk->low[d] >= walk->high[d]) return false;
  }
  return true;
}

/* The element at which the walk is; -1: it lies between the window's places. */
static inline int64_t walk_element(const window_work *work,
                                   const window_walk *walk) {
  int64_t at = 0;
  for (uint32_t d = 0; d < work->rank; d++) {
    if ((walk->at[d] * work->base[d] - walk->start[d]) % work->spread[d])
      return -1;
    at += walk->at[d] * work->steps[d];
  }
  return at;
}

static inline bool walk_next(const window_work *work, window_walk *walk) {
  for (uint32_t d = work->rank; d-- > 0;) {
    if (++walk->at[d] < walk->high[d]) return true;
    walk->at[d] = walk->low[d];
  }
  return false;
}

/* The next index of a space, row by row. */
static inline void next_index(const int64_t *dims, uint32_t rank,
                              int64_t *index) {
  for (uint32_t d = rank; d-- > 0;) {
    if (++index[d] < dims[d]) return;
    index[d] = 0;
  }
}

static inline void index_of(const int64_t *dims, uint32_t rank, int64_t number,
                            int64_t *index) {
  for (uint32_t d = rank; d-- > 0;) {
    index[d] = dims[d] ? number % dims[d] : 0;
    number = dims[d] ? number / dims[d] : 0;
  }
}

#define IS_NAN(a) ((a) != (a))

/* NaN is more than all, and less, too. */
#define BEYOND(a, b, how) \
  (IS_NAN(a) || ((how) == WINDOW_MAX ? (a) > (b) : (a) < (b)))

#define EACH "windows/window_typed.h"
#include "each_float.h"
#include "each_int.h"

static void fill_up(const kd_launch *launch, const char *name, uint32_t rank,
                    int64_t otherwise, int64_t *out) {
  const int64_t *given = NULL;
  int64_t count = attr_ints(launch, name, &given);
  for (uint32_t d = 0; d < rank; d++)
    out[d] = count > 0 ? given[d] : otherwise;
}

static window_work read_windows(const kd_launch *launch, const kd_tensor *x,
                                const kd_tensor *over) {
  window_work work = {.rank = x->rank, .x = x->data};
  int64_t step = 1;
  fill_up(launch, "window", x->rank, 1, work.window);
  fill_up(launch, "strides", x->rank, 1, work.strides);
  fill_up(launch, "base_dilations", x->rank, 1, work.base);
  fill_up(launch, "window_dilations", x->rank, 1, work.spread);
  fill_up(launch, "pads", x->rank, 0, work.begin);
  for (uint32_t d = x->rank; d-- > 0; step *= x->dims[d]) {
    work.dims[d] = x->dims[d];
    work.steps[d] = step;
    work.counts[d] = over->dims[d];
  }
  return work;
}

CPU_KERNEL(cpu_run_reduce_window) {
  static const kd_loop_body bodies[KD_DTYPE_COUNT] = {
      FLOAT_TABLE(reduce_windows), INT_TABLE(reduce_windows)};
  static const char *const names[] = {"add", "mul", "max", "min"};
  const kd_tensor *y = &launch->outputs[0];
  window_work work = read_windows(launch, &launch->inputs[0], y);
  const char *how = attr_string(launch, "reduction", "add");
  while (work.how < WINDOW_MIN && strcmp(how, names[work.how]) != 0)
    work.how++;
  work.init = launch->inputs[1].data;
  work.y = y->data;
  int64_t each = 1; /* elements that a window has at most */
  for (uint32_t d = 0; d < work.rank; d++)
    each *= work.window[d] < work.dims[d] ? work.window[d] : work.dims[d];
  cpu_host->parallel_for(cpu_host, kd_elements(y), CPU_GRAIN / (each + 1) + 1,
                         bodies[launch->inputs[0].dtype], &work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_select_and_scatter) {
  static bool (*const bodies[KD_DTYPE_COUNT])(const window_work *work) = {
      FLOAT_TABLE(scatter_selected), INT_TABLE(scatter_selected)};
  const kd_tensor *x = &launch->inputs[0], *source = &launch->inputs[1];
  window_work work = read_windows(launch, x, source);
  work.how =
      attr_string(launch, "select", "ge")[0] == 'g' ? WINDOW_MAX : WINDOW_MIN;
  work.source = source->data;
  work.init = launch->inputs[2].data;
  work.y = launch->outputs[0].data;
  return bodies[x->dtype](&work)
             ? KD_OK
             : FAIL(KD_OUT_OF_MEMORY,
                    "SelectAndScatter: no memory for sums of %lld elements",
                    (long long)kd_elements(x));
}
