/* factory.c - Keel's devices as ONNX Runtime sees them, and the providers of
 * sessions that chose one.
 *
 * Each device of Keel is a device of the provider. A CPU is put to the CPU that
 * ONNX Runtime discovered itself; for every other device, of whose kind ONNX
 * Runtime may know nothing, a hardware device is made. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

/* Metadata of a device of the provider: which of Keel's it is. */
#define DEVICE_KEY "keel.device"

/* It lives until ONNX Runtime has released it and the last of its providers: an
 * application may take the library away while it still has sessions. For the
 * same reason the library stays in memory (-z nodelete). */
typedef struct factory {
  ort_ep_factory base;
  runtime *held;
  const ort_logger *logger;
  ort_hardware **made; /* of each of Keel's devices; NULL: not made */
  /* of the memory of each; NULL: it works on host memory */
  ort_memory_info **memory;
  ort_kernel_registry *kernels;
  atomic_uint users; /* ONNX Runtime, the providers and the allocators */
} factory;

static const char *get_name(const ort_ep_factory *self) {
  (void)self;
  return PROVIDER_NAME;
}

static const char *get_vendor(const ort_ep_factory *self) {
  (void)self;
  return "Keel";
}

static uint32_t get_vendor_id(const ort_ep_factory *self) {
  (void)self;
  return VENDOR_ID;
}

static const char *get_version(const ort_ep_factory *self) {
  (void)self;
  return keel_version();
}

/* ---- devices ---------------------------------------------------------------- */

static ort_pairs *metadata_of(const keel_device_facts *facts) {
  ort_pairs *pairs = NULL;
  ort->CreateKeyValuePairs(&pairs);
  ort->AddKeyValuePair(pairs, DEVICE_KEY, facts->name);
  ort->AddKeyValuePair(pairs, "keel.product", facts->product);
  ort->AddKeyValuePair(pairs, "keel.kind", facts->kind);
  return pairs;
}

static const ort_hardware *find_cpu(const ort_hardware *const *found,
                                    size_t count) {
  for (size_t i = 0; i < count; i++)
    if (ort->HardwareDevice_Type(found[i]) == OrtHardwareDeviceType_CPU)
      return found[i];
  return NULL;
}

static int factory_type_of(const char *kind) {
  if (!strcmp(kind, "cpu")) return OrtHardwareDeviceType_CPU;
  if (!strcmp(kind, "gpu")) return OrtHardwareDeviceType_GPU;
  return OrtHardwareDeviceType_NPU;
}

/* The hardware device that is made for the index-th device. ONNX Runtime's
 * devices point to it, so it lives as long as the factory. */
static ort_status *make_hardware(factory *self, const keel_device_facts *facts,
                                 uint32_t index, const ort_pairs *metadata,
                                 const ort_hardware **out) {
  ort_hardware **made = &self->made[index];
  if (!*made)
    TRY(ort_ep_functions->CreateHardwareDevice(factory_type_of(facts->kind),
                                               VENDOR_ID, index, "Keel",
                                               metadata, made));
  *out = *made;
  return NULL;
}

/* Says that values of the device's sessions are in its own memory, if the host
 * cannot address that: ONNX Runtime then leaves them there between partitions. */
static ort_status *add_memory(factory *self, const keel_device_facts *facts,
                              uint32_t index, ort_ep_device *device) {
  if (facts->flags & KD_DEVICE_HOST_ADDRESSABLE) return NULL;
  int type = factory_type_of(facts->kind) == OrtHardwareDeviceType_GPU
                 ? OrtMemoryInfoDeviceType_GPU
                 : OrtMemoryInfoDeviceType_NPU;
  char name[80];
  snprintf(name, sizeof name, "Keel %.64s", facts->name);
  if (!self->memory[index])
    TRY(ort->CreateMemoryInfo_V2(name, type, VENDOR_ID, (int32_t)index,
                                 OrtDeviceMemoryType_DEFAULT, 0,
                                 OrtDeviceAllocator, &self->memory[index]));
  if (!self->kernels) TRY(transfer_kernels(&self->kernels));
  return ort_ep_functions->EpDevice_AddAllocatorInfo(device,
                                                     self->memory[index]);
}

