/* int8_conv.c - convolutions of bytes, ConvInteger and QLinearConv: im2col and a product.
 *
 * Each plane of X is copied once with its padding, which is X's zero point. The last dimension
 * lies there in phases, one for each position within a stride:
 *
 *     stride 1   p p x0 x1 x2 x3 p p          stride 2   p x0 x2 p | p x1 x3 p
 *
 * A tap sees of a row of outputs one run of bytes, at the row's offset plus the tap's. So a
 * block of im2col's columns is copies of runs (columns_of): made, packed and multiplied while
 * it is in the cache, by int8_bars.c or int8.c, with the weights on the left. Windows of one
 * element read X where it lies. Groups of one channel and few filters are summed tap by tap.
 *
 * Threads share images and groups, and pieces of each product where those are few. Sums are
 * exact; QLinearConv scales them in f32 and rounds to the nearest, ties to even. */
#include <math.h>
#include <stdatomic.h>

#include "families/window.h"
#include "int8_bars.h"
#include "kernels.h"
#include "shared.h"

#define SLACK 32  /* elements that are read behind the last one */
#define RUNS  256 /* columns of a block at most */

/* Inputs of ConvInteger and QLinearConv; 0: it has none. */
typedef struct roles {
  uint32_t w, zero_x, zero_w, scale_x, scale_w, scale_y, zero_y, bias;
} roles;

static const roles integer = {.w = 1, .zero_x = 2, .zero_w = 3};
static const roles qlinear = {.w = 3,
                              .zero_x = 2,
                              .zero_w = 5,
                              .scale_x = 1,
                              .scale_w = 4,
                              .scale_y = 6,
                              .zero_y = 7,
                              .bias = 8};

static const roles *roles_of(const kd_node *node) {
  return cpu_host->node->op(node)[0] == 'Q' ? &qlinear : &integer;
}

struct kd_kernel {
  cpu_shared *shared; /* first */
  int16_t *packed;    /* widened weights, where they are constants, or: */
  cpu_int8_narrow *narrow;
  cpu_int8_bars *bars;
  int64_t dims[WINDOW_SPACE + 2];
  kd_dtype dtype;
  uint32_t rank, w; /* w: its input */
};

/* ---- geometry ---------------------------------------------------------------------- */

typedef struct conv {
  window w;                          /* at least one dimension */
  int64_t batch, group, in_c, out_c; /* channels of one group */
  int64_t taps, ins, outs;
  int64_t line; /* outputs of the last dimension */
  bool pointwise;
  /* a padded plane: steps of its dimensions, and its size; the last dimension has a piece
   * of `phase` elements for each position within a stride */
  int64_t extent[WINDOW_SPACE], step[WINDOW_SPACE], phase, plane;
  int64_t *taps_at; /* of the taps in it */
} conv;

static bool read_planes(conv *c) {
  window *w = &c->w;
  int last = w->space - 1;
  double size = 1;
  for (int i = 0; i < w->space; i++) {
    c->extent[i] = (w->out[i] - 1) * w->stride[i] +
                   (w->kernel[i] - 1) * w->dilation[i] + 1;
    size *= (double)c->extent[i] + (double)w->stride[i];
  }
  if (!(size < 1e15)) return false;
  c->phase = (c->extent[last] + w->stride[last] - 1) / w->stride[last];
  c->plane = c->phase * w->stride[last];
  c->step[last] = 1;
  for (int i = last - 1; i >= 0; i--) {
    c->step[i] = c->plane;
    c->plane *= c->extent[i];
  }
  c->taps_at = malloc((size_t)(c->taps + 1) * sizeof *c->taps_at);
  for (int64_t t = 0; c->taps_at && t < c->taps; t++) {
    int64_t rest = t / w->kernel[last];
    int64_t across = t % w->kernel[last] * w->dilation[last];
    int64_t at = across % w->stride[last] * c->phase + across / w->stride[last];
    for (int i = last - 1; i >= 0; rest /= w->kernel[i--])
      at += rest % w->kernel[i] * w->dilation[i] * c->step[i];
    c->taps_at[t] = at;
  }
  return c->taps_at != NULL;
}

