/* plugin.c - the CPU as a device: its facts, its memory, its table.
 *
 * Work is done when a call returns, and any host pointer is as good as the
 * plugin's own, so there are no streams. All threads are the host's. */
#include <stdio.h>
#include <unistd.h>

#include "common/inline.h"
#include "common/options.h"
#include "common/properties.h"
#include "common/single.h"
#include "cpu.h"
#include "elementwise/chain.h"
#include "kernels/kernels.h"
#include "table.h"

const kd_host *cpu_host;

static char product_name[64] = "CPU";
int cpu_isa_taken;
static bool openblas, winograd;

/* ---- facts ------------------------------------------------------------------ */

static int detect_isa(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return 2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    return 1;
#endif
  return 0;
}

/* The option "isa" takes a lower set than the processor has. */
static kd_status choose_isa(void) {
  static const char *const names[] = {"base", "avx2", "avx512"};
  const char *wanted = cpu_host->option(cpu_host, "isa");
  int best = detect_isa();
  cpu_isa_taken = best;
  for (int i = 0; wanted && i < 3; i++)
    if (!strcmp(wanted, names[i])) cpu_isa_taken = i;
  return cpu_isa_taken <= best
             ? KD_OK
             : FAIL(KD_INVALID_ARGUMENT,
                    "option isa is %s, and this processor has %s at most",
                    wanted, names[best]);
}

static void read_product_name(void) {
  char line[256];
  FILE *file = fopen("/proc/cpuinfo", "re");
  while (file && fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    colon += 1 + (colon[1] == ' ');
    colon[strcspn(colon, "\n")] = 0;
    snprintf(product_name, sizeof product_name, "%.63s", colon);
    break;
  }
  if (file) fclose(file);
}

static const kd_option_def options[] = {
    OPTION("isa", "base|avx2|avx512", NULL,
           "The instruction set that kernels use; without it, the best that"
           " the processor has."),
    OPTION("bytes", "plain|vnni|amx", NULL,
           "The instructions that products of bytes use; without it, the best"
           " that the processor has. Results are the same."),
    OPTION("products", "tiles|openblas", "tiles",
           "Selects the code for matrix products: Keel's own loops, or "
           "OpenBLAS if it is installed."),
    OPTION("winograd", "on|off", "on",
           "Convolutions of 3 x 3 taps in fewer products; off sums them tap by"
           " tap, which is slower and suits inputs whose neighbours differ by"
           " many orders of magnitude."),
    OPTION("regions", "on|off", "on",
           "Chains of ops run as one loop; off leaves ops apart."),
};

bool cpu_wants_winograd(void) {
  return winograd;
}

bool cpu_wants_openblas(void) {
  return openblas;
}

static kd_status cpu_start(const kd_host *host) {
  inline_host = cpu_host = host;
  read_product_name();
  openblas = option_is(host, "products", "openblas");
  winograd = !option_is(host, "winograd", "off");
  cpu_regions_off = option_is(host, "regions", "off");
  kd_status status =
      options_check(host, options, sizeof options / sizeof *options);
  if (status == KD_OK) status = choose_isa();
  if (status == KD_OK) status = cpu_choose_bytes();
  if (status == KD_OK) cpu_int8_choose();
  return status;
}

static kd_status cpu_plugin_open(const kd_host *services,
                                 kd_instance **out_instance) {
  return single_open(services, cpu_start, out_instance);
}

static void cpu_plugin_close(kd_instance *instance) {
  (void)instance;
  inline_host = cpu_host = NULL;
  single_close();
}

static kd_status cpu_device_info(kd_instance *instance, uint32_t index,
                                 kd_device_info *out_info) {
  (void)instance;
  static const char *const sets[] = {"plain loops", "AVX2", "AVX-512"};
  if (index) return FAIL(KD_OUT_OF_RANGE, "there is one CPU device");
  out_info->flags = KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE |
                    KD_DEVICE_INTEGRATED | KD_DEVICE_WIDENS;
  out_info->name = product_name;
  out_info->kind = "cpu";
  out_info->driver = sets[cpu_isa()];
  out_info->compute_units = cpu_host->worker_count(cpu_host);
  out_info->space_count = 1;
  return KD_OK;
}

static kd_status cpu_space(kd_instance *instance, uint32_t device,
                           uint32_t index, kd_space *out_space) {
  (void)instance;
  if (device || index)
    return FAIL(KD_OUT_OF_RANGE, "there is one memory space");
  out_space->flags = KD_SPACE_DEVICE | KD_SPACE_HOST_VISIBLE |
                     KD_SPACE_COHERENT | KD_SPACE_CACHED;
  out_space->alignment = 16; /* malloc's: an application's data come in place */
  out_space->size =
      (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  return KD_OK;
}

/* Of the fastest core, hertz; 0: the system does not say. */
static uint64_t read_clock(void) {
  unsigned long long kilohertz = 0;
  FILE *file =
      fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "re");
  char line[32];
  if (file && fgets(line, sizeof line, file))
    kilohertz = strtoull(line, NULL, 10);
  if (file) fclose(file);
  return kilohertz * 1000;
}

