/* mapping.c - mapped files, and aligned copies of data that kernels can't read there. */
#include "memory/mapping.h"

#include "base/refs.h"
#include "device/context.h"

#define ALIGNMENT 64 /* the alignment that kernels need in host memory */
#define PIECE     (UINT64_C(1) << 20) /* bytes that are in memory twice */
/* Smaller aligned copies are kept in the pool for reuse; malloc returns larger ones to the
 * system at once. */
#define LARGE (UINT64_C(32) << 20)

/* Of what begins at `data`, and is held; tensor: NULL until it is read. */
typedef struct keel_aligned_copy {
  const void *data;
  uint64_t bytes, holds;
  bool kept; /* one of the holds is the mapping's own */
  keel_tensor *tensor;
  struct keel_aligned_copy *next;
} keel_aligned_copy;

keel_status keel_mapping_create(keel_file *file, keel_mapping **out_mapping) {
  keel_mapping *mapping = calloc(1, sizeof *mapping);
  if (!mapping) {
    keel_file_close(file);
    return keel_no_memory(sizeof *mapping);
  }
  keel_refs_init(&mapping->refs);
  pthread_mutex_init(&mapping->lock, NULL);
  mapping->file = *file;
  *file = (keel_file){0};
  *out_mapping = mapping;
  return KD_OK;
}

