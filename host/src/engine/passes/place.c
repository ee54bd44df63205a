/* place.c - which device each node runs on: by the user's rules, the scopes in which a
 * program was built, and, where it is asked for, by cost.
 *
 * By cost: a device that only compiles gets the parts that it claims and estimates to be faster,
 * copies included, than kernels are. Then, in the order of the nodes, each goes where it ends
 * first, when what it reads has come there and the device has done what was given to it before: the
 * "earliest finish time" of list scheduling (H. Topcuoglu et al., HEFT, 2002). All go to one device
 * instead, unless that is expected to take clearly longer: what is spread loses fused ops, layouts
 * and recordings, which nodes' costs do not know. */
#include <fnmatch.h>
#include <math.h>

#include "device/context.h"
#include "device/device.h"
#include "device/lost.h"
#include "eager/call_site.h"
#include "passes/cost.h"
#include "passes/passes.h"

/* ---- rules ----------------------------------------------------------------------- */

/* "GLOB=DEVICE" or "GLOB=@GLOB": globs are of a node's name or op. */
typedef struct rule {
  const char *text;
  char glob[256];
  const char *with;    /* the second glob, or NULL */
  keel_device *device; /* else */
} rule;

static keel_status read_rule(keel_context *context, const char *text,
                             rule *out) {
  const char *equals = strrchr(text, '=');
  *out = (rule){.text = text};
  if (!equals || equals == text || !equals[1] ||
      (size_t)(equals - text) >= sizeof out->glob)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "placement \"%s\" does not have the form GLOB=DEVICE or"
                     " GLOB=@GLOB, where GLOB matches names of nodes or of ops",
                     text);
  memcpy(out->glob, text, (size_t)(equals - text));
  if (equals[1] != '@')
    return keel_device_find(context, equals + 1, &out->device);
  out->with = equals + 2;
  return KD_OK;
}

static bool is_named(const keel_node *node, const char *glob) {
  return !node->dead && (fnmatch(glob, node->name, 0) == 0 ||
                         fnmatch(glob, node->op->schema->name, 0) == 0);
}

/* The first node that is named so, in any function; NULL: none is. */
static keel_node *first_named(keel_function *functions, const char *glob) {
  for (keel_function *f = functions; f; f = f->next)
    for (uint32_t i = 0; i < f->node_count; i++)
      if (is_named(&f->nodes[i], glob)) return &f->nodes[i];
  return NULL;
}

static keel_status no_match(const rule *rule, const char *glob) {
  return keel_fail(KD_NOT_FOUND,
                   "placement \"%s\": \"%s\" matches no node and no op of the"
                   " program",
                   rule->text, glob);
}

static keel_status to_device(keel_function *functions, const rule *rule) {
  uint32_t hits = 0;
  for (keel_function *f = functions; f; f = f->next)
    for (uint32_t i = 0; i < f->node_count; i++) {
      keel_node *node = &f->nodes[i];
      if (!is_named(node, rule->glob)) continue;
      hits++;
      if (!node->ruled) node->device = rule->device; /* the first rule stands */
      node->ruled = true;
    }
  return hits ? KD_OK : no_match(rule, rule->glob);
}

/* To where a node is that has its device, or is to get one. */
static keel_status to_node(keel_function *functions, const rule *rule,
                           uint32_t group) {
  keel_node *with = first_named(functions, rule->with);
  uint32_t hits = 0;
  if (!with) return no_match(rule, rule->with);
  if (!with->group) with->group = group;
  for (keel_function *f = functions; f; f = f->next)
    for (uint32_t i = 0; i < f->node_count; i++) {
      keel_node *node = &f->nodes[i];
      if (!is_named(node, rule->glob)) continue;
      hits++;
      if (node == with || node->ruled) continue;
      node->device = with->device;
      node->group = with->group;
      node->ruled = true;
    }
  return hits ? KD_OK : no_match(rule, rule->glob);
}

/* Those that go where others are come last: these have their places then. */
keel_status keel_pass_place(keel_function *functions,
                            const keel_pass_call *call) {
  const keel_plan_params *params = call->params;
  rule rule;
  for (int pass = 0; functions && pass < 2; pass++)
    for (uint32_t i = 0; i < params->place_count; i++) {
      KEEL_TRY(read_rule(functions->context, params->places[i], &rule));
      if (!rule.with && pass == 0) KEEL_TRY(to_device(functions, &rule));
      if (rule.with && pass == 1) KEEL_TRY(to_node(functions, &rule, i + 1));
    }
  return KD_OK;
}

