/* exchange_test.c - programs that the members of a group run, each its own, and what they
 * exchange: each op, parts of the group, loops, threads, and what goes wrong. */
#include <pthread.h>
#include <unistd.h>

#include <keel/group.h>

#include "one_context.h"

#ifdef SIM_PLUGIN

enum { MEMBERS = 4, ROWS = 8 };

static keel_group *group;

/* Two devices of one plugin, which can work together, and two of others. */
SETUP(begin) {
  const char *paths[] = {SIM_PLUGIN, CPU_PLUGIN, MINIMAL_PLUGIN};
  keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, paths, 3, .workers = 2);
  keel_device *devices[MEMBERS];
  unsetenv("KEEL_SIM_LOSE");
  expect_ok(keel_open(&params, &context));
  assert_true(keel_device_count(context) >= MEMBERS);
  for (uint32_t i = 0; i < MEMBERS; i++)
    devices[i] = keel_device_at(context, i);
  expect_ok(keel_group_create(devices, MEMBERS, &group));
  return 0;
}

SETUP(end) {
  RELEASE(group, context);
  return 0;
}

/* ---- helpers ---------------------------------------------------------------------- */

/* Row i of rank r: 100 r + i, in two columns. */
static keel_tensor *value_of(uint32_t rank) {
  float data[ROWS * 2];
  for (int i = 0; i < ROWS * 2; i++) {
    int row = i / 2;
    data[i] = (float)(100 * (int)rank + row);
  }
  return create_tensor(context, KD_F32, DIMS(ROWS, 2), data);
}

/* What each member has afterwards: the first column. */
static void expect_rows(keel_tensor *tensor, const float *want, int64_t rows) {
  float data[MEMBERS * ROWS * 2];
  expect_ok(keel_tensor_wait(tensor));
  assert_int_equal(keel_tensor_rank(tensor), 2);
  assert_int_equal(keel_tensor_dims(tensor)[0], rows);
  expect_ok(keel_tensor_read(tensor, data, (size_t)rows * 2 * sizeof(float)));
  for (int64_t i = 0; i < rows * 2; i++)
    if (data[i] != want[i / 2])
      fail_msg("row %lld is %g, not %g", (long long)i / 2, (double)data[i],
               (double)want[i / 2]);
}

/* One op as a program: Y = op(member, X) + 0. */
static keel_plan *plan_of(uint32_t rank, const char *name,
                          const keel_attr *attrs, uint32_t attr_count) {
  keel_builder *builder = create_builder(context, "exchange");
  const keel_value member = keel_builder_resource(builder, "member");
  const keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(ROWS, 2));
  keel_builder_node_name(builder, "node");
  const keel_value y = keel_builder_op(builder, name, attrs, attr_count,
                                       (keel_value[]){member, x}, 2);
  return plan_giving(builder, op(builder, "Identity", y, KEEL_ABSENT),
                     PLAN_PARAMS(.device = keel_group_device(group, rank)));
}

typedef struct runs {
  keel_plan *plans[MEMBERS];
  keel_tensor *members[MEMBERS], *outputs[MEMBERS];
} runs;

/* A run of each member but `without`, which are under way together. */
static void begin_runs(runs *at, uint32_t without) {
  expect_ok(keel_group_members(group, at->members));
  for (uint32_t r = 0; r < MEMBERS; r++) {
    keel_tensor *in[] = {at->members[r], value_of(r)};
    at->outputs[r] = NULL;
    if (r != without)
      expect_ok(keel_plan_begin(at->plans[r], NULL, in, 2, &at->outputs[r], 1));
    release_all(in, 2);
  }
}

static void make_plans(runs *at, const char *name, const keel_attr *attrs,
                       uint32_t attr_count) {
  for (uint32_t r = 0; r < MEMBERS; r++)
    at->plans[r] = plan_of(r, name, attrs, attr_count);
}

static void release_plans(runs *at) {
  for (uint32_t r = 0; r < MEMBERS; r++)
    keel_plan_release(at->plans[r]);
}

/* By keel_call as well, in any order of the members. */
static void begin_calls(runs *at, const char *name, const keel_attr *attrs,
                        uint32_t attr_count) {
  expect_ok(keel_group_members(group, at->members));
  for (uint32_t i = 0; i < MEMBERS; i++) {
    uint32_t r = (i + 2) % MEMBERS;
    keel_tensor *in[] = {at->members[r], value_of(r)};
    expect_ok(
        keel_call(context, name, attrs, attr_count, in, 2, &at->outputs[r], 1));
    release_all(in, 2);
  }
}

