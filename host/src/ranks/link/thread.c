/* thread.c - the link's thread, which makes all calls of the module. */
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "device/context.h"
#include "ranks/link/link.h"
#include "threads/pool.h"
#include "trace/trace.h"

#define IDLE 100000000u /* nanoseconds between two looks for notes */

/* ---- failures ------------------------------------------------------------------------- */

keel_status keel_link_error(const keel_link *link, int error,
                            const char *what) {
  return keel_fail(KD_UNAVAILABLE, "%s: %s: %s", link->path, what,
                   link->mpi->message(error));
}

void keel_link_fail(keel_link *link, keel_status status, bool tell) {
  keel_tensor *failed = keel_tensor_failed(link->context, status);
  pthread_mutex_lock(&link->lock);
  bool first = !link->failure;
  if (first && !failed) {
    failed = link->spare;
    link->spare = NULL;
  }
  if (first) link->failure = failed;
  pthread_mutex_unlock(&link->lock);
  if (!first)
    keel_tensor_release(failed);
  else if (tell)
    keel_link_tell_failure(link, status);
}

void keel_link_notice_lost(keel_link *link) {
  pthread_mutex_lock(&link->lock);
  keel_tensor *lost = link->lost;
  link->lost = NULL;
  pthread_mutex_unlock(&link->lock);
  if (lost) keel_link_fail(link, keel_tensor_query(lost), true);
  keel_tensor_release(lost);
}

/* ---- posted tasks ----------------------------------------------------------------------- */

static void wait_a_little(keel_link *link) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += IDLE;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&link->work, &link->lock, &until);
  if (keel_now() - link->heard < IDLE) return;
  pthread_mutex_unlock(&link->lock);
  keel_link_hear(link);
  link->heard = keel_now();
  pthread_mutex_lock(&link->lock);
}

/* Steps Sends and Receives; tests less often, the longer none ends. Without the lock. */
static void step_pairs(keel_link *link, uint64_t *asked) {
  uint32_t before =
      atomic_load_explicit(&link->pair_count, memory_order_relaxed);
  keel_link_step_pairs(link);
  bool moves =
      before != atomic_load_explicit(&link->pair_count, memory_order_relaxed);
  *asked = moves ? 0 : *asked + 1;
  if (*asked % 256 == 255) keel_link_hear(link);
  if (link->pairs_under_way) keel_link_rest(link, *asked);
}

/* A thread that posts next may want this core, and need not wake this thread then. With the
 * lock. */
static void give_way(keel_link *link) {
  pthread_mutex_unlock(&link->lock);
  sched_yield();
  pthread_mutex_lock(&link->lock);
}

/* Waits until there may be work, and steps Sends and Receives. With the lock. gave_way: it has
 * yielded, as there was no work. */
static void wait_for_work(keel_link *link, uint64_t *asked, bool *gave_way) {
  if (!link->news && !link->pairs_under_way) {
    if (*gave_way)
      wait_a_little(link);
    else
      give_way(link);
    *gave_way = true;
  }
  link->news = false;
  bool steps = link->waiting_pairs || link->pairs;
  if (!steps && !link->lost) return;
  pthread_mutex_unlock(&link->lock);
  keel_link_notice_lost(link);
  if (steps) step_pairs(link, asked);
  pthread_mutex_lock(&link->lock);
}

static bool is_over(const keel_link *link) {
  return link->stop && !link->first && !link->pairs && !link->waiting_pairs;
}

/* The next one, when its value is known; NULL: the link is closed. */
static keel_link_job *next_job(keel_link *link) {
  uint64_t asked = 0;
  bool gave_way = !link->crowded;
  pthread_mutex_lock(&link->lock);
  while (!link->last_words && !(link->first && link->first->arrived) &&
         !is_over(link))
    wait_for_work(link, &asked, &gave_way);
  bool ends = link->last_words != NULL;
  keel_link_job *job = ends ? NULL : link->first;
  if (job) {
    link->first = job->next;
    if (!link->first) link->last = &link->first;
  }
  pthread_mutex_unlock(&link->lock);
  if (ends) keel_link_end(link);
  return job;
}

static void thread_gather(keel_link *link, keel_link_job *job) {
  keel_status status = link->failure ? keel_tensor_query(link->failure) : KD_OK;
  link->gathers = true;
  if (status == KD_OK)
    status = keel_link_collect(link, NULL, link->world.size, job->given,
                               job->size, job->taken);
  link->gathers = false;
  if (status != KD_OK) keel_link_fail(link, status, true);
  pthread_mutex_lock(&link->lock);
  job->status = status;
  job->ended = true;
  pthread_cond_broadcast(&link->done);
  pthread_mutex_unlock(&link->lock);
}

