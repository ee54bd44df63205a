/* maps_test.c - ai.onnx.ml's DictVectorizer and CastMap, whose maps are sequences of keys and
 * values. */
#define WORKERS 1
#include "with_cpu.h"

static keel_tensor *strings(int64_t count, const char *const *list) {
  keel_tensor *tensor = NULL;
  expect_ok(keel_strings_create(context, 1, &count, list, NULL, &tensor));
  return tensor;
}

static keel_tensor *ints(int64_t count, const int64_t *list) {
  return create_tensor(context, KD_I64, 1, &count, list);
}

/* The op's result for a map, whose keys and values go; NULL: it fails. */
static keel_tensor *run(const char *name, const keel_attr *attrs,
                        uint32_t count, keel_tensor *keys,
                        keel_tensor *values) {
  keel_builder *builder = create_builder(context, "map");
  keel_value map = op(builder, "SequenceConstruct", constant_of(builder, keys),
                      constant_of(builder, values));
  keel_value y = keel_builder_op(builder, name, attrs, count, &map, 1);
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_tensor *result = NULL;
  keel_status status = keel_builder_output(builder, "y", y);
  if (status == KD_OK) status = keel_builder_finish(builder, &program);
  if (status == KD_OK) status = keel_plan_create(program, NULL, &plan);
  if (status == KD_OK) status = keel_plan_run(plan, NULL, 0, &result, 1);
  RELEASE(plan, program, builder);
  return status == KD_OK ? result : NULL;
}

/* The result is a row of floats, and goes. */
static void expect_row(keel_tensor *row, const float *want, int64_t count) {
  assert_non_null(row);
  assert_int_equal(keel_tensor_rank(row), 2);
  assert_int_equal(keel_tensor_dims(row)[0], 1);
  assert_int_equal(keel_tensor_elements(row), count);
  expect_floats(row, want, (size_t)count);
  keel_tensor_release(row);
}

TEST_THAT(values_come_to_their_keys) {
  const char *const names[] = {"c", "none", "a"}, *const keys[] = {"a", "b",
                                                                   "c"};
  const float values[] = {1, 2, 3}, want[] = {3, 0, 1};
  const keel_attr vocabulary = {.name = "string_vocabulary",
                                .kind = KD_ATTR_STRINGS,
                                .count = 3,
                                .strings = names};
  expect_row(run("ai.onnx.ml::DictVectorizer", &vocabulary, 1, strings(3, keys),
                 floats(context, 3, values)),
             want, 3);
  assert_null(run("ai.onnx.ml::DictVectorizer", NULL, 0, strings(3, keys),
                  floats(context, 3, values)));
  assert_non_null(strstr(keel_message(), "string_vocabulary"));
}

TEST_THAT(a_map_becomes_a_row) {
  const int64_t keys[] = {4, -1, 2};
  const float values[] = {40, -10, 20}, dense[] = {-10, 20, 40};
  const float sparse[] = {0, 0, 20, 0, 40, 0}, read[] = {2.5f, -1, 0};
  const char *const texts[] = {"0", "2.5", "-1"};
  const keel_attr form[] = {KEEL_STRING("map_form", "SPARSE"),
                            KEEL_INT("max_map", 6)};
  const keel_attr none[] = {KEEL_STRING("map_form", "SPARSE"),
                            KEEL_INT("max_map", 0)};
  const int64_t down[] = {9, 1, 8};
  expect_row(run("ai.onnx.ml::CastMap", NULL, 0, ints(3, keys),
                 floats(context, 3, values)),
             dense, 3);
  expect_row(run("ai.onnx.ml::CastMap", form, 2, ints(3, keys),
                 floats(context, 3, values)),
             sparse, 6);
  expect_row(
      run("ai.onnx.ml::CastMap", NULL, 0, ints(3, down), strings(3, texts)),
      read, 3);
  assert_null(run("ai.onnx.ml::CastMap", none, 2, ints(3, keys),
                  floats(context, 3, values)));
  assert_non_null(strstr(keel_message(), "max_map"));
}

RUN_TESTS(open_cpu, close_context)
