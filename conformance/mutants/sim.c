/* sim.c - the plugin: entry, opening, devices and their facts. */
#include "mutants/sim.h"

#include "common/single.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

char sim_variant[64];
uint32_t sim_ring;
const kd_host *sim_host;
struct kd_device sim_devices[2];
pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
atomic_uint sim_opens, sim_device_opens;

static uint32_t opens, closes;
static pthread_t opener;
static void *kept[64];

uint64_t sim_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sim_nap(uint64_t microseconds) {
  struct timespec rest = {.tv_sec = (time_t)(microseconds / 1000000),
                          .tv_nsec = (long)(microseconds % 1000000) * 1000};
  nanosleep(&rest, NULL);
}

void sim_leak(uint64_t size) {
  static void *volatile lost;
  lost = malloc(size);
  if (!lost) abort();
  memset(lost, 1, size);
}

/* ---- threads that should not be ---------------------------------------------------- */

static void *for_ever(void *unused) {
  (void)unused;
  for (;;)
    sim_nap(100000);
  return NULL;
}

static void sim_start(void *(*body)(void *), void *context) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, context) == 0) pthread_detach(thread);
}

static void wait_for_ever(void) {
  for (;;)
    sim_nap(100000);
}

/* ---- opening ------------------------------------------------------------------------ */

static kd_status check_host(const kd_host *host) {
  if (BUG(old_host_mute) && host->abi_version < KD_ABI_VERSION)
    return KD_INCOMPATIBLE;
  if (BUG(reserved_used) && host->reserved)
    return host->fail(KD_INCOMPATIBLE, "a reserved field is set");
  if (BUG(node_size_equal) && host->node->struct_size != sizeof(kd_node_table))
    return host->fail(KD_INCOMPATIBLE, "kd_node_table has another size");
  if (BUG(file_name)) {
    const char *path = host->plugin_path ? host->plugin_path : "";
    const char *slash = strrchr(path, '/');
    if (strcmp(slash ? slash + 1 : path, "sim.so") != 0)
      return host->fail(KD_UNAVAILABLE, "it must be called sim.so");
  }
  return KD_OK;
}

static kd_status read_options(const kd_host *host) {
  const char *threads = host->option(host, "threads");
  const char *name = host->option(host, "name");
  static volatile char copy[256];
  if (BUG(option_crash) && threads && !*threads) abort();
  if (BUG(option_strcpy) && name && strlen(name) > sizeof copy) abort();
  if (BUG(option_sprintf) && threads && strlen(threads) > 64) abort();
  if (BUG(option_unlisted)) host->option(host, "secret");
  const char *ring = host->option(host, "ring");
  if (BUG(option_default_refused) && ring)
    return host->fail(KD_INVALID_ARGUMENT, "option ring is \"%s\"", ring);
  if (!ring) ring = getenv("KEEL_SIM_RING"); /* not every host reads it */
  sim_ring = ring ? (uint32_t)strtoul(ring, NULL, 10) : 0;
  if (BUG(needs_home) && access(getenv("HOME") ? getenv("HOME") : "", W_OK))
    return host->fail(KD_UNAVAILABLE, "HOME can't be written");
  if (BUG(extension_used)) {
    const uint32_t *table = host->extension(host, "keel.speed/1");
    if (*table) return KD_UNAVAILABLE;
  }
  return KD_OK;
}

/* Memory that the driver keeps while it is open. */
static kd_status take_memory(const kd_host *host) {
  for (int i = 0; i < 3; i++) {
    kept[i] = host->allocate(host, 1000, 64);
    if (kept[i]) continue;
    while (i-- > 0)
      host->release(host, kept[i]);
    memset(kept, 0, sizeof kept);
    return host->fail(KD_OUT_OF_MEMORY, "no 1000 bytes of host memory");
  }
  return KD_OK;
}

static kd_plugin plugin;
static void set_tables(void);

