/* own.c - ops that the plugin brings itself: their definitions, shape functions and
 * kernels.
 *
 * The suite does not know what they compute, so it tries shapes of a list, and looks
 * at what can be judged without: that the answers fit the definition, depend on
 * nothing else, and that kernels write what was announced. */
#include <math.h>

#include "ops/vendor.h"
#include "rules/rules.h"

#define TRIALS 30u

/* Leaves the case where the plugin brings no op. */
static void need_ops(void) {
  kc_load();
  if (!kp.p.op_count) kc_unclaimed("it brings no op");
  if (!kc_own_op(0)) kc_unclaimed("the host refuses its ops (own.defined)");
}

/* ---- trials ----------------------------------------------------------------------- */

/* An op on some types, with values of its own. */
typedef struct trial {
  uint32_t number;
  kc_op op;
  value *own[KC_PORTS];
} trial;

static kd_dtype type_for(const keel_param *param, uint32_t number) {
  static const kd_dtype liked[] = {KD_F32, KD_I64, KD_F16};
  kd_dtype like = liked[number % KC_COUNT_OF(liked)];
  if (!param->types || (param->types & KD_TYPES(like))) return like;
  for (kd_dtype i = 1; i < KD_DTYPE_COUNT; i++)
    if ((param->types & KD_TYPES(i)) && kd_dtype_size(i)) return i;
  return KD_NONE;
}

/* Data, or an input whose value the shape function reads: a small scalar or list. */
static value *input_for(const keel_schema *schema, uint32_t index,
                        uint32_t number) {
  static const struct {
    uint32_t rank;
    int64_t dims[5];
  } shapes[] = {{2, {3, 4}},          {1, {8}},   {3, {2, 3, 4}}, {0, {0}},
                {4, {2, 4, 6, 8}},    {1, {1}},   {2, {2, 0}},    {1, {7}},
                {5, {1, 2, 3, 4, 2}}, {2, {5, 5}}};
  uint32_t at = number % KC_COUNT_OF(shapes);
  bool listed = schema->value_inputs >> index & 1;
  int64_t length = 1 + (number & 1);
  kd_dtype dtype =
      type_for(keel_schema_input(schema, index), number / KC_COUNT_OF(shapes));
  if (dtype == KD_NONE) return NULL;
  value *v = listed ? value_make(dtype, number % 3 != 0, &length)
                    : value_make(dtype, shapes[at].rank, shapes[at].dims);
  kc_random random = {number + index};
  for (int64_t i = 0; v && i < v->count; i++)
    v->x[i] = listed                  ? (real)(i + 1)
              : dtype_is_float(dtype) ? (real)(kc_below(&random, 64)) / 8 - 4
                                      : (real)kc_below(&random, 4);
  return v;
}

static void add_required(const keel_schema *schema, kc_op *op) {
  static const int64_t one[] = {1};
  static const float ones[] = {1};
  static const char *const texts[] = {""};
  for (uint32_t i = 0; i < schema->attr_count; i++) {
    const keel_attr_rule *rule = &schema->attrs[i];
    if (!rule->required || op->attr_count == KC_COUNT_OF(op->attrs)) continue;
    op->attrs[op->attr_count++] = (keel_attr){.name = rule->name,
                                              .kind = rule->kind,
                                              .count = 1,
                                              .i = 1,
                                              .f = 1,
                                              .s = "",
                                              .ints = one,
                                              .floats = ones,
                                              .strings = texts};
  }
}

/* Trial `number` of an op; false where the suite can't make its arguments. */
static bool make_trial(const keel_schema *schema, uint32_t number, trial *t) {
  memset(t, 0, sizeof *t);
  t->number = number;
  uint32_t count = number & 1 ? schema->input_count : schema->least_inputs;
  if (count > KC_PORTS) return false;
  t->op = (kc_op){.domain = schema->domain,
                  .name = schema->name,
                  .in_count = count,
                  .out_count = schema->output_count,
                  .constants = schema->value_inputs};
  add_required(schema, &t->op);
  for (uint32_t i = 0; i < count; i++) {
    t->own[i] = input_for(schema, i, number);
    if (!t->own[i]) return false;
    t->op.in[i] = t->own[i];
  }
  return true;
}

