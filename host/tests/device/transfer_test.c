/* transfer_test.c - copies between memories: who makes them, what they hold, and that
 * no thread waits for them. */
#include <pthread.h>
#include <time.h>

#include "device/context.h"
#include "device/device.h"
#include "memory/transfer.h"
#include "testing.h"
#include "threads/pool.h"
#include "toy/toy.h"

enum { MANY = 1000 };
static const float data[] = {-1, 2, -3, 4};

/* A runtime with the CPU, the first device, and a queue. */
static keel_context *open_beside(const char *plugin, int32_t workers,
                                 keel_device **out_queue) {
  keel_context *context = open_with(CPU_PLUGIN, plugin, workers);
  *out_queue = keel_device_at(context, 1);
  return context;
}

static keel_value scalar(keel_builder *builder, keel_context *context,
                         float value) {
  return constant_of(builder, create_tensor(context, KD_F32, 0, NULL, &value));
}

static keel_program *finish(keel_builder *builder, keel_value y) {
  return program_giving(builder, y);
}

static keel_plan *plan_of(keel_program *program, keel_device *device,
                          const char *const *rules, uint32_t count) {
  static const char *const cse = "cse"; /* many alike are wanted here */
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = device,
                                   .places = rules,
                                   .place_count = count,
                                   .skip = &cse,
                                   .skip_count = 1};
  return create_plan(program, &params);
}

static void drop(keel_plan *plan, keel_program *program,
                 keel_context *context) {
  RELEASE(plan, program, context);
}

static uint32_t copies_of(keel_plan *plan) {
  keel_profile_line line;
  uint32_t count = 0;
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++)
    count += !strncmp(line.op, "Copy ", 5);
  return count;
}

/* ---- plans ---------------------------------------------------------------- */

/* Two readers on the CPU of what the queue made, and two there of what the CPU
 * made: x goes in, Relu comes out, Neg goes in, Add comes home by the reader. */
TEST_THAT(a_value_is_copied_once_for_all_its_readers) {
  static const char *const rules[] = {"Neg=cpu", "Abs=cpu"};
  const float want[] = {0, 0, 0, 0};
  keel_device *queue = NULL;
  keel_context *context = open_beside(TOY("queue"), 1, &queue);
  keel_builder *builder = create_builder(context, "shared");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  keel_value relu = op(builder, "Relu", x, KEEL_ABSENT);
  keel_value neg = op(builder, "Neg", relu, KEEL_ABSENT),
             abs = op(builder, "Abs", relu, KEEL_ABSENT);
  keel_value a = op(builder, "Add", neg, abs),
             b = op(builder, "Add", neg, relu);
  keel_program *program = finish(builder, op(builder, "Add", a, b));
  keel_plan *plan = plan_of(program, queue, rules, 2);
  /* x, Neg and Abs in, Relu out */
  assert_int_equal(copies_of(plan), 4);
  expect_run(context, plan, data, want, 4);
  drop(plan, program, context);
}

/* The host, the CPU and two devices read one constant; none copies it in a run. */
TEST_THAT(constants_are_brought_to_each_device_once) {
  static const char *const rules[] = {"Neg=cpu", "Add=queue", "Sum=echo",
                                      "Relu=echo"};
  const char *paths[] = {CPU_PLUGIN, TOY("queue"), TOY("echo")};
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, paths, 3, .workers = 1);
  const float want[] = {1 + 1, 4 + 1, 1 + 1, 6 + 1};
  keel_context *context = open_params(&params);
  keel_builder *builder = create_builder(context, "constant");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  keel_value c =
      constant_of(builder, floats(context, 4, (const float[]){1, 1, 1, 1}));
  keel_value a = op(builder, "Add", x, c); /* queue: x + 1 */
  a = op(builder, "Relu", a, KEEL_ABSENT); /* echo */
  a = op(builder, "Add", a, c);            /* queue */
  a = op(builder, "Relu", a, KEEL_ABSENT); /* echo */
  keel_program *program = finish(builder, a);
  keel_plan *plan = plan_of(program, keel_device_at(context, 0), rules + 1, 1);
  keel_plan *other =
      create_plan(program, PLAN_PARAMS(.device = keel_device_at(context, 2),
                                       .places = rules + 1, .place_count = 1));
  /* to the queue and home, twice; between devices through the host */
  assert_int_equal(copies_of(plan), 4);
  assert_int_equal(copies_of(other), 1 + 2 + 2 + 2);
  keel_tensor *in = floats(context, 4, data), *y = NULL;
  for (int i = 0; i < 2; i++) {
    expect_ok(keel_plan_run(i ? other : plan, &in, 1, &y, 1));
    expect_floats(
        y, (const float[]){want[0] - 1, want[1] - 1, want[2] - 1, want[3] - 1},
        4);
    keel_tensor_release(y);
  }
  RELEASE(in, plan, other, program, context);
}

