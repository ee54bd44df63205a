/* eager_test.c - single ops: results, errors, caches, threads, devices. */
#include <math.h>
#include <pthread.h>

#define WORKERS 1
#include "with_cpu.h"

static const float data[] = {-1, 2, -3, 4};
static const float relu[] = {0, 2, 0, 4};

TEST_THAT(a_prepared_op_can_be_called_again) {
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  keel_op *op = prepare_op(context, "Relu", NULL, 0, NULL);
  for (int i = 0; i < 1000; i++) {
    expect_ok(keel_op_call(op, &x, 1, &y, 1));
    expect_floats(y, relu, 4);
    keel_tensor_release(y);
  }
  RELEASE(op, x);
}

TEST_THAT(many_shapes_pass_through_one_op) {
  static float zeros[64];
  keel_op *op = prepare_op(context, "Relu", NULL, 0, NULL);
  for (int64_t n = 0; n < 60; n++) { /* more than a site remembers */
    keel_tensor *x = floats(context, n, zeros), *y = NULL;
    expect_ok(keel_op_call(op, &x, 1, &y, 1));
    assert_int_equal(keel_tensor_elements(y), n);
    RELEASE(x, y);
  }
  keel_op_release(op);
}

TEST_THAT(attributes_tell_calls_apart) {
  const keel_attr first = KEEL_FLOAT("alpha", 0.5f);
  const keel_attr second = KEEL_FLOAT("alpha", 2);
  const float half[] = {-0.5f, 2, -1.5f, 4}, twice[] = {-2, 2, -6, 4};
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  for (int i = 0; i < 3; i++) {
    expect_ok(keel_call(context, "LeakyRelu", &first, 1, &x, 1, &y, 1));
    expect_floats(y, half, 4);
    keel_tensor_release(y);
    expect_ok(keel_call(context, "LeakyRelu", &second, 1, &x, 1, &y, 1));
    expect_floats(y, twice, 4);
    keel_tensor_release(y);
  }
  keel_tensor_release(x);
}

TEST_THAT(mistakes_are_named) {
  const keel_attr wrong = KEEL_INT("alfa", 1), kind = KEEL_INT("alpha", 1);
  keel_tensor *x = floats(context, 4, data),
              *three_floats = floats(context, 3, data);
  keel_tensor *y = NULL;
  keel_tensor *whole = create_tensor(context, KD_I64, DIMS(3), NULL);
  expect_fails(keel_call(context, "Relux", NULL, 0, &x, 1, &y, 1), KD_NOT_FOUND,
               "did you mean Relu");
  expect_fails(keel_call(context, "LeakyRelu", &wrong, 1, &x, 1, &y, 1),
               KD_INVALID_ARGUMENT, "it has alpha");
  expect_fails(keel_call(context, "LeakyRelu", &kind, 1, &x, 1, &y, 1),
               KD_INVALID_ARGUMENT, "is a float, not an int");
  keel_tensor *pair[] = {x, three_floats}, *mixed[] = {x, whole};
  expect_fails(keel_call(context, "Add", NULL, 0, pair, 2, &y, 1),
               KD_INVALID_ARGUMENT, "Add(A f32[4], B f32[3])");
  expect_fails(keel_call(context, "Add", NULL, 0, mixed, 2, &y, 1),
               KD_INVALID_ARGUMENT, "B is i64 and must be f32");
  expect_fails(keel_call(context, "Add", NULL, 0, pair, 1, &y, 1),
               KD_INVALID_ARGUMENT, "takes 2");
  expect_fails(keel_call(context, "Not", NULL, 0, &x, 1, &y, 1),
               KD_INVALID_ARGUMENT, "can't be f32; it is one of bool");
  const keel_attr axis = KEEL_INT("axis", 0);
  keel_tensor *absent[] = {NULL, x};
  expect_fails(keel_call(context, "Concat", &axis, 1, absent, 2, &y, 1),
               KD_INVALID_ARGUMENT, "inputs is missing");
  expect_fails(keel_call(context, "Split", &axis, 1, &x, 1, &y, 0),
               KD_INVALID_ARGUMENT, "is called without outputs");
  assert_int_equal(keel_call(context, "Identity", NULL, 0, &x, 1, &y, 0),
                   KD_INVALID_ARGUMENT);
  assert_null(y);
  RELEASE(x, three_floats, whole);
}

