/* blocked_turn.c - Transposes between rows of channels and blocks of them, and back.
 *
 *     N, spatial..., C      pixel 0: channels 0 ... C-1 | pixel 1: ...
 *     N, C/b, spatial..., b pixel 0: channels 0 ... b-1 | pixel 1: ...
 *
 * A pixel's channels of a block are neighbours on both sides: one copy of b elements each.
 * Threads share tiles of TILE pixels, whose rows and blocks fit the first cache. */
#include "blocked.h"
#include "kernels.h"

/* Whether a Transpose moves channels from the last place to the second (first), or back. */
static bool moves(const kd_node *node, uint32_t rank, bool first) {
  const int64_t *perm = NULL;
  if (rank < 3 ||
      cpu_host->node->attr_ints(node, "perm", &perm) != (int64_t)rank ||
      perm[0])
    return false;
  for (uint32_t i = 1; i < rank; i++) {
    uint32_t from =
        first ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
    if (perm[i] != (int64_t)from) return false;
  }
  return true;
}

static bool read_types(const kd_node *node, kd_type *x, kd_type *y) {
  return cpu_host->node->input_type(node, 0, x) == KD_OK &&
         cpu_host->node->output_type(node, 0, y) == KD_OK && x->dtype == KD_F32;
}

/* Into blocks where that is asked for; out of them where it comes so. */
uint32_t cpu_turn_prefers(const kd_node *node, uint32_t argument) {
  kd_type x, y;
  if (!read_types(node, &x, &y)) return KD_LAYOUT_ROW_MAJOR;
  if (argument == 0)
    return is_blocked(&x) && moves(node, x.rank, false) ? BLOCKED
                                                        : KD_LAYOUT_ROW_MAJOR;
  return !is_blocked(&x) && cpu_can_block(y) && moves(node, x.rank, true)
             ? BLOCKED
             : KD_LAYOUT_ROW_MAJOR;
}

CPU_SUPPORTS(turn) {
  kd_type x, y;
  return read_types(node, &x, &y) && is_blocked(&x) != is_blocked(&y) &&
                 moves(node, x.rank, is_blocked(&y))
             ? KD_OK
             : KD_UNIMPLEMENTED;
}

#define TILE 32 /* pixels whose rows and blocks the first cache holds */

typedef struct turn_work {
  const float *x;
  float *y;
  int64_t pixels, channels, tiles; /* of an image */
  bool into;
} turn_work;

/* Pixels of one block, of `size` channels in a row. */
static inline void blocked_turn_move(const float *from, float *to,
                                     int64_t pixels, int64_t from_step,
                                     int64_t to_step, size_t size) {
  for (int64_t p = 0; p < pixels; p++, from += from_step, to += to_step)
    memcpy(to, from, size * sizeof *to);
}

/* The same of the last block, which may be filled up by zeros. */
static void move_last(const turn_work *work, const float *from, float *to,
                      int64_t pixels, size_t size) {
  int64_t block = cpu_block();
  if (!work->into) {
    blocked_turn_move(from, to, pixels, block, work->channels, size);
    return;
  }
  blocked_turn_move(from, to, pixels, work->channels, block, size);
  for (int64_t p = 0; p < pixels; p++)
    memset(to + p * block + size, 0, ((size_t)block - size) * sizeof *to);
}

static void move_tile(const turn_work *work, const float *rows,
                      const float *blocks, int64_t pixels) {
  const int64_t block = cpu_block(), step = work->pixels * block;
  for (int64_t c = 0; c < work->channels;
       c += block, rows += block, blocks += step) {
    const float *from = work->into ? rows : blocks;
    float *to = (float *)(uintptr_t)(work->into ? blocks : rows);
    int64_t from_step = work->into ? work->channels : block;
    int64_t to_step = work->into ? block : work->channels;
    if (c + block > work->channels)
      move_last(work, from, to, pixels, (size_t)(work->channels - c));
    else if (block == 16) /* a constant, which takes no call */
      blocked_turn_move(from, to, pixels, from_step, to_step, 16);
    else
      blocked_turn_move(from, to, pixels, from_step, to_step, 8);
  }
}

static void move_tiles(void *context, int64_t begin, int64_t end) {
  const turn_work *work = context;
  const int64_t filled = cpu_filled(work->channels);
  for (int64_t i = begin; i < end; i++) {
    int64_t image = i / work->tiles, p = i % work->tiles * TILE;
    int64_t left = work->pixels - p;
    int64_t row = (image * work->pixels + p) * work->channels;
    int64_t block = image * work->pixels * filled + p * cpu_block();
    move_tile(work, (work->into ? work->x : work->y) + row,
              (work->into ? work->y : work->x) + block,
              left < TILE ? left : TILE);
  }
}

CPU_KERNEL(cpu_run_transpose_blocked) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  bool into = y->layout == BLOCKED;
  const int64_t *dims = into ? y->dims : x->dims; /* channels first */
  int64_t pixels = product(dims, 2, x->rank);
  turn_work work = {.x = x->data,
                    .y = y->data,
                    .pixels = pixels,
                    .channels = dims[1],
                    .tiles = (pixels + TILE - 1) / TILE,
                    .into = into};
  if (kd_elements(y))
    cpu_host->parallel_for(cpu_host, dims[0] * work.tiles,
                           CPU_GRAIN / (TILE * dims[1]) + 1, move_tiles, &work);
  return KD_OK;
}
