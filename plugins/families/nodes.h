/* nodes.h - the sources of the families' most used kernels, without a device: to be
 * compiled while a plugin is built, or to see that they compile. */
#ifndef KEEL_FAMILIES_NODES_H
#define KEEL_FAMILIES_NODES_H

#include "families/dialect.h"

/* A host, as far as plans and compilers need one: memory, and errors and logs on stderr. */
extern const kd_host fam_plain_host;

/* Calls `take` with each source that `source` writes, some more than once; ends where it
 * returns false. Returns whether all were taken. */
bool fam_each_source(const fam_dialect *dialect,
                     char *(*source)(const kd_host *host,
                                     const fam_dialect *dialect,
                                     const fam_pass *pass),
                     bool (*take)(void *context, const char *source),
                     void *context);

#endif /* KEEL_FAMILIES_NODES_H */
