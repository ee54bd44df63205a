/* inplace_concat_test.c - Concat without copies: equal results with static runs and
 * without, in first and later runs, how many kernels are left, and what stays a copy. */
#include "plan/memory_plan.h"
#include "plan/plan.h"
#define WORKERS 2
#include "with_cpu.h"

/* WIDE floats are as much as memory is aligned to; for LARGE values places keep the plan's
 * order. */
enum { WIDE = 16, LARGE = 1 << 15, MOST = 1 << 18, STEPS = 512 };

static keel_value concat(keel_builder *builder, int64_t axis, uint32_t count,
                         const keel_value *values) {
  const keel_attr attr = KEEL_INT("axis", axis);
  return keel_builder_op(builder, "Concat", &attr, 1, values, count);
}

static keel_value joined(keel_builder *builder, keel_value a, keel_value b) {
  const keel_value two[] = {a, b};
  return concat(builder, 0, 2, two);
}

static keel_value un(keel_builder *builder, const char *name, keel_value x) {
  return op(builder, name, x, KEEL_ABSENT);
}

static keel_value rows(keel_builder *builder, keel_value value, int64_t begin,
                       int64_t end) {
  const keel_value in[] = {value, add_ints(builder, 1, &begin),
                           add_ints(builder, 1, &end)};
  return keel_builder_op(builder, "Slice", NULL, 0, in, 3);
}

static keel_value reshape(keel_builder *builder, keel_value value, int64_t a,
                          int64_t b) {
  const int64_t dims[] = {a, b};
  return op(builder, "Reshape", value, add_ints(builder, 2, dims));
}

static keel_builder *begin(int64_t rows_of_x, int64_t columns,
                           keel_value *out_x) {
  keel_builder *builder = create_builder(context, "joins");
  *out_x = keel_builder_input(builder, "x", KD_F32, DIMS(rows_of_x, columns));
  return builder;
}

/* Steps as they are built. */
static keel_plan *plan_of(keel_program *program) {
  static const char *const skip[] = {"fold", "cse", "regions", "algebra"};
  return create_plan(program, PLAN_PARAMS(.skip = skip, .skip_count = 4));
}

/* Its outputs, one behind the other; returns their bytes. */
static uint64_t run(keel_plan *plan, int64_t rows_of_x, int64_t columns,
                    int round, float *out) {
  static float data[MOST];
  keel_tensor *in = NULL, *got[2] = {NULL, NULL};
  uint64_t bytes = 0;
  for (int64_t i = 0; i < rows_of_x * columns; i++)
    data[i] = (float)(i * 7 % (23 + round)) - 11;
  in = create_tensor(context, KD_F32, DIMS(rows_of_x, columns), data);
  uint32_t count = plan->main->output_count;
  assert_true(count <= 2);
  expect_ok(keel_plan_run(plan, &in, 1, got, count));
  for (uint32_t i = 0; i < count; i++) {
    uint64_t size = keel_tensor_size(got[i]);
    assert_true(bytes + size <= MOST * sizeof *out);
    expect_ok(keel_tensor_read(got[i], (char *)out + bytes, size));
    keel_tensor_release(got[i]);
    bytes += size;
  }
  keel_tensor_release(in);
  return bytes;
}

/* ---- no two steps at once where one writes -------------------------------------- */

/* By step: what comes before it. */
static bool before[STEPS][STEPS];

static void put_before(uint32_t first, uint32_t second) {
  before[second][first] = true;
  for (uint32_t i = 0; i < STEPS; i++)
    before[second][i] |= before[first][i];
}

static void order_steps(const keel_memory_plan *memory_plan) {
  const keel_executable *executable = memory_plan->executable;
  static uint32_t maker[STEPS * 4];
  assert_true(executable->step_count <= STEPS &&
              executable->value_count <= STEPS * 4);
  memset(before, 0, sizeof before);
  for (uint32_t v = 0; v < executable->value_count; v++)
    maker[v] = KEEL_ABSENT;
  for (uint32_t i = 0; i < executable->step_count; i++) {
    const keel_step *step = &executable->steps[i];
    for (uint32_t k = 0; k < step->input_count; k++)
      if (step->inputs[k] != KEEL_ABSENT &&
          maker[step->inputs[k]] != KEEL_ABSENT)
        put_before(maker[step->inputs[k]], i);
    for (size_t e = 0; e < memory_plan->assignment.edge_count; e++)
      if (memory_plan->assignment.edges[e].to == i)
        put_before(memory_plan->assignment.edges[e].from, i);
    for (uint32_t k = 0; k < step->output_count; k++)
      maker[step->outputs[k]] = i;
  }
}

