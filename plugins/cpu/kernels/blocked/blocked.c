/* blocked.c - the CPU's own layout (blocked.h): the ops that prefer it, reorders to it and from
 * it, and Mul and BatchNormalization of channels.
 *
 * The layout is for f32 convolutions and pooling: by oneDNN (blocked_conv.c), winograd.c,
 * dilated.c, blocked_direct.c, blocked_pool.c. Other ops take it where a tensor lies so
 * already: blocked_move.c, blocked_turn.c, and those below.
 *
 * A block of channels of an image is a [channels, pixels] matrix in rows, and its transpose in
 * blocks: a reorder transposes each. Threads share blocks. A channel's scale is normalised in
 * double, its elements in f32. */
#include "blocked.h"

#include <math.h>

#include "kernels.h"
#include "products/tiles.h"

/* ---- channels that are scaled --------------------------------------------------------- */

/* The input of a Mul that is blocked, where the other has one element a channel; else 2. */
static uint32_t scaled_input(const kd_node *node) {
  kd_type in[2];
  for (uint32_t i = 0; i < 2; i++)
    if (cpu_host->node->input_type(node, i, &in[i]) != KD_OK ||
        in[i].dtype != KD_F32)
      return 2;
  if (in[0].rank != in[1].rank || in[0].rank < 3) return 2;
  for (uint32_t i = 0; i < 2; i++) {
    const kd_type *x = &in[i], *by = &in[1 - i];
    if (is_blocked(x) && by->dims[1] == x->dims[1] && is_point(by) &&
        (by->dims[0] == x->dims[0] || by->dims[0] == 1))
      return i;
  }
  return 2;
}

static uint32_t scale_prefers(const kd_node *node, uint32_t argument) {
  uint32_t scaled = scaled_input(node);
  return scaled < 2 && (argument == scaled || argument == 2)
             ? BLOCKED
             : KD_LAYOUT_ROW_MAJOR;
}

CPU_SUPPORTS(scale) {
  uint32_t scaled = scaled_input(node);
  kd_type by, y;
  return scaled < 2 &&
                 cpu_host->node->input_type(node, 1 - scaled, &by) == KD_OK &&
                 cpu_host->node->output_type(node, 0, &y) == KD_OK &&
                 !is_blocked(&by) && is_blocked(&y)
             ? KD_OK
             : KD_UNIMPLEMENTED;
}

typedef struct scale_work {
  const float *x, *by;
  float *y;
  int64_t space, block, blocks, channels; /* of an image */
  bool each_image;
} scale_work;

static void scale_blocks(void *context, int64_t begin, int64_t end) {
  const scale_work *work = context;
  int64_t b = work->block;
  for (int64_t i = begin; i < end; i++) {
    int64_t image = work->each_image ? i / work->blocks : 0;
    int64_t first = i % work->blocks * b, left = work->channels - first;
    const float *by = work->by + image * work->channels + first;
    float last[16] = {0};
    if (left < b) by = memcpy(last, by, (size_t)left * sizeof *by);
    const float *x = work->x + i * work->space * b;
    float *y = work->y + i * work->space * b;
    if (b == 16)
      for (int64_t s = 0; s < work->space; s++)
        for (int64_t c = 0; c < 16; c++)
          y[s * 16 + c] = x[s * 16 + c] * by[c];
    else
      for (int64_t s = 0; s < work->space; s++)
        for (int64_t c = 0; c < 8; c++)
          y[s * 8 + c] = x[s * 8 + c] * by[c];
  }
}

CPU_KERNEL(cpu_run_scale_blocked) {
  uint32_t scaled = launch->inputs[0].layout == BLOCKED ? 0 : 1;
  const kd_tensor *x = &launch->inputs[scaled];
  const kd_tensor *by = &launch->inputs[1 - scaled];
  scale_work work = {.x = x->data,
                     .by = by->data,
                     .y = launch->outputs[0].data,
                     .space = product(x->dims, 2, x->rank),
                     .block = cpu_block(),
                     .blocks = cpu_filled(x->dims[1]) / cpu_block(),
                     .channels = x->dims[1],
                     .each_image = by->dims[0] > 1};
  cpu_host->parallel_for(cpu_host, x->dims[0] * work.blocks,
                         CPU_GRAIN / (work.space * work.block) + 1,
                         scale_blocks, &work);
  return KD_OK;
}

/* ---- channels that are normalised ----------------------------------------------------- */

static bool is_plain_norm(const kd_node *node) {
  return cpu_host->node->output_count(node) == 1 &&
         cpu_host->node->attr_int(node, "training_mode", 0) == 0;
}

