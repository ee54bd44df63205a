/* annotated.c - a model's own annotations as the seeds of a split: the axes along which values are
 * sharded, or the stage of each node in a pipe. */
#include "ranks/split/split.h"

#include <kd/help.h>

/* ---- which ones ------------------------------------------------------------------------- */

#define NAMED_MOST 8 /* in a message */

static keel_status none_fits(const keel_annotations *all, uint32_t size) {
  keel_text text = {0};
  if (!all->count)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the model has no annotations of devices");
  for (uint32_t i = 0; i < all->count && i < NAMED_MOST; i++)
    keel_text_add(&text, "%s\"%.60s\" of %lld", i ? ", " : "",
                  all->list[i].name, (long long)all->list[i].devices);
  if (all->count > NAMED_MOST) keel_text_add(&text, " ...");
  keel_fail(KD_INVALID_ARGUMENT,
            "the model has no configuration of %u devices; it has %s",
            (unsigned)size, keel_text_get(&text));
  keel_text_free(&text);
  return KD_INVALID_ARGUMENT;
}

keel_status keel_split_configuration(const keel_annotations *all, uint32_t size,
                                     const keel_configuration **out) {
  const char *fault = all->fault;
  for (uint32_t i = 0; i < all->count && !*out; i++)
    if (all->list[i].devices == size) *out = &all->list[i];
  if (!*out && !fault) return none_fits(all, size);
  if (!fault) fault = (*out)->fault;
  return fault ? keel_fail(KD_INVALID_ARGUMENT, "%s", fault) : KD_OK;
}

bool keel_split_is_staged(const keel_annotations *all,
                          const keel_configuration *own) {
  return own->stage_count && own->stage_count == all->nodes &&
         !own->sharding_count;
}

/* ---- values that ranks share -------------------------------------------------------------- */

bool keel_split_by_annotations(const keel_splitter *s) {
  return s->params->kind == KEEL_SPLIT_ANNOTATED;
}

bool keel_split_wants(const keel_splitter *s, uint32_t input, uint32_t axis) {
  uint32_t value =
      input < s->node.input_count ? s->node.inputs[input] : KEEL_ABSENT;
  if (s->params->kind == KEEL_SPLIT_TENSOR) return true;
  return value < s->count && s->values[value].wanted == axis;
}

/* The axis, counted from the first; an axis that contradicts the value's type is refused. */
static keel_status check_axis(const keel_splitter *s, const keel_sharding *at,
                              uint32_t *out_axis) {
  /* of the whole: the function may have the rank's part */
  const keel_type *type =
      at->value < s->count ? s->values[at->value].type : NULL;
  *out_axis = KEEL_ABSENT;
  if (!type) return KD_OK;
  int64_t rank = type->rank;
  if (at->axis < -rank || at->axis >= rank)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "node \"%s\" splits \"%.100s\" along axis %lld, and it has"
                     " %lld axes",
                     at->node, at->name, (long long)at->axis, (long long)rank);
  *out_axis = (uint32_t)(at->axis < 0 ? at->axis + rank : at->axis);
  int64_t dim = type->dims[*out_axis];
  if (at->dim >= 0 && dim >= 0 && at->dim != dim)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "node \"%s\" declares \"%.100s\" with %lld elements along "
                     "axis %lld, and it has %lld",
                     at->node, at->name, (long long)at->dim,
                     (long long)at->axis, (long long)dim);
  return KD_OK;
}

static bool is_unpacking(const keel_node *node) {
  return node->op && !strcmp(node->op->schema->name, "DequantizeLinear") &&
         node->inputs[0] != KEEL_ABSENT && node->outputs[0] != KEEL_ABSENT;
}

/* An annotation of weights in few bits applies to the unpacked weights. */
static void annotated_pass_on(keel_splitter *s) {
  for (uint32_t i = 0; i < s->were_count; i++) {
    const keel_node *node = &s->were[i];
    if (!is_unpacking(node)) continue;
    keel_shared *to = &s->values[node->outputs[0]];
    if (to->wanted == KEEL_ABSENT)
      to->wanted = s->values[node->inputs[0]].wanted;
  }
}

static keel_status seed_inputs(keel_splitter *s) {
  keel_function *f = s->function;
  for (uint32_t i = 0; i < f->input_count; i++) {
    uint32_t value = f->inputs[i];
    if (value < s->count && s->values[value].wanted != KEEL_ABSENT)
      KEEL_TRY(keel_split_slice_input(s, i, s->values[value].wanted));
  }
  return KD_OK;
}

keel_status keel_split_seed(keel_splitter *s) {
  for (uint32_t i = 0; i < s->annotations->sharding_count; i++) {
    const keel_sharding *at = &s->annotations->shardings[i];
    keel_shared *value = &s->values[at->value];
    uint32_t axis = KEEL_ABSENT;
    KEEL_TRY(check_axis(s, at, &axis));
    if (at->plain && value->wanted == KEEL_ABSENT &&
        keel_split_can_be_part(value->type) &&
        keel_split_divides(s, value->type->dims[axis]))
      value->wanted = axis;
  }
  annotated_pass_on(s);
  return seed_inputs(s);
}

/* Whether the rank has a part of it along the axis. */
static bool has_part(const keel_shared *at, uint32_t axis) {
  return (at->part != KEEL_ABSENT && at->part_axis == axis) ||
         (at->share == KEEL_SHARE_PART && at->axis == axis);
}

