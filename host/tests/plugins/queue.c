/* queue.c - a simulated accelerator: memory without addresses, and a queue that
 * a thread works through late.
 *
 * A stream is a thread with a list of jobs; each job waits a moment first, so
 * that whoever forgets to wait is found out. Buffers are handles: their
 * contents lie behind a pointer that is handed to nobody. With QUEUE_TELLS it calls
 * back when an event's work is done, records, and copies and fills in its own memory;
 * without, the host has to wait, and to copy. With QUEUE_SHARED the host may map its memory:
 * it is shown a copy, and nothing may change the memory meanwhile. With queue_ring it is full soon. Mul by
 * 13 fails, late; Mul by 7 waits until the test opens queue_gate. */
#include <kd/kd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "single.h"

static const kd_host *host;
static atomic_int live_buffers, live_streams, live_events, live_captures;

struct kd_buffer {
  char *bytes;
  uint64_t size;
  _Atomic(char *) shown; /* while it is mapped */
};

/* Closed: 1. The test's, through dlsym. */
__attribute__((visibility("default"))) atomic_int queue_gate;
/* Callbacks that wait for their event. */
__attribute__((visibility("default"))) atomic_int queue_pending;
/* Launches and updates of recordings; and whether those can be put to other memory: 1. */
__attribute__((visibility("default"))) atomic_int queue_launches;
__attribute__((visibility("default"))) atomic_int queue_updates;
__attribute__((visibility("default"))) atomic_int queue_rebinds = 1;
/* How many jobs a stream takes before it says KD_BUSY, 0: any, -1: none; from the environment
 * as QUEUE_RING. And how often it said so. */
__attribute__((visibility("default"))) atomic_int queue_ring;
__attribute__((visibility("default"))) atomic_int queue_refused;
/* Copies and fills in its own memory. */
__attribute__((visibility("default"))) atomic_int queue_copies, queue_fills;
/* Buffers that are mapped now. */
__attribute__((visibility("default"))) atomic_int queue_mapped;
/* Whether each job waits a moment first. */
__attribute__((visibility("default"))) atomic_int queue_late = 1;
/* What an Add is said to take, nanoseconds; 0: nothing is said. */
__attribute__((visibility("default"))) atomic_int queue_cost;

/* What a stream does between two tickets: from the last synchronize before it was
 * recorded. */
struct kd_event {
  kd_stream *stream;
  uint64_t since, ticket;
};

typedef struct job {
  struct job *next;
  kd_status (*run)(struct job *job);
  uint64_t ticket;
  kd_buffer *buffers[3];
  uint64_t offsets[3];
  int64_t count;
  const void *source;
  void *target;
  uint64_t size;
  char pattern[16]; /* of a fill, pattern_size bytes */
  uint32_t pattern_size;
  int op;
  kd_event event; /* to wait for */
} job;

typedef struct after {
  struct after *next;
  kd_event event;
  kd_event_callback call;
  void *context;
} after;

struct kd_stream {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  job *first, *last;
  after *afters;
  uint64_t issued, done;
  uint64_t synced; /* all before it has been told by a synchronize */
  uint64_t *bad;   /* work that failed, all of it */
  size_t bad_count;
  int stop;
  kd_capture *recording; /* what is enqueued goes there */
};

struct kd_capture {
  job *first, **end;
  kd_stream *stream; /* of its last launch, which ends with this ticket */
  uint64_t ticket;
};

static int the_device;

/* With the lock held: of the work up to a ticket. */
static kd_status status_of(const kd_stream *stream, uint64_t since,
                           uint64_t ticket) {
  for (size_t i = 0; i < stream->bad_count; i++)
    if (stream->bad[i] > since && stream->bad[i] <= ticket) return KD_INTERNAL;
  return KD_OK;
}

/* With the lock held. */
static void note_failure(kd_stream *stream, uint64_t ticket) {
  uint64_t *bad =
      realloc(stream->bad, (stream->bad_count + 1) * sizeof *stream->bad);
  if (!bad) abort(); /* it would be forgotten */
  bad[stream->bad_count++] = ticket;
  stream->bad = bad;
}