static uint64_t read_cache(void) {
  long size = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (size <= 0) size = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return size > 0 ? (uint64_t)size : 0;
}

static kd_status cpu_property(kd_instance *instance, uint32_t device,
                              uint32_t index, kd_property *out_property) {
  (void)instance;
  property_list list = {.count = 0};
  if (device) return FAIL(KD_OUT_OF_RANGE, "there is one CPU device");
#if defined(__x86_64__)
  property_text(&list, "architecture", "x86-64");
#elif defined(__aarch64__)
  property_text(&list, "architecture", "aarch64");
#endif
  property_integer(&list, "clock", "Hz", read_clock());
  property_integer(&list, "cache", "bytes", read_cache());
  return property_give(cpu_host, &list, index, out_property);
}

/* ---- memory ------------------------------------------------------------------ */

static kd_status cpu_allocate(kd_device *device, const kd_allocation *wanted,
                              kd_buffer **out_buffer, void **out_address) {
  uint64_t size = wanted->size;
  (void)device;
  if (wanted->flags)
    return FAIL(KD_UNIMPLEMENTED, "allocation flags 0x%x", wanted->flags);
  if (wanted->export_kind)
    return cpu_external_allocate(wanted, out_buffer, out_address);
  void *memory = size > SIZE_MAX - 63
                     ? NULL
                     : aligned_alloc(64, ((size_t)size + 63) & ~(size_t)63);
  if (!memory)
    return FAIL(KD_OUT_OF_MEMORY, "out of memory: %llu bytes requested",
                (unsigned long long)size);
  *out_buffer = memory;
  *out_address = memory;
  return KD_OK;
}

static void cpu_release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  if (!cpu_external_release(buffer)) free(buffer);
}

static kd_status cpu_copy(kd_device *device, kd_stream *stream,
                          kd_buffer *source, uint64_t source_offset,
                          kd_buffer *target, uint64_t target_offset,
                          uint64_t size) {
  (void)device;
  (void)stream;
  if (size)
    memmove(inline_address(target, target_offset),
            inline_address(source, source_offset), size);
  return KD_OK;
}

static kd_status cpu_plugin_fill(kd_device *device, kd_stream *stream,
                                 kd_buffer *target, uint64_t offset,
                                 uint64_t size, const void *pattern,
                                 uint32_t pattern_size) {
  (void)device;
  (void)stream;
  for (uint64_t i = 0; i < size; i += pattern_size)
    memcpy(inline_address(target, offset + i), pattern, pattern_size);
  return KD_OK;
}

static kd_status cpu_map(kd_device *device, kd_buffer *buffer, uint64_t offset,
                         uint64_t size, uint32_t access, void **out_address) {
  (void)device;
  (void)size;
  (void)access;
  *out_address = inline_address(buffer, offset);
  return KD_OK;
}

static void cpu_unmap(kd_device *device, kd_buffer *buffer) {
  (void)device;
  (void)buffer;
}

static const kd_memory_table memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = cpu_allocate,
    .release = cpu_release,
    .copy_in = inline_copy_in,
    .copy_out = inline_copy_out,
    .copy = cpu_copy,
    .fill = cpu_plugin_fill,
    .map = cpu_map,
    .unmap = cpu_unmap,
};

#ifdef KEEL_WITH_DNNL
static const kd_layout_table layouts = {
    .struct_size = sizeof(kd_layout_table),
    .preferred = cpu_layout_preferred,
    .size = cpu_layout_size,
    .from_rows = cpu_layout_from_rows,
    .to_rows = cpu_layout_to_rows,
};
#endif

static const kd_plugin plugin = {
    .struct_size = sizeof(kd_plugin),
    .abi_version = KD_ABI_VERSION,
    .opset = KD_OPSET,
    .name = "cpu",
    .vendor = "Keel",
    .version = "0.1.0",
    .open = cpu_plugin_open,
    .close = cpu_plugin_close,
    .device_count = inline_count,
    .device_info = cpu_device_info,
    .space = cpu_space,
    .property = cpu_property,
    .device_open = inline_open,
    .device_close = inline_close,
    .memory = &memory,
    .external = &cpu_external,
    .regions = &cpu_regions,
    .kernels = cpu_kernels,
    .kernel_count = CPU_KERNEL_COUNT,
    .options = options,
    .option_count = sizeof options / sizeof *options,
#ifdef KEEL_WITH_DNNL
    .layouts = &layouts,
#endif
};

KD_ENTRY(plugin)
