/* product.c - products of matrices, also of packed weights, and the determinant of one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

/* Wraps as the type does; sums of floats are compensated. */
typedef struct dot {
  ref_sum sum;
  uint64_t bits;
} dot;

static void dot_add(dot *d, real a, real b, bool whole) {
  if (whole)
    d->bits += (a < 0 ? (uint64_t)0 - (uint64_t)-a : (uint64_t)a) *
               (b < 0 ? (uint64_t)0 - (uint64_t)-b : (uint64_t)b);
  else
    ref_add(&d->sum, a * b);
}

static void dot_put(value *out, int64_t at, const dot *d, bool whole) {
  if (!whole) {
    ref_put(out, at, &d->sum, 1);
    return;
  }
  out->x[at] = out->dtype == KD_I64   ? (real)(int64_t)d->bits
               : out->dtype == KD_U64 ? (real)d->bits
                                      : dtype_round((real)d->bits, out->dtype);
}

/* Rows, columns and batches of a product, with vectors promoted. */
typedef struct product_shape {
  int64_t m, n, k, batches;
  value a_batch, b_batch, batch; /* ranks and dims only */
} product_shape;

static product_shape shape_product(const value *a, const value *b) {
  product_shape s = {.batches = 1};
  s.k = a->dims[a->rank - 1];
  s.m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
  s.n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
  s.a_batch.rank = a->rank > 2 ? a->rank - 2 : 0;
  s.b_batch.rank = b->rank > 2 ? b->rank - 2 : 0;
  memcpy(s.a_batch.dims, a->dims, s.a_batch.rank * sizeof *a->dims);
  memcpy(s.b_batch.dims, b->dims, s.b_batch.rank * sizeof *b->dims);
  s.batch.rank =
      s.a_batch.rank > s.b_batch.rank ? s.a_batch.rank : s.b_batch.rank;
  for (uint32_t back = 1; back <= s.batch.rank; back++) {
    int64_t x =
        back <= s.a_batch.rank ? s.a_batch.dims[s.a_batch.rank - back] : 1;
    int64_t y =
        back <= s.b_batch.rank ? s.b_batch.dims[s.b_batch.rank - back] : 1;
    s.batch.dims[s.batch.rank - back] = x == 1 ? y : x;
    s.batches *= x == 1 ? y : x;
  }
  return s;
}

/* Element of an operand less its zero point, which is one, or one a row (of a)
 * or column (of b). */
static real less_zero(const value *of, int64_t at, const value *zero,
                      int64_t line) {
  if (!zero) return of->x[at];
  return of->x[at] - zero->x[zero->count == 1 ? 0 : line % zero->count];
}

static void product_multiply(const value *a, const value *za, const value *b,
                             const value *zb, bool whole, value *out,
                             dot *sums) {
  product_shape s = shape_product(a, b);
  for (int64_t batch = 0; batch < s.batches; batch++) {
    int64_t ab = broadcast_index(&s.a_batch, &s.batch, batch) * s.m * s.k;
    int64_t bb = broadcast_index(&s.b_batch, &s.batch, batch) * s.k * s.n;
    for (int64_t i = 0; i < s.m; i++)
      for (int64_t j = 0; j < s.n; j++) {
        dot d = {0};
        for (int64_t p = 0; p < s.k; p++)
          dot_add(&d, less_zero(a, ab + i * s.k + p, za, i),
                  less_zero(b, bb + p * s.n + j, zb, j), whole);
        int64_t at = (batch * s.m + i) * s.n + j;
        if (sums)
          sums[at] = d;
        else
          dot_put(out, at, &d, whole);
      }
  }
}

static bool run_matmul(ref_call *call) {
  product_multiply(call->in[0], NULL, call->in[1], NULL,
                   !dtype_is_float(call->in[0]->dtype), call->out[0], NULL);
  return true;
}

real ref_activated(const ref_call *call, real x) {
  const real root = 0.707106781186547524400844362104849039L;
  const real c = 0.797884560802865355879892119868763737L; /* sqrt(2 / pi) */
  if (ref_text_is(call, "activation", "none", "Relu")) return x > 0 ? x : 0;
  if (ref_text_is(call, "activation", "none", "Gelu"))
    return x / 2 * erfcl(-x * root);
  if (ref_text_is(call, "activation", "none", "GeluTanh"))
    return x / 2 * (1 + tanhl(c * (x + 0.044715L * x * x * x)));
  return ref_text_is(call, "activation", "none", "Silu") ? x / (1 + expl(-x))
                                                         : x;
}

