/* quantised_test.c - ops on bytes give the numbers of plain loops, for all instruction sets
 * and shapes; and the pass that computes quantised models on bytes keeps their results. */
#include <math.h>

#include "cpu_sets.h"

/* Of the types that are tried with each shape: all, or every ninth; and
 * of large ones. */
#ifdef KEEL_SANITIZED
enum { EVERY = 9, EVERY_LARGE = 17 };
#else
enum { EVERY = 1, EVERY_LARGE = 5 };
#endif

/* set and bytes: options, or NULL; where the processor has not got them, it is as it is. */
static int open_cpu(const char *set, const char *bytes, int32_t workers) {
  const char *options[3] = {"cpu.regions=off"};
  uint32_t count = 1;
  if (set) options[count++] = set;
  if (bytes) options[count++] = bytes;
  context = open_cpu_options(options, count, workers);
  return 0;
}

static int open_best(void **state) {
  (void)state;
  return open_cpu(NULL, NULL, 3);
}

static int open_avx2(void **state) {
  (void)state;
  return open_cpu("cpu.isa=avx2", "cpu.bytes=plain", 0);
}

static int open_vnni(void **state) {
  (void)state;
  return open_cpu(NULL, "cpu.bytes=vnni", 3);
}

static int open_plain(void **state) {
  (void)state;
  return open_cpu(NULL, "cpu.bytes=plain", 3);
}

static int open_avx2_vnni(void **state) {
  (void)state;
  return open_cpu("cpu.isa=avx2", "cpu.bytes=vnni", 0);
}

static int open_base(void **state) {
  (void)state;
  return open_cpu("cpu.isa=base", NULL, 3);
}

static int open_regions(void **state) {
  const char *path = CPU_PLUGIN;
  const keel_context_params params = {.struct_size = sizeof params,
                                      .flags = KEEL_ONLY_NAMED,
                                      .plugins = &path,
                                      .plugin_count = 1,
                                      .workers = 3};
  (void)state;
  return keel_open(&params, &context) != KD_OK;
}

/* ---- bytes ---------------------------------------------------------------------- */

static uint32_t seed = 1;

static uint8_t next_byte(void) {
  seed = seed * 1664525u + 1013904223u;
  return (uint8_t)(seed >> 24);
}

/* Bytes of a tensor, and what they are. `few`: from -40 to 39, but for one in a hundred, or
 * about so far from 128. */
typedef struct bytes {
  keel_tensor *tensor;
  uint8_t *data;
  bool is_signed;
  int64_t count, last; /* last: of its dimensions */
} bytes;

static bytes make_bytes(bool is_signed, bool few, uint32_t rank,
                        const int64_t *dims) {
  bytes b = {
      .is_signed = is_signed, .count = 1, .last = rank ? dims[rank - 1] : 1};
  for (uint32_t i = 0; i < rank; i++)
    b.count *= dims[i];
  b.data = malloc((size_t)b.count + 1);
  assert_non_null(b.data);
  for (int64_t i = 0; i < b.count; i++) {
    b.data[i] = next_byte();
    if (few && i % 101 != 7) b.data[i] = (uint8_t)(b.data[i] % 80 - 40);
    if (few && !is_signed) b.data[i] ^= 0x80;
  }
  assert_int_equal(keel_tensor_create(context, is_signed ? KD_I8 : KD_U8, rank,
                                      dims, b.data, &b.tensor),
                   KD_OK);
  return b;
}

static void drop_bytes(bytes *b) {
  keel_tensor_release(b->tensor);
  free(b->data);
}

UNWATCHED static int byte_at(const bytes *b, int64_t i) {
  return b->is_signed ? (int8_t)b->data[i] : b->data[i];
}

static keel_tensor *numbers(kd_dtype dtype, uint32_t rank, int64_t count,
                            const void *data) {
  return create_tensor(context, dtype, rank, &count, data);
}

