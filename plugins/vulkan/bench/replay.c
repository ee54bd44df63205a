/* replay.c - a script of the Vulkan plugin (option "script") by Vulkan alone: all of it
 * once, then its last run again and again, from recording its first command until its
 * results are on the host. Kernels are compiled by glslc.
 *
 * usage: vulkan_replay SCRIPT [ROUNDS [FILE]]     FILE: gets what was copied to the host
 *                                               last */
#include "families/bench/replay.h"

#include <unistd.h>

#include "plain.h"

#define GRID 65535u /* groups in a dimension */

typedef struct push_block {
  uint64_t params;
  uint32_t first, unused;
  uint64_t buffers[REPLAY_BUFFERS];
} push_block;

static plain_buffer *buffers, params, staging;
static push_block *pushes;    /* by command */
static uint64_t *staged;      /* by command: offset in the staging buffer */
static VkPipeline *pipelines; /* by source */
static VkCommandBuffer commands;
static const char *result; /* of the last copy to the host */
static uint64_t result_size;

static VkPipeline compile(const char *source, uint64_t size) {
  char in[] = "/tmp/keel-replay-XXXXXX", out[64], command[256];
  int descriptor = mkstemp(in);
  FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
  if (!file || fwrite(source, 1, (size_t)size, file) != (size_t)size ||
      fclose(file) != 0)
    replay_fail("a kernel can't be written");
  snprintf(out, sizeof out, "%s.spv", in);
  snprintf(command, sizeof command,
           "%s -fshader-stage=compute --target-env=vulkan1.2 -w -o %s %s",
           GLSLC, out, in);
  if (system(command) != 0) replay_fail("a kernel does not compile");
  static uint32_t words[1 << 18];
  file = fopen(out, "rb");
  size_t bytes = file ? fread(words, 1, sizeof words, file) : 0;
  if (!bytes) replay_fail("a kernel can't be read");
  fclose(file);
  unlink(in);
  unlink(out);
  return make_pipeline(words, bytes);
}

static uint64_t padded(uint64_t size) {
  return (size + 63) & ~UINT64_C(63);
}

static void prepare(const replay_script *s) {
  uint64_t param_size = 0, staging_size = 0;
  plain_open();
  buffers = calloc(s->buffer_count + 1, sizeof *buffers);
  pushes = calloc(s->command_count + 1, sizeof *pushes);
  staged = calloc(s->command_count + 1, sizeof *staged);
  pipelines = calloc(s->source_count + 1, sizeof(VkPipeline));
  if (!buffers || !pushes || !staged || !pipelines) replay_fail("no memory");
  for (uint32_t i = 0; i < s->source_count; i++)
    pipelines[i] = compile(s->sources[i], s->source_sizes[i]);
  for (uint32_t i = 0; i < s->buffer_count; i++)
    buffers[i] = make_buffer(s->sizes[i], true);
  for (uint32_t i = 0; i < s->command_count; i++) {
    const replay_command *c = &s->commands[i];
    param_size += padded(c->param_bytes + 4);
    staged[i] = staging_size;
    if (c->kind == 'I' || c->kind == 'O' || c->kind == 'F')
      staging_size += padded(c->size);
  }
  params = make_buffer(param_size, false);
  staging = make_buffer(staging_size, false);
  uint64_t at = 0;
  for (uint32_t i = 0; i < s->command_count; i++) {
    const replay_command *c = &s->commands[i];
    if (c->kind == 'O') {
      result = (const char *)staging.mapped + staged[i];
      result_size = c->size;
    }
    if (c->kind != 'L') continue;
    memcpy((char *)params.mapped + at, c->params, (size_t)c->param_bytes);
    pushes[i].params = params.address + at;
    for (uint32_t b = 0; b < c->buffer_count; b++)
      if (c->buffers[b] != UINT32_MAX)
        pushes[i].buffers[b] = buffers[c->buffers[b]].address + c->offsets[b];
    at += padded(c->param_bytes + 4);
  }
  const VkCommandBufferAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = plain.pool,
      .commandBufferCount = 1};
  NEED(vk.AllocateCommandBuffers(plain.device, &info, &commands));
}

static void launch(const replay_command *c, const push_block *push,
                   VkPipeline *bound) {
  uint32_t rows = (uint32_t)(c->groups / GRID);
  uint32_t rest = (uint32_t)(c->groups % GRID);
  if (*bound != pipelines[c->source]) {
    *bound = pipelines[c->source];
    vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, *bound);
  }
  for (int part = 0; part < 2; part++) {
    push_block here = *push;
    if (part ? !rest : !rows) continue;
    here.first = part ? rows * GRID : 0;
    vk.CmdPushConstants(commands, plain.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        16 + 8 * c->buffer_count, &here);
    vk.CmdDispatch(commands, part ? rest : GRID, part ? 1 : rows, 1);
  }
}

static void copy(const replay_command *c, uint64_t at) {
  VkBuffer first = buffers[c->buffers[0]].buffer;
  VkBufferCopy in = {at, c->offsets[0], c->size};
  VkBufferCopy out = {c->offsets[0], at, c->size};
  if (c->kind == 'O') {
    vk.CmdCopyBuffer(commands, first, staging.buffer, 1, &out);
    return;
  }
  if (c->kind == 'C') {
    out.dstOffset = c->offsets[1];
    vk.CmdCopyBuffer(commands, first, buffers[c->buffers[1]].buffer, 1, &out);
    return;
  }
  char *bytes = (char *)staging.mapped + at;
  if (c->kind == 'I')
    memcpy(bytes, c->bytes, (size_t)c->size);
  else
    for (uint64_t i = 0; i < c->size; i++)
      bytes[i] = c->bytes[i % c->pattern_size];
  vk.CmdCopyBuffer(commands, staging.buffer, first, 1, &in);
}

static double run_from(const replay_script *s, uint32_t first) {
  VkPipeline bound = VK_NULL_HANDLE;
  double time = now();
  begin(commands);
  for (uint32_t i = first; i < s->command_count; i++) {
    const replay_command *c = &s->commands[i];
    barrier(commands);
    if (c->kind == 'L')
      launch(c, &pushes[i], &bound);
    else
      copy(c, staged[i]);
  }
  submit(commands);
  wait();
  return now() - time;
}

static const void *last_result(uint64_t *out_size) {
  *out_size = result_size;
  return result;
}

int main(int argc, char **argv) {
  static const replay_api api = {.name = "vulkan_replay",
                                 .prepare = prepare,
                                 .run_from = run_from,
                                 .result = last_result};
  int status = replay_main(&api, argc, argv);
  free(buffers);
  free(pushes);
  free(staged);
  free(pipelines);
  return status;
}
