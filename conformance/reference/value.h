/* value.h - tensors of the reference: one long double an element.
 *
 * A long double holds every int64 and uint64 and 11 bits more than a double
 * (x86-64; on arm64 it is binary128), so that one representation serves every
 * element type, and rounding to the type is the last step of any op. */
#ifndef KC_VALUE_H
#define KC_VALUE_H

#include <kd/kd.h>
#include <stdbool.h>

typedef long double real;

typedef struct value {
  kd_dtype dtype;
  uint32_t rank;
  int64_t dims[KD_MAX_RANK];
  int64_t count;
  real *x;
  /* Of results: how far a correct implementation may be off. ulps is in units
   * of the last place of the type; slack, where not NULL, is by element and in
   * unit roundoffs of the type that sums are kept in, or in steps of an integer
   * type, infinite where the result is not defined; step is absolute. All
   * zero: exact. */
  real ulps;
  real *slack;
  real step;
} value;

/* Makes one of zeros, or NULL where memory runs out. */
value *value_make(kd_dtype dtype, uint32_t rank, const int64_t *dims);
value *value_copy(const value *from);
void value_free(value *value);
/* Gives it room for slack, zero at first. */
real *value_slack(value *value);

/* Bytes of an element, and of all. */
uint64_t value_size(const value *value);

/* Between elements in memory and reals. Stores round to nearest, ties to even;
 * integers wrap. c64 and c128 are taken as patterns of bits. */
real dtype_load(const void *data, kd_dtype dtype, int64_t index);
void dtype_store(void *data, kd_dtype dtype, int64_t index, real x);
void value_load(value *value, const void *data);
void value_store(const value *value, void *data);
/* The nearest value of a type: what a store and a load make of it. */
real dtype_round(real x, kd_dtype dtype);

/* Facts of element types. */
bool dtype_is_float(kd_dtype dtype);
bool dtype_is_signed(kd_dtype dtype);
bool dtype_is_int(kd_dtype dtype); /* bool is none */
real dtype_max(kd_dtype dtype);
real dtype_min(kd_dtype dtype);   /* of ints; floats: -max */
real dtype_least(kd_dtype dtype); /* smallest normal of floats */
real dtype_unit(kd_dtype dtype);  /* unit roundoff of floats, else 0 */

/* Distance of neighbours of the type at |r|; the smaller one at a power of two,
 * and never less than at the smallest normal. */
real dtype_ulp(real r, kd_dtype dtype);

/* Row-major strides of a shape, and the index that a broadcast operand has. */
void row_strides(uint32_t rank, const int64_t *dims, int64_t *out_strides);
int64_t broadcast_index(const value *from, const value *to, int64_t index);

/* What of a declared class an element may be off beyond the strict one. */
typedef struct numerics {
  real unit;          /* roundoff of sums */
  real input_unit;    /* inputs are rounded to it first (tf32), else 0 */
  real factor;        /* of slack and ulps: 1 strict */
  bool flushed;       /* subnormals may count as zero */
  const value *other; /* what flushed inputs give, or NULL */
} numerics;

/* Whether element `index` of `want` may be `got`; out_error: in ulps. */
bool value_near(const value *want, int64_t index, real got, kd_dtype dtype,
                const numerics *within, real *out_error);

#endif /* KC_VALUE_H */
