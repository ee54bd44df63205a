/* recurrent_test.c - RNN, GRU and LSTM of many sizes against a plain reference: states that
 * fill blocks of units and that do not, items that fill a product and that do not, both
 * directions, sequences that end early, weights known before and not. */
#include <math.h>

#include "cpu_sets.h"

static int open_cpu(const char *set, int32_t workers) {
  context = open_cpu_set(set, workers);
  return 0;
}

static int open_best(void **state) {
  (void)state;
  return open_cpu(NULL, 3);
}

static int open_alone(void **state) {
  (void)state;
  return open_cpu(NULL, KEEL_NO_WORKERS);
}

static int open_avx2(void **state) {
  (void)state;
  return open_cpu("cpu.isa=avx2", 3);
}

static int open_base(void **state) {
  (void)state;
  return open_cpu("cpu.isa=base", 1);
}

/* ---- a case ---------------------------------------------------------------------- */

enum { RNN, GRU, LSTM };
enum { X, W, R, B, LENGTHS, H0, C0, P, INPUTS };

typedef struct net {
  int kind;
  kd_dtype dtype;
  int64_t gates, steps, batch, inputs, hidden, directions;
  bool linear_first,
      some; /* some: lengths, first states, peepholes are given */
  double *in[INPUTS], *y;
  int32_t lengths[32];
} net;

static uint64_t seed = 1;

static double next_number(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(float)((double)(int64_t)(seed >> 11) * 0x1p-52 - 1);
}

static int64_t count_of(const net *n, int input) {
  int64_t rows = n->gates * n->hidden, d = n->directions;
  const int64_t counts[INPUTS] = {n->steps * n->batch * n->inputs,
                                  d * rows * n->inputs,
                                  d * rows * n->hidden,
                                  2 * d * rows,
                                  0,
                                  d * n->batch * n->hidden,
                                  d * n->batch * n->hidden,
                                  d * 3 * n->hidden};
  return counts[input];
}

static void fill(net *n) {
  for (int i = 0; i < INPUTS; i++) {
    int64_t count = count_of(n, i);
    double scale = i == R ? 1 / sqrt((double)n->hidden) : 0.5;
    n->in[i] = calloc((size_t)count + 1, sizeof(double));
    assert_non_null(n->in[i]);
    bool given = n->some || i <= B;
    for (int64_t k = 0; k < count && given; k++)
      n->in[i][k] = (double)(float)(scale * next_number());
  }
  for (int64_t i = 0; i < n->batch; i++)
    n->lengths[i] =
        (int32_t)(n->some ? (i * 3 + 2) % (n->steps + 1) : n->steps);
  n->y = calloc((size_t)(n->steps * n->directions * n->batch * n->hidden) + 1,
                sizeof(double));
  assert_non_null(n->y);
}

/* ---- the reference ------------------------------------------------------------------ */

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* Gate `g` of a unit: the inputs' part, and the state's, with their biases. */
UNWATCHED static void parts(const net *n, int64_t d, const double *x,
                            const double *h, int64_t g, int64_t unit,
                            double *of_x, double *of_h) {
  int64_t rows = n->gates * n->hidden, row = g * n->hidden + unit;
  *of_x = n->in[B][d * 2 * rows + row];
  *of_h = n->in[B][d * 2 * rows + rows + row];
  for (int64_t k = 0; k < n->inputs; k++)
    *of_x += x[k] * n->in[W][(d * rows + row) * n->inputs + k];
  for (int64_t k = 0; k < n->hidden; k++)
    *of_h += h[k] * n->in[R][(d * rows + row) * n->hidden + k];
}

UNWATCHED static double both(const net *n, int64_t d, const double *x,
                             const double *h, int64_t g, int64_t unit) {
  double of_x = 0, of_h = 0;
  parts(n, d, x, h, g, unit, &of_x, &of_h);
  return of_x + of_h;
}

static void lstm(const net *n, int64_t d, const double *x, const double *h,
                 double *c, double *out) {
  for (int64_t k = 0; k < n->hidden; k++) {
    const double *p = n->in[P] + d * 3 * n->hidden + k;
    double in = sigmoid(both(n, d, x, h, 0, k) + p[0] * c[k]);
    double forget = sigmoid(both(n, d, x, h, 2, k) + p[2 * n->hidden] * c[k]);
    c[k] = forget * c[k] + in * tanh(both(n, d, x, h, 3, k));
    out[k] = sigmoid(both(n, d, x, h, 1, k) + p[n->hidden] * c[k]) * tanh(c[k]);
  }
}

