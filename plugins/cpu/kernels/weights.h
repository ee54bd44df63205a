/* weights.h - a product's second matrix, packed when the kernel is made. */
#ifndef KEEL_CPU_WEIGHTS_H
#define KEEL_CPU_WEIGHTS_H

#include "cpu.h"

/* Sets the product's k, n and panels to those of a kernel that has packed its weights.
 * False: it has not. */
bool cpu_packed_weights(const kd_kernel *kernel, cpu_gemm *gemm);

#endif /* KEEL_CPU_WEIGHTS_H */
