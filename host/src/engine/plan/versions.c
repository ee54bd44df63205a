/* versions.c - finds, makes and evicts versions of a plan. */
#include "plan/versions.h"

#include "base/refs.h"
#include "device/context.h"
#include "plan/weights.h"
#include "program/sizes.h"
#include "threads/apart.h"
#include "threads/pool.h"
#include "trace/trace.h"

#define REMEMBERED 256 /* sets of input types seen once */
/* one in so many new sets runs the plan for all sizes, whatever a version would save; each time that
 * leaves it so, in twice as many */
#define PROBE      8
#define PROBE_MOST (1U << 16)
/* hits after which a version has its launches and recordings */
#define SETTLED 6

typedef struct version {
  keel_plan *plan; /* NULL: free */
  const keel_type **types;
  uint64_t hash; /* of the types */
  uint64_t used; /* the last run */
  uint64_t bytes;
  uint32_t hits;
  bool ran;          /* at least once */
  uint32_t weigh_at; /* hits; 0: `bytes` is not a guess any more */
  bool pinned;       /* keel_plan_prepare: it is not evicted */
} version;

/* Nanoseconds for each element of the inputs, the less of the last two. */
typedef struct pace {
  double least, last;
  uint32_t count;
} pace;

/* What a run of new sizes takes: by the plan for all sizes, or with a version: making that, and its
 * first run. */
typedef struct worth {
  pace general, first;
  double make;   /* nanoseconds, the mean */
  uint32_t sets; /* for which a version was made at once since the last probe */
  uint32_t probe; /* sets until the next one */
} worth;

struct keel_versions {
  /* guards the entries and the seen types; not held while a version is made */
  pthread_mutex_t lock;
  keel_plan *general; /* the plan whose versions these are */
  keel_arena arena;
  /* the function before the passes that look at shapes */
  keel_function *functions, *base;
  keel_plan_params params;
  keel_placed placed;
  uint64_t hashes[KEEL_VERSIONS_MOST]; /* of the entries; 0: free */
  version entries[KEEL_VERSIONS_MOST];
  uint32_t used;             /* entries; none after them is in use */
  uint64_t bytes;            /* of all */
  uint64_t each;             /* what the last one turned out to take */
  uint64_t came[REMEMBERED]; /* hashes, a ring */
  uint32_t came_next;
  uint64_t large[REMEMBERED]; /* of those whose versions were too large */
  uint32_t large_next;
  uint64_t tick; /* runs */
  keel_version_counts counts;
  worth worth;
  bool ahead; /* the program has compiled forms for the plan itself */
  /* There is a job, of which there is one at a time: to make a version, by the thread whose run it is
   * for, or apart, while that runs the plan for all sizes; or to weigh one, apart. */
  bool busy;
  pthread_cond_t idle; /* there is none */
  keel_task job;
  version next;         /* to make */
  keel_plan *weighed;   /* to weigh; retained */
  keel_plan *due;       /* to weigh when another runs; compared alone */
  keel_plan **out_plan; /* for the run that waits; NULL: apart */
};

/* ---- making them possible ------------------------------------------------------- */

