/* winograd.c - f32 convolutions of 3 x 3 taps with stride 1 in the blocked layout, by Winograd's
 * F(2 x 2, 3 x 3): Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016.
 *
 *     Y = A' [(G w G') . (B' x B)] A      a tile: x 4 x 4, w 3 x 3, Y 2 x 2
 *
 * A channel of a tile takes 16 products in place of 36. Summed over the channels, they are a
 * matrix product for each of the 16 elements (spots) of the transformed tile:
 *
 *     v[spot]  tiles x channels     u[spot]  channels x filters     made[spot]  tiles x filters
 *
 * Weights are transformed once (pack). A task transforms the input of some tiles (in),
 * multiplies spot by spot (product), and transforms back (out). Threads share the tiles;
 * where those are few, the filters too (plan).
 *
 * Transforms cost additions for each channel and each filter, products for each pair of them:
 * wide convolutions gain (pays). Layers of a third dimension are summed like channels. With
 * dilation, the elements of a tile lie as far apart.
 *
 * Sums round otherwise than those of taps do; small integers stay exact. Infinities and NaN
 * of a tile reach outputs whose windows do not see them: such outputs are summed again by
 * their taps. */
#include "winograd.h"

#include "blocked.h"
#include "conv/conv.h"
#include "kernels.h"
#include "shared.h"

/* Bytes of a task's sums, before and after the products. */
#define TASK_BYTES (1024 * 1024)
#define TASK_TILES 24 /* at least, for each task reads all weights */

/* Additions around the products of a tile and spot, for each channel and filter: their cost
 * in products. */
#define AROUND 8

struct kd_kernel {
  cpu_conv_node node;
  cpu_winograd_weights weights; /* u and plain: those of `shared` */
  cpu_shared *shared;
  /* layers, rows, columns; without layers there is one */
  int64_t in[3], out[3], gap[3], begin[3];
  int64_t stride; /* of layers */
  int64_t tiles[3],
      pairs[3];         /* of an image, of a phase: layers, rows, columns */
  int64_t ins, outs;    /* channels as they lie */
  int64_t depth;        /* elements that a product sums */
  int64_t cuts, panels; /* of the filters, and the panels of one */
  int64_t task, tasks,
      parts;            /* tiles of a task; tasks of a cut; threads' parts */
  int64_t width, pitch; /* elements of a tile in a spot's two matrices */
};

/* NULL: no tensor lies in blocks. */
static const cpu_winograd_loops *loops(void) {
#if defined(__x86_64__)
  if (cpu_isa() > 0)
    return cpu_isa() == 2 ? &cpu_winograd_avx512 : &cpu_winograd_avx2;
#endif
  return NULL;
}

/* ---- which, and how ------------------------------------------------------------------- */

/* Rows or columns come in as many phases as there are steps in a gap, and in pairs. */
static int64_t pairs_of(int64_t count, int64_t gap) {
  return ((count + gap - 1) / gap + 1) / 2;
}

/* What follows from the node; false: it is of another kind. */
static bool winograd_lay_out(kd_kernel *kernel) {
  const cpu_conv_node *n = &kernel->node;
  const window *w = &n->w;
  if (!n->blocks_in || !n->blocks_out || n->groups != 1 || w->space < 2 ||
      w->space > 3)
    return false;
  int first = 3 - w->space;
  kernel->weights.layers = kernel->stride = 1;
  kernel->in[0] = kernel->out[0] = kernel->gap[0] = 1;
  for (int i = 0; i < w->space; i++) {
    kernel->in[first + i] = w->in[i];
    kernel->out[first + i] = w->out[i];
    kernel->gap[first + i] = w->dilation[i];
    kernel->begin[first + i] = w->begin[i];
    if (first + i == 0) {
      kernel->weights.layers = w->kernel[i];
      kernel->stride = w->stride[i];
    } else if (w->kernel[i] != 3 || w->stride[i] != 1) {
      return false;
    }
  }
  kernel->ins = cpu_filled(n->ins);
  kernel->outs = cpu_filled(n->outs);
  kernel->depth = kernel->weights.layers * kernel->ins;
  kernel->tiles[0] = kernel->out[0];
  kernel->pairs[0] = kernel->tiles[0];
  for (int i = 1; i < 3; i++) {
    kernel->pairs[i] = pairs_of(kernel->out[i], kernel->gap[i]);
    kernel->tiles[i] = kernel->gap[i] * kernel->pairs[i];
  }
  return true;
}

