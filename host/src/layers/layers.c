/* layers.c - validation, trace and fault, around a plugin's tables. */
#include "layers/layers.h"

#include <kd/help.h>

#include "loader/loader.h"

#define PLUGINS 32u
#define RING    32u
#define BUCKETS 1024u

typedef enum object_kind {
  OBJECT_BUFFER,
  OBJECT_STREAM,
  OBJECT_EVENT,
  OBJECT_KERNEL,
} object_kind;

/* A handle that a plugin gave. */
typedef struct object {
  struct object *next;
  const void *handle;
  object_kind kind;
  kd_device *device;
  uint64_t size; /* of a buffer */
  struct layer *layer;
  const struct wrapped_def *def; /* of a kernel */
  atomic_uint inside;            /* threads in a call on this stream */
} object;

/* A definition of a plugin, behind the one that the host sees. */
typedef struct wrapped_def {
  kd_kernel_def inner;
  struct layer *layer;
} wrapped_def;

/* One plugin with its own tables. */
typedef struct layer {
  const keel_plugin *plugin;
  kd_memory_table memory;
  kd_stream_table streams;
  kd_event_table events;
  kd_peer_table peer;
  kd_device *devices[16];
} layer;

static struct {
  bool read, validation, trace, fault;
  char slot[64];
  uint32_t number;
  keel_status status;
} settings;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static layer *layers[PLUGINS];
static uint32_t layer_count;
static object *objects[BUCKETS];
static atomic_uint errors, faults, calls, ring_at;
static char ring[RING][48];

/* ---- settings ------------------------------------------------------------------- */

static keel_status status_named(const char *name, size_t size) {
  for (keel_status i = 1; i <= KD_BUSY; i++)
    if (strlen(kd_status_name(i)) == size &&
        !strncmp(kd_status_name(i), name, size))
      return i;
  return KD_OK;
}

static keel_status read_fault(const char *text, size_t size) {
  const char *equals = memchr(text, '=', size);
  if (!equals || (size_t)(equals - text) >= sizeof settings.slot)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "KEEL_LAYERS: \"fault:%.*s\" is not like"
                     " fault:memory.allocate=3:OUT_OF_MEMORY",
                     (int)size, text);
  memcpy(settings.slot, text, (size_t)(equals - text));
  settings.slot[equals - text] = 0;
  settings.number = (uint32_t)strtoul(equals + 1, NULL, 10);
  const char *colon = memchr(equals, ':', size - (size_t)(equals - text));
  settings.status = KD_INTERNAL;
  if (colon)
    settings.status =
        status_named(colon + 1, size - (size_t)(colon + 1 - text));
  if (!settings.number || settings.status == KD_OK)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "KEEL_LAYERS: \"fault:%.*s\" has no number, or a status"
                     " that kd/base.h does not have",
                     (int)size, text);
  settings.fault = true;
  return KD_OK;
}

static keel_status read_settings(const char *text) {
  settings.validation = settings.trace = settings.fault = false;
  settings.read = true;
  atomic_store(&calls, 0);
  while (text && *text) {
    size_t size = strcspn(text, ",");
    if (size == 10 && !strncmp(text, "validation", size))
      settings.validation = true;
    else if (size == 5 && !strncmp(text, "trace", size))
      settings.trace = true;
    else if (size > 6 && !strncmp(text, "fault:", 6))
      KEEL_TRY(read_fault(text + 6, size - 6));
    else
      return keel_fail(KD_INVALID_ARGUMENT,
                       "KEEL_LAYERS: there is no layer \"%.*s\"; there are"
                       " validation, trace, fault:SLOT=N:STATUS",
                       (int)size, text);
    text += size + (text[size] == ',');
  }
  return KD_OK;
}

keel_status keel_layers_set(const char *text) {
  pthread_mutex_lock(&lock);
  keel_status status = read_settings(text ? text : getenv("KEEL_LAYERS"));
  atomic_store(&faults, 0);
  pthread_mutex_unlock(&lock);
  return status;
}

