/* region.c - the simulated device's compiler: elementwise graphs of one type, f32, f16 or
 * bf16. */
#include <math.h>

#include "mutants/sim.h"
#include "reference/value.h"

enum { RELU, ADD, TANH, MUL };
static const char *const names[] = {"Relu", "Add", "Tanh", "Mul"};

#define NODES  32u
#define VALUES 64u
#define INPUTS 4u
#define MAGIC  0x73696d32u

typedef struct code {
  uint32_t op, a, b, to;
} code;

/* What a blob holds, behind its checksum. */
typedef struct program {
  uint32_t magic, device, nodes, values, inputs, output, dtype;
  uint32_t input[INPUTS];
  code steps[NODES];
} program;

struct kd_region {
  kd_device *device;
  int64_t first; /* size of the first launch */
  program code;
  const program *from; /* for the defect */
};

static bool region_is_known(kd_dtype dtype) {
  return dtype == KD_F32 || dtype == KD_F16 || dtype == KD_BF16;
}

/* Of the output's type and shape. Dimensions that are not known yet may differ, but for those of
 * an op of one input. */
static bool region_is_plain(const kd_node *node, uint32_t input) {
  bool alone = sim_host->node->input_count(node) == 1;
  kd_type type, out;
  if (sim_host->node->input_type(node, input, &type) != KD_OK ||
      sim_host->node->output_type(node, 0, &out) != KD_OK ||
      !region_is_known(type.dtype) || type.dtype != out.dtype ||
      type.rank != out.rank || out.rank > KD_MAX_RANK)
    return false;
  for (uint32_t i = 0; i < type.rank; i++)
    if (type.dims[i] != out.dims[i] || (type.dims[i] < 0 && !alone))
      return false;
  return true;
}

static int find_op(const kd_node *node) {
  for (int i = 0; i < 4; i++)
    if (!strcmp(sim_host->node->op(node), names[i])) {
      bool pair = i == ADD || i == MUL;
      return region_is_plain(node, 0) && (!pair || region_is_plain(node, 1))
                 ? i
                 : -1;
    }
  return -1;
}

/* The op of a node that may be claimed; -1: of none that it knows. */
static int claimable_op(const kd_graph *graph, uint32_t node) {
  const kd_graph_table *read = sim_host->graph;
  if (BUG(claims_if) &&
      !strcmp(sim_host->node->op(read->node(graph, node)), "If"))
    return RELU;
  if (!BUG(claims_shown) && !read->claimable(graph, node)) return -1;
  return find_op(read->node(graph, node));
}

/* The one node that reads what a node writes; UINT32_MAX where there is none, or the
 * graph's outputs have it. */
static uint32_t only_reader(const kd_graph *graph, uint32_t node) {
  const kd_graph_table *read = sim_host->graph;
  uint32_t id = read->node_output(graph, node, 0), found = UINT32_MAX;
  for (uint32_t i = 0; i < read->output_count(graph); i++)
    if (read->output(graph, i) == id) return UINT32_MAX;
  for (uint32_t i = 0; i < read->node_count(graph); i++)
    for (uint32_t k = 0; k < 2; k++)
      if (read->node_input(graph, i, k) == id) {
        if (found != UINT32_MAX && found != i) return UINT32_MAX;
        found = i;
      }
  return found;
}

static kd_status hand_over(kd_claim take, void *context, const uint32_t *nodes,
                           uint32_t count, const kd_cost *cost) {
  return take(context, &(kd_part){.struct_size = sizeof(kd_part),
                                  .flags = KD_PART_ANY_SHAPE,
                                  .nodes = nodes,
                                  .node_count = count,
                                  .cost = cost});
}

/* What is claimed by the variants that are good at little: chains of ops of one input, or
 * Relu behind Mul. */
static kd_status claim_little(const kd_graph *graph, kd_claim take,
                              void *context) {
  bool pattern = ODD(one_pattern), taken[NODES] = {false};
  uint32_t n = sim_host->graph->node_count(graph);
  for (uint32_t i = 0; i < n && i < NODES; i++) {
    uint32_t nodes[NODES], count = 0;
    for (uint32_t at = i; at < n && at < NODES && !taken[at] && count < NODES;
         at = only_reader(graph, at)) {
      int op = claimable_op(graph, at);
      bool fits = pattern ? op == (count ? RELU : MUL) && count < 2
                          : op == RELU || op == TANH;
      if (!fits) break;
      taken[at] = true;
      nodes[count++] = at;
    }
    if (count >= 2)
      hand_over(take, context, nodes, count, NULL);
    else if (count)
      taken[i] = false;
  }
  return KD_OK;
}

