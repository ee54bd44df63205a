/* layers.c - the requested layers, their reports, and the plugins that they wrap. */
#include <ctype.h>

#include "device/context.h"
#include "layers/layer.h"
#include "layers/slots.h"
#include "system/environment.h"

#define RING 32u

layer_settings keel_layer_settings;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static layer **layers;
static uint32_t layer_count, layer_capacity;
/* Statistics, relaxed: read after the calls have been waited for. */
static atomic_uint errors, faults, calls;
static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t ring_at;
static char ring[RING][96];
static _Thread_local char about[64];

/* ---- settings ------------------------------------------------------------------- */

static keel_status status_named(const char *name, size_t size) {
  for (keel_status i = 1; i <= KD_BUSY; i++)
    if (strlen(kd_status_name(i)) == size &&
        !strncmp(kd_status_name(i), name, size))
      return i;
  return KD_OK;
}

/* The host's services whose call can be made to fail: beside the slots that can, whose names
 * (slots.def) are those that wrappers give to keel_layers_enter. */
static const char *const services[] = {
    "host.allocate",    "host.option",    "host.set_output", "host.constant",
    "host.attr_tensor", "host.cache_get", "host.cache_put",
};

const char *keel_layers_slot(uint32_t index) {
  const keel_slot *slot;
  for (size_t i = 0; (slot = keel_slot_at(i)); i++)
    if (slot->fails && !index--) return slot->name;
  return index < KEEL_COUNT_OF(services) ? services[index] : NULL;
}

/* Lists the slots, or suggests the closest one. */
static keel_status no_slot(const char *name) {
  const char *near = NULL;
  unsigned least = 4;
  keel_text all = {0};
  const char *slot;
  for (uint32_t i = 0; (slot = keel_layers_slot(i)); i++) {
    unsigned distance = keel_distance(name, slot);
    if (distance < least) {
      least = distance;
      near = slot;
    }
    keel_text_add(&all, "%s%s", i ? ", " : "", slot);
  }
  if (near)
    keel_fail(KD_INVALID_ARGUMENT,
              "KEEL_LAYERS: no call of \"%s\" can be made to fail; did you mean"
              " %s?",
              name, near);
  else
    keel_fail(KD_INVALID_ARGUMENT,
              "KEEL_LAYERS: no call of \"%s\" can be made to fail; it can"
              " be one of %s",
              name, keel_text_get(&all));
  keel_text_free(&all);
  return KD_INVALID_ARGUMENT;
}

/* "N", "N:STATUS" or "N:STATUS:wordless", `size` characters. */
static bool layers_read_number(const char *text, size_t size,
                               layer_settings *out) {
  static const char wordless[] = ":wordless";
  const size_t tail = sizeof wordless - 1;
  char *end = NULL;
  unsigned long number = strtoul(text, &end, 10);
  out->wordless = size > tail && !strncmp(text + size - tail, wordless, tail);
  if (out->wordless) size -= tail;
  out->number = (uint32_t)number;
  out->status = KD_INTERNAL;
  if (!isdigit((unsigned char)*text) || !number || number > UINT32_MAX)
    return false;
  if (*end == ':')
    out->status = status_named(end + 1, size - (size_t)(end + 1 - text));
  return (end == text + size || *end == ':') && out->status != KD_OK;
}

static keel_status read_fault(const char *text, size_t size,
                              layer_settings *out) {
  const char *equals = memchr(text, '=', size);
  size_t length = equals ? (size_t)(equals - text) : size;
  if (!equals || length >= sizeof out->slot)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "KEEL_LAYERS: \"fault:%.*s\" does not have the form"
                     " fault:memory.allocate=3:OUT_OF_MEMORY",
                     (int)size, text);
  memcpy(out->slot, text, length);
  out->slot[length] = 0;
  bool known = false;
  const char *slot;
  for (uint32_t i = 0; (slot = keel_layers_slot(i)); i++)
    known |= !strcmp(slot, out->slot);
  if (!known) return no_slot(out->slot);
  if (!layers_read_number(equals + 1, size - length - 1, out))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "KEEL_LAYERS: \"fault:%.*s\" has no number from 1, or a"
                     " status that kd/base.h does not have",
                     (int)size, text);
  out->fault = true;
  return KD_OK;
}

