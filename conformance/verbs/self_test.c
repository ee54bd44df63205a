/* self_test.c - the proof: the sound device and its odd variants pass, each
 * defect is caught by its rule. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <libgen.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/scratch.h"
#include "suite/suite.h"
#include "verbs/verbs.h"

static const char help[] =
    "usage: keel-conformance self-test [OPTION]...\n"
    "\n"
    "Proves the suite on this machine: the sound simulated device and its "
    "odd,\n"
    "but legal, variants must pass everything, and each defect must be caught "
    "by\n"
    "the rule that it is named for. A line a defect: its name, the rule, the\n"
    "rules that failed, ok or NOT CAUGHT. Exit status 0 when all were caught.\n"
    "\n"
    "  --defect GLOB   only these\n"
    "  --variants I/N  of the odd variants the I-th of N parts\n"
    "  --fault PLUGIN  puts the defects that can be put around a plugin "
    "around\n"
    "                  this one\n"
    "  --matrix        runs all rules (quick) on each defect, to list what "
    "else\n"
    "                  fails\n"
    "  --races         only those that take the right moment to show\n"
    "  --repeat N      runs each defect N times and counts: how surely is it "
    "caught\n"
    "  --jobs N        at once\n"
    "  --seed N\n";

/* What the simulated device can be that is odd, but legal: KEEL_SIM=name. */
static const char *const oddities[] = {
    "bare",               /* every optional slot and table is NULL */
    "no_optional_memory", /* optional slots of the memory table are NULL */
    "no_callbacks",       /* on_complete, flush and synchronize are NULL */
    "small_handles",      /* handles of devices are small integers */
    "inline_streams",     /* work in streams is done when it is enqueued */
    "relaxed",            /* the relaxed numerics class is declared */
    "flush_declared",     /* subnormals are flushed, and it is declared */
    "nondeterministic",   /* the last bits change, and it is declared */
    "one_device",         /* there is one device only */
    "no_device", /* there is no device on this machine, and the log says so */
    "slow",      /* everything takes much longer */
    "wide_alignment",   /* memory is aligned to 2048 bytes */
    "other_language",   /* messages are in another language */
    "declines_regions", /* every region is declined */
    "linear_chains", /* chains of two and more ops of one input are claimed, and nothing else */
    "one_pattern",     /* a Relu behind a Mul is claimed, and nothing else */
    "wide_regions",    /* regions of f16 keep what they compute in f32 */
    "strict_supports", /* supports aborts for types that its definition excludes */
    "host_memory_only", /* all memory is host visible */
    "large_tables",     /* tables are larger than the host knows */
    "no_uuid",          /* devices have no uuid */
    "few_ops",          /* it has three ops */
    "hint_bits",        /* flags have hints that nobody knows */
    "busy_limit",       /* a stream takes 64 launches, then says BUSY */
    "huge_memory",      /* buffers of more than 4 GiB */
};

typedef struct task {
  const char *name, *rule, *needs; /* needs: another rule, or NULL */
  bool odd, sound;
  bool layer;   /* fault.so puts it around the device */
  uint32_t how; /* KC_RACE ... */
  pid_t pid;
  char folder[256];
  uint32_t tries, caught, runs;
  bool listed; /* `failed` has all rules that the matrix ran */
  char failed[3000];
  char why[400];            /* of one that must pass: its first failure */
  bool done, good, skipped; /* skipped: the plugin has nothing for the rule */
  uint64_t began;
} task;

typedef struct settings {
  const char *glob, *seed, *fault;
  bool matrix, races;
  uint32_t jobs, repeat;
  uint32_t part, parts; /* of the odd variants: from 0; 0: all */
  char sim[4200], folder[4200];
} settings;

/* Ctrl-C: the runs that go on are ended, and their folders removed. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
  interrupted = number;
}

/* Whether each process of a defect hangs at its end, until somebody kills it. */
static bool hangs(const task *t) {
  return t->rule && (!strcmp(t->rule, "thread.fork-child") ||
                     !strcmp(t->rule, "life.exit-without-close"));
}

