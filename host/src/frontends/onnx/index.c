/* index.c - hash tables over a model's lists. */
#include "index.h"

typedef struct onnx_index_entry {
  const char *domain, *name, *overload; /* name NULL: free */
  uint32_t place;
} index_entry;

static index_entry *index_slot_of(const onnx_index *index, const char *domain,
                                  const char *name, const char *overload) {
  uint64_t at =
      keel_hash_string(keel_hash_string(KEEL_HASH_SEED, domain), name);
  at = keel_hash_string(at, overload);
  for (;; at++) {
    index_entry *entry = &index->entries[at & (index->capacity - 1)];
    if (!entry->name ||
        (!strcmp(entry->name, name) && !strcmp(entry->domain, domain) &&
         !strcmp(entry->overload, overload)))
      return entry;
  }
}

static keel_status index_grow(onnx_index *index) {
  onnx_index fresh = {.count = index->count,
                      .capacity = index->capacity ? index->capacity * 2 : 16};
  fresh.entries = calloc(fresh.capacity, sizeof *fresh.entries);
  if (!fresh.entries)
    return keel_no_memory(fresh.capacity * sizeof(index_entry));
  for (uint32_t i = 0; i < index->capacity; i++) {
    const index_entry *old = &index->entries[i];
    if (old->name)
      *index_slot_of(&fresh, old->domain, old->name, old->overload) = *old;
  }
  free(index->entries);
  *index = fresh;
  return KD_OK;
}

keel_status onnx_index_add(onnx_index *index, const char *domain,
                           const char *name, const char *overload,
                           uint32_t place) {
  if (index->count * 2 >= index->capacity) KEEL_TRY(index_grow(index));
  index_entry *slot = index_slot_of(index, domain, name, overload);
  if (slot->name) return KD_OK;
  *slot = (index_entry){domain, name, overload, place};
  index->count++;
  return KD_OK;
}

uint32_t onnx_index_find(const onnx_index *index, const char *domain,
                         const char *name, const char *overload) {
  if (!index->capacity) return KEEL_ABSENT;
  const index_entry *slot = index_slot_of(index, domain, name, overload);
  return slot->name ? slot->place : KEEL_ABSENT;
}

void onnx_index_free(onnx_index *index) {
  free(index->entries);
  *index = (onnx_index){0};
}

/* ---- tensors -------------------------------------------------------------- */

typedef struct onnx_shared_entry {
  const onnx_tensor *proto; /* NULL: free */
  keel_tensor *tensor;      /* retained */
} shared_entry;

static shared_entry *index_place_of(const onnx_shared *shared,
                                    const onnx_tensor *proto) {
  uint64_t at = keel_hash(KEEL_HASH_SEED, &proto, sizeof(onnx_tensor *));
  for (;; at++) {
    shared_entry *entry = &shared->entries[at & (shared->capacity - 1)];
    if (!entry->proto || entry->proto == proto) return entry;
  }
}

keel_tensor *onnx_shared_find(const onnx_shared *shared,
                              const onnx_tensor *proto) {
  return shared->capacity ? index_place_of(shared, proto)->tensor : NULL;
}

keel_status onnx_shared_add(onnx_shared *shared, const onnx_tensor *proto,
                            keel_tensor *tensor) {
  if (shared->count * 2 >= shared->capacity) {
    onnx_shared fresh = {
        .count = shared->count,
        .capacity = shared->capacity ? shared->capacity * 2 : 16};
    fresh.entries = calloc(fresh.capacity, sizeof *fresh.entries);
    if (!fresh.entries)
      return keel_no_memory(fresh.capacity * sizeof(shared_entry));
    for (uint32_t i = 0; i < shared->capacity; i++)
      if (shared->entries[i].proto)
        *index_place_of(&fresh, shared->entries[i].proto) = shared->entries[i];
    free(shared->entries);
    *shared = fresh;
  }
  *index_place_of(shared, proto) =
      (shared_entry){proto, keel_tensor_retain(tensor)};
  shared->count++;
  return KD_OK;
}

void onnx_shared_free(onnx_shared *shared) {
  for (uint32_t i = 0; i < shared->capacity; i++)
    keel_tensor_release(shared->entries[i].tensor);
  free(shared->entries);
  *shared = (onnx_shared){0};
}
