/* expand_window.c - Col2Im, written as sums into the places of an image that has its padding, and
 * CausalConvWithState, written as a depthwise convolution. */
#include "ops/tables.h"
#include "passes/passes.h"
#include "program/emit.h"

/* ---- Col2Im -------------------------------------------------------------------------------- */

#define DIMS_MOST \
  (KD_MAX_RANK / 2) /* blocks and their places are dimensions each */

typedef struct columns {
  keel_emit *all;
  uint32_t rank; /* of the image */
  uint32_t image, block, whole,
      count; /* lists; whole: with the padding; count: of blocks */
  int64_t begin[DIMS_MOST]; /* padding before */
} columns;

static uint32_t item(const columns *c, uint32_t list, int64_t index) {
  return keel_emit_slice(c->all, list, 0, index, index + 1, 1);
}

static uint32_t product(const columns *c, uint32_t list) {
  return keel_emit_unary(c->all, "ReduceProd", list);
}

/* 0, step, 2 * step ... along one of twice as many dimensions as the image has. */
static uint32_t along(const columns *c, uint32_t count, int64_t step,
                      uint32_t dim) {
  int64_t dims[2 * DIMS_MOST];
  for (uint32_t i = 0; i < 2 * c->rank; i++)
    dims[i] = i == dim ? -1 : 1;
  uint32_t places =
      keel_emit_binary(c->all, "Mul", keel_emit_range(c->all, count),
                       keel_emit_int(c->all, step));
  return keel_emit_reshape(c->all, places, dims, 2 * c->rank);
}

/* Where each element of each block lies in the padded image, which is one line: of all blocks
 * the first element first, as the columns are. */
static uint32_t places(const columns *c, const int64_t *dilations,
                       const int64_t *strides) {
  uint32_t at = KEEL_ABSENT;
  for (uint32_t d = 0; d < c->rank; d++) {
    uint32_t here = keel_emit_binary(
        c->all, "Add", along(c, item(c, c->block, d), dilations[d], d),
        along(c, item(c, c->count, d), strides[d], c->rank + d));
    if (d) at = keel_emit_binary(c->all, "Mul", at, item(c, c->whole, d));
    at = d ? keel_emit_binary(c->all, "Add", at, here) : here;
  }
  const int64_t line[] = {1, 1, -1};
  return keel_emit_reshape(c->all, at, line, 3);
}

/* The image without its padding. */
static uint32_t inside(const columns *c, uint32_t value) {
  int64_t axes[DIMS_MOST];
  for (uint32_t d = 0; d < c->rank; d++)
    axes[d] = 2 + (int64_t)d;
  uint32_t begin = keel_emit_ints(c->all, c->begin, c->rank);
  const uint32_t inputs[] = {value, begin,
                             keel_emit_binary(c->all, "Add", begin, c->image),
                             keel_emit_ints(c->all, axes, c->rank)};
  return keel_emit_op(c->all, "Slice", NULL, 0, inputs, 4);
}

