/* control_test.c - If, Loop and SequenceMap: while what is nested in them waits for a
 * device, no thread does. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "one_context.h"
#include "toy/toy.h"

enum { NODES = 120 };

static toy_state *toy;
static char *written; /* a program's text */
static size_t written_size;

static void begin(int32_t workers) {
  context = open_with(CPU_PLUGIN, TOY("queue"), workers);
  toy = toy_of(TOY("queue"));
  assert_non_null(toy);
}

static void end(void) {
  keel_close(context);
}

/* ---- a program of many nodes with nested functions ------------------------------------ */

/* -7 x, on the device and then on the host: what comes between is a copy that is waited
 * for. Names begin with %b. */
static void write_seven(FILE *file, const char *x, float factor) {
  fprintf(file,
          "      %%b0 = \"keel.constant\"() {value = dense<%f> : tensor<f32>}"
          " : () -> tensor<f32>\n"
          "      %%b1 = \"onnx.Mul\"(%s, %%b0) {keel.device = \"queue:0\"} :"
          " (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>\n"
          "      %%b2 = \"onnx.Neg\"(%%b1) {keel.device = \"cpu:0\"} :"
          " (tensor<2xf32>) -> tensor<2xf32>\n",
          (double)factor, x);
}

static void write_if(FILE *file, int i, float factor) {
  fprintf(file, "    %%n%d = \"onnx.If\"(%%yes, %%x) ({\n", i);
  fputs("    ^bb0(%y: tensor<2xf32>):\n", file);
  write_seven(file, "%y", factor);
  fputs(
      "      \"keel.return\"(%b2) : (tensor<2xf32>) -> ()\n"
      "    }, {\n"
      "      %b3 = \"keel.constant\"() {value = dense<0.0> : tensor<2xf32>} :"
      " () -> tensor<2xf32>\n"
      "      \"keel.return\"(%b3) : (tensor<2xf32>) -> ()\n"
      "    }) {keel.graphs = [{attribute = \"then_branch\", captures = 1 :"
      " i64}, {attribute = \"else_branch\", captures = 0 : i64}]} :"
      " (tensor<i1>, tensor<2xf32>) -> tensor<2xf32>\n",
      file);
}

/* Three rounds; whether there is another says a value on the device. */
static void write_loop(FILE *file, int i, float factor) {
  fprintf(file, "    %%n%d = \"onnx.Loop\"(%%three, %%yes, %%x, %%there) ({\n",
          i);
  fputs(
      "    ^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<2xf32>,"
      " %d: tensor<i1>):\n",
      file);
  write_seven(file, "%v", factor);
  fputs(
      "      \"keel.return\"(%d, %b2) : (tensor<i1>, tensor<2xf32>) -> ()\n"
      "    }) {keel.graphs = [{attribute = \"body\", captures = 1 : i64}]} :"
      " (tensor<i64>, tensor<i1>, tensor<2xf32>, tensor<i1>) ->"
      " tensor<2xf32>\n",
      file);
}

static void write_map(FILE *file, int i, float factor) {
  fprintf(file,
          "    %%s%d = \"onnx.SequenceConstruct\"(%%x, %%x) : (tensor<2xf32>,"
          " tensor<2xf32>) -> !keel.value\n"
          "    %%m%d = \"onnx.SequenceMap\"(%%s%d) ({\n",
          i, i, i);
  fputs("    ^bb0(%y: tensor<2xf32>):\n", file);
  write_seven(file, "%y", factor);
  fputs(
      "      \"keel.return\"(%b2) : (tensor<2xf32>) -> ()\n"
      "    }) {keel.graphs = [{attribute = \"body\", captures = 0 : i64}]} :"
      " (!keel.value) -> !keel.value\n",
      file);
  fprintf(file,
          "    %%n%d = \"onnx.SequenceAt\"(%%m%d, %%one) : (!keel.value,"
          " tensor<i64>) -> tensor<2xf32>\n",
          i, i);
}

