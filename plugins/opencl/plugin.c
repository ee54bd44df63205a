/* plugin.c - OpenCL devices of every platform that the ICD loader finds. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/options.h"
#include "common/properties.h"
#include "common/single.h"
#include "opencl.h"

const kd_host *ocl_host;

#define MOST_DEVICES 32

static struct found {
  cl_platform_id platform;
  cl_device_id id;
  char name[128], driver[160], api[128];
} devices[MOST_DEVICES];
static uint32_t found_count;

/* ---- errors ------------------------------------------------------------------------ */

static const struct {
  cl_int code;
  const char *name;
  kd_status status;
} errors[] = {
#define ERROR(code, status) \
  { code, #code, status }
    ERROR(CL_DEVICE_NOT_AVAILABLE, KD_DEVICE_LOST),
    ERROR(CL_COMPILER_NOT_AVAILABLE, KD_UNAVAILABLE),
    ERROR(CL_MEM_OBJECT_ALLOCATION_FAILURE, KD_OUT_OF_MEMORY),
    ERROR(CL_OUT_OF_RESOURCES, KD_OUT_OF_MEMORY),
    ERROR(CL_OUT_OF_HOST_MEMORY, KD_OUT_OF_MEMORY),
    ERROR(CL_INVALID_BUFFER_SIZE, KD_OUT_OF_MEMORY),
    ERROR(CL_BUILD_PROGRAM_FAILURE, KD_INTERNAL),
    ERROR(CL_INVALID_VALUE, KD_INTERNAL),
    ERROR(CL_INVALID_KERNEL_ARGS, KD_INTERNAL),
    ERROR(CL_INVALID_WORK_GROUP_SIZE, KD_INTERNAL),
    ERROR(CL_INVALID_OPERATION, KD_INTERNAL),
    ERROR(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, KD_ABORTED),
#undef ERROR
};

const char *ocl_error_name(cl_int code) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == code) return errors[i].name;
  return "an error of the driver's own";
}

kd_status ocl_failed(cl_int code, const char *call) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == code)
      return FAIL(errors[i].status, "OpenCL: %s: %s", call, errors[i].name);
  return FAIL(KD_INTERNAL, "OpenCL: %s: error %d", call, code);
}

/* ---- finding devices ----------------------------------------------------------------- */

static void opencl_add_devices(cl_platform_id platform) {
  cl_device_id ids[MOST_DEVICES];
  cl_uint count = 0;
  if (cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST_DEVICES, ids,
                      &count) != CL_SUCCESS)
    return;
  char version[128] = "", driver[64] = "";
  cl.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof version, version, NULL);
  for (cl_uint i = 0; i < count && i < MOST_DEVICES; i++) {
    cl_bool usable = CL_FALSE, compiler = CL_FALSE;
    if (found_count == MOST_DEVICES) return;
    struct found *d = &devices[found_count];
    cl.GetDeviceInfo(ids[i], CL_DEVICE_AVAILABLE, sizeof usable, &usable, NULL);
    cl.GetDeviceInfo(ids[i], CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler,
                     &compiler, NULL);
    if (!usable || !compiler) continue;
    d->platform = platform;
    d->id = ids[i];
    cl.GetDeviceInfo(ids[i], CL_DEVICE_NAME, sizeof d->name - 1, d->name, NULL);
    cl.GetDeviceInfo(ids[i], CL_DEVICE_VERSION, sizeof d->api - 1, d->api,
                     NULL);
    cl.GetDeviceInfo(ids[i], CL_DRIVER_VERSION, sizeof driver - 1, driver,
                     NULL);
    snprintf(d->driver, sizeof d->driver, "%.90s %.60s", version, driver);
    found_count++;
  }
}

static const kd_option_def options[] = {
    FAM_TILES_OPTION,
    FAM_TUNED_OPTION,
    FAM_CUT_OPTION,
    FAM_F64_OPTION,
    OPTION("commands", "auto|on|off", "auto",
           "Recordings become command buffers of the driver; auto: not on"
           " processors, where lists are as fast."),
    OPTION("forms", "auto|on|off", "auto",
           "Compiled regions are kept, and taken from programs' files; auto:"
           " not on processors, where that is code that runs in the process."),
    FAM_SCRIPT_OPTION,
};

