/* run.h - running rules in children, and what became of them. */
#ifndef KC_RUN_ALL_H
#define KC_RUN_ALL_H

#include "runner/results.h"

/* What a run is asked for. */
#define KC_GLOBS 512 /* more than there are rules */

typedef struct kc_options {
  char plugin[4096]; /* absolute path; "": none */
  uint32_t device;
  int level; /* highest to test; -1: all that is claimed */
  const char *globs[KC_GLOBS], *not_globs[KC_GLOBS];
  uint32_t glob_count, not_count;
  const char *only; /* a case */
  const char *op, *dtype, *dump;
  const char *plugin_options[32];
  uint32_t plugin_option_count;
  const char *expectations;
  const char *out; /* folder of results.jsonl and reports */
  bool remembers;  /* it is the one of last runs, and may be none */
  const char *reports[16];
  uint32_t report_count;
  uint64_t seed, max_memory, soak; /* soak: in all; see kc_child_start */
  uint32_t jobs, shard, shards;
  double time_scale; /* of deadlines */
  bool quick, in_process, quiet, no_reruns, verbose;
  bool by_area; /* one child for the rules of an area */
  const kc_results
      *last;       /* run of the plugin: how long things take; NULL: none */
  char cache[256]; /* where a driver keeps what it compiled: one for a run */
} kc_options;

/* An expected failure. */
typedef struct kc_expectation {
  char *name, *reason, *link, *expires;
  bool expired, seen;
} kc_expectation;

typedef struct kc_expectations {
  kc_expectation *all;
  uint32_t count;
} kc_expectations;

/* Reads a file of expectations; false with messages on stderr. */
bool kc_expectations_read(const char *path, kc_expectations *out);
kc_expectation *kc_expectations_find(const kc_expectations *all,
                                     const char *name);
void kc_expectations_free(kc_expectations *all);

/* Sets a rule's status, checks and failed cases from its cases: an expected failure
 * is none, an unexpected pass is one, and no check at all is an error. */
void kc_judge(const kc_expectations *expectations, kc_rule_result *rule);

/* Whether an id is chosen by the globs. */
bool kc_chosen(const kc_options *options, const kc_rule *rule);

/* Whether each glob is like a rule's id; says which is not. */
bool kc_globs_match(const kc_options *options);

/* Facts of the plugin, by a child of its own. */
typedef struct kc_facts {
  bool loaded, open;
  char why[1200];
  char name[64], vendor[128], version[64], device[160];
  uint32_t abi_version, abi_min, device_count, claims; /* bit i: kc_level i */
  double factor;
} kc_facts;
void kc_probe(const kc_options *options, kc_facts *out_facts);

/* The exit statuses. */
enum {
  KC_EXIT_CONFORMANT = 0,
  KC_EXIT_NOT = 1,
  KC_EXIT_USAGE = 2,
  KC_EXIT_NOT_LOADABLE = 3,
  KC_EXIT_NOTHING = 4,
  KC_EXIT_SUITE = 5,
  KC_EXIT_STALE = 6,
};

/* Runs all that is chosen; results are filled, and results.jsonl written where
 * asked->out is set. Returns an exit status. */
int kc_run_all(const kc_options *asked, kc_results *results);

/* Runs what is chosen in this process, and prints what happens. Returns the exit
 * status. */
int kc_in_process(const kc_options *options);

/* ---- children ------------------------------------------------------------------- */

#define KC_QUEUE 48u /* rules of a child, at most */

/* A sanitizer's report, out of what a child prints: its first, without the shadow memory. */
typedef struct kc_report {
  const char *nonce; /* that marks have; NULL: none is sent */
  char line[400], text[6000];
  char at[300]; /* the case that ran; "": none */
  uint32_t line_size;
  uint64_t strange; /* bytes of marks that the suite did not send */
  bool in_mark, begun, whole, noted; /* noted: a case has it */
} kc_report;

/* What counts for a child's deadlines, in ns: wall time over the machine's load, and a tenth
 * of the suite's own work. */
typedef struct kc_clock {
  uint64_t looked, sign;   /* the last look, the last sign of life */
  uint64_t beat, computed; /* what was there at the last look */
  double silent, spent;    /* since that sign, since the case began */
} kc_clock;

typedef struct kc_child {
  int pid; /* 0: free */
  int events, output;
  struct kc_page *page;
  const kc_rule *rule;
  kc_rule_result *result;
  kc_case_result *now; /* the case that runs */
  uint64_t began, case_began;
  kc_clock clock;
  char line[4096];
  uint32_t line_size;
  bool overlong;
  uint64_t garbage, flood;         /* bytes */
  bool events_ended, output_ended; /* it has closed its end */
  char said[2048];                 /* the last that it printed */
  kc_report report;
  bool done, stopped, hung;
  uint32_t stop_at, cases;
  uint32_t crashes, restarts;
  char scratch[256];
  /* --group area: what it is to run behind `result`, and what it has run */
  kc_rule_result *queue[KC_QUEUE], *past[KC_QUEUE];
  uint32_t queue_count, past_count;
} kc_child;

/* Starts a child for a rule, from a case on, and for the child's queue. only: one
 * case, or NULL. options->soak is the time of this rule. */
bool kc_child_start(kc_child *child, const kc_options *options,
                    const kc_rule *rule, kc_rule_result *result, uint32_t from,
                    const char *only, double factor);
/* Reads what it sent. `all` gets what belongs to other rules. */
void kc_child_read(kc_child *child, kc_results *all);
/* What to poll for: its two pipes, but for those that have ended. */
struct pollfd;
void kc_child_poll(const kc_child *child, struct pollfd *out);
/* The case that ran gets the sanitizer's report, if there is one that no case has. */
void kc_child_report(kc_child *child);
/* The rule that runs has ended: its time, and what it printed. */
void kc_child_leave_rule(kc_child *child, kc_results *all);
/* Whether it has ended; never blocks. */
bool kc_child_ended(const kc_child *child, int *out_status);
/* Looks through what was printed for a report, and takes the child's marks out: returns what
 * size is left. sanitizer.c */
size_t kc_report_read(kc_report *report, char *text, size_t size);
/* Adds what it found and where, in a line; false where there is no report. */
bool kc_report_says(const kc_report *report, char **out_text);
/* Moves its clock on, and lets it know how patient to be: the load, and `scale` from 1 on. */
void kc_clock_look(kc_child *child, double scale);
/* Tasks that want to run for each processor, over some seconds; from 1 on. deadline.c */
double kc_load_of_machine(void);
/* Kills it and its group. */
void kc_child_kill(kc_child *child);
/* Its stacks, for a hang. */
void kc_child_stacks(kc_child *child, char **text);
/* After its end: closes, cleans up. */
void kc_child_close(kc_child *child);

#endif /* KC_RUN_ALL_H */
