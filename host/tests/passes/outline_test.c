/* outline_test.c - functions of which other nodes run elsewhere: a device records each stretch
 * between them, with results as without recordings, on each device that records. */
#include <keel/debug.h>

#include <math.h>
#include <pthread.h>

#include "device/device.h"
#include "on_devices.h"
#include "plan/plan.h"

enum { ROWS = 4, COLUMNS = 6, COUNT = ROWS * COLUMNS, NODES = 28, OUTPUTS = 5 };

static const char *const recording[] = {"opencl:0", "vulkan:0", "cuda:0"};

static keel_device *named(const char *name) {
  keel_device *device = NULL;
  return keel_device_find(context, name, &device) == KD_OK ? device : NULL;
}

/* Where ops run: first, what the rules say. */
static keel_plan *plan_on(keel_program *program, keel_device *device,
                          const char *const *places, uint32_t place_count,
                          uint32_t flags) {
  static const char *const skip[] = {"fold", "cse", "algebra", "regions"};
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .flags = flags,
                                   .device = device,
                                   .skip = skip,
                                   .skip_count = 4,
                                   .places = places,
                                   .place_count = place_count};
  return create_plan(program, &params);
}

static uint32_t calls_of(const keel_plan *plan) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->main->step_count; i++)
    count += !strcmp(plan->main->steps[i].site.op->schema->name, "Call");
  return count;
}

static keel_tensor *matrix(uint64_t *random) {
  float data[COUNT];
  for (int i = 0; i < COUNT; i++) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    data[i] = (float)(*random >> 60) - 7;
  }
  return create_tensor(context, KD_F32, DIMS(ROWS, COLUMNS), data);
}

/* ---- random graphs ------------------------------------------------------------------- */

static uint32_t below(uint64_t *random, uint32_t limit) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((*random >> 33) % limit);
}

static keel_value slice(keel_builder *b, keel_value x, int64_t begin,
                        int64_t end, int64_t step) {
  const keel_value in[] = {x, add_ints(b, 1, &begin), add_ints(b, 1, &end),
                           add_ints(b, 1, &(int64_t){0}),
                           add_ints(b, 1, &step)};
  return keel_builder_op(b, "Slice", NULL, 0, in, 5);
}

/* Halves of rows, of which nodes at different stages may read one where it lies. */
static keel_value halves(keel_builder *b, keel_value x, keel_value y) {
  const keel_attr axis = KEEL_INT("axis", 0);
  keel_value upper = slice(b, x, 0, ROWS / 2, 1);
  keel_value last = slice(b, x, ROWS / 2, ROWS, 1);
  keel_value lower = slice(b, y, ROWS / 2, ROWS, 1);
  const keel_value parts[] = {op(b, "Add", last, lower),
                              op(b, "Sub", op(b, "Min", upper, lower), last)};
  return keel_builder_op(b, "Concat", &axis, 1, parts, 2);
}

static keel_value turned(keel_builder *b, keel_value x, keel_value y) {
  keel_value xt = op(b, "Transpose", x, KEEL_ABSENT),
             yt = op(b, "Transpose", y, KEEL_ABSENT);
  return op(b, "Transpose", op(b, "Max", xt, yt), KEEL_ABSENT);
}

static keel_value reshaped(keel_builder *b, keel_value x, keel_value y) {
  static const int64_t flat[] = {COUNT}, whole[] = {ROWS, COLUMNS};
  keel_value list = add_ints(b, 1, flat), back = add_ints(b, 2, whole);
  keel_value sum =
      op(b, "Add", op(b, "Reshape", x, list), op(b, "Reshape", y, list));
  return op(b, "Reshape", sum, back);
}

/* Tanh keeps what comes of it small. */
static keel_value random_op(keel_builder *b, uint64_t *random, keel_value x,
                            keel_value y) {
  switch (below(random, 12)) {
    case 0:
    case 1:
      return op(b, "Min", x, y);
    case 2:
      return halves(b, x, y);
    case 3:
      return turned(b, x, y);
    case 4:
      return reshaped(b, x, y);
    case 5:
      return op(b, "Identity", x, KEEL_ABSENT);
    case 6:
      return op(b, "Abs", x, KEEL_ABSENT);
    case 7:
      return op(b, "Sub", x, y);
    case 8:
      return op(b, "Tanh", x, KEEL_ABSENT);
    default:
      return op(b, "Add", x, y);
  }
}

