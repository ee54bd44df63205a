/* profile.c - where the time of a plan's runs went, by op and by device: as the host sees
 * it and by the devices' own clocks. */
#include "base/refs.h"
#include "device/context.h"
#include "loader/clocks.h"
#include "loader/library.h"
#include "plan/plan.h"
#include "plan/versions.h"
#include "trace/tickets.h"

void keel_profile_run(keel_plan *plan) {
  uint64_t none = 0;
  if (atomic_load_explicit(&plan->profile, memory_order_relaxed) &&
      !atomic_load_explicit(&plan->profile_from, memory_order_relaxed))
    atomic_compare_exchange_strong(&plan->profile_from, &none, keel_now());
}

/* ---- counters ------------------------------------------------------------------ */

/* Guards the parts of all plans: it is taken rarely. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guards the exchange times of all plans, for some instructions. */
static pthread_mutex_t times_lock = PTHREAD_MUTEX_INITIALIZER;

/* clocks: use those of devices, too. A step that stops counting keeps its sums. */
static void count_steps(keel_plan *plan, bool on, bool clocks) {
  pthread_mutex_lock(&times_lock);
  if (on)
    plan->exchange_times.calls = plan->exchange_times.time =
        plan->exchange_times.bare = 0;
  pthread_mutex_unlock(&times_lock);
  for (keel_executable *at = plan->executables; at; at = at->next)
    for (uint32_t i = 0; i < at->step_count; i++) {
      keel_step *step = &at->steps[i];
      if (on) {
        atomic_store(&step->calls, 0);
        atomic_store(&step->time, 0);
        __atomic_store_n(&step->copy_time, 0, __ATOMIC_RELAXED);
        step->ticket = clocks ? keel_ticket_take() : 0;
      }
      step->site.ticket = on ? step->ticket : 0;
      step->site.copy_time = on ? &step->copy_time : NULL;
    }
  atomic_store(&plan->profile, on);
}

/* With the lock held. If memory runs out, the part is not counted. */
static void add_part(keel_plan *plan, keel_plan *part) {
  assert(KEEL_IS_LOCKED(&lock));
  if (!KEEL_ROOM(plan->parts, plan->part_count, plan->part_capacity)) return;
  keel_refs_take(&part->refs);
  plan->parts[plan->part_count++] = part;
  count_steps(part, true, plan->clocks);
}

void keel_profile_part(keel_plan *plan, keel_plan *part) {
  pthread_mutex_lock(&lock);
  if (atomic_load(&plan->profile)) add_part(plan, part);
  pthread_mutex_unlock(&lock);
}

/* Without the lock: releasing a part may destroy it and end its own profile. */
static void drop_parts(keel_plan *plan) {
  pthread_mutex_lock(&lock);
  keel_plan **parts = plan->parts;
  uint32_t count = plan->part_count;
  plan->parts = NULL;
  plan->part_count = plan->part_capacity = 0;
  pthread_mutex_unlock(&lock);
  for (uint32_t i = 0; i < count; i++)
    keel_plan_release(parts[i]);
  free(parts);
}

void keel_profile_drop(keel_plan *plan) {
  drop_parts(plan);
}

static void count_all(keel_plan *plan, bool on) {
  keel_plan *versions[KEEL_VERSIONS_MOST];
  /* one that is made now would be counted neither here nor when it is made */
  if (on && plan->versions) keel_versions_await(plan->versions);
  uint32_t count =
      on && plan->versions ? keel_versions_list(plan->versions, versions) : 0;
  keel_plan *dynamic = atomic_load(&plan->dynamic);
  if (on) drop_parts(plan);
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < plan->part_count; i++)
    count_steps(plan->parts[i], false,
                false); /* keeps what they have counted */
  if (on && dynamic) add_part(plan, dynamic);
  for (uint32_t i = 0; i < count; i++)
    add_part(plan, versions[i]);
  count_steps(plan, on, plan->clocks);
  pthread_mutex_unlock(&lock);
  for (uint32_t i = 0; i < count; i++)
    keel_plan_release(versions[i]);
}

