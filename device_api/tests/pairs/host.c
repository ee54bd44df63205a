/* host.c - a host of ABI 0.10, without libkeel: opens a plugin by its entry, and runs
 * memory, streams, events, profile and the plugin's LeakyRelu. Frozen with that version's
 * headers; built with a later version's (KD_LATER), too.
 *
 * usage: host PLUGIN    exit 1 and a line where something is wrong
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <kd/kd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(is)                                                             \
  do {                                                                        \
    if (!(is)) {                                                              \
      fprintf(stderr, "host: line %d: %s is not so; \"%s\"\n", __LINE__, #is, \
              said);                                                          \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

static char said[256];
static unsigned records;
static uint64_t record_bytes;

static kd_status fail(kd_status code, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(said, sizeof said, format, list);
  va_end(list);
  return code;
}

static void *take(const kd_host *host, uint64_t size, uint64_t alignment) {
  (void)host;
  size_t unit = alignment ? (size_t)alignment : 64;
  return aligned_alloc(unit, ((size_t)size + unit - 1) / unit * unit);
}

static void give(const kd_host *host, void *memory) {
  (void)host;
  free(memory);
}

/* A record is as long as the plugin says: the next one would begin there. */
static void push_records(const kd_host *host, kd_device *device,
                         const kd_profile_record *given, uint32_t count,
                         uint32_t size) {
  kd_profile_record record = {0};
  (void)host, (void)device;
  memcpy(&record, given, size < sizeof record ? size : sizeof record);
  records += count;
  record_bytes = size;
  CHECK(record.kind == KD_PROFILE_KERNEL && record.end == 2);
  CHECK(record.correlation == 7 && !strcmp(record.name, "pair"));
}

static float attr_float(const kd_node *node, const char *name, float fallback) {
  (void)node;
  return strcmp(name, "alpha") ? fallback : 0.5f;
}

#ifdef KD_LATER
/* No plugin of an older version calls what it can't know. */
static kd_status later(uint64_t what) {
  (void)what;
  abort();
}
#define LATER , .later = later
#else
#define LATER
#endif

static const kd_node_table node = {.struct_size = sizeof node,
                                   .attr_float = attr_float LATER};
static const kd_host host = {.struct_size = sizeof host,
                             .abi_version = KD_ABI_VERSION,
                             .abi_min = KD_VERSION(0, 10),
                             .name = "pair's host",
                             .fail = fail,
                             .allocate = take,
                             .release = give,
                             .profile_push = push_records,
                             .node = &node LATER};

/* What a table lacks is zero, and what it has more is not looked at. */
static void copy(void *target, size_t size, const void *table) {
  uint32_t given = 0;
  CHECK(table != NULL);
  memcpy(&given, table, sizeof given);
  memset(target, 0, size);
  memcpy(target, table, given < size ? given : size);
}

static kd_plugin plugin;
static kd_memory_table memory;

/* Out-structs are not written behind what the host has of them. */
static void check_info(kd_instance *instance) {
  struct {
    kd_device_info info;
    unsigned char fence[64];
  } room;
  memset(&room, 0, sizeof room);
  memset(room.fence, 0x5a, sizeof room.fence);
  room.info.struct_size = sizeof room.info;
  CHECK(plugin.device_info(instance, 0, &room.info) == KD_OK);
  CHECK(!strcmp(room.info.name, "Pair"));
  for (size_t i = 0; i < sizeof room.fence; i++)
    CHECK(room.fence[i] == 0x5a);
}

/* Definitions lie as far apart as the first says. */
static const kd_kernel_def *find(const char *op, kd_kernel_def *out) {
  const char *at = (const char *)plugin.kernels;
  for (uint32_t i = 0; i < plugin.kernel_count; i++) {
    copy(out, sizeof *out, at + (size_t)i * plugin.kernels->struct_size);
    if (!strcmp(out->op, op)) return out;
  }
  return NULL;
}

