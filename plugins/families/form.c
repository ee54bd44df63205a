/* form.c - a form is a head and, for each program, its key, the size of its code, and that;
 * all of it summed, so that what was cut or has changed is found before it is used. The
 * plan is made anew of the graph: of it, a form has a digest. */
#include "families/form.h"

#include <string.h>

typedef struct head {
  uint64_t magic;
  fam_key sum;          /* of all behind it */
  fam_key fits;         /* device, driver, options */
  fam_key plan;         /* kernels, their sizes and parameters */
  uint64_t count, size; /* programs, and bytes of all */
} head;
#define MAGIC  UINT64_C(0x316d726f66626c)
#define SUMMED offsetof(head, fits)

typedef struct entry {
  fam_key key;
  uint64_t size; /* of the code, which follows, filled up to 8 */
} entry;

static uint64_t filled(uint64_t size) {
  return (size + 7) / 8 * 8;
}

/* ---- digests --------------------------------------------------------------------- */

static fam_key fits(const fam_driver *driver, kd_device *device) {
  fam_key key = driver->programs->compiler->key(device, "");
  fam_key_add(&key, driver->name, strlen(driver->name) + 1);
  return key;
}

/* Its source names all that is compiled; the rest comes with a launch. */
static void add_pass(fam_key *key, const fam_pass *pass, const char *source) {
  fam_key_add(key, source, strlen(source) + 1);
  fam_key_add(key, pass->params, pass->param_count * sizeof *pass->params);
  fam_key_add(key, &pass->groups, sizeof pass->groups);
  fam_key_add(key, &pass->group, sizeof pass->group);
  for (uint32_t i = 0; i < pass->buffer_count; i++) {
    fam_key_add(key, &pass->buffers[i].place, sizeof pass->buffers[i].place);
    fam_key_add(key, &pass->buffers[i].index, sizeof pass->buffers[i].index);
  }
}

static fam_key form_sum_of(const void *blob, uint64_t size) {
  fam_key key = fam_key_begin();
  fam_key_add(&key, (const char *)blob + SUMMED, (size_t)size - SUMMED);
  return key;
}

/* Goes over the passes that have a kernel. */
typedef kd_status (*seen_pass)(void *context, const char *source);

static kd_status for_each(const fam_driver *driver, const fam_plan *plan,
                          fam_key *out_digest, seen_pass seen, void *context) {
  kd_status status = KD_OK;
  *out_digest = fam_key_begin();
  for (uint32_t i = 0; i < plan->count && status == KD_OK; i++) {
    const fam_pass *pass = &plan->passes[i];
    if (!pass->groups) continue;
    char *source = driver->source(driver->host, &driver->dialect, pass);
    if (!source)
      return driver->host->fail(KD_OUT_OF_MEMORY, "no memory for a source");
    add_pass(out_digest, pass, source);
    if (seen) status = seen(context, source);
    driver->host->release(driver->host, source);
  }
  return status;
}

/* ---- writing --------------------------------------------------------------------- */

typedef struct writing {
  const fam_driver *driver;
  kd_device *device;
  char *blob;
  uint64_t size, count;
} writing;

static kd_status form_append(writing *w, const entry *of, const void *code) {
  const kd_host *host = w->driver->host;
  uint64_t more = sizeof *of + filled(of->size);
  char *longer = host->allocate(host, (size_t)(w->size + more), 0);
  if (!longer) return host->fail(KD_OUT_OF_MEMORY, "no memory for a form");
  memcpy(longer, w->blob, (size_t)w->size);
  memset(longer + w->size, 0, (size_t)more);
  memcpy(longer + w->size, of, sizeof *of);
  if (of->size) memcpy(longer + w->size + sizeof *of, code, (size_t)of->size);
  host->release(host, w->blob);
  w->blob = longer;
  w->size += more;
  w->count++;
  return KD_OK;
}

/* A pass that a library does has no program. */
static kd_status write_pass(void *context, const char *source) {
  writing *w = context;
  fam_programs *programs = w->driver->programs;
  entry of = {.key = programs->compiler->key(w->device, source)};
  void *program = fam_programs_find(programs, &of.key), *code = NULL;
  size_t size = 0;
  if (!program) return KD_OK;
  kd_status status =
      programs->compiler->code(w->device, &of.key, program, &code, &size);
  of.size = size;
  if (status == KD_OK) status = form_append(w, &of, code);
  if (code) w->driver->host->release(w->driver->host, code);
  return status;
}

