/* gemm.c - products of matrices, and convolutions and pooling as such: the names by which
 * kernels/gemm.k and its kin are made to compute each op.
 *
 * A convolution is an implicit product: A has the filters, B what windows see of an image, whose
 * im2col is never written. Result z of the batches, at (m, n), is the sum over k < K; V is the
 * type of sums, IDX of indices, and an expression may use z, m, n, k, image and section.
 *
 *   B_IS                  0: B is a matrix; 1: an image's windows; 2: what windows of a
 *                         transposed convolution reach
 *   M, N, K               IDX: rows, columns, elements of a sum
 *   BRANK, BDIMS(d)       B_IS 0: dimensions of the batches
 *   A_BATCH(d) B_BATCH(d) B_IS 0: steps over them in A and B, in elements
 *   B_ROW, B_COLUMN       B_IS 0: steps in B from k and from n to the next
 *   SECTIONS, EACH, TAPS  else: groups, channels of one, elements of a window
 *   SPACE, KERNEL(d), STRIDE(d), DILATION(d), PAD(d), IN(d), OUT(d)      else: the window
 *   A_AT, A_STEP          IDX: the index of A at (m, k); from it to the next channel's, or k's
 *   A_LESS, B_LESS        V: zero points, taken off the elements
 *   START(m)              V: what sums of row m begin with; kernels in lanes alone
 *   PUT(m, n, s)          statement: stores the sum s, scaled and activated, by
 *   GIVE(i, v)            statement: Z's element i becomes v, or what an epilogue makes of it
 *   SET_Z(i, v)           the same without an epilogue; fam_out makes it, fam_in A(i), B(i) ...
 *   W, ALPHA, BETA        Gemm: the type in which PUT scales, and its factors
 *   ROWS, COLUMNS ...     how much an item computes (cut.c) */
#include <math.h>
#include <string.h>

#include "families/cut.h"
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

/* Whether gemm_lanes.k may read two neighbours as one: all is f32, and lies as floats do that a
 * vector unit takes at any address. */
static bool has_pairs(const fam_op *op, const fam_plan *plan, kd_dtype sums) {
  return plan->lanes && plan->int64 && sums == KD_F32 &&
         op->in[0].dtype == KD_F32 && op->in[1].dtype == KD_F32 &&
         op->out[0].dtype == KD_F32;
}

/* Two neighbours of a row of the result. */
static bool takes_pairs(const fam_op *op, const fam_plan *plan, kd_dtype sums,
                        int64_t m, int64_t n) {
  return m > 1 && n > plan->lanes && has_pairs(op, plan, sums);
}

/* `operand`: B_IS of kernels/gemm.k. */
static fam_pass *begin_gemm(fam_plan *plan, int operand, const fam_work *work) {
  fam_pass *pass = fam_cut_begin(plan, work);
  fam_define(pass, "B_IS", "%d", operand);
  fam_int(plan, pass, "M", work->m);
  fam_int(plan, pass, "N", work->n);
  fam_int(plan, pass, "K", work->k);
  const int64_t sizes[] = {work->sums, work->batches, work->m,
                           work->n,    work->k,       operand};
  pass->work = fam_key_begin();
  fam_key_add(&pass->work, sizes, sizeof sizes);
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
  bool pairs = takes_pairs(op, plan, sums, m, n);
  const fam_work work = {.sums = sums,
                         .batches = batches,
                         .m = m,
                         .n = n,
                         .k = k,
                         .pairs = pairs,
                         .a_pairs = pairs && k % 2 == 0};
  fam_pass *pass = begin_gemm(plan, 0, &work);
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

/* C for a library: a row for all, or a matrix; with another one, the kernel is needed. */
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

/* Gemm's results: ALPHA times the sum, plus BETA times C, which is broadcast. */
static void put_gemm(const fam_op *op, fam_plan *plan, fam_pass *pass,
                     double beta) {
  if (!fam_has(op, 2)) {
    fam_define(pass, "PUT(m, n, s)",
               "GIVE((m) * N + (n), CAST(Z_t, CAST(W, ALPHA) * CAST(W, s)))");
    return;
  }
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
  if (!real && scales && !plan->float64)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED,
               "integers with alpha or beta, without"
               " f64");
  bool pairs = takes_pairs(op, plan, sums, m, n) && !tb;
  const fam_work work = {
      .sums = sums,
      .batches = 1,
      .m = m,
      .n = n,
      .k = k,
      .pairs = pairs,
      .a_pairs = pairs && !ta && k % 2 == 0,
      .k_pairs = m == 1 && tb && k % 2 == 0 && has_pairs(op, plan, sums)};
  fam_pass *pass = begin_gemm(plan, 0, &work);
  fam_key_add(&pass->work, &ta, sizeof ta);
  fam_key_add(&pass->work, &tb, sizeof tb);
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
                            .b_transposed = tb,
                            .alpha = alpha};
  }
  put_gemm(op, plan, pass, beta);
  fam_in(pass, "A", op, 0);
  fam_in(pass, "B", op, 1);
  fam_out(pass, "Z", op, 0);
}

