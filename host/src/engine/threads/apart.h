/* apart.h - work on threads outside the pool that nobody waits for, and the process's end: the plugins
 * that it calls do not outlast that, so the end waits for it. */
#ifndef KEEL_APART_H
#define KEEL_APART_H

#include <stdbool.h>

/* Before such work is submitted. False: the process ends, or is a child after a fork, which has no
 * such threads; the work is not to begin. */
bool keel_apart_begin(void);
/* By the thread that does the work, around it. */
void keel_apart_enter(void);
void keel_apart_leave(void);

/* Whether work that began may still end: not in a child after a fork. */
bool keel_apart_may_end(void);

#endif /* KEEL_APART_H */
