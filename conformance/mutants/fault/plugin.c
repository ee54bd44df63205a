/* plugin.c - a plugin around another one: KEEL_FAULT_PLUGIN is the plugin,
 * KEEL_FAULT the one defect that is put around it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "mutants/fault/fault.h"

char fault_variant[64];
kd_plugin inner, outer;
kd_memory_table inner_memory;
kd_stream_table inner_streams;
kd_event_table inner_events;
const kd_host *host;
uint32_t fault_device_opens;

static uint32_t opens;

/* ---- helpers ------------------------------------------------------------------------ */

void nap(long microseconds) {
  nanosleep(&(struct timespec){.tv_sec = microseconds / 1000000,
                               .tv_nsec = microseconds % 1000000 * 1000},
            NULL);
}

void copy_sized(void *target, size_t size, const void *source) {
  uint32_t given = 0;
  memset(target, 0, size);
  if (!source) return;
  memcpy(&given, source, sizeof given);
  memcpy(target, source, given < size ? given : size);
}

void leak(size_t size) {
  static void *volatile lost;
  lost = malloc(size);
  if (lost) memset(lost, 1, size);
}

void start_thread(void *(*body)(void *), void *context) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, context) == 0) pthread_detach(thread);
}

static void *sleep_for_ever(void *unused) {
  (void)unused;
  for (;;)
    nap(1000000);
  return NULL;
}

static volatile int spinning;

static void *spin(void *unused) {
  (void)unused;
  while (spinning)
    ;
  return NULL;
}

static void *log_late(void *services) {
  nap(3000);
  ((const kd_host *)services)->log(services, KD_LOG_INFO, "still here");
  return NULL;
}

static void wait_for_ever(void) {
  for (;;)
    nap(1000000);
}

/* ---- open and close ----------------------------------------------------------------- */

static void start_things(void) {
  if (BUG(spins)) {
    spinning = 1;
    start_thread(spin, NULL);
  }
  if (BUG(thread_stays) && opens == 1) start_thread(sleep_for_ever, NULL);
  if (BUG(thread_survives)) start_thread(sleep_for_ever, NULL);
  for (int i = 0; i < 12 && BUG(own_pool); i++)
    start_thread(sleep_for_ever, NULL);
  if (BUG(exit_hangs) && opens == 1) atexit(wait_for_ever);
  if (BUG(cycle_leaks)) leak(200000);
  if (BUG(forks) && fork() == 0) {
    nap(3000000);
    _exit(0);
  }
}

static void *kept, *more;

static kd_status use_host(const kd_host *services) {
  if (BUG(prints)) {
    puts("fault: opened");
    fflush(stdout);
  }
  if (BUG(log_level)) host->log(host, 9, "opened");
  if (BUG(zone_left_open)) host->zone_begin(host, "open");
  if (BUG(block_kept)) kept = host->allocate(host, 100, 0);
  if (BUG(odd_alignment)) host->release(host, host->allocate(host, 100, 48));
  if (BUG(host_overrun)) {
    char *block = host->allocate(host, 10, 0);
    if (block) block[10] = 1;
    host->release(host, block);
  }
  if (BUG(alloc_unchecked)) {
    char *block = host->allocate(host, 1000, 0);
    *(volatile char *)block = 1;
    host->release(host, block);
  }
  if (BUG(alloc_leaks)) {
    kept = host->allocate(host, 1000, 0);
    more = host->allocate(host, 1000, 0);
    if (!kept || !more)
      return host->fail(KD_OUT_OF_MEMORY, "no %d bytes of host memory", 1000);
  }
  if (BUG(host_reads_past) && *(const volatile uint64_t *)(services + 1) == 1)
    return host->fail(KD_INCOMPATIBLE, "a slot of a later version, %d", 1);
  if (BUG(host_name) && strncmp(host->name, "keel", 4) != 0)
    return host->fail(KD_INCOMPATIBLE, "the host is %s", host->name);
  if (BUG(version_equal) && host->abi_version != KD_ABI_VERSION)
    return host->fail(KD_INCOMPATIBLE, "the host's version is %u",
                      host->abi_version);
  if (BUG(host_size_equal) && host->struct_size != sizeof(kd_host))
    return host->fail(KD_INCOMPATIBLE, "kd_host has %u bytes",
                      host->struct_size);
  return KD_OK;
}

