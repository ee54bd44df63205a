/* keel/trace.h - what happened when, in a file for Perfetto or chrome://tracing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_TRACE_H
#define KEEL_TRACE_H

#include <keel/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts to note runs, ops, parts of loops, copies, how many tasks wait, zones that
 * plugins mark, and, by the clocks of the devices that have one and are open, what
 * devices did. Of the whole process, one at a time; the context's devices are asked.
 * Any thread. Costs two readings of the clock for each thing that is noted; nothing
 * that can be measured while no trace runs.
 * Returns KD_OK, KD_FAILED_PRECONDITION (a trace runs). */
KEEL_API keel_status keel_trace_start(keel_context *context);

/* Stops, and writes what was noted, in the Trace Event Format (JSON): threads of the
 * host, devices' streams, and copies, each on tracks of their own. path NULL: it is
 * thrown away. A thread notes at most 2^18 things; the file says how many were lost.
 * Returns KD_OK, KD_FAILED_PRECONDITION (no trace runs), KD_PERMISSION_DENIED,
 * KD_UNAVAILABLE (can't be written; it is thrown away). */
KEEL_API keel_status keel_trace_stop(keel_context *context, const char *path);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_TRACE_H */
