/* matmul.c - MatMul, Gemm and Det. */
#include "dialect.h"
#include "elementwise/elementwise.h"
#include "kernels.h"
#include "weights.h"

/* ---- shapes of a batched product ------------------------------------------- */

/* numpy.matmul's view of A and B: batches of matrices. */
typedef struct product_shape {
  int64_t m, n, k, batches;
  strided space; /* over the batches: operands A, B, in matrices */
  bool a_packed; /* A's matrices lie one behind the other, row by row */
} product_shape;

static product_shape shape_of(const kd_tensor *a, const kd_tensor *b,
                              const kd_tensor *y) {
  product_shape s = {0};
  s.m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
  s.k = a->dims[a->rank - 1];
  s.n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
  uint32_t matrix = (a->rank > 1) + (b->rank > 1);
  strided_begin(&s.space, y->dims, y->rank - matrix);
  strided_broadcast(&s.space, a->dims, a->rank > 2 ? a->rank - 2 : 0);
  strided_broadcast(&s.space, b->dims, b->rank > 2 ? b->rank - 2 : 0);
  s.batches = strided_count(&s.space);
  s.a_packed = !a->strides;
  return s;
}

/* Matrix `i` of each operand. */
static void matrix_at(const product_shape *s, int64_t i, int64_t *out_a,
                      int64_t *out_b) {
  *out_a = *out_b = 0;
  for (int d = s->space.rank - 1; d >= 0; d--) {
    int64_t at = i % s->space.dims[d];
    i /= s->space.dims[d];
    *out_a += at * s->space.steps[0][d];
    *out_b += at * s->space.steps[1][d];
  }
}

/* ---- floats ---------------------------------------------------------------- */

/* How the matrices of an operand lie. */
typedef struct operand {
  const char *data;
  bool transposed; /* columns, not rows, are packed */
  int64_t lead;    /* elements from one of those to the next */
} operand;

typedef struct matmul_work {
  product_shape shape; /* steps over the batches in elements */
  cpu_gemm gemm;       /* of one matrix */
  const char *a, *b;
  char *y;
  size_t size;
  const float *panels; /* of packed matrices, `each` floats; NULL: b counts */
  int64_t each;
} matmul_work;

static void matmul_one(const matmul_work *work, int64_t i, bool alone) {
  const product_shape *s = &work->shape;
  int64_t a = 0, b = 0;
  matrix_at(s, i, &a, &b);
  cpu_gemm gemm = work->gemm;
  gemm.a = work->a + a * (int64_t)work->size;
  gemm.b = work->panels ? NULL : work->b + b * (int64_t)work->size;
  if (work->panels) gemm.panels = work->panels + b / (s->k * s->n) * work->each;
  gemm.c = work->y + (size_t)(i * s->m * s->n) * work->size;
  if (alone)
    cpu_gemm_here(&gemm);
  else
    cpu_gemm_run(&gemm);
}

static void matmul_batches(void *context, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++)
    matmul_one(context, i, true);
}

/* Whether a product reads operand `which` (0: A, 1: B) where it lies: rows or columns are
 * packed, and none lies over another. */
static bool read_in_place(const kd_tensor *tensor, int which, operand *out) {
  uint32_t rank = tensor->rank;
  const int64_t *dims = tensor->dims, *strides = tensor->strides;
  int64_t columns = rank > 1 || !which ? dims[rank - 1] : 1;
  *out = (operand){.data = tensor->data, .lead = columns};
  if (!strides) return true;
  if (rank == 1) return dims[0] == 1 || strides[0] == 1;
  int64_t rows = dims[rank - 2];
  int64_t down = rows > 1 ? strides[rank - 2] : columns;
  int64_t across = columns > 1 ? strides[rank - 1] : 1;
  out->transposed = across != 1;
  out->lead = out->transposed ? across : down;
  return out->transposed ? (down == 1 || rows == 1) && across >= rows
                         : down >= columns;
}

/* Steps over the batches, from matrices to elements. */
static void step_by_elements(product_shape *s, int which,
                             const kd_tensor *tensor) {
  int64_t *steps = s->space.steps[which];
  int64_t matrix = tensor->dims[tensor->rank - 1] *
                   (tensor->rank > 1 ? tensor->dims[tensor->rank - 2] : 1);
  int lead = s->space.rank - ((int)tensor->rank - 2);
  for (int d = 0; d < s->space.rank; d++)
    if (!tensor->strides)
      steps[d] *= matrix;
    else if (steps[d])
      steps[d] = tensor->strides[d - lead];
}

