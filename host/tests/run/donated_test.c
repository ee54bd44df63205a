/* donated_test.c - inputs that a run takes over: their memory holds outputs where nobody else
 * has it, values that are held stay, and a step of training needs less memory. */
#include <keel/program.h>

#include <sched.h>

#include "base/refs.h"
#include "plan/plan.h"
#include "values/tensor.h"
#define WORKERS 2
#include "toy/toy.h"
#include "with_cpu.h"

enum { SIZE = 8, RUNS = 6 };

static const uint32_t first = 0;
static const keel_run_params donate_first = {
    .struct_size = sizeof donate_first, .donated = &first, .donated_count = 1};

static keel_plan *plan_of(keel_builder *builder) {
  const keel_plan_params params = {.struct_size = sizeof params};
  return finish_plan(builder, &params);
}

/* y = x - g */
static keel_plan *descent(void) {
  const int64_t size = SIZE;
  keel_builder *builder = create_builder(context, "descent");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &size);
  keel_value g = keel_builder_input(builder, "g", KD_F32, 1, &size);
  keel_builder_output(builder, "y", op(builder, "Sub", x, g));
  return plan_of(builder);
}

/* Floats in the device's own memory. */
static keel_tensor *on_device(int64_t count, float value) {
  keel_tensor *made = NULL;
  expect_ok(keel_tensor_fill(context, keel_device_at(context, 0), KD_F32, 1,
                             &count, &value, &made));
  return made;
}

static keel_tensor *run_donating(keel_plan *plan, keel_tensor *x,
                                 keel_tensor *g) {
  keel_tensor *in[] = {x, g}, *y = NULL;
  expect_ok(keel_plan_run_with(plan, &donate_first, in, 2, &y, 1));
  return y;
}

/* ---- where outputs lie ------------------------------------------------------------- */

TEST_THAT(an_output_lies_where_the_input_did) {
  keel_plan *plan = descent();
  keel_tensor *x = on_device(SIZE, 100), *g = on_device(SIZE, 1);
  const keel_buffer *at = x->buffer;
  for (int run = 0; run < RUNS; run++) { /* with values first, then static */
    x = run_donating(plan, x, g);
    assert_ptr_equal(x->buffer, at);
    expect_equal_floats(x, (float)(99 - run), SIZE);
  }
  expect_ok(keel_plan_memory(plan, NULL, NULL, NULL));
  expect_equal_floats(g, 1, SIZE);
  RELEASE(x, g, plan);
}

TEST_THAT(a_value_that_another_holds_stays) {
  keel_plan *plan = descent();
  keel_tensor *g = on_device(SIZE, 1);
  for (int run = 0; run < RUNS; run++) {
    keel_tensor *x = on_device(SIZE, 5);
    keel_tensor *y = run_donating(plan, keel_tensor_retain(x), g);
    assert_ptr_not_equal(y->buffer, x->buffer);
    expect_equal_floats(x, 5, SIZE);
    expect_equal_floats(y, 4, SIZE);
    RELEASE(x, y);
  }
  RELEASE(g, plan);
}

/* One handle for both, of which one is given away with the only reference. */
TEST_THAT(the_other_input_may_be_the_same_value) {
  keel_plan *plan = descent();
  for (int run = 0; run < RUNS; run++) {
    keel_tensor *x = on_device(SIZE, 5);
    keel_tensor *y = run_donating(plan, x, x);
    expect_equal_floats(y, 0, SIZE);
    keel_tensor_release(y);
  }
  keel_plan_release(plan);
}

TEST_THAT(memory_that_is_the_application_s_stays) {
  static float own[SIZE] __attribute__((aligned(64)));
  const int64_t size = SIZE;
  keel_plan *plan = descent();
  keel_tensor *g = on_device(SIZE, 1);
  for (int run = 0; run < RUNS; run++) {
    keel_tensor *x = NULL;
    expect_ok(keel_tensor_wrap(context, KD_F32, 1, &size, own, NULL, NULL, &x));
    keel_tensor *y = run_donating(plan, x, g);
    expect_equal_floats(y, -1, SIZE);
    assert_true(own[0] == 0 && own[SIZE - 1] == 0);
    keel_tensor_release(y);
  }
  RELEASE(g, plan);
}

