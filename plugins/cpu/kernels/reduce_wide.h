/* reduce_wide.h - what reduce.c does with sums of one kind, V, the member WIDE: parts
 * of them joined, and results. */
#define ACCUMULATE(name, first, step, join)                                  \
  static inline void JOINED(join_##name##_, WIDE)(wide * total, wide part) { \
    const V s = total->WIDE, x = part.WIDE;                                  \
    total->WIDE = (V)(join);                                                 \
  }
#define REDUCE(op, accumulator, result)                             \
  static inline void JOINED(op##_, WIDE)(wide * total, double most, \
                                         int64_t COUNT) {           \
    const V s = total->WIDE;                                        \
    (void)most;                                                     \
    (void)COUNT;                                                    \
    total->WIDE = (V)(result);                                      \
  }
#include "families/rules.def"
