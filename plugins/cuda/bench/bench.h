/* bench.h - what benchmarks beside the driver share: its stream, failures, the clock. */
#ifndef KEEL_CUDA_BENCH_H
#define KEEL_CUDA_BENCH_H

#include <keel/keel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api.h"

static inline double now(void) { /* nanoseconds */
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static inline void need_cu(cu_result code, const char *what) {
  const char *name = NULL;
  if (code == CU_OK) return;
  cu.GetErrorName(code, &name);
  fail(what, name ? name : "an error");
}

static inline void need(keel_status status) {
  if (status != KD_OK) fail("keel", keel_message());
}

/* A stream of device 0, whose context is the thread's from then on. `path` NULL: the
 * system's driver. */
static inline cu_stream open_driver(const char *path) {
  cu_device device = 0;
  cu_context of_device = NULL;
  cu_stream stream = NULL;
  const char *why = cu_api_open(path);
  if (why) fail("the driver", why);
  need_cu(cu.Init(0), "cuInit");
  need_cu(cu.DeviceGet(&device, 0), "cuDeviceGet");
  need_cu(cu.DevicePrimaryCtxRetain(&of_device, device), "a context");
  need_cu(cu.CtxPushCurrent(of_device), "a context");
  need_cu(cu.StreamCreateWithPriority(&stream, CU_NON_BLOCKING, 0), "a stream");
  return stream;
}

#endif /* KEEL_CUDA_BENCH_H */
