/* microsoft.c - ops of ONNX Runtime's optimiser, written with ONNX's ops
 * (onnxruntime/docs/ContribOperators.md has the semantics). */
#include "opsets/microsoft/microsoft.h"
#include "opsets/onnx/passes.h"
#include "opsets/terms.h"
#include "opsets/text.h"

/* ---- shapes ---- */

static keel_status check_blocks(const keel_infer *infer, int64_t n, int64_t k,
                                int64_t bits, int64_t block) {
  bool known = bits == 2 || bits == 4 || bits == 8;
  if (!known)
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "weights of %lld bits: there are 2, 4 and 8",
                           (long long)bits);
  if (block < 16 || block > 1 << 20 || (block & (block - 1)))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "block_size must be a power of two from 16 to 1048576, not %lld",
        (long long)block);
  if (n < 1 || k < 1 || !keel_is_plausible(n) || !keel_is_plausible(k))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "N and K must be 1 or more, not %lld and %lld",
                           (long long)n, (long long)k);
  return KD_OK;
}

/* A tensor for each block of each column; older models have it flat. */
static bool is_by_block(const keel_type *type, int64_t n, int64_t blocks) {
  return !type || (type->rank == 1 && type->dims[0] == n * blocks) ||
         (type->rank == 2 && type->dims[0] == n && type->dims[1] == blocks);
}

/* Packed as B is, or a number of A's type for each block. */
static bool has_zeros(const keel_infer *infer, int64_t n, int64_t blocks,
                      int64_t bits) {
  const keel_type *zeros = keel_infer_in(infer, 3);
  if (zeros && zeros->dtype != KD_U8)
    return zeros->dtype == infer->in[0]->dtype && is_by_block(zeros, n, blocks);
  return is_by_block(zeros, n, (blocks * bits + 7) / 8);
}

/* Y = A B', where row n of B is (number - zero point) * scale, both of a block of its numbers.
 * zero_points: half of what there is unless given. */
keel_status keel_shape_matmul_nbits(keel_infer *infer) {
  const keel_type *a = infer->in[0], *b = infer->in[1];
  const keel_type *bias = keel_infer_in(infer, 5);
  int64_t n = keel_attr_int(infer->op, "N", 0);
  int64_t k = keel_attr_int(infer->op, "K", 0);
  int64_t bits = keel_attr_int(infer->op, "bits", 4);
  int64_t block = keel_attr_int(infer->op, "block_size", 0);
  KEEL_TRY(check_blocks(infer, n, k, bits, block));
  if (keel_attr_int(infer->op, "weight_prepacked", 0))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "weights that are packed for one GPU: export the"
                           " model with weight_prepacked 0");
  if (keel_infer_in(infer, 4))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "g_idx is not supported: export the model without"
                           " reordered groups");
  int64_t blocks = (k + block - 1) / block;
  if (b->rank != 3 || b->dims[0] != n || b->dims[1] != blocks ||
      b->dims[2] != block * bits / 8)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "B must be [%lld,%lld,%lld]: N, blocks of K and"
                           " bytes of a block",
                           (long long)n, (long long)blocks,
                           (long long)(block * bits / 8));
  if (!is_by_block(infer->in[2], n, blocks) ||
      !has_zeros(infer, n, blocks, bits))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "scales and zero_points must have one number for"
                           " each of %lld blocks of %lld columns",
                           (long long)blocks, (long long)n);
  if (bias && (bias->rank != 1 || bias->dims[0] != n))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "bias must be [%lld]",
                           (long long)n);
  keel_dims dims = keel_dims_of(a);
  if (!dims.rank || dims.dims[dims.rank - 1] != k)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the last dimension of A must be K, %lld",
                           (long long)k);
  dims.dims[dims.rank - 1] = n;
  return keel_infer_dims(infer, 0, &dims);
}

/* The statistics, one for each row. */
static keel_status give_rows(keel_infer *infer, uint32_t from, uint32_t to) {
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (dims.rank) dims.dims[dims.rank - 1] = 1;
  for (uint32_t i = from; i <= to; i++) {
    infer->dtypes[i] = KD_F32;
    KEEL_TRY(keel_infer_dims(infer, i, &dims));
  }
  return KD_OK;
}

