/* ops.h - facts of ops.def as constants, for the tables of plugins: ONNX_TYPES_Softmax, the
 * types of Softmax's first input, and ONNX_VALUES_Slice, the inputs whose values Slice's shape
 * depends on, so that they are read on the host. */
#ifndef ONNX_OPS_H
#define ONNX_OPS_H

#include <kd/help.h>

/* The sets of sets.def: ONNX_SET_float ... A type above 30 would not fit. */
enum {
#define TYPE_SET(word, types) ONNX_SET_##word = (int)(types),
#include "defs/sets.def"
};

enum {
#define OP(op, since, types, parameters, attributes, shape, values) \
  ONNX_TYPES_##op = ONNX_SET_##types, ONNX_VALUES_##op = values,
#define FUNCTION(op, since, types, parameters, attributes, shape, values)
#include "defs/ops.def"
};

#endif /* ONNX_OPS_H */
