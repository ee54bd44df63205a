/* scheduler.c - the scheduler: measures serial and parallel runs, and chooses between
 * them. */
#include "threads/scheduler.h"

enum {
  /* serial runs before the first trial; the last one times each step */
  FIRST = 3,
  TRIAL = 3,    /* runs in the other mode, of which the fastest counts */
  OUTLIERS = 2, /* consecutive runs before a change is believed */
  /* runs before an unprompted trial, after a change */
  TRIAL_INTERVAL = 64,
  MAX_TRIAL_INTERVAL = 512 /* the same after trials that found nothing */
};

/* Nanoseconds. */
#define MIN_STEP_TIME \
  60 /* the least mean time of a step that makes a parallel run worth trying */
#define MIN_RUN_TIME  10000 /* the least time of a run that does */
#define GRAIN_TIME    16000 /* the work that a thread takes at a time */
#define SAMPLE_PERIOD 4000  /* the time between two timed runs */
#define MAX_UNTIMED   16    /* the most runs between two timed ones */

/* Time must pass before the next trial: the loss of the last one times the first factor if
 * a change of less than twofold prompts it, times the second if nothing does. */
#define PROMPTED_FACTOR   20
#define UNPROMPTED_FACTOR 200

/* Prefers serial runs: other threads may have better work, and near ties must not
 * alternate. */
static bool is_quicker(keel_run_mode mode, uint64_t time, uint64_t other) {
  return mode == KEEL_PARALLEL ? time * 10 < other * 9 : time * 20 < other * 21;
}

static keel_run_mode other_mode(keel_run_mode mode) {
  return mode == KEEL_SERIAL ? KEEL_PARALLEL : KEEL_SERIAL;
}

static uint64_t lesser(uint64_t a, uint64_t b) {
  return !a || b < a ? b : a;
}

static void store_relaxed(_Atomic uint32_t *to, uint64_t value) {
  atomic_store_explicit(to, value < UINT32_MAX ? (uint32_t)value : UINT32_MAX,
                        memory_order_relaxed);
}

static uint32_t load_relaxed(const _Atomic uint32_t *at) {
  return atomic_load_explicit(at, memory_order_relaxed);
}

keel_schedule keel_scheduler_next(keel_scheduler *scheduler) {
  uint32_t untimed = load_relaxed(&scheduler->untimed);
  keel_schedule next = {.mode = (keel_run_mode)load_relaxed(&scheduler->mode)};
  /* concurrent runs may lose a decrement */
  if (untimed) store_relaxed(&scheduler->untimed, untimed - 1);
  next.timed = !untimed && !scheduler->fixed;
  next.steps = next.timed && load_relaxed(&scheduler->known) == FIRST - 1;
  return next;
}

/* Chooses a mode whose runs take `time`. */
static void scheduler_settle(keel_scheduler *scheduler, keel_run_mode mode,
                             uint64_t time) {
  store_relaxed(&scheduler->mode, mode);
  scheduler->chosen = mode;
  scheduler->usual = time;
  scheduler->trying = false;
  scheduler->outliers = scheduler->settled = 0;
  scheduler->spent = 0;
}

static void begin_trial(keel_scheduler *scheduler) {
  store_relaxed(&scheduler->mode, other_mode(scheduler->chosen));
  scheduler->trying = true;
  scheduler->tried = 0;
  scheduler->least = scheduler->lost = 0;
}

static void note_trial(keel_scheduler *scheduler, uint64_t time) {
  keel_run_mode mode = other_mode(scheduler->chosen);
  bool asked = scheduler->outliers >= OUTLIERS;
  scheduler->least = lesser(scheduler->least, time);
  if (time > scheduler->now) scheduler->lost += time - scheduler->now;
  if (++scheduler->tried < TRIAL && time < scheduler->now * 2) return;
  bool better = is_quicker(mode, scheduler->least, scheduler->now);
  scheduler->trial_interval = better || asked ? TRIAL_INTERVAL
                              : scheduler->trial_interval < MAX_TRIAL_INTERVAL
                                  ? scheduler->trial_interval * 2
                                  : scheduler->trial_interval;
  if (better) {
    scheduler->lost = 0;
    scheduler->now = scheduler->last = scheduler->least;
  }
  scheduler_settle(scheduler, better ? mode : scheduler->chosen,
                   scheduler->now);
}

/* Whether a parallel run may pay off: with tiny steps it would be slower, and the trial
 * itself would cost more than it is worth. */
