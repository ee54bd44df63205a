/* learning.c - a step of learning on ranks, as a program: ResNet-50 (He et al., CVPR 2016), its
 * loss, the gradients of all weights, and their sums over the ranks. Normalisation is by given
 * means, as in fine-tuning. */
#include "learning.h"

#define WEIGHTS 200
#define BUCKET  (25 << 20) /* bytes of gradients that are summed together */

static keel_context *context;
static keel_builder *builder;
static keel_value weights[WEIGHTS];
static int64_t sizes[WEIGHTS];
static uint32_t count;

/* ---- values ----------------------------------------------------------------------------- */

static keel_value constant(int64_t size, float number) {
  keel_tensor *tensor = NULL;
  float *data = malloc((size_t)size * sizeof *data);
  if (!data) exit(1);
  for (int64_t i = 0; i < size; i++)
    data[i] = number;
  bench_need(keel_tensor_create(context, KD_F32, 1, &size, data, &tensor));
  free(data);
  keel_value value = keel_builder_constant(builder, tensor);
  keel_tensor_release(tensor);
  return value;
}

/* What is learned is an input: it changes from step to step. */
static keel_value weight(uint32_t rank, const int64_t *dims) {
  char name[16];
  snprintf(name, sizeof name, "w%u", (unsigned)count);
  sizes[count] = 1;
  for (uint32_t i = 0; i < rank; i++)
    sizes[count] *= dims[i];
  weights[count] = keel_builder_input(builder, name, KD_F32, rank, dims);
  return weights[count++];
}

static keel_value op(const char *name, const keel_attr *attrs, uint32_t n,
                     keel_value a, keel_value b) {
  const keel_value inputs[] = {a, b};
  return keel_builder_op(builder, name, attrs, n, inputs,
                         b == KEEL_ABSENT ? 1 : 2);
}

static keel_value one(const char *name, keel_value x) {
  return op(name, NULL, 0, x, KEEL_ABSENT);
}

/* ---- ResNet-50 -------------------------------------------------------------------------- */

static keel_value conv(keel_value x, int64_t in, int64_t out, int64_t kernel,
                       int64_t stride) {
  const int64_t dims[] = {out, in, kernel, kernel}, steps[] = {stride, stride};
  const int64_t pad = kernel / 2, pads[] = {pad, pad, pad, pad};
  const keel_attr attrs[] = {KEEL_INTS("strides", 2, steps),
                             KEEL_INTS("pads", 4, pads)};
  x = op("Conv", attrs, 2, x, weight(4, dims));
  keel_value scale = weight(1, &out), bias = weight(1, &out);
  /* numbers stay numbers where `keel run` makes the weights at random */
  keel_value mean = constant(out, 0);
  keel_value variance = constant(out, (float)(in * kernel * kernel));
  const keel_value inputs[] = {x, scale, bias, mean, variance};
  return keel_builder_op(builder, "BatchNormalization", NULL, 0, inputs, 5);
}

static keel_value bottleneck(keel_value x, int64_t in, int64_t width,
                             int64_t stride) {
  keel_value y = one("Relu", conv(x, in, width, 1, 1));
  y = one("Relu", conv(y, width, width, 3, stride));
  y = conv(y, width, 4 * width, 1, 1);
  if (in != 4 * width || stride != 1) x = conv(x, in, 4 * width, 1, stride);
  return one("Relu", op("Add", NULL, 0, y, x));
}

