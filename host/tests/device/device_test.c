/* device_test.c - a device of handles and late work, beside the CPU. */
#include <pthread.h>
#include <unistd.h>

#include "eager/call_site.h"
#include "one_context.h"
#include "ops/schema.h"
#include "toy/toy.h"

static keel_device *queue, *cpu;
static const float data[] = {-1, 2, -3, 4};
static int errors;

static void log_line(void *unused, uint32_t level, const char *line) {
  (void)unused;
  errors += level == 0;
  fprintf(stderr, "%s\n", line);
}

SETUP(open_both) {
  const char *paths[] = {CPU_PLUGIN, TOY("queue")};
  keel_context_params params = OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED,
                                     paths, 2, .workers = 1, .log = log_line);
  expect_ok(keel_open(&params, &context));
  expect_ok(keel_device_find(context, "queue", &queue));
  expect_ok(keel_device_find(context, "cpu:0", &cpu));
  return 0;
}

SETUP(close_both) {
  keel_close(context);
  return errors; /* the plugin says what was left over */
}

/* A device that nothing has run on yet. */
TEST_THAT(a_tensor_may_go_to_it_first) {
  const char *path = TOY("queue");
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, &path, 1, .workers = 1);
  keel_context *fresh = open_params(&params);
  keel_tensor *here = floats(fresh, 4, data);
  keel_tensor *there = tensor_on(here, keel_device_at(fresh, 0));
  expect_floats(there, data, 4);
  RELEASE(here, there, fresh);
}

TEST_THAT(work_is_waited_for_when_it_is_read) {
  const float want[] = {0, 4, 0, 8};
  keel_tensor *x = floats(context, 4, data), *y = NULL, *z = NULL;
  expect_ok(keel_device_push(queue));
  expect_ok(keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1));
  keel_tensor *pair[] = {y, y};
  expect_ok(keel_call(context, "Add", NULL, 0, pair, 2, &z, 1));
  keel_device_pop();
  assert_ptr_equal(keel_tensor_device(z), queue);
  assert_null(keel_tensor_data(z));
  expect_floats(z, want, 4);
  RELEASE(x, y, z);
}

TEST_THAT(what_a_device_lacks_runs_elsewhere) {
  const float want[] = {0, -2, 0, -4};
  keel_tensor *x = floats(context, 4, data), *y = NULL, *z = NULL;
  expect_ok(keel_device_push(queue));
  expect_ok(keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1));
  expect_ok(keel_call(context, "Neg", NULL, 0, &y, 1, &z, 1));
  keel_device_pop();
  assert_ptr_equal(keel_tensor_device(y), queue);
  assert_ptr_equal(keel_tensor_device(z), cpu);
  expect_floats(z, want, 4);
  RELEASE(x, y, z);
}

TEST_THAT(views_keep_their_place) {
  const int64_t shape[] = {2, 2}, two = 2;
  const float want[] = {0, 2, 0, 4};
  keel_tensor *x = floats(context, 4, data), *y = NULL, *dims = NULL, *z = NULL;
  dims = create_tensor(context, KD_I64, 1, &two, shape);
  expect_ok(keel_device_push(queue));
  expect_ok(keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1));
  keel_tensor *pair[] = {y, dims};
  expect_ok(keel_call(context, "Reshape", NULL, 0, pair, 2, &z, 1));
  keel_device_pop();
  assert_ptr_equal(keel_tensor_device(z), queue);
  assert_int_equal(keel_tensor_rank(z), 2);
  expect_floats(z, want, 4);
  RELEASE(x, y, z, dims);
}

static keel_program *chain(int length) {
  keel_builder *builder = create_builder(context, "chain");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  keel_value c =
      constant_of(builder, floats(context, 4, (const float[]){1, 1, 1, 1}));
  for (int i = 0; i < length; i++) {
    x = op(builder, "Add", x, c);
    x = keel_builder_op(builder, i % 3 ? "Relu" : "Neg", NULL, 0, &x, 1);
  }
  return program_giving(builder, x);
}

static void run_on(keel_program *program, keel_device *device, float *out) {
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = device));
  for (int i = 0; i < 5; i++) {
    keel_tensor_release(y);
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    expect_ok(keel_tensor_read(y, out, 16));
  }
  RELEASE(x, y, plan);
}

/* Neg is the CPU's, Add and Relu the queue's: values go to and fro. */
TEST_THAT(a_program_over_two_devices_gives_the_same) {
  keel_program *program = chain(20);
  float here[4], there[4];
  run_on(program, cpu, here);
  run_on(program, queue, there);
  assert_memory_equal(here, there, sizeof here);
  keel_program_release(program);
}

