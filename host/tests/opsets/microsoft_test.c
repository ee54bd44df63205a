/* microsoft_test.c - com.microsoft's MatMulNBits and GroupQueryAttention on each instruction set
 * of the CPU, beside what they are defined as, in double; and what is refused. */
#include <math.h>

#include "cpu_sets.h"

#define NBITS "com.microsoft::MatMulNBits"
#define GROUP "com.microsoft::GroupQueryAttention"

static uint32_t state_of_random = 1;

static double uniform(void) {
  state_of_random = state_of_random * 1664525u + 1013904223u;
  return (double)(state_of_random >> 8) * 0x1p-24 - 0.5;
}

static void fill(float *list, int64_t count, float range) {
  for (int64_t i = 0; i < count; i++)
    list[i] = range * (float)uniform();
}

static const char *const sets[][2] = {
    {NULL, NULL},           {"cpu.bytes=plain", NULL},
    {"cpu.isa=avx2", NULL}, {"cpu.isa=avx2", "cpu.bytes=plain"},
    {"cpu.isa=base", NULL},
};
enum { SETS = sizeof sets / sizeof *sets };

static void open_set(int set) {
  const char *options[] = {sets[set][0], sets[set][1]};
  context = open_cpu_options(options, !!options[0] + !!options[1], 2);
}

static void close_set(void) {
  keel_close(context);
  context = NULL;
}

/* ---- MatMulNBits ------------------------------------------------------------------------ */

typedef enum zero_kind { MIDDLE, PACKED, FLOATS } zero_kind;

typedef struct product {
  int64_t m, n, k, bits, block, level;
  zero_kind zeros;
  bool bias;
} product;

enum { ROOM = 1 << 16 };
static float a[ROOM], scales[ROOM], float_zeros[ROOM], bias[ROOM], got[ROOM];
static uint8_t weights[ROOM], packed_zeros[ROOM];

static double number(const uint8_t *bytes, int64_t index, int64_t bits) {
  return bytes[index * bits / 8] >> index * bits % 8 & ((1 << bits) - 1);
}

static double weight(const product *p, int64_t n, int64_t k) {
  int64_t blocks = (p->k + p->block - 1) / p->block, b = k / p->block;
  int64_t row = p->block * blocks * p->bits / 8;
  double zero = (double)(1 << (p->bits - 1));
  if (p->zeros == PACKED)
    zero = number(packed_zeros + n * ((blocks * p->bits + 7) / 8), b, p->bits);
  if (p->zeros == FLOATS) zero = (double)float_zeros[n * blocks + b];
  return (number(weights + n * row, k, p->bits) - zero) *
         (double)scales[n * blocks + b];
}

static void expect_product(const product *p) {
  double most = 0, off = 0, allowed = p->level == 4 ? 0.02 : 1e-5;
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t n = 0; n < p->n; n++) {
      double want = p->bias ? (double)bias[n] : 0, size = 0;
      for (int64_t k = 0; k < p->k; k++) {
        double term = (double)a[i * p->k + k] * weight(p, n, k);
        want += term;
        size += term * term;
      }
      double less = fabs((double)got[i * p->n + n] - want);
      off = fmax(off, less);
      most = fmax(most, sqrt(size));
    }
  if (off > allowed * most)
    fail_msg(
        "m %d n %d k %d, %d bits, blocks of %d, zeros %d, level %d: off by"
        " %g of %g",
        (int)p->m, (int)p->n, (int)p->k, (int)p->bits, (int)p->block, p->zeros,
        (int)p->level, off, most);
}

/* A model's, whose weights are constants: its kernels may hold them in another form. */
static keel_plan *plan_of_model(keel_tensor *const *in,
                                const keel_attr *attrs) {
  keel_builder *g = create_builder(context, "product");
  const int64_t *dims = keel_tensor_dims(in[0]);
  keel_value values[6] = {keel_builder_input(g, "A", keel_tensor_dtype(in[0]),
                                             keel_tensor_rank(in[0]), dims)};
  for (int i = 1; i < 6; i++)
    values[i] = in[i] ? keel_builder_constant(g, in[i]) : KEEL_ABSENT;
  keel_builder_output(g, "Y", keel_builder_op(g, NBITS, attrs, 5, values, 6));
  return finish_plan(g, NULL);
}

