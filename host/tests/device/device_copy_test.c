/* device_copy_test.c - what a device does in its own memory: the host asks its plugin to
 * copy and to fill there, and does without where it can't. On the queue, and on OpenCL
 * and Vulkan where there is a device. */
#include <stdatomic.h>

#include "device/device.h"
#include "layers/layers.h"
#include "one_context.h"
#include "toy/toy.h"

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
  expect_ok(keel_layers_set(layers));
  context = open_logged(CPU_PLUGIN, plugin, KEEL_NO_WORKERS, count);
  device = keel_device_at(context, 1);
  if (!device) {
    keel_close(context);
    return false;
  }
  expect_ok(keel_device_ready(device));
  for (int i = 0; i < SLOTS; i++)
    calls[i] = 0;
  return true;
}

static void end(void) {
  keel_close(context);
  expect_ok(keel_layers_set(""));
}

/* ---- tensors of one element ----------------------------------------------------------- */

static keel_tensor *filled(keel_device *where, kd_dtype dtype, int64_t elements,
                           const void *element) {
  keel_tensor *tensor = NULL;
  expect_ok(
      keel_tensor_fill(context, where, dtype, 1, &elements, element, &tensor));
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
  expect_ok(keel_tensor_read(tensor, got, bytes));
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
  expect_ok(keel_tensor_read(even, got, 4));
  assert_memory_equal(got, "\x33\x33\x33\x33", 4);
  expect_ok(keel_tensor_read(odd, got, 4));
  assert_memory_equal(got, "\x33\x33\x33\x03", 4);
  RELEASE(even, odd);
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

TEST_THAT(the_queue_fills) {
  expect_fills(TOY("queue"));
}

TEST_THAT(opencl_fills) {
  expect_fills(OPENCL_PLUGIN);
}

TEST_THAT(vulkan_fills) {
  expect_fills(VULKAN_PLUGIN);
}

TEST_THAT(without_the_slot_they_are_copied_in) {
  assert_true(begin(TOY("echo"), "trace"));
  fill_all_sizes(device);
  fill_halves(device);
  assert_int_equal(called(FILLS), 0);
  assert_int_equal(called(IN), 5 * 2 * 3 + 2);
  end();
}

TEST_THAT(no_such_tensor_is_filled) {
  const int64_t negative = -2, open[] = {1, -1};
  keel_tensor *tensor = NULL;
  assert_true(begin(TOY("queue"), ""));
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
TEST_THAT(memory_is_filled_behind_the_work_on_it) {
  const float seven = 7, data[4] = {1, 2, 3, 4};
  assert_true(begin(TOY("queue"), ""));
  for (int i = 0; i < 50; i++) {
    keel_tensor *here = floats(context, 4, data), *x = NULL, *y = NULL;
    expect_ok(keel_tensor_to(here, device, &x));
    keel_tensor_release(here);
    expect_ok(keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1));
    keel_tensor_release(x);
    x = filled(device, KD_F32, 4, &seven); /* in the memory that x had */
    expect_floats(y, data, 4);
    expect_repeated(x, &seven, sizeof seven);
    RELEASE(x, y);
  }
  end();
}

TEST_THAT(a_fill_that_fails_says_why) {
  keel_tensor *tensor = NULL;
  assert_true(begin(TOY("queue"), "fault:memory.fill=1:INTERNAL"));
  expect_fails(
      keel_tensor_fill(context, device, KD_F32, DIMS(4), NULL, &tensor),
      KD_INTERNAL, "memory.fill");
  assert_null(tensor);
  tensor = filled(device, KD_F32, 4, NULL);
  expect_repeated(tensor, NULL, 4);
  keel_tensor_release(tensor);
  end();
}

TEST_THAT(a_fill_without_room_is_repeated) {
  assert_true(begin(TOY("queue"), "trace,fault:memory.fill=1:BUSY"));
  keel_tensor *tensor = filled(device, KD_F32, 4, NULL);
  assert_int_equal(keel_layers_faults(), 1);
  assert_int_equal(called(IN), 0);
  expect_repeated(tensor, NULL, 4);
  keel_tensor_release(tensor);
  end();
}

/* ---- parts ----------------------------------------------------------------------------- */

enum { ROUNDS = 5, WIDE = 3 };

/* Running sums of the rows of x: the last one, and all of them. The other output is that
 * of `rounds` rounds, each with the sum of what it got. */
static const char sums[] =
    "\"keel.program\"() ({\n"
    "  ^bb0(%s: tensor<3xf32>, %x: tensor<5x3xf32>, %m: tensor<i64>,"
    " %yes: tensor<i1>):\n"
    "    %a, %b, %r = \"onnx.Scan\"(%s, %x) ({\n"
    "    ^bb0(%v: tensor<3xf32>, %w: tensor<3xf32>):\n"
    "      %b0 = \"onnx.Add\"(%v, %w) : (tensor<3xf32>, tensor<3xf32>) ->"
    " tensor<3xf32>\n"
    "      %b1 = \"onnx.Relu\"(%w) : (tensor<3xf32>) -> tensor<3xf32>\n"
    "      \"keel.return\"(%b0, %b0, %b1) : (tensor<3xf32>, tensor<3xf32>,"
    " tensor<3xf32>) -> ()\n"
    "    }) {num_scan_inputs = 1 : i64, scan_output_directions = [0, 1],"
    " keel.graphs = [{attribute = \"body\", captures = 0 : i64}]} :"
    " (tensor<3xf32>, tensor<5x3xf32>) -> (tensor<3xf32>, tensor<5x3xf32>,"
    " tensor<5x3xf32>)\n"
    "    %c, %d = \"onnx.Loop\"(%m, %yes, %s) ({\n"
    "    ^bb0(%i: tensor<i64>, %k: tensor<i1>, %v: tensor<3xf32>):\n"
    "      %b0 = \"onnx.Add\"(%v, %v) : (tensor<3xf32>, tensor<3xf32>) ->"
    " tensor<3xf32>\n"
    "      \"keel.return\"(%k, %b0, %b0) : (tensor<i1>, tensor<3xf32>,"
    " tensor<3xf32>) -> ()\n"
    "    }) {keel.graphs = [{attribute = \"body\", captures = 0 : i64}]} :"
    " (tensor<i64>, tensor<i1>, tensor<3xf32>) -> (tensor<3xf32>,"
    " tensor<?x3xf32>)\n"
    "    \"keel.return\"(%b, %r, %d) : (tensor<5x3xf32>, tensor<5x3xf32>,"
    " tensor<?x3xf32>) -> ()\n"
    "}) : () -> ()\n";

static keel_plan *plan_of_sums(void) {
  keel_program *program = load_text(context, sums);
  keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = device));
  keel_program_release(program);
  return plan;
}