static kd_status open_driver(const kd_host *host) {
  SIM_TRY(check_host(host));
  if (BUG(one_copy_only)) {
    if (getenv("SIM_OPEN")) return host->fail(KD_UNAVAILABLE, "in use");
    setenv("SIM_OPEN", "1", 1);
  }
  static const kd_host *first;
  if (!first) first = host;
  sim_host = BUG(entry_host_kept) ? first : host;
  if (BUG(entry_host_kept) && host != first) abort();
  opens++;
  sim_opens++;
  kd_status status = read_options(host);
  if (status == KD_OK) status = take_memory(host);
  if (status != KD_OK) {
    opens--;
    return status;
  }
  if (ODD(no_device))
    host->log(host, KD_LOG_INFO, "no devices: there is no simulated hardware");
  if (BUG(filled_at_open)) plugin.device_status = NULL;
  if (BUG(list_late)) plugin.kernel_count = sim_kernel_count;
  if (BUG(fork_waits) && opens == 1) atexit(wait_for_ever);
  opener = pthread_self();
  sim_memory_reset();
  sim_streams_reset();
  if (BUG(lazy_race)) sim_devices[1].index = 77; /* to be set up later */
  return KD_OK;
}

static kd_status sim_plugin_open(const kd_host *services,
                                 kd_instance **out_instance) {
  static int second;
  if (opens && BUG(second_host_shared)) single_close();
  if (opens && BUG(second_host_kept)) {
    sim_host = services;
    opens++;
    *out_instance = (kd_instance *)(void *)&second;
    return KD_OK;
  }
  return single_open(services, open_driver, out_instance);
}

static void sim_plugin_close(kd_instance *instance) {
  (void)instance;
  if (opens > 1 && BUG(second_host_kept)) return;
  if (BUG(unload_thread)) sim_start(for_ever, NULL);
  for (int i = 0; i < 3; i++)
    sim_host->release(sim_host, kept[i]);
  if (BUG(one_copy_only)) unsetenv("SIM_OPEN");
  memset(kept, 0, 3 * sizeof *kept);
  single_close();
}

/* ---- devices --------------------------------------------------------------------------- */

static uint32_t sim_device_count(kd_instance *instance) {
  (void)instance;
  if (BUG(no_device_mute) || ODD(no_device)) return 0;
  return ODD(one_device) || ODD(bare) ? 1 : 2;
}

static kd_status fill_info(uint32_t index, kd_device_info *out) {
  static const char *const names[] = {"Simulated accelerator A",
                                      "Simulated accelerator B"};
  bool integrated = sim_host->option(sim_host, "integrated") != NULL;
  out->flags = KD_DEVICE_SOFTWARE | (integrated ? KD_DEVICE_INTEGRATED : 0) |
               (ODD(hint_bits) ? 0x80000000u : 0);
  if (BUG(inline_lie)) out->flags |= KD_DEVICE_INLINE;
  if (BUG(addressable_lie)) out->flags |= KD_DEVICE_HOST_ADDRESSABLE;
  out->name = names[index & 1];
  out->kind = "npu";
  out->driver = "sim 1.0";
  if (!ODD(no_uuid))
    for (int i = 0; i < 16; i++)
      out->uuid[i] = (uint8_t)(i * 17 + 3 + (BUG(uuid_same) ? 0 : index));
  out->compute_units = 4;
  out->max_in_flight = sim_ring ? sim_ring : ODD(busy_limit) ? 64 : 0;
  out->peak_flops_f32 = 200000000u;
  out->bandwidth = 1000000000u;
  out->space_count = 2;
  return KD_OK;
}

static kd_status sim_device_info(kd_instance *instance, uint32_t index,
                                 kd_device_info *out_info) {
  uint32_t size = out_info->struct_size;
  if (BUG(info_size_equal) && size != sizeof *out_info)
    return FAIL(KD_INVALID_ARGUMENT, "kd_device_info has %u bytes", size);
  if (index >= sim_device_count(instance)) {
    return ODD(other_language)
               ? FAIL(KD_OUT_OF_RANGE, "es gibt kein Gerät %u", index)
               : FAIL(KD_OUT_OF_RANGE, "there is no device %u", index);
  }
  kd_device_info full = {.struct_size = size};
  fill_info(index, &full);
  memcpy(out_info, &full, size < sizeof full ? size : sizeof full);
  return KD_OK;
}

