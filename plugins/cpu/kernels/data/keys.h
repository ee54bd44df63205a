/* keys.h - elements of any type in order, as unsigned numbers. */
#ifndef KEEL_CPU_KEYS_H
#define KEEL_CPU_KEYS_H

#include "cpu.h"

/* An element: keys of one type are ordered as the elements are, NaN behind all, equal
 * elements (both zeros, any two NaNs) having equal keys. */
typedef struct cpu_key {
  uint64_t key;
  int64_t at;
} cpu_key;

/* n elements, `step` apart; at: 0, 1, 2 ... Where they `descend`, the largest has the
 * least key. No complex numbers. */
void cpu_keys_of(const void *x, kd_dtype dtype, int64_t step, int64_t n,
                 bool descend, cpu_key *out);

/* Sorts by key, those of equal keys as they stood. `room` is of n, too. */
void cpu_keys_sort(cpu_key *keys, cpu_key *room, int64_t n);

/* The first `count` of n elements in order, equal ones by their places; `keys` and `room` are
 * of cpu_keys_room elements each. */
void cpu_keys_first(const void *x, kd_dtype dtype, int64_t step, int64_t n,
                    bool descend, int64_t count, cpu_key *keys, cpu_key *room);
int64_t cpu_keys_room(int64_t n, int64_t count);

#endif /* KEEL_CPU_KEYS_H */
