/* math.c - arithmetic: elementwise, reductions, products, normalisation, quantisation, losses, random
 * numbers: shapes, forms of older opsets, work. */
#include <kd/help.h>

#include "defs/small.h"
#include "opsets/onnx/math/equation.h"
#include "opsets/onnx/passes.h"
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/cost.h"
#include "passes/work.h"

keel_status keel_shape_same(keel_infer *infer) {
  keel_dims dims = keel_dims_of(infer->in[0]);
  return keel_infer_dims(infer, 0, &dims);
}

/* min and max are scalars; some models have them as lists of one. */
keel_status keel_shape_clip(keel_infer *infer) {
  for (uint32_t i = 1; i < infer->input_count; i++)
    if (infer->in[i] && infer->in[i]->elements != 1)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT, "%s must be one number, not %lld",
          i == 1 ? "min" : "max", (long long)infer->in[i]->elements);
  return keel_shape_same(infer);
}

keel_status keel_shape_broadcast(keel_infer *infer) {
  keel_dims dims = {0};
  for (uint32_t i = 0; i < infer->input_count; i++)
    if (infer->in[i] &&
        !keel_dims_broadcast(&dims, infer->in[i]->rank, infer->in[i]->dims))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "the shapes do not broadcast together");
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_where(keel_infer *infer) {
  return keel_shape_broadcast(infer);
}

static keel_status dtype_attr(keel_infer *infer, const char *name,
                              kd_dtype otherwise) {
  int64_t to = keel_attr_int(infer->op, name, otherwise);
  if (to <= 0)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "attribute \"%s\" is %lld, which is not an element type", name,
        (long long)to);
  if (to >= (int64_t)KD_DTYPE_COUNT)
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "attribute \"%s\" is element type %lld, which Keel"
                           " does not have yet",
                           name, (long long)to);
  infer->dtypes[0] = (kd_dtype)to;
  return KD_OK;
}

keel_status keel_shape_cast(keel_infer *infer) {
  KEEL_TRY(dtype_attr(infer, "to", KD_NONE));
  return keel_shape_same(infer);
}

/* The attribute "to", where both types have elements of whole bytes. */
static keel_status bits_attr(keel_infer *infer) {
  KEEL_TRY(dtype_attr(infer, "to", KD_NONE));
  return kd_dtype_size(infer->dtypes[0]) && kd_dtype_size(infer->in[0]->dtype)
             ? KD_OK
             : keel_infer_fail(infer, KD_UNIMPLEMENTED,
                               "the elements of one of the types are not of"
                               " whole bytes");
}

/* Another type of as many bits. */
keel_status keel_shape_bit_cast(keel_infer *infer) {
  KEEL_TRY(bits_attr(infer));
  if (kd_dtype_size(infer->dtypes[0]) != kd_dtype_size(infer->in[0]->dtype))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s and %s have different numbers of bits",
                           keel_dtype_name(infer->in[0]->dtype),
                           keel_dtype_name(infer->dtypes[0]));
  return keel_shape_same(infer);
}

/* The parts of a larger element are the last dimension. */
keel_status keel_shape_bitcast(keel_infer *infer) {
  KEEL_TRY(bits_attr(infer));
  keel_dims dims = keel_dims_of(infer->in[0]);
  uint32_t from = kd_dtype_size(infer->in[0]->dtype);
  uint32_t to = kd_dtype_size(infer->dtypes[0]);
  if (from > to && from % to == 0 && dims.rank < KD_MAX_RANK)
    dims.dims[dims.rank++] = from / to;
  else if (from < to && to % from == 0 && dims.rank &&
           dims.dims[dims.rank - 1] == to / from)
    dims.rank--;
  else if (from != to)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s does not become %s: the last dimension must have"
                           " the parts of an element",
                           keel_dtype_name(infer->in[0]->dtype),
                           keel_dtype_name(infer->dtypes[0]));
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_cast_like(keel_infer *infer) {
  infer->dtypes[0] = infer->in[1]->dtype;
  return keel_shape_same(infer);
}

keel_status keel_shape_random_like(keel_infer *infer) {
  KEEL_TRY(dtype_attr(infer, "dtype", infer->in[0]->dtype));
  return keel_shape_same(infer);
}