/* ---- convolutions ----------------------------------------------------------------------- */

static bool gemm_read_window(const fam_op *op, fam_plan *plan,
                             const fam_tensor *x, const fam_tensor *y,
                             const int64_t *kernel, bool transposed,
                             window *w) {
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

/* Whether kernels/depth_lanes.k can do it, of one channel by one filter a group: small windows
 * over planes of f32. */
static bool goes_by_lines(const fam_op *op, const fam_plan *plan,
                          const window *w) {
  const fam_tensor *x = &op->in[0], *f = &op->in[1], *y = &op->out[0];
  return plan->lanes && plan->int64 && x->dtype == KD_F32 &&
         f->dtype == KD_F32 && y->dtype == KD_F32 && w->space == 2 &&
         w->stride[1] <= 2 && w->stride[0] <= 2 && w->in[1] > 1 &&
         w->kernel[0] * w->kernel[1] <= 49 &&
         (w->kernel[0] - 1) * w->dilation[0] <= 12 &&
         (w->kernel[1] - 1) * w->dilation[1] <= plan->lanes;
}

/* Whether an output's place is the input's: steps of 1, and nothing beside the image. */
static bool is_flat(const window *w) {
  for (int d = 0; d < w->space; d++)
    if (w->stride[d] != 1 || w->in[d] != w->out[d] || w->begin[d]) return false;
  return true;
}

/* Whether two neighbours of the result are of neighbours of the image, whatever the tap. */
static bool goes_by_pairs(const fam_op *op, const fam_plan *plan,
                          const window *w, kd_dtype sums, int64_t n,
                          int64_t m) {
  int last = w->space - 1;
  bool flat = is_flat(w) && fam_product(w->kernel, 0, (uint32_t)w->space) == 1;
  return takes_pairs(op, plan, sums, m, n) &&
         (flat ||
          (w->stride[last] == 1 && w->out[last] % 2 == 0 && w->in[last] > 1));
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
  if (!gemm_read_window(op, plan, x, y, f->dims + 2, transposed, &w))
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
      if (total < 0) total = 0; /* zeros follow */
      w.begin[i] = upper ? total / 2 : total - total / 2;
    }
  }
  int64_t each = x->dims[1] / sections, taps = fam_product(f->dims, 2, f->rank);
  int64_t n = fam_product(y->dims, 2, y->rank);
  bool depthwise = !transposed && each == 1 && y->dims[1] == sections;
  bool pairs = !transposed &&
               goes_by_pairs(op, plan, &w, sums, n, y->dims[1] / sections);
  bool flat = !transposed && taps == 1 && is_flat(&w);
  const fam_work work = {
      .sums = sums,
      .batches = x->dims[0] * sections,
      .m = y->dims[1] / sections,
      .n = n,
      .k = each * taps,
      .slides = depthwise && slides(&w, plan->lanes),
      .lines = depthwise && goes_by_lines(op, plan, &w) ? &w : NULL,
      .pairs = pairs,
      .a_pairs = pairs && taps == 1 && each % 2 == 0,
      .flat = flat};
  fam_pass *pass = begin_gemm(plan, transposed ? 2 : 1, &work);
  fam_define(pass, "A_AT",
             transposed
                 ? "(((section * EACH + k / TAPS) * M + m) * TAPS + k %% TAPS)"
                 : "((section * M + m) * K + k)");
  fam_define(pass, "A_STEP", transposed ? "(M * TAPS)" : "TAPS");
  for (int d = 0; d < w.space; d++) {
    const int64_t line[] = {w.kernel[d], w.stride[d], w.dilation[d], w.in[d],
                            w.out[d]};
    fam_key_add(&pass->work, line, sizeof line);
  }
  fam_key_add(&pass->work, &sections, sizeof sections);
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