static void expect_all(runs *at, float (*want)[MEMBERS * ROWS], int64_t rows) {
  for (uint32_t r = 0; r < MEMBERS; r++)
    expect_rows(at->outputs[r], want[r], rows);
  release_all(at->outputs, MEMBERS);
}

static void check(const char *name, const keel_attr *attrs, uint32_t attr_count,
                  float (*want)[MEMBERS * ROWS], int64_t rows) {
  runs all;
  make_plans(&all, name, attrs, attr_count);
  for (int run = 0; run < 5; run++) {
    begin_runs(&all, MEMBERS);
    expect_all(&all, want, rows);
  }
  release_plans(&all);
  begin_calls(&all, name, attrs, attr_count);
  expect_all(&all, want, rows);
}

/* ---- each op ---------------------------------------------------------------------- */

/* Ranks 3 and 1, and 2 and 0. */
static const int64_t crossed[] = {3, 1, 2, 0};
static const uint32_t partner[] = {2, 3, 0, 1};
#define PARTS KEEL_INT("size", 2), KEEL_INTS("ranks", MEMBERS, crossed)

TEST_THAT(all_reduce) {
  static const char *const names[] = {"sum", "product", "min", "max"};
  float want[MEMBERS][MEMBERS * ROWS];
  for (int k = 0; k < 4; k++) {
    for (int r = 0; r < MEMBERS; r++)
      for (int i = 0; i < ROWS; i++) {
        float product =
            (float)i * (float)(100 + i) * (float)(200 + i) * (float)(300 + i);
        want[r][i] = k == 0   ? (float)(600 + 4 * i)
                     : k == 1 ? product
                     : k == 2 ? (float)i
                              : (float)(300 + i);
      }
    const keel_attr attrs[] = {KEEL_STRING("reduction", names[k])};
    check("keel::AllReduce", attrs, 1, want, ROWS);
  }
  for (int r = 0; r < MEMBERS; r++)
    for (int i = 0; i < ROWS; i++)
      want[r][i] = (float)(100 * (r + (int)partner[r]) + 2 * i);
  const keel_attr parts[] = {PARTS};
  check("keel::AllReduce", parts, 2, want, ROWS);
}

TEST_THAT(all_gather) {
  float want[MEMBERS][MEMBERS * ROWS];
  for (int r = 0; r < MEMBERS; r++)
    for (int i = 0; i < MEMBERS * ROWS; i++) {
      int from = i / ROWS;
      want[r][i] = (float)(100 * from + i % ROWS);
    }
  const keel_attr all[] = {KEEL_INT("size", MEMBERS)};
  check("keel::AllGather", all, 1, want, MEMBERS * ROWS);
  for (int r = 0; r < MEMBERS; r++)
    for (int i = 0; i < 2 * ROWS; i++) {
      int from = (int)crossed[(r % 2 ? 0 : 2) + i / ROWS];
      want[r][i] = (float)(100 * from + i % ROWS);
    }
  const keel_attr parts[] = {PARTS};
  check("keel::AllGather", parts, 2, want, 2 * ROWS);
}

TEST_THAT(reduce_scatter) {
  float want[MEMBERS][MEMBERS * ROWS];
  for (int r = 0; r < MEMBERS; r++)
    for (int i = 0; i < ROWS / MEMBERS; i++) {
      int row = r * ROWS / MEMBERS + i;
      want[r][i] = (float)(600 + 4 * row);
    }
  const keel_attr all[] = {KEEL_INT("size", MEMBERS)};
  check("keel::ReduceScatter", all, 1, want, ROWS / MEMBERS);
}

TEST_THAT(all_to_all) {
  float want[MEMBERS][MEMBERS * ROWS];
  const int part = ROWS / MEMBERS;
  for (int r = 0; r < MEMBERS; r++)
    for (int i = 0; i < ROWS; i++) {
      int from = i / part;
      want[r][i] = (float)(100 * from + r * part + i % part);
    }
  const keel_attr all[] = {KEEL_INT("size", MEMBERS)};
  check("keel::AllToAll", all, 1, want, ROWS);
}

TEST_THAT(broadcast) {
  float want[MEMBERS][MEMBERS * ROWS];
  for (int r = 0; r < MEMBERS; r++)
    for (int i = 0; i < ROWS; i++)
      want[r][i] = (float)(100 * (r % 2 ? 3 : 2) + i);
  const keel_attr parts[] = {PARTS};
  check("keel::Broadcast", parts, 2, want, ROWS);
}

