/* heads.c - com.microsoft's MultiHeadAttention, Attention and QAttention, written with
 * ONNX's Attention (onnxruntime/docs/ContribOperators.md).
 *
 * A key that its mask leaves out has mask_filter_value added to its score, as there: -10,000 unless
 * given. Keys after a row have minus infinity. */
#include <math.h>
#include "opsets/microsoft/microsoft.h"
#include "opsets/terms.h"
#include "opsets/text.h"
#include "passes/passes.h"

/* ---- shapes ---- */

/* The common computation of all three: `rows` of Q see `before` keys of the past, and `keys` of
 * their own. */
typedef struct head_sizes {
  int64_t count, batch, rows, keys, before, size, value_size;
} head_sizes;

/* A product of sizes; too large for any tensor where it is not a number. */
static int64_t heads_times(int64_t a, int64_t b) {
  int64_t product = 0;
  return keel_mul_i64(a, b, &product) && product < INT64_MAX / 4
             ? product
             : INT64_MAX / 4;
}

static keel_status read_count(const keel_infer *infer, head_sizes *h) {
  h->count = keel_attr_int(infer->op, "num_heads", 0);
  if (h->count >= 1 && h->count <= 1 << 20) return KD_OK;
  return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                         "num_heads must be 1 or more, not %lld",
                         (long long)h->count);
}

static bool has_dims(const keel_type *type, uint32_t rank,
                     const int64_t *dims) {
  return !type || (type->rank == rank &&
                   memcmp(type->dims, dims, rank * sizeof *dims) == 0);
}

/* ---- what is added to scores -------------------------------------------------------------- */

/* Lengths of keys, or which of them count: for all rows, or for each. */
static keel_status check_mask(const keel_infer *infer, uint32_t index,
                              const head_sizes *h) {
  const keel_type *mask = keel_infer_in(infer, index);
  const int64_t total = h->before + h->keys, b = h->batch;
  const int64_t by_key[] = {b, total}, by_row[] = {b, h->rows, total};
  if (!mask || (mask->rank == 2 && has_dims(mask, 2, by_key)) ||
      (mask->rank == 3 && has_dims(mask, 3, by_row)) ||
      (mask->rank == 1 && (mask->dims[0] == b || mask->dims[0] == 2 * b ||
                           mask->dims[0] == 3 * b + 2)))
    return KD_OK;
  if (mask->rank == 4)
    return keel_infer_fail(
        infer, KD_UNIMPLEMENTED,
        "a mask of four dimensions is not supported; export"
        " it as [batch, rows, keys], with 1 for what counts");
  return keel_infer_fail(
      infer, KD_INVALID_ARGUMENT,
      "the mask must be [%lld], [2 * %lld], [3 * %lld + 2], [%lld,%lld] or"
      " [%lld,%lld,%lld]: lengths, or which keys count",
      (long long)b, (long long)b, (long long)b, (long long)b, (long long)total,
      (long long)b, (long long)h->rows, (long long)total);
}

static keel_status check_bias(const keel_infer *infer, uint32_t index,
                              const head_sizes *h) {
  const keel_type *bias = keel_infer_in(infer, index);
  const int64_t total = h->before + h->keys;
  if (!bias ||
      (bias->rank == 4 && (bias->dims[0] == 1 || bias->dims[0] == h->batch) &&
       (bias->dims[1] == 1 || bias->dims[1] == h->count) &&
       bias->dims[2] == h->rows && bias->dims[3] == total))
    return KD_OK;
  return keel_infer_fail(
      infer, KD_INVALID_ARGUMENT,
      "attention_bias must be [%lld or 1,%lld or 1,%lld,%lld]",
      (long long)h->batch, (long long)h->count, (long long)h->rows,
      (long long)total);
}

/* ---- MultiHeadAttention ------------------------------------------------------------------- */

/* The query, with key and value in it where it has five dimensions. */
static keel_status read_query(const keel_infer *infer, head_sizes *h) {
  const keel_type *q = infer->in[0], *k = keel_infer_in(infer, 1);
  bool all = q->rank == 5;
  if (all ? !k && q->dims[2] == h->count && q->dims[3] == 3
          : k && q->rank == 3 && q->dims[2] % h->count == 0) {
    h->batch = q->dims[0];
    h->rows = h->keys = q->dims[1];
    h->size = h->value_size = all ? q->dims[4] : q->dims[2] / h->count;
    return KD_OK;
  }
  return keel_infer_fail(
      infer, KD_INVALID_ARGUMENT,
      "query must be [batch, rows, %lld * size] with a key, or have both:"
      " [batch, rows, %lld, 3, size]",
      (long long)h->count, (long long)h->count);
}

