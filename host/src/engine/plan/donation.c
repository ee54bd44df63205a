/* donation.c - matches output slots with donated inputs of their size.
 *
 * An output is written by one step. It may lie where an input lies if all that reads the
 * input comes before that step, in the plan's order, or if the step's kernel may write over
 * the input while it reads it. Threads keep to the plan's order by extra edges. */
#include "plan/donation.h"

#include "eager/launch.h"

/* The step that writes an output slot. */
typedef struct writer {
  uint32_t step, output;
} writer;

typedef struct matching {
  const keel_memory_plan *plan;
  keel_donation *made;
  writer *writers;       /* by slot */
  uint32_t *last_reader; /* by input: a step, or KEEL_ABSENT */
  bool *is_free;         /* by input: donated, not an output, not matched yet */
} matching;

/* Whether a value is an input or a view of one: which. */
static bool input_of(const keel_memory_plan *plan, uint32_t value,
                     uint32_t *out_input) {
  if (value == KEEL_ABSENT || plan->values[value].origin != FROM_INPUT)
    return false;
  *out_input = plan->values[value].number;
  return true;
}

static void find_uses(matching *m, const bool *donated) {
  const keel_memory_plan *plan = m->plan;
  const keel_executable *executable = plan->executable;
  uint32_t input = 0;
  for (uint32_t i = 0; i < executable->input_count; i++) {
    m->last_reader[i] = KEEL_ABSENT;
    m->is_free[i] = donated[i] && plan->types[i];
  }
  for (uint32_t i = 0; i < executable->output_count; i++)
    if (input_of(plan, executable->outputs[i], &input))
      m->is_free[input] = false;
  for (uint32_t s = 0; s < executable->step_count; s++) {
    const keel_step *step = &executable->steps[s];
    if (!plan->steps[s].spec) continue;
    for (uint32_t k = 0; k < step->input_count; k++)
      if (input_of(plan, step->inputs[k], &input)) m->last_reader[input] = s;
    for (uint32_t k = 0; k < step->output_count; k++) {
      const source *at =
          &plan->sources[plan->steps[s].first + step->input_count + k];
      if (at->origin == FROM_OUTPUT) m->writers[at->number] = (writer){s, k};
    }
  }
}

static bool is_of_size(const matching *m, uint32_t slot, uint32_t input) {
  const output_slot *at = &m->plan->output_slots[slot];
  return !at->layout && at->heap == m->plan->heap &&
         at->type->bytes == m->plan->types[input]->bytes;
}

/* The input that a kernel may overwrite with this output, while it reads it once; or
 * KEEL_ABSENT. */
static uint32_t overwritten(const matching *m, uint32_t slot) {
  const writer *by = &m->writers[slot];
  const keel_step *step = &m->plan->executable->steps[by->step];
  const kd_kernel_def *def = m->plan->steps[by->step].spec->instance->def;
  uint32_t needed = keel_alias_needed(def, by->output);
  uint32_t allowed = keel_alias_inputs(def, by->output);
  for (uint32_t k = 0; k < step->input_count && k < 32; k++) {
    uint32_t input = 0, other = 0, reads = 0;
    if (!(allowed >> k & 1) || (needed != KEEL_ABSENT && needed != k) ||
        !input_of(m->plan, step->inputs[k], &input))
      continue;
    const source *at = &m->plan->values[step->inputs[k]];
    for (uint32_t i = 0; i < step->input_count; i++)
      reads += input_of(m->plan, step->inputs[i], &other) && other == input;
    if (m->is_free[input] && reads == 1 && m->last_reader[input] == by->step &&
        !at->offset && !at->strides && is_of_size(m, slot, input))
      return input;
  }
  return KEEL_ABSENT;
}

/* An input that nothing reads any more when the output is written. */
static uint32_t read_before(const matching *m, uint32_t slot) {
  for (uint32_t i = 0; i < m->plan->executable->input_count; i++)
    if (m->is_free[i] && is_of_size(m, slot, i) &&
        (m->last_reader[i] == KEEL_ABSENT ||
         m->last_reader[i] < m->writers[slot].step))
      return i;
  return KEEL_ABSENT;
}

