/* openmp.c - a graph as OpenMP 5 tasks: depend clauses say what waits for what, and are
 * read anew in each run, as the language has it. */
#include <stdlib.h>
#include <time.h>

#include "graph.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void run_once(const graph *graph, uint32_t spins, const char *done) {
  for (uint32_t i = 0; i < graph->count; i++) {
    const uint32_t *before = graph->before + graph->first[i];
    int n = (int)(graph->first[i + 1] - graph->first[i]);
    (void)done;
    (void)before;
    (void)n;
#pragma omp task firstprivate(spins) depend(iterator(k = 0     \
                                                     : n),     \
                                            in                 \
                                            : done[before[k]]) \
    depend(out                                                 \
           : done[i])
    graph_spin(spins);
  }
#pragma omp taskwait
}

double openmp_run(const graph *graph, int threads, uint32_t spins, int runs) {
  char *done = calloc(graph->count, 1);
  double begin = 0, end = 0;
  if (!done) abort();
#pragma omp parallel num_threads(threads)
#pragma omp single
  {
    for (int i = 0; i < GRAPH_WARM; i++)
      run_once(graph, spins, done);
    begin = now();
    for (int i = 0; i < runs; i++)
      run_once(graph, spins, done);
    end = now();
  }
  free(done);
  return (end - begin) / runs;
}
