/* onnx_test.c - `keel onnx-test`: ONNX's backend tests.
 *
 * A case is a folder with model.onnx and test_data_set_N folders that hold
 * input_K.pb and output_K.pb. Tolerances are those of ONNX's own runner
 * (onnx/backend/test/runner: rtol 1e-3, atol 1e-7). */
#include <dirent.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include "tool.h"

static const char help[] =
    "usage: keel onnx-test [OPTION]... DIR...\n\n"
    "Runs the ONNX backend-test cases in folders of any depth. A case that\n"
    "needs an op, an attribute or a type that Keel or the devices do not have "
    "is\n"
    "skipped, and the reason printed; another value or error is a failure. "
    "What\n"
    "the device lacks runs on another one; the line before the last counts "
    "how\n"
    "many cases did without. Exit status 1 where a case failed, or there was\n"
    "none.\n"
    "\n"
    "  --device D          run them on device D\n"
    "  --filter GLOB       only cases whose folder's name matches\n"
    "  --eager             run them op by op, without a plan\n"
    "  --through FORM      save each model in this form and load it again\n"
    "                      first: text, binary, or compiled (for the device)\n"
    "  --quiet             print failures and the totals only\n"
    "  --rtol X, --atol X  other tolerances\n";

typedef struct tests {
  common common;
  const char *device_name, *filter;
  bool quiet;
  onnx_case one;
  uint32_t passed, failed, skipped;
  uint32_t extents[3]; /* of those that passed */
  double shown;
} tests;

static bool is_file(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* ---- all cases ------------------------------------------------------------ */

static void report(tests *all, const char *folder) {
  char why[1200] = "";
  const char *slash = strrchr(folder, '/');
  const char *name = slash ? slash + 1 : folder;
  if (all->filter && fnmatch(all->filter, name, 0) != 0) return;
  extent where = NONE;
  outcome result = onnx_case_run(&all->one, folder, &where, why, sizeof why);
  if (result == PASS) all->extents[where]++;
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
    report(all, folder);
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

static int take_form(tests *all, const char *value) {
  if (strcmp(value, "text") != 0 && strcmp(value, "binary") != 0 &&
      strcmp(value, "compiled") != 0)
    return usage_error("onnx-test",
                       "--through is text, binary or compiled, not \"%s\"",
                       value);
  all->one.through = value;
  return 0;
}

/* 0: taken, -1: it is another word, else what to exit with. */
static int take(tests *all, int argc, char **argv, int *at) {
  static const char *const names[] = {"--device", "--filter", "--through",
                                      "--rtol", "--atol"};
  for (int k = 0; k < 5; k++) {
    bool missing = false;
    const char *value = option_value(argc, argv, at, names[k], &missing);
    if (missing) return EXIT_USAGE;
    if (!value) continue;
    if (k == 2) return take_form(all, value);
    if (k < 2) {
      *(k ? &all->filter : &all->device_name) = value;
      return 0;
    }
    return read_number("onnx-test", names[k], value,
                       k == 3 ? &all->one.within.rtol : &all->one.within.atol)
               ? 0
               : EXIT_USAGE;
  }
  return -1;
}

static int parse(tests *all, int argc, char **argv, int *folders) {
  all->common = (common){.command = "onnx-test", .runs = true};
  if (helps(help, runs_help, argc, argv)) return 0;
  for (int i = 0; i < argc; i++) {
    if (common_option(&all->common, argc, argv, &i)) {
      if (all->common.failed) return EXIT_USAGE;
      continue;
    }
    int taken = take(all, argc, argv, &i);
    if (taken > 0) return taken;
    if (taken == 0) continue;
    if (!strcmp(argv[i], "--eager"))
      all->one.eager = true;
    else if (!strcmp(argv[i], "--quiet"))
      all->quiet = true;
    else if (argv[i][0] == '-')
      return usage_error("onnx-test", "unknown option \"%s\"", argv[i]);
    else
      argv[(*folders)++] = argv[i];
  }
  return *folders ? -1 : usage_error("onnx-test", "give one or more folders");
}

/* Cases, each a skip or more; without one, nothing was tested. */
static bool ran_any(const tests *all) {
  if (all->passed + all->failed + all->skipped) return true;
  fprintf(stderr,
          "keel onnx-test: there is no case%s%s; a case is a folder"
          " with model.onnx\n",
          all->filter ? " whose folder's name matches " : "",
          all->filter ? all->filter : "");
  return false;
}

int keel_main_onnx_test(int argc, char **argv) {
  static tests all = {.one.within = {.rtol = 1e-3, .atol = 1e-7}};
  int folders = 0;
  int result = parse(&all, argc, argv, &folders);
  if (result >= 0) return result;
  all.one.context = common_open(&all.common, 0);
  if (!all.one.context) return 1;
  if (keel_device_find(all.one.context, all.device_name, &all.one.device) !=
      KD_OK) {
    result = complain();
    keel_close(all.one.context);
    return result;
  }
  result = 0;
  for (int i = 0; i < folders; i++)
    if (!walk(&all, argv[i], 0)) {
      fprintf(stderr, "keel onnx-test: %s: no such folder\n", argv[i]);
      result = 1;
    }
  progress_end();
  keel_device_facts facts;
  keel_device_describe(all.one.device, &facts);
  printf("%s: %u cases ran on it whole, %u in part, %u had nothing for it\n",
         facts.name, all.extents[WHOLE], all.extents[PART], all.extents[NONE]);
  printf("%u passed, %u failed, %u skipped\n", all.passed, all.failed,
         all.skipped);
  keel_close(all.one.context);
  return all.failed || (!result && !ran_any(&all)) ? 1 : result;
}
