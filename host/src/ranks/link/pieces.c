/* pieces.c - long values that are staged through host memory, in chunks: one is copied out of the
 * device while another is on the wire, and a third is copied in. */
#include "device/backoff.h"
#include "device/context.h"
#include "device/failures.h"
#include "device/lost.h"
#include "device/stream.h"
#include "memory/access.h"
#include "ranks/group/group.h"
#include "ranks/link/link.h"

#include <kd/help.h>

#define LONG    (UINT64_C(4) << 20) /* values of more bytes */
#define PIECE   (UINT64_C(2) << 20) /* at least, but for the last */
#define MOST    16u
#define ON_WIRE 2u /* operations at once */

/* The state of copies of a device's values. */
struct keel_link_lane {
  keel_device *device; /* pinned */
  kd_stream *out, *in;
  kd_event *before, *arrived[MOST], *after;
  pthread_mutex_t lock; /* of the streams, for waiting threads */
};

/* One exchange. */
typedef struct passage {
  keel_link *link;
  const keel_link_job *job;
  const keel_link_part *part;
  keel_link_lane *out, *in; /* NULL: no copy */
  keel_tensor *source;      /* in the device's memory, or NULL */
  keel_tensor *from, *to;   /* in host memory */
  keel_tensor *result;      /* in the device's memory, or `to` */
  uint64_t bytes, piece;
  uint32_t count, started, ended;
  void *requests[MOST];
} passage;

/* ---- lanes -------------------------------------------------------------------------------- */

static void drop_stream(keel_link_lane *lane, kd_stream *stream) {
  if (!stream) return;
  keel_stream_finish(lane->device, stream, &lane->lock);
  lane->device->plugin->streams.destroy(stream);
}

void keel_link_drop_lane(keel_link *link) {
  keel_link_lane *lane = link->lane;
  if (!lane) return;
  const kd_event_table *events = &lane->device->plugin->events;
  keel_lost_enter(lane->device); /* only to free */
  drop_stream(lane, lane->out);
  drop_stream(lane, lane->in);
  if (lane->before) events->destroy(lane->before);
  if (lane->after) events->destroy(lane->after);
  for (uint32_t i = 0; i < MOST; i++)
    if (lane->arrived[i]) events->destroy(lane->arrived[i]);
  keel_lost_leave(lane->device);
  keel_device_unpin(lane->device);
  pthread_mutex_destroy(&lane->lock);
  free(lane);
  link->lane = NULL;
}

static bool make_event(keel_device *device, kd_event **out_event) {
  if (device->plugin->events.create(device->handle, 0, out_event) == KD_OK)
    return true;
  *out_event = NULL;
  return false;
}

static bool make_stream(keel_device *device, kd_stream **out_stream) {
  if (device->plugin->streams.create(device->handle, 0, 0, out_stream) == KD_OK)
    return true;
  *out_stream = NULL;
  return false;
}

/* The link's, of the first device that wants one; NULL: its copies are synchronous. The device
 * has been entered. */
static keel_link_lane *lane_of(keel_link *link, keel_device *device) {
  if (!device || !device->stream || keel_device_addressable(device))
    return NULL;
  if (link->lane) return link->lane->device == device ? link->lane : NULL;
  keel_link_lane *lane = calloc(1, sizeof *lane);
  if (!lane) return NULL;
  lane->device = device;
  pthread_mutex_init(&lane->lock, NULL);
  keel_device_pin(device);
  link->lane = lane;
  bool made =
      make_stream(device, &lane->out) && make_stream(device, &lane->in) &&
      make_event(device, &lane->before) && make_event(device, &lane->after);
  for (uint32_t i = 0; i < MOST; i++)
    made = made && make_event(device, &lane->arrived[i]);
  if (!made) keel_link_drop_lane(link);
  return link->lane;
}

/* ---- copies ------------------------------------------------------------------------------- */

static uint64_t pieces_size_of(const passage *p, uint32_t i) {
  uint64_t left = p->bytes - i * p->piece;
  return left < p->piece ? left : p->piece;
}

/* Records the work that the lane's copies have to wait for, and has a stream wait for it. */
static kd_status pieces_mark(const keel_link_lane *lane, keel_tensor *tensor,
                             kd_stream *stream) {
  keel_device *device = lane->device;
  keel_backoff backoff = {0};
  pthread_mutex_lock(&device->stream_lock);
  kd_status status = keel_failures_check_locked(tensor->buffer);
  if (status == KD_OK)
    status = keel_stream_record(device, device->stream, lane->before);
  pthread_mutex_unlock(&device->stream_lock);
  if (status != KD_OK) return status;
  do
    status = device->plugin->streams.wait(stream, lane->before);
  while (keel_backoff_retry(device, stream, &backoff, &status));
  return status;
}

