/* lane.c - hardware queues, and batches of commands that end in their order.
 *
 * A batch has a value of its lane's timeline semaphore. When the semaphore has reached
 * it, somebody ends the batch: whoever waits or asks, or, where a callback depends on it,
 * the lane's thread. Ending it is what is left to do on the host: copies out of staging
 * buffers, time stamps, callbacks. One at a time ends batches of a lane. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "common/clock.h"
#include "vlk.h"

#define QUERIES (1 + 2 * VLK_COMMANDS)

/* ---- batches ------------------------------------------------------------------------ */

static void batch_destroy(vlk_batch *b) {
  VkDevice device = b->lane->device->device;
  if (b->pool) vk.DestroyCommandPool(device, b->pool, NULL);
  if (b->queries) vk.DestroyQueryPool(device, b->queries, NULL);
  vlk_host->release(vlk_host, b);
}

static kd_status batch_create(vlk_lane *lane, vlk_batch **out) {
  kd_device *d = lane->device;
  vlk_batch *b = vlk_host->allocate(vlk_host, sizeof *b, 0);
  if (!b) return FAIL(KD_OUT_OF_MEMORY, "no memory for commands");
  memset(b, 0, sizeof *b);
  b->lane = lane;
  const VkCommandPoolCreateInfo pool = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
      .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
      .queueFamilyIndex = d->family};
  VkResult code = vk.CreateCommandPool(d->device, &pool, NULL, &b->pool);
  if (code == VK_SUCCESS) {
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = b->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    code = vk.AllocateCommandBuffers(d->device, &info, &b->commands);
  }
  if (code == VK_SUCCESS && d->tick > 0) {
    const VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = QUERIES};
    code = vk.CreateQueryPool(d->device, &info, NULL, &b->queries);
  }
  if (code != VK_SUCCESS) {
    batch_destroy(b);
    return vlk_failed(d, code, "making a command buffer");
  }
  *out = b;
  return KD_OK;
}

kd_status vlk_batch_begin(vlk_lane *lane, vlk_batch **out) {
  kd_device *d = lane->device;
  pthread_mutex_lock(&lane->lock);
  vlk_batch *b = lane->spare;
  if (b) lane->spare = b->next;
  pthread_mutex_unlock(&lane->lock);
  if (!b) {
    kd_status status = batch_create(lane, &b);
    if (status != KD_OK) return status;
  }
  b->next = NULL;
  b->value = 0;
  b->count = b->note_count = b->program_count = 0;
  b->bound = VK_NULL_HANDLE;
  b->after = NULL;
  b->is_done = b->watched = false;
  b->status = KD_OK;
  b->end_time = 0;
  memset(b->waits, 0, sizeof b->waits);
  atomic_store(&b->users, 1);
  const VkCommandBufferBeginInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  VkResult code = vk.ResetCommandPool(d->device, b->pool, 0);
  if (code == VK_SUCCESS) code = vk.BeginCommandBuffer(b->commands, &info);
  if (code != VK_SUCCESS) {
    vlk_batch_drop(b);
    return vlk_failed(d, code, "vkBeginCommandBuffer");
  }
  b->timed = b->queries != VK_NULL_HANDLE;
  if (b->timed) {
    b->noting = atomic_load(&d->profiling);
    vk.CmdResetQueryPool(b->commands, b->queries, 0, b->noting ? QUERIES : 1);
  }
  *out = b;
  return KD_OK;
}

void vlk_batch_take(vlk_batch *b) {
  atomic_fetch_add_explicit(&b->users, 1, memory_order_relaxed);
}

void vlk_batch_drop(vlk_batch *b) {
  vlk_lane *lane = b->lane;
  if (atomic_fetch_sub_explicit(&b->users, 1, memory_order_acq_rel) > 1) return;
  pthread_mutex_lock(&lane->lock);
  b->next = lane->spare;
  lane->spare = b;
  pthread_mutex_unlock(&lane->lock);
}

/* ---- ending them -------------------------------------------------------------------- */

