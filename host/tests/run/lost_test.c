/* lost_test.c - a device that is lost in the middle of its work: what needs it fails with its
 * words, all else goes on, nothing is leaked, and it can be opened again.
 *
 * The simulated device is lost at the launch or copy that KEEL_SIM_LOSE or KEEL_SIM_LOSE_COPY
 * names, counted from when it was opened. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "device/context.h"
#include "device/device.h"
#include "device/stream.h"
#include "layers/layers.h"
#include "one_context.h"
#include "values/tensor.h"

#ifdef SIM_PLUGIN

enum { SIZE = 8, STEPS = 12, HALF = 6 };
#define WORDS "was lost: unit 0 has fallen off the bus"

static keel_device *sim, *other, *cpu;
static keel_op *add; /* on sim */
static atomic_int complaints;

/* ---- what all tests have --------------------------------------------------------- */

static void lose_at(const char *what, unsigned number) {
  char text[16];
  snprintf(text, sizeof text, "%u", number);
  unsetenv("KEEL_SIM_LOSE");
  unsetenv("KEEL_SIM_LOSE_COPY");
  if (number) setenv(what, text, 1);
}

static void never_lose(void) {
  lose_at("KEEL_SIM_LOSE", 0);
}

/* Plugins and validation complain as errors. */
static void count_errors(void *unused, uint32_t level, const char *line) {
  (void)unused;
  if (level != KD_LOG_ERROR) return;
  print_message("%s\n", line);
  atomic_fetch_add(&complaints, 1);
}

static int open_layered(const char *layers) {
  never_lose();
  atomic_store(&complaints, 0);
  expect_ok(keel_layers_set(layers));
  context = open_logged(SIM_PLUGIN, CPU_PLUGIN, 2, count_errors);
  sim = keel_device_at(context, 0);
  other = keel_device_at(context, 1);
  cpu = keel_device_at(context, 2);
  add = NULL;
  return 0;
}

SETUP(open_checked) {
  return open_layered("validation");
}

/* Validation takes a device's handle for one context's. */
SETUP(open_plain) {
  return open_layered("");
}

/* Copies between devices end before whoever begins them goes on. The linker has the host call
 * the first of the two (--wrap). */
static atomic_bool copies_are_quick;

keel_status begin_transfer(
    keel_tensor *tensor, keel_device *device,
    keel_tensor **out_tensor) __asm__("__wrap_keel_transfer_begin");
keel_status hosts_begin(
    keel_tensor *tensor, keel_device *device,
    keel_tensor **out_tensor) __asm__("__real_keel_transfer_begin");

keel_status begin_transfer(keel_tensor *tensor, keel_device *device,
                           keel_tensor **out_tensor) {
  keel_status status = hosts_begin(tensor, device, out_tensor);
  if (status == KD_OK && atomic_load(&copies_are_quick))
    keel_tensor_wait(*out_tensor);
  return status;
}

SETUP(close_all) {
  RELEASE(add, context);
  assert_int_equal(atomic_load(&complaints), 0);
  expect_ok(keel_layers_set(""));
  return 0;
}

static keel_tensor *all_of(float value) {
  return equal_floats(context, SIZE, value);
}

static void expect_all(keel_tensor *tensor, float want) {
  expect_equal_floats(tensor, want, SIZE);
}

/* x + 1, `times` times, op by op; what was made last goes to *out. */
static keel_status count_up(const keel_op *op, int times, keel_tensor **out) {
  keel_tensor *one = all_of(1), *at = keel_tensor_retain(one);
  keel_status status = KD_OK;
  for (int i = 1; i < times && status == KD_OK; i++) {
    keel_tensor *pair[] = {at, one}, *next = NULL;
    status = keel_op_call((keel_op *)(uintptr_t)op, pair, 2, &next, 1);
    if (status != KD_OK) break;
    keel_tensor_release(at);
    at = next;
  }
  keel_tensor_release(one);
  *out = at;
  return status;
}

/* The whole of an eager computation: KD_OK, and it is right. */
static keel_status compute(const keel_op *op) {
  float back[SIZE] = {0};
  keel_tensor *y = NULL;
  keel_status status = count_up(op, STEPS, &y);
  if (status == KD_OK) status = keel_tensor_read(y, back, sizeof back);
  keel_tensor_release(y);
  for (int i = 0; i < SIZE && status == KD_OK; i++)
    assert_true(back[i] == (float)STEPS);
  return status;
}

