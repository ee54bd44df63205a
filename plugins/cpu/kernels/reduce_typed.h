/* reduce_typed.h - reduce.c's loops over elements of one type, which are summed as V:
 * NAMED(sum) and so on. */
#define ACCUMULATE(name, first, step, join)                                  \
  static inline void NAMED(name)(const void *from, int64_t n, int64_t apart, \
                                 double most, wide *out) {                   \
    const S *px = from;                                                      \
    V part[4] = {first, first, first, first};                                \
    int64_t i = 0;                                                           \
    (void)most;                                                              \
    for (; apart == 1 && i + 4 <= n; i += 4) /* side by side */              \
      for (int k = 0; k < 4; k++) {                                          \
        const V x = (V)LOAD(px[i + k]), s = part[k];                         \
        part[k] = (V)(step);                                                 \
      }                                                                      \
    for (; i < n; i++) {                                                     \
      const V x = (V)LOAD(px[i * apart]), s = part[0];                       \
      part[0] = (V)(step);                                                   \
    }                                                                        \
    for (int k = 1; k < 4; k++) {                                            \
      const V x = part[k], s = part[0];                                      \
      part[0] = (V)(join);                                                   \
    }                                                                        \
    out->WIDE = part[0];                                                     \
  }
#include "families/rules.def"
