/* transposed.h - what ConvTranspose makes of a product with a row for each input position. */
#ifndef KEEL_CPU_TRANSPOSED_H
#define KEEL_CPU_TRANSPOSED_H

#include "cpu.h"
#include "families/window.h"

#define TRANSPOSED_GROUP 16 /* output channels side by side */

/* Weights [in][out][taps] in the order of the product's rows: [in][group][tap][channel of a
 * group]. The last group has the channels that are left. */
void cpu_transposed_order(const float *weights, int64_t in, int64_t out,
                          int64_t taps, float *ordered);

/* Some channels of one image; they begin with a group. */
typedef struct cpu_transposed {
  const window *w;   /* of the convolution: in and out as its own are */
  const float *rows; /* what each input position adds: [group][tap][channel] */
  int64_t step;      /* from a row to the next */
  int64_t channels;
  float *y; /* their planes */
} cpu_transposed;

/* Lines of the last dimension, of all groups. */
int64_t cpu_transposed_lines(const cpu_transposed *t);

/* Makes lines [begin, end): each element the sum of what comes to it, in the order of taps. */
void cpu_transposed_run(void *transposed, int64_t begin, int64_t end);

#endif /* KEEL_CPU_TRANSPOSED_H */
