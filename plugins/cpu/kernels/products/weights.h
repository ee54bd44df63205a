/* weights.h - a product's second matrix, packed when the kernel is made. */
#ifndef KEEL_CPU_WEIGHTS_H
#define KEEL_CPU_WEIGHTS_H

#include "cpu.h"

/* Sets the product's k, n and panels to those of a kernel that has packed its weights.
 * False: it has not. */
bool cpu_packed_weights(const kd_kernel *kernel, cpu_gemm *gemm);

/* A MatMul's matrices, of more than one. */
typedef struct cpu_matrices {
  const float *panels;
  int64_t each; /* floats of one matrix */
  uint32_t rank;
  const int64_t *dims; /* as they were before */
} cpu_matrices;

/* False: the kernel has packed a single one, or none. */
bool cpu_packed_matrices(const kd_kernel *kernel, cpu_matrices *out);

/* The dimensions that the weights had; NULL: they are not packed. */
const int64_t *cpu_packed_dims(const kd_kernel *kernel);

/* Elements for each input channel from which on those of a ConvTranspose are packed. */
#define CPU_TRANSPOSE_LEAST 128

#endif /* KEEL_CPU_WEIGHTS_H */
