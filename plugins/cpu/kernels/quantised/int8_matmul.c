/* int8_matmul.c - MatMulInteger and QLinearMatMul: batches of int8.c's products.
 *
 * Batches that share B are one tall product, if A is not broadcast. A constant B is packed when
 * the kernel is made. Threads share the batches, and pieces of each where those are few. Sums
 * are exact; QLinearMatMul scales them in f32, by a row's scale times a column's. */
#include <stdatomic.h>

#include "int8.h"
#include "kernels.h"
#include "shared.h"

/* ---- shapes of a batched product ------------------------------------------------------ */

/* Where MatMulInteger and QLinearMatMul have their inputs; 0: has none. */
typedef struct roles {
  uint32_t b, zero_a, zero_b, scale_a, scale_b, scale_y, zero_y;
} roles;

static const roles integer = {.b = 1, .zero_a = 2, .zero_b = 3};
static const roles qlinear = {.b = 3,
                              .zero_a = 2,
                              .zero_b = 5,
                              .scale_a = 1,
                              .scale_b = 4,
                              .scale_y = 6,
                              .zero_y = 7};

static const roles *roles_of(const kd_node *node) {
  return cpu_host->node->op(node)[0] == 'Q' ? &qlinear : &integer;
}

struct kd_kernel {
  cpu_shared *shared; /* first */
  int16_t *packed;    /* B, where it is a constant matrix, or: */
  cpu_int8_narrow *narrow;
  int64_t dims[2];
  kd_dtype dtype;
  uint32_t b; /* its input */
};

typedef struct matmul_work {
  cpu_int8_product product; /* of one batch */
  cpu_int8_cut cut;
  strided space; /* over the batches: operands A, B, in matrices */
  int64_t batches;
  const uint8_t *a, *b;
  int *zero_a, *zero_b;
  void *y;
  /* of a quantised result: scales of A and B, and what all columns of the first row get;
   * there are more rows only where A has a scale for each */
  double *scale_a, *scale_b;
  int64_t count_a, count_b;
  double scale_y;
  float *scales;
  int zero_y;
  bool is_signed;
  atomic_bool failed;
} matmul_work;

/* A product of one batch, as its rows are given. */
typedef struct matmul_job {
  const matmul_work *work;
  int64_t batch;
} matmul_job;

static void give_sums(const void *context, int64_t row, int64_t column,
                      int64_t n, const int32_t *sums) {
  const matmul_job *job = context;
  const cpu_int8_product *p = &job->work->product;
  memcpy((int32_t *)job->work->y + (job->batch * p->m + row) * p->n + column,
         sums, (size_t)n * sizeof *sums);
}

static float scale_at(const matmul_work *work, int64_t row, int64_t column) {
  return (float)(work->scale_a[work->count_a > 1 ? row : 0] *
                 work->scale_b[work->count_b > 1 ? column : 0] / work->scale_y);
}

#define SCALES 256 /* that are made at once, where rows have their own */

/* A row of sums as bytes, by one scale or by a scale for each column. */
static void give_bytes(const void *context, int64_t row, int64_t column,
                       int64_t n, const int32_t *sums) {
  const matmul_job *job = context;
  const matmul_work *work = job->work;
  const cpu_int8_product *p = &work->product;
  uint8_t *to = (uint8_t *)work->y + (job->batch * p->m + row) * p->n + column;
  bool by_column = work->count_b > 1;
  for (int64_t from = 0; from < n; from += SCALES) {
    float made[SCALES];
    int64_t count = cpu_least(n - from, SCALES);
    const float *scales = work->scales + (by_column ? column + from : 0);
    if (work->count_a > 1) {
      for (int64_t i = 0; i < (by_column ? count : 1); i++)
        made[i] = scale_at(work, row % work->count_a, column + from + i);
      scales = made;
    }
    cpu_int8_get()->requantise(sums + from, count, scales, by_column, 0,
                               work->zero_y, work->is_signed, to + from);
  }
}

/* The matrices of B are one, and those of A lie one behind the other: one tall product. */
static void join_batches(matmul_work *work) {
  cpu_int8_product *p = &work->product;
  for (int d = 0; d < work->space.rank; d++)
    if (work->space.dims[d] != 1 &&
        (work->space.steps[1][d] || !work->space.steps[0][d]))
      return;
  p->m *= work->batches;
  work->batches = 1;
}

