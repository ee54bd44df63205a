/* type.h - interned types: one object for each element type and shape, so that
 * "same type" is one pointer comparison. They live as long as the process. */
#ifndef KEEL_TYPE_H
#define KEEL_TYPE_H

#include <kd/tensor.h>

#include "base/base.h"

typedef struct keel_type keel_type;
struct keel_type {
  uint64_t hash;
  uint64_t bytes;   /* packed; 0 if a dimension is open */
  int64_t elements; /* -1 if a dimension is open */
  kd_dtype dtype;
  uint32_t rank;
  int64_t dims[]; /* -1: open */
};

/* Finds or makes a type. Returns KD_OK, KD_INVALID_ARGUMENT (element type, rank
 * or dims that no tensor can have), KD_OUT_OF_MEMORY. */
keel_status keel_type_of(kd_dtype dtype, uint32_t rank, const int64_t *dims,
                         const keel_type **out_type);

/* `count` tensors of a type, side by side along a new axis, which may count from the end.
 * Returns as keel_type_of does. */
keel_status keel_type_stack(const keel_type *each, int64_t axis, int64_t count,
                            const keel_type **out_type);

/* One of the tensors that stand along an axis of a type, likewise. */
keel_status keel_type_slice(const keel_type *all, int64_t axis,
                            const keel_type **out_type);

/* Bytes of all types, with the table. */
uint64_t keel_type_bytes(void);

/* The type that plugins see for a value of unknown type. Inside, such a value's type is
 * NULL. */
extern const keel_type keel_type_unknown;

/* Writes "f32[2,?,4]" and returns the buffer. NULL type: "-". */
const char *keel_type_text(const keel_type *type, char *buffer, size_t size);

/* The alignment of an element, as the compiler has it. */
uint32_t keel_dtype_alignment(kd_dtype dtype);

static inline bool keel_type_known(const keel_type *type) {
  return type->elements >= 0;
}

static inline kd_type keel_type_view(const keel_type *type) {
  return (kd_type){
      .dims = type->dims, .dtype = type->dtype, .rank = type->rank};
}

#endif /* KEEL_TYPE_H */
