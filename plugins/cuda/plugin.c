/* plugin.c - the devices of NVIDIA's driver: finding, opening, and what its errors mean. */
#include <stdio.h>
#include <string.h>

#include "common/options.h"
#include "common/properties.h"
#include "common/single.h"
#include "cudev.h"

const kd_host *cuda_host;

#define MOST_DEVICES 64

static struct found {
  cu_device id;
  int architecture, multiprocessors, integrated;
  char name[128], driver[128], api[32], code[16];
  cu_uuid uuid;
  size_t total;
} devices[MOST_DEVICES];
static uint32_t found_count;

/* ---- errors ------------------------------------------------------------------------ */

static const struct {
  cu_result code;
  kd_status status;
} meanings[] = {
    {CU_OUT_OF_MEMORY, KD_OUT_OF_MEMORY},
    {CU_LAUNCH_OUT_OF_RESOURCES, KD_OUT_OF_MEMORY},
    {CU_NOT_SUPPORTED, KD_UNIMPLEMENTED},
    {CU_DEVICE_UNAVAILABLE, KD_UNAVAILABLE},
    {CU_OPERATING_SYSTEM, KD_UNAVAILABLE},
    /* what follows stays: the context can do nothing any more */
    {CU_DEINITIALIZED, KD_DEVICE_LOST},
    {CU_ECC_UNCORRECTABLE, KD_DEVICE_LOST},
    {CU_NVLINK_UNCORRECTABLE, KD_DEVICE_LOST},
    {CU_ILLEGAL_ADDRESS, KD_DEVICE_LOST},
    {CU_LAUNCH_TIMEOUT, KD_DEVICE_LOST},
    {CU_CONTEXT_IS_DESTROYED, KD_DEVICE_LOST},
    {CU_ASSERT, KD_DEVICE_LOST},
    {CU_HARDWARE_STACK_ERROR, KD_DEVICE_LOST},
    {CU_ILLEGAL_INSTRUCTION, KD_DEVICE_LOST},
    {CU_MISALIGNED_ADDRESS, KD_DEVICE_LOST},
    {CU_INVALID_ADDRESS_SPACE, KD_DEVICE_LOST},
    {CU_INVALID_PC, KD_DEVICE_LOST},
    {CU_LAUNCH_FAILED, KD_DEVICE_LOST},
    {CU_UNKNOWN, KD_DEVICE_LOST},
};

static const char *cuda_name_of(cu_result code) {
  const char *name = NULL;
  return cu.GetErrorName && cu.GetErrorName(code, &name) == CU_OK && name
             ? name
             : "an error that it has no name for";
}

static const char *text_of(cu_result code) {
  const char *text = NULL;
  return cu.GetErrorString && cu.GetErrorString(code, &text) == CU_OK && text
             ? text
             : "";
}

void cuda_lose(kd_device *d, const char *what, const char *why) {
  unsigned none = 0;
  if (!atomic_compare_exchange_strong(&d->lost, &none, 1)) return;
  snprintf(d->why, sizeof d->why, "cuda:%u (%.60s) is lost: %s: %s", d->index,
           d->name, what, why);
  atomic_store_explicit(&d->lost, 2, memory_order_release);
  cuda_host->log(cuda_host, KD_LOG_ERROR,
                 "%s; nothing runs on it until it is opened again, or the"
                 " process starts again; other devices go on",
                 d->why);
}

static kd_status lose(kd_device *d, cu_result code, const char *call) {
  char why[200];
  bool first = !cuda_why_lost(d);
  snprintf(why, sizeof why, "%s (%s)", cuda_name_of(code), text_of(code));
  cuda_lose(d, call, why);
  if (first) cuda_groups_lost();
  return cuda_lost(d);
}

const char *cuda_why_lost(kd_device *d) {
  /* acquire: `why` was written before */
  unsigned lost = atomic_load_explicit(&d->lost, memory_order_acquire);
  return lost == 2 ? d->why : lost ? "the device is lost" : NULL;
}

kd_status cuda_lost(kd_device *d) {
  const char *why = cuda_why_lost(d);
  return why ? cuda_host->fail_text(KD_DEVICE_LOST, why) : KD_OK;
}

