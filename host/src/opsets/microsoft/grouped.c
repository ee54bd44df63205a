/* grouped.c - com.microsoft's GroupQueryAttention, written with ONNX's RotaryEmbedding,
 * TensorScatter and Attention. */
#include <math.h>
#include "opsets/tables.h"
#include "opsets/terms.h"
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
                           "query must be [batch, rows, heads * size], with key"
                           " and value beside or behind it");
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
                           "with do_rotary, cos_cache and sin_cache must be"
                           " [positions, half of what turns of %lld]",
                           (long long)g->size);
  return KD_OK;
}

/* What each head adds to the sum of its powers: e to the sink. */
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

enum {
  QUERY,
  KEY,
  VALUE,
  PAST_KEY,
  PAST_VALUE,
  LENGTHS,
  TOTAL,
  COS,
  SIN,
  PLACES,
  BIAS,
  SINK
};
enum { OUTPUT, PRESENT_KEY, PRESENT_VALUE };

typedef struct grouped {
  keel_emit *all;
  int64_t heads, groups;
  uint32_t q, k, v; /* [batch, rows, heads * size] */
  uint32_t rows;    /* how many are new: a list of one */
  uint32_t total;   /* the most keys that a batch has then: a list of one */
  uint32_t begin;   /* [batch]: where the new rows begin */
} grouped;

static uint32_t grouped_in(const grouped *g, uint32_t index) {
  return keel_emit_in(g->all, index);
}

static uint32_t grouped_two(grouped *g, const char *op, uint32_t a,
                            uint32_t b) {
  return keel_emit_binary(g->all, op, a, b);
}

static uint32_t grouped_number(grouped *g, int64_t value) {
  return keel_emit_int(g->all, value);
}

/* Columns [begin, end) of the query, in heads; what has all is cut in three. */
static uint32_t columns(grouped *g, uint32_t size, int64_t begin, int64_t end) {
  const uint32_t inputs[] = {
      grouped_in(g, QUERY),
      grouped_two(g, "Mul", size, grouped_number(g, begin)),
      grouped_two(g, "Mul", size, grouped_number(g, end)),
      grouped_number(g, 2)};
  return keel_emit_op(g->all, "Slice", NULL, 0, inputs, 4);
}

static void take_parts(grouped *g) {
  g->q = grouped_in(g, QUERY);
  g->k = grouped_in(g, KEY);
  g->v = grouped_in(g, VALUE);
  if (g->k != KEEL_ABSENT) return;
  uint32_t size = grouped_two(g, "Div", keel_emit_dims(g->all, g->q, 2, 3),
                              grouped_number(g, g->heads + 2 * g->groups));
  g->q = columns(g, size, 0, g->heads);
  g->k = columns(g, size, g->heads, g->heads + g->groups);
  g->v = columns(g, size, g->heads + g->groups, g->heads + 2 * g->groups);
}

static uint32_t as_i64(grouped *g, uint32_t value) {
  return grouped_two(g, "CastLike", value, grouped_number(g, 0));
}

/* A first call has all its rows from 0 on, also those behind a batch's length. */
static void find_begin(grouped *g) {
  uint32_t flat = grouped_number(g, -1);
  uint32_t lengths =
      grouped_two(g, "Reshape", as_i64(g, grouped_in(g, LENGTHS)), flat);
  uint32_t one = grouped_number(g, 1), zero = grouped_number(g, 0), room;
  g->rows = keel_emit_dims(g->all, g->q, 1, 2);
  g->total = room =
      grouped_two(g, "Reshape", as_i64(g, grouped_in(g, TOTAL)), flat);
  if (grouped_in(g, PAST_KEY) != KEEL_ABSENT)
    room = grouped_two(g, "Max", room,
                       keel_emit_dims(g->all, grouped_in(g, PAST_KEY), 2, 3));
  uint32_t first = grouped_two(g, "Equal", g->rows, g->total);
  uint32_t least =
      keel_emit_where(g->all, first, zero, grouped_two(g, "Sub", g->rows, one));
  lengths = keel_emit_within(g->all, lengths, least,
                             grouped_two(g, "Sub", room, one), "seqlens_k");
  lengths = grouped_two(g, "Add", lengths, one);
  g->begin = keel_emit_where(g->all, first, zero,
                             grouped_two(g, "Sub", lengths, g->rows));
}