static keel_tensor *there(kd_dtype dtype, uint32_t rank, const int64_t *dims,
                          const void *data) {
  keel_tensor *here = create_tensor(context, dtype, rank, dims, data);
  keel_tensor *tensor = tensor_on(here, device);
  keel_tensor_release(here);
  return tensor;
}

static keel_status run_sums(keel_plan *plan, int64_t rounds,
                            keel_tensor **out) {
  const int64_t dims[] = {ROUNDS, WIDE};
  const uint8_t yes = 1;
  float s[WIDE] = {1, 2, 3}, x[ROUNDS * WIDE];
  for (int i = 0; i < ROUNDS * WIDE; i++)
    x[i] = (float)(i % 2 ? -i : i);
  keel_tensor *in[4] = {there(KD_F32, 1, dims + 1, s),
                        there(KD_F32, 2, dims, x), NULL, NULL};
  keel_tensor_create(context, KD_I64, 0, NULL, &rounds, &in[2]);
  keel_tensor_create(context, KD_BOOL, 0, NULL, &yes, &in[3]);
  called(COPIES);
  keel_status status = keel_plan_run(plan, in, 4, out, 3);
  release_all(in, 4);
  return status;
}

static void expect_sums(keel_tensor **out, int64_t rounds) {
  float b[ROUNDS * WIDE], r[ROUNDS * WIDE], d[64];
  for (int i = 0; i < ROUNDS * WIDE; i++) {
    float before = i < WIDE ? (float)(i + 1) : b[i - WIDE];
    b[i] = before + (float)(i % 2 ? -i : i);
    r[(ROUNDS - 1 - i / WIDE) * WIDE + i % WIDE] = (float)(i % 2 ? 0 : i);
  }
  for (int i = 0; i < rounds * WIDE; i++)
    d[i] = 2 * (i < WIDE ? (float)(i + 1) : d[i - WIDE]);
  expect_floats(out[0], b, ROUNDS * WIDE);
  expect_floats(out[1], r, ROUNDS * WIDE);
  expect_floats(out[2], d, (size_t)rounds * WIDE);
  release_all(out, 3);
}

