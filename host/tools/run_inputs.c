/* run_inputs.c - inputs of `keel run`: from files, of sizes that are given, or at random. */
#include <errno.h>
#include <kd/help.h>
#include <unistd.h>

#include "run.h"
#include "sizes.h"

static given_sizes sizes_of(const run_arguments *all) {
  return (given_sizes){"run", &all->shapes, &all->dims};
}

bool run_given_shape(const run_arguments *all, const char *name, uint32_t *rank,
                     int64_t *dims) {
  const given_sizes given = sizes_of(all);
  return sizes_shape(&given, name, rank, dims);
}

/* An open dimension's size: as it was given, or 1. */
static int64_t open_size(const run_arguments *all, const keel_port *port,
                         uint32_t dim) {
  const given_sizes given = sizes_of(all);
  int64_t size = sizes_dim(&given, port, dim);
  return size < 0 ? 1 : size;
}

/* A split has made dimensions known, and has looked at --dim itself. */
static bool check_sizes(const run_arguments *all, const run_session *run) {
  const given_sizes given = sizes_of(all);
  keel_port ports[RUN_PORTS];
  for (uint32_t i = 0; i < run->input_count; i++)
    keel_plan_input(run->plan, i, &ports[i]);
  return sizes_check(&given, ports, run->input_count, !all->split);
}

static bool is_member(const keel_port *port) {
  return (port->flags & KEEL_PORT_RESOURCE) &&
         !strcmp(port->name, "keel.member");
}

/* Returns 0, or the command's status after an error was printed. */
static int make_random(const run_arguments *all, run_session *run,
                       uint32_t index, uint64_t *state) {
  keel_port port;
  int64_t dims[16];
  keel_plan_input(run->plan, index, &port);
  uint32_t rank = port.rank;
  bool shaped = run_given_shape(all, port.name, &rank, dims);
  if (is_member(&port)) {
    if (run->several.group) return 0; /* each run gets new ones */
    if (run->link)
      return keel_link_member(run->link, run->device, &run->inputs[index]) ==
                     KD_OK
                 ? 0
                 : complain();
    fprintf(stderr,
            "keel run: the program is for several ranks, which exchange"
            " values: give them devices with --devices D,E, or start processes"
            " with --np N or mpirun (docs/ranks.md)\n");
    return EXIT_USAGE;
  }
  if (port.flags & KEEL_PORT_RESOURCE) {
    fprintf(
        stderr,
        "keel run: input \"%s\" is a resource; give it with --input %s=FILE:"
        " a variable that holds the file's tensor\n",
        shown(port.name), shown(port.name));
    return EXIT_USAGE;
  }
  if (!shaped && (rank == KEEL_RANK_UNKNOWN || !port.dtype || port.flags)) {
    fprintf(stderr,
            "keel run: input \"%s\" has no known type; give it with"
            " --input %s=FILE\n",
            shown(port.name), shown(port.name));
    return EXIT_USAGE;
  }
  if (port.dtype == KD_STRING) {
    fprintf(stderr,
            "keel run: input \"%s\" has strings, which can't be random; give "
            "it with --input %s=FILE\n",
            shown(port.name), shown(port.name));
    return EXIT_USAGE;
  }
  int64_t count = 1;
  bool countable = true;
  for (uint32_t i = 0; i < rank; i++) {
    if (!shaped)
      dims[i] = port.dims[i] < 0 ? open_size(all, &port, i) : port.dims[i];
    countable &= !__builtin_mul_overflow(count, dims[i], &count);
  }
  uint32_t bits = kd_dtype_bits(port.dtype), each = (bits + 7) / 8;
  bool large = !countable || count < 0 || !each ||
               (uint64_t)count > (UINT64_C(1) << 36) / each;
  void *data = large ? NULL : calloc((size_t)count * each + 1, 1);
  if (!large && !data) {
    fprintf(stderr, "keel run: no memory for input \"%s\" of %lld elements\n",
            shown(port.name), (long long)count);
    return 1;
  }
  if (data) random_fill(data, port.dtype, count, state);
  keel_status status = keel_tensor_create(run->context, port.dtype, rank, dims,
                                          data, &run->inputs[index]);
  free(data);
  return status == KD_OK ? 0 : complain();
}

uint32_t run_file_kind(const keel_port *port) {
  return port->flags & KEEL_PORT_OPTIONAL   ? KEEL_FILE_OPTIONAL
         : port->flags & KEEL_PORT_SEQUENCE ? KEEL_FILE_SEQUENCE
                                            : KEEL_FILE_TENSOR;
}

/* The input that "NAME=FILE" names; its file goes to *out_file. */
static uint32_t named_input(const run_session *run, const char *word,
                            const char **out_file) {
  for (uint32_t i = 0; i < run->input_count; i++) {
    keel_port port;
    keel_plan_input(run->plan, i, &port);
    const char *file = sizes_value_for(word, port.name);
    if (!file) continue;
    *out_file = file;
    return i;
  }
  return run->input_count;
}

