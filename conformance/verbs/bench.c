/* bench.c - figures that a vendor wants to know, and their comparison. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rules/rules.h"
#include "runner/scratch.h"
#include "suite/channel.h"
#include "system/json.h"
#include "system/printable.h"
#include "system/save.h"
#include "verbs/verbs.h"

#define FIGURES 64u

typedef struct figure {
  char name[64], unit[16];
  double value; /* 0: not measured */
  bool more;    /* is better */
} figure;

static figure figures[FIGURES];
static uint32_t figure_count;

static void bench_add(const char *name, double value, const char *unit,
                      bool more) {
  if (figure_count == FIGURES) return;
  figure *f = &figures[figure_count++];
  snprintf(f->name, sizeof f->name, "%s", name);
  snprintf(f->unit, sizeof f->unit, "%s", unit);
  f->value = value;
  f->more = more;
  if (isatty(2)) fprintf(stderr, "\r%-40s\x1b[K", name);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* The median of repeated measurements, in nanoseconds. */
static double median(double (*bench_measure)(void *context), void *context,
                     int times) {
  double values[101];
  for (int i = 0; i < times && i < 101; i++)
    values[i] = bench_measure(context);
  qsort(values, (size_t)times, sizeof *values, by_value);
  return values[times / 2];
}

/* ---- launches ------------------------------------------------------------------------- */

typedef struct launch_bench {
  kc_run *run;
  kd_stream *stream;
  bool wait;
} launch_bench;

static double launches(void *context) {
  launch_bench *b = context;
  const int n = 200;
  uint64_t begin = kc_now(), end = 0;
  for (int i = 0; i < n; i++) {
    b->run->def->enqueue(b->run->kernel, b->stream, &b->run->launch);
    if (b->wait && b->stream) kc_finish(b->stream);
  }
  end = kc_now();
  if (b->stream) kc_finish(b->stream);
  return (double)(end - begin) / n;
}

static void bench_launch(void) {
  kc_unary unary;
  if (!kc_unary_make(4, &unary)) return;
  launch_bench b = {.stream = kc_claims(KC_ASYNC) ? kc_stream_make(kc_device())
                                                  : NULL};
  if (kc_run_make(unary.node, unary.def, &unary.op, &kc_plain, &b.run) != KD_OK)
    return;
  bench_add("launch of 4 elements, enqueue", median(launches, &b, 21) / 1e3,
            "us", false);
  b.wait = true;
  bench_add("launch of 4 elements, with a wait", median(launches, &b, 9) / 1e3,
            "us", false);
  kc_run_free(b.run);
  kc_unary_free(&unary);
}

/* ---- replay ---------------------------------------------------------------------------- */

enum { RECORDED = 100 };

typedef struct replay_bench {
  kc_run *run;
  kd_stream *stream;
  kd_capture *capture; /* NULL: launched one by one */
} replay_bench;

/* All launches and a wait: nanoseconds each. */
static double replays(void *context) {
  replay_bench *b = context;
  uint64_t begin = kc_now();
  if (b->capture)
    kp.c.launch(b->capture, b->stream);
  else
    for (int i = 0; i < RECORDED; i++)
      b->run->def->enqueue(b->run->kernel, b->stream, &b->run->launch);
  kc_finish(b->stream);
  return (double)(kc_now() - begin) / RECORDED;
}

static void bench_replay(void) {
  kc_unary unary;
  if (!kc_claims(KC_REPLAY) || !kc_unary_make(4, &unary)) return;
  replay_bench b = {.stream = kc_stream_make(kc_device())};
  if (kc_run_make(unary.node, unary.def, &unary.op, &kc_plain, &b.run) ==
      KD_OK) {
    bench_add("100 launches and a wait, each", median(replays, &b, 21) / 1e3,
              "us", false);
    bool began = kp.c.begin(b.stream, 0) == KD_OK;
    for (int i = 0; began && i < RECORDED; i++)
      b.run->def->enqueue(b.run->kernel, b.stream, &b.run->launch);
    if (began && kp.c.end(b.stream, &b.capture) == KD_OK) {
      kp.c.launch(b.capture, b.stream);
      bench_add("the same, recorded and replayed",
                median(replays, &b, 21) / 1e3, "us", false);
      kp.c.destroy(b.capture);
    }
    kc_run_free(b.run);
  }
  kc_unary_free(&unary);
}

/* ---- events ---------------------------------------------------------------------------- */

static double event_trip(void *context) {
  kd_stream *stream = context;
  kd_event *event = kc_event_make(kc_device());
  uint64_t begin = kc_now();
  kp.e.record(event, stream);
  kp.e.wait(event, UINT64_MAX);
  uint64_t end = kc_now();
  kc_event_free(event);
  return (double)(end - begin);
}

static void bench_events(void) {
  if (!kc_claims(KC_ASYNC)) return;
  kd_stream *stream = kc_stream_make(kc_device());
  bench_add("event, record and wait", median(event_trip, stream, 51) / 1e3,
            "us", false);
}

/* ---- memory ------------------------------------------------------------------------------ */

typedef struct copy_bench {
  kc_buffer *a, *b;
  char *bytes;
  uint64_t size;
  int kind;
} copy_bench;

static double copies(void *context) {
  copy_bench *c = context;
  int n = c->size < 100000 ? 50 : 3;
  uint64_t begin = kc_now();
  for (int i = 0; i < n; i++) {
    if (c->kind == 0)
      kc_write(c->a, 0, c->bytes, c->size);
    else if (c->kind == 1)
      kc_read(c->a, 0, c->bytes, c->size);
    else
      kp.m.copy(c->a->device, NULL, c->a->handle, c->a->offset, c->b->handle,
                c->b->offset, c->size);
  }
  return (double)(kc_now() - begin) / n;
}

static void bench_copies(void) {
  static const uint64_t sizes[] = {4096, 65536, 1 << 20, 16 << 20};
  static const char *const kinds[] = {"in", "out", "on the device"};
  for (size_t s = 0; s < KC_COUNT_OF(sizes); s++)
    for (int k = 0; k < 3; k++) {
      if (k == 2 && !kp.m.copy) continue;
      char name[64];
      copy_bench c = {.a = kc_buffer_make(sizes[s]),
                      .b = kc_buffer_make(sizes[s]),
                      .bytes = kc_take(sizes[s]),
                      .size = sizes[s],
                      .kind = k};
      snprintf(name, sizeof name, "copy %s, %llu KiB", kinds[k],
               (unsigned long long)(sizes[s] >> 10));
      bench_add(name, (double)sizes[s] / median(copies, &c, 9), "GB/s", true);
      kc_buffer_free(c.a);
      kc_buffer_free(c.b);
      free(c.bytes);
    }
}

static double allocations(void *context) {
  uint64_t size = *(uint64_t *)context, begin = kc_now();
  for (int i = 0; i < 20; i++) {
    kd_buffer *buffer = NULL;
    void *address = NULL;
    if (kc_allocate(kc_device(), 0, size, &buffer, &address) != KD_OK) break;
    kp.m.release(kc_device(), buffer);
  }
  return (double)(kc_now() - begin) / 20;
}

static void bench_allocations(void) {
  uint64_t small = 4096, large = 16 << 20;
  bench_add("allocate and release, 4 KiB",
            median(allocations, &small, 21) / 1e3, "us", false);
  bench_add("allocate and release, 16 MiB",
            median(allocations, &large, 9) / 1e3, "us", false);
}

/* ---- kernels ------------------------------------------------------------------------------- */

static double one_run(void *context) {
  uint64_t begin = kc_now();
  kc_run_now(context);
  return (double)(kc_now() - begin);
}

static void bench_op(const char *what, kc_op *op, double work,
                     const char *unit) {
  kc_node *node = kc_node_make(op, NULL, 0);
  const kd_kernel_def *def = node ? kc_def_for(node) : NULL;
  kc_run *run = NULL;
  if (def && kc_run_make(node, def, op, &kc_plain, &run) == KD_OK) {
    kc_run_now(run);
    bench_add(what, work / median(one_run, run, 7), unit, true);
    kc_run_free(run);
  }
  kc_node_free(node);
}

static void bench_kernels(void) {
  static const int64_t sizes[] = {128, 512};
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    int64_t n = sizes[i], dims[2] = {n, n};
    kc_random random = {7};
    char name[64];
    value *a = kc_floats(2, dims, &random), *b = kc_floats(2, dims, &random);
    kc_op op = {.name = "MatMul", .in = {a, b}, .in_count = 2, .out_count = 1};
    snprintf(name, sizeof name, "MatMul f32 %lld", (long long)n);
    bench_op(name, &op, 2.0 * (double)n * (double)n * (double)n, "GFLOP/s");
    value_free(a);
    value_free(b);
  }
  static const char *const ops[] = {"Relu", "Add", "Softmax"};
  for (size_t i = 0; i < KC_COUNT_OF(ops); i++) {
    int64_t dims[2] = {1024, 1024};
    kc_random random = {7};
    char name[64];
    value *a = kc_floats(2, dims, &random);
    uint32_t n = i == 1 ? 2 : 1;
    kc_op op = {.name = ops[i], .in = {a, a}, .in_count = n, .out_count = 1};
    snprintf(name, sizeof name, "%s f32, 1 Mi elements", ops[i]);
    bench_op(name, &op, (double)(n + 1) * 4 * 1024 * 1024, "GB/s");
    value_free(a);
  }
}