static bool has_passed(vlk_lane *lane, const vlk_batch *b) {
  uint64_t value = 0;
  kd_device *d = lane->device;
  if (atomic_load(&d->lost)) return true;
  VkResult code =
      vk.GetSemaphoreCounterValue(d->device, lane->timeline, &value);
  if (code != VK_SUCCESS) {
    vlk_failed(d, code, "vkGetSemaphoreCounterValue");
    return atomic_load(&d->lost);
  }
  return value >= b->value;
}

static void read_times(vlk_batch *b) {
  kd_device *d = b->lane->device;
  uint64_t times[QUERIES];
  uint32_t count = 1 + 2 * b->note_count;
  if (!b->timed || b->status != KD_OK) return;
  if (vk.GetQueryPoolResults(
          d->device, b->queries, 0, count, sizeof times, times, sizeof *times,
          VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT) != VK_SUCCESS)
    return;
  b->end_time = times[0];
  for (uint32_t i = 0; i < b->note_count; i++) {
    const vlk_note *note = &b->notes[i];
    const kd_profile_record record = {.begin = times[1 + 2 * i],
                                      .end = times[2 + 2 * i],
                                      .correlation = note->correlation,
                                      .bytes = note->bytes,
                                      .kind = note->kind,
                                      .stream = note->stream};
    vlk_host->profile_push(vlk_host, d, &record, 1, sizeof(kd_profile_record));
  }
}

/* What follows a batch, in its order; returns the callbacks. Without the lock. */
static vlk_after *follow_up(vlk_batch *b, vlk_after *list) {
  vlk_after *calls = NULL, **last = &calls;
  while (list) {
    vlk_after *next = list->next;
    if (list->target && b->status == KD_OK)
      memcpy(list->target, vlk_mapped(list->staging), (size_t)list->size);
    if (list->staging) vlk_release(b->lane->device, list->staging);
    list->next = NULL;
    if (list->callback) {
      *last = list;
      last = &list->next;
    } else {
      vlk_host->release(vlk_host, list);
    }
    list = next;
  }
  return calls;
}

/* Ends one batch, which is off the list; the lock is held before and after. */
static void end_batch(vlk_lane *lane, vlk_batch *b) {
  vlk_after *calls = NULL, **last = &calls;
  lane->reaping = true;
  if (b->status == KD_OK && atomic_load(&lane->device->lost))
    b->status = KD_DEVICE_LOST;
  bool read = false;
  while (!read || b->after) { /* more may come meanwhile */
    vlk_after *list = b->after;
    b->after = NULL;
    pthread_mutex_unlock(&lane->lock);
    if (!read) read_times(b);
    read = true;
    *last = follow_up(b, list);
    while (*last)
      last = &(*last)->next;
    pthread_mutex_lock(&lane->lock);
  }
  b->is_done = true;
  lane->watched -= b->watched;
  lane->reaping = false;
  pthread_cond_broadcast(&lane->changed);
  pthread_mutex_unlock(&lane->lock);
  for (uint32_t i = 0; i < b->program_count; i++)
    vlk_program_drop(b->programs[i]);
  while (calls) {
    vlk_after *next = calls->next;
    calls->callback(calls->context, b->status, vlk_batch_why(b));
    vlk_host->release(vlk_host, calls);
    calls = next;
  }
  vlk_batch_drop(b);
  pthread_mutex_lock(&lane->lock);
}

/* Ends all that the device has passed. */
static void reap(vlk_lane *lane) {
  while (!lane->reaping && lane->first && has_passed(lane, lane->first)) {
    vlk_batch *b = lane->first;
    lane->first = b->next;
    if (!lane->first) lane->last = NULL;
    end_batch(lane, b);
  }
}

void vlk_lane_reap(vlk_lane *lane) {
  pthread_mutex_lock(&lane->lock);
  while (lane->reaping)
    pthread_cond_wait(&lane->changed, &lane->lock);
  reap(lane);
  while (lane->reaping)
    pthread_cond_wait(&lane->changed, &lane->lock);
  pthread_mutex_unlock(&lane->lock);
}

