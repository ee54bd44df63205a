/* dilated.c - f32 convolutions in the blocked layout whose windows reach far into the padding.
 *
 * With large dilations most taps see padding: 82 of 100 where 3 x 3 taps are 12 apart in an
 * image of 14 x 14. Each dimension falls into spans of outputs that see the same taps:
 *
 *     outputs   0 1 | 2 ... 11 | 12 13
 *     taps      1 2 | 1        | 0 1
 *
 * A box, a span of each dimension, is a convolution without padding by these taps alone: the
 * sums of direct_loops.c (across), some taps at a time, so that their weights stay in the first
 * cache. Threads share images and panels of two blocks of filters. Taps that see padding are
 * left out, not added as zeros; the others are summed in one order, whatever the box. */
#include "blocked.h"
#include "conv/conv.h"
#include "conv/direct.h"
#include "kernels.h"
#include "shared.h"

#define DIMS       3 /* layers, rows, columns; those that a node has not are 1 */
#define NEAR_BYTES 16384 /* of weights: they stay in the first cache */
#define BOX        8 /* positions at least, on average: each box reads its weights */

/* Outputs [begin, end) see taps [first, last). */
typedef struct span {
  int64_t begin, end, first, last;
} span;

struct kd_kernel {
  cpu_conv_node node;
  int64_t in[DIMS], out[DIMS], taps[DIMS], stride[DIMS], gap[DIMS], pad[DIMS];
  span *spans[DIMS];
  int64_t counts[DIMS];
  int64_t ins, outs,
      depth; /* ins, outs: with what fills up blocks; depth: of a filter */
  cpu_shared *packed; /* [panel][block of channels, tap][channel][filter] */
};

/* ---- spans ---------------------------------------------------------------------------- */

static span seen_by(const kd_kernel *k, int i, int64_t out) {
  int64_t from = out * k->stride[i] - k->pad[i];
  span s = {.begin = out, .end = out + 1};
  while (s.first < k->taps[i] && from + s.first * k->gap[i] < 0)
    s.first++;
  s.last = s.first;
  while (s.last < k->taps[i] && from + s.last * k->gap[i] < k->in[i])
    s.last++;
  return s;
}

/* Writes the spans of a dimension where `to` is not NULL. Sets *out_seen to the taps that all
 * outputs see together. Returns the number of spans. */
static int64_t find_spans(const kd_kernel *k, int i, span *to,
                          int64_t *out_seen) {
  int64_t count = 0, seen = 0;
  span last = {.first = -1};
  for (int64_t o = 0; o < k->out[i]; o++) {
    span s = seen_by(k, i, o);
    seen += s.last - s.first;
    if (s.first == last.first && s.last == last.last) {
      if (to) to[count - 1].end = o + 1;
      continue;
    }
    last = s;
    if (to) to[count] = s;
    count++;
  }
  if (out_seen) *out_seen = seen;
  return count;
}

/* ---- which, and how ------------------------------------------------------------------- */

static bool dilated_read_node(const kd_node *node, kd_kernel *kernel) {
  cpu_conv_node *n = &kernel->node;
  const window *w = &n->w;
  if (!cpu_read_conv(node, n) || !n->blocks_in || !n->blocks_out ||
      n->groups != 1 || w->space > DIMS || w->stride[w->space - 1] != 1)
    return false;
  for (int i = 0; i < DIMS; i++) {
    int from = i - (DIMS - w->space);
    kernel->in[i] = from < 0 ? 1 : w->in[from];
    kernel->out[i] = from < 0 ? 1 : w->out[from];
    kernel->taps[i] = from < 0 ? 1 : w->kernel[from];
    kernel->stride[i] = from < 0 ? 1 : w->stride[from];
    kernel->gap[i] = from < 0 ? 1 : w->dilation[from];
    kernel->pad[i] = from < 0 ? 0 : w->begin[from];
  }
  kernel->ins = cpu_filled(n->ins);
  kernel->outs = cpu_filled(n->outs);
  kernel->depth = kernel->ins * product(kernel->taps, 0, DIMS);
  return true;
}

/* Where a third of the taps sees padding, or more, and the rest is less work than Winograd's
 * sums. Threads share filters and images. */
static bool pays(const kd_kernel *k) {
  int64_t panels = (k->outs + 2 * cpu_block() - 1) / (2 * cpu_block());
  double seen = 1, all = 1, boxes = 1;
  for (int i = 0; i < DIMS; i++) {
    int64_t taps;
    boxes *= (double)find_spans(k, i, NULL, &taps);
    seen *= (double)taps;
    all *= (double)(k->out[i] * k->taps[i]);
  }
  return panels * k->node.images >= cpu_host->worker_count(cpu_host) &&
         (double)product(k->out, 0, DIMS) >= BOX * boxes && seen <= 0.7 * all &&
         seen * (double)(k->node.images * k->ins * k->outs) <
             cpu_winograd_products(&k->node);
}

CPU_SUPPORTS(dilated) {
  kd_kernel kernel = {0};
  return dilated_read_node(node, &kernel) && cpu_is_constant(node, 1) &&
                 pays(&kernel)
             ? KD_OK
             : KD_UNIMPLEMENTED;
}

