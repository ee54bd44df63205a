/* regions_test.c - parts of programs that a device compiles as a whole: which claims are
 * taken, what becomes of them, and that the numbers stay the same. */
#include <keel/debug.h>

#include <kd/kd.h>
#include <stdatomic.h>

#include "layers/layers.h"
#include "one_context.h"
#include "program/function.h"
#include "toy/toy.h"

enum { SIZE = 4, MOST = 40 };

static keel_device *device;
static toy_state *toy;
static char shown[64];   /* the names of the nodes that were shown */
static char warned[600]; /* the last warning */

static void note_warning(void *unused, uint32_t level, const char *line) {
  (void)unused;
  if (level == KD_LOG_WARNING) snprintf(warned, sizeof warned, "%s", line);
}

static int open_with_layers(const char *layers) {
  setenv("KEEL_LOG", "warning", 1);
  expect_ok(keel_layers_set(layers));
  context = open_logged(CPU_PLUGIN, TOY("compiler"), 1, note_warning);
  expect_ok(keel_device_find(context, "compiler", &device));
  toy = toy_of(TOY("compiler"));
  assert_non_null(toy);
  toy->claim = NULL;
  toy->compiles = KD_OK;
  atomic_store(&toy->made, 0);
  atomic_store(&toy->launched, 0);
  *shown = *warned = 0;
  return 0;
}

SETUP(open_all) {
  return open_with_layers("");
}

SETUP(open_layered) {
  return open_with_layers("validation,fault:region.enqueue=3:ABORTED");
}

SETUP(close_all) {
  keel_close(context);
  return keel_layers_set("") == KD_OK ? 0 : -1;
}

/* ---- claims by a list ------------------------------------------------------------ */

/* Sets of nodes by their names' letters, with what is to become of each. */
typedef struct wish {
  const char *nodes;
  kd_status answer;
} wish;

static const wish *wishes;
static char refusals[4096]; /* what was said of those that were not taken */

static void by_wishes(const kd_host *host, const kd_graph *graph, kd_claim take,
                      void *to) {
  uint32_t n = host->graph->node_count(graph);
  for (uint32_t i = 0; i < n; i++)
    shown[i] = *host->node->name(host->graph->node(graph, i));
  shown[n] = 0;
  for (const wish *at = wishes; at->nodes; at++) {
    uint32_t nodes[MOST], count = 0;
    for (const char *c = at->nodes; *c; c++) {
      const char *found = strchr(shown, *c);
      nodes[count++] = found ? (uint32_t)(found - shown) : 999;
    }
    const kd_part part = {
        .struct_size = sizeof part, .nodes = nodes, .node_count = count};
    kd_status status = take(to, &part);
    size_t used = strlen(refusals);
    if (status != KD_OK)
      snprintf(refusals + used, sizeof refusals - used, "%s: %s\n", at->nodes,
               keel_message());
    if (status != at->answer)
      fail_msg("\"%s\" of \"%s\" is answered by %s: %s", at->nodes, shown,
               kd_status_name(status), keel_message());
  }
}

/* From text: one line an op, "a Add x y"; the last one is the output, and so are those
 * before which a * stands. */
static keel_program *read_program(const char *const *all, bool open_size) {
  const char *const *lines = all;
  const int64_t dim = open_size ? -1 : SIZE;
  keel_value values[128];
  keel_builder *builder = create_builder(context, "text");
  values['x'] = keel_builder_input(builder, "x", KD_F32, 1, &dim);
  for (; *lines; lines++) {
    char mark = ' ', name = 0, op[16] = "", a = 0, b = 0;
    int parts = sscanf(*lines, "%c%c %15s %c %c", &mark, &name, op, &a, &b);
    char full[] = {name, 0};
    keel_value pair[] = {values[(int)a], parts > 4 ? values[(int)b] : 0};
    values[(int)name] =
        keel_builder_op(builder, op, NULL, 0, pair, parts > 4 ? 2 : 1);
    if (mark == '*' || !lines[1])
      keel_builder_output(builder, full, values[(int)name]);
  }
  keel_program *program = finish_program(builder);
  for (const char *const *at = all; *at; at++) {
    keel_node *node = &program->main->nodes[at - all];
    node->name = &(*at)[1]; /* its first letter counts */
  }
  return program;
}

/* ---- running ---------------------------------------------------------------------- */

static keel_plan *plan_of(keel_program *program, const char *place,
                          const char *skip) {
  keel_plan *plan = NULL;
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = device,
                                   .places = &place,
                                   .place_count = place != NULL,
                                   .skip = &skip,
                                   .skip_count = skip != NULL};
  if (keel_plan_create(program, &params, &plan) != KD_OK)
    fail_msg("no plan: %s", keel_message());
  return plan;
}