/* Sub has no kernel on the queue; it becomes Add and Neg, and Neg Mul. */
TEST_THAT(ops_without_a_kernel_are_written_with_others) {
  const float want[] = {-2, 4, -6, 8};
  keel_context *alone = open_with(TOY("queue"), NULL, 1);
  keel_builder *builder = create_builder(alone, "sub");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  keel_value three[] = {x, x, x};
  x = op(builder, "Sub", keel_builder_op(builder, "Sum", NULL, 0, three, 3), x);
  keel_plan *plan = plan_giving(builder, x, NULL);
  expect_run(alone, plan, data, want, 4);
  RELEASE(plan, alone);
}

TEST_THAT(an_unknown_device_is_named_with_those_there_are) {
  keel_device *none = NULL;
  expect_fails(keel_device_find(context, "tpu", &none), KD_NOT_FOUND,
               "cpu:0, queue:0");
}

/* ---- which devices there are ---------------------------------------------- */

static keel_context *open_shown(const char *visible) {
  const char *paths[] = {CPU_PLUGIN, TOY("queue"), TOY("echo")};
  keel_context *shown = NULL;
  keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, paths, 3, .visible = visible);
  return keel_open(&params, &shown) == KD_OK ? shown : NULL;
}

/* The devices' names, with a blank behind each. */
static const char *names_of(keel_context *shown) {
  static char names[256];
  keel_device_facts facts;
  *names = 0;
  for (uint32_t i = 0; i < keel_device_count(shown); i++) {
    keel_device_describe(keel_device_at(shown, i), &facts);
    strcat(strcat(names, facts.name), " ");
  }
  return names;
}

/* Device memory of so many KiB, filled. */
static keel_tensor *place(keel_context *own, keel_device *device, int64_t kib) {
  const int64_t size = kib * 1024;
  keel_tensor *placed = NULL;
  char *zeros = calloc((size_t)size, 1);
  assert_non_null(zeros);
  keel_tensor *host = create_tensor(own, KD_U8, 1, &size, zeros);
  free(zeros);
  keel_tensor_to(host, device, &placed);
  keel_tensor_release(host);
  return placed;
}

/* The plugin keeps what is released, and is asked for it before an allocation is given
 * up. */
TEST_THAT(what_a_plugin_keeps_is_asked_for) {
  keel_context *own = open_with(TOY("hoard"), NULL, KEEL_NO_WORKERS);
  keel_device *device = keel_device_at(own, 0);
  const toy_state *toy = toy_of(TOY("hoard"));
  keel_tensor *x = place(own, device, 700);
  assert_non_null(x);
  assert_int_equal(toy->trims, 0);
  keel_tensor_release(x);
  x = place(own, device, 500); /* beside 700 it would be too much */
  assert_non_null(x);
  assert_int_equal(toy->trims, 1);
  assert_null(place(own, device, 800));
  expect_message("hoard: no ");
  expect_message("hoard:0 has ");
  expect_message(" of 1048576 bytes free, and this process holds ");
  expect_message(" in 1 buffers");
  RELEASE(x, own);
}

TEST_THAT(memory_is_told_by_the_device_or_the_host) {
  static const char *const plugins[] = {TOY("hoard"), TOY("queue")};
  for (int i = 0; i < 2; i++) {
    keel_context *own = open_with(plugins[i], NULL, KEEL_NO_WORKERS);
    keel_device *device = keel_device_at(own, 0);
    keel_memory_facts before, after;
    expect_ok(keel_device_memory(device, &before));
    assert_int_equal(before.used, 0);
    keel_tensor *x = place(own, device, 100);
    expect_ok(keel_device_memory(device, &after));
    assert_true(after.used >= 100 * 1024);
    assert_int_equal(after.buffers, 1);
    assert_int_equal(after.total, i ? 0 : 1 << 20);
    assert_int_equal(after.available, i ? 0 : after.total - after.used);
    RELEASE(x, own);
  }
}

#ifdef SIM_PLUGIN
static int let_go;
static bool untouched = true;

static void note_end(void *memory) {
  let_go++;
  free(memory);
}

/* Memory of 256 KiB from `offset` on, on the device. *out_host: the wrapped tensor. */
static keel_tensor *lend(keel_context *own, keel_device *device, size_t offset,
                         keel_tensor **out_host) {
  const int64_t count = 1 << 16;
  char *memory = aligned_alloc(4096, (1 << 18) + 4096);
  assert_non_null(memory);
  float *numbers = (float *)(void *)(memory + offset);
  for (int64_t i = 0; i < count; i++)
    numbers[i] = (float)(i % 100) - 50;
  expect_ok(keel_tensor_wrap(own, KD_F32, 1, &count, numbers, note_end, memory,
                             out_host));
  keel_tensor *placed = tensor_on(*out_host, device);
  return placed;
}

