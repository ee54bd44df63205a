/* hang_test.c - begun runs end at their limit, or when asked to, though every worker of the pool
 * is in a kernel that hangs; what these kernels use stays until they end. */
#include <kd/kd.h>
#include <pthread.h>

#undef KD_ENTRY
#define KD_ENTRY(plugin)
#include "minimal.c" /* NOLINT(bugprone-suspicious-include): the whole of it */
#include "one_context.h"

#define WORKERS 2

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int inside, told, freed;
  bool open; /* kernels go on */
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, false};

static void note(int *what) {
  pthread_mutex_lock(&gate.lock);
  ++*what;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.lock);
}

static void wait_for(const int *what, int count) {
  pthread_mutex_lock(&gate.lock);
  while (*what < count)
    pthread_cond_wait(&gate.changed, &gate.lock);
  pthread_mutex_unlock(&gate.lock);
}

static kd_status hanging_relu(kd_kernel *self, kd_stream *stream,
                              const kd_launch *launch) {
  pthread_mutex_lock(&gate.lock);
  gate.inside++;
  pthread_cond_broadcast(&gate.changed);
  while (!gate.open)
    pthread_cond_wait(&gate.changed, &gate.lock);
  pthread_mutex_unlock(&gate.lock);
  return relu(self, stream, launch);
}

static const kd_plugin *entry(const kd_host *host) {
  static const kd_kernel_def own_kernels[] = {
      {ON_F32, .op = "Relu", .enqueue = hanging_relu},
      {ON_F32, .op = "Add", .enqueue = add}};
  static kd_plugin plugin;
  (void)host;
  plugin = minimal_plugin;
  plugin.kernels = own_kernels;
  plugin.kernel_count = 2;
  return &plugin;
}

static keel_plan *hanging, *adding;

static keel_plan *plan_of(const char *name) {
  keel_builder *builder = create_builder(context, name);
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  keel_value both[] = {x, x};
  keel_value y = keel_builder_op(builder, name, NULL, 0, both,
                                 strcmp(name, "Add") ? 1 : 2);
  return plan_giving(builder, y, NULL);
}

static void freed(void *unused) {
  (void)unused;
  note(&gate.freed);
}

static void told(void *status, keel_tensor *tensor, keel_status got) {
  (void)tensor;
  *(keel_status *)status = got;
  note(&gate.told);
}

/* Fills the pool with runs that hang, each with an input that says when it is freed. */
static void hang(const keel_run_params *params, keel_tensor **outputs) {
  static const float data[4] = {1, -1, 1, -1};
  gate.open = false;
  gate.inside = gate.told = gate.freed = 0;
  for (int i = 0; i < WORKERS; i++) {
    keel_tensor *x = NULL;
    expect_ok(
        keel_tensor_wrap(context, KD_F32, DIMS(4), data, freed, NULL, &x));
    expect_ok(keel_plan_begin(hanging, params, &x, 1, &outputs[i], 1));
    keel_tensor_release(x);
  }
  wait_for(&gate.inside, WORKERS);
}

static void let_go(void) {
  pthread_mutex_lock(&gate.lock);
  assert_int_equal(gate.freed, 0); /* kernels still use their inputs */
  gate.open = true;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.lock);
  wait_for(&gate.freed, WORKERS);
}

TEST_THAT(limits_pass_though_all_workers_hang) {
  keel_run_params params = {.struct_size = sizeof params, .timeout = 100000000};
  keel_tensor *y[WORKERS], *z = NULL, *sum = NULL;
  keel_status told_status = KD_OK;
  hang(&params, y);
  /* one that has no worker to begin it, and one that reads it */
  keel_tensor *x = equal_floats(context, 4, 1);
  expect_ok(keel_plan_begin(adding, &params, &x, 1, &z, 1));
  expect_ok(keel_plan_begin(adding, &params, &z, 1, &sum, 1));
  expect_ok(keel_tensor_on_done(z, told, &told_status));
  for (int i = 0; i < WORKERS; i++) {
    expect_fails(keel_tensor_wait(y[i]), KD_DEADLINE_EXCEEDED,
                 "past its deadline");
  }
  assert_int_equal(keel_tensor_wait(z), KD_DEADLINE_EXCEEDED);
  assert_int_equal(keel_tensor_wait(sum), KD_DEADLINE_EXCEEDED);
  wait_for(&gate.told, 1);
  assert_int_equal(told_status, KD_DEADLINE_EXCEEDED);
  let_go();
  release_all(y, WORKERS);
  release_all((keel_tensor *[]){x, z, sum}, 3);
}

TEST_THAT(requests_pass_though_all_workers_hang) {
  keel_tensor *y[WORKERS], *z = NULL;
  keel_status told_status[2] = {KD_OK, KD_OK};
  keel_cancel *cancel = create_cancel(context);
  keel_run_params params = {.struct_size = sizeof params, .cancel = cancel};
  hang(&params, y);
  keel_tensor *x = equal_floats(context, 4, 1);
  expect_ok(keel_plan_begin(adding, &params, &x, 1, &z, 1));
  expect_ok(keel_tensor_on_done(y[0], told, &told_status[0]));
  expect_ok(keel_tensor_on_done(z, told, &told_status[1]));
  assert_int_equal(keel_tensor_query(z), KD_BUSY);
  keel_cancel_request(cancel, "enough");
  expect_message("not known yet"); /* this thread's message stays */
  for (int i = 0; i < WORKERS; i++)
    assert_int_equal(keel_tensor_query(y[i]), KD_CANCELLED);
  expect_fails(keel_tensor_query(z), KD_CANCELLED, "enough");
  wait_for(&gate.told, 2);
  assert_int_equal(told_status[0], KD_CANCELLED);
  assert_int_equal(told_status[1], KD_CANCELLED);
  let_go();
  keel_cancel_release(cancel);
  release_all(y, WORKERS);
  release_all((keel_tensor *[]){x, z}, 2);
}

/* Nothing of it is left over: the next runs are right. */
TEST_THAT(the_pool_works_after) {
  for (int i = 0; i < 20; i++) {
    keel_run_params params = {.struct_size = sizeof params,
                              .timeout = UINT64_C(60000000000)};
    keel_tensor *x = equal_floats(context, 4, 1), *y = NULL, *z = NULL;
    expect_ok(keel_plan_begin(hanging, &params, &x, 1, &y, 1));
    expect_ok(keel_plan_begin(adding, &params, &y, 1, &z, 1));
    expect_ok(keel_tensor_wait(z));
    expect_equal_floats(z, 2, 4);
    release_all((keel_tensor *[]){x, y, z}, 3);
  }
}

SETUP(open_all) {
  const kd_entry entries[] = {entry};
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .workers = WORKERS,
                                .entries = entries,
                                .entry_count = 1};
  if (keel_open(&params, &context) != KD_OK) return 1;
  hanging = plan_of("Relu");
  adding = plan_of("Add");
  return 0;
}

SETUP(close_all) {
  RELEASE(hanging, adding, context);
  return 0;
}

RUN_TESTS(open_all, close_all)
