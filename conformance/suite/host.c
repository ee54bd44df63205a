/* host.c - the services that the suite gives to the plugin: a whole host of its
 * own, which counts, remembers, and fails where a rule tells it to. */
#include <dirent.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops/node.h"
#include "suite/graph.h"
#include "suite/launch.h"
#include "suite/suite.h"
#include "system/save.h"

kc_host_state kc_host;

void kc_host_reset(void) {
  memset(&kc_host, 0, sizeof kc_host);
  kc_host.workers = 1;
}

/* ---- errors and log --------------------------------------------------------- */

static _Thread_local char message[2048];
static _Thread_local kd_status message_status;

static void late(const char *slot) {
  if (kc_host.closed)
    kc_violation("life.silent-after-close",
                 "kd_host.%s was called after close had returned", slot);
}

/* What a plugin does not find, it may seek where the process happens to run. */
static void add_place(void) {
  char cwd[512];
  size_t used = strlen(message);
  if (strstr(message, "No such file") && getcwd(cwd, sizeof cwd))
    snprintf(message + used, sizeof message - used, " (cwd is %s)", cwd);
}

static kd_status host_fail(kd_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  add_place();
  message_status = code;
  late("fail");
  return code;
}

const char *kc_message(void) {
  return message;
}

kd_status kc_message_status(void) {
  return message_status;
}

void kc_hush(void) {
  message[0] = 0;
  message_status = KD_OK;
}

static void host_log(const kd_host *host, uint32_t level, const char *format,
                     ...) {
  (void)host;
  va_list args;
  va_start(args, format);
  vsnprintf(kc_host.last_log, sizeof kc_host.last_log, format, args);
  va_end(args);
  atomic_fetch_add(&kc_host.logs, 1);
  if (level == KD_LOG_ERROR) atomic_fetch_add(&kc_host.errors_logged, 1);
  if (level > KD_LOG_DEBUG)
    kc_violation("err.log-level", "kd_host.log got level %u", level);
  late("log");
}

static kd_status host_fail_text(kd_status code, const char *text) {
  return host_fail(code, "%s", text);
}

static void host_log_text(const kd_host *host, uint32_t level,
                          const char *text) {
  host_log(host, level, "%s", text);
}

/* ---- options ------------------------------------------------------------------ */

#define ASKED 64u
static char asked[ASKED][64];
static uint32_t asked_count;
static pthread_mutex_t asked_lock = PTHREAD_MUTEX_INITIALIZER;

static void note_asked(const char *name) {
  uint32_t i = 0;
  pthread_mutex_lock(&asked_lock);
  while (i < asked_count && strcmp(asked[i], name) != 0)
    i++;
  if (i == asked_count && i < ASKED && strlen(name) < sizeof asked[i])
    snprintf(asked[asked_count++], sizeof asked[i], "%s", name);
  pthread_mutex_unlock(&asked_lock);
}

const char *kc_option_asked(uint32_t index) {
  return index < asked_count ? asked[index] : NULL;
}

static const char *host_option(const kd_host *host, const char *name) {
  (void)host;
  size_t size = strlen(name);
  note_asked(name);
  if (!kc_option_listed(name))
    kc_violation("option.complete",
                 "kd_host.option was asked for \"%.60s\", which"
                 " kd_plugin.options does not list",
                 name);
  for (uint32_t i = 0; i < kc.option_count; i++)
    if (!strncmp(kc.options[i], name, size) && kc.options[i][size] == '=')
      return kc.options[i] + size + 1;
  return NULL;
}

/* ---- memory: counted, with marks at both ends ------------------------------------ */

#define BLOCK_MARK UINT64_C(0x6b65656c6b65656c)

typedef struct block {
  uint64_t mark, size;
  void *raw;
} block;

