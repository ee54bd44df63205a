/* store.c - a stored program begins with its key and a digest of itself; anything else
 * is as good as not there. */
#include "families/store.h"

#include <stdio.h>
#include <string.h>

typedef struct head {
  uint64_t magic, size;
  fam_key key, sum;
} head;
#define MAGIC UINT64_C(0x3230676f7270)
KD_STATIC_ASSERT(sizeof(head) == FAM_STORE_HEAD, "the head's size is public");

/* FNV-1a of 64 bits, twice with different starts: a name, not a secret. */
fam_key fam_key_begin(void) {
  return (fam_key){
      {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)}};
}

void fam_key_add(fam_key *key, const void *data, size_t size) {
  const unsigned char *bytes = data;
  for (size_t i = 0; i < size; i++) {
    key->words[0] = (key->words[0] ^ bytes[i]) * UINT64_C(0x100000001b3);
    key->words[1] = (key->words[1] ^ (bytes[i] + i)) * UINT64_C(0x100000001b3);
  }
}

static void store_name_of(const fam_key *key, char *name, size_t size) {
  snprintf(name, size, "%016llx%016llx", (unsigned long long)key->words[0],
           (unsigned long long)key->words[1]);
}

static fam_key store_sum_of(const void *data, size_t size) {
  fam_key sum = fam_key_begin();
  fam_key_add(&sum, data, size);
  return sum;
}

const void *fam_store_get(const kd_host *host, const fam_key *key,
                          void **out_blob, size_t *out_size) {
  char name[40];
  void *blob = NULL;
  uint64_t size = 0;
  head h;
  store_name_of(key, name, sizeof name);
  if (host->cache_get(host, name, &blob, &size) != KD_OK) return NULL;
  if (size > sizeof h) {
    const char *data = (const char *)blob + sizeof h;
    size_t rest = (size_t)size - sizeof h;
    memcpy(&h, blob, sizeof h);
    fam_key sum = store_sum_of(data, rest);
    if (h.magic == MAGIC && h.size == rest &&
        !memcmp(&h.key, key, sizeof *key) &&
        !memcmp(&h.sum, &sum, sizeof sum)) {
      *out_blob = blob;
      *out_size = rest;
      return data;
    }
  }
  host->release(host, blob);
  return NULL;
}

void fam_store_put(const kd_host *host, const fam_key *key, void *blob,
                   size_t size) {
  char name[40];
  head h = {.magic = MAGIC, .size = size, .key = *key};
  h.sum = store_sum_of((const char *)blob + sizeof h, size);
  memcpy(blob, &h, sizeof h);
  store_name_of(key, name, sizeof name);
  host->cache_put(host, name, blob, sizeof h + size);
}
