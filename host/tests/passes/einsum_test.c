/* einsum_test.c - Einsum becomes products of matrices; what can't stays, and the results are
 * the same. */
#define WORKERS 0
#include "pass.h"
#include "with_cpu.h"

enum { OPERANDS = 4 };

typedef struct operand {
  uint32_t rank;
  int64_t dims[9];
} operand;

typedef struct model {
  const char *equation;
  uint32_t count;
  operand in[OPERANDS];
  bool stays; /* Einsum is the device's */
} model;

static const model models[] = {
    /* products, as they are written and in other orders */
    {"ij,jk->ik", 2, {{2, {3, 4}}, {2, {4, 5}}}, false},
    {"ij,kj->ki", 2, {{2, {3, 4}}, {2, {5, 4}}}, false},
    {"ij,jk", 2, {{2, {3, 4}}, {2, {4, 5}}}, false},
    {"bhlk,bhtk->bhlt", 2, {{4, {2, 3, 4, 5}}, {4, {2, 3, 6, 5}}}, false},
    {"b h l t, b h t v -> b h l v",
     2,
     {{4, {2, 3, 4, 6}}, {4, {2, 3, 6, 5}}},
     false},
    {"ikb,kbj->jib", 2, {{3, {3, 4, 2}}, {3, {4, 2, 5}}}, false},
    /* several labels in a group */
    {"bld,dhk->blhk", 2, {{3, {2, 3, 4}}, {3, {4, 2, 3}}}, false},
    {"bhld,bhmd->lmbh", 2, {{4, {2, 3, 4, 5}}, {4, {2, 3, 2, 5}}}, false},
    {"abcd,cdef->feab", 2, {{4, {2, 3, 2, 2}}, {4, {2, 2, 3, 2}}}, false},
    /* vectors, inner and outer products, elements */
    {"ij,j->i", 2, {{2, {3, 4}}, {1, {4}}}, false},
    {"j,ij->i", 2, {{1, {4}}, {2, {3, 4}}}, false},
    {"bi,bi->b", 2, {{2, {3, 4}}, {2, {3, 4}}}, false},
    {"i,i", 2, {{1, {4}}, {1, {4}}}, false},
    {"i,j->ji", 2, {{1, {3}}, {1, {4}}}, false},
    {"bij,jb->ibj", 2, {{3, {2, 3, 4}}, {2, {4, 2}}}, false},
    {",i->i", 2, {{0, {0}}, {1, {4}}}, false},
    /* sums before; one operand; three and four */
    {"ij,k->k", 2, {{2, {3, 4}}, {1, {5}}}, false},
    {"ija,jkb->ik", 2, {{3, {3, 4, 2}}, {3, {4, 5, 2}}}, false},
    {"bhwc->bchw", 1, {{4, {2, 3, 4, 5}}}, false},
    {"ijk->kj", 1, {{3, {3, 4, 5}}}, false},
    {"ij->", 1, {{2, {3, 4}}}, false},
    {"ij,jk,kl->il", 3, {{2, {3, 4}}, {2, {4, 5}}, {2, {5, 2}}}, false},
    {"ij,ik,il->jkl", 3, {{2, {3, 2}}, {2, {3, 4}}, {2, {3, 5}}}, false},
    {"a,ab,bc,c->", 4, {{1, {2}}, {2, {2, 3}}, {2, {3, 4}}, {1, {4}}}, false},
    /* dots */
    {"...ij,jk->...ik", 2, {{4, {2, 3, 2, 4}}, {2, {4, 5}}}, false},
    {"...ij,...jk", 2, {{3, {2, 3, 4}}, {3, {2, 4, 5}}}, false},
    {"i...->...i", 1, {{3, {2, 3, 4}}}, false},
    /* more dimensions in between than a tensor has, and more elements than it is worth */
    {"abcdefghi,jklmnopq,aj->bcdefghiklmnopq",
     3,
     {{9, {2, 2, 1, 1, 1, 3, 1, 1, 1}},
      {8, {2, 1, 1, 2, 1, 1, 1, 1}},
      {2, {2, 2}}},
     true},
    {"ai,bi,ci->abc", 3, {{2, {40, 2}}, {2, {25, 2}}, {2, {4, 2}}}, false},
    {"ai,bj,ij->ab", 3, {{2, {9, 60}}, {2, {9, 60}}, {2, {60, 60}}}, false},
    {"ai,bj,i,j->ab",
     4,
     {{2, {32, 64}}, {2, {32, 64}}, {1, {64}}, {1, {64}}},
     true},
    /* diagonals, and what is broadcast */
    {"ii->i", 1, {{2, {3, 3}}}, true},
    {"iij,jk->ik", 2, {{3, {3, 3, 4}}, {2, {4, 5}}}, true},
    {"ij,jk->ik", 2, {{2, {3, 1}}, {2, {4, 5}}}, true},
    {"...ij,...jk", 2, {{3, {1, 3, 4}}, {3, {2, 4, 5}}}, true},
};

static keel_program *program_of(const model *m) {
  static const char *const names[] = {"a", "b", "c", "d"};
  keel_value in[OPERANDS];
  const keel_attr equation = KEEL_STRING("equation", m->equation);
  keel_builder *b = create_builder(context, "einsum");
  for (uint32_t i = 0; i < m->count; i++)
    in[i] =
        keel_builder_input(b, names[i], KD_F32, m->in[i].rank, m->in[i].dims);
  return program_giving(
      b, keel_builder_op(b, "Einsum", &equation, 1, in, m->count));
}

TEST_THAT(einsums_become_products) {
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    const model *m = &models[i];
    trial t = TRIAL(1e-4, .pass = {"einsum"});
    for (uint32_t k = 0; k < m->count; k++)
      t.in[k] = numbers(m->in[k].rank, m->in[k].dims, k);
    keel_plan *plan = compare_pass(m->equation, i, program_of(m), &t, NULL);
    if (runs_of(plan, "Einsum") != m->stays)
      fail_msg("%s: %u Einsums are left", m->equation, runs_of(plan, "Einsum"));
    keel_plan_release(plan);
  }
}

/* Fails, and says why. */
static void refuse(const char *equation, uint32_t count,
                   const int64_t *const *dims, const char *said) {
  keel_tensor *in[2] = {NULL, NULL}, *y = NULL;
  const keel_attr attr = KEEL_STRING("equation", equation);
  float data[16] = {0};
  for (uint32_t i = 0; i < count; i++)
    expect_ok(keel_tensor_create(context, KD_F32, 2, dims[i], data, &in[i]));
  assert_int_equal(keel_call(context, "Einsum", &attr, 1, in, count, &y, 1),
                   KD_INVALID_ARGUMENT);
  if (!strstr(keel_message(), said))
    fail_msg("%s: %s", equation, keel_message());
  release_all(in, count);
}

TEST_THAT(bad_equations_are_refused) {
  static const int64_t a[] = {2, 3}, b[] = {4, 2};
  static const int64_t *const dims[] = {a, b};
  refuse("ij,jk->ik", 2, dims, "letter j is 3 and 4");
  refuse("ij->ij", 2, dims, "it has 1 terms");
  refuse("ij,ki,kl->jl", 2, dims, "more terms than inputs");
  refuse("ijk,ki->j", 2, dims, "more letters than dimensions");
  refuse("i,ki->k", 2, dims, "fewer letters than dimensions");
  refuse("ij,ki->kz", 2, dims, "letter z is in no input");
  refuse("i.j,ki->k", 2, dims, "\"...\"");
  refuse("...,...->...", 2, dims, "do not broadcast");
}

RUN_TESTS(open_cpu, close_context)