static void self_start(task *t, const settings *s) {
  char plugin[4400];
  if (!kc_scratch_make(t->folder)) return;
  snprintf(plugin, sizeof plugin, "%s", s->sim);
  if (t->how & KC_LIBRARY)
    snprintf(plugin, sizeof plugin, "%s/stub_%s.so", s->folder, t->name);
  if (t->layer) snprintf(plugin, sizeof plugin, "%s/fault.so", s->folder);
  t->began = kc_now();
  t->tries++;
  fflush(NULL);
  t->pid = fork();
  if (t->pid) return;
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* a run tidies up */
  int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, 0);
  dup2(nothing, 1);
  dup2(nothing, 2);
  setenv("KEEL_SIM", t->sound || t->layer ? "" : t->name, 1);
  if (t->layer) {
    setenv("KEEL_FAULT", t->sound ? "" : t->name, 1);
    setenv("KEEL_FAULT_PLUGIN", s->fault ? s->fault : s->sim, 1);
  }
  const char *argv[32] = {
      "keel-conformance", "run",         plugin,     "--out",
      t->folder,          "--no-reruns", "--report", "text"};
  int n = 8;
  /* the longest runs would be the last to end, and alone for half of their time */
  argv[n++] = "--jobs";
  argv[n++] = t->sound || hangs(t) ? "4" : "1";
  argv[n++] = "--time-scale";
  argv[n++] = t->sound || t->odd ? "3" : "0.3";
  if (s->seed) {
    argv[n++] = "--seed";
    argv[n++] = s->seed;
  }
  if (t->how & KC_ROOM) {
    argv[n++] = "--max-memory";
    argv[n++] = "9G";
  }
  if (t->layer) { /* it is told by the environment what to wrap */
    argv[n++] = "--not";
    argv[n++] = "load.bare-environment";
  }
  const kc_rule *rule = t->rule ? kc_rule_find(t->rule) : NULL;
  /* a part of the cases, and all of them of the one rule where that missed it */
  if (t->odd || t->sound || (s->matrix && t->tries == 1)) {
    if (!rule || !(rule->flags & KC_LONG)) argv[n++] = "--quick";
  } else {
    argv[n++] = "--rule";
    argv[n++] = t->rule;
    if (t->needs) {
      argv[n++] = "--rule";
      argv[n++] = t->needs;
    }
  }
  if (s->matrix) alarm(150); /* where each rule hangs, what ran will do */
  execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
  _exit(98);
}

/* What the run said; true where it is as it should be. */
static bool self_judge(task *t) {
  char path[4400];
  kc_results results;
  snprintf(path, sizeof path, "%s/results.jsonl", t->folder);
  bool killed = false, passed = true;
  if (!t->listed) t->failed[0] = 0;
  t->why[0] = 0;
  if (kc_results_read(path, &results)) {
    size_t used = 0;
    for (uint32_t i = 0; i < results.rule_count; i++) {
      const kc_rule_result *rule = &results.rules[i];
      bool named = t->rule && !strcmp(rule->id, t->rule);
      if (t->needs ? !strcmp(rule->id, t->needs) : named)
        t->skipped =
            rule->status == KC_UNCLAIMED || rule->status == KC_UNTESTED;
      bool bad = kc_status_failed(rule->status) || rule->status == KC_WARNING ||
                 (rule->status == KC_NOT_RUN && rule->failed);
      passed &= !bad || rule->status == KC_WARNING;
      if (!bad) continue;
      killed |= named;
      for (uint32_t k = 0; k < rule->case_count && !t->rule && !t->why[0]; k++)
        if (kc_status_failed(rule->cases[k].status))
          snprintf(
              t->why, sizeof t->why, "%s %s: %s", rule->id, rule->cases[k].name,
              rule->cases[k].message ? rule->cases[k].message
                                     : kc_status_name(rule->cases[k].status));
      if (!t->listed && used < sizeof t->failed)
        used += (size_t)snprintf(t->failed + used, sizeof t->failed - used,
                                 "%s%s", used ? " " : "", rule->id);
    }
    if (!results.complete) passed = false;
    passed &= results.passed > 3;
    kc_results_free(&results);
  } else {
    passed = false;
  }
  kc_scratch_remove(t->folder);
  return t->rule ? killed : passed;
}

