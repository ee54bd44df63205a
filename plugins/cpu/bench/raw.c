/* raw.c - the libraries underneath, called directly: what the plugin is held
 * against.
 *
 *   raw gemm N THREADS      best of OpenBLAS (over its core types) and oneDNN
 *   raw convs THREADS       the sum of ResNet-50's convolutions in oneDNN, ReLU
 *                           fused, formats of its own choice, OpenMP
 *
 * Prints milliseconds: the least of many runs. Each library is measured in a
 * child of its own, because it reads its settings while it loads. */
#include <dlfcn.h>
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "convs.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static float *filled(size_t count) {
  float *data = aligned_alloc(64, (count * sizeof *data + 63) & ~(size_t)63);
  for (size_t i = 0; data && i < count; i++)
    data[i] = (float)(i * 7 % 13) / 13 - 0.5f;
  return data;
}

/* Runs `work` in a child with a variable set; what it returns, or -1. */
static double in_child(const char *variable, const char *value,
                       double (*work)(int, int), int a, int b) {
  int ends[2];
  double result = -1;
  if (pipe(ends) != 0) return -1;
  pid_t child = fork();
  if (child == 0) {
    char threads[16];
    snprintf(threads, sizeof threads, "%d", b);
    setenv(variable, value, 1);
    setenv("OPENBLAS_NUM_THREADS", threads, 1);
    setenv("OMP_NUM_THREADS", threads, 1);
    result = work(a, b);
    _exit(write(ends[1], &result, sizeof result) != sizeof result);
  }
  close(ends[1]);
  if (child < 0 || read(ends[0], &result, sizeof result) != sizeof result)
    result = -1;
  close(ends[0]);
  waitpid(child, NULL, 0);
  return result;
}

/* ---- products ------------------------------------------------------------------- */

typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *,
                         int, const float *, int, float, float *, int);

static double openblas(int n, int threads) {
  (void)threads;
  void *handle = dlopen("libopenblas.so.0", RTLD_NOW);
  sgemm_fn sgemm = NULL;
  if (handle) *(void **)&sgemm = dlsym(handle, "cblas_sgemm");
  size_t count = (size_t)n * (size_t)n;
  float *a = filled(count), *b = filled(count), *c = filled(count);
  double best = 1e30;
  if (!sgemm) return -1;
  for (double end = now() + 400, begin; (begin = now()) < end;) {
    sgemm(101, 111, 111, n, n, n, 1, a, n, b, n, 0, c, n);
    double time = now() - begin;
    best = time < best ? time : best;
  }
  return best;
}

/* OpenMP has read its variables already; it is told by its own call. */
static void set_team(int threads) {
  void (*set)(int) = NULL;
  *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  if (set) set(threads);
}

static double onednn(int n, int threads) {
  set_team(threads);
  size_t count = (size_t)n * (size_t)n;
  float *a = filled(count), *b = filled(count), *c = filled(count);
  double best = 1e30;
  for (double end = now() + 400, begin; (begin = now()) < end;) {
    dnnl_sgemm('N', 'N', n, n, n, 1, a, n, b, n, 0, c, n);
    double time = now() - begin;
    best = time < best ? time : best;
  }
  return best;
}

static int gemm(int n, int threads) {
  static const char *const cores[] = {"Haswell", "SkylakeX", "Zen",
                                      "Cooperlake"};
  double best = in_child("KEEL_UNUSED", "1", onednn, n, threads);
  printf("# oneDNN %.3f", best);
  for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
    double time = in_child("OPENBLAS_CORETYPE", cores[i], openblas, n, threads);
    printf(" %s %.3f", cores[i], time);
    if (time > 0 && (best < 0 || time < best)) best = time;
  }
  printf("\n%.4f\n", best);
  return 0;
}

/* ---- convolutions ------------------------------------------------------------------ */

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void check(dnnl_status_t status) {
  if (status != dnnl_success) {
    fprintf(stderr, "raw: oneDNN fails with status %d\n", (int)status);
    exit(1);
  }
}