static kd_status int8_conv_read_conv(const kd_launch *launch,
                                     const kd_tensor *weights, conv *c) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  window *w = &c->w;
  if (!window_read(cpu_host, launch->node, x, y, weights->dims + 2, false, w))
    return FAIL(KD_UNIMPLEMENTED, "more than %d spatial dimensions",
                WINDOW_SPACE);
  window_fold(w, CPU_NARROW);
  if (!w->space) {
    w->space = 1;
    w->kernel[0] = w->stride[0] = w->dilation[0] = w->in[0] = w->out[0] = 1;
    w->begin[0] = w->end[0] = 0;
  }
  c->group = attr_int(launch, "group", 1);
  c->batch = x->dims[0];
  c->in_c = x->dims[1] / c->group;
  c->out_c = y->dims[1] / c->group;
  c->taps = c->ins = c->outs = 1;
  c->pointwise = true;
  for (int i = 0; i < w->space; i++) {
    c->taps *= w->kernel[i];
    c->ins *= w->in[i];
    c->outs *= w->out[i];
    c->pointwise &= w->kernel[i] == 1 && w->stride[i] == 1 && !w->begin[i] &&
                    w->in[i] == w->out[i];
  }
  c->line = w->out[w->space - 1];
  return read_planes(c) ? KD_OK
                        : FAIL(KD_OUT_OF_MEMORY, "no memory for padding");
}

/* Where output position `at` begins in a padded plane. */
static int64_t base_of(const conv *c, int64_t at) {
  const window *w = &c->w;
  int64_t base = at % c->line;
  at /= c->line;
  for (int i = w->space - 2; i >= 0; at /= w->out[i--])
    base += at % w->out[i] * w->stride[i] * c->step[i];
  return base;
}

/* ---- padded planes -------------------------------------------------------------------- */

/* One row of a plane; `from`: NULL where all of it is padding. */
static void pad_row(const conv *c, const uint8_t *from, uint8_t with,
                    uint8_t *to) {
  int last = c->w.space - 1;
  int64_t stride = c->w.stride[last], begin = c->w.begin[last];
  int64_t end = begin + c->w.in[last], size = c->phase * stride;
  if (!from || begin > 0 || end < size) memset(to, with, (size_t)size);
  if (!from) return;
  for (int64_t s = 0; s < stride; s++, to += c->phase) {
    int64_t low = begin > s ? (begin - s + stride - 1) / stride : 0;
    int64_t high = end > s ? (end - s + stride - 1) / stride : 0;
    if (high > c->phase) high = c->phase;
    const uint8_t *source = from + s - begin;
    if (stride == 1 && high > low)
      memcpy(to + low, source + low, (size_t)(high - low));
    else if (stride == 2)
      for (int64_t i = low; i < high; i++)
        to[i] = source[2 * i];
    else
      for (int64_t i = low; i < high; i++)
        to[i] = source[i * stride];
  }
}

static void pad_plane(const conv *c, const uint8_t *from, uint8_t with,
                      uint8_t *to) {
  const window *w = &c->w;
  int last = w->space - 1;
  int64_t width = c->phase * w->stride[last];
  for (int64_t row = 0; row < c->plane / width; row++, to += width) {
    int64_t rest = row, at = 0, step = w->in[last];
    bool inside = true;
    for (int i = last - 1; i >= 0; rest /= c->extent[i--]) {
      int64_t p = rest % c->extent[i] - w->begin[i];
      inside &= p >= 0 && p < w->in[i];
      at += p * step;
      step *= w->in[i];
    }
    pad_row(c, inside ? from + at : NULL, with, to);
  }
}

/* ---- running ---------------------------------------------------------------------------- */

typedef struct conv_work {
  conv c;
  cpu_int8_product product;  /* of one image and group */
  const cpu_int8_bars *bars; /* or NULL */
  cpu_int8_cut cut;
  const uint8_t *x;
  uint8_t *padded; /* all planes of x, unless pointwise */
  void *y;
  /* of a quantised result, else scales is NULL */
  float *scales;
  bool finite;         /* all of them */
  const int32_t *bias; /* or NULL */
  int zero_y;
  bool is_signed;
  uint8_t padding;
  atomic_bool failed;
} conv_work;

typedef struct conv_job {
  const conv_work *work;
  int64_t at; /* image and group */
} conv_job;

/* `n` sums of one output channel, from position `from` on. */
static void int8_conv_give(const conv_work *work, int64_t at, int64_t row,
                           int64_t from, int64_t n, const int32_t *sums) {
  const conv *c = &work->c;
  int64_t channel = at % c->group * c->out_c + row;
  int64_t to = (at * c->out_c + row) * c->outs + from;
  if (!work->scales)
    memcpy((int32_t *)work->y + to, sums, (size_t)n * sizeof *sums);
  else
    cpu_int8_get()->requantise(sums, n, &work->scales[channel], 0,
                               work->bias ? work->bias[channel] : 0,
                               work->zero_y, work->is_signed,
                               (uint8_t *)work->y + to);
}