static keel_value classes_of(keel_value x) {
  const int64_t three[] = {3, 3}, two[] = {2, 2}, pads[] = {1, 1, 1, 1};
  const int64_t blocks[] = {3, 4, 6, 3}, dims[] = {1000, 2048};
  const keel_attr pool[] = {KEEL_INTS("kernel_shape", 2, three),
                            KEEL_INTS("strides", 2, two),
                            KEEL_INTS("pads", 4, pads)};
  const keel_attr transposed = KEEL_INT("transB", 1);
  int64_t channels = 64;
  x = op("MaxPool", pool, 3, one("Relu", conv(x, 3, 64, 7, 2)), KEEL_ABSENT);
  for (int stage = 0; stage < 4; stage++)
    for (int64_t i = 0; i < blocks[stage]; i++) {
      int64_t width = INT64_C(64) << stage;
      x = bottleneck(x, channels, width, i == 0 && stage > 0 ? 2 : 1);
      channels = 4 * width;
    }
  x = one("Flatten", one("GlobalAveragePool", x));
  keel_value w = weight(2, dims);
  const keel_value inputs[] = {x, w, weight(1, dims)};
  return keel_builder_op(builder, "Gemm", &transposed, 1, inputs, 3);
}

/* ---- the step ---------------------------------------------------------------------------- */

static void gradients(keel_value loss, keel_value *out) {
  static char names[WEIGHTS][16];
  static const char *xs[WEIGHTS];
  keel_value inputs[2 * WEIGHTS + 1];
  for (uint32_t i = 0; i < count; i++) {
    snprintf(names[i], sizeof names[i], "w%u", (unsigned)i);
    xs[i] = names[i];
    inputs[i] = inputs[count + i] = weights[i];
  }
  inputs[2 * count] = loss;
  const keel_attr attrs[] = {
      {.name = "xs", .kind = KD_ATTR_STRINGS, .count = count, .strings = xs},
      KEEL_STRING("y", "loss")};
  bench_need(keel_builder_op_n(builder, "ai.onnx.preview.training::Gradient",
                               attrs, 2, inputs, 2 * count + 1, out, count));
}

/* Gradients `from` to `to` in one row, summed over the ranks. */
static void sum_up(keel_value member, const keel_value *all, uint32_t from,
                   uint32_t to) {
  const int64_t minus = -1, dim = 1;
  const keel_attr first = KEEL_INT("axis", 0);
  keel_value rows[WEIGHTS];
  char name[16];
  keel_tensor *tensor = NULL;
  bench_need(keel_tensor_create(context, KD_I64, 1, &dim, &minus, &tensor));
  keel_value flat = keel_builder_constant(builder, tensor);
  keel_tensor_release(tensor);
  for (uint32_t i = from; i < to; i++)
    rows[i - from] = op("Reshape", NULL, 0, all[i], flat);
  keel_value row =
      keel_builder_op(builder, "Concat", &first, 1, rows, to - from);
  snprintf(name, sizeof name, "sum%u", (unsigned)from);
  bench_need(keel_builder_output(builder, name,
                                 op("keel::AllReduce", NULL, 0, member, row)));
}

/* The last layers' gradients are there first. */
static void sum_all(keel_value member, const keel_value *all) {
  uint32_t end = count;
  int64_t bytes = 0;
  for (uint32_t i = count; i-- > 0;) {
    bytes += sizes[i] * (int64_t)sizeof(float);
    if (bytes < BUCKET && i) continue;
    sum_up(member, all, i, end);
    end = i;
    bytes = 0;
  }
}

keel_program *learning_step(keel_context *in, int64_t batch) {
  const int64_t image[] = {batch, 3, 224, 224};
  keel_value all[WEIGHTS], loss;
  keel_program *program = NULL;
  context = in;
  count = 0;
  bench_need(keel_builder_create(context, "step", &builder));
  keel_value member = keel_builder_resource(builder, "keel.member");
  keel_value x = keel_builder_input(builder, "image", KD_F32, 4, image);
  keel_value label = keel_builder_input(builder, "label", KD_I64, 1, image);
  loss = op("SoftmaxCrossEntropyLoss", NULL, 0, classes_of(x), label);
  gradients(loss, all);
  bench_need(keel_builder_output(builder, "loss", loss));
  sum_all(member, all);
  bench_need(keel_builder_finish(builder, &program));
  keel_builder_destroy(builder);
  return program;
}
