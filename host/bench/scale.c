/* scale.c - what a node of a large graph costs to plan: time and memory, for graphs of ten
 * thousand nodes and a hundred times as many. Both must stay what they are as graphs grow,
 * but for the logarithm of a sort.
 *
 * usage: build/release/bench/scale [NODES]    of the largest (1000000) */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* Bytes of the process that are in memory. */
static double resident(void) {
  char line[200] = "";
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && !fgets(line, sizeof line, file)) *line = 0;
  if (file) fclose(file);
  char *second = strchr(line, ' ');
  unsigned long pages = second ? strtoul(second, NULL, 10) : 0;
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static keel_value one(keel_builder *b, const char *op, keel_value x) {
  return keel_builder_op(b, op, NULL, 0, &x, 1);
}

static keel_value two(keel_builder *b, const char *op, keel_value x,
                      keel_value y) {
  const keel_value pair[] = {x, y};
  return keel_builder_op(b, op, NULL, 0, pair, 2);
}

static keel_value chain(keel_builder *b, keel_value x, long nodes) {
  for (long i = 0; i < nodes; i++)
    x = one(b, i % 2 ? "Neg" : "Relu", x);
  return x;
}

/* One value that all nodes read, summed. */
static keel_value fan(keel_builder *b, keel_value x, long nodes) {
  keel_value sum = x;
  for (long i = 0; i < nodes / 2; i++)
    sum = two(b, "Add", sum, one(b, i % 2 ? "Neg" : "Abs", x));
  return sum;
}

static keel_value identities(keel_builder *b, keel_value x, long nodes) {
  for (long i = 0; i < nodes; i++)
    x = one(b, "Identity", x);
  return one(b, "Relu", x);
}

/* Nodes of which each computes what the first does. */
static keel_value equal(keel_builder *b, keel_value x, long nodes) {
  keel_value sum = one(b, "Relu", x);
  for (long i = 0; i < nodes / 2; i++)
    sum = two(b, "Add", sum, one(b, "Relu", x));
  return sum;
}

/* Products, which no chain goes through. */
static keel_value products(keel_builder *b, keel_value x, long nodes) {
  for (long i = 0; i < nodes / 2; i++)
    x = two(b, "MatMul", one(b, "Relu", x), x);
  return x;
}

static const struct {
  const char *name;
  keel_value (*build)(keel_builder *b, keel_value x, long nodes);
} kinds[] = {{"chain", chain},
             {"fan", fan},
             {"identities", identities},
             {"equal", equal},
             {"products", products}};

static void measure(size_t kind, long nodes) {
  const int64_t dims[] = {4, 4};
  keel_context *context = NULL;
  keel_builder *builder = NULL;
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  bench_need(keel_open(NULL, &context));
  double empty = resident(), from = bench_now();
  bench_need(keel_builder_create(context, "main", &builder));
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, dims);
  keel_builder_output(builder, "y", kinds[kind].build(builder, x, nodes));
  bench_need(keel_builder_finish(builder, &program));
  keel_builder_destroy(builder);
  double built = bench_now();
  bench_need(keel_plan_create(program, NULL, &plan));
  double planned = bench_now();
  printf(
      "%-11s %8ld nodes: %6.0f ns a node to build, %6.0f to plan, %5.0f"
      " bytes\n",
      kinds[kind].name, nodes, (built - from) / (double)nodes,
      (planned - built) / (double)nodes, (resident() - empty) / (double)nodes);
  fflush(stdout);
  keel_plan_release(plan);
  keel_program_release(program);
  keel_close(context);
}

/* In a process of its own: memory that another graph left would be used again. */
static bool measure_apart(size_t kind, long nodes) {
  int status = 1;
  pid_t child = fork();
  if (child == 0) {
    measure(kind, nodes);
    _exit(0);
  }
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv) {
  long most = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
  if (argc > 2 || most < 10000) {
    fprintf(stderr, "usage: scale [NODES]    10000 or more\n");
    return 2;
  }
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
    for (long nodes = 10000; nodes <= most; nodes *= 10)
      if (!measure_apart(kind, nodes)) return 1;
  return 0;
}
