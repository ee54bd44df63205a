/* tiles.c - matrix products (GEMM) by register tiles, on the calling thread.
 *
 * Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008; the names
 * on the right are those of BLIS.
 *
 *     for k by DEEP                             KC
 *       for n by WIDE                           NC   B is packed: panels of COLUMNS columns
 *         for m by about TALL                   MC   A is packed: panels of up to ROWS rows
 *           for each panel of B                 NR
 *             for each panel of A               MR   a tile of C
 *               for each element of k                its sums += a column of A x a row of B
 *
 *     panel of A   a00 a10 a20 ... | a01 a11 a21 ... |      all rows of k = 0, of k = 1 ...
 *     panel of B   b00 b01 b02 ... | b10 b11 b12 ... |      all columns of k = 0, of k = 1 ...
 *
 * The micro-kernel is the innermost loop: a tile's sums, ROWS rows of two vectors, stay in
 * registers, and an element of A is broadcast. At the right edge, panels of B are filled up
 * with zeros; at the bottom, tiles are lower. A few rows read B where it lies; a C of few
 * columns reads A so.
 *
 * Each element is summed in the order of k, rounded once for each product and sum (FMA, where
 * the instruction set has it) and once more for each block of k. No loop over k is shared
 * among threads (gemm.c). Compiled once for each instruction set, with TILES naming the
 * result. */
#include "tiles.h"

#include <unistd.h>

#include "unroll.h"

#define PASTED(a, b) a##_##b
#define JOINED(a, b) PASTED(a, b)
#define NAMED(name)  JOINED(name, TYPE)

#if defined(__AVX512F__)
#define VECTOR      64 /* bytes */
#define ROWS        12 /* of a tile; its columns are two vectors */
#define FULL(X)     X(12) X(11) X(10) X(9) X(8) X(7) X(6) X(5) X(4) X(3) X(2) X(1)
#define FEW_ROWS(X) X(1, 4) X(2, 4) X(3, 3) X(4, 2) X(5, 2) X(6, 2)
#elif defined(__AVX2__)
#define VECTOR      32
#define ROWS        6
#define FULL(X)     X(6) X(5) X(4) X(3) X(2) X(1)
#define FEW_ROWS(X) X(1, 4) X(2, 2)
#else
#define VECTOR      16
#define ROWS        4
#define FULL(X)     X(4) X(3) X(2) X(1)
#define FEW_ROWS(X) X(1, 4) X(2, 2)
#endif

#define DEEP \
  256 /* elements of k at once: panels of B stay in the first cache */
#ifdef __AVX512F__
#define DEEP_PANELS \
  768            /* of B that came in panels, read from the second cache */
#define TALL 204 /* rows of a block of A, in the second cache; whole tiles */
#else
#define DEEP_PANELS DEEP
#define TALL        120
#endif
#define WIDE \
  2048 /* columns of a block of B; for each of them A is copied again */

#define NEAR 32768 /* bytes on the stack */

/* A value is rounded before it is added to. Compilers may join either product of a * x + b * y
 * with the sum, one for this row and the other for the next. */
#if defined(__AVX512F__)
#define ROUND(value) __asm__("" : "+v"(value)) /* x: 16 of its registers */
#elif defined(__x86_64__)
#define ROUND(value) __asm__("" : "+x"(value))
#elif defined(__aarch64__)
#define ROUND(value) __asm__("" : "+w"(value))
#else
#define ROUND(value) __asm__("" : "+m"(value))
#endif

/* A square of elements, its rows and columns exchanged. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define CAN_TURN
#define MIX __builtin_shufflevector
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef double two __attribute__((vector_size(16), aligned(8), may_alias));

static inline void turn_four(const float *from, int64_t step, float *to,
                             int64_t width) {
  four a = *(const four *)from, b = *(const four *)(from + step);
  four c = *(const four *)(from + 2 * step);
  four d = *(const four *)(from + 3 * step);
  four p = MIX(a, b, 0, 4, 1, 5), q = MIX(a, b, 2, 6, 3, 7);
  four r = MIX(c, d, 0, 4, 1, 5), s = MIX(c, d, 2, 6, 3, 7);
  *(four *)to = MIX(p, r, 0, 1, 4, 5);
  *(four *)(to + width) = MIX(p, r, 2, 3, 6, 7);
  *(four *)(to + 2 * width) = MIX(q, s, 0, 1, 4, 5);
  *(four *)(to + 3 * width) = MIX(q, s, 2, 3, 6, 7);
}

#ifdef __AVX2__
#define HAS_EIGHT
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));

/* Halves of 16 bytes are transposed as above, then exchanged. */
static inline void turn_eight(const float *from, int64_t step, float *to,
                              int64_t width) {
  eight x[8], y[8];
  for (int i = 0; i < 8; i++)
    x[i] = *(const eight *)(from + i * step);
  for (int i = 0; i < 8; i += 2) {
    y[i] = MIX(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    y[i + 1] = MIX(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int k = 0; k < 2; k++) {
      x[i + 2 * k] = MIX(y[i + k], y[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      x[i + 2 * k + 1] =
          MIX(y[i + k], y[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; i++) {
    *(eight *)(to + i * width) = MIX(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *(eight *)(to + (i + 4) * width) =
        MIX(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}
#endif

static inline void turn_two(const double *from, int64_t step, double *to,
                            int64_t width) {
  two a = *(const two *)from, b = *(const two *)(from + step);
  *(two *)to = MIX(a, b, 0, 2);
  *(two *)(to + width) = MIX(a, b, 1, 3);
}
#endif
#endif

/* Lines of a set of the first cache; 0: not known. */
static long near_ways(void) {
#ifdef _SC_LEVEL1_DCACHE_ASSOC
  static long ways = -1; /* any thread writes the same */
  long known = __atomic_load_n(&ways, __ATOMIC_RELAXED);
  if (known < 0) {
    known = sysconf(_SC_LEVEL1_DCACHE_ASSOC);
    if (known < 0) known = 0;
    __atomic_store_n(&ways, known, __ATOMIC_RELAXED);
  }
  return known;
#else
  return 0;
#endif
}

#define T      float
#define TYPE   f32
#define SQUARE 4
#ifdef CAN_TURN
#define TURN turn_four
#endif
#ifdef HAS_EIGHT
#define TURN_MORE turn_eight
#endif
#include "tiles_typed.h"
#undef T
#undef TYPE
#undef TURN_MORE
#undef SQUARE
#undef TURN
#define T      double
#define TYPE   f64
#define SQUARE 2
#ifdef CAN_TURN
#define TURN turn_two
#endif
#include "tiles_typed.h"

const cpu_tiles TILES = {.f32 = product_f32,
                         .f64 = product_f64,
                         .pack = pack_f32,
                         .columns = 2 * VECTOR / sizeof(float),
                         .turn = turn_f32};
