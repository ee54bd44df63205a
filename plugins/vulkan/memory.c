/* memory.c - buffers as pieces of larger blocks.
 *
 * Space 0 is the device's, mapped where the host reads it fast; space 1 host memory that
 * the device reaches; a third of the plugin's own holds the parameters of kernels. */
#include <string.h>

#include "vlk.h"

#define BLOCK     (UINT64_C(16) << 20) /* shared by small buffers */
#define SMALL     (BLOCK / 4)
#define ALIGNMENT 256u

typedef struct vlk_span { /* free bytes of a block, by offset */
  struct vlk_span *next;
  uint64_t offset, size;
} vlk_span;

/* ---- blocks ------------------------------------------------------------------------ */

void vlk_block_destroy(kd_device *d, vlk_block *block) {
  while (block->spans) {
    vlk_span *next = block->spans->next;
    vlk_host->release(vlk_host, block->spans);
    block->spans = next;
  }
  vk.DestroyBuffer(d->device, block->buffer, NULL);
  vk.FreeMemory(d->device, block->memory, NULL); /* unmaps it, too */
  shared_end(&block->shared);
  vlk_host->release(vlk_host, block);
}

static kd_status bind_memory(kd_device *d, uint32_t type,
                             const vlk_source *source, vlk_block *block) {
  const VkExportMemoryAllocateInfo exported = {
      .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
      .handleTypes = source->handle};
  const VkMemoryAllocateFlagsInfo flags = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
      .pNext = source->chain    ? source->chain
               : source->handle ? &exported
                                : NULL,
      .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
  const VkMemoryAllocateInfo memory = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
      .pNext = &flags,
      .allocationSize = block->held,
      .memoryTypeIndex = type};
  VLK_TRY(d, "vkAllocateMemory",
          vk.AllocateMemory(d->device, &memory, NULL, &block->memory));
  VLK_TRY(d, "vkBindBufferMemory",
          vk.BindBufferMemory(d->device, block->buffer, block->memory, 0));
  return KD_OK;
}

/* The space's own, or the first that the source can be. */
static kd_status choose_type(kd_device *d, uint32_t space,
                             const vlk_source *source, uint32_t fits,
                             uint32_t *out_type) {
  *out_type = d->types[space];
  if (source->types) fits &= source->types;
  if (fits >> *out_type & 1) return KD_OK;
  if (!source->types || !fits)
    return FAIL(source->types ? KD_UNIMPLEMENTED : KD_INTERNAL,
                "Vulkan: memory type %u takes no buffers", *out_type);
  *out_type = (uint32_t)__builtin_ctz(fits);
  return KD_OK;
}

kd_status vlk_block_bind(kd_device *d, uint32_t space, const vlk_source *source,
                         vlk_block *block) {
  const VkExternalMemoryBufferCreateInfo external = {
      .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
      .handleTypes = source->handle};
  const VkBufferCreateInfo wanted = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .pNext = source->handle ? &external : NULL,
      .size = block->size,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT |
               VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
  VLK_TRY(d, "vkCreateBuffer",
          vk.CreateBuffer(d->device, &wanted, NULL, &block->buffer));
  VkMemoryRequirements needs;
  vk.GetBufferMemoryRequirements(d->device, block->buffer, &needs);
  uint32_t type = 0;
  kd_status status = choose_type(d, space, source, needs.memoryTypeBits, &type);
  block->held = source->chain ? source->size : needs.size;
  if (status == KD_OK && needs.size > block->held)
    status =
        FAIL(KD_UNIMPLEMENTED,
             "Vulkan: a buffer of %llu bytes needs %llu, and there are"
             " %llu",
             (unsigned long long)block->size, (unsigned long long)needs.size,
             (unsigned long long)block->held);
  if (status == KD_OK) status = bind_memory(d, type, source, block);
  if (status != KD_OK) return status;
  void *mapped = source->host;
  if (!mapped && d->mapped[space] && type == d->types[space])
    VLK_TRY(
        d, "vkMapMemory",
        vk.MapMemory(d->device, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped));
  block->mapped = mapped;
  const VkBufferDeviceAddressInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
      .buffer = block->buffer};
  block->address = vk.GetBufferDeviceAddress(d->device, &info);
  return KD_OK;
}

static kd_status block_create(kd_device *d, uint32_t space, uint64_t size,
                              vlk_block **out) {
  static const vlk_source own = {.handle = 0};
  vlk_block *block = vlk_host->allocate(vlk_host, sizeof *block, 0);
  vlk_span *span = vlk_host->allocate(vlk_host, sizeof *span, 0);
  kd_status status =
      block && span ? KD_OK : FAIL(KD_OUT_OF_MEMORY, "no memory for a buffer");
  if (block) memset(block, 0, sizeof *block);
  if (status == KD_OK) {
    *span = (vlk_span){.size = size};
    block->size = size;
    block->spans = span;
    status = vlk_block_bind(d, space, &own, block);
    if (status != KD_OK) vlk_block_destroy(d, block);
  } else {
    if (block) vlk_host->release(vlk_host, block);
    if (span) vlk_host->release(vlk_host, span);
  }
  if (status != KD_OK) return status;
  block->next = d->blocks[space];
  d->blocks[space] = block;
  *out = block;
  return KD_OK;
}