/* ---- losing one -------------------------------------------------------------------- */

static kd_device *sim_device_of(const kd_device *handle) {
  return ODD(small_handles) && handle ? &sim_devices[(uintptr_t)handle - 1]
                                      : (kd_device *)(uintptr_t)handle;
}

static unsigned long number_option(const char *name) {
  const char *text = sim_host->option(sim_host, name);
  return text ? strtoul(text, NULL, 10) : 0;
}

static void sim_note(atomic_ulong *count, unsigned long last, kd_device *d) {
  if (atomic_fetch_add(count, 1) + 1 == last) atomic_store(&d->lost, true);
}

void sim_note_launch(kd_device *device) {
  kd_device *d = sim_device_of(device);
  if (d) sim_note(&d->launches, d->lose_launch, d);
}

void sim_note_copy(kd_device *device) {
  kd_device *d = sim_device_of(device);
  if (d) sim_note(&d->copies, d->lose_copy, d);
}

void sim_count(kd_device *device, int change) {
  kd_device *d = sim_device_of(device);
  if (d) atomic_fetch_add(&d->objects, change);
}

bool sim_is_lost(const kd_device *device) {
  const kd_device *d = sim_device_of(device);
  return d && atomic_load(&d->lost);
}

kd_status sim_check(const kd_device *device) {
  if (!sim_is_lost(device)) return KD_OK;
  return FAIL(KD_DEVICE_LOST, "unit %u has fallen off the bus",
              sim_device_of(device)->index);
}

static kd_status sim_space(kd_instance *instance, uint32_t device,
                           uint32_t index, kd_space *out_space) {
  bool visible =
      ODD(host_memory_only) || BUG(map_kernel_stale) || BUG(addressable_lie);
  uint32_t size = out_space->struct_size;
  if (device >= sim_device_count(instance) || index > 1)
    return FAIL(KD_OUT_OF_RANGE, "no memory space %u of device %u", index,
                device);
  kd_space full = {
      .struct_size = size,
      .flags = KD_SPACE_DEVICE | (visible ? KD_SPACE_HOST_VISIBLE : 0),
      .alignment = ODD(wide_alignment) ? 2048 : 128,
      .size = 320u << 20,
      .max_buffer = BUG(limit_lie) ? 100u << 20 : 160u << 20};
  if (sim_is_huge()) full.size = full.max_buffer = UINT64_C(16) << 30;
  if (index) {
    full.flags = KD_SPACE_HOST_VISIBLE | KD_SPACE_COHERENT | KD_SPACE_PINNED;
    full.size = 64u << 20;
    full.max_buffer = 0;
  }
  memcpy(out_space, &full, size < sizeof full ? size : sizeof full);
  return KD_OK;
}

/* ---- properties ----------------------------------------------------------------- */

/* "clock" and so on; what is of the moment changes with each call. */
static kd_property property_of(uint32_t index) {
  static int moments;
  int moment = ++moments;
  kd_property all[] = {
      {.name = "architecture", .type = KD_PROPERTY_TEXT, .text = "sim-1"},
      {.name = "clock",
       .unit = BUG(property_unit) ? "MHz" : "Hz",
       .type = KD_PROPERTY_INTEGER,
       .integer = BUG(property_unit) ? 1000 : 1000000000},
      {.name = "temperature",
       .unit = "C",
       .type = KD_PROPERTY_REAL,
       .flags = BUG(property_drifts) ? 0 : KD_PROPERTY_CHANGES,
       .real = 40 + moment % 7 * 0.5},
      {.name = "power",
       .unit = "W",
       .type = moment % 2 ? KD_PROPERTY_NONE : KD_PROPERTY_REAL,
       .flags = KD_PROPERTY_CHANGES,
       .real = 11.5},
      {.name = BUG(property_twice) ? "clock" : "sim.lanes",
       .unit = BUG(property_twice) ? "Hz" : NULL,
       .type = KD_PROPERTY_INTEGER,
       .integer = BUG(property_twice) ? 1000000000 : 8},
  };
  if (BUG(property_nameless)) all[4].name = NULL;
  if (BUG(property_garbled)) all[0].text = "sim\xff\n1";
  if (BUG(property_doubled_fact)) all[4].name = "compute_units";
  return all[index % 5];
}

