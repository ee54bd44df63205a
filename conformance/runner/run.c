/* run.c - running rules in children; plan.c has which, judge.c what came of it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/running.h"
#include "runner/scratch.h"
#include "suite/suite.h"
/**/
#include "suite/channel.h"

#define CRASHES  5u  /* of one rule */
#define RESTARTS 40u /* behind cases that stopped */

/* Ctrl-C: children are groups of their own, and would run on. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
  interrupted = number;
}

bool kc_interrupted(void) {
  return interrupted != 0;
}

/* Signals of a run: it is ended in order, a reader that goes away is an error of writing, and
 * children's ends are heard of, whatever the caller had. */
static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD};
#define OURS (sizeof ours / sizeof *ours)

static void take_signals(struct sigaction *before, sigset_t *mask_before) {
  sigset_t none;
  interrupted = 0;
  for (size_t i = 0; i < OURS; i++) {
    struct sigaction how = {.sa_handler = ours[i] == SIGPIPE   ? SIG_IGN
                                          : ours[i] == SIGCHLD ? SIG_DFL
                                                               : on_interrupt};
    sigaction(ours[i], &how, &before[i]);
  }
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, mask_before);
}

static void give_signals(const struct sigaction *before,
                         const sigset_t *mask_before) {
  sigprocmask(SIG_SETMASK, mask_before, NULL);
  for (size_t i = 0; i < OURS; i++)
    sigaction(ours[i], &before[i], NULL);
}

/* Whether it was seen to break in another rule. That needs no bytes that come back, but for
 * one rule. */
static bool was_seen(const kc_rule_result *rule) {
  bool seen = false;
  for (uint32_t i = 0; i < rule->case_count; i++)
    seen |= strstr(rule->cases[i].name, "/during=") != NULL;
  return seen && strcmp(rule->id, "kernel.inputs-untouched") != 0;
}

/* A rule that broke as one that it stands on broke has shown nothing of its own. False where
 * such a rule is still to be judged. */
static bool run_settle(const kc_running *run, kc_rule_result *rule) {
  bool open = false;
  kc_status is = rule->status;
  if (is != KC_FAIL && is != KC_CRASH && is != KC_HANG && is != KC_WARNING)
    return true;
  if (was_seen(rule)) return true;
  const char *basis = kc_basis_failed(run->results, rule->id, &open);
  if (!basis) return !open;
  rule->status = KC_NOT_RUN;
  kc_text_set(&rule->reason, "not judged: %s failed", basis);
  return true;
}

static void write_rule(const kc_running *run, kc_rule_result *rule) {
  if (rule->written) return;
  kc_results_write_rule(run->results, rule);
  if (kc_status_failed(rule->status) && !run->options->quiet && !run->tty)
    fprintf(stderr, "FAIL %s\n", rule->id);
}

/* A part of the cases may have none of it, though the whole has. */
static void run_judge(kc_running *run, kc_rule_result *rule) {
  const kc_options *o = run->options;
  bool part = (o->shards > 1 && rule->rule && rule->rule->flags & KC_SPREAD) ||
              o->op || o->dtype || o->only;
  kc_judge(&run->expected, rule);
  if (!rule->case_count && part)
    kc_text_set(&rule->reason, "this part of the cases has none of the rule's");
}

static void finish_rule(kc_running *run, kc_rule_result *rule) {
  run->finished++;
  if (rule->rule && (rule->rule->flags & KC_WATCHED)) return;
  run_judge(run, rule);
  rule->judged = true;
  if (run_settle(run, rule)) write_rule(run, rule);
}

/* Those that waited for others, and those that are watched in all rules. */
static void finish_rest(kc_running *run) {
  for (uint32_t i = 0; i < run->results->rule_count; i++) {
    kc_rule_result *rule = &run->results->rules[i];
    if (rule->written) continue;
    if (!rule->judged && rule->status != KC_NOT_RUN) run_judge(run, rule);
    run_settle(run, rule);
    write_rule(run, rule);
  }
}