static void settle(void) {
  pthread_mutex_lock(&lock);
  if (!settings.read &&
      read_settings(keel_trusts_environment() ? getenv("KEEL_LAYERS") : NULL) !=
          KD_OK)
    fprintf(stderr, "keel: %s\n", keel_message());
  pthread_mutex_unlock(&lock);
}

uint32_t keel_layers_errors(void) {
  return atomic_load(&errors);
}

uint32_t keel_layers_faults(void) {
  return atomic_load(&faults);
}

/* ---- saying -------------------------------------------------------------------------- */

static void report(const layer *l, const char *format, ...) KD_PRINTF(2, 3);
static void report(const layer *l, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  atomic_fetch_add(&errors, 1);
  const keel_log *log = &l->plugin->context->log;
  keel_log_line(log, KD_LOG_ERROR, "validation: %s: %s", l->plugin->path, text);
  uint32_t at = atomic_load(&ring_at);
  for (uint32_t i = at > 6 ? at - 6 : 0; i < at; i++)
    keel_log_line(log, KD_LOG_ERROR, "  a call before: %s", ring[i % RING]);
}

/* Counts a call; whether it is the one to fail. */
keel_status keel_layers_enter(const char *slot) {
  settle();
  if (settings.validation || settings.trace) {
    uint32_t at = atomic_fetch_add(&ring_at, 1);
    snprintf(ring[at % RING], sizeof ring[0], "%s", slot);
  }
  if (!settings.fault || strcmp(slot, settings.slot) != 0) return KD_OK;
  if (atomic_fetch_add(&calls, 1) + 1 != settings.number) return KD_OK;
  atomic_fetch_add(&faults, 1);
  return keel_fail(settings.status,
                   "layer fault: call %u of %s was made to"
                   " fail",
                   settings.number, slot);
}

static void trace(const layer *l, const char *slot, uint64_t began,
                  kd_status status) {
  if (settings.trace)
    keel_log_line(&l->plugin->context->log, KD_LOG_INFO, "trace: %s %s %.1f us",
                  slot, kd_status_name(status),
                  (double)(keel_now() - began) / 1e3);
}

/* ---- objects ---------------------------------------------------------------------------- */

static uint32_t bucket(const void *handle) {
  return (uint32_t)(((uintptr_t)handle >> 4) * 2654435761u >> 16) % BUCKETS;
}

static object *find(const void *handle, object_kind kind) {
  pthread_mutex_lock(&lock);
  object *o = objects[bucket(handle)];
  while (o && (o->handle != handle || o->kind != kind))
    o = o->next;
  pthread_mutex_unlock(&lock);
  return o;
}

static object *remember(layer *l, const void *handle, object_kind kind,
                        kd_device *device, uint64_t size) {
  object *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  o->handle = handle;
  o->kind = kind;
  o->device = device;
  o->size = size;
  o->layer = l;
  pthread_mutex_lock(&lock);
  o->next = objects[bucket(handle)];
  objects[bucket(handle)] = o;
  pthread_mutex_unlock(&lock);
  return o;
}

static void forget(const void *handle, object_kind kind) {
  pthread_mutex_lock(&lock);
  object **at = &objects[bucket(handle)];
  while (*at && ((*at)->handle != handle || (*at)->kind != kind))
    at = &(*at)->next;
  object *gone = *at;
  if (gone) *at = gone->next;
  pthread_mutex_unlock(&lock);
  free(gone);
}

/* Devices are few; the first plugin that opened one has it. */
static layer *layer_of(kd_device *device) {
  layer *only = NULL;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < layer_count; i++)
    for (uint32_t d = 0; d < 16; d++)
      if (layers[i]->devices[d] == device && device) only = layers[i];
  pthread_mutex_unlock(&lock);
  return only;
}

