/* weights.c - after a run, when no other is running: releases a plan's constants that
 * nothing reads any more, and copies misaligned ones out of their file. */
#include "plan/weights.h"

#include <sched.h>

#include "device/device.h"

#define CLOSED UINT32_MAX

/* Smaller constants are kept. */
#define LEAST 4096 /* bytes */

/* Detached constants, released when no thread waits for it. */
typedef struct gone {
  keel_tensor **list;
  uint32_t count;
} gone;

/* ---- which may go --------------------------------------------------------------- */

/* The step's only possible specialisation, as its input types and device are known; NULL if
 * it might need another one. */
static const keel_specialisation *settled(const keel_executable *executable,
                                          const keel_step *step) {
  const keel_function *function = executable->function;
  if (!keel_step_device(executable->plan, step)) return NULL;
  for (uint32_t i = 0; i < step->input_count; i++) {
    const keel_type *type = step->inputs[i] == KEEL_ABSENT
                                ? NULL
                                : function->values[step->inputs[i]].type;
    if (step->inputs[i] != KEEL_ABSENT && (!type || !keel_type_known(type)))
      return NULL;
  }
  /* acquire: the specialisation */
  return atomic_load_explicit(&step->site.slots[1], memory_order_acquire)
             ? NULL
             : atomic_load_explicit(&step->site.slots[0], memory_order_acquire);
}

static bool is_weight(const keel_function *function, uint32_t value) {
  const keel_tensor *constant = function->values[value].constant;
  return constant && constant->kind == KEEL_DATA && constant->buffer &&
         constant->type->bytes >= LEAST && !keel_mapping_holds(constant);
}

/* Whether each launch would have to find its copy, as it is misaligned. */
static bool is_misaligned(const keel_function *function, uint32_t value) {
  const keel_tensor *constant = function->values[value].constant;
  return constant && keel_tensor_misaligned(constant);
}

/* The same, and launches do. A plan for all sizes does not know what kernels have taken. */
static bool is_copied(const keel_executable *executable, uint32_t value) {
  return is_misaligned(executable->function, value) &&
         (!executable->plan->holds ||
          keel_mapping_keeps(executable->function->values[value].constant));
}

/* Bits: the uses of a constant by its readers; then its state. */
enum {
  NEEDS = 1,  /* read in the program's host memory */
  PASSES = 2, /* passed at each launch, from device memory */
  DROPPED = 4,
  MOVED = 8
};

/* Whether launches use only a constant's copy in device memory: true for compiled regions and for
 * kernels that declare it; others may ask for its data at each launch. */
static bool only_passes(const keel_executable *executable,
                        const keel_step *step, const kd_kernel_def *def,
                        uint32_t input) {
  if (!executable->function->values[step->inputs[input]].placed) return false;
  if (step->site.region) return true;
  return (def->flags & KD_KERNEL_CONSTANTS_IN_CREATE) &&
         !(input < 32 && def->host_inputs >> input & 1);
}

static uint8_t use_of(const keel_executable *executable, const keel_step *step,
                      uint32_t input) {
  const keel_specialisation *spec = settled(executable, step);
  if (!spec) return NEEDS;
  const keel_instance *instance = spec->instance;
  if (keel_instance_has_taken(instance, input)) return 0;
  return only_passes(executable, step, instance->def, input) ? PASSES : NEEDS;
}

static void find_uses(const keel_executable *executable, uint8_t *uses) {
  for (uint32_t i = 0; i < executable->step_count; i++) {
    const keel_step *step = &executable->steps[i];
    for (uint32_t k = 0; k < step->input_count; k++)
      if (step->inputs[k] < executable->function->value_count) /* not absent */
        uses[step->inputs[k]] |= use_of(executable, step, k);
  }
  for (uint32_t i = 0; i < executable->output_count; i++)
    uses[executable->outputs[i]] = NEEDS;
}

/* ---- letting go ----------------------------------------------------------------- */

/* Bytes of constants after which pools give back what they have. */
#define LARGE (UINT64_C(1) << 20)

static void weights_note(gone *all, keel_tensor *tensor) {
  if (tensor) all->list[all->count++] = tensor;
}

/* Replaces it by a tensor of the same type without data. */
static bool drop_value(keel_executable *executable, uint32_t value, bool passes,
                       gone *all) {
  keel_value_info *info = &executable->function->values[value];
  keel_tensor *stand_in = keel_tensor_new(executable->plan->context);
  if (!stand_in) return false; /* then it stays */
  stand_in->type = info->constant->type;
  /* for its footprint: kernels have the contents */
  keel_tensor_is_copy_of(stand_in, info->constant);
  weights_note(all, info->constant);
  info->constant = stand_in;
  if (passes) return true;
  weights_note(all, info->placed);
  info->placed = NULL;
  executable->constants[value] = stand_in;
  return true;
}

/* Replaces it by its aligned copy. */
static bool move_value(keel_executable *executable, uint32_t value, gone *all) {
  keel_value_info *info = &executable->function->values[value];
  keel_tensor *aligned = NULL;
  if (keel_mapping_align(info->constant, &aligned) != KD_OK)
    return false; /* then each launch copies it */
  weights_note(all, info->constant);
  info->constant = aligned;
  if (!info->placed) executable->constants[value] = aligned;
  return true;
}

