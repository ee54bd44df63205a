/* cudnn.c - a stand-in for cuDNN: forward convolutions as the manual defines them, in the
 * order of the stream. */
#include "part.h"

DNN_FUNCTIONS(DECLARE)
API size_t cudnnGetVersion(void);
API const char *cudnnGetErrorString(int status);

enum { OK = 0, INVALID = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum { SCRATCH = 8192, MOST = 5 };

struct dnn_handle_of {
  cu_stream stream;
};
struct dnn_tensor_of {
  int type, rank, dims[MOST], strides[MOST];
};
struct dnn_filter_of {
  int type, rank, dims[MOST];
};
struct dnn_conv_of {
  int space, pads[3], strides[3], dilations[3], compute, groups, math;
};
struct dnn_activation_of {
  int mode;
};

API size_t cudnnGetVersion(void) {
  return 91300;
}

API const char *cudnnGetErrorString(int status) {
  return status == INVALID         ? "CUDNN_STATUS_BAD_PARAM"
         : status == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                   : "CUDNN_STATUS_EXECUTION_FAILED";
}

API int cudnnCreate(dnn_handle *out) {
  if (getenv("STANDIN_NO_CUDNN")) return NOT_SUPPORTED;
  MAKE(out);
}
API int cudnnDestroy(dnn_handle handle) {
  FREE(handle);
}
API int cudnnSetStream(dnn_handle handle, cu_stream stream) {
  handle->stream = stream;
  return OK;
}

/* ---- descriptions ---------------------------------------------------------------------- */

API int cudnnCreateTensorDescriptor(dnn_tensor *out) {
  MAKE(out);
}
API int cudnnDestroyTensorDescriptor(dnn_tensor tensor) {
  FREE(tensor);
}
API int cudnnSetTensorNdDescriptor(dnn_tensor tensor, int type, int rank,
                                   const int *dims, const int *strides) {
  if (rank < 4 || rank > MOST) return INVALID;
  tensor->type = type;
  tensor->rank = rank;
  memcpy(tensor->dims, dims, (size_t)rank * sizeof *dims);
  memcpy(tensor->strides, strides, (size_t)rank * sizeof *strides);
  return OK;
}
API int cudnnCreateFilterDescriptor(dnn_filter *out) {
  MAKE(out);
}
API int cudnnDestroyFilterDescriptor(dnn_filter filter) {
  FREE(filter);
}
API int cudnnSetFilterNdDescriptor(dnn_filter filter, int type, int format,
                                   int rank, const int *dims) {
  if (rank < 4 || rank > MOST || format != DNN_NCHW) return INVALID;
  filter->type = type;
  filter->rank = rank;
  memcpy(filter->dims, dims, (size_t)rank * sizeof *dims);
  return OK;
}
API int cudnnCreateConvolutionDescriptor(dnn_conv *out) {
  MAKE(out);
}
API int cudnnDestroyConvolutionDescriptor(dnn_conv conv) {
  FREE(conv);
}
API int cudnnSetConvolutionNdDescriptor(dnn_conv conv, int space,
                                        const int *pads, const int *strides,
                                        const int *dilations, int mode,
                                        int compute) {
  if (space < 2 || space > 3 || mode != DNN_CROSS_CORRELATION) return INVALID;
  conv->space = space;
  conv->compute = compute;
  conv->groups = 1;
  memcpy(conv->pads, pads, (size_t)space * sizeof *pads);
  memcpy(conv->strides, strides, (size_t)space * sizeof *strides);
  memcpy(conv->dilations, dilations, (size_t)space * sizeof *dilations);
  return OK;
}
API int cudnnSetConvolutionGroupCount(dnn_conv conv, int groups) {
  conv->groups = groups;
  return OK;
}
API int cudnnSetConvolutionMathType(dnn_conv conv, int math) {
  conv->math = math;
  return OK;
}
API int cudnnCreateActivationDescriptor(dnn_activation *out) {
  MAKE(out);
}
API int cudnnDestroyActivationDescriptor(dnn_activation activation) {
  FREE(activation);
}
API int cudnnSetActivationDescriptor(dnn_activation activation, int mode,
                                     int nan, double coefficient) {
  (void)coefficient;
  activation->mode = mode;
  return nan == DNN_PROPAGATE_NAN ? OK : INVALID;
}

/* ---- convolutions ------------------------------------------------------------------------ */

static bool is_packed(const struct dnn_tensor_of *t) {
  int step = 1;
  for (int i = t->rank; i-- > 0; step *= t->dims[i])
    if (t->strides[i] != step) return false;
  return true;
}

/* Whether sizes fit each other. */
static int check(dnn_tensor x, dnn_filter w, dnn_conv conv, dnn_tensor y) {
  if (x->rank != conv->space + 2 || w->rank != x->rank || y->rank != x->rank ||
      x->type != w->type || x->type != y->type || !is_packed(x) ||
      !is_packed(y) || conv->groups < 1 || x->dims[0] != y->dims[0] ||
      w->dims[1] * conv->groups != x->dims[1] || w->dims[0] != y->dims[1] ||
      w->dims[0] % conv->groups ||
      conv->compute != (x->type == DNN_F64 ? DNN_F64 : DNN_F32))
    return INVALID;
  for (int i = 0; i < conv->space; i++) {
    int span = (w->dims[i + 2] - 1) * conv->dilations[i] + 1;
    int windows =
        (x->dims[i + 2] + 2 * conv->pads[i] - span) / conv->strides[i] + 1;
    if (windows != y->dims[i + 2]) return INVALID;
  }
  return OK;
}

enum { VARIES = 5, ROUNDS = 6 }; /* algorithms */

/* Its first choice is not the same each time, and the second one takes f32 as TF32. */
API int cudnnGetConvolutionForwardAlgorithm_v7(dnn_handle handle, dnn_tensor x,
                                               dnn_filter w, dnn_conv conv,
                                               dnn_tensor y, int wanted,
                                               int *count,
                                               dnn_choice *choices) {
  int status = handle ? check(x, w, conv, y) : INVALID;
  if (status != OK) return status;
  const dnn_choice all[] = {
      {.algo = VARIES, .determinism = 0, .math = conv->math},
      {.algo = ROUNDS, .determinism = 1, .math = DNN_TENSOR_OP_MATH},
      {.algo = 4,
       .status = NOT_SUPPORTED,
       .determinism = 1,
       .math = conv->math},
      {.algo = 0, .determinism = 1, .math = conv->math},
      {.algo = DNN_PRECOMP_GEMM, .determinism = 1, .math = conv->math}};
  *count = wanted < 5 ? wanted : 5;
  memcpy(choices, all, (size_t)*count * sizeof *all);
  return OK;
}

API int cudnnGetConvolutionForwardWorkspaceSize(dnn_handle handle, dnn_tensor x,
                                                dnn_filter w, dnn_conv conv,
                                                dnn_tensor y, int algo,
                                                size_t *size) {
  int status = handle ? check(x, w, conv, y) : INVALID;
  *size = algo == 0 ? 0 : SCRATCH;
  return status;
}

typedef struct work {
  struct dnn_tensor_of x, y;
  struct dnn_filter_of w;
  struct dnn_conv_of conv;
  const void *from, *filter, *added, *bias;
  void *to, *scratch;
  int algo;
  bool relu;
} work;

static number number_of(int type) {
  return type == DNN_F64    ? F64
         : type == DNN_F16  ? F16
         : type == DNN_BF16 ? BF16
                            : F32;
}

/* Where a window's tap is in an image of one channel; -1: in the padding. */
static int64_t tap_at(const work *w, int64_t out, int64_t tap) {
  int64_t at = 0, step = 1;
  for (int i = w->conv.space; i-- > 0;) {
    int64_t o = out % w->y.dims[i + 2], t = tap % w->w.dims[i + 2];
    int64_t in =
        o * w->conv.strides[i] - w->conv.pads[i] + t * w->conv.dilations[i];
    out /= w->y.dims[i + 2];
    tap /= w->w.dims[i + 2];
    if (in < 0 || in >= w->x.dims[i + 2]) return -1;
    at += in * step;
    step *= w->x.dims[i + 2];
  }
  return at;
}

static double operand(const work *w, const void *data, int64_t i) {
  double value = load(number_of(w->x.type), data, i);
  int exponent = 0;
  if (w->algo != ROUNDS || w->x.type != DNN_F32) return value;
  double fraction = frexp(value, &exponent);
  return ldexp(nearbyint(ldexp(fraction, 11)), exponent - 11);
}

static double convolve(const work *w, int64_t image, int64_t f, int64_t out) {
  int64_t each = w->w.dims[1], ins = w->x.strides[1];
  int64_t taps = 1;
  for (int i = 0; i < w->conv.space; i++)
    taps *= w->w.dims[i + 2];
  int64_t first = f / (w->w.dims[0] / w->conv.groups) * each;
  double sum = 0;
  for (int64_t c = 0; c < each; c++)
    for (int64_t tap = 0; tap < taps; tap++) {
      int64_t at = tap_at(w, out, tap);
      if (at < 0) continue;
      sum +=
          operand(w, w->from, (image * w->x.dims[1] + first + c) * ins + at) *
          operand(w, w->filter, (f * each + c) * taps + tap);
    }
  return sum;
}

static void run(void *context) {
  const work *w = context;
  number type = number_of(w->y.type);
  int64_t outs = w->y.strides[1];
  if (w->scratch) memset(w->scratch, 0x5a, SCRATCH);
  for (int64_t image = 0; image < w->y.dims[0]; image++)
    for (int64_t f = 0; f < w->y.dims[1]; f++)
      for (int64_t out = 0; out < outs; out++) {
        int64_t at = (image * w->y.dims[1] + f) * outs + out;
        double sum = convolve(w, image, f, out);
        if (w->added) sum += load(type, w->added, at);
        if (w->bias) sum += load(type, w->bias, f);
        store(type, w->to, at, w->relu && sum < 0 ? 0 : sum);
      }
}

TELL("cudnn: %u convolutions\n")

static int convolution(dnn_handle handle, const work *what) {
  return enqueue(handle->stream, run, what, sizeof *what) ? OK
                                                          : EXECUTION_FAILED;
}

static double scale_of(dnn_tensor tensor, const void *value) {
  return load(tensor->type == DNN_F64 ? F64 : F32, value, 0);
}

API int cudnnConvolutionForward(dnn_handle handle, const void *alpha,
                                dnn_tensor x_tensor, const void *x,
                                dnn_filter w_filter, const void *w,
                                dnn_conv conv, int algo, void *workspace,
                                size_t size, const void *beta,
                                dnn_tensor y_tensor, void *y) {
  int status = check(x_tensor, w_filter, conv, y_tensor);
  if (status != OK) return status;
  if (scale_of(x_tensor, alpha) != 1 || scale_of(x_tensor, beta) != 0 ||
      algo == VARIES || (algo && (!workspace || size < SCRATCH)))
    return INVALID;
  return convolution(handle, &(work){.x = *x_tensor,
                                     .y = *y_tensor,
                                     .w = *w_filter,
                                     .conv = *conv,
                                     .from = x,
                                     .filter = w,
                                     .to = y,
                                     .algo = algo,
                                     .scratch = algo ? workspace : NULL});
}

API int cudnnConvolutionBiasActivationForward(
    dnn_handle handle, const void *alpha1, dnn_tensor x_tensor, const void *x,
    dnn_filter w_filter, const void *w, dnn_conv conv, int algo,
    void *workspace, size_t size, const void *alpha2, dnn_tensor z_tensor,
    const void *z, dnn_tensor bias_tensor, const void *bias,
    dnn_activation activation, dnn_tensor y_tensor, void *y) {
  int status = check(x_tensor, w_filter, conv, y_tensor);
  if (status != OK) return status;
  if (x_tensor->type == DNN_F64) return NOT_SUPPORTED;
  if (memcmp(z_tensor, y_tensor, sizeof *z_tensor) != 0 ||
      bias_tensor->dims[0] != 1 || bias_tensor->dims[1] != y_tensor->dims[1] ||
      !bias || scale_of(x_tensor, alpha1) != 1 || algo == VARIES ||
      (algo && (!workspace || size < SCRATCH)) ||
      (activation->mode != DNN_RELU && activation->mode != DNN_IDENTITY) ||
      (activation->mode == DNN_IDENTITY && algo != DNN_PRECOMP_GEMM))
    return INVALID;
  return convolution(
      handle, &(work){.x = *x_tensor,
                      .y = *y_tensor,
                      .w = *w_filter,
                      .conv = *conv,
                      .from = x,
                      .filter = w,
                      .added = scale_of(x_tensor, alpha2) != 0 ? z : NULL,
                      .bias = bias,
                      .to = y,
                      .algo = algo,
                      .scratch = algo ? workspace : NULL,
                      .relu = activation->mode == DNN_RELU});
}
