/* mutate.h - ONNX models changed as graphs, not as bytes. */
#ifndef KEEL_FUZZ_MUTATE_H
#define KEEL_FUZZ_MUTATE_H

#include <stddef.h>

#include "ops/schema.h"
#include "random.h"

/* Changes of attributes, and more outputs, only: the graph and its inputs stay what they
 * are. */
#define FUZZ_ATTRIBUTES 0x1u

/* A model with one to four changes: dimensions, attributes, types, edges, absent inputs,
 * names, sizes of initializers, opsets, functions, nesting. The caller frees it; NULL: the
 * seed is no model. */
uint8_t *fuzz_mutate(fuzz_random *random, const uint8_t *bytes, size_t size,
                     unsigned flags, size_t *out_size);

/* A model of one node of the op, its inputs and required attributes as its schema says;
 * integer inputs are scalars or lists of one, by their rank. The caller frees it; NULL: it
 * needs a graph or a tensor as an attribute. */
uint8_t *fuzz_invent(const keel_schema *schema, uint32_t rank_of_integers,
                     size_t *out_size);

#endif /* KEEL_FUZZ_MUTATE_H */