/* Adds a device; `hardware` NULL: it is made. */
static ort_status *factory_add(factory *self, const ort_hardware *hardware,
                               const keel_device_facts *facts, uint32_t index,
                               ort_ep_device **out) {
  ort_pairs *metadata = metadata_of(facts);
  ort_status *status =
      hardware ? NULL : make_hardware(self, facts, index, metadata, &hardware);
  if (!status)
    status = ort_ep_functions->CreateEpDevice(&self->base, hardware, metadata,
                                              NULL, out);
  if (!status) status = add_memory(self, facts, index, *out);
  ort->ReleaseKeyValuePairs(metadata);
  return status;
}

/* The device that is shown as the index-th: the default one comes first, as
 * ONNX Runtime takes the first where none is named. */
static keel_device *device_at(const keel_context *context, uint32_t index) {
  keel_device *first = keel_device_default(context);
  uint32_t at = 0;
  while (keel_device_at(context, at) != first)
    at++;
  if (index == 0) return first;
  return keel_device_at(context, index <= at ? index - 1 : index);
}

static ort_status *get_supported_devices(ort_ep_factory *base,
                                         const ort_hardware *const *found,
                                         size_t found_count,
                                         ort_ep_device **out, size_t capacity,
                                         size_t *out_count) {
  factory *self = (factory *)base;
  const ort_hardware *cpu = find_cpu(found, found_count);
  uint32_t count = keel_device_count(self->held->context);
  *out_count = 0;
  for (uint32_t i = 0; i < count; i++) {
    keel_device_facts facts;
    keel_device_describe(device_at(self->held->context, i), &facts);
    if (*out_count == capacity) {
      log_line(self->logger, ORT_LOGGING_LEVEL_WARNING,
               "Keel has %u devices, but ONNX Runtime takes %zu of a provider: "
               "%s and those after it are not shown; KEEL_VISIBLE_DEVICES "
               "chooses",
               count, capacity, facts.name);
      break;
    }
    bool is_cpu = factory_type_of(facts.kind) == OrtHardwareDeviceType_CPU;
    TRY(factory_add(self, is_cpu ? cpu : NULL, &facts, i, &out[*out_count]));
    ++*out_count;
  }
  return NULL;
}

/* ---- providers ---------------------------------------------------------------- */

static ort_status *factory_choose(const options *given,
                                  const ort_pairs *const *metadata,
                                  size_t count, const char **out) {
  if (*given->device) {
    *out = given->device;
    return NULL;
  }
  if (count > 1)
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: a session runs on one device, and was given %zu; "
                   "give add_provider_for_devices one of them, or set the "
                   "option keel.device",
                   count);
  *out = count ? ort->GetKeyValue(metadata[0], DEVICE_KEY) : NULL;
  return NULL;
}

static ort_status *create_with(ort_ep_factory *self, options *given,
                               const ort_pairs *const *metadata, size_t count,
                               const ort_logger *logger, ort_ep **out) {
  const char *device = NULL;
  TRY(factory_choose(given, metadata, count, &device));
  runtime *held = NULL;
  TRY(runtime_acquire(given->workers, &held));
  ort_status *status = provider_create(self, held, given, device, logger, out);
  if (status) runtime_release(held);
  return status;
}

static void factory_drop(factory *self) {
  if (atomic_fetch_sub(&self->users, 1) != 1) return;
  uint32_t count = keel_device_count(self->held->context);
  for (uint32_t i = 0; i < count; i++) {
    if (self->made[i]) ort_ep_functions->ReleaseHardwareDevice(self->made[i]);
    if (self->memory[i]) ort->ReleaseMemoryInfo(self->memory[i]);
  }
  if (self->kernels) ort_ep_functions->ReleaseKernelRegistry(self->kernels);
  free(self->made);
  free(self->memory);
  runtime_release(self->held);
  free(self);
}

static ort_status *create_ep(ort_ep_factory *self,
                             const ort_hardware *const *devices,
                             const ort_pairs *const *metadata, size_t count,
                             const ort_session_options *session,
                             const ort_logger *logger, ort_ep **out) {
  (void)devices;
  *out = NULL;
  options given;
  TRY(options_read(session, &given));
  ort_status *status = create_with(self, &given, metadata, count, logger, out);
  options_free(&given);
  if (!status) factory_retain(self);
  return status;
}

