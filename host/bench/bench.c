/* bench.c - what the runtime itself costs, as a table and as JSON. */
#include "bench.h"

#include <string.h>

#include "graph.h"
#include "system/save.h"

static keel_save save;
static FILE *json;
static bool has_entry; /* in the list that is being written */

static const char *between(void) {
  const char *text = has_entry ? ",\n    " : "\n    ";
  has_entry = true;
  return text;
}

void bench_line(const char *name, double time, const char *unit) {
  bool ms = !strcmp(unit, "ms");
  printf("%-39s %9.*f %s\n", name, ms ? 3 : 1, ms ? time * 1e-6 : time, unit);
  fflush(stdout);
  if (json)
    fprintf(json, "%s{\"name\": \"%s\", \"ns\": %.1f}", between(),
            name + strspn(name, " "), time);
}

/* The least of those that were built; a negative number where none was. */
static double best_peer(const bench_graph *g) {
  if (g->openmp < 0 || (g->tbb >= 0 && g->tbb < g->openmp)) return g->tbb;
  return g->openmp;
}

static void print_time(double time) {
  if (time < 0)
    printf("        -");
  else
    printf(" %8.1f", time);
}

void bench_graph_line(const bench_graph *g) {
  double best = best_peer(g);
  printf("%-12s %d thread%c  %s", g->name, g->threads,
         g->threads == 1 ? ' ' : 's', g->empty ? "empty " : "1 us  ");
  print_time(g->keel);
  print_time(g->openmp);
  print_time(g->tbb);
  if (best >= 0) printf("  %6.2f", best / g->keel);
  printf("\n");
  fflush(stdout);
  if (!json) return;
  fprintf(json,
          "%s{\"graph\": \"%s\", \"threads\": %d, \"node\": \"%s\","
          " \"keel\": %.1f",
          between(), g->name, g->threads, g->empty ? "empty" : "1 us", g->keel);
  if (g->openmp >= 0) fprintf(json, ", \"openmp\": %.1f", g->openmp);
  if (g->tbb >= 0) fprintf(json, ", \"tbb\": %.1f", g->tbb);
  fprintf(json, "}");
}

void bench_change_line(const bench_change *c) {
  bool empty = c->ideal < 10;
  printf("%-12s %d thread%c  %-17s", c->name, c->threads,
         c->threads == 1 ? ' ' : 's', c->phase);
  if (empty)
    printf("        - %9.1f      -", c->keel);
  else
    printf(" %8.1f %9.1f %6.3f", c->ideal, c->keel, c->keel / c->ideal);
  printf(" %6d\n", c->runs);
  fflush(stdout);
  if (json)
    fprintf(json,
            "%s{\"graph\": \"%s\", \"threads\": %d, \"phase\": \"%s\","
            " \"ideal\": %.1f, \"keel\": %.1f, \"runs\": %d}",
            between(), c->name, c->threads, c->phase, c->ideal, c->keel,
            c->runs);
}

void bench_model_line(const bench_model *m) {
  printf("%-12s %8.2f %8.2f %8.3f %7.0f    %8.2f %8.2f %8.2f %7.2f %9.3f\n",
         m->name, m->onnx * 1e-6, m->text * 1e-6, m->binary * 1e-6,
         m->onnx / m->binary, (double)m->planned * 0x1p-20,
         (double)m->least * 0x1p-20, (double)m->apart * 0x1p-20,
         (double)m->planned / (double)m->least, m->traced / m->plain);
  fflush(stdout);
  if (!json) return;
  fprintf(json,
          "%s{\"model\": \"%s\", \"onnx\": %.0f, \"text\": %.0f,"
          " \"binary\": %.0f, \"planned\": %llu, \"least\": %llu,"
          " \"apart\": %llu, \"run\": %.0f, \"traced\": %.0f}",
          between(), m->name, m->onnx, m->text, m->binary,
          (unsigned long long)m->planned, (unsigned long long)m->least,
          (unsigned long long)m->apart, m->plain, m->traced);
}

void bench_pair_line(const char *first, const char *second, double alone,
                     double in_turn) {
  printf(
      "%s and %s in turn, in two contexts: %.2f ms; the sum of each alone:"
      " %.2f ms; ratio %.3f\n",
      first, second, in_turn * 1e-6, alone * 1e-6, in_turn / alone);
  fflush(stdout);
  if (json)
    fprintf(json,
            "%s{\"pair\": \"%s, %s\", \"alone\": %.0f, \"in_turn\": %.0f}",
            between(), first, second, alone, in_turn);
}

