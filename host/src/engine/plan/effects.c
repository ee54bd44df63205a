/* effects.c - derives dependencies between steps from their effects on resources. */
#include "plan/effects.h"

#include "ops/runtime.h"

#define ANY KEEL_ABSENT /* an unknown resource */

/* One step's access to one resource: the value by which the function got the resource, or
 * ANY. Exchanges are counted apart, those of all ranks, and messages to or from each rank: each
 * such lane has its own order. 0: all lanes. */
typedef struct access {
  uint32_t step, resource;
  uint64_t lane;
  bool writes;
} access;

typedef struct accesses {
  access *list;
  uint32_t count, capacity;
} accesses;

typedef struct finding {
  keel_executable *executable;
  bool nested;
  uint32_t *maker; /* by value: the step that produces it, or KEEL_ABSENT */
  accesses all;    /* in the order of the steps */
  accesses last;   /* accesses that a later one may have to wait for */
  keel_edge *edges;
  uint32_t edge_count, edge_capacity;
} finding;

static keel_status add_access(accesses *to, access one) {
  if (!KEEL_ROOM(to->list, to->count, to->capacity)) return KD_OUT_OF_MEMORY;
  to->list[to->count++] = one;
  return KD_OK;
}

/* ---- effects of steps --------------------------------------------------------- */

static uint32_t flags_of(const keel_step *step) {
  return step->site.op->schema->flags;
}

/* Follows Identity to the original value. */
static uint32_t origin(const finding *f, uint32_t value) {
  while (value != KEEL_ABSENT && f->maker[value] != KEEL_ABSENT) {
    const keel_step *step = &f->executable->steps[f->maker[value]];
    if (step->site.op->schema->kind != KEEL_IDENTITY || !step->input_count)
      break;
    value = step->inputs[0];
  }
  return value;
}

static uint32_t input_index(const keel_executable *executable, uint32_t value) {
  for (uint32_t i = 0; i < executable->input_count; i++)
    if (executable->inputs[i] == value) return i;
  return KEEL_ABSENT;
}

static bool is_made_here(const finding *f, uint32_t value) {
  return f->maker[value] != KEEL_ABSENT &&
         (flags_of(&f->executable->steps[f->maker[value]]) & KEEL_OP_MAKES);
}

/* Records the effect for the callers of the function. */
static void raise_effect(finding *f, uint32_t value, bool writes) {
  keel_executable *executable = f->executable;
  uint32_t input = value == ANY ? KEEL_ABSENT : input_index(executable, value);
  uint32_t first = executable->input_count - executable->capture_count;
  keel_effect effect = writes ? KEEL_EFFECT_WRITE : KEEL_EFFECT_READ;
  keel_effect *to = &executable->unknown_effects;
  if (value != ANY && is_made_here(f, value)) return;
  if (input != KEEL_ABSENT && input >= first)
    to = &executable->capture_effects[input - first];
  if (*to < effect) *to = effect;
}

/* Of an exchange, its lane. A member's rank does not change: it is in one of its own. */
static uint64_t lane_of(const keel_step *step) {
  const keel_opdef *op = step->site.op;
  if (op->schema->traits & KEEL_OP_ALONE) return UINT64_MAX;
  if (!(flags_of(step) & KEEL_OP_MEETS)) return 0;
  const keel_node_attr *to = keel_attr_find(op, "to");
  const keel_node_attr *from = keel_attr_find(op, "from");
  if (to) return 2 + 2 * (uint64_t)(uint32_t)to->value.i;
  return from ? 3 + 2 * (uint64_t)(uint32_t)from->value.i : 1;
}

static keel_status add_effect(finding *f, uint32_t step, uint32_t value,
                              bool writes) {
  uint32_t from = value == ANY ? ANY : origin(f, value);
  raise_effect(f, from, writes);
  bool apart =
      from != ANY && (is_made_here(f, from) ||
                      (!f->nested && input_index(f->executable, from) != ANY));
  return add_access(&f->all,
                    (access){step, apart ? from : ANY,
                             lane_of(&f->executable->steps[step]), writes});
}

/* Adds the effects of the functions nested in a step on the values that the step passes to them. */
static keel_status add_nested_effects(finding *f, uint32_t index) {
  const keel_step *step = &f->executable->steps[index];
  const keel_opdef *op = step->site.op;
  uint32_t captures = 0;
  for (uint32_t i = 0; i < op->attr_count; i++)
    if (step->site.graphs[i]) captures += step->site.graphs[i]->capture_count;
  uint32_t at = step->input_count - captures;
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const keel_executable *graph = step->site.graphs[i];
    if (!graph) continue;
    for (uint32_t k = 0; k < graph->capture_count; k++, at++)
      if (graph->capture_effects[k])
        KEEL_TRY(add_effect(f, index, step->inputs[at],
                            graph->capture_effects[k] == KEEL_EFFECT_WRITE));
    if (graph->unknown_effects)
      KEEL_TRY(add_effect(f, index, ANY,
                          graph->unknown_effects == KEEL_EFFECT_WRITE));
  }
  return KD_OK;
}

