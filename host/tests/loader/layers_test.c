/* layers_test.c - the validation layer finds misuse of the ABI. */
#include "testing.h"
#include "toy/toy.h"

#include "device/device.h"
#include "layers/layer.h"
#include "layers/layers.h"

#include <pthread.h>
#include <semaphore.h>

static char last_line[1000];
static char traced[4000];

static void take_line(void *context, uint32_t level, const char *line) {
  (void)context;
  const char *at = strstr(line, "trace: ");
  if (at)
    snprintf(traced + strlen(traced), sizeof traced - strlen(traced), "%s\n",
             at + 7);
  if (level == KD_LOG_ERROR && strstr(line, "validation:"))
    snprintf(last_line, sizeof last_line, "%s", line);
}

static keel_context *open_layered(const char *layers, const char *plugin) {
  keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, &plugin, 1, .workers = KEEL_NO_WORKERS,
            .log = take_line);
  expect_ok(keel_layers_set(layers));
  keel_context *context = open_params(&params);
  return context;
}

/* ---- validation ------------------------------------------------------------------- */

typedef struct opened {
  keel_context *context;
  keel_plugin *plugin;
  kd_device *device;
  kd_buffer *buffer;
} opened;

static kd_status allocate(opened *o, uint64_t size, void **out_address) {
  const kd_allocation wanted = {.struct_size = sizeof wanted, .size = size};
  return o->plugin->memory.allocate(o->device, &wanted, &o->buffer,
                                    out_address);
}

static opened open_buffer(void) {
  opened o = {.context = open_layered("validation", MINIMAL_PLUGIN)};
  void *address = NULL;
  keel_device *device = keel_device_at(o.context, 0);
  assert_non_null(device);
  expect_ok(keel_device_ready(device));
  o.plugin = device->plugin;
  o.device = device->handle;
  expect_ok(allocate(&o, 100, &address));
  return o;
}

TEST_THAT(a_copy_that_leaves_its_buffer_is_refused) {
  char bytes[200] = {0};
  opened o = open_buffer();
  uint32_t before = keel_layers_errors();

  kd_status status =
      o.plugin->memory.copy_in(o.device, NULL, bytes, o.buffer, 50, 51);

  assert_int_equal(status, KD_INVALID_ARGUMENT);
  assert_int_equal(keel_layers_errors(), before + 1);
  assert_non_null(strstr(last_line, "51 bytes from 50 leave a buffer of 100"));
  o.plugin->memory.release(o.device, o.buffer);
  keel_close(o.context);
}

TEST_THAT(a_buffer_that_was_released_is_refused) {
  char bytes[10] = {0};
  opened o = open_buffer();
  o.plugin->memory.release(o.device, o.buffer);
  uint32_t before = keel_layers_errors();

  kd_status status =
      o.plugin->memory.copy_out(o.device, NULL, o.buffer, 0, bytes, 10);
  o.plugin->memory.release(o.device, o.buffer);

  assert_int_equal(status, KD_INVALID_ARGUMENT);
  assert_int_equal(keel_layers_errors(), before + 2);
  keel_close(o.context);
}

TEST_THAT(a_stream_that_never_was_is_refused) {
  char bytes[10] = {0};
  opened o = open_buffer();

  kd_status status = o.plugin->memory.copy_in(
      o.device, (kd_stream *)(uintptr_t)0xaaa0, bytes, o.buffer, 0, 10);

  assert_int_equal(status, KD_INVALID_ARGUMENT);
  assert_non_null(strstr(last_line, "no such stream"));
  o.plugin->memory.release(o.device, o.buffer);
  keel_close(o.context);
}

TEST_THAT(what_is_left_at_close_is_reported) {
  opened o = open_buffer();
  kd_buffer *left = o.buffer;
  uint32_t before = keel_layers_errors();

  keel_close(o.context);

  assert_int_equal(keel_layers_errors(), before + 1);
  assert_non_null(strstr(last_line, "is left at close"));
  free(left); /* the minimal plugin's buffers are the host's blocks */
}

TEST_THAT(any_number_of_contexts_and_devices_has_its_layer) {
  enum { CONTEXTS = 20 };
  opened all[CONTEXTS];
  for (int i = 0; i < CONTEXTS; i++)
    all[i] = open_buffer();
  uint32_t before = keel_layers_errors();
  for (int i = 0; i < CONTEXTS; i++)
    keel_close(all[i].context);
  assert_int_equal(keel_layers_errors(), before + CONTEXTS); /* left, each */
  for (int i = 0; i < CONTEXTS; i++)
    free(all[i].buffer);
  keel_context *context = open_layered("validation", TOY("many"));
  for (uint32_t i = 0; i < keel_device_count(context); i++) {
    keel_device *device = keel_device_at(context, i);
    expect_ok(keel_device_ready(device));
    assert_non_null(keel_layer_of(device->handle));
  }
  keel_close(context);
}

