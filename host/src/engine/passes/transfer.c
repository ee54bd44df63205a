/* transfer.c - copies between memories as nodes of the program.
 *
 * Copies that can't be decided before types are known are left to the launch of the kernel, which
 * copies for itself. */
#include "memory/transfer.h"

#include "device/device.h"
#include "eager/call_site.h"
#include "ops/runtime.h"
#include "passes/passes.h"

typedef struct replica {
  uint32_t value; /* the same data */
  keel_device *location;
  struct replica *next;
} replica;

/* Where a value lies: on the device, or, where it is NULL or addressable, in host
 * memory. */
typedef struct location {
  bool known;
  keel_device *device;
  replica *replicas;
} location;

typedef struct transfer {
  keel_function *function;
  keel_device *device; /* of nodes that name none */
  keel_placed *placed; /* or NULL */
  location *locations; /* by value */
  uint32_t values;     /* places there are */
  keel_arena arena;    /* of the replicas */
} transfer;

/* Where a node runs, and the copies that it needs there. */
typedef struct reader {
  bool known;
  keel_device *device;
  uint32_t host;      /* inputs to be in host memory, by bit */
  uint32_t untouched; /* inputs that it does not read, by bit */
  uint32_t host_outputs;
} reader;

/* ---- readers and their memories ------------------------------------------- */

/* The runtime's own ops read no data but these. */
static uint32_t read_by_runtime(const keel_schema *schema) {
  if (!(schema->flags & KEEL_OP_CONTROL)) return schema->value_inputs;
  return schema->kind == KEEL_IF ? 1 : schema->kind == KEEL_LOOP ? 3 : 0;
}

static reader transfer_choose(const keel_function *function,
                              keel_device *wanted, const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  keel_view view;
  keel_device *device = NULL;
  const kd_kernel_def *def = NULL;
  bool listed = keel_device_kernels(wanted, schema->domain, schema->name);
  bool known = keel_view_make(function, node, &view) &&
               keel_choose_kernel(function->context, wanted, &view.node,
                                  node->name, &device, &def) == KD_OK;
  keel_view_drop(&view);
  if (known)
    return (reader){.known = true,
                    .device = device,
                    .host = def->host_inputs,
                    .host_outputs = def->host_outputs};
  return (reader){
      .known = listed, .device = wanted, .host = schema->value_inputs};
}

static reader transfer_read_node(const keel_function *function,
                                 keel_device *device, const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  keel_device *wanted = node->device ? node->device : device;
  if (keel_schema_hosted(schema)) {
    uint32_t host = read_by_runtime(schema);
    return (reader){.known = true, .host = host, .untouched = ~host};
  }
  if (node->region)
    return (reader){.known = true, .device = node->region->device};
  if (!wanted) return (reader){0};
  /* the common case, which needs no query */
  if (keel_device_addressable(wanted) &&
      keel_device_kernels(wanted, schema->domain, schema->name))
    return (reader){.known = true, .device = wanted};
  return transfer_choose(function, wanted, node);
}

/* Whether any kernel is to run in memory that the host can't reach. */
static bool leaves_host(const keel_function *functions, keel_device *device) {
  for (const keel_function *f = functions; f; f = f->next)
    for (uint32_t i = 0; i < f->node_count; i++) {
      if (f->nodes[i].dead) continue;
      reader at = transfer_read_node(f, device, &f->nodes[i]);
      if (!keel_device_addressable(at.device)) return true;
    }
  return false;
}

/* ---- copies --------------------------------------------------------------- */

static keel_status add_replica(transfer *all, uint32_t value, uint32_t same,
                               keel_device *device) {
  replica *made = keel_arena_take(&all->arena, sizeof *made);
  if (!made) return KD_OUT_OF_MEMORY;
  *made = (replica){same, device, all->locations[value].replicas};
  all->locations[value].replicas = made;
  return KD_OK;
}

/* A constant is brought there before the run, or at its first use (memory/late.h). */
static keel_status place_constant(transfer *all, uint32_t value,
                                  keel_device *device, uint32_t *out_replica) {
  keel_function *function = all->function;
  keel_tensor *constant = function->values[value].constant, *placed = NULL;
  if (device) KEEL_TRY(keel_device_ready(device));
  const char *name = function->values[value].name;
  keel_status status =
      keel_place_constant(all->placed, constant, device, &placed);
  char type[200];
  if (status != KD_OK)
    return keel_while(status, "for the constant \"%s\", %s", name,
                      keel_type_text(constant->type, type, sizeof type));
  uint32_t made = keel_function_constant(function, name, constant);
  if (made == KEEL_ABSENT) {
    keel_tensor_release(placed);
    return KD_OUT_OF_MEMORY;
  }
  function->values[made].placed = placed;
  *out_replica = made;
  return KD_OK;
}

