/* trace_test.c - traces: begin and end, many threads, and the limit. */
#include <pthread.h>
#include <unistd.h>

#include "files.h"
#include "one_context.h"
#include "trace/trace.h"

static char path[] = "/tmp/keel-trace-XXXXXX";

SETUP(begin) {
  make_file(path);
  context = open_with(CPU_PLUGIN, NULL, 2);
  return 0;
}

SETUP(end) {
  keel_close(context);
  return unlink(path);
}

/* The file's text; to be freed. */
static char *read_trace(void) {
  size_t size = 0;
  char *text = read_bytes(path, &size);
  assert_string_equal(text + size - 4, "\n]}\n");
  return text;
}

static char *stop(void) {
  expect_ok(keel_trace_stop(context, path));
  return read_trace();
}

static size_t count(const char *text, const char *part) {
  size_t found = 0, size = strlen(part);
  for (; *text; text++) /* strstr of a sanitizer reads to the end, each time */
    found += *text == *part && !strncmp(text, part, size);
  return found;
}

static void relu(void) {
  const float numbers[] = {-1, 1};
  keel_tensor *x = floats(context, 2, numbers),
              *y = call_op(context, "Relu", NULL, 0, &x, 1);
  RELEASE(x, y);
}

TEST_THAT(one_trace_at_a_time) {
  expect_fails(keel_trace_stop(context, path), KD_FAILED_PRECONDITION,
               "no trace is running");
  expect_ok(keel_trace_start(context));
  expect_fails(keel_trace_start(context), KD_FAILED_PRECONDITION,
               "a trace is already running");
  expect_fails(keel_trace_stop(context, "/nowhere/trace"), KD_UNAVAILABLE,
               "/nowhere/trace: can't be written");
  assert_int_equal(keel_trace_stop(context, NULL), KD_FAILED_PRECONDITION);
}

TEST_THAT(a_trace_holds_what_ran_while_it_did) {
  relu();
  for (int round = 0; round < 3; round++) {
    expect_ok(keel_trace_start(context));
    for (int i = 0; i < 5; i++)
      relu();
    char *text = stop();
    assert_int_equal(count(text, "\"ph\":\"X\",\"name\":\"Relu\""), 5);
    assert_int_equal(count(text, "\"device\":\"cpu:0\""), 5);
    assert_int_equal(count(text, "\"name\":\"main\""), 1);
    free(text);
    relu();
  }
}

#ifdef SIM_PLUGIN
static void relu_on(keel_context *sims, const char *name) {
  const float numbers[] = {-1, 1};
  float y[2];
  keel_tensor *x = floats(sims, 2, numbers), *out = NULL;
  keel_device *device = find_device(sims, name);
  keel_op *op = prepare_op(sims, "Relu", NULL, 0, device);
  expect_ok(keel_op_call(op, &x, 1, &out, 1));
  expect_ok(keel_tensor_read(out, y, sizeof y));
  RELEASE(x, out, op);
}

/* When the records of a device's tracks end at the latest, microseconds from the trace's
 * begin. */
static double last_end(const char *text, const char *device) {
  double last = -1;
  char mark[64];
  snprintf(mark, sizeof mark, "{\"name\":\"%s, stream", device);
  const char *name = strstr(text, mark);
  assert_non_null(name);
  while (strncmp(name, "\"tid\":", 6) != 0)
    name--;
  long track = strtol(name + 6, NULL, 10);
  snprintf(mark, sizeof mark, "\"pid\":2,\"tid\":%ld,\"ts\":", track);
  for (const char *at = text; (at = strstr(at, mark)); at++) {
    double begin = strtod(at + strlen(mark), NULL);
    double length = strtod(strstr(at, "\"dur\":") + 6, NULL);
    if (begin + length > last) last = begin + length;
  }
  return last;
}

/* Two devices of one plugin, whose clocks run at 500 and 250 MHz. */
TEST_THAT(each_device_has_its_clock) {
  keel_context *sims = open_with(SIM_PLUGIN, NULL, KEEL_NO_WORKERS);
  relu_on(sims, "sim:0");
  relu_on(sims, "sim:1");
  uint64_t began = keel_now();
  expect_ok(keel_trace_start(sims));
  usleep(20000);
  relu_on(sims, "sim:0");
  relu_on(sims, "sim:1");
  expect_ok(keel_trace_stop(sims, path));
  double most = (double)(keel_now() - began) / 1000;
  char *text = read_trace();
  for (int i = 0; i < 2; i++) {
    double end = last_end(text, i ? "sim:1" : "sim:0");
    if (end < 20000 || end > most)
      fail_msg("sim:%d worked till %g us of a trace of %g us", i, end, most);
  }
  free(text);
  keel_close(sims);
}
#endif

