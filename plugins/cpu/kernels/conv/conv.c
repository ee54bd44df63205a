/* conv.c - convolutions of any rank, type and group: im2col and a product.
 *
 * The way that always works; blocked.c has a faster one for many of f32. Outputs are made in
 * tiles whose columns stay in the second cache; narrow groups go to direct.c. Other
 * float types are computed in f32 (f16, bf16) or their own (f64). */
#include "conv.h"

#include <stdatomic.h>

#include "columns.h"
#include "direct.h"
#include "elementwise/elementwise.h"
#include "kernels.h"
#include "products/tiles.h"
#include "products/weights.h"
#include "transposed.h"

/* ---- sizes -------------------------------------------------------------------- */

typedef struct conv {
  window w;
  int64_t batch, group, in_c, out_c; /* channels of one group */
  int64_t taps, ins, outs;
  kd_dtype wide; /* that it is computed in */
} conv;

/* dims: of the weights. */
static bool conv_read_conv(const kd_launch *launch, const kd_tensor *x,
                           const int64_t *dims, const kd_tensor *y,
                           bool transposed, conv *c) {
  if (!window_read(cpu_host, launch->node, x, y, dims + 2, transposed, &c->w))
    return false;
  c->group = attr_int(launch, "group", 1);
  window_fold(&c->w, transposed     ? 0
                     : c->group > 1 ? CPU_NARROW_GROUPS
                                    : CPU_NARROW);
  c->batch = x->dims[0];
  c->in_c = x->dims[1] / c->group;
  c->out_c = y->dims[1] / c->group;
  c->taps = c->ins = c->outs = 1;
  for (int i = 0; i < c->w.space; i++) {
    c->taps *= c->w.kernel[i];
    c->ins *= c->w.in[i];
    c->outs *= c->w.out[i];
  }
  c->wide = x->dtype == KD_F64 ? KD_F64 : KD_F32;
  return true;
}

/* A buffer of elements in the computing type: the tensor's own data where it
 * has it, else a converted copy. Free it where it is not the tensor's. */
static void *widened(const kd_tensor *tensor, kd_dtype wide) {
  if (tensor->dtype == wide) return tensor->data;
  int64_t n = kd_elements(tensor);
  void *copy = malloc((size_t)n * kd_dtype_size(wide) + 1);
  if (copy) cpu_convert(tensor->data, tensor->dtype, copy, wide, n);
  return copy;
}

static void drop_widened(const kd_tensor *tensor, void *data) {
  if (data != tensor->data) free(data);
}

#define GATES 256 /* elements at once, in the nearest cache */

#define FINISH(T)                                               \
  do {                                                          \
    T *to = (T *)y + at;                                        \
    const T *z = f->z ? (const T *)f->z + at : NULL;            \
    const T low = (T)f->act.low, high = (T)f->act.high;         \
    const T bias = f->bias ? ((const T *)f->bias)[channel] : 0; \
    if (f->bias || z)                                           \
      for (int64_t i = 0; i < n; i++)                           \
        to[i] = z ? to[i] + bias + z[i] : to[i] + bias;         \
    if (f->act.low > -INFINITY || f->act.high < INFINITY)       \
      for (int64_t i = 0; i < n; i++) {                         \
        T value = to[i] < low ? low : to[i];                    \
        to[i] = value > high ? high : value;                    \
      }                                                         \
  } while (0)

/* Activations that the elementwise ops have loops for. */
static void activate(const cpu_finish *f, char *y, int64_t n) {
  const cpu_loops *loops = cpu_loops_get();
  size_t size = kd_dtype_size(f->dtype);
  double gates[GATES];
  if (f->act.last == CPU_LAST_HARD_SWISH)
    loops->unary[UNARY_HardSwish].loops[f->dtype](y, y, n, 0, 0);
  else if (f->act.last == CPU_LAST_LEAKY_RELU)
    loops->unary[UNARY_LeakyRelu].loops[f->dtype](y, y, n, (double)f->act.alpha,
                                                  0);
  for (int64_t i = 0; i < n && f->act.last == CPU_LAST_SILU; i += GATES) {
    int64_t count = n - i < GATES ? n - i : GATES;
    char *part = y + (size_t)i * size;
    loops->unary[UNARY_Sigmoid].loops[f->dtype](part, gates, count, 0, 0);
    loops->binary[BINARY_Mul].loops[f->dtype](part, 1, gates, 1, part, count);
  }
}

