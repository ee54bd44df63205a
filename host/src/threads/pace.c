/* pace.c - the scheduler: measures serial and parallel runs, and chooses between them. */
#include "threads/pace.h"

enum {
  /* serial runs before the first trial; the last one times each step */
  FIRST = 3,
  TRIAL = 3,   /* runs in the other mode, of which the fastest counts */
  STRANGE = 2, /* consecutive runs before a change is believed */
  /* runs before an unprompted trial, after a change */
  PATIENCE = 64,
  MOST_PATIENCE = 512 /* the same after trials that found nothing */
};

/* Nanoseconds. */
#define WORTH_HANDING \
  60 /* the least mean time of a step that makes a parallel run worth trying */
#define WORTH_A_THREAD 10000 /* the least time of a run that does */
#define PIECE          16000 /* the work that a thread takes at a time */
#define LOOKED_AT      4000  /* the time between two timed runs */
#define LOOKS          16    /* the most runs between two timed ones */

/* Time must pass before the next trial: the loss of the last one times the first factor if
 * a change of less than twofold prompts it, times the second if nothing does. */
#define ASKED_FOR     20
#define NOT_ASKED_FOR 200

/* Prefers serial runs: other threads may have better work, and near ties must not
 * alternate. */
static bool is_quicker(keel_way way, uint64_t time, uint64_t other) {
  return way == KEEL_SHARED ? time * 10 < other * 9 : time * 20 < other * 21;
}

static keel_way other_way(keel_way way) {
  return way == KEEL_ALONE ? KEEL_SHARED : KEEL_ALONE;
}

static uint64_t lesser(uint64_t a, uint64_t b) {
  return !a || b < a ? b : a;
}

static void put(_Atomic uint32_t *to, uint64_t value) {
  atomic_store_explicit(to, value < UINT32_MAX ? (uint32_t)value : UINT32_MAX,
                        memory_order_relaxed);
}

static uint32_t look(const _Atomic uint32_t *at) {
  return atomic_load_explicit(at, memory_order_relaxed);
}

keel_pacing keel_pace_next(keel_pace *pace) {
  uint32_t untimed = look(&pace->untimed);
  keel_pacing next = {.way = (keel_way)look(&pace->way)};
  /* concurrent runs may lose a decrement */
  if (untimed) put(&pace->untimed, untimed - 1);
  next.timed = !untimed && !pace->fixed;
  next.steps = next.timed && look(&pace->known) == FIRST - 1;
  return next;
}

/* Chooses a mode whose runs take `time`. */
static void settle(keel_pace *pace, keel_way way, uint64_t time) {
  put(&pace->way, way);
  pace->home = way;
  pace->usual = time;
  pace->trying = false;
  pace->strange = pace->settled = 0;
  pace->spent = 0;
}

static void begin_trial(keel_pace *pace) {
  put(&pace->way, other_way(pace->home));
  pace->trying = true;
  pace->tried = 0;
  pace->least = pace->lost = 0;
}

static void note_trial(keel_pace *pace, uint64_t time) {
  keel_way way = other_way(pace->home);
  bool asked = pace->strange >= STRANGE;
  pace->least = lesser(pace->least, time);
  if (time > pace->now) pace->lost += time - pace->now;
  if (++pace->tried < TRIAL && time < pace->now * 2) return;
  bool better = is_quicker(way, pace->least, pace->now);
  pace->patience = better || asked                  ? PATIENCE
                   : pace->patience < MOST_PATIENCE ? pace->patience * 2
                                                    : pace->patience;
  if (better) {
    pace->lost = 0;
    pace->now = pace->last = pace->least;
  }
  settle(pace, better ? way : pace->home, pace->now);
}

/* Whether a parallel run may pay off: with tiny steps it would be slower, and the trial
 * itself would cost more than it is worth. */
static bool may_pay(const keel_pace *pace, uint32_t steps) {
  return pace->home == KEEL_SHARED ||
         (pace->now >= WORTH_A_THREAD && pace->now / steps >= WORTH_HANDING);
}

/* Whether to try the other mode: serial if parallel runs have become faster, parallel if
 * serial runs have become slower, and now and then unprompted. */
static bool asks(const keel_pace *pace) {
  uint64_t now = pace->now, usual = pace->usual;
  bool shared = pace->home == KEEL_SHARED;
  if (pace->strange >= STRANGE && (shared ? now < usual : now > usual))
    return (shared ? now * 2 < usual : now > usual * 2) ||
           pace->spent >= pace->lost * ASKED_FOR;
  return pace->settled >= pace->patience &&
         pace->spent >= pace->lost * NOT_ASKED_FOR;
}

/* Notes a run in the chosen mode. */
static void note_home(keel_pace *pace, uint64_t time, uint32_t steps) {
  bool strange = time * 4 > pace->usual * 5 || time * 5 < pace->usual * 4;
  pace->now = lesser(pace->last, time);
  pace->last = time;
  pace->strange = strange ? pace->strange + 1 : 0;
  pace->settled++;
  pace->spent += time * pace->interval;
  if (may_pay(pace, steps) && asks(pace)) {
    begin_trial(pace);
  } else if (pace->strange >= STRANGE + 1) { /* this is the usual time now */
    pace->usual = pace->now;
    pace->strange = 0;
    pace->patience = PATIENCE;
  }
}

static void note_first(keel_pace *pace, uint64_t time, uint32_t steps) {
  uint32_t known = look(&pace->known) + 1;
  put(&pace->known, known);
  pace->now = lesser(pace->now, time);
  pace->last = time;
  if (known < FIRST) return;
  pace->patience = PATIENCE;
  settle(pace, KEEL_ALONE, pace->now);
  if (may_pay(pace, steps)) begin_trial(pace);
}

/* Processes a measured time; one thread at a time. */
static void note(keel_pace *pace, keel_way way, uint64_t time, uint32_t steps,
                 uint32_t threads) {
  bool first = look(&pace->known) < FIRST;
  if (way != (pace->trying ? other_way(pace->home) : pace->home))
    return; /* it started before the last change of mode */
  if (first)
    note_first(pace, time, steps);
  else if (pace->trying)
    note_trial(pace, time);
  else
    note_home(pace, time, steps);
  bool calm = !first && !pace->trying && !pace->strange;
  uint64_t between = calm ? LOOKED_AT / (time + 1) : 0;
  pace->interval = (uint32_t)(between < LOOKS ? between : LOOKS) + 1;
  put(&pace->untimed, pace->interval - 1);
  put(&pace->cost, time * (way == KEEL_SHARED ? threads : 1) / steps);
}

void keel_pace_note(keel_pace *pace, keel_way way, uint64_t time,
                    uint32_t steps, uint32_t threads) {
  /* acquire and release on `busy`: they guard the fields that are not atomic */
  if (atomic_exchange_explicit(&pace->busy, true, memory_order_acquire)) return;
  note(pace, way, time, steps, threads);
  atomic_store_explicit(&pace->busy, false, memory_order_release);
}

uint32_t keel_pace_piece(const keel_pace *pace) {
  uint32_t cost = look(&pace->cost);
  return PIECE / (cost ? cost : 1) + 1;
}

void keel_pace_fix(keel_pace *pace, keel_way way) {
  put(&pace->way, way);
  pace->fixed = true;
}
