/* convolution.c - convolutions by cuDNN, with the bias, the sum and the ReLU behind them.
 *
 * Its padding is the same on both sides. Where that does not fit, the input is written once
 * more, with its padding, into the scratch memory behind the library's. */
#include <limits.h>
#include <string.h>

#include "cudev.h"
#include "pad.h"

#define WORKSPACE_MOST ((size_t)256 << 20) /* of the library; and of padding */
#define GROUPS_MOST    65535

/* A copy of the input with zeros around its planes. */
typedef struct padding {
  cu_function pad; /* NULL: there is none */
  size_t at;       /* in the scratch memory */
  long long count; /* elements */
  long long step;  /* items: each writes every step-th element */
  int to[3], from[3], begin[3];
} padding;

typedef struct convolution {
  cuda_call call; /* first */
  dnn_handle handle;
  dnn_tensor x, y, bias; /* of y is what is added, too */
  dnn_filter filter;
  dnn_conv conv;
  dnn_activation activation;
  int algo;
  bool fused;
  padding padding;
  size_t workspace; /* of the library */
  union scale {
    float f32;
    double f64;
  } one, none;
  uint32_t at_x, at_filter, at_bias, at_added, at_y; /* buffers of the pass */
} convolution;

/* It has no such kernel, which is known when it is called only: 9.x, and 8.x. */
static bool is_refusal(int status) {
  return dnn.version >= 90000 ? status / 1000 == 3 : status == 9;
}

static kd_status pad_input(kd_device *d, const cuda_lane *lane,
                           const convolution *c, cu_pointer *x) {
  const padding *p = &c->padding;
  cu_pointer to = lane->scratch.memory + p->at;
  const int *n = p->from, *at = p->begin;
  void *arguments[] = {x,
                       &to,
                       (void *)&p->count,
                       (void *)&p->step,
                       (void *)&p->to[0],
                       (void *)&p->to[1],
                       (void *)&p->to[2],
                       (void *)&n[0],
                       (void *)&n[1],
                       (void *)&n[2],
                       (void *)&at[0],
                       (void *)&at[1],
                       (void *)&at[2]};
  CU_TRY(
      d, "cuLaunchKernel",
      cu.LaunchKernel(p->pad, (unsigned)(p->step / CUDA_PAD_GROUP), 1, 1,
                      CUDA_PAD_GROUP, 1, 1, 0, lane->queue, arguments, NULL));
  *x = to;
  return KD_OK;
}

static int call_library(const convolution *c, const cuda_lane *lane,
                        const fam_command *m, cu_pointer input) {
  const void *x = (const void *)(uintptr_t)input;
  const void *w = (const void *)(uintptr_t)cuda_place_of(m, c->at_filter);
  const void *bias = (const void *)(uintptr_t)cuda_place_of(m, c->at_bias);
  const void *added = (const void *)(uintptr_t)cuda_place_of(m, c->at_added);
  void *y = (void *)(uintptr_t)cuda_place_of(m, c->at_y);
  void *scratch = (void *)(uintptr_t)lane->scratch.memory;
  int status = dnn.SetStream(c->handle, lane->queue);
  if (status != 0) return status;
  if (!c->fused)
    return dnn.ConvolutionForward(c->handle, &c->one, c->x, x, c->filter, w,
                                  c->conv, c->algo, scratch, c->workspace,
                                  &c->none, c->y, y);
  return dnn.ConvolutionBiasActivationForward(
      c->handle, &c->one, c->x, x, c->filter, w, c->conv, c->algo, scratch,
      c->workspace, added ? &c->one : &c->none, c->y, added ? added : y,
      c->bias, bias, c->activation, c->y, y);
}

