/* buffer_assignment.h - buffer assignment: the offsets of a function's values in one arena.
 *
 * A block holds one or more values: each overwrites the one that it is computed from, or
 * they are adjacent in the value that they are parts of (inplace_concat.h). Two blocks
 * may share memory if all users of one run before all first writers of the other: in any
 * order of steps, or, if that takes much more memory, in the plan's order, which extra
 * edges then enforce. */
#ifndef KEEL_BUFFER_ASSIGNMENT_H
#define KEEL_BUFFER_ASSIGNMENT_H

#include "plan/order.h"

typedef struct keel_block {
  uint64_t offset, bytes;
  uint32_t from, to; /* steps: its first writer and its last user */
  bool joined;       /* steps other than `from` may be the first writer, too */
  /* the last value in it; KEEL_ABSENT: workspace of `from` */
  uint32_t value;
} keel_block;

typedef struct keel_buffer_assignment {
  keel_executable *executable;
  keel_arena work;      /* of data that keel_buffer_assignment_end frees */
  const uint32_t *base; /* by value: its base value, or itself */
  keel_block *blocks;
  uint32_t count, capacity;
  keel_edge *edges; /* extra dependencies that memory reuse needs */
  uint32_t edge_count, edge_capacity;
  uint64_t total;    /* bytes of all */
  uint64_t unshared; /* if nothing shared */
  uint64_t least;    /* the peak in the plan's order */
  uint64_t *before;  /* bit matrix, by step: its predecessors */
  uint32_t words;
  uint32_t *first_reader,
      *readers;       /* by value: steps that read it or a view of it */
  uint32_t *maker;    /* by value: the step that writes it */
  uint32_t *block_of; /* by value, or KEEL_ABSENT */
  /* by value: the value that it overwrote, or another part of the same output */
  uint32_t *value_under;
} keel_buffer_assignment;

/* Steps are sorted. Call _end and _free even after a failure. */
keel_status keel_buffer_assignment_begin(keel_buffer_assignment *assignment,
                                         keel_executable *executable,
                                         const uint32_t *base);

/* Assigns a block to output `value` of `step`, or to its workspace (KEEL_ABSENT). Call in
 * the order of steps. inplace: bit i: it may take over the memory of input i. */
keel_status keel_buffer_assignment_take(keel_buffer_assignment *assignment,
                                        uint32_t step, uint32_t value,
                                        uint64_t bytes, uint32_t inplace,
                                        uint32_t *out_block);

/* Assigns a block to `root` and all values that lie in it (root_of, by value). `step` is
 * the first that writes one of them. */
keel_status keel_buffer_assignment_take_concat(
    keel_buffer_assignment *assignment, uint32_t step, uint32_t root,
    const uint32_t *root_of, uint64_t bytes, uint32_t *out_block);

/* Computes offsets (multiples of `alignment`), the total and the edges, and frees what only
 * this needed. ordered: steps run in the plan's order anyway. */
keel_status keel_buffer_assignment_end(keel_buffer_assignment *assignment,
                                       uint64_t alignment, bool ordered);
void keel_buffer_assignment_free(keel_buffer_assignment *assignment);

#endif /* KEEL_BUFFER_ASSIGNMENT_H */