static bool may_pay_off(const keel_scheduler *scheduler, uint32_t steps) {
  return scheduler->chosen == KEEL_PARALLEL ||
         (scheduler->now >= MIN_RUN_TIME &&
          scheduler->now / steps >= MIN_STEP_TIME);
}

/* Whether to try the other mode: serial if parallel runs have become faster, parallel if
 * serial runs have become slower, and now and then unprompted. */
static bool wants_trial(const keel_scheduler *scheduler) {
  uint64_t now = scheduler->now, usual = scheduler->usual;
  bool shared = scheduler->chosen == KEEL_PARALLEL;
  if (scheduler->outliers >= OUTLIERS && (shared ? now < usual : now > usual))
    return (shared ? now * 2 < usual : now > usual * 2) ||
           scheduler->spent >= scheduler->lost * PROMPTED_FACTOR;
  return scheduler->settled >= scheduler->trial_interval &&
         scheduler->spent >= scheduler->lost * UNPROMPTED_FACTOR;
}

/* Notes a run in the chosen mode. */
static void note_chosen(keel_scheduler *scheduler, uint64_t time,
                        uint32_t steps) {
  bool outlier =
      time * 4 > scheduler->usual * 5 || time * 5 < scheduler->usual * 4;
  scheduler->now = lesser(scheduler->last, time);
  scheduler->last = time;
  scheduler->outliers = outlier ? scheduler->outliers + 1 : 0;
  scheduler->settled++;
  scheduler->spent += time * scheduler->interval;
  if (may_pay_off(scheduler, steps) && wants_trial(scheduler)) {
    begin_trial(scheduler);
  } else if (scheduler->outliers >=
             OUTLIERS + 1) { /* this is the usual time now */
    scheduler->usual = scheduler->now;
    scheduler->outliers = 0;
    scheduler->trial_interval = TRIAL_INTERVAL;
  }
}

static void note_first(keel_scheduler *scheduler, uint64_t time,
                       uint32_t steps) {
  uint32_t known = load_relaxed(&scheduler->known) + 1;
  store_relaxed(&scheduler->known, known);
  scheduler->now = lesser(scheduler->now, time);
  scheduler->last = time;
  if (known < FIRST) return;
  scheduler->trial_interval = TRIAL_INTERVAL;
  scheduler_settle(scheduler, KEEL_SERIAL, scheduler->now);
  if (may_pay_off(scheduler, steps)) begin_trial(scheduler);
}

/* Processes a measured time; one thread at a time. */
static void scheduler_note(keel_scheduler *scheduler, keel_run_mode mode,
                           uint64_t time, uint32_t steps, uint32_t threads) {
  bool first = load_relaxed(&scheduler->known) < FIRST;
  if (mode !=
      (scheduler->trying ? other_mode(scheduler->chosen) : scheduler->chosen))
    return; /* it started before the last change of mode */
  if (first)
    note_first(scheduler, time, steps);
  else if (scheduler->trying)
    note_trial(scheduler, time);
  else
    note_chosen(scheduler, time, steps);
  bool stable = !first && !scheduler->trying && !scheduler->outliers;
  uint64_t between = stable ? SAMPLE_PERIOD / (time + 1) : 0;
  scheduler->interval =
      (uint32_t)(between < MAX_UNTIMED ? between : MAX_UNTIMED) + 1;
  store_relaxed(&scheduler->untimed, scheduler->interval - 1);
  store_relaxed(&scheduler->cost,
                time * (mode == KEEL_PARALLEL ? threads : 1) / steps);
}

void keel_scheduler_note(keel_scheduler *scheduler, keel_run_mode mode,
                         uint64_t time, uint32_t steps, uint32_t threads) {
  /* acquire and release on `busy`: they guard the fields that are not atomic */
  if (atomic_exchange_explicit(&scheduler->busy, true, memory_order_acquire))
    return;
  scheduler_note(scheduler, mode, time, steps, threads);
  atomic_store_explicit(&scheduler->busy, false, memory_order_release);
}

uint32_t keel_scheduler_grain(const keel_scheduler *scheduler) {
  uint32_t cost = load_relaxed(&scheduler->cost);
  return GRAIN_TIME / (cost ? cost : 1) + 1;
}

void keel_scheduler_fix(keel_scheduler *scheduler, keel_run_mode mode) {
  store_relaxed(&scheduler->mode, mode);
  scheduler->fixed = true;
}
