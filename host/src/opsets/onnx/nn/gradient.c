/* gradient.c - derivatives of matrix products, convolutions and pooling. */
#include "opsets/onnx/training/gradient_terms.h"
#include "opsets/tables.h"

#define SPACE_MOST (KD_MAX_RANK - 2)

static const keel_type *gradient_type_of(const keel_gradient *g,
                                         uint32_t value) {
  return value == KEEL_ABSENT ? NULL : g->all->function->values[value].type;
}

/* ---- matrix products ---------------------------------------------------------------------------- */

static uint32_t gradient_turned(keel_gradient *g, uint32_t value,
                                uint32_t rank) {
  int64_t perm[KD_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++)
    perm[i] = i + 2 < rank ? i : 2 * (int64_t)rank - 3 - i;
  return keel_emit_transpose(g->all, value, perm, rank);
}

/* B is a matrix, and A may have any rank: B's gradient is of all rows of A at once. */
#define BY_MATRIX                             \
  "$0 = MatMul(^0, Transpose($1));"           \
  "rows = Reshape($0, {-1, dims($1, 0, 1)});" \
  "$1 = MatMul(Transpose(rows), Reshape(^0, {-1, dims($1, 1, 2)}))"

/* Where ranks are open: sums over the last or the last but one dimension of both. */
#define OF_OPEN_RANKS \
  "$0 ~= Einsum[equation=%s](^0, $1); $1 ~= Einsum[equation=%s]($0, ^0)"

static void matmul(keel_gradient *g) {
  uint32_t a = keel_gradient_in(g, 0), b = keel_gradient_in(g, 1);
  uint32_t got = keel_gradient_got(g, 0);
  const keel_type *left = gradient_type_of(g, a),
                  *right = gradient_type_of(g, b);
  if (right && right->rank == 2) {
    keel_gradient_text(g, BY_MATRIX);
    return;
  }
  if (!left || !right || !left->rank || !right->rank) {
    keel_gradient_text(g, OF_OPEN_RANKS, "...mn,...kn->...mk",
                       "...mk,...mn->...kn");
    return;
  }
  /* a vector is a row on the left and a column on the right; y is as the product of these */
  bool row = left->rank == 1, column = right->rank == 1;
  if (row) a = keel_gradient_text(g, "Unsqueeze(%v, {0})", a);
  if (column) b = keel_gradient_text(g, "Unsqueeze(%v, {1})", b);
  if (row || column)
    got = keel_gradient_text(g, "Reshape(^0, dims(MatMul(%v, %v)))", a, b);
  if (keel_gradient_wants(g, 0))
    keel_gradient_text(g, "$0 ~= MatMul(%v, %v)", got,
                       gradient_turned(g, b, column ? 2 : right->rank));
  if (keel_gradient_wants(g, 1))
    keel_gradient_text(g, "y = MatMul(%v, %v); $1 ~= %b ? Squeeze(y, {-1}) : y",
                       gradient_turned(g, a, row ? 2 : left->rank), got,
                       column);
}

/* alpha A B + beta C, where A and B may be transposed */
#define GEMM                                                            \
  "$0 = @transA ? Gemm[alpha=@alpha, transA=@transB, transB=1]($1, ^0)" \
  "   : @transB ? Gemm[alpha=@alpha](^0, $1)"                           \
  "             : Gemm[alpha=@alpha, transB=1](^0, $1);"                \
  "$1 = @transB ? Gemm[alpha=@alpha, transA=1, transB=@transA](^0, $0)" \
  "   : @transA ? Gemm[alpha=@alpha]($0, ^0)"                           \
  "             : Gemm[alpha=@alpha, transA=1]($0, ^0);"                \
  "$2 ~= ^0 * @beta"

/* ---- windows -------------------------------------------------------------------------------------- */

/* A convolution from `wide` to `narrow`, the larger and the smaller images. */
typedef struct window {
  uint32_t space;
  int64_t group;
  int64_t strides[SPACE_MOST], dilations[SPACE_MOST], pads[2 * SPACE_MOST];
} window;

