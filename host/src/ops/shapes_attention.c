/* shapes_attention.c - attention.
 *
 * keel::Attention is softmax(scale * Q K' + mask) V for each head, the softmax over keys:
 * Q [..., H, M, D], K [..., G, N, D] and V [..., G, N, E] give Y [..., H, M, E], or with
 * heads_last [..., M, H, E]. Leading dimensions are equal. G divides H: H / G neighbouring
 * heads read one of K and V. mask is broadcast to [..., H, M, N] and added. With causal, row i
 * sees the keys j <= i + N - M alone. Where a row sees no key, or its scores are all minus
 * infinity, its softmax is NaN; with nan_as_zero that counts as zeros. (Vaswani et al.,
 * "Attention Is All You Need", 2017; ONNX has it as Attention since opset 23.) */
#include "ops/shapes.h"

static keel_status check_mask(const keel_infer *infer, const keel_dims *rows) {
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
  KEEL_TRY(check_mask(infer, &dims));
  dims.dims[rank - 1] = v->dims[rank - 1];
  if (keel_attr_int(infer->op, "heads_last", 0)) {
    dims.dims[rank - 3] = q->dims[rank - 2];
    dims.dims[rank - 2] = heads;
  }
  return keel_infer_dims(infer, 0, &dims);
}

/* Of four dimensions; what its functions capture is no mask. */
keel_status keel_shape_flex_attention(keel_infer *infer) {
  keel_infer own = *infer;
  own.input_count = 3;
  if (infer->in[0]->rank != 4)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "Q, K and V must be [batch,heads,rows,size]");
  return keel_shape_attention(&own);
}
