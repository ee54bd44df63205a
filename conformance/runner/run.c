/* run.c - choosing rules, and running them in children; judge.c says what came of
 * it. */
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runner/run.h"
#include "runner/scratch.h"
#include "suite/suite.h"
/**/
#include "suite/channel.h"

#define JOBS        16u
#define CRASHES     5u  /* of one rule */
#define RESTARTS    40u /* behind cases that stopped */
#define QUIET_LIMIT (10 * KC_S)
#define CASE_LIMIT  (120 * KC_S)
#define FLOOD       (UINT64_C(64) << 20)

typedef struct run {
  const kc_options *options;
  kc_results *results;
  kc_expectations expected;
  kc_child children[JOBS];
  uint32_t jobs, finished, running;
  bool tty;
  uint64_t began, shown;
} run;

/* Ctrl-C: children are groups of their own, and would run on. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
  interrupted = number;
}

/* ---- choosing ---------------------------------------------------------------------- */

static bool matches(const char *glob, const char *id) {
  return fnmatch(glob, id, 0) == 0;
}

bool kc_chosen(const kc_options *options, const kc_rule *rule) {
  bool chosen = options->glob_count == 0;
  for (uint32_t i = 0; i < options->glob_count; i++)
    chosen |= matches(options->globs[i], rule->id);
  for (uint32_t i = 0; i < options->not_count; i++)
    chosen &= !matches(options->not_globs[i], rule->id);
  if (options->only) {
    size_t size = strlen(rule->id);
    chosen =
        !strncmp(options->only, rule->id, size) && options->only[size] == '/';
  }
  if (options->level >= 0 && rule->level <= KC_COMPILE &&
      (int)rule->level > options->level)
    return false;
  if (options->quick && (rule->flags & KC_LONG)) return false;
  return chosen;
}

bool kc_globs_match(const kc_options *options) {
  for (uint32_t i = 0; i < options->glob_count; i++) {
    const kc_rule *rule = NULL;
    for (uint32_t k = 0; (rule = kc_rule_at(k)); k++)
      if (matches(options->globs[i], rule->id)) break;
    if (rule) continue;
    fprintf(stderr,
            "keel-conformance: no rule's id is like \"%s\"; keel-conformance"
            " list has them all\n",
            options->globs[i]);
    return false;
  }
  return true;
}

static uint32_t shard_of(const char *id, uint32_t shards) {
  return (uint32_t)((kc_hash(KC_HASH, id) >> 20) % shards);
}

/* ---- progress --------------------------------------------------------------------------- */

static void show(run *run) {
  const kc_options *options = run->options;
  if (options->quiet || !run->tty || kc_now() - run->shown < KC_S / 10) return;
  run->shown = kc_now();
  const char *name = "";
  for (uint32_t i = 0; i < run->jobs; i++)
    if (run->children[i].pid)
      name = run->children[i].page->name[0] ? run->children[i].page->name
                                            : run->children[i].rule->id;
  uint32_t total = run->results->rule_count, failed = 0;
  for (uint32_t i = 0; i < total; i++)
    failed += run->results->rules[i].written &&
              kc_status_failed(run->results->rules[i].status);
  char bar[21] = {0};
  for (uint32_t i = 0; i < 20; i++)
    bar[i] = i < 20 * run->finished / (total ? total : 1) ? '=' : ' ';
  double spent = (double)(run->shown - run->began) / 1e9;
  double left =
      run->finished ? spent * (total - run->finished) / run->finished : 0;
  fprintf(
      stderr,
      "\r[%s] %u/%u, %u failed, %02d:%02d, about %02d:%02d left  %.40s\x1b[K",
      bar, run->finished, total, failed, (int)spent / 60, (int)spent % 60,
      (int)left / 60, (int)left % 60, name);
  fflush(stderr);
}

static void clear_line(const run *run) {
  if (run->tty && !run->options->quiet) fprintf(stderr, "\r\x1b[K");
}

static void finish_rule(run *run, kc_rule_result *rule) {
  kc_judge(&run->expected, rule);
  run->finished++;
  if (rule->rule && (rule->rule->flags & KC_WATCHED)) return;
  kc_results_write_rule(run->results, rule);
  if (kc_status_failed(rule->status) && !run->options->quiet && !run->tty)
    fprintf(stderr, "FAIL %s\n", rule->id);
}

