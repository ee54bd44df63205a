/* language.c - rules of the ops of language models: attention by batch or by heads, and products by
 * weights in few bits. */
#include "ranks/split/split.h"

#include <kd/help.h>

/* ---- norms ------------------------------------------------------------------------------- */

/* Along the last axis, of the sum of X and others of its shape. */
keel_status keel_split_skip_norm(keel_splitter *s, bool *out_done) {
  const keel_type *type = keel_split_type(s, 0);
  uint32_t axis = 0;
  if (!type || !keel_split_is_part(s, 0, &axis) || axis + 1 >= type->rank)
    return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++) {
    const keel_type *other = keel_split_type(s, i);
    if (!keel_split_has(s, i)) continue;
    if (!other || (other->rank > 1 && other != type)) return KD_OK;
  }
  for (uint32_t i = 1; i < s->node.input_count; i++)
    KEEL_TRY(keel_split_type(s, i) == type ? keel_split_take_part(s, i, axis)
                                           : keel_split_take_whole(s, i));
  for (uint32_t i = 0; i < s->node.output_count; i++)
    KEEL_TRY(keel_split_give(s, i, KEEL_SHARE_PART, axis));
  *out_done = true;
  return KD_OK;
}

/* ---- attention --------------------------------------------------------------------------- */

/* An input whose axis of the batch or of the heads may be 1: for all of them. */
static keel_status take_along(keel_splitter *s, uint32_t input, uint32_t axis) {
  const keel_type *type = keel_split_type(s, input);
  if (!keel_split_has(s, input)) return KD_OK;
  return type && axis < type->rank && type->dims[axis] != 1
             ? keel_split_take_part(s, input, axis)
             : keel_split_take_whole(s, input);
}

/* Whether the heads of queries and of keys can be shared. */
static bool shares_heads(const keel_splitter *s, const char *queries,
                         const char *keys) {
  return keel_split_divides(s, keel_attr_int(s->node.op, queries, 0)) &&
         keel_split_divides(s, keel_attr_int(s->node.op, keys, 0));
}

static keel_status set_heads(keel_splitter *s, const char *name) {
  return keel_split_set_int(
      s, name, keel_attr_int(s->node.op, name, 0) / s->params->size);
}

/* The output along an axis; the cache along another one. */
static keel_status give_attention(keel_splitter *s, uint32_t axis,
                                  uint32_t kept, bool *out_done) {
  for (uint32_t i = 0; i < s->node.output_count; i++)
    KEEL_TRY(keel_split_give(s, i, KEEL_SHARE_PART, i ? kept : axis));
  *out_done = true;
  return KD_OK;
}

/* com.microsoft's GroupQueryAttention: heads are along the last axis, and of the cache along its
 * second. */
keel_status keel_split_grouped(keel_splitter *s, bool *out_done) {
  const keel_type *query = keel_split_type(s, 0);
  uint32_t axis = 0;
  if (!query || query->rank != 3 || !keel_split_is_part(s, 0, &axis) ||
      (axis && axis != 2) || keel_split_has(s, 10) || keel_split_has(s, 11))
    return KD_OK;
  bool heads = axis == 2;
  if (heads && (!keel_split_has(s, 1) || !keel_split_has(s, 2) ||
                !shares_heads(s, "num_heads", "kv_num_heads")))
    return KD_OK;
  for (uint32_t i = 1; i < 5; i++)
    KEEL_TRY(take_along(s, i, heads ? (i < 3 ? 2 : 1) : 0));
  for (uint32_t i = 5; i < s->node.input_count; i++)
    KEEL_TRY(!heads && (i == 5 || i == 9) ? take_along(s, i, 0)
                                          : keel_split_take_whole(s, i));
  if (heads) KEEL_TRY(set_heads(s, "num_heads"));
  if (heads) KEEL_TRY(set_heads(s, "kv_num_heads"));
  return give_attention(s, axis, heads ? 1 : 0, out_done);
}