static kd_status pieces_copy_out(const passage *p, uint32_t i) {
  const keel_link_lane *lane = p->out;
  keel_device *device = lane->device;
  uint64_t at = i * p->piece;
  keel_backoff backoff = {0};
  kd_status status;
  do
    status = device->plugin->memory.copy_out(
        device->handle, lane->out, p->source->buffer->handle,
        p->source->offset + at, (char *)p->from->data + at,
        pieces_size_of(p, i));
  while (keel_backoff_retry(device, lane->out, &backoff, &status));
  return status == KD_OK
             ? keel_stream_record(device, lane->out, lane->arrived[i])
             : status;
}

static kd_status pieces_copy_in(const passage *p, uint32_t i) {
  const keel_link_lane *lane = p->in;
  keel_device *device = lane->device;
  uint64_t at = i * p->piece;
  keel_backoff backoff = {0};
  kd_status status;
  do
    status = device->plugin->memory.copy_in(
        device->handle, lane->in, (char *)p->to->data + at,
        p->result->buffer->handle, p->result->offset + at,
        pieces_size_of(p, i));
  while (keel_backoff_retry(device, lane->in, &backoff, &status));
  return status;
}

static kd_status begin_copies(const passage *p) {
  kd_status status = KD_OK;
  if (p->out) status = pieces_mark(p->out, p->source, p->out->out);
  for (uint32_t i = 0; p->out && i < p->count && status == KD_OK; i++)
    status = pieces_copy_out(p, i);
  if (status != KD_OK || !p->in) return status;
  keel_failures_writes(p->result->buffer, 0);
  return pieces_mark(p->in, p->result, p->in->in);
}

/* ---- the wire ----------------------------------------------------------------------------- */

static keel_status pieces_start(passage *p, uint32_t i) {
  const keel_exchange *what = &p->job->what;
  bool reduces = what->kind == KEEL_ALL_REDUCE;
  uint64_t at = i * p->piece, size = pieces_size_of(p, i);
  kd_dtype dtype = p->to->type->dtype;
  const keel_link_call call = {
      .struct_size = sizeof call,
      .kind = reduces ? KEEL_LINK_ALL_REDUCE : KEEL_LINK_BROADCAST,
      .reduction = what->reduction,
      .dtype = dtype,
      .count = reduces ? size / kd_dtype_size(dtype) : size,
      .comm = p->part ? p->part->comm : NULL,
      .peer = reduces || p->part ? 0 : keel_link_root(NULL, what),
      .send = (char *)p->from->data + at,
      .receive = (char *)p->to->data + at};
  int error = p->link->mpi->start(&call, &p->requests[i]);
  return error ? keel_link_error(p->link, error, "an exchange cannot begin")
               : KD_OK;
}

static keel_status device_failed(keel_device *device, kd_status status) {
  if (!keel_has_error())
    keel_fail(status, "%s: a copy for other ranks failed (%s)", device->name,
              keel_status_name(status));
  return keel_device_check(device, status);
}

/* Has the next piece go, when it has arrived in host memory. All ranks begin them in one order. */
static keel_status go_on(passage *p) {
  while (p->started < p->count && p->started - p->ended < ON_WIRE) {
    if (p->out) {
      keel_device *device = p->out->device;
      kd_status status =
          device->plugin->events.query(p->out->arrived[p->started]);
      if (status == KD_BUSY) return KD_OK;
      if (status != KD_OK) return device_failed(device, status);
    }
    KEEL_TRY(pieces_start(p, p->started));
    p->started++;
  }
  return KD_OK;
}

/* Takes those that have ended, in order. */
static keel_status pieces_take(passage *p) {
  while (p->ended < p->started) {
    int ended = 0;
    int error = p->link->mpi->test(p->requests[p->ended], &ended);
    if (error) return keel_link_error(p->link, error, "an exchange fails");
    if (!ended) return KD_OK;
    kd_status status = p->in ? pieces_copy_in(p, p->ended) : KD_OK;
    if (status != KD_OK) return device_failed(p->in->device, status);
    p->ended++;
  }
  return KD_OK;
}

/* The limit is of a wait for other ranks: neither for this one's device, which makes the value, nor
 * for a long value that moves. */