/* Copies on one stream while another computes: 1 is no overlap, 2 is full. */
static void bench_overlap(void) {
  if (!kc_claims(KC_ASYNC)) return;
  kd_stream *a = kc_stream_make(kc_device()), *b = kc_stream_make(kc_device());
  kc_unary unary;
  if (!kc_unary_make(400000, &unary)) return;
  kc_run *run = NULL;
  if (kc_run_make(unary.node, unary.def, &unary.op, &kc_plain, &run) != KD_OK)
    return;
  kc_busy(a, KC_MS);
  kc_finish(a);
  double times[3];
  for (int k = 0; k < 3; k++) {
    uint64_t begin = kc_now();
    if (k != 1) kc_busy(a, 60 * KC_MS);
    for (int i = 0; k != 0 && i < 12; i++)
      kc_run_enqueue(run, b);
    kc_finish(a);
    kc_finish(b);
    times[k] = (double)(kc_now() - begin);
  }
  bench_add("overlap of copies and kernels", (times[0] + times[1]) / times[2],
            "x", true);
  kc_run_free(run);
  kc_unary_free(&unary);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void bench_measure(void) {
  kc_device();
  bench_launch();
  bench_replay();
  bench_events();
  bench_copies();
  bench_allocations();
  bench_kernels();
  bench_overlap();
  if (isatty(2)) fputs("\r\x1b[K", stderr);
}

static const kc_rule bench_rule = {.id = "bench", .check = bench_measure};

static bool write_json(const char *path, const char *plugin) {
  keel_save save;
  if (!keel_save_begin(&save, path, 0666)) return false;
  FILE *file = save.file;
  fputs("{\"plugin\":", file);
  keel_write_json(file, plugin);
  fputs(",\"figures\":[", file);
  for (uint32_t i = 0; i < figure_count; i++) {
    fprintf(file, "%s\n{\"name\":", i ? "," : "");
    keel_write_json(file, figures[i].name);
    fprintf(file, ",\"value\":%.6g,\"unit\":\"%s\",\"more_is_better\":%s}",
            figures[i].value, figures[i].unit,
            figures[i].more ? "true" : "false");
  }
  fputs("\n]}\n", file);
  return keel_save_end(&save, true);
}

static cJSON *read_json(const char *path) {
  FILE *file = fopen(path, "rbe");
  char *text = calloc(1, 1 << 18);
  size_t size = file ? fread(text, 1, (1 << 18) - 1, file) : 0;
  if (file) fclose(file);
  cJSON *json = size ? cJSON_Parse(text) : NULL;
  free(text);
  if (!cJSON_GetObjectItem(json, "figures")) {
    fprintf(stderr, "keel-conformance bench: %s holds no figures\n", path);
    cJSON_Delete(json);
    return NULL;
  }
  return json;
}

static int bench_compare(const char *a, const char *b) {
  cJSON *x = read_json(a), *y = read_json(b);
  if (!x || !y) return KC_EXIT_USAGE;
  const cJSON *one = NULL;
  printf("%-36s %12s %12s %9s\n", "", "first", "second", "ratio");
  cJSON_ArrayForEach(one, cJSON_GetObjectItem(x, "figures")) {
    const cJSON *other = NULL;
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(one, "name"));
    cJSON_ArrayForEach(other, cJSON_GetObjectItem(y, "figures")) {
      const char *theirs =
          cJSON_GetStringValue(cJSON_GetObjectItem(other, "name"));
      if (!name || !theirs || strcmp(name, theirs) != 0) continue;
      double u = cJSON_GetNumberValue(cJSON_GetObjectItem(one, "value"));
      double v = cJSON_GetNumberValue(cJSON_GetObjectItem(other, "value"));
      bool more = cJSON_IsTrue(cJSON_GetObjectItem(one, "more_is_better"));
      double ratio = more ? v / u : u / v;
      printf("%-36s %12.3g %12.3g %8.2fx %s %s\n", name, u, v, ratio,
             cJSON_GetStringValue(cJSON_GetObjectItem(one, "unit")),
             ratio > 1.1   ? "better"
             : ratio < 0.9 ? "worse"
                           : "");
    }
  }
  cJSON_Delete(x);
  cJSON_Delete(y);
  return 0;
}