/* With the lock held. */
static kd_status convolution_enqueue(kd_device *d, cuda_lane *lane,
                                     cuda_call *call, const fam_command *m) {
  convolution *c = (convolution *)call;
  cu_pointer x = cuda_place_of(m, c->at_x);
  if (c->padding.pad) {
    kd_status padded = pad_input(d, lane, c, &x);
    if (padded != KD_OK) return padded;
  }
  cuda_dnn_lock(d);
  int status = call_library(c, lane, m, x);
  cuda_dnn_unlock(d);
  if (status == 0) return KD_OK;
  if (is_refusal(status)) {
    c->call.off = true;
    return KD_UNIMPLEMENTED;
  }
  cu_result code = cu.StreamQuery(lane->queue);
  if (code != CU_OK && code != CU_NOT_READY)
    return cuda_failed(d, code, "cudnnConvolutionForward");
  return FAIL(KD_INTERNAL, "cudnnConvolutionForward: %s",
              dnn.GetErrorString(status));
}

static void convolution_destroy(cuda_call *call) {
  convolution *c = (convolution *)call;
  if (c->x) dnn.DestroyTensorDescriptor(c->x);
  if (c->y) dnn.DestroyTensorDescriptor(c->y);
  if (c->bias) dnn.DestroyTensorDescriptor(c->bias);
  if (c->filter) dnn.DestroyFilterDescriptor(c->filter);
  if (c->conv) dnn.DestroyConvolutionDescriptor(c->conv);
  if (c->activation) dnn.DestroyActivationDescriptor(c->activation);
  pthread_mutex_destroy(&c->call.lock);
  cuda_host->release(cuda_host, c);
}

/* ---- what it can do -------------------------------------------------------------------- */

/* Sizes as cuDNN counts, which wants two dimensions at the least: one of 1 comes before a
 * single one. */
typedef struct geometry {
  int space;
  int in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
} geometry;

static bool convolution_fits(int64_t value) {
  return value > 0 && value <= INT_MAX;
}

/* What is missing of the padding on the far side must be what no window reaches. */
static bool is_even(const window *w, int i, int64_t span) {
  return w->begin[i] >= 0 && w->begin[i] <= INT_MAX / 2 &&
         w->in[i] + 2 * w->begin[i] >= span &&
         (w->in[i] + 2 * w->begin[i] - span) / w->stride[i] + 1 == w->out[i];
}

/* The input's sizes are those with its padding where *out_even is false. */
static bool convolution_measure(const window *w, geometry *g, bool *out_even) {
  int skip = w->space == 1;
  if (w->space < 1 || w->space > 3) return false;
  *g = (geometry){.space = w->space + skip,
                  .in = {1},
                  .out = {1},
                  .kernel = {1},
                  .stride = {1},
                  .dilation = {1}};
  *out_even = true;
  for (int i = 0; i < w->space; i++) {
    if (!convolution_fits(w->in[i]) || !convolution_fits(w->out[i]) ||
        !convolution_fits(w->kernel[i]) || !convolution_fits(w->stride[i]) ||
        !convolution_fits(w->dilation[i]))
      return false;
    *out_even &= is_even(w, i, (w->kernel[i] - 1) * w->dilation[i] + 1);
  }
  for (int i = 0; i < w->space; i++) {
    int64_t reached = (w->out[i] - 1) * w->stride[i] +
                      (w->kernel[i] - 1) * w->dilation[i] + 1;
    if (!*out_even && !convolution_fits(reached)) return false;
    g->in[i + skip] = (int)(*out_even ? w->in[i] : reached);
    g->out[i + skip] = (int)w->out[i];
    g->kernel[i + skip] = (int)w->kernel[i];
    g->stride[i + skip] = (int)w->stride[i];
    g->dilation[i + skip] = (int)w->dilation[i];
    g->pad[i + skip] = *out_even ? (int)w->begin[i] : 0;
  }
  return true;
}

static bool find_type(kd_dtype dtype, int *out_type, int *out_compute) {
  *out_compute = dtype == KD_F64 ? DNN_F64 : DNN_F32;
  switch (dtype) {
    case KD_F32:
      *out_type = DNN_F32;
      return true;
    case KD_F64:
      *out_type = DNN_F64;
      return true;
    case KD_F16:
      *out_type = DNN_F16;
      return true;
    case KD_BF16:
      *out_type = DNN_BF16;
      return true;
    default:
      return false;
  }
}

