/* kernel_attribute.c - instances of one op with different attributes, side by side. */
#include <math.h>

#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

#define PAIRS 6u /* that an op is tried with */

/* One of two instances that live at once. */
typedef struct side {
  const kc_op *op;
  kc_node *node;
  const kd_kernel_def *def;
  kc_run *run;
  value *want[KC_PORTS];
} side;

static bool side_make(const kc_op *op, side *out) {
  *out = (side){.op = op, .node = kc_node_make(op, NULL, 0)};
  if (!out->node || out->node->dynamic) return false;
  out->def = kc_def_for(out->node);
  return out->def && kc_reference(op, out->node, out->want);
}

static void side_free(side *s) {
  kc_run_free(s->run);
  kc_values_free(s->want, s->op->out_count);
  kc_node_free(s->node);
}

static void side_check(side *s, const side *other, const char *what) {
  kd_status status = kc_run_now(s->run);
  if (status == KD_UNIMPLEMENTED || status == KD_INVALID_ARGUMENT)
    return; /* the suite made these attributes up */
  if (!kc_check(status == KD_OK, "%s: %s: %s", what, kd_status_name(status),
                kc_message()))
    return;
  numerics within =
      kc_numerics(s->def, s->op->in[0] ? s->op->in[0]->dtype : KD_F32);
  for (uint32_t j = 0; j < s->op->out_count; j++) {
    value *got = kc_run_output(s->run, j);
    if (!s->want[j] || (got && kc_near(s->want[j], got, &within)))
      kc_check(true, " ");
    else if (got && j < other->op->out_count &&
             kc_near(other->want[j], got, &within))
      kc_check(false,
               "%s: the result is that of the other attributes (are instances"
               " or code kept by the op's name, or by a key that leaves an"
               " attribute out?)",
               what);
    else
      kc_compare(s->want[j], got, &within, what);
    value_free(got);
  }
}

/* Both live; the first runs, the second, the first again. Whether that could be tried. */
static bool apart(const kc_op *a, const kc_op *b, const char *what) {
  side first, second;
  bool made = side_make(a, &first), both = side_make(b, &second) && made;
  both =
      both &&
      kc_run_make(first.node, first.def, a, &kc_plain, &first.run) == KD_OK &&
      kc_run_make(second.node, second.def, b, &kc_plain, &second.run) == KD_OK;
  if (both) {
    side_check(&first, &second, what);
    side_check(&second, &first, what);
    side_check(&first, &second, what);
  }
  side_free(&first);
  side_free(&second);
  return both;
}

/* ---- another value of each attribute -------------------------------------------------- */

/* Where another value of an attribute is kept. */
typedef struct other_attr {
  keel_attr attr;
  int64_t ints[16];
  float floats[16];
  char word[64];
} other_attr;

/* The try-th other integer; false past the last. */
static bool other_int(int64_t from, uint32_t try, int64_t *out) {
  static const int64_t steps[] = {1, -1, 2, -2};
  if (try >= KC_COUNT_OF(steps)) return false;
  *out = from == 0 || from == 1 ? (try == 0 ? !from : from + steps[try])
                                : from + steps[try];
  return true;
}

static bool other_word(const keel_attr_rule *rule, const char *from,
                       uint32_t try, char *out, size_t room) {
  const char *at = rule->choices;
  for (; at && *at; at += strcspn(at, "|"), at += *at == '|') {
    size_t size = strcspn(at, "|");
    bool same = from && strlen(from) == size && !strncmp(from, at, size);
    if (same || try-- > 0 || size >= room) continue;
    memcpy(out, at, size);
    out[size] = 0;
    return true;
  }
  return false;
}

/* Lists of which the last element, or the last two, are others. */
static bool other_list(const keel_attr *from, uint32_t try, other_attr *out) {
  uint32_t n = from->count;
  if (!n || n > 16 || try > 2) return false;
  memcpy(out->ints, from->ints, n * sizeof *from->ints);
  if (try == 0 && n > 1) {
    out->ints[n - 1] = from->ints[n - 2];
    out->ints[n - 2] = from->ints[n - 1];
  } else {
    out->ints[n - 1] += try == 2 ? -1 : 1;
  }
  out->attr.ints = out->ints;
  return true;
}

/* The try-th other value of an attribute; false past the last. */
static bool other_value(const keel_attr_rule *rule, const keel_attr *given,
                        uint32_t try, other_attr *out) {
  memset(out, 0, sizeof *out);
  out->attr =
      given ? *given : (keel_attr){.name = rule->name, .kind = rule->kind};
  switch (rule->kind) {
    case KD_ATTR_INT:
      return other_int(given ? given->i : rule->i, try, &out->attr.i);
    case KD_ATTR_FLOAT:
      out->attr.f = (given ? given->f : rule->f) * 2 + 0.5f;
      return try == 0;
    case KD_ATTR_STRING:
      out->attr.s = out->word;
      return other_word(rule, given ? given->s : rule->s, try, out->word,
                        sizeof out->word);
    case KD_ATTR_INTS:
      return given && other_list(given, try, out);
    case KD_ATTR_FLOATS:
      if (!given || !given->count || given->count > 16) return false;
      memcpy(out->floats, given->floats, given->count * sizeof(float));
      out->floats[given->count - 1] += 0.25f;
      out->attr.floats = out->floats;
      return try == 0;
    default:
      return false;
  }
}

