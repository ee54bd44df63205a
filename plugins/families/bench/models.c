/* models.c - a transformer block (128 tokens of 256, 4 heads, f32) on devices in turn:
 * how long a run takes, how much of it the device works by its own clock (what the raw
 * API would need for the same kernels, at the least), and that the outputs agree with
 * the first device's.
 *
 * usage: families_models [--option PLUGIN.NAME=VALUE] [DEVICE]...
 *        as `keel devices` lists them; all, if none */
#include <math.h>

#include "families/bench/bench.h"

#define TOKENS 128
#define WIDTH  256
#define HEADS  4
#define ROUNDS 5

static keel_builder *builder;

/* Repeatable numbers in [-scale, scale). */
static float next_random(float scale) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return scale * ((float)(state >> 8) / 8388608.0f - 1.0f);
}

static keel_value constant(kd_dtype dtype, uint32_t rank, const int64_t *dims,
                           const void *data) {
  keel_tensor *tensor = bench_tensor(dtype, rank, dims, data);
  keel_value value = keel_builder_constant(builder, tensor);
  keel_tensor_release(tensor);
  return value;
}

static keel_value weights(int64_t rows, int64_t columns, float scale) {
  const int64_t dims[2] = {rows, columns};
  float *data = malloc((size_t)(rows * columns) * sizeof *data);
  if (!data) fail("no memory");
  for (int64_t i = 0; i < rows * columns; i++)
    data[i] = next_random(scale);
  keel_value value =
      constant(KD_F32, rows == 1 ? 1 : 2, rows == 1 ? dims + 1 : dims, data);
  free(data);
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
  keel_value parts[3];
  for (int i = 0; i < 3; i++) {
    parts[i] = two("MatMul", x, weights(WIDTH, WIDTH, 0.1f));
    parts[i] = two("Reshape", parts[i],
                   constant(KD_I64, 1, (const int64_t[]){3}, split));
    parts[i] = transposed(parts[i], i == 1 ? keys : heads_first);
  }
  keel_value scores = two("Mul", two("MatMul", parts[0], parts[1]),
                          constant(KD_F32, 1, &one, &scale));
  scores = keel_builder_op(builder, "Softmax", NULL, 0, &scores, 1);
  keel_value mixed = transposed(two("MatMul", scores, parts[2]), heads_first);
  mixed =
      two("Reshape", mixed, constant(KD_I64, 1, (const int64_t[]){2}, joined));
  return two("MatMul", mixed, weights(WIDTH, WIDTH, 0.1f));
}

static keel_program *block(void) {
  const int64_t dims[2] = {TOKENS, WIDTH};
  keel_program *program = NULL;
  need(keel_builder_create(the_context, "block", &builder));
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, dims);
  x = normed(two("Add", x, attention(x)));
  keel_value y = two("MatMul", x, weights(WIDTH, 4 * WIDTH, 0.1f));
  y = two("Add", y, weights(1, 4 * WIDTH, 0.1f));
  y = keel_builder_op(builder, "Gelu", NULL, 0, &y, 1);
  y = two("MatMul", y, weights(4 * WIDTH, WIDTH, 0.1f));
  y = normed(two("Add", x, y));
  keel_builder_output(builder, "y", y);
  need(keel_builder_finish(builder, &program));
  keel_builder_destroy(builder);
  return program;
}

/* Runs it, prints a line; `want` is filled by the first device. */
static int run_on(keel_program *program, const char *name, keel_tensor *x,
                  float *want, int first) {
  static float got[TOKENS * WIDTH];
  keel_plan *plan = NULL;
  keel_plan_params params = {.struct_size = sizeof params};
  keel_profile_device d = {0};
  double best = 1e30, worst = 0;
  need(keel_device_find(the_context, name, &params.device));
  need(keel_plan_create(program, &params, &plan));
  for (int i = -1; i < 2 * ROUNDS; i++) { /* the first one compiles */
    keel_tensor *y = NULL;
    if (i == ROUNDS)
      keel_plan_profile(plan, KEEL_PROFILE_OPS | KEEL_PROFILE_CLOCKS);
    double begin = now();
    need(keel_plan_run(plan, &x, 1, &y, 1));
    need(keel_tensor_read(y, first ? want : got, sizeof got));
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
  double work = (double)(d.kernels + d.copies) / ROUNDS;
  printf(
      "%-10s %9.2f ms a run; %9.2f ms of work %s; ratio %.2f; differs by"
      " %.1e\n",
      name, best * 1e-6, work * 1e-6,
      d.timed ? "by its clock" : "as the host saw it", best / work, worst);
  printf("           ");
  bench_print_top(first ? want : got, TOKENS * WIDTH);
  keel_plan_release(plan);
  return worst < 1e-3 ? 0 : 1;
}

int main(int argc, char **argv) {
  static float want[TOKENS * WIDTH], data[TOKENS * WIDTH];
  const int64_t dims[2] = {TOKENS, WIDTH};
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
  need(keel_open(&how, &the_context));
  keel_program *program = block();
  for (size_t i = 0; i < sizeof data / sizeof *data; i++)
    data[i] = next_random(1);
  keel_tensor *x = bench_tensor(KD_F32, 2, dims, data);
  for (int i = 1; i < argc; i++)
    failed |= run_on(program, argv[i], x, want, i == 1);
  for (uint32_t i = 0; argc < 2 && i < keel_device_count(the_context); i++) {
    keel_device_facts facts;
    keel_device_describe(keel_device_at(the_context, i), &facts);
    failed |= run_on(program, facts.name, x, want, i == 0);
  }
  keel_tensor_release(x);
  keel_program_release(program);
  keel_close(the_context);
  return failed;
}
