/* expand_test.c - ops that no device has a kernel for, written with simpler ones: their
 * numbers, where a plainer formula would lose them. */
#include <math.h>

#include "device/context.h"
#include "device/device.h"
#define WORKERS 0
#include "with_cpu.h"

#define MOST 4

typedef struct expansion {
  const char *op;
  const char *hidden; /* ops that no device has now */
  float x[MOST];      /* of shape [1, MOST] */
  double want[MOST];
  int count; /* of the result */
} expansion;

static const expansion expansions[] = {
    {"Softplus",
     "Softplus",
     {-30, -90, 100, 0.5f},
     {9.3576229688397e-14, 8.1940126239905e-40, 100, 0.9740769841801067},
     4},
    {"Mish",
     "Softplus Mish",
     {-30, 1, 100, -80},
     {-2.8072868906519e-12, 0.86509838826731, 100, -1.44388111e-33},
     4},
    {"Elu",
     "Elu",
     {-1.49011612e-7f, -1e-3f, -50, 3},
     {-1.4901160e-7, -9.9950021e-4, -1, 3},
     4},
    {"Elu", "Elu Tanh", {-1, 0, -50, 3}, {-0.63212055882856, 0, -1, 3}, 4},
    {"Celu",
     "Celu",
     {-1.49011612e-7f, -1e-3f, -50, 3},
     {-1.4901160e-7, -9.9950021e-4, -1, 3},
     4},
    {"LogSoftmax",
     "LogSoftmax",
     {0, -150, 10, 9.5f},
     {-10.4741052434, -160.4741052434, -0.4741052434, -0.9741052434},
     4},
    {"LogSoftmax",
     "LogSoftmax Neg Sub",
     {1000, 1000, 1000, 1000},
     {-1.3862943611, -1.3862943611, -1.3862943611, -1.3862943611},
     4},
    {"ReduceLogSumExp",
     "ReduceLogSumExp",
     {1000, 999, -INFINITY, 0},
     {1000.3132616875},
     1},
    {"ReduceLogSumExp",
     "ReduceLogSumExp",
     {-200, -200, -201, -1e30f},
     {-199.1380051959},
     1},
    {"ReduceLogSumExp",
     "ReduceLogSumExp",
     {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
     {-INFINITY},
     1},
    {"ReduceLogSumExp",
     "ReduceLogSumExp",
     {INFINITY, 0, 1, -INFINITY},
     {INFINITY},
     1},
};

/* Gives all ops of a list another name in the CPU's table, or their own again. */
static void rename_kernels(const char *list, bool hide) {
  static const char *const dash = "-";
  static struct {
    keel_kernel_list *at;
    const char *op;
  } hidden[MOST];
  char words[64], *save = NULL;
  int count = 0;
  snprintf(words, sizeof words, "%s", list);
  for (char *op = strtok_r(words, " ", &save); op;
       op = strtok_r(NULL, " ", &save), count++) {
    if (hide) {
      const keel_kernel_list *found =
          keel_device_kernels(keel_devices(context)[0], "ai.onnx", op);
      assert_non_null(found);
      hidden[count].at = (keel_kernel_list *)(uintptr_t)found;
      hidden[count].op = found->op;
    }
    hidden[count].at->op = hide ? dash : hidden[count].op;
  }
}

static void run(const expansion *e, float *out) {
  const int64_t dims[] = {1, MOST};
  keel_plan *plan = NULL;
  keel_tensor *x = NULL, *y = NULL;
  keel_builder *builder = create_builder(context, "it");
  keel_value in = keel_builder_input(builder, "x", KD_F32, 2, dims);
  keel_program *program =
      program_giving(builder, op(builder, e->op, in, KEEL_ABSENT));
  x = create_tensor(context, KD_F32, 2, dims, e->x);
  rename_kernels(e->hidden, true);
  keel_status status = keel_plan_create(program, NULL, &plan);
  rename_kernels(e->hidden, false);
  if (status != KD_OK || keel_plan_run(plan, &x, 1, &y, 1) != KD_OK)
    fail_msg("%s: %s", e->op, keel_message());
  expect_ok(keel_tensor_read(y, out, (size_t)e->count * sizeof *out));
  RELEASE(x, y, plan, program);
}

TEST_THAT(expansions_keep_their_digits) {
  for (size_t i = 0; i < sizeof expansions / sizeof *expansions; i++) {
    const expansion *e = &expansions[i];
    float got[MOST];
    run(e, got);
    for (int k = 0; k < e->count; k++) {
      double off = fabs((double)got[k] - e->want[k]);
      if ((double)got[k] != e->want[k] &&
          !(off <= 2e-6 * fabs(e->want[k]) + 1e-44))
        fail_msg("%s %zu: element %d is %.9g and should be %.9g", e->op, i, k,
                 (double)got[k], e->want[k]);
    }
  }
}

RUN_TESTS(open_cpu, close_context)
