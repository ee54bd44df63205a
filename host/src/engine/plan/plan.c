/* plan.c - keel_plan: copies a program, runs the passes, and lays it out. */
#include <keel/debug.h>

#include "device/context.h"
#include "plan/plan.h"

#include "base/refs.h"
#include "device/lost.h"
#include "ops/runtime.h"
#include "passes/passes.h"
#include "plan/effects.h"
#include "plan/memory_plan.h"
#include "plan/versions.h"
#include "plan/weights.h"
#include "threads/pool.h"
#include "trace/trace.h"

/* ---- laying out ----------------------------------------------------------- */

static keel_status lay_function(keel_plan *plan, keel_function *function,
                                bool nested, keel_executable **out_executable);

static keel_status lay_graphs(keel_plan *plan, keel_step *step) {
  const keel_opdef *op = step->site.op;
  if (!(op->schema->flags & KEEL_OP_CONTROL)) return KD_OK;
  keel_executable **graphs =
      keel_arena_take(&plan->arena, (op->attr_count + 1) * sizeof *graphs);
  if (!graphs) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < op->attr_count; i++)
    if (op->attrs[i].graph)
      KEEL_TRY(lay_function(plan, op->attrs[i].graph, true, &graphs[i]));
  step->site.graphs = graphs;
  return KD_OK;
}

/* Collects the constants among a step's inputs, for kernels that prepack them. */
static keel_status lay_constants(keel_plan *plan, const keel_function *function,
                                 keel_step *step) {
  bool any = false;
  for (uint32_t i = 0; i < step->input_count; i++)
    any |= step->inputs[i] != KEEL_ABSENT &&
           function->values[step->inputs[i]].constant;
  if (!any) return KD_OK;
  keel_tensor **constants = keel_arena_take(
      &plan->arena, (step->input_count + 1) * sizeof *constants);
  if (!constants) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < step->input_count; i++)
    if (step->inputs[i] != KEEL_ABSENT)
      constants[i] = function->values[step->inputs[i]].constant;
  step->site.constants = constants;
  return KD_OK;
}

static keel_status lay_step(keel_plan *plan, const keel_function *function,
                            const keel_node *node, keel_step *step) {
  keel_call_site_init(&step->site, node->op, node->name, node->device);
  keel_device_pin(node->device);
  step->site.copy_time = NULL;
  step->site.output_layout = node->output_layout;
  step->site.varies = plan->holds || !plan->program;
  step->site.region = node->region;
  step->site.part = node->part;
  step->inputs = node->inputs;
  step->outputs = node->outputs;
  step->input_count = node->input_count;
  step->output_count = node->output_count;
  step->copies = step->site.op->schema->kind == KEEL_COPY;
  step->pends = (step->copies && keel_attr_int(node->op, "host", 0)) ||
                (step->site.op->schema->flags & KEEL_OP_MEETS);
  KEEL_TRY(lay_constants(plan, function, step));
  return lay_graphs(plan, step);
}

static keel_status lay_values(keel_plan *plan, const keel_function *function,
                              keel_executable *executable) {
  uint32_t given = function->value_count, n = given + executable->mark_count;
  executable->value_count = n;
  executable->constants =
      keel_arena_take(&plan->arena, (n + 1) * sizeof *executable->constants);
  executable->uses =
      keel_arena_take(&plan->arena, (n + 1) * sizeof *executable->uses);
  executable->types =
      keel_arena_take(&plan->arena, (n + 1) * sizeof *executable->types);
  executable->output_of =
      keel_arena_take(&plan->arena, (n + 1) * sizeof *executable->output_of);
  if (!executable->constants || !executable->uses || !executable->types ||
      !executable->output_of)
    return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++)
    executable->output_of[i] = KEEL_ABSENT;
  for (uint32_t i = executable->output_count; i-- > 0;)
    executable->output_of[executable->outputs[i]] = i;
  for (uint32_t i = 0; i < given; i++)
    executable->constants[i] = function->values[i].placed
                                   ? function->values[i].placed
                                   : function->values[i].constant;
  for (uint32_t i = 0; i < n; i++)
    executable->types[i] =
        executable->constants[i] ? executable->constants[i]->type : NULL;
  for (uint32_t i = 0; i < executable->step_count; i++)
    for (uint32_t k = 0; k < executable->steps[i].input_count; k++)
      if (executable->steps[i].inputs[k] != KEEL_ABSENT)
        executable->uses[executable->steps[i].inputs[k]]++;
  for (uint32_t i = 0; i < executable->output_count; i++)
    executable->uses[executable->outputs[i]]++;
  return KD_OK;
}

