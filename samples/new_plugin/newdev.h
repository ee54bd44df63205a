/* newdev.h - what the files of the plugin share. */
#ifndef NEWDEV_H
#define NEWDEV_H

#include <kd/kd.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* One piece of a stream's work. A driver has a command here. */
typedef struct work {
  void (*run)(const struct work *self);
  const void *a, *b; /* what it reads */
  void *y;           /* what it writes */
  int64_t n, m, k;   /* bytes of a copy; elements; MatMul: m x k times k x n */
} work;

struct kd_device {
  const kd_host *host;
  pthread_mutex_t lock;   /* of its streams and events */
  pthread_cond_t changed; /* there is more work, or some is done */
  kd_stream *streams;     /* all that ever were */
  /* level 2 */
  uint64_t captures; /* how many there were */
  /* end */
};

struct kd_instance {
  kd_device device;
};

/* A ring of works and its thread; freed with the device, as events look at it. */
#define NEWDEV_RING 1024u
struct kd_stream {
  kd_device *device;
  kd_stream *next; /* of the device's */
  pthread_t thread;
  uint64_t issued, finished; /* works; they go on when a stream is created again */
  bool used, stop;
  /* level 2 */
  kd_capture *recording; /* what its work goes to instead, or NULL */
  /* end */
  work ring[NEWDEV_RING];
};

/* stream.c: runs works in a stream's order, or at once (NULL). KD_BUSY: it has no room for all. */
kd_status newdev_push(kd_device *device, kd_stream *stream, const work *works, uint32_t count);
extern const kd_stream_table newdev_streams;
extern const kd_event_table newdev_events;

/* kernels.c: what an elementwise op of a node does, or NULL; and all definitions. */
typedef void (*newdev_op)(const work *self);
newdev_op newdev_find_op(const kd_host *host, const kd_node *node);
#define NEWDEV_KERNELS 3u
extern const kd_kernel_def newdev_kernels[NEWDEV_KERNELS];
/* level 2 */
/* capture.c: works that a launch runs as one. */
struct kd_capture {
  kd_device *device;
  uint64_t number; /* of the device's: an event knows its recording by it */
  uint32_t count;  /* over the room: it has failed */
  work works[NEWDEV_RING];
};
extern const kd_capture_table newdev_captures;
/* end */
/* level 3 */
/* region.c */
extern const kd_region_table newdev_regions;
/* end */

#endif /* NEWDEV_H */
