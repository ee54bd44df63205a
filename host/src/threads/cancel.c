/* cancel.c - alarms by the clock or by hand, keel_stop, and deadlines. */
#include "threads/cancel.h"

#include <time.h>

#include "base/refs.h"
#include "trace/trace.h"

/* ---- alarms ------------------------------------------------------------------------- */

void keel_alarms_init(keel_alarms *all) {
  pthread_mutex_init(&all->lock, NULL);
  all->first = NULL;
}

void keel_alarms_deinit(keel_alarms *all) {
  pthread_mutex_destroy(&all->lock);
}

/* Inserts in order of time. With the lock held. */
static void insert(keel_alarms *all, keel_alarm *alarm) {
  keel_alarm **at = &all->first;
  while (*at && (*at)->when <= alarm->when)
    at = &(*at)->next;
  alarm->next = *at;
  alarm->set = true;
  *at = alarm;
}

void keel_alarms_add(keel_alarms *all, keel_alarm *alarm) {
  pthread_mutex_lock(&all->lock);
  insert(all, alarm);
  pthread_mutex_unlock(&all->lock);
}

bool keel_alarms_remove(keel_alarms *all, keel_alarm *alarm) {
  pthread_mutex_lock(&all->lock);
  bool was_set = alarm->set;
  keel_alarm **at = &all->first;
  while (was_set && *at != alarm)
    at = &(*at)->next;
  if (was_set) *at = alarm->next;
  alarm->set = false;
  pthread_mutex_unlock(&all->lock);
  return was_set;
}

/* Submits the tasks whose time has come. With the lock held. */
static void ring_until(keel_alarms *all, keel_pool *pool, uint64_t now) {
  while (all->first && all->first->when <= now) {
    keel_alarm *alarm = all->first;
    all->first = alarm->next;
    alarm->set = false;
    /* the task may already have freed `alarm` */
    keel_pool_post(pool, &alarm->task);
  }
}

void keel_alarms_ring(keel_alarms *all, keel_pool *pool) {
  pthread_mutex_lock(&all->lock);
  ring_until(all, pool, UINT64_MAX);
  pthread_mutex_unlock(&all->lock);
}

/* ---- by the clock ------------------------------------------------------------------- */

struct keel_timer {
  keel_alarms alarms;
  keel_pool *pool;
  pthread_cond_t changed;
  pthread_t thread;
  bool running, stop; /* guarded by the list's lock */
};

/* Waits for the time of the first hook, or for a change of the list. With the lock held. */
static void wait_for_next(keel_timer *timer) {
  const keel_alarm *first = timer->alarms.first;
  if (!first) {
    pthread_cond_wait(&timer->changed, &timer->alarms.lock);
    return;
  }
  struct timespec until = {.tv_sec = (time_t)(first->when / 1000000000u),
                           .tv_nsec = (long)(first->when % 1000000000u)};
  pthread_cond_timedwait(&timer->changed, &timer->alarms.lock, &until);
}

static void *tick(void *argument) {
  keel_timer *timer = argument;
  keel_trace_thread("timer", 0);
  pthread_mutex_lock(&timer->alarms.lock);
  while (!timer->stop) {
    ring_until(&timer->alarms, timer->pool, keel_now());
    wait_for_next(timer);
  }
  pthread_mutex_unlock(&timer->alarms.lock);
  return NULL;
}

keel_status keel_timer_create(keel_pool *pool, keel_timer **out_timer) {
  keel_timer *timer = calloc(1, sizeof *timer);
  *out_timer = timer;
  if (!timer) return keel_no_memory(sizeof *timer);
  timer->pool = pool;
  keel_alarms_init(&timer->alarms);
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&timer->changed, &attr);
  pthread_condattr_destroy(&attr);
  return KD_OK;
}

void keel_timer_destroy(keel_timer *timer) {
  if (!timer) return;
  pthread_mutex_lock(&timer->alarms.lock);
  timer->stop = true;
  pthread_cond_signal(&timer->changed);
  pthread_mutex_unlock(&timer->alarms.lock);
  if (timer->running) pthread_join(timer->thread, NULL);
  pthread_cond_destroy(&timer->changed);
  keel_alarms_deinit(&timer->alarms);
  free(timer);
}

