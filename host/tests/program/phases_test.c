/* phases_test.c - what a program is said to compute and to exchange: of a model that is split, and
 * of one that has exchanges of its own. */
#include <keel/phases.h>
#include <keel/split.h>

#define WORKERS 1
#include "with_cpu.h"

enum { MOST = 16, WORDS = 3, WIDE = 8, HEADS = 4, OUT = 16 };

typedef struct listed {
  keel_phase phases[MOST];
  uint32_t count;
} listed;

static void add(void *at, const keel_phase *phase) {
  listed *all = at;
  assert_true(all->count < MOST);
  if (phase->pair_count) { /* what is borrowed */
    assert_int_equal(phase->pair_count, 2);
    assert_int_equal(phase->pairs[2], 1);
    assert_string_equal(phase->name, "keel::Permute");
  }
  all->phases[all->count++] = *phase;
}

static listed phases_of(const keel_program *program, double bytes_as) {
  listed all = {.count = 0};
  expect_ok(keel_program_phases(program, bytes_as, add, &all));
  assert_null(all.phases[all.count - 1].exchange);
  return all;
}

static double flops_of(const listed *all) {
  double sum = 0;
  for (uint32_t i = 0; i < all->count; i++)
    sum += all->phases[i].flops;
  return sum;
}

/* Others each time: equal products would be computed once. */
static keel_value weights(keel_builder *b, int64_t rows, int64_t columns) {
  static float data[WIDE * OUT];
  data[0]++;
  return add_constant(b, KD_F32, DIMS(rows, columns), data);
}

static keel_program *rank_of(const keel_program *program, uint32_t rank,
                             uint32_t size) {
  const keel_split_params params = {.struct_size = sizeof params,
                                    .kind = KEEL_SPLIT_TENSOR,
                                    .rank = rank,
                                    .size = size};
  keel_program *own = NULL;
  expect_ok(keel_program_split(program, &params, &own, NULL));
  return own;
}

static uint32_t unknown_of(const listed *all) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < all->count; i++)
    count += all->phases[i].unknown;
  return count;
}

static keel_program *compiled(const keel_program *program) {
  keel_plan_params params = {.struct_size = sizeof params};
  keel_program *made = NULL;
  expect_ok(keel_device_find(context, "cpu:0", &params.device));
  expect_ok(keel_program_compile(program, &params, &made));
  return made;
}

/* ---- a model that is split ------------------------------------------------------------------ */

/* Two products with an elementwise op between. */
static keel_program *products(void) {
  keel_builder *b = create_builder(context, "products");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(WORDS, WIDE));
  keel_value y = op(b, "MatMul", x, weights(b, WIDE, OUT));
  y = op(b, "MatMul", op(b, "Relu", y, KEEL_ABSENT), weights(b, OUT, WIDE));
  return program_giving(b, y);
}

TEST_THAT(each_rank_computes_its_part) {
  keel_program *program = products();
  const double each = 2 * 2 * WORDS * WIDE * OUT, between = WORDS * OUT;
  listed whole = phases_of(program, 0);
  assert_int_equal(whole.count, 1);
  assert_true(whole.phases[0].flops == each + between);
  for (uint32_t rank = 0; rank < 4; rank++) {
    keel_program *own = rank_of(program, rank, 4);
    listed all = phases_of(own, 0);
    assert_int_equal(all.count, 2);
    assert_true(all.phases[0].flops == (each + between) / 4);
    assert_string_equal(all.phases[0].exchange, "AllReduce");
    assert_int_equal(all.phases[0].count, WORDS * WIDE);
    assert_int_equal(all.phases[0].dtype, KD_F32);
    assert_int_equal(all.phases[0].size, 4);
    assert_true(all.phases[1].flops == 0);
    keel_program_release(own);
  }
  keel_program_release(program);
}

TEST_THAT(bytes_count_where_they_are_more) {
  keel_program *program = products();
  const double first = 4 * (WORDS * WIDE + WIDE * OUT + WORDS * OUT);
  const double between = 4 * 2 * WORDS * OUT;
  const double each = 2 * WORDS * WIDE * OUT;
  listed all = phases_of(program, 1);
  assert_true(all.phases[0].flops ==
              2 * (first > each ? first : each) + between);
  keel_program_release(program);
}

/* Of rows that a rank takes of all, those count that it takes. */
TEST_THAT(a_part_counts_as_a_part) {
  keel_builder *b = create_builder(context, "part");
  const int64_t dims[] = {64, 2}, from = 8, to = 16;
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  const keel_value inputs[] = {x, add_ints(b, 1, &from), add_ints(b, 1, &to)};
  x = keel_builder_op(b, "Slice", NULL, 0, inputs, 3);
  keel_program *program = program_giving(b, x);
  listed all = phases_of(program, 1);
  assert_true(flops_of(&all) == 2 * 4 * 8 * 2 + 8 + 8);
  keel_program_release(program);
}

