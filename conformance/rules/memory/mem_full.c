/* mem_full.c - launches on a device whose memory is full. */
#include "rules/kernels/kernel.h"
#include "rules/memory/mem.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

/* Buffers that fill the memory: from large ones to those that no kernel can do with less
 * than. */
static struct {
  kd_buffer *taken[1024];
  uint32_t count;
} full;

static bool mem_full_fill(void) {
  static const uint64_t sizes[] = {32 << 20, 1 << 20, 64 << 10, 4 << 10, 256};
  bool refused = false;
  full.count = 0;
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    uint32_t capacity = KC_COUNT_OF(full.taken) - full.count;
    full.count +=
        mem_exhaust(full.taken + full.count, capacity, sizes[i], &refused);
    if (!refused) return false; /* --max-memory comes first */
  }
  return true;
}

static void give_back(void) {
  while (full.count)
    mem_give(full.taken[--full.count]);
}

/* The first launch of an instance is the one that takes what it needs; what the host is
 * asked for is there before. */
static void launch_full(kc_op_case *one, kc_node *node,
                        const kd_kernel_def *def) {
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  if (node->dynamic) { /* its output would be the host's to make */
    kc_run_free(run);
    return;
  }
  if (def->workspace) {
    kc_ok(kc_run_now(run), "enqueue");
    kc_run_refill(run, &one->op);
  }
  mem_full_fill();
  kd_status status = kc_run_now(run);
  give_back();
  kc_check(status >= 0 && status <= KD_BUSY, "enqueue returned %d", status);
  if (status == KD_OK)
    kc_run_check(run, &one->op, node,
                 "though the device's memory was full, the launch returned"
                 " KD_OK, and an output");
  kc_run_refill(run, &one->op);
  kernel_run_and_compare(one, node, run,
                         "behind a launch that found the device's memory full,"
                         " an output");
  kc_run_free(run);
}

void mem_full_launch(void) {
  kc_unary unary;
  kc_device();
  bool is_full = mem_full_fill();
  give_back();
  if (!is_full)
    kc_unclaimed(
        "the device has more memory than --max-memory, which is %llu MiB",
        (unsigned long long)(kc.max_memory >> 20));
  kc_unary_need(100, &unary);
  kc_run *run = kc_unary_run(&unary);
  kc_ok(kc_run_now(run),
        "enqueue"); /* the stream of all that follow is there */
  kc_run_free(run);
  kc_unary_free(&unary);
  kc_each_op(NULL, launch_full, KD_F32, kernel_all_ops());
}
