/* notice.c - callbacks of events.
 *
 * A stream that nobody else knows waits for the event, and then has the driver call a
 * function of ours. After an error that stays, the driver calls nobody: so a thread looks
 * now and then, while callbacks are owed, whether the device still works, and calls them
 * itself where it does not. */
#include <signal.h>
#include <string.h>

#include "common/clock.h"
#include "cudev.h"

#define LOOK_EVERY 50000000 /* nanoseconds */

typedef struct cuda_notice {
  struct cuda_notice *next, **at; /* `at`: what points to it */
  kd_device *device;
  kd_event_callback callback;
  void *context;
  /* by the watcher: the driver's call is still to come, or never does */
  bool called;
} notice;

/* Under the lock. */
static void notice_take_out(notice *n) {
  *n->at = n->next;
  if (n->next) n->next->at = n->at;
}

/* On a thread of the driver's, which must not call the driver. */
static void happened(void *context) {
  notice *n = context;
  kd_device *d = n->device;
  pthread_mutex_lock(&d->notices_lock);
  notice_take_out(n);
  bool called = n->called;
  pthread_mutex_unlock(&d->notices_lock);
  const char *why = cuda_why_lost(d); /* what it waited for may be aborted */
  if (!called)
    n->callback(n->context, why ? KD_DEVICE_LOST : KD_OK, why ? why : "");
  pthread_mutex_lock(&d->notices_lock);
  if (!called) d->owed--;
  if (!d->owed) pthread_cond_broadcast(&d->notices_changed);
  pthread_mutex_unlock(&d->notices_lock);
  cuda_host->release(cuda_host, n);
}

/* Under the lock, which it lets go meanwhile: one that was not called yet. */
static void call_one_lost(kd_device *d) {
  notice *n = d->notices;
  while (n && n->called)
    n = n->next;
  if (!n) return;
  n->called = true;
  kd_event_callback callback = n->callback;
  void *context = n->context;
  const char *why = cuda_why_lost(d);
  pthread_mutex_unlock(&d->notices_lock);
  callback(context, KD_DEVICE_LOST, why ? why : "the device is lost");
  pthread_mutex_lock(&d->notices_lock);
  d->owed--;
  if (!d->owed) pthread_cond_broadcast(&d->notices_changed);
}

/* Whether the device works, asked of the driver. */
static bool works(kd_device *d) {
  if (atomic_load_explicit(&d->lost, memory_order_acquire)) return false;
  if (cuda_enter(d) != KD_OK) return false;
  cu_result code = cu.StreamQuery(d->lane.queue);
  if (code != CU_OK && code != CU_NOT_READY)
    cuda_failed(d, code, "work that was waited for");
  cuda_leave();
  return !atomic_load_explicit(&d->lost, memory_order_acquire);
}

static void *notice_watch(void *context) {
  kd_device *d = context;
  pthread_mutex_lock(&d->notices_lock);
  while (!d->closing) {
    if (!d->owed) {
      pthread_cond_wait(&d->notices_changed, &d->notices_lock);
      continue;
    }
    struct timespec end = clock_timespec(clock_now() + LOOK_EVERY);
    if (pthread_cond_timedwait(&d->notices_changed, &d->notices_lock, &end) ==
        0)
      continue;
    pthread_mutex_unlock(&d->notices_lock);
    bool lost = !works(d);
    pthread_mutex_lock(&d->notices_lock);
    while (lost && d->owed) {
      uint32_t before = d->owed;
      call_one_lost(d);
      if (d->owed == before) break; /* the driver calls the others just now */
    }
  }
  pthread_mutex_unlock(&d->notices_lock);
  return NULL;
}

/* Under the lock. Signals are the program's: none is taken here. */
static kd_status start_watching(kd_device *d) {
  sigset_t all, before;
  if (d->watched) return KD_OK;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&d->watcher, NULL, notice_watch, d);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error)
    return FAIL(KD_OUT_OF_MEMORY, "no thread for callbacks: %s",
                strerror(error));
  d->watched = true;
  return KD_OK;
}

/* A hidden stream with nothing to do, or a new one; where there are enough, the next. Their
 * lock is not the notices': the driver may wait here for calls of `happened` to end. */