static keel_status read_layers(const char *text, layer_settings *out) {
  while (text && *text) {
    size_t size = strcspn(text, ",");
    if (size == 10 && !strncmp(text, "validation", size))
      out->validation = true;
    else if (size == 5 && !strncmp(text, "trace", size))
      out->trace = true;
    else if (size >= 6 && !strncmp(text, "fault:", 6))
      KEEL_TRY(read_fault(text + 6, size - 6, out));
    else
      return keel_fail(KD_INVALID_ARGUMENT,
                       "KEEL_LAYERS: there is no layer \"%.*s\"; there are"
                       " validation, trace, fault:SLOT=N:STATUS",
                       (int)size, text);
    text += size + (text[size] == ',');
  }
  return KD_OK;
}

/* With the lock held. An invalid text changes nothing. */
static keel_status read_settings(const char *text) {
  layer_settings fresh = {.read = true};
  KEEL_TRY(read_layers(text, &fresh));
  settings = fresh;
  atomic_store(&calls, 0);
  return KD_OK;
}

keel_status keel_layers_set(const char *text) {
  pthread_mutex_lock(&lock);
  keel_status status =
      read_settings(text ? text : keel_environment("KEEL_LAYERS"));
  atomic_store(&faults, 0);
  pthread_mutex_unlock(&lock);
  return status;
}

keel_status keel_layers_ready(void) {
  keel_status status = KD_OK;
  pthread_mutex_lock(&lock);
  if (!settings.read) status = read_settings(keel_environment("KEEL_LAYERS"));
  pthread_mutex_unlock(&lock);
  return status;
}

void keel_layer_settle(void) {
  keel_layers_ready(); /* keel_open has reported its errors */
}

void keel_layers_report(const keel_log *log) {
  if (!settings.fault) return;
  if (atomic_load(&faults))
    keel_log_line(log, KD_LOG_INFO, "layer fault: call %u of %s failed",
                  settings.number, settings.slot);
  else
    keel_log_line(
        log, KD_LOG_WARNING,
        "layer fault: nothing failed: %s was called %u times, and call"
        " %u was to fail",
        settings.slot, atomic_load(&calls), settings.number);
}

uint32_t keel_layers_errors(void) {
  return atomic_load(&errors);
}

uint32_t keel_layers_faults(void) {
  return atomic_load(&faults);
}

/* ---- saying -------------------------------------------------------------------------- */

/* Any open plugin, whose log is used if the plugin is unknown. */
static const layer *any_layer(void) {
  const layer *found = NULL;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < layer_count && !found; i++)
    if (layers[i]->plugin) found = layers[i];
  pthread_mutex_unlock(&lock);
  return found;
}

void keel_layer_report(const layer *l, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  atomic_fetch_add(&errors, 1);
  if (!l) l = any_layer();
  if (!l) return;
  const keel_log *log = &l->plugin->context->log;
  keel_log_line(log, KD_LOG_ERROR, "validation: %s: %s", l->plugin->path, text);
  /* the log callback may call back into the layers */
  char last[6][sizeof ring[0]];
  pthread_mutex_lock(&ring_lock);
  uint32_t count =
      ring_at < KEEL_COUNT_OF(last) ? ring_at : KEEL_COUNT_OF(last);
  for (uint32_t i = 0; i < count; i++)
    memcpy(last[i], ring[(ring_at - count + i) % RING], sizeof last[i]);
  pthread_mutex_unlock(&ring_lock);
  for (uint32_t i = 0; i < count; i++)
    keel_log_line(log, KD_LOG_ERROR, "  a call before: %s", last[i]);
}

