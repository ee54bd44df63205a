/* inside_test.c - what a device does in its own memory: the host asks its plugin to fill
 * there, and does without where it can't. On the queue, and on OpenCL and Vulkan
 * where there is a device. */
#include <stdatomic.h>

#include "context.h"
#include "layers/layers.h"
#include "testing.h"

static keel_context *context;
static keel_device *device;

/* ---- what is called --------------------------------------------------------------------- */

enum { COPIES, FILLS, IN, OUT, SLOTS };
static atomic_int calls[SLOTS];

static void count(void *unused, uint32_t level, const char *line) {
  static const char *const slots[SLOTS] = {
      "trace: memory.copy(", "trace: memory.fill(", "trace: memory.copy_in(",
      "trace: memory.copy_out("};
  (void)unused;
  (void)level;
  for (int i = 0; i < SLOTS; i++)
    if (strstr(line, slots[i])) calls[i]++;
}

static int called(int slot) {
  return atomic_exchange(&calls[slot], 0);
}

/* Opens the CPU and a plugin, under layers. Returns false where it has no device. */
static bool begin(const char *plugin, const char *layers) {
  const char *paths[] = {CPU_PLUGIN, plugin};
  const char *option = "cpu.regions=off";
  const keel_context_params params = {.struct_size = sizeof params,
                                      .flags = KEEL_ONLY_NAMED,
                                      .plugins = paths,
                                      .plugin_count = 2,
                                      .options = &option,
                                      .option_count = 1,
                                      .workers = KEEL_NO_WORKERS,
                                      .log = count};
  assert_int_equal(keel_layers_set(layers), KD_OK);
  assert_int_equal(keel_open(&params, &context), KD_OK);
  device = keel_device_at(context, 1);
  if (!device) {
    keel_close(context);
    return false;
  }
  assert_int_equal(keel_device_ready(device), KD_OK);
  for (int i = 0; i < SLOTS; i++)
    calls[i] = 0;
  return true;
}

static void end(void) {
  keel_close(context);
  assert_int_equal(keel_layers_set(""), KD_OK);
}

/* ---- tensors of one element ----------------------------------------------------------- */

static keel_tensor *filled(keel_device *where, kd_dtype dtype, int64_t elements,
                           const void *element) {
  keel_tensor *tensor = NULL;
  if (keel_tensor_fill(context, where, dtype, 1, &elements, element, &tensor) !=
      KD_OK)
    fail_msg("%s", keel_message());
  assert_ptr_equal(keel_tensor_device(tensor), where);
  return tensor;
}

static void expect_repeated(keel_tensor *tensor, const void *element,
                            size_t size) {
  static const char zeros[16];
  char got[4096];
  uint64_t bytes = keel_tensor_size(tensor);
  if (!element) element = zeros;
  assert_true(bytes <= sizeof got && bytes % size == 0);
  if (keel_tensor_read(tensor, got, bytes) != KD_OK)
    fail_msg("%s", keel_message());
  for (uint64_t at = 0; at < bytes; at += size)
    assert_memory_equal(got + at, element, size);
}

