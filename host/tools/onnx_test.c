/* onnx_test.c - `keel onnx-test`: ONNX's backend tests.
 *
 * A case is a folder with model.onnx and test_data_set_N folders that hold
 * input_K.pb and output_K.pb. Tolerances are those of ONNX's own runner
 * (onnx/backend/test/runner: rtol 1e-3, atol 1e-7). */
#include <dirent.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include "tool.h"

typedef struct tests {
  common common;
  operands folders;
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
      printf("pass  %s\n", shown(name));
    else
      printf("%s  %s: %s\n", result == FAIL ? "FAIL" : "skip", shown(name),
             why);
  }
  if (now() - all->shown > 0.2) {
    all->shown = now();
    progress("%u passed, %u failed, %u skipped: %s", all->passed, all->failed,
             all->skipped, shown(name));
  }
}

static int onnx_wanted(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static bool onnx_walk(tests *all, const char *folder, unsigned depth) {
  char model[4096];
  snprintf(model, sizeof model, "%s/model.onnx", folder);
  if (is_file(model)) {
    report(all, folder);
    return true;
  }
  struct dirent **entries = NULL;
  int count =
      depth < 16 ? scandir(folder, &entries, onnx_wanted, alphasort) : -1;
  for (int i = 0; i < count; i++) {
    char path[4096];
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
      onnx_walk(all, path, depth + 1);
    free(entries[i]);
  }
  free(entries);
  return count >= 0;
}

/* ---- the command line ----------------------------------------------------- */

static tests given = {.common = {.command = "onnx-test", .runs = true},
                      .one.within = {.rtol = 1e-3, .atol = 1e-7}};

static bool take_form(const char *value) {
  given.one.through = value;
  if (!strcmp(value, "text") || !strcmp(value, "binary") ||
      !strcmp(value, "compiled"))
    return true;
  usage_error("onnx-test", "--through is text, binary or compiled, not \"%s\"",
              value);
  return false;
}

static const option options[] = {
    {"--device", "D", "run them on device D", .text = &given.device_name},
    {"--filter", "GLOB", "only cases whose folder's name matches",
     .text = &given.filter},
    {"--eager", .help = "run them op by op, without a plan",
     .flag = &given.one.eager},
    {"--through", "FORM",
     "save each model in this form and load it again\n"
     "first: text, binary, or compiled (for the device)",
     .take = take_form},
    {"--quiet", .help = "print failures and the totals only",
     .flag = &given.quiet},
    {"--rtol", "X, --atol X", "other tolerances",
     .number = &given.one.within.rtol},
    {"--atol", .number = &given.one.within.atol},
    {0}};

static const command syntax = {
    "usage: keel onnx-test [OPTION]... DIR...\n\n"
    "Runs the ONNX backend-test cases in folders of any depth. A case that\n"
    "needs an op, an attribute or a type that Keel or the devices do not have"
    " is\nskipped, and the reason printed; another value or error is a"
    " failure. Ops\nthat the device lacks run on another one; the second to "
    "last line"
    " counts\nthe cases that needed no other device. Exit status 1 if a case"
    " failed or\nnone was found.\n\n",
    options, &given.common, &given.folders, false};

/* Cases, each a skip or more; without one, nothing was tested. */
static bool ran_any(const tests *all) {
  if (all->passed + all->failed + all->skipped) return true;
  fprintf(stderr,
          "keel onnx-test: there is no case%s%s; a case is a folder"
          " with model.onnx\n",
          all->filter ? " whose folder's name matches " : "",
          all->filter ? shown(all->filter) : "");
  return false;
}

int keel_main_onnx_test(int argc, char **argv) {
  int result = options_read(&syntax, argc, argv);
  if (result >= 0) return result;
  if (!given.folders.count)
    return usage_error("onnx-test", "give one or more folders");
  given.one.context = common_open(&given.common, 0);
  if (!given.one.context) return 1;
  if (keel_device_find(given.one.context, given.device_name,
                       &given.one.device) != KD_OK) {
    result = complain();
    keel_close(given.one.context);
    return result;
  }
  result = 0;
  for (uint32_t i = 0; i < given.folders.count; i++)
    if (!onnx_walk(&given, given.folders.words[i], 0)) {
      fprintf(stderr, "keel onnx-test: %s: no such folder\n",
              shown(given.folders.words[i]));
      result = 1;
    }
  progress_end();
  keel_device_facts facts;
  keel_device_describe(given.one.device, &facts);
  printf("%s: %u cases ran fully, %u partly, %u not at all\n", facts.name,
         given.extents[WHOLE], given.extents[PART], given.extents[NONE]);
  printf("%u passed, %u failed, %u skipped\n", given.passed, given.failed,
         given.skipped);
  keel_close(given.one.context);
  return given.failed || (!result && !ran_any(&given)) ? 1 : result;
}