/* ---- pieces -------------------------------------------------------------------------- */

/* The smallest span that fits; NULL: none. *out_before: what points to it. */
static vlk_span *best_span(vlk_block *block, uint64_t size,
                           vlk_span ***out_before) {
  vlk_span *best = NULL;
  for (vlk_span **at = &block->spans; *at; at = &(*at)->next)
    if ((*at)->size >= size && (!best || (*at)->size < best->size)) {
      best = *at;
      *out_before = at;
    }
  return best;
}

static uint64_t vulkan_memory_cut(vlk_span *span, vlk_span **before,
                                  uint64_t size) {
  uint64_t offset = span->offset;
  span->offset += size;
  span->size -= size;
  if (!span->size) {
    *before = span->next;
    vlk_host->release(vlk_host, span);
  }
  return offset;
}

/* Gives back bytes, joined with free neighbours. Without memory for a span they are
 * lost until the block goes. */
static void put_back(vlk_block *block, uint64_t offset, uint64_t size) {
  vlk_span **at = &block->spans, *before = NULL;
  while (*at && (*at)->offset < offset) {
    before = *at;
    at = &(*at)->next;
  }
  vlk_span *behind = *at;
  bool joins = before && before->offset + before->size == offset;
  bool joined = behind && offset + size == behind->offset;
  if (joins) {
    before->size += size;
    if (!joined) return;
    before->size += behind->size;
    before->next = behind->next;
    vlk_host->release(vlk_host, behind);
  } else if (joined) {
    behind->offset = offset;
    behind->size += size;
  } else {
    vlk_span *span = vlk_host->allocate(vlk_host, sizeof *span, 0);
    if (!span) return;
    *span = (vlk_span){behind, offset, size};
    *at = span;
  }
}