/* All outputs for an input of so many elements, one behind the other. */
static uint32_t run(keel_plan *plan, keel_program *program, int64_t count,
                    float *out) {
  float data[MOST];
  keel_tensor *y[MOST];
  uint32_t outputs = keel_program_output_count(program);
  for (int64_t i = 0; i < count; i++)
    data[i] = (float)i - 1.25f;
  keel_tensor *x = floats(context, count, data);
  expect_ok(keel_plan_run(plan, &x, 1, y, outputs));
  for (uint32_t i = 0; i < outputs; i++) {
    expect_ok(
        keel_tensor_read(y[i], out + i * count, (size_t)count * sizeof *out));
    keel_tensor_release(y[i]);
  }
  keel_tensor_release(x);
  return outputs * (uint32_t)count;
}

/* Plans with the wishes, runs a few times, and compares with a plan without regions. */
static void expect_same(const char *const *lines, const wish *list,
                        const char *place, int regions) {
  float want[MOST * SIZE], got[MOST * SIZE];
  keel_program *program = read_program(lines, false);
  keel_plan *plain = plan_of(program, place, "regions");
  uint32_t count = run(plain, program, SIZE, want);
  assert_int_equal(atomic_load(&toy->made), 0);
  wishes = list;
  toy->claim = by_wishes;
  keel_plan *plan = plan_of(program, place, NULL);
  assert_int_equal(atomic_load(&toy->made), regions);
  assert_int_equal(atomic_load(&toy->live), regions);
  for (int i = 1; i <= 12; i++) { /* static runs come after the first ones */
    run(plan, program, SIZE, got);
    assert_memory_equal(got, want, count * sizeof *got);
    assert_int_equal(atomic_load(&toy->launched), i * regions);
  }
  assert_int_equal(atomic_load(&toy->made), regions);
  RELEASE(plain, plan, program);
  assert_int_equal(atomic_load(&toy->live), 0);
}

TEST_THAT(a_claim_becomes_one_op) {
  static const char *const lines[] = {" a Neg x", " b Abs a", " c Add b x",
                                      " d Mul c b", NULL};
  static const wish list[] = {{"abcd", KD_OK}, {NULL, KD_OK}};
  expect_same(lines, list, NULL, 1);
}

/* Profiles and errors say what a region is of. */
TEST_THAT(a_region_is_named_after_its_ops) {
  static const char *const lines[] = {" a Neg x",   " b Abs a", " c Add b x",
                                      " d Mul c b", " e Neg d", " f Abs e",
                                      " g Neg f",   "*h Abs g", "*i Add h x",
                                      "*j Neg i",   NULL};
  static const wish list[] = {
      {"abcdefgh", KD_OK}, {"ij", KD_OK}, {NULL, KD_OK}};
  keel_program *program = read_program(lines, false);
  keel_profile_line line;
  bool many = false, few = false;
  float got[MOST * SIZE];
  wishes = list;
  toy->claim = by_wishes;
  keel_plan *plan = plan_of(program, NULL, NULL);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  run(plan, program, SIZE, got);
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++) {
    many |= !strncmp(line.node, "Neg+Abs+Add+Mul+Neg+3 more h", 28);
    few |= !strncmp(line.node, "Add+Neg j", 9);
  }
  assert_true(many && few);
  RELEASE(plan, program);
}

TEST_THAT(what_is_needed_elsewhere_is_an_output) {
  static const char *const lines[] = {"*a Neg x",   "*b Abs a", " c Add b x",
                                      " d Mul c b", " e Neg d", " f Add e c",
                                      NULL};
  static const wish list[] = {{"cba", KD_OK}, {"fed", KD_OK}, {NULL, KD_OK}};
  expect_same(lines, list, NULL, 2);
}

TEST_THAT(a_claim_that_is_no_part_is_refused) {
  static const char *const lines[] = {" a Neg x",   " b Abs a",   " c Neg b",
                                      " d Abs c",   " e Add d c", " f Neg e",
                                      " g Add f b", NULL};
  static const wish list[] = {{"", KD_INVALID_ARGUMENT},
                              {"z", KD_INVALID_ARGUMENT},
                              {"aa", KD_INVALID_ARGUMENT},
                              {"ac", KD_INVALID_ARGUMENT},
                              {"ab?", KD_INVALID_ARGUMENT},
                              {"ce", KD_INVALID_ARGUMENT},
                              {"af", KD_INVALID_ARGUMENT},
                              {"de", KD_OK},
                              {"e", KD_INVALID_ARGUMENT},
                              {"cb", KD_OK},
                              {"fed", KD_INVALID_ARGUMENT},
                              {"gf", KD_OK},
                              {NULL, KD_OK}};
  *refusals = 0;
  expect_same(lines, list, NULL, 3);
  /* which node it is refused for */
  static const char *const words[] = {
      "z: the graph has 7 nodes",
      "aa: Neg \"a Neg x\" is claimed twice",
      "ac: the nodes are not connected: Neg \"c Neg b\" shares no value",
      "af: the nodes are not connected: Neg \"f Neg e\" shares no value",
      "ce: a path leaves the claim and enters it again at Add \"e Add d c\"",
      "e: Add \"e Add d c\" is claimed twice"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strstr(refusals, words[i]))
      fail_msg("no \"%s\" in:\n%s", words[i], refusals);
}

/* a and d share x, b and c share x, too; a -> b and c -> d: each pair is a part, but not
 * both. */
