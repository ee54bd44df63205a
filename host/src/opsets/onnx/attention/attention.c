/* attention.c - ONNX's Attention, written with products and a softmax.
 *
 *     scores = MatMul(Q * sqrt(scale), Transpose(K) * sqrt(scale)), softcap * tanh(. / softcap)
 *     Y = MatMul(Softmax(scores + bias), V)
 *
 * opsets/onnx/attention/fuse.c fuses this to one op. bias has minus infinity for a hidden key: by
 * the mask, the causal order, a window, or the number of keys that are not padding. A row that sees
 * no key gives zeros: its bias becomes 0, so that nothing is NaN, and its result is masked.
 *
 * Ranks and element types need not be known: Q of three dimensions has the attribute
 * q_num_heads, and dimensions are asked for with Shape, which is folded where they are known. */
#include <math.h>
#include "opsets/tables.h"
#include "opsets/terms.h"
#include "opsets/text.h"
#include "passes/cost.h"
#include "passes/passes.h"

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, SEEN, INPUTS };
enum { Y, PRESENT_KEY, PRESENT_VALUE, SCORES, NOWHERE };

/* ---- shapes ---- */

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

/* keel::Attention, which the pass "attention" makes, is softmax(scale * Q K' + mask) V for each head,
 * the softmax over keys: Q [..., H, M, D], K [..., G, N, D] and V [..., G, N, E] give
 * Y [..., H, M, E], or with heads_last [..., M, H, E]. Leading dimensions are equal. G divides H:
 * H / G neighbouring heads read one of K and V. mask is broadcast to [..., H, M, N] and added. With
 * causal, row i sees the keys j <= i + N - M alone. Where a row sees no key, or its scores are all
 * minus infinity, its softmax is NaN; with nan_as_zero that counts as zeros. (Vaswani et al.,
 * "Attention Is All You Need", 2017; ONNX has it as Attention since opset 23.) */

static keel_status check_rows_mask(const keel_infer *infer,
                                   const keel_dims *rows) {
  const keel_type *mask = keel_infer_in(infer, 3);
  keel_dims with = *rows;
  bool fits = !mask || (keel_dims_broadcast(&with, mask->rank, mask->dims) &&
                        with.rank == rows->rank);
  for (uint32_t i = 0; fits && i < rows->rank; i++)
    fits = with.dims[i] == rows->dims[i];
  return fits ? KD_OK
              : keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                                "mask does not broadcast to rows of Q by rows "
                                "of K: [..., %lld,%lld,%lld]",
                                (long long)rows->dims[rows->rank - 3],
                                (long long)rows->dims[rows->rank - 2],
                                (long long)rows->dims[rows->rank - 1]);
}

keel_status keel_shape_attention(keel_infer *infer) {
  const keel_type *q = infer->in[0], *k = infer->in[1], *v = infer->in[2];
  uint32_t rank = q->rank;
  if (rank < 3 || k->rank != rank || v->rank != rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "Q, K and V must have one rank of 3 or more");
  int64_t heads = q->dims[rank - 3], groups = k->dims[rank - 3];
  for (uint32_t i = 0; i + 3 < rank; i++)
    if (k->dims[i] != q->dims[i] || v->dims[i] != q->dims[i])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "Q, K and V differ in dimension %u", (unsigned)i);
  if (v->dims[rank - 3] != groups || (groups ? heads % groups : heads))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%lld heads of Q do not share %lld of K and %lld "
                           "of V evenly",
                           (long long)heads, (long long)groups,
                           (long long)v->dims[rank - 3]);
  if (k->dims[rank - 1] != q->dims[rank - 1] ||
      v->dims[rank - 2] != k->dims[rank - 2])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "rows of K must be as long as those of Q, and as "
                           "many as those of V");
  keel_dims dims = keel_dims_of(q);
  dims.dims[rank - 1] = k->dims[rank - 2];
  KEEL_TRY(check_rows_mask(infer, &dims));
  dims.dims[rank - 1] = v->dims[rank - 1];
  if (keel_attr_int(infer->op, "heads_last", 0)) {
    dims.dims[rank - 3] = q->dims[rank - 2];
    dims.dims[rank - 2] = heads;
  }
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- in simpler ops ---- */

