/* command.c - launches, copies and fills as commands of a batch.
 *
 * Host memory is reached through staging buffers; where the host sees the device's
 * memory and the stream has nothing to do, a copy is a memcpy. */
#include <string.h>

#include "vlk.h"

#define FILL_CHUNK 65536u /* of a pattern that vkCmdFillBuffer can't repeat */

void vlk_put_barrier(VkCommandBuffer commands) {
  const VkMemoryBarrier barrier = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .srcAccessMask =
          VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
      .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                       VK_ACCESS_TRANSFER_READ_BIT |
                       VK_ACCESS_TRANSFER_WRITE_BIT};
  const VkPipelineStageFlags stages =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  vk.CmdPipelineBarrier(commands, stages, stages, 0, 1, &barrier, 0, NULL, 0,
                        NULL);
}

/* ---- time stamps ---------------------------------------------------------------------- */

static void note_begin(vlk_batch *b) {
  if (b->noting)
    vk.CmdWriteTimestamp(b->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                         b->queries, 1 + 2 * b->note_count);
}

static void note_end(kd_stream *stream, vlk_batch *b, uint32_t kind,
                     uint64_t bytes, uint64_t correlation) {
  if (!b->noting) return;
  vlk_put_barrier(b->commands);
  vk.CmdWriteTimestamp(b->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                       b->queries, 2 + 2 * b->note_count);
  b->notes[b->note_count++] =
      (vlk_note){bytes, correlation, kind, stream->common.number};
}

/* ---- host memory that the device still writes --------------------------------------------- */

struct vlk_write {
  struct vlk_write *next;
  vlk_batch *batch;
  const char *target;
  uint64_t size;
};

/* Under the lock: forgets those that are done. */
static void prune(kd_device *d) {
  struct vlk_write **at = &d->writes;
  while (*at) {
    struct vlk_write *w = *at;
    if (!w->batch->value || vlk_batch_query(w->batch) == KD_BUSY) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    vlk_batch_drop(w->batch);
    vlk_host->release(vlk_host, w);
    atomic_fetch_sub(&d->write_count, 1);
  }
}

static kd_status expect_write(kd_device *d, vlk_batch *b, void *target,
                              uint64_t size) {
  struct vlk_write *w = vlk_host->allocate(vlk_host, sizeof *w, 0);
  if (!w) return FAIL(KD_OUT_OF_MEMORY, "no memory for a copy");
  vlk_batch_take(b);
  pthread_mutex_lock(&d->writes_lock);
  prune(d);
  *w = (struct vlk_write){d->writes, b, target, size};
  d->writes = w;
  atomic_fetch_add(&d->write_count, 1);
  pthread_mutex_unlock(&d->writes_lock);
  return KD_OK;
}

void vlk_forget_writes(kd_device *d) {
  pthread_mutex_lock(&d->writes_lock);
  prune(d);
  pthread_mutex_unlock(&d->writes_lock);
}

/* One that meets the range; the caller drops it. */
static vlk_batch *writer_of(kd_device *d, const char *source, uint64_t size) {
  vlk_batch *found = NULL;
  pthread_mutex_lock(&d->writes_lock);
  prune(d);
  for (struct vlk_write *w = d->writes; w && !found; w = w->next)
    if (source < w->target + w->size && w->target < source + size) {
      found = w->batch;
      vlk_batch_take(found);
    }
  pthread_mutex_unlock(&d->writes_lock);
  return found;
}

/* What is read here is what work before it in the stream has written. */
static kd_status await_writes(kd_stream *stream, const void *source,
                              uint64_t size) {
  kd_device *d = stream->common.device;
  vlk_batch *b;
  while (atomic_load(&d->write_count) && (b = writer_of(d, source, size))) {
    kd_status status = KD_OK;
    if (stream->open == b) status = vlk_stream_submit(stream);
    if (status == KD_OK && b->value) status = vlk_batch_wait(b, UINT64_MAX);
    bool elsewhere = !b->value; /* held back by another stream: unordered */
    vlk_batch_drop(b);
    if (status != KD_OK || elsewhere) return status;
  }
  return KD_OK;
}

/* ---- commands ---------------------------------------------------------------------------- */

