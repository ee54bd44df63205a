/* gradient.c - derivatives of matrix products, convolutions and pooling. */
#include "opsets/onnx/training/gradient_terms.h"
#include "opsets/tables.h"

#define SPACE_MOST (KD_MAX_RANK - 2)

static uint32_t nn_gradient_x_of(const keel_gradient *g) {
  return keel_gradient_in(g, 0);
}
static uint32_t nn_gradient_got_of(const keel_gradient *g) {
  return keel_gradient_got(g, 0);
}

static const keel_type *gradient_type_of(const keel_gradient *g,
                                         uint32_t value) {
  return value == KEEL_ABSENT ? NULL : g->all->function->values[value].type;
}

static uint32_t gradient_shaped(keel_gradient *g, uint32_t value,
                                const uint32_t *lists, uint32_t count) {
  return two(g, "Reshape", value, keel_emit_concat(g->all, 0, lists, count));
}

static uint32_t dims(keel_gradient *g, uint32_t value, int64_t begin,
                     int64_t end) {
  return keel_emit_dims(g->all, value, begin, end);
}

/* ---- matrix products ---------------------------------------------------------------------------- */

static uint32_t gradient_turned(keel_gradient *g, uint32_t value,
                                uint32_t rank) {
  int64_t perm[KD_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++)
    perm[i] = i + 2 < rank ? i : 2 * (int64_t)rank - 3 - i;
  return keel_emit_transpose(g->all, value, perm, rank);
}

/* A vector is a row on the left and a column on the right. */
static uint32_t as_matrix(keel_gradient *g, uint32_t value, bool left) {
  return two(g, "Unsqueeze", value, keel_emit_int(g->all, left ? 0 : 1));
}

/* B's gradient where it is a matrix: of all rows of A at once. */
static uint32_t of_all_rows(keel_gradient *g, uint32_t a, uint32_t b,
                            uint32_t got) {
  uint32_t any = keel_emit_int(g->all, -1);
  const uint32_t left[] = {any, dims(g, b, 0, 1)};
  const uint32_t right[] = {any, dims(g, b, 1, 2)};
  return two(g, "MatMul", gradient_turned(g, gradient_shaped(g, a, left, 2), 2),
             gradient_shaped(g, got, right, 2));
}

/* Where ranks are open: sums over the last or the last but one dimension of both. */
static uint32_t summed(keel_gradient *g, const char *equation, uint32_t a,
                       uint32_t b) {
  const keel_attr attr = KEEL_STRING("equation", equation);
  const uint32_t inputs[] = {a, b};
  return keel_emit_op(g->all, "Einsum", &attr, 1, inputs, 2);
}

static void matmul_of_open_ranks(keel_gradient *g) {
  uint32_t a = nn_gradient_x_of(g), b = keel_gradient_in(g, 1),
           got = nn_gradient_got_of(g);
  if (keel_gradient_wants(g, 0))
    keel_gradient_give_wide(g, 0, summed(g, "...mn,...kn->...mk", got, b));
  if (keel_gradient_wants(g, 1))
    keel_gradient_give_wide(g, 1, summed(g, "...mk,...mn->...kn", a, got));
}

/* B is a matrix, and A may have any rank. */
static void matmul_by_matrix(keel_gradient *g) {
  uint32_t a = nn_gradient_x_of(g), b = keel_gradient_in(g, 1),
           got = nn_gradient_got_of(g);
  if (keel_gradient_wants(g, 0))
    keel_gradient_give(g, 0, two(g, "MatMul", got, gradient_turned(g, b, 2)));
  if (keel_gradient_wants(g, 1))
    keel_gradient_give(g, 1, of_all_rows(g, a, b, got));
}

static void matmul(keel_gradient *g) {
  uint32_t a = nn_gradient_x_of(g), b = keel_gradient_in(g, 1),
           got = nn_gradient_got_of(g);
  const keel_type *left = gradient_type_of(g, a),
                  *right = gradient_type_of(g, b);
  if (right && right->rank == 2) {
    matmul_by_matrix(g);
    return;
  }
  if (!left || !right || !left->rank || !right->rank) {
    matmul_of_open_ranks(g);
    return;
  }
  bool row = left->rank == 1, column = right->rank == 1;
  if (row) a = as_matrix(g, a, true);
  if (column) b = as_matrix(g, b, false);
  if (row || column) { /* as the product of these is */
    uint32_t whole = two(g, "MatMul", a, b);
    got = keel_gradient_shaped_like(g, got, whole);
  }
  if (keel_gradient_wants(g, 0))
    keel_gradient_give_wide(
        g, 0,
        two(g, "MatMul", got, gradient_turned(g, b, column ? 2 : right->rank)));
  if (!keel_gradient_wants(g, 1)) return;
  uint32_t of_b =
      two(g, "MatMul", gradient_turned(g, a, row ? 2 : left->rank), got);
  if (column) of_b = two(g, "Squeeze", of_b, keel_emit_int(g->all, -1));
  keel_gradient_give_wide(g, 1, of_b);
}