static FILE *begin_text(void) {
  FILE *file = open_memstream(&written, &written_size);
  assert_non_null(file);
  fputs(
      "\"keel.program\"() ({\n"
      "  ^bb0(%x: tensor<2xf32>, %yes: tensor<i1>, %there: tensor<i1>,"
      " %counter: !keel.resource):\n"
      "    %three = \"keel.constant\"() {value = dense<3> : tensor<i64>} : () "
      "->"
      " tensor<i64>\n"
      "    %one = \"keel.constant\"() {value = dense<1> : tensor<i64>} : () ->"
      " tensor<i64>\n",
      file);
  return file;
}

/* The program, whose outputs are the nodes' values, made ready. */
static keel_plan *end_text(FILE *file, int count) {
  fputs("    \"keel.return\"(", file);
  for (int i = 0; i < count; i++)
    fprintf(file, "%s%%n%d", i ? ", " : "", i);
  fputs(") : (", file);
  for (int i = 0; i < count; i++)
    fprintf(file, "%stensor<2xf32>", i ? ", " : "");
  fputs(") -> ()\n}) : () -> ()\n", file);
  fclose(file);
  keel_program *program = load_text(context, written);
  free(written);
  keel_plan *plan = create_plan(program, NULL);
  keel_program_release(program);
  return plan;
}

/* Node i is an If, a Loop or a SequenceMap; `odd`: one of them has another factor. */
static keel_plan *plan_of_nodes(int count, float factor, float odd) {
  FILE *file = begin_text();
  for (int i = 0; i < count; i++) {
    float by = i == count / 2 ? odd : factor;
    if (i % 3 == 0) write_if(file, i, by);
    if (i % 3 == 1) write_loop(file, i, by);
    if (i % 3 == 2) write_map(file, i, by);
  }
  return end_text(file, count);
}

/* Ifs behind the gate, and one before it, whose value is counted. */
static keel_plan *plan_of_gated(int count) {
  FILE *file = begin_text();
  for (int i = 0; i < count; i++)
    write_if(file, i, i ? 7 : 2);
  fputs(
      "    %sum = \"onnx.ReduceSum\"(%n0) {keepdims = 0 : i64} :"
      " (tensor<2xf32>) -> tensor<f32>\n"
      "    %by = \"onnx.Cast\"(%sum) {to = 7 : i64} : (tensor<f32>) ->"
      " tensor<i64>\n"
      "    %was = \"keel.CounterAdd\"(%counter, %by) : (!keel.resource,"
      " tensor<i64>) -> tensor<i64>\n",
      file);
  return end_text(file, count);
}

/* x, yes on the host, yes on the device, a counter. */
static void make_inputs(keel_tensor **in) {
  const uint8_t yes = 1;
  keel_device *queue = find_device(context, "queue:0");
  in[0] = floats(context, 2, (const float[]){1, -2});
  keel_tensor_create(context, KD_BOOL, 0, NULL, &yes, &in[1]);
  expect_ok(keel_tensor_to(in[1], queue, &in[2]));
  expect_ok(keel_call(context, "keel::Counter", NULL, 0, NULL, 0, &in[3], 1));
}

static void release(keel_tensor **tensors, int count) {
  release_all(tensors, count);
}

static void expect_all(keel_tensor **out, int count, float factor) {
  for (int i = 0; i < count; i++) {
    float by = -factor;
    if (i % 3 == 1) by = by * by * by;
    expect_floats(out[i], (const float[]){by, -2 * by}, 2);
  }
}

/* ---- no thread waits ------------------------------------------------------------------- */

/* Opens the gate when no more is started: nothing for a fifth of a second, or after twenty
 * seconds; tells what was on its way then. */