/* Runs one op in a program; inputs from `first` to `last` are constants. */
static keel_tensor *run_op(const char *op, const keel_attr *attrs,
                           uint32_t attr_count, keel_tensor **in,
                           uint32_t count, uint32_t first, uint32_t last) {
  keel_value values[9];
  keel_tensor *given[9], *y = NULL;
  uint32_t inputs = 0;
  keel_builder *builder = create_builder(context, "one");
  for (uint32_t i = 0; i < count; i++) {
    char name[16];
    snprintf(name, sizeof name, "i%u", i);
    if (i >= first && i <= last) {
      values[i] = keel_builder_constant(builder, in[i]);
      continue;
    }
    values[i] =
        keel_builder_input(builder, name, keel_tensor_dtype(in[i]),
                           keel_tensor_rank(in[i]), keel_tensor_dims(in[i]));
    given[inputs++] = in[i];
  }
  keel_builder_output(
      builder, "y",
      keel_builder_op(builder, op, attrs, attr_count, values, count));
  keel_program *program = finish_program(builder);
  keel_plan *plan = create_plan(program, NULL);
  expect_ok(keel_plan_run(plan, given, inputs, &y, 1));
  keel_plan_release(plan);
  keel_program_release(program);
  return y;
}

/* ---- products -------------------------------------------------------------------- */

/* The element of A times B in a row and a column. */
UNWATCHED static int32_t product_sum(const bytes *a, const bytes *za,
                                     int64_t row, const bytes *b,
                                     const bytes *zb, int64_t column) {
  int64_t k = a->last, n = b->last;
  int32_t sum = 0;
  for (int64_t p = 0; p < k; p++)
    sum +=
        (byte_at(a, row * k + p) - byte_at(za, za->count > 1 ? row : 0)) *
        (byte_at(b, p * n + column) - byte_at(zb, zb->count > 1 ? column : 0));
  return sum;
}

/* types: bit 0: A is signed, 1: B, 2: B's numbers are small, 3: B is a constant, 4: a zero
 * point for each row and column. */
static void product(int64_t m, int64_t n, int64_t k, int types) {
  const int64_t a_dims[] = {m, k}, b_dims[] = {k, n};
  bytes a = make_bytes(types & 1, false, 2, a_dims);
  bytes b = make_bytes(types & 2, types & 4, 2, b_dims);
  bool each = types & 16, constant = types & 8;
  int64_t rows = each ? m : 1, columns = each ? n : 1;
  bytes za = make_bytes(types & 1, false, each, &rows);
  bytes zb = make_bytes(types & 2, types & 4, each, &columns);
  keel_tensor *in[] = {a.tensor, b.tensor, za.tensor, zb.tensor};
  keel_tensor *y = run_op("MatMulInteger", NULL, 0, in, 4, constant ? 1 : 9,
                          constant ? 3 : 9);
  int32_t *got = malloc((size_t)(m * n) * sizeof *got);
  assert_non_null(got);
  assert_int_equal(keel_tensor_read(y, got, (size_t)(m * n) * sizeof *got),
                   KD_OK);
  for (int64_t i = 0; i < m * n; i++) {
    int32_t want = product_sum(&a, &za, i / n, &b, &zb, i % n);
    if (got[i] != want)
      fail_msg("%lld x %lld x %lld, %d: element %lld is %d, not %d",
               (long long)m, (long long)n, (long long)k, types, (long long)i,
               got[i], want);
  }
  free(got);
  keel_tensor_release(y);
  drop_bytes(&a);
  drop_bytes(&b);
  drop_bytes(&za);
  drop_bytes(&zb);
}

static void products_are_exact(void **state) {
  static const int64_t sizes[][3] = {
      {1, 1, 1},    {1, 300, 7},   {5, 17, 33}, {2, 8, 2},     {13, 31, 130},
      {12, 65, 64}, {1, 33, 1100}, {200, 9, 5}, {97, 49, 600}, {33, 300, 515}};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int types = (int)i % EVERY; types < 32; types += EVERY)
      product(sizes[i][0], sizes[i][1], sizes[i][2], types);
}

/* For several threads, by rows and by columns. */
static void large_products_are_exact(void **state) {
  (void)state;
  for (int types = 0; types < 32; types += EVERY_LARGE) {
    product(401, 130, 70, types);
    product(30, 700, 257, types);
  }
}

/* ---- convolutions ------------------------------------------------------------------ */