static kd_status fault_plugin_open(const kd_host *services,
                                   kd_instance **out_instance) {
  host = services;
  if (BUG(no_reopen) && opens)
    return host->fail(KD_UNAVAILABLE, "open already, %d", 1);
  opens++;
  kd_status status = use_host(services);
  if (status != KD_OK) return status;
  change_process();
  start_things();
  return inner.open(services, out_instance);
}

static void fault_plugin_close(kd_instance *instance) {
  spinning = 0;
  inner.close(instance);
  if (BUG(alloc_leaks)) {
    host->release(host, kept);
    host->release(host, more);
  }
  if (BUG(late_log)) start_thread(log_late, (void *)(uintptr_t)host);
}

/* ---- devices ------------------------------------------------------------------------ */

static uint32_t fault_device_count(kd_instance *instance) {
  static uint32_t asked;
  uint32_t count = inner.device_count(instance);
  return BUG(count_changes) && ++asked % 50 == 0 ? count + 1 : count;
}

static kd_status fault_device_info(kd_instance *instance, uint32_t index,
                                   kd_device_info *out_info) {
  static char name[64];
  static uint32_t calls;
  if (BUG(index_unchecked) && index >= inner.device_count(instance)) index = 0;
  uint32_t size = out_info->struct_size;
  kd_status status = inner.device_info(instance, index, out_info);
  if (status != KD_OK) {
    if (BUG(mute_info)) host->fail(KD_OK, "%s", "");
    return status;
  }
  if (BUG(info_memset)) memset((char *)out_info + size, 0, 16);
  if (size < sizeof *out_info) return status;
  if (BUG(info_nameless)) out_info->name = NULL;
  if (BUG(info_stack)) {
    snprintf(name, sizeof name, "device of call %u", calls++);
    out_info->name = name;
  }
  if (BUG(uuid_random)) memcpy(out_info->uuid, &(int){getpid()}, sizeof(int));
  if (BUG(flops_in_tera)) out_info->peak_flops_f32 = 2;
  if (BUG(info_alignment) && !out_info->space_count) out_info->space_count = 1;
  return status;
}

static kd_status fault_space(kd_instance *instance, uint32_t device,
                             uint32_t index, kd_space *out_space) {
  kd_status status = KD_OK;
  if (inner.space)
    status = inner.space(instance, device, index, out_space);
  else
    out_space->flags = KD_SPACE_DEVICE;
  if (status == KD_OK && BUG(info_alignment)) out_space->alignment = 48;
  return status;
}

static kd_status fault_device_open(kd_instance *instance, uint32_t index,
                                   kd_device **out_device) {
  fault_device_opens++;
  if (BUG(opens_leak) && fault_device_opens > 9)
    return host->fail(KD_UNAVAILABLE, "no context is left of %d", 9);
  return inner.device_open(instance, index, out_device);
}

static kd_status fault_device_status(kd_device *device) {
  (void)device;
  return host->fail(KD_DEVICE_LOST, "lost, %d", 1);
}

static kd_native_table native; /* the plugin's */

static kd_status native_device(kd_device *device, kd_native_kind kind,
                               uint64_t *out_handle) {
  kd_status status = native.device(device, kind, out_handle);
  if (status == KD_OK || !BUG(native_any_kind)) return status;
  *out_handle = 64;
  return KD_OK;
}

