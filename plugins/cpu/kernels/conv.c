/* conv.c - convolutions of any rank, type and group: im2col and a product.
 *
 * The way that always works; blocked.c has a faster one for f32. Other float types
 * are computed in f32 (f16, bf16) or their own (f64). */
#include "families/window.h"
#include "kernels.h"

/* ---- im2col ------------------------------------------------------------------ */

/* Copies what each output position sees of one group's channels into columns:
 * rows are (channel, window position), columns output positions. */
static void im2col(const window *w, const char *x, int64_t channels,
                   size_t size, char *columns, bool scatter) {
  int64_t taps = 1, outs = 1, ins = 1;
  for (int i = 0; i < w->space; i++) {
    taps *= w->kernel[i];
    outs *= w->out[i];
    ins *= w->in[i];
  }
  for (int64_t row = 0; row < channels * taps; row++) {
    int64_t tap = row % taps, at[WINDOW_SPACE], k[WINDOW_SPACE];
    const char *plane = x + (size_t)(row / taps * ins) * size;
    for (int i = w->space - 1; i >= 0; tap /= w->kernel[i--])
      k[i] = tap % w->kernel[i];
    for (int i = 0; i < w->space; i++)
      at[i] = 0;
    for (int64_t o = 0; o < outs; o++) {
      int64_t from = 0;
      bool inside = true;
      for (int i = 0; i < w->space; i++) {
        int64_t p = at[i] * w->stride[i] - w->begin[i] + k[i] * w->dilation[i];
        inside &= p >= 0 && p < w->in[i];
        from = from * w->in[i] + p;
      }
      char *to = columns + (size_t)(row * outs + o) * size;
      if (scatter) { /* the way back: columns are added to the input */
        if (inside && size == 4)
          ((float *)(void *)(uintptr_t)plane)[from] += *(float *)(void *)to;
        else if (inside)
          ((double *)(void *)(uintptr_t)plane)[from] += *(double *)(void *)to;
      } else if (inside) {
        memcpy(to, plane + from * (int64_t)size, size);
      } else {
        memset(to, 0, size);
      }
      for (int i = w->space; i-- > 0;) {
        if (++at[i] < w->out[i]) break;
        at[i] = 0;
      }
    }
  }
}

/* ---- sizes -------------------------------------------------------------------- */

typedef struct conv {
  window w;
  int64_t batch, group, in_c, out_c; /* channels of one group */
  int64_t taps, ins, outs;
  kd_dtype wide; /* that it is computed in */
} conv;

static bool read_conv(const kd_launch *launch, const kd_tensor *x,
                      const kd_tensor *weights, const kd_tensor *y,
                      bool transposed, conv *c) {
  if (!window_read(cpu_host, launch->node, x, y, weights->dims + 2, transposed,
                   &c->w))
    return false;
  c->group = attr_int(launch, "group", 1);
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

static void add_bias(const kd_launch *launch, const conv *c, uint32_t input,
                     void *y) {
  if (!kd_has_input(launch, input)) return;
  const kd_tensor *bias = &launch->inputs[input];
  int64_t channels = c->out_c * c->group;
  for (int64_t i = 0; i < c->batch * channels; i++) {
    double value = cpu_get(bias->data, bias->dtype, i % channels);
    char *plane = (char *)y + (size_t)(i * c->outs) * kd_dtype_size(c->wide);
    for (int64_t k = 0; k < c->outs; k++)
      if (c->wide == KD_F32)
        ((float *)(void *)plane)[k] += (float)value;
      else
        ((double *)(void *)plane)[k] += value;
  }
}

#define FINISH(type, least, most)                                           \
  do {                                                                      \
    type *to = y;                                                           \
    for (int64_t i = 0; i < n; i++) {                                       \
      type value = z ? to[i] + (type)cpu_get(z->data, z->dtype, i) : to[i]; \
      value = value < (type)(least) ? (type)(least) : value;                \
      to[i] = value > (type)(most) ? (type)(most) : value;                  \
    }                                                                       \
  } while (0)

/* keel::FusedConv: an addition and an activation behind the convolution. */
static kd_status finish_fused(const kd_launch *launch, const conv *c, void *y) {
  cpu_activation act;
  kd_status status = cpu_read_activation(launch->node, &act);
  if (status != KD_OK) return status;
  int64_t n = c->batch * c->out_c * c->group * c->outs;
  const kd_tensor *z = kd_has_input(launch, 3) ? &launch->inputs[3] : NULL;
  if (c->wide == KD_F32)
    FINISH(float, act.low, act.high);
  else
    FINISH(double, act.low, act.high);
  return KD_OK;
}

kd_status cpu_read_activation(const kd_node *node, cpu_activation *out) {
  const kd_node_table *read = cpu_host->node;
  const char *name = read->attr_string(node, "activation", "none");
  bool relu = !strcmp(name, "Relu"), clip = !strcmp(name, "Clip");
  *out = (cpu_activation){.relu = relu, .clip = clip};
  out->low = clip   ? read->attr_float(node, "low", -INFINITY)
             : relu ? 0
                    : -INFINITY;
  out->high = clip ? read->attr_float(node, "high", INFINITY) : INFINITY;
  return relu || clip || !strcmp(name, "none")
             ? KD_OK
             : FAIL(KD_UNIMPLEMENTED,
                    "activation is \"%s\"; it is none, Relu or Clip", name);
}

/* ---- Conv ---------------------------------------------------------------------- */

static void conv_group(const conv *c, const char *x, const char *weights,
                       void *y, char *columns) {
  size_t size = kd_dtype_size(c->wide);
  bool pointwise = c->taps == 1 && c->ins == c->outs;
  for (int i = 0; i < c->w.space; i++)
    pointwise &= c->w.stride[i] == 1 && c->w.begin[i] == 0 && c->w.end[i] == 0;
  if (!pointwise) im2col(&c->w, x, c->in_c, size, columns, false);
  cpu_gemm gemm = {.dtype = c->wide,
                   .m = c->out_c,
                   .n = c->outs,
                   .k = c->in_c * c->taps,
                   .alpha = 1,
                   .a = weights,
                   .b = pointwise ? x : columns,
                   .c = y,
                   .lda = c->in_c * c->taps,
                   .ldb = c->outs,
                   .ldc = c->outs};
  cpu_gemm_run(&gemm);
}

CPU_KERNEL(cpu_run_conv) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *w = &launch->inputs[1],
                  *y = &launch->outputs[0];
  conv c = {0};
  if (!read_conv(launch, x, w, y, false, &c))
    return FAIL(KD_UNIMPLEMENTED, "more than %d spatial dimensions",
                WINDOW_SPACE);
  if (!kd_elements(y)) return KD_OK;
  size_t size = kd_dtype_size(c.wide);
  char *wx = widened(x, c.wide), *ww = widened(w, c.wide);
  char *wy =
      y->dtype == c.wide ? y->data : malloc((size_t)kd_elements(y) * size + 1);
  char *columns = malloc((size_t)(c.in_c * c.taps * c.outs) * size + 1);
  kd_status status = KD_OK;
  if (!wx || !ww || !wy || !columns) {
    status = FAIL(KD_OUT_OF_MEMORY, "Conv: no memory for its columns");
  } else {
    for (int64_t n = 0; n < c.batch; n++)
      for (int64_t g = 0; g < c.group; g++) {
        int64_t at = n * c.group + g;
        conv_group(&c, wx + (size_t)(at * c.in_c * c.ins) * size,
                   ww + (size_t)(g * c.out_c * c.in_c * c.taps) * size,
                   wy + (size_t)(at * c.out_c * c.outs) * size, columns);
      }
    add_bias(launch, &c, 2, wy);
    if (launch->data) status = finish_fused(launch, &c, wy);
    if (wy != y->data)
      cpu_convert(wy, c.wide, y->data, y->dtype, kd_elements(y));
  }
  drop_widened(x, wx);
  drop_widened(w, ww);
  drop_widened(y, wy);
  free(columns);
  return status;
}