TEST_THAT(two_claims_that_need_each_other_are_not_taken) {
  static const char *const lines[] = {" a Add x x", "*b Add a x", " c Mul x x",
                                      "*d Add c x", " e Add b d", NULL};
  static const wish list[] = {{"ad", KD_OK},
                              {"bc", KD_INVALID_ARGUMENT},
                              {"be", KD_OK},
                              {"c", KD_OK},
                              {NULL, KD_OK}};
  expect_same(lines, list, NULL, 3);
}

/* c runs elsewhere: a path leaves the device and comes back. */
TEST_THAT(another_devices_nodes_are_shown_only) {
  static const char *const lines[] = {" a Neg x",   " b Abs a",   " c Relu b",
                                      " d Add b c", " e Mul d a", NULL};
  static const wish list[] = {{"bd", KD_INVALID_ARGUMENT},
                              {"abd", KD_INVALID_ARGUMENT},
                              {"c", KD_INVALID_ARGUMENT},
                              {"bcd", KD_INVALID_ARGUMENT},
                              {"ab", KD_OK},
                              {"de", KD_OK},
                              {NULL, KD_OK}};
  expect_same(lines, list, "Relu=cpu", 2);
  assert_string_equal(shown, "abcde");
}

TEST_THAT(what_is_not_compiled_runs_op_by_op) {
  static const char *const lines[] = {" a Neg x", " b Abs a", " c Add b x",
                                      NULL};
  static const wish list[] = {{"abc", KD_OK}, {NULL, KD_OK}};
  toy->compiles = KD_UNIMPLEMENTED;
  expect_same(lines, list, NULL, 0);
  assert_non_null(strstr(warned,
                         "compiler:0 does not compile 3 ops that it"
                         " claimed, from Neg \"a"));
  assert_non_null(strstr(warned, "compiler: not today"));
}

TEST_THAT(a_compilers_failure_is_the_plans) {
  static const char *const lines[] = {" a Neg x", " b Abs a", " c Add b x",
                                      NULL};
  static const wish list[] = {{"abc", KD_OK}, {NULL, KD_OK}};
  keel_program *program = read_program(lines, false);
  keel_plan *plan = NULL;
  wishes = list;
  toy->claim = by_wishes;
  toy->compiles = KD_OUT_OF_MEMORY;
  assert_int_equal(
      keel_plan_create(program, PLAN_PARAMS(.device = device), &plan),
      KD_OUT_OF_MEMORY);
  assert_null(plan);
  expect_message("compiler: not today");
  expect_message("while compiler:0 compiled a region of 3 ops, from \"a");
  expect_message("without the pass \"regions\"");
  keel_program_release(program);
  assert_int_equal(atomic_load(&toy->live), 0);
}

/* A plan of open sizes, made while the device claims nothing; plans for a size get the
 * wishes. */
static keel_plan *plan_open(keel_program *program, const wish *of_sizes) {
  wishes = (const wish[]){{NULL, KD_OK}};
  toy->claim = by_wishes;
  keel_plan *plan = plan_of(program, NULL, NULL);
  wishes = of_sizes;
  return plan;
}

/* Sizes are not known when the plan is made, but when a shape comes again. */
TEST_THAT(open_sizes_are_compiled_when_they_come_again) {
  static const char *const lines[] = {" a Neg x", " b Abs a", " c Add b x",
                                      NULL};
  static const wish list[] = {{"abc", KD_OK}, {NULL, KD_OK}};
  float got[MOST];
  keel_program *program = read_program(lines, true);
  keel_plan *plan = plan_open(program, list);
  assert_string_equal(shown, "abc"); /* with sizes that are not known */
  for (int i = 0; i < 6; i++)
    for (int64_t count = 3; count < 6; count++) {
      keel_version_counts counts;
      run(plan, program, count, got);
      keel_plan_versions(plan, &counts); /* waits for the one that is made */
      for (int64_t k = 0; k < count; k++) {
        float x = (float)k - 1.25f;
        assert_true(got[k] == (x < 0 ? -x : x) + x);
      }
    }
  assert_int_equal(atomic_load(&toy->made), 3);
  assert_true(atomic_load(&toy->launched) >= 3);
  RELEASE(plan, program);
  assert_int_equal(atomic_load(&toy->live), 0);
}

TEST_THAT(what_fails_for_a_size_is_said_and_runs_op_by_op) {
  static const char *const lines[] = {" a Neg x", " b Abs a", " c Add b x",
                                      NULL};
  static const wish list[] = {{"abc", KD_OK}, {NULL, KD_OK}};
  float got[MOST];
  keel_program *program = read_program(lines, true);
  keel_plan *plan = plan_open(program, list);
  toy->compiles = KD_OUT_OF_MEMORY;

  assert_int_equal(run(plan, program, 3, got), 3);

  assert_true(got[0] == 0 && got[2] == 1.5f);
  assert_non_null(strstr(warned,
                         "for these shapes, and the one for all shapes"
                         " runs: "));
  assert_non_null(strstr(warned, "compiler: not today"));
  RELEASE(plan, program);
}

