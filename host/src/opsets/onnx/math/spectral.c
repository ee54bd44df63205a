/* spectral.c - windows, Fourier transforms and the mel scale: shapes, forms of older opsets,
 * work. */
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/work.h"

keel_status keel_shape_window(keel_infer *infer) {
  int64_t size = 0;
  int64_t count = keel_infer_ints(infer, 0, &size, 1);
  if (count < 0) return KD_INVALID_ARGUMENT;
  int64_t to = keel_attr_int(infer->op, "output_datatype", KD_F32);
  if (count != 1 || size < 0 || to <= 0 || to >= (int64_t)KD_DTYPE_COUNT)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "size is %lld, and output_datatype %lld; they must "
                           "be one number, 0 or more, and an element type",
                           (long long)size, (long long)to);
  infer->dtypes[0] = (kd_dtype)to;
  return keel_infer_out(infer, 0, 1, &size);
}

keel_status keel_shape_dft(keel_infer *infer) {
  int64_t length = 0, along = -2;
  int64_t count = keel_infer_ints(infer, 1, &length, 1);
  int64_t placed = keel_infer_ints(infer, 2, &along, 1);
  uint32_t axis = 0;
  keel_dims dims = keel_dims_of(infer->in[0]);
  bool half = keel_attr_int(infer->op, "onesided", 0) != 0;
  bool inverse = keel_attr_int(infer->op, "inverse", 0) != 0;
  if (count < 0 || placed < 0) return KD_INVALID_ARGUMENT;
  KEEL_TRY(keel_infer_axis(infer, along, dims.rank, &axis));
  if (dims.rank < 2 || axis == dims.rank - 1 || dims.dims[dims.rank - 1] < 1 ||
      dims.dims[dims.rank - 1] > 2 || length < 0 || !keel_is_plausible(length))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "needs [..., 1 or 2] and an axis before the last");
  if (half && inverse && dims.dims[dims.rank - 1] != 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the inverse of one side needs [..., 2]");
  /* the inverse of one side is real, and by default as long as an even length */
  int64_t size = count             ? length
                 : half && inverse ? 2 * (dims.dims[axis] - 1)
                                   : dims.dims[axis];
  dims.dims[axis] = half && !inverse ? size / 2 + 1 : size;
  dims.dims[dims.rank - 1] = half && inverse ? 1 : 2;
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_stft(keel_infer *infer) {
  const keel_type *signal = infer->in[0], *window = keel_infer_in(infer, 2);
  int64_t step = 0, size = 0;
  int64_t has_step = keel_infer_ints(infer, 1, &step, 1);
  int64_t has_size = keel_infer_ints(infer, 3, &size, 1);
  if (has_step < 0 || has_size < 0) return KD_INVALID_ARGUMENT;
  if (!has_size && window) size = window->elements;
  bool is_complex = signal->rank == 3 && signal->dims[2] == 2;
  if (signal->rank < 2 || signal->rank > 3 ||
      (signal->rank == 3 && (signal->dims[2] < 1 || signal->dims[2] > 2)))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "signal is [batch, samples] or [batch, samples, 1"
                           " or 2]");
  if (has_step != 1 || step < 1 || !keel_is_plausible(step) || size < 1 ||
      size > signal->dims[1] ||
      (window && (window->rank != 1 || window->elements != size)))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "frames of %lld samples, %lld apart, don't fit a signal of %lld",
        (long long)size, (long long)step, (long long)signal->dims[1]);
  bool half = keel_attr_int(infer->op, "onesided", 1) != 0 && !is_complex;
  int64_t dims[4] = {signal->dims[0], (signal->dims[1] - size) / step + 1,
                     half ? size / 2 + 1 : size, 2};
  return keel_infer_out(infer, 0, 4, dims);
}

keel_status keel_shape_mel(keel_infer *infer) {
  int64_t mels = 0, size = 0;
  int64_t has_mels = keel_infer_ints(infer, 0, &mels, 1);
  int64_t has_size = keel_infer_ints(infer, 1, &size, 1);
  if (has_mels < 0 || has_size < 0) return KD_INVALID_ARGUMENT;
  int64_t to = keel_attr_int(infer->op, "output_datatype", KD_F32);
  if (has_mels != 1 || has_size != 1 || mels < 1 || size < 1 ||
      !keel_is_plausible(mels) || !keel_is_plausible(size) || to <= 0 ||
      to >= (int64_t)KD_DTYPE_COUNT)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "num_mel_bins is %lld, dft_length %lld; each must be one number, 1 or "
        "more, and output_datatype an element type",
        (long long)mels, (long long)size);
  int64_t dims[2] = {size / 2 + 1, mels};
  infer->dtypes[0] = (kd_dtype)to;
  return keel_infer_out(infer, 0, 2, dims);
}

/* ---- older opsets ----------------------------------------------------------- */

static keel_status old_dft(keel_draft *draft) {
  const keel_attr *given = keel_upgrade_attr(draft, "axis", KD_ATTR_INT);
  int64_t axis = given ? given->i : 1;
  keel_upgrade_drop(draft, "axis");
  return keel_upgrade_input(draft, 2, KD_I64, 0, 1, &axis);
}

/* ---- work of kernels ---------------------------------------------------------- */

static uint64_t dft_steps(const keel_work *work) {
  return keel_work_each(work, keel_plus(work->written, 1));
}

static uint64_t stft_steps(const keel_work *work) {
  return keel_work_each(work, keel_plus(keel_work_dim(work->in[0], 1), 1));
}

/* ---- rows --------------------------------------------------------------------- */

static const keel_op_upgrade upgrades[] = {
    {"DFT", 17, 20, old_dft},
};

static const keel_op_rule rules[] = {
    {"DFT", .steps = dft_steps},
    {"STFT", .steps = stft_steps},
};

const keel_op_table keel_ops_spectral = {KEEL_TABLE_RULES(rules),
                                         KEEL_TABLE_UPGRADES(upgrades)};