static bool winograd_read_node(const kd_node *node, kd_kernel *kernel) {
  return cpu_read_conv(node, &kernel->node) && winograd_lay_out(kernel);
}

static int64_t tiles_of(const kd_kernel *kernel) {
  return kernel->node.images * product(kernel->tiles, 0, 3);
}

/* Few tiles want all the weights once: then threads share the filters. */
static void plan(kd_kernel *kernel) {
  int64_t threads = cpu_host->worker_count(cpu_host), tiles = tiles_of(kernel);
  int64_t panel = 2 * cpu_block();
  cpu_winograd_weights *w = &kernel->weights;
  w->ins = kernel->ins;
  w->panels = (kernel->outs + panel - 1) / panel;
  kernel->cuts = 1;
  if (tiles < 12 * threads)
    kernel->cuts = threads < w->panels ? threads : w->panels;
  kernel->panels = (w->panels + kernel->cuts - 1) / kernel->cuts;
  kernel->cuts = (w->panels + kernel->panels - 1) / kernel->panels;
  /* rows and spots do not fall on the same lines of a cache */
  kernel->width = kernel->depth + 16;
  kernel->pitch = kernel->panels * panel + 16;
  int64_t most = TASK_BYTES / (WINOGRAD_SPOTS * (int64_t)sizeof(float) *
                               (kernel->width + kernel->pitch));
  most = most < TASK_TILES ? TASK_TILES : most;
  int64_t tasks = (tiles + most - 1) / most;
  if (tasks * kernel->cuts < 8 * threads) /* few are dealt out evenly */
    while (tasks < tiles && tasks * kernel->cuts % threads)
      tasks++;
  kernel->task = (tiles + tasks - 1) / tasks;
  kernel->tasks = (tiles + kernel->task - 1) / kernel->task;
  int64_t all = kernel->tasks * kernel->cuts;
  kernel->parts = all < threads ? all : threads;
}

/* Products of single numbers, and what is added around them. A tile more: single ones go
 * slower. */
static double products_of(const kd_kernel *kernel) {
  int64_t panel = 2 * cpu_block();
  int64_t outs = (kernel->outs + panel - 1) / panel * panel;
  double filters = (double)outs, ins = (double)kernel->depth;
  double tiles = (double)tiles_of(kernel) + 1;
  return tiles * WINOGRAD_SPOTS * (ins * filters + AROUND * (ins + filters));
}

/* Whether fewer products outweigh what is added for them. */
static bool pays(const kd_kernel *kernel) {
  const cpu_conv_node *n = &kernel->node;
  double made = (double)(n->images * product(kernel->out, 0, 3));
  double taps =
      made * 9 * (double)(n->ins * kernel->weights.layers) * (double)n->outs;
  return products_of(kernel) < 0.9 * taps;
}

double cpu_winograd_products(const cpu_conv_node *node) {
  kd_kernel kernel = {.node = *node};
  return loops() && cpu_wants_winograd() && winograd_lay_out(&kernel)
             ? products_of(&kernel)
             : INFINITY;
}

CPU_SUPPORTS(winograd) {
  kd_kernel kernel = {0};
  return loops() && cpu_wants_winograd() && winograd_read_node(node, &kernel) &&
                 pays(&kernel) && cpu_is_constant(node, 1)
             ? KD_OK
             : KD_UNIMPLEMENTED;
}

typedef struct pack_work {
  kd_kernel *kernel;
  const float *from;
  bool *numbers; /* of each panel */
} pack_work;