real ref_activated_slack(const ref_call *call, real slack, real x, real y) {
  if (ref_text_is(call, "activation", "none", "none") ||
      ref_text_is(call, "activation", "none", "Relu"))
    return slack;
  return 1.2L * slack + fabsl(y) * (8 + 2 * x * x * (1 + fabsl(x)));
}

static bool run_fused_matmul(ref_call *call) {
  const value *bias = ref_in(call, 2), *z = ref_in(call, 3);
  value *out = call->out[0];
  run_matmul(call);
  for (int64_t i = 0; i < out->count; i++) {
    real b = bias ? bias->x[i % bias->count] : 0, x = out->x[i] + b;
    real room = fabsl(out->x[i]) + fabsl(b);
    if (z) room += fabsl(z->x[i]) + fabsl(x);
    x += z ? z->x[i] : 0;
    out->x[i] = ref_activated(call, x);
    out->slack[i] = ref_activated_slack(
        call, out->slack[i] + 2 * room + 2 * fabsl(x), x, out->x[i]);
  }
  return true;
}

static bool run_matmul_integer(ref_call *call) {
  product_multiply(call->in[0], ref_in(call, 2), call->in[1], ref_in(call, 3),
                   true, call->out[0], NULL);
  return true;
}

void ref_quantize(value *out, int64_t at, real x, real zero) {
  real q = rintl(x) + zero, low = dtype_min(out->dtype);
  real high = dtype_max(out->dtype);
  real off = fabsl(fabsl(x - truncl(x)) - 0.5L); /* from a tie */
  value_slack(out)[at] = off < 1e-4L && off != 0 ? 1 : 0;
  if (fabsl(x) > 1e5L) out->slack[at] = 0;
  out->x[at] = q < low ? low : q > high ? high : q;
}

static bool run_qlinear_matmul(ref_call *call) {
  value *out = call->out[0];
  dot *sums = calloc((size_t)out->count + 1, sizeof *sums);
  product_multiply(call->in[0], call->in[2], call->in[3], call->in[5], true,
                   out, sums);
  const value *sa = call->in[1], *sb = call->in[4];
  int64_t n = call->in[3]->dims[call->in[3]->rank - 1];
  int64_t m = out->rank > 1 ? out->dims[out->rank - 2] : 1;
  for (int64_t i = 0; i < out->count; i++) {
    real scale = sa->x[sa->count == 1 ? 0 : i / n % m] *
                 sb->x[sb->count == 1 ? 0 : i % n] / call->in[6]->x[0];
    ref_quantize(out, i, (real)(int64_t)sums[i].bits * scale,
                 call->in[7]->x[0]);
  }
  free(sums);
  return true;
}

static bool run_gemm(ref_call *call) {
  const value *a = call->in[0], *b = call->in[1], *c = ref_in(call, 2);
  value *out = call->out[0];
  bool ta = ref_int(call, "transA", 0) != 0,
       tb = ref_int(call, "transB", 0) != 0;
  real alpha = ref_float(call, "alpha", 1), beta = ref_float(call, "beta", 1);
  bool whole = !dtype_is_float(a->dtype);
  int64_t m = out->dims[0], n = out->dims[1], k = a->dims[ta ? 0 : 1];
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      ref_sum sum = {0};
      for (int64_t p = 0; p < k; p++)
        ref_add(&sum, a->x[ta ? p * m + i : i * k + p] *
                          b->x[tb ? j * k + p : p * n + j]);
      real added = c ? beta * c->x[broadcast_index(c, out, i * n + j)] : 0;
      real total = alpha * ref_total(&sum);
      out->x[i * n + j] =
          whole ? dtype_round(total + added, out->dtype) : total + added;
      if (whole) continue;
      out->ulps = 1;
      value_slack(out)[i * n + j] = 4 * fabsl(alpha) * ref_spread(&sum) +
                                    2 * (fabsl(total) + fabsl(added));
    }
  return true;
}

