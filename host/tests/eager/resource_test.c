/* resource_test.c - variables, counters and tables: singly, in programs, in nested
 * functions, and where something fails. */
#include <keel/debug.h>

#include <pthread.h>
#include <unistd.h>

#include "one_context.h"
#include "toy/toy.h"

static char folder[] = "/tmp/keel-resource-XXXXXX";
static char path[64];

SETUP(begin) {
  context = open_with(CPU_PLUGIN, TOY("queue"), 3);
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/a", folder);
  return 0;
}

SETUP(end) {
  keel_close(context);
  unlink(path);
  return rmdir(folder);
}

/* ---- helpers ------------------------------------------------------------------ */

static keel_status try_call(const char *name, keel_tensor *a, keel_tensor *b,
                            keel_tensor *c, keel_tensor **out, uint32_t m) {
  keel_tensor *inputs[] = {a, b, c};
  char full[64];
  snprintf(full, sizeof full, "keel::%s", name);
  return keel_call(context, full, NULL, 0, inputs,
                   c   ? 3
                   : b ? 2
                   : a ? 1
                       : 0,
                   out, m);
}

static keel_tensor *call(const char *name, keel_tensor *a, keel_tensor *b,
                         keel_tensor *c) {
  keel_tensor *out = NULL;
  if (try_call(name, a, b, c, &out, 1) != KD_OK) fail_msg("%s", keel_message());
  return out;
}

static keel_tensor *integer(int64_t number) {
  return create_tensor(context, KD_I64, 0, NULL, &number);
}

static keel_tensor *integers(int64_t count, const int64_t *numbers) {
  return create_tensor(context, KD_I64, 1, &count, numbers);
}

static keel_tensor *scalar(float number) {
  return create_tensor(context, KD_F32, 0, NULL, &number);
}

/* Both release what they read. */
static int64_t to_integer(keel_tensor *tensor) {
  int64_t number = 0;
  expect_ok(keel_tensor_read(tensor, &number, sizeof number));
  keel_tensor_release(tensor);
  return number;
}

static float to_float(keel_tensor *tensor) {
  float number = 0;
  expect_ok(keel_tensor_read(tensor, &number, sizeof number));
  keel_tensor_release(tensor);
  return number;
}

static keel_tensor *variable_of(float number) {
  keel_tensor *initial = scalar(number);
  keel_tensor *variable = call("Variable", initial, NULL, NULL);
  keel_tensor_release(initial);
  return variable;
}

static float held(keel_tensor *variable) {
  return to_float(call("VariableRead", variable, NULL, NULL));
}

static int64_t counted(keel_tensor *counter) {
  keel_tensor *none = integer(0);
  int64_t count = to_integer(call("CounterAdd", counter, none, NULL));
  keel_tensor_release(none);
  return count;
}

static void expect_refused(const char *name, keel_tensor *a, keel_tensor *b,
                           keel_tensor *c, const char *why) {
  keel_tensor *out = NULL;
  assert_int_equal(try_call(name, a, b, c, &out, 1), KD_INVALID_ARGUMENT);
  assert_null(out);
  expect_message(name);
  expect_message(why);
}

static keel_plan *plan_of(keel_builder *builder, uint32_t flags) {
  return finish_plan(builder, PLAN_PARAMS(.flags = flags));
}

static void run(keel_plan *plan, keel_tensor *const *in, uint32_t n,
                keel_tensor **out, uint32_t m) {
  expect_ok(keel_plan_run(plan, in, n, out, m));
}

/* ---- singly --------------------------------------------------------------------- */