/* A region's input was folded, and the dead node that had made it reads what the region
 * makes. */
TEST_THAT(dead_nodes_make_no_cycle) {
  keel_arena arena = {0};
  keel_function *list = NULL, *f = NULL;
  uint32_t x, y, r, t;
  const struct {
    const char *op;
    uint32_t *in, *out;
    bool dead;
  } nodes[] = {{"Relu", &x, &r, true},
               {"Neg", &r, &t, true},
               {"Mul", &x, &y, false},
               {"Add", &t, &r, false}};
  expect_ok(keel_function_create(context, &arena, &list, "f", &f));
  x = keel_function_value(f, "x");
  r = keel_function_value(f, "r");
  t = keel_function_value(f, "t");
  y = keel_function_value(f, "y");
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
    const uint32_t in[] = {*nodes[i].in, x};
    keel_opdef *op = NULL;
    keel_node *node = NULL;
    expect_ok(keel_opdef_create(context, keel_schema_find("", nodes[i].op),
                                NULL, 0, NULL, &op));
    expect_ok(keel_function_node(f, op, "", in, nodes[i].dead ? 1 : 2,
                                 nodes[i].out, 1, &node));
    node->dead = nodes[i].dead;
  }

  expect_ok(keel_function_sort(f));

  /* nor do they move others */
  assert_string_equal(f->nodes[2].op->schema->name, "Mul");
  assert_string_equal(f->nodes[3].op->schema->name, "Add");
  keel_functions_release(list);
  keel_arena_free(&arena);
}

/* ---- regions for all sizes ------------------------------------------------------- */

static int claims; /* calls of the compiler's `claim` */
static char
    seen[600]; /* what it sees of each node's output: "a f32/1 b ?/? " */

/* Claims what `wishes` say: those whose answer is KD_OK for all sizes. */
static void for_all_sizes(const kd_host *host, const kd_graph *graph,
                          kd_claim take, void *to) {
  const kd_graph_table *read = host->graph;
  uint32_t n = read->node_count(graph);
  size_t used = 0;
  claims++;
  for (uint32_t i = 0; i < n; i++) {
    kd_type type;
    shown[i] = *host->node->name(read->node(graph, i));
    read->value_type(graph, read->node_output(graph, i, 0), &type);
    bool known = type.rank != KD_RANK_UNKNOWN;
    used += (size_t)snprintf(seen + used, sizeof seen - used, "%c %s/%d%s ",
                             shown[i] ? shown[i] : '-',
                             known ? kd_dtype_name(type.dtype) : "?",
                             known ? (int)type.rank : 0,
                             known && type.rank && type.dims[0] < 0 ? "?" : "");
  }
  shown[n] = 0;
  for (const wish *at = wishes; at->nodes; at++) {
    uint32_t nodes[MOST], count = 0;
    for (const char *c = at->nodes; *c; c++)
      if (strchr(shown, *c))
        nodes[count++] = (uint32_t)(strchr(shown, *c) - shown);
    if (count != strlen(at->nodes)) continue; /* it is in a region */
    const kd_part part = {.struct_size = sizeof part,
                          .flags = at->answer == KD_OK ? KD_PART_ANY_SHAPE : 0,
                          .nodes = nodes,
                          .node_count = count};
    if (take(to, &part) != KD_OK) fail_msg("%s", keel_message());
  }
}

/* Each element of "a Neg x; b Abs a; c Add b x; d Mul c x". */
static void run_and_check(keel_plan *plan, keel_program *program,
                          int64_t count) {
  float got[MOST];
  keel_version_counts counts;
  run(plan, program, count, got);
  keel_plan_versions(plan, &counts); /* waits for the one that is made */
  for (int64_t k = 0; k < count; k++) {
    float x = (float)k - 1.25f;
    assert_true(got[k] == ((x < 0 ? -x : x) + x) * x);
  }
}

static keel_plan *plan_for_all(keel_program *program, const wish *list) {
  wishes = list;
  claims = 0;
  toy->claim = for_all_sizes;
  return plan_of(program, NULL, NULL);
}

static const char *const four[] = {" a Neg x", " b Abs a", " c Add b x",
                                   " d Mul c x", NULL};

TEST_THAT(one_region_serves_all_sizes) {
  static const wish list[] = {{"abcd", KD_OK}, {NULL, KD_OK}};
  keel_program *program = read_program(four, true);
  keel_plan *plan = plan_for_all(program, list);
  int runs = 0;
  assert_int_equal(claims, 1);
  for (int round = 0; round < 6; round++)
    for (int64_t count = 1; count < 14; count += 2, runs++)
      run_and_check(plan, program, count);
  keel_version_counts counts;
  keel_plan_versions(plan, &counts);
  assert_true(counts.kept == 7 && counts.hits > 20);
  assert_int_equal(atomic_load(&toy->made), 1);
  assert_int_equal(atomic_load(&toy->live), 1);
  assert_int_equal(atomic_load(&toy->launched), runs);
  RELEASE(plan, program);
  assert_int_equal(atomic_load(&toy->live), 0);
}

