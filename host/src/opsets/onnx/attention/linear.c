/* linear.c - LinearAttention-27, written as a Scan over the tokens.
 *
 *     S = exp(g) S + b k (v - S' k)      S': what is left of S; of the delta rules
 *     o = scale q S
 *
 * S is a matrix for each pair of a batch and a head. All of it is computed in f32, as in ONNX's
 * own function, or f64. */
#include "opsets/tables.h"
#include "opsets/terms.h"
#include "opsets/text.h"
#include "passes/passes.h"

/* ---- shapes ---- */

/* Whether a tensor is [batch, tokens, `last` or `other`]. */
static bool is_of_tokens(const keel_type *type, const keel_type *query,
                         int64_t last, int64_t other) {
  return !type || (type->rank == 3 && type->dims[0] == query->dims[0] &&
                   type->dims[1] == query->dims[1] &&
                   (type->dims[2] == last || type->dims[2] == other));
}

keel_status keel_shape_linear_attention(keel_infer *infer) {
  const keel_type *query = infer->in[0], *key = infer->in[1],
                  *value = infer->in[2], *past = keel_infer_in(infer, 3);
  const keel_type *decay = keel_infer_in(infer, 4),
                  *beta = keel_infer_in(infer, 5);
  const char *rule = keel_attr_string(infer->op, "update_rule", "gated_delta");
  int64_t heads = keel_attr_int(infer->op, "kv_num_heads", 0);
  int64_t all = keel_attr_int(infer->op, "q_num_heads", 0);
  if (heads < 1 || all < 1 || all % heads)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "q_num_heads (%lld) must be a multiple of"
                           " kv_num_heads (%lld)",
                           (long long)all, (long long)heads);
  if ((!decay && !strncmp(rule, "gated", 5)) ||
      (!beta && strstr(rule, "delta")))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "%s is missing, which"
        " update_rule \"%s\" needs",
        decay || strncmp(rule, "gated", 5) != 0 ? "beta" : "decay", rule);
  bool fits = query->rank == 3 && query->dims[2] % all == 0;
  int64_t size = fits ? query->dims[2] / all : 0;
  fits = fits && is_of_tokens(key, query, heads * size, heads * size) &&
         value->rank == 3 && value->dims[2] % heads == 0 &&
         is_of_tokens(value, query, value->dims[2], value->dims[2]) &&
         is_of_tokens(decay, query, heads * size, heads) &&
         is_of_tokens(beta, query, heads, 1);
  int64_t width = fits ? value->dims[2] / heads : 0, all_widths = 0;
  fits = fits && !__builtin_mul_overflow(all, width, &all_widths);
  const int64_t state[] = {fits ? query->dims[0] : 0, heads, size, width};
  if (fits && past)
    fits = past->rank == 4 && !memcmp(past->dims, state, sizeof state);
  if (!fits)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "query must be [B,T,%lld*k], key [B,T,%lld*k], value [B,T,%lld*v],"
        " past_state [B,%lld,k,v], decay like key or [B,T,%lld], and beta"
        " [B,T,%lld] or [B,T,1]",
        (long long)all, (long long)heads, (long long)heads, (long long)heads,
        (long long)heads, (long long)heads);
  if (!query->dims[0] || !size || !width)
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "heads, or batches, of no elements");
  keel_dims out = keel_dims_of(query);
  out.dims[2] = all_widths;
  KEEL_TRY(keel_infer_dims(infer, 0, &out));
  infer->dtypes[1] = past ? past->dtype : query->dtype;
  return keel_infer_out(infer, 1, 4, state);
}

/* ---- in simpler ops ---- */

typedef struct linear_attention {
  int64_t heads, query_heads;
  bool decays, corrects; /* by the rule */
  uint32_t state, query, key, value, decay, beta;
} linear_attention;

enum { STATE_MOST = 6 };

static uint32_t linear_wide(keel_emit *all, uint32_t value) {
  const keel_type *type = keel_emit_type(all, 0);
  const keel_attr to =
      KEEL_INT("to", type && type->dtype == KD_F64 ? KD_F64 : KD_F32);
  return keel_emit_op(all, "Cast", &to, 1, &value, 1);
}