/* ---- exchanges ------------------------------------------------------------------- */

/* After a change of either number. */
static void note_change(keel_exchange_times *times, bool was_bare) {
  bool is_bare = times->exchanges && !times->steps;
  if (is_bare == was_bare) return;
  if (is_bare)
    times->bare_since = keel_now();
  else
    times->bare += keel_now() - times->bare_since;
}

void keel_profile_step(keel_plan *plan, bool begins) {
  keel_exchange_times *times = &plan->exchange_times;
  pthread_mutex_lock(&times_lock);
  bool was_bare = times->exchanges && !times->steps;
  times->steps += begins ? 1 : -1u;
  note_change(times, was_bare);
  pthread_mutex_unlock(&times_lock);
}

void keel_profile_exchange(keel_plan *plan, bool begins) {
  keel_exchange_times *times = &plan->exchange_times;
  pthread_mutex_lock(&times_lock);
  bool was_bare = times->exchanges && !times->steps;
  if (begins && !times->exchanges++) times->since = keel_now();
  if (!begins && !--times->exchanges) times->time += keel_now() - times->since;
  times->calls += begins;
  note_change(times, was_bare);
  pthread_mutex_unlock(&times_lock);
}

/* Adds one plan's. */
static void add_times(const keel_plan *plan, keel_profile_exchanges *to) {
  pthread_mutex_lock(&times_lock);
  to->calls += plan->exchange_times.calls;
  to->time += plan->exchange_times.time;
  to->bare += plan->exchange_times.bare;
  pthread_mutex_unlock(&times_lock);
}

void keel_plan_profile_exchanges(keel_plan *plan,
                                 keel_profile_exchanges *out_exchanges) {
  *out_exchanges = (keel_profile_exchanges){0};
  add_times(plan, out_exchanges);
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < plan->part_count; i++)
    add_times(plan->parts[i], out_exchanges);
  pthread_mutex_unlock(&lock);
}

/* ---- devices' clocks --------------------------------------------------------- */

static void start_device(keel_device *device) {
  keel_clock *clock = keel_device_clock(device);
  keel_clock_join(device);
  atomic_store(&clock->kernels, 0);
  atomic_store(&clock->copies, 0);
  atomic_store(&clock->bytes, 0);
}

void keel_plan_profile(keel_plan *plan, uint32_t what) {
  bool on = what != 0;
  const keel_context *context = plan->context;
  if (!on) count_all(plan, false);
  for (uint32_t i = 0; i < context->device_count; i++) {
    if (plan->clocks) keel_clock_leave(keel_devices(context)[i]);
    if (what & KEEL_PROFILE_CLOCKS) start_device(keel_devices(context)[i]);
  }
  plan->clocks = (what & KEEL_PROFILE_CLOCKS) != 0;
  if (plan->clocks) keel_tickets_begin();
  uint64_t from = atomic_exchange(&plan->profile_from, 0);
  if (!on && from) plan->profile_wall = keel_now() - from;
  if (on) plan->profile_wall = 0;
  if (on) plan->by_clocks = (what & KEEL_PROFILE_CLOCKS) != 0;
  if (on) count_all(plan, true);
}

/* ---- lines ----------------------------------------------------------------------- */

/* NULL: a runtime op, or not run yet. A copy belongs to the device whose memory it writes,
 * or reads. */
static keel_device *ran_on(const keel_plan *plan, const keel_step *step) {
  const keel_specialisation *spec = atomic_load(&step->site.slots[0]);
  if (step->copies) return step->site.pinned;
  if (keel_schema_hosted(step->site.op->schema)) return NULL;
  return spec ? spec->device : keel_step_device(plan, step);
}

static const char *profile_device_of(const keel_plan *plan,
                                     const keel_step *step) {
  const keel_device *device = ran_on(plan, step);
  return device                                      ? device->name
         : keel_schema_hosted(step->site.op->schema) ? "host"
                                                     : "?";
}

