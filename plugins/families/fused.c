/* fused.c - chains as passes. */
#include "families/fused.h"

#include <stdio.h>
#include <string.h>

#include "families/ready.h"

/* ---- reading ---------------------------------------------------------------------- */

fam_reading *fam_reading_new(const fam_driver *driver, kd_device *device) {
  fam_reading *r = driver->host->allocate(driver->host, sizeof *r, 0);
  if (!r) return NULL;
  memset(r, 0, sizeof *r);
  r->driver = driver;
  r->device = device;
  return r;
}

static const fam_row *fused_row_of(const fam_driver *driver,
                                   const kd_node *node) {
  const char *name = driver->host->node->op(node);
  const char *domain = driver->host->node->domain(node);
  for (uint32_t i = 0; i < fam_row_count; i++)
    if (!strcmp(fam_rows[i].op, name) &&
        !strcmp(fam_rows[i].domain ? fam_rows[i].domain : "ai.onnx", domain))
      return &fam_rows[i];
  return NULL;
}

kd_status fam_read_term(fam_reading *r, const kd_node *node) {
  const kd_host *host = r->driver->host;
  const fam_row *row = fused_row_of(r->driver, node);
  if (!row)
    return host->fail(KD_UNIMPLEMENTED, "%s is not elementwise",
                      host->node->op(node));
  memset(&r->plan, 0, sizeof r->plan);
  fam_plan_begin(&r->plan, r->driver);
  kd_status status = fam_read(&r->op, host, node, row, NULL);
  if (status == KD_OK) status = fam_has_types(r->driver, &r->op);
  if (status != KD_OK) return status;
  if (fam_term_of(&r->op, &r->plan, &r->term) && r->term.operands &&
      fam_has_type(r->driver, r->term.compute))
    return KD_OK;
  return r->plan.status != KD_OK
             ? r->plan.status
             : host->fail(KD_UNIMPLEMENTED, "%s is not elementwise",
                          host->node->op(node));
}

bool fam_read_root(fam_reading *r, const kd_node *node) {
  const kd_host *host = r->driver->host;
  const fam_row *row = fused_row_of(r->driver, node);
  return row && host->node->output_count(node) == 1 &&
         fam_read(&r->op, host, node, row, NULL) == KD_OK &&
         fam_is_root(&r->op) && fam_has_types(r->driver, &r->op) == KD_OK;
}

bool fam_read_epilogue(const fam_reading *r, const kd_graph *graph,
                       uint32_t root, const uint32_t *nodes, uint32_t count,
                       const fam_gemm *gemm, fam_epilogue *out) {
  return fam_epilogue_of(r->driver->host, graph, root, nodes, count, out) &&
         (out->row == FAM_NO_VALUE || !*gemm->row) &&
         (out->added == FAM_NO_VALUE || !*gemm->added);
}

/* ---- the pass --------------------------------------------------------------------- */

static const char *const loaded[] = {"x",  "y",  "z",  "w",
                                     "x4", "x5", "x6", "x7"};

/* A chain that is being written down. */
typedef struct chain {
  fam_reading *r;
  const kd_graph *graph;
  fam_map map;
  fam_tensor inputs[CHAIN_INPUTS]; /* of the graph; dtype KD_NONE: not met */
  uint32_t root;                   /* CHAIN_NO_ROOT: there is none */
  char steps[2048];
  size_t size;
  kd_dtype compute;
} chain;

static void fused_put(chain *c, const char *text) {
  size_t size = strlen(text);
  if (c->size + size < sizeof c->steps)
    memcpy(c->steps + c->size, text, size + 1);
  c->size += size; /* too much shows */
}

/* Looks at a node: which inputs of the graph it reads, as what. */
static kd_status fused_meet(chain *c, uint32_t node) {
  const kd_host *host = c->r->driver->host;
  kd_status status = fam_read_term(c->r, host->graph->node(c->graph, node));
  for (uint32_t i = 0; status == KD_OK && i < c->r->term.operands; i++) {
    chain_operand from;
    uint32_t input = c->r->term.inputs[i];
    status = chain_find(host, c->graph, node, input, &from);
    if (status == KD_OK && !from.node)
      c->inputs[from.index] = c->r->op.in[input];
  }
  if (status != KD_OK) return status;
  if (!c->compute) c->compute = fam_compute(c->r->term.compute);
  return c->compute == fam_compute(c->r->term.compute)
             ? KD_OK
             : host->fail(KD_UNIMPLEMENTED, "a chain of two types");
}

