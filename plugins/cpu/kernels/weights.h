/* weights.h - a product's second matrix, packed when the kernel is made. */
#ifndef KEEL_CPU_WEIGHTS_H
#define KEEL_CPU_WEIGHTS_H

#include "cpu.h"

/* Sets the product's k, n and panels to those of a kernel that has packed its weights.
 * False: it has not. */
bool cpu_packed_weights(const kd_kernel *kernel, cpu_gemm *gemm);

/* The dimensions that the weights had; NULL: they are not packed. */
const int64_t *cpu_packed_dims(const kd_kernel *kernel);

/* Elements for each input channel from which on those of a ConvTranspose are packed. */
#define CPU_TRANSPOSE_LEAST 128

#endif /* KEEL_CPU_WEIGHTS_H */