static void expect_untouched(void *memory) {
  const float *numbers = memory;
  let_go++;
  for (int i = 0; i < 1 << 16; i++)
    if (numbers[i] != (float)(i % 100) - 50) untouched = false;
  free(memory);
}

/* An op may compute in the memory of an input that nobody else needs: not in this. */
static void expect_no_output_in_it(keel_context *own, keel_device *device) {
  const int64_t count = 1 << 16;
  static float out[1 << 16];
  keel_tensor *host = NULL, *x = NULL, *y = NULL;
  keel_opdef *relu = NULL;
  keel_call_site site;
  float *numbers = aligned_alloc(4096, 1 << 18);
  assert_non_null(numbers);
  for (int i = 0; i < 1 << 16; i++)
    numbers[i] = (float)(i % 100) - 50;
  let_go = 0;
  expect_ok(keel_tensor_wrap(own, KD_F32, 1, &count, numbers, expect_untouched,
                             numbers, &host));
  expect_ok(keel_tensor_to(host, device, &x));
  keel_tensor_release(host);
  expect_ok(keel_opdef_create(own, keel_schema_find("", "Relu"), NULL, 0, NULL,
                              &relu));
  keel_call_site_init(&site, relu, "", device);
  expect_ok(keel_call_site_run(&site, NULL, &x, 1, &y, 1, 1));
  keel_tensor_release(x);
  expect_ok(keel_tensor_read(y, out, sizeof out));
  assert_true(out[0] == 0 && out[99] == 49);
  keel_tensor_release(y);
  keel_call_site_deinit(&site);
  keel_opdef_release(relu);
  assert_int_equal(let_go, 1);
  assert_true(untouched);
}

/* A device that shares its memory with the host reads the application's where it lies, as
 * long as it needs it; what does not begin as it wants is copied. */
TEST_THAT(application_memory_is_imported) {
  setenv("KEEL_SIM_INTEGRATED", "yes", 1);
  keel_context *own = open_with(SIM_PLUGIN, NULL, KEEL_NO_WORKERS);
  unsetenv("KEEL_SIM_INTEGRATED");
  keel_memory_facts before, after;
  keel_device *device = find_device(own, "sim:0");
  expect_ok(keel_device_memory(device, &before));
  for (size_t offset = 0; offset <= 64; offset += 64) {
    keel_tensor *host = NULL, *y = NULL;
    static float out[1 << 16];
    let_go = 0;
    keel_tensor *x = lend(own, device, offset, &host);
    expect_ok(keel_device_memory(device, &after));
    if (offset)
      assert_true(after.used >= before.used + (1 << 18));
    else
      assert_int_equal(after.used, before.used);
    keel_tensor_release(host);
    assert_int_equal(let_go, offset ? 1 : 0);
    keel_op *op = prepare_op(own, "Relu", NULL, 0, device);
    expect_ok(keel_op_call(op, &x, 1, &y, 1));
    keel_tensor_release(x); /* the call may still read it */
    expect_ok(keel_tensor_read(y, out, sizeof out));
    for (int i = 0; i < 1 << 16; i++)
      assert_true(out[i] == (i % 100 < 50 ? 0 : (float)(i % 100) - 50));
    assert_int_equal(let_go, 1);
    RELEASE(y, op);
  }
  expect_no_output_in_it(own, device);
  /* without a `done` it may go with its tensor */
  float *memory = aligned_alloc(4096, 4096), got[4];
  const float want[] = {1, 2, 3, 4};
  memcpy(memory, want, sizeof want);
  keel_tensor *host = NULL, *placed = NULL;
  expect_ok(keel_tensor_wrap(own, KD_F32, DIMS(4), memory, NULL, NULL, &host));
  expect_ok(keel_tensor_to(host, device, &placed));
  keel_tensor_release(host);
  memset(memory, 0xff, 4096);
  expect_ok(keel_tensor_read(placed, got, sizeof got));
  assert_memory_equal(got, want, sizeof want);
  free(memory);
  RELEASE(placed, own);
}
#endif