/* ---- waiting -------------------------------------------------------------- */

typedef struct running {
  keel_plan *plan;
  keel_tensor *x, *y;
  keel_status status;
} running;

static void *run_plan(void *argument) {
  running *at = argument;
  at->status = keel_plan_run(at->plan, &at->x, 1, &at->y, 1);
  return NULL;
}

static void nap(void) {
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

typedef struct note {
  keel_task task;
  atomic_bool came;
} note;

static void say(keel_task *task) {
  atomic_store(&((note *)(void *)task)->came, true);
}

/* All of the queue's results are awaited at once, behind a gate that is shut: the
 * pool's one worker still takes what others give it. */
TEST_THAT(a_thousand_copies_hold_no_thread) {
  static const char *const rules[] = {"Relu=queue", "Mul=queue"};
  const float want[] = {0, 14 * MANY, 0, 28 * MANY};
  keel_device *queue = NULL;
  running all = {0};
  note other = {.task = {.run = say}};
  pthread_t thread;
  keel_context *context = open_beside(TOY("queue"), 1, &queue);
  toy_state *toy = toy_of(TOY("queue"));
  assert_non_null(toy);
  keel_builder *builder = create_builder(context, "many");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  keel_value late = op(builder, "Mul", x, scalar(builder, context, 7));
  keel_value sums[MANY];
  for (int i = 0; i < MANY; i++)
    sums[i] =
        op(builder, "Abs", op(builder, "Relu", late, KEEL_ABSENT), KEEL_ABSENT);
  keel_value y = keel_builder_op(builder, "Sum", NULL, 0, sums, MANY);
  keel_program *program = finish(builder, y);
  all.plan = plan_of(program, keel_device_at(context, 0), rules, 2);
  all.x = floats(context, 4, data);
  atomic_store(&toy->gate, 1);
  assert_int_equal(pthread_create(&thread, NULL, run_plan, &all), 0);
  while (atomic_load(&queue->transfers.under_way) < 2 * MANY)
    nap();
  keel_pool_submit(context->pool, &other.task);
  while (!atomic_load(&other.came)) /* and this thread helps nobody */
    nap();
  atomic_store(&toy->gate, 0);
  pthread_join(thread, NULL);
  expect_ok(all.status);
  expect_floats(all.y, want, 4);
  RELEASE(all.x, all.y, all.plan, program, context);
}

/* Zero workers: the caller takes what comes back. */
TEST_THAT(copies_need_no_worker) {
  static const char *const rules[] = {"Relu=queue"};
  const float want[] = {0, 2, 0, 4};
  for (int tells = 0; tells < 2; tells++) {
    keel_device *queue = NULL;
    keel_context *context = open_beside(tells ? TOY("queue") : TOY("echo"),
                                        KEEL_NO_WORKERS, &queue);
    const char *const echo[] = {"Relu=echo"};
    keel_builder *builder = create_builder(context, "few");
    keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
    for (int i = 0; i < 10; i++)
      x = op(builder, "Abs", op(builder, "Relu", x, KEEL_ABSENT), KEEL_ABSENT);
    keel_program *program = finish(builder, x);
    keel_plan *plan =
        plan_of(program, keel_device_at(context, 0), tells ? rules : echo, 1);
    expect_run(context, plan, data, want, 4);
    drop(plan, program, context);
  }
}

/* Copies of several runs are under way at once, each with its own values. */
TEST_THAT(runs_share_a_plan_with_copies) {
  enum { THREADS = 4, ROUNDS = 100 };
  static const char *const rules[] = {"Relu=queue"};
  keel_device *queue = NULL;
  keel_context *context = open_beside(TOY("queue"), 2, &queue);
  keel_builder *builder = create_builder(context, "several");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  for (int i = 0; i < 3; i++)
    x = op(builder, "Abs", op(builder, "Relu", x, KEEL_ABSENT), KEEL_ABSENT);
  keel_program *program = finish(builder, x);
  keel_plan *plan = plan_of(program, keel_device_at(context, 0), rules, 1);
  for (int round = 0; round < ROUNDS; round++) {
    running all[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
      const float mine[] = {-1, (float)i, -3, (float)round};
      all[i] = (running){.plan = plan, .x = floats(context, 4, mine)};
      assert_int_equal(pthread_create(&threads[i], NULL, run_plan, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
      const float want[] = {0, (float)i, 0, (float)round};
      pthread_join(threads[i], NULL);
      expect_ok(all[i].status);
      expect_floats(all[i].y, want, 4);
      RELEASE(all[i].x, all[i].y);
    }
  }
  drop(plan, program, context);
}

/* Nothing is copied, and somebody is told so. */
TEST_THAT(an_empty_value_crosses_too) {
  static const char *const rules[] = {"Relu=queue"};
  keel_device *queue = NULL;
  keel_context *context = open_beside(TOY("queue"), 1, &queue);
  keel_builder *builder = create_builder(context, "empty");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(0));
  keel_program *program = finish(
      builder,
      op(builder, "Neg", op(builder, "Relu", x, KEEL_ABSENT), KEEL_ABSENT));
  keel_plan *plan = plan_of(program, keel_device_at(context, 0), rules, 1);
  keel_tensor *in = floats(context, 0, data), *y = output_of(plan, &in, 1);
  assert_int_equal(keel_tensor_size(y), 0);
  RELEASE(in, y);
  drop(plan, program, context);
}

/* ---- failures ------------------------------------------------------------- */

TEST_THAT(a_copy_of_what_failed_says_why) {
  static const char *const rules[] = {"Mul=queue"};
  keel_device *queue = NULL;
  keel_context *context = open_beside(TOY("queue"), 1, &queue);
  keel_builder *builder = create_builder(context, "fails");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  keel_value factor = keel_builder_input(builder, "factor", KD_F32, 0, NULL);
  keel_program *program = finish(
      builder, op(builder, "Neg", op(builder, "Mul", x, factor), KEEL_ABSENT));
  keel_plan *plan = plan_of(program, keel_device_at(context, 0), rules, 1);
  for (int i = 0; i < 4; i++) { /* what failed does no harm to the next run */
    const float by = i % 2 ? 2 : 13, want[] = {2, -4, 6, -8};
    keel_tensor *in[] = {floats(context, 4, data), NULL}, *y = NULL;
    expect_ok(keel_tensor_create(context, KD_F32, 0, NULL, &by, &in[1]));
    keel_status status = keel_plan_run(plan, in, 2, &y, 1);
    if (i % 2) {
      expect_ok(status);
      expect_floats(y, want, 4);
    } else {
      assert_int_equal(status, KD_INTERNAL);
      assert_null(y);
      expect_message("can't multiply by 13");
      expect_message("it calls"); /* its own words, not the stream's */
      expect_message("was copied to the host");
    }
    release_all(in, 2);
    keel_tensor_release(y);
  }
  drop(plan, program, context);
}

/* ---- what a copy in reads ------------------------------------------------- */

/* The queue reads late: by then its source is released, and its memory another
 * tensor's. */
TEST_THAT(a_source_is_held_until_it_was_read) {
  const float want[] = {0, 2, 0, 4}, others[] = {9, 9, 9, 9};
  keel_device *queue = NULL;
  keel_context *context = open_beside(TOY("queue"), 1, &queue);
  for (int i = 0; i < 20; i++) {
    keel_tensor *x = floats(context, 4, data), *y = NULL;
    y = call_op_on(queue, context, "Relu", &x, 1);
    keel_tensor_release(x);
    keel_tensor *over = floats(context, 4, others);
    expect_floats(y, want, 4);
    RELEASE(over, y);
  }
  keel_close(context);
}

/* Memory that is the caller's again when the tensor is released. */
TEST_THAT(lent_memory_is_read_before_the_call_returns) {
  const float want[] = {0, 2, 0, 4};
  keel_device *queue = NULL;
  float mine[4];
  keel_context *context = open_beside(TOY("queue"), 1, &queue);
  memcpy(mine, data, sizeof mine);
  keel_tensor *x = NULL, *y = NULL;
  expect_ok(keel_tensor_wrap(context, KD_F32, DIMS(4), mine, NULL, NULL, &x));
  y = call_op_on(queue, context, "Relu", &x, 1);
  keel_tensor_release(x);
  memset(mine, 0, sizeof mine);
  expect_floats(y, want, 4);
  RELEASE(y, context);
}

/* A context may close while the device still reads what was copied in. */
TEST_THAT(closing_waits_for_copies) {
  keel_device *queue = NULL;
  keel_context *context = open_beside(TOY("queue"), 1, &queue);
  keel_tensor *x = floats(context, 4, data), *there = NULL;
  for (int i = 0; i < 50; i++) {
    expect_ok(keel_transfer_begin(x, queue, &there));
    keel_tensor_release(there);
  }
  keel_tensor_release(x);
  assert_true(atomic_load(&queue->transfers.under_way) > 0);
  keel_close(context);
}

RUN_TESTS(NULL, NULL)
