/* frame.c - static runs: launches that are written once and run many times. */
#include "device/room.h"
#include "eager/launch.h"
#include "memory/inside.h"
#include "memory/layout.h"
#include "memory/transfer.h"
#include "run/replay.h"
#include "trace/tickets.h"
#include "trace/trace.h"

static void release_all(keel_tensor **tensors, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    keel_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

static void release_memory(keel_frame *frame) {
  release_all(frame->moved, frame->framing->fplan->input_count);
  if (frame->arena) keel_buffer_release(frame->arena);
  frame->arena = NULL;
}

void keel_frame_free(keel_frame *frame) {
  if (!frame) return;
  keel_replay_free(frame->replay);
  if (frame->moved) release_memory(frame);
  keel_arena_free(&frame->arrays);
  free(frame);
}

/* Points a view at a tensor's data, or at the part of it that the view covers. */
static void point_at(keel_frame *frame, uint32_t view,
                     const keel_tensor *tensor) {
  uint64_t offset = frame->framing->sources[view].offset;
  kd_tensor *at = &frame->views[view];
  keel_launch_point(at, tensor);
  at->offset += offset;
  if (at->data) at->data = (char *)at->data + offset;
}

static void write_launches(keel_frame *frame) {
  const keel_framing *framing = frame->framing;
  for (uint32_t i = 0; i < framing->fplan->step_count; i++) {
    const framed_step *step = &framing->steps[i];
    const keel_binding *binding = step->binding;
    if (!binding) continue;
    kd_tensor *views = frame->views + step->first;
    frame->scratch[i] = (int64_t)step->workspace_size;
    frame->launches[i] = (kd_launch){
        .struct_size = sizeof(kd_launch),
        .input_count = binding->input_count,
        .output_count = binding->output_count,
        .inputs = views,
        .outputs = views + binding->input_count,
        .node = &binding->node,
        .device = binding->device->handle,
        .data = binding->instance->def->data,
    };
    if (step->workspace != KEEL_ABSENT)
      frame->launches[i].workspace = (kd_tensor){.size = step->workspace_size,
                                                 .dims = &frame->scratch[i],
                                                 .dtype = KD_U8,
                                                 .rank = 1};
  }
}

/* Includes those that are copied to where an output must lie. */
static void point_at_constants(keel_frame *frame) {
  const keel_framing *framing = frame->framing;
  for (uint32_t i = 0; i < framing->view_count; i++)
    if (framing->sources[i].origin == FROM_CONSTANT)
      point_at(frame, i, framing->fplan->constants[framing->sources[i].number]);
}

static keel_frame *make_frame(keel_framing *framing) {
  size_t views = framing->view_count, steps = framing->fplan->step_count,
         inputs = framing->fplan->input_count;
  keel_frame *frame = calloc(1, sizeof *frame);
  if (!frame) return NULL;
  frame->framing = framing;
  KEEL_ARENA_ARRAY(&frame->arrays, frame->views, views);
  KEEL_ARENA_ARRAY(&frame->arrays, frame->launches, steps);
  KEEL_ARENA_ARRAY(&frame->arrays, frame->scratch, steps);
  KEEL_ARENA_ARRAY(&frame->arrays, frame->outcomes, framing->outcome_count);
  KEEL_ARENA_ARRAY(&frame->arrays, frame->moved, inputs);
  KEEL_ARENA_ARRAY(&frame->arrays, frame->brought, inputs);
  KEEL_ARENA_ARRAY(&frame->arrays, frame->read, inputs);
  if (framing->records) frame->replay = keel_replay_create(framing);
  if (frame->arrays.failed || (framing->records && !frame->replay)) {
    keel_frame_free(frame);
    return NULL;
  }
  memcpy(frame->views, framing->views, views * sizeof *frame->views);
  write_launches(frame);
  point_at_constants(frame);
  return frame;
}

/* The address of an offset in the arena; NULL if the memory has no addresses. */
static void *address_of(const keel_frame *frame, uint64_t offset) {
  return frame->arena->address ? (char *)frame->arena->address + offset : NULL;
}

/* Points all views into a new arena. */
static void point_into(keel_frame *frame) {
  const keel_framing *framing = frame->framing;
  const keel_block *blocks = framing->places.blocks;
  uint32_t flags = framing->heap->device ? 0 : KD_TENSOR_HOST;
  for (uint32_t i = 0; i < framing->view_count; i++) {
    if (framing->sources[i].origin != FROM_ARENA) continue;
    kd_tensor *view = &frame->views[i];
    view->buffer = frame->arena->handle;
    view->offset =
        blocks[framing->sources[i].number].offset + framing->sources[i].offset;
    view->data = address_of(frame, view->offset);
    view->flags = flags;
  }
  for (uint32_t i = 0; i < framing->fplan->step_count; i++) {
    if (!framing->steps[i].binding ||
        framing->steps[i].workspace == KEEL_ABSENT)
      continue;
    kd_tensor *scratch = &frame->launches[i].workspace;
    scratch->buffer = frame->arena->handle;
    scratch->offset = blocks[framing->steps[i].workspace].offset;
    scratch->data = address_of(frame, scratch->offset);
  }
  frame->placed = frame->arena->handle;
  frame->base = frame->arena->address;
}

static bool takes(const keel_framing *framing, keel_tensor *const *inputs) {
  bool addressable = keel_device_addressable(framing->heap->device);
  for (uint32_t i = 0; i < framing->fplan->input_count; i++)
    if (framing->types[i] &&
        (!inputs[i] || inputs[i]->type != framing->types[i] ||
         inputs[i]->kind != KEEL_DATA ||
         inputs[i]->layout != KD_LAYOUT_ROW_MAJOR ||
         /* a copy out would complete later */
         (addressable &&
          !keel_device_addressable(keel_tensor_place(inputs[i])))))
      return false;
  return true;
}

/* Releases the run's outputs, and its memory unless a recording uses it. */
static void let_go(keel_frame *frame) {
  release_all(frame->outcomes, frame->framing->outcome_count);
  if (!keel_replay_holds(frame->replay)) release_memory(frame);
}

static keel_status take_outcomes(keel_frame *frame) {
  const keel_framing *framing = frame->framing;
  for (uint32_t i = 0; i < framing->outcome_count; i++) {
    const outcome *one = &framing->outcomes[i];
    keel_buffer *recorded = keel_replay_outcome(frame->replay, i);
    if (recorded)
      KEEL_TRY(keel_tensor_over(recorded, one->type, &frame->outcomes[i]));
    else if (one->layout)
      KEEL_TRY(keel_layout_make(one->heap->device, one->type, one->layout,
                                &frame->outcomes[i]));
    else
      KEEL_TRY(keel_tensor_on(one->heap, one->type, &frame->outcomes[i]));
    frame->outcomes[i]->layout = one->layout;
    frame->outcomes[i]->laid = one->laid;
  }
  for (uint32_t i = 0; i < framing->outcome_patch_count; i++) {
    const patch *one = &framing->outcome_patches[i];
    point_at(frame, one->view, frame->outcomes[one->number]);
  }
  return KD_OK;
}

/* Makes an input readable for the kernels, by a copy if need be. */
static keel_status bring(keel_frame *frame, keel_tensor *const *inputs,
                         uint32_t number, keel_tensor **out_tensor) {
  keel_device *device = frame->framing->heap->device;
  *out_tensor = inputs[number];
  if (keel_launch_in_place(inputs[number], device, false)) return KD_OK;
  keel_tensor **moved = &frame->moved[number];
  if (!*moved)
    KEEL_TRY(keel_transfer_begin(inputs[number], device, moved));
  else if (!frame->brought[number])
    KEEL_TRY(keel_transfer_into(inputs[number], *moved));
  frame->brought[number] = true;
  *out_tensor = *moved;
  return KD_OK;
}

static keel_status take_inputs(keel_frame *frame, keel_tensor *const *inputs) {
  const keel_framing *framing = frame->framing;
  memset(frame->brought, 0, framing->fplan->input_count);
  for (uint32_t i = 0; i < framing->input_patch_count; i++) {
    const patch *one = &framing->input_patches[i];
    keel_tensor *tensor = NULL;
    KEEL_TRY(bring(frame, inputs, one->number, &tensor));
    point_at(frame, one->view, tensor);
    frame->read[one->number] = tensor;
  }
  return KD_OK;
}

/* Gets memory for a run, and points the views at it. */
static keel_status fill(keel_frame *frame, keel_tensor *const *inputs) {
  const keel_framing *framing = frame->framing;
  keel_status status = KD_OK;
  if (framing->places.total && !frame->arena) {
    KEEL_TRY(
        keel_heap_take(framing->heap, framing->places.total, &frame->arena));
    if (frame->arena->address != frame->base ||
        frame->arena->handle != frame->placed)
      point_into(frame);
  }
  status = take_inputs(frame, inputs);
  if (status == KD_OK && frame->replay) keel_replay_choose(frame);
  if (status == KD_OK) status = take_outcomes(frame);
  if (status != KD_OK) let_go(frame);
  return status;
}

bool keel_frame_begin(keel_fplan *fplan, keel_tensor *const *inputs,
                      keel_frame **frame) {
  keel_framing *framing = keel_framing_of(fplan);
  if (!framing || !takes(framing, inputs)) return false;
  if (!*frame) *frame = make_frame(framing);
  return *frame && fill(*frame, inputs) == KD_OK;
}

const keel_order *keel_frame_order(const keel_frame *frame) {
  /* acquire: pairs with the release that published it */
  const keel_order *ranked =
      atomic_load_explicit(&frame->framing->ranked, memory_order_acquire);
  return ranked ? ranked : frame->framing->order;
}

void keel_frame_rank(keel_frame *frame, const uint32_t *costs) {
  keel_framing *framing = frame->framing;
  keel_order *none = NULL;
  keel_order *ranked = keel_order_create(framing->fplan, framing->places.edges,
                                         framing->places.edge_count, costs);
  /* release: pairs with the acquire in keel_static_run_order; the first order stays, as
   * runs already use it */
  if (!atomic_compare_exchange_strong_explicit(&framing->ranked, &none, ranked,
                                               memory_order_release,
                                               memory_order_relaxed))
    keel_order_free(ranked);
}

bool keel_frame_queued(const keel_frame *frame) {
  return frame->framing->queued;
}

/* Copies the inputs that must lie where outputs do (KD_ALIAS_MUST). */
static kd_status copy_before(keel_frame *frame, const framed_step *step,
                             kd_stream *stream) {
  const keel_framing *framing = frame->framing;
  keel_device *device = step->binding->device;
  kd_status status = KD_OK;
  for (uint32_t i = 0; i < step->copy_count && status == KD_OK; i++) {
    const beforehand *one = &framing->copies[step->first_copy + i];
    const kd_tensor *from = &frame->views[one->from],
                    *to = &frame->views[one->to];
    keel_patience patience = {0};
    if (!from->size) continue;
    if (!keel_inside_copies(device)) {
      memcpy(to->data, from->data, from->size);
      continue;
    }
    do
      status = device->plugin->memory.copy(device->handle, stream, from->buffer,
                                           from->offset, to->buffer, to->offset,
                                           from->size);
    while (keel_room_awaited(device, stream, &patience, &status));
  }
  return status;
}

/* stream: the device's, with its lock held; NULL if it has none. */
static keel_status call_step(keel_frame *frame, uint32_t index,
                             kd_stream *stream) {
  const framed_step *step = &frame->framing->steps[index];
  const keel_site *site = &frame->framing->fplan->steps[index].site;
  if (!step->binding) return KD_OK;
  uint64_t began = keel_tracing() ? keel_now() : 0;
  if (stream)
    frame->launches[index].correlation =
        began ? keel_ticket_number(
                    0, keel_trace_launch(site->op->schema->name, site->where))
              : 0;
  keel_patience patience = {0};
  kd_status status = copy_before(frame, step, stream);
  if (status != KD_OK) return keel_launch_failed(site, step->binding, status);
  do
    status = step->enqueue(step->handle, stream, &frame->launches[index]);
  while (keel_room_awaited(step->binding->device, stream, &patience, &status));
  if (began)
    keel_trace_span(site->op->schema->name, step->binding->device->name,
                    site->where, began);
  return status == KD_OK ? KD_OK
                         : keel_launch_failed(site, step->binding, status);
}

keel_status keel_frame_step(keel_frame *frame, uint32_t index) {
  return call_step(frame, index, NULL);
}

keel_status keel_frame_enqueue_steps(keel_frame *frame) {
  kd_stream *stream = frame->framing->heap->device->stream;
  for (uint32_t i = 0; i < frame->framing->fplan->step_count; i++)
    KEEL_TRY(call_step(frame, i, stream));
  return KD_OK;
}

keel_status keel_frame_enqueue(keel_frame *frame) {
  keel_device *device = frame->framing->heap->device;
  if (frame->replay && !keel_tracing()) return keel_replay_run(frame);
  pthread_mutex_lock(&device->stream_lock);
  keel_status status = keel_frame_enqueue_steps(frame);
  pthread_mutex_unlock(&device->stream_lock);
  return status;
}

/* A tensor as an output of the given type. */
static keel_status hand_out(keel_tensor *tensor, const keel_type *type,
                            keel_tensor **out_tensor) {
  if (tensor->type != type) return keel_tensor_view(tensor, type, out_tensor);
  *out_tensor = keel_tensor_retain(tensor);
  return KD_OK;
}

keel_status keel_frame_end(keel_frame *frame, keel_tensor *const *inputs,
                           keel_tensor **outputs) {
  const keel_framing *framing = frame->framing;
  const keel_fplan *fplan = framing->fplan;
  keel_status status = KD_OK;
  for (uint32_t i = 0; outputs && status == KD_OK && i < fplan->output_count;
       i++) {
    uint32_t value = fplan->outputs[i];
    const source *at = &framing->values[value];
    keel_tensor *tensor =
        at->origin == FROM_CONSTANT ? fplan->constants[at->number]
        : at->origin == FROM_INPUT  ? inputs[at->number]
                                    : frame->outcomes[at->number];
    status = hand_out(tensor, fplan->types[value], &outputs[i]);
  }
  let_go(frame);
  return status;
}