static keel_tensor *run_model(keel_tensor *const *in, const keel_attr *attrs) {
  keel_plan *plan = plan_of_model(in, attrs);
  keel_tensor *y = output_of(plan, in, 1);
  keel_plan_release(plan);
  return y;
}

/* Each operand is given in the call where accuracy_level is 0. */
static void run_product(const product *p, kd_dtype dtype) {
  int64_t blocks = (p->k + p->block - 1) / p->block;
  const int64_t rows[] = {p->m, p->k}, each[] = {p->n, blocks};
  const int64_t packed[] = {p->n, blocks, p->block * p->bits / 8};
  const int64_t zeros[] = {p->n, (blocks * p->bits + 7) / 8};
  keel_tensor *in[6] = {create_tensor(context, KD_F32, 2, rows, a),
                        create_tensor(context, KD_U8, 3, packed, weights),
                        create_tensor(context, KD_F32, 2, each, scales)};
  if (p->zeros == PACKED)
    in[3] = create_tensor(context, KD_U8, 2, zeros, packed_zeros);
  if (p->zeros == FLOATS)
    in[3] = create_tensor(context, KD_F32, 2, each, float_zeros);
  if (p->bias) in[5] = create_tensor(context, KD_F32, 1, &p->n, bias);
  const keel_attr attrs[] = {
      KEEL_INT("N", p->n), KEEL_INT("K", p->k), KEEL_INT("bits", p->bits),
      KEEL_INT("block_size", p->block), KEEL_INT("accuracy_level", p->level)};
  const keel_attr to = KEEL_INT("to", dtype), back = KEEL_INT("to", KD_F32);
  keel_tensor *y = NULL, *wide = NULL;
  for (int i = 0; i < 6 && dtype != KD_F32; i++) {
    if (!in[i] || keel_tensor_dtype(in[i]) == KD_U8) continue;
    keel_tensor *narrow = call_op(context, "Cast", &to, 1, &in[i], 1);
    keel_tensor_release(in[i]);
    in[i] = narrow;
  }
  if (p->level)
    y = run_model(in, attrs);
  else
    expect_ok(keel_call(context, NBITS, attrs, 5, in, 6, &y, 1));
  expect_ok(keel_call(context, "Cast", &back, 1, &y, 1, &wide, 1));
  expect_ok(keel_tensor_read(wide, got, (uint64_t)(p->m * p->n) * 4));
  RELEASE(wide, y);
  for (int i = 0; i < 6; i++)
    keel_tensor_release(in[i]);
}

static void fill_all(void) {
  fill(a, ROOM, 2);
  fill(scales, ROOM, 0.1f);
  fill(float_zeros, ROOM, 20);
  fill(bias, ROOM, 3);
  for (int i = 0; i < ROOM; i++) {
    weights[i] = (uint8_t)(256 * (uniform() + 0.5));
    packed_zeros[i] = (uint8_t)(256 * (uniform() + 0.5));
  }
}

TEST_THAT(weights_are_what_they_are_defined_as) {
  static const int64_t sizes[][3] = {
      /* n, k, block */
      {5, 64, 32},   {33, 200, 32}, {4, 17, 16},   {9, 480, 32}, {7, 256, 64},
      {3, 640, 128}, {6, 512, 256}, {130, 96, 32}, {3, 1, 16}};
  fill_all();
  for (int set = 0; set < SETS; set++) {
    open_set(set);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int64_t m = 1; m <= 12; m += m == 1 ? 2 : 9)
        for (int bits = 2; bits <= 8; bits *= 2)
          for (int zeros = MIDDLE; zeros <= FLOATS; zeros++)
            for (int level = 0; level <= 4; level += 4) {
              const product p = {m,     sizes[s][0],    sizes[s][1],
                                 bits,  sizes[s][2],    level,
                                 zeros, zeros == MIDDLE};
              run_product(&p, KD_F32);
              expect_product(&p);
            }
    close_set();
  }
}

