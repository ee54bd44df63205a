/* batch_test.c - programs whose rows are apart, and such whose rows are not: what is proven is looked
 * at by runs of single rows. */
#include <keel/split.h>

#define WORKERS KEEL_NO_WORKERS
#include "with_cpu.h"

enum { ROWS = 5, WIDE = 6 };

typedef struct model {
  const char *name;
  keel_value (*write)(keel_builder *b, keel_value x);
  bool apart;
  const char *why; /* in the message, where they are not */
} model;

static keel_value numbers(keel_builder *b, uint32_t rank, const int64_t *dims) {
  static float data[256];
  for (int i = 0; i < 256; i++)
    data[i] = (float)(i * 7 % 11 - 5) / 8;
  return add_constant(b, KD_F32, rank, dims, data);
}

static keel_value ints(keel_builder *b, int64_t count, const int64_t *list) {
  return add_constant(b, KD_I64, 1, &count, list);
}

static keel_value with_int(keel_builder *b, const char *name, const char *attr,
                           int64_t value, keel_value x) {
  const keel_attr one = KEEL_INT(attr, value);
  return keel_builder_op(b, name, &one, 1, &x, 1);
}

static keel_value with_ints(keel_builder *b, const char *name, const char *attr,
                            uint32_t count, const int64_t *list, keel_value x) {
  const keel_attr one = KEEL_INTS(attr, count, list);
  return keel_builder_op(b, name, &one, 1, &x, 1);
}

/* ---- apart ------------------------------------------------------------------------- */

static keel_value mlp(keel_builder *b, keel_value x) {
  x = op(b, "Relu", op(b, "MatMul", x, numbers(b, DIMS(WIDE, 8))), KEEL_ABSENT);
  return op(b, "Add", op(b, "MatMul", x, numbers(b, DIMS(8, 3))),
            numbers(b, DIMS(3)));
}

static keel_value softmax(keel_builder *b, keel_value x) {
  return with_int(b, "Softmax", "axis", -1, x);
}

static keel_value norm(keel_builder *b, keel_value x) {
  return op(b, "LayerNormalization", x, numbers(b, DIMS(WIDE)));
}

static keel_value picture(keel_builder *b, keel_value x) {
  x = op(b, "Reshape", x, ints(b, 4, (int64_t[]){0, 1, 2, 3}));
  x = op(b, "Conv", x, numbers(b, DIMS(4, 1, 1, 2)));
  return op(b, "Flatten", op(b, "GlobalAveragePool", x, KEEL_ABSENT),
            KEEL_ABSENT);
}

static keel_value by_minus_one(keel_builder *b, keel_value x) {
  x = op(b, "Reshape", x, ints(b, 3, (int64_t[]){-1, 3, 2}));
  return with_ints(b, "Transpose", "perm", 3, (int64_t[]){0, 2, 1}, x);
}

static keel_value own_mean(keel_builder *b, keel_value x) {
  return op(b, "Sub", x, op(b, "ReduceMean", x, ints(b, 1, (int64_t[]){1})));
}

static keel_value columns(keel_builder *b, keel_value x) {
  const keel_attr axis = KEEL_INT("axis", 1);
  const keel_value both[] = {x, ints(b, 2, (int64_t[]){4, 1})};
  return keel_builder_op(b, "Gather", &axis, 1, both, 2);
}

static keel_value wider(keel_builder *b, keel_value x) {
  const keel_attr axis = KEEL_INT("axis", 1);
  const keel_value both[] = {x, op(b, "Neg", x, KEEL_ABSENT)};
  return keel_builder_op(b, "Concat", &axis, 1, both, 2);
}

/* Items of the batch stand between steps and features. */
static keel_value lstm(keel_builder *b, keel_value x) {
  const keel_attr hidden = KEEL_INT("hidden_size", 2);
  x = op(b, "Reshape", x, ints(b, 3, (int64_t[]){0, 3, 2}));
  x = with_ints(b, "Transpose", "perm", 3, (int64_t[]){1, 0, 2}, x);
  const keel_value in[] = {x, numbers(b, DIMS(1, 8, 2)),
                           numbers(b, DIMS(1, 8, 2))};
  x = keel_builder_op(b, "LSTM", &hidden, 1, in, 3);
  x = op(b, "Squeeze", x, ints(b, 1, (int64_t[]){1}));
  return with_ints(b, "Transpose", "perm", 3, (int64_t[]){1, 0, 2}, x);
}

