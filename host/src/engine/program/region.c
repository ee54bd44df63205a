/* region.c - compiled regions, and how they are launched. */
#include "program/region.h"
#include "device/context.h"
#include "device/stream.h"

#include "device/lost.h"
#include "loader/library.h"
#include "loader/loader.h"
#include "memory/copy.h"
#include "program/fingerprint.h"
#include "program/graph.h"
#include "threads/pool.h"

/* ---- launches ------------------------------------------------------------------ */

/* launch->data is the region (kd_kernel_def.data), and no plugin's business. */
static const keel_region *enter(const kd_launch *launch) {
  kd_launch *open = (kd_launch *)(uintptr_t)launch;
  const keel_region *region = launch->data;
  open->node = NULL;
  open->data = NULL;
  return region;
}

static void region_leave(const kd_launch *launch, const keel_region *region) {
  kd_launch *open = (kd_launch *)(uintptr_t)launch;
  open->data = region;
}

static kd_status program_region_enqueue(kd_kernel *none, kd_stream *stream,
                                        const kd_launch *launch) {
  (void)none;
  const keel_region *region = enter(launch);
  kd_status status =
      region->device->plugin->regions.enqueue(region->handle, stream, launch);
  region_leave(launch, region);
  return status;
}

static uint64_t region_workspace(kd_kernel *none, const kd_launch *launch) {
  (void)none;
  const keel_region *region = enter(launch);
  uint64_t size =
      region->device->plugin->regions.workspace(region->handle, launch);
  region_leave(launch, region);
  return size;
}

/* ---- making -------------------------------------------------------------------- */

static keel_status note_types(keel_region *region,
                              const struct kd_graph *graph) {
  uint32_t n = graph->input_count, m = graph->output_count;
  region->types = calloc(n + m + 1, sizeof *region->types);
  if (!region->types) return keel_no_memory((n + m) * sizeof *region->types);
  region->input_count = n;
  region->output_count = m;
  for (uint32_t i = 0; i < n + m; i++) {
    const keel_value_info *info =
        &graph->function
             ->values[i < n ? graph->inputs[i] : graph->outputs[i - n]];
    region->types[i] = info->type ? info->type : info->open;
  }
  return KD_OK;
}

static bool region_is_open(const keel_region *region) {
  for (uint32_t i = 0; i < region->input_count + region->output_count; i++)
    if (!region->types[i] || !keel_type_known(region->types[i])) return true;
  return false;
}

/* The value of the copy that stands for one of the function's. */
static uint32_t value_for(keel_region *region, const keel_function *from,
                          uint32_t value, uint32_t *stands) {
  if (value == KEEL_ABSENT) return KEEL_ABSENT;
  const keel_value_info *info = &from->values[value];
  if (stands[value] == KEEL_ABSENT)
    stands[value] =
        info->constant
            ? keel_function_constant(region->shapes, info->name, info->constant)
            : keel_function_value(region->shapes, info->name);
  return stands[value];
}

static keel_status copy_node(keel_region *region, const keel_function *from,
                             const keel_node *node, uint32_t *stands) {
  uint32_t n = node->input_count, m = node->output_count;
  uint32_t *values = calloc((size_t)n + m + 1, sizeof *values);
  keel_node *made = NULL;
  if (!values) return keel_no_memory((n + m) * sizeof *values);
  for (uint32_t i = 0; i < n + m; i++)
    values[i] = value_for(
        region, from, i < n ? node->inputs[i] : node->outputs[i - n], stands);
  keel_status status =
      keel_function_node(region->shapes, keel_opdef_retain(node->op),
                         node->name, values, n, values + n, m, &made);
  free(values);
  return status;
}

/* The region as a function of its own, for the inference of outputs' types. */
static keel_status copy_part(keel_region *region, const struct kd_graph *graph,
                             uint32_t *stands) {
  const keel_function *from = graph->function;
  const keel_port port = {0};
  KEEL_TRY(keel_function_create(from->context, &region->arena,
                                &region->functions, "region", &region->shapes));
  region->fed = keel_arena_take(
      &region->arena, (region->input_count + 1) * sizeof *region->fed);
  if (!region->fed) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < region->input_count; i++) {
    uint32_t value = value_for(region, from, graph->inputs[i], stands);
    bool constant = from->values[graph->inputs[i]].constant != NULL;
    region->fed[i] = constant ? KEEL_ABSENT : value;
    if (!constant) KEEL_TRY(keel_function_input(region->shapes, value, &port));
  }
  for (uint32_t i = 0; i < graph->node_count; i++)
    KEEL_TRY(copy_node(region, from, &from->nodes[graph->members[i]], stands));
  for (uint32_t i = 0; i < region->output_count; i++)
    KEEL_TRY(keel_function_output(
        region->shapes, value_for(region, from, graph->outputs[i], stands),
        &port));
  return KD_OK;
}

