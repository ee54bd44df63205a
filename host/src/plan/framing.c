/* framing.c - the memory plan: whether a function fits static runs, and what they all
 * share: launches without addresses, and where values lie. */
#include "plan/framing.h"
#include "device/context.h"

#include <kd/help.h>

#include "device/lost.h"
#include "eager/launch.h"
#include "memory/inside.h"
#include "memory/layout.h"
#include "ops/runtime.h"
#include "plan/joins.h"

/* The bit matrix of predecessors takes the square of this. */
#define STEPS_MOST 8192

/* ---- whether it fits ---------------------------------------------------------- */

/* Whether the output aliases its input (copies to the device too, frame.c). */
static bool is_view(const keel_step *step) {
  keel_op_kind kind = step->site.op->schema->kind;
  return kind == KEEL_VIEW || kind == KEEL_IDENTITY || kind == KEEL_PART ||
         step->copies;
}

/* The call site's specialisation for these types; NULL if it has none. */
static const keel_binding *binding_of(const keel_fplan *fplan,
                                      keel_step *step) {
  for (uint32_t k = 0; k < KEEL_SITE_SLOTS; k++) {
    const keel_binding *one =
        atomic_load_explicit(&step->site.slots[k], memory_order_acquire);
    bool fits = one && one->input_count == step->input_count &&
                one->output_count == step->output_count;
    for (uint32_t i = 0; fits && i < one->input_count; i++)
      fits = one->types[i] == (step->inputs[i] == KEEL_ABSENT
                                   ? NULL
                                   : fplan->types[step->inputs[i]]);
    if (fits) return one;
  }
  return NULL;
}

/* Arguments past the 32nd have no bit. */
static bool has_bit(uint32_t bits, uint32_t argument) {
  return argument < 32 && (bits >> argument & 1);
}

/* Whether output shapes depend on types and constants only. */
static bool shapes_stay(const keel_framing *all, const keel_step *step) {
  uint32_t wanted = step->site.op->schema->value_inputs;
  for (uint32_t i = 0; i < step->input_count; i++)
    if (has_bit(wanted, i) && step->inputs[i] != KEEL_ABSENT &&
        all->values[step->inputs[i]].origin != FROM_CONSTANT)
      return false;
  return true;
}

/* Whether the kernel can read argument i in place in every run. */
static bool is_in_reach(const keel_framing *all, const keel_binding *binding,
                        uint32_t i, uint32_t value) {
  bool host = has_bit(binding->instance->def->host_inputs, i);
  if (all->values[value].origin != FROM_CONSTANT)
    return !host || keel_device_addressable(binding->device);
  return keel_launch_in_place(all->fplan->constants[all->values[value].number],
                              binding->device, host);
}

/* Whether inputs that outputs must share memory with can be copied there before the
 * launch. */
static bool aliases_fit(const keel_device *device, const kd_kernel_def *def) {
  return !def->alias_count ||
         (keel_device_addressable(device) ? !device->stream
                                          : keel_inside_copies(device));
}

/* Constants that the kernel has taken are not passed: their views say KD_NONE. */
static bool is_taken(const keel_binding *binding, uint32_t i) {
  return keel_instance_took(binding->instance, i);
}

static bool kernel_fits(const keel_framing *all, const keel_step *step,
                        const keel_binding *binding) {
  const keel_fplan *fplan = all->fplan;
  const kd_kernel_def *def = binding->instance->def;
  if (def->flags & (KD_KERNEL_DYNAMIC_OUTPUT | KD_KERNEL_BLOCKING) ||
      (def->host_outputs && binding->device->stream) ||
      !aliases_fit(binding->device, def))
    return false;
  for (uint32_t i = 0; i < binding->input_count; i++) {
    uint32_t value = step->inputs[i];
    if (value == KEEL_ABSENT || is_taken(binding, i)) continue;
    if (all->values[value].origin == FROM_NOWHERE || !fplan->types[value])
      return false;
    /* a launch would convert another layout */
    if (all->values[value].layout != keel_node_layout(&binding->node, i))
      return false;
    if (!is_in_reach(all, binding, i, value)) return false;
    if (all->values[value].strides && !(def->flags & KD_KERNEL_STRIDED))
      return false;
    /* its values may determine the workspace size */
    if (def->workspace && has_bit(def->host_inputs, i) &&
        all->values[value].origin != FROM_CONSTANT)
      return false;
  }
  for (uint32_t i = 0; i < binding->output_count; i++) {
    uint32_t value = step->outputs[i];
    const keel_type *type = binding->types[binding->input_count + i];
    if (value == KEEL_ABSENT) {
      if (!binding->outputs_known) return false;
    } else if (!fplan->types[value] || !keel_type_known(fplan->types[value]) ||
               (binding->outputs_known && fplan->types[value] != type)) {
      return false;
    }
  }
  return true;
}