/* It is handed out as it came, beside what is computed of it. */
TEST_THAT(an_input_that_is_an_output_stays) {
  keel_builder *builder = create_builder(context, "both");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(SIZE));
  keel_builder_output(builder, "y", op(builder, "Neg", x, KEEL_ABSENT));
  keel_builder_output(builder, "x_", x);
  keel_plan *plan = plan_of(builder);
  for (int run = 0; run < RUNS; run++) {
    keel_tensor *in = on_device(SIZE, 7), *out[2];
    expect_ok(keel_plan_run_with(plan, &donate_first, &in, 1, out, 2));
    expect_equal_floats(out[0], -7, SIZE);
    expect_equal_floats(out[1], 7, SIZE);
    release_all(out, 2);
  }
  keel_plan_release(plan);
}

/* An update whose output must lie where its input does: nothing is copied, and what is
 * behind the part that is written stays. */
TEST_THAT(an_update_is_made_in_place) {
  const int64_t size = SIZE, one = 1;
  static const float nine = 9;
  keel_builder *builder = create_builder(context, "update");
  const keel_value in[] = {keel_builder_input(builder, "x", KD_F32, 1, &size),
                           add_constant(builder, KD_F32, 1, &one, &nine),
                           keel_builder_input(builder, "at", KD_I64, 1, &one)};
  keel_builder_output(
      builder, "y",
      keel_builder_op(builder, "keel::DynamicUpdateSlice", NULL, 0, in, 3));
  keel_plan *plan = plan_of(builder);
  keel_tensor *x = on_device(SIZE, 1);
  const keel_buffer *place = x->buffer;
  for (int64_t run = 0; run < SIZE; run++) {
    float want[SIZE];
    keel_tensor *at = create_tensor(context, KD_I64, 1, &one, &run);
    x = run_donating(plan, x, at);
    keel_tensor_release(at);
    assert_ptr_equal(x->buffer, place);
    for (int i = 0; i < SIZE; i++)
      want[i] = i <= run ? 9 : 1;
    expect_floats(x, want, SIZE);
  }
  RELEASE(x, plan);
}

/* A queue, whose kernels write over nothing that they read, and which could be recorded. */
TEST_THAT(a_device_with_a_stream_uses_the_memory_again) {
  keel_context *outer = context;
  const int64_t size = SIZE;
  context = open_with(TOY("queue"), NULL, KEEL_NO_WORKERS);
  keel_builder *builder = create_builder(context, "queue");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &size);
  keel_value one = keel_builder_input(builder, "one", KD_F32, 1, &size);
  keel_value y = op(builder, "Relu", op(builder, "Add", x, one), KEEL_ABSENT);
  y = op(builder, "Relu", op(builder, "Add", y, one), KEEL_ABSENT);
  keel_builder_output(builder, "y", y);
  keel_plan *plan = plan_of(builder);
  keel_tensor *g = on_device(SIZE, 1), *now = on_device(SIZE, 0);
  for (int run = 0; run < 12; run++) {
    const keel_buffer *place = now->buffer;
    now = run_donating(plan, now, g);
    if (run) assert_ptr_equal(now->buffer, place);
    expect_equal_floats(now, 2 * (float)(run + 1), SIZE);
  }
  assert_int_equal(keel_plan_replays(plan), 0);
  for (int run = 0; run < 6; run++) { /* as recordings, which hold inputs */
    keel_tensor *in[] = {now, g}, *out = NULL;
    expect_ok(keel_plan_run(plan, in, 2, &out, 1));
    expect_equal_floats(out, 26, SIZE);
    keel_tensor_release(out);
  }
  assert_true(keel_plan_replays(plan) > 0);
  for (int run = 0; run < 6; run++) {
    now = run_donating(plan, now, g);
    expect_equal_floats(now, 2 * (float)(run + 13), SIZE);
  }
  RELEASE(now, g, plan, context);
  context = outer;
}

/* ---- who has what ---------------------------------------------------------------------- */