static keel_status note_shapes(keel_region *region,
                               const struct kd_graph *graph) {
  size_t count = (size_t)graph->function->value_count + 1;
  if (!region_is_open(region)) return KD_OK;
  uint32_t *stands = malloc(count * sizeof *stands);
  if (!stands) return keel_no_memory(count * sizeof *stands);
  memset(stands, 0xff, count * sizeof *stands); /* KEEL_ABSENT */
  keel_status status = copy_part(region, graph, stands);
  free(stands);
  return status;
}

/* A region whose handle is made, and the requests for it. */
typedef struct making {
  keel_region *region;
  kd_compile what;
  keel_form form; /* what its compiled form must be of; no data */
  keel_forms *held, *takes;
} making;

/* The facts that a compiled form must match besides the graph. */
static void region_describe(const keel_device *device, keel_text *maker,
                            uint64_t *out_options) {
  keel_text options = {0};
  keel_text_add(maker, "%s/%s/%s/%s", device->plugin->name,
                device->plugin->version, device->info.name,
                device->info.driver);
  keel_options_add(device->plugin->shared, &options);
  *out_options = keel_hash_string(KEEL_HASH_SEED, keel_text_get(&options));
  keel_text_free(&options);
}

/* Where the store has the form: "region/" and 32 digits. */
static void name_key(const keel_form *form, char *out_key, size_t size) {
  uint64_t a = keel_hash_string(form->graph.a, form->maker);
  uint64_t b = keel_hash_string(form->graph.b, form->maker);
  a = keel_hash(a, &form->options, sizeof form->options);
  b = keel_hash(b, &form->options, sizeof form->options);
  snprintf(out_key, size, "region/%016llx%016llx", (unsigned long long)a,
           (unsigned long long)b);
}

/* Gives the form to the caller that collects them. */
static void hand_over(const making *m, const void *blob, uint64_t size) {
  keel_form form = m->form;
  form.data = blob;
  form.size = size;
  if (m->takes) keel_forms_add(m->takes, &form);
}

/* Makes the region of a form that may be of another driver or damaged; false: it is not
 * taken, and keel_message() says why. */
static bool revive(const making *m, const void *blob, uint64_t size) {
  keel_device *device = m->region->device;
  const kd_region_table *table = &device->plugin->regions;
  kd_region **handle = &m->region->handle;
  keel_clear_error();
  kd_status status = table->validate(device->handle, blob, size);
  if (status == KD_OK)
    status = table->load(device->handle, &m->what, blob, size, handle);
  if (status == KD_OK && *handle) {
    hand_over(m, blob, size);
    return true;
  }
  *handle = NULL;
  if (!keel_has_error()) keel_fail(status, "no reason given");
  return false;
}

/* Whether a form came with the program, and is good. */
static bool came_along(const making *m) {
  const keel_device *device = m->region->device;
  const keel_form *form = NULL;
  if (!m->held || !m->held->count) return false;
  keel_status status = keel_forms_find(m->held, &m->form, &form);
  if (status == KD_NOT_FOUND) return false;
  if (status == KD_OK && revive(m, form->data, form->size)) return true;
  keel_forms_warn(m->held, &device->context->log, device->name, keel_message());
  return false;
}

/* Whether an earlier process left the form, and it is good. Else the part is compiled, as
 * if it were not there. */
static bool was_kept(const making *m, const char *key) {
  const keel_device *device = m->region->device;
  const kd_host *host = &device->plugin->shared->host;
  void *blob = NULL;
  uint64_t size = 0;
  if (host->cache_get(host, key, &blob, &size) != KD_OK) return false;
  bool taken = revive(m, blob, size);
  host->release(host, blob);
  if (!taken)
    keel_log_line(&device->context->log, KD_LOG_DEBUG,
                  "%s does not accept the compiled form in the cache: %s",
                  device->name, keel_message());
  return taken;
}

static void region_keep(const making *m, const char *key) {
  const keel_device *device = m->region->device;
  const kd_host *host = &device->plugin->shared->host;
  void *blob = NULL;
  uint64_t size = 0;
  kd_status status =
      device->plugin->regions.serialize(m->region->handle, &blob, &size);
  if (status == KD_OK && blob) {
    host->cache_put(host, key, blob, size);
    hand_over(m, blob, size);
    host->release(host, blob);
  } else if (m->takes) {
    m->takes->bare++;
  }
}

