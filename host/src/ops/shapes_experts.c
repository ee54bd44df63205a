/* shapes_experts.c - shapes of com.microsoft's mixtures of experts, MoE and QMoE
 * (onnxruntime/docs/ContribOperators.md). */
#include "ops/shapes.h"

typedef struct experts {
  int64_t rows, count, size, inner; /* inner: what FC1 gives to FC2 */
  int64_t fused;                    /* 2: FC1 has gate and value */
} experts;

/* Rows of two dimensions or of three; for each, how much each expert is wanted. */
static keel_status read_rows(const keel_infer *infer, experts *e) {
  const keel_type *x = infer->in[0], *router = infer->in[1];
  int64_t k = keel_attr_int(infer->op, "k", 1);
  if ((x->rank != 2 && x->rank != 3) || router->rank != 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "input must be [rows, size] or [batch, rows, size],"
                           " and router_probs [all rows, experts]");
  e->size = x->dims[x->rank - 1];
  e->rows = x->rank == 3 ? x->dims[0] * x->dims[1] : x->dims[0];
  e->count = router->dims[1];
  if (router->dims[0] != e->rows || e->count < 1 || e->count > 1024 || k < 1 ||
      k > e->count || e->size < 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "router_probs must be [%lld, experts], with 1 to"
                           " 1024 experts, of which k, here %lld, are taken",
                           (long long)e->rows, (long long)k);
  return KD_OK;
}

static keel_status check_kind(const keel_infer *infer, bool has_third,
                              experts *e) {
  static const char *const kinds[] = {"relu", "gelu", "silu", "swiglu",
                                      "identity"};
  const char *kind = keel_attr_string(infer->op, "activation_type", "relu");
  int64_t fusion = keel_attr_int(infer->op, "swiglu_fusion", 0);
  bool known = false, gated = !strcmp(kind, "swiglu");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    known |= !strcmp(kind, kinds[i]);
  if (!known || keel_attr_int(infer->op, "use_sparse_mixer", 0) ||
      keel_attr_int(infer->op, "swiglu_limit_after_activation", 0))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "activation_type can be relu, gelu, silu, swiglu and"
                           " identity, and use_sparse_mixer and"
                           " swiglu_limit_after_activation are not supported");
  if (fusion < 0 || fusion > 2 || (gated && (fusion == 0) != has_third))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "swiglu needs FC3, or FC1 with both and a"
                           " swiglu_fusion of 1 or 2");
  e->fused = gated && fusion ? 2 : 1;
  return KD_OK;
}

static keel_status check_dims(const keel_infer *infer, uint32_t index,
                              int64_t a, int64_t b, int64_t c) {
  const keel_type *type = keel_infer_in(infer, index);
  const keel_param *param = keel_schema_input(infer->op->schema, index);
  uint32_t rank = c < 0 ? 2 : 3;
  if (!type || (type->rank == rank && type->dims[0] == a &&
                type->dims[1] == b && (c < 0 || type->dims[2] == c)))
    return KD_OK;
  return keel_infer_fail(
      infer, KD_INVALID_ARGUMENT,
      c < 0 ? "%s must be [%lld,%lld]" : "%s must be [%lld,%lld,%lld]",
      param ? param->name : "an input", (long long)a, (long long)b,
      (long long)c);
}

/* The sum of what the k experts that a row wants most make of it, each FC2(activation(FC1(row))),
 * by how much they are wanted. */
keel_status keel_shape_experts(keel_infer *infer) {
  const keel_type *second = infer->in[4];
  experts e = {0};
  KEEL_TRY(read_rows(infer, &e));
  KEEL_TRY(check_kind(infer, keel_infer_in(infer, 6) != NULL, &e));
  e.inner = second->rank == 3 ? second->dims[2] : 0;
  if (!keel_is_plausible(e.inner)) e.inner = 0;
  KEEL_TRY(check_dims(infer, 2, e.count, e.fused * e.inner, e.size));
  KEEL_TRY(check_dims(infer, 3, e.count, e.fused * e.inner, -1));
  KEEL_TRY(check_dims(infer, 4, e.count, e.size, e.inner));
  KEEL_TRY(check_dims(infer, 5, e.count, e.size, -1));
  KEEL_TRY(check_dims(infer, 6, e.count, e.inner, e.size));
  KEEL_TRY(check_dims(infer, 7, e.count, e.inner, -1));
  return keel_shape_same(infer);
}