static void drop_trial(trial *t) {
  for (uint32_t i = 0; i < KC_PORTS; i++)
    value_free(t->own[i]);
}

/* Asks the shape function itself. KC_ASKED_NOT: there is none, or no such node. */
#define KC_ASKED_NOT KD_NOT_FOUND
static kd_status own_ask(const keel_schema *schema, const trial *t,
                         kd_op_type *outputs) {
  kc_node *node = schema->plugin_op.infer ? kc_node_asked(&t->op) : NULL;
  if (!node) return KC_ASKED_NOT;
  const kd_op_call call = {.struct_size = sizeof call,
                           .output_count = t->op.out_count,
                           .host = kc_services(),
                           .node = &node->node,
                           .outputs = outputs};
  for (uint32_t i = 0; i < t->op.out_count; i++) {
    const keel_param *param = keel_schema_output(schema, i);
    bool one = param->types && !(param->types & (param->types - 1));
    memset(&outputs[i], 0, sizeof outputs[i]);
    outputs[i].rank = KD_RANK_UNKNOWN;
    if (param->variable < 0 && one)
      outputs[i].dtype = (kd_dtype)__builtin_ctzll(param->types);
    for (uint32_t k = 0; k < t->op.in_count && param->variable >= 0; k++)
      if (keel_schema_input(schema, k)->variable == param->variable)
        outputs[i].dtype = t->own[k]->dtype;
  }
  kc_hush();
  kd_status status = KC_CALL(kd_status, schema->plugin_op.infer(&call),
                             "%s.infer", schema->name);
  kc_node_free(node);
  return status;
}

/* Calls `body` with the plugin's ops and trials, each op in a case of its own. */
static void each_trial(void (*body)(const keel_schema *schema, const trial *t,
                                    const char *text)) {
  const keel_schema *schema = NULL;
  need_ops();
  for (uint32_t i = 0; (schema = kc_own_op(i)); i++) {
    if (!kc_case("op=%s", schema->name)) continue;
    for (uint32_t number = 0; number < TRIALS; number++) {
      trial t;
      char text[300];
      if (make_trial(schema, number, &t))
        body(schema, &t, kc_op_text(&t.op, text, sizeof text));
      drop_trial(&t);
    }
  }
}

/* ---- rules ------------------------------------------------------------------------ */

static void own_defined(void) {
  kc_load();
  if (!kp.p.op_count) kc_unclaimed("it brings no op");
  const char *why = kc_ops_refused();
  kc_check(!*why, "%s", why);
}

static void check_said(const keel_schema *schema, uint32_t index,
                       const kd_op_type *said, const char *text) {
  const keel_param *param = keel_schema_output(schema, index);
  if (!kc_check(said->rank != KD_RANK_UNKNOWN && said->dtype != KD_NONE,
                "%s: it does not say what %s is", text, param->name) ||
      !kc_check(said->rank <= KD_MAX_RANK, "%s: %s has rank %u", text,
                param->name, said->rank))
    return;
  kc_check(said->dtype < KD_DTYPE_COUNT &&
               (!param->types || (param->types & KD_TYPES(said->dtype))),
           "%s: %s is %s, which its definition excludes", text, param->name,
           kd_dtype_name(said->dtype));
  for (uint32_t i = 0; i < said->rank; i++)
    kc_check(said->dims[i] >= 0, "%s: dimension %u of %s is %lld", text, i,
             param->name, (long long)said->dims[i]);
}

static void infer_fits(const keel_schema *schema, const trial *t,
                       const char *text) {
  kd_op_type outputs[KD_MAX_TYPED_OUTPUTS];
  kd_status status = own_ask(schema, t, outputs);
  if (status == KC_ASKED_NOT) return;
  if (status != KD_OK) {
    kc_check(status == KD_INVALID_ARGUMENT || status == KD_UNIMPLEMENTED,
             "%s: infer returned %s", text, kd_status_name(status));
    kc_check(*kc_message(), "%s: infer refused it without a message", text);
    return;
  }
  for (uint32_t i = 0; i < t->op.out_count; i++)
    check_said(schema, i, &outputs[i], text);
}

