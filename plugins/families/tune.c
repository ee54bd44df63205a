/* tune.c - searching for the best cut of a kernel, and keeping it. */
#include "families/tune.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/options.h"
#include "families/cut.h"
#include "families/ready.h"

#define CUT_TEXT 32
#define ROUND    2e-3 /* seconds of launches that are timed as one */
#define ROUNDS   3
#define LONG     20e-3 /* of one launch: not repeated in rounds */
#define BETTER   0.97  /* of the cost model's time, in turn, or that stays */
#define HOPELESS 1.3   /* of the best time: not looked at again */

/* As it stands in the store. */
typedef struct found {
  fam_key key;
  char cut[CUT_TEXT];
} found;

struct fam_tuner {
  const kd_host *host;
  fam_key name; /* of the store's entry, which has all of a device */
  pthread_mutex_t lock;
  found *all;
  uint32_t count, room;
  bool searching;
  tune_wish wish;
  double until;
  uint32_t left;
  int64_t forced; /* the number of the cut that all take; -1: none */
};

static double now(void) {
  return (double)clock_now() * 1e-9;
}

/* ---- what was found ----------------------------------------------------------------- */

static found *tune_find(const fam_tuner *t, const fam_key *key) {
  for (uint32_t i = 0; i < t->count; i++)
    if (!memcmp(&t->all[i].key, key, sizeof *key)) return &t->all[i];
  return NULL;
}

static void tune_keep(fam_tuner *t, const found *one) {
  found *known = tune_find(t, &one->key);
  if (known) {
    *known = *one;
    return;
  }
  if (t->count == t->room) {
    uint32_t room = t->room ? 2 * t->room : 64;
    found *more = t->host->allocate(t->host, room * sizeof *more, 0);
    if (!more) return; /* it is searched for again another time */
    if (t->count) memcpy(more, t->all, t->count * sizeof *more);
    if (t->all) t->host->release(t->host, t->all);
    t->all = more;
    t->room = room;
  }
  t->all[t->count++] = *one;
}

/* Adds what the store has and is not known here: other processes search, too. */
static void read_store(fam_tuner *t) {
  void *blob = NULL;
  size_t size = 0;
  const char *data = fam_store_get(t->host, &t->name, &blob, &size);
  for (size_t at = 0; data && at + sizeof(found) <= size; at += sizeof(found)) {
    found one;
    memcpy(&one, data + at, sizeof one);
    if (memchr(one.cut, 0, CUT_TEXT) && !tune_find(t, &one.key))
      tune_keep(t, &one);
  }
  if (blob) t->host->release(t->host, blob);
}

/* KD_UNAVAILABLE: the store does not give it back. */
static kd_status write_store(fam_tuner *t) {
  size_t size = t->count * sizeof *t->all + 1, got = 0;
  void *back = NULL;
  char *blob = t->host->allocate(t->host, FAM_STORE_HEAD + size, 0);
  if (!blob) return t->host->fail(KD_OUT_OF_MEMORY, "no memory for a result");
  blob[FAM_STORE_HEAD + size - 1] = 0; /* an entry of no bytes is none */
  if (t->count) memcpy(blob + FAM_STORE_HEAD, t->all, size - 1);
  fam_store_put(t->host, &t->name, blob, size);
  const char *data = fam_store_get(t->host, &t->name, &back, &got);
  bool kept = data && got == size && !memcmp(data, blob + FAM_STORE_HEAD, size);
  if (back) t->host->release(t->host, back);
  t->host->release(t->host, blob);
  return kept ? KD_OK
              : t->host->fail(KD_UNAVAILABLE,
                              "the store keeps nothing: is the folder keel in"
                              " $XDG_CACHE_HOME, or $HOME/.cache, writable,"
                              " and the disk not full?");
}

/* Of all that a result depends on but the device: kernels, sizes, and types of operands. What
 * the kernel goes on with is little of its work, and no part of it. */
