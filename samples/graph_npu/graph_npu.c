/* graph_npu.c - a device that has no kernels: it compiles whole graphs ahead of time.
 *
 * Many accelerators are like this. The plugin has level 0's memory, which is opaque
 * (buffers are handles, without addresses), and level 3's compiler; `kernel_count` is 0.
 * What it claims of a model becomes one region; what it does not know runs on another
 * device. Try it:
 *
 *   keel run model.onnx --plugin graph_npu.so --device graph_npu --profile ops
 *
 * What the compiler does is small but real: it reads each node once, fixes all shapes,
 * and plans one block of memory in which values that are never needed at once share
 * bytes. The result holds no pointers, so it is its own compiled form, which the host
 * keeps for the next process. ops.c stands in for the silicon.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "npu.h"

#define NPU_MAGIC   0x4e50554bu
#define NPU_VERSION 1u
#define ALIGNMENT   64u
#define FLOPS       1e12 /* a second: what the device would do */
#define BANDWIDTH   1e11

struct kd_device {
  const kd_host *host;
};
struct kd_instance { /* what a host opens */
  kd_device device;
};
struct kd_buffer { /* a handle: the host never sees the bytes */
  uint64_t size;
  char *bytes;
};

/* ---- memory ----------------------------------------------------------------------- */

static kd_status allocate(kd_device *device, const kd_allocation *wanted,
                          kd_buffer **out_buffer, void **out_address) {
  const kd_host *host = device->host;
  if (wanted->export_kind) return host->fail(KD_UNIMPLEMENTED, "no export");
  kd_buffer *buffer = host->allocate(host, sizeof *buffer, 0);
  char *bytes = buffer ? host->allocate(host, wanted->size, ALIGNMENT) : NULL;
  if (!bytes) {
    host->release(host, buffer);
    return host->fail(KD_OUT_OF_MEMORY, "graph_npu: no %llu bytes are left",
                      (unsigned long long)wanted->size);
  }
  *buffer = (kd_buffer){wanted->size, bytes};
  *out_buffer = buffer;
  *out_address = NULL;
  return KD_OK;
}

static void release(kd_device *device, kd_buffer *buffer) {
  if (!buffer) return;
  device->host->release(device->host, buffer->bytes);
  device->host->release(device->host, buffer);
}

static kd_status check_range(const kd_device *device, const kd_buffer *buffer,
                             uint64_t offset, uint64_t size) {
  return offset <= buffer->size && size <= buffer->size - offset
             ? KD_OK
             : device->host->fail(
                   KD_OUT_OF_RANGE, "graph_npu: %llu bytes at %llu of %llu",
                   (unsigned long long)size, (unsigned long long)offset,
                   (unsigned long long)buffer->size);
}

static kd_status copy_in(kd_device *device, kd_stream *stream,
                         const void *source, kd_buffer *target, uint64_t offset,
                         uint64_t size) {
  kd_status status = check_range(device, target, offset, size);
  (void)stream;
  if (status == KD_OK && size) memcpy(target->bytes + offset, source, size);
  return status;
}

static kd_status copy_out(kd_device *device, kd_stream *stream,
                          kd_buffer *source, uint64_t offset, void *target,
                          uint64_t size) {
  kd_status status = check_range(device, source, offset, size);
  (void)stream;
  if (status == KD_OK && size) memcpy(target, source->bytes + offset, size);
  return status;
}

static const kd_memory_table memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
};

/* ---- claims ------------------------------------------------------------------------- */

/* A graph, and which of its nodes the device can do. */
typedef struct picture {
  const kd_host *host;
  const kd_graph *graph;
  uint32_t nodes, values;
  uint8_t *known;    /* by node */
  uint32_t *group;   /* by node: the first node that it is connected with */
  uint32_t *touched; /* by value: a node that touches it, or NPU_NONE */
  uint32_t *list;    /* nodes of one claim */
  uint64_t *flops, *bytes; /* by node */
} picture;

static bool is_constant(const picture *p, uint32_t value) {
  kd_tensor tensor;
  return p->host->graph->value_constant(p->graph, value, &tensor) == KD_OK;
}

static uint32_t root_of(const picture *p, uint32_t node) {
  while (p->group[node] != node)
    node = p->group[node];
  return node;
}