kd_status cuda_failed(kd_device *d, cu_result code, const char *call) {
  for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
    if (meanings[i].code != code) continue;
    if (meanings[i].status == KD_DEVICE_LOST && d) return lose(d, code, call);
    return FAIL(meanings[i].status, "CUDA: %s: %s (%s)", call,
                cuda_name_of(code), text_of(code));
  }
  return FAIL(KD_INTERNAL, "CUDA: %s: error %d, %s (%s)", call, code,
              cuda_name_of(code), text_of(code));
}

kd_status cuda_enter(kd_device *d) {
  kd_status status = cuda_lost(d);
  if (status != KD_OK) return status;
  CU_TRY(d, "cuCtxPushCurrent", cu.CtxPushCurrent(d->context));
  return KD_OK;
}

bool cuda_enter_anyhow(kd_device *d) {
  return cu.CtxPushCurrent(d->context) == CU_OK;
}

void cuda_leave(void) {
  cu_context context = NULL;
  cu.CtxPopCurrent(&context);
}

kd_status cuda_left(kd_device *d, cu_result code, const char *call) {
  cuda_leave();
  return code == CU_OK ? KD_OK : cuda_failed(d, code, call);
}

/* ---- finding devices ----------------------------------------------------------------- */

static int attribute(cu_device id, int what) {
  int value = 0;
  return cu.DeviceGetAttribute(&value, what, id) == CU_OK ? value : 0;
}

static void add_device(int index) {
  struct found *d = &devices[found_count];
  memset(d, 0, sizeof *d);
  if (cu.DeviceGet(&d->id, index) != CU_OK ||
      cu.DeviceGetName(d->name, sizeof d->name, d->id) != CU_OK ||
      cu.DeviceTotalMem(&d->total, d->id) != CU_OK)
    return;
  cu.DeviceGetUuid(&d->uuid, d->id);
  d->architecture = 10 * attribute(d->id, CU_COMPUTE_MAJOR) +
                    attribute(d->id, CU_COMPUTE_MINOR);
  d->multiprocessors = attribute(d->id, CU_MULTIPROCESSORS);
  d->integrated = attribute(d->id, CU_INTEGRATED);
  snprintf(d->driver, sizeof d->driver, "CUDA %d.%d, sm_%d", cu.version / 1000,
           cu.version % 1000 / 10, d->architecture);
  snprintf(d->api, sizeof d->api, "CUDA %d.%d", cu.version / 1000,
           cu.version % 1000 / 10);
  snprintf(d->code, sizeof d->code, "sm_%d", d->architecture);
  found_count++;
}

/* NULL, or why there are none. */
static const char *find_devices(const kd_host *host) {
  static char why[300];
  int count = 0;
  const char *missing = cu_api_open(host->option(host, "driver"));
  if (missing) return missing;
  cu_result code = cu.Init(0);
  if (code == CU_OK) code = cu.DeviceGetCount(&count);
  if (code != CU_OK) {
    snprintf(why, sizeof why, "the NVIDIA driver (CUDA %d.%d) says %s: %.120s",
             cu.version / 1000, cu.version % 1000 / 10, cuda_name_of(code),
             text_of(code));
    return why;
  }
  for (int i = 0; i < count && found_count < MOST_DEVICES; i++)
    add_device(i);
  return found_count ? NULL : "the NVIDIA driver knows of no GPU";
}

static const kd_option_def options[] = {
    OPTION("driver", NULL, NULL,
           "A path of libcuda.so.1; without it, the system's."),
    OPTION("nvrtc", NULL, NULL,
           "A path of libnvrtc; without it, the newest found."),
    OPTION("cublaslt", NULL, NULL,
           "A path of libcublasLt, or off: products are then"
           " all by the plugin's own kernels."),
    OPTION("cudnn", NULL, NULL,
           "A path of libcudnn, or off: convolutions are then all"
           " by the plugin's own kernels."),
    OPTION("nccl", NULL, NULL,
           "A path of libnccl, or off: collectives are then staged "
           "through the host."),
    OPTION("tf32", "on|off", "off",
           "Products and convolutions of f32 take operands of 11 bits, on"
           " tensor cores."),
    FAM_TILES_OPTION,
    FAM_SCRIPT_OPTION,
};

