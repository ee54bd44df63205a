/* programs.c - opening models in their forms, the memory of their plans, and what a
 * trace of their runs costs. */
#include <keel/debug.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "onnx.h"

static const struct {
  const char *name;
  void (*write)(const char *path);
} models[] = {{"ResNet-50", model_resnet50},
              {"MobileNetV2", model_mobilenet},
              {"BERT layer", model_bert_layer}};

/* The least time of some loads; 0: it can't be read. */
static double load_time(keel_context *context, const char *path) {
  double best = 1e30;
  for (int i = 0; i < 9; i++) {
    keel_program *program = NULL;
    double from = bench_now();
    keel_status status = keel_program_load(context, path, &program);
    double time = bench_now() - from;
    keel_program_release(program);
    if (status == KD_UNIMPLEMENTED) return 0; /* without protobuf-c */
    bench_need(status);
    best = time < best ? time : best;
  }
  return best;
}

/* One run; nanoseconds. */
static double run(keel_plan *plan, keel_tensor *in) {
  keel_tensor *out = NULL;
  double from = bench_now();
  bench_need(keel_plan_run(plan, &in, 1, &out, 1));
  double time = bench_now() - from;
  keel_tensor_release(out);
  return time;
}

/* The least of runs with a trace that has begun, and of runs without, in turn. */
static void measure_trace(keel_context *context, keel_plan *plan,
                          keel_tensor *in, bench_model *m) {
  m->plain = m->traced = 1e30;
  for (int i = 0; i < 15; i++) {
    double plain = run(plan, in);
    bench_need(keel_trace_start(context));
    run(plan, in); /* threads take memory for their notes */
    double traced = run(plan, in);
    bench_need(keel_trace_stop(context, NULL));
    m->plain = plain < m->plain ? plain : m->plain;
    m->traced = traced < m->traced ? traced : m->traced;
  }
}

static void measure_runs(keel_context *context, keel_program *program,
                         bench_model *m) {
  keel_plan *plan = NULL;
  keel_port port;
  keel_tensor *in = NULL;
  bench_need(keel_plan_create(program, NULL, &plan));
  bench_need(keel_program_input(program, 0, &port));
  bench_need(
      keel_tensor_create(context, port.dtype, port.rank, port.dims, NULL, &in));
  for (int i = 0; i < 8; i++) /* the first ones find out how to run best */
    run(plan, in);
  bench_need(keel_plan_memory(plan, &m->planned, &m->apart, &m->least));
  measure_trace(context, plan, in, m);
  keel_tensor_release(in);
  keel_plan_release(plan);
}

/* ---- two models in one process --------------------------------------------------- */

typedef struct session {
  keel_plan *plan;
  keel_tensor *in;
} session;

