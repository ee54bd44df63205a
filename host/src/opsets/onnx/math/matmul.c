/* matmul.c - matrix products, Einsum and Det: shapes, work, derivatives. */
#include "opsets/onnx/math/equation.h"
#include "opsets/onnx/passes.h"
#include "opsets/onnx/training/gradient.h"
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/cost.h"
#include "passes/work.h"

/* ---- shapes ------------------------------------------------------------------ */

/* numpy.matmul's rule for a and b. */
static keel_status matmul_dims(keel_infer *infer, const keel_type *a,
                               const keel_type *b, keel_dims *out) {
  if (!a->rank || !b->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "a scalar is not a matrix; use Mul");
  int64_t m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
  int64_t k = a->dims[a->rank - 1];
  int64_t n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
  if (k != (b->rank > 1 ? b->dims[b->rank - 2] : b->dims[0]))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the inner dimensions differ");
  *out = (keel_dims){0};
  if (!keel_dims_broadcast(out, a->rank > 2 ? a->rank - 2 : 0, a->dims) ||
      !keel_dims_broadcast(out, b->rank > 2 ? b->rank - 2 : 0, b->dims) ||
      out->rank > KD_MAX_RANK - 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the batch dimensions do not broadcast");
  if (a->rank > 1) out->dims[out->rank++] = m;
  if (b->rank > 1) out->dims[out->rank++] = n;
  return KD_OK;
}

keel_status keel_shape_matmul(keel_infer *infer) {
  keel_dims dims = {0};
  KEEL_TRY(matmul_dims(infer, infer->in[0], infer->in[1], &dims));
  return keel_infer_dims(infer, 0, &dims);
}

/* keel::FusedMatMul: a MatMul, then an addition of bias along the last dimension, then one
 * of Z, then an activation: none, Relu, Gelu by erf or by tanh, or x * sigmoid(x). */
keel_status keel_shape_fused_matmul(keel_infer *infer) {
  const keel_type *b = infer->in[1], *bias = keel_infer_in(infer, 2);
  const keel_type *z = keel_infer_in(infer, 3);
  keel_dims dims = {0};
  KEEL_TRY(matmul_dims(infer, infer->in[0], b, &dims));
  if (b->rank < 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "B must have two dimensions or more");
  int64_t columns = b->dims[b->rank - 1];
  if (bias && (bias->rank != 1 || bias->dims[0] != columns))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "bias must have the %lld columns of B",
                           (long long)columns);
  bool fits = !z || z->rank == dims.rank;
  for (uint32_t i = 0; z && fits && i < z->rank; i++)
    fits = z->dims[i] == dims.dims[i];
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "Z must have the shape of the product");
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_qlinear_matmul(keel_infer *infer) {
  keel_dims dims = {0};
  KEEL_TRY(matmul_dims(infer, infer->in[0], infer->in[3], &dims));
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_gemm(keel_infer *infer) {
  const keel_type *a = infer->in[0], *b = infer->in[1];
  const keel_type *c = keel_infer_in(infer, 2);
  if (a->rank != 2 || b->rank != 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "A and B must have two dimensions");
  bool ta = keel_attr_int(infer->op, "transA", 0) != 0;
  bool tb = keel_attr_int(infer->op, "transB", 0) != 0;
  if (a->dims[ta ? 0 : 1] != b->dims[tb ? 1 : 0])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the inner dimensions differ (transA %d, transB %d)",
                           ta, tb);
  keel_dims dims = {.rank = 2, .dims = {a->dims[ta], b->dims[!tb]}};
  keel_dims with = dims;
  if (c && (!keel_dims_broadcast(&with, c->rank, c->dims) || with.rank != 2 ||
            with.dims[0] != dims.dims[0] || with.dims[1] != dims.dims[1]))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "C does not broadcast to [%lld,%lld]",
                           (long long)dims.dims[0], (long long)dims.dims[1]);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_det(keel_infer *infer) {
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (dims.rank < 2 || dims.dims[dims.rank - 1] != dims.dims[dims.rank - 2])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the last two dimensions must be equal");
  dims.rank -= 2;
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_einsum(keel_infer *infer) {
  const char *text = keel_attr_string(infer->op, "equation", "");
  keel_equation equation;
  keel_dims dims = {0};
  if (!keel_equation_read(text, infer->in, infer->input_count, &equation))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "equation \"%s\": %s",
                           text, equation.problem);
  for (uint32_t d = 0; d < equation.out.rank; d++)
    dims.dims[dims.rank++] = equation.size[equation.out.at[d]];
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- work of kernels --------------------------------------------------------- */

static uint64_t product_steps(const keel_work *work) {
  return keel_work_each(work, keel_plus(keel_work_dim(work->in[0], -1), 1));
}

static uint64_t gemm_steps(const keel_work *work) {
  return keel_work_each(work, keel_plus(keel_work_dim(work->in[0], 0),
                                        keel_work_dim(work->in[0], 1)));
}

static uint64_t einsum_steps(const keel_work *work) {
  uint64_t all = 1;
  for (uint32_t i = 0; i < work->node->input_count; i++)
    all = keel_times(all, i < 8 ? keel_work_elements(work->in[i]) : UINT64_MAX);
  return all;
}

double keel_product_flops(const keel_flops_of *of) {
  const keel_type *x = of->in[0];
  bool flipped = keel_attr_int(of->node->op, "transA", 0) != 0;
  if (!x->rank) return 0;
  return 2 * (double)of->out->elements *
         (double)x->dims[flipped ? 0 : x->rank - 1];
}

/* ---- derivatives ------------------------------------------------------------- */

static uint32_t gradient_turned(keel_gradient *g, uint32_t value,
                                uint32_t rank) {
  int64_t perm[KD_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++)
    perm[i] = i + 2 < rank ? i : 2 * (int64_t)rank - 3 - i;
  return keel_emit_transpose(g->all, value, perm, rank);
}

/* B is a matrix, and A may have any rank: B's gradient is of all rows of A at once. */
#define BY_MATRIX                             \
  "$0 = MatMul(^0, Transpose($1));"           \
  "rows = Reshape($0, {-1, dims($1, 0, 1)});" \
  "$1 = MatMul(Transpose(rows), Reshape(^0, {-1, dims($1, 1, 2)}))"

/* Where ranks are open: sums over the last or the last but one dimension of both. */
#define OF_OPEN_RANKS \
  "$0 ~= Einsum[equation=%s](^0, $1); $1 ~= Einsum[equation=%s]($0, ^0)"

static void matmul(keel_gradient *g) {
  uint32_t a = keel_gradient_in(g, 0), b = keel_gradient_in(g, 1);
  uint32_t got = keel_gradient_got(g, 0);
  const keel_type *left = keel_gradient_type(g, a),
                  *right = keel_gradient_type(g, b);
  if (right && right->rank == 2) {
    keel_gradient_text(g, BY_MATRIX);
    return;
  }
  if (!left || !right || !left->rank || !right->rank) {
    keel_gradient_text(g, OF_OPEN_RANKS, "...mn,...kn->...mk",
                       "...mk,...mn->...kn");
    return;
  }
  /* a vector is a row on the left and a column on the right; y is as the product of these */
  bool row = left->rank == 1, column = right->rank == 1;
  if (row) a = keel_gradient_text(g, "Unsqueeze(%v, {0})", a);
  if (column) b = keel_gradient_text(g, "Unsqueeze(%v, {1})", b);
  if (row || column)
    got = keel_gradient_text(g, "Reshape(^0, dims(MatMul(%v, %v)))", a, b);
  if (keel_gradient_wants(g, 0))
    keel_gradient_text(g, "$0 ~= MatMul(%v, %v)", got,
                       gradient_turned(g, b, column ? 2 : right->rank));
  if (keel_gradient_wants(g, 1))
    keel_gradient_text(g, "y = MatMul(%v, %v); $1 ~= %b ? Squeeze(y, {-1}) : y",
                       gradient_turned(g, a, row ? 2 : left->rank), got,
                       column);
}

/* ---- rows -------------------------------------------------------------------- */

/* alpha A B + beta C, where A and B may be transposed */
#define GEMM                                                            \
  "$0 = @transA ? Gemm[alpha=@alpha, transA=@transB, transB=1]($1, ^0)" \
  "   : @transB ? Gemm[alpha=@alpha](^0, $1)"                           \
  "             : Gemm[alpha=@alpha, transB=1](^0, $1);"                \
  "$1 = @transB ? Gemm[alpha=@alpha, transA=1, transB=@transA](^0, $0)" \
  "   : @transA ? Gemm[alpha=@alpha]($0, ^0)"                           \
  "             : Gemm[alpha=@alpha, transA=1]($0, ^0);"                \
  "$2 ~= ^0 * @beta"

static const keel_op_upgrade upgrades[] = {
    {"Gemm", 1, 7, keel_upgrade_broadcast},
};

static const keel_op_rule rules[] = {
    {"MatMul", .steps = product_steps, .flops = keel_product_flops,
     .gradient = matmul},
    {"MatMulInteger", .steps = product_steps, .flops = keel_product_flops},
    {"QLinearMatMul", .steps = product_steps, .flops = keel_product_flops},
    {"Gemm", .steps = gemm_steps, .flops = keel_product_flops, .slopes = GEMM},
    {"keel::FusedMatMul", .flops = keel_product_flops},
    {"Einsum", .steps = einsum_steps},
    {"Det", .steps = keel_work_square},
};

const keel_op_table keel_ops_matmul = {KEEL_TABLE_RULES(rules),
                                       KEEL_TABLE_UPGRADES(upgrades)};