/* Whether argument a of step i and b of k share bytes. */
static bool overlap(const keel_memory_plan *memory_plan, uint32_t i, uint32_t a,
                    uint32_t k, uint32_t b) {
  const uint32_t view[] = {memory_plan->steps[i].first + a,
                           memory_plan->steps[k].first + b};
  uint64_t begin[2], end[2];
  for (int n = 0; n < 2; n++) {
    const source *at = &memory_plan->sources[view[n]];
    if (at->origin != FROM_ARENA) return false;
    begin[n] = memory_plan->assignment.blocks[at->number].offset + at->offset;
    end[n] = begin[n] + memory_plan->views[view[n]].size;
  }
  return begin[0] < end[1] && begin[1] < end[0];
}

/* What one step writes is used by no other that may run at the same time. */
static void check_places(const keel_memory_plan *memory_plan) {
  const keel_executable *executable = memory_plan->executable;
  order_steps(memory_plan);
  for (uint32_t i = 0; i < executable->step_count; i++)
    for (uint32_t k = 0; k < executable->step_count; k++) {
      const keel_step *one = &executable->steps[i],
                      *other = &executable->steps[k];
      if (i == k || before[i][k] || before[k][i] ||
          !memory_plan->steps[i].spec || !memory_plan->steps[k].spec)
        continue;
      for (uint32_t b = 0; b < other->input_count + other->output_count; b++)
        for (uint32_t a = 0; a < one->output_count; a++)
          assert_false(overlap(memory_plan, i, one->input_count + a, k, b));
    }
}

/* Ends the builder. Runs that make values, and those in a static run on one thread and on
 * several, are equal; a static run has `kernels`. Returns how many Concats it has. */
static uint32_t compare(keel_builder *builder, keel_value y, int64_t rows_of_x,
                        int64_t columns, uint32_t kernels) {
  static float want[MOST], got[MOST];
  keel_program *program = program_giving(builder, y);
  keel_plan *plan = plan_of(program), *plain = plan_of(program);
  keel_plan_profile(plain, KEEL_PROFILE_OPS); /* makes values each time */
  for (int round = 0; round < 6; round++) {
    uint64_t bytes = run(plain, rows_of_x, columns, round, want);
    assert_int_equal(run(plan, rows_of_x, columns, round, got), bytes);
    assert_memory_equal(got, want, bytes);
    if (round == 2) keel_scheduler_fix(&plan->main->scheduler, KEEL_PARALLEL);
  }
  const keel_memory_plan *memory_plan = keel_memory_plan_of(plan->main);
  assert_non_null(memory_plan);
  if (kernels) assert_int_equal(memory_plan->kernel_count, kernels);
  check_places(memory_plan);
  uint32_t copies = 0;
  for (uint32_t i = 0; i < plan->main->step_count; i++)
    copies += memory_plan->steps[i].spec &&
              !strcmp(plan->main->steps[i].site.op->schema->name, "Concat");
  RELEASE(plan, plain, program);
  return copies;
}

/* ---- what is made in its place -------------------------------------------------- */

TEST_THAT(what_is_joined_is_made_there) {
  keel_value x, y;
  keel_builder *b = begin(2, WIDE, &x);
  y = joined(b, un(b, "Neg", x), un(b, "Abs", x));
  compare(b, un(b, "Abs", un(b, "Neg", y)), 2, WIDE, 4);

  b = begin(1, 2 * WIDE, &x); /* an axis within, of one row */
  const keel_value two[] = {un(b, "Neg", x), un(b, "Abs", x)};
  compare(b, un(b, "Neg", concat(b, -1, 2, two)), 1, 2 * WIDE, 3);

  b = begin(1, WIDE + 1, &x); /* only where a piece begins matters */
  y = un(b, "Neg", reshape(b, x, WIDE + 1, 1));
  y = joined(b, un(b, "Abs", rows(b, y, 0, WIDE)), un(b, "Neg", y));
  compare(b, un(b, "Neg", y), 1, WIDE + 1, 4);
}

TEST_THAT(views_of_it_are_joined) {
  keel_value x;
  keel_builder *b = begin(2, WIDE, &x);
  keel_value y = joined(b, reshape(b, un(b, "Neg", x), WIDE, 2),
                        reshape(b, un(b, "Abs", x), WIDE, 2));
  compare(b, un(b, "Abs", reshape(b, y, 1, 4 * WIDE)), 2, WIDE, 3);
}

