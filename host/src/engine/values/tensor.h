/* tensor.h - the runtime's value. Internal. */
#ifndef KEEL_VALUE_H
#define KEEL_VALUE_H

#include <keel/tensor.h>

#include "device/heap.h"
#include "threads/cancel.h"
#include "values/future.h"
#include "values/type.h"

/* Why a value failed; shared by all that depend on it. */
typedef struct keel_error {
  atomic_uint refs;
  keel_status status;
  const char *message; /* follows the struct in memory */
} keel_error;

/* kind; program files contain these numbers, but for a resource's */
enum {
  KEEL_DATA,
  KEEL_SEQUENCE,
  KEEL_OPTIONAL_EMPTY,
  KEEL_RESOURCE,
  KEEL_STRINGS
};

/* The copy that is made of a constant at its first use (memory/late.h). */
typedef struct keel_late {
  pthread_mutex_t lock;  /* held while it is made */
  keel_tensor *constant; /* until `sure` */
  atomic_bool sure;      /* that it has succeeded */
  keel_device *device;
  _Atomic(keel_tensor *) there; /* NULL: not made yet */
} keel_late;

struct keel_tensor {
  struct keel_tensor *next_free; /* in a thread's list */
  atomic_uint refs;
  uint32_t kind;
  uint32_t layout; /* KD_LAYOUT_* */
  uint32_t item_count;
  keel_future future;
  keel_context *context;
  const keel_type *type;
  keel_buffer *buffer;
  uint64_t offset; /* bytes from the buffer's start to the first element */
  /* address of the first element, for the buffer's device; or NULL */
  void *data;
  uint64_t layout_bytes;     /* bytes, if the layout is the device's own */
  _Atomic uint64_t identity; /* keel_tensor_identity; 0: not asked for yet */
  /* In elements, for a keel::Part, which only kernels that take strides get; borrowed from
   * the plan. NULL: packed. */
  const int64_t *strides;
  keel_error *error;
  keel_late
      *late; /* it stands for that copy, and has no data itself; or NULL */
  union {
    keel_tensor **items;            /* of a sequence */
    struct keel_resource *resource; /* resource.h */
    struct keel_strings *strings;   /* strings.h */
  };
};

/* A type that a tensor with data can have: without an open dimension. */
keel_status keel_tensor_type(kd_dtype dtype, uint32_t rank, const int64_t *dims,
                             const keel_type **out_type);

/* Makes an empty tensor object: ready, of kind data, with one reference. */
keel_tensor *keel_tensor_new(keel_context *context);

/* Makes a tensor in memory from `heap`, uninitialised. */
keel_status keel_tensor_on(keel_heap *heap, const keel_type *type,
                           keel_tensor **out_tensor);

/* Makes a tensor at the beginning of an existing buffer. */
keel_status keel_tensor_in_buffer(keel_buffer *buffer, const keel_type *type,
                                  keel_tensor **out_tensor);

/* A number that no other tensor of this process has or had, but copies of it (as constants, which
 * nobody writes to). */
uint64_t keel_tensor_identity(keel_tensor *tensor);
void keel_tensor_is_copy_of(keel_tensor *copy, keel_tensor *original);

/* Makes another tensor of the same memory, with a type of as many elements. */
keel_status keel_tensor_view(keel_tensor *tensor, const keel_type *type,
                             keel_tensor **out_tensor);

/* Makes a tensor of a part of a tensor's elements, from `offset` bytes on; strides as in
 * the struct. */
keel_status keel_tensor_part(keel_tensor *tensor, const keel_type *type,
                             uint64_t offset, const int64_t *strides,
                             keel_tensor **out_tensor);

/* A failed value with this thread's message. */
keel_tensor *keel_tensor_failed(keel_context *context, keel_status status);

/* Makes a pending value. keel_tensor_resolve resolves it with the content of a ready or
 * failed value. */
keel_tensor *keel_tensor_pending(keel_context *context);
void keel_tensor_resolve(keel_tensor *pending, keel_tensor *value);
/* Resolves it as failed, with this thread's message. Needs no memory. */
void keel_tensor_resolve_failed(keel_tensor *pending, keel_status status);
/* The same, but its waiters, which may call plugins, are called by keel_tensor_tell. */
void keel_tensor_announce_failed(keel_tensor *pending, keel_status status);
void keel_tensor_tell(keel_tensor *pending);
/* Resolves it with `value`, now or when that is resolved; no thread waits. */
void keel_tensor_follow(keel_tensor *pending, keel_tensor *value);

/* Calls `waiter` when the value is resolved; at once if it already is. */
void keel_tensor_then(keel_tensor *tensor, keel_waiter *waiter);

/* The state; acquire: sees what was written before the value was resolved. */
static inline uint32_t keel_tensor_state(keel_tensor *tensor) {
  return keel_future_state(&tensor->future);
}

/* Whether all are ready; NULL entries are absent. */
static inline bool keel_tensors_ready(keel_tensor *const *tensors,
                                      uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (tensors[i] && keel_tensor_state(tensors[i]) != KEEL_READY) return false;
  return true;
}

/* The first that has failed, or NULL. */
static inline keel_tensor *keel_tensors_failed(keel_tensor *const *tensors,
                                               uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (tensors[i] && keel_tensor_state(tensors[i]) == KEEL_FAILED)
      return tensors[i];
  return NULL;
}

/* The device whose memory holds it; NULL: host memory. */
static inline keel_device *keel_tensor_location(const keel_tensor *tensor) {
  if (tensor->late) return tensor->late->device;
  return tensor->buffer ? tensor->buffer->heap->device : NULL;
}

/* Waits until the value is known: ready or failed. Work of a device that writes it may be under
 * way still. Returns KD_OK, or the status it failed with. */
keel_status keel_tensor_wait_known(keel_tensor *tensor);

/* Waits for a value that must have data. Returns KD_OK, KD_INVALID_ARGUMENT (a sequence, a
 * resource ...), or its failure. */
keel_status keel_tensor_need_data(keel_tensor *tensor);

/* The address for the host; NULL if the host cannot address the memory. */
void *keel_tensor_host_data(const keel_tensor *tensor);

#endif /* KEEL_VALUE_H */
