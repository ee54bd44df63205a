/* builder_test.c - bodies in a builder, ops of older opsets, and names of nodes. */
#include <unistd.h>

#define WORKERS 2
#include "files.h"
#include "with_cpu.h"

static const int64_t one_dim[] = {2};

static keel_value scalar(keel_builder *builder, kd_dtype dtype,
                         const void *data) {
  return add_constant(builder, dtype, 0, NULL, data);
}

static keel_value f32(keel_builder *builder, float value) {
  return scalar(builder, KD_F32, &value);
}

static keel_value i64(keel_builder *builder, int64_t value) {
  return scalar(builder, KD_I64, &value);
}

static keel_value yes(keel_builder *builder) {
  return scalar(builder, KD_BOOL, "\1");
}

static keel_value vector(keel_builder *builder, const char *name) {
  return keel_builder_input(builder, name, KD_F32, 1, one_dim);
}

/* Runs a plan on two floats and a bool. */
static void expect_if(keel_plan *plan, bool which, float a, float b) {
  static const float x[] = {1, 2};
  const float want[] = {a, b};
  keel_tensor *in[] = {create_tensor(context, KD_BOOL, 0, NULL, &which),
                       floats(context, 2, x)};
  keel_tensor *out = output_of(plan, in, 2);
  expect_floats(out, want, 2);
  keel_tensor_release(out);
  release_all(in, 2);
}

/* if which: x + 10, else x * (x + 10): both read what stands around them. */
static keel_builder *build_if(void) {
  keel_builder *builder = create_builder(context, "branches");
  keel_value which = keel_builder_input(builder, "which", KD_BOOL, 0, NULL);
  keel_value x = vector(builder, "x");
  keel_value more = op(builder, "Add", x, f32(builder, 10));
  keel_builder *then = create_body(builder, "then");
  keel_builder *other = create_body(builder, "else");
  keel_builder_output(
      then, "y",
      op(then, "Identity", keel_builder_capture(then, more), KEEL_ABSENT));
  keel_value y = op(other, "Mul", keel_builder_capture(other, x),
                    keel_builder_capture(other, more));
  assert_int_equal(keel_builder_capture(other, x),
                   keel_builder_capture(other, x)); /* once is enough */
  keel_builder_output(other, "y", y);
  const keel_attr attrs[] = {KEEL_BODY("then_branch", then),
                             KEEL_BODY("else_branch", other)};
  keel_builder_output(builder, "y",
                      keel_builder_op(builder, "If", attrs, 2, &which, 1));
  RELEASE(then, other);
  return builder;
}

TEST_THAT(branches) {
  keel_plan *plan = finish_plan(build_if(), NULL);
  expect_if(plan, true, 11, 12);
  expect_if(plan, false, 11, 24);
  keel_plan_release(plan);
}

/* What is built is also saved and loaded. */
TEST_THAT(branches_in_a_file) {
  for (uint32_t flags = 0; flags <= KEEL_SAVE_TEXT; flags++) {
    char path[] = "/tmp/keel-builder-XXXXXX";
    make_file(path);
    keel_program *made = finish_program(build_if());
    assert_int_equal(keel_program_op_count(made), 4);
    expect_ok(keel_program_save(made, path, flags));
    keel_program_release(made);
    keel_program *read = load_program(context, path);
    keel_plan *plan = create_plan(read, NULL);
    expect_if(plan, true, 11, 12);
    expect_if(plan, false, 11, 24);
    RELEASE(plan, read);
    unlink(path);
  }
}

/* Loop, whose body has an If, whose branch reads a value from outside of both:
 * three rounds of v = v + x where the round is even, else v; and each v. */
