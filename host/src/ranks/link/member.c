/* member.c - this rank's handle, for a program's exchanges with other processes. Callers do not
 * wait here; the link's thread does. */
#include "base/refs.h"
#include "device/context.h"
#include "device/device.h"
#include "ranks/link/link.h"

typedef struct linked_member {
  keel_member member; /* must be first: cast from keel_member */
  keel_link *link;
  keel_device *device; /* NULL: the host */
} linked_member;

static void value_came(keel_waiter *waiter) {
  keel_link_job *job = (keel_link_job *)(void *)waiter;
  keel_link *link = job->link;
  pthread_mutex_lock(&link->lock);
  job->arrived = true; /* from now on the thread may end the job */
  link->news = true;
  atomic_fetch_add_explicit(&link->wakers, 1, memory_order_relaxed);
  pthread_mutex_unlock(&link->lock);
  /* with the lock, the thread would wake to wait for it */
  pthread_cond_signal(&link->work);
  atomic_fetch_sub_explicit(&link->wakers, 1, memory_order_release);
}

void keel_link_drop_job(keel_link_job *job) {
  keel_tensor_release(job->value);
  keel_tensor_release(job->promise);
  keel_tensor_release(job->memory);
  free(job);
}

static keel_link_job *make_job(const linked_member *self,
                               const keel_exchange *what, const char *name,
                               const char *where, keel_tensor *value) {
  size_t ranks = (size_t)what->rank_count * sizeof(int64_t);
  keel_link_job *job = calloc(1, sizeof *job + ranks);
  if (!job) {
    keel_no_memory(sizeof *job + ranks);
    return NULL;
  }
  job->promise = keel_tensor_pending(self->link->context);
  if (!job->promise) {
    free(job);
    return NULL;
  }
  job->arrival.call = value_came;
  job->link = self->link;
  job->what = *what;
  if (ranks) job->what.ranks = memcpy(job + 1, what->ranks, ranks);
  job->device = self->device;
  if (value) job->value = keel_tensor_retain(value);
  job->arrived = !value;
  job->name = name;
  snprintf(job->where, sizeof job->where, "%s", where);
  return job;
}

static keel_status member_meet(keel_member *member, const keel_exchange *what,
                               const char *name, const char *where,
                               keel_tensor *value, keel_tensor **out_value) {
  linked_member *self = (linked_member *)(void *)member;
  keel_link_job *job = make_job(self, what, name, where, value);
  if (!job) return KD_OUT_OF_MEMORY;
  keel_tensor *promise = keel_tensor_retain(job->promise);
  keel_status status = keel_link_post(self->link, job);
  if (status == KD_OK) {
    *out_value = promise;
    if (value) keel_tensor_then(value, &job->arrival);
    return KD_OK;
  }
  keel_tensor_resolve_failed(promise, status); /* it has no reference */
  keel_tensor_release(promise);
  keel_link_drop_job(job);
  return status;
}

static void lose(keel_member *member, keel_tensor *failure) {
  keel_link *link = ((linked_member *)(void *)member)->link;
  pthread_mutex_lock(&link->lock);
  if (!link->lost) link->lost = keel_tensor_retain(failure);
  link->news = true;
  pthread_cond_signal(&link->work);
  pthread_mutex_unlock(&link->lock);
}

static void member_leave(keel_member *member) {
  linked_member *self = (linked_member *)(void *)member;
  keel_link *link = self->link;
  pthread_mutex_lock(&link->lock);
  bool last = !--link->members && link->closed;
  pthread_mutex_unlock(&link->lock);
  if (last) keel_link_free(link);
  free(self);
}

keel_status keel_link_member(keel_link *link, keel_device *device,
                             keel_tensor **out_member) {
  *out_member = NULL;
  if (device) KEEL_TRY(keel_device_ready(device));
  linked_member *self = calloc(1, sizeof *self);
  if (!self) return keel_no_memory(sizeof *self);
  *self = (linked_member){{.rank = link->world.rank,
                           .size = link->world.size,
                           .meet = member_meet,
                           .lose = lose,
                           .leave = member_leave},
                          link,
                          device};
  keel_status status =
      keel_member_value(link->context, &self->member, out_member);
  if (status != KD_OK) {
    free(self);
    return status;
  }
  pthread_mutex_lock(&link->lock);
  link->members++;
  pthread_mutex_unlock(&link->lock);
  return KD_OK;
}
