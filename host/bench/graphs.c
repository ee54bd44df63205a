/* graphs.c - graphs of tasks, by Keel and by its peers in turn. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "graph.h"

enum { RUNS = 60 };

uint32_t graph_spins_of_a_microsecond(void) {
  const uint32_t many = 1000000;
  double best = 1e30;
  for (int i = 0; i < 5; i++) {
    double begin = bench_now();
    graph_spin(many);
    double time = bench_now() - begin;
    best = time < best ? time : best;
  }
  return (uint32_t)(many * 1000.0 / best);
}

#ifndef KEEL_WITH_OPENMP
double openmp_run(const graph *graph, int threads, uint32_t spins, int runs) {
  (void)graph, (void)threads, (void)spins, (void)runs;
  return -1;
}
#endif
#ifndef KEEL_WITH_TBB
double tbb_run(const graph *graph, int threads, uint32_t spins, int runs) {
  (void)graph, (void)threads, (void)spins, (void)runs;
  return -1;
}
#endif

/* ---- as a program ----------------------------------------------------------- */

keel_plan *graph_plan(keel_context *context, const graph *graph) {
  static const char *const skip[] = {"prune", "algebra", "fold", "cse"};
  const keel_plan_params params = {
      .struct_size = sizeof params, .skip = skip, .skip_count = 4};
  keel_builder *builder = NULL;
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_value *values = calloc(2 * (size_t)graph->count, sizeof *values);
  if (!values) exit(1);
  keel_value *before = values + graph->count;
  bench_need(keel_builder_create(context, graph->name, &builder));
  keel_value x = keel_builder_input(builder, "x", KD_F32, 0, NULL);
  for (uint32_t i = 0; i < graph->count; i++) {
    uint32_t n = graph->first[i + 1] - graph->first[i];
    for (uint32_t k = 0; k < n; k++)
      before[k] = values[graph->before[graph->first[i] + k]];
    if (!n) before[n++] = x;
    values[i] = keel_builder_op(builder, "Sum", NULL, 0, before, n);
  }
  keel_builder_output(builder, "y", values[graph->count - 1]);
  bench_need(keel_builder_finish(builder, &program));
  bench_need(keel_plan_create(program, &params, &plan));
  keel_builder_destroy(builder);
  keel_program_release(program);
  free(values);
  return plan;
}

keel_status graph_open(int threads, const char *option,
                       keel_context **out_context) {
  const char *path = NODES_PLUGIN;
  const keel_context_params params = {
      .struct_size = sizeof params,
      .flags = KEEL_ONLY_NAMED,
      .plugins = &path,
      .plugin_count = 1,
      .workers = threads > 1 ? threads - 1 : KEEL_NO_WORKERS,
      .options = &option,
      .option_count = 1};
  return keel_open(&params, out_context);
}

keel_tensor *graph_input(keel_context *context) {
  const float one = 1;
  keel_tensor *x = NULL;
  bench_need(keel_tensor_create(context, KD_F32, 0, NULL, &one, &x));
  return x;
}

static double keel_run(const graph *graph, int threads, uint32_t spins,
                       int runs) {
  char option[64];
  keel_context *context = NULL;
  snprintf(option, sizeof option, "nodes.spins=%u", (unsigned)spins);
  bench_need(graph_open(threads, option, &context));
  keel_tensor *x = graph_input(context);
  keel_plan *plan = graph_plan(context, graph);
  double begin = 0;
  for (int i = -GRAPH_WARM; i < runs; i++) {
    keel_tensor *y = NULL;
    if (!i) begin = bench_now();
    bench_need(keel_plan_run(plan, &x, 1, &y, 1));
    keel_tensor_release(y);
  }
  double time = (bench_now() - begin) / runs;
  keel_plan_release(plan);
  keel_tensor_release(x);
  keel_close(context);
  return time;
}

/* ---- in turn ------------------------------------------------------------------ */

static void take_least(double *least, double time, uint32_t count) {
  if (*least == 0 || time / count < *least) *least = time / count;
}

void bench_graphs(int rounds) {
  uint32_t microsecond = graph_spins_of_a_microsecond();
  for (int busy = 0; busy < 2; busy++)
    for (int kind = 0; kind < GRAPH_COUNT; kind++)
      for (int threads = 1; threads <= 2; threads++) {
        graph graph = graph_make(kind);
        bench_graph all = {
            .name = graph.name, .threads = threads, .empty = !busy};
        uint32_t spins = busy ? microsecond : 0;
        int runs = busy ? RUNS / 6 : RUNS;
        for (int i = 0; i < rounds; i++) {
          take_least(&all.keel, keel_run(&graph, threads, spins, runs),
                     graph.count);
          take_least(&all.openmp, openmp_run(&graph, threads, spins, runs),
                     graph.count);
          take_least(&all.tbb, tbb_run(&graph, threads, spins, runs),
                     graph.count);
        }
        bench_graph_line(&all);
        graph_free(&graph);
      }
}
