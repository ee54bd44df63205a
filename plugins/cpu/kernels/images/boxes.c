/* boxes.c - NonMaxSuppression.
 *
 * Candidates are taken best first, a tile of them at a time: threads compare them with the
 * boxes that were chosen before the tile, and one compares those that are left among
 * themselves. So the result is that of one after the other. */
#include <stdatomic.h>

#include "data/keys.h"
#include "kernels.h"
#include "lanes.h"

#define TILE  512
#define PAIRS 16384 /* compared in some 10 microseconds */

const cpu_lanes *cpu_lanes_get(void) {
  return CPU_LOOPS(cpu_lanes);
}

typedef struct suppression {
  const kd_tensor *boxes, *scores;
  int64_t most;
  double threshold, least;
  bool centred;
  const cpu_lanes *lanes;
  int64_t *chosen;    /* of each line, `most` boxes */
  int64_t *counts;    /* of each line */
  atomic_bool failed; /* for want of memory */
} suppression;

/* One class of one image. */
typedef struct field {
  const suppression *of;
  const float *boxes;
  cpu_key *order, *room; /* candidates, best first */
  cpu_boxes kept;
  int64_t count;     /* of `kept` */
  int64_t begin;     /* of the tile, in `order` */
  double (*tile)[5]; /* its boxes: y0, x0, y1, x1, area */
  bool *covered;
} field;

/* ---- boxes -------------------------------------------------------------------- */

static void box_at(const float *b, bool centred, double *out) {
  double v[4] = {(double)b[0], (double)b[1], (double)b[2], (double)b[3]};
  out[0] = centred ? v[1] - v[3] / 2 : fmin(v[0], v[2]);
  out[1] = centred ? v[0] - v[2] / 2 : fmin(v[1], v[3]);
  out[2] = centred ? v[1] + v[3] / 2 : fmax(v[0], v[2]);
  out[3] = centred ? v[0] + v[2] / 2 : fmax(v[1], v[3]);
  out[4] = (out[2] - out[0]) * (out[3] - out[1]);
}

static double overlap(const double *a, const cpu_boxes *b, int64_t i) {
  double height = fmin(a[2], b->y1[i]) - fmax(a[0], b->y0[i]);
  double width = fmin(a[3], b->x1[i]) - fmax(a[1], b->x0[i]);
  double common = height > 0 && width > 0 ? height * width : 0;
  double either = a[4] + b->area[i] - common;
  return either > 0 ? common / either : 0;
}

/* One of the kept boxes [from, to) shares more than the threshold with a box. */
static bool covers(const field *f, const double *box, int64_t from,
                   int64_t to) {
  double threshold = f->of->threshold;
  double low = threshold * (1 - 1e-12);
  if (threshold < 0) return to > from; /* nothing shares less */
  while (from < to) {
    from = f->of->lanes->meet(&f->kept, from, to, box, low);
    int64_t end = from + CPU_BOXES < to ? from + CPU_BOXES : to;
    for (; from < end; from++)
      if (overlap(box, &f->kept, from) > threshold) return true;
  }
  return false;
}

/* ---- a class of an image ---------------------------------------------------------- */

static void cover_tile(void *context, int64_t begin, int64_t end) {
  field *f = context;
  for (int64_t i = begin; i < end; i++)
    f->covered[i] = covers(f, f->tile[i], 0, f->count);
}

static void boxes_keep(field *f, const double *box) {
  f->kept.y0[f->count] = box[0];
  f->kept.x0[f->count] = box[1];
  f->kept.y1[f->count] = box[2];
  f->kept.x1[f->count] = box[3];
  f->kept.area[f->count++] = box[4];
}

/* The next tile of `size` candidates; `chosen` gets those that are kept. */
static void choose_tile(field *f, int64_t size, int64_t *chosen) {
  const cpu_key *order = f->order + f->begin;
  int64_t before = f->count;
  for (int64_t i = 0; i < size; i++)
    box_at(f->boxes + order[i].at * 4, f->of->centred, f->tile[i]);
  cpu_host->parallel_for(cpu_host, size, PAIRS / (before + 1) + 1, cover_tile,
                         f);
  for (int64_t i = 0; i < size && f->count < f->of->most; i++) {
    if (f->covered[i] || covers(f, f->tile[i], before, f->count)) continue;
    chosen[f->count] = order[i].at;
    boxes_keep(f, f->tile[i]);
  }
}

/* Candidates: what scores more than the least, best first. */
static int64_t candidates_of(const field *f, const float *scores, int64_t n) {
  int64_t count = 0;
  cpu_keys_of(scores, KD_F32, 1, n, true, f->order);
  for (int64_t i = 0; i < n; i++)
    if ((double)scores[i] > f->of->least) f->order[count++] = f->order[i];
  cpu_keys_sort(f->order, f->room, count);
  return count;
}

