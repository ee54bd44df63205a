/* table.h - the kernel definitions of table.c. */
#ifndef KEEL_CPU_TABLE_H
#define KEEL_CPU_TABLE_H

#include <kd/kernel.h>

extern const kd_kernel_def cpu_kernels[];
#ifdef KEEL_WITH_DNNL
#define CPU_KERNEL_COUNT 183u
#else
#define CPU_KERNEL_COUNT 156u
#endif

#endif /* KEEL_CPU_TABLE_H */