/* com.microsoft's MultiHeadAttention, with queries, keys and values apart. */
keel_status keel_split_multi_head(keel_splitter *s, bool *out_done) {
  const keel_type *query = keel_split_type(s, 0);
  uint32_t axis = 0;
  if (!query || query->rank != 3 || !keel_split_is_part(s, 0, &axis) ||
      (axis && axis != 2) || s->node.output_count > 3)
    return KD_OK;
  bool heads = axis == 2;
  for (uint32_t i = 1; i < s->node.input_count; i++) {
    const keel_type *type = keel_split_type(s, i);
    bool cache = i == 6 || i == 7;
    if (!keel_split_has(s, i)) continue;
    if (!type || (i < 3 && type->rank != 3) || (cache && type->rank != 4) ||
        (i > 2 && !cache && (heads || i > 5)))
      return KD_OK; /* biases of all heads in one, and the like */
    if (i == 4 && (!query || !type->rank || type->dims[0] != query->dims[0]))
      return KD_OK; /* the keys' ends and starts, which are one behind the other */
  }
  if (heads && (!keel_split_has(s, 1) || !keel_split_has(s, 2) ||
                !shares_heads(s, "num_heads", "num_heads")))
    return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++) {
    bool shared = i == 3; /* the biases */
    KEEL_TRY(shared ? keel_split_take_whole(s, i)
                    : take_along(s, i, heads ? (i < 3 ? 2 : 1) : 0));
  }
  if (heads) KEEL_TRY(set_heads(s, "num_heads"));
  return give_attention(s, axis, heads ? 1 : 0, out_done);
}

/* ONNX's Attention: of four dimensions, batch and heads come first; of three, heads are along the
 * last one. The mask's dimensions are the last of [batch, heads, queries, keys]. */
keel_status keel_split_attention(keel_splitter *s, bool *out_done) {
  const keel_type *query = keel_split_type(s, 0);
  uint32_t axis = 0;
  if (!query || !keel_split_is_part(s, 0, &axis) || query->rank < 3 ||
      query->rank > 4 || s->node.output_count > 3 || keel_split_has(s, 6))
    return KD_OK;
  bool flat = query->rank == 3, heads = axis == (flat ? 2u : 1u);
  if (axis && !heads) return KD_OK;
  const keel_type *keys = keel_split_type(s, 1), *mask = keel_split_type(s, 3);
  if (!keys || (keel_split_has(s, 3) && !mask)) return KD_OK;
  if (heads && (flat ? !shares_heads(s, "q_num_heads", "kv_num_heads")
                     : !keel_split_divides(s, keys->dims[1])))
    return KD_OK;
  uint32_t place = heads ? 1 : 0; /* of batch, heads, queries, keys */
  for (uint32_t i = 1; i < s->node.input_count; i++) {
    if (i == 3 && mask && mask->rank + place >= 4)
      KEEL_TRY(take_along(s, i, place + mask->rank - 4));
    else if (i == 3)
      KEEL_TRY(keel_split_take_whole(s, i));
    else
      KEEL_TRY(take_along(s, i, i < 3 ? axis : place));
  }
  if (heads && flat) KEEL_TRY(set_heads(s, "q_num_heads"));
  if (heads && flat) KEEL_TRY(set_heads(s, "kv_num_heads"));
  return give_attention(s, axis, place, out_done);
}

/* ---- attention with its projections ----------------------------------------------------------- */

/* Where com.microsoft's Attention and QAttention have their inputs; 0: nowhere. */
typedef struct projected {
  uint32_t mask, past, scores; /* the addend of scores */
  uint32_t per_column;         /* bits: those of the weights' columns */
} projected;

/* Each is one number, or a constant list that has the weights' columns. */
static bool has_columns(const keel_splitter *s, const projected *p,
                        int64_t columns) {
  for (uint32_t i = 1; i < s->node.input_count; i++) {
    const keel_tensor *list = keel_split_constant(s, i);
    if (!(p->per_column >> i & 1) || !keel_split_has(s, i)) continue;
    if (!list || (list->type->elements != 1 &&
                  (!list->type->rank ||
                   list->type->dims[list->type->rank - 1] != columns)))
      return false;
  }
  return true;
}

