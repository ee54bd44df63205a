/* store.h - compiled programs in the host's persistent cache, keyed by a digest of what
 * they were made from. */
#ifndef KEEL_FAMILIES_STORE_H
#define KEEL_FAMILIES_STORE_H

#include <kd/kd.h>
#include <stddef.h>

typedef struct fam_key {
  uint64_t words[2];
} fam_key;

/* A key of nothing; and one that has seen more. */
fam_key fam_key_begin(void);
void fam_key_add(fam_key *key, const void *data, size_t size);

/* What was put under the key, whole and for this key only; else NULL. It begins
 * FAM_STORE_HEAD bytes behind *out_blob, which host->release frees. */
#define FAM_STORE_HEAD 48
const void *fam_store_get(const kd_host *host, const fam_key *key,
                          void **out_blob, size_t *out_size);

/* Puts `size` bytes, which stand behind FAM_STORE_HEAD free ones. */
void fam_store_put(const kd_host *host, const fam_key *key, void *blob,
                   size_t size);

#endif /* KEEL_FAMILIES_STORE_H */
