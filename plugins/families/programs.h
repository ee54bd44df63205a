/* programs.h - a device's compiled programs, each compiled once. */
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
  /* For regions that are kept as a whole (region.c); NULL: they are not. What of a source
   * names the program, with all that its code fits; the code that the device runs, which
   * host->release frees, or nothing where every device of the kind has it; and the program
   * of such code, which is from anywhere. */
  fam_key (*key)(kd_device *device, const char *source);
  kd_status (*code)(kd_device *device, const fam_key *key, void *program,
                    void **out_code, size_t *out_size);
  kd_status (*load)(kd_device *device, const void *code, size_t size,
                    void **out_program);
  pthread_mutex_t lock;
  struct fam_known *chains[256]; /* by key */
} fam_programs;

/* The fields above the lock are the caller's to set. */
void fam_programs_begin(fam_programs *programs);
void fam_programs_end(fam_programs *programs);

/* The program of `source`, which `programs` caches; `key` covers everything that it depends
 * on. Any thread. */
kd_status fam_programs_get(fam_programs *programs, const char *source,
                           const fam_key *key, void **out_program);

/* The program of a key, if there is one; NULL. */
void *fam_programs_find(fam_programs *programs, const fam_key *key);

/* Makes the program of its code, if there is none of the key. Any thread. */
kd_status fam_programs_adopt(fam_programs *programs, const fam_key *key,
                             const void *code, size_t size);

#endif /* KEEL_FAMILIES_PROGRAMS_H */
