/* end.h - how a command ends. */
#ifndef KEEL_TOOLS_END_H
#define KEEL_TOOLS_END_H

#include <stdbool.h>

/* To be called first. A process that ends otherwise than by end_with reports it and fails. */
void end_prepare(void);

/* For a child process that another process watches: it ends as a plugin ends it. */
void end_expected(void);

/* The exit status, which is 1 instead of 0 if standard output could not be written in full; an
 * error is printed. */
int end_with(int status);

#endif /* KEEL_TOOLS_END_H */