/* ---- children ------------------------------------------------------------------------------- */

/* The calls that have not returned, each once, with how many threads are in it. */
static void add_open_calls(const kc_page *page, char **text) {
  char call[KC_RING_TEXT];
  for (uint32_t i = 0; i < KC_CALLERS; i++) {
    uint32_t before = 0, count = 0;
    if (!atomic_load(&page->in[i])) continue;
    snprintf(call, sizeof call, "%s", page->open[i]);
    for (uint32_t k = 0; k < KC_CALLERS; k++) {
      bool same = atomic_load(&page->in[k]) &&
                  !strncmp(call, page->open[k], sizeof call);
      count += same;
      before += same && k < i;
    }
    if (before) continue;
    kc_text_more(text, "has not returned: %s", call);
    if (count > 1) kc_text_more(text, "  on %u threads", count);
  }
}

static void add_calls(kc_child *child, char **text) {
  uint32_t at = atomic_load(&child->page->at);
  uint32_t from = at > 12 ? at - 12 : 0;
  if (at) kc_text_more(text, "last calls:");
  for (; from < at; from++)
    kc_text_more(text, "  %.*s", (int)KC_RING_TEXT - 1,
                 child->page->calls[from % KC_RING]);
  add_open_calls(child->page, text);
}

/* The case that something happened to: the one that runs, or the end. */
static kc_case_result *case_of(kc_child *child) {
  if (child->now) return child->now;
  char name[300];
  if (child->page->name[0] && !child->done)
    snprintf(name, sizeof name, "%s", child->page->name);
  else
    snprintf(name, sizeof name, "%s/%s", child->rule->id,
             child->done ? "exit" : "begin");
  return kc_results_case(child->result, name);
}