/* ---- where values lie ----------------------------------------------------------- */

/* Whether a value, or a view of it, is an output. */
static bool escapes(const keel_fplan *fplan, const uint32_t *base,
                    uint32_t value) {
  for (uint32_t i = 0; i < fplan->output_count; i++)
    if (base[fplan->outputs[i]] == value) return true;
  return false;
}

static const keel_type *output_type(const keel_framing *all,
                                    const keel_step *step,
                                    const keel_binding *binding, uint32_t i) {
  return step->outputs[i] == KEEL_ABSENT
             ? binding->types[binding->input_count + i]
             : all->fplan->types[step->outputs[i]];
}

/* Assigns memory to a value that lies inside a Concat's output; the first such value
 * allocates the block. */
static keel_status place_joined(keel_framing *all, keel_joins *joins,
                                uint32_t index, uint32_t value, source *at) {
  uint32_t root = joins->root[value];
  const keel_device *device = all->steps[index].binding->device;
  if (joins->block[root] == KEEL_ABSENT)
    KEEL_TRY(keel_places_take_joined(
        &all->places, index, root, joins->root,
        keel_joins_bytes(device, all->fplan->types[root], at->layout),
        &joins->block[root]));
  at->origin = FROM_ARENA;
  at->number = joins->block[root];
  at->offset = joins->offset[value];
  return KD_OK;
}

/* Assigns output i of a step a block, or an output slot. */
static keel_status place_output(keel_framing *all, const uint32_t *base,
                                keel_joins *joins, uint32_t index, uint32_t i) {
  keel_step *step = &all->fplan->steps[index];
  const keel_binding *binding = all->steps[index].binding;
  const keel_type *type = output_type(all, step, binding, i);
  uint32_t value = step->outputs[i];
  source *at =
      &all->sources[all->steps[index].first + binding->input_count + i];
  if (!type) return KD_OK;
  at->layout = i ? KD_LAYOUT_ROW_MAJOR : binding->node.output_layout;
  if (at->layout)
    at->laid = keel_layout_size(binding->device, type, at->layout);
  uint64_t bytes = at->layout ? at->laid : type->bytes;
  if (value != KEEL_ABSENT && escapes(all->fplan, base, value)) {
    bool host = has_bit(binding->instance->def->host_outputs, i);
    at->origin = FROM_OUTCOME;
    at->number = all->outcome_count;
    all->outcomes[all->outcome_count++] = (outcome){
        host ? &binding->device->context->host : &binding->device->heap, type,
        at->layout, at->laid};
  } else if (value != KEEL_ABSENT && joins->root[value] != KEEL_ABSENT) {
    KEEL_TRY(place_joined(all, joins, index, value, at));
  } else {
    uint32_t inplace = keel_alias_inputs(binding->instance->def, i);
    for (uint32_t k = 0; k < step->input_count && k < 32; k++)
      if (step->inputs[k] != KEEL_ABSENT &&
          (all->values[step->inputs[k]].layout != at->layout ||
           all->values[step->inputs[k]].offset ||
           all->values[step->inputs[k]].strides))
        inplace &= ~(UINT32_C(1) << k);
    at->origin = FROM_ARENA;
    KEEL_TRY(keel_places_take(&all->places, index, value, bytes, inplace,
                              &at->number));
  }
  if (value != KEEL_ABSENT) all->values[value] = *at;
  return KD_OK;
}

static void write_view(kd_tensor *view, const keel_type *type,
                       const source *at) {
  *view = (kd_tensor){.size = at->layout ? at->laid : type->bytes,
                      .dims = type->dims,
                      .dtype = type->dtype,
                      .rank = type->rank,
                      .layout = at->layout};
}

/* Output i must share an input's memory. If they were assigned different memory, the input
 * is copied first, through a view of its own. */
static void lay_over(keel_framing *all, uint32_t index, uint32_t i) {
  const keel_step *step = &all->fplan->steps[index];
  framed_step *framed = &all->steps[index];
  const keel_binding *binding = framed->binding;
  uint32_t n = binding->input_count;
  uint32_t input = keel_alias_needed(binding->instance->def, i);
  const keel_type *type = output_type(all, step, binding, i);
  if (input >= n || step->inputs[input] == KEEL_ABSENT ||
      binding->types[input] != type ||
      keel_node_layout(&binding->node, input) ||
      (i == 0 && binding->node.output_layout))
    return;
  source *from = &all->sources[framed->first + input];
  const source *to = &all->sources[framed->first + n + i];
  if (from->origin == to->origin && from->number == to->number) return;
  uint32_t view = all->view_count++;
  all->sources[view] = *from;
  all->views[view] = all->views[framed->first + input];
  *from = *to;
  all->fixed = true;
  all->copies[all->copy_count++] = (beforehand){view, framed->first + n + i};
  framed->copy_count++;
}

