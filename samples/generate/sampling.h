/* sampling.h - the next token, out of a model's logits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GENERATE_SAMPLING_H
#define GENERATE_SAMPLING_H

#include <stdint.h>

typedef struct sampling {
  float temperature; /* 0: the most likely token, always */
  float
      top_p; /* of the most likely tokens, those that come to this are drawn from */
  uint64_t state;
} sampling;

/* -1: no memory. `logits` are `count` numbers, of which NaN counts as the least. */
int64_t sample(sampling *how, const float *logits, int64_t count);

#endif /* GENERATE_SAMPLING_H */