/* Key and value: [batch, keys, heads * size] each, that of both, or [batch, heads, keys, size]
 * each, as a cache has them. */
static keel_status read_key(const keel_infer *infer, head_sizes *h) {
  const keel_type *k = keel_infer_in(infer, 1), *v = keel_infer_in(infer, 2);
  if (!k && !v) return KD_OK;
  uint32_t rank = k ? k->rank : 0;
  if (rank >= 3) h->keys = k->dims[rank == 4 ? 2 : 1];
  const int64_t flat[] = {h->batch, h->keys, heads_times(h->count, h->size)};
  const int64_t both[] = {h->batch, h->keys, h->count, 2, h->size};
  const int64_t kept[] = {h->batch, h->count, h->keys, h->size};
  bool fits = false;
  if (rank == 3 && v && v->rank == 3) {
    fits = has_dims(k, 3, flat) && v->dims[0] == h->batch &&
           v->dims[1] == h->keys && v->dims[2] % h->count == 0;
    h->value_size = v->dims[2] / h->count;
  } else if (rank == 5 && !v) {
    fits = has_dims(k, 5, both);
  } else if (rank == 4 && v && v->rank == 4) {
    fits = has_dims(k, 4, kept) && memcmp(v->dims, kept, 3 * sizeof *kept) == 0;
    h->value_size = v->dims[3];
  }
  if (fits) return KD_OK;
  return keel_infer_fail(
      infer, KD_INVALID_ARGUMENT,
      "key and value must be [%lld,keys,%lld * size] each, or"
      " [%lld,keys,%lld,2,size] together, or [%lld,%lld,keys,size] each",
      (long long)h->batch, (long long)h->count, (long long)h->batch,
      (long long)h->count, (long long)h->batch, (long long)h->count);
}

static keel_status read_past(const keel_infer *infer, head_sizes *h) {
  const keel_type *k = keel_infer_in(infer, 6), *v = keel_infer_in(infer, 7);
  const keel_type *own = keel_infer_in(infer, 1);
  if (!k && !v) return KD_OK;
  h->before = k && k->rank == 4 ? k->dims[2] : 0;
  const int64_t keys[] = {h->batch, h->count, h->before, h->size};
  const int64_t values[] = {h->batch, h->count, h->before, h->value_size};
  if (!k || !v || !has_dims(k, 4, keys) || !has_dims(v, 4, values) ||
      (own && own->rank == 4) || !keel_is_plausible(h->before))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "past_key and past_value must be [%lld,%lld,keys,%lld] and"
        " [%lld,%lld,keys,%lld], and come before a key of three dimensions",
        (long long)h->batch, (long long)h->count, (long long)h->size,
        (long long)h->batch, (long long)h->count, (long long)h->value_size);
  return KD_OK;
}

static keel_status check_projection(const keel_infer *infer,
                                    const head_sizes *h) {
  const keel_type *bias = keel_infer_in(infer, 3), *k = keel_infer_in(infer, 1);
  int64_t wide = heads_times(h->count, h->size),
          last = heads_times(h->count, h->value_size);
  if (!bias || (bias->rank == 1 && !(k && k->rank == 4) &&
                bias->dims[0] == 2 * wide + last))
    return KD_OK;
  return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                         "bias must be [%lld], for query, key and value; a key "
                         "of four dimensions has it already",
                         (long long)(2 * wide + last));
}

