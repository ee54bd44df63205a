/* tuning.h - an extension of Keel's own plugins: searches for the fastest variant of each kernel
 * as kernels are made, and keeps what was found for later processes.
 *
 * kd_plugin.extension gives a tune_table by the name TUNE_EXTENSION, from `open` to `close`,
 * or NULL where the plugin has nothing to search for. */
#ifndef KEEL_PLUGINS_TUNING_H
#define KEEL_PLUGINS_TUNING_H

#include <kd/kd.h>

#define TUNE_EXTENSION "keel.tune/1"

/* A search under way, or its end. Texts are borrowed for the call. */
typedef struct tune_news {
  uint32_t struct_size;
  uint32_t tried, all; /* variants, the cost model's among them */
  uint32_t ended;      /* 1: it has; 0: there is more to come */
  const char *op, *shapes;
  const char *before, *after; /* variants: the cost model's, the best so far */
  double before_time, after_time; /* of one launch, seconds */
} tune_news;

typedef struct tune_wish {
  uint32_t struct_size;
  uint32_t reserved;
  /* after which no search goes on; one that this stops finds nothing */
  double seconds;
  /* Called by the thread that makes a kernel; calls none of the table. NULL: nobody
   * listens. */
  void (*tell)(void *context, const tune_news *news);
  void *context;
} tune_wish;

/* All take a device that is open; any thread. */
typedef struct tune_table {
  uint32_t struct_size; /* sizeof(tune_table) as the plugin knew it */
  uint32_t reserved;

  /* From now on a kernel that can be made in several ways is made in all of them, and timed
   * on the device, one at a time, where its best is not kept: nothing else should run there.
   * Returns KD_OK, KD_ALREADY_EXISTS (a search is on), KD_UNAVAILABLE (results would not be
   * kept). */
  kd_status (*begin)(kd_device *device, const tune_wish *wish);

  /* Ends it. *out_left: kernels for which there was no time. */
  void (*end)(kd_device *device, uint32_t *out_left);

  /* How many results are kept for the device and its driver as they are. */
  uint32_t (*kept)(kd_device *device);

  /* Forgets them. Returns KD_OK, KD_UNAVAILABLE (the store can't be written). */
  kd_status (*clear)(kd_device *device);
} tune_table;

#endif /* KEEL_PLUGINS_TUNING_H */
