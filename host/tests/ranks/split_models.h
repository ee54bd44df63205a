/* split_models.h - models that ranks share, small forms of what people run: ResNet-50, two layers of
 * BERT, and steps of language models with their caches. Weights are whole numbers, or real ones.
 *
 * Whole: each row or filter picks one input and its sign, so that sums have one term and are the same
 * in any order; what is between them (Softmax, norms) may be anything. */
#ifndef KEEL_TESTS_SPLIT_MODELS_H
#define KEEL_TESTS_SPLIT_MODELS_H

#include <keel/keel.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct modelling {
  keel_context *context;
  keel_builder *builder;
  bool real;       /* weights are any numbers */
  uint64_t random; /* what comes next */
  keel_status status;
} modelling;

static uint64_t next_random(modelling *m) {
  m->random = m->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return m->random >> 33;
}

static keel_value model_constant(modelling *m, kd_dtype dtype, uint32_t rank,
                                 const int64_t *dims, const void *data) {
  keel_tensor *tensor = NULL;
  if (m->status != KD_OK) return KEEL_ABSENT;
  m->status = keel_tensor_create(m->context, dtype, rank, dims, data, &tensor);
  if (m->status != KD_OK) return KEEL_ABSENT;
  keel_value value = keel_builder_constant(m->builder, tensor);
  keel_tensor_release(tensor);
  return value;
}

static keel_value model_ints(modelling *m, int64_t count, const int64_t *list) {
  return model_constant(m, KD_I64, 1, &count, list);
}

/* `groups` of outputs, each of which picks one of `in` inputs, at one of `taps` places, where they
 * are whole; layout: dims, with the outputs first or last. */
static keel_value model_weights(modelling *m, uint32_t rank,
                                const int64_t *dims, bool outputs_last) {
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= dims[i];
  int64_t outputs = dims[outputs_last ? rank - 1 : 0], in = count / outputs;
  float *data = calloc((size_t)count, sizeof *data);
  if (!data) m->status = KD_OUT_OF_MEMORY;
  float scale = 1 / sqrtf((float)in);
  for (int64_t i = 0; data && m->real && i < count; i++)
    data[i] = scale * ((float)(next_random(m) % 2001) / 577 - 1.732f);
  for (int64_t o = 0; data && !m->real && o < outputs; o++) {
    int64_t pick = (int64_t)(next_random(m) % (uint64_t)in);
    data[outputs_last ? pick * outputs + o : o * in + pick] =
        next_random(m) % 4 ? 1 : -1;
  }
  keel_value value = model_constant(m, KD_F32, rank, dims, data);
  free(data);
  return value;
}

/* Numbers around `middle`. */
static keel_value model_vector(modelling *m, int64_t count, float middle) {
  float *data = calloc((size_t)count, sizeof *data);
  if (!data) m->status = KD_OUT_OF_MEMORY;
  for (int64_t i = 0; data && i < count; i++)
    data[i] = middle + (m->real ? (float)(next_random(m) % 101) / 500
                                : (float)(next_random(m) % 2));
  keel_value value = model_constant(m, KD_F32, 1, &count, data);
  free(data);
  return value;
}

static keel_value model_op(modelling *m, const char *name,
                           const keel_attr *attrs, uint32_t count, keel_value a,
                           keel_value b, keel_value c) {
  const keel_value inputs[] = {a, b, c};
  uint32_t n = c != KEEL_ABSENT ? 3 : b != KEEL_ABSENT ? 2 : 1;
  return keel_builder_op(m->builder, name, attrs, count, inputs, n);
}

static keel_value model_one(modelling *m, const char *name, keel_value a) {
  return model_op(m, name, NULL, 0, a, KEEL_ABSENT, KEEL_ABSENT);
}

static keel_value model_two(modelling *m, const char *name, keel_value a,
                            keel_value b) {
  return model_op(m, name, NULL, 0, a, b, KEEL_ABSENT);
}

static keel_value model_number(modelling *m, float number) {
  return model_constant(m, KD_F32, 0, NULL, &number);
}

static keel_value model_turn(modelling *m, keel_value x, int64_t a, int64_t b,
                             int64_t c, int64_t d) {
  const int64_t perm[] = {a, b, c, d};
  const keel_attr attr = KEEL_INTS("perm", 4, perm);
  return model_op(m, "Transpose", &attr, 1, x, KEEL_ABSENT, KEEL_ABSENT);
}

static keel_value model_shape(modelling *m, keel_value x, int64_t count,
                              const int64_t *shape) {
  return model_two(m, "Reshape", x, model_ints(m, count, shape));
}

