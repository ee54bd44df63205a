/* stages.c - cuts a function's nodes, in their order, into stages of equal times, at places where
 * few bytes pass from one to the next. */
#include <math.h>

#include "passes/cost.h"
#include "ranks/split/split.h"

#include <kd/help.h>

/* Places to cut that are looked at: of more, the narrowest of each stretch. */
#define PLACES_MOST 768

/* The cost of sending a value from one rank to another. */
#define MESSAGE 20000.0 /* nanoseconds */
#define WIRE    1.0     /* bytes a nanosecond */

static const keel_split_speed usual = {.flops = 20, .bytes = 8, .launch = 2000};

keel_status keel_split_measure(keel_device *device,
                               keel_split_speed *out_speed) {
  keel_speed speed = {0};
  *out_speed = usual;
  KEEL_TRY(keel_cost_speed(device, &speed));
  if (speed.flops > 0)
    *out_speed = (keel_split_speed){speed.flops, speed.bytes, speed.launch};
  return KD_OK;
}

typedef struct cutting {
  const keel_function *function;
  const keel_split_speed *speeds; /* by stage; NULL: all are usual */
  uint32_t size;                  /* stages */
  /* in their order, each right before its first reader; without those of any stage */
  uint32_t *order;
  uint32_t *position; /* by node: in that order, or KEEL_ABSENT */
  uint32_t nodes;     /* in it */
  /* by place, before a node: the cost of a cut there, in nanoseconds; infinite if it can't be
   * one */
  double *width;
  double *until;    /* by place: nodes before it, on the stage at hand */
  uint32_t *places; /* where cuts may be: 0, those in between, and the end */
  uint32_t place_count;
  double *best;   /* by stage and place: the slowest stage so far */
  uint32_t *from; /* by the same: where the stage begins */
} cutting;

/* ---- order ------------------------------------------------------------------------------- */

/* Nodes without a value to wait for: their inputs are constants, or outputs of such nodes. Nodes
 * are sorted. */
static bool is_of_constants(const keel_function *f, const keel_node *node,
                            const bool *waits) {
  for (uint32_t k = 0; k < node->input_count; k++)
    if (node->inputs[k] != KEEL_ABSENT && waits[node->inputs[k]]) return false;
  return !keel_node_is_random(f, node) && !keel_node_has(node, KEEL_OP_RANDOM);
}

keel_status keel_split_find_constants(const keel_function *f,
                                      uint32_t *out_stages) {
  bool *waits = calloc((size_t)f->value_count + 1, sizeof *waits);
  if (!waits) return keel_no_memory(f->value_count * sizeof *waits);
  for (uint32_t i = 0; i < f->input_count; i++)
    waits[f->inputs[i]] = true;
  for (uint32_t i = 0; i < f->node_count; i++) {
    const keel_node *node = &f->nodes[i];
    bool any = node->dead || is_of_constants(f, node, waits);
    out_stages[i] = any ? KEEL_SPLIT_ANY_STAGE : 0;
    for (uint32_t k = 0; k < node->output_count && !any; k++)
      if (node->outputs[k] != KEEL_ABSENT) waits[node->outputs[k]] = true;
  }
  free(waits);
  return KD_OK;
}

/* The next node that one needs and that has no place yet; KEEL_ABSENT: it can have its own. */
static uint32_t missing(const cutting *c, const uint32_t *stages, uint32_t node,
                        uint32_t *next) {
  const keel_node *at = &c->function->nodes[node];
  while (next[node] < at->input_count) {
    uint32_t value = at->inputs[next[node]++];
    uint32_t from = value == KEEL_ABSENT ? KEEL_ABSENT
                                         : c->function->values[value].producer;
    if (from != KEEL_ABSENT && c->position[from] == KEEL_ABSENT &&
        stages[from] != KEEL_SPLIT_ANY_STAGE)
      return from;
  }
  return KEEL_ABSENT;
}