static keel_op *adds_on(keel_device *device) {
  keel_op *op = prepare_op(context, "Add", NULL, 0, device);
  return op;
}

static void expect_lost(keel_status status) {
  if (status != KD_DEVICE_LOST)
    fail_msg("%s: %s", keel_status_name(status), keel_message());
  expect_message("sim:0 " WORDS);
}

/* Nothing of it is held any more but by the runtime. */
static void reopen(void) {
  expect_ok(keel_device_reopen(sim));
  expect_ok(keel_device_status(sim));
}

/* What a device has given, and what the host has of it. */
static void expect_nothing_left(void) {
  assert_int_equal(atomic_load(&sim->heap.pieces), 0);
  assert_int_equal(atomic_load(&sim->pins), 0);
  assert_int_equal(atomic_load(&sim->users), 0);
}

/* ---- eager work -------------------------------------------------------------------- */

TEST_THAT(work_fails_with_the_devices_words) {
  keel_tensor *y = NULL, *z = NULL;
  keel_op *mul = NULL;
  float back[SIZE];
  lose_at("KEEL_SIM_LOSE", 3);
  add = adds_on(sim);

  keel_status status = count_up(add, STEPS, &y);
  if (status == KD_OK) status = keel_tensor_read(y, back, sizeof back);

  expect_lost(status);
  expect_lost(keel_device_status(sim));
  expect_lost(keel_tensor_read(y, back, sizeof back)); /* its data is gone */
  expect_lost(keel_tensor_to(y, cpu, &z));
  keel_tensor_release(y);
  expect_lost(compute(add));
  expect_lost(keel_op_prepare(context, "Mul", NULL, 0, sim, &mul));
}

TEST_THAT(new_ops_are_not_moved_elsewhere) {
  keel_tensor *x = all_of(1), *pair[] = {x, x}, *y = NULL;
  lose_at("KEEL_SIM_LOSE", 1);
  add = adds_on(sim);
  expect_lost(compute(add));

  expect_ok(keel_device_push(sim));
  expect_lost(keel_call(context, "Mul", NULL, 0, pair, 2, &y, 1));
  keel_device_pop();

  assert_null(y);
  keel_tensor_release(x);
}

TEST_THAT(other_devices_go_on) {
  keel_op *here = adds_on(cpu), *there = adds_on(other);
  keel_tensor *y = NULL;
  expect_ok(count_up(there, HALF, &y));
  lose_at("KEEL_SIM_LOSE", 3);
  add = adds_on(sim);

  expect_lost(compute(add));

  expect_all(y, HALF);
  expect_ok(compute(here));
  expect_ok(compute(there));
  expect_ok(keel_device_status(cpu));
  expect_ok(keel_device_status(other));
  RELEASE(y, here, there);
}

/* With kernels that are made anew, for an op that stays. */
TEST_THAT(it_is_opened_again) {
  for (unsigned n = 1; n < STEPS; n++) {
    lose_at("KEEL_SIM_LOSE", n);
    if (add) reopen();
    if (!add) add = adds_on(sim);
    expect_lost(compute(add));
  }
  never_lose();
  reopen();
  expect_ok(compute(add));
  reopen(); /* does nothing to one that works */
  expect_ok(compute(add));
}

TEST_THAT(values_are_released_first) {
  keel_tensor *y = NULL;
  lose_at("KEEL_SIM_LOSE", 6);
  add = adds_on(sim);
  expect_ok(count_up(add, 4, &y));
  expect_lost(compute(add));

  expect_fails(
      keel_device_reopen(sim), KD_FAILED_PRECONDITION,
      "sim:0 was lost, and cannot be reopened while anything of it is held; "
      "release its tensors and plans (1 allocations on it"
      " and 0 parts of plans are left)");
  expect_lost(compute(add));

  keel_tensor_release(y);
  never_lose();
  reopen();
  expect_ok(compute(add));
}