/* A convolution of images of one pixel by windows of one: products of their channels with the
 * filters, whose rows lie ready for kernels that read them as columns. */
static bool gemm_is_product(const fam_op *op, const fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *f = &op->in[1], *y = &op->out[0];
  int64_t pads[2 * WINDOW_SPACE];
  int64_t count = fam_attr_list(op, "pads", pads, 2 * WINDOW_SPACE);
  for (int64_t i = 0; i < count; i++)
    if (pads[i]) return false;
  return plan->lanes && x->rank > 2 && f->rank == x->rank &&
         fam_attr(op, "group", 1) == 1 && f->dims[1] == x->dims[1] &&
         fam_product(x->dims, 2, x->rank) == 1 &&
         fam_product(f->dims, 2, f->rank) == 1 &&
         fam_product(y->dims, 2, y->rank) == 1;
}

static fam_pass *begin_pixels(const fam_op *op, fam_plan *plan, kd_dtype sums) {
  const fam_tensor *x = &op->in[0];
  int64_t images = x->dims[0], k = x->dims[1], none = 0;
  const fam_work work = {.sums = sums,
                         .batches = images,
                         .m = 1,
                         .n = op->out[0].dims[1],
                         .k = k,
                         .k_pairs = k % 2 == 0 && has_pairs(op, plan, sums)};
  fam_pass *pass = begin_gemm(plan, 0, &work);
  fam_int(plan, pass, "BRANK", 1);
  fam_define(pass, "A_AT", "(a_from + m * K + k)");
  fam_define(pass, "A_STEP", "1");
  fam_dims(plan, pass, "BDIMS", 1, &images);
  fam_dims(plan, pass, "A_BATCH", 1, &k);
  fam_dims(plan, pass, "B_BATCH", 1, &none);
  fam_int(plan, pass, "B_ROW", 1);
  fam_int(plan, pass, "B_COLUMN", k);
  return pass;
}

static fam_activation activation_of(const fam_op *op) {
  return fam_attr_is(op, "activation", "none", "Relu")   ? FAM_RELU
         : fam_attr_is(op, "activation", "none", "none") ? FAM_PLAIN
                                                         : FAM_ANOTHER;
}

