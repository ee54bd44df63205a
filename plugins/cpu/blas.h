/* blas.h - OpenBLAS, opened when it is first needed. */
#ifndef KEEL_CPU_BLAS_H
#define KEEL_CPU_BLAS_H

/* cblas.h's functions that are used (the 32-bit integer interface). The
 * numbers of orders and transposes are the reference CBLAS's. */
enum { BLAS_ROW_MAJOR = 101, BLAS_PLAIN = 111, BLAS_TRANS = 112 };

typedef struct cpu_blas {
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k,
                float alpha, const float *a, int lda, const float *b, int ldb,
                float beta, float *c, int ldc);
  void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k,
                double alpha, const double *a, int lda, const double *b,
                int ldb, double beta, double *c, int ldc);
} cpu_blas;

/* The library, or NULL where it is not there. Any thread. */
const cpu_blas *cpu_blas_get(void);

#endif /* KEEL_CPU_BLAS_H */
