/* kernel_argument.c - arguments that are dynamic, in host memory, or constants; attributes. */
#include <math.h>

#include "ops/vendor.h"
#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

void kernel_dynamic(void) {
  static const char *const ops[] = {"NonZero", "Compress", "Unique"};
  kc_device();
  bool any = false;
  for (size_t i = 0; i < KC_COUNT_OF(ops); i++)
    for (uint32_t c = 0; c < kc_case_count(NULL, ops[i]); c++) {
      kc_op_case one;
      if (!kc_case_ints(NULL, ops[i], c, c + 3, &one)) continue;
      kc_node *node = kc_node_make(&one.op, NULL, 0);
      const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
      if (def && kc_case("op=%s,case=%u", ops[i], c)) {
        any = true;
        kc_check(def->flags & KD_KERNEL_DYNAMIC_OUTPUT,
                 "%s is not KD_KERNEL_DYNAMIC_OUTPUT", ops[i]);
        kc_run *run = kc_run_of(node, def, &one.op, &kc_plain);
        kernel_run_and_compare(&one, node, run, ops[i]);
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
static void run_host_args(kc_op_case *one, kc_node *node,
                          const kd_kernel_def *def) {
  value *want[KC_PORTS] = {0};
  if (!kc_reference(&one->op, node, want)) return;
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  kd_stream *stream = kc_stream_or_none();
  if (stream) kc_busy(stream, KC_MS);
  kc_ok(kc_run_enqueue(run, stream), "enqueue");
  for (uint32_t i = 0; i < one->op.in_count && i < 32; i++)
    if ((def->host_inputs >> i & 1) && run->in_bytes[i])
      memset(run->in_bytes[i], 0x6b, run->in_sizes[i]);
  kc_drain(stream);
  numerics within =
      kc_numerics(def, one->op.in[0] ? one->op.in[0]->dtype : KD_F32);
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

/* Which inputs of a case are host arguments with something in them. */
static uint32_t host_args_of(const kc_op_case *one, const kd_kernel_def *def) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < one->op.in_count && i < 32; i++)
    if ((def->host_inputs >> i & 1) && one->op.in[i] && one->op.in[i]->count)
      mask |= 1u << i;
  return mask;
}

/* Cases of a definition, until each of its host arguments was in one. */
static bool each_host_args(const kd_kernel_def *def) {
  uint32_t count = kc_case_count(def->domain, def->op), seen = 0;
  for (uint32_t c = 0; c < count && !(kc.quick && seen); c++) {
    kc_op_case one;
    if (!kc_case_ints(def->domain, def->op, c, c + 77, &one)) continue;
    uint32_t mask = host_args_of(&one, def);
    kc_node *node = mask & ~seen ? kc_node_make(&one.op, NULL, 0) : NULL;
    if (node && !node->dynamic && kc_def_for(node) == def) {
      seen |= mask;
      if (kc_case("op=%s,case=%u", def->op, c)) {
        kc_check(true, " ");
        run_host_args(&one, node, def);
      }
    }
    kc_node_free(node);
    kc_case_free(&one);
  }
  return seen != 0;
}

void kernel_host_args(void) {
  bool any = false;
  kc_device();
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    if (!def->host_inputs || (kc.op && strcmp(kc.op, def->op) != 0)) continue;
    any |= each_host_args(def);
  }
  if (!any && kc_case("none"))
    kc_unclaimed("no op to try has an input in host memory");
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
  kernel_run_and_compare(p->one, p->node, p->run, "the first launch");
  kc_run_refill(p->run, &p->other->op);
  kernel_run_and_compare(p->other, p->changed, p->run,
                         "with other host arguments");
  kc_run_refill(p->run, &p->one->op);
  kernel_run_and_compare(p->one, p->node, p->run,
                         "with the first host arguments again");
}

/* The first is recorded, the other launched, and then the recording. */
static void replay_behind_other(const value_pair *p) {
  kd_stream *stream = kc_stream_make(kc_device());
  kd_capture *capture = NULL;
  kc_ok(kp.c.begin(stream, 0), "capture.begin");
  kd_status status = kc_run_enqueue(p->run, stream);
  kd_status ended = kp.c.end(stream, &capture);
  kc_ok(status, "enqueue while recording");
  if (ended == KD_UNIMPLEMENTED) return;
  kc_ok(ended, "capture.end");
  kc_run_refill(p->run, &p->other->op);
  kernel_run_and_compare(p->other, p->changed, p->run,
                         "a launch behind the recording");
  kc_run_refill(p->run, &p->one->op);
  kc_ok(kp.c.launch(capture, stream), "capture.launch");
  kc_drain(stream);
  kc_run_check(p->run, &p->one->op, p->node,
               "what was recorded with the first host arguments");
  kp.c.destroy(capture);
}

/* Checks a case beside others of the same types, and results of the same types. Returns
 * whether there are such others. */
static bool other_host_values(const kd_kernel_def *def, uint32_t c, int way,
                              void (*check)(const value_pair *pair)) {
  kc_op_case one, other;
  bool tried = false;
  if (!kc_case_ints(def->domain, def->op, c, c + 11, &one)) return false;
  kc_case_ints(def->domain, def->op, c, c + 11, &other);
  change_host_values(&other, def->host_inputs, way);
  kc_node *node = kc_node_make(&one.op, NULL, 0);
  kc_node *changed = kc_node_make(&other.op, NULL, 0);
  if (node && changed && kc_def_for(node) == def &&
      kc_def_for(changed) == def &&
      same_types(node, changed, one.op.out_count) &&
      kc_case("op=%s,case=%u", def->op, c)) {
    tried = true;
    kc_run *run = kc_run_of(node, def, &one.op, &kc_plain);
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
void kernel_host_values(void) {
  each_host_values(0, launch_both);
}

void kernel_host_values_kept(void) {
  each_host_values(KD_KERNEL_NO_CAPTURE, replay_behind_other);
}

void kernel_host_outputs(void) {
  kc_device();
  bool any = false;
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    if (!def->host_outputs) continue;
    for (uint32_t c = 0; c < kc_case_count(def->domain, def->op); c++) {
      kc_op_case one;
      if (!kc_case_ints(def->domain, def->op, c, c, &one)) continue;
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
void kernel_constants(void) {
  static const char *const ops[] = {"MatMul", "Conv", "Gemm", "Add"};
  kc_device();
  bool any = false;
  for (size_t i = 0; i < KC_COUNT_OF(ops); i++) {
    kc_op_case one;
    if (!kc_case_ints(NULL, ops[i], 0, i + 5, &one)) continue;
    one.op.constants = 2;
    kc_node *node = kc_node_make(&one.op, NULL, 0);
    const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
    if (def && kc_case("op=%s", ops[i])) {
      any = true;
      kc_run *run = kc_run_of(node, def, &one.op, &kc_plain);
      kernel_run_and_compare(&one, node, run, "with a constant input");
      kc_run_refill(run, &one.op);
      kernel_run_and_compare(&one, node, run, "with a constant input, again");
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
  if (kc_supports(def, node) != KD_OK) return false;
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  bool took = run->in[1].dtype == KD_NONE;
  if (took) memset(node->data[1], 0xff, node->in[1]->bytes);
  kernel_run_and_compare(one, node, run, "without the constant that it took");
  kc_run_free(run);
  return took;
}

/* What an instance has taken is not passed, and its memory is used for something else. */
void kernel_taken(void) {
  uint32_t took = 0;
  kc_device();
  for (uint32_t d = 0; d < kp.kernel_count; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    if (!def->taken || !kc_case("op=%s,number=%u", def->op, (unsigned)d))
      continue;
    uint32_t lays = def->flags & KD_KERNEL_OWN_LAYOUT ? KC_LAY_BOTH : 0;
    for (uint32_t c = 0; c < kc_case_count(def->domain, def->op) && c < 6; c++)
      for (uint32_t which = 0; which <= lays; which++) {
        kc_op_case one;
        if (!kc_case_ints(def->domain, def->op, c, d * 64 + c, &one)) continue;
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

/* All inputs but the first are constants, and the host's copies go before the first
 * launch. */
static void run_without_source(kc_op_case *one, kc_node *node,
                               const kd_kernel_def *def) {
  kc_run *run = kc_run_of(node, def, &one->op, &kc_plain);
  for (uint32_t i = 0; i < one->op.in_count; i++)
    if (node->constants[i]) memset(node->data[i], 0xff, node->in[i]->bytes);
  node->node.constants = NULL;
  kernel_run_and_compare(one, node, run,
                         "with constants that it can't ask for any more");
  kc_run_free(run);
}

void kernel_constants_in_create(void) {
  uint32_t tried = 0;
  kc_device();
  for (uint32_t d = 0; d < kp.kernel_count && tried < kernel_all_ops(); d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    kc_op_case one;
    if (!(def->flags & KD_KERNEL_CONSTANTS_IN_CREATE) || !def->create ||
        !kc_case_ints(def->domain, def->op, 0, d, &one))
      continue;
    one.op.constants = ~1u;
    kc_node *node = one.op.in_count > 1 ? kc_node_make(&one.op, NULL, 0) : NULL;
    if (node && kc_def_fits(def, node) && kc_supports(def, node) == KD_OK) {
      tried++;
      if (kc_case("op=%s,number=%u", def->op, (unsigned)d))
        run_without_source(&one, node, def);
    }
    kc_node_free(node);
    kc_case_free(&one);
  }
  if (!tried && kc_case("none"))
    kc_unclaimed("no kernel says that it reads constants in create only");
}

/* An attribute that is absent has the schema's default. */
void kernel_defaults(void) {
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
        kernel_run_and_compare(
            &one, node, run,
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
static value *kernel_argument_product(value *x, value *weights) {
  kc_op op = {
      .name = "MatMul", .in = {x, weights}, .in_count = 2, .out_count = 1};
  kc_node *node = kc_node_make(&op, NULL, 0);
  const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
  kc_run *run = NULL;
  value *got = NULL;
  if (def) {
    run = kc_run_of(node, def, &op, &kc_plain);
    kc_ok(kc_run_now(run), "run");
    got = kc_run_output(run, 0);
    kc_run_free(run);
  }
  kc_node_free(node);
  return got;
}

void kernel_batch(void) {
  int64_t one_row[2] = {1, 24}, many[2] = {8, 24}, w[2] = {24, 10};
  kc_random random = kc_seed();
  kc_device();
  value *x = kc_floats(2, many, &random), *y = value_make(KD_F32, 2, one_row);
  value *weights = kc_floats(2, w, &random);
  memcpy(y->x, x->x, 24 * sizeof *x->x);
  value *alone = kernel_argument_product(y, weights),
        *among = kernel_argument_product(x, weights);
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
