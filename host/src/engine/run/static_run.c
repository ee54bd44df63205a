/* static_run.c - static runs: launches that are written once and run many times. */
#include "device/backoff.h"
#include "device/context.h"
#include "device/failures.h"
#include "eager/launch.h"
#include "memory/device_copy.h"
#include "memory/layout.h"
#include "memory/transfer.h"
#include "plan/donation.h"
#include "run/into.h"
#include "run/replay.h"
#include "threads/pool.h"
#include "trace/tickets.h"
#include "trace/trace.h"

static void release_all(keel_tensor **tensors, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    keel_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

static void release_memory(keel_static_run *static_run) {
  release_all(static_run->moved,
              static_run->memory_plan->executable->input_count);
  if (static_run->arena) keel_buffer_release(static_run->arena);
  static_run->arena = NULL;
}

void keel_static_run_free(keel_static_run *static_run) {
  if (!static_run) return;
  keel_replay_free(static_run->replay);
  if (static_run->moved) release_memory(static_run);
  keel_arena_free(&static_run->arrays);
  free(static_run);
}

void keel_static_run_visit(const keel_static_run *static_run,
                           void (*each)(void *context,
                                        const keel_buffer *buffer),
                           void *context) {
  uint32_t count = static_run->memory_plan->executable->input_count;
  if (static_run->arena) each(context, static_run->arena);
  for (uint32_t i = 0; i < count; i++)
    if (static_run->moved[i]) each(context, static_run->moved[i]->buffer);
  if (static_run->replay) keel_replay_visit(static_run->replay, each, context);
}

/* Points a view at a tensor's data, or at the part of it that the view covers. */
static void point_view(keel_static_run *static_run, uint32_t view,
                       const keel_tensor *tensor) {
  uint64_t offset = static_run->memory_plan->sources[view].offset;
  kd_tensor *at = &static_run->views[view];
  keel_launch_point(at, tensor);
  at->offset += offset;
  if (at->data) at->data = (char *)at->data + offset;
}

static void write_launches(keel_static_run *static_run) {
  const keel_memory_plan *memory_plan = static_run->memory_plan;
  for (uint32_t i = 0; i < memory_plan->executable->step_count; i++) {
    const planned_step *step = &memory_plan->steps[i];
    const keel_specialisation *spec = step->spec;
    if (!spec) continue;
    kd_tensor *views = static_run->views + step->first;
    static_run->scratch[i] = (int64_t)step->workspace_size;
    static_run->launches[i] = (kd_launch){
        .struct_size = sizeof(kd_launch),
        .input_count = spec->input_count,
        .output_count = spec->output_count,
        .inputs = views,
        .outputs = views + spec->input_count,
        .node = &spec->node,
        .device = spec->device->handle,
        .data = spec->instance->def->data,
    };
    if (step->workspace != KEEL_ABSENT)
      static_run->launches[i].workspace =
          (kd_tensor){.size = step->workspace_size,
                      .dims = &static_run->scratch[i],
                      .dtype = KD_U8,
                      .rank = 1};
  }
}

/* Includes those that are copied to where an output must lie. */
static void point_at_constants(keel_static_run *static_run) {
  const keel_memory_plan *memory_plan = static_run->memory_plan;
  for (uint32_t i = 0; i < memory_plan->view_count; i++)
    if (memory_plan->sources[i].origin == FROM_CONSTANT)
      point_view(static_run, i,
                 keel_memory_plan_constant(memory_plan,
                                           memory_plan->sources[i].number));
}

static keel_static_run *make_static_run(keel_memory_plan *memory_plan) {
  size_t views = memory_plan->view_count,
         steps = memory_plan->executable->step_count,
         inputs = memory_plan->executable->input_count;
  keel_static_run *static_run = calloc(1, sizeof *static_run);
  if (!static_run) return NULL;
  static_run->memory_plan = memory_plan;
  KEEL_ARENA_ARRAY(&static_run->arrays, static_run->views, views);
  KEEL_ARENA_ARRAY(&static_run->arrays, static_run->launches, steps);
  KEEL_ARENA_ARRAY(&static_run->arrays, static_run->scratch, steps);
  KEEL_ARENA_ARRAY(&static_run->arrays, static_run->output_slots,
                   memory_plan->output_slot_count);
  KEEL_ARENA_ARRAY(&static_run->arrays, static_run->moved, inputs);
  KEEL_ARENA_ARRAY(&static_run->arrays, static_run->is_fresh, inputs);
  KEEL_ARENA_ARRAY(&static_run->arrays, static_run->read, inputs);
  if (memory_plan->records)
    static_run->replay = keel_replay_create(memory_plan);
  if (static_run->arrays.failed ||
      (memory_plan->records && !static_run->replay)) {
    keel_static_run_free(static_run);
    return NULL;
  }
  memcpy(static_run->views, memory_plan->views,
         views * sizeof *static_run->views);
  write_launches(static_run);
  point_at_constants(static_run);
  return static_run;
}

/* The address of an offset in the arena; NULL if the memory has no addresses. */
static void *address_of(const keel_static_run *static_run, uint64_t offset) {
  return static_run->arena->address
             ? (char *)static_run->arena->address + offset
             : NULL;
}

/* Points all views into a new arena. */
static void point_into_arena(keel_static_run *static_run) {
  const keel_memory_plan *memory_plan = static_run->memory_plan;
  const keel_block *blocks = memory_plan->assignment.blocks;
  uint32_t flags = memory_plan->heap->device ? 0 : KD_TENSOR_HOST;
  for (uint32_t i = 0; i < memory_plan->view_count; i++) {
    if (memory_plan->sources[i].origin != FROM_ARENA) continue;
    kd_tensor *view = &static_run->views[i];
    view->buffer = static_run->arena->handle;
    view->offset = blocks[memory_plan->sources[i].number].offset +
                   memory_plan->sources[i].offset;
    view->data = address_of(static_run, view->offset);
    view->flags = flags;
  }
  for (uint32_t i = 0; i < memory_plan->executable->step_count; i++) {
    if (!memory_plan->steps[i].spec ||
        memory_plan->steps[i].workspace == KEEL_ABSENT)
      continue;
    kd_tensor *scratch = &static_run->launches[i].workspace;
    scratch->buffer = static_run->arena->handle;
    scratch->offset = blocks[memory_plan->steps[i].workspace].offset;
    scratch->data = address_of(static_run, scratch->offset);
  }
  static_run->arena_handle = static_run->arena->handle;
  static_run->base = static_run->arena->address;
}

static bool static_run_takes(const keel_memory_plan *memory_plan,
                             keel_tensor *const *inputs) {
  bool addressable = keel_device_addressable(memory_plan->heap->device);
  const uint32_t *values = memory_plan->executable->inputs;
  for (uint32_t i = 0; i < memory_plan->executable->input_count; i++)
    if (memory_plan->types[i] &&
        (!inputs[i] || inputs[i]->type != memory_plan->types[i] ||
         inputs[i]->kind != KEEL_DATA ||
         inputs[i]->layout != memory_plan->values[values[i]].layout ||
         /* a copy out would complete later */
         (addressable &&
          !keel_device_addressable(keel_tensor_location(inputs[i])))))
      return false;
  return true;
}

/* Releases the run's outputs, and its memory unless a recording uses it. */
static void release_outputs(keel_static_run *static_run) {
  release_all(static_run->output_slots,
              static_run->memory_plan->output_slot_count);
  if (!keel_replay_holds(static_run->replay)) release_memory(static_run);
}

/* The donated input whose memory an output takes, or NULL. */
static keel_tensor *donor_of(const keel_static_run *static_run, uint32_t slot,
                             keel_tensor *const *inputs, const bool *donated) {
  const output_slot *one = &static_run->memory_plan->output_slots[slot];
  uint32_t input = static_run->donation ? static_run->donation->slot_input[slot]
                                        : KEEL_ABSENT;
  return input != KEEL_ABSENT && donated[input] &&
                 keel_launch_may_reuse(inputs[input], one->heap)
             ? inputs[input]
             : NULL;
}

static keel_status take_output_slots(keel_static_run *static_run,
                                     const keel_run_args *args,
                                     const bool *donated) {
  const keel_memory_plan *memory_plan = static_run->memory_plan;
  for (uint32_t i = 0; i < memory_plan->output_slot_count; i++) {
    const output_slot *one = &memory_plan->output_slots[i];
    keel_buffer *recorded = keel_replay_output(static_run->replay, i);
    keel_tensor *donor = donor_of(static_run, i, args->inputs, donated);
    /* a recording would write there again */
    if (args->into && !donor && !static_run->replay)
      static_run->output_slots[i] = keel_into_slot(args, memory_plan, i);
    if (static_run->output_slots[i]) continue;
    if (donor)
      KEEL_TRY(
          keel_tensor_view(donor, one->type, &static_run->output_slots[i]));
    else if (recorded)
      KEEL_TRY(keel_tensor_in_buffer(recorded, one->type,
                                     &static_run->output_slots[i]));
    else if (one->layout)
      KEEL_TRY(keel_layout_make(one->heap->device, one->type, one->layout,
                                &static_run->output_slots[i]));
    else
      KEEL_TRY(
          keel_tensor_on(one->heap, one->type, &static_run->output_slots[i]));
    static_run->output_slots[i]->layout = one->layout;
    static_run->output_slots[i]->layout_bytes = one->layout_bytes;
  }
  for (uint32_t i = 0; i < memory_plan->output_patch_count; i++) {
    const patch *one = &memory_plan->output_patches[i];
    point_view(static_run, one->view, static_run->output_slots[one->number]);
  }
  return KD_OK;
}

/* Makes an input readable for the kernels, by a copy if need be. */
static keel_status move_input_in(keel_static_run *static_run,
                                 keel_tensor *const *inputs, uint32_t number,
                                 keel_tensor **out_tensor) {
  keel_device *device = static_run->memory_plan->heap->device;
  *out_tensor = inputs[number];
  if (keel_launch_in_place(inputs[number], device, false)) return KD_OK;
  keel_tensor **moved = &static_run->moved[number];
  if (!*moved)
    KEEL_TRY(keel_transfer_begin(inputs[number], device, moved));
  else if (!static_run->is_fresh[number])
    KEEL_TRY(keel_transfer_into(inputs[number], *moved));
  static_run->is_fresh[number] = true;
  *out_tensor = *moved;
  return KD_OK;
}

static keel_status take_inputs(keel_static_run *static_run,
                               keel_tensor *const *inputs) {
  const keel_memory_plan *memory_plan = static_run->memory_plan;
  memset(static_run->is_fresh, 0, memory_plan->executable->input_count);
  for (uint32_t i = 0; i < memory_plan->input_patch_count; i++) {
    const patch *one = &memory_plan->input_patches[i];
    keel_tensor *tensor = NULL;
    KEEL_TRY(move_input_in(static_run, inputs, one->number, &tensor));
    point_view(static_run, one->view, tensor);
    static_run->read[one->number] = tensor;
  }
  return KD_OK;
}

/* Gets memory for a run, and points the views at it. */
static keel_status static_run_fill(keel_static_run *static_run,
                                   const keel_run_args *args,
                                   const bool *donated) {
  const keel_memory_plan *memory_plan = static_run->memory_plan;
  keel_status status = KD_OK;
  if (memory_plan->assignment.total && !static_run->arena) {
    KEEL_TRY(keel_heap_take(memory_plan->heap, memory_plan->assignment.total,
                            &static_run->arena));
    if (static_run->arena->address != static_run->base ||
        static_run->arena->handle != static_run->arena_handle)
      point_into_arena(static_run);
  }
  status = take_inputs(static_run, args->inputs);
  if (status == KD_OK && static_run->replay) keel_replay_choose(static_run);
  if (status == KD_OK) status = take_output_slots(static_run, args, donated);
  if (static_run->replay) keel_replay_chosen(static_run->replay);
  if (status != KD_OK) release_outputs(static_run);
  return status;
}

bool keel_static_run_begin(keel_executable *executable,
                           const keel_run_args *args, const bool *donated,
                           keel_static_run **static_run) {
  keel_memory_plan *memory_plan = keel_memory_plan_of(executable);
  if (!memory_plan || !static_run_takes(memory_plan, args->inputs))
    return false;
  if (!*static_run) *static_run = make_static_run(memory_plan);
  if (!*static_run) return false;
  (*static_run)->donation =
      donated ? keel_donation_of(memory_plan, donated) : NULL;
  return static_run_fill(*static_run, args, donated) == KD_OK;
}

const keel_order *keel_static_run_order(const keel_static_run *static_run) {
  keel_donation *donation = static_run->donation;
  /* acquire: pairs with the release that published it */
  const keel_order *ranked = atomic_load_explicit(
      donation ? &donation->ranked : &static_run->memory_plan->ranked,
      memory_order_acquire);
  return ranked     ? ranked
         : donation ? donation->order
                    : static_run->memory_plan->order;
}

static void rank(const keel_executable *executable, const keel_edge *edges,
                 uint32_t edge_count, const uint32_t *costs,
                 _Atomic(keel_order *) *out_ranked) {
  keel_order *none = NULL;
  keel_order *ranked = keel_order_create(executable, edges, edge_count, costs);
  /* release: pairs with the acquire in keel_static_run_order; the first order stays, as
   * runs already use it */
  if (!atomic_compare_exchange_strong_explicit(out_ranked, &none, ranked,
                                               memory_order_release,
                                               memory_order_relaxed))
    keel_order_free(ranked);
}

void keel_static_run_rank(keel_static_run *static_run, const uint32_t *costs) {
  keel_memory_plan *memory_plan = static_run->memory_plan;
  const keel_buffer_assignment *assignment = &memory_plan->assignment;
  keel_donation *donation = static_run->donation;
  rank(memory_plan->executable, assignment->edges, assignment->edge_count,
       costs, &memory_plan->ranked);
  if (donation)
    rank(memory_plan->executable, donation->edges, donation->edge_count, costs,
         &donation->ranked);
}

bool keel_static_run_is_queued(const keel_static_run *static_run) {
  return static_run->memory_plan->queued;
}

/* Copies the inputs that must lie where outputs do (KD_ALIAS_MUST). */
static kd_status copy_aliased_inputs(keel_static_run *static_run,
                                     const planned_step *step,
                                     kd_stream *stream) {
  const keel_memory_plan *memory_plan = static_run->memory_plan;
  keel_device *device = step->spec->device;
  kd_status status = KD_OK;
  for (uint32_t i = 0; i < step->copy_count && status == KD_OK; i++) {
    const alias_copy *one = &memory_plan->copies[step->first_copy + i];
    const kd_tensor *from = &static_run->views[one->from],
                    *to = &static_run->views[one->to];
    keel_backoff backoff = {0};
    /* nothing to do where the output has the input's memory */
    if (!from->size || (from->buffer == to->buffer && from->data == to->data &&
                        from->offset == to->offset))
      continue;
    if (!keel_device_can_copy(device)) {
      memcpy(to->data, from->data, from->size);
      continue;
    }
    do
      status = device->plugin->memory.copy(device->handle, stream, from->buffer,
                                           from->offset, to->buffer, to->offset,
                                           from->size);
    while (keel_backoff_retry(device, stream, &backoff, &status));
  }
  return status;
}

/* stream: the device's, with its lock held; NULL if it has none. */
static keel_status call_step(keel_static_run *static_run, uint32_t index,
                             kd_stream *stream) {
  const planned_step *step = &static_run->memory_plan->steps[index];
  const keel_call_site *site =
      &static_run->memory_plan->executable->steps[index].site;
  if (!step->spec) return KD_OK;
  uint64_t began = keel_tracing() ? keel_now() : 0;
  if (stream)
    static_run->launches[index].correlation = keel_ticket_number(
        0, keel_trace_launch(site->op->schema->name, site->where));
  keel_backoff backoff = {0};
  kd_status status = copy_aliased_inputs(static_run, step, stream);
  if (status != KD_OK) return keel_launch_failed(site, step->spec, status);
  keel_pool *before = keel_pool_use(step->spec->device->context->pool);
  do
    status = step->enqueue(step->handle, stream, &static_run->launches[index]);
  while (keel_backoff_retry(step->spec->device, stream, &backoff, &status));
  keel_pool_use(before);
  if (began)
    keel_trace_span(site->op->schema->name, step->spec->device->name,
                    site->where, began);
  if (status == KD_DEVICE_LOST && stream && keel_has_error() &&
      !atomic_load(
          &step->spec->device->lost)) /* earlier work may have lost it */
    keel_failures_while_all(step->spec->device, status);
  return status == KD_OK ? KD_OK : keel_launch_failed(site, step->spec, status);
}

keel_status keel_static_run_step(keel_static_run *static_run, uint32_t index) {
  return call_step(static_run, index, NULL);
}

/* Fails for an input that failed work has written, where a wait has reported that. */
keel_status keel_static_run_check(const keel_static_run *static_run) {
  const keel_memory_plan *memory_plan = static_run->memory_plan;
  keel_device *device = memory_plan->heap->device;
  for (uint32_t i = 0;
       device->failures.count && i < memory_plan->input_patch_count; i++) {
    const keel_tensor *tensor =
        static_run->read[memory_plan->input_patches[i].number];
    if (keel_tensor_location(tensor) == device)
      KEEL_TRY(keel_failures_check_locked(tensor->buffer));
  }
  return KD_OK;
}

static keel_work_name static_run_name_of(const keel_memory_plan *memory_plan,
                                         uint32_t step) {
  return keel_launch_name(&memory_plan->executable->steps[step].site,
                          memory_plan->steps[step].spec);
}

/* Records a ticket's work: the launches of the run. */
static void note_work(const keel_memory_plan *memory_plan, uint64_t ticket,
                      bool recorded) {
  uint32_t first = 0, last = memory_plan->executable->step_count;
  if (!memory_plan->kernel_count) return;
  while (!memory_plan->steps[first].spec)
    first++;
  while (!memory_plan->steps[--last].spec) {
  }
  const keel_work_name from = static_run_name_of(memory_plan, first),
                       to = static_run_name_of(memory_plan, last);
  keel_work_note_run(memory_plan->heap->device, ticket,
                     memory_plan->executable->name, memory_plan->kernel_count,
                     recorded, &from, &to);
}

void keel_static_run_writes(const keel_static_run *static_run, bool recorded) {
  const keel_memory_plan *memory_plan = static_run->memory_plan;
  uint64_t ticket = keel_failures_ticket(memory_plan->heap->device);
  note_work(memory_plan, ticket, recorded);
  for (uint32_t i = 0; i < memory_plan->output_slot_count; i++)
    keel_failures_writes(static_run->output_slots[i]->buffer, ticket);
}

keel_status keel_static_run_enqueue_steps(keel_static_run *static_run) {
  kd_stream *stream = static_run->memory_plan->heap->device->stream;
  for (uint32_t i = 0; i < static_run->memory_plan->executable->step_count; i++)
    KEEL_TRY(call_step(static_run, i, stream));
  return KD_OK;
}

keel_status keel_static_run_enqueue_each(keel_static_run *static_run) {
  keel_device *device = static_run->memory_plan->heap->device;
  keel_clear_error();
  pthread_mutex_lock(&device->stream_lock);
  keel_status status = keel_static_run_check(static_run);
  if (status == KD_OK) {
    keel_static_run_writes(static_run, false);
    status = keel_static_run_enqueue_steps(static_run);
  }
  pthread_mutex_unlock(&device->stream_lock);
  return status;
}

keel_status keel_static_run_enqueue(keel_static_run *static_run) {
  return static_run->replay && !static_run->donation && !keel_tracing()
             ? keel_replay_run(static_run)
             : keel_static_run_enqueue_each(static_run);
}

/* A tensor as an output of the given type. */
static keel_status hand_out(keel_tensor *tensor, const keel_type *type,
                            keel_tensor **out_tensor) {
  if (tensor->type != type) return keel_tensor_view(tensor, type, out_tensor);
  *out_tensor = keel_tensor_retain(tensor);
  return KD_OK;
}

keel_status keel_static_run_end(keel_static_run *static_run,
                                keel_tensor *const *inputs,
                                keel_tensor **outputs) {
  const keel_memory_plan *memory_plan = static_run->memory_plan;
  const keel_executable *executable = memory_plan->executable;
  keel_status status = KD_OK;
  for (uint32_t i = 0;
       outputs && status == KD_OK && i < executable->output_count; i++) {
    uint32_t value = executable->outputs[i];
    const source *at = &memory_plan->values[value];
    keel_tensor *tensor =
        at->origin == FROM_CONSTANT ? executable->constants[at->number]
        : at->origin == FROM_INPUT  ? inputs[at->number]
                                    : static_run->output_slots[at->number];
    status = hand_out(tensor, executable->types[value], &outputs[i]);
  }
  release_outputs(static_run);
  return status;
}