keel_status keel_shape_multi_head_attention(keel_infer *infer) {
  head_sizes h = {0};
  KEEL_TRY(read_count(infer, &h));
  if (keel_infer_in(infer, 8) || keel_infer_in(infer, 9))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "past_sequence_length and cache_indirection, of a"
                           " cache that beams share, are not supported");
  KEEL_TRY(read_query(infer, &h));
  KEEL_TRY(read_key(infer, &h));
  KEEL_TRY(read_past(infer, &h));
  KEEL_TRY(check_projection(infer, &h));
  KEEL_TRY(check_mask(infer, 4, &h));
  KEEL_TRY(check_bias(infer, 5, &h));
  const int64_t total = h.before + h.keys;
  const int64_t out[] = {h.batch, h.rows, heads_times(h.count, h.value_size)};
  const int64_t key[] = {h.batch, h.count, total, h.size};
  const int64_t value[] = {h.batch, h.count, total, h.value_size};
  const int64_t scores[] = {h.batch, h.count, h.rows, total};
  KEEL_TRY(keel_infer_out(infer, 1, 4, key));
  KEEL_TRY(keel_infer_out(infer, 2, 4, value));
  KEEL_TRY(keel_infer_out(infer, 3, 4, scores));
  return keel_infer_out(infer, 0, 3, out);
}

/* ---- Attention and QAttention: the projections are in them --------------------------------- */

static keel_status check_plain(const keel_infer *infer) {
  static const char *const names[] = {"do_rotary", "past_present_share_buffer"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (keel_attr_int(infer->op, names[i], 0))
      return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                             "%s other than 0 is not supported", names[i]);
  return KD_OK;
}

/* Columns of Q, K and V of the weights; by qkv_hidden_sizes, or a third each. */
static keel_status read_projection(const keel_infer *infer, const keel_type *x,
                                   const keel_type *w, const keel_type *bias,
                                   head_sizes *h) {
  const int64_t *sizes = NULL;
  int64_t given = keel_attr_ints(infer->op, "qkv_hidden_sizes", &sizes);
  if (x->rank != 3 || w->rank != 2 || w->dims[0] != x->dims[2])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "input must be [batch, rows, size], and weights"
                           " [size, columns of Q, K and V]");
  int64_t third = w->dims[1] / 3;
  int64_t q = given == 3 ? sizes[0] : third, k = given == 3 ? sizes[1] : third;
  int64_t v = given == 3 ? sizes[2] : third;
  h->batch = x->dims[0];
  h->rows = h->keys = x->dims[1];
  if ((given > 0 && given != 3) || q != k || q < 0 || v < 0 || q > w->dims[1] ||
      v > w->dims[1] || 2 * q + v != w->dims[1] || q % h->count ||
      v % h->count ||
      (bias && (bias->rank != 1 || bias->dims[0] != w->dims[1])))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "the %lld columns of weights, and bias, must be those of Q, K and V:"
        " qkv_hidden_sizes, or a third each, multiples of %lld",
        (long long)w->dims[1], (long long)h->count);
  h->size = q / h->count;
  h->value_size = v / h->count;
  return KD_OK;
}

/* Past and present: [2, batch, heads, keys, size]. */
static keel_status heads_give(keel_infer *infer, uint32_t past_at,
                              head_sizes *h, uint32_t mask, uint32_t added) {
  const keel_type *past = keel_infer_in(infer, past_at);
  bool kept = past || infer->output_count > 1;
  if (past) {
    h->before = past->rank == 5 ? past->dims[3] : 0;
    const int64_t dims[] = {2, h->batch, h->count, h->before, h->size};
    if (!has_dims(past, 5, dims) || !keel_is_plausible(h->before))
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT, "past must be [2,%lld,%lld,keys,%lld]",
          (long long)h->batch, (long long)h->count, (long long)h->size);
  }
  if (kept && h->size != h->value_size)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "with past or present, rows of V must be as long as"
                           " those of K: %lld, not %lld",
                           (long long)h->size, (long long)h->value_size);
  KEEL_TRY(check_mask(infer, mask, h));
  if (keel_infer_in(infer, mask) && infer->in[mask]->rank == 1)
    KEEL_TRY(keel_infer_within(infer, mask, h->batch, 0, INT32_MAX));
  if (added) KEEL_TRY(check_bias(infer, added, h));
  const int64_t present[] = {2, h->batch, h->count, h->before + h->keys,
                             h->size};
  const int64_t out[] = {h->batch, h->rows,
                         heads_times(h->count, h->value_size)};
  KEEL_TRY(keel_infer_out(infer, 1, 5, present));
  return keel_infer_out(infer, 0, 3, out);
}