static void note_end(kc_child *child, int status) {
  if (child->garbage) {
    kc_case_result *one = case_of(child);
    one->status = KC_FAIL;
    one->checks++;
    kc_text_more(&one->message,
                 "%llu bytes that the suite didn't write came through a file"
                 " descriptor that is not the plugin's",
                 (unsigned long long)child->garbage);
  }
  if (child->hung) return;
  bool whole = child->done || child->stopped;
  if (whole && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  kc_case_result *one = case_of(child);
  one->status = KC_CRASH;
  one->checks++;
  if (WIFSIGNALED(status)) {
    kc_text_more(&one->message, "%s%s", strsignal(WTERMSIG(status)),
                 child->done ? " while the process ended" : "");
    if (child->page->crash[0])
      kc_text_more(&one->detail, "%.3000s", child->page->crash);
  } else {
    kc_text_more(&one->message, "the process ended with status %d%s",
                 WEXITSTATUS(status),
                 whole ? "" : " in the middle: something called exit");
  }
  add_calls(child, &one->detail);
  if (child->said[0])
    kc_text_more(&one->detail, "it printed:\n%s", child->said);
}

static void note_hang(run *run, kc_child *child) {
  kc_case_result *one = case_of(child);
  one->status = KC_HANG;
  one->checks++;
  kc_text_more(&one->message, "no sign of life for %.0f s",
               (double)(kc_now() - child->beat_time) / 1e9);
  add_calls(child, &one->detail);
  if (!run->options->no_reruns) kc_child_stacks(child, &one->detail);
  child->hung = true;
}

static void check_deadline(run *run, kc_child *child) {
  uint64_t now = kc_now(), beat = atomic_load(&child->page->beat);
  double scale = run->options->time_scale * run->results->factor;
  if (beat != child->beat) {
    child->beat = beat;
    child->beat_time = now;
  }
  uint64_t most = CASE_LIMIT + run->options->soak;
  if (child->hung) return;
  if (child->flood > FLOOD || child->garbage > (1 << 20)) {
    kc_case_result *one = case_of(child);
    one->status = KC_FAIL;
    one->checks++;
    kc_text_more(&one->message, "it writes without end");
    child->hung = true;
    kc_child_kill(child);
  } else if ((double)(now - child->beat_time) > (double)QUIET_LIMIT * scale ||
             (double)(now - child->case_began) > (double)most * scale) {
    note_hang(run, child);
    kc_child_kill(child);
  }
}

/* Ends a child; true where another goes on behind the case that spoilt it. */
static bool end_child(run *run, kc_child *child, int status) {
  kc_child_read(child, run->results);
  kc_rule_result *result = child->result; /* of a group, where it had come to */
  const kc_rule *rule = child->rule;
  note_end(child, status);
  kc_child_leave_rule(child, run->results);
  bool bad = !child->done || child->hung;
  uint32_t next = child->stopped ? child->stop_at + 1
                                 : atomic_load(&child->page->number) + 1;
  bool named = child->page->name[0] != 0;
  uint32_t crashes = child->crashes + (bad && !child->stopped);
  uint32_t restarts = child->restarts + 1;
  kc_child_close(child);
  if (!bad || !(rule->flags & KC_CASES) || !named || run->options->only ||
      crashes >= CRASHES || restarts >= RESTARTS)
    return false;
  child->crashes = crashes;
  child->restarts = restarts;
  return kc_child_start(child, run->options, rule, result, next, NULL,
                        run->results->factor);
}

/* ---- running a failed case again ----------------------------------------------------------- */

static void wait_child(run *run, kc_child *child, kc_results *all,
                       int *out_status) {
  while (!kc_child_ended(child, out_status)) {
    struct pollfd fds[2] = {{child->events, POLLIN, 0},
                            {child->output, POLLIN, 0}};
    poll(fds, 2, 20);
    kc_child_read(child, all);
    check_deadline(run, child);
    show(run);
  }
  kc_child_read(child, all);
}

/* Three more runs tell a flake from a failure; both stay failures. */
static void run_again(run *run, kc_rule_result *rule) {
  uint32_t tried = 0;
  for (uint32_t i = 0; i < rule->case_count && tried < 2; i++) {
    kc_case_result *one = &rule->cases[i];
    if (one->status != KC_FAIL || strstr(one->name, "/during=")) continue;
    tried++;
    one->runs = one->failed_runs = 1;
    for (int k = 0; k < 3; k++) {
      kc_child child = {0};
      kc_rule_result again = {.id = rule->id, .rule = rule->rule};
      int status = 0;
      if (!kc_child_start(&child, run->options, rule->rule, &again, 0,
                          one->name, run->results->factor))
        return;
      wait_child(run, &child, NULL, &status);
      bool failed = !child.done || !WIFEXITED(status);
      for (uint32_t c = 0; c < again.case_count; c++) {
        failed |= kc_status_failed(again.cases[c].status);
        free(again.cases[c].name);
        free(again.cases[c].message);
        free(again.cases[c].note);
        free(again.cases[c].detail);
      }
      free(again.cases);
      kc_child_close(&child);
      one->runs++;
      one->failed_runs += failed;
    }
    if (one->failed_runs < one->runs)
      kc_text_more(&one->message, "flaky: failed %u of %u runs",
                   one->failed_runs, one->runs);
  }
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The first in a free child, which goes on with the others. */
static void start_rules(run *run, kc_rule_result *const *results,
                        uint32_t count) {
  kc_rule_result *result = results[0];
  for (uint32_t i = 0; i < run->jobs; i++) {
    kc_child *child = &run->children[i];
    if (child->pid) continue;
    child->crashes = child->restarts = 0;
    child->queue_count = count - 1;
    memcpy(child->queue, results + 1, (count - 1) * sizeof *results);
    if (kc_child_start(child, run->options, result->rule, result, 0,
                       run->options->only, run->results->factor)) {
      run->running++;
      return;
    }
    kc_case_result *one = kc_results_case(result, result->id);
    one->status = KC_ERROR;
    kc_text_set(&one->message, "no child could be started: %s",
                strerror(errno));
    finish_rule(run, result);
    if (count > 1) start_rules(run, results + 1, count - 1);
    return;
  }
}

/* --group area: rules of one area that a process of their own gives nothing. */
static bool grouped(const run *run, const kc_rule_result *a,
                    const kc_rule_result *b) {
  size_t size = strcspn(a->id, ".") + 1;
  uint32_t own = KC_ALONE | KC_CLOSED;
  return run->options->by_area && !strncmp(a->id, b->id, size) &&
         !((a->rule->flags | b->rule->flags) & own);
}

/* A rule that has ended: failures are tried again, and it is judged. */
static void complete(run *run, kc_rule_result *result) {
  bool failed = false;
  for (uint32_t c = 0; c < result->case_count; c++)
    failed |= result->cases[c].status == KC_FAIL;
  if (failed && !run->options->no_reruns && !run->options->only)
    run_again(run, result);
  finish_rule(run, result);
}

static void finish_past(run *run, kc_child *child) {
  for (uint32_t i = 0; i < child->past_count; i++)
    complete(run, child->past[i]);
  child->past_count = 0;
}

static void wait_some(run *run) {
  struct pollfd fds[2 * JOBS];
  nfds_t count = 0;
  for (uint32_t i = 0; i < run->jobs; i++)
    if (run->children[i].pid) {
      fds[count++] = (struct pollfd){run->children[i].events, POLLIN, 0};
      fds[count++] = (struct pollfd){run->children[i].output, POLLIN, 0};
    }
  poll(fds, count, 10);
  for (uint32_t i = 0; i < run->jobs; i++) {
    kc_child *child = &run->children[i];
    int status = 0;
    if (!child->pid) continue;
    kc_child_read(child, run->results);
    finish_past(run, child);
    check_deadline(run, child);
    if (!kc_child_ended(child, &status)) continue;
    bool goes_on = end_child(run, child, status);
    finish_past(run, child);
    if (goes_on) continue;
    kc_rule_result *result = child->result;
    kc_rule_result *rest[KC_QUEUE];
    uint32_t rest_count = child->queue_count;
    memcpy(rest, child->queue, sizeof rest);
    child->pid = 0;
    child->queue_count = 0;
    run->running--;
    complete(run, result);
    if (rest_count) start_rules(run, rest, rest_count);
  }
  show(run);
}

static void stop_children(run *run) {
  for (uint32_t i = 0; i < run->jobs; i++) {
    kc_child *child = &run->children[i];
    if (!child->pid) continue;
    kc_child_kill(child);
    waitpid(child->pid, NULL, 0);
    kc_child_close(child);
  }
  run->running = 0;
}

static void run_part(run *run, bool alone) {
  kc_results *results = run->results;
  uint32_t width = alone ? 1 : run->jobs;
  for (uint32_t i = 0; i < results->rule_count && !interrupted; i++) {
    kc_rule_result *result = &results->rules[i];
    bool is_alone = (result->rule->flags & KC_ALONE) != 0;
    if (is_alone != alone || result->status != KC_NOT_RUN) continue;
    if (result->reason) {
      if (!result->written) kc_results_write_rule(results, result);
      run->finished++;
      continue;
    }
    kc_rule_result *group[KC_QUEUE];
    uint32_t count = 0;
    for (uint32_t k = i; k < results->rule_count && count < KC_QUEUE; k++) {
      kc_rule_result *other = &results->rules[k];
      if (other->status != KC_NOT_RUN || other->reason) continue;
      if (k > i && !grouped(run, result, other)) continue;
      other->status = KC_PASS; /* for the time being */
      group[count++] = other;
    }
    while (run->running >= width && !interrupted)
      wait_some(run);
    if (!interrupted) start_rules(run, group, count);
  }
  while (run->running && !interrupted)
    wait_some(run);
  if (interrupted) stop_children(run);
}

static void plan(run *run, const kc_facts *facts) {
  const kc_options *options = run->options;
  kc_results *results = run->results;
  const kc_rule *rule = NULL;
  results->rules = calloc(kc_rule_count() + 1, sizeof *results->rules);
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++) {
    bool watched = (rule->flags & KC_WATCHED) && !options->only;
    for (uint32_t k = 0; k < options->not_count; k++)
      watched &= !matches(options->not_globs[k], rule->id);
    if (!kc_chosen(options, rule) && !watched) continue;
    if (options->shards > 1 && !watched &&
        shard_of(rule->id, options->shards) != options->shard)
      continue;
    kc_rule_result *result = &results->rules[results->rule_count++];
    result->rule = rule;
    result->id = strdup(rule->id);
    result->severity = rule->severity;
    result->level = rule->level;
    result->status = KC_NOT_RUN;
    if (facts->loaded && KD_VERSION_MAJOR(facts->abi_version) == KD_ABI_MAJOR &&
        rule->since > facts->abi_version) {
      result->status = KC_UNCLAIMED;
      kc_text_set(&result->reason,
                  "the rule came with ABI %u.%u, and the"
                  " plugin was built for %u.%u",
                  KD_VERSION_MAJOR(rule->since), KD_VERSION_MINOR(rule->since),
                  KD_VERSION_MAJOR(facts->abi_version),
                  KD_VERSION_MINOR(facts->abi_version));
    } else if (facts->loaded && !(facts->claims >> rule->level & 1)) {
      result->status = KC_UNCLAIMED;
      kc_text_set(&result->reason,
                  "the plugin doesn't claim %s: its table is"
                  " NULL",
                  kc_level_name(rule->level));
    } else if (!facts->open && !(rule->flags & KC_CLOSED)) {
      kc_text_set(&result->reason, "the plugin could not be %s: %s",
                  facts->loaded ? "opened" : "loaded", facts->why);
    }
    if (result->status == KC_UNCLAIMED) {
      run->finished++;
      kc_results_write_rule(results, result);
    }
  }
}

static void describe(run *run, const kc_facts *facts) {
  kc_results *results = run->results;
  char digest[65], when[32];
  time_t now = time(NULL);
  struct tm broken;
  struct utsname host;
  gmtime_r(&now, &broken);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &broken);
  uname(&host);
  kc_text_set(&results->suite, "keel-conformance %s", KEEL_VERSION);
  kc_text_set(&results->plugin_path, "%s", run->options->plugin);
  if (kc_sha_file(run->options->plugin, digest))
    kc_text_set(&results->plugin_digest, "%s", digest);
  if (kc_sha_file("/proc/self/exe", digest))
    kc_text_set(&results->suite_digest, "%s", digest);
  kc_rules_digest(digest);
  kc_text_set(&results->rules_digest, "%s", digest);
  kc_text_set(&results->name, "%s", facts->name);
  kc_text_set(&results->vendor, "%s", facts->vendor);
  kc_text_set(&results->version, "%s", facts->version);
  kc_text_set(&results->device, "%s", facts->device);
  kc_text_set(&results->started, "%s", when);
  kc_text_set(&results->host, "%s %s %s", host.sysname, host.release,
              host.machine);
  results->abi_version = facts->abi_version;
  results->abi_min = facts->abi_min;
  results->device_index = run->options->device;
  results->seed = run->options->seed;
  results->factor = facts->factor;
  for (int i = 0; i <= KC_COMPILE && (facts->claims >> i & 1); i++)
    results->level = i;
  results->options = facts->claims >> KC_PROFILE;
  const kc_options *o = run->options;
  results->partial = o->quick || o->glob_count || o->not_count || o->only ||
                     o->op || o->dtype || o->shards > 1 ||
                     (o->level >= 0 && o->level < results->level);
}

