/* math.c - sums over elements: reductions, normalisation, order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

static int64_t math_product(const int64_t *dims, uint32_t from, uint32_t to) {
  int64_t count = 1;
  for (uint32_t i = from; i < to; i++)
    count *= dims[i];
  return count;
}

/* ---- reductions ------------------------------------------------------------------ */

enum {
  RED_L1,
  RED_L2,
  RED_LOG_SUM,
  RED_LOG_SUM_EXP,
  RED_MAX,
  RED_MEAN,
  RED_MIN,
  RED_PROD,
  RED_SUM,
  RED_SQUARES,
};

/* Which output an input's element goes to. */
static void targets(const value *in, const bool *gone, int64_t *out_at) {
  int64_t step[KD_MAX_RANK], place = 1;
  for (uint32_t d = in->rank; d-- > 0;) {
    step[d] = gone[d] ? 0 : place;
    if (!gone[d]) place *= in->dims[d];
  }
  for (int64_t i = 0; i < in->count; i++) {
    int64_t rest = i, at = 0;
    for (uint32_t d = in->rank; d-- > 0; rest /= in->dims[d])
      at += rest % in->dims[d] * step[d];
    out_at[i] = at;
  }
}

static real finish_sum(const ref_sum *s, uint32_t which, real best,
                       kd_dtype dtype, real *out_slack) {
  real r = ref_total(s), spread = 4 * ref_spread(s);
  switch (which) {
    case RED_L2:
      *out_slack = r > 0 ? spread / (2 * sqrtl(r)) + sqrtl(r) : 0;
      return sqrtl(r);
    case RED_LOG_SUM:
      *out_slack = r > 0 ? spread / r + 3 * fabsl(logl(r)) : 0;
      return logl(r);
    case RED_LOG_SUM_EXP:
      *out_slack =
          spread / (r > 0 ? r : 1) + 4 * fabsl(logl(r)) + 4 * fabsl(best) + 8;
      return isinf(best) ? best : best + logl(r);
    case RED_MEAN:
      *out_slack = s->terms ? spread / (real)s->terms : 0;
      return dtype_is_float(dtype) ? r / (real)s->terms
                                   : truncl(r / (real)s->terms);
    default:
      *out_slack = spread;
      return r;
  }
}

static real wrapped_product(const value *in, const int64_t *at, int64_t which) {
  uint64_t result = 1;
  for (int64_t i = 0; i < in->count; i++)
    if (at[i] == which)
      result *=
          in->x[i] < 0 ? (uint64_t)0 - (uint64_t)-in->x[i] : (uint64_t)in->x[i];
  if (in->dtype == KD_I64) return (real)(int64_t)result;
  return in->dtype == KD_U64 ? (real)result
                             : dtype_round((real)result, in->dtype);
}

static bool run_reduce(ref_call *call) {
  const value *in = call->in[0], *axes = ref_in(call, 1);
  value *out = call->out[0];
  uint32_t which = call->variant;
  bool gone[KD_MAX_RANK] = {false}, inexact = dtype_is_float(in->dtype);
  bool none = !axes || axes->count == 0;
  for (uint32_t d = 0; d < in->rank; d++)
    gone[d] = none && !ref_int(call, "noop_with_empty_axes", 0);
  for (int64_t i = 0; !none && i < axes->count; i++)
    gone[ref_axis((int64_t)axes->x[i], in->rank)] = true;
  int64_t *at = calloc((size_t)in->count + 1, sizeof *at);
  ref_sum *sums = calloc((size_t)out->count + 1, sizeof *sums);
  real *best = calloc((size_t)out->count + 1, sizeof *best);
  bool *seen = calloc((size_t)out->count + 1, sizeof *seen);
  targets(in, gone, at);
  bool low = which == RED_MIN;
  for (int64_t i = 0; i < out->count; i++)
    best[i] = which == RED_PROD           ? 1
              : dtype_is_float(in->dtype) ? (low ? INFINITY : -INFINITY)
              : low                       ? dtype_max(in->dtype)
                                          : dtype_min(in->dtype);
  for (int64_t i = 0; i < in->count; i++) {
    real x = in->x[i], *b = &best[at[i]];
    if (which == RED_PROD)
      *b *= x;
    else if (isnan(x) || (!isnan(*b) && (low ? x < *b : x > *b)))
      *b = x;
    seen[at[i]] = true;
  }
  for (int64_t i = 0; i < in->count; i++) {
    real x = in->x[i];
    ref_add(&sums[at[i]], which == RED_L1                           ? fabsl(x)
                          : which == RED_L2 || which == RED_SQUARES ? x * x
                          : which == RED_LOG_SUM_EXP ? expl(x - best[at[i]])
                                                     : x);
  }
  if (inexact && which != RED_MAX && which != RED_MIN) {
    value_slack(out);
    out->ulps = 1;
  }
  for (int64_t i = 0; i < out->count; i++) {
    real slack = 0;
    if (which == RED_MAX || which == RED_MIN)
      out->x[i] = best[i];
    else if (which == RED_PROD) {
      out->x[i] = inexact ? best[i] : wrapped_product(in, at, i);
      slack = fabsl(best[i]) * (real)sums[i].terms;
    } else
      out->x[i] = finish_sum(&sums[i], which, best[i], in->dtype, &slack);
    if (!inexact) out->x[i] = dtype_round(out->x[i], out->dtype);
    if (out->slack) out->slack[i] = isfinite(slack) ? slack : 0;
  }
  free(at);
  free(sums);
  free(best);
  free(seen);
  return true;
}

