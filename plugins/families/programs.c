/* programs.c - a table of programs by key. */
#include "families/programs.h"

#include <string.h>

typedef struct fam_known {
  struct fam_known *next;
  fam_key key;
  void *program;
} fam_known;

void fam_programs_begin(fam_programs *p) {
  pthread_mutex_init(&p->lock, NULL);
  memset(p->chains, 0, sizeof p->chains);
}

void fam_programs_end(fam_programs *p) {
  for (size_t i = 0; i < 256; i++)
    while (p->chains[i]) {
      fam_known *next = p->chains[i]->next;
      p->release(p->device, p->chains[i]->program);
      p->host->release(p->host, p->chains[i]);
      p->chains[i] = next;
    }
  pthread_mutex_destroy(&p->lock);
}

static fam_known *find(fam_programs *p, const fam_key *key) {
  fam_known *at = p->chains[key->words[0] % 256];
  while (at && memcmp(&at->key, key, sizeof *key) != 0)
    at = at->next;
  return at;
}

/* Compiles outside the lock; of two that compile one source, the first stays. */
kd_status fam_programs_get(fam_programs *p, const char *source,
                           const fam_key *key, void **out) {
  pthread_mutex_lock(&p->lock);
  fam_known *known = find(p, key);
  pthread_mutex_unlock(&p->lock);
  if (known) {
    *out = known->program;
    return KD_OK;
  }
  fam_known *fresh = p->host->allocate(p->host, sizeof *fresh, 0);
  if (!fresh) return p->host->fail(KD_OUT_OF_MEMORY, "no memory for a program");
  fresh->key = *key;
  kd_status status = p->make(p->device, source, key, &fresh->program);
  if (status != KD_OK) {
    p->host->release(p->host, fresh);
    return status;
  }
  pthread_mutex_lock(&p->lock);
  known = find(p, key);
  if (!known) {
    fresh->next = p->chains[key->words[0] % 256];
    p->chains[key->words[0] % 256] = fresh;
    known = fresh;
  }
  pthread_mutex_unlock(&p->lock);
  if (known != fresh) {
    p->release(p->device, fresh->program);
    p->host->release(p->host, fresh);
  }
  *out = known->program;
  return KD_OK;
}