static bool stale(const run *run) {
  bool found = false;
  for (uint32_t i = 0; i < run->expected.count; i++) {
    const kc_expectation *one = &run->expected.all[i];
    if (one->expired)
      fprintf(stderr, "stale expectation: %s expired on %s\n", one->name,
              one->expires);
    else if (!one->seen && !run->results->partial)
      fprintf(stderr, "stale expectation: there is no case %s\n", one->name);
    else
      continue;
    found = true;
  }
  for (uint32_t i = 0; i < run->results->rule_count; i++)
    found |= run->results->rules[i].status == KC_XPASS;
  return found;
}

static int verdict(const run *run, const kc_facts *facts) {
  const kc_results *results = run->results;
  bool failed = false, error = false, ran = false;
  for (uint32_t i = 0; i < results->rule_count; i++) {
    kc_status status = results->rules[i].status;
    failed |= status == KC_FAIL || status == KC_CRASH || status == KC_HANG;
    error |= status == KC_ERROR;
    ran |= !kc_status_skipped(status) &&
           !(results->rules[i].rule->flags & KC_WATCHED);
  }
  if (!facts->open) return KC_EXIT_NOT_LOADABLE;
  if (!ran) {
    fputs(
        "keel-conformance: nothing ran: no rule and case that was asked for is"
        " one that the plugin has something for\n",
        stderr);
    return KC_EXIT_NOTHING;
  }
  if (failed) return KC_EXIT_NOT;
  if (error) return KC_EXIT_SUITE;
  return stale(run) ? KC_EXIT_STALE : KC_EXIT_CONFORMANT;
}

