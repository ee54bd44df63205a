/* objects.c - the handles that plugins gave, for the layers. */
#include "layers/layer.h"

#define BUCKETS 1024u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *objects[BUCKETS];

static uint32_t bucket(const void *handle) {
  return (uint32_t)(((uintptr_t)handle >> 4) * 2654435761u >> 16) % BUCKETS;
}

object *keel_layer_find(const void *handle, object_kind kind) {
  pthread_mutex_lock(&lock);
  object *o = objects[bucket(handle)];
  while (o && (o->handle != handle || o->kind != kind))
    o = o->next;
  pthread_mutex_unlock(&lock);
  return o;
}

object *keel_layer_track(layer *l, const void *handle, object_kind kind,
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

void keel_layer_untrack(const void *handle, object_kind kind) {
  pthread_mutex_lock(&lock);
  object **at = &objects[bucket(handle)];
  while (*at && ((*at)->handle != handle || (*at)->kind != kind))
    at = &(*at)->next;
  object *gone = *at;
  if (gone) *at = gone->next;
  pthread_mutex_unlock(&lock);
  free(gone);
}

const char *keel_layer_noun(object_kind kind) {
  static const char *const nouns[] = {
      "buffer", "stream",    "event", "instance of a kernel",
      "region", "recording", "group", "device",
      "object"};
  return nouns[kind];
}

layer *keel_layer_end(const char *slot, const void *handle, object_kind kind) {
  const object *o = keel_layer_find(handle, kind);
  layer *l = o ? o->layer : NULL;
  if (o)
    keel_layer_untrack(handle, kind);
  else
    keel_layer_report(NULL, "%s: there is no such %s, or it was destroyed",
                      slot, keel_layer_noun(kind));
  return l;
}

void keel_layer_drop(const layer *l) {
  pthread_mutex_lock(&lock);
  for (uint32_t b = 0; b < BUCKETS; b++) {
    object **at = &objects[b];
    while (*at) {
      object *o = *at;
      if (o->layer != l) {
        at = &o->next;
        continue;
      }
      if (settings.validation && o->kind == OBJECT_BUFFER)
        keel_layer_report(l, "a buffer of %llu bytes is left at close",
                          (unsigned long long)o->size);
      else if (settings.validation)
        keel_layer_report(l, "one %s is left at close",
                          keel_layer_noun(o->kind));
      *at = o->next;
      free(o);
    }
  }
  pthread_mutex_unlock(&lock);
}