static kd_status mutants_region_claim(kd_device *device, const kd_graph *graph,
                                      kd_claim take, void *context) {
  uint32_t nodes[NODES], count = 0;
  uint32_t n = sim_host->graph->node_count(graph);
  (void)device;
  if (ODD(declines_regions)) return KD_OK;
  if (ODD(linear_chains) || ODD(one_pattern) || BUG(chain_skips))
    return claim_little(graph, take, context);
  if (BUG(claims_nothing) && n == 0) {
    nodes[0] = 0;
    hand_over(take, context, nodes, 1, NULL);
    return KD_OK;
  }
  for (uint32_t i = 0; i < n && i < NODES; i++) { /* the first that it knows */
    bool known = claimable_op(graph, i) >= 0;
    if (known) nodes[count++] = i;
    if (!known && count) break;
  }
  if (!count) return KD_OK;
  kd_cost cost = {.struct_size = sizeof cost, .time = 1000};
  kd_status status = hand_over(take, context, nodes, count, &cost);
  if (BUG(claim_stubborn) && status != KD_OK)
    return FAIL(status, "a claim was refused");
  if (BUG(claims_overlap)) hand_over(take, context, nodes, 1, &cost);
  return KD_OK;
}

static kd_status translate(const kd_graph *graph, program *out) {
  const kd_graph_table *read = sim_host->graph;
  bool written[VALUES] = {false};
  out->magic = MAGIC;
  out->nodes = read->node_count(graph);
  out->values = read->value_count(graph);
  if (out->nodes > NODES || out->values > VALUES || out->nodes == 0 ||
      read->input_count(graph) < 1 || read->input_count(graph) > INPUTS ||
      read->output_count(graph) != 1)
    return FAIL(KD_UNIMPLEMENTED, "a graph of %u nodes and %u outputs",
                out->nodes, read->output_count(graph));
  out->inputs = read->input_count(graph);
  out->output = read->output(graph, 0);
  if (out->output >= out->values)
    return FAIL(KD_INVALID_ARGUMENT, "the output is no value");
  for (uint32_t i = 0; i < out->inputs; i++) {
    uint32_t to = BUG(inputs_turned) ? out->inputs - 1 - i : i;
    uint32_t from = out->input[to] = read->input(graph, i);
    if (from >= out->values)
      return FAIL(KD_INVALID_ARGUMENT, "an input is no value");
    written[from] = true;
  }
  for (uint32_t i = 0; i < out->nodes; i++) {
    int op = find_op(read->node(graph, i));
    code *c = &out->steps[i];
    kd_type type = {0};
    if (op < 0) return FAIL(KD_UNIMPLEMENTED, "node %u", i);
    sim_host->node->output_type(read->node(graph, i), 0, &type);
    if (!out->dtype) out->dtype = type.dtype;
    if (type.dtype != out->dtype)
      return FAIL(KD_UNIMPLEMENTED, "node %u of another type", i);
    *c = (code){(uint32_t)op, read->node_input(graph, i, 0),
                read->node_input(graph, i, 1), read->node_output(graph, i, 0)};
    if (op == RELU || op == TANH) c->b = c->a;
    if (BUG(graph_unchecked)) {
      bool beyond = c->a >= out->values || c->b >= out->values ||
                    !written[c->a] || !written[c->b];
      if (beyond) abort();
    }
    if (c->a >= out->values || c->b >= out->values || c->to >= out->values ||
        !written[c->a] || !written[c->b])
      return FAIL(KD_UNIMPLEMENTED, "node %u reads a value that is not there",
                  i);
    written[c->to] = true;
  }
  if (!written[out->output])
    return FAIL(KD_UNIMPLEMENTED, "nothing writes the output");
  if (BUG(chain_skips) && out->nodes > 2) out->steps[2].a = out->steps[1].a;
  if (BUG(fuses_wrongly)) out->steps[1].op = MUL;
  return KD_OK;
}

