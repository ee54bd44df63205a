/* gemm.c - products of matrices, and convolutions as such (kernels/gemm.k). */
#include <math.h>
#include <string.h>

#include "families/map.h"
#include "families/rows.h"

/* The type of sums: at least 32 bits. */
static kd_dtype sum_type(kd_dtype dtype) {
  switch (dtype) {
    case KD_F64:
    case KD_I64:
    case KD_U64:
    case KD_U32:
      return dtype;
    case KD_F32:
    case KD_F16:
    case KD_BF16:
      return KD_F32;
    default:
      return KD_I32;
  }
}

/* Sums in the registers of one item, made of vectors: kernels/gemm_wide.k. Rows that an
 * item makes at once fit the registers that there are of such vectors. */
static void use_wide(fam_plan *plan, fam_pass *pass, kd_dtype sums,
                     int64_t batches, int64_t m, int64_t n) {
  int64_t width = (int64_t)plan->wide / (kd_dtype_size(sums) == 8 ? 2 : 1);
  int64_t rows = m == 1 ? 1 : m <= 4 ? 4 : plan->wide < 16 ? 6 : 12;
  int64_t tiles = batches * ((n + 2 * width - 1) / (2 * width)), block = 60;
  while (block > rows && tiles * ((m + block - 1) / block) < 32)
    block = (block / 2 + rows - 1) / rows * rows;
  const char *type = kd_dtype_name(sums);
  pass->kernel = "gemm_wide";
  fam_define(pass, "WIDTH", "%d", (int)width);
  fam_define(pass, "WIDE", "WIDE_%s(WIDTH)", type);
  fam_define(pass, "MAD", "MAD_%s", type);
  fam_define(pass, "ROWS", "%d", (int)rows);
  fam_int(plan, pass, "BLOCK", block);
  fam_groups(pass, tiles * ((m + block - 1) / block), 1);
}

/* How many columns an item makes so that all take least: what reading an element costs, and
 * a sum, are as lavapipe's, in cycles. */
static int64_t columns_for(int64_t lanes, int64_t rows, int64_t n) {
  enum { READ = 90, SUM = 2, LEAST = 1, MOST = 8 };
  int64_t best = MOST, least = INT64_MAX;
  for (int64_t c = MOST; c >= LEAST; c--) {
    int64_t tiles = (n + lanes * c - 1) / (lanes * c);
    int64_t cost =
        tiles * (((rows + lanes - 1) / lanes + c) * READ + rows * c * SUM);
    if (cost >= least) continue;
    least = cost;
    best = c;
  }
  return best;
}

/* Sums in the registers of a subgroup, which runs in the lanes of vectors:
 * kernels/gemm_lanes.k. */
static void use_lanes(fam_plan *plan, fam_pass *pass, int64_t batches,
                      int64_t m, int64_t n, int64_t k) {
  int64_t lanes = plan->lanes;
  /* the driver's compiler takes long over many rows: only where there is much to do */
  double work = (double)m * (double)n * (double)k;
  int64_t rows = m == 1                      ? 1
                 : m <= lanes                ? lanes
                 : n <= lanes && m > 16      ? 32
                 : m <= 16 || work < 1 << 21 ? 16
                 : m <= 32 || work < 1 << 25 ? 32
                                             : 64;
  int64_t columns = columns_for(lanes, rows, n), tile = lanes * columns;
  pass->kernel = "gemm_lanes";
  pass->trades = true;
  fam_define(pass, "ROWS", "%d", (int)rows);
  fam_define(pass, "COLUMNS", "%d", (int)columns);
  fam_groups(pass, batches * ((m + rows - 1) / rows) * ((n + tile - 1) / tile),
             plan->lanes);
}

/* With fast memory of its own a group shares tiles; a processor keeps sums in registers;
 * else an item has a column of some rows to itself. */
static fam_pass *begin_gemm(fam_plan *plan, kd_dtype sums, int operand,
                            int64_t batches, int64_t m, int64_t n, int64_t k) {
  fam_pass *pass = fam_begin(plan, plan->shared ? "gemm" : "gemm_direct");
  fam_define(pass, "V", "%s", kd_dtype_name(sums));
  fam_define(pass, "B_IS", "%d", operand);
  fam_int(plan, pass, "M", m);
  fam_int(plan, pass, "N", n);
  fam_int(plan, pass, "K", k);
  if (plan->shared) {
    fam_share(pass, "part_a", sums, 32 * 16);
    fam_share(pass, "part_b", sums, 32 * 16);
    fam_groups(pass, batches * ((m + 31) / 32) * ((n + 31) / 32), 64);
  } else if (plan->wide) {
    use_wide(plan, pass, sums, batches, m, n);
  } else if (plan->lanes && (sums == KD_F32 || sums == KD_I32)) {
    use_lanes(plan, pass, batches, m, n, k);
  } else {
    int64_t rows = m > 1 ? 8 : 1;
    fam_define(pass, "ROWS", "%d", (int)rows);
    fam_groups(pass, batches * ((m + rows - 1) / rows) * ((n + 63) / 64), 64);
  }
  return pass;
}

