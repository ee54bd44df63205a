/* tiles.h - matrix products on one thread (tiles.c): equal rows and equal columns give equal
 * bits. */
#ifndef KEEL_CPU_TILES_H
#define KEEL_CPU_TILES_H

#include "cpu.h"

/* C = alpha op(A) op(B) + beta C on the calling thread. Each element is summed in one
 * order, that of k, whatever the sizes and wherever it stands. Returns false where there is
 * no memory. */
typedef struct cpu_tiles {
  bool (*f32)(const cpu_gemm *gemm);
  bool (*f64)(const cpu_gemm *gemm);
  /* All of op(B) into panels of `columns`, each k rows, the last one filled with zeros. */
  void (*pack)(const cpu_gemm *gemm, float *panels);
  int64_t columns; /* of f32; divides 64 */
  /* to[p * width + r] = from[r * step + p] for r < count and p < k */
  void (*turn)(const float *from, int64_t step, int64_t count, int64_t k,
               float *to, int64_t width);
} cpu_tiles;

const cpu_tiles *cpu_tiles_get(void);
extern const cpu_tiles cpu_tiles_base, cpu_tiles_avx2, cpu_tiles_avx512;

#endif /* KEEL_CPU_TILES_H */