static void give_row(const void *context, int64_t row, int64_t column,
                     int64_t n, const int32_t *sums) {
  const conv_job *job = context;
  int8_conv_give(job->work, job->at, row, column, n, sums);
}

static void copy_run(const uint8_t *from, int64_t n, uint8_t *to) {
  for (int64_t i = 0; i < n; i += 16) /* the next run overwrites the rest */
    memcpy(to + i, from + i, 16);
}

/* Columns of a block: a row for each channel and tap. */
static const uint8_t *columns_of(const void *context, int64_t row, int64_t rows,
                                 int64_t column, int64_t n, uint8_t *room,
                                 int64_t *out_step) {
  const conv_job *job = context;
  const conv *c = &job->work->c;
  int64_t base[RUNS], count[RUNS], runs = 0;
  for (int64_t at = column; at < column + n; at += count[runs++]) {
    int64_t rest = c->line - at % c->line, left = column + n - at;
    base[runs] = base_of(c, at);
    count[runs] = rest < left ? rest : left;
  }
  uint8_t *to = room;
  const uint8_t *planes = job->work->padded + job->at * c->in_c * c->plane;
  for (int64_t i = row; i < row + rows; i++) {
    const uint8_t *from = planes + i / c->taps * c->plane;
    from += c->taps_at[i % c->taps];
    for (int64_t r = 0; r < runs; to += count[r++])
      copy_run(from + base[r], count[r], to);
  }
  *out_step = n;
  return room;
}

/* Where the results of a job go, or false: sums are given. */
static bool rounding_of(const conv_work *work, int64_t at,
                        cpu_int8_rounding *out) {
  const conv *c = &work->c;
  int64_t channel = at % c->group * c->out_c;
  if (!work->finite) return false;
  *out = (cpu_int8_rounding){.scales = work->scales + channel,
                             .bias = work->bias ? work->bias + channel : NULL,
                             .zero = work->zero_y,
                             .is_signed = work->is_signed,
                             .to = (uint8_t *)work->y + at * c->out_c * c->outs,
                             .step = c->outs};
  return true;
}

static bool run_piece(const conv_work *work, const conv_job *job,
                      const cpu_int8_product *p, int64_t piece) {
  cpu_int8_rounding rounding;
  if (!work->bars) return cpu_int8_piece(p, &work->cut, piece);
  bool rounds = rounding_of(work, job->at, &rounding);
  return cpu_int8_bars_piece(p, work->bars, rounds ? &rounding : NULL,
                             &work->cut, piece);
}

static void conv_jobs(void *context, int64_t begin, int64_t end) {
  conv_work *work = context;
  const conv *c = &work->c;
  int64_t pieces = work->cut.row_pieces * work->cut.column_pieces;
  for (int64_t i = begin; i < end; i++) {
    conv_job job = {work, i / pieces};
    cpu_int8_product p = work->product;
    p.context = &job;
    p.first_row = job.at % c->group * c->out_c;
    if (p.ready_a) p.ready_a += p.first_row * cpu_int8_lead(p.k);
    p.b.data = work->x + job.at * c->in_c * c->ins;
    if (!run_piece(work, &job, &p, i % pieces))
      atomic_store(&work->failed, true);
  }
}

static void pad_planes(void *context, int64_t begin, int64_t end) {
  conv_work *work = context;
  const conv *c = &work->c;
  for (int64_t i = begin; i < end; i++)
    pad_plane(c, work->x + i * c->ins, work->padding,
              work->padded + i * c->plane);
}

/* By a product for each image and group. */
static void run_product(conv_work *work) {
  const conv *c = &work->c;
  cpu_int8_product *p = &work->product;
  int64_t planes = c->batch * c->group * c->in_c, jobs = c->batch * c->group;
  if (!c->pointwise) {
    work->padded = malloc((size_t)(planes * c->plane + SLACK));
    if (!work->padded) {
      atomic_store(&work->failed, true);
      return;
    }
    cpu_host->parallel_for(cpu_host, planes, 4 * CPU_GRAIN / (c->plane + 1) + 1,
                           pad_planes, work);
    p->columns = columns_of;
  }
  work->cut = cpu_int8_cut_of(p->m, p->n, p->k, jobs);
  int64_t pieces = work->cut.row_pieces * work->cut.column_pieces;
  double each = (double)p->m * (double)p->n * (double)(p->k + 1);
  cpu_host->parallel_for(cpu_host, jobs * pieces,
                         pieces > 1 ? 1 : (int64_t)(CPU_INT8_LITTLE / each) + 1,
                         conv_jobs, work);
  free(work->padded);
}