/* ---- ResNet-50, narrow ----------------------------------------------------------------------- */

enum { IMAGES = 4, IMAGE = 16, STEM = 8, CLASSES = 10 };

/* Convolution, normalisation, and what follows. */
static keel_value model_conv(modelling *m, keel_value x, int64_t in,
                             int64_t out, int64_t kernel, int64_t stride,
                             bool relu) {
  const int64_t dims[] = {out, in, kernel, kernel}, pad = kernel / 2;
  const int64_t pads[] = {pad, pad, pad, pad}, strides[] = {stride, stride};
  const keel_attr attrs[] = {KEEL_INTS("pads", 4, pads),
                             KEEL_INTS("strides", 2, strides)};
  keel_value y = model_op(m, "Conv", attrs, 2, x,
                          model_weights(m, 4, dims, false), KEEL_ABSENT);
  const keel_attr epsilon = KEEL_FLOAT("epsilon", m->real ? 1e-5f : 0);
  keel_value ones[4];
  for (int i = 0; i < 4; i++) {
    float number = i == 0 || i == 3 ? 1 : 0;
    float *data = malloc((size_t)out * sizeof *data);
    for (int64_t k = 0; data && k < out; k++)
      data[k] = number;
    ones[i] = model_constant(m, KD_F32, 1, &out, data);
    free(data);
  }
  const keel_value inputs[] = {y, ones[0], model_vector(m, out, 0), ones[2],
                               ones[3]};
  y = keel_builder_op(m->builder, "BatchNormalization", &epsilon, 1, inputs, 5);
  return relu ? model_one(m, "Relu", y) : y;
}

static keel_value model_bottleneck(modelling *m, keel_value x, int64_t in,
                                   int64_t width, int64_t stride) {
  keel_value y = model_conv(m, x, in, width, 1, 1, true);
  y = model_conv(m, y, width, width, 3, stride, true);
  y = model_conv(m, y, width, 4 * width, 1, 1, false);
  if (in != 4 * width || stride != 1)
    x = model_conv(m, x, in, 4 * width, 1, stride, false);
  return model_one(m, "Relu", model_two(m, "Add", x, y));
}

static void model_resnet(modelling *m) {
  static const int blocks[] = {3, 4, 6, 3};
  const int64_t dims[] = {IMAGES, 4, IMAGE, IMAGE};
  int64_t in = STEM;
  keel_value x = keel_builder_input(m->builder, "x", KD_F32, 4, dims);
  x = model_conv(m, x, 4, STEM, 7, 1, true);
  for (int stage = 0; stage < 4; stage++)
    for (int i = 0; i < blocks[stage]; i++) {
      int64_t width = STEM << stage;
      x = model_bottleneck(m, x, in, width, i == 0 && stage ? 2 : 1);
      in = 4 * width;
    }
  const int64_t classes[] = {CLASSES, in};
  const keel_attr turned = KEEL_INT("transB", 1);
  x = model_one(m, "Flatten", model_one(m, "GlobalAveragePool", x));
  x = model_op(m, "Gemm", &turned, 1, x, model_weights(m, 2, classes, false),
               model_vector(m, CLASSES, 0));
  keel_builder_output(m->builder, "y", x);
}

/* ---- two layers of BERT ------------------------------------------------------------------------ */

enum { TEXTS = 4, WORDS_EACH = 6, WIDTH = 32, HEADS = 4, HEAD = WIDTH / HEADS };

static keel_value model_linear(modelling *m, keel_value x, int64_t in,
                               int64_t out, bool bias) {
  const int64_t dims[] = {in, out};
  keel_value y = model_two(m, "MatMul", x, model_weights(m, 2, dims, true));
  return bias ? model_two(m, "Add", y, model_vector(m, out, 0)) : y;
}

static keel_value model_heads(modelling *m, keel_value x, int64_t length,
                              bool keys) {
  const int64_t shape[] = {0, length, HEADS, HEAD};
  x = model_shape(m, x, 4, shape);
  return keys ? model_turn(m, x, 0, 2, 3, 1) : model_turn(m, x, 0, 2, 1, 3);
}

