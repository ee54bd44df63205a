/* attention_test.c - what models write attention with becomes keel::Attention where it means
 * that and nowhere else, and gives the same results. */
#define WORKERS 0
#include "pass.h"
#include "with_cpu.h"

enum { MOST = 1 << 17 };

/* Sizes, and how the ops around the softmax are written. */
typedef struct form {
  const char *wanted; /* in the dump, or NULL: it stays as it is */
  int64_t batch, heads, groups, rows, keys, size;
  enum { NO_MASK, PLAIN_MASK, CAUSAL_MASK, WIDE_MASK, GIVEN_MASK } mask;
  bool scaled, divided, guarded, exchanged, shared_scores, wrong_axis, by_head;
  /* the batch in two, where a second mask of such dimensions is added; 0: there is none */
  int64_t apart[2], second[2];
  /* a Where keeps the scores where its condition is true, or where it is not; a constant one
   * in causal order; or before the mask is added */
  enum { NO_WHERE, KEEPS, HIDES, HIDES_LATER, KEEPS_INSIDE } where;
  float instead; /* of scores that are hidden */
  bool k_turned; /* K is an input as the product wants it */
  bool open;     /* no dimension is known before the run */
} form;

static float element(int64_t i) {
  return (float)(i * 7919 % 401 - 200) / 150;
}

static keel_tensor *tensor_of(uint32_t rank, const int64_t *dims,
                              const float *list) {
  return create_tensor(context, KD_F32, rank, dims, list);
}

/* ---- the program ------------------------------------------------------------------ */

static keel_builder *builder;

static keel_value constant(keel_tensor *tensor) {
  return constant_of(builder, tensor);
}

static keel_value number(float x) {
  return constant(tensor_of(0, NULL, &x));
}

static keel_value ints(uint32_t count, const int64_t *list) {
  return add_ints(builder, count, list);
}

static keel_value two(const char *op, keel_value a, keel_value b) {
  return keel_builder_op(builder, op, NULL, 0, (keel_value[]){a, b}, 2);
}

static keel_value transposed(keel_value x, const int64_t *perm) {
  const keel_attr attr = KEEL_INTS("perm", 4, perm);
  return keel_builder_op(builder, "Transpose", &attr, 1, &x, 1);
}

/* [B, rows, heads, size] as [B, heads, rows, size] */
static keel_value by_heads(keel_value x) {
  return transposed(x, (const int64_t[]){0, 2, 1, 3});
}

static keel_value repeated(const form *f, keel_value x) {
  int64_t times = f->heads / f->groups;
  if (times == 1) return x;
  const int64_t axis[] = {2};
  const int64_t wide[] = {f->batch, f->groups, times, f->keys, f->size};
  const int64_t whole[] = {f->batch, f->heads, f->keys, f->size};
  x = two("Unsqueeze", x, ints(1, axis));
  x = two("Expand", x, ints(5, wide));
  return two("Reshape", x, ints(4, whole));
}

static keel_value input(const form *f, const char *name, const int64_t *dims) {
  static const int64_t open[] = {-1, -1, -1, -1};
  return keel_builder_input(builder, name, KD_F32, 4, f->open ? open : dims);
}

static keel_value mask_of(const form *f) {
  static float list[MOST];
  const int64_t dims[] = {1, 1, f->rows, f->keys};
  const int64_t wide[] = {f->batch, f->heads, f->rows, f->keys};
  if (f->mask == GIVEN_MASK) return input(f, "mask", dims);
  if (f->mask == WIDE_MASK) return constant(numbers(4, wide, 77));
  for (int64_t i = 0; i < f->rows * f->keys; i++) {
    bool hidden = i % f->keys > i / f->keys + f->keys - f->rows;
    list[i] = f->mask == CAUSAL_MASK ? hidden ? -INFINITY : 0
              : i % 5                ? element(i)
                                     : -INFINITY;
  }
  return constant(tensor_of(4, dims, list));
}