TEST_THAT(a_variable_keeps_its_type) {
  char text[64];
  const float pair[] = {1, 2}, three[] = {3, 4, 5};
  keel_tensor *a = floats(context, 2, pair), *b = floats(context, 3, three);
  keel_tensor *variable = call("Variable", a, NULL, NULL);
  assert_string_equal(keel_tensor_text(variable, text, sizeof text),
                      "variable of f32[2]");
  assert_int_equal(keel_tensor_dtype(variable), KD_NONE);
  keel_tensor *now = call("VariableRead", variable, NULL, NULL);
  expect_floats(now, pair, 2);
  expect_refused("VariableAssign", variable, b, NULL,
                 "the variable holds f32[2], not f32[3]");
  keel_tensor *sum = NULL, *two[] = {a, now};
  expect_ok(keel_call(context, "Add", NULL, 0, two, 2, &sum, 1));
  keel_tensor_release(call("VariableAssign", variable, sum, NULL));
  expect_floats(now, pair, 2); /* what was read before stays */
  keel_tensor_release(now);
  now = call("VariableRead", variable, NULL, NULL);
  expect_floats(now, (const float[]){2, 4}, 2);
  RELEASE(a, b, variable, now, sum);

  keel_attr any = KEEL_INT("any_shape", 1);
  keel_tensor *scalar_ = scalar(1), *whole = integer(1);
  expect_ok(
      keel_call(context, "keel::Variable", &any, 1, &scalar_, 1, &variable, 1));
  b = floats(context, 3, three);
  keel_tensor_release(call("VariableAssign", variable, b, NULL));
  expect_refused("VariableAssign", variable, whole, NULL,
                 "holds any shape of f32, not i64");
  RELEASE(scalar_, whole, variable, b);
}

TEST_THAT(what_is_no_such_resource_is_refused) {
  keel_tensor *x = scalar(1), *variable = call("Variable", x, NULL, NULL);
  keel_tensor *counter = call("Counter", NULL, NULL, NULL), *out = NULL;
  expect_refused("VariableRead", x, NULL, NULL,
                 "takes a variable, and got a f32[]");
  expect_refused("VariableRead", counter, NULL, NULL,
                 "takes a variable, and got a counter");
  expect_refused("CounterAdd", variable, NULL, NULL, "takes a counter");
  expect_refused("TableFind", variable, x, NULL, "takes a table");
  expect_refused("VariableAssign", variable, NULL, NULL, "value is missing");
  expect_refused("VariableAssign", variable, variable, NULL,
                 "value is not a tensor");
  expect_refused("Variable", counter, NULL, NULL, "initial is not a tensor");
  expect_refused("VariableRead", NULL, NULL, NULL, "the variable is missing");
  expect_refused("VariableRead", variable, x, NULL, "takes 1 inputs, not 2");
  expect_refused("CounterAdd", counter, x, NULL, "one integer");
  keel_tensor *outputs[2] = {NULL, NULL};
  expect_fails(try_call("VariableRead", variable, NULL, NULL, outputs, 2),
               KD_INVALID_ARGUMENT, "has no output 1");
  /* an op of data */
  assert_int_not_equal(
      keel_call(context, "Relu", NULL, 0, &variable, 1, &out, 1), KD_OK);
  assert_null(out);
  assert_int_not_equal(keel_tensor_read(variable, &out, 4), KD_OK);
  expect_message("a resource, not a tensor");
  RELEASE(x, variable, counter);
}

static void *add_thousand(void *counter) {
  for (int i = 0; i < 1000; i++)
    keel_tensor_release(call("CounterAdd", counter, NULL, NULL));
  return NULL;
}

TEST_THAT(a_counter_counts_from_all_threads) {
  keel_tensor *start = integer(INT64_MAX), *counter = NULL;
  counter = call("Counter", start, NULL, NULL);
  assert_true(to_integer(call("CounterAdd", counter, NULL, NULL)) == INT64_MAX);
  assert_true(counted(counter) == INT64_MIN); /* it wraps */
  keel_tensor_release(counter);
  counter = call("Counter", NULL, NULL, NULL);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, add_thousand, counter);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(counted(counter), 4000);
  RELEASE(counter, start);
}