static void fill_all_sizes(keel_device *where) {
  static const struct {
    kd_dtype dtype;
    size_t size;
  } types[] = {
      {KD_U8, 1}, {KD_F16, 2}, {KD_F32, 4}, {KD_I64, 8}, {KD_C128, 16}};
  const char element[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (size_t i = 0; i < KEEL_COUNT_OF(types); i++)
    for (int zero = 0; zero < 2; zero++)
      for (int64_t elements = 0; elements < 100; elements += 33) {
        const void *given = zero ? NULL : element;
        keel_tensor *tensor = filled(where, types[i].dtype, elements, given);
        expect_repeated(tensor, given, types[i].size);
        keel_tensor_release(tensor);
      }
}

/* Elements of half a byte: two in each, and none in the last one's upper half. */
static void fill_halves(keel_device *where) {
  const uint8_t three = 3;
  uint8_t got[4] = {0};
  keel_tensor *even = filled(where, KD_U4, 8, &three),
              *odd = filled(where, KD_U4, 7, &three);
  assert_int_equal(keel_tensor_read(even, got, 4), KD_OK);
  assert_memory_equal(got, "\x33\x33\x33\x33", 4);
  assert_int_equal(keel_tensor_read(odd, got, 4), KD_OK);
  assert_memory_equal(got, "\x33\x33\x33\x03", 4);
  keel_tensor_release(even);
  keel_tensor_release(odd);
}

static void expect_fills(const char *plugin) {
  if (!begin(plugin, "trace")) skip();
  fill_all_sizes(device);
  assert_int_equal(called(FILLS), 5 * 2 * 3); /* none for no elements */
  assert_int_equal(called(IN), 0);
  fill_halves(device);
  assert_int_equal(called(FILLS), 1);
  fill_all_sizes(NULL);
  fill_halves(NULL);
  fill_all_sizes(keel_device_at(context, 0));
  end();
}

static void the_queue_fills(void **state) {
  (void)state;
  expect_fills(QUEUE_PLUGIN);
}

static void opencl_fills(void **state) {
  (void)state;
  expect_fills(OPENCL_PLUGIN);
}

static void vulkan_fills(void **state) {
  (void)state;
  expect_fills(VULKAN_PLUGIN);
}

static void without_the_slot_they_are_copied_in(void **state) {
  (void)state;
  assert_true(begin(ECHO_PLUGIN, "trace"));
  fill_all_sizes(device);
  fill_halves(device);
  assert_int_equal(called(FILLS), 0);
  assert_int_equal(called(IN), 5 * 2 * 3 + 2);
  end();
}

static void no_such_tensor_is_filled(void **state) {
  const int64_t negative = -2, open[] = {1, -1};
  keel_tensor *tensor = NULL;
  (void)state;
  assert_true(begin(QUEUE_PLUGIN, ""));
  assert_int_equal(
      keel_tensor_fill(context, device, KD_F32, 1, &negative, NULL, &tensor),
      KD_INVALID_ARGUMENT);
  assert_int_equal(
      keel_tensor_fill(context, device, KD_F32, 2, open, NULL, &tensor),
      KD_INVALID_ARGUMENT);
  assert_int_not_equal(
      keel_tensor_fill(context, device, 77, 0, NULL, NULL, &tensor), KD_OK);
  assert_null(tensor);
  end();
}

/* The device reads late: what it still reads is filled in its order. */
static void memory_is_filled_behind_the_work_on_it(void **state) {
  const float seven = 7, data[4] = {1, 2, 3, 4};
  (void)state;
  assert_true(begin(QUEUE_PLUGIN, ""));
  for (int i = 0; i < 50; i++) {
    keel_tensor *here = floats(context, 4, data), *x = NULL, *y = NULL;
    assert_int_equal(keel_tensor_to(here, device, &x), KD_OK);
    keel_tensor_release(here);
    assert_int_equal(keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1), KD_OK);
    keel_tensor_release(x);
    x = filled(device, KD_F32, 4, &seven); /* in the memory that x had */
    expect_floats(y, data, 4);
    expect_repeated(x, &seven, sizeof seven);
    keel_tensor_release(x);
    keel_tensor_release(y);
  }
  end();
}

static void a_fill_that_fails_says_why(void **state) {
  const int64_t four = 4;
  keel_tensor *tensor = NULL;
  (void)state;
  assert_true(begin(QUEUE_PLUGIN, "fault:memory.fill=1:INTERNAL"));
  assert_int_equal(
      keel_tensor_fill(context, device, KD_F32, 1, &four, NULL, &tensor),
      KD_INTERNAL);
  expect_message("memory.fill");
  assert_null(tensor);
  tensor = filled(device, KD_F32, 4, NULL);
  expect_repeated(tensor, NULL, 4);
  keel_tensor_release(tensor);
  end();
}

static void a_fill_without_room_is_repeated(void **state) {
  (void)state;
  assert_true(begin(QUEUE_PLUGIN, "trace,fault:memory.fill=1:BUSY"));
  keel_tensor *tensor = filled(device, KD_F32, 4, NULL);
  assert_int_equal(keel_layers_faults(), 1);
  assert_int_equal(called(IN), 0);
  expect_repeated(tensor, NULL, 4);
  keel_tensor_release(tensor);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_queue_fills),
      cmocka_unit_test(opencl_fills),
      cmocka_unit_test(vulkan_fills),
      cmocka_unit_test(without_the_slot_they_are_copied_in),
      cmocka_unit_test(no_such_tensor_is_filled),
      cmocka_unit_test(memory_is_filled_behind_the_work_on_it),
      cmocka_unit_test(a_fill_that_fails_says_why),
      cmocka_unit_test(a_fill_without_room_is_repeated),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
