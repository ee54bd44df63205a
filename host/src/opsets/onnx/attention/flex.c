/* flex.c - FlexAttention (ai.onnx.preview-1), written with products and a softmax, between
 * which the model's own functions stand.
 *
 *     scores = score_mod(MatMul(Q * sqrt(scale), Transpose(K) * sqrt(scale)))
 *     Y = MatMul(prob_mod(Softmax(scores)), V)
 *
 * Without functions that is what opsets/onnx/attention/fuse.c makes one op of. Heads of Q that share one of
 * K and V are rows of it. */
#include <math.h>
#include "opsets/tables.h"
#include "opsets/terms.h"
#include "opsets/text.h"
#include "passes/passes.h"

/* ---- shapes ---- */

/* Of four dimensions; captures of its functions are not masks. */
keel_status keel_shape_flex_attention(keel_infer *infer) {
  keel_infer own = *infer;
  own.input_count = 3;
  if (infer->in[0]->rank != 4)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "Q, K and V must be [batch,heads,rows,size]");
  return keel_shape_attention(&own);
}

/* ---- in simpler ops ---- */

enum { Q, K, V, OWN };

typedef struct flex {
  keel_emit *all;
  uint32_t q, k, v;
  bool shared;          /* heads of Q may share one of K and V */
  kd_dtype given, wide; /* of Q, and of scores */
} flex;

/* [batch, heads of Q, rows, size] as [batch, heads of K, rows of all that share it, size], and
 * back. */
static uint32_t grouped(const flex *f, uint32_t value) {
  if (!f->shared) return value;
  return keel_emit_text(
      f->all,
      "q = %v; heads = dims(%v, 1, 2); x = %v;"
      "rows = dims(q, 1, 2) * dims(q, 2, 3) / heads;"
      "Reshape(x, {dims(q, 0, 1), heads, rows, dims(x, 3, 4)})",
      f->q, f->k, value);
}

static uint32_t apart(const flex *f, uint32_t value) {
  return f->shared ? keel_emit_text(
                         f->all,
                         "x = %v; Reshape(x, {dims(%v, 0, 3), dims(x, 3, 4)})",
                         value, f->q)
                   : value;
}

/* The factor of Q and of K: the scale's root, which a scale less than 0 does not have. */
static void scale(flex *f) {
  keel_emit *all = f->all;
  const keel_type *q = keel_emit_type(all, Q);
  const keel_node_attr *given = keel_attr_find(all->node.op, "scale");
  uint32_t by = KEEL_ABSENT;
  if (given && given->value.f < 0) {
    f->q = keel_emit_text(all, "%v * @scale", f->q);
    return;
  }
  if (given || (q && q->dims[3] >= 0))
    by = keel_emit_number(
        all,
        sqrt(given ? (double)given->value.f : 1 / sqrt((double)q->dims[3])),
        f->q);
  else
    by = keel_emit_text(
        all, "q = %v; CastLike(Reciprocal(Sqrt(Sqrt(f32(dims(q, 3, 4))))), q)",
        f->q);
  f->q = keel_emit_binary(all, "Mul", f->q, by);
  f->k = keel_emit_binary(all, "Mul", f->k, by);
}

/* ---- the model's functions -------------------------------------------------------------- */

/* The first of the node's inputs that a function captures: they stand behind its own, function by
 * function. */
static uint32_t first_capture(const keel_emit *all, const char *name) {
  uint32_t first = OWN;
  for (uint32_t i = 0; i < all->node.op->attr_count; i++) {
    const keel_node_attr *attr = &all->node.op->attrs[i];
    if (!strcmp(attr->value.name, name)) break;
    if (attr->graph) first += attr->graph->capture_count;
  }
  return first;
}

