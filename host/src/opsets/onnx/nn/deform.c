/* deform.c - DeformConv, written as samples of the image (GridSample) wherever the offsets
 * let each tap of the window fall, and a product of these by the weights. */
#include "opsets/tables.h"
#include "opsets/terms.h"
#include "passes/passes.h"

#define SPACE_MOST \
  ((KD_MAX_RANK - 2) / 2) /* taps and places are dimensions each */

typedef struct deform {
  keel_emit *all;
  uint32_t space;        /* dimensions of an image */
  uint32_t batch, items; /* lists of one: images, and images by offset group */
  uint32_t image, kernel, places; /* lists of `space` */
  uint32_t taps, spots; /* lists of one: how many there are of the last two */
  int64_t groups, offset_groups;
  int64_t strides[SPACE_MOST], dilations[SPACE_MOST], pads[2 * SPACE_MOST];
  kd_dtype wide; /* of coordinates */
} deform;

static uint32_t item(const deform *d, uint32_t list, int64_t index) {
  return keel_emit_slice(d->all, list, 0, index, index + 1, 1);
}

static uint32_t deform_times(const deform *d, uint32_t a, uint32_t b) {
  return keel_emit_binary(d->all, "Mul", a, b);
}

static uint32_t plus(const deform *d, uint32_t a, uint32_t b) {
  return keel_emit_binary(d->all, "Add", a, b);
}

static uint32_t deform_shaped(const deform *d, uint32_t value,
                              const uint32_t *lists, uint32_t count) {
  return keel_emit_binary(d->all, "Reshape", value,
                          keel_emit_concat(d->all, 0, lists, count));
}

static uint32_t ones(const deform *d, int64_t count) {
  int64_t list[SPACE_MOST];
  for (int64_t i = 0; i < count; i++)
    list[i] = 1;
  return keel_emit_ints(d->all, list, count);
}

/* first, first + step ... along dimension `dim` of items, taps, a place's numbers, places. */
static uint32_t deform_along(const deform *d, uint32_t count, int64_t step,
                             int64_t first, uint32_t dim) {
  int64_t dims[2 + 2 * SPACE_MOST];
  for (uint32_t i = 0; i < 2 + 2 * d->space; i++)
    dims[i] = i == dim ? -1 : 1;
  uint32_t numbers = plus(d,
                          deform_times(d, keel_emit_range(d->all, count),
                                       keel_emit_int(d->all, step)),
                          keel_emit_int(d->all, first));
  return keel_emit_reshape(d->all, numbers, dims, 2 + 2 * (int64_t)d->space);
}

/* Where taps fall in dimension `dim` of the image, as GridSample counts: from -1, the image's
 * edge, to 1. */
static uint32_t coordinate(const deform *d, uint32_t offset, uint32_t dim) {
  keel_emit *all = d->all;
  uint32_t regular = plus(
      d,
      deform_along(d, item(d, d->kernel, dim), d->dilations[dim], 0, 1 + dim),
      deform_along(d, item(d, d->places, dim), d->strides[dim], -d->pads[dim],
                   2 + d->space + dim));
  uint32_t moved =
      keel_emit_slice(all, offset, 1 + d->space, dim, (int64_t)dim + 1, 1);
  uint32_t at = plus(d, moved, keel_emit_cast(all, regular, d->wide));
  uint32_t twice = deform_times(d, at, keel_emit_number(all, 2, at));
  uint32_t from_edge = plus(d, twice, keel_emit_number(all, 1, at));
  uint32_t size = keel_emit_cast(all, item(d, d->image, dim), d->wide);
  return keel_emit_binary(all, "Sub",
                          keel_emit_binary(all, "Div", from_edge, size),
                          keel_emit_number(all, 1, at));
}

/* The grid: items, taps and places in one dimension, 1 ..., a number for each dimension of the
 * image, the last dimension first. */
static uint32_t grid_of(const deform *d) {
  keel_emit *all = d->all;
  uint32_t numbers = keel_emit_int(all, d->space);
  const uint32_t apart[] = {d->items, d->kernel, numbers, d->places};
  const uint32_t together[] = {d->items, deform_times(d, d->taps, d->spots),
                               ones(d, d->space)};
  uint32_t offset = deform_shaped(
      d, keel_emit_cast(all, keel_emit_in(all, 2), d->wide), apart, 4);
  uint32_t parts[SPACE_MOST];
  for (uint32_t i = 0; i < d->space; i++) {
    uint32_t one = coordinate(d, offset, d->space - 1 - i);
    parts[i] = deform_shaped(d, one, together, 3);
  }
  return keel_emit_concat(all, -1, parts, d->space);
}