static fam_key tune_key_of(const fam_pass *pass) {
  fam_key key = pass->work;
  for (uint32_t i = 0; i < pass->cut_count; i++) {
    const char *kernel = pass->cuts[i].kernel, *text = fam_text(kernel);
    bool seen = i && !strcmp(pass->cuts[i - 1].kernel, kernel);
    if (!seen && text) fam_key_add(&key, text, strlen(text));
  }
  for (uint32_t i = 0; i < pass->buffer_count; i++)
    if (!strcmp(pass->buffers[i].name, "A") ||
        !strcmp(pass->buffers[i].name, "B"))
      fam_key_add(&key, &pass->buffers[i].dtype, sizeof pass->buffers[i].dtype);
  return key;
}

/* ---- timing ----------------------------------------------------------------------------- */

/* A variant that can be launched, with memory of its own. */
typedef struct trial {
  const fam_driver *driver;
  kd_device *device;
  const fam_maker *maker;
  kd_stream *stream;
  kd_launch launch;
  kd_tensor in[FAM_INPUTS], out[FAM_OUTPUTS];
  char cut[CUT_TEXT];
} trial;

static void end_trial(trial *at) {
  const kd_memory_table *memory = at->driver->memory;
  for (uint32_t i = 0; i < FAM_INPUTS + FAM_OUTPUTS; i++) {
    kd_tensor *tensor = i < FAM_INPUTS ? &at->in[i] : &at->out[i - FAM_INPUTS];
    if (tensor->buffer) memory->release(at->device, tensor->buffer);
  }
  if (at->stream) at->driver->streams->destroy(at->stream);
}

/* Small numbers in every type of element. */
static kd_status give_memory(trial *at, kd_tensor *tensor, uint64_t size) {
  static const uint8_t small = 0x3c;
  void *address = NULL;
  const kd_allocation wanted = {.struct_size = sizeof wanted,
                                .size = size ? size : 1};
  kd_status status = at->driver->memory->allocate(at->device, &wanted,
                                                  &tensor->buffer, &address);
  if (status != KD_OK) return status;
  tensor->size = size;
  return at->driver->memory->fill(at->device, NULL, tensor->buffer, 0, size,
                                  &small, sizeof small);
}

static kd_status begin_trial(trial *at, const fam_pass *pass) {
  const fam_maker *maker = at->maker;
  kd_status status = at->driver->streams->create(at->device, 0, 0, &at->stream);
  for (uint32_t i = 0; i < pass->buffer_count && status == KD_OK; i++) {
    uint32_t index = pass->buffers[i].index;
    bool is_in = pass->buffers[i].place == FAM_INPUT;
    kd_tensor *tensor = is_in ? &at->in[index] : &at->out[index];
    if (!tensor->buffer)
      status =
          give_memory(at, tensor, is_in ? maker->in[index] : maker->out[index]);
  }
  at->launch = (kd_launch){.struct_size = sizeof at->launch,
                           .inputs = at->in,
                           .outputs = at->out,
                           .input_count = FAM_INPUTS,
                           .output_count = FAM_OUTPUTS};
  return status;
}

static kd_status tune_launch(const trial *at, const fam_ready *ready,
                             uint32_t count, double *out_seconds) {
  kd_status status = KD_OK;
  double from = now();
  for (uint32_t i = 0; i < count && status == KD_OK; i++)
    status =
        fam_ready_run(at->driver, at->device, at->stream, ready, &at->launch);
  kd_status ended = at->driver->streams->synchronize(at->stream);
  *out_seconds = (now() - from) / count;
  return status == KD_OK ? ended : status;
}

