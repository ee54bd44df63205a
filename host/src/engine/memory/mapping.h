/* mapping.h - mapped files that hold tensors' data.
 *
 * A tensor's data may begin at any byte of a file. If kernels cannot read it there, the
 * tensor is misaligned: an aligned copy is made in memory when something is to read it, and
 * freed when nothing needs it any more. */
#ifndef KEEL_MAPPING_H
#define KEEL_MAPPING_H

#include <pthread.h>

#include "values/tensor.h"

/* A mapped file; unmapped when the last reference is released. */
typedef struct keel_mapping {
  atomic_uint refs;
  keel_file file;
  pthread_mutex_t lock; /* of the twins */
  struct keel_aligned_copy *aligned_copies;
  /* one of them: no longer held, but not freed yet */
  struct keel_aligned_copy *recent;
} keel_mapping;

/* Takes over the file, even on failure. */
keel_status keel_mapping_create(keel_file *file, keel_mapping **out_mapping);
void keel_mapping_release(void *mapping);

/* Makes a tensor of a part of the file. It retains the mapping. */
keel_status keel_mapping_wrap(keel_mapping *mapping, keel_context *context,
                              const keel_type *type, const void *data,
                              keel_tensor **out_tensor);

/* Evicts the pages of a tensor that is mapped from a file; they are read again on access.
 * Other tensors are left alone. */
void keel_mapping_evict(const keel_tensor *tensor);
bool keel_mapping_holds(const keel_tensor *tensor);

/* Copies a mapped tensor's data to `target`, and evicts its pages. */
void keel_mapping_take(const keel_tensor *tensor, void *target);

static inline bool keel_tensor_misaligned(const keel_tensor *tensor) {
  return tensor->buffer && tensor->buffer->class == KEEL_MISALIGNED;
}

/* The value in a form that kernels can read, retained: a misaligned tensor's aligned copy,
 * otherwise itself. Copies that are held are shared. */
keel_status keel_mapping_align(keel_tensor *tensor, keel_tensor **out_tensor);
/* lingers: keep the copy until another one lingers, as it may be read again soon. */
void keel_mapping_release_copy(const keel_tensor *tensor, bool lingers);

/* The same for a list, or NULL; entries may be NULL. Holds all, or none on failure. */
keel_status keel_mapping_hold_copies(keel_tensor *const *tensors,
                                     uint32_t count);
void keel_mapping_release_copies(keel_tensor *const *tensors, uint32_t count,
                                 bool linger);

/* The same for a plugin, borrowed: valid while the copy is held or, if it is not, as long
 * as the mapping. */
keel_status keel_mapping_borrow(keel_tensor *tensor, keel_tensor **out_tensor);

/* As keel_mapping_align; the copy stays as long as the mapping, for launches, each of which reads
 * it. */
keel_status keel_mapping_keep(keel_tensor *tensor, keel_tensor **out_tensor);
bool keel_mapping_keeps(const keel_tensor *tensor);

#endif /* KEEL_MAPPING_H */
