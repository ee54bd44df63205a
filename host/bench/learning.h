/* learning.h - a step of learning, for ranks. */
#ifndef BENCH_LEARNING_H
#define BENCH_LEARNING_H

#include "bench.h"

/* A step of ResNet-50 over a batch of images: inputs are the rank's handle, images, labels and
 * weights;
 * outputs the loss, and the sums of the gradients over all ranks, in rows of 25 MiB or more. The
 * program ends where memory runs out. */
keel_program *learning_step(keel_context *in, int64_t batch);

#endif /* BENCH_LEARNING_H */
