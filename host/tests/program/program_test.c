/* program_test.c - programs built and run: alone, at once, and with mistakes. */
#include <pthread.h>

#define WORKERS 2
#include "with_cpu.h"

/* A wide program: y = sum over k of Relu(x + k). */
static keel_program *wide(int width) {
  keel_builder *builder = create_builder(context, "wide");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(-1)), sum = x;
  for (int k = 0; k < width; k++) {
    float number = (float)k;
    keel_value y =
        op(builder, "Add", x, add_constant(builder, KD_F32, 0, NULL, &number));
    sum = op(builder, "Add", sum, op(builder, "Relu", y, KEEL_ABSENT));
  }
  return program_giving(builder, sum);
}

static const char *const none_of[] = {"fuse", "layout", "fold", "cse"};

/* Without the first `skipped` of those. */
static keel_plan *plan_of(keel_program *program, uint32_t skipped) {
  return create_plan(program,
                     PLAN_PARAMS(.skip = none_of, .skip_count = skipped));
}

TEST_THAT(open_dimensions_take_any_size) {
  keel_program *program = wide(3);
  keel_plan *plan = plan_of(program, 0);
  keel_program_release(program); /* the plan keeps what it needs */
  for (int64_t n = 0; n < 20; n++) {
    float data[20];
    for (int64_t i = 0; i < n; i++)
      data[i] = (float)i;
    keel_tensor *x = floats(context, n, data), *y = output_of(plan, &x, 1);
    for (int64_t i = 0; i < n; i++)
      data[i] = (float)i * 4 + 3;
    expect_floats(y, data, (size_t)n);
    RELEASE(x, y);
  }
  keel_plan_release(plan);
}

TEST_THAT(an_input_of_unknown_rank_takes_any_shape) {
  const float data[] = {1, -2, 3, -4}, want[] = {1, 0, 3, 0};
  const int64_t shapes[][2] = {{4, 1}, {2, 2}};
  keel_builder *builder = create_builder(context, "unranked");
  keel_value x =
      keel_builder_input(builder, "x", KD_F32, KEEL_RANK_UNKNOWN, NULL);
  keel_plan *plan =
      plan_giving(builder, op(builder, "Relu", x, KEEL_ABSENT), NULL);
  for (uint32_t rank = 1; rank <= 2; rank++) {
    keel_tensor *input =
        create_tensor(context, KD_F32, rank, shapes[rank - 1], data);
    keel_tensor *output = output_of(plan, &input, 1);
    assert_int_equal(keel_tensor_rank(output), rank);
    expect_floats(output, want, 4);
    RELEASE(input, output);
  }

  const int32_t number = 1;
  keel_tensor *none = NULL;
  keel_tensor *other = create_tensor(context, KD_I32, 0, NULL, &number);
  assert_int_equal(keel_plan_run(plan, &other, 1, &none, 1),
                   KD_INVALID_ARGUMENT); /* the element type was declared */
  RELEASE(other, plan);
}

TEST_THAT(inputs_are_never_written) {
  const float data[] = {1, 2}, want[] = {2, 4};
  keel_program *program = wide(1);
  keel_plan *plan = plan_of(program, 0);
  keel_tensor *x = floats(context, 2, data), *y = NULL;
  for (int i = 0; i < 10; i++) {
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    expect_floats(y, want, 2);
    expect_floats(x, data, 2);
    keel_tensor_release(y);
  }
  RELEASE(x, plan, program);
}

static keel_plan *shared;

static void *run_often(void *argument) {
  for (int i = 0; i < 100; i++) {
    const float data[] = {1};
    keel_tensor *x = floats(context, 1, data), *y = NULL;
    if (keel_plan_run(shared, &x, 1, &y, 1) != KD_OK ||
        *(const float *)keel_tensor_data(y) != 821)
      return argument;
    RELEASE(x, y);
  }
  return NULL;
}

TEST_THAT(one_plan_runs_many_times_at_once) {
  keel_program *program = wide(40);
  pthread_t threads[4];
  shared = plan_of(program, 0);
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, run_often, &shared);
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  RELEASE(shared, program);
}