static uint32_t gradient_product(keel_gradient *g, uint32_t a, bool turn_a,
                                 uint32_t b, bool turn_b) {
  const keel_attr attrs[] = {
      KEEL_FLOAT("alpha", keel_attr_float(g->node.op, "alpha", 1)),
      KEEL_INT("transA", turn_a), KEEL_INT("transB", turn_b)};
  const uint32_t inputs[] = {a, b};
  return keel_emit_op(g->all, "Gemm", attrs, 3, inputs, 2);
}

static void gemm(keel_gradient *g) {
  uint32_t a = nn_gradient_x_of(g), b = keel_gradient_in(g, 1),
           got = nn_gradient_got_of(g);
  bool turn_a = keel_attr_int(g->node.op, "transA", 0) != 0;
  bool turn_b = keel_attr_int(g->node.op, "transB", 0) != 0;
  if (keel_gradient_wants(g, 0))
    keel_gradient_give(g, 0,
                       turn_a ? gradient_product(g, b, turn_b, got, true)
                              : gradient_product(g, got, false, b, !turn_b));
  if (keel_gradient_wants(g, 1))
    keel_gradient_give(g, 1,
                       turn_b ? gradient_product(g, got, true, a, turn_a)
                              : gradient_product(g, a, !turn_a, got, false));
  if (keel_gradient_wants(g, 2))
    keel_gradient_give_wide(
        g, 2, scaled(g, got, (double)keel_attr_float(g->node.op, "beta", 1)));
}

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
  const keel_attr attrs[] = {KEEL_INT("group", w->group),
                             KEEL_INTS("pads", 2 * w->space, pads),
                             KEEL_INTS("strides", w->space, strides),
                             KEEL_INTS("dilations", w->space, dilations)};
  const uint32_t inputs[] = {a, b};
  return keel_emit_op(g->all, op, attrs, 4, inputs, 2);
}

/* `value` made as large as `like` is by zeros behind it, or cut off. */
static uint32_t fitted(keel_gradient *g, const window *w, uint32_t value,
                       uint32_t like) {
  int64_t zeros[SPACE_MOST + 4] = {0};
  uint32_t begin = keel_emit_ints(g->all, zeros, (int64_t)w->space + 4);
  const uint32_t parts[] = {
      begin, sub(g, dims(g, like, 2, INT64_MAX), dims(g, value, 2, INT64_MAX))};
  return two(g, "Pad", value, keel_emit_concat(g->all, 0, parts, 2));
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
  uint32_t group = keel_emit_int(g->all, w->group);
  uint32_t batch = dims(g, value, 0, 1), space = dims(g, value, 2, INT64_MAX);
  uint32_t each = over(g, dims(g, value, 1, 2), group);
  int64_t perm[3 + SPACE_MOST] = {first ? 1 : 2, first ? 2 : 1, 0};
  for (uint32_t i = 0; i < w->space; i++)
    perm[3 + i] = 3 + (int64_t)i;
  const uint32_t apart[] = {batch, group, each, space};
  uint32_t moved = keel_emit_transpose(
      g->all, gradient_shaped(g, value, apart, 4), perm, 3 + w->space);
  const uint32_t in_order[] = {dims(g, value, 1, 2), batch, space};
  const uint32_t by_group[] = {each, mul(g, group, batch), space};
  return gradient_shaped(g, moved, first ? in_order : by_group, 3);
}

/* The gradient of the weights: the larger image by the smaller one, whose strides are dilations
 * now. What does not fit behind is cut off. */
static uint32_t of_weights(keel_gradient *g, const window *w, uint32_t wide,
                           uint32_t narrow, uint32_t like) {
  int64_t perm[2 + SPACE_MOST] = {1, 0}, axes[SPACE_MOST];
  int64_t zeros[SPACE_MOST] = {0};
  for (uint32_t i = 0; i < w->space; i++)
    perm[2 + i] = axes[i] = 2 + (int64_t)i;
  uint32_t sums = with_window(g, "Conv", w, w->pads, w->dilations, w->strides,
                              channels_first(g, w, wide, false),
                              channels_first(g, w, narrow, true));
  const uint32_t inputs[] = {sums, keel_emit_ints(g->all, zeros, w->space),
                             dims(g, like, 2, INT64_MAX),
                             keel_emit_ints(g->all, axes, w->space)};
  sums = keel_emit_op(g->all, "Slice", NULL, 0, inputs, 4);
  return keel_emit_transpose(g->all, sums, perm, 2 + w->space);
}

/* A sum over all that is no channel. */
static void give_bias(keel_gradient *g, const window *w) {
  const keel_attr flat = KEEL_INT("keepdims", 0);
  int64_t axes[1 + SPACE_MOST] = {0};
  for (uint32_t i = 0; i < w->space; i++)
    axes[1 + i] = 2 + (int64_t)i;
  const uint32_t inputs[] = {
      nn_gradient_got_of(g),
      keel_emit_ints(g->all, axes, 1 + (int64_t)w->space)};
  if (keel_gradient_wants(g, 2))
    keel_gradient_give(g, 2,
                       keel_emit_op(g->all, "ReduceSum", &flat, 1, inputs, 2));
}