/* With the lock held: calls those whose work is done, without it. */
static void call_back(kd_stream *stream) {
  for (after **at = &stream->afters; *at;) {
    after *due = *at;
    if (due->event.ticket > stream->done) {
      at = &due->next;
      continue;
    }
    *at = due->next;
    queue_pending--;
    kd_status status = status_of(stream, due->event.since, due->event.ticket);
    pthread_mutex_unlock(&stream->lock);
    due->call(due->context, status,
              status == KD_OK ? "" : "queue: can't multiply by 13, it calls");
    free(due);
    pthread_mutex_lock(&stream->lock);
    at = &stream->afters;
  }
}

static void *work(void *argument) {
  kd_stream *stream = argument;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    while (!stream->first && !stream->stop)
      pthread_cond_wait(&stream->changed, &stream->lock);
    job *next = stream->first;
    if (!next) break;
    stream->first = next->next;
    if (!stream->first) stream->last = NULL;
    pthread_mutex_unlock(&stream->lock);
    if (queue_late) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    kd_status status = next->run(next);
    pthread_mutex_lock(&stream->lock);
    stream->done = next->ticket;
    if (status) note_failure(stream, next->ticket);
    call_back(stream);
    pthread_cond_broadcast(&stream->changed);
    free(next);
  }
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

static kd_status push_always(kd_stream *stream, const job *what) {
  job *copy = malloc(sizeof *copy);
  if (!copy) return host->fail(KD_OUT_OF_MEMORY, "queue: no memory for a job");
  *copy = *what;
  copy->next = NULL;
  if (stream->recording) {
    *stream->recording->end = copy;
    stream->recording->end = &copy->next;
    return KD_OK;
  }
  pthread_mutex_lock(&stream->lock);
  copy->ticket = ++stream->issued;
  if (stream->last)
    stream->last->next = copy;
  else
    stream->first = copy;
  stream->last = copy;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  return KD_OK;
}

static kd_status take_room(kd_stream *stream) {
  int ring = queue_ring;
  if (!ring || stream->recording) return KD_OK;
  pthread_mutex_lock(&stream->lock);
  uint64_t jobs = stream->issued - stream->done;
  pthread_mutex_unlock(&stream->lock);
  if (ring > 0 && jobs < (uint64_t)ring) return KD_OK;
  queue_refused++;
  return host->fail(KD_BUSY, "queue: %llu jobs are under way",
                    (unsigned long long)jobs);
}

static kd_status push(kd_stream *stream, const job *what) {
  kd_status status = take_room(stream);
  return status ? status : push_always(stream, what);
}

/* ---- streams and events ------------------------------------------------------- */

static kd_status stream_create(kd_device *device, int32_t priority,
                               uint32_t flags, kd_stream **out_stream) {
  (void)device;
  (void)priority;
  if (flags) return host->fail(KD_UNIMPLEMENTED, "unknown stream flags");
  kd_stream *stream = calloc(1, sizeof *stream);
  if (!stream)
    return host->fail(KD_OUT_OF_MEMORY, "queue: no memory for a stream");
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  pthread_create(&stream->thread, NULL, work, stream);
  live_streams++;
  *out_stream = stream;
  return KD_OK;
}

static void stream_destroy(kd_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  stream->stop = 1;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  pthread_join(stream->thread, NULL);
  pthread_mutex_destroy(&stream->lock);
  pthread_cond_destroy(&stream->changed);
  free(stream->bad);
  free(stream);
  live_streams--;
}

static kd_status await(const kd_event *event) {
  kd_stream *stream = event->stream;
  pthread_mutex_lock(&stream->lock);
  while (stream->done < event->ticket)
    pthread_cond_wait(&stream->changed, &stream->lock);
  kd_status status = status_of(stream, event->since, event->ticket);
  pthread_mutex_unlock(&stream->lock);
  return status;
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  (void)timeout;
  return event->stream ? await(event) : KD_OK;
}

