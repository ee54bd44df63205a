/* on_devices.h - one op on each device that is there, CUDA's by the stand-ins, and in each
 * way in which an op is called. What includes it is built with the plugins' paths. */
#ifndef KEEL_TESTS_ON_DEVICES_H
#define KEEL_TESTS_ON_DEVICES_H

#include <stdlib.h>
#include <unistd.h>

#include "one_context.h"

static const char *const device_names[] = {"cpu:0", "opencl:0", "vulkan:0",
                                           "cuda:0"};

/* At once; in a plan; in one whose dimensions are open; of constants alone. */
typedef enum way { AT_ONCE, PLANNED, OPEN, FOLDED, WAYS } way;
static const char *const way_names[] = {"at once", "in a plan",
                                        "with open dimensions", "of constants"};

enum { MOST_IN = 7, MOST_OUT = 3 };

typedef struct call {
  const char *op;
  const keel_attr *attrs;
  uint32_t attr_count;
  keel_tensor *in[MOST_IN]; /* NULL: absent */
  uint32_t in_count, out_count;
} call;

/* Nights, which do all of the work (cmake/ci/world.sh). */
static inline bool in_the_world(void) {
  const char *world = getenv("KEEL_WORLD");
  return world && !strcmp(world, "1");
}

/* Drivers compile ops for minutes, more so under a sanitizer: there CUDA's stand-in has their
 * kernels. */
static inline bool takes_part(const char *plugin) {
#ifdef KEEL_SANITIZED
  if (!in_the_world() && strcmp(plugin, CPU_PLUGIN) != 0 &&
      strcmp(plugin, CUDA_PLUGIN) != 0)
    return false;
#endif
  return access(plugin, R_OK) == 0;
}

static inline int open_devices(bool with_f64) {
  static const char *const plugins[] = {CPU_PLUGIN, OPENCL_PLUGIN,
                                        VULKAN_PLUGIN, CUDA_PLUGIN};
  const char *options[4][4] = {{"cpu.regions=off"},
                               {with_f64 ? NULL : "opencl.f64=off"},
                               {with_f64 ? NULL : "vulkan.f64=off"},
                               {"cuda.driver=" STANDINS "/standin_driver.so",
                                "cuda.nvrtc=" STANDINS "/standin_nvrtc.so",
                                "cuda.cublaslt=off", "cuda.cudnn=off"}};
  const char *paths[4], *named[16];
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .plugins = paths,
                                .options = named,
                                .workers = 1};
  for (int i = 0; i < 4; i++) {
    if (!takes_part(plugins[i])) continue;
    paths[params.plugin_count++] = plugins[i];
    for (int k = 0; k < 4 && options[i][k]; k++)
      named[params.option_count++] = options[i][k];
  }
  expect_ok(keel_open(&params, &context));
  return 0;
}

static inline int open_all_devices(void **state) {
  (void)state;
  return open_devices(true);
}

/* OpenCL's and Vulkan's as if they could not compute in f64. */
static inline int open_without_f64(void **state) {
  (void)state;
  return open_devices(false);
}

static inline keel_value value_of_argument(keel_builder *b, keel_tensor *tensor,
                                           way how) {
  int64_t dims[KD_MAX_RANK];
  uint32_t rank = keel_tensor_rank(tensor);
  if (how == FOLDED) return keel_builder_constant(b, tensor);
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = how == OPEN ? -1 : keel_tensor_dims(tensor)[i];
  return keel_builder_input(b, "x", keel_tensor_dtype(tensor), rank, dims);
}

/* Three runs: the first, one that is laid out, and one like it. */
static inline keel_status run_plan(const call *c, keel_program *program,
                                   keel_device *device, way how,
                                   keel_tensor **out) {
  keel_tensor *in[MOST_IN];
  uint32_t count = 0;
  keel_plan *plan = NULL;
  keel_status status =
      keel_plan_create(program, PLAN_PARAMS(.device = device), &plan);
  for (uint32_t i = 0; i < c->in_count && how != FOLDED; i++)
    if (c->in[i]) in[count++] = c->in[i];
  for (int run = 0; run < 3 && status == KD_OK; run++) {
    if (run) release_all(out, c->out_count);
    status = keel_plan_run(plan, in, count, out, c->out_count);
  }
  keel_plan_release(plan);
  return status;
}

