/* conv.c - convolutions: dimensions in ONNX's order, dilated and cut inputs, groups of
 * batches, and kernels that are reversed. Those of large kernels and few windows, as a
 * kernel's gradient is, are products. */
#include "frontends/stablehlo/lower.h"

#define SPATIAL_MOST (KD_MAX_RANK - 4)

typedef struct conv {
  const vhlo_type *in, *kernel, *out;
  uint32_t spatial;
  int64_t stride[KD_MAX_RANK], low[KD_MAX_RANK], high[KD_MAX_RANK];
  int64_t interior[KD_MAX_RANK], gap[KD_MAX_RANK], reversed[KD_MAX_RANK];
  /* batch and features (of the kernel: outputs and inputs), then spatial dimensions */
  int64_t in_order[KD_MAX_RANK], kernel_order[KD_MAX_RANK];
  int64_t out_order[KD_MAX_RANK];
  int64_t feature_groups, batch_groups;
} conv;

/* Two dimensions and a list of others, which must be all that there are. */
static keel_status read_order(const hlo *h, const hlo_op *op,
                              const char *const names[3], uint32_t rank,
                              int64_t *order) {
  uint32_t count = 0;
  bool seen[KD_MAX_RANK] = {0};
  KEEL_TRY(hlo_axis(h, op, names[0], rank, &order[0]));
  KEEL_TRY(hlo_axis(h, op, names[1], rank, &order[1]));
  int64_t spatial[KD_MAX_RANK];
  KEEL_TRY(hlo_axes(h, op, names[2], rank, &count, spatial));
  if (count + 2 != rank)
    return hlo_wrong(h, op, "attribute \"%s\" has %u dimensions of %u",
                     names[2], (unsigned)count, (unsigned)rank);
  memcpy(order + 2, spatial, count * sizeof *order);
  for (uint32_t i = 0; i < rank; i++) {
    if (seen[order[i]])
      return hlo_wrong(h, op, "dimension %lld has two meanings",
                       (long long)order[i]);
    seen[order[i]] = true;
  }
  return KD_OK;
}

static keel_status read_orders(const hlo *h, const hlo_op *op, conv *c) {
  static const char *const in[] = {"input_batch_dimension",
                                   "input_feature_dimension",
                                   "input_spatial_dimensions"};
  static const char *const kernel[] = {"kernel_output_feature_dimension",
                                       "kernel_input_feature_dimension",
                                       "kernel_spatial_dimensions"};
  static const char *const out[] = {"output_batch_dimension",
                                    "output_feature_dimension",
                                    "output_spatial_dimensions"};
  uint32_t rank = c->in->rank;
  KEEL_TRY(read_order(h, op, in, rank, c->in_order));
  KEEL_TRY(read_order(h, op, kernel, rank, c->kernel_order));
  return read_order(h, op, out, rank, c->out_order);
}

static keel_status read_windows(const hlo *h, const hlo_op *op, conv *c) {
  const int64_t most = INT64_C(1) << 31;
  int64_t padding[2 * KD_MAX_RANK];
  KEEL_TRY(hlo_ints(h, op, "window_strides", c->spatial, c->stride));
  KEEL_TRY(hlo_ints(h, op, "padding", 2 * c->spatial, padding));
  KEEL_TRY(hlo_ints(h, op, "lhs_dilation", c->spatial, c->interior));
  KEEL_TRY(hlo_ints(h, op, "rhs_dilation", c->spatial, c->gap));
  KEEL_TRY(hlo_ints(h, op, "window_reversal", c->spatial, c->reversed));
  for (uint32_t i = 0; i < c->spatial; i++) {
    c->low[i] = padding[2 * i];
    c->high[i] = padding[2 * i + 1];
    if (c->stride[i] < 1 || c->interior[i] < 1 || c->gap[i] < 1 ||
        c->stride[i] > most || c->interior[i] > most || c->gap[i] > most ||
        c->low[i] < -most || c->low[i] > most || c->high[i] < -most ||
        c->high[i] > most)
      return hlo_wrong(h, op, "the window's numbers for dimension %u",
                       (unsigned)i);
    c->interior[i]--;
  }
  return KD_OK;
}