static kd_status run_wait(job *job) {
  return await(&job->event);
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  if (!event->stream) return KD_OK;
  return push(stream, &(job){.run = run_wait, .event = *event});
}

static kd_status stream_synchronize(kd_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  while (stream->done < stream->issued)
    pthread_cond_wait(&stream->changed, &stream->lock);
  kd_status status = status_of(stream, stream->synced, stream->done);
  stream->synced = stream->done;
  pthread_mutex_unlock(&stream->lock);
  return status ? host->fail(status, "queue: can't multiply by 13") : KD_OK;
}

static kd_status event_create(kd_device *device, uint32_t flags,
                              kd_event **out_event) {
  (void)device;
  (void)flags;
  *out_event = calloc(1, sizeof **out_event);
  live_events += *out_event != NULL;
  return *out_event ? KD_OK : KD_OUT_OF_MEMORY;
}

static void event_destroy(kd_event *event) {
  live_events--;
  free(event);
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  kd_status status = take_room(stream);
  if (status) return status;
  pthread_mutex_lock(&stream->lock);
  event->stream = stream;
  event->since = stream->synced;
  event->ticket = stream->issued;
  pthread_mutex_unlock(&stream->lock);
  return KD_OK;
}

static kd_status event_query(kd_event *event) {
  pthread_mutex_lock(&event->stream->lock);
  int done = event->stream->done >= event->ticket;
  pthread_mutex_unlock(&event->stream->lock);
  return done ? KD_OK : KD_BUSY;
}

static kd_status event_on_complete(kd_event *event, kd_event_callback callback,
                                   void *context) {
  kd_stream *stream = event->stream;
  after *made = malloc(sizeof *made);
  if (!made)
    return host->fail(KD_OUT_OF_MEMORY, "queue: no memory to call back");
  pthread_mutex_lock(&stream->lock);
  *made = (after){stream->afters, *event, callback, context};
  stream->afters = made;
  queue_pending++;
  call_back(stream);
  pthread_mutex_unlock(&stream->lock);
  return KD_OK;
}

/* ---- recordings ---------------------------------------------------------------- */

static void capture_destroy(kd_capture *capture) {
  kd_stream *stream = capture->stream;
  if (stream) {
    pthread_mutex_lock(&stream->lock);
    if (stream->done < capture->ticket)
      host->log(host, KD_LOG_ERROR, "a recording is destroyed while it runs");
    pthread_mutex_unlock(&stream->lock);
  }
  for (job *next; capture->first; capture->first = next) {
    next = capture->first->next;
    free(capture->first);
  }
  free(capture);
  live_captures--;
}

static kd_status capture_begin(kd_stream *stream, uint32_t flags) {
  if (flags) return host->fail(KD_UNIMPLEMENTED, "queue: flags");
  if (stream->recording)
    return host->fail(KD_FAILED_PRECONDITION, "queue: it records");
  kd_capture *capture = calloc(1, sizeof *capture);
  if (!capture) return host->fail(KD_OUT_OF_MEMORY, "queue: no memory");
  capture->end = &capture->first;
  stream->recording = capture;
  live_captures++;
  return KD_OK;
}

static kd_status capture_end(kd_stream *stream, kd_capture **out_capture) {
  if (!stream->recording)
    return host->fail(KD_FAILED_PRECONDITION, "queue: it does not record");
  *out_capture = stream->recording;
  stream->recording = NULL;
  return KD_OK;
}

static kd_status capture_launch(kd_capture *capture, kd_stream *stream) {
  kd_status status = take_room(stream);
  if (status) return status;
  queue_launches++;
  for (const job *at = capture->first; at; at = at->next) {
    status = push_always(stream, at);
    if (status) return status;
  }
  pthread_mutex_lock(&stream->lock);
  capture->stream = stream;
  capture->ticket = stream->issued;
  pthread_mutex_unlock(&stream->lock);
  return KD_OK;
}