keel_status keel_split_count_followed(keel_splitter *s) {
  const keel_configuration *all = s->annotations;
  for (uint32_t i = 0; i < s->were_count; i++) {
    const keel_node *node = &s->were[i];
    if (!is_unpacking(node)) continue;
    const keel_shared *to = &s->values[node->outputs[0]];
    keel_shared *packed = &s->values[node->inputs[0]];
    if (packed->part != KEEL_ABSENT) continue;
    packed->part = to->part;
    packed->part_axis = to->part_axis;
  }
  s->facts.annotations = all->sharding_count + all->stage_count;
  for (uint32_t i = 0; i < all->sharding_count; i++) {
    uint32_t axis = KEEL_ABSENT;
    KEEL_TRY(check_axis(s, &all->shardings[i], &axis));
    s->facts.followed += all->shardings[i].plain &&
                         has_part(&s->values[all->shardings[i].value], axis);
  }
  return KD_OK;
}

/* ---- stages ------------------------------------------------------------------------------- */

#define NOT_SAID (KEEL_SPLIT_ANY_STAGE - 1)

static const char *annotated_name_of(const keel_function *f, uint32_t node) {
  const keel_node *at = &f->nodes[node];
  return at->name && *at->name ? at->name : f->values[at->outputs[0]].name;
}

/* Nodes without an annotation come from another node, or take a micro-batch: they are in the stage
 * of their first reader. least: by value, of its readers. */
static void fill_stages(const keel_function *f, uint32_t size, uint32_t *least,
                        uint32_t *stages) {
  for (uint32_t i = f->node_count; i-- > 0;) {
    const keel_node *node = &f->nodes[i];
    if (stages[i] == KEEL_SPLIT_ANY_STAGE) continue;
    for (uint32_t k = 0; k < node->output_count && stages[i] >= size; k++)
      if (node->outputs[k] != KEEL_ABSENT && least[node->outputs[k]] < size)
        stages[i] = least[node->outputs[k]];
    if (stages[i] >= size) stages[i] = size - 1;
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t value = node->inputs[k];
      if (value != KEEL_ABSENT && stages[i] < least[value])
        least[value] = stages[i];
    }
  }
}

/* Values that a node reads from another stage come from an earlier one, and have known sizes. */
static keel_status check_reads(const keel_function *f, const uint32_t *stages,
                               uint32_t node) {
  for (uint32_t k = 0; k < f->nodes[node].input_count; k++) {
    uint32_t value = f->nodes[node].inputs[k];
    uint32_t from =
        value == KEEL_ABSENT ? KEEL_ABSENT : f->values[value].producer;
    if (from == KEEL_ABSENT || f->values[value].constant ||
        stages[from] == KEEL_SPLIT_ANY_STAGE || stages[from] == stages[node])
      continue;
    const keel_type *type = f->values[value].type;
    if (stages[from] > stages[node])
      return keel_fail(
          KD_INVALID_ARGUMENT,
          "node \"%s\" of stage %u reads an output of node \"%s\" of stage %u",
          annotated_name_of(f, node), (unsigned)stages[node],
          annotated_name_of(f, from), (unsigned)stages[from]);
    if (!type || !keel_type_known(type) || !kd_dtype_size(type->dtype))
      return keel_fail(
          KD_INVALID_ARGUMENT,
          "node \"%s\" of stage %u reads an output of node \"%s\" of stage %u, "
          "whose shape is not known (--dim gives open dimensions a size)",
          annotated_name_of(f, node), (unsigned)stages[node],
          annotated_name_of(f, from), (unsigned)stages[from]);
  }
  return KD_OK;
}

static void find_shares(const keel_function *f, uint32_t size,
                        const keel_split_speed *speeds, const uint32_t *stages,
                        double *out_shares) {
  double all = 0;
  for (uint32_t i = 0; i < f->node_count; i++) {
    if (stages[i] == KEEL_SPLIT_ANY_STAGE) continue;
    double time =
        keel_split_time(f, &f->nodes[i], speeds ? &speeds[stages[i]] : NULL);
    out_shares[stages[i]] += time;
    all += time;
  }
  for (uint32_t i = 0; i < size && all > 0; i++)
    out_shares[i] /= all;
}

keel_status keel_split_given_stages(const keel_function *f, uint32_t size,
                                    const keel_split_speed *speeds,
                                    const keel_configuration *given,
                                    uint32_t *out_stages, double *out_shares) {
  size_t n = (size_t)f->value_count + 1;
  KEEL_TRY(keel_split_find_constants(f, out_stages));
  for (uint32_t i = 0; i < f->node_count; i++)
    if (out_stages[i] != KEEL_SPLIT_ANY_STAGE) out_stages[i] = NOT_SAID;
  for (uint32_t i = 0; i < given->stage_count; i++) {
    uint32_t value = given->stages[i].value;
    uint32_t from =
        value < f->value_count ? f->values[value].producer : KEEL_ABSENT;
    if (from < f->node_count && out_stages[from] != KEEL_SPLIT_ANY_STAGE)
      out_stages[from] = given->stages[i].stage;
  }
  uint32_t *least = malloc(n * sizeof *least);
  if (!least) return keel_no_memory(n * sizeof *least);
  for (size_t i = 0; i < n; i++)
    least[i] = NOT_SAID;
  fill_stages(f, size, least, out_stages);
  free(least);
  for (uint32_t i = 0; i < f->node_count; i++)
    if (out_stages[i] != KEEL_SPLIT_ANY_STAGE)
      KEEL_TRY(check_reads(f, out_stages, i));
  find_shares(f, size, speeds, out_stages, out_shares);
  return KD_OK;
}
