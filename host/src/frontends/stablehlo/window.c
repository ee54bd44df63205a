/* window.c - reduce_window and select_and_scatter as ONNX's ops.
 *
 * A reduction over windows is separable: one axis after the other, each by strided slices of
 * the padded input. Few elements are combined one by one (by_elements), x[i] with x[i + 1],
 * x[i + 2] ... Many are combined by doubling (by_doubling), as a power is by squaring:
 *
 *     w1[i] = x[i]     w2[i] = w1[i] + w1[i + 1]     w4[i] = w2[i] + w2[i + 2]     ...
 *     a window of 13 = 1 + 4 + 8:   w1[i] + w4[i + 1] + w8[i + 5]
 *
 * Running sums are CumSum instead, and maxima of floats MaxPool. */
#include "frontends/stablehlo/reduce.h"

#define ELEMENTS_MOST (INT64_C(1) << 40) /* of a dimension */
#define LINEAR_MOST \
  6 /* window sizes up to which each element is combined alone */

typedef struct window {
  const vhlo_type *type; /* of the inputs */
  uint32_t rank;
  int64_t size[KD_MAX_RANK], stride[KD_MAX_RANK], gap[KD_MAX_RANK];
  int64_t interior[KD_MAX_RANK]; /* between the input's elements */
  int64_t low[KD_MAX_RANK], high[KD_MAX_RANK];
  int64_t out[KD_MAX_RANK]; /* dimensions of the result */
} window;

/* ---- reading one -------------------------------------------------------------------- */

/* The size of dimension i behind the padding. */
static int64_t padded(const window *w, uint32_t i) {
  int64_t n = w->type->dims[i];
  return (n ? (n - 1) * (w->interior[i] + 1) + 1 : 0) + w->low[i] + w->high[i];
}

static bool bounded(const window *w, uint32_t i) {
  const int64_t most = ELEMENTS_MOST / 4;
  int64_t size = 0;
  return w->size[i] > 0 && w->size[i] < most / 1024 && w->stride[i] > 0 &&
         w->stride[i] < most && w->gap[i] > 0 && w->gap[i] < 1024 &&
         w->interior[i] >= 0 && w->interior[i] < most && w->low[i] > -most &&
         w->low[i] < most && w->high[i] > -most && w->high[i] < most &&
         keel_mul_i64(w->type->dims[i], w->interior[i] + 1, &size) &&
         size < most;
}

static keel_status window_read_window(const hlo *h, const hlo_op *op,
                                      bool dilated, window *w) {
  int64_t padding[2 * KD_MAX_RANK];
  w->type = op->in_types[0];
  w->rank = w->type->rank;
  KEEL_TRY(hlo_ints(h, op, "window_dimensions", w->rank, w->size));
  KEEL_TRY(hlo_ints(h, op, "window_strides", w->rank, w->stride));
  KEEL_TRY(hlo_ints(h, op, "padding", 2 * w->rank, padding));
  for (uint32_t i = 0; i < w->rank; i++) {
    w->interior[i] = w->gap[i] = 1;
    w->low[i] = padding[2 * i];
    w->high[i] = padding[2 * i + 1];
  }
  if (dilated) {
    KEEL_TRY(hlo_ints(h, op, "base_dilations", w->rank, w->interior));
    KEEL_TRY(hlo_ints(h, op, "window_dilations", w->rank, w->gap));
  }
  for (uint32_t i = 0; i < w->rank; i++) {
    w->interior[i]--;
    if (!bounded(w, i))
      return hlo_wrong(h, op, "its window's numbers for dimension %u",
                       (unsigned)i);
    int64_t span = (w->size[i] - 1) * w->gap[i] + 1, all = padded(w, i);
    w->out[i] = all < span ? 0 : (all - span) / w->stride[i] + 1;
  }
  return KD_OK;
}

/* The result's dimensions, against what the file declares of `type`. */
static keel_status check_result_dims(const hlo *h, const hlo_op *op,
                                     const window *w, const vhlo_type *type) {
  bool equal = type->rank == w->rank;
  for (uint32_t i = 0; equal && i < w->rank; i++)
    equal = type->dims[i] == w->out[i];
  return equal ? KD_OK
               : hlo_wrong(h, op, "its windows give another shape than it has");
}

/* ---- ONNX's own ------------------------------------------------------------------------- */

/* One dimension whose window takes all elements up to its own, or all from it on. */
static bool is_running(const window *w, int64_t *out_axis, bool *out_reverse) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < w->rank; i++) {
    int64_t n = w->type->dims[i];
    bool plain = w->size[i] == 1 && !w->low[i] && !w->high[i];
    bool whole = w->size[i] == n && w->low[i] + w->high[i] == n - 1 &&
                 (!w->low[i] || !w->high[i]);
    if (w->stride[i] != 1 || w->interior[i] || w->gap[i] != 1) return false;
    if (plain) continue;
    if (!whole) return false;
    found++;
    *out_axis = i;
    *out_reverse = w->high[i] != 0;
  }
  return found == 1;
}

