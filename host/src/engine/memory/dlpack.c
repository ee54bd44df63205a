/* dlpack.c - tensors from and to other libraries, by DLPack.
 *
 * DLPack's structs are declared here as version 1 lays them out, under its two tags but
 * with our own names, so that its header is not needed. Up to `flags` the layout of the
 * versioned struct is the same in every version. */
#include <dlfcn.h>
#include <keel/dlpack.h>

#include "device/context.h"
#include "device/failures.h"
#include "memory/copy.h"
#include "values/tensor.h"

#define MAJOR 1u
#define MINOR 1u /* of export: the first that has all types below */

/* DLManagedTensorVersioned.flags */
#define READ_ONLY UINT64_C(0x1)
#define COPIED    UINT64_C(0x2)
#define PADDED    UINT64_C(0x4) /* sub-byte elements take a byte each */

/* Device kinds whose memory the host can address. */
#define ON_CPU       1
#define ON_CUDA_HOST 3
#define ON_ROCM_HOST 11

typedef struct dl_tensor {
  void *data;
  int32_t device; /* its kind */
  int32_t device_id;
  int32_t rank;
  uint8_t code; /* with bits and lanes, the element type */
  uint8_t bits;
  uint16_t lanes;
  int64_t *dims;
  int64_t *strides; /* in elements; NULL: packed row-major */
  uint64_t offset;  /* bytes, from data to the first element */
} dl_tensor;

struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *context;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  dl_tensor tensor;
};

struct DLManagedTensor {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct DLManagedTensor *self);
};

KD_STATIC_ASSERT(sizeof(void *) != 8 || (sizeof(dl_tensor) == 48 &&
                                         offsetof(dl_tensor, code) == 20 &&
                                         offsetof(dl_tensor, offset) == 40),
                 "DLTensor is as DLPack has it");
KD_STATIC_ASSERT(sizeof(void *) != 8 ||
                     (sizeof(struct DLManagedTensorVersioned) == 80 &&
                      offsetof(struct DLManagedTensorVersioned, deleter) ==
                          16 &&
                      offsetof(struct DLManagedTensorVersioned, tensor) == 32),
                 "DLManagedTensorVersioned is as DLPack has it");
KD_STATIC_ASSERT(sizeof(void *) != 8 ||
                     (sizeof(struct DLManagedTensor) == 64 &&
                      offsetof(struct DLManagedTensor, deleter) == 56),
                 "DLManagedTensor is as DLPack has it");

static const struct {
  kd_dtype dtype;
  uint8_t code, bits;
} element_types[] = {
    {KD_I4, 0, 4},          {KD_I8, 0, 8},      {KD_I16, 0, 16},
    {KD_I32, 0, 32},        {KD_I64, 0, 64},    {KD_U4, 1, 4},
    {KD_U8, 1, 8},          {KD_U16, 1, 16},    {KD_U32, 1, 32},
    {KD_U64, 1, 64},        {KD_F16, 2, 16},    {KD_F32, 2, 32},
    {KD_F64, 2, 64},        {KD_BF16, 4, 16},   {KD_C64, 5, 64},
    {KD_C128, 5, 128},      {KD_BOOL, 6, 8},    {KD_F8E4M3FN, 10, 8},
    {KD_F8E4M3FNUZ, 11, 8}, {KD_F8E5M2, 12, 8}, {KD_F8E5M2FNUZ, 13, 8},
    {KD_F8E8M0, 14, 8},     {KD_F4E2M1, 17, 4}, {KD_I2, 0, 2},
    {KD_U2, 1, 2},
};

static keel_status check_flags(uint32_t flags) {
  if (flags & ~(KEEL_DLPACK_MAY_COPY | KEEL_DLPACK_COPY))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "flags 0x%x: there are only KEEL_DLPACK_MAY_COPY and"
                     " KEEL_DLPACK_COPY",
                     (unsigned)flags);
  return KD_OK;
}

