/* shapes_function.c - shapes of ops that are always written with simpler ones (passes/expand.c):
 * ONNX's Attention, and what goes with it. */
#include "ops/shapes.h"

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, SEEN };

/* An input of Attention as [batch, heads, rows, size]. */
typedef struct heads {
  int64_t batch, count, rows, size;
} heads;

static keel_status read_heads(const keel_infer *infer, uint32_t index,
                              const char *attr, heads *out) {
  const keel_type *type = infer->in[index];
  const int64_t *d = type->dims;
  *out = (heads){0};
  if (type->rank == 4) {
    *out = (heads){d[0], d[1], d[2], d[3]};
    return KD_OK;
  }
  int64_t count = keel_attr_int(infer->op, attr, 0);
  if (type->rank != 3)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "Q, K and V must all have 3 or all have 4 dimensions");
  if (count <= 0 || d[2] % count)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s is %lld, and does not divide %lld", attr,
                           (long long)count, (long long)d[2]);
  *out = (heads){d[0], count, d[1], d[2] / count};
  return KD_OK;
}

static keel_status check_past(const keel_infer *infer) {
  bool key = keel_infer_in(infer, PAST_KEY) != NULL;
  bool value = keel_infer_in(infer, PAST_VALUE) != NULL;
  return key == value && !(key && keel_infer_in(infer, SEEN))
             ? KD_OK
             : keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                               "past_key and past_value go together, without "
                               "nonpad_kv_seqlen");
}

/* Takes what came before into `now`. */
static keel_status join_past(const keel_infer *infer, uint32_t index,
                             heads *now) {
  const keel_type *past = keel_infer_in(infer, index);
  if (!past) return KD_OK;
  if (past->rank != 4 || past->dims[0] != now->batch ||
      past->dims[1] != now->count || past->dims[3] != now->size)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT, "%s must be [%lld,%lld,?,%lld]",
        index == PAST_KEY ? "past_key" : "past_value", (long long)now->batch,
        (long long)now->count, (long long)now->size);
  if (!__builtin_add_overflow(now->rows, past->dims[2], &now->rows))
    return KD_OK;
  return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                         "there are more keys than 2^63");
}

static keel_status check_attention(const keel_infer *infer, const heads *q,
                                   const heads *k, const heads *v) {
  const keel_type *seen = keel_infer_in(infer, SEEN);
  if (k->batch != q->batch || v->batch != q->batch || k->rows != v->rows ||
      k->count != v->count || k->size != q->size)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "Q, K and V must have one batch, K and V as many heads and rows, "
        "and heads of Q and K the same size");
  if (k->count ? q->count % k->count : q->count)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%lld heads of Q do not share %lld of K evenly",
                           (long long)q->count, (long long)k->count);
  if (seen && (seen->rank != 1 || seen->dims[0] != q->batch))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "nonpad_kv_seqlen must have one number a sample");
  return KD_OK;
}

static keel_status check_mask(const keel_infer *infer,
                              const keel_dims *scores) {
  const keel_type *mask = keel_infer_in(infer, MASK);
  if (!mask) return KD_OK;
  keel_dims with = *scores;
  int64_t dims[KD_MAX_RANK];
  bool fits = mask->rank >= 1 && mask->rank <= 4;
  for (uint32_t i = 0; fits && i < mask->rank; i++)
    dims[i] = mask->dims[i];
  if (fits) { /* it may end before the last key */
    fits = dims[mask->rank - 1] <= scores->dims[3];
    dims[mask->rank - 1] = scores->dims[3];
  }
  fits = fits && keel_dims_broadcast(&with, mask->rank, dims);
  for (uint32_t i = 0; fits && i < 4; i++)
    fits = with.dims[i] == scores->dims[i];
  return fits ? KD_OK
              : keel_infer_fail(
                    infer, KD_INVALID_ARGUMENT,
                    "attn_mask does not broadcast to [%lld,%lld,%lld,%lld]",
                    (long long)scores->dims[0], (long long)scores->dims[1],
                    (long long)scores->dims[2], (long long)scores->dims[3]);
}