/* Nobody sends to rank 3. */
TEST_THAT(permute) {
  static const int64_t pairs[] = {0, 1, 1, 2, 3, 0};
  float want[MEMBERS][MEMBERS * ROWS];
  for (int r = 0; r < MEMBERS; r++)
    for (int i = 0; i < ROWS; i++)
      want[r][i] = r == 3 ? 0.0f : (float)(100 * ((r + 3) % 4) + i);
  const keel_attr attrs[] = {KEEL_INTS("pairs", 6, pairs)};
  check("keel::Permute", attrs, 1, want, ROWS);
}

TEST_THAT(rank) {
  keel_tensor *members[MEMBERS];
  expect_ok(keel_group_members(group, members));
  for (uint32_t r = 0; r < MEMBERS; r++) {
    int64_t number = -1;
    keel_tensor *out = call_op(context, "keel::Rank", NULL, 0, &members[r], 1);
    expect_ok(keel_tensor_read(out, &number, sizeof number));
    assert_int_equal(number, r);
    keel_tensor_release(out);
  }
  release_all(members, MEMBERS);
}

/* ---- gradients ------------------------------------------------------------------------ */

/* y = op(member, x), and the gradient of the sum of y * w on all ranks, by the own x. */
static keel_plan *gradient_plan(uint32_t rank, const char *name,
                                const keel_attr *attrs, uint32_t attr_count) {
  keel_builder *builder = create_builder(context, "gradient");
  const keel_value member = keel_builder_resource(builder, "member");
  const keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(ROWS, 2));
  const keel_value w = keel_builder_input(builder, "w", KD_F32, DIMS(-1, 2));
  const keel_value y = keel_builder_op(builder, name, attrs, attr_count,
                                       (keel_value[]){member, x}, 2);
  const keel_value loss = op(builder, "Mul", y, w);
  const keel_value dx = gradient_of(builder, "x", x, "loss", loss);
  keel_builder_output(builder, "y", op(builder, "Identity", y, KEEL_ABSENT));
  keel_builder_output(builder, "dx", dx);
  return finish_plan(builder,
                     PLAN_PARAMS(.device = keel_group_device(group, rank)));
}

static int64_t numbers(uint64_t *random, float *out, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    *random = *random * UINT64_C(6364136223846793005) + 1;
    out[i] = (float)((int)(*random >> 60) - 7);
  }
  return count;
}

/* What two tensors' elements, multiplied, come to; takes the first. */
static double product(keel_tensor *tensor, const float *with, int64_t count) {
  float data[MEMBERS * ROWS * 2];
  double sum = 0;
  expect_ok(keel_tensor_wait(tensor));
  expect_ok(keel_tensor_read(tensor, data, (size_t)count * sizeof(float)));
  for (int64_t i = 0; i < count; i++)
    sum += (double)data[i] * (double)with[i];
  keel_tensor_release(tensor);
  return sum;
}

/* An exchange is linear: what y comes to with any w is what x comes to with the gradients for w,
 * over all ranks. Small integers, so it is the same exactly. */
static void check_gradient(const char *name, const keel_attr *attrs,
                           uint32_t attr_count, int64_t rows) {
  runs all;
  uint64_t random = 1;
  keel_tensor *dx[MEMBERS];
  float x[MEMBERS][ROWS * 2], w[MEMBERS][MEMBERS * ROWS * 2];
  for (uint32_t r = 0; r < MEMBERS; r++)
    all.plans[r] = gradient_plan(r, name, attrs, attr_count);
  for (int run = 0; run < 20; run++) {
    double forward = 0, back = 0;
    expect_ok(keel_group_members(group, all.members));
    for (uint32_t r = 0; r < MEMBERS; r++) {
      numbers(&random, x[r], (int64_t)ROWS * 2);
      numbers(&random, w[r], rows * 2);
      keel_tensor *in[] = {all.members[r],
                           create_tensor(context, KD_F32, DIMS(ROWS, 2), x[r]),
                           create_tensor(context, KD_F32, DIMS(rows, 2), w[r])};
      keel_tensor *out[2];
      expect_ok(keel_plan_begin(all.plans[r], NULL, in, 3, out, 2));
      release_all(in, 3);
      all.outputs[r] = out[0];
      dx[r] = out[1];
    }
    for (uint32_t r = 0; r < MEMBERS; r++) {
      forward += product(all.outputs[r], w[r], rows * 2);
      back += product(dx[r], x[r], (int64_t)ROWS * 2);
    }
    if (forward != back)
      fail_msg("%s: %g, and by the gradients %g", name, forward, back);
  }
  release_plans(&all);
}