/* Its expression as a macro of what it reads, and a step that calls it. */
static kd_status write_step(chain *c, fam_pass *pass, uint32_t node) {
  const kd_host *host = c->r->driver->host;
  const fam_term *term = &c->r->term;
  char name[96], text[256], args[80] = "", given[160] = "";
  kd_status status = fam_read_term(c->r, host->graph->node(c->graph, node));
  for (uint32_t i = 0; status == KD_OK && i < term->operands; i++) {
    chain_operand from;
    status = chain_find(host, c->graph, node, term->inputs[i], &from);
    if (status != KD_OK) break;
    size_t a = strlen(args), g = strlen(given);
    snprintf(args + a, sizeof args - a, "%s%s", i ? ", " : "", loaded[i]);
    if (from.node)
      snprintf(given + g, sizeof given - g, "%sv%u", i ? ", " : "", from.index);
    else
      snprintf(given + g, sizeof given - g, "%s%s", i ? ", " : "",
               loaded[from.index]);
  }
  if (status != KD_OK) return status;
  for (int i = 0; i < 2; i++) {
    const char *letter = i ? "b" : "a";
    if (i ? !term->has_b : !term->has_a) continue;
    snprintf(name, sizeof name, "%c%u", i ? 'B' : 'A', node);
    fam_real(pass, name, i ? term->b : term->a);
    size_t a = strlen(args), g = strlen(given);
    snprintf(args + a, sizeof args - a, ", %s", letter);
    snprintf(given + g, sizeof given - g, ", CAST(V, %s)", name);
  }
  snprintf(name, sizeof name, "E%u(%s)", node, args);
  fam_define(pass, name, "(%s)", term->text);
  kd_dtype out = c->r->op.out[0].dtype;
  const char *type = kd_dtype_name(fam_compute(out));
  bool narrow = !fam_is_float(out) && out != KD_BOOL && kd_dtype_size(out) < 4;
  snprintf(text, sizeof text, "%s v%u = %s%s(CAST(%s, ", type, node,
           narrow ? "CUT_" : "", narrow ? type : "", type);
  fused_put(c, text);
  snprintf(text, sizeof text, "E%u(%s))); ", node, given);
  fused_put(c, text);
  return KD_OK;
}

/* Steps of all nodes but the root. */
static kd_status write_steps(chain *c, fam_pass *pass) {
  uint32_t nodes = c->r->driver->host->graph->node_count(c->graph);
  fam_define_language(pass, c->compute);
  for (uint32_t i = 0; i < nodes; i++) {
    kd_status status = i == c->root ? KD_OK : write_step(c, pass, i);
    if (status != KD_OK) return status;
  }
  fam_define(pass, "STEPS", "%s", c->steps);
  return KD_OK;
}

static void bind_input(chain *c, fam_pass *pass, uint32_t index) {
  char name[16];
  snprintf(name, sizeof name, "X%u", index);
  fam_bind(pass, name, FAM_INPUT, index, c->inputs[index].dtype);
}

/* A pass of its own. */
static kd_status plan_alone(chain *c, fam_plan *plan) {
  const kd_host *host = c->r->driver->host;
  uint32_t inputs = host->graph->input_count(c->graph);
  char name[16];
  fam_map_begin(&c->map, &c->r->op); /* the last node's */
  kd_dtype out = c->r->op.out[0].dtype;
  for (uint32_t i = 0; i < inputs; i++) {
    if (!c->inputs[i].dtype)
      return host->fail(KD_UNIMPLEMENTED, "input %u is not read", i);
    fam_map_broadcast(&c->map, &c->inputs[i]);
  }
  snprintf(name, sizeof name, "v%u", host->graph->node_count(c->graph) - 1);
  fam_pass *pass = fam_map_pass(plan, &c->map, c->compute, name);
  kd_status status = write_steps(c, pass);
  for (uint32_t i = 0; i < inputs; i++)
    bind_input(c, pass, i);
  fam_bind(pass, "Z", FAM_OUTPUT, 0, out);
  return status;
}

/* ---- on a root -------------------------------------------------------------------------- */