static keel_value hidden(const form *f, keel_value scores) {
  static uint8_t later[MOST];
  const int64_t dims[] = {f->rows, f->keys}, seen[] = {1, 1, f->rows, f->keys};
  keel_value other = number(f->instead), all[3];
  for (int64_t i = 0; i < f->rows * f->keys; i++)
    later[i] = i % f->keys > i / f->keys + f->keys - f->rows;
  all[0] = f->where == HIDES_LATER
               ? constant(create_tensor(context, KD_BOOL, 2, dims, later))
               : two("Greater", input(f, "seen", seen), number(0));
  bool keeps = f->where == KEEPS || f->where == KEEPS_INSIDE;
  all[1] = keeps ? scores : other;
  all[2] = keeps ? other : scores;
  return keel_builder_op(builder, "Where", NULL, 0, all, 3);
}

/* Scores of windows, and what of them each may see. */
static keel_value masked_apart(const form *f, keel_value scores) {
  const int64_t apart[] = {f->apart[0], f->apart[1], f->heads, f->rows,
                           f->keys};
  const int64_t mask[] = {f->second[0], f->second[1], 1, f->rows, f->keys};
  const int64_t joined[] = {f->batch, f->heads, f->rows, f->keys};
  scores = two("Reshape", scores, ints(5, apart));
  scores = two("Add", scores, constant(numbers(5, mask, 99)));
  return two("Reshape", scores, ints(4, joined));
}

static keel_value scores_of(const form *f, keel_value q, keel_value k) {
  if (f->scaled) {
    q = two("Mul", q, number(0.5f));
    k = two("Mul", number(0.75f), k);
  }
  keel_value scores = two("MatMul", q, k);
  if (f->divided) scores = two("Div", scores, number(3));
  const int64_t by_head[] = {f->heads, 1, 1};
  if (f->by_head) scores = two("Mul", scores, constant(numbers(3, by_head, 5)));
  if (f->where == KEEPS_INSIDE) scores = hidden(f, scores);
  if (f->mask) scores = two("Add", mask_of(f), scores);
  if (f->where && f->where != KEEPS_INSIDE) scores = hidden(f, scores);
  return f->apart[0] ? masked_apart(f, scores) : scores;
}

static keel_value weights_of(const form *f, keel_value scores) {
  const keel_attr axis = KEEL_INT("axis", f->wrong_axis ? -2 : -1);
  keel_value p = keel_builder_op(builder, "Softmax", &axis, 1, &scores, 1);
  if (!f->guarded) return p;
  const float zero = 0;
  const int64_t one[] = {1};
  keel_value nan = op(builder, "IsNaN", p, KEEL_ABSENT);
  keel_value three[] = {nan, constant(tensor_of(1, one, &zero)), p};
  return keel_builder_op(builder, "Where", NULL, 0, three, 3);
}

static keel_program *program_of(const form *f) {
  const int64_t q_dims[] = {f->batch, f->rows, f->heads, f->size};
  const int64_t k_dims[] = {f->batch, f->keys, f->groups, f->size};
  const int64_t turned[] = {f->batch, f->groups, f->size, f->keys};
  builder = create_builder(context, "model");
  keel_value q = input(f, "q", q_dims);
  keel_value k = input(f, "k", f->k_turned ? turned : k_dims);
  keel_value v = input(f, "v", k_dims);
  v = repeated(f, by_heads(v));
  if (!f->k_turned)
    k = transposed(repeated(f, by_heads(k)), (const int64_t[]){0, 1, 3, 2});
  keel_value scores = scores_of(f, by_heads(q), k);
  keel_value y = two("MatMul", weights_of(f, scores), v);
  if (f->exchanged) y = by_heads(y);
  keel_builder_output(builder, "y", y);
  if (f->shared_scores) keel_builder_output(builder, "scores", scores);
  return finish_program(builder);
}