void cpu_finish_row(const cpu_finish *f, int64_t channel, void *y, int64_t at,
                    int64_t n) {
  if (f->dtype == KD_F32)
    FINISH(float);
  else
    FINISH(double);
  if (f->act.last >= CPU_LAST_SILU)
    activate(f, (char *)y + (size_t)at * kd_dtype_size(f->dtype), n);
}

kd_status cpu_read_activation(const kd_node *node, cpu_activation *out) {
  const kd_node_table *read = cpu_host->node;
  static const char *const names[] = {"none", "Relu",      "Clip",
                                      "Silu", "HardSwish", "LeakyRelu"};
  bool activated = !strcmp(read->op(node), "ActivatedConv");
  const char *name =
      read->attr_string(node, "activation", activated ? "Silu" : "none");
  *out = (cpu_activation){.low = -INFINITY, .high = INFINITY};
  int first = activated ? CPU_LAST_SILU : CPU_LAST_NONE;
  int end = activated ? CPU_LAST_LEAKY_RELU : CPU_LAST_CLIP;
  for (int i = first; i <= end; i++)
    if (!strcmp(name, names[i])) {
      out->last = (cpu_last)i;
      if (i == CPU_LAST_RELU) out->low = 0;
      if (i == CPU_LAST_CLIP)
        out->low = read->attr_float(node, "low", -INFINITY);
      if (i == CPU_LAST_CLIP)
        out->high = read->attr_float(node, "high", INFINITY);
      out->alpha = read->attr_float(node, "alpha", 0.01f);
      return KD_OK;
    }
  return FAIL(KD_UNIMPLEMENTED, "activation is \"%s\", which %s has not", name,
              read->op(node));
}

/* ---- Conv ---------------------------------------------------------------------- */

#define TILE_BYTES (256 * 1024) /* of columns, or of what they give */

typedef struct conv_work {
  const conv *c;
  const char *x, *weights;
  char *y;
  const cpu_finish *end;
  int64_t width,
      tiles;      /* output positions of a tile, or images; tiles of a group */
  bool pointwise; /* what the windows see is the input itself */
  bool shared;    /* the threads share each product */
  atomic_bool failed;
} conv_work;

static bool is_pointwise(const conv *c) {
  bool pointwise = c->taps == 1 && c->ins == c->outs;
  for (int i = 0; i < c->w.space; i++)
    pointwise &= c->w.stride[i] == 1 && c->w.begin[i] == 0 && c->w.end[i] == 0;
  return pointwise;
}

/* Output positions [from, from + n) of group `at` of all images. */
static void conv_tile(const conv_work *work, int64_t at, int64_t from,
                      int64_t n, char *columns) {
  const conv *c = work->c;
  size_t size = kd_dtype_size(c->wide);
  int64_t g = at % c->group;
  const char *x = work->x + (size_t)(at * c->in_c * c->ins) * size;
  if (!work->pointwise)
    cpu_columns(&c->w, x, c->in_c, size, from, from + n, columns);
  cpu_gemm gemm = {
      .dtype = c->wide,
      .m = c->out_c,
      .n = n,
      .k = c->in_c * c->taps,
      .vector = c->outs == 1,
      .alpha = 1,
      .a = work->weights + (size_t)(g * c->out_c * c->in_c * c->taps) * size,
      .b = work->pointwise ? x + (size_t)from * size : columns,
      .c = work->y + (size_t)(at * c->out_c * c->outs + from) * size,
      .lda = c->in_c * c->taps,
      .ldb = work->pointwise ? c->outs : n,
      .ldc = c->outs};
  if (work->shared)
    cpu_gemm_run(&gemm);
  else
    cpu_gemm_here(&gemm);
  for (int64_t i = 0; i < c->out_c; i++)
    cpu_finish_row(work->end, g * c->out_c + i, work->y,
                   (at * c->out_c + i) * c->outs + from, n);
}

static void conv_tiles(void *context, int64_t begin, int64_t end) {
  conv_work *work = context;
  const conv *c = work->c;
  size_t bytes =
      (size_t)(c->in_c * c->taps * work->width) * kd_dtype_size(c->wide);
  char *columns = work->pointwise ? NULL : malloc(bytes + 1);
  if (!columns && !work->pointwise) {
    atomic_store(&work->failed, true);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    int64_t from = i % work->tiles * work->width;
    int64_t n = c->outs - from < work->width ? c->outs - from : work->width;
    conv_tile(work, i / work->tiles, from, n, columns);
  }
  free(columns);
}

