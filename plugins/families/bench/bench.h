/* bench.h - what the plugins' benchmarks share: a clock, failures, Keel on a device, and two
 * sides in turn. */
#ifndef KEEL_FAMILIES_BENCH_H
#define KEEL_FAMILIES_BENCH_H

#include <keel/keel.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double now(void) { /* nanoseconds */
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static inline void need(keel_status status) {
  if (status != KD_OK) fail(keel_message());
}

/* Keel with one device, which is the thread's from `bench_open` to `bench_close`. */
static keel_context *the_context;
static keel_device *the_device;

/* Options of plugins are texts like "plugin.name=value". */
static inline void bench_open(const char *device, const char *const *options,
                              uint32_t option_count) {
  const keel_context_params params = {.struct_size = sizeof params,
                                      .options = options,
                                      .option_count = option_count};
  need(keel_open(&params, &the_context));
  need(keel_device_find(the_context, device, &the_device));
  need(keel_device_push(the_device));
}

static inline void bench_close(void) {
  keel_device_pop();
  keel_close(the_context);
}

static inline keel_op *bench_op(const char *name) {
  keel_op *op = NULL;
  need(keel_op_prepare(the_context, name, NULL, 0, NULL, &op));
  return op;
}

static inline keel_tensor *bench_tensor(kd_dtype dtype, uint32_t rank,
                                        const int64_t *dims, const void *data) {
  keel_tensor *tensor = NULL;
  need(keel_tensor_create(the_context, dtype, rank, dims, data, &tensor));
  return tensor;
}

/* The same in the device's memory. */
static inline keel_tensor *bench_placed(kd_dtype dtype, uint32_t rank,
                                        const int64_t *dims, const void *data) {
  keel_tensor *host = bench_tensor(dtype, rank, dims, data), *there = NULL;
  need(keel_tensor_to(host, the_device, &there));
  keel_tensor_release(host);
  return there;
}

/* Two sides in turn, and the shortest time of each in some rounds, nanoseconds. */
static inline void bench_in_turn(int rounds, void (*const sides[2])(void),
                                 double best[2]) {
  best[0] = best[1] = 1e30;
  for (int round = 0; round <= rounds; round++) /* the first warms up */
    for (int i = 0; i < 2; i++) {
      double from = now();
      sides[i]();
      double time = now() - from;
      if (round && time < best[i]) best[i] = time;
    }
}

/* A line of the largest five values, and where they are. */
static inline void bench_print_top(const float *values, uint64_t count) {
  uint64_t taken[5];
  printf("top 5 of the last copy:");
  for (int k = 0; k < 5 && (uint64_t)k < count; k++) {
    uint64_t most = UINT64_MAX;
    for (uint64_t i = 0; i < count; i++) {
      int before = 0;
      for (int j = 0; j < k; j++)
        before |= taken[j] == i;
      if (!before && (most == UINT64_MAX || values[i] > values[most])) most = i;
    }
    taken[k] = most;
    printf(" %llu (%.4f)", (unsigned long long)most, (double)values[most]);
  }
  printf("\n");
}

#endif /* KEEL_FAMILIES_BENCH_H */