/* ---- a channel each ------------------------------------------------------------------------ */

#define ROOM 1024 /* sums that are given at once, at least; but the last ones */

/* Convolutions that have few channels in each group. */
static bool by_channels(int64_t in_c, int64_t out_c) {
  return in_c == 1 && out_c <= 4;
}

/* An output channel that sees one channel of the input: sums over taps, by rows. */
static void channel_rows(const conv_work *work, int64_t at, int64_t o,
                         const int16_t *plane, int32_t *sums) {
  const conv *c = &work->c;
  const int16_t *w = work->product.ready_a +
                     (at % c->group * c->out_c + o) * cpu_int8_lead(c->taps);
  /* rows that lie evenly, and as many of them as there is room for */
  bool flat = c->w.space > 1;
  int last = c->w.space - 2;
  int64_t even = flat ? c->w.out[last] : 1;
  int64_t step = flat ? c->w.stride[last] * c->step[last] : 0;
  int64_t most = ROOM / c->line ? ROOM / c->line : 1;
  for (int64_t row = 0, rows; row < c->outs / c->line; row += rows) {
    int64_t to = row * c->line, left = even - row % even;
    rows = left < most ? left : most;
    cpu_int8_get()->taps(plane + base_of(c, to), rows, step, c->line,
                         c->taps_at, w, c->taps, sums);
    int8_conv_give(work, at, o, to, rows * c->line, sums);
  }
}

/* A plane less its zero point; padding is 0 there already. */
static void widen_plane(const conv_work *work, int64_t at, int16_t *to) {
  const conv *c = &work->c;
  const window *w = &c->w;
  const cpu_int8_product *p = &work->product;
  int last = w->space - 1;
  const uint8_t *from = work->x + at * c->ins;
  int64_t stride = w->stride[last], begin = w->begin[last], size = w->in[last];
  int64_t rows = last ? w->in[last - 1] : 1,
          step = last ? c->step[last - 1] : 0;
  if (!c->ins) return; /* windows see padding alone */
  for (int64_t outer = 0; outer < c->ins / (rows * size); outer++) {
    int64_t rest = outer, base = 0, first = 0, count = rows;
    bool inside = true;
    for (int i = last - 2; i >= 0; rest /= w->in[i--]) {
      int64_t p_i = rest % w->in[i] + w->begin[i];
      inside &= p_i >= 0 && p_i < c->extent[i];
      base += p_i * c->step[i];
    }
    /* rows that no output sees */
    if (last) {
      if (w->begin[last - 1] < 0) first = -w->begin[last - 1];
      if (count > c->extent[last - 1] - w->begin[last - 1])
        count = c->extent[last - 1] - w->begin[last - 1];
      base += (first + w->begin[last - 1]) * step;
    }
    for (int64_t s = 0; s < stride && inside && count > first; s++) {
      int64_t low = begin > s ? (begin - s + stride - 1) / stride : 0;
      int64_t end = begin + size;
      int64_t high = end > s ? (end - s + stride - 1) / stride : 0;
      if (high > c->phase) high = c->phase;
      if (high <= low) continue;
      cpu_int8_get()->widen_rows(
          from + (outer * rows + first) * size + low * stride + s - begin,
          count - first, high - low, size, stride, p->b.flip, *p->b.zeros,
          to + base + s * c->phase + low, step);
    }
  }
}

static void channel_jobs(void *context, int64_t begin, int64_t end) {
  conv_work *work = context;
  const conv *c = &work->c;
  size_t plane = (size_t)(c->plane + SLACK);
  size_t line = (size_t)(ROOM + c->line + SLACK);
  int16_t *wide = calloc(plane, sizeof *wide);
  int32_t *sums = malloc(line * sizeof *sums);
  if (!wide || !sums) {
    atomic_store(&work->failed, true);
    end = begin;
  }
  for (int64_t i = begin; i < end; i++) {
    widen_plane(work, i, wide);
    for (int64_t o = 0; o < c->out_c; o++)
      channel_rows(work, i, o, wide, sums);
  }
  free(wide);
  free(sums);
}

