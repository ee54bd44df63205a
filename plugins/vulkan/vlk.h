/* vlk.h - shared by the files of the Vulkan plugin. */
#ifndef KEEL_VLK_H
#define KEEL_VLK_H

#include <kd/kd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api.h"
#include "common/shared.h"
#include "families/instance.h"
#include "families/programs.h"

extern const kd_host *vlk_host; /* from open to close */
extern VkInstance vlk_vulkan;   /* of all devices; the same */

#define FAIL(...) vlk_host->fail(__VA_ARGS__)

/* Translates a driver's error; the message names the call that failed. A lost device is
 * remembered: all that follows fails as quickly. */
kd_status vlk_failed(kd_device *device, VkResult code, const char *call);
#define VLK_TRY(device, call, expression)                                      \
  do {                                                                         \
    VkResult vlk_code_ = (expression);                                         \
    if (vlk_code_ != VK_SUCCESS) return vlk_failed((device), vlk_code_, call); \
  } while (0)

/* ---- memory ------------------------------------------------------------------------ */

/* Spaces of the plugin's own behind the two that the host knows. */
enum { VLK_LOCAL, VLK_VISIBLE, VLK_PARAMS, VLK_SPACES };

typedef struct vlk_block
    vlk_block; /* a VkBuffer, of which buffers are pieces */

struct kd_buffer {
  uint64_t size; /* first */
  vlk_block *block;
  uint64_t offset;
  uint32_t space;
  bool alone;    /* its block is no other's: not the device's own memory */
  bool imported; /* and somebody else's, which counts as nobody's here */
};

struct vlk_block {
  vlk_block *next;
  VkBuffer buffer;
  VkDeviceMemory memory;
  uint64_t size, address;
  char *mapped; /* NULL: not visible to the host */
  struct vlk_span *spans;
  uint32_t live;
  VkDeviceSize held;    /* bytes of its memory */
  shared_memory shared; /* that it is, of a file; none: at is NULL */
  uint32_t exported;    /* KD_EXTERNAL_* that it was made for, or 0 */
};

/* Where a block's memory comes from, or who else is to have it. */
typedef struct vlk_source {
  VkExternalMemoryHandleTypeFlags handle; /* 0: the device's own, as ever */
  const void *chain; /* of VkMemoryAllocateInfo: it is imported */
  uint32_t types;    /* bits of the memory types it may be of */
  uint64_t size;     /* bytes of what is imported */
  char *host;        /* the host memory that it is, or NULL */
} vlk_source;

/* Allocates a block's memory; on failure, block_destroy frees what exists. */
kd_status vlk_block_bind(kd_device *device, uint32_t space,
                         const vlk_source *source, vlk_block *block);
void vlk_block_destroy(kd_device *device, vlk_block *block);

/* Which memory a device shares with others: bits of 1 << KD_EXTERNAL_*. */
typedef struct vlk_reach {
  uint32_t kinds;
  uint64_t alignment;     /* of host memory that it takes, bytes */
  bool host, fd, dma_buf; /* extensions that there are */
} vlk_reach;
void vlk_read_reach(VkPhysicalDevice physical, vlk_reach *reach);
/* The extensions to be enabled; returns how many. */
uint32_t vlk_reach_names(const vlk_reach *reach, const char **names);
bool vlk_has_extension(VkPhysicalDevice physical, const char *name);

extern const kd_external_table vlk_external;
extern const kd_native_table vlk_native;

/* As vlk_allocate, of memory that can be exported as `kind`. */
kd_status vlk_allocate_exported(kd_device *device, uint32_t space,
                                uint64_t size, uint32_t kind,
                                kd_buffer **out_buffer);
void vlk_release_alone(kd_device *device, kd_buffer *buffer);

extern const kd_memory_table vlk_memory;

/* As kd_memory.allocate, but not counted as the host's. */
kd_status vlk_allocate(kd_device *device, uint32_t space, uint64_t size,
                       kd_buffer **out_buffer);
void vlk_release(kd_device *device, kd_buffer *buffer);
void vlk_memory_end(kd_device *device);