static kd_status native_buffer(kd_device *device, kd_buffer *buffer,
                               kd_native_kind kind, uint64_t *out_handle,
                               uint64_t *out_offset) {
  kd_status status =
      native.buffer(device, buffer, kind, out_handle, out_offset);
  if (BUG(native_zero) && status == KD_OK) *out_handle = 0;
  return status;
}

static const void *fault_extension(kd_instance *instance, const char *name) {
  static const uint32_t table[4] = {16};
  static kd_native_table around;
  if (BUG(extension_any)) return table;
  const void *own = inner.extension(instance, name);
  if (!own || strcmp(name, KD_NATIVE) != 0) return own;
  copy_sized(&native, sizeof native, own);
  around = native;
  around.struct_size = sizeof around;
  around.device = native_device;
  if (native.buffer) around.buffer = native_buffer;
  return &around;
}

/* ---- the table ---------------------------------------------------------------------- */

/* The plugin; where another copy of this one has it, a copy of its own. */
static void *load_inner(const char *path) {
  char copy[32];
  struct stat facts;
  void *there = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!there) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("inner", 0);
  bool whole =
      from >= 0 && to >= 0 && fstat(from, &facts) == 0 &&
      sendfile(to, from, NULL, (size_t)facts.st_size) == (ssize_t)facts.st_size;
  snprintf(copy, sizeof copy, "/proc/self/fd/%d", to);
  if (from >= 0) close(from);
  return whole ? dlopen(copy, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static bool fault_wrap(const kd_host *services) {
  const char *path = getenv("KEEL_FAULT_PLUGIN");
  named_by(fault_variant, "KEEL_FAULT");
  void *library = path ? load_inner(path) : NULL;
  kd_entry entry = NULL;
  if (library) *(void **)&entry = dlsym(library, KD_ENTRY_SYMBOL);
  const kd_plugin *table = entry ? entry(services) : NULL;
  if (!table) return false;
  copy_sized(&inner, sizeof inner, table);
  copy_sized(&inner_memory, sizeof inner_memory, inner.memory);
  copy_sized(&inner_streams, sizeof inner_streams, inner.streams);
  copy_sized(&inner_events, sizeof inner_events, inner.events);
  inner_memory.struct_size = sizeof inner_memory;
  inner_streams.struct_size = sizeof inner_streams;
  inner_events.struct_size = sizeof inner_events;
  outer = inner;
  outer.struct_size = BUG(plugin_size_small) ? 92 : sizeof outer;
  outer.open = fault_plugin_open;
  outer.close = fault_plugin_close;
  outer.device_count = fault_device_count;
  outer.device_info = fault_device_info;
  if (inner.space || BUG(info_alignment)) outer.space = fault_space;
  outer.device_open = fault_device_open;
  wrap_memory();
  wrap_streams();
  wrap_options();
  if (!wrap_kernels()) return false;
  if (BUG(status_lost)) outer.device_status = fault_device_status;
  if (BUG(extension_any) || inner.extension) outer.extension = fault_extension;
  if (BUG(name_invalid)) outer.name = "Acme GPU!";
  if (BUG(plugin_flag)) outer.flags |= 0x100;
  if (BUG(late_log)) outer.flags |= KD_PLUGIN_UNLOADABLE;
  if (BUG(abi_min_above)) outer.abi_min = KD_VERSION(0, 12);
  if (BUG(slot_missing)) outer.device_close = NULL;
  return true;
}

KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *services);
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *services) {
  if (!outer.struct_size && !fault_wrap(services)) {
    services->fail(KD_UNAVAILABLE, "KEEL_FAULT_PLUGIN names no plugin");
    return NULL;
  }
  if (BUG(entry_thread)) start_thread(sleep_for_ever, NULL);
  if (BUG(entry_null)) return NULL;
  if (BUG(entry_other_table)) {
    static kd_plugin others[16];
    static uint32_t given;
    others[given % 16] = outer;
    return &others[given++ % 16];
  }
  return &outer;
}