static void run_channels(conv_work *work) {
  const conv *c = &work->c;
  int64_t each = c->outs * c->taps * c->out_c / 8 + c->plane;
  cpu_host->parallel_for(cpu_host, c->batch * c->group,
                         CPU_GRAIN / (each + 1) + 1, channel_jobs, work);
}

/* ---- the ops --------------------------------------------------------------------------------- */

static kd_status read_scales(const kd_launch *launch, conv_work *work) {
  const kd_tensor *in = launch->inputs, *scale_w = &in[qlinear.scale_w];
  int64_t channels = launch->outputs[0].dims[1];
  if (kd_elements(&in[qlinear.scale_x]) != 1 ||
      kd_elements(&in[qlinear.scale_y]) != 1 ||
      (kd_elements(scale_w) != 1 && kd_elements(scale_w) != channels))
    return FAIL(KD_INVALID_ARGUMENT, "scales do not fit the tensors");
  work->scales = malloc((size_t)(channels + 1) * sizeof *work->scales);
  if (!work->scales) return FAIL(KD_OUT_OF_MEMORY, "no memory for scales");
  double x = (double)*(const float *)in[qlinear.scale_x].data;
  double y = (double)*(const float *)in[qlinear.scale_y].data;
  const float *w = scale_w->data;
  work->finite = true;
  for (int64_t i = 0; i < channels; i++) {
    work->scales[i] =
        (float)(x * (double)w[kd_elements(scale_w) > 1 ? i : 0] / y);
    work->finite &= isfinite(work->scales[i]) != 0;
  }
  if (kd_has_input(launch, qlinear.bias)) work->bias = in[qlinear.bias].data;
  const kd_tensor *zero = &in[qlinear.zero_y];
  if (kd_has_input(launch, qlinear.zero_y))
    work->zero_y = (int)cpu_get(zero->data, zero->dtype, 0);
  work->is_signed = launch->outputs[0].dtype == KD_I8;
  return KD_OK;
}

static const kd_tensor *given(const kd_launch *launch, uint32_t input) {
  return kd_has_input(launch, input) ? &launch->inputs[input] : NULL;
}

/* The weights as rows of 16 bits: the kernel's, or made here. */
static kd_status ready_weights(const kd_kernel *self, const kd_launch *launch,
                               const roles *at, const kd_tensor *w,
                               conv_work *work, int16_t **out_made) {
  cpu_int8_product *p = &work->product;
  int64_t count = 1, channels = launch->outputs[0].dims[1];
  const kd_tensor *zero = given(launch, at->zero_w);
  if (zero && kd_elements(zero) != 1 && kd_elements(zero) != channels)
    return FAIL(KD_INVALID_ARGUMENT,
                "a zero point of W is needed for each of %lld channels",
                (long long)channels);
  p->ready_a = self ? self->packed : NULL;
  p->narrow_a = self ? self->narrow : NULL;
  work->bars = self ? self->bars : NULL;
  if (p->ready_a || p->narrow_a || work->bars) return KD_OK;
  int *zeros = cpu_int8_zeros(zero, w->dtype, &count);
  cpu_int8_bytes bytes = {.data = w->data,
                          .flip = cpu_int8_flip(w->dtype),
                          .step = p->k,
                          .zeros = zeros,
                          .zero_count = count};
  if (zeros) *out_made = cpu_int8_widen_a(&bytes, channels, p->k);
  p->ready_a = *out_made;
  free(zeros);
  return *out_made ? KD_OK : FAIL(KD_OUT_OF_MEMORY, "no memory for weights");
}

static kd_status int8_conv_run_all(conv_work *work, const kd_launch *launch,
                                   const roles *at) {
  conv *c = &work->c;
  cpu_int8_product *p = &work->product;
  const kd_tensor *x = &launch->inputs[0], *zero = given(launch, at->zero_x);
  if (zero && kd_elements(zero) != 1)
    return FAIL(KD_INVALID_ARGUMENT, "X has one zero point");
  int zero_x = zero ? (int)cpu_get(zero->data, zero->dtype, 0) : 0;
  const int flipped = zero_x + cpu_int8_flip(x->dtype);
  work->padding = (uint8_t)zero_x;
  work->x = x->data;
  work->y = launch->outputs[0].data;
  p->b = (cpu_int8_bytes){.flip = cpu_int8_flip(x->dtype),
                          .step = c->outs,
                          .zeros = &flipped,
                          .zero_count = 1};
  p->m = c->out_c;
  p->n = c->outs;
  p->give = give_row;
  if (by_channels(c->in_c, c->out_c))
    run_channels(work);
  else
    run_product(work);
  return work->failed ? FAIL(KD_OUT_OF_MEMORY, "no memory for a convolution")
                      : KD_OK;
}

