/* chain_test.c - chains of elementwise ops, compiled as one, give what the ops give one
 * by one: random chains of several types with broadcasting, on a device; some behind a
 * product or a convolution, which may be compiled into one with them.
 *
 * usage: families_chain DEVICE CHAINS [exact]      exact: to the bit */
#include <keel/keel.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40, INPUTS = 4 };

static keel_context *context;
static keel_device *device;
static uint32_t state;
static int exact;

static uint32_t below(uint32_t most) {
  state = state * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(state >> 8) * most >> 24);
}

static void stop(const char *what) {
  fprintf(stderr, "families_chain: %s: %s\n", what, keel_message());
  exit(2);
}

/* ---- a program ------------------------------------------------------------------ */

typedef struct program {
  keel_builder *builder;
  kd_dtype type;
  keel_value full[MOST]; /* values of the whole shape */
  uint32_t full_count;
  keel_value inputs[INPUTS];
  int64_t dims[3], shapes[INPUTS][3];
  uint32_t ops;
} program;

static keel_value add_op(program *p, const char *op, const keel_attr *attrs,
                         uint32_t attr_count, const keel_value *in,
                         uint32_t count) {
  p->ops++;
  return keel_builder_op(p->builder, op, attrs, attr_count, in, count);
}

/* As another type, by the default device; releases the tensor. */
static keel_tensor *cast(keel_tensor *tensor, kd_dtype type) {
  const keel_attr to = KEEL_INT("to", type == KD_F16   ? 10
                                      : type == KD_I32 ? 6
                                                       : 1);
  keel_tensor *out = NULL;
  if (keel_call(context, "Cast", &to, 1, &tensor, 1, &out, 1) != KD_OK)
    stop("a cast");
  keel_tensor_release(tensor);
  return out;
}

static keel_value scalar(program *p, float number) {
  keel_tensor *tensor = NULL;
  if (keel_tensor_create(context, KD_F32, 0, NULL, &number, &tensor) != KD_OK)
    stop("a constant");
  tensor = cast(tensor, p->type);
  keel_value value = keel_builder_constant(p->builder, tensor);
  keel_tensor_release(tensor);
  return value;
}

/* Of the whole shape mostly, or an input that is broadcast, or a number. */
static keel_value other(program *p) {
  uint32_t kind = below(5);
  if (kind == 0) return p->inputs[1 + below(INPUTS - 1)];
  if (kind == 1) return scalar(p, (float)below(7) - 3);
  return p->full[below(p->full_count)];
}

static keel_value add_one(program *p, keel_value x) {
  static const char *const floats[] = {
      "Relu",      "Tanh", "Sigmoid",     "Abs",      "Neg",
      "LeakyRelu", "Erf",  "HardSigmoid", "Softsign", "Elu"};
  static const char *const integers[] = {"Abs", "Neg", "Sign"};
  if (p->type == KD_I32) return add_op(p, integers[below(3)], NULL, 0, &x, 1);
  const char *op = floats[below(10)];
  const keel_attr alpha = KEEL_FLOAT("alpha", 0.3f);
  int has = !strcmp(op, "LeakyRelu") || !strcmp(op, "HardSigmoid") ||
            !strcmp(op, "Elu");
  return add_op(p, op, &alpha, has ? 1 : 0, &x, 1);
}

static keel_value add_two(program *p, keel_value x) {
  static const char *const names[] = {"Add", "Sub", "Mul", "Max", "Min"};
  keel_value pair[2] = {x, other(p)};
  if (below(2)) {
    keel_value swap = pair[0];
    pair[0] = pair[1];
    pair[1] = swap;
  }
  return add_op(p, names[below(5)], NULL, 0, pair, 2);
}

/* A choice by inputs, so that rounding does not turn it. */
static keel_value add_choice(program *p, keel_value x) {
  keel_value pair[2] = {p->inputs[0], scalar(p, 1)};
  keel_value three[3] = {
      add_op(p, below(2) ? "Greater" : "Less", NULL, 0, pair, 2), x, other(p)};
  return add_op(p, "Where", NULL, 0, three, 3);
}

