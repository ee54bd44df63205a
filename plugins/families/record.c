/* record.c - copies as commands, and recordings of commands. */
#include "families/record.h"

#include <string.h>

#include "families/instance.h"

uint32_t fam_profile_kind(const fam_command *command) {
  static const uint32_t kinds[] = {[FAM_LAUNCH] = KD_PROFILE_KERNEL,
                                   [FAM_COPY_IN] = KD_PROFILE_COPY_IN,
                                   [FAM_COPY_OUT] = KD_PROFILE_COPY_OUT,
                                   [FAM_COPY] = KD_PROFILE_COPY,
                                   [FAM_FILL] = KD_PROFILE_FILL};
  return kinds[command->kind];
}

/* ---- copies ------------------------------------------------------------------------- */

static kd_status record_run(kd_device *device, kd_stream *stream,
                            const fam_command *command) {
  const fam_driver *driver = fam_driver_of(device);
  if (!command->size) return KD_OK;
  if (driver->script) fam_script_add(driver->script, driver, command, NULL);
  return fam_run(driver, device, stream, command,
                 stream ? fam_stream_of(stream)->tag : 0);
}

kd_status fam_copy_in(kd_device *device, kd_stream *stream, const void *source,
                      kd_buffer *target, uint64_t offset, uint64_t size) {
  const fam_command command = {.kind = FAM_COPY_IN,
                               .source = source,
                               .size = size,
                               .buffer_count = 1,
                               .buffers = {target},
                               .offsets = {offset}};
  return record_run(device, stream, &command);
}

kd_status fam_copy_out(kd_device *device, kd_stream *stream, kd_buffer *source,
                       uint64_t offset, void *target, uint64_t size) {
  const fam_command command = {.kind = FAM_COPY_OUT,
                               .target = target,
                               .size = size,
                               .buffer_count = 1,
                               .buffers = {source},
                               .offsets = {offset}};
  return record_run(device, stream, &command);
}

kd_status fam_copy(kd_device *device, kd_stream *stream, kd_buffer *source,
                   uint64_t source_offset, kd_buffer *target,
                   uint64_t target_offset, uint64_t size) {
  const fam_command command = {.kind = FAM_COPY,
                               .size = size,
                               .buffer_count = 2,
                               .buffers = {source, target},
                               .offsets = {source_offset, target_offset}};
  return record_run(device, stream, &command);
}

kd_status fam_fill(kd_device *device, kd_stream *stream, kd_buffer *target,
                   uint64_t offset, uint64_t size, const void *pattern,
                   uint32_t pattern_size) {
  fam_command command = {.kind = FAM_FILL,
                         .size = size,
                         .buffer_count = 1,
                         .buffers = {target},
                         .offsets = {offset},
                         .pattern_size = pattern_size};
  memcpy(command.pattern, pattern, pattern_size);
  return record_run(device, stream, &command);
}

/* ---- recordings ------------------------------------------------------------------- */

/* A plugin's kd_capture begins with its recording. */
static fam_recording *of(struct kd_capture *capture) {
  return (fam_recording *)(void *)capture;
}

static kd_status record_begin(kd_stream *stream, uint32_t flags) {
  fam_stream *s = fam_stream_of(stream);
  const fam_driver *driver = fam_driver_of(s->device);
  const kd_host *host = driver->host;
  size_t size = driver->recorder->size;
  if (flags) return host->fail(KD_UNIMPLEMENTED, "capture flags 0x%x", flags);
  if (s->recording)
    return host->fail(KD_FAILED_PRECONDITION, "the stream records already");
  struct kd_capture *capture = host->allocate(host, size, 0);
  if (!capture)
    return host->fail(KD_OUT_OF_MEMORY, "no memory for a recording");
  memset(capture, 0, size);
  fam_recording *r = of(capture);
  r->driver = driver;
  r->device = s->device;
  r->open = true;
  atomic_init(&r->users, 1);
  pthread_mutex_init(&r->lock, NULL);
  fam_record_join(capture, &s->recording);
  return KD_OK;
}

static kd_status record_end(kd_stream *stream,
                            struct kd_capture **out_capture) {
  fam_stream *s = fam_stream_of(stream);
  struct kd_capture *capture = s->recording;
  if (!capture || of(capture)->streams[0] != &s->recording)
    return fam_driver_of(s->device)->host->fail(
        KD_FAILED_PRECONDITION, "the stream did not begin to record");
  fam_recording *r = of(capture);
  pthread_mutex_lock(&r->lock);
  r->open = false;
  for (uint32_t i = 0; i < r->stream_count; i++)
    *r->streams[i] = NULL;
  pthread_mutex_unlock(&r->lock);
  *out_capture = capture;
  return KD_OK;
}

void fam_record_join(struct kd_capture *capture, struct kd_capture **slot) {
  fam_recording *r = of(capture);
  pthread_mutex_lock(&r->lock);
  if (r->open && r->stream_count < 64) {
    r->streams[r->stream_count++] = slot;
    *slot = capture;
  }
  pthread_mutex_unlock(&r->lock);
}

