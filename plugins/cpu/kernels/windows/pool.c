/* pool.c - MaxPool, AveragePool, LpPool, GlobalLpPool, MaxUnpool in row-major planes.
 *
 * Two ways: by tiles of an image, whose rows become vectors (pool_rows.c), or by single results
 * (pool.k), which walk those taps of a window that are inside the image. The second serves
 * indices, most integers, a few results, and windows larger than the image.
 *
 * Threads share tiles, or results. Floats are summed as doubles, and rounded once. */
#include "pool.h"

#include "dialect.h"
#include "kernels.h"

/* the words of pool.k */
#define FAMILY_BODY
#define ITEMS        end
#define INS          work->ins
#define OUTS         work->outs
#define AXES         WINDOW_SPACE
#define SPACE        w->space
#define KERNEL(d)    w->kernel[d]
#define STRIDE(d)    w->stride[d]
#define DILATION(d)  w->dilation[d]
#define PAD(d)       w->begin[d]
#define PAD_END(d)   w->end[d]
#define IN(d)        w->in[d]
#define OUT(d)       w->out[d]
#define COUNT_PAD    work->count_pad
#define COLUMN_MAJOR work->column_major
#define X(i)         LOAD(px[i])
#define RESULT(s)    (s)
#define SET_Y(i, v)  (py[i] = STORE(v))
#define SET_AT(i, v) (work->indices ? (void)(work->indices[i] = (v)) : (void)0)
#define POWER(x) \
  (work->p == 2 ? (x) * (x) : work->p == 1 ? (x) : pow(x, EXPONENT))
#define ROOT(x) \
  (work->p == 2 ? sqrt(x) : work->p == 1 ? (x) : pow(x, 1 / EXPONENT))
#define EXPONENT ((double)work->p)

#define EACH "windows/pool_typed.h"
#define KIND 0
#define POOL largest
#define INDICES
#define LEAST (-INF)
#include "each_float.h"
#undef LEAST
#define LEAST JOINED(LEAST_, TYPE)
#include "each_int.h"
#undef LEAST
#undef INDICES
#undef KIND
#undef POOL
#define LEAST 0
#define KIND  1
#define POOL  mean
#include "each_float.h"
#undef KIND
#undef POOL
#define KIND 2
#define POOL norm
#include "each_float.h"

static const kd_loop_body bodies[3][KD_DTYPE_COUNT] = {
    {FLOAT_TABLE(largest), INT_TABLE(largest)},
    {FLOAT_TABLE(mean)},
    {FLOAT_TABLE(norm)}};

#define TILE     8192 /* elements of an image, in the nearest caches */
#define TILE_MAX (64 * TILE)
#define STEP_MAX 64

/* Cuts an image into tiles; false where it is better, or needed, to go by elements: for
 * indices, single results, windows that are larger than the image. */
static bool pool_cut(pool_work *work) {
  const window *w = &work->w;
  int last = w->space - 1;
  if (work->indices || last < 0 || w->out[last] < 2 || work->outs < 4)
    return false;
  for (int d = 0; d <= last; d++)
    if (w->kernel[d] > w->in[d] || w->stride[d] > STEP_MAX ||
        w->dilation[d] > w->in[d])
      return false;
  int64_t wide = w->out[last] < 512 ? w->out[last] : 512, tall = 1, high = 1;
  int64_t across = wide * w->stride[last] + w->kernel[last] * w->dilation[last];
  if (last > 0) {
    int64_t room = TILE / across - w->kernel[last - 1] * w->dilation[last - 1];
    tall = room / w->stride[last - 1];
    tall = tall < 1 ? 1 : tall < w->out[last - 1] ? tall : w->out[last - 1];
    high = tall * w->stride[last - 1] +
           w->kernel[last - 1] * w->dilation[last - 1];
  }
  if (high > TILE_MAX / across) return false;
  work->wide = wide;
  work->tall = tall;
  work->across = (w->out[last] - 1) / wide + 1;
  work->down = last > 0 ? (w->out[last - 1] - 1) / tall + 1 : 1;
  return true;
}

