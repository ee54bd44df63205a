/* bench.h - what the parts of the benchmark share. */
#ifndef KEEL_BENCH_H
#define KEEL_BENCH_H

#include <keel/keel.h>
#include <stdbool.h>

/* Nanoseconds. */
double bench_now(void);

/* Ends the program with the runtime's message where a call failed. */
void bench_need(keel_status status);

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

#endif /* KEEL_BENCH_H */
