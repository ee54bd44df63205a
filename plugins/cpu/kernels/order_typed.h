/* order_typed.h - order.c's kernels for one element type. */
#define ORDER(name, expression)                          \
  static inline bool NAMED(name)(const C x, const C y) { \
    return expression;                                   \
  }
#include "families/rules.def"

#define N    work->all.length
#define STEP work->all.step
#define X_t  C
#define X(i) LOAD(px[i])

/* ---- ArgMax, ArgMin ------------------------------------------------------- */

#define SET_Y(i, v)  (py[i] = (v))
#define BEATS(x, y)  (work->most ? NAMED(ArgMax)(x, y) : NAMED(ArgMin)(x, y))
#define BETTER(x, y) (work->last ? !BEATS(y, x) : BEATS(x, y))
static void NAMED(arg)(void *context, int64_t begin, int64_t end) {
  const line_work *work = context;
  const S *px = work->x;
  int64_t *py = work->y;
  for (int64_t GID = begin; GID < end; GID++) {
#include "families/kernels/arg.k"
  }
}
#undef SET_Y
#undef BEATS
#undef BETTER

/* ---- CumSum --------------------------------------------------------------- */

#define SET_Y(i, v) (py[i] = STORE(v))
#define REVERSE     work->reverse
#define EXCLUSIVE   work->exclusive
static void NAMED(cum_sum)(void *context, int64_t begin, int64_t end) {
  const line_work *work = context;
  const S *px = work->x;
  S *py = work->y;
  for (int64_t GID = begin; GID < end; GID++) {
#include "families/kernels/cum_sum.k"
  }
}
#undef SET_Y
#undef REVERSE
#undef EXCLUSIVE
#undef N
#undef STEP
#undef X_t
#undef X