/* Numbers that each type has exactly, and sums of few of them. */
TEST_THAT(halves_are_computed_as_floats) {
  const product p = {3, 40, 64, 4, 32, 0, FLOATS, true};
  fill_all();
  for (int i = 0; i < ROOM; i++) {
    a[i] = roundf(a[i] * 4);
    scales[i] = scales[i] < 0 ? 0.5f : 0.25f;
    float_zeros[i] = roundf(float_zeros[i] / 4);
    bias[i] = roundf(bias[i]);
  }
  open_set(0);
  run_product(&p, KD_F16);
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t n = 0; n < p.n; n++) {
      double want = (double)bias[n];
      for (int64_t k = 0; k < p.k; k++)
        want += (double)a[i * p.k + k] * weight(&p, n, k);
      assert_float_equal((float)want, got[i * p.n + n],
                         (float)fmax(1, fabs(want)) * 0x1p-10f);
    }
  close_set();
}

/* A block whose scale is far below its column's largest counts where A is large there. */
TEST_THAT(small_scales_keep_their_digits) {
  const product p = {1, 1, 64, 4, 32, 4, MIDDLE, false};
  open_set(0);
  for (int power = 0; power < 30; power += 3) {
    memset(weights, 0x99, 32); /* each number is 9 - 8 */
    scales[0] = 1;
    scales[1] = ldexpf(1, -power);
    for (int k = 0; k < 64; k++)
      a[k] = k < 32 ? 1 : ldexpf(1, power);
    run_product(&p, KD_F32);
    assert_float_equal(got[0], 64, 0.1f);
  }
  close_set();
}

/* Without a zero point, the result has the type of what goes in. */
TEST_THAT(bytes_stay_signed_where_shapes_come_late) {
  const int64_t any = -1, four = 4, two = 2, dims[] = {2, 2};
  const int8_t bytes[] = {-100, 0, 50, 100};
  const float in_scale = 0.05f, out_scale = 0.01f;
  open_set(0);
  keel_builder *g = create_builder(context, "late");
  keel_value x = keel_builder_input(g, "x", KD_I8, 1, &any);
  keel_value shape = keel_builder_input(g, "shape", KD_I64, 1, &any);
  const keel_value in[] = {
      op(g, "Reshape", x, shape), add_constant(g, KD_F32, 0, NULL, &in_scale),
      KEEL_ABSENT, add_constant(g, KD_F32, 0, NULL, &out_scale), KEEL_ABSENT};
  keel_plan *plan = plan_giving(
      g, keel_builder_op(g, "com.microsoft::QLinearSigmoid", NULL, 0, in, 5),
      NULL);
  keel_tensor *given[] = {create_tensor(context, KD_I8, 1, &four, bytes),
                          create_tensor(context, KD_I64, 1, &two, dims)};
  int8_t result[4];
  keel_tensor *y = output_of(plan, given, 2);
  assert_int_equal(keel_tensor_dtype(y), KD_I8);
  expect_ok(keel_tensor_read(y, result, sizeof result));
  for (int i = 0; i < 4; i++)
    assert_int_equal(result[i],
                     (int)lround(100 / (1 + exp(-(double)bytes[i] * 0.05))));
  keel_tensor_release(y);
  release_all(given, 2);
  keel_plan_release(plan);
  close_set();
}

/* What kernels hold of their weights lies side by side. */
TEST_THAT(models_beside_each_other_keep_their_weights) {
  enum { MODELS = 5, COLUMNS = 24, TERMS = 96, ROUNDS = 3 };
  static float y[MODELS][COLUMNS];
  const int64_t rows[] = {1, TERMS}, each[] = {COLUMNS, 3};
  const int64_t packed[] = {COLUMNS, 3, 16};
  const keel_attr attrs[] = {KEEL_INT("N", COLUMNS), KEEL_INT("K", TERMS),
                             KEEL_INT("bits", 4), KEEL_INT("block_size", 32),
                             KEEL_INT("accuracy_level", 4)};
  keel_plan *plans[MODELS];
  fill_all();
  open_set(0);
  for (int i = 0; i < ROUNDS * MODELS; i++) {
    int at = i % MODELS;
    if (i >= MODELS && i < 2 * MODELS && i % 2) { /* some are made anew */
      keel_plan_release(plans[at]);
      plans[at] = NULL;
    }
    keel_tensor *in[6] = {
        create_tensor(context, KD_F32, 2, rows, a),
        create_tensor(context, KD_U8, 3, packed, weights + 2000 * at),
        create_tensor(context, KD_F32, 2, each, scales + 100 * at)};
    if (i < MODELS || !plans[at]) plans[at] = plan_of_model(in, attrs);
    keel_tensor *x = output_of(plans[at], in, 1);
    expect_ok(keel_tensor_read(x, i < MODELS ? y[at] : got, sizeof y[at]));
    if (i >= MODELS) assert_memory_equal(got, y[at], sizeof y[at]);
    keel_tensor_release(x);
    release_all(in, 6);
  }
  for (int i = 0; i < MODELS; i++)
    keel_plan_release(plans[i]);
  close_set();
}