/* From the outputs back. */
static keel_status order_nodes(cutting *c, const uint32_t *stages) {
  const keel_function *f = c->function;
  size_t n = (size_t)f->node_count + 1;
  uint32_t *stack = malloc(n * sizeof *stack), *next = calloc(n, sizeof *next);
  keel_status status = stack && next ? KD_OK : keel_no_memory(n * 4);
  for (uint32_t i = 0; i < f->node_count; i++)
    c->position[i] = KEEL_ABSENT;
  for (uint32_t i = 0; i < f->output_count && status == KD_OK; i++) {
    uint32_t last = f->values[f->outputs[i]].producer, depth = 0;
    if (last != KEEL_ABSENT && stages[last] != KEEL_SPLIT_ANY_STAGE &&
        c->position[last] == KEEL_ABSENT)
      stack[depth++] = last;
    while (depth) {
      uint32_t need = missing(c, stages, stack[depth - 1], next);
      if (need != KEEL_ABSENT) {
        stack[depth++] = need;
        continue;
      }
      c->position[stack[depth - 1]] = c->nodes;
      c->order[c->nodes++] = stack[--depth];
    }
  }
  free(stack);
  free(next);
  return status;
}

/* ---- places --------------------------------------------------------------------------- */

static bool can_be_sent(const keel_type *type) {
  return type && keel_type_known(type) && kd_dtype_size(type->dtype);
}

/* Adds a value's cost to all places that it passes. steps: differences from place to place; walls:
 * the same for values that can't pass. */
static void note_value(const cutting *c, uint32_t value, uint32_t last,
                       double *steps, int32_t *walls) {
  const keel_value_info *info = &c->function->values[value];
  uint32_t first = c->position[info->producer];
  bool sent = can_be_sent(info->type);
  double cost = sent ? MESSAGE + (double)info->type->bytes / WIRE : 0;
  steps[first + 1] += cost;
  steps[last + 1] -= cost;
  walls[first + 1] += !sent;
  walls[last + 1] -= !sent;
}

/* By value: the position of the last node that reads it. */
static void find_last(const cutting *c, uint32_t *last) {
  for (uint32_t i = 0; i < c->function->value_count; i++)
    last[i] = KEEL_ABSENT;
  for (uint32_t i = 0; i < c->nodes; i++) {
    const keel_node *node = &c->function->nodes[c->order[i]];
    for (uint32_t k = 0; k < node->input_count; k++)
      if (node->inputs[k] != KEEL_ABSENT) last[node->inputs[k]] = i;
  }
}

/* Whether a node in the order makes it. */
static bool is_made(const cutting *c, uint32_t value) {
  uint32_t from = c->function->values[value].producer;
  return from != KEEL_ABSENT && c->position[from] != KEEL_ABSENT;
}

static keel_status find_widths(cutting *c) {
  const keel_function *f = c->function;
  size_t places = (size_t)c->nodes + 2;
  uint32_t *last = malloc(((size_t)f->value_count + 1) * sizeof *last);
  double *steps = calloc(places, sizeof *steps);
  int32_t *walls = calloc(places, sizeof *walls);
  keel_status status =
      last && steps && walls ? KD_OK : keel_no_memory(places * sizeof *steps);
  if (status == KD_OK) find_last(c, last);
  for (uint32_t i = 0; i < f->value_count && status == KD_OK; i++)
    if (is_made(c, i) && last[i] != KEEL_ABSENT)
      note_value(c, i, last[i], steps, walls);
  double width = 0;
  int32_t walled = 0;
  for (uint32_t i = 0; i <= c->nodes && status == KD_OK; i++) {
    width += steps[i];
    walled += walls[i];
    c->width[i] = walled ? INFINITY : width;
  }
  free(last);
  free(steps);
  free(walls);
  return status;
}

double keel_split_time(const keel_function *function, const keel_node *node,
                       const keel_split_speed *speed) {
  if (!speed) speed = &usual;
  const keel_speed rates = {.flops = speed->flops > 0 ? speed->flops : 1,
                            .bytes = speed->bytes > 0 ? speed->bytes : 1,
                            .launch = speed->launch};
  const kd_cost none = {.struct_size = sizeof none};
  return keel_cost_node(function, node, &rates, &none);
}

/* The nodes' time on one stage's rank. */
static void find_times(cutting *c, uint32_t stage) {
  const keel_split_speed *speed = c->speeds ? &c->speeds[stage] : NULL;
  c->until[0] = 0;
  for (uint32_t i = 0; i < c->nodes; i++) {
    const keel_node *node = &c->function->nodes[c->order[i]];
    c->until[i + 1] = c->until[i] + keel_split_time(c->function, node, speed);
  }
}