/* The rest is compiled for each set of sizes, as before, and not shown with the region. */
TEST_THAT(a_region_for_all_sizes_has_others_beside_it) {
  static const wish list[] = {
      {"ab", KD_OK}, {"cd", KD_UNIMPLEMENTED}, {NULL, KD_OK}};
  keel_program *program = read_program(four, true);
  keel_plan *plan = plan_for_all(program, list);
  assert_int_equal(atomic_load(&toy->made), 2); /* and one of open sizes */
  for (int round = 0; round < 4; round++)
    for (int64_t count = 2; count < 5; count++)
      run_and_check(plan, program, count);
  assert_int_equal(atomic_load(&toy->made), 2 + 3);
  assert_null(strpbrk(shown, "ab"));
  RELEASE(plan, program);
  assert_int_equal(atomic_load(&toy->live), 0);
}

/* Where all sizes are known it says nothing more. */
TEST_THAT(a_region_for_all_sizes_may_have_one) {
  static const wish list[] = {{"abcd", KD_OK}, {NULL, KD_OK}};
  keel_program *program = read_program(four, false);
  keel_plan *plan = plan_for_all(program, list);
  assert_int_equal(claims, 1);
  for (int i = 0; i < 4; i++)
    run_and_check(plan, program, SIZE);
  assert_int_equal(atomic_load(&toy->made), 1);
  RELEASE(plan, program);
  assert_int_equal(atomic_load(&toy->live), 0);
}

TEST_THAT(a_compiler_sees_types_without_sizes) {
  static const char *const lines[] = {
      " a Neg x", " b Shape a",   " c Reshape a b", " d Squeeze c",
      "*e Neg d", " f NonZero x", " g Relu f",      NULL};
  static const wish list[] = {{NULL, KD_OK}};
  keel_program *program = read_program(lines, true);
  keel_plan *plan = plan_for_all(program, list);
  /* a Squeeze of all dimensions of 1: its rank depends on sizes */
  assert_string_equal(seen,
                      "a f32/1? b i64/1? c f32/1? d ?/0 e ?/0 f ?/0 g ?/0 ");
  RELEASE(plan, program);
}

/* x[1:] has one element where x has two, which no choice of sizes has. */
TEST_THAT(a_rank_that_sizes_make_is_not_shown) {
  static const wish list[] = {{NULL, KD_OK}};
  const int64_t open = -1, from = 1, to = 1000;
  keel_tensor *first = create_tensor(context, KD_I64, DIMS(1), &from),
              *last = create_tensor(context, KD_I64, DIMS(1), &to);
  keel_builder *b = create_builder(context, "tail");
  keel_value in[] = {keel_builder_input(b, "x", KD_F32, 1, &open),
                     keel_builder_constant(b, first),
                     keel_builder_constant(b, last)};
  keel_value tail = keel_builder_op(b, "Slice", NULL, 0, in, 3);
  tail = op(b, "Relu", op(b, "Squeeze", tail, KEEL_ABSENT), KEEL_ABSENT);
  keel_builder_output(b, "y", tail);
  keel_program *program = finish_program(b);
  keel_plan *plan = plan_for_all(program, list);
  assert_string_equal(seen, "- f32/1? - ?/0 - ?/0 ");
  RELEASE(plan, program, first, last);
}

/* The first of x's sizes says how many of them a Reshape gets: one where it is 1. */
TEST_THAT(a_rank_of_fewer_sizes_is_not_shown) {
  static const wish list[] = {{NULL, KD_OK}};
  const int64_t open[] = {-1, -1}, begin = 0, one = 1;
  keel_tensor *zero = create_tensor(context, KD_I64, DIMS(1), &begin),
              *end = create_tensor(context, KD_I64, DIMS(1), &one);
  keel_builder *b = create_builder(context, "fewer");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, open);
  keel_value shape = op(b, "Shape", x, KEEL_ABSENT);
  keel_value from = keel_builder_constant(b, zero);
  keel_value head[] = {shape, from, keel_builder_constant(b, end)};
  keel_value some[] = {shape, from,
                       keel_builder_op(b, "Slice", NULL, 0, head, 3)};
  keel_value sizes = keel_builder_op(b, "Slice", NULL, 0, some, 3);
  keel_builder_output(b, "y", op(b, "Reshape", x, sizes));
  keel_program *program = finish_program(b);
  keel_plan *plan = plan_for_all(program, list);
  assert_string_equal(seen, "- i64/1? - i64/1? - i64/1? - ?/0 ");
  RELEASE(plan, program, zero, end);
}

/* A run of another rank than the declared one has a plan of its own, in which no rank is
 * known. */