static keel_status conv_read_conv(const hlo *h, const hlo_op *op, conv *c) {
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  *c = (conv){.in = op->in_types[0],
              .kernel = op->in_types[1],
              .out = op->out_types[0]};
  if (c->in->dynamic || c->kernel->dynamic || c->out->dynamic)
    return hlo_refuse(h, op, "a size that is not known before the run");
  if (!hlo_is_float(c->in->dtype) || !hlo_is_float(c->kernel->dtype) ||
      !hlo_is_float(c->out->dtype))
    return hlo_refuse(h, op, "%s and %s to %s", c->in->what, c->kernel->what,
                      c->out->what);
  uint32_t rank = c->in->rank;
  if (rank < 2 || c->kernel->rank != rank || c->out->rank != rank)
    return hlo_wrong(h, op, "its ranks are %u, %u and %u", (unsigned)rank,
                     (unsigned)c->kernel->rank, (unsigned)c->out->rank);
  if (rank - 2 > SPATIAL_MOST)
    return hlo_refuse(h, op, "%u spatial dimensions", (unsigned)rank - 2);
  c->spatial = rank - 2;
  KEEL_TRY(read_orders(h, op, c));
  KEEL_TRY(read_windows(h, op, c));
  KEEL_TRY(vhlo_int(&h->v, op->raw, "feature_group_count", &c->feature_groups));
  KEEL_TRY(vhlo_int(&h->v, op->raw, "batch_group_count", &c->batch_groups));
  int64_t batch = c->in->dims[c->in_order[0]];
  if (c->feature_groups < 1 || c->batch_groups < 1 ||
      (c->feature_groups > 1 && c->batch_groups > 1) || batch % c->batch_groups)
    return hlo_wrong(h, op, "%lld groups of features and %lld of batches",
                     (long long)c->feature_groups, (long long)c->batch_groups);
  return KD_OK;
}

/* Without spatial dimensions there is one of a single element. */
static keel_value with_one(hlo *h, keel_value value, int64_t *dims,
                           uint32_t *rank) {
  if (*rank != 2) return value;
  dims[2] = 1;
  *rank = 3;
  return hlo_reshape(h, value, 3, dims);
}

/* The input as [batch, features, ...], where groups of batches are groups of features. */
static keel_value make_input(hlo *h, const hlo_op *op, const conv *c,
                             kd_dtype dtype, int64_t *dims, uint32_t *rank) {
  int64_t low[KD_MAX_RANK] = {0}, high[KD_MAX_RANK] = {0};
  int64_t interior[KD_MAX_RANK] = {0}, wide[KD_MAX_RANK];
  keel_value value = keel_emit_cast(hlo_at(h), op->in[0], dtype);
  value = hlo_transpose(h, value, c->in_order, *rank);
  for (uint32_t i = 0; i < *rank; i++)
    dims[i] = c->in->dims[c->in_order[i]];
  for (uint32_t i = 0; i < c->spatial; i++) {
    bool here = c->low[i] < 0 || c->high[i] < 0 || c->interior[i];
    interior[2 + i] = c->interior[i];
    low[2 + i] = here ? c->low[i] : 0;
    high[2 + i] = here ? c->high[i] : 0;
  }
  value = hlo_pad(h, value, hlo_number(h, dtype, 0), *rank, dims, low, high,
                  interior);
  value = with_one(h, value, dims, rank);
  if (c->batch_groups == 1) return value;
  int64_t order[KD_MAX_RANK];
  wide[0] = c->batch_groups;
  wide[1] = dims[0] / c->batch_groups;
  for (uint32_t i = 1; i < *rank; i++)
    wide[i + 1] = dims[i];
  for (uint32_t i = 0; i <= *rank; i++)
    order[i] = i < 2 ? 1 - i : i;
  value = hlo_reshape(h, value, *rank + 1, wide);
  value = hlo_transpose(h, value, order, *rank + 1);
  dims[0] /= c->batch_groups;
  dims[1] *= c->batch_groups;
  return hlo_reshape(h, value, *rank, dims);
}