TEST_THAT(loop_around_branches) {
  keel_builder *builder = create_builder(context, "nested");
  keel_value x = vector(builder, "x");
  keel_builder *body = create_body(builder, "body");
  keel_value round = keel_builder_input(body, "i", KD_I64, 0, NULL);
  keel_value cond = keel_builder_input(body, "cond", KD_BOOL, 0, NULL);
  keel_value v = vector(body, "v"), outer = keel_builder_capture(body, x);
  keel_builder *then = create_body(body, "then"),
               *other = create_body(body, "else");
  keel_builder_output(then, "w",
                      op(then, "Add", keel_builder_capture(then, v),
                         keel_builder_capture(then, outer)));
  keel_builder_output(other, "w", keel_builder_capture(other, v));
  const keel_attr branch[] = {KEEL_BODY("else_branch", other),
                              KEEL_BODY("then_branch", then)};
  keel_value even =
      op(body, "Equal", op(body, "Mod", round, i64(body, 2)), i64(body, 0));
  keel_value w = keel_builder_op(body, "If", branch, 2, &even, 1);
  keel_builder_output(body, "cond", cond);
  keel_builder_output(body, "v", w);
  keel_builder_output(body, "all", w);
  RELEASE(then, other);
  const keel_attr loop = KEEL_BODY("body", body);
  const keel_value in[] = {i64(builder, 3), KEEL_ABSENT, x};
  keel_value out[2];
  expect_ok(keel_builder_op_n(builder, "Loop", &loop, 1, in, 3, out, 2));
  keel_builder_destroy(body);
  keel_builder_output(builder, "v", out[0]);
  keel_builder_output(builder, "all", out[1]);
  keel_plan *plan = finish_plan(builder, NULL);
  static const float start[] = {1, 2}, last[] = {3, 6},
                     all[] = {2, 4, 2, 4, 3, 6};
  keel_tensor *given = floats(context, 2, start), *got[2];
  expect_ok(keel_plan_run(plan, &given, 1, got, 2));
  expect_floats(got[0], last, 2);
  expect_floats(got[1], all, 6);
  release_all(got, 2);
  RELEASE(given, plan);
}

/* Sums over the rows of a matrix. */
TEST_THAT(scan) {
  static const int64_t dims[] = {3, 2};
  static const float rows[] = {1, 2, 3, 4, 5, 6}, sums[] = {1, 2, 4, 6, 9, 12};
  keel_builder *builder = create_builder(context, "scan");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, dims);
  static const float zeros[2] = {0};
  keel_value start = constant_of(builder, floats(context, 2, zeros));
  keel_builder *body = create_body(builder, "body");
  keel_value sum = vector(body, "sum");
  sum = op(body, "Add", sum, vector(body, "row"));
  keel_builder_output(body, "sum", sum);
  keel_builder_output(body, "sums", sum);
  const keel_attr attrs[] = {KEEL_BODY("body", body),
                             KEEL_INT("num_scan_inputs", 1)};
  const keel_value in[] = {start, x};
  keel_value out[2];
  expect_ok(keel_builder_op_n(builder, "Scan", attrs, 2, in, 2, out, 2));
  keel_builder_destroy(body);
  keel_builder_output(builder, "sums", out[1]);
  keel_plan *plan = finish_plan(builder, NULL);
  keel_tensor *given = create_tensor(context, KD_F32, 2, dims, rows);
  keel_tensor *got = output_of(plan, &given, 1);
  expect_floats(got, sums, 6);
  RELEASE(got, given, plan);
}

/* ---- While -------------------------------------------------------------------------- */

/* i < limit, which stands outside. */
static keel_builder *below(keel_builder *builder, keel_value limit) {
  keel_builder *condition = create_body(builder, "condition");
  keel_value i = keel_builder_input(condition, "i", KD_I64, 0, NULL);
  vector(condition, "v");
  keel_builder_output(
      condition, "goes",
      op(condition, "Less", i, keel_builder_capture(condition, limit)));
  return condition;
}

/* i, v -> i + 1, v * factor, where the factor stands outside. */
static keel_builder *times(keel_builder *builder, keel_value factor) {
  keel_builder *body = create_body(builder, "body");
  keel_value i = keel_builder_input(body, "i", KD_I64, 0, NULL);
  keel_value v = vector(body, "v");
  keel_builder_output(body, "i", op(body, "Add", i, i64(body, 1)));
  keel_builder_output(body, "v",
                      op(body, "Mul", v, keel_builder_capture(body, factor)));
  return body;
}

static keel_status add_while(keel_builder *builder, keel_value limit,
                             keel_value v, keel_value factor,
                             keel_value out[2]) {
  const keel_value in[] = {i64(builder, 0), v};
  keel_builder *condition = below(builder, limit);
  keel_builder *body = times(builder, factor);
  keel_status status = keel_builder_while(builder, condition, body, in, 2, out);
  RELEASE(condition, body);
  return status;
}

static void expect_power(keel_plan *plan, int64_t limit, float a, float b) {
  static const float x[] = {1, 3};
  const float want[] = {a, b}, factor = 2;
  keel_tensor *in[] = {create_tensor(context, KD_I64, 0, NULL, &limit),
                       floats(context, 2, x),
                       create_tensor(context, KD_F32, 0, NULL, &factor)};
  keel_tensor *out[2];
  int64_t rounds = -1;
  expect_ok(keel_plan_run(plan, in, 3, out, 2));
  expect_ok(keel_tensor_read(out[0], &rounds, sizeof rounds));
  assert_int_equal(rounds, limit > 0 ? limit : 0);
  expect_floats(out[1], want, 2);
  release_all(out, 2);
  release_all(in, 3);
}

