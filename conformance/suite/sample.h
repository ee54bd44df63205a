/* sample.h - graphs to show a plugin's compiler, what each of their values is, and
 * the parts that the plugin claims. */
#ifndef KC_SAMPLE_H
#define KC_SAMPLE_H

#include "suite/graph.h"

/* A graph of which all is known. */
typedef struct kc_sample {
  struct kd_graph graph;
  kc_op ops[KC_NODES];
  value *values[KC_VALUES]; /* by the reference */
  void *constants[KC_VALUES];
  real largest; /* errors count beside it */
  char name[64];
} kc_sample;

/* What a sample is made of. */
typedef struct kc_sizes {
  int64_t m, n;  /* of graphs whose values have several shapes */
  uint32_t rank; /* of those whose values have one shape */
  int64_t dims[4];
  kd_dtype dtype;
  bool special; /* a NaN is in the first input */
} kc_sizes;

/* The list of graphs: first those whose values have one shape, then those with
 * several shapes and constants, then single ops. */
typedef enum kc_kind { KC_SAME_SHAPE, KC_SHAPES, KC_SINGLE } kc_kind;
extern const uint32_t kc_sample_count;
kc_kind kc_sample_kind(uint32_t index);

/* Makes one of the list; NULL where it can't have these sizes. */
kc_sample *kc_sample_make(uint32_t index, const kc_sizes *sizes,
                          kc_random *random);
/* The same with inputs of nodes that are others of the same type: ways are numbered from 0,
 * and lead to other outputs. Ops, types, and what is read stay. NULL past the last. */
kc_sample *kc_sample_rewired(uint32_t index, const kc_sizes *sizes,
                             kc_random *random, uint32_t way);
/* The same with another attribute of one node; NULL where none has one. */
kc_sample *kc_sample_adjusted(uint32_t index, const kc_sizes *sizes,
                              kc_random *random);
/* Makes one of elementwise ops by chance. */
kc_sample *kc_sample_random(kd_dtype dtype, kc_random *random);
/* All that there is to try, from 0 on: the list, in several types, then many that are
 * made by chance. NULL past the last; *out_none where this one can't be. */
kc_sample *kc_sample_at(uint32_t index, kc_random *random, bool *out_none);
/* Takes away what the graph tells of dims in which `other`, the same graph of other sizes,
 * differs: they are -1. */
void kc_sample_forget(kc_sample *sample, const kc_sample *other);
/* Takes away all that the graph tells of some values, by chance: element type and rank. */
void kc_sample_hide(kc_sample *sample, kc_random *random);
void kc_sample_free(kc_sample *sample);

/* What a plugin claims of a graph. */
typedef struct kc_claimed {
  const struct kd_graph *graph; /* NULL: any nodes are taken */
  uint32_t count, nodes[KC_NODES][KC_NODES], sizes[KC_NODES];
  uint32_t owner[KC_NODES]; /* of each node: number of its claim, from 1 */
  uint32_t refused;
  bool twice, outside, shown, refuse_all;
} kc_claimed;

/* Asks the plugin; its status. */
kd_status kc_claim_of(const struct kd_graph *graph, kc_claimed *claims);
/* What kd_region_table.compile and load get. */
kd_compile kc_compile(const struct kd_graph *graph);
/* A claim as a graph: its inputs are what it reads from outside, its outputs what is read
 * there. */
void kc_claim_part(const kc_claimed *claims, uint32_t index,
                   struct kd_graph *out_part);
/* "Relu, Add of f32[17,5]", into a buffer. */
const char *kc_part_text(const struct kd_graph *part, char *text, size_t size);

#endif /* KC_SAMPLE_H */