/* A state that begins with zeros, as many as there are rows. */
static keel_value zeros_of_rows(keel_builder *b, keel_value x) {
  const keel_attr axis = KEEL_INT("axis", 0);
  keel_value rows = op(b, "Gather", op(b, "Shape", x, KEEL_ABSENT),
                       ints(b, 1, (int64_t[]){0}));
  const keel_value sizes[] = {rows, ints(b, 1, (int64_t[]){WIDE})};
  keel_value zeros =
      op(b, "ConstantOfShape", keel_builder_op(b, "Concat", &axis, 1, sizes, 2),
         KEEL_ABSENT);
  return op(b, "Max", x, zeros);
}

/* ---- not apart --------------------------------------------------------------------- */

static keel_value softmax_of_rows(keel_builder *b, keel_value x) {
  return with_int(b, "Softmax", "axis", 0, x);
}

static keel_value mean_of_rows(keel_builder *b, keel_value x) {
  return op(b, "Sub", x, op(b, "ReduceMean", x, ints(b, 1, (int64_t[]){0})));
}

static keel_value sum_of_all(keel_builder *b, keel_value x) {
  return op(b, "ReduceSum", x, ints(b, 1, (int64_t[]){0}));
}

static keel_value running(keel_builder *b, keel_value x) {
  return op(b, "CumSum", x, add_constant(b, KD_I64, 0, NULL, (int64_t[]){0}));
}

static keel_value products_of_rows(keel_builder *b, keel_value x) {
  return op(b, "MatMul", x,
            with_ints(b, "Transpose", "perm", 2, (int64_t[]){1, 0}, x));
}

static keel_value turned(keel_builder *b, keel_value x) {
  return with_ints(b, "Transpose", "perm", 2, (int64_t[]){1, 0}, x);
}

static keel_value more_rows(keel_builder *b, keel_value x) {
  const keel_attr axis = KEEL_INT("axis", 0);
  const keel_value both[] = {x, numbers(b, DIMS(1, WIDE))};
  return keel_builder_op(b, "Concat", &axis, 1, both, 2);
}

static keel_value all_flat(keel_builder *b, keel_value x) {
  return op(b, "Reshape", x, ints(b, 1, (int64_t[]){-1}));
}

static keel_value rows_mixed(keel_builder *b, keel_value x) {
  return op(b, "Reshape", x, ints(b, 2, (int64_t[]){-1, 2 * WIDE}));
}

static keel_value first_row(keel_builder *b, keel_value x) {
  return op(b, "Add", x, op(b, "Gather", x, ints(b, 1, (int64_t[]){0})));
}

static keel_value without_first(keel_builder *b, keel_value x) {
  const keel_value in[] = {x, ints(b, 1, (int64_t[]){1}),
                           ints(b, 1, (int64_t[]){100000}),
                           ints(b, 1, (int64_t[]){0})};
  return keel_builder_op(b, "Slice", NULL, 0, in, 4);
}

static keel_value where_not_zero(keel_builder *b, keel_value x) {
  return op(b, "NonZero", x, KEEL_ABSENT);
}

static keel_value random_numbers(keel_builder *b, keel_value x) {
  return op(b, "Add", x, op(b, "RandomNormalLike", x, KEEL_ABSENT));
}

static keel_value how_many(keel_builder *b, keel_value x) {
  const keel_attr to = KEEL_INT("to", 1);
  keel_value shape = op(b, "Shape", x, KEEL_ABSENT);
  keel_value rows = op(b, "Gather", shape, ints(b, 1, (int64_t[]){0}));
  return op(b, "Mul", x, keel_builder_op(b, "Cast", &to, 1, &rows, 1));
}

