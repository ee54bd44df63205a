/* split.h - splits programs, from inside: what is known of a value, and how rules use it.
 *
 * A function is rewritten where it stands: values keep their numbers, and come to mean what one
 * rank has of them. A rule looks at one node, takes inputs in the form that it wants, and says
 * which form its outputs have. */
#ifndef KEEL_INSIDE_SPLIT_H
#define KEEL_INSIDE_SPLIT_H

#include <keel/split.h>

#include "program/function.h"

/* What a rank has of a value. */
typedef enum keel_share {
  KEEL_SHARE_WHOLE,
  KEEL_SHARE_PART, /* its part along an axis, of as many equal ones as there are ranks */
  KEEL_SHARE_SUM, /* a summand: the value is the sum of all ranks' */
} keel_share;

typedef struct keel_shared {
  keel_share share;
  uint32_t axis;
  const keel_type *type;    /* of the whole; NULL: not known, or open */
  uint32_t whole;           /* a value that is it as a whole, or KEEL_ABSENT */
  uint32_t part, part_axis; /* the same of a part */
} keel_shared;

typedef struct keel_splitter {
  keel_function *function;
  const keel_split_params *params;
  keel_split_facts facts;
  keel_shared *values; /* by value, those that were there */
  uint32_t count;
  uint32_t member; /* the handle, or KEEL_ABSENT until an exchange needs it */
  uint32_t index;  /* of the node at hand */
  keel_node node;  /* as it was; the function's nodes may move */
} keel_splitter;

/* A rule: *out_done false: it does not know the form, and has changed nothing. */
typedef keel_status (*keel_split_rule)(keel_splitter *s, bool *out_done);

/* The rule of an op, or NULL. */
keel_split_rule keel_split_rule_of(const keel_node *node);
keel_status keel_split_product(keel_splitter *s, bool *out_done);
keel_status keel_split_gemm(keel_splitter *s, bool *out_done);
keel_status keel_split_conv(keel_splitter *s, bool *out_done);
keel_status keel_split_reshape(keel_splitter *s, bool *out_done);
keel_status keel_split_transpose(keel_splitter *s, bool *out_done);
keel_status keel_split_squeeze(keel_splitter *s, bool *out_done);

/* ---- what rules ask: of inputs and outputs of the node, by their place -------------------- */

/* Of the whole; NULL: not known, or absent. */
const keel_type *keel_split_type(const keel_splitter *s, uint32_t input);
const keel_type *keel_split_out_type(const keel_splitter *s, uint32_t output);
const keel_tensor *keel_split_constant(const keel_splitter *s, uint32_t input);
/* Whether it is a constant, or made of one in few bits. */
bool keel_split_is_weight(const keel_splitter *s, uint32_t input);
/* Whether the rank has a part of it, along which axis. */
bool keel_split_is_part(const keel_splitter *s, uint32_t input,
                        uint32_t *out_axis);
bool keel_split_is_sum(const keel_splitter *s, uint32_t input);
bool keel_split_divides(const keel_splitter *s, int64_t dim);

/* ---- what rules do ------------------------------------------------------------------------ */

/* Makes an input of the node the whole value, or a part of it; an absent one stays so. */
keel_status keel_split_take_whole(keel_splitter *s, uint32_t input);
keel_status keel_split_take_part(keel_splitter *s, uint32_t input,
                                 uint32_t axis);
/* A constant that is added once, by rank 0: zeros for the others. */
keel_status keel_split_take_once(keel_splitter *s, uint32_t input);
/* Another value. */
void keel_split_take(keel_splitter *s, uint32_t input, uint32_t value);
keel_status keel_split_give(keel_splitter *s, uint32_t output, keel_share share,
                            uint32_t axis);
/* The node's op with another value of an integer attribute. */
keel_status keel_split_set_int(keel_splitter *s, const char *name,
                               int64_t value);
/* A constant list of integers. */
keel_status keel_split_ints(keel_splitter *s, const int64_t *list,
                            int64_t count, uint32_t *out_value);

#endif /* KEEL_INSIDE_SPLIT_H */
