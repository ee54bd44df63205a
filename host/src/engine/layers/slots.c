/* slots.c - wrappers that know more of a slot than its role: ranges, maps, launches. */
#include "layers/layer.h"

/* ---- memory -------------------------------------------------------------------------------- */

kd_status keel_layer_memory_allocate(kd_device *device,
                                     const kd_allocation *wanted,
                                     kd_buffer **out_buffer,
                                     void **out_address) {
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
  keel_layer_track(l, made, OBJECT_BUFFER, device, size);
  *out_buffer = made;
  *out_address = address;
  return KD_OK;
}

void keel_layer_memory_release(kd_device *device, kd_buffer *buffer) {
  layer *l = keel_layer_of(device);
  keel_layers_enter("memory.release");
  if (!keel_layer_range_good(l, "memory.release", device, buffer, 0, 0) ||
      !keel_layer_maps_good(l, "memory.release", buffer, 0))
    return;
  keel_layer_untrack(buffer, OBJECT_BUFFER);
  l->memory.release(device, buffer);
}

kd_status keel_layer_memory_copy_in(kd_device *device, kd_stream *stream,
                                    const void *source, kd_buffer *target,
                                    uint64_t offset, uint64_t size) {
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

kd_status keel_layer_memory_copy_out(kd_device *device, kd_stream *stream,
                                     kd_buffer *source, uint64_t offset,
                                     void *target, uint64_t size) {
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

kd_status keel_layer_memory_copy(kd_device *device, kd_stream *stream,
                                 kd_buffer *source, uint64_t source_offset,
                                 kd_buffer *target, uint64_t target_offset,
                                 uint64_t size) {
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

kd_status keel_layer_memory_fill(kd_device *device, kd_stream *stream,
                                 kd_buffer *target, uint64_t offset,
                                 uint64_t size, const void *pattern,
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

kd_status keel_layer_memory_map(kd_device *device, kd_buffer *buffer,
                                uint64_t offset, uint64_t size, uint32_t access,
                                void **out_address) {
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

void keel_layer_memory_unmap(kd_device *device, kd_buffer *buffer) {
  layer *l = keel_layer_of(device);
  keel_layers_enter("memory.unmap");
  if (!keel_layer_range_good(l, "memory.unmap", device, buffer, 0, 0) ||
      !keel_layer_maps_good(l, "memory.unmap", buffer, 1))
    return;
  keel_layer_count_maps(buffer, -1);
  l->memory.unmap(device, buffer);
}

/* ---- streams ---------------------------------------------------------------------- */

void keel_layer_stream_tag(kd_stream *stream, uint64_t correlation) {
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

/* ---- recordings ------------------------------------------------------------------- */

/* A recording that ends otherwise than it was made is gone, and the stream as before. */
kd_status keel_layer_capture_end(kd_stream *stream, kd_capture **out_capture) {
  const object *o = keel_layer_find(stream, OBJECT_STREAM);
  REFUSE(o, "capture.end: no such stream");
  layer *l = o->layer;
  kd_capture *made = NULL;
  kd_status fault = keel_layers_enter("capture.end");
  uint64_t began = settings.trace ? keel_now() : 0;
  kd_status status = l->capture.end(stream, &made);
  keel_layer_check_call(l, "capture.end", began, status);
  if (settings.validation && status == KD_OK && !made)
    keel_layer_report(l, "capture.end returned KD_OK and no recording");
  if (fault != KD_OK) {
    if (status == KD_OK && made) l->capture.destroy(made);
    return fault;
  }
  if (status != KD_OK) return status;
  keel_layer_track(l, made, OBJECT_CAPTURE, o->device, 0);
  *out_capture = made;
  return KD_OK;
}

kd_status keel_layer_capture_launch(kd_capture *capture, kd_stream *stream) {
  const object *o = keel_layer_find(capture, OBJECT_CAPTURE);
  REFUSE(o && keel_layer_stream_good(o->layer, "capture.launch", o->device,
                                     stream),
         "capture.launch: no such recording or stream");
  CALL_ON(stream, o->layer, "capture.launch",
          o->layer->capture.launch(capture, stream));
  return KD_OK;
}

kd_status keel_layer_capture_update(kd_capture *capture,
                                    const kd_rebind *rebinds, uint32_t count) {
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

/* ---- peers ------------------------------------------------------------------------ */

kd_status keel_layer_peer_copy(kd_device *from, kd_buffer *source,
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

/* ---- regions ------------------------------------------------------------------- */

kd_status keel_layer_region_enqueue(kd_region *region, kd_stream *stream,
                                    const kd_launch *launch) {
  layer *l = keel_layer_of(launch->device);
  REFUSE(keel_layer_find(region, OBJECT_REGION),
         "region.enqueue: no such region");
  kd_status good =
      keel_layer_launch_good(l, "region.enqueue", stream, launch, false);
  if (good != KD_OK) return good;
  CALL_ON(stream, l, "region.enqueue",
          l->regions.enqueue(region, stream, launch));
  return KD_OK;
}

uint64_t keel_layer_region_workspace(kd_region *region,
                                     const kd_launch *launch) {
  return keel_layer_of(launch->device)->regions.workspace(region, launch);
}

uint32_t keel_layer_region_aliases(kd_region *region,
                                   const kd_alias **out_aliases) {
  const object *o = keel_layer_find(region, OBJECT_REGION);
  keel_layers_enter("region.aliases");
  if (o) return o->layer->regions.aliases(region, out_aliases);
  keel_layer_report(NULL, "region.aliases: no such region");
  return 0;
}

/* ---- groups ------------------------------------------------------------------------ */

kd_status keel_layer_collective_create(kd_device *const *devices,
                                       uint32_t count, kd_group **out_group) {
  layer *l = keel_layer_of(devices[0]);
  kd_group *made = NULL;
  keel_layer_about("%u devices", count);
  CALL(l, "collective.create", l->collectives.create(devices, count, &made));
  if (settings.validation && !made)
    keel_layer_report(l, "collective.create returned KD_OK and no group");
  keel_layer_track(l, made, OBJECT_GROUP, devices[0], count);
  *out_group = made;
  return KD_OK;
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

kd_status keel_layer_collective_enqueue(kd_group *group,
                                        const kd_collective *what) {
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

/* Its calls have one member's tensors, so that is its size here. */
kd_status keel_layer_collective_join(kd_device *device, const kd_join *what,
                                     kd_group **out_group) {
  layer *l = keel_layer_of(device);
  kd_group *made = NULL;
  keel_layer_about("rank %u of %u", what->rank, what->size);
  CALL(l, "collective.join", l->collectives.join(device, what, &made));
  if (settings.validation && !made)
    keel_layer_report(l, "collective.join returned KD_OK and no group");
  keel_layer_track(l, made, OBJECT_GROUP, device, 1);
  *out_group = made;
  return KD_OK;
}

void keel_layer_collective_abort(kd_group *group) {
  const object *o = keel_layer_find(group, OBJECT_GROUP);
  keel_layers_enter("collective.abort");
  if (o)
    o->layer->collectives.abort(group);
  else
    keel_layer_report(NULL, "collective.abort: no such group");
}

/* ---- memory of others ------------------------------------------------------------ */

kd_status keel_layer_external_import_memory(kd_device *device,
                                            const kd_external *memory,
                                            kd_buffer **out_buffer,
                                            void **out_address) {
  layer *l = keel_layer_of(device);
  kd_buffer *made = NULL;
  void *address = NULL;
  keel_layer_about("%llu bytes", (unsigned long long)memory->size);
  CALL(l, "external.import_memory",
       l->external.import_memory(device, memory, &made, &address));
  if (settings.validation && !made)
    keel_layer_report(l, "external.import_memory returned KD_OK and no buffer");
  keel_layer_track(l, made, OBJECT_BUFFER, device, memory->size);
  *out_buffer = made;
  *out_address = address;
  return KD_OK;
}

kd_status keel_layer_external_export_memory(kd_device *device,
                                            kd_buffer *buffer,
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

static bool is_layout_size_valid(const layer *l, const char *slot,
                                 kd_device *device, const kd_tensor *tensor) {
  return !tensor->buffer ||
         keel_layer_range_good(l, slot, device, tensor->buffer, tensor->offset,
                               tensor->size);
}

kd_status keel_layer_layout_from_rows(kd_device *device, kd_stream *stream,
                                      const kd_tensor *source,
                                      const kd_tensor *target) {
  layer *l = keel_layer_of(device);
  keel_layer_about("%llu bytes to layout %#x", (unsigned long long)source->size,
                   (unsigned)target->layout);
  REFUSE(is_layout_size_valid(l, "layout.from_rows", device, source) &&
             is_layout_size_valid(l, "layout.from_rows", device, target) &&
             keel_layer_stream_good(l, "layout.from_rows", device, stream),
         "validation refused layout.from_rows");
  CALL_ON(stream, l, "layout.from_rows",
          l->layouts.from_rows(device, stream, source, target));
  return KD_OK;
}

kd_status keel_layer_layout_to_rows(kd_device *device, kd_stream *stream,
                                    const kd_tensor *source,
                                    const kd_tensor *target) {
  layer *l = keel_layer_of(device);
  keel_layer_about("%llu bytes from layout %#x",
                   (unsigned long long)target->size, (unsigned)source->layout);
  REFUSE(is_layout_size_valid(l, "layout.to_rows", device, source) &&
             is_layout_size_valid(l, "layout.to_rows", device, target) &&
             keel_layer_stream_good(l, "layout.to_rows", device, stream),
         "validation refused layout.to_rows");
  CALL_ON(stream, l, "layout.to_rows",
          l->layouts.to_rows(device, stream, source, target));
  return KD_OK;
}

/* ---- native handles ---------------------------------------------------------------- */

kd_status keel_layer_native_buffer(kd_device *device, kd_buffer *buffer,
                                   kd_native_kind kind, uint64_t *out_handle,
                                   uint64_t *out_offset) {
  layer *l = keel_layer_of(device);
  keel_layer_about("kind 0x%x", (unsigned)kind);
  REFUSE(keel_layer_range_good(l, "native.buffer", device, buffer, 0, 0),
         "validation refused native.buffer");
  CALL(l, "native.buffer",
       l->native.buffer(device, buffer, kind, out_handle, out_offset));
  return KD_OK;
}
