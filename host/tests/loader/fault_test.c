/* fault_test.c - the fault layer: a failure of any slot, at any of its calls, while
 * models are loaded and run, ends in a clean error, or in the right result by
 * another way, without a leak; and what follows works. */
#include "testing.h"
#include "toy/toy.h"

#include "device/device.h"
#include "layers/layers.h"

#include <ftw.h>
#include <unistd.h>

#define DATA "/usr/share/libonnx-testdata/data/"
#ifdef KEEL_WITH_ONNX
#define CAN_READ true
#else
#define CAN_READ false
#endif

/* A model (NULL: two eager calls) on the first device of the first plugin; what
 * that has no kernel for falls to the second. */
typedef struct subject {
  const char *plugins[2];
  const char *model;
} subject;

static int remove_one(const char *path, const struct stat *facts, int kind,
                      struct FTW *walk) {
  (void)facts;
  (void)kind;
  (void)walk;
  return remove(path);
}

/* The store for compiled kernels is empty each time: both its services are used. */
static keel_context *open_faulty(const char *layers, const subject *s) {
  static const char store[] = TEST_FOLDER "/fault-store";
  nftw(store, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  setenv("XDG_CACHE_HOME", store, 1);
  keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, s->plugins,
            s->plugins[1] ? 2 : 1, .workers = 1);
  expect_ok(keel_layers_set(layers));
  keel_context *context = open_params(&params);
  return context;
}

/* ---- what runs ------------------------------------------------------------------ */

static keel_status run_eager(keel_context *context, float *sum) {
  int64_t dims[2] = {4, 4};
  float data[16], back[16] = {0};
  for (int i = 0; i < 16; i++)
    data[i] = (float)i - 8;
  keel_tensor *x = NULL, *y = NULL, *z = NULL;
  keel_status status = keel_tensor_create(context, KD_F32, 2, dims, data, &x);
  if (status == KD_OK)
    status = keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1);
  keel_tensor *both[2] = {x, y};
  if (status == KD_OK)
    status = keel_call(context, "Add", NULL, 0, both, 2, &z, 1);
  if (status == KD_OK) status = keel_tensor_read(z, back, sizeof back);
  for (int i = 0; i < 16; i++)
    *sum += back[i] * (float)(i + 1);
  RELEASE(x, y, z);
  return status;
}

/* An input of the model: 1, 2, 3 and again, whatever its type. */
static keel_status make_input(keel_context *context, keel_program *program,
                              uint32_t index, keel_tensor **out) {
  static float floats[1 << 14];
  static int64_t longs[1 << 14];
  keel_port port;
  int64_t dims[KD_MAX_RANK], count = 1;
  keel_program_input(program, index, &port);
  for (uint32_t k = 0; k < port.rank; k++) {
    dims[k] = port.dims[k] < 0 ? 2 : port.dims[k];
    count *= dims[k];
  }
  assert_true(count <= 1 << 14);
  for (int i = 0; i < 1 << 14; i++) {
    floats[i] = (float)(i % 3 + 1);
    longs[i] = i % 3 + 1;
  }
  return keel_tensor_create(context, port.dtype, port.rank, dims,
                            port.dtype == KD_F32 ? (void *)floats : longs, out);
}

static float sum_of(keel_tensor *tensor, keel_status *status) {
  float sum = 0;
  for (int64_t i = 0; i < keel_sequence_length(tensor); i++) {
    keel_tensor *item = NULL;
    *status = keel_sequence_at(tensor, i, &item);
    if (*status == KD_OK) sum += sum_of(item, status);
    keel_tensor_release(item);
  }
  if (keel_sequence_length(tensor) >= 0) return sum;
  uint64_t size = keel_tensor_size(tensor);
  bool real = keel_tensor_dtype(tensor) == KD_F32;
  uint8_t *data = calloc(1, size + 1);
  *status = keel_tensor_read(tensor, data, size);
  for (uint64_t i = 0; i < size / (real ? 4 : 1); i++)
    sum += (real ? ((float *)(void *)data)[i] : (float)data[i]) *
           (float)(i % 7 + 1);
  free(data);
  return sum;
}

