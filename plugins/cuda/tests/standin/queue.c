/* queue.c - streams of the stand-in: a thread each, that does jobs in their order; events;
 * capture, and graphs. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "standin.h"

struct cu_stream_of {
  pthread_t thread;
  context *of;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  job *first, **end;
  bool busy, stop;
  job_list *recording; /* NULL: it runs */
};

/* `turn` counts records; `done` those that were reached. Whoever waits for a record waits
 * for its turn. It is freed when nobody waits for it any more. */
struct cu_event_of {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t turn, done;
  uint64_t time; /* nanoseconds, when `done` was reached */
  uint32_t users;
};

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static cu_result state_of(const context *of) {
  return __atomic_load_n(&of->broken, __ATOMIC_ACQUIRE);
}

/* ---- jobs ---------------------------------------------------------------------------- */

job *standin_job(int kind) {
  job *j = calloc(1, sizeof *j);
  if (!j) abort();
  j->kind = kind;
  return j;
}

static void release_event(cu_event event) {
  pthread_mutex_lock(&event->lock);
  uint32_t users = --event->users;
  pthread_mutex_unlock(&event->lock);
  if (users) return;
  pthread_mutex_destroy(&event->lock);
  pthread_cond_destroy(&event->changed);
  free(event);
}

static void free_list(job_list *list);

static void free_job(job *j) {
  if (j->event) release_event(j->event);
  if (j->graph) free_list(j->graph);
  free(j->arguments);
  free(j);
}

static void free_list(job_list *list) {
  if (atomic_fetch_sub(&list->users, 1) > 1) return;
  for (job *j = list->first, *next; j; j = next) {
    next = j->next;
    free_job(j);
  }
  free(list);
}

static job_list *make_list(void) {
  job_list *list = calloc(1, sizeof *list);
  if (!list) abort();
  list->users = 1;
  list->end = &list->first;
  return list;
}

static void launch(const job *j) {
  void *arguments[32];
  uint32_t count = 0, at = 0;
  for (; j->function->sizes[count]; count++) {
    arguments[count] = j->arguments + at;
    at += (j->function->sizes[count] + 15) / 16 * 16;
  }
  j->function->run(j->groups, j->group, arguments);
}

static void set(const job *j) {
  char *at = j->to;
  for (size_t i = 0; i < j->count; i++)
    memcpy(at + i * j->pitch, &j->pattern, j->width);
}

static void reach(const job *j) {
  cu_event event = j->event;
  pthread_mutex_lock(&event->lock);
  if (j->turn > event->done) {
    event->done = j->turn;
    event->time = now();
  }
  pthread_cond_broadcast(&event->changed);
  pthread_mutex_unlock(&event->lock);
}

static void wait_for(const context *of, const job *j) {
  cu_event event = j->event;
  pthread_mutex_lock(&event->lock);
  while (event->done < j->turn && state_of(of) == CU_OK) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += 10000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&event->changed, &event->lock, &end);
  }
  pthread_mutex_unlock(&event->lock);
}

/* A broken context's jobs do nothing: no kernel, no host function, no event. */
static void do_job(context *of, const job *j) {
  if (j->kind == JOB_LAUNCH && state_of(of) == CU_OK) standin_count_launch(of);
  if (state_of(of) != CU_OK && j->kind != JOB_FREE) return;
  switch (j->kind) {
    case JOB_LAUNCH:
      launch(j);
      break;
    case JOB_COPY:
      standin_slow_copy(j->size);
      memcpy(j->to, j->from, j->size);
      break;
    case JOB_SET:
      set(j);
      break;
    case JOB_HOST:
    case JOB_FREE:
      j->call(j->context);
      break;
    case JOB_RECORD:
      reach(j);
      break;
    case JOB_WAIT:
      wait_for(of, j);
      break;
    case JOB_GRAPH:
      for (const job *at = j->graph->first; at; at = at->next)
        do_job(of, at);
      break;
  }
}

/* ---- streams ------------------------------------------------------------------------- */