/* A row of zeros, and one too large for a byte's scale, are as they should be. */
TEST_THAT(bytes_of_odd_rows) {
  const product p = {2, 8, 64, 4, 32, 4, PACKED, false};
  fill_all();
  open_set(0);
  for (int64_t k = 0; k < p.k; k++) {
    a[k] = 0;
    a[p.k + k] = k < 32 ? 1e-42f : 1e30f;
  }
  run_product(&p, KD_F32);
  for (int64_t n = 0; n < p.n; n++) {
    assert_true(got[n] == 0);
    assert_true(isfinite(got[p.n + n]));
  }
  close_set();
}

/* ---- weights of ONNX that are packed --------------------------------------------------------- */

typedef struct quantised {
  kd_dtype dtype;
  int64_t k, n, block; /* block 0: a scale a column, or one for all */
  bool turned, zeros, one_scale;
} quantised;

static keel_value constant_matrix(keel_builder *g, kd_dtype dtype, int64_t rank,
                                  const int64_t *dims, const void *data) {
  return add_constant(g, dtype, (uint32_t)rank, dims, data);
}

/* x [3,k] times the weights. */
static keel_plan *plan_of_weights(const quantised *q, bool packs) {
  const char *skipped[] = {"packed"};
  const int64_t w_dims[] = {q->turned ? q->n : q->k, q->turned ? q->k : q->n};
  int64_t blocks = q->block ? (q->k + q->block - 1) / q->block : 1;
  const int64_t by_block[] = {q->turned ? q->n : blocks,
                              q->turned ? blocks : q->n};
  const int64_t *scale_dims = q->block ? by_block : &q->n;
  int64_t rank = q->one_scale ? 0 : q->block ? 2 : 1;
  keel_builder *g = create_builder(context, "weights");
  keel_value x = keel_builder_input(g, "x", KD_F32, DIMS(-1, q->k));
  const keel_value in[] = {
      constant_matrix(g, q->dtype, 2, w_dims, weights),
      constant_matrix(g, KD_F32, rank, scale_dims, scales),
      q->zeros ? constant_matrix(g, q->dtype, rank, scale_dims, packed_zeros)
               : KEEL_ABSENT};
  int64_t along_k = q->turned ? 1 : 0;
  const keel_attr attrs[] = {KEEL_INT("axis", q->block ? along_k : !along_k),
                             KEEL_INT("block_size", q->block)};
  keel_value w = keel_builder_op(g, "DequantizeLinear", attrs, 2, in, 3);
  if (q->turned) w = op(g, "Transpose", w, KEEL_ABSENT);
  keel_program *program = program_giving(g, op(g, "MatMul", x, w));
  keel_plan *plan = create_plan(
      program, PLAN_PARAMS(.skip = skipped, .skip_count = packs ? 0 : 1));
  keel_program_release(program);
  return plan;
}

static void expect_alike(const quantised *q) {
  float y[2][3 * 40];
  assert_true(q->n <= 40);
  keel_tensor *x = create_tensor(context, KD_F32, DIMS(3, q->k), a);
  for (int packs = 0; packs < 2; packs++) {
    keel_plan *plan = plan_of_weights(q, packs != 0);
    keel_plan_profile(plan, KEEL_PROFILE_OPS);
    keel_tensor *out = output_of(plan, &x, 1);
    expect_ok(keel_tensor_read(out, y[packs], keel_tensor_size(out)));
    assert_int_equal(runs_of(plan, "MatMulNBits") > 0, packs);
    RELEASE(out, plan);
  }
  keel_tensor_release(x);
  for (int64_t i = 0; i < 3 * q->n; i++)
    assert_float_equal(y[1][i], y[0][i], 1e-4f);
}