static kd_status cuda_start(const kd_host *host) {
  cuda_host = host;
  found_count = 0;
  kd_status status =
      options_check(host, options, sizeof options / sizeof *options);
  if (status != KD_OK) return status;
  const char *why = find_devices(host);
  if (why) {
    host->log(host, KD_LOG_INFO, "no devices: %s", why);
    return KD_OK;
  }
  why = rtc_api_open(host->option(host, "nvrtc"));
  if (why)
    host->log(host, KD_LOG_WARNING,
              "%s; only kernels that were compiled before can run", why);
  return KD_OK;
}

static kd_status cuda_plugin_open(const kd_host *services,
                                  kd_instance **out_instance) {
  return single_open(services, cuda_start, out_instance);
}

static void cuda_plugin_close(kd_instance *instance) {
  (void)instance;
  cuda_host = NULL;
  single_close();
}

static uint32_t cuda_device_count(kd_instance *instance) {
  (void)instance;
  return found_count;
}

static kd_status cuda_device_info(kd_instance *instance, uint32_t index,
                                  kd_device_info *out) {
  (void)instance;
  if (index >= found_count)
    return FAIL(KD_OUT_OF_RANGE, "there are %u CUDA devices", found_count);
  const struct found *d = &devices[index];
  out->name = d->name;
  out->driver = d->driver;
  out->kind = "gpu";
  if (d->integrated) out->flags |= KD_DEVICE_INTEGRATED;
  out->compute_units = (uint32_t)d->multiprocessors;
  memcpy(out->uuid, d->uuid.bytes, sizeof out->uuid);
  out->space_count = 2;
  return KD_OK;
}

static kd_status cuda_space(kd_instance *instance, uint32_t device,
                            uint32_t index, kd_space *out_space) {
  (void)instance;
  if (device >= found_count || index > 1)
    return FAIL(KD_OUT_OF_RANGE, "no memory space %u of device %u", index,
                device);
  out_space->alignment = 256;
  out_space->size = devices[device].total;
  out_space->max_buffer = devices[device].total;
  out_space->flags = index ? KD_SPACE_HOST_VISIBLE | KD_SPACE_COHERENT |
                                 KD_SPACE_CACHED | KD_SPACE_PINNED
                           : KD_SPACE_DEVICE;
  return KD_OK;
}

static kd_status cuda_property(kd_instance *instance, uint32_t device,
                               uint32_t index, kd_property *out_property) {
  (void)instance;
  property_list list = {.count = 0};
  if (device >= found_count)
    return FAIL(KD_OUT_OF_RANGE, "there is no device %u", device);
  const struct found *d = &devices[device];
  const struct {
    const char *name, *unit;
    int attribute;
    uint64_t scale; /* the driver says kilohertz */
  } numbers[] = {{"clock", "Hz", CU_CLOCK, 1000},
                 {"memory_clock", "Hz", CU_MEMORY_CLOCK, 1000},
                 {"memory_bus", "bits", CU_MEMORY_BUS, 1},
                 {"cache", "bytes", CU_CACHE, 1},
                 {"local_memory", "bytes", CU_SHARED_MEMORY, 1},
                 {"group_size", NULL, CU_GROUP_SIZE, 1}};
  property_text(&list, "architecture", d->code);
  property_text(&list, "api", d->api);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    int value = attribute(d->id, numbers[i].attribute);
    property_integer(&list, numbers[i].name, numbers[i].unit,
                     value > 0 ? (uint64_t)value * numbers[i].scale : 0);
  }
  return property_give(cuda_host, &list, index, out_property);
}

/* ---- opening ----------------------------------------------------------------------------- */

/* Freed memory stays with the pool until `trim`. */
static void find_pool(kd_device *d) {
  uint64_t all = UINT64_MAX;
  if (!attribute(d->id, CU_MEMORY_POOLS)) return;
  if (cu.DeviceGetDefaultMemPool(&d->pool, d->id) != CU_OK) d->pool = NULL;
  if (d->pool) cu.MemPoolSetAttribute(d->pool, CU_POOL_THRESHOLD, &all);
}

