/* resnet50.c - ResNet-50 v1.5, built op by op, with seeded weights.
 *
 * The network is that of He et al. (CVPR 2016), with the stride in the 3x3
 * convolution, as Torchvision and NVIDIA have it ("v1.5"). The weights are
 * random, so what it sees in its input means nothing; its work is real.
 *
 *   resnet50 [--device D] [--option PLUGIN.NAME=VALUE] [--batch N]
 *            [--size PIXELS] [--repeat N] [--seed N] [--f16] [--eager]
 *            [--no-replay] [--profile]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <keel/debug.h>
#include <keel/keel.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static keel_context *context;
static keel_builder *builder;
static uint64_t state;
static long side = 224;        /* of the pictures, in pixels */
static kd_dtype type = KD_F32; /* of all numbers in it */
static keel_device
    *place; /* where weights are; NULL: where a plan wants them */

/* ---- random weights ----------------------------------------------------------- */

/* SplitMix64, then the sum of four for a bell: mean 0, variance 1. */
static float random_normal(void) {
  double sum = 0;
  for (int i = 0; i < 4; i++) {
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    sum += (double)((z ^ (z >> 31)) >> 11) * 0x1p-53 - 0.5;
  }
  return (float)(sum * 1.7320508);
}

/* A tensor of these numbers, in the network's type. */
static keel_status make_tensor(uint32_t rank, const int64_t *dims,
                               const float *data, keel_tensor **out) {
  const keel_attr to = KEEL_INT("to", 10); /* ONNX's number of FLOAT16 */
  keel_device *cpu = NULL;
  keel_tensor *wide = NULL;
  *out = NULL;
  keel_status status =
      keel_tensor_create(context, KD_F32, rank, dims, data, &wide);
  if (type == KD_F32) {
    *out = wide;
    return status;
  }
  if (status == KD_OK) status = keel_device_find(context, "cpu", &cpu);
  if (status == KD_OK) status = keel_device_push(cpu);
  if (status == KD_OK) {
    status = keel_call(context, "Cast", &to, 1, &wide, 1, out, 1);
    keel_device_pop();
  }
  keel_tensor_release(wide);
  return status;
}

/* A constant of random numbers around `mean`. */
static keel_value weights(uint32_t rank, const int64_t *dims, float mean,
                          float deviation) {
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= dims[i];
  float *data = malloc((size_t)count * sizeof *data);
  keel_tensor *tensor = NULL;
  for (int64_t i = 0; data && i < count; i++)
    data[i] = mean + deviation * random_normal();
  if (data) make_tensor(rank, dims, data, &tensor);
  if (tensor && place) {
    keel_tensor *there = NULL;
    keel_tensor_to(tensor, place, &there);
    keel_tensor_release(tensor);
    tensor = there;
  }
  keel_value value = keel_builder_constant(builder, tensor);
  keel_tensor_release(tensor);
  free(data);
  return value;
}

/* ---- layers --------------------------------------------------------------------- */

static keel_value conv_norm(keel_value x, int64_t in, int64_t out,
                            int64_t kernel, int64_t stride, int relu) {
  const int64_t dims[] = {out, in, kernel, kernel};
  const int64_t shape[] = {kernel, kernel}, strides[] = {stride, stride};
  const int64_t pad = kernel / 2, pads[] = {pad, pad, pad, pad};
  const keel_attr attrs[] = {KEEL_INTS("kernel_shape", 2, shape),
                             KEEL_INTS("strides", 2, strides),
                             KEEL_INTS("pads", 4, pads)};
  float deviation = sqrtf(2.0f / (float)(in * kernel * kernel));
  keel_value conv[] = {x, weights(4, dims, 0, deviation)};
  keel_value norm[] = {keel_builder_op(builder, "Conv", attrs, 3, conv, 2),
                       weights(1, &out, relu ? 1 : 0.3f, 0.05f),
                       weights(1, &out, 0, 0.05f), weights(1, &out, 0, 0.05f),
                       weights(1, &out, 1, 0.02f)};
  keel_value y =
      keel_builder_op(builder, "BatchNormalization", NULL, 0, norm, 5);
  return relu ? keel_builder_op(builder, "Relu", NULL, 0, &y, 1) : y;
}