/* The narrowest place of each stretch of equal time. */
static void find_places(cutting *c) {
  double all = c->until[c->nodes];
  uint32_t at = 1;
  c->places[c->place_count++] = 0;
  for (uint32_t stretch = 1; stretch <= PLACES_MOST && at < c->nodes;
       stretch++) {
    double end = c->nodes <= PLACES_MOST ? c->until[at]
                                         : all * (double)stretch / PLACES_MOST;
    uint32_t narrowest = at;
    bool any = false;
    for (; at < c->nodes && (c->until[at] <= end || !any); at++) {
      if (!any || c->width[at] < c->width[narrowest]) narrowest = at;
      any = true;
    }
    if (any && c->width[narrowest] < INFINITY)
      c->places[c->place_count++] = narrowest;
  }
  c->places[c->place_count++] = c->nodes;
}

/* ---- the slowest stage is as fast as it can be ------------------------------------------ */

static double stage_time(const cutting *c, uint32_t first, uint32_t end) {
  return c->until[end] - c->until[first] + c->width[first] + c->width[end];
}

/* Where stage `stage` begins best, for each place where it may end. */
static void place_stage(cutting *c, uint32_t stage) {
  double *best = c->best + (size_t)stage * c->place_count;
  uint32_t *from = c->from + (size_t)stage * c->place_count;
  for (uint32_t j = 0; j < c->place_count; j++) {
    best[j] = INFINITY;
    from[j] = 0;
    if (!stage && j) best[j] = stage_time(c, 0, c->places[j]);
    for (uint32_t i = j; stage && i-- > stage;) {
      double own = stage_time(c, c->places[i], c->places[j]);
      double before = best[(int64_t)i - c->place_count];
      double slowest = own > before ? own : before;
      if (slowest < best[j]) {
        best[j] = slowest;
        from[j] = i;
      }
      if (c->until[c->places[j]] - c->until[c->places[i]] > best[j]) break;
    }
  }
}

static void take_stages(cutting *c, uint32_t *out_stages, double *out_shares) {
  uint32_t end = c->place_count - 1;
  for (uint32_t stage = c->size; stage-- > 0;) {
    uint32_t first = stage ? c->from[(size_t)stage * c->place_count + end] : 0;
    for (uint32_t i = c->places[first]; i < c->places[end]; i++)
      out_stages[c->order[i]] = stage;
    find_times(c, stage);
    out_shares[stage] =
        (c->until[c->places[end]] - c->until[c->places[first]]) /
        (c->until[c->nodes] > 0 ? c->until[c->nodes] : 1);
    end = first;
  }
}

static keel_status find_stages(cutting *c, uint32_t *out_stages,
                               double *out_shares) {
  KEEL_TRY(keel_split_find_constants(c->function, out_stages));
  KEEL_TRY(order_nodes(c, out_stages));
  KEEL_TRY(find_widths(c));
  find_times(c, 0);
  find_places(c);
  if (c->nodes < c->size)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the program has %u nodes that compute, and %u stages need"
                     " as many",
                     (unsigned)c->nodes, (unsigned)c->size);
  if (c->place_count <= c->size)
    return keel_fail(
        KD_INVALID_ARGUMENT,
        "the program has %u places where it can be cut, and %u stages need %u: "
        "values that pass from one to the next must have known shapes (--dim "
        "gives open dimensions a size)",
        (unsigned)c->place_count - 2, (unsigned)c->size, (unsigned)c->size - 1);
  size_t cells = (size_t)c->size * c->place_count;
  c->best = malloc(cells * sizeof *c->best);
  c->from = malloc(cells * sizeof *c->from);
  if (!c->best || !c->from) return keel_no_memory(cells * sizeof *c->best);
  for (uint32_t stage = 0; stage < c->size; stage++) {
    find_times(c, stage);
    place_stage(c, stage);
  }
  take_stages(c, out_stages, out_shares);
  return KD_OK;
}

keel_status keel_split_stages(const keel_function *function, uint32_t size,
                              const keel_split_speed *speeds,
                              uint32_t *out_stages, double *out_shares) {
  size_t places = (size_t)function->node_count + 2;
  cutting c = {.function = function,
               .speeds = speeds,
               .size = size,
               .order = malloc(places * sizeof *c.order),
               .position = malloc(places * sizeof *c.position),
               .width = malloc(places * sizeof *c.width),
               .until = malloc(places * sizeof *c.until),
               .places = malloc((PLACES_MOST + 2) * sizeof *c.places)};
  keel_status status = c.order && c.position && c.width && c.until && c.places
                           ? find_stages(&c, out_stages, out_shares)
                           : keel_no_memory(places * sizeof *c.width);
  free(c.order);
  free(c.position);
  free(c.width);
  free(c.until);
  free(c.places);
  free(c.best);
  free(c.from);
  return status;
}
