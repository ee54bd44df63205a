/* resize.h - what the axes, scales, sizes and roi of a Resize say of each dimension of its
 * input. No device code. */
#ifndef KEEL_FAMILIES_RESIZE_H
#define KEEL_FAMILIES_RESIZE_H

#include <kd/kd.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The inputs and attributes. Counts are 0 where an input is absent. */
typedef struct resize_given {
  uint32_t rank;
  const int64_t *in, *out; /* dimensions of X and Y */
  const int64_t *axes;
  int64_t axis_count; /* negative: all dimensions, in their order */
  double scales[KD_MAX_RANK], sizes[KD_MAX_RANK], roi[2 * KD_MAX_RANK];
  int64_t scale_count, size_count, roi_count; /* as given, also beyond those */
  const char *policy;                         /* keep_aspect_ratio_policy */
  bool crop;                                  /* roi matters */
} resize_given;

typedef struct resize_axis {
  double scale, roi_start, roi_end;
  bool moved; /* false: output o is element o of the input */
} resize_axis;

/* The one scale of all `count` dimensions `at` where the policy keeps the picture's
 * form, else 0. A dimension without elements has no say. */
static inline double resize_common(const resize_given *given, const int64_t *at,
                                   int64_t count) {
  bool larger = !strcmp(given->policy, "not_smaller");
  double common = 0;
  if (!given->size_count || !strcmp(given->policy, "stretch")) return 0;
  for (int64_t i = 0; i < count; i++) {
    double size = (double)given->in[at[i]];
    double scale = size > 0 ? given->sizes[i] / size : common;
    if (!(common > 0) || (larger ? scale > common : scale < common))
      common = scale;
  }
  return common;
}

/* The dimensions that the entries of the inputs are of. Returns how many, or -1 where
 * one is out of range or comes twice. */
static inline int64_t resize_dimensions(const resize_given *given,
                                        int64_t *at) {
  bool seen[KD_MAX_RANK] = {false};
  int64_t rank = given->rank;
  int64_t count = given->axis_count < 0 ? rank : given->axis_count;
  if (count > rank) return -1;
  for (int64_t i = 0; i < count; i++) {
    int64_t d = given->axis_count < 0 ? i : given->axes[i];
    at[i] = d < 0 ? d + rank : d;
    if (at[i] < 0 || at[i] >= rank || seen[at[i]]) return -1;
    seen[at[i]] = true;
  }
  return count;
}

/* Fills `axes`, one a dimension. Returns NULL, or what is wrong. */
static inline const char *resize_read(const resize_given *given,
                                      resize_axis *axes) {
  int64_t at[KD_MAX_RANK];
  int64_t count = resize_dimensions(given, at);
  bool crops = given->crop && given->roi_count;
  if (count < 0) return "axes name a dimension twice, or one that X has not";
  if (given->scale_count && given->size_count)
    return "both scales and sizes are given; leave one out";
  if ((given->scale_count && given->scale_count != count) ||
      (given->size_count && given->size_count != count))
    return "scales or sizes do not have one entry for each axis";
  if (crops && given->roi_count != 2 * count)
    return "roi does not have two entries for each axis: all starts, then all"
           " ends";
  double common = resize_common(given, at, count);
  for (uint32_t d = 0; d < given->rank; d++)
    axes[d] = (resize_axis){1, 0, 1, given->in[d] != given->out[d]};
  for (int64_t i = 0; i < count; i++) {
    resize_axis *axis = &axes[at[i]];
    double in = (double)given->in[at[i]];
    if (given->scale_count)
      axis->scale = given->scales[i];
    else if (given->size_count && in > 0)
      axis->scale = common > 0 ? common : given->sizes[i] / in;
    if (!(axis->scale >= 0 && isfinite(axis->scale)) ||
        (given->scale_count && axis->scale == 0))
      return "a scale is not a positive number";
    if (crops) {
      axis->roi_start = given->roi[i];
      axis->roi_end = given->roi[i + count];
    }
    if (!isfinite(axis->roi_start) || !isfinite(axis->roi_end))
      return "roi has an entry that is not a finite number";
    axis->moved |=
        axis->scale != 1 || axis->roi_start != 0 || axis->roi_end != 1;
  }
  return NULL;
}

#endif /* KEEL_FAMILIES_RESIZE_H */
