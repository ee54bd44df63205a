/* mapped_test.c - device memory that the host reads where it lies: by its plugin's map, on the
 * queue's kind with shared memory, and on OpenCL and Vulkan where there is a device. */
#include <pthread.h>
#include <stdatomic.h>

#include "device/device.h"
#include "layers/layers.h"
#include "one_context.h"
#include "toy/toy.h"

enum { MANY = 300000, FEW = 1000, THREADS = 4 };

static keel_device *device;
static float *data, *want;

/* ---- what is called --------------------------------------------------------------------- */

static atomic_int maps, copies;

static void count(void *unused, uint32_t level, const char *line) {
  (void)unused;
  (void)level;
  if (strstr(line, "trace: memory.map(") && strstr(line, " OK ")) maps++;
  if (strstr(line, "trace: memory.copy_out(")) copies++;
}

static void expect_calls(int mapped, int copied) {
  assert_int_equal(atomic_exchange(&maps, 0), mapped);
  assert_int_equal(atomic_exchange(&copies, 0), copied);
}

/* Opens the CPU and a plugin, under layers. Returns false where it has no device. */
static bool begin(const char *plugin, const char *layers) {
  expect_ok(keel_layers_set(layers));
  context = open_logged(CPU_PLUGIN, plugin, 1, count);
  device = keel_device_at(context, 1);
  if (!device) {
    keel_close(context);
    return false;
  }
  expect_ok(keel_device_ready(device));
  maps = copies = 0;
  return true;
}

static void end(void) {
  uint32_t errors = keel_layers_errors();
  keel_close(context);
  assert_int_equal(keel_layers_errors(), errors);
  expect_ok(keel_layers_set(""));
}

/* Buffers that the simulated device has mapped. */
static int mapped_now(void) {
  const toy_state *toy = toy_of(TOY("shared"));
  assert_non_null(toy);
  return toy->mapped;
}

/* ---- values ------------------------------------------------------------------------------ */

/* Relu of data, made on the device. */
static keel_tensor *made(int64_t elements) {
  keel_tensor *here = floats(context, elements, data), *x = NULL, *y = NULL;
  expect_ok(keel_tensor_to(here, device, &x));
  expect_ok(keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1));
  RELEASE(here, x);
  return y;
}

static keel_tensor *seen(keel_tensor *y) {
  keel_tensor *here = tensor_on(y, NULL);
  return here;
}

static void expect_wanted(keel_tensor *here, int64_t elements) {
  const float *got = keel_tensor_data(here);
  assert_non_null(got);
  assert_int_equal(keel_tensor_elements(here), elements);
  assert_memory_equal(got, want, (size_t)elements * sizeof *got);
}

/* ---- views --------------------------------------------------------------------------------- */

/* What is read, twice, while it is mapped once; whoever goes first. */
static void read_views(void) {
  for (int order = 0; order < 2; order++) {
    keel_tensor *y = made(MANY);
    keel_tensor *views[] = {seen(y), seen(y)};
    assert_null(keel_tensor_device(views[0]));
    assert_ptr_equal(keel_tensor_data(views[0]), keel_tensor_data(views[1]));
    expect_calls(1, 0);
    RELEASE(y, views[order]);
    keel_tensor *other = made(MANY); /* not in memory that is still seen */
    expect_wanted(views[!order], MANY);
    keel_tensor_release(other);
    keel_tensor_release(views[!order]);
  }
}

static void read_into_memory(void) {
  float *got = calloc(MANY, sizeof *got);
  keel_tensor *y = made(MANY), *few = made(FEW);
  assert_non_null(got);
  expect_ok(keel_tensor_read(y, got, MANY * sizeof *got));
  assert_memory_equal(got, want, MANY * sizeof *got);
  expect_calls(1, 0);
  expect_ok(keel_tensor_read(few, got, FEW * sizeof *got));
  assert_memory_equal(got, want, FEW * sizeof *got);
  expect_calls(0, 1);
  RELEASE(few, y);
  free(got);
}

