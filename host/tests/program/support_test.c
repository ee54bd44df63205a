/* support_test.c - whether a device takes a program: the answer, op by op, and what a plan
 * then does. */
#define WORKERS 2
#define BESIDE  MINIMAL_PLUGIN
#include "with_cpu.h"

typedef struct answers {
  uint32_t count;
  char ops[16][64], nodes[16][64], whys[16][256];
  keel_status statuses[16];
} answers;

static void note(void *support_context, const keel_support *op) {
  answers *all = support_context;
  assert_true(all->count < 16);
  snprintf(all->ops[all->count], 64, "%s", op->op);
  snprintf(all->nodes[all->count], 64, "%s", op->node);
  snprintf(all->whys[all->count], 256, "%s", op->why);
  all->statuses[all->count++] = op->status;
}

static keel_device *device_of(const char *name) {
  keel_device *device = find_device(context, name);
  return device;
}

/* What plans of the program do, by their profile: the device of a node. */
static void expect_on(keel_program *program, keel_device *device,
                      keel_tensor *x, const char *node, const char *where) {
  keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = device));
  keel_profile_line line;
  bool found = false;
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  keel_tensor *y = output_of(plan, &x, 1);
  keel_plan_profile(plan, 0);
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++) {
    if (strcmp(line.node, node) != 0) continue;
    assert_string_equal(line.device, where);
    found = true;
  }
  assert_true(found);
  RELEASE(y, plan);
}

/* The minimal device has Add and Relu of f32, and no Erf. */
static keel_program *add_and_erf(const char *second, kd_dtype dtype,
                                 int64_t size) {
  keel_builder *builder = create_builder(context, "two");
  keel_value x = keel_builder_input(builder, "x", dtype, 1, &size);
  expect_ok(keel_builder_node_name(builder, "first"));
  x = op(builder, "Add", x, x);
  expect_ok(keel_builder_node_name(builder, "second"));
  x = op(builder, second, x, KEEL_ABSENT);
  return program_giving(builder, x);
}

TEST_THAT(taken) {
  keel_program *program = add_and_erf("Relu", KD_F32, 2);
  answers all = {0};
  expect_ok(keel_program_support(program, device_of("minimal:0"), note, &all));
  assert_int_equal(all.count, 2);
  assert_string_equal(all.ops[0], "Add");
  assert_string_equal(all.nodes[1], "second");
  assert_string_equal(all.whys[0], "");
  expect_ok(keel_program_support(program, device_of("cpu:0"), NULL, NULL));
  expect_ok(keel_program_support(program, NULL, NULL, NULL));
  keel_tensor *x = equal_floats(context, 2, 1);
  expect_on(program, device_of("minimal:0"), x, "second", "minimal:0");
  RELEASE(x, program);
}

TEST_THAT(no_kernel) {
  keel_program *program = add_and_erf("Erf", KD_F32, 2);
  keel_device *minimal = device_of("minimal:0");
  answers all = {0};
  expect_fails(keel_program_support(program, minimal, note, &all),
               KD_UNIMPLEMENTED, "minimal:0 has no kernel for Erf");
  expect_message("in node \"second\"");
  assert_int_equal(all.count, 2);
  expect_ok(all.statuses[0]);
  assert_int_equal(all.statuses[1], KD_UNIMPLEMENTED);
  assert_non_null(strstr(all.whys[1], "no kernel for Erf"));
  keel_tensor *x = equal_floats(context, 2, 1);
  expect_on(program, minimal, x, "first", "minimal:0");
  expect_on(program, minimal, x, "second", "cpu:0");
  RELEASE(x, program);
}

TEST_THAT(no_kernel_of_types) {
  keel_program *program = add_and_erf("Relu", KD_F64, 2);
  expect_fails(
      keel_program_support(program, device_of("minimal:0"), NULL, NULL),
      KD_UNIMPLEMENTED,
      "minimal:0 has no kernel for Add(f64[2], f64[2]) -> (f64[2])");
  keel_program_release(program);
  program = add_and_erf("Relu", KD_F64, -1); /* that much is known */
  expect_fails(
      keel_program_support(program, device_of("minimal:0"), NULL, NULL),
      KD_UNIMPLEMENTED, "minimal:0 has no kernel for Add of its types");
  keel_program_release(program);
}

/* Dropout of x, by a training mode that is 0, 1, or (-1) an input. It is the runtime's, and its
 * numbers are random unless it keeps all. */