/* The best of some rounds, or of one where that is beyond `hope`. */
static kd_status time_ready(const trial *at, const fam_ready *ready,
                            uint32_t rounds, double hope, double *out_best) {
  double each = 0;
  kd_status status = tune_launch(at, ready, 1, &each); /* a warm one counts */
  if (status == KD_OK) status = tune_launch(at, ready, 1, &each);
  uint32_t count = each < ROUND / 1000 ? 1000
                   : each < ROUND      ? (uint32_t)(ROUND / each)
                                       : 1;
  *out_best = each;
  if (each > LONG) rounds = 1;
  for (uint32_t i = 0; i < rounds && status == KD_OK; i++) {
    if (*out_best > hope) break;
    status = tune_launch(at, ready, count, &each);
    if (each < *out_best) *out_best = each;
  }
  return status;
}

/* A plan of this cut and its programs; to be freed in any case. */
static kd_status make_ready(const trial *at, const fam_cut *cut,
                            fam_ready *ready) {
  memset(ready, 0, sizeof *ready);
  fam_plan_begin(&ready->plan, at->driver);
  if (cut) ready->plan.cut = *cut;
  kd_status status = at->maker->make(at->maker->context, &ready->plan);
  return status == KD_OK ? fam_ready_compile(at->driver, at->device, ready)
                         : status;
}

/* ---- the search --------------------------------------------------------------------------- */

typedef struct search {
  fam_tuner *tuner;
  trial trial;
  fam_ready first, other; /* the cost model's; another */
  tune_news news;
  char op[64], shapes[96], before[CUT_TEXT], after[CUT_TEXT];
  fam_cut best;
} search;

static void tune_tell(search *s) {
  const tune_wish *wish = &s->tuner->wish;
  if (wish->tell) wish->tell(wish->context, &s->news);
}

static void write_shapes(const kd_host *host, const kd_node *node, char *text,
                         size_t size) {
  size_t used = 0;
  for (uint32_t i = 0; node && i < 2; i++) {
    kd_type type = {0};
    if (host->node->input_type(node, i, &type) != KD_OK) break;
    for (uint32_t d = 0; d < type.rank && used < size; d++) {
      int wrote = snprintf(text + used, size - used, "%s%lld",
                           d   ? "x"
                           : i ? " by "
                               : "",
                           (long long)type.dims[d]);
      used += wrote > 0 ? (size_t)wrote : 0;
    }
  }
}

/* What is told of it, the beginning. */
static void tune_describe(search *s, const fam_pass *pass) {
  const fam_maker *maker = s->trial.maker;
  const kd_host *host = s->tuner->host;
  const char *name = maker->node ? host->node->op(maker->node) : "region";
  if (maker->behind)
    snprintf(s->op, sizeof s->op, "%.48s +%u", name, maker->behind);
  else
    snprintf(s->op, sizeof s->op, "%.48s", name);
  write_shapes(host, maker->node, s->shapes, sizeof s->shapes);
  fam_cut_text(&pass->cut, s->before, sizeof s->before);
  memcpy(s->after, s->before, sizeof s->after);
  s->news = (tune_news){.struct_size = sizeof s->news,
                        .all = pass->cut_count,
                        .op = s->op,
                        .shapes = s->shapes,
                        .before = s->before,
                        .after = s->after};
}

/* Whether it is the best so far. */
static kd_status try_cut(search *s, const fam_cut *cut) {
  double time = 0;
  kd_status status = make_ready(&s->trial, cut, &s->other);
  if (status == KD_OK)
    status = time_ready(&s->trial, &s->other, ROUNDS,
                        s->news.after_time * HOPELESS, &time);
  if (status == KD_OK && time < s->news.after_time) {
    s->news.after_time = time;
    s->best = *cut;
    fam_cut_text(cut, s->after, sizeof s->after);
  }
  fam_ready_free(s->trial.driver, s->trial.device, &s->other);
  return status;
}