static bool with_other(const kc_op *op, const keel_attr_rule *rule,
                       uint32_t try, other_attr *room, kc_op *out) {
  uint32_t at = 0;
  *out = *op;
  while (at < op->attr_count && strcmp(op->attrs[at].name, rule->name) != 0)
    at++;
  bool given = at < op->attr_count;
  if (at >= KC_COUNT_OF(op->attrs) ||
      !other_value(rule, given ? &op->attrs[at] : NULL, try, room))
    return false;
  out->attrs[at] = room->attr;
  out->attr_count += !given;
  return true;
}

static uint32_t each_attribute(const kc_op *op, const keel_schema *schema) {
  uint32_t tried = 0;
  for (uint32_t i = 0; i < schema->attr_count; i++) {
    kc_op other;
    other_attr room;
    char what[100];
    snprintf(what, sizeof what, "beside an instance with another %s, an output",
             schema->attrs[i].name);
    bool done = false;
    for (uint32_t try = 0;
         !done && with_other(op, &schema->attrs[i], try, &room, &other); try++)
      done = apart(op, &other, what);
    tried += done;
  }
  return tried;
}

/* ---- the attributes of the op's other cases ----------------------------------------------- */

static bool same_attributes(const kc_op *a, const kc_op *b) {
  bool same = a->attr_count == b->attr_count;
  for (uint32_t i = 0; same && i < a->attr_count; i++)
    same = keel_attr_equal(&a->attrs[i], &b->attrs[i]);
  return same;
}

static bool same_inputs(const kc_op *a, const kc_op *b) {
  bool same = a->in_count == b->in_count && a->out_count == b->out_count;
  for (uint32_t i = 0; same && i < a->in_count; i++)
    same = !a->in[i] == !b->in[i] &&
           (!a->in[i] || (a->in[i]->rank == b->in[i]->rank &&
                          a->in[i]->dtype == b->in[i]->dtype));
  return same;
}

static void each_other_case(const kc_op *op) {
  uint32_t count = kc_case_count(op->domain, op->name), tried = 0;
  for (uint32_t c = 0; c < count && tried < PAIRS; c++) {
    kc_op_case other;
    kc_random random = {c};
    if (!kc_case_make(op->domain, op->name, c, op->in[0]->dtype, KC_PROBE_INTS,
                      &random, &other))
      continue;
    kc_op mixed = *op; /* its inputs, and the attributes of the other */
    memcpy(mixed.attrs, other.op.attrs, sizeof mixed.attrs);
    mixed.attr_count = other.op.attr_count;
    if (!same_attributes(op, &mixed) && same_inputs(op, &other.op))
      tried += apart(op, &mixed,
                     "beside an instance with other attributes, an output");
    kc_case_free(&other);
  }
}

/* Indices that are in range along any axis. */
static void small_indices(kc_op_case *one) {
  bool places = !strcmp(one->op.name, "Gather") ||
                !strcmp(one->op.name, "GatherElements") ||
                !strcmp(one->op.name, "ScatterElements");
  for (int64_t k = 0; places && k < one->own[1]->count; k++)
    one->own[1]->x[k] = k % 2;
}

static void def_apart(kc_op_case *one, kc_node *node,
                      const kd_kernel_def *def) {
  (void)def;
  kc_check(true, " ");
  small_indices(one);
  for (uint32_t constants = 0; constants < 2; constants++) {
    one->op.constants = constants ? ~1u : 0;
    if (constants && one->op.in_count < 2) break;
    each_attribute(&one->op, node->op->schema);
    each_other_case(&one->op);
  }
}

/* ---- floats that are neighbours ------------------------------------------------------------ */

/* An op whose result at some x is the attribute itself, or turns on it. */
typedef struct echo {
  const char *op, *attr;
  float x;      /* of the input; 0: the larger of the two values */
  double given; /* of `with` */
  const char *with;
} echo;

static const echo echoes[] = {
    {"LeakyRelu", "alpha", -1, 0, NULL},
    {"Elu", "alpha", -200, 0, NULL},
    {"Celu", "alpha", -1e30f, 0, NULL},
    {"Selu", "gamma", 1, 0, NULL},
    {"HardSigmoid", "alpha", 1, 0, "beta"},
    {"HardSigmoid", "beta", 0, 0, "alpha"},
    {"ThresholdedRelu", "alpha", 0, 0, NULL},
    {"Shrink", "lambd", 0, 0, NULL},
    {"Shrink", "bias", 2, 1, "lambd"},
    {"Gemm", "alpha", 1, 0, NULL},
};

