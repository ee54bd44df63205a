/* programs.c - a table of programs by key. */
#include "families/programs.h"

#include <string.h>

typedef struct fam_known {
  struct fam_known *next;
  fam_key key;
  void *program;
} fam_known;

void fam_programs_begin(fam_programs *p, const kd_host *host, kd_device *device,
                        const fam_compiler *compiler) {
  p->host = host;
  p->device = device;
  p->compiler = compiler;
  pthread_mutex_init(&p->lock, NULL);
  memset(p->chains, 0, sizeof p->chains);
}

void fam_programs_end(fam_programs *p) {
  for (size_t i = 0; i < 256; i++)
    while (p->chains[i]) {
      fam_known *next = p->chains[i]->next;
      p->compiler->release(p->device, p->chains[i]->program);
      p->host->release(p->host, p->chains[i]);
      p->chains[i] = next;
    }
  pthread_mutex_destroy(&p->lock);
}

static fam_known *programs_find(fam_programs *p, const fam_key *key) {
  fam_known *at = p->chains[key->words[0] % 256];
  while (at && memcmp(&at->key, key, sizeof *key) != 0)
    at = at->next;
  return at;
}

void *fam_programs_find(fam_programs *p, const fam_key *key) {
  pthread_mutex_lock(&p->lock);
  const fam_known *known = programs_find(p, key);
  void *program = known ? known->program : NULL;
  pthread_mutex_unlock(&p->lock);
  return program;
}

/* Takes over `fresh`; of two of one key the first stays. */
static void *programs_add(fam_programs *p, fam_known *fresh) {
  pthread_mutex_lock(&p->lock);
  fam_known *known = programs_find(p, &fresh->key);
  if (!known) {
    fresh->next = p->chains[fresh->key.words[0] % 256];
    p->chains[fresh->key.words[0] % 256] = fresh;
    known = fresh;
  }
  pthread_mutex_unlock(&p->lock);
  if (known != fresh) {
    p->compiler->release(p->device, fresh->program);
    p->host->release(p->host, fresh);
  }
  return known->program;
}

static kd_status programs_begin(fam_programs *p, const fam_key *key,
                                fam_known **out) {
  fam_known *fresh = p->host->allocate(p->host, sizeof *fresh, 0);
  if (!fresh) return p->host->fail(KD_OUT_OF_MEMORY, "no memory for a program");
  fresh->key = *key;
  *out = fresh;
  return KD_OK;
}

/* Where it was built with the plugin, or stored. */
static kd_status load_known(const fam_programs *p, const fam_key *key,
                            void **out) {
  void *blob = NULL;
  size_t size = 0;
  const void *code = p->compiler->built ? p->compiler->built(key, &size) : NULL;
  if (!code) code = fam_store_get(p->host, key, &blob, &size);
  if (!code) return KD_NOT_FOUND;
  kd_status status = p->compiler->load(p->device, code, size, out);
  if (blob) p->host->release(p->host, blob);
  return status;
}

/* Also where what is stored can't be loaded. */
static kd_status programs_make(const fam_programs *p, const char *source,
                               const fam_key *key, void **out) {
  void *code = NULL;
  size_t size = 0;
  if (load_known(p, key, out) == KD_OK) return KD_OK;
  kd_status status = p->compiler->compile(p->device, source, out, &code, &size);
  if (!code) return status;
  if (status == KD_OK) fam_store_put(p->host, key, code, size);
  p->host->release(p->host, code);
  return status;
}

/* Compiles outside the lock. */
kd_status fam_programs_get(fam_programs *p, const char *source, void **out) {
  fam_known *fresh = NULL;
  fam_key key = p->compiler->key(p->device, source);
  *out = fam_programs_find(p, &key);
  if (*out) return KD_OK;
  kd_status status = programs_begin(p, &key, &fresh);
  if (status != KD_OK) return status;
  status = programs_make(p, source, &key, &fresh->program);
  if (status == KD_OK)
    *out = programs_add(p, fresh);
  else
    p->host->release(p->host, fresh);
  return status;
}

kd_status fam_programs_adopt(fam_programs *p, const fam_key *key,
                             const void *code, size_t size) {
  fam_known *fresh = NULL;
  if (fam_programs_find(p, key)) return KD_OK;
  kd_status status = programs_begin(p, key, &fresh);
  if (status != KD_OK) return status;
  status = p->compiler->load(p->device, code, size, &fresh->program);
  if (status == KD_OK)
    programs_add(p, fresh);
  else
    p->host->release(p->host, fresh);
  return status;
}