/* ---- a plugin that errs ------------------------------------------------------------- */

static struct {
  sem_t inside, go_on;
  keel_plugin plugin;
} mock;

static kd_status mock_allocate(kd_device *device, const kd_allocation *wanted,
                               kd_buffer **out_buffer, void **out_address) {
  uint64_t size = wanted->size;
  (void)device;
  *out_address = NULL;
  *out_buffer = size == 7 ? NULL : (kd_buffer *)(uintptr_t)0x2000;
  return size == 13 ? (kd_status)77 : KD_OK;
}

static void mock_release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  (void)buffer;
}

static kd_status mock_stream_create(kd_device *device, int32_t priority,
                                    uint32_t flags, kd_stream **out_stream) {
  (void)device;
  (void)priority;
  (void)flags;
  *out_stream = (kd_stream *)(uintptr_t)0x3000;
  return KD_OK;
}

static void mock_stream_destroy(kd_stream *stream) {
  (void)stream;
}

static kd_status mock_event_create(kd_device *device, uint32_t flags,
                                   kd_event **out_event) {
  (void)device, (void)flags;
  *out_event = NULL;
  return KD_OK;
}

static kd_status mock_wait(kd_stream *stream, kd_event *event) {
  return stream && event ? KD_OK : KD_INTERNAL;
}

static kd_status mock_synchronize(kd_stream *stream) {
  (void)stream;
  sem_post(&mock.inside);
  sem_wait(&mock.go_on);
  return KD_OK;
}

static opened open_mock(void) {
  opened o = {.context = open_layered("validation", MINIMAL_PLUGIN)};
  memset(&mock, 0, sizeof mock);
  sem_init(&mock.inside, 0, 0);
  sem_init(&mock.go_on, 0, 0);
  o.plugin = &mock.plugin;
  o.plugin->context = o.context;
  o.plugin->path = "mock.so";
  o.plugin->memory.allocate = mock_allocate;
  o.plugin->memory.release = mock_release;
  o.plugin->streams.create = mock_stream_create;
  o.plugin->streams.destroy = mock_stream_destroy;
  o.plugin->streams.synchronize = mock_synchronize;
  o.plugin->streams.wait = mock_wait;
  o.plugin->events.create = mock_event_create;
  expect_ok(keel_layers_wrap(o.plugin));
  o.device = (kd_device *)(uintptr_t)0x1000;
  keel_layers_opened(o.plugin, 0, o.device);
  return o;
}

static void close_mock(opened o) {
  keel_layers_closed(o.plugin);
  keel_close(o.context);
  sem_destroy(&mock.inside);
  sem_destroy(&mock.go_on);
}

TEST_THAT(garbage_from_a_plugin_is_reported) {
  void *address = NULL;
  opened o = open_mock();
  uint32_t before = keel_layers_errors();

  allocate(&o, 13, &address);
  assert_int_equal(keel_layers_errors(), before + 1);
  assert_non_null(strstr(last_line, "returned 77, which is not a status"));

  allocate(&o, 7, &address);
  assert_int_equal(keel_layers_errors(), before + 2);
  assert_non_null(strstr(last_line, "KD_OK and no buffer"));

  allocate(&o, 8, &address);
  kd_buffer *first = o.buffer;
  allocate(&o, 8, &address);
  assert_int_equal(keel_layers_errors(), before + 3);
  assert_non_null(strstr(last_line, "a buffer that is in use"));
  o.plugin->memory.release(o.device, first);
  o.plugin->memory.release(o.device, first); /* it was given twice */
  close_mock(o);
}

typedef struct waiting {
  keel_plugin *plugin;
  kd_stream *stream;
} waiting;

static void *wait_there(void *context) {
  waiting *w = context;
  w->plugin->streams.synchronize(w->stream);
  return NULL;
}

TEST_THAT(two_threads_on_a_stream_are_reported) {
  pthread_t first, second;
  opened o = open_mock();
  waiting w = {.plugin = o.plugin};
  uint32_t before = keel_layers_errors();
  expect_ok(o.plugin->streams.create(o.device, 0, 0, &w.stream));

  assert_int_equal(pthread_create(&first, NULL, wait_there, &w), 0);
  sem_wait(&mock.inside);
  assert_int_equal(pthread_create(&second, NULL, wait_there, &w), 0);
  sem_wait(&mock.inside); /* both are in it */
  assert_int_equal(keel_layers_errors(), before + 1);
  assert_non_null(strstr(last_line, "another thread is in a call"));

  sem_post(&mock.go_on);
  sem_post(&mock.go_on);
  pthread_join(first, NULL);
  pthread_join(second, NULL);
  o.plugin->streams.destroy(w.stream);
  close_mock(o);
}