static keel_program *random_graph(uint64_t random) {
  static const int64_t dims[] = {ROWS, COLUMNS};
  keel_value values[NODES + 3];
  keel_builder *b = create_builder(context, "graph");
  values[0] = keel_builder_input(b, "x", KD_F32, 2, dims);
  values[1] = keel_builder_input(b, "y", KD_F32, 2, dims);
  values[2] = constant_of(b, matrix(&random));
  values[3] = op(b, "Min", values[0], values[2]);
  values[4] = op(b, "Abs", values[1], KEEL_ABSENT);
  for (uint32_t i = 5; i < NODES + 3; i++) {
    uint32_t back = 1 + below(&random, i < 6 ? i : 6);
    values[i] =
        random_op(b, &random, values[i - back],
                  values[below(&random, 2) ? i - 1 : below(&random, i)]);
  }
  for (uint32_t i = 0; i < OUTPUTS; i++) {
    char name[8];
    snprintf(name, sizeof name, "z%u", (unsigned)i);
    keel_builder_output(
        b, name, values[i < 2 ? NODES + 2 - i : 3 + below(&random, NODES)]);
  }
  return finish_program(b);
}

/* Whether outputs are the same, but for rounding; threads, too, ask for it. */
static bool is_same(keel_tensor *const *want, keel_tensor *const *got,
                    uint64_t seed, int round) {
  for (uint32_t i = 0; i < OUTPUTS; i++) {
    float a[COUNT], b[COUNT];
    if (keel_tensor_read(want[i], a, sizeof a) != KD_OK ||
        keel_tensor_read(got[i], b, sizeof b) != KD_OK) {
      print_error("seed %u, run %d: %s\n", (unsigned)seed, round,
                  keel_message());
      return false;
    }
    for (int k = 0; k < COUNT; k++)
      if (!(fabsf(a[k] - b[k]) <= 1e-4f * (1 + fabsf(a[k])))) {
        print_error("seed %u, run %d, output %u, element %d: %g, not %g\n",
                    (unsigned)seed, round, (unsigned)i, k, (double)b[k],
                    (double)a[k]);
        return false;
      }
  }
  return true;
}

enum { HELD = 3 };

/* One run of each plan with the same inputs, on the host and on the device in turn. */
static bool run_once(keel_plan *plain, keel_plan *plan, keel_device *device,
                     int round, uint64_t *random, keel_tensor **want,
                     keel_tensor **got) {
  keel_tensor *in[2] = {matrix(random), matrix(random)};
  keel_tensor *there = NULL;
  bool ran = true;
  if (round % 3 == 2) {
    ran = keel_tensor_to(in[0], device, &there) == KD_OK;
    keel_tensor_release(in[0]);
    in[0] = there;
  }
  ran = ran && keel_plan_run(plain, in, 2, want, OUTPUTS) == KD_OK &&
        keel_plan_run(plan, in, 2, got, OUTPUTS) == KD_OK;
  if (!ran) print_error("run %d: %s\n", round, keel_message());
  release_all(in, 2);
  return ran;
}

/* Outputs are held for some runs, and must be what they were. */
static bool run_both(keel_plan *plain, keel_plan *plan, keel_device *device,
                     uint64_t seed) {
  keel_tensor *held[HELD][OUTPUTS] = {{NULL}}, *kept[HELD][OUTPUTS] = {{NULL}};
  uint64_t random = seed * 77 + 1;
  bool same = true;
  for (int round = 0; round < 12 && same; round++) {
    int at = round % (1 + (int)(seed % HELD));
    if (held[at][0]) same = is_same(kept[at], held[at], seed, round);
    release_all(held[at], OUTPUTS);
    release_all(kept[at], OUTPUTS);
    same = same &&
           run_once(plain, plan, device, round, &random, kept[at], held[at]) &&
           is_same(kept[at], held[at], seed, round);
  }
  for (int i = 0; i < HELD; i++) {
    release_all(held[i], OUTPUTS);
    release_all(kept[i], OUTPUTS);
  }
  return same;
}