static bool same_ops(const program *a, const program *b, bool wiring) {
  if (a->nodes != b->nodes || a->inputs != b->inputs || a->dtype != b->dtype)
    return false;
  for (uint32_t i = 0; i < a->nodes; i++)
    if (wiring ? memcmp(&a->steps[i], &b->steps[i], sizeof(code)) != 0
               : a->steps[i].op != b->steps[i].op)
      return false;
  return true;
}

/* Takes what was compiled first of those that are alike. */
static void take_kept(program *made) {
  static program kept[512];
  static uint32_t count;
  pthread_mutex_lock(&sim_lock);
  uint32_t i = 0;
  while (i < count && !same_ops(&kept[i], made, BUG(region_by_wiring)))
    i++;
  if (i < count)
    *made = kept[i];
  else if (count < 512)
    kept[count++] = *made;
  pthread_mutex_unlock(&sim_lock);
}

static kd_status mutants_region_compile(kd_device *device,
                                        const kd_compile *what,
                                        kd_region **out_region) {
  if (what->flags)
    return FAIL(KD_UNIMPLEMENTED, "compile flags 0x%x", what->flags);
  static program shared;
  program own = {0}, *code = &own;
  if (BUG(compile_static)) {
    code = &shared;
    memset(code, 0, sizeof *code);
    sim_nap(300);
  }
  kd_status status = sim_check(device);
  if (status == KD_OK) status = translate(what->graph, code);
  if (BUG(compile_static)) sim_nap(300);
  if (status != KD_OK) return status;
  kd_region *region = calloc(1, sizeof *region);
  if (!region) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  region->code = *code;
  if (BUG(region_by_ops) || BUG(region_by_wiring)) take_kept(&region->code);
  region->code.device = sim_index(device);
  region->device = device;
  sim_count(device, 1);
  *out_region = region;
  return KD_OK;
}

static uint64_t region_workspace(kd_region *region, const kd_launch *launch) {
  uint64_t n = launch->outputs[0].size / kd_dtype_size(region->code.dtype) *
               sizeof(float);
  return n * (region->code.values ? region->code.values : 1);
}

static kd_status mutants_region_enqueue(kd_region *region, kd_stream *stream,
                                        const kd_launch *launch) {
  if (!stream) sim_note_launch(region->device);
  SIM_TRY(sim_check(region->device));
  op_call *call = calloc(1, sizeof *call);
  if (!call) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  for (uint32_t i = 0; i < region->code.inputs && i < INPUTS; i++)
    call->in[i] = sim_arg(&launch->inputs[i]);
  call->out[0] = sim_arg(&launch->outputs[0]);
  call->scratch = sim_arg(&launch->workspace);
  call->correlation = launch->correlation;
  kd_status status = sim_push(
      stream, &(job){.kind = JOB_REGION, .region = region, .call = call});
  if (!stream || status != KD_OK) free(call); /* else the job has it */
  return status;
}

static float *region_at(const arg *a) {
  return (float *)(void *)(a->buffer ? sim_at(a->buffer, a->offset) : a->data);
}

/* What a step hands to others: rounded, as an op would. */
static float handed_on(float x, kd_dtype dtype) {
  int e = 0;
  if (BUG(region_eights) && dtype == KD_F16 && isfinite(x) && x != 0) {
    float m = frexpf(x, &e);
    return ldexpf(rintf(m * 8) / 8, e);
  }
  return dtype == KD_F32 || ODD(wide_regions) ? x
                                              : (float)dtype_round(x, dtype);
}

kd_status sim_run_region(kd_region *region, op_call *call) {
  const program *p = region->from ? region->from : &region->code;
  int64_t n = 1;
  for (uint32_t i = 0; i < (BUG(first_dim) ? 1 : call->in[0].rank); i++)
    n *= call->in[0].dims[i];
  float *values = region_at(&call->scratch);
  if (BUG(first_size)) {
    if (!region->first) region->first = n;
    if (region->first < n) n = region->first;
  }
  kd_dtype dtype = call->in[0].dtype, from = dtype;
  if (BUG(region_halves) && dtype == KD_BF16) from = KD_F16;
  if (!n) return KD_OK;
  if (BUG(region_alias_lie)) *region_at(&call->out[0]) = 0;
  for (uint32_t i = 0; i < p->inputs; i++)
    for (int64_t k = 0; k < n; k++)
      values[(int64_t)p->input[i] * n + k] =
          (float)dtype_load(region_at(&call->in[i]), from, k);
  for (uint32_t i = 0; i < p->nodes; i++) {
    const code *c = &p->steps[i];
    const float *a = values + (int64_t)c->a * n,
                *b = values + (int64_t)c->b * n;
    float *to = values + (int64_t)c->to * n;
    for (int64_t k = 0; k < n; k++)
      to[k] = handed_on(c->op == RELU  ? (a[k] < 0 ? 0 : a[k])
                        : c->op == ADD ? a[k] + b[k]
                        : c->op == MUL ? a[k] * b[k]
                                       : (float)tanh((double)a[k]),
                        dtype);
  }
  for (int64_t k = 0; k < n; k++)
    dtype_store(region_at(&call->out[0]), dtype, k,
                values[(int64_t)p->output * n + k]);
  return KD_OK;
}