/* Under the lock: room for one more. */
static bool record_grow(fam_recording *r) {
  const kd_host *host = r->driver->host;
  if (r->count < r->room) return true;
  uint32_t room = r->room * 2 + 16;
  fam_command *more = host->allocate(host, room * sizeof *more, 0);
  if (!more) return false;
  if (r->count) memcpy(more, r->commands, r->count * sizeof *more);
  if (r->commands) host->release(host, r->commands);
  r->commands = more;
  r->room = room;
  return true;
}

/* A copy of the command. */
static kd_status record_add(struct kd_capture *capture,
                            const fam_command *command) {
  fam_recording *r = of(capture);
  kd_status status = KD_OK;
  pthread_mutex_lock(&r->lock);
  if (record_grow(r)) {
    r->commands[r->count] = *command;
    status = r->driver->recorder->added(capture, &r->commands[r->count]);
    if (status == KD_OK) r->count++;
  } else {
    status = r->driver->host->fail(KD_OUT_OF_MEMORY, "no memory to record");
  }
  pthread_mutex_unlock(&r->lock);
  return status;
}

kd_status fam_run(const fam_driver *driver, kd_device *device,
                  kd_stream *stream, const fam_command *command,
                  uint64_t correlation) {
  struct kd_capture *recording =
      stream ? fam_stream_of(stream)->recording : NULL;
  return recording ? record_add(recording, command)
                   : driver->run(device, stream, command, correlation);
}

/* Uses that start at the offset change. */
static bool record_fits(const fam_command *m, uint32_t at,
                        const kd_rebind *rebind) {
  return m->buffers[at] == rebind->from &&
         m->offsets[at] == rebind->from_offset;
}

static bool is_used(const fam_recording *r, const kd_rebind *rebind) {
  for (uint32_t i = 0; i < r->count; i++)
    for (uint32_t k = 0; k < r->commands[i].buffer_count; k++)
      if (record_fits(&r->commands[i], k, rebind)) return true;
  return false;
}

/* Each use changes once, also where one's new buffer is another's old one. */
static void rebind_one(fam_command *m, const kd_rebind *rebinds,
                       uint32_t count) {
  for (uint32_t k = 0; k < m->buffer_count; k++)
    for (uint32_t i = 0; i < count; i++)
      if (record_fits(m, k, &rebinds[i])) {
        m->buffers[k] = rebinds[i].to;
        m->offsets[k] = rebinds[i].to_offset;
        break;
      }
}

/* Under the lock. */
static kd_status rebind(struct kd_capture *capture, const kd_rebind *rebinds,
                        uint32_t count) {
  fam_recording *r = of(capture);
  for (uint32_t i = 0; i < count; i++)
    if (!is_used(r, &rebinds[i]))
      return r->driver->host->fail(
          KD_NOT_FOUND, "buffer %u of the update is not recorded", i);
  for (uint32_t i = 0; i < r->count; i++)
    rebind_one(&r->commands[i], rebinds, count);
  if (count) r->driver->recorder->rebound(capture);
  return KD_OK;
}

static kd_status update(struct kd_capture *capture, const kd_rebind *rebinds,
                        uint32_t count) {
  fam_recording *r = of(capture);
  pthread_mutex_lock(&r->lock);
  kd_status status = rebind(capture, rebinds, count);
  pthread_mutex_unlock(&r->lock);
  return status;
}

static kd_status record_launch(struct kd_capture *capture, kd_stream *stream) {
  fam_recording *r = of(capture);
  if (fam_stream_of(stream)->recording)
    return r->driver->host->fail(KD_UNIMPLEMENTED,
                                 "a recording within a recording");
  pthread_mutex_lock(&r->lock);
  kd_status status = r->driver->recorder->launch(capture, stream);
  pthread_mutex_unlock(&r->lock);
  return status;
}

void fam_record_take(struct kd_capture *capture) {
  atomic_fetch_add(&of(capture)->users, 1);
}

void fam_record_drop(struct kd_capture *capture) {
  fam_recording *r = of(capture);
  const fam_driver *driver = r->driver;
  const kd_host *host = driver->host;
  if (atomic_fetch_sub(&r->users, 1) > 1) return;
  driver->recorder->destroy(capture);
  for (uint32_t i = 0; i < r->count; i++)
    if (r->commands[i].kind == FAM_LAUNCH)
      driver->release(r->device, r->commands[i].program);
  if (r->commands) host->release(host, r->commands);
  pthread_mutex_destroy(&r->lock);
  host->release(host, capture);
}

const kd_capture_table fam_captures = {
    .struct_size = sizeof(kd_capture_table),
    .begin = record_begin,
    .end = record_end,
    .launch = record_launch,
    .update = update,
    .destroy = fam_record_drop,
};
