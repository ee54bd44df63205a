/* models.c - a transformer block (128 tokens of 256, 4 heads, f32) on devices in turn:
 * how long a run takes, how much of it the device works by its own clock (what the raw
 * API would need for the same kernels, at the least), and that the outputs agree with
 * the first device's.
 *
 * usage: families_models [--option PLUGIN.NAME=VALUE] [DEVICE]...
 *        as `keel devices` lists them; all, if none */
#include <keel/keel.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOKENS 128
#define WIDTH  256
#define HEADS  4
#define ROUNDS 5

static keel_context *context;
static keel_builder *builder;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void fail(void) {
  fprintf(stderr, "families_models: %s\n", keel_message());
  exit(1);
}

/* Repeatable numbers in [-scale, scale). */
static float next_random(float scale) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return scale * ((float)(state >> 8) / 8388608.0f - 1.0f);
}

static keel_value weights(int64_t rows, int64_t columns, float scale) {
  const int64_t dims[2] = {rows, columns};
  float *data = malloc((size_t)(rows * columns) * sizeof *data);
  keel_tensor *tensor = NULL;
  if (!data) exit(1);
  for (int64_t i = 0; i < rows * columns; i++)
    data[i] = next_random(scale);
  if (keel_tensor_create(context, KD_F32, rows == 1 ? 1 : 2,
                         rows == 1 ? dims + 1 : dims, data, &tensor) != KD_OK)
    fail();
  keel_value value = keel_builder_constant(builder, tensor);
  keel_tensor_release(tensor);
  free(data);
  return value;
}

static keel_value ints(int64_t count, const int64_t *values) {
  keel_tensor *tensor = NULL;
  if (keel_tensor_create(context, KD_I64, 1, &count, values, &tensor) != KD_OK)
    fail();
  keel_value value = keel_builder_constant(builder, tensor);
  keel_tensor_release(tensor);
  return value;
}

static keel_value two(const char *op, keel_value a, keel_value b) {
  const keel_value in[] = {a, b};
  return keel_builder_op(builder, op, NULL, 0, in, 2);
}

static keel_value transposed(keel_value x, const int64_t *perm) {
  const keel_attr attr = KEEL_INTS("perm", 3, perm);
  return keel_builder_op(builder, "Transpose", &attr, 1, &x, 1);
}

static keel_value normed(keel_value x) {
  const keel_value in[] = {x, weights(1, WIDTH, 1), weights(1, WIDTH, 1)};
  return keel_builder_op(builder, "LayerNormalization", NULL, 0, in, 3);
}

static keel_value attention(keel_value x) {
  const int64_t split[3] = {TOKENS, HEADS, WIDTH / HEADS};
  const int64_t joined[2] = {TOKENS, WIDTH};
  const int64_t heads_first[3] = {1, 0, 2}, keys[3] = {1, 2, 0};
  const float scale = 1 / sqrtf((float)WIDTH / HEADS);
  const int64_t one = 1;
  keel_tensor *factor = NULL;
  keel_value parts[3];
  for (int i = 0; i < 3; i++) {
    parts[i] = two("MatMul", x, weights(WIDTH, WIDTH, 0.1f));
    parts[i] = two("Reshape", parts[i], ints(3, split));
    parts[i] = transposed(parts[i], i == 1 ? keys : heads_first);
  }
  if (keel_tensor_create(context, KD_F32, 1, &one, &scale, &factor) != KD_OK)
    fail();
  keel_value scores = two("Mul", two("MatMul", parts[0], parts[1]),
                          keel_builder_constant(builder, factor));
  keel_tensor_release(factor);
  scores = keel_builder_op(builder, "Softmax", NULL, 0, &scores, 1);
  keel_value mixed = transposed(two("MatMul", scores, parts[2]), heads_first);
  mixed = two("Reshape", mixed, ints(2, joined));
  return two("MatMul", mixed, weights(WIDTH, WIDTH, 0.1f));
}