static keel_status lay_kernel(keel_framing *all, const uint32_t *base,
                              keel_joins *joins, uint32_t index) {
  keel_fplan *fplan = all->fplan;
  const keel_step *step = &fplan->steps[index];
  framed_step *framed = &all->steps[index];
  const keel_binding *binding = framed->binding;
  const kd_kernel_def *def = binding->instance->def;
  uint32_t n = binding->input_count;
  kd_tensor *views = &all->views[framed->first];
  for (uint32_t i = 0; i < n; i++) {
    if (step->inputs[i] == KEEL_ABSENT || is_taken(binding, i)) continue;
    all->sources[framed->first + i] = all->values[step->inputs[i]];
    write_view(&views[i], fplan->types[step->inputs[i]],
               &all->values[step->inputs[i]]);
    views[i].strides = all->values[step->inputs[i]].strides;
  }
  for (uint32_t i = 0; i < binding->output_count; i++) {
    const keel_type *type = output_type(all, step, binding, i);
    KEEL_TRY(place_output(all, base, joins, index, i));
    if (type)
      write_view(&views[n + i], type, &all->sources[framed->first + n + i]);
  }
  framed->first_copy = all->copy_count;
  for (uint32_t i = 0; i < binding->output_count && def->alias_count; i++)
    lay_over(all, index, i);
  if (!def->workspace) return KD_OK;
  /* the workspace function may read constants */
  for (uint32_t i = 0; i < n; i++)
    if (all->sources[framed->first + i].origin == FROM_CONSTANT)
      keel_launch_point(
          &views[i], fplan->constants[all->sources[framed->first + i].number]);
  const kd_launch launch = {.struct_size = sizeof launch,
                            .input_count = n,
                            .output_count = binding->output_count,
                            .inputs = views,
                            .outputs = views + n,
                            .node = &binding->node,
                            .device = binding->device->handle,
                            .data = def->data};
  framed->workspace_size = def->workspace(framed->handle, &launch);
  if (!framed->workspace_size) return KD_OK;
  return keel_places_take(&all->places, index, KEEL_ABSENT,
                          framed->workspace_size, 0, &framed->workspace);
}

/* Finds inputs and constants, and which values are views of others. *out_fits: whether the
 * function can have a memory plan. */
static keel_status find_bases(keel_framing *all, uint32_t *base,
                              bool *out_fits) {
  keel_fplan *fplan = all->fplan;
  *out_fits = false;
  for (uint32_t i = 0; i < fplan->value_count; i++) {
    base[i] = i;
    if (!fplan->constants[i]) continue;
    all->values[i].origin = FROM_CONSTANT;
    all->values[i].number = i;
    if (fplan->constants[i]->kind != KEEL_DATA ||
        fplan->constants[i]->layout != KD_LAYOUT_ROW_MAJOR)
      return KD_OK;
  }
  for (uint32_t i = 0; i < fplan->input_count; i++) {
    uint32_t value = fplan->inputs[i];
    if (all->values[value].origin == FROM_CONSTANT || !fplan->uses[value])
      continue;
    all->values[value] = (source){.origin = FROM_INPUT, .number = i};
    all->types[i] = fplan->types[value];
    if (!all->types[i] || !keel_type_known(all->types[i])) return KD_OK;
  }
  for (uint32_t i = 0; i < fplan->step_count; i++) {
    const keel_step *step = &fplan->steps[i];
    if (!is_view(step)) continue;
    if (step->output_count != 1 || !step->input_count ||
        step->inputs[0] == KEEL_ABSENT || step->outputs[0] == KEEL_ABSENT)
      return KD_OK;
    base[step->outputs[0]] = base[step->inputs[0]];
  }
  *out_fits = fplan->step_count <= STEPS_MOST;
  return KD_OK;
}

/* Sets the device of all kernels, and pins it: its handles are copied from now on. */
static void settle_on(keel_framing *all, keel_device *device) {
  all->heap = &device->heap;
  keel_device_hold(device);
}