TEST_THAT(gradients) {
  static const int64_t ring[] = {0, 1, 1, 2, 3, 0};
  static const int64_t several[] = {2, 0, 2, 1, 2, 2, 0, 3};
  const keel_attr all[] = {KEEL_INT("size", MEMBERS)};
  const keel_attr parts[] = {PARTS};
  const keel_attr sent[][1] = {{KEEL_INTS("pairs", 6, ring)},
                               {KEEL_INTS("pairs", 8, several)},
                               {KEEL_INTS("pairs", 2, several)}};
  check_gradient("keel::AllReduce", NULL, 0, ROWS);
  check_gradient("keel::AllReduce", parts, 2, ROWS);
  check_gradient("keel::AllGather", all, 1, (int64_t)MEMBERS * ROWS);
  check_gradient("keel::AllGather", parts, 2, (int64_t)2 * ROWS);
  check_gradient("keel::ReduceScatter", all, 1, ROWS / MEMBERS);
  check_gradient("keel::ReduceScatter", parts, 2, ROWS / 2);
  check_gradient("keel::AllToAll", all, 1, ROWS);
  check_gradient("keel::AllToAll", parts, 2, ROWS);
  check_gradient("keel::Broadcast", NULL, 0, ROWS);
  check_gradient("keel::Broadcast", parts, 2, ROWS);
  for (int i = 0; i < 3; i++)
    check_gradient("keel::Permute", sent[i], 1, ROWS);
}

TEST_THAT(gradients_of_sums_only) {
  static const char *const names[] = {"keel::AllReduce", "keel::ReduceScatter"};
  const keel_attr max[] = {KEEL_STRING("reduction", "max"),
                           KEEL_INT("size", MEMBERS)};
  for (int i = 0; i < 2; i++) {
    keel_builder *builder = create_builder(context, "max");
    keel_plan *plan = NULL;
    const keel_value member = keel_builder_resource(builder, "member");
    const keel_value x =
        keel_builder_input(builder, "x", KD_F32, DIMS(ROWS, 2));
    const keel_value y = keel_builder_op(builder, names[i], max, 2,
                                         (keel_value[]){member, x}, 2);
    keel_builder_output(builder, "dx", gradient_of(builder, "x", x, "y", y));
    keel_program *program = finish_program(builder);
    expect_fails(keel_plan_create(program, NULL, &plan), KD_UNIMPLEMENTED,
                 "has a gradient in Keel for sums only");
    keel_program_release(program);
  }
}

/* ---- programs ---------------------------------------------------------------------- */

static keel_value i64(keel_builder *builder, int64_t number) {
  return add_constant(builder, KD_I64, 0, NULL, &number);
}

/* Five rounds from x, each of which makes v of what `step` adds to the body. */
static keel_plan *loop_plan(keel_device *device, uint32_t rank,
                            keel_value (*step)(keel_builder *body,
                                               keel_value member, keel_value i,
                                               keel_value v, uint32_t rank)) {
  keel_builder *builder = create_builder(context, "loop"), *test = NULL,
               *body = NULL;
  const keel_value member = keel_builder_resource(builder, "member");
  const keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(ROWS, 2));
  keel_value out[2];
  expect_ok(keel_builder_body(builder, "test", &test));
  keel_value i = keel_builder_input(test, "i", KD_I64, 0, NULL);
  keel_builder_input(test, "v", KD_F32, DIMS(ROWS, 2));
  keel_builder_output(test, "c", op(test, "Less", i, i64(test, 5)));
  expect_ok(keel_builder_body(builder, "body", &body));
  i = keel_builder_input(body, "i", KD_I64, 0, NULL);
  keel_value v = keel_builder_input(body, "v", KD_F32, DIMS(ROWS, 2));
  v = step(body, keel_builder_capture(body, member), i, v, rank);
  keel_builder_output(body, "i", op(body, "Add", i, i64(body, 1)));
  keel_builder_output(body, "v", v);
  expect_ok(keel_builder_while(builder, test, body,
                               (keel_value[]){i64(builder, 0), x}, 2, out));
  RELEASE(test, body);
  return plan_giving(builder, out[1], PLAN_PARAMS(.device = device));
}

/* All members' values are summed, and divided by their number. */
static keel_value mean_step(keel_builder *body, keel_value member, keel_value i,
                            keel_value v, uint32_t rank) {
  (void)i, (void)rank;
  return op(body, "Div", op(body, "keel::AllReduce", member, v),
            add_constant(body, KD_F32, 0, NULL, &(float){MEMBERS}));
}

static keel_plan *mean_plan(uint32_t rank) {
  return loop_plan(keel_group_device(group, rank), rank, mean_step);
}

