/* random_bits.c - keel::RngBitGenerator: bits from a key and a counter, by Threefry-2x32 of 20
 * rounds or Philox-4x32 of 10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011), laid out as XLA lays them out. Each piece of the output has a count of its own, so
 * that threads share them. */
#include "kernels.h"

typedef struct bits_work {
  uint32_t key[2];
  uint64_t low, high; /* the counter */
  char *y;
  size_t size;   /* bytes of an element */
  int64_t count; /* elements */
  /* Threefry of up to 32 bits: a count gives two neighbours in one dimension, of `length`
   * elements, in front of which there are `outer` and behind which `inner` */
  int64_t outer, length, inner;
} bits_work;

static inline uint32_t random_bits_turn(uint32_t x, int by) {
  return x << by | x >> (32 - by);
}

static void threefry(const uint32_t key[2], uint64_t count, uint32_t out[2]) {
  static const int by[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {key[0], key[1],
                            UINT32_C(0x1BD11BDA) ^ key[0] ^ key[1]};
  uint32_t a = (uint32_t)count + keys[0];
  uint32_t b = (uint32_t)(count >> 32) + keys[1];
  for (uint32_t group = 0; group < 5; group++) {
    for (int i = 0; i < 4; i++) {
      a += b;
      b = random_bits_turn(b, by[group % 2][i]) ^ a;
    }
    a += keys[(group + 1) % 3];
    b += keys[(group + 2) % 3] + group + 1;
  }
  out[0] = a;
  out[1] = b;
}

static void philox(const uint32_t key[2], uint64_t low, uint64_t high,
                   uint32_t out[4]) {
  uint32_t k0 = key[0], k1 = key[1];
  uint32_t x[4] = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high,
                   (uint32_t)(high >> 32)};
  for (int round = 0; round < 10; round++) {
    uint64_t first = (uint64_t)x[0] * UINT32_C(0xD2511F53);
    uint64_t second = (uint64_t)x[2] * UINT32_C(0xCD9E8D57);
    x[0] = (uint32_t)(second >> 32) ^ x[1] ^ k0;
    x[1] = (uint32_t)second;
    x[2] = (uint32_t)(first >> 32) ^ x[3] ^ k1;
    x[3] = (uint32_t)first;
    k0 += UINT32_C(0x9E3779B9);
    k1 += UINT32_C(0xBB67AE85);
  }
  memcpy(out, x, sizeof x);
}

/* The low bits of a number as one element. */
static inline void random_bits_put(const bits_work *work, int64_t at,
                                   uint64_t bits) {
  const uint8_t one = (uint8_t)bits;
  const uint16_t two = (uint16_t)bits;
  const uint32_t four = (uint32_t)bits;
  char *to = work->y + (size_t)at * work->size;
  switch (work->size) {
    case 1:
      memcpy(to, &one, sizeof one);
      break;
    case 2:
      memcpy(to, &two, sizeof two);
      break;
    case 4:
      memcpy(to, &four, sizeof four);
      break;
    default:
      memcpy(to, &bits, sizeof bits);
  }
}

static inline uint64_t pair(const uint32_t *x) {
  return x[0] | (uint64_t)x[1] << 32;
}

static void wide_threefry(void *context, int64_t begin, int64_t end) {
  const bits_work *work = context;
  uint32_t x[2];
  for (int64_t i = begin; i < end; i++) {
    threefry(work->key, work->low + (uint64_t)i, x);
    random_bits_put(work, i, pair(x));
  }
}

static void narrow_threefry(void *context, int64_t begin, int64_t end) {
  const bits_work *work = context;
  int64_t half = (work->length + 1) / 2;
  uint32_t x[2];
  for (int64_t i = begin; i < end; i++) {
    int64_t line = i / work->inner, outer = line / half;
    int64_t first = line % half * 2;
    int64_t at = (outer * work->length + first) * work->inner + i % work->inner;
    threefry(work->key, work->low + (uint64_t)i, x);
    random_bits_put(work, at, x[0]);
    if (first + 1 < work->length) random_bits_put(work, at + work->inner, x[1]);
  }
}

/* Each count gives 16 bytes, or four narrow elements. */
static void run_philox(void *context, int64_t begin, int64_t end) {
  const bits_work *work = context;
  int64_t each = work->size == 8 ? 2 : 4;
  uint32_t x[4];
  for (int64_t i = begin; i < end; i++) {
    uint64_t low = work->low + (uint64_t)i;
    philox(work->key, low, work->high + (low < work->low), x);
    for (int64_t k = 0; k < each && i * each + k < work->count; k++)
      random_bits_put(work, i * each + k, each == 2 ? pair(&x[2 * k]) : x[k]);
  }
}

/* The first even dimension, or else the first of the longest. */
static void random_bits_split(bits_work *work, const kd_tensor *y) {
  uint32_t at = 0;
  for (uint32_t i = 1; i < y->rank; i++)
    if (y->dims[i] > y->dims[at]) at = i;
  for (uint32_t i = y->rank; i-- > 0;)
    if (y->dims[i] % 2 == 0) at = i;
  work->outer = work->length = work->inner = 1;
  for (uint32_t i = 0; i < y->rank; i++)
    *(i < at    ? &work->outer
      : i == at ? &work->length
                : &work->inner) *= y->dims[i];
}

/* How many counts the output takes. */
static int64_t counts(bits_work *work, const kd_tensor *y, bool by_threefry) {
  if (!by_threefry && work->size == 8) return (work->count + 1) / 2;
  if (!by_threefry) return (work->count + 3) / 4;
  if (work->size == 8) return work->count;
  random_bits_split(work, y);
  return work->outer * ((work->length + 1) / 2) * work->inner;
}

CPU_KERNEL(cpu_run_random_bits) {
  const kd_tensor *state = &launch->inputs[0], *y = &launch->outputs[1];
  bool by_threefry =
      !strcmp(attr_string(launch, "algorithm", "philox"), "threefry");
  uint64_t from[3] = {0}, *next = launch->outputs[0].data;
  bool wide = state->dims[0] == 3;
  memcpy(from, state->data, wide ? 24 : 16);
  /* a counter of 128 bits has the key above it, where the state has but two numbers */
  bits_work work = {.key = {(uint32_t)from[0], (uint32_t)(from[0] >> 32)},
                    .low = from[1],
                    .high = wide ? from[2] : from[0],
                    .y = y->data,
                    .size = kd_dtype_size(y->dtype),
                    .count = kd_elements(y)};
  int64_t used = counts(&work, y, by_threefry);
  cpu_host->parallel_for(cpu_host, used, CPU_GRAIN / 16,
                         !by_threefry     ? run_philox
                         : work.size == 8 ? wide_threefry
                                          : narrow_threefry,
                         &work);
  from[1] += (uint64_t)used;
  from[2] += from[1] < (uint64_t)used;
  if (next) memcpy(next, from, wide ? 24 : 16);
  return KD_OK;
}
