/* kernel_launch.c - launches: what an instance reads and writes, where, and with whom at once. */
#include <math.h>

#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

void kernel_run_and_compare(kc_op_case *one, kc_node *node, kc_run *run,
                            const char *what) {
  kd_status status = kc_run_now(run);
  kc_check(status == KD_OK, "%s: %s: %s", what, kd_status_name(status),
           kc_message());
  if (status == KD_OK) kc_run_check(run, &one->op, node, what);
}

kc_op_case kernel_other_values(const kc_op_case *one, uint32_t host_inputs,
                               uint32_t how) {
  kc_op_case other = {.op = one->op};
  for (uint32_t i = 0; i < one->op.in_count; i++) {
    if (!one->op.in[i]) continue;
    value *v = other.own[i] = value_copy(one->op.in[i]);
    other.op.in[i] = v;
    int64_t n = v->count;
    if (!n || (i < 32 && (host_inputs >> i & 1))) continue;
    for (int64_t k = 0; k < n / 2 && (how & KERNEL_TURNED); k++) {
      real kept = v->x[k];
      v->x[k] = v->x[n - 1 - k];
      v->x[n - 1 - k] = kept;
    }
    if (!dtype_is_float(v->dtype)) continue;
    for (int64_t k = 0; k < n && (how & KERNEL_DOUBLED); k++)
      v->x[k] = dtype_round(v->x[k] * 2, v->dtype);
    if (how & KERNEL_LAST)
      v->x[n - 1] =
          v->x[n - 1] == 0 ? 1 : dtype_round(v->x[n - 1] * 2, v->dtype);
  }
  return other;
}

/* The same with an instance of its own, laid out so. */
static void run_laid(kc_op_case *one, kc_node *node, const kd_kernel_def *def,
                     const kc_layout *layout, const char *what) {
  kc_run *run = kc_run_of(node, def, &one->op, layout);
  kernel_run_and_compare(one, node, run, what);
  kc_run_free(run);
}

/* One instance again and again, with other data. */
static void def_reuse(kc_op_case *one, kc_node *node,
                      const kd_kernel_def *def) {
  if (node->dynamic) {
    kc_check(true, " ");
    return;
  }
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  for (int i = 0; i < 4; i++) {
    kernel_run_and_compare(one, node, run,
                           i ? "a later run of one instance" : "the first run");
    /* other data of the first input, where its values may be any */
    value *x = one->own[0];
    bool free_values = dtype_is_float(x->dtype) && !(def->host_inputs & 1);
    for (int64_t k = 0; k < x->count && free_values; k++)
      if (x->x[k] == floorl(x->x[k]) && fabsl(x->x[k]) < 9)
        x->x[k] = x->x[x->count - 1 - k];
    kc_run_refill(run, &one->op);
  }
  kc_run_free(run);
}

/* One instance that says that it takes any shape. */
static void unary_of_any_shape(void) {
  kc_unary unary;
  kc_unary_need(37, &unary);
  if (!(unary.def->flags & KD_KERNEL_ANY_SHAPE)) {
    const char *op = unary.def->op; /* the plugin's own text */
    kc_unary_free(&unary);
    kc_unclaimed("%s is not KD_KERNEL_ANY_SHAPE", op);
  }
  kd_kernel *kernel = NULL;
  if (unary.def->create)
    kc_ok(unary.def->create(kc_device(), unary.def, &unary.node->node, &kernel),
          "create");
  static const int64_t sizes[] = {37, 1, 1000, 0, 5, 64, 63};
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    kc_unary other;
    kc_unary_need(sizes[i], &other);
    kc_run *run = kc_run_of(other.node, unary.def, &other.op, &kc_plain);
    kd_kernel *own = run->kernel;
    run->kernel = kernel; /* the one that was made for another shape */
    kc_op_case one = {.op = other.op};
    kernel_run_and_compare(&one, other.node, run,
                           "an instance of another shape");
    run->kernel = own;
    kc_run_free(run);
    kc_unary_free(&other);
  }
  if (kernel) unary.def->destroy(kernel);
  kc_unary_free(&unary);
}

/* The same with `more` further rows of input 0. False where it has none. */
static bool lengthen(kc_op_case *one, int64_t more) {
  const value *x = one->own[0];
  int64_t dims[KD_MAX_RANK];
  if (!x || !x->rank || !x->count) return false;
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[0] += more;
  value *longer = value_make(x->dtype, x->rank, dims);
  for (int64_t i = 0; i < longer->count; i++)
    longer->x[i] = x->x[i % x->count];
  value_free(one->own[0]);
  one->own[0] = longer;
  one->op.in[0] = longer;
  return true;
}