keel_status keel_shape_onnx_attention(keel_infer *infer) {
  heads q, k, v;
  if (infer->in[K]->rank != infer->in[Q]->rank ||
      infer->in[V]->rank != infer->in[Q]->rank)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "Q, K and V must all have 3 or all have 4 dimensions");
  KEEL_TRY(read_heads(infer, Q, "q_num_heads", &q));
  KEEL_TRY(read_heads(infer, K, "kv_num_heads", &k));
  KEEL_TRY(read_heads(infer, V, "kv_num_heads", &v));
  KEEL_TRY(check_past(infer));
  KEEL_TRY(join_past(infer, PAST_KEY, &k));
  KEEL_TRY(join_past(infer, PAST_VALUE, &v));
  KEEL_TRY(check_attention(infer, &q, &k, &v));
  KEEL_TRY(keel_infer_within(infer, SEEN, q.batch, 0, k.rows));
  const keel_dims scores = {4, {q.batch, q.count, q.rows, k.rows}};
  const keel_dims apart = {4, {q.batch, q.count, q.rows, v.size}};
  const keel_dims keys = {4, {k.batch, k.count, k.rows, k.size}};
  const keel_dims values = {4, {v.batch, v.count, v.rows, v.size}};
  keel_dims flat = {3, {q.batch, q.rows, q.count}};
  KEEL_TRY(check_mask(infer, &scores));
  KEEL_TRY(keel_infer_dims(infer, 1, &keys));
  KEEL_TRY(keel_infer_dims(infer, 2, &values));
  KEEL_TRY(keel_infer_dims(infer, 3, &scores));
  if (infer->in[Q]->rank == 4) return keel_infer_dims(infer, 0, &apart);
  if (!keel_mul_i64(q.count, v.size, &flat.dims[2]))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "Y would be too large");
  return keel_infer_dims(infer, 0, &flat);
}

keel_status keel_shape_rotary(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  const keel_type *places = keel_infer_in(infer, 3);
  int64_t count = keel_attr_int(infer->op, "num_heads", 0);
  int64_t turning = keel_attr_int(infer->op, "rotary_embedding_dim", 0);
  if (x->rank != 4 && (x->rank != 3 || count <= 0 || x->dims[2] % count))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "X must have 4 dimensions, or 3 and num_heads, which divides the last");
  int64_t size = x->rank == 4 ? x->dims[3] : x->dims[2] / count;
  int64_t turned = turning ? turning : size;
  if (turned < 0 || turned > size || turned % 2)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "rotary_embedding_dim must be even, and at most %lld", (long long)size);
  for (uint32_t i = 1; i <= 2; i++) {
    const keel_type *cache = infer->in[i];
    uint32_t rank = places ? 2 : 3;
    if (cache->rank != rank || cache->dims[rank - 1] != turned / 2)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT,
          "cos_cache and sin_cache must have %u dimensions, the last of %lld",
          (unsigned)rank, (long long)turned / 2);
  }
  const keel_dims dims = keel_dims_of(x);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_tensor_scatter(keel_infer *infer) {
  const keel_type *cache = infer->in[0], *update = infer->in[1];
  const keel_type *begin = keel_infer_in(infer, 2);
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", -2),
                           cache->rank, &axis));
  bool fits = axis && update->rank == cache->rank;
  for (uint32_t i = 0; fits && i < cache->rank; i++)
    fits = i == axis ? update->dims[i] <= cache->dims[i]
                     : update->dims[i] == cache->dims[i];
  if (!fits ||
      (begin && (begin->rank != 1 || begin->dims[0] != cache->dims[0])))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "update must be as past_cache, but no longer along the axis, which is "
        "not the first, and write_indices one number a sample");
  bool turns = !strcmp(keel_attr_string(infer->op, "mode", ""), "circular");
  KEEL_TRY(keel_infer_within(
      infer, 2, cache->dims[0], 0,
      turns ? INT64_MAX : cache->dims[axis] - update->dims[axis]));
  const keel_dims dims = keel_dims_of(cache);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_center_crop_pad(keel_infer *infer) {
  int64_t shape[KD_MAX_RANK];
  const int64_t *axes = NULL;
  uint32_t seen = 0;
  keel_dims dims = keel_dims_of(infer->in[0]);
  int64_t given = keel_attr_ints(infer->op, "axes", &axes);
  int64_t wanted = given > 0 ? given : (int64_t)dims.rank;
  int64_t count = keel_infer_ints(infer, 1, shape, KD_MAX_RANK);
  if (count < 0) return KD_INVALID_ARGUMENT;
  if (count != wanted)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "shape has %lld numbers instead of %lld",
                           (long long)count, (long long)wanted);
  for (int64_t i = 0; i < count; i++) {
    uint32_t axis = (uint32_t)i;
    if (given > 0)
      KEEL_TRY(keel_infer_new_axis(infer, axes[i], dims.rank, &seen, &axis));
    dims.dims[axis] = shape[i];
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_affine_grid(keel_infer *infer) {
  int64_t size[5];
  const keel_type *theta = infer->in[0];
  int64_t count = keel_infer_ints(infer, 1, size, 5);
  if (count < 0) return KD_INVALID_ARGUMENT;
  int64_t rank = count - 2;
  if (count < 4 || theta->rank != 3 || theta->dims[1] != rank ||
      theta->dims[2] != rank + 1 || theta->dims[0] != size[0])
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "size must be N, C, H, W with theta [N,2,3], or N, C, D, H, W with "
        "theta [N,3,4]");
  keel_dims dims = {.rank = (uint32_t)count, .dims = {size[0]}};
  for (int64_t i = 0; i < rank; i++)
    dims.dims[1 + i] = size[2 + i];
  dims.dims[count - 1] = rank;
  return keel_infer_dims(infer, 0, &dims);
}

