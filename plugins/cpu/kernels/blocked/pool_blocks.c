/* pool_blocks.c - the loop of pool_blocks.h.
 *
 * Compiled once for each instruction set, with POOL_BLOCKS naming the result. As in
 * pool_rows.c, taps are joined downwards first, then across; but a vector is the channels of a
 * block, or part of them, at one place: strides and dilations need no phases. */
#include "pool_blocks.h"

#include <math.h>

#if defined(__AVX512BW__)
#define BLOCK 16 /* as cpu_block() says */
#define LANES 16
#elif defined(__AVX2__)
#define BLOCK 8
#define LANES 8
#else
#define BLOCK 8
#define LANES 4
#endif

typedef float vec
    __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef double wide
    __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
typedef int32_t bits __attribute__((vector_size(4 * LANES)));

static inline vec pool_blocks_at(const float *x, int64_t place) {
  return *(const vec *)(const void *)(x + place * BLOCK);
}

static inline void pool_blocks_put(float *x, int64_t place, vec value) {
  *(vec *)(void *)(x + place * BLOCK) = value;
}

static inline vec larger_of(vec most, vec x) {
  const vec least = (vec){0} - INFINITY;
  bits larger = (x > most) | ~(x >= least); /* or no number */
  return (vec)(((bits)x & larger) | ((bits)most & ~larger));
}

static void pool_blocks_largest(const cpu_pool_plane *p, const float *x,
                                int64_t row, double *scratch, float *y) {
  const cpu_pool_span down = p->rows[row];
  const int64_t columns = p->in[1], step = p->dilation[0] * columns;
  float *room = (float *)scratch;
  for (int64_t c = 0; c < columns; c++) {
    int64_t from = down.at * columns + c;
    vec most = pool_blocks_at(x, from);
    for (int64_t k = 1; k < down.count; k++)
      most = larger_of(most, pool_blocks_at(x, from + k * step));
    pool_blocks_put(room, c, most);
  }
  for (int64_t c = 0; c < p->out[1]; c++) {
    const cpu_pool_span across = p->columns[c];
    vec most = pool_blocks_at(room, across.at);
    for (int64_t k = 1; k < across.count; k++)
      most =
          larger_of(most, pool_blocks_at(room, across.at + k * p->dilation[1]));
    pool_blocks_put(y, row * p->out[1] + c, most);
  }
}

static inline wide *wide_at(double *room, int64_t place) {
  return (wide *)(void *)(room + place * BLOCK);
}

/* Summed and divided in f64, so that a mean is rounded once. */
static void mean(const cpu_pool_plane *p, const float *x, int64_t row,
                 double *room, float *y) {
  const cpu_pool_span down = p->rows[row];
  const int64_t columns = p->in[1], step = p->dilation[0] * columns;
  for (int64_t c = 0; c < columns; c++) {
    int64_t from = down.at * columns + c;
    wide sum = {0};
    for (int64_t k = 0; k < down.count; k++)
      sum += __builtin_convertvector(pool_blocks_at(x, from + k * step), wide);
    *wide_at(room, c) = sum;
  }
  for (int64_t c = 0; c < p->out[1]; c++) {
    const cpu_pool_span across = p->columns[c];
    wide sum = {0};
    for (int64_t k = 0; k < across.count; k++)
      sum += *wide_at(room, across.at + k * p->dilation[1]);
    sum /= (double)down.size * (double)across.size;
    pool_blocks_put(y, row * p->out[1] + c, __builtin_convertvector(sum, vec));
  }
}

static void pool(const cpu_pool_plane *plane, const float *x, int64_t row,
                 double *room, float *y) {
  for (int part = 0; part < BLOCK; part += LANES)
    (plane->mean ? mean : pool_blocks_largest)(plane, x + part, row, room,
                                               y + part);
}

const cpu_pool_blocks_fn POOL_BLOCKS = pool;
