/* split.h - splits programs, from inside: a value's sharding, and its use by rules.
 *
 * A function is rewritten in place: values keep their numbers, and become one rank's shards. A rule
 * looks at one node, takes inputs in the form that it needs, and sets the form of its outputs. */
#ifndef KEEL_INSIDE_SPLIT_H
#define KEEL_INSIDE_SPLIT_H

#include <keel/split.h>

#include "opsets/terms.h"

/* A rank's shard of a value. */
typedef enum keel_share {
  KEEL_SHARE_WHOLE,
  KEEL_SHARE_PART, /* a shard along an axis, of as many equal ones as there are ranks */
  KEEL_SHARE_SUM, /* a summand: the value is the sum over all ranks */
} keel_share;

typedef struct keel_shared {
  keel_share share;
  uint32_t axis;
  const keel_type *type;    /* of the whole; NULL: not known, or open */
  uint32_t whole;           /* the same as a whole value, or KEEL_ABSENT */
  uint32_t part, part_axis; /* the same as a shard */
  uint32_t wanted; /* the axis of shards by annotations, or KEEL_ABSENT */
} keel_shared;

typedef struct keel_split_block {
  int64_t from[2], to[2];
} keel_split_block;

/* A value that is a block of weights; it is copied when the rank's shard of it is known. */
typedef struct keel_split_later {
  struct keel_split_later *next;
  uint32_t value;
  keel_tensor *whole;
  keel_split_block block;
} keel_split_later;

typedef struct keel_splitter {
  keel_function *function;
  const keel_split_params *params;
  const keel_configuration *annotations; /* to follow, or NULL */
  keel_split_facts facts;
  keel_shared *values; /* by value, for the values before the split */
  uint32_t count;
  uint32_t member; /* the handle, or KEEL_ABSENT until an exchange needs it */
  uint32_t index;  /* of the node at hand */
  keel_node node;  /* as it was; the function's nodes may move */
  keel_node *were; /* by node: as they were, to compute nodes again */
  uint32_t were_count;
  keel_split_later *later;
  bool apart; /* exchanges are not allowed: outputs stay shards */
  bool
      shards_alone; /* of inputs: a node that needs all of one is an exchange */
  bool meets;       /* an exchange would be needed */
} keel_splitter;

/* A rule: *out_done false: it does not know the form, and has changed nothing. */
typedef keel_status (*keel_split_rule)(keel_splitter *s, bool *out_done);

/* The rule of an op, or NULL. */
keel_split_rule keel_split_rule_of(const keel_node *node);
keel_status keel_split_product(keel_splitter *s, bool *out_done);
keel_status keel_split_gemm(keel_splitter *s, bool *out_done);
keel_status keel_split_conv(keel_splitter *s, bool *out_done);
/* A product of two activations, along a dimension of the batch that both have. */
keel_status keel_split_of_batch(keel_splitter *s, uint32_t second,
                                bool *out_done);
/* Whether weights are sharded by rows, their axis `row`: if the other operand is sharded along
 * them, or by annotations. */
bool keel_split_takes_rows(const keel_splitter *s, bool split, uint32_t weights,
                           uint32_t row);
/* Of integers: quantised.c. */
keel_status keel_split_matmul_integer(keel_splitter *s, bool *out_done);
keel_status keel_split_qlinear_matmul(keel_splitter *s, bool *out_done);
keel_status keel_split_matmul_to_float(keel_splitter *s, bool *out_done);
keel_status keel_split_dynamic_matmul(keel_splitter *s, bool *out_done);
keel_status keel_split_qgemm(keel_splitter *s, bool *out_done);
keel_status keel_split_conv_integer(keel_splitter *s, bool *out_done);
keel_status keel_split_qlinear_conv(keel_splitter *s, bool *out_done);
keel_status keel_split_dynamic_quantise(keel_splitter *s, bool *out_done);
/* Of language models: language.c. */
keel_status keel_split_skip_norm(keel_splitter *s, bool *out_done);
keel_status keel_split_grouped(keel_splitter *s, bool *out_done);
keel_status keel_split_multi_head(keel_splitter *s, bool *out_done);
keel_status keel_split_attention(keel_splitter *s, bool *out_done);
keel_status keel_split_few_bits(keel_splitter *s, bool *out_done);
keel_status keel_split_projected(keel_splitter *s, bool *out_done);
keel_status keel_split_quantised_projected(keel_splitter *s, bool *out_done);
keel_status keel_split_rotary(keel_splitter *s, bool *out_done);
keel_status keel_split_microsoft_rotary(keel_splitter *s, bool *out_done);
/* Along one axis or several, and not along others: along_axes.c. */
keel_status keel_split_topk(keel_splitter *s, bool *out_done);
keel_status keel_split_cumsum(keel_splitter *s, bool *out_done);
keel_status keel_split_arg(keel_splitter *s, bool *out_done);
keel_status keel_split_slice(keel_splitter *s, bool *out_done);
keel_status keel_split_pad(keel_splitter *s, bool *out_done);
keel_status keel_split_expand(keel_splitter *s, bool *out_done);
keel_status keel_split_batch_only(keel_splitter *s, bool *out_done);
keel_status keel_split_reshape(keel_splitter *s, bool *out_done);
keel_status keel_split_transpose(keel_splitter *s, bool *out_done);
keel_status keel_split_squeeze(keel_splitter *s, bool *out_done);

