/* view.h - where the elements of a result lie in its source, for ops that only move
 * them: an index space, and a stride of the source for each of its dimensions. No
 * device code: every plugin may use it. Shapes are those that the op's schema gave. */
#ifndef KEEL_FAMILIES_VIEW_H
#define KEEL_FAMILIES_VIEW_H

#include <stdbool.h>

#include "families/strided.h"

typedef struct view {
  int64_t dims[STRIDED_RANK]; /* of the result, or finer ones; packed there */
  int64_t strides[STRIDED_RANK]; /* in the source, elements */
  uint32_t rank;
  int64_t from; /* where the first element lies in the source */
} view;

/* perm NULL: all dimensions the other way round. */
static inline view view_transpose(const int64_t *x, uint32_t rank,
                                  const int64_t *perm) {
  view v = {.rank = rank};
  int64_t packed[STRIDED_RANK];
  strided_packed(x, rank, packed);
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t from = perm ? (uint32_t)perm[i] : rank - 1 - i;
    v.dims[i] = x[from];
    v.strides[i] = packed[from];
  }
  return v;
}

/* All of x, of which view_slice then takes parts. */
static inline view view_whole(const int64_t *x, uint32_t rank) {
  view v = {.rank = rank};
  strided_packed(x, rank, v.strides);
  for (uint32_t i = 0; i < rank; i++)
    v.dims[i] = x[i];
  return v;
}

/* `count` elements of an axis, with a step of 1 or more, or -1 or less; `start` is
 * clamped as ONNX says. Once an axis. */
static inline void view_slice(view *v, uint32_t axis, int64_t start,
                              int64_t step, int64_t count) {
  int64_t dim = v->dims[axis], most = step > 0 ? dim : dim - 1;
  start += start < 0 ? dim : 0;
  start = start < 0 ? 0 : start > most ? most : start;
  if (count > 0) /* else there may be no first element */
    v->from += start * v->strides[axis];
  if (count > 1) /* a step past the end is never taken */
    v->strides[axis] *= step;
  v->dims[axis] = count;
}

static inline view view_dims6(const int64_t *dims, const int64_t *strides) {
  view v = {.rank = 6};
  for (int i = 0; i < 6; i++) {
    v.dims[i] = dims[i];
    v.strides[i] = strides[i];
  }
  return v;
}

/* x is N, C, H, W; c are y's channels. DCR splits C as (b, b, C'), CRD as (C', b, b). */
static inline view view_depth_to_space(const int64_t *x, int64_t c, int64_t b,
                                       bool crd) {
  int64_t h = x[2], w = x[3], plane = h * w;
  int64_t channel = crd ? b * b * plane : plane;
  int64_t row = crd ? b * plane : b * c * plane;
  int64_t column = crd ? plane : c * plane;
  const int64_t dims[6] = {x[0], c, h, b, w, b};
  const int64_t strides[6] = {x[1] * plane, channel, w, row, 1, column};
  return view_dims6(dims, strides);
}

/* y is N, (b, b, C), h, w; CRD: N, (C, b, b), h, w. */
static inline view view_space_to_depth(const int64_t *x, int64_t h, int64_t w,
                                       int64_t b, bool crd) {
  int64_t c = x[1];
  int64_t width = w * b, plane = h * b * width;
  const int64_t dcr_dims[6] = {x[0], b, b, c, h, w};
  const int64_t dcr[6] = {c * plane, width, 1, plane, b * width, b};
  const int64_t crd_dims[6] = {x[0], c, b, b, h, w};
  const int64_t turned[6] = {c * plane, plane, width, 1, b * width, b};
  return crd ? view_dims6(crd_dims, turned) : view_dims6(dcr_dims, dcr);
}

/* Each dimension becomes (repeat, dim); `rank` is STRIDED_RANK / 2 at the most. */
static inline view view_tile(const int64_t *x, const int64_t *y,
                             uint32_t rank) {
  view v = {.rank = 2 * rank};
  int64_t packed[STRIDED_RANK];
  strided_packed(x, rank, packed);
  for (uint32_t i = 0; i < rank; i++) {
    v.dims[2 * i] = x[i] ? y[i] / x[i] : 0;
    v.dims[2 * i + 1] = x[i];
    v.strides[2 * i] = 0;
    v.strides[2 * i + 1] = packed[i];
  }
  return v;
}

/* A part of `whole` that takes `size` of an axis from `at` on: how it lies there. */
static inline view view_part(const int64_t *whole, uint32_t rank, uint32_t axis,
                             int64_t at, int64_t size) {
  int64_t inner = 1, outer = 1;
  for (uint32_t i = axis + 1; i < rank; i++)
    inner *= whole[i];
  for (uint32_t i = 0; i < axis; i++)
    outer *= whole[i];
  view v = {.rank = 2, .from = at * inner};
  v.dims[0] = outer;
  v.dims[1] = size * inner;
  v.strides[0] = whole[axis] * inner;
  v.strides[1] = 1;
  return v;
}

/* Whether an index is in its dimension; negative ones count from the end. */
static inline bool index_fits(int64_t at, int64_t dim) {
  return at >= -dim && at < dim;
}

#endif /* KEEL_FAMILIES_VIEW_H */