/* Zeros: [batch, heads, size of a key, size of a value]. */
static uint32_t empty_state(keel_emit *all, const linear_attention *a) {
  return keel_emit_text(all,
                        "k = %v;"
                        "Expand(0~%v, {dims(k, 0, 1), %i, dims(k, 2) / {%i}, "
                        "dims(%v, 2) / {%i}})",
                        a->key, a->query, a->heads, a->heads, a->value,
                        a->heads);
}

static uint32_t linear_scaled(keel_emit *all, const linear_attention *a,
                              uint32_t value) {
  if (keel_attr_float(all->node.op, "scale", 0) != 0)
    return keel_emit_text(all, "%v * @scale", value);
  uint32_t size = keel_emit_text(all, "dims(%v, 2) / {%i}", a->key, a->heads);
  return keel_emit_text(all, "%v / Sqrt(%v)", value, linear_wide(all, size));
}

/* Of no tokens a Scan gives nothing that has a shape. */
static uint32_t of_tokens(keel_emit *all, const linear_attention *a,
                          uint32_t value) {
  return keel_emit_text(all,
                        "Reshape[allowzero=1](%v, {dims(%v, 0, 2),"
                        "        dims(%v, 2) / {%i} * {%i}})",
                        value, a->query, a->value, a->heads, a->query_heads);
}

/* ---- the body: one token ------------------------------------------------------------- */

/* The state behind a token, of which lists become [batch, heads, rows, columns]. */
static uint32_t next_state(keel_emit *all, const linear_attention *a) {
  int64_t heads = a->heads;
  uint32_t state =
      keel_emit_text(all, "%b ? %v * Reshape(Exp(%v), {0, %i, -1, 1}) : %v",
                     a->decays, a->state, a->decay, heads, a->state);
  return keel_emit_text(
      all,
      "state = %v; value = Reshape(%v, {0, %i, 1, -1}); k = %v;"
      "error = %b ? value - MatMul(Reshape(k, {0, %i, 1, -1}), state) : _;"
      "value = %b ? error * Reshape(%v, {0, -1, 1, 1}) : value;"
      "state + Reshape(k, {0, %i, -1, 1}) * value",
      state, a->value, heads, a->key, a->corrects, heads, a->corrects, a->beta,
      heads);
}

static uint32_t read_state(keel_emit *all, const linear_attention *a,
                           uint32_t state) {
  return keel_emit_text(
      all, "Reshape(MatMul(Reshape(%v, {0, %i, %i, -1}), %v), {0, -1})",
      a->query, a->heads, a->query_heads / a->heads, state);
}

static uint32_t body_input(keel_emit *all) {
  uint32_t value = KEEL_ABSENT;
  if (all->status != KD_OK) return KEEL_ABSENT;
  value = keel_function_value(all->function, "");
  all->status = value == KEEL_ABSENT
                    ? KD_OUT_OF_MEMORY
                    : keel_function_input(all->function, value, NULL);
  return value;
}

static keel_status write_body(keel_emit *all, linear_attention a) {
  a.state = body_input(all);
  a.query = body_input(all);
  a.key = body_input(all);
  a.value = body_input(all);
  if (a.decays) a.decay = body_input(all);
  if (a.corrects) a.beta = body_input(all);
  uint32_t state = next_state(all, &a), out = read_state(all, &a, state);
  KEEL_TRY(all->status);
  KEEL_TRY(keel_function_output(all->function, state, NULL));
  return keel_function_output(all->function, out, NULL);
}

/* An empty function behind this one in the plan's list. */
static keel_status make_body(const keel_emit *all, keel_function **out) {
  keel_function *list = NULL, *outer = all->function;
  KEEL_TRY(keel_function_create(outer->context, outer->arena, &list,
                                "LinearAttention", out));
  (*out)->next = outer->next;
  outer->next = *out;
  return KD_OK;
}

/* ---- the loop ---------------------------------------------------------------------------- */