/* ---- queries of rules: inputs and outputs of the node, by their place --------------------- */

bool keel_split_has(const keel_splitter *s, uint32_t input);
/* Of the whole; NULL: not known, or absent. */
const keel_type *keel_split_type(const keel_splitter *s, uint32_t input);
const keel_type *keel_split_out_type(const keel_splitter *s, uint32_t output);
const keel_tensor *keel_split_constant(const keel_splitter *s, uint32_t input);
/* Whether it is a constant, or made of one in few bits. */
bool keel_split_is_weight(const keel_splitter *s, uint32_t input);
/* Whether the rank has a shard of it, and along which axis. */
bool keel_split_is_part(const keel_splitter *s, uint32_t input,
                        uint32_t *out_axis);
bool keel_split_is_sum(const keel_splitter *s, uint32_t input);
bool keel_split_divides(const keel_splitter *s, int64_t dim);
/* Whether weights are to be sharded along the axis: by `tensor`, any; by annotations, those that
 * these name. */
bool keel_split_wants(const keel_splitter *s, uint32_t input, uint32_t axis);
bool keel_split_by_annotations(const keel_splitter *s);

/* ---- actions of rules --------------------------------------------------------------------- */

/* Makes an input of the node the whole value, or a shard of it; an absent one stays absent. */
keel_status keel_split_take_whole(keel_splitter *s, uint32_t input);
keel_status keel_split_take_part(keel_splitter *s, uint32_t input,
                                 uint32_t axis);
/* A constant of so many pieces along an axis: a shard of each, concatenated. */
keel_status keel_split_take_part_of_each(keel_splitter *s, uint32_t input,
                                         uint32_t axis, uint32_t pieces);
/* A constant that is added once, by rank 0: zeros for the others. */
keel_status keel_split_take_once(keel_splitter *s, uint32_t input);
/* Another value. */
void keel_split_take(keel_splitter *s, uint32_t input, uint32_t value);
keel_status keel_split_give(keel_splitter *s, uint32_t output, keel_share share,
                            uint32_t axis);
/* The node's op with another value of an integer attribute. */
keel_status keel_split_set_int(keel_splitter *s, const char *name,
                               int64_t value);
/* A new node for the one at hand.
 *
 * out_value  KEEL_ABSENT, or the value that it makes */
keel_status keel_split_add(keel_splitter *s, const char *op,
                           const keel_attr *attrs, uint32_t attr_count,
                           const uint32_t *inputs, uint32_t input_count,
                           uint32_t *out_value);
/* The input that the program gets its group by, made where *member is KEEL_ABSENT. */
keel_status keel_split_member(keel_function *f, uint32_t *member);
/* A new exchange of all ranks. Fails if exchanges are not allowed. */
keel_status keel_split_exchange(keel_splitter *s, const char *op,
                                uint32_t value, uint32_t *out_value);
/* A constant; takes over the reference. */
keel_status keel_split_add_constant(keel_splitter *s, keel_tensor *tensor,
                                    uint32_t *out_value);
/* A constant list of integers. */
keel_status keel_split_ints(keel_splitter *s, const int64_t *list,
                            int64_t count, uint32_t *out_value);

/* ---- annotations: annotated.c -------------------------------------------------------------- */

/* The configuration for so many ranks. Returns KD_OK, KD_INVALID_ARGUMENT (none, or a wrong one;
 * the message has the error). *out is NULL before. */
keel_status keel_split_configuration(const keel_annotations *all, uint32_t size,
                                     const keel_configuration **out);

/* Whether it assigns each node to a stage of a pipe, and nothing else. */
bool keel_split_is_staged(const keel_annotations *all,
                          const keel_configuration *own);

