/* window.c - windows over all dimensions: shapes of keel::ReduceWindow and
 * SelectAndScatter; Col2Im, written as sums into the places of an image that has its padding, and
 * CausalConvWithState, written as a depthwise convolution. */
#include "opsets/tables.h"
#include "opsets/terms.h"
#include "opsets/text.h"
#include "passes/passes.h"

/* ---- shapes ---- */

/* A list of an attribute, one number a dimension; not there: all `otherwise`. */
static keel_status window_read_list(const keel_infer *infer, const char *name,
                                    uint32_t count, int64_t otherwise,
                                    int64_t least, int64_t *out) {
  const int64_t *given = NULL;
  int64_t length = keel_attr_ints(infer->op, name, &given);
  if (length > 0 && length != (int64_t)count)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s has %lld numbers instead of %u", name,
                           (long long)length, (unsigned)count);
  for (uint32_t i = 0; i < count; i++) {
    out[i] = length > 0 ? given[i] : otherwise;
    if (out[i] < least || out[i] > INT32_MAX || out[i] < -INT32_MAX)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "%s has %lld, which is out of range", name,
                             (long long)out[i]);
  }
  return KD_OK;
}

/* The number of windows in each dimension. */
static keel_status count_windows(const keel_infer *infer, keel_dims *out) {
  const keel_type *x = infer->in[0];
  uint32_t rank = x->rank;
  int64_t window[KD_MAX_RANK], strides[KD_MAX_RANK], base[KD_MAX_RANK];
  int64_t spread[KD_MAX_RANK], pads[2 * KD_MAX_RANK];
  KEEL_TRY(window_read_list(infer, "window", rank, 1, 1, window));
  KEEL_TRY(window_read_list(infer, "strides", rank, 1, 1, strides));
  KEEL_TRY(window_read_list(infer, "base_dilations", rank, 1, 1, base));
  KEEL_TRY(window_read_list(infer, "window_dilations", rank, 1, 1, spread));
  KEEL_TRY(window_read_list(infer, "pads", 2 * rank, 0, -INT32_MAX, pads));
  out->rank = rank;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t size = x->dims[i];
    if (size > INT64_MAX / 2 / base[i])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "dimension %u, dilated, is too large",
                             (unsigned)i);
    size = size ? (size - 1) * base[i] + 1 : 0;
    size += pads[i] + pads[rank + i];
    int64_t reach = (window[i] - 1) * spread[i] + 1;
    out->dims[i] = size < reach ? 0 : (size - reach) / strides[i] + 1;
  }
  return KD_OK;
}

/* Input `index` is one number. */
static keel_status check_init(const keel_infer *infer, uint32_t index) {
  const keel_type *init = infer->in[index];
  return init->elements == 1 ? KD_OK
                             : keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                                               "init must be one number");
}

keel_status keel_shape_reduce_window(keel_infer *infer) {
  keel_dims dims = {0};
  KEEL_TRY(check_init(infer, 1));
  KEEL_TRY(count_windows(infer, &dims));
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_select_and_scatter(keel_infer *infer) {
  const keel_type *x = infer->in[0], *source = infer->in[1];
  keel_dims dims = {0};
  KEEL_TRY(check_init(infer, 2));
  KEEL_TRY(count_windows(infer, &dims));
  bool same = source->rank == dims.rank;
  for (uint32_t i = 0; same && i < dims.rank; i++)
    same = source->dims[i] == dims.dims[i];
  if (!same)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "source must have an element for each window");
  return keel_infer_out(infer, 0, x->rank, x->dims);
}

/* Numbers of an attribute, or `otherwise`. */
static keel_status window_read_window(const keel_infer *infer, const char *name,
                                      int64_t count, int64_t otherwise,
                                      int64_t least, int64_t *out) {
  const int64_t *given = NULL;
  int64_t length = keel_attr_ints(infer->op, name, &given);
  for (int64_t i = 0; i < count; i++) {
    out[i] = length == count ? given[i] : otherwise;
    if ((length > 0 && length != count) || out[i] < least || out[i] > INT32_MAX)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "%s must be %lld numbers from %lld on", name,
                             (long long)count, (long long)least);
  }
  return KD_OK;
}