/* The root's pass, whose buffers are the graph's. */
static kd_status plan_root(chain *c, fam_plan *plan) {
  const kd_host *host = c->r->driver->host;
  if (!fam_read_root(c->r, host->graph->node(c->graph, c->root)) ||
      fam_compute(c->r->op.out[0].dtype) != c->compute)
    return host->fail(KD_UNIMPLEMENTED, "nothing can be computed on node %u",
                      c->root);
  kd_status status = fam_make(plan, &c->r->op, c->r->op.row);
  if (status == KD_OK && plan->count != 1)
    status = host->fail(KD_INTERNAL, "a root has %u passes", plan->count);
  for (uint32_t i = 0; status == KD_OK && i < plan->passes->buffer_count; i++) {
    fam_buffer *buffer = &plan->passes->buffers[i];
    chain_operand from = {0};
    if (buffer->place != FAM_INPUT) continue;
    status = chain_find(host, c->graph, c->root, buffer->index, &from);
    if (status == KD_OK && from.node)
      status = host->fail(KD_UNIMPLEMENTED, "the root reads a step's result");
    buffer->index = (uint8_t)from.index;
  }
  return status;
}

/* What a library is told of it, where it knows all that is behind the root. */
static void tell_library(chain *c, fam_pass *pass) {
  const kd_graph_table *read = c->r->driver->host->graph;
  uint32_t nodes[CHAIN_NODES], count = 0;
  fam_epilogue epilogue;
  for (uint32_t i = 0; i < read->node_count(c->graph); i++)
    if (i != c->root) nodes[count++] = i;
  bool good = pass->what == FAM_GEMM &&
              fam_read_epilogue(c->r, c->graph, c->root, nodes, count,
                                &pass->gemm, &epilogue);
  if (!good) {
    pass->what = FAM_KERNEL;
    return;
  }
  pass->gemm.fused = true;
  pass->gemm.activation = epilogue.activation;
  for (uint32_t i = 0; i < read->input_count(c->graph); i++) {
    uint32_t value = read->input(c->graph, i);
    if (value == epilogue.row)
      snprintf(pass->gemm.row, sizeof pass->gemm.row, "X%u", i);
    if (value != epilogue.added) continue;
    snprintf(pass->gemm.added, sizeof pass->gemm.added, "X%u", i);
    pass->gemm.beta = 1;
  }
}

/* How an input is found for element e_ of the result, and its name in the steps. */
static kd_status write_operand(chain *c, fam_plan *plan, fam_pass *pass,
                               uint32_t index, const kd_type *out, char *text,
                               size_t room) {
  const kd_host *host = c->r->driver->host;
  const fam_tensor *in = &c->inputs[index];
  kd_type type = {.dims = in->dims, .dtype = in->dtype, .rank = in->rank};
  int64_t inner = 0, count = 0;
  char name[16];
  if (!fam_block_of(out, &type, &inner, &count))
    return host->fail(KD_UNIMPLEMENTED,
                      "input %u does not go along the result's elements",
                      index);
  if (pass->buffer_count == FAM_BUFFERS)
    return host->fail(KD_UNIMPLEMENTED, "too many buffers");
  int64_t all = 1;
  for (uint32_t i = 0; i < out->rank; i++)
    all *= out->dims[i];
  size_t used = strlen(text);
  bind_input(c, pass, index);
  if (inner == 1 && (count == 1 || count == all)) { /* no division for each */
    snprintf(text + used, room - used, "X%u_t %s = X%u(%s); ", index,
             loaded[index], index, count == all ? "e_" : "0");
    return KD_OK;
  }
  snprintf(name, sizeof name, "INNER%u", index);
  fam_int(plan, pass, name, inner);
  snprintf(name, sizeof name, "COUNT%u", index);
  fam_int(plan, pass, name, count);
  snprintf(text + used, room - used,
           "X%u_t %s = X%u(e_ / INNER%u %% COUNT%u); ", index, loaded[index],
           index, index, index);
  return KD_OK;
}

