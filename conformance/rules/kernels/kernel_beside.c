/* kernel_beside.c - instances that run at the same time, and results that must not depend on
 * what else runs. */
#include <math.h>
#include <sched.h>

#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

/* ---- instances of one op, each in a thread of its own ------------------------------------ */

#define THREADS 4u

typedef struct beside {
  kc_op_case one;
  kc_node *node;
  kc_run *run;
  kd_stream *stream;
  value *alone[KC_PORTS]; /* outputs of a launch beside which nothing ran */
  atomic_uint *arrived;
} beside;

static bool same_bits(const value *a, const value *b) {
  for (int64_t i = 0; i < a->count; i++)
    if (a->x[i] != b->x[i] && !(isnan(a->x[i]) && isnan(b->x[i]))) return false;
  return true;
}

/* Whether all outputs are what they were alone; else they must be near what is right. */
static bool beside_check(beside *b) {
  bool same = true;
  for (uint32_t j = 0; j < b->one.op.out_count && same; j++) {
    value *got = b->alone[j] ? kc_run_output(b->run, j) : NULL;
    same = !got || same_bits(got, b->alone[j]);
    value_free(got);
  }
  if (!same)
    kc_run_check(b->run, &b->one.op, b->node,
                 "beside launches of the same op in other threads, an output"
                 " (do instances share scratch memory?)");
  return same;
}

static void wait_for_all(atomic_uint *arrived) {
  uint64_t begin = kc_now();
  atomic_fetch_add(arrived, 1);
  while (atomic_load(arrived) < THREADS && kc_now() - begin < KC_S)
    sched_yield();
}

/* Some launches at least, and as many as some milliseconds hold: they must meet. */
static void launch_beside(void *context, uint32_t index) {
  beside *b = (beside *)context + index;
  uint64_t begin = 0;
  wait_for_all(b->arrived);
  begin = kc_now();
  for (int i = 0; i < 8 || (i < 400 && kc_now() - begin < 4 * KC_MS); i++) {
    kd_status status = kc_run_enqueue(b->run, b->stream);
    if (b->stream && status == KD_OK) status = kc_finish(b->stream);
    if (!kc_check(status == KD_OK, "a launch beside others returned %s",
                  kd_status_name(status)) ||
        !beside_check(b))
      break;
  }
}

static bool beside_make(beside *b, const kc_op_case *from, uint32_t values,
                        const kd_kernel_def *def) {
  b->one = kernel_other_values(from, def->host_inputs, values);
  b->node = kc_node_make(&b->one.op, NULL, 0);
  if (!b->node || kc_def_for(b->node) != def) return false;
  b->run = kc_run_of(b->node, def, &b->one.op, &kc_plain);
  kernel_run_and_compare(&b->one, b->node, b->run, "a launch alone");
  for (uint32_t j = 0; j < from->op.out_count; j++)
    b->alone[j] = kc_run_output(b->run, j);
  b->stream = kc_stream_or_none();
  return true;
}

static void beside_free(beside *b) {
  if (b->stream) kc_stream_free(b->stream);
  kc_values_free(b->alone, KC_PORTS);
  kc_run_free(b->run);
  kc_node_free(b->node);
  kc_case_free(&b->one);
}

static void def_beside(kc_op_case *one, kc_node *node,
                       const kd_kernel_def *def) {
  beside all[THREADS] = {0};
  atomic_uint arrived = 0;
  bool made = !node->dynamic;
  kc_check(true, " ");
  for (uint32_t i = 0; i < THREADS && made; i++) {
    all[i].arrived = &arrived;
    made = beside_make(&all[i], one, i, def);
  }
  if (made) kc_threads(THREADS, launch_beside, all);
  for (uint32_t i = 0; i < THREADS; i++)
    beside_free(&all[i]);
}

/* Of the cases of an op, one that takes long enough to meet another. */
static uint32_t by_size(const kc_op_case *one) {
  uint64_t size = 0;
  for (uint32_t i = 0; i < one->op.in_count; i++)
    if (one->op.in[i]) size += (uint64_t)one->op.in[i]->count;
  return size > 3000 ? 0 : (uint32_t)size + 1;
}

