/* data.c - ops that move elements, or make them from indices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

/* ---- coordinates ---------------------------------------------------------------- */

static void data_place(int64_t index, uint32_t rank, const int64_t *dims,
                       int64_t *out_at) {
  for (uint32_t i = rank; i-- > 0;) {
    out_at[i] = dims[i] ? index % dims[i] : 0;
    index = dims[i] ? index / dims[i] : 0;
  }
}

static int64_t offset(uint32_t rank, const int64_t *dims, const int64_t *at) {
  int64_t index = 0;
  for (uint32_t i = 0; i < rank; i++)
    index = index * dims[i] + at[i];
  return index;
}

static real data_at(const value *from, const int64_t *place) {
  return from->x[offset(from->rank, from->dims, place)];
}

static int64_t data_whole(const value *from, int64_t index) {
  return (int64_t)from->x[index];
}

static int64_t wrapped(int64_t index, int64_t dim) {
  return index < 0 ? index + dim : index;
}

/* ---- shapes change, elements stay ------------------------------------------------ */

static bool run_transpose(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  int64_t perm[KD_MAX_RANK], to[KD_MAX_RANK], from[KD_MAX_RANK];
  int64_t n = ref_ints(call, "perm", perm, KD_MAX_RANK);
  for (uint32_t i = 0; i < in->rank && n < 0; i++)
    perm[i] = (int64_t)(in->rank - 1 - i);
  for (int64_t i = 0; i < out->count; i++) {
    data_place(i, out->rank, out->dims, to);
    for (uint32_t d = 0; d < in->rank; d++)
      from[perm[d]] = to[d];
    out->x[i] = data_at(in, from);
  }
  return true;
}

static bool run_expand(ref_call *call) {
  value *out = call->out[0];
  for (int64_t i = 0; i < out->count; i++)
    out->x[i] = call->in[0]->x[broadcast_index(call->in[0], out, i)];
  return true;
}

static bool run_concat(ref_call *call) {
  value *out = call->out[0];
  uint32_t axis = ref_axis(ref_int(call, "axis", 0), out->rank);
  int64_t base = 0, to[KD_MAX_RANK];
  for (uint32_t k = 0; k < call->in_count; k++) {
    const value *in = call->in[k];
    for (int64_t i = 0; i < in->count; i++) {
      data_place(i, in->rank, in->dims, to);
      to[axis] += base;
      out->x[offset(out->rank, out->dims, to)] = in->x[i];
    }
    base += in->dims[axis];
  }
  return true;
}

static bool run_split(ref_call *call) {
  const value *in = call->in[0];
  uint32_t axis = ref_axis(ref_int(call, "axis", 0), in->rank);
  int64_t base = 0, from[KD_MAX_RANK];
  for (uint32_t k = 0; k < call->out_count; k++) {
    value *out = call->out[k];
    if (!out) return false;
    for (int64_t i = 0; i < out->count; i++) {
      data_place(i, out->rank, out->dims, from);
      from[axis] += base;
      out->x[i] = data_at(in, from);
    }
    base += out->dims[axis];
  }
  return true;
}

static bool run_slice(ref_call *call) {
  const value *in = call->in[0], *starts = call->in[1], *ends = call->in[2];
  const value *axes = ref_in(call, 3), *steps = ref_in(call, 4);
  value *out = call->out[0];
  int64_t begin[KD_MAX_RANK] = {0}, step[KD_MAX_RANK], from[KD_MAX_RANK];
  (void)ends;
  for (uint32_t d = 0; d < in->rank; d++)
    step[d] = 1;
  for (int64_t i = 0; i < starts->count; i++) {
    uint32_t axis = ref_axis(axes ? data_whole(axes, i) : i, in->rank);
    int64_t dim = in->dims[axis], s = data_whole(starts, i);
    step[axis] = steps ? data_whole(steps, i) : 1;
    if (s < 0) s += dim;
    int64_t most = step[axis] < 0 ? dim - 1 : dim;
    begin[axis] = s < 0 ? 0 : s > most ? most : s;
  }
  for (int64_t i = 0; i < out->count; i++) {
    data_place(i, out->rank, out->dims, from);
    for (uint32_t d = 0; d < in->rank; d++)
      from[d] = begin[d] + from[d] * step[d];
    out->x[i] = data_at(in, from);
  }
  return true;
}

