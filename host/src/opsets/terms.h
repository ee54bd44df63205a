/* terms.h - frequent terms of ONNX's ops, for functions that write nodes with keel_emit. */
#ifndef KEEL_TERMS_H
#define KEEL_TERMS_H

#include "program/emit.h"

/* The element type that a value will have, if it is known without the value's shape; or KD_NONE. */
kd_dtype keel_emit_dtype(const keel_emit *e, uint32_t value);
uint32_t keel_emit_cast(keel_emit *e, uint32_t value, kd_dtype dtype);

/* A constant of the element type that `like` has; a scalar. */
uint32_t keel_emit_number(keel_emit *e, double number, uint32_t like);

/* Often needed: dimensions [begin, end) of a value as a list (end INT64_MAX: all that follow),
 * lists put together, Where, Transpose, Slice of one axis. */
uint32_t keel_emit_dims(keel_emit *e, uint32_t value, int64_t begin,
                        int64_t end);
uint32_t keel_emit_concat(keel_emit *e, int64_t axis, const uint32_t *parts,
                          uint32_t count);
uint32_t keel_emit_where(keel_emit *e, uint32_t condition, uint32_t yes,
                         uint32_t no);
uint32_t keel_emit_reshape(keel_emit *e, uint32_t value, const int64_t *dims,
                           int64_t rank);
uint32_t keel_emit_transpose(keel_emit *e, uint32_t value, const int64_t *perm,
                             uint32_t rank);
uint32_t keel_emit_slice(keel_emit *e, uint32_t value, int64_t axis,
                         int64_t begin, int64_t end, int64_t step);

/* Element `index` of a value's first axis, with these dimensions. A constant's is its memory, not a
 * copy of that, where kernels can read it there. */
uint32_t keel_emit_part(keel_emit *e, uint32_t value, int64_t index,
                        uint32_t rank, const int64_t *dims);

/* A list of i64 as it is, if all are in [least, most], lists of one. `input` names it, where a run
 * finds that one is not. */
uint32_t keel_emit_within(keel_emit *e, uint32_t list, uint32_t least,
                          uint32_t most, const char *input);

/* 0, 1, 2 ... of i64; count: a list of one. */
uint32_t keel_emit_range(keel_emit *e, uint32_t count);

/* Numbers of 2, 4 or 8 bits, the first in the lowest of a byte, as bytes in one more dimension. */
uint32_t keel_emit_unpacked(keel_emit *e, uint32_t bytes, int64_t bits);

/* Makes a value the op's output `index`. */
void keel_emit_give(keel_emit *e, uint32_t index, uint32_t value);

#endif /* KEEL_TERMS_H */