/* Records which values are to be sharded; inputs of the function become shards. */
keel_status keel_split_seed(keel_splitter *s);
/* Into the facts, when all nodes have been visited. */
keel_status keel_split_count_followed(keel_splitter *s);

/* The function's former input becomes the rank's shard of it; the input has a new value. */
keel_status keel_split_slice_input(keel_splitter *s, uint32_t input,
                                   uint32_t axis);
/* Products that compute queries, keys and values at once become one for each: columns.c. */
keel_status keel_split_columns(keel_splitter *s);
/* ---- weights: weights.c ------------------------------------------------------------------- */

/* Elements [from, to) along both dimensions of a matrix, or of a list, which is one row. */
keel_status keel_split_copy_block(keel_tensor *whole,
                                  const keel_split_block *block,
                                  keel_tensor **out_tensor);
/* Whether a value is such a block, which has no data yet. */
bool keel_split_is_later(const keel_splitter *s, uint32_t value);
/* Copies it, if it is one, for an op that needs all of it. */
keel_status keel_split_copy_now(keel_splitter *s, uint32_t value);
/* Whether a value is such a block, or is made of a constant in few bits. */
bool keel_split_makes_weights(const keel_splitter *s, uint32_t value);
/* The rank's shard of either, or of a constant. *out_done false: it is none of these. */
keel_status keel_split_cut_weights(keel_splitter *s, uint32_t value,
                                   uint32_t axis, uint32_t *out_value,
                                   bool *out_done);

/* A shard needs a known shape, and elements that can be split and concatenated. */
bool keel_split_can_be_part(const keel_type *type);

/* ---- pipes ---------------------------------------------------------------------------------- */

/* A micro-batch's result for an output: a part of it along an axis, or all of it. */
typedef struct keel_split_piece {
  bool part;
  uint32_t axis;
} keel_split_piece;

/* A copy of the program's main function, with the sizes of params and all that is known of types. */
keel_status keel_split_copy(keel_program *to, const keel_program *from,
                            const keel_split_params *params);

/* Rewrites a function, whose types are known, for one micro-batch.
 *
 * params        of kind KEEL_SPLIT_DATA: which part of how many
 * shards_alone  no node sees more than its part of an input
 * out_pieces    one for each output
 * out_meets     it can't be: a node needs more than its part */
keel_status keel_split_batch(keel_function *function,
                             const keel_split_params *params, bool shards_alone,
                             keel_split_piece *out_pieces, bool *out_meets);

/* The batch of the function's inputs; -1: not known. */
int64_t keel_split_batch_of(const keel_function *function);

/* A node that depends on constants alone: each stage that needs it has it. */
#define KEEL_SPLIT_ANY_STAGE UINT32_MAX

/* Which stage each node is in, so that all take equal times.
 *
 * speeds      one for each stage, or NULL
 * out_stages  one for each node, or KEEL_SPLIT_ANY_STAGE; dead ones are in none
 * out_shares  of the time, one for each stage */
keel_status keel_split_stages(const keel_function *function, uint32_t size,
                              const keel_split_speed *speeds,
                              uint32_t *out_stages, double *out_shares);

/* The same by annotations, which are of values of the function. Returns KD_OK, KD_INVALID_ARGUMENT
 * (a node needs a value of a later stage). */
keel_status keel_split_given_stages(const keel_function *function,
                                    uint32_t size,
                                    const keel_split_speed *speeds,
                                    const keel_configuration *given,
                                    uint32_t *out_stages, double *out_shares);

/* KEEL_SPLIT_ANY_STAGE for nodes that depend on constants alone, and dead ones; 0 for others. */
keel_status keel_split_find_constants(const keel_function *function,
                                      uint32_t *out_stages);

/* A node's time, in nanoseconds. speed: NULL: of a usual processor */
double keel_split_time(const keel_function *function, const keel_node *node,
                       const keel_split_speed *speed);

/* Makes a rank's program of a draft, whose main function has its types; drafts of parts of the
 * batch go there too. given: its stages, or NULL */
keel_status keel_split_pipe(keel_program *to, keel_program *draft,
                            const keel_split_params *params,
                            const keel_configuration *given,
                            keel_split_facts *out_facts);

/* Drops constants without a reader; returns the bytes of the others. */
keel_status keel_split_drop_constants(keel_function *function,
                                      uint64_t *out_bytes);

#endif /* KEEL_INSIDE_SPLIT_H */