/* Filters [first, first + 2 blocks) of an image, or those that there are. */
static int64_t panel_blocks(const kd_kernel *k, int64_t first) {
  return k->outs - first > cpu_block() ? 2 : 1;
}

static bool dilated_pack(void *context, const kd_tensor *constant,
                         void **out_data, void **out_more) {
  const kd_kernel *k = context;
  const float *weights = constant->data;
  int64_t b = cpu_block(), taps = k->depth / k->ins;
  float *to = *out_data =
      cpu_weights_alloc((uint64_t)(k->outs * k->depth) * sizeof(float));
  (void)out_more;
  if (!to) return false;
  for (int64_t o = 0; o < k->outs; o += 2 * b) {
    int64_t wide = panel_blocks(k, o) * b;
    for (int64_t block = 0; block < k->ins; block += b)
      for (int64_t t = 0; t < taps; t++)
        for (int64_t i = block; i < block + b; i++)
          for (int64_t r = o; r < o + wide; r++)
            *to++ = r < k->node.outs && i < k->node.ins
                        ? weights[(r * k->node.ins + i) * taps + t]
                        : 0;
  }
  return true;
}

static kd_status dilated_make(kd_kernel *k, const kd_node *node) {
  for (int i = 0; i < DIMS; i++) {
    int64_t count = find_spans(k, i, NULL, NULL);
    k->spans[i] = malloc((size_t)count * sizeof *k->spans[i]);
    if (!k->spans[i]) return FAIL(KD_OUT_OF_MEMORY, "no memory for spans");
    k->counts[i] = find_spans(k, i, k->spans[i], NULL);
  }
  cpu_share_key key = {
      0,
      "dilated",
      {k->outs, k->ins, k->depth, k->node.outs, k->node.ins, cpu_block()}};
  return cpu_share_get(node, 1, &key, dilated_pack, k, &k->packed);
}

void cpu_destroy_dilated(kd_kernel *kernel) {
  for (int i = 0; i < DIMS; i++)
    free(kernel->spans[i]);
  cpu_share_drop(kernel->packed);
  free(kernel);
}

CPU_CREATE(dilated) {
  static const cpu_conv_kind kind = {sizeof(kd_kernel), dilated_read_node,
                                     dilated_make, cpu_destroy_dilated};
  return cpu_make_conv(&kind, node, out_kernel);
}

/* The weights, which are packed. */
uint64_t cpu_taken_dilated(kd_kernel *kernel) {
  return kernel->packed ? 2 : 0;
}

/* ---- running -------------------------------------------------------------------------- */

typedef struct run {
  const kd_kernel *kernel;
  const float *x, *bias, *z;
  float *y;
  char *room;
} run;

/* One part's tables of taps, and a box's sums. */
static int64_t part_bytes(const kd_kernel *k) {
  int64_t tables = 2 * (k->depth / cpu_block()) * (int64_t)sizeof(int64_t);
  int64_t sums = product(k->out, 0, DIMS) * 2 * cpu_block();
  return (tables + sums * (int64_t)sizeof(float) + 63) / 64 * 64;
}

CPU_WORKSPACE(dilated) {
  return (uint64_t)(cpu_host->worker_count(cpu_host) * part_bytes(self));
}

/* Taps of a box: how far behind the first one they see, and which weights they are. Returns
 * their number. */
static int64_t list_taps(const kd_kernel *k, const span *const *box,
                         int64_t *offsets, int64_t *places) {
  int64_t b = cpu_block(), count = 0, taps = k->depth / k->ins;
  int64_t plane = product(k->in, 0, DIMS);
  for (int64_t block = 0; block < k->ins / b; block++)
    for (int64_t l = box[0]->first; l < box[0]->last; l++)
      for (int64_t r = box[1]->first; r < box[1]->last; r++)
        for (int64_t c = box[2]->first; c < box[2]->last; c++, count++) {
          int64_t at = (l - box[0]->first) * k->gap[0];
          at = at * k->in[1] + (r - box[1]->first) * k->gap[1];
          at = at * k->in[2] + (c - box[2]->first) * k->gap[2];
          offsets[count] = (block * plane + at) * b;
          places[count] = block * taps + (l * k->taps[1] + r) * k->taps[2] + c;
        }
  return count;
}

/* A box: the taps it sees, filters [first, first + blocks) of an image, and its sums. */
typedef struct task {
  const span *box[DIMS];
  int64_t image, first, blocks,
      count; /* count: of taps, by blocks of channels */
  int64_t *offsets, *places;
  float *sums;  /* [block][position][filter] */
  int64_t step; /* from a block to the next */
} task;

/* Where row (layer, row) of a box begins; for the input, at the first tap that is seen. */
static void dilated_begin_of(const kd_kernel *k, const task *t, int64_t layer,
                             int64_t row, int64_t *in, int64_t *out) {
  int64_t at[DIMS] = {layer, row, t->box[2]->begin};
  *in = *out = 0;
  for (int i = 0; i < DIMS; i++) {
    *in = *in * k->in[i] + at[i] * k->stride[i] - k->pad[i] +
          t->box[i]->first * k->gap[i];
    *out = *out * k->out[i] + at[i];
  }
}

