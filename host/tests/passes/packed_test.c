/* packed_test.c - products by constants, which the CPU packs once, give what products by the
 * same numbers give that come with each run; and equal rows give equal rows, to the last bit. */
#include <math.h>

#include "cpu_sets.h"

enum { MOST = 1 << 19 };

typedef struct product {
  uint32_t a_rank, b_rank;
  int64_t a[4], b[4];
} product;

/* Many columns and few, which the CPU reads A for where it lies; rows that fill tiles and
 * that don't; several matrices. */
static const product products[] = {
    {2, 2, {64, 96}, {96, 512}},
    {2, 2, {37, 100}, {100, 64}},
    {2, 2, {24, 33}, {33, 32}},
    {2, 2, {13, 1024}, {1024, 64}}, /* rows 4 KiB apart */
    {3, 2, {2, 30, 260}, {260, 128}},
    {2, 2, {11, 800}, {800, 96}},
    {2, 2, {1, 300}, {300, 64}},
    {2, 2, {50, 64}, {64, 31}},
    {3, 3, {3, 17, 40}, {3, 40, 66}},
    {3, 3, {3, 26, 64}, {3, 64, 64}},
    {4, 3, {2, 3, 5, 40}, {3, 40, 64}},
    {2, 3, {12, 40}, {3, 40, 64}},
    {3, 3, {1, 12, 40}, {5, 40, 16}},
    {4, 4, {2, 1, 9, 40}, {1, 4, 40, 48}},
    {3, 3, {4, 12, 40}, {1, 40, 64}},
    {1, 3, {40}, {3, 40, 32}},
};

static int open_set(const char *set) {
  context = open_cpu_set(set, 2);
  return 0;
}

static int open_best(void **state) {
  (void)state;
  return open_set(NULL);
}

static int open_avx2(void **state) {
  (void)state;
  return open_set("cpu.isa=avx2");
}

static int open_base(void **state) {
  (void)state;
  return open_set("cpu.isa=base");
}

/* equal: each row as the first one. */
static keel_tensor *numbers(uint32_t rank, const int64_t *dims, int salt,
                            bool equal) {
  static float data[MOST];
  int64_t count = 1, columns = dims[rank - 1];
  for (uint32_t i = 0; i < rank; i++)
    count *= dims[i];
  assert_true(count <= MOST);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = equal ? i % columns : i;
    data[i] = (float)((at * 7919 + salt) % 1013 - 506) / 506;
  }
  return create_tensor(context, KD_F32, rank, dims, data);
}

static int64_t run(const product *p, bool constant, bool equal, float *out) {
  keel_builder *b = NULL;
  keel_tensor *in[2] = {numbers(p->a_rank, p->a, 3, equal),
                        numbers(p->b_rank, p->b, 8, false)};
  keel_tensor *y = NULL;
  b = create_builder(context, "packed");
  keel_value two[] = {
      keel_builder_input(b, "a", KD_F32, p->a_rank, p->a),
      constant ? keel_builder_constant(b, in[1])
               : keel_builder_input(b, "b", KD_F32, p->b_rank, p->b)};
  keel_builder_output(b, "y", keel_builder_op(b, "MatMul", NULL, 0, two, 2));
  keel_program *program = finish_program(b);
  keel_plan *plan = create_plan(program, NULL);
  for (int i = 0; i < 3;
       i++) { /* value by value; in a static run; without weights */
    keel_tensor_release(y);
    expect_ok(keel_plan_run(plan, in, constant ? 1 : 2, &y, 1));
  }
  int64_t count = keel_tensor_elements(y);
  assert_true(count <= MOST);
  assert_int_equal(keel_tensor_read(y, out, (size_t)count * sizeof *out),
                   KD_OK);
  keel_tensor_release(y);
  release_all(in, 2);
  keel_plan_release(plan);
  keel_program_release(program);
  return count;
}

static void constants_give_what_inputs_give(void **state) {
  static float want[MOST], got[MOST];
  (void)state;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    const product *p = &products[i];
    int64_t count = run(p, false, false, want);
    double depth = sqrt((double)p->a[p->a_rank - 1]);
    assert_int_equal(run(p, true, false, got), count);
    for (int64_t k = 0; k < count; k++)
      if (!(fabs((double)got[k] - (double)want[k]) <= 2e-6 * depth))
        fail_msg("product %zu: element %lld is %g, by an input %g", i,
                 (long long)k, (double)got[k], (double)want[k]);
  }
}

static void equal_rows_stay_equal(void **state) {
  static float got[MOST];
  (void)state;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    const product *p = &products[i];
    if (p->b_rank > 2) continue;
    int64_t n = p->b[1], count = run(p, true, true, got);
    for (int64_t k = n; k < count; k++)
      if (memcmp(&got[k], &got[k % n], sizeof *got) != 0)
        fail_msg("product %zu: element %lld is %.9g, above %.9g", i,
                 (long long)k, (double)got[k], (double)got[k % n]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constants_give_what_inputs_give),
      cmocka_unit_test(equal_rows_stay_equal),
  };
  return cmocka_run_group_tests(tests, open_best, close_context) +
         cmocka_run_group_tests(tests, open_avx2, close_context) +
         cmocka_run_group_tests(tests, open_base, close_context);
}