static keel_status run_program(keel_context *context, const char *path,
                               float *sum) {
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_tensor *in[8] = {0}, *out[8] = {0};
  keel_status status = keel_program_load(context, path, &program);
  uint32_t n = status == KD_OK ? keel_program_input_count(program) : 0;
  uint32_t m = status == KD_OK ? keel_program_output_count(program) : 0;
  assert_true(n <= 8 && m <= 8);
  if (status == KD_OK) status = keel_plan_create(program, NULL, &plan);
  for (uint32_t i = 0; i < n && status == KD_OK; i++)
    status = make_input(context, program, i, &in[i]);
  if (status == KD_OK) status = keel_plan_run(plan, in, n, out, m);
  for (uint32_t i = 0; i < m && status == KD_OK; i++)
    *sum += sum_of(out[i], &status);
  for (int i = 0; i < 8; i++) {
    RELEASE(in[i], out[i]);
  }
  RELEASE(plan, program);
  return status;
}

/* Another device may round otherwise. */
static bool same(float a, float b) {
  return a - b <= 1e-4f * (b > 0 ? b : -b) && b - a <= 1e-4f * (b > 0 ? b : -b);
}

static keel_status run(keel_context *context, const subject *s, float *sum) {
  keel_device *device = keel_device_at(context, 0);
  *sum = 0;
  if (!device) return KD_NOT_FOUND;
  keel_device_push(device);
  keel_status status =
      s->model ? run_program(context, s->model, sum) : run_eager(context, sum);
  keel_device_pop();
  return status;
}

/* ---- faults at every slot ---------------------------------------------------------- */

/* What fails while a plugin or device is opened stays so; the rest is tried anew. */
static bool lasts(const char *slot) {
  return !strncmp(slot, "plugin.", 7) || !strcmp(slot, "host.option") ||
         !strcmp(slot, "stream.create") || !strcmp(slot, "host.allocate");
}

static const char *name_of(const subject *s) {
  return s->model ? s->model : "eager calls";
}

/* The n-th call of a slot where a stream is full says so, for n = 1 until it is not called
 * so often: the run does not notice. Returns how often it was. */
static uint32_t fill_at_each_call(const char *slot, const subject *s,
                                  float want) {
  for (uint32_t n = 1; n < 3000; n++) {
    char layers[100];
    float sum = 0;
    snprintf(layers, sizeof layers, "fault:%s=%u:BUSY", slot, n);
    keel_context *context = open_faulty(layers, s);
    if (run(context, s, &sum) != KD_OK || !same(sum, want))
      fail_msg("%s, call %u on %s: %s", slot, n, s->plugins[0], keel_message());
    bool struck = keel_layers_faults() > 0;
    keel_close(context);
    if (!struck) return n - 1;
  }
  fail_msg("%s is called without end", slot);
  return 0;
}

/* The n-th call of the slot fails, for n = 1 until it is not called so often.
 * Returns how often it was. */
static uint32_t fail_each_call(const char *slot, const subject *s, float want) {
  for (uint32_t n = 1; n < 3000; n++) {
    char layers[100];
    float sum = 0;
    snprintf(layers, sizeof layers, "fault:%s=%u:UNAVAILABLE", slot, n);
    keel_context *context = open_faulty(layers, s);
    keel_status status = run(context, s, &sum);
    bool struck = keel_layers_faults() > 0;
    if (status == KD_OK && !same(sum, want))
      fail_msg("%s, call %u, %s: a wrong result", slot, n, name_of(s));
    if (status != KD_OK && (!struck || !*keel_message()))
      fail_msg("%s, call %u, %s: %s, and nothing is said", slot, n, name_of(s),
               kd_status_name(status));
    if (struck && !lasts(slot) &&
        (run(context, s, &sum) != KD_OK || !same(sum, want)))
      fail_msg("%s, call %u, %s: the next run is no good: %s", slot, n,
               name_of(s), keel_message());
    keel_close(context);
    if (!struck) return n - 1;
  }
  fail_msg("%s is called without end", slot);
  return 0;
}

