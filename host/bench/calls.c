/* calls.c - what opening and calling cost: each line the least of many measurements. */
#include <stdlib.h>

#include "bench.h"

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
    double begin = bench_now();
    for (int i = 0; i < calls; i++)
      work();
    double time = (bench_now() - begin) / calls;
    best = time < best ? time : best;
  }
  return best;
}

/* Ops one by one, or as the device compiles them. */
static keel_plan *chain(int length, bool compiled) {
  const char *regions = "regions";
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .skip = &regions,
                                   .skip_count = compiled ? 0 : 1};
  const int64_t four = 4;
  keel_builder *builder = NULL;
  keel_program *program = NULL;
  keel_plan *made = NULL;
  keel_builder_create(context, "chain", &builder);
  keel_value y = keel_builder_input(builder, "x", KD_F32, 1, &four);
  for (int i = 0; i < length; i++)
    y = keel_builder_op(builder, "Relu", NULL, 0, &y, 1);
  keel_builder_output(builder, "y", y);
  bench_need(keel_builder_finish(builder, &program));
  bench_need(keel_plan_create(program, &params, &made));
  keel_builder_destroy(builder);
  keel_program_release(program);
  return made;
}

static void open_and_close(void) {
  keel_context *opened = NULL;
  if (keel_open(NULL, &opened) != KD_OK) exit(1);
  keel_close(opened);
}

void bench_calls(void) {
  const int64_t four = 4;
  keel_context_params bare = {.struct_size = sizeof bare,
                              .flags = KEEL_ONLY_NAMED};
  double start = bench_now();
  bench_need(keel_open(&bare, &context));
  double without = bench_now();
  keel_close(context);
  double begin = bench_now();
  bench_need(keel_open(NULL, &context));
  double opened = bench_now();
  bench_need(keel_tensor_create(context, KD_F32, 1, &four, NULL, &x));
  bench_need(keel_op_prepare(context, "Relu", NULL, 0, NULL, &prepared));
  call_prepared();
  double called = bench_now();
  bench_line("opening: table of ops and threads", without - start, "ms");
  bench_line("  finding, linking, opening plugins", opened - begin, "ms");
  bench_line("  preparing and calling the first op", called - opened, "ms");
  bench_line("malloc and free of 64 bytes", measure(call_malloc, 200000), "ns");
  bench_line("an indirect call", measure(call_indirect, 200000), "ns");
  bench_line("Relu on 4 floats, prepared", measure(call_prepared, 100000),
             "ns");
  bench_line("the same by name", measure(call_by_name, 100000), "ns");
  plan = chain(1000, false);
  bench_line("a chain of 1000 Relu on 4 floats", measure(run_plan, 50) / 1000,
             "ns a node");
  keel_plan_release(plan);
  plan = chain(1000, true);
  bench_line("the same in regions of the device", measure(run_plan, 50) / 1000,
             "ns a node");
  keel_plan_release(plan);
  keel_op_release(prepared);
  keel_tensor_release(x);
  keel_close(context);
  bench_line("opening and closing again", measure(open_and_close, 3), "ms");
}