TEST_THAT(a_list_shows_some_devices) {
  static const char *const rows[][2] = {
      {"", "cpu:0 queue:0 echo:0 "},     {"queue", "queue:0 "},
      {"queue,cpu:0", "cpu:0 queue:0 "}, {"cpu:1,echo:0", "echo:0 "},
      {"-queue", "cpu:0 echo:0 "},       {"-queue:0, -echo", "cpu:0 "},
      {"queue,-queue:0,cpu", "cpu:0 "},  {"qu", ""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    keel_context *shown = open_shown(rows[i][0]);
    assert_non_null(shown);
    assert_string_equal(names_of(shown), rows[i][1]);
    keel_close(shown);
  }
}

static char warnings[512];

static void note_warning(void *unused, uint32_t level, const char *line) {
  (void)unused;
  if (level == 1) strncat(warnings, line, 250);
}

TEST_THAT(a_list_that_names_nothing_is_warned_of) {
  static const char *const rows[][2] = {
      {"cpu,quue", "\"quue\""},
      {"queue:0,cpu:7", "cpu:7, and it has 1"},
      {"-echo:3", "echo:3, and it has 1"},
      {"cpu,-echo", ""}};
  const char *paths[] = {CPU_PLUGIN, TOY("queue"), TOY("echo")};
  setenv("KEEL_LOG", "warning", 1);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    keel_context_params params =
        OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, paths, 3,
              .log = note_warning, .visible = rows[i][0]);
    *warnings = 0;
    keel_context *shown = open_params(&params);
    if (*rows[i][1])
      assert_non_null(strstr(warnings, rows[i][1]));
    else
      assert_string_equal(warnings, "");
    keel_close(shown);
  }
  setenv("KEEL_LOG", "error", 1);
}

static void *call_often(void *argument) {
  keel_context *shown = argument;
  for (int i = 0; i < 300; i++) {
    keel_tensor *x = equal_floats(shown, 4, -1), *y = NULL;
    expect_ok(keel_call(shown, "Relu", NULL, 0, &x, 1, &y, 1));
    find_device(shown, "cpu");
    release_all((keel_tensor *[]){x, y}, 2);
  }
  return NULL;
}

TEST_THAT(hidden_devices_are_shown_when_they_are_wanted) {
  keel_context *shown = open_shown("cpu");
  keel_device *first = keel_device_at(shown, 0), *found = NULL;
  pthread_t thread;
  assert_string_equal(names_of(shown), "cpu:0 ");
  assert_int_equal(keel_device_find(shown, "queue", &found), KD_NOT_FOUND);
  assert_int_equal(pthread_create(&thread, NULL, call_often, shown), 0);
  expect_ok(keel_show(shown, "cpu,queue"));
  assert_string_equal(names_of(shown), "cpu:0 queue:0 ");
  expect_ok(keel_device_find(shown, "queue", &found));
  keel_tensor *x = equal_floats(shown, 4, 2), *there = tensor_on(x, found);
  expect_equal_floats(there, 2, 4);
  for (int again = 0; again < 2; again++) {
    expect_ok(keel_show(shown, "-none"));
    assert_string_equal(names_of(shown), "cpu:0 queue:0 echo:0 ");
  }
  assert_ptr_equal(keel_device_at(shown, 0), first);
  assert_ptr_equal(keel_device_default(shown), first);
  assert_int_equal(keel_show(shown, "cpu:x"), KD_INVALID_ARGUMENT);
  pthread_join(thread, NULL);
  release_all((keel_tensor *[]){x, there}, 2);
  keel_close(shown);
}

TEST_THAT(the_default_device_may_be_shown_later) {
  keel_context *shown = open_shown("none");
  assert_null(keel_device_default(shown));
  expect_ok(keel_show(shown, "queue"));
  assert_ptr_equal(keel_device_default(shown), keel_device_at(shown, 0));
  keel_close(shown);
}

TEST_THAT(a_list_that_is_none_is_refused) {
  static const char *const rows[] = {"cpu:", "cpu:x",   "cpu:0x",     ":0",
                                     "-",    "cpu,,:1", "cpu:1234567"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_null(open_shown(rows[i]));
    assert_non_null(strstr(keel_message(), "visible devices"));
  }
}

TEST_THAT(the_same_silicon_through_two_plugins_is_known) {
  keel_context *shown = open_shown(NULL);
  keel_device_facts facts;
  static const char *const same[] = {NULL, NULL, "queue:0"};
  assert_non_null(shown);
  for (uint32_t i = 0; i < 3; i++) {
    keel_device_describe(keel_device_at(shown, i), &facts);
    if (same[i])
      assert_string_equal(facts.same_as, same[i]);
    else
      assert_null(facts.same_as);
  }
  keel_close(shown);
  shown = open_shown("echo"); /* what is not shown is no twin */
  assert_non_null(shown);
  keel_device_describe(keel_device_at(shown, 0), &facts);
  assert_null(facts.same_as);
  keel_close(shown);
}