TEST_THAT(another_rank_is_not_shown_as_the_declared_one) {
  static const wish list[] = {{"abcd", KD_OK}, {NULL, KD_OK}};
  const float data[] = {1, -2, 3, -4, 5, -6};
  keel_program *program = read_program(four, true);
  keel_plan *plan = plan_for_all(program, list);
  assert_memory_equal(seen, "a f32/1? b f32/1? ", 18);
  keel_tensor *x = create_tensor(context, KD_F32, DIMS(2, 3), data), *y = NULL;
  for (int i = 0; i < 3; i++) {
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    const float *got = keel_tensor_data(y);
    for (int k = 0; k < 6; k++)
      assert_true(got[k] == (data[k] < 0 ? 0 : 2 * data[k] * data[k]));
    keel_tensor_release(y);
  }
  assert_memory_equal(seen, "a ?/0 b ?/0 ", 12);
  RELEASE(x, plan, program);
  assert_int_equal(atomic_load(&toy->live), 0);
}

/* One region for all sizes: the host tells its outputs' types at each launch. */
TEST_THAT(a_region_may_be_of_any_size) {
  static const char *const lines[] = {" a Neg x", " s Shape x",
                                      "*b Reshape a s", " c Add b x", NULL};
  static const wish list[] = {{"asbc", KD_OK}, {NULL, KD_OK}};
  float got[MOST];
  keel_program *program = read_program(lines, true);
  wishes = list;
  toy->claim = by_wishes;
  keel_plan *plan = create_plan(
      program, PLAN_PARAMS(.device = device, .flags = KEEL_PLAN_ONE));
  for (int64_t count = 1; count < 20; count++) {
    assert_int_equal(run(plan, program, count, got), 2 * count);
    for (int64_t k = 0; k < count; k++) {
      assert_true(got[k] == 1.25f - (float)k);
      assert_true(got[count + k] == 0);
    }
  }
  assert_int_equal(atomic_load(&toy->made), 1);
  assert_int_equal(atomic_load(&toy->launched), 19);
  RELEASE(plan, program);
}

/* What is random, and what depends on data so that nobody can make room for it. */
TEST_THAT(what_no_launch_can_give_is_refused) {
  static const char *const lines[] = {" a Neg x", " r Bernoulli a",
                                      "*n NonZero a", " c Add r x", NULL};
  static const wish list[] = {{"an", KD_UNIMPLEMENTED},
                              {"n", KD_UNIMPLEMENTED},
                              {"ar", KD_INVALID_ARGUMENT},
                              {"a", KD_OK},
                              {NULL, KD_OK}};
  keel_program *program = read_program(lines, false);
  wishes = list;
  toy->claim = by_wishes;
  keel_plan_release(plan_of(program, NULL, NULL));
  assert_string_equal(shown, "arnc");
  keel_program_release(program);
}

/* An If with what it captures, which a builder does not make. */
static const char choice[] =
    "\"keel.program\"() ({\n^bb0(%x: tensor<4xf32>, %yes: tensor<i1>):\n"
    "%a = \"onnx.Neg\"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
    "%b = \"onnx.If\"(%yes, %a, %a, %x) ({\n"
    "^bb0(%p: tensor<4xf32>):\n"
    "%q = \"onnx.Abs\"(%p) : (tensor<4xf32>) -> tensor<4xf32>\n"
    "\"keel.return\"(%q) : (tensor<4xf32>) -> ()\n}, {\n"
    "^bb0(%r: tensor<4xf32>, %s: tensor<4xf32>):\n"
    "%t = \"onnx.Mul\"(%r, %s) : (tensor<4xf32>, tensor<4xf32>) ->"
    " tensor<4xf32>\n"
    "\"keel.return\"(%t) : (tensor<4xf32>) -> ()\n"
    "}) {keel.graphs = [{attribute = \"then_branch\", captures = 1 : i64},"
    " {attribute = \"else_branch\", captures = 2 : i64}]} : (tensor<i1>,"
    " tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
    "%c = \"onnx.Add\"(%b, %a) : (tensor<4xf32>, tensor<4xf32>) ->"
    " tensor<4xf32>\n"
    "\"keel.return\"(%c) : (tensor<4xf32>) -> ()\n}) : () -> ()\n";

static uint32_t graphs_seen, branch_claims;

/* All of main; nothing of the branches, which are shown only where the If is left. */
static void claim_main(const kd_host *host, const kd_graph *graph,
                       kd_claim take, void *to) {
  uint32_t nodes[MOST], count = host->graph->node_count(graph);
  bool is_main = false;
  for (uint32_t i = 0; i < count; i++) {
    const kd_node *node = host->graph->node(graph, i);
    is_main |= !strcmp(host->node->op(node), "If");
    assert_int_equal(host->graph->claimable(graph, i), 1);
    nodes[i] = i;
  }
  graphs_seen++;
  branch_claims += !is_main;
  const kd_part part = {
      .struct_size = sizeof part, .nodes = nodes, .node_count = count};
  if (is_main && take(to, &part) != KD_OK) fail_msg("%s", keel_message());
}