static inline uint64_t vlk_address(const kd_buffer *buffer) {
  return buffer->block->address + buffer->offset;
}
static inline char *vlk_mapped(const kd_buffer *buffer) {
  return buffer->block->mapped ? buffer->block->mapped + buffer->offset : NULL;
}

/* ---- queues and batches --------------------------------------------------------------- */

#define VLK_LANES    4
#define VLK_COMMANDS 64 /* of a batch */
#define VLK_WAITS    VLK_LANES

typedef struct vlk_lane vlk_lane;
typedef struct vlk_program vlk_program;

/* Host work to do when a batch is done. */
typedef struct vlk_after {
  struct vlk_after *next;
  kd_buffer *staging; /* given back; NULL: none */
  void *target;       /* host memory that it is copied to; NULL: nowhere */
  uint64_t size;
  kd_event_callback callback;
  void *context;
} vlk_after;

typedef struct
    vlk_note { /* of the profile; its time stamps are 2 i + 1, 2 i + 2 */
  uint64_t bytes, correlation;
  uint32_t kind, stream;
} vlk_note;

/* Commands that are submitted together. */
typedef struct vlk_batch {
  struct vlk_batch *next;
  vlk_lane *lane;
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkQueryPool queries; /* the batch's end, and a pair a note */
  _Atomic int users;
  _Atomic uint64_t value; /* of the lane's semaphore; 0: not submitted */
  uint64_t waits[VLK_WAITS];
  uint32_t count, note_count, program_count;
  VkPipeline bound;
  vlk_after *after;
  bool is_done; /* under the lane's lock */
  bool watched; /* has a callback and no waiter: the lane's thread retires it */
  bool timed, noting;
  kd_status status;
  uint64_t end_time; /* ticks, when it is done */
  vlk_program *programs[VLK_COMMANDS];
  vlk_note notes[VLK_COMMANDS];
} vlk_batch;

/* A hardware queue, whose batches complete in order. */
struct vlk_lane {
  kd_device *device;
  uint32_t number;
  VkQueue queue;
  VkSemaphore timeline;
  pthread_mutex_t lock;
  pthread_cond_t changed; /* a batch is done, or there is one to wait for */
  uint64_t submitted;
  vlk_batch *first, *last; /* submitted and not done, oldest first */
  vlk_batch *spare;
  bool reaping;     /* a thread is retiring batches */
  uint32_t watched; /* batches that the thread must wait for */
  bool closing, has_thread;
  pthread_t thread;
};

kd_status vlk_lane_begin(kd_device *device, vlk_lane *lane, uint32_t number,
                         VkQueue queue);
void vlk_lane_end(vlk_lane *lane);
/* Retires all batches that the device has completed. */
void vlk_lane_reap(vlk_lane *lane);

/* Starts recording a batch; the caller is its only user. */
kd_status vlk_batch_begin(vlk_lane *lane, vlk_batch **out_batch);
void vlk_batch_take(vlk_batch *batch);
void vlk_batch_drop(vlk_batch *batch);
/* Submits it to the queue. It always completes, even on failure. */
kd_status vlk_batch_submit(vlk_batch *batch);
/* KD_BUSY, or how it ended. */
kd_status vlk_batch_query(vlk_batch *batch);
/* Why a batch that is done failed; "" where it did not. */
const char *vlk_batch_why(const vlk_batch *batch);
kd_status vlk_batch_wait(vlk_batch *batch, uint64_t timeout);
/* Adds what follows it, also where nobody waits for it if it is `watched`. 1; else
 * `after` is the caller's: 0: it is done already; -1: there is no thread to watch. */
int vlk_batch_follow(vlk_batch *batch, vlk_after *after, bool watched);

/* ---- devices ------------------------------------------------------------------------------ */