static void release_ep(ort_ep_factory *self, ort_ep *ep) {
  if (!ep) return;
  provider_destroy(ep);
  factory_drop((factory *)self);
}

/* ---- compiled models ----------------------------------------------------------- */

/* Whether the device is put to one of the hardware devices. */
static bool stands_at(const factory *self, const keel_device *device,
                      const ort_hardware *const *hardware, size_t count) {
  uint32_t index = 0;
  while (device_at(self->held->context, index) != device)
    index++;
  const ort_hardware *made = self->made[index];
  for (size_t i = 0; i < count; i++)
    if (made ? made == hardware[i]
             : ort->HardwareDevice_Type(hardware[i]) ==
                   OrtHardwareDeviceType_CPU)
      return true;
  return false;
}

static ort_status *factory_validate(ort_ep_factory *base,
                                    const ort_hardware *const *devices,
                                    size_t count, const char *info, int *out) {
  const factory *self = (const factory *)base;
  keel_device *device = NULL;
  TRY(compatible_ask(self->held->context, info, &device, out));
  if (device && !stands_at(self, device, devices, count))
    *out = OrtCompiledModelCompatibility_EP_UNSUPPORTED;
  return NULL;
}

/* ---- memory ------------------------------------------------------------------- */

/* For values that ONNX Runtime makes without a session. */
static ort_status *create_allocator(ort_ep_factory *base,
                                    const ort_memory_info *memory,
                                    const ort_pairs *pairs,
                                    ort_allocator **out) {
  (void)pairs;
  factory *self = (factory *)base;
  uint32_t count = keel_device_count(self->held->context), at = 0;
  *out = NULL;
  while (at < count && self->memory[at] != memory)
    at++;
  if (at == count)
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: an allocator is asked for of a memory that is not "
                   "Keel's");
  TRY(memory_create(self->held, device_at(self->held->context, at), memory,
                    out));
  factory_retain(base);
  return NULL;
}

static void release_allocator(ort_ep_factory *self, ort_allocator *allocator) {
  if (!allocator) return;
  memory_destroy(allocator);
  factory_release(self);
}

static ort_status *create_data_transfer(ort_ep_factory *self,
                                        ort_data_transfer **out) {
  *out = NULL;
  return factory_kernels(self) ? transfer_create(out) : NULL;
}

static bool is_stream_aware(const ort_ep_factory *self) {
  (void)self;
  return false;
}

ort_status *factory_create(runtime *held, const ort_logger *logger,
                           ort_ep_factory **out) {
  factory *self = calloc(1, sizeof *self);
  uint32_t count = keel_device_count(held->context);
  ort_hardware **made = calloc(count + 1, sizeof(ort_hardware *));
  ort_memory_info **memory = calloc(count + 1, sizeof(ort_memory_info *));
  if (!self || !made || !memory) {
    free(self);
    free(made);
    free(memory);
    return no_memory();
  }
  self->base = (ort_ep_factory){
      .ort_version_supported = ORT_VERSION_USED,
      .GetName = get_name,
      .GetVendor = get_vendor,
      .GetVendorId = get_vendor_id,
      .GetVersion = get_version,
      .ValidateCompiledModelCompatibilityInfo = factory_validate,
      .GetSupportedDevices = get_supported_devices,
      .CreateEp = create_ep,
      .ReleaseEp = release_ep,
      .CreateAllocator = create_allocator,
      .ReleaseAllocator = release_allocator,
      .CreateDataTransfer = create_data_transfer,
      .IsStreamAware = is_stream_aware,
  };
  self->held = held;
  self->logger = logger;
  self->made = made;
  self->memory = memory;
  atomic_init(&self->users, 1);
  *out = &self->base;
  return NULL;
}

void factory_retain(ort_ep_factory *base) {
  atomic_fetch_add(&((factory *)base)->users, 1);
}

const ort_kernel_registry *factory_kernels(const ort_ep_factory *base) {
  return ((const factory *)base)->kernels;
}

void factory_release(ort_ep_factory *base) {
  if (base) factory_drop((factory *)base);
}
