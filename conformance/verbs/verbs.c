/* verbs.c - run, list, explain, again, render, coverage, doctor. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reference/reference.h"
#include "report/report.h"
#include "suite/suite.h"
#include "system/environment.h"
#include "system/save.h"
#include "verbs/verbs.h"

/* ---- run ------------------------------------------------------------------------- */

static const char run_help[] =
    "usage: keel-conformance [run] [OPTION]... PLUGIN.so|DEVICE\n"
    "\n"
    "Runs the rules that the plugin's tables claim; each in a process of its "
    "own,\nwith an empty working directory, HOME and TMPDIR. XDG_CACHE_HOME is "
    "one for\nthe run: what a driver's compiler left there, later processes "
    "find.\n"
    "\n"
    "  --level L           core, async, replay or compile: no rule above it\n"
    "  --rule GLOB         only rules whose id matches; may be repeated\n"
    "  --not GLOB          no rule whose id matches\n"
    "  --op OP             only cases of this op\n"
    "  --dtype T           only cases of this element type (f32, i64 ...)\n"
    "  --case NAME         one case, as a failure names it\n"
    "  --device N          the plugin's device N (cpu:1 does the same)\n"
    "  --quick             leaves out what takes long; not valid for a claim\n"
    "  --soak TIME         goes on with the rules on races and on what runs "
    "out\n"
    "                      for this long in all (10m)\n"
    "  --seed N|random     other data; the same seed gives the same data\n"
    "  --group rule|area   a process for each rule, or one for the rules of "
    "an\n"
    "                      area: faster where opening the device is slow\n"
    "  --jobs N            rules at once (the machine's processors, 4 at "
    "most)\n"
    "  --shard I/N         the I-th of N parts of the rules, and of the cases\n"
    "                      of those on ops\n"
    "  --max-memory SIZE   device memory that a rule may take (512M)\n"
    "  --time-scale X      deadlines X times as long\n"
    "  --expectations FILE failures that are known; see VENDOR_GUIDE.md\n"
    "  --option NAME=VALUE an option of the plugin\n"
    "  --in-process        in this process, for a debugger\n"
    "  --dump DIR          writes the tensors of failed cases of ops there, "
    "as\n"
    "                      .npy\n"
    "  --out DIR           writes results.jsonl and the reports there\n"
    "  --report FORMAT     html, junit, tap, md, badge, text; may be repeated\n"
    "                      (with --out; html, junit and md otherwise)\n"
    "  --no-reruns         does not run failed cases again\n"
    "  --verbose           prints all of each failure\n"
    "  --quiet             no progress; what failed and the totals only\n";

/* Where the last run of each plugin is kept, a folder a plugin. */
static const char *state_root(void) {
  static char path[2048];
  char state[2000];
  bool is =
      keel_user_folder("XDG_STATE_HOME", ".local/state", state, sizeof state);
  snprintf(path, sizeof path, "%s/keel-conformance",
           is ? state : "/tmp/.local/state");
  return path;
}

/* The folder of a plugin's file: its name, and a hash of its path. */
static const char *state_folder(const char *plugin) {
  static char path[4096];
  const char *slash = strrchr(plugin, '/'), *name = slash ? slash + 1 : plugin;
  snprintf(path, sizeof path, "%s/%.*s-%08x", state_root(),
           (int)strcspn(name, "."), name,
           (unsigned)(kc_hash(KC_HASH, plugin) & 0xffffffffu));
  return path;
}

/* The folder of the plugin that was run last; "" where none was. */
static const char *newest_folder(void) {
  static char path[4096];
  char file[4400];
  struct timespec newest = {0};
  struct stat facts;
  DIR *folder = opendir(state_root());
  path[0] = 0;
  for (struct dirent *at = folder ? readdir(folder) : NULL; at;
       at = readdir(folder)) {
    snprintf(file, sizeof file, "%s/%s/results.jsonl", state_root(),
             at->d_name);
    if (at->d_name[0] == '.' || stat(file, &facts) != 0 ||
        facts.st_mtim.tv_sec < newest.tv_sec ||
        (facts.st_mtim.tv_sec == newest.tv_sec &&
         facts.st_mtim.tv_nsec <= newest.tv_nsec))
      continue;
    newest = facts.st_mtim;
    snprintf(path, sizeof path, "%s/%s", state_root(), at->d_name);
  }
  if (folder) closedir(folder);
  return path;
}