static session open_session(keel_context *context, size_t index,
                            const char *folder) {
  char path[300];
  session one = {0};
  keel_program *program = NULL;
  keel_port port;
  snprintf(path, sizeof path, "%s/session.onnx", folder);
  models[index].write(path);
  keel_status status = keel_program_load(context, path, &program);
  unlink(path);
  if (status == KD_UNIMPLEMENTED) return one; /* without protobuf-c */
  bench_need(status);
  bench_need(keel_plan_create(program, NULL, &one.plan));
  bench_need(keel_program_input(program, 0, &port));
  bench_need(keel_tensor_create(context, port.dtype, port.rank, port.dims, NULL,
                                &one.in));
  keel_program_release(program);
  for (int i = 0; i < 8; i++)
    run(one.plan, one.in);
  return one;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Each of two contexts runs a model, in turn; and each alone. Medians. */
static void measure_two(const char *folder) {
  enum { ROUNDS = 31 };
  static double alone[2][ROUNDS], in_turn[ROUNDS];
  keel_context *contexts[2] = {0};
  session both[2];
  for (size_t i = 0; i < 2; i++) {
    bench_need(keel_open(NULL, &contexts[i]));
    both[i] = open_session(contexts[i], i, folder);
  }
  for (int round = 0; round < ROUNDS && both[0].plan && both[1].plan; round++) {
    for (int i = 0; i < 2; i++) {
      run(both[i].plan, both[i].in);
      alone[i][round] = run(both[i].plan, both[i].in);
    }
    run(both[0].plan, both[0].in);
    run(both[1].plan, both[1].in);
    in_turn[round] =
        run(both[0].plan, both[0].in) + run(both[1].plan, both[1].in);
  }
  qsort(alone[0], ROUNDS, sizeof(double), by_size);
  qsort(alone[1], ROUNDS, sizeof(double), by_size);
  qsort(in_turn, ROUNDS, sizeof(double), by_size);
  if (both[0].plan && both[1].plan)
    bench_pair_line(models[0].name, models[1].name,
                    alone[0][ROUNDS / 2] + alone[1][ROUNDS / 2],
                    in_turn[ROUNDS / 2]);
  for (int i = 0; i < 2; i++) {
    keel_tensor_release(both[i].in);
    keel_plan_release(both[i].plan);
    keel_close(contexts[i]);
  }
}

/* ---- a model of open length ----------------------------------------------------------- */

/* With plans that are made anew for lengths that come again, and with one for all, in
 * turn; the least. */
static void measure_length(keel_context *context, keel_plan *const *plans,
                           int64_t words) {
  const int64_t dims[] = {1, words, 768};
  keel_tensor *in = NULL;
  double best[2] = {1e30, 1e30};
  bench_need(keel_tensor_create(context, KD_F32, 3, dims, NULL, &in));
  for (int i = 0; i < 40; i++)
    for (int k = 0; k < 2; k++) {
      double time = run(plans[k], in);
      best[k] = time < best[k] ? time : best[k];
    }
  keel_tensor_release(in);
  bench_open_line("BERT layer", (int)words, best[0], best[1]);
}

static void measure_open(keel_context *context, const char *folder) {
  char path[300];
  keel_program *program = NULL;
  keel_plan *plans[2] = {NULL, NULL};
  snprintf(path, sizeof path, "%s/open.onnx", folder);
  model_bert_open(path);
  keel_status status = keel_program_load(context, path, &program);
  unlink(path);
  if (status == KD_UNIMPLEMENTED) return; /* without protobuf-c */
  bench_need(status);
  for (int i = 0; i < 2; i++) {
    const keel_plan_params params = {.struct_size = sizeof params,
                                     .flags = i ? KEEL_PLAN_ONE : 0};
    bench_need(keel_plan_create(program, &params, &plans[i]));
  }
  keel_program_release(program);
  measure_length(context, plans, 64);
  keel_plan_release(plans[0]);
  keel_plan_release(plans[1]);
}

static void measure(keel_context *context, size_t index, const char *folder) {
  char onnx[300], text[300], binary[300];
  keel_program *program = NULL;
  bench_model m = {.name = models[index].name};
  snprintf(onnx, sizeof onnx, "%s/model.onnx", folder);
  snprintf(text, sizeof text, "%s/model.mlir", folder);
  snprintf(binary, sizeof binary, "%s/model.keel", folder);
  models[index].write(onnx);
  m.onnx = load_time(context, onnx);
  if (m.onnx > 0) {
    bench_need(keel_program_load(context, onnx, &program));
    bench_need(keel_program_save(program, text, KEEL_SAVE_TEXT));
    bench_need(keel_program_save(program, binary, 0));
    m.text = load_time(context, text);
    m.binary = load_time(context, binary);
    measure_runs(context, program, &m);
    keel_program_release(program);
    bench_model_line(&m);
  }
  unlink(onnx);
  unlink(text);
  unlink(binary);
}

void bench_programs(void) {
  keel_context *context = NULL;
  char folder[] = "/tmp/keel-bench-XXXXXX";
  bench_need(keel_open(NULL, &context));
  if (!mkdtemp(folder)) {
    perror(folder);
    exit(1);
  }
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    measure(context, i, folder);
  measure_open(context, folder);
  measure_two(folder);
  rmdir(folder);
  keel_close(context);
}