/* Positive where a key is seen; row 1 sees none. */
static keel_tensor *seen_of(const int64_t *dims) {
  static float list[MOST];
  for (int64_t i = 0; i < dims[2] * dims[3]; i++)
    list[i] = i / dims[3] == 1 ? -1 : element(i + 50);
  return tensor_of(4, dims, list);
}

/* by_head: Q, K and V have heads before rows. */
static void check(const form *f, size_t index, keel_program *program,
                  bool by_head) {
  const int64_t q_dims[] = {f->batch, by_head ? f->heads : f->rows,
                            by_head ? f->rows : f->heads, f->size};
  const int64_t k_dims[] = {f->batch, by_head ? f->groups : f->keys,
                            by_head ? f->keys : f->groups, f->size};
  const int64_t turned[] = {f->batch, f->groups, f->size, f->keys};
  const int64_t mask_dims[] = {1, 1, f->rows, f->keys};
  uint32_t n = 3;
  trial t = TRIAL(2e-5, .pass = {"attention"},
                  .in = {numbers(4, q_dims, 0),
                         numbers(4, f->k_turned ? turned : k_dims, 1234),
                         numbers(4, k_dims, 777)},
                  .out_count = f->shared_scores ? 2 : 1, .op = "keel.Attention",
                  .wanted = f->wanted);
  bool inside = f->where == KEEPS_INSIDE;
  if (inside) t.in[n++] = seen_of(mask_dims);
  if (f->mask == GIVEN_MASK) t.in[n++] = numbers(4, mask_dims, 3);
  if (!inside && f->where && f->where != HIDES_LATER)
    t.in[n++] = seen_of(mask_dims);
  keel_plan *plan = compare_pass("form", index, program, &t, NULL);
  if (f->open) /* passes for sizes that come with a run are not dumped */
    t.any = t.found = runs_of(plan, "Attention") != 0;
  if (f->wanted && !t.found) fail_msg("%zu: no %s", index, f->wanted);
  if (!f->wanted && t.any) fail_msg("%zu: it is no attention", index);
  keel_plan_release(plan);
}