/* ---- QMoE ----------------------------------------------------------------------------------- */

/* FC1, FC2 and FC3: where their inputs are. */
static const struct {
  const char *bits;
  uint32_t weights, scales, bias, zeros;
} layers[] = {{"fc1_expert_weight_bits", 2, 3, 4, 11},
              {"fc2_expert_weight_bits", 5, 6, 7, 12},
              {"fc3_expert_weight_bits", 8, 9, 10, 13}};

static int64_t bits_of(const keel_infer *infer, int layer) {
  int64_t bits = keel_attr_int(infer->op, "expert_weight_bits", 4);
  return keel_attr_int(infer->op, layers[layer].bits, bits);
}

/* N rows of K numbers for each expert, with a scale for each row or block of it. */
static keel_status check_layer(const keel_infer *infer, int layer,
                               const experts *e, int64_t n, int64_t k) {
  int64_t bits = bits_of(infer, layer);
  int64_t block = keel_attr_int(infer->op, "block_size", 0);
  if (!keel_infer_in(infer, layers[layer].weights)) return KD_OK;
  if ((bits != 2 && bits != 4 && bits != 8) || k % (8 / bits))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "weights of %lld bits in rows of %lld: there are 2,"
                           " 4 and 8, of which a row fills its bytes",
                           (long long)bits, (long long)k);
  if (block && k % block)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "rows of %lld are no multiple of block_size, %lld",
                           (long long)k, (long long)block);
  if (!keel_infer_in(infer, layers[layer].scales))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "each layer of weights needs its scales");
  int64_t blocks = block ? k / block : -1;
  int64_t zeros = block ? (blocks * bits + 7) / 8 : (n * bits + 7) / 8;
  KEEL_TRY(check_dims(infer, layers[layer].weights, e->count, n, k * bits / 8));
  KEEL_TRY(check_dims(infer, layers[layer].scales, e->count, n, blocks));
  KEEL_TRY(check_dims(infer, layers[layer].bias, e->count, n, -1));
  return block ? check_dims(infer, layers[layer].zeros, e->count, n, zeros)
               : check_dims(infer, layers[layer].zeros, e->count, zeros, -1);
}

static keel_status check_form(const keel_infer *infer) {
  int64_t block = keel_attr_int(infer->op, "block_size", 0);
  if (strcmp(keel_attr_string(infer->op, "quant_type", "int"), "int") != 0 ||
      keel_attr_int(infer->op, "weights_prepacked", -1) > 0)
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "quant_type can be int, and weights that are packed"
                           " for one device are not supported");
  for (uint32_t i = 15; i < infer->input_count; i++)
    if (infer->in[i])
      return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                             "scales of activations and of all weights are not"
                             " supported");
  if (block && (block < 16 || block > 1 << 20 || (block & (block - 1))))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "block_size must be a power of two from 16 to 1048576, not %lld",
        (long long)block);
  return KD_OK;
}

/* The same of weights that are kept in few bits. */
keel_status keel_shape_quantised_experts(keel_infer *infer) {
  const keel_type *second = infer->in[5];
  experts e = {0};
  KEEL_TRY(read_rows(infer, &e));
  KEEL_TRY(check_kind(infer, keel_infer_in(infer, 8) != NULL, &e));
  KEEL_TRY(check_form(infer));
  int64_t bits = bits_of(infer, 1);
  e.inner = second->rank == 3 && bits > 0 ? second->dims[2] : 0;
  e.inner = keel_is_plausible(e.inner) && bits <= 8 && bits > 0
                ? e.inner * 8 / bits
                : 0;
  if (!keel_is_plausible(e.size))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "rows are too long");
  KEEL_TRY(check_layer(infer, 0, &e, e.fused * e.inner, e.size));
  KEEL_TRY(check_layer(infer, 1, &e, e.size, e.inner));
  KEEL_TRY(check_layer(infer, 2, &e, e.inner, e.size));
  KEEL_TRY(check_dims(infer, 14, e.rows, e.count, -1));
  return keel_shape_same(infer);
}
