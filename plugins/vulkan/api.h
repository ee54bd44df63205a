/* api.h - Vulkan's and shaderc's functions, found when the plugin opens: a machine
 * without them still loads the plugin, and is told why it has no device. */
#ifndef KEEL_VULKAN_API_H
#define KEEL_VULKAN_API_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

/* clang-format off */
#define VK_GLOBAL(X) \
  X(CreateInstance) X(EnumerateInstanceVersion) \
  X(EnumerateInstanceLayerProperties) X(EnumerateInstanceExtensionProperties)
#define VK_OF_INSTANCE(X) \
  X(DestroyInstance) X(EnumeratePhysicalDevices) \
  X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2) \
  X(GetPhysicalDeviceMemoryProperties) \
  X(GetPhysicalDeviceExternalBufferProperties) X(GetPhysicalDeviceQueueFamilyProperties) \
  X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(DestroyDevice) \
  X(GetDeviceQueue) X(DeviceWaitIdle) X(CreateBuffer) X(DestroyBuffer) \
  X(GetBufferMemoryRequirements) X(AllocateMemory) X(FreeMemory) \
  X(BindBufferMemory) X(MapMemory) X(GetBufferDeviceAddress) \
  X(CreateCommandPool) X(DestroyCommandPool) X(ResetCommandPool) \
  X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer) \
  X(EndCommandBuffer) X(CreateQueryPool) X(DestroyQueryPool) \
  X(GetQueryPoolResults) X(CmdResetQueryPool) X(CmdWriteTimestamp) \
  X(CmdBindPipeline) X(CmdPushConstants) X(CmdDispatch) X(CmdCopyBuffer) \
  X(CmdFillBuffer) X(CmdPipelineBarrier) X(CmdExecuteCommands) X(QueueSubmit) \
  X(CreateSemaphore) X(DestroySemaphore) X(WaitSemaphores) \
  X(GetSemaphoreCounterValue) X(CreateShaderModule) X(DestroyShaderModule) \
  X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreatePipelineCache) \
  X(DestroyPipelineCache) X(GetPipelineCacheData) X(CreateComputePipelines) \
  X(DestroyPipeline)
/* of extensions; NULL where there are none */
#define VK_OPTIONAL(X) \
  X(GetMemoryHostPointerPropertiesEXT) X(GetMemoryFdKHR) \
  X(GetMemoryFdPropertiesKHR)
/* clang-format on */

typedef struct vk_api {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define VK_FIELD(name) PFN_vk##name name;
  VK_GLOBAL(VK_FIELD)
  VK_OF_INSTANCE(VK_FIELD)
  VK_OPTIONAL(VK_FIELD)
#undef VK_FIELD
} vk_api;

extern vk_api vk;

/* Finds the loader and the functions that need no instance. NULL, or why not. */
const char *vk_api_open(void);

/* Finds the others. NULL, or why not. */
const char *vk_api_of(VkInstance instance);

#endif /* KEEL_VULKAN_API_H */
