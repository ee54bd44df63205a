/* raw.c - what Keel costs beside Vulkan itself, in turn in one process: launches of Relu
 * on 4 floats (1000, then a wait; the host's part of it, and all), copies of 32 MiB,
 * MatMul of 512.
 *
 * usage: vulkan_raw */
#include <stdbool.h>
#include <string.h>

#include "families/bench/beside.h"
#include "plain.h"

static const uint32_t relu_code[] =
#include "relu.comp.inc"
    ;
static const uint32_t matmul_code[] =
#include "matmul.comp.inc"
    ;

#define BATCH 64 /* launches of a submission, as the plugin has them */

/* ---- Vulkan alone --------------------------------------------------------------- */

static struct {
  VkPipeline relu, matmul;
  VkCommandBuffer commands[(LAUNCHES + BATCH - 1) / BATCH];
  plain_buffer x, y, a, b, c, large, staging;
} raw;

static void raw_open(void) {
  plain_open();
  const VkCommandBufferAllocateInfo buffers = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = plain.pool,
      .commandBufferCount = sizeof raw.commands / sizeof *raw.commands};
  NEED(vk.AllocateCommandBuffers(plain.device, &buffers, raw.commands));
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
    vk.CmdPushConstants(commands, plain.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
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
  vk.CmdPushConstants(commands, plain.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                      36, &push);
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
  bench_open("vulkan:0", NULL, 0);
  compare("Vulkan", raw_launches, raw_copy, raw_matmul);
  bench_close();
  return 0;
}
