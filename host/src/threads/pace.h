/* pace.h - whether a function's steps are run by one thread or shared, by what its runs were
 * seen to take: it follows when that changes, and goes back when it was wrong.
 *
 * Runs by one thread and shared ones are both timed; the way that is quicker is kept. Where
 * two runs in turn take another time than when it was chosen, the other way is tried
 * again: what such trials lose stays a small part of all time. */
#ifndef KEEL_PACE_H
#define KEEL_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum keel_way { KEEL_ALONE, KEEL_SHARED } keel_way;

/* All zero at first. Relaxed, all of it: hints, which may be late or lost; only `busy` is
 * acquired by who notes a time, and released, and guards what is not atomic. */
typedef struct keel_pace {
  _Atomic uint32_t way;     /* of the next run */
  _Atomic uint32_t untimed; /* runs to come that need not be timed */
  _Atomic uint32_t cost;    /* nanoseconds a step takes one thread */
  _Atomic uint32_t known;   /* runs noted of the first ones */
  atomic_bool busy;
  bool fixed;         /* keel_pace_fix */
  keel_way home;      /* that was chosen */
  bool trying;        /* the other one */
  uint32_t tried;     /* runs noted of the trial */
  uint32_t strange;   /* runs in turn that took another time than `usual` */
  uint32_t settled;   /* runs noted since the last trial */
  uint32_t patience;  /* so many before a trial that nothing asks for */
  uint32_t interval;  /* runs that the next time noted stands for */
  uint64_t usual;     /* nanoseconds of a run when its way was chosen */
  uint64_t last, now; /* of the last run; the lesser of the last two */
  uint64_t least;     /* of the trial's */
  uint64_t spent;     /* since the last trial */
  uint64_t lost;      /* by the last trial */
} keel_pace;

typedef struct keel_pacing {
  keel_way way;
  bool timed; /* its time is to be noted */
  bool steps; /* alone; each step is best timed, too */
} keel_pacing;

/* How the next run goes. */
keel_pacing keel_pace_next(keel_pace *pace);

/* What it took.
 *
 * steps    of the function, not 0
 * threads  that a shared run has, not 0 */
void keel_pace_note(keel_pace *pace, keel_way way, uint64_t time,
                    uint32_t steps, uint32_t threads);

/* How many steps in a row are worth being taken by a thread at once. */
uint32_t keel_pace_piece(const keel_pace *pace);

/* From now on one way, whatever it takes: before any other thread runs it. For tests. */
void keel_pace_fix(keel_pace *pace, keel_way way);

#endif /* KEEL_PACE_H */
