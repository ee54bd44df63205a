/* run.c - `keel run`: one model, opened and run; run.h has its other parts. */
#include <keel/debug.h>

#include "run.h"
#include "system/environment.h"

/* ---- the command line ----------------------------------------------------- */

static run_arguments given = {.common = {.command = "run", .runs = true},
                              .seed = 1,
                              .repeat = 1,
                              .within = {.rtol = 1e-3, .atol = -1}};

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
     "of a resource: a variable that holds it; of an input\n"
     "with an initial value in the model: in its place",
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
     "compare the next output with a file; exit 1 if an\n"
     "element is off by more than 1e-3 of itself and 1e-5 of\n"
     "the largest",
     .list = &given.expects},
    {"--rtol", "X, --atol X",
     "other tolerances: X of each element (1e-3), and an\n"
     "absolute one (1e-5 of the largest)",
     .number = &given.within.rtol},
    {"--atol", .number = &given.within.atol},
    {"--output", "DIR",
     "write each output to DIR/NAME.npy (with _ for /, and a\n"
     "number where two would be one); bf16 and types of 8\n"
     "bits or less that .npy can't store are widened to f32",
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
     "start N ranks with mpirun; a model's exchanges\n"
     "(AllReduce ...) are between them",
     .count = &given.ranks, .least = 1, .most = 65536},
    {"--exchange-timeout", "MS",
     "fail if a rank waits longer than that for others in an\n"
     "exchange, and report where each is (five minutes)",
     .count = &given.exchange_timeout, .least = 1, .most = 1000000000},
    {"--split", "KIND",
     "split the model among ranks: by `data`, each has a\n"
     "shard of the batch; by `tensor`, a shard of the\n"
     "weights; by `pipe`, a stage of the nodes; or as the\n"
     "model is `annotated`",
     .text = &given.split},
    {"--parts", "N",
     "number of micro-batches of a pipe (up to 4 for each\n"
     "rank)",
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

static int run_parse(int argc, char **argv) {
  int result = options_read(&syntax, argc, argv);
  if (result >= 0) return result;
  if (given.within.atol < 0) {
    given.within.atol = 1e-7;
    given.within.norm = 1e-5;
  }
  if (!given.models.count) return usage_error("run", "give a model file");
  given.model = given.models.words[0];
  return -1;
}

int run_fail_or_widen(const run_session *run, keel_status status) {
  if (run->narrow && (status == KD_UNIMPLEMENTED || status == KD_NOT_FOUND))
    return RUN_WIDER;
  return complain();
}

/* ---- plugins that are not needed --------------------------------------------------- */

/* Drivers of devices that a run does not use take longer to open, and more memory, than small
 * models to run. So for the CPU its plugin alone is opened, and the others where that was not
 * enough. False: the user has named devices, or may mean any. */
static bool is_narrow(const run_arguments *all) {
  const char *device =
      all->device ? all->device : keel_environment("KEEL_DEVICE");
  const char *visible = keel_environment("KEEL_VISIBLE_DEVICES");
  const common *common = &all->common;
  return (!device || !*device || !strcmp(device, "cpu") ||
          !strncmp(device, "cpu:", 4)) &&
         !(visible && *visible) && !all->devices && !common->only &&
         !common->plugin_count && !common->option_count && !all->places.count &&
         !all->by_cost && !all->trace; /* one runs at a time in a process */
}

/* ---- running -------------------------------------------------------------- */

/* Nanoseconds; one more, so that some time is not no limit. */
static uint64_t limit_of(const run_arguments *all) {
  return all->timeout > 0 ? (uint64_t)(all->timeout * 1e6) + 1 : 0;
}

/* The input that is a rank's handle, or one behind the last. */
static uint32_t member_of(const run_session *run) {
  uint32_t at = 0;
  while (at < run->input_count && !run_is_member(run, at))
    at++;
  return at;
}

static int run_all(const run_arguments *all, run_session *run) {
  double last_shown = now();
  for (uint64_t i = 0; i < all->repeat; i++) {
    for (uint32_t k = 0; k < run->output_count; k++) {
      keel_tensor_release(run->outputs[k]);
      run->outputs[k] = NULL;
    }
    if (i == 1 && all->profile)
      keel_plan_profile(
          run->plan,
          KEEL_PROFILE_OPS | KEEL_PROFILE_CLOCKS); /* the first run differs */
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
    if (status != KD_OK) return run_fail_or_widen(run, status);
    double time = now() - begin;
    if (i == 0) run->first_time = time;
    if (i == 1 || (i > 1 && time < run->best_time)) run->best_time = time;
    run->total_time += time;
    if (now() - last_shown > 0.2) {
      last_shown = now();
      progress("run %llu of %llu", (unsigned long long)i + 1,
               (unsigned long long)all->repeat);
    }
  }
  progress_end();
  return 0;
}

/* Whether an input has the shape that the model declares. */
static bool is_declared(const run_session *run, uint32_t index) {
  keel_tensor *input = run->inputs[index];
  keel_port port;
  if (run_is_member(run, index)) return true;
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
static void release_program(run_session *run) {
  for (uint32_t i = 0; i < run->input_count; i++)
    if (!is_declared(run, i)) return;
  keel_program_release(run->program);
  run->program = NULL;
}

/* Whether the caller wants ranks to share the run, whatever the program. */
static bool asks_for_ranks(const run_arguments *all) {
  return all->ranks || (all->split && !all->devices);
}

/* A launcher's variables alone make no ranks: they may be of the process that started this one. */
static int join_ranks(const run_arguments *all, run_session *run) {
  run->link = ranks_join(run->context, all->exchange_timeout);
  return run->link ? 0 : 1;
}

static int load_model(const run_arguments *all, run_session *run) {
  progress("loading %s", all->model);
  keel_status status =
      keel_program_load(run->context, all->model, &run->program);
  if (status == KD_OK) status = run_override(all, run);
  if (status != KD_OK) return run_fail_or_widen(run, status);
  if (!ranks_launched() || run->link || all->devices) return 0;
  if (run_exchanges(run->program)) return join_ranks(all, run);
  ranks_alone(all->model);
  return 0;
}

/* The one that was asked for; NULL: none was. */
static keel_status find_device(const run_arguments *all, const run_session *run,
                               keel_device **out_device) {
  if (run->several.group)
    *out_device = run->several.devices[0];
  else if (run->link && all->device)
    return ranks_device(run->link, run->context, all->device, out_device);
  else if (all->device || !keel_device_count(run->context))
    return keel_device_find(run->context, all->device, out_device);
  return KD_OK;
}

static int open_model(const run_arguments *all, run_session *run) {
  keel_device *device = NULL;
  run->context = common_open(&all->common, 0);
  if (!run->context) return 1;
  if (ranks_launched() && asks_for_ranks(all) && join_ranks(all, run)) return 1;
  if (all->devices) {
    int failed = several_open(&run->several, run->context, all->devices);
    if (failed) return failed;
  }
  run->traced_from = (uint64_t)(now() * 1e9);
  if (all->trace && keel_trace_start(run->context) != KD_OK) return complain();
  double begin = now();
  int failed = load_model(all, run);
  if (failed) return failed;
  double loaded = now();
  keel_status status = find_device(all, run, &device);
  if (status != KD_OK) return run_fail_or_widen(run, status);
  run->device = device;
  failed = all->split ? run_split(all, run) : 0;
  if (failed) return failed;
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
  double planned = now();
  progress("planning %s", all->model);
  guard_begin("planning", all->timeout / 1e3);
  status = keel_plan_create(run->program, &params, &run->plan);
  if (status == KD_OK && run->several.group)
    status = several_plan(&run->several, run->program, &params, run->plan);
  guard_end();
  if (status != KD_OK) return run_fail_or_widen(run, status);
  progress_end();
  run->load_time = loaded - begin;
  run->plan_time = now() - planned;
  run->input_count = keel_plan_input_count(run->plan);
  run->output_count = keel_plan_output_count(run->plan);
  if (run->input_count > RUN_PORTS || run->output_count > RUN_PORTS) {
    fprintf(stderr, "keel run: the model has more than %d inputs or outputs\n",
            RUN_PORTS);
    return 1;
  }
  if (all->profile && all->repeat == 1)
    keel_plan_profile(run->plan, KEEL_PROFILE_OPS | KEEL_PROFILE_CLOCKS);
  failed = run_check_ranks(all, run);
  if (!failed) failed = run_load_inputs(all, run);
  if (!failed) release_program(run);
  return failed;
}

/* Returns the exit status, which another rank's failure may change. */
static int close_model(run_session *run, int result) {
  if (run->link && result) ranks_end(run->link, result); /* of all ranks */
  for (uint32_t i = 0; i < RUN_PORTS; i++) {
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

static int open_and_run(run_arguments *all, run_session *run) {
  run->narrow = is_narrow(all) && !ranks_launched();
  all->common.visible = run->narrow ? "cpu" : NULL;
  int result = open_model(all, run);
  if (!result) result = run_all(all, run);
  all->common.visible = NULL;
  if (result != RUN_WIDER) return result;
  close_model(run, 0);
  *run = (run_session){.told = run->told};
  result = open_model(all, run);
  return result ? result : run_all(all, run);
}

/* Of ranks, all are in one file; where one fails, it ends all of them. */
static int stop_trace(const run_arguments *all, run_session *run, int result) {
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
  static run_session run;
  static bool agree[RUN_PORTS];
  static char texts[RUN_PORTS][256];
  char **words = ranks_words(argc, argv);
  if (!words) return 1;
  int result = run_parse(argc, argv);
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
  if (result >= 0) return result;
  result = open_and_run(&given, &run);
  if (run.plan && given.profile) keel_plan_profile(run.plan, 0);
  /* also of a run that failed: what came before may say why */
  if (run.context && given.trace) result = stop_trace(&given, &run, result);
  if (!result) result = run_compare(&given, &run, agree, texts);
  if (!result) result = run_save(&given, &run);
  if (!result) {
    if (given.json)
      run_print_json(&given, &run, agree, texts);
    else
      run_print_text(&given, &run, agree, texts);
    for (uint32_t i = 0; i < given.expects.count; i++)
      result |= !agree[i];
  }
  return close_model(&run, result);
}