/* The elements at the taps, by the mask: items, channels, taps and places. */
static uint32_t samples_of(const deform *d) {
  keel_emit *all = d->all;
  uint32_t x = keel_emit_in(all, 0), mask = keel_emit_in(all, 4);
  uint32_t channels = keel_emit_binary(all, "Div", keel_emit_dims(all, x, 1, 2),
                                       keel_emit_int(all, d->offset_groups));
  uint32_t columns = deform_times(d, d->taps, d->spots);
  const uint32_t image[] = {d->items, channels, d->image};
  const uint32_t flat[] = {d->items, channels, columns};
  const uint32_t of_mask[] = {d->items, ones(d, 1), columns};
  const uint32_t inputs[] = {deform_shaped(d, x, image, 3), grid_of(d)};
  uint32_t y = deform_shaped(
      d, keel_emit_op(all, "GridSample", NULL, 0, inputs, 2), flat, 3);
  return mask == KEEL_ABSENT
             ? y
             : deform_times(d, y, deform_shaped(d, mask, of_mask, 3));
}

/* The samples by the weights, group by group. */
static uint32_t product_of(const deform *d, uint32_t samples) {
  keel_emit *all = d->all;
  uint32_t w = keel_emit_in(all, 1), bias = keel_emit_in(all, 3);
  uint32_t groups = keel_emit_int(all, d->groups);
  uint32_t maps = keel_emit_dims(all, w, 0, 1);
  uint32_t rows = deform_times(d, keel_emit_dims(all, w, 1, 2), d->taps);
  const uint32_t of_weights[] = {
      groups, keel_emit_binary(all, "Div", maps, groups), rows};
  const uint32_t of_samples[] = {d->batch, groups, rows, d->spots};
  const uint32_t of_y[] = {d->batch, maps, d->places};
  const uint32_t of_bias[] = {maps, ones(d, d->space)};
  uint32_t y =
      keel_emit_binary(all, "MatMul", deform_shaped(d, w, of_weights, 3),
                       deform_shaped(d, samples, of_samples, 4));
  y = deform_shaped(d, y, of_y, 3);
  return bias == KEEL_ABSENT ? y
                             : plus(d, y, deform_shaped(d, bias, of_bias, 2));
}

/* The rank is that of an input of which it is known. */
static uint32_t space_of(const keel_emit *all) {
  for (uint32_t i = 0; i < 3; i++) {
    const keel_type *type = keel_emit_type(all, i);
    if (type) return type->rank > 2 ? type->rank - 2 : 0;
  }
  return 0;
}

static bool deform_read_window(deform *d) {
  int64_t space = d->space;
  bool fits = keel_emit_list(d->all, "strides", space, 1, d->strides) &&
              keel_emit_list(d->all, "dilations", space, 1, d->dilations) &&
              keel_emit_list(d->all, "pads", 2 * space, 0, d->pads);
  for (uint32_t i = 0; fits && i < d->space; i++)
    fits = d->strides[i] > 0 && d->strides[i] < INT32_MAX &&
           d->dilations[i] > 0 && d->dilations[i] < INT32_MAX &&
           d->pads[i] > -INT32_MAX && d->pads[i] < INT32_MAX;
  return fits;
}

static void expand_deform_conv(keel_emit *all) {
  uint32_t x = keel_emit_in(all, 0), w = keel_emit_in(all, 1),
           offset = keel_emit_in(all, 2);
  deform d = {.all = all,
              .space = space_of(all),
              .groups = keel_attr_int(all->node.op, "group", 1),
              .offset_groups = keel_attr_int(all->node.op, "offset_group", 1),
              .wide = keel_emit_dtype(all, x) == KD_F64 ? KD_F64 : KD_F32};
  if (!d.space || d.space > SPACE_MOST || d.groups < 1 || d.offset_groups < 1 ||
      !deform_read_window(&d)) {
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "X must be N,C and 1 to %u dimensions of space, whose"
                   " number is known before the run; strides, dilations"
                   " and pads must have as many numbers, and group and"
                   " offset_group be 1 or more",
                   (unsigned)SPACE_MOST);
    return;
  }
  d.batch = keel_emit_dims(all, x, 0, 1);
  d.items = deform_times(&d, d.batch, keel_emit_int(all, d.offset_groups));
  d.image = keel_emit_dims(all, x, 2, INT64_MAX);
  d.kernel = keel_emit_dims(all, w, 2, INT64_MAX);
  d.places = keel_emit_dims(all, offset, 2, INT64_MAX);
  d.taps = keel_emit_unary(all, "ReduceProd", d.kernel);
  d.spots = keel_emit_unary(all, "ReduceProd", d.places);
  keel_emit_give(all, 0, product_of(&d, samples_of(&d)));
}

/* ---- rows ---- */

static const keel_op_rule rules[] = {
    {"DeformConv", .expand = expand_deform_conv},
};

const keel_op_table keel_ops_deform = {KEEL_TABLE_RULES(rules)};