TEST_THAT(a_failure_at_any_slot_ends_cleanly) {
  static const char *const slots[] = {
      "plugin.open",      "plugin.device_info", "plugin.device_open",
      "memory.allocate",  "memory.copy_in",     "memory.copy_out",
      "stream.create",    "stream.synchronize", "stream.wait",
      "stream.flush",     "event.create",       "event.record",
      "event.wait",       "event.on_complete",  "kernel.supports",
      "kernel.create",    "kernel.enqueue",     "host.allocate",
      "host.option",      "host.constant",      "host.set_output",
      "host.attr_tensor", "host.cache_get",     "host.cache_put"};
  static const subject subjects[] = {
      {{CPU_PLUGIN}, NULL},
      {{MINIMAL_PLUGIN}, NULL},
      {{TOY("queue")}, NULL},
      {{TOY("echo")}, NULL},
      {{CPU_PLUGIN}, DATA "pytorch-converted/test_Conv2d_padding/model.onnx"},
      {{CPU_PLUGIN}, DATA "pytorch-converted/test_BatchNorm2d_eval/model.onnx"},
      {{CPU_PLUGIN}, DATA "pytorch-converted/test_Linear/model.onnx"},
      {{CPU_PLUGIN}, DATA "pytorch-operator/test_operator_chunk/model.onnx"},
      {{CPU_PLUGIN}, DATA "pytorch-operator/test_operator_maxpool/model.onnx"},
      {{CPU_PLUGIN}, DATA "simple/test_sequence_model4/model.onnx"},
      {{CPU_PLUGIN}, DATA "node/test_nonzero_example/model.onnx"},
      {{CPU_PLUGIN}, DATA "node/test_if/model.onnx"},
      {{CPU_PLUGIN}, DATA "node/test_loop11/model.onnx"},
      {{CPU_PLUGIN}, DATA "node/test_constantofshape_float_ones/model.onnx"},
      {{CPU_PLUGIN}, DATA "node/test_scan9_sum/model.onnx"},
      {{TOY("queue"), CPU_PLUGIN},
       DATA "pytorch-operator/test_operator_params/model.onnx"},
      {{TOY("queue"), CPU_PLUGIN},
       DATA "pytorch-converted/test_Linear/model.onnx"},
      {{TOY("queue"), CPU_PLUGIN},
       DATA "pytorch-operator/test_operator_add_broadcast/model.onnx"},
      {{TOY("queue"), CPU_PLUGIN},
       DATA "node/test_softplus_expanded/model.onnx"},
      {{TOY("queue"), CPU_PLUGIN},
       DATA "node/test_relu_expanded_ver18/model.onnx"},
      {{TOY("queue"), CPU_PLUGIN}, DATA "node/test_celu_expanded/model.onnx"},
      {{TOY("echo"), CPU_PLUGIN},
       DATA "pytorch-converted/test_Linear/model.onnx"},
#ifdef SIM_PLUGIN
      {{SIM_PLUGIN}, NULL},
      {{SIM_PLUGIN, CPU_PLUGIN},
       DATA "pytorch-operator/test_operator_params/model.onnx"},
      {{SIM_PLUGIN, CPU_PLUGIN},
       DATA "pytorch-converted/test_Linear/model.onnx"},
#endif
  };
  uint32_t strikes[KEEL_COUNT_OF(slots)] = {0};
  for (size_t p = 0; p < KEEL_COUNT_OF(subjects); p++) {
    const subject *s = &subjects[p];
    float want = 0;
    if (s->model && (!CAN_READ || access(s->model, R_OK) != 0)) continue;
    keel_context *context = open_faulty("", s);
    if (run(context, s, &want) != KD_OK)
      fail_msg("%s: %s", s->model, keel_message());
    keel_close(context);
    for (size_t i = 0; i < KEEL_COUNT_OF(slots); i++)
      strikes[i] += fail_each_call(slots[i], s, want);
  }
  for (size_t i = 0; i < KEEL_COUNT_OF(slots); i++) {
    print_message("%-20s failed %u times\n", slots[i], strikes[i]);
    bool needs_models = !strcmp(slots[i], "host.set_output") ||
                        !strcmp(slots[i], "host.constant") ||
                        !strcmp(slots[i], "host.attr_tensor") ||
                        !strcmp(slots[i], "kernel.create") ||
                        !strcmp(slots[i], "stream.wait");
    bool needs_sim = !strcmp(slots[i], "stream.flush") ||
                     !strncmp(slots[i], "host.cache", 10);
#ifdef SIM_PLUGIN
    needs_sim = false;
#endif
    if (!strikes[i] && !needs_sim &&
        (!needs_models || (CAN_READ && !access(DATA, R_OK))))
      fail_msg("%s is never called", slots[i]);
  }
  expect_ok(keel_layers_set(""));
}