static int64_t fold(int64_t i, int64_t dim, int mode) {
  if (i >= 0 && i < dim) return i;
  if (mode == 1) return i < 0 ? 0 : dim - 1;     /* edge */
  if (mode == 3) return ((i % dim) + dim) % dim; /* wrap */
  int64_t period = dim > 1 ? 2 * (dim - 1) : 1;  /* reflect */
  i = ((i % period) + period) % period;
  return i < dim ? i : period - i;
}

static bool run_pad(ref_call *call) {
  const value *in = call->in[0], *pads = call->in[1];
  const value *fill = ref_in(call, 2), *axes = ref_in(call, 3);
  value *out = call->out[0];
  int mode = ref_text_is(call, "mode", "constant", "constant")  ? 0
             : ref_text_is(call, "mode", "constant", "edge")    ? 1
             : ref_text_is(call, "mode", "constant", "reflect") ? 2
                                                                : 3;
  int64_t before[KD_MAX_RANK] = {0}, from[KD_MAX_RANK];
  int64_t half = pads->count / 2;
  for (int64_t i = 0; i < half; i++)
    before[ref_axis(axes ? data_whole(axes, i) : i, in->rank)] =
        data_whole(pads, i);
  for (int64_t i = 0; i < out->count; i++) {
    bool inside = true;
    data_place(i, out->rank, out->dims, from);
    for (uint32_t d = 0; d < in->rank; d++) {
      from[d] -= before[d];
      if (mode)
        from[d] = fold(from[d], in->dims[d], mode);
      else
        inside &= from[d] >= 0 && from[d] < in->dims[d];
    }
    out->x[i] = inside ? data_at(in, from) : fill ? fill->x[0] : 0;
  }
  return true;
}

static bool run_tile(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  int64_t from[KD_MAX_RANK];
  for (int64_t i = 0; i < out->count; i++) {
    data_place(i, out->rank, out->dims, from);
    for (uint32_t d = 0; d < in->rank; d++)
      from[d] %= in->dims[d];
    out->x[i] = data_at(in, from);
  }
  return true;
}

static bool run_depth_space(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  int64_t b = ref_int(call, "blocksize", 1), to[4], from[4];
  bool crd = ref_text_is(call, "mode", "DCR", "CRD");
  /* both ways: the deep side has b b as many channels as the flat one */
  const value *deep = call->variant == 0 ? in : out;
  const value *flat = call->variant == 0 ? out : in;
  int64_t channels = flat->dims[1];
  for (int64_t i = 0; i < flat->count; i++) {
    data_place(i, 4, flat->dims, to);
    int64_t y = to[2] % b, x = to[3] % b;
    from[0] = to[0];
    from[1] = crd ? (to[1] * b + y) * b + x : (y * b + x) * channels + to[1];
    from[2] = to[2] / b;
    from[3] = to[3] / b;
    int64_t other = offset(4, deep->dims, from);
    if (call->variant == 0)
      out->x[i] = in->x[other];
    else
      out->x[other] = in->x[i];
  }
  return true;
}

static bool run_reverse_sequence(ref_call *call) {
  const value *in = call->in[0], *lengths = call->in[1];
  value *out = call->out[0];
  uint32_t batch = (uint32_t)ref_int(call, "batch_axis", 1);
  uint32_t time = (uint32_t)ref_int(call, "time_axis", 0);
  int64_t from[KD_MAX_RANK];
  for (int64_t i = 0; i < out->count; i++) {
    data_place(i, out->rank, out->dims, from);
    int64_t length = data_whole(lengths, from[batch]);
    if (from[time] < length) from[time] = length - 1 - from[time];
    out->x[i] = data_at(in, from);
  }
  return true;
}