/* [batch, rows]: each new row's place among the keys. */
static uint32_t rows_places(grouped *g) {
  return grouped_two(
      g, "Add", grouped_two(g, "Unsqueeze", g->begin, grouped_number(g, 1)),
      keel_emit_range(g->all, g->rows));
}

static uint32_t grouped_turned(grouped *g, uint32_t value, int64_t heads,
                               uint32_t places) {
  const keel_type *cos = keel_emit_type(g->all, COS);
  const keel_type *type =
      value == KEEL_ABSENT ? NULL : g->all->function->values[value].type;
  const keel_opdef *op = g->all->node.op;
  int64_t turning =
      cos && cos->rank == 2 && cos->dims[1] > 0 ? 2 * cos->dims[1] : 0;
  if (type && type->rank == 3 && type->dims[2] == heads * turning)
    turning = 0; /* all of it */
  const uint32_t inputs[] = {value, grouped_in(g, COS), grouped_in(g, SIN),
                             places};
  const keel_attr attrs[] = {
      KEEL_INT("num_heads", heads), KEEL_INT("rotary_embedding_dim", turning),
      KEEL_INT("interleaved", keel_attr_int(op, "rotary_interleaved", 0))};
  return keel_emit_op(g->all, "RotaryEmbedding", attrs, 3, inputs, 4);
}

static void microsoft_grouped_turn(grouped *g, uint32_t places) {
  if (!keel_attr_int(g->all->node.op, "do_rotary", 0)) return;
  if (grouped_in(g, PLACES) != KEEL_ABSENT) places = grouped_in(g, PLACES);
  g->q = grouped_turned(g, g->q, g->heads, places);
  g->k = grouped_turned(g, g->k, g->groups, places);
}

/* [batch, rows, heads * size] as [batch, heads, rows, size] */
static uint32_t grouped_with_heads(grouped *g, uint32_t value, int64_t heads) {
  static const int64_t exchange[] = {0, 2, 1, 3};
  const int64_t dims[] = {0, 0, heads, -1};
  value = keel_emit_reshape(g->all, value, dims, 4);
  return keel_emit_transpose(g->all, value, exchange, 4);
}

/* `past` with room for all keys, and the new ones in their places. */
static uint32_t present(grouped *g, uint32_t past, uint32_t value) {
  if (past == KEEL_ABSENT) return value;
  uint32_t more =
      grouped_two(g, "Sub", g->total, keel_emit_dims(g->all, past, 2, 3));
  more = grouped_two(g, "Max", more, grouped_number(g, 0));
  const uint32_t dims[] = {keel_emit_dims(g->all, past, 0, 2), more,
                           keel_emit_dims(g->all, past, 3, 4)};
  uint32_t room = grouped_two(g, "Expand", keel_emit_number(g->all, 0, past),
                              keel_emit_concat(g->all, 0, dims, 3));
  const uint32_t both[] = {past, room};
  const uint32_t inputs[] = {keel_emit_concat(g->all, 2, both, 2), value,
                             g->begin};
  return keel_emit_op(g->all, "TensorScatter", NULL, 0, inputs, 3);
}

/* The keys that count. */
static uint32_t seen(grouped *g, uint32_t value) {
  const uint32_t inputs[] = {value, grouped_number(g, 0), g->total,
                             grouped_number(g, 2)};
  return keel_emit_op(g->all, "Slice", NULL, 0, inputs, 4);
}

/* [batch, 1, rows, keys]: what is added to scores. */
static uint32_t mask(grouped *g, uint32_t places) {
  int64_t window = keel_attr_int(g->all->node.op, "local_window_size", -1);
  const int64_t by_row[] = {1, 3};
  uint32_t keys = keel_emit_range(g->all, g->total);
  places =
      grouped_two(g, "Unsqueeze", places, keel_emit_ints(g->all, by_row, 2));
  uint32_t hidden = grouped_two(g, "Greater", keys, places);
  if (window >= 0)
    hidden = grouped_two(
        g, "Or", hidden,
        grouped_two(g, "LessOrEqual", keys,
                    grouped_two(g, "Sub", places, grouped_number(g, window))));
  uint32_t bias = grouped_in(g, BIAS);
  if (bias == KEEL_ABSENT) bias = keel_emit_number(g->all, 0, g->q);
  return keel_emit_where(g->all, hidden,
                         keel_emit_number(g->all, -INFINITY, g->q), bias);
}

/* ---- sinks ---------------------------------------------------------------------------------- */