static bool range_good(const layer *l, const char *slot, kd_device *device,
                       kd_buffer *buffer, uint64_t offset, uint64_t size) {
  if (!settings.validation) return true;
  const object *o = find(buffer, OBJECT_BUFFER);
  if (!o) {
    report(l, "%s: there is no such buffer, or it was released", slot);
    return false;
  }
  if (o->device != device) {
    report(l, "%s: the buffer is another device's", slot);
    return false;
  }
  if (offset > o->size || size > o->size - offset) {
    report(l, "%s: %llu bytes from %llu leave a buffer of %llu", slot,
           (unsigned long long)size, (unsigned long long)offset,
           (unsigned long long)o->size);
    return false;
  }
  return true;
}

static bool stream_good(const layer *l, const char *slot, kd_device *device,
                        kd_stream *stream) {
  if (!settings.validation || !stream) return true;
  const object *o = find(stream, OBJECT_STREAM);
  if (!o)
    report(l, "%s: there is no such stream, or it was destroyed", slot);
  else if (device && o->device != device)
    report(l, "%s: the stream is another device's", slot);
  return o && (!device || o->device == device);
}

/* A stream is used by one thread at a time. */
static object *stream_enter(const layer *l, const char *slot,
                            kd_stream *stream) {
  object *o =
      settings.validation && stream ? find(stream, OBJECT_STREAM) : NULL;
  if (o && atomic_fetch_add(&o->inside, 1) > 0)
    report(l, "%s: another thread is in a call on this stream", slot);
  return o;
}

static kd_status stream_leave(object *o, kd_status status) {
  if (o) atomic_fetch_sub(&o->inside, 1);
  return status;
}

/* What a slot returned. */
static void look_at(const layer *l, const char *slot, uint64_t began,
                    kd_status status) {
  trace(l, slot, began, status);
  if (settings.validation && (status < 0 || status > KD_BUSY))
    report(l, "%s returned %d, which is no status", slot, status);
}

/* A call with its layers: fails, or is made, timed and looked at. */
#define CALL_ON(on, l, slot, call)                         \
  do {                                                     \
    kd_status call_status = keel_layers_enter(slot);       \
    uint64_t call_began = settings.trace ? keel_now() : 0; \
    if (call_status != KD_OK) return call_status;          \
    object *call_stream = stream_enter(l, slot, on);       \
    call_status = stream_leave(call_stream, (call));       \
    look_at(l, slot, call_began, call_status);             \
    if (call_status != KD_OK) return call_status;          \
  } while (0)
#define CALL(l, slot, call) CALL_ON(NULL, l, slot, call)
/* Makes the call, and returns the fault if there is one. */
#define AFTER(on, l, slot, fault, call)                        \
  do {                                                         \
    uint64_t call_began = settings.trace ? keel_now() : 0;     \
    object *call_stream = stream_enter(l, slot, on);           \
    kd_status call_status = stream_leave(call_stream, (call)); \
    look_at(l, slot, call_began, call_status);                 \
    return fault != KD_OK ? fault : call_status;               \
  } while (0)

#define REFUSE(good, ...)                                            \
  do {                                                               \
    if (!(good)) return keel_fail(KD_INVALID_ARGUMENT, __VA_ARGS__); \
  } while (0)

/* ---- memory -------------------------------------------------------------------------------- */

static kd_status allocate(kd_device *device, uint32_t space, uint64_t size,
                          kd_buffer **out_buffer, void **out_address) {
  layer *l = layer_of(device);
  if (settings.validation && size == 0) report(l, "memory.allocate of 0 bytes");
  kd_buffer *made = NULL;
  void *address = NULL;
  CALL(l, "memory.allocate",
       l->memory.allocate(device, space, size, &made, &address));
  if (settings.validation && !made)
    report(l, "memory.allocate returned KD_OK and no buffer");
  if (settings.validation && find(made, OBJECT_BUFFER))
    report(l, "memory.allocate returned a buffer that is in use");
  remember(l, made, OBJECT_BUFFER, device, size);
  *out_buffer = made;
  *out_address = address;
  return KD_OK;
}

