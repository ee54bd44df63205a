/* data.c - shape functions of ops that move, select and make data. */
#include <kd/help.h>

#include "base/float.h"
#include "opsets/shapes.h"

/* ---- the same elements in another shape ----------------------------------- */

keel_status keel_shape_transpose(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  const int64_t *perm = NULL;
  int64_t count = keel_attr_ints(infer->op, "perm", &perm);
  keel_dims dims = {.rank = in->rank};
  bool used[KD_MAX_RANK] = {false};
  if (count >= 0 && count != in->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "perm has %lld entries, and the input %u dimensions",
                           (long long)count, (unsigned)in->rank);
  for (uint32_t i = 0; i < in->rank; i++) {
    int64_t from = count >= 0 ? perm[i] : (int64_t)in->rank - 1 - i;
    if (from < 0 || from >= (int64_t)in->rank || used[from])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "perm is not a permutation");
    used[from] = true;
    dims.dims[i] = in->dims[from];
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_reshape(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  keel_dims dims = {0};
  int64_t count = keel_infer_ints(infer, 1, dims.dims, KD_MAX_RANK);
  bool zero = keel_attr_int(infer->op, "allowzero", 0) != 0;
  int64_t product = 1, open = -1;
  if (count < 0) return KD_INVALID_ARGUMENT;
  dims.rank = (uint32_t)count;
  for (uint32_t i = 0; i < dims.rank; i++) {
    if (dims.dims[i] == 0 && !zero) {
      if (i >= in->rank)
        return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                               "shape[%u] is 0, and data has no such dimension",
                               (unsigned)i);
      dims.dims[i] = in->dims[i];
    }
    if (dims.dims[i] == -1 && open < 0)
      open = i;
    else if (dims.dims[i] < 0 || !keel_mul_i64(product, dims.dims[i], &product))
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT,
          "shape[%u] is %lld; it can be 0 or more, or -1 once", (unsigned)i,
          (long long)dims.dims[i]);
  }
  if (open >= 0) {
    if (product == 0 || in->elements % product)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "%lld elements do not fill the shape",
                             (long long)in->elements);
    dims.dims[open] = in->elements / product;
    product = in->elements;
  }
  if (product != in->elements)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the shape has %lld elements and the data %lld",
                           (long long)product, (long long)in->elements);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_flatten(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t axis = keel_attr_int(infer->op, "axis", 1);
  if (axis < -(int64_t)in->rank || axis > (int64_t)in->rank)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT, "axis is %lld; it can be from -%u to %u",
        (long long)axis, (unsigned)in->rank, (unsigned)in->rank);
  if (axis < 0) axis += in->rank;
  keel_dims dims = {.rank = 2, .dims = {1, 1}};
  for (uint32_t i = 0; i < in->rank; i++)
    dims.dims[i >= axis] *= in->dims[i];
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_squeeze(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t axes[KD_MAX_RANK];
  int64_t count = keel_infer_ints(infer, 1, axes, KD_MAX_RANK);
  uint32_t gone = 0;
  if (count < 0) return KD_INVALID_ARGUMENT;
  bool all = !keel_infer_in(infer, 1);
  for (int64_t i = 0; i < count; i++) {
    uint32_t axis = 0;
    KEEL_TRY(keel_infer_new_axis(infer, axes[i], in->rank, &gone, &axis));
    if (in->dims[axis] != 1)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "axis %u has %lld elements, not 1", (unsigned)axis,
                             (long long)in->dims[axis]);
  }
  keel_dims dims = {0};
  for (uint32_t i = 0; i < in->rank; i++)
    if (!(gone >> i & 1) && !(all && in->dims[i] == 1))
      dims.dims[dims.rank++] = in->dims[i];
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_unsqueeze(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t axes[KD_MAX_RANK];
  int64_t count = keel_infer_ints(infer, 1, axes, KD_MAX_RANK);
  uint32_t fresh = 0;
  if (count < 0) return KD_INVALID_ARGUMENT;
  keel_dims dims = {.rank = in->rank + (uint32_t)count};
  if (dims.rank > KD_MAX_RANK)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "too many dimensions");
  for (int64_t i = 0; i < count; i++) {
    uint32_t axis = 0;
    KEEL_TRY(keel_infer_new_axis(infer, axes[i], dims.rank, &fresh, &axis));
  }
  for (uint32_t i = 0, from = 0; i < dims.rank; i++)
    dims.dims[i] = fresh >> i & 1 ? 1 : in->dims[from++];
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_reverse_sequence(keel_infer *infer) {
  const keel_type *in = infer->in[0], *lengths = infer->in[1];
  int64_t batch = keel_attr_int(infer->op, "batch_axis", 1);
  int64_t time = keel_attr_int(infer->op, "time_axis", 0);
  if (in->rank < 2 || batch < 0 || batch > 1 || time != 1 - batch)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "batch_axis is %lld and time_axis %lld, and one has to"
        " be 0, the other 1",
        (long long)batch, (long long)time);
  if (lengths->rank != 1 || lengths->dims[0] != in->dims[batch])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "one length is needed for each of %lld sequences",
                           (long long)in->dims[batch]);
  return keel_shape_same(infer);
}