TEST_THAT(weights_of_few_bits_stay_packed) {
  static const quantised all[] = {
      {KD_I4, 64, 12, 32, false, false, false},
      {KD_U4, 64, 12, 32, false, true, false},
      {KD_U4, 72, 7, 16, false, false, false},
      {KD_I4, 200, 9, 64, true, true, false},
      {KD_I4, 150, 40, 0, false, true, false},
      {KD_U4, 33, 5, 0, true, true, false},
      {KD_I4, 33, 5, 0, true, false, true},
      {KD_I2, 96, 12, 32, false, true, false},
      {KD_U2, 96, 12, 32, true, false, false},
      {KD_I8, 64, 12, 0, false, false, false},
      {KD_U8, 200, 9, 64, true, true, false},
      {KD_U8, 33, 5, 0, false, true, false},
      {KD_I8, 72, 7, 16, false, true, false},
      {KD_I8, 130, 6, 0, true, false, true},
  };
  fill_all();
  open_set(0);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    expect_alike(&all[i]);
  close_set();
}

/* x times bytes: `rows` of it, or -1; quantised itself or not. */
static bool packs_products(int64_t rows, bool of_bytes) {
  const int64_t x_dims[] = {rows, 64}, w_dims[] = {64, 12};
  const float one = 0.25f;
  keel_builder *g = create_builder(context, "bytes");
  keel_value x = keel_builder_input(g, "x", KD_F32, 2, x_dims);
  const keel_value in[] = {constant_matrix(g, KD_I8, 2, w_dims, weights),
                           constant_matrix(g, KD_F32, 0, NULL, &one)};
  if (of_bytes) {
    x = op(g, "QuantizeLinear", x, in[1]);
    x = op(g, "DequantizeLinear", x, in[1]);
    x = op(g, "Relu", x, KEEL_ABSENT);
  }
  keel_value w = op(g, "DequantizeLinear", in[0], in[1]);
  keel_plan *plan = plan_giving(g, op(g, "MatMul", x, w), NULL);
  const int64_t dims[] = {rows < 0 ? 3 : rows, 64};
  keel_tensor *given = create_tensor(context, KD_F32, 2, dims, a), *y = NULL;
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  expect_ok(keel_plan_run(plan, &given, 1, &y, 1));
  expect_ok(keel_tensor_wait(y));
  bool packed = runs_of(plan, "MatMulNBits") > 0;
  RELEASE(y, given, plan);
  return packed;
}

TEST_THAT(bytes_stay_packed_for_few_rows) {
  fill_all();
  open_set(0);
  assert_true(packs_products(-1, false));
  assert_true(packs_products(8, false));
  assert_false(packs_products(9, false));
  assert_false(packs_products(-1, true));
  close_set();
}

/* ---- GroupQueryAttention ---------------------------------------------------------------- */

enum { BATCH = 2, HEADS = 4, GROUPS = 2, SIZE = 16, PLACES = 40, TABLE = 64 };

typedef struct grouped {
  int rows, before[BATCH]; /* keys that each batch had */
  int window, turning;     /* 0: none */
  bool interleaved, packed, biased;
  float softcap, scale;
} grouped;

static float queries[4096], keys[4096], values[4096], past[2][8192],
    tables[2][4096], biases[16384], y[4096], present[2][8192];

static int total_of(const grouped *g) {
  int most = 0;
  for (int b = 0; b < BATCH; b++)
    most = g->before[b] > most ? g->before[b] : most;
  return most + g->rows;
}

static void turn_head(const grouped *g, const float *from, int place,
                      double *to) {
  int half = g->turning / 2;
  for (int i = 0; i < SIZE; i++)
    to[i] = (double)from[i];
  for (int i = 0; i < half; i++) {
    int first = g->interleaved ? 2 * i : i;
    int second = g->interleaved ? 2 * i + 1 : half + i;
    double c = (double)tables[0][place * half + i];
    double s = (double)tables[1][place * half + i];
    to[first] = (double)from[first] * c - (double)from[second] * s;
    to[second] = (double)from[first] * s + (double)from[second] * c;
  }
}

/* Key or value `at` of a batch's group, as it should be after the call. */
static void kept(const grouped *g, int b, int group, int at, bool key,
                 double *to) {
  int row = at - g->before[b];
  const float *fresh =
      (key ? keys : values) + ((b * g->rows + row) * GROUPS + group) * SIZE;
  if (row >= 0 && key) {
    turn_head(g, fresh, at, to);
    return;
  }
  const float *from =
      row >= 0 ? fresh
               : past[!key] + ((b * GROUPS + group) * PLACES + at) * SIZE;
  for (int i = 0; i < SIZE; i++)
    to[i] = (double)from[i];
}