/* Random inserts, finds and erasures beside an array that does the same. */
TEST_THAT(a_table_is_a_map) {
  enum { KEYS = 300, STEPS = 3000 };
  float rows[KEYS][2];
  bool there[KEYS] = {false};
  int64_t count = 0;
  uint64_t random = 1;
  keel_tensor *absent = floats(context, 2, (const float[]){-1, -2});
  keel_tensor *table = call("Table", absent, NULL, NULL);
  for (int step = 0; step < STEPS; step++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    int64_t at = (int64_t)(random >> 33) % KEYS;
    /* far apart, and of both signs */
    int64_t name = (at - KEYS / 2) * INT64_C(1000000007);
    keel_tensor *key = integer(name);
    if (random >> 60 < 9) {
      rows[at][0] = (float)step;
      rows[at][1] = (float)-step;
      count += !there[at];
      there[at] = true;
      keel_tensor *row = floats(context, 2, rows[at]);
      assert_int_equal(to_integer(call("TableInsert", table, key, row)), count);
      keel_tensor_release(row);
    } else if (random >> 60 < 12) {
      assert_int_equal(to_integer(call("TableErase", table, key, NULL)),
                       there[at]);
      count -= there[at];
      there[at] = false;
    } else {
      keel_tensor *out[2];
      uint8_t found = 9;
      expect_ok(try_call("TableFind", table, key, NULL, out, 2));
      expect_floats(out[0], there[at] ? rows[at] : (const float[]){-1, -2}, 2);
      expect_ok(keel_tensor_read(out[1], &found, 1));
      assert_int_equal(found, there[at]);
      release_all(out, 2);
    }
    keel_tensor_release(key);
  }
  keel_tensor *out[2];
  expect_ok(try_call("TableEntries", table, NULL, NULL, out, 2));
  const int64_t *keys = keel_tensor_data(out[0]);
  const float *data = keel_tensor_data(out[1]);
  assert_int_equal(keel_tensor_elements(out[0]), count);
  for (int64_t at = 0, i = 0; at < KEYS; at++) {
    if (!there[at]) continue;
    assert_true(keys[i] == (at - KEYS / 2) * INT64_C(1000000007));
    assert_memory_equal(data + 2 * i++, rows[at], sizeof rows[at]);
  }
  release_all(out, 2);
  RELEASE(table, absent);
}

TEST_THAT(a_table_takes_many_keys_at_once) {
  char text[64];
  const int64_t some[] = {7, 8, 7, 9}, asked[] = {9, 7, 1};
  const float rows[] = {1, 2, 3, 4};
  keel_tensor *absent = scalar(-1), *keys = integers(4, some);
  keel_tensor *values = floats(context, 4, rows), *others = integers(3, asked);
  keel_tensor *table = call("Table", absent, NULL, NULL);
  assert_string_equal(keel_tensor_text(table, text, sizeof text),
                      "table of f32[]");
  /* the last row of a key stays */
  assert_int_equal(to_integer(call("TableInsert", table, keys, values)), 3);
  keel_tensor *found = call("TableFind", table, others, NULL);
  expect_floats(found, (const float[]){4, 3, -1}, 3);
  assert_int_equal(to_integer(call("TableErase", table, keys, NULL)), 3);
  keel_tensor_release(found);
  found = call("TableEntries", table, NULL, NULL);
  assert_int_equal(keel_tensor_elements(found), 0);
  expect_refused("TableInsert", table, others, values,
                 "rows for these keys are f32[3], not f32[4]");
  expect_refused("TableInsert", table, values, values,
                 "keys are f32 and must be i64");
  expect_refused("TableInsert", table, keys, NULL, "rows is missing");
  RELEASE(absent, keys, values, others, table, found);
}

/* No keys, and rows without elements. */
TEST_THAT(a_table_takes_nothing) {
  const int64_t none = 0, key_ = 5;
  keel_tensor *absent = floats(context, 0, NULL), *row = scalar(1);
  keel_tensor *empty = call("Table", absent, NULL, NULL);
  keel_tensor *table = call("Table", row, NULL, NULL), *key = integer(key_);
  keel_tensor *no_keys = integers(none, NULL), *out[2];
  assert_int_equal(to_integer(call("TableInsert", table, no_keys, absent)), 0);
  assert_int_equal(to_integer(call("TableErase", table, no_keys, NULL)), 0);
  keel_tensor *found = call("TableFind", table, no_keys, NULL);
  assert_int_equal(keel_tensor_elements(found), 0);
  assert_int_equal(to_integer(call("TableInsert", empty, key, absent)), 1);
  expect_ok(try_call("TableEntries", empty, NULL, NULL, out, 2));
  assert_int_equal(keel_tensor_elements(out[0]), 1);
  assert_int_equal(keel_tensor_elements(out[1]), 0);
  keel_tensor *all[] = {absent,  row,   empty,  table, key,
                        no_keys, found, out[0], out[1]};
  release_all(all, 9);
}