/* Pads so that there are as many windows as strides fit (auto_pad SAME_*). */
static bool find_pads(window *w, const keel_type *x, const int64_t *kernel,
                      bool upper) {
  for (uint32_t i = 0; x && kernel && i < w->space; i++) {
    int64_t size = x->dims[2 + i], count = 0;
    if (size < 0 || kernel[i] < 1) return false;
    count = (size + w->strides[i] - 1) / w->strides[i];
    int64_t all = (count - 1) * w->strides[i] +
                  (kernel[i] - 1) * w->dilations[i] + 1 - size;
    all = all > 0 ? all : 0;
    w->pads[i] = upper ? all / 2 : all - all / 2;
    w->pads[w->space + i] = all - w->pads[i];
  }
  return x && kernel;
}

static bool read_numbers(const keel_gradient *g, window *w) {
  const keel_emit here = {.node = g->node};
  int64_t space = w->space;
  bool fits = keel_emit_list(&here, "strides", space, 1, w->strides) &&
              keel_emit_list(&here, "dilations", space, 1, w->dilations) &&
              keel_emit_list(&here, "pads", 2 * space, 0, w->pads);
  for (uint32_t i = 0; fits && i < w->space; i++)
    fits = w->strides[i] > 0 && w->strides[i] < INT32_MAX &&
           w->dilations[i] > 0 && w->dilations[i] < INT32_MAX;
  return fits;
}

/* kernel: its dimensions, or NULL where they are not known. */
static bool gradient_read_window(keel_gradient *g, window *w, uint32_t rank,
                                 const keel_type *x, const int64_t *kernel) {
  const char *mode = keel_attr_string(g->node.op, "auto_pad", "NOTSET");
  bool same = !strncmp(mode, "SAME", 4), fits = rank > 2;
  *w = (window){.space = fits ? rank - 2 : 0,
                .group = keel_attr_int(g->node.op, "group", 1)};
  fits = fits && w->group > 0 && read_numbers(g, w);
  if (fits && !strcmp(mode, "VALID")) memset(w->pads, 0, sizeof w->pads);
  if (fits && same) fits = find_pads(w, x, kernel, !strcmp(mode, "SAME_UPPER"));
  if (!fits)
    keel_gradient_refuse(g,
                         "has a gradient only where its rank, and with"
                         " auto_pad its sizes, are known");
  return fits;
}

static uint32_t with_window(keel_gradient *g, const char *op, const window *w,
                            const int64_t *pads, const int64_t *strides,
                            const int64_t *dilations, uint32_t a, uint32_t b) {
  int64_t space = w->space;
  return keel_gradient_text(
      g, "%s[group=%i, pads=%l, strides=%l, dilations=%l](%v, %v)", op,
      w->group, pads, 2 * space, strides, space, dilations, space, a, b);
}

/* `value` made as large as `like` is by zeros behind it, or cut off. */
static uint32_t fitted(keel_gradient *g, const window *w, uint32_t value,
                       uint32_t like) {
  static const int64_t zeros[SPACE_MOST + 4];
  return keel_gradient_text(
      g, "Pad(%v, Concat[axis=0](%l, dims(%v, 2) - dims(%v, 2)))", value, zeros,
      (int64_t)w->space + 4, like, value);
}

/* The gradient of the larger image, of which windows were taken. */
static uint32_t of_wide(keel_gradient *g, const window *w, uint32_t narrow,
                        uint32_t kernel, uint32_t like) {
  int64_t pads[2 * SPACE_MOST] = {0};
  memcpy(pads, w->pads,
         w->space * sizeof *pads); /* nothing is cut off behind */
  return fitted(g, w,
                with_window(g, "ConvTranspose", w, pads, w->strides,
                            w->dilations, narrow, kernel),
                like);
}