static keel_program *dropout(int training, float ratio) {
  const uint8_t mode = training == 1;
  keel_builder *builder = create_builder(context, "dropout");
  keel_value inputs[3] = {keel_builder_input(builder, "x", KD_F32, DIMS(2))};
  inputs[1] = add_constant(builder, KD_F32, 0, NULL, &ratio);
  inputs[2] = training < 0
                  ? keel_builder_input(builder, "training", KD_BOOL, 0, NULL)
                  : add_constant(builder, KD_BOOL, 0, NULL, &mode);
  return program_giving(
      builder, keel_builder_op(builder, "Dropout", NULL, 0, inputs, 3));
}

TEST_THAT(dropping) {
  static const struct {
    int training;
    float ratio;
    int random;
  } cases[] = {
      {0, 0.5f, 0}, {1, 0, 0}, {-1, 0, 0}, {1, 0.5f, 1}, {-1, 0.5f, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    keel_program *program = dropout(cases[i].training, cases[i].ratio);
    expect_ok(keel_program_support(program, device_of("cpu:0"), NULL, NULL));
    assert_int_equal(keel_program_is_random(program), cases[i].random);
    keel_program_release(program);
  }
}

TEST_THAT(known_in_a_run) {
  keel_program *program = add_and_erf("Relu", KD_F32, -1);
  answers all = {0};
  expect_fails(
      keel_program_support(program, device_of("minimal:0"), note, &all),
      KD_FAILED_PRECONDITION, "takes Add depends on");
  expect_message("known in a run only");
  expect_message("in node \"first\"");
  assert_int_equal(all.statuses[0], KD_FAILED_PRECONDITION);
  assert_int_equal(all.statuses[1], KD_FAILED_PRECONDITION);
  keel_program_release(program);
  program = add_and_erf("Erf", KD_F32, -1); /* a no is worth more */
  expect_fails(
      keel_program_support(program, device_of("minimal:0"), NULL, NULL),
      KD_UNIMPLEMENTED, "no kernel for Erf");
  keel_program_release(program);
}

/* Both ops are refused, and the answer is the first's. */
TEST_THAT(the_first_no_is_the_answer) {
  keel_program *program = add_and_erf("Erf", KD_F64, 2);
  expect_fails(
      keel_program_support(program, device_of("minimal:0"), NULL, NULL),
      KD_UNIMPLEMENTED, "no kernel for Add");
  expect_message("in node \"first\"");
  keel_program_release(program);
}

/* A body's ops are asked about, too; If is the runtime's. */
TEST_THAT(nested) {
  keel_builder *builder = create_builder(context, "nested"), *bodies[2];
  keel_value which = keel_builder_input(builder, "which", KD_BOOL, 0, NULL);
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(2));
  for (int i = 0; i < 2; i++) {
    expect_ok(keel_builder_body(builder, "branch", &bodies[i]));
    keel_builder_output(bodies[i], "y",
                        op(bodies[i], i ? "Erf" : "Relu",
                           keel_builder_capture(bodies[i], x), KEEL_ABSENT));
  }
  const keel_attr attrs[] = {KEEL_BODY("then_branch", bodies[0]),
                             KEEL_BODY("else_branch", bodies[1])};
  keel_builder_output(builder, "y",
                      keel_builder_op(builder, "If", attrs, 2, &which, 1));
  for (int i = 0; i < 2; i++)
    keel_builder_destroy(bodies[i]);
  keel_program *program = finish_program(builder);
  answers all = {0};
  assert_int_equal(
      keel_program_support(program, device_of("minimal:0"), note, &all),
      KD_UNIMPLEMENTED);
  assert_int_equal(all.count, 3);
  assert_string_equal(all.ops[0], "If");
  expect_ok(all.statuses[0]);
  assert_string_equal(all.ops[1], "Relu");
  expect_ok(all.statuses[1]);
  assert_int_equal(all.statuses[2], KD_UNIMPLEMENTED);
  keel_program_release(program);
}

/* An op that a device's scope has placed is not the device's that is asked. */
TEST_THAT(placed_elsewhere) {
  keel_builder *builder = create_builder(context, "placed");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(2));
  expect_ok(keel_device_push(device_of("cpu:0")));
  x = op(builder, "Relu", x, KEEL_ABSENT);
  keel_device_pop();
  keel_program *program = program_giving(builder, x);
  expect_fails(
      keel_program_support(program, device_of("minimal:0"), NULL, NULL),
      KD_UNIMPLEMENTED, "Relu was placed on cpu:0");
  expect_ok(keel_program_support(program, device_of("cpu:0"), NULL, NULL));
  keel_program_release(program);
}

RUN_TESTS(open_cpu, close_context)
