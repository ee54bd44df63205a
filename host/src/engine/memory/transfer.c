/* transfer.c - asynchronous copies.
 *
 * Copies out use a second stream of the device, where they wait for the work that makes
 * their source, so that the device continues with other work. Copies in use the main
 * stream, because earlier work may still use their target. Sources are retained until an
 * event says that the device has passed them. */
#include "memory/transfer.h"

#include <sched.h>

#include "device/backoff.h"
#include "device/context.h"
#include "device/failures.h"
#include "device/lost.h"
#include "device/stream.h"
#include "memory/copy.h"
#include "memory/mapped.h"
#include "threads/pool.h"
#include "trace/trace.h"

typedef struct keel_transfer {
  keel_task task; /* must be first: cast from keel_task */
  keel_device *device;
  kd_event *event;
  kd_status status;
  uint64_t began;  /* start time for a trace; 0: none runs */
  uint64_t ticket; /* of the copy in, or of the last work before the copy out */
  keel_tensor *source;
  /* no copy: the source is mapped when its work is done */
  keel_tensor *target;
  keel_tensor *result; /* pending until the data is in `target`; or NULL */
  /* Counts the callback and the call that registered it, which may return later; both use
   * the event. */
  atomic_uint holds;
  char why[256]; /* the device's reason for a failure */
  void (*ended)(struct keel_transfer *transfer);
} keel_transfer;

/* ---- ends ----------------------------------------------------------------- */

/* Each transfer counts twice in `under_way`: until its callback has returned, and until it
 * is freed. The context is not touched after that. */
static void count_down(keel_device *device, unsigned by) {
  /* release: pairs with the acquire in keel_transfers_end */
  atomic_fetch_sub_explicit(&device->transfers.under_way, by,
                            memory_order_release);
}

static void put_away(keel_transfer *transfer) {
  keel_device *device = transfer->device;
  if (transfer->event) device->plugin->events.destroy(transfer->event);
  keel_tensor_release(transfer->source);
  keel_tensor_release(transfer->target);
  keel_tensor_release(transfer->result);
  free(transfer);
  count_down(device, 1);
}

keel_status keel_transfers_settle(keel_device *device) {
  keel_transfers *all = &device->transfers;
  pthread_mutex_lock(&all->lock);
  kd_stream *outward = all->stream;
  pthread_mutex_unlock(&all->lock);
  keel_status other =
      outward ? keel_stream_finish(device, outward, &all->lock) : KD_OK;
  /* the work that the copies waited for has the better reason */
  keel_status status = keel_device_drain(device);
  return status == KD_OK ? other : status;
}

/* Fails with the device's own reason, if it gives one. */
static keel_status transfer_failed(const keel_transfer *transfer) {
  const keel_device *device = transfer->device;
  return keel_fail(
      transfer->status, "%s: a copy of %llu bytes failed: %s", device->name,
      (unsigned long long)transfer->target->type->bytes,
      *transfer->why ? transfer->why : keel_status_name(transfer->status));
}

static keel_status reason(const keel_transfer *transfer) {
  keel_status status = keel_transfers_settle(transfer->device);
  /* the stream's failure may be of other work, or already reported */
  if (status != KD_OK && !*transfer->why) return status;
  transfer_failed(transfer);
  keel_failures_while(transfer->source->buffer, transfer->status);
  return keel_device_check(transfer->device, transfer->status);
}

static void arrive_mapped(const keel_transfer *transfer) {
  keel_tensor *here = NULL;
  keel_status status = keel_mapped_or_copy(transfer->source, true, &here);
  if (status == KD_OK)
    keel_tensor_resolve(transfer->result, here);
  else
    keel_tensor_resolve_failed(transfer->result, status);
  keel_tensor_release(here);
}

/* Ends a copy out. Runs on the pool. */
static void arrive(keel_task *task) {
  keel_transfer *transfer = (keel_transfer *)(void *)task;
  if (transfer->status != KD_OK)
    keel_tensor_resolve_failed(transfer->result, reason(transfer));
  else if (transfer->target == transfer->source)
    arrive_mapped(transfer);
  else
    keel_tensor_resolve(transfer->result, transfer->target);
  put_away(transfer);
}

