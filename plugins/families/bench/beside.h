/* beside.h - what benchmarks beside a raw API share: Keel's side of launches of Relu on
 * 4 floats, copies and a product, and the table. The raw side is three functions. */
#ifndef KEEL_FAMILIES_BESIDE_H
#define KEEL_FAMILIES_BESIDE_H

#include <keel/keel.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAUNCHES 1000
#define COPY     (UINT64_C(32) << 20)
#define SIDE     512

static char host_bytes[COPY];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

/* When the last launch was enqueued: what follows is the device's time. */
static double enqueued;

/* Options of plugins for Keel's side, "plugin.name=value"; set before `compare`. */
static const char *const *keel_options;
static uint32_t keel_option_count;

static keel_context *the_context;
static keel_device *the_device;
static keel_op *relu, *matmul;
static keel_tensor *x, *square[2], *large;

/* On the device, by an op that changes nothing. */
static keel_tensor *placed(uint32_t rank, const int64_t *dims) {
  keel_tensor *host = NULL, *there = NULL;
  if (keel_tensor_create(the_context, KD_F32, rank, dims, NULL, &host) !=
          KD_OK ||
      keel_op_call(relu, &host, 1, &there, 1) != KD_OK)
    fail(keel_message());
  keel_tensor_release(host);
  return there;
}

static void keel_start(const char *name) {
  const int64_t four = 4, sides[2] = {SIDE, SIDE};
  const int64_t floats = (int64_t)(COPY / 4);
  const keel_context_params params = {.struct_size = sizeof params,
                                      .options = keel_options,
                                      .option_count = keel_option_count};
  if (keel_open(&params, &the_context) != KD_OK ||
      keel_device_find(the_context, name, &the_device) != KD_OK ||
      keel_device_push(the_device) != KD_OK ||
      keel_op_prepare(the_context, "Relu", NULL, 0, NULL, &relu) != KD_OK ||
      keel_op_prepare(the_context, "MatMul", NULL, 0, NULL, &matmul) != KD_OK)
    fail(keel_message());
  memset(host_bytes, 1, COPY); /* pages of its own, as Keel's source has */
  x = placed(1, &four);
  square[0] = placed(2, sides);
  square[1] = placed(2, sides);
  if (keel_tensor_create(the_context, KD_F32, 1, &floats, NULL, &large) !=
      KD_OK)
    fail(keel_message());
}

static void keel_launches(void) {
  keel_tensor *y = NULL;
  for (int i = 0; i < LAUNCHES; i++) {
    keel_tensor_release(y);
    if (keel_op_call(relu, &x, 1, &y, 1) != KD_OK) fail(keel_message());
  }
  enqueued = now();
  float out[4]; /* reading it waits for the device */
  if (keel_tensor_read(y, out, sizeof out) != KD_OK) fail(keel_message());
  keel_tensor_release(y);
}

static void keel_copy(void) {
  keel_tensor *there = NULL;
  if (keel_tensor_to(large, the_device, &there) != KD_OK) fail(keel_message());
  keel_tensor_release(there);
}

static void keel_matmul(void) {
  keel_tensor *y = NULL;
  if (keel_op_call(matmul, square, 2, &y, 1) != KD_OK ||
      keel_tensor_read(y, host_bytes, SIDE * SIDE * 4) != KD_OK)
    fail(keel_message());
  keel_tensor_release(y);
}

static void keel_end(void) {
  keel_tensor_release(x);
  keel_tensor_release(square[0]);
  keel_tensor_release(square[1]);
  keel_tensor_release(large);
  keel_op_release(relu);
  keel_op_release(matmul);
  keel_device_pop();
  keel_close(the_context);
}

static void show(const char *what, const char *api, const char *unit,
                 const double *times) {
  printf("%-30s %s %7.1f %s, Keel %7.1f %s, ratio %.2f\n", what, api, times[0],
         unit, times[1], unit, times[1] / times[0]);
}

/* Both sides in turn; the shortest of some rounds. */
static void compare(const char *api, const char *name,
                    void (*raw_launches)(void), void (*raw_copy)(void),
                    void (*raw_matmul)(void)) {
  const struct {
    const char *what;
    void (*sides[2])(void);
    double parts;
    const char *unit;
    int rounds;
  } rows[] = {
      {"launch, and a wait for all",
       {raw_launches, keel_launches},
       LAUNCHES,
       "ns",
       100},
      {"copy of 32 MiB to the device", {raw_copy, keel_copy}, 1e6, "ms", 7},
      {"MatMul of 512", {raw_matmul, keel_matmul}, 1e6, "ms", 4},
  };
  keel_start(name);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    double best[2] = {1e30, 1e30}, host[2] = {1e30, 1e30};
    for (int round = 0; round < rows[r].rounds; round++)
      for (int i = 0; i < 2; i++) {
        double from = now();
        rows[r].sides[i]();
        double each = (now() - from) / rows[r].parts;
        double part = (enqueued - from) / rows[r].parts;
        if (each < best[i]) best[i] = each;
        if (part < host[i]) host[i] = part;
      }
    if (!r) show("launch, on the host", api, rows[r].unit, host);
    show(rows[r].what, api, rows[r].unit, best);
  }
  keel_end();
}

#endif /* KEEL_FAMILIES_BESIDE_H */