/* ---- along one axis ------------------------------------------------------------------ */

/* A tensor seen as outer x n x inner. */
typedef struct lines {
  int64_t outer, n, inner;
} lines;

static lines math_along(const value *in, uint32_t axis, uint32_t until) {
  return (lines){math_product(in->dims, 0, axis),
                 math_product(in->dims, axis, until),
                 math_product(in->dims, until, in->rank)};
}

static int64_t line_at(lines l, int64_t outer, int64_t i, int64_t inner) {
  return (outer * l.n + i) * l.inner + inner;
}

/* Order with a NaN among the elements is not defined. */
static bool ordered(const value *in) {
  for (int64_t i = 0; i < in->count; i++)
    if (isnan(in->x[i])) return false;
  return true;
}

static bool run_arg(ref_call *call) {
  const value *in = call->in[0];
  if (!ordered(in)) return false;
  value *out = call->out[0];
  uint32_t axis = ref_axis(ref_int(call, "axis", 0), in->rank);
  bool last = ref_int(call, "select_last_index", 0) != 0;
  lines l = math_along(in, axis, in->rank ? axis + 1 : 0);
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t r = 0; r < l.inner; r++) {
      int64_t best = 0;
      for (int64_t i = 1; i < l.n; i++) {
        real x = in->x[line_at(l, o, i, r)], y = in->x[line_at(l, o, best, r)];
        bool better = call->variant ? x < y : x > y;
        if (better || (last && x == y)) best = i;
      }
      out->x[o * l.inner + r] = best;
    }
  return true;
}

static bool run_cum_sum(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  uint32_t axis = ref_axis((int64_t)call->in[1]->x[0], in->rank);
  bool exclusive = ref_int(call, "exclusive", 0) != 0;
  bool reverse = ref_int(call, "reverse", 0) != 0;
  lines l = math_along(in, axis, axis + 1);
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t r = 0; r < l.inner; r++) {
      ref_sum sum = {0};
      for (int64_t k = 0; k < l.n; k++) {
        int64_t at = line_at(l, o, reverse ? l.n - 1 - k : k, r);
        if (!exclusive) ref_add(&sum, in->x[at]);
        ref_put(out, at, &sum, 1);
        if (exclusive) ref_add(&sum, in->x[at]);
      }
    }
  return true;
}

/* Of n elements; integers wrap. */
static real running_product(const value *in, const int64_t *at, int64_t n) {
  bool inexact = dtype_is_float(in->dtype);
  real product = 1;
  uint64_t bits = 1;
  for (int64_t k = 0; k < n; k++) {
    real x = in->x[at[k]];
    product *= x;
    if (inexact) continue;
    bits *= x < 0 ? (uint64_t)0 - (uint64_t)-x : (uint64_t)x;
  }
  if (inexact) return product;
  return in->dtype == KD_I64   ? (real)(int64_t)bits
         : in->dtype == KD_U64 ? (real)bits
                               : dtype_round((real)bits, in->dtype);
}

