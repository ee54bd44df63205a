/* scheduler.h - the scheduler: decides from measured times whether a function's steps run
 * on one thread (serial) or on the pool (parallel). It follows changes and undoes wrong
 * decisions.
 *
 * Both modes are timed and the faster one is kept. When two consecutive runs take a
 * different time than when the mode was chosen, the other mode is tried again; the time
 * lost in trials stays a small part of the total. */
#ifndef KEEL_SCHEDULER_H
#define KEEL_SCHEDULER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum keel_run_mode { KEEL_SERIAL, KEEL_PARALLEL } keel_run_mode;

/* Zero-initialised. The atomics are relaxed: hints that may be late or lost. Only `busy` is
 * acquired and released, by the thread that notes a time; it guards the fields that are not
 * atomic. */
typedef struct keel_scheduler {
  _Atomic uint32_t mode;    /* of the next run */
  _Atomic uint32_t untimed; /* coming runs that need not be timed */
  _Atomic uint32_t cost;    /* nanoseconds per step on one thread */
  _Atomic uint32_t known;   /* initial runs noted so far */
  atomic_bool busy;
  bool fixed;           /* keel_scheduler_fix */
  keel_run_mode chosen; /* that was chosen */
  bool trying;          /* the other one */
  uint32_t tried;       /* runs noted of the trial */
  /* consecutive runs that took a different time than `usual` */
  uint32_t outliers;
  uint32_t settled;        /* runs noted since the last trial */
  uint32_t trial_interval; /* so many before an unprompted trial */
  uint32_t interval;       /* runs that the next noted time stands for */
  uint64_t usual;          /* nanoseconds of a run when the mode was chosen */
  uint64_t last, now;      /* of the last run; the smaller of the last two */
  uint64_t least;          /* of the trial's */
  uint64_t spent;          /* since the last trial */
  uint64_t lost;           /* by the last trial */
} keel_scheduler;

typedef struct keel_schedule {
  keel_run_mode mode;
  bool timed; /* note its time */
  bool steps; /* serial; best time each step, too */
} keel_schedule;

/* How to do the next run. */
keel_schedule keel_scheduler_next(keel_scheduler *scheduler);

/* The time that it took.
 *
 * steps    of the function, not 0
 * threads  that a parallel run has, not 0 */
void keel_scheduler_note(keel_scheduler *scheduler, keel_run_mode mode,
                         uint64_t time, uint32_t steps, uint32_t threads);

/* How many steps a thread should take at a time. */
uint32_t keel_scheduler_grain(const keel_scheduler *scheduler);

/* Fixes the mode, whatever runs take. Before any other thread runs the function; for
 * tests. */
void keel_scheduler_fix(keel_scheduler *scheduler, keel_run_mode mode);

#endif /* KEEL_SCHEDULER_H */