TEST_THAT(random_graphs_give_what_one_device_does) {
  uint32_t calls = 0, devices = 0;
  uint64_t replays = 0;
  for (uint64_t seed = 0; seed < 60; seed++) {
    const char *name = recording[seed % 3], *other = recording[(seed + 1) % 3];
    keel_device *device = named(name);
    char beside[32];
    snprintf(beside, sizeof beside, "Abs=%s",
             named(other) && seed % 2 ? other : "cpu:0");
    const char *const places[] = {"Min=cpu:0", beside};
    if (!device) continue;
    keel_program *program = random_graph(seed);
    keel_plan *plain = plan_on(program, named("cpu:0"), NULL, 0, 0);
    keel_plan *plan = plan_on(program, device, places, 2, 0);
    calls += calls_of(plan);
    assert_true(run_both(plain, plan, device, seed));
    replays += keel_plan_replays(plan);
    devices |= 1u << seed % 3;
    RELEASE(plain, plan, program);
  }
  if (devices) {
    assert_true(calls > 40);
    assert_true(replays > 200);
  }
}

/* ---- what a stretch is ----------------------------------------------------------------- */

static keel_value chain(keel_builder *b, keel_value x, int length) {
  for (int i = 0; i < length; i++)
    x = op(b, i % 2 ? "Add" : "Sub", x,
           i % 2 ? x : add_constant(b, KD_F32, 0, NULL, &(float){1}));
  return x;
}

/* 2 ((2 (x - 1) - 1)) ... for each run; `skip` goes by the node elsewhere. */
static keel_program *two_stretches(int length) {
  keel_builder *b = create_builder(context, "two");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(ROWS, COLUMNS));
  keel_value first = chain(b, x, length);
  keel_value elsewhere = op(b, "Min", first, x);
  keel_value second = chain(b, elsewhere, length);
  keel_builder_output(b, "z", op(b, "Add", second, first));
  return finish_program(b);
}

/* In the steady state each stretch is one launch, of the same recording. */
TEST_THAT(each_stretch_is_one_launch) {
  static const char *const places[] = {"Min=cpu:0"};
  for (size_t i = 0; i < KEEL_COUNT_OF(recording); i++) {
    keel_device *device = named(recording[i]);
    if (!device) continue;
    for (int length = 2; length < 6; length++) {
      uint32_t want = (length > 2) + 1; /* the second has an Add more */
      uint64_t before = 0, random = 5;
      keel_program *program = two_stretches(length);
      keel_plan *plan = plan_on(program, device, places, 1, 0);
      keel_plan *bare =
          plan_on(program, device, places, 1, KEEL_PLAN_NO_REPLAY);
      assert_int_equal(calls_of(plan), want);
      assert_int_equal(calls_of(bare), 0);
      keel_tensor *x = matrix(&random), *z = NULL;
      for (int round = 0; round < 10; round++) {
        if (round == 6) before = keel_plan_replays(plan);
        expect_ok(keel_plan_run(plan, &x, 1, &z, 1));
        keel_tensor_release(z);
      }
      assert_int_equal(keel_plan_replays(plan) - before, 4 * want);
      RELEASE(x, plan, bare, program);
    }
  }
}

/* A stretch before the change of a variable, which is read behind it. */
TEST_THAT(variables_keep_their_order) {
  (void)state;
  for (size_t i = 0; i < KEEL_COUNT_OF(recording); i++) {
    keel_device *device = named(recording[i]);
    if (!device) continue;
    uint64_t random = 9;
    keel_tensor *x = matrix(&random), *variable = NULL, *z[2];
    float in[COUNT], now[COUNT];
    keel_builder *b = create_builder(context, "state");
    keel_value v = keel_builder_resource(b, "v");
    keel_value given = keel_builder_input(b, "x", KD_F32, DIMS(ROWS, COLUMNS));
    keel_value low = op(b, "Min", given, given);
    keel_value first = chain(b, low, 4);
    op(b, "keel::VariableAssign", v, first);
    keel_value read = op(b, "keel::VariableRead", v, KEEL_ABSENT);
    keel_builder_output(b, "z", chain(b, op(b, "Add", read, given), 4));
    keel_builder_output(b, "first", first);
    keel_program *program = finish_program(b);
    const char *const places[] = {"Min=cpu:0"};
    keel_plan *plan = plan_on(program, device, places, 1, 0);
    assert_int_equal(calls_of(plan), 1); /* types of variables are not known */
    expect_ok(
        keel_call(context, "keel::Variable", NULL, 0, &x, 1, &variable, 1));
    expect_ok(keel_tensor_read(x, in, sizeof in));
    for (int round = 0; round < 8; round++) {
      keel_tensor *both[] = {variable, x};
      expect_ok(keel_plan_run(plan, both, 2, z, 2));
      expect_ok(keel_tensor_read(z[0], now, sizeof now));
      for (int k = 0; k < COUNT; k++) {
        float f = 2 * (2 * (in[k] - 1) - 1), want = f + in[k];
        want = 2 * (2 * (want - 1) - 1);
        assert_float_equal(now[k], want, 1e-4);
      }
      release_all(z, 2);
    }
    RELEASE(x, variable, plan, program);
  }
}

