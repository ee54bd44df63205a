/* gemm.c - matrix products (GEMM): the code that computes one, and the pieces of the threads.
 *
 * OpenBLAS computes a product where the option wants it, else tiles.c; where tiles have no
 * memory for their panels, a blocked loop in place does. A product of one column is computed
 * as its transpose, a row, whose tiles are full.
 *
 * Each thread gets one piece, whole rows or whole columns of C, and packs the other operand
 * for itself: k is never cut, so that the number of threads changes no sum of tiles.c.
 * Products of less than two million operations stay on the calling thread. */
#include "blas.h"
#include "elementwise/elementwise.h"
#include "kernels.h"
#include "tiles.h"

/* ---- without memory --------------------------------------------------------- */

#define BLOCK 64

/* Blocked loops in place, for where tiles have no memory for their panels. */
#define OWN_GEMM(T)                                                         \
  static void own_##T(const cpu_gemm *g) {                                  \
    const T *a = g->a, *b = g->b;                                           \
    T *c = g->c;                                                            \
    for (int64_t i = 0; i < g->m; i++)                                      \
      for (int64_t j = 0; j < g->n; j++)                                    \
        c[i * g->ldc + j] =                                                 \
            g->beta == 0 ? 0 : (T)(g->beta * (double)c[i * g->ldc + j]);    \
    for (int64_t kk = 0; kk < g->k; kk += BLOCK)                            \
      for (int64_t i = 0; i < g->m; i++) {                                  \
        int64_t end = kk + BLOCK < g->k ? kk + BLOCK : g->k;                \
        for (int64_t k = kk; k < end; k++) {                                \
          const T x = (T)g->alpha *                                         \
                      (g->trans_a ? a[k * g->lda + i] : a[i * g->lda + k]); \
          T *row = c + i * g->ldc;                                          \
          if (g->trans_b)                                                   \
            for (int64_t j = 0; j < g->n; j++)                              \
              row[j] += x * b[j * g->ldb + k];                              \
          else                                                              \
            for (int64_t j = 0; j < g->n; j++)                              \
              row[j] += x * b[k * g->ldb + j];                              \
        }                                                                   \
      }                                                                     \
  }
OWN_GEMM(float)
OWN_GEMM(double)

/* ---- one piece -------------------------------------------------------------- */

const cpu_tiles *cpu_tiles_get(void) {
  return CPU_LOOPS(cpu_tiles);
}

/* By OpenBLAS, where the option wants it and it takes such sizes. */
static bool by_blas(const cpu_gemm *g) {
  int64_t most = g->m > g->n ? g->m : g->n;
  most = g->k > most ? g->k : most;
  if (!cpu_wants_openblas() || g->panels || most >= INT32_MAX ||
      g->lda >= INT32_MAX || g->ldb >= INT32_MAX || g->ldc >= INT32_MAX)
    return false;
  const cpu_blas *blas = cpu_blas_get();
  int ta = g->trans_a ? BLAS_TRANS : BLAS_PLAIN;
  int tb = g->trans_b ? BLAS_TRANS : BLAS_PLAIN;
  if (!blas) return false;
  if (g->dtype == KD_F32)
    blas->sgemm(BLAS_ROW_MAJOR, ta, tb, (int)g->m, (int)g->n, (int)g->k,
                (float)g->alpha, g->a, (int)g->lda, g->b, (int)g->ldb,
                (float)g->beta, g->c, (int)g->ldc);
  else
    blas->dgemm(BLAS_ROW_MAJOR, ta, tb, (int)g->m, (int)g->n, (int)g->k,
                g->alpha, g->a, (int)g->lda, g->b, (int)g->ldb, g->beta, g->c,
                (int)g->ldc);
  return true;
}

/* A column as a row: the same sums, in a tile of many columns. */
static cpu_gemm gemm_turned(const cpu_gemm *g) {
  cpu_gemm t = *g;
  t.trans_a = !g->trans_b;
  t.trans_b = !g->trans_a;
  t.m = 1;
  t.n = g->m;
  t.a = g->b;
  t.b = g->a;
  t.lda = g->ldb;
  t.ldb = g->lda;
  t.ldc = g->m;
  return t;
}

