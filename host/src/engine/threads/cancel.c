/* cancel.c - hooks by the clock or by hand, keel_cancel, and deadlines. */
#include "threads/cancel.h"

#include <sched.h>
#include <time.h>

#include "base/refs.h"
#include "trace/trace.h"

/* ---- hooks ------------------------------------------------------------------------- */

static void hooks_init(keel_cancel_hooks *all) {
  pthread_mutex_init(&all->lock, NULL);
  all->first = NULL;
}

/* Inserts in order of time. With the lock held. */
static void insert(keel_cancel_hooks *all, keel_cancel_hook *hook) {
  assert(KEEL_IS_LOCKED(&all->lock) && !hook->set);
  keel_cancel_hook **at = &all->first;
  while (*at && (*at)->when <= hook->when)
    at = &(*at)->next;
  hook->next = *at;
  hook->set = true;
  *at = hook;
}

bool keel_cancel_hooks_remove(keel_cancel_hooks *all, keel_cancel_hook *hook) {
  pthread_mutex_lock(&all->lock);
  bool was_set = hook->set;
  keel_cancel_hook **at = &all->first;
  while (was_set && *at != hook)
    at = &(*at)->next;
  if (was_set) *at = hook->next;
  hook->set = false;
  pthread_mutex_unlock(&all->lock);
  return was_set;
}

/* Calls the hooks whose time has come. With the lock held, and given up meanwhile. */
static void fire_until(keel_cancel_hooks *all, uint64_t now) {
  assert(KEEL_IS_LOCKED(&all->lock));
  while (all->first && all->first->when <= now) {
    keel_cancel_hook *hook = all->first;
    all->first = hook->next;
    hook->set = false;
    pthread_mutex_unlock(&all->lock);
    hook->fire(hook); /* which may have freed it */
    pthread_mutex_lock(&all->lock);
  }
}

static void fire_all(keel_cancel_hooks *all) {
  pthread_mutex_lock(&all->lock);
  fire_until(all, UINT64_MAX);
  pthread_mutex_unlock(&all->lock);
}

/* ---- by the clock ------------------------------------------------------------------- */

struct keel_timer {
  keel_cancel_hooks hooks;
  pthread_cond_t changed;
  pthread_t thread;
  bool running, stopping; /* guarded by the list's lock */
};

/* Waits for the time of the first hook, or for a change of the list. With the lock held. */
static void wait_for_next(keel_timer *timer) {
  const keel_cancel_hook *first = timer->hooks.first;
  if (!first) {
    pthread_cond_wait(&timer->changed, &timer->hooks.lock);
    return;
  }
  struct timespec until = {.tv_sec = (time_t)(first->when / 1000000000u),
                           .tv_nsec = (long)(first->when % 1000000000u)};
  pthread_cond_timedwait(&timer->changed, &timer->hooks.lock, &until);
}

static void *tick(void *argument) {
  keel_timer *timer = argument;
  keel_trace_thread("timer", 0);
  pthread_mutex_lock(&timer->hooks.lock);
  while (!timer->stopping) {
    fire_until(&timer->hooks, keel_now());
    if (!timer->stopping) wait_for_next(timer);
  }
  pthread_mutex_unlock(&timer->hooks.lock);
  return NULL;
}

keel_status keel_timer_create(keel_timer **out_timer) {
  keel_timer *timer = calloc(1, sizeof *timer);
  *out_timer = timer;
  if (!timer) return keel_no_memory(sizeof *timer);
  hooks_init(&timer->hooks);
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&timer->changed, &attr);
  pthread_condattr_destroy(&attr);
  return KD_OK;
}

void keel_timer_destroy(keel_timer *timer) {
  if (!timer) return;
  pthread_mutex_lock(&timer->hooks.lock);
  timer->stopping = true;
  pthread_cond_signal(&timer->changed);
  pthread_mutex_unlock(&timer->hooks.lock);
  if (timer->running) pthread_join(timer->thread, NULL);
  pthread_cond_destroy(&timer->changed);
  pthread_mutex_destroy(&timer->hooks.lock);
  free(timer);
}

keel_status keel_timer_set(keel_timer *timer, keel_cancel_hook *hook) {
  pthread_mutex_lock(&timer->hooks.lock);
  if (!timer->running)
    timer->running = pthread_create(&timer->thread, NULL, tick, timer) == 0;
  bool running = timer->running;
  if (running) {
    insert(&timer->hooks, hook);
    pthread_cond_signal(&timer->changed);
  }
  pthread_mutex_unlock(&timer->hooks.lock);
  return running ? KD_OK
                 : keel_fail(KD_OUT_OF_MEMORY,
                             "cannot start a thread for a run's timeout");
}

bool keel_timer_unset(keel_timer *timer, keel_cancel_hook *hook) {
  return keel_cancel_hooks_remove(&timer->hooks, hook);
}

/* ---- a question --------------------------------------------------------------------- */

#define ASK_EVERY 10000000u /* nanoseconds */

static void question_ask(keel_cancel_hook *hook) {
  keel_question *self = (keel_question *)(void *)hook;
  if (!atomic_load(&self->ended) && !self->ask(self->context)) {
    hook->when = keel_now() + ASK_EVERY;
    /* it cannot fail: this is the timer's thread. From here on keel_question_end may free it. */
    keel_timer_set(keel_pool_timer(self->pool), hook);
    return;
  }
  if (!atomic_load(&self->ended)) {
    atomic_store_explicit(&self->ends, true, memory_order_release);
    if (self->said_yes) self->said_yes(self);
    keel_pool_wake_waiters(self->pool);
  }
  atomic_store_explicit(&self->over, true, memory_order_release);
}

