/* sim.h - a simulated accelerator that fills every level and option of the ABI:
 * memory that the host can't address, queues served by threads, events, replay,
 * regions with blobs, timestamps, two devices.
 *
 * It is sound, but for the one defect that the variable KEEL_SIM names, or odd
 * in a way that is legal. Its options "lose" and "lose_copy" (KEEL_SIM_LOSE=N,
 * KEEL_SIM_LOSE_COPY=N), read when a device is opened, have that be lost at its N-th
 * launch or copy, until it is closed and opened again. */
#ifndef SIM_H
#define SIM_H

#include <kd/kd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mutants/named.h"

extern char sim_variant[64]; /* KEEL_SIM; "": sound */
extern uint32_t
    sim_ring; /* KEEL_SIM_RING: what a stream takes before KD_BUSY; 0: any */
/* Whether it has this defect, or is odd in this way. */
#define BUG(name) named(sim_variant, #name)
#define ODD(name) named(sim_variant, #name)

extern const kd_host *sim_host;
extern kd_op_def sim_ops[1]; /* ops.c */
void sim_ops_init(void);
#define FAIL(...) sim_host->fail(__VA_ARGS__)
/* Gives up where a call fails. */
#define SIM_TRY(call)                     \
  do {                                    \
    kd_status failed_ = (call);           \
    if (failed_ != KD_OK) return failed_; \
  } while (0)

struct kd_device {
  uint32_t index;
  unsigned long lose_launch, lose_copy; /* which; 0: none */
  atomic_ulong launches, copies;
  atomic_bool lost;
  atomic_int objects; /* of it, not yet given back */
};
extern struct kd_device sim_devices[2];

struct kd_buffer {
  kd_device *device;
  char *bytes;
  void *raw;
  uint64_t size;
  uint32_t space;
  bool external;
  int file;     /* of what is exported as a descriptor, or imported so */
  void *mapped; /* NULL: no file */
  uint64_t mapped_size;
  uint32_t export_kind; /* that it was made for */
  char *shadow;         /* of a map that goes through a copy */
  uint32_t map_access;
};

/* What becomes known once: an event's point in a stream. Counted. */
typedef struct waiter {
  struct waiter *next;
  kd_event_callback callback;
  void *context;
} waiter;

typedef struct point {
  atomic_int refs;
  int done;
  kd_status status;
  waiter *waiters;
  int stream_waits;
} point;

point *point_new(void);
point *point_hold(point *p);
void point_drop(point *p);
bool point_wait(point *p, uint64_t timeout); /* false: too late */

/* What a job needs of a tensor: dims are copied, the rest by value. */
typedef struct arg {
  kd_buffer *buffer;
  char *data; /* of host memory */
  uint64_t offset;
  kd_dtype dtype;
  uint32_t rank;
  int64_t dims[KD_MAX_RANK], strides[KD_MAX_RANK];
  const int64_t *borrowed; /* for the defect */
  bool strided, laid, present;
} arg;

#define ARGS 12
typedef struct op_call {
  int op;
  uint32_t in_count, out_count;
  arg in[ARGS], out[ARGS];
  arg scratch;
  bool listed; /* input 1 is in `list` */
  int64_t list[KD_MAX_RANK], list_count;
  const kd_node *node;
  struct kd_kernel *kernel;
  uint64_t correlation;
} op_call;

typedef enum job_kind {
  JOB_COPY_IN,
  JOB_COPY_OUT,
  JOB_COPY,
  JOB_FILL,
  JOB_OP,
  JOB_REGION,
  JOB_RECORD,
  JOB_WAIT,
  JOB_COLLECT,
} job_kind;

typedef struct job {
  struct job *next;
  job_kind kind;
  kd_buffer *source, *target;
  uint64_t source_offset, target_offset, size;
  const void *from;
  void *to;
  unsigned char pattern[16];
  const void *pattern_kept;
  uint32_t pattern_size;
  point *point;
  kd_event *event; /* for the defects that look at it late */
  op_call *call;
  struct kd_region *region;
  kd_status (*run)(struct job *job);
  void *context;
  uint64_t number, tag;
} job;

