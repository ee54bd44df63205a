/* windows.c - convolutions of many shapes beside sums in double. */
#include "windows.h"

#include <math.h>

#include "cpu_sets.h"

enum { MOST = 1 << 18 };

keel_context *windows_open(const char *option, int32_t workers) {
  return open_cpu_options(&option, option != NULL, workers);
}

int windows_one(void **state) {
  *state = windows_open(NULL, 0);
  return 0;
}

int windows_four(void **state) {
  *state = windows_open(NULL, 3);
  return 0;
}

int windows_avx2(void **state) {
  *state = windows_open("cpu.isa=avx2", 2);
  return 0;
}

int windows_base(void **state) {
  *state = windows_open("cpu.isa=base", 2);
  return 0;
}

int windows_close(void **state) {
  keel_close(*state);
  return 0;
}

/* ---- fillers -------------------------------------------------------------------------- */

static uint64_t bits_of(int64_t i, int salt) {
  uint64_t bits = ((uint64_t)i * 4 + (uint64_t)salt) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 31)) * 0xbf58476d1ce4e5b9u;
  return bits ^ (bits >> 29);
}

float windows_integer(int64_t i, int salt) {
  return (float)(bits_of(i, salt) % 9) - 4;
}

float windows_number(int64_t i, int salt) {
  return (float)((double)(bits_of(i, salt) >> 11) * 0x1p-52 - 1);
}

/* ---- what is wanted ------------------------------------------------------------------- */

UNWATCHED static int64_t count_of(uint32_t rank, const int64_t *dims) {
  int64_t count = elements_of(rank, dims);
  assert_true(count <= MOST);
  return count;
}

static void out_dims(const shape *s, int64_t *dims) {
  dims[0] = s->images;
  dims[1] = s->groups * s->outs;
  for (uint32_t i = 0; i < s->space; i++)
    dims[i + 2] = (s->in[i] + s->pads[i] + s->pads[i + s->space] -
                   (s->kernel[i] - 1) * s->dilation[i] - 1) /
                      s->stride[i] +
                  1;
}

/* What a sum is made of. */
typedef struct terms {
  const float *x, *w;
} terms;

/* The sum of one output and of its terms' squares; `at` is its place in y. */
UNWATCHED static double sum_at(const trial *t, const shape *s, const terms *of,
                               const int64_t *dims, int64_t at,
                               double *squares) {
  int64_t place[WINDOW_DIMS], taps = count_of(s->space, s->kernel);
  int64_t plane = count_of(s->space, s->in);
  for (uint32_t i = s->space; i-- > 0; at /= dims[i + 2])
    place[i] = at % dims[i + 2];
  int64_t out = at % dims[1], image = at / dims[1];
  double sum = (double)t->fill(out, 3);
  *squares = sum * sum;
  for (int64_t k = 0; k < taps; k++) {
    int64_t rest = k, from = 0, here[WINDOW_DIMS];
    bool inside = true;
    for (uint32_t i = s->space; i-- > 0; rest /= s->kernel[i])
      here[i] = place[i] * s->stride[i] - s->pads[i] +
                rest % s->kernel[i] * s->dilation[i];
    for (uint32_t i = 0; i < s->space; i++) {
      inside = inside && here[i] >= 0 && here[i] < s->in[i];
      from = from * s->in[i] + here[i];
    }
    int64_t first = (image * s->groups + out / s->outs) * s->ins;
    for (int64_t c = 0; inside && c < s->ins; c++) {
      double term = (double)of->x[(first + c) * plane + from] *
                    (double)of->w[(out * s->ins + c) * taps + k];
      sum += term;
      *squares += term * term;
    }
  }
  return sum;
}

/* What is wanted, and how far off it may be. */
typedef struct wish {
  double value, slack;
} wish;

static wish wish_of(const trial *t, const shape *s, const terms *of,
                    const int64_t *dims, int64_t at) {
  double squares, y = sum_at(t, s, of, dims, at, &squares);
  double depth = (double)(s->ins * count_of(s->space, s->kernel));
  wish w = {.slack =
                t->units * 0x1p-24 * sqrt(depth) * (sqrt(squares) + fabs(y))};
  if (s->last == SUM) y += (double)t->fill(at, 4);
  if (s->last == SUM || s->last == RELU) y = y < 0 ? 0 : y;
  if (s->last == SILU) y /= 1 + exp(-y);
  w.value = y;
  w.slack += t->relative * (1 + fabs(y));
  return w;
}

static float *filled(const trial *t, int64_t count, int salt) {
  float *data = malloc((size_t)count * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++)
    data[i] = t->fill(i, salt);
  return data;
}

static wish *wishes(const trial *t, const shape *s) {
  int64_t dims[2 + WINDOW_DIMS], ins = s->groups * s->ins;
  out_dims(s, dims);
  int64_t count = count_of(s->space + 2, dims);
  float *x = filled(t, s->images * ins * count_of(s->space, s->in), 1);
  float *w = filled(t, ins * s->outs * count_of(s->space, s->kernel), 2);
  terms of = {x, w};
  wish *all = malloc((size_t)count * sizeof *all);
  assert_non_null(all);
  for (int64_t i = 0; i < count; i++)
    all[i] = wish_of(t, s, &of, dims, i);
  free(x);
  free(w);
  return all;
}

static bool grants(const wish *w, double got) {
  return isnan(w->value)   ? isnan(got)
         : isinf(w->value) ? !(got < w->value) && !(got > w->value)
                           : fabs(got - w->value) <= w->slack;
}

