/* placed.c - a list of values that were copied, and their targets. */
#include "passes/placed.h"

#include "memory/copy.h"
#include "memory/late.h"
#include "values/strings.h"

void keel_placed_init(keel_placed *all) {
  *all = (keel_placed){0};
  pthread_mutex_init(&all->lock, NULL);
}

void keel_placed_deinit(keel_placed *all) {
  for (uint32_t i = 0; i < all->count; i++) {
    keel_tensor_release(all->list[i].constant);
    keel_tensor_release(all->list[i].placed);
  }
  free(all->list);
  pthread_mutex_destroy(&all->lock);
}

static keel_tensor *placed_find(keel_placed *all, const keel_tensor *constant,
                                const keel_device *device) {
  keel_tensor *found = NULL;
  pthread_mutex_lock(&all->lock);
  for (uint32_t i = 0; i < all->count && !found; i++)
    if (all->list[i].constant == constant && all->list[i].device == device)
      found = keel_tensor_retain(all->list[i].placed);
  pthread_mutex_unlock(&all->lock);
  return found;
}

/* Where memory runs out it is not shared: that is all. */
static void placed_note(keel_placed *all, keel_tensor *constant,
                        const keel_device *device, keel_tensor *placed) {
  pthread_mutex_lock(&all->lock);
  if (KEEL_ROOM(all->list, all->count, all->capacity))
    all->list[all->count++] = (struct keel_placed_one){
        keel_tensor_retain(constant), keel_tensor_retain(placed), device};
  pthread_mutex_unlock(&all->lock);
}

keel_status keel_place_constant(keel_placed *shared, keel_tensor *constant,
                                keel_device *device, keel_tensor **out_placed) {
  if (keel_is_strings(constant)) { /* they stay where they are */
    *out_placed = keel_tensor_retain(constant);
    return KD_OK;
  }
  *out_placed = shared ? placed_find(shared, constant, device) : NULL;
  if (*out_placed) return KD_OK;
  KEEL_TRY(keel_device_addressable(device)
               ? keel_share_or_copy(constant, device, out_placed)
               : keel_late_create(constant, device, out_placed));
  if (shared) placed_note(shared, constant, device, *out_placed);
  return KD_OK;
}
