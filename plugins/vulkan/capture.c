/* capture.c - recordings. One that needs nothing of the host is a secondary command
 * buffer, which a launch executes; others are run command by command. */
#include <string.h>

#include "vlk.h"

/* The commands as the driver has them. */
typedef struct taken {
  struct taken *next;
  VkCommandBuffer commands;
  /* that executes it; NULL: none does. Launches follow one another, since they write the
   * same buffers: the last one's end is all's */
  vlk_batch *last;
} taken;

struct kd_capture {
  fam_recording recording; /* first */
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

static void retire(kd_capture *c) {
  if (!c->now) return;
  c->now->next = c->older;
  c->older = c->now;
  c->now = NULL;
}

/* ---- what is recorded -------------------------------------------------------------------- */

static kd_status vulkan_capture_added(kd_capture *c, fam_command *m) {
  vlk_program *program = m->program;
  if (m->kind == FAM_LAUNCH) atomic_fetch_add(&program->users, 1);
  (void)c;
  return KD_OK;
}

static void vulkan_capture_destroy(kd_capture *c) {
  retire(c);
  while (c->older) {
    taken *next = c->older->next;
    if (c->older->last) {
      vlk_batch_wait(c->older->last, UINT64_MAX);
      vlk_batch_drop(c->older->last);
    }
    vlk_host->release(vlk_host, c->older);
    c->older = next;
  }
  if (c->pool)
    vk.DestroyCommandPool(c->recording.device->device, c->pool, NULL);
}

/* ---- for the driver ---------------------------------------------------------------------- */

/* One of before that nobody executes any more, or a new one. */
static kd_status get_buffer(kd_capture *c, taken **out) {
  kd_device *d = c->recording.device;
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
  taken *fresh = vlk_host->allocate(vlk_host, sizeof *fresh, 0);
  if (!fresh) return FAIL(KD_OUT_OF_MEMORY, "no memory to replay");
  memset(fresh, 0, sizeof *fresh);
  const VkCommandBufferAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = c->pool,
      .level = VK_COMMAND_BUFFER_LEVEL_SECONDARY,
      .commandBufferCount = 1};
  VkResult code = vk.AllocateCommandBuffers(d->device, &info, &fresh->commands);
  if (code != VK_SUCCESS) {
    vlk_host->release(vlk_host, fresh);
    return vlk_failed(d, code, "vkAllocateCommandBuffers");
  }
  *out = fresh;
  return KD_OK;
}

/* Under the lock. */
static kd_status capture_take(kd_capture *c) {
  const fam_recording *r = &c->recording;
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
  for (uint32_t i = 0; code == VK_SUCCESS && i < r->count; i++) {
    if (i) vlk_put_barrier(t->commands);
    vlk_put_plain(r->device, t->commands, &bound, &r->commands[i]);
  }
  if (code == VK_SUCCESS) code = vk.EndCommandBuffer(t->commands);
  if (code != VK_SUCCESS) {
    t->next = c->older;
    c->older = t;
    return vlk_failed(r->device, code, "recording for replay");
  }
  c->now = t;
  return KD_OK;
}

/* Whether the device alone can do it; a fill depends on where it begins. */
static bool capture_is_plain(const fam_recording *r) {
  for (uint32_t i = 0; i < r->count; i++)
    if (!vlk_is_plain(&r->commands[i])) return false;
  return true;
}

static kd_status launch_whole(kd_capture *c, kd_stream *stream) {
  vlk_batch *b = NULL;
  kd_status status = c->now ? KD_OK : capture_take(c);
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

static kd_status vulkan_capture_launch(kd_capture *c, kd_stream *stream) {
  fam_recording *r = &c->recording;
  kd_status status = KD_OK;
  if (!r->count) return KD_OK;
  if (!atomic_load(&r->device->profiling) && (c->now || capture_is_plain(r)))
    return launch_whole(c, stream);
  for (uint32_t i = 0; status == KD_OK && i < r->count; i++)
    status = vlk_run(stream, &r->commands[i], 0);
  return status;
}

const fam_recorder vlk_recorder = {
    .size = sizeof(kd_capture),
    .added = vulkan_capture_added,
    .rebound = retire,
    .launch = vulkan_capture_launch,
    .destroy = vulkan_capture_destroy,
};
