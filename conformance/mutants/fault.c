/* fault.c - a plugin around another one: KEEL_FAULT_PLUGIN is the plugin,
 * KEEL_FAULT the one defect that is put around it. */
#include <dlfcn.h>
#include <kd/kd.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum {
  NONE,
#define FAULT(name) F_##name,
#include "mutants/faults.def"
#undef FAULT
};

static int mode;
#define BUG(name) (mode == F_##name)

static kd_plugin inner, outer;
static kd_memory_table memory;
static kd_kernel_def *inner_kernels, *outer_kernels;
static const kd_host *host;
static uint32_t opens, device_opens;

static void nap(long microseconds) {
  nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

/* ---- memory -------------------------------------------------------------------------- */

static kd_status allocate(kd_device *device, uint32_t space, uint64_t size,
                          kd_buffer **out_buffer, void **out_address) {
  if (BUG(alloc_slow)) nap(5000);
  if (BUG(size_wraps) && size + 4096 < size) size += 4096;
  kd_status status =
      inner.memory->allocate(device, space, size, out_buffer, out_address);
  if (status == KD_OK) return status;
  if (BUG(out_written)) *out_buffer = NULL;
  if (BUG(oom_other_code)) return host->fail(KD_INTERNAL, "no memory, %d", 1);
  if (BUG(errno_code)) return -12;
  if (BUG(mute_oom)) host->fail(KD_OK, "%s", "");
  return status;
}

static kd_status copy_in(kd_device *device, kd_stream *stream,
                         const void *source, kd_buffer *target, uint64_t offset,
                         uint64_t size) {
  static char shared[1 << 16];
  if (BUG(odd_tail) && size > 4) size &= ~UINT64_C(3);
  if (BUG(zero_is_all) && !size) {
    char junk[8] = {1};
    return inner.memory->copy_in(device, stream, junk, target, offset, 8);
  }
  if (BUG(global_scratch) && size > 1000 && size < sizeof shared) {
    memcpy(shared, source, size);
    nap(50);
    return inner.memory->copy_in(device, NULL, shared, target, offset, size);
  }
  kd_status status =
      inner.memory->copy_in(device, stream, source, target, offset, size);
  if (BUG(copy_rounds_up) && size % 4) {
    char junk[4] = {0x3c, 0x3c, 0x3c, 0x3c};
    inner.memory->copy_in(device, NULL, junk, target, offset + size,
                          4 - size % 4);
  }
  return status;
}

static kd_status copy_out(kd_device *device, kd_stream *stream,
                          kd_buffer *source, uint64_t offset, void *target,
                          uint64_t size) {
  if (BUG(out_offset)) offset &= ~UINT64_C(7);
  return inner.memory->copy_out(device, stream, source, offset, target, size);
}

/* ---- kernels --------------------------------------------------------------------------- */

static const kd_kernel_def *inner_of(const void *data) {
  return data;
}

static void spoil(const kd_launch *launch, const kd_tensor *tensor,
                  int64_t element) {
  float junk = 7;
  if (tensor->dtype != KD_F32 || !tensor->buffer || tensor->layout) return;
  if ((uint64_t)(element + 1) * 4 > tensor->size) return;
  inner.memory->copy_in(launch->device, NULL, &junk, tensor->buffer,
                        tensor->offset + (uint64_t)element * 4, 4);
}

static void leak(size_t size) {
  static void *volatile lost;
  lost = malloc(size);
  if (lost) memset(lost, 1, size);
}

/* Stands for the instance of a definition that has none. */
struct kd_kernel {
  char unused;
};
static kd_kernel no_instance;

static kd_status enqueue(kd_kernel *kernel, kd_stream *stream,
                         const kd_launch *launch) {
  static uint32_t runs;
  const kd_kernel_def *def = inner_of(launch->data);
  if (BUG(empty_refused) && launch->output_count && launch->outputs[0].rank &&
      kd_elements(&launch->outputs[0]) == 0)
    return host->fail(KD_INVALID_ARGUMENT, "a grid of %d blocks", 0);
  if (BUG(launch_leaks)) leak(400);
  bool dynamic = def->flags & KD_KERNEL_DYNAMIC_OUTPUT;
  /* the host knows its launch by the address: what is in it is exchanged */
  kd_launch *open = (kd_launch *)(uintptr_t)launch;
  open->data = def->data;
  if (kernel == &no_instance) kernel = NULL;
  kd_status status = def->enqueue(kernel, stream, launch);
  open->data = def;
  if (status != KD_OK || dynamic || !launch->output_count) return status;
  const kd_tensor *out = &launch->outputs[0];
  int64_t n = kd_elements(out);
  if (BUG(tail_unwritten) && n > 1) {
    static uint32_t flip;
    float junk = (float)flip++;
    if (out->dtype == KD_F32 && out->buffer && !out->layout)
      inner.memory->copy_in(launch->device, NULL, &junk, out->buffer,
                            out->offset + (uint64_t)(n - 1) * 4, 4);
  }
  if (BUG(writes_input) && launch->input_count)
    spoil(launch, &launch->inputs[0], 1);
  if (BUG(stale_result) && runs++ && n) spoil(launch, out, 0);
  if (BUG(random_bits) && runs++ % 3 == 2 && n > 3) spoil(launch, out, 3);
  return status;
}

static kd_status create(kd_device *device, const kd_kernel_def *def,
                        const kd_node *node, kd_kernel **out_kernel) {
  const kd_kernel_def *own = inner_of(def->data);
  if (BUG(instance_leaks)) leak(2000);
  if (own->create) return own->create(device, own, node, out_kernel);
  *out_kernel = &no_instance;
  return KD_OK;
}

static void destroy_none(kd_kernel *kernel) {
  (void)kernel;
}

static uint64_t workspace(kd_kernel *kernel, const kd_launch *launch) {
  const kd_kernel_def *def = inner_of(launch->data);
  kd_launch *open = (kd_launch *)(uintptr_t)launch;
  open->data = def->data;
  if (kernel == &no_instance) kernel = NULL;
  uint64_t size = def->workspace(kernel, launch);
  open->data = def;
  return size;
}

/* ---- the plugin -------------------------------------------------------------------------- */

static volatile int spinning;

static void *spin(void *unused) {
  (void)unused;
  while (spinning)
    ;
  return NULL;
}

static void on_signal(int number) {
  (void)number;
}

static void *kept;

static kd_status plugin_open(const kd_host *services) {
  host = services;
  if (BUG(no_reopen) && opens)
    return host->fail(KD_UNAVAILABLE, "open already");
  opens++;
#if defined(__x86_64__)
  if (BUG(sets_fpu)) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  if (BUG(sets_handler)) signal(SIGUSR1, on_signal);
  if (BUG(sets_environment)) setenv("FAULT_WAS_HERE", "1", 1);
  if (BUG(sets_directory) && chdir("/usr") != 0) return KD_INTERNAL;
  if (BUG(sets_umask)) umask(077);
  if (BUG(prints)) puts("fault: opened");
  if (BUG(log_level)) host->log(host, 9, "opened");
  if (BUG(zone_left_open)) host->zone_begin("open");
  if (BUG(block_kept)) kept = host->allocate(100, 0);
  if (BUG(spins)) {
    pthread_t thread;
    spinning = 1;
    if (pthread_create(&thread, NULL, spin, NULL) == 0) pthread_detach(thread);
  }
  return inner.open(services);
}

static void plugin_close(void) {
  spinning = 0;
  inner.close();
}

static uint32_t device_count(void) {
  static uint32_t asked;
  uint32_t count = inner.device_count();
  return BUG(count_changes) && ++asked % 50 == 0 ? count + 1 : count;
}

static kd_status device_info(uint32_t index, kd_device_info *out_info) {
  if (BUG(index_unchecked) && index >= inner.device_count()) index = 0;
  kd_status status = inner.device_info(index, out_info);
  if (BUG(info_nameless)) out_info->name = NULL;
  if (BUG(info_alignment)) {
    if (!out_info->space_count) out_info->space_count = 1;
    out_info->spaces[0].alignment = 48;
  }
  return status;
}

static kd_status device_open(uint32_t index, kd_device **out_device) {
  if (BUG(opens_leak) && ++device_opens > 9)
    return host->fail(KD_UNAVAILABLE, "no context is left");
  return inner.device_open(index, out_device);
}

static void copy_sized(void *target, size_t size, const void *source) {
  uint32_t given = 0;
  memset(target, 0, size);
  if (!source) return;
  memcpy(&given, source, sizeof given);
  memcpy(target, source, given < size ? given : size);
}

static bool wrap(const kd_host *services) {
  static const char *const names[] = {
      "",
#define FAULT(name) #name,
#include "mutants/faults.def"
#undef FAULT
  };
  const char *name = getenv("KEEL_FAULT"), *path = getenv("KEEL_FAULT_PLUGIN");
  for (size_t i = 1; name && i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], name)) mode = (int)i;
  void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  kd_entry entry = NULL;
  if (library) *(void **)&entry = dlsym(library, KD_ENTRY_SYMBOL);
  const kd_plugin *table = entry ? entry(services) : NULL;
  if (!table) return false;
  copy_sized(&inner, sizeof inner, table);
  copy_sized(&memory, sizeof memory, inner.memory);
  outer = inner;
  outer.struct_size = sizeof outer;
  memory.struct_size = sizeof memory;
  memory.allocate = allocate;
  memory.copy_in = copy_in;
  memory.copy_out = copy_out;
  outer.memory = &memory;
  outer.open = plugin_open;
  outer.close = plugin_close;
  outer.device_count = device_count;
  outer.device_info = device_info;
  outer.device_open = device_open;
  inner_kernels = calloc(inner.kernel_count + 1, sizeof *inner_kernels);
  outer_kernels = calloc(inner.kernel_count + 1, sizeof *outer_kernels);
  if (!inner_kernels || !outer_kernels) return false;
  size_t stride = inner.kernel_count ? inner.kernels->struct_size : 0;
  for (uint32_t i = 0; i < inner.kernel_count; i++) {
    copy_sized(&inner_kernels[i], sizeof *inner_kernels,
               (const char *)inner.kernels + i * stride);
    outer_kernels[i] = inner_kernels[i];
    outer_kernels[i].struct_size = sizeof *outer_kernels;
    outer_kernels[i].data = &inner_kernels[i];
    outer_kernels[i].enqueue = enqueue;
    if (inner_kernels[i].create || BUG(instance_leaks))
      outer_kernels[i].create = create;
    if (!inner_kernels[i].create && BUG(instance_leaks))
      outer_kernels[i].destroy = destroy_none;
    if (inner_kernels[i].workspace) outer_kernels[i].workspace = workspace;
  }
  outer.kernels = outer_kernels;
  if (BUG(name_invalid)) outer.name = "Acme GPU!";
  if (BUG(plugin_flag)) outer.flags |= 0x100;
  if (BUG(abi_min_above)) outer.abi_min = KD_VERSION(0, 12);
  if (BUG(slot_missing)) outer.device_close = NULL;
  if (BUG(kernel_flag)) outer_kernels[0].flags |= 0x10000000u;
  return true;
}

KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *services);
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *services) {
  if (!outer.struct_size && !wrap(services)) {
    services->fail(KD_UNAVAILABLE, "KEEL_FAULT_PLUGIN names no plugin");
    return NULL;
  }
  return BUG(entry_null) ? NULL : &outer;
}