typedef struct shape {
  int space;
  int64_t batch, group, in_c, out_c; /* channels of a group */
  int64_t size[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
} shape;

UNWATCHED static int64_t out_size(const shape *s, int i) {
  return (s->size[i] + s->begin[i] + s->end[i] -
          (s->kernel[i] - 1) * s->dilation[i] - 1) /
             s->stride[i] +
         1;
}

/* The sum of one output: image and channel `plane`, position `at`. */
UNWATCHED static int32_t window_sum(const shape *s, const bytes *x, int zx,
                                    const bytes *w, const bytes *zw,
                                    int64_t plane, int64_t at) {
  int64_t channels = s->group * s->out_c, channel = plane % channels;
  int64_t ins = 1, taps = 1;
  for (int i = 0; i < s->space; i++) {
    ins *= s->size[i];
    taps *= s->kernel[i];
  }
  int32_t sum = 0;
  for (int64_t c = 0; c < s->in_c; c++)
    for (int64_t t = 0; t < taps; t++) {
      int64_t from = 0, step = 1, tap = t, rest = at;
      bool inside = true;
      for (int i = s->space - 1; i >= 0; i--) {
        int64_t p = rest % out_size(s, i) * s->stride[i] - s->begin[i] +
                    tap % s->kernel[i] * s->dilation[i];
        rest /= out_size(s, i);
        tap /= s->kernel[i];
        inside &= p >= 0 && p < s->size[i];
        from += p * step;
        step *= s->size[i];
      }
      if (!inside) continue;
      int64_t x_plane =
          (plane / channels * s->group + channel / s->out_c) * s->in_c + c;
      sum += (byte_at(x, x_plane * ins + from) - zx) *
             (byte_at(w, (channel * s->in_c + c) * taps + t) -
              byte_at(zw, zw->count > 1 ? channel : 0));
    }
  return sum;
}

static keel_tensor *run_conv(const shape *s, const bytes *x, const bytes *zx,
                             const bytes *w, const bytes *zw, bool quantised,
                             bool constant, const float *scales,
                             const int32_t *bias) {
  int64_t pads[6], channels = s->group * s->out_c;
  for (int i = 0; i < s->space; i++) {
    pads[i] = s->begin[i];
    pads[s->space + i] = s->end[i];
  }
  uint32_t n = (uint32_t)s->space;
  const keel_attr attrs[] = {
      {.name = "pads", .kind = KD_ATTR_INTS, .count = 2 * n, .ints = pads},
      {.name = "strides", .kind = KD_ATTR_INTS, .count = n, .ints = s->stride},
      {.name = "dilations",
       .kind = KD_ATTR_INTS,
       .count = n,
       .ints = s->dilation},
      KEEL_INT("group", s->group)};
  if (!quantised) {
    keel_tensor *in[] = {x->tensor, w->tensor, zx->tensor, zw->tensor};
    return run_op("ConvInteger", attrs, 4, in, 4, constant ? 1 : 9,
                  constant ? 3 : 9);
  }
  const float one = 0.5f;
  keel_tensor *sx = numbers(KD_F32, 0, 1, &one);
  keel_tensor *sw = numbers(KD_F32, 1, channels, scales);
  keel_tensor *b = numbers(KD_I32, 1, channels, bias);
  keel_tensor *in[] = {x->tensor,  sx, zx->tensor, w->tensor, sw,
                       zw->tensor, sx, zx->tensor, b};
  keel_tensor *y = run_op("QLinearConv", attrs, 4, in, 9, constant ? 1 : 9, 9);
  keel_tensor_release(sx);
  keel_tensor_release(sw);
  keel_tensor_release(b);
  return y;
}

/* types: bit 0: X is signed, 1: W, 2: W's numbers are small, 3: W is a constant, 4: a zero
 * point for each channel. */
static void convolution(const shape *s, int types) {
  int64_t x_dims[5] = {s->batch, s->group * s->in_c}, outs = 1;
  int64_t w_dims[5] = {s->group * s->out_c, s->in_c}, channels = w_dims[0];
  float scales[256];
  int32_t bias[256];
  for (int i = 0; i < s->space; i++) {
    x_dims[i + 2] = s->size[i];
    w_dims[i + 2] = s->kernel[i];
    outs *= out_size(s, i);
  }
  for (int64_t i = 0; i < channels; i++) {
    scales[i] = (float)(next_byte() + 1) * 0x1p-16f;
    bias[i] = (next_byte() - 128) * 16;
  }
  if (types & 16) scales[channels - 1] = INFINITY;
  bytes x = make_bytes(types & 1, false, (uint32_t)s->space + 2, x_dims);
  bytes w = make_bytes(types & 2, types & 4, (uint32_t)s->space + 2, w_dims);
  bytes zx = make_bytes(types & 1, false, 0, NULL);
  bytes zw = make_bytes(types & 2, types & 4, types & 16 ? 1 : 0, &channels);
  bool constant = types & 8;
  int64_t count = s->batch * channels * outs;
  keel_tensor *sums =
      run_conv(s, &x, &zx, &w, &zw, false, constant, scales, bias);
  keel_tensor *steps =
      run_conv(s, &x, &zx, &w, &zw, true, constant, scales, bias);
  int32_t *got = malloc((size_t)count * sizeof *got);
  bytes y = {.data = malloc((size_t)count), .is_signed = types & 1};
  assert_int_equal(keel_tensor_read(sums, got, (size_t)count * 4), KD_OK);
  assert_int_equal(keel_tensor_read(steps, y.data, (size_t)count), KD_OK);
  for (int64_t i = 0; i < count; i++) {
    int64_t channel = i / outs % channels;
    int zero = byte_at(&zx, 0), low = y.is_signed ? -128 : 0;
    int32_t want = window_sum(s, &x, zero, &w, &zw, i / outs, i % outs);
    double step =
        rint((double)scales[channel] * (double)(want + bias[channel])) + zero;
    if (step != step) step = zero;
    step = step < low ? low : step > low + 255 ? low + 255 : step;
    if (got[i] != want || fabs(byte_at(&y, i) - step) > 1)
      fail_msg("%d: element %lld is %d and %d, not %d and %g", types,
               (long long)i, got[i], byte_at(&y, i), want, step);
  }
  free(got);
  keel_tensor_release(sums);
  keel_tensor_release(steps);
  drop_bytes(&x);
  drop_bytes(&w);
  drop_bytes(&zx);
  drop_bytes(&zw);
  free(y.data);
}

static const shape shapes[] = {
    /* points, also with a stride, and without neighbours */
    {2, 1, 1, 5, 7, {9, 11}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 2, 1, 6, 4, {9, 11}, {1, 1}, {2, 3}, {1, 1}, {0, 0}, {0, 0}},
    {1, 1, 1, 3, 5, {70}, {1}, {1}, {1}, {2}, {1}},
    /* windows: all, groups, one channel, several results of one channel */
    {2, 1, 1, 3, 13, {17, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 2, 1, 4, 5, {12, 19}, {3, 5}, {2, 2}, {1, 2}, {2, 0}, {1, 3}},
    {2, 1, 3, 2, 5, {8, 9}, {3, 2}, {1, 3}, {2, 1}, {0, 1}, {1, 2}},
    {2, 2, 5, 1, 1, {7, 7}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {2, 1, 4, 1, 3, {15, 34}, {3, 3}, {2, 2}, {1, 1}, {0, 1}, {1, 1}},
    {2, 1, 3, 1, 6, {9, 40}, {2, 4}, {1, 3}, {1, 2}, {1, 3}, {0, 3}},
    {1, 2, 2, 3, 4, {50}, {5}, {3}, {2}, {4}, {1}},
    {3,
     1,
     1,
     2,
     3,
     {5, 6, 7},
     {2, 3, 3},
     {1, 2, 1},
     {2, 1, 1},
     {1, 0, 1},
     {0, 1, 1}},
    {3,
     1,
     4,
     1,
     1,
     {5, 6, 7},
     {3, 3, 3},
     {1, 2, 2},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1}},
    /* windows that see nothing but padding */
    {2, 1, 1, 2, 3, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {4, 4}, {4, 4}},
    /* for several threads and blocks of each length */
    {2, 1, 1, 64, 33, {21, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 1, 8, 11, {30, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 2, 1, 140, 100, {7, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 40, 1, 1, {40, 60}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
};

static void convolutions_are_exact(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int types = (int)i % (3 * EVERY); types < 32; types += 3 * EVERY)
      convolution(&shapes[i], types);
}

/* ---- quantisation by what is in it --------------------------------------------------- */

static void a_large_range_is_found(void **state) {
  enum { COUNT = 20011 };
  static float x[COUNT];
  static uint8_t got[COUNT];
  (void)state;
  for (int i = 0; i < COUNT; i++)
    x[i] = (float)(i * 7919 % 4001 - 2000) / 1000;
  x[COUNT - 1] = 3;
  x[4999] = -2.5f;
  keel_tensor *in[] = {numbers(KD_F32, 1, COUNT, x)}, *out[3] = {NULL};
  assert_int_equal(
      keel_call(context, "DynamicQuantizeLinear", NULL, 0, in, 1, out, 3),
      KD_OK);
  float scale = 0;
  uint8_t zero = 0;
  assert_int_equal(keel_tensor_read(out[0], got, COUNT), KD_OK);
  assert_int_equal(keel_tensor_read(out[1], &scale, 4), KD_OK);
  assert_int_equal(keel_tensor_read(out[2], &zero, 1), KD_OK);
  assert_true(scale == 5.5f / 255);
  assert_int_equal(zero, (int)rintf(2.5f / scale));
  for (int i = 0; i < COUNT; i++) {
    float want = rintf(x[i] / scale) + zero;
    assert_int_equal(got[i], (int)(want > 255 ? 255 : want < 0 ? 0 : want));
  }
  keel_tensor_release(in[0]);
  release_all(out, 3);
}

/* ---- models that state their quantisation ---------------------------------------------- */

enum { CHANNELS = 6, SIDE = 9, FILTERS = 10 };

static keel_value scaled(keel_builder *b, const char *op, keel_value x,
                         float scale, uint8_t zero) {
  keel_value three[] = {x, add_constant(b, KD_F32, 0, NULL, &scale),
                        add_constant(b, KD_U8, 0, NULL, &zero)};
  return keel_builder_op(b, op, NULL, 0, three, 3);
}

/* As floats, by way of bytes. */
static keel_value by_bytes(keel_builder *b, keel_value x, float scale,
                           uint8_t zero) {
  return scaled(b, "DequantizeLinear",
                scaled(b, "QuantizeLinear", x, scale, zero), scale, zero);
}

/* i8 weights with a scale for each line along `axis`, as floats. */
static keel_value weights(keel_builder *b, uint32_t rank, const int64_t *dims,
                          int64_t axis) {
  float scales[64];
  int8_t zeros[64] = {0};
  bytes w = make_bytes(true, true, rank, dims);
  const keel_attr attr = KEEL_INT("axis", axis);
  for (int i = 0; i < 64; i++)
    scales[i] = 0.002f + 0.0001f * (float)i;
  keel_value three[] = {keel_builder_constant(b, w.tensor),
                        add_constant(b, KD_F32, 1, &dims[axis], scales),
                        add_constant(b, KD_I8, 1, &dims[axis], zeros)};
  drop_bytes(&w);
  return keel_builder_op(b, "DequantizeLinear", &attr, 1, three, 3);
}

/* The results' scale. */
#define STEP 0.25f

static keel_value conv(keel_builder *b, keel_value x) {
  const int64_t dims[] = {FILTERS, CHANNELS, 3, 3}, pads[] = {1, 1, 1, 1};
  const int64_t filters = FILTERS;
  float bias[FILTERS];
  for (int i = 0; i < FILTERS; i++)
    bias[i] = 0.3f * (float)(i - 4);
  const keel_attr attr = {
      .name = "pads", .kind = KD_ATTR_INTS, .count = 4, .ints = pads};
  keel_value three[] = {by_bytes(b, x, 0.04f, 100), weights(b, 4, dims, 0),
                        add_constant(b, KD_F32, 1, &filters, bias)};
  return keel_builder_op(b, "Conv", &attr, 1, three, 3);
}

static keel_value write_conv(keel_builder *b, keel_value x) {
  return by_bytes(b, conv(b, x), STEP, 90);
}

static keel_value write_relu(keel_builder *b, keel_value x) {
  return by_bytes(b, op(b, "Relu", conv(b, x), KEEL_ABSENT), STEP, 0);
}

/* Numbers below 0 can be told from 0, but for the Relu. */
static keel_value write_needed_relu(keel_builder *b, keel_value x) {
  return by_bytes(b, op(b, "Relu", conv(b, x), KEEL_ABSENT), STEP, 7);
}

/* Floats are needed, too. */
static keel_value write_twice(keel_builder *b, keel_value x) {
  x = conv(b, x);
  return op(b, "Add", by_bytes(b, x, STEP, 90), x);
}

static keel_value write_matmul(keel_builder *b, keel_value x) {
  const int64_t dims[] = {SIDE, 33};
  keel_value w = weights(b, 2, dims, 1);
  return by_bytes(b, op(b, "MatMul", by_bytes(b, x, 0.04f, 100), w), STEP, 90);
}

static keel_value write_moves(keel_builder *b, keel_value x) {
  const int64_t kernel[] = {2, 2}, perm[] = {0, 2, 3, 1};
  const keel_attr pool = {
      .name = "kernel_shape", .kind = KD_ATTR_INTS, .count = 2, .ints = kernel};
  const keel_attr turn = {
      .name = "perm", .kind = KD_ATTR_INTS, .count = 4, .ints = perm};
  x = by_bytes(b, x, 0.04f, 100);
  x = by_bytes(b, keel_builder_op(b, "MaxPool", &pool, 1, &x, 1), 0.04f, 100);
  x = keel_builder_op(b, "Transpose", &turn, 1, &x, 1);
  x = by_bytes(b, x, 0.04f, 100);
  return by_bytes(b, op(b, "Relu", x, KEEL_ABSENT), 0.04f, 100);
}

/* Another scale behind: elements change. */
static keel_value write_rescaled(keel_builder *b, keel_value x) {
  x = by_bytes(b, x, 0.04f, 100);
  return by_bytes(b, op(b, "Transpose", x, KEEL_ABSENT), 0.05f, 100);
}

typedef keel_value writer(keel_builder *builder, keel_value x);

static keel_plan *plan_without(keel_program *program, const char *skip) {
  const keel_plan_params params = {
      .struct_size = sizeof params, .skip = &skip, .skip_count = skip != NULL};
  keel_plan *plan = create_plan(program, &params);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  return plan;
}

/* Runs the program; returns how many elements came. */
static int64_t run_plan(keel_plan *plan, float *out, size_t room) {
  static float data[CHANNELS * SIDE * SIDE];
  const int64_t dims[] = {1, CHANNELS, SIDE, SIDE};
  keel_tensor *y = NULL;
  int64_t count = 1;
  for (int i = 0; i < CHANNELS * SIDE * SIDE; i++)
    data[i] = (float)(i * 7919 % 401 - 200) / 50;
  keel_tensor *x = create_tensor(context, KD_F32, 4, dims, data);
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  for (uint32_t i = 0; i < keel_tensor_rank(y); i++)
    count *= keel_tensor_dims(y)[i];
  assert_true((size_t)count <= room);
  assert_int_equal(keel_tensor_read(y, out, (size_t)count * sizeof *out),
                   KD_OK);
  keel_tensor_release(x);
  keel_tensor_release(y);
  return count;
}

/* The program runs so many of the ops, and differs by `bound` from what it gives without the
 * pass; `open`: its batch is not known before it runs. */
static void expect(writer *write, const char *fused, uint32_t count,
                   const char *gone, uint32_t left, float bound, bool open) {
  static float want[16384], got[16384];
  const int64_t dims[] = {open ? -1 : 1, CHANNELS, SIDE, SIDE};
  keel_builder *builder = create_builder(context, "model");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 4, dims);
  keel_builder_output(builder, "y", write(builder, x));
  keel_program *program = finish_program(builder);
  keel_plan *plain = plan_without(program, "quantise");
  keel_plan *plan = plan_without(program, NULL);
  int64_t elements = run_plan(plain, want, 16384);
  assert_int_equal(run_plan(plan, got, 16384), elements);
  for (int64_t i = 0; i < elements; i++)
    if (fabsf(got[i] - want[i]) > bound)
      fail_msg("element %lld is %g, without the pass %g", (long long)i,
               (double)got[i], (double)want[i]);
  /* of the plan, and of the one for the batch that came first */
  uint32_t plans = open ? 2 : 1;
  assert_int_equal(runs_of(plan, fused), count * plans);
  assert_int_equal(runs_of(plan, gone), left * plans);
  keel_plan_release(plain);
  keel_plan_release(plan);
  keel_program_release(program);
}

static void products_between_scales_are_of_bytes(void **state) {
  const float step = 1.001f * STEP;
  (void)state;
  for (int open = 0; open < 2; open++) {
    expect(write_conv, "QLinearConv", 1, "Conv", 0, step, open);
    expect(write_relu, "QLinearConv", 1, "Relu", 0, step, open);
    expect(write_matmul, "QLinearMatMul", 1, "MatMul", 0, step, open);
  }
}

/* Not even while the plan is made. */
static void weights_are_never_floats(void **state) {
  const int64_t dims[] = {1024, 64}, one[] = {1, 1024};
  keel_stats before, after;
  (void)state;
  keel_builder *b = create_builder(context, "model");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, one);
  x = op(b, "MatMul", by_bytes(b, x, 0.04f, 100), weights(b, 2, dims, 1));
  keel_builder_output(b, "y", by_bytes(b, x, STEP, 90));
  keel_program *program = finish_program(b);
  keel_get_stats(context, &before);
  keel_plan *plan = create_plan(program, NULL);
  keel_get_stats(context, &after);
  assert_true(after.peak_bytes < before.tensor_bytes + 4 * 1024 * 64);
  keel_plan_release(plan);
  keel_program_release(program);
}

static void what_is_not_the_same_stays(void **state) {
  (void)state;
  expect(write_needed_relu, "QLinearConv", 0, "QuantizeLinear", 2, 0, false);
  expect(write_twice, "QLinearConv", 0, "QuantizeLinear", 2, 0, false);
  expect(write_rescaled, "DequantizeLinear", 2, "QuantizeLinear", 2, 0, false);
}

static void bytes_are_moved_as_they_are(void **state) {
  (void)state;
  expect(write_moves, "DequantizeLinear", 2, "QuantizeLinear", 2, 0, false);
}

/* Bytes of both types, without a zero point too, and floats between them. */
static keel_value write_chain(keel_builder *b, keel_value x) {
  const float scale = 0.05f;
  const int8_t zero = -9;
  keel_value step = add_constant(b, KD_F32, 0, NULL, &scale);
  keel_value three[] = {x, step, add_constant(b, KD_I8, 0, NULL, &zero)};
  keel_value a = keel_builder_op(b, "QuantizeLinear", NULL, 0, three, 3);
  keel_value two[] = {op(b, "Abs", x, KEEL_ABSENT), step};
  keel_value c = keel_builder_op(b, "QuantizeLinear", NULL, 0, two, 2);
  three[0] = a;
  two[0] = c;
  a = keel_builder_op(b, "DequantizeLinear", NULL, 0, three, 3);
  c = keel_builder_op(b, "DequantizeLinear", NULL, 0, two, 2);
  return by_bytes(b, op(b, "Sub", op(b, "Mul", a, c), x), 0.1f, 31);
}

static uint32_t run_chain(const char *skip, float *out, int64_t *out_count) {
  const int64_t dims[] = {1, CHANNELS, SIDE, SIDE};
  keel_builder *builder = create_builder(context, "chain");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 4, dims);
  keel_builder_output(builder, "y", write_chain(builder, x));
  keel_program *program = finish_program(builder);
  keel_plan *plan = plan_without(program, skip);
  *out_count = run_plan(plan, out, 16384);
  uint32_t regions = runs_of(plan, "Region");
  keel_plan_release(plan);
  keel_program_release(program);
  return regions;
}

static void a_chain_of_bytes_is_one_step(void **state) {
  static float want[16384], got[16384];
  int64_t count = 0, same = 0;
  (void)state;
  assert_int_equal(run_chain("regions", want, &count), 0);
  assert_int_equal(run_chain(NULL, got, &same), 1);
  assert_int_equal(same, count);
  assert_memory_equal(got, want, (size_t)count * sizeof *want);
}

#define OF_ALL_SETS(name)                                                   \
  cmocka_unit_test_setup_teardown(name, open_best, close_context),          \
      cmocka_unit_test_setup_teardown(name, open_vnni, close_context),      \
      cmocka_unit_test_setup_teardown(name, open_plain, close_context),     \
      cmocka_unit_test_setup_teardown(name, open_avx2_vnni, close_context), \
      cmocka_unit_test_setup_teardown(name, open_avx2, close_context),      \
      cmocka_unit_test_setup_teardown(name, open_base, close_context)

int main(void) {
  const struct CMUnitTest tests[] = {
      OF_ALL_SETS(products_are_exact),
      OF_ALL_SETS(large_products_are_exact),
      OF_ALL_SETS(convolutions_are_exact),
      OF_ALL_SETS(a_large_range_is_found),
      cmocka_unit_test_setup_teardown(products_between_scales_are_of_bytes,
                                      open_best, close_context),
      cmocka_unit_test_setup_teardown(weights_are_never_floats, open_best,
                                      close_context),
      cmocka_unit_test_setup_teardown(what_is_not_the_same_stays, open_best,
                                      close_context),
      cmocka_unit_test_setup_teardown(bytes_are_moved_as_they_are, open_best,
                                      close_context),
      cmocka_unit_test_setup_teardown(a_chain_of_bytes_is_one_step,
                                      open_regions, close_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
