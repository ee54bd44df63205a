/* replay.c - makes, rebinds and launches recordings of a static run. */
#include "run/replay.h"
#include "device/stream.h"

#include "device/backoff.h"
#include "device/lost.h"
#include "memory/copy.h"
#include "memory/late.h"

#define RECORDINGS    2
#define RUNS_BEFORE   2    /* runs before a recording is worth making */
#define KERNELS_LEAST 3    /* the fewest kernels that are worth recording */
#define SOUGHT_MOST   1024 /* locations: more are not sought through for memory */
#define RENEWED_MOST  4    /* failed rebinds before recording is given up */

/* The memory of an input or an output. */
typedef struct location {
  keel_buffer *buffer;
  uint64_t offset;
} location;

typedef struct recording {
  kd_capture *capture; /* NULL: there is none */
  location *locations; /* of inputs, then of outputs; retained */
  uint64_t used;       /* the last run that launched it */
} recording;

struct keel_replay {
  keel_device *device;
  uint32_t input_count, location_count;
  recording recordings[RECORDINGS];
  recording *chosen; /* matches this run's memory */
  location *now;     /* this run's memory; borrowed, but for claimed outputs */
  bool claims;       /* its outputs are retained */
  kd_rebind *rebinds;
  uint32_t renewed;
  uint64_t runs;
  bool off; /* recording is off: steps are enqueued one by one */
};

/* ---- recordings ---------------------------------------------------------------- */

/* Guards `recorded` of all buffers, and claims of memory that only recordings hold; for some
 * instructions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void hold_locations(const keel_replay *replay, recording *r,
                           const location *locations) {
  for (uint32_t i = 0; i < replay->location_count; i++) {
    location one = locations ? locations[i] : (location){0}, before;
    if (one.buffer) keel_buffer_retain(one.buffer);
    pthread_mutex_lock(&lock);
    before = r->locations[i];
    if (one.buffer) one.buffer->recorded++;
    if (before.buffer) before.buffer->recorded--;
    r->locations[i] = one;
    pthread_mutex_unlock(&lock);
    if (before.buffer) keel_buffer_release(before.buffer);
  }
}

/* Destroys a recording once the device is done with it. Returns how its work ended. */
static keel_status discard(keel_replay *replay, recording *r) {
  if (!r->capture) return KD_OK;
  keel_status status = KD_OK;
  if (atomic_load(&replay->device->lost))
    keel_device_drain_quietly(replay->device);
  else
    status = keel_device_drain(replay->device);
  replay->device->plugin->capture.destroy(r->capture);
  r->capture = NULL;
  hold_locations(replay, r, NULL);
  return status;
}

static keel_status turn_off(keel_replay *replay) {
  keel_status status = KD_OK;
  for (int i = 0; i < RECORDINGS; i++) {
    keel_status one = discard(replay, &replay->recordings[i]);
    if (status == KD_OK) status = one;
  }
  replay->off = true;
  return status;
}

keel_replay *keel_replay_create(const keel_memory_plan *memory_plan) {
  keel_replay *replay = calloc(1, sizeof *replay);
  if (!replay) return NULL;
  replay->device = memory_plan->heap->device;
  replay->input_count = memory_plan->executable->input_count;
  replay->location_count = replay->input_count + memory_plan->output_slot_count;
  replay->off = memory_plan->kernel_count < KERNELS_LEAST;
  size_t capacity = (size_t)replay->location_count + 1;
  replay->now = calloc(capacity, sizeof *replay->now);
  replay->rebinds = calloc(capacity, sizeof *replay->rebinds);
  bool made = replay->now && replay->rebinds;
  for (int i = 0; i < RECORDINGS; i++) {
    replay->recordings[i].locations = calloc(capacity, sizeof(location));
    made &= replay->recordings[i].locations != NULL;
  }
  if (made) return replay;
  keel_replay_free(replay);
  return NULL;
}

void keel_replay_free(keel_replay *replay) {
  if (!replay) return;
  turn_off(replay);
  for (int i = 0; i < RECORDINGS; i++)
    free(replay->recordings[i].locations);
  free(replay->now);
  free(replay->rebinds);
  free(replay);
}

bool keel_replay_holds(const keel_replay *replay) {
  for (int i = 0; replay && i < RECORDINGS; i++)
    if (replay->recordings[i].capture) return true;
  return false;
}

void keel_replay_visit(const keel_replay *replay,
                       void (*each)(void *context, const keel_buffer *buffer),
                       void *context) {
  for (int i = 0; i < RECORDINGS; i++)
    for (uint32_t k = 0; k < replay->location_count; k++)
      if (replay->recordings[i].locations[k].buffer)
        each(context, replay->recordings[i].locations[k].buffer);
}

/* ---- places --------------------------------------------------------------------- */

