/* again.c - each op before its device, or the plugin, is closed, and when it is open again. */
#include <math.h>

#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

/* What is closed: the device, or the plugin, too. */
static bool whole;
/* For how many more ops that is done; few where it takes long. */
static uint32_t left;
#define FEW 6

/* Closes and opens; memory that was freed meanwhile is not where it is looked for. */
static void open_again(void) {
  enum { BLOCKS = 64 };
  void *blocks[BLOCKS];
  kc_close_devices();
  if (whole) kc_close();
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t size = (size_t)24 << i % 12;
    blocks[i] = kc_take(size);
    memset(blocks[i], 0xdd, size);
  }
  kc_device();
  for (size_t i = 0; i < BLOCKS; i++)
    free(blocks[i]);
}

/* The outputs of a launch of a fresh instance. */
static void launch_fresh(kc_op_case *one, kc_node *node,
                         const kd_kernel_def *def, const char *what,
                         value **out) {
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  kernel_run_and_compare(one, node, run, what);
  for (uint32_t j = 0; j < one->op.out_count; j++)
    out[j] = kc_run_output(run, j);
  kc_run_free(run);
}

static void check_equal(const value *before, const value *after, uint32_t j) {
  for (int64_t i = 0; before && after && i < before->count; i++) {
    if (i < after->count && (before->x[i] == after->x[i] ||
                             (isnan(before->x[i]) && isnan(after->x[i]))))
      continue;
    kc_check(false,
             "output %u, element %lld: %.10Lg before it was closed, and"
             " %.10Lg when it was open again",
             j, (long long)i, before->x[i],
             i < after->count ? after->x[i] : NAN);
    return;
  }
}

static void def_again(kc_op_case *one, kc_node *node,
                      const kd_kernel_def *def) {
  value *before[KC_PORTS] = {0}, *after[KC_PORTS] = {0};
  uint64_t begin = kc_now();
  kc_check(true, " ");
  if (!left) return;
  left--;
  launch_fresh(one, node, def, "a launch before it was closed", before);
  open_again();
  launch_fresh(one, node, def, "a launch when it was open again", after);
  for (uint32_t j = 0; j < one->op.out_count && j < KC_PORTS; j++)
    if (!(def->flags & KD_KERNEL_NONDETERMINISTIC))
      check_equal(before[j], after[j], j);
  kc_values_free(before, KC_PORTS);
  kc_values_free(after, KC_PORTS);
  if ((double)(kc_now() - begin) > 1e8 * kc.factor && left > FEW) left = FEW;
}

void kc_ops_again(bool plugin) {
  whole = plugin;
  left = kernel_all_ops();
  kc_each_op(NULL, def_again, KD_F32, kernel_all_ops());
}
