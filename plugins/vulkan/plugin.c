/* plugin.c - Vulkan devices with what the families' kernels need: found, described,
 * opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"
#include "common/properties.h"
#include "common/single.h"
#include "vlk.h"

const kd_host *vlk_host;

#define MOST_DEVICES 16

VkInstance vlk_vulkan;
static VkDebugUtilsMessengerEXT messenger;

static struct found {
  VkPhysicalDevice physical;
  VkPhysicalDeviceProperties properties;
  char driver[VK_MAX_DRIVER_NAME_SIZE + VK_MAX_DRIVER_INFO_SIZE + 2];
  char api[32];
  uint32_t subgroup;
  uint8_t uuid[VK_UUID_SIZE];
  uint64_t max_allocation;
  uint64_t pci;
  bool float64, int64, keeps_nan, shuffles;
  vlk_reach reach;
} devices[MOST_DEVICES];
static uint32_t found_count;
static bool validates;

/* ---- errors ------------------------------------------------------------------------ */

static const struct {
  VkResult code;
  const char *name;
  kd_status status;
} errors[] = {
#define ERROR(code, status) \
  { code, #code, status }
    ERROR(VK_ERROR_OUT_OF_HOST_MEMORY, KD_OUT_OF_MEMORY),
    ERROR(VK_ERROR_OUT_OF_DEVICE_MEMORY, KD_OUT_OF_MEMORY),
    ERROR(VK_ERROR_TOO_MANY_OBJECTS, KD_OUT_OF_MEMORY),
    ERROR(VK_ERROR_MEMORY_MAP_FAILED, KD_OUT_OF_MEMORY),
    ERROR(VK_ERROR_DEVICE_LOST, KD_DEVICE_LOST),
    ERROR(VK_ERROR_INITIALIZATION_FAILED, KD_UNAVAILABLE),
    ERROR(VK_ERROR_INVALID_EXTERNAL_HANDLE, KD_INVALID_ARGUMENT),
    ERROR(VK_ERROR_INCOMPATIBLE_DRIVER, KD_UNAVAILABLE),
    ERROR(VK_ERROR_INVALID_SHADER_NV, KD_INTERNAL),
#undef ERROR
};

kd_status vlk_failed(kd_device *d, VkResult code, const char *call) {
  if (d && code == VK_ERROR_DEVICE_LOST) atomic_store(&d->lost, true);
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == code)
      return FAIL(errors[i].status, "Vulkan: %s: %s", call, errors[i].name);
  return FAIL(KD_INTERNAL, "Vulkan: %s: error %d", call, code);
}

/* ---- validation ----------------------------------------------------------------------- */

/* The option "validation": the Khronos layer, synchronization included, says what the
 * plugin does wrong; each message is logged as an error and ends the process, so that
 * no test overlooks it. */
static VKAPI_ATTR VkBool32 VKAPI_CALL
on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
           VkDebugUtilsMessageTypeFlagsEXT types,
           const VkDebugUtilsMessengerCallbackDataEXT *data, void *context) {
  (void)severity;
  (void)types;
  (void)context;
  fprintf(stderr, "vulkan validation: %s\n", data->pMessage);
  fflush(stderr);
  abort();
}

static const VkDebugUtilsMessengerCreateInfoEXT messages = {
    .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
    .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
    .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
    .pfnUserCallback = on_message};

static bool has_layer(const char *name) {
  VkLayerProperties layers[64];
  uint32_t count = 64;
  VkResult code = vk.EnumerateInstanceLayerProperties(&count, layers);
  for (uint32_t i = 0; code >= 0 && i < count; i++)
    if (!strcmp(layers[i].layerName, name)) return true;
  return false;
}

/* ---- finding devices -------------------------------------------------------------------- */