keel_status keel_question_begin(keel_question *question, keel_pool *pool,
                                int (*ask)(void *context), void *context,
                                void (*said_yes)(keel_question *self)) {
  *question = (keel_question){
      .hook = {.fire = question_ask, .when = keel_now() + ASK_EVERY},
      .pool = pool,
      .ask = ask,
      .context = context,
      .said_yes = said_yes};
  return keel_timer_set(keel_pool_timer(pool), &question->hook);
}

void keel_question_end(keel_question *question) {
  keel_timer *timer = keel_pool_timer(question->pool);
  atomic_store(&question->ended, true);
  while (!atomic_load_explicit(&question->over, memory_order_acquire)) {
    if (keel_timer_unset(timer, &question->hook))
      atomic_store_explicit(&question->over, true, memory_order_release);
    else
      sched_yield();
  }
}

/* ---- stops and deadlines -------------------------------------------------------------- */

keel_status keel_cancel_new(keel_pool *pool, keel_cancel **out_cancel) {
  keel_cancel *cancel = calloc(1, sizeof *cancel);
  *out_cancel = cancel;
  if (!cancel) return keel_no_memory(sizeof *cancel);
  keel_refs_init(&cancel->refs);
  cancel->pool = pool;
  hooks_init(&cancel->hooks);
  return KD_OK;
}

void keel_cancel_retain(keel_cancel *cancel) {
  if (cancel) keel_refs_take(&cancel->refs);
}

void keel_cancel_release(keel_cancel *cancel) {
  if (!cancel || !keel_refs_drop(&cancel->refs)) return;
  pthread_mutex_destroy(&cancel->hooks.lock);
  free(cancel);
}

/* This thread's message does not change. */
static void fire_all_quietly(keel_cancel_hooks *all) {
  char before[4096];
  bool said = keel_has_error();
  snprintf(before, sizeof before, "%s", keel_message());
  fire_all(all);
  keel_fail_text(KD_OK, before);
  if (!said) keel_clear_error();
}

void keel_cancel_subscribe(keel_cancel *cancel, keel_cancel_hook *hook) {
  pthread_mutex_lock(&cancel->hooks.lock);
  insert(&cancel->hooks, hook);
  pthread_mutex_unlock(&cancel->hooks.lock);
  /* acquire: pairs with the store of 2, so `why` is complete. A concurrent request fires
   * the hooks after this one is added. */
  if (atomic_load_explicit(&cancel->requested, memory_order_acquire) == 2)
    fire_all_quietly(&cancel->hooks);
}

void keel_cancel_request(keel_cancel *cancel, const char *why) {
  unsigned none = 0;
  if (!atomic_compare_exchange_strong(&cancel->requested, &none, 1)) return;
  snprintf(cancel->why, sizeof cancel->why, "%s", why ? why : "");
  /* release: publishes `why` */
  atomic_store_explicit(&cancel->requested, 2, memory_order_release);
  fire_all_quietly(&cancel->hooks);
  keel_pool_wake_waiters(cancel->pool);
}

keel_cancellation keel_cancellation_of(keel_cancel *cancel, uint64_t timeout) {
  uint64_t now = timeout ? keel_now() : 0;
  return (keel_cancellation){.cancel = cancel,
                             .deadline = !timeout ? 0
                                         : timeout > UINT64_MAX - now
                                             ? UINT64_MAX
                                             : now + timeout};
}

/* `who`: "the run", "planning". */
static keel_status cancel_fail(const keel_cancellation *cancellation,
                               const char *who, const char *node,
                               const char *op) {
  char next[200] = "";
  if (op)
    snprintf(next, sizeof next, ", before %s%s%s%s", op,
             node && *node ? " \"" : "", node && *node ? node : "",
             node && *node ? "\"" : "");
  if (cancellation->cancel &&
      atomic_load_explicit(&cancellation->cancel->requested,
                           memory_order_acquire) == 2)
    return keel_fail(KD_CANCELLED, "%s was cancelled%s%s%s", who,
                     *cancellation->cancel->why ? ": " : "",
                     cancellation->cancel->why, next);
  if (cancellation->question &&
      atomic_load_explicit(&cancellation->question->ends, memory_order_acquire))
    return keel_fail(KD_CANCELLED, "%s was cancelled: should_end said so%s",
                     who, next);
  return keel_fail(KD_DEADLINE_EXCEEDED, "%s is past its deadline%s", who,
                   next);
}

keel_status keel_cancellation_fail(const keel_cancellation *cancellation,
                                   const char *node, const char *op) {
  return cancel_fail(cancellation, "the run", node, op);
}

static _Thread_local const keel_cancellation *current;
static _Thread_local const char *current_op, *current_node;

void keel_cancellation_name(const char *op, const char *node) {
  current_op = op;
  current_node = node;
}

const keel_cancellation *keel_cancellation_use(
    const keel_cancellation *cancellation) {
  const keel_cancellation *before = current;
  current = cancellation;
  return before;
}

const keel_cancellation *keel_cancellation_in_use(void) {
  return current;
}

keel_status keel_cancellation_look(void) {
  if (!current || !keel_cancellation_is_due(current)) return KD_OK;
  keel_status status = keel_cancellation_fail(current, NULL, NULL);
  const char *node = current_node ? current_node : "";
  return current_op ? keel_while(status, "in %s%s%s%s", current_op,
                                 *node ? " \"" : "", node, *node ? "\"" : "")
                    : status;
}

keel_status keel_cancellation_check_planning(const char *next,
                                             const char *node) {
  return !current || !keel_cancellation_is_due(current)
             ? KD_OK
             : cancel_fail(current, "planning", node, next);
}