static void launch_leaky(kd_device *device, kd_stream *stream) {
  static const float x[4] = {-4, -1, 0, 3};
  static const float want[4] = {-2, -0.5f, 0, 3};
  static const int64_t dims[1] = {4};
  kd_allocation wanted = {.struct_size = sizeof wanted, .size = sizeof x};
  kd_kernel_def def;
  kd_buffer *in = NULL, *out = NULL;
  void *from = NULL, *to = NULL;
  float y[4];
  CHECK(find("LeakyRelu", &def) != NULL);
  CHECK(memory.allocate(device, &wanted, &in, &from) == KD_OK);
  CHECK(memory.allocate(device, &wanted, &out, &to) == KD_OK);
  CHECK(memory.copy_in(device, stream, x, in, 0, sizeof x) == KD_OK);
  const kd_tensor inputs[1] = {{.buffer = in,
                                .data = from,
                                .size = sizeof x,
                                .dims = dims,
                                .dtype = KD_F32,
                                .rank = 1}};
  kd_tensor outputs[1] = {inputs[0]};
  outputs[0].buffer = out;
  outputs[0].data = to;
  const kd_launch launch = {.struct_size = sizeof launch,
                            .input_count = 1,
                            .output_count = 1,
                            .inputs = inputs,
                            .outputs = outputs,
                            .device = device,
                            .correlation = 7};
  CHECK(def.enqueue(NULL, stream, &launch) == KD_OK);
  CHECK(memory.copy_out(device, stream, out, 0, y, sizeof y) == KD_OK);
  CHECK(!memcmp(y, want, sizeof y));
  memory.release(device, in);
  memory.release(device, out);
}

static void run(kd_device *device) {
  kd_stream_table streams;
  kd_event_table events;
  kd_profile_table profile;
  kd_stream *stream = NULL;
  kd_event *event = NULL;
  copy(&streams, sizeof streams, plugin.streams);
  copy(&events, sizeof events, plugin.events);
  copy(&profile, sizeof profile, plugin.profile);
  CHECK(streams.create(device, 0, 0, &stream) == KD_OK);
  CHECK(events.create(device, 0, &event) == KD_OK);
  CHECK(profile.start(device) == KD_OK);
  launch_leaky(device, stream);
  CHECK(events.record(event, stream) == KD_OK);
  CHECK(streams.wait(stream, event) == KD_OK);
  CHECK(events.wait(event, UINT64_MAX) == KD_OK);
  CHECK(events.query(event) == KD_OK);
  CHECK(profile.stop(device) == KD_OK);
  CHECK(records == 1 && record_bytes >= 64);
  events.destroy(event);
  streams.destroy(stream);
}

int main(int argc, char **argv) {
  kd_entry entry = NULL;
  kd_instance *instance = NULL;
  kd_device *device = NULL;
  if (argc != 2) return 2;
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library) {
    fprintf(stderr, "host: %s\n", dlerror());
    return 1;
  }
  *(void **)&entry = dlsym(library, KD_ENTRY_SYMBOL);
  CHECK(entry != NULL);
  copy(&plugin, sizeof plugin, entry(&host));
  CHECK(KD_VERSION_MAJOR(plugin.abi_version) == KD_ABI_MAJOR);
  CHECK(plugin.abi_version >= host.abi_min);
  CHECK(plugin.abi_min <= KD_ABI_VERSION);
  copy(&memory, sizeof memory, plugin.memory);
  CHECK(plugin.open(&host, &instance) == KD_OK);
  CHECK(plugin.device_count(instance) == 1);
  check_info(instance);
  CHECK(plugin.device_open(instance, 0, &device) == KD_OK);
  run(device);
  plugin.device_close(device);
  plugin.close(instance);
  printf("a host of ABI %u.%u, a plugin of %u.%u\n", KD_ABI_MAJOR, KD_ABI_MINOR,
         KD_VERSION_MAJOR(plugin.abi_version),
         KD_VERSION_MINOR(plugin.abi_version));
  return 0;
}
