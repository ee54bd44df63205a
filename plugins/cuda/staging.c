/* staging.c - copies of pageable host memory in a stream.
 *
 * The driver copies such memory while the caller waits: out of the device always, into it
 * where there is much. So it goes by way of pinned memory: into the device with a copy on
 * the host first, out of it with one by a function that the stream calls. There is a limit
 * to pinned memory; past it, copies are the driver's. */
#include <string.h>

#include "cudev.h"

#define LEAST ((size_t)64 << 10) /* what the driver takes along with the call */
#define MOST  ((size_t)16 << 20) /* of a copy */
#define LIMIT ((size_t)64 << 20) /* of a device */

typedef struct cuda_stage {
  struct cuda_stage *next; /* of those that are free, or whose copy goes in */
  struct cuda_stage *next_all; /* of the device's */
  kd_device *device;
  void *memory;
  size_t room;
  void *target; /* of a copy out */
  size_t size;
  cu_event event; /* behind a copy in */
} stage;

static void staging_give(stage *s) {
  pthread_mutex_lock(&s->device->stages_lock);
  s->next = s->device->free_stages;
  s->device->free_stages = s;
  pthread_mutex_unlock(&s->device->stages_lock);
}

/* Under the lock: those whose copies have ended are free. */
static void reclaim(kd_device *d) {
  stage **at = &d->busy_stages;
  while (*at) {
    stage *s = *at;
    if (cu.EventQuery(s->event) != CU_OK) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    s->next = d->free_stages;
    d->free_stages = s;
  }
}

/* Under the lock: the smallest that has room; NULL: none has. */
static stage *take_free(kd_device *d, size_t size) {
  stage **best = NULL;
  for (stage **at = &d->free_stages; *at; at = &(*at)->next)
    if ((*at)->room >= size && (!best || (*at)->room < (*best)->room))
      best = at;
  if (!best) return NULL;
  stage *found = *best;
  *best = found->next;
  return found;
}

/* In the context, and without the lock: the driver may wait for all streams before it pins
 * memory, and those may be about to give a stage back. */
static stage *staging_make(kd_device *d, size_t room) {
  stage *s = cuda_host->allocate(cuda_host, sizeof *s, 0);
  if (!s) return NULL;
  *s = (stage){.device = d, .room = room};
  if (cu.EventCreate(&s->event, CU_BLOCKING_SYNC) != CU_OK) {
    cuda_host->release(cuda_host, s);
    return NULL;
  }
  if (cu.MemHostAlloc(&s->memory, room, CU_HOST_PORTABLE) != CU_OK) {
    cu.EventDestroy(s->event);
    cuda_host->release(cuda_host, s);
    return NULL;
  }
  return s;
}

/* One that has room, or a new one, up to the limit; else NULL. */
static stage *staging_take(kd_device *d, size_t size) {
  size_t room = LEAST;
  if (size > MOST) return NULL;
  while (room < size)
    room *= 2;
  pthread_mutex_lock(&d->stages_lock);
  reclaim(d);
  stage *s = take_free(d, size);
  bool makes = !s && d->staged + room <= LIMIT;
  if (makes) d->staged += room;
  pthread_mutex_unlock(&d->stages_lock);
  if (!makes) return s;
  s = staging_make(d, room);
  pthread_mutex_lock(&d->stages_lock);
  if (s) {
    s->next_all = d->stages;
    d->stages = s;
  } else {
    d->staged -= room;
  }
  pthread_mutex_unlock(&d->stages_lock);
  return s;
}

/* On a thread of the driver's. */
static void deliver(void *context) {
  stage *s = context;
  memcpy(s->target, s->memory, s->size);
  staging_give(s);
}

static kd_status staging_copy_in(kd_device *d, cu_stream queue, cu_pointer to,
                                 const void *from, size_t size) {
  stage *s = size > LEAST ? staging_take(d, size) : NULL;
  if (!s) return KD_UNIMPLEMENTED;
  memcpy(s->memory, from, size);
  cu_result code = cu.MemcpyHtoDAsync(to, s->memory, size, queue);
  if (code != CU_OK) {
    staging_give(s);
    return cuda_failed(d, code, "cuMemcpyHtoDAsync");
  }
  code = cu.EventRecord(s->event, queue);
  /* what may still be read is not free, up to the device's end */
  if (code != CU_OK) return cuda_failed(d, code, "cuEventRecord");
  pthread_mutex_lock(&d->stages_lock);
  s->next = d->busy_stages;
  d->busy_stages = s;
  pthread_mutex_unlock(&d->stages_lock);
  return KD_OK;
}

static kd_status staging_copy_out(kd_device *d, cu_stream queue, void *to,
                                  cu_pointer from, size_t size) {
  stage *s = staging_take(d, size);
  if (!s) return KD_UNIMPLEMENTED;
  s->target = to;
  s->size = size;
  cu_result code = cu.MemcpyDtoHAsync(s->memory, from, size, queue);
  if (code != CU_OK) {
    staging_give(s);
    return cuda_failed(d, code, "cuMemcpyDtoHAsync");
  }
  code = cu.LaunchHostFunc(queue, deliver, s); /* `s` may be another's now */
  return code == CU_OK ? KD_OK : cuda_failed(d, code, "cuLaunchHostFunc");
}

kd_status cuda_stage_copy(kd_device *d, cu_stream queue, const fam_command *m) {
  cu_pointer there = cuda_place_of(m, 0);
  if (m->kind == FAM_COPY_IN)
    return staging_copy_in(d, queue, there, m->source, (size_t)m->size);
  return m->kind == FAM_COPY_OUT
             ? staging_copy_out(d, queue, m->target, there, (size_t)m->size)
             : KD_UNIMPLEMENTED;
}

void cuda_stages_begin(kd_device *d) {
  pthread_mutex_init(&d->stages_lock, NULL);
}

void cuda_stages_end(kd_device *d) {
  while (d->stages) {
    stage *s = d->stages;
    d->stages = s->next_all;
    cu.EventDestroy(s->event);
    cu.MemFreeHost(s->memory);
    cuda_host->release(cuda_host, s);
  }
  pthread_mutex_destroy(&d->stages_lock);
}