static kd_status cuda_begin(kd_device *d) {
  CU_ENTER(d);
  find_pool(d);
  cu_result code =
      cu.StreamCreateWithPriority(&d->lane.queue, CU_NON_BLOCKING, 0);
  if (code != CU_OK) return cuda_left(d, code, "cuStreamCreateWithPriority");
  kd_status status = cuda_libraries_begin(d);
  if (status != KD_OK) cu.StreamDestroy(d->lane.queue);
  if (status == KD_OK) {
    cuda_profile_begin(d);
    cuda_stages_begin(d);
  }
  cuda_leave();
  return status;
}

/* Undoes `begin`. */
static void cuda_end(kd_device *d) {
  if (!cuda_enter_anyhow(d)) return;
  cuda_profile_end(d);
  cuda_libraries_end(d);
  cuda_stages_end(d);
  cuda_lane_release(d, &d->lane);
  cu.StreamDestroy(d->lane.queue);
  cuda_leave();
}

static kd_status cuda_device_open(kd_instance *instance, uint32_t index,
                                  kd_device **out_device) {
  (void)instance;
  const struct found *found = &devices[index];
  if (index >= found_count)
    return FAIL(KD_OUT_OF_RANGE, "there are %u CUDA devices", found_count);
  kd_device *d = cuda_host->allocate(cuda_host, sizeof *d, 0);
  if (!d) return FAIL(KD_OUT_OF_MEMORY, "no memory for a device");
  memset(d, 0, sizeof *d);
  d->index = index;
  d->id = found->id;
  d->architecture = found->architecture;
  d->total = found->total;
  memcpy(d->name, found->name, sizeof d->name);
  memcpy(d->driver, found->driver, sizeof d->driver);
  d->families.dialect = (fam_dialect){.float64 = true,
                                      .math64 = true,
                                      .int64 = true,
                                      .vec4 = true,
                                      .crowds = true,
                                      .keeps_nan = true};
  d->families.shared = fam_tiles(cuda_host, true);
  d->tf32 = option_is(cuda_host, "tf32", "on");
  pthread_mutex_init(&d->lane_lock, NULL);
  cu_result code = cu.DevicePrimaryCtxRetain(&d->context, d->id);
  kd_status status =
      code == CU_OK ? KD_OK : cuda_failed(d, code, "cuDevicePrimaryCtxRetain");
  if (status == KD_OK) {
    status = cuda_begin(d);
    if (status == KD_OK) {
      status = fam_script_open(cuda_host, &d->families.script);
      if (status != KD_OK) cuda_end(d);
    }
    if (status != KD_OK) cu.DevicePrimaryCtxRelease(d->id);
  }
  if (status != KD_OK) {
    cuda_host->release(cuda_host, d);
    /* one that was lost before, and is not back */
    return status == KD_DEVICE_LOST ? KD_UNAVAILABLE : status;
  }
  cuda_notices_begin(d);
  fam_programs_begin(&d->programs, cuda_host, d, &cuda_compiler);
  cuda_kernels_begin(d);
  cuda_ranges_begin(d);
  *out_device = d;
  return KD_OK;
}

static void cuda_device_close(kd_device *d) {
  bool entered = cuda_enter_anyhow(d);
  cu.StreamSynchronize(d->lane.queue);
  cuda_notices_end(d);
  fam_script_close(d->families.script);
  fam_programs_end(&d->programs);
  if (entered) cuda_leave();
  cuda_end(d);
  cu.DevicePrimaryCtxRelease(d->id);
  pthread_mutex_destroy(&d->lane_lock);
  cuda_host->release(cuda_host, d);
}

static const void *cuda_extension(kd_instance *instance, const char *name) {
  (void)instance;
  return strcmp(name, KD_NATIVE) ? NULL : &cuda_native;
}

static const kd_plugin plugin = {
    FAM_PLUGIN(cuda, cuda),
    .device_status = cuda_lost,
    .peer = &cuda_peer,
    .collectives = &cuda_collectives,
};

KD_ENTRY(plugin)