static void real_conv(const fam_op *op, fam_plan *plan, bool transposed) {
  kd_dtype sums = sum_type(op->in[0].dtype);
  bool pixels = !transposed && gemm_is_product(op, plan);
  fam_pass *pass =
      pixels ? begin_pixels(op, plan, sums)
             : begin_conv(op, plan, &op->in[0], &op->in[1], transposed, sums);
  bool fused = op->row->domain != NULL, bias = fam_has(op, 2);
  if (!transposed && !pixels) pass->what = FAM_CONV;
  if (fused && !pixels) pass->conv.activation = activation_of(op);
  bool added = fused && fam_has(op, 3);
  bool starts = bias && pass->trades && !pixels;
  const char *to = pixels ? "z * N + (n)" : CONV_TO;
  const char *filter = pixels ? "(n)" : "section * M + (m)";
  fam_define(pass, "A_LESS", "CAST(V, 0)");
  fam_define(pass, "B_LESS", "CAST(V, 0)");
  fam_define(pass, "FILTER(m, n)", "(%s)", filter);
  fam_define(pass, "TO(m, n)", "(%s)", to);
  fam_define(pass, "RESULT(m, n, s)", "((s)%s%s)",
             bias && !starts ? " + CAST(V, BIAS(FILTER(m, n)))" : "",
             added ? " + CAST(V, ADDED(TO(m, n)))" : "");
  if (starts) fam_define(pass, "START(m)", "CAST(V, BIAS(FILTER(m, 0)))");
  fam_define(pass, "PUT(m, n, s)", "V t = RESULT(m, n, s); GIVE(TO(m, n), %s)",
             fused ? activation(op, plan, pass) : "t");
  fam_in(pass, pixels ? "A" : "B", op, 0);
  fam_in(pass, pixels ? "B" : "A", op, 1);
  if (bias) fam_in(pass, "BIAS", op, 2);
  if (added) fam_in(pass, "ADDED", op, 3);
  fam_out(pass, "Z", op, 0);
}

void fam_plan_conv(const fam_op *op, fam_plan *plan) {
  real_conv(op, plan, false);
}

/* Whether windows of a transposed convolution lie side by side and fill the result: each of its
 * elements is of one pixel and one tap. */
static bool is_tiled(const fam_op *op, const window *w) {
  int64_t extra[WINDOW_SPACE] = {0};
  fam_attr_list(op, "output_padding", extra, WINDOW_SPACE);
  for (int d = 0; d < w->space; d++)
    if (w->kernel[d] != w->stride[d] || w->begin[d] || w->dilation[d] != 1 ||
        extra[d] || w->out[d] != w->in[d] * w->stride[d])
      return false;
  return true;
}