static void gru(const net *n, int64_t d, const double *x, const double *h,
                double *out) {
  double gated[128], of_x = 0, of_h = 0;
  for (int64_t k = 0; k < n->hidden; k++)
    gated[k] = h[k] * sigmoid(both(n, d, x, h, 1, k));
  for (int64_t k = 0; k < n->hidden; k++) {
    double z = sigmoid(both(n, d, x, h, 0, k));
    parts(n, d, x, n->linear_first ? h : gated, 2, k, &of_x, &of_h);
    if (n->linear_first) of_h *= sigmoid(both(n, d, x, h, 1, k));
    out[k] = (1 - z) * tanh(of_x + of_h) + z * h[k];
  }
}

static void compute(net *n) {
  double h[128], c[128], out[128];
  for (int64_t d = 0; d < n->directions; d++)
    for (int64_t item = 0; item < n->batch; item++) {
      int64_t first = (d * n->batch + item) * n->hidden;
      memcpy(h, n->in[H0] + first, (size_t)n->hidden * sizeof *h);
      memcpy(c, n->in[C0] + first, (size_t)n->hidden * sizeof *c);
      for (int64_t step = 0; step < n->lengths[item]; step++) {
        int64_t time = d ? n->lengths[item] - 1 - step : step;
        const double *x = n->in[X] + (time * n->batch + item) * n->inputs;
        for (int64_t k = 0; k < n->hidden && n->kind == RNN; k++)
          out[k] = tanh(both(n, d, x, h, 0, k));
        if (n->kind == LSTM) lstm(n, d, x, h, c, out);
        if (n->kind == GRU) gru(n, d, x, h, out);
        memcpy(h, out, (size_t)n->hidden * sizeof *h);
        memcpy(
            n->y + ((time * n->directions + d) * n->batch + item) * n->hidden,
            out, (size_t)n->hidden * sizeof *h);
      }
    }
}

/* ---- against the device ---------------------------------------------------------------- */

static keel_tensor *tensor_of(const net *n, int input, uint32_t rank,
                              const int64_t *dims) {
  int64_t count = count_of(n, input);
  float *narrow = malloc((size_t)count * sizeof *narrow + 1);
  assert_non_null(narrow);
  for (int64_t i = 0; i < count; i++)
    narrow[i] = (float)n->in[input][i];
  const void *data = n->dtype == KD_F64 ? (void *)n->in[input] : (void *)narrow;
  keel_tensor *tensor = create_tensor(context, n->dtype, rank, dims, data);
  free(narrow);
  return tensor;
}

static void expect_near(const net *n, keel_tensor *y, const char *what) {
  int64_t count = n->steps * n->directions * n->batch * n->hidden;
  size_t size = n->dtype == KD_F64 ? 8 : 4;
  char *data = malloc((size_t)count * size + 1);
  assert_non_null(data);
  assert_int_equal(keel_tensor_read(y, data, (size_t)count * size), KD_OK);
  for (int64_t i = 0; i < count; i++) {
    double got = n->dtype == KD_F64 ? ((double *)(void *)data)[i]
                                    : (double)((float *)(void *)data)[i];
    if (!(fabs(got - n->y[i]) <= (n->dtype == KD_F64 ? 1e-12 : 2e-5)))
      fail_msg(
          "%s: kind %d of %lld steps, %lld items, %lld units: element "
          "%lld is %.9g, not %.9g",
          what, n->kind, (long long)n->steps, (long long)n->batch,
          (long long)n->hidden, (long long)i, got, n->y[i]);
  }
  free(data);
}

