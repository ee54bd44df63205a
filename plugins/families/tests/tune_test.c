/* tune_test.c - results of searches: taken, kept for later processes, and as good as not there
 * where they are of something else. On a device that is none: kernels take as long as this
 * file says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "families/cut.h"
#include "families/ready.h"

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

/* ---- a host ------------------------------------------------------------------------ */

static struct entry {
  char key[64];
  void *blob;
  uint64_t size;
} store[16];
static bool store_works = true;
static const char *tuned, *cut;

static void *allocate(const kd_host *host, size_t size, size_t alignment) {
  (void)host;
  (void)alignment;
  return malloc(size);
}
static void release(const kd_host *host, void *memory) {
  (void)host;
  free(memory);
}
static const char *option(const kd_host *host, const char *name) {
  (void)host;
  return !strcmp(name, "tuned") ? tuned : !strcmp(name, "cut") ? cut : NULL;
}
static kd_status fail(kd_status status, const char *format, ...) {
  (void)format;
  return status;
}

static struct entry *entry_of(const char *key, bool make) {
  for (size_t i = 0; i < sizeof store / sizeof *store; i++) {
    if (make && !store[i].key[0])
      snprintf(store[i].key, sizeof store[i].key, "%s", key);
    if (!strcmp(store[i].key, key)) return &store[i];
  }
  return NULL;
}
static kd_status cache_get(const kd_host *host, const char *key,
                           void **out_blob, uint64_t *out_size) {
  (void)host;
  const struct entry *at = entry_of(key, false);
  if (!at || !at->blob) return KD_NOT_FOUND;
  *out_blob = malloc(at->size);
  memcpy(*out_blob, at->blob, at->size);
  *out_size = at->size;
  return KD_OK;
}
static kd_status cache_put(const kd_host *host, const char *key,
                           const void *blob, uint64_t size) {
  (void)host;
  struct entry *at = store_works ? entry_of(key, true) : NULL;
  if (!at) return KD_OK;
  free(at->blob);
  at->blob = malloc(size);
  memcpy(at->blob, blob, size);
  at->size = size;
  return KD_OK;
}

static const kd_host host = {.struct_size = sizeof host,
                             .allocate = allocate,
                             .release = release,
                             .option = option,
                             .fail = fail,
                             .cache_get = cache_get,
                             .cache_put = cache_put};

/* ---- a device ------------------------------------------------------------------------ */

struct kd_device {
  fam_driver driver;
};
static uint32_t launches;
static char
    quick[32]; /* the cut that takes no time; others take a millisecond */

static kd_status give(kd_device *device, const kd_allocation *wanted,
                      kd_buffer **out_buffer, void **out_address) {
  (void)device;
  *out_address = NULL;
  *out_buffer = malloc(wanted->size);
  return KD_OK;
}
static void take(kd_device *device, kd_buffer *buffer) {
  (void)device;
  free(buffer);
}
static kd_status fill(kd_device *device, kd_stream *stream, kd_buffer *target,
                      uint64_t offset, uint64_t size, const void *pattern,
                      uint32_t pattern_size) {
  (void)device;
  (void)stream;
  (void)pattern_size;
  memset((char *)target + offset, *(const uint8_t *)pattern, size);
  return KD_OK;
}
static kd_status open_stream(kd_device *device, int32_t priority,
                             uint32_t flags, kd_stream **out_stream) {
  (void)priority;
  (void)flags;
  static fam_stream stream;
  stream.device = device;
  *out_stream = (kd_stream *)(void *)&stream;
  return KD_OK;
}
static void close_stream(kd_stream *stream) {
  (void)stream;
}
static kd_status synchronize(kd_stream *stream) {
  (void)stream;
  return KD_OK;
}
static const kd_memory_table memory = {.struct_size = sizeof memory,
                                       .allocate = give,
                                       .release = take,
                                       .fill = fill};
static const kd_stream_table streams = {.struct_size = sizeof streams,
                                        .create = open_stream,
                                        .destroy = close_stream,
                                        .synchronize = synchronize};

/* A program is the text of its cut. One of 4 rows does not compile. */
static kd_status compile(kd_device *device, const fam_pass *pass,
                         void **out_program) {
  (void)device;
  if (pass->cut.rows == 4) return KD_INTERNAL;
  *out_program = malloc(32);
  fam_cut_text(&pass->cut, *out_program, 32);
  return KD_OK;
}
static void drop(kd_device *device, void *program) {
  (void)device;
  free(program);
}
static kd_status run(kd_device *device, kd_stream *stream,
                     const fam_command *command, uint64_t correlation) {
  (void)device;
  (void)stream;
  (void)correlation;
  const struct timespec millisecond = {.tv_nsec = 1000000};
  launches++;
  if (strcmp(command->program, quick) != 0) nanosleep(&millisecond, NULL);
  return KD_OK;
}

static void open_device(kd_device *d, const char *name) {
  fam_key key = fam_key_begin();
  fam_key_add(&key, name, strlen(name));
  *d = (kd_device){.driver = {.host = &host,
                              .wide = 8,
                              .memory = &memory,
                              .streams = &streams,
                              .compile = compile,
                              .release = drop,
                              .run = run}};
  CHECK(fam_tuner_open(&host, &key, &d->driver.tuner) == KD_OK);
}
static void close_device(kd_device *d) {
  fam_tuner_close(d->driver.tuner);
}

/* ---- plans ---------------------------------------------------------------------------- */

static int64_t side = 64;

static kd_status make(void *context, fam_plan *plan) {
  const fam_work work = {
      .sums = KD_F32, .batches = 1, .m = side, .n = side, .k = side};
  (void)context;
  fam_pass *pass = fam_cut_begin(plan, &work);
  pass->work = fam_key_begin();
  fam_key_add(&pass->work, &side, sizeof side);
  fam_bind(pass, "A", FAM_INPUT, 0, KD_F32);
  fam_bind(pass, "Z", FAM_OUTPUT, 0, KD_F32);
  return plan->status;
}

