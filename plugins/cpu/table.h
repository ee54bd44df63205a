/* table.h - the kernel definitions of table.c. */
#ifndef KEEL_CPU_TABLE_H
#define KEEL_CPU_TABLE_H

#include <kd/kernel.h>

extern const kd_kernel_def cpu_kernels[];
enum {
#define UNARY_OP(op, since, types, kernels, attributes) CPU_ROW_##op,
#define BINARY_OP(op, since, types, attributes)         CPU_ROW_##op,
#define COMPARE_OP(op, since, types)                    CPU_ROW_##op,
#include "defs/elementwise.def"
  CPU_ELEMENTWISE_COUNT
};
#ifdef KEEL_WITH_DNNL
#define CPU_KERNEL_COUNT (CPU_ELEMENTWISE_COUNT + 147u)
#else
#define CPU_KERNEL_COUNT (CPU_ELEMENTWISE_COUNT + 120u)
#endif

#endif /* KEEL_CPU_TABLE_H */
