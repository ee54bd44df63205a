/* dlpack.h - another library's tensors, and DLPack's structs as they stand in its own
 * header: what the tests of keel/dlpack.h share. */
#ifndef KEEL_TESTS_DLPACK_H
#define KEEL_TESTS_DLPACK_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct {
  uint32_t major, minor;
} DLPackVersion;

typedef struct {
  int device_type;
  int32_t device_id;
} DLDevice;

typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

#define READ_ONLY 1u
#define COPIED    2u

#define WORKERS KEEL_NO_WORKERS
#include "with_cpu.h"

#define ROOM 512 /* bytes of each tensor's memory */

/* A tensor of f32 in memory of its own. Its deleter frees all of it, so that a second call
 * or a late read is one of freed memory. */
typedef struct given {
  DLManagedTensorVersioned versioned;
  DLManagedTensor legacy;
  int64_t shape[4], strides[4];
  char *memory;
  atomic_int *deleted;
} given;

static inline void wipe(given *self) {
  atomic_fetch_add(self->deleted, 1);
  memset(self->memory, 0xdd, ROOM);
  free(self->memory);
  free(self);
}

static inline void delete_versioned(DLManagedTensorVersioned *self) {
  wipe(self->manager_ctx);
}

static inline void delete_legacy(DLManagedTensor *self) {
  wipe(self->manager_ctx);
}

/* Packed floats 0, -1, 2, -3 ... aligned to 256. */
static inline given *make(atomic_int *deleted, int32_t rank,
                          const int64_t *dims) {
  given *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->memory = aligned_alloc(256, ROOM);
  assert_non_null(self->memory);
  self->deleted = deleted;
  for (int i = 0; i < ROOM / 4; i++)
    ((float *)(void *)self->memory)[i] = (float)(i % 2 ? -i : i);
  if (rank) memcpy(self->shape, dims, (size_t)rank * sizeof *dims);
  self->versioned = (DLManagedTensorVersioned){
      .version = {1, 0},
      .manager_ctx = self,
      .deleter = delete_versioned,
      .dl_tensor = {.data = self->memory,
                    .device = {.device_type = 1},
                    .ndim = rank,
                    .dtype = {.code = 2, .bits = 32, .lanes = 1},
                    .shape = self->shape},
  };
  self->legacy = (DLManagedTensor){.dl_tensor = self->versioned.dl_tensor,
                                   .manager_ctx = self,
                                   .deleter = delete_legacy};
  return self;
}

static inline given *make_pairs(atomic_int *deleted) {
  return make(deleted, DIMS(2, 2));
}

static inline keel_tensor *take(given *self, uint32_t flags) {
  keel_tensor *tensor = NULL;
  if (keel_tensor_from_dlpack(context, &self->versioned, flags, &tensor) !=
      KD_OK)
    fail_msg("%s", keel_message());
  return tensor;
}

static inline DLManagedTensorVersioned *lend(keel_tensor *tensor,
                                             uint32_t flags) {
  DLManagedTensorVersioned *managed = NULL;
  if (keel_tensor_to_dlpack(tensor, flags, &managed) != KD_OK)
    fail_msg("%s", keel_message());
  return managed;
}

static inline keel_tensor *relu(keel_device *device, keel_tensor *x) {
  keel_tensor *y = NULL;
  expect_ok(keel_device_push(device));
  if (keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1) != KD_OK)
    fail_msg("%s", keel_message());
  keel_device_pop();
  return y;
}

#endif /* KEEL_TESTS_DLPACK_H */
