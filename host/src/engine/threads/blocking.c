/* blocking.c - a queue of tasks, and threads that start and end on demand. */
#include "threads/blocking.h"

#include <pthread.h>
#include <time.h>

#include "trace/trace.h"

#define THREADS_MOST 64
#define IDLE_SECONDS 2 /* after which an idle thread ends */

struct keel_blocking {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  keel_task *first, *last;
  uint32_t waiting; /* tasks in the list */
  uint32_t threads, idle, named;
  /* the last thread that ended, to be joined by the next one */
  pthread_t ended;
  bool has_ended, stop;
};

keel_status keel_blocking_create(keel_blocking **out_blocking) {
  keel_blocking *all = calloc(1, sizeof *all);
  *out_blocking = all;
  if (!all) return keel_no_memory(sizeof *all);
  pthread_mutex_init(&all->lock, NULL);
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&all->changed, &attr);
  pthread_condattr_destroy(&attr);
  return KD_OK;
}

void keel_blocking_destroy(keel_blocking *all) {
  if (!all) return;
  pthread_mutex_lock(&all->lock);
  all->stop = true;
  pthread_cond_broadcast(&all->changed);
  while (all->threads)
    pthread_cond_wait(&all->changed, &all->lock);
  pthread_mutex_unlock(&all->lock);
  /* join: a thread's free lists must drain before the heaps are destroyed */
  if (all->has_ended) pthread_join(all->ended, NULL);
  pthread_cond_destroy(&all->changed);
  pthread_mutex_destroy(&all->lock);
  free(all);
}

/* Waits for the next task; NULL: the thread must end. With the lock held. */
static keel_task *next_task(keel_blocking *all) {
  struct timespec until;
  assert(KEEL_IS_LOCKED(&all->lock));
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += IDLE_SECONDS;
  all->idle++;
  int late = 0;
  while (!all->first && !all->stop && !late)
    late = pthread_cond_timedwait(&all->changed, &all->lock, &until);
  all->idle--;
  keel_task *task = all->first;
  assert(!task == !all->waiting);
  if (!task) return NULL;
  all->first = task->next;
  if (!all->first) all->last = NULL;
  all->waiting--;
  return task;
}

static void *blocking_work(void *argument) {
  keel_blocking *all = argument;
  pthread_mutex_lock(&all->lock);
  keel_trace_thread("blocking", ++all->named);
  for (keel_task *task; (task = next_task(all));) {
    pthread_mutex_unlock(&all->lock);
    task->run(task);
    pthread_mutex_lock(&all->lock);
  }
  pthread_t before = all->ended;
  bool joins = all->has_ended;
  all->ended = pthread_self();
  all->has_ended = true;
  assert(all->threads);
  all->threads--;
  pthread_cond_broadcast(&all->changed);
  pthread_mutex_unlock(&all->lock);
  if (joins) pthread_join(before, NULL);
  return NULL;
}

/* With the lock held. */
static bool add_thread(keel_blocking *all) {
  pthread_t thread;
  bool made = pthread_create(&thread, NULL, blocking_work, all) == 0;
  all->threads += made;
  return made;
}

void keel_blocking_submit(keel_blocking *all, keel_task *task) {
  pthread_mutex_lock(&all->lock);
  if (all->idle <= all->waiting && all->threads < THREADS_MOST &&
      !add_thread(all) && !all->threads) {
    pthread_mutex_unlock(&all->lock);
    task->run(task);
    return;
  }
  task->next = NULL;
  if (all->last)
    all->last->next = task;
  else
    all->first = task;
  all->last = task;
  all->waiting++;
  pthread_cond_broadcast(&all->changed);
  pthread_mutex_unlock(&all->lock);
}