static bool run_det(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  int64_t n = in->dims[in->rank - 1];
  real *m = calloc((size_t)(n * n) + 1, sizeof *m);
  value_slack(out);
  out->ulps = 4;
  for (int64_t b = 0; b < out->count; b++) {
    real det = 1, scale = 1;
    memcpy(m, in->x + b * n * n, (size_t)(n * n) * sizeof *m);
    for (int64_t i = 0; i < n; i++) {
      real norm = 0;
      for (int64_t j = 0; j < n; j++)
        norm += m[i * n + j] * m[i * n + j];
      scale *= sqrtl(norm); /* Hadamard's bound */
    }
    for (int64_t i = 0; i < n; i++) {
      int64_t pivot = i;
      for (int64_t r = i + 1; r < n; r++)
        if (fabsl(m[r * n + i]) > fabsl(m[pivot * n + i])) pivot = r;
      if (pivot != i) det = -det;
      for (int64_t j = 0; j < n; j++) {
        real t = m[i * n + j];
        m[i * n + j] = m[pivot * n + j];
        m[pivot * n + j] = t;
      }
      det *= m[i * n + i];
      for (int64_t r = i + 1; r < n && m[i * n + i] != 0; r++) {
        real f = m[r * n + i] / m[i * n + i];
        for (int64_t j = i; j < n; j++)
          m[r * n + j] -= f * m[i * n + j];
      }
    }
    out->x[b] = det;
    out->slack[b] = 16 * (real)(n * n) * scale;
  }
  free(m);
  return true;
}

/* ---- weights of a few bits -------------------------------------------------------------------- */

typedef struct packed {
  const value *numbers, *scales, *zeros;
  int64_t k, bits, block, blocks;
} packed;

static real bits_at(const value *bytes, int64_t row, int64_t row_bytes,
                    int64_t index, int64_t bits) {
  int64_t byte = (int64_t)bytes->x[row * row_bytes + index * bits / 8];
  return (real)(byte >> index * bits % 8 & ((1 << bits) - 1));
}

static real zero_of(const packed *p, int64_t n, int64_t block) {
  if (!p->zeros) return (real)(1 << (p->bits - 1));
  if (p->zeros->dtype != KD_U8) return p->zeros->x[n * p->blocks + block];
  return bits_at(p->zeros, n, (p->blocks * p->bits + 7) / 8, block, p->bits);
}

/* accuracy_level 4: a row's numbers may be rounded to 127 steps of the largest of a block. */
static real rounding(const packed *p, const real *a, int64_t n) {
  real off = 0;
  for (int64_t b = 0; b < p->blocks; b++) {
    real most = 0, size = 0, scale = p->scales->x[n * p->blocks + b];
    for (int64_t k = b * p->block; k < p->k && k < (b + 1) * p->block; k++) {
      real number = bits_at(p->numbers, n, p->blocks * p->block * p->bits / 8,
                            k, p->bits);
      most = fmaxl(most, fabsl(a[k]));
      size += fabsl((number - zero_of(p, n, b)) * scale);
    }
    off += most / 253 * size;
  }
  return off;
}

static bool run_matmul_nbits(ref_call *call) {
  const value *a = call->in[0], *bias = ref_in(call, 5);
  packed p = {.numbers = call->in[1],
              .scales = call->in[2],
              .zeros = ref_in(call, 3),
              .k = ref_int(call, "K", 1),
              .bits = ref_int(call, "bits", 4),
              .block = ref_int(call, "block_size", 32)};
  bool rounds = ref_int(call, "accuracy_level", 0) == 4;
  int64_t columns = ref_int(call, "N", 1);
  value *out = call->out[0];
  p.blocks = (p.k + p.block - 1) / p.block;
  if (!value_slack(out)) return false;
  for (int64_t i = 0; i < out->count; i++) {
    int64_t n = i % columns;
    const real *row = a->x + i / columns * p.k;
    ref_sum sum = {0};
    for (int64_t k = 0; k < p.k; k++) {
      int64_t b = k / p.block;
      real scale = p.scales->x[n * p.blocks + b];
      real number =
          bits_at(p.numbers, n, p.blocks * p.block * p.bits / 8, k, p.bits);
      ref_add(&sum, row[k] * number * scale); /* zero points may come apart */
      ref_add(&sum, -row[k] * zero_of(&p, n, b) * scale);
    }
    if (bias) ref_add(&sum, bias->x[n]);
    ref_put(out, i, &sum, 1);
    if (rounds) out->slack[i] += rounding(&p, row, n) / dtype_unit(KD_F32);
  }
  return true;
}

const ref_op ref_product[] = {
    {NULL, "MatMul", REF_SUM, 0, run_matmul, false},
    {"keel", "FusedMatMul", REF_SUM, 0, run_fused_matmul, false},
    {"com.microsoft", "MatMulNBits", REF_SUM, 0, run_matmul_nbits, false},
    {NULL, "MatMulInteger", REF_EXACT, 0, run_matmul_integer, false},
    {NULL, "QLinearMatMul", REF_QUANT, 0, run_qlinear_matmul, false},
    {NULL, "Gemm", REF_SUM, 0, run_gemm, false},
    {NULL, "Det", REF_SUM, 0, run_det, false},
};
const uint32_t ref_product_count =
    (uint32_t)(sizeof ref_product / sizeof *ref_product);