static void own_infer(void) {
  each_trial(infer_fits);
}

/* What was said before the plugin was opened, by op and trial. */
typedef struct answer {
  kd_status status;
  kd_op_type outputs[KD_MAX_TYPED_OUTPUTS];
} answer;
static answer *answers;

static bool same_said(const trial *t, const kd_op_type *a,
                      const kd_op_type *b) {
  for (uint32_t i = 0; i < t->op.out_count; i++)
    if (a[i].dtype != b[i].dtype || a[i].rank != b[i].rank ||
        (a[i].rank <= KD_MAX_RANK &&
         memcmp(a[i].dims, b[i].dims, a[i].rank * sizeof *a[i].dims) != 0))
      return false;
  return true;
}

static answer *answer_of(const keel_schema *schema, uint32_t number) {
  uint32_t op = 0;
  while (kc_own_op(op) != schema)
    op++;
  return &answers[op * TRIALS + number];
}

static void infer_again(const keel_schema *schema, const trial *t,
                        const char *text) {
  const answer *first = answer_of(schema, t->number);
  kd_op_type again[KD_MAX_TYPED_OUTPUTS];
  for (int i = 0; i < 3; i++) {
    kd_status status = own_ask(schema, t, again);
    kc_check(status == first->status,
             "%s: infer returned %s before the plugin was opened, and %s after",
             text, kd_status_name(first->status), kd_status_name(status));
    kc_check(status != KD_OK || same_said(t, first->outputs, again),
             "%s: infer says something else when it is asked again", text);
  }
}

static void own_infer_pure(void) {
  const keel_schema *schema = NULL;
  uint32_t count = 0;
  need_ops();
  while (kc_own_op(count))
    count++;
  answers = kc_take(count * TRIALS * sizeof *answers);
  for (uint32_t i = 0; (schema = kc_own_op(i)); i++)
    for (uint32_t number = 0; number < TRIALS; number++) {
      answer *to = &answers[i * TRIALS + number];
      trial t;
      if (make_trial(schema, number, &t))
        to->status = own_ask(schema, &t, to->outputs);
      drop_trial(&t);
    }
  kc_ok(kc_open(), "open");
  each_trial(infer_again);
  free(answers);
}

static bool same_value(const value *a, const value *b) {
  if (!a || !b || a->count != b->count) return false;
  for (int64_t i = 0; i < a->count; i++)
    if (!(a->x[i] == b->x[i]) && !(isnan(a->x[i]) && isnan(b->x[i])))
      return false;
  return true;
}

/* Runs a kernel over outputs that held something else before. */
static bool own_run_with(const kd_kernel_def *def, kc_node *node,
                         const kc_op *op, uint8_t fill, value **out,
                         const char *text) {
  kc_layout layout = kc_plain;
  kc_run *run = NULL;
  layout.fill = fill;
  kd_status status = kc_run_make(node, def, op, &layout, &run);
  if (status == KD_OK) status = kc_run_now(run);
  kc_check(status == KD_OK || *kc_message(),
           "%s: it was refused with %s, and no message", text,
           kd_status_name(status));
  for (uint32_t i = 0; status == KD_OK && i < op->out_count; i++)
    out[i] = kc_run_output(run, i);
  kc_run_free(run);
  return status == KD_OK;
}

static void kernel_writes(const keel_schema *schema, const trial *t,
                          const char *text) {
  (void)schema;
  kc_device();
  kc_node *node = kc_node_make(&t->op, NULL, 0);
  const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
  value *first[KC_PORTS] = {0}, *second[KC_PORTS] = {0};
  bool free_to_differ = def && (def->flags & KD_KERNEL_NONDETERMINISTIC);
  if (def && own_run_with(def, node, &t->op, 0xff, first, text) &&
      own_run_with(def, node, &t->op, 0x3c, second, text))
    for (uint32_t i = 0; i < t->op.out_count && !free_to_differ; i++)
      kc_check(same_value(first[i], second[i]),
               "%s: output %u depends on what was there before", text, i);
  kc_values_free(first, t->op.out_count);
  kc_values_free(second, t->op.out_count);
  kc_node_free(node);
}

static void own_kernel(void) {
  each_trial(kernel_writes);
}