TEST_THAT(a_failing_node_is_named_and_the_plan_goes_on) {
  const int64_t open = -1;
  const float two[] = {1, 2}, three[] = {1, 2, 3};
  keel_builder *builder = create_builder(context, "pair");
  keel_value a = keel_builder_input(builder, "a", KD_F32, 1, &open);
  keel_value b = keel_builder_input(builder, "b", KD_F32, 1, &open);
  keel_value y = op(builder, "Relu", op(builder, "Add", a, b), KEEL_ABSENT);
  keel_program *program = program_giving(builder, y);
  keel_plan *plan = plan_of(program, 0);
  keel_tensor *in[] = {floats(context, 2, two), floats(context, 3, three)};
  keel_tensor *same[] = {in[0], in[0]}, *out = NULL;
  expect_fails(keel_plan_run(plan, in, 2, &out, 1), KD_INVALID_ARGUMENT,
               "Add(A f32[2], B f32[3])");
  assert_null(out);
  expect_ok(keel_plan_run(plan, same, 2, &out, 1));
  keel_tensor_release(out);
  expect_fails(keel_plan_run(plan, same, 1, &out, 1), KD_INVALID_ARGUMENT,
               "2 inputs");
  release_all(in, 2);
  RELEASE(plan, program);
}

TEST_THAT(a_builder_remembers_its_first_mistake) {
  keel_program *program = NULL;
  keel_builder *builder = create_builder(context, "wrong");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(1));
  keel_value y = op(builder, "Reluu", x, KEEL_ABSENT);
  y = op(builder, "Neg", y, KEEL_ABSENT);
  keel_builder_output(builder, "y", y);
  expect_fails(keel_builder_finish(builder, &program), KD_NOT_FOUND,
               "did you mean Relu");
  assert_null(program);
  keel_builder_destroy(builder);
}

/* Conv, BatchNormalization, Add, Relu: with every pass and with none. */
TEST_THAT(passes_change_nothing_but_time) {
  const int64_t image[] = {1, 16, 6, 6}, filter[] = {16, 16, 3, 3}, n = 16;
  const int64_t ones[] = {1, 1, 1, 1};
  static float weights[16 * 16 * 9], vectors[4][16], pixels[16 * 36];
  const keel_attr pads = KEEL_INTS("pads", 4, ones);
  for (int i = 0; i < 16 * 16 * 9; i++)
    weights[i] = (float)(i * 7 % 11 - 5) / 16;
  for (int i = 0; i < 64; i++)
    vectors[i / 16][i % 16] = 1 + (float)(i % 5) / 8;
  for (int i = 0; i < 16 * 36; i++)
    pixels[i] = (float)(i * 5 % 17 - 8) / 8;
  keel_builder *builder = create_builder(context, "block");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 4, image);
  keel_value norm[5];
  norm[0] = add_constant(builder, KD_F32, 4, filter, weights);
  for (int i = 1; i < 5; i++)
    norm[i] = add_constant(builder, KD_F32, 1, &n, vectors[i - 1]);
  keel_value conv[] = {x, norm[0]};
  norm[0] = keel_builder_op(builder, "Conv", &pads, 1, conv, 2);
  keel_value y =
      op(builder, "Add",
         keel_builder_op(builder, "BatchNormalization", NULL, 0, norm, 5), x);
  y = op(builder, "Relu", y, KEEL_ABSENT);
  keel_value again[] = {y, conv[1]};
  y = keel_builder_op(builder, "Conv", &pads, 1, again, 2);
  y = op(builder, "Relu", y, KEEL_ABSENT);
  keel_program *program = program_giving(builder, y);

  float plain[16 * 36], passed[16 * 36];
  for (int all = 0; all < 2; all++) {
    keel_plan *plan = plan_of(program, all ? 0 : 4);
    keel_tensor *in = create_tensor(context, KD_F32, 4, image, pixels),
                *out = output_of(plan, &in, 1);
    expect_ok(keel_tensor_read(out, all ? passed : plain, sizeof plain));
    RELEASE(in, out, plan);
  }
  for (int i = 0; i < 16 * 36; i++)
    assert_true(plain[i] - passed[i] < 1e-3f && passed[i] - plain[i] < 1e-3f);
  keel_program_release(program);
}

