/* placement_test.c - which device each op of a plan runs on: by rules, by the scopes a
 * program was built in, by cost. */
#include <unistd.h>

#include "device/device.h"
#include "one_context.h"
#include "toy/toy.h"

static keel_device *queue, *cpu;
static const float data[] = {-1, 2, -3, 4};
static const float want[] = {0, 4, 0, 8}; /* Relu(x) + Relu(x) */

SETUP(open_both) {
  context = open_with(CPU_PLUGIN, TOY("queue"), 1);
  expect_ok(keel_device_find(context, "queue", &queue));
  expect_ok(keel_device_find(context, "cpu:0", &cpu));
  return 0;
}

/* Relu, then Add of it to itself; Add is built in the scope of `add_on`. */
static keel_program *two_ops(keel_device *add_on) {
  keel_builder *builder = create_builder(context, "two");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  x = op(builder, "Relu", x, KEEL_ABSENT);
  keel_value pair[] = {x, x};
  if (add_on) expect_ok(keel_device_push(add_on));
  x = keel_builder_op(builder, "Add", NULL, 0, pair, 2);
  if (add_on) keel_device_pop();
  return program_giving(builder, x);
}

/* Runs the program and checks that Relu and Add ran on these devices. */
static void expect_places(keel_program *program, const keel_plan_params *params,
                          const char *relu_on, const char *add_on) {
  keel_profile_line line;
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  keel_plan *plan = create_plan(program, params);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  expect_floats(y, want, 4);
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++)
    if (strncmp(line.op, "Copy ", 5) != 0)
      assert_string_equal(line.device,
                          strcmp(line.op, "Relu") ? add_on : relu_on);
  RELEASE(x, y, plan);
}

TEST_THAT(rules_place_ops) {
  static const char *const rows[][4] = {
      {"Relu=queue", NULL, "queue:0", "cpu:0"},
      {"*=queue", NULL, "queue:0", "queue:0"},
      {"A*=queue:0", "*=cpu", "cpu:0", "queue:0"}, /* the first stands */
      {"*=cpu", "Add=queue", "cpu:0", "cpu:0"},
      {"Relu=queue", "Add=@Relu", "queue:0", "queue:0"},
      {"Relu=@Add", "Add=queue", "queue:0", "queue:0"}, /* in any order */
      {"Add=@Add", NULL, "cpu:0", "cpu:0"},
  };
  keel_program *program = two_ops(NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    expect_places(program,
                  PLAN_PARAMS(.device = cpu, .places = rows[i],
                              .place_count = rows[i][1] ? 2 : 1),
                  rows[i][2], rows[i][3]);
  }
  keel_program_release(program);
}

TEST_THAT(a_bad_rule_is_refused) {
  static const struct {
    const char *rule;
    keel_status status;
    const char *says;
  } rows[] = {{"Relu", KD_INVALID_ARGUMENT, "GLOB=DEVICE"},
              {"=cpu", KD_INVALID_ARGUMENT, "GLOB=DEVICE"},
              {"Relu=", KD_INVALID_ARGUMENT, "GLOB=DEVICE"},
              {"Relu=tpu", KD_NOT_FOUND, "no device \"tpu\""},
              {"Conv=cpu", KD_NOT_FOUND, "\"Conv\" matches no node"},
              {"Conv=@Add", KD_NOT_FOUND, "\"Conv\" matches no node"},
              {"Add=@Conv", KD_NOT_FOUND, "\"Conv\" matches no node"}};
  keel_program *program = two_ops(NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    keel_plan *plan = NULL;
    assert_int_equal(
        keel_plan_create(program,
                         PLAN_PARAMS(.places = &rows[i].rule, .place_count = 1),
                         &plan),
        rows[i].status);
    assert_null(plan);
    expect_message(rows[i].says);
  }
  keel_program_release(program);
}

TEST_THAT(a_builders_scope_places_what_is_added_in_it) {
  const char *rule = "Add=cpu";
  keel_plan_params params = {.struct_size = sizeof params, .device = cpu};
  keel_program *program = two_ops(queue);
  expect_places(program, &params, "cpu:0", "queue:0");
  params.places = &rule; /* rules come before scopes */
  params.place_count = 1;
  expect_places(program, &params, "cpu:0", "cpu:0");
  keel_program_release(program);
}

