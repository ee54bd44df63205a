/* compile.c - `keel compile`: a model in one of Keel's own forms. */
#include <errno.h>
#include <sys/stat.h>

#include "parting.h"
#include "sizes.h"
#include "smpi.h"
#include "tool.h"

typedef struct arguments {
  common common;
  operands models; /* one */
  const char *model, *output, *device, *dump, *split, *trace;
  bool text, by_cost;
  uint64_t ranks, parts;
  double bytes_as;
  word_list places, skips, shapes, dims;
} arguments;

static arguments given = {.common = {.command = "compile", .runs = true}};

static const command syntax;

static bool take_place(const char *value) {
  return place_add(&syntax, &given.places, &given.by_cost, value);
}

static const option options[] = {
    {"-o", "FILE", "where to write it", .text = &given.output},
    {"--output", .text = &given.output},
    {"--text",
     .help = "as MLIR in generic syntax, to be read by people and\n"
             "by `mlir-opt --allow-unregistered-dialect`;\n"
             "without compiled regions",
     .flag = &given.text},
    {"--device", "D",
     "run the passes for device D first (`keel passes`\n"
     "lists them), which opening it then skips; it runs\n"
     "on D unless another device is named. The file has the\n"
     "compiled form of D's own compiler, if the plugin\n"
     "provides one: `keel run` then compiles nothing if\n"
     "plugin, options, product and driver are the same",
     .text = &given.device},
    {"--place", "GLOB=D", "as in `keel run`; likewise:", .take = take_place},
    {"--place", "auto", "", .take = take_place},
    {"--split", "KIND",
     "write FILE.0, FILE.1 ...: the program of each rank,\n"
     "as for `keel run --split`",
     .text = &given.split},
    {"--parts", "N", "as for `keel run --parts`", .count = &given.parts,
     .least = 1, .most = 65536},
    {"--np", "N", "how many ranks", .count = &given.ranks, .least = 1,
     .most = 1024},
    {"--dim", "NAME=4",
     "size of the open dimensions of that name, which else\n"
     "stay open (with --split: 1). D's own compiler may need\n"
     "it: the file is then for this size alone",
     .list = &given.dims},
    {"--shape", "NAME=2x3", "shape of an input whose dimensions are open",
     .list = &given.shapes},
    {"--smpi-trace", "DIR",
     "write no program, but the computations and exchanges\n"
     "of each rank, for `smpirun -replay DIR/ranks` of SimGrid",
     .text = &given.trace},
    {"--bytes-as", "X",
     "in such traces, an op counts as X flops for each byte\n"
     "that it reads or writes, if that is more than it\ncomputes (0)",
     .number = &given.bytes_as},
    {"--dump-after", "PASS",
     "print the program after each run of a pass, or of\n"
     "\"all\"; larger constants are left out",
     .text = &given.dump},
    {"--skip-pass", "PASS",
     "leave out a pass (`keel passes` lists them); may be\nrepeated",
     .debug = true, .list = &given.skips},
    {0}};

static const command syntax = {
    "usage: keel compile MODEL -o FILE [OPTION]...\n"
    "       keel compile MODEL --dump-after PASS [OPTION]...\n"
    "       keel compile MODEL --smpi-trace DIR --np N [OPTION]...\n\n"
    "Compiles a model to Keel's own program format, which `keel run` and\n"
    "keel_program_load open much faster than ONNX.\n\n",
    options, &given.common, &given.models, .one_word = true};

/* Of options that do not go together; -1: all do. */
static int check_trace(void) {
  if (!given.trace)
    return given.bytes_as > 0
               ? usage_error("compile", "--bytes-as is for --smpi-trace")
               : -1;
  if (given.output || given.dump || given.text)
    return usage_error("compile",
                       "--smpi-trace writes traces alone: give no -o, --text or"
                       " --dump-after");
  return given.ranks ? -1
                     : usage_error("compile",
                                   "--smpi-trace needs the number of ranks:"
                                   " give --np N");
}

static int compile_parse(int argc, char **argv) {
  int result = options_read(&syntax, argc, argv);
  if (result < 0) result = check_trace();
  if (result >= 0) return result;
  if (!given.models.count) return usage_error("compile", "give a model file");
  if (!given.output && !given.dump && !given.trace)
    return usage_error("compile", "no output file: give -o FILE");
  if (!given.trace && !given.split != !given.ranks)
    return usage_error("compile", "--split and --np go together");
  if (given.shapes.count && given.split)
    return usage_error("compile", "--split takes sizes by --dim, not --shape");
  if (given.split && !given.trace && (!given.output || given.dump))
    return usage_error("compile",
                       "--split writes files: give -o FILE, and no"
                       " --dump-after");
  int wrong = parting_check("compile", given.split, given.parts);
  if (wrong >= 0) return wrong;
  given.model = given.models.words[0];
  return -1;
}

static void print(void *context, const char *pass, const char *text) {
  (void)context;
  printf("// after %s\n%s\n", pass, text);
}

