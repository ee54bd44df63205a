/* shapes_embeddings.c - shapes of com.microsoft's EmbedLayerNormalization and
 * GatherBlockQuantized (onnxruntime/docs/ContribOperators.md). */
#include "ops/shapes.h"

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

typedef struct table {
  uint32_t axis, blocked;
  int64_t parts, block; /* numbers of a byte */
  bool floats;
} table;

static keel_status read_table(const keel_infer *infer, table *t) {
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
static bool is_by_block(const keel_infer *infer, const table *t,
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
  table t = {0};
  KEEL_TRY(read_table(infer, &t));
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