/* As if it had been measured: all is `factor` nanoseconds. */
static void set_speed(keel_device *device, double factor) {
  device->speed = (keel_speed){.launch = factor,
                               .flops = 1 / factor,
                               .bytes = 1 / factor,
                               .wait = 1,
                               .copied = 1};
}

TEST_THAT(costs_decide) {
  keel_plan_params params = {
      .struct_size = sizeof params, .flags = KEEL_PLAN_BY_COST, .device = cpu};
  keel_program *program = two_ops(NULL), *split = two_ops(cpu);
  set_speed(cpu, 1000);
  set_speed(queue, 1);
  expect_places(program, &params, "queue:0", "queue:0");
  expect_places(split, &params, "queue:0", "cpu:0"); /* the scope stands */
  set_speed(cpu, 1);
  set_speed(queue, 1000);
  expect_places(program, &params, "cpu:0", "cpu:0");
  set_speed(cpu, 10); /* faster there, but far away */
  set_speed(queue, 9);
  cpu->speed.wait = queue->speed.wait = 1e6;
  expect_places(program, &params, "cpu:0", "cpu:0");
  cpu->speed.wait = queue->speed.wait = 1;
  set_speed(cpu, 1000);
  set_speed(queue, 1);
  toy_state *toy = toy_of(TOY("queue"));
  assert_non_null(toy);
  atomic_store(&toy->cost, 1000000); /* the kernel's own word counts */
  expect_places(program, &params, "queue:0", "cpu:0");
  const char *together = "Add=@Relu";
  params.places = &together;
  params.place_count = 1;
  expect_places(program, &params, "cpu:0", "cpu:0");
  atomic_store(&toy->cost, 10); /* all there, with its cost */
  expect_places(program, &params, "queue:0", "queue:0");
  params.place_count = 0;
  set_speed(cpu, 2); /* to spread them gains too little */
  atomic_store(&toy->cost, 200);
  expect_places(program, &params, "cpu:0", "cpu:0");
  atomic_store(&toy->cost, 0);
  RELEASE(program, split);
}

static keel_tensor *filled(uint32_t rank, const int64_t *dims, float with) {
  float values[1000];
  for (int i = 0; i < 1000; i++)
    values[i] = with;
  return create_tensor(context, KD_F32, rank, dims, values);
}

/* The device on which the plan's `op` runs. */
static void expect_place(keel_plan *plan, keel_tensor *x, const char *op,
                         const char *place) {
  keel_profile_line line;
  bool seen = false;
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  keel_tensor *y = output_of(plan, &x, 1);
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++)
    if (!strcmp(line.op, op)) {
      assert_string_equal(line.device, place);
      seen = true;
    }
  assert_true(seen);
  keel_tensor_release(y);
}

/* ---- what plugins say of their kernels --------------------------------------------- */

/* One op of 1000 elements, each in a line of its own. */
static keel_program *one_op(const char *name) {
  keel_builder *builder = create_builder(context, name);
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(1000));
  return program_giving(builder, op(builder, name, x, KEEL_ABSENT));
}

static void expect_op_on(const char *name, keel_device *device) {
  const int64_t dims[] = {1000};
  keel_program *program = one_op(name);
  keel_tensor *x = filled(1, dims, 1);
  keel_plan *plan =
      create_plan(program, PLAN_PARAMS(.flags = KEEL_PLAN_BY_COST));
  expect_place(plan, x, name, device->name);
  RELEASE(x, plan, program);
}

/* Far away, and arithmetic costs it nothing: who has to compute much goes there. The
 * plugins know that an Exp is more than one multiplication, and the host does not. */
TEST_THAT(a_plugins_estimate_places_its_op) {
  keel_context *before = context;
  keel_device *near = NULL, *far = NULL;
  if (access(OPENCL_PLUGIN, R_OK) != 0) skip();
  context = open_with(CPU_PLUGIN, OPENCL_PLUGIN, 1);
  if (keel_device_find(context, "opencl:0", &far) == KD_OK) {
    expect_ok(keel_device_find(context, "cpu:0", &near));
    near->speed = (keel_speed){1, 1, 1e9, 1, 1e9};
    far->speed = (keel_speed){5000, 1e9, 1e9, 1, 1e9};
    expect_op_on("Exp", far);
    expect_op_on("Neg", near);
    for (uint32_t i = 0; i < near->plugin->kernel_count; i++)
      near->plugin->kernels[i].cost = NULL;
    expect_op_on("Exp", near); /* as the host guesses */
  }
  keel_close(context);
  context = before;
  if (!far) skip();
}