keel_status keel_shape_depth_to_space(keel_infer *infer) {
  int64_t b = keel_attr_int(infer->op, "blocksize", 0);
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (dims.rank != 4 || b < 1 || b > 65536 || dims.dims[1] % (b * b))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "needs N,C,H,W with C a multiple of blocksize %lld"
                           " squared",
                           (long long)b);
  dims.dims[1] /= b * b;
  KEEL_TRY(keel_infer_grow(infer, &dims.dims[2], b));
  KEEL_TRY(keel_infer_grow(infer, &dims.dims[3], b));
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_space_to_depth(keel_infer *infer) {
  int64_t b = keel_attr_int(infer->op, "blocksize", 0);
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (dims.rank != 4 || b < 1 || b > 65536 || dims.dims[2] % b ||
      dims.dims[3] % b)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "needs N,C,H,W with H and W multiples of blocksize"
                           " %lld",
                           (long long)b);
  KEEL_TRY(keel_infer_grow(infer, &dims.dims[1], b * b));
  dims.dims[2] /= b;
  dims.dims[3] /= b;
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- joining, cutting, repeating ------------------------------------------ */

keel_status keel_shape_expand(keel_infer *infer) {
  int64_t shape[KD_MAX_RANK];
  int64_t count = keel_infer_ints(infer, 1, shape, KD_MAX_RANK);
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (count < 0) return KD_INVALID_ARGUMENT;
  if (!keel_dims_broadcast(&dims, (uint32_t)count, shape))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the input does not broadcast to the shape");
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_concat(keel_infer *infer) {
  uint32_t axis = 0;
  keel_dims dims = keel_dims_of(infer->in[0]);
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0),
                           dims.rank, &axis));
  for (uint32_t i = 1; i < infer->input_count; i++) {
    const keel_type *in = infer->in[i];
    if (!in)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "input %u is missing",
                             (unsigned)i);
    bool fits = in->rank == dims.rank;
    for (uint32_t d = 0; fits && d < in->rank; d++)
      fits = d == axis || in->dims[d] == dims.dims[d];
    if (!fits)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT,
          "input %u differs in a dimension other than axis %u", (unsigned)i,
          (unsigned)axis);
    if (__builtin_add_overflow(dims.dims[axis], in->dims[axis],
                               &dims.dims[axis]))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "it is too long");
  }
  return keel_infer_dims(infer, 0, &dims);
}

/* Sizes of the parts, as the second input lists them or in equal parts; room is for
 * `parts`. */
