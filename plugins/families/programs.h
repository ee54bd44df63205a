/* programs.h - a device's compiled programs, each compiled once. */
#ifndef KEEL_FAMILIES_PROGRAMS_H
#define KEEL_FAMILIES_PROGRAMS_H

#include <pthread.h>

#include "families/store.h"

/* How a driver makes programs. */
typedef struct fam_compiler {
  /* What of a source names the program, with all that its code fits. */
  fam_key (*key)(kd_device *device, const char *source);
  /* Code that was built with the plugin, or NULL; the slot may be NULL. */
  const void *(*built)(const fam_key *key, size_t *out_size);
  /* *out_code is what the host's store is to keep, behind FAM_STORE_HEAD free bytes;
   * host->release frees it. NULL: nothing. */
  kd_status (*compile)(kd_device *device, const char *source,
                       void **out_program, void **out_code, size_t *out_size);
  /* The program of code, which may be from anywhere. */
  kd_status (*load)(kd_device *device, const void *code, size_t size,
                    void **out_program);
  /* The code that the device runs, for regions that are kept as a whole (region.c), which
   * host->release frees; or nothing where every device of the kind has it. */
  kd_status (*code)(kd_device *device, const fam_key *key, void *program,
                    void **out_code, size_t *out_size);
  void (*release)(kd_device *device, void *program);
} fam_compiler;

typedef struct fam_programs {
  const kd_host *host;
  kd_device *device;
  const fam_compiler *compiler;
  pthread_mutex_t lock;
  struct fam_known *chains[256]; /* by key */
} fam_programs;

void fam_programs_begin(fam_programs *programs, const kd_host *host,
                        kd_device *device, const fam_compiler *compiler);
void fam_programs_end(fam_programs *programs);

/* The program of `source`, which `programs` caches: built with the plugin, from the host's
 * store, or compiled. Any thread. */
kd_status fam_programs_get(fam_programs *programs, const char *source,
                           void **out_program);

/* The program of a key, if there is one; NULL. */
void *fam_programs_find(fam_programs *programs, const fam_key *key);

/* Makes the program of its code, if there is none of the key. Any thread. */
kd_status fam_programs_adopt(fam_programs *programs, const fam_key *key,
                             const void *code, size_t size);

#endif /* KEEL_FAMILIES_PROGRAMS_H */