keel_status keel_shape_multinomial(keel_infer *infer) {
  const keel_type *scores = infer->in[0];
  int64_t count = keel_attr_int(infer->op, "sample_size", 1);
  KEEL_TRY(dtype_attr(infer, "dtype", KD_I32));
  if (infer->dtypes[0] != KD_I32 && infer->dtypes[0] != KD_I64)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "dtype is %s, and must be i32 or i64",
                           keel_dtype_name(infer->dtypes[0]));
  if (scores->rank != 2 || count < 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "input must be [batch,classes], and sample_size 1"
                           " or more");
  const int64_t dims[] = {scores->dims[0], count};
  return keel_infer_out(infer, 0, 2, dims);
}

keel_status keel_shape_random(keel_infer *infer) {
  const int64_t *shape = NULL;
  KEEL_TRY(dtype_attr(infer, "dtype", KD_F32));
  int64_t rank = keel_attr_ints(infer->op, "shape", &shape);
  if (rank < 0) rank = 0;
  return keel_infer_out(infer, 0, (uint32_t)rank, shape);
}

keel_status keel_shape_random_bits(keel_infer *infer) {
  const keel_type *state = infer->in[0];
  const int64_t *shape = NULL;
  const char *by = keel_attr_string(infer->op, "algorithm", "philox");
  int64_t rank = keel_attr_ints(infer->op, "shape", &shape);
  int64_t to = keel_attr_int(infer->op, "dtype", 0);
  int64_t numbers = state->rank == 1 ? state->dims[0] : 0;
  if (numbers != 2 && (numbers != 3 || !strcmp(by, "threefry")))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "state must be two numbers, or three of philox");
  if (to <= 0 || to >= (int64_t)KD_DTYPE_COUNT ||
      !(KD_TYPES_INT & KD_TYPES((uint32_t)to)))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "dtype must be an integer type");
  infer->dtypes[1] = (kd_dtype)to;
  KEEL_TRY(keel_infer_out(infer, 0, 1, state->dims));
  return keel_infer_out(infer, 1, (uint32_t)(rank < 0 ? 0 : rank), shape);
}

/* keel::Uniform, keel::Normal: input 2 is the shape. */
keel_status keel_shape_counted(keel_infer *infer) {
  int64_t dims[KD_MAX_RANK];
  KEEL_TRY(dtype_attr(infer, "dtype", KD_F32));
  int64_t rank = keel_infer_ints(infer, 2, dims, KD_MAX_RANK);
  if (rank < 0) return KD_INVALID_ARGUMENT;
  return keel_infer_out(infer, 0, (uint32_t)rank, dims);
}

/* ---- reductions ----------------------------------------------------------- */

keel_status keel_shape_reduce(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t axes[KD_MAX_RANK];
  int64_t count = keel_infer_ints(infer, 1, axes, KD_MAX_RANK);
  if (count < 0) return KD_INVALID_ARGUMENT;
  bool keep = keel_attr_int(infer->op, "keepdims", 1) != 0;
  uint32_t gone = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t axis = 0;
    KEEL_TRY(keel_infer_new_axis(infer, axes[i], in->rank, &gone, &axis));
  }
  bool all = count == 0 && !keel_attr_int(infer->op, "noop_with_empty_axes", 0);
  keel_dims dims = {0};
  for (uint32_t i = 0; i < in->rank; i++) {
    if (!(gone >> i & 1) && !all)
      dims.dims[dims.rank++] = in->dims[i];
    else if (keep)
      dims.dims[dims.rank++] = 1;
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_arg_reduce(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0), in->rank,
                           &axis));
  keel_dims dims = {0};
  for (uint32_t i = 0; i < in->rank; i++) {
    if (i != axis)
      dims.dims[dims.rank++] = in->dims[i];
    else if (keel_attr_int(infer->op, "keepdims", 1))
      dims.dims[dims.rank++] = 1;
  }
  if (in->dims[axis] == 0)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "axis %u is empty",
                           (unsigned)axis);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_top_k(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t k = 0;
  uint32_t axis = 0;
  int64_t count = keel_infer_ints(infer, 1, &k, 1);
  if (count < 0) return KD_INVALID_ARGUMENT;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", -1),
                           in->rank, &axis));
  if (count != 1 || k < 0 || k > in->dims[axis])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "K is %lld, and axis %u has %lld", (long long)k,
                           (unsigned)axis, (long long)in->dims[axis]);
  keel_dims dims = keel_dims_of(in);
  dims.dims[axis] = k;
  KEEL_TRY(keel_infer_dims(infer, 0, &dims));
  return keel_infer_dims(infer, 1, &dims);
}

