/* gradient.h - derivatives of ops, for Gradient (ai.onnx.preview.training-1).
 *
 * From y back to its inputs, each op's rule turns the gradients of its outputs into those of its
 * inputs (reverse mode). A rule is called for one node, and reads and gives by the node's places:
 *
 *     in, out    values as they are where the gradient is taken
 *     got        the gradient of an output; KEEL_ABSENT where y does not depend on it
 *     wants      whether the gradient of an input is asked for
 *     give       adds to it; of its element type, and with give_wide broadcast as the op does
 *
 * As in expansions, nothing is added after the first failure. */
#ifndef KEEL_GRADIENT_H
#define KEEL_GRADIENT_H

#include "opsets/terms.h"
#include "opsets/text.h"
#include "passes/passes.h"

typedef struct keel_gradient {
  keel_emit *all;
  keel_node node;   /* whose rule is called: a copy */
  uint32_t *at;     /* by value: where the gradient is taken */
  uint32_t *sums;   /* by value: its gradient so far, or KEEL_ABSENT */
  uint8_t *depends; /* by value: whether it depends on an x, and y on it */
  uint32_t count;   /* of values that these know */
} keel_gradient;

uint32_t keel_gradient_in(const keel_gradient *g, uint32_t index);
uint32_t keel_gradient_out(const keel_gradient *g, uint32_t index);
uint32_t keel_gradient_got(const keel_gradient *g, uint32_t index);
bool keel_gradient_wants(const keel_gradient *g, uint32_t index);
void keel_gradient_give(keel_gradient *g, uint32_t index, uint32_t value);
void keel_gradient_give_wide(keel_gradient *g, uint32_t index, uint32_t value);

/* The type of a value; NULL: absent, or not known. */
const keel_type *keel_gradient_type(const keel_gradient *g, uint32_t value);

/* For ops that read elements of input 0 by places of their own: adds the gradient of each element of
 * the output to that of the element that it is. */
void keel_gradient_by_places(keel_gradient *g);

/* Writes a text (opsets/text.h), whose targets are inputs: they are given. */
uint32_t keel_gradient_text(keel_gradient *g, const char *text, ...);

/* Fails with the op's name, the node's and the text. */
void keel_gradient_refuse(keel_gradient *g, const char *why);

/* `value` summed over what was broadcast, so that it has the shape of `like`. */
uint32_t keel_gradient_narrow(keel_gradient *g, uint32_t value, uint32_t like);

/* The dimensions of a value as a list; 0, of its element type; it in another's shape. */
uint32_t keel_gradient_shape(keel_gradient *g, uint32_t value);
uint32_t keel_gradient_zero(keel_gradient *g, uint32_t like);
uint32_t keel_gradient_shaped_like(keel_gradient *g, uint32_t value,
                                   uint32_t like);
uint32_t keel_gradient_wide(keel_gradient *g, uint32_t value, uint32_t shape);

#endif /* KEEL_GRADIENT_H */