keel_status keel_timer_set(keel_timer *timer, keel_alarm *alarm) {
  pthread_mutex_lock(&timer->alarms.lock);
  if (!timer->running)
    timer->running = pthread_create(&timer->thread, NULL, tick, timer) == 0;
  bool running = timer->running;
  if (running) {
    insert(&timer->alarms, alarm);
    pthread_cond_signal(&timer->changed);
  }
  pthread_mutex_unlock(&timer->alarms.lock);
  return running ? KD_OK
                 : keel_fail(KD_OUT_OF_MEMORY,
                             "cannot start a thread for a run's timeout");
}

bool keel_timer_unset(keel_timer *timer, keel_alarm *alarm) {
  return keel_alarms_remove(&timer->alarms, alarm);
}

/* ---- stops and deadlines -------------------------------------------------------------- */

keel_status keel_stop_new(keel_pool *pool, keel_stop **out_stop) {
  keel_stop *stop = calloc(1, sizeof *stop);
  *out_stop = stop;
  if (!stop) return keel_no_memory(sizeof *stop);
  keel_refs_init(&stop->refs);
  stop->pool = pool;
  keel_alarms_init(&stop->alarms);
  return KD_OK;
}

void keel_stop_retain(keel_stop *stop) {
  if (stop) keel_refs_take(&stop->refs);
}

void keel_stop_release(keel_stop *stop) {
  if (!stop || !keel_refs_drop(&stop->refs)) return;
  keel_alarms_deinit(&stop->alarms);
  free(stop);
}

void keel_stop_listen(keel_stop *stop, keel_alarm *alarm) {
  keel_alarms_add(&stop->alarms, alarm);
  /* acquire: pairs with the store of 2, so `why` is complete. A concurrent request fires
   * the hooks after this one is added. */
  if (atomic_load_explicit(&stop->asked, memory_order_acquire) == 2)
    keel_alarms_ring(&stop->alarms, stop->pool);
}

void keel_stop_ask(keel_stop *stop, const char *why) {
  unsigned none = 0;
  if (!atomic_compare_exchange_strong(&stop->asked, &none, 1)) return;
  snprintf(stop->why, sizeof stop->why, "%s", why ? why : "");
  /* release: publishes `why` */
  atomic_store_explicit(&stop->asked, 2, memory_order_release);
  keel_alarms_ring(&stop->alarms, stop->pool);
  keel_pool_wake_waiters(stop->pool);
}

keel_watch keel_watch_of(keel_stop *stop, uint64_t timeout) {
  uint64_t now = timeout ? keel_now() : 0;
  return (keel_watch){stop, !timeout                     ? 0
                            : timeout > UINT64_MAX - now ? UINT64_MAX
                                                         : now + timeout};
}

/* `who`: "the run", "planning". */
static keel_status fail(const keel_watch *watch, const char *who,
                        const char *node, const char *op) {
  char next[200] = "";
  if (op)
    snprintf(next, sizeof next, ", before %s%s%s%s", op,
             node && *node ? " \"" : "", node && *node ? node : "",
             node && *node ? "\"" : "");
  if (watch->stop &&
      atomic_load_explicit(&watch->stop->asked, memory_order_acquire) == 2)
    return keel_fail(KD_CANCELLED, "%s was cancelled%s%s%s", who,
                     *watch->stop->why ? ": " : "", watch->stop->why, next);
  return keel_fail(KD_DEADLINE_EXCEEDED, "%s is past its deadline%s", who,
                   next);
}

keel_status keel_watch_fail(const keel_watch *watch, const char *node,
                            const char *op) {
  return fail(watch, "the run", node, op);
}

keel_status keel_watch_planning(const keel_watch *watch, const char *next,
                                const char *node) {
  return !watch || !keel_watch_is_over(watch)
             ? KD_OK
             : fail(watch, "planning", node, next);
}
