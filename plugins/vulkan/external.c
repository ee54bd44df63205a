/* external.c - memory of others, and memory for others.
 *
 * Host memory is taken by whole pages (VK_EXT_external_memory_host), with the buffer some
 * bytes behind their begin; memory that is a file is mapped and taken as host memory. What
 * goes out as the driver's own descriptor, or as a dma-buf, has an allocation to itself, so
 * that a descriptor reaches nothing else. */
#include <string.h>

#include "vlk.h"

static const VkBufferUsageFlags usage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
    VK_BUFFER_USAGE_TRANSFER_DST_BIT |
    VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;

#define LEAST 4096u /* bytes: fewer are copied faster than they are imported */

/* ---- what a device can ------------------------------------------------------------------ */

/* A handle type that needs an allocation of a form of its own is left out. */
static bool can(VkPhysicalDevice physical,
                VkExternalMemoryHandleTypeFlagBits handle, bool both) {
  const VkPhysicalDeviceExternalBufferInfo info = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
      .usage = usage,
      .handleType = handle};
  VkExternalBufferProperties facts = {
      .sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
  vk.GetPhysicalDeviceExternalBufferProperties(physical, &info, &facts);
  VkExternalMemoryFeatureFlags features =
      facts.externalMemoryProperties.externalMemoryFeatures;
  VkExternalMemoryFeatureFlags wanted =
      VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT |
      (both ? VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT : 0);
  return (features & wanted) == wanted &&
         !(features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT);
}

