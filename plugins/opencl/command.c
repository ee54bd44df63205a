/* command.c - launches, copies and fills, enqueued. */
#include "opencl.h"

static kd_status command_launch(kd_device *d, cl_command_queue queue,
                                const fam_command *m, cl_event *event) {
  ocl_program *p = m->program;
  kd_status status = ocl_program_bind(d, p, m);
  if (status != KD_OK) return status;
  OCL_TRY("clEnqueueNDRangeKernel",
          cl.EnqueueNDRangeKernel(queue, p->kernel, 1, NULL, &p->items,
                                  &p->group, 0, NULL, event));
  return KD_OK;
}

static kd_status command_copy(cl_command_queue queue, const fam_command *m,
                              bool wait, cl_event *event) {
  cl_mem first = m->buffers[0]->memory;
  size_t offset = (size_t)m->offsets[0], size = (size_t)m->size;
  switch (m->kind) {
    case FAM_COPY_IN:
      OCL_TRY("clEnqueueWriteBuffer",
              cl.EnqueueWriteBuffer(queue, first, wait, offset, size, m->source,
                                    0, NULL, event));
      break;
    case FAM_COPY_OUT:
      OCL_TRY("clEnqueueReadBuffer",
              cl.EnqueueReadBuffer(queue, first, wait, offset, size, m->target,
                                   0, NULL, event));
      break;
    case FAM_COPY:
      OCL_TRY(
          "clEnqueueCopyBuffer",
          cl.EnqueueCopyBuffer(queue, first, m->buffers[1]->memory, offset,
                               (size_t)m->offsets[1], size, 0, NULL, event));
      break;
    default:
      OCL_TRY("clEnqueueFillBuffer",
              cl.EnqueueFillBuffer(queue, first, m->pattern, m->pattern_size,
                                   offset, size, 0, NULL, event));
  }
  return KD_OK;
}

kd_status ocl_enqueue(kd_device *d, kd_stream *stream, const fam_command *m,
                      uint64_t correlation, bool wait) {
  cl_command_queue queue = ocl_queue(d, stream);
  cl_event event = NULL;
  bool noted = (!stream || stream->timed) &&
               atomic_load_explicit(&d->profiling, memory_order_relaxed);
  cl_event *wanted = noted ? &event : NULL;
  kd_status status = m->kind == FAM_LAUNCH
                         ? command_launch(d, queue, m, wanted)
                         : command_copy(queue, m, wait, wanted);
  if (status != KD_OK) return status;
  if (event)
    ocl_note(d, stream, event, fam_profile_kind(m), m->size, correlation);
  if (!wait || m->kind == FAM_COPY_IN || m->kind == FAM_COPY_OUT) return KD_OK;
  OCL_TRY("clFinish", cl.Finish(queue));
  return KD_OK;
}
