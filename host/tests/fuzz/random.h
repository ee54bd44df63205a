/* random.h - numbers for fuzzing: a generator that a seed fixes, and values that hurt. */
#ifndef KEEL_FUZZ_RANDOM_H
#define KEEL_FUZZ_RANDOM_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fuzz_random {
  uint64_t state;
} fuzz_random;

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) */
static inline uint64_t fuzz_next(fuzz_random *random) {
  uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* In [0, count); 0 where count is. */
static inline uint64_t fuzz_below(fuzz_random *random, uint64_t count) {
  return count ? fuzz_next(random) % count : 0;
}

/* Once in `times`. */
static inline bool fuzz_once_in(fuzz_random *random, uint64_t times) {
  return fuzz_below(random, times) == 0;
}

static inline int64_t fuzz_int(fuzz_random *random) {
  static const int64_t bad[] = {
      0,         1,         -1,        2,          -2,           3,
      7,         8,         16,        17,         31,           32,
      33,        63,        64,        255,        256,          257,
      1000,      -1000,     65535,     65536,      1 << 20,      INT32_MAX,
      INT32_MIN, INT64_MAX, INT64_MIN, UINT32_MAX, INT64_MAX / 2};
  static const int64_t ends[] = {INT64_MAX,     INT64_MIN, INT64_MAX - 1,
                                 INT64_MIN + 1, INT32_MAX, INT32_MIN};
  uint64_t kind = fuzz_below(random, 8);
  if (kind == 5) return ends[fuzz_below(random, sizeof ends / sizeof *ends)];
  if (kind < 3) return (int64_t)fuzz_below(random, 8) - 2;
  if (kind == 3) return (int64_t)fuzz_next(random);
  if (kind == 4) return INT64_C(1) << fuzz_below(random, 63);
  return bad[fuzz_below(random, sizeof bad / sizeof *bad)];
}

static inline double fuzz_real(fuzz_random *random) {
  const double bad[] = {0,
                        -0.0,
                        1,
                        -1,
                        0.5,
                        1e-45,
                        1e38,
                        -1e38,
                        1e300,
                        1e-300,
                        (double)INFINITY,
                        -(double)INFINITY,
                        (double)NAN,
                        2147483648.0,
                        9.3e18,
                        -9.3e18,
                        1e10};
  return fuzz_once_in(random, 3)
             ? (double)(int64_t)fuzz_next(random) / 1e18
             : bad[fuzz_below(random, sizeof bad / sizeof *bad)];
}

#endif /* KEEL_FUZZ_RANDOM_H */