/* By tiles, each on one thread; where there are fewer than threads, one after the other,
 * and the threads share the products. */
static kd_status conv_products(conv_work *work) {
  const conv *c = work->c;
  int64_t rows = c->in_c * c->taps, threads = cpu_host->worker_count(cpu_host);
  int64_t groups = c->batch * c->group;
  work->pointwise = is_pointwise(c);
  work->width = TILE_BYTES / (int64_t)kd_dtype_size(c->wide) /
                ((rows > c->out_c ? rows : c->out_c) + 1);
  work->width = (work->width < 128 ? 128 : work->width) / 64 * 64;
  work->tiles = (c->outs + work->width - 1) / work->width;
  /* a few tiles are dealt out evenly, if that leaves them wide enough */
  while (groups * work->tiles < 8 * threads && groups * work->tiles % threads &&
         c->outs / (work->tiles + 1) >= 64)
    work->tiles++;
  work->width = (c->outs + work->tiles - 1) / work->tiles;
  work->width = (work->width + 15) / 16 * 16;
  if (work->width > c->outs) work->width = c->outs;
  work->tiles = (c->outs + work->width - 1) / work->width;
  int64_t count = groups * work->tiles;
  double flops = 2.0 * (double)(c->out_c * rows) * (double)work->width;
  work->shared = count < threads;
  if (work->shared)
    conv_tiles(work, 0, count);
  else
    cpu_host->parallel_for(cpu_host, count, (int64_t)(2e5 / flops) + 1,
                           conv_tiles, work);
  return atomic_load(&work->failed) ? KD_OUT_OF_MEMORY : KD_OK;
}

/* ---- windows larger than what they give ------------------------------------------ */

/* As the gradient of a convolution's weights has them: windows that are whole images, and a few
 * results. Columns would be that few elements wide. Here a row is what one window sees of one
 * channel, and all windows of some images times the filters is a product. */
static bool has_large_windows(const conv *c) {
  return c->group == 1 && c->w.space > 0 && c->outs <= 64 &&
         c->taps >= 4 * c->outs;
}

/* A window's taps and its places change parts: rows of columns are then its places. */
static window turned_around(const window *w) {
  window t = *w;
  for (int i = 0; i < w->space; i++) {
    t.kernel[i] = w->out[i];
    t.out[i] = w->kernel[i];
    t.stride[i] = w->dilation[i];
    t.dilation[i] = w->stride[i];
  }
  return t;
}

/* Images [first, first + n): `rows` has room for what their windows see of a channel, `made` for
 * their results. */
static void large_windows(const conv_work *work, int64_t first, int64_t n,
                          char *rows, char *made) {
  const conv *c = work->c;
  const size_t size = kd_dtype_size(c->wide);
  const window around = turned_around(&c->w);
  for (int64_t k = 0; k < c->in_c; k++) {
    for (int64_t i = 0; i < n; i++)
      cpu_columns(
          &around,
          work->x + (size_t)(((first + i) * c->in_c + k) * c->ins) * size, 1,
          size, 0, c->taps, rows + (size_t)(i * c->outs * c->taps) * size);
    cpu_gemm gemm = {.dtype = c->wide,
                     .trans_b = true,
                     .m = n * c->outs,
                     .n = c->out_c,
                     .k = c->taps,
                     .alpha = 1,
                     .beta = k ? 1 : 0,
                     .a = rows,
                     .b = work->weights + (size_t)(k * c->taps) * size,
                     .c = made,
                     .lda = c->taps,
                     .ldb = c->in_c * c->taps,
                     .ldc = c->out_c};
    if (work->shared)
      cpu_gemm_run(&gemm);
    else
      cpu_gemm_here(&gemm);
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t m = 0; m < c->out_c; m++) {
      int64_t to = ((first + i) * c->out_c + m) * c->outs;
      for (int64_t o = 0; o < c->outs; o++)
        memcpy(work->y + (size_t)(to + o) * size,
               made + (size_t)((i * c->outs + o) * c->out_c + m) * size, size);
      cpu_finish_row(work->end, m, work->y, to, c->outs);
    }
}

static void large_tiles(void *context, int64_t begin, int64_t end) {
  conv_work *work = context;
  const conv *c = work->c;
  size_t row = (size_t)(work->width * c->outs) * kd_dtype_size(c->wide);
  char *rows = malloc(row * (size_t)c->taps + 1);
  char *made = malloc(row * (size_t)c->out_c + 1);
  if (!rows || !made) atomic_store(&work->failed, true);
  for (int64_t i = begin; rows && made && i < end; i++) {
    int64_t first = i * work->width, left = c->batch - first;
    large_windows(work, first, left < work->width ? left : work->width, rows,
                  made);
  }
  free(rows);
  free(made);
}

