/* shapes_microsoft.c - shapes of com.microsoft, ONNX Runtime's own ops, and what Keel takes of
 * them (onnxruntime/docs/ContribOperators.md). */
#include "ops/shapes.h"

/* ---- MatMulNBits ---------------------------------------------------------------------- */

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

/* ---- GroupQueryAttention ------------------------------------------------------------------ */

static keel_status check_kind(const keel_infer *infer) {
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

typedef struct grouped {
  int64_t batch, rows, heads, groups, size;
} grouped;

/* query has all, or key and value are apart. */
static keel_status read_heads(const keel_infer *infer, grouped *g) {
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

static keel_status check_rotary(const keel_infer *infer, const grouped *g) {
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
static keel_status check_sink(const keel_infer *infer, const grouped *g) {
  const keel_type *sink = keel_infer_in(infer, 11);
  if (!sink || (sink->rank == 1 && sink->dims[0] == g->heads)) return KD_OK;
  return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "head_sink must be [%lld]",
                         (long long)g->heads);
}

static keel_status check_bias(const keel_infer *infer, const grouped *g,
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
  grouped g = {0};
  int64_t total = 0;
  KEEL_TRY(check_kind(infer));
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

/* ---- normalisation ----------------------------------------------------------------------- */

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

/* ---- ops on bytes ------------------------------------------------------------------------- */

/* A function of ONNX's, for some of the inputs. */
static keel_status as_of(keel_infer *infer, const keel_type *const *in,
                         uint32_t count,
                         keel_status (*shape)(keel_infer *infer)) {
  const keel_type *const *own = infer->in;
  uint32_t own_count = infer->input_count;
  infer->in = in;
  infer->input_count = count;
  keel_status status = shape(infer);
  infer->in = own;
  infer->input_count = own_count;
  return status == KD_INVALID_ARGUMENT
             ? keel_infer_fail(infer, status,
                               "the shapes of its operands do not fit")
             : status;
}

/* Operands are inputs 0 and 3. */
keel_status keel_shape_qlinear_binary(keel_infer *infer) {
  const keel_type *const in[] = {infer->in[0], infer->in[3]};
  return as_of(infer, in, 2, keel_shape_broadcast);
}

/* Operands are inputs 2, 5, 8 ... */
keel_status keel_shape_qlinear_concat(keel_infer *infer) {
  uint32_t count = infer->input_count < 2 ? 0 : (infer->input_count - 2) / 3;
  if (!count || (infer->input_count - 2) % 3)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "has Y_scale, Y_zero_point, and then three inputs"
                           " for each part: not %u",
                           (unsigned)infer->input_count);
  const keel_type **in = calloc(count, sizeof *in);
  if (!in) return keel_no_memory(count * sizeof *in);
  for (uint32_t i = 0; i < count; i++)
    in[i] = infer->in[2 + 3 * i];
  keel_status status =
      in[0] ? as_of(infer, in, count, keel_shape_concat)
            : keel_infer_fail(infer, KD_INVALID_ARGUMENT, "input 2 is missing");
  free(in);
  return status;
}

keel_status keel_shape_qgemm(keel_infer *infer) {
  const keel_type *const in[] = {infer->in[0], infer->in[3],
                                 keel_infer_in(infer, 6)};
  const keel_type *zero = keel_infer_in(infer, 8);
  infer->dtypes[0] = !keel_infer_in(infer, 7) ? KD_F32
                     : zero                   ? zero->dtype
                                              : infer->in[0]->dtype;
  return as_of(infer, in, 3, keel_shape_gemm);
}
