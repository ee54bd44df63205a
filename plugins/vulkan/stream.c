/* stream.c - streams put commands into batches of a lane; the marks of events are batches. */
#include <string.h>

#include "vlk.h"

/* ---- streams ----------------------------------------------------------------------- */

kd_status vlk_stream_open(kd_device *d, kd_stream **out_stream) {
  kd_stream *stream = vlk_host->allocate(vlk_host, sizeof *stream, 0);
  if (!stream) return FAIL(KD_OUT_OF_MEMORY, "no memory for a stream");
  memset(stream, 0, sizeof *stream);
  stream->common.device = d;
  stream->common.number = atomic_fetch_add(&d->streams, 1);
  stream->lane = &d->lanes[stream->common.number % d->lane_count];
  *out_stream = stream;
  return KD_OK;
}

void vlk_stream_close(kd_stream *stream) {
  if (stream->open) {
    vlk_stream_submit(stream);
    vlk_batch_wait(stream->last, UINT64_MAX);
  }
  if (stream->last) vlk_batch_drop(stream->last);
  vlk_host->release(vlk_host, stream);
}

kd_status vlk_stream_batch(kd_stream *stream, vlk_batch **out) {
  if (!stream->open) {
    kd_status status = vlk_batch_begin(stream->lane, &stream->open);
    if (status != KD_OK) return status;
    memcpy(stream->open->waits, stream->waits, sizeof stream->waits);
    memset(stream->waits, 0, sizeof stream->waits);
  }
  /* the first one's barrier orders it behind the lane's earlier batches */
  vlk_put_barrier(stream->open->commands);
  *out = stream->open;
  return KD_OK;
}

kd_status vlk_stream_submit(kd_stream *stream) {
  vlk_batch *b = stream->open;
  if (!b) return KD_OK;
  stream->open = NULL;
  if (stream->last) vlk_batch_drop(stream->last);
  stream->last = b;
  return vlk_batch_submit(b);
}

kd_status vlk_stream_added(kd_stream *stream) {
  if (++stream->open->count < VLK_COMMANDS) return KD_OK;
  return vlk_stream_submit(stream);
}

static bool has_waits(const kd_stream *stream) {
  for (uint32_t i = 0; i < VLK_WAITS; i++)
    if (stream->waits[i]) return true;
  return false;
}

/* Waits without work behind them, and work of others, are submitted with a batch of nothing. */
kd_status vlk_stream_submit_all(kd_stream *stream) {
  vlk_batch *b = NULL;
  kd_status status = KD_OK;
  if (!stream->open && (has_waits(stream) || stream->shared))
    status = vlk_stream_batch(stream, &b);
  return status == KD_OK ? vlk_stream_submit(stream) : status;
}

bool vlk_stream_idle(kd_stream *stream) {
  return !stream->open && !stream->shared && !has_waits(stream) &&
         (!stream->last || vlk_batch_query(stream->last) == KD_OK);
}

kd_status vlk_stream_finish(kd_stream *stream) {
  kd_status status = vlk_stream_submit_all(stream);
  if (!stream->last) return status;
  if (status == KD_OK) status = vlk_batch_wait(stream->last, UINT64_MAX);
  if (status != KD_OK) { /* it was said: the stream is usable again */
    vlk_batch_drop(stream->last);
    stream->last = NULL;
  }
  return status;
}

static kd_status vulkan_stream_stream_create(kd_device *d, int32_t priority,
                                             uint32_t flags,
                                             kd_stream **out_stream) {
  (void)priority; /* queues have theirs since the device was opened */
  if (flags) return FAIL(KD_UNIMPLEMENTED, "stream flags 0x%x", flags);
  return vlk_stream_open(d, out_stream);
}

const kd_stream_table vlk_streams = {
    .struct_size = sizeof(kd_stream_table),
    .create = vulkan_stream_stream_create,
    .destroy = vlk_stream_close,
    .wait = fam_stream_wait,
    .flush = vlk_stream_submit,
    .synchronize = vlk_stream_finish,
    .tag = fam_stream_tag,
};

/* ---- marks: batches ---------------------------------------------------------------------- */

static void vulkan_stream_take(void *batch) {
  vlk_batch_take(batch);
}

static void vulkan_stream_drop(void *batch) {
  vlk_batch_drop(batch);
}

static kd_status vulkan_stream_put(kd_stream *stream, void *own,
                                   void **out_batch) {
  (void)own;
  kd_status status = vlk_stream_submit_all(stream);
  if (status != KD_OK) return status;
  if (stream->last) vlk_batch_take(stream->last);
  *out_batch = stream->last;
  return KD_OK;
}

static kd_status vulkan_stream_query(kd_device *d, void *batch) {
  (void)d;
  return vlk_batch_query(batch);
}

static kd_status vulkan_stream_wait(kd_device *d, void *batch,
                                    uint64_t timeout) {
  (void)d;
  return vlk_batch_wait(batch, timeout);
}

static kd_status vulkan_stream_follow(kd_stream *stream, void *batch) {
  const vlk_batch *b = batch;
  kd_status status = vlk_batch_query(batch);
  if (status != KD_BUSY) return status;
  /* what the stream holds already does not wait */
  status = vlk_stream_submit(stream);
  uint64_t *value = &stream->waits[b->lane->number];
  if (b->value > *value) *value = b->value;
  return status;
}

static kd_status vulkan_stream_on_complete(kd_device *d, void *batch,
                                           kd_event_callback callback,
                                           void *context) {
  const vlk_batch *b = batch;
  (void)d;
  vlk_after *after = vlk_host->allocate(vlk_host, sizeof *after, 0);
  int follows = -1;
  if (after) {
    *after = (vlk_after){.callback = callback, .context = context};
    follows = vlk_batch_follow(batch, after, true);
  }
  if (follows <= 0 && after) vlk_host->release(vlk_host, after);
  if (follows == 0) callback(context, b->status, vlk_batch_why(b));
  return follows < 0 ? FAIL(KD_OUT_OF_MEMORY, "no memory for a callback")
                     : KD_OK;
}

const fam_marks vlk_marks = {
    .take = vulkan_stream_take,
    .drop = vulkan_stream_drop,
    .put = vulkan_stream_put,
    .follow = vulkan_stream_follow,
    .query = vulkan_stream_query,
    .wait = vulkan_stream_wait,
    .on_complete = vulkan_stream_on_complete,
};