TEST_THAT(what_is_donated_is_gone_however_it_ends) {
  static const uint32_t twice[] = {0, 0}, far[] = {0, 9};
  const keel_run_params bad[] = {
      {.struct_size = sizeof *bad, .donated = twice, .donated_count = 2},
      {.struct_size = sizeof *bad, .donated = far, .donated_count = 2},
      {.struct_size = sizeof *bad,
       .flags = 0x80,
       .donated = &first,
       .donated_count = 1},
      {.struct_size = sizeof *bad,
       .timeout = 1,
       .donated = &first,
       .donated_count = 1}};
  keel_plan *plan = descent();
  keel_tensor *g = on_device(SIZE, 1), *y = NULL;
  for (size_t i = 0; i < 2 * (sizeof bad / sizeof *bad); i++) {
    const keel_run_params *params = &bad[i / 2];
    keel_tensor *x = on_device(SIZE, 5);
    keel_tensor *in[] = {keel_tensor_retain(x), g};
    keel_status status = i % 2 ? keel_plan_begin(plan, params, in, 2, &y, 1)
                               : keel_plan_run_with(plan, params, in, 2, &y, 1);
    if (params->timeout && status == KD_OK) { /* the outputs fail */
      status = keel_tensor_wait(y);
      keel_tensor_release(y);
      y = NULL;
      while (!keel_refs_unique(&x->refs))
        sched_yield();
    }
    assert_int_not_equal(status, KD_OK);
    assert_null(y);
    assert_true(keel_refs_unique(&x->refs));
    keel_tensor_release(x);
  }
  RELEASE(g, plan);
}

/* Callers who know no donated inputs. */
TEST_THAT(an_older_struct_donates_nothing) {
  keel_run_params old = donate_first;
  old.struct_size = offsetof(keel_run_params, donated);
  keel_plan *plan = descent();
  keel_tensor *in[] = {on_device(SIZE, 5), on_device(SIZE, 1)}, *y = NULL;
  for (int run = 0; run < RUNS; run++) {
    expect_ok(keel_plan_run_with(plan, &old, in, 2, &y, 1));
    expect_equal_floats(in[0], 5, SIZE);
    expect_equal_floats(y, 4, SIZE);
    keel_tensor_release(y);
  }
  release_all(in, 2);
  keel_plan_release(plan);
}

TEST_THAT(a_run_that_is_begun_takes_it_over) {
  keel_plan *plan = descent();
  keel_tensor *x = on_device(SIZE, 100), *g = on_device(SIZE, 1), *y = NULL;
  const keel_buffer *at = x->buffer;
  for (int run = 0; run < RUNS; run++) {
    keel_tensor *in[] = {x, g};
    expect_ok(keel_plan_begin(plan, &donate_first, in, 2, &y, 1));
    expect_ok(keel_tensor_wait(y));
    assert_ptr_equal(y->buffer, at);
    expect_equal_floats(y, (float)(99 - run), SIZE);
    /* a run has its result as well until it is over */
    while (!keel_refs_unique(&y->refs) || !keel_refs_unique(&y->buffer->refs))
      sched_yield();
    x = y;
  }
  RELEASE(x, g, plan);
}

/* Each run begins before the one that makes its input is over. */
TEST_THAT(a_pending_input_may_be_donated) {
  keel_plan *plan = descent();
  keel_tensor *x = NULL, *g = on_device(SIZE, 1);
  expect_ok(keel_tensor_promise(context, &x));
  keel_tensor *promise = keel_tensor_retain(x);
  for (int run = 0; run < 20; run++) {
    keel_tensor *in[] = {x, g};
    expect_ok(keel_plan_begin(plan, &donate_first, in, 2, &x, 1));
  }
  keel_tensor *value = on_device(SIZE, 100);
  expect_ok(keel_tensor_fulfil(promise, value));
  expect_equal_floats(x, 80, SIZE);
  expect_equal_floats(value, 100, SIZE); /* which this test holds */
  RELEASE(value, promise, x, g, plan);
}

/* One output depends on a failure; the other is made of the donated input. */
TEST_THAT(a_partial_run_donates_too) {
  const int64_t size = SIZE;
  keel_builder *builder = create_builder(context, "partial");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &size);
  keel_value g = keel_builder_input(builder, "g", KD_F32, 1, &size);
  keel_builder_output(builder, "y", op(builder, "Sub", x, g));
  keel_builder_output(builder, "z", op(builder, "Abs", x, KEEL_ABSENT));
  keel_plan *plan = plan_of(builder);
  for (int run = 0; run < RUNS; run++) {
    bool fails = run % 2;
    keel_tensor *in[] = {on_device(SIZE, -5), on_device(SIZE, 1)}, *out[2];
    if (fails) {
      keel_tensor_release(in[1]);
      expect_ok(keel_tensor_promise(context, &in[1]));
      expect_ok(keel_tensor_fail(in[1], KD_ABORTED, "no gradient"));
    }
    assert_int_equal(
        keel_plan_run_with(plan,
                           RUN_PARAMS(.flags = KEEL_RUN_PARTIAL,
                                      .donated = &first, .donated_count = 1),
                           in, 2, out, 2),
        fails ? KD_ABORTED : KD_OK);
    if (!fails) expect_equal_floats(out[0], -6, SIZE);
    expect_equal_floats(out[1], 5, SIZE);
    keel_tensor_release(in[1]);
    release_all(out, 2);
  }
  keel_plan_release(plan);
}