static void change_inputs(keel_executable *executable, const uint8_t *uses,
                          gone *all) {
  for (uint32_t i = 0; i < executable->step_count; i++) {
    keel_step *step = &executable->steps[i];
    const keel_specialisation *spec = settled(executable, step);
    for (uint32_t k = 0; k < step->input_count; k++) {
      uint32_t value = step->inputs[k];
      if (value >= executable->function->value_count) continue;
      if (uses[value] & MOVED)
        step->site.constants[k] = executable->function->values[value].constant;
      if (!(uses[value] & DROPPED)) continue;
      weights_note(all, keel_instance_release_constant(spec->instance, k));
      step->site.constants[k] = NULL;
      step->site.settled = true;
    }
  }
}

static void drop_of(keel_executable *executable, gone *all) {
  uint32_t count = executable->function->value_count;
  uint8_t *uses = calloc((size_t)count + 1, sizeof *uses);
  if (!uses) return; /* then they stay */
  find_uses(executable, uses);
  for (uint32_t i = 0; i < count; i++)
    if (!executable->plan->holds && !(uses[i] & NEEDS) &&
        is_weight(executable->function, i) &&
        drop_value(executable, i, uses[i] & PASSES, all))
      uses[i] |= DROPPED;
    else if ((uses[i] & NEEDS) && is_copied(executable, i) &&
             move_value(executable, i, all))
      uses[i] |= MOVED;
  change_inputs(executable, uses, all);
  free(uses);
}

/* Room for all constants that may be released: two per value, plus those that instances
 * hold. */
static bool weights_make_room(const keel_plan *plan, gone *all) {
  size_t count = 1;
  for (const keel_executable *at = plan->executables; at; at = at->next) {
    count += 2 * (size_t)at->function->value_count;
    for (uint32_t i = 0; i < at->step_count; i++)
      count += at->steps[i].input_count;
  }
  all->list = malloc(count * sizeof(keel_tensor *));
  return all->list != NULL;
}

/* Bytes that go back to a pool with this reference: a version's weights are others', too. */
static uint64_t weights_freed_by(const keel_tensor *tensor) {
  return keel_refs_unique(&tensor->refs) && tensor->kind == KEEL_DATA &&
                 tensor->buffer && keel_refs_unique(&tensor->buffer->refs) &&
                 !keel_mapping_holds(tensor)
             ? tensor->buffer->size
             : 0;
}

static void weights_let_go(keel_plan *plan) {
  gone all = {0};
  /* relaxed: ordered by the acquire on `count` */
  bool lets = atomic_load_explicit(&plan->weight_readers.expected,
                                   memory_order_relaxed) &&
              weights_make_room(plan, &all);
  for (keel_executable *at = lets ? plan->executables : NULL; at; at = at->next)
    drop_of(at, &all);
  /* release: publishes the remaining constants to runs that no longer count */
  atomic_store_explicit(&plan->weight_readers.expected, false,
                        memory_order_release);
  atomic_store_explicit(&plan->weight_readers.count, 0, memory_order_release);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < all.count; i++) {
    bytes += weights_freed_by(all.list[i]);
    keel_tensor_release(all.list[i]);
  }
  if (bytes >= LARGE) keel_heap_shrink(plan->context, plan->device);
  free(all.list);
}

/* ---- runs ------------------------------------------------------------------------- */

void keel_weights_allow_release(keel_plan *plan) {
  for (const keel_executable *at = plan->executables; at; at = at->next)
    for (uint32_t i = 0; i < at->function->value_count; i++)
      if ((!plan->holds && is_weight(at->function, i)) ||
          is_misaligned(at->function, i))
        /* relaxed: no other thread has the plan yet */
        atomic_store_explicit(&plan->weight_readers.expected, true,
                              memory_order_relaxed);
}

bool keel_weights_enter(keel_plan *plan) {
  if (!atomic_load_explicit(&plan->weight_readers.expected,
                            memory_order_acquire))
    return false;
  uint32_t count =
      atomic_load_explicit(&plan->weight_readers.count, memory_order_relaxed);
  for (;;) {
    if (count == CLOSED) { /* briefly: another thread is swapping pointers */
      sched_yield();
      count = atomic_load_explicit(&plan->weight_readers.count,
                                   memory_order_relaxed);
      /* acquire: pairs with the release after constants were released */
    } else if (atomic_compare_exchange_weak_explicit(
                   &plan->weight_readers.count, &count, count + 1,
                   memory_order_acquire, memory_order_relaxed)) {
      return true;
    }
  }
}

void keel_weights_leave(keel_plan *plan, keel_status status) {
  uint32_t none = 0;
  /* release: publishes this run; acquire: sees all other runs before anything is
   * released */
  if (atomic_fetch_sub_explicit(&plan->weight_readers.count, 1,
                                memory_order_release) == 1 &&
      status == KD_OK &&
      atomic_compare_exchange_strong_explicit(
          &plan->weight_readers.count, &none, CLOSED, memory_order_acquire,
          memory_order_relaxed))
    weights_let_go(plan);
}