static void *fulfil_later(void *promise) {
  keel_tensor *value = scalar(5);
  usleep(20000);
  expect_ok(keel_tensor_fulfil(promise, value));
  keel_tensor_release(value);
  return NULL;
}

TEST_THAT(calls_take_effect_in_their_order) {
  pthread_t thread;
  keel_tensor *promise = NULL, *variable = variable_of(1);
  expect_ok(keel_tensor_promise(context, &promise));
  pthread_create(&thread, NULL, fulfil_later, promise);
  keel_tensor_release(call("VariableAssign", variable, promise, NULL));
  assert_true(held(variable) == 5);
  pthread_join(thread, NULL);
  keel_tensor_release(promise);
  /* what failed changes nothing */
  expect_ok(keel_tensor_promise(context, &promise));
  expect_ok(keel_tensor_fail(promise, KD_ABORTED, "not today"));
  keel_tensor *assigned = call("VariableAssign", variable, promise, NULL);
  assert_int_equal(keel_tensor_query(assigned), KD_ABORTED);
  assert_true(held(variable) == 5);
  RELEASE(promise, variable, assigned);
}

/* ---- in programs ------------------------------------------------------------------ */

enum { VARIABLES = 4, OPS = 60 };

/* A program of random reads and changes of four variables, its outputs, and what they
 * must be; each variable begins as its number. */
static keel_builder *random_program(uint64_t *random, float *want,
                                    uint32_t *out_count, float *after) {
  keel_value variables[VARIABLES], last[VARIABLES];
  char name[16];
  keel_builder *builder = create_builder(context, "random");
  for (int i = 0; i < VARIABLES; i++) {
    snprintf(name, sizeof name, "v%d", i);
    variables[i] = keel_builder_resource(builder, name);
    last[i] = KEEL_ABSENT;
    after[i] = (float)i;
  }
  float read_as[VARIABLES];
  *out_count = 0;
  for (int i = 0; i < OPS; i++) {
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    int at = (int)(*random >> 62), from = (int)(*random >> 60 & 3);
    if (last[from] == KEEL_ABSENT || *random >> 58 & 1) {
      last[at] = op(builder, "keel::VariableRead", variables[at], KEEL_ABSENT);
      read_as[at] = after[at];
      want[*out_count] = after[at];
      snprintf(name, sizeof name, "%u", (*out_count)++);
      expect_ok(keel_builder_output(builder, name, last[at]));
    } else { /* at := what was read of `from`, + 1 */
      keel_value sum =
          op(builder, "Add", last[from], constant_of(builder, scalar(1)));
      op(builder, "keel::VariableAssign", variables[at], sum);
      after[at] = read_as[from] + 1;
    }
  }
  return builder;
}

TEST_THAT(runs_act_as_if_one_after_the_other) {
  uint64_t random = 11;
  for (int round = 0; round < 60; round++) {
    float want[OPS], after[VARIABLES];
    uint32_t count = 0;
    keel_builder *builder = random_program(&random, want, &count, after);
    if (!count) {
      keel_builder_destroy(builder);
      continue;
    }
    keel_plan *plan = plan_of(builder, round % 4 == 3 ? KEEL_PLAN_EAGER : 0);
    for (int again = 0; again < 5; again++) {
      keel_tensor *variables[VARIABLES], *out[OPS];
      for (int i = 0; i < VARIABLES; i++)
        variables[i] = variable_of((float)i);
      run(plan, variables, VARIABLES, out, count);
      for (uint32_t i = 0; i < count; i++)
        assert_true(to_float(out[i]) == want[i]);
      for (int i = 0; i < VARIABLES; i++) {
        assert_true(held(variables[i]) == after[i]);
        keel_tensor_release(variables[i]);
      }
    }
    keel_plan_release(plan);
  }
}