TEST_THAT(a_full_stream_is_no_failure) {
  static const char *const slots[] = {"kernel.enqueue", "memory.copy_in",
                                      "event.record"};
  static const subject subjects[] = {
      {{TOY("queue")}, NULL},
      {{TOY("echo")}, NULL},
#ifdef SIM_PLUGIN
      {{SIM_PLUGIN}, NULL},
#endif
  };
  uint32_t strikes[KEEL_COUNT_OF(slots)] = {0};
  for (size_t p = 0; p < KEEL_COUNT_OF(subjects); p++) {
    float want = 0;
    keel_context *context = open_faulty("", &subjects[p]);
    expect_ok(run(context, &subjects[p], &want));
    keel_close(context);
    for (size_t i = 0; i < KEEL_COUNT_OF(slots); i++)
      strikes[i] += fill_at_each_call(slots[i], &subjects[p], want);
  }
  for (size_t i = 0; i < KEEL_COUNT_OF(slots); i++)
    print_message("%-20s was full %u times\n", slots[i], strikes[i]);
  assert_true(strikes[0] && strikes[1] && strikes[2]);
  expect_ok(keel_layers_set(""));
}

#ifdef SIM_PLUGIN
/* NonZero asks for memory while it is enqueued, when nothing can be waited for. */
TEST_THAT(a_sized_output_takes_what_is_pooled) {
  const int64_t many = 60000, more = 100000;
  const char *path = SIM_PLUGIN;
  float *ones = calloc((size_t)more, sizeof *ones);
  keel_status last = KD_OK;
  uint32_t fitted = 0, failed = 0;
  assert_non_null(ones);
  for (int64_t i = 0; i < more; i++)
    ones[i] = 1;
  for (uint64_t limit = 1000000; limit < 2600000; limit += 40000) {
    const keel_context_params params =
        OPENS(KEEL_ONLY_NAMED, &path, 1, .memory_limit = limit);
    keel_tensor *x = NULL, *big = NULL, *y = NULL;
    keel_context *context = open_params(&params);
    expect_ok(keel_device_push(keel_device_at(context, 0)));
    keel_tensor_create(context, KD_F32, 1, &many, ones, &x);
    keel_tensor_create(context, KD_F32, 1, &more, ones, &big);
    assert_true(x && big);
    /* leaves pooled memory of a size that NonZero does not ask for */
    if (keel_call(context, "Relu", NULL, 0, &big, 1, &y, 1) == KD_OK)
      keel_tensor_release(y);
    keel_tensor_release(big);
    y = NULL;
    last = keel_call(context, "NonZero", NULL, 0, &x, 1, &y, 1);
    assert_true(last == KD_OK || last == KD_OUT_OF_MEMORY);
    if (last == KD_OK)
      assert_int_equal(keel_tensor_elements(y), many);
    else
      assert_null(y);
    *(last == KD_OK ? &fitted : &failed) += 1;
    RELEASE(y, x);
    keel_device_pop();
    keel_close(context);
  }
  assert_true(failed && fitted && last == KD_OK);
  free(ones);
}
#endif

RUN_TESTS(NULL, NULL)