static kd_status capture_update(kd_capture *capture, const kd_rebind *rebinds,
                                uint32_t count) {
  if (!queue_rebinds) return KD_UNIMPLEMENTED;
  queue_updates++;
  for (job *at = capture->first; at; at = at->next)
    for (int k = 0; k < 3; k++)
      for (uint32_t i = 0; i < count; i++)
        if (at->buffers[k] == rebinds[i].from &&
            at->offsets[k] == rebinds[i].from_offset) {
          at->buffers[k] = rebinds[i].to;
          at->offsets[k] = rebinds[i].to_offset;
          break;
        }
  return KD_OK;
}

/* ---- memory -------------------------------------------------------------------- */

static kd_status allocate(kd_device *device, const kd_allocation *wanted,
                          kd_buffer **out_buffer, void **out_address) {
  uint64_t size = wanted->size;
  (void)device;
  kd_buffer *buffer = calloc(1, sizeof *buffer);
  if (buffer) buffer->bytes = malloc(size);
  if (!buffer || !buffer->bytes) {
    free(buffer);
    return host->fail(KD_OUT_OF_MEMORY, "queue: no memory");
  }
  memset(buffer->bytes, 0xee, size);
  buffer->size = size;
  live_buffers++;
  *out_buffer = buffer;
  *out_address = NULL; /* this device has no addresses */
  return KD_OK;
}

/* What the host promises of a buffer that is mapped: it is not written, nor released. */
static void need_unmapped(const kd_buffer *buffer) {
  if (buffer->shown) abort();
}

static void release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  need_unmapped(buffer);
  live_buffers--;
  free(buffer->bytes);
  free(buffer);
}

static kd_status run_copy(job *job) {
  char *device = job->buffers[0]->bytes + job->offsets[0];
  if (!job->target) need_unmapped(job->buffers[job->buffers[1] ? 1 : 0]);
  for (uint64_t i = 0; job->pattern_size && i < job->size; i++)
    device[i] = job->pattern[i % job->pattern_size];
  if (job->pattern_size) return KD_OK;
  if (job->buffers[1])
    memcpy(job->buffers[1]->bytes + job->offsets[1], device, job->size);
  else if (job->source)
    memcpy(device, job->source, job->size);
  else
    memcpy(job->target, device, job->size);
  return KD_OK;
}

static kd_status copy(kd_stream *stream, job *what) {
  return stream ? push(stream, what) : run_copy(what);
}

static kd_status copy_in(kd_device *device, kd_stream *stream,
                         const void *source, kd_buffer *target, uint64_t offset,
                         uint64_t size) {
  (void)device;
  return copy(stream, &(job){.run = run_copy,
                             .buffers = {target},
                             .offsets = {offset},
                             .source = source,
                             .size = size});
}

static kd_status copy_out(kd_device *device, kd_stream *stream,
                          kd_buffer *source, uint64_t offset, void *target,
                          uint64_t size) {
  (void)device;
  return copy(stream, &(job){.run = run_copy,
                             .buffers = {source},
                             .offsets = {offset},
                             .target = target,
                             .size = size});
}

static kd_status copy_inside(kd_device *device, kd_stream *stream,
                             kd_buffer *source, uint64_t source_offset,
                             kd_buffer *target, uint64_t target_offset,
                             uint64_t size) {
  (void)device;
  queue_copies++;
  return copy(stream, &(job){.run = run_copy,
                             .buffers = {source, target},
                             .offsets = {source_offset, target_offset},
                             .size = size});
}

static kd_status fill(kd_device *device, kd_stream *stream, kd_buffer *target,
                      uint64_t offset, uint64_t size, const void *pattern,
                      uint32_t pattern_size) {
  job what = {.run = run_copy,
              .buffers = {target},
              .offsets = {offset},
              .size = size,
              .pattern_size = pattern_size};
  (void)device;
  queue_fills++;
  memcpy(what.pattern, pattern, pattern_size);
  return copy(stream, &what);
}