static bool run_cum_prod(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  uint32_t axis = ref_axis((int64_t)call->in[1]->x[0], in->rank);
  bool exclusive = ref_int(call, "exclusive", 0) != 0;
  bool reverse = ref_int(call, "reverse", 0) != 0;
  bool inexact = dtype_is_float(in->dtype);
  lines l = math_along(in, axis, axis + 1);
  int64_t *at = calloc((size_t)l.n + 1, sizeof *at);
  if (!at) return false;
  if (inexact) {
    value_slack(out);
    out->ulps = 1;
  }
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t r = 0; r < l.inner; r++)
      for (int64_t k = 0; k < l.n; k++) {
        at[k] = line_at(l, o, reverse ? l.n - 1 - k : k, r);
        real product = running_product(in, at, k + !exclusive);
        out->x[at[k]] = product;
        if (out->slack) /* a rounding each */
          out->slack[at[k]] =
              isfinite(product) ? fabsl(product) * (real)(k + 1) : 0;
      }
  free(at);
  return true;
}

typedef struct ranked {
  real x;
  int64_t index;
  bool largest;
} ranked;

static int by_rank(const void *a, const void *b) {
  const ranked *p = a, *q = b;
  if (p->x != q->x) return (p->x > q->x) == p->largest ? -1 : 1;
  return p->index < q->index ? -1 : 1;
}

static bool run_top_k(ref_call *call) {
  const value *in = call->in[0];
  value *values = ref_out(call, 0), *indices = ref_out(call, 1);
  uint32_t axis = ref_axis(ref_int(call, "axis", -1), in->rank);
  bool largest = ref_int(call, "largest", 1) != 0;
  int64_t k = (int64_t)call->in[1]->x[0];
  if (!ref_int(call, "sorted", 1) || !ordered(in)) return false;
  lines l = math_along(in, axis, axis + 1), m = l;
  ranked *order = calloc((size_t)l.n + 1, sizeof *order);
  m.n = k;
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t r = 0; r < l.inner; r++) {
      for (int64_t i = 0; i < l.n; i++)
        order[i] = (ranked){in->x[line_at(l, o, i, r)], i, largest};
      qsort(order, (size_t)l.n, sizeof *order, by_rank);
      for (int64_t i = 0; i < k; i++) {
        if (values) values->x[line_at(m, o, i, r)] = order[i].x;
        if (indices) indices->x[line_at(m, o, i, r)] = order[i].index;
      }
    }
  free(order);
  return true;
}

enum { SOFT_MAX, SOFT_LOG, SOFT_HARD };

static bool run_softmax(ref_call *call) {
  const value *in = call->in[0];
  if (in->rank == 0 || !ordered(in)) return false;
  value *out = call->out[0];
  uint32_t axis = ref_axis(ref_int(call, "axis", -1), in->rank);
  lines l = math_along(in, axis, in->rank ? axis + 1 : 0);
  if (call->variant != SOFT_HARD) {
    out->ulps = 1;
    value_slack(out);
  }
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t r = 0; r < l.inner; r++) {
      int64_t top = 0;
      ref_sum sum = {0};
      for (int64_t i = 1; i < l.n; i++)
        if (in->x[line_at(l, o, i, r)] > in->x[line_at(l, o, top, r)]) top = i;
      real most = l.n ? in->x[line_at(l, o, top, r)] : 0, weighted = 0;
      for (int64_t i = 0; i < l.n; i++) {
        real x = in->x[line_at(l, o, i, r)] - most;
        ref_add(&sum, expl(x));
        weighted += expl(x) * (3 + fabsl(x));
      }
      real total = ref_total(&sum);
      real of_sum = (weighted + 4 * ref_spread(&sum)) / total;
      for (int64_t i = 0; i < l.n; i++) {
        int64_t at = line_at(l, o, i, r);
        real x = in->x[at] - most;
        if (call->variant == SOFT_HARD) {
          out->x[at] = i == top;
        } else if (call->variant == SOFT_MAX) {
          out->x[at] = expl(x) / total;
          out->slack[at] = 2 * out->x[at] * (8 + 2 * fabsl(x) + of_sum);
        } else {
          out->x[at] = x - logl(total);
          out->slack[at] = 4 * (2 + fabsl(x) + fabsl(logl(total)) + of_sum) +
                           2 * fabsl(most);
        }
      }
    }
  return true;
}

