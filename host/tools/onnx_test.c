/* onnx_test.c - `keel onnx-test`: ONNX's backend tests.
 *
 * A case is a folder with model.onnx and test_data_set_N folders that hold
 * input_K.pb and output_K.pb. Tolerances are those of ONNX's own runner
 * (onnx/backend/test/runner: rtol 1e-3, atol 1e-7). */
#include <dirent.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include "tool.h"

#define PORTS 64

static const char help[] =
    "usage: keel onnx-test [OPTION]... DIR...\n\n"
    "Runs the ONNX backend-test cases in folders of any depth. A case that\n"
    "needs what Keel or the device does not have is skipped, and the reason\n"
    "printed. Exit status 1 where a case failed.\n\n"
    "  --device D          run them on device D\n"
    "  --filter GLOB       only cases whose folder's name matches\n"
    "  --quiet             print failures and the totals only\n"
    "  --rtol X, --atol X  other tolerances\n";

typedef struct tests {
  common common;
  const char *device_name, *filter;
  bool quiet;
  tolerance within;
  keel_context *context;
  keel_device *device;
  uint32_t passed, failed, skipped;
  double shown;
} tests;

typedef enum outcome { PASS, FAIL, SKIP } outcome;

/* ---- one case ------------------------------------------------------------- */