/* Gemm, BatchNormalization: weights as they are or transposed, with a bias or without. */
static keel_program *normed_product(bool transposed, bool biased, float beta,
                                    float alpha) {
  enum { FROM = 5, TO = 3 };
  const int64_t rows[] = {2, FROM}, turned[] = {TO, FROM}, plain[] = {FROM, TO};
  const float vectors[5][TO] = {
      {1, -2, 3}, {2, 0.5f, 1}, {-1, 0, 4}, {3, 1, -2}, {1, 4, 0.25f}};
  const keel_attr attrs[] = {KEEL_INT("transB", transposed),
                             KEEL_FLOAT("beta", beta),
                             KEEL_FLOAT("alpha", alpha)};
  keel_value vector[5];
  float weights[FROM * TO];
  for (int i = 0; i < FROM * TO; i++)
    weights[i] = (float)(i * 7 % 11 - 5) / 4;
  keel_builder *builder = create_builder(context, "normed");
  keel_value gemm[3] = {keel_builder_input(builder, "x", KD_F32, 2, rows)};
  gemm[1] =
      add_constant(builder, KD_F32, 2, transposed ? turned : plain, weights);
  for (int i = 0; i < 5; i++)
    vector[i] = add_constant(builder, KD_F32, DIMS(TO), vectors[i]);
  gemm[2] = vector[0];
  vector[0] = keel_builder_op(builder, "Gemm", attrs, 3, gemm, biased ? 3 : 2);
  return program_giving(builder, keel_builder_op(builder, "BatchNormalization",
                                                 NULL, 0, vector, 5));
}

/* With every pass and with none; how many normalisations are left. */
static uint32_t run_normed(keel_program *program) {
  const float data[] = {1, 2, -3, 4, 0.5f, -1, 0, 2, 8, 1};
  float got[2][6];
  uint32_t left = 0;
  for (int all = 0; all < 2; all++) {
    keel_plan *plan = plan_of(program, all ? 0 : 4);
    keel_tensor *x = create_tensor(context, KD_F32, DIMS(2, 5), data);
    keel_tensor *y = output_of(plan, &x, 1);
    expect_ok(keel_tensor_read(y, got[all], sizeof got[all]));
    left = runs_of(plan, "BatchNormalization");
    RELEASE(x, y, plan);
  }
  for (int i = 0; i < 6; i++)
    assert_true(got[0][i] - got[1][i] < 1e-4f && got[1][i] - got[0][i] < 1e-4f);
  keel_program_release(program);
  return left;
}

TEST_THAT(products_take_normalisations) {
  for (int i = 0; i < 4; i++)
    assert_int_equal(run_normed(normed_product(i & 1, i & 2, 1, 0.5f)), 0);
  assert_int_equal(run_normed(normed_product(true, true, 0.5f, 1)), 1);
}

/* ---- common subexpressions -------------------------------------------------- */

/* (|x| + 1) * (|x| + 1'), and |x| + 2 apart, each written out; the first is given
 * twice. */