static void out_ended(keel_transfer *transfer) {
  keel_pool_post(transfer->device->context->pool, &transfer->task);
}

static void reap(keel_task *task) {
  put_away((keel_transfer *)(void *)task);
}

/* The stream keeps a failure for the next wait on it. */
static void in_ended(keel_transfer *transfer) {
  transfer->task.run = reap;
  keel_stream_keep(transfer->device, &transfer->task);
}

/* The last of the two continues. */
static void transfer_let_go(keel_transfer *transfer) {
  /* acq_rel: the last one sees what the other wrote */
  if (atomic_fetch_sub_explicit(&transfer->holds, 1, memory_order_acq_rel) == 1)
    transfer->ended(transfer);
}

static void copied(void *context, kd_status status, const char *why) {
  keel_transfer *transfer = context;
  keel_device *device = transfer->device;
  transfer->status = status;
  if (status == KD_OK)
    keel_failures_passed(device, transfer->ticket);
  else
    snprintf(transfer->why, sizeof transfer->why, "%s", why);
  if (transfer->began && keel_tracing())
    keel_trace_copy(transfer->ended == out_ended ? "copy out" : "copy in",
                    device->name, transfer->target->type->bytes,
                    transfer->began);
  transfer_let_go(transfer);
  count_down(device, 1);
}

void keel_transfers_end(keel_device *device) {
  atomic_uint *under_way = &device->transfers.under_way;
  if (!atomic_load_explicit(under_way, memory_order_acquire)) return;
  keel_device_drain(device); /* also submits work that the plugin holds back */
  /* acquire: pairs with the release of each decrement */
  while (atomic_load_explicit(under_way, memory_order_acquire)) {
    keel_stream_reap(device);
    if (!keel_pool_help(device->context->pool)) sched_yield();
  }
}

/* ---- begins --------------------------------------------------------------- */

/* Makes the stream's later work wait for the event. */
static kd_status hold(keel_device *device, kd_stream *stream, kd_event *event) {
  keel_backoff backoff = {0};
  kd_status status;
  do
    status = device->plugin->streams.wait(stream, event);
  while (keel_backoff_retry(device, stream, &backoff, &status));
  return status;
}

static kd_status enqueue_in(keel_transfer *transfer) {
  keel_device *device = transfer->device;
  const keel_tensor *target = transfer->target;
  keel_backoff backoff = {0};
  kd_status status;
  pthread_mutex_lock(&device->stream_lock);
  keel_stream_tag(device, device->stream);
  transfer->ticket =
      keel_copy_begins(device, target->buffer, "a copy in", target->type);
  do
    status = device->plugin->memory.copy_in(
        device->handle, device->stream, transfer->source->data,
        target->buffer->handle, target->offset, target->type->bytes);
  while (keel_backoff_retry(device, device->stream, &backoff, &status));
  if (status == KD_OK)
    status = keel_stream_record(device, device->stream, transfer->event);
  pthread_mutex_unlock(&device->stream_lock);
  return status;
}

/* Records the event after the work that makes the source. The event reports its failure,
 * unless a wait has reported it already: then this does. */
static kd_status transfer_mark(keel_transfer *transfer, keel_device *device) {
  pthread_mutex_lock(&device->stream_lock);
  kd_status status = keel_failures_check_locked(transfer->source->buffer);
  if (status == KD_OK)
    status = keel_stream_record(device, device->stream, transfer->event);
  transfer->ticket = device->failures.ticket;
  pthread_mutex_unlock(&device->stream_lock);
  return status;
}

/* Moves nothing: the mapping waits for the work before it. */
static kd_status enqueue_mark(keel_transfer *transfer) {
  return transfer_mark(transfer, transfer->device);
}