TEST_THAT(while_loop) {
  keel_builder *builder = create_builder(context, "power");
  keel_value limit = keel_builder_input(builder, "limit", KD_I64, 0, NULL);
  keel_value x = vector(builder, "x"), out[2];
  keel_value factor = keel_builder_input(builder, "factor", KD_F32, 0, NULL);
  expect_ok(add_while(builder, limit, x, factor, out));
  keel_builder_output(builder, "i", out[0]);
  keel_builder_output(builder, "v", out[1]);
  keel_program *program = finish_program(builder);
  /* Less, Loop; in it Add, Mul, Less: the two bodies are not counted beside it */
  assert_int_equal(keel_program_op_count(program), 5);
  keel_plan *plan = create_plan(program, NULL);
  keel_program_release(program);
  expect_power(plan, 5, 32, 96);
  expect_power(plan, 1, 2, 6);
  expect_power(plan, 0, 1, 3);
  expect_power(plan, -1, 1, 3);
  keel_plan_release(plan);
}

/* A While in the body of a While: v doubles limit * limit times. */
TEST_THAT(while_in_while) {
  keel_builder *builder = create_builder(context, "square");
  keel_value limit = keel_builder_input(builder, "limit", KD_I64, 0, NULL);
  keel_value x = vector(builder, "x");
  keel_value factor = keel_builder_input(builder, "factor", KD_F32, 0, NULL);
  keel_builder *condition = below(builder, limit);
  keel_builder *body = create_body(builder, "outer");
  keel_value i = keel_builder_input(body, "i", KD_I64, 0, NULL), inner[2];
  keel_value v = vector(body, "v");
  expect_ok(add_while(body, keel_builder_capture(body, limit), v,
                      keel_builder_capture(body, factor), inner));
  keel_builder_output(body, "i", op(body, "Add", i, i64(body, 1)));
  keel_builder_output(body, "v", inner[1]);
  const keel_value in[] = {i64(builder, 0), x};
  keel_value out[2];
  expect_ok(keel_builder_while(builder, condition, body, in, 2, out));
  RELEASE(body, condition);
  keel_builder_output(builder, "i", out[0]);
  keel_builder_output(builder, "v", out[1]);
  keel_plan *plan = finish_plan(builder, NULL);
  expect_power(plan, 3, 512, 1536);
  expect_power(plan, 0, 1, 3);
  keel_plan_release(plan);
}

/* ---- what is refused ------------------------------------------------------------------ */

/* The builder has failed so, and is gone then. */
static void expect_failed(keel_builder *builder, keel_status status,
                          const char *part) {
  keel_program *program = NULL;
  expect_fails(keel_builder_finish(builder, &program), status, part);
  keel_builder_destroy(builder);
}

TEST_THAT(bodies_that_are_left) {
  keel_builder *builder = create_builder(context, "left");
  keel_value x = vector(builder, "x");
  keel_builder_output(builder, "x", x);
  keel_builder *body = create_body(builder, "nobody's"), *none = NULL;
  keel_builder *inner = create_body(body, "inner");
  keel_builder_output(body, "y", vector(body, "y"));
  keel_program *program = NULL;
  expect_fails(keel_builder_finish(body, &program), KD_FAILED_PRECONDITION,
               "this is a body");
  expect_fails(keel_builder_finish(builder, &program), KD_FAILED_PRECONDITION,
               "\"nobody's\"");
  assert_int_equal(keel_builder_capture(builder, x), KEEL_ABSENT);
  expect_message("nothing around it");
  /* that was a failure of the builder, and stays; a body may outlive it */
  keel_builder_destroy(builder);
  assert_int_equal(vector(body, "z"), KEEL_ABSENT);
  expect_message("is finished or gone");
  assert_int_equal(keel_builder_body(inner, "no", &none),
                   KD_FAILED_PRECONDITION);
  assert_null(none);
  RELEASE(body, inner);
}

/* A body that is destroyed leaves nothing in the program. */
TEST_THAT(dropped_bodies) {
  keel_builder *builder = create_builder(context, "dropped");
  keel_value x = vector(builder, "x");
  keel_value factor = f32(builder, 3), out[2];
  keel_builder *body = create_body(builder, "dropped"), *inner = NULL;
  expect_ok(add_while(body, i64(body, 3), keel_builder_capture(body, x),
                      keel_builder_capture(body, factor), out));
  expect_ok(keel_builder_body(body, "inner", &inner));
  op(inner, "Neg", keel_builder_capture(inner, out[1]), KEEL_ABSENT);
  RELEASE(body, inner);
  keel_program *program =
      program_giving(builder, op(builder, "Neg", x, KEEL_ABSENT));
  assert_int_equal(keel_program_op_count(program), 1);
  keel_program_release(program);
}