/* A name is proposed where it is near; else it's said where names are. */
TEST_THAT(what_is_not_there_is_named) {
  static const struct {
    const char *op, *says, *not ;
  } rows[] = {
      {"relu", "; did you mean Relu?", NULL},
      {"Maxpol", "; did you mean MaxPool?", NULL},
      {"LayerNormalisation", "; did you mean LayerNormalization?", NULL},
      {"WordCounter", "no op WordCounter; `keel ops` lists", "did you mean"},
      {"PictureReader", "`keel ops` lists", "did you mean"},
      {"ai.onnx.sound::Mixer",
       "of the domains ai.onnx, keel, com.microsoft, ai.onnx.preview.training,"
       " ai.onnx.preview, ai.onnx.ml",
       "did you mean"},
      {"com.acme::Gelu", "ai.onnx::Gelu is another op of that name", "mean"},
      {"X", "`keel ops` lists", "did you mean"},
  };
  const uint8_t nibbles = 0x21;
  keel_tensor *x = floats(context, 4, data), *y = NULL, *small = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    expect_fails(keel_call(context, rows[i].op, NULL, 0, &x, 1, &y, 1),
                 KD_NOT_FOUND, rows[i].says);
    if (rows[i].not ) assert_null(strstr(keel_message(), rows[i].not ));
  }
  /* only programs write such an op with others */
  keel_tensor *pair[] = {x, x};
  expect_fails(keel_call(context, "SwiGLU", NULL, 0, pair, 2, &y, 1),
               KD_UNIMPLEMENTED, "no device has a kernel for SwiGLU");
  /* types: of an input, and of an output that an attribute decides */
  small = create_tensor(context, KD_I4, DIMS(2), &nibbles);
  expect_fails(keel_call(context, "Neg", NULL, 0, &small, 1, &y, 1),
               KD_INVALID_ARGUMENT, "X can't be i4; it is one of f32, ");
  const keel_attr c64 = KEEL_INT("to", KD_C64), later = KEEL_INT("to", 99);
  expect_fails(keel_call(context, "Cast", &c64, 1, &x, 1, &y, 1),
               KD_UNIMPLEMENTED,
               "no device takes Cast(f32[4]) -> c64[4]; asked for");
  expect_fails(keel_call(context, "Cast", &later, 1, &x, 1, &y, 1),
               KD_UNIMPLEMENTED,
               "\"to\" is element type 99, which Keel does not have yet");
  RELEASE(x, small);
}

/* Of X [2,4], a Resize to what `inputs` say; 0 of a count: that input is absent. */
typedef struct wrong_resize {
  int axis_count, roi_count, scale_count, size_count;
  int64_t axes[3], sizes[3];
  float roi[4], scales[3];
  const char *policy, *message;
} wrong_resize;

