/* device.h - the toy device, inside: its model, buffers, jobs and streams. */
#ifndef KEEL_TESTS_TOY_DEVICE_H
#define KEEL_TESTS_TOY_DEVICE_H

#include <stdbool.h>

#include "toy.h"

enum { TOY_OPS = 4, TOY_DEVICES = 64 }; /* of a model, at most */

/* When work is done: before the call returns, by a thread of each stream, or when somebody
 * waits for it. The last two have streams and events. */
typedef enum toy_work { AT_ONCE, BY_THREAD, WHEN_AWAITED } toy_work;

typedef struct toy_model {
  const char *name;
  toy_work work;
  bool handles;    /* buffers have no address */
  bool calls_back; /* also records, and copies and fills in its own memory */
  bool maps;       /* the host may map memory, and is shown a copy */
  bool compiles;
  bool extends;       /* has the table x.linked.power/1 */
  uint32_t alignment; /* of memory; kernels refuse any other. 0: the usual */
  uint64_t capacity;  /* bytes; what is released is kept until `trim`. 0: any */
  int meet;           /* so many kernels wait for each other; 0: they don't */
  uint32_t opset;     /* 0: the newest */
  uint32_t devices;   /* up to TOY_DEVICES; 0: one */
  const char *ops[TOY_OPS];
} toy_model;

struct kd_buffer {
  char *bytes;
  uint64_t size;
  _Atomic(char *) shown; /* while it is mapped */
  kd_buffer *next;       /* of those that are kept */
};

struct kd_event {
  kd_stream *stream;
  /* What it stands for: the stream's work after `since`, which the last synchronize before
   * told of, up to `ticket`. */
  uint64_t since, ticket;
};

/* A place that a job reads or writes: in a buffer, or at an address. */
typedef struct toy_place {
  kd_buffer *buffer;
  uint64_t offset;
  void *address;
} toy_place;

typedef struct toy_job {
  struct toy_job *next;
  kd_status (*run)(struct toy_job *job);
  uint64_t ticket;
  toy_place at[3];
  uint64_t size;
  char pattern[16]; /* of a fill, pattern_size bytes */
  uint32_t pattern_size;
  int op;
  float slope;    /* of a PRelu that has taken it */
  bool scalar;    /* the second input is one */
  kd_event event; /* to wait for */
} toy_job;

static inline char *toy_address(const toy_place *place) {
  if (place->address) return place->address;
  return place->buffer ? place->buffer->bytes + place->offset : NULL;
}

/* plugin.c */
extern toy_state toy;
extern const toy_model *toy_model_now;
extern const kd_host *toy_host;
extern atomic_int toy_buffers, toy_streams, toy_events, toy_captures; /* live */
/* Fails with the model's name before the text. */
kd_status toy_fail(kd_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* malformed.c: the table after what the case does to it; NULL with a reason where it gives none.
 * The case is known. */
bool toy_malformed_knows(const char *name);
const kd_plugin *toy_malformed(const kd_host *host, const char *name,
                               const kd_plugin *sound);

/* memory.c */
kd_memory_table toy_memory(void);
/* What the host promises of a buffer that is mapped: it is neither written nor released. */
void toy_need_unmapped(const kd_buffer *buffer);
void toy_trim(kd_device *device);

/* stream.c: does the job in the stream's order; at once, where there is none. */
kd_status toy_do(kd_stream *stream, toy_job *job);
kd_stream_table toy_stream_table(void);
kd_event_table toy_event_table(void);
extern const kd_capture_table toy_capture;

/* kernels.c */
typedef enum toy_op {
  TOY_RELU,
  TOY_ADD,
  TOY_MUL,
  TOY_MIN,
  TOY_NEG,
  TOY_ABS,
  TOY_PRELU, /* the slope is y's first element */
  TOY_ZERO,  /* what the toy does not know: it gives zeros */
} toy_op;
/* to = op(x, y), elementwise; y may be NULL for ops of one input. */
void toy_compute(toy_op op, const float *x, const float *y, bool scalar,
                 float *to, int64_t count);
/* Writes the definitions of the model's ops, and returns how many. */
uint32_t toy_kernels(kd_kernel_def defs[TOY_OPS]);

/* compiler.c */
extern const kd_region_table toy_regions;

#endif /* KEEL_TESTS_TOY_DEVICE_H */