TEST_THAT(an_if_is_taken_with_its_graphs) {
  keel_program *program = load_text(context, choice);
  float data[SIZE] = {-2, -0.5f, 1, 3}, got[SIZE];
  toy->claim = claim_main;
  graphs_seen = branch_claims = 0;
  keel_plan *plan = plan_of(program, NULL, NULL);
  assert_int_equal(graphs_seen, 1);
  for (uint8_t yes = 0; yes < 2; yes++) {
    keel_tensor *in[2] = {floats(context, SIZE, data), NULL}, *y = NULL;
    expect_ok(keel_tensor_create(context, KD_BOOL, 0, NULL, &yes, &in[1]));
    expect_ok(keel_plan_run(plan, in, 2, &y, 1));
    expect_ok(keel_tensor_read(y, got, sizeof got));
    for (int i = 0; i < SIZE; i++) {
      float a = -data[i], b = yes ? (a < 0 ? -a : a) : a * data[i];
      assert_true(got[i] == b + a);
    }
    release_all(in, 2);
    keel_tensor_release(y);
  }
  assert_int_equal(atomic_load(&toy->launched), 2);
  keel_plan_release(plan);
  /* where it can't be compiled, the branches are shown */
  toy->compiles = KD_UNIMPLEMENTED;
  keel_plan_release(plan_of(program, NULL, NULL));
  assert_int_equal(graphs_seen, 4);
  assert_int_equal(branch_claims, 2);
  keel_program_release(program);
}

/* A body is shown with types that it keeps from round to round: they are compiled once. */
static void claim_body(const kd_host *host, const kd_graph *graph,
                       kd_claim take, void *to) {
  const kd_node *node = host->graph->node(graph, 0);
  const uint32_t first = 0;
  const kd_part part = {
      .struct_size = sizeof part, .nodes = &first, .node_count = 1};
  kd_type type;
  if (strcmp(host->node->op(node), "Neg") != 0) return;
  expect_ok(host->node->input_type(node, 0, &type));
  assert_int_equal(type.dtype, KD_F32);
  assert_int_equal(type.rank, 1);
  assert_int_equal(type.dims[0], SIZE);
  expect_ok(take(to, &part));
}

TEST_THAT(a_loops_body_is_shown) {
  keel_program *program = load_text(
      context,
      "\"keel.program\"() ({\n^bb0(%x: tensor<4xf32>):\n"
      "%three = \"keel.constant\"() {value = dense<3> : tensor<i64>} : () ->"
      " tensor<i64>\n"
      "%yes = \"keel.constant\"() {value = dense<true> : tensor<i1>} : () ->"
      " tensor<i1>\n"
      "%y = \"onnx.Loop\"(%three, %yes, %x) ({\n"
      "^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<*xf32>):\n"
      "%n = \"onnx.Neg\"(%v) : (tensor<*xf32>) -> tensor<*xf32>\n"
      "\"keel.return\"(%c, %n) : (tensor<i1>, tensor<*xf32>) -> ()\n"
      "}) {keel.graphs = [{attribute = \"body\", captures = 0 : i64}]} :"
      " (tensor<i64>, tensor<i1>, tensor<4xf32>) -> tensor<4xf32>\n"
      "\"keel.return\"(%y) : (tensor<4xf32>) -> ()\n}) : () -> ()\n");
  float got[SIZE];
  toy->claim = claim_body;
  keel_plan *plan = plan_of(program, NULL, NULL);
  run(plan, program, SIZE, got);
  assert_true(got[0] == 1.25f && got[2] == -0.75f);
  assert_int_equal(atomic_load(&toy->made), 1);
  assert_int_equal(atomic_load(&toy->launched), 3);
  RELEASE(plan, program);
}

/* The layers stand before a compiler, too. */
TEST_BETWEEN(layers_see_regions, open_layered, close_all) {
  static const char *const lines[] = {" a Neg x", " b Abs a", NULL};
  static const wish list[] = {{"ab", KD_OK}, {NULL, KD_OK}};
  uint32_t errors = keel_layers_errors();
  wishes = list;
  toy->claim = by_wishes;
  keel_program *program = read_program(lines, false);
  keel_plan *plan = plan_of(program, NULL, NULL);
  for (int i = 1; i < 5; i++) {
    static const float data[SIZE] = {1, -2, 3, -4}, want[] = {1, 2, 3, 4};
    keel_tensor *x = floats(context, SIZE, data), *y = NULL;
    keel_status status = keel_plan_run(plan, &x, 1, &y, 1);
    assert_int_equal(status, i == 3 ? KD_ABORTED : KD_OK);
    if (y) expect_floats(y, want, SIZE);
    if (!y) expect_message("call 3 of region.enqueue was made to fail");
    if (!y) expect_message("while compiler:0 ran Region \"Neg+Abs b");
    RELEASE(x, y);
  }
  RELEASE(plan, program);
  assert_int_equal(keel_layers_errors(), errors);
}

/* ---- any program, any claims ---------------------------------------------------------- */

static uint32_t seed, taken, refused;

static uint32_t random_below(uint32_t most) {
  seed = seed * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(seed >> 8) * most >> 24);
}

typedef struct picture {
  uint32_t n, owner[MOST]; /* 0: nobody's */
  bool edge[MOST][MOST], alike[MOST][MOST];
} picture;

