/* command.c - launches, copies and fills, enqueued. */
#include <string.h>

#include "cudev.h"

static kd_status launch_kernel(kd_device *d, cu_stream queue,
                               const fam_command *m) {
  cuda_program *p = m->program;
  cu_pointer places[FAM_BUFFERS];
  void *arguments[FAM_BUFFERS + 1];
  for (uint32_t i = 0; i < m->buffer_count; i++) {
    places[i] = cuda_place_of(m, i);
    arguments[i] = &places[i];
  }
  arguments[m->buffer_count] = p->params;
  CU_TRY(d, "cuLaunchKernel",
         cu.LaunchKernel(p->function, p->groups, 1, 1, p->group, 1, 1, 0, queue,
                         arguments, NULL));
  return KD_OK;
}

/* The kernel that a library was to do without, compiled when it is first needed. */
static kd_status launch_own(kd_device *d, cu_stream queue,
                            const fam_command *m) {
  cuda_program *p = m->program;
  if (!p->function) {
    kd_status status = cuda_program_get(d, p->source, &p->function);
    if (status != KD_OK) return status;
  }
  return launch_kernel(d, queue, m);
}

/* By a library, or by the pass's own kernel where the library refuses. */
static kd_status call_library(kd_device *d, cuda_lane *lane,
                              const fam_command *m) {
  const cuda_program *p = m->program;
  cuda_call *call = p->call;
  pthread_mutex_lock(&call->lock);
  kd_status status =
      call->off ? KD_OK : cuda_lane_reserve(d, lane, call->workspace);
  if (status == KD_OK) {
    status = call->off ? KD_UNIMPLEMENTED : call->enqueue(d, lane, call, m);
    if (status == KD_UNIMPLEMENTED) status = launch_own(d, lane->queue, m);
  }
  pthread_mutex_unlock(&call->lock);
  return status;
}

static kd_status command_launch(kd_device *d, cuda_lane *lane,
                                const fam_command *m) {
  const cuda_program *p = m->program;
  return p->call ? call_library(d, lane, m) : launch_kernel(d, lane->queue, m);
}

/* A pattern of two and four words: each word as a column of its own. */
static cu_result fill_columns(cu_pointer at, const fam_command *m,
                              cu_stream queue) {
  cu_result code = CU_OK;
  uint32_t words[4];
  memcpy(words, m->pattern, sizeof words);
  for (uint32_t i = 0; code == CU_OK && i < m->pattern_size / 4; i++)
    code = cu.MemsetD2D32Async(at + 4 * i, m->pattern_size, words[i], 1,
                               (size_t)(m->size / m->pattern_size), queue);
  return code;
}

static kd_status command_fill(kd_device *d, cu_stream queue,
                              const fam_command *m) {
  cu_pointer at = m->buffers[0]->memory + m->offsets[0];
  size_t size = (size_t)m->size;
  uint16_t half = 0;
  uint32_t word = 0;
  memcpy(&half, m->pattern, sizeof half);
  memcpy(&word, m->pattern, sizeof word);
  CU_TRY(d, "cuMemsetAsync",
         m->pattern_size == 1 ? cu.MemsetD8Async(at, m->pattern[0], size, queue)
         : m->pattern_size == 2 ? cu.MemsetD16Async(at, half, size / 2, queue)
         : m->pattern_size == 4 ? cu.MemsetD32Async(at, word, size / 4, queue)
                                : fill_columns(at, m, queue));
  return KD_OK;
}

kd_status cuda_enqueue(kd_device *d, cuda_lane *lane, const fam_command *m) {
  cu_stream queue = lane->queue;
  if (m->kind == FAM_LAUNCH) return command_launch(d, lane, m);
  if (m->kind == FAM_FILL) return command_fill(d, queue, m);
  cu_pointer first = m->buffers[0]->memory + m->offsets[0];
  size_t size = (size_t)m->size;
  if (m->kind == FAM_COPY_IN)
    CU_TRY(d, "cuMemcpyHtoDAsync",
           cu.MemcpyHtoDAsync(first, m->source, size, queue));
  else if (m->kind == FAM_COPY_OUT)
    CU_TRY(d, "cuMemcpyDtoHAsync",
           cu.MemcpyDtoHAsync(m->target, first, size, queue));
  else
    /* either end may be host memory: the driver sees that by the addresses */
    CU_TRY(d, "cuMemcpyAsync",
           cu.MemcpyAsync(m->buffers[1]->memory + m->offsets[1], first, size,
                          queue));
  return KD_OK;
}

kd_status cuda_enqueue_noted(kd_device *d, kd_stream *stream,
                             const fam_command *m, uint64_t correlation) {
  struct cuda_note *note = NULL;
  /* relaxed: one command more or less at either end of a profile */
  bool profiling =
      stream && atomic_load_explicit(&d->profiling, memory_order_relaxed);
  if (profiling)
    cuda_note_begin(d, stream, fam_profile_kind(m), m->size, correlation,
                    &note);
  if (!stream) pthread_mutex_lock(&d->lane_lock);
  kd_status status =
      stream ? cuda_stage_copy(d, stream->lane.queue, m) : KD_UNIMPLEMENTED;
  if (status == KD_UNIMPLEMENTED)
    status = cuda_enqueue(d, stream ? &stream->lane : &d->lane, m);
  if (!stream) pthread_mutex_unlock(&d->lane_lock);
  if (note) cuda_note_end(d, stream, note);
  return status;
}

kd_status cuda_do(kd_device *d, kd_stream *stream, const fam_command *m,
                  uint64_t correlation) {
  CU_ENTER(d);
  kd_status status = cuda_enqueue_noted(d, stream, m, correlation);
  if (status == KD_OK && !stream)
    return cuda_left(d, cu.StreamSynchronize(d->lane.queue),
                     "cuStreamSynchronize");
  cuda_leave();
  return status;
}