TEST_THAT(copies_fail) {
  for (unsigned n = 1; n <= 4; n++) {
    float back[SIZE] = {0};
    keel_tensor *x = all_of(3), *there[3] = {NULL}, *more = NULL;
    lose_at("KEEL_SIM_LOSE_COPY", n);
    if (n > 1) reopen();

    keel_status status = KD_OK;
    for (int i = 0; i < 3 && status == KD_OK; i++)
      status = keel_tensor_to(x, sim, &there[i]);
    if (status == KD_OK) status = keel_tensor_read(there[0], back, sizeof back);

    expect_lost(status);
    expect_lost(keel_tensor_to(x, sim, &more));
    release_all(there, 3);
    keel_tensor_release(x);
  }
  never_lose();
  reopen();
  expect_nothing_left();
}

SETUP(open_failing) {
  return open_layered("validation,fault:plugin.device_open=2:UNAVAILABLE");
}

TEST_BETWEEN(an_opening_that_fails_is_tried_again, open_failing, close_all) {
  lose_at("KEEL_SIM_LOSE", 2);
  add = adds_on(sim);
  expect_lost(compute(add));
  never_lose();

  expect_fails(keel_device_reopen(sim), KD_UNAVAILABLE,
               "while sim:0 was opened");
  expect_lost(compute(add));

  reopen();
  expect_ok(compute(add));
}

/* One process has it open once. */
TEST_BETWEEN(contexts_share_the_loss, open_plain, close_all) {
  keel_context *first = context;
  keel_op *adds = NULL;
  lose_at("KEEL_SIM_LOSE", 2);
  add = adds_on(sim);
  keel_context *second = context =
      open_logged(SIM_PLUGIN, CPU_PLUGIN, 2, count_errors);
  adds = adds_on(keel_device_at(second, 0));
  expect_lost(compute(adds));
  context = first;
  expect_lost(compute(add));
  never_lose();

  expect_fails(keel_device_reopen(sim), KD_FAILED_PRECONDITION,
               "another context of this process still has it");
  expect_lost(compute(add));
  expect_ok(keel_device_reopen(keel_device_at(second, 0)));
  reopen();

  expect_ok(compute(add));
  context = second;
  expect_ok(compute(adds));
  RELEASE(adds, second);
  context = first;
}

/* ---- plans ------------------------------------------------------------------------- */

/* ((x + x) * x + x) * x ..., `pairs` times; every `apart`-th pair on the CPU. */
static keel_program *chain(int pairs, int apart) {
  keel_builder *builder = create_builder(context, "chain");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(SIZE)), y = x;
  for (int i = 1; i <= pairs; i++) {
    bool away = apart && i % apart == 0;
    if (away) keel_device_push(cpu);
    y = op(builder, "Mul", op(builder, "Add", y, x), x);
    if (away) keel_device_pop();
  }
  return program_giving(builder, y);
}

static keel_plan *plan_of(keel_program *program, keel_device *device,
                          bool regions) {
  static const char *const skip[] = {"regions", "fuse"};
  return create_plan(program, PLAN_PARAMS(.device = device, .skip = skip,
                                          .skip_count = regions ? 0 : 2));
}

/* Runs it with x = 1, where y is the number of pairs. */
static keel_status run_chain(keel_plan *plan, int pairs) {
  float back[SIZE] = {0};
  keel_tensor *x = all_of(1), *y = NULL;
  keel_status status = keel_plan_run(plan, &x, 1, &y, 1);
  if (status == KD_OK) status = keel_tensor_read(y, back, sizeof back);
  for (int i = 0; i < SIZE && status == KD_OK; i++)
    assert_true(back[i] == (float)(pairs + 1));
  RELEASE(x, y);
  return status;
}

/* The run itself says so, though nothing is read, and what the device did. */
static void expect_lost_in_a_run(keel_plan *plan) {
  keel_tensor *x = all_of(1), *y = NULL;
  expect_lost(keel_plan_run(plan, &x, 1, &y, 1));
  expect_message("while sim:0 ran ");
  assert_null(y);
  keel_tensor_release(x);
}

enum { PAIRS = 6, LAUNCHES = 2 * PAIRS, RUNS = 7 };