static bool run_lp_norm(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  uint32_t axis = ref_axis(ref_int(call, "axis", -1), in->rank);
  int64_t p = ref_int(call, "p", 2);
  lines l = math_along(in, axis, axis + 1);
  out->ulps = 2;
  value_slack(out);
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t r = 0; r < l.inner; r++) {
      ref_sum sum = {0};
      for (int64_t i = 0; i < l.n; i++) {
        real x = in->x[line_at(l, o, i, r)];
        ref_add(&sum, p == 1 ? fabsl(x) : x * x);
      }
      real total = ref_total(&sum), norm = p == 1 ? total : sqrtl(total);
      for (int64_t i = 0; i < l.n; i++) {
        int64_t at = line_at(l, o, i, r);
        out->x[at] = norm == 0 ? 0 : in->x[at] / norm;
        out->slack[at] =
            total > 0 ? fabsl(out->x[at]) * (4 + 4 * ref_spread(&sum) / total)
                      : 0;
      }
    }
  return true;
}

/* ---- normalisation --------------------------------------------------------------------- */

/* Mean and variance of some elements, and how far they may be off. */
typedef struct moments {
  real mean, var, mean_slack;
  int64_t count;
} moments;

static moments math_measure(const value *in, const int64_t *at, int64_t count) {
  ref_sum sum = {0}, squares = {0};
  for (int64_t i = 0; i < count; i++)
    ref_add(&sum, in->x[at[i]]);
  real mean = count ? ref_total(&sum) / (real)count : 0;
  for (int64_t i = 0; i < count; i++)
    ref_add(&squares, (in->x[at[i]] - mean) * (in->x[at[i]] - mean));
  return (moments){mean, count ? ref_total(&squares) / (real)count : 0,
                   count ? 4 * ref_spread(&sum) / (real)count : 0, count};
}

/* (x - mean) / sqrt(var + epsilon) * scale + shift */
static void normalise(value *out, int64_t at, real x, const moments *m,
                      real epsilon, real scale, real shift) {
  real inverse = 1 / sqrtl(m->var + epsilon);
  real y = (x - m->mean) * inverse * scale;
  out->x[at] = y + shift;
  out->ulps = 2;
  value_slack(out)[at] =
      fabsl(scale) * inverse *
          (m->mean_slack + 2 * fabsl(x) + 2 * fabsl(m->mean)) +
      fabsl(y) * (8 + 4 * sqrtl((real)m->count)) + 2 * fabsl(shift);
}

static bool run_mvn(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  int64_t axes[KD_MAX_RANK] = {0, 2, 3};
  int64_t n = ref_ints(call, "axes", axes, KD_MAX_RANK);
  if (n < 0) n = 3;
  bool gone[KD_MAX_RANK] = {false};
  for (int64_t i = 0; i < n; i++)
    gone[ref_axis(axes[i], in->rank)] = true;
  int64_t *group = calloc((size_t)in->count + 1, sizeof *group);
  int64_t *members = calloc((size_t)in->count + 1, sizeof *members);
  targets(in, gone, group);
  int64_t groups = 1;
  for (uint32_t d = 0; d < in->rank; d++)
    if (!gone[d]) groups *= in->dims[d];
  for (int64_t g = 0; g < groups; g++) {
    int64_t count = 0;
    for (int64_t i = 0; i < in->count; i++)
      if (group[i] == g) members[count++] = i;
    moments m = math_measure(in, members, count);
    real deviation = sqrtl(m.var) + 1e-9L;
    moments shown = m;
    shown.var = deviation * deviation;
    for (int64_t i = 0; i < count; i++)
      normalise(out, members[i], in->x[members[i]], &shown, 0, 1, 0);
  }
  free(group);
  free(members);
  return true;
}

enum { NORM_GROUPS, NORM_INSTANCES }; /* each channel is a group */

