/* slots.c - memory, streams, events, recordings, peers and groups behind the layers. */
#include "layers/layer.h"

/* ---- memory -------------------------------------------------------------------------------- */

static kd_status allocate(kd_device *device, const kd_allocation *wanted,
                          kd_buffer **out_buffer, void **out_address) {
  layer *l = keel_layer_of(device);
  uint64_t size = wanted->size;
  keel_layer_about("%llu bytes", (unsigned long long)size);
  if (settings.validation && size == 0)
    keel_layer_report(l, "memory.allocate of 0 bytes");
  kd_buffer *made = NULL;
  void *address = NULL;
  CALL(l, "memory.allocate",
       l->memory.allocate(device, wanted, &made, &address));
  if (settings.validation && !made)
    keel_layer_report(l, "memory.allocate returned KD_OK and no buffer");
  if (settings.validation && keel_layer_find(made, OBJECT_BUFFER))
    keel_layer_report(l, "memory.allocate returned a buffer that is in use");
  keel_layer_remember(l, made, OBJECT_BUFFER, device, size);
  *out_buffer = made;
  *out_address = address;
  return KD_OK;
}

static void release(kd_device *device, kd_buffer *buffer) {
  layer *l = keel_layer_of(device);
  keel_layers_enter("memory.release");
  if (!keel_layer_range_good(l, "memory.release", device, buffer, 0, 0) ||
      !keel_layer_maps_good(l, "memory.release", buffer, 0))
    return;
  keel_layer_forget(buffer, OBJECT_BUFFER);
  l->memory.release(device, buffer);
}

static kd_status copy_in(kd_device *device, kd_stream *stream,
                         const void *source, kd_buffer *target, uint64_t offset,
                         uint64_t size) {
  layer *l = keel_layer_of(device);
  keel_layer_about("%llu bytes at %llu", (unsigned long long)size,
                   (unsigned long long)offset);
  REFUSE(keel_layer_range_good(l, "memory.copy_in", device, target, offset,
                               size) &&
             keel_layer_stream_good(l, "memory.copy_in", device, stream),
         "validation refused memory.copy_in");
  CALL_ON(stream, l, "memory.copy_in",
          l->memory.copy_in(device, stream, source, target, offset, size));
  return KD_OK;
}

static kd_status copy_out(kd_device *device, kd_stream *stream,
                          kd_buffer *source, uint64_t offset, void *target,
                          uint64_t size) {
  layer *l = keel_layer_of(device);
  keel_layer_about("%llu bytes at %llu", (unsigned long long)size,
                   (unsigned long long)offset);
  REFUSE(keel_layer_range_good(l, "memory.copy_out", device, source, offset,
                               size) &&
             keel_layer_stream_good(l, "memory.copy_out", device, stream),
         "validation refused memory.copy_out");
  CALL_ON(stream, l, "memory.copy_out",
          l->memory.copy_out(device, stream, source, offset, target, size));
  return KD_OK;
}

static kd_status copy(kd_device *device, kd_stream *stream, kd_buffer *source,
                      uint64_t source_offset, kd_buffer *target,
                      uint64_t target_offset, uint64_t size) {
  layer *l = keel_layer_of(device);
  keel_layer_about("%llu bytes, %llu to %llu", (unsigned long long)size,
                   (unsigned long long)source_offset,
                   (unsigned long long)target_offset);
  REFUSE(keel_layer_range_good(l, "memory.copy", device, source, source_offset,
                               size) &&
             keel_layer_range_good(l, "memory.copy", device, target,
                                   target_offset, size) &&
             keel_layer_stream_good(l, "memory.copy", device, stream),
         "validation refused memory.copy");
  CALL_ON(stream, l, "memory.copy",
          l->memory.copy(device, stream, source, source_offset, target,
                         target_offset, size));
  return KD_OK;
}

static kd_status fill(kd_device *device, kd_stream *stream, kd_buffer *target,
                      uint64_t offset, uint64_t size, const void *pattern,
                      uint32_t pattern_size) {
  layer *l = keel_layer_of(device);
  keel_layer_about("%llu bytes at %llu", (unsigned long long)size,
                   (unsigned long long)offset);
  REFUSE(
      keel_layer_range_good(l, "memory.fill", device, target, offset, size) &&
          keel_layer_stream_good(l, "memory.fill", device, stream),
      "validation refused memory.fill");
  CALL_ON(stream, l, "memory.fill",
          l->memory.fill(device, stream, target, offset, size, pattern,
                         pattern_size));
  return KD_OK;
}