/* Lost in the middle of a run that makes values, of static runs, and of recordings. */
TEST_THAT(planned_runs_fail_and_end) {
  keel_program *program = chain(PAIRS, 0);
  for (unsigned k = 0; k < RUNS; k++) {
    lose_at("KEEL_SIM_LOSE", LAUNCHES * k + LAUNCHES / 2);
    if (k) reopen();
    keel_plan *plan = plan_of(program, sim, false);
    for (unsigned i = 0; i < k; i++)
      expect_ok(run_chain(plan, PAIRS));
    uint64_t replays = keel_plan_replays(plan);
    if (k == RUNS - 1 && sim->stream) assert_true(replays > 0);

    expect_lost_in_a_run(plan);
    expect_lost_in_a_run(plan);

    keel_plan_release(plan);
  }
  never_lose();
  reopen();
  keel_plan *plan = plan_of(program, sim, false);
  for (int i = 0; i < RUNS; i++)
    expect_ok(run_chain(plan, PAIRS));
  RELEASE(plan, program);
}

TEST_THAT(plans_are_made_anew) {
  keel_program *program = chain(PAIRS, 0);
  lose_at("KEEL_SIM_LOSE", 1);
  keel_plan *plan = plan_of(program, sim, true); /* with a compiled region */
  keel_plan *elsewhere = plan_of(program, cpu, true);
  expect_lost(run_chain(plan, PAIRS));
  never_lose();

  expect_fails(keel_device_reopen(sim), KD_FAILED_PRECONDITION,
               "release its tensors and plans (0 allocations");
  expect_lost(run_chain(plan, PAIRS));
  expect_ok(run_chain(elsewhere, PAIRS));
  keel_plan_release(plan);
  reopen();

  plan = plan_of(program, sim, true);
  for (int i = 0; i < RUNS; i++)
    expect_ok(run_chain(plan, PAIRS));
  RELEASE(plan, elsewhere, program);
}

TEST_THAT(a_lost_device_takes_no_plan) {
  keel_program *program = chain(PAIRS, 0);
  keel_plan *plan = NULL;
  lose_at("KEEL_SIM_LOSE", 1);
  add = adds_on(sim);
  expect_lost(compute(add));

  expect_lost(keel_plan_create(program, PLAN_PARAMS(.device = sim), &plan));

  plan = plan_of(program, cpu, true);
  expect_ok(run_chain(plan, PAIRS));
  RELEASE(plan, program);
}

/* A copy to the CPU fails before the step that began it has returned. */
TEST_THAT(copies_that_failed_at_once_end_the_run) {
  keel_program *program = chain(PAIRS, 2);
  atomic_store(&copies_are_quick, true);
  for (unsigned n = 1; n <= PAIRS; n++) {
    lose_at("KEEL_SIM_LOSE_COPY", n);
    if (n > 1) reopen();
    keel_plan *plan = plan_of(program, sim, false);
    expect_lost(run_chain(plan, PAIRS));
    keel_plan_release(plan);
  }
  never_lose();
  reopen();
  expect_nothing_left();
  keel_plan *plan = plan_of(program, sim, false);
  expect_ok(run_chain(plan, PAIRS));
  atomic_store(&copies_are_quick, false);
  RELEASE(plan, program);
}

/* A copy behind a failed input is not started: the run fails with the input's message. */
TEST_THAT(copies_behind_a_failed_input_are_no_failures) {
  keel_program *program = chain(PAIRS, 2);
  keel_plan *plan = plan_of(program, sim, false);
  keel_tensor *x = NULL, *y = NULL;
  expect_ok(keel_tensor_promise(context, &x));
  expect_ok(keel_tensor_fail(x, KD_UNAVAILABLE, "no picture"));
  expect_fails(keel_plan_run_with(plan, RUN_PARAMS(.flags = KEEL_RUN_PARTIAL),
                                  &x, 1, &y, 1),
               KD_UNAVAILABLE, "no picture");
  if (strstr(keel_message(), "copied")) fail_msg("%s", keel_message());
  RELEASE(x, y, plan, program);
}