static keel_status lay_function(keel_plan *plan, keel_function *function,
                                bool nested, keel_executable **out_executable) {
  keel_arena *arena = &plan->arena;
  keel_executable *executable = keel_arena_take(arena, sizeof *executable);
  if (!executable) return KD_OUT_OF_MEMORY;
  executable->plan = plan;
  executable->function = function;
  executable->name = function->name;
  executable->inputs = function->inputs;
  executable->outputs = function->outputs;
  executable->input_count = function->input_count;
  executable->output_count = function->output_count;
  executable->capture_count = function->capture_count;
  executable->steps = keel_arena_take(
      arena, (function->node_count + 1) * sizeof *executable->steps);
  if (!executable->steps) return KD_OUT_OF_MEMORY;
  executable->next = plan->executables;
  plan->executables = executable;
  for (uint32_t i = 0; i < function->node_count; i++)
    if (!function->nodes[i].dead)
      KEEL_TRY(lay_step(plan, function, &function->nodes[i],
                        &executable->steps[executable->step_count++]));
  for (uint32_t i = 0; i < executable->step_count; i++)
    executable->pends |= executable->steps[i].pends;
  for (uint32_t i = 0; i < executable->step_count; i++)
    executable->nests |= executable->steps[i].site.graphs != NULL;
  for (uint32_t i = 0; i < executable->step_count; i++)
    executable->blocks |= executable->steps[i].blocks =
        keel_may_block(executable->steps[i].site.op);
  KEEL_TRY(keel_effects_find(executable, function->value_count, nested));
  KEEL_TRY(lay_values(plan, function, executable));
  executable->order = keel_order_create(executable, executable->effect_edges,
                                        executable->effect_edge_count, NULL);
  if (!executable->order) return KD_OUT_OF_MEMORY;
  *out_executable = executable;
  return KD_OK;
}

static void executable_deinit(keel_executable *executable) {
  for (uint32_t i = 0; i < executable->step_count; i++) {
    keel_call_site_deinit(&executable->steps[i].site);
    keel_device_unpin(executable->steps[i].site.pinned);
  }
  keel_idle *idle = atomic_load(&executable->idle);
  if (idle) idle->free(idle);
  keel_memory_plan_drop(executable);
  keel_order_free(executable->order);
}

/* ---- keel_plan ------------------------------------------------------------ */

/* Fails early, without inputs, if no device has a kernel for an op. */
static keel_status check_kernels(const keel_plan *plan) {
  for (const keel_executable *at = plan->executables; at; at = at->next)
    for (uint32_t i = 0; i < at->step_count; i++) {
      const keel_opdef *op = at->steps[i].site.op;
      bool there = keel_schema_hosted(op->schema) || at->steps[i].site.region;
      for (uint32_t d = 0; d < plan->context->device_count && !there; d++)
        there = keel_device_kernels(keel_devices(plan->context)[d],
                                    op->schema->domain, op->schema->name);
      if (!there)
        return keel_fail(KD_UNIMPLEMENTED,
                         "no device has a kernel for %s (node \"%s\")",
                         op->schema->name, at->steps[i].site.where);
    }
  return KD_OK;
}

/* The devices that rules, scopes and costs have chosen. */
static keel_status open_devices(const keel_plan *plan) {
  for (const keel_executable *at = plan->executables; at; at = at->next)
    for (uint32_t i = 0; i < at->step_count; i++)
      if (at->steps[i].site.pinned)
        KEEL_TRY(keel_device_ready(at->steps[i].site.pinned));
  return KD_OK;
}

/* Lays out the passes' result. */
static keel_status plan_lay_out(keel_plan *plan, keel_function *main) {
  KEEL_TRY(lay_function(plan, main, false, &plan->main));
  KEEL_TRY(check_kernels(plan));
  return open_devices(plan);
}

static keel_status copy_strings(keel_arena *arena, uint32_t count,
                                const char *const *from,
                                const char *const **out) {
  const char **copies = keel_arena_take(arena, (count + 1) * sizeof *copies);
  if (!copies) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    copies[i] = keel_arena_copy(arena, from[i]);
    if (!copies[i]) return KD_OUT_OF_MEMORY;
  }
  *out = copies;
  return KD_OK;
}

/* Runs notify the device when they begin and end. */
static void settle_on(keel_plan *plan, keel_device *device) {
  plan->device = device;
  keel_device_pin(device);
}

