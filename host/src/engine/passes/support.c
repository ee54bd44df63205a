/* support.c - whether a device takes a program: the ops that the passes leave, one by one. */
#include "device/device.h"
#include "eager/call_site.h"
#include "passes/passes.h"

typedef struct asking {
  keel_device *device;
  keel_support_function each;
  void *context;
  keel_status status; /* of all so far */
  char message[1024];
} asking;

/* ---- one op -------------------------------------------------------------------------- */

/* Whether the types of all outputs are known, as they are unless values say them. */
static bool outputs_known(const keel_node *node, const keel_view *view) {
  for (uint32_t i = 0; i < node->output_count; i++) {
    const keel_type *type = view->types[node->input_count + i];
    if (node->outputs[i] != KEEL_ABSENT && (!type || !keel_type_known(type)))
      return false;
  }
  return true;
}

static keel_status known_in_a_run(const asking *all, const keel_node *node) {
  return keel_fail(KD_FAILED_PRECONDITION,
                   "whether %s takes %s depends on types or sizes that are"
                   " known in a run only",
                   all->device->name, node->op->schema->name);
}

/* Of types that are not all known. */
static keel_status ask_open(const asking *all, const keel_function *function,
                            const keel_node *node, keel_view *view) {
  const keel_schema *schema = node->op->schema;
  keel_view_open(function, node, view);
  if (keel_choose_may(all->device, &view->node))
    return known_in_a_run(all, node);
  bool any = keel_device_kernels(all->device, schema->domain, schema->name);
  return keel_fail(KD_UNIMPLEMENTED, "%s has no kernel for %s%s",
                   all->device->name, schema->name, any ? " of its types" : "");
}

static keel_status ask_kernels(const asking *all, const keel_function *function,
                               const keel_node *node) {
  keel_view view;
  bool known = keel_view_make(function, node, &view);
  keel_status status =
      !view.types || !view.constants
          ? keel_no_memory(node->input_count * sizeof *view.types)
      : known ? keel_choose_on(all->device, &view.node)
              : ask_open(all, function, node, &view);
  if (known && status == KD_UNIMPLEMENTED && !outputs_known(node, &view) &&
      keel_choose_may(all->device, &view.node))
    status = known_in_a_run(all, node);
  keel_view_drop(&view);
  return status;
}

/* Whether values that a node reads or gives are strings, for which the runtime calls a kernel with
 * numbers (opsets/strings/on_strings.c), or itself casts. */
static bool concerns_strings(const keel_function *function,
                             const keel_node *node) {
  if (!(node->op->schema->traits & KEEL_OP_STRINGS)) return false;
  for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
    uint32_t value = i < node->input_count
                         ? node->inputs[i]
                         : node->outputs[i - node->input_count];
    const keel_type *type =
        value == KEEL_ABSENT ? NULL : function->values[value].type;
    if (type && type->dtype == KD_STRING) return true;
  }
  return false;
}

static keel_status support_ask(const asking *all, const keel_function *function,
                               const keel_node *node, bool claimed) {
  if (node->device && node->device != all->device)
    return keel_fail(KD_UNIMPLEMENTED, "%s was placed on %s",
                     node->op->schema->name, node->device->name);
  if (claimed) return KD_OK;
  if (keel_schema_hosted(node->op->schema)) return KD_OK;
  if (concerns_strings(function, node)) return KD_OK;
  return ask_kernels(all, function, node);
}

static void support_keep(asking *all, keel_status status) {
  if (status == KD_OK || all->status == KD_UNIMPLEMENTED ||
      (all->status != KD_OK && status != KD_UNIMPLEMENTED))
    return;
  all->status = status;
  snprintf(all->message, sizeof all->message, "%s", keel_message());
}

/* A lack of memory is not a property of the op. */
static bool is_answer(keel_status status) {
  return status == KD_OK || status == KD_UNIMPLEMENTED ||
         status == KD_FAILED_PRECONDITION;
}

static keel_status answer(asking *all, const keel_node *node,
                          keel_status status) {
  const keel_schema *schema = node->op->schema;
  char name[200];
  bool plain = !strcmp(schema->domain, "ai.onnx");
  if (!is_answer(status)) return status;
  if (status != KD_OK && *node->name)
    keel_while(status, "in node \"%s\"", node->name);
  support_keep(all, status);
  if (!all->each) return KD_OK;
  snprintf(name, sizeof name, "%s%s%s", plain ? "" : schema->domain,
           plain ? "" : "::", schema->name);
  char why[1024];
  snprintf(why, sizeof why, "%s", status == KD_OK ? "" : keel_message());
  const keel_support support = {
      .node = node->name, .op = name, .status = status, .why = why};
  all->each(all->context, &support);
  return KD_OK;
}

/* ---- all ------------------------------------------------------------------------------ */

static void note_claim(void *context, const uint32_t *nodes, uint32_t count,
                       uint64_t time) {
  bool *claimed = context;
  (void)time;
  for (uint32_t i = 0; i < count; i++)
    claimed[nodes[i]] = true;
}

static keel_status ask_function(asking *all, keel_function *function);

/* A claimed op has its graphs with it. */
static keel_status ask_node(asking *all, keel_function *function,
                            const keel_node *node, bool claimed) {
  KEEL_TRY(answer(all, node, support_ask(all, function, node, claimed)));
  for (uint32_t k = 0; !claimed && k < node->op->attr_count; k++)
    if (node->op->attrs[k].graph)
      KEEL_TRY(ask_function(all, node->op->attrs[k].graph));
  return KD_OK;
}

static keel_status ask_function(asking *all, keel_function *function) {
  bool *claimed = calloc((size_t)function->node_count + 1, sizeof *claimed);
  if (!claimed) return keel_no_memory(function->node_count);
  keel_status status =
      all->device->plugin->regions.claim
          ? keel_regions_offer(function, all->device, note_claim, claimed)
          : KD_OK;
  for (uint32_t i = 0; i < function->node_count && status == KD_OK; i++)
    if (!function->nodes[i].dead)
      status = ask_node(all, function, &function->nodes[i], claimed[i]);
  free(claimed);
  return status;
}

static keel_status ask_program(asking *all, keel_program *program,
                               const keel_plan_params *params,
                               keel_arena *arena, keel_function **functions) {
  keel_pass_call call = {
      .params = params, .device = all->device, .to_save = true};
  keel_function *main = NULL;
  KEEL_TRY(keel_function_clone(program->main, arena, functions, &main));
  call.main = main;
  KEEL_TRY(keel_passes_run(*functions, &call));
  keel_held held;
  KEEL_TRY(keel_held_take(*functions, &held));
  keel_status status = ask_function(all, main);
  keel_held_drop(&held);
  return status;
}

keel_status keel_program_support(keel_program *program, keel_device *device,
                                 keel_support_function each,
                                 void *support_context) {
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = device};
  asking all = {.device = keel_plan_device(program, &params),
                .each = each,
                .context = support_context};
  keel_arena arena = {0};
  keel_function *functions = NULL;
  if (!all.device) return keel_fail(KD_NOT_FOUND, "there is no device to ask");
  KEEL_TRY(keel_device_ready(all.device));
  keel_status status = ask_program(&all, program, &params, &arena, &functions);
  keel_functions_release(functions);
  keel_arena_free(&arena);
  if (status != KD_OK || all.status == KD_OK) return status;
  return keel_fail_text(all.status, all.message);
}