static bool replay_is_same(const location *a, const location *b) {
  return a->buffer == b->buffer && a->offset == b->offset;
}

static location location_of(const keel_tensor *tensor) {
  return tensor ? (location){tensor->buffer, tensor->offset} : (location){0};
}

/* Whether nothing but recordings holds it, so that a run may overwrite it: what they read of it
 * is enqueued before. With the lock held. */
static bool is_free(const keel_buffer *buffer) {
  return buffer->recorded && keel_buffer_held(buffer, buffer->recorded);
}

/* Whether it reads this run's inputs, and writes outputs that nothing else holds. */
static bool replay_fits(const keel_replay *replay, const recording *r) {
  if (!r->capture) return false;
  for (uint32_t i = 0; i < replay->input_count; i++)
    if (!replay_is_same(&r->locations[i], &replay->now[i])) return false;
  for (uint32_t i = replay->input_count; i < replay->location_count; i++)
    if (!is_free(r->locations[i].buffer)) return false;
  return true;
}

/* Whether output `index` of this run may have the memory of a location. */
static bool may_take(const keel_replay *replay, const location *one,
                     const keel_buffer *like, uint32_t index) {
  const location *outputs = &replay->now[replay->input_count];
  if (!one->buffer || one->offset || !keel_buffer_alike(one->buffer, like) ||
      !is_free(one->buffer))
    return false;
  for (uint32_t i = 0; i < index; i++)
    if (outputs[i].buffer == one->buffer) return false;
  return true;
}

/* Memory that only a recording holds, as large as output `index` there; NULL: none. Of a loop whose
 * outputs are the next run's inputs, it is what the run before last wrote: two recordings take
 * turns. The earlier memory of that output comes first. */
static keel_buffer *find_free(const keel_replay *replay, uint32_t index) {
  const uint32_t output = replay->input_count + index;
  if (replay->location_count > SOUGHT_MOST) return NULL;
  for (int i = 0; i < RECORDINGS; i++) {
    const location *own = &replay->recordings[i].locations[output];
    if (own->buffer && may_take(replay, own, own->buffer, index))
      return own->buffer;
  }
  for (int i = 0; i < RECORDINGS; i++) {
    const recording *r = &replay->recordings[i];
    if (!r->capture) continue;
    for (uint32_t j = 0; j < replay->location_count; j++)
      if (may_take(replay, &r->locations[j], r->locations[output].buffer,
                   index))
        return r->locations[j].buffer;
  }
  return NULL;
}

/* Chooses the recording, and what outputs have its memory. */
static void replay_choose(keel_replay *replay) {
  for (int i = 0; i < RECORDINGS && !replay->chosen; i++)
    if (replay_fits(replay, &replay->recordings[i]))
      replay->chosen = &replay->recordings[i];
  for (uint32_t i = replay->input_count; i < replay->location_count; i++)
    replay->now[i].buffer = replay->chosen
                                ? replay->chosen->locations[i].buffer
                                : find_free(replay, i - replay->input_count);
}

void keel_replay_choose(keel_static_run *static_run) {
  keel_replay *replay = static_run->replay;
  for (uint32_t i = 0; i < replay->location_count; i++)
    replay->now[i] = i < replay->input_count ? location_of(static_run->read[i])
                                             : (location){0};
  replay->chosen = NULL;
  if (static_run->donation) return; /* a recording would hold the inputs */
  pthread_mutex_lock(&lock);
  replay_choose(replay);
  for (uint32_t i = replay->input_count; i < replay->location_count; i++)
    if (replay->now[i].buffer) keel_buffer_retain(replay->now[i].buffer);
  pthread_mutex_unlock(&lock);
  replay->claims = true;
}

void keel_replay_chosen(keel_replay *replay) {
  for (uint32_t i = replay->input_count;
       replay->claims && i < replay->location_count; i++)
    if (replay->now[i].buffer) keel_buffer_release(replay->now[i].buffer);
  replay->claims = false;
}

keel_buffer *keel_replay_output(const keel_replay *replay, uint32_t index) {
  return replay ? replay->now[replay->input_count + index].buffer : NULL;
}

/* Whether a location belongs to one argument only. A recording can be rebound only where
 * buffer and offset identify the argument. */
static bool stands_alone(const keel_static_run *static_run, const recording *r,
                         uint32_t index) {
  const keel_executable *executable = static_run->memory_plan->executable;
  const location *one = &r->locations[index];
  const keel_buffer *now = static_run->replay->now[index].buffer;
  if (!one->buffer || !one->buffer->handle || !now || !now->handle ||
      static_run->memory_plan->fixed)
    return false;
  for (uint32_t i = 0; i < static_run->replay->location_count; i++)
    if (i != index && replay_is_same(&r->locations[i], one)) return false;
  for (uint32_t i = 0; i < executable->value_count; i++) {
    const keel_tensor *at = executable->constants[i];
    location constant = location_of(at ? keel_late_there(at) : NULL);
    if (replay_is_same(&constant, one)) return false;
  }
  return true;
}

