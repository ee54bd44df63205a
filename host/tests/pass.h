/* pass.h - what a program gives with a pass and without it, for tests of passes. */
#ifndef KEEL_TESTS_PASS_H
#define KEEL_TESTS_PASS_H

#include <math.h>

#include "one_context.h"

enum { PASS_ARGUMENTS = 5, PASS_ELEMENTS = 1 << 18 };

typedef struct trial {
  const char *pass[3]; /* what is wanted is what comes without these; or NULL */
  keel_tensor *in[PASS_ARGUMENTS]; /* those that are not NULL */
  uint32_t out_count;              /* 0: one */
  double near; /* so much of 1 and of a value it may be off */
  /* texts that are looked for in the dump behind the pass, and whether they were there */
  const char *op, *wanted;
  bool any, found;
} trial;

#define TRIAL(NEAR, ...) \
  { .near = (NEAR), __VA_ARGS__ }

static inline uint32_t pass_inputs(const trial *t) {
  uint32_t count = 0;
  while (count < PASS_ARGUMENTS && t->in[count])
    count++;
  return count;
}

/* Numbers of both signs, up to 4/3 times the scale. */
static inline keel_tensor *scaled_numbers(uint32_t rank, const int64_t *dims,
                                          int64_t from, float scale) {
  static float list[PASS_ELEMENTS];
  int64_t count = elements_of(rank, dims);
  assert_true(count <= PASS_ELEMENTS);
  for (int64_t i = 0; i < count; i++)
    list[i] = scale * (float)((i + from) * 7919 % 401 - 200) / 150;
  return create_tensor(context, KD_F32, rank, dims, list);
}

static inline keel_tensor *numbers(uint32_t rank, const int64_t *dims,
                                   int64_t from) {
  return scaled_numbers(rank, dims, from, 1);
}

static inline keel_value constant_numbers(keel_builder *builder, uint32_t rank,
                                          const int64_t *dims, int64_t from) {
  return constant_of(builder, numbers(rank, dims, from));
}

static inline void look_at_dump(void *looking, const char *pass,
                                const char *text) {
  trial *t = looking;
  (void)pass;
  t->any |= t->op && strstr(text, t->op);
  t->found |= t->wanted && strstr(text, t->wanted);
}

/* A plan, its profile with types. */
static inline keel_plan *plan_without(keel_program *program,
                                      const char *const *skip, uint32_t count,
                                      trial *looking) {
  const keel_plan_params params = {
      .struct_size = sizeof params,
      .skip = skip,
      .skip_count = count,
      .on_pass = looking ? look_at_dump : NULL,
      .on_pass_context = looking,
      .on_pass_name = looking ? looking->pass[0] : NULL};
  keel_plan *plan = create_plan(program, &params);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  return plan;
}

/* Values, then static runs. */
static inline void run_thrice(keel_plan *plan, const trial *t,
                              keel_tensor **out) {
  memset(out, 0, PASS_ARGUMENTS * sizeof *out);
  for (int i = 0; i < 3; i++) {
    release_all(out, t->out_count);
    expect_ok(keel_plan_run(plan, t->in, pass_inputs(t), out, t->out_count));
  }
}

static inline void expect_near(const char *what, size_t number,
                               keel_tensor *got, keel_tensor *want,
                               double near) {
  static float a[PASS_ELEMENTS], b[PASS_ELEMENTS];
  const uint32_t rank = keel_tensor_rank(want);
  assert_int_equal(keel_tensor_rank(got), rank);
  assert_memory_equal(keel_tensor_dims(got), keel_tensor_dims(want),
                      rank * sizeof(int64_t));
  assert_true(keel_tensor_size(want) <= sizeof a);
  expect_ok(keel_tensor_read(got, a, keel_tensor_size(got)));
  expect_ok(keel_tensor_read(want, b, keel_tensor_size(want)));
  for (int64_t i = 0; i < keel_tensor_elements(want); i++)
    if (isnan(b[i]) ? !isnan(a[i])
                    : a[i] != b[i] && !(fabs((double)a[i] - (double)b[i]) <=
                                        near * (1 + fabs((double)b[i]))))
      fail_msg("%s %zu: element %lld is %g, without the pass %g", what, number,
               (long long)i, (double)a[i], (double)b[i]);
}

/* Runs the program without the pass and with it, and releases it with the inputs. Returns the
 * plan that has the pass; out_plain, where it is not NULL, gets the other. */
static inline keel_plan *compare_pass(const char *what, size_t number,
                                      keel_program *program, trial *t,
                                      keel_plan **out_plain) {
  keel_tensor *want[PASS_ARGUMENTS], *got[PASS_ARGUMENTS];
  uint32_t left_out = 0;
  while (left_out < 3 && t->pass[left_out])
    left_out++;
  if (!t->out_count) t->out_count = 1;
  keel_plan *plain = plan_without(program, t->pass, left_out, NULL);
  keel_plan *plan = plan_without(program, NULL, 0, t);
  run_thrice(plain, t, want);
  run_thrice(plan, t, got);
  for (uint32_t i = 0; i < t->out_count; i++)
    expect_near(what, number, got[i], want[i], t->near);
  release_all(want, t->out_count);
  release_all(got, t->out_count);
  release_all(t->in, pass_inputs(t));
  keel_program_release(program);
  if (out_plain)
    *out_plain = plain;
  else
    keel_plan_release(plain);
  return plan;
}

#endif /* KEEL_TESTS_PASS_H */
