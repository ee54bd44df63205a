/* emit.h - writes nodes into a function: in place of a node, next to one, or before one.
 *
 * Values are added one after the other. After the first failure nothing is added, and values are
 * KEEL_ABSENT: the caller looks at `status` once, at the end. */
#ifndef KEEL_EMIT_H
#define KEEL_EMIT_H

#include "program/function.h"

typedef struct keel_emit {
  keel_function *function;
  /* the node that new ones stand for: they have its name and its place. A copy, as the function's
   * nodes may move */
  keel_node node;
  keel_status status;
} keel_emit;

/* A writer of nodes that stand for `node`, which may be the function's. */
static inline keel_emit keel_emit_for(keel_function *function,
                                      const keel_node *node) {
  return (keel_emit){.function = function, .node = *node};
}

/* An input of the op, or KEEL_ABSENT; its type, where dimensions may be open (-1), or NULL where
 * nothing is known of it. */
uint32_t keel_emit_in(const keel_emit *e, uint32_t index);
const keel_type *keel_emit_type(const keel_emit *e, uint32_t index);

/* Whether the op's output has a reader. */
bool keel_emit_wants(const keel_emit *e, uint32_t index);

/* An op with one output: "DOMAIN::NAME", or ONNX's NAME. Absent inputs at the end are left out. */
uint32_t keel_emit_op(keel_emit *e, const char *op, const keel_attr *attrs,
                      uint32_t attr_count, const uint32_t *inputs,
                      uint32_t input_count);

/* An op with any number of outputs. outputs: values that the node makes; KEEL_ABSENT: a new value,
 * written there. New ones stay KEEL_ABSENT after a failure. */
void keel_emit_node(keel_emit *e, const char *op, const keel_attr *attrs,
                    uint32_t attr_count, const uint32_t *inputs,
                    uint32_t input_count, uint32_t *outputs,
                    uint32_t output_count);

/* The node's op once more, with its attributes. outputs: those that are not KEEL_ABSENT get new
 * values; all are KEEL_ABSENT after a failure. */
void keel_emit_again(keel_emit *e, keel_opdef *op, const uint32_t *inputs,
                     uint32_t input_count, uint32_t *outputs,
                     uint32_t output_count);

/* An op of ONNX without attributes, of one input and of two. */
uint32_t keel_emit_unary(keel_emit *e, const char *op, uint32_t a);
uint32_t keel_emit_binary(keel_emit *e, const char *op, uint32_t a, uint32_t b);

/* A constant list of integers, and such a list of one. */
uint32_t keel_emit_ints(keel_emit *e, const int64_t *list, int64_t count);
uint32_t keel_emit_int(keel_emit *e, int64_t number);

/* An attribute's integers, `count` of them; not there: all `otherwise`. False where it has
 * another number of them. */
bool keel_emit_list(const keel_emit *e, const char *name, int64_t count,
                    int64_t otherwise, int64_t *out);

/* A constant. */
uint32_t keel_emit_constant(keel_emit *e, kd_dtype dtype, uint32_t rank,
                            const int64_t *dims, const void *data);

/* The same of strings, a list of them. */
uint32_t keel_emit_strings(keel_emit *e, const char *const *strings,
                           int64_t count);

/* Fails with the op's name and the text, if nothing has failed before. */
void keel_emit_fail(keel_emit *e, keel_status status, const char *format, ...)
    KD_PRINTF(3, 4);

#endif /* KEEL_EMIT_H */