/* The cut that a plan has on the device. */
static const char *planned(kd_device *d) {
  static char text[32];
  fam_maker maker = {.make = make, .in = {1024}, .out = {1024}};
  fam_plan *plan = calloc(1, sizeof *plan);
  CHECK(fam_plan_tuned(&d->driver, d, &maker, plan) == KD_OK);
  CHECK(plan->count == 1);
  fam_cut_text(&plan->passes->cut, text, sizeof text);
  fam_free(plan);
  free(plan);
  return text;
}

static uint32_t ended;
static void hear(void *context, const tune_news *news) {
  (void)context;
  ended += news->ended;
  CHECK(news->tried <= news->all);
}
static const tune_wish wish = {
    .struct_size = sizeof wish, .seconds = 600, .tell = hear};

static kd_device d;
static char model[32]; /* the cut that is taken without a search */

/* Nothing is tried without a search, and found in one; once. */
static void is_found_once(void) {
  uint32_t left = 0;
  open_device(&d, "one, driver 1");
  snprintf(model, sizeof model, "%s", planned(&d));
  snprintf(quick, sizeof quick, "gemm_wide 8x56");
  CHECK(strcmp(model, quick) != 0);

  CHECK(!launches && fam_tune.kept(&d) == 0);
  CHECK(fam_tune.begin(&d, &wish) == KD_OK);
  CHECK(fam_tune.begin(&d, &wish) == KD_ALREADY_EXISTS);
  CHECK(!strcmp(planned(&d), quick) && ended == 1 && launches);
  launches = 0;
  CHECK(!strcmp(planned(&d), quick) && ended == 1 && !launches);
  fam_tune.end(&d, &left);
  CHECK(left == 0 && fam_tune.kept(&d) == 1);
  side = 65; /* other sizes are other work */
  CHECK(!strcmp(planned(&d), model));
  side = 64;
  close_device(&d);
}

static void another_driver_does_not_take_it(void) {
  open_device(&d, "one, driver 1");
  CHECK(!strcmp(planned(&d), quick) && !launches);
  close_device(&d);
  open_device(&d, "one, driver 2");
  CHECK(!strcmp(planned(&d), model));
  close_device(&d);
}

/* A user turns it off, and a test can ask for any cut. */
static void can_be_turned_off(void) {
  tuned = "off";
  open_device(&d, "one, driver 1");
  CHECK(!d.driver.tuner && !strcmp(planned(&d), model));
  CHECK(fam_tune.begin(&d, &wish) == KD_UNAVAILABLE);
  tuned = NULL;
  cut = "0";
  open_device(&d, "one, driver 1");
  CHECK(!strcmp(planned(&d), model));
  close_device(&d);
  cut = NULL;
}

/* A cut that there is not, damage, and a rest of an entry are none. */
static void damage_is_ignored(void) {
  struct entry *at = &store[0];
  uint32_t left = 0;
  uint64_t size = at->size;
  char *text = (char *)at->blob + FAM_STORE_HEAD + sizeof(fam_key);
  CHECK(!strcmp(text, quick));
  text[0] = 'X'; /* its sum says so */
  open_device(&d, "one, driver 1");
  CHECK(fam_tune.kept(&d) == 0 && !strcmp(planned(&d), model));
  close_device(&d);
  text[0] = 'g';
  at->size = size / 2;
  open_device(&d, "one, driver 1");
  CHECK(fam_tune.kept(&d) == 0 && !strcmp(planned(&d), model));
  close_device(&d);
  at->size = size;
  snprintf(text, 32, "gemm_wide 7x49");
  fam_key name;
  memcpy(&name, (char *)at->blob + 16, sizeof name);
  void *blob = malloc(size);
  memcpy(blob, at->blob, size);
  fam_store_put(&host, &name, blob, size - FAM_STORE_HEAD); /* a right sum */
  free(blob);
  open_device(&d, "one, driver 1");
  CHECK(fam_tune.kept(&d) == 1 && !strcmp(planned(&d), model));
  launches = 0;
  CHECK(fam_tune.begin(&d, &wish) == KD_OK); /* and it is looked for again */
  CHECK(!strcmp(planned(&d), quick) && launches && ended == 2);
  fam_tune.end(&d, &left);
}

/* Without time, and without a store, nothing is found. */
static void can_be_forgotten(void) {
  struct entry *at = &store[0];
  uint32_t left = 0;
  CHECK(fam_tune.clear(&d) == KD_OK && fam_tune.kept(&d) == 0);
  CHECK(!strcmp(planned(&d), model));
  tune_wish hasty = wish;
  hasty.seconds = 0;
  CHECK(fam_tune.begin(&d, &hasty) == KD_OK);
  CHECK(!strcmp(planned(&d), model) && ended == 2);
  fam_tune.end(&d, &left);
  CHECK(left == 1 && fam_tune.kept(&d) == 0);
  store_works = false;
  free(at->blob);
  at->blob = NULL;
  CHECK(fam_tune.begin(&d, &wish) == KD_UNAVAILABLE);
  CHECK(fam_tune.clear(&d) == KD_UNAVAILABLE);
  close_device(&d);
}

int main(void) {
  is_found_once();
  another_driver_does_not_take_it();
  can_be_turned_off();
  damage_is_ignored();
  can_be_forgotten();
  for (size_t i = 0; i < sizeof store / sizeof *store; i++)
    free(store[i].blob);
  printf(
      "results of searches: taken, kept, and ignored where they are wrong\n");
  return 0;
}