typedef struct attention {
  keel_emit *all;
  const keel_opdef *op;
  bool flat; /* Q, K and V are [batch, rows, heads * size] */
  uint32_t in[INPUTS];
  uint32_t q, k, v;    /* [batch, heads, rows, size], with what came before */
  uint32_t bias, dead; /* rows that see no key; KEEL_ABSENT: none */
} attention;

static int64_t attr(const attention *a, const char *name, int64_t otherwise) {
  return keel_attr_int(a->op, name, otherwise);
}

static uint32_t dim(attention *a, uint32_t value, int64_t index) {
  return keel_emit_dims(a->all, value, index, index + 1);
}

/* ---- heads -------------------------------------------------------------------------------- */

/* [batch, rows, heads * size] as [batch, heads, rows, size] */
static uint32_t attention_split(attention *a, uint32_t value, int64_t heads) {
  return keel_emit_text(a->all,
                        "x = %v; size = dims(x, 2, 3) / {%i};"
                        "x = Reshape(x, {dims(x, 0, 2), %i, size});"
                        "Transpose[perm=(0 2 1 3)](x)",
                        value, heads, heads);
}

static uint32_t after(attention *a, uint32_t past, uint32_t value) {
  const uint32_t parts[] = {past, value};
  return past == KEEL_ABSENT ? value : keel_emit_concat(a->all, 2, parts, 2);
}

/* With open dimensions the known types are unchecked, and may be wrong. */
static bool is_plausible(attention *a) {
  const keel_type *q = keel_emit_type(a->all, Q);
  uint32_t rank = q ? q->rank : a->flat ? 3 : 4;
  bool fits = rank == 3 || rank == 4;
  for (uint32_t i = K; i <= PAST_VALUE; i++) {
    const keel_type *type = i == MASK ? NULL : keel_emit_type(a->all, i);
    if (type) fits &= type->rank == (i >= PAST_KEY ? 4 : rank);
  }
  if (a->flat)
    fits &= attr(a, "q_num_heads", 0) > 0 && attr(a, "kv_num_heads", 0) > 0;
  if (!fits)
    a->all->status = keel_fail(
        KD_INVALID_ARGUMENT,
        "Attention \"%s\": Q, K and V must all have 4 dimensions, or 3 and the "
        "attributes"
        " q_num_heads and kv_num_heads, and past_key and past_value 4",
        a->all->node.name);
  return fits;
}

static void take_heads(attention *a) {
  int64_t heads = attr(a, "q_num_heads", 0),
          groups = attr(a, "kv_num_heads", 0);
  a->q = a->flat ? attention_split(a, a->in[Q], heads) : a->in[Q];
  a->k = a->flat ? attention_split(a, a->in[K], groups) : a->in[K];
  a->v = a->flat ? attention_split(a, a->in[V], groups) : a->in[V];
  a->k = after(a, a->in[PAST_KEY], a->k);
  a->v = after(a, a->in[PAST_VALUE], a->v);
  keel_emit_give(a->all, PRESENT_KEY, a->k);
  keel_emit_give(a->all, PRESENT_VALUE, a->v);
}

/* How many heads of Q read one of K and V; 0: not known. */
static int64_t times_known(const attention *a) {
  const keel_type *q = keel_emit_type(a->all, Q),
                  *k = keel_emit_type(a->all, K);
  int64_t heads = attr(a, "q_num_heads", 0),
          groups = attr(a, "kv_num_heads", 0);
  if (!a->flat) {
    if (!q || !k) return 0;
    heads = q->dims[1];
    groups = k->dims[1];
    if (heads < 0 || groups < 0) return 0;
  }
  return groups > 0 && heads % groups == 0 ? heads / groups : 1;
}

/* Each head `times` times, next to each other. */
static uint32_t repeated(attention *a, uint32_t value, uint32_t times) {
  return keel_emit_text(
      a->all,
      "x = %v; times = %v;"
      "wide = Expand(Unsqueeze(x, {2}), {1, 1, times, 1, 1});"
      "Reshape(wide, {dims(x, 0, 1), dims(x, 1, 2) * times, dims(x, 2, 4)})",
      value, times);
}

