/* raw.c - what Keel costs beside Vulkan itself, in turn in one process: launches of Relu
 * on 4 floats (1000, then a wait; the host's part of it, and all), copies of 32 MiB,
 * MatMul of 512.
 *
 * usage: vulkan_raw */
#include <stdbool.h>
#include <string.h>

#include "api.h"
#include "families/bench/beside.h"

static const uint32_t relu_code[] =
#include "relu.comp.inc"
    ;
static const uint32_t matmul_code[] =
#include "matmul.comp.inc"
    ;

#define BATCH 64 /* launches of a submission, as the plugin has them */

#define NEED(call) \
  if ((call) != VK_SUCCESS) fail(#call)

/* ---- Vulkan alone --------------------------------------------------------------- */

typedef struct raw_buffer {
  VkBuffer buffer;
  VkDeviceMemory memory;
  uint64_t address;
  void *mapped;
} raw_buffer;

static struct {
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  VkPipelineLayout layout;
  VkPipeline relu, matmul;
  VkCommandPool pool;
  VkCommandBuffer commands[(LAUNCHES + BATCH - 1) / BATCH];
  VkSemaphore timeline;
  uint64_t value;
  raw_buffer x, y, a, b, c, large, staging;
} raw;

/* Memory that is the device's and the host's at once, as the software devices have
 * it; the host's where there is none. */
static uint32_t memory_type(bool local) {
  VkPhysicalDeviceMemoryProperties p;
  vk.GetPhysicalDeviceMemoryProperties(raw.physical, &p);
  VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                 VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  if (local) wanted = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  for (uint32_t i = 0; i < p.memoryTypeCount; i++)
    if ((p.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  fail("no such memory");
  return 0;
}

static raw_buffer make_buffer(uint64_t size, bool local) {
  raw_buffer r = {0};
  const VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .size = size,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT |
               VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
  NEED(vk.CreateBuffer(raw.device, &info, NULL, &r.buffer));
  VkMemoryRequirements needs;
  vk.GetBufferMemoryRequirements(raw.device, r.buffer, &needs);
  const VkMemoryAllocateFlagsInfo flags = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
      .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
  const VkMemoryAllocateInfo memory = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
      .pNext = &flags,
      .allocationSize = needs.size,
      .memoryTypeIndex = memory_type(local)};
  NEED(vk.AllocateMemory(raw.device, &memory, NULL, &r.memory));
  NEED(vk.BindBufferMemory(raw.device, r.buffer, r.memory, 0));
  if (!local)
    NEED(vk.MapMemory(raw.device, r.memory, 0, VK_WHOLE_SIZE, 0, &r.mapped));
  const VkBufferDeviceAddressInfo where = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
      .buffer = r.buffer};
  r.address = vk.GetBufferDeviceAddress(raw.device, &where);
  return r;
}

static VkPipeline make_pipeline(const uint32_t *code, size_t size) {
  VkShaderModule module;
  VkPipeline pipeline;
  const VkShaderModuleCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
      .codeSize = size,
      .pCode = code};
  NEED(vk.CreateShaderModule(raw.device, &info, NULL, &module));
  const VkComputePipelineCreateInfo wanted = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main"},
      .layout = raw.layout};
  NEED(vk.CreateComputePipelines(raw.device, VK_NULL_HANDLE, 1, &wanted, NULL,
                                 &pipeline));
  vk.DestroyShaderModule(raw.device, module, NULL);
  return pipeline;
}

static void open_device(void) {
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
  if (why) fail(why);
  NEED(vk.CreateInstance(&made, NULL, &instance));
  if ((why = vk_api_of(instance))) fail(why);
  if (vk.EnumeratePhysicalDevices(instance, &count, &raw.physical) < 0 ||
      !count)
    fail("there is no Vulkan device");
  vk.GetPhysicalDeviceQueueFamilyProperties(raw.physical, &families, all);
  while (!(all[family].queueFlags & VK_QUEUE_COMPUTE_BIT))
    family++;
  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
      .queueFamilyIndex = family,
      .queueCount = 1,
      .pQueuePriorities = &priority};
  VkPhysicalDeviceVulkan12Features v12 = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
      .bufferDeviceAddress = VK_TRUE,
      .timelineSemaphore = VK_TRUE};
  const VkDeviceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
      .pNext = &v12,
      .queueCreateInfoCount = 1,
      .pQueueCreateInfos = &queue};
  NEED(vk.CreateDevice(raw.physical, &info, NULL, &raw.device));
  vk.GetDeviceQueue(raw.device, family, 0, &raw.queue);
  const VkCommandPoolCreateInfo pool = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
      .queueFamilyIndex = family};
  NEED(vk.CreateCommandPool(raw.device, &pool, NULL, &raw.pool));
}

