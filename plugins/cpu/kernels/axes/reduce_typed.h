/* reduce_typed.h - reduce_rows.c's loops over elements of one type, which are summed as V.
 *
 * ACCUMULATE(name, first, step, join), of each row in rules.def, defines NAMED(name_line),
 * NAMED(name_columns), and NAMED(name), which chooses between them. COLUMNS(step, at): the
 * loop of name_columns, where element `at` of a row is that of line i. */
#define COLUMNS(step, at)                       \
  for (int64_t k = 0; k < n; k++, px += apart)  \
    for (int64_t i = 0; i < lines; i++) {       \
      const double most = mosts ? mosts[i] : 0; \
      const V x = (V)LOAD(px[at]), s = part[i]; \
      (void)most;                               \
      part[i] = (V)(step);                      \
    }
#define ACCUMULATE(name, first, step, join)                                    \
  static inline V NAMED(name##_line)(const S *px, int64_t n, int64_t apart,    \
                                     double most) {                            \
    V total = first;                                                           \
    int64_t i = 0;                                                             \
    (void)most;                                                                \
    if (apart == 1 && n >= SIDES) {                                            \
      V part[SIDES];                                                           \
      for (int k = 0; k < SIDES; k++)                                          \
        part[k] = first;                                                       \
      for (; i + SIDES <= n; i += SIDES)                                       \
        SPREAD for (int k = 0; k < SIDES; k++) {                               \
          const V x = (V)LOAD(px[i + k]), s = part[k];                         \
          part[k] = (V)(step);                                                 \
        }                                                                      \
      for (int k = 0; k < SIDES; k++) {                                        \
        const V x = part[k], s = total;                                        \
        total = (V)(join);                                                     \
      }                                                                        \
    }                                                                          \
    for (; i < n; i++) {                                                       \
      const V x = (V)LOAD(px[i * apart]), s = total;                           \
      total = (V)(step);                                                       \
    }                                                                          \
    return total;                                                              \
  }                                                                            \
  static void NAMED(name##_columns)(const S *px, int64_t lines,                \
                                    int64_t between, int64_t n, int64_t apart, \
                                    const double *mosts, cpu_wide *out) {      \
    V part[REDUCE_BLOCK];                                                      \
    for (int64_t i = 0; i < lines; i++)                                        \
      part[i] = first;                                                         \
    if (between == 1)                                                          \
      COLUMNS(step, i)                                                         \
    else                                                                       \
      COLUMNS(step, i *between)                                                \
    for (int64_t i = 0; i < lines; i++)                                        \
      out[i].WIDE = part[i];                                                   \
  }                                                                            \
  static void NAMED(name)(const void *x, int64_t lines, int64_t between,       \
                          int64_t n, int64_t apart, const double *mosts,       \
                          cpu_wide *out) {                                     \
    const S *px = x;                                                           \
    bool across = (between == 1 && apart != 1) || n < FEW;                     \
    if (across && lines > 1 && lines <= REDUCE_BLOCK)                          \
      NAMED(name##_columns)(px, lines, between, n, apart, mosts, out);         \
    else                                                                       \
      for (int64_t i = 0; i < lines; i++)                                      \
        out[i].WIDE = NAMED(name##_line)(px + i * between, n, apart,           \
                                         mosts ? mosts[i] : 0);                \
  }
#include "families/rules.def"
#undef COLUMNS
