/* node.h - an op with its attributes, and with the types of one use of it. */
#ifndef KEEL_NODE_H
#define KEEL_NODE_H

#include <kd/host.h>

#include "ops/schema.h"

struct keel_function;

/* An attribute's value. */
typedef struct keel_node_attr {
  keel_attr value; /* what it points to is in the op's arena; tensor retained */
  struct keel_function *graph; /* of kind KD_ATTR_GRAPH; the program's */
} keel_node_attr;

/* An op and its attributes: constant, counted. */
typedef struct keel_opdef {
  atomic_uint refs;
  keel_context *context;
  const keel_schema *schema;
  keel_arena arena;
  keel_node_attr *attrs; /* those given; the schema has the defaults */
  uint32_t attr_count;
  uint64_t hash;  /* of schema and attributes */
  bool shareable; /* kernels of it may serve other ops of equal attributes */
  _Atomic(void *) prepared; /* see keel_opdef_prepare */
  void (*_Atomic forget)(void *prepared);
} keel_opdef;

/* Creates an op; checks names, kinds and presence of attributes. `where` goes into error
 * messages.
 * graphs  one per attribute, or NULL */
keel_status keel_opdef_create(keel_context *context, const keel_schema *schema,
                              const keel_attr *attrs, uint32_t attr_count,
                              struct keel_function *const *graphs,
                              keel_opdef **out_op);
keel_opdef *keel_opdef_retain(keel_opdef *op);
void keel_opdef_release(keel_opdef *op);

/* Data that a runtime op makes of its attributes: the first call makes it, later calls only read
 * it, and it is freed with the op. Of one op there is one `make` and one `forget`. */
keel_status keel_opdef_prepare(const keel_opdef *op,
                               keel_status (*make)(const keel_opdef *op,
                                                   void **out_made),
                               void (*forget)(void *prepared),
                               const void **out_prepared);

/* Whether two have the same schema and attributes. */
bool keel_opdef_equal(const keel_opdef *a, const keel_opdef *b);

/* The same of two attributes' names and values, and a hash of both. Tensors, graphs and
 * lists of strings are equal to nothing. */
bool keel_attr_equal(const keel_attr *a, const keel_attr *b);
uint64_t keel_attr_hash(uint64_t hash, const keel_attr *attr);

/* Attributes, with the schema's default, then `fallback`. */
int64_t keel_attr_int(const keel_opdef *op, const char *name, int64_t fallback);
float keel_attr_float(const keel_opdef *op, const char *name, float fallback);
const char *keel_attr_string(const keel_opdef *op, const char *name,
                             const char *fallback);
int64_t keel_attr_ints(const keel_opdef *op, const char *name,
                       const int64_t **out_values);
const keel_node_attr *keel_attr_find(const keel_opdef *op, const char *name);
struct keel_function *keel_attr_graph(const keel_opdef *op, const char *name);

/* One use of an op, as plugins read it through kd_node_table. */
struct kd_node {
  const keel_opdef *op;
  const char *name; /* the model's, or "" */
  uint32_t input_count, output_count;
  const keel_type *const *inputs;  /* NULL: absent */
  const keel_type *const *outputs; /* NULL: absent, or known after the run */
  keel_tensor *const *constants;   /* host data or NULL each; NULL: none */
  struct kd_graph *const *graphs;  /* by attribute; NULL: none, or no graph */
  const uint32_t *layouts;         /* of inputs; NULL: rows */
  uint32_t output_layout;          /* of output 0 */
};

static inline uint32_t keel_node_layout(const struct kd_node *node,
                                        uint32_t input) {
  return node->layouts ? node->layouts[input] : KD_LAYOUT_ROW_MAJOR;
}

extern const kd_node_table keel_node_table;

/* A constant as plugins read it; borrowed, see keel_mapping_borrow. */
keel_status keel_constant_view(keel_tensor *constant, kd_tensor *out_tensor);

/* ---- shape functions ------------------------------------------------------ */

/* The arguments and results of a shape function. */
struct keel_infer {
  const keel_opdef *op;
  const char *where; /* the node's name, or "" */
  uint32_t input_count, output_count;
  const keel_type *const *in; /* NULL: absent */
  keel_tensor *const *values; /* ready, host data; NULL each where unknown */
  const keel_type **out;      /* NULL: absent, or known after the run */
  kd_dtype dtypes[4];         /* of outputs, from the schema's type rules */
  bool unknown; /* a value is missing: output types can't be inferred yet */
};

/* Infers the output types of an op: checks argument counts and types, then calls the shape
 * function. Input types must have no open dimensions. If a value that the shapes depend on
 * is missing, sets `unknown` instead of failing. */
keel_status keel_infer_types(keel_infer *infer);

/* The first of these checks, which needs no types: the number of arguments. */
keel_status keel_infer_counts(const keel_infer *infer);

/* Fails with "Op(X f32[2], ...): " and the text. */
keel_status keel_infer_fail(const keel_infer *infer, keel_status status,
                            const char *format, ...) KD_PRINTF(3, 4);

/* Sets an output's type; does nothing for an output that was not requested. */
keel_status keel_infer_out(keel_infer *infer, uint32_t index, uint32_t rank,
                           const int64_t *dims);

/* Reads an integer input of rank 0 or 1 into out_values (room for `room`). Returns the
 * count; -1 if it is not known (infer->unknown is set); -2 if it is invalid
 * (keel_infer_fail has been called). */
int64_t keel_infer_ints(keel_infer *infer, uint32_t index, int64_t *out_values,
                        uint32_t capacity);

/* Fails where one of the first `count` integers of an input is known now, and lies outside of
 * [least, most]. */
keel_status keel_infer_within(const keel_infer *infer, uint32_t index,
                              int64_t count, int64_t least, int64_t most);

static inline const keel_type *keel_infer_in(const keel_infer *infer,
                                             uint32_t index) {
  return index < infer->input_count ? infer->in[index] : NULL;
}

/* Normalises an axis in [-rank, rank) to [0, rank). */
keel_status keel_infer_axis(const keel_infer *infer, int64_t axis,
                            uint32_t rank, uint32_t *out_axis);

/* The same for one of a list of distinct axes; `seen` has a bit for each one so far, and is
 * initially 0. */
keel_status keel_infer_new_axis(const keel_infer *infer, int64_t axis,
                                uint32_t rank, uint32_t *seen,
                                uint32_t *out_axis);

/* Multiplies *size by `by`, which must be >= 0; fails if the result is too large. */
keel_status keel_infer_grow(const keel_infer *infer, int64_t *size, int64_t by);

#endif /* KEEL_NODE_H */
