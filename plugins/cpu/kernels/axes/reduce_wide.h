/* reduce_wide.h - sums of one kind, V, in the member WIDE of cpu_wide, after reduce_rows.c.
 *
 *   ACCUMULATE(...)  defines join_name_WIDE: sums of parts of n lines, joined
 *   REDUCE(...)      defines op_WIDE: n results from their sums */
#define ACCUMULATE(name, first, step, join)                                   \
  static void JOINED(join_##name##_, WIDE)(cpu_wide * total,                  \
                                           const cpu_wide *part, int64_t n) { \
    for (int64_t i = 0; i < n; i++) {                                         \
      const V s = total[i].WIDE, x = part[i].WIDE;                            \
      total[i].WIDE = (V)(join);                                              \
    }                                                                         \
  }
#define REDUCE(op, accumulator, result)                                  \
  static void JOINED(op##_, WIDE)(cpu_wide * total, const double *mosts, \
                                  int64_t n, int64_t COUNT) {            \
    (void)COUNT;                                                         \
    for (int64_t i = 0; i < n; i++) {                                    \
      const V s = total[i].WIDE;                                         \
      const double most = mosts ? mosts[i] : 0;                          \
      (void)most;                                                        \
      total[i].WIDE = (V)(result);                                       \
    }                                                                    \
  }
#include "families/rules.def"
