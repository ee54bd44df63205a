/* sampling.c - greedy and top-p sampling (Holtzman et al., "The Curious Case of Neural Text
 * Degeneration", 2020).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "sampling.h"

#include <math.h>
#include <stdlib.h>

typedef struct choice {
  double weight;
  int64_t token;
} choice;

static int64_t most_likely(const float *logits, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; i++)
    if (logits[i] > logits[best] || isnan(logits[best])) best = i;
  return best;
}

/* The likelier one first; of equals the lower token. */
static int by_weight(const void *a, const void *b) {
  const choice *x = a, *y = b;
  if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
  return x->token < y->token ? -1 : 1;
}

/* In [0, 1), by SplitMix64. */
static double draw(sampling *how) {
  uint64_t z = (how->state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int64_t drawn(sampling *how, const choice *list, int64_t count,
                     double all) {
  double kept = 0, wanted = (double)how->top_p * all;
  int64_t last = 0;
  for (; last < count; last++) {
    kept += list[last].weight;
    if (kept >= wanted) break;
  }
  double at = draw(how) * kept;
  for (int64_t i = 0; i < count && i <= last; i++) {
    at -= list[i].weight;
    if (at < 0) return list[i].token;
  }
  return list[0].token;
}

int64_t sample(sampling *how, const float *logits, int64_t count) {
  int64_t best = most_likely(logits, count);
  if (how->temperature <= 0 || isinf(logits[best]) || isnan(logits[best]))
    return best;
  choice *list = malloc((size_t)count * sizeof *list);
  if (!list) return -1;
  double all = 0;
  for (int64_t i = 0; i < count; i++) {
    double less =
        ((double)logits[i] - (double)logits[best]) / (double)how->temperature;
    list[i] = (choice){isnan(less) ? 0 : exp(less), i};
    all += list[i].weight;
  }
  qsort(list, (size_t)count, sizeof *list, by_weight);
  int64_t token = drawn(how, list, count, all);
  free(list);
  return token;
}