static const wrong_resize wrong_resizes[] = {
    {1, 4, 0, 1, {1}, {3}, {0}, {0}, "", "roi has 4 entries, not 2"},
    {2, 2, 0, 2, {0, 1}, {3, 3}, {0}, {0}, "", "roi has 2 entries, not 4"},
    {1, 2, 0, 1, {1}, {3}, {NAN, 1}, {0}, "", "not a finite number"},
    {1, 2, 0, 1, {1}, {3}, {0, INFINITY}, {0}, "", "not a finite number"},
    {2, 0, 2, 0, {1, -1}, {0}, {0}, {2, 2}, "", "names dimension 1 twice"},
    {3, 0, 3, 0, {0, 1, 0}, {0}, {0}, {2, 2, 2}, "", "axes has 3 entries"},
    {1, 0, 1, 0, {2}, {0}, {0}, {2}, "", "axis 2 is not in a tensor"},
    {1, 0, 2, 0, {1}, {0}, {0}, {2, 2}, "", "scales has 2 entries, not 1"},
    {1, 0, 1, 0, {1}, {0}, {0}, {NAN}, "", "scales[0] is nan"},
    {1, 0, 1, 0, {1}, {0}, {0}, {INFINITY}, "", "scales[0] is inf"},
    {1, 0, 1, 0, {1}, {0}, {0}, {-1}, "", "scales[0] is -1"},
    {1, 0, 1, 0, {1}, {0}, {0}, {0}, "", "scales[0] is 0"},
    {1, 0, 1, 0, {1}, {0}, {0}, {3e38f}, "", "elements of dimension 1"},
    {1, 0, 1, 1, {1}, {3}, {0}, {2}, "", "both scales and sizes"},
    {1, 0, 0, 1, {1}, {-3}, {0}, {0}, "not_larger", "sizes[0] is -3"},
    {1, 0, 0, 1, {1}, {3}, {0}, {0}, "fit", "\"fit\" is none of"},
    {2, 0, 0, 2, {0, 1}, {3, INT64_MAX}, {0}, {0}, "not_smaller", "too large"},
};

static keel_tensor *list(kd_dtype dtype, int64_t count, const void *values) {
  if (!count) return NULL;
  return create_tensor(context, dtype, 1, &count, values);
}

static keel_status resize(const wrong_resize *w, int64_t rows,
                          keel_tensor **out) {
  static const float zeros[8];
  const keel_attr attrs[] = {
      KEEL_INTS("axes", w->axis_count, w->axes),
      KEEL_STRING("keep_aspect_ratio_policy",
                  *w->policy ? w->policy : "stretch"),
      KEEL_STRING("coordinate_transformation_mode", "tf_crop_and_resize")};
  keel_tensor *in[] = {NULL, list(KD_F32, w->roi_count, w->roi),
                       list(KD_F32, w->scale_count, w->scales),
                       list(KD_I64, w->size_count, w->sizes)};
  expect_ok(keel_tensor_create(context, KD_F32, DIMS(rows, 4), zeros, &in[0]));
  keel_status status = keel_call(context, "Resize", attrs, 3, in, 4, out, 1);
  for (int i = 0; i < 4; i++)
    if (in[i]) keel_tensor_release(in[i]);
  return status;
}

TEST_THAT(a_resize_by_nonsense_says_so) {
  for (size_t i = 0; i < sizeof wrong_resizes / sizeof *wrong_resizes; i++) {
    keel_tensor *y = NULL;
    expect_fails(resize(&wrong_resizes[i], 2, &y), KD_INVALID_ARGUMENT,
                 wrong_resizes[i].message);
  }
}

/* Kernels broadcast the limits, and would read beyond them. */
TEST_THAT(limits_of_clip_are_one_number) {
  for (int64_t count = 0; count < 3; count++) {
    keel_tensor *inputs[] = {floats(context, 4, data),
                             floats(context, count, data)};
    keel_tensor *output = NULL;
    keel_status status =
        keel_call(context, "Clip", NULL, 0, inputs, 2, &output, 1);
    assert_int_equal(status, count == 1 ? KD_OK : KD_INVALID_ARGUMENT);
    if (count != 1)
      assert_non_null(strstr(keel_message(), "min must be one number"));
    keel_tensor_release(output);
    release_all(inputs, 2);
  }
}

TEST_THAT(nothing_times_infinity_is_no_size) {
  const wrong_resize all = {2,  0, 2, 0, {0, 1}, {0}, {0}, {INFINITY, 1},
                            "", ""};
  keel_tensor *y = NULL;
  expect_fails(resize(&all, 0, &y), KD_INVALID_ARGUMENT, "scales[0] is inf");
}

