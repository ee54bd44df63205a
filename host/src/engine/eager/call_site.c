/* call_site.c - finds or makes a specialisation for the inputs' types, and runs it. */
#include "eager/call_site.h"
#include "device/context.h"
#include "memory/access.h"
#include "ops/registry.h"
#include "ops/runtime.h"

#include "device/lost.h"
#include "eager/launch.h"
#include "memory/copy.h"
#include "memory/layout.h"
#include "threads/cancel.h"
#include "trace/trace.h"
#include "values/strings.h"

#define FEW 16

void keel_call_site_init(keel_call_site *site, keel_opdef *op,
                         const char *where, keel_device *pinned) {
  memset(site, 0, sizeof *site);
  site->op = op;
  site->where = where ? where : "";
  site->pinned = pinned;
}

static void spec_free(keel_specialisation *spec) {
  if (spec) keel_instance_release(spec->instance);
  free(spec);
}

void keel_call_site_deinit(keel_call_site *site) {
  for (uint32_t i = 0; i < KEEL_CALL_SITE_SLOTS; i++)
    spec_free(atomic_load_explicit(&site->slots[i], memory_order_acquire));
  keel_more_specs *more =
      atomic_load_explicit(&site->more, memory_order_acquire);
  for (uint32_t i = 0; more && i < KEEL_CALL_SITE_MORE; i++)
    spec_free(atomic_load_explicit(&more->slots[i], memory_order_acquire));
  free(more);
}

/* ---- inference ------------------------------------------------------------ */

/* Collects the host values of the inputs that the shape function reads. */
static keel_status host_values(const keel_call_site *site,
                               keel_tensor *const *inputs, uint32_t count,
                               keel_tensor **values) {
  uint32_t wanted = site->op->schema->value_inputs;
  for (uint32_t i = 0; i < count; i++)
    values[i] = NULL;
  for (uint32_t i = 0; i < count && i < 32; i++)
    if ((wanted >> i & 1) && inputs[i])
      KEEL_TRY(keel_tensor_to_host(inputs[i], &values[i]));
  return KD_OK;
}

static keel_status infer(const keel_call_site *site, keel_tensor *const *inputs,
                         uint32_t n, const keel_type **in,
                         const keel_type **out, uint32_t m) {
  keel_tensor *few[FEW];
  keel_tensor **values = n <= FEW ? few : malloc(n * sizeof *values);
  if (!values) return keel_no_memory(n * sizeof *values);
  keel_infer all = {
      .op = site->op,
      .where = site->where,
      .input_count = n,
      .output_count = m,
      .in = in,
      .values = values,
      .out = out,
  };
  keel_status status = host_values(site, inputs, n, values);
  for (uint32_t i = 0; i < n; i++)
    in[i] = inputs[i] ? inputs[i]->type : NULL;
  for (uint32_t i = 0; i < m; i++)
    out[i] = NULL;
  for (uint32_t i = 0; i < n && status == KD_OK; i++)
    if (inputs[i] && inputs[i]->kind != KEEL_DATA &&
        !keel_is_strings(inputs[i]) &&
        !keel_schema_takes_resource(site->op->schema, i))
      status = keel_infer_fail(&all, KD_INVALID_ARGUMENT,
                               "input %u is not a tensor", (unsigned)i);
  if (status == KD_OK) status = keel_infer_types(&all);
  for (uint32_t i = 0; i < n; i++)
    keel_tensor_release(values[i]);
  if (values != few) free(values);
  return status;
}

/* ---- specialisations ------------------------------------------------------------- */

static inline uint32_t layout_of(const keel_tensor *tensor) {
  return tensor ? tensor->layout : KD_LAYOUT_ROW_MAJOR;
}

static inline bool matches(const keel_specialisation *spec, keel_device *wanted,
                           keel_tensor *const *inputs, uint32_t n, uint32_t m,
                           bool any_own) {
  if (!spec || spec->wanted != wanted || spec->input_count != n ||
      spec->output_count != m || !spec->came == any_own)
    return false;
  for (uint32_t i = 0; i < n; i++)
    if ((inputs[i] ? inputs[i]->type : NULL) != spec->types[i] ||
        (any_own && layout_of(inputs[i]) != spec->came[i]))
      return false;
  return true;
}

