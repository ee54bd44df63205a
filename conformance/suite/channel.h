/* channel.h - what a child and the runner share: a pipe of events, and a page
 * that outlives the child.
 *
 * The pipe carries lines: the nonce of this child, a letter, then words. A line
 * that doesn't begin with the nonce was not written by the suite.
 *
 *   B number name   a case begins          N text   a figure
 *   E checks        it ends                U text   it does not apply
 *   F text          a check failed         S text   nothing to test it with
 *   D cases         the rule is done       X number      it stopped in a case
 *                                          W rule text   a watched rule broke
 *   R id            the next rule of a group begins
 *   T name          a process that it started was too late, and ended
 *
 * Where a sanitizer's library is preloaded, what the child prints has lines of its own: KC_MARK
 * and the case that begins, or nothing. A report behind one belongs to that case.
 */
#ifndef KC_CHANNEL_H
#define KC_CHANNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "suite/rule.h"

#define KC_EVENT_FD 3
#define KC_PAGE_FD  4

#define KC_RING      64u
#define KC_RING_TEXT 112u
#define KC_CALLERS   32u

#define KC_MARK '\1'

typedef struct kc_page {
  char nonce[24];
  atomic_ullong beat; /* moves while the child is well */
  atomic_uint
      patience; /* thousandths: the machine's load and --time-scale; 0: not known */
  atomic_uint number; /* of the case */
  char name[256];     /* of the case */
  atomic_ullong checks;
  atomic_uint at; /* calls so far; the last KC_RING are in `calls` */
  char calls[KC_RING][KC_RING_TEXT];
  /* calls that have not returned, one a thread; a line is free where `in` is false */
  atomic_bool in[KC_CALLERS];
  char open[KC_CALLERS][KC_RING_TEXT];
  char crash[4096]; /* signal and backtrace, by the child's handler */
} kc_page;

/* The child's page; a private one where there is no runner. */
extern kc_page *kc_shared;

/* Begins: maps the page, opens the pipe. in_process: events are printed, for people. */
void kc_channel_open(bool in_process);
/* What was printed so far: checks that failed, and the last rule's cases. */
uint32_t kc_channel_failures(void);
uint32_t kc_channel_cases(void);
/* Sends one line. */
void kc_send(char kind, const char *text);
/* Runs the rule's check over its cases, and goes on for kc.soak_time; false where
 * it stopped in a case, which may have spoilt the process. */
bool kc_run_rule(const kc_rule *rule);
/* Installs the handlers that write down a crash. */
void kc_watch_crashes(void);
/* Remembers the process's state, and compares it; watch.c. */
void kc_watch_begin(void);
void kc_watch_end(void);
/* What runs when a library is loaded may change this thread's floating point: remembers
 * it, and compares and restores it. */
void kc_watch_load(void);
void kc_watch_loaded(void);

#endif /* KC_CHANNEL_H */