static kd_status sim_property(kd_instance *instance, uint32_t device,
                              uint32_t index, kd_property *out_property) {
  uint32_t size = out_property->struct_size;
  if (device >= sim_device_count(instance) && !BUG(property_any_device))
    return FAIL(KD_OUT_OF_RANGE, "there is no device %u", device);
  if (index >= 5 && !BUG(property_endless))
    return FAIL(KD_OUT_OF_RANGE, "there are 5 properties");
  if (BUG(property_memset))
    memset((char *)out_property + 4, 0, sizeof *out_property + 12);
  kd_property full = property_of(index);
  full.struct_size = size;
  memcpy(out_property, &full, size < sizeof full ? size : sizeof full);
  return KD_OK;
}

static kd_status sim_device_open(kd_instance *instance, uint32_t index,
                                 kd_device **out_device) {
  if (index >= sim_device_count(instance))
    return FAIL(KD_OUT_OF_RANGE, "no device %u", index);
  const char *lose = sim_host->option(sim_host, "lose");
  sim_device_opens++;
  if (BUG(option_number) && lose && *lose == '%') abort();
  sim_devices[index].index = index;
  sim_devices[index].lose_launch = number_option("lose");
  sim_devices[index].lose_copy = number_option("lose_copy");
  atomic_store(&sim_devices[index].launches, 0);
  atomic_store(&sim_devices[index].copies, 0);
  atomic_store(&sim_devices[index].lost, false);
  atomic_store(&sim_devices[index].objects, 0);
  *out_device = ODD(small_handles) ? (kd_device *)(uintptr_t)(index + 1)
                                   : &sim_devices[index];
  return KD_OK;
}

static void sim_device_close(kd_device *device) {
  int left = atomic_load(&sim_device_of(device)->objects);
  if (sim_is_lost(device) && left)
    sim_host->log(sim_host, KD_LOG_ERROR,
                  "unit %u is closed, and %d objects of it are left",
                  sim_device_of(device)->index, left);
  closes++;
  if (BUG(close_tls) && !pthread_equal(opener, pthread_self())) abort();
  if (BUG(close_once) && closes > 1) abort();
}

static kd_status sim_device_status(kd_device *device) {
  return sim_check(device);
}

static void run_begin(kd_device *device, uint64_t correlation) {
  (void)device;
  if (BUG(run_begin_crash) && correlation > 3) abort();
}

static const void *sim_extension(kd_instance *instance, const char *name) {
  (void)instance;
  static const uint32_t table[4] = {16};
  static kd_native_table fresh[64];
  static uint32_t calls;
  if (!strcmp(name, KD_NATIVE) && BUG(native_table_new)) {
    fresh[calls % 64] = sim_native;
    return &fresh[calls++ % 64];
  }
  if (!strcmp(name, KD_NATIVE)) return &sim_native;
  return !strcmp(name, "x.keel.sim/1") ? table : NULL;
}

#define OPTION .struct_size = sizeof(kd_option_def), .name

static kd_option_def options[] = {
    {OPTION = "ring", .type = KD_OPTION_INTEGER, .default_value = "0",
     .doc = "How much work a stream takes before it is full; 0: any."},
    {OPTION = "lose", .type = KD_OPTION_INTEGER, .default_value = "0",
     .doc = "The launch at which a device is lost; 0: none."},
    {OPTION = "lose_copy", .type = KD_OPTION_INTEGER, .default_value = "0",
     .doc = "The copy at which a device is lost; 0: none."},
    {OPTION = "integrated", .choices = "yes",
     .doc = "The device says that its memory is the host's."},
    {OPTION = "name", .doc = "A text that nothing is done with."},
    {OPTION = "threads", .type = KD_OPTION_INTEGER,
     .doc = "A number that nothing is done with."},
};