/* Each row and its number. */
static keel_value numbered(keel_builder *b, keel_value x) {
  const keel_attr to = KEEL_INT("to", 1);
  keel_value rows = op(b, "Gather", op(b, "Shape", x, KEEL_ABSENT),
                       add_constant(b, KD_I64, 0, NULL, (int64_t[]){0}));
  const keel_value in[] = {add_constant(b, KD_I64, 0, NULL, (int64_t[]){0}),
                           rows,
                           add_constant(b, KD_I64, 0, NULL, (int64_t[]){1})};
  keel_value numbers_ = keel_builder_op(b, "Range", NULL, 0, in, 3);
  numbers_ = op(b, "Unsqueeze", numbers_, ints(b, 1, (int64_t[]){1}));
  return op(b, "Add", x, keel_builder_op(b, "Cast", &to, 1, &numbers_, 1));
}

/* A product with ones, as many as there are rows: each row's sum, as often as there are rows. */
static keel_value square_of_rows(keel_builder *b, keel_value x) {
  const keel_attr axis = KEEL_INT("axis", 0);
  keel_value rows = op(b, "Gather", op(b, "Shape", x, KEEL_ABSENT),
                       ints(b, 1, (int64_t[]){0}));
  const keel_value sizes[] = {ints(b, 1, (int64_t[]){WIDE}), rows};
  keel_value wide = keel_builder_op(b, "Concat", &axis, 1, sizes, 2);
  const float one = 1;
  keel_value ones =
      op(b, "Expand", add_constant(b, KD_F32, 0, NULL, &one), wide);
  return op(b, "MatMul", x, ones);
}

static keel_value sum_of_square(keel_builder *b, keel_value x) {
  return op(b, "ReduceSum", square_of_rows(b, x), ints(b, 1, (int64_t[]){1}));
}

/* As many columns as there are rows, where there are so few. */
static keel_value few_columns(keel_builder *b, keel_value x) {
  keel_value rows = op(b, "Gather", op(b, "Shape", x, KEEL_ABSENT),
                       ints(b, 1, (int64_t[]){0}));
  const keel_value in[] = {x, ints(b, 1, (int64_t[]){0}), rows,
                           ints(b, 1, (int64_t[]){1})};
  return keel_builder_op(b, "Slice", NULL, 0, in, 4);
}

/* The rows are its steps. */
static keel_value lstm_of_rows(keel_builder *b, keel_value x) {
  const keel_attr hidden = KEEL_INT("hidden_size", 2);
  x = op(b, "Unsqueeze", x, ints(b, 1, (int64_t[]){1}));
  const keel_value in[] = {x, numbers(b, DIMS(1, 8, WIDE)),
                           numbers(b, DIMS(1, 8, 2))};
  return keel_builder_op(b, "LSTM", &hidden, 1, in, 3);
}

static keel_value constant(keel_builder *b, keel_value x) {
  (void)x;
  return numbers(b, DIMS(3, 2));
}

static const model models[] = {
    {"mlp", mlp, true, NULL},
    {"softmax", softmax, true, NULL},
    {"norm", norm, true, NULL},
    {"picture", picture, true, NULL},
    {"by_minus_one", by_minus_one, true, NULL},
    {"own_mean", own_mean, true, NULL},
    {"columns", columns, true, NULL},
    {"wider", wider, true, NULL},
    {"lstm", lstm, true, NULL},
    {"zeros_of_rows", zeros_of_rows, true, NULL},
    {"square_of_rows", square_of_rows, false, "computes with the number"},
    {"sum_of_square", sum_of_square, false, "computes with the number"},
    {"few_columns", few_columns, false, "Slice computes with the number"},
    {"lstm_of_rows", lstm_of_rows, false, ""},
    {"numbered", numbered, false, "computes with the number of rows"},
    {"softmax_of_rows", softmax_of_rows, false, "Softmax needs all"},
    {"mean_of_rows", mean_of_rows, false, ""},
    {"sum_of_all", sum_of_all, false, ""},
    {"running", running, false, "CumSum needs all"},
    {"products_of_rows", products_of_rows, false, ""},
    {"turned", turned, false, "\"y\" does not have a row"},
    {"more_rows", more_rows, false, ""},
    {"all_flat", all_flat, false, ""},
    {"rows_mixed", rows_mixed, false, ""},
    {"first_row", first_row, false, ""},
    {"without_first", without_first, false, ""},
    {"where_not_zero", where_not_zero, false, ""},
    {"random_numbers", random_numbers, false, "random"},
    {"how_many", how_many, false, "Mul computes with the number of rows"},
    {"constant", constant, false, ""},
};