static bool repeats(const fam_command *m) {
  return m->pattern_size <= 4 && m->offsets[0] % 4 == 0 && m->size % 4 == 0;
}

bool vlk_is_plain(const fam_command *m) {
  return m->kind == FAM_LAUNCH || m->kind == FAM_COPY ||
         (m->kind == FAM_FILL && repeats(m));
}

/* Whole rows of a grid, and then what is left, so that no group is one too many. */
static void dispatch(kd_device *d, VkCommandBuffer commands, uint32_t groups,
                     struct vlk_push *push, uint32_t size) {
  uint32_t rows = groups / VLK_GRID, rest = groups % VLK_GRID;
  for (int part = 0; part < 2; part++) {
    if (part ? !rest : !rows) continue;
    push->first = part ? rows * VLK_GRID : 0;
    vk.CmdPushConstants(commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        size, push);
    vk.CmdDispatch(commands, part ? rest : VLK_GRID, part ? 1 : rows, 1);
  }
}

void vlk_put_plain(kd_device *d, VkCommandBuffer commands, VkPipeline *bound,
                   const fam_command *m) {
  if (m->kind == FAM_LAUNCH) {
    struct vlk_push push;
    const vlk_program *p = m->program;
    push.params = vlk_address(p->params);
    push.first = push.unused = 0;
    for (uint32_t i = 0; i < m->buffer_count; i++)
      push.buffers[i] =
          m->buffers[i] ? vlk_address(m->buffers[i]) + m->offsets[i] : 0;
    if (*bound != p->pipeline) {
      vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, p->pipeline);
      *bound = p->pipeline;
    }
    dispatch(d, commands, p->groups, &push, 16 + 8 * m->buffer_count);
  } else if (m->kind == FAM_COPY) {
    const VkBufferCopy region = {
        .srcOffset = m->buffers[0]->offset + m->offsets[0],
        .dstOffset = m->buffers[1]->offset + m->offsets[1],
        .size = m->size};
    vk.CmdCopyBuffer(commands, m->buffers[0]->block->buffer,
                     m->buffers[1]->block->buffer, 1, &region);
  } else {
    uint8_t word[4];
    uint32_t value = 0;
    for (uint32_t i = 0; i < 4; i++)
      word[i] = m->pattern[i % m->pattern_size];
    memcpy(&value, word, sizeof value);
    vk.CmdFillBuffer(commands, m->buffers[0]->block->buffer,
                     m->buffers[0]->offset + m->offsets[0], m->size, value);
  }
}

static kd_status run_plain(kd_stream *stream, const fam_command *m,
                           uint64_t correlation) {
  vlk_program *program = m->program;
  vlk_batch *b = NULL;
  kd_status status = vlk_stream_batch(stream, &b);
  if (status != KD_OK) return status;
  if (program) {
    atomic_fetch_add_explicit(&program->users, 1, memory_order_relaxed);
    b->programs[b->program_count++] = program;
  }
  note_begin(b);
  vlk_put_plain(stream->common.device, b->commands, &b->bound, m);
  note_end(stream, b, fam_profile_kind(m), m->size, correlation);
  return vlk_stream_added(stream);
}

/* Between a staging buffer and the command's own; the batch gives the former back,
 * behind a copy to `target` where there is one. Takes the staging buffer. */