static kd_status opencl_start(const kd_host *host) {
  ocl_host = host;
  found_count = 0;
  kd_status status =
      options_check(host, options, sizeof options / sizeof *options);
  if (status != KD_OK) return status;
  const char *why = cl_api_open();
  /* PoCL ends the process where it can't read what the machine has */
  if (!why && access("/sys/devices/system/cpu", R_OK) != 0)
    why = "/sys is not mounted, and drivers for processors can't do without";
  if (why) {
    host->log(host, KD_LOG_INFO, "no devices: %s", why);
    return KD_OK;
  }
  cl_platform_id platforms[16];
  cl_uint count = 0;
  ocl_guard guard;
  ocl_guard_begin(&guard);
  cl_int code = cl.GetPlatformIDs(16, platforms, &count);
  for (cl_uint i = 0; code == CL_SUCCESS && i < count && i < 16; i++)
    opencl_add_devices(platforms[i]);
  ocl_guard_end(&guard);
  if (!found_count)
    host->log(host, KD_LOG_INFO,
              "no devices: the loader knows %u platforms, and none has"
              " a device with a compiler; install its driver (ICD)",
              (unsigned)(code == CL_SUCCESS ? count : 0));
  return KD_OK;
}

static kd_status opencl_plugin_open(const kd_host *services,
                                    kd_instance **out_instance) {
  return single_open(services, opencl_start, out_instance);
}

static void opencl_plugin_close(kd_instance *instance) {
  (void)instance;
  /* the loader stays: drivers keep threads that would run into the void */
  ocl_host = NULL;
  single_close();
}

static uint32_t opencl_device_count(kd_instance *instance) {
  (void)instance;
  return found_count;
}

/* ---- facts ------------------------------------------------------------------------------ */

static uint64_t opencl_number(cl_device_id id, cl_device_info what) {
  cl_ulong value = 0; /* little-endian: a narrower one fills its low bytes */
  cl.GetDeviceInfo(id, what, sizeof value, &value, NULL);
  return value;
}

static bool has_extension(cl_device_id id, const char *name) {
  char list[8192] = "";
  size_t size = strlen(name);
  if (cl.GetDeviceInfo(id, CL_DEVICE_EXTENSIONS, sizeof list - 1, list, NULL) !=
      CL_SUCCESS)
    return false;
  for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
    if ((at == list || at[-1] == ' ') && (at[size] == ' ' || !at[size]))
      return true;
  return false;
}

static uint32_t alignment_of(cl_device_id id) {
  uint64_t bits = opencl_number(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN);
  return bits >= 512 ? (uint32_t)(bits / 8) : 64;
}

static kd_status opencl_device_info(kd_instance *instance, uint32_t index,
                                    kd_device_info *out) {
  (void)instance;
  if (index >= found_count)
    return FAIL(KD_OUT_OF_RANGE, "there are %u OpenCL devices", found_count);
  const struct found *d = &devices[index];
  uint64_t type = opencl_number(d->id, CL_DEVICE_TYPE);
  out->name = d->name;
  out->driver = d->driver;
  out->kind = type & CL_DEVICE_TYPE_GPU           ? "gpu"
              : type & CL_DEVICE_TYPE_CPU         ? "cpu"
              : type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator"
                                                  : "opencl";
  if (opencl_number(d->id, CL_DEVICE_HOST_UNIFIED_MEMORY) & 1)
    out->flags |= KD_DEVICE_INTEGRATED;
  if (type & CL_DEVICE_TYPE_CPU) out->flags |= KD_DEVICE_SOFTWARE;
  out->compute_units =
      (uint32_t)opencl_number(d->id, CL_DEVICE_MAX_COMPUTE_UNITS);
  if (has_extension(d->id, "cl_khr_device_uuid"))
    cl.GetDeviceInfo(d->id, CL_DEVICE_UUID_KHR, sizeof out->uuid, out->uuid,
                     NULL);
  out->space_count = 2;
  return KD_OK;
}