static kd_status map(kd_device *device, kd_buffer *buffer, uint64_t offset,
                     uint64_t size, uint32_t access, void **out_address) {
  (void)device;
  if (access != KD_READ)
    return host->fail(KD_UNIMPLEMENTED, "queue shows its memory to readers");
  char *shown = malloc(size);
  if (!shown) return host->fail(KD_OUT_OF_MEMORY, "queue: no memory");
  need_unmapped(buffer);
  memcpy(shown, buffer->bytes + offset, size);
  buffer->shown = shown;
  queue_mapped++;
  *out_address = shown;
  return KD_OK;
}

static void unmap(kd_device *device, kd_buffer *buffer) {
  (void)device;
  free(atomic_exchange(&buffer->shown, NULL));
  queue_mapped--;
}

/* ---- ops: Relu, Add of equal shapes, Mul by a scalar; Min, which is not recorded ------------ */

static kd_status run_op(job *job) {
  const float *x =
      (const float *)(void *)(job->buffers[0]->bytes + job->offsets[0]);
  const float *y =
      (const float *)(void *)(job->buffers[1]->bytes + job->offsets[1]);
  float *z = (float *)(void *)(job->buffers[2]->bytes + job->offsets[2]);
  need_unmapped(job->buffers[2]);
  if (job->op == 2 && y[0] == 13) return KD_INTERNAL;
  while (job->op == 2 && y[0] == 7 && queue_gate)
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
  for (int64_t i = 0; i < job->count; i++)
    z[i] = job->op == 0   ? (x[i] > 0 ? x[i] : 0)
           : job->op == 1 ? x[i] + y[i]
           : job->op == 3 ? (y[i] < x[i] ? y[i] : x[i])
                          : x[i] * y[0];
  return KD_OK;
}

static kd_status enqueue(kd_kernel *self, kd_stream *stream,
                         const kd_launch *launch) {
  (void)self;
  const kd_tensor *x = &launch->inputs[0], *z = &launch->outputs[0];
  const kd_tensor *y = launch->input_count > 1 ? &launch->inputs[1] : x;
  if (!stream)
    return host->fail(KD_FAILED_PRECONDITION, "queue needs a stream");
  if (!x->buffer || !y->buffer || !z->buffer || x->data || z->data)
    return host->fail(KD_INVALID_ARGUMENT, "queue was handed host memory");
  return push(stream, &(job){.run = run_op,
                             .buffers = {x->buffer, y->buffer, z->buffer},
                             .offsets = {x->offset, y->offset, z->offset},
                             .count = kd_elements(z),
                             .op = (int)(intptr_t)launch->data});
}

static kd_status equal_shapes(kd_device *device, const kd_node *node) {
  (void)device;
  kd_type a, b;
  host->node->input_type(node, 0, &a);
  host->node->input_type(node, 1, &b);
  for (uint32_t i = 0; a.rank == b.rank && i < a.rank; i++)
    if (a.dims[i] != b.dims[i]) a.rank = b.rank + 1;
  return a.rank == b.rank
             ? KD_OK
             : host->fail(KD_UNIMPLEMENTED, "queue does not broadcast");
}

static kd_status by_scalar(kd_device *device, const kd_node *node) {
  (void)device;
  kd_type b;
  host->node->input_type(node, 1, &b);
  return b.rank == 0
             ? KD_OK
             : host->fail(KD_UNIMPLEMENTED, "queue multiplies by scalars only");
}

static kd_status cost(kd_device *device, const kd_node *node,
                      kd_cost *out_cost) {
  (void)device;
  (void)node;
  out_cost->time = (uint64_t)queue_cost;
  return KD_OK;
}

