/* schema.h - the description of an op: parameters, types, attributes, shape function.
 *
 * Eager calls, the importer, the passes and the kernels' readers all use this
 * one description. */
#ifndef KEEL_SCHEMA_H
#define KEEL_SCHEMA_H

#include <kd/op.h>
#include <keel/op.h>

#include "values/tensor.h"

typedef struct keel_infer keel_infer;
typedef struct keel_host_call keel_host_call;
typedef struct keel_schema keel_schema;
struct keel_emit;
struct keel_flops_of;
struct keel_gradient;
struct keel_node;
struct keel_parts;
struct keel_strides;
struct keel_work;

/* An input or output. */
typedef struct keel_param {
  const char *name;
  uint64_t types;  /* KD_TYPES allowed; 0: not a tensor, or anything */
  int8_t variable; /* arguments of one variable have one type; -1: none */
  bool optional;
  bool variadic; /* the last one, any number of times */
  bool mixed;    /* variadic, each of its own type */
} keel_param;

/* An attribute the op may have. */
typedef struct keel_attr_rule {
  const char *name;
  uint32_t kind; /* KD_ATTR_* */
  bool required, has_default;
  int64_t i;
  float f;
  const char *s;
  /* the possible strings, with | between; with has_default, the first is the default. NULL: any */
  const char *choices;
} keel_attr_rule;

/* Equal inputs give different outputs: never folded or merged. */
#define KEEL_OP_RANDOM 0x1u
/* Output shapes depend on data: known only after the run. */
#define KEEL_OP_DYNAMIC 0x2u
/* Nested functions in attributes. */
#define KEEL_OP_CONTROL 0x4u
/* Its output is a new resource: never folded or merged. */
#define KEEL_OP_MAKES 0x8u
/* It reads or changes the resource that is its first input: it keeps its order among ops on that
 * resource (but see KEEL_OP_ALONE), and is never folded or merged; a writer is never pruned. */
#define KEEL_OP_READS  0x10u
#define KEEL_OP_WRITES 0x20u
/* An exchange: its output may be pending when its call returns, as it depends on other runs. */
#define KEEL_OP_MEETS 0x40u
#define KEEL_OP_STATE (KEEL_OP_MAKES | KEEL_OP_READS | KEEL_OP_WRITES)

/* Traits: bits of keel_op_rule.traits. */
/* Arguments of any plain type may be strings, too. */
#define KEEL_OP_STRINGS 0x1u
/* Its output has the elements of its input, perhaps in another order or of another type. */
#define KEEL_OP_MOVES 0x2u
/* The same, in the order of "perm". */
#define KEEL_OP_PERMUTES 0x4u
/* It cuts its input along "axis" into its outputs, or joins its inputs into one. */
#define KEEL_OP_CUTS  0x8u
#define KEEL_OP_JOINS 0x10u
/* Its output is made of its input's elements, and may have more of them. */
#define KEEL_OP_RESIZES 0x20u
/* It accepts any layout, and gains nothing by one of a device's own. */
#define KEEL_OP_HANDS_ON 0x40u
/* It reads no more of its first input than it writes. */
#define KEEL_OP_PICKS 0x80u
/* It is random if input 2 (training_mode) is present and not a constant false, and input 1
 * (ratio) is not a constant 0; see keel_node_is_random. */
#define KEEL_OP_DROPS 0x100u
/* Of an op with KEEL_OP_READS: it reads a part of the resource that never changes (a member's
 * rank), and so keeps no order with exchanges. */
#define KEEL_OP_ALONE 0x200u
/* Without its last, optional input the output's rank depends on the sizes of the first. */
#define KEEL_OP_RANKS 0x400u

/* How an op is run. */
typedef enum keel_op_kind {
  KEEL_BY_KERNEL, /* a device's kernel */
  KEEL_BY_HOST,   /* the runtime itself, as all that follow */
  KEEL_IDENTITY,
  KEEL_VIEW, /* the same data with another shape */
  KEEL_PART, /* some of the elements, in place */
  KEEL_COPY, /* to another memory */
  KEEL_FACT, /* of an input's type; its data is not read */
  /* control flow: runs of nested functions (run/control.c) */
  KEEL_IF,
  KEEL_LOOP,
  KEEL_SCAN,
  KEEL_SEQUENCE_MAP,
  KEEL_CALL, /* once */
} keel_op_kind;