TEST_THAT(changes_are_made_though_nobody_reads_them) {
  keel_builder *builder = create_builder(context, "count");
  keel_value counter = keel_builder_resource(builder, "counter");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 0, NULL);
  for (int i = 0; i < 3; i++) /* alike, and not shared */
    op(builder, "keel::CounterAdd", counter, KEEL_ABSENT);
  expect_ok(
      keel_builder_output(builder, "y", op(builder, "Neg", x, KEEL_ABSENT)));
  keel_plan *plan = plan_of(builder, 0);
  keel_tensor *in[] = {call("Counter", NULL, NULL, NULL), scalar(2)}, *y = NULL;
  for (int i = 1; i <= 4; i++) {
    run(plan, in, 2, &y, 1);
    assert_true(to_float(y) == -2);
    assert_int_equal(counted(in[0]), 3 * i);
  }
  release_all(in, 2);
  keel_plan_release(plan);
}

TEST_THAT(one_resource_is_not_two_inputs) {
  keel_builder *builder = create_builder(context, "two");
  keel_value a = keel_builder_resource(builder, "a");
  keel_value b = keel_builder_resource(builder, "b");
  keel_builder_output(builder, "x",
                      op(builder, "keel::VariableRead", a, KEEL_ABSENT));
  keel_builder_output(builder, "y",
                      op(builder, "keel::VariableRead", b, KEEL_ABSENT));
  keel_plan *plan = plan_of(builder, 0);
  keel_tensor *v = variable_of(1), *in[] = {v, v}, *out[2];
  expect_fails(keel_plan_run(plan, in, 2, out, 2), KD_INVALID_ARGUMENT,
               "inputs 0 and 1 are the same resource");
  in[1] = variable_of(2);
  run(plan, in, 2, out, 2);
  assert_true(to_float(out[0]) == 1 && to_float(out[1]) == 2);
  release_all(in, 2);
  keel_plan_release(plan);
}

TEST_THAT(what_comes_behind_a_failed_change_is_not_done) {
  keel_builder *builder = create_builder(context, "half");
  keel_value a = keel_builder_resource(builder, "a");
  keel_value b = keel_builder_resource(builder, "b");
  keel_value n = keel_builder_resource(builder, "n");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(-1));
  keel_builder_output(builder, "before",
                      op(builder, "keel::VariableRead", a, KEEL_ABSENT));
  op(builder, "keel::VariableAssign", a, x); /* of another type */
  keel_builder_output(builder, "after",
                      op(builder, "keel::VariableRead", a, KEEL_ABSENT));
  keel_value sum =
      op(builder, "ReduceSum",
         op(builder, "keel::VariableRead", a, KEEL_ABSENT), KEEL_ABSENT);
  op(builder, "keel::VariableAssign", b, sum);
  keel_builder_output(builder, "b",
                      op(builder, "keel::VariableRead", b, KEEL_ABSENT));
  keel_builder_output(builder, "n",
                      op(builder, "keel::CounterAdd", n, KEEL_ABSENT));
  keel_plan *plan = plan_of(builder, 0);
  keel_tensor *in[] = {variable_of(1), variable_of(2),
                       call("Counter", NULL, NULL, NULL),
                       floats(context, 2, (const float[]){1, 2})};
  for (int i = 0; i < 50; i++) {
    keel_tensor *out[4];
    expect_fails(keel_plan_run_with(plan, RUN_PARAMS(.flags = KEEL_RUN_PARTIAL),
                                    in, 4, out, 4),
                 KD_INVALID_ARGUMENT, "the variable holds f32[], not f32[2]");
    assert_true(to_float(keel_tensor_retain(out[0])) == 1);
    for (int k = 1; k < 3; k++) {
      expect_fails(keel_tensor_query(out[k]), KD_INVALID_ARGUMENT,
                   "the variable holds f32[], not f32[2]");
    }
    assert_int_equal(to_integer(keel_tensor_retain(out[3])), i);
    release_all(out, 4);
    assert_true(held(in[0]) == 1 && held(in[1]) == 2);
  }
  keel_tensor *out[4];
  assert_int_equal(keel_plan_run(plan, in, 4, out, 4), KD_INVALID_ARGUMENT);
  assert_true(held(in[0]) == 1 && held(in[1]) == 2);
  release_all(in, 4);
  keel_plan_release(plan);
}