static keel_program *program_of(const model *m) {
  keel_builder *b = create_builder(context, m->name);
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(-1, WIDE));
  return program_giving(b, m->write(b, x));
}

/* Each row alone gives what it gives in the batch. */
static void expect_apart(keel_plan *plan) {
  float data[ROWS * WIDE];
  for (int i = 0; i < ROWS * WIDE; i++)
    data[i] = (float)(i * 5 % 17 - 8) / 4;
  keel_tensor *x = create_tensor(context, KD_F32, DIMS(ROWS, WIDE), data);
  keel_tensor *all = output_of(plan, &x, 1);
  int64_t each = keel_tensor_elements(all) / ROWS;
  assert_int_equal(keel_tensor_dims(all)[0], ROWS);
  for (int64_t i = 0; i < ROWS; i++) {
    keel_tensor *row =
        create_tensor(context, KD_F32, DIMS(1, WIDE), data + i * WIDE);
    keel_tensor *one = output_of(plan, &row, 1);
    expect_floats(one, (const float *)keel_tensor_data(all) + i * each,
                  (size_t)each);
    RELEASE(row, one);
  }
  RELEASE(x, all);
}

TEST_THAT(rows_are_apart_or_not) {
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    keel_program *program = program_of(&models[i]);
    keel_status status = keel_program_batch(program);
    if (models[i].apart != (status == KD_OK))
      fail_msg("%s: %s", models[i].name, keel_message());
    if (status == KD_OK) {
      keel_plan *plan = create_plan(program, NULL);
      expect_apart(plan);
      keel_plan_release(plan);
    } else {
      assert_int_equal(status, KD_FAILED_PRECONDITION);
      expect_message(models[i].why);
    }
    keel_program_release(program);
  }
}

TEST_THAT(inputs_without_a_batch_are_named) {
  const struct {
    int64_t dims[2];
    const char *why;
  } cases[] = {{{4, -1}, "first dimension of input \"x\" is not open"},
               {{4, 2}, "first dimension of input \"x\" is not open"}};
  for (size_t i = 0; i < 2; i++) {
    keel_builder *b = create_builder(context, "fixed");
    keel_value x = keel_builder_input(b, "x", KD_F32, 2, cases[i].dims);
    keel_program *program = program_giving(b, op(b, "Neg", x, KEEL_ABSENT));
    expect_fails(keel_program_batch(program), KD_FAILED_PRECONDITION,
                 cases[i].why);
    keel_program_release(program);
  }
}

/* Strings are not shards, and what is made of them might see all of them. */
TEST_THAT(strings_are_not_proven) {
  keel_builder *b = create_builder(context, "strings");
  keel_value x = keel_builder_input(b, "x", KD_STRING, DIMS(-1, WIDE));
  keel_program *program = program_giving(b, op(b, "Identity", x, KEEL_ABSENT));
  expect_fails(keel_program_batch(program), KD_FAILED_PRECONDITION,
               "\"x\" can't be cut into rows");
  keel_program_release(program);
}

/* Two batches, and one that the other's rows all see. */
TEST_THAT(several_inputs) {
  for (int which = 0; which < 2; which++) {
    keel_builder *b = create_builder(context, "two");
    keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(-1, WIDE));
    keel_value y = keel_builder_input(b, "y", KD_F32, DIMS(-1, WIDE));
    if (which) y = op(b, "ReduceMax", y, ints(b, 1, (int64_t[]){0}));
    keel_program *program = program_giving(b, op(b, "Mul", x, y));
    assert_int_equal(keel_program_batch(program),
                     which ? KD_FAILED_PRECONDITION : KD_OK);
    keel_program_release(program);
  }
}

RUN_TESTS(open_cpu, close_context)