static void read_shapes(const kd_tensor *a, const kd_tensor *b,
                        const kd_tensor *y, matmul_work *work) {
  cpu_int8_product *p = &work->product;
  p->m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
  p->k = a->dims[a->rank - 1];
  p->n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
  uint32_t matrix = (a->rank > 1) + (b->rank > 1);
  strided_begin(&work->space, y->dims, y->rank - matrix);
  strided_broadcast(&work->space, a->dims, a->rank > 2 ? a->rank - 2 : 0);
  strided_broadcast(&work->space, b->dims, b->rank > 2 ? b->rank - 2 : 0);
  work->batches = strided_count(&work->space);
  p->a.step = p->k;
  p->b.step = p->n;
}

static double *read_scales(const kd_tensor *scales, int64_t *out_count) {
  int64_t count = kd_elements(scales);
  double *list = malloc((size_t)(count + 1) * sizeof *list);
  for (int64_t i = 0; list && i < count; i++)
    list[i] = cpu_get(scales->data, scales->dtype, i);
  *out_count = count;
  return list;
}

static bool read_quantisation(const kd_launch *launch, matmul_work *work) {
  const kd_tensor *in = launch->inputs;
  work->scale_a = read_scales(&in[qlinear.scale_a], &work->count_a);
  work->scale_b = read_scales(&in[qlinear.scale_b], &work->count_b);
  work->scale_y =
      cpu_get(in[qlinear.scale_y].data, in[qlinear.scale_y].dtype, 0);
  work->zero_y =
      (int)cpu_get(in[qlinear.zero_y].data, in[qlinear.zero_y].dtype, 0);
  work->is_signed = launch->outputs[0].dtype == KD_I8;
  work->scales = malloc((size_t)(work->count_b + 1) * sizeof *work->scales);
  if (!work->scale_a || !work->scale_b || !work->scales) return false;
  for (int64_t c = 0; c < work->count_b; c++)
    work->scales[c] = scale_at(work, 0, c);
  return true;
}

static void matmul_jobs(void *context, int64_t begin, int64_t end) {
  matmul_work *work = context;
  int64_t pieces = work->cut.row_pieces * work->cut.column_pieces;
  for (int64_t i = begin; i < end; i++) {
    matmul_job job = {work, i / pieces};
    cpu_int8_product p = work->product;
    int64_t index = job.batch, a = 0, b = 0;
    for (int d = work->space.rank - 1; d >= 0 && work->batches > 1; d--) {
      a += index % work->space.dims[d] * work->space.steps[0][d];
      b += index % work->space.dims[d] * work->space.steps[1][d];
      index /= work->space.dims[d];
    }
    p.context = &job;
    p.a.data = work->a + a * p.m * p.k;
    if (!p.ready_b) p.b.data = work->b + b * p.k * p.n;
    if (!cpu_int8_piece(&p, &work->cut, i % pieces))
      atomic_store(&work->failed, true);
  }
}

static void run_jobs(matmul_work *work) {
  cpu_int8_product *p = &work->product;
  join_batches(work);
  work->cut = cpu_int8_cut_of(p->m, p->n, p->k, work->batches);
  int64_t jobs = work->batches * work->cut.row_pieces * work->cut.column_pieces;
  double all = (double)p->m * (double)p->n * (double)(p->k + 1);
  int64_t grain =
      all < CPU_INT8_LITTLE ? (int64_t)(CPU_INT8_LITTLE / all) + 1 : 1;
  if (work->cut.row_pieces * work->cut.column_pieces > 1) grain = 1;
  cpu_host->parallel_for(cpu_host, jobs, grain, matmul_jobs, work);
}

/* Zero points, and of a quantised result scales, that do not fit the matrices. */
static kd_status check_counts(const kd_launch *launch, const roles *at,
                              const matmul_work *work) {
  const kd_tensor *in = launch->inputs;
  bool quantised = at == &qlinear;
  int64_t m = work->product.m, n = work->product.n;
  struct {
    uint32_t input;
    int64_t many;
  } lists[] = {{at->zero_a, m},  {at->zero_b, n},  {at->scale_a, m},
               {at->scale_b, n}, {at->scale_y, 1}, {at->zero_y, 1}};
  for (int i = 0; i < (quantised ? 6 : 2); i++) {
    if (!kd_has_input(launch, lists[i].input)) continue;
    int64_t count = kd_elements(&in[lists[i].input]);
    if (count == 1 || count == lists[i].many) continue;
    return quantised
               ? FAIL(KD_UNIMPLEMENTED,
                      "QLinearMatMul with scales and zero points that are not"
                      " one, or one for each row of a and column of b")
               : FAIL(KD_INVALID_ARGUMENT,
                      "zero points do not fit the matrices");
  }
  return KD_OK;
}