/* ---- from another library --------------------------------------------------- */

static keel_status find_dtype(const dl_tensor *given, kd_dtype *out_dtype) {
  if (given->lanes != 1)
    return keel_fail(KD_UNIMPLEMENTED,
                     "a DLPack tensor of vectors of %u elements; give the lanes"
                     " as a dimension",
                     (unsigned)given->lanes);
  for (size_t i = 0; i < KEEL_COUNT_OF(element_types); i++)
    if (element_types[i].code == given->code &&
        element_types[i].bits == given->bits) {
      *out_dtype = element_types[i].dtype;
      return KD_OK;
    }
  return keel_fail(KD_UNIMPLEMENTED,
                   "Keel has no element type for DLPack's code %u of %u bits;"
                   " convert the tensor first",
                   (unsigned)given->code, (unsigned)given->bits);
}

static keel_status check_device(const dl_tensor *given) {
  static const char *const names[] = {
      [2] = "CUDA",    [4] = "OpenCL",  [7] = "Vulkan",
      [8] = "Metal",   [10] = "ROCm",   [13] = "CUDA managed",
      [14] = "oneAPI", [15] = "WebGPU", [16] = "Hexagon"};
  int32_t kind = given->device;
  if (kind == ON_CPU || kind == ON_CUDA_HOST || kind == ON_ROCM_HOST)
    return KD_OK;
  const char *name =
      kind >= 0 && (size_t)kind < KEEL_COUNT_OF(names) ? names[kind] : NULL;
  return keel_fail(KD_UNIMPLEMENTED,
                   "a DLPack tensor in %s memory (device kind %d), which can't"
                   " be shared; copy it to host memory first",
                   name ? name : "unknown", (int)kind);
}

static keel_status find_type(const dl_tensor *given,
                             const keel_type **out_type) {
  kd_dtype dtype = KD_NONE;
  KEEL_TRY(find_dtype(given, &dtype));
  if (given->rank < 0 || (given->rank && !given->dims))
    return keel_fail(KD_INVALID_ARGUMENT, "a DLPack tensor of %d dimensions%s",
                     (int)given->rank, given->dims ? "" : ", and no shape");
  for (int32_t i = 0; i < given->rank; i++)
    if (given->dims[i] < 0)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "dimension %d of a DLPack tensor is %lld", (int)i,
                       (long long)given->dims[i]);
  return keel_type_of(dtype, (uint32_t)given->rank, given->dims, out_type);
}

static bool dlpack_is_packed(const dl_tensor *given, const keel_type *type) {
  int64_t step = 1;
  if (!given->strides || !type->elements) return true;
  for (uint32_t i = type->rank; i-- > 0;) {
    if (type->dims[i] != 1 && given->strides[i] != step) return false;
    step *= type->dims[i];
  }
  return true;
}

/* No sum of strides may overflow int64, in whatever order the elements are visited. */
static keel_status check_strides(const dl_tensor *given,
                                 const keel_type *type) {
  const int64_t most = INT64_MAX / 4 / (int64_t)KD_MAX_RANK;
  int64_t size = kd_dtype_size(type->dtype);
  if (!size)
    return keel_fail(KD_UNIMPLEMENTED,
                     "a DLPack tensor of strided %s elements; make it"
                     " contiguous first",
                     keel_dtype_name(type->dtype));
  for (uint32_t i = 0; i < type->rank; i++) {
    int64_t bytes = 0;
    if (!keel_mul_i64(type->dims[i], given->strides[i], &bytes) ||
        !keel_mul_i64(bytes, size, &bytes) || bytes > most || bytes < -most)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "stride %u of a DLPack tensor is %lld elements, which"
                       " leaves the address space",
                       (unsigned)i, (long long)given->strides[i]);
  }
  return KD_OK;
}

