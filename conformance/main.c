/* main.c - keel-conformance: what is asked, and the child's side of a run. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite/suite.h"
/**/
#include "suite/channel.h"
#include "system/environment.h"
#include "system/json.h"
#include "system/locale.h"
#include "verbs/verbs.h"

extern const kc_rule kc_probe_rule;

static const char help[] =
    "usage: keel-conformance [VERB] [OPTION]... [PLUGIN.so|DEVICE]\n"
    "\n"
    "Tells whether a plugin keeps the promises of Keel's device ABI, and where "
    "it\n"
    "does not: which rule broke, the header's sentence, what was seen, and "
    "the\n"
    "command that shows it again.\n"
    "\n"
    "  run PLUGIN      runs the rules (the verb may be left out)\n"
    "  list            all rules, one a line; --cases, --defects, --names,\n"
    "                  --markdown\n"
    "  explain RULE    the rule, its sentence, why it is there\n"
    "  again           runs what failed in the last run\n"
    "  compare A B     what two results.jsonl differ in\n"
    "  render FILE     results.jsonl as html, junit, tap, md, badge, text\n"
    "  coverage FILE   ops by element type, as they were tested\n"
    "  pack FILE       a report to hand in\n"
    "  verify REPORT   checks one: --plugin P, --replay N%\n"
    "  bench PLUGIN    launch latency, copies, MatMul ...; --compare A B\n"
    "  doctor PLUGIN   why a plugin does not load\n"
    "  self-test       proves the suite: every defect is caught by its rule\n"
    "\n"
    "keel-conformance VERB --help tells more.\n"
    "\n"
    "Exit status: 0 conformant, 1 a must-rule failed, 2 wrong usage, 3 the "
    "plugin\n"
    "can't be loaded, 4 nothing ran, 5 an error of the suite, 6 a stale\n"
    "expectation.\n";

/* ---- the child's side --------------------------------------------------------------- */

static const char *word_after(int argc, char **argv, const char *name) {
  for (int i = 0; i + 1 < argc; i++)
    if (!strcmp(argv[i], name)) return argv[i + 1];
  return NULL;
}

static uint64_t number_after(int argc, char **argv, const char *name,
                             uint64_t fallback) {
  const char *word = word_after(argc, argv, name);
  return word ? strtoull(word, NULL, 10) : fallback;
}

/* __rule PLUGIN RULE ... */
static int run_child(int argc, char **argv) {
  static const char *options[64];
  const kc_rule *rule = NULL;
  bool in_process = false;
  if (argc < 2) return 2;
  kc.plugin = argv[0];
  rule = strcmp(argv[1], "probe") ? kc_rule_find(argv[1]) : &kc_probe_rule;
  if (!rule) return 2;
  kc.only = word_after(argc, argv, "--case");
  kc.from = (uint32_t)number_after(argc, argv, "--from", 0);
  kc.seed = number_after(argc, argv, "--seed", 1);
  kc.max_memory = number_after(argc, argv, "--max-memory", 512ull << 20);
  kc.soak_time = number_after(argc, argv, "--soak", 0);
  kc.device = (uint32_t)number_after(argc, argv, "--device", 0);
  kc.shard = (uint32_t)number_after(argc, argv, "--shard", 0);
  kc.shards = (uint32_t)number_after(argc, argv, "--shards", 0);
  kc.op = word_after(argc, argv, "--op");
  kc.dtype = word_after(argc, argv, "--dtype");
  kc.dump = word_after(argc, argv, "--dump");
  kc.scratch = word_after(argc, argv, "--scratch");
  const char *factor = word_after(argc, argv, "--factor");
  kc.factor = factor ? strtod(factor, NULL) : 1;
  for (int i = 0; i < argc; i++) {
    if (!strcmp(argv[i], "--quick")) kc.quick = true;
    if (!strcmp(argv[i], "--in-process")) in_process = true;
    if (!strcmp(argv[i], "--option") && i + 1 < argc && kc.option_count < 64)
      options[kc.option_count++] = argv[i + 1];
  }
  kc.options = options;
  kc.in_process = in_process;
  kc_host_reset();
  kc_channel_open(in_process);
  if (!in_process) kc_watch_crashes();
  bool go_on = kc_run_rule(rule);
  for (int i = 0; i + 1 < argc && go_on; i++) {
    if (strcmp(argv[i], "--then") != 0) continue;
    rule = kc_rule_find(argv[i + 1]);
    if (!rule) return 2;
    kc_send('R', rule->id);
    kc_host_reset();
    kc.from = 0;
    go_on = kc_run_rule(rule);
  }
  return 0;
}

static int run_helper(int argc, char **argv) {
  if (argc < 3) return 2;
  kc.plugin = argv[1];
  kc.scratch = keel_environment("TMPDIR");
  kc.max_memory = 64ull << 20;
  kc.options = (const char *const *)(uintptr_t)(argv + 3);
  kc.option_count = (uint32_t)argc - 3;
  kc_host_reset();
  kc_shared = calloc(1, sizeof *kc_shared);
  for (uint32_t i = 0; i < kc_helper_count; i++)
    if (!strcmp(kc_helpers[i].name, argv[0])) return kc_helpers[i].run(argv[2]);
  return 2;
}

/* ---- the verbs ------------------------------------------------------------------------ */

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
} verbs[] = {
    {"run", kc_verb_run},           {"list", kc_verb_list},
    {"explain", kc_verb_explain},   {"again", kc_verb_again},
    {"compare", kc_verb_compare},   {"render", kc_verb_render},
    {"coverage", kc_verb_coverage}, {"pack", kc_verb_pack},
    {"verify", kc_verb_verify},     {"self-test", kc_verb_self_test},
    {"bench", kc_verb_bench},       {"doctor", kc_verb_doctor},
};

/* What was printed is to have come to where it goes. */
static int after(int status) {
  bool bad = ferror(stdout) != 0;
  bad |= fflush(stdout) != 0;
  if (!bad) return status;
  fprintf(stderr,
          "keel-conformance: standard output can't be written: %s; the output "
          "is incomplete\n",
          strerror(errno));
  return status ? status : KC_EXIT_SUITE;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "__rule"))
    return run_child(argc - 2, argv + 2);
  if (argc > 1 && !strcmp(argv[1], "__helper"))
    return run_helper(argc - 2, argv + 2);
  (void)keel_plain_begin(); /* a plugin may set the locale */
  signal(SIGXFSZ, SIG_IGN); /* a file that would be too large is an error */
  if (argc < 2) {
    fputs(help, stderr);
    return KC_EXIT_USAGE;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
      !strcmp(argv[1], "help")) {
    fputs(help, stdout);
    return 0;
  }
  if (!keel_json()) {
    fputs(
        "keel-conformance: results are read by cJSON, and there is no"
        " " KEEL_JSON_LIBRARY "; install libcjson1\n",
        stderr);
    return KC_EXIT_USAGE;
  }
  if (!strcmp(argv[1], "--version")) {
    puts("keel-conformance " KEEL_VERSION);
    return 0;
  }
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
    if (!strcmp(argv[1], verbs[i].name))
      return after(verbs[i].run(argc - 2, argv + 2));
  return after(kc_verb_run(argc - 1, argv + 1));
}