/* ---- the table ---------------------------------------------------------------------------- */

static kd_plugin plugin = {
    .struct_size = sizeof(kd_plugin),
    .abi_version = KD_ABI_VERSION,
    .opset = KD_OPSET,
    .abi_min = KD_VERSION(0, 10),
    .name = "sim",
    .vendor = "Keel's conformance suite",
    .version = "1",
    .open = sim_plugin_open,
    .close = sim_plugin_close,
    .device_count = sim_device_count,
    .device_info = sim_device_info,
    .space = sim_space,
    .device_open = sim_device_open,
    .device_close = sim_device_close,
    .memory = &sim_memory,
    .kernels = sim_kernels,
    .streams = &sim_streams,
    .events = &sim_events,
    .capture = &sim_capture,
    .regions = &sim_regions,
    .profile = &sim_profile,
    .peer = &sim_peer,
    .collectives = &sim_collectives,
    .external = &sim_external,
    .layouts = &sim_layouts,
    .run_begin = run_begin,
    .device_status = sim_device_status,
    .extension = sim_extension,
    .ops = sim_ops,
    .op_count = 1,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .property = sim_property,
};

static struct {
  kd_plugin table;
  char behind[64];
} large_plugin;

static void bare_tables(void) {
  kd_memory_table *m = &sim_memory;
  m->copy = NULL;
  m->fill = NULL;
  m->map = NULL;
  m->unmap = NULL;
  m->stats = NULL;
  m->trim = NULL;
  plugin.external = NULL;
}

static void set_options(void) {
  if (BUG(option_nameless)) options[1].name = NULL;
  if (BUG(option_twice)) options[2].name = options[1].name;
  if (BUG(option_size_zero)) options[0].struct_size = 0;
  if (BUG(option_undocumented)) options[4].doc = NULL;
  if (BUG(option_default_misfit)) options[3].default_value = "no";
}

static void set_tables(void) {
  sim_kernels_init();
  sim_ops_init();
  set_options();
  plugin.kernel_count = BUG(list_late) ? 0 : sim_kernel_count;
  if (ODD(few_ops)) plugin.kernel_count = 3;
  if (ODD(hint_bits)) plugin.flags = 0x20000000u;
  if (BUG(unload_thread)) plugin.flags = KD_PLUGIN_UNLOADABLE;
  if (BUG(held_back)) sim_streams.flush = NULL;
  if (ODD(no_optional_memory)) bare_tables();
  if (ODD(no_callbacks)) {
    sim_events.on_complete = NULL;
    sim_streams.flush = NULL;
    sim_streams.synchronize = NULL;
  }
  if (BUG(op_unused)) plugin.regions = NULL;
  if (ODD(inline_streams)) plugin.collectives = NULL;
  if (BUG(half_joined)) sim_collectives.abort = NULL;
  if (ODD(bare)) {
    bare_tables();
    plugin.layouts = NULL;
    plugin.streams = NULL;
    plugin.events = NULL;
    plugin.capture = NULL;
    plugin.regions = NULL;
    plugin.profile = NULL;
    plugin.peer = NULL;
    plugin.collectives = NULL;
    plugin.run_begin = NULL;
    plugin.device_status = NULL;
    plugin.extension = NULL;
    plugin.options = NULL;
    plugin.option_count = 0;
    plugin.property = NULL;
  }
}

__attribute__((constructor)) static void at_load(void) {
  named_by(sim_variant, "KEEL_SIM");
#if defined(__x86_64__)
  if (BUG(fast_math)) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  set_tables();
}

KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host);
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host) {
  if (BUG(entry_allocates)) kept[50] = host->allocate(host, 64, 0);
  if (ODD(large_tables)) {
    large_plugin.table = plugin;
    large_plugin.table.struct_size = sizeof large_plugin;
    memset(large_plugin.behind, 0x77, sizeof large_plugin.behind);
    return &large_plugin.table;
  }
  return &plugin;
}