static keel_status add_scan(keel_emit *all, const linear_attention *a,
                            keel_function *body, uint32_t *outputs) {
  const int64_t axes[] = {1, 1, 1, 1, 1};
  uint32_t inputs[STATE_MOST] = {a->state, a->query, a->key, a->value};
  uint32_t count = 4;
  if (a->decays) inputs[count++] = a->decay;
  if (a->corrects) inputs[count++] = a->beta;
  const keel_attr attrs[] = {{.name = "body", .kind = KD_ATTR_GRAPH},
                             KEEL_INT("num_scan_inputs", count - 1),
                             KEEL_INTS("scan_input_axes", count - 1, axes),
                             KEEL_INTS("scan_output_axes", 1, axes)};
  keel_function *const graphs[4] = {body};
  keel_opdef *op = NULL;
  keel_node *node = NULL;
  for (int i = 0; i < 2; i++) {
    outputs[i] = keel_function_value(all->function, "");
    if (outputs[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  }
  KEEL_TRY(keel_opdef_create(all->function->context,
                             keel_schema_find("", "Scan"), attrs, 4, graphs,
                             &op));
  KEEL_TRY(keel_function_node(all->function, op, all->node.name, inputs, count,
                              outputs, 2, &node));
  node->device = all->node.device;
  node->group = all->node.group;
  node->ruled = all->node.ruled;
  return KD_OK;
}

static linear_attention linear_read_node(const keel_emit *all) {
  const char *rule =
      keel_attr_string(all->node.op, "update_rule", "gated_delta");
  return (linear_attention){
      .heads = keel_attr_int(all->node.op, "kv_num_heads", 1),
      .query_heads = keel_attr_int(all->node.op, "q_num_heads", 1),
      .decays = strncmp(rule, "gated", 5) == 0,
      .corrects = strstr(rule, "delta") != NULL,
      .query = keel_emit_in(all, 0),
      .key = keel_emit_in(all, 1),
      .value = keel_emit_in(all, 2),
      .state = keel_emit_in(all, 3),
      .decay = keel_emit_in(all, 4),
      .beta = keel_emit_in(all, 5)};
}

static void expand_linear_attention(keel_emit *all) {
  linear_attention a = linear_read_node(all);
  uint32_t outputs[2] = {KEEL_ABSENT, KEEL_ABSENT};
  uint32_t query = a.query, past = a.state;
  keel_emit inner = *all;
  if (a.heads < 1 || a.query_heads < 1 || a.query_heads % a.heads)
    all->status = keel_fail(
        KD_INVALID_ARGUMENT,
        "LinearAttention \"%s\": q_num_heads (%lld) must be a multiple"
        " of kv_num_heads (%lld)",
        all->node.name, (long long)a.query_heads, (long long)a.heads);
  else if ((a.decays && a.decay == KEEL_ABSENT) ||
           (a.corrects && a.beta == KEEL_ABSENT))
    all->status = keel_fail(
        KD_INVALID_ARGUMENT, "LinearAttention \"%s\": %s is missing",
        all->node.name, a.decays && a.decay == KEEL_ABSENT ? "decay" : "beta");
  a.query = linear_wide(all, a.query);
  a.key = linear_wide(all, a.key);
  a.value = linear_wide(all, a.value);
  if (a.decays) a.decay = linear_wide(all, a.decay);
  if (a.corrects) a.beta = linear_wide(all, a.beta);
  a.state = past == KEEL_ABSENT ? empty_state(all, &a) : linear_wide(all, past);
  if (all->status == KD_OK) all->status = make_body(all, &inner.function);
  if (all->status == KD_OK) all->status = write_body(&inner, a);
  if (all->status == KD_OK)
    all->status = add_scan(all, &a, inner.function, outputs);
  uint32_t out = of_tokens(all, &a, linear_scaled(all, &a, outputs[1]));
  keel_emit_give(all, 0, keel_emit_binary(all, "CastLike", out, query));
  keel_emit_give(all, 1,
                 keel_emit_binary(all, "CastLike", outputs[0],
                                  past == KEEL_ABSENT ? query : past));
}

/* ---- rows ---- */

static const keel_op_rule rules[] = {
    {"LinearAttention", .expand = expand_linear_attention},
};

const keel_op_table keel_ops_linear_attention = {KEEL_TABLE_RULES(rules)};