/* ---- by cost ------------------------------------------------------------------------ */

typedef struct candidate {
  keel_device *device;
  keel_speed speed;
  double free_at; /* when it has done its work */
} candidate;

/* One device is taken that is expected to take less than this times what is spread takes. */
#define SPREAD_GAIN 1.5

typedef struct placement {
  keel_function *function;
  candidate *candidates;
  uint32_t count;
  keel_device **groups; /* by group: the device of the first that was placed */
  uint32_t group_count;
  double *offered; /* by node: its part of a compiler's offer; 0: nothing */
  bool any_offered;
  double *times; /* by node and candidate; below 0: it does not take the node */
  double *made_at;   /* by value: when it is made */
  uint32_t *made_on; /* by value: candidate, or KEEL_ABSENT: the host */
} placement;

/* Whether the device itself has a kernel for these types, and its estimate of the cost. */
static bool place_takes(const keel_function *function, const keel_node *node,
                        keel_device *device, kd_cost *out_cost) {
  keel_view view;
  keel_device *chosen = NULL;
  const kd_kernel_def *def = NULL;
  bool fits = keel_view_make(function, node, &view) &&
              keel_choose_kernel(function->context, device, &view.node,
                                 node->name, &chosen, &def) == KD_OK &&
              chosen == device;
  *out_cost = (kd_cost){.struct_size = sizeof *out_cost};
  if (fits && def->cost && keel_device_enter(device) == KD_OK) {
    if (def->cost(device->handle, &view.node, out_cost) != KD_OK)
      *out_cost = (kd_cost){0};
    keel_lost_leave(device);
  }
  keel_view_drop(&view);
  return fits;
}

/* NULL: no copy is needed between it and host memory. */
static const keel_speed *apart(const placement *all, uint32_t where) {
  if (where == KEEL_ABSENT) return NULL;
  const candidate *c = &all->candidates[where];
  return keel_device_addressable(c->device) ? NULL : &c->speed;
}

/* When a value can be read on a candidate. */
static double arrival(const placement *all, uint32_t value, uint32_t where) {
  const keel_value_info *info = &all->function->values[value];
  if (info->constant) return 0; /* it is brought there once */
  uint32_t from = all->made_on[value];
  double at = all->made_at[value];
  if (from == where) return at;
  return at + keel_cost_copy(info->type, apart(all, from), apart(all, where));
}

/* The copy of the program's outputs to the host. */
static double way_home(const placement *all, const keel_node *node,
                       uint32_t where) {
  const keel_function *function = all->function;
  double most = 0;
  for (uint32_t i = 0; i < function->output_count; i++)
    for (uint32_t k = 0; k < node->output_count; k++)
      if (node->outputs[k] == function->outputs[i]) {
        const keel_type *type = function->values[node->outputs[k]].type;
        double time = keel_cost_copy(type, apart(all, where), NULL);
        most = time > most ? time : most;
      }
  return most;
}

/* ---- devices that compile, and have no kernels ------------------------------------- */

/* A compiler's offer, compared with the best kernels. */
typedef struct offers {
  placement *all;
  uint32_t candidate;
} offers;