/* The time of --soak goes to all rules that soak, in equal parts. */
static uint64_t soak_share(const run *run) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < run->results->rule_count; i++)
    count += run->results->rules[i].status == KC_NOT_RUN &&
             kc_rule_soaks(run->results->rules[i].rule);
  return count ? run->options->soak * run->jobs / count : 0;
}

int kc_run_all(const kc_options *asked, kc_results *results) {
  static run run;
  static kc_options own, *options = &own;
  kc_facts facts;
  own = *asked;
  memset(&run, 0, sizeof run);
  run.options = options;
  run.results = results;
  run.tty = isatty(2) != 0;
  run.jobs = options->jobs ? options->jobs : 2;
  if (run.jobs > JOBS) run.jobs = JOBS;
  run.began = kc_now();
  if (options->expectations &&
      !kc_expectations_read(options->expectations, &run.expected)) {
    kc_expectations_free(&run.expected);
    return KC_EXIT_USAGE;
  }
  if (!kc_globs_match(options)) {
    kc_expectations_free(&run.expected);
    return KC_EXIT_USAGE;
  }
  kc_probe(options, &facts);
  describe(&run, &facts);
  if (!options->quiet)
    printf("%s %s %s (ABI %u.%u, from %u.%u)  device %s  %s (%u rules)\n",
           facts.vendor, facts.name, facts.version,
           KD_VERSION_MAJOR(facts.abi_version),
           KD_VERSION_MINOR(facts.abi_version), KD_VERSION_MAJOR(facts.abi_min),
           KD_VERSION_MINOR(facts.abi_min), facts.device, results->suite,
           kc_rule_count());
  if (!facts.open)
    fprintf(stderr, "%s could not be %s: %s\n", options->plugin,
            facts.loaded ? "opened" : "loaded", facts.why);
  if (options->out) {
    char path[4200];
    snprintf(path, sizeof path, "%s/results.jsonl", options->out);
    if (!kc_results_begin(results, path)) {
      fprintf(stderr, "keel-conformance: %s can't be written: %s\n", path,
              strerror(errno));
      return KC_EXIT_SUITE;
    }
  }
  plan(&run, &facts);
  own.soak = soak_share(&run);
  if (!kc_scratch_make(own.cache)) return KC_EXIT_SUITE;
  struct sigaction ours = {.sa_handler = on_interrupt}, before[2];
  sigaction(SIGINT, &ours, &before[0]);
  sigaction(SIGTERM, &ours, &before[1]);
  run_part(&run, false);
  run_part(&run, true);
  clear_line(&run);
  kc_scratch_remove(own.cache);
  sigaction(SIGINT, &before[0], NULL);
  sigaction(SIGTERM, &before[1], NULL);
  if (interrupted) {
    fprintf(stderr, "keel-conformance: interrupted at rule %u of %u%s%s\n",
            run.finished, results->rule_count,
            options->out ? "; what ran is in " : "",
            options->out ? options->out : "");
    kc_expectations_free(&run.expected);
    return 128 + interrupted;
  }
  for (uint32_t i = 0; i < results->rule_count; i++) {
    kc_rule_result *rule = &results->rules[i];
    if (rule->written) continue;
    if (rule->status != KC_NOT_RUN) kc_judge(&run.expected, rule);
    kc_results_write_rule(results, rule);
  }
  results->time = kc_now() - run.began;
  kc_results_end(results);
  int status = verdict(&run, &facts);
  kc_expectations_free(&run.expected);
  return status;
}