static void *work(void *argument) {
  cu_stream stream = argument;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    while (!stream->first && !stream->stop)
      pthread_cond_wait(&stream->changed, &stream->lock);
    job *j = stream->first;
    if (!j) break;
    stream->first = j->next;
    if (!stream->first) stream->end = &stream->first;
    stream->busy = true;
    pthread_mutex_unlock(&stream->lock);
    do_job(stream->of, j);
    free_job(j);
    pthread_mutex_lock(&stream->lock);
    stream->busy = false;
    pthread_cond_broadcast(&stream->changed);
  }
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

API cu_result cuStreamCreateWithPriority(cu_stream *out, unsigned flags,
                                         int priority) {
  (void)priority;
  ENTER("cuStreamCreateWithPriority");
  if (flags != CU_NON_BLOCKING) return CU_INVALID_VALUE;
  cu_stream stream = calloc(1, sizeof *stream);
  if (!stream) return CU_OUT_OF_MEMORY;
  stream->of = here;
  stream->end = &stream->first;
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  if (pthread_create(&stream->thread, NULL, work, stream) != 0) {
    free(stream);
    return CU_OUT_OF_MEMORY;
  }
  *out = stream;
  return CU_OK;
}

/* As the driver's: what is enqueued is still done. */
API cu_result cuStreamDestroy_v2(cu_stream stream) {
  if (!stream) return CU_INVALID_VALUE;
  pthread_mutex_lock(&stream->lock);
  stream->stop = true;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  pthread_join(stream->thread, NULL);
  pthread_mutex_destroy(&stream->lock);
  pthread_cond_destroy(&stream->changed);
  free(stream);
  return CU_OK;
}

bool standin_records(cu_stream stream) {
  pthread_mutex_lock(&stream->lock);
  bool records = stream->recording != NULL;
  pthread_mutex_unlock(&stream->lock);
  return records;
}

/* Behind what the stream has, or what it records. Takes the job. */
cu_result standin_push(cu_stream stream, job *j) {
  pthread_mutex_lock(&stream->lock);
  if (stream->recording) {
    *stream->recording->end = j;
    stream->recording->end = &j->next;
  } else {
    *stream->end = j;
    stream->end = &j->next;
    pthread_cond_broadcast(&stream->changed);
  }
  pthread_mutex_unlock(&stream->lock);
  return CU_OK;
}

API cu_result cuStreamGetCtx(cu_stream stream, cu_context *out) {
  ENTER("cuStreamGetCtx");
  *out = stream->of;
  return CU_OK;
}