static void raw_open(void) {
  open_device();
  const VkCommandBufferAllocateInfo buffers = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = raw.pool,
      .commandBufferCount = sizeof raw.commands / sizeof *raw.commands};
  NEED(vk.AllocateCommandBuffers(raw.device, &buffers, raw.commands));
  const VkSemaphoreTypeCreateInfo type = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  const VkSemaphoreCreateInfo semaphore = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  NEED(vk.CreateSemaphore(raw.device, &semaphore, NULL, &raw.timeline));
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 64};
  const VkPipelineLayoutCreateInfo layout = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
      .pushConstantRangeCount = 1,
      .pPushConstantRanges = &range};
  NEED(vk.CreatePipelineLayout(raw.device, &layout, NULL, &raw.layout));
  raw.relu = make_pipeline(relu_code, sizeof relu_code);
  raw.matmul = make_pipeline(matmul_code, sizeof matmul_code);
  raw.x = make_buffer(64, true);
  raw.y = make_buffer(64, true);
  raw.a = make_buffer(SIDE * SIDE * 4, true);
  raw.b = make_buffer(SIDE * SIDE * 4, true);
  raw.c = make_buffer(SIDE * SIDE * 4, true);
  raw.large = make_buffer(COPY, true);
  raw.staging = make_buffer(COPY, false);
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
  raw.value++;
  const VkTimelineSemaphoreSubmitInfo timeline = {
      .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
      .signalSemaphoreValueCount = 1,
      .pSignalSemaphoreValues = &raw.value};
  const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                             .pNext = &timeline,
                             .commandBufferCount = 1,
                             .pCommandBuffers = &commands,
                             .signalSemaphoreCount = 1,
                             .pSignalSemaphores = &raw.timeline};
  NEED(vk.QueueSubmit(raw.queue, 1, &info, VK_NULL_HANDLE));
}

static void wait(void) {
  const VkSemaphoreWaitInfo info = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
      .semaphoreCount = 1,
      .pSemaphores = &raw.timeline,
      .pValues = &raw.value};
  NEED(vk.WaitSemaphores(raw.device, &info, UINT64_MAX));
  NEED(vk.ResetCommandPool(raw.device, raw.pool, 0));
}

static void raw_launches(void) {
  const struct {
    uint64_t x, y;
    int32_t count;
  } push = {raw.x.address, raw.y.address, 4};
  VkCommandBuffer commands = VK_NULL_HANDLE;
  for (int i = 0; i < LAUNCHES; i++) {
    if (i % BATCH == 0) begin(commands = raw.commands[i / BATCH]);
    barrier(commands);
    if (i % BATCH == 0)
      vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, raw.relu);
    vk.CmdPushConstants(commands, raw.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        20, &push);
    vk.CmdDispatch(commands, 1, 1, 1);
    if (i % BATCH == BATCH - 1 || i == LAUNCHES - 1) submit(commands);
  }
  enqueued = now();
  wait();
}

static void raw_matmul(void) {
  const struct {
    uint64_t a, b, c;
    int32_t m, n, k;
  } push = {raw.a.address, raw.b.address, raw.c.address, SIDE, SIDE, SIDE};
  VkCommandBuffer commands = raw.commands[0];
  begin(commands);
  vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, raw.matmul);
  vk.CmdPushConstants(commands, raw.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 36,
                      &push);
  vk.CmdDispatch(commands, SIDE / 64, SIDE / 8, 1);
  submit(commands);
  wait();
}

static void raw_copy(void) {
  const VkBufferCopy region = {0, 0, COPY};
  VkCommandBuffer commands = raw.commands[0];
  memcpy(raw.staging.mapped, host_bytes, COPY);
  begin(commands);
  vk.CmdCopyBuffer(commands, raw.staging.buffer, raw.large.buffer, 1, &region);
  submit(commands);
  wait();
}

int main(void) {
  raw_open();
  compare("Vulkan", "vulkan:0", raw_launches, raw_copy, raw_matmul);
  return 0;
}