static kd_status map(kd_device *device, kd_buffer *buffer, uint64_t offset,
                     uint64_t size, uint32_t access, void **out_address) {
  layer *l = keel_layer_of(device);
  keel_layer_about("%llu bytes at %llu, access %u", (unsigned long long)size,
                   (unsigned long long)offset, (unsigned)access);
  REFUSE(keel_layer_range_good(l, "memory.map", device, buffer, offset, size) &&
             keel_layer_maps_good(l, "memory.map", buffer, 0),
         "validation refused memory.map");
  void *address = NULL;
  CALL(l, "memory.map",
       l->memory.map(device, buffer, offset, size, access, &address));
  if (settings.validation && !address)
    keel_layer_report(l, "memory.map returned KD_OK and no address");
  keel_layer_count_maps(buffer, 1);
  *out_address = address;
  return KD_OK;
}

static void unmap(kd_device *device, kd_buffer *buffer) {
  layer *l = keel_layer_of(device);
  keel_layers_enter("memory.unmap");
  if (!keel_layer_range_good(l, "memory.unmap", device, buffer, 0, 0) ||
      !keel_layer_maps_good(l, "memory.unmap", buffer, 1))
    return;
  keel_layer_count_maps(buffer, -1);
  l->memory.unmap(device, buffer);
}

/* ---- streams and events ---------------------------------------------------------------------- */

static kd_status stream_create(kd_device *device, int32_t priority,
                               uint32_t flags, kd_stream **out_stream) {
  layer *l = keel_layer_of(device);
  kd_stream *made = NULL;
  CALL(l, "stream.create", l->streams.create(device, priority, flags, &made));
  if (settings.validation && !made)
    keel_layer_report(l, "stream.create returned KD_OK and no stream");
  keel_layer_remember(l, made, OBJECT_STREAM, device, 0);
  *out_stream = made;
  return KD_OK;
}

static void stream_destroy(kd_stream *stream) {
  const object *o = keel_layer_find(stream, OBJECT_STREAM);
  keel_layers_enter("stream.destroy");
  if (!o) {
    keel_layer_report(NULL,
                      "stream.destroy: there is no such stream, or it was"
                      " destroyed");
    return;
  }
  layer *l = o->layer;
  keel_layer_forget(stream, OBJECT_STREAM);
  l->streams.destroy(stream);
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  const object *o = keel_layer_find(stream, OBJECT_STREAM);
  REFUSE(o && keel_layer_find(event, OBJECT_EVENT),
         "stream.wait: no such stream or event");
  CALL_ON(stream, o->layer, "stream.wait",
          o->layer->streams.wait(stream, event));
  return KD_OK;
}

static kd_status stream_flush(kd_stream *stream) {
  const object *o = keel_layer_find(stream, OBJECT_STREAM);
  REFUSE(o, "stream.flush: no such stream");
  CALL_ON(stream, o->layer, "stream.flush", o->layer->streams.flush(stream));
  return KD_OK;
}

static void stream_tag(kd_stream *stream, uint64_t correlation) {
  const object *o = keel_layer_find(stream, OBJECT_STREAM);
  keel_layers_enter("stream.tag");
  if (!o) {
    keel_layer_report(NULL,
                      "stream.tag: there is no such stream, or it was"
                      " destroyed");
    return;
  }
  object *inside = keel_layer_stream_enter(o->layer, "stream.tag", stream);
  o->layer->streams.tag(stream, correlation);
  keel_layer_stream_leave(inside, KD_OK);
}

static kd_status stream_synchronize(kd_stream *stream) {
  const object *o = keel_layer_find(stream, OBJECT_STREAM);
  REFUSE(o, "stream.synchronize: no such stream");
  /* A wait that reports a failure has waited all the same. */
  kd_status fault = keel_layers_enter("stream.synchronize");
  AFTER(stream, o->layer, "stream.synchronize", fault,
        o->layer->streams.synchronize(stream));
}

