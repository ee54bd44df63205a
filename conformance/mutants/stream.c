/* stream.c - the simulated device's queues and events. */
#include "mutants/sim.h"

static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static kd_stream *_Atomic first_stream;
atomic_uint sim_stream_count;
static atomic_uint event_count;
static uint32_t busy_count; /* under sim_lock */
atomic_bool sim_recording_any;
static kd_status spread; /* a failure that reached all streams */

/* ---- points ------------------------------------------------------------------------------ */

point *point_new(void) {
  point *p = calloc(1, sizeof *p);
  atomic_init(&p->refs, 1);
  return p;
}

point *point_hold(point *p) {
  atomic_fetch_add(&p->refs, 1);
  return p;
}

void point_drop(point *p) {
  if (!p || atomic_fetch_sub(&p->refs, 1) != 1) return;
  while (p->waiters) {
    waiter *next = p->waiters->next;
    free(p->waiters);
    p->waiters = next;
  }
  free(p);
}

static const char *why(kd_status status) {
  return status == KD_OK || BUG(callback_mute) ? ""
                                               : "the simulated work failed";
}

/* What is known of an event's work, with its reason. */
static kd_status known(const kd_event *event, kd_status status) {
  if (status == KD_DEVICE_LOST) return sim_check(event->device);
  return status == KD_OK || status == KD_BUSY || BUG(event_mute)
             ? status
             : FAIL(status, "%s", why(status));
}

static void point_end(point *p, kd_status status) {
  pthread_mutex_lock(&sim_lock);
  p->done = 1;
  p->status = status;
  waiter *list = p->waiters;
  p->waiters = NULL;
  if (BUG(lost_wakeup))
    pthread_cond_signal(&ended);
  else
    pthread_cond_broadcast(&ended);
  pthread_mutex_unlock(&sim_lock);
  while (list) {
    waiter *next = list->next;
    if (status == KD_OK || !BUG(callback_on_success))
      list->callback(list->context, status, why(status));
    free(list);
    list = next;
  }
}

bool point_wait(point *p, uint64_t timeout) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  uint64_t at = (uint64_t)until.tv_sec * 1000000000u + (uint64_t)until.tv_nsec;
  bool endless = timeout == UINT64_MAX;
  if (!endless && timeout > UINT64_C(1000000000000)) endless = true;
  at += endless ? 0 : timeout;
  until.tv_sec = (time_t)(at / 1000000000u);
  until.tv_nsec = (long)(at % 1000000000u);
  pthread_mutex_lock(&sim_lock);
  while (!p->done) {
    if (endless)
      pthread_cond_wait(&ended, &sim_lock);
    else if (pthread_cond_timedwait(&ended, &sim_lock, &until) != 0)
      break;
  }
  bool done = p->done;
  pthread_mutex_unlock(&sim_lock);
  return done;
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static void *read_late(void *context) {
  job *j = context;
  sim_nap(1500);
  memcpy(j->target->bytes + j->target_offset, j->from, j->size);
  free(j);
  return NULL;
}

void sim_free_job(job *j) {
  point_drop(j->point);
  if (j->kind == JOB_COLLECT) sim_round_free(j->context);
  free(j->call);
  free(j);
}

kd_status sim_run(job *j) {
  uint64_t begin = sim_now();
  kd_status status = KD_OK;
  if (j->kind == JOB_OP)
    status = sim_run_op(j->call);
  else if (j->kind == JOB_REGION)
    status = sim_run_region(j->region, j->call);
  else if (j->kind == JOB_COLLECT)
    status = j->run(j);
  else if (j->kind == JOB_COPY_IN && BUG(copy_late) && j->size > 100000) {
    job *later = malloc(sizeof *later);
    pthread_t thread;
    *later = *j;
    if (pthread_create(&thread, NULL, read_late, later) == 0)
      pthread_detach(thread);
  } else
    status = sim_job_status(j);
  sim_push_record(j, begin, sim_now());
  return status;
}

