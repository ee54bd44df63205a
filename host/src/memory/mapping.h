/* mapping.h - files that values lie in.
 *
 * A tensor's data may begin at any byte of a file. Where that is no place that kernels can
 * read from, the tensor is ragged: its copy in memory, its twin, is made when somebody is to
 * read it, and gone when nobody is to any more. */
#ifndef KEEL_MAPPING_H
#define KEEL_MAPPING_H

#include <pthread.h>

#include "values/tensor.h"

/* A mapped file; unmapped when nobody holds it. */
typedef struct keel_mapping {
  atomic_uint refs;
  keel_file file;
  pthread_mutex_t lock; /* of the twins */
  struct keel_twin *twins;
  struct keel_twin *recent; /* of them: held by nobody, and not gone yet */
} keel_mapping;

/* Takes the file, also where it fails. */
keel_status keel_mapping_create(keel_file *file, keel_mapping **out_mapping);
keel_mapping *keel_mapping_retain(keel_mapping *mapping);
void keel_mapping_release(void *mapping);

/* A tensor of a part of the file, which holds the mapping. */
keel_status keel_mapping_wrap(keel_mapping *mapping, keel_context *context,
                              const keel_type *type, const void *data,
                              keel_tensor **out_tensor);

/* Takes a tensor's data out of memory where they lie in a file, from which they come
 * back when they are read; others stay. */
void keel_mapping_spare(const keel_tensor *tensor);
bool keel_mapping_holds(const keel_tensor *tensor);

/* Copies a mapped tensor's data to where there is room for them, and spares them. */
void keel_mapping_take(const keel_tensor *tensor, void *target);

static inline bool keel_tensor_ragged(const keel_tensor *tensor) {
  return tensor->buffer && tensor->buffer->class == KEEL_RAGGED;
}

/* The same value where kernels can read it: a ragged tensor's twin, else itself; retained.
 * Twins that are held are kept, and found by all. */
keel_status keel_mapping_straighten(keel_tensor *tensor,
                                    keel_tensor **out_tensor);
keel_status keel_mapping_hold(const keel_tensor *tensor);
/* lingers: it is kept until another lingers, for who may read it again soon. */
void keel_mapping_let_go(const keel_tensor *tensor, bool lingers);

/* Of a list, or NULL; entries may be NULL. All are held, or none. */
keel_status keel_mappings_hold(keel_tensor *const *tensors, uint32_t count);
void keel_mappings_let_go(keel_tensor *const *tensors, uint32_t count,
                          bool linger);

/* The same for a plugin, borrowed: as long as it is held, or, where it is not, as the
 * mapping. */
keel_status keel_mapping_show(keel_tensor *tensor, keel_tensor **out_tensor);

#endif /* KEEL_MAPPING_H */
