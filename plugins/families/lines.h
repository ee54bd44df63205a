/* lines.h - what reductions, norms and orders go along: some dimensions of a tensor, or
 * one. No device code: every plugin may use it. */
#ifndef KEEL_FAMILIES_LINES_H
#define KEEL_FAMILIES_LINES_H

#include <stdbool.h>

#include "families/strided.h"

/* The index spaces of the dimensions that stay and of those that go, each with x's
 * strides as its operand, and simplified. */
static inline void lines_split(const int64_t *dims, uint32_t rank,
                               const bool *gone, strided *out_kept,
                               strided *out_gone) {
  int64_t packed[STRIDED_RANK], part[2][STRIDED_RANK], steps[2][STRIDED_RANK];
  uint32_t counts[2] = {0, 0};
  strided_packed(dims, rank, packed);
  for (uint32_t i = 0; i < rank; i++) {
    int which = gone[i] ? 1 : 0;
    part[which][counts[which]] = dims[i];
    steps[which][counts[which]++] = packed[i];
  }
  for (int which = 0; which < 2; which++) {
    strided *space = which ? out_gone : out_kept;
    strided_begin(space, part[which], counts[which]);
    strided_operand(space, steps[which]);
    strided_simplify(space);
  }
}

/* The lines along one axis: `count` of them, `length` elements that are `step` apart. A
 * scalar is one line of one element. */
typedef struct lines {
  int64_t count, length, step;
} lines;

static inline lines lines_along(const int64_t *dims, uint32_t rank,
                                uint32_t axis) {
  lines l = {1, rank ? dims[axis] : 1, 1};
  for (uint32_t i = 0; i < rank; i++) {
    if (i != axis) l.count *= dims[i];
    if (i > axis) l.step *= dims[i];
  }
  return l;
}

/* The first element of a line. */
static inline int64_t lines_start(const lines *all, int64_t line) {
  return line / all->step * all->length * all->step + line % all->step;
}

#endif /* KEEL_FAMILIES_LINES_H */