/* ---- any program ------------------------------------------------------------------------ */

enum { NODES = 40, INPUTS = 4, OUTPUTS = 4 };

/* Sums, products of matrices and views of earlier values; some inputs are read late. */
static keel_plan *random_plan(uint32_t seed) {
  static const char *const binary[] = {"Add", "Sub", "Max", "MatMul"};
  static const char *const unary[] = {"Neg", "Relu", "Abs"};
  static const char *const skip[] = {"cse", "fuse"};
  const keel_plan_params params = {
      .struct_size = sizeof params, .skip = skip, .skip_count = seed % 3};
  keel_value values[NODES + INPUTS];
  keel_builder *builder = create_builder(context, "random");
  for (int i = 0; i < INPUTS; i++) {
    const char name[] = {'x', (char)('0' + i), 0};
    values[i] = keel_builder_input(builder, name, KD_F32, DIMS(SIZE, SIZE));
  }
  for (int i = INPUTS; i < NODES + INPUTS; i++) {
    seed = seed * 1664525u + 1013904223u;
    keel_value a = values[(seed >> 8) % (uint32_t)i];
    keel_value b = values[(seed >> 20) % (uint32_t)i];
    values[i] = (seed >> 4) % 4 ? op(builder, binary[seed >> 16 & 3], a, b)
                                : op(builder, unary[seed % 3], a, KEEL_ABSENT);
    if ((seed >> 4) % 4 && (seed >> 16 & 3) == 3) /* stays small */
      values[i] = op(builder, "Tanh", values[i], KEEL_ABSENT);
  }
  for (int i = 0; i < OUTPUTS; i++) {
    const char name[] = {'y', (char)('0' + i), 0};
    keel_builder_output(
        builder, name,
        values[INPUTS + NODES - 1 - (int)(seed >> 7) % 9 * i - i]);
  }
  return finish_plan(builder, &params);
}

/* Inputs in the device's memory, with numbers of this round. */
static void make_inputs(int round, keel_tensor **in) {
  float data[SIZE * SIZE];
  for (int i = 0; i < INPUTS; i++) {
    for (int k = 0; k < SIZE * SIZE; k++)
      data[k] = (float)((k * (i + 3) + round) % 11 - 5);
    keel_tensor *here = create_tensor(context, KD_F32, DIMS(SIZE, SIZE), data);
    expect_ok(keel_call(context, "Neg", NULL, 0, &here, 1, &in[i], 1));
    keel_tensor_release(here);
  }
}

static void read_outputs(keel_tensor *const *out, float *to) {
  for (int i = 0; i < OUTPUTS; i++)
    expect_ok(keel_tensor_read(out[i], to + (ptrdiff_t)i * SIZE * SIZE,
                               SIZE * SIZE * sizeof *to));
  release_all(out, OUTPUTS);
}

static void compare_runs(uint32_t seed) {
  static const uint32_t all[INPUTS] = {0, 1, 2, 3};
  static float got[OUTPUTS * SIZE * SIZE], want[OUTPUTS * SIZE * SIZE];
  keel_plan *plan = random_plan(seed), *plain = random_plan(seed);
  keel_tensor *in[INPUTS], *out[OUTPUTS];
  for (int round = 0; round < 10; round++) {
    uint32_t count = round == 1 ? 2 : INPUTS; /* others than in later runs */
    const keel_run_params params = {
        .struct_size = sizeof params, .donated = all, .donated_count = count};
    keel_plan_profile(plain, KEEL_PROFILE_OPS); /* makes values each time */
    make_inputs(round, in);
    expect_ok(keel_plan_run(plain, in, INPUTS, out, OUTPUTS));
    read_outputs(out, want);
    release_all(in, INPUTS);
    make_inputs(round, in);
    expect_ok(
        round % 2
            ? keel_plan_begin(plan, &params, in, INPUTS, out, OUTPUTS)
            : keel_plan_run_with(plan, &params, in, INPUTS, out, OUTPUTS));
    release_all(in + count, INPUTS - count);
    read_outputs(out, got);
    assert_memory_equal(got, want, sizeof want);
    if (round == 4) keel_scheduler_fix(&plan->main->scheduler, KEEL_PARALLEL);
  }
  RELEASE(plan, plain);
}

#ifdef KEEL_SANITIZED
enum { SEEDS = 60 };
#else
enum { SEEDS = 400 };
#endif