/* As conv_products, but that a tile is `width` images. */
static kd_status conv_large(conv_work *work) {
  const conv *c = work->c;
  int64_t threads = cpu_host->worker_count(cpu_host);
  int64_t room = TILE_BYTES * 4 / (int64_t)kd_dtype_size(c->wide);
  int64_t each = (c->batch + threads - 1) / threads;
  work->width = room / (c->outs * c->taps);
  work->width = work->width < each ? work->width : each;
  work->width = work->width < 1 ? 1 : work->width;
  work->tiles = (c->batch + work->width - 1) / work->width;
  work->shared = work->tiles < threads;
  if (work->shared)
    large_tiles(work, 0, work->tiles);
  else
    cpu_host->parallel_for(cpu_host, work->tiles, 1, large_tiles, work);
  return atomic_load(&work->failed) ? KD_OUT_OF_MEMORY : KD_OK;
}

/* Narrow groups. The weights may be of this call alone. */
static kd_status conv_direct(const conv *c, const void *x, const void *weights,
                             void *y, const cpu_finish *end) {
  cpu_direct d = {.w = c->w,
                  .images = c->batch,
                  .groups = c->group,
                  .ins = c->in_c,
                  .outs = c->out_c};
  cpu_finish rest = *end;
  rest.bias = NULL;
  cpu_direct_plan(&d);
  float *packed = malloc((size_t)cpu_direct_weights(&d) * sizeof *packed + 1);
  void *room = malloc((size_t)cpu_direct_room(&d));
  cpu_direct_run run = {.d = &d,
                        .x = x,
                        .packed = packed,
                        .bias = end->bias,
                        .finish = &rest,
                        .room = room};
  run.y = y;
  if (packed && room) {
    cpu_direct_pack(&d, weights, packed);
    cpu_direct_start(&run);
  }
  free(packed);
  free(room);
  return packed && room ? KD_OK : KD_OUT_OF_MEMORY;
}

static kd_status run_conv(const conv *c, const char *x, const char *weights,
                          char *y, const cpu_finish *end) {
  if (c->wide == KD_F32 && c->w.space > 0 && c->group > 1 && c->out_c <= 64)
    return conv_direct(c, x, weights, y, end);
  conv_work work = {.c = c, .x = x, .weights = weights, .y = y, .end = end};
  return has_large_windows(c) ? conv_large(&work) : conv_products(&work);
}

CPU_KERNEL(cpu_run_conv) {
  const kd_tensor *x = &launch->inputs[0], *w = &launch->inputs[1],
                  *y = &launch->outputs[0];
  const kd_tensor *bias = kd_has_input(launch, 2) ? &launch->inputs[2] : NULL;
  const kd_tensor *z =
      launch->data && kd_has_input(launch, 3) ? &launch->inputs[3] : NULL;
  cpu_activation act = {.low = -INFINITY, .high = INFINITY};
  conv c = {0};
  if (!conv_read_conv(launch, x, w->dims, y, false, &c))
    return FAIL(KD_UNIMPLEMENTED, "more than %d spatial dimensions",
                WINDOW_SPACE);
  kd_status status = KD_OK;
  if (launch->data) status = cpu_read_activation(launch->node, &act);
  if (status != KD_OK || !kd_elements(y)) return status;
  size_t size = kd_dtype_size(c.wide);
  char *wx = widened(x, c.wide), *ww = widened(w, c.wide);
  char *wb = bias ? widened(bias, c.wide) : NULL;
  char *wz = z ? widened(z, c.wide) : NULL;
  char *wy =
      y->dtype == c.wide ? y->data : malloc((size_t)kd_elements(y) * size + 1);
  cpu_finish end = {wb, wz, c.wide, act};
  status = wx && ww && wy && (wb || !bias) && (wz || !z)
               ? run_conv(&c, wx, ww, wy, &end)
               : KD_OUT_OF_MEMORY;
  if (status == KD_OUT_OF_MEMORY)
    status = FAIL(status, "Conv: no memory for its columns");
  else if (wy != y->data)
    cpu_convert(wy, c.wide, y->data, y->dtype, kd_elements(y));
  drop_widened(x, wx);
  drop_widened(w, ww);
  if (bias) drop_widened(bias, wb);
  if (z) drop_widened(z, wz);
  drop_widened(y, wy);
  return status;
}

