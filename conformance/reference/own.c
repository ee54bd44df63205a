/* own.c - ops of domain "keel" that StableHLO has and ONNX has not. Semantics are those of
 * its specification (openxla/stablehlo, docs/spec.md): popcnt, count_leading_zeros, sort,
 * dynamic_slice, dynamic_update_slice, reduce_window, select_and_scatter. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

/* ---- indices ------------------------------------------------------------------------ */

static void unravel(const value *of, int64_t number, int64_t *index) {
  for (uint32_t d = of->rank; d-- > 0; number /= of->dims[d])
    index[d] = number % of->dims[d];
}

static int64_t ravel(const value *of, const int64_t *index) {
  int64_t at = 0;
  for (uint32_t d = 0; d < of->rank; d++)
    at = at * of->dims[d] + index[d];
  return at;
}

/* ---- bits ----------------------------------------------------------------------------- */

static bool run_bits(ref_call *call) {
  const value *in = call->in[0];
  int bits = (int)kd_dtype_size(in->dtype) * 8;
  for (int64_t i = 0; i < in->count; i++) {
    uint64_t x =
        in->x[i] < 0 ? (uint64_t)(int64_t)in->x[i] : (uint64_t)in->x[i];
    int ones = 0, zeros = 0;
    for (int b = 0; b < bits; b++)
      ones += (int)(x >> b & 1);
    while (zeros < bits && !(x >> (bits - 1 - zeros) & 1))
      zeros++;
    call->out[0]->x[i] = call->variant ? zeros : ones;
  }
  return true;
}

/* ---- order ---------------------------------------------------------------------------- */

typedef struct order {
  const ref_call *call;
  int64_t from, step; /* of the line */
  bool descending;
} order;

/* -1, 0, 1; NaN is the largest. */
static int compare(real a, real b) {
  if (isnan(a) || isnan(b)) return (int)isnan(a) - (int)isnan(b);
  return (a > b) - (a < b);
}

static bool goes_before(const order *by, int64_t a, int64_t b) {
  for (uint32_t k = 0; k < by->call->in_count; k++) {
    const real *x = by->call->in[k]->x + by->from;
    int sign = compare(x[a * by->step], x[b * by->step]);
    if (sign) return by->descending ? sign > 0 : sign < 0;
  }
  return a < b;
}

static bool run_arg_sort(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  if (!in->rank) return false;
  uint32_t axis = ref_axis(ref_int(call, "axis", -1), in->rank);
  order by = {.call = call,
              .step = 1,
              .descending = ref_int(call, "descending", 0) != 0};
  int64_t n = in->dims[axis], index[KD_MAX_RANK];
  for (uint32_t d = axis + 1; d < in->rank; d++)
    by.step *= in->dims[d];
  for (int64_t i = 0; i < in->count; i++) {
    unravel(in, i, index);
    by.from = i - index[axis] * by.step;
    int64_t place = 0;
    for (int64_t other = 0; other < n; other++)
      place += goes_before(&by, other, index[axis]);
    out->x[by.from + place * by.step] = (real)index[axis];
  }
  return true;
}

/* ---- parts ---------------------------------------------------------------------------- */

static bool run_part(ref_call *call) {
  bool update = call->variant != 0;
  const value *x = call->in[0], *starts = call->in[update ? 2 : 1];
  const value *part = update ? call->in[1] : call->out[0];
  value *out = call->out[0];
  int64_t index[KD_MAX_RANK];
  if (update) memcpy(out->x, x->x, (size_t)x->count * sizeof *x->x);
  for (int64_t i = 0; i < part->count; i++) {
    unravel(part, i, index);
    for (uint32_t d = 0; d < x->rank; d++) {
      real start = fminl(starts->x[d], (real)(x->dims[d] - part->dims[d]));
      index[d] += (int64_t)fmaxl(start, 0);
    }
    if (update)
      out->x[ravel(x, index)] = part->x[i];
    else
      out->x[i] = x->x[ravel(x, index)];
  }
  return true;
}

/* ---- windows -------------------------------------------------------------------------- */

typedef struct windows {
  int64_t size[KD_MAX_RANK], strides[KD_MAX_RANK], base[KD_MAX_RANK];
  int64_t spread[KD_MAX_RANK], pads[2 * KD_MAX_RANK];
} windows;

static void read_list(const ref_call *call, const char *name, int64_t otherwise,
                      int64_t count, int64_t *out) {
  for (int64_t i = 0; i < count; i++)
    out[i] = otherwise;
  ref_ints(call, name, out, count);
}