/* ---- products ------------------------------------------------------------- */

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

/* ---- Einsum ---------------------------------------------------------------- */

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

/* ---- normalisation -------------------------------------------------------- */

keel_status keel_shape_batch_norm(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t channels = in->rank > 1 ? in->dims[1] : 1;
  for (uint32_t i = 1; i < 5; i++)
    if (infer->in[i]->rank != 1 || infer->in[i]->dims[0] != channels)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT, "%s must have the %lld channels of X",
          infer->op->schema->inputs[i].name, (long long)channels);
  KEEL_TRY(keel_shape_same(infer));
  KEEL_TRY(keel_infer_out(infer, 1, 1, &channels));
  return keel_infer_out(infer, 2, 1, &channels);
}

/* The type that a normalisation's statistics are in: they are as exact as f32 at the
 * least, whatever is asked for. */
static keel_status check_stash(const keel_infer *infer) {
  int64_t type = keel_attr_int(infer->op, "stash_type", KD_F32);
  if (type == KD_F32 || type == KD_F16 || type == KD_BF16 ||
      (type == KD_F64 && infer->in[0]->dtype == KD_F64))
    return KD_OK;
  return keel_infer_fail(
      infer, KD_UNIMPLEMENTED,
      "stash_type is %lld; it can be f32 (1), f16 (10) or bf16 (16)",
      (long long)type);
}

keel_status keel_shape_group_norm(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t groups = keel_attr_int(infer->op, "num_groups", 0);
  KEEL_TRY(check_stash(infer));
  if (in->rank < 2 || groups < 1 || in->dims[1] % groups)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the channels of X are not in %lld groups",
                           (long long)groups);
  for (uint32_t i = 1; i < 3; i++)
    if (infer->in[i]->rank != 1 || infer->in[i]->dims[0] != in->dims[1])
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT, "%s must have the %lld channels of X",
          infer->op->schema->inputs[i].name, (long long)in->dims[1]);
  return keel_shape_same(infer);
}

keel_status keel_shape_layer_norm(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", -1),
                           in->rank, &axis));
  KEEL_TRY(check_stash(infer));
  keel_dims dims = keel_dims_of(in);
  KEEL_TRY(keel_infer_dims(infer, 0, &dims));
  for (uint32_t i = axis; i < dims.rank; i++)
    dims.dims[i] = 1;
  infer->dtypes[1] = infer->dtypes[2] =
      (kd_dtype)keel_attr_int(infer->op, "stash_type", KD_F32);
  KEEL_TRY(keel_infer_dims(infer, 1, &dims));
  return keel_infer_dims(infer, 2, &dims);
}

/* The scale is broadcast to the dimensions from the axis on; one that repeats along the
 * last of them only, as all have it, is what kernels take. */
keel_status keel_shape_rms_norm(keel_infer *infer) {
  const keel_type *in = infer->in[0], *scale = infer->in[1];
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", -1),
                           in->rank, &axis));
  KEEL_TRY(check_stash(infer));
  bool fits = scale->rank <= in->rank - axis, ones = true;
  for (uint32_t i = 0; fits && i < scale->rank; i++) {
    int64_t own = scale->dims[i];
    ones &= own == 1;
    fits = ones || own == in->dims[in->rank - scale->rank + i];
  }
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "scale must have the last dimensions of X, from "
                           "axis %u on at most",
                           (unsigned)axis);
  const keel_dims dims = keel_dims_of(in);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_dropout(keel_infer *infer) {
  keel_dims dims = keel_dims_of(infer->in[0]);
  KEEL_TRY(keel_infer_dims(infer, 0, &dims));
  return keel_infer_dims(infer, 1, &dims);
}

/* ---- quantisation --------------------------------------------------------- */

/* Scales, and zero points with them, are one for all; one for each place along the axis;
 * or one for each block of it: x's dimensions with blocks for elements. */