static const char *create_instance(void) {
  static const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
  static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
  static const VkValidationFeatureEnableEXT enabled[] = {
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  const VkValidationFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
      .pNext = &messages,
      .enabledValidationFeatureCount = 1,
      .pEnabledValidationFeatures = enabled};
  const VkApplicationInfo application = {
      .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
      .pApplicationName = "keel",
      .apiVersion = VK_API_VERSION_1_2};
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                               .pApplicationInfo = &application};
  if (validates && !has_layer(layers[0]))
    return "option validation is on, and VK_LAYER_KHRONOS_validation is not"
           " installed";
  if (validates) {
    info.pNext = &features;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = layers;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = extensions;
  }
  VkResult code = vk.CreateInstance(&info, NULL, &vlk_vulkan);
  if (code == VK_ERROR_INCOMPATIBLE_DRIVER)
    return "the Vulkan loader finds no driver; install one for the device";
  if (code != VK_SUCCESS) return "the Vulkan loader makes no instance";
  const char *why = vk_api_of(vlk_vulkan);
  if (!why && validates) {
    PFN_vkCreateDebugUtilsMessengerEXT create =
        (PFN_vkCreateDebugUtilsMessengerEXT)vk.GetInstanceProcAddr(
            vlk_vulkan, "vkCreateDebugUtilsMessengerEXT");
    if (create) create(vlk_vulkan, &messages, NULL, &messenger);
  }
  return why;
}

static void destroy_instance(void) {
  if (!vlk_vulkan) return;
  PFN_vkDestroyDebugUtilsMessengerEXT destroy =
      (PFN_vkDestroyDebugUtilsMessengerEXT)vk.GetInstanceProcAddr(
          vlk_vulkan, "vkDestroyDebugUtilsMessengerEXT");
  if (messenger && destroy) destroy(vlk_vulkan, messenger, NULL);
  vk.DestroyInstance(vlk_vulkan, NULL);
  vlk_vulkan = VK_NULL_HANDLE;
  messenger = VK_NULL_HANDLE;
}

/* What the plugin can't do without; NULL: all is there. */
static const char *lacks(VkPhysicalDevice physical, struct found *d) {
  VkPhysicalDeviceVulkan12Features v12 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceVulkan11Features v11 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
      .pNext = &v12};
  VkPhysicalDeviceFeatures2 features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11};
  vk.GetPhysicalDeviceFeatures2(physical, &features);
  d->float64 =
      features.features.shaderFloat64 && !option_is(vlk_host, "f64", "off");
  d->int64 = features.features.shaderInt64;
  return !v12.bufferDeviceAddress        ? "bufferDeviceAddress"
         : !v12.timelineSemaphore        ? "timelineSemaphore"
         : !v12.scalarBlockLayout        ? "scalarBlockLayout"
         : !v12.storageBuffer8BitAccess  ? "storageBuffer8BitAccess"
         : !v11.storageBuffer16BitAccess ? "storageBuffer16BitAccess"
                                         : NULL;
}

bool vlk_has_extension(VkPhysicalDevice physical, const char *name) {
  VkExtensionProperties list[512];
  uint32_t count = 512;
  VkResult code =
      vk.EnumerateDeviceExtensionProperties(physical, NULL, &count, list);
  for (uint32_t i = 0; code >= 0 && i < count; i++)
    if (!strcmp(list[i].extensionName, name)) return true;
  return false;
}