static void release(kd_device *device, kd_buffer *buffer) {
  layer *l = layer_of(device);
  keel_layers_enter("memory.release");
  if (!range_good(l, "memory.release", device, buffer, 0, 0)) return;
  forget(buffer, OBJECT_BUFFER);
  l->memory.release(device, buffer);
}

static kd_status copy_in(kd_device *device, kd_stream *stream,
                         const void *source, kd_buffer *target, uint64_t offset,
                         uint64_t size) {
  layer *l = layer_of(device);
  REFUSE(range_good(l, "memory.copy_in", device, target, offset, size) &&
             stream_good(l, "memory.copy_in", device, stream),
         "validation refused memory.copy_in");
  CALL_ON(stream, l, "memory.copy_in",
          l->memory.copy_in(device, stream, source, target, offset, size));
  return KD_OK;
}

static kd_status copy_out(kd_device *device, kd_stream *stream,
                          kd_buffer *source, uint64_t offset, void *target,
                          uint64_t size) {
  layer *l = layer_of(device);
  REFUSE(range_good(l, "memory.copy_out", device, source, offset, size) &&
             stream_good(l, "memory.copy_out", device, stream),
         "validation refused memory.copy_out");
  CALL_ON(stream, l, "memory.copy_out",
          l->memory.copy_out(device, stream, source, offset, target, size));
  return KD_OK;
}

static kd_status copy(kd_device *device, kd_stream *stream, kd_buffer *source,
                      uint64_t source_offset, kd_buffer *target,
                      uint64_t target_offset, uint64_t size) {
  layer *l = layer_of(device);
  REFUSE(
      range_good(l, "memory.copy", device, source, source_offset, size) &&
          range_good(l, "memory.copy", device, target, target_offset, size) &&
          stream_good(l, "memory.copy", device, stream),
      "validation refused memory.copy");
  CALL_ON(stream, l, "memory.copy",
          l->memory.copy(device, stream, source, source_offset, target,
                         target_offset, size));
  return KD_OK;
}

static kd_status fill(kd_device *device, kd_stream *stream, kd_buffer *target,
                      uint64_t offset, uint64_t size, const void *pattern,
                      uint32_t pattern_size) {
  layer *l = layer_of(device);
  REFUSE(range_good(l, "memory.fill", device, target, offset, size) &&
             stream_good(l, "memory.fill", device, stream),
         "validation refused memory.fill");
  CALL_ON(stream, l, "memory.fill",
          l->memory.fill(device, stream, target, offset, size, pattern,
                         pattern_size));
  return KD_OK;
}

/* ---- streams and events ---------------------------------------------------------------------- */

static kd_status stream_create(kd_device *device, int32_t priority,
                               uint32_t flags, kd_stream **out_stream) {
  layer *l = layer_of(device);
  kd_stream *made = NULL;
  CALL(l, "stream.create", l->streams.create(device, priority, flags, &made));
  if (settings.validation && !made)
    report(l, "stream.create returned KD_OK and no stream");
  remember(l, made, OBJECT_STREAM, device, 0);
  *out_stream = made;
  return KD_OK;
}

static void stream_destroy(kd_stream *stream) {
  const object *o = find(stream, OBJECT_STREAM);
  keel_layers_enter("stream.destroy");
  if (!o) {
    atomic_fetch_add(&errors, 1);
    return;
  }
  layer *l = o->layer;
  forget(stream, OBJECT_STREAM);
  l->streams.destroy(stream);
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  const object *o = find(stream, OBJECT_STREAM);
  REFUSE(o && find(event, OBJECT_EVENT),
         "stream.wait: no such stream or event");
  CALL_ON(stream, o->layer, "stream.wait",
          o->layer->streams.wait(stream, event));
  return KD_OK;
}

