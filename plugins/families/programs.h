/* programs.h - a device's compiled programs, each made once. */
#ifndef KEEL_FAMILIES_PROGRAMS_H
#define KEEL_FAMILIES_PROGRAMS_H

#include <pthread.h>

#include "families/store.h"

typedef struct fam_programs {
  const kd_host *host;
  kd_device *device;
  /* Compiles `source`; frees what that made. */
  kd_status (*make)(kd_device *device, const char *source, const fam_key *key,
                    void **out_program);
  void (*release)(kd_device *device, void *program);
  pthread_mutex_t lock;
  struct fam_known *chains[256]; /* by key */
} fam_programs;

/* The fields above the lock are the caller's to set. */
void fam_programs_begin(fam_programs *programs);
void fam_programs_end(fam_programs *programs);

/* The program of `source`, which `programs` keeps; `key` is of all that it hangs on.
 * Any thread. */
kd_status fam_programs_get(fam_programs *programs, const char *source,
                           const fam_key *key, void **out_program);

#endif /* KEEL_FAMILIES_PROGRAMS_H */
