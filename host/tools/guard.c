/* guard.c - ends the command where a limit of time passes and nothing looks at it: a kernel
 * is not interrupted, and a library that it calls may wait for good. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "ranks.h"
#include "system/locale.h"

/* seconds, and a quarter of the limit: what is under way may end */
#define GRACE 0.25

static struct {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t ended;
  struct timespec when;
  const char *what;
  double limit;
  bool runs, over;
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *guard_watch(void *context) {
  int result = 0;
  (void)context;
  pthread_mutex_lock(&guard.lock);
  while (!guard.over && result != ETIMEDOUT)
    result = pthread_cond_timedwait(&guard.ended, &guard.lock, &guard.when);
  if (!guard.over) {
    (void)keel_plain_begin();
    fprintf(
        stderr,
        "keel: %s has not ended after its %g ms: the work under way cannot be"
        " interrupted; giving up\n",
        guard.what, guard.limit * 1e3);
    ranks_give_up(1);
  }
  pthread_mutex_unlock(&guard.lock);
  return NULL;
}

void guard_begin(const char *what, double seconds) {
  pthread_condattr_t by_clock;
  if (seconds <= 0) return;
  double end = now() + 1.25 * seconds + GRACE;
  guard.what = what;
  guard.limit = seconds;
  guard.over = false;
  guard.when.tv_sec = (time_t)end;
  guard.when.tv_nsec = (long)((end - (double)guard.when.tv_sec) * 1e9);
  pthread_condattr_init(&by_clock);
  pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
  pthread_cond_init(&guard.ended, &by_clock);
  pthread_condattr_destroy(&by_clock);
  guard.runs = pthread_create(&guard.thread, NULL, guard_watch, NULL) == 0;
}

void guard_end(void) {
  if (!guard.runs) return;
  pthread_mutex_lock(&guard.lock);
  guard.over = true;
  pthread_cond_signal(&guard.ended);
  pthread_mutex_unlock(&guard.lock);
  pthread_join(guard.thread, NULL);
  pthread_cond_destroy(&guard.ended);
  guard.runs = false;
}