TEST_THAT(wholes_are_pieces_of_larger_ones) {
  keel_value x;
  keel_builder *b = begin(2, WIDE, &x);
  keel_value inner = joined(b, un(b, "Neg", x), un(b, "Abs", x));
  keel_value other = joined(b, un(b, "Relu", x), un(b, "Neg", x));
  keel_value y = un(b, "Abs", joined(b, un(b, "Neg", other), inner));
  compare(b, joined(b, y, other), 2, WIDE, 7); /* the last is an output */
}

/* As in DenseNet: each joins all that the one before has, and one more. */
TEST_THAT(wholes_are_the_first_of_larger_ones) {
  keel_value x, all[6];
  keel_builder *b = begin(1, WIDE, &x);
  all[0] = un(b, "Neg", x);
  for (uint32_t i = 1; i < 6; i++) {
    keel_value former = i > 1 ? concat(b, 0, i, all) : all[0];
    all[i] = un(b, i % 2 ? "Abs" : "Neg", rows(b, former, i - 1, i));
  }
  /* but for five slices, which are parts or copies */
  compare(b, un(b, "Neg", concat(b, 0, 6, all)), 1, WIDE, 7);
}

TEST_THAT(empty_pieces_are_left_out) {
  keel_value x;
  keel_builder *b = begin(2, WIDE, &x);
  const keel_value three[] = {un(b, "Abs", rows(b, x, 1, 1)), un(b, "Neg", x),
                              un(b, "Neg", rows(b, x, 2, 2))};
  keel_value y = joined(b, concat(b, 0, 3, three), un(b, "Abs", x));
  compare(b, un(b, "Neg", y), 2, WIDE, 0);
}

/* Those that are read elsewhere, too, are not written over. */
TEST_THAT(pieces_stay_while_they_are_read) {
  keel_value x;
  keel_builder *b = begin(2, WIDE, &x);
  keel_value a = un(b, "Neg", x), c = un(b, "Abs", x);
  keel_value whole = joined(b, a, c);
  keel_value y = op(b, "Add", joined(b, un(b, "Relu", a), un(b, "Neg", c)),
                    un(b, "Neg", whole));
  compare(b, op(b, "Sub", y, whole), 2, WIDE, 7);
}

/* ---- what stays a copy ------------------------------------------------------------ */

TEST_THAT(a_value_is_in_one_place) {
  keel_value x;
  keel_builder *b = begin(2, WIDE, &x);
  keel_value a = un(b, "Neg", x);
  compare(b, un(b, "Abs", joined(b, a, a)), 2, WIDE, 3);
  b = begin(2, WIDE, &x);
  a = un(b, "Neg", x);
  keel_value c = un(b, "Abs", x);
  compare(b, op(b, "Add", joined(b, a, c), joined(b, c, a)), 2, WIDE, 4);
}

/* A view that has other bytes, or the same ones in another order. */
TEST_THAT(parts_are_copied) {
  keel_value x;
  keel_builder *b = begin(WIDE, WIDE, &x);
  const int64_t perm[] = {1, 0};
  const keel_attr turned = KEEL_INTS("perm", 2, perm);
  keel_value a = un(b, "Neg", x);
  a = joined(b, keel_builder_op(b, "Transpose", &turned, 1, &a, 1),
             un(b, "Abs", x));
  assert_int_equal(compare(b, un(b, "Neg", a), WIDE, WIDE, 0), 1);
  b = begin(4, WIDE, &x);
  a = joined(b, rows(b, un(b, "Neg", x), 1, 3), un(b, "Abs", x));
  assert_int_equal(compare(b, un(b, "Neg", a), 4, WIDE, 0), 1);
}

TEST_THAT(rows_are_not_one_after_the_other) {
  keel_value x;
  keel_builder *b = begin(2, WIDE, &x);
  const keel_value two[] = {un(b, "Neg", x), un(b, "Abs", x)};
  compare(b, un(b, "Neg", concat(b, 1, 2, two)), 2, WIDE, 4);
}

TEST_THAT(kernels_write_where_memory_is_aligned) {
  keel_value x;
  keel_builder *b = begin(1, WIDE + 1, &x);
  compare(b, un(b, "Neg", joined(b, un(b, "Neg", x), un(b, "Abs", x))), 1,
          WIDE + 1, 4);
}

