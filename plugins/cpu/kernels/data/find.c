/* find.c - keel::Find: the places of elements in a list of keys. */
#include <stdatomic.h>

#include "kernels.h"
#include "keys.h"

#define CHUNK 256 /* elements whose keys are made at once */

typedef struct find_work {
  const kd_tensor *x;
  int64_t *places;
  const cpu_key *keys; /* in order */
  int64_t count;
  _Atomic int64_t missing; /* an element that is no key, or -1 */
} find_work;

/* The place of the last key that is equal, or -1. */
static int64_t find_place_of(const find_work *w, uint64_t key) {
  int64_t
      low = 0,
      high =
          w->count; /* keys before low are not above, from high on they are */
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (w->keys[middle].key <= key)
      low = middle + 1;
    else
      high = middle;
  }
  return low && w->keys[low - 1].key == key ? w->keys[low - 1].at : -1;
}

static void find_chunks(void *context, int64_t begin, int64_t end) {
  find_work *w = context;
  size_t size = kd_dtype_size(w->x->dtype);
  cpu_key wanted[CHUNK];
  for (int64_t chunk = begin; chunk < end; chunk++) {
    int64_t from = chunk * CHUNK, left = kd_elements(w->x) - from;
    int64_t count = left < CHUNK ? left : CHUNK;
    cpu_keys_of((const char *)w->x->data + (size_t)from * size, w->x->dtype, 1,
                count, false, wanted);
    for (int64_t i = 0; i < count; i++) {
      int64_t place = find_place_of(w, wanted[i].key);
      w->places[from + i] = place;
      if (place < 0)
        atomic_store_explicit(&w->missing, from + i,
                              memory_order_relaxed); /* read when all is done */
    }
  }
}

CPU_KERNEL(cpu_run_find) {
  const kd_tensor *x = &launch->inputs[0], *keys = &launch->inputs[1];
  int64_t count = kd_elements(keys), elements = kd_elements(x);
  cpu_key *room = malloc(((size_t)count * 2 + 1) * sizeof *room);
  if (!room)
    return FAIL(KD_OUT_OF_MEMORY, "no memory for %lld keys", (long long)count);
  cpu_keys_of(keys->data, keys->dtype, 1, count, false, room);
  cpu_keys_sort(room, room + count, count);
  find_work w = {.x = x,
                 .places = launch->outputs[0].data,
                 .keys = room,
                 .count = count,
                 .missing = -1};
  cpu_host->parallel_for(cpu_host, (elements + CHUNK - 1) / CHUNK, 8,
                         find_chunks, &w);
  free(room);
  int64_t missing = atomic_load(&w.missing);
  return missing < 0 || !attr_int(launch, "strict", 0)
             ? KD_OK
             : FAIL(KD_INVALID_ARGUMENT,
                    "element %lld is %.17g, which is none of the %lld that are"
                    " known",
                    (long long)missing, cpu_get(x->data, x->dtype, missing),
                    (long long)count);
}
