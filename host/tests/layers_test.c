/* layers_test.c - validation finds misuse, and a failure of any slot, at any of
 * its calls, ends in a clean error without a leak. */
#include "testing.h"

#include "context.h"
#include "layers/layers.h"

static char last_line[1000];

static void take_line(void *context, uint32_t level, const char *line) {
  (void)context;
  if (level == KD_LOG_ERROR && strstr(line, "validation:"))
    snprintf(last_line, sizeof last_line, "%s", line);
}

static keel_context *open_layered(const char *layers, const char *plugin) {
  keel_context *context = NULL;
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .plugins = &plugin,
                                .plugin_count = 1,
                                .workers = KEEL_NO_WORKERS,
                                .log = take_line};
  assert_int_equal(keel_layers_set(layers), KD_OK);
  assert_int_equal(keel_open(&params, &context), KD_OK);
  return context;
}

/* ---- validation ------------------------------------------------------------------- */

typedef struct opened {
  keel_context *context;
  keel_plugin *plugin;
  kd_device *device;
  kd_buffer *buffer;
} opened;

static opened open_buffer(void) {
  opened o = {.context = open_layered("validation", MINIMAL_PLUGIN)};
  void *address = NULL;
  keel_device *device = keel_device_at(o.context, 0);
  assert_non_null(device);
  assert_int_equal(keel_device_ready(device), KD_OK);
  o.plugin = device->plugin;
  o.device = device->handle;
  assert_int_equal(
      o.plugin->memory.allocate(o.device, 0, 100, &o.buffer, &address), KD_OK);
  return o;
}

static void a_copy_that_leaves_its_buffer_is_refused(void **state) {
  (void)state;
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

static void a_buffer_that_was_released_is_refused(void **state) {
  (void)state;
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

static void a_stream_that_never_was_is_refused(void **state) {
  (void)state;
  char bytes[10] = {0};
  opened o = open_buffer();

  kd_status status = o.plugin->memory.copy_in(
      o.device, (kd_stream *)(uintptr_t)0xaaa0, bytes, o.buffer, 0, 10);

  assert_int_equal(status, KD_INVALID_ARGUMENT);
  assert_non_null(strstr(last_line, "no such stream"));
  o.plugin->memory.release(o.device, o.buffer);
  keel_close(o.context);
}

static void what_is_left_at_close_is_reported(void **state) {
  (void)state;
  opened o = open_buffer();
  kd_buffer *left = o.buffer;
  uint32_t before = keel_layers_errors();

  keel_close(o.context);

  assert_int_equal(keel_layers_errors(), before + 1);
  assert_non_null(strstr(last_line, "is left at close"));
  free(left); /* the minimal plugin's buffers are the host's blocks */
}

static bool run_model(keel_context *context) {
  int64_t dims[2] = {4, 4};
  float data[16], back[16];
  for (int i = 0; i < 16; i++)
    data[i] = (float)i - 8;
  keel_tensor *x = NULL, *y = NULL, *z = NULL;
  bool good = keel_tensor_create(context, KD_F32, 2, dims, data, &x) == KD_OK;
  keel_device *device = keel_device_at(context, 0);
  if (device) keel_device_push(device);
  good = good && device &&
         keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1) == KD_OK;
  keel_tensor *both[2] = {x, y};
  good = good && keel_call(context, "Add", NULL, 0, both, 2, &z, 1) == KD_OK &&
         keel_tensor_read(z, back, sizeof back) == KD_OK;
  if (device) keel_device_pop();
  for (int i = 0; good && i < 16; i++)
    good = back[i] == data[i] + (data[i] > 0 ? data[i] : 0);
  keel_tensor_release(x);
  keel_tensor_release(y);
  keel_tensor_release(z);
  return good;
}

static void a_sound_run_has_nothing_to_report(void **state) {
  (void)state;
  uint32_t before = keel_layers_errors();

  for (int i = 0; i < 2; i++) {
    keel_context *context =
        open_layered("validation", i ? QUEUE_PLUGIN : MINIMAL_PLUGIN);
    assert_true(run_model(context));
    keel_close(context);
  }

  assert_int_equal(keel_layers_errors(), before);
}

static void a_layer_that_is_not_there_is_an_error(void **state) {
  (void)state;
  assert_int_equal(keel_layers_set("validaton"), KD_INVALID_ARGUMENT);
  assert_non_null(strstr(keel_message(), "there is no layer \"validaton\""));
  assert_int_equal(keel_layers_set("fault:x=0"), KD_INVALID_ARGUMENT);
  assert_int_equal(keel_layers_set("fault:x=1:SORRY"), KD_INVALID_ARGUMENT);
  assert_int_equal(keel_layers_set(""), KD_OK);
}

/* ---- faults at every slot -------------------------------------------------------------- */

/* The n-th call of the slot fails, for n = 1 until it is not called so often. */
static void fail_each_call(const char *slot, const char *plugin) {
  for (uint32_t n = 1; n < 200; n++) {
    char layers[100];
    snprintf(layers, sizeof layers, "fault:%s=%u:UNAVAILABLE", slot, n);
    keel_context *context = open_layered(layers, plugin);
    bool good = run_model(context);
    bool struck = keel_layers_faults() > 0;
    keel_close(context);
    if (!struck) {
      assert_true(good);
      assert_true(n > 1 || !strcmp(plugin, MINIMAL_PLUGIN) ||
                  !strcmp(plugin, CPU_PLUGIN) || strcmp(slot, "stream.create"));
      return;
    }
  }
  fail_msg("%s is called without end", slot);
}

static void a_failure_at_any_slot_ends_cleanly(void **state) {
  static const char *const slots[] = {
      "plugin.open",     "plugin.device_info", "plugin.device_open",
      "memory.allocate", "memory.copy_in",     "memory.copy_out",
      "memory.copy",     "memory.fill",        "stream.create",
      "stream.wait",     "stream.synchronize", "event.create",
      "event.record",    "event.wait",         "kernel.create",
      "kernel.enqueue",  "host.allocate"};
  static const char *const plugins[] = {CPU_PLUGIN, MINIMAL_PLUGIN,
                                        QUEUE_PLUGIN};
  (void)state;
  for (size_t p = 0; p < KEEL_COUNT_OF(plugins); p++)
    for (size_t s = 0; s < KEEL_COUNT_OF(slots); s++)
      fail_each_call(slots[s], plugins[p]);
  assert_int_equal(keel_layers_set(""), KD_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_copy_that_leaves_its_buffer_is_refused),
      cmocka_unit_test(a_buffer_that_was_released_is_refused),
      cmocka_unit_test(a_stream_that_never_was_is_refused),
      cmocka_unit_test(what_is_left_at_close_is_reported),
      cmocka_unit_test(a_sound_run_has_nothing_to_report),
      cmocka_unit_test(a_layer_that_is_not_there_is_an_error),
      cmocka_unit_test(a_failure_at_any_slot_ends_cleanly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