/* `value` as a function gives it back, which is written out; itself where there is none. */
static uint32_t modified(const flex *f, const char *name, uint32_t value) {
  keel_emit *all = f->all;
  const keel_function *graph = keel_attr_graph(all->node.op, name);
  uint32_t result = KEEL_ABSENT, first = first_capture(all, name);
  if (!graph || all->status != KD_OK) return value;
  uint32_t captures = graph->capture_count;
  if (graph->input_count != 1 + captures || graph->output_count != 1 ||
      first + captures > all->node.input_count) {
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "%s must take one tensor and give one", name);
    return KEEL_ABSENT;
  }
  uint32_t *inputs =
      keel_arena_take(all->function->arena, (1 + captures) * sizeof *inputs);
  if (!inputs) {
    all->status = KD_OUT_OF_MEMORY;
    return KEEL_ABSENT;
  }
  inputs[0] = value;
  if (captures)
    memcpy(inputs + 1, all->node.inputs + first, captures * sizeof *inputs);
  all->status = keel_function_inline(all->function, graph, &all->function->next,
                                     inputs, &result);
  return keel_emit_cast(all, result, f->wide);
}

/* ---- the op ------------------------------------------------------------------------------- */

static bool flex_is_float(int64_t dtype) {
  return dtype == KD_F32 || dtype == KD_F64 || dtype == KD_F16 ||
         dtype == KD_BF16;
}

/* Whether what is known of the inputs does not contradict the op; sets how they are taken. */
static bool flex_read_node(flex *f) {
  const keel_type *q = keel_emit_type(f->all, Q);
  const keel_type *k = keel_emit_type(f->all, K);
  const keel_type *v = keel_emit_type(f->all, V);
  int64_t precision = keel_attr_int(f->all->node.op, "softmax_precision", 0);
  f->given = keel_emit_dtype(f->all, f->q);
  f->wide = precision            ? (kd_dtype)precision
            : f->given == KD_F64 ? KD_F64
                                 : KD_F32;
  f->shared = !q || !k || q->rank != 4 || k->rank != 4 || q->dims[1] < 0 ||
              q->dims[1] != k->dims[1];
  return (!q || q->rank == 4) && (!k || k->rank == 4) && (!v || v->rank == 4) &&
         (!precision || flex_is_float(precision));
}

static void expand_flex_attention(keel_emit *all) {
  static const int64_t turn[] = {0, 1, 3, 2};
  const keel_attr axis = KEEL_INT("axis", -1);
  flex f = {.all = all,
            .q = keel_emit_in(all, Q),
            .k = keel_emit_in(all, K),
            .v = keel_emit_in(all, V)};
  if (!flex_read_node(&f)) {
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "Q, K and V must be [batch,heads,rows,size], and"
                   " softmax_precision a float type's number");
    return;
  }
  scale(&f);
  uint32_t scores =
      apart(&f, keel_emit_binary(all, "MatMul", grouped(&f, f.q),
                                 keel_emit_transpose(all, f.k, turn, 4)));
  scores = modified(&f, "score_mod", keel_emit_cast(all, scores, f.wide));
  uint32_t chances = keel_emit_op(all, "Softmax", &axis, 1, &scores, 1);
  chances = grouped(&f, modified(&f, "prob_mod", chances));
  uint32_t y = keel_emit_binary(all, "MatMul", chances,
                                keel_emit_cast(all, f.v, f.wide));
  if (f.given != f.wide)
    y = keel_emit_binary(all, "CastLike", y, keel_emit_in(all, Q));
  keel_emit_give(all, 0, apart(&f, y));
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    /* attention with functions of the model's own, written with other ops, too */
    {"ai.onnx.preview", "FlexAttention", 1, "float",
     "Q:T K:T V:T captures:any?% -> Y:T",
     "prob_mod:g score_mod:g scale:f softmax_precision:i",
     keel_shape_flex_attention, 0, 0, KEEL_BY_KERNEL, NULL},
};

static const keel_op_rule rules[] = {
    {"ai.onnx.preview::FlexAttention", .expand = expand_flex_attention},
};

const keel_op_table keel_ops_flex_attention = {KEEL_TABLE_ROWS(rows),
                                               KEEL_TABLE_RULES(rules)};
