/* blocking.h - threads for work that waits or takes long: it would keep others from the
 * pool's. They are made when they are needed, and end when they are not. */
#ifndef KEEL_BLOCKING_H
#define KEEL_BLOCKING_H

#include "threads/pool.h"

typedef struct keel_blocking keel_blocking;

keel_status keel_blocking_create(keel_blocking **out_blocking);
/* Waits for what was handed over. NULL does nothing. */
void keel_blocking_destroy(keel_blocking *all);

/* Hands over a task. Runs it at once, on the calling thread, where no thread can be
 * had. */
void keel_blocking_submit(keel_blocking *all, keel_task *task);

#endif /* KEEL_BLOCKING_H */
