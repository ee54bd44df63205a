/* kept_test.c - what a device's compiler made is kept: the next process compiles nothing. */
#include <kd/kd.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"
#include "toy/toy.h"

static char folder[] = "/tmp/keel-kept-XXXXXX";

SETUP(make_folder) {
  return mkdtemp(folder) && setenv("XDG_CACHE_HOME", folder, 1) == 0 ? 0 : -1;
}

SETUP(remove_folder) {
  return remove_all(folder);
}

/* ---- one process ------------------------------------------------------------------ */

/* What a process found: how many parts were compiled, how many came from the store. */
typedef struct found {
  int compiled, loaded;
} found;

/* All nodes of the graph, as one part. */
static void claim_all(const kd_host *host, const kd_graph *graph, kd_claim take,
                      void *to) {
  uint32_t nodes[16], count = host->graph->node_count(graph);
  for (uint32_t i = 0; i < count; i++)
    nodes[i] = i;
  const kd_part part = {
      .struct_size = sizeof part, .nodes = nodes, .node_count = count};
  take(to, &part);
}

/* |-x| + weight, with names of its own. */
static keel_program *make_program(keel_context *context, float weight,
                                  const char *name) {
  const float weights[] = {weight, weight, weight, weight};
  keel_builder *builder = create_builder(context, name);
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  keel_value neg = op(builder, "Neg", x, KEEL_ABSENT);
  keel_builder_output(builder, name,
                      op(builder, "Add", op(builder, "Abs", neg, KEEL_ABSENT),
                         constant_of(builder, floats(context, 4, weights))));
  return finish_program(builder);
}

static void run(keel_context *context, keel_device *device, float weight,
                const char *name) {
  const float data[] = {1, -2, 3, -4};
  const float want[] = {1 + weight, 2 + weight, 3 + weight, 4 + weight};
  keel_program *program = make_program(context, weight, name);
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = device));
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  expect_floats(y, want, 4);
  RELEASE(x, y, plan, program);
}

/* Runs one program in a process of its own. */
static found in_a_process(float weight, const char *name, kd_status judges) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    keel_device *device = NULL;
    keel_context *context = open_with(TOY("compiler"), CPU_PLUGIN, 1);
    if (keel_device_find(context, "compiler", &device) != KD_OK) _exit(99);
    toy_state *toy = toy_of(TOY("compiler"));
    toy->claim = claim_all;
    toy->judges = judges;
    run(context, device, weight, name);
    int result = toy->made * 10 + toy->loaded;
    if (toy->live) result = 98;
    keel_close(context);
    exit(result);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 90);
  return (found){WEXITSTATUS(status) / 10, WEXITSTATUS(status) % 10};
}

static void expect(found got, int compiled, int loaded) {
  assert_int_equal(got.compiled, compiled);
  assert_int_equal(got.loaded, loaded);
}

/* ---- tests ------------------------------------------------------------------------- */

TEST_THAT(the_next_process_compiles_nothing) {
  expect(in_a_process(1, "y", KD_OK), 1, 0);
  expect(in_a_process(1, "y", KD_OK), 0, 1);
  expect(in_a_process(1, "renamed", KD_OK), 0, 1); /* names count for nothing */
}

TEST_THAT(other_weights_are_another_region) {
  expect(in_a_process(2, "y", KD_OK), 1, 0);
  expect(in_a_process(3, "y", KD_OK), 1, 0);
  expect(in_a_process(2, "y", KD_OK), 0, 1);
}

/* A new driver refuses what the old one made; what it makes takes its place. */
TEST_THAT(what_the_device_refuses_is_compiled_anew) {
  expect(in_a_process(4, "y", KD_OK), 1, 0);
  expect(in_a_process(4, "y", KD_INCOMPATIBLE), 1, 0);
  expect(in_a_process(4, "y", KD_OK), 0, 1);
}

TEST_THAT(options_make_another_region) {
  expect(in_a_process(6, "y", KD_OK), 1, 0);
  setenv("KEEL_COMPILER_FAST", "yes", 1);
  expect(in_a_process(6, "y", KD_OK), 1, 0);
  expect(in_a_process(6, "y", KD_OK), 0, 1);
  unsetenv("KEEL_COMPILER_FAST");
  expect(in_a_process(6, "y", KD_OK), 0, 1);
}

TEST_THAT(without_a_store_each_process_compiles) {
  setenv("XDG_CACHE_HOME", "/dev/null/nowhere", 1);
  expect(in_a_process(5, "y", KD_OK), 1, 0);
  expect(in_a_process(5, "y", KD_OK), 1, 0);
  setenv("XDG_CACHE_HOME", folder, 1);
}

RUN_TESTS(make_folder, remove_folder)
