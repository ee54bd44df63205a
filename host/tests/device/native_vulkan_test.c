/* native_vulkan_test.c - an application with command buffers of its own for Vulkan: on Keel's
 * device, on tensors' memory, in Keel's queue. */
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <pthread.h>
#include <vulkan/vulkan.h>

#include "native.h"

/* clang-format off */
#define FUNCTIONS(X) \
  X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) \
  X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdPipelineBarrier) \
  X(CmdCopyBuffer) X(CmdFillBuffer) X(QueueSubmit) X(CreateSemaphore) \
  X(DestroySemaphore) X(SignalSemaphore) X(CreateFence) X(WaitForFences) \
  X(DestroyFence) X(GetFenceStatus) X(GetDeviceProcAddr) X(GetPhysicalDeviceProperties)
/* clang-format on */

static struct {
#define FIELD(name) PFN_vk##name name;
  FUNCTIONS(FIELD)
#undef FIELD
} own;

static VkDevice gpu;
static VkCommandPool pool;
static VkSemaphore gate; /* a timeline: work behind it begins at 1 */

static void find_functions(PFN_vkGetInstanceProcAddr get, VkInstance instance) {
#define FIND(name)                                               \
  own.name = (PFN_vk##name)(uintptr_t)get(instance, "vk" #name); \
  assert_true(own.name != NULL);
  FUNCTIONS(FIND)
#undef FIND
}

static bool begin_vulkan(void) {
  PFN_vkGetInstanceProcAddr get = NULL;
  VkPhysicalDeviceProperties facts;
  keel_device_facts keels;
  void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library || !begin(VULKAN_PLUGIN, "vulkan:0", NULL, 0)) return false;
  *(void **)&get = dlsym(library, "vkGetInstanceProcAddr");
  find_functions(get, (VkInstance)(uintptr_t)handle_of(KD_NATIVE_VK_INSTANCE));
  gpu = (VkDevice)(uintptr_t)handle_of(KD_NATIVE_VK_DEVICE);
  own.GetPhysicalDeviceProperties(
      (VkPhysicalDevice)(uintptr_t)handle_of(KD_NATIVE_VK_PHYSICAL_DEVICE),
      &facts);
  keel_device_describe(device, &keels);
  assert_string_equal(facts.deviceName, keels.product);
  const VkCommandPoolCreateInfo wanted = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
      .queueFamilyIndex = (uint32_t)handle_of(KD_NATIVE_VK_QUEUE_FAMILY)};
  const VkSemaphoreTypeCreateInfo timeline = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  const VkSemaphoreCreateInfo semaphore = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &timeline};
  assert_int_equal(own.CreateCommandPool(gpu, &wanted, NULL, &pool),
                   VK_SUCCESS);
  assert_int_equal(own.CreateSemaphore(gpu, &semaphore, NULL, &gate),
                   VK_SUCCESS);
  return true;
}

static void end_vulkan(void) {
  expect_ok(keel_device_synchronize(device));
  own.DestroySemaphore(gpu, gate, NULL);
  own.DestroyCommandPool(gpu, pool, NULL);
  end();
}

/* ---- the application's commands ---------------------------------------------------------- */

static void barrier(VkCommandBuffer commands) {
  const VkPipelineStageFlags stages =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  const VkMemoryBarrier all = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
      .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
  own.CmdPipelineBarrier(commands, stages, stages, 0, 1, &all, 0, NULL, 0,
                         NULL);
}