/* ---- submitting ------------------------------------------------------------------------ */

/* Everything before a batch's end is visible to the host. */
static void end_commands(vlk_batch *b) {
  const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                   .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                   .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
  vk.CmdPipelineBarrier(
      b->commands,
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
      VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
  if (b->timed)
    vk.CmdWriteTimestamp(b->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                         b->queries, 0);
}

/* Under the lane's lock. */
static VkResult submit(vlk_lane *lane, vlk_batch *b) {
  VkSemaphore semaphores[VLK_WAITS];
  uint64_t values[VLK_WAITS];
  VkPipelineStageFlags stages[VLK_WAITS];
  uint32_t count = 0;
  const uint64_t value = b->value;
  for (uint32_t i = 0; i < lane->device->lane_count; i++) {
    if (!b->waits[i] || i == lane->number) continue; /* its own order */
    semaphores[count] = lane->device->lanes[i].timeline;
    values[count] = b->waits[i];
    stages[count++] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  }
  const VkTimelineSemaphoreSubmitInfo timeline = {
      .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
      .waitSemaphoreValueCount = count,
      .pWaitSemaphoreValues = values,
      .signalSemaphoreValueCount = 1,
      .pSignalSemaphoreValues = &value};
  const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                             .pNext = &timeline,
                             .waitSemaphoreCount = count,
                             .pWaitSemaphores = semaphores,
                             .pWaitDstStageMask = stages,
                             .commandBufferCount = 1,
                             .pCommandBuffers = &b->commands,
                             .signalSemaphoreCount = 1,
                             .pSignalSemaphores = &lane->timeline};
  return vk.QueueSubmit(lane->queue, 1, &info, VK_NULL_HANDLE);
}

kd_status vlk_batch_submit(vlk_batch *b) {
  vlk_lane *lane = b->lane;
  kd_device *d = lane->device;
  end_commands(b);
  VkResult code = vk.EndCommandBuffer(b->commands);
  vlk_batch_take(b);
  pthread_mutex_lock(&lane->lock);
  b->value = lane->submitted + 1;
  if (code == VK_SUCCESS)
    code = atomic_load(&d->lost) ? VK_ERROR_DEVICE_LOST : submit(lane, b);
  if (code == VK_SUCCESS) {
    lane->submitted++;
    if (lane->last)
      lane->last->next = b;
    else
      lane->first = b;
    lane->last = b;
    reap(lane);
    pthread_mutex_unlock(&lane->lock);
    return KD_OK;
  }
  b->status = vlk_failed(d, code, "vkQueueSubmit");
  b->timed = false;
  while (lane->reaping)
    pthread_cond_wait(&lane->changed, &lane->lock);
  end_batch(lane, b);
  pthread_mutex_unlock(&lane->lock);
  return vlk_failed(d, code, "vkQueueSubmit");
}

/* ---- asking and waiting ------------------------------------------------------------------ */

kd_status vlk_batch_query(vlk_batch *b) {
  vlk_lane *lane = b->lane;
  pthread_mutex_lock(&lane->lock);
  if (!b->is_done) reap(lane);
  bool done = b->is_done;
  pthread_mutex_unlock(&lane->lock);
  if (!done) return KD_BUSY;
  return b->status == KD_OK ? KD_OK : FAIL(b->status, "%s", vlk_batch_why(b));
}

const char *vlk_batch_why(const vlk_batch *b) {
  return b->status == KD_OK            ? ""
         : b->status == KD_DEVICE_LOST ? "Vulkan: the device was lost"
                                       : "Vulkan: the driver refused the work";
}

/* Under the lock, which it lets go: until the semaphore has the value, or something
 * else has changed. */