/* mask: added to the scores, or KEEL_ABSENT */
static keel_value model_attend(modelling *m, keel_value q, keel_value k,
                               keel_value v, keel_value mask, int64_t length) {
  const keel_attr axis = KEEL_INT("axis", -1);
  const int64_t flat[] = {0, length, WIDTH};
  keel_value scores =
      model_two(m, "Mul", model_two(m, "MatMul", q, k), model_number(m, 0.25f));
  if (mask != KEEL_ABSENT) scores = model_two(m, "Add", scores, mask);
  scores = model_op(m, "Softmax", &axis, 1, scores, KEEL_ABSENT, KEEL_ABSENT);
  keel_value y = model_two(m, "MatMul", scores, v);
  return model_shape(m, model_turn(m, y, 0, 2, 1, 3), 3, flat);
}

static keel_value model_layer_norm(modelling *m, keel_value x) {
  const keel_attr axis = KEEL_INT("axis", -1);
  return model_op(m, "LayerNormalization", &axis, 1, x,
                  model_vector(m, WIDTH, 1), model_vector(m, WIDTH, 0));
}

static keel_value model_gelu(modelling *m, keel_value x) {
  keel_value y = model_two(m, "Div", x, model_number(m, 1.41421356f));
  y = model_two(m, "Add", model_one(m, "Erf", y), model_number(m, 1));
  return model_two(m, "Mul", model_two(m, "Mul", x, y), model_number(m, 0.5f));
}

static void model_bert(modelling *m) {
  const int64_t dims[] = {TEXTS, WORDS_EACH, WIDTH};
  keel_value x = keel_builder_input(m->builder, "x", KD_F32, 3, dims);
  for (int layer = 0; layer < 2; layer++) {
    keel_value all[3];
    for (int i = 0; i < 3; i++)
      all[i] = model_heads(m, model_linear(m, x, WIDTH, WIDTH, true),
                           WORDS_EACH, i == 1);
    keel_value y =
        model_attend(m, all[0], all[1], all[2], KEEL_ABSENT, WORDS_EACH);
    y = model_linear(m, y, WIDTH, WIDTH, true);
    x = model_layer_norm(m, model_two(m, "Add", x, y));
    y = model_gelu(m, model_linear(m, x, WIDTH, 2 * WIDTH, true));
    y = model_linear(m, y, 2 * WIDTH, WIDTH, true);
    x = model_layer_norm(m, model_two(m, "Add", x, y));
  }
  keel_builder_output(m->builder, "y", x);
}

/* ---- a step of Llama, with its cache ------------------------------------------------------------ */

enum { BEFORE = 5, NOW = 2, LAYERS = 2, VOCABULARY = 40 };

static keel_value model_rms_norm(modelling *m, keel_value x) {
  const keel_attr axis = KEEL_INT("axis", -1);
  return model_op(m, "RMSNormalization", &axis, 1, x, model_vector(m, WIDTH, 1),
                  KEEL_ABSENT);
}

static keel_value model_half(modelling *m, keel_value x, int64_t from,
                             int64_t to) {
  const int64_t last = 3;
  const keel_value inputs[] = {x, model_ints(m, 1, &from),
                               model_ints(m, 1, &to), model_ints(m, 1, &last)};
  return keel_builder_op(m->builder, "Slice", NULL, 0, inputs, 4);
}

/* Rotary positions: x cos + turned x sin. */
static keel_value model_rotate(modelling *m, keel_value x, keel_value cosine,
                               keel_value sine) {
  const keel_attr axis = KEEL_INT("axis", -1);
  keel_value first = model_half(m, x, 0, HEAD / 2);
  keel_value second = model_one(m, "Neg", model_half(m, x, HEAD / 2, HEAD));
  keel_value turned =
      model_op(m, "Concat", &axis, 1, second, first, KEEL_ABSENT);
  return model_two(m, "Add", model_two(m, "Mul", x, cosine),
                   model_two(m, "Mul", turned, sine));
}

static keel_value model_table(modelling *m, bool sine) {
  const int64_t dims[] = {1, 1, NOW, HEAD};
  float data[NOW * HEAD];
  for (int t = 0; t < NOW; t++)
    for (int i = 0; i < HEAD; i++) {
      double angle = (BEFORE + t) * pow(10000, -(i % (HEAD / 2)) / 4.0);
      data[t * HEAD + i] = (float)(sine ? sin(angle) : cos(angle));
    }
  return model_constant(m, KD_F32, 4, dims, data);
}

static keel_value model_causal(modelling *m) {
  const int64_t dims[] = {1, 1, NOW, BEFORE + NOW};
  float data[NOW * (BEFORE + NOW)];
  for (int t = 0; t < NOW; t++)
    for (int k = 0; k < BEFORE + NOW; k++)
      data[t * (BEFORE + NOW) + k] = k > BEFORE + t ? -1e9f : 0;
  return model_constant(m, KD_F32, 4, dims, data);
}