struct kd_stream {
  kd_device *device;
  pthread_t thread;
  uint32_t made_by;
  pthread_cond_t changed;
  job *first, *last;
  uint32_t queued, number;
  uint64_t issued, tag;
  kd_status status; /* of the first failure since synchronize */
  bool stop, dead, held, recording, alias;
  job *recorded, *recorded_last;
  /* whose recording it is in, by an event that it waits for; and who is in its own */
  kd_stream *origin, *joined[8];
  uint32_t joined_count;
  kd_stream *over; /* whose queue it works in: the application's; or NULL */
};

struct kd_event {
  kd_device *device;
  point *point;
  kd_stream *stream;
  kd_stream *origin; /* that records what it stands in; NULL: none */
  bool recorded;
  atomic_bool was_done; /* several threads wait for one event */
};

struct kd_kernel {
  const kd_node *node;
  kd_device *device;
  bool constant; /* input 1 is one */
  atomic_llong first_count, first_axis, last_axis;
  long double *kept;
  struct value *weights; /* of a product, that it has taken; or NULL */
  kd_stream *_Atomic stream;
  uint32_t runs;
};

extern pthread_mutex_t sim_lock;
/* How often the plugin, and its devices, were opened. */
extern atomic_uint sim_opens, sim_device_opens;
void sim_nap(uint64_t microseconds);
void sim_leak(uint64_t size); /* memory that nobody gives back */
uint64_t sim_now(void);

/* Counts a launch or copy that is about to run. */
void sim_note_launch(kd_device *device);
void sim_note_copy(kd_device *device);
/* Counts an object of the device that was made (1) or given back (-1). */
void sim_count(kd_device *device, int change);
/* Also of no device, which works. */
bool sim_is_lost(const kd_device *device);
/* KD_OK, or KD_DEVICE_LOST with the device's words. */
kd_status sim_check(const kd_device *device);

/* memory.c */
bool sim_is_huge(
    void); /* its memory is of 16 GiB, of which little is written */
const char *sim_hostility(void);
extern kd_memory_table sim_memory;
char *sim_at(kd_buffer *buffer, uint64_t offset);
/* Whether so many bytes more are free on the device of a buffer. */
bool sim_has_memory(const kd_buffer *buffer, uint64_t size);
void sim_memory_reset(void);
extern const kd_peer_table sim_peer;
extern const kd_external_table sim_external;

/* stream.c */
extern kd_stream_table sim_streams;
extern kd_event_table sim_events;
extern const kd_native_table sim_native;
kd_status sim_push(kd_stream *stream, const job *what);
bool sim_has_room(const kd_stream *stream, uint32_t count);
kd_status sim_run(job *job); /* now */
bool sim_busy(void);
void sim_streams_reset(void);
void sim_drop_all(void);
kd_status sim_job_status(job *job);
void sim_free_job(job *job);
extern atomic_uint sim_stream_count; /* made since the plugin was opened */

/* capture.c */
extern atomic_bool sim_recording_any; /* some stream records */
extern const kd_capture_table sim_capture;

/* profile.c */
extern const kd_profile_table sim_profile;
void sim_profile_reset(void);
/* Gives the host a record of a job, where somebody profiles. */
void sim_push_record(const job *job, uint64_t begin, uint64_t end);

/* collective.c */
extern kd_collective_table sim_collectives;
void sim_round_free(void *context);
/* It does not run, as work before it failed. */
void sim_round_failed(void *context);

/* kernels.c */
extern kd_kernel_def sim_kernels[];
extern const uint32_t sim_kernel_count;
void sim_kernels_init(void);
kd_status sim_run_op(op_call *call);
extern const kd_layout_table sim_layouts;
arg sim_arg(const kd_tensor *tensor);

/* region.c */
extern const kd_region_table sim_regions;
kd_status sim_run_region(struct kd_region *region, op_call *call);

/* 0 or 1. */
static inline uint32_t sim_index(const kd_device *device) {
  return ODD(small_handles) ? (uint32_t)(uintptr_t)device - 1 : device->index;
}

#endif /* SIM_H */
