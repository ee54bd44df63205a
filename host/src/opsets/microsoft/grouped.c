/* grouped.c - com.microsoft's GroupQueryAttention, written with ONNX's RotaryEmbedding,
 * TensorScatter and Attention. */
#include <math.h>
#include "opsets/tables.h"
#include "opsets/text.h"
#include "passes/passes.h"

/* ---- shapes ---- */

static keel_status grouped_check_kind(const keel_infer *infer) {
  static const struct {
    const char *name;
    int64_t plain;
  } numbers[] = {{"causal", 1},
                 {"kv_cache_bit_width", 0},
                 {"qk_output", 0},
                 {"sliding_window_cache", 0}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (keel_attr_int(infer->op, numbers[i].name, numbers[i].plain) !=
        numbers[i].plain)
      return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                             "%s other than %lld is not supported",
                             numbers[i].name, (long long)numbers[i].plain);
  const char *key = keel_attr_string(infer->op, "k_quant_type", "NONE");
  const char *value = keel_attr_string(infer->op, "v_quant_type", "NONE");
  if (strcmp(key, "NONE") != 0 || strcmp(value, "NONE") != 0)
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "a quantised cache is not supported");
  return KD_OK;
}

typedef struct grouped_sizes {
  int64_t batch, rows, heads, groups, size;
} grouped_sizes;

/* query has all, or key and value are apart. */
static keel_status read_heads(const keel_infer *infer, grouped_sizes *g) {
  const keel_type *q = infer->in[0], *k = keel_infer_in(infer, 1);
  const keel_type *v = keel_infer_in(infer, 2);
  g->heads = keel_attr_int(infer->op, "num_heads", 0);
  g->groups = keel_attr_int(infer->op, "kv_num_heads", 0);
  if (g->heads < 1 || g->groups < 1 || g->heads > 1 << 20 ||
      g->heads % g->groups)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "num_heads must be a multiple of kv_num_heads, not %lld and %lld",
        (long long)g->heads, (long long)g->groups);
  int64_t parts = k ? g->heads : g->heads + 2 * g->groups;
  if (q->rank != 3 || !k != !v || q->dims[2] % parts)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "query must be [batch, rows, heads * size], with "
                           "key and value as inputs or packed behind it");
  g->batch = q->dims[0];
  g->rows = q->dims[1];
  g->size = q->dims[2] / parts;
  const int64_t dims[] = {g->batch, g->rows, g->groups * g->size};
  for (uint32_t i = 1; k && i <= 2; i++)
    if (infer->in[i]->rank != 3 ||
        memcmp(infer->in[i]->dims, dims, sizeof dims) != 0)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT, "key and value must be [%lld,%lld,%lld]",
          (long long)dims[0], (long long)dims[1], (long long)dims[2]);
  return KD_OK;
}

static keel_status check_rotary(const keel_infer *infer,
                                const grouped_sizes *g) {
  const keel_type *cos = keel_infer_in(infer, 7),
                  *sin = keel_infer_in(infer, 8);
  const keel_type *places = keel_infer_in(infer, 9);
  if (places && (places->rank != 2 || places->dims[0] != g->batch ||
                 places->dims[1] != g->rows))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "position_ids must be [%lld,%lld]",
                           (long long)g->batch, (long long)g->rows);
  if (!keel_attr_int(infer->op, "do_rotary", 0)) return KD_OK;
  if (!cos || !sin || cos->rank != 2 || cos != sin || cos->dims[1] < 1 ||
      cos->dims[1] * 2 > g->size)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "with do_rotary, cos_cache and sin_cache must be "
                           "[positions, half of the rotated elements of %lld]",
                           (long long)g->size);
  return KD_OK;
}

/* A head's addend to the sum of its powers: e to the sink. */
static keel_status check_sink(const keel_infer *infer, const grouped_sizes *g) {
  const keel_type *sink = keel_infer_in(infer, 11);
  if (!sink || (sink->rank == 1 && sink->dims[0] == g->heads)) return KD_OK;
  return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "head_sink must be [%lld]",
                         (long long)g->heads);
}

static keel_status check_bias(const keel_infer *infer, const grouped_sizes *g,
                              int64_t total) {
  const keel_type *bias = keel_infer_in(infer, 10);
  int64_t window = keel_attr_int(infer->op, "local_window_size", -1);
  if (window < -1 || !window || !keel_is_plausible(window))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "local_window_size must be -1, or 1 or more, not"
                           " %lld",
                           (long long)window);
  if (bias &&
      (bias->rank != 4 || (bias->dims[0] != 1 && bias->dims[0] != g->batch) ||
       (bias->dims[1] != 1 && bias->dims[1] != g->heads) ||
       bias->dims[2] != g->rows || bias->dims[3] != total))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "attention_bias must be [%lld or 1,%lld or"
                           " 1,%lld,%lld]",
                           (long long)g->batch, (long long)g->heads,
                           (long long)g->rows, (long long)total);
  return KD_OK;
}