static keel_status find_data(const dl_tensor *given, const keel_type *type,
                             const char **out_data) {
  uintptr_t at = (uintptr_t)given->data;
  *out_data = NULL;
  if (!type->bytes) return KD_OK;
  if (!given->data)
    return keel_fail(KD_INVALID_ARGUMENT, "a DLPack tensor without data");
  if (given->offset > UINTPTR_MAX - at)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "a DLPack tensor's byte offset is %llu",
                     (unsigned long long)given->offset);
  *out_data = (const char *)given->data + given->offset;
  return KD_OK;
}

/* Packs strided elements, copying contiguous runs at once. */
static void dlpack_gather(const dl_tensor *given, const keel_type *type,
                          const char *from, char *to) {
  int64_t size = kd_dtype_size(type->dtype), run = 1, offset = 0;
  int64_t at[KD_MAX_RANK] = {0};
  uint32_t outer = type->rank;
  while (outer &&
         (type->dims[outer - 1] == 1 || given->strides[outer - 1] == run))
    run *= type->dims[--outer];
  for (int64_t i = 0; i < type->elements; i += run) {
    memcpy(to, from + offset, (size_t)(run * size));
    to += run * size;
    for (uint32_t d = outer; d-- > 0;) {
      offset += given->strides[d] * size;
      if (++at[d] < type->dims[d]) break;
      offset -= given->strides[d] * size * type->dims[d];
      at[d] = 0;
    }
  }
}

static keel_status dlpack_copy_of(keel_context *context, const dl_tensor *given,
                                  const keel_type *type, const char *data,
                                  bool packed, keel_tensor **out_tensor) {
  if (!packed) KEEL_TRY(check_strides(given, type));
  KEEL_TRY(keel_tensor_on(&context->host, type, out_tensor));
  if (!packed)
    dlpack_gather(given, type, data, (*out_tensor)->data);
  else if (type->bytes)
    memcpy((*out_tensor)->data, data, type->bytes);
  return KD_OK;
}

/* *out_copied: `given` is no longer used; otherwise `done` is called later. */
static keel_status dlpack_take(keel_context *context, const dl_tensor *given,
                               void (*done)(void *), void *managed,
                               uint32_t flags, keel_tensor **out_tensor,
                               bool *out_copied) {
  const keel_type *type = NULL;
  const char *data = NULL;
  KEEL_TRY(check_flags(flags));
  KEEL_TRY(check_device(given));
  KEEL_TRY(find_type(given, &type));
  KEEL_TRY(find_data(given, type, &data));
  bool packed = dlpack_is_packed(given, type);
  bool aligned = keel_aligned_to(data, keel_dtype_alignment(type->dtype));
  *out_copied = (flags & KEEL_DLPACK_COPY) || !packed || !aligned;
  if (!*out_copied)
    return keel_tensor_wrap(context, type->dtype, type->rank, type->dims, data,
                            done, managed, out_tensor);
  if (!flags)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "a DLPack tensor whose elements are %s can't be shared;"
                     " make it contiguous, or allow a copy"
                     " (KEEL_DLPACK_MAY_COPY)",
                     packed ? "not aligned to their size" : "strided");
  return dlpack_copy_of(context, given, type, data, packed, out_tensor);
}

static void dlpack_let_go(void *managed) {
  struct DLManagedTensorVersioned *given = managed;
  given->deleter(given);
}

static void let_legacy_go(void *managed) {
  struct DLManagedTensor *given = managed;
  given->deleter(given);
}

