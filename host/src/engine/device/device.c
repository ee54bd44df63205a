/* device.c - asking for a context's devices, and scopes that choose one. */
#include "device/device.h"

#include "device/context.h"
#include "device/lost.h"

/* ---- finding them ------------------------------------------------------------ */

uint32_t keel_device_count(const keel_context *context) {
  return context->device_count;
}

keel_device *keel_device_at(const keel_context *context, uint32_t index) {
  return index < context->device_count ? keel_devices(context)[index] : NULL;
}

keel_device *keel_device_default(const keel_context *context) {
  return context->default_device;
}

/* Whether a refused plugin may be the one that a device name means: by its name or its
 * file's name, or because the application named it. */
static bool may_be(const keel_plugin *plugin, const char *name, size_t size) {
  const char *slash = strrchr(plugin->path, '/');
  const char *file = slash ? slash + 1 : plugin->path;
  if (!strncmp(file, "lib", 3) && strncmp(name, "lib", 3) != 0) file += 3;
  return (plugin->name && strlen(plugin->name) == size &&
          !strncmp(plugin->name, name, size)) ||
         (strcspn(file, ".") == size && !strncmp(file, name, size)) ||
         !strcmp(plugin->source, "application");
}

/* "; plugin opencl: ...": why the plugins that might have had the device do not. */
static void add_refusal(const keel_context *context, const char *name,
                        keel_text *out) {
  size_t size = strcspn(name, ":");
  for (uint32_t i = 0; i < context->plugin_count; i++) {
    const keel_plugin *plugin = context->plugins[i];
    if (!plugin->reason || !*plugin->reason || !may_be(plugin, name, size))
      continue;
    /* a loaded plugin may have no device, or a hidden one; `reason` contains the path */
    keel_text_add(out, "; %s%s%s: %s", plugin->name ? "plugin " : "a plugin",
                  plugin->name ? plugin->name : "",
                  plugin->status == KD_OK ? "" : " was refused",
                  plugin->reason);
  }
}

keel_status keel_device_find(keel_context *context, const char *name,
                             keel_device **out_device) {
  *out_device = NULL;
  if (!name || !*name) {
    *out_device = context->default_device;
    if (*out_device) return KD_OK;
    return keel_fail(KD_NOT_FOUND,
                     "there is no device; `keel plugins` shows why");
  }
  keel_text there = {0};
  size_t size = strlen(name);
  for (uint32_t i = 0; i < context->device_count; i++) {
    keel_device *device = keel_devices(context)[i];
    if (!strcmp(device->name, name) ||
        (!strncmp(device->name, name, size) && device->name[size] == ':' &&
         !*out_device))
      *out_device = device;
    keel_text_add(&there, "%s%s", i ? ", " : "", device->name);
  }
  keel_status status = KD_OK;
  if (!*out_device && !there.size) keel_text_add(&there, "none");
  if (!*out_device) add_refusal(context, name, &there);
  if (!*out_device && context->visible)
    keel_text_add(&there, "; only \"%s\" is shown (KEEL_VISIBLE_DEVICES)",
                  context->visible);
  if (!*out_device)
    status = keel_fail(KD_NOT_FOUND, "there is no device \"%s\"; there are %s",
                       name, keel_text_get(&there));
  keel_text_free(&there);
  return status;
}

/* ---- facts of devices --------------------------------------------------------- */

keel_status keel_device_status(keel_device *device) {
  return atomic_load(&device->lost) ? keel_device_fail_lost(device) : KD_OK;
}

static uint32_t level_of(const keel_plugin *plugin) {
  if (!plugin->streams.create) return 0;
  if (!plugin->capture.begin) return 1;
  return plugin->regions.compile ? 3 : 2;
}

int keel_device_compiles(const keel_device *device) {
  return device->plugin->regions.claim != NULL;
}

void keel_device_describe(const keel_device *device,
                          keel_device_facts *out_facts) {
  *out_facts = (keel_device_facts){
      .name = device->name,
      .product = device->info.name,
      .kind = device->info.kind,
      .driver = device->info.driver,
      .plugin = device->plugin->path,
      .level = level_of(device->plugin),
      .flags = device->info.flags,
      .compute_units = device->info.compute_units,
      .kernel_count = device->plugin->kernel_count,
      .memory = device->space.size,
  };
  memcpy(out_facts->uuid, device->info.uuid, sizeof out_facts->uuid);
  if (device->same) out_facts->same_as = device->same->name;
}

keel_status keel_device_handle(keel_device *device, kd_device **out_handle) {
  KEEL_TRY(keel_device_ready(device));
  *out_handle = device->handle;
  return KD_OK;
}

keel_status keel_device_memory(keel_device *device,
                               keel_memory_facts *out_facts) {
  kd_memory_stats stats = {.struct_size = sizeof stats};
  KEEL_TRY(keel_device_ready(device));
  KEEL_TRY(keel_device_enter(device));
  const kd_memory_table *memory = &device->plugin->memory;
  keel_clear_error();
  kd_status status = keel_device_check(
      device, memory->stats ? memory->stats(device->handle, 0, &stats) : KD_OK);
  keel_lost_leave(device);
  if (status != KD_OK) {
    if (!keel_has_error())
      keel_fail(status, "no reason given (%s)", keel_status_name(status));
    return keel_while(status, "while asking %s for its memory usage",
                      device->name);
  }
  *out_facts = (keel_memory_facts){
      .total = memory->stats ? stats.total : device->space.size,
      .available = stats.available,
      .used = memory->stats ? stats.used : atomic_load(&device->heap.bytes),
      .buffers =
          memory->stats ? stats.buffers : atomic_load(&device->heap.pieces),
  };
  return KD_OK;
}

keel_status keel_device_kernel(const keel_device *device, uint32_t index,
                               keel_kernel_facts *out_facts) {
  if (index >= device->plugin->kernel_count)
    return keel_fail(KD_OUT_OF_RANGE, "%s has %u kernels", device->name,
                     device->plugin->kernel_count);
  const kd_kernel_def *def = &device->plugin->kernels[index];
  *out_facts = (keel_kernel_facts){
      .domain = def->domain,
      .op = def->op,
      .opset_min = def->opset_min,
      .opset_max = def->opset_max,
  };
  memcpy(out_facts->input_types, def->input_types,
         sizeof out_facts->input_types);
  return KD_OK;
}

/* ---- scopes -------------------------------------------------------------------- */

#define SCOPES 32

static _Thread_local struct {
  keel_device *devices[SCOPES];
  uint32_t count;
} scope;

keel_status keel_device_push(keel_device *device) {
  if (scope.count == SCOPES)
    return keel_fail(KD_OUT_OF_RANGE, "more than %d device scopes", SCOPES);
  scope.devices[scope.count++] = device;
  return KD_OK;
}

void keel_device_pop(void) {
  if (scope.count) scope.count--;
}

keel_device *keel_device_scope(const keel_context *context) {
  if (!scope.count) return NULL;
  keel_device *device = scope.devices[scope.count - 1];
  return device && device->context == context ? device : NULL;
}