static value *result_of(const kc_op *op, side *out) {
  if (!side_make(op, out) ||
      (out->def->flags & (KD_KERNEL_RELAXED | KD_KERNEL_TF32)))
    return NULL;
  if (!out->run) out->run = kc_run_of(out->node, out->def, op, &kc_plain);
  kc_ok(kc_run_now(out->run), op->name);
  return kc_run_output(out->run, 0);
}

/* Two values of an attribute that a cache's key may print as one. */
static void try_echo(const echo *e, float low, float high) {
  static const int64_t ones[2] = {1, 1};
  kc_op ops[2];
  side sides[2];
  value *x = value_make(KD_F32, 2, ones), *got[2];
  bool picks = e->x == 0 && strcmp(e->attr, "beta") != 0;
  x->x[0] = picks ? high : e->x;
  for (int i = 0; i < 2; i++) {
    ops[i] =
        (kc_op){.name = e->op, .in = {x, x}, .in_count = 1, .out_count = 1};
    if (!strcmp(e->op, "Gemm")) ops[i].in_count = 2;
    ops[i].attrs[0] = (keel_attr){
        .name = e->attr, .kind = KD_ATTR_FLOAT, .f = i ? high : low};
    ops[i].attrs[1] = (keel_attr){
        .name = e->with, .kind = KD_ATTR_FLOAT, .f = (float)e->given};
    ops[i].attr_count = e->with ? 2 : 1;
    got[i] = result_of(&ops[i], &sides[i]);
  }
  if (got[0] && got[1] &&
      dtype_round(sides[0].want[0]->x[0], KD_F32) !=
          dtype_round(sides[1].want[0]->x[0], KD_F32))
    kc_check(got[0]->x[0] != got[1]->x[0],
             "%s with %s = %.9g gives the same as with %.9g, %.9Lg, and should"
             " give %.9Lg and %.9Lg (is code kept by a key that prints"
             " attributes in six digits?)",
             e->op, e->attr, (double)low, (double)high, got[0]->x[0],
             sides[0].want[0]->x[0], sides[1].want[0]->x[0]);
  for (int i = 0; i < 2; i++) {
    value_free(got[i]);
    side_free(&sides[i]);
  }
  value_free(x);
}

static void neighbours(void) {
  const float pairs[][2] = {{0.1f, nextafterf(0.1f, 1)},
                            {0.7f, 0.7f + 3 * 0x1p-24f},
                            {1e-8f, 1e-7f},
                            {0, 1e-7f},
                            {1e-30f, nextafterf(1e-30f, 1)},
                            {0x1p-70f, 0x1p-60f}};
  for (size_t i = 0; i < KC_COUNT_OF(echoes); i++) {
    if (!kc_case("op=%s,attribute=%s", echoes[i].op, echoes[i].attr)) continue;
    kc_check(true, " ");
    for (size_t k = 0; k < KC_COUNT_OF(pairs); k++)
      try_echo(&echoes[i], pairs[k][0], pairs[k][1]);
  }
}

/* What a norm divides by where all else is nothing. */
static void small_epsilons(void) {
  static const char *const norms[] = {"LayerNormalization", "RMSNormalization"};
  static const int64_t dims[2] = {2, 8}, scale[1] = {8};
  for (size_t i = 0; i < KC_COUNT_OF(norms); i++) {
    if (!kc_case("op=%s,attribute=epsilon", norms[i])) continue;
    kc_op ops[2];
    value *x = value_make(KD_F32, 2, dims),
          *ones = value_make(KD_F32, 1, scale);
    for (int64_t k = 0; k < x->count; k++)
      x->x[k] = dtype_round(k % 2 ? 1e-4L : -1e-4L, KD_F32);
    for (int64_t k = 0; k < 8; k++)
      ones->x[k] = 1;
    for (int k = 0; k < 2; k++) {
      ops[k] = (kc_op){
          .name = norms[i], .in = {x, ones}, .in_count = 2, .out_count = 1};
      ops[k].attrs[0] = (keel_attr){
          .name = "epsilon", .kind = KD_ATTR_FLOAT, .f = k ? 1e-7f : 1e-8f};
      ops[k].attr_count = 1;
    }
    kc_check(true, " ");
    apart(&ops[0], &ops[1], "with an epsilon of 1e-8 and 1e-7, an output");
    value_free(x);
    value_free(ones);
  }
}

void kernel_attributes_apart(void) {
  kc_each_op(NULL, def_apart, KD_F32, kernel_all_ops());
  if (kc.op) return;
  neighbours();
  small_epsilons();
}