/* Copies between the devices are under way when it happens, and nobody waits for a run. */
TEST_THAT(begun_runs_fail_and_end) {
  keel_program *program = chain(PAIRS, 2);
  for (unsigned n = 1; n <= 3 * LAUNCHES; n += 2) {
    keel_tensor *x = all_of(1), *y[4] = {NULL};
    keel_status worst = KD_OK;
    lose_at(n % 4 == 1 ? "KEEL_SIM_LOSE" : "KEEL_SIM_LOSE_COPY", n / 2 + 1);
    if (n > 1) reopen();
    keel_plan *plan = plan_of(program, sim, false);
    while (worst == KD_OK) {
      for (int i = 0; i < 4; i++)
        keel_plan_begin(plan, NULL, &x, 1, &y[i], 1);
      for (int i = 0; i < 4; i++) {
        float back[SIZE];
        keel_status status =
            y[i] ? keel_tensor_read(y[i], back, sizeof back) : KD_DEVICE_LOST;
        if (status != KD_OK && worst == KD_OK) worst = status;
        keel_tensor_release(y[i]);
        y[i] = NULL;
      }
    }
    expect_lost(worst);
    RELEASE(plan, x);
    /* the last parts of runs that nobody waits for */
    while (atomic_load(&context->async_runs))
      sched_yield();
  }
  never_lose();
  reopen();
  expect_nothing_left();
  keel_program_release(program);
}

/* ---- threads ------------------------------------------------------------------------- */

enum { THREADS = 3, LOSSES = 12 };

static atomic_bool enough;
static atomic_int losses_seen;

/* Computes until it is told to stop; a lost device is somebody else's business. */
static void *compute_on(void *op) {
  keel_op *mine = op;
  while (!atomic_load(&enough)) {
    keel_status status = compute(mine);
    if (status == KD_DEVICE_LOST) atomic_fetch_add(&losses_seen, 1);
    if (status != KD_OK && (status != KD_DEVICE_LOST || mine != add)) {
      print_message("%s\n", keel_message());
      return NULL;
    }
  }
  return op;
}

TEST_THAT(it_is_opened_again_while_threads_use_it) {
  pthread_t threads[THREADS];
  keel_op *here = adds_on(cpu);
  atomic_store(&enough, false);
  atomic_store(&losses_seen, 0);
  lose_at("KEEL_SIM_LOSE", 30);
  add = adds_on(sim);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(
        pthread_create(&threads[i], NULL, compute_on, i ? add : here), 0);
  for (int i = 0; i < LOSSES; i++) {
    while (keel_device_status(sim) == KD_OK)
      sched_yield();
    int seen = atomic_load(&losses_seen);
    while (atomic_load(&losses_seen) == seen)
      sched_yield();
    keel_status status;
    do /* their tensors go soon */
      status = keel_device_reopen(sim);
    while (status == KD_FAILED_PRECONDITION);
    if (status != KD_OK) fail_msg("%s", keel_message());
  }
  atomic_store(&enough, true);
  for (int i = 0; i < THREADS; i++) {
    void *good = NULL;
    pthread_join(threads[i], &good);
    assert_non_null(good);
  }
  keel_op_release(here);
}

/* The memory of a copy under way, when the device is lost at a copy that waits for no stream. A
 * thread that enqueues and one that reads meet so once in many runs; here by the plugin's own
 * table. ThreadSanitizer sees what is read too late. */
TEST_THAT(a_wait_outlasts_copies_under_way) {
  enum { LARGE = 1 << 26 };
  lose_at("KEEL_SIM_LOSE_COPY", 3);
  expect_ok(keel_device_ready(sim));
  if (!sim->stream) return; /* nothing is under way behind a call */
  const kd_memory_table *memory = &sim->plugin->memory;
  char *source = calloc(LARGE, 1);
  float back[SIZE];
  keel_tensor *x = all_of(1), *there = NULL;
  keel_buffer *target = NULL;
  assert_non_null(source);
  expect_ok(keel_tensor_to(x, sim, &there));
  expect_ok(keel_heap_take(&sim->heap, LARGE, &target));
  pthread_mutex_lock(&sim->stream_lock);
  expect_ok(memory->copy_in(sim->handle, sim->stream, source, target->handle, 0,
                            LARGE));
  pthread_mutex_unlock(&sim->stream_lock);
  usleep(2000); /* on all but a busy machine it has begun */

  keel_status status =
      memory->copy_out(sim->handle, NULL, there->buffer->handle, there->offset,
                       back, sizeof back);
  if (status != KD_OK) /* else the large one is the third */
    assert_int_equal(status, KD_DEVICE_LOST);
  expect_lost(keel_device_drain(sim));

  free(source);
  keel_buffer_release(target);
  RELEASE(there, x);
}

/* ---- ResNet-50 ----------------------------------------------------------------------- */