static kd_status run_pool(const kd_launch *launch, pool_work *work) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  uintptr_t kind = (uintptr_t)launch->data;
  work->x = x->data;
  work->y = y->data;
  work->p = attr_int(launch, "p", 2);
  work->ins = product(x->dims, 2, x->rank);
  work->outs = product(y->dims, 2, y->rank);
  work->plain = bodies[kind][x->dtype];
  int64_t taps = 1; /* at most, of a window inside the image */
  for (int d = 0; d < work->w.space; d++) {
    int64_t in = work->w.in[d], kernel = work->w.kernel[d];
    taps *= kernel < in ? kernel : in;
  }
  kd_loop_body tiles = CPU_LOOPS(cpu_pools)->tiles[kind][x->dtype];
  int64_t count = kd_elements(y);
  if (tiles && count && pool_cut(work)) {
    int64_t items = work->across * work->down * (count / work->outs);
    for (int d = 0; d + 2 < work->w.space; d++)
      items *= work->w.out[d];
    int64_t each = count / items * (taps + 2) / 8 + 1;
    cpu_host->parallel_for(cpu_host, items, CPU_GRAIN / each + 1, tiles, work);
    return KD_OK;
  }
  cpu_host->parallel_for(cpu_host, count, CPU_GRAIN / 8 / (taps + 1) + 1,
                         work->plain, work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_pool) {
  pool_work work = {.count_pad = attr_int(launch, "count_include_pad", 0) != 0,
                    .column_major = attr_int(launch, "storage_order", 0) != 0};
  if (!window_read(cpu_host, launch->node, &launch->inputs[0],
                   &launch->outputs[0], NULL, 0, &work.w))
    return FAIL(KD_UNIMPLEMENTED, "more than %d spatial dimensions",
                WINDOW_SPACE);
  window_fold(&work.w, work.column_major ? 0 : CPU_NARROW_POOL);
  if (kd_has_output(launch, 1)) work.indices = launch->outputs[1].data;
  return run_pool(launch, &work);
}

/* All of space is one window, a row; the largest and the mean are reductions. */
CPU_KERNEL(cpu_run_global_lp_pool) {
  const kd_tensor *x = &launch->inputs[0];
  pool_work work = {
      .w = {.space = 1, .stride = {1}, .dilation = {1}, .out = {1}}};
  work.w.kernel[0] = work.w.in[0] = product(x->dims, 2, x->rank);
  return run_pool(launch, &work);
}

CPU_KERNEL(cpu_run_max_unpool) {
  const kd_tensor *x = &launch->inputs[0], *indices = &launch->inputs[1],
                  *y = &launch->outputs[0];
  const int64_t *kernel = NULL, *strides = NULL, *pads = NULL;
  size_t size = kd_dtype_size(x->dtype);
  if (kd_elements(indices) != kd_elements(x))
    return FAIL(KD_INVALID_ARGUMENT, "an index is needed for each element");
  if (y->size) memset(y->data, 0, y->size);
  /* indices count through the size that the pooling had, which an explicit
   * output_shape enlarges */
  int64_t dims[KD_MAX_RANK];
  int64_t have = attr_ints(launch, "kernel_shape", &kernel);
  int64_t steps = attr_ints(launch, "strides", &strides);
  int64_t padded = attr_ints(launch, "pads", &pads);
  for (uint32_t d = 0; d < x->rank; d++) {
    int64_t i = (int64_t)d - 2;
    dims[d] = x->dims[d];
    if (i >= 0 && i < have)
      dims[d] = (x->dims[d] - 1) * (i < steps ? strides[i] : 1) + kernel[i] -
                (i < padded ? pads[i] + pads[i + have] : 0);
  }
  for (int64_t i = 0, n = kd_elements(x); i < n; i++) {
    int64_t rest = ((const int64_t *)indices->data)[i], to = 0, scale = 1;
    for (uint32_t d = x->rank; d-- > 0; scale *= y->dims[d]) {
      int64_t at = dims[d] ? rest % dims[d] : 0;
      rest = dims[d] ? rest / dims[d] : 0;
      if (at < 0 || at >= y->dims[d])
        return FAIL(KD_OUT_OF_RANGE, "index %lld is outside the output",
                    (long long)((const int64_t *)indices->data)[i]);
      to += at * scale;
    }
    if (rest)
      return FAIL(KD_OUT_OF_RANGE, "index %lld is outside the output",
                  (long long)((const int64_t *)indices->data)[i]);
    memcpy((char *)y->data + (size_t)to * size,
           (const char *)x->data + (size_t)i * size, size);
  }
  return KD_OK;
}
