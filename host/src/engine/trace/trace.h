/* trace.h - trace events, each recorded in its thread's own memory without a lock. */
#ifndef KEEL_TRACE_INSIDE_H
#define KEEL_TRACE_INSIDE_H

#include <kd/host.h>

#include "base/base.h"

extern atomic_bool keel_trace_runs;

/* Whether to note anything. */
static inline bool keel_tracing(void) {
  /* relaxed: an event more or less at either end of a trace does not matter */
  return __builtin_expect(
      atomic_load_explicit(&keel_trace_runs, memory_order_relaxed), 0);
}

/* A span on the calling thread from `begin` (keel_now) until now. `name` lives until the trace is
 * written; place (a device) and detail (a node) are copied, cut to fit, and may be NULL. */
void keel_trace_span(const char *name, const char *place, const char *detail,
                     uint64_t begin);

/* A serial number for a launch, and, in a trace, its description. Its device's records bear it
 * (trace/tickets.h). */
uint32_t keel_trace_launch(const char *name, const char *detail);

/* A copy of `bytes` that began then and ends now, on any thread. */
void keel_trace_copy(const char *name, const char *device, uint64_t bytes,
                     uint64_t begin);

/* Records the current value of a counter. */
void keel_trace_count(const char *name, uint64_t count);

/* kd_host's zones: they nest, on each thread. */
void keel_trace_zone_begin(const char *name);
void keel_trace_zone_end(void);

/* A device's record, in nanoseconds of the host's clock. */
void keel_trace_record(const char *device, const kd_profile_record *record,
                       uint64_t begin, uint64_t end);

/* Names the calling thread; number: from 1, or 0 where there is one such thread. */
void keel_trace_thread(const char *name, unsigned number);

/* Starts a trace; false if one is running. */
bool keel_trace_begin(void);
/* Stops the trace; false if none is running. Its events can be written until the next trace
 * starts. */
bool keel_trace_end(void);
keel_status keel_trace_write(void *part, FILE *file);
void keel_trace_forget(void);

#endif /* KEEL_TRACE_INSIDE_H */