static keel_status check_scales(const keel_infer *infer) {
  const keel_type *x = infer->in[0], *scale = infer->in[1];
  const keel_type *zero = keel_infer_in(infer, 2);
  int64_t block = keel_attr_int(infer->op, "block_size", 0);
  uint32_t axis = 0;
  bool fits = !zero || zero->elements == scale->elements;
  if (block < 0)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "block_size is %lld; it must be 0 or more",
                           (long long)block);
  if (block || scale->elements != 1)
    KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 1),
                             x->rank, &axis));
  if (block) {
    fits = fits && scale->rank == x->rank && (!zero || zero->rank == x->rank);
    for (uint32_t i = 0; fits && i < x->rank; i++) {
      int64_t want = x->dims[i];
      if (i == axis) want = want / block + (want % block != 0);
      fits = scale->dims[i] == want && (!zero || zero->dims[i] == want);
    }
  } else if (scale->elements != 1) {
    fits = fits && scale->rank == 1 && scale->dims[0] == x->dims[axis];
  }
  if (fits) return KD_OK;
  return keel_infer_fail(
      infer, KD_INVALID_ARGUMENT,
      "scales and zero points must be scalars or have one element"
      " per element of the axis or, with block_size, per block");
}

keel_status keel_shape_quantize(keel_infer *infer) {
  static const uint64_t precisions = KD_TYPES_FLOAT | KD_TYPES(KD_NONE);
  const keel_type *zero = keel_infer_in(infer, 2);
  int64_t to = keel_attr_int(infer->op, "output_dtype", KD_NONE);
  int64_t by = keel_attr_int(infer->op, "precision", KD_NONE);
  if (!to) to = zero ? zero->dtype : KD_U8;
  bool small = to > 0 && to < (int64_t)KD_DTYPE_COUNT &&
               onnx_is_small((kd_dtype)to) && to != KD_F8E8M0;
  if (to != KD_U8 && to != KD_I8 && to != KD_U16 && to != KD_I16 && !small)
    return keel_infer_fail(
        infer, KD_UNIMPLEMENTED,
        "output_dtype is %lld; it can be u8 (2), i8 (3), u16 (4), i16 (5), or a"
        " type of 8 bits or less (17 to 23, 25, 26)",
        (long long)to);
  if (zero && zero->dtype != (kd_dtype)to)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "output_dtype is not the type of the zero point");
  if (by < 0 || by >= (int64_t)KD_DTYPE_COUNT || !(precisions >> by & 1))
    return keel_infer_fail(
        infer, KD_UNIMPLEMENTED,
        "precision is %lld, which is not a floating-point type", (long long)by);
  KEEL_TRY(check_scales(infer));
  infer->dtypes[0] = (kd_dtype)to;
  return keel_shape_same(infer);
}

keel_status keel_shape_dequantize(keel_infer *infer) {
  int64_t to = keel_attr_int(infer->op, "output_dtype", KD_NONE);
  if (!to) to = infer->in[1]->dtype;
  if (to != KD_F32 && to != KD_F16 && to != KD_BF16)
    return keel_infer_fail(
        infer, KD_UNIMPLEMENTED,
        "output_dtype is %lld; it can be f32 (1), f16 (10) or bf16 (16)",
        (long long)to);
  KEEL_TRY(check_scales(infer));
  infer->dtypes[0] = (kd_dtype)to;
  return keel_shape_same(infer);
}

keel_status keel_shape_dynamic_quantize(keel_infer *infer) {
  KEEL_TRY(keel_shape_same(infer));
  KEEL_TRY(keel_infer_out(infer, 1, 0, NULL));
  return keel_infer_out(infer, 2, 0, NULL);
}

/* ---- losses --------------------------------------------------------------- */

/* X is N,C,d1..; target is N,d1..; the loss is target's shape or a scalar. */
static keel_status loss(keel_infer *infer) {
  const keel_type *x = infer->in[0], *target = infer->in[1];
  if (x->rank < 2 || target->rank != x->rank - 1)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "the target must have the input's dimensions without C");
  for (uint32_t i = 0; i < target->rank; i++)
    if (target->dims[i] != x->dims[i ? i + 1 : 0])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "dimension %u of the target is not the input's",
                             (unsigned)i);
  const keel_type *weight = keel_infer_in(infer, 2);
  if (weight && (weight->rank != 1 || weight->dims[0] != x->dims[1]))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "one weight is needed for each of %lld classes",
                           (long long)x->dims[1]);
  bool none = !strcmp(keel_attr_string(infer->op, "reduction", "mean"), "none");
  return keel_infer_out(infer, 0, none ? target->rank : 0, target->dims);
}

keel_status keel_shape_nll_loss(keel_infer *infer) {
  return loss(infer);
}