/* ---- MatMul ------------------------------------------------------------------------- */

/* M, N, K and the batches of a product of `a` and `b`; vectors are promoted. */
static fam_pass *begin_product(const fam_op *op, fam_plan *plan,
                               const fam_tensor *a, const fam_tensor *b,
                               kd_dtype sums) {
  if (a->rank < 1 || b->rank < 1) {
    fam_fail(op, plan, KD_INVALID_ARGUMENT, "of scalars");
    return &plan->sink;
  }
  int64_t k = a->dims[a->rank - 1];
  int64_t m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
  int64_t n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
  uint32_t ra = a->rank > 2 ? a->rank - 2 : 0;
  uint32_t rb = b->rank > 2 ? b->rank - 2 : 0, rank = ra > rb ? ra : rb;
  int64_t dims[KD_MAX_RANK], batches = 1;
  strided space;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t x = i + ra >= rank ? a->dims[i + ra - rank] : 1;
    int64_t y = i + rb >= rank ? b->dims[i + rb - rank] : 1;
    dims[i] = x == 1 ? y : x;
    batches *= dims[i];
  }
  strided_begin(&space, dims, rank);
  strided_broadcast(&space, a->dims, ra);
  strided_broadcast(&space, b->dims, rb);
  if (batches > 0) strided_simplify(&space);
  for (int i = 0; i < space.rank; i++) { /* elements, not matrices */
    space.steps[0][i] *= m * k;
    space.steps[1][i] *= k * n;
  }
  fam_pass *pass = begin_gemm(plan, sums, 0, batches, m, n, k);
  if (space.rank <= 1) {
    pass->what = FAM_GEMM;
    pass->gemm =
        (fam_gemm){.m = m, .n = n, .k = k, .batches = batches, .alpha = 1};
    if (space.rank) pass->gemm.a_step = space.steps[0][0];
    if (space.rank) pass->gemm.b_step = space.steps[1][0];
  }
  fam_int(plan, pass, "BRANK", space.rank);
  fam_define(pass, "A_AT", "(a_from + m * K + k)");
  fam_define(pass, "A_STEP", "1");
  fam_dims(plan, pass, "BDIMS", space.rank, space.dims);
  fam_dims(plan, pass, "A_BATCH", space.rank, space.steps[0]);
  fam_dims(plan, pass, "B_BATCH", space.rank, space.steps[1]);
  fam_int(plan, pass, "B_ROW", n);
  fam_int(plan, pass, "B_COLUMN", 1);
  return pass;
}

void fam_plan_matmul(const fam_op *op, fam_plan *plan) {
  fam_pass *pass = begin_product(op, plan, &op->in[0], &op->in[1],
                                 sum_type(op->in[0].dtype));
  fam_define(pass, "A_LESS", "CAST(V, 0)");
  fam_define(pass, "B_LESS", "CAST(V, 0)");
  fam_define(pass, "PUT(m, n, s)", "GIVE((z * M + m) * N + n, s)");
  fam_in(pass, "A", op, 0);
  fam_in(pass, "B", op, 1);
  fam_out(pass, "Z", op, 0);
}

/* Zero points: none, one, or one a row of A or a column of B. */
static void bind_zero(const fam_op *op, fam_pass *pass, uint32_t input,
                      const char *name, const char *define, const char *line) {
  if (!fam_has(op, input)) {
    fam_define(pass, define, "CAST(V, 0)");
    return;
  }
  pass->what = FAM_KERNEL;
  fam_define(pass, define, "CAST(V, %s(%s))", name,
             op->in[input].count == 1 ? "0" : line);
  fam_in(pass, name, op, input);
}