static keel_value add_many(program *p, keel_value x) {
  keel_value three[3] = {x, 0, 0};
  if (below(2)) { /* Clip */
    three[1] = below(3) ? scalar(p, -1) : KEEL_ABSENT;
    three[2] = scalar(p, 2);
    return add_op(p, "Clip", NULL, 0, three, 3);
  }
  three[1] = other(p);
  three[2] = p->full[below(p->full_count)];
  return add_op(p, p->type == KD_I32 || below(2) ? "Max" : "Sum", NULL, 0,
                three, p->type == KD_F16 ? 2 : 3);
}

/* What a chain of floats may stand behind, of an input and weights. */
static keel_value add_root(program *p) {
  static float data[40 * 40];
  const int64_t filters[3] = {p->dims[1], p->dims[1], 3};
  const int64_t matrix[2] = {p->dims[2], p->dims[2]};
  const int64_t pads[] = {1, 1};
  const keel_attr around = KEEL_INTS("pads", 2, pads);
  bool product = p->dims[2] <= 40 && below(2);
  int64_t count = product ? matrix[0] * matrix[1] : 3 * filters[0] * filters[1];
  keel_tensor *tensor = NULL;
  for (int64_t i = 0; i < count; i++)
    data[i] = (float)below(64) / 256 - 0.125f;
  if (keel_tensor_create(context, KD_F32, product ? 2 : 3,
                         product ? matrix : filters, data, &tensor) != KD_OK)
    stop("weights");
  tensor = cast(tensor, p->type);
  keel_value pair[2] = {p->inputs[0],
                        keel_builder_constant(p->builder, tensor)};
  keel_tensor_release(tensor);
  return product ? add_op(p, "MatMul", NULL, 0, pair, 2)
                 : add_op(p, "Conv", &around, 1, pair, 2);
}

static keel_program *build(program *p) {
  keel_program *made = NULL;
  if (keel_builder_create(context, "chain", &p->builder) != KD_OK)
    stop("a builder");
  for (int i = 0; i < 3; i++)
    p->dims[i] = 1 + below(i == 2 ? 40 : 5);
  if (!below(8)) p->dims[2] = 5000; /* more than a block */
  if (!below(12)) p->dims[1] = 0;
  for (int i = 0; i < INPUTS; i++) {
    char name[] = {'a', 0};
    name[0] = (char)('a' + i);
    for (int k = 0; k < 3; k++)
      p->shapes[i][k] = i && below(2) ? 1 : p->dims[k];
    p->inputs[i] =
        keel_builder_input(p->builder, name, p->type, 3, p->shapes[i]);
  }
  p->full[p->full_count++] = p->inputs[0];
  if (p->type != KD_I32 && p->dims[1] && below(2))
    p->full[p->full_count++] = add_root(p);
  uint32_t ops = 2 + below(20);
  for (uint32_t i = 0; i < ops; i++) {
    keel_value x =
        p->full[p->full_count - 1 - below(p->full_count > 2 ? 2 : 1)];
    uint32_t kind = below(10);
    p->full[p->full_count++] = kind < 4   ? add_one(p, x)
                               : kind < 8 ? add_two(p, x)
                               : kind < 9 ? add_choice(p, x)
                                          : add_many(p, x);
    if (!below(9))
      keel_builder_output(p->builder, "y", p->full[p->full_count - 1]);
  }
  keel_builder_output(p->builder, "z", p->full[p->full_count - 1]);
  if (keel_builder_finish(p->builder, &made) != KD_OK) stop("a program");
  keel_builder_destroy(p->builder);
  return made;
}

/* ---- running it ------------------------------------------------------------------- */

static keel_tensor *input(const program *p, int index, uint32_t seed) {
  static float data[5 * 5 * 5000];
  const int64_t *dims = p->shapes[index];
  keel_tensor *tensor = NULL;
  state = seed;
  for (int64_t i = 0; i < dims[0] * dims[1] * dims[2]; i++)
    data[i] = ((float)below(4000) / 500 - 4) * (p->type == KD_I32 ? 10 : 1);
  if (keel_tensor_create(context, KD_F32, 3, dims, data, &tensor) != KD_OK)
    stop("an input");
  return cast(tensor, p->type);
}