/* Attention of the rows that are new over all that came before, which are kept: present is past
 * with the new rows written at their places. Batch b has seqlens_k[b] + 1 keys then, of which
 * the new ones are the last, but for a first call (rows = total_sequence_length), in which all
 * begin at 0. present has as many places as past, or total_sequence_length if that is more. Of a
 * softmax with a sink the sum has e to the sink more; smooth_softmax: one of 0. */
keel_status keel_shape_group_query_attention(keel_infer *infer) {
  const keel_type *past = keel_infer_in(infer, 3);
  const keel_type *past_value = keel_infer_in(infer, 4);
  const keel_type *lengths = infer->in[5];
  grouped_sizes g = {0};
  int64_t total = 0;
  KEEL_TRY(grouped_check_kind(infer));
  KEEL_TRY(read_heads(infer, &g));
  KEEL_TRY(check_rotary(infer, &g));
  KEEL_TRY(check_sink(infer, &g));
  if (lengths->elements != g.batch)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "seqlens_k must have one number for each of %lld",
                           (long long)g.batch);
  int64_t seen = keel_infer_ints(infer, 6, &total, 1);
  if (seen == -1) return KD_OK;
  if (seen < 0) return KD_INVALID_ARGUMENT;
  if (seen != 1 || total < g.rows || !keel_is_plausible(total))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "total_sequence_length must be one number, the"
                           " %lld new rows or more",
                           (long long)g.rows);
  KEEL_TRY(check_bias(infer, &g, total));
  int64_t dims[] = {g.batch, g.groups, total, g.size};
  if (past || past_value) {
    if (!past || past != past_value || past->rank != 4 ||
        past->dims[0] != g.batch || past->dims[1] != g.groups ||
        past->dims[3] != g.size)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "past_key and past_value must be"
                             " [%lld,%lld,places,%lld]",
                             (long long)g.batch, (long long)g.groups,
                             (long long)g.size);
    if (past->dims[2] > total) dims[2] = past->dims[2];
  }
  KEEL_TRY(keel_infer_within(infer, 5, g.batch,
                             total == g.rows ? 0 : g.rows - 1, dims[2] - 1));
  int64_t before = past ? past->dims[2] : 0;
  if (total > before && total != before + g.rows)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "total_sequence_length is %lld, and must be %lld, for"
        " a cache that grows, or no more than its %lld places",
        (long long)total, (long long)(before + g.rows), (long long)before);
  KEEL_TRY(keel_infer_out(infer, 1, 4, dims));
  KEEL_TRY(keel_infer_out(infer, 2, 4, dims));
  const int64_t rows[] = {g.batch, g.rows, g.heads * g.size};
  return keel_infer_out(infer, 0, 3, rows);
}

/* ---- in simpler ops ---- */

/* Inputs: query, key and value (or all in query), their past, the last place of each batch, the most
 * keys, cos and sin, places, bias, and a sink for each head. */

#define BY_HEADS(x, heads) \
  "Transpose[perm=(0 2 1 3)](Reshape(" x ", {0, 0, " heads ", -1}))"

/* q, k and v, [batch, rows, heads * size]: apart, or columns of the query. */
#define PARTS                                                        \
  "size = $1 ? _ : dims($0, 2, 3) / {%i};"                           \
  "%p = $1 ? $0 : Slice($0, {0}, size * {@num_heads}, {2});"         \
  "%p = $1 ? $1 : Slice($0, size * {@num_heads}, size * {%i}, {2});" \
  "%p = $1 ? $2 : Slice($0, size * {%i}, size * {%i}, {2})"

/* How many rows are new and how many keys there are then, lists of one; where the new ones begin in
 * each batch; and their places, [batch, rows]. A first call has all its rows from 0 on, also those
 * behind a batch's length. */
#define BEGINS                                                             \
  "rows = dims(%v, 1, 2); total = Reshape(i64($6), {-1});"                 \
  "room = $3 ? Max(total, dims($3, 2, 3)) : total; first = rows == total;" \
  "least = Where(first, {0}, rows - {1}); most = room - {1};"              \
  "last = keel::Within[input=seqlens_k, op=GroupQueryAttention]"           \
  "       (Reshape(i64($5), {-1}), least, most);"                          \
  "begin = Where(first, {0}, last + {1} - rows); %p = rows; %p = total;"   \
  "%p = begin; %p = Unsqueeze(begin, {1}) + range(rows)"

/* [batch, 1, rows, keys]: what is added to scores. */
#define MASK                                                                   \
  "keys = range(total); place = Unsqueeze(%v, {1, 3}); hidden = keys > place;" \
  "hidden = %b ? Or(hidden, keys <= place - {@local_window_size}) : hidden;"   \
  "mask = Where(hidden, %f~q, $10 ? $10 : 0~q);"

/* The past with room for all keys, and the new ones in their places. */
static uint32_t present(keel_emit *all, uint32_t past, uint32_t value,
                        uint32_t total, uint32_t begin) {
  if (past == KEEL_ABSENT) return value;
  return keel_emit_text(
      all,
      "past = %v; more = Max(%v - dims(past, 2, 3), {0});"
      "room = Expand(0~past, {dims(past, 0, 2), more, dims(past, 3, 4)});"
      "TensorScatter(Concat[axis=2](past, room), %v, %v)",
      past, total, value, begin);
}

