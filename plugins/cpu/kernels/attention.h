/* attention.h - softmax over blocks of keys, one set of bodies for each ISA. */
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

#endif /* KEEL_CPU_ATTENTION_H */
