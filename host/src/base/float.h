/* float.h - numbers of f32, f64, f16 and bf16, from and to double. */
#ifndef KEEL_FLOAT_H
#define KEEL_FLOAT_H

#include "base/base.h"

/* A number as an element of a float type, rounded once, ties to even; false: it is none
 * of these types. */
bool keel_float_encode(kd_dtype dtype, double number, void *out_element);

/* The number that an element is, exactly, and its bits; false as above. */
bool keel_float_decode(kd_dtype dtype, const void *element, double *out_number,
                       uint64_t *out_bits);

#endif /* KEEL_FLOAT_H */
