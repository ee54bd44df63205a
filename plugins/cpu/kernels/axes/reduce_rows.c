/* reduce_rows.c - lines summed up (Reduce*), by loops that become vectors.
 *
 * Compiled once for each instruction set, with REDUCES naming the result. Two orders, by how
 * lines lie (reduce_typed.h):
 *
 *     along    a line side by side: SIDES parts, of elements 0, SIDES, 2 SIDES ...; of 1,
 *              SIDES + 1 ...; a vector is several parts, which are joined at the end
 *     across   lines side by side, or short ones: one sum each, element after element; a vector
 *              is several lines
 *
 * A line gives the same bits wherever it stands. Integers are summed modulo 2^64, or as doubles
 * (`real`); floats as doubles, but the largest and smallest of them in their own width.
 * reduce.c rounds the results. */
#include "reduce.h"

#include "dialect.h"

#define ABS(x) ((x) < 0 ? -(x) : (x))
#define SIDES  16 /* parts of a line beside each other */
#define FEW    16 /* elements of a line that is summed beside its neighbours */

/* Stands before a loop over SIDES. Most instruction sets convert integers of 64 bits to doubles
 * one by one: that loop is faster when it is unrolled. */
#define SPREAD
#define SPREAD_i8
#define SPREAD_u8
#define SPREAD_i16
#define SPREAD_u16
#define SPREAD_i32
#define SPREAD_u32
#ifdef __clang__
#define SPREAD_i64
#else
#define SPREAD_i64 _Pragma("GCC unroll 16")
#endif
#define SPREAD_u64 SPREAD_i64

/* sums of integers */
#define LEAST JOINED(LEAST_, TYPE)
#define MOST  JOINED(MOST_, TYPE)
#define EACH  "axes/reduce_typed.h"
#define WIDE  JOINED(WIDE_, TYPE)
#include "each_int.h"
#undef WIDE
#undef LEAST
#undef MOST

/* sums as doubles */
#define LEAST (-INF)
#define MOST  INF
#undef V
#define V    double
#define WIDE real
#include "each_float.h"
#undef NAMED
#define NAMED(name) JOINED(name##_real_, TYPE)
#undef SPREAD
#define SPREAD JOINED(SPREAD_, TYPE)
#include "each_int.h"
#undef SPREAD
#define SPREAD

/* what is not summed stays as wide as it is */
#undef V
#undef LEAST
#undef MOST
#undef NAMED
#undef SIDES
#define SIDES       32 /* compilers leave a loop that long to be a vector */
#define V           C
#define LEAST       ((C)-INFINITY)
#define MOST        ((C)INFINITY)
#define NAMED(name) JOINED(name##_narrow_, TYPE)
#include "each_float.h"

#define ALL(name, floats) \
  { FLOAT_TABLE(floats), INT_TABLE(name) }

const cpu_reduces REDUCES = {
    .own = {[BY_sum] = ALL(sum, sum),
            [BY_product] = ALL(product, product),
            [BY_largest] = ALL(largest, largest_narrow),
            [BY_smallest] = ALL(smallest, smallest_narrow),
            [BY_sizes] = ALL(sizes, sizes),
            [BY_squares] = ALL(squares, squares),
            [BY_powers] = ALL(powers, powers)},
    .real = {[BY_sum] = ALL(sum_real, sum),
             [BY_largest] = ALL(largest_real, largest),
             [BY_squares] = ALL(squares_real, squares),
             [BY_powers] = ALL(powers_real, powers)}};