TEST_THAT(in_a_loop) {
  float want[MEMBERS][MEMBERS * ROWS];
  runs all;
  for (uint32_t r = 0; r < MEMBERS; r++)
    for (int i = 0; i < ROWS; i++)
      want[r][i] = (float)(150 + i);
  for (uint32_t r = 0; r < MEMBERS; r++)
    all.plans[r] = mean_plan(r);
  for (int run = 0; run < 20; run++) {
    begin_runs(&all, MEMBERS);
    expect_all(&all, want, ROWS);
  }
  release_plans(&all);
}

/* Types are known before a run. */
TEST_THAT(types) {
  keel_builder *builder = create_builder(context, "types");
  const keel_value member = keel_builder_resource(builder, "member");
  const keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(ROWS, 2));
  const keel_attr size[] = {KEEL_INT("size", MEMBERS)};
  static const char *const names[] = {"keel::AllGather", "keel::ReduceScatter",
                                      "keel::AllToAll"};
  static const int64_t rows[] = {MEMBERS * ROWS, ROWS / MEMBERS, ROWS};
  for (int i = 0; i < 3; i++)
    keel_builder_output(builder, names[i] + 6,
                        keel_builder_op(builder, names[i], size, 1,
                                        (keel_value[]){member, x}, 2));
  keel_program *program = finish_program(builder);
  for (uint32_t i = 0; i < 3; i++) {
    keel_port port;
    expect_ok(keel_program_output(program, i, &port));
    assert_int_equal(port.dtype, KD_F32);
    assert_int_equal(port.rank, 2);
    assert_int_equal(port.dims[0], rows[i]);
  }
  keel_program_release(program);
}

/* A thread for each member, whose run waits in the thread. */
typedef struct worker {
  keel_plan *plan;
  keel_tensor *member;
  uint32_t rank;
  keel_status status;
} worker;

static void *run_member(void *argument) {
  worker *at = argument;
  keel_tensor *in[] = {at->member, value_of(at->rank)}, *out = NULL;
  at->status = keel_plan_run(at->plan, in, 2, &out, 1);
  release_all(in, 2);
  keel_tensor_release(out);
  return NULL;
}

TEST_THAT(each_in_a_thread) {
  runs all;
  worker workers[MEMBERS];
  pthread_t threads[MEMBERS];
  for (uint32_t r = 0; r < MEMBERS; r++)
    all.plans[r] = mean_plan(r);
  for (int run = 0; run < 20; run++) {
    expect_ok(keel_group_members(group, all.members));
    for (uint32_t r = 0; r < MEMBERS; r++) {
      workers[r] = (worker){all.plans[r], all.members[r], r, KD_OK};
      assert_int_equal(
          pthread_create(&threads[r], NULL, run_member, &workers[r]), 0);
    }
    for (uint32_t r = 0; r < MEMBERS; r++) {
      pthread_join(threads[r], NULL);
      expect_ok(workers[r].status);
    }
  }
  release_plans(&all);
}

/* ---- what goes wrong ---------------------------------------------------------------- */

static void expect_failures(runs *at, keel_status status, const char *part) {
  for (uint32_t r = 0; r < MEMBERS; r++) {
    if (!at->outputs[r]) continue;
    expect_fails(keel_tensor_wait(at->outputs[r]), status, part);
  }
  release_all(at->outputs, MEMBERS);
}

/* Its handle goes with its last reference. */
TEST_THAT(a_member_that_never_comes) {
  runs all;
  make_plans(&all, "keel::AllReduce", NULL, 0);
  for (uint32_t without = 0; without < MEMBERS; without++) {
    char text[64];
    snprintf(text, sizeof text, "rank %u (", (unsigned)without);
    begin_runs(&all, without);
    expect_failures(&all, KD_ABORTED, text);
    begin_runs(&all, without);
    expect_failures(&all, KD_ABORTED,
                    "has ended before exchange 0, AllReduce \"node\"");
  }
  release_plans(&all);
}

/* All the others wait already. */
TEST_THAT(the_last_one_goes) {
  keel_tensor *members[MEMBERS], *out[MEMBERS];
  for (uint32_t last = 0; last < MEMBERS; last++) {
    char text[64];
    snprintf(text, sizeof text, "rank %u (", (unsigned)last);
    expect_ok(keel_group_members(group, members));
    for (uint32_t r = 0; r < MEMBERS; r++) {
      keel_tensor *in[] = {members[r], value_of(r)};
      out[r] = NULL;
      if (r != last)
        expect_ok(
            keel_call(context, "keel::AllReduce", NULL, 0, in, 2, &out[r], 1));
      keel_tensor_release(in[1]);
    }
    for (uint32_t r = 0; r < MEMBERS; r++)
      if (out[r]) assert_int_equal(keel_tensor_query(out[r]), KD_BUSY);
    keel_tensor_release(members[last]);
    for (uint32_t r = 0; r < MEMBERS; r++) {
      if (r == last) continue;
      expect_fails(keel_tensor_query(out[r]), KD_ABORTED, text);
      RELEASE(out[r], members[r]);
    }
  }
}