static bool run_trilu(ref_call *call) {
  const value *in = call->in[0], *k = ref_in(call, 1);
  value *out = call->out[0];
  int64_t shift = k && k->count ? data_whole(k, 0) : 0;
  bool upper = ref_int(call, "upper", 1) != 0;
  int64_t rows = in->dims[in->rank - 2], columns = in->dims[in->rank - 1];
  for (int64_t i = 0; i < out->count; i++) {
    int64_t column = i % columns, row = i / columns % rows;
    bool keep = upper ? column - row >= shift : column - row <= shift;
    out->x[i] = keep ? in->x[i] : 0;
  }
  return true;
}

/* ---- by index ---------------------------------------------------------------------- */

static bool run_gather(ref_call *call) {
  const value *in = call->in[0], *indices = call->in[1];
  value *out = call->out[0];
  uint32_t axis = ref_axis(ref_int(call, "axis", 0), in->rank);
  int64_t to[KD_MAX_RANK], from[KD_MAX_RANK];
  for (int64_t i = 0; i < out->count; i++) {
    data_place(i, out->rank, out->dims, to);
    for (uint32_t d = 0; d < axis; d++)
      from[d] = to[d];
    for (uint32_t d = axis + 1; d < in->rank; d++)
      from[d] = to[d - 1 + indices->rank];
    int64_t which = offset(indices->rank, indices->dims, to + axis);
    from[axis] = wrapped(data_whole(indices, which), in->dims[axis]);
    out->x[i] = data_at(in, from);
  }
  return true;
}

static bool run_gather_elements(ref_call *call) {
  const value *in = call->in[0], *indices = call->in[1];
  value *out = call->out[0];
  uint32_t axis = ref_axis(ref_int(call, "axis", 0), in->rank);
  int64_t from[KD_MAX_RANK];
  for (int64_t i = 0; i < out->count; i++) {
    data_place(i, out->rank, out->dims, from);
    from[axis] = wrapped(data_whole(indices, i), in->dims[axis]);
    out->x[i] = data_at(in, from);
  }
  return true;
}

static bool run_gather_nd(ref_call *call) {
  const value *in = call->in[0], *indices = call->in[1];
  value *out = call->out[0];
  int64_t batch = ref_int(call, "batch_dims", 0);
  int64_t deep = indices->dims[indices->rank - 1], from[KD_MAX_RANK];
  int64_t to[KD_MAX_RANK];
  uint32_t lead = indices->rank - 1;
  for (int64_t i = 0; i < out->count; i++) {
    data_place(i, out->rank, out->dims, to);
    for (int64_t d = 0; d < batch; d++)
      from[d] = to[d];
    int64_t which = offset(lead, indices->dims, to) * deep;
    for (int64_t d = 0; d < deep; d++)
      from[batch + d] =
          wrapped(data_whole(indices, which + d), in->dims[batch + d]);
    for (uint32_t d = (uint32_t)(batch + deep), k = lead; d < in->rank; d++)
      from[d] = to[k++];
    out->x[i] = data_at(in, from);
  }
  return true;
}

static real data_reduce(const ref_call *call, real old, real update) {
  if (ref_text_is(call, "reduction", "none", "add")) return old + update;
  if (ref_text_is(call, "reduction", "none", "mul")) return old * update;
  if (ref_text_is(call, "reduction", "none", "max"))
    return update > old ? update : old;
  if (ref_text_is(call, "reduction", "none", "min"))
    return update < old ? update : old;
  return update;
}

static bool scatter_sums(const ref_call *call, const value *out) {
  return dtype_is_float(out->dtype) &&
         (ref_text_is(call, "reduction", "none", "add") ||
          ref_text_is(call, "reduction", "none", "mul"));
}

/* Each update goes to the output, in its type: a large partial sum costs what its
 * rounding does, and one that overflows leaves nothing to compare. */
