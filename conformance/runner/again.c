/* again.c - what failed is run again: how often does it fail, and does a case that missed a
 * deadline miss it when nothing else runs? */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "runner/running.h"
#include "suite/suite.h"

/* False where the run was interrupted. */
static bool wait_child(kc_running *run, kc_child *child, int *out_status) {
  while (!kc_child_ended(child, out_status)) {
    struct pollfd fds[2];
    if (kc_interrupted()) {
      kc_child_kill(child);
      waitpid(child->pid, NULL, 0);
      return false;
    }
    kc_child_poll(child, fds);
    poll(fds, 2, 20);
    kc_child_read(child, NULL);
    kc_check_deadline(run, child);
    kc_progress_show(run);
  }
  kc_child_read(child, NULL);
  return true;
}

static void free_cases(kc_rule_result *of) {
  for (uint32_t i = 0; i < of->case_count; i++) {
    free(of->cases[i].name);
    free(of->cases[i].message);
    free(of->cases[i].note);
    free(of->cases[i].detail);
  }
  free(of->cases);
}

/* One case in a child of its own, or with NULL the whole rule. False where no child could be
 * started, or the run was interrupted; else its cases are the caller's to free. */
static bool once_more(kc_running *run, const kc_rule_result *rule,
                      const char *only, kc_rule_result *out_again,
                      bool *out_failed) {
  kc_child child = {0};
  int status = 0;
  *out_again = (kc_rule_result){.id = rule->id, .rule = rule->rule};
  if (!kc_child_start(&child, run->options, rule->rule, out_again, 0, only,
                      run->results->factor))
    return false;
  bool ended = wait_child(run, &child, &status);
  kc_child_report(&child);
  *out_failed = !child.done || child.hung || child.garbage ||
                !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  for (uint32_t c = 0; c < out_again->case_count; c++)
    *out_failed |= kc_status_failed(out_again->cases[c].status);
  kc_child_close(&child);
  if (!ended) free_cases(out_again);
  return ended;
}

/* Three more runs tell a flake from a failure; both stay failures. */
void kc_run_again(kc_running *run, kc_rule_result *rule) {
  uint32_t tried = 0;
  for (uint32_t i = 0; i < rule->case_count && tried < 2; i++) {
    kc_case_result *one = &rule->cases[i];
    if (one->status != KC_FAIL || one->late || strstr(one->name, "/during=") ||
        kc_is_no_case(rule, one->name))
      continue;
    tried++;
    one->runs = one->failed_runs = 1;
    for (int k = 0; k < 3; k++) {
      kc_rule_result again;
      bool failed = false;
      if (!once_more(run, rule, one->name, &again, &failed)) return;
      free_cases(&again);
      one->runs++;
      one->failed_runs += failed;
    }
    if (one->failed_runs < one->runs)
      kc_text_more(&one->message, "flaky: failed %u of %u runs",
                   one->failed_runs, one->runs);
  }
}

/* ---- deadlines --------------------------------------------------------------------- */

/* tasks a processor: more than the suite's own jobs make */
#define BUSY  3.0
#define TRIES 3

/* Whether others may be why it was late: a failed check or an idle machine is not excused. */
static bool missed(const kc_case_result *one) {
  return (one->status == KC_HANG || (one->status == KC_FAIL && one->late)) &&
         !one->failed && one->load >= BUSY;
}

bool kc_is_late(const kc_rule_result *rule) {
  for (uint32_t i = 0; i < rule->case_count; i++)
    if (missed(&rule->cases[i])) return true;
  return false;
}

/* It is as it ended alone; what was missed becomes a note. */
static void take_over(kc_case_result *one, const kc_case_result *now) {
  char *before = one->message;
  one->message = NULL;
  if (before)
    kc_text_more(&one->note, "ended when it ran alone; beside others: %s",
                 before);
  free(before);
  free(one->detail);
  one->detail = NULL;
  one->status = now->status;
  one->checks = now->checks;
  one->time = now->time;
  one->late = false;
  if (now->message) kc_text_set(&one->message, "%s", now->message);
  if (now->note) kc_text_more(&one->note, "%s", now->note);
}

/* The result of a run alone of that name; NULL: there is none. */
static const kc_case_result *found(const kc_rule_result *again,
                                   const char *name) {
  for (uint32_t c = 0; c < again->case_count; c++)
    if (!strcmp(again->cases[c].name, name)) return &again->cases[c];
  return NULL;
}

static void drop_case(kc_rule_result *rule, uint32_t index) {
  kc_rule_result one = {.cases = malloc(sizeof *one.cases), .case_count = 1};
  if (!one.cases) return;
  one.cases[0] = rule->cases[index];
  free_cases(&one);
  rule->case_count--;
  memmove(rule->cases + index, rule->cases + index + 1,
          (rule->case_count - index) * sizeof *rule->cases);
}

/* The whole rule ran alone: its cases are those of that run. */
static void take_all(kc_rule_result *rule, const kc_rule_result *again) {
  for (uint32_t i = rule->case_count; i-- > 0;)
    if (kc_is_no_case(rule, rule->cases[i].name) &&
        !found(again, rule->cases[i].name))
      drop_case(rule, i);
  for (uint32_t c = 0; c < again->case_count; c++)
    take_over(kc_results_case(rule, again->cases[c].name), &again->cases[c]);
  rule->cut = false;
}

/* Whether a case, or with NULL the rule, ends well in each of some runs alone; *out_ran: false
 * where it could not be tried. The last run's cases are the caller's to free. */
static bool ends_alone(kc_running *run, const kc_rule_result *rule,
                       const char *only, kc_rule_result *out_again,
                       bool *out_ran) {
  bool failed = false;
  for (int i = 0; i < TRIES && !failed; i++) {
    if (i) free_cases(out_again);
    *out_ran = once_more(run, rule, only, out_again, &failed);
    if (!*out_ran) return false;
  }
  return !failed;
}

/* One case that was late; false where all that there is to do is done. */
static bool try_case(kc_running *run, kc_rule_result *rule, uint32_t index) {
  kc_case_result *one = &rule->cases[index];
  kc_rule_result again;
  bool ran = false;
  bool whole = rule->cut || kc_is_no_case(rule, one->name);
  bool good = ends_alone(run, rule, whole ? NULL : one->name, &again, &ran);
  if (!ran) return false;
  const kc_case_result *now = whole ? NULL : found(&again, one->name);
  good &= whole ? again.case_count > 0 : now != NULL;
  if (!good)
    kc_text_more(&one->message, "it failed again when nothing else ran");
  else if (whole)
    take_all(rule, &again);
  else
    take_over(one, now);
  if (good) {
    kc_progress_clear(run);
    fprintf(stderr,
            "LATE %s: a deadline was missed while the machine was busy; alone"
            " it ended well %d times\n",
            whole ? rule->id : now->name, TRIES);
  }
  free_cases(&again);
  return good && !whole;
}

void kc_run_alone(kc_running *run, kc_rule_result *rule) {
  for (uint32_t i = 0; i < rule->case_count; i++)
    if (missed(&rule->cases[i]) && !try_case(run, rule, i)) return;
}