/* The root's pass goes on with each element v of what it makes. */
static kd_status plan_on_root(chain *c, fam_plan *plan) {
  const kd_host *host = c->r->driver->host;
  const char *type = kd_dtype_name(c->compute);
  char operands[CHAIN_INPUTS * 56] = "";
  kd_status status = plan_root(c, plan);
  if (status != KD_OK) return status;
  fam_pass *pass = plan->passes;
  const fam_tensor made = c->r->op.out[0];
  kd_type out = {.dims = made.dims, .dtype = made.dtype, .rank = made.rank};
  tell_library(c, pass);
  for (uint32_t i = 0; i < host->graph->input_count(c->graph); i++) {
    if (!c->inputs[i].dtype) continue; /* the root's alone */
    status = write_operand(c, plan, pass, i, &out, operands, sizeof operands);
    if (status != KD_OK) return status;
  }
  status = write_steps(c, pass);
  fam_define(pass, "GIVE(i, v)",
             "{ IDX e_ = (i); %s v%u = CAST(%s, v); %sSTEPS SET_Z(e_, v%u); }",
             type, c->root, type, operands,
             host->graph->node_count(c->graph) - 1);
  return status;
}

static kd_status plan_chain(chain *c, fam_plan *plan) {
  const kd_host *host = c->r->driver->host;
  uint32_t nodes = host->graph->node_count(c->graph);
  c->root = CHAIN_NO_ROOT;
  for (uint32_t i = 0; i < nodes && c->root == CHAIN_NO_ROOT; i++)
    if (fam_read_root(c->r, host->graph->node(c->graph, i))) c->root = i;
  kd_status status = chain_check(host, c->graph, c->root);
  for (uint32_t i = 0; status == KD_OK && i < nodes; i++)
    if (i != c->root) status = fused_meet(c, i);
  if (status != KD_OK) return status;
  status =
      c->root == CHAIN_NO_ROOT ? plan_alone(c, plan) : plan_on_root(c, plan);
  if (status != KD_OK || plan->status != KD_OK)
    return status == KD_OK ? plan->status : status;
  const fam_pass *pass = plan->passes;
  return c->size < sizeof c->steps && pass->head_size < FAM_HEAD - 1 &&
                 pass->param_count < FAM_PARAMS
             ? KD_OK
             : host->fail(KD_UNIMPLEMENTED, "too long a chain, of %u ops",
                          nodes);
}

typedef struct making {
  const fam_driver *driver;
  const kd_graph *graph;
  fam_reading *reading;
  chain *chain;
} making;

static kd_status make_plan(void *context, fam_plan *plan) {
  const making *of = context;
  memset(of->chain, 0, sizeof *of->chain);
  of->chain->r = of->reading;
  of->chain->graph = of->graph;
  return plan_chain(of->chain, plan);
}

static uint64_t fused_size_of(const kd_host *host, const kd_graph *graph,
                              uint32_t value) {
  kd_type type = {0};
  if (host->graph->value_type(graph, value, &type) != KD_OK) return 0;
  uint64_t size = kd_dtype_size(type.dtype);
  for (uint32_t i = 0; i < type.rank; i++)
    size *= (uint64_t)type.dims[i];
  return size;
}

/* What its pass reads and makes, and the root that it stands on. */
static void fused_describe(const making *of, fam_maker *maker) {
  const kd_host *host = of->driver->host;
  const kd_graph_table *read = host->graph;
  uint32_t nodes = read->node_count(of->graph);
  for (uint32_t i = 0; i < nodes && !maker->node; i++)
    if (fam_read_root(of->reading, read->node(of->graph, i)))
      maker->node = read->node(of->graph, i);
  maker->behind = nodes - 1;
  for (uint32_t i = 0; i < read->input_count(of->graph); i++)
    if (i < FAM_INPUTS)
      maker->in[i] = fused_size_of(host, of->graph, read->input(of->graph, i));
  maker->out[0] = fused_size_of(host, of->graph, read->output(of->graph, 0));
}

kd_status fam_plan_fused(const fam_driver *driver, kd_device *device,
                         const kd_graph *graph, fam_plan *plan) {
  const kd_host *host = driver->host;
  making of = {.driver = driver,
               .graph = graph,
               .reading = fam_reading_new(driver, device),
               .chain = host->allocate(host, sizeof *of.chain, 0)};
  fam_maker maker = {.make = make_plan, .context = &of};
  kd_status status =
      of.reading && of.chain
          ? KD_OK
          : host->fail(KD_OUT_OF_MEMORY, "no memory for a chain");
  if (status == KD_OK) {
    fused_describe(&of, &maker);
    status = fam_plan_tuned(driver, device, &maker, plan);
  }
  if (of.chain) host->release(host, of.chain);
  if (of.reading) host->release(host, of.reading);
  return status;
}