keel_status keel_shape_sce_loss(keel_infer *infer) {
  KEEL_TRY(loss(infer));
  keel_dims dims = keel_dims_of(infer->in[0]);
  return keel_infer_dims(infer, 1, &dims);
}

/* ---- older opsets ----------------------------------------------------------- */

/* Gives an input `count` dimensions of one element behind its own. */
static keel_status add_dims(keel_draft *draft, uint32_t index, uint32_t rank,
                            int64_t count) {
  int64_t axes[KD_MAX_RANK];
  uint32_t *input = &draft->inputs[index];
  if (rank + count > KD_MAX_RANK)
    return keel_upgrade_bad(draft, KD_DATA_LOSS, "has too many dimensions");
  for (int64_t i = 0; i < count; i++)
    axes[i] = (int64_t)rank + i;
  return keel_upgrade_text(draft, input, "Unsqueeze(%v, %l)", *input, axes,
                           count);
}

/* Before 7, B was laid over A from dimension `axis` on: it gets dimensions of
 * one element behind, so that today's rule says the same. */
static keel_status widen_second(keel_draft *draft, int64_t axis) {
  KEEL_TRY(keel_upgrade_need(draft, 2));
  const keel_type *a = keel_upgrade_type(draft, 0),
                  *b = keel_upgrade_type(draft, 1);
  if (!a || !b)
    return keel_upgrade_bad(
        draft, KD_UNIMPLEMENTED,
        "its old broadcast needs shapes that are not known");
  int64_t rank = a->rank;
  if (axis < -rank || axis > rank)
    return keel_fail(KD_DATA_LOSS,
                     "%s: node \"%s\" (%s-%lld): axis %lld is not in a tensor"
                     " of rank %u",
                     draft->path, draft->name, draft->op,
                     (long long)draft->opset, (long long)axis,
                     (unsigned)a->rank);
  int64_t missing = rank - (axis < 0 ? axis + rank : axis) - b->rank;
  return missing > 0 ? add_dims(draft, 1, b->rank, missing) : KD_OK;
}

static keel_status old_broadcast(keel_draft *draft) {
  const keel_attr *axis = keel_upgrade_attr(draft, "axis", KD_ATTR_INT);
  if (axis) KEEL_TRY(widen_second(draft, axis->i));
  keel_upgrade_drop(draft, "axis");
  keel_upgrade_drop(draft, "broadcast");
  return KD_OK;
}

/* PRelu's slope was one for each channel. */
static keel_status old_prelu(keel_draft *draft) {
  const keel_type *slope = keel_upgrade_type(draft, 1);
  return slope && slope->rank == 1 && slope->dims[0] == 1
             ? KD_OK
             : widen_second(draft, 1);
}

/* Before 13, Softmax, LogSoftmax and Hardmax saw the input as a matrix, split
 * at `axis` (default 1): Flatten, op on the last axis, Reshape. */
static keel_status old_softmax(keel_draft *draft) {
  const keel_attr *given = keel_upgrade_attr(draft, "axis", KD_ATTR_INT);
  keel_attr axis = KEEL_INT("axis", given ? given->i : 1);
  uint32_t shape = 0;
  KEEL_TRY(keel_upgrade_need(draft, 1));
  if (axis.i == -1) {
    keel_upgrade_set_int(draft, "axis", -1);
    return KD_OK;
  }
  KEEL_TRY(keel_upgrade_text(draft, &shape, "dims($0)"));
  KEEL_TRY(keel_upgrade_text(draft, &draft->inputs[0],
                             "%s[axis=-1](Flatten[axis=%i]($0))", draft->op,
                             axis.i));
  draft->op = "Reshape";
  keel_upgrade_drop_all(draft);
  draft->inputs[1] = shape;
  draft->input_count = 2;
  return KD_OK;
}

static keel_status old_clip(keel_draft *draft) {
  KEEL_TRY(keel_upgrade_float(draft, "min", 1));
  return keel_upgrade_float(draft, "max", 2);
}

static keel_status old_top_k(keel_draft *draft) {
  const keel_attr *k = keel_upgrade_attr(draft, "k", KD_ATTR_INT);
  if (k) {
    KEEL_TRY(keel_upgrade_input(draft, 1, KD_I64, 1, 1, &k->i));
    keel_upgrade_drop(draft, "k");
  }
  return KD_OK;
}