static bool is_inside(const uint32_t *nodes, uint32_t count, uint32_t node) {
  uint32_t low = 0;
  while (count) { /* they ascend */
    uint32_t half = count / 2;
    if (nodes[low + half] == node) return true;
    if (nodes[low + half] < node) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return false;
}

/* The fastest kernel's time; 0 where no device has one: the runtime's own ops. */
static double time_by_kernels(const placement *all, const keel_node *node) {
  double best = 0;
  for (uint32_t c = 0; c < all->count; c++) {
    const candidate *at = &all->candidates[c];
    kd_cost cost;
    if (at->speed.flops <= 0 ||
        !place_takes(all->function, node, at->device, &cost))
      continue;
    double time = keel_cost_node(all->function, node, &at->speed, &cost);
    if (best <= 0 || time < best) best = time;
  }
  return best;
}

/* Copies of values that a part reads from outside, and of those that it makes for others. */
static double time_of_borders(const placement *all, const uint32_t *nodes,
                              uint32_t count, const keel_speed *speed,
                              const keel_uses *uses) {
  const keel_function *function = all->function;
  double time = 0;
  for (uint32_t i = 0; i < count; i++) {
    const keel_node *node = &function->nodes[nodes[i]];
    for (uint32_t k = 0; k < node->input_count; k++) {
      if (node->inputs[k] == KEEL_ABSENT) continue;
      const keel_value_info *info = &function->values[node->inputs[k]];
      if (!info->constant && (info->producer == KEEL_ABSENT ||
                              !is_inside(nodes, count, info->producer)))
        time += keel_cost_copy(info->type, NULL, speed);
    }
    for (uint32_t k = 0; k < node->output_count; k++) {
      uint32_t value = node->outputs[k];
      if (value != KEEL_ABSENT && uses->counts[value] &&
          !is_inside(nodes, count, uses->reader[value]))
        time += keel_cost_copy(function->values[value].type, speed, NULL);
    }
  }
  return time;
}

/* Takes an offer that is better than kernels for its nodes one by one. */
static void weigh(void *context, const uint32_t *nodes, uint32_t count,
                  uint64_t time) {
  const offers *offer = context;
  placement *all = offer->all;
  const candidate *at = &all->candidates[offer->candidate];
  keel_uses uses = {0};
  double by_kernels = 0;
  if (!time || keel_uses_count(all->function, &uses) != KD_OK) return;
  for (uint32_t i = 0; i < count; i++)
    by_kernels += time_by_kernels(all, &all->function->nodes[nodes[i]]);
  double there =
      (double)time + time_of_borders(all, nodes, count, &at->speed, &uses);
  keel_uses_drop(&uses);
  for (uint32_t i = 0; i < count && there < by_kernels; i++) {
    all->function->nodes[nodes[i]].device = at->device;
    all->offered[nodes[i]] = (double)time / count;
    all->any_offered = true;
  }
}

static keel_status weigh_offers(placement *all) {
  for (uint32_t c = 0; c < all->count; c++) {
    const candidate *at = &all->candidates[c];
    offers offer = {all, c};
    if (at->device->plugin->kernel_count || !at->device->plugin->regions.claim)
      continue;
    KEEL_TRY(keel_regions_offer(all->function, at->device, weigh, &offer));
  }
  return KD_OK;
}

static double time_on(const placement *all, const keel_node *node,
                      const candidate *at, const kd_cost *estimate) {
  double offered = all->offered[node - all->function->nodes];
  if (offered > 0) return offered;
  return at->speed.flops > 0
             ? keel_cost_node(all->function, node, &at->speed, estimate)
             : 0;
}

/* ---- node by node ------------------------------------------------------------------- */

static double *times_of(const placement *all, const keel_node *node) {
  return all->times + (size_t)(node - all->function->nodes) * all->count;
}

static void find_times(placement *all, const keel_node *node) {
  for (uint32_t c = 0; c < all->count; c++) {
    const candidate *at = &all->candidates[c];
    kd_cost cost = {0};
    bool taken = place_takes(all->function, node, at->device, &cost);
    times_of(all, node)[c] =
        taken || node->device ? time_on(all, node, at, &cost) : -1;
  }
}

/* The device that rules or the node's group have for it; NULL: none. */
static keel_device *place_device_of(const placement *all,
                                    const keel_node *node) {
  return node->device || !node->group ? node->device : all->groups[node->group];
}

/* When the node's outputs are there if it goes where that is first, or to the one candidate that
 * is asked for; `*out_where`: KEEL_ABSENT where none takes it. */
static double place_node(placement *all, const keel_node *node, uint32_t only,
                         uint32_t *out_where) {
  uint32_t best = KEEL_ABSENT;
  double best_end = 0, best_home = 0;
  const keel_device *device = place_device_of(all, node);
  for (uint32_t c = 0; c < all->count; c++) {
    candidate *at = &all->candidates[c];
    double begin = at->free_at, time = times_of(all, node)[c];
    if (device ? device != at->device : time < 0) continue;
    if (only != KEEL_ABSENT && c != only) continue;
    for (uint32_t i = 0; i < node->input_count; i++) {
      if (node->inputs[i] == KEEL_ABSENT) continue;
      double come = arrival(all, node->inputs[i], c);
      if (come > begin) begin = come;
    }
    double end = begin + (time < 0 ? 0 : time);
    double home = end + way_home(all, node, c);
    if (best != KEEL_ABSENT && home >= best_home) continue;
    best = c;
    best_end = end;
    best_home = home;
  }
  for (uint32_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i] == KEEL_ABSENT) continue;
    all->made_on[node->outputs[i]] = best;
    all->made_at[node->outputs[i]] = best_end;
  }
  *out_where = best;
  if (best == KEEL_ABSENT) return 0; /* the runtime's own, or types not known */
  all->candidates[best].free_at = best_end;
  if (node->group && !all->groups[node->group])
    all->groups[node->group] = all->candidates[best].device;
  return best_home;
}

