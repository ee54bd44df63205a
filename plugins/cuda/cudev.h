/* cudev.h - shared by the files of the CUDA plugin. (cuda.h is the toolkit's.) */
#ifndef KEEL_CUDA_CUDEV_H
#define KEEL_CUDA_CUDEV_H

#include <kd/kd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api.h"
#include "families/instance.h"
#include "families/programs.h"
#include "library.h"

extern const kd_host *cuda_host; /* from open to close */

#define FAIL(...) cuda_host->fail(__VA_ARGS__)

/* ---- devices ----------------------------------------------------------------------- */

/* Memory that one call of a library after the other uses. */
typedef struct cuda_scratch {
  cu_pointer memory;
  size_t size;
} cuda_scratch;

/* Where work goes: in order, so that it may share the memory. */
typedef struct cuda_lane {
  cu_stream queue;
  cuda_scratch scratch;
} cuda_lane;

struct cuda_notice;
struct cuda_note;
struct cuda_stage;

struct kd_device {
  fam_driver families; /* first */
  uint32_t index;
  cu_device id;
  cu_context context; /* the primary one, which others in the process share */
  bool tf32;          /* f32 may be rounded to it: option tf32 */
  cuda_lane lane;     /* of calls without a stream */
  pthread_mutex_t lane_lock;
  cu_pool pool; /* NULL: it has none */
  char name[128], driver[128];
  int architecture; /* 90: sm_90 */
  fam_programs programs;
  struct cuda_libraries *libraries;
  uint64_t total;
  _Atomic uint64_t used, buffers; /* for `stats` */
  _Atomic uint32_t streams;       /* numbers them */

  /* 1: an error that stays has been met, `why` is being written; 2: it is there. */
  atomic_uint lost;
  char why[300];

  /* callbacks that are owed, and what looks after them (notice.c) */
  pthread_mutex_t notices_lock;
  pthread_cond_t notices_changed;
  struct cuda_notice *notices;
  uint32_t owed; /* those not called yet */
  pthread_t watcher;
  bool watched, closing;
  pthread_mutex_t sides_lock; /* of the hidden streams that callbacks come by */
  cu_stream sides[16];
  uint32_t side_count, next_side;

  /* staging.c: pinned memory, all, and what is free or goes in; under the lock */
  pthread_mutex_t stages_lock;
  struct cuda_stage *stages, *free_stages, *busy_stages;
  size_t staged;

  /* profile.c; the lock is of the rest */
  atomic_bool profiling;
  pthread_mutex_t notes_lock;
  struct cuda_note *notes, **notes_end;
  cu_event zero;      /* when the device's clock began, as we tell it */
  uint64_t zero_time; /* the host's, then */
};

/* What an error of the driver means, with the call that said it. An error after which the
 * context can do nothing any more loses the device: it is logged once. */
kd_status cuda_failed(kd_device *device, cu_result code, const char *call);
/* KD_DEVICE_LOST, with the reason of then; KD_OK while it works. */
kd_status cuda_lost(kd_device *device);
const char *cuda_why_lost(kd_device *device); /* NULL: it is not */
/* Counts it as lost for another reason than an error of its own. */
void cuda_lose(kd_device *device, const char *what, const char *why);

#define CU_TRY(device, call, expression)                               \
  do {                                                                 \
    cu_result cu_code_ = (expression);                                 \
    if (cu_code_ != CU_OK) return cuda_failed(device, cu_code_, call); \
  } while (0)

/* The device's context is the calling thread's between the two: all of the driver's calls
 * that don't say which device they mean are made there. What the thread had is put back.
 * KD_DEVICE_LOST where it is. */
kd_status cuda_enter(kd_device *device);
/* The same for what frees something, which a lost device does, too. */
bool cuda_enter_anyhow(kd_device *device);
void cuda_leave(void);
/* Leaves it, and says what a call there has returned. */
kd_status cuda_left(kd_device *device, cu_result code, const char *call);
#define CU_ENTER(device)                          \
  do {                                            \
    kd_status cu_entered_ = cuda_enter(device);   \
    if (cu_entered_ != KD_OK) return cu_entered_; \
  } while (0)

/* ---- streams ------------------------------------------------------------------------- */

struct kd_stream {
  fam_stream common; /* first */
  cuda_lane lane;
  bool foreign; /* the driver's stream is an application's */
};

/* At least `size` bytes; what it was goes in the lane's order. In the context. */
kd_status cuda_lane_reserve(kd_device *device, cuda_lane *lane, size_t size);
void cuda_lane_release(kd_device *device, cuda_lane *lane);

/* A stream in one of the driver's. */
kd_status cuda_stream_over(kd_device *device, cu_stream queue, bool foreign,
                           kd_stream **out_stream);

extern const kd_stream_table cuda_streams;
extern const fam_marks cuda_marks;

/* Calls `callback` once, when `event` has happened or can't any more. In the context. */
kd_status cuda_notify(kd_device *device, cu_event event,
                      kd_event_callback callback, void *context);
