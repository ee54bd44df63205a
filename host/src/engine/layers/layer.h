/* layer.h - shared declarations of the layers. */
#ifndef KEEL_LAYER_H
#define KEEL_LAYER_H

#include <kd/help.h>

#include "device/plugin.h"
#include "layers/layers.h"

typedef enum object_kind {
  OBJECT_BUFFER,
  OBJECT_STREAM,
  OBJECT_EVENT,
  OBJECT_KERNEL,
  OBJECT_REGION,
  OBJECT_CAPTURE,
  OBJECT_GROUP,
  OBJECT_DEVICE, /* these objects are not tracked */
  OBJECT_NONE,
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
  /* threads inside a call on this stream; detects concurrent use */
  atomic_uint inside;
  atomic_uint maps; /* of a buffer, 0 or 1 */
} object;

/* A plugin's kernel definition, behind the wrapper that the host sees. */
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
  kd_capture_table capture;
  kd_peer_table peer;
  kd_collective_table collectives;
  kd_external_table external;
  kd_layout_table layouts;
  kd_native_table native;
  kd_region_table regions;
  kd_device **devices; /* by index, NULL: not open */
  uint32_t device_capacity;
} layer;

typedef struct layer_settings {
  bool read, validation, trace, fault;
  char slot[64]; /* of the fault */
  uint32_t number;
  keel_status status;
  bool wordless; /* without a message, as a plugin may fail */
} layer_settings;
extern layer_settings keel_layer_settings;
#define settings keel_layer_settings

/* Reads KEEL_LAYERS on first use. */
void keel_layer_settle(void);

/* ---- objects ------------------------------------------------------------------------ */

/* NULL if there is no such object, or it has been destroyed. */
object *keel_layer_find(const void *handle, object_kind kind);
object *keel_layer_track(layer *l, const void *handle, object_kind kind,
                         kd_device *device, uint64_t size);
void keel_layer_untrack(const void *handle, object_kind kind);
/* The name of an object kind. */
const char *keel_layer_noun(object_kind kind);
/* Stops tracking an object that is about to be destroyed. Returns its layer; if there is no
 * such object, reports that and returns NULL. */
layer *keel_layer_end(const char *slot, const void *handle, object_kind kind);
/* At close: stops tracking a layer's objects; validation reports each as a leak. */
void keel_layer_drop(const layer *l);

/* ---- saying -------------------------------------------------------------------------- */

/* Describes this thread's next call, for trace and the list of last calls. */
void keel_layer_about(const char *format, ...) KD_PRINTF(1, 2);
/* Reports a finding of validation. l: NULL if the plugin is unknown. */
void keel_layer_report(const layer *l, const char *format, ...) KD_PRINTF(2, 3);
/* Traces and checks the status that a slot returned. */
void keel_layer_check_call(const layer *l, const char *slot, uint64_t began,
                           kd_status status);

/* ---- use of a stream ----------------------------------------------------------------- */

bool keel_layer_stream_good(const layer *l, const char *slot, kd_device *device,
                            kd_stream *stream);
bool keel_layer_range_good(const layer *l, const char *slot, kd_device *device,
                           kd_buffer *buffer, uint64_t offset, uint64_t size);
/* Adds to a buffer's map count; false if it would leave 0 or 1. */
bool keel_layer_maps_good(const layer *l, const char *slot, kd_buffer *buffer,
                          unsigned maps);
void keel_layer_count_maps(const kd_buffer *buffer, int by);
/* The stream, and the buffers of inputs and, but where the kernel sizes them, of outputs. */
kd_status keel_layer_launch_good(const layer *l, const char *slot,
                                 kd_stream *stream, const kd_launch *launch,
                                 bool made_later);
/* Checks that one thread at a time uses a stream. */
object *keel_layer_stream_enter(const layer *l, const char *slot,
                                kd_stream *stream);
kd_status keel_layer_stream_leave(object *o, kd_status status);

/* A call through the layers: injects a fault, or makes the call, times and checks it. */
#define CALL_ON(on, l, slot, call)                              \
  do {                                                          \
    kd_status call_status = keel_layers_enter(slot);            \
    uint64_t call_began = settings.trace ? keel_now() : 0;      \
    if (call_status != KD_OK) return call_status;               \
    object *call_stream = keel_layer_stream_enter(l, slot, on); \
    call_status = keel_layer_stream_leave(call_stream, (call)); \
    keel_layer_check_call(l, slot, call_began, call_status);    \
    if (call_status != KD_OK) return call_status;               \
  } while (0)
#define CALL(l, slot, call) CALL_ON(NULL, l, slot, call)
/* Makes the call, and returns the fault if there is one. */
#define AFTER(on, l, slot, fault, call)                                   \
  do {                                                                    \
    uint64_t call_began = settings.trace ? keel_now() : 0;                \
    object *call_stream = keel_layer_stream_enter(l, slot, on);           \
    kd_status call_status = keel_layer_stream_leave(call_stream, (call)); \
    keel_layer_check_call(l, slot, call_began, call_status);              \
    return fault != KD_OK ? fault : call_status;                          \
  } while (0)

#define REFUSE(good, ...)                                            \
  do {                                                               \
    if (!(good)) return keel_fail(KD_INVALID_ARGUMENT, __VA_ARGS__); \
  } while (0)

/* ---- the parts ----------------------------------------------------------------------- */

/* Wrappers that do more than slots.def says; slots.c. */
#define DECLARE_OWN(type, name, slot, parameters) \
  type keel_layer_##name##_##slot parameters;
#define DECLARE_MAKES(...)
#define DECLARE_ENDS(...)
#define DECLARE_CALLS(...)
#define DECLARE_AWAITS(...)
#define DECLARE_PLAIN(...)
#define SLOT(table, name, slot, need, fails, role, without, type, parameters, \
             arguments)                                                       \
  DECLARE_##role(type, name, slot, parameters)
#include "layers/slots.def"
#undef SLOT

/* Puts wrappers into a plugin's copied tables; wrap.c and kernels.c. */
void keel_layer_wrap_slots(keel_plugin *plugin);
keel_status keel_layer_wrap_kernels(keel_plugin *plugin, layer *l);
/* The layer of the plugin that opened a device. */
layer *keel_layer_of(kd_device *device);

#endif /* KEEL_LAYER_H */