static bool has_taker(const placement *all, const keel_node *node) {
  for (uint32_t c = 0; c < all->count; c++)
    if (times_of(all, node)[c] >= 0) return true;
  return false;
}

/* How long the function takes, by the first nodes to end, or on one candidate; HUGE_VAL: that
 * can't run all. `keep`: the nodes go there. */
static double place_all(placement *all, uint32_t only, bool keep) {
  keel_function *function = all->function;
  double last = 0;
  for (uint32_t i = 0; i < function->value_count; i++)
    all->made_on[i] = KEEL_ABSENT;
  memset(all->made_at, 0, function->value_count * sizeof *all->made_at);
  memset(all->groups, 0, (all->group_count + 1) * sizeof(keel_device *));
  for (uint32_t c = 0; c < all->count; c++)
    all->candidates[c].free_at = 0;
  for (uint32_t i = 0; i < function->node_count; i++) {
    keel_node *node = &function->nodes[i];
    uint32_t where = KEEL_ABSENT;
    if (node->dead) continue;
    double end = place_node(all, node, only, &where);
    if (where == KEEL_ABSENT && only != KEEL_ABSENT && has_taker(all, node))
      return HUGE_VAL;
    if (keep && where != KEEL_ABSENT)
      node->device = all->candidates[where].device;
    last = end > last ? end : last;
  }
  return last;
}

static void place_best(placement *all) {
  const keel_function *function = all->function;
  double spread = place_all(all, KEEL_ABSENT, false), best = HUGE_VAL;
  uint32_t only = KEEL_ABSENT;
  for (uint32_t c = 0; c < all->count && !all->any_offered; c++) {
    double time = place_all(all, c, false);
    if (time >= best) continue;
    best = time;
    only = c;
  }
  if (best >= SPREAD_GAIN * spread) only = KEEL_ABSENT;
  place_all(all, only, true);
  if (spread <= 0) return; /* no types are known yet */
  keel_log_line(&function->context->log, KD_LOG_DEBUG,
                "\"%s\" is placed %s%s: %.3f ms are expected, %.3f ms of the"
                " devices together",
                function->name, only == KEEL_ABSENT ? "by node" : "on ",
                only == KEEL_ABSENT ? "" : all->candidates[only].device->name,
                1e-6 * (only == KEEL_ABSENT ? spread : best), 1e-6 * spread);
}

static keel_status find_candidates(placement *all) {
  keel_context *context = all->function->context;
  uint32_t count = context->device_count; /* more may be shown meanwhile */
  all->candidates = calloc(count + 1, sizeof *all->candidates);
  if (!all->candidates) return keel_no_memory(sizeof *all->candidates);
  for (uint32_t i = 0; i < count; i++) {
    candidate *c = &all->candidates[all->count];
    c->device = keel_devices(context)[i];
    if (c->device->same) continue; /* one silicon does not work twice */
    if (keel_cost_speed(c->device, &c->speed) == KD_OK)
      all->count++;
    else /* it may lack MatMul: it takes what rules give it */
      keel_log_line(&context->log, KD_LOG_INFO, "not placed on: %s",
                    keel_message());
  }
  return KD_OK;
}

keel_status keel_pass_place_by_cost(keel_function *function) {
  placement all = {.function = function};
  keel_status status = find_candidates(&all);
  all.offered = calloc((size_t)function->node_count + 1, sizeof *all.offered);
  all.made_at = calloc(function->value_count + 1, sizeof *all.made_at);
  all.made_on = malloc((function->value_count + 1) * sizeof *all.made_on);
  for (uint32_t i = 0; i < function->node_count; i++)
    if (function->nodes[i].group > all.group_count)
      all.group_count = function->nodes[i].group;
  all.groups = calloc((size_t)all.group_count + 1, sizeof(keel_device *));
  all.times = calloc(((size_t)function->node_count + 1) * (all.count + 1),
                     sizeof *all.times);
  if (status == KD_OK && (!all.offered || !all.made_at || !all.made_on ||
                          !all.groups || !all.times))
    status = keel_no_memory(function->value_count * sizeof *all.made_at);
  if (status == KD_OK) status = weigh_offers(&all);
  for (uint32_t i = 0; status == KD_OK && i < function->node_count; i++)
    if (!function->nodes[i].dead) find_times(&all, &function->nodes[i]);
  if (status == KD_OK) place_best(&all);
  free(all.candidates);
  free(all.groups);
  free(all.times);
  free(all.offered);
  free(all.made_at);
  free(all.made_on);
  return status;
}