/* The run itself says so, not its output alone. */
TEST_THAT(a_run_whose_exchange_fails) {
  keel_tensor *members[MEMBERS], *first = NULL;
  keel_plan *plan = plan_of(0, "keel::AllReduce", NULL, 0);
  expect_ok(keel_group_members(group, members));
  keel_tensor *other[] = {members[1], value_of(1)};
  expect_ok(
      keel_call(context, "keel::AllReduce", NULL, 0, other, 2, &first, 1));
  keel_tensor_release(other[1]);
  worker at = {plan, members[0], 0, KD_OK};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_member, &at), 0);
  usleep(20000); /* most often it waits by now */
  release_all(members + 1, MEMBERS - 1);
  pthread_join(thread, NULL);
  assert_int_equal(at.status, KD_ABORTED);
  assert_int_equal(keel_tensor_wait(first), KD_ABORTED);
  RELEASE(first, plan);
}

TEST_THAT(other_programs) {
  runs all;
  const keel_attr most[] = {KEEL_STRING("reduction", "max")};
  const keel_attr size[] = {KEEL_INT("size", MEMBERS)};
  make_plans(&all, "keel::AllReduce", NULL, 0);
  keel_plan_release(all.plans[2]);
  all.plans[2] = plan_of(2, "keel::AllToAll", size, 1);
  begin_runs(&all, MEMBERS);
  expect_failures(&all, KD_INVALID_ARGUMENT, "exchange 0 differs: rank");
  keel_plan_release(all.plans[2]);
  all.plans[2] = plan_of(2, "keel::AllReduce", most, 1);
  begin_runs(&all, MEMBERS);
  expect_failures(&all, KD_INVALID_ARGUMENT, "of other parameters");
  release_plans(&all);
}

/* Sums x, takes a row of that, and sums it; rank 1, which has no such row, fails before it
 * comes to the second exchange. */
static keel_plan *row_plan(uint32_t rank) {
  keel_builder *builder = create_builder(context, "fails");
  const keel_value member = keel_builder_resource(builder, "member");
  const keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(ROWS, 2));
  const keel_value first = op(builder, "keel::AllReduce", member, x);
  const int64_t index = rank == 1 ? 99 : 1;
  keel_value at = add_ints(builder, 1, &index);
  keel_value row = op(builder, "Gather", first, at);
  keel_value second = op(builder, "keel::AllReduce", member, row);
  return plan_giving(builder, second,
                     PLAN_PARAMS(.device = keel_device_at(context, 2)));
}

/* All members' runs have failed as that of rank 1, and it is said so. */
static void expect_failed(runs *all, keel_status status, const char *words) {
  for (uint32_t r = 0; r < MEMBERS; r++) {
    expect_fails(keel_tensor_wait(all->outputs[r]), status, words);
    if (r != 1) expect_message("on rank 1 (");
  }
  release_all(all->outputs, MEMBERS);
}

TEST_THAT(a_run_that_fails) {
  runs all;
  for (uint32_t r = 0; r < MEMBERS; r++)
    all.plans[r] = row_plan(r);
  for (int run = 0; run < 10; run++) {
    begin_runs(&all, MEMBERS);
    expect_failed(&all, KD_OUT_OF_RANGE, "99");
  }
  release_plans(&all);
}

/* Where handles are kept, the next run's exchanges do not meet those that others still wait in. */
static void begin_after_failure(keel_plan *bad, keel_plan *good, bool donates) {
  const uint32_t first = 0;
  const keel_run_params donating = {
      .struct_size = sizeof donating, .donated = &first, .donated_count = 1};
  keel_tensor *members[MEMBERS], *out[MEMBERS];
  expect_ok(keel_group_members(group, members));
  for (uint32_t r = 0; r < MEMBERS; r++) {
    keel_tensor *in[] = {members[r], value_of(r)};
    if (donates) keel_tensor_retain(members[r]);
    expect_ok(keel_plan_begin(r == 1 ? bad : good, donates ? &donating : NULL,
                              in, 2, &out[r], 1));
    keel_tensor_release(in[1]);
  }
  assert_int_equal(keel_tensor_wait(out[1]), KD_OUT_OF_RANGE);
  keel_tensor_release(out[1]);
  keel_tensor *in[] = {members[1], value_of(1)};
  expect_ok(keel_plan_begin(good, NULL, in, 2, &out[1], 1));
  keel_tensor_release(in[1]);
  for (uint32_t r = 0; r < MEMBERS; r++) {
    expect_fails(keel_tensor_wait(out[r]), KD_OUT_OF_RANGE, "on rank 1 (");
  }
  release_all(out, MEMBERS);
  release_all(members, MEMBERS);
}

