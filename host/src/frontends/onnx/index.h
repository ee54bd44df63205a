/* index.h - finding functions, opset imports and tensors of a model without walking
 * through lists whose length the file chooses. */
#ifndef KEEL_ONNX_INDEX_H
#define KEEL_ONNX_INDEX_H

#include "import.h"

/* An index by domain, name and overload, of places in a list. Zeroed: empty. */
typedef struct onnx_index {
  struct onnx_index_entry *entries; /* open addressing */
  uint32_t count, capacity;         /* capacity is a power of two */
} onnx_index;

/* Adds one; where the name is there already, the first stays. */
keel_status onnx_index_add(onnx_index *index, const char *domain,
                           const char *name, const char *overload,
                           uint32_t place);

/* Its place, or KEEL_ABSENT. */
uint32_t onnx_index_find(const onnx_index *index, const char *domain,
                         const char *name, const char *overload);
void onnx_index_free(onnx_index *index);

/* Tensors of function bodies, which are read once however often they are called. */
typedef struct onnx_shared {
  struct onnx_shared_entry *entries;
  uint32_t count, capacity;
} onnx_shared;

/* The tensor that was put in for a proto, or NULL; borrowed. */
keel_tensor *onnx_shared_find(const onnx_shared *shared,
                              const onnx_tensor *proto);
keel_status onnx_shared_add(onnx_shared *shared, const onnx_tensor *proto,
                            keel_tensor *tensor);
void onnx_shared_free(onnx_shared *shared);

#endif /* KEEL_ONNX_INDEX_H */