/* Rebinds a recording to this run's memory. False if that is impossible. */
static bool replay_put(const keel_static_run *static_run, recording *r) {
  keel_replay *replay = static_run->replay;
  const kd_capture_table *table = &replay->device->plugin->capture;
  uint32_t count = 0;
  if (!table->update) return false;
  for (uint32_t i = 0; i < replay->location_count; i++) {
    const location *from = &r->locations[i], *to = &replay->now[i];
    if (replay_is_same(from, to)) continue;
    if (!stands_alone(static_run, r, i)) return false;
    replay->rebinds[count++] = (kd_rebind){.from = from->buffer->handle,
                                           .to = to->buffer->handle,
                                           .from_offset = from->offset,
                                           .to_offset = to->offset};
  }
  keel_clear_error();
  if (table->update(r->capture, replay->rebinds, count) != KD_OK) return false;
  hold_locations(replay, r, replay->now);
  return true;
}

/* ---- runs ------------------------------------------------------------------------- */

/* Under the stream's lock, so that nothing else is recorded. */
static keel_status replay_record(keel_static_run *static_run, recording *r) {
  keel_replay *replay = static_run->replay;
  keel_device *device = replay->device;
  const kd_capture_table *table = &device->plugin->capture;
  kd_capture *capture = NULL;
  keel_clear_error();
  pthread_mutex_lock(&device->stream_lock);
  keel_status status = table->begin(device->stream, 0);
  if (status == KD_OK) {
    keel_status enqueued = keel_static_run_enqueue_steps(static_run);
    status = table->end(device->stream, &capture);
    if (status == KD_OK) status = enqueued;
  }
  pthread_mutex_unlock(&device->stream_lock);
  if (status != KD_OK) {
    if (capture) table->destroy(capture);
    return status;
  }
  r->capture = capture;
  hold_locations(replay, r, replay->now);
  return KD_OK;
}

static keel_status run_replay_launch(const keel_static_run *static_run,
                                     recording *r) {
  keel_replay *replay = static_run->replay;
  keel_device *device = replay->device;
  keel_backoff backoff = {0};
  kd_status status;
  r->used = replay->runs;
  keel_clear_error();
  pthread_mutex_lock(&device->stream_lock);
  status = keel_static_run_check(static_run);
  if (status == KD_OK) keel_static_run_writes(static_run, true);
  while (status == KD_OK) {
    status = device->plugin->capture.launch(r->capture, device->stream);
    if (!keel_backoff_retry(device, device->stream, &backoff, &status)) break;
  }
  pthread_mutex_unlock(&device->stream_lock);
  if (status == KD_OK) {
    atomic_fetch_add_explicit(
        &static_run->memory_plan->executable->plan->replays, 1,
        memory_order_relaxed);
    return KD_OK;
  }
  status = keel_device_check(device, status);
  if (!keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  const char *name = static_run->memory_plan->executable->name;
  return keel_while(status, "while %s launched a recording of %s", device->name,
                    *name ? name : "the program");
}

/* A free slot, else the least recently launched recording. */
static recording *oldest(keel_replay *replay) {
  recording *found = &replay->recordings[0];
  for (int i = 1; i < RECORDINGS && found->capture; i++) {
    recording *r = &replay->recordings[i];
    if (!r->capture || r->used < found->used) found = r;
  }
  return found;
}

/* Rebinds or makes a recording for this run's memory; chooses none if the steps can't be
 * recorded. */
static keel_status renew(keel_static_run *static_run) {
  keel_replay *replay = static_run->replay;
  for (uint32_t i = replay->input_count; i < replay->location_count; i++)
    replay->now[i] =
        location_of(static_run->output_slots[i - replay->input_count]);
  recording *r = oldest(replay);
  replay->chosen = r;
  if (r->capture) {
    if (replay_put(static_run, r)) return KD_OK;
    replay->renewed++;
    KEEL_TRY(discard(replay, r));
  }
  if (replay->renewed <= RENEWED_MOST && replay_record(static_run, r) == KD_OK)
    return KD_OK;
  replay->chosen = NULL;
  return turn_off(replay);
}

keel_status keel_replay_run(keel_static_run *static_run) {
  keel_replay *replay = static_run->replay;
  if (replay->off || replay->runs++ < RUNS_BEFORE)
    return keel_static_run_enqueue_each(static_run);
  if (!replay->chosen) KEEL_TRY(renew(static_run));
  return replay->chosen ? run_replay_launch(static_run, replay->chosen)
                        : keel_static_run_enqueue_each(static_run);
}
