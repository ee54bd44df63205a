/* unroll.h - how gcc and clang are told that sums stay in registers.
 *
 *   UNROLL  the pragma by which the loop behind it is written out whole
 *   INLINE  static inline, whatever the function's size: its constant arguments fold */
#ifndef KEEL_CPU_UNROLL_H
#define KEEL_CPU_UNROLL_H

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

#endif /* KEEL_CPU_UNROLL_H */