keel_status keel_tensor_from_dlpack(keel_context *context,
                                    struct DLManagedTensorVersioned *managed,
                                    uint32_t flags, keel_tensor **out_tensor) {
  bool copied = false;
  *out_tensor = NULL;
  if (!managed)
    return keel_fail(KD_INVALID_ARGUMENT, "the DLPack tensor is NULL");
  if (managed->major != MAJOR)
    return keel_fail(KD_INCOMPATIBLE,
                     "a tensor of DLPack %u.%u, and Keel reads version %u: ask"
                     " its maker for that one, and call this one's deleter",
                     (unsigned)managed->major, (unsigned)managed->minor, MAJOR);
  if (managed->flags & ~(READ_ONLY | COPIED))
    return keel_fail(
        KD_UNIMPLEMENTED,
        "a DLPack tensor with flags 0x%llx, of which Keel knows"
        " 0x3 (read-only, copied)%s",
        (unsigned long long)managed->flags,
        managed->flags & PADDED ? "; 0x4 is padded elements: pack them" : "");
  void (*done)(void *) = managed->deleter ? dlpack_let_go : NULL;
  KEEL_TRY(dlpack_take(context, &managed->tensor, done, managed, flags,
                       out_tensor, &copied));
  if (copied && done) done(managed);
  return KD_OK;
}

keel_status keel_tensor_from_dlpack_legacy(keel_context *context,
                                           struct DLManagedTensor *managed,
                                           uint32_t flags,
                                           keel_tensor **out_tensor) {
  bool copied = false;
  *out_tensor = NULL;
  if (!managed)
    return keel_fail(KD_INVALID_ARGUMENT, "the DLPack tensor is NULL");
  void (*done)(void *) = managed->deleter ? let_legacy_go : NULL;
  KEEL_TRY(dlpack_take(context, &managed->tensor, done, managed, flags,
                       out_tensor, &copied));
  if (copied && done) done(managed);
  return KD_OK;
}

/* ---- to another library ----------------------------------------------------- */

/* The object that a receiver holds: one of the structs, the tensor, its dims and strides. */
typedef struct exported {
  union { /* must be first: cast from the struct that the receiver gets */
    struct DLManagedTensorVersioned versioned;
    struct DLManagedTensor legacy;
  };
  keel_tensor *tensor;
  keel_context *context;
  int64_t shape[]; /* dims, then strides */
} exported;

static void end_export(exported *held) {
  keel_context *context = held->context;
  keel_tensor_release(held->tensor);
  free(held);
  /* last: a caller that sees 0 may close the context */
  atomic_fetch_sub_explicit(&context->exports, 1, memory_order_release);
}

uint32_t keel_dlpack_count(const keel_context *context) {
  return atomic_load_explicit(&context->exports, memory_order_acquire);
}

static void end_versioned(struct DLManagedTensorVersioned *self) {
  end_export((exported *)(void *)self);
}

static void end_legacy(struct DLManagedTensor *self) {
  end_export((exported *)(void *)self);
}

/* The tensor in memory that the host can address: itself, or an exclusive copy. */
static keel_status dlpack_bring(keel_tensor *tensor, uint32_t flags,
                                keel_tensor **out_here) {
  KEEL_TRY(check_flags(flags));
  KEEL_TRY(keel_tensor_need_data(tensor));
  bool shares = tensor->layout == KD_LAYOUT_ROW_MAJOR &&
                keel_device_addressable(keel_tensor_location(tensor));
  if (shares && !(flags & KEEL_DLPACK_COPY)) {
    KEEL_TRY(keel_failures_await(tensor->buffer));
    *out_here = keel_tensor_retain(tensor);
    return KD_OK;
  }
  if (flags) return keel_copy_to(tensor, NULL, out_here);
  const keel_device *place = keel_tensor_location(tensor);
  return keel_fail(
      KD_FAILED_PRECONDITION,
      "the tensor is on %s, %s; copy it with keel_tensor_to(tensor,"
      " NULL), or allow a copy (KEEL_DLPACK_MAY_COPY)",
      place ? place->name : "the host",
      tensor->layout == KD_LAYOUT_ROW_MAJOR ? "out of the host's reach"
                                            : "in a layout of that device");
}

static keel_status name_dtype(kd_dtype dtype, dl_tensor *out) {
  for (size_t i = 0; i < KEEL_COUNT_OF(element_types); i++)
    if (element_types[i].dtype == dtype) {
      out->code = element_types[i].code;
      out->bits = element_types[i].bits;
      return KD_OK;
    }
  return keel_fail(KD_UNIMPLEMENTED, "DLPack has no element type %s",
                   keel_dtype_name(dtype));
}

