/* memory_plan.c - the memory plan: whether a function fits static runs, and the data that they all
 * share: launches without addresses, and the places of values. */
#include "plan/memory_plan.h"
#include "device/context.h"

#include <kd/help.h>

#include "device/lost.h"
#include "eager/launch.h"
#include "memory/device_copy.h"
#include "memory/layout.h"
#include "ops/runtime.h"
#include "plan/donation.h"
#include "plan/inplace_concat.h"
#include "threads/pool.h"

/* The bit matrix of predecessors takes the square of this. */
#define STEPS_MOST 8192

/* ---- whether it fits ---------------------------------------------------------- */

/* Whether the output aliases its input (copies to the device too, static_run.c). */
static bool is_view(const keel_step *step) {
  keel_op_kind kind = step->site.op->schema->kind;
  return kind == KEEL_VIEW || kind == KEEL_IDENTITY || kind == KEEL_PART ||
         step->copies;
}

/* The call site's specialisation for these types; NULL if it has none. */
static const keel_specialisation *spec_of(const keel_executable *executable,
                                          keel_step *step) {
  for (uint32_t k = 0; k < KEEL_CALL_SITE_SLOTS; k++) {
    const keel_specialisation *one =
        atomic_load_explicit(&step->site.slots[k], memory_order_acquire);
    bool fits = one && one->input_count == step->input_count &&
                one->output_count == step->output_count;
    for (uint32_t i = 0; fits && i < one->input_count; i++)
      fits = one->types[i] == (step->inputs[i] == KEEL_ABSENT
                                   ? NULL
                                   : executable->types[step->inputs[i]]);
    if (fits) return one;
  }
  return NULL;
}

/* Arguments past the 32nd have no bit. */
static bool has_bit(uint32_t bits, uint32_t argument) {
  return argument < 32 && (bits >> argument & 1);
}

/* Whether output shapes depend on types and constants only. */
static bool shapes_stay(const keel_memory_plan *all, const keel_step *step) {
  uint32_t wanted = step->site.op->schema->value_inputs;
  for (uint32_t i = 0; i < step->input_count; i++)
    if (has_bit(wanted, i) && step->inputs[i] != KEEL_ABSENT &&
        all->values[step->inputs[i]].origin != FROM_CONSTANT)
      return false;
  return true;
}

/* Whether the kernel can read argument i in place in every run. */
static bool is_reachable(const keel_memory_plan *all,
                         const keel_specialisation *spec, uint32_t i,
                         uint32_t value) {
  bool host = has_bit(spec->instance->def->host_inputs, i);
  if (all->values[value].origin != FROM_CONSTANT)
    return !host || keel_device_addressable(spec->device);
  /* it is there: this step has run */
  const keel_tensor *at =
      keel_late_there(all->executable->constants[all->values[value].number]);
  return at && keel_launch_in_place(at, spec->device, host);
}

/* Whether inputs that outputs must share memory with can be copied there before the
 * launch. */
static bool aliases_fit(const keel_device *device, const kd_kernel_def *def) {
  return !def->alias_count ||
         (keel_device_addressable(device) ? !device->stream
                                          : keel_device_can_copy(device));
}

/* Constants that the kernel has taken are not passed: their views say KD_NONE. */
static bool memory_plan_is_taken(const keel_specialisation *spec, uint32_t i) {
  return keel_instance_has_taken(spec->instance, i);
}

