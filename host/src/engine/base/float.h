/* float.h - numbers of f32, f64, f16 and bf16, from and to double. */
#ifndef KEEL_FLOAT_H
#define KEEL_FLOAT_H

#include "base/base.h"

/* Encodes a number as an element of a float type, rounded once, ties to even; false if the
 * type is not one of these. */
bool keel_float_encode(kd_dtype dtype, double number, void *out_element);

/* Decodes an element exactly; false as above. */
bool keel_float_decode(kd_dtype dtype, const void *element, double *out_number,
                       uint64_t *out_bits);

#endif /* KEEL_FLOAT_H */