static void wait_some(vlk_lane *lane, uint64_t value, uint64_t until) {
  kd_device *d = lane->device;
  if (lane->reaping) {
    struct timespec end = clock_timespec(until);
    if (until == UINT64_MAX)
      pthread_cond_wait(&lane->changed, &lane->lock);
    else
      pthread_cond_timedwait(&lane->changed, &lane->lock, &end);
    return;
  }
  const VkSemaphoreWaitInfo info = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
      .semaphoreCount = 1,
      .pSemaphores = &lane->timeline,
      .pValues = &value};
  pthread_mutex_unlock(&lane->lock);
  uint64_t at = clock_now(), left = until == UINT64_MAX ? until : until - at;
  if (until <= at) left = 0;
  VkResult code = vk.WaitSemaphores(d->device, &info, left);
  if (code != VK_SUCCESS && code != VK_TIMEOUT)
    vlk_failed(d, code, "vkWaitSemaphores");
  pthread_mutex_lock(&lane->lock);
}

kd_status vlk_batch_wait(vlk_batch *b, uint64_t timeout) {
  vlk_lane *lane = b->lane;
  uint64_t until = UINT64_MAX;
  if (timeout < UINT64_MAX / 4) until = clock_now() + timeout;
  pthread_mutex_lock(&lane->lock);
  reap(lane);
  while (!b->is_done && (until == UINT64_MAX || clock_now() < until)) {
    wait_some(lane, b->value, until);
    reap(lane);
  }
  pthread_mutex_unlock(&lane->lock);
  kd_status status = vlk_batch_query(b);
  return status == KD_BUSY
             ? FAIL(KD_DEADLINE_EXCEEDED, "the event is not done yet")
             : status;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void *lane_watch(void *context) {
  vlk_lane *lane = context;
  pthread_mutex_lock(&lane->lock);
  while (!lane->closing) {
    if (lane->watched && lane->first)
      wait_some(lane, lane->first->value, clock_now() + 1000000000u);
    else
      pthread_cond_wait(&lane->changed, &lane->lock);
    reap(lane);
  }
  pthread_mutex_unlock(&lane->lock);
  return NULL;
}

/* Under the lock. The thread takes none of the process's signals. */
static bool start_thread(vlk_lane *lane) {
  sigset_t all, before;
  if (lane->has_thread) return true;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  lane->has_thread = pthread_create(&lane->thread, NULL, lane_watch, lane) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return lane->has_thread;
}

int vlk_batch_follow(vlk_batch *b, vlk_after *after, bool watched) {
  vlk_lane *lane = b->lane;
  pthread_mutex_lock(&lane->lock);
  int follows = b->is_done ? 0 : watched && !start_thread(lane) ? -1 : 1;
  if (follows > 0) {
    vlk_after **at = &b->after;
    while (*at)
      at = &(*at)->next;
    after->next = NULL;
    *at = after;
    if (watched && !b->watched) {
      b->watched = true;
      lane->watched++;
      pthread_cond_broadcast(&lane->changed);
    }
  }
  pthread_mutex_unlock(&lane->lock);
  return follows;
}

/* ---- lanes ------------------------------------------------------------------------------------ */

kd_status vlk_lane_begin(kd_device *d, vlk_lane *lane, uint32_t number,
                         VkQueue queue) {
  pthread_condattr_t clock;
  lane->device = d;
  lane->number = number;
  lane->queue = queue;
  const VkSemaphoreTypeCreateInfo type = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  const VkSemaphoreCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  VLK_TRY(d, "vkCreateSemaphore",
          vk.CreateSemaphore(d->device, &info, NULL, &lane->timeline));
  pthread_mutex_init(&lane->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&lane->changed, &clock);
  pthread_condattr_destroy(&clock);
  return KD_OK;
}

/* All work is done. */
void vlk_lane_end(vlk_lane *lane) {
  pthread_mutex_lock(&lane->lock);
  reap(lane);
  lane->closing = true;
  pthread_cond_broadcast(&lane->changed);
  pthread_mutex_unlock(&lane->lock);
  if (lane->has_thread) pthread_join(lane->thread, NULL);
  while (lane->spare) {
    vlk_batch *next = lane->spare->next;
    batch_destroy(lane->spare);
    lane->spare = next;
  }
  vk.DestroySemaphore(lane->device->device, lane->timeline, NULL);
  pthread_mutex_destroy(&lane->lock);
  pthread_cond_destroy(&lane->changed);
}