static void mutants_region_destroy(kd_region *region) {
  sim_count(region->device, -1);
  free(region);
}

static uint64_t checksum(const program *p) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < sizeof *p; i++)
    hash = (hash ^ ((const uint8_t *)p)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

static kd_status serialize(kd_region *region, void **out_blob,
                           uint64_t *out_size) {
  uint64_t sum = checksum(&region->code);
  *out_size = sizeof(program) + 8;
  char *blob = sim_host->allocate(sim_host, *out_size, 8);
  if (!blob) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  memcpy(blob, &sum, 8);
  memcpy(blob + 8, &region->code, sizeof(program));
  if (BUG(blob_points)) memcpy(blob + 8, &region, sizeof region);
  *out_blob = blob;
  return KD_OK;
}

static kd_status mutants_region_validate(kd_device *device, const void *blob,
                                         uint64_t size) {
  program code;
  uint64_t sum = 0;
  uint32_t index = sim_index(device);
  if (size != sizeof code + 8)
    return FAIL(KD_DATA_LOSS, "%llu bytes", (unsigned long long)size);
  memcpy(&sum, blob, 8);
  memcpy(&code, (const char *)blob + 8, sizeof code);
  if (BUG(blob_points)) return KD_OK;
  if (code.magic != MAGIC) return FAIL(KD_INCOMPATIBLE, "another version");
  if (sum != checksum(&code) && !BUG(blob_unchecked))
    return FAIL(KD_DATA_LOSS, "the checksum is wrong");
  if (code.device != index)
    return FAIL(KD_INCOMPATIBLE, "made for device %u", code.device);
  return KD_OK;
}

static kd_status region_load(kd_device *device, const kd_compile *what,
                             const void *blob, uint64_t size,
                             kd_region **out_region) {
  program wanted = {0};
  kd_status status = sim_check(device);
  if (status == KD_OK) status = mutants_region_validate(device, blob, size);
  if (status == KD_OK) status = translate(what->graph, &wanted);
  if (status != KD_OK) return status;
  kd_region *region = calloc(1, sizeof *region);
  if (!region) return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  memcpy(&region->code, (const char *)blob + 8, sizeof region->code);
  wanted.device = region->code.device;
  bool alike = BUG(blob_by_ops)
                   ? same_ops(&wanted, &region->code, false)
                   : !memcmp(&wanted, &region->code, sizeof wanted);
  if (!alike && !BUG(blob_any_graph)) {
    free(region);
    return FAIL(KD_INCOMPATIBLE, "the compiled form is another graph's");
  }
  if (BUG(blob_points)) memcpy(&region->from, (const char *)blob + 8, 8);
  region->device = device;
  sim_count(device, 1);
  *out_region = region;
  return KD_OK;
}

/* All its tensors are of one type, and it reads all before it writes. */
static uint32_t aliases(kd_region *region, const kd_alias **out_aliases) {
  static const kd_alias any[INPUTS] = {
      {.input = 0}, {.input = 1}, {.input = 2}, {.input = 3}};
  *out_aliases = any;
  return region->code.inputs < INPUTS ? region->code.inputs : INPUTS;
}

const kd_region_table sim_regions = {
    .struct_size = sizeof(kd_region_table),
    .claim = mutants_region_claim,
    .compile = mutants_region_compile,
    .workspace = region_workspace,
    .enqueue = mutants_region_enqueue,
    .destroy = mutants_region_destroy,
    .serialize = serialize,
    .validate = mutants_region_validate,
    .load = region_load,
    .aliases = aliases,
};