/* Runs it; returns how many regions there were, and how many products and convolutions
 * beside them. */
static uint32_t run(const program *p, keel_program *made, uint32_t seed,
                    int regions, uint32_t *out_roots, keel_tensor **y) {
  const char *skip = "regions";
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = device,
                                   .skip = &skip,
                                   .skip_count = regions ? 0 : 1};
  keel_plan *plan = NULL;
  keel_tensor *x[INPUTS];
  keel_profile_line line;
  uint32_t outputs = keel_program_output_count(made), found = 0;
  for (int i = 0; i < INPUTS; i++)
    x[i] = input(p, i, seed + (uint32_t)i);
  if (keel_plan_create(made, &params, &plan) != KD_OK) stop("a plan");
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  if (keel_plan_run(plan, x, INPUTS, y, outputs) != KD_OK) stop("a run");
  *out_roots = 0;
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++) {
    found += !strncmp(line.op, "Region", 6);
    *out_roots += !strcmp(line.op, "MatMul") || !strcmp(line.op, "Conv");
  }
  keel_plan_release(plan);
  for (int i = 0; i < INPUTS; i++)
    keel_tensor_release(x[i]);
  return found;
}

static int same(const program *p, keel_tensor **a, keel_tensor **b) {
  *a = cast(*a, KD_F32);
  *b = cast(*b, KD_F32);
  uint64_t size = keel_tensor_size(*a);
  float *x = malloc(size + 1), *y = malloc(size + 1);
  int good = size == keel_tensor_size(*b) && x && y &&
             keel_tensor_read(*a, x, size) == KD_OK &&
             keel_tensor_read(*b, y, size) == KD_OK;
  float slack = exact || p->type == KD_I32 ? 0
                : p->type == KD_F16        ? 0.03f
                                           : 2e-5f;
  for (uint64_t i = 0; good && i < size / sizeof *x; i++) {
    good = (x[i] != x[i] && y[i] != y[i]) || x[i] == y[i] ||
           fabsf(y[i] - x[i]) <= slack * (1 + fabsf(x[i]));
    if (!good)
      fprintf(stderr, "element %llu is %g, op by op %g\n",
              (unsigned long long)i, (double)y[i], (double)x[i]);
  }
  free(x);
  free(y);
  return good;
}

int main(int argc, char **argv) {
  uint32_t regions = 0, ops = 0, roots = 0, inside = 0;
  if (argc < 3 || argc > 4 || keel_open(NULL, &context) != KD_OK ||
      keel_device_find(context, argv[1], &device) != KD_OK) {
    fprintf(stderr, "usage: families_chain DEVICE CHAINS [exact]: %s\n",
            keel_message());
    return 2;
  }
  exact = argc == 4;
  uint32_t rounds = (uint32_t)strtoul(argv[2], NULL, 10);
  for (uint32_t round = 0; round < rounds; round++) {
    static const kd_dtype types[] = {KD_F32, KD_F32, KD_I32, KD_F16};
    keel_tensor *want[MOST], *got[MOST];
    program p = {.type = types[round % 4]};
    state = round * 1013 + 7;
    keel_program *made = build(&p);
    uint32_t outputs = keel_program_output_count(made);
    uint32_t all = 0, beside = 0;
    run(&p, made, round, 0, &all, want);
    regions += run(&p, made, round, 1, &beside, got);
    ops += p.ops;
    roots += all;
    inside += all - beside;
    for (uint32_t i = 0; i < outputs; i++) {
      if (!same(&p, &want[i], &got[i])) {
        fprintf(stderr, "round %u, output %u differs on %s\n", round, i,
                argv[1]);
        return 1;
      }
      keel_tensor_release(want[i]);
      keel_tensor_release(got[i]);
    }
    keel_program_release(made);
  }
  keel_close(context);
  printf(
      "%u ops in chains, %u regions, with %u of %u products and convolutions:"
      " as one by one\n",
      ops, regions, inside, roots);
  return regions >= rounds ? 0 : 1;
}