static bool kernel_fits(const keel_memory_plan *all, const keel_step *step,
                        const keel_specialisation *spec) {
  const keel_executable *executable = all->executable;
  const kd_kernel_def *def = spec->instance->def;
  if (def->flags & (KD_KERNEL_DYNAMIC_OUTPUT | KD_KERNEL_BLOCKING) ||
      (def->host_outputs && spec->device->stream) ||
      !aliases_fit(spec->device, def))
    return false;
  for (uint32_t i = 0; i < spec->input_count; i++) {
    uint32_t value = step->inputs[i];
    if (value == KEEL_ABSENT || memory_plan_is_taken(spec, i)) continue;
    if (all->values[value].origin == FROM_NONE || !executable->types[value])
      return false;
    /* a launch would convert another layout */
    if (all->values[value].layout != keel_node_layout(&spec->node, i))
      return false;
    if (!is_reachable(all, spec, i, value)) return false;
    if (all->values[value].strides && !(def->flags & KD_KERNEL_STRIDED))
      return false;
    /* its values may determine the workspace size */
    if (def->workspace && has_bit(def->host_inputs, i) &&
        all->values[value].origin != FROM_CONSTANT)
      return false;
  }
  for (uint32_t i = 0; i < spec->output_count; i++) {
    uint32_t value = step->outputs[i];
    const keel_type *type = spec->types[spec->input_count + i];
    if (value == KEEL_ABSENT) {
      if (!spec->outputs_known) return false;
    } else if (!executable->types[value] ||
               !keel_type_known(executable->types[value]) ||
               (spec->outputs_known && executable->types[value] != type)) {
      return false;
    }
  }
  return true;
}

/* ---- where values lie ----------------------------------------------------------- */

/* Whether a value, or a view of it, is an output. */
static bool escapes(const keel_executable *executable, const uint32_t *base,
                    uint32_t value) {
  for (uint32_t i = 0; i < executable->output_count; i++)
    if (base[executable->outputs[i]] == value) return true;
  return false;
}

static const keel_type *output_type(const keel_memory_plan *all,
                                    const keel_step *step,
                                    const keel_specialisation *spec,
                                    uint32_t i) {
  return step->outputs[i] == KEEL_ABSENT
             ? spec->types[spec->input_count + i]
             : all->executable->types[step->outputs[i]];
}

/* Assigns memory to a value that lies inside a Concat's output; the first such value
 * allocates the block. */
static keel_status assign_concat(keel_memory_plan *all,
                                 keel_inplace_concat *concats, uint32_t index,
                                 uint32_t value, source *at) {
  uint32_t root = concats->root[value];
  const keel_device *device = all->steps[index].spec->device;
  if (concats->block[root] == KEEL_ABSENT)
    KEEL_TRY(keel_buffer_assignment_take_concat(
        &all->assignment, index, root, concats->root,
        keel_inplace_concat_bytes(device, all->executable->types[root],
                                  at->layout),
        &concats->block[root]));
  at->origin = FROM_ARENA;
  at->number = concats->block[root];
  at->offset = concats->offset[value];
  return KD_OK;
}

/* Assigns output i of a step a block, or an output slot. */
static keel_status assign_output(keel_memory_plan *all, const uint32_t *base,
                                 keel_inplace_concat *concats, uint32_t index,
                                 uint32_t i) {
  keel_step *step = &all->executable->steps[index];
  const keel_specialisation *spec = all->steps[index].spec;
  const keel_type *type = output_type(all, step, spec, i);
  uint32_t value = step->outputs[i];
  source *at = &all->sources[all->steps[index].first + spec->input_count + i];
  if (!type) return KD_OK;
  at->layout = i ? KD_LAYOUT_ROW_MAJOR : spec->node.output_layout;
  if (at->layout)
    at->layout_bytes = keel_layout_size(spec->device, type, at->layout);
  uint64_t bytes = at->layout ? at->layout_bytes : type->bytes;
  if (value != KEEL_ABSENT && escapes(all->executable, base, value)) {
    bool host = has_bit(spec->instance->def->host_outputs, i);
    at->origin = FROM_OUTPUT;
    at->number = all->output_slot_count;
    all->output_slots[all->output_slot_count++] =
        (output_slot){host ? &spec->device->context->host : &spec->device->heap,
                      type, at->layout, at->layout_bytes};
  } else if (value != KEEL_ABSENT && concats->root[value] != KEEL_ABSENT) {
    KEEL_TRY(assign_concat(all, concats, index, value, at));
  } else {
    uint32_t inplace = keel_alias_inputs(spec->instance->def, i);
    for (uint32_t k = 0; k < step->input_count && k < 32; k++)
      if (step->inputs[k] != KEEL_ABSENT &&
          (all->values[step->inputs[k]].layout != at->layout ||
           all->values[step->inputs[k]].offset ||
           all->values[step->inputs[k]].strides))
        inplace &= ~(UINT32_C(1) << k);
    at->origin = FROM_ARENA;
    KEEL_TRY(keel_buffer_assignment_take(&all->assignment, index, value, bytes,
                                         inplace, &at->number));
  }
  if (value != KEEL_ABSENT) all->values[value] = *at;
  return KD_OK;
}