kd_status fam_form_write(const fam_driver *driver, kd_device *device,
                         const fam_plan *plan, void **out_blob,
                         uint64_t *out_size) {
  const kd_host *host = driver->host;
  if (!driver->programs)
    return host->fail(KD_UNIMPLEMENTED, "%s gives no compiled forms",
                      driver->name);
  head h = {.magic = MAGIC, .fits = fits(driver, device)};
  writing w = {.driver = driver,
               .device = device,
               .blob = host->allocate(host, sizeof h, 0),
               .size = sizeof h};
  if (!w.blob) return host->fail(KD_OUT_OF_MEMORY, "no memory for a form");
  memset(w.blob, 0, sizeof h);
  kd_status status = for_each(driver, plan, &h.plan, write_pass, &w);
  if (status != KD_OK) {
    host->release(host, w.blob);
    return status;
  }
  h.count = w.count;
  h.size = w.size;
  memcpy(w.blob, &h, sizeof h);
  h.sum = form_sum_of(w.blob, w.size);
  memcpy(w.blob, &h, sizeof h);
  *out_blob = w.blob;
  *out_size = w.size;
  return KD_OK;
}

/* ---- reading --------------------------------------------------------------------- */

/* The entry at *at, and its code; false where there is no whole one. */
static bool next_entry(const char *blob, uint64_t size, uint64_t *at,
                       entry *out_entry, const char **out_code) {
  if (size - *at < sizeof *out_entry) return false;
  memcpy(out_entry, blob + *at, sizeof *out_entry);
  *at += sizeof *out_entry;
  if (out_entry->size > size - *at || filled(out_entry->size) > size - *at)
    return false;
  *out_code = blob + *at;
  *at += filled(out_entry->size);
  return true;
}

static bool is_whole(const char *blob, uint64_t size, head *out_head) {
  uint64_t at = sizeof *out_head;
  entry one;
  const char *code = NULL;
  if (size < sizeof *out_head) return false;
  memcpy(out_head, blob, sizeof *out_head);
  if (out_head->magic != MAGIC || out_head->size != size) return false;
  fam_key sum = form_sum_of(blob, size);
  if (memcmp(&sum, &out_head->sum, sizeof sum) != 0) return false;
  for (uint64_t i = 0; i < out_head->count; i++)
    if (!next_entry(blob, size, &at, &one, &code)) return false;
  return at == size;
}

kd_status fam_form_check(const fam_driver *driver, kd_device *device,
                         const void *blob, uint64_t size) {
  const kd_host *host = driver->host;
  head h;
  if (!driver->programs)
    return host->fail(KD_INCOMPATIBLE, "%s takes no compiled forms",
                      driver->name);
  if (!is_whole(blob, size, &h))
    return host->fail(KD_DATA_LOSS,
                      "a compiled form of %llu bytes is cut off or has changed",
                      (unsigned long long)size);
  fam_key here = fits(driver, device);
  if (memcmp(&here, &h.fits, sizeof here) != 0)
    return host->fail(KD_INCOMPATIBLE,
                      "a compiled form is of another device, driver or options"
                      " than %s",
                      driver->name);
  return KD_OK;
}

kd_status fam_form_read(const fam_driver *driver, kd_device *device,
                        const fam_plan *plan, const void *blob, uint64_t size) {
  const kd_host *host = driver->host;
  uint64_t at = sizeof(head);
  head h;
  fam_key digest;
  kd_status status = fam_form_check(driver, device, blob, size);
  if (status == KD_OK) status = for_each(driver, plan, &digest, NULL, NULL);
  if (status != KD_OK) return status;
  memcpy(&h, blob, sizeof h);
  if (memcmp(&digest, &h.plan, sizeof digest) != 0)
    return host->fail(KD_INCOMPATIBLE, "a compiled form is of another graph");
  for (uint64_t i = 0; i < h.count; i++) {
    entry one = {0};
    const char *code = NULL;
    if (next_entry(blob, size, &at, &one, &code) && one.size &&
        fam_programs_adopt(driver->programs, &one.key, code,
                           (size_t)one.size) != KD_OK)
      return KD_INCOMPATIBLE; /* why, the driver has said */
  }
  return KD_OK;
}