static bool make_folders(const char *path) {
  char part[4096];
  snprintf(part, sizeof part, "%s", path);
  for (char *at = part + 1; *at; at++)
    if (*at == '/') {
      *at = 0;
      mkdir(part, 0777);
      *at = '/';
    }
  return mkdir(part, 0777) == 0 || errno == EEXIST;
}

static const char *file_of(const char *format) {
  static const struct {
    const char *format, *file;
  } files[] = {{"html", "report.html"}, {"junit", "junit.xml"},
               {"tap", "results.tap"},  {"md", "summary.md"},
               {"badge", "badge.svg"},  {"text", "summary.txt"}};
  for (size_t f = 0; f < KC_COUNT_OF(files); f++)
    if (!strcmp(format, files[f].format)) return files[f].file;
  return format;
}

/* False, with a message, where one can't be written. */
static bool write_report(const char *folder, const char *format,
                         const kc_results *results) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", folder, file_of(format));
  keel_save save;
  bool good = keel_save_begin(&save, path, 0666);
  bool whole = good && kc_render(results, format, save.file);
  good = good && keel_save_end(&save, whole) && whole;
  if (!good)
    fprintf(stderr, "keel-conformance: %s can't be written: %s\n", path,
            strerror(errno));
  return good;
}

static bool write_reports(const kc_options *options,
                          const kc_results *results) {
  static const char *const usual[] = {"html", "junit", "md"};
  bool good = true;
  uint32_t count = options->report_count ? options->report_count : 3;
  for (uint32_t i = 0; i < count; i++)
    good &= write_report(options->out,
                         options->report_count ? options->reports[i] : usual[i],
                         results);
  return good;
}

/* The record that the run will write over; NULL where there is none. */
static const kc_results *last_run(const char *folder) {
  static kc_results last;
  char path[4200];
  snprintf(path, sizeof path, "%s/results.jsonl", folder ? folder : "");
  bool there = folder && access(path, R_OK) == 0;
  return there && kc_results_read(path, &last) ? &last : NULL;
}

int kc_verb_run(int argc, char **argv) {
  kc_options options;
  kc_results results = {0};
  const kc_words words = {.verb = "run", .help = run_help};
  int status = kc_options_read(&options, &words, NULL, argc, argv);
  if (status >= 0) return status;
  if (!options.plugin[0]) return kc_usage("run", "which plugin?");
  if (options.in_process) return kc_in_process(&options);
  bool own = !options.out;
  if (own) options.out = state_folder(options.plugin);
  options.remembers = own;
  if (!make_folders(options.out)) {
    if (!own)
      return kc_usage("run", "%s can't be made: %s", options.out,
                      strerror(errno));
    options.out = NULL; /* nowhere to remember the last run: that is all */
  }
  options.last = options.quiet ? NULL : last_run(options.out);
  static char dump[4096]; /* children have folders of their own */
  if (options.dump) {
    if (!make_folders(options.dump) || !realpath(options.dump, dump))
      return kc_usage("run", "%s can't be made: %s", options.dump,
                      strerror(errno));
    options.dump = dump;
  }
  for (int i = 0; i < argc; i++)
    kc_text_set(&results.command, "%s%s%s",
                results.command ? results.command : "keel-conformance run", " ",
                argv[i]);
  status = kc_run_all(&options, &results);
  if (status != KC_EXIT_USAGE && status < 128) {
    kc_print_failures(&results, options.verbose);
    bool written = own && !options.report_count;
    if (!written) written = write_reports(&options, &results);
    if (options.dump && results.failed && !options.quiet)
      printf("tensors of failed cases are in %s\n", options.dump);
    if (!own && !options.quiet && written)
      printf("%s/results.jsonl and the reports are written\n", options.out);
    kc_print_summary(&results);
    if (!written && status == 0) status = KC_EXIT_SUITE;
  }
  kc_results_free(&results);
  return status;
}

/* ---- list -------------------------------------------------------------------------- */