void keel_mapping_release(void *mapping) {
  keel_mapping *self = mapping;
  if (!self || !keel_refs_drop(&self->refs)) return;
  for (keel_aligned_copy *next; self->aligned_copies;
       self->aligned_copies = next) {
    next = self->aligned_copies->next;
    keel_tensor_release(self->aligned_copies->tensor);
    free(self->aligned_copies);
  }
  keel_file_close(&self->file);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

keel_status keel_mapping_wrap(keel_mapping *mapping, keel_context *context,
                              const keel_type *type, const void *data,
                              keel_tensor **out_tensor) {
  keel_buffer *buffer = NULL;
  KEEL_TRY(keel_heap_wrap(&context->host, data, type->bytes,
                          keel_mapping_release, mapping, &buffer));
  keel_refs_take(&mapping->refs); /* the buffer's */
  if (!keel_aligned_to(data, ALIGNMENT)) buffer->class = KEEL_MISALIGNED;
  keel_status status = keel_tensor_in_buffer(buffer, type, out_tensor);
  keel_buffer_release(buffer); /* the tensor holds it */
  return status;
}

bool keel_mapping_holds(const keel_tensor *tensor) {
  return tensor->buffer && tensor->buffer->done == keel_mapping_release;
}

void keel_mapping_evict(const keel_tensor *tensor) {
  if (keel_mapping_holds(tensor) && tensor->data)
    keel_file_evict(tensor->data, tensor->type->bytes);
}

void keel_mapping_take(const keel_tensor *tensor, void *target) {
  const char *from = tensor->data;
  uint64_t left = tensor->type->bytes;
  for (char *to = target; left;) {
    uint64_t size = left < PIECE ? left : PIECE;
    memcpy(to, from, size);
    keel_file_evict(from, size);
    to += size;
    from += size;
    left -= size;
  }
  keel_mapping_evict(tensor); /* pages between two pieces */
}

/* ---- twins ---------------------------------------------------------------------- */

static keel_mapping *mapping_of(const keel_tensor *tensor) {
  assert(tensor->buffer->done == keel_mapping_release);
  return tensor->buffer->done_context;
}

/* The list position of a tensor's aligned copy, or the list's end. */
static keel_aligned_copy **mapping_find(keel_mapping *mapping,
                                        const keel_tensor *tensor) {
  keel_aligned_copy **at = &mapping->aligned_copies;
  while (*at &&
         ((*at)->data != tensor->data || (*at)->bytes != tensor->type->bytes))
    at = &(*at)->next;
  return at;
}

static keel_status mapping_copy(const keel_tensor *tensor,
                                keel_tensor **out_copy) {
  KEEL_TRY(keel_tensor_on(&tensor->context->host, tensor->type, out_copy));
  keel_mapping_take(tensor, (*out_copy)->data);
  return KD_OK;
}

keel_status keel_mapping_align(keel_tensor *tensor, keel_tensor **out_tensor) {
  if (!keel_tensor_misaligned(tensor)) {
    *out_tensor = keel_tensor_retain(tensor);
    return KD_OK;
  }
  keel_mapping *mapping = mapping_of(tensor);
  keel_status status = KD_OK;
  pthread_mutex_lock(&mapping->lock);
  keel_aligned_copy *aligned = *mapping_find(mapping, tensor);
  if (aligned && !aligned->tensor)
    status = mapping_copy(tensor, &aligned->tensor);
  keel_tensor *there = status == KD_OK && aligned ? aligned->tensor : NULL;
  if (there && there->type == tensor->type)
    *out_tensor = keel_tensor_retain(there);
  else if (there)
    status = keel_tensor_view(there, tensor->type, out_tensor);
  pthread_mutex_unlock(&mapping->lock);
  if (!aligned) status = mapping_copy(tensor, out_tensor);
  if (status == KD_OK) keel_tensor_is_copy_of(*out_tensor, tensor);
  return status;
}

/* keep: holds it once for the mapping itself. */
static keel_status hold_as(const keel_tensor *tensor, bool keep) {
  if (!keel_tensor_misaligned(tensor)) return KD_OK;
  keel_mapping *mapping = mapping_of(tensor);
  keel_status status = KD_OK;
  pthread_mutex_lock(&mapping->lock);
  keel_aligned_copy **at = mapping_find(mapping, tensor);
  if (!*at && (*at = calloc(1, sizeof **at))) {
    (*at)->data = tensor->data;
    (*at)->bytes = tensor->type->bytes;
  }
  if (*at && *at == mapping->recent) mapping->recent = NULL;
  if (*at) {
    (*at)->holds += !keep || !(*at)->kept;
    (*at)->kept |= keep;
  } else {
    status = keel_no_memory(sizeof **at);
  }
  pthread_mutex_unlock(&mapping->lock);
  return status;
}

static keel_status hold_copy(const keel_tensor *tensor) {
  return hold_as(tensor, false);
}

keel_status keel_mapping_keep(keel_tensor *tensor, keel_tensor **out_tensor) {
  KEEL_TRY(hold_as(tensor, true));
  return keel_mapping_align(tensor, out_tensor);
}

bool keel_mapping_keeps(const keel_tensor *tensor) {
  if (!keel_tensor_misaligned(tensor)) return false;
  keel_mapping *mapping = mapping_of(tensor);
  pthread_mutex_lock(&mapping->lock);
  const keel_aligned_copy *aligned = *mapping_find(mapping, tensor);
  bool kept = aligned && aligned->kept;
  pthread_mutex_unlock(&mapping->lock);
  return kept;
}

keel_status keel_mapping_borrow(keel_tensor *tensor, keel_tensor **out_tensor) {
  *out_tensor = tensor;
  if (!keel_tensor_misaligned(tensor)) return KD_OK;
  keel_mapping *mapping = mapping_of(tensor);
  pthread_mutex_lock(&mapping->lock);
  const keel_aligned_copy *aligned = *mapping_find(mapping, tensor);
  bool held = aligned && aligned->holds;
  pthread_mutex_unlock(&mapping->lock);
  if (!held) KEEL_TRY(hold_copy(tensor));
  KEEL_TRY(keel_mapping_align(tensor, out_tensor));
  keel_tensor_release(*out_tensor); /* it is held */
  return KD_OK;
}

/* Removes an aligned copy from the list. */
static keel_aligned_copy *mapping_take_out(keel_mapping *mapping,
                                           keel_aligned_copy *aligned) {
  keel_aligned_copy **at = &mapping->aligned_copies;
  while (*at != aligned)
    at = &(*at)->next;
  *at = aligned->next;
  return aligned;
}

void keel_mapping_release_copy(const keel_tensor *tensor, bool lingers) {
  if (!keel_tensor_misaligned(tensor)) return;
  keel_mapping *mapping = mapping_of(tensor);
  pthread_mutex_lock(&mapping->lock);
  keel_aligned_copy *aligned = *mapping_find(mapping, tensor), *gone = NULL;
  assert(!aligned || aligned->holds);
  if (aligned && --aligned->holds == 0) {
    gone = aligned;
    if (lingers && aligned->tensor) {
      gone = mapping->recent;
      mapping->recent = aligned;
    }
    if (gone) mapping_take_out(mapping, gone);
  }
  pthread_mutex_unlock(&mapping->lock);
  if (!gone) return;
  keel_tensor_release(gone->tensor);
  if (gone->bytes >= LARGE) keel_heap_trim(&tensor->context->host);
  free(gone);
}

keel_status keel_mapping_hold_copies(keel_tensor *const *tensors,
                                     uint32_t count) {
  for (uint32_t i = 0; tensors && i < count; i++) {
    keel_status status = tensors[i] ? hold_copy(tensors[i]) : KD_OK;
    if (status == KD_OK) continue;
    keel_mapping_release_copies(tensors, i, false);
    return status;
  }
  return KD_OK;
}

void keel_mapping_release_copies(keel_tensor *const *tensors, uint32_t count,
                                 bool linger) {
  for (uint32_t i = 0; tensors && i < count; i++)
    if (tensors[i]) keel_mapping_release_copy(tensors[i], linger);
}