static void run_eagerly(keel_context *context) {
  const float data[3] = {-1, 0, 2}, want[3] = {0, 0, 2};
  keel_tensor *x = floats(context, 3, data), *y = NULL;
  keel_device_push(keel_device_at(context, 0));
  expect_ok(keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1));
  keel_device_pop();
  expect_floats(y, want, 3);
  RELEASE(x, y);
}

TEST_THAT(a_sound_run_has_nothing_to_report) {
  uint32_t before = keel_layers_errors();

  for (int i = 0; i < 2; i++) {
    keel_context *context =
        open_layered("validation", i ? TOY("queue") : MINIMAL_PLUGIN);
    run_eagerly(context);
    keel_close(context);
  }

  assert_int_equal(keel_layers_errors(), before);
}

/* Call, what it is about, status, time. */
TEST_THAT(trace_has_each_call) {
  traced[0] = 0; /* whatever KEEL_LOG is: ctest sets it to error */
  keel_context *context = open_layered("trace", TOY("queue"));

  run_eagerly(context);
  keel_close(context);

  const char *open = strstr(traced, "plugin.open OK ");
  const char *device = strstr(traced, "plugin.device_open OK ");
  const char *copy = strstr(traced, "memory.copy_in(12 bytes at 0) OK ");
  const char *launch = strstr(traced, "kernel.enqueue(Relu) OK ");
  assert_non_null(copy);
  assert_non_null(launch);
  assert_true(open && device && open < device && device < copy);
  assert_true(copy < launch);
  assert_non_null(strstr(copy, " us\n"));
}

TEST_THAT(a_stream_destroyed_twice_is_reported) {
  opened o = open_mock();
  kd_stream *stream = NULL;
  expect_ok(o.plugin->streams.create(o.device, 0, 0, &stream));
  uint32_t before = keel_layers_errors();

  o.plugin->streams.destroy(stream);
  o.plugin->streams.destroy(stream);

  assert_int_equal(keel_layers_errors(), before + 1);
  assert_non_null(strstr(last_line, "stream.destroy: there is no such stream"));
  close_mock(o);
}

/* What is not the plugin's, in any argument, is not passed on. */
TEST_THAT(handles_of_nobody_are_refused) {
  opened o = open_mock();
  kd_stream *stream = NULL;
  kd_event *event = NULL, *stray = (kd_event *)(uintptr_t)0x4000;
  uint32_t before = keel_layers_errors();

  expect_ok(o.plugin->streams.create(o.device, 0, 0, &stream));
  expect_fails(o.plugin->streams.wait(stream, stray), KD_INVALID_ARGUMENT,
               "stream.wait: no such event");
  expect_ok(o.plugin->events.create(o.device, 0, &event));
  assert_int_equal(keel_layers_errors(), before + 1);
  assert_non_null(
      strstr(last_line, "event.create returned KD_OK and no event"));
  o.plugin->streams.destroy(stream);
  expect_fails(o.plugin->streams.synchronize(stream), KD_INVALID_ARGUMENT,
               "stream.synchronize: no such stream");
  close_mock(o);
}

TEST_THAT(a_layer_that_is_not_there_is_an_error) {
  assert_int_equal(keel_layers_set("validaton"), KD_INVALID_ARGUMENT);
  assert_non_null(strstr(keel_message(), "there is no layer \"validaton\""));
  expect_ok(keel_layers_set(""));
}

static void expect_wrong(const char *layers, const char *part) {
  assert_int_equal(keel_layers_set(layers), KD_INVALID_ARGUMENT);
  if (!strstr(keel_message(), part))
    fail_msg("\"%s\": \"%s\" has no \"%s\"", layers, keel_message(), part);
}

TEST_THAT(a_fault_that_can_not_strike_is_an_error) {
  expect_wrong("fault:memory.alocate=1", "did you mean memory.allocate?");
  expect_wrong("fault:memory.allocate=0", "no number from 1");
  expect_wrong("fault:memory.allocate=-1", "no number from 1");
  expect_wrong("fault:memory.allocate=", "no number from 1");
  expect_wrong("fault:memory.allocate=3x", "no number from 1");
  expect_wrong("fault:memory.allocate=1:SORRY", "a status");
  expect_wrong("fault:memory.allocate", "does not have the form");
  expect_wrong("fault:", "does not have the form");
  /* without a status of its own, it can't fail */
  expect_wrong("fault:memory.release=1", "\"memory.release\"");
  expect_wrong("fault:flux=1:BUSY", "memory.allocate, ");
  for (uint32_t i = 0; keel_layers_slot(i); i++) {
    expect_wrong("fault:flux=1:BUSY", keel_layers_slot(i));
    char layers[100];
    snprintf(layers, sizeof layers, "trace,fault:%s=7:BUSY,validation",
             keel_layers_slot(i));
    expect_ok(keel_layers_set(layers));
  }
  expect_ok(keel_layers_set(""));
}

RUN_TESTS(NULL, NULL)