static uint32_t rank_of(const keel_type *a, const keel_type *b) {
  return a ? a->rank : b ? b->rank : 0;
}

static void conv(keel_gradient *g) {
  uint32_t x = nn_gradient_x_of(g), weights = keel_gradient_in(g, 1),
           got = nn_gradient_got_of(g);
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
  uint32_t x = nn_gradient_x_of(g), weights = keel_gradient_in(g, 1),
           got = nn_gradient_got_of(g);
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

/* The places of the largest elements, of the whole tensor: the op's second output. */
static void max_pool(keel_gradient *g) {
  const keel_attr add = KEEL_STRING("reduction", "add");
  uint32_t x = nn_gradient_x_of(g), both[2] = {0, 0};
  uint32_t any = keel_emit_int(g->all, -1);
  if (keel_attr_int(g->node.op, "storage_order", 0)) {
    keel_gradient_refuse(g, "has no gradient in Keel with storage_order");
    return;
  }
  keel_emit_again(g->all, g->node.op, &x, 1, both, 2);
  uint32_t zeros =
      keel_gradient_wide(g, keel_gradient_zero(g, x), of(g, "Size", x));
  const uint32_t inputs[] = {two(g, "Reshape", zeros, any),
                             two(g, "Reshape", both[1], any),
                             two(g, "Reshape", nn_gradient_got_of(g), any)};
  keel_gradient_give(
      g, 0,
      keel_gradient_shaped_like(
          g, keel_emit_op(g->all, "ScatterElements", &add, 1, inputs, 3), x));
}

/* How many pixels each window has that are no padding: a convolution of ones. */
static uint32_t pixels_of(keel_gradient *g, const window *w, uint32_t kernel) {
  uint32_t one = keel_emit_int(g->all, 1);
  const uint32_t lists[] = {one, one,
                            dims(g, nn_gradient_x_of(g), 2, INT64_MAX)};
  uint32_t ones =
      keel_gradient_wide(g, keel_emit_number(g->all, 1, nn_gradient_got_of(g)),
                         keel_emit_concat(g->all, 0, lists, 3));
  return with_window(g, "Conv", w, w->pads, w->strides, w->dilations, ones,
                     kernel);
}

/* Windows of ones, of each channel by itself. */
static void average_pool(keel_gradient *g) {
  const int64_t *kernel = NULL;
  int64_t shape[2 + SPACE_MOST] = {1, 1}, all = 1;
  uint32_t x = nn_gradient_x_of(g);
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
  uint32_t got = nn_gradient_got_of(g);
  uint32_t ones =
      keel_gradient_wide(g, keel_emit_number(g->all, 1, got),
                         keel_emit_ints(g->all, shape, 2 + (int64_t)w.space));
  got = keel_attr_int(g->node.op, "count_include_pad", 0)
            ? scaled(g, got, 1 / (double)all)
            : over(g, got, pixels_of(g, &w, ones));
  uint32_t one = keel_emit_int(g->all, 1);
  uint32_t pictures = of(g, "ReduceProd", dims(g, x, 0, 2));
  const uint32_t lists[] = {pictures, one, dims(g, got, 2, INT64_MAX)};
  uint32_t back = of_wide(g, &w, gradient_shaped(g, got, lists, 3), ones, x);
  keel_gradient_give(g, 0, keel_gradient_shaped_like(g, back, x));
}

static void global_average_pool(keel_gradient *g) {
  uint32_t x = nn_gradient_x_of(g);
  uint32_t size = of(g, "ReduceProd", dims(g, x, 2, INT64_MAX));
  uint32_t each = over(g, nn_gradient_got_of(g),
                       two(g, "CastLike", size, nn_gradient_got_of(g)));
  keel_gradient_give(g, 0,
                     keel_gradient_wide(g, each, keel_gradient_shape(g, x)));
}

/* Shared by those that are as large. */
static void global_max_pool(keel_gradient *g) {
  uint32_t equal =
      two(g, "Equal", nn_gradient_x_of(g), keel_gradient_out(g, 0));
  uint32_t chosen = two(g, "CastLike", equal, nn_gradient_got_of(g));
  uint32_t share = of(g, "GlobalAveragePool", chosen);
  uint32_t x = nn_gradient_x_of(g);
  uint32_t size = of(g, "ReduceProd", dims(g, x, 2, INT64_MAX));
  uint32_t count = mul(g, share, two(g, "CastLike", size, share));
  keel_gradient_give(g, 0,
                     mul(g, chosen, over(g, nn_gradient_got_of(g), count)));
}

static const keel_op_rule rules[] = {
    {"MatMul", .gradient = matmul},
    {"Gemm", .gradient = gemm},
    {"Conv", .gradient = conv},
    {"ConvTranspose", .gradient = conv_transpose},
    {"MaxPool", .gradient = max_pool},
    {"AveragePool", .gradient = average_pool},
    {"GlobalAveragePool", .gradient = global_average_pool},
    {"GlobalMaxPool", .gradient = global_max_pool},
};

const keel_op_table keel_ops_gradient_products = {KEEL_TABLE_RULES(rules)};