/* How many blocks there are. */
static keel_status count_blocks(const keel_infer *infer, const int64_t *image,
                                const int64_t *block, int64_t rank,
                                int64_t *out_count) {
  int64_t dilations[KD_MAX_RANK], strides[KD_MAX_RANK], pads[2 * KD_MAX_RANK];
  KEEL_TRY(window_read_window(infer, "dilations", rank, 1, 1, dilations));
  KEEL_TRY(window_read_window(infer, "strides", rank, 1, 1, strides));
  KEEL_TRY(window_read_window(infer, "pads", 2 * rank, 0, 0, pads));
  *out_count = 1;
  for (int64_t d = 0; d < rank; d++) {
    bool small = image[d] >= 0 && image[d] <= INT32_MAX && block[d] >= 1 &&
                 block[d] <= INT32_MAX / dilations[d];
    int64_t capacity = small ? image[d] + pads[d] + pads[rank + d] -
                                   (block[d] - 1) * dilations[d] - 1
                             : -1;
    if (capacity < 0 ||
        !keel_mul_i64(*out_count, capacity / strides[d] + 1, out_count))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "a block does not fit into the image in dimension"
                             " %lld",
                             (long long)d);
  }
  return KD_OK;
}

keel_status keel_shape_col2im(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  int64_t image[KD_MAX_RANK / 2], block[KD_MAX_RANK / 2], blocks = 0, taps = 1;
  int64_t rank = keel_infer_ints(infer, 1, image, KD_MAX_RANK / 2);
  int64_t same = keel_infer_ints(infer, 2, block, KD_MAX_RANK / 2);
  if (rank < 0 || same < 0) return KD_INVALID_ARGUMENT;
  if (x->rank != 3 || rank < 1 || same != rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the input must have 3 dimensions, and image_shape "
                           "and block_shape as many numbers");
  KEEL_TRY(count_blocks(infer, image, block, rank, &blocks));
  bool fits = true;
  for (int64_t d = 0; d < rank; d++)
    fits = fits && keel_mul_i64(taps, block[d], &taps);
  if (!fits || blocks != x->dims[2] || x->dims[1] % taps)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the input must be [N,C*%lld,%lld]", (long long)taps,
                           (long long)blocks);
  keel_dims dims = {.rank = (uint32_t)rank + 2,
                    .dims = {x->dims[0], x->dims[1] / taps}};
  for (int64_t d = 0; d < rank; d++)
    dims.dims[2 + d] = image[d];
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_causal_conv(keel_infer *infer) {
  const keel_type *x = infer->in[0], *weight = infer->in[1];
  const keel_type *bias = keel_infer_in(infer, 2);
  const keel_type *past = keel_infer_in(infer, 3);
  bool fits = x->rank == 3 && weight->rank == 3 && weight->dims[1] == 1 &&
              weight->dims[0] == x->dims[1] && weight->dims[2] >= 1;
  if (fits && bias) fits = bias->rank == 1 && bias->dims[0] == x->dims[1];
  if (fits && past)
    fits = past->rank == 3 && past->dims[0] == x->dims[0] &&
           past->dims[1] == x->dims[1] && past->dims[2] == weight->dims[2] - 1;
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the input must be [N,C,L], weight [C,1,k], bias "
                           "[C] and past_state [N,C,k-1]");
  keel_dims dims = keel_dims_of(x);
  KEEL_TRY(keel_infer_dims(infer, 0, &dims));
  dims.dims[2] = weight->dims[2] - 1;
  return keel_infer_dims(infer, 1, &dims);
}

/* ---- in simpler ops ---- */

/* ---- Col2Im -------------------------------------------------------------------------------- */

#define DIMS_MOST \
  (KD_MAX_RANK / 2) /* blocks and their places are dimensions each */

typedef struct columns {
  keel_emit *all;
  uint32_t rank;                /* of the image */
  uint32_t block, whole, count; /* lists; whole: with the padding; count: of
                                   blocks */
  int64_t begin[DIMS_MOST];     /* padding before */
} columns;

/* 0, step, 2 * step ... along one of twice as many dimensions as the image has. */
static uint32_t window_along(const columns *c, uint32_t count, int64_t step,
                             uint32_t dim) {
  int64_t dims[2 * DIMS_MOST];
  for (uint32_t i = 0; i < 2 * c->rank; i++)
    dims[i] = i == dim ? -1 : 1;
  return keel_emit_text(c->all, "Reshape(range(%v) * {%i}, %l)", count, step,
                        dims, 2 * (int64_t)c->rank);
}

/* Where each element of each block lies in the padded image, which is one line: of all blocks
 * the first element first, as the columns are. */
static uint32_t window_places(const columns *c, const int64_t *dilations,
                              const int64_t *strides) {
  uint32_t at = KEEL_ABSENT;
  for (int64_t d = 0; d < c->rank; d++) {
    uint32_t size[3];
    const uint32_t lists[] = {c->block, c->count, c->whole};
    for (int i = 0; i < 3; i++)
      size[i] = keel_emit_slice(c->all, lists[i], 0, d, d + 1, 1);
    uint32_t taps = window_along(c, size[0], dilations[d], (uint32_t)d);
    uint32_t steps =
        window_along(c, size[1], strides[d], c->rank + (uint32_t)d);
    at = keel_emit_text(c->all, "here = %v + %v; %b ? %v * %v + here : here",
                        taps, steps, d != 0, at, size[2]);
  }
  return keel_emit_text(c->all, "Reshape(%v, {1, 1, -1})", at);
}

