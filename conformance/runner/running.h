/* running.h - a run while it goes on: what the files that make it up share. */
#ifndef KC_RUNNING_H
#define KC_RUNNING_H

#include "runner/run.h"

#define KC_JOBS 16u

typedef struct kc_running {
  const kc_options *options;
  kc_results *results;
  kc_expectations expected;
  kc_child children[KC_JOBS];
  uint32_t jobs, finished, running;
  kc_rule_result *
      *late; /* have a case to be run again when nothing else runs */
  uint32_t late_count,
      excused; /* cases that missed a deadline by others' doing */
  bool tty;
  uint64_t began, shown, told;
} kc_running;

/* Fills the results with the rules that are chosen; those that don't apply are done. plan.c */
void kc_plan(kc_running *run, const kc_facts *facts);
/* What is known before any rule runs: plugin, machine, suite. */
void kc_describe(const kc_running *run, const kc_facts *facts);

/* Weighs the rules that are to run. progress.c */
void kc_progress_plan(kc_running *run);
/* About how many seconds it takes still. */
double kc_progress_left(const kc_running *run, double spent);
/* How far it is: on a terminal a line that is written again and again, else one a minute. */
void kc_progress_show(kc_running *run);
void kc_progress_clear(const kc_running *run);

/* Whether it was asked to end. run.c */
bool kc_interrupted(void);

/* Writes down what became of a child, in the case that it happened to. end.c */
void kc_note_end(kc_child *child, int status);
void kc_note_hang(const kc_running *run, kc_child *child, const char *text);
void kc_note_flood(kc_child *child);

/* Looks after a child's deadlines, and ends one that is past them. deadline.c */
void kc_check_deadline(const kc_running *run, kc_child *child);

/* Runs failed cases three times more: how often they fail. again.c */
void kc_run_again(kc_running *run, kc_rule_result *rule);
/* Whether a case missed a deadline, which is tried again before it counts. */
bool kc_is_late(const kc_rule_result *rule);
/* Runs such cases again; nothing else may run. What ends then has missed nothing. */
void kc_run_alone(kc_running *run, kc_rule_result *rule);

#endif /* KC_RUNNING_H */