static keel_status part_sizes(keel_infer *infer, int64_t total, uint32_t parts,
                              int64_t *sizes) {
  int64_t count = parts, sum = 0;
  int64_t named = keel_attr_int(infer->op, "num_outputs", parts);
  if (named != parts)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "num_outputs is %lld, and %u outputs are asked for",
                           (long long)named, (unsigned)parts);
  if (keel_infer_in(infer, 1)) {
    count = keel_infer_ints(infer, 1, sizes, parts);
    if (count < 0) return KD_INVALID_ARGUMENT;
    for (int64_t i = 0; i < count; i++)
      sum +=
          keel_is_plausible(sizes[i]) && sizes[i] >= 0 ? sizes[i] : total + 1;
  } else {
    int64_t each = total / parts + (total % parts != 0);
    for (int64_t i = 0; i < count; i++) {
      sizes[i] = total - sum < each ? total - sum : each;
      sum += sizes[i];
    }
  }
  if (count == parts && sum == total) return KD_OK;
  return keel_infer_fail(
      infer, KD_INVALID_ARGUMENT,
      "split asks for %lld parts of %lld elements in total, but"
      " there are %u parts of %lld",
      (long long)count, (long long)sum, (unsigned)parts, (long long)total);
}

keel_status keel_shape_split(keel_infer *infer) {
  uint32_t axis = 0, parts = infer->output_count;
  keel_dims dims = keel_dims_of(infer->in[0]);
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0),
                           dims.rank, &axis));
  int64_t few[64], *sizes = few;
  if (parts > KEEL_COUNT_OF(few)) sizes = malloc(parts * sizeof *sizes);
  if (!sizes) return keel_no_memory(parts * sizeof *sizes);
  keel_status status = part_sizes(infer, dims.dims[axis], parts, sizes);
  kd_dtype dtype = infer->dtypes[0];
  for (uint32_t i = 0; i < parts && status == KD_OK && !infer->unknown; i++) {
    infer->dtypes[i < KEEL_COUNT_OF(infer->dtypes) ? i : 0] = dtype;
    dims.dims[axis] = sizes[i];
    status = keel_infer_dims(infer, i, &dims);
  }
  if (sizes != few) free(sizes);
  return status;
}

/* Elements of start, start + step, ... before end, in a dimension (ONNX Slice,
 * numpy's rule). */
static int64_t slice_length(int64_t dim, int64_t start, int64_t end,
                            int64_t step) {
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
  start += start < 0 ? dim : 0;
  end += end < 0 ? dim : 0;
  start = start < low ? low : start > high ? high : start;
  end = end < low ? low : end > high ? high : end;
  int64_t span = step > 0 ? end - start : start - end;
  int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
  return span <= 0 ? 0 : (span - 1) / stride + 1;
}

keel_status keel_shape_slice(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t values[4][KD_MAX_RANK];
  int64_t counts[4] = {0};
  for (uint32_t i = 0; i < 4; i++) {
    counts[i] = keel_infer_ints(infer, i + 1, values[i], KD_MAX_RANK);
    if (counts[i] < 0) return KD_INVALID_ARGUMENT;
  }
  bool axes = keel_infer_in(infer, 3) != NULL;
  bool steps = keel_infer_in(infer, 4) != NULL;
  if (counts[0] != counts[1] || (axes && counts[2] != counts[0]) ||
      (steps && counts[3] != counts[0]) || counts[0] > (int64_t)in->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "starts, ends, axes and steps differ in length");
  keel_dims dims = keel_dims_of(in);
  uint32_t seen = 0;
  for (int64_t i = 0; i < counts[0]; i++) {
    uint32_t axis = 0;
    int64_t step = steps ? values[3][i] : 1;
    KEEL_TRY(keel_infer_new_axis(infer, axes ? values[2][i] : i, in->rank,
                                 &seen, &axis));
    if (step == 0)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "a step is 0");
    dims.dims[axis] =
        slice_length(in->dims[axis], values[0][i], values[1][i], step);
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_pad(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t pads[2 * KD_MAX_RANK], axes[KD_MAX_RANK];
  int64_t count = keel_infer_ints(infer, 1, pads, 2 * KD_MAX_RANK);
  int64_t named = keel_infer_ints(infer, 3, axes, KD_MAX_RANK);
  if (count < 0 || named < 0) return KD_INVALID_ARGUMENT;
  if (!keel_infer_in(infer, 3)) {
    named = in->rank;
    for (uint32_t i = 0; i < in->rank; i++)
      axes[i] = i;
  }
  if (count != 2 * named)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "pads has %lld entries, not %lld", (long long)count,
                           (long long)(2 * named));
  keel_dims dims = keel_dims_of(in);
  uint32_t seen = 0;
  for (int64_t i = 0; i < named; i++) {
    uint32_t axis = 0;
    KEEL_TRY(keel_infer_new_axis(infer, axes[i], in->rank, &seen, &axis));
    if (!keel_is_plausible(pads[i]) || !keel_is_plausible(pads[i + named]))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "pads are too large");
    dims.dims[axis] += pads[i] + pads[i + named];
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_tile(keel_infer *infer) {
  int64_t repeats[KD_MAX_RANK];
  keel_dims dims = keel_dims_of(infer->in[0]);
  int64_t count = keel_infer_ints(infer, 1, repeats, KD_MAX_RANK);
  if (count < 0) return KD_INVALID_ARGUMENT;
  if (count != dims.rank)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "repeats has %lld entries, and the input %u dimensions",
        (long long)count, (unsigned)dims.rank);
  for (uint32_t i = 0; i < dims.rank; i++)
    if (repeats[i] < 0 ||
        !keel_mul_i64(dims.dims[i], repeats[i], &dims.dims[i]))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "repeats[%u] is %lld, negative or too large",
                             (unsigned)i, (long long)repeats[i]);
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- gathering and scattering --------------------------------------------- */