/* Other operands are broadcast to the first: they do not widen it. */
static keel_status check_operands(const keel_infer *infer) {
  const keel_dims own = keel_dims_of(infer->in[0]);
  for (uint32_t i = 1; i < infer->input_count; i++) {
    keel_dims with = own;
    const keel_type *type = infer->in[i];
    if (!type) continue;
    bool fits = keel_dims_broadcast(&with, type->rank, type->dims) &&
                with.rank == own.rank;
    for (uint32_t d = 0; fits && d < own.rank; d++)
      fits = with.dims[d] == own.dims[d];
    if (!fits)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "input %u does not broadcast to input 0",
                             (unsigned)i);
  }
  return KD_OK;
}

keel_status keel_shape_first(keel_infer *infer) {
  const keel_dims dims = keel_dims_of(infer->in[0]);
  KEEL_TRY(check_operands(infer));
  return keel_infer_dims(infer, 0, &dims);
}

/* The norm of input + skip + bias, and that sum. */
keel_status keel_shape_skip_norm(keel_infer *infer) {
  const keel_dims dims = keel_dims_of(infer->in[0]);
  KEEL_TRY(check_operands(infer));
  KEEL_TRY(give_rows(infer, 1, 2));
  KEEL_TRY(keel_infer_dims(infer, 3, &dims));
  return keel_infer_dims(infer, 0, &dims);
}

