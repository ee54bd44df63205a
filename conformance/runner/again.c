/* again.c - what failed is run again: how often does it fail, and does a case that missed a
 * deadline miss it when nothing else runs? */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "runner/running.h"
#include "suite/suite.h"

static void wait_child(kc_running *run, kc_child *child, int *out_status) {
  while (!kc_child_ended(child, out_status)) {
    struct pollfd fds[2] = {{child->events, POLLIN, 0},
                            {child->output, POLLIN, 0}};
    poll(fds, 2, 20);
    kc_child_read(child, NULL);
    kc_check_deadline(run, child);
    kc_progress_show(run);
  }
  kc_child_read(child, NULL);
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
 * started; its cases are the caller's to free. */
static bool once_more(kc_running *run, const kc_rule_result *rule,
                      const char *only, kc_rule_result *out_again,
                      bool *out_failed) {
  kc_child child = {0};
  int status = 0;
  *out_again = (kc_rule_result){.id = rule->id, .rule = rule->rule};
  if (!kc_child_start(&child, run->options, rule->rule, out_again, 0, only,
                      run->results->factor))
    return false;
  wait_child(run, &child, &status);
  *out_failed = !child.done || child.hung || !WIFEXITED(status);
  for (uint32_t c = 0; c < out_again->case_count; c++)
    *out_failed |= kc_status_failed(out_again->cases[c].status);
  kc_child_close(&child);
  return true;
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

static bool missed(const kc_case_result *one) {
  return one->status == KC_HANG || (one->status == KC_FAIL && one->late);
}

bool kc_is_late(const kc_rule_result *rule) {
  for (uint32_t i = 0; i < rule->case_count; i++)
    if (missed(&rule->cases[i])) return true;
  return false;
}

/* It is as it ended alone; what was missed becomes a note. */
static void take_over(kc_case_result *one, kc_rule_result *again) {
  kc_text_more(&one->note, "ended when it ran alone; beside others: %s",
               one->message ? one->message : "late");
  kc_text_set(&one->message, "%s", "");
  free(one->detail);
  one->detail = NULL;
  one->status = KC_PASS;
  one->late = false;
  for (uint32_t c = 0; c < again->case_count; c++) {
    const kc_case_result *now = &again->cases[c];
    if (strcmp(now->name, one->name) != 0) continue;
    one->status = now->status;
    one->checks = now->checks;
    one->time = now->time;
    if (now->message) kc_text_set(&one->message, "%s", now->message);
    if (now->note) kc_text_more(&one->note, "%s", now->note);
  }
}

void kc_run_alone(kc_running *run, kc_rule_result *rule) {
  for (uint32_t i = 0; i < rule->case_count; i++) {
    kc_case_result *one = &rule->cases[i];
    kc_rule_result again;
    bool failed = false;
    if (!missed(one)) continue;
    const char *only = kc_is_no_case(rule, one->name) ? NULL : one->name;
    if (!once_more(run, rule, only, &again, &failed)) return;
    one->runs = 2;
    one->failed_runs = 1 + failed;
    if (failed)
      kc_text_more(&one->message, "it failed again when nothing else ran");
    else
      take_over(one, &again);
    free_cases(&again);
    if (failed) return; /* the others will, too */
  }
}