static keel_value running_sum(hlo *h, keel_value value, int64_t axis,
                              bool reverse) {
  const keel_attr attr = KEEL_INT("reverse", reverse);
  const keel_value in[] = {value, hlo_i64(h, axis)};
  return hlo_node(h, "CumSum", &attr, 1, in, 2);
}

/* Up to three dimensions with windows, as MaxPool wants them: the last ones. */
static bool is_pool(const window *w, uint32_t *out_count, int64_t *order) {
  uint32_t count = 0, windows = 0;
  for (uint32_t pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < w->rank; i++) {
      bool trivial = w->size[i] == 1 && w->stride[i] == 1 && !w->low[i] &&
                     !w->high[i] && !w->interior[i];
      if (trivial == !pass) order[count++] = i;
      if (pass || trivial) continue;
      windows++;
      int64_t span = (w->size[i] - 1) * w->gap[i] + 1;
      if (w->interior[i] || w->low[i] < 0 || w->high[i] < 0 ||
          w->low[i] >= w->size[i] || w->high[i] >= w->size[i] ||
          w->type->dims[i] + w->low[i] + w->high[i] < span)
        return false;
    }
  *out_count = windows;
  return windows >= 1 && windows <= 3;
}

static keel_value max_pool(hlo *h, const window *w, uint32_t count,
                           const int64_t *order, keel_value value) {
  int64_t dims[5] = {1, 1}, out[KD_MAX_RANK], back[KD_MAX_RANK];
  int64_t size[3], stride[3], gap[3], pads[6];
  uint32_t rest = w->rank - count;
  for (uint32_t i = 0; i < w->rank; i++) {
    int64_t axis = order[i];
    back[axis] = i;
    out[i] = w->out[axis];
    if (i < rest) {
      dims[0] *= w->type->dims[axis];
      continue;
    }
    uint32_t k = i - rest;
    dims[2 + k] = w->type->dims[axis];
    size[k] = w->size[axis];
    stride[k] = w->stride[axis];
    gap[k] = w->gap[axis];
    pads[k] = w->low[axis];
    pads[count + k] = w->high[axis];
  }
  const keel_attr attrs[] = {KEEL_INTS("kernel_shape", count, size),
                             KEEL_INTS("strides", count, stride),
                             KEEL_INTS("dilations", count, gap),
                             KEEL_INTS("pads", 2 * count, pads)};
  value = hlo_transpose(h, value, order, w->rank);
  value = hlo_reshape(h, value, 2 + count, dims);
  value = hlo_node(h, "MaxPool", attrs, 4, &value, 1);
  value = hlo_reshape(h, value, w->rank, out);
  return hlo_transpose(h, value, back, w->rank);
}

/* ---- any ----------------------------------------------------------------------------------- */

/* The same slice of each tensor. */
static void slices(hlo *h, uint32_t count, const keel_value *from, int64_t axis,
                   int64_t first, int64_t limit, int64_t step, keel_value *to) {
  for (uint32_t i = 0; i < count; i++)
    to[i] = hlo_part(h, from[i], axis, first, limit, step);
}

/* Reduces one axis, one element of the windows after the other. */
static keel_status by_elements(hlo *h, const hlo_lanes *l, const window *w,
                               uint32_t axis, keel_value *values,
                               keel_value *scratch) {
  keel_value *sum = scratch, *next = scratch + l->count;
  int64_t stride = w->stride[axis], last = (w->out[axis] - 1) * stride + 1;
  slices(h, l->count, values, axis, 0, last, stride, sum);
  for (int64_t k = 1; k < w->size[axis]; k++) {
    int64_t first = k * w->gap[axis];
    slices(h, l->count, values, axis, first, first + last, stride, next);
    KEEL_TRY(hlo_combine_lanes(h, l, sum, next, sum));
  }
  memcpy(values, sum, l->count * sizeof *values);
  return KD_OK;
}

/* The same by windows of 1, 2, 4 ... elements: those that make up the size are combined. */
static keel_status by_doubling(hlo *h, const hlo_lanes *l, const window *w,
                               uint32_t axis, keel_value *values,
                               keel_value *scratch) {
  keel_value *sum = scratch, *next = scratch + l->count,
             *a = scratch + 2 * l->count;
  int64_t gap = w->gap[axis], stride = w->stride[axis];
  int64_t last = (w->out[axis] - 1) * stride + 1, done = 0;
  int64_t length = last + (w->size[axis] - 1) * gap;
  for (int64_t power = 1; power <= w->size[axis]; power *= 2) {
    if (w->size[axis] & power) { /* the window's elements from `done` on */
      slices(h, l->count, values, axis, done * gap, done * gap + last, stride,
             done ? next : sum);
      if (done) KEEL_TRY(hlo_combine_lanes(h, l, sum, next, sum));
      done += power;
    }
    if (2 * power > w->size[axis]) break;
    length -= power * gap;
    slices(h, l->count, values, axis, 0, length, 1, a);
    slices(h, l->count, values, axis, power * gap, power * gap + length, 1,
           next);
    KEEL_TRY(hlo_combine_lanes(h, l, a, next, values));
  }
  memcpy(values, sum, l->count * sizeof *values);
  return KD_OK;
}

