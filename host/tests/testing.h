/* testing.h - what the unit tests share. */
#ifndef KEEL_TESTING_H
#define KEEL_TESTING_H

#include <keel/keel.h>

#include "tests.h"

/* The call succeeds, or the test fails with what it said. */
#define expect_ok(call)                                             \
  do {                                                              \
    if ((call) != KD_OK) fail_msg("%s: %s", #call, keel_message()); \
  } while (0)

/* The call fails with this, and says that. */
#define expect_fails(call, want, part) \
  do {                                 \
    assert_int_equal(call, want);      \
    expect_message(part);              \
  } while (0)

/* What a context is opened with: flags, plugins, how many, and what else is set. */
#define OPENS(FLAGS, PLUGINS, ...)                                \
  {                                                               \
    .struct_size = sizeof(keel_context_params), .flags = (FLAGS), \
    .plugins = (PLUGINS), .plugin_count = __VA_ARGS__             \
  }

/* Parameters that one call gets, with these fields. */
#define PLAN_PARAMS(...)                                              \
  (&(const keel_plan_params){.struct_size = sizeof(keel_plan_params), \
                             __VA_ARGS__})
#define RUN_PARAMS(...)                                             \
  (&(const keel_run_params){.struct_size = sizeof(keel_run_params), \
                            __VA_ARGS__})

/* The rank and the dimensions of one call. */
#define DIMS(...)                                                 \
  (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
      (const int64_t[]) {                                         \
    __VA_ARGS__                                                   \
  }

static inline keel_context *open_params(const keel_context_params *params) {
  keel_context *context = NULL;
  expect_ok(keel_open(params, &context));
  return context;
}

/* Opens a runtime with these plugins and no others (NULL: none); log: gets its lines, or
 * NULL. The CPU's ops stay apart, so that a program has the nodes that a test gives it. */
static inline keel_context *open_logged(
    const char *a, const char *b, int32_t workers,
    void (*log)(void *context, uint32_t level, const char *line)) {
  const char *paths[] = {a, b};
  const char *option = "cpu.regions=off";
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, paths,
            (uint32_t)((a != NULL) + (b != NULL)), .options = &option,
            .option_count = 1, .workers = workers, .log = log);
  return open_params(&params);
}

static inline keel_context *open_with(const char *a, const char *b,
                                      int32_t workers) {
  return open_logged(a, b, workers, NULL);
}

static inline keel_device *find_device(keel_context *context,
                                       const char *name) {
  keel_device *device = NULL;
  expect_ok(keel_device_find(context, name, &device));
  return device;
}

static inline keel_cancel *create_cancel(keel_context *context) {
  keel_cancel *cancel = NULL;
  expect_ok(keel_cancel_create(context, &cancel));
  return cancel;
}

static inline keel_tensor *create_promise(keel_context *context) {
  keel_tensor *promise = NULL;
  expect_ok(keel_tensor_promise(context, &promise));
  return promise;
}

static inline keel_tensor *create_tensor(keel_context *context, kd_dtype dtype,
                                         uint32_t rank, const int64_t *dims,
                                         const void *data) {
  keel_tensor *tensor = NULL;
  expect_ok(keel_tensor_create(context, dtype, rank, dims, data, &tensor));
  return tensor;
}

static inline keel_tensor *floats(keel_context *context, int64_t count,
                                  const float *data) {
  return create_tensor(context, KD_F32, 1, &count, data);
}

/* The same value on a device. */
static inline keel_tensor *tensor_on(keel_tensor *tensor, keel_device *device) {
  keel_tensor *there = NULL;
  expect_ok(keel_tensor_to(tensor, device, &there));
  return there;
}

/* So many floats, all the same. */
static inline keel_tensor *equal_floats(keel_context *context, int64_t count,
                                        float value) {
  float data[64];
  for (int64_t i = 0; i < count; i++)
    data[i] = value;
  return floats(context, count, data);
}

static inline void expect_floats(keel_tensor *tensor, const float *want,
                                 size_t count) {
  float got[64];
  expect_ok(keel_tensor_read(tensor, got, count * sizeof *got));
  for (size_t i = 0; i < count; i++)
    assert_true(got[i] == want[i]);
}

static inline void expect_equal_floats(keel_tensor *tensor, float want,
                                       size_t count) {
  float got[64];
  expect_ok(keel_tensor_read(tensor, got, count * sizeof *got));
  for (size_t i = 0; i < count; i++)
    assert_true(got[i] == want);
}

static inline int64_t elements_of(uint32_t rank, const int64_t *dims) {
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= dims[i];
  return count;
}

static inline void release_all(keel_tensor *const *tensors, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    keel_tensor_release(tensors[i]);
}

/* Releases up to eight things, in this order, each as its type wants it. */
#define RELEASE(...)                                                  \
  RELEASE_AS(__VA_ARGS__, RELEASE_8, RELEASE_7, RELEASE_6, RELEASE_5, \
             RELEASE_4, RELEASE_3, RELEASE_2, RELEASE_1, 0)           \
  (__VA_ARGS__)
#define RELEASE_AS(a, b, c, d, e, f, g, h, as, ...) as
#define RELEASE_8(a, ...)                           RELEASE_1(a), RELEASE_7(__VA_ARGS__)
#define RELEASE_7(a, ...)                           RELEASE_1(a), RELEASE_6(__VA_ARGS__)
#define RELEASE_6(a, ...)                           RELEASE_1(a), RELEASE_5(__VA_ARGS__)
#define RELEASE_5(a, ...)                           RELEASE_1(a), RELEASE_4(__VA_ARGS__)
#define RELEASE_4(a, ...)                           RELEASE_1(a), RELEASE_3(__VA_ARGS__)
#define RELEASE_3(a, ...)                           RELEASE_1(a), RELEASE_2(__VA_ARGS__)
#define RELEASE_2(a, b)                             RELEASE_1(a), RELEASE_1(b)
#define RELEASE_1(a)                              \
  _Generic((a), keel_tensor *                     \
           : keel_tensor_release, keel_plan *     \
           : keel_plan_release, keel_program *    \
           : keel_program_release, keel_builder * \
           : keel_builder_destroy, keel_op *      \
           : keel_op_release, keel_cancel *       \
           : keel_cancel_release, keel_group *    \
           : keel_group_release, keel_context *   \
           : keel_close)(a)

static inline keel_op *prepare_op(keel_context *context, const char *name,
                                  const keel_attr *attrs, uint32_t attr_count,
                                  keel_device *device) {
  keel_op *op = NULL;
  expect_ok(keel_op_prepare(context, name, attrs, attr_count, device, &op));
  return op;
}

/* The output of an op that has one, called at once. */
static inline keel_tensor *call_op(keel_context *context, const char *name,
                                   const keel_attr *attrs, uint32_t attr_count,
                                   keel_tensor *const *in, uint32_t count) {
  keel_tensor *out = NULL;
  if (keel_call(context, name, attrs, attr_count, in, count, &out, 1) != KD_OK)
    fail_msg("%s: %s", name, keel_message());
  return out;
}

/* The same, on this device. */
static inline keel_tensor *call_op_on(keel_device *device,
                                      keel_context *context, const char *name,
                                      keel_tensor *const *in, uint32_t count) {
  expect_ok(keel_device_push(device));
  keel_tensor *out = call_op(context, name, NULL, 0, in, count);
  keel_device_pop();
  return out;
}

/* An op of one argument (b: KEEL_ABSENT) or two, without attributes. */
static inline keel_value op(keel_builder *builder, const char *name,
                            keel_value a, keel_value b) {
  keel_value pair[] = {a, b};
  return keel_builder_op(builder, name, NULL, 0, pair,
                         b == KEEL_ABSENT ? 1 : 2);
}

/* What y changes by with x, under the names that the op has for them. */
static inline keel_value gradient_of(keel_builder *builder, const char *x_name,
                                     keel_value x, const char *y_name,
                                     keel_value y) {
  const char *xs[] = {x_name};
  const keel_attr of[] = {
      {.name = "xs", .kind = KD_ATTR_STRINGS, .count = 1, .strings = xs},
      KEEL_STRING("y", y_name)};
  return keel_builder_op(builder, "ai.onnx.preview.training::Gradient", of, 2,
                         (keel_value[]){x, x, y}, 3);
}

/* A constant of a tensor, which it takes over. */
static inline keel_value constant_of(keel_builder *builder,
                                     KD_OWNED keel_tensor *tensor) {
  keel_value value = keel_builder_constant(builder, tensor);
  keel_tensor_release(tensor);
  return value;
}

static inline keel_builder *create_builder(keel_context *context,
                                           const char *name) {
  keel_builder *builder = NULL;
  expect_ok(keel_builder_create(context, name, &builder));
  return builder;
}

static inline keel_builder *create_body(keel_builder *builder,
                                        const char *name) {
  keel_builder *body = NULL;
  expect_ok(keel_builder_body(builder, name, &body));
  return body;
}

/* What the builder has. It is gone then. */
static inline keel_program *finish_program(keel_builder *builder) {
  keel_program *program = NULL;
  expect_ok(keel_builder_finish(builder, &program));
  keel_builder_destroy(builder);
  return program;
}

/* What the builder has, with one output. It is gone then. */
static inline keel_program *program_giving(keel_builder *builder,
                                           keel_value y) {
  expect_ok(keel_builder_output(builder, "y", y));
  return finish_program(builder);
}

static inline keel_program *load_program(keel_context *context,
                                         const char *path) {
  keel_program *program = NULL;
  expect_ok(keel_program_load(context, path, &program));
  return program;
}

/* A program from its text. */
static inline keel_program *load_text(keel_context *context, const char *text) {
  keel_program *program = NULL;
  expect_ok(
      keel_program_load_memory(context, "text", text, strlen(text), &program));
  return program;
}

static inline keel_plan *create_plan(keel_program *program,
                                     const keel_plan_params *params) {
  keel_plan *plan = NULL;
  expect_ok(keel_plan_create(program, params, &plan));
  return plan;
}

/* A plan of what the builder has, which is gone then. */
static inline keel_plan *finish_plan(keel_builder *builder,
                                     const keel_plan_params *params) {
  keel_program *program = finish_program(builder);
  keel_plan *plan = create_plan(program, params);
  keel_program_release(program);
  return plan;
}

/* The same of a program with one output. */
static inline keel_plan *plan_giving(keel_builder *builder, keel_value y,
                                     const keel_plan_params *params) {
  expect_ok(keel_builder_output(builder, "y", y));
  return finish_plan(builder, params);
}

/* The output of a plan that has one, after a run. */
static inline keel_tensor *output_of(keel_plan *plan, keel_tensor *const *in,
                                     uint32_t count) {
  keel_tensor *out = NULL;
  expect_ok(keel_plan_run(plan, in, count, &out, 1));
  return out;
}

/* A run of a plan of one input, and what it gives. */
static inline void expect_run(keel_context *context, keel_plan *plan,
                              const float *in, const float *want,
                              int64_t count) {
  keel_tensor *x = floats(context, count, in), *y = output_of(plan, &x, 1);
  expect_floats(y, want, (size_t)count);
  keel_tensor_release(x);
  keel_tensor_release(y);
}

/* How many nodes of `op` a plan has. */
static inline uint32_t runs_of(keel_plan *plan, const char *op) {
  keel_profile_line line;
  uint32_t count = 0;
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++)
    count += !strcmp(line.op, op);
  return count;
}

