/* run.c - `keel run`: one model, its inputs, its outputs, its profile. */
#include <keel/debug.h>

#include <errno.h>
#include <sys/stat.h>

#include "onnx/small.h"
#include "parting.h"
#include "ranks.h"
#include "several.h"
#include "tool.h"

#define PORTS 256

typedef struct arguments {
  common common;
  operands models; /* one */
  const char *model, *device, *devices, *split, *output, *trace;
  word_list inputs, expects, shapes, dims, places, skips;
  uint64_t seed, repeat, ranks, parts;
  uint64_t exchange_timeout; /* milliseconds; 0: default */
  tolerance within;
  double timeout; /* milliseconds; 0: none */
  bool profile, json, by_cost, eager, no_replay;
} arguments;

typedef struct session {
  keel_context *context;
  keel_link *link;        /* to other ranks; NULL: there are none */
  keel_device *device;    /* the one asked for, or NULL */
  several several;        /* devices that are ranks */
  keel_split_facts facts; /* of a model that is split */
  uint64_t split_dims;    /* bits: values of --dim that it has used */
  uint64_t traced_from;   /* CLOCK_MONOTONIC, nanoseconds */
  keel_program *program;
  keel_plan *plan;
  uint32_t input_count, output_count;
  keel_tensor *inputs[PORTS], *outputs[PORTS];
  bool narrow; /* some plugins are not opened */
  bool told;   /* which inputs are random */
  double load_time, plan_time, first_time, best_time, total_time;
} session;

/* ---- the command line ----------------------------------------------------- */

static arguments given = {.common = {.command = "run", .runs = true},
                          .seed = 1,
                          .repeat = 1,
                          .within = {.rtol = 1e-3, .atol = 1e-7}};

static const command syntax;

static bool take_place(const char *value) {
  return place_add(&syntax, &given.places, &given.by_cost, value);
}

static const option options[] = {
    {"--device", "D", "run it on device D (`keel devices` lists them)",
     .text = &given.device},
    {"--place", "GLOB=D",
     "run ops whose name, or whose node's name, matches on\n"
     "device D; may be repeated, the first match wins",
     .take = take_place},
    {"--place", "GLOB=@G", "run them where the first op runs that G matches",
     .take = take_place},
    {"--place", "auto",
     "the other ops where costs are lowest; each device is\nmeasured first",
     .take = take_place},
    {"--skip-pass", "PASS",
     "leave out a pass (`keel passes` lists them); may be\nrepeated",
     .debug = true, .list = &given.skips},
    {"--input", "NAME=FILE",
     "value of an input: .npy, or .pb (ONNX TensorProto);\n"
     "of a resource: a variable that holds it",
     .list = &given.inputs},
    {"--input", "FILE", "value of the next input, in the model's order",
     .list = &given.inputs},
    {"--shape", "NAME=2x3", "shape of a random input whose dimensions are open",
     .list = &given.shapes},
    {"--dim", "NAME=4",
     "size of the open dimensions of that name, in random\ninputs (1)",
     .list = &given.dims},
    {"--seed", "N",
     "seed of the random inputs, which stand in for those\nnot given (1)",
     .count = &given.seed},
    {"--expect", "FILE",
     "compare the next output with a file; exit 1 if it\n"
     "differs by more than 1e-7 + 1e-3 x expected",
     .list = &given.expects},
    {"--rtol", "X, --atol X", "other tolerances", .number = &given.within.rtol},
    {"--atol", .number = &given.within.atol},
    {"--output", "DIR",
     "write each output to DIR/NAME.npy; bf16 as f32, which\n"
     "has the same values, and so what .npy has not of 8\n"
     "bits or less",
     .text = &given.output},
    {"--eager", .help = "run op by op, without a plan; for comparison",
     .debug = true, .flag = &given.eager},
    {"--no-replay",
     .help = "launch each kernel separately, even if the device could\n"
             "launch a recording",
     .debug = true, .flag = &given.no_replay},
    {"--devices", "D,E",
     "run it on devices D, E ... at once; a model's\n"
     "exchanges are between them",
     .text = &given.devices},
    {"--np", "N",
     "start N ranks of it by the mpirun that is found; a\n"
     "model's exchanges (AllReduce ...) are between them",
     .count = &given.ranks, .least = 1, .most = 65536},
    {"--exchange-timeout", "MS",
     "fail where a rank waits for others longer than that in\n"
     "an exchange, and say where each is (five minutes)",
     .count = &given.exchange_timeout, .least = 1, .most = 1000000000},
    {"--split", "KIND",
     "let ranks share the model: by `data`, each a part of\n"
     "the batch; by `tensor`, each a part of the weights; by\n"
     "`pipe`, each some of the nodes, one behind the other;\n"
     "or as the model is `annotated`",
     .text = &given.split},
    {"--parts", "N",
     "in how many parts the batch goes through a pipe\n"
     "(up to 4 for each rank)",
     .count = &given.parts, .least = 1, .most = 65536},
    {"--repeat", "N", "run it N times and print the times",
     .count = &given.repeat, .least = 1, .most = 1000000000},
    {"--timeout", "MS",
     "fail a run, or planning, that takes longer, with an\nerror",
     .number = &given.timeout},
    {"--profile",
     .help = "print where the time went, by op and by device: by the\n"
             "device's clock if its plugin has timestamps",
     .flag = &given.profile},
    {"--trace", "FILE",
     "write a timeline for ui.perfetto.dev or\nchrome://tracing, of all ranks",
     .text = &given.trace},
    {"--json", .help = "print the result as JSON", .flag = &given.json},
    {0}};