/* [N, G * C, ...] as [C, G * N, ...], or with `first` as [G * C, N, ...]. */
static uint32_t channels_first(keel_gradient *g, const window *w,
                               uint32_t value, bool first) {
  int64_t perm[3 + SPACE_MOST] = {first ? 1 : 2, first ? 2 : 1, 0};
  for (uint32_t i = 0; i < w->space; i++)
    perm[3 + i] = 3 + (int64_t)i;
  return keel_gradient_text(
      g,
      "x = %v; n = dims(x, 0, 1); c = dims(x, 1, 2); space = dims(x, 2);"
      "group = {%i}; each = c / group;"
      "moved = Transpose[perm=%l](Reshape(x, {n, group, each, space}));"
      "Reshape(moved, %b ? {c, n, space} : {each, group * n, space})",
      value, w->group, perm, 3 + (int64_t)w->space, first);
}

/* The gradient of the weights: the larger image by the smaller one, whose strides are dilations
 * now. The excess at the end is cut off. */
static uint32_t of_weights(keel_gradient *g, const window *w, uint32_t wide,
                           uint32_t narrow, uint32_t like) {
  int64_t perm[2 + SPACE_MOST] = {1, 0}, axes[SPACE_MOST];
  int64_t zeros[SPACE_MOST] = {0};
  for (uint32_t i = 0; i < w->space; i++)
    perm[2 + i] = axes[i] = 2 + (int64_t)i;
  uint32_t sums = with_window(g, "Conv", w, w->pads, w->dilations, w->strides,
                              channels_first(g, w, wide, false),
                              channels_first(g, w, narrow, true));
  return keel_gradient_text(
      g, "Transpose[perm=%l](Slice(%v, %l, dims(%v, 2), %l))", perm,
      2 + (int64_t)w->space, sums, zeros, (int64_t)w->space, like, axes,
      (int64_t)w->space);
}

/* A sum over all axes but the channels. */
static void give_bias(keel_gradient *g, const window *w) {
  int64_t axes[1 + SPACE_MOST] = {0};
  for (uint32_t i = 0; i < w->space; i++)
    axes[1 + i] = 2 + (int64_t)i;
  keel_gradient_text(g, "$2 = ReduceSum[keepdims=0](^0, %l)", axes,
                     1 + (int64_t)w->space);
}

static uint32_t rank_of(const keel_type *a, const keel_type *b) {
  return a ? a->rank : b ? b->rank : 0;
}

static void conv(keel_gradient *g) {
  uint32_t x = keel_gradient_in(g, 0), weights = keel_gradient_in(g, 1),
           got = keel_gradient_got(g, 0);
  const keel_type *of_x = gradient_type_of(g, x),
                  *of_w = gradient_type_of(g, weights);
  window w;
  if (!gradient_read_window(g, &w, rank_of(of_w, of_x), of_x,
                            of_w ? of_w->dims + 2 : NULL))
    return;
  if (keel_gradient_wants(g, 0))
    keel_gradient_give(g, 0, of_wide(g, &w, got, weights, x));
  if (keel_gradient_wants(g, 1))
    keel_gradient_give(g, 1, of_weights(g, &w, x, got, weights));
  give_bias(g, &w);
}

static void conv_transpose(keel_gradient *g) {
  uint32_t x = keel_gradient_in(g, 0), weights = keel_gradient_in(g, 1),
           got = keel_gradient_got(g, 0);
  const keel_type *of_x = gradient_type_of(g, x),
                  *of_w = gradient_type_of(g, weights);
  const int64_t *given = NULL;
  window w;
  if (!gradient_read_window(g, &w, rank_of(of_w, of_x), NULL, NULL)) return;
  if (keel_attr_ints(g->node.op, "output_shape", &given) >= 0) {
    keel_gradient_refuse(g, "has no gradient in Keel with output_shape");
    return;
  }
  if (keel_gradient_wants(g, 0))
    keel_gradient_give(g, 0,
                       fitted(g, &w,
                              with_window(g, "Conv", &w, w.pads, w.strides,
                                          w.dilations, got, weights),
                              x));
  if (keel_gradient_wants(g, 1))
    keel_gradient_give(g, 1, of_weights(g, &w, got, x, weights));
  give_bias(g, &w);
}