/* Ends a child; true where another goes on behind the case that spoilt it. */
static bool end_child(kc_running *run, kc_child *child, int status) {
  kc_child_read(child, run->results);
  kc_rule_result *result = child->result; /* of a group, where it had come to */
  const kc_rule *rule = child->rule;
  kc_note_end(child, status);
  kc_child_leave_rule(child, run->results);
  bool bad = !child->done || child->hung;
  uint32_t next = child->stopped ? child->stop_at + 1
                                 : atomic_load(&child->page->number) + 1;
  bool named = child->page->name[0] != 0;
  uint32_t crashes = child->crashes + (bad && !child->stopped);
  uint32_t restarts = child->restarts + 1;
  kc_child_close(child);
  if (!bad || !(rule->flags & KC_CASES) || run->options->only) return false;
  result->cut = true;
  if (!named || crashes >= CRASHES || restarts >= RESTARTS) return false;
  child->crashes = crashes;
  child->restarts = restarts;
  result->cut = !kc_child_start(child, run->options, rule, result, next, NULL,
                                run->results->factor);
  return !result->cut;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The first in a free child, which goes on with the others. */
static void start_rules(kc_running *run, kc_rule_result *const *results,
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
static bool grouped(const kc_running *run, const kc_rule_result *a,
                    const kc_rule_result *b) {
  size_t size = strcspn(a->id, ".") + 1;
  uint32_t own = KC_ALONE | KC_CLOSED;
  return run->options->by_area && !strncmp(a->id, b->id, size) &&
         !((a->rule->flags | b->rule->flags) & own);
}

/* A rule that has ended: failures are tried again, and it is judged. */
static void complete(kc_running *run, kc_rule_result *result) {
  bool failed = false;
  for (uint32_t c = 0; c < result->case_count; c++)
    failed |= result->cases[c].status == KC_FAIL;
  if (failed && !run->options->no_reruns && !run->options->only)
    kc_run_again(run, result);
  if (kc_is_late(result) && !run->options->no_reruns && !run->options->only)
    run->late[run->late_count++] = result;
  else
    finish_rule(run, result);
}

/* What missed a deadline beside others counts if it does so alone. */
static void try_late(kc_running *run) {
  for (uint32_t i = 0; i < run->late_count && !interrupted; i++) {
    kc_run_alone(run, run->late[i]);
    finish_rule(run, run->late[i]);
  }
  free(run->late);
  run->late = NULL;
}

static void finish_past(kc_running *run, kc_child *child) {
  for (uint32_t i = 0; i < child->past_count; i++)
    complete(run, child->past[i]);
  child->past_count = 0;
}

static void wait_some(kc_running *run) {
  struct pollfd fds[2 * KC_JOBS];
  nfds_t count = 0;
  for (uint32_t i = 0; i < run->jobs; i++)
    if (run->children[i].pid) {
      kc_child_poll(&run->children[i], fds + count);
      count += 2;
    }
  poll(fds, count, 10);
  for (uint32_t i = 0; i < run->jobs; i++) {
    kc_child *child = &run->children[i];
    int status = 0;
    if (!child->pid) continue;
    kc_child_read(child, run->results);
    finish_past(run, child);
    kc_check_deadline(run, child);
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
  kc_progress_show(run);
}

static void stop_children(kc_running *run) {
  for (uint32_t i = 0; i < run->jobs; i++) {
    kc_child *child = &run->children[i];
    if (!child->pid) continue;
    kc_child_kill(child);
    waitpid(child->pid, NULL, 0);
    kc_child_close(child);
  }
  run->running = 0;
}

static void run_part(kc_running *run, bool alone) {
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

static bool stale(const kc_running *run) {
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

static int verdict(const kc_running *run, const kc_facts *facts) {
  const kc_results *results = run->results;
  bool failed = false, error = false, ran = false;
  for (uint32_t i = 0; i < results->rule_count; i++) {
    kc_status status = results->rules[i].status;
    failed |= status == KC_FAIL || status == KC_CRASH || status == KC_HANG;
    error |= status == KC_ERROR;
    bool watched = (results->rules[i].rule->flags & KC_WATCHED) != 0;
    if (run->options->glob_count &&
        kc_chosen(run->options, results->rules[i].rule))
      watched = false; /* asked for by name */
    ran |= !kc_status_skipped(status) && !watched;
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
static uint64_t soak_share(const kc_running *run) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < run->results->rule_count; i++)
    count += run->results->rules[i].status == KC_NOT_RUN &&
             kc_rule_soaks(run->results->rules[i].rule);
  return count ? run->options->soak * run->jobs / count : 0;
}

static int end_with(kc_running *run, int status) {
  kc_expectations_free(&run->expected);
  return status;
}

/* Whether results.jsonl can be written there; says why not. */
static bool can_write(const char *folder) {
  char path[4200];
  snprintf(path, sizeof path, "%s/results.jsonl", folder);
  keel_save save;
  bool good = keel_save_begin(&save, path, 0666);
  if (!good)
    fprintf(stderr, "keel-conformance: %s can't be written: %s\n", path,
            strerror(errno));
  else
    keel_save_end(&save, false);
  return good;
}

static int run_all(const kc_options *asked, kc_results *results) {
  static kc_running run;
  static kc_options own, *options = &own;
  kc_facts facts;
  own = *asked;
  memset(&run, 0, sizeof run);
  run.options = options;
  run.results = results;
  run.tty = isatty(2) != 0;
  run.jobs = options->jobs ? options->jobs : 2;
  if (run.jobs > KC_JOBS) run.jobs = KC_JOBS;
  run.began = kc_now();
  if (options->expectations &&
      !kc_expectations_read(options->expectations, &run.expected)) {
    return end_with(&run, KC_EXIT_USAGE);
  }
  if (!kc_globs_match(options)) return end_with(&run, KC_EXIT_USAGE);
  if (options->out && !can_write(options->out)) {
    if (!options->remembers) return end_with(&run, KC_EXIT_USAGE);
    own.out = NULL; /* nowhere to remember the run: that is all */
  }
  kc_probe(options, &facts);
  if (interrupted) return end_with(&run, 128 + interrupted);
  kc_describe(&run, &facts);
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
  kc_plan(&run, &facts);
  kc_progress_plan(&run);
  own.soak = soak_share(&run);
  if (!kc_scratch_make(own.cache)) return KC_EXIT_SUITE;
  run.late = calloc(results->rule_count + 1, sizeof(kc_rule_result *));
  run_part(&run, false);
  run_part(&run, true);
  try_late(&run);
  kc_progress_clear(&run);
  kc_scratch_remove(own.cache);
  if (interrupted) {
    for (uint32_t i = 0; i < results->rule_count; i++)
      if (results->rules[i].judged) write_rule(&run, &results->rules[i]);
    kc_results_keep(results);
    fprintf(stderr, "keel-conformance: interrupted at rule %u of %u%s%s\n",
            run.finished, results->rule_count,
            options->out ? "; what ran is in " : "",
            options->out ? options->out : "");
    return end_with(&run, 128 + interrupted);
  }
  finish_rest(&run);
  kc_results_order(results);
  results->time = kc_now() - run.began;
  kc_results_end(results);
  return end_with(&run, verdict(&run, &facts));
}

int kc_run_all(const kc_options *asked, kc_results *results) {
  struct sigaction before[OURS];
  sigset_t mask;
  take_signals(before, &mask);
  int status = run_all(asked, results);
  give_signals(before, &mask);
  return status;
}
