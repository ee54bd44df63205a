/* model.c - a Llama-type model, layer by layer, with seeded random weights.
 *
 * What it says means nothing; its work is that of a real one: grouped heads with rotary
 * positions and a cache, RMS norms, a gated feed-forward part, weights of 4 bits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS "com.microsoft::"

typedef struct making {
  keel_context *context;
  keel_builder *builder;
  const model_sizes *sizes;
  uint64_t state;
  keel_status status; /* of tensors: the builder keeps that of values */
} making;

/* ---- sizes ------------------------------------------------------------------------------- */

/* ",layers=4,vocab=500": changes of the sizes. */
static int read_changes(const char *at, model_sizes *out) {
  const struct {
    const char *name;
    int64_t *value, most;
  } fields[] = {
      {"layers", &out->layers, 1000},   {"hidden", &out->hidden, 1 << 16},
      {"heads", &out->heads, 1 << 10},  {"kv_heads", &out->kv_heads, 1 << 10},
      {"ffn", &out->ffn, 1 << 18},      {"vocab", &out->vocab, 1 << 20},
      {"block", &out->block, 1 << 10},  {"accuracy", &out->accuracy, 4},
      {"places", &out->places, 1 << 20}};
  while (*at) {
    const char *name = at + 1;
    size_t i = 0, count = sizeof fields / sizeof *fields;
    size_t length = strcspn(name, "=,");
    while (i < count && (strlen(fields[i].name) != length ||
                         strncmp(fields[i].name, name, length) != 0))
      i++;
    char *end = NULL;
    long long value =
        name[length] == '=' ? strtoll(name + length + 1, &end, 10) : 0;
    if (i == count || !end || end == name + length + 1 ||
        (*end && *end != ',') || value < 1 || value > fields[i].most) {
      fprintf(stderr,
              "generate: \"%s\" is no size: layers, hidden, heads, kv_heads,"
              " ffn, vocab, block, accuracy and places have one each, as"
              " layers=4\n",
              name);
      return 0;
    }
    *fields[i].value = value;
    at = end;
  }
  return 1;
}

int model_read_sizes(const char *text, model_sizes *out) {
  static const model_sizes half = {16, 1536, 16, 4, 4096, 32000, 32, 4, 8192};
  static const model_sizes tiny = {2, 64, 4, 2, 128, 256, 32, 4, 512};
  size_t size = strcspn(text, ",");
  int is_half = size == 4 && !strncmp(text, "0.5b", 4);
  if (!is_half && !(size == 4 && !strncmp(text, "tiny", 4))) {
    fprintf(stderr, "generate: there is no model \"%.*s\": 0.5b, tiny\n",
            (int)size, text);
    return 0;
  }
  *out = is_half ? half : tiny;
  if (!read_changes(text + size, out)) return 0;
  if (out->hidden % out->heads || out->heads % out->kv_heads ||
      out->hidden / out->heads % 16) {
    fprintf(stderr,
            "generate: heads must divide hidden into parts of 16, 32 ... and"
            " kv_heads must divide heads: not %lld, %lld and %lld\n",
            (long long)out->heads, (long long)out->hidden,
            (long long)out->kv_heads);
    return 0;
  }
  return 1;
}

/* ---- random weights ---------------------------------------------------------------------- */