/* The best beside the cost model's once more, in turn: noise does not win. */
static kd_status tune_settle(search *s) {
  double first = 1e30, best = 1e30, time = 0;
  const trial *at = &s->trial;
  kd_status status = make_ready(at, &s->best, &s->other);
  for (int i = 0; i < ROUNDS && status == KD_OK; i++) {
    status = time_ready(at, &s->first, 1, 1e30, &time);
    if (time < first) first = time;
    if (status == KD_OK) status = time_ready(at, &s->other, 1, 1e30, &time);
    if (time < best) best = time;
  }
  fam_ready_free(at->driver, at->device, &s->other);
  if (status != KD_OK) return status;
  s->news.before_time = first;
  if (best < first * BETTER) {
    s->news.after_time = best;
  } else {
    memcpy(s->after, s->before, sizeof s->after);
    s->news.after_time = first;
  }
  return KD_OK;
}

/* KD_DEADLINE_EXCEEDED: there was no time. A variant that fails is none. */
static kd_status tune_look(search *s, const fam_pass *pass) {
  double time = 0;
  if (now() > s->tuner->until) return KD_DEADLINE_EXCEEDED;
  kd_status status = begin_trial(&s->trial, pass);
  if (status == KD_OK) status = make_ready(&s->trial, NULL, &s->first);
  if (status == KD_OK)
    status = time_ready(&s->trial, &s->first, ROUNDS, 1e30, &time);
  if (status != KD_OK) return status;
  s->news.before_time = s->news.after_time = time;
  s->news.tried = 1;
  s->best = pass->cut;
  for (uint32_t i = 1; i < pass->cut_count; i++) {
    if (now() > s->tuner->until) return KD_DEADLINE_EXCEEDED;
    tune_tell(s);
    try_cut(s, &pass->cuts[i]);
    s->news.tried++;
  }
  if (strcmp(s->after, s->before) != 0) status = tune_settle(s);
  return status;
}