static void *host_allocate(const kd_host *host, uint64_t size,
                           uint64_t alignment) {
  (void)host;
  uint32_t number = atomic_fetch_add(&kc_host.allocations, 1) + 1;
  uint32_t fail_at = atomic_load(&kc_host.fail_at);
  late("allocate");
  if (fail_at && (number == fail_at ||
                  (number > fail_at && atomic_load(&kc_host.fail_on))))
    return NULL;
  if (!alignment) alignment = 64;
  if (alignment & (alignment - 1)) {
    kc_violation(
        "host.allocate-alignment",
        "kd_host.allocate got alignment %llu, which is not a power of two",
        (unsigned long long)alignment);
    return NULL;
  }
  if (alignment < 16) alignment = 16;
  if (size > (UINT64_C(1) << 46)) return NULL;
  char *raw = malloc(size + alignment + sizeof(block) + sizeof(uint64_t));
  if (!raw) return NULL;
  uintptr_t at = (uintptr_t)raw + sizeof(block) + alignment - 1;
  char *memory = (char *)(at & ~(uintptr_t)(alignment - 1));
  *(block *)(void *)(memory - sizeof(block)) =
      (block){.mark = BLOCK_MARK, .size = size, .raw = raw};
  memset(memory, 0xa5, size); /* nobody may rely on zeros */
  uint64_t mark = BLOCK_MARK;
  memcpy(memory + size, &mark, sizeof mark);
  atomic_fetch_add(&kc_host.live, 1);
  atomic_fetch_add(&kc_host.live_bytes, (long long)size);
  return memory;
}

static void host_release(const kd_host *host, void *memory) {
  (void)host;
  late("release");
  if (!memory) return;
  block *head = (block *)(void *)((char *)memory - sizeof(block));
  if (head->mark != BLOCK_MARK) {
    kc_violation("host.allocate-overrun",
                 "kd_host.release got memory that kd_host.allocate did not"
                 " give, or whose front was overwritten");
    return;
  }
  if (memcmp((char *)memory + head->size, &head->mark, sizeof head->mark) != 0)
    kc_violation("host.allocate-overrun",
                 "the plugin wrote past the end of %llu bytes from"
                 " kd_host.allocate",
                 (unsigned long long)head->size);
  atomic_fetch_sub(&kc_host.live, 1);
  atomic_fetch_sub(&kc_host.live_bytes, (long long)head->size);
  head->mark = 0;
  memset(memory, 0xdd, head->size); /* who still reads it, reads no old data */
  free(head->raw);
}

/* ---- threads ------------------------------------------------------------------------ */

static uint32_t host_worker_count(const kd_host *host) {
  (void)host;
  return kc_host.workers + 1;
}

typedef struct loop {
  kd_loop_body body;
  void *context;
  int64_t count, piece;
  atomic_llong next;
} loop;

static void run_loop(loop *loop) {
  for (;;) {
    int64_t begin = atomic_fetch_add(&loop->next, loop->piece);
    if (begin >= loop->count) return;
    int64_t end = begin + loop->piece;
    loop->body(loop->context, begin, end < loop->count ? end : loop->count);
  }
}

static void *loop_thread(void *argument) {
  run_loop(argument);
  return NULL;
}

static void host_parallel_for(const kd_host *host, int64_t count, int64_t grain,
                              kd_loop_body body, void *context) {
  (void)host;
  late("parallel_for");
  atomic_fetch_add(&kc_host.loops, 1);
  if (count <= 0) return;
  if (grain < 1) grain = 1;
  int64_t width = kc_host.workers + 1;
  int64_t piece = (count + width - 1) / width;
  loop all = {.body = body,
              .context = context,
              .count = count,
              .piece = piece < grain ? grain : piece};
  pthread_t threads[16];
  uint32_t made = 0;
  for (uint32_t i = 0;
       i < kc_host.workers && i < 16 && all.piece * (int64_t)(i + 1) < count;
       i++)
    if (pthread_create(&threads[made], NULL, loop_thread, &all) == 0) made++;
  run_loop(&all);
  for (uint32_t i = 0; i < made; i++)
    pthread_join(threads[i], NULL);
}

/* ---- store: files in the scratch folder ----------------------------------------------- */

static bool service_fails(void) {
  uint32_t number = atomic_fetch_add(&kc_host.calls, 1) + 1;
  return number == atomic_load(&kc_host.service_fail_at);
}

static void store_path(const char *key, char *out_path, size_t capacity) {
  snprintf(out_path, capacity, "%s/store-%016llx",
           kc.scratch ? kc.scratch : "/tmp",
           (unsigned long long)kc_hash(KC_HASH, key));
}