/* Resolves the source of a view. */
static bool lay_view(keel_framing *all, const keel_step *step) {
  uint32_t from = step->inputs[0], to = step->outputs[0];
  const keel_type *type = all->fplan->types[to];
  source *at = &all->values[to];
  *at = all->values[from];
  if (at->strides) return false;
  if (step->site.part) {
    at->offset += (uint64_t)keel_attr_int(step->site.op, "offset", 0) *
                  kd_dtype_size(step->site.part->dtype);
    keel_attr_ints(step->site.op, "strides", &at->strides);
  }
  if (step->copies) {
    if (step->arrives || !step->site.pinned ||
        all->values[from].origin != FROM_INPUT)
      return false;
    if (!all->heap) settle_on(all, step->site.pinned);
    if (all->heap != &step->site.pinned->heap) return false;
  }
  return !all->values[from].layout && type && keel_type_known(type) &&
         all->values[from].origin != FROM_NOWHERE;
}

/* A Concat whose inputs are made in place in its output. */
static keel_status lay_joined(keel_framing *all, keel_joins *joins,
                              uint32_t index) {
  uint32_t value = all->fplan->steps[index].outputs[0];
  const keel_binding *binding = all->steps[index].binding;
  source *at = &all->values[value];
  at->layout = binding->node.output_layout;
  at->laid = at->layout ? keel_layout_size(binding->device,
                                           all->fplan->types[value], at->layout)
                        : 0;
  keel_status status = place_joined(all, joins, index, value, at);
  all->steps[index].binding = NULL;
  return status;
}

static void find_bindings(keel_framing *all) {
  for (uint32_t i = 0; i < all->fplan->step_count; i++)
    if (!is_view(&all->fplan->steps[i]))
      all->steps[i].binding = binding_of(all->fplan, &all->fplan->steps[i]);
}

static keel_status lay_steps(keel_framing *all, const uint32_t *base,
                             keel_joins *joins, bool *out_fits) {
  keel_fplan *fplan = all->fplan;
  *out_fits = false;
  for (uint32_t i = 0; i < fplan->step_count; i++) {
    keel_step *step = &fplan->steps[i];
    framed_step *framed = &all->steps[i];
    framed->workspace = KEEL_ABSENT;
    if (!shapes_stay(all, step)) return KD_OK;
    if (is_view(step)) {
      if (!lay_view(all, step)) return KD_OK;
      continue;
    }
    if (keel_schema_hosted(step->site.op->schema) || !framed->binding ||
        !kernel_fits(all, step, framed->binding))
      return KD_OK;
    if (!all->heap) settle_on(all, framed->binding->device);
    if (all->heap != &framed->binding->device->heap) return KD_OK;
    if (joins->nothing[i]) {
      KEEL_TRY(lay_joined(all, joins, i));
      continue;
    }
    framed->first = all->view_count;
    all->kernel_count++;
    framed->handle = framed->binding->instance->handle;
    if (!framed->handle && framed->binding->instance->def->create)
      return KD_OK; /* the device has been lost meanwhile */
    framed->enqueue = framed->binding->instance->def->enqueue;
    all->view_count += step->input_count + step->output_count;
    all->records &=
        !(framed->binding->instance->def->flags & KD_KERNEL_NO_CAPTURE);
    KEEL_TRY(lay_kernel(all, base, joins, i));
  }
  *out_fits = all->heap != NULL;
  if (all->heap) {
    const keel_device *device = all->heap->device;
    all->queued = device->stream != NULL;
    all->records &=
        all->queued && device->plugin->capture.begin && !fplan->plan->no_replay;
  }
  for (uint32_t i = 0; i < fplan->output_count; i++)
    *out_fits &= all->values[fplan->outputs[i]].origin != FROM_NOWHERE;
  return KD_OK;
}

/* Lists the views whose memory differs in each run. */
static void list_patches(keel_framing *all) {
  for (uint32_t i = 0; i < all->view_count; i++) {
    const source *at = &all->sources[i];
    all->fixed |= at->offset && at->origin != FROM_ARENA;
    if (at->origin == FROM_INPUT)
      all->input_patches[all->input_patch_count++] = (patch){i, at->number};
    if (at->origin == FROM_OUTCOME)
      all->outcome_patches[all->outcome_patch_count++] = (patch){i, at->number};
  }
}

/* The alignment that kernels may assume. */
static uint64_t alignment_of(const keel_heap *heap) {
  const keel_device *device = heap ? heap->device : NULL;
  uint32_t own = device ? device->space.alignment : 0;
  return own > 64 ? own : 64;
}

/* Whether one allocation can hold the whole arena. */
static bool fits_at_once(const keel_framing *all) {
  const keel_device *device = all->heap->device;
  uint64_t most = device ? device->space.max_buffer : 0;
  return !most || all->places.total <= most;
}