static void print_task(const task *t) {
  const char *verdict = t->skipped ? "skipped"
                        : t->good  ? "ok"
                        : t->rule  ? "NOT CAUGHT"
                                   : "FAILED";
  if (t->rule)
    printf("%-22s %-28s %-44s %s", t->name, t->rule,
           t->failed[0] ? t->failed : "-", verdict);
  else
    printf("%-22s %-28s %-44s %s", t->name, "(must pass)",
           t->failed[0] ? t->failed : "-", verdict);
  if (t->runs > 1) printf(" (%u of %u runs", t->caught, t->runs);
  if (t->runs > 6 && t->rule) { /* by Laplace's rule of succession */
    double p = (t->caught + 1.0) / (t->runs + 2.0);
    printf("; %.0f for 1 - 10^-4", ceil(log(1e-4) / log(1 - p)));
  }
  if (t->runs > 1) putchar(')');
  putchar('\n');
  fflush(stdout);
}

/* So that a race that shows in half of the runs is missed once in 10^4 times. */
#define RACE_TRIES 14u

/* Clocks: a defect has some tries, or as many as were asked for. */
static bool again(task *t, const settings *s, bool good) {
  t->skipped &= s->fault != NULL;
  if (t->skipped) return false;
  t->runs++;
  t->caught += good;
  if (s->repeat) return t->runs < s->repeat;
  if (!t->rule) return !good && t->tries < 2;
  uint32_t most = t->how & KC_RACE ? RACE_TRIES : 6;
  return !good && t->tries < most && !(t->how & KC_LIBRARY);
}

/* Those first, which wait and do nothing while the other jobs run. */
static void put_hanging_first(task *tasks, uint32_t count) {
  for (uint32_t i = 0, first = 0; i < count; i++) {
    if (!hangs(&tasks[i])) continue;
    task t = tasks[i];
    memmove(&tasks[first + 1], &tasks[first], (i - first) * sizeof *tasks);
    tasks[first++] = t;
  }
}

