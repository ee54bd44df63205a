/* nested_test.c - a plugin that calls libkeel's functions while it is loaded, opened, asked and
 * closed: it is told, and nothing waits for itself. */
#include <kd/kd.h>
#include <pthread.h>

#undef KD_ENTRY
#define KD_ENTRY(plugin)
#include "minimal.c" /* NOLINT(bugprone-suspicious-include): the whole of it */
#include "testing.h"

enum { ENTRY, OPEN, COUNT, INFO, DEVICE, CLOSE, KERNEL, PLACES };

static struct {
  int place;      /* where it calls */
  bool in_thread; /* a thread calls, which the plugin does not wait for */
  int calls;
  keel_status status;
  char text[512];
  keel_context *other; /* to be closed there, or NULL */
  pthread_t thread;
} nested;

static void *open_another(void *unused) {
  keel_context *context = NULL;
  (void)unused;
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .workers = KEEL_NO_WORKERS};
  nested.status = keel_open(&params, &context);
  if (nested.status != KD_OK)
    snprintf(nested.text, sizeof nested.text, "%s", keel_message());
  keel_close(context);
  return NULL;
}

static void call_at(int place) {
  if (place != nested.place || nested.calls++) return;
  if (nested.other)
    keel_close(nested.other);
  else if (nested.in_thread)
    pthread_create(&nested.thread, NULL, open_another, NULL);
  else
    open_another(NULL);
}

static kd_status nested_open(const kd_host *host, kd_instance **out_instance) {
  call_at(OPEN);
  return open_driver(host, out_instance);
}

static uint32_t nested_count(kd_instance *instance) {
  call_at(COUNT);
  return device_count(instance);
}

static kd_status nested_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  call_at(INFO);
  return device_info(instance, index, out_info);
}

static kd_status nested_device(kd_instance *instance, uint32_t index,
                               kd_device **out_device) {
  call_at(DEVICE);
  return device_open(instance, index, out_device);
}

static void nested_close(kd_instance *instance) {
  call_at(CLOSE);
  close_driver(instance);
}

static kd_status nested_relu(kd_kernel *self, kd_stream *stream,
                             const kd_launch *launch) {
  call_at(KERNEL);
  return relu(self, stream, launch);
}

static const kd_plugin *nested_entry(const kd_host *host) {
  static const kd_kernel_def own_kernels[] = {
      {ON_F32, .op = "Relu", .enqueue = nested_relu}};
  static kd_plugin plugin;
  (void)host;
  call_at(ENTRY);
  plugin = minimal_plugin;
  plugin.open = nested_open;
  plugin.device_count = nested_count;
  plugin.device_info = nested_info;
  plugin.device_open = nested_device;
  plugin.close = nested_close;
  plugin.kernels = own_kernels;
  plugin.kernel_count = 1;
  return &plugin;
}

static char logged[1024];

static void note(void *unused, uint32_t level, const char *line) {
  (void)unused;
  if (level == KD_LOG_ERROR) snprintf(logged, sizeof logged, "%s", line);
}

/* Opens the plugin, runs an op on it, and closes it. */
static void use(void) {
  const kd_entry entries[] = {nested_entry};
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .workers = KEEL_NO_WORKERS,
                                .entries = entries,
                                .entry_count = 1};
  keel_context *context = open_params(&params);
  keel_tensor *x = equal_floats(context, 4, -1),
              *y = call_op(context, "Relu", NULL, 0, &x, 1);
  expect_equal_floats(y, 0, 4);
  release_all((keel_tensor *[]){x, y}, 2);
  keel_close(context);
}

TEST_THAT(keel_open_is_refused_where_it_would_hang) {
  static const char *const places[] = {
      "entry", "open", "device_count", "device_info", "device_open", "close"};
  for (int place = ENTRY; place <= CLOSE; place++) {
    char part[64];
    memset(&nested, 0, sizeof nested);
    nested.place = place;
    use();
    assert_int_equal(nested.calls, 1);
    assert_int_equal(nested.status, KD_FAILED_PRECONDITION);
    snprintf(part, sizeof part, "keel_open is called from %s of the plugin",
             places[place]);
    assert_non_null(strstr(nested.text, part));
  }
}

TEST_THAT(keel_open_is_allowed_where_nothing_waits) {
  memset(&nested, 0, sizeof nested);
  nested.place = KERNEL;
  use();
  assert_int_equal(nested.calls, 1);
  expect_ok(nested.status);
  for (int place = ENTRY; place <= CLOSE; place++) {
    memset(&nested, 0, sizeof nested);
    nested.place = place;
    nested.in_thread = true;
    use();
    assert_int_equal(pthread_join(nested.thread, NULL), 0);
    expect_ok(nested.status);
  }
}

TEST_THAT(keel_close_leaves_a_context_that_it_can_not_close) {
  for (int place = ENTRY; place <= CLOSE; place++) {
    keel_context_params params = {.struct_size = sizeof params,
                                  .flags = KEEL_ONLY_NAMED,
                                  .workers = KEEL_NO_WORKERS,
                                  .log = note};
    memset(&nested, 0, sizeof nested);
    *logged = 0;
    keel_context *other = open_params(&params);
    nested.place = place;
    nested.other = other;
    use();
    assert_non_null(strstr(logged, "keel_close is called from "));
    assert_non_null(strstr(logged, "left open"));
    keel_tensor *x = equal_floats(other, 4, 1); /* it is whole */
    expect_equal_floats(x, 1, 4);
    RELEASE(x, other);
  }
}

RUN_TESTS(NULL, NULL)