static kd_status event_create(kd_device *device, uint32_t flags,
                              kd_event **out_event) {
  layer *l = keel_layer_of(device);
  kd_event *made = NULL;
  CALL(l, "event.create", l->events.create(device, flags, &made));
  if (settings.validation && !made)
    keel_layer_report(l, "event.create returned KD_OK and no event");
  keel_layer_remember(l, made, OBJECT_EVENT, device, 0);
  *out_event = made;
  return KD_OK;
}

static void event_destroy(kd_event *event) {
  const object *o = keel_layer_find(event, OBJECT_EVENT);
  keel_layers_enter("event.destroy");
  if (!o) {
    keel_layer_report(NULL,
                      "event.destroy: there is no such event, or it was"
                      " destroyed");
    return;
  }
  layer *l = o->layer;
  keel_layer_forget(event, OBJECT_EVENT);
  l->events.destroy(event);
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  const object *o = keel_layer_find(event, OBJECT_EVENT);
  REFUSE(o && keel_layer_find(stream, OBJECT_STREAM),
         "event.record: no such event or stream");
  CALL_ON(stream, o->layer, "event.record",
          o->layer->events.record(event, stream));
  return KD_OK;
}

static kd_status event_query(kd_event *event) {
  const object *o = keel_layer_find(event, OBJECT_EVENT);
  REFUSE(o, "event.query: no such event");
  CALL(o->layer, "event.query", o->layer->events.query(event));
  return KD_OK;
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  const object *o = keel_layer_find(event, OBJECT_EVENT);
  REFUSE(o, "event.wait: no such event");
  kd_status fault = keel_layers_enter("event.wait");
  AFTER(NULL, o->layer, "event.wait", fault,
        o->layer->events.wait(event, timeout));
}

static kd_status event_on_complete(kd_event *event, kd_event_callback callback,
                                   void *context) {
  const object *o = keel_layer_find(event, OBJECT_EVENT);
  REFUSE(o, "event.on_complete: no such event");
  CALL(o->layer, "event.on_complete",
       o->layer->events.on_complete(event, callback, context));
  return KD_OK;
}

/* ---- recordings ------------------------------------------------------------------- */

static kd_status capture_begin(kd_stream *stream, uint32_t flags) {
  const object *o = keel_layer_find(stream, OBJECT_STREAM);
  REFUSE(o, "capture.begin: no such stream");
  CALL_ON(stream, o->layer, "capture.begin",
          o->layer->capture.begin(stream, flags));
  return KD_OK;
}

/* A recording that ends otherwise than it was made is gone, and the stream as before. */
static kd_status capture_end(kd_stream *stream, kd_capture **out_capture) {
  const object *o = keel_layer_find(stream, OBJECT_STREAM);
  REFUSE(o, "capture.end: no such stream");
  layer *l = o->layer;
  kd_capture *made = NULL;
  kd_status fault = keel_layers_enter("capture.end");
  uint64_t began = settings.trace ? keel_now() : 0;
  kd_status status = l->capture.end(stream, &made);
  keel_layer_look(l, "capture.end", began, status);
  if (settings.validation && status == KD_OK && !made)
    keel_layer_report(l, "capture.end returned KD_OK and no recording");
  if (fault != KD_OK) {
    if (status == KD_OK && made) l->capture.destroy(made);
    return fault;
  }
  if (status != KD_OK) return status;
  keel_layer_remember(l, made, OBJECT_CAPTURE, o->device, 0);
  *out_capture = made;
  return KD_OK;
}

static kd_status capture_launch(kd_capture *capture, kd_stream *stream) {
  const object *o = keel_layer_find(capture, OBJECT_CAPTURE);
  REFUSE(o && keel_layer_stream_good(o->layer, "capture.launch", o->device,
                                     stream),
         "capture.launch: no such recording or stream");
  CALL_ON(stream, o->layer, "capture.launch",
          o->layer->capture.launch(capture, stream));
  return KD_OK;
}

static kd_status capture_update(kd_capture *capture, const kd_rebind *rebinds,
                                uint32_t count) {
  const object *o = keel_layer_find(capture, OBJECT_CAPTURE);
  REFUSE(o, "capture.update: no such recording");
  for (uint32_t i = 0; i < count; i++)
    REFUSE(keel_layer_range_good(o->layer, "capture.update", o->device,
                                 rebinds[i].to, rebinds[i].to_offset, 0),
           "validation refused capture.update");
  CALL(o->layer, "capture.update",
       o->layer->capture.update(capture, rebinds, count));
  return KD_OK;
}