static keel_program *block(void) {
  const int64_t dims[2] = {TOKENS, WIDTH};
  keel_program *program = NULL;
  if (keel_builder_create(context, "block", &builder) != KD_OK) fail();
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, dims);
  x = normed(two("Add", x, attention(x)));
  keel_value y = two("MatMul", x, weights(WIDTH, 4 * WIDTH, 0.1f));
  y = two("Add", y, weights(1, 4 * WIDTH, 0.1f));
  y = keel_builder_op(builder, "Gelu", NULL, 0, &y, 1);
  y = two("MatMul", y, weights(4 * WIDTH, WIDTH, 0.1f));
  y = normed(two("Add", x, y));
  keel_builder_output(builder, "y", y);
  if (keel_builder_finish(builder, &program) != KD_OK) fail();
  keel_builder_destroy(builder);
  return program;
}

/* As replay.h has it. */
static void print_top5(const float *values) {
  int taken[5];
  printf("           top 5 of the last copy:");
  for (int k = 0; k < 5; k++) {
    int most = -1;
    for (int i = 0; i < TOKENS * WIDTH; i++) {
      int before = 0;
      for (int j = 0; j < k; j++)
        before |= taken[j] == i;
      if (!before && (most < 0 || values[i] > values[most])) most = i;
    }
    taken[k] = most;
    printf(" %d (%.4f)", most, (double)values[most]);
  }
  printf("\n");
}

/* Runs it, prints a line; `want` is filled by the first device. */
static int run_on(keel_program *program, const char *name, keel_tensor *x,
                  float *want, int first) {
  static float got[TOKENS * WIDTH];
  keel_plan *plan = NULL;
  keel_plan_params params = {.struct_size = sizeof params};
  keel_profile_device d = {0};
  double best = 1e30, worst = 0;
  if (keel_device_find(context, name, &params.device) != KD_OK ||
      keel_plan_create(program, &params, &plan) != KD_OK)
    fail();
  for (int i = -1; i < 2 * ROUNDS; i++) { /* the first one compiles */
    keel_tensor *y = NULL;
    if (i == ROUNDS)
      keel_plan_profile(plan, KEEL_PROFILE_OPS | KEEL_PROFILE_CLOCKS);
    double begin = now();
    if (keel_plan_run(plan, &x, 1, &y, 1) != KD_OK ||
        keel_tensor_read(y, first ? want : got, sizeof got) != KD_OK)
      fail();
    if (i >= 0 && i < ROUNDS && now() - begin < best) best = now() - begin;
    keel_tensor_release(y);
  }
  keel_plan_profile(plan, 0);
  for (uint32_t i = 0; keel_plan_profile_device(plan, i, &d) == KD_OK; i++)
    if (!strcmp(d.name, name)) break;
  for (size_t i = 0; !first && i < sizeof got / sizeof *got; i++) {
    double off = (double)fabsf(got[i] - want[i]);
    if (!(off <= worst)) worst = off;
  }
  double work = (double)(d.kernels + d.copies) * 1e-6 / ROUNDS;
  printf(
      "%-10s %9.2f ms a run; %9.2f ms of work %s; ratio %.2f; differs by"
      " %.1e\n",
      name, best, work, d.timed ? "by its clock" : "as the host saw it",
      best / work, worst);
  print_top5(first ? want : got);
  keel_plan_release(plan);
  return worst < 1e-3 ? 0 : 1;
}

int main(int argc, char **argv) {
  static float want[TOKENS * WIDTH], data[TOKENS * WIDTH];
  const int64_t dims[2] = {TOKENS, WIDTH};
  keel_tensor *x = NULL;
  int failed = 0;
  keel_context_params how = {.struct_size = sizeof how};
  const char *option =
      argc > 2 && !strcmp(argv[1], "--option") ? argv[2] : NULL;
  if (option) {
    how.options = &option;
    how.option_count = 1;
    argc -= 2;
    argv += 2;
  }
  if (keel_open(&how, &context) != KD_OK) fail();
  keel_program *program = block();
  for (size_t i = 0; i < sizeof data / sizeof *data; i++)
    data[i] = next_random(1);
  if (keel_tensor_create(context, KD_F32, 2, dims, data, &x) != KD_OK) fail();
  for (int i = 1; i < argc; i++)
    failed |= run_on(program, argv[i], x, want, i == 1);
  for (uint32_t i = 0; argc < 2 && i < keel_device_count(context); i++) {
    keel_device_facts facts;
    keel_device_describe(keel_device_at(context, i), &facts);
    failed |= run_on(program, facts.name, x, want, i == 0);
  }
  keel_tensor_release(x);
  keel_program_release(program);
  keel_close(context);
  return failed;
}