/* Parameters for plans that are made later, without the pass callback. */
static keel_status keep_params(keel_plan *plan,
                               const keel_plan_params *params) {
  keel_plan_params *to = &plan->params;
  *to = *params;
  to->device = plan->device;
  to->on_pass = NULL;
  to->cancel = NULL;
  to->timeout = 0;
  KEEL_TRY(
      copy_strings(&plan->arena, params->skip_count, params->skip, &to->skip));
  return copy_strings(&plan->arena, params->place_count, params->places,
                      &to->places);
}

static keel_status plan_fill(keel_plan *plan, keel_program *program,
                             const keel_plan_params *params) {
  keel_function *main = NULL;
  keel_device *device = keel_plan_device(program, params);
  settle_on(plan, device);
  plan->eager = params->flags & KEEL_PLAN_EAGER;
  plan->no_replay = params->flags & KEEL_PLAN_NO_REPLAY;
  plan->program = program;
  keel_program_weak_retain(program);
  plan->holds =
      keel_function_is_open(program->main) && keel_program_lock(program);
  KEEL_TRY(keep_params(plan, params));
  if (device) KEEL_TRY(keel_device_ready(device));
  keel_pass_call call = {
      .params = params, .device = device, .forms = &program->forms};
  if (plan->holds && !(params->flags & (KEEL_PLAN_EAGER | KEEL_PLAN_ONE))) {
    KEEL_TRY(keel_versions_create(plan, program, &call, &main));
    call.part = KEEL_PASSES_REST;
    call.placed = keel_versions_placed(plan->versions);
  } else {
    KEEL_TRY(keel_function_clone(program->main, &plan->arena, &plan->functions,
                                 &main));
  }
  call.main = main;
  plan->ports = main->input_ports;
  KEEL_TRY(keel_passes_run(plan->functions, &call));
  KEEL_TRY(plan_lay_out(plan, main));
  keel_weights_allow_release(plan);
  return KD_OK;
}

static keel_plan *plan_new(keel_context *context) {
  keel_plan *plan = calloc(1, sizeof *plan);
  if (!plan) {
    keel_no_memory(sizeof *plan);
    return NULL;
  }
  keel_refs_init(&plan->refs);
  plan->context = context;
  return plan;
}

static keel_status fill_of_types(keel_plan *plan, const keel_plan *general,
                                 const keel_function *function,
                                 const keel_type *const *types,
                                 const keel_plan_params *params,
                                 keel_placed *placed) {
  keel_function *main = NULL;
  KEEL_TRY(
      keel_function_clone(function, &plan->arena, &plan->functions, &main));
  for (uint32_t i = 0; i < main->input_count; i++)
    main->values[main->inputs[i]].type = types[i];
  const keel_pass_call call = {.params = params,
                               .device = plan->device,
                               .main = main,
                               .part = KEEL_PASSES_AGAIN,
                               .placed = placed,
                               .forms = &general->program->forms};
  /* the general plan has warned already; this plan's parts differ */
  keel_forms_no_warnings(call.forms);
  KEEL_TRY(keel_passes_run(plan->functions, &call));
  KEEL_TRY(plan_lay_out(plan, main));
  keel_weights_allow_release(plan);
  return KD_OK;
}

keel_status keel_plan_of_types(const keel_plan *general,
                               const keel_function *function,
                               const keel_type *const *types,
                               const keel_plan_params *params,
                               keel_placed *placed, keel_plan **out_plan) {
  *out_plan = NULL;
  keel_plan *plan = plan_new(general->context);
  if (!plan) return KD_OUT_OF_MEMORY;
  settle_on(plan, general->device);
  plan->no_replay = general->no_replay;
  keel_status status =
      fill_of_types(plan, general, function, types, params, placed);
  if (status == KD_OK)
    *out_plan = plan;
  else
    keel_plan_release(plan);
  return status;
}

/* Clears the types of all values except constants. */
static void forget_types(keel_function *functions) {
  for (keel_function *f = functions; f; f = f->next)
    for (uint32_t i = 0; i < f->value_count; i++)
      if (!f->values[i].constant) f->values[i].type = NULL;
}

static keel_status fill_dynamic(keel_plan *dynamic, const keel_plan *plan) {
  keel_function *main = NULL;
  settle_on(dynamic, plan->device);
  dynamic->eager = plan->eager;
  KEEL_TRY(keel_function_clone(plan->program->main, &dynamic->arena,
                               &dynamic->functions, &main));
  forget_types(dynamic->functions);
  const keel_pass_call call = {
      .params = &plan->params, .device = plan->device, .main = main};
  KEEL_TRY(keel_passes_run(dynamic->functions, &call));
  return plan_lay_out(dynamic, main);
}