/* Steps that read the slot's input come before the step that writes it. */
static bool add_edges(matching *m, uint32_t slot) {
  keel_donation *made = m->made;
  const keel_executable *executable = m->plan->executable;
  uint32_t input = 0, to = m->writers[slot].step;
  for (uint32_t s = 0; s < to; s++) {
    const keel_step *step = &executable->steps[s];
    bool reads = false;
    for (uint32_t k = 0; m->plan->steps[s].spec && k < step->input_count; k++)
      reads |= input_of(m->plan, step->inputs[k], &input) &&
               input == made->slot_input[slot];
    if (!reads) continue;
    if (!KEEL_ROOM(made->edges, made->edge_count, made->edge_capacity))
      return false;
    made->edges[made->edge_count++] = (keel_edge){s, to};
  }
  return true;
}

/* False: nothing fits. */
static bool match(matching *m, const bool *donated) {
  bool any = false;
  uint32_t *slots = m->made->slot_input;
  find_uses(m, donated);
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < m->plan->output_slot_count; i++) {
      if (pass && slots[i] != KEEL_ABSENT) continue;
      slots[i] = pass ? read_before(m, i) : overwritten(m, i);
      if (slots[i] == KEEL_ABSENT) continue;
      m->is_free[slots[i]] = false;
      any = true;
    }
  return any;
}

static bool donation_order(matching *m) {
  keel_donation *made = m->made;
  const keel_buffer_assignment *assignment = &m->plan->assignment;
  for (uint32_t i = 0; i < assignment->edge_count; i++) {
    if (!KEEL_ROOM(made->edges, made->edge_count, made->edge_capacity))
      return false;
    made->edges[made->edge_count++] = assignment->edges[i];
  }
  for (uint32_t i = 0; i < m->plan->output_slot_count; i++)
    if (made->slot_input[i] != KEEL_ABSENT && !add_edges(m, i)) return false;
  made->order = keel_order_create(m->plan->executable, made->edges,
                                  made->edge_count, NULL);
  return made->order != NULL;
}

static void donation_free(keel_donation *donation) {
  if (!donation) return;
  free(donation->slot_input);
  free(donation->edges);
  keel_order_free(donation->order);
  keel_order_free(atomic_load(&donation->ranked));
  free(donation);
}

/* Marks a memory plan whose outputs fit no donated input. */
static keel_donation nothing;

static keel_donation *donation_make(const keel_memory_plan *plan,
                                    const bool *donated) {
  size_t n = plan->executable->input_count, slots = plan->output_slot_count;
  keel_donation *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->slot_input = malloc((slots + 1) * sizeof *made->slot_input);
  matching m = {.plan = plan,
                .made = made,
                .writers = calloc(slots + 1, sizeof *m.writers),
                .last_reader = calloc(n + 1, sizeof *m.last_reader),
                .is_free = calloc(n + 1, sizeof *m.is_free)};
  bool whole = made->slot_input && m.writers && m.last_reader && m.is_free;
  bool any = whole && match(&m, donated);
  if (any) whole = donation_order(&m);
  free(m.writers);
  free(m.last_reader);
  free(m.is_free);
  if (whole && any) return made;
  donation_free(made);
  return whole ? &nothing : NULL;
}

keel_donation *keel_donation_of(keel_memory_plan *memory_plan,
                                const bool *donated) {
  /* acquire: pairs with the release below */
  keel_donation *at =
      atomic_load_explicit(&memory_plan->donation, memory_order_acquire);
  if (!at) {
    keel_donation *made = donation_make(memory_plan, donated);
    if (!made) { /* perhaps another time */
      keel_clear_error();
      return NULL;
    }
    if (atomic_compare_exchange_strong_explicit(&memory_plan->donation, &at,
                                                made, memory_order_acq_rel,
                                                memory_order_acquire))
      at = made;
    else if (made != &nothing)
      donation_free(made);
  }
  return at == &nothing ? NULL : at;
}

void keel_donation_drop(keel_memory_plan *memory_plan) {
  keel_donation *donation = atomic_load(&memory_plan->donation);
  if (donation != &nothing) donation_free(donation);
}
