/* bench.h - what benchmarks beside the driver share: its stream, its libraries, and calls of
 * Keel that are waited for. */
#ifndef KEEL_CUDA_BENCH_H
#define KEEL_CUDA_BENCH_H

#include <stdbool.h>

#include "api.h"
#include "families/bench/bench.h"

static inline void need_cu(cu_result code, const char *what) {
  const char *name = NULL;
  if (code == CU_OK) return;
  cu.GetErrorName(code, &name);
  fprintf(stderr, "%s: %s\n", what, name ? name : "an error");
  exit(1);
}

/* A stream of device 0, whose context is the thread's from then on. `path` NULL: the
 * system's driver. */
static inline cu_stream open_driver(const char *path) {
  cu_device device = 0;
  cu_context of_device = NULL;
  cu_stream stream = NULL;
  const char *why = cu_api_open(path);
  if (why) fail(why);
  need_cu(cu.Init(0), "cuInit");
  need_cu(cu.DeviceGet(&device, 0), "cuDeviceGet");
  need_cu(cu.DevicePrimaryCtxRetain(&of_device, device), "a context");
  need_cu(cu.CtxPushCurrent(of_device), "a context");
  need_cu(cu.StreamCreateWithPriority(&stream, CU_NON_BLOCKING, 0), "a stream");
  return stream;
}

static inline cu_pointer device_memory(size_t size) {
  cu_pointer memory = 0;
  need_cu(cu.MemAlloc(&memory, size), "memory");
  return memory;
}

static keel_op *behind;      /* what comes after calls, */
static keel_tensor *element; /* and of what, on the device */

/* Opens the plugin with the driver, NVRTC and cuBLASLt of the first `count` paths, and the
 * system's beside them. */
static inline void open_keel(char *const *paths, int count) {
  static const char *const names[] = {"driver", "nvrtc", "cublaslt"};
  char texts[3][4200];
  const char *options[3];
  for (int i = 0; i < count; i++) {
    snprintf(texts[i], sizeof texts[i], "cuda.%s=%s", names[i], paths[i]);
    options[i] = texts[i];
  }
  bench_open("cuda:0", options, (uint32_t)count);
  behind = bench_op("Relu");
  element = bench_placed(KD_F32, 0, NULL, NULL);
}

static inline void close_keel(void) {
  keel_tensor_release(element);
  keel_op_release(behind);
  bench_close();
}

/* Calls an op again and again, and waits for the device by reading what comes behind. */
static inline void call_and_wait(keel_op *op, keel_tensor **in, uint32_t inputs,
                                 int times) {
  keel_tensor *y = NULL, *last = NULL;
  float seen = 0;
  for (int i = 0; i < times; i++) {
    keel_tensor_release(y);
    need(keel_op_call(op, in, inputs, &y, 1));
  }
  need(keel_op_call(behind, &element, 1, &last, 1));
  need(keel_tensor_read(last, &seen, sizeof seen));
  keel_tensor_release(last);
  keel_tensor_release(y);
}

#endif /* KEEL_CUDA_BENCH_H */