static void thread_exchange(keel_link *link, keel_link_job *job) {
  bool named = *job->where;
  keel_link_notice_lost(link);
  link->position = job->number;
  link->inside = true;
  snprintf(link->at, sizeof link->at, "%s%s%s%s", job->name, named ? " \"" : "",
           job->where, named ? "\"" : "");
  uint64_t began = keel_tracing() ? keel_now() : 0;
  keel_link_exchange(link, job);
  if (began) keel_trace_span(job->name, "link", job->where, began);
  link->inside = false;
  link->position++;
  keel_link_drop_job(job);
}

/* Whether the link's thread has no core beside those that compute. */
static bool is_crowded(const keel_link *link) {
  cpu_set_t set;
  long cores = sysconf(_SC_NPROCESSORS_ONLN) / (long)link->world.local_size;
  long bound =
      sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : cores;
  return cores < 2 || bound < 2;
}

static int thread_join(keel_link *link) {
  link->world = (keel_link_world){.struct_size = sizeof link->world};
  int error = link->mpi->open(&link->world);
  if (!error) error = link->mpi->split(0, link->world.rank, &link->pair_comm);
  if (!error && link->world.size > 1)
    error = link->mpi->split(0, link->world.rank, &link->leaving);
  return error;
}

/* False: the caller no longer waits for it. */
static bool has_joined(keel_link *link) {
  pthread_mutex_lock(&link->lock);
  bool wanted = link->opening == OPENING;
  if (wanted) link->opening = JOINED;
  pthread_mutex_unlock(&link->lock);
  return wanted;
}

/* How many Sends and Receives there were, by rank. */
static keel_status make_counters(keel_link *link) {
  uint32_t size = link->world.size;
  link->sent = calloc(size, sizeof *link->sent);
  link->received = calloc(size, sizeof *link->received);
  return link->sent && link->received
             ? KD_OK
             : keel_no_memory(size * sizeof *link->sent);
}

/* Whether the link is open. */
static bool open_module(keel_link *link) {
  int error = thread_join(link);
  if (!has_joined(link)) return false;
  keel_status status = error ? keel_link_error(link, error, "MPI cannot start")
                             : make_counters(link);
  if (status != KD_OK)
    keel_link_fail(link, status, false);
  else
    link->crowded = is_crowded(link);
  keel_pool_set_crowded(link->context->pool, link->crowded);
  pthread_mutex_lock(&link->lock);
  link->opening = OPENED;
  link->open_status = status;
  pthread_cond_broadcast(&link->done);
  pthread_mutex_unlock(&link->lock);
  return status == KD_OK;
}

/* All leave together. An early rank receives the others' notes meanwhile, and reports its position,
 * neither of which MPI does when it ends. There is no deadline: the others may compute for long. */
static void thread_leave(keel_link *link) {
  const keel_link_call call = {.struct_size = sizeof call,
                               .kind = KEEL_LINK_BARRIER,
                               .comm = link->leaving};
  if (link->failure || !link->leaving) return;
  link->timeout = UINT64_MAX;
  link->left = true;
  keel_status status = keel_link_run(link, &call, 1);
  if (status == KD_OK) {
    link->mpi->release(link->leaving);
    return;
  }
  keel_link_fail(link, status, true);
  /* the rank that has failed may say so before this process ends */
  keel_link_hear_last(link, 3);
}

static void free_parts(keel_link *link) {
  while (link->parts) {
    keel_link_part *part = link->parts;
    link->parts = part->next;
    if (!link->failure) link->mpi->release(part->comm);
    free(part);
  }
}

void *keel_link_thread(void *self) {
  keel_link *link = self;
  keel_trace_thread("link", 0);
  if (!open_module(link)) return NULL;
  for (keel_link_job *job; (job = next_job(link));)
    if (job->promise)
      thread_exchange(link, job);
    else
      thread_gather(link, job);
  thread_leave(
      link); /* together, so that no group's end waits for one that computes */
  keel_link_leave(link);
  keel_link_drop_lane(link);
  free_parts(link);
  if (!link->failure) link->mpi->release(link->pair_comm);
  if (!link->failure) link->mpi->close();
  keel_pool_set_crowded(link->context->pool, false);
  return NULL;
}