keel_status keel_shape_projected_attention(keel_infer *infer) {
  head_sizes h = {0};
  KEEL_TRY(read_count(infer, &h));
  KEEL_TRY(check_plain(infer));
  if (keel_infer_in(infer, 6))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "past_sequence_length, of a cache in place, is not"
                           " supported");
  KEEL_TRY(read_projection(infer, infer->in[0], infer->in[1],
                           keel_infer_in(infer, 2), &h));
  return heads_give(infer, 4, &h, 3, 5);
}

/* Scales and zero points: one number, or those of the weights one for each column. */
keel_status keel_shape_quantised_attention(keel_infer *infer) {
  head_sizes h = {0};
  const keel_type *w = infer->in[1];
  KEEL_TRY(read_count(infer, &h));
  KEEL_TRY(check_plain(infer));
  KEEL_TRY(read_projection(infer, infer->in[0], w, infer->in[2], &h));
  static const uint32_t single[] = {3, 6}, many[] = {4, 7};
  for (int i = 0; i < 2; i++) {
    const keel_type *one = keel_infer_in(infer, single[i]);
    const keel_type *each = keel_infer_in(infer, many[i]);
    if ((one && (one->rank > 1 || one->elements != 1)) ||
        (each && (each->rank > 1 ||
                  (each->elements != 1 && each->elements != w->dims[1]))))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "scales and zero points must be one number; those"
                             " of weight may be one for each of %lld columns",
                             (long long)w->dims[1]);
  }
  return heads_give(infer, 8, &h, 5, 0);
}

/* ---- in simpler ops ---- */

typedef struct heads {
  keel_emit *all;
  int64_t count;
  uint32_t q, k,
      v; /* [batch, rows, heads * size], then [batch, heads, rows, size] */
  uint32_t
      before; /* how many keys the past has: a list of one; KEEL_ABSENT: none */
  bool checked; /* lengths of keys below 0 are refused */
} heads;

static uint32_t heads_in(const heads *h, uint32_t index) {
  return keel_emit_in(h->all, index);
}

static uint32_t heads_two(heads *h, const char *op, uint32_t a, uint32_t b) {
  return keel_emit_binary(h->all, op, a, b);
}

static uint32_t dim(heads *h, uint32_t value, int64_t index) {
  return keel_emit_dims(h->all, value, index, index + 1);
}

static bool heads_start(heads *h) {
  h->count = keel_attr_int(h->all->node.op, "num_heads", 0);
  h->before = KEEL_ABSENT;
  if (h->count < 1 || h->count > 1 << 20)
    keel_emit_fail(h->all, KD_INVALID_ARGUMENT,
                   "num_heads must be 1 or more, not %lld",
                   (long long)h->count);
  return h->all->status == KD_OK;
}

/* The rank of an input that must be known before the run, or 0. */
static uint32_t rank_of(heads *h, uint32_t index, const char *name) {
  const keel_type *type = keel_emit_type(h->all, index);
  if (heads_in(h, index) == KEEL_ABSENT) return 0;
  if (!type)
    keel_emit_fail(h->all, KD_UNIMPLEMENTED,
                   "%s of a rank that is known in a run only", name);
  return type ? type->rank : 0;
}

/* ---- heads -------------------------------------------------------------------------------- */

/* [batch, rows, heads * size] as [batch, heads, rows, size] */
static uint32_t heads_with_heads(heads *h, uint32_t value) {
  return keel_emit_text(
      h->all, "Transpose[perm=(0 2 1 3)](Reshape(%v, {0, 0, @num_heads, -1}))",
      value);
}

/* Part `index` of [batch, rows, heads, parts, size], as [batch, rows, heads * size]. */
static uint32_t part(heads *h, uint32_t value, int64_t index) {
  return keel_emit_text(h->all,
                        "Reshape(Slice(%v, {%i}, {%i}, {3}), {0, 0, -1})",
                        value, index, index + 1);
}

static uint32_t after(heads *h, uint32_t past, uint32_t value) {
  const uint32_t parts[] = {past, value};
  return past == KEEL_ABSENT ? value : keel_emit_concat(h->all, 2, parts, 2);
}

/* ---- what is added to scores -------------------------------------------------------------- */

