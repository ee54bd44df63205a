/* services.c - the services of kd_host. */
#include "services/services.h"

#include "eager/launch.h"
#include "loader/library.h"
#include "loader/loader.h"
#include "ops/node.h"
#include "program/graph.h"
#include "threads/pool.h"
#include "trace/tickets.h"
#include "trace/trace.h"

static const keel_library *library_of(const kd_host *host) {
  return (const keel_library *)(const void *)host; /* its first member */
}

static void log_line(const kd_host *host, uint32_t level, const char *format,
                     ...) {
  va_list args;
  va_start(args, format);
  keel_library_log(host, level, format, args);
  va_end(args);
}

static void log_text(const kd_host *host, uint32_t level, const char *text) {
  log_line(host, level, "%s", text);
}

static void *services_allocate(const kd_host *host, uint64_t size,
                               uint64_t alignment) {
  (void)host;
  if (!alignment) alignment = 64;
  if (size > SIZE_MAX - alignment || (alignment & (alignment - 1))) return NULL;
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}

static void services_release(const kd_host *host, void *memory) {
  (void)host;
  free(memory);
}

static uint32_t worker_count(const kd_host *host) {
  (void)host;
  return keel_parallel_width();
}

static void parallel_for(const kd_host *host, int64_t count, int64_t grain,
                         kd_loop_body body, void *context) {
  (void)host;
  keel_parallel_for(count, grain, body, context);
}

static void zone_begin(const kd_host *host, const char *name) {
  (void)host;
  keel_trace_zone_begin(name);
}

static void zone_end(const kd_host *host) {
  (void)host;
  keel_trace_zone_end();
}

/* Converts device ticks to host nanoseconds. */
static uint64_t host_time(const keel_clock *clock, uint64_t ticks) {
  double since = (double)(int64_t)(ticks - clock->ticks) * clock->tick;
  return (uint64_t)((double)clock->host + since);
}

static void trace_record(const keel_library *library, uint32_t index,
                         const keel_clock *clock,
                         const kd_profile_record *record) {
  char device[48];
  snprintf(device, sizeof device, "%s:%u", library->name, (unsigned)index);
  if (clock->tick > 0)
    keel_trace_record(device, record, host_time(clock, record->begin),
                      host_time(clock, record->end));
}

static void count_record(keel_clock *clock, const kd_profile_record *r) {
  uint64_t time = r->end > r->begin ? r->end - r->begin : 0;
  if (r->correlation)
    keel_ticket_add(r->correlation, (uint64_t)((double)time * clock->tick));
  bool copies = r->kind == KD_PROFILE_COPY_IN ||
                r->kind == KD_PROFILE_COPY_OUT || r->kind == KD_PROFILE_COPY;
  atomic_fetch_add_explicit(copies ? &clock->copies : &clock->kernels, time,
                            memory_order_relaxed);
  if (copies)
    atomic_fetch_add_explicit(&clock->bytes, r->bytes, memory_order_relaxed);
}

static void profile_push(const kd_host *host, kd_device *device,
                         const kd_profile_record *records, uint32_t count,
                         uint32_t record_size) {
  const keel_library *library = library_of(host);
  uint32_t index = 0;
  while (index < library->device_count &&
         atomic_load(&library->devices[index].handle) != device)
    index++;
  if (index == library->device_count) return; /* no open device's */
  if (!records || !record_size) return;
  keel_clock *clock = &library->devices[index].clock;
  const char *at = (const char *)records;
  for (uint32_t i = 0; i < count; i++, at += record_size) {
    kd_profile_record record = {0};
    memcpy(&record, at,
           record_size < sizeof record ? record_size : sizeof record);
    if (keel_tracing()) trace_record(library, index, clock, &record);
    count_record(clock, &record);
  }
}

static const void *services_extension(const kd_host *host, const char *name) {
  (void)host;
  (void)name;
  return NULL;
}

const kd_host keel_services = {
    .struct_size = sizeof(kd_host),
    .abi_version = KD_ABI_VERSION,
    .abi_min = KD_VERSION(0, 10),
    .name = "keel " KEEL_VERSION,
    .fail = keel_fail,
    .log = log_line,
    .option = keel_option_get,
    .allocate = services_allocate,
    .release = services_release,
    .worker_count = worker_count,
    .parallel_for = parallel_for,
    .cache_get = keel_store_get,
    .cache_put = keel_store_put,
    .zone_begin = zone_begin,
    .zone_end = zone_end,
    .profile_push = profile_push,
    .set_output = keel_launch_set_output,
    .node = &keel_node_table,
    .graph = &keel_graph_table,
    .extension = services_extension,
    .fail_text = keel_fail_text,
    .log_text = log_text,
};