static kd_status host_cache_get(const kd_host *host, const char *key,
                                void **out_blob, uint64_t *out_size) {
  late("cache_get");
  if (service_fails()) return host_fail(KD_UNAVAILABLE, "the store is broken");
  char path[512];
  store_path(key, path, sizeof path);
  FILE *file = fopen(path, "rbe");
  if (!file) return host_fail(KD_NOT_FOUND, "nothing is stored as %s", key);
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  *out_blob = size >= 0 ? host_allocate(host, (uint64_t)size, 0) : NULL;
  bool whole =
      *out_blob && fread(*out_blob, 1, (size_t)size, file) == (size_t)size;
  fclose(file);
  if (!whole) {
    host_release(host, *out_blob);
    return host_fail(KD_NOT_FOUND, "%s can't be read", key);
  }
  *out_size = (uint64_t)size;
  return KD_OK;
}

static kd_status host_cache_put(const kd_host *host, const char *key,
                                const void *blob, uint64_t size) {
  (void)host;
  late("cache_put");
  if (service_fails()) return host_fail(KD_UNAVAILABLE, "the store is broken");
  char path[512];
  store_path(key, path, sizeof path);
  keel_save save;
  bool good = keel_save_begin(&save, path, 0600);
  if (good) fwrite(blob, 1, size, save.file);
  good = good && keel_save_end(&save, true);
  return good ? KD_OK : host_fail(KD_UNAVAILABLE, "%s can't be written", path);
}

/* ---- trace and profile -------------------------------------------------------------------- */

static _Thread_local uint32_t depth;

static void host_zone_begin(const kd_host *host, const char *name) {
  (void)host;
  (void)name;
  late("zone_begin");
  depth++;
  atomic_fetch_add(&kc_host.zones, 1);
}

static void host_zone_end(const kd_host *host) {
  (void)host;
  late("zone_end");
  if (depth == 0)
    kc_violation("host.zones-balanced",
                 "zone_end came on a thread without an open zone");
  else
    depth--;
  atomic_fetch_sub(&kc_host.zones, 1);
}

#define RECORDS 65536u
static kd_profile_record records[RECORDS];
static atomic_uint record_count;

static void host_profile_push(const kd_host *host, kd_device *device,
                              const kd_profile_record *pushed, uint32_t count,
                              uint32_t record_size) {
  (void)host;
  late("profile_push");
  if (!kc_is_open_device(device))
    kc_violation("prof.records", "profile_push got a device that is not open");
  if (record_size != sizeof *pushed)
    kc_violation("prof.records", "profile_push got records of %u bytes",
                 record_size);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = atomic_fetch_add(&record_count, 1);
    if (pushed[i].name && strlen(pushed[i].name) > 1000)
      kc_violation("prof.records", "a record has an invalid name");
    if (at >= RECORDS) continue;
    records[at] = pushed[i];
    records[at].name = NULL; /* it was borrowed */
  }
}

uint32_t kc_records(kd_profile_record *out, uint32_t capacity) {
  uint32_t count = atomic_load(&record_count);
  if (count > RECORDS) count = RECORDS;
  if (count > capacity) count = capacity;
  memcpy(out, records, count * sizeof *out);
  return count;
}

void kc_records_clear(void) {
  atomic_store(&record_count, 0);
}

static const void *host_extension(const kd_host *host, const char *name) {
  (void)host;
  (void)name;
  return NULL;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static const kd_host services = {
    .struct_size = sizeof(kd_host),
    .abi_version = KD_ABI_VERSION,
    .abi_min = KD_VERSION(0, 10),
    .name = "keel-conformance",
    .fail = host_fail,
    .log = host_log,
    .option = host_option,
    .allocate = host_allocate,
    .release = host_release,
    .worker_count = host_worker_count,
    .parallel_for = host_parallel_for,
    .cache_get = host_cache_get,
    .cache_put = host_cache_put,
    .zone_begin = host_zone_begin,
    .zone_end = host_zone_end,
    .profile_push = host_profile_push,
    .set_output = kc_set_output,
    .node = &keel_node_table,
    .graph = &kc_graph_table,
    .extension = host_extension,
    .fail_text = host_fail_text,
    .log_text = host_log_text,
};

kd_host *kc_services_copy(void) {
  kd_host *copy = kc_fenced(sizeof services);
  memcpy(copy, &services, sizeof services);
  copy->plugin_path = kc.plugin;
  return copy;
}

const kd_host *kc_services(void) {
  static kd_host *shared;
  if (!shared) shared = kc_services_copy();
  return shared;
}