static kd_status take_point(kd_stream *stream, job *j) {
  point *p = j->point;
  if (BUG(follows_record) && j->event) {
    pthread_mutex_lock(&sim_lock);
    p = j->event->point;
    pthread_mutex_unlock(&sim_lock);
  }
  if (!p) return KD_OK;
  while (!point_wait(p, 5000000u)) {
    if (stream->dead) return KD_CANCELLED;
    if (sim_is_lost(stream->device)) return KD_DEVICE_LOST;
  }
  return BUG(failure_stays) ? KD_OK : p->status;
}

/* What a stream's work fails with before it begins. */
static kd_status failed_before(kd_stream *stream, const job *j) {
  if (j->kind == JOB_OP || j->kind == JOB_REGION)
    sim_note_launch(stream->device);
  else if (j->kind < JOB_RECORD)
    sim_note_copy(stream->device);
  if (sim_is_lost(stream->device)) stream->status = KD_DEVICE_LOST;
  return stream->status;
}

/* Runs one job on the stream's thread. */
static void serve(kd_stream *stream, job *j) {
  kd_status failed = failed_before(stream, j);
  if (BUG(failure_spreads) && spread) failed = spread;
  if (j->kind == JOB_RECORD) {
    if (BUG(failure_hangs) && failed != KD_OK) return;
    point_end(j->point, failed);
    return;
  }
  if (j->kind == JOB_WAIT) {
    kd_status status = take_point(stream, j);
    if (stream->status == KD_OK) stream->status = status;
    return;
  }
  if (j->number % 4 == 0) sim_nap(ODD(slow) ? 600 : 20);
  if (failed != KD_OK) {
    if (j->kind == JOB_COLLECT) sim_round_failed(j->context);
    return;
  }
  kd_status status = sim_run(j);
  if (status != KD_OK && stream->status == KD_OK) {
    stream->status = status;
    if (BUG(failure_spreads)) spread = status;
  }
}

static void *mutants_stream_work(void *context) {
  kd_stream *stream = context;
  pthread_mutex_lock(&sim_lock);
  for (;;) {
    while ((!stream->first || stream->held) && !stream->stop)
      pthread_cond_wait(&stream->changed, &sim_lock);
    job *j = stream->first;
    if (!j) break;
    if (BUG(out_of_order) && j->next && j->kind < JOB_RECORD &&
        j->next->kind < JOB_RECORD && j->number % 3 == 0) {
      job *second = j->next; /* the other queue was faster */
      stream->first = j;
      j->next = second->next;
      if (stream->last == second) stream->last = j;
      j = second;
    } else {
      stream->first = j->next;
      if (!stream->first) stream->last = NULL;
    }
    busy_count++;
    pthread_mutex_unlock(&sim_lock);
    serve(stream, j);
    sim_free_job(j);
    pthread_mutex_lock(&sim_lock);
    busy_count--;
    stream->queued--;
    if (BUG(lost_wakeup))
      pthread_cond_signal(&ended);
    else
      pthread_cond_broadcast(&ended);
  }
  pthread_mutex_unlock(&sim_lock);
  return NULL;
}

bool sim_busy(void) {
  pthread_mutex_lock(&sim_lock);
  bool busy = busy_count > 0;
  pthread_mutex_unlock(&sim_lock);
  return busy;
}

/* Not the id of the thread, which the next thread may get. */
static uint32_t this_thread(void) {
  static atomic_uint threads;
  static _Thread_local uint32_t mine;
  if (!mine) mine = atomic_fetch_add(&threads, 1) + 1;
  return mine;
}

static kd_status mutants_stream_note(kd_stream *stream, const job *what) {
  job *copy = malloc(sizeof *copy);
  if (!copy) return FAIL(KD_OUT_OF_MEMORY, "no host memory for a job");
  *copy = *what;
  copy->next = NULL;
  if (BUG(replay_keeps_bytes) && what->kind == JOB_COPY_IN) {
    void *kept = malloc(what->size + 1);
    if (kept) copy->from = memcpy(kept, what->from, what->size);
  }
  if (stream->origin) stream = stream->origin;
  if (stream->recorded_last)
    stream->recorded_last->next = copy;
  else
    stream->recorded = copy;
  stream->recorded_last = copy;
  return KD_OK;
}

