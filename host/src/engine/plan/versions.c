/* versions.c - finds, makes and evicts versions of a plan. */
#include "plan/versions.h"

#include "base/refs.h"
#include "device/context.h"
#include "trace/trace.h"

#define REMEMBERED 256 /* sets of input types seen once */

typedef struct version {
  keel_plan *plan; /* NULL: free */
  const keel_type **types;
  uint64_t hash; /* of the types */
  uint64_t used; /* the last run */
} version;

struct keel_versions {
  /* guards the entries and the seen types; not held while a version is made */
  pthread_mutex_t lock;
  keel_plan *general; /* the plan whose versions these are */
  keel_arena arena;
  /* the function before the passes that look at shapes */
  keel_function *functions, *base;
  keel_plan_params params;
  keel_placed placed;
  version entries[KEEL_VERSIONS_MOST];
  uint64_t came[REMEMBERED]; /* hashes, a ring */
  uint32_t came_next;
  uint64_t tick; /* runs */
  bool ahead;    /* the program has compiled forms for the plan itself */
  bool making;
};

/* ---- making them possible ------------------------------------------------------- */

keel_status keel_versions_create(keel_plan *plan, const keel_program *program,
                                 const keel_pass_call *passes,
                                 keel_function **out_function) {
  keel_versions *all = calloc(1, sizeof *all);
  if (!all) return keel_no_memory(sizeof *all);
  pthread_mutex_init(&all->lock, NULL);
  keel_placed_init(&all->placed);
  plan->versions = all;
  all->general = plan;
  all->ahead = program->forms.count != 0;
  all->params = plan->params;
  all->params.place_count = 0; /* rules have already placed the nodes */
  KEEL_TRY(keel_function_clone(program->main, &all->arena, &all->functions,
                               &all->base));
  keel_pass_call call = *passes;
  call.main = all->base;
  call.part = KEEL_PASSES_FIRST;
  KEEL_TRY(keel_passes_run(all->functions, &call));
  return keel_function_clone(all->base, &plan->arena, &plan->functions,
                             out_function);
}

keel_placed *keel_versions_placed(keel_versions *all) {
  return &all->placed;
}

static void versions_drop(version *one) {
  keel_plan_release(one->plan);
  free(one->types);
  *one = (version){0};
}

void keel_versions_free(keel_versions *all) {
  if (!all) return;
  for (uint32_t i = 0; i < KEEL_VERSIONS_MOST; i++)
    versions_drop(&all->entries[i]);
  keel_placed_deinit(&all->placed);
  keel_functions_release(all->functions);
  keel_arena_free(&all->arena);
  pthread_mutex_destroy(&all->lock);
  free(all);
}

/* ---- finding them ----------------------------------------------------------------- */

static bool is_for(const version *one, uint64_t hash,
                   keel_tensor *const *inputs, uint32_t count) {
  if (!one->plan || one->hash != hash) return false;
  for (uint32_t i = 0; i < count; i++)
    if (one->types[i] != inputs[i]->type) return false;
  return true;
}

/* With the lock held. */
static keel_plan *versions_find(keel_versions *all, uint64_t hash,
                                keel_tensor *const *inputs) {
  uint32_t count = all->base->input_count;
  all->tick++;
  for (uint32_t i = 0; i < KEEL_VERSIONS_MOST; i++) {
    version *one = &all->entries[i];
    if (!is_for(one, hash, inputs, count)) continue;
    one->used = all->tick;
    keel_refs_take(&one->plan->refs);
    return one->plan;
  }
  return NULL;
}

/* 0: not all inputs are ready. */
static uint64_t hash_types(keel_tensor *const *inputs, uint32_t count) {
  uint64_t hash = KEEL_HASH_SEED;
  for (uint32_t i = 0; i < count; i++) {
    if (keel_tensor_state(inputs[i]) != KEEL_READY) return 0;
    hash ^= inputs[i]->type ? inputs[i]->type->hash : 0;
    hash *= KEEL_HASH_STEP;
  }
  return hash + !hash;
}

/* Whether a version for these types is worth making: they recur, or are the first ones,
 * which usually recur (and shape-agnostic kernels would pack the weights once more). Notes
 * the types as seen. With the lock held. */
static bool are_worth_it(keel_versions *all, uint64_t hash) {
  bool first = !all->came_next && !all->ahead;
  for (uint32_t i = 0; i < REMEMBERED; i++)
    if (all->came[i] == hash) return true;
  all->came[all->came_next++ % REMEMBERED] = hash;
  return first;
}

/* With the lock held. */
static void versions_forget(keel_versions *all, uint64_t hash) {
  for (uint32_t i = 0; i < REMEMBERED; i++)
    if (all->came[i] == hash) all->came[i] = 0;
}

/* A free entry, or the least recently used one if it has not been used for many runs, whose version
 * goes to *out_old; NULL: there is none. With the lock held. */