static void scatter_update(const ref_call *call, value *out, real *target,
                           real update) {
  *target = data_reduce(call, *target, update);
  if (!scatter_sums(call, out) || isnan(*target)) return;
  real unit = dtype_unit(out->dtype == KD_F64 ? KD_F64 : KD_F32);
  real size = fabsl(*target);
  value_slack(out)[target - out->x] +=
      size > dtype_max(out->dtype) && isfinite(size) ? INFINITY
      : isfinite(size) ? 2 * size * dtype_unit(out->dtype) / unit
                       : 0;
}

static void scatter_limits(const ref_call *call, value *out) {
  if (!scatter_sums(call, out)) return;
  out->ulps = 4;
  value_slack(out);
  for (int64_t i = 0; i < out->count; i++)
    out->slack[i] += 16;
}

static void data_finish(value *out) {
  for (int64_t i = 0; i < out->count; i++)
    if (!dtype_is_float(out->dtype))
      out->x[i] = dtype_round(out->x[i], out->dtype);
}

static bool run_scatter_elements(ref_call *call) {
  const value *in = call->in[0], *indices = call->in[1];
  const value *updates = call->in[2];
  value *out = call->out[0];
  uint32_t axis = ref_axis(ref_int(call, "axis", 0), in->rank);
  int64_t to[KD_MAX_RANK];
  memcpy(out->x, in->x, (size_t)in->count * sizeof *in->x);
  for (int64_t i = 0; i < indices->count; i++) {
    data_place(i, indices->rank, indices->dims, to);
    to[axis] = wrapped(data_whole(indices, i), in->dims[axis]);
    scatter_update(call, out, &out->x[offset(out->rank, out->dims, to)],
                   updates->x[i]);
  }
  data_finish(out);
  scatter_limits(call, out);
  return true;
}

static bool run_scatter_nd(ref_call *call) {
  const value *in = call->in[0], *indices = call->in[1];
  const value *updates = call->in[2];
  value *out = call->out[0];
  int64_t deep = indices->dims[indices->rank - 1], each = 1;
  for (uint32_t d = (uint32_t)deep; d < in->rank; d++)
    each *= in->dims[d];
  memcpy(out->x, in->x, (size_t)in->count * sizeof *in->x);
  for (int64_t i = 0; deep && i < indices->count / deep; i++) {
    int64_t base = 0;
    for (int64_t d = 0; d < deep; d++)
      base = base * in->dims[d] +
             wrapped(data_whole(indices, i * deep + d), in->dims[d]);
    for (int64_t k = 0; k < each; k++)
      scatter_update(call, out, &out->x[base * each + k],
                     updates->x[i * each + k]);
  }
  data_finish(out);
  scatter_limits(call, out);
  return true;
}

static bool run_one_hot(ref_call *call) {
  const value *indices = call->in[0], *values = call->in[2];
  value *out = call->out[0];
  uint32_t axis = ref_axis(ref_int(call, "axis", -1), out->rank);
  int64_t depth = out->dims[axis], to[KD_MAX_RANK], from[KD_MAX_RANK];
  for (int64_t i = 0; i < out->count; i++) {
    data_place(i, out->rank, out->dims, to);
    for (uint32_t d = 0, k = 0; d < out->rank; d++)
      if (d != axis) from[k++] = to[d];
    int64_t which =
        data_whole(indices, offset(indices->rank, indices->dims, from));
    out->x[i] = values->x[wrapped(which, depth) == to[axis]];
  }
  return true;
}

/* ---- of data's own size --------------------------------------------------------------- */

static bool run_non_zero(ref_call *call) {
  const value *in = call->in[0];
  int64_t count = 0, from[KD_MAX_RANK];
  for (int64_t i = 0; i < in->count; i++)
    count += in->x[i] != 0;
  int64_t dims[2] = {in->rank, count};
  value *out = value_make(KD_I64, 2, dims);
  if (!out) return false;
  for (int64_t i = 0, k = 0; i < in->count; i++)
    if (in->x[i] != 0) {
      data_place(i, in->rank, in->dims, from);
      for (uint32_t d = 0; d < in->rank; d++)
        out->x[d * (uint64_t)count + (uint64_t)k] = from[d];
      k++;
    }
  call->out[0] = out;
  return true;
}