#ifdef SIM_PLUGIN
/* The device's record of the copy that Relu's input takes. */
TEST_THAT(a_copy_says_what_it_is_for) {
  keel_context *sims = open_with(SIM_PLUGIN, NULL, KEEL_NO_WORKERS);
  relu_on(sims, "sim:0");
  expect_ok(keel_trace_start(sims));
  relu_on(sims, "sim:0");
  expect_ok(keel_trace_stop(sims, path));
  char *text = read_trace();
  assert_true(count(text, "\"for\":\"Relu\"") > 0);
  free(text);
  keel_close(sims);
}

/* The same of real devices. */
TEST_THAT(copies_of_real_devices_say_it) {
  static const struct {
    const char *plugin, *name;
  } all[] = {{OPENCL_PLUGIN, "opencl:0"}, {VULKAN_PLUGIN, "vulkan:0"}};
  int ran = 0;
  for (size_t i = 0; i < 2; i++) {
    keel_device *device = NULL;
    if (access(all[i].plugin, R_OK) != 0) continue;
    keel_context *own = open_with(all[i].plugin, CPU_PLUGIN, 1);
    if (keel_device_find(own, all[i].name, &device) == KD_OK) {
      relu_on(own, all[i].name);
      expect_ok(keel_trace_start(own));
      relu_on(own, all[i].name);
      expect_ok(keel_trace_stop(own, path));
      char *text = read_trace();
      assert_true(count(text, "\"for\":\"Relu\"") > 0);
      free(text);
      ran++;
    }
    keel_close(own);
  }
  if (!ran) skip();
}
#endif

TEST_THAT(zones_nest) {
  keel_trace_zone_begin("before the trace");
  expect_ok(keel_trace_start(context));
  keel_trace_zone_end();
  for (int i = 0; i < 100; i++)
    keel_trace_zone_begin("deep");
  for (int i = 0; i < 100; i++)
    keel_trace_zone_end();
  keel_trace_zone_end(); /* one too many */
  const kd_profile_record records[] = {
      {.kind = KD_PROFILE_REGION, .name = "a layer"},
      {.kind = KD_PROFILE_REGION}};
  for (int i = 0; i < 2; i++)
    keel_trace_record("acme:0", &records[i], keel_now(), keel_now());
  keel_trace_span("a \"name\"\n", NULL, "of\\a node", keel_now());
  char *text = stop();
  assert_int_equal(count(text, "before the trace"), 0);
  assert_int_equal(count(text, "\"deep\""), 32);
  assert_int_equal(count(text, "a \\\"name\\\"\\n"), 1);
  assert_int_equal(count(text, "of\\\\a node"), 1);
  assert_int_equal(count(text, "\"name\":\"a layer\""), 1);
  assert_int_equal(count(text, "\"name\":\"region\""), 1);
  assert_int_equal(count(text, "acme:0, stream 0"), 1);
  free(text);
}

TEST_THAT(what_is_too_much_is_counted) {
  const size_t most = 1 << 18;
  expect_ok(keel_trace_start(context));
  for (size_t i = 0; i < most + 77; i++)
    keel_trace_count("numbers", i);
  char *text = stop();
  assert_int_equal(count(text, "\"numbers\""), most);
  assert_int_equal(count(text, "\"lost\":77}"), 1);
  free(text);
}

static void *note_much(void *unused) {
  (void)unused;
  for (int i = 0; i < 20000; i++) {
    keel_trace_span("span", "here", "there", keel_now());
    keel_trace_zone_begin("zone");
    keel_trace_zone_end();
    if (i % 64 == 0) keel_trace_copy("copy", "here", 64, keel_now());
  }
  return NULL;
}

/* Threads come and go, and so do traces. */
TEST_THAT(threads_note_while_traces_begin_and_end) {
  for (int round = 0; round < 4; round++) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
      assert_int_equal(pthread_create(&threads[i], NULL, note_much, NULL), 0);
    for (int i = 0; i < 10; i++) {
      expect_ok(keel_trace_start(context));
      usleep(500);
      free(stop());
    }
    for (int i = 0; i < 4; i++)
      pthread_join(threads[i], NULL);
  }
}

RUN_TESTS(begin, end)