/* Names copies by direction. */
static const char *op_of(const keel_step *step) {
  const keel_opdef *op = step->site.op;
  if (!step->copies) return op->schema->name;
  return keel_attr_int(op, "host", 0) ? "Copy out" : "Copy in";
}

/* Step *index of the main function, then of the nested ones; NULL past them, and *index
 * counts on from there. */
static keel_step *step_of(keel_plan *plan, uint32_t *index) {
  if (*index < plan->main->step_count) return &plan->main->steps[*index];
  *index -= plan->main->step_count;
  for (keel_executable *at = plan->executables; at; at = at->next) {
    if (at == plan->main) continue;
    if (*index < at->step_count) return &at->steps[*index];
    *index -= at->step_count;
  }
  return NULL;
}

/* Of the plan itself, then of its parts. */
static keel_step *step_at(keel_plan *plan, uint32_t index) {
  pthread_mutex_lock(&lock);
  keel_step *step = step_of(plan, &index);
  for (uint32_t i = 0; !step && i < plan->part_count; i++)
    step = step_of(plan->parts[i], &index);
  pthread_mutex_unlock(&lock);
  return step;
}

keel_status keel_plan_profile_line(keel_plan *plan, uint32_t index,
                                   keel_profile_line *out_line) {
  keel_step *step = step_at(plan, index);
  if (!step)
    return keel_fail(KD_OUT_OF_RANGE, "the profile has no line %u",
                     (unsigned)index);
  *out_line = (keel_profile_line){
      .node = step->site.where,
      .op = op_of(step),
      .device = profile_device_of(plan, step),
      .calls = atomic_load(&step->calls),
      .time = atomic_load(&step->time),
      .copies = __atomic_load_n(&step->copy_time, __ATOMIC_RELAXED),
  };
  out_line->timed =
      keel_ticket_read(step->ticket, &out_line->device_time) ? 1 : 0;
  memcpy(out_line->types, step->types, sizeof out_line->types);
  return KD_OK;
}

/* ---- by device ---------------------------------------------------------------------- */

/* The index-th device of the context that ran a step; NULL past the last. */
static keel_device *device_at(keel_plan *plan, uint32_t index) {
  const keel_context *context = plan->context;
  for (uint32_t i = 0; i < context->device_count; i++) {
    bool used = false;
    keel_step *step;
    for (uint32_t k = 0; !used && (step = step_at(plan, k)); k++)
      used = atomic_load(&step->calls) &&
             ran_on(plan, step) == keel_devices(context)[i];
    if (used && !index--) return keel_devices(context)[i];
  }
  return NULL;
}

keel_status keel_plan_profile_device(keel_plan *plan, uint32_t index,
                                     keel_profile_device *out_device) {
  keel_device *device = device_at(plan, index);
  if (!device)
    return keel_fail(KD_OUT_OF_RANGE, "the profile has no device %u",
                     (unsigned)index);
  *out_device =
      (keel_profile_device){.name = device->name, .wall = plan->profile_wall};
  keel_step *step;
  for (uint32_t i = 0; (step = step_at(plan, i)); i++) {
    if (ran_on(plan, step) != device) continue;
    uint64_t copies = __atomic_load_n(&step->copy_time, __ATOMIC_RELAXED);
    if (!step->copies) out_device->calls += atomic_load(&step->calls);
    out_device->kernels += atomic_load(&step->time) - copies;
    out_device->copies += copies;
  }
  const keel_clock *clock = keel_device_clock(device);
  if (plan->by_clocks && clock->tick > 0) {
    out_device->timed = 1;
    out_device->kernels =
        (uint64_t)((double)atomic_load(&clock->kernels) * clock->tick);
    out_device->copies =
        (uint64_t)((double)atomic_load(&clock->copies) * clock->tick);
    out_device->bytes = atomic_load(&clock->bytes);
  }
  uint64_t busy = out_device->kernels + out_device->copies;
  if (busy < out_device->wall) out_device->idle = out_device->wall - busy;
  return KD_OK;
}
