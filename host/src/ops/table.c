/* table.c - rows of the ops that kernels run (device_api/onnx), of views, of control flow, and of
 * what plans add. */
#include "ops/tables.h"

#define CONTROL(name, since, params, attrs, kind)                \
  {                                                              \
    NULL, name, since, "any", params, attrs, keel_shape_none, 0, \
        KEEL_OP_CONTROL, kind, NULL                              \
  }
#define KEEL(name, params, attrs, shape)                             \
  {                                                                  \
    "keel", name, 1, "any", params, attrs, keel_shape_##shape, 0, 0, \
        KEEL_BY_KERNEL, NULL                                         \
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
#define KEEL_UNARY_OP(op, types)                              \
  {"keel",          #op, 1, #types,         "X:T -> Y:T", "", \
   keel_shape_same, 0,   0, KEEL_BY_KERNEL, NULL},
#define KEEL_BINARY_OP(op, types) \
  {"keel",                        \
   #op,                           \
   1,                             \
   #types,                        \
   "A:T B:T -> C:T",              \
   "",                            \
   keel_shape_broadcast,          \
   0,                             \
   0,                             \
   KEEL_BY_KERNEL,                \
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
#include "onnx/elementwise.def"
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
#define KEEL_OP(op, types, params, attrs, shape)                            \
  {"keel",         #op, 1, #types, params, attrs, keel_shape_##shape, 0, 0, \
   KEEL_BY_KERNEL, NULL},
#define MS_OP(op, types, params, attrs, shape, values)           \
  {"com.microsoft",    #op,    1, #types,         params, attrs, \
   keel_shape_##shape, values, 0, KEEL_BY_KERNEL, NULL},
#include "onnx/ops.def"
    /* the runtime's own: views of data, values that are no tensors, control */
    RUNTIME_AS(KEEL_IDENTITY, "Identity", 16, "input:any -> output:any", "",
               none, 0, identity),
    RUNTIME_AS(KEEL_VIEW, "Reshape", 14, "data:T=plain shape:i64 -> reshaped:T",
               "allowzero:i=0", reshape, 2, view),
    RUNTIME_AS(KEEL_VIEW, "Flatten", 13, "input:T=plain -> output:T",
               "axis:i=1", flatten, 0, view),
    RUNTIME_AS(KEEL_VIEW, "Squeeze", 13, "data:T=plain axes:i64? -> squeezed:T",
               "", squeeze, 2, view),
    RUNTIME_AS(KEEL_VIEW, "Unsqueeze", 13,
               "data:T=plain axes:i64 -> expanded:T", "", unsqueeze, 2, view),
    RUNTIME_AS(KEEL_VIEW, "BitCast", 26, "input:any -> output:any", "to:i!",
               bit_cast, 0, view),
    RUNTIME_AS(KEEL_FACT, "Shape", 15, "data:plain -> shape:i64",
               "end:i start:i=0", shape, 0, shape),
    RUNTIME_AS(KEEL_FACT, "Size", 13, "data:plain -> size:i64", "", size, 0,
               size),
    RUNTIME("Constant", 13, "-> output:any",
            "sparse_value:t value:t value_float:f value_floats:F value_int:i"
            " value_ints:I value_string:s value_strings:S",
            constant, 0, constant),
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
    /* keel's own */
    {"keel", "Copy", 1, "any", "X:any -> Y:any", "host:i=0", keel_shape_none, 0,
     0, KEEL_COPY, keel_run_copy},
    /* StableHLO's bitcast_convert: as BitCast, and between elements of different sizes with a
     * last dimension for the parts of the larger one */
    {"keel", "Bitcast", 1, "any", "X:any -> Y:any", "to:i!", keel_shape_bitcast,
     0, 0, KEEL_VIEW, keel_run_view},
    /* what a device records, of a function with nodes elsewhere (passes/outline.c) */
    {"keel", "Call", 1, "any", "inputs:any% -> outputs:any%", "body:g!",
     keel_shape_none, 0, KEEL_OP_CONTROL, KEEL_CALL, NULL},
    /* elements of X where they lie; plans make it (passes/parts.c) */
    {"keel", "Part", 1, "any", "X:any -> Y:any", "offset:i=0 strides:I",
     keel_shape_none, 0, 0, KEEL_PART, keel_run_part},
    /* along which a shape is broadcast to another, in which it fits: for gradients */
    {"keel", "BroadcastAxes", 1, "i64", "wide:T narrow:T -> axes:T", "",
     keel_shape_by_content, 0, 0, KEEL_BY_HOST, keel_run_broadcast_axes},
    KEEL("Reorder", "X:T -> Y:T", "", same),
    /* what a device compiled as a whole; plans make it (passes/regions.c) */
    KEEL("Region", "inputs:any% -> outputs:any%", "ops:S", region),
};

static const keel_op_body bodies[] = {
#define EXPANSION(op, body) {#op, body},
#include "onnx/ops.def"
};

/* they move elements, or compare them for equality */
static const keel_op_rule rules[] = {
    {"keel::Find", .strings = true},     {"Cast", .strings = true},
    {"CastLike", .strings = true},       {"Compress", .strings = true},
    {"Concat", .strings = true},         {"DepthToSpace", .strings = true},
    {"Equal", .strings = true},          {"Expand", .strings = true},
    {"Flatten", .strings = true},        {"Gather", .strings = true},
    {"GatherElements", .strings = true}, {"GatherND", .strings = true},
    {"OneHot", .strings = true},         {"Pad", .strings = true},
    {"Reshape", .strings = true},        {"ReverseSequence", .strings = true},
    {"ScatterND", .strings = true},      {"Shape", .strings = true},
    {"Size", .strings = true},           {"Slice", .strings = true},
    {"SpaceToDepth", .strings = true},   {"Split", .strings = true},
    {"Squeeze", .strings = true},        {"Tile", .strings = true},
    {"Transpose", .strings = true},      {"Unique", .strings = true},
    {"Unsqueeze", .strings = true},      {"Where", .strings = true},
};

const keel_op_table keel_ops_table = {
    KEEL_TABLE_ROWS(rows), KEEL_TABLE_RULES(rules), KEEL_TABLE_BODIES(bodies)};
