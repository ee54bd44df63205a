/* gates.c - a step of recurrent cells (RNN, GRU, LSTM): the state's product, and the gates.
 *
 *     z[gate] = R[gate] h + W[gate] x + biases         h' = the gates of z, by the cell's kind
 *
 * W x is one product for all steps (recurrent.c), and R h the product made here.
 *
 * Units are taken in blocks of CPU_BLOCK_BYTES, the last one filled up. The weights of a block
 * lie by gate in panels of two vectors of units, row after row of k, the state's elements:
 *
 *     k = 0: units 0 ... WIDTH-1 | k = 1: units 0 ... WIDTH-1 | ...
 *
 * R items of the batch times V vectors of sums stay in registers, with k innermost; then the
 * gates are applied to these units while z is in the first cache. Threads share blocks
 * (recurrent.c). A block is computed whole: a unit's bits do not depend on where it stands.
 *
 * Compiled once for each instruction set, with CELLS naming the result.
 *
 *   FULL(X), PAIR(X)  X(R, V) of each shape of sums, the tallest first; of two gates at once
 *   TIMES(R, V)       defines times_R_V_TYPE, the product of that shape
 *   HOLD(v)           v stays in a register: compilers read it again for each item
 *   VECTORS(name)     declares libmvec's vector versions of a function of math.h */
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
