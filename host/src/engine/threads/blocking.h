/* blocking.h - threads for work that blocks or takes long, which would starve the pool.
 * They start on demand and end when idle. */
#ifndef KEEL_BLOCKING_H
#define KEEL_BLOCKING_H

#include "threads/pool.h"

typedef struct keel_blocking keel_blocking;

keel_status keel_blocking_create(keel_blocking **out_blocking);
/* Waits for all submitted tasks. NULL does nothing. */
void keel_blocking_destroy(keel_blocking *all);

/* Submits a task. If no thread can be started, runs it on the calling thread. */
void keel_blocking_submit(keel_blocking *all, keel_task *task);

#endif /* KEEL_BLOCKING_H */