void bench_open_line(const char *name, int words, double again, double one) {
  printf(
      "%s of open length, %d words: %.3f ms where they come again; with one"
      " plan for all %.3f ms; ratio %.2f\n",
      name, words, again * 1e-6, one * 1e-6, one / again);
  fflush(stdout);
  if (json)
    fprintf(json,
            "%s{\"open\": \"%s\", \"words\": %d, \"again\": %.0f, \"one\":"
            " %.0f}",
            between(), name, words, again, one);
}

static void begin_list(const char *name, bool first) {
  has_entry = false;
  if (json) fprintf(json, "%s  \"%s\": [", first ? "{\n" : "\n  ],\n", name);
}

static int usage(FILE *to) {
  fprintf(
      to,
      "usage: bench [--json FILE] [--rounds N] [--only PART]\n"
      "\n"
      "What calls and nodes cost in the runtime itself. Graphs of tasks run\n"
      "by OpenMP and oneTBB, too, where those were built: in turn with Keel,\n"
      "the least of N rounds (7) for each. A time is the whole run's, wall\n"
      "clock, over the number of nodes. Then graphs whose nodes' costs change\n"
      "between runs of one plan: what a node takes once the runtime has seen\n"
      "it, beside its cost over the threads that could share it (all of them,\n"
      "but for chains), and how many runs that took.\n"
      "\n"
      "  --json FILE  writes the figures there (host/bench/plot.py draws "
      "them)\n"
      "  --rounds N   more rounds, or fewer\n"
      "  --only PART  calls, programs, graphs or changes\n"
      "  --help       this text\n");
  return to == stdout ? 0 : 2;
}

static void measure_calls(int rounds) {
  (void)rounds;
  bench_calls();
}

static void measure_programs(int rounds) {
  (void)rounds;
  printf(
      "\nopening, ms      ONNX     text   binary  ONNX /    memory, MiB: least"
      "    apart  planned   run with\n"
      "                                          binary     planned            "
      "        / least a trace/without\n");
  bench_programs();
}

static void measure_graphs(int rounds) {
  printf(
      "\nnanoseconds a node                 Keel   OpenMP   oneTBB  best peer "
      "/ Keel\n");
  bench_graphs(rounds);
}

static void measure_changes(int rounds) {
  (void)rounds;
  printf(
      "\nnanoseconds a node, costs change             ideal      Keel  ratio"
      "   runs\n");
  bench_changes();
}

static const struct {
  const char *name;
  void (*measure)(int rounds);
} parts[] = {{"calls", measure_calls},
             {"programs", measure_programs},
             {"graphs", measure_graphs},
             {"changes", measure_changes}};
enum { PARTS = sizeof parts / sizeof *parts };

static bool is_part(const char *name) {
  for (int i = 0; i < PARTS; i++)
    if (!strcmp(parts[i].name, name)) return true;
  return false;
}

int main(int argc, char **argv) {
  int rounds = 7;
  const char *only = NULL;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--help")) return usage(stdout);
    if (!strcmp(argv[i], "--rounds") && i + 1 < argc) {
      rounds = (int)strtol(argv[++i], NULL, 10);
      if (rounds > 0) continue;
    } else if (!strcmp(argv[i], "--only") && i + 1 < argc) {
      only = argv[++i];
      if (is_part(only)) continue;
    } else if (!strcmp(argv[i], "--json") && i + 1 < argc && !json) {
      if (keel_save_begin(&save, argv[++i], 0666)) {
        json = save.file;
        continue;
      }
      perror(argv[i]);
      return 1;
    }
    return usage(stderr);
  }
  bool first = true;
  for (int i = 0; i < PARTS; i++) {
    if (only && strcmp(only, parts[i].name) != 0) continue;
    begin_list(parts[i].name, first);
    parts[i].measure(rounds);
    first = false;
  }
  if (json) fprintf(json, "\n  ]\n}\n");
  if (json && !keel_save_end(&save, true)) {
    perror("bench: the JSON file");
    return 1;
  }
  return 0;
}