/* Pads the inputs, and reduces one axis after the other; then the start value joins. */
static keel_status reduce_axes(hlo *h, const hlo_lanes *l, const window *w,
                               keel_value *values, keel_value *scratch) {
  const hlo_op *op = l->op;
  for (uint32_t i = 0; i < l->count; i++) {
    int64_t dims[KD_MAX_RANK];
    memcpy(dims, w->type->dims, w->rank * sizeof *dims);
    values[i] = hlo_pad(h, op->in[i], op->in[l->count + i], w->rank, dims,
                        w->low, w->high, w->interior);
  }
  for (uint32_t axis = w->rank; axis--;) {
    if (w->size[axis] == 1 && w->stride[axis] == 1) continue;
    KEEL_TRY(w->size[axis] <= LINEAR_MOST
                 ? by_elements(h, l, w, axis, values, scratch)
                 : by_doubling(h, l, w, axis, values, scratch));
  }
  if (l->kind != HLO_OTHER) {
    op->out[0] =
        hlo_with_start(h, l->kind, w->type->dtype, values[0], op->in[1]);
    return KD_OK;
  }
  return hlo_combine_lanes(h, l, op->in + l->count, values, op->out);
}

keel_status hlo_reduce_window(hlo *h, const hlo_op *op) {
  window w = {0};
  int64_t order[KD_MAX_RANK], axis = 0;
  uint32_t windows = 0, lane_count = op->output_count;
  bool reverse = false;
  KEEL_TRY(hlo_check_lanes(h, op));
  KEEL_TRY(window_read_window(h, op, true, &w));
  for (uint32_t i = 0; i < lane_count; i++)
    KEEL_TRY(check_result_dims(h, op, &w, op->out_types[i]));
  kd_dtype dtype = w.type->dtype;
  hlo_kind kind = lane_count == 1 && !hlo_is_complex(dtype)
                      ? hlo_body_kind(h, &op->raw->regions[0])
                      : HLO_OTHER;
  if (!op->out_types[0]->elements) {
    for (uint32_t i = 0; i < lane_count; i++)
      op->out[i] = hlo_expand(h, op->in[lane_count + i], w.rank, w.out);
    return KD_OK;
  }
  if (kind == HLO_ADD && is_running(&w, &axis, &reverse)) {
    keel_value sum = running_sum(h, op->in[0], axis, reverse);
    op->out[0] = hlo_with_start(h, kind, dtype, sum, op->in[1]);
    return KD_OK;
  }
  if (kind == HLO_MAXIMUM && hlo_is_float(dtype) &&
      is_pool(&w, &windows, order)) {
    keel_value most = max_pool(h, &w, windows, order, op->in[0]);
    op->out[0] = hlo_with_start(h, kind, dtype, most, op->in[1]);
    return KD_OK;
  }
  keel_value *scratch = calloc(6 * (size_t)lane_count + 1, sizeof *scratch);
  if (!scratch) return keel_no_memory(lane_count);
  hlo_lanes l = {op, kind, lane_count, scratch + 4 * (size_t)lane_count};
  keel_status status = reduce_axes(h, &l, &w, scratch, scratch + lane_count);
  free(scratch);
  return status;
}

/* ---- select_and_scatter ------------------------------------------------------------------ */

typedef struct scatter {
  const hlo_op *op;
  const window *w;
  int64_t at[KD_MAX_RANK]; /* an element of the window */
  int64_t number;          /* of it */
  bool padded;
  keel_value grid, inside; /* the padded input, and where it is not padding */
  keel_value best, which, have;
} scatter;

static bool next_element(scatter *s) {
  s->number++;
  for (uint32_t i = s->w->rank; i--;) {
    if (++s->at[i] < s->w->size[i]) return true;
    s->at[i] = 0;
  }
  return false;
}

static keel_value part_at(hlo *h, const scatter *s, keel_value value) {
  for (uint32_t i = 0; i < s->w->rank; i++)
    value = hlo_part(h, value, i, s->at[i],
                     s->at[i] + (s->w->out[i] - 1) * s->w->stride[i] + 1,
                     s->w->stride[i]);
  return value;
}

/* The selected element of each window: the first that `select` keeps against those behind
 * it. Padding is never selected. */