/* Whether a type is the one that the region was compiled for, if it was compiled for
 * one. */
static bool is_wanted(const keel_type *wanted, const keel_type *type) {
  if (!wanted || wanted == type) return true;
  if (keel_type_known(wanted) || wanted->dtype != type->dtype ||
      wanted->rank != type->rank)
    return false;
  for (uint32_t i = 0; i < type->rank; i++)
    if (wanted->dims[i] >= 0 && wanted->dims[i] != type->dims[i]) return false;
  return true;
}

static keel_status region_types(const keel_call_site *site,
                                keel_tensor *const *inputs, uint32_t n,
                                const keel_type **in, const keel_type **out,
                                uint32_t m) {
  const keel_region *region = site->region;
  bool same = region->input_count == n && region->output_count == m;
  for (uint32_t i = 0; same && i < n; i++)
    same = inputs[i] && inputs[i]->kind == KEEL_DATA &&
           is_wanted(region->types[i], inputs[i]->type);
  if (!same)
    return keel_fail(KD_INTERNAL,
                     "%s \"%s\" is called with other types than it was"
                     " compiled for",
                     site->op->schema->name, site->where);
  for (uint32_t i = 0; i < n; i++)
    in[i] = inputs[i]->type;
  if (region->shapes) return region->infer(region, in, out);
  for (uint32_t i = 0; i < m; i++)
    out[i] = region->types[n + i];
  return KD_OK;
}

/* Whether the layouts belong to this device and the output has a size in its layout.
 * Another device's layout numbers mean nothing here. */
static bool knows_layouts(const keel_specialisation *spec,
                          keel_tensor *const *inputs) {
  keel_device *device = spec->device;
  const struct kd_node *node = &spec->node;
  for (uint32_t i = 0; i < node->input_count; i++)
    if (keel_node_layout(node, i) && keel_tensor_location(inputs[i]) != device)
      return false;
  if (!node->output_layout) return true;
  if (keel_device_enter(device) != KD_OK)
    return true; /* the caller that runs it reports it */
  uint64_t size =
      keel_layout_size(device, node->outputs[0], node->output_layout);
  keel_lost_leave(device);
  return size > 0;
}

/* Finds the device: the one that compiled the region, or the chosen one. */
static keel_status choose_kernel(const keel_call_site *site,
                                 keel_device *wanted,
                                 keel_tensor *const *inputs,
                                 keel_specialisation *spec,
                                 const kd_kernel_def **out_def) {
  keel_context *context = site->op->context;
  if (site->region) {
    spec->node.layouts = NULL; /* it takes rows */
    spec->node.output_layout = KD_LAYOUT_ROW_MAJOR;
    spec->device = site->region->device;
    *out_def = &site->region->def;
    return KD_OK;
  }
  keel_status status = keel_choose_kernel(context, wanted, &spec->node,
                                          site->where, &spec->device, out_def);
  bool any_own = spec->node.layouts || spec->node.output_layout;
  if (!any_own || (status == KD_OK && knows_layouts(spec, inputs)))
    return status;
  /* no kernel takes the layouts: the launch converts the inputs to row-major */
  spec->node.layouts = NULL;
  spec->node.output_layout = KD_LAYOUT_ROW_MAJOR;
  return keel_choose_kernel(context, wanted, &spec->node, site->where,
                            &spec->device, out_def);
}

static keel_status find_kernel(const keel_call_site *site, keel_device *wanted,
                               keel_tensor *const *inputs,
                               keel_specialisation *spec,
                               const kd_kernel_def **out_def) {
  keel_status status = choose_kernel(site, wanted, inputs, spec, out_def);
  if (status == KD_OK)
    keel_choose_tell(site->op->context, wanted, &spec->node, site->where,
                     spec->device);
  return status;
}