TEST_THAT(misused_bodies) {
  keel_builder *builder = create_builder(context, "twice");
  keel_value x = vector(builder, "x"), condition = yes(builder);
  keel_builder *body = create_body(builder, "one");
  keel_builder_output(body, "y", keel_builder_capture(body, x));
  const keel_attr twice[] = {KEEL_BODY("then_branch", body),
                             KEEL_BODY("else_branch", body)};
  keel_builder_op(builder, "If", twice, 2, &condition, 1);
  expect_message("an op has taken it over");
  expect_failed(builder, KD_FAILED_PRECONDITION, "in a body of If");
  keel_builder_destroy(body);

  builder = create_builder(context, "another's");
  keel_builder *other = create_builder(context, "other");
  body = create_body(other, "one");
  keel_builder_output(body, "y", f32(body, 1));
  const keel_attr foreign = KEEL_BODY("body", body);
  const keel_value in[] = {i64(builder, 3), KEEL_ABSENT};
  keel_builder_op(builder, "Loop", &foreign, 1, in, 2);
  expect_failed(builder, KD_INVALID_ARGUMENT, "not started in this builder");
  RELEASE(other, body);

  builder = create_builder(context, "none");
  const keel_attr none = KEEL_BODY("body", NULL);
  keel_builder_op(builder, "Loop", &none, 1, NULL, 0);
  expect_failed(builder, KD_INVALID_ARGUMENT, "\"body\" has no body");
}

TEST_THAT(bodies_that_fail) {
  keel_builder *builder = create_builder(context, "fails");
  keel_builder *body = create_body(builder, "one");
  op(body, "Nonsense", f32(body, 1), KEEL_ABSENT);
  keel_builder_output(body, "y", f32(body, 1));
  const keel_attr attr = KEEL_BODY("body", body);
  keel_builder_op(builder, "Loop", &attr, 1, NULL, 0);
  expect_failed(builder, KD_NOT_FOUND, "Nonsense");
  keel_builder_destroy(body);

  builder = create_builder(context, "empty");
  body = create_body(builder, "nothing");
  const keel_attr empty = KEEL_BODY("body", body);
  keel_builder_op(builder, "Loop", &empty, 1, NULL, 0);
  expect_failed(builder, KD_INVALID_ARGUMENT, "\"nothing\" has no output");
  keel_builder_destroy(body);

  builder = create_builder(context, "numbers");
  keel_builder *condition = create_body(builder, "condition");
  body = create_body(builder, "body");
  keel_builder_output(condition, "c", yes(condition));
  keel_builder_output(body, "y", vector(body, "v"));
  keel_value x = vector(builder, "x"), out = 0;
  expect_fails(keel_builder_while(builder, condition, body, &x, 1, &out),
               KD_INVALID_ARGUMENT,
               "the condition has 0 inputs and 1 outputs (1 and 1 are");
  assert_int_equal(out, KEEL_ABSENT);
  RELEASE(condition, body, builder);
}

/* ---- opsets ----------------------------------------------------------------------------- */

static void run_ints(keel_builder *builder, keel_value y, const float *in,
                     int64_t count, const float *want, int64_t wanted) {
  keel_plan *plan = plan_giving(builder, y, NULL);
  keel_tensor *x = floats(context, count, in), *out = output_of(plan, &x, 1);
  expect_floats(out, want, (size_t)wanted);
  RELEASE(x, out, plan);
}

/* ReduceSum-11 has its axes as an attribute, and today's as an input; Clip-6 its bounds. */
TEST_THAT(older_forms) {
  static const float in[] = {-3, 5}, sum[] = {2}, clipped[] = {-1, 4};
  static const int64_t axes[] = {0};
  keel_builder *builder = create_builder(context, "old");
  keel_value x = vector(builder, "x");
  const keel_attr old[] = {KEEL_INTS("axes", 1, axes), KEEL_INT("keepdims", 1)};
  expect_ok(keel_builder_opset(builder, "", 11));
  keel_value y = keel_builder_op(builder, "ReduceSum", old, 2, &x, 1);
  run_ints(builder, y, in, 2, sum, 1);

  builder = create_builder(context, "both"); /* an opset for each op */
  x = vector(builder, "x");
  const keel_attr bounds[] = {KEEL_FLOAT("min", -1), KEEL_FLOAT("max", 4)};
  expect_ok(keel_builder_opset(builder, "ai.onnx", 6));
  y = keel_builder_op(builder, "Clip", bounds, 2, &x, 1);
  expect_ok(keel_builder_opset(builder, NULL, 13));
  const keel_value today[] = {y, f32(builder, -1), f32(builder, 9)};
  y = keel_builder_op(builder, "Clip", NULL, 0, today, 3);
  run_ints(builder, y, in, 2, clipped, 2);
}

