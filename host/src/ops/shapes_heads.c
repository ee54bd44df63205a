/* shapes_heads.c - shapes of com.microsoft's attention by heads: MultiHeadAttention, Attention
 * and QAttention (onnxruntime/docs/ContribOperators.md). */
#include "ops/shapes.h"

/* What all three compute: `rows` of Q see `before` keys of the past, and `keys` of their own. */
typedef struct heads {
  int64_t count, batch, rows, keys, before, size, value_size;
} heads;

/* A product of sizes; too large for any tensor where it is not a number. */
static int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  return keel_mul_i64(a, b, &product) && product < INT64_MAX / 4
             ? product
             : INT64_MAX / 4;
}

static keel_status read_count(const keel_infer *infer, heads *h) {
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
                              const heads *h) {
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
                              const heads *h) {
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
static keel_status read_query(const keel_infer *infer, heads *h) {
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
static keel_status read_key(const keel_infer *infer, heads *h) {
  const keel_type *k = keel_infer_in(infer, 1), *v = keel_infer_in(infer, 2);
  if (!k && !v) return KD_OK;
  uint32_t rank = k ? k->rank : 0;
  if (rank >= 3) h->keys = k->dims[rank == 4 ? 2 : 1];
  const int64_t flat[] = {h->batch, h->keys, times(h->count, h->size)};
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

static keel_status read_past(const keel_infer *infer, heads *h) {
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

static keel_status check_projection(const keel_infer *infer, const heads *h) {
  const keel_type *bias = keel_infer_in(infer, 3), *k = keel_infer_in(infer, 1);
  int64_t wide = times(h->count, h->size),
          last = times(h->count, h->value_size);
  if (!bias || (bias->rank == 1 && !(k && k->rank == 4) &&
                bias->dims[0] == 2 * wide + last))
    return KD_OK;
  return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                         "bias must be [%lld], what is added to query, key and"
                         " value; a key of four dimensions has it already",
                         (long long)(2 * wide + last));
}

keel_status keel_shape_multi_head_attention(keel_infer *infer) {
  heads h = {0};
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
  const int64_t out[] = {h.batch, h.rows, times(h.count, h.value_size)};
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
                                   heads *h) {
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
static keel_status give(keel_infer *infer, uint32_t past_at, heads *h,
                        uint32_t mask, uint32_t added) {
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
  const int64_t out[] = {h->batch, h->rows, times(h->count, h->value_size)};
  KEEL_TRY(keel_infer_out(infer, 1, 5, present));
  return keel_infer_out(infer, 0, 3, out);
}

keel_status keel_shape_projected_attention(keel_infer *infer) {
  heads h = {0};
  KEEL_TRY(read_count(infer, &h));
  KEEL_TRY(check_plain(infer));
  if (keel_infer_in(infer, 6))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "past_sequence_length, of a cache in place, is not"
                           " supported");
  KEEL_TRY(read_projection(infer, infer->in[0], infer->in[1],
                           keel_infer_in(infer, 2), &h));
  return give(infer, 4, &h, 3, 5);
}

/* Scales and zero points: one number, or those of the weights one for each column. */
keel_status keel_shape_quantised_attention(keel_infer *infer) {
  heads h = {0};
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
  return give(infer, 8, &h, 5, 0);
}