static keel_status call_site_bind(keel_call_site *site, keel_device *wanted,
                                  keel_tensor *const *inputs, uint32_t n,
                                  uint32_t m, bool any_own,
                                  keel_specialisation **out_spec) {
  if (site->settled)
    return keel_fail(KD_INTERNAL,
                     "%s \"%s\" has no kernel for these inputs, and the weights"
                     " for another are gone",
                     site->op->schema->name, site->where);
  size_t types = sizeof(keel_specialisation) + (n + m) * sizeof(keel_type *);
  keel_specialisation *spec =
      calloc(1, types + (any_own ? n : 0) * sizeof(uint32_t));
  if (!spec) return keel_no_memory(types);
  if (any_own) spec->came = (uint32_t *)(void *)((char *)spec + types);
  for (uint32_t i = 0; any_own && i < n; i++)
    spec->came[i] = layout_of(inputs[i]);
  const keel_type **in = spec->types, **out = spec->types + n;
  const keel_schema *schema = site->op->schema;
  keel_context *context = site->op->context;
  spec->wanted = wanted;
  spec->input_count = n;
  spec->output_count = m;
  spec->outputs_known = !schema->value_inputs;
  keel_status status = site->region ? region_types(site, inputs, n, in, out, m)
                                    : infer(site, inputs, n, in, out, m);
  spec->node = (struct kd_node){
      .op = site->op,
      .name = site->where,
      .input_count = n,
      .output_count = m,
      .inputs = in,
      .outputs = out,
      .constants = site->constants,
      .layouts = spec->came,
      .output_layout = site->output_layout,
  };
  const kd_kernel_def *def = NULL;
  if (status == KD_OK) status = find_kernel(site, wanted, inputs, spec, &def);
  if (status == KD_OK) {
    keel_instance_key key = {
        .device = spec->device,
        .def = def,
        .op = site->op,
        .name = site->where,
        .inputs = in,
        .outputs = out,
        .input_count = n,
        .output_count = m,
        .constants = def->create ? site->constants : NULL,
        .varies = site->varies,
        .layouts = spec->node.layouts,
        .output_layout = spec->node.output_layout,
    };
    status = keel_instance_get(context->kernels, &key, &spec->instance);
  }
  if (status != KD_OK) {
    spec_free(spec);
    return status;
  }
  *out_spec = spec;
  return KD_OK;
}

/* Whether two specialisations serve the same calls. */
static bool call_site_is_same(const keel_specialisation *a,
                              const keel_specialisation *b) {
  uint32_t n = a->input_count, m = a->output_count;
  return a->wanted == b->wanted && n == b->input_count &&
         m == b->output_count && !a->came == !b->came &&
         !memcmp(a->types, b->types, n * sizeof *a->types) &&
         (!a->came || !memcmp(a->came, b->came, n * sizeof *a->came));
}

/* Puts it there, if there is none; *out_same: an equal one is there. */
static bool call_site_put(_Atomic(keel_specialisation *) *slot,
                          keel_specialisation *spec, bool *out_same) {
  keel_specialisation *there = NULL;
  /* release: publishes the specialisation; acquire: pairs with another thread's
   * release */
  bool put = atomic_compare_exchange_strong_explicit(
      slot, &there, spec, memory_order_release, memory_order_acquire);
  *out_same = !put && call_site_is_same(there, spec);
  return put;
}

/* Beyond the slots. */
#define PROBES 8

static uint32_t hash_inputs(const keel_type *const *types, uint32_t n) {
  uint64_t hash = KEEL_HASH_SEED;
  for (uint32_t i = 0; i < n; i++)
    hash = (hash ^ (types[i] ? types[i]->hash : 0)) * KEEL_HASH_STEP;
  return (uint32_t)(hash >> 32);
}

static keel_more_specs *more_of(keel_call_site *site) {
  keel_more_specs *more =
      atomic_load_explicit(&site->more, memory_order_acquire);
  if (more) return more;
  keel_more_specs *made = calloc(1, sizeof *made);
  /* release: publishes the zeros; acquire: pairs with another thread's release */
  if (!made ||
      atomic_compare_exchange_strong_explicit(
          &site->more, &more, made, memory_order_release, memory_order_acquire))
    return made;
  free(made);
  return more;
}