/* Copies y, and makes the second half 1. */
static VkCommandBuffer record(keel_tensor *y, keel_tensor *z) {
  VkCommandBuffer commands = VK_NULL_HANDLE;
  uint64_t from_offset = 0, to_offset = 0;
  const float one = 1;
  uint32_t bits = 0;
  memcpy(&bits, &one, sizeof bits);
  VkBuffer from =
      (VkBuffer)memory_of(y, KD_NATIVE_VK_BUFFER, KD_READ, &from_offset);
  VkBuffer to =
      (VkBuffer)memory_of(z, KD_NATIVE_VK_BUFFER, KD_WRITE, &to_offset);
  const VkCommandBufferAllocateInfo wanted = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = pool,
      .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
      .commandBufferCount = 1};
  const VkCommandBufferBeginInfo once = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  const VkBufferCopy all = {from_offset, to_offset, BYTES};
  assert_int_equal(own.AllocateCommandBuffers(gpu, &wanted, &commands),
                   VK_SUCCESS);
  assert_int_equal(own.BeginCommandBuffer(commands, &once), VK_SUCCESS);
  barrier(commands);
  own.CmdCopyBuffer(commands, from, to, 1, &all);
  barrier(commands);
  own.CmdFillBuffer(commands, to, to_offset + BYTES / 2, BYTES / 2, bits);
  assert_int_equal(own.EndCommandBuffer(commands), VK_SUCCESS);
  return commands;
}

static void submit(VkQueue queue, VkCommandBuffer commands, bool gated,
                   VkFence fence) {
  const uint64_t value = 1;
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  const VkTimelineSemaphoreSubmitInfo values = {
      .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
      .waitSemaphoreValueCount = 1,
      .pWaitSemaphoreValues = &value};
  const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                             .pNext = gated ? &values : NULL,
                             .waitSemaphoreCount = gated,
                             .pWaitSemaphores = &gate,
                             .pWaitDstStageMask = &stage,
                             .commandBufferCount = 1,
                             .pCommandBuffers = &commands};
  assert_int_equal(own.QueueSubmit(queue, 1, &info, fence), VK_SUCCESS);
}

static VkQueue keels_queue(void) {
  return (VkQueue)(uintptr_t)queue_of(KD_NATIVE_VK_QUEUE);
}

static void *open_gate(void *unused) {
  (void)unused;
  const VkSemaphoreSignalInfo signal = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
      .semaphore = gate,
      .value = 1};
  usleep(30000);
  return (void *)(uintptr_t)own.SignalSemaphore(gpu, &signal);
}

/* y in the first half, 1 in the second; all times `scale`. Takes the tensor. */
static void expect_halves(keel_tensor *tensor, float scale) {
  memset(got, 0, sizeof got);
  expect_ok(keel_tensor_read(tensor, got, sizeof got));
  for (int i = 0; i < COUNT; i++)
    if (got[i] != scale * (i < COUNT / 2 ? -data[i] : 1))
      fail_msg("element %d is %g", i, (double)got[i]);
  keel_tensor_release(tensor);
}

/* ---- tests -------------------------------------------------------------------------------- */