static void pack_panels(void *context, int64_t begin, int64_t end) {
  pack_work *work = context;
  const kd_kernel *kernel = work->kernel;
  const cpu_winograd_weights *w = &kernel->weights;
  int64_t panel = 2 * cpu_block(), size = kernel->node.ins * w->layers * 9;
  for (int64_t p = begin; p < end; p++) {
    int64_t left = kernel->node.outs - p * panel;
    work->numbers[p] = loops()->pack(
        work->from + p * panel * size, left < panel ? left : panel,
        kernel->node.ins, w->layers, w->u + p * kernel->depth * panel,
        w->panels * kernel->depth * panel);
  }
}

/* Weights as they are, for those that are no numbers. */
static bool keep_plain(kd_kernel *kernel, const float *from) {
  cpu_winograd_weights *w = &kernel->weights;
  int64_t panel = 2 * cpu_block(), ins = kernel->node.ins;
  w->plain =
      calloc((size_t)(w->panels * kernel->depth * 9 * panel), sizeof *w->plain);
  for (int64_t o = 0; w->plain && o < kernel->node.outs; o++)
    for (int64_t i = 0; i < ins * w->layers * 9; i++, from++) {
      int64_t in = i / 9 / w->layers, layer = i / 9 % w->layers;
      int64_t k = o / panel * kernel->depth + layer * w->ins + in;
      w->plain[(k * 9 + i % 9) * panel + o % panel] = *from;
    }
  return w->plain != NULL;
}

static bool winograd_pack(void *context, const kd_tensor *constant,
                          void **out_data, void **out_more) {
  kd_kernel *kernel = context;
  const float *from = constant->data;
  cpu_winograd_weights *w = &kernel->weights;
  int64_t count = WINOGRAD_SPOTS * w->panels * kernel->depth * 2 * cpu_block();
  bool *numbers = calloc((size_t)w->panels, sizeof *numbers);
  pack_work work = {.kernel = kernel, .from = from, .numbers = numbers};
  w->u = cpu_weights_alloc((uint64_t)count * sizeof *w->u);
  bool done = w->u && numbers, all = true;
  if (done) cpu_host->parallel_for(cpu_host, w->panels, 1, pack_panels, &work);
  for (int64_t p = 0; p < w->panels && done; p++)
    all = all && numbers[p];
  if (done && !all) done = keep_plain(kernel, from);
  free(numbers);
  *out_data = w->u;
  *out_more = w->plain;
  return done;
}

static kd_status winograd_make(kd_kernel *kernel, const kd_node *node) {
  cpu_winograd_weights *w = &kernel->weights;
  plan(kernel);
  cpu_share_key key = {0,
                       "winograd",
                       {kernel->node.outs, kernel->node.ins, w->layers, w->ins,
                        w->panels, kernel->depth, cpu_block()}};
  kd_status status =
      cpu_share_get(node, 1, &key, winograd_pack, kernel, &kernel->shared);
  w->u = kernel->shared ? kernel->shared->data : NULL;
  w->plain = kernel->shared ? kernel->shared->more : NULL;
  return status;
}

void cpu_destroy_winograd(kd_kernel *kernel) {
  cpu_share_drop(kernel->shared);
  free(kernel);
}

CPU_CREATE(winograd) {
  static const cpu_conv_kind kind = {sizeof(kd_kernel), winograd_read_node,
                                     winograd_make, cpu_destroy_winograd};
  return cpu_make_conv(&kind, node, out_kernel);
}

/* The weights, which are packed. */
uint64_t cpu_taken_winograd(kd_kernel *kernel) {
  return kernel->weights.u ? 2 : 0;
}

/* ---- running -------------------------------------------------------------------------- */

static int64_t step_in(const kd_kernel *kernel) {
  return kernel->task * kernel->width + 16;
}

static int64_t step_out(const kd_kernel *kernel) {
  return kernel->task * kernel->pitch + 16;
}

static int64_t part_elements(const kd_kernel *kernel) {
  return WINOGRAD_SPOTS * (step_in(kernel) + step_out(kernel));
}