/* many: B's matrices, packed; or NULL. */
static void matmul_float(kd_dtype dtype, const operand *a, const operand *b,
                         const cpu_matrices *many, void *y,
                         const product_shape *shape) {
  matmul_work work = {.shape = *shape,
                      .panels = many ? many->panels : NULL,
                      .each = many ? many->each : 0,
                      .a = a->data,
                      .b = b->data,
                      .y = y,
                      .size = kd_dtype_size(dtype),
                      .gemm = {.dtype = dtype,
                               .m = shape->m,
                               .n = shape->n,
                               .k = shape->k,
                               .vector = shape->m == 1 || shape->n == 1,
                               .alpha = 1,
                               .trans_a = a->transposed,
                               .trans_b = b->transposed,
                               .lda = a->lead,
                               .ldb = b->lead,
                               .ldc = shape->n}};
  bool b_shared = shape->batches > 1 && shape->a_packed;
  for (int d = 0; d < shape->space.rank; d++)
    b_shared &= shape->space.dims[d] == 1 || shape->space.steps[1][d] == 0;
  if (b_shared && strided_count(&shape->space) && shape->batches > 0) {
    bool a_all = true; /* one tall product, where A is not broadcast */
    for (int d = 0; d < shape->space.rank; d++)
      a_all &= shape->space.dims[d] == 1 || shape->space.steps[0][d] != 0;
    if (a_all) {
      work.gemm.m = shape->m * shape->batches;
      work.gemm.a = a->data;
      work.gemm.b = b->data;
      work.gemm.c = y;
      cpu_gemm_run(&work.gemm);
      return;
    }
  }
  if (shape->batches >= (int64_t)cpu_host->worker_count(cpu_host))
    cpu_host->parallel_for(cpu_host, shape->batches, 1, matmul_batches, &work);
  else
    for (int64_t i = 0; i < shape->batches; i++)
      matmul_one(&work, i, false);
}

CPU_WORKSPACE(matmul) {
  kd_dtype dtype = launch->inputs[0].dtype;
  if (dtype != KD_F16 && dtype != KD_BF16) return 0;
  return 4 * (uint64_t)(kd_elements(&launch->inputs[0]) +
                        kd_elements(&launch->inputs[1]) +
                        kd_elements(&launch->outputs[0])) +
         192;
}

/* Half floats: as floats in the workspace. */
static void matmul_half(const kd_launch *launch, product_shape *shape) {
  const kd_tensor *a = &launch->inputs[0], *b = &launch->inputs[1],
                  *y = &launch->outputs[0];
  float *wide_a = launch->workspace.data;
  float *wide_b = wide_a + (kd_elements(a) + 15) / 16 * 16;
  float *wide_y = wide_b + (kd_elements(b) + 15) / 16 * 16;
  cpu_convert(a->data, a->dtype, wide_a, KD_F32, kd_elements(a));
  cpu_convert(b->data, b->dtype, wide_b, KD_F32, kd_elements(b));
  const operand of_a = {(const char *)wide_a, false, shape->k};
  const operand of_b = {(const char *)wide_b, false, shape->n};
  step_by_elements(shape, 0, a);
  step_by_elements(shape, 1, b);
  matmul_float(KD_F32, &of_a, &of_b, NULL, wide_y, shape);
  cpu_convert(wide_y, KD_F32, y->data, y->dtype, kd_elements(y));
}

/* ---- integers --------------------------------------------------------------- */

typedef int64_t (*load_fn)(const void *data, int64_t i);
#define LOADER(name, T)                                     \
  static int64_t load_##name(const void *data, int64_t i) { \
    return (int64_t)((const T *)data)[i];                   \
  }
LOADER(u8, uint8_t)
LOADER(i8, int8_t)
LOADER(u16, uint16_t)
LOADER(i16, int16_t)
LOADER(u32, uint32_t)
LOADER(i32, int32_t)
LOADER(u64, uint64_t)
LOADER(i64, int64_t)

static const load_fn loaders[KD_DTYPE_COUNT] = {INT_TABLE(load)};

typedef struct int_work {
  product_shape shape;
  load_fn load_a, load_b;
  const void *a, *b;
  void *y;
  size_t size;
} int_work;

static void int_rows(void *context, int64_t begin, int64_t end) {
  const int_work *work = context;
  const product_shape *s = &work->shape;
  for (int64_t row = begin; row < end; row++) {
    int64_t i = row / s->m, r = row % s->m, a = 0, b = 0;
    matrix_at(s, i, &a, &b);
    for (int64_t c = 0; c < s->n; c++) {
      uint64_t sum = 0;
      for (int64_t k = 0; k < s->k; k++)
        sum += (uint64_t)work->load_a(work->a, (a * s->m + r) * s->k + k) *
               (uint64_t)work->load_b(work->b, (b * s->k + k) * s->n + c);
      memcpy((char *)work->y + (size_t)(row * s->n + c) * work->size, &sum,
             work->size);
    }
  }
}