static void attend(const grouped *g, int b, int row, int head, double *out) {
  double scores[PLACES], turned[SIZE], other[SIZE], sum = 0;
  int place = g->before[b] + row, group = head / (HEADS / GROUPS);
  turn_head(g, queries + ((b * g->rows + row) * HEADS + head) * SIZE, place,
            turned);
  memset(out, 0, SIZE * sizeof *out);
  for (int at = 0; at <= place; at++) {
    double score = 0;
    kept(g, b, group, at, true, other);
    for (int i = 0; i < SIZE; i++)
      score += turned[i] * other[i];
    score *= g->scale > 0 ? (double)g->scale : 1 / sqrt(SIZE);
    if (g->softcap > 0)
      score = (double)g->softcap * tanh(score / (double)g->softcap);
    if (g->biased)
      score += (double)
          biases[((b * HEADS + head) * g->rows + row) * total_of(g) + at];
    scores[at] = g->window && at <= place - g->window ? 0 : exp(score);
    sum += scores[at];
  }
  for (int at = 0; at <= place; at++) {
    kept(g, b, group, at, false, other);
    for (int i = 0; i < SIZE; i++)
      out[i] += scores[at] / sum * other[i];
  }
}

static void expect_grouped(const grouped *g) {
  double want[SIZE];
  for (int b = 0; b < BATCH; b++)
    for (int row = 0; row < g->rows; row++)
      for (int head = 0; head < HEADS; head++) {
        attend(g, b, row, head, want);
        for (int i = 0; i < SIZE; i++)
          assert_float_equal(y[((b * g->rows + row) * HEADS + head) * SIZE + i],
                             (float)want[i], 2e-5f);
      }
  for (int i = 0; i < BATCH * GROUPS * PLACES; i++) {
    int b = i / (GROUPS * PLACES), group = i / PLACES % GROUPS, at = i % PLACES;
    for (int kind = 0; kind < 2; kind++) {
      if (at < g->before[b] + g->rows) kept(g, b, group, at, !kind, want);
      for (int j = 0; j < SIZE; j++)
        assert_float_equal(present[kind][i * SIZE + j],
                           at < g->before[b] + g->rows
                               ? (float)want[j]
                               : past[kind][i * SIZE + j],
                           1e-6f);
    }
  }
}

static keel_tensor *cube(int rows, int heads, const float *data) {
  return create_tensor(context, KD_F32, DIMS(BATCH, rows, heads * SIZE), data);
}

static keel_status call_grouped(const grouped *g, keel_tensor **out) {
  const int64_t cache[] = {BATCH, GROUPS, PLACES, SIZE}, batch = BATCH;
  const int64_t table[] = {TABLE, g->turning / 2};
  const int64_t score[] = {BATCH, HEADS, g->rows, total_of(g)};
  static float all[16384];
  int32_t lengths[BATCH], total = total_of(g);
  for (int b = 0; b < BATCH; b++)
    lengths[b] = g->before[b] + g->rows - 1;
  for (int i = 0; i < BATCH * g->rows; i++) {
    float *to = all + i * (HEADS + 2 * GROUPS) * SIZE;
    memcpy(to, queries + i * HEADS * SIZE, HEADS * SIZE * sizeof *to);
    to += HEADS * SIZE;
    memcpy(to, keys + i * GROUPS * SIZE, GROUPS * SIZE * sizeof *to);
    to += GROUPS * SIZE;
    memcpy(to, values + i * GROUPS * SIZE, GROUPS * SIZE * sizeof *to);
  }
  keel_tensor *in[11] = {g->packed ? cube(g->rows, HEADS + 2 * GROUPS, all)
                                   : cube(g->rows, HEADS, queries),
                         g->packed ? NULL : cube(g->rows, GROUPS, keys),
                         g->packed ? NULL : cube(g->rows, GROUPS, values),
                         create_tensor(context, KD_F32, 4, cache, past[0]),
                         create_tensor(context, KD_F32, 4, cache, past[1]),
                         create_tensor(context, KD_I32, 1, &batch, lengths),
                         create_tensor(context, KD_I32, 0, NULL, &total)};
  if (g->turning)
    for (int i = 0; i < 2; i++)
      in[7 + i] = create_tensor(context, KD_F32, 2, table, tables[i]);
  if (g->biased) in[10] = create_tensor(context, KD_F32, 4, score, biases);
  const keel_attr attrs[] = {
      KEEL_INT("num_heads", HEADS),
      KEEL_INT("kv_num_heads", GROUPS),
      KEEL_INT("do_rotary", g->turning > 0),
      KEEL_INT("rotary_interleaved", g->interleaved),
      KEEL_INT("local_window_size", g->window ? g->window : -1),
      KEEL_FLOAT("softcap", g->softcap),
      KEEL_FLOAT("scale", g->scale)};
  keel_status status = keel_call(context, GROUP, attrs, 7, in, 11, out, 3);
  if (status == KD_OK) status = keel_tensor_wait(out[0]);
  release_all(in, 11);
  return status;
}