void keel_layer_about(const char *format, ...) {
  if (!settings.validation && !settings.trace) return;
  va_list args;
  va_start(args, format);
  vsnprintf(about, sizeof about, format, args);
  va_end(args);
}

/* Counts a call; true if it is the one to fail. */
keel_status keel_layers_enter(const char *slot) {
  keel_layer_settle();
  if (settings.validation || settings.trace) {
    pthread_mutex_lock(&ring_lock);
    snprintf(ring[ring_at++ % RING], sizeof ring[0], "%s%s%s%s", slot,
             *about ? "(" : "", about, *about ? ")" : "");
    pthread_mutex_unlock(&ring_lock);
    if (!settings.trace) *about = 0;
  }
  if (!settings.fault || strcmp(slot, settings.slot) != 0) return KD_OK;
  if (atomic_fetch_add(&calls, 1) + 1 != settings.number) return KD_OK;
  atomic_fetch_add(&faults, 1);
  if (settings.wordless) return settings.status;
  return keel_fail(settings.status,
                   "layer fault: call %u of %s was made to"
                   " fail",
                   settings.number, slot);
}

void keel_layers_exit(const keel_log *log, const char *slot, uint64_t began,
                      kd_status status) {
  if (!settings.trace) return;
  keel_log_always(log, KD_LOG_INFO, "trace: %s%s%s%s %s %.1f us", slot,
                  *about ? "(" : "", about, *about ? ")" : "",
                  kd_status_name(status), (double)(keel_now() - began) / 1e3);
  *about = 0;
}

/* ---- checks ---------------------------------------------------------------------------- */

bool keel_layer_range_good(const layer *l, const char *slot, kd_device *device,
                           kd_buffer *buffer, uint64_t offset, uint64_t size) {
  if (!settings.validation) return true;
  const object *o = keel_layer_find(buffer, OBJECT_BUFFER);
  if (!o) {
    keel_layer_report(l, "%s: there is no such buffer, or it was released",
                      slot);
    return false;
  }
  if (o->device != device) {
    keel_layer_report(l, "%s: the buffer is another device's", slot);
    return false;
  }
  if (offset > o->size || size > o->size - offset) {
    keel_layer_report(l, "%s: %llu bytes from %llu leave a buffer of %llu",
                      slot, (unsigned long long)size,
                      (unsigned long long)offset, (unsigned long long)o->size);
    return false;
  }
  return true;
}

bool keel_layer_maps_good(const layer *l, const char *slot, kd_buffer *buffer,
                          unsigned maps) {
  if (!settings.validation) return true;
  const object *o = keel_layer_find(buffer, OBJECT_BUFFER);
  if (!o || atomic_load(&o->maps) == maps) return true;
  keel_layer_report(l, "%s of a buffer that is %s", slot,
                    maps ? "not mapped" : "mapped");
  return false;
}

void keel_layer_count_maps(const kd_buffer *buffer, int by) {
  object *o =
      settings.validation ? keel_layer_find(buffer, OBJECT_BUFFER) : NULL;
  if (o) atomic_fetch_add(&o->maps, (unsigned)by);
}

bool keel_layer_stream_good(const layer *l, const char *slot, kd_device *device,
                            kd_stream *stream) {
  if (!settings.validation || !stream) return true;
  const object *o = keel_layer_find(stream, OBJECT_STREAM);
  if (!o)
    keel_layer_report(l, "%s: there is no such stream, or it was destroyed",
                      slot);
  else if (device && o->device != device)
    keel_layer_report(l, "%s: the stream is another device's", slot);
  return o && (!device || o->device == device);
}

