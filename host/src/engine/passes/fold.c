/* fold.c - constant folding: runs what depends on constants alone when the plan is made.
 *
 * A file chooses how long that takes and how much it makes. So a node is left to the runs
 * where its kernel may take too many steps, and where its result, with what else was made
 * and is still needed, would be too large. */
#include "base/refs.h"
#include "device/context.h"
#include "eager/call_site.h"
#include "memory/access.h"
#include "passes/passes.h"
#include "passes/work.h"
#include "values/strings.h"

#define FOLDED_MOST (UINT64_C(64) << 20)  /* bytes of one result */
#define KEPT_MOST   (UINT64_C(256) << 20) /* of all results of a plan */
#define STEPS_MOST  (UINT64_C(1) << 28) /* of one kernel: a part of a second */
#define WORK_MOST   (UINT64_C(1) << 32) /* of all kernels of a plan */

/* The remaining limits of a plan, and of one of its functions. */
typedef struct folding {
  keel_function *function;
  bool sizes_only;     /* of keel_pass_call */
  bool forgives;       /* likewise */
  uint64_t kept, work; /* so far */
  uint32_t *same;      /* by value: what stands for it */
  keel_uses uses;      /* the remaining readers of a value */
} folding;

static bool all_constant(const keel_function *function, const keel_node *node) {
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != KEEL_ABSENT &&
        !function->values[node->inputs[i]].constant)
      return false;
  return true;
}

/* Whether a node looks at the type of its input alone, and that is known. */
static bool looks_at_type(const keel_function *function,
                          const keel_node *node) {
  if (node->op->schema->kind != KEEL_FACT || node->input_count != 1 ||
      node->inputs[0] == KEEL_ABSENT)
    return false;
  const keel_type *type = function->values[node->inputs[0]].type;
  return type && keel_type_known(type);
}

/* Others are dropped later: their results would be made for nothing. */
static bool is_read(const folding *all, const keel_node *node) {
  for (uint32_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] != KEEL_ABSENT && all->uses.counts[node->outputs[i]])
      return true;
  return false;
}

static bool gives_integers(const keel_function *function,
                           const keel_node *node) {
  const uint64_t integers =
      KD_TYPES(KD_I32) | KD_TYPES(KD_I64) | KD_TYPES(KD_BOOL);
  for (uint32_t i = 0; i < node->output_count; i++) {
    const keel_type *type = node->outputs[i] == KEEL_ABSENT
                                ? NULL
                                : function->values[node->outputs[i]].type;
    if (!type || !(KD_TYPES(type->dtype) & integers)) return false;
  }
  return true;
}

/* Ops that move weights, or cast them: not weights of few bits, which stay packed. */
static bool moves_weights(const keel_function *function,
                          const keel_node *node) {
  if (!(node->op->schema->traits & KEEL_OP_MOVES) || !node->input_count ||
      node->inputs[0] == KEEL_ABSENT)
    return false;
  const keel_type *type = function->values[node->inputs[0]].type;
  return type && kd_dtype_size(type->dtype) >= 2;
}

static bool foldable(const folding *all, const keel_node *node) {
  const keel_function *function = all->function;
  if (!is_read(all, node) || node->region) return false;
  if (all->sizes_only && !gives_integers(function, node) &&
      !moves_weights(function, node))
    return false;
  if (node->op->schema->flags & (KEEL_OP_CONTROL | KEEL_OP_STATE) ||
      keel_node_is_random(function, node))
    return false;
  if (looks_at_type(function, node)) return true;
  if (!all_constant(function, node)) return false;
  uint64_t bytes = keel_bytes_of(function, node);
  uint64_t steps = keel_steps_of(function, node);
  return bytes <= FOLDED_MOST && all->kept + bytes <= KEPT_MOST &&
         steps <= STEPS_MOST && all->work + steps <= WORK_MOST;
}