static bool run_group_norm(ref_call *call) {
  const value *in = call->in[0], *scale = call->in[1], *shift = call->in[2];
  real epsilon = ref_float(call, "epsilon", 1e-5f);
  int64_t channels = in->dims[1];
  int64_t groups = call->variant == NORM_INSTANCES
                       ? channels
                       : ref_int(call, "num_groups", 1);
  int64_t space = math_product(in->dims, 2, in->rank);
  int64_t n = channels / groups * space;
  int64_t *at = calloc((size_t)n + 1, sizeof *at);
  for (int64_t g = 0; at && g < in->dims[0] * groups; g++) {
    for (int64_t i = 0; i < n; i++)
      at[i] = g * n + i;
    moments m = math_measure(in, at, n);
    for (int64_t i = 0; i < n; i++) {
      int64_t c = at[i] / space % channels;
      normalise(call->out[0], at[i], in->x[at[i]], &m, epsilon, scale->x[c],
                shift->x[c]);
    }
  }
  free(at);
  return true;
}

static bool run_layer_norm(ref_call *call) {
  const value *in = call->in[0], *scale = call->in[1], *shift = ref_in(call, 2);
  value *out = call->out[0], *mean = ref_out(call, 1), *inv = ref_out(call, 2);
  uint32_t axis = ref_axis(ref_int(call, "axis", -1), in->rank);
  real epsilon = ref_float(call, "epsilon", 1e-5f);
  int64_t n = math_product(in->dims, axis, in->rank);
  int64_t outer = math_product(in->dims, 0, axis);
  int64_t *at = calloc((size_t)n + 1, sizeof *at);
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t i = 0; i < n; i++)
      at[i] = o * n + i;
    moments m = math_measure(in, at, n);
    for (int64_t i = 0; i < n; i++)
      normalise(out, at[i], in->x[at[i]], &m, epsilon,
                scale->x[broadcast_index(scale, in, at[i])],
                shift ? shift->x[broadcast_index(shift, in, at[i])] : 0);
    if (mean) {
      mean->x[o] = m.mean;
      mean->ulps = 1;
      value_slack(mean)[o] = m.mean_slack;
    }
    if (inv) {
      inv->x[o] = 1 / sqrtl(m.var + epsilon);
      inv->ulps = 4;
      value_slack(inv)[o] = fabsl(inv->x[o]) * (8 + 4 * sqrtl((real)n));
    }
  }
  free(at);
  return true;
}

static bool run_rms_norm(ref_call *call) {
  const value *in = call->in[0], *scale = call->in[1];
  uint32_t axis = ref_axis(ref_int(call, "axis", -1), in->rank);
  real epsilon = ref_float(call, "epsilon", 1e-5f);
  int64_t n = math_product(in->dims, axis, in->rank);
  for (int64_t o = 0; o < math_product(in->dims, 0, axis); o++) {
    ref_sum squares = {0};
    for (int64_t i = o * n; i < (o + 1) * n; i++)
      ref_add(&squares, in->x[i] * in->x[i]);
    const moments m = {0, ref_total(&squares) / (real)n, 0, n};
    for (int64_t i = 0; i < n; i++)
      normalise(call->out[0], o * n + i, in->x[o * n + i], &m, epsilon,
                scale->x[i % scale->count], 0);
  }
  return true;
}

static bool run_batch_norm(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  real epsilon = ref_float(call, "epsilon", 1e-5f);
  real momentum = ref_float(call, "momentum", 0.9f);
  bool training = ref_int(call, "training_mode", 0) != 0;
  int64_t channels = in->rank > 1 ? in->dims[1] : 1;
  int64_t inner = math_product(in->dims, in->rank > 1 ? 2 : in->rank, in->rank);
  int64_t batch = in->rank ? in->dims[0] : 1, n = batch * inner;
  int64_t *at = calloc((size_t)n + 1, sizeof *at);
  for (int64_t c = 0; c < channels; c++) {
    int64_t k = 0;
    for (int64_t b = 0; b < batch; b++)
      for (int64_t i = 0; i < inner; i++)
        at[k++] = (b * channels + c) * inner + i;
    moments m = {call->in[3]->x[c], call->in[4]->x[c], 0, 1};
    if (training) m = math_measure(in, at, n);
    for (int64_t i = 0; i < n; i++)
      normalise(out, at[i], in->x[at[i]], &m, epsilon, call->in[1]->x[c],
                call->in[2]->x[c]);
    value *running[2] = {ref_out(call, 1), ref_out(call, 2)};
    for (int j = 0; j < 2; j++)
      if (running[j]) {
        real now = j ? m.var : m.mean, old = call->in[3 + j]->x[c];
        running[j]->x[c] = old * momentum + now * (1 - momentum);
        running[j]->ulps = 4;
        value_slack(running[j])[c] = m.mean_slack +
                                     4 * (fabsl(old) + fabsl(now)) +
                                     (j ? 4 * now * sqrtl((real)n) : 0);
      }
  }
  free(at);
  return true;
}

