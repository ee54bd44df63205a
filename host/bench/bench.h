/* bench.h - what the parts of the benchmark share. */
#ifndef KEEL_BENCH_H
#define KEEL_BENCH_H

#include <keel/keel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Nanoseconds. */
static inline double bench_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Ends the program with the runtime's message where a call failed. */
static inline void bench_need(keel_status status) {
  if (status == KD_OK) return;
  fprintf(stderr, "bench: %s\n", keel_message());
  exit(1);
}

/* A line of the table, and of the JSON file: nanoseconds, shown in `unit` ("ms", or
 * one that begins with "ns"). */
void bench_line(const char *name, double time, const char *unit);

/* One graph by all that run it, nanoseconds a node; a negative one was not built. */
typedef struct bench_graph {
  const char *name;
  int threads;
  bool empty; /* nodes; else they take a microsecond */
  double keel, openmp, tbb;
} bench_graph;

void bench_graph_line(const bench_graph *g);

/* A graph whose costs have changed, nanoseconds a node: the best that the threads could do
 * if nothing came on top, what runs take then, and after how many they do. */
typedef struct bench_change {
  const char *name, *phase;
  int threads;
  double ideal, keel;
  int runs;
} bench_change;

void bench_change_line(const bench_change *c);

/* A model: nanoseconds to load each of its forms, and the bytes of its values in
 * between (see keel_plan_memory). */
typedef struct bench_model {
  const char *name;
  double onnx, text, binary;
  uint64_t planned, apart, least;
  double plain, traced; /* nanoseconds of a run, without a trace and with one */
} bench_model;

void bench_model_line(const bench_model *m);

/* Two models run in turn by two contexts, beside the sum of each alone; nanoseconds. */
void bench_pair_line(const char *first, const char *second, double alone,
                     double in_turn);
void bench_open_line(const char *name, int words, double again, double one);

/* What is measured. */
void bench_calls(void);
void bench_programs(void);
void bench_graphs(int rounds);
void bench_changes(void);

/* ---- graphs.c: a graph as a program ------------------------------------------ */

struct graph;
/* With the nodes' plugin alone, and an option of it. */
keel_status graph_open(int threads, const char *option,
                       keel_context **out_context);
keel_tensor *graph_input(keel_context *context);
/* Nodes are Sums of what they wait for; passes that would merge or drop them are left
 * out. */
keel_plan *graph_plan(keel_context *context, const struct graph *graph);
/* Rounds of graph_spin that take one. */
uint32_t graph_spins_of_a_microsecond(void);

#endif /* KEEL_BENCH_H */