/* The plugin that defines an op; the registry's tables do not have it. See vendor.h. */
typedef struct keel_plugin_op {
  const char *plugin; /* its name */
  const kd_host *host;
  kd_status (*infer)(const kd_op_call *call); /* NULL: shapes of input 0 */
} keel_plugin_op;

struct keel_schema {
  const char *domain, *name;
  uint32_t since; /* opset version of these semantics */
  uint32_t flags;
  const keel_param *inputs, *outputs;
  uint32_t input_count, output_count; /* declared; variadic counts once */
  uint32_t least_inputs;
  const keel_attr_rule *attrs;
  uint32_t attr_count;
  uint32_t value_inputs; /* bit i: the shape function reads input i's value */
  /* NULL: an output has the input's type, or that of a nested function, or none. */
  keel_status (*infer)(keel_infer *infer);
  keel_op_kind kind;
  /* The runtime's function; NULL: a kernel runs the op, or it is control flow. */
  keel_status (*host)(keel_host_call *call);
  keel_plugin_op
      plugin_op; /* plugin NULL: the op is of the registry's tables */
  /* of the op's rules (registry.h), each NULL where there is none */
  void (*expand)(struct keel_emit *all);
  const char *body;
  void (*gradient)(struct keel_gradient *g);
  const char *slopes;
  uint64_t (*steps)(const struct keel_work *work);
  double (*flops)(const struct keel_flops_of *of);
  bool (*view)(const struct keel_parts *all, const struct keel_node *node,
               uint32_t index, struct keel_strides *out);
  uint32_t traits; /* KEEL_OP_STRINGS ... KEEL_OP_ALONE */
};

/* Whether the runtime itself runs the op, not a device. */
static inline bool keel_schema_hosted(const keel_schema *schema) {
  return schema->kind != KEEL_BY_KERNEL;
}

/* Whether an argument may be of a type. The type sets of rows do not contain strings, as plugins
 * use the sets, too: KEEL_OP_STRINGS allows strings. */
bool keel_schema_takes(const keel_schema *schema, const keel_param *param,
                       kd_dtype dtype);

/* Whether an input is a resource, which has no type. */
static inline bool keel_schema_takes_resource(const keel_schema *schema,
                                              uint32_t input) {
  return !input && (schema->flags & (KEEL_OP_READS | KEEL_OP_WRITES));
}

/* The type of a set with one type; KD_NONE for any other set. */
static inline kd_dtype keel_types_only(uint64_t types) {
  return types && !(types & (types - 1)) ? (kd_dtype)__builtin_ctzll(types)
                                         : KD_NONE;
}

/* Prepares the registry, once in the process. */
keel_status keel_schema_ready(void);

/* A schema by name, or NULL. domain "" is "ai.onnx". */
const keel_schema *keel_schema_find(const char *domain, const char *name);
/* The same by "DOMAIN::NAME", or ONNX's NAME. */
const keel_schema *keel_schema_named(const char *name);

/* The first of a kind that one op has, such as KEEL_COPY. */
const keel_schema *keel_schema_of_kind(keel_op_kind kind);

/* Whether Keel has the type: numbers, bools, complex numbers, strings and ONNX's small types; not
 * KD_NONE, and not a vendor's type or a later one. */
bool keel_dtype_exists(kd_dtype dtype);

/* All schemas, in the tables' order; NULL past the last. */
const keel_schema *keel_schema_at(uint32_t index);
uint32_t keel_schema_count(void);

/* The parameter that argument `index` belongs to, or NULL past the last. */
const keel_param *keel_schema_input(const keel_schema *schema, uint32_t index);
const keel_param *keel_schema_output(const keel_schema *schema, uint32_t index);

/* A row of a table, as it is written; host/src/defs/ops.def has the syntax. */
typedef struct keel_schema_row {
  const char *domain, *name; /* domain NULL: "ai.onnx" */
  uint32_t since;
  const char *types, *params, *attrs;
  keel_status (*infer)(keel_infer *infer);
  uint32_t value_inputs, flags;
  keel_op_kind kind;
  keel_status (*host)(keel_host_call *call);
} keel_schema_row;

#endif /* KEEL_SCHEMA_H */
