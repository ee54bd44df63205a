/* wrap.c - wrappers that follow from the list of slots (slots.def) alone: one for each slot whose
 * role is MAKES, ENDS, CALLS or AWAITS. Those of the role OWN are in slots.c. */
#include "layers/each.h"
#include "layers/layer.h"

/* A call of a slot, as its arguments say. */
typedef struct call {
  const char *slot;
  layer *l;
  kd_device *device;
  kd_stream *stream; /* that it is made on, or NULL */
  keel_status status;
} call;

/* ---- kinds of arguments -------------------------------------------------------------- */

#define KIND(argument)                   \
  _Generic((argument), kd_device *       \
           : OBJECT_DEVICE, kd_stream *  \
           : OBJECT_STREAM, kd_event *   \
           : OBJECT_EVENT, kd_region *   \
           : OBJECT_REGION, kd_capture * \
           : OBJECT_CAPTURE, kd_group *  \
           : OBJECT_GROUP, default       \
           : OBJECT_NONE)
#define HANDLE(argument)              \
  _Generic((argument), kd_device *    \
           : (argument), kd_stream *  \
           : (argument), kd_event *   \
           : (argument), kd_region *  \
           : (argument), kd_capture * \
           : (argument), kd_group *   \
           : (argument), default      \
           : NULL)

/* Every handle in a call must come from the plugin and must not be released yet; the first one
 * identifies the device. */
static void look_at(call *c, const void *handle, object_kind kind) {
  if (kind == OBJECT_NONE || c->status != KD_OK) return;
  const object *o =
      kind == OBJECT_DEVICE ? NULL : keel_layer_find(handle, kind);
  if (kind != OBJECT_DEVICE && !o) {
    c->status = keel_fail(KD_INVALID_ARGUMENT, "%s: no such %s", c->slot,
                          keel_layer_noun(kind));
    return;
  }
  if (!c->l) {
    c->l = o ? o->layer : keel_layer_of((kd_device *)(uintptr_t)handle);
    c->device = o ? o->device : (kd_device *)(uintptr_t)handle;
  }
  if (kind == OBJECT_STREAM) c->stream = (kd_stream *)(uintptr_t)handle;
}
#define LOOK(argument) look_at(&c, HANDLE(argument), KIND(argument));

/* ---- MAKES ----------------------------------------------------------------------------- */

#define MADE_KIND(argument) \
  _Generic((argument),             \
      kd_stream **: OBJECT_STREAM, \
      kd_event **: OBJECT_EVENT,   \
      kd_region **: OBJECT_REGION, \
      default: OBJECT_NONE)
#define MADE(argument) \
  _Generic((argument),           \
      kd_stream **: (argument),  \
      kd_event **: (argument),   \
      kd_region **: (argument),  \
      default: NULL)

static void note_made(const call *c, const void *out, object_kind kind) {
  const void *made = NULL;
  if (kind == OBJECT_NONE) return;
  memcpy(&made, out, sizeof made);
  if (settings.validation && !made)
    keel_layer_report(c->l, "%s returned KD_OK and no %s", c->slot,
                      keel_layer_noun(kind));
  keel_layer_track(c->l, made, kind, c->device, 0);
}
#define NOTE(argument) note_made(&c, MADE(argument), MADE_KIND(argument));

/* ---- the wrappers ------------------------------------------------------------------------ */

/* A table's name in kd_plugin, keel_plugin and layer. */
#define TABLE_memory        memory
#define TABLE_stream        streams
#define TABLE_event         events
#define TABLE_capture       capture
#define TABLE_region        regions
#define TABLE_peer          peer
#define TABLE_external      external
#define TABLE_layout        layouts
#define TABLE_collective    collectives
#define TABLE_native        native
#define INNER(table, slot)  INNER_(table, slot)
#define INNER_(table, slot) c.l->table.slot

#define WRAP_CALLS(name, slot_, parameters, arguments)                    \
  static kd_status name##_##slot_ parameters {                            \
    call c = {.slot = #name "." #slot_};                                  \
    KEEL_EACH(LOOK, arguments)                                            \
    if (c.status != KD_OK) return c.status;                               \
    CALL_ON(c.stream, c.l, c.slot, INNER(TABLE_##name, slot_) arguments); \
    return KD_OK;                                                         \
  }
#define WRAP_AWAITS(name, slot_, parameters, arguments)                        \
  static kd_status name##_##slot_ parameters {                                 \
    call c = {.slot = #name "." #slot_};                                       \
    KEEL_EACH(LOOK, arguments)                                                 \
    if (c.status != KD_OK) return c.status;                                    \
    kd_status fault = keel_layers_enter(c.slot);                               \
    AFTER(c.stream, c.l, c.slot, fault, INNER(TABLE_##name, slot_) arguments); \
  }
#define WRAP_MAKES(name, slot_, parameters, arguments)       \
  static kd_status name##_##slot_ parameters {               \
    call c = {.slot = #name "." #slot_};                     \
    KEEL_EACH(LOOK, arguments)                               \
    if (c.status != KD_OK) return c.status;                  \
    CALL(c.l, c.slot, INNER(TABLE_##name, slot_) arguments); \
    KEEL_EACH(NOTE, arguments)                               \
    return KD_OK;                                            \
  }
#define WRAP_ENDS(name, slot_, parameters, arguments)               \
  static void name##_##slot_ parameters {                           \
    call c = {.slot = #name "." #slot_};                            \
    keel_layers_enter(c.slot);                                      \
    c.l = keel_layer_end(c.slot, HANDLE arguments, KIND arguments); \
    if (c.l) INNER(TABLE_##name, slot_) arguments;                  \
  }
#define WRAP_OWN(name, slot_, parameters, arguments)
#define WRAP_PLAIN(name, slot_, parameters, arguments)

#define SLOT(table, name, slot, need, fails, role, without, type, parameters, \
             arguments)                                                       \
  WRAP_##role(name, slot, parameters, arguments)
#include "layers/slots.def"
#undef SLOT

/* ---- putting them in ----------------------------------------------------------------------- */

#define PUT(table, slot, wrapper) PUT_(table, slot, wrapper)
#define PUT_(table, slot, wrapper) \
  if (plugin->table.slot) plugin->table.slot = wrapper;
#define PUT_CALLS(name, slot)  PUT(TABLE_##name, slot, name##_##slot)
#define PUT_AWAITS(name, slot) PUT(TABLE_##name, slot, name##_##slot)
#define PUT_MAKES(name, slot)  PUT(TABLE_##name, slot, name##_##slot)
#define PUT_ENDS(name, slot)   PUT(TABLE_##name, slot, name##_##slot)
#define PUT_OWN(name, slot)    PUT(TABLE_##name, slot, keel_layer_##name##_##slot)
#define PUT_PLAIN(name, slot)

void keel_layer_wrap_slots(keel_plugin *plugin) {
#define SLOT(table, name, slot, need, fails, role, without, type, parameters, \
             arguments)                                                       \
  PUT_##role(name, slot)
#include "layers/slots.def"
#undef SLOT
}