static const char list_help[] =
    "usage: keel-conformance list [--names|--markdown|--defects|--sentences]\n"
    "\n"
    "All rules: id, severity, level, the ABI version it came in, the "
    "sentence.\n"
    "\n"
    "  --names      the slots, fields, flags and statuses that each looks at\n"
    "  --sentences  header and sentence\n"
    "  --markdown   the text of conformance/README.md\n"
    "  --defects    the defects of self-test, and the rule that catches each\n";

int kc_verb_list(int argc, char **argv) {
  bool names = false, sentences = false, markdown = false, defects = false;
  const kc_word options[] = {{"--names", .flag = &names},
                             {"--sentences", .flag = &sentences},
                             {"--markdown", .flag = &markdown},
                             {"--defects", .flag = &defects},
                             {0}};
  kc_words words = {.verb = "list", .help = list_help, .options = options};
  const kc_rule *rule = NULL;
  int status = kc_words_read(&words, argc, argv);
  if (status >= 0) return status;
  if (names + sentences + markdown + defects > 1)
    return kc_usage("list", "it takes one option at a time");
  if (defects) {
    kc_list_defects();
    return 0;
  }
  if (markdown) {
    kc_list_markdown();
    return 0;
  }
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++) {
    if (names)
      printf("%s\t%s\n", rule->id, rule->names);
    else if (sentences)
      printf("%s\t%s\t%s\t%s\n", rule->id, kc_severity_name(rule->severity),
             rule->header, rule->sentence);
    else
      printf("%-30s %-11s %-10s %u.%u  %s\n", rule->id,
             kc_severity_name(rule->severity), kc_level_name(rule->level),
             KD_VERSION_MAJOR(rule->since), KD_VERSION_MINOR(rule->since),
             rule->sentence);
  }
  return 0;
}

/* ---- explain ------------------------------------------------------------------------- */

/* Says which rules have a name like it. */
static int no_rule(const char *name) {
  const kc_rule *rule = NULL;
  fprintf(stderr, "keel-conformance: there is no rule %s", name);
  const char *dot = strchr(name, '.');
  size_t size = dot ? (size_t)(dot - name) + 1 : 3;
  const char *before = "; there are";
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++)
    if (!strncmp(rule->id, name, size)) {
      fprintf(stderr, "%s %s", before, rule->id);
      before = ",";
    }
  fputs(*before == ';' ? "; keel-conformance list has them all\n" : "\n",
        stderr);
  return KC_EXIT_USAGE;
}

int kc_verb_explain(int argc, char **argv) {
  kc_words words = {
      .verb = "explain",
      .help =
          "usage: keel-conformance explain RULE\n\nThe rule, the header's"
          " sentence, why it is there, and the defects that it catches.\n",
      .most = 1};
  int status = kc_words_read(&words, argc, argv);
  if (status >= 0) return status;
  if (!words.count) return kc_usage("explain", "which rule?");
  const kc_rule *rule = kc_rule_find(words.others[0]);
  if (!rule) return no_rule(words.others[0]);
  printf("%s\n  %s rule of level or option %s, since ABI %u.%u\n\n", rule->id,
         kc_severity_name(rule->severity), kc_level_name(rule->level),
         KD_VERSION_MAJOR(rule->since), KD_VERSION_MINOR(rule->since));
  printf("  kd/%s says:\n    \"%s\"\n\n  %s\n\n  It looks at: %s\n",
         rule->header, rule->sentence, rule->about, rule->names);
  const char *text = NULL, *name = NULL;
  for (uint32_t i = 0; (name = kc_defects_of(rule->id, i, &text)); i++)
    printf("%s    %-28s %s\n", i ? "" : "\n  Defects that it catches:\n", name,
           text);
  printf(
      "\n  Run it alone:\n    keel-conformance PLUGIN.so --rule %s"
      " --verbose\n",
      rule->id);
  return 0;
}

/* ---- again ------------------------------------------------------------------------------ */