struct kd_device {
  fam_driver families; /* first */
  VkPhysicalDevice physical;
  VkDevice device;
  char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
  fam_programs programs;
  VkPipelineLayout layout;
  VkPipelineCache cache;
  fam_key cache_key;
  size_t cache_size; /* as it was read */
  double tick;       /* nanoseconds; 0: no time stamps */
  uint32_t family;
  uint32_t types[VLK_SPACES];
  bool mapped[VLK_SPACES];
  uint64_t sizes[VLK_SPACES], max_buffer;
  _Atomic bool lost;
  _Atomic bool profiling;
  _Atomic uint32_t streams; /* numbers them */
  vlk_lane lanes[VLK_LANES];
  uint32_t lane_count;
  kd_stream *own; /* of calls without a stream */
  pthread_mutex_t own_lock;
  pthread_mutex_t memory_lock;
  vlk_block *blocks[VLK_SPACES];
  uint64_t used[VLK_SPACES], buffers[VLK_SPACES];
  vlk_reach reach;
  _Atomic uint32_t alone; /* blocks that are one buffer's */
  uint32_t most_alone;
  /* host memory that the device still writes, for copies that read it */
  pthread_mutex_t writes_lock;
  struct vlk_write *writes;
  _Atomic uint32_t write_count;
};

/* ---- streams ------------------------------------------------------------------------------ */

struct kd_stream {
  fam_stream common; /* first */
  vlk_lane *lane;
  vlk_batch *open;           /* records; NULL: nothing does */
  vlk_batch *last;           /* submitted last; NULL: none */
  uint64_t waits[VLK_WAITS]; /* of other lanes, before what comes next */
  bool shared;               /* an application submits to its queue, too */
};

extern const kd_stream_table vlk_streams;
extern const fam_marks vlk_marks;

kd_status vlk_stream_open(kd_device *device, kd_stream **out_stream);
void vlk_stream_close(kd_stream *stream);
/* The batch to put one command in, behind all before it. */
kd_status vlk_stream_batch(kd_stream *stream, vlk_batch **out_batch);
/* Behind each command: submits a batch that is full. */
kd_status vlk_stream_added(kd_stream *stream);
kd_status vlk_stream_submit(kd_stream *stream);
/* The same of all that its end waits for: `last` is behind it then. */
kd_status vlk_stream_submit_all(kd_stream *stream);
kd_status vlk_stream_finish(kd_stream *stream);
/* Whether all its work is known to be done. */
bool vlk_stream_idle(kd_stream *stream);

/* Forgets copies to the host that are done. */
void vlk_forget_writes(kd_device *device);

/* ---- programs -------------------------------------------------------------------------------- */

#define VLK_GRID 65535u /* groups in a dimension, that every device takes */

/* A pass that can be launched. */
struct vlk_program {
  kd_device *device;
  _Atomic int users;
  VkPipeline pipeline;
  kd_buffer *params;
  uint32_t buffer_count, groups;
};

struct vlk_push {
  uint64_t params;
  uint32_t first, unused; /* first: the number of the grid's first group */
  uint64_t buffers[FAM_BUFFERS];
};

/* The option "compiler" (auto, off); without one there are the kernels that were built
 * with the plugin, and those of the store. */
void vlk_compiler_open(void);
bool vlk_has_compiler(void);
/* Whether its SPIR-V is there without a compiler. */
bool vlk_is_built(const char *source);
extern const fam_compiler vlk_compiler;
void vlk_program_drop(vlk_program *program);
kd_status vlk_pipeline_get(kd_device *device, const char *source,
                           VkPipeline *out_pipeline);
kd_status vlk_cache_begin(kd_device *device);
void vlk_cache_end(kd_device *device);

void vlk_kernels_begin(kd_device *device);

/* ---- recordings ---------------------------------------------------------------------------------- */

extern const fam_recorder vlk_recorder;

/* Runs it on the stream. */
kd_status vlk_run(kd_stream *stream, const fam_command *m,
                  uint64_t correlation);
/* As fam_driver.run. */
kd_status vlk_do(kd_device *d, kd_stream *stream, const fam_command *m,
                 uint64_t correlation);
/* Only the commands that need nothing of the host. */
bool vlk_is_plain(const fam_command *m);
void vlk_put_plain(kd_device *d, VkCommandBuffer commands, VkPipeline *bound,
                   const fam_command *m);
void vlk_put_barrier(VkCommandBuffer commands);

extern const kd_profile_table vlk_profile;

#endif /* KEEL_VLK_H */