static void fill_grouped(const grouped *g) {
  fill(queries, 4096, 2);
  fill(keys, 4096, 2);
  fill(values, 4096, 2);
  fill(past[0], 8192, 2);
  fill(past[1], 8192, 2);
  fill(biases, 16384, 3);
  for (int i = 0; i < TABLE * g->turning / 2; i++) {
    tables[0][i] = cosf((float)i);
    tables[1][i] = sinf((float)i);
  }
}

static const grouped kinds[] = {
    {.rows = 1, .before = {7, 20}},
    {.rows = 1, .before = {0, 0}, .turning = 16},
    {.rows = 5, .before = {0, 0}, .turning = 16, .packed = true},
    {.rows = 3, .before = {9, 2}, .turning = 16, .interleaved = true},
    {.rows = 1, .before = {39, 11}, .turning = 8, .packed = true},
    {.rows = 1, .before = {20, 3}, .window = 4},
    {.rows = 9, .before = {20, 3}, .window = 4, .turning = 16},
    {.rows = 20, .before = {0, 0}, .window = 6},
    {.rows = 2, .before = {12, 5}, .softcap = 1.5f, .scale = 0.7f},
    {.rows = 4, .before = {12, 5}, .biased = true},
    {.rows = 4, .before = {12, 5}, .biased = true, .window = 3, .softcap = 2},
    {.rows = 16, .before = {24, 1}, .turning = 4, .interleaved = true},
};

TEST_THAT(rows_see_what_they_should) {
  for (int set = 0; set < SETS; set++) {
    open_set(set);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
      keel_tensor *out[3];
      fill_grouped(&kinds[i]);
      expect_ok(call_grouped(&kinds[i], out));
      expect_ok(keel_tensor_read(out[0], y, keel_tensor_size(out[0])));
      for (int j = 0; j < 2; j++)
        expect_ok(keel_tensor_read(out[1 + j], present[j],
                                   keel_tensor_size(out[1 + j])));
      release_all(out, 3);
      expect_grouped(&kinds[i]);
    }
    close_set();
  }
}

/* ---- what is refused ------------------------------------------------------------------------ */

TEST_THAT(places_outside_are_refused) {
  open_set(0);
  grouped far = {.rows = 1, .before = {40, 2}, .turning = 16};
  keel_tensor *out[3] = {NULL};
  fill_grouped(&far);
  /* the cache grows by the new rows alone */
  expect_ok(call_grouped(&far, out));
  assert_int_equal(keel_tensor_dims(out[1])[2], 41);
  release_all(out, 3);
  far.before[0] = 64;
  expect_fails(call_grouped(&far, out), KD_INVALID_ARGUMENT,
               "total_sequence_length is 65, and must be 41");
  grouped before = {.rows = 3, .before = {-1, 5}};
  fill_grouped(&before);
  expect_fails(call_grouped(&before, out), KD_INVALID_ARGUMENT,
               "it does not fit 3 new rows");
  close_set();
}

