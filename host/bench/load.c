/* load.c - a server's load: application threads that run one plan, a plan each, or a plan each in a
 * context of its own. Runs a second of all threads together, and how long one takes: the median, and
 * the 99th of a hundred.
 *
 * usage: build/release/bench/load MODEL.onnx [THREADS...]    1 2 4 8; random inputs, open sizes are 1
 *
 * Beside each column stands its figure over the best of all threads' numbers. The last lines are of
 * small runs beside a thread whose runs are the model's with its first open size 64 times as large:
 * how long one takes alone, and beside it. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "bench.h"

#define SECONDS 1.0
#define MOST    1000000 /* runs of a thread */

typedef struct client {
  keel_context *context;
  keel_plan *plan;
  keel_tensor **inputs;
  uint32_t input_count, output_count;
  double *times;
  uint32_t runs;
  pthread_t thread;
} client;

static atomic_bool begins, ends;

static void client_run(const client *c) {
  keel_tensor *outputs[64] = {NULL};
  bench_need(keel_plan_run(c->plan, c->inputs, c->input_count, outputs,
                           c->output_count));
  for (uint32_t i = 0; i < c->output_count; i++)
    keel_tensor_release(outputs[i]);
}

static void *client_work(void *context) {
  client *c = context;
  client_run(c);
  client_run(c);
  while (!atomic_load(&begins)) {
  }
  while (!atomic_load(&ends) && c->runs < MOST) {
    double began = bench_now();
    client_run(c);
    c->times[c->runs++] = bench_now() - began;
  }
  return NULL;
}

/* Inputs of random numbers; a size that is open is `open`, the first one, or 1. */
static void client_fill(client *c, int64_t open) {
  c->input_count = keel_plan_input_count(c->plan);
  c->output_count = keel_plan_output_count(c->plan);
  c->inputs = calloc(c->input_count + 1, sizeof *c->inputs);
  if (!c->inputs || c->output_count > 64) exit(1);
  for (uint32_t i = 0; i < c->input_count; i++) {
    keel_port port;
    int64_t dims[KD_MAX_RANK], elements = 1;
    bench_need(keel_plan_input(c->plan, i, &port));
    for (uint32_t k = 0; k < port.rank; k++) {
      dims[k] = port.dims[k] >= 0 ? port.dims[k] : k == 0 ? open : 1;
      elements *= dims[k];
    }
    if (port.dtype != KD_F32) {
      fprintf(stderr, "load: input \"%s\" is not of f32\n", port.name);
      exit(1);
    }
    float *data = malloc((size_t)elements * sizeof *data + 1);
    for (int64_t k = 0; data && k < elements; k++)
      data[k] = (float)(rand() % 2001 - 1000) / 1000;
    bench_need(keel_tensor_create(c->context, KD_F32, port.rank, dims, data,
                                  &c->inputs[i]));
    free(data);
  }
}

static void client_drop(client *c) {
  for (uint32_t i = 0; i < c->input_count; i++)
    keel_tensor_release(c->inputs[i]);
  free(c->inputs);
  free(c->times);
}