static keel_status select_elements(hlo *h, scatter *s) {
  s->best = part_at(h, s, s->grid);
  s->which = hlo_number(h, KD_I32, 0);
  if (s->padded) s->have = part_at(h, s, s->inside);
  while (next_element(s)) {
    keel_value args[] = {s->best, part_at(h, s, s->grid)}, keep = 0;
    KEEL_TRY(hlo_body(h, s->op, &s->op->raw->regions[0], args, 2, 1, &keep));
    if (s->padded) {
      keel_value here = part_at(h, s, s->inside);
      keep = HLO(h, "Or", HLO(h, "And", keep, s->have), HLO(h, "Not", here));
      s->have = HLO(h, "Or", s->have, here);
    }
    keel_value number = hlo_number(h, KD_I32, (double)s->number);
    s->best = HLO(h, "Where", keep, s->best, args[1]);
    s->which = HLO(h, "Where", keep, s->which, number);
  }
  return KD_OK;
}

/* The sources whose window selected the element at s->at, where that lies in the input. */
static keel_value placed(hlo *h, const scatter *s, keel_value zero) {
  const window *w = s->w;
  int64_t dims[KD_MAX_RANK], low[KD_MAX_RANK], high[KD_MAX_RANK];
  int64_t interior[KD_MAX_RANK];
  keel_value is =
      HLO(h, "Equal", s->which, hlo_number(h, KD_I32, (double)s->number));
  if (s->padded) is = HLO(h, "And", is, s->have);
  for (uint32_t i = 0; i < w->rank; i++) {
    dims[i] = w->out[i];
    interior[i] = w->stride[i] - 1;
    low[i] = s->at[i] - w->low[i];
    high[i] = w->type->dims[i] - low[i] - (w->out[i] - 1) * w->stride[i] - 1;
  }
  keel_value value = HLO(h, "Where", is, s->op->in[1], zero);
  return hlo_pad(h, value, zero, w->rank, dims, low, high, interior);
}

static keel_status check_scatter(hlo *h, const hlo_op *op, window *w) {
  KEEL_TRY(hlo_arity(h, op, 3, 1));
  kd_dtype dtype = op->in_types[0]->dtype;
  if (op->raw->region_count != 2 || op->in_types[0]->dynamic ||
      op->in_types[1]->dynamic || op->in_types[2]->rank ||
      op->in_types[1]->dtype != dtype || op->in_types[2]->dtype != dtype)
    return hlo_wrong(h, op, "its inputs do not match");
  if (op->out_types[0]->dtype != dtype)
    return hlo_refuse(h, op, "%s become %s", op->in_types[0]->what,
                      op->out_types[0]->what);
  if (hlo_body_kind(h, &op->raw->regions[1]) != HLO_ADD)
    return hlo_refuse(h, op, "a scatter that is not a sum");
  KEEL_TRY(window_read_window(h, op, false, w));
  return check_result_dims(h, op, w, op->in_types[1]);
}

keel_status hlo_select_and_scatter(hlo *h, const hlo_op *op) {
  window w = {0};
  KEEL_TRY(check_scatter(h, op, &w));
  kd_dtype dtype = w.type->dtype;
  keel_value zero = hlo_number(h, dtype, 0), sum = KEEL_ABSENT;
  scatter s = {.op = op, .w = &w};
  int64_t dims[KD_MAX_RANK];
  for (uint32_t i = 0; i < w.rank; i++)
    s.padded = s.padded || w.low[i] || w.high[i];
  memcpy(dims, w.type->dims, w.rank * sizeof *dims);
  s.grid = hlo_pad(h, op->in[0], zero, w.rank, dims, w.low, w.high, NULL);
  if (s.padded) {
    keel_value yes = hlo_number(h, KD_BOOL, 1);
    memcpy(dims, w.type->dims, w.rank * sizeof *dims);
    s.inside = hlo_expand(h, yes, w.rank, dims);
    s.inside = hlo_pad(h, s.inside, hlo_number(h, KD_BOOL, 0), w.rank, dims,
                       w.low, w.high, NULL);
  }
  if (!op->in_types[1]->elements || !w.type->elements) {
    op->out[0] = hlo_expand(h, op->in[2], w.rank, w.type->dims);
    return KD_OK;
  }
  KEEL_TRY(select_elements(h, &s));
  s.number = 0;
  memset(s.at, 0, sizeof s.at);
  do {
    keel_value here = placed(h, &s, zero);
    sum = sum == KEEL_ABSENT ? here : HLO(h, "Add", sum, here);
  } while (next_element(&s));
  op->out[0] = hlo_with_start(h, HLO_ADD, dtype, sum, op->in[2]);
  op->out[0] = hlo_expand(h, op->out[0], w.rank, w.type->dims);
  return KD_OK;
}