static void write_view(kd_tensor *view, const keel_type *type,
                       const source *at) {
  *view = (kd_tensor){.size = at->layout ? at->layout_bytes : type->bytes,
                      .dims = type->dims,
                      .dtype = type->dtype,
                      .rank = type->rank,
                      .layout = at->layout};
}

/* Output i must share an input's memory. If they were assigned different memory, the input
 * is copied first, through a view of its own. */
static void alias_output(keel_memory_plan *all, uint32_t index, uint32_t i) {
  const keel_step *step = &all->executable->steps[index];
  planned_step *planned = &all->steps[index];
  const keel_specialisation *spec = planned->spec;
  uint32_t n = spec->input_count;
  uint32_t input = keel_alias_needed(spec->instance->def, i);
  const keel_type *type = output_type(all, step, spec, i);
  if (input >= n || step->inputs[input] == KEEL_ABSENT ||
      spec->types[input] != type || keel_node_layout(&spec->node, input) ||
      (i == 0 && spec->node.output_layout))
    return;
  source *from = &all->sources[planned->first + input];
  const source *to = &all->sources[planned->first + n + i];
  if (from->origin == to->origin && from->number == to->number) return;
  uint32_t view = all->view_count++;
  all->sources[view] = *from;
  all->views[view] = all->views[planned->first + input];
  *from = *to;
  all->fixed = true;
  all->copies[all->copy_count++] = (alias_copy){view, planned->first + n + i};
  planned->copy_count++;
}

static keel_status plan_kernel(keel_memory_plan *all, const uint32_t *base,
                               keel_inplace_concat *concats, uint32_t index) {
  keel_executable *executable = all->executable;
  const keel_step *step = &executable->steps[index];
  planned_step *planned = &all->steps[index];
  const keel_specialisation *spec = planned->spec;
  const kd_kernel_def *def = spec->instance->def;
  uint32_t n = spec->input_count;
  kd_tensor *views = &all->views[planned->first];
  for (uint32_t i = 0; i < n; i++) {
    if (step->inputs[i] == KEEL_ABSENT || memory_plan_is_taken(spec, i))
      continue;
    all->sources[planned->first + i] = all->values[step->inputs[i]];
    write_view(&views[i], executable->types[step->inputs[i]],
               &all->values[step->inputs[i]]);
    views[i].strides = all->values[step->inputs[i]].strides;
  }
  for (uint32_t i = 0; i < spec->output_count; i++) {
    const keel_type *type = output_type(all, step, spec, i);
    KEEL_TRY(assign_output(all, base, concats, index, i));
    if (type)
      write_view(&views[n + i], type, &all->sources[planned->first + n + i]);
  }
  planned->first_copy = all->copy_count;
  for (uint32_t i = 0; i < spec->output_count && def->alias_count; i++)
    alias_output(all, index, i);
  if (!def->workspace) return KD_OK;
  /* the workspace function may read constants */
  for (uint32_t i = 0; i < n; i++)
    if (all->sources[planned->first + i].origin == FROM_CONSTANT)
      keel_launch_point(&views[i],
                        keel_memory_plan_constant(
                            all, all->sources[planned->first + i].number));
  const kd_launch launch = {.struct_size = sizeof launch,
                            .input_count = n,
                            .output_count = spec->output_count,
                            .inputs = views,
                            .outputs = views + n,
                            .node = &spec->node,
                            .device = spec->device->handle,
                            .data = def->data};
  keel_pool *before = keel_pool_use(spec->device->context->pool);
  planned->workspace_size = def->workspace(planned->handle, &launch);
  keel_pool_use(before);
  if (!planned->workspace_size) return KD_OK;
  return keel_buffer_assignment_take(&all->assignment, index, KEEL_ABSENT,
                                     planned->workspace_size, 0,
                                     &planned->workspace);
}

