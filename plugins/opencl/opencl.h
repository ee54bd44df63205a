/* opencl.h - shared by the files of the OpenCL plugin. */
#ifndef KEEL_OPENCL_H
#define KEEL_OPENCL_H

#include <kd/kd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api.h"
#include "families/instance.h"
#include "families/programs.h"

extern const kd_host *ocl_host; /* from open to close */

#define FAIL(...) ocl_host->fail(__VA_ARGS__)

/* ---- devices ---------------------------------------------------------------------- */

struct kd_device {
  cl_platform_id platform;
  cl_device_id id;
  cl_context context;
  cl_command_queue queue; /* of calls without a stream */
  char name[128], driver[128];
  uint64_t global_size, max_buffer;
  fam_driver families;
  char build_options[64];
  _Atomic uint64_t used, buffers;
  fam_programs programs;
  /* callbacks that the driver still owes, and who waits for the last */
  pthread_mutex_t pending_lock;
  pthread_cond_t pending_none;
  uint64_t pending, notes; /* notes: those of the profile */
  _Atomic bool profiling;
  _Atomic uint32_t streams; /* numbers them */
};

/* What an error of the driver means; says which call failed. */
kd_status ocl_failed(cl_int code, const char *call);
#define OCL_TRY(call, expression)                                    \
  do {                                                               \
    cl_int ocl_code_ = (expression);                                 \
    if (ocl_code_ != CL_SUCCESS) return ocl_failed(ocl_code_, call); \
  } while (0)

/* Remembers signal handlers and the environment, and puts back what the calls in
 * between have changed. */
#define OCL_SIGNALS 65
typedef struct ocl_guard {
  struct sigaction actions[OCL_SIGNALS];
  stack_t stack;
  uint32_t count;
  char **variables;
} ocl_guard;
void ocl_guard_begin(ocl_guard *guard);
void ocl_guard_end(ocl_guard *guard);

/* A callback that the driver owes is begun, and has been made; `note`: it is one of
 * the profile's. */
void ocl_owe(kd_device *device, bool note);
void ocl_paid(kd_device *device, bool note);

/* ---- streams ------------------------------------------------------------------------ */

struct kd_stream {
  kd_device *device;
  cl_command_queue queue;
  uint32_t number;
  kd_capture *recording; /* NULL: it runs */
};

extern const kd_stream_table ocl_streams;
extern const kd_event_table ocl_events;

/* The queue for work on a stream; the device's own where there is none. */
static inline cl_command_queue ocl_queue(kd_device *device, kd_stream *stream) {
  return stream ? stream->queue : device->queue;
}

/* Behind each command that was given an event: notes it for the profile. Takes
 * the event. */
void ocl_note(kd_device *device, kd_stream *stream, cl_event event,
              uint32_t kind, uint64_t bytes, uint64_t correlation);

/* ---- memory -------------------------------------------------------------------------- */

struct kd_buffer {
  cl_mem memory;
  uint64_t size;
  void *mapped;
  bool visible; /* in the host visible space */
};

extern const kd_memory_table ocl_memory;

/* ---- programs and kernels --------------------------------------------------------------- */

/* The program of this source, compiled or from a store; the device keeps it. */
kd_status ocl_program_get(kd_device *device, const char *source,
                          cl_program *out_program);
void ocl_programs_begin(kd_device *device);

/* Sets what the families call. */
void ocl_kernels_begin(kd_device *device);

/* ---- recordings ------------------------------------------------------------------------ */

extern const kd_capture_table ocl_capture;

/* One command of a recording. */
typedef struct ocl_command {
  enum { OCL_LAUNCH, OCL_COPY_IN, OCL_COPY_OUT, OCL_COPY, OCL_FILL } kind;
  cl_kernel kernel; /* with its arguments set; the recording's own */
  size_t items, group;
  uint32_t buffer_count;
  kd_buffer *buffers[FAM_BUFFERS];
  uint64_t offsets[FAM_BUFFERS];
  const void *source;
  void *target;
  uint64_t size;
  uint8_t pattern[16];
  uint32_t pattern_size;
} ocl_command;

/* Whether a stream records into it now; false where the recording has ended. */
bool ocl_capture_join(kd_capture *capture, kd_stream *stream);
/* Holds a recording, and lets go. */
void ocl_capture_take(kd_capture *capture);
void ocl_capture_drop(kd_capture *capture);

/* Adds a copy of a command to what the stream records. */
kd_status ocl_record(kd_stream *stream, const ocl_command *command);

extern const kd_profile_table ocl_profile;

#endif /* KEEL_OPENCL_H */