API cu_result cuStreamSynchronize(cu_stream stream) {
  ENTER("cuStreamSynchronize");
  pthread_mutex_lock(&stream->lock);
  while (stream->first || stream->busy)
    pthread_cond_wait(&stream->changed, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
  return state_of(here);
}

API cu_result cuStreamQuery(cu_stream stream) {
  ENTER("cuStreamQuery");
  pthread_mutex_lock(&stream->lock);
  bool busy = stream->first || stream->busy;
  pthread_mutex_unlock(&stream->lock);
  return busy ? CU_NOT_READY : CU_OK;
}

API cu_result cuLaunchHostFunc(cu_stream stream, cu_host_function call,
                               void *argument) {
  ENTER("cuLaunchHostFunc");
  job *j = standin_job(JOB_HOST);
  j->call = call;
  j->context = argument;
  return standin_push(stream, j);
}

/* ---- events ---------------------------------------------------------------------------- */

API cu_result cuEventCreate(cu_event *out, unsigned flags) {
  (void)flags;
  ENTER("cuEventCreate");
  cu_event event = calloc(1, sizeof *event);
  if (!event) return CU_OUT_OF_MEMORY;
  event->users = 1;
  pthread_mutex_init(&event->lock, NULL);
  pthread_cond_init(&event->changed, NULL);
  *out = event;
  return CU_OK;
}

API cu_result cuEventDestroy_v2(cu_event event) {
  release_event(event);
  return CU_OK;
}

static job *job_of_event(int kind, cu_event event) {
  job *j = standin_job(kind);
  pthread_mutex_lock(&event->lock);
  if (kind == JOB_RECORD) event->turn++;
  j->turn = event->turn;
  event->users++;
  pthread_mutex_unlock(&event->lock);
  j->event = event;
  return j;
}

API cu_result cuEventRecord(cu_event event, cu_stream stream) {
  ENTER("cuEventRecord");
  return standin_push(stream, job_of_event(JOB_RECORD, event));
}

API cu_result cuStreamWaitEvent(cu_stream stream, cu_event event,
                                unsigned flags) {
  (void)flags;
  ENTER("cuStreamWaitEvent");
  return standin_push(stream, job_of_event(JOB_WAIT, event));
}

API cu_result cuEventQuery(cu_event event) {
  ENTER("cuEventQuery");
  pthread_mutex_lock(&event->lock);
  bool done = event->done >= event->turn;
  pthread_mutex_unlock(&event->lock);
  return done ? CU_OK : CU_NOT_READY;
}

API cu_result cuEventSynchronize(cu_event event) {
  ENTER("cuEventSynchronize");
  job what = {.event = event};
  pthread_mutex_lock(&event->lock);
  what.turn = event->turn;
  pthread_mutex_unlock(&event->lock);
  wait_for(here, &what);
  return state_of(here);
}

API cu_result cuEventElapsedTime(float *out, cu_event begin, cu_event end) {
  ENTER("cuEventElapsedTime");
  if (!begin->done || !end->done) return CU_INVALID_VALUE;
  if (begin->done < begin->turn || end->done < end->turn) return CU_NOT_READY;
  *out = (float)((double)(int64_t)(end->time - begin->time) / 1e6);
  return CU_OK;
}

/* ---- work ---------------------------------------------------------------------------------- */

API cu_result cuLaunchKernel(cu_function called, unsigned grid_x,
                             unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z,
                             unsigned shared, cu_stream stream,
                             void **arguments, void **extra) {
  ENTER("cuLaunchKernel");
  if (!grid_x || !block_x || grid_y != 1 || grid_z != 1 || block_y != 1 ||
      block_z != 1 || shared || extra || block_x > 1024)
    return CU_INVALID_VALUE;
  job *j = standin_job(JOB_LAUNCH);
  uint32_t size = 0;
  j->function = called;
  j->groups = grid_x;
  j->group = block_x;
  for (uint32_t i = 0; called->sizes[i]; i++)
    size += (called->sizes[i] + 15) / 16 * 16;
  j->arguments = aligned_alloc(16, size ? size : 16);
  if (!j->arguments) abort();
  size = 0;
  for (uint32_t i = 0; called->sizes[i]; i++) {
    memcpy(j->arguments + size, arguments[i], called->sizes[i]);
    size += (called->sizes[i] + 15) / 16 * 16;
  }
  return standin_push(stream, j);
}

static cu_result copy(const char *call, void *to, const void *from, size_t size,
                      cu_stream stream) {
  ENTER(call);
  job *j = standin_job(JOB_COPY);
  j->to = to;
  j->from = from;
  j->size = size;
  return standin_push(stream, j);
}

static void *at(cu_pointer memory) {
  return (void *)(uintptr_t)memory;
}

/* From pageable memory: the caller waits where there is much. */
API cu_result cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t size,
                                   cu_stream stream) {
  cu_result code = copy("cuMemcpyHtoDAsync", at(to), from, size, stream);
  return code != CU_OK || size <= 65536 || standin_pinned(from) ||
                 standin_records(stream)
             ? code
             : cuStreamSynchronize(stream);
}

/* To pageable memory: the caller waits, as the manual says ("API synchronization
 * behavior"). */
API cu_result cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t size,
                                   cu_stream stream) {
  cu_result code = copy("cuMemcpyDtoHAsync", to, at(from), size, stream);
  return code != CU_OK || standin_pinned(to) || standin_records(stream)
             ? code
             : cuStreamSynchronize(stream);
}

API cu_result cuMemcpyAsync(cu_pointer to, cu_pointer from, size_t size,
                            cu_stream stream) {
  return copy("cuMemcpyAsync", at(to), at(from), size, stream);
}

API cu_result cuMemcpyPeerAsync(cu_pointer to, cu_context to_context,
                                cu_pointer from, cu_context from_context,
                                size_t size, cu_stream stream) {
  if (!to_context || !from_context) return CU_INVALID_VALUE;
  return copy("cuMemcpyPeerAsync", at(to), at(from), size, stream);
}