void cuda_notices_begin(kd_device *device);
/* Waits for all that are owed. In the context. */
void cuda_notices_end(kd_device *device);

/* ---- memory ---------------------------------------------------------------------------- */

struct kd_buffer {
  uint64_t size; /* first */
  cu_pointer memory;
  void *host; /* the same, where it is host memory */
};

/* Where argument `at` of a command is; 0: there is none. */
static inline cu_pointer cuda_place_of(const fam_command *m, uint32_t at) {
  return at < m->buffer_count && m->buffers[at]
             ? m->buffers[at]->memory + m->offsets[at]
             : 0;
}

/* Copies from or to host memory in a stream that runs, without waiting for it, in the
 * context. KD_UNIMPLEMENTED: that is the driver's to do. */
kd_status cuda_stage_copy(kd_device *device, cu_stream queue,
                          const fam_command *m);
void cuda_stages_begin(kd_device *device);
/* In the context; no copy is under way. */
void cuda_stages_end(kd_device *device);

extern const kd_memory_table cuda_memory;
extern const kd_peer_table cuda_peer;
extern const kd_native_table cuda_native;
extern const kd_collective_table cuda_collectives;
/* Ends what waits for a device that was lost. */
void cuda_groups_lost(void);

/* ---- kernels ------------------------------------------------------------------------------ */

/* A pass of a plan, ready to be launched. Its instance holds it, and each recording that it
 * is in: the instance may be given another plan. */
typedef struct cuda_program {
  atomic_uint users;
  /* of a module that the device keeps; NULL: a library does it, and the kernel has not been
   * needed */
  cu_function function;
  char *source;           /* of that kernel */
  struct cuda_call *call; /* of a library; or NULL */
  unsigned groups, group;
  uint32_t buffer_count, param_count;
  uint32_t params[];
} cuda_program;

/* What a library does of a pass. */
typedef struct cuda_call {
  /* Enqueues it; in the context, under the lock. KD_UNIMPLEMENTED: not with these
   * arguments. */
  kd_status (*enqueue)(kd_device *device, cuda_lane *lane,
                       struct cuda_call *self, const fam_command *m);
  void (*destroy)(struct cuda_call *self);
  size_t workspace;
  pthread_mutex_t lock;
  bool off; /* the library has refused it */
} cuda_call;

/* One for a product of matrices by cuBLASLt, or a convolution by cuDNN. *out_call is NULL
 * where the library is not there, or does no such thing. In the context. */
kd_status cuda_product_make(kd_device *device, const fam_pass *pass,
                            cuda_call **out_call);
kd_status cuda_convolution_make(kd_device *device, const fam_pass *pass,
                                cuda_call **out_call);

/* Where a pass has the buffer of this name; UINT32_MAX: it has none. */
uint32_t cuda_buffer_named(const fam_pass *pass, const char *name);
/* The device's handles of the libraries; NULL where there is none. The second one is used
 * under a lock. */
kd_status cuda_libraries_begin(kd_device *device);
void cuda_libraries_end(kd_device *device);
lt_handle cuda_lt(kd_device *device);
dnn_handle cuda_dnn(kd_device *device);
void cuda_dnn_lock(kd_device *device);
void cuda_dnn_unlock(kd_device *device);
/* Compiles a source for an architecture (90: sm_90) that NVRTC knows, or for the newest
 * before it: *out_code is a cubin then, or PTX; host->release frees it. */
kd_status cuda_compile(const kd_host *host, int architecture,
                       const char *source, size_t head, char **out_code,
                       size_t *out_size);

void cuda_program_take(cuda_program *p);

extern const fam_compiler cuda_compiler;
/* The function of this source, compiled or from the host's store. In the context. */
kd_status cuda_program_get(kd_device *device, const char *source,
                           cu_function *out_function);
/* Has profilers told of ops. */
void cuda_ranges_begin(kd_device *device);
/* Sets what the families call. */
void cuda_kernels_begin(kd_device *device);

/* ---- commands and recordings ------------------------------------------------------------ */

/* Enqueues it; in the context. */
kd_status cuda_enqueue(kd_device *device, cuda_lane *lane,
                       const fam_command *m);
/* The same, with a note for the profile where one is wanted. */
kd_status cuda_enqueue_noted(kd_device *device, kd_stream *stream,
                             const fam_command *m, uint64_t correlation);
/* As fam_driver.run. */
kd_status cuda_do(kd_device *device, kd_stream *stream, const fam_command *m,
                  uint64_t correlation);

extern const fam_recorder cuda_recorder;

/* Around a command of a stream that is profiled; in the context. *out_note is NULL where
 * there is no memory for one. */
void cuda_note_begin(kd_device *device, kd_stream *stream, uint32_t kind,
                     uint64_t bytes, uint64_t correlation,
                     struct cuda_note **out_note);
void cuda_note_end(kd_device *device, kd_stream *stream,
                   struct cuda_note *note);
void cuda_profile_begin(kd_device *device);
void cuda_profile_end(kd_device *device);
extern const kd_profile_table cuda_profile;

#endif /* KEEL_CUDA_CUDEV_H */