static kd_status run_staged(kd_stream *stream, const fam_command *m,
                            kd_buffer *staging, uint32_t kind) {
  kd_device *d = stream->common.device;
  kd_buffer *buffer = m->buffers[0];
  uint64_t offset = buffer->offset + m->offsets[0];
  vlk_batch *b = NULL;
  vlk_after *after = vlk_host->allocate(vlk_host, sizeof *after, 0);
  kd_status status = after ? vlk_stream_batch(stream, &b)
                           : FAIL(KD_OUT_OF_MEMORY, "no memory for a copy");
  if (status == KD_OK && m->target)
    status = expect_write(d, b, m->target, m->size);
  if (status != KD_OK) {
    if (after) vlk_host->release(vlk_host, after);
    vlk_release(d, staging);
    return status;
  }
  note_begin(b);
  if (m->target) {
    const VkBufferCopy region = {offset, staging->offset, m->size};
    vk.CmdCopyBuffer(b->commands, buffer->block->buffer, staging->block->buffer,
                     1, &region);
  } else {
    VkBufferCopy regions[64];
    uint32_t count = 0;
    for (uint64_t at = 0; at < m->size; at += staging->size) {
      uint64_t left = m->size - at;
      regions[count++] =
          (VkBufferCopy){staging->offset, offset + at,
                         left < staging->size ? left : staging->size};
      if (count < 64 && left > staging->size) continue;
      vk.CmdCopyBuffer(b->commands, staging->block->buffer,
                       buffer->block->buffer, count, regions);
      count = 0;
    }
  }
  note_end(stream, b, kind, m->size, stream->common.tag);
  *after =
      (vlk_after){.staging = staging, .target = m->target, .size = m->size};
  vlk_batch_follow(b, after, false); /* it can't be done: it is not submitted */
  return vlk_stream_added(stream);
}

/* Where the stream is idle and the host sees the buffer; nobody profiles. */
static bool is_direct(kd_stream *stream, const kd_buffer *buffer) {
  return vlk_mapped(buffer) &&
         !atomic_load(&stream->common.device->profiling) &&
         vlk_stream_idle(stream);
}

static kd_status run_copy_in(kd_stream *stream, const fam_command *m) {
  kd_buffer *staging = NULL, *buffer = m->buffers[0];
  kd_status status = await_writes(stream, m->source, m->size);
  if (status != KD_OK) return status;
  if (is_direct(stream, buffer)) {
    memcpy(vlk_mapped(buffer) + m->offsets[0], m->source, (size_t)m->size);
    return KD_OK;
  }
  status = vlk_allocate(stream->common.device, VLK_VISIBLE, m->size, &staging);
  if (status != KD_OK) return status;
  memcpy(vlk_mapped(staging), m->source, (size_t)m->size);
  return run_staged(stream, m, staging, KD_PROFILE_COPY_IN);
}

static kd_status run_copy_out(kd_stream *stream, const fam_command *m) {
  kd_buffer *staging = NULL, *buffer = m->buffers[0];
  if (is_direct(stream, buffer)) {
    memcpy(m->target, vlk_mapped(buffer) + m->offsets[0], (size_t)m->size);
    return KD_OK;
  }
  kd_status status =
      vlk_allocate(stream->common.device, VLK_VISIBLE, m->size, &staging);
  if (status != KD_OK) return status;
  return run_staged(stream, m, staging, KD_PROFILE_COPY_OUT);
}

static kd_status run_fill(kd_stream *stream, const fam_command *m) {
  kd_buffer *staging = NULL;
  uint64_t size = m->size < FILL_CHUNK ? m->size : FILL_CHUNK;
  kd_status status =
      vlk_allocate(stream->common.device, VLK_VISIBLE, size, &staging);
  if (status != KD_OK) return status;
  char *bytes = vlk_mapped(staging);
  for (uint64_t at = 0; at < size; at += m->pattern_size)
    memcpy(bytes + at, m->pattern, m->pattern_size);
  return run_staged(stream, m, staging, KD_PROFILE_FILL);
}

kd_status vlk_run(kd_stream *stream, const fam_command *m,
                  uint64_t correlation) {
  if (atomic_load(&stream->common.device->lost))
    return FAIL(KD_DEVICE_LOST, "Vulkan: %s was lost",
                stream->common.device->name);
  if (vlk_is_plain(m)) return run_plain(stream, m, correlation);
  if (m->kind == FAM_COPY_IN) return run_copy_in(stream, m);
  if (m->kind == FAM_COPY_OUT) return run_copy_out(stream, m);
  return run_fill(stream, m);
}

kd_status vlk_do(kd_device *d, kd_stream *stream, const fam_command *m,
                 uint64_t correlation) {
  if (stream) return vlk_run(stream, m, correlation);
  pthread_mutex_lock(&d->own_lock);
  kd_status status = vlk_run(d->own, m, correlation);
  if (status == KD_OK) status = vlk_stream_finish(d->own);
  pthread_mutex_unlock(&d->own_lock);
  return status;
}