/* An instance of a case whose input 1 is constant runs one with more rows of input 0. */
static bool rows_of_any_shape(kc_op_case *one, kc_op_case *other,
                              const kd_kernel_def *def) {
  kc_node *node = kc_node_make(&one->op, NULL, 0);
  kc_node *longer = kc_node_make(&other->op, NULL, 0);
  bool tried = node && longer && !node->dynamic && kc_def_for(node) == def &&
               kc_def_for(longer) == def;
  if (tried) {
    kc_run *first = kc_run_of(node, def, &one->op, &kc_plain);
    kc_run *second = kc_run_of(longer, def, &other->op, &kc_plain);
    kd_kernel *own = second->kernel;
    kernel_run_and_compare(one, node, first, "an instance with a constant");
    second->kernel = first->kernel;
    kernel_run_and_compare(other, longer, second,
                           "the instance of fewer rows, with the constant");
    second->kernel = own;
    kernel_run_and_compare(one, node, first, "fewer rows again");
    kc_run_free(second);
    kc_run_free(first);
  }
  kc_node_free(node);
  kc_node_free(longer);
  return tried;
}

static void constants_of_any_shape(const kd_kernel_def *def) {
  uint32_t count = kc_case_count(def->domain, def->op), tried = 0;
  for (uint32_t c = 0; c < count && tried < (kc.quick ? 1u : 4u); c++)
    for (int64_t more = 1; more < 40; more += 38) {
      kc_op_case one, other;
      if (!kc_case_ints(def->domain, def->op, c, c + 3, &one)) continue;
      kc_case_ints(def->domain, def->op, c, c + 3, &other);
      one.op.constants = other.op.constants = 2;
      if (one.op.in_count > 1 && lengthen(&other, more))
        tried += rows_of_any_shape(&one, &other, def);
      kc_case_free(&one);
      kc_case_free(&other);
    }
}

void kernel_any_shape(void) {
  kc_device();
  if (kc_case("unary")) unary_of_any_shape();
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    if (def->flags & KD_KERNEL_ANY_SHAPE && def->create &&
        !(def->host_inputs & 1) && kc_case("op=%s,number=%u", def->op, d))
      constants_of_any_shape(def);
  }
}

typedef struct shared {
  kc_unary unary;
  kd_kernel *kernel;
} shared;

static void launch_there(void *context, uint32_t index) {
  shared *s = context;
  kc_run *run = NULL;
  kd_stream *stream = NULL;
  kc_random random = {index + 11};
  kc_op op = s->unary.op; /* with data of its own */
  value *in = kc_floats(1, s->unary.in->dims, &random), *want[KC_PORTS] = {0};
  op.in[0] = in;
  kc_reference(&op, s->unary.node, want);
  if (kc_run_make(s->unary.node, s->unary.def, &op, &kc_plain, &run) != KD_OK)
    return;
  kd_kernel *own = run->kernel;
  run->kernel = s->kernel;
  if (kc_claims(KC_ASYNC) && kp.s.create(kc_device(), 0, 0, &stream) != KD_OK)
    return;
  for (int i = 0; i < 15; i++) {
    kd_status status = kc_run_enqueue(run, stream);
    if (stream) status = status == KD_OK ? kc_finish(stream) : status;
    if (!kc_check(status == KD_OK, "a launch beside others returned %s",
                  kd_status_name(status)))
      break;
    value *got = kc_run_output(run, 0);
    numerics within = kc_numerics(s->unary.def, KD_F32);
    kc_compare(want[0], got, &within, "an output beside other launches");
    value_free(got);
  }
  run->kernel = own;
  if (stream) kp.s.destroy(stream);
  kc_run_free(run);
  kc_values_free(want, 1);
  value_free(in);
}

void kernel_concurrent(void) {
  shared s = {0};
  kc_unary_need(3000, &s.unary);
  if (s.unary.def->create)
    kc_ok(s.unary.def->create(kc_device(), s.unary.def, &s.unary.node->node,
                              &s.kernel),
          "create");
  kc_threads(4, launch_there, &s);
  if (s.kernel) s.unary.def->destroy(s.kernel);
  kc_unary_free(&s.unary);
}

/* Exactly the workspace that was asked for, with junk in it and guards around. */
static void def_workspace(kc_op_case *one, kc_node *node,
                          const kd_kernel_def *def) {
  static const uint8_t fills[] = {0xff, 0x00, 0x7f};
  kc_check(true, " ");
  if (!def->workspace || node->dynamic) return;
  for (int i = 0; i < 3; i++) {
    kc_layout layout = kc_plain;
    layout.fill = fills[i];
    kc_run *run = kc_run_of(node, def, &one->op, &layout);
    uint64_t first =
        KC_CALL(uint64_t, def->workspace(run->kernel, &run->launch),
                "%s.workspace", def->op);
    kernel_run_and_compare(one, node, run,
                           "with exactly the workspace it asked for,"
                           " full of junk,");
    kc_check(!run->scratch || kc_buffer_intact(run->scratch),
             "it wrote around the workspace that it asked for");
    run->launch.workspace = (kd_tensor){0};
    uint64_t again =
        KC_CALL(uint64_t, def->workspace(run->kernel, &run->launch),
                "%s.workspace", def->op);
    kc_check(again == first, "workspace says %llu bytes, then %llu",
             (unsigned long long)first, (unsigned long long)again);
    kc_run_free(run);
  }
}

