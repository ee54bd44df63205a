/* progress.c - how far a run is, and about how long it takes still: by what each rule took in
 * the plugin's last run, where there was one. */
#include "runner/running.h"
#include "suite/suite.h"
/**/
#include "suite/channel.h"

#define EACH 0.3 /* seconds of a rule that was never run */

static bool is_done(const kc_rule_result *rule) {
  return rule->judged || rule->written;
}

/* A rule that runs alone keeps all jobs from going on. */
static double weight_of(const kc_running *run, const kc_rule_result *rule) {
  const kc_results *last = run->options->last;
  const kc_rule_result *then = last ? kc_results_rule(last, rule->id) : NULL;
  uint32_t flags = rule->rule ? rule->rule->flags : 0;
  if (flags & KC_WATCHED) return 0;
  double time = then && then->time ? (double)then->time / 1e9 : EACH;
  return flags & KC_ALONE ? time * run->jobs : time;
}

void kc_progress_plan(kc_running *run) {
  for (uint32_t i = 0; i < run->results->rule_count; i++) {
    kc_rule_result *rule = &run->results->rules[i];
    rule->weight = is_done(rule) ? 0 : weight_of(run, rule);
  }
}

double kc_progress_left(const kc_running *run, double spent) {
  double done = 0, all = 0;
  for (uint32_t i = 0; i < run->results->rule_count; i++) {
    const kc_rule_result *rule = &run->results->rules[i];
    all += rule->weight;
    done += is_done(rule) ? rule->weight : 0;
  }
  double planned = all / (run->jobs ? run->jobs : 1);
  if (all <= 0) return 0;
  /* at first what the last run took, more and more what this one takes */
  double part = done / all, each = done > 0 ? spent / done : 0;
  return (all - done) * (part * each + (1 - part) * (planned / all));
}

static uint32_t failures(const kc_results *results) {
  uint32_t failed = 0;
  for (uint32_t i = 0; i < results->rule_count; i++)
    failed +=
        results->rules[i].judged && kc_status_failed(results->rules[i].status);
  return failed;
}

/* Where nothing can be written again: a line a minute. */
static void show_line(kc_running *run, double spent, double left) {
  if (run->shown - run->told < 60 * KC_S) return;
  run->told = run->shown;
  fprintf(stderr, "%u of %u rules, %u failed, %.0f min, about %.0f min left\n",
          run->finished, run->results->rule_count, failures(run->results),
          spent / 60, left / 60 + 0.5);
}

void kc_progress_show(kc_running *run) {
  const char *name = "";
  char bar[21] = {0};
  if (run->options->quiet || kc_now() - run->shown < KC_S / 10) return;
  run->shown = kc_now();
  if (!run->told) run->told = run->began;
  double spent = (double)(run->shown - run->began) / 1e9;
  double left = kc_progress_left(run, spent);
  if (!run->tty) {
    show_line(run, spent, left);
    return;
  }
  for (uint32_t i = 0; i < run->jobs; i++)
    if (run->children[i].pid)
      name = run->children[i].page->name[0] ? run->children[i].page->name
                                            : run->children[i].rule->id;
  for (uint32_t i = 0; i < 20; i++)
    bar[i] = spent + left > 0 && i < 20 * spent / (spent + left) ? '=' : ' ';
  fprintf(
      stderr,
      "\r[%s] %u/%u, %u failed, %02d:%02d, about %02d:%02d left  %.40s\x1b[K",
      bar, run->finished, run->results->rule_count, failures(run->results),
      (int)spent / 60, (int)spent % 60, (int)left / 60, (int)left % 60, name);
  fflush(stderr);
}

void kc_progress_clear(const kc_running *run) {
  if (run->tty && !run->options->quiet) fprintf(stderr, "\r\x1b[K");
}