/* A view goes back to its device as what it is. */
static void go_home(void) {
  keel_tensor *y = made(MANY), *view = seen(y), *back = NULL, *twice = NULL;
  keel_tensor_release(y);
  expect_ok(keel_tensor_to(view, device, &back));
  keel_tensor_release(view);
  assert_ptr_equal(keel_tensor_device(back), device);
  expect_ok(keel_call(context, "Relu", NULL, 0, &back, 1, &twice, 1));
  keel_tensor_release(back);
  view = seen(twice);
  expect_wanted(view, MANY);
  expect_calls(2, 0);
  RELEASE(twice, view);
}

/* Relu on the device, Neg on the CPU, Relu on the device: the value between is pending
 * until its work is done. */
static keel_status run_between(keel_tensor **out) {
  static const char *const rule = "Neg=cpu";
  keel_builder *builder = create_builder(context, "between");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(MANY));
  keel_value y =
      op(builder, "Neg", op(builder, "Relu", x, KEEL_ABSENT), KEEL_ABSENT);
  keel_program *program =
      program_giving(builder, op(builder, "Neg", y, KEEL_ABSENT));
  const char *skip = "algebra"; /* Neg of Neg is wanted here */
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = device,
                                   .places = &rule,
                                   .place_count = 1,
                                   .skip = &skip,
                                   .skip_count = 1};
  keel_plan *plan = create_plan(program, &params);
  keel_tensor *in = floats(context, MANY, data);
  keel_status status = KD_OK;
  for (int i = 0; i < 5 && status == KD_OK; i++) {
    if (i) keel_tensor_release(*out);
    *out = NULL;
    status = keel_plan_run(plan, &in, 1, out, 1);
  }
  RELEASE(in, plan, program);
  return status;
}

static void go_between(void) {
  keel_tensor *out = NULL;
  if (run_between(&out) != KD_OK) fail_msg("%s", keel_message());
  expect_calls(5, 0);
  expect_wanted(out, MANY);
  keel_tensor_release(out);
}

static void map_on(const char *plugin) {
  if (!begin(plugin, "trace,validation")) skip();
  read_views();
  read_into_memory();
  go_home();
  go_between();
  end();
}

TEST_THAT(shared_memory_is_mapped) {
  assert_true(begin(TOY("shared"), ""));
  keel_tensor *y = made(MANY), *view = seen(y);
  assert_int_equal(mapped_now(), 1);
  keel_tensor_release(y);
  assert_int_equal(mapped_now(), 1);
  keel_tensor_release(view);
  assert_int_equal(mapped_now(), 0);
  end();
  map_on(TOY("shared"));
}

TEST_THAT(opencl_maps) {
  map_on(OPENCL_PLUGIN);
}

TEST_THAT(vulkan_maps) {
  map_on(VULKAN_PLUGIN);
}

TEST_THAT(without_the_slot_it_is_copied) {
  assert_true(begin(TOY("queue"), "trace"));
  keel_tensor *y = made(MANY), *here = seen(y), *out = NULL;
  expect_calls(0, 1);
  expect_wanted(here, MANY);
  RELEASE(here, y);
  if (run_between(&out) != KD_OK) fail_msg("%s", keel_message());
  expect_calls(0, 5);
  expect_wanted(out, MANY);
  keel_tensor_release(out);
  end();
}

/* ---- threads ----------------------------------------------------------------------------- */

static void *see_often(void *y) {
  intptr_t wrong = 0;
  for (int i = 0; i < 50; i++) {
    keel_tensor *view = NULL, *back = NULL;
    wrong += keel_tensor_to(y, NULL, &view) != KD_OK;
    wrong += memcmp(keel_tensor_data(view), want, MANY * sizeof *want) != 0;
    wrong += keel_tensor_to(view, device, &back) != KD_OK;
    RELEASE(view, back);
  }
  return (void *)wrong;
}

TEST_THAT(threads_see_one_value) {
  const char *const plugins[] = {TOY("shared"), OPENCL_PLUGIN, VULKAN_PLUGIN};
  for (size_t i = 0; i < KEEL_COUNT_OF(plugins); i++) {
    pthread_t threads[THREADS];
    if (!begin(plugins[i], "")) continue;
    keel_tensor *y = made(MANY);
    for (int t = 0; t < THREADS; t++)
      pthread_create(&threads[t], NULL, see_often, y);
    for (int t = 0; t < THREADS; t++) {
      void *wrong = NULL;
      pthread_join(threads[t], &wrong);
      assert_null(wrong);
    }
    keel_tensor_release(y);
    if (!i) assert_int_equal(mapped_now(), 0);
    end();
  }
}