void fam_plan_matmul_integer(const fam_op *op, fam_plan *plan) {
  fam_pass *pass = begin_product(op, plan, &op->in[0], &op->in[1], KD_I32);
  bind_zero(op, pass, 2, "ZA", "A_LESS", "m");
  bind_zero(op, pass, 3, "ZB", "B_LESS", "n");
  fam_define(pass, "PUT(m, n, s)", "GIVE((z * M + m) * N + n, s)");
  fam_in(pass, "A", op, 0);
  fam_in(pass, "B", op, 1);
  fam_out(pass, "Z", op, 0);
}

/* s times the scales, rounded, moved and saturated. */
static void define_requantize(const fam_op *op, fam_pass *pass,
                              const char *scale) {
  bool is_signed = op->out[0].dtype == KD_I8;
  fam_define(pass, "QUANTISED(s)",
             "FN(fmax)(%s.0f, FN(fmin)(%s.0f, FN(rint)(CAST(f32, s) * (%s)) +"
             " CAST(f32, ZY(0))))",
             is_signed ? "-128" : "0", is_signed ? "127" : "255", scale);
}

void fam_plan_qlinear_matmul(const fam_op *op, fam_plan *plan) {
  fam_pass *pass = begin_product(op, plan, &op->in[0], &op->in[3], KD_I32);
  if (op->in[6].count != 1 || op->in[7].count != 1)
    fam_fail(op, plan, KD_UNIMPLEMENTED, "more than one scale of the result");
  bind_zero(op, pass, 2, "ZA", "A_LESS", "m");
  bind_zero(op, pass, 5, "ZB", "B_LESS", "n");
  fam_define(pass, "SCALE_A", "SA(%s)", op->in[1].count == 1 ? "0" : "m");
  fam_define(pass, "SCALE_B", "SB(%s)", op->in[4].count == 1 ? "0" : "n");
  define_requantize(op, pass, "SCALE_A * SCALE_B / SY(0)");
  pass->what = FAM_KERNEL;
  fam_define(pass, "PUT(m, n, s)", "SET_Z((z * M + m) * N + n, QUANTISED(s))");
  fam_in(pass, "A", op, 0);
  fam_in(pass, "SA", op, 1);
  fam_in(pass, "B", op, 3);
  fam_in(pass, "SB", op, 4);
  fam_in(pass, "SY", op, 6);
  fam_in(pass, "ZY", op, 7);
  fam_out(pass, "Z", op, 0);
}

/* What is told of C: that it is a row for all, or a matrix; a library has no other. */
static void add_c(fam_pass *pass, int64_t row, int64_t column, double beta) {
  fam_gemm *g = &pass->gemm;
  g->beta = beta;
  if (beta == 0) return;
  if (column == 1 && row == 0 && beta == 1)
    strcpy(g->row, "C");
  else if (column == 1 && (row == g->n || (row == 0 && g->m == 1)))
    strcpy(g->added, "C");
  else
    pass->what = FAM_KERNEL;
}

void fam_plan_gemm(const fam_op *op, fam_plan *plan) {
  const fam_tensor *a = &op->in[0], *b = &op->in[1], *out = &op->out[0];
  bool ta = fam_attr(op, "transA", 0) != 0, tb = fam_attr(op, "transB", 0) != 0;
  kd_dtype sums = sum_type(a->dtype);
  bool real = fam_is_float(a->dtype);
  int64_t m = out->dims[0], n = out->dims[1], k = a->dims[ta ? 0 : 1];
  int64_t one[1] = {1}, none[1] = {0};
  double alpha = fam_attr_real(op, "alpha", 1);
  double beta = fam_attr_real(op, "beta", 1);
  bool scales = alpha != 1 || beta != 1;
  if (!real && scales && !plan->float64) {
    fam_fail(op, plan, KD_UNIMPLEMENTED,
             "integers with alpha or beta, without"
             " f64");
    return;
  }
  fam_pass *pass = begin_gemm(plan, sums, 0, 1, m, n, k);
  fam_int(plan, pass, "BRANK", 1);
  fam_define(pass, "A_AT", ta ? "(k * M + m)" : "(m * K + k)");
  fam_define(pass, "A_STEP", ta ? "M" : "1");
  fam_dims(plan, pass, "BDIMS", 1, one);
  fam_dims(plan, pass, "A_BATCH", 1, none);
  fam_dims(plan, pass, "B_BATCH", 1, none);
  fam_int(plan, pass, "B_ROW", tb ? 1 : n);
  fam_int(plan, pass, "B_COLUMN", tb ? b->dims[1] : 1);
  fam_define(pass, "A_LESS", "CAST(V, 0)");
  fam_define(pass, "B_LESS", "CAST(V, 0)");
  fam_real(pass, "ALPHA", alpha);
  fam_real(pass, "BETA", beta);
  fam_define(pass, "W", real || !scales ? "V" : "f64");
  if (real) {
    pass->what = FAM_GEMM;
    pass->gemm = (fam_gemm){.m = m,
                            .n = n,
                            .k = k,
                            .batches = 1,
                            .a_turned = ta,
                            .b_turned = tb,
                            .alpha = alpha};
  }
  if (fam_has(op, 2)) {
    const fam_tensor *c = &op->in[2];
    int64_t row = c->rank == 2 && c->dims[0] > 1 ? c->dims[1] : 0;
    int64_t column = c->rank && c->dims[c->rank - 1] > 1 ? 1 : 0;
    add_c(pass, row, column, beta);
    fam_int(plan, pass, "C_ROW", row);
    fam_int(plan, pass, "C_COLUMN", column);
    fam_define(pass, "PUT(m, n, s)",
               "GIVE((m) * N + (n), CAST(Z_t, CAST(W, ALPHA) * CAST(W, s) +"
               " CAST(W, BETA) * CAST(W, C((m) * C_ROW + (n) * C_COLUMN))))");
    fam_in(pass, "C", op, 2);
  } else {
    fam_define(pass, "PUT(m, n, s)",
               "GIVE((m) * N + (n), CAST(Z_t, CAST(W, ALPHA) * CAST(W, s)))");
  }
  fam_in(pass, "A", op, 0);
  fam_in(pass, "B", op, 1);
  fam_out(pass, "Z", op, 0);
}