static void print_size(const char *path, keel_program *program, double from) {
  struct stat facts;
  if (stat(path, &facts) != 0) return;
  bool small = facts.st_size < 1 << 20;
  printf("%s: %u ops, %.1f %s, in %.0f ms\n", shown(path),
         (unsigned)keel_program_op_count(program),
         (double)facts.st_size / (small ? 1 << 10 : 1 << 20),
         small ? "KiB" : "MiB", (now() - from) * 1e3);
}

static const char *plural(uint32_t count) {
  return count == 1 ? "" : "s";
}

/* The regions of devices' own compilers, and how many are in the file. */
static void print_regions(const keel_program *program, bool text) {
  uint32_t held = 0, bare = 0;
  uint64_t size = 0;
  keel_program_regions(program, &held, &size, &bare);
  if (held && text)
    printf("%u compiled region%s left out: text holds none\n", (unsigned)held,
           plural(held));
  else if (held)
    printf("%u compiled region%s in it, %.1f KiB\n", (unsigned)held,
           plural(held), (double)size / (1 << 10));
  if (bare)
    printf(
        "%u region%s not in it: the plugin provides no compiled form, so each "
        "run compiles them\n",
        (unsigned)bare, plural(bare));
}

/* Adds what fixes the open sizes of an input, each once. */
static void add_remedy(const keel_port *port, char *text, size_t capacity) {
  bool unnamed = port->rank == KEEL_RANK_UNKNOWN;
  char one[300];
  for (uint32_t d = 0; !unnamed && d < port->rank; d++) {
    const char *symbol = port->symbols ? port->symbols[d] : NULL;
    if (port->dims[d] >= 0) continue;
    unnamed |= !symbol || !*symbol;
    if (unnamed) break;
    snprintf(one, sizeof one, " --dim %s=N", symbol);
    size_t used = strlen(text);
    if (!strstr(text, one)) snprintf(text + used, capacity - used, "%s", one);
  }
  size_t used = strlen(text);
  if (unnamed)
    snprintf(text + used, capacity - used, " --shape %s=AxB", port->name);
}

/* Where a device's compiler has made nothing, and sizes are open: that, and what to do. */
static void print_open(const arguments *all, keel_context *context,
                       const keel_program *program) {
  uint32_t held = 0, bare = 0;
  char remedy[600] = "";
  keel_device *device = NULL;
  keel_program_regions(program, &held, NULL, &bare);
  if (held || bare || all->text ||
      keel_device_find(context, all->device, &device) != KD_OK ||
      !keel_device_compiles(device))
    return;
  for (uint32_t i = 0; i < keel_program_input_count(program); i++) {
    keel_port port;
    keel_program_input(program, i, &port);
    if (!port.flags) add_remedy(&port, remedy, sizeof remedy);
  }
  if (*remedy)
    printf(
        "no compiled region in it: sizes of inputs are open, so each run"
        " compiles for the sizes that it gets; for one set of sizes give%s\n",
        shown(remedy));
}

/* The program to write: the model as it is, or after the passes. A plan's own passes run, too, if
 * they are to be shown. */
static keel_status compile_make(arguments *all, keel_context *context,
                                keel_program *model,
                                keel_program **out_program) {
  keel_plan *plan = NULL;
  keel_plan_params params = {
      .struct_size = sizeof params,
      .flags = all->by_cost ? KEEL_PLAN_BY_COST : 0,
      .places = all->places.words,
      .place_count = all->places.count,
      .skip = all->skips.words,
      .skip_count = all->skips.count,
      .on_pass = all->dump ? print : NULL,
      .on_pass_name =
          all->dump && strcmp(all->dump, "all") != 0 ? all->dump : NULL,
  };
  keel_status status = KD_OK;
  *out_program = NULL;
  if (all->device || all->trace) /* a trace is of what would run */
    status = keel_device_find(context, all->device, &params.device);
  if (status == KD_OK && all->dump) {
    status = keel_plan_create(model, &params, &plan);
    keel_plan_release(plan);
    params.on_pass = NULL;
  }
  bool bare = all->text || all->trace; /* nothing to keep it in */
  if (bare && params.skip_count < WORDS_MOST)
    all->skips.words[params.skip_count++] = "regions";
  bool changed = params.device || all->by_cost || all->places.count;
  if (status == KD_OK && (all->output || all->trace) && changed)
    status = keel_program_compile(model, &params, out_program);
  return status;
}

static int64_t split_size(void *context, const char *input, uint32_t axis,
                          const char *symbol) {
  int64_t size = parting_size(context, symbol);
  (void)input;
  (void)axis;
  return size < 0 ? 1 : size;
}

/* A rank's program; returns 0, or the command's status. */
static int compile_split(keel_program *model, const keel_split_params *params,
                         keel_program **out_own, keel_split_facts *out_facts) {
  const parting_dims *dims = params->size_context;
  keel_status status = keel_program_split(model, params, out_own, out_facts);
  bool known = parting_knows(dims, "compile", status);
  if (known && status == KD_OK) return 0;
  progress_end();
  keel_program_release(*out_own);
  *out_own = NULL;
  return known ? complain() : EXIT_USAGE;
}