static const command syntax = {
    "usage: keel run MODEL [OPTION]...\n\n"
    "Runs a model one or more times, and prints the results.\n\n",
    options, &given.common, &given.models, .one_word = true};

static int parse(int argc, char **argv) {
  int result = options_read(&syntax, argc, argv);
  if (result >= 0) return result;
  if (!given.models.count) return usage_error("run", "give a model file");
  given.model = given.models.words[0];
  return -1;
}

/* ---- inputs --------------------------------------------------------------- */

/* "2x3" or "2,3", or "" of a scalar; false where it is none. */
static bool read_shape(const char *at, uint32_t *rank, int64_t *dims) {
  *rank = 0;
  while (*at) {
    char *end = NULL;
    errno = 0;
    if (*rank == 16 || *at < '0' || *at > '9') return false;
    dims[(*rank)++] = strtoll(at, &end, 10);
    bool more = (*end == 'x' || *end == ',') && end[1];
    if (errno || (*end && !more)) return false;
    at = end + more;
  }
  return true;
}

/* The shape in "NAME=2x3", where NAME is this input's; else NULL. */
static const char *shape_for(const char *word, const char *name) {
  size_t size = strlen(name);
  return !strncmp(word, name, size) && word[size] == '=' ? word + size + 1
                                                         : NULL;
}

/* Fills dims with what --shape says of this input; false where it says nothing. */
static bool given_shape(const arguments *all, const char *name, uint32_t *rank,
                        int64_t *dims) {
  for (uint32_t i = 0; i < all->shapes.count; i++) {
    const char *shape = shape_for(all->shapes.words[i], name);
    if (shape) return read_shape(shape, rank, dims);
  }
  return false;
}

/* Each --shape is an input's name, and sizes. */
static bool check_shapes(const arguments *all, const session *run) {
  for (uint32_t i = 0; i < all->shapes.count; i++) {
    bool good = false;
    uint32_t rank = 0;
    int64_t dims[16];
    char names[512] = "";
    for (uint32_t k = 0; k < run->input_count && !good; k++) {
      keel_port port;
      keel_plan_input(run->plan, k, &port);
      const char *shape = shape_for(all->shapes.words[i], port.name);
      good = shape && read_shape(shape, &rank, dims);
      size_t used = strlen(names);
      snprintf(names + used, sizeof names - used, " \"%s\"", port.name);
    }
    if (good) continue;
    fprintf(stderr,
            "keel run: --shape %s does not have the form INPUT=2x3; the "
            "model's inputs"
            " are%s\n",
            all->shapes.words[i], *names ? names : " none");
    return false;
  }
  return true;
}

/* An open dimension's size: as it was given, or 1. */
static int64_t open_size(const arguments *all, const keel_port *port,
                         uint32_t dim) {
  const char *name = port->symbols ? port->symbols[dim] : NULL;
  for (uint32_t i = 0; name && i < all->dims.count; i++)
    if (size_for(all->dims.words[i], name) >= 0)
      return size_for(all->dims.words[i], name);
  return 1;
}

/* What a command is to exit with where more plugins are to be opened first. */
#define WIDER (-1)

/* A failure. What an op lacks that is not there, a device that was not opened may have. */
static int fail_or_widen(const session *run, keel_status status) {
  if (run->narrow && (status == KD_UNIMPLEMENTED || status == KD_NOT_FOUND))
    return WIDER;
  return complain();
}

/* What the split of a model asks. */
typedef struct sizes {
  const arguments *all;
  session *run;
} sizes;

/* The file that is given for a program's input: by its name, or in its turn. NULL: none is. */
static const char *file_for(const arguments *all, const keel_program *program,
                            const char *input) {
  bool named[PORTS] = {false};
  const char *files[PORTS] = {NULL};
  uint32_t count = keel_program_input_count(program), next = 0;
  keel_port port;
  if (count > PORTS) count = PORTS;
  for (uint32_t i = 0; i < all->inputs.count; i++) {
    const char *word = all->inputs.words[i];
    uint32_t at = 0;
    while (at < count && keel_program_input(program, at, &port) == KD_OK &&
           !shape_for(word, port.name))
      at++;
    while (at == count && next < count && named[next])
      next++;
    if (at == count && next < count) {
      files[next] = word;
      named[next++] = true;
    } else if (at < count) {
      files[at] = shape_for(word, port.name);
      named[at] = true;
    }
  }
  for (uint32_t i = 0; i < count; i++)
    if (keel_program_input(program, i, &port) == KD_OK &&
        !strcmp(port.name, input))
      return files[i];
  return NULL;
}