static kd_status enqueue_out(keel_transfer *transfer) {
  keel_device *device = transfer->device;
  keel_transfers *all = &device->transfers;
  const keel_plugin *plugin = device->plugin;
  const keel_tensor *source = transfer->source;
  keel_backoff backoff = {0};
  kd_status status = transfer_mark(transfer, device);
  pthread_mutex_lock(&all->lock);
  if (status == KD_OK) status = hold(device, all->stream, transfer->event);
  if (status == KD_OK) {
    keel_stream_tag(device, all->stream);
    do
      status = plugin->memory.copy_out(
          device->handle, all->stream, source->buffer->handle, source->offset,
          transfer->target->data, source->type->bytes);
    while (keel_backoff_retry(device, all->stream, &backoff, &status));
  }
  if (status == KD_OK)
    status = keel_stream_record(device, all->stream, transfer->event);
  pthread_mutex_unlock(&all->lock);
  return status;
}

/* Enqueues on the target device's stream, after the source's work. */
static kd_status enqueue_peer(keel_transfer *transfer) {
  keel_device *to = transfer->device;
  keel_device *from = keel_tensor_location(transfer->source);
  const keel_tensor *source = transfer->source, *target = transfer->target;
  keel_backoff backoff = {0};
  kd_status status = transfer_mark(transfer, from);
  if (status != KD_OK) return status;
  pthread_mutex_lock(&to->stream_lock);
  transfer->ticket = keel_copy_begins(
      to, target->buffer, "a copy from another device", target->type);
  status = hold(to, to->stream, transfer->event);
  if (status == KD_OK) {
    do
      status = to->plugin->peer.copy(from->handle, source->buffer->handle,
                                     source->offset, to->handle, to->stream,
                                     target->buffer->handle, target->offset,
                                     target->type->bytes);
    while (keel_backoff_retry(to, to->stream, &backoff, &status));
  }
  if (status == KD_OK)
    status = keel_stream_record(to, to->stream, transfer->event);
  pthread_mutex_unlock(&to->stream_lock);
  return status;
}

/* Enqueues the copy, and registers for its completion. */
static keel_status transfer_start(
    keel_transfer *transfer, kd_status (*enqueue)(keel_transfer *transfer)) {
  keel_device *device = transfer->device;
  const kd_event_table *events = &device->plugin->events;
  transfer->began = keel_tracing() ? keel_now() : 0;
  keel_clear_error();
  kd_status status = events->create(device->handle, 0, &transfer->event);
  if (status != KD_OK) transfer->event = NULL;
  if (status == KD_OK) status = enqueue(transfer);
  if (status == KD_OK)
    status = events->on_complete(transfer->event, copied, transfer);
  if (status == KD_OK) {
    transfer_let_go(transfer);
    return KD_OK;
  }
  transfer->status = status = keel_device_check(device, status);
  char said[512];
  snprintf(said, sizeof said, "%s", keel_has_error() ? keel_message() : "");
  if (keel_transfers_settle(device) == KD_OK && *said)
    keel_fail_text(status, said);
  return *said ? status : transfer_failed(transfer);
}

static keel_status transfer_make(keel_device *device, keel_tensor *source,
                                 keel_tensor *target,
                                 keel_transfer **out_transfer) {
  keel_transfer *transfer = calloc(1, sizeof *transfer);
  if (!transfer) return keel_no_memory(sizeof *transfer);
  transfer->task.run = arrive;
  transfer->target = keel_tensor_retain(target);
  transfer->device = device;
  transfer->source = keel_tensor_retain(source);
  atomic_fetch_add_explicit(&device->transfers.under_way, 2,
                            memory_order_relaxed);
  *out_transfer = transfer;
  return KD_OK;
}

/* Ends a transfer of a plugin without callbacks. */
static void transfer_drop(keel_transfer *transfer) {
  keel_device *device = transfer->device;
  put_away(transfer);
  count_down(device, 1);
}

/* pending: *out_tensor is resolved when the data has arrived. */
static keel_status transfer_begin(keel_device *device, keel_tensor *source,
                                  keel_tensor *target,
                                  kd_status (*enqueue)(keel_transfer *transfer),
                                  bool pending, keel_tensor **out_tensor) {
  keel_transfer *transfer = NULL;
  KEEL_TRY(transfer_make(device, source, target, &transfer));
  if (pending) {
    transfer->result = keel_tensor_pending(device->context);
    if (!transfer->result) {
      transfer_drop(transfer);
      return KD_OUT_OF_MEMORY;
    }
  }
  keel_tensor *outcome = transfer->result;
  if (outcome)
    keel_tensor_retain(outcome); /* it may end before start returns */
  atomic_init(&transfer->holds, 2);
  transfer->ended = pending ? out_ended : in_ended;
  keel_status status = transfer_start(transfer, enqueue);
  if (status != KD_OK) {
    transfer_drop(transfer);
    keel_tensor_release(outcome);
    return status;
  }
  if (pending) *out_tensor = outcome;
  return KD_OK;
}