/* ---- convolutions ----------------------------------------------------------------------- */

static bool read_window(const fam_op *op, fam_plan *plan, const fam_tensor *x,
                        const fam_tensor *y, const int64_t *kernel,
                        bool transposed, window *w) {
  kd_tensor in = {.dims = x->dims, .rank = x->rank};
  kd_tensor out = {.dims = y->dims, .rank = y->rank};
  if (window_read(op->host, op->node, &in, &out, kernel, transposed, w))
    return true;
  fam_fail(op, plan, KD_UNIMPLEMENTED, "%u dimensions", x->rank);
  return false;
}

static void use_window(fam_plan *plan, fam_pass *pass, const window *w) {
  fam_define(pass, "SPACE", "%d", w->space);
  fam_dims(plan, pass, "KERNEL", w->space, w->kernel);
  fam_dims(plan, pass, "STRIDE", w->space, w->stride);
  fam_dims(plan, pass, "DILATION", w->space, w->dilation);
  fam_dims(plan, pass, "PAD", w->space, w->begin);
  fam_dims(plan, pass, "IN", w->space, w->in);
  fam_dims(plan, pass, "OUT", w->space, w->out);
}

/* Whether an image keeps its size in steps of 1, and taps of a line are near. */
static bool slides(const window *w, int64_t lanes) {
  int last = w->space - 1;
  for (int d = 0; d < w->space; d++)
    if (w->stride[d] != 1 || w->in[d] != w->out[d]) return false;
  return w->kernel[last] <= lanes &&
         (w->kernel[last] - 1) * w->dilation[last] <= lanes;
}

