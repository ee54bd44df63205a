/* compiler.c - the toy's compiler: what it claims is the test's to say (toy.claim), and what it
 * compiles are graphs of Neg, Abs, Add and Mul of f32 tensors of one size, of Reshape to a
 * Shape, and of Ifs whose branches are one such op. */
#include <stdlib.h>
#include <string.h>

#include "device.h"

enum { NODES = 64, VALUES = 256 };

/* What a region may have, by the number of the toy's op; the last two move data. */
enum { RESHAPE = TOY_ZERO, SHAPE, KNOWN };
static const char *const names[KNOWN] = {
    [TOY_NEG] = "Neg", [TOY_ABS] = "Abs",     [TOY_ADD] = "Add",
    [TOY_MUL] = "Mul", [RESHAPE] = "Reshape", [SHAPE] = "Shape"};

static void compute(int op, const float *x, const float *y, float *to,
                    uint64_t size) {
  if (op == SHAPE) return; /* what it makes is read by Reshape alone */
  if (op == RESHAPE)
    memcpy(to, x, size);
  else
    toy_compute((toy_op)op, x, y, false, to, (int64_t)(size / sizeof *to));
}

/* ---- regions --------------------------------------------------------------------- */

typedef struct code {
  int op;
  uint32_t a, b, to;
  uint32_t condition; /* NONE, or the value by which this op is left out */
  bool when;          /* it is done where the condition is this */
} code;

#define NONE UINT32_MAX

struct kd_region {
  uint32_t nodes, values, inputs, outputs;
  uint32_t in[VALUES], out[VALUES];
  code steps[NODES];
};

static kd_status claim(kd_device *device, const kd_graph *graph, kd_claim take,
                       void *context) {
  (void)device;
  if (toy.claim) toy.claim(toy_host, graph, take, context);
  return KD_OK;
}

static int find_op(const kd_node *node) {
  int op = 0;
  while (op < KNOWN &&
         (!names[op] || strcmp(toy_host->node->op(node), names[op]) != 0))
    op++;
  return op;
}

/* One op of what is captured: the node's inputs behind the condition, then-branch first
 * where that is its first attribute. */
static kd_status read_branch(const kd_graph *graph, uint32_t at, bool when,
                             uint32_t *first, kd_region *to) {
  const kd_graph_table *read = toy_host->graph;
  const kd_graph *branch = toy_host->node->attr_graph(
      read->node(graph, at), when ? "then_branch" : "else_branch");
  if (!branch || read->node_count(branch) != 1 || to->nodes == NODES)
    return toy_fail(KD_UNIMPLEMENTED, "a branch of many ops");
  code *step = &to->steps[to->nodes++];
  *step = (code){.op = find_op(read->node(branch, 0)),
                 .to = read->node_output(graph, at, 0),
                 .condition = read->node_input(graph, at, 0),
                 .when = when};
  for (uint32_t i = 0; i < read->input_count(branch); i++) {
    uint32_t value = read->node_input(graph, at, (*first)++);
    if (read->node_input(branch, 0, 0) == read->input(branch, i))
      step->a = value;
    if (read->node_input(branch, 0, 1) == read->input(branch, i))
      step->b = value;
  }
  return step->op < KNOWN ? KD_OK : toy_fail(KD_UNIMPLEMENTED, "op");
}

static kd_status read_if(const kd_graph *graph, uint32_t at, kd_region *to) {
  const kd_node *node = toy_host->graph->node(graph, at);
  uint32_t first = 1, count = toy_host->node->attr_count(node);
  kd_status status = KD_OK;
  for (uint32_t i = 0; i < count && status == KD_OK; i++)
    status = read_branch(
        graph, at, !strcmp(toy_host->node->attr_name(node, i), "then_branch"),
        &first, to);
  return status;
}

