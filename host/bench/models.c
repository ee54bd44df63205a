/* models.c - the models whose files and memory are measured. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "onnx.h"

#define INPUTS(...)            \
  (const onnx_name *const[]) { \
    __VA_ARGS__, NULL          \
  }

static onnx_name norm(onnx_name x, int64_t channels) {
  onnx_name scale = onnx_weight(1, &channels, 1, 0.1f);
  onnx_name bias = onnx_weight(1, &channels, 0, 0.1f);
  onnx_name mean = onnx_weight(1, &channels, 0, 0.1f);
  onnx_name variance = onnx_weight(1, &channels, 1, 0.1f);
  return onnx_node("BatchNormalization",
                   INPUTS(&x, &scale, &bias, &mean, &variance), "");
}

/* A convolution of kernel x kernel in `groups`, and its normalisation. */
static onnx_name conv(onnx_name x, int64_t in, int64_t out, int64_t kernel,
                      int64_t stride, int64_t groups) {
  const int64_t dims[] = {out, in / groups, kernel, kernel};
  float range = sqrtf(3.0f / (float)(dims[1] * kernel * kernel));
  onnx_name weight = onnx_weight(4, dims, 0, range);
  char attrs[160];
  int k = (int)kernel, s = (int)stride, p = (int)kernel / 2;
  snprintf(attrs, sizeof attrs,
           "kernel_shape=%d,%d strides=%d,%d pads=%d,%d,%d,%d group=%d", k, k,
           s, s, p, p, p, p, (int)groups);
  return norm(onnx_node("Conv", INPUTS(&x, &weight), attrs), out);
}

static onnx_name one(const char *op, onnx_name x, const char *attrs) {
  return onnx_node(op, INPUTS(&x), attrs);
}

static onnx_name two(const char *op, onnx_name x, onnx_name y) {
  return onnx_node(op, INPUTS(&x, &y), "");
}

static onnx_name classify(onnx_name x, int64_t channels) {
  const int64_t dims[] = {1000, channels}, classes = 1000;
  x = one("Flatten", one("GlobalAveragePool", x, ""), "");
  onnx_name weight = onnx_weight(2, dims, 0, 0.03f);
  onnx_name bias = onnx_weight(1, &classes, 0, 0.03f);
  x = onnx_node("Gemm", INPUTS(&x, &weight, &bias), "transB=1");
  return one("Softmax", x, "axis=-1");
}

/* ---- ResNet-50 --------------------------------------------------------------------- */

static onnx_name bottleneck(onnx_name x, int64_t in, int64_t width,
                            int64_t stride) {
  onnx_name y = one("Relu", conv(x, in, width, 1, 1, 1), "");
  y = one("Relu", conv(y, width, width, 3, stride, 1), "");
  y = conv(y, width, 4 * width, 1, 1, 1);
  if (in != 4 * width || stride != 1) x = conv(x, in, 4 * width, 1, stride, 1);
  return one("Relu", two("Add", y, x), "");
}

void model_resnet50_of(const char *path, int64_t batch) {
  const int64_t image[] = {batch, 3, 224, 224}, blocks[] = {3, 4, 6, 3};
  int64_t channels = 64;
  onnx_begin();
  onnx_name x = onnx_input(4, image);
  x = one("Relu", conv(x, 3, 64, 7, 2, 1), "");
  x = one("MaxPool", x, "kernel_shape=3,3 strides=2,2 pads=1,1,1,1");
  for (int stage = 0; stage < 4; stage++)
    for (int64_t i = 0; i < blocks[stage]; i++) {
      int64_t width = INT64_C(64) << stage;
      x = bottleneck(x, channels, width, i == 0 && stage > 0 ? 2 : 1);
      channels = 4 * width;
    }
  onnx_finish(classify(x, channels), path);
}

void model_resnet50(const char *path) {
  model_resnet50_of(path, 1);
}

/* ---- MobileNetV2 --------------------------------------------------------------------- */

static onnx_name clip(onnx_name x) {
  onnx_name least = onnx_weight(0, NULL, 0, 0),
            most = onnx_weight(0, NULL, 6, 0);
  return onnx_node("Clip", INPUTS(&x, &least, &most), "");
}

static onnx_name inverted(onnx_name x, int64_t in, int64_t out, int64_t factor,
                          int64_t stride) {
  int64_t wide = in * factor;
  onnx_name y = factor > 1 ? clip(conv(x, in, wide, 1, 1, 1)) : x;
  y = clip(conv(y, wide, wide, 3, stride, wide));
  y = conv(y, wide, out, 1, 1, 1);
  return in == out && stride == 1 ? two("Add", y, x) : y;
}