static kd_status stream_flush(kd_stream *stream) {
  const object *o = find(stream, OBJECT_STREAM);
  REFUSE(o, "stream.flush: no such stream");
  CALL_ON(stream, o->layer, "stream.flush", o->layer->streams.flush(stream));
  return KD_OK;
}

static kd_status stream_synchronize(kd_stream *stream) {
  const object *o = find(stream, OBJECT_STREAM);
  REFUSE(o, "stream.synchronize: no such stream");
  /* A wait that reports a failure has waited all the same. */
  kd_status fault = keel_layers_enter("stream.synchronize");
  AFTER(stream, o->layer, "stream.synchronize", fault,
        o->layer->streams.synchronize(stream));
}

static kd_status event_create(kd_device *device, uint32_t flags,
                              kd_event **out_event) {
  layer *l = layer_of(device);
  kd_event *made = NULL;
  CALL(l, "event.create", l->events.create(device, flags, &made));
  if (settings.validation && !made)
    report(l, "event.create returned KD_OK and no event");
  remember(l, made, OBJECT_EVENT, device, 0);
  *out_event = made;
  return KD_OK;
}

static void event_destroy(kd_event *event) {
  const object *o = find(event, OBJECT_EVENT);
  keel_layers_enter("event.destroy");
  if (!o) {
    atomic_fetch_add(&errors, 1);
    return;
  }
  layer *l = o->layer;
  forget(event, OBJECT_EVENT);
  l->events.destroy(event);
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  const object *o = find(event, OBJECT_EVENT);
  REFUSE(o && find(stream, OBJECT_STREAM),
         "event.record: no such event or stream");
  CALL_ON(stream, o->layer, "event.record",
          o->layer->events.record(event, stream));
  return KD_OK;
}

static kd_status event_query(kd_event *event) {
  const object *o = find(event, OBJECT_EVENT);
  REFUSE(o, "event.query: no such event");
  CALL(o->layer, "event.query", o->layer->events.query(event));
  return KD_OK;
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  const object *o = find(event, OBJECT_EVENT);
  REFUSE(o, "event.wait: no such event");
  kd_status fault = keel_layers_enter("event.wait");
  AFTER(NULL, o->layer, "event.wait", fault,
        o->layer->events.wait(event, timeout));
}

/* ---- peers ------------------------------------------------------------------------ */

static kd_status peer_copy(kd_device *from, kd_buffer *source,
                           uint64_t source_offset, kd_device *to,
                           kd_stream *stream, kd_buffer *target,
                           uint64_t target_offset, uint64_t size) {
  layer *l = layer_of(from);
  REFUSE(range_good(l, "peer.copy", from, source, source_offset, size) &&
             range_good(l, "peer.copy", to, target, target_offset, size) &&
             stream_good(l, "peer.copy", to, stream),
         "validation refused peer.copy");
  CALL_ON(stream, l, "peer.copy",
          l->peer.copy(from, source, source_offset, to, stream, target,
                       target_offset, size));
  return KD_OK;
}

/* ---- kernels ------------------------------------------------------------------------------------ */

static kd_status create(kd_device *device, const kd_kernel_def *def,
                        const kd_node *node, kd_kernel **out_kernel) {
  const wrapped_def *own = def->data;
  kd_kernel *made = NULL;
  CALL(own->layer, "kernel.create",
       own->inner.create(device, &own->inner, node, &made));
  object *o = remember(own->layer, made, OBJECT_KERNEL, device, 0);
  if (o) o->def = own;
  *out_kernel = made;
  return KD_OK;
}

static void destroy(kd_kernel *kernel) {
  const object *o = find(kernel, OBJECT_KERNEL);
  keel_layers_enter("kernel.destroy");
  if (!o) {
    atomic_fetch_add(&errors, 1);
    return;
  }
  const wrapped_def *own = o->def;
  forget(kernel, OBJECT_KERNEL);
  own->inner.destroy(kernel);
}