/* Describes a tensor that the host reads; dims and strides lie in `held`. */
static keel_status dlpack_describe(exported *held, dl_tensor *out) {
  const keel_type *type = held->tensor->type;
  int64_t *strides = held->shape + type->rank, step = 1;
  for (uint32_t i = type->rank; i-- > 0;) {
    held->shape[i] = type->dims[i];
    strides[i] = step;
    step *= type->dims[i] ? type->dims[i] : 1;
  }
  *out = (dl_tensor){
      .data = type->bytes ? keel_tensor_host_data(held->tensor) : NULL,
      .device = ON_CPU,
      .rank = (int32_t)type->rank,
      .lanes = 1,
      .dims = held->shape,
      .strides = strides,
  };
  return name_dtype(type->dtype, out);
}

static keel_status export_tensor(keel_tensor *tensor, uint32_t flags,
                                 exported **out_held, bool *out_copied) {
  keel_tensor *here = NULL;
  KEEL_TRY(dlpack_bring(tensor, flags, &here));
  exported *held =
      calloc(1, sizeof *held + 2 * here->type->rank * sizeof *held->shape);
  if (!held) {
    keel_tensor_release(here);
    return keel_no_memory(sizeof *held);
  }
  held->tensor = here;
  held->context = here->context;
  atomic_fetch_add_explicit(&held->context->exports, 1, memory_order_relaxed);
  *out_copied = here != tensor;
  *out_held = held;
  return KD_OK;
}

keel_status keel_tensor_to_dlpack(
    keel_tensor *tensor, uint32_t flags,
    struct DLManagedTensorVersioned **out_managed) {
  exported *held = NULL;
  bool copied = false;
  *out_managed = NULL;
  KEEL_TRY(export_tensor(tensor, flags, &held, &copied));
  held->versioned = (struct DLManagedTensorVersioned){
      .major = MAJOR,
      .minor = MINOR,
      .context = held,
      .deleter = end_versioned,
      .flags = copied ? COPIED : READ_ONLY,
  };
  keel_status status = dlpack_describe(held, &held->versioned.tensor);
  if (status != KD_OK) {
    end_export(held);
    return status;
  }
  *out_managed = &held->versioned;
  return KD_OK;
}

keel_status keel_tensor_to_dlpack_legacy(keel_tensor *tensor, uint32_t flags,
                                         struct DLManagedTensor **out_managed) {
  exported *held = NULL;
  bool copied = false;
  *out_managed = NULL;
  KEEL_TRY(export_tensor(tensor, flags, &held, &copied));
  held->legacy = (struct DLManagedTensor){
      .context = held,
      .deleter = end_legacy,
  };
  keel_status status = dlpack_describe(held, &held->legacy.tensor);
  if (status != KD_OK) {
    end_export(held);
    return status;
  }
  *out_managed = &held->legacy;
  return KD_OK;
}

/* ---- Python's capsules -------------------------------------------------------- */

typedef void *(*get_pointer)(void *capsule, const char *name);
typedef int (*is_valid)(void *capsule, const char *name);

void keel_dlpack_destroy_capsule(void *capsule) {
  is_valid valid = NULL;
  get_pointer pointer = NULL;
  /* through an object: a function's address is not a void * in C */
  *(void **)&valid = dlsym(RTLD_DEFAULT, "PyCapsule_IsValid");
  *(void **)&pointer = dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer");
  if (!valid || !pointer) return;
  if (valid(capsule, "dltensor_versioned")) {
    struct DLManagedTensorVersioned *managed =
        pointer(capsule, "dltensor_versioned");
    if (managed && managed->deleter) managed->deleter(managed);
  } else if (valid(capsule, "dltensor")) {
    struct DLManagedTensor *managed = pointer(capsule, "dltensor");
    if (managed && managed->deleter) managed->deleter(managed);
  }
}
