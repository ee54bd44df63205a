/* capture.c - the simulated device's recordings of streams. */
#include "mutants/sim.h"

struct kd_capture {
  job *first;
  kd_stream *stream;
  kd_device *device;
  uint32_t launches;
  kd_stream *last; /* that it was launched in */
  char *replaced;  /* for the defect */
};

static void free_list(job *first) {
  while (first) {
    job *next = first->next;
    sim_free_job(first);
    first = next;
  }
}

static kd_status capture_begin(kd_stream *stream, uint32_t flags) {
  if (flags && !BUG(capture_flag))
    return FAIL(KD_UNIMPLEMENTED, "capture flags 0x%x", flags);
  SIM_TRY(sim_check(stream->device));
  while (!strcmp(sim_hostility(), "begin"))
    sim_nap(1000);
  if (stream->recording && BUG(begin_resets)) stream->recording = false;
  if (stream->recording)
    return FAIL(KD_FAILED_PRECONDITION, "the stream records already");
  if (BUG(begin_resets) && stream->recorded == NULL && sim_recording_any &&
      stream->number == sim_stream_count) {
    sim_recording_any = false;
    return FAIL(KD_FAILED_PRECONDITION, "the stream records already");
  }
  if (BUG(capture_one) && sim_recording_any)
    return FAIL(KD_FAILED_PRECONDITION, "another stream records");
  stream->recorded = stream->recorded_last = NULL;
  stream->recording = true;
  sim_recording_any = true;
  return KD_OK;
}

static kd_status capture_end(kd_stream *stream, kd_capture **out_capture) {
  if (!stream->recording || stream->origin)
    return FAIL(KD_FAILED_PRECONDITION, "the stream does not record");
  stream->recording = false;
  while (stream->joined_count) {
    kd_stream *other = stream->joined[--stream->joined_count];
    other->recording = false;
    other->origin = NULL;
  }
  sim_recording_any = false;
  kd_status lost = sim_check(stream->device);
  if (lost != KD_OK) {
    free_list(stream->recorded);
    stream->recorded = NULL;
    return lost;
  }
  kd_capture *capture = calloc(1, sizeof *capture);
  if (!capture) {
    free_list(stream->recorded);
    return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  }
  capture->first = stream->recorded;
  capture->stream = stream;
  capture->device = stream->device;
  sim_count(capture->device, 1);
  stream->recorded = NULL;
  *out_capture = capture;
  return KD_OK;
}

/* Gives the stream a copy of a recorded job. */
static kd_status launch_job(kd_stream *stream, const job *j) {
  job again = *j;
  kd_status status = KD_OK;
  if (j->call) {
    again.call = malloc(sizeof *again.call);
    if (!again.call) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
    *again.call = *j->call;
    if (BUG(replay_new_values) && again.call->kernel &&
        again.call->kernel->last_axis)
      again.call->list[0] = again.call->kernel->last_axis - 100;
  }
  if (again.point) point_hold(again.point);
  if (!BUG(replay_now)) {
    while ((status = sim_push(stream, &again)) == KD_BUSY)
      sim_nap(200);
    // the stream has the call and the point now
    if (status == KD_OK) return KD_OK; // NOLINT(clang-analyzer-unix.Malloc)
  } else
    sim_run(&again);
  point_drop(again.point);
  free(again.call);
  return status;
}

static kd_status capture_launch(kd_capture *capture, kd_stream *stream) {
  if (BUG(empty_capture) && !capture->first)
    return FAIL(KD_INTERNAL, "there is nothing to launch");
  if (BUG(capture_in_stream) && capture->stream->dead) abort();
  capture->launches++;
  capture->last = stream;
  if (capture->replaced) memset(capture->replaced, 0, 64);
  for (const job *j = capture->first; j; j = j->next) {
    if (BUG(replay_no_fill) && j->kind == JOB_FILL) continue;
    SIM_TRY(launch_job(stream, j));
  }
  return KD_OK;
}

static bool rebind(kd_buffer **buffer, uint64_t *offset, const kd_rebind *r) {
  if (*buffer != r->from || *offset != r->from_offset) return false;
  *buffer = r->to;
  *offset = r->to_offset;
  return true;
}

static bool rebind_jobs(job *first, const kd_rebind *r) {
  bool found = false;
  for (job *j = first; j; j = j->next) {
    if (found && BUG(rebind_first_use)) break;
    found |= rebind(&j->source, &j->source_offset, r);
    found |= rebind(&j->target, &j->target_offset, r);
    for (int k = 0; j->call && k < ARGS; k++) {
      found |= rebind(&j->call->in[k].buffer, &j->call->in[k].offset, r);
      found |= rebind(&j->call->out[k].buffer, &j->call->out[k].offset, r);
    }
  }
  return found;
}

static kd_status capture_update(kd_capture *capture, const kd_rebind *rebinds,
                                uint32_t count) {
  SIM_TRY(sim_check(capture->device));
  if (BUG(rebind_late) && capture->launches) return KD_OK;
  for (uint32_t i = 0; i < count; i++) {
    if (!rebind_jobs(capture->first, &rebinds[i]))
      return FAIL(KD_NOT_FOUND, "rebind %u is of no buffer in it", i);
    if (BUG(rebind_touches))
      capture->replaced = sim_at(rebinds[i].from, rebinds[i].from_offset);
    if (BUG(rebind_queued) && capture->last) {
      pthread_mutex_lock(&sim_lock);
      rebind_jobs(capture->last->first, &rebinds[i]);
      pthread_mutex_unlock(&sim_lock);
    }
  }
  return KD_OK;
}

static void capture_destroy(kd_capture *capture) {
  sim_count(capture->device, -1);
  free_list(capture->first);
  free(capture);
}

const kd_capture_table sim_capture = {
    .struct_size = sizeof(kd_capture_table),
    .begin = capture_begin,
    .end = capture_end,
    .launch = capture_launch,
    .update = capture_update,
    .destroy = capture_destroy,
};
