/* kernel.c - definitions, instances, launches: all but what is computed. */
#include <math.h>

#include "ops/vendor.h"
#include "rules/cases.h"
#include "rules/rules.h"

static uint32_t all_ops(void) {
  return kc.quick ? 12 : 1000;
}

/* ---- definitions --------------------------------------------------------------------- */

static void kernel_list_static(void) {
  kc_load();
  uint32_t before = kp.kernel_count;
  char out[60000];
  bool late = false;
  int status = kc_helper("kernels", "", KC_S * 60, out, sizeof out, &late);
  kc_check(!late,
           "reading the definitions in another process takes over a"
           " minute");
  kc_check(late || status == 0,
           "the definitions can't be read in another process");
  char *save = NULL, *line = strtok_r(out, "\n", &save);
  for (uint32_t i = 0; i < before && line; i++) {
    char own[200];
    snprintf(own, sizeof own, "%s %s %u",
             kp.kernels[i].domain ? kp.kernels[i].domain : "-",
             kp.kernels[i].op ? kp.kernels[i].op : "-", kp.kernels[i].flags);
    const char *first = line; /* a driver may have written lines, too */
    do
      if (!strcmp(own, line)) break;
    while ((line = strtok_r(NULL, "\n", &save)));
    kc_check(line != NULL,
             "definition %u is \"%s\" here, and \"%s\" in"
             " another process",
             i, own, first);
    if (line) line = strtok_r(NULL, "\n", &save);
  }
  kc_device();
  kc_check(before > 0 || kp.table->regions,
           "it has neither definitions nor a compiler");
  kc_check(kp.table->kernel_count == before,
           "%u definitions before open, %u behind it", before,
           kp.table->kernel_count);
}

static void kernel_def_valid(void) {
  kc_load();
  if (keel_schema_ready() != KD_OK) kc_stop("no schemas");
  uint32_t known = 0;
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    const kd_kernel_def *def = &kp.kernels[i];
    if (!kc_check(def->op && *def->op && def->enqueue,
                  "definition %u lacks its op or enqueue", i))
      continue;
    const char *domain = def->domain ? def->domain : "ai.onnx";
    const keel_schema *schema = keel_op_find(
        kc_ops(), !strcmp(domain, "ai.onnx") ? "" : domain, def->op);
    bool ours = !strcmp(domain, "ai.onnx") || !strcmp(domain, "keel");
    known += schema != NULL;
    kc_check(!def->opset_max || def->opset_min <= def->opset_max,
             "%s: opset_min %u, opset_max %u", def->op, def->opset_min,
             def->opset_max);
    if (!schema) continue;
    uint64_t allowed = schema->input_count ? schema->inputs[0].types : 0;
    uint64_t all = 0;
    for (uint32_t k = 0; k < schema->input_count; k++)
      allowed = schema->inputs[k].types ? allowed | schema->inputs[k].types
                                        : UINT64_MAX;
    for (int k = 0; k < 8; k++)
      all |= def->input_types[k];
    kc_check(!all || !allowed || (all & allowed),
             "%s: none of its types is one"
             " of the op's",
             def->op);
    kc_check(
        !ours || !def->input_types[0] || !schema->input_count ||
            !schema->inputs[0].types ||
            (def->input_types[0] & ~schema->inputs[0].types) == 0,
        "%s: types 0x%llx of input 0 are not the op's", def->op,
        (unsigned long long)(def->input_types[0] & ~schema->inputs[0].types));
    for (uint32_t k = 0; k < i; k++) {
      const kd_kernel_def *other = &kp.kernels[k];
      bool same = !strcmp(other->op, def->op) &&
                  !strcmp(other->domain ? other->domain : "ai.onnx", domain) &&
                  other->opset_min == def->opset_min &&
                  other->opset_max == def->opset_max &&
                  other->priority == def->priority && !other->supports &&
                  !def->supports && other->flags == def->flags &&
                  !memcmp(other->input_types, def->input_types,
                          sizeof def->input_types) &&
                  !memcmp(other->output_types, def->output_types,
                          sizeof def->output_types);
      if (same)
        kc_check(false,
                 "definitions %u and %u of %s are equal: the second is"
                 " never used",
                 k, i, def->op);
    }
  }
  kc_check(known > 0 || !kp.kernel_count, "the host knows none of its ops");
}

static void def_create(kc_op_case *one, kc_node *node,
                       const kd_kernel_def *def) {
  kc_run *run = NULL;
  kd_status status = kc_run_make(node, def, &one->op, &kc_plain, &run);
  kc_check(status == KD_OK, "create returned %s: %s", kd_status_name(status),
           kc_message());
  kc_run_free(run);
}

static void kernel_create_destroy(void) {
  kc_each_op(NULL, def_create, KD_F32, all_ops());
}

/* supports says yes: then create and run succeed, and never abort. */
static void def_honest(kc_op_case *one, kc_node *node,
                       const kd_kernel_def *def) {
  kc_run *run = NULL;
  (void)def;
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    const kd_kernel_def *each = &kp.kernels[i];
    if (!kc_def_fits(each, node) || kc_supports(each, node) != KD_OK) continue;
    kd_status status = kc_run_make(node, each, &one->op, &kc_plain, &run);
    if (!kc_check(status == KD_OK, "supports says yes, create returned %s: %s",
                  kd_status_name(status), kc_message()))
      continue;
    status = kc_run_now(run);
    kc_check(status == KD_OK, "supports says yes, the run returned %s: %s",
             kd_status_name(status), kc_message());
    kc_run_free(run);
  }
}

static void kernel_supports_honest(void) {
  kc_each_op(NULL, def_honest, KD_F32, all_ops());
}

static void kernel_supports_odd(void) {
  static const uint32_t ranks[] = {0, 1, 3, 5, 8};
  kc_device();
  uint32_t asked = 0;
  for (size_t r = 0; r < KC_COUNT_OF(ranks); r++) {
    if (!kc_case("rank=%u", ranks[r])) continue;
    for (uint32_t d = 0; d < kp.kernel_count; d++) {
      const kd_kernel_def *def = &kp.kernels[d];
      if (!def->supports) continue;
      int64_t dims[8] = {1, 2, 1, 3, 1, 2, 1, 1};
      value *in = value_make(KD_F32, ranks[r], dims);
      kc_op op = {.domain = def->domain,
                  .name = def->op,
                  .in = {in, in},
                  .in_count = 2,
                  .out_count = 1};
      for (uint32_t n = 1; n <= 2; n++) {
        op.in_count = n;
        kc_node *node = kc_node_make(&op, NULL, 0);
        if (node && kc_def_fits(def, node)) {
          kd_status status = kc_supports(def, node);
          asked++;
          kc_check(status == KD_OK || status == KD_UNIMPLEMENTED,
                   "%s.supports returned %s", def->op, kd_status_name(status));
          if (status == KD_OK) {
            kc_run *run = NULL;
            kd_status made = kc_run_make(node, def, &op, &kc_plain, &run);
            if (kc_check(made == KD_OK,
                         "%s takes rank %u, and create returned"
                         " %s",
                         def->op, ranks[r], kd_status_name(made))) {
              kd_status ran = kc_run_now(run);
              kc_check(ran == KD_OK,
                       "%s takes rank %u, and running it returned"
                       " %s: %s",
                       def->op, ranks[r], kd_status_name(ran), kc_message());
              kc_run_free(run);
            }
          }
        }
        kc_node_free(node);
      }
      value_free(in);
    }
    kc_check(true, " ");
  }
  (void)asked;
}