static void read_properties(struct found *d) {
  VkPhysicalDevicePCIBusInfoPropertiesEXT bus = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
  VkPhysicalDeviceVulkan12Properties v12 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
  VkPhysicalDeviceVulkan11Properties v11 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES,
      .pNext = &v12};
  VkPhysicalDeviceProperties2 all = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &v11};
  bool on_bus =
      vlk_has_extension(d->physical, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
  if (on_bus) v12.pNext = &bus;
  vk.GetPhysicalDeviceProperties2(d->physical, &all);
  d->properties = all.properties;
  d->subgroup = v11.subgroupSize;
  d->shuffles =
      (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
      (v11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
  snprintf(d->api, sizeof d->api, "Vulkan %u.%u.%u",
           VK_API_VERSION_MAJOR(all.properties.apiVersion),
           VK_API_VERSION_MINOR(all.properties.apiVersion),
           VK_API_VERSION_PATCH(all.properties.apiVersion));
  d->max_allocation = v11.maxMemoryAllocationSize;
  d->keeps_nan = v12.shaderSignedZeroInfNanPreserveFloat32;
  memcpy(d->uuid, v11.deviceUUID, sizeof d->uuid);
  snprintf(d->driver, sizeof d->driver, "%s %s", v12.driverName,
           v12.driverInfo);
  if (on_bus)
    d->pci = (uint64_t)bus.pciDomain << 16 | bus.pciBus << 8 |
             bus.pciDevice << 3 | bus.pciFunction;
}

static uint32_t vulkan_add_devices(void) {
  VkPhysicalDevice all[MOST_DEVICES];
  uint32_t count = MOST_DEVICES;
  if (vk.EnumeratePhysicalDevices(vlk_vulkan, &count, all) < 0) return 0;
  for (uint32_t i = 0; i < count; i++) {
    struct found *d = &devices[found_count];
    VkPhysicalDeviceProperties2 brief = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    memset(d, 0, sizeof *d);
    d->physical = all[i];
    vk.GetPhysicalDeviceProperties2(all[i], &brief);
    const char *why = brief.properties.apiVersion < VK_API_VERSION_1_2
                          ? "Vulkan 1.2"
                          : lacks(all[i], d);
    if (why) {
      vlk_host->log(vlk_host, KD_LOG_INFO, "not %s: it has no %s",
                    brief.properties.deviceName, why);
      continue;
    }
    read_properties(d);
    vlk_read_reach(d->physical, &d->reach);
    found_count++;
  }
  return count;
}

static const kd_option_def options[] = {
    FAM_TILES_OPTION,
    FAM_TUNED_OPTION,
    FAM_CUT_OPTION,
    FAM_F64_OPTION,
    OPTION("compiler", "auto|off", "auto",
           "Kernels are compiled as they are needed, where shaderc is"
           " installed; off: only those that were built with the plugin."),
    OPTION("validation", "on|off", "off",
           "The Khronos validation layer watches the plugin, and ends the"
           " process at its first message."),
    FAM_SCRIPT_OPTION,
};

static kd_status vulkan_start(const kd_host *host) {
  vlk_host = host;
  found_count = 0;
  kd_status status =
      options_check(host, options, sizeof options / sizeof *options);
  if (status != KD_OK) return status;
  validates = option_is(host, "validation", "on");
  vlk_compiler_open();
  const char *why = vk_api_open();
  uint32_t version = 0;
  if (!why && (vk.EnumerateInstanceVersion(&version) != VK_SUCCESS ||
               version < VK_API_VERSION_1_2))
    why = "the Vulkan loader is older than 1.2";
  if (!why) why = create_instance();
  if (why && validates) {
    destroy_instance();
    return vlk_host->fail_text(KD_UNAVAILABLE, why);
  }
  if (!why && !vulkan_add_devices())
    why = "the Vulkan loader finds no driver; install one for the device";
  if (why) {
    host->log(host, KD_LOG_INFO, "no devices: %s", why);
    destroy_instance();
  }
  return KD_OK;
}

static kd_status vulkan_plugin_open(const kd_host *services,
                                    kd_instance **out_instance) {
  return single_open(services, vulkan_start, out_instance);
}

static void vulkan_plugin_close(kd_instance *instance) {
  (void)instance;
  destroy_instance();
  vlk_host = NULL;
  single_close();
}

static uint32_t vulkan_device_count(kd_instance *instance) {
  (void)instance;
  return found_count;
}

/* ---- facts ------------------------------------------------------------------------------ */

/* The memory type of a space: the first of these wishes that one fulfils. */
static uint32_t choose_type(const VkPhysicalDeviceMemoryProperties *m,
                            uint32_t space) {
  enum {
    LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
              VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT
  };
  static const VkMemoryPropertyFlags wishes[VLK_SPACES][3] = {
      [VLK_LOCAL] = {LOCAL | VISIBLE | CACHED, LOCAL, 0},
      [VLK_VISIBLE] = {VISIBLE | CACHED, VISIBLE, VISIBLE},
      [VLK_PARAMS] = {LOCAL | VISIBLE, VISIBLE, VISIBLE}};
  for (int i = 0; i < 3; i++)
    for (uint32_t t = 0; t < m->memoryTypeCount; t++)
      if ((m->memoryTypes[t].propertyFlags & wishes[space][i]) ==
          wishes[space][i])
        return t;
  return 0;
}

/* Whether the host maps what is of this type; the device's own only where it reads it
 * fast. */
static bool is_mapped(const VkMemoryType *type, uint32_t space) {
  return (type->propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) &&
         (space != VLK_LOCAL ||
          type->propertyFlags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
}

static kd_status vulkan_device_info(kd_instance *instance, uint32_t index,
                                    kd_device_info *out) {
  (void)instance;
  if (index >= found_count)
    return FAIL(KD_OUT_OF_RANGE, "there are %u Vulkan devices", found_count);
  struct found *d = &devices[index];
  VkPhysicalDeviceType type = d->properties.deviceType;
  out->name = d->properties.deviceName;
  out->driver = d->driver;
  out->kind = type == VK_PHYSICAL_DEVICE_TYPE_CPU ? "cpu" : "gpu";
  if (type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
      type == VK_PHYSICAL_DEVICE_TYPE_CPU)
    out->flags |= KD_DEVICE_INTEGRATED;
  if (type == VK_PHYSICAL_DEVICE_TYPE_CPU) out->flags |= KD_DEVICE_SOFTWARE;
  memcpy(out->uuid, d->uuid, sizeof out->uuid);
  out->pci = d->pci;
  out->space_count = 2;
  return KD_OK;
}

static kd_status vulkan_space(kd_instance *instance, uint32_t device,
                              uint32_t index, kd_space *out_space) {
  (void)instance;
  if (device >= found_count || index > 1)
    return FAIL(KD_OUT_OF_RANGE, "no memory space %u of device %u", index,
                device);
  VkPhysicalDeviceMemoryProperties memory;
  vk.GetPhysicalDeviceMemoryProperties(devices[device].physical, &memory);
  const VkMemoryType *type = &memory.memoryTypes[choose_type(&memory, index)];
  const uint32_t visible =
      KD_SPACE_HOST_VISIBLE | KD_SPACE_COHERENT | KD_SPACE_CACHED;
  out_space->alignment = 256;
  out_space->size = memory.memoryHeaps[type->heapIndex].size;
  out_space->max_buffer = devices[device].max_allocation;
  out_space->flags = index                    ? visible | KD_SPACE_PINNED
                     : is_mapped(type, index) ? visible | KD_SPACE_DEVICE
                                              : KD_SPACE_DEVICE;
  return KD_OK;
}

static kd_status vulkan_property(kd_instance *instance, uint32_t device,
                                 uint32_t index, kd_property *out_property) {
  (void)instance;
  property_list list = {.count = 0};
  if (device >= found_count)
    return FAIL(KD_OUT_OF_RANGE, "there is no device %u", device);
  const struct found *d = &devices[device];
  const VkPhysicalDeviceLimits *limits = &d->properties.limits;
  property_text(&list, "api", d->api);
  property_integer(&list, "local_memory", "bytes",
                   limits->maxComputeSharedMemorySize);
  property_integer(&list, "group_size", NULL,
                   limits->maxComputeWorkGroupInvocations);
  property_integer(&list, "vulkan.subgroup_size", NULL, d->subgroup);
  return property_give(vlk_host, &list, index, out_property);
}

/* ---- opening ----------------------------------------------------------------------------- */

/* A family that computes and draws nothing runs beside a screen's work; else the first
 * that computes. *out_count: its queues. */
static uint32_t choose_family(kd_device *d, uint32_t *out_count) {
  VkQueueFamilyProperties families[32];
  uint32_t count = 32, best = UINT32_MAX;
  vk.GetPhysicalDeviceQueueFamilyProperties(d->physical, &count, families);
  for (uint32_t i = 0; i < count; i++) {
    VkQueueFlags flags = families[i].queueFlags;
    if (!(flags & VK_QUEUE_COMPUTE_BIT)) continue;
    bool alone = !(flags & VK_QUEUE_GRAPHICS_BIT);
    if (best == UINT32_MAX ||
        (alone && families[best].queueFlags & VK_QUEUE_GRAPHICS_BIT))
      best = i;
  }
  if (best == UINT32_MAX) return best;
  if (!families[best].timestampValidBits) d->tick = 0;
  *out_count = families[best].queueCount < VLK_LANES ? families[best].queueCount
                                                     : VLK_LANES;
  return best;
}

static kd_status create_device(kd_device *d, const struct found *f) {
  static const float priorities[VLK_LANES] = {1, 1, 1, 1};
  uint32_t queues = 0;
  d->family = choose_family(d, &queues);
  if (d->family == UINT32_MAX)
    return FAIL(KD_UNAVAILABLE, "%s has no queue that computes", d->name);
  VkPhysicalDeviceVulkan12Features v12 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
      .bufferDeviceAddress = VK_TRUE,
      .timelineSemaphore = VK_TRUE,
      .scalarBlockLayout = VK_TRUE,
      .storageBuffer8BitAccess = VK_TRUE};
  VkPhysicalDeviceVulkan11Features v11 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
      .pNext = &v12,
      .storageBuffer16BitAccess = VK_TRUE};
  VkPhysicalDeviceFeatures2 features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
      .pNext = &v11,
      .features = {.shaderFloat64 = f->float64, .shaderInt64 = f->int64}};
  const VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
      .queueFamilyIndex = d->family,
      .queueCount = queues,
      .pQueuePriorities = priorities};
  const char *names[4];
  const VkDeviceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
      .pNext = &features,
      .enabledExtensionCount = vlk_reach_names(&f->reach, names),
      .ppEnabledExtensionNames = names,
      .queueCreateInfoCount = 1,
      .pQueueCreateInfos = &queue};
  VLK_TRY(d, "vkCreateDevice",
          vk.CreateDevice(d->physical, &info, NULL, &d->device));
  for (uint32_t i = 0; i < queues; i++) {
    VkQueue handle = VK_NULL_HANDLE;
    vk.GetDeviceQueue(d->device, d->family, i, &handle);
    kd_status status = vlk_lane_begin(d, &d->lanes[i], i, handle);
    if (status != KD_OK) return status;
    d->lane_count++;
  }
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                     sizeof(struct vlk_push)};
  const VkPipelineLayoutCreateInfo layout = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
      .pushConstantRangeCount = 1,
      .pPushConstantRanges = &range};
  VLK_TRY(d, "vkCreatePipelineLayout",
          vk.CreatePipelineLayout(d->device, &layout, NULL, &d->layout));
  return vlk_cache_begin(d);
}

