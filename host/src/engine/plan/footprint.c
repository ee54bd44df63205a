/* footprint.c - the memory that a plan holds: constants, the forms that kernels have made of them,
 * and the memory of recordings, each counted once for the plan and its versions. */
#include "device/context.h"
#include "memory/late.h"
#include "memory/mapping.h"
#include "plan/memory_plan.h"
#include "plan/versions.h"
#include "plan/weights.h"

/* What a step's kernel and its launch take beside the arenas, roughly. */
#define STEP_BYTES 1024

/* Kinds of memory. */
typedef enum piece_kind { CONSTANT, MAPPED, TAKEN, RECORDED } piece_kind;

typedef struct piece {
  uint64_t key; /* equal for two uses of one piece */
  uint64_t bytes;
  const keel_device *device; /* NULL: host memory */
  piece_kind kind;
} piece;

typedef struct pieces {
  piece *list;
  uint32_t count, capacity;
  uint64_t largest; /* of the arenas that a run takes from this heap's pool */
  const keel_heap *heap;
  bool failed; /* out of memory */
} pieces;

static void pieces_add(pieces *all, piece one) {
  if (one.device != all->heap->device || !one.bytes) return;
  if (!KEEL_ROOM(all->list, all->count, all->capacity)) {
    all->failed = true;
    return;
  }
  all->list[all->count++] = one;
}

static void pieces_add_buffer(pieces *all, const keel_buffer *buffer,
                              piece_kind kind) {
  if (buffer)
    pieces_add(all, (piece){.key = (uintptr_t)buffer,
                            .bytes = buffer->size,
                            .device = buffer->heap->device,
                            .kind = kind});
}

static void pieces_add_recorded(void *context, const keel_buffer *buffer) {
  pieces_add_buffer(context, buffer, RECORDED);
}

/* One in a file's mapping is a part of the mapping's buffer. */
static void pieces_add_constant(pieces *all, const keel_tensor *constant) {
  if (constant) constant = keel_late_there(constant);
  if (!constant || constant->kind != KEEL_DATA) return;
  if (keel_mapping_holds(constant))
    pieces_add(all, (piece){.key = (uintptr_t)constant->data,
                            .bytes = constant->type->bytes,
                            .kind = MAPPED});
  else
    pieces_add_buffer(all, constant->buffer, CONSTANT);
}

/* The constants that a step's kernels have in forms of their own. */
static void pieces_add_taken(pieces *all, const keel_executable *executable,
                             const keel_step *step) {
  for (uint32_t i = 0; i < KEEL_CALL_SITE_SLOTS; i++) {
    /* acquire: the specialisation */
    const keel_specialisation *spec =
        atomic_load_explicit(&step->site.slots[i], memory_order_acquire);
    if (!spec) return;
    for (uint32_t k = 0; k < step->input_count; k++) {
      keel_tensor *constant =
          step->inputs[k] < executable->function->value_count
              ? executable->function->values[step->inputs[k]].constant
              : NULL;
      if (constant && constant->kind == KEEL_DATA &&
          keel_instance_has_taken(spec->instance, k))
        pieces_add(all, (piece){.key = keel_tensor_identity(constant),
                                .bytes = constant->type->bytes,
                                .device = spec->device,
                                .kind = TAKEN});
    }
  }
}

/* Visits the buffers that the executable's idle run holds. False: it has none. */
static bool with_idle(keel_executable *executable,
                      void (*visit)(void *context, const keel_buffer *buffer),
                      void *context) {
  keel_idle *none = NULL;
  /* as a run takes it (run.c) */
  keel_idle *idle =
      atomic_exchange_explicit(&executable->idle, NULL, memory_order_acquire);
  if (!idle) return false;
  idle->visit(idle, visit, context);
  if (!atomic_compare_exchange_strong_explicit(&executable->idle, &none, idle,
                                               memory_order_release,
                                               memory_order_relaxed))
    idle->free(idle);
  return true;
}

static void pieces_add_arena(pieces *all, keel_executable *executable) {
  const keel_memory_plan *memory_plan = keel_memory_plan_of(executable);
  if (memory_plan && memory_plan->heap == all->heap &&
      memory_plan->assignment.total > all->largest)
    all->largest = memory_plan->assignment.total;
  with_idle(executable, pieces_add_recorded, all);
}