/* Whether any number of specialisations holds no more kernels than one. */
static bool is_light(const keel_specialisation *spec) {
  const kd_kernel_def *def = spec->instance->def;
  return (!spec->instance->constants || spec->instance->found_in) &&
         (!def->create || def->flags & KD_KERNEL_ANY_SHAPE);
}

static bool keep_more(keel_call_site *site, keel_specialisation *spec) {
  if (!is_light(spec) || spec->input_count > FEW) return false;
  keel_more_specs *more = more_of(site);
  uint32_t at = hash_inputs(spec->types, spec->input_count);
  for (uint32_t i = 0; more && i < PROBES; i++) {
    bool same = false;
    if (call_site_put(&more->slots[(at + i) % KEEL_CALL_SITE_MORE], spec,
                      &same))
      return true;
    if (same) return false;
  }
  return false;
}

/* Keeps a specialisation for later calls; false if there is no room, or if another thread
 * has kept an equal one. */
static bool call_site_keep(keel_call_site *site, keel_specialisation *spec) {
  for (uint32_t i = 0; i < KEEL_CALL_SITE_SLOTS; i++) {
    bool same = false;
    if (call_site_put(&site->slots[i], spec, &same)) return true;
    if (same) return false;
  }
  return keep_more(site, spec);
}

/* NULL: it is not there. */
static const keel_specialisation *find_more(const keel_call_site *site,
                                            keel_device *wanted,
                                            keel_tensor *const *inputs,
                                            uint32_t n, uint32_t m,
                                            bool any_own) {
  const keel_type *types[FEW];
  keel_more_specs *more =
      atomic_load_explicit(&site->more, memory_order_acquire);
  if (!more || n > FEW) return NULL;
  for (uint32_t i = 0; i < n; i++)
    types[i] = inputs[i] ? inputs[i]->type : NULL;
  uint32_t at = hash_inputs(types, n);
  for (uint32_t i = 0; i < PROBES; i++) {
    const keel_specialisation *spec = atomic_load_explicit(
        &more->slots[(at + i) % KEEL_CALL_SITE_MORE], memory_order_acquire);
    if (!spec) return NULL;
    if (matches(spec, wanted, inputs, n, m, any_own)) return spec;
  }
  return NULL;
}

static keel_status run_spec(keel_call_site *site,
                            const keel_specialisation *spec,
                            keel_tensor *const *inputs, keel_tensor **outputs,
                            uint32_t donated) {
  uint32_t n = spec->input_count, m = spec->output_count;
  if (spec->outputs_known)
    return keel_launch_run(site, spec, spec->types + n, inputs, outputs,
                           donated);
  const keel_type *few[2 * FEW];
  const keel_type **types =
      n + m <= 2 * FEW ? few : malloc((n + m) * sizeof *types);
  if (!types) return keel_no_memory((n + m) * sizeof *types);
  keel_status status = infer(site, inputs, n, types, types + n, m);
  if (status == KD_OK)
    status = keel_launch_run(site, spec, types + n, inputs, outputs, donated);
  if (types != few) free(types);
  return status;
}

/* ---- runtime ops ---------------------------------------------------------- */

/* For ops without a shape function, which would check this. */
static keel_status check_counts(const keel_call_site *site, uint32_t n,
                                uint32_t m) {
  const keel_schema *schema = site->op->schema;
  uint32_t most = schema->input_count;
  bool variadic = most && schema->inputs[most - 1].variadic;
  char name[256] = "";
  if (*site->where) snprintf(name, sizeof name, " \"%s\"", site->where);
  if (n > most && !variadic)
    return keel_fail(KD_INVALID_ARGUMENT, "%s%s: takes %u inputs, not %u",
                     schema->name, name, (unsigned)most, (unsigned)n);
  if (!keel_schema_output(schema, m - 1))
    return keel_fail(KD_INVALID_ARGUMENT, "%s%s: has no output %u",
                     schema->name, name, (unsigned)m - 1);
  return KD_OK;
}

