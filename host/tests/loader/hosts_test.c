/* hosts_test.c - several hosts in one process: two libkeels, and two contexts of one, with
 * the same plugins. None notices when another ends. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "testing.h"
#include "toy/toy.h"

/* What a user of libkeel calls; of this program's own libkeel, or of another one. */
typedef struct host {
  keel_status (*open)(const keel_context_params *, keel_context **);
  void (*close)(keel_context *);
  keel_status (*device)(keel_context *, const char *, keel_device **);
  keel_status (*create)(keel_context *, kd_dtype, uint32_t, const int64_t *,
                        const void *, keel_tensor **);
  keel_status (*prepare)(keel_context *, const char *, const keel_attr *,
                         uint32_t, keel_device *, keel_op **);
  keel_status (*call)(keel_op *, keel_tensor *const *, uint32_t, keel_tensor **,
                      uint32_t);
  keel_status (*read)(keel_tensor *, void *, uint64_t);
  void (*release)(keel_tensor *);
  void (*release_op)(keel_op *);
  const char *(*message)(void);
} host;

static const host own = {
    keel_open,       keel_close,   keel_device_find, keel_tensor_create,
    keel_op_prepare, keel_op_call, keel_tensor_read, keel_tensor_release,
    keel_op_release, keel_message,
};
static host other;
static void *library;

#define TAKE(slot, name) *(void **)&other.slot = dlsym(library, name)

SETUP(load_other) {
  library = dlopen(KEEL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) return 1;
  TAKE(open, "keel_open");
  TAKE(close, "keel_close");
  TAKE(device, "keel_device_find");
  TAKE(create, "keel_tensor_create");
  TAKE(prepare, "keel_op_prepare");
  TAKE(call, "keel_op_call");
  TAKE(read, "keel_tensor_read");
  TAKE(release, "keel_tensor_release");
  TAKE(release_op, "keel_op_release");
  TAKE(message, "keel_message");
  return other.open && other.open != keel_open ? 0 : 1;
}

static keel_context *open_host(const host *h, const char *plugin) {
  keel_context *context = NULL;
  keel_context_params params = OPENS(KEEL_ONLY_NAMED, &plugin, 1);
  expect_ok(h->open(&params, &context));
  return context;
}

static keel_status add(const host *h, keel_context *context, const char *device,
                       bool fitting) {
  const float a[] = {1, -2, 3};
  const int64_t three = 3, two = 2;
  float y[3] = {0};
  keel_tensor *in[2] = {0}, *out = NULL;
  keel_op *op = NULL;
  keel_device *where = NULL;
  keel_status status = h->device(context, device, &where);
  if (status == KD_OK) status = h->prepare(context, "Add", NULL, 0, where, &op);
  if (status == KD_OK)
    status = h->create(context, KD_F32, 1, &three, a, &in[0]);
  if (status == KD_OK)
    status = h->create(context, KD_F32, 1, fitting ? &three : &two, a, &in[1]);
  if (status == KD_OK) status = h->call(op, in, 2, &out, 1);
  if (status == KD_OK) status = h->read(out, y, sizeof y);
  h->release(in[0]);
  h->release(in[1]);
  h->release(out);
  h->release_op(op);
  if (status == KD_OK && (y[0] != 2 || y[1] != -4 || y[2] != 6))
    status = KD_DATA_LOSS;
  return status;
}

/* Both work; one ends, the other works on; and the other way round, twice. */
static void end_in_turn(const char *plugin, const char *device) {
  for (int round = 0; round < 4; round++) {
    const host *first = round & 1 ? &other : &own;
    const host *second = round & 1 ? &own : &other;
    keel_context *a = open_host(first, plugin);
    keel_context *b = open_host(second, plugin);
    expect_ok(add(first, a, device, true));
    expect_ok(add(second, b, device, true));
    if (round & 2) {
      first->close(a);
      expect_ok(add(second, b, device, true));
      a = open_host(first, plugin);
    }
    second->close(b);
    expect_ok(add(first, a, device, true));
    first->close(a);
  }
}

/* Keeps an instance for each host; is one for all; has streams and threads. */
TEST_THAT(two_libkeels_share_plugins) {
  end_in_turn(MINIMAL_PLUGIN, "minimal:0");
  end_in_turn(CPU_PLUGIN, "cpu:0");
  end_in_turn(TOY("queue"), "queue:0");
}

/* Each host has its own words, and gets none of the other's. */
TEST_THAT(messages_go_to_their_host) {
  keel_context *a = open_host(&own, CPU_PLUGIN);
  keel_context *b = open_host(&other, CPU_PLUGIN);
  assert_int_equal(add(&other, b, "cpu:0", false), KD_INVALID_ARGUMENT);
  assert_non_null(strstr(other.message(), "Add"));
  assert_null(strstr(own.message(), "Add"));
  assert_int_equal(add(&own, a, "nothing:7", true), KD_NOT_FOUND);
  assert_non_null(strstr(own.message(), "nothing:7"));
  assert_null(strstr(other.message(), "nothing:7"));
  other.close(b);
  own.close(a);
}

TEST_THAT(contexts_share_a_plugin) {
  static const char *const plugins[] = {MINIMAL_PLUGIN, CPU_PLUGIN,
                                        TOY("queue")};
  static const char *const devices[] = {"minimal:0", "cpu:0", "queue:0"};
  for (int i = 0; i < 3; i++) {
    keel_context *a = open_host(&own, plugins[i]);
    keel_context *b = open_host(&own, plugins[i]);
    expect_ok(add(&own, a, devices[i], true));
    expect_ok(add(&own, b, devices[i], true));
    own.close(a);
    expect_ok(add(&own, b, devices[i], true));
    own.close(b);
  }
}

typedef struct worker {
  const host *host;
  const char *plugin, *device;
  atomic_bool stop;
  atomic_int failures, runs;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  keel_context *context = open_host(w->host, w->plugin);
  while (!atomic_load(&w->stop)) {
    if (add(w->host, context, w->device, true) != KD_OK)
      atomic_fetch_add(&w->failures, 1);
    atomic_fetch_add(&w->runs, 1);
  }
  w->host->close(context);
  return NULL;
}

/* One host opens and closes the plugin while another works with it. */
TEST_THAT(unload_while_the_other_works) {
  static const char *const plugins[] = {MINIMAL_PLUGIN, CPU_PLUGIN,
                                        TOY("queue")};
  static const char *const devices[] = {"minimal:0", "cpu:0", "queue:0"};
  for (int i = 0; i < 6; i++) {
    worker w = {.host = i < 3 ? &own : &other,
                .plugin = plugins[i % 3],
                .device = devices[i % 3]};
    const host *coming = i < 3 ? &other : &own;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, work, &w), 0);
    for (int round = 0; round < 10; round++) {
      keel_context *context = open_host(coming, w.plugin);
      expect_ok(add(coming, context, w.device, true));
      coming->close(context);
    }
    while (!atomic_load(&w.runs))
      sched_yield();
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&w.failures), 0);
  }
}

RUN_TESTS(load_other, NULL)