keel_status keel_versions_create(keel_plan *plan, const keel_program *program,
                                 const keel_pass_call *passes,
                                 keel_function **out_function) {
  keel_versions *all = calloc(1, sizeof *all);
  if (!all) return keel_no_memory(sizeof *all);
  pthread_mutex_init(&all->lock, NULL);
  pthread_cond_init(&all->idle, NULL);
  keel_placed_init(&all->placed);
  plan->versions = all;
  all->general = plan;
  all->ahead = program->forms.count != 0;
  all->params = plan->params;
  all->params.place_count = 0; /* rules have already placed the nodes */
  if (!all->params.version_bytes)
    all->params.version_bytes = KEEL_VERSIONS_BYTES;
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

/* Puts a version into a free entry. With the lock held. */
static void entry_fill(keel_versions *all, version *at, const version *made) {
  uint32_t i = (uint32_t)(at - all->entries);
  *at = *made;
  all->hashes[i] = made->hash;
  all->bytes += made->bytes;
  if (i >= all->used) all->used = i + 1;
}

/* Takes a version out of its entry. With the lock held. */
static version entry_clear(keel_versions *all, version *at) {
  version old = *at;
  all->hashes[at - all->entries] = 0;
  all->bytes -= old.bytes;
  *at = (version){0};
  while (all->used && !all->hashes[all->used - 1])
    all->used--;
  return old;
}

static void versions_drop(version *one) {
  keel_plan_release(one->plan);
  free(one->types);
  *one = (version){0};
}

void keel_versions_await(keel_versions *all) {
  pthread_mutex_lock(&all->lock);
  while (all->busy && keel_apart_may_end())
    pthread_cond_wait(&all->idle, &all->lock);
  pthread_mutex_unlock(&all->lock);
}

void keel_versions_free(keel_versions *all) {
  if (!all) return;
  keel_versions_await(all);
  for (uint32_t i = 0; i < all->used; i++)
    versions_drop(&all->entries[i]);
  keel_placed_deinit(&all->placed);
  keel_functions_release(all->functions);
  keel_arena_free(&all->arena);
  pthread_cond_destroy(&all->idle);
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

/* The very first run makes kernels and packs weights, and does not count. */
static void pace_add(pace *p, uint64_t elements, uint64_t time) {
  double each = (double)time / (double)elements;
  if (!p->count++) return;
  p->least = p->count > 2 && p->last < each ? p->last : each;
  p->last = each;
}

static uint64_t elements_of(keel_tensor *const *inputs, uint32_t count) {
  uint64_t elements = 1;
  for (uint32_t i = 0; i < count; i++)
    if (inputs[i]->type) elements += (uint64_t)inputs[i]->type->elements;
  return elements;
}

/* With the lock held. */
static keel_plan *versions_find(keel_versions *all, uint64_t hash,
                                keel_tensor *const *inputs,
                                uint64_t *out_timed) {
  uint32_t count = all->base->input_count;
  all->tick++;
  for (uint32_t i = 0; i < all->used; i++) {
    version *one = &all->entries[i];
    if (all->hashes[i] != hash || !is_for(one, hash, inputs, count)) continue;
    one->used = all->tick;
    if (one->ran) *out_timed = 0;
    all->counts.hits++;
    one->hits++;
    if (!all->due && one->weigh_at && one->hits >= one->weigh_at)
      all->due = one->plan;
    keel_refs_take(&one->plan->refs);
    return one->plan;
  }
  all->counts.misses++;
  return NULL;
}

static uint64_t hash_add(uint64_t hash, const keel_type *type) {
  return (hash ^ (type ? type->hash : 0)) * KEEL_HASH_STEP;
}

/* 0: not all inputs are ready. */
static uint64_t hash_types(keel_tensor *const *inputs, uint32_t count) {
  uint64_t hash = KEEL_HASH_SEED;
  for (uint32_t i = 0; i < count; i++) {
    if (keel_tensor_state(inputs[i]) != KEEL_READY) return 0;
    hash = hash_add(hash, inputs[i]->type);
  }
  return hash + !hash;
}

/* Whether even one run is expected to take less with a version, by the runs so far; as long as no
 * version's first run is known, two are made to know it, but where making one takes longer than the
 * run. With the lock held. */
static bool pays_at_once(keel_versions *all, uint64_t elements) {
  worth *w = &all->worth;
  double general = w->general.least * (double)elements;
  double first = w->first.least * (double)elements + w->make;
  if (w->general.count < 3 || w->make >= general) return false;
  if (w->first.count < 2) return w->sets++ < 2;
  if (first >= general || !w->probe) w->probe = PROBE;
  if (first >= general) return false;
  if (++w->sets % w->probe) return true;
  w->sets = 0;
  if (w->probe < PROBE_MOST) w->probe *= 2;
  return false;
}

/* Whether a version is made, and by whom. */
typedef enum making { NOT_MADE, MADE_HERE, MADE_APART } making;

/* Whether a version for these types is worth making: one run pays for it, this one; or it is kept,
 * and they recur, or are the first ones, which usually recur (and shape-agnostic kernels would pack
 * the weights once more). Notes the types as seen. With the lock held. */
static making are_worth_it(keel_versions *all, uint64_t hash, uint64_t elements,
                           bool kept) {
  bool first = !all->came_next && !all->ahead;
  bool came = false;
  for (uint32_t i = 0; i < REMEMBERED && !came; i++)
    came = all->came[i] == hash;
  if (!came) all->came[all->came_next++ % REMEMBERED] = hash;
  if ((kept && first && !came) || pays_at_once(all, elements)) return MADE_HERE;
  return kept && came ? MADE_APART : NOT_MADE;
}

/* With the lock held. */
static void versions_forget(keel_versions *all, uint64_t hash) {
  for (uint32_t i = 0; i < REMEMBERED; i++)
    if (all->came[i] == hash) all->came[i] = 0;
}

/* The largest version that is not pinned; of equal ones `first` (NULL: any). NULL: all are. With the
 * lock held. */
static version *largest_of(keel_versions *all, version *first) {
  version *best = first && !first->pinned ? first : NULL;
  for (uint32_t i = 0; i < all->used; i++) {
    version *one = &all->entries[i];
    if (one->plan && !one->pinned && (!best || one->bytes > best->bytes))
      best = one;
  }
  return best;
}

/* One that takes more than all may: it is kept as long as no other set recurs. With the lock held. */
static version *oversized(keel_versions *all) {
  version *one = largest_of(all, NULL);
  return one && one->bytes > all->params.version_bytes ? one : NULL;
}

/* An entry for a version: a free one, or one whose version goes, the least recently used that is not
 * pinned. NULL: there is none. For a version that is not to be pinned, one goes if it is oversized, or
 * has not been used for many runs. With the lock held. */
static version *make_way(keel_versions *all, bool pinned) {
  version *best = NULL;
  bool fits = pinned || all->bytes + all->each <= all->params.version_bytes;
  if (!pinned && (best = oversized(all))) return best;
  if (fits && all->used < KEEL_VERSIONS_MOST) return &all->entries[all->used];
  for (uint32_t i = 0; i < all->used; i++) {
    version *one = &all->entries[i];
    if (!one->plan && fits) return one;
    if (!one->plan) continue;
    bool goes = !one->pinned && (pinned || keel_refs_unique(&one->plan->refs));
    if (goes && (!best || one->used < best->used)) best = one;
  }
  if (best && !pinned && all->tick - best->used < KEEL_VERSIONS_UNUSED)
    best = NULL;
  return best;
}

/* Whether a version of these types is kept if it is made: one that was too large only in place of one
 * that is not used. With the lock held. */
static bool is_kept(keel_versions *all, uint64_t hash) {
  const version *at = make_way(all, false);
  if (!at) return false;
  if (at->plan && at->bytes <= all->params.version_bytes) return true;
  for (uint32_t i = 0; i < REMEMBERED; i++)
    if (all->large[i] == hash) return false;
  return true;
}

/* With the lock held. */
static void note_large(keel_versions *all, uint64_t hash) {
  all->large[all->large_next++ % REMEMBERED] = hash;
}

/* ---- making them -------------------------------------------------------------------- */

/* NULL: no memory. */
static const keel_type **versions_types_of(keel_tensor *const *inputs,
                                           uint32_t count) {
  const keel_type **types = malloc((count + 1) * sizeof *types);
  for (uint32_t i = 0; types && i < count; i++)
    types[i] = inputs[i]->type;
  return types;
}

/* Makes the plan of a version's types. */
static keel_status versions_make(keel_versions *all, version *made) {
  uint64_t began = keel_now();
  KEEL_TRY(keel_plan_of_types(all->general, all->base, made->types,
                              &all->params, &all->placed, &made->plan));
  if (keel_tracing()) keel_trace_span("plan", NULL, all->base->name, began);
  keel_profile_part(all->general, made->plan);
  bool whole = false; /* it has not run */
  made->bytes = keel_plan_own_bytes(made->plan, &whole);
  made->weigh_at = SETTLED;
  pthread_mutex_lock(&all->lock);
  all->counts.made++;
  all->counts.time += keel_now() - began;
  all->worth.make = (double)all->counts.time / (double)all->counts.made;
  pthread_mutex_unlock(&all->lock);
  return KD_OK;
}

/* With the lock held. */
static version *versions_of_types(keel_versions *all, const version *like) {
  for (uint32_t i = 0; i < all->used; i++) {
    version *one = &all->entries[i];
    if (one->plan && one->hash == like->hash &&
        !memcmp(one->types, like->types,
                all->base->input_count * sizeof *like->types))
      return one;
  }
  return NULL;
}

/* Keeps a version, unless another thread has kept one of its types meanwhile: that counts then.
 * *out_old: the version that goes, for the caller to drop. NULL: there is no entry for it. With the
 * lock held. */
static version *versions_keep(keel_versions *all, const version *made,
                              version *out_old) {
  version *at = versions_of_types(all, made);
  if (at) {
    at->pinned |= made->pinned;
    *out_old = *made;
    return at;
  }
  at = make_way(all, made->pinned);
  if (!at || (!made->pinned && !is_kept(all, made->hash))) return NULL;
  uint64_t others = all->bytes - at->bytes;
  if (!made->pinned && others &&
      others + made->bytes > all->params.version_bytes) {
    note_large(all, made->hash);
    return NULL;
  }
  if (at->bytes > all->params.version_bytes) note_large(all, at->hash);
  if (at->plan) *out_old = entry_clear(all, at);
  all->counts.evicted += out_old->plan != NULL;
  entry_fill(all, at, made);
  at->used = made->pinned ? 0 : all->tick; /* 0: it has not run yet */
  return at;
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

/* Makes a version. *out_plan: its plan, retained, if it is asked for; NULL: it could not be made. */
static void versions_add(keel_versions *all, version made,
                         keel_plan **out_plan) {
  version old = {0};
  keel_status status = versions_make(all, &made);
  if (status != KD_OK) versions_tell(all, status);
  pthread_mutex_lock(&all->lock);
  const version *kept =
      status == KD_OK ? versions_keep(all, &made, &old) : NULL;
  if (out_plan) *out_plan = kept ? kept->plan : made.plan;
  if (out_plan && kept) keel_refs_take(&kept->plan->refs);
  if (status != KD_OK) versions_forget(all, made.hash);
  pthread_mutex_unlock(&all->lock);
  versions_drop(&old);
  /* one that is not kept serves this run alone */
  if (!kept && out_plan) made.plan = NULL;
  if (!kept) versions_drop(&made);
}

/* Corrects what a version takes. If all together take too much, the largest one goes, but for the only
 * one, and its sizes get no other. */
static void versions_weigh(keel_versions *all, keel_plan *plan) {
  bool whole = false;
  uint64_t bytes = keel_plan_own_bytes(plan, &whole);
  version *one = NULL, old = {0};
  pthread_mutex_lock(&all->lock);
  for (uint32_t i = 0; i < all->used && !one; i++)
    if (all->entries[i].plan == plan) one = &all->entries[i];
  version *goes = NULL;
  if (one) {
    all->bytes += bytes - one->bytes;
    one->bytes = bytes;
    one->weigh_at = whole ? 0 : 2 * one->hits;
    if (all->bytes > all->params.version_bytes) goes = largest_of(all, one);
  }
  if (goes && goes->bytes == all->bytes) goes = NULL;
  if (one && goes != one) all->each = bytes;
  if (goes) {
    old = entry_clear(all, goes);
    all->counts.evicted++;
    note_large(all, old.hash);
  }
  pthread_mutex_unlock(&all->lock);
  versions_drop(&old);
  keel_plan_release(plan);
}

/* ---- jobs --------------------------------------------------------------------------- */

static void job_end(keel_versions *all) {
  pthread_mutex_lock(&all->lock);
  all->busy = false;
  pthread_cond_broadcast(&all->idle);
  pthread_mutex_unlock(&all->lock); /* from now on it may be freed */
}

static void job_run(keel_task *job) {
  keel_versions *all =
      (keel_versions *)(void *)((char *)job - offsetof(keel_versions, job));
  bool is_apart = !all->out_plan;
  if (is_apart) keel_apart_enter();
  if (all->weighed)
    versions_weigh(all, all->weighed);
  else
    versions_add(all, all->next, all->out_plan);
  job_end(all);
  if (is_apart) keel_apart_leave();
}

/* Does the job, or has a thread of its own do it; that not where the process ends. */
static void job_begin(keel_versions *all) {
  all->job.run = job_run;
  if (all->out_plan) {
    all->job.run(&all->job);
  } else if (keel_apart_begin()) {
    keel_pool_submit_apart(all->general->context->pool, &all->job);
  } else {
    free(all->next.types);
    keel_plan_release(all->weighed);
    job_end(all);
  }
}

/* The version that is due to be weighed, retained, once another plan runs: its own run has probably
 * ended, and what it holds can be seen. NULL: there is none. With the lock held. */
static keel_plan *take_due(keel_versions *all, const keel_plan *running) {
  keel_plan *due = NULL;
  if (!all->due || all->due == running) return NULL;
  for (uint32_t i = 0; i < all->used && !due; i++)
    if (all->entries[i].plan == all->due) due = all->due;
  all->due = NULL;
  if (due) keel_refs_take(&due->refs);
  return due;
}

/* Notes a job, if there is one to do and no other. With the lock held. */
static bool job_note(keel_versions *all, making how, const keel_plan *running,
                     keel_tensor *const *inputs, uint64_t hash) {
  if (all->busy) return false;
  all->next = (version){.hash = hash};
  all->weighed = how == NOT_MADE ? take_due(all, running) : NULL;
  if (how == NOT_MADE) return all->busy = all->weighed != NULL;
  all->next.types = versions_types_of(inputs, all->base->input_count);
  return all->busy = all->next.types != NULL; /* else there is no memory */
}

keel_plan *keel_versions_take(keel_versions *all, keel_tensor *const *inputs,
                              uint64_t *out_timed) {
  uint64_t hash = hash_types(inputs, all->base->input_count);
  *out_timed = 0;
  if (!hash) return NULL;
  const uint64_t elements = elements_of(inputs, all->base->input_count);
  *out_timed = elements;
  pthread_mutex_lock(&all->lock);
  keel_plan *plan = versions_find(all, hash, inputs, out_timed);
  making how =
      plan ? NOT_MADE : are_worth_it(all, hash, elements, is_kept(all, hash));
  bool begins = job_note(all, how, plan, inputs, hash);
  if (begins) all->out_plan = how == MADE_HERE ? &plan : NULL;
  pthread_mutex_unlock(&all->lock);
  if (begins) job_begin(all);
  return plan;
}

/* ---- what they are worth ------------------------------------------------------------ */

void keel_versions_note(keel_versions *all, const keel_plan *plan,
                        uint64_t elements, uint64_t time) {
  pthread_mutex_lock(&all->lock);
  bool first = plan != NULL; /* one that is not kept runs once */
  for (uint32_t i = 0; plan && i < all->used; i++) {
    version *one = &all->entries[i];
    if (one->plan != plan) continue;
    first = !one->ran;
    one->ran = true;
  }
  if (!plan || first)
    pace_add(plan ? &all->worth.first : &all->worth.general, elements, time);
  pthread_mutex_unlock(&all->lock);
}

/* ---- prepared ones ------------------------------------------------------------------ */

/* Pins the version of these types, if there is one. */
static bool versions_pin(keel_versions *all, const version *like) {
  pthread_mutex_lock(&all->lock);
  version *one = versions_of_types(all, like);
  if (one) one->pinned = true;
  pthread_mutex_unlock(&all->lock);
  return one != NULL;
}

/* Pins the version of the types in `made`, which it makes if there is none. The caller drops `made`
 * afterwards. */
static keel_status versions_prepare(keel_versions *all, version *made) {
  version old = {0};
  if (versions_pin(all, made)) return KD_OK;
  KEEL_TRY(versions_make(all, made));
  pthread_mutex_lock(&all->lock);
  bool kept = versions_keep(all, made, &old) != NULL;
  pthread_mutex_unlock(&all->lock);
  versions_drop(&old);
  if (kept) *made = (version){0};
  return kept ? KD_OK
              : keel_fail(KD_FAILED_PRECONDITION,
                          "%d sets of sizes are prepared, which is as many as"
                          " a plan keeps",
                          KEEL_VERSIONS_MOST);
}

/* The types of the inputs of a function whose sizes are given. */
static keel_status versions_read_types(const keel_function *f, version *out) {
  out->types = malloc((f->input_count + (size_t)1) * sizeof *out->types);
  if (!out->types) return keel_no_memory(f->input_count);
  out->hash = KEEL_HASH_SEED;
  for (uint32_t i = 0; i < f->input_count; i++) {
    const keel_port *port = &f->input_ports[i];
    const keel_type *type =
        keel_port_is_tensor(port) ? keel_port_type(port) : NULL;
    if (keel_port_is_tensor(port) && (!type || !keel_type_known(type)))
      return keel_fail(KD_INVALID_ARGUMENT,
                       "a size or the element type of input \"%s\" is open:"
                       " name the sizes of all inputs that have open ones",
                       port->name);
    out->types[i] = type;
    out->hash = hash_add(out->hash, out->types[i]);
  }
  out->hash += !out->hash;
  return KD_OK;
}

keel_status keel_plan_prepare(keel_plan *plan, const keel_input_sizes *inputs,
                              uint32_t count) {
  keel_versions *all = plan->versions;
  keel_arena arena = {0};
  keel_function *functions = NULL, *f = NULL;
  version made = {.pinned = true};
  bool reads = keel_weights_enter(plan);
  keel_status status = keel_function_clone(
      all ? all->base : plan->main->function, &arena, &functions, &f);
  if (reads) keel_weights_leave(plan, KD_ABORTED);
  if (status == KD_OK) status = keel_function_fix_inputs(f, inputs, count);
  if (status == KD_OK) status = versions_read_types(f, &made);
  if (status == KD_OK && all)
    status = versions_prepare(all, &made);
  else if (status == KD_OK && plan->holds)
    status = keel_fail(KD_FAILED_PRECONDITION,
                       "this plan is for all sizes alone: it calls ops one by"
                       " one, or was made with KEEL_PLAN_ONE");
  versions_drop(&made);
  keel_functions_release(functions);
  keel_arena_free(&arena);
  return status;
}

void keel_plan_versions(keel_plan *plan, keel_version_counts *out_counts) {
  keel_versions *all = plan->versions;
  *out_counts = (keel_version_counts){0};
  if (!all) return;
  keel_versions_await(all);
  pthread_mutex_lock(&all->lock);
  *out_counts = all->counts;
  for (uint32_t i = 0; i < all->used; i++) {
    out_counts->kept += all->entries[i].plan != NULL;
    out_counts->pinned += all->entries[i].pinned;
  }
  pthread_mutex_unlock(&all->lock);
}

/* ---- all of them -------------------------------------------------------------------- */

uint32_t keel_versions_list(keel_versions *all, keel_plan **out_plans) {
  uint32_t count = 0;
  pthread_mutex_lock(&all->lock);
  for (uint32_t i = 0; i < all->used; i++) {
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
  for (uint32_t i = 0; i < all->used; i++)
    if (all->entries[i].plan) count += keel_plan_replays(all->entries[i].plan);
  pthread_mutex_unlock(&all->lock);
  return count;
}

keel_plan *keel_versions_last(keel_versions *all) {
  const version *last = NULL;
  pthread_mutex_lock(&all->lock);
  for (uint32_t i = 0; i < all->used; i++)
    if (all->entries[i].plan && (!last || all->entries[i].used > last->used))
      last = &all->entries[i];
  keel_plan *plan = last ? last->plan : NULL;
  if (plan) keel_refs_take(&plan->refs);
  pthread_mutex_unlock(&all->lock);
  return plan;
}