static keel_value make_kernel(hlo *h, const hlo_op *op, const conv *c,
                              kd_dtype dtype, int64_t *dims) {
  uint32_t rank = c->kernel->rank;
  keel_value value = keel_emit_cast(hlo_at(h), op->in[1], dtype);
  value = hlo_transpose(h, value, c->kernel_order, rank);
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = c->kernel->dims[c->kernel_order[i]];
  for (uint32_t i = 0; i < c->spatial; i++)
    if (c->reversed[i]) value = hlo_reverse(h, value, 2 + i);
  return with_one(h, value, dims, &rank);
}

/* Sums are of the widest type. */
static kd_dtype sum_type(const conv *c) {
  kd_dtype dtype = c->out->dtype;
  if (keel_dtype_size(c->in->dtype) > keel_dtype_size(dtype))
    dtype = c->in->dtype;
  if (keel_dtype_size(c->kernel->dtype) > keel_dtype_size(dtype))
    dtype = c->kernel->dtype;
  return c->in->dtype == c->kernel->dtype || keel_dtype_size(dtype) > 2
             ? dtype
             : KD_F32;
}

static keel_value add_conv(hlo *h, const conv *c, keel_value x, keel_value w,
                           const int64_t *kernel, uint32_t rank) {
  int64_t stride[KD_MAX_RANK] = {1}, gap[KD_MAX_RANK] = {1};
  int64_t pads[2 * KD_MAX_RANK] = {0};
  uint32_t spatial = rank - 2;
  for (uint32_t i = 0; i < c->spatial; i++) {
    bool done = c->low[i] < 0 || c->high[i] < 0 || c->interior[i];
    stride[i] = c->stride[i];
    gap[i] = c->gap[i];
    pads[i] = done ? 0 : c->low[i];
    pads[spatial + i] = done ? 0 : c->high[i];
  }
  const keel_attr attrs[] = {
      KEEL_INTS("kernel_shape", spatial, kernel + 2),
      KEEL_INTS("strides", spatial, stride),
      KEEL_INTS("dilations", spatial, gap),
      KEEL_INTS("pads", 2 * spatial, pads),
      KEEL_INT("group", c->feature_groups * c->batch_groups)};
  const keel_value in[] = {x, w};
  return hlo_node(h, "Conv", attrs, 5, in, 2);
}

/* ---- as a product ---------------------------------------------------------------------- */

#define WINDOWS_MOST 64                 /* each is a node */
#define PATCHES_MOST (INT64_C(1) << 26) /* elements */

/* Numbers of windows, and of a kernel's places. */
static void count_windows(const conv *c, int64_t *out_windows,
                          int64_t *out_places) {
  *out_windows = *out_places = 1;
  for (uint32_t i = 0; i < c->spatial; i++) {
    *out_windows *= c->out->dims[c->out_order[2 + i]];
    *out_places *= c->kernel->dims[c->kernel_order[2 + i]];
  }
}

/* Libraries know kernels of some places, and many windows. */
static bool conv_is_product(const conv *c) {
  int64_t windows, places;
  count_windows(c, &windows, &places);
  if (!c->spatial || c->feature_groups > 1 || c->batch_groups > 1 ||
      windows > WINDOWS_MOST || places <= 4 * windows)
    return false;
  for (uint32_t i = 0; i < c->spatial; i++)
    if (c->reversed[i] || c->interior[i]) return false;
  int64_t line = c->in->elements / c->in->dims[c->in_order[0]];
  return line * windows <= PATCHES_MOST / c->in->dims[c->in_order[0]];
}

/* The elements in window `number`, as [batch, features x places]. */
static keel_value add_patch(hlo *h, const conv *c, keel_value x, int64_t number,
                            const int64_t *flat) {
  int64_t first[KD_MAX_RANK], end[KD_MAX_RANK], axes[KD_MAX_RANK];
  for (uint32_t i = c->spatial; i-- > 0;) {
    int64_t size = c->out->dims[c->out_order[2 + i]];
    int64_t places = c->kernel->dims[c->kernel_order[2 + i]];
    first[i] = number % size * c->stride[i];
    end[i] = first[i] + (places - 1) * c->gap[i] + 1;
    axes[i] = 2 + i;
    number /= size;
  }
  x = HLO(h, "Slice", x, keel_emit_ints(hlo_at(h), first, c->spatial),
          keel_emit_ints(hlo_at(h), end, c->spatial),
          keel_emit_ints(hlo_at(h), axes, c->spatial),
          keel_emit_ints(hlo_at(h), c->gap, c->spatial));
  return hlo_reshape(h, x, 2, flat);
}