static const kd_kernel_def kernels[] = {
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_ANY_SHAPE,
     .op = "Relu",
     .input_types = {KD_TYPES(KD_F32)},
     .enqueue = enqueue},
    {.struct_size = sizeof(kd_kernel_def),
     .op = "Add",
     .input_types = {KD_TYPES(KD_F32)},
     .data = (const void *)1,
     .supports = equal_shapes,
     .cost = cost,
     .enqueue = enqueue},
    {.struct_size = sizeof(kd_kernel_def),
     .op = "Mul",
     .input_types = {KD_TYPES(KD_F32)},
     .data = (const void *)2,
     .supports = by_scalar,
     .enqueue = enqueue},
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_NO_CAPTURE,
     .op = "Min",
     .input_types = {KD_TYPES(KD_F32)},
     .data = (const void *)3,
     .supports = equal_shapes,
     .enqueue = enqueue},
};

/* ---- the plugin ------------------------------------------------------------------- */

static kd_status start(const kd_host *services) {
  const char *ring = getenv("QUEUE_RING");
  host = services;
  queue_ring = ring ? (int)strtol(ring, NULL, 10) : 0;
  return KD_OK;
}

static kd_status plugin_open(const kd_host *services,
                             kd_instance **out_instance) {
  return single_open(services, start, out_instance);
}

static void plugin_close(kd_instance *instance) {
  (void)instance;
  if (live_buffers || live_streams || live_events || live_captures)
    host->log(host, KD_LOG_ERROR,
              "left over: %d buffers, %d streams, %d events, %d recordings",
              live_buffers, live_streams, live_events, live_captures);
  single_close();
}

static uint32_t device_count(kd_instance *instance) {
  (void)instance;
  return 1;
}

static kd_status device_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  (void)instance;
  (void)index;
  out_info->flags = KD_DEVICE_SOFTWARE;
  out_info->name = "Simulated queue";
  out_info->kind = "npu";
  memcpy(out_info->uuid, "simulated queue", sizeof out_info->uuid);
  out_info->space_count = 1;
  return KD_OK;
}

static kd_status space(kd_instance *instance, uint32_t device, uint32_t index,
                       kd_space *out_space) {
  (void)instance;
  (void)device;
  (void)index;
  out_space->flags =
      KD_SPACE_DEVICE |
      (QUEUE_SHARED ? KD_SPACE_HOST_VISIBLE | KD_SPACE_CACHED : 0u);
  return KD_OK;
}

static kd_status device_open(kd_instance *instance, uint32_t index,
                             kd_device **out_device) {
  (void)instance;
  (void)index;
  *out_device = (kd_device *)&the_device;
  return KD_OK;
}

static void device_close(kd_device *device) {
  (void)device;
}

static const kd_memory_table memory = {
    .struct_size = sizeof memory,
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = QUEUE_TELLS ? copy_inside : NULL,
    .fill = QUEUE_TELLS ? fill : NULL,
    .map = QUEUE_SHARED ? map : NULL,
    .unmap = QUEUE_SHARED ? unmap : NULL,
};
static const kd_stream_table streams = {
    .struct_size = sizeof streams,
    .create = stream_create,
    .destroy = stream_destroy,
    .wait = stream_wait,
    .synchronize = QUEUE_TELLS ? stream_synchronize : NULL,
};
static const kd_event_table events = {
    .struct_size = sizeof events,
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .wait = event_wait,
    .on_complete = QUEUE_TELLS ? event_on_complete : NULL,
};

static const kd_capture_table captures = {
    .struct_size = sizeof captures,
    .begin = capture_begin,
    .end = capture_end,
    .launch = capture_launch,
    .update = capture_update,
    .destroy = capture_destroy,
};

static const kd_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_version = KD_ABI_VERSION,
    .opset = KD_OPSET,
    .name = QUEUE_NAME,
    .vendor = "Keel's tests",
    .version = "1",
    .open = plugin_open,
    .close = plugin_close,
    .device_count = device_count,
    .device_info = device_info,
    .space = space,
    .device_open = device_open,
    .device_close = device_close,
    .memory = &memory,
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
    .streams = &streams,
    .events = &events,
    .capture = QUEUE_TELLS ? &captures : NULL,
};

KD_ENTRY(plugin)