int kc_verb_again(int argc, char **argv) {
  static kc_results last, results;
  static kc_options options;
  static char path[4200];
  const kc_words words = {
      .verb = "again",
      .help =
          "usage: keel-conformance again [OPTION]... [PLUGIN.so|DEVICE]\n\n"
          "Runs the rules that failed in the plugin's last run again; of the"
          " plugin that\nwas run last, where none is named. Options are those"
          " of run.\n"};
  int status = kc_options_read(&options, &words, NULL, argc, argv);
  if (status >= 0) return status;
  const char *folder = options.out         ? options.out
                       : options.plugin[0] ? state_folder(options.plugin)
                                           : newest_folder();
  if (!*folder)
    return kc_usage("again", "no plugin was run before; `run` is the verb");
  snprintf(path, sizeof path, "%s/results.jsonl", folder);
  if (access(path, R_OK) != 0)
    return kc_usage("again", "%s was not run before: there is no %s",
                    options.plugin[0] ? options.plugin : "it", path);
  if (!kc_record_read(path, &last)) return KC_EXIT_USAGE;
  if (!options.plugin[0])
    snprintf(options.plugin, sizeof options.plugin, "%s", last.plugin_path);
  options.device = last.device_index;
  options.seed = last.seed;
  for (uint32_t i = 0; i < last.rule_count && options.glob_count < KC_GLOBS;
       i++)
    if (kc_status_failed(last.rules[i].status) ||
        last.rules[i].status == KC_NOT_RUN) /* what it stands on failed */
      options.globs[options.glob_count++] = last.rules[i].id;
  if (!options.glob_count) {
    puts("nothing failed in the last run");
    return 0;
  }
  options.out = NULL;
  status = kc_run_all(&options, &results);
  kc_print_failures(&results, true);
  kc_print_summary(&results);
  kc_results_free(&results);
  kc_results_free(&last);
  return status;
}

/* ---- doctor --------------------------------------------------------------------------------- */

int kc_verb_doctor(int argc, char **argv) {
  kc_options options;
  kc_facts facts;
  struct stat file;
  const kc_words words = {
      .verb = "doctor",
      .help =
          "usage: keel-conformance doctor [OPTION]... PLUGIN.so|DEVICE\n\n"
          "Why a plugin does not load: the file, its rights, the libraries"
          " that it needs,\nthe entry symbol, versions, its devices.\n\n"
          "  --device N          the plugin's device N\n"
          "  --option NAME=VALUE an option of the plugin\n"
          "  --time-scale X      deadlines X times as long\n"};
  int status = kc_options_read(&options, &words,
                               "--device --option --time-scale", argc, argv);
  if (status >= 0) return status;
  if (!options.plugin[0]) return kc_usage("doctor", "which plugin?");
  printf("file      %s\n", options.plugin);
  if (stat(options.plugin, &file) == 0)
    printf("rights    %03o, %lld bytes%s\n", (unsigned)file.st_mode & 0777,
           (long long)file.st_size,
           file.st_mode & S_IWOTH ? "  (writable by everyone: Keel refuses it)"
                                  : "");
  kc_probe(&options, &facts);
  printf("loads     %s\n", facts.loaded ? "yes" : "no");
  if (facts.loaded) {
    printf("is        %s %s of %s\n", facts.name, facts.version, facts.vendor);
    printf("built for ABI %u.%u, works from %u.%u; this suite has %u.%u\n",
           KD_VERSION_MAJOR(facts.abi_version),
           KD_VERSION_MINOR(facts.abi_version), KD_VERSION_MAJOR(facts.abi_min),
           KD_VERSION_MINOR(facts.abi_min), KD_ABI_MAJOR, KD_ABI_MINOR);
    printf("claims   ");
    for (int i = 0; i < KC_LEVEL_COUNT; i++)
      if (facts.claims >> i & 1) printf(" %s", kc_level_name((kc_level)i));
    printf("\ndevices   %u%s%s\n", facts.device_count,
           facts.device[0] ? ", this one is " : "", facts.device);
  }
  if (facts.why[0]) printf("but       %s\n", facts.why);
  return facts.open ? 0 : KC_EXIT_NOT_LOADABLE;
}

/* ---- render ---------------------------------------------------------------------------------- */

