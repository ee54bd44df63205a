/* script.c - writes what a device is told to do. */
#include "families/script.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "families/instance.h"
#include "families/store.h"

/* A source that was written. */
typedef struct seen {
  struct seen *next;
  fam_key key;
  uint64_t number;
} seen;

struct fam_script {
  const kd_host *host;
  FILE *file;
  pthread_mutex_t lock;
  seen *sources;
  uint64_t source_count;
  bool lacks; /* a source, for want of memory */
};

static atomic_flag taken = ATOMIC_FLAG_INIT;

kd_status fam_script_open(const kd_host *host, fam_script **out_script) {
  const char *path = host->option(host, "script");
  *out_script = NULL;
  if (!path || !*path) return KD_OK;
  if (atomic_flag_test_and_set(&taken))
    return host->fail(KD_FAILED_PRECONDITION,
                      "another device writes the script %.200s; show one"
                      " device alone (KEEL_VISIBLE_DEVICES)",
                      path);
  fam_script *script = host->allocate(host, sizeof *script, 0);
  FILE *file = script ? fopen(path, "wb") : NULL;
  if (!file) {
    kd_status status =
        script ? host->fail(KD_PERMISSION_DENIED,
                            "the script %.200s can't be written: %s", path,
                            strerror(errno))
               : host->fail(KD_OUT_OF_MEMORY, "no memory for the script");
    if (script) host->release(host, script);
    atomic_flag_clear(&taken);
    return status;
  }
  memset(script, 0, sizeof *script);
  script->host = host;
  script->file = file;
  pthread_mutex_init(&script->lock, NULL);
  fwrite("KEELFAM1", 1, 8, file);
  *out_script = script;
  return KD_OK;
}

void fam_script_close(fam_script *script) {
  if (!script) return;
  bool failed = ferror(script->file) != 0;
  failed |= fclose(script->file) != 0;
  if (failed)
    script->host->log(script->host, KD_LOG_ERROR, "the script is not whole: %s",
                      strerror(errno));
  else if (script->lacks)
    script->host->log(script->host, KD_LOG_ERROR,
                      "the script is not whole: no memory for a source");
  while (script->sources) {
    seen *next = script->sources->next;
    script->host->release(script->host, script->sources);
    script->sources = next;
  }
  pthread_mutex_destroy(&script->lock);
  script->host->release(script->host, script);
  atomic_flag_clear(&taken);
}

/* ---- records ----------------------------------------------------------------------- */

static void word(fam_script *s, uint64_t value) {
  fwrite(&value, 1, sizeof value, s->file);
}

static void bytes(fam_script *s, const void *data, uint64_t size) {
  static const char zeros[8];
  fwrite(data, 1, (size_t)size, s->file);
  fwrite(zeros, 1, (size_t)(-size % 8), s->file);
}

static void buffer(fam_script *s, const fam_command *m, uint32_t at) {
  word(s, (uint64_t)(uintptr_t)m->buffers[at]);
  word(s, m->buffers[at] ? fam_size_of(m->buffers[at]) : 0);
  word(s, m->offsets[at]);
}

/* The number of a source, which is written when it is first met. */
static uint64_t source_of(fam_script *s, const fam_driver *driver,
                          const fam_pass *pass) {
  char *text = driver->source(s->host, &driver->dialect, pass);
  if (!text) s->lacks = true;
  if (!text) return UINT64_MAX;
  fam_key key = fam_key_begin();
  fam_key_add(&key, text, strlen(text));
  uint64_t number = UINT64_MAX;
  for (const seen *at = s->sources; at; at = at->next)
    if (!memcmp(&at->key, &key, sizeof key)) number = at->number;
  seen *fresh = number == UINT64_MAX
                    ? s->host->allocate(s->host, sizeof *fresh, 0)
                    : NULL;
  if (number == UINT64_MAX && !fresh) s->lacks = true;
  if (fresh) {
    number = s->source_count++;
    *fresh = (seen){s->sources, key, number};
    s->sources = fresh;
    word(s, 'S');
    word(s, number);
    word(s, strlen(text));
    bytes(s, text, strlen(text));
  }
  s->host->release(s->host, text);
  return number;
}

static void script_launch(fam_script *s, const fam_driver *driver,
                          const fam_command *m, const fam_pass *pass) {
  uint64_t source = source_of(s, driver, pass);
  uint64_t size = pass->param_count * sizeof *pass->params;
  word(s, 'L');
  word(s, source);
  word(s, pass->groups);
  word(s, pass->group);
  word(s, size);
  bytes(s, pass->params, size);
  word(s, m->buffer_count);
  for (uint32_t i = 0; i < m->buffer_count; i++)
    buffer(s, m, i);
}

static void script_copy(fam_script *s, const fam_command *m) {
  static const char letters[] = {[FAM_COPY_IN] = 'I',
                                 [FAM_COPY_OUT] = 'O',
                                 [FAM_COPY] = 'C',
                                 [FAM_FILL] = 'F'};
  word(s, (uint64_t)letters[m->kind]);
  buffer(s, m, 0);
  if (m->kind == FAM_COPY) buffer(s, m, 1);
  word(s, m->size);
  if (m->kind == FAM_COPY_IN) bytes(s, m->source, m->size);
  if (m->kind == FAM_FILL) {
    word(s, m->pattern_size);
    bytes(s, m->pattern, m->pattern_size);
  }
}

void fam_script_add(fam_script *script, const fam_driver *driver,
                    const fam_command *command, const fam_pass *pass) {
  pthread_mutex_lock(&script->lock);
  if (command->kind == FAM_LAUNCH)
    script_launch(script, driver, command, pass);
  else
    script_copy(script, command);
  pthread_mutex_unlock(&script->lock);
}

void fam_script_run(fam_script *script) {
  if (!script) return;
  pthread_mutex_lock(&script->lock);
  word(script, 'R');
  pthread_mutex_unlock(&script->lock);
}