/* Of the bias, where it is filled up. */
static int64_t bias_elements(const kd_kernel *kernel) {
  return kernel->outs == kernel->node.outs ? 0 : (kernel->outs + 15) / 16 * 16;
}

CPU_WORKSPACE(winograd) {
  return (uint64_t)(bias_elements(self) + self->parts * part_elements(self)) *
         sizeof(float);
}

typedef struct run {
  const kd_kernel *kernel;
  const float *x, *bias, *z;
  float *y, *room;
} run;

/* A tile: its first output, by image and by layer, row and column, and which of the pairs of
 * its phase it is. */
typedef struct place {
  int64_t image, at[3], pair[3];
} place;

/* Tiles go by layers, phases of rows, rows, phases of columns, columns. */
static place winograd_place_of(const kd_kernel *kernel, int64_t tile) {
  place p;
  for (int i = 2; i >= 0; i--) {
    int64_t index = tile % kernel->tiles[i], pairs = kernel->pairs[i];
    p.pair[i] = index % pairs;
    p.at[i] = i == 0 ? index : p.pair[i] * 2 * kernel->gap[i] + index / pairs;
    tile /= kernel->tiles[i];
  }
  p.image = tile;
  return p;
}

/* To the next tile, without a division. */
static void advance(const kd_kernel *kernel, place *p) {
  for (int i = 2; i >= 0; i--) {
    int64_t gap = kernel->gap[i], pairs = kernel->pairs[i];
    p->at[i] += i == 0 ? 1 : 2 * gap;
    if (++p->pair[i] < pairs) return;
    p->pair[i] = 0;
    if (i > 0) { /* the next phase */
      p->at[i] += 1 - pairs * 2 * gap;
      if (p->at[i] < gap) return;
    }
    p->at[i] = 0;
  }
  p->image++;
}

/* What all tiles have in common. */
static cpu_winograd_source source_of(const kd_kernel *k) {
  cpu_winograd_source s = {.layers = k->weights.layers, .ins = k->ins};
  for (int i = 0; i < 3; i++) {
    s.size[i] = k->in[i];
    s.gap[i] = k->gap[i];
  }
  return s;
}

static void aim(const run *r, const place *p, cpu_winograd_source *s) {
  const kd_kernel *k = r->kernel;
  s->x = r->x + p->image * k->ins * s->size[0] * s->size[1] * s->size[2];
  s->first[0] = p->at[0] * k->stride - k->begin[0];
  s->first[1] = p->at[1] - k->begin[1];
  s->first[2] = p->at[2] - k->begin[2];
}

/* Where block `first` of a tile lies in the output, in elements. */
static int64_t target_of(const kd_kernel *k, const place *p, int64_t first) {
  int64_t at = p->image * (k->outs / cpu_block()) + first;
  for (int i = 0; i < 3; i++)
    at = at * k->out[i] + p->at[i];
  return at * cpu_block();
}

/* Rows or columns of a tile that are in the output. */
static int64_t within(const kd_kernel *k, const place *p, int dimension) {
  int64_t left = k->out[dimension] - p->at[dimension];
  return left <= 0 ? 0 : left <= k->gap[dimension] ? 1 : 2;
}

static void finish_tile(const run *r, const place *p,
                        cpu_winograd_source *source, cpu_winograd_out *out) {
  aim(r, p, source);
  int64_t to = target_of(r->kernel, p, out->first);
  out->y = r->y + to;
  out->z = r->z ? r->z + to : NULL;
  out->rows = within(r->kernel, p, 1);
  out->columns = within(r->kernel, p, 2);
  loops()->out(out, source, &r->kernel->weights);
}

/* Activations that are loops of their own, on tiles [begin, end) just made: a row at once
 * where there are no gaps. */
