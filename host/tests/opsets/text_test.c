/* text_test.c - ops written as text: what a text adds, what it decides when it is written, and what
 * becomes of a text that is wrong. */
#include "opsets/text.h"

#include <float.h>

#define WORKERS 0
#include "with_cpu.h"

/* y, z = TopK(x, k) as the op that a text stands for; k may be absent. */
typedef struct written {
  keel_program *program;
  keel_emit all;
} written;

static written begin(bool second) {
  written w = {0};
  const int64_t dims[] = {2, 3};
  const keel_attr attrs[] = {KEEL_INT("axis", -1), KEEL_INT("largest", 0)};
  keel_function *function = NULL;
  keel_opdef *op = NULL;
  keel_node *node = NULL;
  expect_ok(keel_program_create(context, &w.program));
  expect_ok(keel_function_create(context, &w.program->arena,
                                 &w.program->functions, "main", &function));
  w.program->main = function;
  uint32_t values[4];
  for (int i = 0; i < 4; i++)
    values[i] = keel_function_value(function, "");
  expect_ok(keel_type_of(KD_F32, 2, dims, &function->values[values[0]].type));
  if (!second) values[1] = KEEL_ABSENT;
  expect_ok(keel_opdef_create(context, keel_schema_named("TopK"), attrs, 2,
                              NULL, &op));
  expect_ok(
      keel_function_node(function, op, "top", values, 2, values + 2, 2, &node));
  w.all = keel_emit_for(function, node);
  node->dead = true;
  return w;
}

static void end(written *w) {
  keel_program_release(w->program);
}

/* The ops that were added, as "Mul Add". */
static const char *ops_of(const written *w) {
  static char text[256];
  *text = 0;
  for (uint32_t i = 1; i < w->all.function->node_count; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
             *text ? " " : "", w->all.function->nodes[i].op->schema->name);
  return text;
}

TEST_THAT(a_text_adds_these_ops) {
  static const struct {
    const char *text, *ops;
    bool second;
  } cases[] = {
      {"%0 = $0 + 1", "Add Identity", false},
      {"%0 = 1 + 2 * 3 - 4 / 8 + $0", "Add Identity", false},
      {"$0 * 2 + 1 < $0", "Mul Add Less", false},
      {"-$0 * -(2 - $0)", "Neg Sub Neg Mul", false},
      {"a = Abs($0); b = a * a; a = b + a; a", "Abs Mul Add", false},
      {"$1 ? Abs($0) : Exp($0)", "Exp", false},
      {"$1 ? Abs($0) : Exp($0)", "Abs", true},
      {"!$1 ? Abs($0) : Exp($0)", "Abs", false},
      {"@largest ? Abs($0) : @axis ? Sin($0) : Cos($0)", "Sin", false},
      {"Slice($0, {0, 0}, {1, max}, {-1, 0})", "Slice", false},
      {"{1, dims($0, 0, 1), 2, 3}", "Shape Concat", false},
      {"dims($0)", "Shape", false},
      {"self($0, $1)", "TopK", true},
      {"a, b = TopK[axis=@axis]($0, {1}); b", "TopK", false},
      {"f32($0)", "", false},
      {"f64($0)", "Cast", false},
      {"Gemm[transB=1, alpha=0.5]($0, $0)", "Gemm", false},
      {"keel::PopCount(i64($0))", "Cast PopCount", false},
      {"%0 = Abs($0); %1 = Exp($0); %2 = Sin($0)", "Abs Identity Exp Identity",
       false},
      {"", "", false},
  };
  for (size_t i = 0; i < KEEL_COUNT_OF(cases); i++) {
    written w = begin(cases[i].second);
    keel_emit_text(&w.all, cases[i].text);
    if (w.all.status != KD_OK)
      fail_msg("%s: %s", cases[i].text, keel_message());
    assert_string_equal(ops_of(&w), cases[i].ops);
    end(&w);
  }
}

TEST_THAT(arguments_are_read_in_order_also_of_what_is_not_written) {
  static const int64_t list[] = {3, 2};
  written w = begin(false);
  uint32_t kept = KEEL_ABSENT;
  uint32_t last = keel_emit_text(
      &w.all, "%b ? Reshape(%v, %l) * %f : %s[axis=%i](%v); %p = $0 * %f", 0,
      0u, list, (int64_t)2, 0.5, "Softmax", (int64_t)1, keel_emit_in(&w.all, 0),
      &kept, 4.0);
  expect_ok(w.all.status);
  assert_string_equal(ops_of(&w), "Softmax Mul");
  assert_int_equal(last, kept);
  assert_int_equal(keel_attr_int(w.all.function->nodes[1].op, "axis", 0), 1);
  end(&w);
}

TEST_THAT(a_number_has_the_type_of_what_is_beside_it) {
  written w = begin(false);
  uint32_t y = keel_emit_text(&w.all, "f64($0) * 2");
  expect_ok(w.all.status);
  assert_int_equal(w.all.function->values[y].type->dtype, KD_F64);
  y = keel_emit_text(&w.all, "1e300");
  float most = 0;
  expect_ok(keel_tensor_read(w.all.function->values[y].constant, &most, 4));
  assert_true(most == FLT_MAX);
  end(&w);
}

TEST_THAT(a_wrong_text_is_an_error_that_shows_where) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"%0 = ", "no expression at \"\""},
      {"%0 = Abs($0", "there is no"},
      {"Abs($0) Exp($0)", "no ; at \"Exp($0)\""},
      {"nobody + 1", "no name that is known at \"nobody + 1\""},
      {"@nothing * $0", "no attribute that the op has"},
      {"Gemm[transB=]($0)", "no attribute's value"},
      {"$ + 1", "no expression"},
      {"{1, 2", "there is no"},
      {"{1 2}", "no ,"},
      {"{(1 + 2)}", "no list or integer"},
      {"1 < 2", "no value beside a number"},
      {"$1 ? Abs($0)", "no :"},
      {"{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}", "no room"},
  };
  for (size_t i = 0; i < KEEL_COUNT_OF(cases); i++) {
    written w = begin(true);
    assert_int_equal(keel_emit_text(&w.all, cases[i].text), KEEL_ABSENT);
    assert_int_equal(w.all.status, KD_INTERNAL);
    if (!strstr(keel_message(), cases[i].message))
      fail_msg("%s: %s", cases[i].text, keel_message());
    end(&w);
  }
}

TEST_THAT(an_op_that_is_not_there_is_an_error) {
  written w = begin(false);
  assert_int_equal(keel_emit_text(&w.all, "keel::NoSuchOp($0)"), KEEL_ABSENT);
  assert_int_not_equal(w.all.status, KD_OK);
  assert_non_null(strstr(keel_message(), "NoSuchOp"));
  end(&w);
}

static bool collect(void *context_, const char *op) {
  char *text = context_;
  strcat(strcat(text, *text ? " " : ""), op);
  return strcmp(op, "Stop") != 0;
}

TEST_THAT(the_ops_of_a_text_are_listed) {
  char text[256] = "";
  assert_true(
      keel_text_ops("a = Neg($0); %0 = ReduceMax*(a, {@axis}) - -1 *"
                    " Add[mode=Mul](a, -2)",
                    collect, text));
  assert_string_equal(text, "Neg ReduceMax Sub Mul Add");
  *text = 0;
  assert_true(keel_text_ops("%0 = Max($0, -1e-5) * 1.5e+3", collect, text));
  assert_string_equal(text, "Max Mul");
  *text = 0;
  assert_false(keel_text_ops("Abs(Stop(Exp($0)))", collect, text));
}

RUN_TESTS(open_cpu, close_context)