static void repeat_heads(attention *a) {
  int64_t known = times_known(a);
  if (known == 1) return;
  uint32_t times =
      keel_emit_text(a->all, "%b ? {%i} : dims(%v, 1, 2) / dims(%v, 1, 2)",
                     known != 0, known, a->q, a->k);
  a->k = repeated(a, a->k, times);
  a->v = repeated(a, a->v, times);
}

/* ---- what is added to the scores ---------------------------------------------------------- */

static uint32_t infinity(attention *a) {
  return keel_emit_number(a->all, -INFINITY, a->in[Q]);
}

static uint32_t like_q(attention *a, uint32_t value) {
  return keel_emit_binary(a->all, "CastLike", value, a->in[Q]);
}

/* True: 0, false: minus infinity. */
static uint32_t hiding(attention *a, uint32_t seen) {
  return keel_emit_where(a->all, seen, keel_emit_number(a->all, 0, a->in[Q]),
                         infinity(a));
}

/* The mask as numbers that are added. Where its type is not known, 0.5 as one of its elements
 * says at run time whether it is of truth values: they have 1 of that. */
static uint32_t mask_added(attention *a) {
  uint32_t mask = a->in[MASK];
  const keel_type *type = keel_emit_type(a->all, MASK);
  const keel_type *q = keel_emit_type(a->all, Q);
  if (type && type->dtype == KD_BOOL) return hiding(a, mask);
  if (type) return q && q->dtype == type->dtype ? mask : like_q(a, mask);
  return keel_emit_text(
      a->all,
      "mask = %v; numbers = Cast[to=1](0.5~mask) < Cast[to=1]({1});"
      "Where(numbers, CastLike(mask, $0),"
      "      Where(Cast[to=9](mask), 0~$0, %f~$0))",
      mask, -(double)INFINITY);
}

/* Whether the mask is known to reach the last key. */
static bool is_long_enough(const attention *a) {
  const keel_type *mask = keel_emit_type(a->all, MASK);
  const keel_type *k = keel_emit_type(a->all, K);
  const keel_type *past = keel_emit_type(a->all, PAST_KEY);
  if (!mask || !mask->rank || !k) return false;
  if (!past && a->in[PAST_KEY] != KEEL_ABSENT) return false;
  int64_t own = k->dims[a->flat ? 1 : 2], before = past ? past->dims[2] : 0;
  return own >= 0 && before >= 0 && mask->dims[mask->rank - 1] == own + before;
}

/* Keys past the mask's end are not seen. */
static uint32_t mask_padded(attention *a) {
  uint32_t mask = mask_added(a);
  if (is_long_enough(a)) return mask;
  return keel_emit_text(
      a->all, "Pad(%v, {0, dims(%v, 2, 3) - dims(%v, -1)}, %f~$0, {-1})", mask,
      a->k, a->in[MASK], -(double)INFINITY);
}

/* How many keys each sample has: [batch, 1, 1, 1]. */
static uint32_t keys_seen(attention *a) {
  return keel_emit_text(a->all, "Reshape(%v, {-1, 1, 1, 1})", a->in[SEEN]);
}

/* The place of each row among the keys: [rows, 1], or for each sample. */
static uint32_t attention_places(attention *a) {
  uint32_t rows =
      keel_emit_text(a->all, "Unsqueeze(range(dims(%v, 2, 3)), {1})", a->q);
  if (a->in[PAST_KEY] != KEEL_ABSENT)
    return keel_emit_text(a->all, "%v + dims(%v, 2, 3)", rows, a->in[PAST_KEY]);
  return a->in[SEEN] == KEEL_ABSENT
             ? rows
             : keel_emit_text(a->all, "%v + (%v - dims(%v, 2, 3))", rows,
                              keys_seen(a), a->q);
}

/* How far a window reaches; further than any tensor does is as good as that. */
static int64_t reach(const attention *a, const char *name) {
  const int64_t most = INT64_C(1) << 48;
  int64_t given = attr(a, name, -1);
  return given < most ? given : most;
}

