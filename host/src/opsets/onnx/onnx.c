/* onnx.c - rows of ONNX's ops that kernels run (defs/ops.def), of views and of control flow. */
#include "opsets/tables.h"

#define CONTROL(name, since, params, attrs, kind)                \
  {                                                              \
    NULL, name, since, "any", params, attrs, keel_shape_none, 0, \
        KEEL_OP_CONTROL, kind, NULL                              \
  }

static const keel_schema_row rows[] = {
#define UNARY_OP(op, since, types, kernels, attributes) \
  {                                                     \
      NULL,                                             \
      #op,                                              \
      since,                                            \
      #types,                                           \
      "X:T -> Y:T",                                     \
      attributes,                                       \
      keel_shape_same,                                  \
      0,                                                \
      0,                                                \
      KEEL_BY_KERNEL,                                   \
      NULL},
#define BINARY_OP(op, since, types, attributes) \
  {NULL,                                        \
   #op,                                         \
   since,                                       \
   #types,                                      \
   "A:T B:T -> C:T",                            \
   attributes,                                  \
   keel_shape_broadcast,                        \
   0,                                           \
   0,                                           \
   KEEL_BY_KERNEL,                              \
   NULL},
#define COMPARE_OP(op, since, types) \
  {NULL,                             \
   #op,                              \
   since,                            \
   #types,                           \
   "A:T B:T -> C:bool",              \
   "",                               \
   keel_shape_broadcast,             \
   0,                                \
   0,                                \
   KEEL_BY_KERNEL,                   \
   NULL},
#define KEEL_UNARY_OP(op, types)
#define KEEL_BINARY_OP(op, types)
#include "defs/elementwise.def"
#define OP(op, since, types, params, attrs, shape, values)                 \
  {NULL,   #op, since,          #types, params, attrs, keel_shape_##shape, \
   values, 0,   KEEL_BY_KERNEL, NULL},
#define DYNAMIC_OP(op, since, types, params, attrs) \
  {NULL,                                            \
   #op,                                             \
   since,                                           \
   #types,                                          \
   params,                                          \
   attrs,                                           \
   keel_shape_dynamic,                              \
   0,                                               \
   KEEL_OP_DYNAMIC,                                 \
   KEEL_BY_KERNEL,                                  \
   NULL},
#define KEEL_OP(op, types, params, attrs, shape)
#define MS_OP(op, types, params, attrs, shape, values)
#include "defs/ops.def"

    /* the runtime's own: views of data, values that are not tensors, control */
    RUNTIME_AS(KEEL_IDENTITY, "Identity", 16, "input:any -> output:any", "",
               none, 0, keel_run_identity),
    RUNTIME_AS(KEEL_VIEW, "Reshape", 14, "data:T=plain shape:i64 -> reshaped:T",
               "allowzero:i=0", reshape, 2, keel_run_view),
    RUNTIME_AS(KEEL_VIEW, "Flatten", 13, "input:T=plain -> output:T",
               "axis:i=1", flatten, 0, keel_run_view),
    RUNTIME_AS(KEEL_VIEW, "Squeeze", 13, "data:T=plain axes:i64? -> squeezed:T",
               "", squeeze, 2, keel_run_view),
    RUNTIME_AS(KEEL_VIEW, "Unsqueeze", 13,
               "data:T=plain axes:i64 -> expanded:T", "", unsqueeze, 2,
               keel_run_view),
    RUNTIME_AS(KEEL_VIEW, "BitCast", 26, "input:any -> output:any", "to:i!",
               bit_cast, 0, keel_run_view),
    RUNTIME_AS(KEEL_FACT, "Shape", 15, "data:plain -> shape:i64",
               "end:i start:i=0", shape, 0, keel_run_shape),
    RUNTIME_AS(KEEL_FACT, "Size", 13, "data:plain -> size:i64", "", size, 0,
               keel_run_size),
    RUNTIME("Constant", 13, "-> output:any",
            "sparse_value:t value:t value_float:f value_floats:F value_int:i"
            " value_ints:I value_string:s value_strings:S",
            constant, 0, keel_run_constant),
    CONTROL("If", 16, "cond:bool captures:any% -> outputs:any%",
            "then_branch:g! else_branch:g!", KEEL_IF),
    CONTROL("Loop", 16, "M:any? cond:any? v_initial:any% -> outputs:any%",
            "body:g!", KEEL_LOOP),
    CONTROL("Scan", 16, "inputs:any% -> outputs:any%",
            "body:g! num_scan_inputs:i! scan_input_axes:I"
            " scan_input_directions:I scan_output_axes:I"
            " scan_output_directions:I",
            KEEL_SCAN),
    CONTROL("SequenceMap", 17, "inputs:any% -> outputs:any%", "body:g!",
            KEEL_SEQUENCE_MAP),
};

static const keel_op_body bodies[] = {
#define EXPANSION(op, body) {#op, body},
#include "defs/ops.def"
};

const keel_op_table keel_ops_onnx = {KEEL_TABLE_ROWS(rows),
                                     KEEL_TABLE_BODIES(bodies)};