static void check(const trial *t, const shape *s, const wish *all,
                  keel_tensor *y, const char *how) {
  static float got[MOST];
  int64_t dims[2 + WINDOW_DIMS], count;
  out_dims(s, dims);
  count = count_of(s->space + 2, dims);
  assert_int_equal(keel_tensor_elements(y), count);
  assert_int_equal(keel_tensor_read(y, got, (size_t)count * sizeof *got),
                   KD_OK);
  for (int64_t i = 0; i < count; i++)
    if (!grants(&all[i], (double)got[i]))
      fail_msg("shape %d, %s: element %lld is %.9g, not %.9g",
               (int)(s - t->shapes), how, (long long)i, (double)got[i],
               all[i].value);
}

/* ---- what is given -------------------------------------------------------------------- */

static keel_tensor *numbers(const trial *t, uint32_t rank, const int64_t *dims,
                            int salt) {
  static float data[MOST];
  int64_t count = count_of(rank, dims);
  for (int64_t i = 0; i < count; i++)
    data[i] = t->fill(i, salt);
  return create_tensor(t->context, KD_F32, rank, dims, data);
}

typedef struct given {
  keel_tensor *x, *w, *bias, *z;
  keel_attr attrs[4];
} given;

static given give(const trial *t, const shape *s) {
  int64_t x[2 + WINDOW_DIMS] = {s->images, s->groups * s->ins};
  int64_t w[2 + WINDOW_DIMS] = {s->groups * s->outs, s->ins},
                y[2 + WINDOW_DIMS];
  for (uint32_t i = 0; i < s->space; i++) {
    x[i + 2] = s->in[i];
    w[i + 2] = s->kernel[i];
  }
  out_dims(s, y);
  return (given){.x = numbers(t, s->space + 2, x, 1),
                 .w = numbers(t, s->space + 2, w, 2),
                 .bias = numbers(t, 1, w, 3),
                 .z = numbers(t, s->space + 2, y, 4),
                 .attrs = {KEEL_INTS("pads", 2 * s->space, s->pads),
                           KEEL_INTS("strides", s->space, s->stride),
                           KEEL_INTS("dilations", s->space, s->dilation),
                           KEEL_INT("group", s->groups)}};
}

static void drop(given *g) {
  keel_tensor_release(g->x);
  keel_tensor_release(g->w);
  keel_tensor_release(g->bias);
  keel_tensor_release(g->z);
}

/* A convolution and what follows it, of inputs x and z. */
static keel_plan *plan_of(const trial *t, const shape *s, const given *g) {
  keel_builder *b = create_builder(t->context, "windows");
  keel_value three[] = {
      keel_builder_input(b, "x", KD_F32, s->space + 2, keel_tensor_dims(g->x)),
      keel_builder_constant(b, g->w), keel_builder_constant(b, g->bias)};
  keel_value z =
      keel_builder_input(b, "z", KD_F32, s->space + 2, keel_tensor_dims(g->z));
  keel_value v = keel_builder_op(b, "Conv", g->attrs, 4, three, 3);
  if (s->last == SUM) v = op(b, "Add", v, z);
  if (s->last == SUM || s->last == RELU) v = op(b, "Relu", v, KEEL_ABSENT);
  if (s->last == SILU) v = op(b, "Mul", v, op(b, "Sigmoid", v, KEEL_ABSENT));
  keel_builder_output(b, "y", v);
  return finish_plan(b, NULL);
}

static keel_tensor *run(keel_plan *plan, const given *g) {
  keel_tensor *in[] = {g->x, g->z}, *y = NULL;
  expect_ok(keel_plan_run(plan, in, 2, &y, 1));
  return y;
}

void windows_in_programs(const trial *t) {
  for (size_t i = 0; i < t->count; i++) {
    const shape *s = &t->shapes[i];
    given g = give(t, s);
    wish *all = wishes(t, s);
    keel_plan *plan = plan_of(t, s, &g);
    for (int turn = 0; turn < 2; turn++) {
      keel_tensor *y = run(plan, &g);
      check(t, s, all, y, "in a program");
      keel_tensor_release(y);
    }
    keel_plan_release(plan);
    drop(&g);
    free(all);
  }
}

size_t windows_output(const trial *t, const shape *s, float *out,
                      size_t count) {
  given g = give(t, s);
  keel_plan *plan = plan_of(t, s, &g);
  keel_tensor *y = run(plan, &g);
  size_t made = (size_t)keel_tensor_elements(y);
  assert_true(made <= count);
  assert_int_equal(keel_tensor_read(y, out, made * sizeof *out), KD_OK);
  keel_tensor_release(y);
  keel_plan_release(plan);
  drop(&g);
  return made;
}

void windows_in_calls(const trial *t) {
  for (size_t i = 0; i < t->count; i++) {
    const shape *s = &t->shapes[i];
    if (s->last == SILU) continue;
    given g = give(t, s);
    wish *all = wishes(t, s);
    keel_tensor *in[] = {g.x, g.w, g.bias}, *y = NULL, *last = NULL;
    expect_ok(keel_call(t->context, "Conv", g.attrs, 4, in, 3, &y, 1));
    if (s->last == SUM) {
      keel_tensor *two[] = {y, g.z};
      assert_int_equal(keel_call(t->context, "Add", NULL, 0, two, 2, &last, 1),
                       KD_OK);
      keel_tensor_release(y);
      y = last;
    }
    if (s->last == SUM || s->last == RELU) {
      assert_int_equal(keel_call(t->context, "Relu", NULL, 0, &y, 1, &last, 1),
                       KD_OK);
      keel_tensor_release(y);
      y = last;
    }
    check(t, s, all, y, "in a call");
    keel_tensor_release(y);
    drop(&g);
    free(all);
  }
}