static keel_status take_projection(keel_splitter *s, uint32_t input) {
  const keel_type *type = keel_split_type(s, input);
  return !type || type->elements == 1
             ? keel_split_take_whole(s, input)
             : keel_split_take_part_of_each(s, input, type->rank - 1, 3);
}

/* Columns of a rank's heads, of queries, of keys and of values. */
static keel_status project_heads(keel_splitter *s, const projected *p,
                                 bool *out_done) {
  const keel_tensor *weights = keel_split_constant(s, 1);
  const int64_t *sizes = NULL;
  int64_t columns =
      weights && weights->type->rank == 2 ? weights->type->dims[1] : 0;
  if (!columns || columns % 3 || !shares_heads(s, "num_heads", "num_heads") ||
      keel_attr_ints(s->node.op, "qkv_hidden_sizes", &sizes) > 0 ||
      !has_columns(s, p, columns))
    return KD_OK;
  for (uint32_t i = 0; i < s->node.input_count; i++) {
    if (p->per_column >> i & 1)
      KEEL_TRY(take_projection(s, i));
    else if (i && i == p->past)
      KEEL_TRY(keel_split_take_part(s, i, 2));
    else if (i && i == p->scores)
      KEEL_TRY(take_along(s, i, 1));
    else
      KEEL_TRY(keel_split_take_whole(s, i));
  }
  KEEL_TRY(set_heads(s, "num_heads"));
  return give_attention(s, 2, 2, out_done);
}

static keel_status project_batch(keel_splitter *s, const projected *p,
                                 bool *out_done) {
  const keel_type *x = keel_split_type(s, 0);
  const keel_type *mask = p->mask ? keel_split_type(s, p->mask) : NULL;
  /* lists of the keys' ends and starts are one behind the other */
  if (keel_split_has(s, p->mask) &&
      (!mask || !mask->rank || mask->dims[0] != x->dims[0]))
    return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++) {
    if (i == p->mask || i == p->scores)
      KEEL_TRY(take_along(s, i, 0));
    else if (i == p->past)
      KEEL_TRY(keel_split_take_part(s, i, 1));
    else
      KEEL_TRY(keel_split_take_whole(s, i));
  }
  return give_attention(s, 0, 1, out_done);
}

static keel_status project(keel_splitter *s, const projected *p,
                           bool *out_done) {
  const keel_type *x = keel_split_type(s, 0);
  uint32_t axis = 0;
  if (!x || x->rank != 3 || s->node.output_count > 2) return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++)
    if (keel_split_has(s, i) && !keel_split_type(s, i)) return KD_OK;
  bool split = keel_split_is_part(s, 0, &axis);
  if (split && !axis) return project_batch(s, p, out_done);
  return s->params->kind == KEEL_SPLIT_TENSOR ? project_heads(s, p, out_done)
                                              : KD_OK;
}

keel_status keel_split_projected(keel_splitter *s, bool *out_done) {
  static const projected here = {
      .mask = 3, .past = 4, .scores = 5, .per_column = 1 << 1 | 1 << 2};
  return project(s, &here, out_done);
}

keel_status keel_split_quantised_projected(keel_splitter *s, bool *out_done) {
  static const projected here = {
      .mask = 5, .past = 8, .per_column = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 7};
  return project(s, &here, out_done);
}

/* ---- positions ------------------------------------------------------------------------------- */

/* Rows of a rank's batch, or its heads: the second of four dimensions, or whole ones in the last of
 * three. caches: of cosines; those of sines are behind it. */
static keel_status turn_positions(keel_splitter *s, uint32_t caches,
                                  uint32_t positions, bool *out_done) {
  const keel_type *x = keel_split_type(s, 0);
  const keel_type *cache = keel_split_type(s, caches);
  uint32_t axis = 0;
  if (!x || !cache || !cache->rank || !keel_split_is_part(s, 0, &axis) ||
      x->rank < 3 || x->rank > 4 ||
      (keel_split_has(s, positions) && !keel_split_type(s, positions)))
    return KD_OK;
  if (axis && axis != (x->rank == 4 ? 1 : 2)) return KD_OK;
  int64_t heads = keel_attr_int(s->node.op, "num_heads", 0);
  bool flat = axis == 2, counted = flat && heads > 0;
  int64_t size = 2 * cache->dims[cache->rank - 1];
  if ((counted && !keel_split_divides(s, heads)) ||
      (flat && !counted &&
       (!size || x->dims[2] % size ||
        !keel_split_divides(s, x->dims[2] / size))))
    return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++) {
    const keel_type *type = keel_split_type(s, i);
    bool of_batch =
        i == positions ? type && type->rank == 2 : type && type->rank == 3;
    KEEL_TRY(!axis && of_batch ? take_along(s, i, 0)
                               : keel_split_take_whole(s, i));
  }
  if (counted) KEEL_TRY(set_heads(s, "num_heads"));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

