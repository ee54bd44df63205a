/* gates.h - steps of recurrent cells, one set for each ISA. */
#ifndef KEEL_CPU_GATES_H
#define KEEL_CPU_GATES_H

#include "cpu.h"

enum { CPU_RNN, CPU_GRU, CPU_LSTM };

enum {
  CPU_AFFINE,
  CPU_ELU,
  CPU_HARD_SIGMOID,
  CPU_LEAKY_RELU,
  CPU_RELU,
  CPU_SCALED_TANH,
  CPU_SIGMOID,
  CPU_SOFTPLUS,
  CPU_SOFTSIGN,
  CPU_TANH,
  CPU_THRESHOLDED_RELU,
  CPU_GATES
};

typedef struct cpu_gate {
  int which;
  double alpha, beta;
} cpu_gate;

/* Units are computed in blocks of so many bytes of state; the last block is filled up. */
#define CPU_BLOCK_BYTES 128

/* One direction of an RNN, GRU or LSTM at one step. */
typedef struct cpu_cell {
  int kind;
  int64_t gates, hidden, batch;
  bool coupled, linear_first;
  double clip; /* 0: none */
  cpu_gate f, g, h;
  /* by blocks of units: [blocks, gates, hidden, units]; [blocks, gates + 1, units], the last
   * one a GRU's for the state's part of its candidate; [blocks, 3, units], or NULL */
  const void *weights, *bias, *peep;
  const void *from_x;  /* [..., gates * hidden]: what the inputs give */
  const int64_t *rows; /* an item's row in that; -1: it has ended */
  /* [batch, hidden] */
  const void *before;
  void *after, *cell, *gated, *update;
} cpu_cell;

typedef struct cpu_cells {
  /* weights [gates * hidden, hidden] of one block into its place */
  void (*pack)(const void *from, int64_t gates, int64_t hidden, int64_t block,
               void *to);
  /* One block of units, for all items. A GRU that gates its state before the product does so
   * for all blocks (`first`) before any of them goes on. */
  void (*step)(const cpu_cell *cell, int64_t block, bool first);
} cpu_cells;

/* Of f32, f64. */
extern const cpu_cells cpu_cells_base[2], cpu_cells_avx2[2],
    cpu_cells_avx512[2];

#endif /* KEEL_CPU_GATES_H */