/* The image without its padding. */
static uint32_t inside(const columns *c, uint32_t value) {
  int64_t axes[DIMS_MOST];
  for (uint32_t d = 0; d < c->rank; d++)
    axes[d] = 2 + (int64_t)d;
  return keel_emit_text(c->all, "begin = %l; Slice(%v, begin, begin + $1, %l)",
                        c->begin, (int64_t)c->rank, value, axes,
                        (int64_t)c->rank);
}

static void write_sums(columns *c, uint32_t at) {
  uint32_t sums = keel_emit_text(
      c->all,
      "n = dims($0, 0, 1); taps = ReduceProd($2); whole = %v;"
      "c = dims($0, 1, 2) / taps; lines = {n, c, taps * dims($0, 2, 3)};"
      "zeros = Expand(0~$0, {n, c, ReduceProd(whole)});"
      "sums = ScatterElements[axis=2, reduction=add](zeros,"
      "       Expand(%v, lines), Reshape($0, lines));"
      "Reshape(sums, {n, c, whole})",
      c->whole, at);
  keel_emit_give(c->all, 0, inside(c, sums));
}

/* The image's rank: that of image_shape, or 0. */
static uint32_t rank_of(const keel_emit *all) {
  for (uint32_t i = 1; i <= 2; i++) {
    const keel_type *list = keel_emit_type(all, i);
    if (list && list->rank == 1 && list->dims[0] > 0 &&
        list->dims[0] <= DIMS_MOST)
      return (uint32_t)list->dims[0];
  }
  return 0;
}

static void expand_col2im(keel_emit *all) {
  columns c = {.all = all, .rank = rank_of(all), .block = keel_emit_in(all, 2)};
  int64_t dilations[DIMS_MOST], strides[DIMS_MOST], pads[2 * DIMS_MOST];
  int64_t padding[DIMS_MOST];
  bool fits = c.rank &&
              keel_emit_list(all, "dilations", c.rank, 1, dilations) &&
              keel_emit_list(all, "strides", c.rank, 1, strides) &&
              keel_emit_list(all, "pads", 2 * (int64_t)c.rank, 0, pads);
  for (uint32_t d = 0; fits && d < c.rank; d++) {
    fits = dilations[d] > 0 && dilations[d] < INT32_MAX && strides[d] > 0 &&
           strides[d] < INT32_MAX && pads[d] >= 0 && pads[c.rank + d] >= 0 &&
           pads[d] < INT32_MAX && pads[c.rank + d] < INT32_MAX;
    c.begin[d] = pads[d];
    padding[d] = fits ? pads[d] + pads[c.rank + d] : 0;
  }
  if (!fits) {
    all->status = keel_fail(KD_UNIMPLEMENTED,
                            "Col2Im \"%s\": the length of image_shape must be "
                            "known before the run and at most %d, and"
                            " dilations, strides and pads must have as many "
                            "numbers, none of them negative",
                            all->node.name, DIMS_MOST);
    return;
  }
  int64_t rank = c.rank;
  keel_emit_text(all,
                 "whole = $1 + %l; reach = ($2 - {1}) * %l; %p = whole;"
                 "%p = (whole - {1} - reach) / %l + {1}",
                 padding, rank, dilations, rank, &c.whole, &c.count, strides,
                 rank);
  write_sums(&c, window_places(&c, dilations, strides));
}

/* ---- CausalConvWithState ------------------------------------------------------------------- */

static void expand_causal_conv(keel_emit *all) {
  const keel_type *weight = keel_emit_type(all, 1);
  if (!weight || weight->rank != 3 || weight->dims[0] < 1) {
    all->status = keel_fail(
        KD_UNIMPLEMENTED,
        "CausalConvWithState \"%s\": how many channels weight has must be"
        " known before the run; make it a constant",
        all->node.name);
    return;
  }
  /* the input behind what came before it, or behind zeros */
  keel_emit_text(
      all,
      "taps = dims($1, 2, 3) - {1};"
      "past = $3 ? $3 : Expand(0~$0, {dims($0, 0, 2), taps});"
      "all = Concat[axis=2](past, $0); y = Conv[group=%i](all, $1, $2);"
      "%0 = @activation=none ? y : y * Sigmoid(y);"
      "%1 = Slice(all, dims($0, 2, 3), {max}, {2})",
      weight->dims[0]);
}

/* ---- rows ---- */

static const keel_op_rule rules[] = {
    {"Col2Im", .expand = expand_col2im},
    {"CausalConvWithState", .expand = expand_causal_conv},
};

const keel_op_table keel_ops_window = {KEEL_TABLE_RULES(rules)};