static keel_status run_runtime(keel_call_site *site, keel_device *scope,
                               keel_tensor *const *inputs, uint32_t n,
                               keel_tensor **outputs, uint32_t m) {
  const keel_schema *schema = site->op->schema;
  if (!schema->host)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s runs nested functions: in a program only",
                     schema->name);
  const keel_type *few[2 * FEW];
  const keel_type **types =
      n + m <= 2 * FEW ? few : malloc((n + m) * sizeof *types);
  if (!types) return keel_no_memory((n + m) * sizeof *types);
  keel_host_call call = {
      .context = site->op->context,
      .op = site->op,
      .where = site->where,
      .scope = scope,
      .input_count = n,
      .output_count = m,
      .inputs = inputs,
      .outputs = outputs,
      .types = types + n,
      .graphs = site->graphs,
      .part = site->part,
      .run_op = keel_call,
  };
  keel_status status = schema->infer
                           ? infer(site, inputs, n, types, types + n, m)
                           : check_counts(site, n, m);
  uint64_t began = keel_tracing() ? keel_now() : 0;
  keel_cancellation_name(schema->name, call.where);
  if (status == KD_OK) status = schema->host(&call);
  keel_cancellation_name(NULL, NULL);
  if (began) keel_trace_span(schema->name, "host", site->where, began);
  if (types != few) free(types);
  for (uint32_t i = 0; status != KD_OK && i < m; i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  return status;
}

/* ---- the call ------------------------------------------------------------- */

/* The requested device, and whether an input has a device's own layout. */
static inline keel_device *wanted_device(const keel_call_site *site,
                                         keel_device *scope,
                                         keel_tensor *const *inputs, uint32_t n,
                                         bool *out_any_own) {
  keel_device *first = NULL;
  uint32_t layouts = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!inputs[i]) continue;
    if (!first) first = keel_tensor_location(inputs[i]);
    layouts |= inputs[i]->layout;
  }
  *out_any_own = layouts != KD_LAYOUT_ROW_MAJOR;
  if (site->pinned) return site->pinned;
  return scope ? scope : first ? first : site->op->context->default_device;
}

keel_status keel_call_site_run(keel_call_site *site, keel_device *scope,
                               keel_tensor *const *inputs, uint32_t n,
                               keel_tensor **outputs, uint32_t m,
                               uint32_t donated) {
  for (uint32_t i = 0; i < m; i++)
    outputs[i] = NULL;
  if (!m)
    return keel_fail(KD_INVALID_ARGUMENT, "%s is called without outputs",
                     site->op->schema->name);
  if (keel_schema_hosted(site->op->schema))
    return run_runtime(site, site->pinned ? site->pinned : scope, inputs, n,
                       outputs, m);
  bool any_own = false;
  keel_device *wanted = wanted_device(site, scope, inputs, n, &any_own);
  for (uint32_t i = 0; i < KEEL_CALL_SITE_SLOTS; i++) {
    const keel_specialisation *spec =
        atomic_load_explicit(&site->slots[i], memory_order_acquire);
    if (!spec) break;
    if (matches(spec, wanted, inputs, n, m, any_own))
      return run_spec(site, spec, inputs, outputs, donated);
  }
  const keel_specialisation *found =
      find_more(site, wanted, inputs, n, m, any_own);
  if (found) return run_spec(site, found, inputs, outputs, donated);
  const keel_registry *all = keel_registry_get();
  if (all->has_strings && all->has_strings(site->op, inputs, n))
    return all->call_on_strings(site, wanted, inputs, n, outputs, m);
  keel_specialisation *spec = NULL;
  KEEL_TRY(call_site_bind(site, wanted, inputs, n, m, any_own, &spec));
  bool kept = call_site_keep(site, spec);
  keel_status status = run_spec(site, spec, inputs, outputs, donated);
  if (!kept) spec_free(spec);
  return status;
}
