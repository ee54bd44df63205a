/* pace.c - one thread or all: measured, chosen, measured again. */
#include "threads/pace.h"

enum {
  FIRST =
      3, /* runs by one thread before any trial; in the last, steps are timed */
  TRIAL = 3,   /* runs of the other way, of which the quickest counts */
  STRANGE = 2, /* runs in turn before a change is believed */
  PATIENCE =
      64, /* runs before a trial that nothing asks for, when something changed */
  MOST_PATIENCE = 512 /* and when such trials were in vain */
};

/* Nanoseconds. */
#define WORTH_HANDING \
  60 /* what steps take at least, in the mean, to be shared */
#define WORTH_A_THREAD 10000 /* and all of them */
#define PIECE          16000 /* what a thread takes at once */
#define LOOKED_AT      4000 /* runs between two that are timed take about that */
#define LOOKS          16   /* and are at most so many */

/* What a trial lost comes so many times before the next one that is to find something
 * smaller than twofold, or that nothing asks for. */
#define ASKED_FOR     20
#define NOT_ASKED_FOR 200

/* One thread is given the preference: others may have something better to do, and what
 * takes about as long must not go to and fro. */
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
  /* of runs at once, some may not be counted */
  if (untimed) put(&pace->untimed, untimed - 1);
  next.timed = !untimed && !pace->fixed;
  next.steps = next.timed && look(&pace->known) == FIRST - 1;
  return next;
}

/* The way is chosen, as it takes `time`. */
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

/* Whether steps are worth being shared: next to nothing would be slower, and the trial
 * itself cost more than it tells. */
static bool may_pay(const keel_pace *pace, uint32_t steps) {
  return pace->home == KEEL_SHARED ||
         (pace->now >= WORTH_A_THREAD && pace->now / steps >= WORTH_HANDING);
}

/* Whether the other way is to be tried: one thread where shared steps take less than they
 * did, sharing where they take more; and now and then, for what these do not show. */
static bool asks(const keel_pace *pace) {
  uint64_t now = pace->now, usual = pace->usual;
  bool shared = pace->home == KEEL_SHARED;
  if (pace->strange >= STRANGE && (shared ? now < usual : now > usual))
    return (shared ? now * 2 < usual : now > usual * 2) ||
           pace->spent >= pace->lost * ASKED_FOR;
  return pace->settled >= pace->patience &&
         pace->spent >= pace->lost * NOT_ASKED_FOR;
}

/* A run in the way that was chosen. */
static void note_home(keel_pace *pace, uint64_t time, uint32_t steps) {
  bool strange = time * 4 > pace->usual * 5 || time * 5 < pace->usual * 4;
  pace->now = lesser(pace->last, time);
  pace->last = time;
  pace->strange = strange ? pace->strange + 1 : 0;
  pace->settled++;
  pace->spent += time * pace->interval;
  if (may_pay(pace, steps) && asks(pace)) {
    begin_trial(pace);
  } else if (pace->strange >= STRANGE + 1) { /* it is what is usual now */
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

/* What follows from a time, by who is alone here. */
static void note(keel_pace *pace, keel_way way, uint64_t time, uint32_t steps,
                 uint32_t threads) {
  bool first = look(&pace->known) < FIRST;
  if (way != (pace->trying ? other_way(pace->home) : pace->home))
    return; /* it was begun before the last change */
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
  /* acquire and release: what is not atomic is one thread's at a time */
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