TEST_THAT(results_are_those_of_runs_that_do_not_donate) {
  for (uint32_t seed = 0; seed < SEEDS; seed++)
    compare_runs(seed);
}

/* ---- a step of training --------------------------------------------------------------------- */

enum { WIDE = 256, ROWS = 8, WEIGHTS = 8 };

static keel_value turned(keel_builder *builder, keel_value value) {
  return op(builder, "Transpose", value, KEEL_ABSENT);
}

/* Layers without activations, the gradients of half the sum of squares, and what is left of
 * the weights. */
static keel_plan *training(void) {
  static const float rate = 1e-4F;
  const int64_t dims[] = {WIDE, WIDE}, x_dims[] = {ROWS, WIDE};
  keel_builder *builder = create_builder(context, "training");
  keel_value w[WEIGHTS], h[WEIGHTS + 1];
  for (int i = 0; i < WEIGHTS; i++) {
    const char name[] = {'w', (char)('0' + i), 0};
    w[i] = keel_builder_input(builder, name, KD_F32, 2, dims);
  }
  h[0] = keel_builder_input(builder, "x", KD_F32, 2, x_dims);
  keel_value by = add_constant(builder, KD_F32, 0, NULL, &rate);
  for (int i = 0; i < WEIGHTS; i++)
    h[i + 1] = op(builder, "MatMul", h[i], w[i]);
  keel_value d = h[WEIGHTS];
  for (int i = WEIGHTS - 1; i >= 0; i--) {
    keel_value g = op(builder, "MatMul", turned(builder, h[i]), d);
    d = op(builder, "MatMul", d, turned(builder, w[i]));
    const char name[] = {'n', (char)('0' + i), 0};
    w[i] = op(builder, "Sub", w[i], op(builder, "Mul", g, by));
    keel_builder_output(builder, name, w[i]);
  }
  return plan_of(builder);
}

static keel_tensor *matrix(int64_t rows, float value) {
  keel_tensor *made = NULL;
  expect_ok(keel_tensor_fill(context, keel_device_at(context, 0), KD_F32,
                             DIMS(rows, WIDE), &value, &made));
  return made;
}

/* Trains in a runtime of its own. Returns the most bytes that tensors have had, and a
 * weight. Parallel: threads share the steps. */
static uint64_t train(bool donates, bool parallel, float *out_weight) {
  static const uint32_t all[WEIGHTS] = {0, 1, 2, 3, 4, 5, 6, 7};
  static float read[WIDE * WIDE];
  keel_context *outer = context;
  context = open_with(CPU_PLUGIN, NULL, parallel ? WORKERS : KEEL_NO_WORKERS);
  keel_plan *plan = training();
  keel_tensor *in[WEIGHTS + 1], *out[WEIGHTS];
  for (int i = 0; i < WEIGHTS + 1; i++)
    in[i] = matrix(i < WEIGHTS ? WIDE : ROWS, (1 + 0.1F * (float)i) / WIDE);
  for (int step = 0; step < 12; step++) {
    if (step == 2 && parallel)
      keel_scheduler_fix(&plan->main->scheduler, KEEL_PARALLEL);
    expect_ok(keel_plan_run_with(
        plan,
        RUN_PARAMS(.donated = all, .donated_count = donates ? WEIGHTS : 0), in,
        WEIGHTS + 1, out, WEIGHTS));
    for (int i = 0; i < WEIGHTS; i++) {
      if (!donates) keel_tensor_release(in[i]);
      in[i] = out[WEIGHTS - 1 - i];
    }
  }
  expect_ok(keel_tensor_read(in[0], read, sizeof read));
  *out_weight = read[WIDE + 1];
  release_all(in, WEIGHTS + 1);
  keel_plan_release(plan);
  keel_stats stats;
  keel_get_stats(context, &stats);
  keel_close(context);
  context = outer;
  return stats.peak_bytes;
}

TEST_THAT(a_step_of_training_needs_less_memory) {
  const uint64_t one = WIDE * WIDE * sizeof(float);
  float want = 0, got = 0;
  uint64_t kept = train(false, false, &want);
  uint64_t donated = train(true, false, &got);
  print_message("%llu bytes, donating %llu\n", (unsigned long long)kept,
                (unsigned long long)donated);
  assert_true(want == got);
  assert_true(donated + WEIGHTS / 2 * one <= kept);
  train(true, true, &got);
  assert_true(want == got);
}

RUN_TESTS(open_cpu, close_context)