/* Checks that one thread at a time uses a stream. */
object *keel_layer_stream_enter(const layer *l, const char *slot,
                                kd_stream *stream) {
  object *o = settings.validation && stream
                  ? keel_layer_find(stream, OBJECT_STREAM)
                  : NULL;
  if (o && atomic_fetch_add(&o->inside, 1) > 0)
    keel_layer_report(l, "%s: another thread is in a call on this stream",
                      slot);
  return o;
}

kd_status keel_layer_stream_leave(object *o, kd_status status) {
  if (o) atomic_fetch_sub(&o->inside, 1);
  return status;
}

/* The result of a slot. */
void keel_layer_check_call(const layer *l, const char *slot, uint64_t began,
                           kd_status status) {
  keel_layers_exit(&l->plugin->context->log, slot, began, status);
  if (settings.validation && (status < 0 || status > KD_BUSY))
    keel_layer_report(l, "%s returned %d, which is not a status", slot, status);
}

/* Devices are few; the first plugin that opened one has it. */
layer *keel_layer_of(kd_device *device) {
  layer *only = NULL;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < layer_count; i++)
    for (uint32_t d = 0; d < layers[i]->device_capacity; d++)
      if (layers[i]->devices[d] == device && device) only = layers[i];
  pthread_mutex_unlock(&lock);
  return only;
}

/* ---- putting them on ---------------------------------------------------------------------------------- */

/* With the lock held. */
static void keep_device(layer *l, uint32_t index, kd_device *device) {
  if (index >= l->device_capacity) {
    uint32_t capacity = index + 8;
    kd_device **more = realloc(l->devices, capacity * sizeof *more);
    if (!more) return; /* the first layer reports its actions */
    memset(more + l->device_capacity, 0,
           (capacity - l->device_capacity) * sizeof *more);
    l->devices = more;
    l->device_capacity = capacity;
  }
  l->devices[index] = device;
}

void keel_layers_opened(const keel_plugin *plugin, uint32_t index,
                        kd_device *device) {
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < layer_count; i++)
    if (layers[i]->plugin == plugin) keep_device(layers[i], index, device);
  pthread_mutex_unlock(&lock);
}

keel_status keel_layers_wrap(keel_plugin *plugin) {
  keel_layer_settle();
  if (!settings.validation && !settings.trace && !settings.fault) return KD_OK;
  pthread_mutex_lock(&lock);
  uint32_t number = layer_count;
  for (uint32_t i = 0; i < layer_count; i++)
    if (!layers[i]->plugin) number = i;
  layer *l =
      number < layer_count || KEEL_ROOM(layers, layer_count, layer_capacity)
          ? keel_arena_take(&plugin->context->arena, sizeof *l)
          : NULL;
  if (l) {
    layers[number] = l;
    if (number == layer_count) layer_count++;
  }
  pthread_mutex_unlock(&lock);
  if (!l) return KD_OUT_OF_MEMORY;
  l->plugin = plugin;
  l->memory = plugin->memory;
  l->streams = plugin->streams;
  l->events = plugin->events;
  l->capture = plugin->capture;
  l->peer = plugin->peer;
  l->collectives = plugin->collectives;
  l->external = plugin->external;
  l->layouts = plugin->layouts;
  l->regions = plugin->regions;
  keel_layer_wrap_slots(plugin);
  return keel_layer_wrap_kernels(plugin, l);
}

void keel_layers_wrap_native(keel_plugin *plugin) {
  layer *mine = NULL;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < layer_count; i++)
    if (layers[i]->plugin == plugin) mine = layers[i];
  pthread_mutex_unlock(&lock);
  if (!mine) return;
  mine->native = plugin->native;
  keel_layer_wrap_slots(plugin); /* those of other tables are in already */
}

void keel_layers_closed(const keel_plugin *plugin) {
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < layer_count; i++)
    if (layers[i]->plugin == plugin) {
      static layer nobody;
      keel_layer_drop(layers[i]);
      free(layers[i]->devices);
      layers[i] = &nobody; /* the arena goes with its context */
    }
  pthread_mutex_unlock(&lock);
}