/* Some taps of all rows. */
static void sum_some(const run *r, const task *t, int64_t from, int64_t count,
                     const float *bias) {
  const kd_kernel *k = r->kernel;
  int64_t b = cpu_block(), in, out;
  const float *x = r->x + t->image * k->ins * product(k->in, 0, DIMS);
  cpu_direct_sum sum = {
      .weights = (const float *)k->packed->data + t->first * k->depth,
      .bias = bias,
      .offsets = t->offsets + from,
      .places = t->places + from,
      .count = count,
      .n = t->box[2]->end - t->box[2]->begin,
      .step = t->step,
      .y = t->sums,
      .low = -INFINITY,
      .high = INFINITY,
      .more = from > 0};
  for (int64_t l = t->box[0]->begin; l < t->box[0]->end; l++)
    for (int64_t row = t->box[1]->begin; row < t->box[1]->end; row++) {
      dilated_begin_of(k, t, l, row, &in, &out);
      sum.x = count > 0 ? x + in * b : x;
      cpu_direct_get()->across(&sum, t->blocks);
      sum.y += sum.n * b;
    }
}

/* To the output, with what follows a sum. */
static void dilated_finish(const run *r, const task *t) {
  const kd_kernel *k = r->kernel;
  int64_t b = cpu_block(), plane = product(k->out, 0, DIMS) * b, in, out;
  int64_t n = (t->box[2]->end - t->box[2]->begin) * b;
  float *sums = t->sums;
  cpu_finish end = {.dtype = KD_F32, .act = k->node.act};
  for (int64_t l = t->box[0]->begin; l < t->box[0]->end; l++)
    for (int64_t row = t->box[1]->begin; row < t->box[1]->end; row++) {
      dilated_begin_of(k, t, l, row, &in, &out);
      out = (t->image * k->outs + t->first) / b * plane + out * b;
      for (int64_t c = 0; c < t->blocks; c++, out += plane) {
        float *made = sums + c * t->step;
        if (r->z) end.z = r->z + out;
        cpu_finish_row(&end, 0, made, 0, n);
        memcpy(r->y + out, made, (size_t)n * sizeof *made);
      }
      sums += n;
    }
}

static void run_box(const run *r, task *t) {
  const kd_kernel *k = r->kernel;
  int64_t b = cpu_block(), left = k->node.outs - t->first;
  float bias[32] = {0};
  t->blocks = panel_blocks(k, t->first);
  t->count = list_taps(k, t->box, t->offsets, t->places);
  t->step = b;
  for (int i = 0; i < DIMS; i++)
    t->step *= t->box[i]->end - t->box[i]->begin;
  if (left > t->blocks * b) left = t->blocks * b;
  if (r->bias) memcpy(bias, r->bias + t->first, (size_t)left * sizeof *bias);
  int64_t near = NEAR_BYTES / (2 * b * b * (int64_t)sizeof(float)), i = 0;
  do { /* once where no tap is seen */
    sum_some(r, t, i, t->count - i < near ? t->count - i : near, bias);
    i += near;
  } while (i < t->count);
  dilated_finish(r, t);
}

static void dilated_run_parts(void *context, int64_t begin, int64_t end) {
  const run *r = context;
  const kd_kernel *k = r->kernel;
  int64_t panels = (k->outs + 2 * cpu_block() - 1) / (2 * cpu_block());
  int64_t all = k->node.images * panels, depth = k->depth / cpu_block();
  int64_t parts = cpu_host->worker_count(cpu_host);
  for (int64_t part = begin; part < end; part++) {
    char *room = r->room + part * part_bytes(k);
    task t = {.offsets = (void *)room};
    t.places = t.offsets + depth;
    t.sums = (void *)(t.places + depth);
    for (int64_t i = part * all / parts; i < (part + 1) * all / parts; i++)
      for (int64_t l = 0; l < k->counts[0]; l++)
        for (int64_t row = 0; row < k->counts[1]; row++)
          for (int64_t c = 0; c < k->counts[2]; c++) {
            t.box[0] = &k->spans[0][l];
            t.box[1] = &k->spans[1][row];
            t.box[2] = &k->spans[2][c];
            t.image = i / panels;
            t.first = i % panels * 2 * cpu_block();
            run_box(r, &t);
          }
  }
}

CPU_KERNEL(cpu_run_dilated) {
  run r = {.kernel = self,
           .x = launch->inputs[0].data,
           .y = launch->outputs[0].data,
           .room = launch->workspace.data};
  if (self->node.has_sum) r.z = launch->inputs[3].data;
  if (kd_has_input(launch, 2)) r.bias = launch->inputs[2].data;
  cpu_host->parallel_for(cpu_host, cpu_host->worker_count(cpu_host), 1,
                         dilated_run_parts, &r);
  cpu_fill_up(&launch->outputs[0]);
  return KD_OK;
}
