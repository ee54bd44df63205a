/* places.h - where a function's values lie in one piece of memory.
 *
 * A block holds a value, or several: each written over the one that it is made of, or
 * beside each other in the one that they are parts of (joins.h). Two blocks may share
 * memory where all that use the one come before all that first write the other: in whatever
 * order steps run, or, where that takes much more memory, in the order in which the plan has
 * them, which is then made sure of by edges between steps that nothing else would keep
 * apart. */
#ifndef KEEL_PLACES_H
#define KEEL_PLACES_H

#include "plan/order.h"

typedef struct keel_block {
  uint64_t offset, bytes;
  uint32_t from, to; /* steps: the first that writes, the last that uses it */
  bool joined;       /* others than `from` may come first, too */
  uint32_t
      value; /* the last one in it; KEEL_ABSENT: scratch memory of `from` */
} keel_block;

typedef struct keel_places {
  keel_fplan *fplan;
  keel_arena work;      /* of what is gone after keel_places_end */
  const uint32_t *base; /* by value: the one it is a view of, or itself */
  keel_block *blocks;
  uint32_t count, room;
  keel_edge *edges; /* that the blocks' places want */
  size_t edge_count, edge_room;
  uint64_t total;   /* bytes of all */
  uint64_t apart;   /* if nothing shared */
  uint64_t least;   /* the most that is needed at once in the plan's order */
  uint64_t *before; /* bits, by step: the steps that come before it */
  uint32_t words;
  uint32_t *first_reader,
      *readers;       /* by value: steps that read it or a view of it */
  uint32_t *maker;    /* by value: the step that writes it */
  uint32_t *block_of; /* by value, or KEEL_ABSENT */
  /* by value: the one that it was written over, or another part of the same whole */
  uint32_t *value_under;
} keel_places;

/* Steps are sorted. To be ended and freed, also where it fails. */
keel_status keel_places_begin(keel_places *places, keel_fplan *fplan,
                              const uint32_t *base);

/* A block for what `step` writes: output `value`, or scratch memory (KEEL_ABSENT).
 * Steps come in their order. inplace: bits of inputs whose memory it may take. */
keel_status keel_places_take(keel_places *places, uint32_t step, uint32_t value,
                             uint64_t bytes, uint32_t inplace,
                             uint32_t *out_block);

/* A block for `root` and all values that lie in it (root_of, by value). `step` is the first
 * that writes one. */
keel_status keel_places_take_joined(keel_places *places, uint32_t step,
                                    uint32_t root, const uint32_t *root_of,
                                    uint64_t bytes, uint32_t *out_block);

/* Sets offsets, multiples of `alignment`, the total and the edges, and lets go of what
 * only that took. ordered: steps run in the plan's order anyway. */
keel_status keel_places_end(keel_places *places, uint64_t alignment,
                            bool ordered);
void keel_places_free(keel_places *places);

#endif /* KEEL_PLACES_H */