/* A convolution of x by filters `f`: images and groups are batches. */
static fam_pass *begin_conv(const fam_op *op, fam_plan *plan,
                            const fam_tensor *x, const fam_tensor *f,
                            bool transposed, kd_dtype sums) {
  window w;
  const fam_tensor *y = &op->out[0];
  int64_t sections = fam_attr(op, "group", 1);
  if (x->rank < 3 || f->rank != x->rank || sections < 1 ||
      x->dims[1] % sections || y->dims[1] % sections) {
    fam_fail(op, plan, KD_INVALID_ARGUMENT,
             "images, filters and groups don't"
             " fit");
    return &plan->sink;
  }
  if (!read_window(op, plan, x, y, f->dims + 2, transposed, &w))
    return &plan->sink;
  if (transposed) {
    int64_t extra[WINDOW_SPACE] = {0}, shape[WINDOW_SPACE];
    bool shaped = fam_attr_list(op, "output_shape", shape, WINDOW_SPACE) > 0;
    fam_attr_list(op, "output_padding", extra, WINDOW_SPACE);
    bool upper = fam_attr_is(op, "auto_pad", "NOTSET", "SAME_UPPER");
    bool same = upper || fam_attr_is(op, "auto_pad", "NOTSET", "SAME_LOWER");
    for (int i = 0; i < w.space && (shaped || same); i++) {
      int64_t total = w.stride[i] * (w.in[i] - 1) + extra[i] +
                      (w.kernel[i] - 1) * w.dilation[i] + 1 - w.out[i];
      int64_t half = total >= 0 ? total / 2 : -((1 - total) / 2);
      w.begin[i] = upper ? half : total - half;
    }
  }
  int64_t each = x->dims[1] / sections, taps = fam_product(f->dims, 2, f->rank);
  int64_t n = fam_product(y->dims, 2, y->rank);
  fam_pass *pass =
      begin_gemm(plan, sums, transposed ? 2 : 1, x->dims[0] * sections,
                 y->dims[1] / sections, n, each * taps);
  fam_define(pass, "A_AT",
             transposed
                 ? "(((section * EACH + k / TAPS) * M + m) * TAPS + k %% TAPS)"
                 : "((section * M + m) * K + k)");
  fam_define(pass, "A_STEP", transposed ? "(M * TAPS)" : "TAPS");
  if (pass->trades && !transposed && each == 1 && y->dims[1] == sections &&
      slides(&w, plan->lanes))
    pass->kernel = "slide_lanes";
  pass->conv = (fam_conv){.w = w,
                          .images = x->dims[0],
                          .channels = x->dims[1],
                          .filters = y->dims[1],
                          .sections = sections};
  fam_int(plan, pass, "SECTIONS", sections);
  fam_int(plan, pass, "EACH", each);
  fam_int(plan, pass, "TAPS", fam_product(w.kernel, 0, (uint32_t)w.space));
  use_window(plan, pass, &w);
  return pass;
}

#define CONV_TO "((image * SECTIONS + section) * M + (m)) * N + (n)"

/* Of t. */
static const char *activation(const fam_op *op, fam_plan *plan,
                              fam_pass *pass) {
  if (fam_attr_is(op, "activation", "none", "Relu"))
    return "t > CAST(V, 0) ? t : (t < CAST(V, 0) ? CAST(V, 0) : t)";
  if (fam_attr_is(op, "activation", "none", "Clip")) {
    fam_real(pass, "LOW", fam_attr_real(op, "low", -INFINITY));
    fam_real(pass, "HIGH", fam_attr_real(op, "high", INFINITY));
    return "t < CAST(V, LOW) ? CAST(V, LOW) : (t > CAST(V, HIGH) ? CAST(V,"
           " HIGH) : t)";
  }
  if (!fam_attr_is(op, "activation", "none", "none"))
    fam_fail(op, plan, KD_UNIMPLEMENTED,
             "the activation is none, Relu or Clip");
  return "t";
}

static void real_conv(const fam_op *op, fam_plan *plan, bool transposed) {
  fam_pass *pass = begin_conv(op, plan, &op->in[0], &op->in[1], transposed,
                              sum_type(op->in[0].dtype));
  bool fused = op->row->domain != NULL, bias = fam_has(op, 2);
  if (!transposed) pass->what = FAM_CONV;
  if (fused)
    pass->conv.activation =
        fam_attr_is(op, "activation", "none", "Relu")   ? FAM_RELU
        : fam_attr_is(op, "activation", "none", "none") ? FAM_PLAIN
                                                        : FAM_ANOTHER;
  bool added = fused && fam_has(op, 3), starts = bias && pass->trades;
  fam_define(pass, "A_LESS", "CAST(V, 0)");
  fam_define(pass, "B_LESS", "CAST(V, 0)");
  fam_define(pass, "RESULT(m, n, s)", "((s)%s%s)",
             bias && !starts ? " + CAST(V, BIAS(section * M + (m)))" : "",
             added ? " + CAST(V, ADDED(" CONV_TO "))" : "");
  if (starts) fam_define(pass, "START(m)", "CAST(V, BIAS(section * M + (m)))");
  fam_define(pass, "PUT(m, n, s)", "V t = RESULT(m, n, s); GIVE(%s, %s)",
             CONV_TO, fused ? activation(op, plan, pass) : "t");
  fam_in(pass, "B", op, 0);
  fam_in(pass, "A", op, 1);
  if (bias) fam_in(pass, "BIAS", op, 2);
  if (added) fam_in(pass, "ADDED", op, 3);
  fam_out(pass, "Z", op, 0);
}

void fam_plan_conv(const fam_op *op, fam_plan *plan) {
  real_conv(op, plan, false);
}