static inline keel_status call_planned(const call *c, keel_device *device,
                                       way how, keel_tensor **out) {
  keel_builder *b = create_builder(context, "one op");
  keel_value in[MOST_IN], made[MOST_OUT];
  keel_program *program = NULL;
  for (uint32_t i = 0; i < c->in_count; i++)
    in[i] = c->in[i] ? value_of_argument(b, c->in[i], how) : KEEL_ABSENT;
  keel_status status = keel_builder_op_n(b, c->op, c->attrs, c->attr_count, in,
                                         c->in_count, made, c->out_count);
  for (uint32_t i = 0; i < c->out_count && status == KD_OK; i++)
    status = keel_builder_output(b, "y", made[i]);
  if (status == KD_OK) status = keel_builder_finish(b, &program);
  keel_builder_destroy(b);
  if (status == KD_OK) status = run_plan(c, program, device, how, out);
  keel_program_release(program);
  return status;
}

/* Calls it, waits, and returns how it ended. */
static inline keel_status call_on(const call *c, keel_device *device, way how,
                                  keel_tensor **out) {
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < c->out_count; i++)
    out[i] = NULL;
  if (how == AT_ONCE) {
    keel_op *op = prepare_op(context, c->op, c->attrs, c->attr_count, device);
    status = keel_op_call(op, c->in, c->in_count, out, c->out_count);
    keel_op_release(op);
  } else {
    status = call_planned(c, device, how, out);
  }
  for (uint32_t i = 0; i < c->out_count && status == KD_OK; i++)
    status = keel_tensor_wait(out[i]);
  return status;
}

/* `check` looks at the outputs of each way on each device; of OpenCL and Vulkan, which have the
 * same kernels, at one in turn, in the world at both. */
static inline void call_everywhere(const call *c,
                                   void (*check)(void *want,
                                                 keel_tensor *const *out,
                                                 const char *where),
                                   void *want) {
  static unsigned calls;
  calls++;
  for (size_t d = 0; d < sizeof device_names / sizeof *device_names; d++) {
    keel_device *device = NULL;
    bool compiles = d == 1 || d == 2;
    if (compiles && (calls + d) % 2 && !in_the_world()) continue;
    if (keel_device_find(context, device_names[d], &device) != KD_OK) continue;
    for (way how = AT_ONCE; how < WAYS; how++) {
      char where[96];
      keel_tensor *out[MOST_OUT];
      snprintf(where, sizeof where, "%s on %s, %s", c->op, device_names[d],
               way_names[how]);
      if (call_on(c, device, how, out) != KD_OK)
        fail_msg("%s: %s", where, keel_message());
      check(want, out, where);
      release_all(out, c->out_count);
    }
  }
}

/* Each way on each device is refused, or fails, with this status and words. */
static inline void fails_everywhere(const call *c, keel_status status,
                                    const char *says) {
  for (size_t d = 0; d < sizeof device_names / sizeof *device_names; d++) {
    keel_device *device = NULL;
    if (keel_device_find(context, device_names[d], &device) != KD_OK) continue;
    for (way how = AT_ONCE; how < WAYS; how++) {
      keel_tensor *out[MOST_OUT];
      keel_status got = call_on(c, device, how, out);
      if (got != status || !strstr(keel_message(), says))
        fail_msg("%s on %s, %s: status %d, \"%s\"", c->op, device_names[d],
                 way_names[how], (int)got, got ? keel_message() : "");
      release_all(out, c->out_count);
    }
  }
}

/* ---- a result that is known byte by byte ------------------------------------------- */

typedef struct known {
  kd_dtype dtype;
  uint32_t rank;
  int64_t dims[4];
  const void *data;
} known;

/* want: a known, for each output. */
static inline void check_known(void *want, keel_tensor *const *out,
                               const char *where) {
  const known *k = want;
  unsigned char got[1 << 16];
  uint64_t size = keel_tensor_size(*out);
  bool fits = keel_tensor_dtype(*out) == k->dtype &&
              keel_tensor_rank(*out) == k->rank && size <= sizeof got;
  for (uint32_t i = 0; fits && i < k->rank; i++)
    fits = keel_tensor_dims(*out)[i] == k->dims[i];
  if (!fits) fail_msg("%s: not the type or shape", where);
  expect_ok(keel_tensor_read(*out, got, size));
  for (uint64_t i = 0; i < size; i++)
    if (got[i] != ((const unsigned char *)k->data)[i])
      fail_msg("%s: byte %llu is %02x, not %02x", where, (unsigned long long)i,
               got[i], ((const unsigned char *)k->data)[i]);
}

#endif /* KEEL_TESTS_ON_DEVICES_H */
