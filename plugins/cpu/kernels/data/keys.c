/* keys.c - elements in order: keys, sorted by their digits. */
#include "keys.h"

#include "dialect.h"

/* ---- keys -------------------------------------------------------------------- */

/* without branches: signs are not foreseen */
static inline uint32_t key_of_float(float x) {
  uint32_t bits = float_bits(x + 0.0F), sign = bits >> 31;
  bits ^= (uint32_t) - (int32_t)sign | 0x80000000u;
  return x != x ? UINT32_MAX : bits;
}

static inline uint64_t key_of_double(double x) {
  uint64_t bits = 0;
  double plain = x + 0.0; /* no zero has a sign */
  memcpy(&bits, &plain, sizeof bits);
  bits ^= (uint64_t) - (int64_t)(bits >> 63) | UINT64_C(1) << 63;
  return x != x ? UINT64_MAX : bits;
}

#define BLOCK 16
#define EACH  "data/keys_typed.h"

/* what keys of a type are computed as */
typedef uint32_t K_f32, K_f16, K_bf16, K_i8, K_u8, K_i16, K_u16, K_i32, K_u32;
typedef uint64_t K_f64, K_i64, K_u64;
#define K      JOINED(K_, TYPE)
#define KEY(x) _Generic((x), float : key_of_float, double : key_of_double)(x)
#include "each_float.h"
#undef KEY
/* of integers the sign's bit is all that is in the way */
#define KEY(x) ((K)(x) ^ (K)((C)-1 < (C)1) << (sizeof(K) * 8 - 1))
#include "each_int.h"
#undef KEY
#undef K

typedef void (*fill_loop)(const void *x, int64_t step, int64_t n, uint64_t flip,
                          cpu_key *out);
typedef int64_t (*pick_loop)(const void *x, int64_t step, int64_t n,
                             uint64_t flip, uint64_t limit, int64_t most,
                             int64_t *at, cpu_key *out);
static const fill_loop fills[KD_DTYPE_COUNT] = {
    FLOAT_TABLE(fill), INT_TABLE(fill), [KD_BOOL] = fill_u8};
static const pick_loop picks[KD_DTYPE_COUNT] = {
    FLOAT_TABLE(pick), INT_TABLE(pick), [KD_BOOL] = pick_u8};

void cpu_keys_of(const void *x, kd_dtype dtype, int64_t step, int64_t n,
                 bool descend, cpu_key *out) {
  fills[dtype](x, step, n, descend ? UINT64_MAX : 0, out);
}

/* ---- sorting ------------------------------------------------------------------- */

#define FEW    64   /* are sorted by insertion */
#define MANY   2048 /* are worth a table of wide digits */
#define WIDEST 11   /* bits of a digit */

static void insert_all(cpu_key *keys, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    cpu_key one = keys[i];
    int64_t to = i;
    for (; to > 0 && keys[to - 1].key > one.key; to--)
      keys[to] = keys[to - 1];
    keys[to] = one;
  }
}

/* By one digit. */
static void deal(const cpu_key *from, cpu_key *to, int64_t n, int shift,
                 uint64_t mask) {
  int64_t places[1 << WIDEST];
  memset(places, 0, (size_t)(mask + 1) * sizeof *places);
  for (int64_t i = 0; i < n; i++)
    places[from[i].key >> shift & mask]++;
  for (int64_t digit = 0, at = 0; digit <= (int64_t)mask; digit++) {
    int64_t count = places[digit];
    places[digit] = at;
    at += count;
  }
  for (int64_t i = 0; i < n; i++)
    to[places[from[i].key >> shift & mask]++] = from[i];
}

void cpu_keys_sort(cpu_key *keys, cpu_key *room, int64_t n) {
  uint64_t differ = 0;
  cpu_key *from = keys, *to = room;
  int width = n < MANY ? 8 : WIDEST;
  if (n <= FEW) {
    insert_all(keys, n);
    return;
  }
  for (int64_t i = 1; i < n; i++)
    differ |= keys[i].key ^ keys[0].key;
  for (int shift = 0; shift < 64 && differ >> shift; shift += width) {
    uint64_t mask = (UINT64_C(1) << width) - 1;
    if (!(differ >> shift & mask)) continue;
    deal(from, to, n, shift, mask);
    cpu_key *other = from;
    from = to;
    to = other;
  }
  if (from != keys) memcpy(keys, from, (size_t)n * sizeof *keys);
}

/* ---- the first ones --------------------------------------------------------------- */

int64_t cpu_keys_room(int64_t n, int64_t count) {
  return 2 * count + FEW / 2 < n ? 2 * count + FEW / 2 : n;
}

/* Those that may be among the first are kept, and whenever there is no more room sorted:
 * from then on nothing behind the last of the first ones is looked at again. */
void cpu_keys_first(const void *x, kd_dtype dtype, int64_t step, int64_t n,
                    bool descend, int64_t count, cpu_key *keys, cpu_key *room) {
  uint64_t flip = descend ? UINT64_MAX : 0, limit = UINT64_MAX;
  int64_t most = cpu_keys_room(n, count), have = 0;
  for (int64_t at = 0; at < n && count > 0;) {
    have +=
        picks[dtype](x, step, n, flip, limit, most - have, &at, keys + have);
    cpu_keys_sort(keys, room, have);
    if (have < count) continue;
    have = count;
    if (!keys[count - 1].key) return;
    limit = keys[count - 1].key - 1;
  }
}
