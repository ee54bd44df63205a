/* cancel.h - early ends of a run, by request or by time, and the hooks that are called then: on the
 * timer's thread, or on the requesting one. Hooks call no plugin, and do not wait for one. */
#ifndef KEEL_CANCEL_H
#define KEEL_CANCEL_H

#include <keel/program.h>

#include <pthread.h>

#include "threads/pool.h"

/* ---- hooks that are called at a time, or on request ---- */

typedef struct keel_cancel_hook {
  void (*fire)(struct keel_cancel_hook *self); /* filled in by the caller */
  uint64_t when; /* deadline, on the clock of keel_now; in a timer's list */
  struct keel_cancel_hook *next;
  bool set;
} keel_cancel_hook;

/* A list of hooks and its lock. */
typedef struct keel_cancel_hooks {
  pthread_mutex_t lock;
  keel_cancel_hook *first;
} keel_cancel_hooks;

/* True if the hook was removed; false if it is or was being called. */
bool keel_cancel_hooks_remove(keel_cancel_hooks *all, keel_cancel_hook *hook);

/* A thread that fires hooks at their deadlines; it starts on first use. */
typedef struct keel_timer keel_timer;

keel_status keel_timer_create(keel_timer **out_timer);
/* No hook may be set. NULL does nothing. */
void keel_timer_destroy(keel_timer *timer);

/* Fires the hook at its time, or soon after. Returns KD_OK, KD_OUT_OF_MEMORY (no
 * thread). */
keel_status keel_timer_set(keel_timer *timer, keel_cancel_hook *hook);
/* As keel_cancel_hooks_remove. */
bool keel_timer_unset(keel_timer *timer, keel_cancel_hook *hook);

/* ---- a question, instead of a hook ---- */

/* Asks the application on the timer's thread, again and again, whether something is to end. */
typedef struct keel_question {
  keel_cancel_hook hook; /* must be first: cast from it */
  keel_pool *pool;       /* whose waiting threads look again */
  int (*ask)(void *context);
  void *context;
  void (*said_yes)(struct keel_question *self); /* called once; NULL: nothing */
  atomic_bool ends;  /* the answer was yes; release, acquire */
  atomic_bool over;  /* asked no more; release, acquire */
  atomic_bool ended; /* keel_question_end has been called */
} keel_question;

/* Returns KD_OK, KD_OUT_OF_MEMORY (no thread). */
keel_status keel_question_begin(keel_question *question, keel_pool *pool,
                                int (*ask)(void *context), void *context,
                                void (*said_yes)(keel_question *self));
/* From here on it is not asked. Waits for an answer that is under way. */
void keel_question_end(keel_question *question);

/* ---- cancellation ---- */

struct keel_cancel {
  atomic_uint refs;
  keel_pool *pool; /* whose waiting threads look again */
  /* 0: not requested; 1: `why` is being written; 2: requested. 2 is stored with release and
   * read with acquire, so `why` is complete. */
  atomic_uint requested;
  char why[200];
  keel_cancel_hooks hooks; /* of asynchronous runs */
};

typedef struct keel_cancellation {
  keel_cancel *cancel;           /* or NULL */
  uint64_t deadline;             /* on the clock of keel_now; 0: none */
  const keel_question *question; /* or NULL */
} keel_cancellation;

static inline bool keel_cancellation_is_due(
    const keel_cancellation *cancellation) {
  /* acquire: why */
  return (cancellation->cancel &&
          atomic_load_explicit(&cancellation->cancel->requested,
                               memory_order_acquire) == 2) ||
         (cancellation->question &&
          atomic_load_explicit(&cancellation->question->ends,
                               memory_order_acquire)) ||
         (cancellation->deadline && keel_now() >= cancellation->deadline);
}

/* The cancellation of something that starts now; timeout in nanoseconds, 0: none. */
keel_cancellation keel_cancellation_of(keel_cancel *cancel, uint64_t timeout);

/* Sets the cancellation of the run, plan or op that this thread works at, NULL: none; returns the
 * earlier one. For the time of a call. Planning, waits for devices and loops of ops look at it. */
const keel_cancellation *keel_cancellation_use(
    const keel_cancellation *cancellation);
const keel_cancellation *keel_cancellation_in_use(void);

/* Checks it while planning; `next`: the next op or pass. */
keel_status keel_cancellation_check_planning(const char *next,
                                             const char *node);
/* Which op it is, for the message; both texts outlive the call. */
void keel_cancellation_name(const char *op, const char *node);

/* For loops of ops that the runtime runs itself: whether the run goes on, looked at once in about a
 * millisecond. `work` is the work since the last call, in about nanoseconds; `pace` begins as 0,
 * and is one loop's. Returns KD_OK, KD_CANCELLED, KD_DEADLINE_EXCEEDED. */
keel_status keel_cancellation_look(void);
static inline keel_status keel_go_on(uint64_t *pace, uint64_t work) {
  *pace += work;
  if (*pace < 500000) return KD_OK;
  *pace = 0;
  return keel_cancellation_look();
}

/* With a pool that outlives it. */
keel_status keel_cancel_new(keel_pool *pool, keel_cancel **out_cancel);

/* NULL: nothing. */
void keel_cancel_retain(keel_cancel *cancel);

/* Fires the hook when cancellation is requested; at once if it already was. */
void keel_cancel_subscribe(keel_cancel *cancel, keel_cancel_hook *hook);

/* Fails with the reason: KD_CANCELLED or KD_DEADLINE_EXCEEDED. `node`, `op`: the next ones, or
 * NULL. */
keel_status keel_cancellation_fail(const keel_cancellation *cancellation,
                                   const char *node, const char *op);

#endif /* KEEL_CANCEL_H */
