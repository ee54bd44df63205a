/* pool.c - pooling over windows and over all of space. */
#include "families/window.h"
#include "kernels.h"

typedef enum pool_kind { POOL_MAX, POOL_AVERAGE, POOL_LP } pool_kind;

typedef struct pool_work {
  pool_kind kind;
  window w;
  const kd_tensor *x, *y;
  int64_t *indices; /* of the maxima, or NULL */
  int64_t ins, outs, p;
  bool count_pad, column_major;
} pool_work;

/* Window `o` of a plane: the ranges that lie inside, and how many positions
 * count for an average with padding. */
static void window_bounds(const window *w, int64_t o, int64_t *first,
                          int64_t *last, int64_t *out_padded) {
  *out_padded = 1;
  for (int i = w->space - 1; i >= 0; o /= w->out[i--]) {
    int64_t start = o % w->out[i] * w->stride[i] - w->begin[i];
    int64_t padded = 0;
    first[i] = w->kernel[i];
    last[i] = -1;
    for (int64_t k = 0; k < w->kernel[i]; k++) {
      int64_t at = start + k * w->dilation[i];
      padded += at < w->in[i] + w->end[i];
      if (at < 0 || at >= w->in[i]) continue;
      first[i] = k < first[i] ? k : first[i];
      last[i] = k;
    }
    *out_padded *= padded;
  }
}

typedef struct pooled {
  double value;
  int64_t count, index;
} pooled;

static void pool_add(const pool_work *work, pooled *sum, int64_t plane,
                     int64_t offset) {
  double value =
      cpu_get(work->x->data, work->x->dtype, plane * work->ins + offset);
  switch (work->kind) {
    case POOL_MAX:
      if (sum->count == 0 || value > sum->value || value != value) {
        sum->value = value;
        sum->index = offset;
      }
      break;
    case POOL_AVERAGE:
      sum->value += value;
      break;
    default:
      sum->value += pow(fabs(value), (double)work->p);
  }
  sum->count++;
}

static pooled pool_window(const pool_work *work, int64_t plane, int64_t o,
                          int64_t *out_padded) {
  const window *w = &work->w;
  int64_t first[WINDOW_SPACE], last[WINDOW_SPACE], k[WINDOW_SPACE];
  pooled sum = {0};
  window_bounds(w, o, first, last, out_padded);
  bool any = true;
  for (int i = 0; i < w->space; i++) {
    k[i] = first[i];
    any &= first[i] <= last[i];
  }
  while (any) {
    int64_t offset = 0, rest = o, scale = 1;
    for (int i = w->space - 1; i >= 0; rest /= w->out[i--]) {
      offset += (rest % w->out[i] * w->stride[i] - w->begin[i] +
                 k[i] * w->dilation[i]) *
                scale;
      scale *= w->in[i];
    }
    pool_add(work, &sum, plane, offset);
    int i = w->space - 1;
    for (; i >= 0 && ++k[i] > last[i]; i--)
      k[i] = first[i];
    any = i >= 0;
  }
  return sum;
}

/* An index counts through the whole input, by rows or by columns. */
static int64_t index_of(const pool_work *work, int64_t plane, int64_t offset) {
  if (!work->column_major) return plane * work->ins + offset;
  int64_t result = 0, scale = 1, at[WINDOW_SPACE];
  for (int i = work->w.space - 1; i >= 0; offset /= work->w.in[i--])
    at[i] = offset % work->w.in[i];
  for (int i = 0; i < work->w.space; i++) {
    result += at[i] * scale;
    scale *= work->w.in[i];
  }
  return plane * work->ins + result;
}

static void pool_planes(void *context, int64_t begin, int64_t end) {
  const pool_work *work = context;
  for (int64_t plane = begin; plane < end; plane++)
    for (int64_t o = 0; o < work->outs; o++) {
      int64_t padded = 0, to = plane * work->outs + o;
      pooled sum = pool_window(work, plane, o, &padded);
      int64_t count = work->count_pad ? padded : sum.count;
      double value =
          work->kind == POOL_AVERAGE ? (count ? sum.value / (double)count : 0)
          : work->kind == POOL_LP    ? pow(sum.value, 1 / (double)work->p)
          : sum.count                ? sum.value
                                     : -INFINITY;
      cpu_set(work->y->data, work->y->dtype, to, value);
      if (work->indices) work->indices[to] = index_of(work, plane, sum.index);
    }
}

CPU_KERNEL(cpu_run_pool) {
  (void)self;
  (void)stream;
  pool_work work = {.kind = (pool_kind)(uintptr_t)launch->data,
                    .x = &launch->inputs[0],
                    .y = &launch->outputs[0]};
  if (!window_read(cpu_host, launch->node, work.x, work.y, NULL, 0, &work.w))
    return FAIL(KD_UNIMPLEMENTED, "more than %d spatial dimensions",
                WINDOW_SPACE);
  if (kd_has_output(launch, 1)) work.indices = launch->outputs[1].data;
  work.p = attr_int(launch, "p", 2);
  work.count_pad = attr_int(launch, "count_include_pad", 0) != 0;
  work.column_major = attr_int(launch, "storage_order", 0) != 0;
  work.ins = product(work.x->dims, 2, work.x->rank);
  work.outs = product(work.y->dims, 2, work.y->rank);
  int64_t planes = work.x->dims[0] * work.x->dims[1];
  int64_t taps = product(work.w.kernel, 0, (uint32_t)work.w.space);
  cpu_host->parallel_for(planes, CPU_GRAIN / 8 / (work.outs * taps + 1) + 1,
                         pool_planes, &work);
  return KD_OK;
}

/* ---- all of space -------------------------------------------------------------- */

CPU_KERNEL(cpu_run_global_pool) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  pool_kind kind = (pool_kind)(uintptr_t)launch->data;
  double p = (double)attr_int(launch, "p", 2);
  int64_t space = product(x->dims, 2, x->rank);
  for (int64_t i = 0, n = kd_elements(y); i < n; i++) {
    double sum = kind == POOL_MAX ? -INFINITY : 0;
    for (int64_t k = 0; k < space; k++) {
      double value = cpu_get(x->data, x->dtype, i * space + k);
      sum = kind == POOL_MAX ? (value > sum || value != value ? value : sum)
            : kind == POOL_AVERAGE ? sum + value
                                   : sum + pow(fabs(value), p);
    }
    cpu_set(y->data, y->dtype, i,
            kind == POOL_AVERAGE ? sum / (double)space
            : kind == POOL_LP    ? pow(sum, 1 / p)
                                 : sum);
  }
  return KD_OK;
}

CPU_KERNEL(cpu_run_max_unpool) {
  (void)self;
  (void)stream;
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
