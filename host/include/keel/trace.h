/* keel/trace.h - a timeline of events, for Perfetto or chrome://tracing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_TRACE_H
#define KEEL_TRACE_H

#include <keel/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a trace of runs, ops, parts of loops, copies, the number of waiting
 * tasks, zones that plugins mark and, for open devices with a clock, the
 * devices' work. It covers the whole process, one trace at a time, and the
 * devices of this context. Any thread. Each event costs two readings of the
 * clock; while no trace runs there is no measurable cost.
 * Returns KD_OK, KD_FAILED_PRECONDITION (a trace is running). */
KEEL_API keel_status keel_trace_start(keel_context *context);

/* Stops the trace and writes it in the Trace Event Format (JSON): the host's
 * threads, the devices' streams, and copies, each on tracks of their own. path
 * NULL: the trace is discarded. A thread records at most 2^18 events; the file
 * says how many were lost.
 * Returns KD_OK, KD_FAILED_PRECONDITION (no trace is running),
 * KD_PERMISSION_DENIED, KD_UNAVAILABLE (cannot be written; the trace is
 * discarded). */
KEEL_API keel_status keel_trace_stop(keel_context *context, const char *path);

typedef struct keel_trace_part {
  uint64_t struct_size; /* sizeof(keel_trace_part) */
  uint32_t rank;        /* tracks are named by it */
  uint32_t reserved;    /* zero */
  uint64_t
      origin; /* the time that counts as 0, nanoseconds of CLOCK_MONOTONIC */
} keel_trace_part;

/* The same, as one rank's fragment of a file for several ranks: events alone, each after a comma.
 * The file is {"traceEvents":[, a first event, the fragments, and ]}. */
KEEL_API keel_status keel_trace_stop_part(keel_context *context,
                                          const keel_trace_part *part,
                                          const char *path);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_TRACE_H */