static int make_tensor(int type, int64_t images, int64_t channels,
                       const geometry *g, const int *sizes, dnn_tensor *out) {
  int dims[5] = {(int)images, (int)channels, 1, 1, 1}, strides[5];
  int rank = g->space + 2, step = 1;
  for (int i = 0; i < g->space && sizes; i++)
    dims[i + 2] = sizes[i];
  for (int i = rank; i-- > 0; step *= dims[i])
    strides[i] = step;
  LIBRARY_TRY(dnn.CreateTensorDescriptor(out));
  return dnn.SetTensorNdDescriptor(*out, type, rank, dims, strides);
}

static int convolution_describe(convolution *c, const fam_conv *v,
                                const geometry *g, int type, int compute,
                                int math) {
  int filter[5] = {(int)v->filters, (int)(v->channels / v->sections)};
  memcpy(filter + 2, g->kernel, sizeof g->kernel);
  LIBRARY_TRY(make_tensor(type, v->images, v->channels, g, g->in, &c->x));
  LIBRARY_TRY(make_tensor(type, v->images, v->filters, g, g->out, &c->y));
  LIBRARY_TRY(make_tensor(type, 1, v->filters, g, NULL, &c->bias));
  LIBRARY_TRY(dnn.CreateFilterDescriptor(&c->filter));
  LIBRARY_TRY(dnn.SetFilterNdDescriptor(c->filter, type, DNN_NCHW, g->space + 2,
                                        filter));
  LIBRARY_TRY(dnn.CreateConvolutionDescriptor(&c->conv));
  LIBRARY_TRY(dnn.SetConvolutionNdDescriptor(c->conv, g->space, g->pad,
                                             g->stride, g->dilation,
                                             DNN_CROSS_CORRELATION, compute));
  LIBRARY_TRY(dnn.SetConvolutionGroupCount(c->conv, (int)v->sections));
  LIBRARY_TRY(dnn.SetConvolutionMathType(c->conv, math));
  LIBRARY_TRY(dnn.CreateActivationDescriptor(&c->activation));
  return dnn.SetActivationDescriptor(
      c->activation, v->activation == FAM_RELU ? DNN_RELU : DNN_IDENTITY,
      DNN_PROPAGATE_NAN, 0);
}

/* The first of the library's own order that gives the same result each time, in the
 * precision that is wanted. */
static bool convolution_choose(convolution *c, int math, bool plain) {
  dnn_choice choices[DNN_ALGOS];
  int count = 0;
  if (dnn.GetConvolutionForwardAlgorithm(c->handle, c->x, c->filter, c->conv,
                                         c->y, DNN_ALGOS, &count, choices) != 0)
    return false;
  for (int i = 0; i < count; i++) {
    const dnn_choice *one = &choices[i];
    size_t workspace = 0;
    if (one->status != 0 || one->determinism != DNN_DETERMINISTIC ||
        (math == DNN_FMA_MATH && one->math != DNN_FMA_MATH) ||
        /* the only one that adds a bias and nothing more */
        (c->fused && plain && one->algo != DNN_PRECOMP_GEMM) ||
        dnn.SetConvolutionMathType(c->conv, one->math) != 0 ||
        dnn.GetConvolutionForwardWorkspaceSize(c->handle, c->x, c->filter,
                                               c->conv, c->y, one->algo,
                                               &workspace) != 0 ||
        workspace > WORKSPACE_MOST)
      continue;
    c->algo = one->algo;
    c->workspace = c->call.workspace = workspace;
    return true;
  }
  return false;
}