void model_mobilenet(const char *path) {
  /* the paper's table 2: factor, channels, repeats, stride */
  static const int64_t rows[][4] = {
      {1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
      {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  const int64_t image[] = {1, 3, 224, 224};
  int64_t channels = 32;
  onnx_begin();
  onnx_name x = onnx_input(4, image);
  x = clip(conv(x, 3, 32, 3, 2, 1));
  for (int row = 0; row < 7; row++)
    for (int64_t i = 0; i < rows[row][2]; i++) {
      x = inverted(x, channels, rows[row][1], rows[row][0],
                   i ? 1 : rows[row][3]);
      channels = rows[row][1];
    }
  x = clip(conv(x, channels, 1280, 1, 1, 1));
  onnx_finish(classify(x, 1280), path);
}

/* ---- layers of BERT ---------------------------------------------------------------------- */

/* Of the layers that are being written. */
static struct {
  int64_t words; /* below 0: it is open */
  int64_t hidden, heads;
} bert;

static const int64_t base_words = 128;

static onnx_name linear(onnx_name x, int64_t in, int64_t out) {
  const int64_t dims[] = {in, out};
  onnx_name weight = onnx_weight(2, dims, 0, 0.05f);
  onnx_name bias = onnx_weight(1, &out, 0, 0.05f);
  return two("Add", two("MatMul", x, weight), bias);
}

static onnx_name layer_norm(onnx_name x) {
  onnx_name scale = onnx_weight(1, &bert.hidden, 1, 0.1f);
  onnx_name bias = onnx_weight(1, &bert.hidden, 0, 0.1f);
  return onnx_node("LayerNormalization", INPUTS(&x, &scale, &bias), "axis=-1");
}

static onnx_name length_of(onnx_name x) {
  const int64_t second = 1;
  return two("Gather", one("Shape", x, ""), onnx_longs(1, &second));
}

/* 1, the number of words, and what comes then: as exporters write it where that number
 * is open. */
static onnx_name shape_of(onnx_name x, uint32_t count, const int64_t *rest) {
  const int64_t batch = 1;
  onnx_name first = onnx_longs(1, &batch);
  onnx_name length = bert.words < 0 ? length_of(x) : onnx_longs(1, &bert.words);
  onnx_name last = onnx_longs(count, rest);
  return onnx_node("Concat", INPUTS(&first, &length, &last), "axis=0");
}

static onnx_name heads(onnx_name x, const char *order) {
  const int64_t rest[] = {bert.heads, bert.hidden / bert.heads};
  onnx_name dims = shape_of(x, 2, rest);
  return one("Transpose", two("Reshape", x, dims), order);
}

static onnx_name attend(onnx_name x) {
  const int64_t hidden = bert.hidden;
  onnx_name q = heads(linear(x, hidden, hidden), "perm=0,2,1,3");
  onnx_name k = heads(linear(x, hidden, hidden), "perm=0,2,3,1");
  onnx_name v = heads(linear(x, hidden, hidden), "perm=0,2,1,3");
  float width = (float)bert.hidden / (float)bert.heads;
  onnx_name root = onnx_weight(0, NULL, sqrtf(width), 0);
  onnx_name scores = two("Div", two("MatMul", q, k), root);
  onnx_name y = two("MatMul", one("Softmax", scores, "axis=-1"), v);
  onnx_name dims = shape_of(x, 1, &hidden);
  y = two("Reshape", one("Transpose", y, "perm=0,2,1,3"), dims);
  return linear(y, hidden, hidden);
}

/* Gelu (Hendrycks and Gimpel, 2016), as exporters write it. */
static onnx_name gelu(onnx_name x) {
  onnx_name root = onnx_weight(0, NULL, 1.41421356f, 0);
  onnx_name unit = onnx_weight(0, NULL, 1, 0);
  onnx_name half = onnx_weight(0, NULL, 0.5f, 0);
  onnx_name y = two("Add", one("Erf", two("Div", x, root), ""), unit);
  return two("Mul", two("Mul", x, y), half);
}

static onnx_name layer(onnx_name x) {
  int64_t hidden = bert.hidden;
  x = layer_norm(two("Add", attend(x), x));
  onnx_name y = gelu(linear(x, hidden, 4 * hidden));
  y = linear(y, 4 * hidden, hidden);
  return layer_norm(two("Add", y, x));
}

static void write_bert(const char *path, int layers, int64_t words) {
  const int64_t dims[] = {1, words, bert.hidden};
  bert.words = words;
  onnx_begin();
  onnx_name x = onnx_input(3, dims);
  for (int i = 0; i < layers; i++)
    x = layer(x);
  onnx_finish(x, path);
}

static void write_bert_layer(const char *path, int64_t words) {
  bert.hidden = 768;
  bert.heads = 12;
  write_bert(path, 1, words);
}

void model_bert_layer(const char *path) {
  write_bert_layer(path, base_words);
}

void model_bert_short(const char *path) {
  write_bert_layer(path, base_words / 16);
}

void model_bert_open(const char *path) {
  write_bert_layer(path, -1);
}

void model_bert_large(const char *path, int layers) {
  bert.hidden = 1024;
  bert.heads = 16;
  write_bert(path, layers, base_words);
}