void cpu_gemm_finish(const cpu_epilogue *finish, float *at, int64_t rows,
                     int64_t columns) {
  const cpu_binary add = cpu_loops_get()->binary[BINARY_Add].loops[KD_F32];
  int64_t from = at - finish->c, column = from % finish->step;
  for (int64_t i = 0; i < rows; i++, from += finish->step, at += finish->step) {
    if (finish->bias) add(at, 1, finish->bias + column, 1, at, columns);
    if (finish->z) add(at, 1, finish->z + from, 1, at, columns);
    if (finish->activation) finish->activation(at, at, columns, 0, 0);
  }
}

void cpu_gemm_here(const cpu_gemm *g) {
  if (g->m <= 0 || g->n <= 0) return;
  const cpu_tiles *tiles = cpu_tiles_get();
  bool turns = g->n == 1 && g->ldc == 1 && !g->panels && !g->finish;
  cpu_gemm one = turns ? gemm_turned(g) : *g;
  bool done = g->k > 0 && by_blas(g);
  if (!done && g->k > 0 && (g->dtype == KD_F32 ? tiles->f32 : tiles->f64)(&one))
    return; /* finished */
  if (!done && g->dtype == KD_F32)
    own_float(g);
  else if (!done)
    own_double(g);
  if (g->finish) cpu_gemm_finish(g->finish, g->c, g->m, g->n);
}

int64_t cpu_gemm_packed(const cpu_gemm *g) {
  int64_t columns = cpu_tiles_get()->columns;
  return (g->n + columns - 1) / columns * columns * g->k;
}

float *cpu_gemm_pack(const cpu_gemm *g, int64_t matrices) {
  const int64_t each = cpu_gemm_packed(g);
  float *panels = cpu_weights_alloc((size_t)(each * matrices) * sizeof(float));
  cpu_gemm one = *g;
  for (int64_t i = 0; panels && i < matrices; i++) {
    one.b = (const float *)g->b + i * g->k * g->n;
    cpu_tiles_get()->pack(&one, panels + i * each);
  }
  return panels;
}

/* ---- shared by the host's threads ------------------------------------------ */

#define ROWS_STEP 12 /* a multiple of the rows of each set's tiles */

typedef struct gemm_work {
  const cpu_gemm *whole;
  int64_t piece; /* rows or columns of one piece */
  bool by_rows;
} gemm_work;

static void gemm_pieces(void *context, int64_t begin, int64_t end) {
  const gemm_work *work = context;
  const cpu_gemm *g = work->whole;
  int64_t total = work->by_rows ? g->m : g->n;
  size_t size = kd_dtype_size(g->dtype);
  int64_t from = begin * work->piece, to = end * work->piece;
  cpu_gemm part = *g;
  to = to < total ? to : total;
  if (work->by_rows) {
    part.m = to - from;
    part.a =
        (const char *)g->a + (size_t)(g->trans_a ? from : from * g->lda) * size;
    part.c = (char *)g->c + (size_t)(from * g->ldc) * size;
  } else {
    part.n = to - from;
    if (g->panels)
      part.panels = (const char *)g->panels + (size_t)(from * g->k) * size;
    part.b =
        (const char *)g->b + (size_t)(g->trans_b ? from * g->ldb : from) * size;
    part.c = (char *)g->c + (size_t)from * size;
  }
  cpu_gemm_here(&part);
}

void cpu_gemm_run(const cpu_gemm *gemm) {
  cpu_gemm whole = *gemm, *g = &whole;
  int64_t width = cpu_host->worker_count(cpu_host);
  whole.vector = g->m == 1 || g->n == 1;
  double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
  if (width == 1 || flops < 2e6) {
    cpu_gemm_here(g);
    return;
  }
  /* One piece a thread, as large as can be: each packs the shared operand
   * again, which should be the smaller one. */
  gemm_work work = {.whole = g, .by_rows = g->m >= g->n || g->n < 64 * width};
  int64_t total = work.by_rows ? g->m : g->n;
  int64_t step = work.by_rows ? ROWS_STEP : 64;
  int64_t pieces = width;
  work.piece = ((total + pieces - 1) / pieces + step - 1) / step * step;
  cpu_host->parallel_for(cpu_host, (total + work.piece - 1) / work.piece, 1,
                         gemm_pieces, &work);
}