keel_status keel_shape_gather(keel_infer *infer) {
  const keel_type *in = infer->in[0], *indices = infer->in[1];
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0), in->rank,
                           &axis));
  keel_dims dims = {0};
  if (in->rank + indices->rank - 1 > KD_MAX_RANK)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "too many dimensions");
  for (uint32_t i = 0; i < axis; i++)
    dims.dims[dims.rank++] = in->dims[i];
  for (uint32_t i = 0; i < indices->rank; i++)
    dims.dims[dims.rank++] = indices->dims[i];
  for (uint32_t i = axis + 1; i < in->rank; i++)
    dims.dims[dims.rank++] = in->dims[i];
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_gather_elements(keel_infer *infer) {
  const keel_type *in = infer->in[0], *indices = infer->in[1];
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0), in->rank,
                           &axis));
  bool fits = indices->rank == in->rank;
  for (uint32_t i = 0; fits && i < in->rank; i++)
    fits = i == axis || indices->dims[i] <= in->dims[i];
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "indices must fit into data beside axis %u",
                           (unsigned)axis);
  keel_dims dims = keel_dims_of(indices);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_gather_nd(keel_infer *infer) {
  const keel_type *in = infer->in[0], *indices = infer->in[1];
  int64_t batch = keel_attr_int(infer->op, "batch_dims", 0);
  if (!indices->rank || batch < 0 || batch >= (int64_t)indices->rank ||
      batch >= (int64_t)in->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "batch_dims is %lld; it must be 0 or more, and less "
                           "than the ranks of data and indices",
                           (long long)batch);
  int64_t depth = indices->dims[indices->rank - 1];
  if (depth < 1 || depth > (int64_t)in->rank - batch)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the last dimension of indices is %lld; it must be "
                           "from 1 to the rank of data less batch_dims",
                           (long long)depth);
  for (int64_t i = 0; i < batch; i++)
    if (in->dims[i] != indices->dims[i])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "batch dimension %lld of data and indices differs",
                             (long long)i);
  keel_dims dims = {0};
  if (indices->rank - 1 + in->rank - (uint32_t)(batch + depth) > KD_MAX_RANK)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "too many dimensions");
  for (uint32_t i = 0; i + 1 < indices->rank; i++)
    dims.dims[dims.rank++] = indices->dims[i];
  for (uint32_t i = (uint32_t)(batch + depth); i < in->rank; i++)
    dims.dims[dims.rank++] = in->dims[i];
  return keel_infer_dims(infer, 0, &dims);
}

/* ScatterND: updates are indices' dims but the last, then data's rest. */
static keel_status scatter_nd(keel_infer *infer) {
  const keel_type *in = infer->in[0], *indices = infer->in[1],
                  *updates = infer->in[2];
  int64_t depth = indices->rank ? indices->dims[indices->rank - 1] : 0;
  bool fits = depth >= 1 && depth <= (int64_t)in->rank &&
              updates->rank == indices->rank - 1 + in->rank - (uint32_t)depth;
  for (uint32_t i = 0; fits && i < updates->rank; i++)
    fits = updates->dims[i] ==
           (i + 1 < indices->rank
                ? indices->dims[i]
                : in->dims[i - (indices->rank - 1) + (uint32_t)depth]);
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "updates do not fit data and indices");
  return keel_shape_same(infer);
}