static keel_status lay_within(keel_framing *all, const uint32_t *base,
                              bool *out_fits) {
  keel_joins joins = {0};
  KEEL_TRY(keel_places_begin(&all->places, all->fplan, base));
  find_bindings(all);
  keel_status status = keel_joins_find(all, base, &joins);
  if (status == KD_OK) status = lay_steps(all, base, &joins, out_fits);
  keel_joins_drop(&joins);
  return status;
}

static keel_status lay(keel_fplan *fplan, keel_framing *all, bool *out_fits) {
  uint32_t views = 0;
  for (uint32_t i = 0; i < fplan->step_count; i++)
    views += 2 * fplan->steps[i].input_count + fplan->steps[i].output_count;
  uint32_t *base = calloc(fplan->value_count + 1, sizeof *base);
  keel_arena *arena = &all->arena;
  all->fplan = fplan;
  all->records = true;
  KEEL_ARENA_ARRAY(arena, all->steps, fplan->step_count);
  KEEL_ARENA_ARRAY(arena, all->views, views);
  KEEL_ARENA_ARRAY(arena, all->sources, views);
  KEEL_ARENA_ARRAY(arena, all->values, fplan->value_count);
  KEEL_ARENA_ARRAY(arena, all->types, fplan->input_count);
  KEEL_ARENA_ARRAY(arena, all->outcomes, fplan->output_count);
  KEEL_ARENA_ARRAY(arena, all->input_patches, views);
  KEEL_ARENA_ARRAY(arena, all->outcome_patches, views);
  KEEL_ARENA_ARRAY(arena, all->copies, views);
  keel_status status = base && !arena->failed
                           ? KD_OK
                           : keel_no_memory(views * sizeof *all->views);
  if (status == KD_OK) status = find_bases(all, base, out_fits);
  if (status == KD_OK && *out_fits) status = lay_within(all, base, out_fits);
  keel_status laid =
      keel_places_end(&all->places, alignment_of(all->heap), all->queued);
  if (status == KD_OK) status = laid;
  *out_fits = *out_fits && fits_at_once(all);
  if (status == KD_OK && *out_fits) {
    list_patches(all);
    all->order = keel_order_create(fplan, all->places.edges,
                                   all->places.edge_count, NULL);
    if (!all->order) status = KD_OUT_OF_MEMORY;
  }
  free(base);
  return status;
}

static void framing_free(keel_framing *framing) {
  if (!framing) return;
  if (framing->heap) keel_device_unhold(framing->heap->device);
  keel_places_free(&framing->places);
  keel_order_free(framing->order);
  keel_order_free(atomic_load(&framing->ranked));
  keel_arena_free(&framing->arena);
  free(framing);
}

/* Marks a function that does not fit static runs. */
static keel_framing unfit;

/* Created after a dynamic run, by the first thread that asks. */
keel_framing *keel_framing_of(keel_fplan *fplan) {
  /* acquire: pairs with the release below */
  keel_framing *at =
      atomic_load_explicit(&fplan->framing, memory_order_acquire);
  if (at) return at == &unfit ? NULL : at;
  /* acquire: pairs with the release of types_final; the specialisations are complete */
  if (!atomic_load_explicit(&fplan->ran, memory_order_acquire)) return NULL;
  bool fits = false;
  keel_framing *made = calloc(1, sizeof *made);
  if (!made || lay(fplan, made, &fits) != KD_OK) {
    framing_free(made); /* perhaps another time */
    return NULL;
  }
  if (!fits) {
    framing_free(made);
    made = &unfit;
  }
  /* release: pairs with the load above */
  if (!atomic_compare_exchange_strong_explicit(&fplan->framing, &at, made,
                                               memory_order_acq_rel,
                                               memory_order_acquire)) {
    if (made != &unfit) framing_free(made);
    made = at;
  }
  return made == &unfit ? NULL : made;
}

void keel_framing_drop(keel_fplan *fplan) {
  keel_framing *framing = atomic_load(&fplan->framing);
  if (framing != &unfit) framing_free(framing);
}

bool keel_framing_memory(const keel_fplan *fplan, uint64_t *out_planned,
                         uint64_t *out_apart, uint64_t *out_least) {
  const keel_framing *framing =
      atomic_load_explicit(&fplan->framing, memory_order_acquire);
  if (!framing || framing == &unfit) return false;
  if (out_planned) *out_planned = framing->places.total;
  if (out_apart) *out_apart = framing->places.apart;
  if (out_least) *out_least = framing->places.least;
  return true;
}