/* The facts of the device first, then what its plugin adds, in one order. */
TEST_THAT(properties_are_listed) {
  keel_context *own = open_with(CPU_PLUGIN, NULL, KEEL_NO_WORKERS);
  keel_device *device = keel_device_at(own, 0);
  keel_property p;
  expect_ok(keel_device_property(device, 0, &p));
  assert_string_equal(p.name, "driver");
  assert_int_equal(p.type, KD_PROPERTY_TEXT);
  assert_true(strlen(p.text) > 3);
  expect_ok(keel_device_find_property(device, "memory", &p));
  assert_string_equal(p.unit, "bytes");
  assert_true(p.integer > 1 << 20);
#if defined(__x86_64__)
  expect_ok(keel_device_find_property(device, "architecture", &p));
  assert_string_equal(p.text, "x86-64");
#endif
  expect_fails(keel_device_find_property(device, "wings", &p), KD_NOT_FOUND,
               "cpu:0 has no property \"wings\"");
  keel_close(own);
  own = open_with(MINIMAL_PLUGIN, NULL, KEEL_NO_WORKERS); /* has no slot */
  device = keel_device_at(own, 0);
  uint32_t count = 0;
  while (keel_device_property(device, count, &p) == KD_OK)
    assert_int_not_equal(++count, 10);
  expect_fails(keel_device_property(device, count, &p), KD_OUT_OF_RANGE,
               "minimal:0 has no more properties");
  keel_close(own);
}

#ifdef SIM_PLUGIN
TEST_THAT(properties_of_the_moment_change) {
  static const char *const names[] = {
      "driver",    "compute_units", "memory", "peak_flops_f32",
      "bandwidth", "architecture",  "clock",  "temperature",
      "power",     "sim.lanes",     NULL};
  keel_context *own = open_with(SIM_PLUGIN, NULL, KEEL_NO_WORKERS);
  keel_device *device = keel_device_at(own, 0);
  keel_property p, again;
  for (uint32_t i = 0; names[i]; i++) {
    expect_ok(keel_device_property(device, i, &p));
    assert_string_equal(p.name, names[i]);
  }
  expect_ok(keel_device_find_property(device, "clock", &p));
  assert_true(p.integer == 1000000000 && !p.flags);
  expect_ok(keel_device_find_property(device, "temperature", &p));
  assert_int_equal(p.flags, KD_PROPERTY_CHANGES);
  assert_string_equal(p.unit, "C");
  expect_ok(keel_device_find_property(device, "temperature", &again));
  assert_true(p.real != again.real);
  keel_close(own);
}
#endif

/* ---- what is held back ------------------------------------------------------------- */

static kd_status (*plugins_flush)(kd_stream *stream);
static int flushes;

static kd_status count_flush(kd_stream *stream) {
  flushes++;
  return plugins_flush(stream);
}

/* |-x| on the device, `runs` times; nobody reads what comes out. */
static void run_unread(keel_device *device, int runs) {
  keel_context *own = device->context;
  keel_tensor *here = floats(own, 4, data), *x = NULL, *y = NULL;
  keel_builder *builder = create_builder(own, "unread");
  keel_value value = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  value = op(builder, "Neg", value, KEEL_ABSENT);
  keel_plan *plan = plan_giving(builder, op(builder, "Abs", value, KEEL_ABSENT),
                                PLAN_PARAMS(.device = device));
  expect_ok(keel_tensor_to(here, device, &x));
  for (int i = 0; i < runs; i++) {
    int before = flushes;
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    assert_true(flushes > before);
    keel_tensor_release(y);
  }
  RELEASE(here, x, plan);
}

/* Vulkan's commands stand in a batch, OpenCL's in the driver's queue: at the end of a run
 * they go to the device, though nobody waits for them. */
TEST_THAT(a_run_without_a_reader_is_handed_over) {
  static const char *const plugins[] = {VULKAN_PLUGIN, OPENCL_PLUGIN};
  int ran = 0;
  for (size_t i = 0; i < 2; i++) {
    if (access(plugins[i], R_OK) != 0) continue;
    keel_context *own = open_with(plugins[i], CPU_PLUGIN, 1);
    keel_device *device = keel_device_at(own, 0);
    if (strcmp(device->name, "cpu:0") != 0) {
      plugins_flush = device->plugin->streams.flush;
      assert_non_null(plugins_flush);
      device->plugin->streams.flush = count_flush;
      run_unread(device, 6); /* op by op, framed, and as a recording */
      ran++;
    }
    keel_close(own);
  }
  if (!ran) skip();
}

RUN_TESTS(open_both, close_both)