CPU_SUPPORTS(norm) {
  const kd_node_table *read = cpu_host->node;
  kd_type type;
  if (!is_plain_norm(node) || read->output_type(node, 0, &type) != KD_OK ||
      !is_blocked(&type))
    return KD_UNIMPLEMENTED;
  for (uint32_t i = 0; i < 5; i++)
    if (read->input_type(node, i, &type) != KD_OK || type.dtype != KD_F32 ||
        is_blocked(&type) != (i == 0))
      return KD_UNIMPLEMENTED;
  return KD_OK;
}

typedef struct norm_work {
  const kd_tensor *in; /* X, scale, B, mean, variance */
  float *y;
  double epsilon;
  int64_t space, blocks; /* of an image */
} norm_work;

static void norm_blocks(void *context, int64_t begin, int64_t end) {
  const norm_work *work = context;
  const float *vectors[5];
  int64_t b = cpu_block(), channels = work->in[0].dims[1];
  for (int i = 0; i < 5; i++)
    vectors[i] = work->in[i].data;
  for (int64_t i = begin; i < end; i++) {
    int64_t first = i % work->blocks * b;
    float scale[16] = {0}, shift[16] = {0}, mean[16] = {0};
    for (int64_t c = 0; c < b && first + c < channels; c++) {
      double spread = (double)vectors[4][first + c] + work->epsilon;
      scale[c] = (float)((double)vectors[1][first + c] / sqrt(spread));
      shift[c] = vectors[2][first + c];
      mean[c] = vectors[3][first + c];
    }
    const float *x = vectors[0] + i * work->space * b;
    float *y = work->y + i * work->space * b;
    if (b == 16)
      for (int64_t s = 0; s < work->space; s++)
        for (int64_t c = 0; c < 16; c++)
          y[s * 16 + c] = (x[s * 16 + c] - mean[c]) * scale[c] + shift[c];
    else
      for (int64_t s = 0; s < work->space; s++)
        for (int64_t c = 0; c < 8; c++)
          y[s * 8 + c] = (x[s * 8 + c] - mean[c]) * scale[c] + shift[c];
  }
}

CPU_KERNEL(cpu_run_norm_blocked) {
  const kd_tensor *x = &launch->inputs[0];
  norm_work work = {.in = launch->inputs,
                    .y = launch->outputs[0].data,
                    .epsilon = (double)attr_float(launch, "epsilon", 1e-5f),
                    .space = product(x->dims, 2, x->rank),
                    .blocks = cpu_filled(x->dims[1]) / cpu_block()};
  cpu_host->parallel_for(cpu_host, x->dims[0] * work.blocks,
                         CPU_GRAIN / (work.space * cpu_block()) + 1,
                         norm_blocks, &work);
  return KD_OK;
}

/* ---- the layout ----------------------------------------------------------------------- */

uint64_t cpu_layout_size(kd_device *device, const kd_type *type) {
  (void)device;
  if (!cpu_isa() || type->layout != BLOCKED || type->dtype != KD_F32 ||
      type->rank < 3 || type->rank > 5)
    return 0;
  int64_t channels = type->dims[1];
  if (channels < cpu_block() / 2 || channels > INT64_MAX / 2) return 0;
  uint64_t size = sizeof(float);
  for (uint32_t i = 0; i < type->rank; i++) {
    int64_t count = i == 1 ? cpu_filled(channels) : type->dims[i];
    if (count < 1 || __builtin_mul_overflow(size, (uint64_t)count, &size))
      return 0;
  }
  return size;
}

bool cpu_can_block(kd_type type) {
  type.layout = BLOCKED;
  return cpu_layout_size(NULL, &type) > 0;
}

/* Whether the taps lie along the first dimension of space alone, one step apart: direct.c reads
 * lines where they lie. */
static bool is_line(const kd_node *node, const kd_type *w) {
  const int64_t *strides = NULL;
  int64_t count = cpu_host->node->attr_ints(node, "strides", &strides);
  if (w->dims[2] == 1 || (count > 0 && strides[0] != 1)) return false;
  for (uint32_t i = 3; i < w->rank; i++)
    if (w->dims[i] > 1) return false;
  return true;
}

/* A convolution that looks at more than a point, or gives many channels; groups, but for lines. What
 * it does to each element is worth that rows are brought into blocks first: as a product of rows, it
 * would pack its weights in each run. */
#define MANY 64
static bool does_much(const kd_node *node) {
  kd_type w;
  int64_t taps = 1;
  if (cpu_host->node->input_type(node, 1, &w) != KD_OK || w.rank < 3)
    return false;
  if (cpu_host->node->attr_int(node, "group", 1) > 1) return !is_line(node, &w);
  for (uint32_t i = 2; i < w.rank; i++)
    taps *= w.dims[i];
  return taps > 1 || w.dims[0] >= MANY;
}