static void wait_drained(kd_stream *stream) {
  pthread_mutex_lock(&sim_lock);
  while (stream->queued)
    pthread_cond_wait(&ended, &sim_lock);
  pthread_mutex_unlock(&sim_lock);
}

static bool is_full(const kd_stream *stream, const job *what) {
  bool counts = what->kind < JOB_RECORD || what->kind == JOB_WAIT;
  if (sim_ring && counts) return stream->queued >= sim_ring;
  return ODD(busy_limit) && stream->queued >= 64 && what->kind == JOB_OP;
}

/* One thread at a time enqueues on a stream: what fits now fits then. */
bool sim_has_room(const kd_stream *stream, uint32_t count) {
  if (stream && stream->over) stream = stream->over;
  pthread_mutex_lock(&sim_lock);
  bool has = !stream || !sim_ring || stream->queued + count <= sim_ring;
  pthread_mutex_unlock(&sim_lock);
  return has;
}

/* Writes a job to a place of the ring that all streams share, and reads it there. */
static job by_ring(const job *what) {
  static job ring[64];
  static volatile uint32_t next;
  uint32_t at = next % 64;
  ring[at] = *what;
  sim_nap(20);
  next++;
  return ring[at];
}

/* Behind what the stream holds. The caller has locked it. */
static void mutants_stream_append(kd_stream *stream, job *last) {
  last->next = NULL;
  last->number = stream->issued++;
  if (stream->last)
    stream->last->next = last;
  else
    stream->first = last;
  stream->last = last;
  stream->queued++;
  stream->held = BUG(flush_nothing) || BUG(held_back);
  if (!stream->held) pthread_cond_signal(&stream->changed);
}

kd_status sim_push(kd_stream *stream, const job *what) {
  kd_status lost = stream ? sim_check(stream->device) : KD_OK;
  if (lost != KD_OK) return lost;
  if (!stream || ODD(inline_streams)) {
    job now = *what;
    if (now.kind == JOB_RECORD || now.kind == JOB_WAIT || stream) {
      if (stream && stream->recording && now.kind < JOB_RECORD)
        return mutants_stream_note(stream, what);
      kd_stream none = {0};
      if (stream) now.tag = stream->tag;
      serve(stream ? stream : &none, &now);
      point_drop(now.point);
      free(now.call);
      return KD_OK;
    }
    kd_status status = sim_run(&now);
    if (now.kind == JOB_COLLECT) sim_round_free(now.context);
    return status;
  }
  if (stream->recording || (BUG(capture_global) && sim_recording_any)) {
    if (BUG(capture_runs)) {
      job now = *what;
      sim_run(&now);
    }
    if (!stream->recording) return KD_OK;
    return mutants_stream_note(stream, what);
  }
  uint64_t tag = stream->tag;
  if (stream->over) stream = stream->over;
  if (BUG(wrap_takes_queue) && stream->dead)
    return FAIL(KD_FAILED_PRECONDITION, "the queue is gone");
  if (BUG(stream_tls) && stream->made_by != this_thread())
    return FAIL(KD_FAILED_PRECONDITION, "the stream is another thread's");
  bool kernel = what->kind == JOB_OP;
  bool sorts = kernel && what->call->out_count == 2; /* TopK alone has two */
  if (BUG(enqueue_blocks) || (BUG(launch_blocks_before) && kernel) ||
      (BUG(launch_blocks_once) && sorts))
    wait_drained(stream);
  job *copy = malloc(sizeof *copy);
  if (!copy) return FAIL(KD_OUT_OF_MEMORY, "no host memory for a job");
  *copy = *what;
  if (BUG(ring_unlocked) && what->kind == JOB_COPY_IN) *copy = by_ring(what);
  pthread_mutex_lock(&sim_lock);
  if (is_full(stream, what)) {
    pthread_mutex_unlock(&sim_lock);
    free(copy);
    return FAIL(KD_BUSY, "no more fits into the queue of the stream");
  }
  copy->tag = BUG(tag_late) ? 0 : tag;
  if (BUG(ring_overflow) && stream->queued > 200 && what->kind == JOB_COPY_IN) {
    stream->issued++;
    pthread_mutex_unlock(&sim_lock);
    free(copy);
    return KD_OK;
  }
  mutants_stream_append(stream, copy);
  pthread_mutex_unlock(&sim_lock);
  return KD_OK;
}

