/* late.c - a device that works on host addresses, late: nothing runs before somebody waits
 * for it.
 *
 * Its memory begins at multiples of 256, and Relu, its one kernel, refuses any other. */
#define DEVICE_NAME   "Late"
#define DEVICE_FLAGS  (KD_DEVICE_SOFTWARE | KD_DEVICE_HOST_ADDRESSABLE)
#define DEVICE_SPACES 1
#define DEVICE_MEMORY late_memory
#include <pthread.h>

#include "inline.h"

#define ALIGNMENT 256u

typedef struct job {
  struct job *next;
  const float *x;
  float *y;
  int64_t count;
} job;

struct kd_stream {
  job *first, **end;
};

struct kd_event {
  kd_stream *stream; /* waiting for an event waits for all of its stream */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all streams */
/* Where the kernel's last input was; the test's, through dlsym. */
__attribute__((visibility("default"))) const void *late_input;

static void work_off(kd_stream *stream) {
  pthread_mutex_lock(&lock);
  for (job *at; (at = stream->first); free(at)) {
    stream->first = at->next;
    for (int64_t i = 0; i < at->count; i++)
      at->y[i] = at->x[i] > 0 ? at->x[i] : 0;
  }
  stream->end = &stream->first;
  pthread_mutex_unlock(&lock);
}

/* ---- streams and events --------------------------------------------------------- */

static kd_status stream_create(kd_device *device, int32_t priority,
                               uint32_t flags, kd_stream **out_stream) {
  (void)device;
  (void)priority;
  (void)flags;
  kd_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return host->fail(KD_OUT_OF_MEMORY, "late: no memory");
  stream->end = &stream->first;
  *out_stream = stream;
  return KD_OK;
}

static void stream_destroy(kd_stream *stream) {
  work_off(stream);
  free(stream);
}

static kd_status event_create(kd_device *device, uint32_t flags,
                              kd_event **out_event) {
  (void)device;
  (void)flags;
  *out_event = calloc(1, sizeof **out_event);
  return *out_event ? KD_OK : KD_OUT_OF_MEMORY;
}

static void event_destroy(kd_event *event) {
  free(event);
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  event->stream = stream;
  return KD_OK;
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  (void)timeout;
  if (event->stream) work_off(event->stream);
  return KD_OK;
}

static kd_status event_query(kd_event *event) {
  return event_wait(event, 0);
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  (void)stream;
  return event_wait(event, 0);
}

/* ---- memory ------------------------------------------------------------------------ */

static kd_status late_allocate(kd_device *device, const kd_allocation *wanted,
                               kd_buffer **out_buffer, void **out_address) {
  uint64_t size = wanted->size;
  (void)device;
  *out_address =
      aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  if (!*out_address) return host->fail(KD_OUT_OF_MEMORY, "late: no memory");
  memset(*out_address, 0xee, size);
  *out_buffer = *out_address;
  return KD_OK;
}

static kd_status late_copy_in(kd_device *device, kd_stream *stream,
                              const void *source, kd_buffer *target,
                              uint64_t offset, uint64_t size) {
  (void)device;
  if (stream) work_off(stream);
  memcpy((char *)target + offset, source, size);
  return KD_OK;
}

static kd_status late_copy_out(kd_device *device, kd_stream *stream,
                               kd_buffer *source, uint64_t offset, void *target,
                               uint64_t size) {
  (void)device;
  if (stream) work_off(stream);
  memcpy(target, (char *)source + offset, size);
  return KD_OK;
}

/* ---- Relu -------------------------------------------------------------------------- */

static kd_status relu(kd_kernel *self, kd_stream *stream,
                      const kd_launch *launch) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  (void)self;
  if ((uintptr_t)x->data % ALIGNMENT || (uintptr_t)y->data % ALIGNMENT)
    return host->fail(KD_INVALID_ARGUMENT, "late: it is not aligned to %u",
                      ALIGNMENT);
  job *made = malloc(sizeof *made);
  if (!made) return host->fail(KD_OUT_OF_MEMORY, "late: no memory");
  *made = (job){.x = x->data, .y = y->data, .count = kd_elements(y)};
  pthread_mutex_lock(&lock);
  late_input = x->data;
  *stream->end = made;
  stream->end = &made->next;
  pthread_mutex_unlock(&lock);
  return KD_OK;
}

static const kd_kernel_def kernels[] = {
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_ANY_SHAPE,
     .op = "Relu",
     .input_types = {KD_TYPES(KD_F32)},
     .enqueue = relu},
};

/* ---- the plugin ---------------------------------------------------------------------- */

static kd_status space(kd_instance *instance, uint32_t device, uint32_t index,
                       kd_space *out_space) {
  (void)instance;
  (void)device;
  (void)index;
  out_space->alignment = ALIGNMENT;
  return KD_OK;
}

static const kd_memory_table late_memory = {
    .struct_size = sizeof late_memory,
    .allocate = late_allocate,
    .release = release,
    .copy_in = late_copy_in,
    .copy_out = late_copy_out,
};
static const kd_stream_table streams = {
    .struct_size = sizeof streams,
    .create = stream_create,
    .destroy = stream_destroy,
    .wait = stream_wait,
};
static const kd_event_table events = {
    .struct_size = sizeof events,
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .wait = event_wait,
};

static const kd_plugin plugin = {
    INLINE_PLUGIN,
    .name = "late",
    .space = space,
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .streams = &streams,
    .events = &events,
};

KD_ENTRY(plugin)