static keel_status pass(passage *p) {
  uint64_t began = keel_now();
  for (uint32_t asked = 0; p->ended < p->count; asked++) {
    uint32_t before = p->started + p->ended;
    KEEL_TRY(go_on(p));
    KEEL_TRY(pieces_take(p));
    bool moves = p->started + p->ended != before;
    if (moves) asked = 0;
    if (moves || !p->started) began = keel_now();
    if (p->ended < p->count) KEEL_TRY(keel_link_between(p->link, asked, began));
  }
  if (!p->in) return KD_OK;
  keel_device *device = p->in->device;
  kd_status status = keel_stream_record(device, p->in->in, p->in->after);
  if (status == KD_OK)
    status = device->plugin->events.wait(p->in->after, UINT64_MAX);
  return status == KD_OK ? KD_OK : device_failed(device, status);
}

/* ---- an exchange ---------------------------------------------------------------------------- */

/* Its inputs and outputs. A broadcast's first rank has the value. */
static keel_status pieces_prepare(passage *p) {
  const keel_link_job *job = p->job;
  keel_device *device = job->device;
  bool first = keel_link_root(p->part, &job->what) == p->link->world.rank;
  bool gives = job->what.kind == KEEL_ALL_REDUCE || first;
  keel_heap *host = &p->link->context->host;
  p->in = lane_of(p->link, device);
  if (gives && p->in && keel_tensor_location(job->value) == device &&
      job->value->layout == KD_LAYOUT_ROW_MAJOR) {
    p->out = p->in;
    p->source = keel_tensor_retain(job->value);
    KEEL_TRY(keel_tensor_on(host, job->value->type, &p->from));
  } else if (gives) {
    KEEL_TRY(keel_tensor_to_host(job->value, &p->from));
  }
  if (job->what.kind == KEEL_BROADCAST && first)
    p->to = keel_tensor_retain(p->from);
  else
    KEEL_TRY(keel_tensor_on(host, job->value->type, &p->to));
  if (!p->from) p->from = keel_tensor_retain(p->to); /* it is not read */
  if (!p->in) {
    p->result = keel_tensor_retain(p->to);
    return KD_OK;
  }
  return keel_tensor_on(&device->heap, job->value->type, &p->result);
}

/* Copies end by themselves; messages on the wire may go on, so their memory is kept. Returns the
 * failure, with its message. */
static keel_status pieces_give_up(const passage *p, keel_status status) {
  char words[2048];
  snprintf(words, sizeof words, "%s", keel_message());
  if (p->out) keel_stream_finish(p->out->device, p->out->out, &p->out->lock);
  if (p->in) keel_stream_finish(p->in->device, p->in->in, &p->in->lock);
  if (p->from) keel_link_abandon(p->from);
  if (p->to) keel_link_abandon(p->to);
  return keel_fail_text(status, words);
}

static keel_status pieces_run(passage *p) {
  KEEL_TRY(pieces_prepare(p));
  keel_clear_error();
  kd_status status = begin_copies(p);
  if (status != KD_OK) return device_failed(p->job->device, status);
  keel_link_busy(p->link, true);
  keel_status passed = pass(p);
  keel_link_busy(p->link, false);
  return passed;
}

keel_status keel_link_pieces(keel_link *link, const keel_link_job *job,
                             keel_tensor **out_tensor) {
  keel_link_part *part = NULL;
  uint64_t bytes = job->value->type->bytes;
  bool elementwise =
      job->what.kind == KEEL_ALL_REDUCE || job->what.kind == KEEL_BROADCAST;
  if (!link->devices.pieces || !elementwise || bytes <= LONG ||
      !kd_dtype_size(job->value->type->dtype))
    return KD_UNIMPLEMENTED;
  KEEL_TRY(keel_link_find_part(link, &job->what, &part));
  uint64_t piece = (bytes + MOST - 1) / MOST;
  piece = piece < PIECE ? PIECE : (piece + 255) & ~UINT64_C(255);
  passage p = {.link = link,
               .job = job,
               .part = part,
               .bytes = bytes,
               .piece = piece,
               .count = (uint32_t)((bytes + piece - 1) / piece)};
  if (job->device) KEEL_TRY(keel_device_enter(job->device));
  keel_status status = pieces_run(&p);
  if (status != KD_OK) status = pieces_give_up(&p, status);
  if (status == KD_OK) {
    atomic_fetch_add_explicit(&link->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&link->pieces, 1, memory_order_relaxed);
  }
  keel_lost_leave(job->device);
  if (status == KD_OK)
    status = job->device ? keel_group_move(job->device, p.result, out_tensor)
                         : keel_tensor_to_host(p.result, out_tensor);
  keel_tensor_release(p.source);
  keel_tensor_release(p.from);
  keel_tensor_release(p.to);
  keel_tensor_release(p.result);
  return status;
}