/* RMSNormalization, as it was called before ONNX had it. */
keel_status keel_shape_norm_alone(keel_infer *infer) {
  const keel_dims dims = keel_dims_of(infer->in[0]);
  KEEL_TRY(give_rows(infer, 1, 1));
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- in simpler ops ---- */

/* ---- MatMulNBits ---------------------------------------------------------------------- */

typedef struct blocks {
  int64_t n, k, bits, size, count;
} blocks;

/* The zero point of each block, [N, blocks, 1]. */
static uint32_t zeros_of(keel_emit *all, const blocks *b, uint32_t like) {
  uint32_t zeros = keel_emit_in(all, 3);
  const keel_type *type = keel_emit_type(all, 3);
  if (zeros == KEEL_ABSENT)
    return keel_emit_number(all, 1 << (b->bits - 1), like);
  if (!type) {
    all->status = keel_fail(KD_UNIMPLEMENTED,
                            "MatMulNBits \"%s\": zero_points of a type that is"
                            " known in a run only",
                            all->node.name);
    return KEEL_ABSENT;
  }
  if (type->dtype == KD_U8) {
    zeros = keel_emit_text(all, "Reshape($3, {%i, -1})", b->n);
    zeros = keel_emit_unpacked(all, zeros, b->bits);
    zeros = keel_emit_text(
        all, "CastLike(Slice(Reshape(%v, {%i, -1}), {0}, {%i}, {1}), %v)",
        zeros, b->n, b->count, like);
  }
  return keel_emit_text(all, "Reshape(%v, {%i, %i, 1})", zeros, b->n, b->count);
}

static void expand_matmul_nbits(keel_emit *all) {
  const keel_opdef *op = all->node.op;
  blocks b = {.n = keel_attr_int(op, "N", 0),
              .k = keel_attr_int(op, "K", 0),
              .bits = keel_attr_int(op, "bits", 4),
              .size = keel_attr_int(op, "block_size", 0)};
  bool known = b.bits == 2 || b.bits == 4 || b.bits == 8;
  if (!known || b.size < 16 || b.size > 1 << 20 || b.n < 1 || b.k < 1 ||
      b.k > INT64_MAX - b.size || keel_emit_in(all, 4) != KEEL_ABSENT ||
      keel_attr_int(op, "weight_prepacked", 0)) {
    all->status =
        keel_fail(KD_UNIMPLEMENTED,
                  "MatMulNBits \"%s\" is supported for 2, 4 and 8 bits, K and "
                  "N from 1 on,"
                  " a block_size from 16 on, no g_idx and no weight_prepacked",
                  all->node.name);
    return;
  }
  b.count = (b.k + b.size - 1) / b.size;
  uint32_t w = keel_emit_unpacked(all, keel_emit_in(all, 1), b.bits);
  uint32_t zeros = zeros_of(all, &b, keel_emit_in(all, 0));
  keel_emit_text(
      all,
      "w = CastLike(Reshape(%v, {%i, %i, %i}), $0) - %v;"
      "w = w * Reshape($2, {%i, %i, 1});"
      "w = Slice(Reshape(w, {%i, -1}), {0}, {%i}, {1});"
      "y = MatMul($0, Transpose[perm=(1 0)](w)); %0 = $5 ? y + $5 : y",
      w, b.n, b.count, b.size, zeros, b.n, b.count, b.n, b.k);
}

/* ---- normalisation ----------------------------------------------------------------------- */

/* Mean and 1 / sqrt(variance + epsilon) of a row of x, as training wants them. */
#define MEAN(x) "ReduceMean(f32(" x "), {-1})"
#define INVERSE(x) \
  "Reciprocal(Sqrt(ReduceMean(" x " * " x ", {-1}) + @epsilon))"

#define SKIP_STATISTICS \
  "%1 = " MEAN("sum") ";"                   \
  "c = %2 ? f32(sum) - " MEAN("sum") " : _;" \
  "%2 = " INVERSE("c")
#define SKIP_NORM                                                \
  "sum = $4 ? $0 + $1 + $4 : $0 + $1; %3 = sum;"                 \
  "%0 = LayerNormalization[epsilon=@epsilon, axis=-1](sum, $2, " \
  "$3);" SKIP_STATISTICS
#define SKIP_SIMPLIFIED_NORM                     \
  "sum = $3 ? $0 + $1 + $3 : $0 + $1; %3 = sum;" \
  "%0 = RMSNormalization[epsilon=@epsilon, axis=-1](sum, $2);" SKIP_STATISTICS

static void expand_simplified_norm(keel_emit *all) {
  keel_emit_text(all,
                 "%0 = RMSNormalization[epsilon=@epsilon, axis=@axis]($0, $1)");
  if (keel_attr_int(all->node.op, "axis", -1) == -1)
    keel_emit_text(all, "x = %1 ? f32($0) : _; %1 = " INVERSE("x"));
  else if (keel_emit_wants(all, 1))
    all->status = keel_fail(
        KD_UNIMPLEMENTED,
        "SimplifiedLayerNormalization \"%s\": its output of deviations is"
        " supported along the last axis only",
        all->node.name);
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------ */

/* Each row's place; where only the first one's is given, those that follow it. */
static uint32_t microsoft_places_of(keel_emit *all, uint32_t x,
                                    int64_t rows_axis) {
  const keel_type *type = keel_emit_type(all, 1);
  uint32_t places = keel_emit_in(all, 1);
  if (!type || type->rank == 2) return places;
  return keel_emit_text(all,
                        "x = %v; rows = dims(x, %i, %i);"
                        "Expand(range(rows) + $1, {dims(x, 0, 1), rows})",
                        x, rows_axis, rows_axis + 1);
}

/* Of three dimensions without num_heads: as many heads as turn whole. */
static void turn_whole(keel_emit *all, int64_t size) {
  keel_emit_text(all,
                 "x = Transpose[perm=(0 2 1 3)](Reshape($0, {0, 0, -1, %i}));"
                 "y = RotaryEmbedding[interleaved=@interleaved](x, $2, $3, %v);"
                 "%0 = Reshape(Transpose[perm=(0 2 1 3)](y), {0, 0, -1})",
                 size, microsoft_places_of(all, keel_emit_in(all, 0), 1));
}

static void expand_microsoft_rotary(keel_emit *all) {
  const keel_opdef *op = all->node.op;
  const keel_type *type = keel_emit_type(all, 0);
  const keel_type *cache = keel_emit_type(all, 2);
  int64_t heads = keel_attr_int(op, "num_heads", 0);
  if (keel_attr_int(op, "is_packed_batching", 0) ||
      keel_attr_float(op, "scale", 1) != 1) {
    all->status = keel_fail(KD_UNIMPLEMENTED,
                            "RotaryEmbedding \"%s\": packed batches and a scale"
                            " other than 1 are not supported",
                            all->node.name);
    return;
  }
  if (type && type->rank == 3 && !heads && cache && cache->rank == 2 &&
      cache->dims[1] > 0 && cache->dims[1] < INT64_MAX / 2) {
    turn_whole(all, 2 * cache->dims[1]);
    return;
  }
  uint32_t places = microsoft_places_of(all, keel_emit_in(all, 0),
                                        type && type->rank == 4 ? 2 : 1);
  keel_emit_text(all,
                 "%0 = RotaryEmbedding[interleaved=@interleaved, num_heads="
                 "@num_heads, rotary_embedding_dim=@rotary_embedding_dim]"
                 "($0, $2, $3, %v)",
                 places);
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
#define MS_OP(op, types, params, attrs, shape, values)           \
  {"com.microsoft",    #op,    1, #types,         params, attrs, \
   keel_shape_##shape, values, 0, KEEL_BY_KERNEL, NULL},
#define OP(op, since, types, params, attrs, shape, values)
#define KEEL_OP(op, types, params, attrs, shape)
#include "defs/ops.def"

    /* what ONNX Runtime's optimiser makes of models, written with other ops, too */
    MICROSOFT("BiasGelu", "float", "A:T B:T -> C:T", "", first),
    MICROSOFT("FastGelu", "float", "X:T bias:T? -> Y:T", "", first),
    MICROSOFT("Gelu", "float", "X:T -> Y:T", "", same),
    MICROSOFT("QuickGelu", "float", "X:T -> Y:T", "alpha:f=1.702", same),
    MICROSOFT("RotaryEmbedding", "float",
              "input:T position_ids:i64 cos_cache:T sin_cache:T -> output:T",
              "interleaved:i=0 is_packed_batching:i=0 num_heads:i=0"
              " rotary_embedding_dim:i=0 scale:f=1",
              same),
    MICROSOFT("SkipLayerNormalization", "float",
              "input:T skip:T gamma:T beta:T? bias:T? -> output:T mean:any"
              " inv_std_var:any input_skip_bias_sum:T",
              "epsilon:f=1e-12", skip_norm),
    MICROSOFT("SkipSimplifiedLayerNormalization", "float",
              "input:T skip:T gamma:T bias:T? -> output:T mean:any"
              " inv_std_var:any input_skip_bias_sum:T",
              "epsilon:f=1e-12", skip_norm),
    {NULL, "SimplifiedLayerNormalization", 1, "float",
     "X:T scale:T -> Y:T inv_std_var:any",
     "axis:i=-1 epsilon:f=1e-05 stash_type:i=1", keel_shape_norm_alone, 0, 0,
     KEEL_BY_KERNEL, NULL},
};

static const keel_op_rule rules[] = {
    {"com.microsoft::MatMulNBits", .expand = expand_matmul_nbits,
     .flops = keel_product_flops},
    {"com.microsoft::SkipLayerNormalization", .body = SKIP_NORM},
    {"com.microsoft::SkipSimplifiedLayerNormalization",
     .body = SKIP_SIMPLIFIED_NORM},
    {"SimplifiedLayerNormalization", .expand = expand_simplified_norm},
    {"com.microsoft::Gelu", .body = "%0 = Gelu($0)"},
    {"com.microsoft::BiasGelu", .body = "%0 = Gelu($0 + $1)"},
    {"com.microsoft::FastGelu",
     .body = "%0 = Gelu[approximate=tanh]($1 ? $0 + $1 : $0)"},
    {"com.microsoft::QuickGelu", .body = "%0 = Swish[alpha=@alpha]($0)"},
    {"com.microsoft::RotaryEmbedding", .expand = expand_microsoft_rotary},
};

const keel_op_table keel_ops_microsoft = {KEEL_TABLE_ROWS(rows),
                                          KEEL_TABLE_RULES(rules)};