/* The layout that an input comes in. */
static void find_layout(const keel_function *function, uint32_t input,
                        const keel_type *type, source *at) {
  if (!function->input_layouts || !function->input_layouts[input]) return;
  at->layout = function->input_layouts[input];
  at->layout_bytes = keel_layout_size(function->recorded_on, type, at->layout);
}

/* Finds inputs and constants, and which values are views of others. *out_fits: whether the
 * function can have a memory plan. */
static keel_status find_bases(keel_memory_plan *all, uint32_t *base,
                              bool *out_fits) {
  keel_executable *executable = all->executable;
  *out_fits = false;
  for (uint32_t i = 0; i < executable->value_count; i++) {
    base[i] = i;
    if (!executable->constants[i]) continue;
    all->values[i].origin = FROM_CONSTANT;
    all->values[i].number = i;
    if (executable->constants[i]->kind != KEEL_DATA ||
        executable->constants[i]->layout != KD_LAYOUT_ROW_MAJOR)
      return KD_OK;
  }
  for (uint32_t i = 0; i < executable->input_count; i++) {
    uint32_t value = executable->inputs[i];
    if (all->values[value].origin == FROM_CONSTANT || !executable->uses[value])
      continue;
    all->values[value] = (source){.origin = FROM_INPUT, .number = i};
    all->types[i] = executable->types[value];
    if (!all->types[i] || !keel_type_known(all->types[i])) return KD_OK;
    find_layout(executable->function, i, all->types[i], &all->values[value]);
  }
  for (uint32_t i = 0; i < executable->step_count; i++) {
    const keel_step *step = &executable->steps[i];
    if (!is_view(step)) continue;
    if (step->output_count != 1 || !step->input_count ||
        step->inputs[0] == KEEL_ABSENT || step->outputs[0] == KEEL_ABSENT)
      return KD_OK;
    base[step->outputs[0]] = base[step->inputs[0]];
  }
  *out_fits = executable->step_count <= STEPS_MOST;
  return KD_OK;
}

/* Sets the device of all kernels, and pins it: its handles are copied from now on. */
static void settle_on(keel_memory_plan *all, keel_device *device) {
  all->heap = &device->heap;
  keel_device_pin(device);
}

/* Resolves the source of a view. */
static bool plan_view(keel_memory_plan *all, const keel_step *step) {
  uint32_t from = step->inputs[0], to = step->outputs[0];
  const keel_type *type = all->executable->types[to];
  source *at = &all->values[to];
  *at = all->values[from];
  if (!step->site.part && at->strides) return false;
  if (step->site.part) { /* its strides are of the memory */
    at->offset += (uint64_t)keel_attr_int(step->site.op, "offset", 0) *
                  kd_dtype_size(step->site.part->dtype);
    keel_attr_ints(step->site.op, "strides", &at->strides);
  }
  if (step->copies) {
    if (step->pends || !step->site.pinned ||
        all->values[from].origin != FROM_INPUT)
      return false;
    if (!all->heap) settle_on(all, step->site.pinned);
    if (all->heap != &step->site.pinned->heap) return false;
  }
  return !all->values[from].layout && type && keel_type_known(type) &&
         all->values[from].origin != FROM_NONE;
}

/* A Concat whose inputs are made in place in its output. */
static keel_status plan_concat(keel_memory_plan *all,
                               keel_inplace_concat *concats, uint32_t index) {
  uint32_t value = all->executable->steps[index].outputs[0];
  const keel_specialisation *spec = all->steps[index].spec;
  source *at = &all->values[value];
  at->layout = spec->node.output_layout;
  at->layout_bytes =
      at->layout ? keel_layout_size(spec->device, all->executable->types[value],
                                    at->layout)
                 : 0;
  keel_status status = assign_concat(all, concats, index, value, at);
  all->steps[index].spec = NULL;
  return status;
}

static void find_specs(keel_memory_plan *all) {
  for (uint32_t i = 0; i < all->executable->step_count; i++)
    if (!is_view(&all->executable->steps[i]))
      all->steps[i].spec = spec_of(all->executable, &all->executable->steps[i]);
}