/* The smaller of two groups' first nodes stands for both. */
static void join(const picture *p, uint32_t value, uint32_t node) {
  if (value >= p->values || is_constant(p, value)) return;
  uint32_t other = p->touched[value];
  p->touched[value] = node;
  if (other == NPU_NONE) return;
  uint32_t a = root_of(p, other), b = root_of(p, node);
  p->group[a > b ? a : b] = a > b ? b : a;
}

/* Finds what is connected among the known nodes from `begin` up to, not including,
 * `end`. */
static void find_groups(const picture *p, uint32_t begin, uint32_t end) {
  const kd_graph_table *read = p->host->graph;
  for (uint32_t v = 0; v < p->values; v++)
    p->touched[v] = NPU_NONE;
  for (uint32_t i = begin; i < end; i++) {
    const kd_node *node = read->node(p->graph, i);
    p->group[i] = i;
    if (!p->known[i]) continue;
    for (uint32_t k = 0; k < p->host->node->input_count(node); k++)
      join(p, read->node_input(p->graph, i, k), i);
    join(p, read->node_output(p->graph, i, 0), i);
  }
}

/* Claims the group of a node; its nodes are then no longer known. */
static kd_status claim_group(const picture *p, uint32_t first, uint32_t end,
                             kd_claim take, void *context) {
  kd_cost cost = {.struct_size = sizeof cost};
  uint32_t count = 0;
  for (uint32_t i = first; i < end; i++) {
    if (!p->known[i] || root_of(p, i) != first) continue;
    p->list[count++] = i;
    cost.flops += p->flops[i];
    cost.bytes += p->bytes[i];
  }
  cost.time = 1000 + (uint64_t)((double)cost.flops / FLOPS * 1e9 +
                                (double)cost.bytes / BANDWIDTH * 1e9);
  const kd_part part = {.struct_size = sizeof part,
                        .nodes = p->list,
                        .node_count = count,
                        .cost = &cost};
  kd_status status = take(context, &part);
  for (uint32_t i = 0; i < count && status == KD_OK; i++)
    p->known[p->list[i]] = 0;
  return status;
}

/* Whole groups first. Where a path leaves one and comes back, the host refuses it: runs
 * of known nodes that follow each other in the graph's order can't have such a path. */
static void claim_all(const picture *p, kd_claim take, void *context) {
  find_groups(p, 0, p->nodes);
  for (uint32_t i = 0; i < p->nodes; i++)
    if (p->known[i] && p->group[i] == i)
      claim_group(p, i, p->nodes, take, context);
  for (uint32_t begin = 0, end; begin < p->nodes; begin = end) {
    for (end = begin; end < p->nodes && p->known[end];)
      end++;
    find_groups(p, begin, end);
    for (uint32_t i = begin; i < end; i++)
      if (p->known[i] && p->group[i] == i)
        claim_group(p, i, end, take, context);
    end += end == begin;
  }
}

static void look(picture *p) {
  const kd_graph_table *read = p->host->graph;
  npu_step step;
  for (uint32_t i = 0; i < p->nodes; i++) {
    p->known[i] = read->claimable(p->graph, i) &&
                  npu_translate(p->host, read->node(p->graph, i), &step) &&
                  read->node_output(p->graph, i, 0) < p->values;
    if (!p->known[i]) continue;
    p->flops[i] = npu_flops(&step);
    p->bytes[i] = npu_size(&step.to);
    for (uint32_t k = 0; k < step.input_count; k++)
      p->bytes[i] += npu_size(&step.from[k]);
  }
}

static kd_status claim(kd_device *device, const kd_graph *graph, kd_claim take,
                       void *context) {
  const kd_host *host = device->host;
  picture p = {.host = host,
               .graph = graph,
               .nodes = host->graph->node_count(graph),
               .values = host->graph->value_count(graph)};
  uint64_t size = (uint64_t)p.nodes * 25 + (uint64_t)p.values * 4 + 8;
  char *room = host->allocate(host, size, 0);
  if (!room)
    return host->fail(KD_OUT_OF_MEMORY,
                      "graph_npu: no memory to look at %u"
                      " nodes",
                      (unsigned)p.nodes);
  memset(room, 0, size);
  p.flops = (uint64_t *)(void *)room;
  p.bytes = p.flops + p.nodes;
  p.group = (uint32_t *)(p.bytes + p.nodes);
  p.list = p.group + p.nodes;
  p.touched = p.list + p.nodes;
  p.known = (uint8_t *)(p.touched + p.values);
  look(&p);
  claim_all(&p, take, context);
  host->release(host, room);
  return KD_OK;
}