/* x: input 0 as it lies, or will. */
static uint32_t conv_prefers(const kd_node *node, uint32_t argument, kd_type x,
                             kd_type y) {
  bool takes_rows = x.dims[1] == 1 || x.dims[1] == 3;
  bool fits = cpu_can_block(y) && (is_blocked(&x) || takes_rows);
  if (argument == 0)
    return is_blocked(&x) ||
                   (cpu_can_block(x) && cpu_can_block(y) && does_much(node))
               ? BLOCKED
               : KD_LAYOUT_ROW_MAJOR;
  bool sum = argument == 3 && argument < cpu_host->node->input_count(node);
  bool out = argument == cpu_host->node->input_count(node);
  return fits && (sum || out) ? BLOCKED : KD_LAYOUT_ROW_MAJOR;
}

uint32_t cpu_layout_preferred(kd_device *device, const kd_node *node,
                              uint32_t argument) {
  const kd_node_table *read = cpu_host->node;
  kd_type x, y;
  (void)device;
  if (read->input_type(node, 0, &x) != KD_OK ||
      read->output_type(node, 0, &y) != KD_OK || x.rank < 3 || x.rank > 5 ||
      x.dtype != KD_F32)
    return KD_LAYOUT_ROW_MAJOR;
  if (!strcmp(read->op(node), "Mul")) return scale_prefers(node, argument);
  if (!strcmp(read->op(node), "Concat")) return cpu_join_prefers(node);
  if (!strcmp(read->op(node), "Transpose"))
    return cpu_turn_prefers(node, argument);
  if (!strcmp(read->op(node), "Slice") || !strcmp(read->op(node), "Resize"))
    return cpu_move_prefers(node, argument);
  if (!strcmp(read->op(node), "BatchNormalization"))
    return is_blocked(&x) && is_plain_norm(node) &&
                   (argument == 0 || argument == read->input_count(node))
               ? BLOCKED
               : KD_LAYOUT_ROW_MAJOR;
  if (strstr(read->op(node), "Conv"))
    return is_point(&x) && is_point(&y) ? KD_LAYOUT_ROW_MAJOR
                                        : conv_prefers(node, argument, x, y);
  if (!is_blocked(&x)) return KD_LAYOUT_ROW_MAJOR;
  bool rows = is_point(&y) && y.dims[1] % cpu_block() == 0;
  return argument == 0 || (argument == 1 && !rows && cpu_can_block(y))
             ? BLOCKED
             : KD_LAYOUT_ROW_MAJOR;
}

typedef struct reorder_work {
  const float *from;
  float *to;
  int64_t space, block, blocks, channels; /* of an image */
  bool to_blocked;
} reorder_work;

/* One block of channels: a [block, space] matrix and its transpose. The last block of an
 * image may have fewer rows. */
static void reorder_blocks(void *context, int64_t begin, int64_t end) {
  const reorder_work *work = context;
  const cpu_tiles *tiles = cpu_tiles_get();
  int64_t n = work->space, b = work->block;
  for (int64_t i = begin; i < end; i++) {
    int64_t first = i % work->blocks * b, left = work->channels - first;
    int64_t rows = (i / work->blocks * work->channels + first) * n;
    int64_t count = left < b ? left : b;
    if (!work->to_blocked) {
      tiles->turn(work->from + i * n * b, b, n, count, work->to + rows, n);
      continue;
    }
    if (count < b)
      memset(work->to + i * n * b, 0, (size_t)(n * b) * sizeof(float));
    tiles->turn(work->from + rows, n, count, n, work->to + i * n * b, b);
  }
}

/* own: which of the two states the layout. */
static kd_status blocked_reorder(const kd_tensor *x, const kd_tensor *y,
                                 const kd_tensor *own) {
  const kd_type type = {.dims = own->dims,
                        .dtype = own->dtype,
                        .rank = own->rank,
                        .layout = own->layout};
  if (!cpu_layout_size(NULL, &type))
    return FAIL(KD_UNIMPLEMENTED, "the CPU has no layout %#x for this type",
                own->layout);
  reorder_work work = {.from = x->data,
                       .to = y->data,
                       .space = product(x->dims, 2, x->rank),
                       .block = cpu_block(),
                       .blocks = cpu_filled(x->dims[1]) / cpu_block(),
                       .channels = x->dims[1],
                       .to_blocked = own == y};
  cpu_host->parallel_for(cpu_host, x->dims[0] * work.blocks,
                         CPU_GRAIN / (work.space * work.block) + 1,
                         reorder_blocks, &work);
  return KD_OK;
}

kd_status cpu_layout_from_rows(kd_device *device, kd_stream *stream,
                               const kd_tensor *source,
                               const kd_tensor *target) {
  (void)device;
  (void)stream;
  return blocked_reorder(source, target, target);
}

kd_status cpu_layout_to_rows(kd_device *device, kd_stream *stream,
                             const kd_tensor *source, const kd_tensor *target) {
  (void)device;
  (void)stream;
  return blocked_reorder(source, target, source);
}