/* The size in the file that is given; -1: none is, or it has other dimensions. */
static int64_t size_in_file(const sizes *asked, const char *input,
                            uint32_t axis) {
  const char *file = file_for(asked->all, asked->run->program, input);
  keel_tensor *value = NULL;
  int64_t size = -1;
  if (!file || keel_value_load(asked->run->context, file, KEEL_FILE_TENSOR,
                               &value) != KD_OK)
    return -1; /* it is said when the inputs are read */
  if (axis < keel_tensor_rank(value)) size = keel_tensor_dims(value)[axis];
  keel_tensor_release(value);
  return size;
}

/* As --dim has it, or else --shape, or the input's file; else 1. */
static int64_t split_size(void *context, const char *input, uint32_t axis,
                          const char *symbol) {
  const sizes *asked = context;
  const word_list *dims = &asked->all->dims;
  uint32_t rank = 0;
  int64_t shape[16];
  for (uint32_t i = 0; symbol && i < dims->count && i < 64; i++)
    if (size_for(dims->words[i], symbol) >= 0) {
      asked->run->split_dims |= UINT64_C(1) << i;
      return size_for(dims->words[i], symbol);
    }
  if (given_shape(asked->all, input, &rank, shape) && axis < rank)
    return shape[axis];
  int64_t size = size_in_file(asked, input, axis);
  return size < 0 ? 1 : size;
}

/* The number of ranks, and this one's. */
static void find_rank(session *run, uint32_t *out_rank, uint32_t *out_size) {
  keel_link_facts facts = {.size = 1};
  if (run->link) keel_link_look(run->link, &facts);
  *out_rank = facts.rank;
  *out_size = run->several.group ? run->several.count : facts.size;
}

/* Of a pipe, what balances it. Returns 0, or the exit status. */
static int find_speeds(const session *run, keel_split_params *params,
                       keel_split_speed **out_speeds) {
  keel_device *own = run->device;
  *out_speeds = NULL;
  if (params->kind != KEEL_SPLIT_PIPE) return 0;
  if (!own && keel_device_find(run->context, NULL, &own) != KD_OK)
    return complain();
  *out_speeds = run->several.group ? parting_speeds(NULL, run->several.devices,
                                                    run->several.count)
                                   : parting_speeds(run->link, &own, 1);
  params->speeds = *out_speeds;
  return *out_speeds ? 0 : 1;
}

/* Each rank gets its program in place of the whole one. Returns 0, or the exit status. */
static int split_model(const arguments *all, session *run) {
  keel_split_params params = {.struct_size = sizeof params,
                              .kind = (uint32_t)parting_kind(all->split),
                              .parts = (uint32_t)all->parts,
                              .size_of = split_size,
                              .size_context = &(sizes){all, run}};
  keel_program *whole = run->program, *own = NULL;
  keel_split_speed *speeds = NULL;
  uint32_t rank = 0;
  find_rank(run, &rank, &params.size);
  int failed = find_speeds(run, &params, &speeds);
  if (failed) return failed;
  keel_status status = KD_OK;
  for (uint32_t i = 1; i < run->several.count && status == KD_OK; i++) {
    params.rank = i;
    status =
        keel_program_split(whole, &params, &run->several.programs[i], NULL);
  }
  params.rank = rank;
  if (status == KD_OK)
    status = keel_program_split(whole, &params, &own, &run->facts);
  free(speeds);
  if (status != KD_OK) return fail_or_widen(run, status);
  keel_program_release(whole);
  run->program = own;
  return 0;
}

/* The names of open dimensions; whether one of them and a size are `word`. */
static bool is_dim(const session *run, const char *word, char *names,
                   size_t room) {
  bool known = false;
  for (uint32_t k = 0; k < run->input_count; k++) {
    keel_port port;
    keel_plan_input(run->plan, k, &port);
    for (uint32_t d = 0; port.symbols && d < port.rank; d++) {
      char quoted[256];
      if (!port.symbols[d]) continue;
      known |= size_for(word, port.symbols[d]) >= 0;
      snprintf(quoted, sizeof quoted, " \"%s\"", port.symbols[d]);
      size_t size = strlen(names);
      if (!strstr(names, quoted))
        snprintf(names + size, room - size, "%s", quoted);
    }
  }
  return known;
}

/* Each --dim is the name of a dimension, and a size. A split has made them known, and has seen
 * which there are. */
static bool check_dims(const arguments *all, const session *run) {
  for (uint32_t i = 0; i < all->dims.count; i++) {
    char there[512] = "";
    if (run->split_dims >> i & 1 ||
        is_dim(run, all->dims.words[i], there, sizeof there))
      continue;
    fprintf(stderr,
            "keel run: --dim %s is not NAME=SIZE of an open dimension; the"
            " model's inputs have%s\n",
            all->dims.words[i], *there ? there : " none that has a name");
    return false;
  }
  return true;
}