/* What was kept of a layer, and what is new; the whole is an output. */
static keel_value model_cache(modelling *m, int layer, const char *what,
                              keel_value x) {
  const int64_t dims[] = {1, HEADS, BEFORE, HEAD};
  const keel_attr axis = KEEL_INT("axis", 2);
  char past[32], present[32];
  snprintf(past, sizeof past, "past.%d.%s", layer, what);
  snprintf(present, sizeof present, "present.%d.%s", layer, what);
  keel_value before = keel_builder_input(m->builder, past, KD_F32, 4, dims);
  keel_value all = model_op(m, "Concat", &axis, 1, before, x, KEEL_ABSENT);
  keel_builder_output(m->builder, present, all);
  return all;
}

static void model_llama(modelling *m) {
  const int64_t dims[] = {1, NOW}, table[] = {VOCABULARY, WIDTH};
  keel_value ids = keel_builder_input(m->builder, "ids", KD_I64, 2, dims);
  keel_value x = model_two(m, "Gather", model_weights(m, 2, table, false), ids);
  keel_value cosine = model_table(m, false), sine = model_table(m, true);
  keel_value mask = model_causal(m);
  for (int layer = 0; layer < LAYERS; layer++) {
    keel_value normed = model_rms_norm(m, x), all[3];
    for (int i = 0; i < 3; i++)
      all[i] = model_heads(m, model_linear(m, normed, WIDTH, WIDTH, false), NOW,
                           false);
    all[0] = model_rotate(m, all[0], cosine, sine);
    keel_value keys =
        model_cache(m, layer, "key", model_rotate(m, all[1], cosine, sine));
    keel_value values = model_cache(m, layer, "value", all[2]);
    keel_value y = model_attend(m, all[0], model_turn(m, keys, 0, 1, 3, 2),
                                values, mask, NOW);
    x = model_two(m, "Add", x, model_linear(m, y, WIDTH, WIDTH, false));
    normed = model_rms_norm(m, x);
    keel_value gate = model_linear(m, normed, WIDTH, 2 * WIDTH, false);
    gate = model_two(m, "Mul", gate, model_one(m, "Sigmoid", gate));
    keel_value up = model_linear(m, normed, WIDTH, 2 * WIDTH, false);
    y = model_linear(m, model_two(m, "Mul", gate, up), 2 * WIDTH, WIDTH, false);
    x = model_two(m, "Add", x, y);
  }
  keel_builder_output(
      m->builder, "logits",
      model_linear(m, model_rms_norm(m, x), WIDTH, VOCABULARY, false));
}

/* ---- a step in the form of onnxruntime-genai: weights in 4 bits, attention as one op ------------- */

enum { WIDE = 64, BLOCK = 16, PLACES = WIDE / HEADS };

/* Codes of 4 bits, of which 8 is 0; whole: each column picks one input. */
static keel_value model_few_bits(modelling *m, keel_value x, int64_t in,
                                 int64_t out) {
  const int64_t packed[] = {out, in / BLOCK, BLOCK / 2},
                each[] = {out, in / BLOCK};
  size_t count = (size_t)(in * out) / 2, scales = (size_t)(in * out) / BLOCK;
  uint8_t *codes = malloc(count);
  float *scale = malloc(scales * sizeof *scale);
  if (!codes || !scale) m->status = KD_OUT_OF_MEMORY;
  for (size_t i = 0; codes && i < count; i++)
    codes[i] = m->real ? (uint8_t)next_random(m) : 0x88;
  for (int64_t o = 0; codes && !m->real && o < out; o++) {
    int64_t pick = (int64_t)(next_random(m) % (uint64_t)in), at = o * in + pick;
    uint8_t code = next_random(m) % 4 ? 9 : 7;
    codes[at / 2] = (uint8_t)(at % 2 ? code << 4 | 8 : 0x80 | code);
  }
  for (size_t i = 0; scale && i < scales; i++)
    scale[i] = m->real ? 0.02f + 0.001f * (float)(next_random(m) % 8) : 1;
  const keel_value inputs[] = {x, model_constant(m, KD_U8, 3, packed, codes),
                               model_constant(m, KD_F32, 2, each, scale)};
  const keel_attr attrs[] = {KEEL_INT("K", in), KEEL_INT("N", out),
                             KEEL_INT("bits", 4),
                             KEEL_INT("block_size", BLOCK)};
  free(codes);
  free(scale);
  return keel_builder_op(m->builder, "com.microsoft::MatMulNBits", attrs, 4,
                         inputs, 3);
}