static void def_pure(kc_op_case *one, kc_node *node, const kd_kernel_def *def) {
  (void)one;
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    const kd_kernel_def *each = &kp.kernels[i];
    if (!each->supports || !kc_def_fits(each, node)) continue;
    kd_status first = kc_supports(each, node);
    for (int k = 0; k < 20; k++)
      kc_check(kc_supports(each, node) == first,
               "supports says %s first, then otherwise", kd_status_name(first));
  }
  kc_check(def != NULL, " ");
}

static void kernel_supports_pure(void) {
  kc_each_op(NULL, def_pure, KD_F32, all_ops());
}

static void def_cost(kc_op_case *one, kc_node *node, const kd_kernel_def *def) {
  (void)one;
  kc_check(true, " ");
  if (!def->cost) return;
  kd_cost cost = {.struct_size = sizeof cost};
  kd_status status =
      KC_CALL(kd_status, def->cost(kc_device(), &node->node, &cost), "%s.cost",
              def->op);
  kc_check(status == KD_OK, "cost returned %s", kd_status_name(status));
  kc_check(cost.time < 3600 * KC_S, "cost gives %llu s",
           (unsigned long long)(cost.time / KC_S));
  kc_check(cost.reserved == 0 || cost.struct_size <= sizeof cost,
           "cost set a reserved field");
}

static void kernel_cost(void) {
  kc_each_op(NULL, def_cost, KD_F32, all_ops());
}

/* ---- launches --------------------------------------------------------------------------- */

static void compare_outputs(kc_op_case *one, kc_node *node, kc_run *run,
                            const char *what) {
  value *want[KC_PORTS] = {0};
  kd_dtype dtype = one->op.in[0] ? one->op.in[0]->dtype : KD_F32;
  numerics within = kc_numerics(run->def, dtype);
  if (kc_reference(&one->op, node, want))
    for (uint32_t j = 0; j < one->op.out_count; j++) {
      value *got = kc_run_output(run, j);
      if (want[j]) kc_compare(want[j], got, &within, what);
      value_free(got);
    }
  else
    kc_check(true, " ");
  kc_values_free(want, one->op.out_count);
}

static void run_and_compare(kc_op_case *one, kc_node *node, kc_run *run,
                            const char *what) {
  kd_status status = kc_run_now(run);
  kc_check(status == KD_OK, "%s: %s: %s", what, kd_status_name(status),
           kc_message());
  if (status == KD_OK) compare_outputs(one, node, run, what);
}