/* set_output finds the host's launch by the address that it gave: the launch
 * itself is passed on, its data exchanged for the call. */
static kd_status enqueue(kd_kernel *kernel, kd_stream *stream,
                         const kd_launch *launch) {
  const wrapped_def *own = launch->data;
  layer *l = own->layer;
  REFUSE(stream_good(l, "kernel.enqueue", launch->device, stream),
         "validation refused kernel.enqueue");
  for (uint32_t i = 0; settings.validation && i < launch->input_count; i++)
    if (launch->inputs[i].buffer &&
        !range_good(l, "kernel.enqueue", launch->device,
                    launch->inputs[i].buffer, launch->inputs[i].offset,
                    launch->inputs[i].strides ? 0 : launch->inputs[i].size))
      return keel_fail(KD_INVALID_ARGUMENT, "validation refused input %u", i);
  kd_launch *open = (kd_launch *)(uintptr_t)launch;
  open->data = own->inner.data;
  kd_status status = keel_layers_enter("kernel.enqueue");
  uint64_t began = settings.trace ? keel_now() : 0;
  if (status == KD_OK) {
    object *inside = stream_enter(l, "kernel.enqueue", stream);
    status = stream_leave(inside, own->inner.enqueue(kernel, stream, launch));
  }
  open->data = own;
  look_at(l, own->inner.op, began, status);
  return status;
}

static uint64_t workspace(kd_kernel *kernel, const kd_launch *launch) {
  const wrapped_def *own = launch->data;
  kd_launch *open = (kd_launch *)(uintptr_t)launch;
  open->data = own->inner.data;
  uint64_t size = own->inner.workspace(kernel, launch);
  open->data = own;
  return size;
}

/* ---- the host's services --------------------------------------------------------------------------- */

/* The services themselves, the same for every plugin. */
static kd_host own;
static kd_node_table own_node, node_table;

static void *host_allocate(uint64_t size, uint64_t alignment) {
  if (keel_layers_enter("host.allocate") != KD_OK) return NULL;
  return own.allocate(size, alignment);
}

static const char *host_option(const kd_host *host, const char *name) {
  if (keel_layers_enter("host.option") != KD_OK) return NULL;
  return own.option(host, name);
}

static kd_status host_set_output(const kd_launch *launch, uint32_t index,
                                 uint32_t rank, const int64_t *dims,
                                 kd_tensor *out_tensor) {
  kd_status status = keel_layers_enter("host.set_output");
  return status == KD_OK ? own.set_output(launch, index, rank, dims, out_tensor)
                         : status;
}

static kd_status host_constant(const kd_node *node, uint32_t index,
                               kd_tensor *out_tensor) {
  kd_status status = keel_layers_enter("host.constant");
  return status == KD_OK ? own_node.constant(node, index, out_tensor) : status;
}

void keel_layers_wrap_host(kd_host *host) {
  settle();
  if (!settings.fault) return;
  pthread_mutex_lock(&lock);
  own = *host;
  own_node = node_table = *host->node;
  node_table.constant = host_constant;
  pthread_mutex_unlock(&lock);
  host->allocate = host_allocate;
  host->option = host_option;
  host->set_output = host_set_output;
  host->node = &node_table;
}

/* ---- putting them on ---------------------------------------------------------------------------------- */

static kd_status (*device_opens[PLUGINS])(uint32_t, kd_device **);

static void know_device(layer *l, uint32_t index, kd_device *device) {
  pthread_mutex_lock(&lock);
  if (index < 16) l->devices[index] = device;
  pthread_mutex_unlock(&lock);
}

/* One function a layer: device_open has no handle to find the layer by. */
#define OPEN(n)                                                       \
  static kd_status open_##n(uint32_t index, kd_device **out_device) { \
    kd_status status = device_opens[n](index, out_device);            \
    if (status == KD_OK) know_device(layers[n], index, *out_device);  \
    return status;                                                    \
  }
