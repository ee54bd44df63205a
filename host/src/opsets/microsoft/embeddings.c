/* embeddings.c - com.microsoft's EmbedLayerNormalization and GatherBlockQuantized, written
 * with Gather. */
#include "opsets/microsoft/microsoft.h"
#include "opsets/terms.h"
#include "opsets/text.h"
#include "passes/passes.h"

/* ---- shapes ---- */

/* ---- EmbedLayerNormalization --------------------------------------------------------------- */

static bool is_ids(const keel_type *type, const keel_type *words) {
  return !type || (type->rank == 2 && type->dims[0] == words->dims[0] &&
                   type->dims[1] == words->dims[1]);
}

static bool is_table(const keel_type *type, int64_t size) {
  return !type || (type->rank == 2 && type->dims[1] == size);
}

/* The norm of the sum of the rows that words, their places and their segments have in tables. */
keel_status keel_shape_embed_layer_norm(keel_infer *infer) {
  const keel_type *words = infer->in[0], *table = infer->in[2];
  const keel_type *gamma = infer->in[5], *beta = infer->in[6];
  const keel_type *places = keel_infer_in(infer, 8);
  if (words->rank != 2 || table->rank != 2 ||
      !is_table(infer->in[3], table->dims[1]) ||
      !is_table(infer->in[4], table->dims[1]) || gamma->rank != 1 ||
      gamma->dims[0] != table->dims[1] || beta != gamma)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "input_ids must be [batch, rows], tables [words,"
                           " size], gamma and beta [size]");
  bool shared = places && places->rank == 2 && places->dims[0] == 1 &&
                places->dims[1] == words->dims[1];
  if (!is_ids(infer->in[1], words) || !is_ids(keel_infer_in(infer, 7), words) ||
      (!shared && !is_ids(places, words)) || (infer->in[1] && !infer->in[4]))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "segment_ids, which need a table, mask and"
                           " position_ids must be [%lld,%lld]",
                           (long long)words->dims[0],
                           (long long)words->dims[1]);
  const int64_t dims[] = {words->dims[0], words->dims[1], table->dims[1]};
  KEEL_TRY(keel_infer_out(infer, 1, 1, dims));
  KEEL_TRY(keel_infer_out(infer, 2, 3, dims));
  return keel_infer_out(infer, 0, 3, dims);
}

/* ---- GatherBlockQuantized ------------------------------------------------------------------ */

typedef struct table_sizes {
  uint32_t axis, blocked;
  int64_t parts, block; /* numbers of a byte */
  bool floats;
} table_sizes;

static keel_status read_table_sizes(const keel_infer *infer, table_sizes *t) {
  static const uint64_t floats = KD_TYPES(KD_F8E4M3FN) |
                                 KD_TYPES(KD_F8E4M3FNUZ) | KD_TYPES(KD_F8E5M2) |
                                 KD_TYPES(KD_F8E5M2FNUZ) | KD_TYPES(KD_F4E2M1);
  const keel_type *data = infer->in[0];
  int64_t bits = keel_attr_int(infer->op, "bits", 4);
  t->floats = (floats >> data->dtype & 1) != 0;
  t->block = keel_attr_int(infer->op, "block_size", 128);
  bool known = data->dtype == KD_U8 ? bits == 2 || bits == 4 || bits == 8
                                    : t->floats || bits == 4;
  if (!t->floats && data->dtype != KD_U8 && data->dtype != KD_U4 &&
      data->dtype != KD_I4)
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "data can be u8, i4, u4, a float of 8 bits or of 4");
  if (!known || (t->floats && keel_infer_in(infer, 3)))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "bits must be 2, 4 or 8 for u8, and 4 for i4 and u4;"
                           " zero_points are for integers");
  if ((t->block || !t->floats) &&
      (t->block < 16 || t->block > 1 << 20 || (t->block & (t->block - 1))))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "block_size must be a power of two from 16 to 1048576, not %lld",
        (long long)t->block);
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "gather_axis", 0),
                           data->rank, &t->axis));
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "quantize_axis", 1),
                           data->rank, &t->blocked));
  t->parts = data->dtype == KD_U8 ? 8 / bits : 1;
  if (data->dtype == KD_U8 &&
      (t->axis == t->blocked || t->blocked + 1 != data->rank))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "blocks of u8 are supported along the last axis, and"
                           " not along the one that is gathered along");
  return KD_OK;
}

/* Of data's dimensions, with blocks for elements of an axis; those of floats may be 1. */
static bool is_by_block(const keel_infer *infer, const table_sizes *t,
                        const keel_type *type, int64_t parts) {
  const keel_type *data = infer->in[0];
  bool fits = type->rank == data->rank;
  for (uint32_t i = 0; fits && i < data->rank; i++) {
    int64_t want = data->dims[i];
    if (i != t->blocked) {
      fits = type->dims[i] == want || (t->floats && type->dims[i] == 1);
      continue;
    }
    if (!keel_mul_i64(want, t->parts, &want)) return false;
    want = t->block ? want / t->block + (want % t->block != 0) : 1;
    want = want / parts + (want % parts != 0);
    fits = type->dims[i] == want;
  }
  return fits;
}