/* Bytes of all tensors that are there. */
static inline uint64_t live_bytes(keel_context *context) {
  keel_stats stats;
  keel_get_stats(context, &stats);
  return stats.tensor_bytes;
}

/* Bytes that this process has in memory: "RssAnon:" its own, "RssFile:" of files; 0: the
 * system does not say. */
static inline uint64_t resident(const char *which) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  uint64_t kib = 0;
  while (file && !kib && fgets(line, sizeof line, file))
    if (!strncmp(line, which, strlen(which)))
      kib = strtoull(line + strlen(which), NULL, 10);
  if (file) fclose(file);
  return kib * 1024;
}

static inline int remove_all(const char *folder) {
  char command[100];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static inline void expect_message(const char *part) {
  if (!strstr(keel_message(), part))
    fail_msg("\"%s\" does not say \"%s\"", keel_message(), part);
}

/* Before a function that computes what a test wants, on data that no other thread sees:
 * ThreadSanitizer lets it be, which would watch it for most of the test's time. */
#define UNWATCHED __attribute__((no_sanitize("thread")))

/* The memory of a lost GPU is never freed, so a test that loses one looks for no leaks. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#define LEAKS_OFF() __lsan_disable()
#define LEAKS_ON()  __lsan_enable()
#else
#define LEAKS_OFF() (void)0
#define LEAKS_ON()  (void)0
#endif

#endif /* KEEL_TESTING_H */