static void run_tasks(task *tasks, uint32_t count, const settings *s) {
  uint32_t next = 0, running = 0, done = 0;
  bool tty = isatty(2) != 0;
  while (done < count && !interrupted) {
    while (running < s->jobs && next < count) {
      self_start(&tasks[next++], s);
      running++;
    }
    int status = 0;
    pid_t pid = wait(&status);
    if (pid < 0 && errno != EINTR) break;
    for (uint32_t i = 0; i < next; i++) {
      task *t = &tasks[i];
      if (t->pid != pid || t->done) continue;
      bool good = self_judge(t);
      t->listed = s->matrix;
      if (again(t, s, good)) {
        self_start(t, s);
        break;
      }
      t->good = s->repeat ? t->caught > 0 : good;
      t->done = true;
      done++;
      running--;
      print_task(t);
    }
    if (tty) fprintf(stderr, "\r%u of %u\x1b[K\r", done, count);
  }
  for (uint32_t i = 0; i < next && interrupted; i++) {
    task *t = &tasks[i];
    if (t->done || t->pid <= 0) continue;
    kill(t->pid, SIGTERM);
    while (waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
      continue;
    kc_scratch_remove(t->folder);
  }
}

static int read_options(settings *s, int argc, char **argv) {
  static char path[4096];
  const char *jobs = NULL, *repeat = NULL, *variants = NULL;
  uint64_t number = 0;
  const kc_word options[] = {{"--defect", .value = &s->glob},
                             {"--seed", .value = &s->seed},
                             {"--fault", .value = &s->fault},
                             {"--jobs", .value = &jobs},
                             {"--repeat", .value = &repeat},
                             {"--matrix", .flag = &s->matrix},
                             {"--races", .flag = &s->races},
                             {"--variants", .value = &variants},
                             {0}};
  kc_words words = {.verb = "self-test", .help = help, .options = options};
  int status = kc_words_read(&words, argc, argv);
  if (status >= 0) return status;
  if (s->fault && !kc_find_plugin(s->fault, path)) return KC_EXIT_USAGE;
  if (s->fault) s->fault = path;
  if (s->seed && !kc_read_number(s->seed, &number))
    return kc_usage("self-test", "--seed %s is not a number", s->seed);
  if (jobs && (!kc_read_number(jobs, &number) || !number || number > 16))
    return kc_usage("self-test", "--jobs %s is not a number from 1 to 16",
                    jobs);
  if (jobs) s->jobs = (uint32_t)number;
  if (repeat && (!kc_read_number(repeat, &number) || !number || number > 1e6))
    return kc_usage("self-test", "--repeat %s is not a number, 1 or more",
                    repeat);
  if (repeat) s->repeat = (uint32_t)number;
  if (variants && !kc_read_part(variants, &s->part, &s->parts))
    return kc_usage("self-test", "--variants %s is not like 2/5", variants);
  if (variants && (s->glob || s->fault || s->races))
    return kc_usage("self-test",
                    "--variants is of all that runs on the simulated device:"
                    " leave --defect, --fault and --races out");
  return -1;
}

int kc_verb_self_test(int argc, char **argv) {
  static settings s;
  s.jobs = 2;
  int status = read_options(&s, argc, argv);
  if (status >= 0) return status;
  if (!kc_find_plugin("sim", s.sim)) return KC_EXIT_SUITE;
  snprintf(s.folder, sizeof s.folder, "%s", s.sim);
  *strrchr(s.folder, '/') = 0;
  uint32_t count = 0;
  task *tasks =
      calloc(kc_defect_count() + KC_COUNT_OF(oddities) + 1, sizeof *tasks);
  bool all = !s.glob && !s.races;
  if (all)
    tasks[count++] =
        (task){.name = "sound", .sound = true, .layer = s.fault != NULL};
  for (uint32_t i = 0; i < KC_COUNT_OF(oddities) && !s.fault; i++)
    if (all ? !s.parts || i % s.parts == s.part
            : s.glob && fnmatch(s.glob, oddities[i], 0) == 0)
      tasks[count++] = (task){.name = oddities[i], .odd = true};
  const kc_defect *defect = NULL;
  for (uint32_t i = 0; (defect = kc_defect_at(i)); i++) {
    bool around = defect->how & KC_AROUND;
    if (s.glob && fnmatch(s.glob, defect->name, 0) != 0) continue;
    if (s.fault && !around) continue;
    if (s.races && !(defect->how & KC_RACE)) continue;
    tasks[count++] = (task){.name = defect->name,
                            .rule = defect->rule,
                            .how = defect->how,
                            .layer = around,
                            .needs = s.fault ? defect->needs : NULL};
  }
  printf("%-22s %-28s %-44s %s\n", "defect", "rule", "rules that failed", "");
  if (!count)
    fprintf(stderr,
            "keel-conformance self-test: no defect is named so; see"
            " keel-conformance list --defects\n");
  uint64_t began = kc_now();
  struct sigaction ours = {.sa_handler = on_interrupt};
  sigaction(SIGINT, &ours, NULL);
  sigaction(SIGTERM, &ours, NULL);
  put_hanging_first(tasks, count);
  run_tasks(tasks, count, &s);
  if (interrupted) {
    fprintf(stderr, "keel-conformance self-test: interrupted\n");
    free(tasks);
    return 128 + interrupted;
  }
  uint32_t good = 0, bad = 0, skipped = 0;
  for (uint32_t i = 0; i < count; i++) {
    const task *t = &tasks[i];
    skipped += t->skipped;
    good += t->done && t->good && !t->skipped;
    if (t->skipped || (t->done && t->good)) continue;
    /* once more where a reader of a long log looks: at its end */
    if (bad++ == 0) puts("\nnot as they should be:");
    print_task(t);
    if (t->why[0]) printf("  %s\n", t->why);
  }
  /* each must-rule must be able to fail */
  const kc_rule *rule = NULL;
  for (uint32_t i = 0; all && !s.fault && (rule = kc_rule_at(i)); i++) {
    bool any = rule->severity != KC_MUST;
    for (uint32_t k = 0; !any && (defect = kc_defect_at(k)); k++)
      any = !strcmp(defect->rule, rule->id);
    if (any) continue;
    printf("%-22s %-28s no defect is named for this must-rule\n", "-",
           rule->id);
    bad++;
  }
  printf("%u defects and variants, %.0f s\n%u passed, %u failed, %u skipped\n",
         count, (double)(kc_now() - began) / 1e9, good, bad, skipped);
  free(tasks);
  return count == 0 ? KC_EXIT_NOTHING : bad ? KC_EXIT_NOT : 0;
}
