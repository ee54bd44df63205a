/* changes.c - one plan whose nodes' costs change between runs: how close its runs are to the
 * best that its threads could do, and how many runs it takes to get there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "graph.h"

enum { RUNS = 60, MICROSECONDS = 20 };

/* Microseconds of node i in each phase. */
typedef struct phase {
  const char *name;
  uint32_t (*cost)(uint32_t node);
} phase;

static uint32_t none(uint32_t node) {
  (void)node;
  return 0;
}

static uint32_t one(uint32_t node) {
  (void)node;
  return 1;
}

static uint32_t many(uint32_t node) {
  (void)node;
  return MICROSECONDS;
}

static uint32_t one_in_ten(uint32_t node) {
  return node % 10 ? 0 : MICROSECONDS;
}

/* All that is expensive in one place. */
static uint32_t lump(uint32_t node) {
  return node / 100 == 3 ? MICROSECONDS : 0;
}

static uint32_t uneven(uint32_t node) {
  return node * 2654435761u >> 27; /* 0 to 31; Knuth's */
}

static const phase phases[] = {
    {"empty", none},       {"20 us", many},
    {"empty again", none}, {"1 us", one},
    {"uneven", uneven},    {"one in ten 20 us", one_in_ten},
    {"1 us again", one},   {"a lump of 20 us", lump},
    {"20 us again", many}, {"empty at last", none},
};

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const double *times, int count) {
  double sorted[RUNS];
  memcpy(sorted, times, (size_t)count * sizeof *times);
  qsort(sorted, (size_t)count, sizeof *sorted, by_size);
  return sorted[count / 2];
}

/* Runs before the first two in turn that are as quick as the last ones. */
static int runs_to(const double *times, double usual) {
  int i = 0;
  while (i + 1 < RUNS &&
         (times[i] > 1.15 * usual || times[i + 1] > 1.15 * usual))
    i++;
  return i;
}

static void set_costs(graph_costs *costs, const phase *phase, double spins) {
  for (uint32_t i = 0; i < GRAPH_COSTS; i++)
    costs->spins[i] = (uint32_t)(phase->cost(i) * spins);
}

/* Nanoseconds a node of one thread that does nothing else. */
static double alone(const graph_costs *costs) {
  double begin = bench_now();
  for (uint32_t k = 0; k < GRAPH_COSTS; k++)
    graph_spin(costs->spins[k]);
  return (bench_now() - begin) / GRAPH_COSTS;
}

/* Runs, and what the nodes take alone, in turn: a machine's clock may change meanwhile. */
static void run_phase(keel_plan *plan, keel_tensor *x, const graph *graph,
                      const graph_costs *costs, double *times, double *ideals) {
  for (int i = 0; i < RUNS; i++) {
    keel_tensor *y = NULL;
    double begin = bench_now();
    bench_need(keel_plan_run(plan, &x, 1, &y, 1));
    times[i] = (bench_now() - begin) / graph->count;
    keel_tensor_release(y);
    ideals[i] = alone(costs);
  }
}

/* A node that does not spin would look like a runtime that takes no time. */
static void need_work(const char *phase, double ideal, double usual) {
  if (ideal < 100 || usual > 0.8 * ideal) return;
  fprintf(stderr, "bench: nodes of \"%s\" take %g ns, less than alone (%g)\n",
          phase, usual, ideal);
  exit(1);
}

static void change(const graph *graph, int threads, double spins) {
  static graph_costs costs;
  keel_context *context = NULL;
  char option[64];
  bool chain = !strcmp(graph->name, "chain");
  snprintf(option, sizeof option, "nodes.costs=%llx",
           (unsigned long long)(uintptr_t)&costs);
  set_costs(&costs, &phases[0], spins);
  bench_need(graph_open(threads, option, &context));
  keel_tensor *x = graph_input(context);
  keel_plan *plan = graph_plan(context, graph);
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    double times[RUNS], ideals[RUNS];
    set_costs(&costs, &phases[i], spins);
    run_phase(plan, x, graph, &costs, times, ideals);
    double usual = median(times + RUNS / 2, RUNS - RUNS / 2);
    double ideal =
        median(ideals + RUNS / 2, RUNS - RUNS / 2) / (chain ? 1 : threads);
    need_work(phases[i].name, ideal, usual);
    bench_change_line(&(bench_change){graph->name, phases[i].name, threads,
                                      ideal, usual, runs_to(times, usual)});
  }
  keel_plan_release(plan);
  keel_tensor_release(x);
  keel_close(context);
}

void bench_changes(void) {
  double spins = graph_spins_of_a_microsecond();
  for (int kind = 0; kind < GRAPH_COUNT; kind++)
    for (int threads = 1; threads <= 2; threads++) {
      graph graph = graph_make(kind);
      change(&graph, threads, spins);
      graph_free(&graph);
    }
}