static keel_status plan_steps(keel_memory_plan *all, const uint32_t *base,
                              keel_inplace_concat *concats, bool *out_fits) {
  keel_executable *executable = all->executable;
  *out_fits = false;
  for (uint32_t i = 0; i < executable->step_count; i++) {
    keel_step *step = &executable->steps[i];
    planned_step *planned = &all->steps[i];
    planned->workspace = KEEL_ABSENT;
    if (!shapes_stay(all, step)) return KD_OK;
    if (is_view(step)) {
      if (!plan_view(all, step)) return KD_OK;
      continue;
    }
    if (keel_schema_hosted(step->site.op->schema) || !planned->spec ||
        !kernel_fits(all, step, planned->spec))
      return KD_OK;
    if (!all->heap) settle_on(all, planned->spec->device);
    if (all->heap != &planned->spec->device->heap) return KD_OK;
    if (concats->nothing[i]) {
      KEEL_TRY(plan_concat(all, concats, i));
      continue;
    }
    planned->first = all->view_count;
    all->kernel_count++;
    planned->handle = planned->spec->instance->handle;
    if (!planned->handle && planned->spec->instance->def->create)
      return KD_OK; /* the device has been lost meanwhile */
    planned->enqueue = planned->spec->instance->def->enqueue;
    all->view_count += step->input_count + step->output_count;
    all->records &=
        !(planned->spec->instance->def->flags & KD_KERNEL_NO_CAPTURE);
    KEEL_TRY(plan_kernel(all, base, concats, i));
  }
  *out_fits = all->heap != NULL;
  if (all->heap) {
    const keel_device *device = all->heap->device;
    all->queued = device->stream != NULL;
    all->records &= all->queued && device->plugin->capture.begin &&
                    !executable->plan->no_replay;
  }
  for (uint32_t i = 0; i < executable->output_count; i++)
    *out_fits &= all->values[executable->outputs[i]].origin != FROM_NONE;
  return KD_OK;
}

/* Lists the views whose memory differs in each run. */
static void list_patches(keel_memory_plan *all) {
  for (uint32_t i = 0; i < all->view_count; i++) {
    const source *at = &all->sources[i];
    all->fixed |= at->offset && at->origin != FROM_ARENA;
    if (at->origin == FROM_INPUT)
      all->input_patches[all->input_patch_count++] = (patch){i, at->number};
    if (at->origin == FROM_OUTPUT)
      all->output_patches[all->output_patch_count++] = (patch){i, at->number};
  }
}

/* The alignment that kernels may assume. */
static uint64_t alignment_of(const keel_heap *heap) {
  const keel_device *device = heap ? heap->device : NULL;
  uint32_t own = device ? device->space.alignment : 0;
  return own > 64 ? own : 64;
}

/* Whether one allocation can hold the whole arena. */
static bool fits_at_once(const keel_memory_plan *all) {
  const keel_device *device = all->heap->device;
  uint64_t most = device ? device->space.max_buffer : 0;
  return !most || all->assignment.total <= most;
}

static keel_status lay_within(keel_memory_plan *all, const uint32_t *base,
                              bool *out_fits) {
  keel_inplace_concat concats = {0};
  KEEL_TRY(
      keel_buffer_assignment_begin(&all->assignment, all->executable, base));
  find_specs(all);
  keel_status status = keel_inplace_concat_find(all, base, &concats);
  if (status == KD_OK) status = plan_steps(all, base, &concats, out_fits);
  keel_inplace_concat_drop(&concats);
  return status;
}

/* Whether no constant will be copied to the device again. */
static bool constants_stay(const keel_executable *executable) {
  for (uint32_t i = 0; i < executable->value_count; i++)
    if (executable->constants[i] && !keel_late_stays(executable->constants[i]))
      return false;
  return true;
}