/* An optional input without its partner, or of another shape. */
TEST_THAT(caches_and_places_must_fit) {
  enum { ROWS = 3, WIDE = HEADS * SIZE, THIN = GROUPS * SIZE };
  const int64_t q_dims[] = {1, ROWS, WIDE}, k_dims[] = {1, ROWS, THIN};
  const int64_t cache[] = {1, GROUPS, PLACES, SIZE}, few[] = {1, 1}, one = 1;
  const int64_t ids[] = {-1, -1, -1}, all[] = {1, ROWS}, flat = 4000;
  const int32_t length = ROWS - 1, total = ROWS;
  const keel_attr attrs[] = {KEEL_INT("num_heads", HEADS),
                             KEEL_INT("kv_num_heads", GROUPS)};
  open_set(0);
  fill_grouped(&kinds[0]);
  for (int i = 0; i < 5; i++) {
    keel_tensor *out[3] = {NULL};
    keel_tensor *in[10] = {create_tensor(context, KD_F32, 3, q_dims, queries),
                           create_tensor(context, KD_F32, 3, k_dims, keys),
                           create_tensor(context, KD_F32, 3, k_dims, values)};
    in[5] = create_tensor(context, KD_I32, 1, &one, &length);
    in[6] = create_tensor(context, KD_I32, 0, NULL, &total);
    if (i == 0) in[4] = create_tensor(context, KD_F32, 4, cache, past[1]);
    if (i == 1) in[4] = create_tensor(context, KD_F32, 1, &flat, past[1]);
    if (i == 2) in[3] = create_tensor(context, KD_F32, 4, cache, past[0]);
    if (i == 3) in[9] = create_tensor(context, KD_I64, 2, few, ids);
    if (i == 4) in[9] = create_tensor(context, KD_I64, 2, all, ids);
    keel_status status = keel_call(context, GROUP, attrs, 2, in, 10, out, 3);
    if (status == KD_OK) status = keel_tensor_wait(out[0]);
    /* without do_rotary nobody asks where rows are */
    assert_int_equal(status, i == 4 ? KD_OK : KD_INVALID_ARGUMENT);
    if (i < 3) expect_message("past_key and past_value must be");
    if (i == 3) expect_message("position_ids must be [1,3]");
    for (int k = 0; k < 3; k++)
      keel_tensor_release(out[k]);
    release_all(in, 10);
  }
  close_set();
}

static keel_status try_product(int64_t n, int64_t k, int64_t bits,
                               int64_t block, int64_t columns) {
  const int64_t rows[] = {1, columns}, each[] = {4, 2}, packed[] = {4, 2, 16};
  keel_tensor *in[] = {create_tensor(context, KD_F32, 2, rows, a),
                       create_tensor(context, KD_U8, 3, packed, weights),
                       create_tensor(context, KD_F32, 2, each, scales)};
  const keel_attr attrs[] = {KEEL_INT("N", n), KEEL_INT("K", k),
                             KEEL_INT("bits", bits),
                             KEEL_INT("block_size", block)};
  keel_tensor *out = NULL;
  keel_status status = keel_call(context, NBITS, attrs, 4, in, 3, &out, 1);
  if (status == KD_OK) status = keel_tensor_wait(out);
  keel_tensor_release(out);
  release_all(in, 3);
  return status;
}

TEST_THAT(weights_that_do_not_fit_are_refused) {
  static const struct {
    int64_t n, k, bits, block, columns;
    const char *why;
  } wrong[] = {
      {4, 64, 3, 32, 64, "weights of 3 bits: there are 2, 4 and 8"},
      {4, 64, 4, 24, 64, "block_size must be a power of two"},
      {4, 64, 4, 0, 64, "block_size must be a power of two"},
      {4, 0, 4, 32, 64, "N and K must be 1 or more"},
      {INT64_MAX, 64, 4, 32, 64, "N and K must be 1 or more"},
      {4, 64, 8, 32, 64, "B must be [4,2,32]"},
      {5, 64, 4, 32, 64, "B must be [5,2,16]"},
      {4, 65, 4, 32, 65, "B must be [4,3,16]"},
      {4, 64, 4, 32, 63, "the last dimension of A must be K, 64"},
  };
  open_set(0);
  fill_all();
  expect_ok(try_product(4, 64, 4, 32, 64));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_not_equal(try_product(wrong[i].n, wrong[i].k, wrong[i].bits,
                                     wrong[i].block, wrong[i].columns),
                         KD_OK);
    expect_message(wrong[i].why);
  }
  close_set();
}

RUN_TESTS(NULL, NULL)
