/* pairs.c - Send and Receive between ranks. They run concurrently with the exchanges of all ranks,
 * and with one another: a message is identified by its number among those of its two ranks, not by
 * its start. */
#include "device/context.h"
#include "memory/access.h"
#include "ranks/group/group.h"
#include "ranks/link/link.h"
#include "trace/trace.h"

#define TAGS \
  0x8000 /* MPI has at least so many; more are not under way at once */

void keel_link_pair_text(const keel_link_job *job, char *text, size_t size) {
  bool named = *job->where;
  snprintf(text, size, "%s%s%s%s %s rank %u (its message %llu)", job->name,
           named ? " \"" : "", job->where, named ? "\"" : "",
           job->what.kind == KEEL_SEND ? "to" : "from",
           (unsigned)job->what.peer, (unsigned long long)job->number);
}

const keel_link_job *keel_link_oldest_pair(const keel_link *link) {
  const keel_link_job *oldest = NULL;
  for (const keel_link_job *at = link->waiting_pairs; at; at = at->next)
    if (at->request && (!oldest || at->began < oldest->began)) oldest = at;
  return oldest;
}

/* ---- one ------------------------------------------------------------------------------------ */

static keel_status pairs_prepare(keel_link *link, keel_link_job *job) {
  if (job->what.kind == KEEL_RECEIVE)
    return keel_tensor_on(&link->context->host, job->what.type, &job->memory);
  KEEL_TRY(keel_tensor_query(job->value)); /* ready, or failed */
  KEEL_TRY(keel_tensor_to_host(job->value, &job->memory));
  if (kd_dtype_size(job->memory->type->dtype)) return KD_OK;
  return keel_fail(KD_UNIMPLEMENTED,
                   "elements of %s, smaller than a byte, can't be sent",
                   keel_dtype_name(job->memory->type->dtype));
}

static keel_status pairs_begin(keel_link *link, keel_link_job *job) {
  bool sends = job->what.kind == KEEL_SEND;
  KEEL_TRY(pairs_prepare(link, job));
  const keel_link_call call = {
      .struct_size = sizeof call,
      .kind = sends ? KEEL_LINK_SEND : KEEL_LINK_RECEIVE,
      .count = job->memory->type->bytes,
      .comm = link->pair_comm,
      .send = job->memory->data,
      .receive = job->memory->data,
      .peer = job->what.peer,
      .tag = (uint32_t)(job->number % TAGS)};
  int error = link->mpi->start(&call, &job->request);
  if (error) return keel_link_error(link, error, "a message cannot begin");
  job->began = keel_now();
  keel_link_busy(link, true);
  return KD_OK;
}

static keel_status pairs_end(keel_link *link, keel_link_job *job) {
  keel_tensor *there = NULL;
  keel_link_busy(link, false);
  if (keel_tracing()) /* several at once, as copies */
    keel_trace_copy(job->name, job->where, job->memory->type->bytes,
                    job->began);
  atomic_fetch_add_explicit(&link->exchanges, 1, memory_order_relaxed);
  if (job->what.kind == KEEL_SEND) {
    atomic_fetch_add_explicit(&link->bytes, job->memory->type->bytes,
                              memory_order_relaxed);
    keel_tensor_follow(job->promise, job->value);
    return KD_OK;
  }
  if (!job->device) {
    keel_tensor_follow(job->promise, job->memory);
    return KD_OK;
  }
  KEEL_TRY(keel_group_move(job->device, job->memory, &there));
  keel_tensor_follow(job->promise, there);
  keel_tensor_release(there);
  return KD_OK;
}

/* Goes on with one. *out_ended: its promise is resolved, or it has failed. */
static keel_status step(keel_link *link, keel_link_job *job, bool arrived,
                        bool *out_ended) {
  int ended = 0;
  *out_ended = false;
  if (!job->request) return arrived ? pairs_begin(link, job) : KD_OK;
  int error = link->mpi->test(job->request, &ended);
  if (error || ended) job->request = NULL;
  if (error) {
    keel_link_busy(link, false);
    return keel_link_error(link, error, "a message fails");
  }
  *out_ended = ended != 0;
  if (ended) return pairs_end(link, job);
  return keel_now() - job->began > link->timeout ? keel_link_ask(link) : KD_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Brings those that were posted to the thread's own list. */
static void take_new(keel_link *link) {
  keel_link_job **last = &link->waiting_pairs;
  while (*last)
    last = &(*last)->next;
  pthread_mutex_lock(&link->lock);
  *last = link->pairs;
  link->pairs = NULL;
  link->last_pair = &link->pairs;
  pthread_mutex_unlock(&link->lock);
}

static bool has_arrived(keel_link *link, const keel_link_job *job) {
  if (job->request) return true;
  pthread_mutex_lock(&link->lock);
  bool arrived = job->arrived;
  pthread_mutex_unlock(&link->lock);
  return arrived;
}

/* Its end, well or not; the job goes. A value that is not known yet comes to its job: that is
 * dropped when it does. */
static void pairs_finish(keel_link *link, keel_link_job *job) {
  if (job->request) {
    keel_link_abandon(job->memory);
    keel_link_busy(link, false);
  }
  if (link->failure) keel_tensor_follow(job->promise, link->failure);
  atomic_fetch_sub_explicit(&link->pair_count, 1, memory_order_relaxed);
  keel_link_drop_job(job);
}

/* A failure that is not the link's yet becomes it. */
static void pairs_fail(keel_link *link, const keel_link_job *job,
                       keel_status status) {
  char text[160];
  if (link->failure) return;
  keel_link_pair_text(job, text, sizeof text);
  if (!job->began) keel_while(status, "before %s", text);
  keel_link_fail(link, status, true);
}

void keel_link_step_pairs(keel_link *link) {
  uint32_t under_way = 0;
  take_new(link);
  for (keel_link_job **at = &link->waiting_pairs; *at;) {
    keel_link_job *job = *at;
    bool arrived = has_arrived(link, job), ended = false;
    if (!link->failure) {
      keel_status status = step(link, job, arrived, &ended);
      if (status != KD_OK) pairs_fail(link, job, status);
    }
    if (ended || (link->failure && arrived)) {
      *at = job->next;
      pairs_finish(link, job);
    } else {
      under_way += job->request != NULL;
      at = &job->next;
    }
  }
  link->pairs_under_way = under_way;
}