/* Which keys a row sees by its place; KEEL_ABSENT: all. */
static uint32_t seen_by_place(attention *a) {
  int64_t left = reach(a, "left_window_size");
  int64_t right = reach(a, "right_window_size");
  bool causal = attr(a, "is_causal", 0) != 0;
  bool counted = a->in[SEEN] != KEEL_ABSENT;
  int64_t last = causal ? 0 : right;
  if (last < 0 && left < 0 && !counted) return KEEL_ABSENT;
  uint32_t keys = keel_emit_range(a->all, dim(a, a->k, 2));
  uint32_t seen = KEEL_ABSENT, at = KEEL_ABSENT;
  if (last >= 0 || left >= 0) at = attention_places(a);
  if (last >= 0)
    seen = keel_emit_text(a->all, "%v <= %v + {%i}", keys, at, last);
  if (left >= 0)
    seen = keel_emit_text(a->all,
                          "from = %v >= %v - {%i}; %b ? And(%v, from) : from",
                          keys, at, left, seen != KEEL_ABSENT, seen);
  if (counted)
    seen = keel_emit_text(a->all, "own = %v < %v; %b ? And(%v, own) : own",
                          keys, keys_seen(a), seen != KEEL_ABSENT, seen);
  return seen;
}

static void make_bias(attention *a) {
  uint32_t mask = a->in[MASK] == KEEL_ABSENT ? KEEL_ABSENT : mask_padded(a);
  uint32_t seen = seen_by_place(a);
  uint32_t placed = seen == KEEL_ABSENT ? KEEL_ABSENT : hiding(a, seen);
  a->bias = mask == KEEL_ABSENT ? placed
            : placed == KEEL_ABSENT
                ? mask
                : keel_emit_binary(a->all, "Add", mask, placed);
}

/* Finds the rows that see no key, and lets them see all. In causal order alone each row sees
 * the first key. */
static uint32_t without_dead(attention *a) {
  if (a->bias == KEEL_ABSENT ||
      (a->in[MASK] == KEEL_ABSENT && a->in[SEEN] == KEEL_ABSENT &&
       attr(a, "left_window_size", -1) < 0))
    return a->bias;
  return keel_emit_text(a->all,
                        "dead = ReduceMax(%v, {-1}) == %f~$0; %p = dead;"
                        "Where(dead, 0~$0, %v)",
                        a->bias, -(double)INFINITY, &a->dead, a->bias);
}

static uint32_t zero_where_dead(attention *a, uint32_t value) {
  return a->dead == KEEL_ABSENT
             ? value
             : keel_emit_text(a->all, "Where(%v, 0~$0, %v)", a->dead, value);
}

/* ---- scores ----------------------------------------------------------------------------- */

/* The square root of the scale; one over that of the head's size unless given. */
static uint32_t root_of_scale(attention *a) {
  const keel_type *q = keel_emit_type(a->all, Q);
  const keel_node_attr *given = keel_attr_find(a->op, "scale");
  if (given)
    return keel_emit_number(a->all, sqrt((double)given->value.f), a->in[Q]);
  if (q && q->dims[q->rank - 1] >= 0) {
    int64_t heads = a->flat ? attr(a, "q_num_heads", 1) : 1;
    int64_t size = q->dims[q->rank - 1] / heads;
    return keel_emit_number(a->all, sqrt(1 / sqrt((double)size)), a->in[Q]);
  }
  return keel_emit_text(
      a->all, "CastLike(Reciprocal(Sqrt(Sqrt(f32(dims(%v, 3, 4))))), $0)",
      a->q);
}

static uint32_t make_scores(attention *a) {
  int64_t mode = attr(a, "qk_matmul_output_mode", 0);
  return keel_emit_text(
      a->all,
      "root = %v; keys = Transpose[perm=(0 1 3 2)](%v) * root;"
      "scores = MatMul(%v * root, keys);"
      "%i = scores;"
      "scores = %b ? Tanh(scores / @softcap) * @softcap : scores;"
      "%i = scores; scores",
      root_of_scale(a), a->k, a->q, (int64_t)(mode ? NOWHERE : SCORES),
      keel_attr_float(a->op, "softcap", 0) > 0,
      (int64_t)(mode == 1 ? SCORES : NOWHERE));
}

