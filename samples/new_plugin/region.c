/* region.c - a compiler of chains: each op alone reads what the one before it wrote. */
#include "newdev.h"

#define MOST 16u /* nodes of a region */

#define BEFORE UINT32_MAX
typedef struct step {
  newdev_op run;
  uint32_t from[2]; /* an input of the region, or BEFORE: what the step before wrote */
} step;

struct kd_region {
  kd_device *device;
  uint32_t count;
  step steps[MOST];
};

/* The node that alone reads what `node` writes; UINT32_MAX: there is none. */
static uint32_t only_reader(const kd_host *host, const kd_graph *graph, uint32_t node) {
  const kd_graph_table *read = host->graph;
  uint32_t value = read->node_output(graph, node, 0), found = UINT32_MAX;
  for (uint32_t i = 0; i < read->output_count(graph); i++)
    if (read->output(graph, i) == value) return UINT32_MAX;
  for (uint32_t i = 0; i < read->node_count(graph); i++)
    for (uint32_t k = 0; k < host->node->input_count(read->node(graph, i)); k++)
      if (read->node_input(graph, i, k) == value) {
        if (found != UINT32_MAX && found != i) return UINT32_MAX;
        found = i;
      }
  return found;
}

static kd_status claim(kd_device *device, const kd_graph *graph, kd_claim take, void *context) {
  const kd_host *host = device->host;
  uint32_t count = host->graph->node_count(graph);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t nodes[MOST];
    kd_part part = {.struct_size = sizeof part, .flags = KD_PART_ANY_SHAPE, .nodes = nodes};
    for (uint32_t at = i;
         at < count && host->graph->claimable(graph, at) &&
         newdev_find_op(host, host->graph->node(graph, at)) && part.node_count < MOST;
         at = only_reader(host, graph, at))
      nodes[part.node_count++] = at;
    /* the host refuses a chain whose nodes are in one that was taken before */
    if (part.node_count > 1) take(context, &part);
  }
  return KD_OK;
}

/* Reads a node; `before` is the value that the step before has written. */
static bool translate(const kd_host *host, const kd_graph *graph, uint32_t i, uint32_t before,
                      step *out) {
  const kd_node *node = host->graph->node(graph, i);
  uint32_t inputs = host->node->input_count(node), count = host->graph->input_count(graph);
  out->run = newdev_find_op(host, node);
  for (uint32_t k = 0; out->run && k < 2 && k < inputs; k++) {
    uint32_t value = host->graph->node_input(graph, i, k), at = 0;
    while (at < count && host->graph->input(graph, at) != value)
      at++;
    if (at == count && (!i || value != before)) return false;
    out->from[k] = at < count ? at : BEFORE;
  }
  return out->run != NULL;
}

static kd_status compile(kd_device *device, const kd_compile *what, kd_region **out_region) {
  const kd_host *host = device->host;
  const kd_graph_table *read = host->graph;
  uint32_t count = read->node_count(what->graph), before = UINT32_MAX;
  if (what->flags) return host->fail(KD_UNIMPLEMENTED, "newdev: flags 0x%x", what->flags);
  kd_region *region = host->allocate(host, sizeof *region, 0);
  if (!region) return host->fail(KD_OUT_OF_MEMORY, "newdev: no memory");
  *region = (kd_region){.device = device};
  while (region->count < count && region->count < MOST &&
         translate(host, what->graph, region->count, before, &region->steps[region->count]))
    before = read->node_output(what->graph, region->count++, 0);
  if (!count || region->count < count || read->output_count(what->graph) != 1 ||
      before != read->output(what->graph, 0)) {
    host->release(host, region);
    return host->fail(KD_UNIMPLEMENTED, "newdev: not a chain that it can do");
  }
  *out_region = region;
  return KD_OK;
}

/* All values have the output's shape, and steps write one after the other over it. */
static kd_status enqueue(kd_region *region, kd_stream *stream, const kd_launch *launch) {
  work works[MOST];
  void *y = kd_output(launch, 0);
  for (uint32_t i = 0; i < region->count; i++) {
    const step *s = &region->steps[i];
    works[i] = (work){.run = s->run,
                      .a = s->from[0] == BEFORE ? y : kd_input(launch, s->from[0]),
                      .b = s->from[1] == BEFORE ? y : kd_input(launch, s->from[1]),
                      .y = y,
                      .n = kd_elements(&launch->outputs[0])};
  }
  return newdev_push(region->device, stream, works, region->count);
}

static void destroy(kd_region *region) {
  region->device->host->release(region->device->host, region);
}

const kd_region_table newdev_regions = {
    .struct_size = sizeof(kd_region_table),
    .claim = claim,
    .compile = compile,
    .enqueue = enqueue,
    .destroy = destroy,
};
