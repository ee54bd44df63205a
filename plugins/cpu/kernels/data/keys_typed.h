/* keys_typed.h - keys.c's loops for one element type, S in memory: KEY(x) is x as an unsigned
 * integer of type K in the order of elements. */

static void NAMED(fill)(const void *from, int64_t step, int64_t n,
                        uint64_t flip, cpu_key *out) {
  const S *x = from;
  for (int64_t i = 0; i < n; i++)
    out[i] = (cpu_key){(K)(KEY(LOAD(x[i * step])) ^ (K)flip), i};
}

/* Whether one of a block of elements has a key up to `limit`; their keys. */
static inline bool NAMED(look)(const S *x, int64_t step, K flip, K limit,
                               K *keys) {
  K best = (K)-1;
  if (step == 1)
    for (int i = 0; i < BLOCK; i++)
      keys[i] = KEY(LOAD(x[i])) ^ flip;
  else
    for (int i = 0; i < BLOCK; i++)
      keys[i] = KEY(LOAD(x[i * step])) ^ flip;
  for (int i = 0; i < BLOCK; i++)
    best = keys[i] < best ? keys[i] : best;
  return best <= limit;
}

/* Those of keys up to `limit`, from *at on, until there are `most`; returns how many. */
static int64_t NAMED(pick)(const void *from, int64_t step, int64_t n,
                           uint64_t flip, uint64_t limit, int64_t most,
                           int64_t *at, cpu_key *out) {
  const S *x = from;
  int64_t count = 0, i = *at;
  K keys[BLOCK];
  while (i < n && count < most) {
    bool whole = n - i >= BLOCK && most - count >= BLOCK;
    int64_t end = i + (whole ? BLOCK : 1);
    if (whole) {
      if (!NAMED(look)(x + i * step, step, (K)flip, (K)limit, keys)) {
        i = end;
        continue;
      }
    } else {
      keys[0] = KEY(LOAD(x[i * step])) ^ (K)flip;
    }
    for (int k = 0; i < end; i++, k++)
      if (keys[k] <= (K)limit) out[count++] = (cpu_key){keys[k], i};
  }
  *at = i;
  return count;
}