static keel_status begin_out(keel_tensor *tensor, keel_device *from,
                             keel_tensor **out_tensor) {
  keel_tensor *target = NULL;
  KEEL_TRY(keel_tensor_on(&from->context->host, tensor->type, &target));
  keel_status status =
      transfer_begin(from, tensor, target, enqueue_out, true, out_tensor);
  keel_tensor_release(target);
  return status;
}

/* ---- which way ------------------------------------------------------------ */

/* Creates the stream for copies out, once. If the device has no stream left, such copies
 * are synchronous. */
static bool has_outward(keel_device *device) {
  keel_transfers *all = &device->transfers;
  pthread_mutex_lock(&all->lock);
  if (!all->stream && device->plugin->streams.create(device->handle, 0, 0,
                                                     &all->stream) != KD_OK)
    all->stream = NULL;
  bool has = all->stream;
  pthread_mutex_unlock(&all->lock);
  return has;
}

static bool tells_ends(const keel_device *device) {
  return device->stream && device->plugin->events.on_complete;
}

bool keel_transfer_direct(const keel_device *from, const keel_device *to) {
  return from->plugin == to->plugin && from->plugin->peer.copy &&
         from->plugin->peer.reachable(from->handle, to->handle);
}

keel_status keel_transfer_into(keel_tensor *tensor, keel_tensor *target) {
  keel_device *device = keel_tensor_location(target);
  keel_device *from = keel_tensor_location(tensor);
  bool here = keel_device_addressable(from);
  keel_stream_reap(device);
  if (tensor->layout != KD_LAYOUT_ROW_MAJOR || !tensor->type->bytes ||
      keel_device_addressable(device) || !tells_ends(device))
    return keel_copy_into(tensor, target);
  if (here && !keel_buffer_borrowed(tensor->buffer) && (!from || !from->stream))
    return transfer_begin(device, tensor, target, enqueue_in, false, NULL);
  if (!here && from->stream && keel_transfer_direct(from, device))
    return transfer_begin(device, tensor, target, enqueue_peer, false, NULL);
  return keel_copy_into(tensor, target);
}

keel_status keel_transfer_begin(keel_tensor *tensor, keel_device *device,
                                keel_tensor **out_tensor) {
  keel_device *from = keel_tensor_location(tensor);
  bool here = keel_device_addressable(from);
  bool plain = tensor->layout == KD_LAYOUT_ROW_MAJOR;
  if (tensor->kind != KEEL_DATA || from == device ||
      (plain && keel_transfer_in_place(tensor, device))) {
    *out_tensor = keel_tensor_retain(tensor);
    return KD_OK;
  }
  if (keel_mapped_of(tensor, device))
    return keel_mapped_original(tensor, out_tensor);
  if (device) KEEL_TRY(keel_device_ready(device));
  if (keel_device_reads_mapped(device) && keel_mapped_fits(tensor))
    return tells_ends(from) ? transfer_begin(from, tensor, tensor, enqueue_mark,
                                             true, out_tensor)
                            : keel_mapped_or_copy(tensor, false, out_tensor);
  if (plain && tensor->type->bytes && !here &&
      keel_device_addressable(device) && tells_ends(from) && has_outward(from))
    return begin_out(tensor, from, out_tensor);
  if (!device) return keel_copy_to(tensor, device, out_tensor);
  keel_tensor *target = NULL;
  KEEL_TRY(keel_tensor_on(&device->heap, tensor->type, &target));
  keel_status status = keel_transfer_into(tensor, target);
  if (status == KD_OK)
    *out_tensor = target;
  else
    keel_tensor_release(target);
  return status;
}