static void pieces_add_executable(pieces *all, keel_executable *executable) {
  for (uint32_t i = 0; i < executable->function->value_count; i++) {
    pieces_add_constant(all, executable->function->values[i].constant);
    pieces_add_constant(all, executable->function->values[i].placed);
  }
  for (uint32_t i = 0; i < executable->step_count; i++)
    pieces_add_taken(all, executable, &executable->steps[i]);
  pieces_add_arena(all, executable);
}

/* ---- one version ---------------------------------------------------------- */

static void add_recorded(void *context, const keel_buffer *buffer) {
  *(uint64_t *)context += buffer->size;
}

/* Values that no other plan has, and what steps keep of their kernels. */
static uint64_t own_bytes_of(keel_executable *executable, bool *out_idle) {
  /* acquire: pairs with the release that published it; it is not made for this */
  const keel_memory_plan *memory_plan =
      atomic_load_explicit(&executable->memory_plan, memory_order_acquire);
  uint64_t bytes =
      executable->step_count * (sizeof(keel_specialisation) + STEP_BYTES);
  for (uint32_t i = 0; i < executable->function->value_count; i++) {
    const keel_tensor *constant = executable->function->values[i].constant;
    if (constant && constant->kind == KEEL_DATA && constant->buffer &&
        keel_refs_unique(&constant->refs) && !keel_mapping_holds(constant))
      bytes += constant->buffer->size;
  }
  if (memory_plan) bytes += 2 * keel_arena_bytes(&memory_plan->arena);
  *out_idle = with_idle(executable, add_recorded, &bytes);
  return bytes;
}

uint64_t keel_plan_own_bytes(keel_plan *plan, bool *out_whole) {
  uint64_t bytes = keel_arena_bytes(&plan->arena);
  bool other = false;
  bool reads = keel_weights_enter(plan);
  for (keel_executable *at = plan->executables; at; at = at->next)
    bytes += own_bytes_of(at, at == plan->main ? out_whole : &other);
  if (reads) keel_weights_leave(plan, KD_ABORTED); /* as above */
  return bytes;
}

/* ---- all of a plan -------------------------------------------------------- */

static void pieces_add_plan(pieces *all, keel_plan *plan) {
  keel_plan *versions[KEEL_VERSIONS_MOST];
  bool reads = keel_weights_enter(plan);
  for (keel_executable *at = plan->executables; at; at = at->next)
    pieces_add_executable(all, at);
  /* not a run: nothing is released after it */
  if (reads) keel_weights_leave(plan, KD_ABORTED);
  uint32_t count =
      plan->versions ? keel_versions_list(plan->versions, versions) : 0;
  for (uint32_t i = 0; i < count; i++) {
    pieces_add_plan(all, versions[i]);
    keel_plan_release(versions[i]);
  }
  /* acquire: pairs with the release that published it */
  keel_plan *dynamic =
      atomic_load_explicit(&plan->dynamic, memory_order_acquire);
  if (dynamic) pieces_add_plan(all, dynamic);
}

static int piece_compare(const void *a_, const void *b_) {
  const piece *a = a_, *b = b_;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  return a->key < b->key ? -1 : a->key > b->key;
}

static void pieces_sum(const pieces *all, keel_footprint *out) {
  uint64_t *sums[] = {&out->constants, &out->mapped, &out->taken,
                      &out->recorded};
  for (uint32_t i = 0; i < all->count; i++)
    if (!i || piece_compare(&all->list[i - 1], &all->list[i]))
      *sums[all->list[i].kind] += all->list[i].bytes;
  out->values = all->largest;
}

keel_status keel_plan_footprint(keel_plan *plan, uint32_t index,
                                keel_footprint *out_footprint) {
  keel_context *context = plan->context;
  if (index > context->device_count)
    return keel_fail(KD_OUT_OF_RANGE, "the context has %u devices",
                     (unsigned)context->device_count);
  const keel_device *device = index ? keel_devices(context)[index - 1] : NULL;
  pieces all = {.heap = device ? &device->heap : &context->host};
  *out_footprint = (keel_footprint){.device = device ? device->name : "host"};
  pieces_add_plan(&all, plan);
  if (all.failed) {
    free(all.list);
    return keel_no_memory(all.capacity * sizeof *all.list);
  }
  if (all.count) qsort(all.list, all.count, sizeof *all.list, piece_compare);
  pieces_sum(&all, out_footprint);
  free(all.list);
  return KD_OK;
}