int kc_verb_render(int argc, char **argv) {
  kc_results results;
  kc_words words = {
      .verb = "render",
      .help =
          "usage: keel-conformance render RESULTS.jsonl FORMAT [FILE]\n\n"
          "Writes results as html, junit, tap, md, badge or text, to FILE"
          " or standard\noutput. Exit status 2 where the results were changed "
          "or"
          " are not complete.\n",
      .most = 3};
  int status = kc_words_read(&words, argc, argv);
  if (status >= 0) return status;
  if (words.count < 2)
    return kc_usage("render", "it takes results, a format and perhaps a file");
  const char *from = words.others[0], *format = words.others[1];
  const char *to = words.count == 3 ? words.others[2] : NULL;
  if (!kc_is_format(format))
    return kc_usage("render", "there is no format \"%s\"; there are %s", format,
                    kc_formats);
  if (!kc_record_read(from, &results)) return KC_EXIT_USAGE;
  status = kc_record_whole(from, &results) ? 0 : KC_EXIT_USAGE;
  keel_save save;
  if (to && !keel_save_begin(&save, to, 0666))
    return kc_usage("render", "%s can't be written: %s", to, strerror(errno));
  bool good = kc_render(&results, format, to ? save.file : stdout);
  if (to) good &= keel_save_end(&save, good); /* main looks after the other */
  if (!good)
    fprintf(stderr, "keel-conformance: %s can't be written: %s\n",
            to ? to : "standard output", strerror(errno));
  kc_results_free(&results);
  return good ? status : KC_EXIT_SUITE;
}

/* ---- coverage --------------------------------------------------------------------------------- */

static void print_absent(const kc_results *results) {
  const ref_op *ref = NULL;
  uint32_t count = 0;
  printf("\n%s:", results->partial ? "ops without a case in this run"
                                   : "ops that the plugin does not have");
  for (uint32_t i = 0; (ref = ref_at(i)); i++)
    if (!kc_coverage_cell(results, ref->name, NULL).cases) {
      printf(" %s", ref->name);
      count++;
    }
  printf("%s\n", count ? "" : " none");
}

int kc_verb_coverage(int argc, char **argv) {
  static kc_results results;
  static char path[4200];
  kc_words words = {
      .verb = "coverage",
      .help =
          "usage: keel-conformance coverage [RESULTS.jsonl]\n\nHow many"
          " cases of each op and element type were run; ! marks failures, "
          "-\nwhat"
          " the plugin does not have or no case was run of."
          " Without\na file: the last run's.\n",
      .most = 1};
  if (*newest_folder())
    snprintf(path, sizeof path, "%s/results.jsonl", newest_folder());
  else
    snprintf(path, sizeof path, "results.jsonl"); /* no run is remembered */
  int status = kc_words_results(&words, path, argc, argv, &results);
  if (status >= 0) return status;
  bool used[KD_DTYPE_COUNT] = {false};
  char op[64], dtype[64];
  for (uint32_t r = 0; r < results.rule_count; r++)
    for (uint32_t c = 0; c < results.rules[r].case_count; c++)
      if (kc_coverage_op(results.rules[r].cases[c].name, op, dtype, sizeof op))
        for (uint32_t t = 0; t < KD_DTYPE_COUNT; t++)
          used[t] |= !strcmp(dtype, kd_dtype_name(t));
  printf("%-28s", "op");
  for (uint32_t t = 0; t < KD_DTYPE_COUNT; t++)
    if (used[t]) printf("%6s", kd_dtype_name(t));
  putchar('\n');
  const ref_op *ref = NULL;
  for (uint32_t i = 0; (ref = ref_at(i)); i++) {
    if (!kc_coverage_cell(&results, ref->name, NULL).cases) continue;
    printf("%-28s", ref->name);
    for (uint32_t t = 0; t < KD_DTYPE_COUNT; t++) {
      if (!used[t]) continue;
      kc_cell cell = kc_coverage_cell(&results, ref->name, kd_dtype_name(t));
      if (cell.cases)
        printf("%5u%c", cell.cases, cell.failed ? '!' : ' ');
      else
        printf("%5s ", "-");
    }
    putchar('\n');
  }
  print_absent(&results);
  printf("\nrules without a run:");
  uint32_t without = 0;
  for (uint32_t r = 0; r < results.rule_count; r++)
    if (kc_status_skipped(results.rules[r].status)) {
      printf(" %s", results.rules[r].id);
      without++;
    }
  printf("%s\n", without ? "" : " none");
  kc_results_free(&results);
  return 0;
}