static keel_value bottleneck(keel_value x, int64_t in, int64_t width,
                             int64_t stride) {
  keel_value y = conv_norm(x, in, width, 1, 1, 1);
  y = conv_norm(y, width, width, 3, stride, 1);
  y = conv_norm(y, width, 4 * width, 1, 1, 0);
  if (in != 4 * width || stride != 1)
    x = conv_norm(x, in, 4 * width, 1, stride, 0);
  keel_value sum[] = {y, x};
  y = keel_builder_op(builder, "Add", NULL, 0, sum, 2);
  return keel_builder_op(builder, "Relu", NULL, 0, &y, 1);
}

static keel_program *build(int64_t batch) {
  const int64_t image[] = {batch, 3, side, side}, three[] = {3, 3};
  const int64_t two[] = {2, 2}, ones[] = {1, 1, 1, 1}, classes = 1000;
  const int64_t fc[] = {1000, 2048}, blocks[] = {3, 4, 6, 3};
  const keel_attr pool[] = {KEEL_INTS("kernel_shape", 2, three),
                            KEEL_INTS("strides", 2, two),
                            KEEL_INTS("pads", 4, ones)};
  const keel_attr transposed = KEEL_INT("transB", 1);
  keel_program *program = NULL;
  if (keel_builder_create(context, "resnet50", &builder) != KD_OK) return NULL;
  keel_value x = keel_builder_input(builder, "image", type, 4, image);
  x = conv_norm(x, 3, 64, 7, 2, 1);
  x = keel_builder_op(builder, "MaxPool", pool, 3, &x, 1);
  int64_t channels = 64;
  for (int stage = 0; stage < 4; stage++)
    for (int64_t i = 0; i < blocks[stage]; i++) {
      int64_t width = INT64_C(64) << stage;
      x = bottleneck(x, channels, width, i == 0 && stage > 0 ? 2 : 1);
      channels = 4 * width;
    }
  x = keel_builder_op(builder, "GlobalAveragePool", NULL, 0, &x, 1);
  x = keel_builder_op(builder, "Flatten", NULL, 0, &x, 1);
  keel_value gemm[] = {x, weights(2, fc, 0, 0.02f),
                       weights(1, &classes, 0, 0.02f)};
  x = keel_builder_op(builder, "Gemm", &transposed, 1, gemm, 3);
  const keel_attr wide = KEEL_INT("to", 1); /* FLOAT */
  if (type != KD_F32) x = keel_builder_op(builder, "Cast", &wide, 1, &x, 1);
  x = keel_builder_op(builder, "Softmax", NULL, 0, &x, 1);
  keel_builder_output(builder, "probabilities", x);
  keel_builder_finish(builder, &program);
  keel_builder_destroy(builder);
  return program;
}

/* ---- running --------------------------------------------------------------------- */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Of the first row; changes it. */
static void print_top5(float *p, int64_t rows) {
  printf("top 5 of the first of %lld:", (long long)rows);
  for (int k = 0; k < 5; k++) {
    int best = 0;
    for (int i = 1; i < 1000; i++)
      best = p[i] > p[best] ? i : best;
    printf(" %d (%.4f)", best, (double)p[best]);
    p[best] = -1;
  }
  printf("\n");
}

static void print_profile(keel_plan *plan) {
  keel_profile_line line;
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++)
    printf("%9.3f ms  %-18s %s\n",
           (double)line.time / (double)(line.calls ? line.calls : 1) * 1e-6,
           line.op, line.types);
}