/* The first `total` keys or values; with a sink, one more of zeros. */
static uint32_t seen(keel_emit *all, uint32_t value, uint32_t total, int sink) {
  return keel_emit_text(
      all,
      "x = Slice(%v, {0}, %v, {2});"
      "more = %b ? Expand(0~x, {dims(x, 0, 2), 1, dims(x, 3, 4)}) : _;"
      "%b ? Concat[axis=2](x, more) : x",
      value, total, sink, sink);
}

/* The sums of powers have one more, of each head's sink or of 0: the score of the key of zeros. */
#define WITH_SINK                                           \
  "heads = {dims(q, 0, 1), @num_heads, rows};"              \
  "sink = $11 ? Reshape($11, {1, @num_heads, 1, 1}) : 0~q;" \
  "mask = Concat[axis=3](Expand(mask, {heads, total}),"     \
  "                      Expand(sink, {heads, 1}));"

static uint32_t grouped_turned(keel_emit *all, uint32_t value, int64_t heads,
                               uint32_t places) {
  const keel_type *cos = keel_emit_type(all, 7);
  const keel_type *type =
      value == KEEL_ABSENT ? NULL : all->function->values[value].type;
  int64_t turning =
      cos && cos->rank == 2 && cos->dims[1] > 0 ? 2 * cos->dims[1] : 0;
  if (type && type->rank == 3 && type->dims[2] == heads * turning)
    turning = 0; /* all of it */
  return keel_emit_text(all,
                        "RotaryEmbedding[num_heads=%i, rotary_embedding_dim=%i,"
                        " interleaved=@rotary_interleaved]"
                        "(%v, $7, $8, $9 ? $9 : %v)",
                        heads, turning, value, places);
}

static void expand_group_query_attention(keel_emit *all) {
  const keel_opdef *op = all->node.op;
  int64_t heads = keel_attr_int(op, "num_heads", 0);
  int64_t groups = keel_attr_int(op, "kv_num_heads", 0);
  uint32_t q = KEEL_ABSENT, k = q, v = q, rows = q, total = q, begin = q,
           places = q;
  if (heads < 1 || groups < 1 || heads > 1 << 20 || heads % groups) {
    all->status =
        keel_fail(KD_INVALID_ARGUMENT,
                  "GroupQueryAttention \"%s\": num_heads must be a"
                  " multiple of kv_num_heads, not %lld and %lld",
                  all->node.name, (long long)heads, (long long)groups);
    return;
  }
  keel_emit_text(all, PARTS, heads + 2 * groups, &q, &k, heads + groups, &v,
                 heads + groups, heads + 2 * groups);
  keel_emit_text(all, BEGINS, q, &rows, &total, &begin, &places);
  if (keel_attr_int(op, "do_rotary", 0)) {
    q = grouped_turned(all, q, heads, places);
    k = grouped_turned(all, k, groups, places);
  }
  int sinks = keel_emit_in(all, 11) != KEEL_ABSENT ||
              keel_attr_int(op, "smooth_softmax", -1) > 0;
  k = keel_emit_text(all, BY_HEADS("%v", "@kv_num_heads"), k);
  v = keel_emit_text(all, BY_HEADS("%v", "@kv_num_heads"), v);
  k = present(all, keel_emit_in(all, 3), k, total, begin);
  v = present(all, keel_emit_in(all, 4), v, total, begin);
  keel_emit_text(all, "%1 = %v; %2 = %v", k, v);
  uint32_t keys = seen(all, k, total, sinks);
  uint32_t values = seen(all, v, total, sinks);
  q = keel_emit_text(all, BY_HEADS("%v", "@num_heads"), q);
  uint32_t mask = keel_emit_text(
      all, "total = %v; q = %v;" MASK " mask", total, q, places,
      keel_attr_int(op, "local_window_size", -1) >= 0, -(double)INFINITY);
  if (sinks)
    mask = keel_emit_text(
        all, "rows = %v; total = %v; q = %v; mask = %v;" WITH_SINK " mask",
        rows, total, q, mask);
  keel_emit_text(
      all,
      "y = %b ? Attention[softcap=@softcap, scale=@scale](%v, %v, %v, %v)"
      "       : Attention[softcap=@softcap](%v, %v, %v, %v);"
      "%0 = Reshape(Transpose[perm=(0 2 1 3)](y), {0, 0, -1})",
      keel_attr_float(op, "scale", 0) != 0, q, keys, values, mask, q, keys,
      values, mask);
}

/* ---- rows ---- */

static const keel_op_rule rules[] = {
    {"com.microsoft::GroupQueryAttention",
     .expand = expand_group_query_attention},
};

const keel_op_table keel_ops_microsoft_grouped = {KEEL_TABLE_RULES(rules)};
