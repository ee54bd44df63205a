/* blocked.h - the CPU's own layout of tensors: blocked channels, oneDNN's nChw8c and nChw16c.
 *
 *     dims        N, C, spatial...
 *     in memory   N, C/b, spatial..., b          b = cpu_block(): 16 by AVX-512, else 8
 *
 *     pixel 0: channels 0 ... b-1 | pixel 1: channels 0 ... b-1 | ...
 *     pixel 0: channels b ... 2b-1 | ...
 *
 * A vector holds a block of one pixel. Where b does not divide C, the last block is filled up
 * with zeros. Each op that writes such a tensor keeps them zero: convolutions may read them. */
#ifndef KEEL_CPU_BLOCKED_H
#define KEEL_CPU_BLOCKED_H

#include "cpu.h"

#define BLOCKED KD_LAYOUT_OWN

/* Channels of a block. */
static inline int64_t cpu_block(void) {
  return cpu_isa() == 2 ? 16 : 8;
}

/* Channels as they lie: with the zeros of the last block. */
static inline int64_t cpu_filled(int64_t channels) {
  int64_t block = cpu_block();
  return (channels + block - 1) / block * block;
}

static inline bool is_blocked(const kd_type *type) {
  return type->layout == BLOCKED;
}

/* Without space there is one point an image. */
static inline bool is_point(const kd_type *type) {
  return product(type->dims, 2, type->rank) == 1;
}

/* Elements of a tensor as it lies, in rows or in blocks. */
static inline int64_t cpu_lying(const kd_tensor *tensor) {
  int64_t count = kd_elements(tensor);
  return tensor->layout == BLOCKED
             ? count / tensor->dims[1] * cpu_filled(tensor->dims[1])
             : count;
}

/* Whether a type may lie in blocks. */
bool cpu_can_block(kd_type type);

/* How ops of blocked_move.c like their arguments. */
uint32_t cpu_join_prefers(const kd_node *node);
uint32_t cpu_move_prefers(const kd_node *node, uint32_t argument);

/* And those of blocked_turn.c. */
uint32_t cpu_turn_prefers(const kd_node *node, uint32_t argument);

/* Makes what fills up the last blocks zero again, after an op on all elements. */
void cpu_fill_up(const kd_tensor *tensor);

#endif /* KEEL_CPU_BLOCKED_H */