keel_status keel_shape_scatter(keel_infer *infer) {
  const keel_type *in = infer->in[0], *indices = infer->in[1],
                  *updates = infer->in[2];
  uint32_t axis = 0;
  if (!strcmp(infer->op->schema->name, "ScatterND")) return scatter_nd(infer);
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0), in->rank,
                           &axis));
  bool fits = indices->rank == in->rank && updates->rank == in->rank;
  for (uint32_t i = 0; fits && i < in->rank; i++)
    fits = indices->dims[i] == updates->dims[i] &&
           (i == axis || indices->dims[i] <= in->dims[i]);
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "updates and indices must be alike and fit data");
  return keel_shape_same(infer);
}

static bool data_number_at(const keel_tensor *value, double *out_number) {
  kd_dtype dtype = value->type->dtype;
  uint64_t bits = 0;
  if (!(KD_TYPES(dtype) & KD_TYPES_INT))
    return keel_float_decode(dtype, value->data, out_number, &bits);
  uint32_t size = keel_dtype_size(dtype), unused = 64 - 8 * size;
  memcpy(&bits, value->data, size);
  *out_number = KD_TYPES(dtype) & KD_TYPES_SIGNED
                    ? (double)((int64_t)(bits << unused) >> unused)
                    : (double)bits;
  return true;
}

keel_status keel_shape_one_hot(keel_infer *infer) {
  const keel_type *indices = infer->in[0], *depth_type = infer->in[1];
  keel_tensor *value = infer->values ? infer->values[1] : NULL;
  infer->dtypes[0] = infer->in[2]->dtype;
  if (depth_type->elements != 1 || infer->in[2]->elements != 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "depth is one number, values are two");
  if (!value) {
    infer->unknown = true;
    return KD_OK;
  }
  double number = 0;
  if (!data_number_at(value, &number))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED, "depth can't be %s",
                           kd_dtype_name(depth_type->dtype));
  int64_t depth = number >= 0 && number < 1e12 ? (int64_t)number : -1;
  int64_t at = keel_attr_int(infer->op, "axis", -1);
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, at, indices->rank + 1, &axis));
  if (indices->rank + 1 > KD_MAX_RANK || depth < 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "depth is %.17g; it must be 1 to 1e12, and indices "
                           "leave room for a dimension",
                           number);
  keel_dims dims = {.rank = indices->rank + 1};
  for (uint32_t i = 0, from = 0; i < dims.rank; i++)
    dims.dims[i] = i == axis ? depth : indices->dims[from++];
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- making data ---------------------------------------------------------- */

keel_status keel_shape_dynamic(keel_infer *infer) {
  (void)infer; /* the kernel sets the shapes */
  return KD_OK;
}

/* Plans make it when types are known; programs can't contain it. */
keel_status keel_shape_region(keel_infer *infer) {
  return keel_infer_fail(
      infer, KD_UNIMPLEMENTED,
      "it is a region that a device compiled in another process; use the "
      "program as it was before the pass \"regions\"");
}

keel_status keel_shape_eye_like(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t to = keel_attr_int(infer->op, "dtype", in->dtype);
  if (in->rank != 2 || to <= 0 || to >= (int64_t)KD_DTYPE_COUNT)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "needs a matrix, and an element type as dtype");
  infer->dtypes[0] = (kd_dtype)to;
  return keel_shape_same(infer);
}

keel_status keel_shape_shape(keel_infer *infer) {
  int64_t rank = infer->in[0]->rank;
  int64_t start = keel_attr_int(infer->op, "start", 0);
  int64_t end = keel_attr_int(infer->op, "end", rank);
  start += start < 0 ? rank : 0;
  end += end < 0 ? rank : 0;
  start = start < 0 ? 0 : start > rank ? rank : start;
  end = end < 0 ? 0 : end > rank ? rank : end;
  int64_t count = end > start ? end - start : 0;
  return keel_infer_out(infer, 0, 1, &count);
}