/* In the context. */
static bool prepare_padding(kd_device *d, convolution *c, const fam_conv *v,
                            const geometry *g, int type) {
  padding *p = &c->padding;
  size_t size = type == DNN_F64 ? 8 : type == DNN_F32 ? 4 : 2;
  int64_t count = v->images * v->channels,
          most = (int64_t)(WORKSPACE_MOST / size);
  for (int i = 0; i < 3; i++) { /* the last dimensions */
    int from = i - (3 - v->w.space), to = i - (3 - g->space);
    if (from >= 0 &&
        (v->w.begin[from] > INT_MAX / 2 || v->w.begin[from] < -INT_MAX / 2))
      return false;
    p->from[i] = from < 0 ? 1 : (int)v->w.in[from];
    p->begin[i] = from < 0 ? 0 : (int)v->w.begin[from];
    p->to[i] = to < 0 ? 1 : g->in[to];
    if (count > most / p->to[i]) return false;
    count *= p->to[i];
  }
  if (cuda_program_get(d, cuda_pad(size), &p->pad) != KD_OK) return false;
  long long groups = (count + CUDA_PAD_GROUP - 1) / CUDA_PAD_GROUP;
  p->count = count;
  p->step = (groups < GROUPS_MOST ? groups : GROUPS_MOST) * CUDA_PAD_GROUP;
  p->at = (c->call.workspace + 255) / 256 * 256;
  c->call.workspace = p->at + (size_t)count * size;
  return true;
}

static union scale scale_of(int compute, double value) {
  union scale s = {.f64 = value};
  if (compute == DNN_F32) s.f32 = (float)value;
  return s;
}

kd_status cuda_convolution_make(kd_device *d, const fam_pass *pass,
                                cuda_call **out_call) {
  const fam_conv *v = &pass->conv;
  uint32_t x = cuda_buffer_named(pass, "B"), y = cuda_buffer_named(pass, "Z");
  uint32_t bias = cuda_buffer_named(pass, "BIAS");
  uint32_t added = cuda_buffer_named(pass, "ADDED");
  bool has_bias = bias != UINT32_MAX, has_added = added != UINT32_MAX;
  int type = 0, compute = 0;
  bool even = true;
  geometry g;
  *out_call = NULL;
  if (x == UINT32_MAX || y == UINT32_MAX || v->activation == FAM_ANOTHER ||
      (!has_bias && (has_added || v->activation != FAM_PLAIN)) ||
      !find_type(pass->buffers[x].dtype, &type, &compute) ||
      !convolution_fits(v->images) || !convolution_fits(v->channels) ||
      !convolution_fits(v->filters) || !convolution_fits(v->sections) ||
      !convolution_measure(&v->w, &g, &even))
    return KD_OK;
  dnn_handle handle = cuda_dnn(d);
  if (!handle) return KD_OK;
  convolution *c = cuda_host->allocate(cuda_host, sizeof *c, 0);
  if (!c) return FAIL(KD_OUT_OF_MEMORY, "no memory for a convolution");
  memset(c, 0, sizeof *c);
  pthread_mutex_init(&c->call.lock, NULL);
  c->call.enqueue = convolution_enqueue;
  c->call.destroy = convolution_destroy;
  c->handle = handle;
  c->fused = has_bias;
  c->one = scale_of(compute, 1);
  c->none = scale_of(compute, 0);
  c->at_x = x;
  c->at_filter = cuda_buffer_named(pass, "A");
  c->at_bias = bias;
  c->at_added = added;
  c->at_y = y;
  int math = type == DNN_F16 || type == DNN_BF16 ? DNN_TENSOR_OP_MATH
             : type == DNN_F32 && d->tf32        ? DNN_DEFAULT_MATH
                                                 : DNN_FMA_MATH;
  if (convolution_describe(c, v, &g, type, compute, math) == 0 &&
      convolution_choose(c, math, v->activation == FAM_PLAIN) &&
      (even || prepare_padding(d, c, v, &g, type)))
    *out_call = &c->call;
  else
    convolution_destroy(&c->call);
  return KD_OK;
}