/* ---- ConvTranspose ------------------------------------------------------------- */

/* The padding that output_shape asks for, or SAME_*, whose output has stride times the input's
 * size: what is too much is cut, at the end first if SAME_UPPER (ONNX ConvTranspose-11).
 * Padding is not negative: where strides are longer than the window, zeros follow, as in ONNX
 * Runtime and TensorFlow. ONNX Runtime leaves them out where no output_shape is given. */
static void fit_output_shape(const kd_launch *launch, window *w) {
  const int64_t *shape = NULL, *extra = NULL;
  const char *mode = attr_string(launch, "auto_pad", "NOTSET");
  bool same = !strncmp(mode, "SAME", 4);
  if (attr_ints(launch, "output_shape", &shape) < 0 && !same) return;
  int64_t extras = attr_ints(launch, "output_padding", &extra);
  for (int i = 0; i < w->space; i++) {
    int64_t full = w->stride[i] * (w->in[i] - 1) + (i < extras ? extra[i] : 0) +
                   (w->kernel[i] - 1) * w->dilation[i] + 1;
    int64_t pad = full > w->out[i] ? full - w->out[i] : 0;
    bool upper = !strcmp(mode, "SAME_UPPER");
    w->begin[i] = upper ? pad / 2 : pad - pad / 2;
    w->end[i] = pad - w->begin[i];
  }
}

typedef struct transpose_work {
  const conv *c;
  const window *back; /* the output is what the windows slide over */
  const char *x, *weights;
  const float *panels; /* or the weights as such, packed */
  char *y;
  const cpu_finish *end;
  int64_t step, pieces; /* output channels of a piece, pieces of a group */
  bool shared;          /* the threads share each product */
  atomic_bool failed;
} transpose_work;

/* Output channels [from, from + n) of image `at`, by packed weights: what each input position
 * adds to them, for which there is room, then the lines that these make. */
static void transpose_packed(const transpose_work *work, int64_t at,
                             int64_t from, int64_t n, void *room) {
  const conv *c = work->c;
  const float *x = (const float *)(const void *)work->x;
  float *y = (float *)(void *)work->y;
  const cpu_gemm gemm = {.dtype = KD_F32,
                         .trans_a = true,
                         .m = c->ins,
                         .n = n * c->taps,
                         .k = c->in_c,
                         .alpha = 1,
                         .a = x + at * c->in_c * c->ins,
                         .panels = work->panels + from * c->taps * c->in_c,
                         .c = room,
                         .lda = c->ins,
                         .ldc = n * c->taps};
  cpu_transposed lines = {.w = &c->w,
                          .rows = room,
                          .step = gemm.ldc,
                          .channels = n,
                          .y = y + (at * c->out_c + from) * c->outs};
  int64_t count = cpu_transposed_lines(&lines);
  if (work->shared) {
    cpu_gemm_run(&gemm);
    cpu_host->parallel_for(cpu_host, count,
                           CPU_GRAIN * count / (n * c->outs) + 1,
                           cpu_transposed_run, &lines);
  } else {
    cpu_gemm_here(&gemm);
    cpu_transposed_run(&lines, 0, count);
  }
}

/* Channels [from, from + n) of group `at` of all images. */
static void transpose_piece(const transpose_work *work, int64_t at,
                            int64_t from, int64_t n, char *columns) {
  const conv *c = work->c;
  size_t size = kd_dtype_size(c->wide);
  int64_t g = at % c->group, plane = at * c->out_c + from;
  int64_t first = g * c->in_c * c->out_c * c->taps + from * c->taps;
  cpu_gemm gemm = {.dtype = c->wide,
                   .trans_a = true,
                   .m = n * c->taps,
                   .n = c->ins,
                   .k = c->in_c,
                   .alpha = 1,
                   .a = work->weights + (size_t)first * size,
                   .b = work->x + (size_t)(at * c->in_c * c->ins) * size,
                   .c = columns,
                   .lda = c->out_c * c->taps,
                   .ldb = c->ins,
                   .ldc = c->ins};
  char *y = work->y + (size_t)(plane * c->outs) * size;
  if (work->panels) {
    transpose_packed(work, at, from, n, columns);
  } else {
    cpu_gemm_here(&gemm);
    memset(y, 0, (size_t)(n * c->outs) * size);
    cpu_columns_add(work->back, y, n, c->wide, columns);
  }
  for (int64_t i = 0; i < n; i++)
    cpu_finish_row(work->end, g * c->out_c + from + i, work->y,
                   (plane + i) * c->outs, c->outs);
}