/* Two different fills beforehand: an element that nobody writes differs. */
static void def_complete(kc_op_case *one, kc_node *node,
                         const kd_kernel_def *def) {
  value *got[2] = {0};
  kc_check(true, " ");
  if (node->dynamic) return;
  for (int i = 0; i < 2; i++) {
    kc_layout layout = kc_plain;
    layout.fill = i ? 0x00 : 0xff;
    kc_run *run = kc_run_of(node, def, &one->op, &layout);
    kc_ok(kc_run_now(run), "run");
    got[i] = kc_run_output(run, 0);
    kc_run_free(run);
  }
  for (int64_t k = 0; got[0] && k < got[0]->count; k++) {
    real x = got[0]->x[k], y = got[1]->x[k];
    if (x == y || (isnan(x) && isnan(y))) continue;
    kc_check(def->flags & KD_KERNEL_NONDETERMINISTIC,
             "element %lld of the output follows what was in memory before:"
             " it is not written, or read first",
             (long long)k);
    break;
  }
  value_free(got[0]);
  value_free(got[1]);
}

static void def_inputs(kc_op_case *one, kc_node *node,
                       const kd_kernel_def *def) {
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  kc_ok(kc_run_now(run), "run");
  kc_check(kc_run_inputs_intact(run), "%s changed an input", def->op);
  kc_run_free(run);
}

static void def_inplace(kc_op_case *one, kc_node *node,
                        const kd_kernel_def *def) {
  kc_check(true, " ");
  for (uint32_t i = 0; i < one->op.in_count && i < 32; i++) {
    if (!(def->inplace >> i & 1) || !node->in[i] || !node->out[0] ||
        node->in[i]->bytes != node->out[0]->bytes ||
        (def->host_inputs >> i & 1) || (def->host_outputs & 1))
      continue;
    kc_layout layout = kc_plain;
    layout.inplace = (int)i;
    run_laid(one, node, def, &layout, "in place");
  }
}

static void def_aliases(kc_op_case *one, kc_node *node,
                        const kd_kernel_def *def) {
  char what[80];
  kc_check(true, " ");
  for (uint32_t i = 0; i < def->alias_count; i++) {
    const kd_alias *alias = &def->aliases[i];
    if (alias->input >= one->op.in_count || alias->output >= KC_PORTS ||
        !node->in[alias->input] ||
        node->in[alias->input] != node->out[alias->output])
      continue;
    kc_layout layout = kc_plain;
    layout.inplace = (int)alias->input;
    layout.of = alias->output;
    snprintf(what, sizeof what, "with output %u over input %u",
             (unsigned)alias->output, (unsigned)alias->input);
    kc_run *run = kc_run_of(node, def, &one->op, &layout);
    kernel_run_and_compare(one, node, run, what);
    kernel_run_and_compare(one, node, run, what);
    kc_run_free(run);
  }
}

static bool has_aliases(const kd_kernel_def *def) {
  return def->alias_count > 0;
}

void kernel_alias(void) {
  static const char *const ops[] = {"Mul", "Add", "Sub", "Max", "MatMul"};
  kc_device();
  bool any = false;
  for (size_t i = 0; i < KC_COUNT_OF(ops); i++) {
    int64_t dims[2] = {17, 17};
    kc_random random = {5};
    kc_op_case one = {.op = {.name = ops[i], .in_count = 2, .out_count = 1}};
    one.own[0] = kc_floats(2, dims, &random);
    one.op.in[0] = one.op.in[1] = one.own[0];
    kc_node *node = kc_node_make(&one.op, NULL, 0);
    const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
    if (def && kc_case("op=%s", ops[i])) {
      kc_layout layout = kc_plain;
      layout.same_input = true;
      any = true;
      run_laid(&one, node, def, &layout, "with one buffer as both inputs");
    }
    kc_node_free(node);
    kc_case_free(&one);
  }
  if (!any && kc_case("none"))
    kc_unclaimed("it has no f32 kernel of two inputs");
}