void vlk_read_reach(VkPhysicalDevice physical, vlk_reach *reach) {
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
      .sType =
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  VkPhysicalDeviceProperties2 all = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &host};
  reach->host =
      vk.GetMemoryHostPointerPropertiesEXT &&
      vlk_has_extension(physical, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  reach->fd =
      vk.GetMemoryFdKHR && vk.GetMemoryFdPropertiesKHR &&
      vlk_has_extension(physical, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
  reach->dma_buf =
      reach->fd && vlk_has_extension(
                       physical, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME);
  if (reach->host) {
    vk.GetPhysicalDeviceProperties2(physical, &all);
    reach->alignment = host.minImportedHostPointerAlignment;
    VkPhysicalDeviceType type = all.properties.deviceType;
    /* over a bus the host's memory is slower to read than a copy is */
    if ((type == VK_PHYSICAL_DEVICE_TYPE_CPU ||
         type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU) &&
        shared_page() % reach->alignment == 0 &&
        can(physical, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
            false))
      reach->kinds |=
          1u << KD_EXTERNAL_HOST_POINTER | 1u << KD_EXTERNAL_SHARED_FD;
  }
  if (reach->fd &&
      can(physical, VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, true))
    reach->kinds |= 1u << KD_EXTERNAL_OPAQUE_FD;
  if (reach->dma_buf &&
      can(physical, VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT, true))
    reach->kinds |= 1u << KD_EXTERNAL_DMA_BUF;
}

uint32_t vlk_reach_names(const vlk_reach *reach, const char **names) {
  uint32_t count = 0;
  if (reach->host) names[count++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
  if (reach->fd) names[count++] = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
  if (reach->dma_buf)
    names[count++] = VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME;
  return count;
}

static bool knows(const kd_device *d, uint32_t kind) {
  return kind < 32 && d->reach.kinds >> kind & 1 &&
         !d->families.script; /* a script has all data, by their copies */
}

static VkExternalMemoryHandleTypeFlagBits handle_of(uint32_t kind) {
  return kind == KD_EXTERNAL_DMA_BUF
             ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT
             : VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
}

/* ---- blocks of one buffer --------------------------------------------------------------- */

void vlk_release_alone(kd_device *d, kd_buffer *buffer) {
  vlk_block_destroy(d, buffer->block);
  vlk_host->release(vlk_host, buffer);
  atomic_fetch_sub(&d->alone, 1);
}

/* A buffer and its block, nothing bound. A driver has only so many allocations. */
static kd_status external_make(kd_device *d, uint64_t block_size,
                               uint64_t offset, uint64_t size,
                               kd_buffer **out_buffer) {
  if (atomic_fetch_add(&d->alone, 1) >= d->most_alone) {
    atomic_fetch_sub(&d->alone, 1);
    return FAIL(KD_UNIMPLEMENTED,
                "Vulkan: %s takes no more than %u pieces of memory that have"
                " an allocation to themselves",
                d->name, d->most_alone);
  }
  kd_buffer *buffer = vlk_host->allocate(vlk_host, sizeof *buffer, 0);
  vlk_block *block = vlk_host->allocate(vlk_host, sizeof *block, 0);
  if (!buffer || !block) {
    if (buffer) vlk_host->release(vlk_host, buffer);
    if (block) vlk_host->release(vlk_host, block);
    atomic_fetch_sub(&d->alone, 1);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a buffer");
  }
  memset(block, 0, sizeof *block);
  block->size = block_size;
  *buffer = (kd_buffer){
      .block = block, .offset = offset, .size = size, .alone = true};
  *out_buffer = buffer;
  return KD_OK;
}

/* Whole pages of host memory as a block's. */
static kd_status bind_host(kd_device *d, vlk_block *block, char *pages,
                           uint32_t space) {
  const VkImportMemoryHostPointerInfoEXT import = {
      .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
      .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
      .pHostPointer = pages};
  VkMemoryHostPointerPropertiesEXT facts = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  VLK_TRY(d, "vkGetMemoryHostPointerPropertiesEXT",
          vk.GetMemoryHostPointerPropertiesEXT(d->device, import.handleType,
                                               pages, &facts));
  const vlk_source source = {.handle = import.handleType,
                             .chain = &import,
                             .types = facts.memoryTypeBits,
                             .size = block->size,
                             .host = pages};
  return vlk_block_bind(d, space, &source, block);
}

/* What a driver does not take is no failure of the device: it is copied. */
static kd_status declined(kd_status status) {
  return status == KD_DEVICE_LOST || status == KD_OUT_OF_MEMORY
             ? status
             : KD_UNIMPLEMENTED;
}

/* ---- for others -------------------------------------------------------------------------- */

static kd_status bind_shared(kd_device *d, kd_buffer *buffer) {
  vlk_block *block = buffer->block;
  int error = shared_make(block->size, &block->shared);
  if (error)
    return FAIL(KD_OUT_OF_MEMORY, "no file in memory of %llu bytes: %s",
                (unsigned long long)block->size, strerror(error));
  return bind_host(d, block, block->shared.at, buffer->space);
}

kd_status vlk_allocate_exported(kd_device *d, uint32_t space, uint64_t size,
                                uint32_t kind, kd_buffer **out_buffer) {
  kd_buffer *buffer = NULL;
  if (!knows(d, kind) || kind == KD_EXTERNAL_HOST_POINTER)
    return FAIL(KD_UNIMPLEMENTED,
                "Vulkan: memory of %s can't be exported as kind %u", d->name,
                kind);
  uint64_t rounded = shared_rounded(size);
  kd_status status = external_make(d, rounded, 0, size, &buffer);
  if (status != KD_OK) return status;
  const vlk_source source = {.handle = handle_of(kind)};
  buffer->space = space;
  status = kind == KD_EXTERNAL_SHARED_FD
               ? bind_shared(d, buffer)
               : vlk_block_bind(d, space, &source, buffer->block);
  if (status != KD_OK) {
    vlk_release_alone(d, buffer);
    return status;
  }
  buffer->block->exported = kind;
  *out_buffer = buffer;
  return KD_OK;
}

static kd_status vulkan_external_export_memory(kd_device *d, kd_buffer *buffer,
                                               kd_external *out) {
  const vlk_block *block = buffer->block;
  int file = -1;
  if (!out->kind || block->exported != out->kind)
    return FAIL(KD_UNIMPLEMENTED,
                "Vulkan: the buffer was not made to be exported as kind %u",
                out->kind);
  if (out->kind == KD_EXTERNAL_SHARED_FD) {
    file = shared_descriptor(&block->shared);
    if (file < 0)
      return FAIL(KD_UNAVAILABLE, "no descriptor is left: %s", strerror(errno));
  } else {
    const VkMemoryGetFdInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
        .memory = block->memory,
        .handleType = handle_of(out->kind)};
    VLK_TRY(d, "vkGetMemoryFdKHR", vk.GetMemoryFdKHR(d->device, &info, &file));
  }
  out->handle = (uint64_t)file;
  out->offset = 0;
  out->size = block->held;
  out->access = KD_READ | KD_WRITE;
  return KD_OK;
}

/* ---- of others --------------------------------------------------------------------------- */

static kd_status import_host(kd_device *d, const kd_external *from,
                             kd_buffer **out_buffer) {
  uint64_t page = shared_page();
  uintptr_t at = (uintptr_t)from->handle + (uintptr_t)from->offset;
  uint64_t before = at % page;
  kd_buffer *buffer = NULL;
  if (before % 256 || from->size < LEAST || from->size > d->max_buffer - page)
    return FAIL(KD_UNIMPLEMENTED,
                "Vulkan: %s takes host memory from %u to %llu bytes, at a"
                " multiple of 256",
                d->name, LEAST, (unsigned long long)(d->max_buffer - page));
  kd_status status = external_make(d, shared_rounded(before + from->size),
                                   before, from->size, &buffer);
  if (status != KD_OK) return status;
  buffer->imported = true;
  char *pages = (char *)at - before;
  status = bind_host(d, buffer->block, pages, VLK_LOCAL);
  if (status != KD_OK) {
    vlk_release_alone(d, buffer);
    return declined(status);
  }
  *out_buffer = buffer;
  return KD_OK;
}

/* Mapped, and then as host memory. */
static kd_status import_shared(kd_device *d, const kd_external *from,
                               kd_buffer **out_buffer) {
  shared_memory pages = {NULL, 0, -1};
  kd_buffer *buffer = NULL;
  if (from->offset % 256)
    return FAIL(KD_UNIMPLEMENTED,
                "Vulkan: %s takes memory at a multiple of 256", d->name);
  kd_status status = shared_open(vlk_host, from, &pages);
  if (status != KD_OK) return status;
  status = external_make(d, pages.size, from->offset, from->size, &buffer);
  if (status == KD_OK) {
    buffer->imported = true;
    status = bind_host(d, buffer->block, pages.at, VLK_LOCAL);
    if (status != KD_OK) vlk_release_alone(d, buffer);
  }
  if (status != KD_OK) {
    munmap(pages.at, (size_t)pages.size); /* the descriptor is the caller's */
    return declined(status);
  }
  buffer->block->shared = pages;
  *out_buffer = buffer;
  return KD_OK;
}

/* The driver takes a descriptor of its own, which it closes. */
static kd_status bind_fd(kd_device *d, const kd_external *from,
                         vlk_block *block, int file) {
  const VkImportMemoryFdInfoKHR import = {
      .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
      .handleType = handle_of(from->kind),
      .fd = file};
  VkMemoryFdPropertiesKHR facts = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR,
      .memoryTypeBits = 1u << d->types[VLK_LOCAL]};
  if (from->kind == KD_EXTERNAL_DMA_BUF)
    VLK_TRY(d, "vkGetMemoryFdPropertiesKHR",
            vk.GetMemoryFdPropertiesKHR(d->device, import.handleType, file,
                                        &facts));
  const vlk_source source = {.handle = import.handleType,
                             .chain = &import,
                             .types = facts.memoryTypeBits,
                             .size = from->offset + from->size};
  return vlk_block_bind(d, VLK_LOCAL, &source, block);
}