/* One step of gradient descent of y = w x + b; w and b are variables. */
static keel_builder *descent(void) {
  const int64_t open = -1;
  keel_builder *g = create_builder(context, "descent");
  keel_value w = keel_builder_resource(g, "w");
  keel_value b = keel_builder_resource(g, "b");
  keel_value x = keel_builder_input(g, "x", KD_F32, 1, &open);
  keel_value y = keel_builder_input(g, "y", KD_F32, 1, &open);
  keel_value rate = constant_of(g, scalar(0.1f));
  keel_value two = constant_of(g, scalar(2));
  keel_value w0 = op(g, "keel::VariableRead", w, KEEL_ABSENT);
  keel_value b0 = op(g, "keel::VariableRead", b, KEEL_ABSENT);
  keel_value off = op(g, "Sub", op(g, "Add", op(g, "Mul", w0, x), b0), y);
  keel_attr flat = KEEL_INT("keepdims", 0);
  keel_value by_w = op(g, "Mul", off, x), square = op(g, "Mul", off, off);
  keel_value dw = keel_builder_op(g, "ReduceMean", &flat, 1, &by_w, 1);
  keel_value db = keel_builder_op(g, "ReduceMean", &flat, 1, &off, 1);
  keel_value loss = keel_builder_op(g, "ReduceMean", &flat, 1, &square, 1);
  keel_value step = op(g, "Mul", rate, two);
  op(g, "keel::VariableAssign", w, op(g, "Sub", w0, op(g, "Mul", step, dw)));
  op(g, "keel::VariableAssign", b, op(g, "Sub", b0, op(g, "Mul", step, db)));
  keel_builder_output(g, "loss", loss);
  return g;
}

TEST_THAT(a_line_is_learned) {
  const float x[] = {-1, -0.5f, 0, 0.5f, 1};
  float y[5];
  for (int i = 0; i < 5; i++)
    y[i] = 3 * x[i] - 2;
  keel_plan *plan = plan_of(descent(), 0);
  keel_tensor *in[] = {variable_of(0), variable_of(0), floats(context, 5, x),
                       floats(context, 5, y)};
  keel_tensor *loss = NULL;
  float first = 0, last = 0;
  for (int i = 0; i < 300; i++) {
    run(plan, in, 4, &loss, 1);
    last = to_float(loss);
    if (!i) first = last;
  }
  assert_true(first > 4 && last < 1e-6f);
  float w = held(in[0]), b = held(in[1]);
  assert_true(w > 2.999f && w < 3.001f && b > -2.001f && b < -1.999f);
  release_all(in, 4);
  keel_plan_release(plan);
}

/* A seed stays, a counter goes on: each run gives numbers of its own, which can be had
 * again. */
TEST_THAT(a_counter_drives_random_numbers) {
  const int64_t six = 6;
  keel_builder *builder = create_builder(context, "random");
  keel_tensor *seed = integer(7), *shape = integers(1, &six);
  keel_value at = op(builder, "keel::CounterAdd",
                     keel_builder_resource(builder, "counter"), KEEL_ABSENT);
  keel_value three[] = {keel_builder_constant(builder, seed), at,
                        keel_builder_constant(builder, shape)};
  keel_builder_output(
      builder, "x",
      keel_builder_op(builder, "keel::Uniform", NULL, 0, three, 3));
  keel_plan *plan = plan_of(builder, 0);
  keel_tensor *counter = call("Counter", NULL, NULL, NULL), *x = NULL;
  float got[6], want[6], before[6] = {0};
  for (int i = 0; i < 3; i++) {
    run(plan, &counter, 1, &x, 1);
    expect_ok(keel_tensor_read(x, got, sizeof got));
    keel_tensor *now = integer(i), *same = call("Uniform", seed, now, shape);
    expect_ok(keel_tensor_read(same, want, sizeof want));
    assert_memory_equal(got, want, sizeof got);
    assert_memory_not_equal(got, before, sizeof got);
    memcpy(before, got, sizeof got);
    RELEASE(x, now, same);
  }
  RELEASE(seed, shape, counter, plan);
}