/* Rows of a table that is kept in few bits: (number - zero point) * scale, both of a block of its
 * numbers. */
keel_status keel_shape_gather_block_quantized(keel_infer *infer) {
  const keel_type *data = infer->in[0], *indices = infer->in[1];
  const keel_type *zeros = keel_infer_in(infer, 3);
  table_sizes t = {0};
  KEEL_TRY(read_table_sizes(infer, &t));
  if (!is_by_block(infer, &t, infer->in[2], 1) ||
      (zeros && !is_by_block(infer, &t, zeros, t.parts)))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "scales and zero_points must have data's dimensions,"
                           " with blocks of %lld for the numbers of axis %u",
                           (long long)t.block, (unsigned)t.blocked);
  keel_dims dims = {0};
  if (data->rank + indices->rank - 1 > KD_MAX_RANK)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "too many dimensions");
  for (uint32_t i = 0; i < t.axis; i++)
    dims.dims[dims.rank++] = data->dims[i];
  for (uint32_t i = 0; i < indices->rank; i++)
    dims.dims[dims.rank++] = indices->dims[i];
  for (uint32_t i = t.axis + 1; i < data->rank; i++)
    dims.dims[dims.rank++] = data->dims[i];
  if (dims.rank && t.parts > 1)
    KEEL_TRY(keel_infer_grow(infer, &dims.dims[dims.rank - 1], t.parts));
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- in simpler ops ---- */

static uint32_t gathered(keel_emit *all, uint32_t table, uint32_t indices,
                         int64_t axis) {
  return keel_emit_text(all, "Gather[axis=%i](%v, %v)", axis, table, indices);
}

/* ---- EmbedLayerNormalization --------------------------------------------------------------- */

/* Inputs: words, segments, tables of words, places and segments, gamma, beta, mask, places. Output 1
 * is how many of a row's words its mask counts; without a mask, 0. */
#define EMBED_LAYER_NORMALIZATION                                       \
  "sum = Gather($2, $0) + Gather($3, $8 ? $8 : range(dims($0, 1, 2)));" \
  "sum = $1 ? ($4 ? sum + Gather($4, $1) : sum) : sum;"                 \
  "%0 = LayerNormalization[epsilon=@epsilon](sum, $5, $6);"             \
  "%1 = $7 ? ReduceSum[keepdims=0](i32($7 == i32({1})), {1})"           \
  "        : Expand(i32({0}), dims($0, 0, 1));"                         \
  "%2 = sum"

/* ---- GatherBlockQuantized ------------------------------------------------------------------ */

typedef struct table {
  keel_emit *all;
  const keel_type *type, *scales;
  uint32_t indices;
  int64_t axis, blocked; /* that is gathered along, and that of the blocks */
  int64_t bits, block;   /* bits: of numbers in bytes; 8: each is one */
  int64_t more;          /* dimensions that gathering adds */
} table;

static int64_t embeddings_axis_of(const table *t, const char *name,
                                  int64_t otherwise) {
  int64_t axis = keel_attr_int(t->all->node.op, name, otherwise);
  return axis < 0 && t->type ? axis + t->type->rank : axis;
}

static bool read_table(table *t) {
  const keel_type *indices = keel_emit_type(t->all, 1);
  t->type = keel_emit_type(t->all, 0);
  t->scales = keel_emit_type(t->all, 2);
  t->indices = keel_emit_in(t->all, 1);
  t->axis = embeddings_axis_of(t, "gather_axis", 0);
  t->blocked = embeddings_axis_of(t, "quantize_axis", 1);
  t->block = keel_attr_int(t->all->node.op, "block_size", 128);
  t->bits = t->type && t->type->dtype == KD_U8
                ? keel_attr_int(t->all->node.op, "bits", 4)
                : 8;
  int64_t rank = t->type ? t->type->rank : 0;
  bool fits = indices && t->scales && t->scales->rank == rank && t->axis >= 0 &&
              t->axis < rank && t->blocked >= 0 && t->blocked < rank &&
              (t->bits == 2 || t->bits == 4 || t->bits == 8) && t->block >= 0 &&
              t->block <= 1 << 20 && rank + indices->rank <= KD_MAX_RANK &&
              (t->bits == 8 || t->axis != t->blocked);
  if (!fits)
    keel_emit_fail(t->all, KD_INVALID_ARGUMENT,
                   "data, indices and scales must be of ranks that are"
                   " known, with axes that they have, a block_size of at"
                   " most 1048576 and bits of 2, 4 or 8");
  t->more = fits ? (int64_t)indices->rank - 1 : 0;
  return fits;
}