void sim_drop_all(void) {
  pthread_mutex_lock(&sim_lock);
  for (job *j = first_stream ? first_stream->first : NULL; j; j = j->next)
    if (j->kind < JOB_RECORD) j->kind = JOB_COPY, j->source = NULL;
  pthread_mutex_unlock(&sim_lock);
}

static void mutants_stream_let_go(kd_stream *stream) {
  if (!stream) return;
  pthread_mutex_lock(&sim_lock);
  if (stream->held) pthread_cond_signal(&stream->changed);
  stream->held = false;
  pthread_mutex_unlock(&sim_lock);
}

/* ---- streams ------------------------------------------------------------------------------------ */

void sim_streams_reset(void) {
  sim_profile_reset();
  sim_stream_count = event_count = 0;
  spread = KD_OK;
  first_stream = NULL;
}

static void stream_tag(kd_stream *stream, uint64_t correlation) {
  stream->tag = correlation;
}

static kd_status mutants_stream_stream_create(kd_device *device,
                                              int32_t priority, uint32_t flags,
                                              kd_stream **out_stream) {
  (void)priority;
  if (flags) return FAIL(KD_UNIMPLEMENTED, "unknown flags 0x%x", flags);
  SIM_TRY(sim_check(device));
  sim_stream_count++;
  if (BUG(stream_alias) && sim_stream_count > 16 && first_stream) {
    *out_stream = first_stream;
    first_stream->alias = true;
    return KD_OK;
  }
  kd_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  stream->device = device;
  stream->number = sim_stream_count;
  stream->made_by = this_thread();
  pthread_cond_init(&stream->changed, NULL);
  if (!ODD(inline_streams) &&
      pthread_create(&stream->thread, NULL, mutants_stream_work, stream) != 0) {
    free(stream);
    return FAIL(KD_OUT_OF_MEMORY, "no thread for a stream");
  }
  if (!first_stream) first_stream = stream;
  sim_count(device, 1);
  *out_stream = stream;
  return KD_OK;
}

static void stream_destroy(kd_stream *stream) {
  if (stream->over) {
    if (BUG(wrap_takes_queue)) stream->over->dead = true;
    sim_count(stream->device, -1);
    free(stream);
    return;
  }
  if (stream->alias) {
    stream->alias = false;
    return;
  }
  pthread_mutex_lock(&sim_lock);
  stream->stop = true;
  stream->held = false;
  pthread_cond_signal(&stream->changed);
  pthread_mutex_unlock(&sim_lock);
  if (!ODD(inline_streams)) pthread_join(stream->thread, NULL);
  pthread_cond_destroy(&stream->changed);
  sim_count(stream->device, -1);
  if (first_stream == stream) first_stream = NULL;
  if (BUG(events_die) || BUG(capture_in_stream) || BUG(orders_crash)) {
    stream->dead = true; /* kept, to be found out */
    return;
  }
  free(stream);
}

/* It records where the event does, from now on. */
static void mutants_stream_join(kd_stream *stream, kd_stream *origin) {
  if (stream->recording || stream == origin || BUG(capture_one_stream) ||
      origin->joined_count == 8)
    return;
  stream->recording = true;
  stream->origin = origin;
  origin->joined[origin->joined_count++] = stream;
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  if (event->origin && event->origin->recording) {
    mutants_stream_join(stream, event->origin);
    return KD_OK;
  }
  if (BUG(never_recorded) && !event->recorded)
    return sim_push(stream, &(job){.kind = JOB_WAIT, .point = point_new()});
  if (!event->point) return KD_OK;
  if (BUG(one_waiter) && event->point->stream_waits++ >= 1) return KD_OK;
  job what = {
      .kind = JOB_WAIT, .point = point_hold(event->point), .event = event};
  kd_status status = sim_push(stream, &what);
  if (status != KD_OK) point_drop(what.point);
  return status;
}