TEST_THAT(equal_things_are_computed_once) {
  const float data[] = {1, -2, 3}, once[] = {1, 1, 1}, twice[] = {2, 2, 2};
  const float want[] = {4, 9, 16}, apart[] = {3, 4, 5};
  const float *const added[] = {once, once, twice};
  keel_builder *builder = create_builder(context, "twice");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(3)), sums[3];
  for (int i = 0; i < 3; i++) {
    sums[i] = op(builder, "Add", op(builder, "Abs", x, KEEL_ABSENT),
                 constant_of(builder, floats(context, 3, added[i])));
  }
  for (int i = 0; i < 2; i++)
    keel_builder_output(builder, i ? "again" : "y",
                        op(builder, "Mul", sums[0], sums[1]));
  keel_builder_output(builder, "apart", sums[2]);
  keel_program *program = finish_program(builder);
  for (int joined = 0; joined < 2; joined++) {
    keel_plan *plan = plan_of(program, joined ? 0 : 4);
    assert_int_equal(runs_of(plan, "Abs"), joined ? 1 : 3);
    assert_int_equal(runs_of(plan, "Add"), joined ? 2 : 3);
    assert_int_equal(runs_of(plan, "Mul"), joined ? 1 : 2);
    keel_tensor *in = floats(context, 3, data), *out[3];
    expect_ok(keel_plan_run(plan, &in, 1, out, 3));
    expect_floats(out[0], want, 3);
    expect_floats(out[1], want, 3);
    expect_floats(out[2], apart, 3);
    release_all(out, 3);
    RELEASE(in, plan);
  }
  keel_program_release(program);
}

/* What differs in an attribute, an input or a device stays apart. */
TEST_THAT(things_that_differ_stay_apart) {
  const int64_t dims[] = {2, 2};
  const float data[] = {1, 2, 3, 4};
  keel_tensor *x = NULL, *y[3];
  const keel_attr axes[] = {KEEL_INT("axis", 0), KEEL_INT("axis", 1)};
  keel_builder *builder = create_builder(context, "apart");
  keel_value in = keel_builder_input(builder, "x", KD_F32, 2, dims);
  for (int i = 0; i < 2; i++)
    keel_builder_output(
        builder, i ? "b" : "a",
        keel_builder_op(builder, "Softmax", &axes[i], 1, &in, 1));
  keel_builder_output(builder, "c", op(builder, "Sub", in, in));
  keel_program *program = finish_program(builder);
  keel_plan *plan = plan_of(program, 0);
  assert_int_equal(runs_of(plan, "Softmax"), 2);
  x = create_tensor(context, KD_F32, 2, dims, data);
  expect_ok(keel_plan_run(plan, &x, 1, y, 3));
  release_all(y, 3);
  RELEASE(x, plan, program);
}

TEST_THAT(an_unknown_pass_is_named_with_those_there_are) {
  static const char *const skips[] = {"cse", "types"};
  keel_program *program = wide(1);
  keel_plan *plan = NULL;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(
        keel_plan_create(
            program, PLAN_PARAMS(.skip = skips, .skip_count = 1 + (uint32_t)i),
            &plan),
        i ? KD_NOT_FOUND : KD_OK);
    if (i)
      expect_message(
          "no pass \"types\" can be left out; those that can are prune, ");
    keel_plan_release(plan);
  }
  keel_program_release(program);
}

/* ---- windows: the fast way and the plain way -------------------------------- */

typedef struct window_case {
  const char *op; /* pooling behind a convolution; NULL: none */
  uint32_t rank;
  int64_t batch, in, out, group, size, kernel, stride, pad, dilation;
} window_case;

static keel_value window_op(keel_builder *builder, const window_case *c,
                            const char *op, keel_value x, keel_value w) {
  int64_t kernel[3], stride[3], dilation[3], pads[6];
  uint32_t space = c->rank - 2;
  for (uint32_t i = 0; i < space; i++) {
    kernel[i] = c->kernel;
    stride[i] = c->stride;
    dilation[i] = c->dilation;
    pads[i] = pads[i + space] = c->pad;
  }
  const keel_attr attrs[] = {
      KEEL_INTS("kernel_shape", space, kernel),
      KEEL_INTS("strides", space, stride), KEEL_INTS("pads", 2 * space, pads),
      KEEL_INTS("dilations", space, dilation), KEEL_INT("group", c->group)};
  keel_value in[] = {x, w};
  bool conv = w != KEEL_ABSENT;
  bool global = !strncmp(op, "Global", 6);
  return keel_builder_op(builder, op, attrs,
                         global ? 0
                         : conv ? 5
                                : 3,
                         in, conv ? 2 : 1);
}