TEST_THAT(what_depends_on_a_failure_fails_with_it) {
  keel_tensor *promise = NULL, *y = NULL, *z = NULL;
  expect_ok(keel_tensor_promise(context, &promise));
  expect_ok(keel_call(context, "Relu", NULL, 0, &promise, 1, &y, 1));
  assert_int_equal(keel_tensor_query(y), KD_BUSY);
  expect_ok(keel_tensor_fail(promise, KD_ABORTED, "no more data"));
  expect_fails(keel_tensor_wait(y), KD_ABORTED, "no more data");
  expect_ok(keel_call(context, "Relu", NULL, 0, &y, 1, &z, 1));
  assert_int_equal(keel_tensor_query(z), KD_ABORTED);
  RELEASE(promise, y, z);
}

TEST_THAT(calls_on_a_promise_run_when_it_is_kept) {
  keel_tensor *x = floats(context, 4, data), *promise = NULL, *y = NULL;
  expect_ok(keel_tensor_promise(context, &promise));
  expect_ok(keel_call(context, "Relu", NULL, 0, &promise, 1, &y, 1));
  expect_ok(keel_tensor_fulfil(promise, x));
  expect_floats(y, relu, 4);
  RELEASE(promise, x, y);
}

TEST_THAT(a_late_shape_error_reaches_the_output) {
  keel_tensor *x = floats(context, 3, data), *promise = NULL, *y = NULL;
  expect_ok(keel_tensor_promise(context, &promise));
  keel_tensor *four = floats(context, 4, data), *pair[] = {four, promise};
  expect_ok(keel_call(context, "Add", NULL, 0, pair, 2, &y, 1));
  expect_ok(keel_tensor_fulfil(promise, x));
  expect_fails(keel_tensor_wait(y), KD_INVALID_ARGUMENT,
               "Add(A f32[4], B f32[3])");
  RELEASE(promise, four, x, y);
}

static keel_op *shared;

static void *call_often(void *argument) {
  for (int i = 0; i < 2000; i++) {
    keel_tensor *x = floats(context, 4, data), *y = NULL, *z = NULL;
    bool good = keel_op_call(shared, &x, 1, &y, 1) == KD_OK &&
                keel_call(context, "Neg", NULL, 0, &y, 1, &z, 1) == KD_OK;
    const float *got = good ? keel_tensor_data(z) : NULL;
    if (!got || got[1] != -2) return argument;
    RELEASE(x, y, z);
  }
  return NULL;
}

/* What a function of the model's own passes on has any type, or is not there. */
TEST_THAT(an_op_without_a_shape_checks_its_inputs) {
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  keel_tensor *inputs[] = {x, x};
  assert_int_equal(
      keel_call(context, "keel::BroadcastAxes", NULL, 0, inputs, 2, &y, 1),
      KD_INVALID_ARGUMENT);
  assert_int_equal(
      keel_call(context, "keel::BroadcastAxes", NULL, 0, inputs, 1, &y, 1),
      KD_INVALID_ARGUMENT);
  keel_tensor_release(x);
}

TEST_THAT(threads_may_share_an_op) {
  pthread_t threads[4];
  expect_ok(keel_op_prepare(context, "Relu", NULL, 0, NULL, &shared));
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, call_often, &shared);
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  keel_op_release(shared);
}

/* Sums of x and y, of more shapes than a call site keeps, in an order of the thread's own. */
static void *call_with_shapes(void *seed) {
  uint32_t state = (uint32_t)(uintptr_t)seed;
  float x[600], y[600];
  for (int i = 0; i < 600; i++) {
    x[i] = (float)i;
    y[i] = (float)(i % 7);
  }
  for (int i = 0; i < 4000; i++) {
    state = state * 1664525u + 1013904223u;
    int64_t n = (state >> 8) % (i < 1000 ? 12 : 600);
    const int64_t dims[] = {n};
    keel_tensor *in[] = {floats(context, n, x),
                         create_tensor(context, KD_F32, 1, dims, y)};
    keel_tensor *sum = NULL;
    if (keel_op_call(shared, in, 2, &sum, 1) != KD_OK ||
        keel_tensor_elements(sum) != n)
      return seed;
    const float *got = keel_tensor_data(sum);
    if (n && got[n - 1] != x[n - 1] + y[n - 1]) return seed;
    release_all(in, 2);
    keel_tensor_release(sum);
  }
  return NULL;
}