static kd_status choose_side(kd_device *d, cu_stream *out_side) {
  for (uint32_t i = 0; i < d->side_count; i++) {
    *out_side = d->sides[(d->next_side + i) % d->side_count];
    if (cu.StreamQuery(*out_side) == CU_OK) return KD_OK;
  }
  if (d->side_count < sizeof d->sides / sizeof *d->sides) {
    CU_TRY(d, "cuStreamCreateWithPriority",
           cu.StreamCreateWithPriority(out_side, CU_NON_BLOCKING, 0));
    d->sides[d->side_count++] = *out_side;
    return KD_OK;
  }
  *out_side = d->sides[d->next_side++ % d->side_count];
  return KD_OK;
}

/* Puts it on the list. */
static kd_status owe(kd_device *d, notice *n) {
  pthread_mutex_lock(&d->notices_lock);
  kd_status status = start_watching(d);
  if (status == KD_OK) {
    n->next = d->notices;
    n->at = &d->notices;
    if (n->next) n->next->at = &n->next;
    d->notices = n;
    if (!d->owed++) pthread_cond_broadcast(&d->notices_changed);
  }
  pthread_mutex_unlock(&d->notices_lock);
  return status;
}

/* Off it again: nothing will come. True where the watcher was faster: it was called. */
static bool notice_forget(kd_device *d, notice *n) {
  pthread_mutex_lock(&d->notices_lock);
  notice_take_out(n);
  bool called = n->called;
  if (!called && !--d->owed) pthread_cond_broadcast(&d->notices_changed);
  pthread_mutex_unlock(&d->notices_lock);
  return called;
}

/* The driver is called without the notices' lock: where its queue is full it waits for work
 * to end, calls of `happened` among it. */
kd_status cuda_notify(kd_device *d, cu_event event, kd_event_callback callback,
                      void *context) {
  cu_stream side = NULL;
  const char *call = "cuStreamWaitEvent";
  notice *n = cuda_host->allocate(cuda_host, sizeof *n, 0);
  if (!n) return FAIL(KD_OUT_OF_MEMORY, "no memory for a callback");
  *n = (notice){.device = d, .callback = callback, .context = context};
  pthread_mutex_lock(&d->sides_lock);
  kd_status status = choose_side(d, &side);
  pthread_mutex_unlock(&d->sides_lock);
  if (status == KD_OK) status = owe(d, n);
  if (status != KD_OK) {
    cuda_host->release(cuda_host, n);
    return status;
  }
  cu_result code = cu.StreamWaitEvent(side, event, 0);
  if (code == CU_OK) {
    call = "cuLaunchHostFunc";
    code = cu.LaunchHostFunc(side, happened, n);
  }
  if (code == CU_OK) return KD_OK; /* `n` may be gone */
  bool called = notice_forget(d, n);
  cuda_host->release(cuda_host, n);
  return called ? KD_OK : cuda_failed(d, code, call);
}

void cuda_notices_begin(kd_device *d) {
  pthread_condattr_t clock;
  pthread_mutex_init(&d->notices_lock, NULL);
  pthread_mutex_init(&d->sides_lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&d->notices_changed, &clock);
  pthread_condattr_destroy(&clock);
}

void cuda_notices_end(kd_device *d) {
  pthread_mutex_lock(&d->notices_lock);
  while (d->owed)
    pthread_cond_wait(&d->notices_changed, &d->notices_lock);
  d->closing = true;
  pthread_cond_broadcast(&d->notices_changed);
  pthread_mutex_unlock(&d->notices_lock);
  if (d->watched) pthread_join(d->watcher, NULL);
  for (uint32_t i = 0; i < d->side_count; i++) {
    cu.StreamSynchronize(d->sides[i]);
    cu.StreamDestroy(d->sides[i]);
  }
  /* those that the driver never came to, after the device was lost */
  while (d->notices) {
    notice *n = d->notices;
    notice_take_out(n);
    cuda_host->release(cuda_host, n);
  }
  pthread_mutex_destroy(&d->notices_lock);
  pthread_mutex_destroy(&d->sides_lock);
  pthread_cond_destroy(&d->notices_changed);
}