static keel_status old_batch_norm(keel_draft *draft) {
  const keel_attr *spatial = keel_upgrade_attr(draft, "spatial", KD_ATTR_INT);
  if (spatial && spatial->i != 1)
    return keel_upgrade_bad(draft, KD_UNIMPLEMENTED,
                            "spatial = 0 is not supported");
  keel_upgrade_drop(draft, "spatial");
  keel_upgrade_drop(draft, "is_test");
  if (draft->output_count > 1)
    return keel_upgrade_bad(
        draft, KD_UNIMPLEMENTED,
        "training outputs before opset 14 are not supported");
  return KD_OK;
}

/* Scale and bias were one for each group; now they are one for each channel. */
static keel_status widen_groups(keel_draft *draft, uint32_t index,
                                int64_t groups) {
  uint32_t *input = &draft->inputs[index];
  return keel_upgrade_text(
      draft, input,
      "each = dims($0, 1, 2) / {%i};"
      "Reshape(Expand(Unsqueeze(%v, {1}), {1, each}), {-1})",
      groups, *input);
}

static keel_status old_group_norm(keel_draft *draft) {
  const keel_attr *groups = keel_upgrade_attr(draft, "num_groups", KD_ATTR_INT);
  KEEL_TRY(keel_upgrade_need(draft, 3));
  if (!groups || draft->input_count != 3 || groups->i < 1)
    return keel_upgrade_bad(
        draft, KD_DATA_LOSS,
        "needs X, scale, bias, and num_groups of 1 or more");
  const int64_t count = groups->i;
  KEEL_TRY(widen_groups(draft, 1, count));
  return widen_groups(draft, 2, count);
}

/* ---- work of kernels ---------------------------------------------------------- */

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

/* ---- rows --------------------------------------------------------------------- */

static const keel_op_upgrade upgrades[] = {
    {"Add", 1, 7, old_broadcast},
    {"Sub", 1, 7, old_broadcast},
    {"Mul", 1, 7, old_broadcast},
    {"Div", 1, 7, old_broadcast},
    {"Pow", 1, 7, old_broadcast},
    {"And", 1, 7, old_broadcast},
    {"Or", 1, 7, old_broadcast},
    {"Xor", 1, 7, old_broadcast},
    {"Equal", 1, 7, old_broadcast},
    {"Greater", 1, 7, old_broadcast},
    {"Less", 1, 7, old_broadcast},
    {"Gemm", 1, 7, old_broadcast},
    {"PRelu", 1, 7, old_prelu},
    {"Softmax", 1, 13, old_softmax},
    {"LogSoftmax", 1, 13, old_softmax},
    {"Hardmax", 1, 13, old_softmax},
    {"Clip", 1, 11, old_clip},
    {"TopK", 1, 10, old_top_k},
    {"BatchNormalization", 1, 14, old_batch_norm},
    {"GroupNormalization", 18, 21, old_group_norm},
    {"ReduceSum", 1, 13, keel_upgrade_axes},
    {"ReduceL1", 1, 18, keel_upgrade_axes},
    {"ReduceL2", 1, 18, keel_upgrade_axes},
    {"ReduceLogSum", 1, 18, keel_upgrade_axes},
    {"ReduceLogSumExp", 1, 18, keel_upgrade_axes},
    {"ReduceMax", 1, 18, keel_upgrade_axes},
    {"ReduceMean", 1, 18, keel_upgrade_axes},
    {"ReduceMin", 1, 18, keel_upgrade_axes},
    {"ReduceProd", 1, 18, keel_upgrade_axes},
    {"ReduceSumSquare", 1, 18, keel_upgrade_axes},
};

static const keel_op_rule rules[] = {
    {"MatMul", .steps = product_steps, .flops = keel_product_flops},
    {"MatMulInteger", .steps = product_steps, .flops = keel_product_flops},
    {"QLinearMatMul", .steps = product_steps, .flops = keel_product_flops},
    {"Gemm", .steps = gemm_steps, .flops = keel_product_flops},
    {"keel::FusedMatMul", .flops = keel_product_flops},
    {"Einsum", .steps = einsum_steps},
    {"Det", .steps = keel_work_square},
};

const keel_op_table keel_ops_math = {KEEL_TABLE_RULES(rules),
                                     KEEL_TABLE_UPGRADES(upgrades)};