TEST_THAT(a_run_after_one_that_fails) {
  keel_plan *bad = row_plan(1), *good = row_plan(0);
  for (int run = 0; run < 20; run++)
    begin_after_failure(bad, good, run % 2);
  RELEASE(bad, good);
}

/* Rank 1's run waits for its input when it is cancelled. */
TEST_THAT(a_run_that_is_cancelled) {
  runs all;
  keel_tensor *late = NULL, *x = value_of(1);
  make_plans(&all, "keel::AllReduce", NULL, 0);
  keel_cancel *cancel = create_cancel(context);
  expect_ok(keel_tensor_promise(context, &late));
  expect_ok(keel_group_members(group, all.members));
  const keel_run_params cancelled = {.struct_size = sizeof cancelled,
                                     .cancel = cancel};
  for (uint32_t r = 0; r < MEMBERS; r++) {
    keel_tensor *in[] = {all.members[r], r == 1 ? late : x};
    expect_ok(keel_plan_begin(all.plans[r], r == 1 ? &cancelled : NULL, in, 2,
                              &all.outputs[r], 1));
  }
  keel_cancel_request(cancel, "enough");
  expect_ok(keel_tensor_fulfil(late, x));
  expect_failed(&all, KD_CANCELLED, "enough");
  RELEASE(late, x);
  release_all(all.members, MEMBERS);
  keel_cancel_release(cancel);
  release_plans(&all);
}

/* The row exists, but for rank 1 in the second round. */
static keel_value row_step(keel_builder *body, keel_value member, keel_value i,
                           keel_value v, uint32_t rank) {
  keel_value at = op(body, "Add", i, i64(body, rank == 1 ? ROWS - 1 : 0));
  return op(body, "keel::AllReduce", member,
            op(body, "Add", v, op(body, "Gather", v, at)));
}

TEST_THAT(a_loop_that_fails) {
  runs all;
  for (uint32_t r = 0; r < MEMBERS; r++)
    all.plans[r] = loop_plan(keel_device_at(context, 2), r, row_step);
  for (int run = 0; run < 10; run++) {
    begin_runs(&all, MEMBERS);
    expect_failed(&all, KD_OUT_OF_RANGE, "index 8");
  }
  release_plans(&all);
}

/* By keel_call: the other members get it, and the next exchange is one with the next. */
TEST_THAT(a_value_that_has_failed) {
  static const char *const names[] = {"keel::AllReduce", "keel::AllToAll",
                                      "keel::Permute"};
  static const int64_t ring[] = {0, 1, 1, 2, 2, 3, 3, 0};
  for (int k = 0; k < 3; k++) {
    keel_tensor *members[MEMBERS], *out[MEMBERS], *failed = NULL;
    const keel_attr size[] = {KEEL_INT("size", MEMBERS)};
    const keel_attr pairs[] = {KEEL_INTS("pairs", 8, ring)};
    const keel_attr *attrs = k == 2 ? pairs : size;
    expect_ok(keel_tensor_promise(context, &failed));
    expect_ok(keel_tensor_fail(failed, KD_DATA_LOSS, "it went wrong"));
    expect_ok(keel_group_members(group, members));
    for (int round = 0; round < 2; round++) {
      for (uint32_t r = 0; r < MEMBERS; r++) {
        keel_tensor *x =
            round == 0 && r == 2 ? keel_tensor_retain(failed) : value_of(r);
        keel_tensor *in[] = {members[r], x};
        expect_ok(keel_call(context, names[k], attrs, 1, in, 2, &out[r], 1));
        keel_tensor_release(x);
      }
      uint32_t to = k == 2 && !round ? 3 : 0;
      assert_int_equal(keel_tensor_wait(out[to]), round ? KD_OK : KD_DATA_LOSS);
      if (!round) expect_message("it went wrong");
      release_all(out, MEMBERS);
    }
    keel_tensor_release(failed);
    release_all(members, MEMBERS);
  }
}