static kd_status run_conv(const kd_kernel *self, const kd_launch *launch,
                          const roles *at) {
  kd_tensor w = launch->inputs[at->w];
  conv_work work = {.zero_y = 0};
  int16_t *made = NULL;
  if (self && (self->packed || self->narrow || self->bars)) {
    w.dims = self->dims;
    w.rank = self->rank;
    w.dtype = self->dtype;
  }
  if (!kd_elements(&launch->outputs[0])) return KD_OK;
  kd_status status = int8_conv_read_conv(launch, &w, &work.c);
  work.product.k = work.c.in_c * work.c.taps;
  if (status == KD_OK && at == &qlinear) status = read_scales(launch, &work);
  if (status == KD_OK)
    status = ready_weights(self, launch, at, &w, &work, &made);
  if (status == KD_OK) status = int8_conv_run_all(&work, launch, at);
  free(work.c.taps_at);
  free(work.scales);
  free(made);
  return status;
}

CPU_KERNEL(cpu_run_conv_integer) {
  return run_conv(self, launch, &integer);
}

CPU_KERNEL(cpu_run_qlinear_conv) {
  return run_conv(self, launch, &qlinear);
}

/* ---- kernels -------------------------------------------------------------------------------- */

static void int8_conv_free(kd_kernel *kernel) {
  cpu_int8_narrow_drop(kernel->narrow);
  cpu_int8_bars_drop(kernel->bars);
  free(kernel->packed);
  free(kernel);
}

/* Without memory, weights are widened again and again. */
static void int8_conv_make(const kd_node *node, kd_kernel *kernel) {
  const roles *at = roles_of(node);
  int64_t group = cpu_host->node->attr_int(node, "group", 1);
  kd_tensor w, zero;
  if (!cpu_int8_constant(node, at->w, at->zero_w, &w, &zero) || w.rank < 2 ||
      w.rank > WINDOW_SPACE + 2 || !cpu_int8_zeros_fit(&zero, w.dims[0]))
    return;
  int64_t k = kd_elements(&w) / w.dims[0];
  cpu_int8_bytes bytes = {
      .data = w.data, .flip = cpu_int8_flip(w.dtype), .step = k};
  int *zeros = cpu_int8_zeros(&zero, w.dtype, &bytes.zero_count);
  bytes.zeros = zeros;
  kernel->w = at->w;
  kernel->rank = w.rank;
  kernel->dtype = w.dtype;
  memcpy(kernel->dims, w.dims, w.rank * sizeof *w.dims);
  if (zeros && group > 0 && !by_channels(w.dims[1], w.dims[0] / group)) {
    kernel->bars = cpu_int8_bars_make(&bytes, w.dims[0], group, k);
    if (!kernel->bars)
      kernel->narrow = cpu_int8_narrow_make(&bytes, true, w.dims[0], k);
  }
  if (zeros && !kernel->narrow && !kernel->bars)
    kernel->packed = cpu_int8_widen_a(&bytes, w.dims[0], k);
  free(zeros);
}

CPU_CREATE(int8_conv) {
  static const cpu_kernel_kind kind = {sizeof(kd_kernel), int8_conv_make,
                                       int8_conv_free};
  const kd_node_table *read = cpu_host->node;
  const roles *at = roles_of(node);
  kd_type zero;
  cpu_share_key key = {cpu_constant_id(node, at->w),
                       "int8 convolution",
                       {cpu_constant_id(node, at->zero_w), at == &qlinear,
                        read->input_type(node, at->zero_w, &zero) == KD_OK,
                        read->attr_int(node, "group", 1)}};
  return cpu_share_kernel(&key, &kind, node, out_kernel);
}

/* The weights, which are widened. */
uint64_t cpu_taken_int8_conv(kd_kernel *kernel) {
  return kernel->packed || kernel->narrow || kernel->bars
             ? UINT64_C(1) << kernel->w
             : 0;
}