static version *make_way(keel_versions *all, version *out_old) {
  version *best = NULL;
  for (uint32_t i = 0; i < KEEL_VERSIONS_MOST; i++) {
    version *one = &all->entries[i];
    if (!one->plan) return one;
    if (keel_refs_unique(&one->plan->refs) && (!best || one->used < best->used))
      best = one;
  }
  if (best && all->tick - best->used < KEEL_VERSIONS_UNUSED) best = NULL;
  if (best) *out_old = *best;
  return best;
}

/* ---- making them -------------------------------------------------------------------- */

static keel_status versions_make(keel_versions *all, uint64_t hash,
                                 keel_tensor *const *inputs,
                                 version *out_version) {
  uint32_t count = all->base->input_count;
  const keel_type **types = malloc((count + 1) * sizeof *types);
  if (!types) return keel_no_memory(count * sizeof *types);
  for (uint32_t i = 0; i < count; i++)
    types[i] = inputs[i]->type;
  uint64_t began = keel_tracing() ? keel_now() : 0;
  keel_plan *plan = NULL;
  keel_status status =
      keel_plan_of_types(all->general, all->base, types, &all->params,
                         &all->placed, &plan);
  if (began) keel_trace_span("plan", NULL, all->base->name, began);
  if (status != KD_OK) {
    free(types);
    return status;
  }
  keel_profile_part(all->general, plan);
  *out_version = (version){.plan = plan, .types = types, .hash = hash};
  return KD_OK;
}

/* Keeps a version, and releases the one that it evicts. */
static keel_plan *versions_keep(keel_versions *all, version *made) {
  version old = {0};
  keel_plan *plan = made->plan;
  pthread_mutex_lock(&all->lock);
  version *at = make_way(all, &old);
  if (at) {
    made->used = all->tick;
    keel_refs_take(&plan->refs);
    *at = *made;
  }
  all->making = false;
  pthread_mutex_unlock(&all->lock);
  versions_drop(&old);
  if (!at) free(made->types); /* it serves this run only */
  return plan;
}

/* That the plan for all shapes runs instead. It reports errors of inputs, and the end of a run,
 * itself. */
static void versions_tell(const keel_versions *all, keel_status status) {
  if (status == KD_INVALID_ARGUMENT || status == KD_CANCELLED ||
      status == KD_DEADLINE_EXCEEDED)
    return;
  keel_log_line(&all->general->context->log, KD_LOG_WARNING,
                "there is no plan of \"%s\" for these shapes, and the one for"
                " all shapes runs: %s",
                all->base->name, keel_message());
}

keel_plan *keel_versions_take(keel_versions *all, keel_tensor *const *inputs) {
  uint64_t hash = hash_types(inputs, all->base->input_count);
  if (!hash) return NULL;
  pthread_mutex_lock(&all->lock);
  keel_plan *found = versions_find(all, hash, inputs);
  version none = {0};
  bool makes =
      !found && are_worth_it(all, hash) && !all->making && make_way(all, &none);
  if (makes) all->making = true;
  pthread_mutex_unlock(&all->lock);
  if (!makes) return found;
  version made = {0};
  keel_status status = versions_make(all, hash, inputs, &made);
  if (status == KD_OK) return versions_keep(all, &made);
  versions_tell(all, status);
  pthread_mutex_lock(&all->lock);
  versions_forget(all, hash);
  all->making = false;
  pthread_mutex_unlock(&all->lock);
  return NULL;
}

uint32_t keel_versions_list(keel_versions *all, keel_plan **out_plans) {
  uint32_t count = 0;
  pthread_mutex_lock(&all->lock);
  for (uint32_t i = 0; i < KEEL_VERSIONS_MOST; i++) {
    if (!all->entries[i].plan) continue;
    out_plans[count] = all->entries[i].plan;
    keel_refs_take(&out_plans[count++]->refs);
  }
  pthread_mutex_unlock(&all->lock);
  return count;
}

uint64_t keel_versions_replays(keel_versions *all) {
  uint64_t count = 0;
  pthread_mutex_lock(&all->lock);
  for (uint32_t i = 0; i < KEEL_VERSIONS_MOST; i++)
    if (all->entries[i].plan) count += keel_plan_replays(all->entries[i].plan);
  pthread_mutex_unlock(&all->lock);
  return count;
}

keel_plan *keel_versions_last(keel_versions *all) {
  const version *last = NULL;
  pthread_mutex_lock(&all->lock);
  for (uint32_t i = 0; i < KEEL_VERSIONS_MOST; i++)
    if (all->entries[i].plan && (!last || all->entries[i].used > last->used))
      last = &all->entries[i];
  keel_plan *plan = last ? last->plan : NULL;
  if (plan) keel_refs_take(&plan->refs);
  pthread_mutex_unlock(&all->lock);
  return plan;
}