/* Add-6 lays b over a from a dimension on, which takes their shapes; a body has its
 * builder's opset. */
TEST_THAT(old_broadcast) {
  static const int64_t dims[] = {2, 2};
  static const float in[] = {1, 2, 3, 4}, want[] = {11, 12, 23, 24};
  static const float b[] = {10, 20};
  keel_builder *builder = create_builder(context, "broadcast");
  expect_ok(keel_builder_opset(builder, "", 6));
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, dims);
  keel_value same =
      op(builder, "Neg", op(builder, "Neg", x, KEEL_ABSENT), KEEL_ABSENT);
  keel_builder *branch = create_body(builder, "then"),
               *other = create_body(builder, "e");
  const keel_value pair[] = {keel_builder_capture(branch, same),
                             constant_of(branch, floats(context, 2, b))};
  const keel_attr attrs[] = {KEEL_INT("axis", 0), KEEL_INT("broadcast", 1)};
  keel_builder_output(branch, "y",
                      keel_builder_op(branch, "Add", attrs, 2, pair, 2));
  keel_builder_output(other, "y", keel_builder_capture(other, x));
  const keel_attr branches[] = {KEEL_BODY("then_branch", branch),
                                KEEL_BODY("else_branch", other)};
  keel_value condition = yes(builder);
  keel_value y = keel_builder_op(builder, "If", branches, 2, &condition, 1);
  RELEASE(branch, other);
  keel_plan *plan = plan_giving(builder, y, NULL);
  keel_tensor *given = create_tensor(context, KD_F32, 2, dims, in);
  keel_tensor *out = output_of(plan, &given, 1);
  expect_floats(out, want, 4);
  RELEASE(out, given, plan);
}

TEST_THAT(refused_opsets) {
  keel_builder *builder = create_builder(context, "new");
  keel_value x = vector(builder, "x");
  expect_ok(keel_builder_opset(builder, "", 1000));
  op(builder, "Relu", x, KEEL_ABSENT);
  expect_failed(builder, KD_UNIMPLEMENTED, "Relu of opset 1000");

  builder = create_builder(context, "zero");
  assert_int_equal(keel_builder_opset(builder, "", 0), KD_INVALID_ARGUMENT);
  expect_failed(builder, KD_INVALID_ARGUMENT, "opset 0");

  builder = create_builder(context, "attribute");
  x = vector(builder, "x");
  const keel_attr strange = KEEL_INT("strange", 1);
  expect_ok(keel_builder_opset(builder, "", 13));
  keel_builder_op(builder, "Relu", &strange, 1, &x, 1);
  expect_failed(builder, KD_UNIMPLEMENTED, "\"strange\"");

  builder = create_builder(context, "old Scan");
  expect_ok(keel_builder_opset(builder, "", 3));
  x = vector(builder, "x");
  op(builder, "Sigmoid", x,
     KEEL_ABSENT); /* the same since opset 1, but for types */
  op(builder, "Concat", x, x);
  expect_failed(builder, KD_UNIMPLEMENTED, "opset");
}

/* ---- names ------------------------------------------------------------------------------ */

TEST_THAT(node_names) {
  keel_builder *builder = create_builder(context, "names");
  keel_value x = vector(builder, "x");
  expect_ok(keel_builder_node_name(builder, "first"));
  x = op(builder, "Neg", x, KEEL_ABSENT);
  expect_ok(keel_builder_node_name(builder, NULL));
  x = op(builder, "Exp", x, KEEL_ABSENT);
  expect_ok(keel_builder_node_name(builder, "last"));
  x = op(builder, "Abs", x, KEEL_ABSENT);
  keel_plan *plan = plan_giving(builder, x, NULL);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  keel_plan_profile(plan, 0);
  static const char *const want[] = {"first", "", "last"};
  for (uint32_t i = 0; i < 3; i++) {
    keel_profile_line line;
    expect_ok(keel_plan_profile_line(plan, i, &line));
    assert_string_equal(line.node, want[i]);
  }
  keel_plan_release(plan);
}

RUN_TESTS(open_cpu, close_context)