/* Keys from each batch's length on; and, of two lists, those before where it begins. */
static uint32_t outside(heads *h, uint32_t mask, uint32_t keys) {
  uint32_t lengths = keel_emit_text(
      h->all, "Slice(i64(%v), {0}, dims(%v, 0, 1), {0})", mask, h->q);
  if (h->checked)
    lengths = keel_emit_within(h->all, lengths, keel_emit_int(h->all, 0),
                               keel_emit_int(h->all, INT32_MAX), "mask_index");
  return keel_emit_text(
      h->all,
      "mask = %v; keys = %v; batch = dims(%v, 0, 1);"
      "hidden = keys >= Reshape(%v, {-1, 1, 1, 1});"
      "padded = {i64(mask), Expand({0}, batch)};"
      "begins = Reshape(Slice(padded, batch, batch * {2}, {0}), {-1, 1, 1, 1});"
      "begins = begins * i64(dims(mask, 0, 1) == batch * {2});"
      "Or(hidden, keys < begins)",
      mask, keys, h->q, lengths);
}

/* Which keys the mask leaves out, to be broadcast to [batch, heads, rows, keys]. */
static uint32_t left_out(heads *h, uint32_t index, uint32_t keys) {
  uint32_t mask = heads_in(h, index), rank = rank_of(h, index, "a mask");
  if (rank == 1) return outside(h, mask, keys);
  if (rank != 2 && rank != 3) {
    keel_emit_fail(h->all, KD_UNIMPLEMENTED,
                   "a mask of %u dimensions is not supported; export it"
                   " as [batch, rows, keys], with 1 for what counts",
                   (unsigned)rank);
    return KEEL_ABSENT;
  }
  return keel_emit_text(h->all, "Unsqueeze(i64(%v) <= {0}, %b ? {1, 2} : {1})",
                        mask, rank == 2);
}

/* The sum of mask, order and bias; KEEL_ABSENT: nothing. */
static uint32_t heads_added(heads *h, uint32_t mask, uint32_t bias) {
  const keel_opdef *op = h->all->node.op;
  bool causal = keel_attr_int(op, "unidirectional", 0) != 0;
  uint32_t keys = KEEL_ABSENT, sum = KEEL_ABSENT;
  if (causal || heads_in(h, mask) != KEEL_ABSENT)
    keys = keel_emit_range(h->all, dim(h, h->k, 2));
  if (heads_in(h, mask) != KEEL_ABSENT)
    sum = keel_emit_text(h->all, "Where(%v, @mask_filter_value~%v, 0~%v)",
                         left_out(h, mask, keys), h->q, h->q);
  if (bias && heads_in(h, bias) != KEEL_ABSENT)
    sum = sum == KEEL_ABSENT ? heads_in(h, bias)
                             : heads_two(h, "Add", sum, heads_in(h, bias));
  if (causal)
    sum =
        keel_emit_text(h->all,
                       "rows = Unsqueeze(range(dims(%v, 2, 3)), {1});"
                       "places = %b ? rows + %v : rows;"
                       "Where(%v > places, %f~%v, %b ? %v : 0~%v)",
                       h->q, h->before != KEEL_ABSENT, h->before, keys,
                       -(double)INFINITY, h->q, sum != KEEL_ABSENT, sum, h->q);
  return sum;
}

/* ---- attention ----------------------------------------------------------------------------- */

/* Scores before their softmax, for those who look at them. */
static void give_scores(heads *h, uint32_t bias, uint32_t index) {
  if (!keel_emit_wants(h->all, index)) return;
  keel_emit_text(h->all,
                 "q = %v; scale = @scale ? @scale~q"
                 "  : CastLike(Reciprocal(Sqrt(f32(dims(q, 3, 4)))), q);"
                 "scores = MatMul(q * scale, Transpose[perm=(0 1 3 2)](%v));"
                 "%i = %b ? scores + %v : scores",
                 h->q, h->k, (int64_t)index, bias != KEEL_ABSENT, bias);
}

static void attend(heads *h, uint32_t bias) {
  keel_emit_text(h->all,
                 "q = %v; k = %v; v = %v; bias = %v;"
                 "y = @scale ? Attention[scale=@scale](q, k, v, bias)"
                 "           : Attention(q, k, v, bias);"
                 "%0 = Reshape(Transpose[perm=(0 2 1 3)](y), {0, 0, -1})",
                 h->q, h->k, h->v, bias);
}

/* ---- MultiHeadAttention ------------------------------------------------------------------- */

