/* raw.c - what Keel costs beside Vulkan itself, in turn in one process: launches of Relu
 * on 4 floats (1000, then a wait; the host's part of it, and all), copies of 32 MiB,
 * MatMul of 512.
 *
 * usage: vulkan_raw */
#include <keel/keel.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api.h"

static const uint32_t relu_code[] =
#include "relu.comp.inc"
    ;
static const uint32_t matmul_code[] =
#include "matmul.comp.inc"
    ;

#define LAUNCHES 1000
#define BATCH    64 /* launches of a submission, as the plugin has them */
#define COPY     (UINT64_C(32) << 20)
#define SIDE     512

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "vulkan_raw: %s\n", what);
  exit(1);
}

#define NEED(call) \
  if ((call) != VK_SUCCESS) fail(#call)

/* When the last launch was enqueued: what follows is the device's time. */
static double enqueued;

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

static char host_bytes[COPY];

static void raw_copy(void) {
  const VkBufferCopy region = {0, 0, COPY};
  VkCommandBuffer commands = raw.commands[0];
  memcpy(raw.staging.mapped, host_bytes, COPY);
  begin(commands);
  vk.CmdCopyBuffer(commands, raw.staging.buffer, raw.large.buffer, 1, &region);
  submit(commands);
  wait();
}

/* ---- through Keel ----------------------------------------------------------------- */

static keel_context *context;
static keel_device *device;
static keel_op *relu, *matmul;
static keel_tensor *x, *square[2], *large;

/* On the device, by an op that changes nothing. */
static keel_tensor *placed(uint32_t rank, const int64_t *dims) {
  keel_tensor *host = NULL, *there = NULL;
  if (keel_tensor_create(context, KD_F32, rank, dims, NULL, &host) != KD_OK ||
      keel_op_call(relu, &host, 1, &there, 1) != KD_OK)
    fail(keel_message());
  keel_tensor_release(host);
  return there;
}

static void keel_start(void) {
  const int64_t four = 4, sides[2] = {SIDE, SIDE};
  const int64_t floats = (int64_t)(COPY / 4);
  if (keel_open(NULL, &context) != KD_OK ||
      keel_device_find(context, "vulkan:0", &device) != KD_OK ||
      keel_device_push(device) != KD_OK ||
      keel_op_prepare(context, "Relu", NULL, 0, NULL, &relu) != KD_OK ||
      keel_op_prepare(context, "MatMul", NULL, 0, NULL, &matmul) != KD_OK)
    fail(keel_message());
  x = placed(1, &four);
  square[0] = placed(2, sides);
  square[1] = placed(2, sides);
  if (keel_tensor_create(context, KD_F32, 1, &floats, NULL, &large) != KD_OK)
    fail(keel_message());
}

static void keel_launches(void) {
  keel_tensor *y = NULL;
  for (int i = 0; i < LAUNCHES; i++) {
    keel_tensor_release(y);
    if (keel_op_call(relu, &x, 1, &y, 1) != KD_OK) fail(keel_message());
  }
  enqueued = now();
  float out[4]; /* reading it waits for the device */
  if (keel_tensor_read(y, out, sizeof out) != KD_OK) fail(keel_message());
  keel_tensor_release(y);
}

static void keel_matmul(void) {
  keel_tensor *y = NULL;
  if (keel_op_call(matmul, square, 2, &y, 1) != KD_OK ||
      keel_tensor_read(y, host_bytes, SIDE * SIDE * 4) != KD_OK)
    fail(keel_message());
  keel_tensor_release(y);
}

static void keel_copy(void) {
  keel_tensor *there = NULL;
  if (keel_tensor_to(large, device, &there) != KD_OK ||
      keel_tensor_wait(there) != KD_OK)
    fail(keel_message());
  keel_tensor_release(there);
}

static void show(const char *what, const char *unit, const double *times) {
  printf("%-30s Vulkan %7.1f %s, Keel %7.1f %s, ratio %.2f\n", what, times[0],
         unit, times[1], unit, times[1] / times[0]);
}

int main(void) {
  static const struct {
    const char *what;
    void (*raw)(void), (*keel)(void);
    double parts;
    const char *unit;
    int rounds;
  } rows[] = {
      {"launch, and a wait for all", raw_launches, keel_launches, LAUNCHES,
       "ns", 100},
      {"copy of 32 MiB to the device", raw_copy, keel_copy, 1e6, "ms", 7},
      {"MatMul of 512", raw_matmul, keel_matmul, 1e6, "ms", 3},
  };
  raw_open();
  keel_start();
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    double best[2] = {1e30, 1e30}, host[2] = {1e30, 1e30};
    for (int round = 0; round < rows[r].rounds; round++)
      for (int i = 0; i < 2; i++) {
        double from = now();
        (i ? rows[r].keel : rows[r].raw)();
        double each = (now() - from) / rows[r].parts;
        double part = (enqueued - from) / rows[r].parts;
        if (each < best[i]) best[i] = each;
        if (part < host[i]) host[i] = part;
      }
    if (!r) show("launch, on the host", rows[r].unit, host);
    show(rows[r].what, rows[r].unit, best);
  }
  keel_tensor_release(x);
  keel_tensor_release(square[0]);
  keel_tensor_release(square[1]);
  keel_tensor_release(large);
  keel_op_release(relu);
  keel_op_release(matmul);
  keel_device_pop();
  keel_close(context);
  return 0;
}