static keel_status lay(keel_executable *executable, keel_memory_plan *all,
                       bool *out_fits) {
  uint32_t views = 0;
  if (!constants_stay(executable)) return KD_UNAVAILABLE;
  for (uint32_t i = 0; i < executable->step_count; i++)
    views += 2 * executable->steps[i].input_count +
             executable->steps[i].output_count;
  uint32_t *base = calloc(executable->value_count + 1, sizeof *base);
  keel_arena *arena = &all->arena;
  all->executable = executable;
  all->records = true;
  KEEL_ARENA_ARRAY(arena, all->steps, executable->step_count);
  KEEL_ARENA_ARRAY(arena, all->views, views);
  KEEL_ARENA_ARRAY(arena, all->sources, views);
  KEEL_ARENA_ARRAY(arena, all->values, executable->value_count);
  KEEL_ARENA_ARRAY(arena, all->types, executable->input_count);
  KEEL_ARENA_ARRAY(arena, all->output_slots, executable->output_count);
  KEEL_ARENA_ARRAY(arena, all->input_patches, views);
  KEEL_ARENA_ARRAY(arena, all->output_patches, views);
  KEEL_ARENA_ARRAY(arena, all->copies, views);
  keel_status status = base && !arena->failed
                           ? KD_OK
                           : keel_no_memory(views * sizeof *all->views);
  if (status == KD_OK) status = find_bases(all, base, out_fits);
  if (status == KD_OK && *out_fits) status = lay_within(all, base, out_fits);
  keel_status assigned = keel_buffer_assignment_end(
      &all->assignment, alignment_of(all->heap), all->queued);
  if (status == KD_OK) status = assigned;
  *out_fits = status == KD_OK && *out_fits && fits_at_once(all);
  if (status == KD_OK && *out_fits) {
    list_patches(all);
    all->order = keel_order_create(executable, all->assignment.edges,
                                   all->assignment.edge_count, NULL);
    if (!all->order) status = KD_OUT_OF_MEMORY;
  }
  free(base);
  return status;
}

static void memory_plan_free(keel_memory_plan *memory_plan) {
  if (!memory_plan) return;
  if (memory_plan->heap) keel_device_unpin(memory_plan->heap->device);
  keel_buffer_assignment_free(&memory_plan->assignment);
  keel_order_free(memory_plan->order);
  keel_order_free(atomic_load(&memory_plan->ranked));
  keel_donation_drop(memory_plan);
  keel_arena_free(&memory_plan->arena);
  free(memory_plan);
}

/* Marks a function that does not fit static runs. */
static keel_memory_plan unfit;

/* Created after a dynamic run, by the first thread that asks. */
keel_memory_plan *keel_memory_plan_of(keel_executable *executable) {
  /* acquire: pairs with the release below */
  keel_memory_plan *at =
      atomic_load_explicit(&executable->memory_plan, memory_order_acquire);
  if (at) return at == &unfit ? NULL : at;
  /* acquire: pairs with the release of types_final; the specialisations are complete */
  if (!atomic_load_explicit(&executable->types_final, memory_order_acquire))
    return NULL;
  bool fits = false;
  keel_memory_plan *made = calloc(1, sizeof *made);
  if (!made || lay(executable, made, &fits) != KD_OK) {
    memory_plan_free(made); /* perhaps another time */
    return NULL;
  }
  if (!fits) {
    memory_plan_free(made);
    made = &unfit;
  }
  /* release: pairs with the load above */
  if (!atomic_compare_exchange_strong_explicit(&executable->memory_plan, &at,
                                               made, memory_order_acq_rel,
                                               memory_order_acquire)) {
    if (made != &unfit) memory_plan_free(made);
    made = at;
  }
  return made == &unfit ? NULL : made;
}

void keel_memory_plan_drop(keel_executable *executable) {
  keel_memory_plan *memory_plan = atomic_load(&executable->memory_plan);
  if (memory_plan != &unfit) memory_plan_free(memory_plan);
}

bool keel_memory_plan_sizes(const keel_executable *executable,
                            uint64_t *out_planned, uint64_t *out_unshared,
                            uint64_t *out_peak) {
  const keel_memory_plan *memory_plan =
      atomic_load_explicit(&executable->memory_plan, memory_order_acquire);
  if (!memory_plan || memory_plan == &unfit) return false;
  if (out_planned) *out_planned = memory_plan->assignment.total;
  if (out_unshared) *out_unshared = memory_plan->assignment.unshared;
  if (out_peak) *out_peak = memory_plan->assignment.least;
  return true;
}