static cu_result fill(cu_pointer to, uint32_t value, size_t width, size_t pitch,
                      size_t count, cu_stream stream) {
  ENTER("cuMemsetAsync");
  if (to % width) return CU_INVALID_VALUE;
  job *j = standin_job(JOB_SET);
  j->to = at(to);
  j->pattern = value;
  j->width = width;
  j->pitch = pitch;
  j->count = count;
  return standin_push(stream, j);
}

API cu_result cuMemsetD8Async(cu_pointer to, unsigned char value, size_t count,
                              cu_stream stream) {
  return fill(to, value, 1, 1, count, stream);
}

API cu_result cuMemsetD16Async(cu_pointer to, unsigned short value,
                               size_t count, cu_stream stream) {
  return fill(to, value, 2, 2, count, stream);
}

API cu_result cuMemsetD32Async(cu_pointer to, unsigned value, size_t count,
                               cu_stream stream) {
  return fill(to, value, 4, 4, count, stream);
}

API cu_result cuMemsetD2D32Async(cu_pointer to, size_t pitch, unsigned value,
                                 size_t width, size_t height,
                                 cu_stream stream) {
  if (width != 1)
    return CU_NOT_SUPPORTED; /* the plugin's columns are one wide */
  return fill(to, value, 4, pitch, height, stream);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* `list` may be replaced between launches, of which each keeps its own. */
struct cu_graph_exec_of {
  job_list *list;
};

API cu_result cuStreamBeginCapture_v2(cu_stream stream, int mode) {
  ENTER("cuStreamBeginCapture");
  if (getenv("STANDIN_NO_CAPTURE")) return CU_NOT_SUPPORTED;
  if (mode != CU_CAPTURE_RELAXED || stream->recording) return CU_INVALID_VALUE;
  pthread_mutex_lock(&stream->lock);
  stream->recording = make_list();
  pthread_mutex_unlock(&stream->lock);
  return CU_OK;
}

API cu_result cuStreamEndCapture(cu_stream stream, cu_graph *out) {
  if (!stream->recording) return CU_INVALID_VALUE;
  struct cu_graph_of *graph = calloc(1, sizeof *graph);
  if (!graph) return CU_OUT_OF_MEMORY;
  pthread_mutex_lock(&stream->lock);
  graph->jobs = stream->recording;
  stream->recording = NULL;
  pthread_mutex_unlock(&stream->lock);
  *out = graph;
  return CU_OK;
}

API cu_result cuGraphDestroy(cu_graph graph) {
  free_list(graph->jobs);
  free(graph);
  return CU_OK;
}

API cu_result cuGraphInstantiateWithFlags(cu_graph_exec *out, cu_graph graph,
                                          unsigned long long flags) {
  ENTER("cuGraphInstantiate");
  if (flags) return CU_INVALID_VALUE;
  cu_graph_exec exec = calloc(1, sizeof *exec);
  if (!exec) return CU_OUT_OF_MEMORY;
  atomic_fetch_add(&graph->jobs->users, 1);
  exec->list = graph->jobs;
  *out = exec;
  return CU_OK;
}

/* Only arguments may be others: as the manual says, nodes keep their kinds and kernels. */
API cu_result cuGraphExecUpdate_v2(cu_graph_exec exec, cu_graph graph,
                                   cu_update_info *info) {
  ENTER("cuGraphExecUpdate");
  const job *a = exec->list->first, *b = graph->jobs->first;
  (void)info;
  for (; a && b; a = a->next, b = b->next)
    if (a->kind != b->kind || a->function != b->function)
      return CU_INVALID_VALUE;
  if (a || b) return CU_INVALID_VALUE;
  free_list(exec->list);
  atomic_fetch_add(&graph->jobs->users, 1);
  exec->list = graph->jobs;
  return CU_OK;
}

API cu_result cuGraphLaunch(cu_graph_exec exec, cu_stream stream) {
  ENTER("cuGraphLaunch");
  job *j = standin_job(JOB_GRAPH);
  atomic_fetch_add(&exec->list->users, 1);
  j->graph = exec->list;
  return standin_push(stream, j);
}

API cu_result cuGraphExecDestroy(cu_graph_exec exec) {
  free_list(exec->list);
  free(exec);
  return CU_OK;
}
