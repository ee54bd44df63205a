/* opencl.h - shared by the files of the OpenCL plugin. */
#ifndef KEEL_OPENCL_H
#define KEEL_OPENCL_H

#include <kd/kd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api.h"
#include "common/shared.h"
#include "families/instance.h"
#include "families/programs.h"

extern const kd_host *ocl_host; /* from open to close */

#define FAIL(...) ocl_host->fail(__VA_ARGS__)

/* ---- devices ---------------------------------------------------------------------- */

struct kd_device {
  fam_driver families; /* first */
  cl_platform_id platform;
  cl_device_id id;
  cl_context context;
  cl_command_queue queue; /* of calls without a stream */
  char name[128], driver[128];
  bool unified; /* shares its memory with the host */
  uint32_t alignment;
  uint64_t global_size, max_buffer;
  char build_options[64];
  _Atomic uint64_t used, buffers;
  _Atomic uint64_t generation; /* counts buffers that were released */
  cl_commands commands;        /* of cl_khr_command_buffer, or NULL each */
  fam_programs programs;
  /* callbacks that the driver still owes, and who waits for the last */
  pthread_mutex_t pending_lock;
  pthread_cond_t pending_none;
  uint64_t pending, notes; /* notes: those of the profile */
  _Atomic bool profiling;
  _Atomic bool lost;
  bool idles;               /* nothing runs until somebody waits: oclgrind */
  _Atomic uint32_t streams; /* numbers them */
};

/* Translates a driver's error; the message names the call that failed. */
kd_status ocl_failed(cl_int code, const char *call);
const char *ocl_error_name(cl_int code);
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
  fam_stream common; /* first */
  cl_command_queue queue;
  bool timed;   /* the queue takes time stamps */
  bool foreign; /* it is an application's */
};

/* Makes a stream of this queue. Takes over the reference to the queue, even on failure. */
kd_status ocl_stream_over(kd_device *device, cl_command_queue queue, bool timed,
                          bool foreign, kd_stream **out_stream);

extern const kd_stream_table ocl_streams;
extern const fam_marks ocl_marks;

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
  uint64_t size; /* first */
  cl_mem memory;
  void *mapped;
  bool visible; /* in the host visible space */
  bool imported;
  bool exported;        /* made for others */
  shared_memory shared; /* that it is over; none: at is NULL */
};

extern const kd_memory_table ocl_memory;
extern const kd_external_table ocl_external;
extern const kd_native_table ocl_native;

/* A buffer of memory that can be exported as `kind`. */
kd_status ocl_allocate_exported(kd_device *device, uint64_t size, uint32_t kind,
                                kd_buffer **out_buffer);

/* ---- programs and kernels --------------------------------------------------------------- */

/* The program of this source, compiled or from a store; the device keeps it. */
kd_status ocl_program_get(kd_device *device, const char *source,
                          cl_program *out_program);
extern const fam_compiler ocl_compiler;

/* Whether compiled regions are given away, and taken from others. */
bool ocl_gives_forms(const kd_device *device);

/* Sets what the families call. */
void ocl_kernels_begin(kd_device *device);

/* A pass of a plan, ready to be launched. */
typedef struct ocl_program {
  cl_program source;
  cl_kernel kernel;
  size_t items, group;
  uint32_t buffer_count, param_count;
  /* of the device's `generation` when the arguments were set */
  uint64_t bound_in;
  kd_buffer *buffers[FAM_BUFFERS]; /* that they are */
  uint64_t offsets[FAM_BUFFERS];
  uint32_t params[]; /* set once */
} ocl_program;

/* Another kernel of the same program, with arguments of its own. */
kd_status ocl_program_twin(const ocl_program *program, ocl_program **out_twin);
/* Sets the arguments that have changed. */
kd_status ocl_program_bind(kd_device *d, ocl_program *p, const fam_command *m);

/* ---- commands and recordings --------------------------------------------------------- */

/* Enqueues it; `wait`: returns when it is done. */
kd_status ocl_enqueue(kd_device *device, kd_stream *stream,
                      const fam_command *m, uint64_t correlation, bool wait);

extern const fam_recorder ocl_recorder;

extern const kd_profile_table ocl_profile;

#endif /* KEEL_OPENCL_H */