static windows read_windows(const ref_call *call, uint32_t rank) {
  windows w;
  read_list(call, "window", 1, rank, w.size);
  read_list(call, "strides", 1, rank, w.strides);
  read_list(call, "base_dilations", 1, rank, w.base);
  read_list(call, "window_dilations", 1, rank, w.spread);
  read_list(call, "pads", 0, 2 * (int64_t)rank, w.pads);
  return w;
}

/* Whether window `at` has element `index` of x. */
static bool has(const windows *w, uint32_t rank, const int64_t *at,
                const int64_t *index) {
  for (uint32_t d = 0; d < rank; d++) {
    int64_t from = index[d] * w->base[d] + w->pads[d] - at[d] * w->strides[d];
    if (from < 0 || from % w->spread[d] || from / w->spread[d] >= w->size[d])
      return false;
  }
  return true;
}

enum { BY_ADD, BY_MUL, BY_MAX, BY_MIN };

static int reduction_of(const ref_call *call) {
  static const char *const names[] = {"add", "mul", "max", "min"};
  for (int i = BY_MIN; i > BY_ADD; i--)
    if (ref_text_is(call, "reduction", "add", names[i])) return i;
  return BY_ADD;
}

static bool run_reduce_window(ref_call *call) {
  const value *x = call->in[0];
  value *out = call->out[0];
  windows w = read_windows(call, x->rank);
  int how = reduction_of(call);
  bool whole = dtype_is_int(x->dtype);
  int64_t at[KD_MAX_RANK], index[KD_MAX_RANK];
  if (how == BY_MUL && whole) return false; /* may wrap */
  if (!whole && how <= BY_MUL) value_slack(out);
  if (!whole && how == BY_MUL) out->ulps = 1;
  for (int64_t i = 0; i < out->count; i++) {
    real best = call->in[1]->x[0], product = best;
    ref_sum sum = {0};
    int64_t terms = 1;
    ref_add(&sum, best);
    unravel(out, i, at);
    for (int64_t k = 0; k < x->count; k++) {
      unravel(x, k, index);
      if (!has(&w, x->rank, at, index)) continue;
      real here = x->x[k];
      ref_add(&sum, here);
      product *= here;
      terms++;
      if (isnan(here) || (how == BY_MAX ? here > best : here < best))
        best = isnan(best) ? best : here;
    }
    if (how == BY_ADD)
      ref_put(out, i, &sum, 1);
    else
      out->x[i] = how == BY_MUL ? product : best;
    if (how == BY_MUL && value_slack(out))
      value_slack(out)[i] = 2 * (real)terms * fabsl(product);
  }
  return true;
}

/* The element that window `at` selects; -1: none. */
static int64_t selected(const value *x, const windows *w, const int64_t *at,
                        bool most) {
  int64_t best = -1, index[KD_MAX_RANK];
  for (int64_t k = 0; k < x->count; k++) {
    unravel(x, k, index);
    if (has(w, x->rank, at, index) &&
        (best < 0 || (most ? x->x[k] > x->x[best] : x->x[k] < x->x[best])))
      best = k;
  }
  return best;
}

static bool run_select_and_scatter(ref_call *call) {
  const value *x = call->in[0], *source = call->in[1];
  value *out = call->out[0];
  windows w = read_windows(call, x->rank);
  bool most = ref_text_is(call, "select", "ge", "ge");
  int64_t at[KD_MAX_RANK];
  ref_sum *sums = calloc((size_t)x->count + 1, sizeof *sums);
  for (int64_t i = 0; i < x->count; i++)
    if (isnan(x->x[i])) {
      free(sums);
      return false;
    }
  for (int64_t i = 0; i < x->count; i++)
    ref_add(&sums[i], call->in[2]->x[0]);
  for (int64_t i = 0; i < source->count; i++) {
    unravel(source, i, at);
    int64_t best = selected(x, &w, at, most);
    if (best >= 0) ref_add(&sums[best], source->x[i]);
  }
  if (dtype_is_float(x->dtype)) value_slack(out);
  for (int64_t i = 0; i < x->count; i++)
    ref_put(out, i, &sums[i], 1);
  free(sums);
  return true;
}

const ref_op ref_own[] = {
    {"keel", "PopCount", REF_EXACT, 0, run_bits, false},
    {"keel", "LeadingZeros", REF_EXACT, 1, run_bits, false},
    {"keel", "ArgSort", REF_EXACT, 0, run_arg_sort, false},
    {"keel", "DynamicSlice", REF_EXACT, 0, run_part, false},
    {"keel", "DynamicUpdateSlice", REF_EXACT, 1, run_part, false},
    {"keel", "ReduceWindow", REF_SUM, 0, run_reduce_window, false},
    {"keel", "SelectAndScatter", REF_SUM, 0, run_select_and_scatter, false},
};
const uint32_t ref_own_count = (uint32_t)(sizeof ref_own / sizeof *ref_own);