static kd_status stream_flush(kd_stream *stream) {
  if (stream->over) stream = stream->over;
  if (!BUG(flush_nothing)) mutants_stream_let_go(stream);
  return KD_OK;
}

static kd_status stream_synchronize(kd_stream *stream) {
  if (stream->over) stream = stream->over;
  if (BUG(sync_empty) && stream->issued == 0)
    for (;;)
      sim_nap(100000);
  mutants_stream_let_go(stream);
  wait_drained(stream);
  if (BUG(one_queue) && first_stream && first_stream != stream)
    wait_drained(first_stream);
  pthread_mutex_lock(&sim_lock);
  kd_status status = stream->status;
  stream->status = KD_OK;
  pthread_mutex_unlock(&sim_lock);
  SIM_TRY(sim_check(stream->device));
  if (status != KD_OK)
    FAIL(status, "work of the stream failed (%s)", kd_status_name(status));
  return status;
}

kd_stream_table sim_streams = {
    .struct_size = sizeof(kd_stream_table),
    .create = mutants_stream_stream_create,
    .destroy = stream_destroy,
    .wait = stream_wait,
    .flush = stream_flush,
    .synchronize = stream_synchronize,
    .tag = stream_tag,
};

/* ---- native handles ------------------------------------------------------------------------------------ */

/* A device is KD_NATIVE_OWN, a buffer that and 1, a stream's queue that and 2: the stream. */
static kd_status no_kind(const char *of, kd_native_kind kind) {
  return FAIL(KD_UNIMPLEMENTED, "a %s has no native handle of kind 0x%x", of,
              (unsigned)kind);
}

static kd_status native_device(kd_device *device, kd_native_kind kind,
                               uint64_t *out_handle) {
  if (kind != KD_NATIVE_OWN) return no_kind("device", kind);
  *out_handle = (uint64_t)(uintptr_t)device;
  return KD_OK;
}

static kd_status native_buffer(kd_device *device, kd_buffer *buffer,
                               kd_native_kind kind, uint64_t *out_handle,
                               uint64_t *out_offset) {
  (void)device;
  if (kind != KD_NATIVE_OWN + 1) return no_kind("buffer", kind);
  *out_handle = (uint64_t)(uintptr_t)buffer->bytes;
  *out_offset = 0;
  return KD_OK;
}

static kd_status native_stream(kd_stream *stream, kd_native_kind kind,
                               uint64_t *out_handle) {
  if (kind != KD_NATIVE_OWN + 2) return no_kind("stream", kind);
  mutants_stream_let_go(stream);
  *out_handle = (uint64_t)(uintptr_t)(stream->over ? stream->over : stream);
  return KD_OK;
}

static kd_status native_wrap(kd_device *device, kd_native_kind kind,
                             uint64_t handle, kd_stream **out_stream) {
  kd_stream *over = (kd_stream *)(uintptr_t)handle;
  if (kind != KD_NATIVE_OWN + 2) return no_kind("queue", kind);
  if (!over) return FAIL(KD_INVALID_ARGUMENT, "%s", "the queue is NULL");
  if (over->device != device)
    return FAIL(KD_INVALID_ARGUMENT, "the queue is of unit %u",
                sim_index(over->device));
  if (BUG(wrap_apart))
    return mutants_stream_stream_create(device, 0, 0, out_stream);
  SIM_TRY(sim_check(device));
  kd_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  stream->device = device;
  stream->over = over;
  sim_count(device, 1);
  *out_stream = stream;
  return KD_OK;
}

const kd_native_table sim_native = {
    .struct_size = sizeof(kd_native_table),
    .device = native_device,
    .buffer = native_buffer,
    .stream = native_stream,
    .wrap = native_wrap,
};

/* ---- events ---------------------------------------------------------------------------------------- */

static kd_status event_create(kd_device *device, uint32_t flags,
                              kd_event **out_event) {
  if (flags) return FAIL(KD_UNIMPLEMENTED, "unknown flags 0x%x", flags);
  SIM_TRY(sim_check(device));
  event_count++;
  if (BUG(event_pool) && event_count > 400)
    return FAIL(KD_OUT_OF_MEMORY, "all %d events are in use", 400);
  *out_event = calloc(1, sizeof **out_event);
  if (!*out_event) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  (*out_event)->device = device;
  sim_count(device, 1);
  return KD_OK;
}