OPEN(0)
OPEN(1)
OPEN(2)
OPEN(3)
OPEN(4)
OPEN(5)
OPEN(6)
OPEN(7)
static kd_status (*const open_slots[])(uint32_t, kd_device **) = {
    open_0, open_1, open_2, open_3, open_4, open_5, open_6, open_7};

static keel_status wrap_kernels(keel_plugin *plugin, layer *l) {
  wrapped_def *defs = keel_arena_take(
      &plugin->context->arena, (plugin->kernel_count + 1) * sizeof *defs);
  if (!defs) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < plugin->kernel_count; i++) {
    kd_kernel_def *def = &plugin->kernels[i];
    defs[i].inner = *def;
    defs[i].layer = l;
    def->data = &defs[i];
    def->enqueue = enqueue;
    if (def->create) def->create = create;
    if (def->destroy) def->destroy = destroy;
    if (def->workspace) def->workspace = workspace;
  }
  return KD_OK;
}

keel_status keel_layers_wrap(keel_plugin *plugin) {
  settle();
  if (!settings.validation && !settings.trace && !settings.fault) return KD_OK;
  pthread_mutex_lock(&lock);
  uint32_t number = layer_count;
  bool room = number < KEEL_COUNT_OF(open_slots);
  layer *l = room ? keel_arena_take(&plugin->context->arena, sizeof *l) : NULL;
  for (uint32_t i = 0; i < layer_count && room; i++)
    if (!layers[i]->plugin) number = i;
  if (l) {
    layers[number] = l;
    if (number == layer_count) layer_count++;
  }
  pthread_mutex_unlock(&lock);
  if (!l) return room ? KD_OUT_OF_MEMORY : KD_OK; /* plain beyond eight */
  l->plugin = plugin;
  l->memory = plugin->memory;
  l->streams = plugin->streams;
  l->events = plugin->events;
  l->peer = plugin->peer;
  device_opens[number] = plugin->table.device_open;
  plugin->table.device_open = open_slots[number];
#define PUT(table, slot, function) \
  if (plugin->table.slot) plugin->table.slot = function
  PUT(memory, allocate, allocate);
  PUT(memory, release, release);
  PUT(memory, copy_in, copy_in);
  PUT(memory, copy_out, copy_out);
  PUT(memory, copy, copy);
  PUT(memory, fill, fill);
  PUT(streams, create, stream_create);
  PUT(streams, destroy, stream_destroy);
  PUT(streams, wait, stream_wait);
  PUT(streams, flush, stream_flush);
  PUT(streams, synchronize, stream_synchronize);
  PUT(events, create, event_create);
  PUT(events, destroy, event_destroy);
  PUT(events, record, event_record);
  PUT(events, query, event_query);
  PUT(events, wait, event_wait);
  PUT(peer, copy, peer_copy);
#undef PUT
  return wrap_kernels(plugin, l);
}

static void drop_objects(const layer *l) {
  static const char *const kinds[] = {"buffer", "stream", "event", "kernel"};
  for (uint32_t b = 0; b < BUCKETS; b++) {
    object **at = &objects[b];
    while (*at) {
      object *o = *at;
      if (o->layer != l) {
        at = &o->next;
        continue;
      }
      if (settings.validation) {
        atomic_fetch_add(&errors, 1);
        keel_log_line(&l->plugin->context->log, KD_LOG_ERROR,
                      "validation: %s: a %s of %llu bytes is left at close",
                      l->plugin->path, kinds[o->kind],
                      (unsigned long long)o->size);
      }
      *at = o->next;
      free(o);
    }
  }
}

void keel_layers_closed(const keel_plugin *plugin) {
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < layer_count; i++)
    if (layers[i]->plugin == plugin) {
      static layer nobody;
      drop_objects(layers[i]);
      layers[i] = &nobody; /* the arena goes with its context */
    }
  pthread_mutex_unlock(&lock);
}
