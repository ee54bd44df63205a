/* blocked_pool.c - MaxPool and AveragePool of f32 planes and rows in the blocked layout, by
 * pool_blocks.c; oneDNN has the rest (blocked_conv.c).
 *
 * The taps of each row and column of results that are inside the image (spans) are listed when
 * the kernel is made, so that loops test nothing. Threads share rows of results. */
#include <stdatomic.h>

#include "blocked.h"
#include "families/window.h"
#include "kernels.h"
#include "pool_blocks.h"

struct kd_kernel {
  cpu_pool_plane plane;
  int64_t planes;       /* blocks of all images */
  cpu_pool_span *spans; /* of rows, then of columns */
};

/* Taps of a window at `at` that lie below `end`. */
static int64_t taps_below(int64_t at, int64_t end, int64_t dilation,
                          int64_t kernel) {
  int64_t count = end > at ? (end - at - 1) / dilation + 1 : 0;
  return count < kernel ? count : kernel;
}

static cpu_pool_span span_of(const window *w, int d, int64_t out,
                             bool count_pad) {
  int64_t at = out * w->stride[d] - w->begin[d], step = w->dilation[d];
  int64_t skip = taps_below(at, 0, step, w->kernel[d]);
  int64_t end = taps_below(at, w->in[d], step, w->kernel[d]);
  int64_t all = taps_below(at, w->in[d] + w->end[d], step, w->kernel[d]);
  return (cpu_pool_span){at + skip * step, end - skip,
                         (float)(count_pad ? all : end - skip)};
}

static bool blocked_pool_read_node(const kd_node *node, window *w,
                                   int64_t *out_planes) {
  const kd_node_table *read = cpu_host->node;
  kd_type x, y;
  if (read->output_count(node) != 1 || read->input_type(node, 0, &x) != KD_OK ||
      read->output_type(node, 0, &y) != KD_OK || x.rank < 3 || x.rank > 4 ||
      !is_blocked(&x) || !is_blocked(&y))
    return false;
  for (uint32_t i = 0; i < x.rank; i++)
    if (y.dims[i] < 1 || x.dims[i] < 1) return false;
  kd_tensor in = {.dims = x.dims, .rank = x.rank};
  kd_tensor out = {.dims = y.dims, .rank = y.rank};
  *out_planes = x.dims[0] * (cpu_filled(x.dims[1]) / cpu_block());
  if (!window_read(cpu_host, node, &in, &out, NULL, 0, w)) return false;
  window_fold(w, CPU_NARROW_POOL);
  return true;
}

/* Windows that see padding alone are left to others. */
static bool sees_image(const window *w) {
  for (int d = 0; d < w->space; d++)
    for (int64_t i = 0; i < w->out[d]; i++)
      if (span_of(w, d, i, false).count < 1) return false;
  return true;
}

CPU_SUPPORTS(pool_blocks) {
  window w;
  int64_t planes;
  return blocked_pool_read_node(node, &w, &planes) && sees_image(&w)
             ? KD_OK
             : KD_UNIMPLEMENTED;
}

CPU_CREATE(pool_blocks) {
  kd_kernel *kernel = calloc(1, sizeof *kernel);
  window w;
  if (!kernel || !blocked_pool_read_node(node, &w, &kernel->planes)) {
    free(kernel);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a pooling");
  }
  cpu_pool_plane *p = &kernel->plane;
  int64_t rows = w.space > 1 ? w.out[0] : 1, columns = w.out[w.space - 1];
  bool pad = cpu_host->node->attr_int(node, "count_include_pad", 0) != 0;
  *p = (cpu_pool_plane){.in = {1, w.in[w.space - 1]},
                        .out = {rows, columns},
                        .dilation = {1, w.dilation[w.space - 1]},
                        .mean = cpu_host->node->op(node)[0] == 'A'};
  kernel->spans = malloc((size_t)(rows + columns) * sizeof *kernel->spans);
  if (!kernel->spans) {
    free(kernel);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a pooling");
  }
  kernel->spans[0] = (cpu_pool_span){0, 1, 1};
  if (w.space > 1) {
    p->in[0] = w.in[0];
    p->dilation[0] = w.dilation[0];
  }
  for (int64_t i = 0; i < rows && w.space > 1; i++)
    kernel->spans[i] = span_of(&w, 0, i, pad);
  for (int64_t i = 0; i < columns; i++)
    kernel->spans[rows + i] = span_of(&w, w.space - 1, i, pad);
  p->rows = kernel->spans;
  p->columns = kernel->spans + rows;
  *out_kernel = kernel;
  return KD_OK;
}

void cpu_destroy_pool_blocks(kd_kernel *kernel) {
  free(kernel->spans);
  free(kernel);
}

typedef struct pool_work {
  const kd_kernel *kernel;
  const float *x;
  float *y;
  atomic_bool failed;
} pool_work;

/* An item is a row of results. */
static void blocked_pool_run_rows(void *context, int64_t begin, int64_t end) {
  pool_work *work = context;
  const cpu_pool_plane *p = &work->kernel->plane;
  const int64_t b = cpu_block();
  double *room = malloc((size_t)(p->in[1] * b) * sizeof *room);
  if (!room) {
    atomic_store(&work->failed, true);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    int64_t plane = i / p->out[0];
    (*CPU_LOOPS(cpu_pool_blocks))(p, work->x + plane * p->in[0] * p->in[1] * b,
                                  i % p->out[0], room,
                                  work->y + plane * p->out[0] * p->out[1] * b);
  }
  free(room);
}

CPU_KERNEL(cpu_run_pool_blocks) {
  pool_work work = {.kernel = self,
                    .x = launch->inputs[0].data,
                    .y = launch->outputs[0].data};
  const cpu_pool_plane *p = &self->plane;
  int64_t each = p->in[1] * p->rows[p->out[0] / 2].count +
                 p->out[1] * p->columns[p->out[1] / 2].count;
  cpu_host->parallel_for(cpu_host, self->planes * p->out[0],
                         CPU_GRAIN / (2 * each) + 1, blocked_pool_run_rows,
                         &work);
  return work.failed ? FAIL(KD_OUT_OF_MEMORY, "no memory for a row") : KD_OK;
}