static void transpose_pieces(void *context, int64_t begin, int64_t end) {
  transpose_work *work = context;
  const conv *c = work->c;
  size_t bytes =
      (size_t)(work->step * c->taps * c->ins) * kd_dtype_size(c->wide);
  char *columns = malloc(bytes + 1);
  if (!columns) atomic_store(&work->failed, true);
  for (int64_t i = begin; i < end && columns; i++) {
    int64_t from = i % work->pieces * work->step;
    int64_t n = c->out_c - from < work->step ? c->out_c - from : work->step;
    transpose_piece(work, i / work->pieces, from, n, columns);
  }
  free(columns);
}

/* By output channels: a few at a time, so that their columns stay in the second cache. */
static kd_status run_transposed(const conv *c, const char *x,
                                const char *weights, const float *panels,
                                char *y, const cpu_finish *end) {
  window back = c->w;
  for (int i = 0; i < back.space; i++) {
    back.in[i] = c->w.out[i];
    back.out[i] = c->w.in[i];
  }
  transpose_work work = {
      .c = c, .back = &back, .x = x, .weights = weights, .end = end};
  work.y = y;
  work.panels = panels;
  int64_t each = c->taps * c->ins * (int64_t)kd_dtype_size(c->wide) + 1;
  int64_t threads = cpu_host->worker_count(cpu_host);
  int64_t share = (c->out_c * c->batch * c->group + threads - 1) / threads;
  work.step = TILE_BYTES / each < 8 ? 8 : TILE_BYTES / each;
  work.step = work.step < share ? work.step : share;
  if (panels) { /* which begin with every so many groups of channels */
    const int64_t group = TRANSPOSED_GROUP;
    work.step = (work.step + group - 1) / group * group;
    while (work.step * c->taps % cpu_tiles_get()->columns)
      work.step += group;
  }
  work.step = work.step < c->out_c ? work.step : c->out_c;
  work.pieces = (c->out_c + work.step - 1) / work.step;
  double flops =
      2.0 * (double)(work.step * c->taps) * (double)(c->ins * c->in_c);
  int64_t count = c->batch * c->group * work.pieces;
  work.shared = panels && count < threads;
  if (work.shared)
    transpose_pieces(&work, 0, count);
  else
    cpu_host->parallel_for(cpu_host, count, (int64_t)(2e5 / (flops + 1)) + 1,
                           transpose_pieces, &work);
  return atomic_load(&work.failed) ? KD_OUT_OF_MEMORY : KD_OK;
}

CPU_KERNEL(cpu_run_conv_transpose) {
  const kd_tensor *x = &launch->inputs[0], *w = &launch->inputs[1],
                  *y = &launch->outputs[0];
  const kd_tensor *bias = kd_has_input(launch, 2) ? &launch->inputs[2] : NULL;
  const int64_t *dims = cpu_packed_dims(self);
  cpu_gemm packed = {.panels = NULL};
  conv c = {0};
  cpu_packed_weights(self, &packed);
  if (!conv_read_conv(launch, x, dims ? dims : w->dims, y, true, &c))
    return FAIL(KD_UNIMPLEMENTED, "more than %d spatial dimensions",
                WINDOW_SPACE);
  fit_output_shape(launch, &c.w);
  if (!kd_elements(y)) return KD_OK;
  size_t size = kd_dtype_size(c.wide);
  char *wx = widened(x, c.wide), *ww = dims ? NULL : widened(w, c.wide);
  char *wb = bias ? widened(bias, c.wide) : NULL;
  char *wy =
      y->dtype == c.wide ? y->data : malloc((size_t)kd_elements(y) * size);
  cpu_finish end = {wb, NULL, c.wide, {.low = -INFINITY, .high = INFINITY}};
  kd_status status = wx && (ww || dims) && wy && (wb || !bias)
                         ? run_transposed(&c, wx, ww, packed.panels, wy, &end)
                         : KD_OUT_OF_MEMORY;
  if (status == KD_OUT_OF_MEMORY)
    status = FAIL(status, "ConvTranspose: no memory for its columns");
  else if (wy != y->data)
    cpu_convert(wy, c.wide, y->data, y->dtype, kd_elements(y));
  drop_widened(x, wx);
  if (!dims) drop_widened(w, ww);
  if (bias) drop_widened(bias, wb);
  drop_widened(y, wy);
  return status;
}