/* A large constant is multiplied with what the queue has: there, although its way
 * would take longer than the CPU's work. */
TEST_THAT(a_constant_has_no_way_to_go) {
  const keel_plan_params params = {
      .struct_size = sizeof params, .flags = KEEL_PLAN_BY_COST, .device = cpu};
  const int64_t thousand = 1000;
  set_speed(cpu, 6000);
  cpu->speed.flops = cpu->speed.bytes = 1000;
  set_speed(queue, 1);
  queue->speed.flops = queue->speed.bytes = 1000;
  keel_tensor *large = filled(1, &thousand, 2), *x = filled(0, NULL, 3);
  keel_builder *builder = create_builder(context, "large");
  keel_value in = keel_builder_input(builder, "x", KD_F32, 0, NULL);
  expect_ok(keel_device_push(queue));
  keel_value there = op(builder, "Relu", in, KEEL_ABSENT);
  keel_device_pop();
  keel_program *program = program_giving(
      builder,
      op(builder, "Mul", keel_builder_constant(builder, large), there));
  keel_plan *plan = create_plan(program, &params);
  expect_place(plan, x, "Mul", "queue:0");
  keel_plan_release(plan);
  cpu->speed.launch = 100; /* sooner done than the large result is home */
  plan = create_plan(program, &params);
  expect_place(plan, x, "Mul", "cpu:0");
  RELEASE(plan, program, large, x);
}

/* Relu behind Conv would be fused with it, were it not elsewhere (that the queue can't
 * do Conv, and it falls back, is told later). */
TEST_THAT(ops_of_two_devices_are_not_fused) {
  const int64_t image[] = {1, 1, 4, 4}, filter[] = {1, 1, 3, 3};
  for (int apart = 0; apart < 2; apart++) {
    keel_tensor *weights = filled(4, filter, 1), *x = filled(4, image, 1);
    keel_builder *builder = create_builder(context, "conv");
    keel_value pair[] = {keel_builder_input(builder, "x", KD_F32, 4, image),
                         keel_builder_constant(builder, weights)};
    if (apart) expect_ok(keel_device_push(queue));
    keel_value y = keel_builder_op(builder, "Conv", NULL, 0, pair, 2);
    if (apart) keel_device_pop();
    y = op(builder, "Relu", y, KEEL_ABSENT);
    keel_plan *plan = plan_giving(builder, y, PLAN_PARAMS(.device = cpu));
    expect_place(plan, x, apart ? "Relu" : "FusedConv", "cpu:0");
    RELEASE(plan, weights, x);
  }
}

/* Two ops that would be one, were they not placed apart. */
TEST_THAT(equal_ops_stay_where_they_were_placed) {
  keel_profile_line line;
  int seen[2] = {0};
  keel_builder *builder = create_builder(context, "apart");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  keel_value here = op(builder, "Relu", x, KEEL_ABSENT);
  expect_ok(keel_device_push(queue));
  keel_value there = op(builder, "Relu", x, KEEL_ABSENT);
  keel_device_pop();
  keel_plan *plan = plan_giving(builder, op(builder, "Add", here, there),
                                PLAN_PARAMS(.device = cpu));
  keel_tensor *in = floats(context, 4, data), *y = output_of(plan, &in, 1);
  expect_floats(y, want, 4);
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++)
    if (!strcmp(line.op, "Relu")) seen[!strcmp(line.device, "queue:0")]++;
  assert_int_equal(seen[0], 1);
  assert_int_equal(seen[1], 1);
  RELEASE(in, y, plan);
}

TEST_THAT(devices_are_measured) {
  keel_program *program = two_ops(NULL);
  cpu->speed = queue->speed = (keel_speed){0};
  keel_plan *plan = create_plan(
      program, PLAN_PARAMS(.flags = KEEL_PLAN_BY_COST, .device = cpu));
  assert_true(cpu->speed.flops > 0 && cpu->speed.bytes > 0);
  assert_true(cpu->speed.launch > 0 && cpu->speed.copied > 0);
  RELEASE(plan, program);
}