/* SplitMix64 */
static uint64_t next(making *m) {
  uint64_t z = (m->state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static float uniform(making *m) {
  return (float)(next(m) >> 40) * 0x1p-24f;
}

static keel_value constant(making *m, kd_dtype dtype, uint32_t rank,
                           const int64_t *dims, const void *data) {
  keel_tensor *tensor = NULL;
  if (m->status != KD_OK) return KEEL_ABSENT;
  m->status = keel_tensor_create(m->context, dtype, rank, dims, data, &tensor);
  keel_value value = m->status == KD_OK
                         ? keel_builder_constant(m->builder, tensor)
                         : KEEL_ABSENT;
  keel_tensor_release(tensor);
  return value;
}

/* Numbers in [low, low + range). */
static keel_value floats(making *m, uint32_t rank, const int64_t *dims,
                         float low, float range) {
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= dims[i];
  float *data = malloc((size_t)count * sizeof *data);
  if (!data) m->status = KD_OUT_OF_MEMORY;
  for (int64_t i = 0; data && i < count; i++)
    data[i] = low + range * uniform(m);
  keel_value value = data ? constant(m, KD_F32, rank, dims, data) : KEEL_ABSENT;
  free(data);
  return value;
}

static keel_value bytes(making *m, uint32_t rank, const int64_t *dims) {
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= dims[i];
  size_t words = (size_t)count / 8 + 1;
  uint64_t *data = malloc(words * sizeof *data);
  if (!data) m->status = KD_OUT_OF_MEMORY;
  for (size_t i = 0; data && i < words; i++)
    data[i] = next(m);
  keel_value value = data ? constant(m, KD_U8, rank, dims, data) : KEEL_ABSENT;
  free(data);
  return value;
}

/* ---- parts -------------------------------------------------------------------------------- */

static keel_value two(making *m, const char *op, keel_value a, keel_value b) {
  const keel_value inputs[] = {a, b};
  return keel_builder_op(m->builder, op, NULL, 0, inputs,
                         b == KEEL_ABSENT ? 1 : 2);
}

/* x times n columns of k weights, whose results are about as large as x. */
static keel_value matmul(making *m, keel_value x, int64_t k, int64_t n) {
  int64_t block = m->sizes->block, blocks = (k + block - 1) / block;
  const int64_t packed[] = {n, blocks, block / 2}, each[] = {n, blocks};
  float scale = 1 / (4.6f * sqrtf((float)k)); /* 4.6: deviation of -8 .. 7 */
  const keel_value inputs[] = {x, bytes(m, 3, packed),
                               floats(m, 2, each, 0.9f * scale, 0.2f * scale)};
  const keel_attr attrs[] = {KEEL_INT("K", k), KEEL_INT("N", n),
                             KEEL_INT("bits", 4), KEEL_INT("block_size", block),
                             KEEL_INT("accuracy_level", m->sizes->accuracy)};
  return keel_builder_op(m->builder, MS "MatMulNBits", attrs, 5, inputs, 3);
}

/* The norm of x + more, and that sum. */
static keel_value norm(making *m, keel_value x, keel_value more,
                       keel_value *out_sum) {
  const keel_attr epsilon = KEEL_FLOAT("epsilon", 1e-5f);
  keel_value scale = floats(m, 1, &m->sizes->hidden, 0.9f, 0.2f);
  const keel_value inputs[] = {x, more, scale};
  keel_value outputs[4] = {0};
  if (more == KEEL_ABSENT) {
    const keel_value alone[] = {x, scale};
    *out_sum = x;
    return keel_builder_op(m->builder, "SimplifiedLayerNormalization", &epsilon,
                           1, alone, 2);
  }
  keel_builder_op_n(m->builder, MS "SkipSimplifiedLayerNormalization", &epsilon,
                    1, inputs, 3, outputs, 4);
  *out_sum = outputs[3];
  return outputs[0];
}

typedef struct shared {
  keel_value lengths, total, cos, sin; /* of all layers */
} shared;

static keel_value attention(making *m, keel_value x, const shared *s,
                            int64_t layer) {
  const model_sizes *sizes = m->sizes;
  int64_t size = sizes->hidden / sizes->heads, kv = size * sizes->kv_heads;
  const int64_t cache[] = {1, sizes->kv_heads, -1, size};
  char name[64];
  keel_value inputs[9], outputs[3];
  inputs[0] = matmul(m, x, sizes->hidden, sizes->hidden);
  inputs[1] = matmul(m, x, sizes->hidden, kv);
  inputs[2] = matmul(m, x, sizes->hidden, kv);
  for (int i = 0; i < 2; i++) {
    snprintf(name, sizeof name, "past_key_values.%lld.%s", (long long)layer,
             i ? "value" : "key");
    inputs[3 + i] = keel_builder_input(m->builder, name, KD_F32, 4, cache);
  }
  inputs[5] = s->lengths;
  inputs[6] = s->total;
  inputs[7] = s->cos;
  inputs[8] = s->sin;
  const keel_attr attrs[] = {KEEL_INT("num_heads", sizes->heads),
                             KEEL_INT("kv_num_heads", sizes->kv_heads),
                             KEEL_INT("do_rotary", 1)};
  keel_builder_op_n(m->builder, MS "GroupQueryAttention", attrs, 3, inputs, 9,
                    outputs, 3);
  for (int i = 0; i < 2; i++) {
    snprintf(name, sizeof name, "present.%lld.%s", (long long)layer,
             i ? "value" : "key");
    keel_builder_output(m->builder, name, outputs[1 + i]);
  }
  return matmul(m, outputs[0], sizes->hidden, sizes->hidden);
}

static keel_value feed_forward(making *m, keel_value x) {
  int64_t hidden = m->sizes->hidden, ffn = m->sizes->ffn;
  keel_value gate = matmul(m, x, hidden, ffn);
  keel_value up = matmul(m, x, hidden, ffn);
  gate = two(m, "Mul", gate, two(m, "Sigmoid", gate, KEEL_ABSENT));
  return matmul(m, two(m, "Mul", gate, up), ffn, hidden);
}

static keel_value cast(making *m, keel_value x, int64_t to) {
  const keel_attr attr = KEEL_INT("to", to);
  return keel_builder_op(m->builder, "Cast", &attr, 1, &x, 1);
}

static keel_value integer(making *m, int64_t value) {
  const int64_t one = 1;
  return constant(m, KD_I64, 1, &one, &value);
}

/* How many keys there are, less one, and how many there can be at most. */
static void read_mask(making *m, keel_value mask, shared *s) {
  enum { I32 = 6 }; /* ONNX's number */
  keel_value one = integer(m, 1);
  const keel_attr flat = KEEL_INT("keepdims", 0);
  const keel_value sum[] = {mask, one};
  keel_value count = keel_builder_op(m->builder, "ReduceSum", &flat, 1, sum, 2);
  s->lengths = cast(m, two(m, "Sub", count, one), I32);
  const keel_attr second = KEEL_INT("start", 1);
  keel_value length =
      keel_builder_op(m->builder, "Shape", &second, 1, &mask, 1);
  s->total = cast(m, two(m, "Squeeze", length, KEEL_ABSENT), I32);
}

static void make_tables(making *m, shared *s) {
  int64_t half = m->sizes->hidden / m->sizes->heads / 2;
  const int64_t dims[] = {m->sizes->places, half};
  size_t count = (size_t)(dims[0] * half);
  float *cos_ = malloc(2 * count * sizeof *cos_), *sin_ = cos_ + count;
  if (!cos_) {
    m->status = KD_OUT_OF_MEMORY;
    return;
  }
  for (int64_t p = 0; p < dims[0]; p++)
    for (int64_t i = 0; i < half; i++) {
      double angle = (double)p * pow(10000, -(double)i / (double)half);
      cos_[p * half + i] = (float)cos(angle);
      sin_[p * half + i] = (float)sin(angle);
    }
  s->cos = constant(m, KD_F32, 2, dims, cos_);
  s->sin = constant(m, KD_F32, 2, dims, sin_);
  free(cos_);
}

/* The last row only: the next token is all that anybody asks for. */
static keel_value last_row(making *m, keel_value x) {
  const keel_value inputs[] = {x, integer(m, -1), integer(m, INT64_MAX),
                               integer(m, 1)};
  return keel_builder_op(m->builder, "Slice", NULL, 0, inputs, 4);
}

static void build(making *m) {
  const model_sizes *sizes = m->sizes;
  const int64_t open[] = {1, -1}, table[] = {sizes->vocab, sizes->hidden};
  shared s = {0};
  keel_value ids = keel_builder_input(m->builder, "input_ids", KD_I64, 2, open);
  keel_value mask =
      keel_builder_input(m->builder, "attention_mask", KD_I64, 2, open);
  read_mask(m, mask, &s);
  make_tables(m, &s);
  keel_value x = two(m, "Gather", floats(m, 2, table, -1.7f, 3.4f), ids);
  keel_value more = KEEL_ABSENT;
  for (int64_t i = 0; i < sizes->layers && m->status == KD_OK; i++) {
    keel_value normed = norm(m, x, more, &x);
    more = attention(m, normed, &s, i);
    normed = norm(m, x, more, &x);
    more = feed_forward(m, normed);
  }
  keel_value normed = norm(m, x, more, &x);
  keel_builder_output(
      m->builder, "logits",
      matmul(m, last_row(m, normed), sizes->hidden, sizes->vocab));
}

keel_status model_build(keel_context *context, const model_sizes *sizes,
                        uint64_t seed, keel_program **out_program) {
  making m = {.context = context, .sizes = sizes, .state = seed};
  keel_status status = keel_builder_create(context, "random", &m.builder);
  if (status != KD_OK) return status;
  build(&m);
  status = m.status == KD_OK ? keel_builder_finish(m.builder, out_program)
                             : m.status;
  keel_builder_destroy(m.builder);
  return status;
}