/* Whether the sums of powers have one more: of each head's sink, or of 0. */
static bool has_sink(const grouped *g) {
  return grouped_in(g, SINK) != KEEL_ABSENT ||
         keel_attr_int(g->all->node.op, "smooth_softmax", -1) > 0;
}

/* Keys or values with one more, of zeros. */
static uint32_t with_zeros(grouped *g, uint32_t value) {
  const uint32_t dims[] = {keel_emit_dims(g->all, value, 0, 2),
                           grouped_number(g, 1),
                           keel_emit_dims(g->all, value, 3, 4)};
  const uint32_t parts[] = {
      value, grouped_two(g, "Expand", keel_emit_number(g->all, 0, value),
                         keel_emit_concat(g->all, 0, dims, 3))};
  return keel_emit_concat(g->all, 2, parts, 2);
}

/* What is added to scores, with a sink for the key of zeros: it is that key's score. */
static uint32_t with_sink(grouped *g, uint32_t mask) {
  const int64_t by_head[] = {1, g->heads, 1, 1};
  uint32_t sink = grouped_in(g, SINK);
  uint32_t lead[] = {keel_emit_dims(g->all, g->q, 0, 1),
                     grouped_number(g, g->heads), g->rows,
                     grouped_number(g, 1)};
  uint32_t narrow = keel_emit_concat(g->all, 0, lead, 4);
  lead[3] = g->total;
  uint32_t wide = keel_emit_concat(g->all, 0, lead, 4);
  sink = sink == KEEL_ABSENT ? keel_emit_number(g->all, 0, g->q)
                             : keel_emit_reshape(g->all, sink, by_head, 4);
  const uint32_t parts[] = {grouped_two(g, "Expand", mask, wide),
                            grouped_two(g, "Expand", sink, narrow)};
  return keel_emit_concat(g->all, 3, parts, 2);
}

static void expand_group_query_attention(keel_emit *all) {
  static const int64_t exchange[] = {0, 2, 1, 3}, flat[] = {0, 0, -1};
  const keel_opdef *op = all->node.op;
  grouped g = {.all = all,
               .heads = keel_attr_int(op, "num_heads", 0),
               .groups = keel_attr_int(op, "kv_num_heads", 0)};
  if (g.heads < 1 || g.groups < 1 || g.heads > 1 << 20 || g.heads % g.groups) {
    all->status =
        keel_fail(KD_INVALID_ARGUMENT,
                  "GroupQueryAttention \"%s\": num_heads must be a"
                  " multiple of kv_num_heads, not %lld and %lld",
                  all->node.name, (long long)g.heads, (long long)g.groups);
    return;
  }
  take_parts(&g);
  find_begin(&g);
  uint32_t places = rows_places(&g);
  microsoft_grouped_turn(&g, places);
  uint32_t k = present(&g, grouped_in(&g, PAST_KEY),
                       grouped_with_heads(&g, g.k, g.groups));
  uint32_t v = present(&g, grouped_in(&g, PAST_VALUE),
                       grouped_with_heads(&g, g.v, g.groups));
  keel_emit_give(all, PRESENT_KEY, k);
  keel_emit_give(all, PRESENT_VALUE, v);
  uint32_t inputs[] = {grouped_with_heads(&g, g.q, g.heads), seen(&g, k),
                       seen(&g, v), mask(&g, places)};
  if (has_sink(&g)) {
    inputs[1] = with_zeros(&g, inputs[1]);
    inputs[2] = with_zeros(&g, inputs[2]);
    inputs[3] = with_sink(&g, inputs[3]);
  }
  float scale = keel_attr_float(op, "scale", 0);
  const keel_attr attrs[] = {
      KEEL_FLOAT("softcap", keel_attr_float(op, "softcap", 0)),
      KEEL_FLOAT("scale", scale)};
  uint32_t y =
      keel_emit_op(all, "Attention", attrs, scale != 0 ? 2 : 1, inputs, 4);
  y = keel_emit_transpose(all, y, exchange, 4);
  keel_emit_give(all, OUTPUT, keel_emit_reshape(all, y, flat, 3));
}

/* ---- rows ---- */

static const keel_op_rule rules[] = {
    {"com.microsoft::GroupQueryAttention",
     .expand = expand_group_query_attention},
};

const keel_op_table keel_ops_microsoft_grouped = {KEEL_TABLE_RULES(rules)};