keel_status keel_shape_size(keel_infer *infer) {
  return keel_infer_out(infer, 0, 0, NULL);
}

keel_status keel_shape_constant(keel_infer *infer) {
  const keel_opdef *op = infer->op;
  const keel_node_attr *attr = op->attr_count ? &op->attrs[0] : NULL;
  if (op->attr_count != 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "needs one attribute with the value");
  int64_t count = attr->value.count;
  switch (attr->value.kind) {
    case KD_ATTR_TENSOR: {
      const keel_type *type = attr->value.tensor->type;
      infer->dtypes[0] = type->dtype;
      return keel_infer_out(infer, 0, type->rank, type->dims);
    }
    case KD_ATTR_INT:
    case KD_ATTR_INTS:
      infer->dtypes[0] = KD_I64;
      break;
    case KD_ATTR_FLOAT:
    case KD_ATTR_FLOATS:
      infer->dtypes[0] = KD_F32;
      break;
    default:
      infer->dtypes[0] = KD_STRING;
  }
  bool list = attr->value.kind == KD_ATTR_INTS ||
              attr->value.kind == KD_ATTR_FLOATS ||
              attr->value.kind == KD_ATTR_STRINGS;
  return keel_infer_out(infer, 0, list ? 1 : 0, &count);
}

keel_status keel_shape_constant_of_shape(keel_infer *infer) {
  keel_dims dims = {0};
  int64_t count = keel_infer_ints(infer, 0, dims.dims, KD_MAX_RANK);
  if (count < 0) return KD_INVALID_ARGUMENT;
  const keel_node_attr *value = keel_attr_find(infer->op, "value");
  if (value && value->value.tensor->type->elements != 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "attribute \"value\" is not one element");
  infer->dtypes[0] = value ? value->value.tensor->type->dtype : KD_F32;
  dims.rank = (uint32_t)count;
  return keel_infer_dims(infer, 0, &dims);
}

/* A number as it is: `whole` of the integer types, else `real`. */
typedef struct number {
  bool is_whole;
  int64_t whole;
  double real;
} number;

static bool range_number(const keel_tensor *value, number *out) {
  kd_dtype dtype = value->type->dtype;
  *out = (number){.is_whole = (KD_TYPES_SIGNED & KD_TYPES(dtype)) != 0};
  if (!data_number_at(value, &out->real)) return false;
  if (dtype == KD_I64)
    out->whole = *(const int64_t *)value->data; /* a double may be another */
  else if (out->is_whole)
    out->whole = (int64_t)out->real;
  return true;
}

static double as_real(const number *from) {
  return from->is_whole ? (double)from->whole : from->real;
}

#define RANGE_MOST 1e12

/* Numbers from one to another by steps, the last not among them; -1 where their count is
 * beyond reason. */
static int64_t range_length(const number *from, const number *to,
                            const number *step) {
  if (!from->is_whole) {
    double span = (to->real - from->real) / step->real;
    if (!(span < RANGE_MOST)) return -1;
    int64_t count = span > 0 ? (int64_t)span : 0;
    return count + ((double)count < span);
  }
  if (!step->whole) return -1;
  /* the distance of two int64s needs 65 bits */
  bool up = step->whole > 0;
  uint64_t by = up ? (uint64_t)step->whole : -(uint64_t)step->whole;
  if (up ? to->whole <= from->whole : to->whole >= from->whole) return 0;
  uint64_t span = up ? (uint64_t)to->whole - (uint64_t)from->whole
                     : (uint64_t)from->whole - (uint64_t)to->whole;
  uint64_t count = span / by + (span % by != 0);
  return (double)count < RANGE_MOST ? (int64_t)count : -1;
}

/* Range: max(ceil((limit - start) / delta), 0) elements (ONNX Range-27), of f16 and bf16
 * by numbers of a wider type. */
