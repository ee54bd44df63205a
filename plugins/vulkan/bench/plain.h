/* plain.h - Vulkan without Keel, for the benchmarks: a device, buffers with addresses,
 * pipelines, submissions. */
#ifndef KEEL_VULKAN_PLAIN_H
#define KEEL_VULKAN_PLAIN_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "api.h"

static void plain_fail(const char *what) {
  fprintf(stderr, "Vulkan: %s\n", what);
  exit(1);
}

#define NEED(call) \
  if ((call) != VK_SUCCESS) plain_fail(#call)

typedef struct plain_buffer {
  VkBuffer buffer;
  VkDeviceMemory memory;
  uint64_t address;
  void *mapped;
} plain_buffer;

static struct {
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  VkPipelineLayout layout;
  VkCommandPool pool;
  VkSemaphore timeline;
  uint64_t value;
} plain;

/* Memory that is the device's and the host's at once, as the software devices have
 * it; the host's where there is none. */
static uint32_t memory_type(bool local) {
  VkPhysicalDeviceMemoryProperties p;
  vk.GetPhysicalDeviceMemoryProperties(plain.physical, &p);
  VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                 VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  if (local) wanted = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  for (uint32_t i = 0; i < p.memoryTypeCount; i++)
    if ((p.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  plain_fail("no such memory");
  return 0;
}

static plain_buffer make_buffer(uint64_t size, bool local) {
  plain_buffer r = {0};
  const VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .size = size,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT |
               VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
  NEED(vk.CreateBuffer(plain.device, &info, NULL, &r.buffer));
  VkMemoryRequirements needs;
  vk.GetBufferMemoryRequirements(plain.device, r.buffer, &needs);
  const VkMemoryAllocateFlagsInfo flags = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
      .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
  const VkMemoryAllocateInfo memory = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
      .pNext = &flags,
      .allocationSize = needs.size,
      .memoryTypeIndex = memory_type(local)};
  NEED(vk.AllocateMemory(plain.device, &memory, NULL, &r.memory));
  NEED(vk.BindBufferMemory(plain.device, r.buffer, r.memory, 0));
  if (!local)
    NEED(vk.MapMemory(plain.device, r.memory, 0, VK_WHOLE_SIZE, 0, &r.mapped));
  const VkBufferDeviceAddressInfo where = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
      .buffer = r.buffer};
  r.address = vk.GetBufferDeviceAddress(plain.device, &where);
  return r;
}

static VkPipeline make_pipeline(const uint32_t *code, size_t size) {
  VkShaderModule module;
  VkPipeline pipeline;
  const VkShaderModuleCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
      .codeSize = size,
      .pCode = code};
  NEED(vk.CreateShaderModule(plain.device, &info, NULL, &module));
  const VkComputePipelineCreateInfo wanted = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main"},
      .layout = plain.layout};
  NEED(vk.CreateComputePipelines(plain.device, VK_NULL_HANDLE, 1, &wanted, NULL,
                                 &pipeline));
  vk.DestroyShaderModule(plain.device, module, NULL);
  return pipeline;
}

static void plain_open(void) {
  VkInstance instance;
  uint32_t count = 1, family = 0, families = 16;
  VkQueueFamilyProperties all[16];
  const char *why = vk_api_open();
  const VkApplicationInfo application = {
      .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
      .apiVersion = VK_API_VERSION_1_2};
  const VkInstanceCreateInfo made = {
      .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
      .pApplicationInfo = &application};
  if (why) plain_fail(why);
  NEED(vk.CreateInstance(&made, NULL, &instance));
  if ((why = vk_api_of(instance))) plain_fail(why);
  if (vk.EnumeratePhysicalDevices(instance, &count, &plain.physical) < 0 ||
      !count)
    plain_fail("there is no Vulkan device");
  vk.GetPhysicalDeviceQueueFamilyProperties(plain.physical, &families, all);
  while (!(all[family].queueFlags & VK_QUEUE_COMPUTE_BIT))
    family++;
  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
      .queueFamilyIndex = family,
      .queueCount = 1,
      .pQueuePriorities = &priority};
  /* all that the device has */
  VkPhysicalDeviceVulkan12Features v12 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceVulkan11Features v11 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
      .pNext = &v12};
  VkPhysicalDeviceFeatures2 features = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11};
  vk.GetPhysicalDeviceFeatures2(plain.physical, &features);
  const VkDeviceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
      .pNext = &features,
      .queueCreateInfoCount = 1,
      .pQueueCreateInfos = &queue};
  NEED(vk.CreateDevice(plain.physical, &info, NULL, &plain.device));
  vk.GetDeviceQueue(plain.device, family, 0, &plain.queue);
  const VkCommandPoolCreateInfo pool = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
      .queueFamilyIndex = family};
  NEED(vk.CreateCommandPool(plain.device, &pool, NULL, &plain.pool));
  const VkSemaphoreTypeCreateInfo type = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  const VkSemaphoreCreateInfo semaphore = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  NEED(vk.CreateSemaphore(plain.device, &semaphore, NULL, &plain.timeline));
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 128};
  const VkPipelineLayoutCreateInfo layout = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
      .pushConstantRangeCount = 1,
      .pPushConstantRanges = &range};
  NEED(vk.CreatePipelineLayout(plain.device, &layout, NULL, &plain.layout));
}

static void begin(VkCommandBuffer commands) {
  const VkCommandBufferBeginInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  NEED(vk.BeginCommandBuffer(commands, &info));
}

static void barrier(VkCommandBuffer commands) {
  const VkMemoryBarrier all = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
      .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
  const VkPipelineStageFlags stages =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  vk.CmdPipelineBarrier(commands, stages, stages, 0, 1, &all, 0, NULL, 0, NULL);
}

static void submit(VkCommandBuffer commands) {
  NEED(vk.EndCommandBuffer(commands));
  plain.value++;
  const VkTimelineSemaphoreSubmitInfo timeline = {
      .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
      .signalSemaphoreValueCount = 1,
      .pSignalSemaphoreValues = &plain.value};
  const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                             .pNext = &timeline,
                             .commandBufferCount = 1,
                             .pCommandBuffers = &commands,
                             .signalSemaphoreCount = 1,
                             .pSignalSemaphores = &plain.timeline};
  NEED(vk.QueueSubmit(plain.queue, 1, &info, VK_NULL_HANDLE));
}

static void wait(void) {
  const VkSemaphoreWaitInfo info = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
      .semaphoreCount = 1,
      .pSemaphores = &plain.timeline,
      .pValues = &plain.value};
  NEED(vk.WaitSemaphores(plain.device, &info, UINT64_MAX));
  NEED(vk.ResetCommandPool(plain.device, plain.pool, 0));
}

#endif /* KEEL_VULKAN_PLAIN_H */