TEST_THAT(attention_becomes_one_op) {
  static const form forms[] = {
      {"keel.Attention", 2, 3, 3, 7, 9, 8, .mask = NO_MASK},
      {"scale = 3.75e-01", 1, 2, 2, 5, 5, 16, .scaled = true},
      {"scale = 1.25e-01", 1, 2, 2, 5, 5, 16, .scaled = true, .divided = true},
      {"keel.Attention", 1, 2, 2, 8, 12, 4, PLAIN_MASK, .divided = true},
      {"causal = 1", 2, 2, 2, 30, 33, 4, CAUSAL_MASK, .scaled = true},
      {"keel.Attention", 2, 2, 2, 4, 6, 4, WIDE_MASK, .guarded = true},
      {"keel.Attention", 2, 2, 2, 4, 6, 4, .mask = GIVEN_MASK},
      {"nan_as_zero = 1", 1, 2, 2, 6, 3, 4, CAUSAL_MASK, .guarded = true},
      {"heads_last = 1", 2, 3, 3, 9, 4, 8, .exchanged = true},
      /* heads of K and V are read where they are one */
      {"tensor<2x2x11x8xf32>", 2, 6, 2, 5, 11, 8, .exchanged = true},
      {"tensor<1x1x300x4xf32>", 1, 4, 1, 1, 300, 4, .scaled = true},
      /* a number a head, and masks that are added apart */
      {"keel.Attention", 2, 3, 3, 7, 9, 8, .by_head = true},
      {"tensor<6x3x4x4xf32>", 6, 3, 3, 4, 4, 8, WIDE_MASK, .by_head = true,
       .apart = {1, 6}, .second = {1, 6}},
      {"tensor<6x1x4x4xf32>", 6, 3, 3, 4, 4, 8, PLAIN_MASK, .scaled = true,
       .apart = {2, 3}, .second = {2, 3}},
      {"tensor<6x1x4x4xf32>", 6, 3, 3, 4, 4, 8, .apart = {6, 1},
       .second = {6, 1}},
      {"tensor<1x1x4x4xf32>", 6, 3, 3, 4, 4, 8, .apart = {2, 3},
       .second = {1, 1}},
      /* several blocks of rows and of keys */
      {"keel.Attention", 1, 1, 1, 200, 530, 12, .mask = NO_MASK},
      {"causal = 1", 1, 2, 1, 150, 90 + 150, 12, .mask = CAUSAL_MASK},
      /* K as it is multiplied */
      {"keel.Attention", 2, 3, 3, 7, 9, 8, .k_turned = true},
      {"keel.Attention", 2, 3, 3, 7, 9, 8, GIVEN_MASK, .k_turned = true,
       .exchanged = true, .scaled = true},
      {"causal = 1", 1, 2, 2, 9, 9, 8, CAUSAL_MASK, .k_turned = true},
      /* scores that are replaced */
      {"keel.Attention", 2, 3, 3, 7, 9, 8, .where = KEEPS,
       .instead = -INFINITY},
      {"keel.Attention", 2, 3, 3, 7, 9, 8, .where = HIDES,
       .instead = -INFINITY},
      {"nan_as_zero = 1", 1, 2, 2, 7, 9, 8, .where = KEEPS,
       .instead = -INFINITY, .guarded = true},
      {"keel.Attention", 2, 3, 3, 7, 9, 8, .where = HIDES, .instead = -1e4F},
      {"keel.Attention", 2, 3, 3, 7, 9, 8, .where = KEEPS, .instead = -1e9F,
       .scaled = true, .divided = true},
      {"keel.Attention", 1, 2, 2, 7, 9, 8, .where = HIDES,
       .instead = -3.4028235e38F, .exchanged = true},
      {"keel.Attention", 1, 4, 2, 7, 9, 8, .where = KEEPS, .instead = -1e9F},
      {"causal = 1", 1, 2, 2, 7, 9, 8, .where = HIDES_LATER, .instead = -1e4F},
      {"causal = 1", 1, 2, 2, 7, 7, 8, .where = HIDES_LATER,
       .instead = -INFINITY, .k_turned = true},
      {"keel.Attention", 2, 3, 3, 7, 9, 8, GIVEN_MASK, .where = KEEPS,
       .instead = -INFINITY},
      {"keel.Attention", 2, 3, 3, 7, 9, 8, GIVEN_MASK, .where = KEEPS_INSIDE,
       .instead = -INFINITY},
      {"keel.Attention", 2, 3, 3, 70, 90, 8, PLAIN_MASK, .where = HIDES,
       .instead = -INFINITY, .k_turned = true},
      {"keel.Attention", 1, 1, 1, 200, 530, 12, .where = KEEPS,
       .instead = -1e9F, .k_turned = true},
  };
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    for (int open = 0; open < 2; open++) {
      form f = forms[i];
      /* shapes that are constants of the model are not for any other */
      f.open = open && f.groups == f.heads && !f.apart[0];
      check(&f, i, program_of(&f), false);
    }
}

TEST_THAT(what_is_read_elsewhere_stays) {
  static const form forms[] = {
      {NULL, 1, 2, 2, 5, 5, 4, .shared_scores = true},
      {NULL, 1, 2, 2, 5, 5, 4, .wrong_axis = true},
      {NULL, 6, 3, 3, 4, 4, 8, .apart = {2, 3}, .second = {1, 3}},
      {NULL, 6, 3, 3, 4, 4, 8, .apart = {2, 3}, .second = {2, 1}},
      /* what hides no score, and what a sum could not hide */
      {NULL, 2, 3, 3, 7, 9, 8, .where = KEEPS, .instead = -100},
      {NULL, 2, 3, 3, 7, 9, 8, .where = KEEPS, .instead = 1e9F},
      {NULL, 2, 3, 3, 7, 9, 8, GIVEN_MASK, .where = KEEPS, .instead = -1e9F},
      {NULL, 2, 3, 3, 7, 9, 8, PLAIN_MASK, .where = KEEPS_INSIDE,
       .instead = -1e9F},
      /* a row reads K once, as it is */
      {NULL, 2, 3, 3, 1, 9, 8, .k_turned = true},
  };
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    check(&forms[i], i, program_of(&forms[i]), false);
}

