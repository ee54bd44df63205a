/* model.h - a language model of random weights in 4 bits, as onnxruntime-genai publishes them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GENERATE_MODEL_H
#define GENERATE_MODEL_H

#include <keel/keel.h>

typedef struct model_sizes {
  int64_t layers, hidden, heads, kv_heads, ffn, vocab;
  int64_t block; /* weights that share a scale */
  int64_t
      accuracy; /* of MatMulNBits: 4 lets rows be bytes, 1 keeps them floats */
  int64_t places; /* of rotary tables: the longest text */
} model_sizes;

/* Reads "0.5b", "tiny", or either with changes: "tiny,layers=3". False: says why on stderr. */
int model_read_sizes(const char *text, model_sizes *out);

/* Input and outputs: see generate.c. */
keel_status model_build(keel_context *context, const model_sizes *sizes,
                        uint64_t seed, keel_program **out_program);

#endif /* GENERATE_MODEL_H */