static int run(keel_plan *plan, int64_t batch, int repeat, int profile) {
  const int64_t dims[] = {batch, 3, side, side};
  size_t count = (size_t)(batch * 3 * side * side);
  float *pixels = malloc(count * sizeof *pixels);
  size_t size = (size_t)batch * 1000 * sizeof(float);
  float *seen = malloc(size);
  double *times = malloc((size_t)repeat * sizeof *times);
  keel_tensor *image = NULL, *output = NULL;
  keel_status status = pixels && times && seen ? KD_OK : KD_OUT_OF_MEMORY;
  for (size_t i = 0; i < count && pixels; i++)
    pixels[i] = random_normal();
  if (status == KD_OK) status = make_tensor(4, dims, pixels, &image);
  for (int i = -3; i < repeat && status == KD_OK; i++) {
    keel_tensor_release(output);
    output = NULL;
    if (i == 0 && profile)
      keel_plan_profile(plan, KEEL_PROFILE_OPS | KEEL_PROFILE_CLOCKS);
    double begin = now();
    status = keel_plan_run(plan, &image, 1, &output, 1);
    /* reading waits until the device has done it all */
    if (status == KD_OK) status = keel_tensor_read(output, seen, size);
    if (i >= 0) /* the first three warm up */
      times[i] = now() - begin;
  }
  if (status == KD_OK) {
    qsort(times, (size_t)repeat, sizeof *times, by_size);
    if (profile) print_profile(plan);
    print_top5(seen, batch);
    printf("batch %lld: best %.2f ms, median %.2f ms of %d runs\n",
           (long long)batch, times[0] * 1e3, times[repeat / 2] * 1e3, repeat);
    uint64_t planned = 0, apart = 0;
    if (keel_plan_memory(plan, &planned, &apart, NULL) == KD_OK)
      printf("intermediate values: %.1f MiB, and %.1f MiB without sharing\n",
             (double)planned / (1u << 20), (double)apart / (1u << 20));
    if (keel_plan_replays(plan))
      printf("%llu runs were launches of a recording\n",
             (unsigned long long)keel_plan_replays(plan));
  }
  keel_tensor_release(image);
  keel_tensor_release(output);
  free(pixels);
  free(seen);
  free(times);
  return status == KD_OK ? 0 : 1;
}

int main(int argc, char **argv) {
  const char *device = NULL;
  const char *options[8];
  keel_context_params how = {.struct_size = sizeof how, .options = options};
  long batch = 1, repeat = 20, seed = 1;
  int profile = 0;
  uint32_t flags = 0;
  for (int i = 1; i < argc; i++) {
    long *number = i + 1 == argc                  ? NULL
                   : !strcmp(argv[i], "--batch")  ? &batch
                   : !strcmp(argv[i], "--repeat") ? &repeat
                   : !strcmp(argv[i], "--seed")   ? &seed
                   : !strcmp(argv[i], "--size")   ? &side
                                                  : NULL;
    if (number) {
      *number = strtol(argv[++i], NULL, 10);
    } else if (!strcmp(argv[i], "--profile")) {
      profile = 1;
    } else if (!strcmp(argv[i], "--f16")) {
      type = KD_F16;
    } else if (!strcmp(argv[i], "--eager")) {
      flags |= KEEL_PLAN_EAGER;
    } else if (!strcmp(argv[i], "--no-replay")) {
      flags |= KEEL_PLAN_NO_REPLAY;
    } else if (i + 1 < argc && !strcmp(argv[i], "--device")) {
      device = argv[++i];
    } else if (i + 1 < argc && !strcmp(argv[i], "--option") &&
               how.option_count < 8) {
      options[how.option_count++] = argv[++i];
    } else {
      fprintf(stderr,
              "usage: resnet50 [--device D] [--option PLUGIN.NAME=VALUE]"
              " [--batch N] [--size PIXELS] [--repeat N] [--seed N] [--f16]"
              " [--eager] [--no-replay] [--profile]\n");
      return strcmp(argv[i], "--help") ? 2 : 0;
    }
  }
  if (batch < 1 || batch > 256 || repeat < 1 || repeat > 100000 || side < 32 ||
      side > 1024) {
    fprintf(stderr,
            "resnet50: --batch is from 1 to 256, --repeat from 1 to 100000,"
            " --size from 32 to 1024\n");
    return 2;
  }
  state = (uint64_t)seed;
  keel_plan_params params = {.struct_size = sizeof params, .flags = flags};
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  int result = 1;
  bool found = keel_open(&how, &context) == KD_OK &&
               keel_device_find(context, device, &params.device) == KD_OK;
  /* called op by op, a device would get them anew in each run */
  if (flags & KEEL_PLAN_EAGER) place = params.device;
  if (found && (program = build(batch)) &&
      keel_plan_create(program, &params, &plan) == KD_OK) {
    /* the plan keeps of the weights what its kernels have no form of their own of */
    keel_program_release(program);
    program = NULL;
    result = run(plan, batch, (int)repeat, profile);
  }
  if (result) fprintf(stderr, "resnet50: %s\n", keel_message());
  keel_plan_release(plan);
  keel_program_release(program);
  keel_close(context);
  return result;
}
