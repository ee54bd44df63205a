/* perf.c - speed, as far as something is plainly wrong. */
#include <sys/resource.h>

#include "rules/rules.h"

static int by_time(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void perf_launch(void) {
  enum { TIMES = 300 };
  static uint64_t times[TIMES];
  kc_unary unary;
  kc_unary_need(4, &unary);
  kc_run *run = kc_unary_run(&unary);
  kd_stream *stream = kc_stream_or_none();
  int count = 0;
  for (uint64_t first = kc_now(); count < TIMES && kc_now() - first < KC_S;) {
    uint64_t begin = kc_now();
    run->def->enqueue(run->kernel, stream, &run->launch);
    times[count++] = kc_now() - begin;
    if (stream && count % 64 == 0) kc_drain(stream);
  }
  kc_drain(stream);
  qsort(times, (size_t)count, sizeof *times, by_time);
  uint64_t median = times[count / 2], late = times[count * 99 / 100];
  kc_check(median < 20 * KC_MS, "a launch on 4 elements takes %.3f ms",
           (double)median / 1e6);
  kc_note("a launch on 4 elements: %.2f us, 99 of 100 within %.2f us",
          (double)median / 1e3, (double)late / 1e3);
  kc_run_free(run);
  kc_unary_free(&unary);
}

static void perf_copies(void) {
  const uint64_t size = 8 << 20;
  kc_buffer *x = kc_buffer_make(size),
            *y = kp.m.copy ? kc_buffer_make(size) : NULL;
  char *bytes = kc_take(size);
  double best[3] = {1e9, 1e9, 1e9};
  for (int i = 0; i < 5; i++) {
    uint64_t begin = kc_now();
    kc_write(x, 0, bytes, size);
    uint64_t in = kc_now();
    kc_read(x, 0, bytes, size);
    uint64_t out = kc_now();
    if (y) kc_copy(NULL, x, y, size);
    double times[3] = {(double)(in - begin), (double)(out - in),
                       (double)(kc_now() - out)};
    for (int k = 0; k < 3; k++)
      if (times[k] < best[k]) best[k] = times[k];
  }
  kc_check(true, " ");
  kc_note("copies of 8 MiB: in %.2f, out %.2f, on the device %.2f GB/s",
          (double)size / best[0], (double)size / best[1],
          y ? (double)size / best[2] : 0.0);
}

static void perf_alloc(void) {
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 50; i++) {
    kd_buffer *buffer = NULL;
    void *address = NULL;
    uint64_t begin = kc_now();
    kc_ok(kc_allocate(kc_device(), 0, 1 << 20, &buffer, &address), "allocate");
    kp.m.release(kc_device(), buffer);
    uint64_t time = kc_now() - begin;
    if (time < best) best = time;
  }
  kc_check((double)best < 1e6 * kc.factor,
           "allocating and releasing 1 MiB takes %.3f ms", (double)best / 1e6);
  kc_note("1 MiB is allocated and released in %.2f us", (double)best / 1e3);
}

static void perf_recompile(void) {
  kc_unary unary;
  kc_unary_need(77, &unary);
  uint64_t times[6];
  for (int i = 0; i < 6; i++) {
    uint64_t begin = kc_now();
    kc_run *run = kc_unary_run(&unary);
    kc_ok(kc_run_now(run), "run");
    times[i] = kc_now() - begin;
    kc_run_free(run);
  }
  qsort(times + 1, 5, sizeof *times, by_time);
  kc_check(times[3] < 50 * KC_MS || times[3] < times[0] / 2,
           "making the same kernel again takes %.1f ms, the first time %.1f ms",
           (double)times[3] / 1e6, (double)times[0] / 1e6);
  kc_note("first %.2f ms, then %.2f ms", (double)times[0] / 1e6,
          (double)times[3] / 1e6);
  kc_unary_free(&unary);
}