static void write_sums(columns *c, uint32_t at) {
  keel_emit *all = c->all;
  uint32_t x = keel_emit_in(all, 0);
  uint32_t batch = keel_emit_dims(all, x, 0, 1);
  uint32_t taps = product(c, c->block);
  uint32_t channels =
      keel_emit_binary(all, "Div", keel_emit_dims(all, x, 1, 2), taps);
  const uint32_t lines[] = {
      batch, channels,
      keel_emit_binary(all, "Mul", taps, keel_emit_dims(all, x, 2, 3))};
  const uint32_t line[] = {batch, channels, product(c, c->whole)};
  const uint32_t image[] = {batch, channels, c->whole};
  uint32_t dims = keel_emit_concat(all, 0, lines, 3);
  uint32_t zeros = keel_emit_binary(all, "Expand", keel_emit_number(all, 0, x),
                                    keel_emit_concat(all, 0, line, 3));
  const keel_attr attrs[] = {KEEL_INT("axis", 2),
                             KEEL_STRING("reduction", "add")};
  const uint32_t inputs[] = {zeros, keel_emit_binary(all, "Expand", at, dims),
                             keel_emit_binary(all, "Reshape", x, dims)};
  uint32_t sums = keel_emit_op(all, "ScatterElements", attrs, 2, inputs, 3);
  sums = keel_emit_binary(all, "Reshape", sums,
                          keel_emit_concat(all, 0, image, 3));
  keel_emit_give(all, 0, inside(c, sums));
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
  columns c = {.all = all,
               .rank = rank_of(all),
               .image = keel_emit_in(all, 1),
               .block = keel_emit_in(all, 2)};
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
  uint32_t one = keel_emit_int(all, 1);
  c.whole = keel_emit_binary(all, "Add", c.image,
                             keel_emit_ints(all, padding, c.rank));
  uint32_t reach =
      keel_emit_binary(all, "Mul", keel_emit_binary(all, "Sub", c.block, one),
                       keel_emit_ints(all, dilations, c.rank));
  uint32_t steps = keel_emit_binary(
      all, "Sub", keel_emit_binary(all, "Sub", c.whole, one), reach);
  c.count = keel_emit_binary(
      all, "Add",
      keel_emit_binary(all, "Div", steps, keel_emit_ints(all, strides, c.rank)),
      one);
  write_sums(&c, places(&c, dilations, strides));
}

/* ---- CausalConvWithState ------------------------------------------------------------------- */

/* The input behind what came before it, or behind zeros. */
static uint32_t behind_state(keel_emit *all) {
  uint32_t x = keel_emit_in(all, 0), past = keel_emit_in(all, 3);
  if (past == KEEL_ABSENT) {
    uint32_t taps = keel_emit_dims(all, keel_emit_in(all, 1), 2, 3);
    const uint32_t dims[] = {
        keel_emit_dims(all, x, 0, 2),
        keel_emit_binary(all, "Sub", taps, keel_emit_int(all, 1))};
    past = keel_emit_binary(all, "Expand", keel_emit_number(all, 0, x),
                            keel_emit_concat(all, 0, dims, 2));
  }
  const uint32_t both[] = {past, x};
  return keel_emit_concat(all, 2, both, 2);
}

static void expand_causal_conv(keel_emit *all) {
  const keel_type *weight = keel_emit_type(all, 1);
  const char *activation = keel_attr_string(all->node.op, "activation", "none");
  if (!weight || weight->rank != 3 || weight->dims[0] < 1) {
    all->status = keel_fail(
        KD_UNIMPLEMENTED,
        "CausalConvWithState \"%s\": how many channels weight has must be"
        " known before the run; make it a constant",
        all->node.name);
    return;
  }
  uint32_t whole = behind_state(all);
  const keel_attr group = KEEL_INT("group", weight->dims[0]);
  const uint32_t conv[] = {whole, keel_emit_in(all, 1), keel_emit_in(all, 2)};
  uint32_t y = keel_emit_op(all, "Conv", &group, 1, conv, 3);
  if (strcmp(activation, "none") != 0)
    y = keel_emit_binary(all, "Mul", y, keel_emit_unary(all, "Sigmoid", y));
  keel_emit_give(all, 0, y);
  if (!keel_emit_wants(all, 1)) return;
  const uint32_t last[] = {
      whole, keel_emit_dims(all, keel_emit_in(all, 0), 2, 3),
      keel_emit_int(all, INT64_MAX), keel_emit_int(all, 2)};
  keel_emit_give(all, 1, keel_emit_op(all, "Slice", NULL, 0, last, 4));
}

/* ---- rows ---- */

static const keel_op_rule rules[] = {
    {"Col2Im", .expand = expand_col2im},
    {"CausalConvWithState", .expand = expand_causal_conv},
};

const keel_op_table keel_ops_window = {KEEL_TABLE_RULES(rules)};