/* ---- ConvTranspose ------------------------------------------------------------- */

/* The padding that output_shape asks for: what is too much is cut, at the end
 * first unless SAME_LOWER (ONNX ConvTranspose-11). */
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

static void transpose_group(const conv *c, const char *x, const char *weights,
                            char *y, char *columns) {
  size_t size = kd_dtype_size(c->wide);
  cpu_gemm gemm = {.dtype = c->wide,
                   .trans_a = true,
                   .m = c->out_c * c->taps,
                   .n = c->ins,
                   .k = c->in_c,
                   .alpha = 1,
                   .a = weights,
                   .b = x,
                   .c = columns,
                   .lda = c->out_c * c->taps,
                   .ldb = c->ins,
                   .ldc = c->ins};
  window back = c->w; /* the output is what the windows slide over */
  for (int i = 0; i < back.space; i++) {
    back.in[i] = c->w.out[i];
    back.out[i] = c->w.in[i];
  }
  cpu_gemm_run(&gemm);
  im2col(&back, y, c->out_c, size, columns, true);
}

CPU_KERNEL(cpu_run_conv_transpose) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *w = &launch->inputs[1],
                  *y = &launch->outputs[0];
  conv c = {0};
  if (!read_conv(launch, x, w, y, true, &c))
    return FAIL(KD_UNIMPLEMENTED, "more than %d spatial dimensions",
                WINDOW_SPACE);
  fit_output_shape(launch, &c.w);
  if (!kd_elements(y)) return KD_OK;
  size_t size = kd_dtype_size(c.wide),
         out_bytes = (size_t)kd_elements(y) * size;
  char *wx = widened(x, c.wide), *ww = widened(w, c.wide);
  char *wy = y->dtype == c.wide ? y->data : malloc(out_bytes);
  char *columns = malloc((size_t)(c.out_c * c.taps * c.ins) * size + 1);
  kd_status status = KD_OK;
  if (!wx || !ww || !wy || !columns) {
    status = FAIL(KD_OUT_OF_MEMORY, "ConvTranspose: no memory for its columns");
  } else {
    memset(wy, 0, out_bytes);
    for (int64_t n = 0; n < c.batch; n++)
      for (int64_t g = 0; g < c.group; g++) {
        int64_t at = n * c.group + g;
        transpose_group(&c, wx + (size_t)(at * c.in_c * c.ins) * size,
                        ww + (size_t)(g * c.in_c * c.out_c * c.taps) * size,
                        wy + (size_t)(at * c.out_c * c.outs) * size, columns);
      }
    add_bias(launch, &c, 2, wy);
    if (wy != y->data)
      cpu_convert(wy, c.wide, y->data, y->dtype, kd_elements(y));
  }
  drop_widened(x, wx);
  drop_widened(w, ww);
  drop_widened(y, wy);
  free(columns);
  return status;
}