void fam_plan_conv_transpose(const fam_op *op, fam_plan *plan) {
  real_conv(op, plan, true);
}

void fam_plan_conv_integer(const fam_op *op, fam_plan *plan) {
  fam_pass *pass = begin_conv(op, plan, &op->in[0], &op->in[1], false, KD_I32);
  bind_zero(op, pass, 3, "ZF", "A_LESS", "section * M + m");
  bind_zero(op, pass, 2, "ZX", "B_LESS", "0");
  fam_define(pass, "PUT(m, n, s)", "SET_Z(" CONV_TO ", s)");
  fam_in(pass, "B", op, 0);
  fam_in(pass, "A", op, 1);
  fam_out(pass, "Z", op, 0);
}

void fam_plan_qlinear_conv(const fam_op *op, fam_plan *plan) {
  fam_pass *pass = begin_conv(op, plan, &op->in[0], &op->in[3], false, KD_I32);
  bool bias = fam_has(op, 8);
  bind_zero(op, pass, 5, "ZF", "A_LESS", "section * M + m");
  bind_zero(op, pass, 2, "ZX", "B_LESS", "0");
  fam_define(pass, "SCALE_F", "SF(%s)",
             op->in[4].count == 1 ? "0" : "section * M + m");
  define_requantize(op, pass, "SX(0) * SCALE_F / SY(0)");
  fam_define(pass, "PUT(m, n, s)", "SET_Z(" CONV_TO ", QUANTISED(%s))",
             bias ? "s + BIAS(section * M + m)" : "s");
  fam_in(pass, "B", op, 0);
  fam_in(pass, "SX", op, 1);
  fam_in(pass, "A", op, 3);
  fam_in(pass, "SF", op, 4);
  fam_in(pass, "SY", op, 6);
  fam_in(pass, "ZY", op, 7);
  if (bias) fam_in(pass, "BIAS", op, 8);
  fam_out(pass, "Z", op, 0);
}

/* ---- pooling ------------------------------------------------------------------------------ */

void fam_plan_pool(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *y = &op->out[0];
  bool global = !strncmp(op->row->op, "Global", 6);
  window w;
  uint32_t kind = op->row->number;
  int64_t p = fam_attr(op, "p", 2);
  if (x->rank < 2 ||
      !read_window(op, plan, x, y, global ? x->dims + 2 : NULL, false, &w)) {
    fam_fail(op, plan, KD_INVALID_ARGUMENT, "needs images");
    return;
  }
  for (int i = 0; i < w.space && global; i++) {
    w.stride[i] = w.dilation[i] = 1;
    w.begin[i] = w.end[i] = 0;
  }
  kd_dtype compute = fam_compute(x->dtype);
  if (kind == 2 && p > 2 && !fam_need_math(op, plan, compute)) return;
  fam_pass *pass = fam_begin(plan, "pool");
  fam_define(pass, "V", "%s", kd_dtype_name(compute));
  fam_define(pass, "KIND", "%u", kind);
  fam_define(pass, "LEAST",
             fam_is_float(compute) ? "-CAST(V, INF)"
             : compute == KD_I8    ? "CAST(V, -128)"
                                   : "CAST(V, 0)");
  fam_define(pass, "COUNT_PAD", "%d",
             fam_attr(op, "count_include_pad", 0) != 0);
  if (kind == 2) {
    fam_define(pass, "POWER(x)",
               p == 2   ? "((x) * (x))"
               : p == 1 ? "(x)"
                        : "FN(pow)((x), CAST(V, EXPONENT))");
    fam_define(pass, "ROOT(x)",
               p == 2   ? "FN(sqrt)(x)"
               : p == 1 ? "(x)"
                        : "FN(pow)((x), CAST(V, 1) / CAST(V, EXPONENT))");
    fam_int(plan, pass, "EXPONENT", p);
  }
  fam_items(plan, pass, y->count);
  fam_int(plan, pass, "OUTS", fam_product(y->dims, 2, y->rank));
  fam_int(plan, pass, "INS", fam_product(x->dims, 2, x->rank));
  fam_define(pass, "AXES", "%d", WINDOW_SPACE);
  use_window(plan, pass, &w);
  fam_dims(plan, pass, "PAD_END", w.space, w.end);
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
  if (op->out_count > 1 && op->out[1].dtype) {
    fam_define(pass, "INDICES", "1");
    fam_define(pass, "COLUMN_MAJOR", "%d",
               fam_attr(op, "storage_order", 0) != 0);
    fam_out(pass, "AT", op, 1);
  }
}