keel_status keel_plan_dynamic(keel_plan *plan, keel_plan **out_dynamic) {
  /* acquire: pairs with the release below */
  *out_dynamic = atomic_load_explicit(&plan->dynamic, memory_order_acquire);
  if (*out_dynamic) return KD_OK;
  if (!keel_program_lock(plan->program)) return KD_FAILED_PRECONDITION;
  keel_plan *made = plan->program->device ? NULL : plan_new(plan->context);
  keel_status status = plan->program->device ? KD_FAILED_PRECONDITION
                       : made                ? fill_dynamic(made, plan)
                                             : KD_OUT_OF_MEMORY;
  keel_program_release(plan->program);
  if (status == KD_OK) keel_profile_part(plan, made);
  if (status == KD_OK && !atomic_compare_exchange_strong_explicit(
                             &plan->dynamic, out_dynamic, made,
                             memory_order_acq_rel, memory_order_acquire)) {
    keel_plan_release(made); /* another thread was first */
    return KD_OK;
  }
  if (status == KD_OK)
    *out_dynamic = made;
  else
    keel_plan_release(made);
  return status;
}

keel_status keel_plan_create(keel_program *program,
                             const keel_plan_params *params,
                             keel_plan **out_plan) {
  keel_plan_params all;
  *out_plan = NULL;
  KEEL_TRY(keel_plan_params_read(params, &all));
  keel_plan *plan = plan_new(program->context);
  if (!plan) return KD_OUT_OF_MEMORY;
  uint64_t began = keel_tracing() ? keel_now() : 0;
  const keel_cancellation cancellation =
      keel_cancellation_of(all.cancel, all.timeout);
  const keel_cancellation *before = keel_cancellation_use(&cancellation);
  keel_status status = plan_fill(plan, program, &all);
  keel_cancellation_use(before);
  if (began) keel_trace_span("plan", NULL, program->main->name, began);
  if (status != KD_OK) {
    keel_plan_release(plan);
    return status;
  }
  *out_plan = plan;
  return KD_OK;
}

void keel_plan_release(keel_plan *plan) {
  if (!plan || !keel_refs_drop(&plan->refs)) return;
  if (plan->versions) keel_versions_await(plan->versions);
  if (plan->clocks) keel_plan_profile(plan, 0);
  keel_profile_drop(plan);
  keel_versions_free(plan->versions);
  keel_plan_release(atomic_load(&plan->dynamic));
  for (keel_executable *at = plan->executables; at; at = at->next)
    executable_deinit(at);
  keel_functions_release(plan->functions);
  if (plan->holds) keel_program_release(plan->program);
  if (plan->program) {
    keel_program_weak_release(plan->program);
    /* nothing of a model stays; plans made from another are many */
    keel_heap_shrink(plan->context, plan->device);
  }
  keel_device_unpin(plan->device);
  keel_arena_free(&plan->arena);
  free(plan);
}

uint32_t keel_plan_input_count(const keel_plan *plan) {
  return plan->main->input_count;
}

uint32_t keel_plan_output_count(const keel_plan *plan) {
  return plan->main->output_count;
}

keel_status keel_plan_input(const keel_plan *plan, uint32_t index,
                            keel_port *out_port) {
  return keel_function_port(plan->main->function, false, index, out_port);
}

keel_status keel_plan_output(const keel_plan *plan, uint32_t index,
                             keel_port *out_port) {
  return keel_function_port(plan->main->function, true, index, out_port);
}

uint64_t keel_plan_replays(keel_plan *plan) {
  uint64_t count = atomic_load_explicit(&plan->replays, memory_order_relaxed);
  /* acquire: pairs with the release that published it */
  keel_plan *dynamic =
      atomic_load_explicit(&plan->dynamic, memory_order_acquire);
  if (dynamic) count += keel_plan_replays(dynamic);
  return plan->versions ? count + keel_versions_replays(plan->versions) : count;
}

keel_status keel_plan_memory(keel_plan *plan, uint64_t *out_planned,
                             uint64_t *out_unshared, uint64_t *out_peak) {
  keel_plan *version =
      plan->versions ? keel_versions_last(plan->versions) : NULL;
  bool planned = version && keel_memory_plan_sizes(version->main, out_planned,
                                                   out_unshared, out_peak);
  if (!planned)
    planned =
        keel_memory_plan_sizes(plan->main, out_planned, out_unshared, out_peak);
  keel_plan_release(version);
  return planned ? KD_OK
                 : keel_fail(KD_FAILED_PRECONDITION,
                             "the plan has no memory plan: its values are "
                             "allocated one by one");
}
