/* ml.h - one op of ai.onnx.ml in a program of its own: what it gives with known rows and with
 * open ones, and with which words a bad one is refused. */
#ifndef KEEL_TESTS_ML_H
#define KEEL_TESTS_ML_H

#include <math.h>

#define WORKERS 2
#include "with_cpu.h"

#define ATTRS_MOST 24

/* ---- one op ---------------------------------------------------------------------------- */

static inline keel_attr floats_attr(const char *name, uint32_t count,
                                    const float *list) {
  return (keel_attr){
      .name = name, .kind = KD_ATTR_FLOATS, .count = count, .floats = list};
}

static inline keel_attr strings_attr(const char *name, uint32_t count,
                                     const char *const *list) {
  return (keel_attr){
      .name = name, .kind = KD_ATTR_STRINGS, .count = count, .strings = list};
}

static inline keel_attr tensor_attr(const char *name, keel_tensor *tensor) {
  return (keel_attr){.name = name, .kind = KD_ATTR_TENSOR, .tensor = tensor};
}

#define FLOATS(NAME, LIST) \
  floats_attr(NAME, (uint32_t)(sizeof(LIST) / sizeof *(LIST)), LIST)
#define INTS(NAME, LIST) \
  (keel_attr) KEEL_INTS(NAME, (uint32_t)(sizeof(LIST) / sizeof *(LIST)), LIST)
#define INT(NAME, VALUE)    (keel_attr) KEEL_INT(NAME, VALUE)
#define FLOAT(NAME, VALUE)  (keel_attr) KEEL_FLOAT(NAME, VALUE)
#define STRING(NAME, VALUE) (keel_attr) KEEL_STRING(NAME, VALUE)

typedef struct call {
  const char *op;
  keel_attr attrs[ATTRS_MOST];
  uint32_t count, outputs;
  bool open; /* the number of rows is not known when the plan is made */
} call;

/* A call with these attributes. */
#define CALL(OP, OUTPUTS, ...)                                             \
  {                                                                        \
    .op = (OP), .attrs = {__VA_ARGS__}, .outputs = (OUTPUTS),              \
    .count =                                                               \
        (uint32_t)(sizeof((keel_attr[]){__VA_ARGS__}) / sizeof(keel_attr)) \
  }

/* A program of the one op, planned and run on x; out: as many as the call has. */
static inline keel_status run(const call *c, keel_tensor *x,
                              keel_tensor **out) {
  int64_t dims[KD_MAX_RANK];
  char op[64];
  keel_value in = KEEL_ABSENT, made[2];
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  uint32_t rank = keel_tensor_rank(x);
  keel_builder *builder = create_builder(context, "main");
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = c->open && !i ? -1 : keel_tensor_dims(x)[i];
  snprintf(op, sizeof op, "ai.onnx.ml::%s", c->op);
  in = keel_builder_input(builder, "x", keel_tensor_dtype(x), rank, dims);
  keel_status status = keel_builder_node_name(builder, "it");
  if (status == KD_OK)
    status = keel_builder_op_n(builder, op, c->attrs, c->count, &in, 1, made,
                               c->outputs);
  for (uint32_t i = 0; i < c->outputs && status == KD_OK; i++)
    status = keel_builder_output(builder, i ? "z" : "y", made[i]);
  if (status == KD_OK) status = keel_builder_finish(builder, &program);
  keel_builder_destroy(builder);
  if (status == KD_OK) status = keel_plan_create(program, NULL, &plan);
  if (status == KD_OK) status = keel_plan_run(plan, &x, 1, out, c->outputs);
  for (uint32_t i = 0; i < c->outputs && status == KD_OK; i++)
    status = keel_tensor_wait(out[i]);
  RELEASE(plan, program);
  return status;
}

/* Refused, with these words, when planned with known rows and with open ones. Keeps x. */
static inline void refuse(const call *c, keel_tensor *x, const char *words) {
  call open = *c;
  open.open = true;
  keel_tensor *out[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    if (run(i ? &open : c, x, out) == KD_OK)
      fail_msg("%s was not refused: %s", c->op, words);
    expect_message(words);
  }
}

static inline keel_tensor *rows(int64_t count, int64_t features,
                                const float *data) {
  return create_tensor(context, KD_F32, DIMS(count, features), data);
}

static inline void expect_near(keel_tensor *y, const float *want,
                               size_t count) {
  float got[64];
  assert_int_equal(keel_tensor_size(y), count * sizeof *got);
  expect_ok(keel_tensor_read(y, got, count * sizeof *got));
  for (size_t i = 0; i < count; i++)
    if (!(fabsf(got[i] - want[i]) <= 2e-6F * fmaxf(1, fabsf(want[i]))) &&
        !(isnan(got[i]) && isnan(want[i])))
      fail_msg("element %zu is %.9g, not %.9g", i, (double)got[i],
               (double)want[i]);
  keel_tensor_release(y);
}

static inline void expect_labels(keel_tensor *y, const int64_t *want,
                                 size_t count) {
  int64_t got[64];
  assert_int_equal(keel_tensor_size(y), count * sizeof *got);
  expect_ok(keel_tensor_read(y, got, count * sizeof *got));
  for (size_t i = 0; i < count; i++)
    assert_int_equal(got[i], want[i]);
  keel_tensor_release(y);
}

/* An op of one output, on rows of floats; with known rows and open ones. */
static inline void expect(const call *c, int64_t count, int64_t features,
                          const float *data, const float *want, size_t wanted) {
  call open = *c;
  open.open = true;
  keel_tensor *x = rows(count, features, data), *y = NULL;
  for (int i = 0; i < 2; i++) {
    expect_ok(run(i ? &open : c, x, &y));
    expect_near(y, want, wanted);
  }
  keel_tensor_release(x);
}

/* A classifier; the same. */
static inline void expect_classes(const call *c, int64_t count,
                                  int64_t features, const float *data,
                                  const int64_t *labels, const float *scores,
                                  size_t columns) {
  call open = *c;
  open.open = true;
  keel_tensor *x = rows(count, features, data), *y[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    expect_ok(run(i ? &open : c, x, y));
    expect_labels(y[0], labels, (size_t)count);
    expect_near(y[1], scores, (size_t)count * columns);
  }
  keel_tensor_release(x);
}

static inline float logistic(float x) {
  return (float)(1 / (1 + exp(-(double)x)));
}

/* Of classes. */
static const int64_t two_labels[] = {-5, 8}, three_labels[] = {4, 2, 9};

#endif /* KEEL_TESTS_ML_H */