static keel_status find_accesses(finding *f) {
  for (uint32_t i = 0; i < f->executable->step_count; i++) {
    const keel_step *step = &f->executable->steps[i];
    uint32_t flags = flags_of(step);
    if (flags & KEEL_OP_CONTROL)
      KEEL_TRY(add_nested_effects(f, i));
    else if (flags & (KEEL_OP_READS | KEEL_OP_WRITES))
      KEEL_TRY(add_effect(f, i, step->input_count ? step->inputs[0] : ANY,
                          flags & KEEL_OP_WRITES));
  }
  return KD_OK;
}

/* ---- dependencies --------------------------------------------------------------- */

static bool conflicts(const access *a, const access *b) {
  return (a->writes || b->writes) && a->step != b->step &&
         (a->lane == b->lane || !a->lane || !b->lane) &&
         (a->resource == b->resource || a->resource == ANY ||
          b->resource == ANY);
}

static keel_status add_edge(finding *f, uint32_t from, uint32_t to) {
  assert(from < to);
  if (!KEEL_ROOM(f->edges, f->edge_count, f->edge_capacity))
    return KD_OUT_OF_MEMORY;
  f->edges[f->edge_count++] = (keel_edge){from, to};
  return KD_OK;
}

/* Whether waiting for `after` implies having waited for `before`. */
static bool covers(const access *after, const access *before) {
  return after->writes && (!after->lane || after->lane == before->lane) &&
         (after->resource == ANY || after->resource == before->resource);
}

static keel_status find_edges(finding *f) {
  for (size_t i = 0; i < f->all.count; i++) {
    const access *now = &f->all.list[i];
    uint32_t kept = 0;
    for (uint32_t k = 0; k < f->last.count; k++) {
      access before = f->last.list[k];
      if (conflicts(&before, now))
        KEEL_TRY(add_edge(f, before.step, now->step));
      if (!covers(now, &before)) f->last.list[kept++] = before;
    }
    f->last.count = kept;
    KEEL_TRY(add_access(&f->last, *now));
  }
  return KD_OK;
}

/* Gives each step that changes a resource a mark: a value that is set if the step fails,
 * for the steps that depend on it. */
static keel_status lay_marks(finding *f, uint32_t value_count) {
  keel_executable *executable = f->executable;
  keel_arena *arena = &executable->plan->arena;
  uint32_t *mark_inputs =
      keel_arena_take(arena, (f->edge_count + 1) * sizeof *mark_inputs);
  executable->effect_edges = keel_arena_take(
      arena, (f->edge_count + 1) * sizeof *executable->effect_edges);
  if (!mark_inputs || !executable->effect_edges) return KD_OUT_OF_MEMORY;
  executable->effect_edge_count = f->edge_count;
  if (f->edge_count)
    memcpy(executable->effect_edges, f->edges,
           f->edge_count * sizeof *f->edges);
  for (size_t i = 0; i < f->all.count; i++) {
    keel_step *step = &executable->steps[f->all.list[i].step];
    if (f->all.list[i].writes && step->mark == KEEL_ABSENT)
      step->mark = value_count + executable->mark_count++;
  }
  /* edges are in the order of the waiting steps */
  for (size_t i = 0; i < f->edge_count; i++) {
    keel_step *to = &executable->steps[f->edges[i].to];
    uint32_t mark = executable->steps[f->edges[i].from].mark;
    if (mark == KEEL_ABSENT) continue;
    if (!to->mark_input_count) to->mark_inputs = mark_inputs;
    to->mark_inputs[to->mark_input_count++] = mark;
    mark_inputs++;
  }
  return KD_OK;
}

keel_status keel_effects_find(keel_executable *executable, uint32_t value_count,
                              bool nested) {
  finding f = {.executable = executable, .nested = nested};
  bool any = false;
  for (uint32_t i = 0; i < executable->step_count; i++) {
    executable->steps[i].mark = KEEL_ABSENT;
    any |= flags_of(&executable->steps[i]) & (KEEL_OP_STATE | KEEL_OP_CONTROL);
  }
  executable->capture_effects = keel_arena_take(
      &executable->plan->arena,
      (executable->capture_count + 1) * sizeof *executable->capture_effects);
  if (!executable->capture_effects) return KD_OUT_OF_MEMORY;
  if (!any) return KD_OK;
  f.maker = malloc(((size_t)value_count + 1) * sizeof *f.maker);
  if (!f.maker) return keel_no_memory(value_count * sizeof *f.maker);
  for (uint32_t i = 0; i < value_count; i++)
    f.maker[i] = KEEL_ABSENT;
  for (uint32_t i = 0; i < executable->step_count; i++)
    for (uint32_t k = 0; k < executable->steps[i].output_count; k++)
      if (executable->steps[i].outputs[k] != KEEL_ABSENT)
        f.maker[executable->steps[i].outputs[k]] = i;
  keel_status status = find_accesses(&f);
  if (status == KD_OK) status = find_edges(&f);
  if (status == KD_OK) status = lay_marks(&f, value_count);
  free(f.maker);
  free(f.all.list);
  free(f.last.list);
  free(f.edges);
  return status;
}