void kernel_concurrent_instances(void) {
  kc_each_best(NULL, by_size, def_beside, KD_F32, kernel_all_ops());
}

/* ---- equal bits ------------------------------------------------------------------------------ */

static atomic_bool ended;

/* Takes a processor from the plugin's threads, at times. */
static void *neighbour(void *unused) {
  volatile uint32_t sink = 0;
  (void)unused;
  while (!atomic_load(&ended)) {
    for (uint32_t i = 0; i < 200000; i++)
      sink = sink + i;
    kc_sleep(KC_MS / 5);
  }
  return NULL;
}

static void equal_bits(kc_run *run, int times) {
  value *first = NULL;
  for (int i = 0; i < times; i++) {
    kc_ok(kc_run_now(run), "run");
    value *got = kc_run_output(run, 0);
    for (int64_t k = 0; first && k < got->count; k++)
      if (got->x[k] != first->x[k] && !isnan(got->x[k])) {
        kc_check(false, "in run %d element %lld is %.10Lg, and was %.10Lg",
                 i + 1, (long long)k, got->x[k], first->x[k]);
        i = times;
        break;
      }
    if (first)
      value_free(got);
    else
      first = got;
  }
  value_free(first);
}

static void def_deterministic(kc_op_case *one, kc_node *node,
                              const kd_kernel_def *def) {
  kc_check(true, " ");
  if (node->dynamic || (def->flags & KD_KERNEL_NONDETERMINISTIC)) return;
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  equal_bits(run, 5);
  kc_run_free(run);
}

/* Sums that a device splits. */
typedef struct long_sum {
  const char *op;
  int64_t dims[2], other[2]; /* other[0] 0: no second factor */
  int64_t axis;              /* in a list, for reductions; -1: none */
} long_sum;

static const long_sum long_sums[] = {
    {"ReduceSum", {1, 1 << 16}, {0}, 1},
    {"MatMul", {3, 8192}, {8192, 5}, -1},
    {"ReduceMean", {1 << 16, 3}, {0}, 0},
    {"Softmax", {2, 1 << 16}, {0}, -1},
    {"ReduceSum", {1, 1 << 20}, {0}, 1},
    {"ReduceL2", {1 << 18, 2}, {0}, 0},
    {"MatMul", {64, 8192}, {8192, 2}, -1},
    {"LogSoftmax", {1, 1 << 18}, {0}, -1},
};

static void try_sum(const long_sum *sum) {
  kc_random random = kc_seed();
  kc_op_case one = kc_case_floats(sum->op, 1, 2, sum->dims, &random);
  if (sum->other[0]) kc_case_add(&one, kc_floats(2, sum->other, &random));
  if (sum->axis >= 0) {
    value *axes = value_make(KD_I64, 1, (const int64_t[]){1});
    axes->x[0] = sum->axis;
    kc_case_add(&one, axes);
  }
  kc_node *node = kc_node_make(&one.op, NULL, 0);
  const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
  bool tried = def && !(def->flags & KD_KERNEL_NONDETERMINISTIC);
  if (tried) {
    pthread_t thread;
    kc_run *run = kc_run_of(node, def, &one.op, &kc_plain);
    atomic_store(&ended, false);
    bool beside = pthread_create(&thread, NULL, neighbour, NULL) == 0;
    equal_bits(run, kc.quick ? 6 : 20);
    atomic_store(&ended, true);
    if (beside) pthread_join(thread, NULL);
    kc_run_free(run);
  }
  kc_node_free(node);
  kc_case_free(&one);
  if (!tried) kc_unclaimed("it has no deterministic f32 %s", sum->op);
  kc_check(true, " ");
}

void kernel_deterministic(void) {
  kc_each_op(NULL, def_deterministic, KD_F32, kernel_all_ops());
  for (size_t i = 0; i < KC_COUNT_OF(long_sums) && !kc.op; i++)
    if ((i < 3 || !kc.quick) &&
        kc_case("long=%s,dims=%lldx%lld", long_sums[i].op,
                (long long)long_sums[i].dims[0],
                (long long)long_sums[i].dims[1]))
      try_sum(&long_sums[i]);
}