static uint32_t seed;

static uint32_t random_below(uint32_t end) {
  seed = seed * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(seed >> 8) * end >> 24);
}

typedef struct network {
  keel_builder *builder;
  int64_t scale; /* by which images and channels are smaller */
  bool flat;     /* each convolution is a product of matrices, of one pixel */
} network;

static keel_value weights(const network *net, uint32_t rank,
                          const int64_t *dims, float deviation) {
  int64_t count = elements_of(rank, dims);
  float *data = malloc((size_t)count * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++)
    data[i] = deviation * ((float)random_below(2001) / 1000 - 1);
  keel_value value = add_constant(net->builder, KD_F32, rank, dims, data);
  free(data);
  return value;
}

static keel_value convolve(network *net, keel_value x, int64_t in, int64_t out,
                           int64_t kernel, int64_t stride, bool relu) {
  const int64_t whole[] = {out, in, kernel, kernel}, flat[] = {in, out};
  const int64_t strides[] = {stride, stride}, pad = kernel / 2;
  const int64_t pads[] = {pad, pad, pad, pad};
  const keel_attr attrs[] = {KEEL_INTS("strides", 2, strides),
                             KEEL_INTS("pads", 4, pads)};
  keel_value y = KEEL_ABSENT;
  if (net->flat) {
    y = op(net->builder, "MatMul", x, weights(net, 2, flat, 0.2f));
    y = op(net->builder, "Add", y, weights(net, 1, &out, 0.1f));
  } else {
    keel_value args[] = {x, weights(net, 4, whole, 0.2f),
                         weights(net, 1, &out, 0.1f)};
    y = keel_builder_op(net->builder, "Conv", attrs, 2, args, 3);
  }
  return relu ? op(net->builder, "Relu", y, KEEL_ABSENT) : y;
}

static keel_value bottleneck(network *net, keel_value x, int64_t in,
                             int64_t width, int64_t stride) {
  keel_value y = convolve(net, x, in, width, 1, 1, true);
  y = convolve(net, y, width, width, 3, stride, true);
  y = convolve(net, y, width, 4 * width, 1, 1, false);
  if (in != 4 * width || stride != 1)
    x = convolve(net, x, in, 4 * width, 1, stride, false);
  return op(net->builder, "Relu", op(net->builder, "Add", y, x), KEEL_ABSENT);
}

/* Its layers, with convolutions that the simulated device leaves to the CPU; or flat, all
 * its own, so that runs are static runs and recordings. */
static keel_program *resnet50(int64_t scale, bool flat) {
  const int64_t blocks[] = {3, 4, 6, 3}, two[] = {2, 2}, three[] = {3, 3};
  const int64_t ones[] = {1, 1, 1, 1}, side = 224 / scale;
  const int64_t image[] = {1, 3, side, side}, pixel[] = {1, 3};
  const keel_attr pool[] = {KEEL_INTS("kernel_shape", 2, three),
                            KEEL_INTS("strides", 2, two),
                            KEEL_INTS("pads", 4, ones)};
  network net = {.scale = scale, .flat = flat};
  int64_t channels = 64 / scale;
  seed = 7;
  expect_ok(keel_builder_create(context, "resnet50", &net.builder));
  keel_value x = keel_builder_input(net.builder, "image", KD_F32, flat ? 2 : 4,
                                    flat ? pixel : image);
  x = convolve(&net, x, 3, channels, 7, 2, true);
  if (!flat) x = keel_builder_op(net.builder, "MaxPool", pool, 3, &x, 1);
  for (int stage = 0; stage < 4; stage++)
    for (int64_t i = 0; i < blocks[stage]; i++) {
      int64_t width = (64 / scale) << stage;
      x = bottleneck(&net, x, channels, width, i == 0 && stage > 0 ? 2 : 1);
      channels = 4 * width;
    }
  const int64_t last[] = {channels, 1000 / scale};
  if (!flat) {
    x = op(net.builder, "GlobalAveragePool", x, KEEL_ABSENT);
    x = op(net.builder, "Flatten", x, KEEL_ABSENT);
  }
  x = op(net.builder, "MatMul", x, weights(&net, 2, last, 0.2f));
  keel_builder_output(net.builder, "classes",
                      op(net.builder, "Softmax", x, KEEL_ABSENT));
  return finish_program(net.builder);
}

