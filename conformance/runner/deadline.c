/* deadline.c - deadlines count the plugin's time: not what other processes take, and little of
 * what the suite itself computes. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/running.h"
#include "suite/suite.h"
/**/
#include "suite/channel.h"

#define QUIET_LIMIT (10 * KC_S)
#define CASE_LIMIT  (120 * KC_S)
#define FLOOD       (UINT64_C(64) << 20)

#define LOOK     (100 * KC_MS) /* between two looks */
#define OWN_WORK 0.1  /* of the time in which the suite itself computes */
#define MOST     16.0 /* of a load; a plugin's own threads make one, too */

/* ---- the machine's load ------------------------------------------------------------- */

/* The tasks that are running or wait for a processor, this one not counted; -1: not known. */
static double runnable(void) {
  char text[128] = "";
  FILE *file = fopen("/proc/loadavg", "re");
  if (!file) return -1;
  bool read = fgets(text, sizeof text, file) != NULL;
  fclose(file);
  char *slash = read ? strchr(text, '/') : NULL;
  if (!slash) return -1;
  while (slash > text && slash[-1] != ' ')
    slash--;
  return strtod(slash, NULL) - 1;
}

double kc_load_of_machine(void) {
  static double load = 1;
  static uint64_t looked;
  uint64_t now = kc_now();
  if (looked && now - looked < LOOK) return load > 1 ? load : 1;
  cpu_set_t own; /* that this process may use */
  long processors = sched_getaffinity(0, sizeof own, &own) == 0
                        ? CPU_COUNT(&own)
                        : sysconf(_SC_NPROCESSORS_ONLN);
  double tasks = runnable(), of_three = (double)(now - looked) / (3.0 * KC_S);
  looked = now;
  if (tasks < 0 || processors < 1) return 1;
  load += (tasks / (double)processors - load) * (of_three < 1 ? of_three : 1);
  if (load > MOST) load = MOST;
  return load > 1 ? load : 1;
}

/* ---- a child's clock -------------------------------------------------------------- */

/* The processor time of the child's first thread; 0: not known. */
static uint64_t computed(const kc_child *child) {
  char path[80], text[80] = "";
  snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", child->pid,
           child->pid);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  if (!fgets(text, sizeof text, file)) text[0] = 0;
  fclose(file);
  return strtoull(text, NULL, 10);
}

static bool is_in_plugin(const kc_page *page) {
  for (uint32_t i = 0; i < KC_CALLERS; i++)
    if (atomic_load(&page->in[i])) return true;
  return false;
}

/* Whether the suite itself has computed since the last look: a reference, or data. */
static bool works_itself(kc_child *child, uint64_t passed) {
  kc_clock *clock = &child->clock;
  uint64_t before = clock->computed;
  clock->computed = computed(child);
  return !child->done && before && !is_in_plugin(child->page) &&
         clock->computed - before > passed / 20;
}

void kc_clock_look(kc_child *child, double scale) {
  kc_clock *clock = &child->clock;
  uint64_t now = kc_now(), beat = atomic_load(&child->page->beat);
  uint64_t passed = now - clock->looked;
  double load = kc_load_of_machine(), most = scale > 1 ? scale : 1;
  atomic_store(&child->page->patience, (uint32_t)(1000 * load * most));
  if (passed < LOOK) return;
  clock->looked = now;
  if (passed > 5 * LOOK) passed = 5 * LOOK; /* the runner was away */
  double counts =
      (double)passed / load * (works_itself(child, passed) ? OWN_WORK : 1);
  clock->spent += counts;
  clock->silent += counts;
  if (beat == clock->beat) return;
  clock->beat = beat;
  clock->silent = 0;
  clock->sign = now;
}

/* ---- deadlines ---------------------------------------------------------------------- */

static void hang(const kc_running *run, kc_child *child, const char *what,
                 uint64_t since, double limit) {
  char text[300];
  double load = kc_load_of_machine();
  snprintf(text, sizeof text,
           "%s %.0f s (%.0f s are the limit at %.1f tasks a processor); where"
           " the plugin is only slow, --time-scale %.0f gives it more time",
           what, (double)(kc_now() - since) / 1e9, limit / 1e9 * load, load,
           run->options->time_scale < 1 ? 4 : 4 * run->options->time_scale);
  kc_note_hang(run, child, text);
  kc_child_kill(child);
}

void kc_check_deadline(const kc_running *run, kc_child *child) {
  double scale = run->options->time_scale * run->results->factor;
  double quiet = (double)QUIET_LIMIT * scale;
  double most = (double)(CASE_LIMIT + run->options->soak) * scale;
  if (child->hung) return;
  kc_clock_look(child, run->options->time_scale);
  if (child->flood > FLOOD || child->garbage > (1 << 20)) {
    kc_note_flood(child);
    kc_child_kill(child);
  } else if (child->clock.silent > quiet) {
    hang(run, child, "no sign of life for", child->clock.sign, quiet);
  } else if (child->clock.spent > most) {
    hang(run, child, "the case had not ended after", child->case_began, most);
  }
}