static bool run_compress(ref_call *call) {
  const value *in = call->in[0], *condition = call->in[1];
  int64_t none = INT64_MAX, axis = ref_int(call, "axis", none);
  int64_t count = 0, dims[KD_MAX_RANK], from[KD_MAX_RANK];
  bool flat = axis == none;
  uint32_t a = flat ? 0 : ref_axis(axis, in->rank);
  int64_t most = flat ? in->count : in->dims[a];
  for (int64_t i = 0; i < condition->count && i < most; i++)
    count += condition->x[i] != 0;
  memcpy(dims, in->dims, sizeof dims);
  dims[a] = count;
  value *out = value_make(in->dtype, flat ? 1 : in->rank, dims);
  if (!out) return false;
  for (int64_t i = 0, k = 0; i < in->count; i++) {
    data_place(i, in->rank, in->dims, from);
    int64_t which = flat ? i : from[a];
    if (which < condition->count && condition->x[which] != 0)
      out->x[k++] = in->x[i]; /* in order, so they fall into place */
  }
  call->out[0] = out;
  return true;
}

/* Slices of a tensor along an axis: `outer` runs of `inner` elements, `n` slices
 * apart. Flat data has slices of one element. */
typedef struct slices {
  const value *of;
  int64_t outer, n, inner;
} slices;

static int compare_slices(const slices *s, int64_t a, int64_t b) {
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = 0; i < s->inner; i++) {
      real x = s->of->x[(o * s->n + a) * s->inner + i];
      real y = s->of->x[(o * s->n + b) * s->inner + i];
      if (x != y) return x < y ? -1 : 1;
    }
  return 0;
}

static bool run_unique(ref_call *call) {
  const value *in = call->in[0];
  int64_t none = INT64_MAX, axis = ref_int(call, "axis", none), count = 0;
  bool sorted = ref_int(call, "sorted", 1) != 0, flat = axis == none;
  uint32_t a = flat ? 0 : ref_axis(axis, in->rank);
  slices s = {in, 1, flat ? in->count : in->dims[a], 1};
  for (uint32_t d = 0; d < in->rank && !flat; d++)
    if (d != a) *(d < a ? &s.outer : &s.inner) *= in->dims[d];
  for (int64_t i = 0; i < in->count; i++) /* its place is not defined */
    if (isnan(in->x[i])) return false;
  int64_t *first = calloc((size_t)s.n + 1, sizeof *first);
  for (int64_t i = 0; i < s.n; i++) { /* the first of each, kept in order */
    int64_t k = 0;
    while (k < count && compare_slices(&s, i, first[k]) != 0)
      k++;
    if (k < count) continue;
    while (k && sorted && compare_slices(&s, i, first[k - 1]) < 0) {
      first[k] = first[k - 1];
      k--;
    }
    first[k] = i;
    count++;
  }
  int64_t dims[KD_MAX_RANK] = {count};
  if (!flat) memcpy(dims, in->dims, sizeof dims);
  dims[a] = count;
  value *made[4] = {value_make(in->dtype, flat ? 1 : in->rank, dims),
                    value_make(KD_I64, 1, &count), value_make(KD_I64, 1, &s.n),
                    value_make(KD_I64, 1, &count)};
  for (int64_t k = 0; k < count; k++) {
    for (int64_t o = 0; o < s.outer; o++)
      memcpy(made[0]->x + (o * count + k) * s.inner,
             in->x + (o * s.n + first[k]) * s.inner,
             (size_t)s.inner * sizeof *in->x);
    made[1]->x[k] = first[k];
    for (int64_t i = 0; i < s.n; i++)
      if (compare_slices(&s, i, first[k]) == 0) {
        made[2]->x[i] = k;
        made[3]->x[k]++;
      }
  }
  free(first);
  for (uint32_t i = 0; i < 4; i++)
    if (i < call->out_count)
      call->out[i] = made[i];
    else
      value_free(made[i]);
  return true;
}