TEST_THAT(inputs_constants_and_outputs_have_their_own) {
  static const float numbers[WIDE] = {1, -2};
  keel_value x;
  keel_builder *b = begin(1, WIDE, &x);
  compare(b, un(b, "Neg", joined(b, un(b, "Neg", x), x)), 1, WIDE, 3);
  b = begin(1, WIDE, &x);
  keel_value y = joined(b, add_constant(b, KD_F32, DIMS(1, WIDE), numbers),
                        un(b, "Neg", x));
  compare(b, un(b, "Neg", y), 1, WIDE, 3);
  b = begin(1, WIDE, &x);
  compare(b, joined(b, un(b, "Neg", x), un(b, "Abs", x)), 1, WIDE, 3);
  b = begin(1, WIDE, &x);
  keel_value piece = un(b, "Neg", x);
  keel_builder_output(b, "piece", piece);
  compare(b, un(b, "Neg", joined(b, un(b, "Abs", x), piece)), 1, WIDE, 4);
}

/* ---- the device's own layouts --------------------------------------------------- */

static keel_value conv(keel_builder *builder, keel_value x, int64_t from,
                       int64_t to) {
  const int64_t dims[] = {to, from, 3, 3}, pads[] = {1, 1, 1, 1};
  const keel_attr attr = KEEL_INTS("pads", 4, pads);
  static float numbers[64 * 64 * 9];
  for (int64_t i = 0; i < to * from * 9; i++)
    numbers[i] = (float)(i * 5 % 11 - 5) / 256;
  const keel_value two[] = {x, add_constant(builder, KD_F32, 4, dims, numbers)};
  return keel_builder_op(builder, "Conv", &attr, 1, two, 2);
}

/* Channels of convolutions, joined: how many of the two wholes are copies. */
static uint32_t copies_of_channels(int64_t a, int64_t c) {
  const int64_t dims[] = {1, 16, 8, 8};
  keel_value x;
  keel_builder *b = begin(1, 16 * 64, &x);
  x = op(b, "Reshape", x, add_ints(b, 4, dims));
  const keel_value two[] = {conv(b, x, 16, a), conv(b, x, 16, c)};
  keel_value whole = concat(b, 1, 2, two);
  const keel_value more[] = {whole, conv(b, whole, a + c, 16)};
  keel_value y = conv(b, concat(b, 1, 2, more), a + c + 16, 8);
  return compare(b, y, 1, 16 * 64, 0);
}

TEST_THAT(channels_in_blocks_are_joined) {
  assert_int_equal(copies_of_channels(16, 16), 0);
  assert_int_equal(copies_of_channels(32, 16), 0);
  assert_int_equal(copies_of_channels(16, 8), 0);
  copies_of_channels(20, 16); /* no whole blocks */
  copies_of_channels(16, 5);
}

/* ---- all at once ------------------------------------------------------------------ */

#ifdef KEEL_SANITIZED
enum { SEEDS = 25 };
#else
enum { SEEDS = 60 };
#endif

/* Sums, wholes and rows of them, in memory that is used again. */
TEST_THAT(random_wholes) {
  enum { NODES = 40 };
  for (uint32_t seed = 1; seed < SEEDS; seed++) {
    int64_t columns = seed > SEEDS - 6 ? LARGE : WIDE;
    keel_value values[NODES], x;
    uint32_t next = seed * 2654435761u;
    keel_builder *b = begin(2, columns, &x);
    values[0] = un(b, "Neg", x);
    values[1] = un(b, "Abs", x);
    for (uint32_t i = 2; i < NODES; i++) {
      uint32_t from = i > 8 ? i - 8 : 0;
      keel_value of[3];
      for (int k = 0; k < 3; k++) {
        next = next * 1664525u + 1013904223u;
        of[k] = values[from + (next >> 9) % (i - from)];
      }
      uint32_t kind = (next >> 5) % 4;
      if (kind == 0) {
        values[i] = un(b, "Neg", of[0]);
      } else if (kind == 1) {
        values[i] = op(b, "Max", of[0], of[1]);
      } else {
        keel_value whole = concat(b, 0, 3, of);
        if (kind == 3) whole = un(b, "Neg", whole);
        values[i] = un(b, "Neg", rows(b, whole, next % 5, next % 5 + 2));
      }
    }
    keel_value y = values[NODES - 1];
    for (uint32_t i = NODES - 9; i < NODES - 1; i++)
      y = op(b, "Add", y, values[i]);
    compare(b, y, 2, columns, 0);
  }
}

RUN_TESTS(open_cpu, close_context)