keel_status keel_split_rotary(keel_splitter *s, bool *out_done) {
  return turn_positions(s, 1, 3, out_done);
}

/* com.microsoft's. */
keel_status keel_split_microsoft_rotary(keel_splitter *s, bool *out_done) {
  return keel_attr_int(s->node.op, "is_packed_batching", 0)
             ? KD_OK
             : turn_positions(s, 2, 1, out_done);
}

/* ---- products by weights in few bits -------------------------------------------------------- */

/* com.microsoft's MatMulNBits: B has rows of columns, each in blocks that have a scale. */

static bool can_take(const keel_splitter *s, uint32_t input, uint32_t axis) {
  const keel_tensor *weight = keel_split_constant(s, input);
  return !keel_split_has(s, input) ||
         (weight && axis < weight->type->rank &&
          keel_split_divides(s, weight->type->dims[axis]));
}

static keel_status by_columns(keel_splitter *s, bool *out_done) {
  int64_t columns = keel_attr_int(s->node.op, "N", 0);
  if (!keel_split_divides(s, columns)) return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++)
    if (i != 4 && !can_take(s, i, 0)) return KD_OK;
  KEEL_TRY(keel_split_take_whole(s, 0));
  for (uint32_t i = 1; i < s->node.input_count; i++)
    KEEL_TRY(i == 4 ? keel_split_take_whole(s, i)
                    : keel_split_take_part(s, i, 0));
  KEEL_TRY(keel_split_set_int(s, "N", columns / s->params->size));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART,
                         keel_split_out_type(s, 0)->rank - 1);
}

/* Whole blocks for each rank, whose zero points are whole bytes. */
static keel_status by_rows(keel_splitter *s, bool *out_done) {
  const keel_opdef *op = s->node.op;
  int64_t rows = keel_attr_int(op, "K", 0);
  int64_t block = keel_attr_int(op, "block_size", 0);
  int64_t bits = keel_attr_int(op, "bits", 4), size = s->params->size;
  if (block <= 0 || rows % (block * size) || keel_split_has(s, 4) ||
      !can_take(s, 1, 1) || !can_take(s, 2, 1))
    return KD_OK;
  const keel_tensor *zeros = keel_split_constant(s, 3);
  bool bytes = zeros && zeros->type->dtype == KD_U8;
  if (keel_split_has(s, 3) &&
      (!can_take(s, 3, 1) || (bytes && rows / block / size * bits % 8)))
    return KD_OK;
  for (uint32_t i = 1; i < 4; i++)
    KEEL_TRY(keel_split_take_part(s, i, 1));
  KEEL_TRY(keel_split_take_once(s, 5));
  KEEL_TRY(keel_split_set_int(s, "K", rows / size));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_SUM, 0);
}

keel_status keel_split_few_bits(keel_splitter *s, bool *out_done) {
  const keel_type *a = keel_split_type(s, 0);
  uint32_t axis = 0;
  if (!a || !a->rank || !keel_split_out_type(s, 0) ||
      !keel_split_constant(s, 1))
    return KD_OK;
  bool split = keel_split_is_part(s, 0, &axis);
  if (split && axis + 1 < a->rank) {
    for (uint32_t i = 1; i < s->node.input_count; i++)
      KEEL_TRY(keel_split_take_whole(s, i));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
  }
  if (split) return by_rows(s, out_done);
  return s->params->kind == KEEL_SPLIT_TENSOR ? by_columns(s, out_done) : KD_OK;
}
