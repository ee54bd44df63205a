/* direct.h - direct convolutions of f32 (direct.c), for groups of any width, any number of
 * dimensions, and any share of the work. */
#ifndef KEEL_CPU_DIRECT_H
#define KEEL_CPU_DIRECT_H

#include "conv.h"
#include "families/window.h"

#define DIRECT_ROWS 4 /* filters at once, with vectors along the image */

/* Positions behind the last one that loops may read and write. */
#define DIRECT_SLACK 64

/* n positions of some filters: bias, and the sum over k of weights and what lies offsets[k]
 * behind the position in x, in the order of k; then brought into [low, high]. */
typedef struct cpu_direct_sum {
  const float *x, *weights, *bias;
  const int64_t *offsets;
  /* across: which weights of [k] those are; NULL: 0, 1, 2 ... */
  const int64_t *places;
  int64_t count, n,
      step; /* offsets; positions; from a filter's or block's to the next's */
  float *y, low, high;
  /* across: y has a sum that this is added to, in place of the bias */
  bool more;
} cpu_direct_sum;

typedef struct cpu_direct_loops {
  /* 1 to DIRECT_ROWS filters: weights [k][filter]. A position is an element. */
  void (*along)(const cpu_direct_sum *sum, int64_t filters);
  /* The filters of 1 or 2 blocks: weights [k][channel of a block][filter]. A position is the
   * channels of a block, in x and in y. NULL: no vector holds a block. */
  void (*across)(const cpu_direct_sum *sum, int64_t blocks);
} cpu_direct_loops;

extern const cpu_direct_loops cpu_direct_base, cpu_direct_avx2,
    cpu_direct_avx512;
const cpu_direct_loops *cpu_direct_get(void);

/* A convolution, and how it is cut into tasks. */
typedef struct cpu_direct {
  window w; /* of one dimension at least */
  int64_t images, groups;
  int64_t ins, outs; /* channels of a group */
  bool blocks_in, blocks_out;
  /* vectors of filters; else along the image. Groups are whole blocks, or one */
  bool across;

  /* made by cpu_direct_plan */
  bool lies;            /* windows are points: x is read where it lies */
  int64_t block, grain; /* grain: elements of a position, the block's or 1 */
  int64_t taps,
      depth; /* depth: weights of a filter, with what fills up blocks */
  int64_t unit, units;         /* groups of a unit, units of an image */
  int64_t band, bands;         /* steps of y's first dimension; bands of them */
  int64_t kept[WINDOW_SPACE];  /* phases that windows see */
  int64_t size[WINDOW_SPACE];  /* steps of a phase */
  int64_t pitch[WINDOW_SPACE]; /* positions from a step to the next */
  int64_t phase, phases;       /* positions of a phase; phases of a plane */
  int64_t wide;                /* positions that are computed of a plane */
  int64_t plane, planes;       /* elements of a plane; planes of a unit */
  int64_t step;  /* elements that are made of a filter, or block */
  int64_t parts; /* that tasks are dealt out to */
} cpu_direct;

void cpu_direct_plan(cpu_direct *d);

/* Bytes that a run needs; those of one part, and what comes before the first. */
uint64_t cpu_direct_room(const cpu_direct *d);
int64_t cpu_direct_part(const cpu_direct *d);
int64_t cpu_direct_before(const cpu_direct *d);

/* Weights [groups * outs][ins][taps] in the order that a run reads them, and how many those
 * are; where loops look for them. */
int64_t cpu_direct_weights(const cpu_direct *d);
void cpu_direct_pack(const cpu_direct *d, const float *weights, float *packed);
void cpu_direct_offsets(const cpu_direct *d, int64_t *offsets);

/* Filters that are summed at once, from output `at` of `count` of a unit on. */
int64_t cpu_direct_filters(const cpu_direct *d, int64_t at, int64_t count);

/* Groups of a unit; the last may have fewer. */
static inline int64_t direct_groups(const cpu_direct *d, int64_t unit) {
  int64_t left = d->groups - unit * d->unit;
  return left < d->unit ? left : d->unit;
}

typedef struct cpu_direct_run {
  const cpu_direct *d;
  const float *x, *packed, *bias; /* bias: or NULL */
  float *y;
  /* what follows; without a bias. z may lie where y does */
  const cpu_finish *finish;
  void *room;
} cpu_direct_run;

void cpu_direct_start(const cpu_direct_run *run);

#endif /* KEEL_CPU_DIRECT_H */