/* The product of the filters' taps and the pixels, each result stored at its place. */
static void tiled_conv_transpose(const fam_op *op, fam_plan *plan,
                                 const window *w) {
  const fam_tensor *x = &op->in[0], *f = &op->in[1], *y = &op->out[0];
  const kd_dtype sums = sum_type(x->dtype);
  const int64_t sections = fam_attr(op, "group", 1);
  const int64_t each = x->dims[1] / sections;
  const int64_t taps = fam_product(f->dims, 2, f->rank);
  const int64_t m = f->dims[1] * taps, n = fam_product(x->dims, 2, x->rank);
  int64_t in_steps[WINDOW_SPACE], tap_steps[WINDOW_SPACE],
      out_steps[WINDOW_SPACE];
  const fam_work work = {.sums = sums,
                         .batches = x->dims[0] * sections,
                         .m = m,
                         .n = n,
                         .k = each};
  fam_pass *pass = begin_gemm(plan, 0, &work);
  fam_key_add(&pass->work, &sections, sizeof sections);
  fam_int(plan, pass, "BRANK", 2);
  fam_define(pass, "A_AT", "(a_from + k * M + m)");
  fam_define(pass, "A_STEP", "M");
  fam_dims(plan, pass, "BDIMS", 2, (const int64_t[]){x->dims[0], sections});
  fam_dims(plan, pass, "A_BATCH", 2, (const int64_t[]){0, each * m});
  fam_dims(plan, pass, "B_BATCH", 2,
           (const int64_t[]){sections * each * n, each * n});
  fam_int(plan, pass, "B_ROW", n);
  fam_int(plan, pass, "B_COLUMN", 1);
  fam_define(pass, "A_LESS", "CAST(V, 0)");
  fam_define(pass, "B_LESS", "CAST(V, 0)");
  strided_packed(w->in, (uint32_t)w->space, in_steps);
  strided_packed(w->kernel, (uint32_t)w->space, tap_steps);
  strided_packed(w->out, (uint32_t)w->space, out_steps);
  fam_dims(plan, pass, "IN_DIMS", w->space, w->in);
  fam_dims(plan, pass, "IN_STEPS", w->space, in_steps);
  fam_dims(plan, pass, "TAP_DIMS", w->space, w->kernel);
  fam_dims(plan, pass, "TAP_STEPS", w->space, tap_steps);
  fam_dims(plan, pass, "OUT_STEPS", w->space, out_steps);
  fam_int(plan, pass, "TAPS", taps);
  fam_int(plan, pass, "SECTIONS", sections);
  fam_int(plan, pass, "OUTS", fam_product(y->dims, 2, y->rank));
#define ALONG(d)                                          \
  "((n) / IN_STEPS(" d ") % IN_DIMS(" d ") * TAP_DIMS(" d \
  ") + (m)"                                               \
  " / TAP_STEPS(" d ") % TAP_DIMS(" d ")) * OUT_STEPS(" d ")"
  fam_define(pass, "PLACE(m, n)", "(%s)",
             w->space == 1   ? ALONG("0")
             : w->space == 2 ? ALONG("0") " + " ALONG("1")
                             : ALONG("0") " + " ALONG("1") " + " ALONG("2"));
#undef ALONG
  fam_define(pass, "PUT(m, n, s)",
             "GIVE((z * (M / TAPS) + (m) / TAPS) * OUTS + PLACE(m, n), (s)%s)",
             fam_has(op, 2)
                 ? " + CAST(V, BIAS(z % SECTIONS * (M / TAPS) + (m) / TAPS))"
                 : "");
  fam_in(pass, "B", op, 0);
  fam_in(pass, "A", op, 1);
  if (fam_has(op, 2)) fam_in(pass, "BIAS", op, 2);
  fam_out(pass, "Z", op, 0);
}

void fam_plan_conv_transpose(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *f = &op->in[1], *y = &op->out[0];
  const int64_t sections = fam_attr(op, "group", 1);
  window w;
  if (x->rank > 2 && f->rank == x->rank && sections > 0 &&
      x->dims[1] % sections == 0 && y->dims[1] == f->dims[1] * sections &&
      gemm_read_window(op, plan, x, y, f->dims + 2, true, &w) && w.space <= 3 &&
      is_tiled(op, &w))
    tiled_conv_transpose(op, plan, &w);
  else
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
  if (x->rank < 2 ||
      !gemm_read_window(op, plan, x, y, global ? x->dims + 2 : NULL, false, &w))
    FAM_REFUSE(op, plan, KD_INVALID_ARGUMENT, "needs images");
  for (int i = 0; i < w.space && global; i++) {
    w.stride[i] = w.dilation[i] = 1;
    w.begin[i] = w.end[i] = 0;
  }
  kd_dtype compute =
      kind == 1 ? fam_mean_type(plan, x->dtype) : fam_compute(x->dtype);
  if (kind == 2 && !fam_need_power(op, plan, compute)) return;
  fam_pass *pass = fam_begin(plan, "pool");
  fam_define(pass, "V", "%s", kd_dtype_name(compute));
  fam_define(pass, "RESULT(s)", "(%s)", fam_store_once(compute, y->dtype));
  fam_define(pass, "KIND", "%u", kind);
  if (kind == 1) fam_define_mean(plan, pass, y->dtype);
  fam_define(pass, "LEAST",
             fam_is_float(compute) ? "-CAST(V, INF)"
             : compute == KD_I8    ? "CAST(V, -128)"
                                   : "CAST(V, 0)");
  fam_define(pass, "COUNT_PAD", "%d",
             fam_attr(op, "count_include_pad", 0) != 0);
  if (kind == 2) fam_define_power(op, plan, pass);
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
