/* dialect.h - a pass of a plan as source, in the language of a driver. */
#ifndef KEEL_FAMILIES_DIALECT_H
#define KEEL_FAMILIES_DIALECT_H

#include "families/family.h"

/* What a device can do, for the source. */
typedef struct fam_dialect {
  bool float64; /* f64 arithmetic */
  bool math64;  /* and functions of f64 */
  bool int64;   /* i64 and u64 */
  bool vec4;    /* reads and writes vectors of four */
  bool crowds;  /* groups of up to 1024 work-items where there is much to do */
  bool eager;   /* GLSL: parameters are best read once, before all else */
  bool keeps_nan; /* GLSL: SignedZeroInfNanPreserve of f32 can be asked for */
} fam_dialect;

/* OpenCL C 1.2: kernel `family`, whose arguments are, for each buffer, its memory
 * and a ulong of bytes, and then the parameters as one struct. NULL where memory
 * runs out; else host->release frees it. */
char *fam_opencl(const kd_host *host, const fam_dialect *dialect,
                 const fam_pass *pass);

/* CUDA C++ for NVRTC: kernel `family`, whose arguments are each buffer's address, and then
 * the parameters as one struct, by value. NULL as fam_opencl. */
char *fam_cuda(const kd_host *host, const fam_dialect *dialect,
               const fam_pass *pass);

/* GLSL for Vulkan 1.2: `main`, whose push constants are the address of the parameters,
 * the number of the grid's first group, a word that nobody reads, and each buffer's
 * address. NULL as fam_opencl. */
char *fam_glsl(const kd_host *host, const fam_dialect *dialect,
               const fam_pass *pass);

/* The text of a file of families/kernels or families/dialects; NULL: none. */
const char *fam_text(const char *name);

#endif /* KEEL_FAMILIES_DIALECT_H */