static void capture_destroy(kd_capture *capture) {
  const object *o = keel_layer_find(capture, OBJECT_CAPTURE);
  keel_layers_enter("capture.destroy");
  if (!o) {
    keel_layer_report(NULL,
                      "capture.destroy: there is no such recording, or it was"
                      " destroyed");
    return;
  }
  layer *l = o->layer;
  keel_layer_forget(capture, OBJECT_CAPTURE);
  l->capture.destroy(capture);
}

/* ---- peers ------------------------------------------------------------------------ */

static kd_status peer_copy(kd_device *from, kd_buffer *source,
                           uint64_t source_offset, kd_device *to,
                           kd_stream *stream, kd_buffer *target,
                           uint64_t target_offset, uint64_t size) {
  layer *l = keel_layer_of(from);
  keel_layer_about("%llu bytes, %llu to %llu", (unsigned long long)size,
                   (unsigned long long)source_offset,
                   (unsigned long long)target_offset);
  REFUSE(keel_layer_range_good(l, "peer.copy", from, source, source_offset,
                               size) &&
             keel_layer_range_good(l, "peer.copy", to, target, target_offset,
                                   size) &&
             keel_layer_stream_good(l, "peer.copy", to, stream),
         "validation refused peer.copy");
  CALL_ON(stream, l, "peer.copy",
          l->peer.copy(from, source, source_offset, to, stream, target,
                       target_offset, size));
  return KD_OK;
}

/* ---- groups ------------------------------------------------------------------------ */

static kd_status group_create(kd_device *const *devices, uint32_t count,
                              kd_group **out_group) {
  layer *l = keel_layer_of(devices[0]);
  kd_group *made = NULL;
  keel_layer_about("%u devices", count);
  CALL(l, "collective.create", l->collectives.create(devices, count, &made));
  if (settings.validation && !made)
    keel_layer_report(l, "collective.create returned KD_OK and no group");
  keel_layer_remember(l, made, OBJECT_GROUP, devices[0], count);
  *out_group = made;
  return KD_OK;
}

static void group_destroy(kd_group *group) {
  const object *o = keel_layer_find(group, OBJECT_GROUP);
  keel_layers_enter("collective.destroy");
  if (!o) {
    keel_layer_report(NULL,
                      "collective.destroy: there is no such group, or it was"
                      " destroyed");
    return;
  }
  layer *l = o->layer;
  keel_layer_forget(group, OBJECT_GROUP);
  l->collectives.destroy(group);
}

/* A tensor lies in the memory of the device whose stream it is used on. */
static bool member_good(const layer *l, const kd_tensor *tensor,
                        kd_stream *stream) {
  const char *slot = "collective.enqueue";
  if (!settings.validation || tensor->dtype == KD_NONE || !stream) return true;
  const object *o = keel_layer_find(stream, OBJECT_STREAM);
  return keel_layer_stream_good(l, slot, NULL, stream) && o &&
         keel_layer_range_good(l, slot, o->device, tensor->buffer,
                               tensor->offset, tensor->size);
}

static kd_status group_enqueue(kd_group *group, const kd_collective *what) {
  const object *o = keel_layer_find(group, OBJECT_GROUP);
  REFUSE(o, "collective.enqueue: no such group");
  for (uint32_t i = 0; i < o->size; i++)
    REFUSE(member_good(o->layer, &what->inputs[i], what->streams[i]) &&
               member_good(o->layer, &what->outputs[i], what->streams[i]),
           "validation refused rank %u of collective.enqueue", i);
  keel_layer_about("kind %u", what->kind);
  CALL(o->layer, "collective.enqueue",
       o->layer->collectives.enqueue(group, what));
  return KD_OK;
}

/* ---- memory of others ------------------------------------------------------------ */