TEST_THAT(threads_share_an_op_of_many_shapes) {
  pthread_t threads[4];
  expect_ok(keel_op_prepare(context, "Add", NULL, 0, NULL, &shared));
  for (uintptr_t i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, call_with_shapes, (void *)(i + 1));
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  keel_op_release(shared);
}

/* Pieces over 64 KiB go through the heap's own lists. */
static void *call_with_large(void *argument) {
  enum { COUNT = 40000 };
  float *numbers = malloc(COUNT * sizeof *numbers);
  for (int i = 0; i < COUNT; i++)
    numbers[i] = (float)(i % 7 - 3);
  for (int i = 0; i < 300; i++) {
    keel_tensor *x = floats(context, COUNT - i % 3 * 9000, numbers);
    keel_tensor *y = NULL, *z = NULL;
    bool good = keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1) == KD_OK &&
                keel_call(context, "Neg", NULL, 0, &y, 1, &z, 1) == KD_OK;
    const float *got = good ? keel_tensor_data(z) : NULL;
    if (!got || got[6] != -3 ||
        got[20000] != -numbers[20000] * (numbers[20000] > 0))
      return argument;
    RELEASE(x, y, z);
  }
  free(numbers);
  return NULL;
}

TEST_THAT(threads_share_large_memory) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, call_with_large, &shared);
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
}

/* The same bytes as another type, on the device that has them. */
TEST_THAT(bits_of_another_type) {
  static const float x[] = {1, -2};
  static const int32_t want[] = {0x3f800000, (int32_t)0xc0000000u};
  const keel_attr to = KEEL_INT("to", KD_I32), wide = KEEL_INT("to", KD_F64);
  keel_tensor *in = floats(context, 2, x), *out = NULL;
  int32_t got[2];
  expect_ok(keel_call(context, "BitCast", &to, 1, &in, 1, &out, 1));
  assert_int_equal(keel_tensor_dtype(out), KD_I32);
  expect_ok(keel_tensor_read(out, got, sizeof got));
  assert_memory_equal(got, want, sizeof want);
  keel_tensor_release(out);
  expect_fails(keel_call(context, "BitCast", &wide, 1, &in, 1, &out, 1),
               KD_INVALID_ARGUMENT,
               "f32 and f64 have different numbers of bits");
  /* keel::Bitcast, by parts: two floats are a complex number, and four halves a double */
  const keel_attr complex = KEEL_INT("to", KD_C64),
                  half = KEEL_INT("to", KD_F16);
  keel_tensor *one = call_op(context, "keel::Bitcast", &complex, 1, &in, 1);
  assert_int_equal(keel_tensor_dtype(one), KD_C64);
  assert_int_equal(keel_tensor_rank(one), 0);
  expect_ok(keel_call(context, "keel::Bitcast", &half, 1, &one, 1, &out, 1));
  assert_int_equal(keel_tensor_elements(out), 4);
  RELEASE(out, one);
  const keel_attr wider = KEEL_INT("to", KD_C128);
  expect_fails(keel_call(context, "keel::Bitcast", &wider, 1, &in, 1, &out, 1),
               KD_INVALID_ARGUMENT, "must have the parts");
  static const char *const names[] = {"BitCast", "keel::Bitcast"};
  for (int i = 0; i < 2; i++) { /* 8: a text, 22: 4 bits */
    const keel_attr text = KEEL_INT("to", 8), nibble = KEEL_INT("to", 22);
    assert_int_not_equal(
        keel_call(context, names[i], &text, 1, &in, 1, &out, 1), KD_OK);
    assert_int_not_equal(
        keel_call(context, names[i], &nibble, 1, &in, 1, &out, 1), KD_OK);
  }
  keel_tensor_release(in);
}

RUN_TESTS(open_cpu, close_context)
