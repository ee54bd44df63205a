/* threads_test.c - how many threads work for a context: as many as it asked for, whichever
 * contexts there are beside it. A kernel of a plugin in this file sees them. */
/* before cmocka, whose fail() is a macro */
#include "../../../samples/minimal_plugin/minimal.c" /* NOLINT(bugprone-suspicious-include) */

#include <pthread.h>
#include <unistd.h>

#include "testing.h"

#define PIECES 48
#define LIMIT  8

/* The threads that a kernel's loop has met. Each piece waits until as many have come as are
 * wanted, so that none is missed, and then a moment for those that must not come. */
typedef struct meeting {
  pthread_mutex_t lock;
  pthread_cond_t came;
  pthread_t threads[LIMIT];
  uint32_t count, wanted, width;
} meeting;

static meeting meetings[2];

static void meet(meeting *at) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 20;
  pthread_mutex_lock(&at->lock);
  uint32_t i = 0;
  while (i < at->count && !pthread_equal(at->threads[i], pthread_self()))
    i++;
  if (i == at->count && i < LIMIT) at->threads[at->count++] = pthread_self();
  pthread_cond_broadcast(&at->came);
  while (at->count < at->wanted &&
         !pthread_cond_timedwait(&at->came, &at->lock, &until))
    ;
  pthread_mutex_unlock(&at->lock);
  usleep(500);
}

static void body(void *context, int64_t begin, int64_t end) {
  while (begin++ < end)
    meet(context);
}

/* y = x, of which the first element says which meeting. */
static kd_status count(kd_kernel *self, kd_stream *stream,
                       const kd_launch *launch) {
  const kd_host *host = launch->device->host;
  const float *x = kd_input(launch, 0);
  meeting *at = &meetings[(int)x[0]];
  (void)self, (void)stream;
  at->width = host->worker_count(host);
  host->parallel_for(host, PIECES, 1, body, at);
  memcpy(kd_output(launch, 0), x, launch->outputs[0].size);
  return KD_OK;
}

static const kd_kernel_def counted[] = {
    {ON_F32, .op = "Relu", .enqueue = count}};
static kd_plugin counting;
KD_ENTRY_AS(entry_of_counting, counting)

static keel_context *open_counting(int32_t workers) {
  static const kd_entry entries[] = {entry_of_counting};
  const keel_context_params params = {.struct_size = sizeof params,
                                      .flags = KEEL_ONLY_NAMED,
                                      .workers = workers,
                                      .entries = entries,
                                      .entry_count = 1};
  keel_context *context = open_params(&params);
  return context;
}

typedef struct caller {
  keel_context *context;
  float which;
  uint32_t wanted;
  bool planned, begun;
} caller;

static keel_tensor *computed(const caller *c, keel_tensor *x) {
  keel_tensor *y = NULL;
  if (!c->planned) {
    expect_ok(keel_call(c->context, "Relu", NULL, 0, &x, 1, &y, 1));
    return y;
  }
  const int64_t one = 1;
  keel_builder *builder = create_builder(c->context, "one");
  keel_value in = keel_builder_input(builder, "x", KD_F32, 1, &one);
  keel_plan *plan =
      plan_giving(builder, op(builder, "Relu", in, KEEL_ABSENT), NULL);
  const keel_run_params params = {.struct_size = sizeof params};
  for (int i = 0; i < 4; i++) { /* the later ones are static runs */
    keel_tensor_release(y);
    expect_ok(c->begun ? keel_plan_begin(plan, &params, &x, 1, &y, 1)
                       : keel_plan_run(plan, &x, 1, &y, 1));
    expect_ok(keel_tensor_wait(y));
  }
  keel_plan_release(plan);
  return y;
}

static void *call(void *argument) {
  const caller *c = argument;
  meeting *at = &meetings[(int)c->which];
  at->count = 0;
  at->wanted = c->wanted;
  keel_tensor *x = floats(c->context, 1, &c->which), *y = computed(c, x);
  expect_floats(y, &c->which, 1);
  release_all((keel_tensor *[]){x, y}, 2);
  return NULL;
}

static void expect_threads(const caller *c) {
  assert_int_equal(meetings[(int)c->which].width, c->wanted);
  assert_int_equal(meetings[(int)c->which].count, c->wanted);
}

TEST_THAT(a_context_has_as_many_threads_as_it_asked_for) {
  const int32_t workers[] = {3, KEEL_NO_WORKERS, 1, 2};
  const uint32_t threads[] = {4, 1, 2, 3};
  keel_context *contexts[4];
  for (int i = 0; i < 4; i++) {
    contexts[i] = open_counting(workers[i]);
    assert_int_equal(keel_worker_count(contexts[i]), threads[i]);
  }
  for (int k = 0; k < 8; k++) {
    caller c = {.context = contexts[k % 4],
                .wanted = threads[k % 4],
                .planned = k >= 4};
    call(&c);
    expect_threads(&c);
  }
  for (int i = 0; i < 4; i++)
    keel_close(contexts[i]);
}

TEST_THAT(contexts_at_once_keep_their_numbers) {
  caller all[2] = {{.context = open_counting(2), .which = 0, .wanted = 3},
                   {.context = open_counting(1), .which = 1, .wanted = 2}};
  for (int round = 0; round < 4; round++) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
      all[i].planned = round & 1;
      assert_int_equal(pthread_create(&threads[i], NULL, call, &all[i]), 0);
    }
    for (int i = 0; i < 2; i++)
      pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
      expect_threads(&all[i]);
  }
  for (int i = 0; i < 2; i++)
    keel_close(all[i].context);
}

/* The caller only waits, and helps: a run that has begun has the threads of its context. */
TEST_THAT(begun_runs_keep_it) {
  keel_context *other = open_counting(3);
  caller c = {.context = open_counting(1), .planned = true, .begun = true};
  c.wanted = 2;
  call(&c);
  expect_threads(&c);
  RELEASE(c.context, other);
}

int main(void) {
  counting = minimal_plugin;
  counting.name = "counting";
  counting.kernels = counted;
  counting.kernel_count = 1;
  for (int i = 0; i < 2; i++) {
    pthread_mutex_init(&meetings[i].lock, NULL);
    pthread_cond_init(&meetings[i].came, NULL);
  }
  return tests_run(NULL, NULL);
}