/* ---- programs ------------------------------------------------------------------------ */

/* Where a value is: a constant or input of the launch, or in the workspace. */
typedef struct place {
  uint32_t input, output; /* of the launch, or NPU_NONE */
  uint64_t offset, size;  /* in the workspace, else */
} place;

/* What a region is, and its compiled form: places and steps follow. */
typedef struct program {
  uint32_t magic, version;
  uint64_t checksum; /* of all that follows */
  uint64_t workspace;
  uint32_t values, steps, inputs, outputs;
} program;

struct kd_region {
  const kd_host *host;
  uint64_t size;
  program *code; /* `size` bytes */
};

static place *places_of(program *code) {
  return (place *)(void *)(code + 1);
}

static npu_step *steps_of(program *code) {
  return (npu_step *)(void *)(places_of(code) + code->values);
}

/* FNV-1a. */
static uint64_t checksum(const program *code, uint64_t size) {
  const unsigned char *at = (const unsigned char *)&code->workspace;
  const unsigned char *end = (const unsigned char *)code + size;
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; at < end; at++)
    hash = (hash ^ *at) * UINT64_C(0x100000001b3);
  return hash;
}

/* Gives each value that lives in the workspace a place in which nothing else lives at
 * that time: the first gap that is large enough. `last` is the step that reads it last. */
static void plan_memory(program *code, const uint32_t *made,
                        const uint32_t *last) {
  place *all = places_of(code);
  for (uint32_t v = 0; v < code->values; v++) {
    if (made[v] == NPU_NONE || all[v].output != NPU_NONE) continue;
    uint64_t at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t o = 0; o < v; o++) {
        if (made[o] == NPU_NONE || all[o].output != NPU_NONE ||
            last[o] < made[v] || last[v] < made[o] ||
            at + all[v].size <= all[o].offset ||
            all[o].offset + all[o].size <= at)
          continue;
        at = all[o].offset + all[o].size;
        moved = true;
      }
    }
    all[v].offset = at;
    if (at + all[v].size > code->workspace) code->workspace = at + all[v].size;
  }
}

