/* placed.h - constants in device memory, shared between plans. */
#ifndef KEEL_PLACED_H
#define KEEL_PLACED_H

#include <pthread.h>

#include "values/tensor.h"

typedef struct keel_placed {
  pthread_mutex_t lock;
  struct keel_placed_one {
    keel_tensor *constant, *placed; /* retained */
    const keel_device *device;
  } * list;
  uint32_t count, capacity;
} keel_placed;

void keel_placed_init(keel_placed *all);
void keel_placed_deinit(keel_placed *all);

/* Gets the constant in a device's memory, shared with other plans through `shared` (NULL:
 * not shared): where the host does not reach that, a late one (memory/late.h). The caller releases
 * it. Any thread. */
keel_status keel_place_constant(keel_placed *shared, keel_tensor *constant,
                                keel_device *device, keel_tensor **out_placed);

#endif /* KEEL_PLACED_H */