/* Returns 0, or the command's status; then it has been said why. */
static int make_random(const arguments *all, session *run, uint32_t index,
                       uint64_t *state) {
  keel_port port;
  int64_t dims[16];
  keel_plan_input(run->plan, index, &port);
  uint32_t rank = port.rank;
  bool shaped = given_shape(all, port.name, &rank, dims);
  if ((port.flags & KEEL_PORT_RESOURCE) && !strcmp(port.name, "keel.member")) {
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
        port.name, port.name);
    return EXIT_USAGE;
  }
  if (!shaped && (rank == KEEL_RANK_UNKNOWN || !port.dtype || port.flags)) {
    fprintf(stderr,
            "keel run: input \"%s\" has no known type; give it with"
            " --input %s=FILE\n",
            port.name, port.name);
    return EXIT_USAGE;
  }
  if (port.dtype == KD_STRING) {
    fprintf(stderr,
            "keel run: input \"%s\" is strings, which are not made at random;"
            " give it with --input %s=FILE\n",
            port.name, port.name);
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
            port.name, (long long)count);
    return 1;
  }
  if (data) random_fill(data, port.dtype, count, state);
  keel_status status = keel_tensor_create(run->context, port.dtype, rank, dims,
                                          data, &run->inputs[index]);
  free(data);
  return status == KD_OK ? 0 : complain();
}

static uint32_t file_kind(const keel_port *port) {
  return port->flags & KEEL_PORT_OPTIONAL   ? KEEL_FILE_OPTIONAL
         : port->flags & KEEL_PORT_SEQUENCE ? KEEL_FILE_SEQUENCE
                                            : KEEL_FILE_TENSOR;
}