static bool boxes_make_room(field *f, int64_t n) {
  size_t most = (size_t)f->of->most;
  f->order = malloc(((size_t)n * 2 + 1) * sizeof *f->order);
  f->kept.y0 = malloc((most * 5 + 1) * sizeof(double));
  f->tile = malloc(TILE * sizeof *f->tile);
  f->covered = malloc(TILE * sizeof *f->covered);
  if (!f->order || !f->kept.y0 || !f->tile || !f->covered) return false;
  f->room = f->order + n;
  f->kept.x0 = f->kept.y0 + most;
  f->kept.y1 = f->kept.x0 + most;
  f->kept.x1 = f->kept.y1 + most;
  f->kept.area = f->kept.x1 + most;
  return true;
}

static void choose_lines(void *context, int64_t begin, int64_t end) {
  suppression *w = context;
  int64_t n = w->boxes->dims[1], classes = w->scores->dims[1];
  field f = {.of = w};
  bool made = boxes_make_room(&f, n);
  if (!made) atomic_store(&w->failed, true);
  for (int64_t line = begin; line < end && made; line++) {
    f.boxes = (const float *)w->boxes->data + line / classes * n * 4;
    f.count = 0;
    int64_t all =
        candidates_of(&f, (const float *)w->scores->data + line * n, n);
    for (f.begin = 0; f.begin < all && f.count < w->most; f.begin += TILE)
      choose_tile(&f, all - f.begin < TILE ? all - f.begin : TILE,
                  w->chosen + line * w->most);
    w->counts[line] = f.count;
  }
  free(f.order);
  free(f.kept.y0);
  free(f.tile);
  free(f.covered);
}

/* ---- the kernel --------------------------------------------------------------------- */

static double scalar(const kd_launch *launch, uint32_t input, double fallback) {
  const kd_tensor *in = &launch->inputs[input];
  return kd_has_input(launch, input) && in->size
             ? cpu_get(in->data, in->dtype, 0)
             : fallback;
}

static kd_status give_chosen(const kd_launch *launch, const suppression *w,
                             int64_t lines) {
  int64_t dims[2] = {0, 3}, classes = w->scores->dims[1];
  kd_tensor y;
  for (int64_t line = 0; line < lines; line++)
    dims[0] += w->counts[line];
  kd_status status = cpu_host->set_output(launch, 0, 2, dims, &y);
  if (status != KD_OK) return status;
  int64_t *to = y.data;
  for (int64_t line = 0; line < lines; line++)
    for (int64_t i = 0; i < w->counts[line]; i++, to += 3) {
      to[0] = line / classes;
      to[1] = line % classes;
      to[2] = w->chosen[line * w->most + i];
    }
  return KD_OK;
}

CPU_KERNEL(cpu_run_non_max_suppression) {
  suppression w = {.boxes = &launch->inputs[0],
                   .scores = &launch->inputs[1],
                   .threshold = scalar(launch, 3, 0),
                   .least = scalar(launch, 4, -INFINITY),
                   .centred = attr_int(launch, "center_point_box", 0) != 0,
                   .lanes = cpu_lanes_get()};
  const kd_tensor *boxes = w.boxes, *scores = w.scores;
  if (boxes->rank != 3 || boxes->dims[2] != 4 || scores->rank != 3 ||
      scores->dims[0] != boxes->dims[0] || scores->dims[2] != boxes->dims[1])
    return FAIL(KD_INVALID_ARGUMENT,
                "boxes are [images, n, 4], scores [images, classes, n]");
  int64_t n = boxes->dims[1], lines = scores->dims[0] * scores->dims[1];
  double most = scalar(launch, 2, 0);
  w.most = most > 0 ? most < (double)n ? (int64_t)most : n : 0;
  w.chosen = malloc(((size_t)lines * (size_t)w.most + 1) * sizeof *w.chosen);
  w.counts = calloc((size_t)lines + 1, sizeof *w.counts);
  bool room = w.chosen && w.counts;
  if (room && w.most)
    cpu_host->parallel_for(cpu_host, lines, CPU_GRAIN / 8 / (n + 1) + 1,
                           choose_lines, &w);
  kd_status status = room && !atomic_load(&w.failed)
                         ? give_chosen(launch, &w, lines)
                         : FAIL(KD_OUT_OF_MEMORY, "no memory for %lld boxes",
                                (long long)(lines * n));
  free(w.chosen);
  free(w.counts);
  return status;
}
