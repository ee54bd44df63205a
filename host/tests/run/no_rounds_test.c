/* no_rounds_test.c - Loop and Scan without a round: scan outputs have the rank and sizes that
 * a round would give them. */
#include <keel/debug.h>

#define WORKERS 0
#include "with_cpu.h"

enum { ROWS = 2, COLUMNS = 3 };

static keel_value transposed(keel_builder *b, keel_value value) {
  return op(b, "Transpose", value, KEEL_ABSENT);
}

typedef enum what { PLAIN, GROWING, NESTED, WHAT } what;

static void add_body(keel_builder *b, what kind, keel_value rounds,
                     keel_value x);

/* outputs: the state, and what is stacked */
static void add_loop(keel_builder *b, what kind, keel_value rounds,
                     keel_value x, keel_value *outputs) {
  const keel_value in[] = {rounds, KEEL_ABSENT, x};
  keel_builder *body = create_body(b, "body");
  add_body(body, kind, rounds, x);
  const keel_attr attr = KEEL_BODY("body", body);
  expect_ok(keel_builder_op_n(b, "Loop", &attr, 1, in, 3, outputs, 2));
  keel_builder_destroy(body);
}

static void add_body(keel_builder *b, what kind, keel_value rounds,
                     keel_value x) {
  keel_builder_input(b, "i", KD_I64, 0, NULL);
  keel_value cond = keel_builder_input(b, "cond", KD_BOOL, 0, NULL);
  keel_value state =
      keel_builder_input(b, "s", KD_F32, KEEL_RANK_UNKNOWN, NULL);
  keel_value made[2] = {state, KEEL_ABSENT};
  if (kind == GROWING) {
    const keel_attr axis = KEEL_INT("axis", 0);
    const keel_value both[] = {state, keel_builder_capture(b, x)};
    made[0] = keel_builder_op(b, "Concat", &axis, 1, both, 2);
  }
  if (kind == NESTED)
    add_loop(b, PLAIN, keel_builder_capture(b, rounds), state, made);
  else
    made[1] = transposed(b, made[0]);
  keel_builder_output(b, "go", op(b, "Identity", cond, KEEL_ABSENT));
  keel_builder_output(b, "state", op(b, "Identity", made[0], KEEL_ABSENT));
  keel_builder_output(b, "stacked", made[1]);
}

static void expect_dims(keel_tensor *tensor, uint32_t rank,
                        const int64_t *dims) {
  assert_int_equal(keel_tensor_dtype(tensor), KD_F32);
  assert_int_equal(keel_tensor_rank(tensor), rank);
  for (uint32_t i = 0; i < rank; i++)
    assert_int_equal(keel_tensor_dims(tensor)[i], dims[i]);
}

static void check_loop(what kind, bool open, uint32_t flags) {
  static const struct {
    uint32_t rank;
    int64_t dims[4];
  } want[] = {{3, {0, COLUMNS, ROWS}},
              {3, {0, COLUMNS, 2 * ROWS}},
              {4, {0, 0, COLUMNS, ROWS}}};
  const int64_t dims[] = {ROWS, COLUMNS}, opens[] = {-1, -1}, none = 0;
  const float numbers[ROWS * COLUMNS] = {1, 2, 3, 4, 5, 6};
  keel_builder *b = create_builder(context, "loop");
  keel_value rounds = keel_builder_input(b, "n", KD_I64, 0, NULL), made[2];
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, open ? opens : dims);
  add_loop(b, kind, rounds, x, made);
  keel_builder_output(b, "state", made[0]);
  keel_builder_output(b, "stacked", made[1]);
  keel_plan *plan = finish_plan(b, PLAN_PARAMS(.flags = flags));
  keel_tensor *in[] = {create_tensor(context, KD_I64, 0, NULL, &none),
                       create_tensor(context, KD_F32, 2, dims, numbers)};
  for (int run = 0; run < 3; run++) {
    keel_tensor *out[2] = {NULL, NULL};
    expect_ok(keel_plan_run(plan, in, 2, out, 2));
    expect_floats(out[0], numbers, ROWS * COLUMNS);
    expect_dims(out[1], want[kind].rank, want[kind].dims);
    release_all(out, 2);
  }
  release_all(in, 2);
  keel_plan_release(plan);
}

TEST_THAT(a_loop_without_a_round_keeps_its_rank) {
  for (what kind = PLAIN; kind < WHAT; kind++)
    for (int open = 0; open < 2; open++) {
      check_loop(kind, open, 0);
      check_loop(kind, open, KEEL_PLAN_EAGER);
    }
}

/* Slices are along the second axis, results stand along the last. */
TEST_THAT(a_scan_without_a_round_keeps_its_rank) {
  const int64_t dims[] = {ROWS, 0, COLUMNS}, opens[] = {-1, -1, -1};
  const int64_t second = 1, last = -1, want[] = {COLUMNS, ROWS, 0};
  for (int open = 0; open < 2; open++) {
    keel_builder *b = create_builder(context, "scan"), *body = NULL;
    keel_value x = keel_builder_input(b, "x", KD_F32, 3, open ? opens : dims);
    expect_ok(keel_builder_body(b, "body", &body));
    keel_value slice =
        keel_builder_input(body, "slice", KD_F32, KEEL_RANK_UNKNOWN, NULL);
    keel_builder_output(body, "y", transposed(body, slice));
    const keel_attr attrs[] = {KEEL_BODY("body", body),
                               KEEL_INT("num_scan_inputs", 1),
                               KEEL_INTS("scan_input_axes", 1, &second),
                               KEEL_INTS("scan_output_axes", 1, &last)};
    keel_builder_output(b, "y", keel_builder_op(b, "Scan", attrs, 4, &x, 1));
    keel_builder_destroy(body);
    keel_plan *plan = finish_plan(b, NULL);
    keel_tensor *in = create_tensor(context, KD_F32, 3, dims, NULL),
                *out = output_of(plan, &in, 1);
    expect_dims(out, 3, want);
    RELEASE(in, out, plan);
  }
}

RUN_TESTS(open_cpu, close_context)
