/* experts.c - com.microsoft's MoE and QMoE: mixtures of experts
 * (onnxruntime/docs/ContribOperators.md).
 *
 * Each row has k slots, one for each expert that it wants most. An expert gets the rows of its
 * slots and no others, so that the work is that of k experts a row; which these are is known in
 * the run only. Results go to their slots, are weighed, and summed. */
#include "opsets/microsoft/microsoft.h"
#include "opsets/terms.h"
#include "opsets/text.h"
#include "passes/passes.h"

/* ---- shapes ---- */

typedef struct expert_sizes {
  int64_t rows, count, size, inner; /* inner: what FC1 gives to FC2 */
  int64_t fused;                    /* 2: FC1 has gate and value */
} expert_sizes;

/* Rows of two dimensions or of three; for each, how much each expert is wanted. */
static keel_status read_rows(const keel_infer *infer, expert_sizes *e) {
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

static keel_status experts_check_kind(const keel_infer *infer, bool has_third,
                                      expert_sizes *e) {
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
  expert_sizes e = {0};
  KEEL_TRY(read_rows(infer, &e));
  KEEL_TRY(experts_check_kind(infer, keel_infer_in(infer, 6) != NULL, &e));
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

static int64_t experts_bits_of(const keel_infer *infer, int layer) {
  int64_t bits = keel_attr_int(infer->op, "expert_weight_bits", 4);
  return keel_attr_int(infer->op, layers[layer].bits, bits);
}

/* N rows of K numbers for each expert, with a scale for each row or block of it. */
static keel_status check_layer(const keel_infer *infer, int layer,
                               const expert_sizes *e, int64_t n, int64_t k) {
  int64_t bits = experts_bits_of(infer, layer);
  int64_t block = keel_attr_int(infer->op, "block_size", 0);
  if (!keel_infer_in(infer, layers[layer].weights)) return KD_OK;
  if ((bits != 2 && bits != 4 && bits != 8) || k % (8 / bits))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "weights of %lld bits in rows of %lld: there are 2,"
                           " 4 and 8, of which a row fills its bytes",
                           (long long)bits, (long long)k);
  if (block && k % block)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "rows of %lld are not a multiple of block_size, %lld", (long long)k,
        (long long)block);
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
  expert_sizes e = {0};
  KEEL_TRY(read_rows(infer, &e));
  KEEL_TRY(experts_check_kind(infer, keel_infer_in(infer, 8) != NULL, &e));
  KEEL_TRY(check_form(infer));
  int64_t bits = experts_bits_of(infer, 1);
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

/* ---- in simpler ops ---- */

typedef struct layer {
  uint32_t weights, scales, bias, zeros; /* values; KEEL_ABSENT */
  int64_t n, k, bits;                    /* bits: 0: floats */
} layer;

typedef struct experts {
  keel_emit *all;
  int64_t count, chosen; /* of a row's experts */
  uint32_t rows;         /* [rows, size] */
  uint32_t slots;        /* [rows * chosen]: the expert of each */
  uint32_t shares;       /* [rows, chosen] */
  layer layers[3];       /* FC1, FC2 and FC3 */
} experts;

static uint32_t experts_in(const experts *e, uint32_t index) {
  return keel_emit_in(e->all, index);
}

static bool is_swiglu(const experts *e) {
  return !strcmp(keel_attr_string(e->all->node.op, "activation_type", "relu"),
                 "swiglu");
}

/* ---- which experts -------------------------------------------------------------------------- */

/* The k best; of shares that are given apart, or of a softmax over all or, where the weights are
 * kept in few bits, over those k. */
static void experts_choose(experts *e, uint32_t apart, bool over_all) {
  bool given = apart != KEEL_ABSENT;
  bool whole =
      keel_attr_int(e->all->node.op, "normalize_routing_weights", 0) != 0 &&
      (over_all || given);
  e->shares = keel_emit_text(
      e->all,
      "wanted = f32($1); wanted = %b ? Softmax[axis=-1](wanted) : wanted;"
      "best, places = TopK(wanted, {%i}); %p = Reshape(places, {-1});"
      "s = %b ? GatherElements[axis=-1](f32(%v), places)"
      "  : %b ? best : Softmax[axis=-1](best);"
      "sum = %b ? ReduceSum(s, {-1}) : s;"
      "%b ? s / Where(sum == 0, 1~sum, sum) : s",
      over_all, e->chosen, &e->slots, given, apart, over_all, whole, whole);
}

/* ---- what an expert computes ---------------------------------------------------------------- */

/* An expert's part of a tensor of all, with these dimensions. */
static uint32_t own(experts *e, uint32_t value, int64_t expert,
                    const int64_t *dims, int64_t rank) {
  return value == KEEL_ABSENT
             ? value
             : keel_emit_part(e->all, value, expert, (uint32_t)rank, dims);
}

static uint32_t float_product(experts *e, const layer *l, uint32_t x,
                              int64_t expert) {
  const int64_t dims[] = {l->n, l->k};
  return keel_emit_text(e->all, "Gemm[transB=1](%v, %v, %v)", x,
                        own(e, l->weights, expert, dims, 2),
                        own(e, l->bias, expert, dims, 1));
}

/* One number for each of `blocks` of a row. */
static uint32_t for_blocks(experts *e, uint32_t value, const layer *l,
                           int64_t blocks) {
  return keel_emit_text(e->all,
                        "Expand(CastLike(Reshape(%v, {%i, 1}), %v), {%i, %i})",
                        value, l->n, e->rows, l->n, blocks);
}

/* Zero points of rows lie behind each other, in as few bits as the weights. */
static uint32_t row_zeros(experts *e, const layer *l, int64_t expert,
                          int64_t blocks) {
  static const int64_t flat[] = {-1};
  uint32_t zeros = own(e, l->zeros, expert, flat, 1);
  if (zeros == KEEL_ABSENT) return zeros;
  zeros = keel_emit_text(e->all, "Slice(Reshape(%v, {-1}), {0}, {%i}, {0})",
                         keel_emit_unpacked(e->all, zeros, l->bits), l->n);
  return for_blocks(e, zeros, l, blocks);
}

/* Blocks as MatMulNBits wants them, of which the last is filled up; rows of one scale are cut
 * into the longest that they are a multiple of. */
static int64_t block_of(const experts *e, const layer *l) {
  int64_t block = keel_attr_int(e->all->node.op, "block_size", 0);
  if (block) return block;
  for (block = 16; block < 1 << 12 && l->k % (2 * block) == 0;)
    block *= 2;
  return block;
}

static uint32_t filled(experts *e, uint32_t weights, const layer *l,
                       int64_t bytes) {
  int64_t more = bytes - l->k * l->bits / 8;
  return !more ? weights
               : keel_emit_text(e->all,
                                "Concat[axis=1](%v, Expand(u8({0}), {%i, %i}))",
                                weights, l->n, more);
}

static uint32_t packed_product(experts *e, const layer *l, uint32_t x,
                               int64_t expert) {
  bool by_row = !keel_attr_int(e->all->node.op, "block_size", 0);
  int64_t block = block_of(e, l), blocks = (l->k + block - 1) / block;
  int64_t bytes = block * l->bits / 8;
  const int64_t rows[] = {l->n, l->k * l->bits / 8}, each[] = {l->n, blocks};
  const int64_t packed[] = {l->n, (blocks * l->bits + 7) / 8}, one[] = {l->n};
  uint32_t w =
      filled(e, own(e, l->weights, expert, rows, 2), l, blocks * bytes);
  uint32_t scales =
      by_row ? for_blocks(e, own(e, l->scales, expert, one, 1), l, blocks)
             : keel_emit_text(e->all, "CastLike(%v, %v)",
                              own(e, l->scales, expert, each, 2), e->rows);
  uint32_t zeros = by_row ? row_zeros(e, l, expert, blocks)
                          : own(e, l->zeros, expert, packed, 2);
  return keel_emit_text(
      e->all,
      "com.microsoft::MatMulNBits[K=%i, N=%i, bits=%i, block_size=%i]"
      "(%v, Reshape(%v, {%i, %i, %i}), %v, %v, _, %v)",
      l->k, l->n, l->bits, block, x, w, l->n, blocks, bytes, scales, zeros,
      own(e, l->bias, expert, one, 1));
}

static uint32_t experts_product(experts *e, int layer_index, uint32_t x,
                                int64_t expert) {
  const layer *l = &e->layers[layer_index];
  return l->bits ? packed_product(e, l, x, expert)
                 : float_product(e, l, x, expert);
}

/* gate * sigmoid(alpha * gate) * (value + beta), both cut at a limit. */
static uint32_t swiglu(experts *e, uint32_t gate, uint32_t value) {
  const keel_opdef *op = e->all->node.op;
  int limited = keel_attr_find(op, "swiglu_limit") != NULL;
  return keel_emit_text(
      e->all,
      "gate = %v; value = %v; gate = %b ? Min(gate, @swiglu_limit) : gate;"
      "value = %b ? Clip(value, -@swiglu_limit, @swiglu_limit) : value;"
      "value = %b ? value + @activation_beta : value;"
      "Swish[alpha=@activation_alpha](gate) * value",
      gate, value, limited, limited,
      keel_attr_float(op, "activation_beta", 0) != 0);
}

static uint32_t activated(experts *e, uint32_t x) {
  return keel_emit_text(e->all,
                        "x = %v; @activation_type=relu ? Relu(x)"
                        "      : @activation_type=silu ? Swish[alpha=1.0](x)"
                        "      : @activation_type=gelu"
                        "        ? Gelu[approximate=tanh](x) : x",
                        x);
}

/* Gate and value of FC1 in turn (1) or behind each other (2). */
static uint32_t half(experts *e, uint32_t x, int64_t index) {
  int64_t inner = e->layers[1].k;
  return keel_attr_int(e->all->node.op, "swiglu_fusion", 0) == 1
             ? keel_emit_slice(e->all, x, 1, index, INT64_MAX, 2)
             : keel_emit_slice(e->all, x, 1, index * inner, (index + 1) * inner,
                               1);
}

static uint32_t computed(experts *e, uint32_t x, int64_t expert) {
  uint32_t first = experts_product(e, 0, x, expert), third = KEEL_ABSENT;
  if (e->layers[2].weights != KEEL_ABSENT)
    third = experts_product(e, 2, x, expert);
  if (is_swiglu(e))
    first = third == KEEL_ABSENT
                ? swiglu(e, half(e, first, 0), half(e, first, 1))
                : swiglu(e, first, third);
  else
    first = third == KEEL_ABSENT
                ? activated(e, first)
                : keel_emit_binary(e->all, "Mul", activated(e, first), third);
  return experts_product(e, 1, first, expert);
}

/* ---- all experts ---------------------------------------------------------------------------- */

/* [rows * chosen, size]: each slot with what its expert gives. */
static uint32_t at_slots(experts *e, uint32_t *slots, uint32_t *results) {
  for (int64_t i = 0; i < e->count && e->all->status == KD_OK; i++) {
    slots[i] = keel_emit_text(e->all, "Reshape(NonZero(%v == {%i}), {-1})",
                              e->slots, i);
    uint32_t x = keel_emit_text(e->all, "Gather(%v, %v / {%i})", e->rows,
                                slots[i], e->chosen);
    results[i] = computed(e, x, i);
  }
  if (e->all->status != KD_OK) return KEEL_ABSENT;
  return keel_emit_text(
      e->all,
      "ScatterND(Expand(0~%v, {dims(%v, 0, 1), %i}), Unsqueeze(%v, {1}), %v)",
      e->rows, e->slots, e->layers[1].n,
      keel_emit_concat(e->all, 0, slots, (uint32_t)e->count),
      keel_emit_concat(e->all, 0, results, (uint32_t)e->count));
}

static void give_sum(experts *e, uint32_t results) {
  keel_emit_text(e->all,
                 "y = f32(Reshape(%v, {-1, %i, %i})) * Unsqueeze(%v, {-1});"
                 "y = CastLike(ReduceSum[keepdims=0](y, {1}), %v);"
                 "%0 = Reshape(y, dims($0))",
                 results, e->chosen, e->layers[1].n, e->shares, e->rows);
}

static void mix(experts *e, uint32_t apart, bool over_all) {
  uint32_t *lists = calloc((size_t)e->count * 2, sizeof *lists);
  if (!lists) {
    e->all->status = keel_no_memory((size_t)e->count * 2 * sizeof *lists);
    return;
  }
  e->rows = keel_emit_text(e->all, "Reshape($0, {-1, %i})", e->layers[1].n);
  experts_choose(e, apart, over_all);
  give_sum(e, at_slots(e, lists, lists + e->count));
  free(lists);
}

/* Sizes of a layer are those of its weights; `bits`: of a number, or 0. */
static bool read_layer(experts *e, int index, uint32_t weights, int64_t bits) {
  layer *l = &e->layers[index];
  const keel_type *type = keel_emit_type(e->all, weights);
  l->weights = experts_in(e, weights);
  l->bits = bits;
  if (l->weights == KEEL_ABSENT) return index == 2;
  if (!type || type->rank != 3 || type->dims[0] < 1 || type->dims[1] < 1 ||
      type->dims[2] < 1 || type->dims[2] > 1 << 28 || type->dims[1] > 1 << 28 ||
      type->dims[0] > 1024)
    return false;
  l->n = type->dims[1];
  l->k = bits ? type->dims[2] * 8 / bits : type->dims[2];
  if (!index) e->count = type->dims[0];
  return type->dims[0] == e->count;
}

/* Checks that were not possible while dimensions were open. */
static bool experts_fits(experts *e, bool read) {
  const keel_opdef *op = e->all->node.op;
  bool third = e->layers[2].weights != KEEL_ABSENT, gated = is_swiglu(e);
  int64_t fusion = keel_attr_int(op, "swiglu_fusion", 0);
  e->chosen = keel_attr_int(op, "k", 1);
  read = read && e->chosen >= 1 && e->chosen <= e->count &&
         e->layers[1].n == e->layers[0].k && fusion >= 0 && fusion <= 2 &&
         e->layers[0].n == e->layers[1].k * (gated && fusion ? 2 : 1) &&
         (!gated || (fusion == 0) == third) &&
         (!third || (e->layers[2].n == e->layers[1].k &&
                     e->layers[2].k == e->layers[0].k));
  if (!read)
    keel_emit_fail(e->all, KD_INVALID_ARGUMENT,
                   "the weights of at most 1024 experts must be of sizes"
                   " that are known before the run, and that fit each"
                   " other; k must be 1 to their number");
  if (keel_attr_int(op, "use_sparse_mixer", 0) ||
      keel_attr_int(op, "swiglu_limit_after_activation", 0))
    keel_emit_fail(e->all, KD_UNIMPLEMENTED,
                   "use_sparse_mixer and swiglu_limit_after_activation"
                   " are not supported");
  return e->all->status == KD_OK;
}

static void expand_experts(keel_emit *all) {
  experts e = {.all = all};
  bool read = read_layer(&e, 0, 2, 0) && read_layer(&e, 1, 4, 0) &&
              read_layer(&e, 2, 6, 0);
  for (uint32_t i = 0; i < 3; i++) {
    e.layers[i].bias = experts_in(&e, 3 + 2 * i);
    e.layers[i].scales = e.layers[i].zeros = KEEL_ABSENT;
  }
  if (experts_fits(&e, read)) mix(&e, KEEL_ABSENT, true);
}

static void expand_quantised_experts(keel_emit *all) {
  static const char *const names[] = {"fc1_expert_weight_bits",
                                      "fc2_expert_weight_bits",
                                      "fc3_expert_weight_bits"};
  experts e = {.all = all};
  const keel_opdef *op = all->node.op;
  bool read = true;
  for (uint32_t i = 0; i < 3; i++) {
    int64_t bits =
        keel_attr_int(op, names[i], keel_attr_int(op, "expert_weight_bits", 4));
    read &= (bits == 2 || bits == 4 || bits == 8) &&
            read_layer(&e, (int)i, 2 + 3 * i, bits);
    e.layers[i].scales = experts_in(&e, 3 + 3 * i);
    e.layers[i].bias = experts_in(&e, 4 + 3 * i);
    e.layers[i].zeros = experts_in(&e, 11 + i);
    read &=
        e.layers[i].weights == KEEL_ABSENT || e.layers[i].scales != KEEL_ABSENT;
  }
  int64_t block = keel_attr_int(op, "block_size", 0);
  read &= block == 0 ||
          (block >= 16 && block <= 1 << 20 && (block & (block - 1)) == 0);
  if (strcmp(keel_attr_string(op, "quant_type", "int"), "int") != 0 ||
      keel_attr_int(op, "weights_prepacked", -1) > 0)
    keel_emit_fail(all, KD_UNIMPLEMENTED,
                   "quant_type can be int, and weights that are packed"
                   " for one device are not supported");
  if (experts_fits(&e, read)) mix(&e, experts_in(&e, 14), false);
}

/* ---- rows ---- */

#define EXPERTS                                                           \
  "activation_alpha:f=1 activation_beta:f=0 activation_type:s=relu k:i=1" \
  " normalize_routing_weights:i=0 swiglu_fusion:i=0 swiglu_limit:f"       \
  " swiglu_limit_after_activation:i=0 use_sparse_mixer:i=0"

static const keel_schema_row rows[] = {
    MICROSOFT("MoE", "f32_or_half",
              "input:T router_probs:T fc1_experts_weights:T"
              " fc1_experts_bias:T? fc2_experts_weights:T fc2_experts_bias:T?"
              " fc3_experts_weights:T? fc3_experts_bias:T? -> output:T",
              EXPERTS, experts),
    MICROSOFT(
        "QMoE", "f32_or_half",
        "input:T router_probs:T fc1_experts_weights:u8 fc1_scales:S=float?"
        " fc1_experts_bias:T? fc2_experts_weights:u8 fc2_scales:S?"
        " fc2_experts_bias:T? fc3_experts_weights:u8? fc3_scales:S?"
        " fc3_experts_bias:T? fc1_zero_points:u8? fc2_zero_points:u8?"
        " fc3_zero_points:u8? router_weights:T? fc1_global_scale:any?"
        " fc2_global_scale:any? fc1_act_scale:any? fc2_act_scale:any?"
        " fc1_act_block_scale:any? fc2_act_block_scale:any? -> output:T",
        EXPERTS " accuracy_level:i=0 block_size:i=0 expert_weight_bits:i=4"
                " fc1_expert_weight_bits:i fc2_expert_weight_bits:i"
                " fc3_expert_weight_bits:i quant_type:s=int"
                " weights_prepacked:i=-1",
        quantised_experts),
};

static const keel_op_rule rules[] = {
    {"com.microsoft::MoE", .expand = expand_experts},
    {"com.microsoft::QMoE", .expand = expand_quantised_experts},
};

const keel_op_table keel_ops_microsoft_experts = {KEEL_TABLE_ROWS(rows),
                                                  KEEL_TABLE_RULES(rules)};