/* ---- making data ------------------------------------------------------------------------ */

static bool run_eye_like(ref_call *call) {
  value *out = call->out[0];
  int64_t k = ref_int(call, "k", 0), columns = out->dims[1];
  for (int64_t i = 0; i < out->count; i++)
    out->x[i] = i % columns - i / columns == k;
  return true;
}

static bool run_constant_of_shape(ref_call *call) {
  kd_tensor tensor;
  real x = call->read->attr_tensor(call->node, "value", &tensor) == KD_OK
               ? dtype_load(tensor.data, tensor.dtype, 0)
               : 0;
  for (int64_t i = 0; i < call->out[0]->count; i++)
    call->out[0]->x[i] = x;
  return true;
}

static bool run_range(ref_call *call) {
  value *out = call->out[0];
  bool inexact = dtype_is_float(out->dtype);
  if (inexact) {
    out->ulps = 1;
    value_slack(out);
  }
  for (int64_t i = 0; i < out->count; i++) {
    out->x[i] = call->in[0]->x[0] + i * call->in[2]->x[0];
    if (inexact) /* added up step by step, or multiplied */
      out->slack[i] = 2 * (real)(i + 1) *
                      (fabsl(call->in[0]->x[0]) + i * fabsl(call->in[2]->x[0]));
  }
  return true;
}

static bool run_window(ref_call *call) {
  static const real coefficients[3][3] = {
      {0.42L, 0.5L, 0.08L}, {25.0L / 46, 21.0L / 46, 0}, {0.5L, 0.5L, 0}};
  const real *c = coefficients[call->variant];
  const real two_pi = 6.283185307179586476925286766559005768L;
  value *out = call->out[0];
  int64_t n = out->count;
  real period = ref_int(call, "periodic", 1) ? n : n - 1;
  if (dtype_is_float(out->dtype)) {
    out->ulps = 4;
    value_slack(out);
  }
  for (int64_t i = 0; i < n; i++) {
    real x = two_pi * i / period;
    out->x[i] = c[0] - c[1] * cosl(x) + c[2] * cosl(2 * x);
    if (out->slack)
      out->slack[i] = 16;
    else
      out->x[i] = dtype_round(out->x[i], out->dtype);
  }
  return true;
}

#define EXACT(name, run) \
  { NULL, name, REF_EXACT, 0, run, false }

const ref_op ref_data[] = {
    EXACT("Transpose", run_transpose),
    EXACT("Expand", run_expand),
    EXACT("Concat", run_concat),
    EXACT("Split", run_split),
    EXACT("Slice", run_slice),
    EXACT("Pad", run_pad),
    EXACT("Tile", run_tile),
    {NULL, "DepthToSpace", REF_EXACT, 0, run_depth_space, false},
    {NULL, "SpaceToDepth", REF_EXACT, 1, run_depth_space, false},
    EXACT("ReverseSequence", run_reverse_sequence),
    EXACT("Trilu", run_trilu),
    EXACT("Gather", run_gather),
    EXACT("GatherElements", run_gather_elements),
    EXACT("GatherND", run_gather_nd),
    EXACT("ScatterElements", run_scatter_elements),
    EXACT("ScatterND", run_scatter_nd),
    EXACT("OneHot", run_one_hot),
    {NULL, "NonZero", REF_EXACT, 0, run_non_zero, true},
    {NULL, "Compress", REF_EXACT, 0, run_compress, true},
    {NULL, "Unique", REF_EXACT, 0, run_unique, true},
    EXACT("EyeLike", run_eye_like),
    EXACT("ConstantOfShape", run_constant_of_shape),
    {NULL, "Range", REF_SUM, 0, run_range, false},
    {NULL, "BlackmanWindow", REF_ULP, 0, run_window, false},
    {NULL, "HammingWindow", REF_ULP, 1, run_window, false},
    {NULL, "HannWindow", REF_ULP, 2, run_window, false},
};
const uint32_t ref_data_count = (uint32_t)(sizeof ref_data / sizeof *ref_data);