static keel_plan *load_plan(keel_context *context, const char *file) {
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  bench_need(keel_program_load(context, file, &program));
  bench_need(keel_plan_create(program, NULL, &plan));
  keel_program_release(program);
  return plan;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Lets clients run; the times of the first `counted` together, sorted. */
static double *clients_run(client *all, int count, int counted,
                           uint32_t *out_runs) {
  struct timespec pause = {(time_t)SECONDS, 0};
  atomic_store(&begins, false);
  atomic_store(&ends, false);
  for (int i = 0; i < count; i++) {
    all[i].times = malloc(MOST * sizeof(double));
    if (!all[i].times ||
        pthread_create(&all[i].thread, NULL, client_work, &all[i]))
      exit(1);
  }
  nanosleep(&(struct timespec){0, 300000000}, NULL);
  atomic_store(&begins, true);
  nanosleep(&pause, NULL);
  atomic_store(&ends, true);
  *out_runs = 0;
  for (int i = 0; i < count; i++)
    pthread_join(all[i].thread, NULL);
  for (int i = 0; i < counted; i++)
    *out_runs += all[i].runs;
  double *times = malloc((*out_runs + (size_t)1) * sizeof *times);
  if (!times) exit(1);
  for (uint32_t i = 0, at = 0; i < (uint32_t)counted; at += all[i++].runs)
    memcpy(times + at, all[i].times, all[i].runs * sizeof *times);
  qsort(times, *out_runs, sizeof *times, compare);
  return times;
}

typedef enum kind { ONE_PLAN, PLANS, CONTEXTS } kind;

typedef struct row {
  double rate, median, late;
} row;

static row measure(const char *file, kind kind, int threads) {
  keel_context *contexts[64] = {NULL};
  client all[64] = {{0}};
  uint32_t runs = 0;
  for (int i = 0; i < threads; i++) {
    if (i == 0 || kind == CONTEXTS) bench_need(keel_open(NULL, &contexts[i]));
    all[i].context = contexts[kind == CONTEXTS ? i : 0];
    all[i].plan = i == 0 || kind != ONE_PLAN ? load_plan(all[i].context, file)
                                             : all[0].plan;
    client_fill(&all[i], 1);
  }
  double *times = clients_run(all, threads, threads, &runs);
  row found = {runs / SECONDS, times[runs / 2], times[runs - 1 - runs / 100]};
  free(times);
  for (int i = 0; i < threads; i++) {
    client_drop(&all[i]);
    if (i == 0 || kind != ONE_PLAN) keel_plan_release(all[i].plan);
  }
  for (int i = 0; i < threads; i++)
    if (contexts[i]) keel_close(contexts[i]);
  return found;
}

/* Small runs alone, and beside large ones of another thread. */
static void measure_beside(const char *file) {
  for (int beside = 0; beside < 2; beside++) {
    keel_context *context = NULL;
    client all[2] = {{0}};
    uint32_t runs = 0;
    bench_need(keel_open(NULL, &context));
    for (int i = 0; i < 1 + beside; i++) {
      all[i].context = context;
      all[i].plan = load_plan(context, file);
      client_fill(&all[i], i ? 64 : 1);
    }
    double *times = clients_run(all, 1 + beside, 1, &runs);
    printf("%-22s %10.1f %10.1f %10.1f\n",
           beside ? "small beside large" : "small alone", runs / SECONDS,
           times[runs / 2] / 1e3, times[runs - 1 - runs / 100] / 1e3);
    free(times);
    for (int i = 0; i < 1 + beside; i++) {
      client_drop(&all[i]);
      keel_plan_release(all[i].plan);
    }
    keel_close(context);
  }
}

int main(int argc, char **argv) {
  static const char *const names[] = {"one plan", "a plan each",
                                      "a context each"};
  int threads[16] = {1, 2, 4, 8}, count = argc > 2 ? argc - 2 : 4;
  if (argc < 2 || argc > 18) {
    fprintf(stderr, "usage: load MODEL.onnx [THREADS...]\n");
    return 2;
  }
  for (int i = 2; i < argc; i++) {
    char *end = NULL;
    threads[i - 2] = (int)strtol(argv[i], &end, 10);
    if (*end || threads[i - 2] < 1 || threads[i - 2] > 64) {
      fprintf(stderr, "load: \"%s\" is not a number of threads, 1 to 64\n",
              argv[i]);
      return 2;
    }
  }
  printf("%-14s threads     runs/s        median us        99th us\n", "");
  for (kind kind = ONE_PLAN; kind <= CONTEXTS; kind++) {
    row rows[16];
    double best = 0;
    for (int i = 0; i < count; i++) {
      rows[i] = measure(argv[1], kind, threads[i]);
      best = rows[i].rate > best ? rows[i].rate : best;
    }
    for (int i = 0; i < count; i++)
      printf("%-14s %7d %10.1f %4.2f %12.1f %14.1f\n", names[kind], threads[i],
             rows[i].rate, rows[i].rate / best, rows[i].median / 1e3,
             rows[i].late / 1e3);
  }
  measure_beside(argv[1]);
  return 0;
}