/* ---- what does not depend on an input ------------------------------------------------- */

/* Two chains of one device, of which each has an input of its own; both behind nodes elsewhere.
 * What becomes of x is f(x) = 2 (2 (x - 1) - 1). */
static keel_program *two_apart(void) {
  static const int64_t dims[] = {ROWS, COLUMNS};
  keel_builder *b = create_builder(context, "apart");
  for (int i = 0; i < 2; i++) {
    keel_value x = keel_builder_input(b, i ? "y" : "x", KD_F32, 2, dims);
    keel_builder_output(b, i ? "v" : "u", chain(b, op(b, "Min", x, x), 4));
  }
  return finish_program(b);
}

static void expect_f_of(keel_tensor *x, keel_tensor *z) {
  float in[COUNT], out[COUNT];
  expect_ok(keel_tensor_read(x, in, sizeof in));
  expect_ok(keel_tensor_read(z, out, sizeof out));
  for (int k = 0; k < COUNT; k++)
    assert_float_equal(out[k], 2 * (2 * (in[k] - 1) - 1), 1e-4);
}

/* An output is there before an input that it does not need, which may depend on it. */
TEST_THAT(a_pending_input_holds_up_only_what_needs_it) {
  static const char *const places[] = {"Min=cpu:0"};
  for (size_t i = 0; i < KEEL_COUNT_OF(recording); i++) {
    keel_device *device = named(recording[i]);
    if (!device) continue;
    uint64_t random = 3;
    keel_program *program = two_apart();
    keel_plan *plan = plan_on(program, device, places, 1, 0);
    assert_int_equal(calls_of(plan), 2);
    for (int round = 0; round < 6; round++) {
      keel_tensor *in[] = {matrix(&random), NULL}, *out[2];
      expect_ok(keel_tensor_promise(context, &in[1]));
      expect_ok(keel_plan_begin(plan, NULL, in, 2, out, 2));
      expect_f_of(in[0], out[0]);
      expect_ok(keel_tensor_fulfil(in[1], out[0]));
      expect_f_of(out[0], out[1]);
      release_all(in, 2);
      release_all(out, 2);
    }
    RELEASE(plan, program);
  }
}

/* f(x's rows of numbers that fit) and f(x's rows), the latter of which may not be there; one
 * stretch has both. */
static keel_program *of_rows(void) {
  static const int64_t dims[] = {ROWS, COLUMNS}, rows = ROWS;
  const int64_t most = ROWS - 1;
  keel_builder *b = create_builder(context, "rows");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  keel_value y = keel_builder_input(b, "y", KD_I64, 1, &rows);
  keel_value fit = op(b, "Min", y, add_ints(b, 1, &most));
  keel_builder_output(b, "u", chain(b, op(b, "Gather", x, fit), 4));
  keel_builder_output(b, "v", chain(b, op(b, "Gather", x, y), 4));
  return finish_program(b);
}