/* Searches, and keeps what it finds. Under the lock. */
static void search_for(fam_tuner *t, const fam_driver *driver,
                       kd_device *device, const fam_maker *maker,
                       const fam_pass *pass, const fam_key *key) {
  search *s = t->host->allocate(t->host, sizeof *s, 0);
  found one = {.key = *key};
  if (!s) return;
  memset(s, 0, sizeof *s);
  s->tuner = t;
  s->trial.driver = driver;
  s->trial.device = device;
  s->trial.maker = maker;
  tune_describe(s, pass);
  kd_status status = tune_look(s, pass);
  if (status == KD_OK) {
    s->news.ended = 1;
    memcpy(one.cut, s->after, sizeof one.cut);
    read_store(t);
    tune_keep(t, &one);
    write_store(t);
    tune_tell(s);
  } else {
    t->left++;
  }
  fam_ready_free(driver, device, &s->first);
  end_trial(&s->trial);
  t->host->release(t->host, s);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* The cut that is kept of a pass, if it has one of that name. */
static bool kept_cut(const fam_tuner *t, const fam_key *key,
                     const fam_pass *pass, fam_cut *out_cut) {
  const found *one = tune_find(t, key);
  char text[CUT_TEXT];
  for (uint32_t i = 0; one && i < pass->cut_count; i++) {
    fam_cut_text(&pass->cuts[i], text, sizeof text);
    if (strcmp(text, one->cut) != 0) continue;
    *out_cut = pass->cuts[i];
    return true;
  }
  return false;
}

/* The same, after a search where one is on and it has none. */
static bool best_cut(fam_tuner *t, const fam_driver *driver, kd_device *device,
                     const fam_maker *maker, const fam_pass *pass,
                     fam_cut *out_cut) {
  bool has = false;
  if (t->forced >= 0) {
    *out_cut = pass->cuts[t->forced % pass->cut_count];
    return true;
  }
  pthread_mutex_lock(&t->lock);
  if (t->count || t->searching) {
    fam_key key = tune_key_of(pass);
    has = kept_cut(t, &key, pass, out_cut);
    if (!has && t->searching) {
      search_for(t, driver, device, maker, pass, &key);
      has = kept_cut(t, &key, pass, out_cut);
    }
  }
  pthread_mutex_unlock(&t->lock);
  return has;
}

kd_status fam_plan_tuned(const fam_driver *driver, kd_device *device,
                         const fam_maker *maker, fam_plan *plan) {
  fam_cut cut = {0};
  fam_plan_begin(plan, driver);
  kd_status status = maker->make(maker->context, plan);
  const fam_pass *pass = plan->passes;
  if (status != KD_OK || !driver->tuner || plan->count != 1 ||
      pass->cut_count < 2 || !pass->groups ||
      !best_cut(driver->tuner, driver, device, maker, pass, &cut) ||
      (!strcmp(cut.kernel, pass->cut.kernel) && cut.rows == pass->cut.rows &&
       cut.columns == pass->cut.columns))
    return status;
  fam_free(plan);
  memset(plan, 0, sizeof *plan);
  fam_plan_begin(plan, driver);
  plan->cut = cut;
  return maker->make(maker->context, plan);
}

/* ---- opening, and the extension ----------------------------------------------------------- */

kd_status fam_tuner_open(const kd_host *host, const fam_key *device,
                         fam_tuner **out_tuner) {
  const char *forced = host->option(host, "cut");
  *out_tuner = NULL;
  if (option_is(host, "tuned", "off")) return KD_OK;
  fam_tuner *t = host->allocate(host, sizeof *t, 0);
  if (!t) return host->fail(KD_OUT_OF_MEMORY, "no memory for a device");
  memset(t, 0, sizeof *t);
  t->host = host;
  t->name = *device;
  fam_key_add(&t->name, "tuned 1", 8);
  t->forced = forced ? strtoll(forced, NULL, 10) : -1;
  pthread_mutex_init(&t->lock, NULL);
  read_store(t);
  *out_tuner = t;
  return KD_OK;
}

void fam_tuner_close(fam_tuner *t) {
  if (!t) return;
  if (t->all) t->host->release(t->host, t->all);
  pthread_mutex_destroy(&t->lock);
  t->host->release(t->host, t);
}

static kd_status tune_begin(kd_device *device, const tune_wish *wish) {
  const fam_driver *driver = fam_driver_of(device);
  fam_tuner *t = driver->tuner;
  if (!t)
    return driver->host->fail(KD_UNAVAILABLE,
                              "option tuned is off: nothing would be taken");
  pthread_mutex_lock(&t->lock);
  kd_status status =
      t->searching ? t->host->fail(KD_ALREADY_EXISTS, "a search is on") : KD_OK;
  if (status == KD_OK) read_store(t);
  if (status == KD_OK) status = write_store(t);
  if (status == KD_OK) {
    t->searching = true;
    t->wish = *wish;
    t->until = now() + wish->seconds;
    t->left = 0;
  }
  pthread_mutex_unlock(&t->lock);
  return status;
}

static void tune_end(kd_device *device, uint32_t *out_left) {
  fam_tuner *t = fam_driver_of(device)->tuner;
  *out_left = 0;
  if (!t) return;
  pthread_mutex_lock(&t->lock);
  t->searching = false;
  *out_left = t->left;
  pthread_mutex_unlock(&t->lock);
}

static uint32_t kept(kd_device *device) {
  fam_tuner *t = fam_driver_of(device)->tuner;
  if (!t) return 0;
  pthread_mutex_lock(&t->lock);
  uint32_t count = t->count;
  pthread_mutex_unlock(&t->lock);
  return count;
}

static kd_status clear(kd_device *device) {
  fam_tuner *t = fam_driver_of(device)->tuner;
  if (!t) return KD_OK;
  pthread_mutex_lock(&t->lock);
  t->count = 0;
  kd_status status = write_store(t);
  pthread_mutex_unlock(&t->lock);
  return status;
}

const tune_table fam_tune = {
    .struct_size = sizeof(tune_table),
    .begin = tune_begin,
    .end = tune_end,
    .kept = kept,
    .clear = clear,
};