static keel_value heads(keel_builder *b, keel_value x, bool turned) {
  const int64_t plain[] = {0, 2, 1, 3}, last[] = {0, 2, 3, 1};
  const int64_t shape[] = {1, WORDS, HEADS, WIDE / HEADS};
  const keel_attr perm = KEEL_INTS("perm", 4, turned ? last : plain);
  keel_value y = op(b, "MatMul", x, weights(b, WIDE, WIDE));
  y = op(b, "Reshape", y, add_ints(b, 4, shape));
  return keel_builder_op(b, "Transpose", &perm, 1, &y, 1);
}

/* The shape that the heads are joined by is computed from the input's. */
static keel_program *attention(void) {
  keel_builder *b = create_builder(context, "attention");
  const int64_t dims[] = {1, WORDS, WIDE}, back[] = {0, 2, 1, 3};
  const keel_attr perm = KEEL_INTS("perm", 4, back),
                  axis = KEEL_INT("axis", -1);
  keel_value x = keel_builder_input(b, "x", KD_F32, 3, dims);
  keel_value scores = op(b, "MatMul", heads(b, x, false), heads(b, x, true));
  keel_value shares = keel_builder_op(b, "Softmax", &axis, 1, &scores, 1);
  keel_value y = op(b, "MatMul", shares, heads(b, x, false));
  y = keel_builder_op(b, "Transpose", &perm, 1, &y, 1);
  y = op(b, "Reshape", y, op(b, "Shape", x, KEEL_ABSENT));
  y = op(b, "MatMul", y, weights(b, WIDE, WIDE));
  return program_giving(b, y);
}

/* An op that is fused counts as those that it is made of, but for what lies between them. */
TEST_THAT(attention_counts_fused_or_not) {
  keel_program *program = attention();
  keel_program *own = rank_of(program, 0, 1), *made = compiled(own);
  const double products = 2.0 * WORDS * WIDE * (4 * WIDE + 2 * WORDS);
  listed plain = phases_of(own, 0), fused = phases_of(made, 0);
  const double between = 4.0 * WORDS * WIDE + HEADS * WORDS * WORDS;
  assert_true(flops_of(&plain) == products + between); /* no Reshape counts */
  assert_true(flops_of(&fused) >= products);
  assert_true(flops_of(&fused) < flops_of(&plain));
  RELEASE(made, own, program);
}

/* Eight ranks can't share four heads; sizes that were folded are known all the same. */
TEST_THAT(what_no_rank_shares_has_known_sizes) {
  keel_program *program = attention();
  keel_program *own = rank_of(program, 7, 8);
  listed all = phases_of(own, 0);
  assert_true(all.count > 2);
  assert_string_equal(all.phases[0].exchange, "AllGather");
  assert_int_equal(all.phases[0].count, WORDS);
  assert_int_equal(unknown_of(&all), 0);
  listed whole = phases_of(program, 0);
  assert_int_equal(unknown_of(&whole), 0);
  RELEASE(own, program);
}

/* ---- one with exchanges of its own ----------------------------------------------------------- */

static keel_value exchange(keel_builder *b, const char *name,
                           const keel_attr *attrs, uint32_t count,
                           keel_value member, keel_value x) {
  expect_ok(keel_builder_node_name(b, name));
  return keel_builder_op(b, name, attrs, count, (keel_value[]){member, x}, 2);
}

TEST_THAT(exchanges_are_listed_in_their_order) {
  const int64_t dims[] = {WIDE, 2}, pairs[] = {0, 1, 1, 0};
  const int64_t ranks[] = {1, 0};
  const keel_attr all_of[] = {KEEL_INT("size", 2),
                              KEEL_INTS("ranks", 2, ranks)};
  const keel_attr ring = KEEL_INTS("pairs", 4, pairs);
  keel_builder *b = create_builder(context, "exchanges");
  keel_value member = keel_builder_resource(b, "member");
  keel_value x = keel_builder_input(b, "x", KD_F16, 2, dims);
  x = exchange(b, "keel::ReduceScatter", all_of, 1, member, x);
  x = exchange(b, "keel::Broadcast", all_of, 2, member, x);
  x = exchange(b, "keel::Permute", &ring, 1, member, x);
  keel_program *program = program_giving(b, x);
  listed all = phases_of(program, 0);
  assert_int_equal(all.count, 4);
  assert_string_equal(all.phases[0].exchange, "ReduceScatter");
  assert_int_equal(all.phases[0].count, WIDE * 2);
  assert_int_equal(all.phases[0].dtype, KD_F16);
  assert_string_equal(all.phases[1].exchange, "Broadcast");
  assert_int_equal(all.phases[1].peer, 1);
  assert_int_equal(all.phases[1].count, WIDE);
  assert_int_equal(all.phases[2].pair_count, 2);
  assert_int_equal(all.phases[2].size, 0);
  keel_program_release(program);
}

