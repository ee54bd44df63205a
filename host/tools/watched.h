/* watched.h - a command that looks at plugins, in a child process which they can't take the
 * command with. */
#ifndef KEEL_TOOLS_WATCHED_H
#define KEEL_TOOLS_WATCHED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Seconds that a call into a plugin may take, without an option. */
#define WATCHED_LIMIT 30.0

/* The command's output, complete and once: a plugin may print to standard output. */
extern FILE *result;
void print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line on standard error, except one that an earlier child of the command has logged. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* keel_context_params.log, for such lines. */
void watched_log(void *context, uint32_t level, const char *line);

/* Runs `look` in a child process, and prints its result. Where a plugin ends the child or
 * holds it up for `limit` seconds (0: for good), another child does it again, to which that
 * plugin is refused, with what happened as the reason. Returns look's exit status, which is 1
 * in the place of 0 where a plugin was refused so. */
int watched_run(int (*look)(void), double limit);

/* How many plugins are refused so, in the child. */
uint32_t watched_broken(void);

/* keel_context_params.step; the command calls it itself before other calls into a plugin. */
const char *watched_step(void *context, const char *path, const char *slot);

/* From here on to the next step the command works itself: it may take any time. */
void watched_own(void);

#endif /* KEEL_TOOLS_WATCHED_H */