enum { QUERY, KEY, VALUE, BIAS, MASK, SCORES_BIAS, PAST_KEY, PAST_VALUE };

/* Query, key and value apart; whether key and value have their heads already. */
static bool take_parts(heads *h) {
  uint32_t query = rank_of(h, QUERY, "a query"), key = rank_of(h, KEY, "a key");
  h->q = query == 5 ? part(h, heads_in(h, QUERY), 0) : heads_in(h, QUERY);
  h->k = query == 5 ? part(h, heads_in(h, QUERY), 1)
         : key == 5 ? part(h, heads_in(h, KEY), 0)
                    : heads_in(h, KEY);
  h->v = query == 5 ? part(h, heads_in(h, QUERY), 2)
         : key == 5 ? part(h, heads_in(h, KEY), 1)
                    : heads_in(h, VALUE);
  if (h->k == KEEL_ABSENT || h->v == KEEL_ABSENT)
    keel_emit_fail(h->all, KD_INVALID_ARGUMENT,
                   "key and value are missing: the query has all only"
                   " where it is [batch, rows, heads, 3, size]");
  return key == 4;
}

/* The bias has what is added to query, key and value behind each other. */
static void add_bias(heads *h) {
  if (heads_in(h, BIAS) == KEEL_ABSENT) return;
  keel_emit_text(h->all,
                 "q = %v; size = dims(q, 2, 3); twice = size * {2};"
                 "%p = q + Slice($3, {0}, size, {0});"
                 "%p = %v + Slice($3, size, twice, {0});"
                 "%p = %v + Slice($3, twice, {max}, {0})",
                 h->q, &h->q, &h->k, h->k, &h->v, h->v);
}

static void expand_multi_head_attention(keel_emit *all) {
  heads h = {.all = all};
  if (!heads_start(&h)) return;
  if (heads_in(&h, 8) != KEEL_ABSENT || heads_in(&h, 9) != KEEL_ABSENT)
    keel_emit_fail(all, KD_UNIMPLEMENTED,
                   "past_sequence_length and cache_indirection, of a cache"
                   " that beams share, are not supported");
  bool kept = take_parts(&h);
  if (!kept) add_bias(&h);
  h.q = heads_with_heads(&h, h.q);
  if (!kept) {
    h.k = heads_with_heads(&h, h.k);
    h.v = heads_with_heads(&h, h.v);
  }
  if (heads_in(&h, PAST_KEY) != KEEL_ABSENT)
    h.before = dim(&h, heads_in(&h, PAST_KEY), 2);
  h.k = after(&h, heads_in(&h, PAST_KEY), h.k);
  h.v = after(&h, heads_in(&h, PAST_VALUE), h.v);
  keel_emit_give(all, 1, h.k);
  keel_emit_give(all, 2, h.v);
  uint32_t bias = heads_added(&h, MASK, SCORES_BIAS);
  give_scores(&h, bias, 3);
  attend(&h, bias);
}

/* ---- Attention and QAttention --------------------------------------------------------------- */

/* Columns of Q, K and V of what the projections give: by qkv_hidden_sizes, or a third each. */
static void heads_cut(heads *h, uint32_t all_three) {
  const int64_t *sizes = NULL;
  int64_t given = keel_attr_ints(h->all->node.op, "qkv_hidden_sizes", &sizes);
  bool fits =
      given != 3 || (sizes[0] >= 0 && sizes[1] >= 0 &&
                     sizes[0] < INT64_MAX / 2 && sizes[1] < INT64_MAX / 2);
  if (!fits)
    keel_emit_fail(h->all, KD_INVALID_ARGUMENT,
                   "qkv_hidden_sizes must be sizes, not %lld and %lld",
                   (long long)sizes[0], (long long)sizes[1]);
  bool by_size = given == 3 && fits;
  keel_emit_text(h->all,
                 "all = %v; third = %b ? {%i} : dims(all, 2, 3) / {3};"
                 "two = %b ? {%i} : third * {2};"
                 "%p = Slice(all, {0}, third, {2});"
                 "%p = Slice(all, third, two, {2});"
                 "%p = Slice(all, two, {max}, {2})",
                 all_three, by_size, by_size ? sizes[0] : 0, by_size,
                 by_size ? sizes[0] + sizes[1] : 0, &h->q, &h->k, &h->v);
  h->q = heads_with_heads(h, h->q);
  h->k = heads_with_heads(h, h->k);
  h->v = heads_with_heads(h, h->v);
}