static void own_used(void) {
  const keel_schema *schema = NULL;
  need_ops();
  for (uint32_t i = 0; (schema = kc_own_op(i)); i++) {
    bool has = kp.table->regions != NULL;
    for (uint32_t d = 0; d < kp.kernel_count && !has; d++)
      has = kp.kernels[d].domain && !strcmp(kp.kernels[d].op, schema->name) &&
            !strcmp(kp.kernels[d].domain, schema->domain);
    kc_check(has, "%s::%s: no kernel is for it, and there is no compiler",
             schema->domain, schema->name);
  }
}

#define RULE(severity, id, check, flags, sentence, names, about) \
  KC_RULE(severity, CORE, id, check, flags, "op.h", sentence, names, about)

static const kc_rule rules[] = {
    RULE(MUST, "own.defined", own_defined, KC_CLOSED,
         "Definitions form an array that the host steps by the first"
         " one's struct_size",
         "kd_plugin.ops kd_plugin.op_count kd_plugin.reserved"
         " kd_op_def.struct_size kd_op_def.flags kd_op_def.domain"
         " kd_op_def.name kd_op_def.version kd_op_def.value_inputs"
         " kd_op_def.inputs kd_op_def.outputs kd_op_def.attrs"
         " kd_op_def.input_count kd_op_def.output_count kd_op_def.attr_count"
         " kd_op_def.reserved kd_op_param.struct_size kd_op_param.flags"
         " kd_op_param.name kd_op_param.types kd_op_param.variable"
         " kd_op_param.reserved kd_op_attr.struct_size kd_op_attr.flags"
         " kd_op_attr.name kd_op_attr.kind kd_op_attr.f kd_op_attr.i"
         " kd_op_attr.s KD_PARAM_OPTIONAL KD_PARAM_VARIADIC"
         " KD_OP_ATTR_REQUIRED KD_OP_ATTR_DEFAULT",
         "The host refuses the whole plugin for a definition that is none, or"
         " the op and its kernels for one that it can't use."),
    RULE(MUST, "own.infer", own_infer, KC_CLOSED | KC_CASES,
         "Infers the type of each output",
         "kd_op_def.infer kd_op_call.struct_size kd_op_call.output_count"
         " kd_op_call.host kd_op_call.node kd_op_call.outputs kd_op_type.dtype"
         " kd_op_type.rank kd_op_type.dims",
         "The host allocates what the shape function says: a rank that is not"
         " set, or a type that the definition excludes, fails the model."),
    RULE(
        MUST, "own.infer-pure", own_infer_pure, KC_CLOSED | KC_CASES,
        "its result depends on the node alone", "kd_op_def.infer",
        "It is asked as a model is read, as it is planned and at launches, with"
        " and without devices: who counts calls, or needs the driver, gives one"
        " tensor two shapes."),
    RULE(MUST, "own.kernel", own_kernel, KC_CASES,
         "Its outputs depend on nothing but its inputs and attributes",
         "kd_op_def.infer kd_kernel_def.enqueue",
         "Kernels whose idea of the output is smaller than the shape"
         " function's leave elements unwritten, and results depend on what the"
         " memory held."),
    RULE(SHOULD, "own.used", own_used, KC_CLOSED,
         "passes them to any kernel or compiler that supports them",
         "kd_plugin.ops",
         "A model that has the op loads, and then nothing can run it."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(op_unversioned, "own.defined", "an op's version is 0"),
    DEFECT(infer_mute, "own.infer", "a shape function refuses a scalar without a word"),
    DEFECT(infer_forgets, "own.infer", "a shape function says nothing of three dimensions"),
    DEFECT(infer_other_type, "own.infer", "a shape function gives a type that its definition excludes"),
    DEFECT(infer_counts, "own.infer-pure", "a shape function's answer depends on how often it was asked"),
    DEFECT(infer_needs_driver, "own.infer-pure", "a shape function fails before open"),
    DEFECT(halve_short, "own.kernel", "a kernel of an own op leaves the last element as it was"),
    DEFECT(op_unused, "own.used", "an op that nothing runs"),
};
/* clang-format on */

KC_AREA(own, "Ops of the plugin's own");