static keel_tensor *planned(const char *op, const keel_attr *attrs,
                            uint32_t attr_count, keel_tensor **in) {
  keel_tensor *y = NULL;
  keel_value values[INPUTS];
  keel_builder *builder = create_builder(context, "net");
  values[0] = keel_builder_input(builder, "x", keel_tensor_dtype(in[0]), 3,
                                 keel_tensor_dims(in[0]));
  for (int i = 1; i < INPUTS; i++)
    values[i] = in[i] ? keel_builder_constant(builder, in[i]) : KEEL_ABSENT;
  uint32_t count = 4;
  for (uint32_t i = 4; i < INPUTS; i++)
    count = in[i] ? i + 1 : count;
  keel_builder_output(
      builder, "y",
      keel_builder_op(builder, op, attrs, attr_count, values, count));
  keel_program *program = finish_program(builder);
  keel_plan *plan = create_plan(program, NULL);
  expect_ok(keel_plan_run(plan, in, 1, &y, 1));
  keel_plan_release(plan);
  keel_program_release(program);
  return y;
}

static void check(net n) {
  static const char *const names[] = {"RNN", "GRU", "LSTM"};
  int64_t d = n.directions, hidden = n.hidden;
  n.gates = n.kind == LSTM ? 4 : n.kind == GRU ? 3 : 1;
  int64_t rows = n.gates * hidden;
  const int64_t dims[INPUTS][3] = {{n.steps, n.batch, n.inputs},
                                   {d, rows, n.inputs},
                                   {d, rows, hidden},
                                   {d, 2 * rows},
                                   {n.batch},
                                   {d, n.batch, hidden},
                                   {d, n.batch, hidden},
                                   {d, 3 * hidden}};
  const keel_attr attrs[] = {
      KEEL_INT("hidden_size", hidden),
      KEEL_STRING("direction", d == 2 ? "bidirectional" : "forward"),
      KEEL_INT("linear_before_reset", n.linear_first)};
  keel_tensor *in[INPUTS] = {NULL}, *y = NULL;
  fill(&n);
  if (n.kind != LSTM) memset(n.in[C0], 0, (size_t)count_of(&n, C0) * 8);
  compute(&n);
  for (int i = 0; i < INPUTS; i++) {
    bool given = i <= B || (n.some && (i <= H0 || n.kind == LSTM));
    if (given && i != LENGTHS)
      in[i] = tensor_of(&n, i, i == B || i == P ? 2 : 3, dims[i]);
    else if (given)
      assert_int_equal(
          keel_tensor_create(context, KD_I32, 1, dims[i], n.lengths, &in[i]),
          KD_OK);
  }
  uint32_t attr_count = n.kind == GRU ? 3 : 2, count = n.kind == LSTM ? 8 : 6;
  expect_ok(
      keel_call(context, names[n.kind], attrs, attr_count, in, count, &y, 1));
  expect_near(&n, y, "called");
  keel_tensor_release(y);
  y = planned(names[n.kind], attrs, attr_count, in);
  expect_near(&n, y, "planned");
  keel_tensor_release(y);
  for (int i = 0; i < INPUTS; i++) {
    keel_tensor_release(in[i]);
    free(n.in[i]);
  }
  free(n.y);
}

static void as_the_reference(void **state) {
  static const int64_t sizes[] = {1, 5, 16, 31, 32, 33, 64, 70, 100};
  static const int64_t batches[] = {1, 2, 3, 4, 5, 7, 13, 27};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int kind = RNN; kind <= LSTM; kind++)
      for (int how = 0; how < 4; how++)
        check((net){.kind = kind,
                    .dtype = how == 3 ? KD_F64 : KD_F32,
                    .steps = 4,
                    .batch = batches[(i * 3 + (size_t)(kind + how)) % 8],
                    .inputs = 9,
                    .hidden = sizes[i],
                    .directions = 1 + how % 2,
                    .linear_first = how >= 2,
                    .some = how % 2 == 0});
}

/* Enough for several threads. */
static void large_ones_too(void **state) {
  (void)state;
  for (int kind = RNN; kind <= LSTM; kind++)
    for (int how = 0; how < 2; how++)
      check((net){.kind = kind,
                  .dtype = KD_F32,
                  .steps = 3,
                  .batch = 29,
                  .inputs = 40,
                  .hidden = 120,
                  .directions = 1 + how,
                  .linear_first = how,
                  .some = how});
}

#define EACH(open)                                                        \
  cmocka_unit_test_setup_teardown(as_the_reference, open, close_context), \
      cmocka_unit_test_setup_teardown(large_ones_too, open, close_context)

int main(void) {
  const struct CMUnitTest tests[] = {EACH(open_best), EACH(open_alone),
                                     EACH(open_avx2), EACH(open_base)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