static uint64_t rounded(uint64_t size) {
  return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static kd_status bad_graph(const kd_host *host, const char *what, uint32_t i) {
  return host->fail(KD_UNIMPLEMENTED,
                    "graph_npu: %s %u of the graph is not"
                    " for it",
                    what, (unsigned)i);
}

/* The values that come with a launch and that go with it. */
static kd_status read_borders(const kd_host *host, const kd_graph *graph,
                              program *code) {
  const kd_graph_table *read = host->graph;
  place *all = places_of(code);
  for (uint32_t v = 0; v < code->values; v++)
    all[v] = (place){.input = NPU_NONE, .output = NPU_NONE};
  for (uint32_t i = 0; i < code->inputs; i++) {
    uint32_t value = read->input(graph, i);
    if (value >= code->values) return bad_graph(host, "input", i);
    all[value].input = i;
  }
  for (uint32_t i = 0; i < code->outputs; i++) {
    uint32_t value = read->output(graph, i);
    if (value >= code->values || all[value].input != NPU_NONE)
      return bad_graph(host, "output", i);
    all[value].output = i;
  }
  return KD_OK;
}

/* Steps in the graph's order; made and last say when each value lives. */
static kd_status read_steps(const kd_host *host, const kd_graph *graph,
                            program *code, uint32_t *made, uint32_t *last) {
  const kd_graph_table *read = host->graph;
  place *all = places_of(code);
  for (uint32_t i = 0; i < code->steps; i++) {
    npu_step *step = &steps_of(code)[i];
    if (!npu_translate(host, read->node(graph, i), step))
      return bad_graph(host, "node", i);
    for (uint32_t k = 0; k < step->input_count; k++) {
      uint32_t value = step->in[k] = read->node_input(graph, i, k);
      if (value == UINT32_MAX) continue;
      if (value >= code->values ||
          (all[value].input == NPU_NONE && made[value] == NPU_NONE))
        return bad_graph(host, "node", i); /* nobody makes what it reads */
      last[value] = i;
    }
    uint32_t value = step->out = read->node_output(graph, i, 0);
    if (value >= code->values || all[value].input != NPU_NONE ||
        made[value] != NPU_NONE)
      return bad_graph(host, "node", i);
    made[value] = last[value] = i;
    all[value].size = rounded(npu_size(&step->to));
  }
  for (uint32_t i = 0; i < code->outputs; i++)
    if (made[read->output(graph, i)] == NPU_NONE)
      return bad_graph(host, "output", i);
  return KD_OK;
}

static void destroy(kd_region *region) {
  const kd_host *host = region->host;
  host->release(host, region->code);
  host->release(host, region);
}

static kd_status make_region(const kd_host *host, const kd_graph *graph,
                             kd_region *region) {
  uint32_t nodes = host->graph->node_count(graph);
  uint32_t values = host->graph->value_count(graph);
  region->size = sizeof(program) + (uint64_t)values * sizeof(place) +
                 (uint64_t)nodes * sizeof(npu_step);
  region->code = host->allocate(host, region->size, 0);
  uint64_t marks = (uint64_t)values * 2 * sizeof(uint32_t);
  uint32_t *made = host->allocate(host, marks + 1, 0);
  kd_status status = KD_OK;
  if (region->code && made) {
    memset(region->code, 0, region->size); /* also what lies between fields */
    memset(made, 0xff, marks);             /* NPU_NONE */
    *region->code = (program){.magic = NPU_MAGIC,
                              .version = NPU_VERSION,
                              .values = values,
                              .steps = nodes,
                              .inputs = host->graph->input_count(graph),
                              .outputs = host->graph->output_count(graph)};
    status = read_borders(host, graph, region->code);
    if (status == KD_OK)
      status = read_steps(host, graph, region->code, made, made + values);
    if (status == KD_OK) {
      plan_memory(region->code, made, made + values);
      region->code->checksum = checksum(region->code, region->size);
    }
  } else {
    status = host->fail(KD_OUT_OF_MEMORY,
                        "graph_npu: no memory for a program"
                        " of %u nodes",
                        (unsigned)nodes);
  }
  host->release(host, made);
  return status;
}

static kd_status compile(kd_device *device, const kd_compile *what,
                         kd_region **out_region) {
  const kd_host *host = device->host;
  if (what->flags & ~KD_HINTS)
    return host->fail(KD_UNIMPLEMENTED, "graph_npu: compile flags 0x%x",
                      (unsigned)what->flags);
  kd_region *region = host->allocate(host, sizeof *region, 0);
  if (!region) return host->fail(KD_OUT_OF_MEMORY, "graph_npu: no memory");
  *region = (kd_region){.host = host};
  kd_status status = make_region(host, what->graph, region);
  if (status == KD_OK)
    *out_region = region;
  else
    destroy(region);
  return status;
}

/* ---- compiled forms -------------------------------------------------------------------- */

static kd_status serialize(kd_region *region, void **out_blob,
                           uint64_t *out_size) {
  const kd_host *host = region->host;
  *out_blob = host->allocate(host, region->size, 0);
  if (!*out_blob) return host->fail(KD_OUT_OF_MEMORY, "graph_npu: no memory");
  memcpy(*out_blob, region->code, region->size);
  *out_size = region->size;
  return KD_OK;
}

static kd_status validate(kd_device *device, const void *blob, uint64_t size) {
  const kd_host *host = device->host;
  program head;
  if (size < sizeof head)
    return host->fail(KD_DATA_LOSS, "graph_npu: a program of %llu bytes",
                      (unsigned long long)size);
  memcpy(&head, blob, sizeof head);
  if (head.magic != NPU_MAGIC || head.version != NPU_VERSION)
    return host->fail(KD_INCOMPATIBLE, "graph_npu: a program of version %u",
                      (unsigned)head.version);
  if (head.checksum != checksum(blob, size))
    return host->fail(KD_DATA_LOSS, "graph_npu: the checksum is wrong");
  return KD_OK;
}

/* A checksum keeps accidents out, and not malice. So what is loaded is compared with what
 * the graph gives, which takes this compiler no time. One that searches long for its
 * result would compare a digest of the graph, and check each field that it follows. */
static kd_status load(kd_device *device, const kd_compile *what,
                      const void *blob, uint64_t size, kd_region **out_region) {
  kd_region *region = NULL;
  kd_status status = validate(device, blob, size);
  if (status == KD_OK) status = compile(device, what, &region);
  if (status != KD_OK) return status;
  if (region->size != size || memcmp(region->code, blob, size) != 0) {
    destroy(region);
    return device->host->fail(KD_INCOMPATIBLE,
                              "graph_npu: the program is another graph's");
  }
  *out_region = region;
  return KD_OK;
}

/* ---- launches --------------------------------------------------------------------------- */

static uint64_t workspace(kd_region *region, const kd_launch *launch) {
  (void)launch;
  return region->code->workspace;
}

static void *address(const kd_tensor *tensor) {
  return tensor->buffer ? tensor->buffer->bytes + tensor->offset : NULL;
}

static void *value_at(kd_region *region, const kd_launch *launch,
                      uint32_t value) {
  const place *at = &places_of(region->code)[value];
  if (at->input != NPU_NONE) return address(&launch->inputs[at->input]);
  if (at->output != NPU_NONE) return address(&launch->outputs[at->output]);
  return (char *)address(&launch->workspace) + at->offset;
}

/* The device works inline: all is done when this returns. */
static kd_status enqueue(kd_region *region, kd_stream *stream,
                         const kd_launch *launch) {
  const kd_host *host = region->host;
  program *code = region->code;
  (void)stream;
  if (launch->input_count != code->inputs ||
      launch->output_count != code->outputs)
    return host->fail(KD_INVALID_ARGUMENT,
                      "graph_npu: %u inputs and %u outputs, not %u and %u",
                      (unsigned)launch->input_count,
                      (unsigned)launch->output_count, (unsigned)code->inputs,
                      (unsigned)code->outputs);
  for (uint32_t i = 0; i < code->steps; i++) {
    const npu_step *step = &steps_of(code)[i];
    const void *in[NPU_INPUTS] = {NULL};
    for (uint32_t k = 0; k < step->input_count; k++)
      if (step->in[k] != NPU_NONE)
        in[k] = value_at(region, launch, step->in[k]);
    npu_ops[step->op].run(host, step, in, value_at(region, launch, step->out));
  }
  return KD_OK;
}

static const kd_region_table regions = {
    .struct_size = sizeof(kd_region_table),
    .claim = claim,
    .compile = compile,
    .workspace = workspace,
    .enqueue = enqueue,
    .destroy = destroy,
    .serialize = serialize,
    .validate = validate,
    .load = load,
};

/* ---- the plugin --------------------------------------------------------------------------- */

static kd_status plugin_open(const kd_host *host, kd_instance **out_instance) {
  kd_instance *instance = host->allocate(host, sizeof *instance, 0);
  if (!instance) return host->fail(KD_OUT_OF_MEMORY, "graph_npu: no memory");
  instance->device.host = host;
  *out_instance = instance;
  return KD_OK;
}

static void plugin_close(kd_instance *instance) {
  const kd_host *host = instance->device.host;
  host->release(host, instance);
}

static uint32_t device_count(kd_instance *instance) {
  (void)instance;
  return 1;
}

static kd_status device_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  const kd_host *host = instance->device.host;
  if (index) return host->fail(KD_OUT_OF_RANGE, "graph_npu: one device");
  out_info->flags = KD_DEVICE_INLINE | KD_DEVICE_SOFTWARE;
  out_info->name = "Sample NPU";
  out_info->kind = "npu";
  out_info->peak_flops_f32 = (uint64_t)FLOPS;
  out_info->bandwidth = (uint64_t)BANDWIDTH;
  return KD_OK;
}

static kd_status device_open(kd_instance *instance, uint32_t index,
                             kd_device **out_device) {
  const kd_host *host = instance->device.host;
  if (index) return host->fail(KD_OUT_OF_RANGE, "graph_npu: one device");
  *out_device = &instance->device;
  return KD_OK;
}

static void device_close(kd_device *device) {
  (void)device;
}

static const kd_plugin plugin = {
    .struct_size = sizeof(kd_plugin),
    .abi_version = KD_ABI_VERSION,
    .opset = KD_OPSET,
    .name = "graph_npu",
    .vendor = "Keel samples",
    .version = "1",
    .open = plugin_open,
    .close = plugin_close,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .memory = &memory,
    .regions = &regions,
};

KD_ENTRY(plugin)
