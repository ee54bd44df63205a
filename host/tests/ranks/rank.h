/* rank.h - one rank of a test that mpirun starts: its runtime and link, and what ends all ranks where
 * a call fails. */
#ifndef KEEL_TESTS_RANK_H
#define KEEL_TESTS_RANK_H

#include <keel/keel.h>
#include <keel/link.h>
#include <stdio.h>
#include <stdlib.h>

static keel_context *context;
static keel_link *ranks;
static keel_link_facts facts;

/* Ends all ranks where a call has failed. */
static inline void need(keel_status status, const char *what) {
  char text[600];
  if (status == KD_OK) return;
  snprintf(text, sizeof text, "%s: %s", what, keel_message());
  if (ranks) keel_link_abort(ranks, 1, text);
  fprintf(stderr, "%s\n", text);
  exit(1);
}
#define NEED(call) need(call, #call)

#endif /* KEEL_TESTS_RANK_H */