static kd_status opencl_space(kd_instance *instance, uint32_t device,
                              uint32_t index, kd_space *out_space) {
  (void)instance;
  if (device >= found_count || index > 1)
    return FAIL(KD_OUT_OF_RANGE, "no memory space %u of device %u", index,
                device);
  cl_device_id id = devices[device].id;
  out_space->alignment = alignment_of(id);
  out_space->size = opencl_number(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  out_space->max_buffer = opencl_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  if (index)
    out_space->flags = KD_SPACE_HOST_VISIBLE | KD_SPACE_COHERENT |
                       KD_SPACE_CACHED | KD_SPACE_PINNED;
  else if (opencl_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY) & 1)
    out_space->flags =
        KD_SPACE_DEVICE | KD_SPACE_HOST_VISIBLE | KD_SPACE_CACHED;
  else
    out_space->flags = KD_SPACE_DEVICE;
  return KD_OK;
}

static kd_status opencl_property(kd_instance *instance, uint32_t device,
                                 uint32_t index, kd_property *out_property) {
  (void)instance;
  property_list list = {.count = 0};
  if (device >= found_count)
    return FAIL(KD_OUT_OF_RANGE, "there is no device %u", device);
  cl_device_id id = devices[device].id;
  property_text(&list, "api", devices[device].api);
  property_integer(&list, "clock", "Hz",
                   opencl_number(id, CL_DEVICE_MAX_CLOCK_FREQUENCY) * 1000000);
  property_integer(&list, "cache", "bytes",
                   opencl_number(id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE));
  property_integer(&list, "local_memory", "bytes",
                   opencl_number(id, CL_DEVICE_LOCAL_MEM_SIZE));
  property_integer(&list, "group_size", NULL,
                   opencl_number(id, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  return property_give(ocl_host, &list, index, out_property);
}

/* ---- opening ----------------------------------------------------------------------------- */

static void read_facts(kd_device *d) {
  d->global_size = opencl_number(d->id, CL_DEVICE_GLOBAL_MEM_SIZE);
  d->unified = opencl_number(d->id, CL_DEVICE_HOST_UNIFIED_MEMORY) & 1;
  d->alignment = alignment_of(d->id);
  d->max_buffer = opencl_number(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  d->families.dialect.int64 = true; /* OpenCL's full profile has them */
  d->families.dialect.float64 = d->families.dialect.math64 =
      opencl_number(d->id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0 &&
      !option_is(ocl_host, "f64", "off");
  bool exact = (opencl_number(d->id, CL_DEVICE_SINGLE_FP_CONFIG) &
                CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  snprintf(d->build_options, sizeof d->build_options, "-cl-std=CL1.2 -w%s",
           exact ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
}

/* Whether recordings become command buffers; they may be launched while they run.
 * Drivers for processors replay no faster by them. */
static void find_commands(kd_device *d) {
  bool on = option_is(ocl_host, "commands", "on");
  bool off = option_is(ocl_host, "commands", "off");
  bool there =
      has_extension(d->id, CL_KHR_COMMAND_BUFFER_EXTENSION_NAME) &&
      (opencl_number(d->id, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR) &
       CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR) &&
      !(opencl_number(d->id,
                      CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR) &
        ~(cl_ulong)CL_QUEUE_PROFILING_ENABLE);
  if (on ||
      (!off && !(opencl_number(d->id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU)))
    there = there && cl_commands_find(d->platform, &d->commands);
  if (on && !there)
    ocl_host->log(ocl_host, KD_LOG_WARNING,
                  "option commands is on, and %s has no command buffers that"
                  " may be launched while they run: recordings are lists",
                  d->name);
}

/* On a processor a form's code would run in this process, with all that it may do: whoever
 * opens a file that has one must want that. */
bool ocl_gives_forms(const kd_device *d) {
  if (option_is(ocl_host, "forms", "on")) return true;
  return !option_is(ocl_host, "forms", "off") &&
         !(opencl_number(d->id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU);
}

/* Floats in a vector of the language that fit the processor's registers: 4, 8 or 16. */
static uint32_t width_of(cl_device_id id) {
  uint64_t native = opencl_number(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
  if (!fam_tiles_are_free(ocl_host)) return 0;
  return native >= 16 ? 16 : native >= 8 ? 8 : 4;
}

/* What is found best is so on this device, by this driver. */
static kd_status open_tuner(kd_device *d) {
  fam_key key = fam_key_begin();
  fam_key_add(&key, d->name, strlen(d->name) + 1);
  fam_key_add(&key, d->driver, strlen(d->driver) + 1);
  return fam_tuner_open(ocl_host, &key, &d->families.tuner);
}

static kd_status opencl_device_open(kd_instance *instance, uint32_t index,
                                    kd_device **out_device) {
  (void)instance;
  cl_int code = CL_SUCCESS;
  kd_device *d = ocl_host->allocate(ocl_host, sizeof *d, 0);
  if (!d) return FAIL(KD_OUT_OF_MEMORY, "no memory for a device");
  memset(d, 0, sizeof *d);
  d->platform = devices[index].platform;
  d->id = devices[index].id;
  memcpy(d->name, devices[index].name, sizeof d->name);
  snprintf(d->driver, sizeof d->driver, "%.127s", devices[index].driver);
  read_facts(d);
  find_commands(d);
  d->idles = strstr(d->driver, "Oclgrind") != NULL;
  /* tiles pay where local memory is no part of the global one */
  d->families.shared = fam_tiles(
      ocl_host, opencl_number(d->id, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL);
  if (opencl_number(d->id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU)
    d->families.wide = width_of(d->id);
  const cl_context_properties wanted[] = {
      CL_CONTEXT_PLATFORM, (cl_context_properties)d->platform, 0};
  d->context = cl.CreateContext(wanted, 1, &d->id, NULL, NULL, &code);
  if (d->context)
    d->queue = cl.CreateCommandQueue(d->context, d->id,
                                     CL_QUEUE_PROFILING_ENABLE, &code);
  kd_status status = d->queue ? KD_OK : ocl_failed(code, "opening the device");
  if (status == KD_OK) status = fam_script_open(ocl_host, &d->families.script);
  if (status == KD_OK) status = open_tuner(d);
  if (status != KD_OK) {
    fam_script_close(d->families.script);
    if (d->queue) cl.ReleaseCommandQueue(d->queue);
    if (d->context) cl.ReleaseContext(d->context);
    ocl_host->release(ocl_host, d);
    return status;
  }
  fam_programs_begin(&d->programs, ocl_host, d, &ocl_compiler);
  ocl_kernels_begin(d);
  pthread_mutex_init(&d->pending_lock, NULL);
  pthread_cond_init(&d->pending_none, NULL);
  *out_device = d;
  return KD_OK;
}

void ocl_owe(kd_device *d, bool note) {
  pthread_mutex_lock(&d->pending_lock);
  d->pending++;
  d->notes += note;
  pthread_mutex_unlock(&d->pending_lock);
}

void ocl_paid(kd_device *d, bool note) {
  pthread_mutex_lock(&d->pending_lock);
  d->pending--;
  d->notes -= note;
  if (!d->pending || !d->notes) pthread_cond_broadcast(&d->pending_none);
  pthread_mutex_unlock(&d->pending_lock);
}

static void opencl_device_close(kd_device *d) {
  cl.Finish(d->queue);
  pthread_mutex_lock(&d->pending_lock);
  while (d->pending)
    pthread_cond_wait(&d->pending_none, &d->pending_lock);
  pthread_mutex_unlock(&d->pending_lock);
  fam_script_close(d->families.script);
  fam_tuner_close(d->families.tuner);
  fam_programs_end(&d->programs);
  cl.ReleaseCommandQueue(d->queue);
  cl.ReleaseContext(d->context);
  pthread_mutex_destroy(&d->pending_lock);
  pthread_cond_destroy(&d->pending_none);
  ocl_host->release(ocl_host, d);
}

/* The driver says of itself whether the device is there; a loss lasts. */
static kd_status opencl_device_status(kd_device *d) {
  cl_bool usable = CL_FALSE;
  cl_int code = cl.GetDeviceInfo(d->id, CL_DEVICE_AVAILABLE, sizeof usable,
                                 &usable, NULL);
  if (code != CL_SUCCESS || !usable) atomic_store(&d->lost, true);
  return atomic_load(&d->lost)
             ? FAIL(KD_DEVICE_LOST, "OpenCL: %s is not available any more",
                    d->name)
             : KD_OK;
}

static const void *opencl_extension(kd_instance *instance, const char *name) {
  (void)instance;
  if (!strcmp(name, TUNE_EXTENSION)) return &fam_tune;
  return strcmp(name, KD_NATIVE) ? NULL : &ocl_native;
}

static const kd_plugin plugin = {
    FAM_PLUGIN(opencl, ocl),
    .device_status = opencl_device_status,
    .external = &ocl_external,
};

KD_ENTRY(plugin)