TEST_THAT(values_without_elements) {
  static const char *const names[] = {"keel::AllReduce",     "keel::AllGather",
                                      "keel::ReduceScatter", "keel::AllToAll",
                                      "keel::Broadcast",     "keel::Permute"};
  static const int64_t pair[] = {0, 1};
  for (int k = 0; k < 6; k++) {
    keel_tensor *members[MEMBERS], *out[MEMBERS];
    const keel_attr size[] = {KEEL_INT("size", MEMBERS)};
    const keel_attr pairs[] = {KEEL_INTS("pairs", 2, pair)};
    expect_ok(keel_group_members(group, members));
    for (uint32_t r = 0; r < MEMBERS; r++) {
      keel_tensor *in[] = {members[r],
                           create_tensor(context, KD_F32, DIMS(0, 2), NULL)};
      expect_ok(keel_call(context, names[k], k == 5 ? pairs : size, 1, in, 2,
                          &out[r], 1));
      keel_tensor_release(in[1]);
    }
    for (uint32_t r = 0; r < MEMBERS; r++)
      expect_rows(out[r], NULL, 0);
    release_all(out, MEMBERS);
    release_all(members, MEMBERS);
  }
}

TEST_THAT(other_types) {
  static const char *const names[] = {"keel::AllReduce", "keel::AllToAll",
                                      "keel::Broadcast"};
  for (int k = 0; k < 3; k++) {
    keel_tensor *members[MEMBERS], *out[MEMBERS] = {NULL};
    const keel_attr size[] = {KEEL_INT("size", MEMBERS)};
    float few[8] = {0};
    expect_ok(keel_group_members(group, members));
    keel_tensor *in[] = {members[0], value_of(0)};
    expect_ok(keel_call(context, names[k], size, 1, in, 2, &out[0], 1));
    keel_tensor *other[] = {members[1],
                            create_tensor(context, KD_F32, DIMS(4, 2), few)};
    expect_fails(keel_call(context, names[k], size, 1, other, 2, &out[1], 1),
                 KD_INVALID_ARGUMENT, "of other parameters or types");
    assert_int_equal(keel_tensor_wait(out[0]), KD_INVALID_ARGUMENT);
    RELEASE(in[1], other[1], out[0]);
    release_all(members, MEMBERS);
  }
}

static void expect_refused(keel_tensor *member, const char *name,
                           const keel_attr *attrs, uint32_t attr_count,
                           const char *part) {
  keel_tensor *in[] = {member, value_of(0)}, *out = NULL;
  expect_fails(keel_call(context, name, attrs, attr_count, in, 2, &out, 1),
               KD_INVALID_ARGUMENT, part);
  assert_null(out);
  keel_tensor_release(in[1]);
}

TEST_THAT(what_is_refused) {
  static const int64_t twice[] = {0, 1, 1, 2}, pairs[] = {0, 1, 2, 1},
                       far[] = {0, 4}, odd[] = {0};
  keel_tensor *members[MEMBERS], *x = value_of(0);
  const keel_attr size[] = {KEEL_INT("size", 3)};
  const keel_attr ranks[] = {KEEL_INT("size", 2), KEEL_INTS("ranks", 4, twice)};
  const keel_attr few[] = {KEEL_INT("size", 2), KEEL_INTS("ranks", 2, twice)};
  const keel_attr same[] = {KEEL_INTS("pairs", 4, pairs)};
  const keel_attr away[] = {KEEL_INTS("pairs", 2, far)};
  const keel_attr half[] = {KEEL_INTS("pairs", 1, odd)};
  const keel_attr word[] = {KEEL_STRING("reduction", "mean")};
  expect_ok(keel_group_members(group, members));
  expect_refused(members[0], "keel::AllGather", size, 1,
                 "is for a group of 3 members, and this one has 4");
  expect_refused(members[0], "keel::AllToAll", size, 1,
                 "can't be parted among 3 members");
  expect_refused(members[0], "keel::AllReduce", ranks, 2, "names rank 1");
  expect_refused(members[0], "keel::AllReduce", few, 2,
                 "names 2 ranks in subgroups of 2");
  expect_refused(members[0], "keel::Permute", same, 1, "sends to rank 1");
  expect_refused(members[0], "keel::Permute", away, 1, "sends to rank 4");
  expect_refused(members[0], "keel::Permute", half, 1,
                 "which do not form pairs");
  expect_refused(members[0], "keel::AllReduce", word, 1, "reduction");
  expect_refused(x, "keel::AllReduce", NULL, 0, "takes a member, and got");
  keel_tensor_release(x);
  release_all(members, MEMBERS);
}

RUN_TESTS(begin, end)

#else
int main(void) {
  return 77;
}
#endif