/* One run; what it gives is what it always gives. */
static keel_status classify(keel_plan *plan, keel_tensor *image, float *want,
                            int64_t count) {
  keel_tensor *y = NULL;
  float *back = calloc((size_t)count, sizeof *back);
  size_t size = (size_t)count * sizeof *back;
  assert_non_null(back);
  keel_status status = keel_plan_run(plan, &image, 1, &y, 1);
  if (status == KD_OK) status = keel_tensor_read(y, back, size);
  if (status == KD_OK && !*want) memcpy(want, back, size);
  if (status == KD_OK) assert_memory_equal(want, back, size);
  keel_tensor_release(y);
  free(back);
  return status;
}

typedef struct subject {
  keel_program *program;
  keel_tensor *image;
  float *want;
  uint32_t launches; /* of a run, at most */
  uint32_t runs, replays;
} subject;

static subject make_subject(int64_t scale, bool flat) {
  const int64_t side = 224 / scale, count = flat ? 3 : 3 * side * side;
  const int64_t dims[] = {1, 3, side, side};
  subject s = {.program = resnet50(scale, flat), .launches = 190};
  float *pixels = malloc((size_t)count * sizeof *pixels);
  assert_non_null(pixels);
  for (int64_t i = 0; i < count; i++)
    pixels[i] = (float)random_below(1000) / 1000;
  s.image = create_tensor(context, KD_F32, flat ? 2 : 4, dims, pixels);
  s.want = calloc((size_t)(1000 / scale), sizeof *s.want);
  assert_non_null(s.want);
  free(pixels);
  return s;
}

static void drop_subject(subject *s) {
  RELEASE(s->program, s->image);
  free(s->want);
}

/* Runs it until the device is lost. */
static void run_until_lost(subject *s, int64_t scale) {
  keel_status status = KD_OK;
  keel_plan *plan = plan_of(s->program, sim, false);
  while (status == KD_OK) {
    status = classify(plan, s->image, s->want, 1000 / scale);
    s->runs += status == KD_OK;
  }
  expect_lost(status);
  s->replays += (uint32_t)keel_plan_replays(plan);
  keel_plan_release(plan);
}

static uint64_t memory_in_use(void) {
  struct mallinfo2 info = mallinfo2();
  return (uint64_t)info.uordblks + info.hblkhd;
}

static long number_of(const char *variable, long otherwise) {
  const char *text = getenv(variable);
  return text ? strtol(text, NULL, 10) : otherwise;
}

/* At a random launch of a random run, KEEL_LOST_TIMES times; images and channels are
 * smaller by KEEL_LOST_SCALE. */
TEST_THAT(resnet50_is_lost_again_and_again) {
  long times = number_of("KEEL_LOST_TIMES", 20);
  int64_t scale = number_of("KEEL_LOST_SCALE", 8);
  subject subjects[] = {make_subject(scale, false), make_subject(scale, true)};
  uint64_t before = 0;
  for (long i = 0; i < times; i++) {
    subject *s = &subjects[i % 2];
    seed = (uint32_t)i * 2654435761u;
    lose_at("KEEL_SIM_LOSE", 1 + random_below((i % 2 ? 8 : 2) * s->launches));
    if (i) reopen();
    run_until_lost(s, scale);
    if (i == times / 10) before = memory_in_use();
  }
  print_message(
      "lost %ld times; ran well %u and %u times, %u of them as a"
      " recording; host memory in use: %llu KiB after a tenth of"
      " them, %llu KiB after all\n",
      times, subjects[0].runs, subjects[1].runs, subjects[1].replays,
      (unsigned long long)before / 1024,
      (unsigned long long)memory_in_use() / 1024);
  never_lose();
  reopen();
  expect_nothing_left();
  for (int i = 0; i < 2; i++) {
    keel_plan *plan = plan_of(subjects[i].program, sim, false);
    expect_ok(
        classify(plan, subjects[i].image, subjects[i].want, 1000 / scale));
    keel_plan_release(plan);
    drop_subject(&subjects[i]);
  }
}

int main(void) {
  around_each(open_checked, close_all);
  return tests_run(NULL, NULL);
}

#else
int main(void) {
  printf("the simulated device is not built\n");
  return 77;
}
#endif