static void run_int(int_work *work) {
  const product_shape *s = &work->shape;
  cpu_host->parallel_for(cpu_host, s->batches * s->m,
                         CPU_GRAIN / (s->n * s->k + 1) + 1, int_rows, work);
}

static bool is_wide(kd_dtype dtype) {
  return dtype == KD_F32 || dtype == KD_F64;
}

static kd_status matmul(const kd_launch *launch, const cpu_matrices *many) {
  const kd_tensor *a = &launch->inputs[0], *b = &launch->inputs[1],
                  *y = &launch->outputs[0];
  product_shape shape = shape_of(a, b, y);
  if (!kd_elements(y)) return KD_OK;
  if (is_wide(a->dtype)) {
    operand of_a, of_b;
    read_in_place(a, 0, &of_a);
    read_in_place(b, 1, &of_b);
    step_by_elements(&shape, 0, a);
    step_by_elements(&shape, 1, b);
    matmul_float(a->dtype, &of_a, &of_b, many, y->data, &shape);
  } else if (a->dtype == KD_F16 || a->dtype == KD_BF16) {
    matmul_half(launch, &shape);
  } else {
    int_work work = {.shape = shape,
                     .load_a = loaders[a->dtype],
                     .load_b = loaders[b->dtype],
                     .a = a->data,
                     .b = b->data,
                     .y = y->data,
                     .size = kd_dtype_size(y->dtype)};
    run_int(&work);
  }
  return KD_OK;
}

/* A matrix, or several, by weights that were packed: one tall product. */
static kd_status matmul_packed(const kd_launch *launch, cpu_gemm *gemm) {
  const kd_tensor *a = &launch->inputs[0], *y = &launch->outputs[0];
  operand of_a = {a->data, false, gemm->k};
  bool single = !a->strides || read_in_place(a, 0, &of_a);
  for (uint32_t i = 0; a->strides && i + 2 < a->rank; i++)
    single &= a->dims[i] == 1;
  kd_tensor rows = *a;
  rows.strides = NULL;
  if (!kd_elements(y)) return KD_OK;
  if (!single) {
    rows.data = cpu_host->allocate(cpu_host, a->size + 1, 0);
    if (!rows.data)
      return FAIL(KD_OUT_OF_MEMORY, "no %llu bytes to pack input 0 of MatMul",
                  (unsigned long long)a->size);
    cpu_spread(a, &rows);
    of_a = (operand){rows.data, false, gemm->k};
  }
  gemm->dtype = KD_F32;
  gemm->alpha = 1;
  gemm->m = kd_elements(y) / gemm->n;
  gemm->a = of_a.data;
  gemm->trans_a = of_a.transposed;
  gemm->lda = of_a.lead;
  gemm->c = y->data;
  gemm->ldc = gemm->n;
  cpu_gemm_run(gemm);
  if (!single) cpu_host->release(cpu_host, rows.data);
  return KD_OK;
}

/* Operands that lie otherwise than a product reads them are packed first. */
CPU_KERNEL(cpu_run_matmul) {
  cpu_gemm by_weights = {.finish = NULL};
  if (cpu_packed_weights(self, &by_weights))
    return matmul_packed(launch, &by_weights);
  cpu_matrices many;
  bool has_many = cpu_packed_matrices(self, &many);
  kd_tensor in[2] = {launch->inputs[0], launch->inputs[1]};
  if (has_many) /* the host has let go of the others */
    in[1] = (kd_tensor){.dtype = KD_F32,
                        .rank = many.rank,
                        .dims = (int64_t *)(uintptr_t)many.dims};
  void *packed[2] = {NULL, NULL};
  kd_status status = KD_OK;
  for (int i = 0; i < 2 && status == KD_OK; i++) {
    operand unused;
    if (is_wide(in[i].dtype) ? read_in_place(&in[i], i, &unused)
                             : !in[i].strides)
      continue;
    status = cpu_pack_input(launch, (uint32_t)i, &in[i], &packed[i]);
  }
  if (status == KD_OK) {
    kd_launch inner = *launch;
    inner.inputs = in;
    status = matmul(&inner, has_many ? &many : NULL);
  }
  for (int i = 0; i < 2; i++)
    cpu_host->release(cpu_host, packed[i]);
  return status;
}

/* ---- FusedMatMul ---------------------------------------------------------------- */

static void finish_rows(void *context, int64_t begin, int64_t end) {
  const cpu_epilogue *finish = context;
  cpu_gemm_finish(finish, finish->c + begin * finish->step, end - begin,
                  finish->step);
}

