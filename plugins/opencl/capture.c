/* capture.c - recordings. One that needs nothing of the host is a command buffer
 * (cl_khr_command_buffer), where the device has them; others are enqueued command by
 * command, with kernels of their own that keep their arguments. */
#include <string.h>

#include "opencl.h"

/* The commands as the driver has them. */
typedef struct taken {
  struct taken *next;
  cl_command_buffer_khr commands;
  cl_event last;   /* the end of its last launch; NULL: none */
  uint32_t stream; /* the number of the one that it was made for */
  bool foreign;    /* whose queue is an application's */
} taken;

struct kd_capture {
  fam_recording recording; /* first */
  bool needs_host;         /* the device alone can't do all of it */
  taken *now;              /* NULL: to be made */
  taken *older;            /* of before an update; one may still run */
};

static bool is_busy(const taken *t) {
  cl_int state = CL_COMPLETE;
  return t->last &&
         cl.GetEventInfo(t->last, CL_EVENT_COMMAND_EXECUTION_STATUS,
                         sizeof state, &state, NULL) == CL_SUCCESS &&
         state > CL_COMPLETE;
}

static void free_taken(kd_device *d, taken *t) {
  if (t->last) cl.ReleaseEvent(t->last);
  if (t->commands) d->commands.Release(t->commands);
  ocl_host->release(ocl_host, t);
}

/* Those that don't run any more; `all`: the others, too, when they have ended. */
static void free_older(kd_capture *c, bool all) {
  for (taken **at = &c->older; *at;) {
    taken *t = *at;
    if (is_busy(t) && !all) {
      at = &t->next;
      continue;
    }
    if (t->last) cl.WaitForEvents(1, &t->last);
    *at = t->next;
    free_taken(c->recording.device, t);
  }
}

static void retire(kd_capture *c) {
  if (!c->now) return;
  c->now->next = c->older;
  c->older = c->now;
  c->now = NULL;
}

/* ---- what is recorded ---------------------------------------------------------------- */

static kd_status opencl_capture_added(kd_capture *c, fam_command *m) {
  ocl_program *twin = NULL;
  c->needs_host |= m->kind == FAM_COPY_IN || m->kind == FAM_COPY_OUT;
  if (m->kind != FAM_LAUNCH) return KD_OK;
  kd_status status = ocl_program_twin(m->program, &twin);
  m->program = twin;
  return status;
}

static void opencl_capture_destroy(kd_capture *c) {
  retire(c);
  free_older(c, true);
}

/* ---- launches ------------------------------------------------------------------------ */

static kd_status capture_put(kd_device *d, cl_command_buffer_khr commands,
                             const fam_command *m) {
  const cl_commands *k = &d->commands;
  if (m->kind == FAM_LAUNCH) {
    ocl_program *p = m->program;
    kd_status status = ocl_program_bind(d, p, m);
    if (status != KD_OK) return status;
    OCL_TRY("clCommandNDRangeKernelKHR",
            k->NDRangeKernel(commands, NULL, NULL, p->kernel, 1, NULL,
                             &p->items, &p->group, 0, NULL, NULL, NULL));
    return KD_OK;
  }
  cl_mem first = m->buffers[0]->memory;
  if (m->kind == FAM_COPY)
    OCL_TRY("clCommandCopyBufferKHR",
            k->CopyBuffer(commands, NULL, first, m->buffers[1]->memory,
                          (size_t)m->offsets[0], (size_t)m->offsets[1],
                          (size_t)m->size, 0, NULL, NULL, NULL));
  else
    OCL_TRY("clCommandFillBufferKHR",
            k->FillBuffer(commands, NULL, first, m->pattern, m->pattern_size,
                          (size_t)m->offsets[0], (size_t)m->size, 0, NULL, NULL,
                          NULL));
  return KD_OK;
}

/* Under the lock. */
static kd_status capture_take(kd_capture *c, kd_stream *stream) {
  const fam_recording *r = &c->recording;
  kd_device *d = r->device;
  const cl_command_buffer_properties_khr properties[] = {
      CL_COMMAND_BUFFER_FLAGS_KHR, CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
  cl_int code = CL_SUCCESS;
  taken *t = ocl_host->allocate(ocl_host, sizeof *t, 0);
  if (!t) return FAIL(KD_OUT_OF_MEMORY, "no memory to replay");
  memset(t, 0, sizeof *t);
  t->stream = stream->common.number;
  t->foreign = stream->foreign;
  t->commands = d->commands.Create(1, &stream->queue, properties, &code);
  kd_status status =
      t->commands ? KD_OK : ocl_failed(code, "clCreateCommandBufferKHR");
  for (uint32_t i = 0; status == KD_OK && i < r->count; i++)
    status = capture_put(d, t->commands, &r->commands[i]);
  if (status == KD_OK) {
    code = d->commands.Finalize(t->commands);
    if (code != CL_SUCCESS)
      status = ocl_failed(code, "clFinalizeCommandBufferKHR");
  }
  if (status == KD_OK)
    c->now = t;
  else
    free_taken(d, t);
  return status;
}

static kd_status launch_whole(kd_capture *c, kd_stream *stream) {
  cl_event event = NULL;
  /* a queue of another kind takes no commands of this one's */
  if (c->now && c->now->stream != stream->common.number &&
      (c->now->foreign || stream->foreign))
    retire(c);
  kd_status status = c->now ? KD_OK : capture_take(c, stream);
  if (status != KD_OK) return status;
  OCL_TRY("clEnqueueCommandBufferKHR",
          c->recording.device->commands.Enqueue(
              1, &stream->queue, c->now->commands, 0, NULL, &event));
  if (c->now->last) cl.ReleaseEvent(c->now->last);
  c->now->last = event;
  return KD_OK;
}

static kd_status opencl_capture_launch(kd_capture *c, kd_stream *stream) {
  fam_recording *r = &c->recording;
  kd_status status = KD_OK;
  if (!r->count) return KD_OK;
  free_older(c, false);
  if (r->device->commands.Create && !c->needs_host &&
      !atomic_load(&r->device->profiling))
    return launch_whole(c, stream);
  for (uint32_t i = 0; status == KD_OK && i < r->count; i++)
    status = ocl_enqueue(r->device, stream, &r->commands[i], 0, false);
  return status;
}

const fam_recorder ocl_recorder = {
    .size = sizeof(kd_capture),
    .added = opencl_capture_added,
    .rebound = retire, /* a launch sets the arguments that are others */
    .launch = opencl_capture_launch,
    .destroy = opencl_capture_destroy,
};
