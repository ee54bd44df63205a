/* capture.c - recordings. One that needs nothing of the host is a secondary command
 * buffer, which a launch executes; others are run command by command. */
#include <string.h>

#include "vlk.h"

/* The commands as the driver has them. */
typedef struct taken {
  struct taken *next;
  VkCommandBuffer commands;
  vlk_batch
      *last; /* that executes it; NULL: none does. Launches follow one another,
                      since they write the same buffers: the last one's end is all's */
} taken;

struct kd_capture {
  kd_device *device;
  pthread_mutex_t lock;
  _Atomic int users; /* itself, and events that were recorded in it */
  bool open, plain;
  vlk_command *commands;
  uint32_t count, room;
  kd_stream *streams[64]; /* those that record into it; the first began it */
  uint32_t stream_count;
  VkCommandPool pool;
  taken *now;   /* NULL: to be recorded for the driver */
  taken *older; /* of before an update; one may still run */
};

static bool is_busy(taken *t) {
  if (!t->last) return false;
  if (vlk_batch_query(t->last) == KD_BUSY) return true;
  vlk_batch_drop(t->last);
  t->last = NULL;
  return false;
}

void vlk_capture_take(kd_capture *c) {
  atomic_fetch_add(&c->users, 1);
}

void vlk_capture_drop(kd_capture *c) {
  if (atomic_fetch_sub(&c->users, 1) > 1) return;
  if (c->now) {
    c->now->next = c->older;
    c->older = c->now;
  }
  while (c->older) {
    taken *next = c->older->next;
    if (c->older->last) {
      vlk_batch_wait(c->older->last, UINT64_MAX);
      vlk_batch_drop(c->older->last);
    }
    vlk_host->release(c->older);
    c->older = next;
  }
  if (c->pool) vk.DestroyCommandPool(c->device->device, c->pool, NULL);
  for (uint32_t i = 0; i < c->count; i++)
    if (c->commands[i].program) vlk_program_drop(c->commands[i].program);
  if (c->commands) vlk_host->release(c->commands);
  pthread_mutex_destroy(&c->lock);
  vlk_host->release(c);
}

kd_status vlk_record(kd_stream *stream, const vlk_command *command) {
  kd_capture *c = stream->recording;
  kd_status status = KD_OK;
  pthread_mutex_lock(&c->lock);
  if (c->count == c->room) {
    uint32_t room = c->room * 2 + 16;
    vlk_command *more = vlk_host->allocate(room * sizeof *more, 0);
    if (more) {
      if (c->count) memcpy(more, c->commands, c->count * sizeof *more);
      if (c->commands) vlk_host->release(c->commands);
      c->commands = more;
      c->room = room;
    } else {
      status = FAIL(KD_OUT_OF_MEMORY, "no memory to record");
    }
  }
  if (status == KD_OK) {
    if (command->program) atomic_fetch_add(&command->program->users, 1);
    c->plain &= vlk_is_plain(command);
    c->commands[c->count++] = *command;
  }
  pthread_mutex_unlock(&c->lock);
  return status;
}

bool vlk_capture_join(kd_capture *c, kd_stream *stream) {
  bool joined = false;
  pthread_mutex_lock(&c->lock);
  if (c->open && c->stream_count < 64) {
    c->streams[c->stream_count++] = stream;
    stream->recording = c;
    joined = true;
  }
  pthread_mutex_unlock(&c->lock);
  return joined;
}

static kd_status begin(kd_stream *stream) {
  if (stream->recording)
    return FAIL(KD_FAILED_PRECONDITION, "the stream records already");
  kd_capture *c = vlk_host->allocate(sizeof *c, 0);
  if (!c) return FAIL(KD_OUT_OF_MEMORY, "no memory for a recording");
  memset(c, 0, sizeof *c);
  c->device = stream->device;
  c->open = c->plain = true;
  atomic_init(&c->users, 1);
  pthread_mutex_init(&c->lock, NULL);
  vlk_capture_join(c, stream);
  return KD_OK;
}

static kd_status end(kd_stream *stream, kd_capture **out_capture) {
  kd_capture *c = stream->recording;
  if (!c || c->streams[0] != stream)
    return FAIL(KD_FAILED_PRECONDITION, "the stream did not begin to record");
  pthread_mutex_lock(&c->lock);
  c->open = false;
  for (uint32_t i = 0; i < c->stream_count; i++)
    c->streams[i]->recording = NULL;
  pthread_mutex_unlock(&c->lock);
  *out_capture = c;
  return KD_OK;
}

/* ---- for the driver ---------------------------------------------------------------------- */