/* [windows x batch, features x places] by [features x places, outputs]. */
static void add_product(hlo *h, const hlo_op *op, const conv *c,
                        kd_dtype dtype) {
  uint32_t rank = c->in->rank;
  int64_t dims[KD_MAX_RANK], order[KD_MAX_RANK], none[KD_MAX_RANK] = {0};
  int64_t low[KD_MAX_RANK] = {0}, high[KD_MAX_RANK] = {0}, windows, places;
  keel_value patches[WINDOWS_MOST];
  count_windows(c, &windows, &places);
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = c->in->dims[c->in_order[i]];
  memcpy(low + 2, c->low, c->spatial * sizeof *low);
  memcpy(high + 2, c->high, c->spatial * sizeof *high);
  const int64_t batch = dims[0], outputs = c->kernel->dims[c->kernel_order[0]];
  const int64_t flat[] = {batch, dims[1] * places},
                flat_kernel[] = {flat[1], outputs};
  keel_value x = hlo_transpose(h, keel_emit_cast(hlo_at(h), op->in[0], dtype),
                               c->in_order, rank);
  x = hlo_pad(h, x, hlo_number(h, dtype, 0), rank, dims, low, high, none);
  for (int64_t i = 0; i < windows; i++)
    patches[i] = add_patch(h, c, x, i, flat);
  x = hlo_concat(h, 0, patches, (uint32_t)windows);

  memcpy(order, c->kernel_order + 1, (rank - 1) * sizeof *order);
  order[rank - 1] = c->kernel_order[0];
  keel_value w = hlo_transpose(h, keel_emit_cast(hlo_at(h), op->in[1], dtype),
                               order, rank);
  w = hlo_reshape(h, w, 2, flat_kernel);

  /* windows, batch, outputs: back to the dimensions' places */
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t at = i < 2 ? c->spatial + i : i - 2;
    order[c->out_order[i]] = at;
    dims[at] = c->out->dims[c->out_order[i]];
  }
  keel_value y = hlo_reshape(h, HLO(h, "MatMul", x, w), rank, dims);
  op->out[0] = keel_emit_cast(hlo_at(h), hlo_transpose(h, y, order, rank),
                              c->out->dtype);
}

keel_status hlo_convolution(hlo *h, const hlo_op *op) {
  conv c;
  int64_t dims[KD_MAX_RANK], kernel[KD_MAX_RANK], back[KD_MAX_RANK];
  int64_t out[KD_MAX_RANK];
  KEEL_TRY(conv_read_conv(h, op, &c));
  uint32_t rank = c.in->rank;
  if (!c.in->elements || !c.kernel->elements || !c.out->elements) {
    op->out[0] =
        hlo_expand(h, hlo_number(h, c.out->dtype, 0), rank, c.out->dims);
    return KD_OK;
  }
  kd_dtype dtype = sum_type(&c);
  if (conv_is_product(&c)) {
    add_product(h, op, &c, dtype);
    return KD_OK;
  }
  for (uint32_t i = 0; i < rank; i++) {
    back[c.out_order[i]] = i;
    out[i] = c.out->dims[c.out_order[i]];
  }
  keel_value x = make_input(h, op, &c, dtype, dims, &rank);
  keel_value w = make_kernel(h, op, &c, dtype, kernel);
  keel_value y = add_conv(h, &c, x, w, kernel, rank);
  if (!c.spatial) y = hlo_reshape(h, y, 2, out);
  y = hlo_transpose(h, y, back, c.in->rank);
  op->out[0] = keel_emit_cast(hlo_at(h), y, c.out->dtype);
  return KD_OK;
}