static bool is_file(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

static uint32_t file_kind(const keel_port *port) {
  return port->flags & KEEL_PORT_OPTIONAL   ? KEEL_FILE_OPTIONAL
         : port->flags & KEEL_PORT_SEQUENCE ? KEEL_FILE_SEQUENCE
                                            : KEEL_FILE_TENSOR;
}

/* A failed call is a skip where something is not supported. */
static outcome verdict(keel_status status, char *why, size_t size) {
  if (status == KD_OK) return PASS;
  snprintf(why, size, "%s", keel_message());
  return status == KD_UNIMPLEMENTED ? SKIP : FAIL;
}

/* ONNX 1.12 stores the data of bfloat16 ports as uint16: the same bits. */
static keel_status as_declared(tests *all, const keel_port *port,
                               keel_tensor **value) {
  keel_tensor *bits = *value, *typed = NULL;
  if (port->dtype != KD_BF16 || port->flags ||
      keel_tensor_dtype(bits) != KD_U16)
    return KD_OK;
  keel_status status = keel_tensor_create(
      all->context, KD_BF16, keel_tensor_rank(bits), keel_tensor_dims(bits),
      keel_tensor_data(bits), &typed);
  if (status == KD_OK) {
    keel_tensor_release(bits);
    *value = typed;
  }
  return status;
}

static outcome load_values(tests *all, const char *folder, const char *what,
                           keel_program *program, uint32_t count,
                           keel_tensor **values, char *why, size_t size) {
  for (uint32_t i = 0; i < count; i++) {
    char path[4096];
    keel_port port;
    if (!strcmp(what, "input"))
      keel_program_input(program, i, &port);
    else
      keel_program_output(program, i, &port);
    snprintf(path, sizeof path, "%s/%s_%u.pb", folder, what, i);
    keel_status status =
        keel_value_load(all->context, path, file_kind(&port), &values[i]);
    if (status == KD_OK) status = as_declared(all, &port, &values[i]);
    outcome result = verdict(status, why, size);
    if (result != PASS) return result;
  }
  return PASS;
}

static outcome run_set(tests *all, const char *folder, keel_program *program,
                       keel_plan *plan, char *why, size_t size) {
  keel_tensor *in[PORTS] = {0}, *got[PORTS] = {0}, *want[PORTS] = {0};
  uint32_t n = keel_program_input_count(program);
  uint32_t m = keel_program_output_count(program);
  if (n > PORTS || m > PORTS) {
    snprintf(why, size, "more than %d inputs or outputs", PORTS);
    return SKIP;
  }
  outcome result = load_values(all, folder, "input", program, n, in, why, size);
  if (result == PASS)
    result = load_values(all, folder, "output", program, m, want, why, size);
  if (result == PASS)
    result = verdict(keel_plan_run(plan, in, n, got, m), why, size);
  for (uint32_t i = 0; i < m && result == PASS; i++) {
    char text[400];
    if (!values_agree(got[i], want[i], all->within, text, sizeof text)) {
      snprintf(why, size, "output %u%s", i, text);
      result = FAIL;
    }
  }
  for (uint32_t i = 0; i < PORTS; i++) {
    keel_tensor_release(in[i]);
    keel_tensor_release(got[i]);
    keel_tensor_release(want[i]);
  }
  return result;
}

static outcome run_sets(tests *all, const char *folder, keel_program *program,
                        keel_plan *plan, char *why, size_t size) {
  outcome result = PASS;
  uint32_t sets = 0;
  for (; result == PASS; sets++) {
    char path[4096];
    struct stat facts;
    snprintf(path, sizeof path, "%s/test_data_set_%u", folder, sets);
    if (stat(path, &facts) != 0) break;
    result = run_set(all, path, program, plan, why, size);
  }
  if (!sets) {
    snprintf(why, size, "it has no test_data_set_0");
    return SKIP;
  }
  return result;
}

static outcome run_case(tests *all, const char *folder, const char *model,
                        char *why, size_t size) {
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_plan_params params = {.struct_size = sizeof params,
                             .device = all->device};
  outcome result =
      verdict(keel_program_load(all->context, model, &program), why, size);
  if (result == PASS)
    result = verdict(keel_plan_create(program, &params, &plan), why, size);
  if (result == PASS) result = run_sets(all, folder, program, plan, why, size);
  keel_plan_release(plan);
  keel_program_release(program);
  return result;
}

/* ---- all cases ------------------------------------------------------------ */

static void report(tests *all, const char *folder, const char *model) {
  char why[1200] = "";
  const char *slash = strrchr(folder, '/');
  const char *name = slash ? slash + 1 : folder;
  if (all->filter && fnmatch(all->filter, name, 0) != 0) return;
  outcome result = run_case(all, folder, model, why, sizeof why);
  all->passed += result == PASS;
  all->failed += result == FAIL;
  all->skipped += result == SKIP;
  if (result == FAIL || !all->quiet) {
    progress_end();
    if (result == PASS)
      printf("pass  %s\n", name);
    else
      printf("%s  %s: %s\n", result == FAIL ? "FAIL" : "skip", name, why);
  }
  if (now() - all->shown > 0.2) {
    all->shown = now();
    progress("%u passed, %u failed, %u skipped: %s", all->passed, all->failed,
             all->skipped, name);
  }
}

static int wanted(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static bool walk(tests *all, const char *folder, unsigned depth) {
  char model[4096];
  snprintf(model, sizeof model, "%s/model.onnx", folder);
  if (is_file(model)) {
    report(all, folder, model);
    return true;
  }
  struct dirent **entries = NULL;
  int count = depth < 16 ? scandir(folder, &entries, wanted, alphasort) : -1;
  for (int i = 0; i < count; i++) {
    char path[4096];
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
      walk(all, path, depth + 1);
    free(entries[i]);
  }
  free(entries);
  return count >= 0;
}

static int parse(tests *all, int argc, char **argv, int *folders) {
  for (int i = 0; i < argc; i++) {
    const char *value = NULL;
    bool missing = false;
    if (is_help(argv[i])) {
      printf("%s%s", help, common_help);
      return 0;
    }
    if (common_option(&all->common, argc, argv, &i)) {
      if (all->common.failed) return EXIT_USAGE;
    } else if ((value = option_value(argc, argv, &i, "--device", &missing))) {
      all->device_name = value;
    } else if ((value = option_value(argc, argv, &i, "--filter", &missing))) {
      all->filter = value;
    } else if ((value = option_value(argc, argv, &i, "--rtol", &missing))) {
      all->within.rtol = strtod(value, NULL);
    } else if ((value = option_value(argc, argv, &i, "--atol", &missing))) {
      all->within.atol = strtod(value, NULL);
    } else if (missing) {
      return EXIT_USAGE;
    } else if (!strcmp(argv[i], "--quiet")) {
      all->quiet = true;
    } else if (argv[i][0] == '-') {
      return usage_error("onnx-test", "there is no option \"%s\"", argv[i]);
    } else {
      argv[(*folders)++] = argv[i];
    }
  }
  return *folders ? -1 : usage_error("onnx-test", "which folder?");
}

int keel_main_onnx_test(int argc, char **argv) {
  static tests all = {.within = {.rtol = 1e-3, .atol = 1e-7}};
  int folders = 0;
  int result = parse(&all, argc, argv, &folders);
  if (result >= 0) return result;
  all.context = common_open(&all.common, 0);
  if (!all.context) return 1;
  if (keel_device_find(all.context, all.device_name, &all.device) != KD_OK) {
    result = complain();
    keel_close(all.context);
    return result;
  }
  result = 0;
  for (int i = 0; i < folders; i++)
    if (!walk(&all, argv[i], 0)) {
      fprintf(stderr, "keel onnx-test: %s: no such folder\n", argv[i]);
      result = 1;
    }
  progress_end();
  printf("%u passed, %u failed, %u skipped\n", all.passed, all.failed,
         all.skipped);
  keel_close(all.context);
  return all.failed ? 1 : result;
}