/* One of before that nobody executes any more, or a new one. */
static kd_status get_buffer(kd_capture *c, taken **out) {
  kd_device *d = c->device;
  for (taken **at = &c->older; *at; at = &(*at)->next)
    if (!is_busy(*at)) {
      taken *free = *at;
      *at = free->next;
      *out = free;
      return KD_OK;
    }
  if (!c->pool) {
    const VkCommandPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = d->family};
    VLK_TRY(d, "vkCreateCommandPool",
            vk.CreateCommandPool(d->device, &info, NULL, &c->pool));
  }
  taken *fresh = vlk_host->allocate(sizeof *fresh, 0);
  if (!fresh) return FAIL(KD_OUT_OF_MEMORY, "no memory to replay");
  memset(fresh, 0, sizeof *fresh);
  const VkCommandBufferAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = c->pool,
      .level = VK_COMMAND_BUFFER_LEVEL_SECONDARY,
      .commandBufferCount = 1};
  VkResult code = vk.AllocateCommandBuffers(d->device, &info, &fresh->commands);
  if (code != VK_SUCCESS) {
    vlk_host->release(fresh);
    return vlk_failed(d, code, "vkAllocateCommandBuffers");
  }
  *out = fresh;
  return KD_OK;
}

/* Under the lock. */
static kd_status take(kd_capture *c) {
  taken *t = NULL;
  VkPipeline bound = VK_NULL_HANDLE;
  kd_status status = get_buffer(c, &t);
  if (status != KD_OK) return status;
  const VkCommandBufferInheritanceInfo inherits = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
  const VkCommandBufferBeginInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
      .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
      .pInheritanceInfo = &inherits};
  VkResult code = vk.BeginCommandBuffer(t->commands, &info);
  for (uint32_t i = 0; code == VK_SUCCESS && i < c->count; i++) {
    if (i) vlk_put_barrier(t->commands);
    vlk_put_plain(c->device, t->commands, &bound, &c->commands[i]);
  }
  if (code == VK_SUCCESS) code = vk.EndCommandBuffer(t->commands);
  if (code != VK_SUCCESS) {
    t->next = c->older;
    c->older = t;
    return vlk_failed(c->device, code, "recording for replay");
  }
  c->now = t;
  return KD_OK;
}

static kd_status launch_whole(kd_capture *c, kd_stream *stream) {
  vlk_batch *b = NULL;
  kd_status status = c->now ? KD_OK : take(c);
  if (status == KD_OK) status = vlk_stream_batch(stream, &b);
  if (status != KD_OK) return status;
  vk.CmdExecuteCommands(b->commands, 1, &c->now->commands);
  b->bound = VK_NULL_HANDLE;
  if (c->now->last != b) {
    if (c->now->last) vlk_batch_drop(c->now->last);
    vlk_batch_take(b);
    c->now->last = b;
  }
  return vlk_stream_added(stream);
}

static kd_status launch(kd_capture *c, kd_stream *stream) {
  kd_status status = KD_OK;
  if (stream->recording)
    return FAIL(KD_UNIMPLEMENTED, "a recording within a recording");
  pthread_mutex_lock(&c->lock);
  if (c->plain && c->count && !atomic_load(&c->device->profiling))
    status = launch_whole(c, stream);
  else
    for (uint32_t i = 0; status == KD_OK && i < c->count; i++)
      status = vlk_run(stream, &c->commands[i], 0);
  pthread_mutex_unlock(&c->lock);
  return status;
}

/* ---- other buffers ------------------------------------------------------------------------ */

/* Uses that start at the offset change. */
static bool fits(const vlk_command *m, uint32_t at, const kd_rebind *r) {
  return m->buffers[at] == r->from && m->offsets[at] == r->from_offset;
}

static bool is_used(const kd_capture *c, const kd_rebind *r) {
  for (uint32_t i = 0; i < c->count; i++)
    for (uint32_t k = 0; k < c->commands[i].buffer_count; k++)
      if (fits(&c->commands[i], k, r)) return true;
  return false;
}

/* Each use changes once, also where one's new buffer is another's old one. */
static void rebind(vlk_command *m, const kd_rebind *rebinds, uint32_t count) {
  for (uint32_t k = 0; k < m->buffer_count; k++)
    for (uint32_t i = 0; i < count; i++)
      if (fits(m, k, &rebinds[i])) {
        m->buffers[k] = rebinds[i].to;
        m->offsets[k] = rebinds[i].to_offset;
        break;
      }
}

static kd_status update(kd_capture *c, const kd_rebind *rebinds,
                        uint32_t count) {
  kd_status status = KD_OK;
  pthread_mutex_lock(&c->lock);
  for (uint32_t i = 0; status == KD_OK && i < count; i++)
    if (!is_used(c, &rebinds[i]))
      status = FAIL(KD_NOT_FOUND, "buffer %u of the update is not recorded", i);
  if (status == KD_OK) {
    c->plain = true;
    for (uint32_t m = 0; m < c->count; m++) {
      rebind(&c->commands[m], rebinds, count);
      c->plain &= vlk_is_plain(&c->commands[m]);
    }
    if (c->now) {
      c->now->next = c->older;
      c->older = c->now;
      c->now = NULL;
    }
  }
  pthread_mutex_unlock(&c->lock);
  return status;
}

const kd_capture_table vlk_capture = {
    .struct_size = sizeof(kd_capture_table),
    .begin = begin,
    .end = end,
    .launch = launch,
    .update = update,
    .destroy = vlk_capture_drop,
};