/* One rank's program, in a file of its own. */
static int write_rank(arguments *all, keel_context *context,
                      keel_program *model, keel_split_params *params) {
  keel_program *own = NULL, *made = NULL;
  keel_split_facts facts;
  char path[4096];
  double from = now();
  snprintf(path, sizeof path, "%s.%u", all->output, (unsigned)params->rank);
  int result = compile_split(model, params, &own, &facts);
  if (result) return result;
  keel_status status = compile_make(all, context, own, &made);
  if (status == KD_OK)
    status = keel_program_save(made ? made : own, path,
                               all->text ? KEEL_SAVE_TEXT : 0);
  progress_end();
  result = status == KD_OK ? 0 : complain();
  if (!result) {
    print_size(path, made ? made : own, from);
    printf("  ");
    parting_print(all->split, &facts);
  }
  keel_program_release(made);
  keel_program_release(own);
  return result;
}

/* One rank's program, for its trace; `own` stays the caller's. */
static int trace_program(arguments *all, keel_context *context,
                         keel_program *own, uint32_t from, uint32_t to) {
  const smpi_traces traces = {all->trace, (uint32_t)all->ranks, all->bytes_as};
  keel_program *made = NULL;
  keel_status status = compile_make(all, context, own, &made);
  progress_end();
  int result = status == KD_OK ? 0 : complain();
  if (!result) result = smpi_write(&traces, made ? made : own, from, to);
  keel_program_release(made);
  return result;
}

/* A split by data or by weights gives all ranks the same ops on values of the same sizes, so
 * that rank 0's program stands for all. */
static uint32_t alike_ranks(const keel_split_params *params) {
  return params->kind == KEEL_SPLIT_DATA || params->kind == KEEL_SPLIT_TENSOR
             ? params->size
             : 1;
}

/* The traces of a rank, and of those behind it that are alike. */
static int trace_rank(arguments *all, keel_context *context,
                      keel_program *model, keel_split_params *params) {
  keel_program *own = NULL;
  keel_split_facts facts;
  uint32_t end = params->rank + alike_ranks(params);
  progress("splitting %s", all->model);
  int result = compile_split(model, params, &own, &facts);
  progress_end();
  if (!result) result = trace_program(all, context, own, params->rank, end);
  if (!result)
    printf("  weights %.1f MiB of %.1f MiB\n",
           (double)facts.weights_here / (1u << 20),
           (double)facts.weights / (1u << 20));
  keel_program_release(own);
  params->rank = end;
  return result;
}

static int write_ranks(arguments *all, keel_context *context,
                       keel_program *model) {
  parting_dims dims = {.given = &all->dims};
  keel_split_params params = {.struct_size = sizeof params,
                              .kind = (uint32_t)parting_kind(all->split),
                              .parts = (uint32_t)all->parts,
                              .size = (uint32_t)all->ranks,
                              .size_of = split_size,
                              .size_context = &dims};
  int result = 0;
  while (all->trace && params.rank < params.size && !result)
    result = trace_rank(all, context, model, &params);
  for (; params.rank < params.size && !result; params.rank++)
    result = write_rank(all, context, model, &params);
  return result;
}

static int compile_work(arguments *all, keel_context *context) {
  keel_program *model = NULL, *made = NULL;
  double from = now();
  progress("reading %s", all->model);
  keel_status status = keel_program_load(context, all->model, &model);
  progress("compiling %s", all->model);
  if (status == KD_OK && !all->split) {
    const given_sizes sizes = {"compile", &all->shapes, &all->dims};
    keel_program *fixed = NULL;
    int result = sizes_fix(&sizes, model, &fixed);
    if (fixed) {
      keel_program_release(model);
      model = fixed;
    }
    if (result) {
      keel_program_release(model);
      return result;
    }
  }
  if (status == KD_OK && all->trace && !all->split) {
    int result = trace_program(all, context, model, 0, (uint32_t)all->ranks);
    keel_program_release(model);
    return result;
  }
  if (status == KD_OK && all->split) {
    int result = write_ranks(all, context, model);
    keel_program_release(model);
    return result;
  }
  if (status == KD_OK) status = compile_make(all, context, model, &made);
  if (status == KD_OK && all->output)
    status = keel_program_save(made ? made : model, all->output,
                               all->text ? KEEL_SAVE_TEXT : 0);
  progress_end();
  int result = status == KD_OK ? 0 : complain();
  if (!result && all->output) {
    print_size(all->output, made ? made : model, from);
    print_regions(made ? made : model, all->text);
    if (made) print_open(all, context, made);
  }
  keel_program_release(made);
  keel_program_release(model);
  return result;
}

int keel_main_compile(int argc, char **argv) {
  int result = compile_parse(argc, argv);
  if (result >= 0) return result;
  keel_context *context = common_open(&given.common, 0);
  if (!context) return 1;
  result = compile_work(&given, context);
  keel_close(context);
  return result;
}
