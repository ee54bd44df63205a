/* beside.h - what benchmarks beside a raw API share: Keel's side of launches of Relu on
 * 4 floats, copies and a product, and the table. The raw side is three functions. */
#ifndef KEEL_FAMILIES_BESIDE_H
#define KEEL_FAMILIES_BESIDE_H

#include "families/bench/bench.h"

#define LAUNCHES 1000
#define COPY     (UINT64_C(32) << 20)
#define SIDE     512

static char host_bytes[COPY];

/* When the last launch was enqueued: what follows is the device's time. */
static double enqueued;

static keel_op *relu, *matmul;
static keel_tensor *x, *square[2], *large;

/* On the device, by an op that changes nothing. */
static keel_tensor *placed(uint32_t rank, const int64_t *dims) {
  keel_tensor *host = bench_tensor(KD_F32, rank, dims, NULL), *there = NULL;
  need(keel_op_call(relu, &host, 1, &there, 1));
  keel_tensor_release(host);
  return there;
}

static void keel_start(void) {
  const int64_t four = 4, sides[2] = {SIDE, SIDE};
  const int64_t floats = (int64_t)(COPY / 4);
  relu = bench_op("Relu");
  matmul = bench_op("MatMul");
  memset(host_bytes, 1, COPY); /* pages of its own, as Keel's source has */
  x = placed(1, &four);
  square[0] = placed(2, sides);
  square[1] = placed(2, sides);
  large = bench_tensor(KD_F32, 1, &floats, NULL);
}

static void keel_launches(void) {
  keel_tensor *y = NULL;
  for (int i = 0; i < LAUNCHES; i++) {
    keel_tensor_release(y);
    need(keel_op_call(relu, &x, 1, &y, 1));
  }
  enqueued = now();
  float out[4]; /* reading it waits for the device */
  need(keel_tensor_read(y, out, sizeof out));
  keel_tensor_release(y);
}

static void keel_copy(void) {
  keel_tensor *there = NULL;
  need(keel_tensor_to(large, the_device, &there));
  keel_tensor_release(there);
}

static void keel_matmul(void) {
  keel_tensor *y = NULL;
  need(keel_op_call(matmul, square, 2, &y, 1));
  need(keel_tensor_read(y, host_bytes, SIDE * SIDE * 4));
  keel_tensor_release(y);
}

static void keel_end(void) {
  keel_tensor_release(x);
  keel_tensor_release(square[0]);
  keel_tensor_release(square[1]);
  keel_tensor_release(large);
  keel_op_release(relu);
  keel_op_release(matmul);
}

static void show(const char *what, const char *api, const char *unit,
                 const double *times) {
  printf("%-30s %s %7.1f %s, Keel %7.1f %s, ratio %.2f\n", what, api, times[0],
         unit, times[1], unit, times[1] / times[0]);
}

/* Both sides in turn, after `bench_open`; the shortest of some rounds. */
static void compare(const char *api, void (*raw_launches)(void),
                    void (*raw_copy)(void), void (*raw_matmul)(void)) {
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
  keel_start();
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