static bool is_software(const struct found *f) {
  return f->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

/* Of a processor, whose groups of a subgroup's size are one subgroup. Kernels of their many
 * shapes are not built with the plugin. */
static uint32_t lanes_of(const struct found *f) {
  bool good = f->subgroup == 4 || f->subgroup == 8 || f->subgroup == 16;
  return good && f->shuffles && is_software(f) && vlk_has_compiler() &&
                 fam_tiles_are_free(vlk_host)
             ? f->subgroup
             : 0;
}

static void read_facts(kd_device *d, const struct found *f) {
  VkPhysicalDeviceMemoryProperties memory;
  vk.GetPhysicalDeviceMemoryProperties(d->physical, &memory);
  for (uint32_t i = 0; i < VLK_SPACES; i++) {
    d->types[i] = choose_type(&memory, i);
    const VkMemoryType *type = &memory.memoryTypes[d->types[i]];
    d->mapped[i] = is_mapped(type, i);
    d->sizes[i] = memory.memoryHeaps[type->heapIndex].size;
  }
  d->max_buffer = f->max_allocation;
  d->reach = f->reach;
  d->most_alone = f->properties.limits.maxMemoryAllocationCount / 2;
  d->tick = (double)f->properties.limits.timestampPeriod;
  d->families.dialect = (fam_dialect){.float64 = f->float64,
                                      .int64 = f->int64,
                                      .eager = is_software(f),
                                      .keeps_nan = f->keeps_nan};
  d->families.lanes = lanes_of(f);
  snprintf(d->name, sizeof d->name, "%s", f->properties.deviceName);
  d->cache_key = fam_key_begin();
  fam_key_add(&d->cache_key, "pipelines", 9);
  fam_key_add(&d->cache_key, f->properties.pipelineCacheUUID, VK_UUID_SIZE);
  fam_key_add(&d->cache_key, f->uuid, VK_UUID_SIZE);
}

/* What is found best is so on this device, by this driver. */
static kd_status open_tuner(kd_device *d, const struct found *f) {
  fam_key key = fam_key_begin();
  fam_key_add(&key, d->name, strlen(d->name) + 1);
  fam_key_add(&key, f->driver, strlen(f->driver) + 1);
  fam_key_add(&key, f->properties.pipelineCacheUUID, VK_UUID_SIZE);
  return fam_tuner_open(vlk_host, &key, &d->families.tuner);
}

static void vulkan_device_close(kd_device *d) {
  if (d->own) vlk_stream_close(d->own);
  if (d->device) vk.DeviceWaitIdle(d->device);
  for (uint32_t i = 0; i < d->lane_count; i++)
    vlk_lane_reap(&d->lanes[i]);
  vlk_forget_writes(d);
  fam_script_close(d->families.script);
  fam_tuner_close(d->families.tuner);
  fam_programs_end(&d->programs);
  for (uint32_t i = 0; i < d->lane_count; i++)
    vlk_lane_end(&d->lanes[i]);
  if (d->device) {
    vlk_memory_end(d);
    if (d->cache) vlk_cache_end(d);
    if (d->layout) vk.DestroyPipelineLayout(d->device, d->layout, NULL);
    vk.DestroyDevice(d->device, NULL);
  }
  pthread_mutex_destroy(&d->own_lock);
  pthread_mutex_destroy(&d->memory_lock);
  pthread_mutex_destroy(&d->writes_lock);
  vlk_host->release(vlk_host, d);
}

static kd_status vulkan_device_open(kd_instance *instance, uint32_t index,
                                    kd_device **out_device) {
  (void)instance;
  const struct found *f = &devices[index];
  kd_device *d = vlk_host->allocate(vlk_host, sizeof *d, 0);
  if (!d) return FAIL(KD_OUT_OF_MEMORY, "no memory for a device");
  memset(d, 0, sizeof *d);
  d->physical = f->physical;
  pthread_mutex_init(&d->own_lock, NULL);
  pthread_mutex_init(&d->memory_lock, NULL);
  pthread_mutex_init(&d->writes_lock, NULL);
  fam_programs_begin(&d->programs, vlk_host, d, &vlk_compiler);
  vlk_kernels_begin(d);
  read_facts(d, f);
  d->families.shared = fam_tiles(vlk_host, !is_software(f));
  kd_status status = create_device(d, f);
  if (status == KD_OK) status = vlk_stream_open(d, &d->own);
  if (status == KD_OK) status = fam_script_open(vlk_host, &d->families.script);
  if (status == KD_OK) status = open_tuner(d, f);
  if (status != KD_OK) {
    vulkan_device_close(d);
    return status;
  }
  *out_device = d;
  return KD_OK;
}

static kd_status vulkan_device_status(kd_device *d) {
  return atomic_load(&d->lost)
             ? FAIL(KD_DEVICE_LOST, "Vulkan: %s was lost", d->name)
             : KD_OK;
}

static const void *vulkan_extension(kd_instance *instance, const char *name) {
  (void)instance;
  if (!strcmp(name, TUNE_EXTENSION)) return &fam_tune;
  return strcmp(name, KD_NATIVE) ? NULL : &vlk_native;
}

static const kd_plugin plugin = {
    FAM_PLUGIN(vulkan, vlk),
    .device_status = vulkan_device_status,
    .external = &vlk_external,
};

KD_ENTRY(plugin)