/* Numbers of an attribute, or `otherwise`. */
static keel_status read_window(const keel_infer *infer, const char *name,
                               int64_t count, int64_t otherwise, int64_t least,
                               int64_t *out) {
  const int64_t *given = NULL;
  int64_t length = keel_attr_ints(infer->op, name, &given);
  for (int64_t i = 0; i < count; i++) {
    out[i] = length == count ? given[i] : otherwise;
    if ((length > 0 && length != count) || out[i] < least || out[i] > INT32_MAX)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "%s must be %lld numbers from %lld on", name,
                             (long long)count, (long long)least);
  }
  return KD_OK;
}

/* How many blocks there are. */
static keel_status count_blocks(const keel_infer *infer, const int64_t *image,
                                const int64_t *block, int64_t rank,
                                int64_t *out_count) {
  int64_t dilations[KD_MAX_RANK], strides[KD_MAX_RANK], pads[2 * KD_MAX_RANK];
  KEEL_TRY(read_window(infer, "dilations", rank, 1, 1, dilations));
  KEEL_TRY(read_window(infer, "strides", rank, 1, 1, strides));
  KEEL_TRY(read_window(infer, "pads", 2 * rank, 0, 0, pads));
  *out_count = 1;
  for (int64_t d = 0; d < rank; d++) {
    bool small = image[d] >= 0 && image[d] <= INT32_MAX && block[d] >= 1 &&
                 block[d] <= INT32_MAX / dilations[d];
    int64_t room = small ? image[d] + pads[d] + pads[rank + d] -
                               (block[d] - 1) * dilations[d] - 1
                         : -1;
    if (room < 0 || !keel_mul_i64(*out_count, room / strides[d] + 1, out_count))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "a block does not fit into the image in dimension"
                             " %lld",
                             (long long)d);
  }
  return KD_OK;
}

keel_status keel_shape_col2im(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  int64_t image[KD_MAX_RANK / 2], block[KD_MAX_RANK / 2], blocks = 0, taps = 1;
  int64_t rank = keel_infer_ints(infer, 1, image, KD_MAX_RANK / 2);
  int64_t same = keel_infer_ints(infer, 2, block, KD_MAX_RANK / 2);
  if (rank < 0 || same < 0) return KD_INVALID_ARGUMENT;
  if (x->rank != 3 || rank < 1 || same != rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the input must have 3 dimensions, and image_shape "
                           "and block_shape as many numbers");
  KEEL_TRY(count_blocks(infer, image, block, rank, &blocks));
  bool fits = true;
  for (int64_t d = 0; d < rank; d++)
    fits = fits && keel_mul_i64(taps, block[d], &taps);
  if (!fits || blocks != x->dims[2] || x->dims[1] % taps)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the input must be [N,C*%lld,%lld]", (long long)taps,
                           (long long)blocks);
  keel_dims dims = {.rank = (uint32_t)rank + 2,
                    .dims = {x->dims[0], x->dims[1] / taps}};
  for (int64_t d = 0; d < rank; d++)
    dims.dims[2 + d] = image[d];
  return keel_infer_dims(infer, 0, &dims);
}

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

keel_status keel_shape_causal_conv(keel_infer *infer) {
  const keel_type *x = infer->in[0], *weight = infer->in[1];
  const keel_type *bias = keel_infer_in(infer, 2);
  const keel_type *past = keel_infer_in(infer, 3);
  bool fits = x->rank == 3 && weight->rank == 3 && weight->dims[1] == 1 &&
              weight->dims[0] == x->dims[1] && weight->dims[2] >= 1;
  if (fits && bias) fits = bias->rank == 1 && bias->dims[0] == x->dims[1];
  if (fits && past)
    fits = past->rank == 3 && past->dims[0] == x->dims[0] &&
           past->dims[1] == x->dims[1] && past->dims[2] == weight->dims[2] - 1;
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the input must be [N,C,L], weight [C,1,k], bias "
                           "[C] and past_state [N,C,k-1]");
  keel_dims dims = keel_dims_of(x);
  KEEL_TRY(keel_infer_dims(infer, 0, &dims));
  dims.dims[2] = weight->dims[2] - 1;
  return keel_infer_dims(infer, 1, &dims);
}