static keel_value random_constant(keel_builder *builder, uint32_t rank,
                                  const int64_t *dims) {
  int64_t count = elements_of(rank, dims);
  float *data = malloc((size_t)count * sizeof *data);
  for (int64_t i = 0; i < count; i++)
    data[i] = (float)((i * 37 + 11) % 29 - 14) / 32;
  keel_value value = add_constant(builder, KD_F32, rank, dims, data);
  free(data);
  return value;
}

static keel_tensor *run_window(const window_case *c, uint32_t skipped) {
  int64_t image[5] = {c->batch, c->in, c->size, c->size, c->size};
  int64_t filter[5] = {c->out, c->in / c->group, c->kernel, c->kernel,
                       c->kernel};
  keel_builder *builder = create_builder(context, "window");
  keel_value x = random_constant(builder, c->rank, image);
  keel_value w = random_constant(builder, c->rank, filter);
  keel_value open = keel_builder_input(builder, "x", KD_F32, c->rank, image);
  keel_value y = op(builder, "Add", open, x); /* which is not folded away */
  y = window_op(builder, c, "Conv", y, w);
  if (c->op) y = window_op(builder, c, c->op, y, KEEL_ABSENT);
  keel_program *program = program_giving(builder, y);
  keel_plan *plan = plan_of(program, skipped);
  keel_tensor *out = NULL;
  keel_tensor *in = create_tensor(context, KD_F32, c->rank, image, NULL);
  for (int i = 0; i < 3; i++) { /* with values, and then without */
    keel_tensor_release(out);
    expect_ok(keel_plan_run(plan, &in, 1, &out, 1));
  }
  RELEASE(in, plan, program);
  return out;
}

