/* record.h - commands on a device's memory, which run at once or become part of a
 * recording. */
#ifndef KEEL_FAMILIES_RECORD_H
#define KEEL_FAMILIES_RECORD_H

#include <pthread.h>
#include <stdatomic.h>

#include "families/family.h"

typedef struct fam_command {
  enum {
    FAM_LAUNCH,   /* `program` with the buffers */
    FAM_COPY_IN,  /* from `source` to buffer 0 */
    FAM_COPY_OUT, /* from buffer 0 to `target` */
    FAM_COPY,     /* from buffer 0 to buffer 1 */
    FAM_FILL      /* buffer 0 with the pattern */
  } kind;
  uint32_t buffer_count;
  void *program; /* the plugin's, from fam_driver.compile */
  kd_buffer *buffers[FAM_BUFFERS];
  uint64_t offsets[FAM_BUFFERS];
  const void *source;
  void *target;
  uint64_t size;
  uint8_t pattern[16];
  uint32_t pattern_size;
} fam_command;

/* KD_PROFILE_KERNEL and so on. */
uint32_t fam_profile_kind(const fam_command *command);

/* Copies and fills for kd_memory_table: a command each. */
kd_status fam_copy_in(kd_device *device, kd_stream *stream, const void *source,
                      kd_buffer *target, uint64_t offset, uint64_t size);
kd_status fam_copy_out(kd_device *device, kd_stream *stream, kd_buffer *source,
                       uint64_t offset, void *target, uint64_t size);
kd_status fam_copy(kd_device *device, kd_stream *stream, kd_buffer *source,
                   uint64_t source_offset, kd_buffer *target,
                   uint64_t target_offset, uint64_t size);
kd_status fam_fill(kd_device *device, kd_stream *stream, kd_buffer *target,
                   uint64_t offset, uint64_t size, const void *pattern,
                   uint32_t pattern_size);

/* ---- recordings ------------------------------------------------------------------- */

struct kd_capture;
struct fam_driver;

/* What a plugin does with a recording's commands. All run under its lock but for the
 * last. */
typedef struct fam_recorder {
  size_t size; /* of a kd_capture */
  /* A command was added. Of a launch it makes the program the recording's own, which
   * fam_driver.release gives back. */
  kd_status (*added)(struct kd_capture *capture, fam_command *command);
  /* Buffers of some commands are others. */
  void (*rebound)(struct kd_capture *capture);
  /* Enqueues all commands in a stream that runs. */
  kd_status (*launch)(struct kd_capture *capture, kd_stream *stream);
  /* The driver is done with the commands: what was made of them goes. */
  void (*destroy)(struct kd_capture *capture);
} fam_recorder;

/* The first part of a plugin's kd_capture. */
typedef struct fam_recording {
  const struct fam_driver *driver;
  kd_device *device;
  pthread_mutex_t lock;
  _Atomic int users; /* itself, and events that were recorded in it */
  bool open;
  fam_command *commands;
  uint32_t count, room;
  /* What says that a stream records; the first one began it. */
  struct kd_capture **streams[64];
  uint32_t stream_count;
} fam_recording;

/* For kd_plugin.capture. */
extern const kd_capture_table fam_captures;

/* Hands a command to fam_driver.run, or adds a copy to what the stream records. */
kd_status fam_run(const struct fam_driver *driver, kd_device *device,
                  kd_stream *stream, const fam_command *command,
                  uint64_t correlation);
/* The stream whose `slot` this is records into it, too, from now on; or it has ended. */
void fam_record_join(struct kd_capture *capture, struct kd_capture **slot);
/* Retains and releases it; the last release frees it. */
void fam_record_take(struct kd_capture *capture);
void fam_record_drop(struct kd_capture *capture);

#endif /* KEEL_FAMILIES_RECORD_H */