static uint32_t softmax(attention *a, uint32_t scores) {
  static const int64_t types[] = {
      [KD_F32] = 1, [KD_F64] = 11, [KD_F16] = 10, [KD_BF16] = 16};
  const keel_type *q = keel_emit_type(a->all, Q);
  const keel_attr axis = KEEL_INT("axis", -1);
  int64_t precision = attr(a, "softmax_precision", 0);
  bool same =
      !precision || (q && q->dtype < (kd_dtype)(sizeof types / sizeof *types) &&
                     types[q->dtype] == precision);
  const keel_attr to = KEEL_INT("to", precision);
  if (!same) scores = keel_emit_op(a->all, "Cast", &to, 1, &scores, 1);
  uint32_t weights = keel_emit_op(a->all, "Softmax", &axis, 1, &scores, 1);
  return same ? weights : like_q(a, weights);
}

static void expand_attention(keel_emit *all) {
  attention a = {.all = all, .op = all->node.op, .dead = KEEL_ABSENT};
  for (uint32_t i = 0; i < INPUTS; i++)
    a.in[i] = keel_emit_in(all, i);
  const keel_type *q = keel_emit_type(all, Q), *v = keel_emit_type(all, V);
  a.flat = q ? q->rank == 3 : attr(&a, "q_num_heads", 0) != 0;
  if (!is_plausible(&a)) return;
  take_heads(&a);
  if (a.in[SEEN] != KEEL_ABSENT)
    a.in[SEEN] = keel_emit_within(all, a.in[SEEN], keel_emit_int(all, 0),
                                  dim(&a, a.k, 2), "nonpad_kv_seqlen");
  make_bias(&a);
  repeat_heads(&a);
  uint32_t scores = make_scores(&a), shown = scores;
  int64_t mode = attr(&a, "qk_matmul_output_mode", 0);
  if (mode == 2 && a.bias != KEEL_ABSENT && keel_emit_wants(all, SCORES))
    shown = keel_emit_binary(all, "Add", scores, a.bias);
  if (mode == 2) keel_emit_give(all, SCORES, shown);
  uint32_t bias = without_dead(&a);
  if (bias != KEEL_ABSENT) scores = keel_emit_binary(all, "Add", scores, bias);
  uint32_t weights = softmax(&a, scores);
  if (mode == 3 && keel_emit_wants(all, SCORES))
    keel_emit_give(all, SCORES, zero_where_dead(&a, weights));
  if (q && v && q->dtype != v->dtype) a.v = like_q(&a, a.v);
  uint32_t y = keel_emit_binary(all, "MatMul", weights, a.v);
  y = zero_where_dead(&a, y);
  keel_emit_text(
      all,
      "y = %v; t = %b ? Transpose[perm=(0 2 1 3)](y) : y;"
      "%0 = %b ? Reshape(t, {dims(t, 0, 2), dims(t, 2, 3) * dims(t, 3, 4)})"
      "        : y",
      y, a.flat, a.flat);
}

/* Of each query with each key, and of what that weighs the values by. Queries, keys and values
 * are [batch, heads, words, width]. */
static double attention_flops(const keel_flops_of *of) {
  const keel_type *q = of->in[0], *k = of->in[1], *v = of->in[2];
  if (q->rank != 4 || !keel_flops_known(k, 4) || k->rank != 4 ||
      !keel_flops_known(v, 4) || v->rank != 4)
    return 0;
  double pairs = (double)q->elements / (double)(q->dims[3] + !q->dims[3]) *
                 (double)k->dims[2];
  return 2 * pairs * (double)(q->dims[3] + v->dims[3]);
}

/* ---- rows ---- */

static const keel_op_rule rules[] = {
    {"Attention", .expand = expand_attention, .flops = attention_flops},
    {"keel::Attention", .flops = attention_flops},
};

const keel_op_table keel_ops_attention = {KEEL_TABLE_RULES(rules)};