static void event_destroy(kd_event *event) {
  event_count--;
  sim_count(event->device, -1);
  if (event->point && BUG(destroy_drops)) point_end(event->point, KD_OK);
  if (event->point && BUG(callback_destroyed)) {
    pthread_mutex_lock(&sim_lock);
    event->point->waiters = NULL;
    pthread_mutex_unlock(&sim_lock);
  }
  point_drop(event->point);
  if (BUG(follows_record)) return;
  free(event);
}

/* A lost device takes no more work, but work that it had begun may still run: the point ends
 * after that. Returns false if no work can still run. */
static bool ends_later(kd_stream *stream, point *p) {
  if (stream->over) stream = stream->over;
  job *last = ODD(inline_streams) ? NULL : malloc(sizeof *last);
  if (!last) return false;
  *last = (job){.kind = JOB_RECORD, .point = p};
  pthread_mutex_lock(&sim_lock);
  mutants_stream_append(stream, last);
  pthread_mutex_unlock(&sim_lock);
  return true;
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  point *fresh = point_new();
  pthread_mutex_lock(&sim_lock);
  point *old = event->point;
  event->point = fresh;
  event->stream = stream->over ? stream->over : stream;
  event->recorded = true;
  bool capturing = stream->recording;
  event->origin = !capturing ? NULL : stream->origin ? stream->origin : stream;
  pthread_mutex_unlock(&sim_lock);
  point_drop(old);
  if (capturing) {
    point_end(fresh, KD_OK);
    return KD_OK;
  }
  kd_status status =
      sim_push(stream, &(job){.kind = JOB_RECORD, .point = point_hold(fresh)});
  if (status == KD_OK) return KD_OK;
  if (status == KD_DEVICE_LOST && ends_later(stream, fresh)) return status;
  /* nobody else will end it */
  point_end(fresh, status);
  point_drop(fresh);
  return status;
}

static kd_status event_query(kd_event *event) {
  if (BUG(event_uninitialised) && !event->recorded) return KD_BUSY;
  if (!event->point) return KD_OK;
  if (BUG(query_all) && first_stream && first_stream != event->stream &&
      first_stream->queued)
    return KD_INTERNAL;
  if (BUG(events_die) && event->stream->dead) return KD_INTERNAL;
  pthread_mutex_lock(&sim_lock);
  kd_status status = !event->point->done ? KD_BUSY : event->point->status;
  pthread_mutex_unlock(&sim_lock);
  if (BUG(event_stays_done) && event->was_done) return KD_OK;
  if (status == KD_OK) event->was_done = true;
  return known(event, status);
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  if (!event->point) return KD_OK;
  mutants_stream_let_go(event->stream && !event->stream->dead ? event->stream
                                                              : NULL);
  if (BUG(event_stays_done) && event->was_done) return KD_OK;
  if (!point_wait(event->point, timeout)) {
    return timeout ? FAIL(KD_DEADLINE_EXCEEDED, "%llu ns have passed",
                          (unsigned long long)timeout)
                   : KD_DEADLINE_EXCEEDED;
  }
  event->was_done = true;
  return known(event, event->point->status);
}

static kd_status mutants_stream_on_complete(kd_event *event,
                                            kd_event_callback callback,
                                            void *context) {
  point *p = event->point;
  bool done = true;
  kd_status status = KD_OK;
  if (p) {
    pthread_mutex_lock(&sim_lock);
    done = p->done;
    status = p->status;
    if (!done) {
      waiter *w = calloc(1, sizeof *w);
      w->callback = callback;
      w->context = context;
      w->next = p->waiters;
      p->waiters = w;
    }
    pthread_mutex_unlock(&sim_lock);
  }
  if (done && !BUG(callback_done) &&
      (status == KD_OK || !BUG(callback_on_success)))
    callback(context, status, why(status));
  return KD_OK;
}

kd_event_table sim_events = {
    .struct_size = sizeof(kd_event_table),
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .wait = event_wait,
    .on_complete = mutants_stream_on_complete,
};