/* One instance again and again, with other data. */
static void def_reuse(kc_op_case *one, kc_node *node,
                      const kd_kernel_def *def) {
  kc_run *run = NULL;
  if (node->dynamic) {
    kc_check(true, " ");
    return;
  }
  kc_ok(kc_run_make(node, def, &one->op, &kc_plain, &run), "create");
  for (int i = 0; i < 4; i++) {
    run_and_compare(one, node, run,
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

static void kernel_reuse(void) {
  kc_each_op(NULL, def_reuse, KD_F32, all_ops());
}

/* One instance that says that it takes any shape. */
static void kernel_any_shape(void) {
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
    kc_run *run = NULL;
    kc_ok(kc_run_make(other.node, unary.def, &other.op, &kc_plain, &run),
          "create");
    kd_kernel *own = run->kernel;
    run->kernel = kernel; /* the one that was made for another shape */
    kc_op_case one = {.op = other.op};
    run_and_compare(&one, other.node, run, "an instance of another shape");
    run->kernel = own;
    kc_run_free(run);
    kc_unary_free(&other);
  }
  if (kernel) unary.def->destroy(kernel);
  kc_unary_free(&unary);
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

static void kernel_concurrent(void) {
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

static kc_op_case matmul_case(int64_t n, uint32_t seed) {
  int64_t dims[2] = {n, n};
  kc_random random = {seed};
  kc_op_case one = {.op = {.name = "MatMul", .in_count = 2, .out_count = 1}};
  one.own[0] = kc_floats(2, dims, &random);
  one.own[1] = kc_floats(2, dims, &random);
  one.op.in[0] = one.own[0];
  one.op.in[1] = one.own[1];
  return one;
}

static void workspace_there(void *context, uint32_t index) {
  kd_stream *stream = NULL;
  (void)context;
  if (kc_claims(KC_ASYNC) && kp.s.create(kc_device(), 0, 0, &stream) != KD_OK)
    return;
  kc_op_case own = matmul_case(33, index + 1), *one = &own;
  kc_node *node = kc_node_make(&one->op, NULL, 0);
  const kd_kernel_def *def = kc_def_for(node);
  kc_run *run = NULL;
  if (def && kc_run_make(node, def, &one->op, &kc_plain, &run) == KD_OK) {
    value *want[KC_PORTS] = {0};
    kc_reference(&one->op, node, want);
    for (int i = 0; i < 6; i++) {
      kd_status status = kc_run_enqueue(run, stream);
      if (stream && status == KD_OK) status = kc_finish(stream);
      value *got = kc_run_output(run, 0);
      numerics within = kc_numerics(def, KD_F32);
      kc_check(status == KD_OK, "a product beside others: %s",
               kd_status_name(status));
      kc_compare(want[0], got, &within, "a product beside others");
      value_free(got);
    }
    kc_values_free(want, 1);
    kc_run_free(run);
  }
  if (stream) kp.s.destroy(stream);
  kc_node_free(node);
  kc_case_free(one);
}

static void kernel_concurrent_products(void) {
  kc_op_case one = matmul_case(33, 99);
  kc_device();
  kc_node *node = kc_node_make(&one.op, NULL, 0);
  bool has = node && kc_def_for(node);
  kc_node_free(node);
  kc_case_free(&one);
  if (!has) kc_unclaimed("it has no f32 MatMul");
  kc_threads(4, workspace_there, NULL);
}

/* Exactly the workspace that was asked for, with junk in it and guards around. */
static void def_workspace(kc_op_case *one, kc_node *node,
                          const kd_kernel_def *def) {
  static const uint8_t fills[] = {0xff, 0x00, 0x7f};
  kc_check(true, " ");
  if (!def->workspace || node->dynamic) return;
  for (int i = 0; i < 3; i++) {
    kc_run *run = NULL;
    kc_layout layout = kc_plain;
    layout.fill = fills[i];
    kc_ok(kc_run_make(node, def, &one->op, &layout, &run), "create");
    uint64_t first =
        KC_CALL(uint64_t, def->workspace(run->kernel, &run->launch),
                "%s.workspace", def->op);
    run_and_compare(one, node, run,
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

static void kernel_workspace(void) {
  kc_each_op(NULL, def_workspace, KD_F32, all_ops());
}

/* Two different fills beforehand: an element that nobody writes differs. */
static void def_complete(kc_op_case *one, kc_node *node,
                         const kd_kernel_def *def) {
  value *got[2] = {0};
  kc_check(true, " ");
  if (node->dynamic) return;
  for (int i = 0; i < 2; i++) {
    kc_run *run = NULL;
    kc_layout layout = kc_plain;
    layout.fill = i ? 0x00 : 0xff;
    kc_ok(kc_run_make(node, def, &one->op, &layout, &run), "create");
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

static void kernel_outputs_complete(void) {
  kc_each_op(NULL, def_complete, KD_F32, all_ops());
}

static void def_deterministic(kc_op_case *one, kc_node *node,
                              const kd_kernel_def *def) {
  kc_run *run = NULL;
  kc_check(true, " ");
  if (node->dynamic || (def->flags & KD_KERNEL_NONDETERMINISTIC)) return;
  kc_ok(kc_run_make(node, def, &one->op, &kc_plain, &run), "create");
  value *first = NULL;
  for (int i = 0; i < 5; i++) {
    kc_ok(kc_run_now(run), "run");
    value *got = kc_run_output(run, 0);
    for (int64_t k = 0; first && k < got->count; k++)
      if (got->x[k] != first->x[k] && !isnan(got->x[k])) {
        kc_check(false, "element %lld is %Lg, and was %Lg", (long long)k,
                 got->x[k], first->x[k]);
        break;
      }
    if (first)
      value_free(got);
    else
      first = got;
  }
  value_free(first);
  kc_run_free(run);
}

static void kernel_deterministic(void) {
  kc_each_op(NULL, def_deterministic, KD_F32, all_ops());
}

static void def_inputs(kc_op_case *one, kc_node *node,
                       const kd_kernel_def *def) {
  kc_run *run = NULL;
  kc_ok(kc_run_make(node, def, &one->op, &kc_plain, &run), "create");
  kc_ok(kc_run_now(run), "run");
  kc_check(kc_run_inputs_intact(run), "%s changed an input", def->op);
  kc_run_free(run);
}

static void kernel_inputs(void) {
  kc_each_op(NULL, def_inputs, KD_F32, all_ops());
}

static void def_inplace(kc_op_case *one, kc_node *node,
                        const kd_kernel_def *def) {
  kc_check(true, " ");
  for (uint32_t i = 0; i < one->op.in_count && i < 32; i++) {
    if (!(def->inplace >> i & 1) || !node->in[i] || !node->out[0] ||
        node->in[i]->bytes != node->out[0]->bytes ||
        (def->host_inputs >> i & 1) || (def->host_outputs & 1))
      continue;
    kc_run *run = NULL;
    kc_layout layout = kc_plain;
    layout.inplace = (int)i;
    kc_ok(kc_run_make(node, def, &one->op, &layout, &run), "create");
    run_and_compare(one, node, run, "in place");
    kc_run_free(run);
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
    kc_run *run = NULL;
    kc_layout layout = kc_plain;
    layout.inplace = (int)alias->input;
    layout.of = alias->output;
    snprintf(what, sizeof what, "with output %u over input %u",
             (unsigned)alias->output, (unsigned)alias->input);
    kc_ok(kc_run_make(node, def, &one->op, &layout, &run), "create");
    run_and_compare(one, node, run, what);
    run_and_compare(one, node, run, what);
    kc_run_free(run);
  }
}

static bool has_aliases(const kd_kernel_def *def) {
  return def->alias_count > 0;
}

static void kernel_aliases(void) {
  kc_each_op(has_aliases, def_aliases, KD_F32, all_ops());
}

static void kernel_inplace(void) {
  kc_each_op(NULL, def_inplace, KD_F32, all_ops());
}

static void kernel_alias(void) {
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
      kc_run *run = NULL;
      kc_layout layout = kc_plain;
      layout.same_input = true;
      any = true;
      kc_ok(kc_run_make(node, def, &one.op, &layout, &run), "create");
      run_and_compare(&one, node, run, "with one buffer as both inputs");
      kc_run_free(run);
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
      [KC_REPEATED] = "with inputs that repeat an element by a stride of 0"};
  kc_check(true, " ");
  if (!(def->flags & KD_KERNEL_STRIDED)) return;
  for (kc_apart apart = KC_GAPS; apart <= KC_REPEATED; apart++) {
    kc_run *run = NULL;
    kc_layout layout = kc_plain;
    layout.apart = apart;
    for (uint32_t i = 0; apart == KC_REPEATED && i < one->op.in_count; i++)
      if (one->own[i] && !(i < 32 && (def->host_inputs >> i & 1)))
        kc_repeat(one->own[i]);
    kc_ok(kc_run_make(node, def, &one->op, &layout, &run), "create");
    run_and_compare(one, node, run, how[apart]);
    kc_run_free(run);
  }
}

static void kernel_strided(void) {
  kc_each_op(NULL, def_strided, KD_F32, all_ops());
}

static void def_offset(kc_op_case *one, kc_node *node,
                       const kd_kernel_def *def) {
  const kd_space first = kc_space(0), *space = &first;
  uint32_t align = space->alignment ? space->alignment : 64;
  for (uint32_t k = 1; k <= 2; k++) {
    kc_run *run = NULL;
    kc_layout layout = kc_plain;
    layout.skew = align * k;
    kc_ok(kc_run_make(node, def, &one->op, &layout, &run), "create");
    run_and_compare(one, node, run, "with tensors behind an offset");
    kc_run_free(run);
  }
}

static void def_any_offset(kc_op_case *one, kc_node *node,
                           const kd_kernel_def *def) {
  kc_check(true, " ");
  if (!(def->flags & KD_KERNEL_ANY_OFFSET)) return;
  for (uint32_t k = 1; k <= 3; k += 2) {
    kc_run *run = NULL;
    kc_layout layout = kc_plain;
    char what[80];
    layout.behind = k;
    snprintf(what, sizeof what,
             "with inputs that begin %u element%s behind the alignment",
             (unsigned)k, k == 1 ? "" : "s");
    kc_ok(kc_run_make(node, def, &one->op, &layout, &run), "create");
    run_and_compare(one, node, run, what);
    kc_run_free(run);
  }
}

static void kernel_any_offset(void) {
  kc_each_op(NULL, def_any_offset, KD_F32, all_ops());
}

static void kernel_offset(void) {
  kc_each_op(NULL, def_offset, KD_F32, all_ops());
}

/* ---- shapes -------------------------------------------------------------------------------- */

static void try_shape(const char *op, uint32_t rank, const int64_t *dims,
                      uint32_t inputs) {
  kc_random random = {17};
  kc_op_case one = {.op = {.name = op, .in_count = inputs, .out_count = 1}};
  for (uint32_t i = 0; i < inputs; i++) {
    one.own[i] = kc_floats(rank, dims, &random);
    one.op.in[i] = one.own[i];
  }
  kc_try_op(&one.op, &kc_plain);
  kc_case_free(&one);
}

/* Elementwise, reducing and moving ops that the device has, on one shape. */
static void shape_case(uint32_t rank, const int64_t *dims) {
  static const char *const ops[] = {"Relu", "Neg",       "Exp",     "Add",
                                    "Mul",  "ReduceSum", "Softmax", "Transpose",
                                    "Tanh", "ReduceMax", "Abs"};
  for (size_t i = 0; i < KC_COUNT_OF(ops); i++)
    try_shape(ops[i], rank, dims, i == 3 || i == 4 ? 2 : 1);
  kc_check(true, " ");
}

static void kernel_empty(void) {
  static const int64_t shapes[][3] = {
      {0, 0, 0}, {0, 3, 4}, {3, 0, 4}, {3, 4, 0}};
  kc_device();
  for (size_t i = 0; i < KC_COUNT_OF(shapes); i++)
    if (kc_case("dims=%lldx%lldx%lld", (long long)shapes[i][0],
                (long long)shapes[i][1], (long long)shapes[i][2])) {
      static const char *const ops[] = {"Relu", "Neg", "Exp",
                                        "Add",  "Mul", "Transpose",
                                        "Tanh", "Abs", "Cast"};
      for (size_t k = 0; k < KC_COUNT_OF(ops); k++)
        try_shape(ops[k], 3, shapes[i], k == 3 || k == 4 ? 2 : 1);
      kc_check(true, " ");
    }
}

static void kernel_ranks(void) {
  kc_device();
  for (uint32_t rank = 0; rank <= 8; rank++) {
    static const int64_t dims[8] = {2, 1, 3, 1, 2, 1, 2, 3};
    if (kc_case("rank=%u", rank)) shape_case(rank, dims);
  }
}

static void kernel_odd_shapes(void) {
  static const int64_t sizes[] = {1,   2,   3,   7,   13,  15,   16,   17,  31,
                                  32,  33,  63,  64,  65,  97,   127,  128, 129,
                                  255, 256, 257, 511, 513, 1021, 1025, 4099};
  kc_device();
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    int64_t dims[2] = {sizes[i] > 200 ? 1 : 3, sizes[i]};
    if (kc_case("n=%lld", (long long)sizes[i])) shape_case(2, dims);
  }
}

static void kernel_odd_products(void) {
  static const int64_t sizes[] = {1,  2,  3,  5,  7,  8,  9,
                                  15, 16, 17, 31, 33, 63, 65};
  kc_device();
  bool any = false;
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    int64_t m = sizes[i], n = sizes[(i * 5 + 3) % KC_COUNT_OF(sizes)];
    int64_t k = sizes[(i * 3 + 7) % KC_COUNT_OF(sizes)];
    int64_t a[2] = {m, k}, b[2] = {k, n};
    kc_random random = {i + 1};
    kc_op_case one = {.op = {.name = "MatMul", .in_count = 2, .out_count = 1}};
    one.own[0] = kc_floats(2, a, &random);
    one.own[1] = kc_floats(2, b, &random);
    one.op.in[0] = one.own[0];
    one.op.in[1] = one.own[1];
    if (kc_case("m=%lld,n=%lld,k=%lld", (long long)m, (long long)n,
                (long long)k))
      any |= kc_try_op(&one.op, &kc_plain);
    kc_case_free(&one);
  }
  if (!any && !kc.only && kc_case("none")) kc_unclaimed("it has no f32 MatMul");
}

static void kernel_large(void) {
  const int64_t count = INT64_C(5) << 20;
  if ((uint64_t)count * 12 > kc.max_memory) kc_unclaimed("--max-memory");
  kc_unary unary;
  kc_unary_need(count, &unary);
  kc_run *run = NULL;
  kc_ok(kc_run_make(unary.node, unary.def, &unary.op, &kc_plain, &run),
        "create");
  kc_op_case one = {.op = unary.op};
  run_and_compare(&one, unary.node, run, "on 5 Mi elements");
  kc_run_free(run);
  kc_unary_free(&unary);
}

/* ---- dynamic, host, constant arguments --------------------------------------------------------- */

static void kernel_dynamic(void) {
  static const char *const ops[] = {"NonZero", "Compress", "Unique"};
  kc_device();
  bool any = false;
  for (size_t i = 0; i < KC_COUNT_OF(ops); i++)
    for (uint32_t c = 0; c < kc_case_count(NULL, ops[i]); c++) {
      kc_op_case one;
      kc_random random = {c + 3};
      if (!kc_case_make(NULL, ops[i], c, KD_F32, KC_PROBE_INTS, &random, &one))
        continue;
      kc_node *node = kc_node_make(&one.op, NULL, 0);
      const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
      if (def && kc_case("op=%s,case=%u", ops[i], c)) {
        kc_run *run = NULL;
        any = true;
        kc_check(def->flags & KD_KERNEL_DYNAMIC_OUTPUT,
                 "%s is not KD_KERNEL_DYNAMIC_OUTPUT", ops[i]);
        kc_ok(kc_run_make(node, def, &one.op, &kc_plain, &run), "create");
        run_and_compare(&one, node, run, ops[i]);
        for (uint32_t j = 0; j < one.op.out_count; j++)
          kc_check(run->set[j], "output %u was not set", j);
        kc_run_free(run);
      }
      kc_node_free(node);
      kc_case_free(&one);
    }
  if (!any && kc_case("none")) kc_unclaimed("it has no op of unknown shape");
}

/* Host arguments are read when the kernel is enqueued, and are gone then. */
static void def_host_args(kc_op_case *one, kc_node *node,
                          const kd_kernel_def *def) {
  kc_check(true, " ");
  if (!def->host_inputs || node->dynamic) return;
  value *want[KC_PORTS] = {0};
  kc_run *run = NULL;
  if (!kc_reference(&one->op, node, want)) return;
  kc_ok(kc_run_make(node, def, &one->op, &kc_plain, &run), "create");
  kd_stream *stream = kc_claims(KC_ASYNC) ? kc_stream_make(kc_device()) : NULL;
  if (stream) kc_busy(stream, KC_MS);
  kc_ok(kc_run_enqueue(run, stream), "enqueue");
  for (uint32_t i = 0; i < one->op.in_count && i < 32; i++)
    if ((def->host_inputs >> i & 1) && run->in_bytes[i])
      memset(run->in_bytes[i], 0x6b, run->in_sizes[i]);
  if (stream) kc_ok(kc_finish(stream), "waiting");
  numerics within = kc_numerics(def, one->op.in[0]->dtype);
  for (uint32_t j = 0; j < one->op.out_count; j++) {
    value *got = kc_run_output(run, j);
    if (want[j])
      kc_compare(want[j], got, &within,
                 "with host arguments overwritten behind enqueue, an output");
    value_free(got);
  }
  kc_values_free(want, one->op.out_count);
  kc_run_free(run);
}

static void kernel_host_args(void) {
  kc_each_op(NULL, def_host_args, KD_F32, all_ops());
}

/* Changes a case's integers that are host arguments, in one of a few ways. */
static void change_host_values(kc_op_case *one, uint32_t host, int way) {
  for (uint32_t i = 0; i < one->op.in_count && i < 32; i++) {
    value *v = one->own[i];
    if (!(host >> i & 1) || !v || !one->op.in[i]) continue;
    if (v->dtype != KD_I64 && v->dtype != KD_I32) continue;
    for (int64_t k = 0; k < v->count && way < 2; k++)
      v->x[k] += way ? 1 : -1;
    for (int64_t k = 0; k < v->count / 2 && way >= 2; k++) {
      /* 2: the other way round; 3: halves change places */
      int64_t other = way == 2 ? v->count - 1 - k : k + v->count / 2;
      real kept = v->x[k];
      v->x[k] = v->x[other];
      v->x[other] = kept;
    }
  }
}

static bool same_types(const kc_node *a, const kc_node *b, uint32_t outputs) {
  for (uint32_t j = 0; j < outputs; j++)
    if (a->out[j] != b->out[j]) return false;
  return !b->dynamic;
}

/* A case, and another one whose host arguments have other values. */
typedef struct value_pair {
  kc_op_case *one, *other;
  kc_node *node, *changed;
  kc_run *run; /* of the first one */
} value_pair;

/* One instance, launched with both, and with the first again. */
static void launch_both(const value_pair *p) {
  run_and_compare(p->one, p->node, p->run, "the first launch");
  kc_run_refill(p->run, &p->other->op);
  run_and_compare(p->other, p->changed, p->run, "with other host arguments");
  kc_run_refill(p->run, &p->one->op);
  run_and_compare(p->one, p->node, p->run,
                  "with the first host arguments again");
}

/* The first is recorded, the other launched, and then the recording. */
static void replay_behind_other(const value_pair *p) {
  kd_stream *stream = kc_stream_make(kc_device());
  kd_capture *capture = NULL;
  kc_ok(KC_CALL(kd_status, kp.c.begin(stream, 0), "capture.begin"),
        "capture.begin");
  kd_status status = kc_run_enqueue(p->run, stream);
  kd_status ended =
      KC_CALL(kd_status, kp.c.end(stream, &capture), "capture.end");
  kc_ok(status, "enqueue while recording");
  if (ended == KD_UNIMPLEMENTED) return;
  kc_ok(ended, "capture.end");
  kc_run_refill(p->run, &p->other->op);
  run_and_compare(p->other, p->changed, p->run,
                  "a launch behind the recording");
  kc_run_refill(p->run, &p->one->op);
  kc_ok(KC_CALL(kd_status, kp.c.launch(capture, stream), "capture.launch"),
        "capture.launch");
  kc_ok(kc_finish(stream), "waiting");
  compare_outputs(p->one, p->node, p->run,
                  "what was recorded with the first host arguments");
  KC_DO(kp.c.destroy(capture), "capture.destroy");
}

/* Checks a case beside others of the same types, and results of the same types. Returns
 * whether there are such others. */
static bool other_host_values(const kd_kernel_def *def, uint32_t c, int way,
                              void (*check)(const value_pair *pair)) {
  kc_op_case one, other;
  kc_random random = {c + 11}, again = {c + 11};
  bool tried = false;
  if (!kc_case_make(def->domain, def->op, c, KD_F32, KC_PROBE_INTS, &random,
                    &one))
    return false;
  kc_case_make(def->domain, def->op, c, KD_F32, KC_PROBE_INTS, &again, &other);
  change_host_values(&other, def->host_inputs, way);
  kc_node *node = kc_node_make(&one.op, NULL, 0);
  kc_node *changed = kc_node_make(&other.op, NULL, 0);
  if (node && changed && kc_def_for(node) == def &&
      kc_def_for(changed) == def &&
      same_types(node, changed, one.op.out_count) &&
      kc_case("op=%s,case=%u", def->op, c)) {
    kc_run *run = NULL;
    tried = true;
    kc_ok(kc_run_make(node, def, &one.op, &kc_plain, &run), "create");
    check(&(value_pair){&one, &other, node, changed, run});
    kc_run_free(run);
  }
  kc_node_free(node);
  kc_node_free(changed);
  kc_case_free(&one);
  kc_case_free(&other);
  return tried;
}

static void each_host_values(uint32_t without,
                             void (*check)(const value_pair *pair)) {
  kc_device();
  bool any = false;
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    if (!def->host_inputs || def->flags & without || !kc_def_takes(def, KD_F32))
      continue;
    uint32_t count = kc_case_count(def->domain, def->op);
    bool tried = false; /* quick: one case of each op */
    for (uint32_t c = 0; c < count && !(kc.quick && tried); c++) {
      bool other = false;
      for (int way = 0; way < 4 && !other; way++)
        other = other_host_values(def, c, way, check);
      tried |= other;
    }
    any |= tried;
  }
  if (!any && kc_case("none"))
    kc_unclaimed("no op to try has an input in host memory");
}

/* Host arguments that are no constants may be others at each launch. */
static void kernel_host_values(void) {
  each_host_values(0, launch_both);
}

static void kernel_host_values_kept(void) {
  each_host_values(KD_KERNEL_NO_CAPTURE, replay_behind_other);
}

static void kernel_host_outputs(void) {
  kc_device();
  bool any = false;
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    if (!def->host_outputs) continue;
    for (uint32_t c = 0; c < kc_case_count(def->domain, def->op); c++) {
      kc_op_case one;
      kc_random random = {c};
      if (!kc_case_make(def->domain, def->op, c, KD_F32, KC_PROBE_INTS, &random,
                        &one))
        continue;
      if (kc_case("op=%s,case=%u", def->op, c)) {
        any = true;
        kc_try_op(&one.op, &kc_plain);
      }
      kc_case_free(&one);
    }
  }
  if (!any && kc_case("none"))
    kc_unclaimed("no output is declared to be in host memory");
}

/* Constants are given to create; their source may go afterwards. */
static void kernel_constants(void) {
  static const char *const ops[] = {"MatMul", "Conv", "Gemm", "Add"};
  kc_device();
  bool any = false;
  for (size_t i = 0; i < KC_COUNT_OF(ops); i++) {
    kc_op_case one;
    kc_random random = {i + 5};
    if (!kc_case_make(NULL, ops[i], 0, KD_F32, KC_PROBE_INTS, &random, &one))
      continue;
    one.op.constants = 2;
    kc_node *node = kc_node_make(&one.op, NULL, 0);
    const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
    if (def && kc_case("op=%s", ops[i])) {
      kc_run *run = NULL;
      any = true;
      kc_ok(kc_run_make(node, def, &one.op, &kc_plain, &run), "create");
      run_and_compare(&one, node, run, "with a constant input");
      kc_run_refill(run, &one.op);
      run_and_compare(&one, node, run, "with a constant input, again");
      kc_run_free(run);
    }
    kc_node_free(node);
    kc_case_free(&one);
  }
  if (!any && kc_case("none")) kc_unclaimed("it has none of the ops to try");
}

/* One definition that takes constants: the memory of what it took is overwritten. */
static bool try_taken(kc_op_case *one, kc_node *node,
                      const kd_kernel_def *def) {
  kc_run *run = NULL;
  if (kc_supports(def, node) != KD_OK) return false;
  kc_ok(kc_run_make(node, def, &one->op, &kc_plain, &run), "create");
  bool took = run->in[1].dtype == KD_NONE;
  if (took) memset(node->data[1], 0xff, node->in[1]->bytes);
  run_and_compare(one, node, run, "without the constant that it took");
  kc_run_free(run);
  return took;
}

/* What an instance has taken is not passed, and its memory is used for something else. */
static void kernel_taken(void) {
  uint32_t took = 0;
  kc_device();
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    if (!def->taken || !kc_case("op=%s,number=%u", def->op, (unsigned)d))
      continue;
    for (uint32_t c = 0; c < kc_case_count(def->domain, def->op) && c < 8; c++)
      for (uint32_t which = 0; which <= KC_LAY_BOTH; which++) {
        kc_op_case one;
        kc_random random = {d * 64 + c};
        if (!kc_case_make(def->domain, def->op, c, KD_F32, KC_PROBE_INTS,
                          &random, &one))
          continue;
        one.op.constants = 2;
        kc_node *node = kc_node_make(&one.op, NULL, 0);
        if (node && one.op.in_count > 1 && kc_def_fits(def, node) &&
            (!which || kc_node_lay(node, def, KD_LAYOUT_OWN, which)))
          took += try_taken(&one, node, def);
        kc_node_free(node);
        kc_case_free(&one);
      }
  }
  kc_note("%u instances took a constant", (unsigned)took);
}

/* An attribute that is absent has the schema's default. */
static void kernel_defaults(void) {
  static const struct {
    const char *op, *attr;
    float f;
    int64_t i;
    bool is_float;
  } defaults[] = {{"LeakyRelu", "alpha", 0.01f, 0, true},
                  {"Elu", "alpha", 1, 0, true},
                  {"HardSigmoid", "alpha", 0.2f, 0, true},
                  {"Softmax", "axis", 0, -1, false},
                  {"Celu", "alpha", 1, 0, true},
                  {"ThresholdedRelu", "alpha", 1, 0, true},
                  {"Selu", "gamma", 1.05070102214813232421875f, 0, true},
                  {"ReduceSum", "keepdims", 0, 1, false},
                  {"ArgMax", "axis", 0, 0, false},
                  {"LpNormalization", "axis", 0, -1, false}};
  kc_device();
  bool any = false;
  for (size_t i = 0; i < KC_COUNT_OF(defaults); i++) {
    int64_t dims[2] = {5, 9};
    kc_random random = {i + 1};
    value *in = kc_floats(2, dims, &random), *got[2] = {0};
    for (int64_t k = 0; k < in->count; k++)
      in->x[k] = dtype_round(in->x[k] * 3, KD_F32);
    for (int given = 0; given < 2; given++) {
      kc_op op = {
          .name = defaults[i].op, .in = {in}, .in_count = 1, .out_count = 1};
      if (given) {
        op.attrs[0] = (keel_attr){
            .name = defaults[i].attr,
            .kind = defaults[i].is_float ? KD_ATTR_FLOAT : KD_ATTR_INT,
            .f = defaults[i].f,
            .i = defaults[i].i};
        op.attr_count = 1;
      }
      kc_node *node = kc_node_make(&op, NULL, 0);
      const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
      kc_run *run = NULL;
      if (def && (given ? got[0] != NULL : kc_case("op=%s", op.name)) &&
          kc_run_make(node, def, &op, &kc_plain, &run) == KD_OK) {
        any = true;
        kc_op_case one = {.op = op};
        run_and_compare(&one, node, run,
                        given ? "with the attribute" : "without the attribute");
        got[given] = kc_run_output(run, 0);
        kc_run_free(run);
      }
      kc_node_free(node);
    }
    if (got[0] && got[1])
      kc_check(
          !kc_differs(got[0]->x, got[1]->x, 16) || got[0]->x[0] == got[1]->x[0],
          "%s without %s is not %s with its default", defaults[i].op,
          defaults[i].attr, defaults[i].op);
    value_free(got[0]);
    value_free(got[1]);
    value_free(in);
  }
  if (!any && kc_case("none")) kc_unclaimed("it has none of the ops to try");
}

/* The product of some rows; NULL where there is no such kernel. */
static value *product(value *x, value *weights) {
  kc_op op = {
      .name = "MatMul", .in = {x, weights}, .in_count = 2, .out_count = 1};
  kc_node *node = kc_node_make(&op, NULL, 0);
  const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
  kc_run *run = NULL;
  value *got = NULL;
  if (def) {
    kc_ok(kc_run_make(node, def, &op, &kc_plain, &run), "create");
    kc_ok(kc_run_now(run), "run");
    got = kc_run_output(run, 0);
    kc_run_free(run);
  }
  kc_node_free(node);
  return got;
}

static void kernel_batch(void) {
  int64_t one_row[2] = {1, 24}, many[2] = {8, 24}, w[2] = {24, 10};
  kc_random random = kc_seed();
  kc_device();
  value *x = kc_floats(2, many, &random), *y = value_make(KD_F32, 2, one_row);
  value *weights = kc_floats(2, w, &random);
  memcpy(y->x, x->x, 24 * sizeof *x->x);
  value *alone = product(y, weights), *among = product(x, weights);
  bool same = true, finite = true;
  for (int k = 0; k < 10 && alone && among; k++) {
    same &= alone->x[k] == among->x[k];
    finite &= isfinite(alone->x[k]) && isfinite(among->x[k]);
  }
  bool none = !alone || !among;
  value *all[] = {x, y, weights, alone, among};
  for (size_t i = 0; i < KC_COUNT_OF(all); i++)
    value_free(all[i]);
  if (none) kc_unclaimed("it has no f32 MatMul");
  kc_check(finite, "a product of numbers from -1 to 1 is not finite");
  kc_note("the first row of 8 is %s as alone",
          same ? "the same bits" : "not the same bits");
}

#define RULE(severity, id, check, flags, header, sentence, names, about) \
  KC_RULE(severity, CORE, id, check, flags, header, sentence, names, about)

static const kc_rule rules[] = {
    RULE(
        MUST, "kernel.list-static", kernel_list_static, 0, "kernel.h",
        "A kernel definition is const data",
        "kd_plugin.kernels kd_plugin.kernel_count kd_kernel_def.struct_size"
        " kd_kernel_def.data",
        "Hosts list what a plugin does without opening a device; a list that is"
        " filled in open is empty for them."),
    RULE(MUST, "kernel.def-valid", kernel_def_valid, 0, "kernel.h",
         "One op on some types",
         "kd_kernel_def.op kd_kernel_def.domain kd_kernel_def.opset_min"
         " kd_kernel_def.opset_max kd_kernel_def.input_types"
         " kd_kernel_def.output_types kd_kernel_def.priority KD_TYPES"
         " KD_MAX_TYPED_INPUTS KD_MAX_TYPED_OUTPUTS",
         "A misspelt op, or a type that the op does not have, is never used and"
         " never noticed."),
    RULE(MUST, "kernel.create-destroy", kernel_create_destroy, KC_CASES,
         "kernel.h", "Makes an instance: compiles, selects, prepacks constants",
         "kd_kernel_def.create kd_kernel_def.destroy kd_kernel_def.data"
         " kd_launch.data"
         " kd_node_table.op kd_node_table.domain kd_node_table.name"
         " kd_node_table.input_count kd_node_table.output_count"
         " kd_node_table.output_type",
         "A definition that can't be created is worse than none: the host has"
         " placed the op already."),
    RULE(MUST, "kernel.supports-honest", kernel_supports_honest, KC_CASES,
         "kernel.h", "Whether the device takes this very node",
         "kd_kernel_def.supports kd_kernel_def.create kd_kernel_def.enqueue",
         "supports says yes, and the kernel aborts on an assertion"
         " (ggml-org/llama.cpp#25568)."),
    RULE(MUST, "kernel.supports-any-rank", kernel_supports_odd, KC_CASES,
         "kernel.h", "KD_UNIMPLEMENTED (with the reason, by host->fail)",
         "kd_kernel_def.supports kd_node_table.input_type KD_UNIMPLEMENTED"
         " KD_RANK_UNKNOWN",
         "supports that looks at dims[1] of a scalar reads past it."),
    RULE(
        MUST, "kernel.supports-pure", kernel_supports_pure, KC_CASES,
        "kernel.h", "Cheap, any thread", "kd_kernel_def.supports",
        "The host asks again and again; an answer that depends on the last call"
        " makes placement change."),
    RULE(MUST, "kernel.cost-sane", kernel_cost, KC_CASES, "kernel.h",
         "Fills an estimate for the node",
         "kd_kernel_def.cost kd_cost.time kd_cost.flops kd_cost.bytes"
         " kd_cost.reserved",
         "Times that are not nanoseconds send ops to the wrong device."),
    RULE(MUST, "kernel.reuse", kernel_reuse, KC_CASES, "kernel.h",
         "It must not grow with repetition",
         "kd_kernel_def.enqueue kd_kernel_def.workspace",
         "Results or shapes of the last run that are still in the instance."),
    RULE(MUST, "kernel.any-shape", kernel_any_shape, 0, "kernel.h",
         "One instance serves every shape", "KD_KERNEL_ANY_SHAPE",
         "A kernel that keeps the first shape computes the second with it."),
    RULE(MUST, "kernel.concurrent", kernel_concurrent, 0, "kernel.h",
         "Several threads may enqueue one instance at once, on different"
         " streams",
         "kd_kernel_def.enqueue",
         "Scratch memory in the instance is shared by launches that run at the"
         " same time."),
    RULE(MUST, "kernel.concurrent-instances", kernel_concurrent_products, 0,
         "memory.h", "Any thread may call any slot",
         "kd_kernel_def.enqueue kd_kernel_def.create",
         "Static scratch memory is shared by all instances."),
    RULE(MUST, "kernel.workspace-enough", kernel_workspace, KC_CASES,
         "kernel.h", "Bytes of scratch that this launch needs",
         "kd_kernel_def.workspace kd_launch.workspace",
         "One tile too few is written into the next tensor."),
    RULE(MUST, "kernel.outputs-complete", kernel_outputs_complete, KC_CASES,
         "kernel.h", "Every element of an output is written",
         "kd_launch.outputs",
         "The tail of the last block, n % 256, keeps what was there; in a test"
         " that is zero."),
    RULE(SHOULD, "kernel.deterministic", kernel_deterministic, KC_CASES,
         "kernel.h", "the same inputs give the same bits",
         "KD_KERNEL_NONDETERMINISTIC",
         "Atomics and split sums change the last bits: declare it."),
    RULE(MUST, "kernel.inputs-untouched", kernel_inputs, KC_CASES | KC_WATCHED,
         "kernel.h", "Inputs are only read", "kd_launch.inputs",
         "Normalising in the input's memory saves a buffer and breaks every"
         " other reader of it. Watched behind every launch of all rules."),
    RULE(MUST, "kernel.inplace", kernel_inplace, KC_CASES, "kernel.h",
         "output 0 may take the memory of input i", "kd_kernel_def.inplace",
         "Claimed for an op that reads its neighbours, it reads results instead"
         " of inputs."),
    RULE(MUST, "kernel.aliases", kernel_aliases, KC_CASES, "kernel.h",
         "An output that may have the memory of an input",
         "kd_kernel_def.aliases kd_kernel_def.alias_count"
         " kd_kernel_def.reserved KD_ALIAS_MUST kd_alias.output kd_alias.input"
         " kd_alias.flags kd_alias.reserved",
         "A kernel that clears its output first, or reads the input late, finds"
         " its own results there."),
    RULE(MUST, "kernel.alias-inputs", kernel_alias, KC_CASES, "kernel.h",
         "Two inputs may be one buffer", "kd_launch.inputs",
         "x * x is common; restrict promises the compiler that it is not."),
    RULE(MUST, "kernel.strided-inputs", kernel_strided, KC_CASES, "kernel.h",
         "Inputs of a device may have strides; without it they come packed",
         "KD_KERNEL_STRIDED kd_tensor.strides",
         "A declared kernel that ignores them reads the wrong elements."),
    RULE(MUST, "kernel.any-offset", kernel_any_offset, KC_CASES, "kernel.h",
         "Data of inputs begin at any multiple of their element's size",
         "KD_KERNEL_ANY_OFFSET",
         "Vector loads want an alignment that a slice in the middle of a tensor"
         " has not."),
    RULE(MUST, "kernel.offset-tensors", kernel_offset, KC_CASES, "tensor.h",
         "bytes from the buffer's start to the first element",
         "kd_tensor.offset kd_tensor.buffer kd_tensor.data kd_tensor.size"
         " kd_tensor.rank kd_tensor.dtype kd_tensor.reserved KD_MAX_RANK",
         "The host gives out pieces of large buffers: a dropped offset reads"
         " another tensor."),
    RULE(MUST, "kernel.empty-tensor", kernel_empty, KC_CASES, "kernel.h",
         "Empty tensors are legal", "kd_tensor.dims",
         "A launch of zero blocks is an error for most drivers."),
    RULE(MUST, "kernel.ranks", kernel_ranks, KC_CASES, "tensor.h",
         "0 is a scalar; at most KD_MAX_RANK",
         "kd_tensor.rank KD_MAX_RANK kd_type.dtype kd_type.layout"
         " kd_type.reserved",
         "dims[0] of a scalar is not there; arrays of four dims overflow with"
         " five."),
    RULE(MUST, "kernel.odd-shapes", kernel_odd_shapes, KC_CASES, "kernel.h",
         "Every element of an output is written", "kd_kernel_def.enqueue",
         "Primes, and one more or less than each power of two, hit what tiles"
         " and vectors leave over."),
    RULE(MUST, "kernel.odd-products", kernel_odd_products, KC_CASES, "kernel.h",
         "Every element of an output is written", "kd_kernel_def.enqueue",
         "The same for the three sizes of a product."),
    RULE(SHOULD, "kernel.large", kernel_large, KC_LONG, "tensor.h",
         "sizes in elements, each >= 0", "kd_tensor.dims",
         "Indices and grids that are 16 or 24 bits wide somewhere."),
    RULE(MUST, "kernel.dynamic-output", kernel_dynamic, KC_CASES, "kernel.h",
         "Outputs come without shape and memory; `enqueue` calls"
         " host->set_output",
         "KD_KERNEL_DYNAMIC_OUTPUT kd_host.set_output",
         "Reporting the capacity instead of the count, or not waiting for the"
         " count."),
    RULE(
        MUST, "kernel.host-args", kernel_host_args, KC_CASES, "kernel.h",
        "the kernel reads when it is enqueued",
        "kd_kernel_def.host_inputs KD_TENSOR_HOST kd_tensor.flags",
        "A host pointer handed to the device, or read when the work runs, finds"
        " something else there."),
    RULE(MUST, "kernel.host-values", kernel_host_values, KC_CASES, "kernel.h",
         "may be others at each launch of one instance",
         "kd_kernel_def.host_inputs kd_kernel_def.enqueue",
         "A plan that was made for the first axes or pads, and is used for all"
         " others."),
    KC_RULE(MUST, REPLAY, "kernel.host-values-recorded",
            kernel_host_values_kept, KC_CASES, "capture.h",
            "Buffers and kernels that it uses stay alive until it is destroyed",
            "kd_capture_table.launch kd_kernel_def.host_inputs",
            "What an instance made for a launch's host arguments goes with the"
            " next launch, and a recording still points there."),
    RULE(MUST, "kernel.host-outputs", kernel_host_outputs, KC_CASES, "kernel.h",
         "input or output i lives in host memory", "kd_kernel_def.host_outputs",
         "The host reads them when the stream has passed."),
    RULE(MUST, "kernel.constants", kernel_constants, KC_CASES, "host.h",
         "The value of an input that is a constant of the program",
         "kd_node_table.constant KD_TENSOR_CONSTANT kd_kernel_def.create",
         "Prepacked weights must be the weights, also on the second run."),
    RULE(MUST, "kernel.taken", kernel_taken, KC_CASES, "kernel.h",
         "nothing reads its tensor any more", "kd_kernel_def.taken",
         "The host gives the memory of such weights back: who still reads them"
         " computes with whatever lies there."),
    RULE(MUST, "kernel.default-attributes", kernel_defaults, KC_CASES, "host.h",
         "Attributes have the schema's default where the model says nothing",
         "kd_node_table.attr_int kd_node_table.attr_float"
         " kd_node_table.attr_kind kd_node_table.attr_ints"
         " kd_node_table.attr_string kd_node_table.attr_floats"
         " kd_node_table.attr_strings kd_node_table.attr_tensor"
         " KD_ATTR_ABSENT KD_ATTR_FLOAT KD_ATTR_INT KD_ATTR_STRING"
         " KD_ATTR_TENSOR KD_ATTR_GRAPH KD_ATTR_FLOATS KD_ATTR_INTS"
         " KD_ATTR_STRINGS",
         "An epsilon of 0 instead of 1e-5 shows in one model of ten."),
    RULE(INFO, "kernel.batch-invariant", kernel_batch, 0, "kernel.h",
         "the same inputs give the same bits", "kd_kernel_def.enqueue",
         "Whether a row's result depends on how many rows there are: reported,"
         " not demanded."),
};

KC_AREA(kernel, "Kernels: definitions, instances, launches");