TEST_THAT(each_device_has_its_share_of_the_profile) {
  const char *rule = "Add=queue";
  keel_program *program = two_ops(NULL);
  keel_profile_device d;
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  keel_plan *plan = create_plan(
      program, PLAN_PARAMS(.device = cpu, .places = &rule, .place_count = 1));
  keel_plan_profile(plan, KEEL_PROFILE_OPS | KEEL_PROFILE_CLOCKS);
  for (int i = 0; i < 3; i++) {
    keel_tensor_release(y);
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  }
  expect_floats(y, want, 4);
  keel_plan_profile(plan, 0);
  for (uint32_t i = 0; i < 2; i++) {
    expect_ok(keel_plan_profile_device(plan, i, &d));
    assert_string_equal(d.name, i ? "queue:0" : "cpu:0");
    assert_int_equal(d.calls, 3);
    assert_true(d.wall > 0 && d.kernels > 0);
    assert_true(d.idle <= d.wall && d.idle + d.kernels + d.copies >= d.wall);
    assert_int_equal(d.timed, 0); /* neither has a clock */
  }
  assert_int_equal(keel_plan_profile_device(plan, 2, &d), KD_OUT_OF_RANGE);
  RELEASE(x, y, plan, program);
}

#ifdef SIM_PLUGIN
/* A device whose plugin has time stamps: each op's line has its own time, and together
 * they are the device's. With a trace beside, too. */
TEST_THAT(each_op_has_its_time_by_the_clock) {
  keel_context *timed = open_with(SIM_PLUGIN, CPU_PLUGIN, 1), *before = context;
  keel_profile_device d;
  keel_profile_line line;
  keel_device *sim = find_device(timed, "sim");
  context = timed; /* for the helpers */
  keel_program *program = two_ops(NULL);
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  keel_plan *plan =
      create_plan(program, PLAN_PARAMS(.device = sim,
                                       .skip = (const char *const[]){"regions"},
                                       .skip_count = 1));
  for (int round = 0; round < 3; round++) {
    uint64_t sum = 0;
    uint32_t ops = 0;
    if (round == 1) expect_ok(keel_trace_start(context));
    keel_plan_profile(plan, KEEL_PROFILE_OPS | KEEL_PROFILE_CLOCKS);
    for (int i = 0; i < 3; i++) {
      keel_tensor_release(y);
      expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
      expect_floats(y, want, 4);
    }
    keel_plan_profile(plan, 0);
    if (round == 1) expect_ok(keel_trace_stop(context, NULL));
    expect_ok(keel_plan_profile_device(plan, 0, &d));
    assert_int_equal(d.timed, 1);
    for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++) {
      if (!line.calls || !strncmp(line.op, "Copy ", 5)) continue;
      assert_string_equal(line.device, "sim:0");
      assert_int_equal(line.calls, 3);
      assert_int_equal(line.timed, 1);
      sum += line.device_time;
      ops++;
    }
    assert_int_equal(ops, 2);
    assert_true(sum > 0);
    /* rounded once a record, and once in all */
    assert_true(sum <= d.kernels + 6 && sum + 6 >= d.kernels);
  }
  /* by the host's clock alone: no times of the profile before */
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  keel_tensor_release(y);
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  keel_plan_profile(plan, 0);
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++)
    assert_int_equal(line.timed, 0);
  RELEASE(x, y, plan, program, timed);
  context = before;
}
#endif

TEST_THAT(a_device_that_ran_nothing_is_not_in_the_profile) {
  keel_program *program = two_ops(NULL);
  keel_profile_device d;
  keel_tensor *x = floats(context, 4, data);
  keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = queue));
  expect_place(plan, x, "Add", "queue:0");
  expect_ok(keel_plan_profile_device(plan, 0, &d));
  assert_string_equal(d.name, "queue:0");
  assert_int_equal(keel_plan_profile_device(plan, 1, &d), KD_OUT_OF_RANGE);
  RELEASE(x, plan, program);
}

RUN_TESTS(open_both, close_context)