static kd_status translate(const kd_graph *graph, kd_region *to) {
  const kd_graph_table *read = toy_host->graph;
  uint32_t count = read->node_count(graph);
  memset(to, 0, sizeof *to); /* it is compared with what was kept */
  to->values = read->value_count(graph);
  to->inputs = read->input_count(graph);
  to->outputs = read->output_count(graph);
  if (count > NODES || to->values > VALUES)
    return toy_fail(KD_UNIMPLEMENTED, "%u nodes", count);
  for (uint32_t i = 0; i < to->inputs; i++)
    to->in[i] = read->input(graph, i);
  for (uint32_t i = 0; i < to->outputs; i++)
    to->out[i] = read->output(graph, i);
  for (uint32_t i = 0; i < count; i++) {
    const kd_node *node = read->node(graph, i);
    kd_status status = KD_OK;
    if (!strcmp(toy_host->node->op(node), "If"))
      status = read_if(graph, i, to);
    else if (to->nodes == NODES || find_op(node) == KNOWN)
      status = toy_fail(KD_UNIMPLEMENTED, "%s", toy_host->node->op(node));
    else
      to->steps[to->nodes++] = (code){.op = find_op(node),
                                      .a = read->node_input(graph, i, 0),
                                      .b = read->node_input(graph, i, 1),
                                      .to = read->node_output(graph, i, 0),
                                      .condition = NONE};
    if (status != KD_OK) return status;
  }
  return KD_OK;
}

static kd_status compile(kd_device *device, const kd_compile *what,
                         kd_region **out_region) {
  (void)device;
  if (toy.compiles != KD_OK) return toy_fail(toy.compiles, "not today");
  kd_region *region = calloc(1, sizeof *region);
  if (!region) return toy_fail(KD_OUT_OF_MEMORY, "no memory");
  kd_status status = translate(what->graph, region);
  if (status != KD_OK) {
    free(region);
    return status;
  }
  toy.live++;
  toy.made++;
  *out_region = region;
  return KD_OK;
}

static kd_status serialize(kd_region *region, void **out_blob,
                           uint64_t *out_size) {
  *out_blob = toy_host->allocate(toy_host, sizeof *region, 0);
  if (!*out_blob) return toy_fail(KD_OUT_OF_MEMORY, "no memory");
  memcpy(*out_blob, region, sizeof *region);
  *out_size = sizeof *region;
  return KD_OK;
}

static kd_status validate(kd_device *device, const void *blob, uint64_t size) {
  (void)device;
  (void)blob;
  if (toy.judges != KD_OK) return toy_fail(toy.judges, "of another driver");
  return size == sizeof(kd_region)
             ? KD_OK
             : toy_fail(KD_DATA_LOSS, "%llu bytes", (unsigned long long)size);
}

static kd_status load(kd_device *device, const kd_compile *what,
                      const void *blob, uint64_t size, kd_region **out_region) {
  (void)device;
  kd_region *region = calloc(1, sizeof *region);
  if (!region) return toy_fail(KD_OUT_OF_MEMORY, "no memory");
  kd_status status = translate(what->graph, region);
  if (status == KD_OK && memcmp(region, blob, size) != 0)
    status = toy_fail(KD_INCOMPATIBLE, "of another graph");
  if (status != KD_OK) {
    free(region);
    return status;
  }
  toy.live++;
  toy.loaded++;
  *out_region = region;
  return KD_OK;
}

/* All values but the inputs and outputs. */
static uint64_t workspace(kd_region *region, const kd_launch *launch) {
  return region->values * launch->outputs[0].size;
}

static kd_status enqueue(kd_region *region, kd_stream *stream,
                         const kd_launch *launch) {
  (void)stream;
  float *values[VALUES];
  uint64_t size = launch->outputs[0].size;
  if (launch->node || launch->data || launch->workspace.size < size ||
      launch->input_count != region->inputs ||
      launch->output_count != region->outputs)
    return toy_fail(KD_INTERNAL, "an odd launch");
  for (uint32_t i = 0; i < region->values; i++)
    values[i] = (float *)(void *)((char *)launch->workspace.data + i * size);
  for (uint32_t i = 0; i < region->inputs; i++)
    values[region->in[i]] = launch->inputs[i].data;
  for (uint32_t i = 0; i < region->outputs; i++)
    values[region->out[i]] = launch->outputs[i].data;
  for (uint32_t i = 0; i < region->nodes; i++) {
    const code *step = &region->steps[i];
    if (step->condition != NONE &&
        (*(const uint8_t *)(void *)values[step->condition] != 0) != step->when)
      continue;
    compute(step->op, values[step->a],
            step->b < VALUES ? values[step->b] : NULL, values[step->to], size);
  }
  toy.launched++;
  return KD_OK;
}

static void destroy(kd_region *region) {
  toy.live--;
  free(region);
}

const kd_region_table toy_regions = {
    .struct_size = sizeof toy_regions,
    .claim = claim,
    .compile = compile,
    .workspace = workspace,
    .enqueue = enqueue,
    .destroy = destroy,
    .serialize = serialize,
    .validate = validate,
    .load = load,
};