static kd_status run_matmul(const kd_kernel *self, const kd_launch *launch,
                            const roles *at) {
  const kd_tensor *a = &launch->inputs[0], *y = &launch->outputs[0];
  kd_tensor b = launch->inputs[at->b];
  bool packed = self && (self->packed || self->narrow);
  if (!kd_elements(y)) return KD_OK;
  if (packed) {
    b.dims = self->dims;
    b.rank = 2;
    b.dtype = self->dtype;
  }
  matmul_work work = {.a = a->data, .b = b.data, .y = y->data};
  cpu_int8_product *p = &work.product;
  read_shapes(a, &b, y, &work);
  kd_status status = check_counts(launch, at, &work);
  if (status != KD_OK) return status;
  work.zero_a = cpu_int8_zeros(
      kd_has_input(launch, at->zero_a) ? &launch->inputs[at->zero_a] : NULL,
      a->dtype, &p->a.zero_count);
  work.zero_b = cpu_int8_zeros(
      kd_has_input(launch, at->zero_b) ? &launch->inputs[at->zero_b] : NULL,
      b.dtype, &p->b.zero_count);
  p->a.zeros = work.zero_a;
  p->b.zeros = work.zero_b;
  p->a.flip = cpu_int8_flip(a->dtype);
  p->b.flip = cpu_int8_flip(b.dtype);
  p->ready_b = packed ? self->packed : NULL;
  p->narrow_b = packed ? self->narrow : NULL;
  p->give = at == &qlinear ? give_bytes : give_sums;
  bool read = work.zero_a && work.zero_b &&
              (at != &qlinear || read_quantisation(launch, &work));
  if (read) run_jobs(&work);
  free(work.zero_a);
  free(work.zero_b);
  free(work.scale_a);
  free(work.scale_b);
  free(work.scales);
  return read && !work.failed
             ? KD_OK
             : FAIL(KD_OUT_OF_MEMORY, "no memory for a product of bytes");
}

CPU_KERNEL(cpu_run_matmul_integer) {
  return run_matmul(self, launch, &integer);
}

CPU_KERNEL(cpu_run_qlinear_matmul) {
  return run_matmul(self, launch, &qlinear);
}

/* ---- kernels ------------------------------------------------------------------------------ */

static void int8_matmul_free(kd_kernel *kernel) {
  cpu_int8_narrow_drop(kernel->narrow);
  free(kernel->packed);
  free(kernel);
}

/* Without memory, B is packed again and again. */
static void int8_matmul_make(const kd_node *node, kd_kernel *kernel) {
  const roles *at = roles_of(node);
  kd_tensor b, zero;
  if (!cpu_int8_constant(node, at->b, at->zero_b, &b, &zero) || b.rank != 2 ||
      !cpu_int8_zeros_fit(&zero, b.dims[1]))
    return;
  cpu_int8_bytes bytes = {
      .data = b.data, .flip = cpu_int8_flip(b.dtype), .step = b.dims[1]};
  int *zeros = cpu_int8_zeros(&zero, b.dtype, &bytes.zero_count);
  bytes.zeros = zeros;
  kernel->b = at->b;
  kernel->dtype = b.dtype;
  memcpy(kernel->dims, b.dims, 2 * sizeof *b.dims);
  if (zeros)
    kernel->narrow = cpu_int8_narrow_make(&bytes, false, b.dims[1], b.dims[0]);
  if (zeros && !kernel->narrow)
    kernel->packed = cpu_int8_pack_b(&bytes, b.dims[1], b.dims[0]);
  free(zeros);
}

CPU_CREATE(int8_matmul) {
  static const cpu_kernel_kind kind = {sizeof(kd_kernel), int8_matmul_make,
                                       int8_matmul_free};
  const roles *at = roles_of(node);
  kd_type zero;
  cpu_share_key key = {
      cpu_constant_id(node, at->b),
      "int8 product",
      {cpu_constant_id(node, at->zero_b), at->b,
       cpu_host->node->input_type(node, at->zero_b, &zero) == KD_OK}};
  return cpu_share_kernel(&key, &kind, node, out_kernel);
}

/* B, which is packed. */
uint64_t cpu_taken_int8_matmul(kd_kernel *kernel) {
  return kernel->packed || kernel->narrow ? UINT64_C(1) << kernel->b : 0;
}