/* The norm of x + more, and that sum. */
static keel_value model_skip_norm(modelling *m, keel_value x, keel_value more,
                                  keel_value *out_sum) {
  const keel_value inputs[] = {x, more, model_vector(m, WIDE, 1)};
  keel_value outputs[4] = {0};
  keel_builder_op_n(m->builder,
                    "com.microsoft::SkipSimplifiedLayerNormalization", NULL, 0,
                    inputs, 3, outputs, 4);
  *out_sum = outputs[3];
  return outputs[0];
}

static keel_value model_grouped(modelling *m, keel_value x, int layer) {
  const int64_t cache[] = {1, HEADS, BEFORE, PLACES}, one = 1;
  const int32_t last = BEFORE + NOW - 1, total = BEFORE + NOW;
  keel_value inputs[7], outputs[3];
  for (int i = 0; i < 3; i++)
    inputs[i] = model_few_bits(m, x, WIDE, WIDE);
  for (int i = 0; i < 2; i++) {
    char name[32];
    snprintf(name, sizeof name, "past.%d.%s", layer, i ? "value" : "key");
    inputs[3 + i] = keel_builder_input(m->builder, name, KD_F32, 4, cache);
  }
  inputs[5] = model_constant(m, KD_I32, 1, &one, &last);
  inputs[6] = model_constant(m, KD_I32, 0, NULL, &total);
  const keel_attr attrs[] = {KEEL_INT("num_heads", HEADS),
                             KEEL_INT("kv_num_heads", HEADS)};
  keel_builder_op_n(m->builder, "com.microsoft::GroupQueryAttention", attrs, 2,
                    inputs, 7, outputs, 3);
  for (int i = 0; i < 2; i++) {
    char name[32];
    snprintf(name, sizeof name, "present.%d.%s", layer, i ? "value" : "key");
    keel_builder_output(m->builder, name, outputs[1 + i]);
  }
  return model_few_bits(m, outputs[0], WIDE, WIDE);
}

static void model_genai(modelling *m) {
  const int64_t dims[] = {1, NOW, WIDE};
  keel_value x = keel_builder_input(m->builder, "x", KD_F32, 3, dims), sum = x;
  keel_value normed = model_op(m, "SimplifiedLayerNormalization", NULL, 0, x,
                               model_vector(m, WIDE, 1), KEEL_ABSENT);
  for (int layer = 0; layer < LAYERS; layer++) {
    keel_value y = model_grouped(m, normed, layer);
    normed = model_skip_norm(m, sum, y, &sum);
    y = model_few_bits(m, normed, WIDE, 2 * WIDE);
    y = model_few_bits(m, model_one(m, "Relu", y), 2 * WIDE, WIDE);
    normed = model_skip_norm(m, sum, y, &sum);
  }
  keel_builder_output(m->builder, "y", normed);
}

/* ---- all -------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  void (*build)(modelling *m);
} split_models[] = {{"resnet", model_resnet},
                    {"bert", model_bert},
                    {"llama", model_llama},
                    {"genai", model_genai}};

static inline keel_status split_model(keel_context *runtime, size_t index,
                                      bool real, keel_program **out_program) {
  modelling m = {.context = runtime, .real = real, .random = 1};
  keel_status status =
      keel_builder_create(runtime, split_models[index].name, &m.builder);
  if (status != KD_OK) return status;
  split_models[index].build(&m);
  status = m.status;
  if (status == KD_OK) status = keel_builder_finish(m.builder, out_program);
  keel_builder_destroy(m.builder);
  return status;
}

/* An input of the model: small whole numbers. */
static inline keel_status split_input(keel_context *runtime,
                                      const keel_port *port,
                                      keel_tensor **out_tensor) {
  size_t count = 1, each = port->dtype == KD_I64 ? 8 : 4;
  for (uint32_t i = 0; i < port->rank; i++)
    count *= (size_t)port->dims[i];
  void *data = malloc(count * each);
  if (!data) return KD_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    int number = (int)(i * 11 % 7);
    if (port->dtype == KD_I64)
      ((int64_t *)data)[i] = number;
    else
      ((float *)data)[i] = (float)(number - 3);
  }
  keel_status status = keel_tensor_create(runtime, port->dtype, port->rank,
                                          port->dims, data, out_tensor);
  free(data);
  return status;
}

#endif /* KEEL_TESTS_SPLIT_MODELS_H */