/* ---- pooling --------------------------------------------------------------------------------------- */

/* The op's second output has the places of the largest elements in the whole tensor. */
static void max_pool(keel_gradient *g) {
  if (keel_attr_int(g->node.op, "storage_order", 0))
    keel_gradient_refuse(g, "has no gradient in Keel with storage_order");
  else
    keel_gradient_text(
        g,
        "largest, places = self($0);"
        "sums = ScatterElements[reduction=add]("
        "    Reshape(Expand(0~$0, dims($0)), {-1}), Reshape(places, {-1}),"
        "    Reshape(^0, {-1}));"
        "$0 = Reshape(sums, dims($0))");
}

/* Windows of ones, of each channel by itself. */
static void average_pool(keel_gradient *g) {
  const int64_t *kernel = NULL;
  int64_t shape[2 + SPACE_MOST] = {1, 1}, all = 1;
  uint32_t x = keel_gradient_in(g, 0), got = 0;
  const keel_type *of_x = gradient_type_of(g, x);
  window w;
  int64_t size = keel_attr_ints(g->node.op, "kernel_shape", &kernel);
  if (size < 1 || size > (int64_t)SPACE_MOST ||
      !gradient_read_window(g, &w, (uint32_t)size + 2, of_x, kernel))
    return;
  if (keel_attr_int(g->node.op, "ceil_mode", 0)) {
    keel_gradient_refuse(g, "has no gradient in Keel with ceil_mode");
    return;
  }
  for (uint32_t i = 0; i < w.space; i++) {
    shape[2 + i] = kernel[i];
    if (!keel_mul_i64(all, kernel[i], &all)) all = INT64_MAX;
  }
  uint32_t ones =
      keel_gradient_text(g, "Expand(1~^0, %l)", shape, 2 + (int64_t)w.space);
  if (keel_attr_int(g->node.op, "count_include_pad", 0)) {
    got = keel_gradient_text(g, "^0 * %f", 1 / (double)all);
  } else { /* the pixels of each window that are no padding */
    uint32_t image = keel_gradient_text(g, "Expand(1~^0, {1, 1, dims($0, 2)})");
    got = keel_gradient_text(g, "^0 / %v",
                             with_window(g, "Conv", &w, w.pads, w.strides,
                                         w.dilations, image, ones));
  }
  got = keel_gradient_text(
      g, "Reshape(%v, {ReduceProd(dims($0, 0, 2)), 1, dims(^0, 2)})", got);
  keel_gradient_text(g, "$0 = Reshape(%v, dims($0))",
                     of_wide(g, &w, got, ones, x));
}

#define SIZE                "CastLike(ReduceProd(dims($0, 2)), ^0)"
#define GLOBAL_AVERAGE_POOL "$0 = Expand(^0 / " SIZE ", dims($0))"
/* Shared by those that are as large. */
#define GLOBAL_MAX_POOL              \
  "chosen = CastLike($0 == %0, ^0);" \
  "$0 = chosen * (^0 / (GlobalAveragePool(chosen) * " SIZE "))"

static const keel_op_rule rules[] = {
    {"MatMul", .gradient = matmul},
    {"Gemm", .slopes = GEMM},
    {"Conv", .gradient = conv},
    {"ConvTranspose", .gradient = conv_transpose},
    {"MaxPool", .gradient = max_pool},
    {"AveragePool", .gradient = average_pool},
    {"GlobalAveragePool", .slopes = GLOBAL_AVERAGE_POOL},
    {"GlobalMaxPool", .slopes = GLOBAL_MAX_POOL},
};

const keel_op_table keel_ops_gradient_products = {KEEL_TABLE_RULES(rules)};