TEST_THAT(an_application_works_on_tensors_memory) {
  VkFence fence = VK_NULL_HANDLE;
  const VkFenceCreateInfo wanted = {.sType =
                                        VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  if (!begin_vulkan()) skip();
  assert_int_equal(own.CreateFence(gpu, &wanted, NULL, &fence), VK_SUCCESS);
  keel_tensor *y = computed("Neg", uploaded()), *z = zeros();
  expect_ok(keel_device_synchronize(device));
  submit(keels_queue(), record(y, z), false, fence);
  assert_int_equal(own.WaitForFences(gpu, 1, &fence, VK_TRUE, UINT64_MAX),
                   VK_SUCCESS);
  keel_tensor_release(y);
  expect_halves(computed("Neg", z), -1);
  own.DestroyFence(gpu, fence, NULL);
  end_vulkan();
}

/* The application's commands wait for the gate, which opens late. `keel_next`: Keel's work is
 * behind them; else the host reads what they write. */
static void check_order(bool keel_next) {
  pthread_t opener;
  void *opened = &opener;
  expect(computed("Neg", uploaded()), -1, 0); /* compiled */
  keel_tensor *y = computed("Neg", uploaded()), *z = zeros();
  VkCommandBuffer commands = record(y, z);
  expect_ok(keel_device_synchronize(
      device)); /* nothing of Keel's is left to wait for */
  waits = 0;
  submit(keels_queue(), commands, true, VK_NULL_HANDLE);
  keel_tensor_release(y);
  if (keel_next) z = computed("Neg", z);
  assert_int_equal(waits, 0);
  assert_int_equal(pthread_create(&opener, NULL, open_gate, NULL), 0);
  expect_halves(z, keel_next ? -1 : 1);
  pthread_join(opener, &opened);
  assert_null(opened); /* VK_SUCCESS */
}

TEST_THAT(keels_queue_takes_the_applications_work) {
  if (!begin_vulkan()) skip();
  check_order(true);
  end_vulkan();
}

TEST_THAT(what_keel_reads_waits_for_the_applications_work) {
  if (!begin_vulkan()) skip();
  check_order(false);
  end_vulkan();
}

TEST_THAT(waiting_for_the_device_waits_for_it_too) {
  VkFence fence = VK_NULL_HANDLE;
  const VkFenceCreateInfo wanted = {.sType =
                                        VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  pthread_t opener;
  if (!begin_vulkan()) skip();
  assert_int_equal(own.CreateFence(gpu, &wanted, NULL, &fence), VK_SUCCESS);
  keel_tensor *y = computed("Neg", uploaded()), *z = zeros();
  VkCommandBuffer commands = record(y, z);
  expect_ok(keel_device_synchronize(device));
  submit(keels_queue(), commands, true, fence);
  assert_int_equal(own.GetFenceStatus(gpu, fence), VK_NOT_READY);
  assert_int_equal(pthread_create(&opener, NULL, open_gate, NULL), 0);
  expect_ok(keel_device_synchronize(device));
  assert_int_equal(own.GetFenceStatus(gpu, fence), VK_SUCCESS);
  pthread_join(opener, NULL);
  keel_tensor_release(y);
  expect_halves(z, 1);
  own.DestroyFence(gpu, fence, NULL);
  end_vulkan();
}

/* Small tensors share a buffer of Vulkan's. */
TEST_THAT(tensors_of_one_buffer_have_their_offsets) {
  const float few[] = {1, 2, 3};
  uint64_t handles[2], offsets[2];
  if (!begin_vulkan()) skip();
  keel_tensor *host = floats(context, 3, few), *there[2];
  expect_ok(keel_tensor_to(host, device, &there[0]));
  there[1] = zeros();
  for (int i = 0; i < 2; i++)
    handles[i] = memory_of(there[i], KD_NATIVE_VK_BUFFER, KD_READ, &offsets[i]);
  assert_true(handles[0] != handles[1] || offsets[0] != offsets[1]);
  release_all(there, 2);
  keel_tensor_release(host);
  end_vulkan();
}

TEST_THAT(what_vulkan_has_not_is_refused) {
  uint64_t handle = 5, offset = 6;
  if (!begin_vulkan()) skip();
  keel_tensor *y = zeros();
  expect_fails(keel_device_native(device, KD_NATIVE_CL_CONTEXT, &handle),
               KD_UNIMPLEMENTED, "VK_QUEUE_FAMILY, and not 0x102");
  expect_fails(
      keel_tensor_native(y, KD_NATIVE_CL_MEM, KD_READ, &handle, &offset),
      KD_UNIMPLEMENTED, "VK_BUFFER, and not 0x110");
  expect_fails(keel_device_queue(device, KD_NATIVE_CL_QUEUE, &handle),
               KD_UNIMPLEMENTED, "VK_QUEUE, and not 0x120");
  expect_fails(keel_device_use_queue(device, KD_NATIVE_VK_QUEUE, 1),
               KD_UNIMPLEMENTED, "queues that applications have");
  keel_tensor_release(y);
  end_vulkan();
}

RUN_TESTS(NULL, NULL)