static double cpu_time(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
         ((double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_usec) /
             1e6;
}

static void perf_idle(void) {
  kc_smoke();
  kc_sleep(50 * KC_MS); /* a spin of that length is allowed */
  double before = cpu_time();
  uint64_t time = (kc.quick ? 200 : 800) * KC_MS;
  kc_sleep(time);
  double used = cpu_time() - before;
  kc_check(used < 0.05 * (double)time / 1e9 + 0.004,
           "%.1f ms of processor time in %.0f ms without any work", used * 1e3,
           (double)time / 1e6);
}

static void perf_matmul(void) {
  const int64_t n = kc.quick ? 128 : 256;
  int64_t dims[2] = {n, n};
  kc_random random = kc_seed();
  value *a = kc_floats(2, dims, &random), *b = kc_floats(2, dims, &random);
  kc_op op = {.name = "MatMul", .in = {a, b}, .in_count = 2, .out_count = 1};
  kc_device();
  kc_node *node = kc_node_make(&op, NULL, 0);
  const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
  if (!def) kc_unclaimed("it has no f32 MatMul");
  kc_run *run = kc_run_of(node, def, &op, &kc_plain);
  double best = 1e18;
  for (int i = 0; i < 4; i++) {
    uint64_t begin = kc_now();
    kc_ok(kc_run_now(run), "run");
    double time = (double)(kc_now() - begin);
    if (time < best) best = time;
  }
  double rate = 2.0 * (double)n * (double)n * (double)n / best;
  double peak = (double)kc_info()->peak_flops_f32 / 1e9;
  bool far = peak > 0 && rate < 0.05 * peak;
  kc_check(
      true,
      " "); /* what else runs on the machine changes the rate: no verdict */
  kc_note("MatMul %lld: %.2f GFLOP/s, declared are %.0f%s", (long long)n, rate,
          peak, far ? ": a fallback, or a debug build?" : "");
  kc_run_free(run);
  kc_node_free(node);
  value_free(a);
  value_free(b);
}

#define RULE(severity, id, check, header, sentence, names, about) \
  KC_RULE(severity, CORE, id, check, KC_ALONE, header, sentence, names, about)

static const kc_rule rules[] = {
    RULE(SHOULD, "perf.launch", perf_launch, "kernel.h",
         "Runs the kernel, in the order of `stream`", "kd_kernel_def.enqueue",
         "What a launch costs on the host. keel-conformance bench has more."),
    RULE(INFO, "perf.copies", perf_copies, "memory.h",
         "Copies from host memory into a buffer", "kd_memory_table.copy_in",
         "Bandwidths, for the report."),
    RULE(SHOULD, "perf.alloc", perf_alloc, "memory.h",
         "Allocates a buffer of at least `size` bytes (never 0)",
         "kd_memory_table.allocate", "Drivers take long: keep a pool."),
    RULE(SHOULD, "perf.no-recompile", perf_recompile, "kernel.h",
         "Creates an instance: compiles, selects, prepacks constants",
         "kd_kernel_def.create", "Compiling the same source twice."),
    RULE(SHOULD, "perf.idle", perf_idle, "plugin.h",
         "It uses no processor time while it has nothing to do",
         "kd_plugin.open",
         "A thread that polls takes a core from the application."),
    RULE(
        INFO, "perf.matmul-sane", perf_matmul, "device.h",
        "operations per second; 0: not known", "kd_device_info.peak_flops_f32",
        "A scalar fallback, or everything on one host thread; for the report."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(launch_slow, "perf.launch", KC_AROUND, "a launch takes 25 ms"),
    DEFECT_AS(alloc_slow, "perf.alloc", KC_AROUND, "an allocation takes 5 ms"),
    DEFECT_AS(recompiles, "perf.no-recompile", KC_AROUND, "each create takes 120 ms"),
    DEFECT_AS(spins, "perf.idle", KC_AROUND | KC_RACE, "a thread polls"),
};
/* clang-format on */

KC_AREA(perf, "Speed, as far as something is plainly wrong");