static keel_status run_node(keel_function *function, keel_node *node,
                            keel_tensor **outputs) {
  keel_tensor *stand_in = NULL;
  keel_tensor **inputs = calloc(node->input_count + 1, sizeof(keel_tensor *));
  keel_status status = inputs ? KD_OK : keel_no_memory(8);
  for (uint32_t i = 0; inputs && i < node->input_count; i++)
    if (node->inputs[i] != KEEL_ABSENT)
      inputs[i] = function->values[node->inputs[i]].constant;
  if (inputs && !all_constant(function, node)) {
    /* Shape and Size look at the type alone */
    stand_in = keel_tensor_new(function->context);
    if (stand_in)
      stand_in->type = function->values[node->inputs[0]].type;
    else
      status = KD_OUT_OF_MEMORY;
    inputs[0] = stand_in;
  }
  keel_call_site site;
  keel_call_site_init(&site, node->op, node->name, NULL);
  if (status == KD_OK)
    status =
        keel_call_site_run(&site, function->context->default_device, inputs,
                           node->input_count, outputs, node->output_count, 0);
  keel_call_site_deinit(&site);
  keel_tensor_release(stand_in);
  free(inputs);
  return status;
}

/* Where the host reads it: not copied, if it can read it as it is. */
static keel_status host_value(keel_tensor *value, keel_tensor **out_here) {
  if (!keel_is_strings(value)) return keel_tensor_to_host(value, out_here);
  *out_here = keel_tensor_retain(value);
  return KD_OK;
}

static uint64_t bytes_of(const keel_tensor *constant) {
  if (keel_is_strings(constant)) return keel_strings_bytes(constant->strings);
  return constant->type ? constant->type->bytes : 0; /* a sequence */
}

/* A removed node reads nothing any more: constants without a reader are removed. */
static void drop_reads(folding *all, const keel_node *node) {
  for (uint32_t i = 0; i < node->input_count; i++) {
    uint32_t value = node->inputs[i];
    if (value == KEEL_ABSENT || --all->uses.counts[value]) continue;
    keel_value_info *info = &all->function->values[value];
    if (!info->constant) continue;
    uint64_t bytes = bytes_of(info->constant);
    all->kept -= bytes < all->kept ? bytes : all->kept;
    keel_tensor_release(info->constant);
    info->constant = NULL;
  }
}

static keel_status fold_node(folding *all, keel_node *node) {
  keel_function *function = all->function;
  keel_tensor **outputs = calloc(node->output_count + 1, sizeof(keel_tensor *));
  if (!outputs) return keel_no_memory(node->output_count * sizeof *outputs);
  all->work += keel_steps_of(function, node);
  keel_status status = run_node(function, node, outputs);
  bool whole = status == KD_OK;
  for (uint32_t i = 0; whole && i < node->output_count; i++)
    whole = outputs[i]->kind == KEEL_DATA || keel_is_strings(outputs[i]);
  for (uint32_t i = 0; i < node->output_count; i++) {
    keel_tensor *here = NULL;
    if (whole && node->outputs[i] != KEEL_ABSENT &&
        (status = host_value(outputs[i], &here)) == KD_OK) {
      function->values[node->outputs[i]].constant = here;
      function->values[node->outputs[i]].type = here->type;
      function->values[node->outputs[i]].producer = KEEL_ABSENT;
      all->kept += bytes_of(here);
    }
    keel_tensor_release(outputs[i]);
  }
  node->dead = whole && status == KD_OK;
  if (node->dead) drop_reads(all, node);
  free(outputs);
  /* nodes that can't run now report it when the program runs */
  return status == KD_OUT_OF_MEMORY ? status : KD_OK;
}

/* Whether a node passes on its input; its readers then read that. */
static bool drop_identity(folding *all, const keel_node *node) {
  if (node->op->schema->kind != KEEL_IDENTITY || node->input_count != 1 ||
      node->output_count != 1 || node->outputs[0] == KEEL_ABSENT ||
      node->inputs[0] == KEEL_ABSENT)
    return false;
  uint32_t from = node->inputs[0], to = node->outputs[0];
  all->same[to] = from;
  all->uses.counts[from] += all->uses.counts[to] - 1;
  return true;
}

static keel_status fold_visit(folding *all, keel_node *node) {
  for (uint32_t k = 0; k < node->input_count; k++)
    if (node->inputs[k] != KEEL_ABSENT)
      node->inputs[k] = all->same[node->inputs[k]];
  node->dead = drop_identity(all, node);
  if (node->dead) return KD_OK;
  keel_status fits = keel_function_infer(all->function, node);
  if (fits != KD_OK && (!all->forgives || fits == KD_OUT_OF_MEMORY))
    return fits;
  if (fits != KD_OK) keel_clear_error();
  if (fits != KD_OK || !foldable(all, node)) return KD_OK;
  KEEL_TRY(
      keel_cancellation_check_planning(node->op->schema->name, node->name));
  return fold_node(all, node);
}

