/* written.c - reports when the work that writes a value has ended.
 *
 * An event behind that work reports it. Later requests for work before the event share the event
 * until it has passed, as the outputs of a run do. The value itself is released as soon as it is
 * ready, so that the holder of the only other reference may donate it: the ticket of its work shows
 * later whether it failed (device/failures.h). */
#include "device/context.h"
#include "device/failures.h"
#include "device/stream.h"
#include "memory/transfer.h"
#include "threads/pool.h"
#include "values/tensor.h"

typedef struct keel_notice watch;

struct keel_notice {
  keel_waiter
      waiter; /* must be first: cast from keel_waiter; until the value is known */
  keel_task task; /* then this */
  keel_tensor *tensor;
  keel_device *device;
  watch *next,
      *joined; /* those that share this one's event; guarded by watch_lock */
  kd_event *event; /* NULL: another's, or none */
  uint64_t ticket; /* of the work that writes the value, */
  uint64_t behind; /* and of the last before the event */
  kd_status status;
  /* Counts the callback and the call that registered it, which may return later. */
  atomic_uint holds;
  void (*function)(void *context, keel_status status);
  void *context;
};

static watch *of_task(keel_task *task) {
  return (watch *)(void *)((char *)task - offsetof(watch, task));
}

/* Tells, on a thread that may wait and may call the plugin. */
static void written_tell(keel_task *task) {
  watch *w = of_task(task);
  keel_device *device = w->device;
  keel_status status = KD_OK;
  if (w->status != KD_OK) {
    status = keel_transfers_settle(device);
    /* others' failures are not this value's */
    if (status != KD_DEVICE_LOST) status = keel_failures_of(device, w->ticket);
  }
  if (w->event) device->plugin->events.destroy(w->event);
  w->function(w->context, status);
  free(w);
  /* release: pairs with the acquire in keel_transfers_end */
  atomic_fetch_sub_explicit(&device->transfers.under_way, 1,
                            memory_order_release);
}

static void hand_over(watch *w) {
  keel_pool *pool = w->device->context->pool;
  if (keel_pool_size(pool) > 1 && w->status == KD_OK)
    keel_pool_post(pool, &w->task);
  else /* there may be no thread to run it, or it waits */
    keel_pool_submit_apart(pool, &w->task);
}

/* The last of the two hands over, with those that have joined. */
static void written_let_go(watch *w) {
  /* acq_rel: the last one sees what the other wrote */
  if (atomic_fetch_sub_explicit(&w->holds, 1, memory_order_acq_rel) != 1)
    return;
  for (watch *one = w->joined, *next; one; one = next) {
    next = one->next;
    one->status = w->status;
    hand_over(one);
  }
  hand_over(w);
}

/* ---- an event that several share --------------------------------------------------- */

/* Whether it has joined one whose event is behind its work, too. */
static bool written_join(watch *w) {
  keel_device *device = w->device;
  pthread_mutex_lock(&device->watch_lock);
  watch *lead = device->watched;
  bool joins = lead && w->ticket <= lead->behind;
  if (joins) {
    w->next = lead->joined;
    lead->joined = w;
  }
  pthread_mutex_unlock(&device->watch_lock);
  return joins;
}

static void lead(watch *w) {
  pthread_mutex_lock(&w->device->watch_lock);
  w->device->watched = w;
  pthread_mutex_unlock(&w->device->watch_lock);
}

/* From here on no request joins it. */
static void lead_no_more(watch *w) {
  pthread_mutex_lock(&w->device->watch_lock);
  if (w->device->watched == w) w->device->watched = NULL;
  pthread_mutex_unlock(&w->device->watch_lock);
}

/* ---- the event -------------------------------------------------------------------------- */

/* On a driver's thread. */
static void passed(void *context, kd_status status, const char *why) {
  watch *w = context;
  keel_device *device = w->device;
  (void)why; /* settling has it */
  lead_no_more(w);
  w->status = status;
  if (status == KD_OK) keel_failures_passed(device, w->behind);
  written_let_go(w);
  atomic_fetch_sub_explicit(&device->transfers.under_way, 1,
                            memory_order_release);
}

/* Records an event behind the work, unless that has failed already. */
static kd_status written_record(watch *w) {
  keel_device *device = w->device;
  kd_status status =
      device->plugin->events.create(device->handle, 0, &w->event);
  if (status != KD_OK) {
    w->event = NULL;
    return status;
  }
  w->behind = device->failures.ticket;
  return keel_stream_record(device, device->stream, w->event);
}

/* With the stream's lock, so that the next request sees which one it may join. */
static kd_status written_mark(watch *w, bool *out_joined) {
  keel_device *device = w->device;
  pthread_mutex_lock(&device->stream_lock);
  kd_status status = keel_failures_of_locked(device, w->ticket);
  *out_joined = status == KD_OK && written_join(w);
  if (status == KD_OK && !*out_joined) {
    status = written_record(w);
    if (status == KD_OK) lead(w);
  }
  pthread_mutex_unlock(&device->stream_lock);
  return status;
}

static void written_begin(watch *w) {
  keel_device *device = w->device;
  const kd_event_table *events = &device->plugin->events;
  kd_status status = KD_UNIMPLEMENTED;
  bool joined = false;
  atomic_init(&w->holds, 2);
  /* once until it has been called, and once until the callback has returned */
  atomic_fetch_add_explicit(&device->transfers.under_way, 2,
                            memory_order_relaxed);
  if (events->on_complete) status = written_mark(w, &joined);
  if (status == KD_OK && !joined) {
    status = events->on_complete(w->event, passed, w);
    if (status == KD_OK) {
      written_let_go(w);
      return;
    }
    lead_no_more(w);
  }
  if (!joined) { /* without an event: a wait for all of the device reports it */
    w->status = status;
    atomic_init(&w->holds, 1);
    written_let_go(w);
  }
  atomic_fetch_sub_explicit(&device->transfers.under_way, 1,
                            memory_order_release);
}

static void known(keel_waiter *waiter) {
  watch *w = (watch *)(void *)waiter;
  keel_tensor *tensor = w->tensor;
  keel_status status = keel_tensor_query(tensor);
  bool data = status == KD_OK && tensor->kind == KEEL_DATA && tensor->buffer;
  w->device = data ? keel_tensor_location(tensor) : NULL;
  if (w->device && w->device->stream) {
    w->ticket =
        atomic_load_explicit(&tensor->buffer->written, memory_order_relaxed);
    keel_tensor_release(tensor);
    written_begin(w);
    return;
  }
  keel_tensor_release(tensor);
  w->function(w->context, status);
  free(w);
}

keel_status keel_tensor_on_written(keel_tensor *tensor,
                                   void (*function)(void *context,
                                                    keel_status status),
                                   void *function_context) {
  watch *w = calloc(1, sizeof *w);
  if (!w) return keel_no_memory(sizeof *w);
  w->waiter.call = known;
  w->task.run = written_tell;
  w->tensor = keel_tensor_retain(tensor);
  w->function = function;
  w->context = function_context;
  keel_tensor_then(tensor, &w->waiter);
  return KD_OK;
}