/* ONNX's Attention of groups of heads, in causal order or with a mask. */
static keel_program *program_of_onnx(const form *f) {
  const int64_t q_dims[] = {f->batch, f->heads, f->rows, f->size};
  const int64_t k_dims[] = {f->batch, f->groups, f->keys, f->size};
  const int64_t mask_dims[] = {1, 1, f->rows, f->keys};
  const keel_attr attr = KEEL_INT("is_causal", f->mask == CAUSAL_MASK);
  builder = create_builder(context, "model");
  keel_value in[] = {keel_builder_input(builder, "q", KD_F32, 4, q_dims),
                     keel_builder_input(builder, "k", KD_F32, 4, k_dims),
                     keel_builder_input(builder, "v", KD_F32, 4, k_dims), 0};
  if (f->mask == GIVEN_MASK)
    in[3] = keel_builder_input(builder, "mask", KD_F32, 4, mask_dims);
  return program_giving(builder,
                        keel_builder_op(builder, "Attention", &attr, 1, in,
                                        f->mask == GIVEN_MASK ? 4 : 3));
}

TEST_THAT(onnx_attention_becomes_one_op) {
  static const form forms[] = {
      {"keel.Attention", 2, 3, 3, 7, 9, 8, .mask = NO_MASK},
      {"causal = 1", 1, 2, 2, 7, 7, 8, .mask = CAUSAL_MASK},
      {"keel.Attention", 1, 4, 2, 5, 6, 8, .mask = GIVEN_MASK},
      /* heads of K and V are read where they are one */
      {"(tensor<2x6x5x8xf32>, tensor<2x2x11x8xf32>, tensor<2x2x11x8xf32>)", 2,
       6, 2, 5, 11, 8, .mask = NO_MASK},
  };
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    check(&forms[i], i, program_of_onnx(&forms[i]), true);
}

/* Keys and values that came before are followed by the new ones. */
TEST_THAT(what_came_before_adds_rows) {
  const int64_t now[] = {2, 3, 4, 8}, before[] = {2, 3, 5, 8}, mask[] = {4, 9},
                wrong[] = {4, 20};
  for (int i = 0; i < 2; i++) {
    builder = create_builder(context, "model");
    const keel_value in[] = {
        keel_builder_input(builder, "q", KD_F32, 4, now),
        keel_builder_input(builder, "k", KD_F32, 4, now),
        keel_builder_input(builder, "v", KD_F32, 4, now),
        keel_builder_input(builder, "mask", KD_F32, 2, i ? wrong : mask),
        keel_builder_input(builder, "past_key", KD_F32, 4, before),
        keel_builder_input(builder, "past_value", KD_F32, 4, before)};
    keel_value out[3];
    keel_port port;
    keel_program *program = NULL;
    keel_status status =
        keel_builder_op_n(builder, "Attention", NULL, 0, in, 6, out, 3);
    if (i) {
      if (status == KD_OK) status = keel_builder_finish(builder, &program);
      expect_fails(status, KD_INVALID_ARGUMENT,
                   "attn_mask does not broadcast to [2,3,4,9]");
      keel_builder_destroy(builder);
      continue;
    }
    expect_ok(status);
    keel_builder_output(builder, "y", out[0]);
    keel_builder_output(builder, "k", out[1]);
    program = finish_program(builder);
    expect_ok(keel_program_output(program, 1, &port));
    assert_int_equal(port.rank, 4);
    assert_int_equal(port.dims[2], 9);
    keel_program_release(program);
  }
}

RUN_TESTS(open_cpu, close_context)
