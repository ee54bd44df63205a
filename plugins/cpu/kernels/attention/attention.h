/* attention.h - attention by blocks of keys (attention.c), and the softmax of a block, one set
 * of bodies for each ISA (attention_rows.c). */
#ifndef KEEL_CPU_ATTENTION_H
#define KEEL_CPU_ATTENTION_H

#include "cpu.h"

/* What is known of a row of scores: all of it, or the blocks that were seen. */
typedef struct attention_row {
  float most;  /* the largest score; at first minus infinity */
  float since; /* by what the products of earlier blocks are to be multiplied */
  double sum;  /* of e to the (score - most) */
} attention_row;

/* Scores of a row in a block of keys. */
typedef struct attention_scores {
  float *scores;
  int64_t count, seen; /* what comes after those that are seen does not count */
  const float *mask;   /* is added; NULL: none */
  int64_t step;        /* from one of its elements to the next */
} attention_scores;

typedef struct cpu_attention_rows {
  /* Makes powers of e of scores less the largest so far, and counts them, for rows that
   * lie one behind the other. */
  void (*soften)(const attention_scores *list, int64_t rows,
                 attention_row *states);
  void (*scale)(float *y, int64_t n, float by);
} cpu_attention_rows;

extern const cpu_attention_rows cpu_attention_rows_base,
    cpu_attention_rows_avx2, cpu_attention_rows_avx512;

/* A tensor of matrices: steps in elements. */
typedef struct attention_matrices {
  const float *data; /* NULL: there is none */
  uint32_t lead;     /* dimensions before the heads */
  int64_t steps[KD_MAX_RANK];
  int64_t head, down, across;
} attention_matrices;

/* Of each head, softmax(scale * Q K' + mask) V. K, V and Y have rows without gaps. */
typedef struct attention_call {
  attention_matrices q, k, v,
      mask; /* by its own steps, 0 where it is broadcast */
  attention_matrices y;
  const int64_t *dims; /* of Q: those that lead */
  int64_t outer, heads, groups, m, n, d, e;
  int64_t
      pieces; /* that the rows of a group are cut into: cpu_attend's choice */
  float scale;
  float
      softcap; /* scores become softcap * tanh(score / softcap); 0: they stay */
  int64_t
      window; /* causal: a row sees so many keys, its own the last; 0: all before it */
  const float *
      sinks; /* of each head of Q: what its sums have more, e to that; NULL: none */
  bool causal, nan_as_zero;
} attention_call;

kd_status cpu_attend(attention_call *all);

#endif /* KEEL_CPU_ATTENTION_H */