/* ---- what goes wrong --------------------------------------------------------------------- */

TEST_THAT(what_cannot_be_mapped_is_copied) {
  const char *const layers[] = {"trace,fault:memory.map=1:UNIMPLEMENTED",
                                "trace,fault:memory.map=1:OUT_OF_MEMORY"};
  for (size_t i = 0; i < KEEL_COUNT_OF(layers); i++) {
    assert_true(begin(TOY("shared"), layers[i]));
    keel_tensor *y = made(MANY), *here = seen(y);
    expect_calls(0, 1);
    expect_wanted(here, MANY);
    keel_tensor_release(here);
    here = seen(y); /* and the next time it can */
    expect_calls(1, 0);
    RELEASE(here, y);
    end();
  }
}

TEST_THAT(a_map_that_fails_says_why) {
  keel_tensor *here = NULL, *out = NULL;
  assert_true(begin(TOY("shared"), "fault:memory.map=1:INTERNAL"));
  keel_tensor *y = made(MANY);
  expect_fails(keel_tensor_to(y, NULL, &here), KD_INTERNAL, "memory.map");
  assert_null(here);
  here = seen(y);
  expect_wanted(here, MANY);
  RELEASE(here, y);
  end();
  assert_true(begin(TOY("shared"), "fault:memory.map=2:INTERNAL"));
  expect_fails(run_between(&out), KD_INTERNAL, "memory.map");
  assert_null(out);
  end();
}

/* What failed is not shown. */
TEST_THAT(work_that_failed_is_not_mapped) {
  const float thirteen = 13;
  keel_tensor *here = NULL, *by = NULL, *y = NULL;
  assert_true(begin(TOY("shared"), "trace"));
  keel_tensor *x = made(MANY);
  keel_tensor_create(context, KD_F32, 0, NULL, &thirteen, &by);
  keel_tensor *pair[] = {x, by};
  y = call_op_on(device, context, "Mul", pair, 2);
  assert_int_equal(keel_tensor_to(y, NULL, &here), KD_INTERNAL);
  expect_calls(0, 0);
  keel_tensor *all[] = {x, by, y};
  release_all(all, KEEL_COUNT_OF(all));
  end();
}

/* The layer that watches the host and the plugin. */
TEST_THAT(validation_knows_what_is_mapped) {
  kd_buffer *buffer = NULL;
  void *address = NULL;
  const kd_allocation wanted = {.struct_size = sizeof wanted, .size = 100};
  assert_true(begin(TOY("shared"), "validation"));
  const kd_memory_table *memory = &device->plugin->memory;
  kd_device *d = device->handle;
  uint32_t before = keel_layers_errors();
  expect_ok(memory->allocate(d, &wanted, &buffer, &address));
  memory->unmap(d, buffer);
  assert_int_equal(keel_layers_errors(), before + 1);
  assert_int_equal(memory->map(d, buffer, 50, 51, KD_READ, &address),
                   KD_INVALID_ARGUMENT);
  expect_ok(memory->map(d, buffer, 0, 100, KD_READ, &address));
  assert_int_equal(memory->map(d, buffer, 0, 100, KD_READ, &address),
                   KD_INVALID_ARGUMENT);
  memory->release(d, buffer);
  assert_int_equal(keel_layers_errors(), before + 4);
  memory->unmap(d, buffer);
  memory->release(d, buffer);
  assert_int_equal(keel_layers_errors(), before + 4);
  end();
}

SETUP(make_data) {
  data = malloc(MANY * sizeof *data);
  want = malloc(MANY * sizeof *want);
  for (int i = 0; data && want && i < MANY; i++) {
    data[i] = (float)(i % 2 ? -i : i);
    want[i] = data[i] > 0 ? data[i] : 0;
  }
  return data && want ? 0 : -1;
}

SETUP(free_data) {
  free(data);
  free(want);
  return 0;
}

RUN_TESTS(make_data, free_data)