static void activate(const run *r, int64_t begin, int64_t end,
                     const cpu_winograd_out *out) {
  const kd_kernel *k = r->kernel;
  cpu_finish finish = {.dtype = KD_F32, .act = k->node.act};
  bool rows = k->gap[2] == 1;
  for (int64_t tile = begin, count; tile < end; tile += count) {
    place p = winograd_place_of(k, tile);
    count = rows ? cpu_least(end - tile, k->tiles[2] - p.at[2] / 2) : 1;
    int64_t n = rows ? cpu_least(2 * count, k->out[2] - p.at[2]) : 1;
    int64_t each = within(k, &p, 1), columns = rows ? 1 : within(k, &p, 2);
    float *y = r->y + target_of(k, &p, out->first);
    for (int64_t i = 0; i < each * columns * out->blocks; i++)
      cpu_finish_row(&finish, 0,
                     y + i / columns / each * out->block +
                         i / columns % each * out->row +
                         i % columns * out->column,
                     0, n * cpu_block());
  }
}

static cpu_winograd_out out_of(const run *r, int64_t cut) {
  const kd_kernel *k = r->kernel;
  int64_t b = cpu_block(), first = cut * k->panels;
  int64_t panels = cpu_least(k->panels, k->weights.panels - first);
  return (cpu_winograd_out){
      .step = step_out(k),
      .first = 2 * first,
      .blocks = cpu_least(2 * panels, k->outs / b - 2 * first),
      .row = k->gap[1] * k->out[2] * b,
      .column = k->gap[2] * b,
      .block = product(k->out, 0, 3) * b,
      .bias = r->bias ? r->bias + first * 2 * b : NULL,
      .low = k->node.act.low,
      .high = k->node.act.high};
}

static void run_task(const run *r, int64_t task, float *room) {
  const kd_kernel *k = r->kernel;
  const cpu_winograd_weights *w = &k->weights;
  int64_t cut = task / k->tasks, begin = task % k->tasks * k->task;
  int64_t tiles = cpu_least(k->task, tiles_of(k) - begin),
          first = cut * k->panels;
  float *made = room + WINOGRAD_SPOTS * step_in(k);
  cpu_winograd_out out = out_of(r, cut);
  cpu_winograd_source source = source_of(k);
  place start = winograd_place_of(k, begin), p = start;
  for (int64_t t = 0; t < tiles; t++, advance(k, &p)) {
    aim(r, &p, &source);
    loops()->in(&source, room + t * k->width, step_in(k));
  }
  for (int64_t s = 0; s < WINOGRAD_SPOTS; s++)
    loops()->product(
        room + s * step_in(k), k->width, tiles,
        w->u + (s * w->panels + first) * k->depth * 2 * cpu_block(), k->depth,
        cpu_least(k->panels, w->panels - first), made + s * step_out(k),
        k->pitch);
  p = start;
  for (int64_t t = 0; t < tiles; t++, advance(k, &p)) {
    out.made = made + t * k->pitch;
    finish_tile(r, &p, &source, &out);
  }
  if (k->node.act.last >= CPU_LAST_SILU)
    activate(r, begin, begin + tiles, &out);
}

static void winograd_run_parts(void *context, int64_t begin, int64_t end) {
  const run *r = context;
  const kd_kernel *kernel = r->kernel;
  int64_t tasks = kernel->tasks * kernel->cuts;
  for (int64_t part = begin; part < end; part++)
    for (int64_t i = part * tasks / kernel->parts;
         i < (part + 1) * tasks / kernel->parts; i++)
      run_task(r, i, r->room + part * part_elements(kernel));
}

CPU_KERNEL(cpu_run_winograd) {
  run r = {.kernel = self,
           .x = launch->inputs[0].data,
           .y = launch->outputs[0].data,
           .room = launch->workspace.data};
  if (self->node.has_sum) r.z = launch->inputs[3].data;
  if (kd_has_input(launch, 2)) r.bias = launch->inputs[2].data;
  int64_t fill = bias_elements(self);
  if (r.bias && fill) {
    memset(r.room, 0, (size_t)fill * sizeof(float));
    memcpy(r.room, r.bias, (size_t)self->node.outs * sizeof(float));
    r.bias = r.room;
  }
  r.room += fill;
  cpu_host->parallel_for(cpu_host, self->parts, 1, winograd_run_parts, &r);
  cpu_fill_up(&launch->outputs[0]);
  return KD_OK;
}