static void *open_gate(void *most) {
  int last = 0, still = 0;
  for (int i = 0; i < 20000 && still < 200; i++) {
    int now = atomic_load(&toy->pending);
    still = now && now == last ? still + 1 : 0;
    last = now;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  *(int *)most = last;
  atomic_store(&toy->gate, 0);
  return NULL;
}

static void all_wait_at_once(int32_t workers) {
  keel_tensor *in[4], *out[NODES];
  pthread_t thread;
  int most = 0;
  begin(workers);
  keel_plan *plan = plan_of_nodes(NODES, 7, 7);
  make_inputs(in);
  atomic_store(&toy->gate, 1);
  pthread_create(&thread, NULL, open_gate, &most);
  expect_ok(keel_plan_run(plan, in, 4, out, NODES));
  pthread_join(thread, NULL);
  assert_true(most >=
              NODES); /* copies of each node, out of the device at least */
  expect_all(out, NODES, 7);
  release(out, NODES);
  for (int i = 0; i < 3; i++) { /* and as it comes */
    expect_ok(keel_plan_run(plan, in, 4, out, NODES));
    expect_all(out, NODES, 7);
    release(out, NODES);
  }
  release(in, 4);
  keel_plan_release(plan);
  end();
}

TEST_THAT(nested_functions_hold_no_worker) {
  all_wait_at_once(1);
}

TEST_THAT(nor_the_caller_where_there_is_no_worker) {
  all_wait_at_once(KEEL_NO_WORKERS);
}

/* Opens the gate when the counter has counted, or after twenty seconds; tells what it
 * counted until then. */
static void *await_count(void *argument) {
  keel_tensor **counter = argument, *none = NULL, *now = NULL;
  int64_t count = 0, zero = 0;
  keel_tensor_create(context, KD_I64, 0, NULL, &zero, &none);
  for (int i = 0; i < 20000 && !count; i++) {
    keel_tensor *in[] = {*counter, none};
    keel_call(context, "keel::CounterAdd", NULL, 0, in, 2, &now, 1);
    keel_tensor_read(now, &count, sizeof count);
    keel_tensor_release(now);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  keel_tensor_release(none);
  atomic_store(&toy->gate, 0);
  return (void *)(intptr_t)count;
}

/* One thread, many functions that wait: what follows the one that does not is run. */
TEST_THAT(what_has_ended_is_gone_on_from) {
  enum { GATED = 20 };
  keel_tensor *in[4], *out[GATED];
  pthread_t thread;
  void *count = NULL;
  begin(KEEL_NO_WORKERS);
  keel_plan *plan = plan_of_gated(GATED);
  make_inputs(in);
  atomic_store(&toy->gate, 1);
  pthread_create(&thread, NULL, await_count, &in[3]);
  expect_ok(keel_plan_run(plan, in, 4, out, GATED));
  pthread_join(thread, &count);
  assert_int_equal((intptr_t)count, 2);
  expect_floats(out[0], (const float[]){-2, 4}, 2);
  expect_floats(out[1], (const float[]){-7, 14}, 2);
  release(out, GATED);
  release(in, 4);
  keel_plan_release(plan);
  end();
}

/* ---- kernels that block ------------------------------------------------------------------- */

/* Eight kernels that wait for each other, of a program and of single calls: they get
 * threads of their own, and the one worker does other work. */
TEST_THAT(kernels_that_block_get_threads_of_their_own) {
  enum { MEMBERS = 8 };
  keel_tensor *out[MEMBERS];
  context = open_with(CPU_PLUGIN, TOY("barrier"), 1);
  keel_device *barrier = find_device(context, "barrier:0");
  keel_builder *g = create_builder(context, "meet");
  keel_value x = keel_builder_input(g, "x", KD_F32, DIMS(2));
  for (int i = 0; i < MEMBERS; i++) {
    keel_value y = op(g, "Relu", x, KEEL_ABSENT);
    expect_ok(keel_device_push(barrier));
    y = op(g, "Abs", op(g, "Sub", y, x), KEEL_ABSENT);
    keel_device_pop();
    keel_builder_output(g, "y", op(g, "Neg", y, KEEL_ABSENT));
  }
  const char *skip = "cse"; /* they are alike, and stay eight */
  keel_plan *plan = finish_plan(g, PLAN_PARAMS(.skip = &skip, .skip_count = 1));
  keel_tensor *in = floats(context, 2, (const float[]){1, -2});
  for (int round = 0; round < 3; round++) {
    expect_ok(keel_plan_run(plan, &in, 1, out, MEMBERS));
    for (int i = 0; i < MEMBERS; i++)
      expect_floats(out[i], (const float[]){0, -2}, 2);
    release(out, MEMBERS);
  }
  /* calls whose input comes later */
  keel_tensor *late = create_promise(context);
  expect_ok(keel_device_push(barrier));
  for (int i = 0; i < MEMBERS; i++)
    expect_ok(keel_call(context, "Abs", NULL, 0, &late, 1, &out[i], 1));
  keel_device_pop();
  expect_ok(keel_tensor_fulfil(late, in));
  for (int i = 0; i < MEMBERS; i++) {
    expect_ok(keel_tensor_wait(out[i]));
    expect_floats(out[i], (const float[]){1, 2}, 2);
  }
  release(out, MEMBERS);
  RELEASE(late, in, plan, context);
}

/* ---- what goes wrong --------------------------------------------------------------------- */

TEST_THAT(a_late_failure_in_one_ends_the_run) {
  keel_tensor *in[4], *out[NODES];
  begin(2);
  keel_plan *good = plan_of_nodes(NODES, 3, 3);
  keel_plan *bad = plan_of_nodes(NODES, 3, 13);
  make_inputs(in);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(keel_plan_run(bad, in, 4, out, NODES), KD_INTERNAL);
    for (int k = 0; k < NODES; k++)
      assert_null(out[k]);
    assert_int_not_equal(
        keel_plan_run_with(bad, RUN_PARAMS(.flags = KEEL_RUN_PARTIAL), in, 4,
                           out, NODES),
        KD_OK);
    assert_int_not_equal(keel_tensor_query(out[NODES / 2]), KD_OK);
    release(out, NODES);
  }
  release(in, 4);
  make_inputs(in);
  expect_ok(keel_plan_run(good, in, 4, out, NODES));
  expect_all(out, NODES, 3);
  release(out, NODES);
  release(in, 4);
  RELEASE(good, bad);
  end();
}

static void *ask(void *cancel) {
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
  keel_cancel_request(cancel, "enough");
  return NULL;
}

/* A loop without an end, whose rounds are the device's. */
TEST_THAT(an_endless_loop_can_be_stopped) {
  const char text[] =
      "\"keel.program\"() ({\n  ^bb0(%x: tensor<2xf32>):\n"
      "    %none = \"keel.none\"() : () -> none\n"
      "    %n = \"onnx.Loop\"(%none, %none, %x) ({\n"
      "    ^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<2xf32>):\n"
      "      %b0 = \"onnx.Relu\"(%v) {keel.device = \"queue:0\"} :"
      " (tensor<2xf32>) -> tensor<2xf32>\n"
      "      %b1 = \"onnx.Neg\"(%b0) {keel.device = \"cpu:0\"} :"
      " (tensor<2xf32>) -> tensor<2xf32>\n"
      "      \"keel.return\"(%c, %b1) : (tensor<i1>, tensor<2xf32>) -> ()\n"
      "    }) {keel.graphs = [{attribute = \"body\", captures = 0 : i64}]} :"
      " (none, none, tensor<2xf32>) -> tensor<2xf32>\n"
      "    \"keel.return\"(%n) : (tensor<2xf32>) -> ()\n"
      "}) : () -> ()\n";
  keel_tensor *y = NULL;
  pthread_t thread;
  begin(1);
  keel_program *program = load_text(context, text);
  keel_plan *plan = create_plan(program, NULL);
  keel_cancel *cancel = create_cancel(context);
  keel_tensor *x = floats(context, 2, (const float[]){1, -2});
  keel_run_params params = {.struct_size = sizeof params, .cancel = cancel};
  pthread_create(&thread, NULL, ask, cancel);
  expect_fails(keel_plan_run_with(plan, &params, &x, 1, &y, 1), KD_CANCELLED,
               "enough");
  assert_null(y);
  pthread_join(thread, NULL);
  params = (keel_run_params){.struct_size = sizeof params, .timeout = 20000000};
  assert_int_equal(keel_plan_run_with(plan, &params, &x, 1, &y, 1),
                   KD_DEADLINE_EXCEEDED);
  RELEASE(x, cancel, plan, program);
  end();
}

RUN_TESTS(NULL, NULL)