TEST_THAT(windows_agree_in_every_layout) {
  static const window_case cases[] = {
      {NULL, 4, 1, 3, 32, 1, 9, 3, 1, 1, 1},
      {NULL, 4, 1, 16, 96, 1, 7, 1, 1, 0, 1},
      {NULL, 4, 3, 32, 48, 1, 8, 3, 2, 1, 1},
      {NULL, 4, 4, 16, 16, 1, 8, 3, 1, 2, 2},
      {NULL, 4, 1, 32, 32, 32, 8, 3, 1, 1, 1},
      {NULL, 4, 2, 32, 64, 2, 8, 3, 1, 1, 1},
      {NULL, 3, 1, 16, 32, 1, 20, 5, 2, 2, 1},
      {NULL, 5, 1, 16, 16, 1, 6, 3, 1, 1, 1},
      {NULL, 4, 1, 16, 20, 1, 8, 3, 1, 1, 1}, /* no whole block of channels */
      {"MaxPool", 4, 1, 16, 32, 1, 9, 3, 2, 1, 1},
      {"AveragePool", 4, 3, 16, 32, 1, 9, 3, 2, 1, 1},
      {"GlobalAveragePool", 4, 1, 16, 32, 1, 9, 3, 1, 1, 1},
      {"GlobalMaxPool", 4, 2, 16, 32, 1, 9, 3, 1, 1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    keel_tensor *plain = run_window(&cases[i], 4);
    keel_tensor *fast = run_window(&cases[i], 0);
    const float *a = keel_tensor_data(plain), *b = keel_tensor_data(fast);
    int64_t count = keel_tensor_elements(plain);
    assert_int_equal(keel_tensor_elements(fast), count);
    assert_non_null(a);
    assert_non_null(b);
    for (int64_t k = 0; k < count; k++)
      if (a[k] - b[k] > 1e-3f || b[k] - a[k] > 1e-3f)
        fail_msg("case %d: element %lld is %g, and %g the plain way", (int)i,
                 (long long)k, (double)b[k], (double)a[k]);
    RELEASE(plain, fast);
  }
}

/* z = Relu(Conv(y) + y), and y is read again: its memory can't become z's. */
TEST_THAT(a_fused_sum_leaves_what_others_need) {
  const int64_t image[] = {1, 32, 6, 6}, filter[] = {32, 32, 3, 3};
  const int64_t ones[] = {1, 1, 1, 1};
  const keel_attr pads = KEEL_INTS("pads", 4, ones);
  float results[2][32 * 36];
  for (int fast = 0; fast < 2; fast++) {
    keel_builder *builder = create_builder(context, "sum");
    keel_value w = random_constant(builder, 4, filter);
    keel_value x = keel_builder_input(builder, "x", KD_F32, 4, image);
    keel_value first[] = {x, w};
    keel_value y = keel_builder_op(builder, "Conv", &pads, 1, first, 2);
    keel_value second[] = {y, w};
    keel_value z = op(builder, "Add",
                      keel_builder_op(builder, "Conv", &pads, 1, second, 2), y);
    keel_builder_output(
        builder, "out",
        op(builder, "Add", op(builder, "Relu", z, KEEL_ABSENT), y));
    keel_program *program = finish_program(builder);
    keel_plan *plan = plan_of(program, fast ? 0 : 2);
    float pixels[32 * 36];
    for (int i = 0; i < 32 * 36; i++)
      pixels[i] = (float)(i % 23 - 11) / 16;
    keel_tensor *in = create_tensor(context, KD_F32, 4, image, pixels),
                *out = output_of(plan, &in, 1);
    expect_ok(keel_tensor_read(out, results[fast], sizeof *results));
    RELEASE(in, out, plan, program);
  }
  for (int i = 0; i < 32 * 36; i++) {
    float gap = results[0][i] - results[1][i];
    assert_true(gap < 1e-2f && gap > -1e-2f);
  }
}

TEST_THAT(parameters_that_say_nothing_known_are_refused) {
  keel_program *program = wide(1), *compiled = NULL;
  keel_plan *plan = NULL;
  keel_context *other = NULL;
  keel_tensor *x = equal_floats(context, 4, 1), *y = NULL;
  keel_plan_params plans = {0};
  keel_run_params runs = {0};
  keel_context_params contexts = {.struct_size = sizeof contexts,
                                  .flags = 0x100};
  keel_trace_part part = {.struct_size = 4};
  expect_fails(keel_plan_create(program, &plans, &plan), KD_INVALID_ARGUMENT,
               "keel_plan_params.struct_size is 0");
  plans = (keel_plan_params){.struct_size = sizeof plans, .flags = 0x108};
  expect_fails(keel_plan_create(program, &plans, &plan), KD_INVALID_ARGUMENT,
               "no flags 0x100");
  assert_int_equal(keel_program_compile(program, &plans, &compiled),
                   KD_INVALID_ARGUMENT);
  assert_true(!plan && !compiled);
  /* one that has no more fields yet */
  plans = (keel_plan_params){.struct_size = offsetof(keel_plan_params, device),
                             .place_count = 7};
  expect_ok(keel_plan_create(program, &plans, &plan));
  expect_fails(keel_plan_run_with(plan, &runs, &x, 1, &y, 1),
               KD_INVALID_ARGUMENT, "keel_run_params.struct_size is 0");
  assert_int_equal(keel_plan_begin(plan, &runs, &x, 1, &y, 1),
                   KD_INVALID_ARGUMENT);
  runs = (keel_run_params){.struct_size = sizeof runs, .flags = 0x21};
  expect_fails(keel_plan_run_with(plan, &runs, &x, 1, &y, 1),
               KD_INVALID_ARGUMENT, "no flags 0x20");
  expect_fails(keel_open(&contexts, &other), KD_INVALID_ARGUMENT,
               "no flags 0x100");
  expect_ok(keel_trace_start(context));
  expect_fails(keel_trace_stop_part(context, &part, NULL), KD_INVALID_ARGUMENT,
               "keel_trace_part.struct_size is 4");
  expect_ok(keel_trace_stop(context, NULL));
  assert_true(!y && !other);
  RELEASE(x, plan, program);
}

RUN_TESTS(open_cpu, close_context)