/* The input that "NAME=FILE" names; its file goes to *out_file. */
static uint32_t named_input(const session *run, const char *word,
                            const char **out_file) {
  for (uint32_t i = 0; i < run->input_count; i++) {
    keel_port port;
    keel_plan_input(run->plan, i, &port);
    size_t size = strlen(port.name);
    if (!strncmp(word, port.name, size) && word[size] == '=') {
      *out_file = word + size + 1;
      return i;
    }
  }
  return run->input_count;
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
static bool is_member(const session *run, uint32_t index) {
  keel_port port;
  keel_plan_input(run->plan, index, &port);
  return (run->link || run->several.group) && !strcmp(port.name, "keel.member");
}

/* All ranks' programs exchange the same; where they exchange nothing, each runs all of it. */
static int check_ranks(const arguments *all, const session *run) {
  bool exchanges = false;
  keel_link_facts facts;
  if (!run->link) return 0;
  keel_link_look(run->link, &facts);
  for (uint32_t i = 0; i < run->input_count; i++)
    exchanges |= is_member(run, i);
  if (keel_link_check(run->link, run->program) != KD_OK) return complain();
  if (!exchanges && !facts.rank && facts.size > 1)
    fprintf(stderr,
            "keel run: %s exchanges nothing: each of %u ranks runs all of it\n",
            all->model, (unsigned)facts.size);
  return 0;
}

static int load_inputs(const arguments *all, session *run) {
  uint32_t next = 0;
  if (!check_dims(all, run) || !check_shapes(all, run)) return EXIT_USAGE;
  for (uint32_t i = 0; i < all->inputs.count; i++) {
    const char *file = all->inputs.words[i];
    uint32_t at = named_input(run, file, &file);
    keel_port port;
    while (at == run->input_count && next < run->input_count &&
           run->inputs[next])
      next++;
    if (at == run->input_count) at = next;
    if (at >= run->input_count) {
      fprintf(stderr, "keel run: the model has %u inputs; \"%s\" is too many\n",
              run->input_count, all->inputs.words[i]);
      return EXIT_USAGE;
    }
    keel_plan_input(run->plan, at, &port);
    keel_tensor_release(run->inputs[at]);
    run->inputs[at] = NULL;
    if (keel_value_load(run->context, file, file_kind(&port),
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
      made += !is_member(run, i);
    }
  if (made && !all->json && !run->told)
    printf("%u of %u inputs are random, seed %llu\n", made, run->input_count,
           (unsigned long long)all->seed);
  run->told = true;
  return 0;
}

/* ---- plugins that are not needed --------------------------------------------------- */

/* Drivers of devices that a run does not use take longer to open, and more memory, than
 * small models to run. So for the CPU its plugin alone is opened, and the others where that
 * was not enough. False: somebody has said which, or may mean any. */
static bool is_narrow(const arguments *all) {
  const char *device = all->device ? all->device : getenv("KEEL_DEVICE");
  const char *visible = getenv("KEEL_VISIBLE_DEVICES");
  const common *common = &all->common;
  return (!device || !*device || !strcmp(device, "cpu") ||
          !strncmp(device, "cpu:", 4)) &&
         !(visible && *visible) && !all->devices && !common->only &&
         !common->plugin_count && !common->option_count && !all->places.count &&
         !all->by_cost && !all->trace; /* one runs at a time in a process */
}

/* ---- running -------------------------------------------------------------- */

/* Nanoseconds; one more, so that some time is not no limit. */
static uint64_t limit_of(const arguments *all) {
  return all->timeout > 0 ? (uint64_t)(all->timeout * 1e6) + 1 : 0;
}

/* The input that is a rank's handle, or one behind the last. */
static uint32_t member_of(const session *run) {
  uint32_t at = 0;
  while (at < run->input_count && !is_member(run, at))
    at++;
  return at;
}

static int run_all(const arguments *all, session *run) {
  double shown = now();
  for (uint64_t i = 0; i < all->repeat; i++) {
    for (uint32_t k = 0; k < run->output_count; k++) {
      keel_tensor_release(run->outputs[k]);
      run->outputs[k] = NULL;
    }
    if (i == 1 && all->profile)
      keel_plan_profile(
          run->plan, KEEL_PROFILE_OPS |
                         KEEL_PROFILE_CLOCKS); /* the first run is no example */
    double begin = now();
    keel_run_params params = {.struct_size = sizeof params};
    params.timeout = limit_of(all);
    guard_begin("the run", all->timeout / 1e3);
    keel_status status =
        run->several.group
            ? several_run(&run->several, &params, run->inputs, run->input_count,
                          member_of(run), run->outputs, run->output_count)
            : keel_plan_run_with(run->plan, &params, run->inputs,
                                 run->input_count, run->outputs,
                                 run->output_count);
    for (uint32_t k = 0; k < run->output_count && status == KD_OK; k++) {
      keel_tensor *here = NULL; /* an asynchronous device ends here */
      if (keel_sequence_length(run->outputs[k]) < 0 &&
          !keel_optional_is_empty(run->outputs[k]))
        status = keel_tensor_to(run->outputs[k], NULL, &here);
      if (here) {
        keel_tensor_release(run->outputs[k]);
        run->outputs[k] = here;
      }
    }
    guard_end();
    if (status != KD_OK) return fail_or_widen(run, status);
    double time = now() - begin;
    if (i == 0) run->first_time = time;
    if (i == 1 || (i > 1 && time < run->best_time)) run->best_time = time;
    run->total_time += time;
    if (now() - shown > 0.2) {
      shown = now();
      progress("run %llu of %llu", (unsigned long long)i + 1,
               (unsigned long long)all->repeat);
    }
  }
  progress_end();
  return 0;
}

/* Whether an input has the shape that the model declares. */
static bool is_declared(const session *run, uint32_t index) {
  keel_tensor *input = run->inputs[index];
  keel_port port;
  if (is_member(run, index)) return true;
  keel_plan_input(run->plan, index, &port);
  if (port.flags || port.rank == KEEL_RANK_UNKNOWN || !port.dtype) return true;
  const int64_t *dims = keel_tensor_dims(input);
  bool same = keel_tensor_rank(input) == port.rank;
  for (uint32_t i = 0; same && i < port.rank; i++)
    same = port.dims[i] < 0 || dims[i] == port.dims[i];
  return same;
}

/* Inputs of other shapes need the program; else its weights leave memory with it, where
 * kernels have packed them. */
static void release_program(session *run) {
  for (uint32_t i = 0; i < run->input_count; i++)
    if (!is_declared(run, i)) return;
  keel_program_release(run->program);
  run->program = NULL;
}

static int open_model(const arguments *all, session *run) {
  keel_device *device = NULL;
  run->context = common_open(&all->common, 0);
  if (!run->context) return 1;
  if (ranks_launched() &&
      !(run->link = ranks_join(run->context, all->exchange_timeout)))
    return 1;
  if (all->devices) {
    int failed = several_open(&run->several, run->context, all->devices);
    if (failed) return failed;
  }
  run->traced_from = (uint64_t)(now() * 1e9);
  if (all->trace && keel_trace_start(run->context) != KD_OK) return complain();
  keel_status status = KD_OK;
  if (run->several.group)
    device = run->several.devices[0];
  else if (run->link && all->device)
    status = ranks_device(run->link, run->context, all->device, &device);
  else if (all->device || !keel_device_count(run->context))
    status = keel_device_find(run->context, all->device, &device);
  if (status != KD_OK) return fail_or_widen(run, status);
  run->device = device;
  double begin = now();
  progress("loading %s", all->model);
  status = keel_program_load(run->context, all->model, &run->program);
  if (status != KD_OK) return fail_or_widen(run, status);
  int failed = all->split ? split_model(all, run) : 0;
  if (failed) return failed;
  double loaded = now();
  keel_plan_params params = {
      .struct_size = sizeof params,
      .flags = (all->by_cost ? KEEL_PLAN_BY_COST : 0u) |
               (all->eager ? KEEL_PLAN_EAGER : 0u) |
               (all->no_replay ? KEEL_PLAN_NO_REPLAY : 0u),
      .device = device,
      .places = all->places.words,
      .place_count = all->places.count,
      .skip = all->skips.words,
      .skip_count = all->skips.count,
      .timeout = limit_of(all)};
  progress("planning %s", all->model);
  guard_begin("planning", all->timeout / 1e3);
  status = keel_plan_create(run->program, &params, &run->plan);
  if (status == KD_OK && run->several.group)
    status = several_plan(&run->several, run->program, &params, run->plan);
  guard_end();
  if (status != KD_OK) return fail_or_widen(run, status);
  progress_end();
  run->load_time = loaded - begin;
  run->plan_time = now() - loaded;
  run->input_count = keel_plan_input_count(run->plan);
  run->output_count = keel_plan_output_count(run->plan);
  if (run->input_count > PORTS || run->output_count > PORTS) {
    fprintf(stderr, "keel run: the model has more than %d inputs or outputs\n",
            PORTS);
    return 1;
  }
  if (all->profile && all->repeat == 1)
    keel_plan_profile(run->plan, KEEL_PROFILE_OPS | KEEL_PROFILE_CLOCKS);
  failed = check_ranks(all, run);
  if (!failed) failed = load_inputs(all, run);
  if (!failed) release_program(run);
  return failed;
}

/* Returns the exit status, which another rank's failure may change. */
static int close_model(session *run, int result) {
  if (run->link && result) ranks_end(run->link, result); /* of all ranks */
  for (uint32_t i = 0; i < PORTS; i++) {
    keel_tensor_release(run->inputs[i]);
    keel_tensor_release(run->outputs[i]);
  }
  several_close(&run->several);
  keel_plan_release(run->plan);
  keel_program_release(run->program);
  result = ranks_end(run->link, result);
  keel_close(run->context);
  return result;
}

static int open_and_run(arguments *all, session *run) {
  run->narrow = is_narrow(all) && !ranks_launched();
  all->common.visible = run->narrow ? "cpu" : NULL;
  int result = open_model(all, run);
  if (!result) result = run_all(all, run);
  all->common.visible = NULL;
  if (result != WIDER) return result;
  close_model(run, 0);
  *run = (session){.told = run->told};
  result = open_model(all, run);
  return result ? result : run_all(all, run);
}

/* ---- results -------------------------------------------------------------- */

static int compare(const arguments *all, session *run, bool *agree,
                   char (*texts)[256]) {
  for (uint32_t i = 0; i < all->expects.count; i++) {
    keel_port port;
    keel_tensor *want = NULL;
    if (i >= run->output_count) {
      fprintf(stderr,
              "keel run: the model has %u outputs; \"%s\" is too many\n",
              run->output_count, all->expects.words[i]);
      return EXIT_USAGE;
    }
    keel_plan_output(run->plan, i, &port);
    if (keel_value_load(run->context, all->expects.words[i], file_kind(&port),
                        &want) != KD_OK)
      return complain();
    agree[i] = values_agree(run->outputs[i], want, all->within, texts[i], 256);
    keel_tensor_release(want);
  }
  return 0;
}

static int save_outputs(const arguments *all, session *run) {
  keel_link_facts facts = {0};
  if (run->link) keel_link_look(run->link, &facts);
  if (!all->output || facts.rank) return 0; /* rank 0's are there */
  if (mkdir(all->output, 0777) != 0 && errno != EEXIST) {
    fprintf(stderr, "keel run: %s: %s\n", all->output, strerror(errno));
    return 1;
  }
  for (uint32_t i = 0; i < run->output_count; i++) {
    char path[4096], name[256];
    keel_port port;
    keel_plan_output(run->plan, i, &port);
    snprintf(name, sizeof name, "%s", *port.name ? port.name : "output");
    for (char *at = name; *at; at++)
      if (*at == '/') *at = '_'; /* a name must not leave the folder */
    snprintf(path, sizeof path, "%s/%s.npy", all->output, name);
    if (keel_value_save(run->outputs[i], path) != KD_OK) return complain();
    kd_dtype dtype = keel_tensor_dtype(run->outputs[i]);
    if (dtype == KD_BF16 || onnx_is_small(dtype))
      fprintf(stderr,
              "keel run: output %s is %s, and %s has it as f32: .npy has no"
              " %s\n",
              port.name, kd_dtype_name(dtype), path, kd_dtype_name(dtype));
  }
  return 0;
}

/* By the device's clock, where it says so. */
static uint64_t time_of(const keel_profile_line *line) {
  return line->timed ? line->device_time : line->time;
}

static int slowest_first(const void *a, const void *b) {
  uint64_t x = time_of(a), y = time_of(b);
  return x < y ? 1 : x > y ? -1 : 0;
}

/* Shares of the time from the first run that counts to the end of the last. */
static void print_devices(session *run) {
  keel_profile_device d;
  for (uint32_t i = 0; keel_plan_profile_device(run->plan, i, &d) == KD_OK;
       i++) {
    if (!i)
      printf("\n%-10s %7s %12s %12s %12s %9s\n", "device", "calls",
             "kernels ms", "copies ms", "idle ms", "MiB moved");
    printf("%-10s %7llu %12.3f %12.3f %12.3f %9.2f  %s\n", d.name,
           (unsigned long long)d.calls, (double)d.kernels * 1e-6,
           (double)d.copies * 1e-6, (double)d.idle * 1e-6,
           (double)d.bytes / (1u << 20),
           d.timed ? "by its clock" : "as the host saw it");
  }
}

static void print_lines(const keel_profile_line *lines, uint32_t count,
                        double total) {
  printf("%9s %6s %6s %9s %9s  %-8s %-20s %s\n", "ms", "%", "calls", "host ms",
         "copies ms", "device", "op", "node and types of its inputs");
  for (uint32_t i = 0; i < count && lines[i].calls; i++)
    printf("%9.3f %6.2f %6llu %9.3f %9.3f  %-8s %-20s %s %s\n",
           (double)time_of(&lines[i]) * 1e-6,
           total > 0 ? 100 * (double)time_of(&lines[i]) / total : 0,
           (unsigned long long)lines[i].calls, (double)lines[i].time * 1e-6,
           (double)lines[i].copies * 1e-6, lines[i].device, lines[i].op,
           lines[i].node, lines[i].types);
}

/* What was not hidden: on a device with a clock no more than it was idle. */
static uint64_t bare_time(const session *run,
                          const keel_profile_exchanges *times) {
  keel_profile_device d;
  uint64_t bare = times->bare;
  for (uint32_t i = 0; keel_plan_profile_device(run->plan, i, &d) == KD_OK; i++)
    if (d.timed && d.idle < bare) bare = d.idle;
  return bare;
}

static void print_exchanges(const session *run) {
  keel_profile_exchanges times;
  keel_plan_profile_exchanges(run->plan, &times);
  if (!times.calls) return;
  printf(
      "%9.3f ms in which exchanges were under way; %.3f of them with nothing"
      " to compute beside\n",
      (double)times.time * 1e-6, (double)bare_time(run, &times) * 1e-6);
}

static void print_profile(session *run) {
  uint32_t count = 0, used = 0;
  keel_profile_line line;
  while (keel_plan_profile_line(run->plan, count, &line) == KD_OK)
    count++;
  keel_profile_line *lines = calloc(count + 1, sizeof *lines);
  double total = 0, timed = 0;
  if (!lines) return;
  for (uint32_t i = 0; i < count; i++) {
    keel_plan_profile_line(run->plan, i, &lines[used]);
    total += (double)time_of(&lines[used]);
    if (lines[used].timed) timed += (double)lines[used].device_time;
    used += lines[used].calls > 0;
  }
  qsort(lines, used, sizeof *lines, slowest_first);
  print_lines(lines, used, total);
  printf("%9.3f ms in ops", total * 1e-6);
  if (timed > 0)
    printf(
        "; %.3f of them by devices' clocks, where host ms is what launching"
        " took",
        timed * 1e-6);
  printf("\n");
  free(lines);
  print_exchanges(run);
  print_devices(run);
}

static void print_text(const arguments *all, session *run, const bool *agree,
                       char (*texts)[256]) {
  keel_stats stats;
  for (uint32_t i = 0; i < run->output_count; i++) {
    char type[200];
    keel_port port;
    keel_plan_output(run->plan, i, &port);
    printf("output %s: %s", port.name,
           keel_tensor_text(run->outputs[i], type, sizeof type));
    if (i < all->expects.count)
      printf("  %s%s%s",
             agree[i] ? "as expected" : "DIFFERS: ", agree[i] ? "" : texts[i],
             "");
    printf("\n");
  }
  keel_get_stats(run->context, &stats);
  printf("load %.2f ms, plan %.2f ms, first run %.3f ms", run->load_time * 1e3,
         run->plan_time * 1e3, run->first_time * 1e3);
  if (all->repeat > 1)
    printf(", best %.3f ms, mean %.3f ms of %llu", run->best_time * 1e3,
           run->total_time / (double)all->repeat * 1e3,
           (unsigned long long)all->repeat);
  printf("; peak memory %.1f MiB\n", (double)stats.peak_bytes / (1u << 20));
  uint64_t planned, apart, least, held, most;
  if (resident(&held, &most))
    printf("resident: %.1f MiB, %.1f MiB at most\n", (double)held / (1u << 20),
           (double)most / (1u << 20));
  if (keel_plan_memory(run->plan, &planned, &apart, &least) == KD_OK)
    printf(
        "intermediate values: %.2f MiB planned, %.2f MiB without sharing, %.2f "
        "MiB at peak\n",
        (double)planned / (1u << 20), (double)apart / (1u << 20),
        (double)least / (1u << 20));
  if (keel_plan_replays(run->plan))
    printf("%llu runs were launches of a recording\n",
           (unsigned long long)keel_plan_replays(run->plan));
  if (all->split) parting_print(all->split, &run->facts);
  ranks_print(run->link, false);
  several_print(&run->several);
  if (all->profile) print_profile(run);
}

static void print_json(const arguments *all, session *run, const bool *agree,
                       char (*texts)[256]) {
  printf("{\"model\": ");
  print_json_string(stdout, all->model);
  printf(
      ", \"load_ms\": %.3f, \"plan_ms\": %.3f, \"first_ms\": %.3f,"
      " \"best_ms\": %.3f, \"repeat\": %llu, \"threads\": %u, \"outputs\": [",
      run->load_time * 1e3, run->plan_time * 1e3, run->first_time * 1e3,
      (all->repeat > 1 ? run->best_time : run->first_time) * 1e3,
      (unsigned long long)all->repeat, keel_worker_count(run->context));
  for (uint32_t i = 0; i < run->output_count; i++) {
    char type[200];
    keel_port port;
    keel_plan_output(run->plan, i, &port);
    printf("%s{\"name\": ", i ? ", " : "");
    print_json_string(stdout, port.name);
    printf(", \"type\": ");
    print_json_string(stdout,
                      keel_tensor_text(run->outputs[i], type, sizeof type));
    if (i < all->expects.count) {
      printf(", \"agrees\": %s, \"difference\": ", agree[i] ? "true" : "false");
      print_json_string(stdout, texts[i]);
    }
    printf("}");
  }
  printf("]");
  uint64_t planned, apart, least, held, most;
  if (resident(&held, &most))
    printf(", \"resident_bytes\": %llu, \"resident_most_bytes\": %llu",
           (unsigned long long)held, (unsigned long long)most);
  if (keel_plan_memory(run->plan, &planned, &apart, &least) == KD_OK)
    printf(
        ", \"planned_bytes\": %llu, \"apart_bytes\": %llu,"
        " \"least_bytes\": %llu",
        (unsigned long long)planned, (unsigned long long)apart,
        (unsigned long long)least);
  ranks_print(run->link, true);
  printf(", \"replays\": %llu",
         (unsigned long long)keel_plan_replays(run->plan));
  keel_profile_line line;
  if (all->profile) printf(", \"profile\": [");
  for (uint32_t i = 0;
       all->profile && keel_plan_profile_line(run->plan, i, &line) == KD_OK;
       i++) {
    printf(
        "%s{\"op\": \"%s\", \"device\": \"%s\", \"calls\": %llu, \"ns\":"
        " %llu, \"host_ns\": %llu, \"timed\": %u, \"copy_ns\": %llu,"
        " \"node\": ",
        i ? ", " : "", line.op, line.device, (unsigned long long)line.calls,
        (unsigned long long)time_of(&line), (unsigned long long)line.time,
        line.timed, (unsigned long long)line.copies);
    print_json_string(stdout, line.node);
    printf(", \"types\": ");
    print_json_string(stdout, line.types);
    printf("}");
  }
  keel_profile_device d;
  if (all->profile) printf("], \"devices\": [");
  for (uint32_t i = 0;
       all->profile && keel_plan_profile_device(run->plan, i, &d) == KD_OK; i++)
    printf(
        "%s{\"device\": \"%s\", \"calls\": %llu, \"wall_ns\": %llu,"
        " \"kernel_ns\": %llu, \"copy_ns\": %llu, \"idle_ns\": %llu,"
        " \"copied_bytes\": %llu, \"timed\": %u}",
        i ? ", " : "", d.name, (unsigned long long)d.calls,
        (unsigned long long)d.wall, (unsigned long long)d.kernels,
        (unsigned long long)d.copies, (unsigned long long)d.idle,
        (unsigned long long)d.bytes, d.timed);
  keel_profile_exchanges times;
  keel_plan_profile_exchanges(run->plan, &times);
  if (all->profile)
    printf(
        "], \"exchanges\": {\"calls\": %llu, \"time_ns\": %llu,"
        " \"bare_ns\": %llu}",
        (unsigned long long)times.calls, (unsigned long long)times.time,
        (unsigned long long)bare_time(run, &times));
  printf("}\n");
}

/* Of ranks, all are in one file; where one fails, it ends all of them. */
static int stop_trace(const arguments *all, session *run, int result) {
  if (run->link && !result)
    return ranks_trace(run->link, run->context, run->traced_from, all->trace);
  keel_link_facts facts = {.rank = 0};
  if (run->link) keel_link_look(run->link, &facts);
  if (keel_trace_stop(run->context, facts.rank ? NULL : all->trace) != KD_OK &&
      !result)
    result = complain();
  return result;
}

int keel_main_run(int argc, char **argv) {
  static session run;
  static bool agree[PORTS];
  static char texts[PORTS][256];
  char **words = ranks_words(argc, argv);
  if (!words) return 1;
  if (ranks_launched()) ranks_begin();
  int result = parse(argc, argv);
  if (result < 0 && given.devices && (given.device || given.ranks))
    result =
        usage_error("run", "--devices goes with neither --device nor --np");
  if (result < 0) result = parting_check("run", given.split, given.parts);
  if (result < 0 && given.exchange_timeout && !given.ranks && !ranks_launched())
    result = usage_error("run",
                         "--exchange-timeout is for ranks of MPI (--np N or"
                         " mpirun)%s",
                         given.devices ? "; for those of --devices, --timeout"
                                         " limits the run"
                                       : "");
  if (result < 0 && given.split && !given.devices && !given.ranks &&
      !ranks_launched())
    result = usage_error("run",
                         "--split needs ranks: --devices D,E, --np N or"
                         " mpirun");
  if (result < 0 && given.ranks && !ranks_launched())
    result = ranks_launch(given.ranks, words);
  free(words);
  if (result >= 0) return ranks_end(NULL, result);
  result = open_and_run(&given, &run);
  if (run.plan && given.profile) keel_plan_profile(run.plan, 0);
  /* also of a run that failed: what came before may say why */
  if (run.context && given.trace) result = stop_trace(&given, &run, result);
  if (!result) result = compare(&given, &run, agree, texts);
  if (!result) result = save_outputs(&given, &run);
  if (!result) {
    if (given.json)
      print_json(&given, &run, agree, texts);
    else
      print_text(&given, &run, agree, texts);
    for (uint32_t i = 0; i < given.expects.count; i++)
      result |= !agree[i];
  }
  return close_model(&run, result);
}
