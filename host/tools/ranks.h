/* ranks.h - `keel run` as one of several ranks, which a launcher of MPI has started. */
#ifndef KEEL_RANKS_H
#define KEEL_RANKS_H

#include <keel/link.h>

#include "tool.h"

/* Whether a launcher has started this process as one of several. */
bool ranks_launched(void);

/* The command line, before it is read, which changes its order; the caller frees it. NULL: no
 * memory, which was reported. */
char **ranks_words(int argc, char **argv);

/* Starts so many ranks with these words by the launcher that is found, and waits for them. Returns
 * the exit status; a rank that was killed is reported. */
int ranks_launch(uint64_t count, char *const *words);

/* Says of a program that does not exchange that a launcher has started it several times. */
void ranks_alone(const char *model);

/* Joins the others, with a limit in milliseconds of how long an exchange may wait for them (0: the
 * link's own). From then on all but rank 0 print nothing, but keep what they would. NULL: that
 * failed, which was reported. */
keel_link *ranks_join(keel_context *context, uint64_t timeout);

/* The device for a rank: that of the name, or, where it names a plugin without a number, the one
 * with the rank's own among this machine's. */
keel_status ranks_device(keel_link *link, keel_context *context,
                         const char *name, keel_device **out_device);

/* The last thing: leaves the others, or, where `result` is a failure, ends them all, with what
 * this rank would have printed. Returns the exit status. */
int ranks_end(keel_link *link, int result);

/* From any thread, and of a process that is not a rank, too: ends it at once with a status that is
 * a failure, as ranks_end does. Does not return. */
void ranks_give_up(int result);

/* Stops the trace of this rank, which began then (nanoseconds of CLOCK_MONOTONIC); rank 0 writes
 * those of all in one file, by one clock. All ranks call it. Returns 0, or the exit status. */
int ranks_trace(keel_link *link, keel_context *context, uint64_t began,
                const char *path);

/* The ranks' exchanges, in a line, or as a member of a JSON object. */
void ranks_print(keel_link *link, bool json);

#endif /* KEEL_RANKS_H */