static void def_strided(kc_op_case *one, kc_node *node,
                        const kd_kernel_def *def) {
  static const char *const how[] = {
      [KC_GAPS] = "with inputs of every second element",
      [KC_TURNED] = "with inputs whose first dimension is the fastest",
      [KC_PITCH] = "with inputs of longer rows",
      [KC_MIXED] =
          "with inputs whose dimensions lie in another order, with gaps",
      [KC_REPEATED] = "with inputs that repeat an element by a stride of 0"};
  kc_check(true, " ");
  if (!(def->flags & KD_KERNEL_STRIDED)) return;
  for (kc_apart apart = KC_GAPS; apart <= KC_REPEATED; apart++) {
    kc_layout layout = kc_plain;
    layout.apart = apart;
    for (uint32_t i = 0; apart == KC_REPEATED && i < one->op.in_count; i++)
      if (one->own[i] && !(i < 32 && (def->host_inputs >> i & 1)))
        kc_repeat(one->own[i]);
    run_laid(one, node, def, &layout, how[apart]);
  }
}

/* Of the cases of an op, one of many dimensions. */
static uint32_t by_rank(const kc_op_case *one) {
  uint32_t score = 1;
  for (uint32_t i = 0; i < one->op.in_count && i < 2; i++)
    for (uint32_t d = 0; one->op.in[i] && d < one->op.in[i]->rank; d++)
      score += one->op.in[i]->dims[d] > 1;
  return score;
}

static bool strided(const kd_kernel_def *def) {
  bool any = false;
  for (uint32_t i = 0; i < kp.kernel_count && !any; i++)
    any = !strcmp(kp.kernels[i].op, def->op) &&
          (kp.kernels[i].flags & KD_KERNEL_STRIDED);
  return any;
}

void kernel_strided(void) {
  kc_each_op(strided, def_strided, KD_F32, kernel_all_ops());
  kc_each_best(strided, by_rank, def_strided, KD_F32, kernel_all_ops());
}

/* One buffer for tensors that lie far from its beginning: 256 MiB, or what there is. */
static const kc_buffer *far_pool(void) {
  static kc_buffer *pool;
  static uint32_t generation;
  uint64_t size = UINT64_C(1) << 28;
  if (pool && generation == kc_generation) return pool;
  generation = kc_generation;
  pool = NULL;
  while (size > kc.max_memory / 2)
    size /= 2;
  while (size > UINT64_C(1) << 21 &&
         kc_buffer_try(kc_device(), 0, size, &pool) != KD_OK)
    size /= 2;
  return pool;
}

static void run_far(kc_op_case *one, kc_node *node, const kd_kernel_def *def) {
  const kc_buffer *pool = far_pool();
  if (!pool) return;
  const uint64_t places[] = {(1u << 20) + (1u << 16),
                             pool->size / 2 + pool->size / 16};
  for (size_t i = 0; i < KC_COUNT_OF(places); i++) {
    kc_layout layout = kc_plain;
    char what[120];
    layout.pool = pool;
    layout.at = places[i];
    snprintf(what, sizeof what,
             "with tensors that lie %llu KiB behind the beginning of their"
             " buffer, an output",
             (unsigned long long)places[i] >> 10);
    run_laid(one, node, def, &layout, what);
  }
}

static void def_offset(kc_op_case *one, kc_node *node,
                       const kd_kernel_def *def) {
  const kd_space first = kc_space(0), *space = &first;
  uint32_t align = space->alignment ? space->alignment : 64;
  for (uint32_t k = 1; k <= 2; k++) {
    kc_layout layout = kc_plain;
    layout.skew = align * k;
    run_laid(one, node, def, &layout, "with tensors behind an offset");
  }
  run_far(one, node, def);
}

static void def_any_offset(kc_op_case *one, kc_node *node,
                           const kd_kernel_def *def) {
  kc_check(true, " ");
  if (!(def->flags & KD_KERNEL_ANY_OFFSET)) return;
  for (uint32_t k = 1; k <= 3; k += 2) {
    kc_layout layout = kc_plain;
    char what[80];
    layout.behind = k;
    snprintf(what, sizeof what,
             "with inputs that begin %u element%s behind the alignment",
             (unsigned)k, k == 1 ? "" : "s");
    run_laid(one, node, def, &layout, what);
  }
}

/* ---- the checks that go through all ops ----------------------------------------------- */

#define EACH_OP(name, takes, body)                     \
  void name(void) {                                    \
    kc_each_op(takes, body, KD_F32, kernel_all_ops()); \
  }

EACH_OP(kernel_reuse, NULL, def_reuse)
EACH_OP(kernel_workspace, NULL, def_workspace)
EACH_OP(kernel_outputs_complete, NULL, def_complete)
EACH_OP(kernel_inputs, NULL, def_inputs)
EACH_OP(kernel_aliases, has_aliases, def_aliases)
EACH_OP(kernel_inplace, NULL, def_inplace)
EACH_OP(kernel_any_offset, NULL, def_any_offset)
EACH_OP(kernel_offset, NULL, def_offset)