/* Key (0) or value (1) of [2, batch, heads, keys, size]. */
static uint32_t kept_of(heads *h, uint32_t past, int64_t index) {
  if (past == KEEL_ABSENT) return KEEL_ABSENT;
  return keel_emit_text(h->all, "Squeeze(Slice(%v, {%i}, {%i}, {0}), {0})",
                        past, index, index + 1);
}

static void projected(heads *h, uint32_t all_three, uint32_t past,
                      uint32_t mask, uint32_t bias) {
  const keel_opdef *op = h->all->node.op;
  if (keel_attr_int(op, "do_rotary", 0) ||
      keel_attr_int(op, "past_present_share_buffer", 0))
    keel_emit_fail(h->all, KD_UNIMPLEMENTED,
                   "do_rotary and past_present_share_buffer are not"
                   " supported");
  h->checked = true;
  heads_cut(h, all_three);
  if (past != KEEL_ABSENT) h->before = dim(h, past, 3);
  h->k = after(h, kept_of(h, past, 0), h->k);
  h->v = after(h, kept_of(h, past, 1), h->v);
  keel_emit_text(h->all,
                 "%1 = Concat[axis=0](Unsqueeze(%v, {0}), Unsqueeze(%v, {0}))",
                 h->k, h->v);
  attend(h, heads_added(h, mask, bias));
}

static void expand_projected_attention(keel_emit *all) {
  heads h = {.all = all};
  if (!heads_start(&h)) return;
  if (heads_in(&h, 6) != KEEL_ABSENT)
    keel_emit_fail(all, KD_UNIMPLEMENTED,
                   "past_sequence_length, of a cache in place, is not"
                   " supported");
  uint32_t x = keel_emit_text(all, "x = MatMul($0, $1); $2 ? x + $2 : x");
  projected(&h, x, heads_in(&h, 4), 3, 5);
}

static void expand_quantised_attention(keel_emit *all) {
  heads h = {.all = all};
  if (!heads_start(&h)) return;
  uint32_t x = keel_emit_text(
      all,
      "scale = $3 * $4;"
      "CastLike(MatMulInteger($0, $1, $6, $7), scale) * scale + $2");
  projected(&h, x, heads_in(&h, 8), 5, 0);
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    MICROSOFT("MultiHeadAttention", "f32_or_half",
              "query:T key:T? value:T? bias:T? key_padding_mask:i32?"
              " attention_bias:T? past_key:T? past_value:T?"
              " past_sequence_length:i32? cache_indirection:i32? -> output:T"
              " present_key:T present_value:T qk:T",
              "mask_filter_value:f=-10000 num_heads:i! scale:f=0"
              " unidirectional:i=0",
              multi_head_attention),
    MICROSOFT("Attention", "f32_or_half",
              "input:T weights:T bias:T? mask_index:i32? past:T?"
              " attention_bias:T? past_sequence_length:i32? -> output:T"
              " present:T",
              "do_rotary:i=0 mask_filter_value:f=-10000 num_heads:i!"
              " past_present_share_buffer:i=0 qkv_hidden_sizes:I"
              " rotary_embedding_dim:i=0 scale:f=0 unidirectional:i=0",
              projected_attention),
    MICROSOFT("QAttention", "byte",
              "input:T weight:W=byte bias:S=f32_or_half input_scale:S"
              " weight_scale:S mask_index:i32? input_zero_point:T?"
              " weight_zero_point:W? past:S? -> output:S present:S",
              "do_rotary:i=0 mask_filter_value:f=-10000 num_heads:i!"
              " past_present_share_buffer:i=0 scale:f=0 unidirectional:i=0",
              quantised_attention),
};

static const keel_op_rule rules[] = {
    {"com.microsoft::MultiHeadAttention",
     .expand = expand_multi_head_attention},
    {"com.microsoft::Attention", .expand = expand_projected_attention},
    {"com.microsoft::QAttention", .expand = expand_quantised_attention},
};

const keel_op_table keel_ops_microsoft_heads = {KEEL_TABLE_ROWS(rows),
                                                KEEL_TABLE_RULES(rules)};
