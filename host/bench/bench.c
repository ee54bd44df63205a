/* bench.c - what the runtime itself costs: calls, nodes, opening.
 *
 *   bench         prints a table, each line the least of many measurements */
#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) { /* nanoseconds */
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static keel_context *context;
static keel_tensor *x;
static keel_op *prepared;
static keel_plan *plan;

static void call_malloc(void) {
  void *volatile memory = malloc(64);
  free(memory);
}

static void nothing(void) {}
static void (*volatile indirect)(void) = nothing;
static void call_indirect(void) {
  indirect();
}

static void call_prepared(void) {
  keel_tensor *y = NULL;
  if (keel_op_call(prepared, &x, 1, &y, 1) != KD_OK) exit(1);
  keel_tensor_release(y);
}

static void call_by_name(void) {
  keel_tensor *y = NULL;
  if (keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1) != KD_OK) exit(1);
  keel_tensor_release(y);
}

static void run_plan(void) {
  keel_tensor *y = NULL;
  if (keel_plan_run(plan, &x, 1, &y, 1) != KD_OK) exit(1);
  keel_tensor_release(y);
}

/* Nanoseconds of one call: the least of 15 rounds. */
static double measure(void (*work)(void), int calls) {
  double best = 1e30;
  for (int round = 0; round < 15; round++) {
    double begin = now();
    for (int i = 0; i < calls; i++)
      work();
    double time = (now() - begin) / calls;
    best = time < best ? time : best;
  }
  return best;
}

static keel_plan *chain(int length) {
  const int64_t four = 4;
  keel_builder *builder = NULL;
  keel_program *program = NULL;
  keel_plan *made = NULL;
  keel_builder_create(context, "chain", &builder);
  keel_value y = keel_builder_input(builder, "x", KD_F32, 1, &four);
  for (int i = 0; i < length; i++)
    y = keel_builder_op(builder, "Relu", NULL, 0, &y, 1);
  keel_builder_output(builder, "y", y);
  if (keel_builder_finish(builder, &program) != KD_OK ||
      keel_plan_create(program, NULL, &made) != KD_OK) {
    fprintf(stderr, "bench: %s\n", keel_message());
    exit(1);
  }
  keel_builder_destroy(builder);
  keel_program_release(program);
  return made;
}

static void open_and_close(void) {
  keel_context *opened = NULL;
  if (keel_open(NULL, &opened) != KD_OK) exit(1);
  keel_close(opened);
}

int main(void) {
  const int64_t four = 4;
  keel_context_params bare = {.struct_size = sizeof bare,
                              .flags = KEEL_ONLY_NAMED};
  double start = now();
  if (keel_open(&bare, &context) != KD_OK) {
    fprintf(stderr, "bench: %s\n", keel_message());
    return 1;
  }
  double without = now();
  keel_close(context);
  double begin = now();
  if (keel_open(NULL, &context) != KD_OK) {
    fprintf(stderr, "bench: %s\n", keel_message());
    return 1;
  }
  double opened = now();
  if (keel_tensor_create(context, KD_F32, 1, &four, NULL, &x) != KD_OK ||
      keel_op_prepare(context, "Relu", NULL, 0, NULL, &prepared) != KD_OK) {
    fprintf(stderr, "bench: %s\n", keel_message());
    return 1;
  }
  call_prepared();
  double called = now();
  printf("opening: table of ops and threads       %9.3f ms\n",
         (without - start) * 1e-6);
  printf("  finding, linking, opening plugins     %9.3f ms\n",
         (opened - begin) * 1e-6);
  printf("  preparing and calling the first op    %9.3f ms\n",
         (called - opened) * 1e-6);
  printf("malloc and free of 64 bytes             %9.1f ns\n",
         measure(call_malloc, 200000));
  printf("an indirect call                        %9.1f ns\n",
         measure(call_indirect, 200000));
  printf("Relu on 4 floats, prepared              %9.1f ns\n",
         measure(call_prepared, 100000));
  printf("the same by name                        %9.1f ns\n",
         measure(call_by_name, 100000));
  plan = chain(1000);
  printf("a chain of 1000 Relu on 4 floats        %9.1f ns a node\n",
         measure(run_plan, 50) / 1000);
  keel_plan_release(plan);
  keel_op_release(prepared);
  keel_tensor_release(x);
  keel_close(context);
  printf("opening and closing again               %9.3f ms\n",
         measure(open_and_close, 3) * 1e-6);
  return 0;
}
