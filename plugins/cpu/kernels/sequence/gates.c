/* gates.c - steps of recurrent cells: the state's product with packed weights, and gates.
 *
 * Compiled once for each instruction set, with CELLS naming the result. A block of units
 * is computed whole, so that a unit's bits do not depend on where it stands. */
#include "gates.h"

#define PASTED(a, b) a##_##b
#define JOINED(a, b) PASTED(a, b)
#define NAMED(name)  JOINED(name, TYPE)

/* R items times V vectors at once: what fits in the registers, the tallest first. A panel is
 * two vectors wide. */
#if defined(__AVX512F__)
#define VECTOR  64
#define MOST    12
#define FULL(X) X(12, 2) X(8, 2) X(6, 2) X(4, 2) X(3, 2) X(2, 2) X(1, 2)
#define PAIR(X) X(3, 4) X(2, 4) X(1, 4) /* two gates, which lie side by side */
#elif defined(__AVX2__)
#define VECTOR  32
#define MOST    6
#define FULL(X) X(6, 2) X(4, 2) X(3, 2) X(2, 4) X(1, 4)
#else
#define VECTOR  16
#define MOST    4
#define FULL(X) X(4, 2) X(2, 4) X(1, 8)
#endif

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* A vector stays in a register: compilers read it again from memory for each item. */
#if defined(__AVX512F__)
#define HOLD(value) __asm__("" : "+v"(value))
#elif defined(__x86_64__)
#define HOLD(value) __asm__("" : "+x"(value))
#else
#define HOLD(value) (void)(value)
#endif

#ifdef KEEL_WITH_MVEC
#define VECTORS(name)                                               \
  extern float name##f(float) __attribute__((simd("notinbranch"))); \
  extern double name(double) __attribute__((simd("notinbranch")));
VECTORS(exp)
VECTORS(expm1)
VECTORS(log1p)
VECTORS(tanh)
#endif

#define T        float
#define TYPE     f32
#define FN(name) name##f
#include "gates_typed.h"
#undef T
#undef TYPE
#undef FN
#define T        double
#define TYPE     f64
#define FN(name) name
#include "gates_typed.h"

const cpu_cells CELLS[2] = {{pack_f32, step_f32}, {pack_f64, step_f64}};