static kd_status import_memory(kd_device *device, const kd_external *memory,
                               kd_buffer **out_buffer, void **out_address) {
  layer *l = keel_layer_of(device);
  kd_buffer *made = NULL;
  void *address = NULL;
  keel_layer_about("%llu bytes", (unsigned long long)memory->size);
  CALL(l, "external.import_memory",
       l->external.import_memory(device, memory, &made, &address));
  if (settings.validation && !made)
    keel_layer_report(l, "external.import_memory returned KD_OK and no buffer");
  keel_layer_remember(l, made, OBJECT_BUFFER, device, memory->size);
  *out_buffer = made;
  *out_address = address;
  return KD_OK;
}

static kd_status export_memory(kd_device *device, kd_buffer *buffer,
                               kd_external *out_memory) {
  layer *l = keel_layer_of(device);
  keel_layer_about("kind %u", (unsigned)out_memory->kind);
  REFUSE(
      keel_layer_range_good(l, "external.export_memory", device, buffer, 0, 0),
      "validation refused external.export_memory");
  CALL(l, "external.export_memory",
       l->external.export_memory(device, buffer, out_memory));
  return KD_OK;
}

/* ---- layouts ---------------------------------------------------------------------- */

static bool is_laid_good(const layer *l, const char *slot, kd_device *device,
                         const kd_tensor *tensor) {
  return !tensor->buffer ||
         keel_layer_range_good(l, slot, device, tensor->buffer, tensor->offset,
                               tensor->size);
}

static kd_status from_rows(kd_device *device, kd_stream *stream,
                           const kd_tensor *source, const kd_tensor *target) {
  layer *l = keel_layer_of(device);
  keel_layer_about("%llu bytes to layout %#x", (unsigned long long)source->size,
                   (unsigned)target->layout);
  REFUSE(is_laid_good(l, "layout.from_rows", device, source) &&
             is_laid_good(l, "layout.from_rows", device, target) &&
             keel_layer_stream_good(l, "layout.from_rows", device, stream),
         "validation refused layout.from_rows");
  CALL_ON(stream, l, "layout.from_rows",
          l->layouts.from_rows(device, stream, source, target));
  return KD_OK;
}

static kd_status to_rows(kd_device *device, kd_stream *stream,
                         const kd_tensor *source, const kd_tensor *target) {
  layer *l = keel_layer_of(device);
  keel_layer_about("%llu bytes from layout %#x",
                   (unsigned long long)target->size, (unsigned)source->layout);
  REFUSE(is_laid_good(l, "layout.to_rows", device, source) &&
             is_laid_good(l, "layout.to_rows", device, target) &&
             keel_layer_stream_good(l, "layout.to_rows", device, stream),
         "validation refused layout.to_rows");
  CALL_ON(stream, l, "layout.to_rows",
          l->layouts.to_rows(device, stream, source, target));
  return KD_OK;
}

void keel_layer_wrap_slots(keel_plugin *plugin) {
#define PUT(table, slot, function) \
  if (plugin->table.slot) plugin->table.slot = function
  PUT(memory, allocate, allocate);
  PUT(memory, release, release);
  PUT(memory, copy_in, copy_in);
  PUT(memory, copy_out, copy_out);
  PUT(memory, copy, copy);
  PUT(memory, fill, fill);
  PUT(memory, map, map);
  PUT(memory, unmap, unmap);
  PUT(streams, create, stream_create);
  PUT(streams, destroy, stream_destroy);
  PUT(streams, wait, stream_wait);
  PUT(streams, flush, stream_flush);
  PUT(streams, synchronize, stream_synchronize);
  PUT(streams, tag, stream_tag);
  PUT(events, create, event_create);
  PUT(events, destroy, event_destroy);
  PUT(events, record, event_record);
  PUT(events, query, event_query);
  PUT(events, wait, event_wait);
  PUT(events, on_complete, event_on_complete);
  PUT(capture, begin, capture_begin);
  PUT(capture, end, capture_end);
  PUT(capture, launch, capture_launch);
  PUT(capture, update, capture_update);
  PUT(capture, destroy, capture_destroy);
  PUT(peer, copy, peer_copy);
  PUT(collectives, create, group_create);
  PUT(collectives, destroy, group_destroy);
  PUT(collectives, enqueue, group_enqueue);
  PUT(external, import_memory, import_memory);
  PUT(layouts, from_rows, from_rows);
  PUT(layouts, to_rows, to_rows);
  PUT(external, export_memory, export_memory);
#undef PUT
}
