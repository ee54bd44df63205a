/* strided.h - walking several tensors of one index space at once.
 *
 * An index space is dims, and each operand has a stride in each dimension (0
 * where it is broadcast, negative where it runs backwards). Before the walk,
 * dimensions of one element go and neighbours that every operand steps through
 * evenly become one, so that inner loops are as long as they can be. No device
 * code: every plugin may use it. */
#ifndef KEEL_FAMILIES_STRIDED_H
#define KEEL_FAMILIES_STRIDED_H

#include <kd/kd.h>
#include <string.h>

#ifndef STRIDED_OPERANDS
#define STRIDED_OPERANDS 4
#endif
/* what an op's own dimensions may come to, over KD_MAX_RANK */
#define STRIDED_RANK 20

typedef struct strided {
  int rank, operands;
  int64_t dims[STRIDED_RANK];
  int64_t steps[STRIDED_OPERANDS][STRIDED_RANK]; /* elements */
} strided;

/* Row-major strides of dims. */
static inline void strided_packed(const int64_t *dims, uint32_t rank,
                                  int64_t *out_strides) {
  int64_t step = 1;
  for (uint32_t i = rank; i-- > 0; step *= dims[i])
    out_strides[i] = step;
}

/* A space of a result's dims, without operands. */
static inline void strided_begin(strided *space, const int64_t *dims,
                                 uint32_t rank) {
  space->rank = (int)rank;
  space->operands = 0;
  for (uint32_t i = 0; i < rank; i++)
    space->dims[i] = dims[i];
}

/* Adds a packed operand whose dims broadcast to the space's. */
static inline void strided_broadcast(strided *space, const int64_t *dims,
                                     uint32_t rank) {
  int64_t *steps = space->steps[space->operands++];
  int64_t step = 1;
  int lead = space->rank - (int)rank;
  for (int i = space->rank - 1; i >= 0; i--) {
    int64_t dim = i >= lead ? dims[i - lead] : 1;
    steps[i] = dim == 1 ? 0 : step;
    step *= dim;
  }
}

/* Adds an operand with strides of its own. */
static inline void strided_operand(strided *space, const int64_t *strides) {
  int64_t *steps = space->steps[space->operands++];
  for (int i = 0; i < space->rank; i++)
    steps[i] = strides[i];
}

/* Adds an operand whose dims broadcast to the space's, packed or by its strides. */
static inline void strided_tensor(strided *space, const kd_tensor *tensor) {
  if (!tensor->strides) {
    strided_broadcast(space, tensor->dims, tensor->rank);
    return;
  }
  int64_t *steps = space->steps[space->operands++];
  int lead = space->rank - (int)tensor->rank;
  for (int i = 0; i < space->rank; i++)
    steps[i] =
        i < lead || tensor->dims[i - lead] == 1 ? 0 : tensor->strides[i - lead];
}

static inline int64_t strided_count(const strided *space) {
  int64_t count = 1;
  for (int i = 0; i < space->rank; i++)
    count *= space->dims[i];
  return count;
}

/* Joins what can be joined; at least one dimension is left. */
static inline void strided_simplify(strided *space) {
  int to = -1;
  for (int i = 0; i < space->rank; i++) {
    if (space->dims[i] == 1) continue;
    int join = to >= 0;
    for (int k = 0; k < space->operands && join; k++)
      join = space->steps[k][to] == space->steps[k][i] * space->dims[i];
    if (join) {
      space->dims[to] *= space->dims[i];
    } else {
      space->dims[++to] = space->dims[i];
    }
    for (int k = 0; k < space->operands; k++)
      space->steps[k][to] = space->steps[k][i];
  }
  if (to < 0) {
    space->dims[0] = 1;
    for (int k = 0; k < space->operands; k++)
      space->steps[k][0] = 0;
    to = 0;
  }
  space->rank = to + 1;
}

/* The operands' offsets of row `row`, where a row is the last dimension. */
static inline void strided_row(const strided *space, int64_t row,
                               int64_t *out_offsets) {
  for (int k = 0; k < space->operands; k++)
    out_offsets[k] = 0;
  for (int i = space->rank - 2; i >= 0; i--) {
    int64_t at = row % space->dims[i];
    row /= space->dims[i];
    for (int k = 0; k < space->operands; k++)
      out_offsets[k] += at * space->steps[k][i];
  }
}

/* The offsets of the row behind one at `index` (zeroed by the caller at row 0
 * of the walk, or set by strided_index). */
static inline void strided_next(const strided *space, int64_t *index,
                                int64_t *offsets) {
  for (int i = space->rank - 2; i >= 0; i--) {
    for (int k = 0; k < space->operands; k++)
      offsets[k] += space->steps[k][i];
    if (++index[i] < space->dims[i]) return;
    for (int k = 0; k < space->operands; k++)
      offsets[k] -= space->steps[k][i] * space->dims[i];
    index[i] = 0;
  }
}

static inline void strided_index(const strided *space, int64_t row,
                                 int64_t *out_index) {
  for (int i = space->rank - 2; i >= 0; i--) {
    out_index[i] = row % space->dims[i];
    row /= space->dims[i];
  }
}

static inline int64_t strided_rows(const strided *space) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < space->rank; i++)
    rows *= space->dims[i];
  return rows;
}

#endif /* KEEL_FAMILIES_STRIDED_H */