/* Bytes of numbers that have fewer bits, as so many bytes along the last axis. */
static uint32_t each_a_byte(table *t, uint32_t bytes) {
  int64_t dims[KD_MAX_RANK] = {0};
  int64_t rank = (int64_t)t->type->rank + t->more;
  if (t->bits == 8) return bytes;
  dims[rank - 1] = -1;
  return keel_emit_reshape(t->all, keel_emit_unpacked(t->all, bytes, t->bits),
                           dims, rank);
}

/* Indices into scales: of blocks, where these are along the axis that is gathered along, and 0
 * where one scale is for all. */
static uint32_t scale_indices(table *t, uint32_t data) {
  if (t->blocked != t->axis)
    return t->scales->dims[t->axis] == 1
               ? keel_emit_text(t->all, "%v * CastLike({0}, $1)", t->indices)
               : t->indices;
  return keel_emit_text(
      t->all,
      "i = i64(%v); i = Where(i < {0}, i + dims(%v, %i, %i), i);"
      "%b ? i / {%i} : i * {0}",
      t->indices, data, t->axis, t->axis + 1, t->block != 0, t->block);
}

/* Numbers of a type that Gather takes and that has all of them. */
static uint32_t readable(table *t, uint32_t value) {
  kd_dtype dtype = t->type->dtype;
  return keel_emit_cast(t->all, value,
                        dtype == KD_U8   ? KD_U8
                        : dtype == KD_U4 ? KD_U8
                        : dtype == KD_I4 ? KD_I8
                                         : KD_F16);
}

/* As many as the scales; KEEL_ABSENT: zero. */
static uint32_t zeros_of(table *t, uint32_t scales, uint32_t indices) {
  uint32_t zeros = keel_emit_in(t->all, 3);
  if (zeros == KEEL_ABSENT && t->type->dtype != KD_U8) return KEEL_ABSENT;
  if (zeros == KEEL_ABSENT)
    return keel_emit_text(t->all, "Expand(u8({%i}), dims(%v))",
                          INT64_C(1) << (t->bits - 1), scales);
  zeros = gathered(t->all, readable(t, zeros), indices, t->axis);
  if (t->bits == 8) return zeros;
  return keel_emit_text(t->all, "Slice(%v, {0}, dims(%v, -1), {-1})",
                        each_a_byte(t, zeros), scales);
}

/* One scale for each number along axis `at`. */
static uint32_t repeated(table *t, uint32_t scales, uint32_t like, int64_t at) {
  if (t->blocked == t->axis || !t->block) return scales;
  return keel_emit_text(t->all,
                        "Gather[axis=%i](%v, range(dims(%v, %i, %i)) / {%i})",
                        at, scales, like, at, at + 1, t->block);
}

static void expand_gather_block_quantized(keel_emit *all) {
  table t = {.all = all};
  if (!read_table(&t)) return;
  int64_t at = t.blocked < t.axis ? t.blocked : t.blocked + t.more;
  uint32_t x = readable(&t, keel_emit_in(all, 0));
  uint32_t by_block = scale_indices(&t, x);
  x = each_a_byte(&t, gathered(all, x, t.indices, t.axis));
  uint32_t scales = gathered(all, keel_emit_in(all, 2), by_block, t.axis);
  uint32_t zeros = zeros_of(&t, scales, by_block);
  kd_dtype dtype = t.type->dtype;
  bool whole = dtype == KD_U8 || dtype == KD_U4 || dtype == KD_I4;
  if (whole && t.blocked != t.axis)
    keel_emit_text(all,
                   "%0 = DequantizeLinear[axis=%i, block_size=%i](%v, %v, %v)",
                   at, t.block, x, scales, zeros);
  else
    keel_emit_text(all,
                   "scales = %v; y = CastLike(%v, scales);"
                   "%0 = (%b ? y - CastLike(%v, scales) : y) * %v",
                   scales, x, zeros != KEEL_ABSENT, zeros,
                   repeated(&t, scales, x, at));
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    MICROSOFT("EmbedLayerNormalization", "i32",
              "input_ids:T segment_ids:T? word_embedding:W=f32_or_half"
              " position_embedding:W segment_embedding:W? gamma:W beta:W"
              " mask:T? position_ids:T? -> output:W mask_index:T"
              " embedding_sum:W",
              "epsilon:f=1e-12 mask_index_type:i", embed_layer_norm),
    MICROSOFT("GatherBlockQuantized", "order_or_small",
              "data:T indices:index scales:S=f32_or_half zero_points:T? ->"
              " output:S",
              "bits:i=4 block_size:i=128 gather_axis:i=0 quantize_axis:i=1",
              gather_block_quantized),
};

static const keel_op_rule rules[] = {
    {"com.microsoft::EmbedLayerNormalization",
     .body = EMBED_LAYER_NORMALIZATION},
    {"com.microsoft::GatherBlockQuantized",
     .expand = expand_gather_block_quantized, .traits = KEEL_OP_PICKS},
};

const keel_op_table keel_ops_microsoft_embeddings = {KEEL_TABLE_ROWS(rows),
                                                     KEEL_TABLE_RULES(rules)};