TEST_THAT(what_two_ranks_exchange_has_a_peer) {
  const int64_t dims[] = {WIDE, 2}, shape[] = {3, 5};
  const keel_attr to = KEEL_INT("to", 3);
  const keel_attr from[] = {KEEL_INT("from", 2), KEEL_INT("dtype", KD_F64),
                            KEEL_INTS("shape", 2, shape)};
  keel_builder *b = create_builder(context, "pairs");
  keel_value member = keel_builder_resource(b, "member");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  x = exchange(b, "keel::Send", &to, 1, member, x);
  expect_ok(keel_builder_output(b, "x", x));
  x = keel_builder_op(b, "keel::Receive", from, 3, &member, 1);
  expect_ok(keel_builder_output(b, "y", x));
  keel_program *program = finish_program(b);
  listed all = phases_of(program, 0);
  assert_int_equal(all.count, 3);
  assert_string_equal(all.phases[0].exchange, "Send");
  assert_int_equal(all.phases[0].peer, 3);
  assert_int_equal(all.phases[0].count, WIDE * 2);
  assert_string_equal(all.phases[1].exchange, "Receive");
  assert_int_equal(all.phases[1].peer, 2);
  assert_int_equal(all.phases[1].count, 15);
  assert_int_equal(all.phases[1].dtype, KD_F64);
  keel_program_release(program);
}

static void expect_refused(keel_builder *b, keel_status want,
                           const char *text) {
  listed all = {.count = 0};
  keel_program *program = finish_program(b);
  expect_fails(keel_program_phases(program, 0, add, &all), want, text);
  keel_program_release(program);
}

TEST_THAT(sizes_that_a_run_will_know_are_counted) {
  const int64_t open[] = {-1, 2};
  keel_builder *b = create_builder(context, "open");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, open);
  x = op(b, "Reshape", op(b, "Relu", x, KEEL_ABSENT), add_ints(b, 2, open));
  keel_program *program = program_giving(b, op(b, "Neg", x, KEEL_ABSENT));
  listed all = phases_of(program, 0);
  assert_int_equal(unknown_of(&all), 3);
  assert_true(flops_of(&all) == 0);
  keel_program_release(program);
}

TEST_THAT(what_is_not_known_is_refused) {
  const int64_t open[] = {-1, 2}, known[] = {WIDE, 2}, ranks[] = {0, 1, 2, 3};
  const keel_attr parts[] = {KEEL_INT("size", 2), KEEL_INTS("ranks", 4, ranks)};
  keel_builder *b = create_builder(context, "open");
  keel_value member = keel_builder_resource(b, "member");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, open);
  keel_builder_output(b, "y",
                      exchange(b, "keel::AllReduce", NULL, 0, member, x));
  expect_refused(b, KD_FAILED_PRECONDITION, "is not known; give");

  b = create_builder(context, "parts");
  member = keel_builder_resource(b, "member");
  x = keel_builder_input(b, "x", KD_F32, 2, known);
  keel_builder_output(b, "y",
                      exchange(b, "keel::AllReduce", parts, 2, member, x));
  expect_refused(b, KD_UNIMPLEMENTED, "among subgroups of 2");
}

TEST_THAT(a_body_that_exchanges_is_refused) {
  keel_builder *b = create_builder(context, "body"), *branch[2] = {NULL};
  keel_value member = keel_builder_resource(b, "member");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(WIDE, 2));
  keel_value test = keel_builder_input(b, "test", KD_BOOL, 0, NULL);
  for (int i = 0; i < 2; i++) {
    expect_ok(keel_builder_body(b, "branch", &branch[i]));
    keel_value own = keel_builder_capture(branch[i], x);
    keel_value y = i ? op(branch[i], "Neg", own, KEEL_ABSENT)
                     : exchange(branch[i], "keel::AllReduce", NULL, 0,
                                keel_builder_capture(branch[i], member), own);
    keel_builder_output(branch[i], "y", y);
  }
  const keel_attr bodies[] = {KEEL_BODY("then_branch", branch[0]),
                              KEEL_BODY("else_branch", branch[1])};
  keel_builder_output(b, "y", keel_builder_op(b, "If", bodies, 2, &test, 1));
  expect_refused(b, KD_UNIMPLEMENTED, "exchanges values in a body");
  RELEASE(branch[0], branch[1]);
}

RUN_TESTS(open_cpu, close_context)