static void draw(const kd_host *host, const kd_graph *graph, picture *p) {
  const kd_graph_table *read = host->graph;
  *p = (picture){.n = read->node_count(graph)};
  for (uint32_t a = 0; a < p->n; a++)
    for (uint32_t b = 0; b < p->n; b++)
      for (uint32_t i = 0; i < 2; i++) {
        uint32_t x = read->node_input(graph, b, i);
        p->edge[a][b] |= read->node_output(graph, a, 0) == x;
        for (uint32_t k = 0; k < 2; k++)
          p->alike[a][b] |=
              x != UINT32_MAX && a != b && read->node_input(graph, a, k) == x;
      }
}

/* By the book: whether those of one owner hang together, and no owners go in a circle. */
static bool is_good(const picture *p, uint32_t id) {
  bool joined[MOST] = {false}, gone[MOST] = {false};
  uint32_t first = 0, left = p->n;
  while (p->owner[first] != id)
    first++;
  joined[first] = true;
  for (uint32_t round = 0; round < p->n; round++)
    for (uint32_t a = 0; a < p->n; a++)
      for (uint32_t b = 0; b < p->n; b++)
        if (joined[a] && p->owner[b] == id &&
            (p->edge[a][b] || p->edge[b][a] || p->alike[a][b]))
          joined[b] = true;
  for (uint32_t a = 0; a < p->n; a++)
    if (p->owner[a] == id && !joined[a]) return false;
  for (bool more = true; more;) { /* takes away who needs nobody that is left */
    more = false;
    for (uint32_t a = 0; a < p->n; a++) {
      bool needs = gone[a];
      for (uint32_t m = 0; m < p->n; m++) /* a, or one of its owner */
        for (uint32_t b = 0; b < p->n; b++)
          needs |= (m == a || (p->owner[a] && p->owner[m] == p->owner[a])) &&
                   p->edge[b][m] && !gone[b] && b != a &&
                   !(p->owner[a] && p->owner[b] == p->owner[a]);
      if (needs) continue;
      for (uint32_t m = 0; m < p->n; m++)
        if (!gone[m] &&
            (m == a || (p->owner[a] && p->owner[m] == p->owner[a]))) {
          gone[m] = true;
          left--;
        }
      more = true;
    }
  }
  return !left;
}

static void by_chance(const kd_host *host, const kd_graph *graph, kd_claim take,
                      void *to) {
  picture p;
  draw(host, graph, &p);
  for (uint32_t id = 1; id < 8; id++) {
    uint32_t nodes[MOST], count = 0, from = random_below(p.n);
    for (uint32_t i = from; i < p.n && count < 6; i++)
      if (!p.owner[i] && random_below(3)) nodes[count++] = i;
    if (!count) continue;
    for (uint32_t i = 0; i < count; i++)
      p.owner[nodes[i]] = id;
    bool good = is_good(&p, id);
    const kd_part part = {
        .struct_size = sizeof part, .nodes = nodes, .node_count = count};
    kd_status status = take(to, &part);
    if (status != (good ? KD_OK : KD_INVALID_ARGUMENT))
      fail_msg("seed %u: a %s claim is answered by %s", seed,
               good ? "good" : "bad", kd_status_name(status));
    for (uint32_t i = 0; !good && i < count; i++)
      p.owner[nodes[i]] = 0;
    good ? taken++ : refused++;
  }
}

TEST_THAT(any_claims_of_any_program) {
  for (uint32_t round = 0; round < 300; round++) {
    static const char *const ops[] = {"Neg", "Abs", "Add", "Mul"};
    char text[MOST][24];
    const char *lines[MOST + 1] = {NULL};
    float want[MOST * SIZE], got[MOST * SIZE];
    seed = round * 77 + 1;
    uint32_t n = 4 + random_below(20);
    for (uint32_t i = 0; i < n; i++) { /* values: x, then a, b ... */
      uint32_t a = random_below(i + 1), b = random_below(i + 1);
      const char *op = ops[random_below(4)];
      bool two = *op == 'M' || op[1] == 'd';
      snprintf(text[i], sizeof text[i], "%c%c %s %c %c",
               random_below(4) ? ' ' : '*', (int)('a' + i % 23), op,
               (int)(a ? 'a' + a - 1 : 'x'),
               (int)(!two ? 0
                     : b  ? 'a' + b - 1
                          : 'x'));
      lines[i] = text[i];
    }
    keel_program *program = read_program(lines, false);
    keel_plan *plain = plan_of(program, NULL, "regions");
    uint32_t count = run(plain, program, SIZE, want);
    toy->claim = by_chance;
    keel_plan *plan = plan_of(program, NULL, NULL);
    for (int i = 0; i < 3; i++) {
      run(plan, program, SIZE, got);
      assert_memory_equal(got, want, count * sizeof *got);
    }
    toy->claim = NULL;
    RELEASE(plain, plan, program);
  }
  assert_true(taken > 300 && refused > 300);
  assert_int_equal(atomic_load(&toy->live), 0);
}

int main(void) {
  setenv("XDG_CACHE_HOME", "/dev/null/none", 1); /* each run compiles anew */
  around_each(open_all, close_all);
  return tests_run(NULL, NULL);
}