/* In a partial run what does not depend on it is there. */
TEST_THAT(a_failure_is_only_of_what_depends_on_it) {
  static const char *const places[] = {"Min=cpu:0", "Gather=cpu:0"};
  for (size_t i = 0; i < KEEL_COUNT_OF(recording); i++) {
    keel_device *device = named(recording[i]);
    if (!device) continue;
    uint64_t random = 4, replays = 0;
    keel_program *program = of_rows();
    keel_plan *plan = plan_on(program, device, places, 2, 0);
    assert_int_equal(calls_of(plan), 1);
    for (int round = 0; round < 12; round++) {
      bool fails = round < 4 && round % 2 == 0;
      const int64_t numbers[] = {0, 1, 2, fails ? ROWS + 5 : ROWS - 1};
      keel_tensor *in[] = {matrix(&random),
                           create_tensor(context, KD_I64, DIMS(ROWS), numbers)};
      keel_tensor *out[2];
      if (round < 6) {
        assert_int_equal(
            keel_plan_run_with(plan, RUN_PARAMS(.flags = KEEL_RUN_PARTIAL), in,
                               2, out, 2) != KD_OK,
            fails);
      } else {
        expect_ok(keel_plan_run(plan, in, 2, out, 2));
      }
      expect_f_of(in[0], out[0]);
      if (fails)
        assert_int_not_equal(keel_tensor_query(out[1]), KD_OK);
      else
        expect_f_of(in[0], out[1]);
      release_all(in, 2);
      release_all(out, 2);
    }
    replays = keel_plan_replays(plan);
    assert_true(replays > 0);
    RELEASE(plan, program);
  }
}

/* ---- donated inputs -------------------------------------------------------------------- */

/* A recording would hold a donated input: what reads it is launched step by step. */
TEST_THAT(no_recording_holds_donated_inputs) {
  static const char *const places[] = {"Min=cpu:0"};
  static const uint32_t first = 0;
  for (size_t i = 0; i < KEEL_COUNT_OF(recording); i++) {
    keel_device *device = named(recording[i]);
    if (!device) continue;
    uint64_t random = 6;
    keel_program *program = two_stretches(4);
    keel_plan *plan = plan_on(program, device, places, 1, 0);
    keel_plan *plain = plan_on(program, named("cpu:0"), NULL, 0, 0);
    assert_int_equal(calls_of(plan), 2);
    for (int round = 0; round < 12; round++) {
      uint64_t before = keel_plan_replays(plan);
      keel_tensor *x = matrix(&random), *there = NULL, *want = NULL, *z = NULL;
      float a[COUNT], b[COUNT];
      expect_ok(keel_tensor_to(x, device, &there));
      expect_ok(keel_plan_run(plain, &x, 1, &want, 1));
      expect_ok(keel_plan_run_with(
          plan, RUN_PARAMS(.donated = &first, .donated_count = round < 6),
          &there, 1, &z, 1));
      expect_ok(keel_tensor_read(want, a, sizeof a));
      expect_ok(keel_tensor_read(z, b, sizeof b));
      for (int k = 0; k < COUNT; k++)
        assert_float_equal(a[k], b[k], 1e-3);
      uint64_t most = round < 6 ? 1 : 2;
      assert_true(keel_plan_replays(plan) - before <= most);
      if (round == 5 || round == 11)
        assert_int_equal(keel_plan_replays(plan) - before, most);
      if (round >= 6) keel_tensor_release(there);
      RELEASE(x, want, z);
    }
    RELEASE(plan, plain, program);
  }
}

/* ---- threads -------------------------------------------------------------------------- */

typedef struct worker {
  pthread_t thread;
  keel_plan *plain, *plan;
  keel_device *device;
  uint64_t seed;
  bool same;
} worker;

static void *run_worker(void *argument) {
  worker *w = argument;
  w->same = run_both(w->plain, w->plan, w->device, w->seed) &&
            run_both(w->plain, w->plan, w->device, w->seed + 1);
  return NULL;
}

TEST_THAT(threads_share_a_plan) {
  static const char *const places[] = {"Min=cpu:0", "Abs=cpu:0"};
  for (size_t i = 0; i < KEEL_COUNT_OF(recording); i++) {
    keel_device *device = named(recording[i]);
    worker workers[3];
    if (!device) continue;
    keel_program *program = random_graph(1000 + i);
    keel_plan *plain = plan_on(program, named("cpu:0"), NULL, 0, 0);
    keel_plan *plan = plan_on(program, device, places, 2, 0);
    for (uint64_t k = 0; k < 3; k++) {
      workers[k] =
          (worker){.plain = plain, .plan = plan, .device = device, .seed = k};
      pthread_create(&workers[k].thread, NULL, run_worker, &workers[k]);
    }
    for (int k = 0; k < 3; k++)
      pthread_join(workers[k].thread, NULL);
    for (int k = 0; k < 3; k++)
      assert_true(workers[k].same);
    RELEASE(plain, plan, program);
  }
}

RUN_TESTS(open_all_devices, close_context)