static bool run_lrn(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  real alpha = ref_float(call, "alpha", 1e-4f),
       bias = ref_float(call, "bias", 1);
  real beta = ref_float(call, "beta", 0.75f);
  int64_t size = ref_int(call, "size", 1), channels = in->dims[1];
  int64_t inner = math_product(in->dims, 2, in->rank);
  value_slack(out);
  out->ulps = 20; /* pow 16, div, mul */
  for (int64_t i = 0; i < in->count; i++) {
    int64_t c = i / inner % channels;
    int64_t from = c - (size - 1) / 2, to = c + size / 2; /* inclusive */
    ref_sum sum = {0};
    for (int64_t k = from < 0 ? 0 : from; k <= to && k < channels; k++) {
      real x = in->x[i + (k - c) * inner];
      ref_add(&sum, x * x);
    }
    real base = bias + alpha / (real)size * ref_total(&sum);
    out->x[i] = in->x[i] / powl(base, beta);
    out->slack[i] = fabsl(out->x[i]) * 8;
  }
  return true;
}

#define REDUCE(name, kind, which) \
  { NULL, name, kind, which, run_reduce, false }

const ref_op ref_math[] = {
    REDUCE("ReduceL1", REF_SUM, RED_L1),
    REDUCE("ReduceL2", REF_SUM, RED_L2),
    REDUCE("ReduceLogSum", REF_SUM, RED_LOG_SUM),
    REDUCE("ReduceLogSumExp", REF_SUM, RED_LOG_SUM_EXP),
    REDUCE("ReduceMax", REF_EXACT, RED_MAX),
    REDUCE("ReduceMean", REF_SUM, RED_MEAN),
    REDUCE("ReduceMin", REF_EXACT, RED_MIN),
    REDUCE("ReduceProd", REF_SUM, RED_PROD),
    REDUCE("ReduceSum", REF_SUM, RED_SUM),
    REDUCE("ReduceSumSquare", REF_SUM, RED_SQUARES),
    {NULL, "ArgMax", REF_EXACT, 0, run_arg, false},
    {NULL, "ArgMin", REF_EXACT, 1, run_arg, false},
    {NULL, "CumSum", REF_SUM, 0, run_cum_sum, false},
    {NULL, "CumProd", REF_SUM, 0, run_cum_prod, false},
    {NULL, "TopK", REF_EXACT, 0, run_top_k, false},
    {NULL, "Softmax", REF_SUM, SOFT_MAX, run_softmax, false},
    {NULL, "LogSoftmax", REF_SUM, SOFT_LOG, run_softmax, false},
    {NULL, "Hardmax", REF_EXACT, SOFT_HARD, run_softmax, false},
    {NULL, "LpNormalization", REF_SUM, 0, run_lp_norm, false},
    {NULL, "MeanVarianceNormalization", REF_SUM, 0, run_mvn, false},
    {NULL, "InstanceNormalization", REF_SUM, NORM_INSTANCES, run_group_norm,
     false},
    {NULL, "GroupNormalization", REF_SUM, NORM_GROUPS, run_group_norm, false},
    {NULL, "LayerNormalization", REF_SUM, 0, run_layer_norm, false},
    {NULL, "RMSNormalization", REF_SUM, 0, run_rms_norm, false},
    {NULL, "BatchNormalization", REF_SUM, 0, run_batch_norm, false},
    {NULL, "LRN", REF_SUM, 0, run_lrn, false},
};
const uint32_t ref_math_count = (uint32_t)(sizeof ref_math / sizeof *ref_math);