static kd_status import_fd(kd_device *d, const kd_external *from,
                           kd_buffer **out_buffer) {
  kd_buffer *buffer = NULL;
  if (from->offset % 256)
    return FAIL(KD_UNIMPLEMENTED,
                "Vulkan: %s takes memory at a multiple of 256", d->name);
  int file =
      shared_holds(from) ? fcntl((int)from->handle, F_DUPFD_CLOEXEC, 0) : -1;
  if (file < 0)
    return FAIL(
        KD_INVALID_ARGUMENT, "descriptor %llu is none of memory of %llu bytes",
        (unsigned long long)from->handle, (unsigned long long)from->size);
  kd_status status = external_make(d, from->offset + from->size, from->offset,
                                   from->size, &buffer);
  if (status != KD_OK) {
    close(file);
    return status;
  }
  buffer->imported = true;
  status = bind_fd(d, from, buffer->block, file);
  if (status != KD_OK) {
    if (!buffer->block->memory) close(file);
    vlk_release_alone(d, buffer);
    return status;
  }
  close((int)from->handle); /* it was ours, and the driver has the other one */
  *out_buffer = buffer;
  return KD_OK;
}

static kd_status vulkan_external_import_memory(kd_device *d,
                                               const kd_external *from,
                                               kd_buffer **out_buffer,
                                               void **out_address) {
  if (!knows(d, from->kind) || !from->size || from->offset > UINT64_MAX / 4 ||
      from->size > UINT64_MAX / 4)
    return FAIL(KD_UNIMPLEMENTED,
                "Vulkan: %s takes no memory of kind %u and %llu bytes", d->name,
                from->kind, (unsigned long long)from->size);
  kd_status status =
      from->kind == KD_EXTERNAL_HOST_POINTER ? import_host(d, from, out_buffer)
      : from->kind == KD_EXTERNAL_SHARED_FD ? import_shared(d, from, out_buffer)
                                            : import_fd(d, from, out_buffer);
  if (status == KD_OK) *out_address = NULL;
  return status;
}

const kd_external_table vlk_external = {
    .struct_size = sizeof(kd_external_table),
    .import_memory = vulkan_external_import_memory,
    .export_memory = vulkan_external_export_memory,
};
