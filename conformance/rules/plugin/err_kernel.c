/* err_kernel.c - kernels that get no host memory, when they are made and when they run. */
#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/plugin/err.h"
#include "rules/rules.h"

/* Allocations of one call that are made to fail, one at a time. */
static uint32_t most(void) {
  return kc.quick ? 4 : 16;
}

/* The n-th allocation of `create` fails: an error, or an instance that works. Whether
 * there were as many. */
static bool short_create(kc_op_case *one, kc_node *node,
                         const kd_kernel_def *def, uint32_t n) {
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  kd_kernel *own = run->kernel, *made = NULL;
  atomic_store(&kc_host.allocations, 0);
  atomic_store(&kc_host.fail_at, n);
  kd_status status =
      KC_CALL(kd_status, def->create(kc_device(), def, &node->node, &made),
              "%s.create", def->op);
  bool failed = atomic_load(&kc_host.allocations) >= n;
  atomic_store(&kc_host.fail_at, 0);
  kc_check(
      status == KD_OK || (status > 0 && status <= KD_BUSY && *kc_message()),
      "with allocation %u failing, create returned %s without a message", n,
      kd_status_name(status));
  if (status == KD_OK) {
    run->kernel = made;
    if (failed) /* it went on without */
      kernel_run_and_compare(one, node, run,
                             "though an allocation of create had failed, it"
                             " returned KD_OK; then an output");
    if (made) def->destroy(made);
    run->kernel = own;
  }
  kc_run_free(run);
  return failed;
}

/* The same of `enqueue` and of the work until it is done; and the instance works
 * afterwards. */
static bool short_launch(kc_op_case *one, kc_node *node, kc_run *run,
                         uint32_t n) {
  char what[120];
  run->fail_at = n;
  kd_status status = kc_run_now(run);
  bool failed = atomic_load(&kc_host.allocations) >= n;
  run->fail_at = 0;
  kc_check(status >= 0 && status <= KD_BUSY, "enqueue returned %d", status);
  snprintf(what, sizeof what,
           "though allocation %u failed, the launch returned KD_OK, and an"
           " output",
           n);
  if (status == KD_OK) kc_run_check(run, &one->op, node, what);
  if (!node->dynamic && failed) {
    kc_run_refill(run, &one->op);
    kernel_run_and_compare(one, node, run,
                           "behind a launch that got no memory, an output");
    kc_run_refill(run, &one->op);
  }
  return failed;
}

static void short_launches(kc_op_case *one, kc_node *node,
                           const kd_kernel_def *def) {
  bool failed = true;
  kc_run *run = NULL;
  for (uint32_t n = 1; n <= most() && failed; n++) {
    if (!run) run = kc_run_of(node, def, &one->op, &kc_plain);
    failed = short_launch(one, node, run, n);
    if (!node->dynamic) continue;
    kc_run_free(run); /* its outputs are set once */
    run = NULL;
  }
  kc_run_free(run);
}

/* All that create does is tried with some ops; others get their instance first of all. */
static bool thorough(const char *op) {
  static const char *const ops[] = {"Relu", "MatMul", "Softmax", "Transpose",
                                    "ReduceSum"};
  for (size_t i = 0; i < KC_COUNT_OF(ops); i++)
    if (!strcmp(op, ops[i])) return true;
  return false;
}

static void def_alloc_fail(kc_op_case *one, kc_node *node,
                           const kd_kernel_def *def) {
  uint32_t creates = thorough(def->op) ? most() : 3;
  for (uint32_t n = 1; def->create && n <= creates; n++)
    if (!short_create(one, node, def, n)) break;
  short_launches(one, node, def);
}

static void def_launch_fail(kc_op_case *one, kc_node *node,
                            const kd_kernel_def *def) {
  kc_check(true, " ");
  short_launches(one, node, def);
}

/* Whether some definition of the op says that it takes f16. */
static bool has_f16(const kd_kernel_def *def) {
  bool has = false;
  for (uint32_t i = 0; i < kp.kernel_count && !has; i++)
    has = !strcmp(kp.kernels[i].op, def->op) &&
          (kp.kernels[i].input_types[0] & KD_TYPES(KD_F16));
  return has;
}

void err_alloc_fail_kernel(void) {
  kc_each_op(NULL, def_alloc_fail, KD_F32, kernel_all_ops());
  kc_each_op(has_f16, def_launch_fail, KD_F16, kernel_all_ops());
  if (!kc.only && kc_case("smoke")) kc_smoke();
}
