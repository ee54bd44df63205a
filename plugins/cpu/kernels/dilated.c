/* dilated.c - f32 convolutions in the blocked layout whose windows reach far into the padding.
 *
 * With large gaps between the taps most of them see padding: 82 of 100 where 3 x 3 taps are 12
 * apart in an image of 14 x 14. A dimension falls into spans of outputs that see the same taps,
 * and a box of spans is a convolution without padding, of these taps alone. */
#include "blocked.h"
#include "conv.h"
#include "direct.h"
#include "kernels.h"

#define DIMS 3  /* layers, rows, columns; those that a node has not are 1 */
#define LINE 64 /* positions that are finished at once */

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
      depth;     /* ins, outs: with what fills up blocks; depth: of a filter */
  float *packed; /* [panel][block of channels, tap][channel][filter] */
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

static bool read_node(const kd_node *node, kd_kernel *kernel) {
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

/* Half of the taps see padding, or more; threads share filters and images. */
kd_status cpu_supports_dilated(kd_device *device, const kd_node *node) {
  kd_kernel kernel = {0};
  kd_tensor weights;
  (void)device;
  if (!read_node(node, &kernel) ||
      cpu_host->node->constant(node, 1, &weights) != KD_OK)
    return KD_UNIMPLEMENTED;
  int64_t panels = (kernel.outs + 2 * cpu_block() - 1) / (2 * cpu_block());
  if (panels * kernel.node.images < cpu_host->worker_count(cpu_host))
    return KD_UNIMPLEMENTED;
  double seen = 1;
  for (int i = 0; i < DIMS; i++) {
    int64_t taps;
    find_spans(&kernel, i, NULL, &taps);
    seen *= (double)taps / (double)(kernel.out[i] * kernel.taps[i]);
  }
  return seen <= 0.5 ? KD_OK : KD_UNIMPLEMENTED;
}

/* Filters [first, first + 2 blocks) of an image, or those that there are. */
static int64_t panel_blocks(const kd_kernel *k, int64_t first) {
  return k->outs - first > cpu_block() ? 2 : 1;
}

static void pack(kd_kernel *k, const float *weights) {
  int64_t b = cpu_block(), taps = k->depth / k->ins;
  float *to = k->packed;
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
}

static kd_status make(kd_kernel *k, const float *weights) {
  for (int i = 0; i < DIMS; i++) {
    int64_t count = find_spans(k, i, NULL, NULL);
    k->spans[i] = malloc((size_t)count * sizeof *k->spans[i]);
    if (!k->spans[i]) return FAIL(KD_OUT_OF_MEMORY, "no memory for spans");
    k->counts[i] = find_spans(k, i, k->spans[i], NULL);
  }
  k->packed = cpu_weights_alloc((uint64_t)(k->outs * k->depth) * sizeof(float));
  if (!k->packed)
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a convolution's weights");
  pack(k, weights);
  return KD_OK;
}

kd_status cpu_create_dilated(kd_device *device, const kd_kernel_def *def,
                             const kd_node *node, kd_kernel **out_kernel) {
  kd_tensor weights;
  kd_kernel *kernel = calloc(1, sizeof *kernel);
  (void)device;
  (void)def;
  if (!kernel) return FAIL(KD_OUT_OF_MEMORY, "no memory for a convolution");
  kd_status status = read_node(node, kernel) ? KD_OK : KD_UNIMPLEMENTED;
  if (status == KD_OK) status = cpu_host->node->constant(node, 1, &weights);
  if (status == KD_OK) status = make(kernel, weights.data);
  if (status != KD_OK) {
    cpu_destroy_dilated(kernel);
    return status;
  }
  *out_kernel = kernel;
  return KD_OK;
}

void cpu_destroy_dilated(kd_kernel *kernel) {
  for (int i = 0; i < DIMS; i++)
    free(kernel->spans[i]);
  free(kernel->packed);
  free(kernel);
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
  int64_t
      *offsets; /* of each worker's box: where taps see, and their weights */
} run;

/* Two tables for each part. */
uint64_t cpu_dilated_workspace(kd_kernel *kernel, const kd_launch *launch) {
  int64_t parts = cpu_host->worker_count(cpu_host);
  (void)launch;
  return (uint64_t)(parts * 2 * (kernel->depth / cpu_block())) *
         sizeof(int64_t);
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

/* A row of a box: n outputs from element `to` of y on, of some blocks of filters. */
static void sum_row(const run *r, cpu_direct_sum *sum, int64_t blocks,
                    int64_t to, int64_t n) {
  const kd_kernel *k = r->kernel;
  const cpu_activation *act = &k->node.act;
  int64_t b = cpu_block(), plane = product(k->out, 0, DIMS) * b;
  float line[LINE * 32];
  bool done = !r->z && act->last < CPU_LAST_SILU;
  cpu_finish finish = {.dtype = KD_F32, .act = *act};
  for (int64_t i = 0, some; i < n; i += some, to += some * b) {
    some = done || n - i < LINE ? n - i : LINE;
    sum->n = some;
    sum->y = done ? r->y + to : line;
    sum->step = done ? plane : some * b;
    cpu_direct_get()->across(sum, blocks);
    sum->x += some * b;
    for (int64_t c = 0; c < blocks && !done; c++) {
      float *made = line + c * some * b;
      if (r->z) finish.z = r->z + to + c * plane;
      cpu_finish_row(&finish, 0, made, 0, some * b);
      memcpy(r->y + to + c * plane, made, (size_t)(some * b) * sizeof *made);
    }
  }
}

/* Filters [first, first + blocks) of one box. */
static void sum_box(const run *r, int64_t image, int64_t first,
                    const span *const *box, int64_t *tables) {
  const kd_kernel *k = r->kernel;
  const cpu_activation *act = &k->node.act;
  int64_t b = cpu_block(), blocks = panel_blocks(k, first);
  int64_t *places = tables + k->depth / b;
  float bias[32] = {0};
  bool done = !r->z && act->last < CPU_LAST_SILU;
  cpu_direct_sum sum = {.weights = k->packed + first * k->depth,
                        .bias = bias,
                        .offsets = tables,
                        .places = places,
                        .count = list_taps(k, box, tables, places),
                        .low = done ? act->low : -INFINITY,
                        .high = done ? act->high : INFINITY};
  int64_t left = k->node.outs - first, wide = blocks * b;
  if (r->bias)
    memcpy(bias, r->bias + first,
           (size_t)(left < wide ? left : wide) * sizeof *bias);
  const float *x = r->x + image * k->ins * product(k->in, 0, DIMS);
  int64_t from = (image * k->outs + first) * product(k->out, 0, DIMS);
  for (int64_t l = box[0]->begin; l < box[0]->end; l++)
    for (int64_t row = box[1]->begin; row < box[1]->end; row++) {
      int64_t at[DIMS] = {l, row, box[2]->begin}, in = 0, out = 0;
      for (int i = 0; i < DIMS; i++) {
        in = in * k->in[i] + at[i] * k->stride[i] - k->pad[i] +
             box[i]->first * k->gap[i];
        out = out * k->out[i] + at[i];
      }
      sum.x = sum.count ? x + in * b : x;
      sum_row(r, &sum, blocks, from + out * b, box[2]->end - box[2]->begin);
    }
}

static void run_parts(void *context, int64_t begin, int64_t end) {
  const run *r = context;
  const kd_kernel *k = r->kernel;
  int64_t panels = (k->outs + 2 * cpu_block() - 1) / (2 * cpu_block());
  int64_t tasks = k->node.images * panels;
  int64_t parts = cpu_host->worker_count(cpu_host);
  for (int64_t part = begin; part < end; part++) {
    int64_t *tables = r->offsets + part * 2 * (k->depth / cpu_block());
    for (int64_t i = part * tasks / parts; i < (part + 1) * tasks / parts; i++)
      for (int64_t l = 0; l < k->counts[0]; l++)
        for (int64_t row = 0; row < k->counts[1]; row++)
          for (int64_t c = 0; c < k->counts[2]; c++) {
            const span *box[DIMS] = {&k->spans[0][l], &k->spans[1][row],
                                     &k->spans[2][c]};
            sum_box(r, i / panels, i % panels * 2 * cpu_block(), box, tables);
          }
  }
}

CPU_KERNEL(cpu_run_dilated) {
  (void)stream;
  run r = {.kernel = self,
           .x = launch->inputs[0].data,
           .y = launch->outputs[0].data,
           .offsets = launch->workspace.data};
  if (self->node.has_sum) r.z = launch->inputs[3].data;
  if (kd_has_input(launch, 2)) r.bias = launch->inputs[2].data;
  cpu_host->parallel_for(cpu_host, cpu_host->worker_count(cpu_host), 1,
                         run_parts, &r);
  cpu_fill_up(&launch->outputs[0]);
  return KD_OK;
}