static keel_status add_copy(transfer *all, uint32_t value, keel_device *device,
                            uint32_t *out_replica) {
  keel_function *function = all->function;
  const char *name = function->values[value].name;
  bool to_host = keel_device_addressable(device);
  const keel_attr host = {.name = "host", .kind = KD_ATTR_INT, .i = 1};
  keel_opdef *op = NULL;
  keel_node *node = NULL;
  uint32_t made = keel_function_value(function, name);
  if (made == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  function->values[made].type = function->values[value].type;
  KEEL_TRY(keel_opdef_create(function->context, keel_schema_of_kind(KEEL_COPY),
                             &host, to_host, NULL, &op));
  KEEL_TRY(keel_function_node(function, op, name, &value, 1, &made, 1, &node));
  /* the device whose memory is written, or read */
  node->device = to_host ? all->locations[value].device : device;
  *out_replica = made;
  return KD_OK;
}

/* The same data for a reader on `device` (addressable: in host memory): the value itself,
 * or a replica. */
static keel_status transfer_bring(transfer *all, uint32_t value,
                                  keel_device *device, uint32_t *out_value) {
  location *at = &all->locations[value];
  bool to_host = keel_device_addressable(device);
  if (to_host) device = NULL;
  *out_value = value;
  if (at->known && (at->device == device ||
                    (to_host && keel_device_addressable(at->device))))
    return KD_OK;
  for (const replica *t = at->replicas; t; t = t->next)
    if (t->location == device) {
      *out_value = t->value;
      return KD_OK;
    }
  uint32_t from = value;
  if (all->function->values[value].constant) {
    KEEL_TRY(place_constant(all, value, device, out_value));
    return add_replica(all, value, *out_value, device);
  }
  /* from device to device through the host, for all that read it there too */
  bool detour = !to_host && at->known && !keel_device_addressable(at->device) &&
                !keel_transfer_direct(at->device, device);
  if (detour) KEEL_TRY(transfer_bring(all, value, NULL, &from));
  KEEL_TRY(add_copy(all, from, device, out_value));
  return add_replica(all, value, *out_value, device);
}

/* ---- the pass ------------------------------------------------------------- */

static void note_outputs(transfer *all, const keel_node *node,
                         const reader *at) {
  const keel_schema *schema = node->op->schema;
  bool hosted = keel_schema_hosted(schema);
  bool passes = schema->kind == KEEL_IDENTITY || schema->kind == KEEL_VIEW;
  for (uint32_t i = 0; i < node->output_count; i++) {
    uint32_t value = node->outputs[i];
    if (value == KEEL_ABSENT) continue;
    if (passes && node->input_count && node->inputs[0] < all->values) {
      const location *from = &all->locations[node->inputs[0]];
      all->locations[value] = (location){from->known, from->device, NULL};
    } else if (hosted) {
      all->locations[value] = (location){.known = schema->kind == KEEL_FACT};
    } else {
      bool host = i < 32 && (at->host_outputs >> i & 1);
      all->locations[value] =
          (location){at->known, host ? NULL : at->device, NULL};
    }
  }
}

static keel_status transfer_visit(transfer *all, uint32_t index) {
  keel_function *function = all->function;
  reader at =
      transfer_read_node(function, all->device, &function->nodes[index]);
  note_outputs(all, &function->nodes[index], &at);
  if (!at.known) return KD_OK;
  for (uint32_t i = 0; i < function->nodes[index].input_count; i++) {
    uint32_t value = function->nodes[index].inputs[i], plugin_op = 0;
    bool untouched = i < 32 ? (at.untouched >> i & 1) : at.untouched != 0;
    bool host = i < 32 && (at.host >> i & 1);
    if (value >= all->values || untouched) continue; /* KEEL_ABSENT too */
    KEEL_TRY(transfer_bring(all, value, host ? NULL : at.device, &plugin_op));
    /* `bring` may move the nodes */
    function->nodes[index].inputs[i] = plugin_op;
  }
  return KD_OK;
}

static keel_status transfer_run(transfer *all) {
  keel_function *function = all->function;
  uint32_t count = function->node_count;
  for (uint32_t i = 0; i < all->values; i++) {
    const keel_tensor *constant = function->values[i].constant;
    if (constant)
      all->locations[i] =
          (location){.known = true, .device = keel_tensor_location(constant)};
  }
  for (uint32_t i = 0; i < count; i++)
    if (!function->nodes[i].dead) KEEL_TRY(transfer_visit(all, i));
  return keel_function_sort(function);
}

keel_status keel_pass_transfer(keel_function *functions,
                               const keel_pass_call *call) {
  keel_device *device = call->device;
  keel_status status = KD_OK;
  if (!leaves_host(functions, device)) return KD_OK;
  for (keel_function *f = functions; f && status == KD_OK; f = f->next) {
    transfer all = {.function = f,
                    .device = device,
                    .placed = call->placed,
                    .values = f->value_count};
    all.locations = calloc(all.values + 1, sizeof *all.locations);
    status = all.locations ? transfer_run(&all)
                           : keel_no_memory(all.values * sizeof *all.locations);
    free(all.locations);
    keel_arena_free(&all.arena);
  }
  return status;
}