static dnnl_memory_t memory_of(const dnnl_memory_desc_t *desc) {
  dnnl_memory_t memory = NULL;
  check(dnnl_memory_create(&memory, desc, engine,
                           filled(dnnl_memory_desc_get_size(desc) / 4 + 16)));
  return memory;
}

static double one_conv(size_t i, int images) {
  int size = convs[i].size,
      out = (size + convs[i].stride - 1) / convs[i].stride;
  dnnl_dims_t source = {images, convs[i].in, size, size};
  dnnl_dims_t weights = {convs[i].out, convs[i].in, convs[i].window,
                         convs[i].window};
  dnnl_dims_t bias = {convs[i].out}, target = {images, convs[i].out, out, out};
  dnnl_dims_t stride = {convs[i].stride, convs[i].stride}, none = {0, 0};
  int64_t pad = convs[i].window / 2;
  dnnl_dims_t pads = {pad, pad};
  dnnl_memory_desc_t descs[4];
  dnnl_convolution_desc_t conv;
  dnnl_primitive_desc_t made = NULL;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_post_ops_t ops = NULL;
  dnnl_primitive_t primitive = NULL;
  check(dnnl_memory_desc_init_by_tag(&descs[0], 4, source, dnnl_f32,
                                     dnnl_format_tag_any));
  check(dnnl_memory_desc_init_by_tag(&descs[1], 4, weights, dnnl_f32,
                                     dnnl_format_tag_any));
  check(dnnl_memory_desc_init_by_tag(&descs[2], 1, bias, dnnl_f32, dnnl_a));
  check(dnnl_memory_desc_init_by_tag(&descs[3], 4, target, dnnl_f32,
                                     dnnl_format_tag_any));
  check(dnnl_dilated_convolution_forward_desc_init(
      &conv, dnnl_forward_inference, dnnl_convolution_direct, &descs[0],
      &descs[1], &descs[2], &descs[3], stride, none, pads, pads));
  check(dnnl_primitive_attr_create(&attr));
  check(dnnl_post_ops_create(&ops));
  check(dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0));
  check(dnnl_primitive_attr_set_post_ops(attr, ops));
  check(dnnl_primitive_desc_create(&made, &conv, attr, engine, NULL));
  check(dnnl_primitive_create(&primitive, made));
  dnnl_exec_arg_t args[] = {
      {DNNL_ARG_SRC,
       memory_of(dnnl_primitive_desc_query_md(made, dnnl_query_src_md, 0))},
      {DNNL_ARG_WEIGHTS,
       memory_of(dnnl_primitive_desc_query_md(made, dnnl_query_weights_md, 0))},
      {DNNL_ARG_BIAS, memory_of(&descs[2])},
      {DNNL_ARG_DST,
       memory_of(dnnl_primitive_desc_query_md(made, dnnl_query_dst_md, 0))}};
  double best = 1e30;
  for (int k = 0; k < 12; k++) {
    double begin = now();
    check(dnnl_primitive_execute(primitive, stream, 4, args));
    check(dnnl_stream_wait(stream));
    double time = now() - begin;
    best = time < best ? time : best;
  }
  return best * convs[i].times;
}

static double all_convs(int images, int threads) {
  double sum = 0;
  set_team(threads);
  check(dnnl_engine_create(&engine, dnnl_cpu, 0));
  check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
  for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
    sum += one_conv(i, images);
  return sum;
}

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "gemm"))
    return gemm((int)strtol(argv[2], NULL, 10), (int)strtol(argv[3], NULL, 10));
  if (argc == 3 && !strcmp(argv[1], "convs")) {
    printf("%.4f\n", in_child("KEEL_UNUSED", "1", all_convs, 1,
                              (int)strtol(argv[2], NULL, 10)));
    return 0;
  }
  fprintf(stderr, "usage: raw gemm N THREADS | raw convs THREADS\n");
  return 2;
}