/* Rows of a scan's input, and what rounds collect. */
static void expect_copies(const char *plugin) {
  keel_tensor *out[3];
  if (!begin(plugin, "trace")) skip();
  keel_plan *plan = plan_of_sums();
  for (int64_t rounds = 1; rounds < 8; rounds++) {
    if (run_sums(plan, rounds, out) != KD_OK) fail_msg("%s", keel_message());
    assert_int_equal(called(COPIES), ROUNDS + 2 * ROUNDS + rounds);
    expect_sums(out, rounds);
  }
  keel_plan_release(plan);
  end();
}

TEST_THAT(the_queue_copies_parts) {
  expect_copies(TOY("queue"));
}

TEST_THAT(opencl_copies_parts) {
  expect_copies(OPENCL_PLUGIN);
}

TEST_THAT(vulkan_copies_parts) {
  expect_copies(VULKAN_PLUGIN);
}

/* The echo has no copy; the CPU no memory that is out of reach. */
TEST_THAT(without_the_slot_kernels_make_parts) {
  keel_tensor *out[3];
  for (int cpu = 0; cpu < 2; cpu++) {
    assert_true(begin(TOY("echo"), "trace"));
    if (cpu) device = keel_device_at(context, 0);
    keel_plan *plan = plan_of_sums();
    if (run_sums(plan, 4, out) != KD_OK) fail_msg("%s", keel_message());
    assert_int_equal(called(COPIES), 0);
    expect_sums(out, 4);
    keel_plan_release(plan);
    end();
  }
}

/* Each of a run's copies fails once; the next run is good. */
TEST_THAT(a_copy_that_fails_says_why) {
  enum { ALL = 3 * ROUNDS + 2 };
  keel_tensor *out[3];
  for (int i = 1; i <= ALL; i++) {
    char layers[64];
    snprintf(layers, sizeof layers, "fault:memory.copy=%d:INTERNAL", i);
    assert_true(begin(TOY("queue"), layers));
    keel_plan *plan = plan_of_sums();
    expect_fails(run_sums(plan, 2, out), KD_INTERNAL, "memory.copy");
    expect_ok(run_sums(plan, 2, out));
    expect_sums(out, 2);
    keel_plan_release(plan);
    end();
  }
}

TEST_THAT(a_copy_without_room_is_repeated) {
  keel_tensor *out[3];
  for (int i = 1; i <= 3 * ROUNDS; i++) {
    char layers[64];
    snprintf(layers, sizeof layers, "fault:memory.copy=%d:BUSY", i);
    assert_true(begin(TOY("queue"), layers));
    keel_plan *plan = plan_of_sums();
    if (run_sums(plan, 2, out) != KD_OK) fail_msg("%s", keel_message());
    assert_int_equal(keel_layers_faults(), 1);
    expect_sums(out, 2);
    keel_plan_release(plan);
    end();
  }
}

/* ---- sequences --------------------------------------------------------------------------- */

static keel_tensor *one_of(const char *op, const keel_attr *attrs,
                           uint32_t count, keel_tensor **in, uint32_t inputs) {
  keel_tensor *out = NULL;
  if (keel_call(context, op, attrs, count, in, inputs, &out, 1) != KD_OK)
    fail_msg("%s: %s", op, keel_message());
  return out;
}