static const char help[] =
    "usage: keel-conformance bench [OPTION]... PLUGIN.so|DEVICE\n"
    "       keel-conformance bench --compare A.json B.json\n"
    "\n"
    "Launch latency, events, copies by size, allocation, MatMul, elementwise "
    "ops,\n"
    "overlap of copies and kernels: medians on this machine. --compare sets "
    "two\n"
    "such files, of two plugins or two runs, beside each other.\n"
    "\n"
    "  --json FILE         writes the figures there, too\n"
    "  --device N          the plugin's device N (cpu:1 does the same)\n"
    "  --option NAME=VALUE an option of the plugin\n"
    "  --jobs N            the number of threads, including the caller's\n"
    "  --max-memory SIZE   device memory that it may take (512M)\n";

static int compare_two(int argc, char **argv) {
  bool unused = false;
  const kc_word options[] = {{"--compare", .flag = &unused}, {0}};
  kc_words words = {
      .verb = "bench", .help = help, .options = options, .most = 2};
  int status = kc_words_read(&words, argc, argv);
  if (status >= 0) return status;
  return words.count == 2 ? bench_compare(words.others[0], words.others[1])
                          : kc_usage("bench", "--compare takes two files");
}

int kc_verb_bench(int argc, char **argv) {
  static kc_options options;
  const char *json = NULL;
  const kc_word own[] = {{"--json", .value = &json}, {0}};
  const kc_words words = {.verb = "bench", .help = help, .options = own};
  for (int i = 0; i < argc; i++)
    if (!strcmp(argv[i], "--compare")) return compare_two(argc, argv);
  int status = kc_options_read(
      &options, &words, "--device --option --jobs --max-memory", argc, argv);
  if (status >= 0) return status;
  if (!options.plugin[0]) return kc_usage("bench", "which plugin?");
  kc.plugin = options.plugin;
  kc.device = options.device;
  kc.max_memory = options.max_memory;
  kc.options = options.plugin_options;
  kc.option_count = options.plugin_option_count;
  char scratch[256];
  if (!kc_scratch_make(scratch)) return KC_EXIT_SUITE;
  kc.scratch = scratch;
  kc_host.workers = options.jobs > 1 ? options.jobs - 1 : 0;
  kc_channel_open(true);
  kc_run_rule(&bench_rule);
  kc_scratch_remove(scratch);
  printf("%-36s %12s\n", options.plugin, "");
  for (uint32_t i = 0; i < figure_count; i++)
    printf("%-36s %12.3g %s\n", figures[i].name, figures[i].value,
           figures[i].unit);
  if (json && !write_json(json, options.plugin)) {
    fprintf(stderr, "keel-conformance bench: %s can't be written\n", json);
    return KC_EXIT_SUITE;
  }
  return figure_count ? 0 : KC_EXIT_NOTHING;
}