static keel_status fold_function(folding *all) {
  keel_function *function = all->function;
  all->same = malloc((function->value_count + 1) * sizeof *all->same);
  if (!all->same) return keel_no_memory(function->value_count * sizeof(int));
  for (uint32_t i = 0; i < function->value_count; i++)
    all->same[i] = i;
  keel_status status = keel_uses_count(function, &all->uses);
  for (uint32_t i = 0; i < function->node_count && status == KD_OK; i++)
    if (!function->nodes[i].dead) status = fold_visit(all, &function->nodes[i]);
  for (uint32_t i = 0; i < function->output_count; i++)
    function->outputs[i] = all->same[function->outputs[i]];
  free(all->same);
  keel_uses_drop(&all->uses);
  return status;
}

/* ---- nested functions ----------------------------------------------------------- */

static void remove_at(uint32_t *list, uint32_t *count, uint32_t at) {
  memmove(list + at, list + at + 1, (--*count - at) * sizeof *list);
}

/* Makes a capture of a constant a constant of the nested function. */
static void settle_capture(const keel_function *function, keel_node *node,
                           uint32_t input, keel_function *graph,
                           uint32_t capture) {
  uint32_t at = graph->input_count - graph->capture_count + capture;
  keel_tensor *constant = function->values[node->inputs[input]].constant;
  keel_value_info *inner = &graph->values[graph->inputs[at]];
  inner->constant = keel_tensor_retain(constant);
  inner->type = constant->type;
  inner->producer = KEEL_ABSENT;
  uint32_t ports = graph->input_count;
  remove_at(graph->inputs, &graph->input_count, at);
  memmove(graph->input_ports + at, graph->input_ports + at + 1,
          (ports - at - 1) * sizeof *graph->input_ports);
  graph->capture_count--;
  remove_at(node->inputs, &node->input_count, input);
}

static bool is_constant(const keel_function *function, uint32_t value) {
  return value != KEEL_ABSENT && function->values[value].constant &&
         function->values[value].constant->kind == KEEL_DATA;
}

/* The captures of a node's functions, in their order, are its last inputs. */
static void settle_captures(const keel_function *function, keel_node *node) {
  uint32_t input = node->input_count;
  if (!keel_refs_unique(&node->op->refs)) return; /* another node runs them */
  for (uint32_t i = node->op->attr_count; i-- > 0;) {
    keel_function *graph = node->op->attrs[i].graph;
    for (uint32_t k = graph ? graph->capture_count : 0; k-- > 0;) {
      input--;
      if (is_constant(function, node->inputs[input]))
        settle_capture(function, node, input, graph, k);
    }
  }
}

/* Folds outer functions before those inside of them. The list begins with the function that was made
 * last, and a function is made before those that its nodes run. */
static keel_status fold_all(folding *all, keel_function *functions) {
  uint32_t count = 0;
  for (const keel_function *f = functions; f; f = f->next)
    count++;
  keel_function **list = malloc((count + (size_t)1) * sizeof *list);
  if (!list) return keel_no_memory(count * sizeof *list);
  uint32_t at = count;
  for (keel_function *f = functions; f; f = f->next)
    list[--at] = f;
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < count && status == KD_OK; i++) {
    all->function = list[i];
    status = fold_function(all);
    for (uint32_t k = 0; k < list[i]->node_count && !all->sizes_only; k++)
      if (!list[i]->nodes[k].dead) settle_captures(list[i], &list[i]->nodes[k]);
  }
  free(list);
  return status;
}

keel_status keel_pass_fold(keel_function *functions,
                           const keel_pass_call *call) {
  folding all = {.sizes_only = call->sizes_only,
                 .forgives = call->forgives,
                 .kept = functions->folded_bytes,
                 .work = functions->folded_steps};
  KEEL_TRY(fold_all(&all, functions));
  functions->folded_bytes = all.kept;
  functions->folded_steps = all.work;
  return KD_OK;
}