static uint64_t rounded(uint64_t size) {
  return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Under the lock. */
static kd_status vulkan_memory_place(kd_device *d, uint32_t space,
                                     uint64_t size, kd_buffer *buffer) {
  vlk_span **before = NULL, *span = NULL;
  vlk_block *block = size <= SMALL ? d->blocks[space] : NULL;
  while (block && !(span = best_span(block, size, &before)))
    block = block->next;
  if (!block) {
    kd_status status =
        block_create(d, space, size <= SMALL ? BLOCK : size, &block);
    if (status != KD_OK) return status;
    span = best_span(block, size, &before);
  }
  buffer->block = block;
  buffer->offset = vulkan_memory_cut(span, before, size);
  block->live++;
  return KD_OK;
}

kd_status vlk_allocate(kd_device *d, uint32_t space, uint64_t size,
                       kd_buffer **out_buffer) {
  kd_buffer *buffer = vlk_host->allocate(vlk_host, sizeof *buffer, 0);
  if (!buffer) return FAIL(KD_OUT_OF_MEMORY, "no memory for a buffer");
  *buffer = (kd_buffer){.size = size, .space = space};
  pthread_mutex_lock(&d->memory_lock);
  kd_status status = vulkan_memory_place(d, space, rounded(size), buffer);
  pthread_mutex_unlock(&d->memory_lock);
  if (status != KD_OK) {
    vlk_host->release(vlk_host, buffer);
    return status;
  }
  *out_buffer = buffer;
  return KD_OK;
}

/* An empty block goes, unless it is the space's only one of its size. */
static void drop_empty(kd_device *d, uint32_t space, vlk_block *block) {
  vlk_block **at = &d->blocks[space];
  bool another = block->size != BLOCK;
  for (vlk_block *b = d->blocks[space]; b && !another; b = b->next)
    another = b != block && b->size == BLOCK;
  if (!another) return;
  while (*at != block)
    at = &(*at)->next;
  *at = block->next;
  vlk_block_destroy(d, block);
}

void vlk_release(kd_device *d, kd_buffer *buffer) {
  vlk_block *block = buffer->block;
  pthread_mutex_lock(&d->memory_lock);
  put_back(block, buffer->offset, rounded(buffer->size));
  if (!--block->live) drop_empty(d, buffer->space, block);
  pthread_mutex_unlock(&d->memory_lock);
  vlk_host->release(vlk_host, buffer);
}

void vlk_memory_end(kd_device *d) {
  for (uint32_t space = 0; space < VLK_SPACES; space++)
    while (d->blocks[space]) {
      vlk_block *next = d->blocks[space]->next;
      vlk_block_destroy(d, d->blocks[space]);
      d->blocks[space] = next;
    }
}

/* ---- the table -------------------------------------------------------------------------- */

static kd_status vulkan_memory_allocate(kd_device *d,
                                        const kd_allocation *wanted,
                                        kd_buffer **out_buffer,
                                        void **out_address) {
  uint64_t size = wanted->size;
  uint32_t space = wanted->space;
  if (wanted->flags)
    return FAIL(KD_UNIMPLEMENTED, "allocation flags 0x%x", wanted->flags);
  pthread_mutex_lock(&d->memory_lock);
  uint64_t room = d->sizes[space] - d->used[space];
  bool fits = size <= d->max_buffer && size <= room;
  if (fits) d->used[space] += size;
  if (fits) d->buffers[space]++;
  pthread_mutex_unlock(&d->memory_lock);
  if (!fits)
    return FAIL(KD_OUT_OF_MEMORY,
                "%llu bytes: %llu of %llu are free, and %llu are the most of"
                " one buffer",
                (unsigned long long)size, (unsigned long long)room,
                (unsigned long long)d->sizes[space],
                (unsigned long long)d->max_buffer);
  kd_status status = wanted->export_kind
                         ? vlk_allocate_exported(
                               d, space, size, wanted->export_kind, out_buffer)
                         : vlk_allocate(d, space, size, out_buffer);
  if (status == KD_OK) {
    *out_address = NULL;
    return KD_OK;
  }
  pthread_mutex_lock(&d->memory_lock);
  d->used[space] -= size;
  d->buffers[space]--;
  pthread_mutex_unlock(&d->memory_lock);
  return status == KD_OUT_OF_MEMORY
             ? FAIL(status,
                    "%llu bytes: the driver has none of the %llu that"
                    " should be free",
                    (unsigned long long)size, (unsigned long long)room)
             : status;
}

static void vulkan_memory_release(kd_device *d, kd_buffer *buffer) {
  if (!buffer->imported) {
    pthread_mutex_lock(&d->memory_lock);
    d->used[buffer->space] -= buffer->size;
    d->buffers[buffer->space]--;
    pthread_mutex_unlock(&d->memory_lock);
  }
  if (buffer->alone)
    vlk_release_alone(d, buffer);
  else
    vlk_release(d, buffer);
}

/* A call without a stream, where the host reaches the buffer: nothing to order. */
static bool is_direct(const kd_device *d, const kd_stream *stream,
                      const kd_buffer *buffer) {
  return !stream && vlk_mapped(buffer) && !d->families.script;
}

static kd_status vulkan_memory_copy_in(kd_device *d, kd_stream *stream,
                                       const void *source, kd_buffer *target,
                                       uint64_t offset, uint64_t size) {
  if (size && is_direct(d, stream, target)) {
    memcpy(vlk_mapped(target) + offset, source, (size_t)size);
    return KD_OK;
  }
  return fam_copy_in(d, stream, source, target, offset, size);
}

static kd_status vulkan_memory_copy_out(kd_device *d, kd_stream *stream,
                                        kd_buffer *source, uint64_t offset,
                                        void *target, uint64_t size) {
  if (size && is_direct(d, stream, source)) {
    memcpy(target, vlk_mapped(source) + offset, (size_t)size);
    return KD_OK;
  }
  return fam_copy_out(d, stream, source, offset, target, size);
}

static kd_status vulkan_memory_map(kd_device *d, kd_buffer *buffer,
                                   uint64_t offset, uint64_t size,
                                   uint32_t access, void **out_address) {
  (void)size;
  (void)access;
  if (!vlk_mapped(buffer) ||
      d->families.script) /* that has what is copied out */
    return FAIL(KD_UNIMPLEMENTED, "the memory is not host visible");
  *out_address = vlk_mapped(buffer) + offset;
  return KD_OK;
}

static void vulkan_memory_unmap(kd_device *d, kd_buffer *buffer) {
  (void)d; /* it stays mapped, and is coherent */
  (void)buffer;
}

static kd_status vulkan_memory_stats(kd_device *d, uint32_t space,
                                     kd_memory_stats *out) {
  pthread_mutex_lock(&d->memory_lock);
  out->total = d->sizes[space];
  out->used = d->used[space];
  out->available = d->sizes[space] - d->used[space];
  out->buffers = d->buffers[space];
  pthread_mutex_unlock(&d->memory_lock);
  return KD_OK;
}

const kd_memory_table vlk_memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = vulkan_memory_allocate,
    .release = vulkan_memory_release,
    .copy_in = vulkan_memory_copy_in,
    .copy_out = vulkan_memory_copy_out,
    .copy = fam_copy,
    .fill = fam_fill,
    .map = vulkan_memory_map,
    .unmap = vulkan_memory_unmap,
    .stats = vulkan_memory_stats,
};