static kd_status compile_anew(const making *m) {
  keel_region *region = m->region;
  const keel_device *device = region->device;
  keel_clear_error();
  kd_status status = device->plugin->regions.compile(device->handle, &m->what,
                                                     &region->handle);
  if (status == KD_OK && !region->handle)
    status = keel_fail(KD_INTERNAL, "it returned KD_OK and no region");
  return status;
}

/* Loads what there is of the part, or compiles it. */
static kd_status make_handle(making *m) {
  const keel_device *device = m->region->device;
  keel_text maker = {0};
  char key[64];
  if (!device->plugin->regions.serialize) return compile_anew(m);
  region_describe(device, &maker, &m->form.options);
  m->form.maker = keel_text_get(&maker);
  m->form.graph = keel_graph_fingerprint(m->what.graph);
  name_key(&m->form, key, sizeof key);
  kd_status status = KD_OK;
  if (!came_along(m) && !was_kept(m, key)) {
    status = compile_anew(m);
    if (status == KD_OK) region_keep(m, key);
  }
  keel_text_free(&maker);
  return status;
}

/* Which of its outputs lie where inputs do. */
static keel_status note_aliases(keel_region *region) {
  const keel_plugin *plugin = region->device->plugin;
  if (!plugin->regions.aliases) return KD_OK;
  region->def.alias_count =
      plugin->regions.aliases(region->handle, &region->def.aliases);
  keel_status status =
      keel_aliases_check(plugin, "a compiled region", &region->def);
  if (status != KD_OK) plugin->regions.destroy(region->handle);
  return status;
}

static keel_status program_region_compile(making *m) {
  keel_region *region = m->region;
  const struct kd_graph *graph = m->what.graph;
  keel_device *device = region->device;
  KEEL_TRY(note_types(region, graph));
  KEEL_TRY(note_shapes(region, graph));
  KEEL_TRY(keel_device_enter(device));
  keel_pool *before = keel_pool_use(device->context->pool);
  kd_status status = make_handle(m);
  keel_pool_use(before);
  if (status == KD_OK) status = note_aliases(region);
  if (status != KD_UNIMPLEMENTED) status = keel_device_check(device, status);
  keel_lost_leave(device);
  if (status == KD_OK || status == KD_UNIMPLEMENTED) return status;
  region->handle = NULL;
  if (!keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  return keel_while(status,
                    "while %s compiled a region of %u ops, from \"%s\"; without"
                    " the pass \"regions\" they run one by one",
                    device->name, (unsigned)graph->node_count,
                    graph->nodes[0].name);
}

keel_status keel_region_compile(keel_device *device,
                                const struct kd_graph *graph,
                                keel_region_infer infer, keel_forms *held,
                                keel_forms *takes, keel_region **out_region) {
  *out_region = NULL;
  keel_region *region = calloc(1, sizeof *region);
  if (!region) return keel_no_memory(sizeof *region);
  keel_refs_init(&region->refs);
  region->device = device;
  region->infer = infer;
  keel_device_pin(device);
  region->def = (kd_kernel_def){
      .struct_size = sizeof region->def,
      .domain = "keel",
      .op = "Region",
      .data = region,
      .workspace = device->plugin->regions.workspace ? region_workspace : NULL,
      .enqueue = program_region_enqueue,
  };
  making m = {.region = region,
              .what = {.struct_size = sizeof m.what, .graph = graph},
              .held = held,
              .takes = takes};
  keel_status status = program_region_compile(&m);
  if (status == KD_OK)
    *out_region = region;
  else
    keel_region_release(region);
  if (status == KD_UNIMPLEMENTED)
    keel_log_line(
        &device->context->log, KD_LOG_WARNING,
        "%s does not compile %u ops that it claimed, from %s \"%s\"; they"
        " run one by one: %s",
        device->name, (unsigned)graph->node_count,
        graph->nodes[0].op->schema->name, graph->nodes[0].name,
        keel_has_error() ? keel_message() : "no reason given");
  return status == KD_UNIMPLEMENTED ? KD_OK : status;
}

void keel_region_release(keel_region *region) {
  if (!region || !keel_refs_drop(&region->refs)) return;
  if (region->handle) {
    keel_device_drain_quietly(region->device); /* enqueued work may use it */
    region->device->plugin->regions.destroy(region->handle);
  }
  keel_device_unpin(region->device);
  keel_functions_release(region->functions);
  keel_arena_free(&region->arena);
  free(region->types);
  free(region);
}