/* What follows is done to each block of rows by packed weights, else in the end. */
CPU_KERNEL(cpu_run_fused_matmul) {
  const kd_tensor *in = launch->inputs, *y = &launch->outputs[0];
  cpu_epilogue finish = {.c = y->data,
                         .step = y->rank ? y->dims[y->rank - 1] : 1,
                         .bias = kd_has_input(launch, 2) ? in[2].data : NULL,
                         .z = kd_has_input(launch, 3) ? in[3].data : NULL,
                         .activation = cpu_activation_loop(
                             attr_string(launch, "activation", "none"))};
  cpu_gemm by_weights = {.finish = &finish};
  if (cpu_packed_weights(self, &by_weights))
    return matmul_packed(launch, &by_weights);
  kd_status status = cpu_run_matmul(self, stream, launch);
  if (status == KD_OK && kd_elements(y))
    cpu_host->parallel_for(cpu_host, kd_elements(y) / finish.step,
                           CPU_GRAIN / finish.step + 1, finish_rows, &finish);
  return status;
}

/* ---- Gemm -------------------------------------------------------------------- */

/* Y = C broadcast, or zeros. */
static void spread_c(const kd_launch *launch) {
  const kd_tensor *y = &launch->outputs[0];
  if (!kd_has_input(launch, 2)) {
    memset(y->data, 0, y->size);
    return;
  }
  cpu_spread(&launch->inputs[2], y);
}

/* Types without a BLAS: in double, which holds what 32-bit integers make. */
static void gemm_slow(const kd_launch *launch, bool ta, bool tb, double alpha,
                      double beta) {
  const kd_tensor *a = &launch->inputs[0], *b = &launch->inputs[1],
                  *y = &launch->outputs[0];
  int64_t m = y->dims[0], n = y->dims[1], k = a->dims[ta ? 0 : 1];
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t p = 0; p < k; p++)
        sum += cpu_get(a->data, a->dtype, ta ? p * m + i : i * k + p) *
               cpu_get(b->data, b->dtype, tb ? j * k + p : p * n + j);
      double old = cpu_get(y->data, y->dtype, i * n + j);
      cpu_set(y->data, y->dtype, i * n + j, alpha * sum + beta * old);
    }
}

CPU_KERNEL(cpu_run_gemm) {
  const kd_tensor *a = &launch->inputs[0], *b = &launch->inputs[1],
                  *y = &launch->outputs[0];
  bool ta = attr_int(launch, "transA", 0) != 0;
  bool tb = attr_int(launch, "transB", 0) != 0;
  double alpha = (double)attr_float(launch, "alpha", 1);
  double beta =
      kd_has_input(launch, 2) ? (double)attr_float(launch, "beta", 1) : 0;
  if (!kd_elements(y)) return KD_OK;
  spread_c(launch);
  if (a->dtype != KD_F32 && a->dtype != KD_F64) {
    gemm_slow(launch, ta, tb, alpha, beta);
    return KD_OK;
  }
  cpu_gemm gemm = {.dtype = a->dtype,
                   .trans_a = ta,
                   .trans_b = tb,
                   .m = y->dims[0],
                   .n = y->dims[1],
                   .k = a->dims[ta ? 0 : 1],
                   .alpha = alpha,
                   .beta = beta,
                   .a = a->data,
                   .b = b->data,
                   .c = y->data,
                   .lda = a->dims[1],
                   .ldc = y->dims[1]};
  cpu_packed_weights(self, &gemm);
  if (!gemm.panels) gemm.ldb = b->dims[1];
  cpu_gemm_run(&gemm);
  return KD_OK;
}

/* ---- Det, by elimination with the largest pivot ----------------------------- */

static double determinant(double *m, int64_t n) {
  double result = 1;
  for (int64_t c = 0; c < n; c++) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; r++)
      if (fabs(m[r * n + c]) > fabs(m[pivot * n + c])) pivot = r;
    if (m[pivot * n + c] == 0) return 0;
    if (pivot != c) result = -result;
    for (int64_t k = 0; k < n && pivot != c; k++) {
      double swap = m[c * n + k];
      m[c * n + k] = m[pivot * n + k];
      m[pivot * n + k] = swap;
    }
    result *= m[c * n + c];
    for (int64_t r = c + 1; r < n; r++) {
      double factor = m[r * n + c] / m[c * n + c];
      for (int64_t k = c; k < n; k++)
        m[r * n + k] -= factor * m[c * n + k];
    }
  }
  return result;
}

CPU_KERNEL(cpu_run_det) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  int64_t n = x->dims[x->rank - 1];
  double *matrix = malloc((size_t)(n * n + 1) * sizeof *matrix);
  if (!matrix) return FAIL(KD_OUT_OF_MEMORY, "Det: no memory");
  for (int64_t i = 0, count = kd_elements(y); i < count; i++) {
    for (int64_t k = 0; k < n * n; k++)
      matrix[k] = cpu_get(x->data, x->dtype, i * n * n + k);
    cpu_set(y->data, y->dtype, i, determinant(matrix, n));
  }
  free(matrix);
  return KD_OK;
}