/* Parts of 3, 1 and 2 rows, and all of them together again; then rows on their own. */
static void split_and_join(bool copies) {
  const int64_t dims[] = {6, 2}, three = 3, sizes[] = {3, 1, 2};
  const float data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const keel_attr apart = KEEL_INT("keepdims", 0),
                  joined[] = {KEEL_INT("axis", 0), KEEL_INT("new_axis", 1)};
  keel_tensor *list = NULL, *item = NULL;
  keel_tensor *in[2] = {there(KD_F32, 2, dims, data), NULL};
  keel_tensor_create(context, KD_I64, 1, &three, sizes, &list);
  in[1] = list;
  keel_tensor *parts = one_of("SplitToSequence", NULL, 0, in, 2),
              *rows = one_of("SplitToSequence", &apart, 1, in, 1);
  assert_int_equal(keel_sequence_length(parts), 3);
  assert_int_equal(keel_sequence_length(rows), 6);
  expect_ok(keel_sequence_at(parts, 1, &item));
  if (copies) assert_ptr_equal(keel_tensor_device(item), device);
  expect_floats(item, data + 6, 2);
  keel_tensor_release(item);
  keel_tensor *whole = one_of("ConcatFromSequence", joined, 1, &parts, 1),
              *stack = one_of("ConcatFromSequence", joined, 2, &rows, 1);
  expect_floats(whole, data, 12);
  expect_floats(stack, data, 12);
  assert_int_equal(keel_tensor_rank(stack), 2);
  keel_tensor *all[] = {in[0], list, parts, rows, whole, stack};
  release_all(all, KEEL_COUNT_OF(all));
}

TEST_THAT(sequences_are_parts) {
  const char *const plugins[] = {TOY("queue"), OPENCL_PLUGIN, VULKAN_PLUGIN,
                                 TOY("echo")};
  for (size_t i = 0; i < KEEL_COUNT_OF(plugins); i++) {
    bool copies = i < 3;
    if (!begin(plugins[i], "trace")) continue;
    split_and_join(copies);
    assert_int_equal(called(COPIES), copies ? 2 * (3 + 6) : 0);
    end();
  }
}

/* What doesn't fit is still Split's and Concat's to refuse, or to do along another axis. */
TEST_THAT(other_parts_are_left_to_kernels) {
  const int64_t dims[] = {2, 2}, two = 2, wrong[] = {1, 2};
  const float data[] = {1, 2, 3, 4};
  const keel_attr second = KEEL_INT("axis", 1), first = KEEL_INT("axis", 0);
  keel_tensor *list = NULL, *out = NULL;
  assert_true(begin(TOY("queue"), "trace"));
  keel_tensor *in[2] = {there(KD_F32, 2, dims, data), NULL};
  keel_tensor_create(context, KD_I64, 1, &two, wrong, &list);
  in[1] = list;
  assert_int_not_equal(
      keel_call(context, "SplitToSequence", NULL, 0, in, 2, &out, 1), KD_OK);
  keel_tensor *columns = one_of("SplitToSequence", &second, 1, in, 1);
  keel_tensor *again = one_of("ConcatFromSequence", &second, 1, &columns, 1);
  expect_floats(again, data, 4);
  keel_tensor *pair[] = {in[0], again}, *mixed = NULL, *unlike = NULL;
  expect_ok(keel_sequence_create(context, pair, 2, &mixed));
  keel_tensor *both = one_of("ConcatFromSequence", &first, 1, &mixed, 1);
  expect_floats(both, (const float[]){1, 2, 3, 4, 1, 2, 3, 4}, 8);
  keel_tensor *scalar = there(KD_F32, 0, NULL, data);
  pair[1] = scalar;
  expect_ok(keel_sequence_create(context, pair, 2, &unlike));
  assert_int_not_equal(
      keel_call(context, "ConcatFromSequence", &first, 1, &unlike, 1, &out, 1),
      KD_OK);
  assert_null(out);
  assert_int_equal(called(COPIES), 0);
  keel_tensor *all[] = {in[0], list, columns, again,
                        mixed, both, scalar,  unlike};
  release_all(all, KEEL_COUNT_OF(all));
  end();
}

RUN_TESTS(NULL, NULL)