keel_status keel_shape_range(keel_infer *infer) {
  number numbers[3];
  int64_t stash = keel_attr_int(infer->op, "stash_type", KD_F32);
  bool narrow = infer->in[0]->dtype == KD_F16 || infer->in[0]->dtype == KD_BF16;
  if (narrow && stash != KD_F32 && stash != KD_F64)
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "stash_type is %lld; it can be f32 (1) or f64 (11)",
                           (long long)stash);
  for (uint32_t i = 0; i < 3; i++) {
    if (infer->in[i]->elements != 1)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "start, limit and delta are one number each");
    if (!infer->values || !infer->values[i]) {
      infer->unknown = true;
      return KD_OK;
    }
    if (!range_number(infer->values[i], &numbers[i]))
      return keel_infer_fail(infer, KD_UNIMPLEMENTED, "can't be of %s",
                             kd_dtype_name(infer->in[i]->dtype));
  }
  int64_t count = range_length(&numbers[0], &numbers[1], &numbers[2]);
  if (count < 0)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "from %g to %g by %g has no sensible length",
                           as_real(&numbers[0]), as_real(&numbers[1]),
                           as_real(&numbers[2]));
  return keel_infer_out(infer, 0, 1, &count);
}

/* ---- keel's own ----------------------------------------------------------------- */

/* All keys have one shape. */
keel_status keel_shape_arg_sort(keel_infer *infer) {
  const keel_type *x = keel_infer_in(infer, 0);
  uint32_t axis = 0;
  if (!x) return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "needs a key");
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", -1), x->rank,
                           &axis));
  for (uint32_t i = 0; i < infer->input_count; i++) {
    const keel_type *key = infer->in[i];
    if (!key || key->rank != x->rank ||
        (x->rank && memcmp(key->dims, x->dims, x->rank * sizeof *x->dims) != 0))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "key %u has another shape than key 0",
                             (unsigned)i);
    if (key->dtype == KD_C64 || key->dtype == KD_C128)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "key %u: complex numbers have no order",
                             (unsigned)i);
    if (!(KD_TYPES_PLAIN & KD_TYPES(key->dtype))) /* a mixed input's are any */
      return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                             "key %u is %s, which is not sorted", (unsigned)i,
                             kd_dtype_name(key->dtype));
  }
  return keel_infer_out(infer, 0, x->rank, x->dims);
}

/* Input `index` has a number for each dimension. */
static keel_status check_starts(const keel_infer *infer, uint32_t index,
                                uint32_t rank) {
  const keel_type *starts = infer->in[index];
  return starts->rank == 1 && starts->dims[0] == (int64_t)rank
             ? KD_OK
             : keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                               "starts must have %u numbers, one for each"
                               " dimension",
                               (unsigned)rank);
}

static keel_status check_part(const keel_infer *infer, const char *what,
                              uint32_t rank, const int64_t *sizes) {
  const keel_type *x = infer->in[0];
  if (rank != x->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s has %u dimensions, and X %u", what,
                           (unsigned)rank, (unsigned)x->rank);
  for (uint32_t i = 0; i < rank; i++)
    if (sizes[i] < 0 || sizes[i] > x->dims[i])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "%s is larger than X, or less than nothing, in"
                             " dimension %u",
                             what, (unsigned)i);
  return KD_OK;
}

keel_status keel_shape_dynamic_slice(keel_infer *infer) {
  const int64_t *sizes = NULL;
  int64_t count = keel_attr_ints(infer->op, "sizes", &sizes);
  KEEL_TRY(check_part(infer, "sizes", (uint32_t)count, sizes));
  KEEL_TRY(check_starts(infer, 1, (uint32_t)count));
  return keel_infer_out(infer, 0, (uint32_t)count, sizes);
}

keel_status keel_shape_dynamic_update(keel_infer *infer) {
  const keel_type *x = infer->in[0], *update = infer->in[1];
  KEEL_TRY(check_part(infer, "update", update->rank, update->dims));
  KEEL_TRY(check_starts(infer, 2, x->rank));
  return keel_infer_out(infer, 0, x->rank, x->dims);
}

/* Known after the run. */
keel_status keel_shape_by_content(keel_infer *infer) {
  infer->unknown = true;
  return KD_OK;
}