/* The initial values that --input replaces become inputs of the program. */
keel_status run_override(const run_arguments *all, run_session *run) {
  const char *names[RUN_PORTS];
  uint32_t count = 0;
  keel_program *program = NULL;
  keel_port port;
  for (uint32_t i = 0;
       count < RUN_PORTS && i < keel_program_initializer_count(run->program) &&
       keel_program_initializer(run->program, i, &port) == KD_OK;
       i++)
    for (uint32_t k = 0; k < all->inputs.count; k++)
      if (sizes_value_for(all->inputs.words[k], port.name)) {
        names[count++] = port.name;
        break;
      }
  if (!count) return KD_OK;
  keel_status status =
      keel_program_override(run->program, names, count, &program);
  if (status != KD_OK) return status;
  keel_program_release(run->program);
  run->program = program;
  return KD_OK;
}

/* Makes a variable of a tensor. */
static keel_status wrap_variable(keel_context *context, keel_tensor **value) {
  keel_tensor *variable = NULL;
  keel_status status =
      keel_call(context, "keel::Variable", NULL, 0, value, 1, &variable, 1);
  keel_tensor_release(*value);
  *value = variable;
  return status;
}

/* Whether an input is the handle of this rank. */
bool run_exchanges(const keel_program *program) {
  keel_port port;
  for (uint32_t i = 0; i < keel_program_input_count(program); i++)
    if (keel_program_input(program, i, &port) == KD_OK && is_member(&port))
      return true;
  return false;
}

bool run_is_member(const run_session *run, uint32_t index) {
  keel_port port;
  keel_plan_input(run->plan, index, &port);
  return (run->link || run->several.group) && !strcmp(port.name, "keel.member");
}

/* Those of the model, without what Keel adds. */
static uint32_t own_inputs(const run_session *run) {
  uint32_t count = run->input_count;
  for (uint32_t i = 0; i < run->input_count; i++)
    count -= run_is_member(run, i);
  return count;
}

static bool can_be_given(const run_session *run, uint32_t input,
                         const keel_port *port) {
  if (run_is_member(run, input)) {
    fprintf(stderr,
            "keel run: \"%s\" is this rank's handle, which can't be read from "
            "a file\n",
            shown(port->name));
    return false;
  }
  if (!run->several.group || !(port->flags & KEEL_PORT_RESOURCE)) return true;
  fprintf(stderr,
          "keel run: \"%s\" is a resource; each rank needs its own, which "
          "--devices can't provide: run with --np %u\n",
          shown(port->name), (unsigned)run->several.count);
  return false;
}

/* NAME=FILE of a name that the model does not have looks like a file of that name. */
static bool is_no_name(const run_session *run, const char *word) {
  char names[512] = "";
  if (!strchr(word, '=') || access(word, F_OK) == 0) return false;
  for (uint32_t i = 0; i < run->input_count; i++) {
    keel_port port;
    size_t used = strlen(names);
    keel_plan_input(run->plan, i, &port);
    snprintf(names + used, sizeof names - used, " \"%s\"", shown(port.name));
  }
  fprintf(stderr,
          "keel run: --input %s names no input of the model, and there is no"
          " such file; its inputs are%s\n",
          shown(word), *names ? names : " none");
  return true;
}

static bool is_twice(const run_session *run, uint32_t input,
                     const keel_port *port) {
  if (!run->inputs[input]) return false;
  fprintf(stderr, "keel run: input \"%s\" is given twice\n", shown(port->name));
  return true;
}

int run_load_inputs(const run_arguments *all, run_session *run) {
  uint32_t next = 0;
  if (!check_sizes(all, run)) return EXIT_USAGE;
  for (uint32_t i = 0; i < all->inputs.count; i++) {
    const char *file = all->inputs.words[i];
    uint32_t at = named_input(run, file, &file);
    keel_port port;
    if (at == run->input_count && is_no_name(run, file)) return EXIT_USAGE;
    while (at == run->input_count && next < run->input_count &&
           (run->inputs[next] || run_is_member(run, next)))
      next++;
    if (at == run->input_count) at = next;
    if (at >= run->input_count) {
      fprintf(stderr, "keel run: the model has %u inputs; \"%s\" is too many\n",
              own_inputs(run), shown(all->inputs.words[i]));
      return EXIT_USAGE;
    }
    keel_plan_input(run->plan, at, &port);
    if (!can_be_given(run, at, &port) || is_twice(run, at, &port))
      return EXIT_USAGE;
    if (keel_value_load(run->context, file, run_file_kind(&port),
                        &run->inputs[at]) != KD_OK)
      return complain();
    if ((port.flags & KEEL_PORT_RESOURCE) &&
        wrap_variable(run->context, &run->inputs[at]) != KD_OK)
      return complain();
  }
  uint64_t state = all->seed;
  uint32_t made = 0;
  for (uint32_t i = 0; i < run->input_count; i++)
    if (!run->inputs[i]) {
      int failed = make_random(all, run, i, &state);
      if (failed) return failed;
      made += !run_is_member(run, i);
    }
  if (made && !all->json && !run->told)
    printf("%u of %u inputs are random, seed %llu\n", made, own_inputs(run),
           (unsigned long long)all->seed);
  run->told = true;
  return 0;
}