/* On a device with memory of its own, what is assigned comes to it. */
TEST_THAT(a_variable_lies_where_it_was_made) {
  keel_device *queue = find_device(context, "queue:0");
  keel_tensor *one = scalar(1), *two = scalar(2);
  expect_ok(keel_device_push(queue));
  keel_tensor *variable = call("Variable", one, NULL, NULL);
  keel_device_pop();
  keel_tensor *now = call("VariableRead", variable, NULL, NULL);
  assert_ptr_equal(keel_tensor_device(now), queue);
  keel_tensor_release(now);
  keel_tensor_release(call("VariableAssign", variable, two, NULL));
  now = call("VariableRead", variable, NULL, NULL);
  assert_ptr_equal(keel_tensor_device(now), queue);
  assert_true(to_float(now) == 2);
  RELEASE(one, two, variable);
}

/* ---- in nested functions, and in files ------------------------------------------------ */

static void run_nested(keel_program *program, uint32_t flags) {
  keel_plan *plan = create_plan(program, PLAN_PARAMS(.flags = flags));
  keel_tensor *absent = scalar(0);
  keel_tensor *in[6] = {variable_of(10), call("Counter", NULL, NULL, NULL),
                        call("Table", absent, NULL, NULL), integer(3),
                        scalar(0.5f)};
  for (int round = 0; round < 20; round++) {
    const uint8_t add = round % 2 == 0;
    keel_tensor *out[6];
    keel_tensor_create(context, KD_BOOL, 0, NULL, &add, &in[5]);
    run(plan, in, 6, out, 6);
    float now = 10 + 1.5f * (float)(round + 1);
    assert_true(to_float(keel_tensor_retain(out[0])) == now);
    const int64_t *counts = keel_tensor_data(out[1]);
    for (int i = 0; i < 3; i++)
      assert_int_equal(counts[i], 3 * round + i);
    assert_int_equal(to_integer(keel_tensor_retain(out[2])),
                     add ? round / 2 + 1 : -1);
    assert_true(to_float(keel_tensor_retain(out[3])) == now);
    int64_t rows = keel_tensor_elements(out[4]);
    int added = round - round % 2; /* the last round that inserted */
    assert_int_equal(rows, added / 2 + 1);
    assert_int_equal(((const int64_t *)keel_tensor_data(out[4]))[rows - 1],
                     3 * (added + 1));
    assert_true(((const float *)keel_tensor_data(out[5]))[rows - 1] ==
                10 + 1.5f * (float)(added + 1));
    release_all(out, 6);
    keel_tensor_release(in[5]);
  }
  release_all(in, 5);
  RELEASE(absent, plan);
}

TEST_THAT(nested_functions_count_where_their_node_stands) {
  keel_program *again = NULL, *compiled = NULL;
  keel_port port;
  (void)state;
  keel_program *program = load_program(context, TEST_DATA "/state.mlir");
  expect_ok(keel_program_input(program, 1, &port));
  assert_int_equal(port.flags, KEEL_PORT_RESOURCE);
  run_nested(program, 0);
  run_nested(program, KEEL_PLAN_EAGER);
  expect_ok(keel_program_compile(program, NULL, &compiled));
  for (uint32_t flags = 0; flags < 4; flags++) {
    expect_ok(keel_program_save(flags & 2 ? compiled : program, path,
                                flags & 1 ? KEEL_SAVE_TEXT : 0));
    again = load_program(context, path);
    expect_ok(keel_program_input(again, 1, &port));
    assert_int_equal(port.flags, KEEL_PORT_RESOURCE);
    run_nested(again, 0);
    keel_program_release(again);
  }
  RELEASE(compiled, program);
}

TEST_THAT(a_resource_is_no_constant) {
  keel_program *program = NULL;
  keel_builder *builder = create_builder(context, "c");
  keel_tensor *variable = variable_of(1);
  keel_value value = keel_builder_constant(builder, variable);
  keel_builder_output(builder, "x", value);
  expect_fails(keel_builder_finish(builder, &program), KD_INVALID_ARGUMENT,
               "pass it to the program as an input");
  RELEASE(builder, variable);
}

RUN_TESTS(begin, end)
