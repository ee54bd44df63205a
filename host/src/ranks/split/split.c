/* split.c - rewrites a function for one rank: node by node, by the rules of rules.c and the other
 * files, and brings values into the form that a rule needs. */
#include "ranks/split/split.h"

#include "base/params.h"
#include "base/refs.h"
#include "device/device.h"
#include "memory/access.h"
#include "opsets/onnx/passes.h"
#include "program/sizes.h"

/* ---- new values and nodes ----------------------------------------------------------------- */

keel_status keel_split_add(keel_splitter *s, const char *op,
                           const keel_attr *attrs, uint32_t attr_count,
                           const uint32_t *inputs, uint32_t input_count,
                           uint32_t *out_value) {
  keel_emit e = keel_emit_for(s->function, &s->node);
  keel_emit_node(&e, op, attrs, attr_count, inputs, input_count, out_value, 1);
  return e.status;
}

keel_status keel_split_add_constant(keel_splitter *s, keel_tensor *tensor,
                                    uint32_t *out_value) {
  *out_value = keel_function_constant(s->function, "", tensor);
  keel_tensor_release(tensor);
  return *out_value == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
}

keel_status keel_split_ints(keel_splitter *s, const int64_t *list,
                            int64_t count, uint32_t *out_value) {
  keel_emit e = keel_emit_for(s->function, &s->node);
  *out_value = keel_emit_ints(&e, list, count);
  return e.status;
}

keel_status keel_split_member(keel_function *f, uint32_t *member) {
  const keel_port port = {.name = "keel.member",
                          .rank = KEEL_RANK_UNKNOWN,
                          .flags = KEEL_PORT_RESOURCE};
  if (*member != KEEL_ABSENT) return KD_OK;
  *member = keel_function_value(f, port.name);
  return *member == KEEL_ABSENT ? KD_OUT_OF_MEMORY
                                : keel_function_input(f, *member, &port);
}

keel_status keel_split_exchange(keel_splitter *s, const char *op,
                                uint32_t value, uint32_t *out_value) {
  const keel_attr size = KEEL_INT("size", s->params->size);
  if (s->apart) {
    const char *name = s->node.name ? s->node.name : "";
    s->meets = true;
    return keel_fail(KD_UNIMPLEMENTED, "%s%s%s%s needs all of the batch",
                     s->node.op->schema->name, *name ? " \"" : "", name,
                     *name ? "\"" : "");
  }
  KEEL_TRY(keel_split_member(s->function, &s->member));
  const uint32_t inputs[] = {s->member, value};
  char name[64];
  snprintf(name, sizeof name, "keel::%s", op);
  s->facts.exchanges++;
  return keel_split_add(s, name, &size, 1, inputs, 2, out_value);
}

/* ---- wholes and parts ------------------------------------------------------------------------ */

/* A Transpose in which an axis and the first one change places. */
static keel_status split_transpose(keel_splitter *s, uint32_t value,
                                   uint32_t rank, uint32_t axis,
                                   uint32_t *out_value) {
  int64_t perm[KD_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++)
    perm[i] = i;
  perm[0] = axis;
  perm[axis] = 0;
  keel_emit e = keel_emit_for(s->function, &s->node);
  *out_value = keel_emit_transpose(&e, value, perm, rank);
  return e.status;
}

static keel_status split_gather(keel_splitter *s, uint32_t value, uint32_t axis,
                                uint32_t rank, uint32_t *out_value) {
  uint32_t transposed = value, joined = KEEL_ABSENT;
  if (axis) KEEL_TRY(split_transpose(s, value, rank, axis, &transposed));
  KEEL_TRY(keel_split_exchange(s, "AllGather", transposed, &joined));
  if (axis) return split_transpose(s, joined, rank, axis, out_value);
  *out_value = joined;
  return KD_OK;
}

/* ---- computed again -------------------------------------------------------------------------- */

/* The limits of work that is cheaper than an exchange: so many nodes with few elements. */
#define AGAIN_NODES    24
#define AGAIN_ELEMENTS 262144
#define AGAIN_INPUTS   8
#define AGAIN_WEIGHTS  16384 /* elements: each rank shall have a part of more */

static bool split_is_product(const keel_node *node) {
  const char *name = node->op->schema->name;
  return strstr(name, "MatMul") || strstr(name, "Conv") ||
         strstr(name, "Attention") || strstr(name, "Gemm") ||
         !strcmp(name, "Einsum");
}

/* The node that made a value, as it was; NULL: there was none. */
static const keel_node *split_maker(const keel_splitter *s, uint32_t value) {
  uint32_t from = s->function->values[value].producer;
  return from < s->were_count && s->were[from].op ? &s->were[from] : NULL;
}

/* Whether a value can be had as a whole from those that are, by few light nodes. *nodes: those
 * that are left. */
static bool is_light(const keel_splitter *s, uint32_t value, uint32_t *nodes) {
  const keel_shared *at = &s->values[value];
  const keel_node *node = split_maker(s, value);
  if (at->share == KEEL_SHARE_WHOLE || at->whole != KEEL_ABSENT) return true;
  if (!node || !*nodes || node->output_count != 1 ||
      node->input_count > AGAIN_INPUTS || !at->type ||
      at->type->elements > AGAIN_ELEMENTS ||
      keel_node_has(node, KEEL_OP_CONTROL | KEEL_OP_RANDOM | KEEL_OP_STATE) ||
      split_is_product(node))
    return false;
  --*nodes;
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == KEEL_ABSENT) continue;
    const keel_tensor *weight = s->function->values[node->inputs[i]].constant;
    bool large =
        weight && weight->type && weight->type->elements > AGAIN_WEIGHTS;
    if (large || !is_light(s, node->inputs[i], nodes)) return false;
  }
  return true;
}

/* The node once more, with wholes. */
static keel_status compute_again(keel_splitter *s, uint32_t value) {
  const keel_node *node = split_maker(s, value);
  keel_shared *at = &s->values[value];
  keel_node *made = NULL;
  uint32_t inputs[AGAIN_INPUTS];
  if (at->share == KEEL_SHARE_WHOLE || at->whole != KEEL_ABSENT) return KD_OK;
  for (uint32_t i = 0; i < node->input_count; i++) {
    inputs[i] = node->inputs[i];
    if (inputs[i] == KEEL_ABSENT) continue;
    KEEL_TRY(compute_again(s, inputs[i]));
    if (s->values[inputs[i]].share != KEEL_SHARE_WHOLE)
      inputs[i] = s->values[inputs[i]].whole;
  }
  at->whole = keel_function_value(s->function, "");
  if (at->whole == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  KEEL_TRY(keel_function_node(s->function, keel_opdef_retain(node->op),
                              node->name, inputs, node->input_count, &at->whole,
                              1, &made));
  made->device = node->device;
  return keel_function_infer(s->function, made);
}

/* A value of the function as it was, as a whole. */
static keel_status whole_of(keel_splitter *s, uint32_t value,
                            uint32_t *out_value) {
  keel_shared *at = &s->values[value];
  uint32_t nodes = AGAIN_NODES;
  KEEL_TRY(keel_split_copy_now(s, value));
  if (at->share == KEEL_SHARE_WHOLE) at->whole = value;
  if (at->whole == KEEL_ABSENT && at->share == KEEL_SHARE_PART &&
      is_light(s, value, &nodes))
    KEEL_TRY(compute_again(s, value));
  if (at->whole == KEEL_ABSENT)
    KEEL_TRY(
        at->share == KEEL_SHARE_SUM
            ? keel_split_exchange(s, "AllReduce", value, &at->whole)
            : split_gather(s, value, at->axis, at->type->rank, &at->whole));
  *out_value = at->whole;
  return KD_OK;
}

/* A Slice of a value that every rank has. out_value as in keel_split_add. */
static keel_status slice(keel_splitter *s, uint32_t whole, int64_t dim,
                         uint32_t axis, uint32_t *out_value) {
  int64_t each = dim / s->params->size, from = each * s->params->rank;
  const int64_t lists[] = {from, from + each, axis};
  uint32_t inputs[4] = {whole};
  for (int i = 0; i < 3; i++)
    KEEL_TRY(keel_split_ints(s, &lists[i], 1, &inputs[i + 1]));
  return keel_split_add(s, "Slice", NULL, 0, inputs, 4, out_value);
}

/* The rank's part along an axis, which the ranks can share. */
static keel_status part_of(keel_splitter *s, uint32_t value, uint32_t axis,
                           uint32_t *out_value) {
  keel_shared *at = &s->values[value];
  uint32_t whole = KEEL_ABSENT;
  if (at->share == KEEL_SHARE_PART && at->axis == axis) {
    *out_value = value;
    return KD_OK;
  }
  if (at->part == KEEL_ABSENT || at->part_axis != axis) {
    bool cut = false;
    KEEL_TRY(keel_split_cut_weights(s, value, axis, &at->part, &cut));
    if (!cut) {
      KEEL_TRY(whole_of(s, value, &whole));
      at->part = KEEL_ABSENT;
      KEEL_TRY(slice(s, whole, at->type->dims[axis], axis, &at->part));
    }
    at->part_axis = axis;
  }
  *out_value = at->part;
  return KD_OK;
}

/* ---- for rules --------------------------------------------------------------------------------- */

static uint32_t input_of(const keel_splitter *s, uint32_t input) {
  return input < s->node.input_count ? s->node.inputs[input] : KEEL_ABSENT;
}

static const keel_shared *shared_of(const keel_splitter *s, uint32_t input) {
  uint32_t value = input_of(s, input);
  return value < s->count ? &s->values[value] : NULL;
}

bool keel_split_has(const keel_splitter *s, uint32_t input) {
  return input_of(s, input) != KEEL_ABSENT;
}

const keel_type *keel_split_type(const keel_splitter *s, uint32_t input) {
  const keel_shared *at = shared_of(s, input);
  return at ? at->type : NULL;
}

const keel_type *keel_split_out_type(const keel_splitter *s, uint32_t output) {
  uint32_t value =
      output < s->node.output_count ? s->node.outputs[output] : KEEL_ABSENT;
  return value < s->count ? s->values[value].type : NULL;
}

const keel_tensor *keel_split_constant(const keel_splitter *s, uint32_t input) {
  uint32_t value = input_of(s, input);
  const keel_tensor *constant =
      value < s->count ? s->function->values[value].constant : NULL;
  /* folded values may be in a device's memory, where the host reads them */
  return constant && constant->kind == KEEL_DATA &&
                 constant->layout == KD_LAYOUT_ROW_MAJOR &&
                 (!constant->type->bytes || keel_tensor_host_data(constant))
             ? constant
             : NULL;
}

bool keel_split_is_weight(const keel_splitter *s, uint32_t input) {
  uint32_t value = input_of(s, input);
  return keel_split_constant(s, input) ||
         (value < s->count && keel_split_makes_weights(s, value));
}

bool keel_split_is_part(const keel_splitter *s, uint32_t input,
                        uint32_t *out_axis) {
  const keel_shared *at = shared_of(s, input);
  if (!at || at->share != KEEL_SHARE_PART) return false;
  *out_axis = at->axis;
  return true;
}

bool keel_split_is_sum(const keel_splitter *s, uint32_t input) {
  const keel_shared *at = shared_of(s, input);
  return at && at->share == KEEL_SHARE_SUM;
}

bool keel_split_divides(const keel_splitter *s, int64_t dim) {
  return dim > 0 && dim % s->params->size == 0;
}

void keel_split_take(keel_splitter *s, uint32_t input, uint32_t value) {
  s->function->nodes[s->index].inputs[input] = value;
}

keel_status keel_split_take_whole(keel_splitter *s, uint32_t input) {
  uint32_t value = input_of(s, input);
  if (value >= s->count) return KD_OK;
  KEEL_TRY(whole_of(s, value, &value));
  keel_split_take(s, input, value);
  return KD_OK;
}

keel_status keel_split_take_part(keel_splitter *s, uint32_t input,
                                 uint32_t axis) {
  uint32_t value = input_of(s, input);
  if (value >= s->count) return KD_OK;
  KEEL_TRY(part_of(s, value, axis, &value));
  keel_split_take(s, input, value);
  return KD_OK;
}

keel_status keel_split_take_once(keel_splitter *s, uint32_t input) {
  const keel_type *type = keel_split_type(s, input);
  keel_tensor *zeros = NULL;
  uint32_t value = KEEL_ABSENT;
  if (!type || !s->params->rank) return keel_split_take_whole(s, input);
  KEEL_TRY(keel_tensor_create(s->function->context, type->dtype, type->rank,
                              type->dims, NULL, &zeros));
  KEEL_TRY(keel_split_add_constant(s, zeros, &value));
  keel_split_take(s, input, value);
  return KD_OK;
}

/* The type of the rank's shard; NULL: not known. */
static keel_status local_type(const keel_splitter *s, const keel_shared *at,
                              const keel_type **out_type) {
  int64_t dims[KD_MAX_RANK];
  *out_type = at->type;
  if (!at->type || at->share != KEEL_SHARE_PART) return KD_OK;
  memcpy(dims, at->type->dims, at->type->rank * sizeof *dims);
  dims[at->axis] /= s->params->size;
  return keel_type_of(at->type->dtype, at->type->rank, dims, out_type);
}

keel_status keel_split_give(keel_splitter *s, uint32_t output, keel_share share,
                            uint32_t axis) {
  uint32_t value =
      output < s->node.output_count ? s->node.outputs[output] : KEEL_ABSENT;
  if (value >= s->count) return KD_OK;
  keel_shared *at = &s->values[value];
  at->share = share;
  at->axis = axis;
  return local_type(s, at, &s->function->values[value].type);
}

keel_status keel_split_set_int(keel_splitter *s, const char *name,
                               int64_t value) {
  const keel_opdef *op = s->function->nodes[s->index].op;
  keel_attr attrs[40];
  keel_opdef *made = NULL;
  uint32_t count = 0;
  if (op->attr_count >= KEEL_COUNT_OF(attrs))
    return keel_fail(KD_INTERNAL, "%s has too many attributes",
                     op->schema->name);
  for (uint32_t i = 0; i < op->attr_count; i++)
    if (strcmp(op->attrs[i].value.name, name) != 0)
      attrs[count++] = op->attrs[i].value;
  attrs[count++] = (keel_attr)KEEL_INT(name, value);
  KEEL_TRY(
      keel_opdef_create(op->context, op->schema, attrs, count, NULL, &made));
  keel_opdef_release(s->function->nodes[s->index].op);
  s->function->nodes[s->index].op = made;
  return KD_OK;
}

/* ---- the function ----------------------------------------------------------------------------- */

bool keel_split_can_be_part(const keel_type *type) {
  return type && (KD_TYPES(type->dtype) &
                  (KD_TYPES_PLAIN | KD_TYPES(KD_C64) | KD_TYPES(KD_C128)));
}

/* Every rank computes it, from whole values. */
static keel_status compute_whole(keel_splitter *s) {
  for (uint32_t i = 0; i < s->node.input_count; i++)
    KEEL_TRY(keel_split_take_whole(s, i));
  return KD_OK;
}

/* Rank 0's output, which all get. */
static keel_status give_to_all(keel_splitter *s, uint32_t *output) {
  keel_function *f = s->function;
  uint32_t value = *output, own = keel_function_value(f, "");
  if (own == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  f->values[own].type = f->values[value].type;
  f->values[own].producer = s->index;
  *output = own;
  return keel_split_exchange(s, "Broadcast", own, &value);
}

/* Random values differ on each rank. */
static keel_status compute_once(keel_splitter *s) {
  keel_node *node = &s->function->nodes[s->index];
  uint32_t count = node->output_count;
  uint32_t *outputs = keel_arena_copy_bytes(s->function->arena, node->outputs,
                                            count * sizeof *outputs);
  if (!outputs) return KD_OUT_OF_MEMORY;
  KEEL_TRY(compute_whole(s));
  for (uint32_t i = 0; i < count; i++)
    if (outputs[i] != KEEL_ABSENT) KEEL_TRY(give_to_all(s, &outputs[i]));
  /* an exchange may have moved the nodes */
  s->function->nodes[s->index].outputs = outputs;
  return KD_OK;
}

static bool outputs_known(const keel_splitter *s) {
  for (uint32_t i = 0; i < s->node.output_count; i++)
    if (s->node.outputs[i] != KEEL_ABSENT &&
        !keel_split_can_be_part(keel_split_out_type(s, i)))
      return false;
  return true;
}

static keel_status split_visit(keel_splitter *s, uint32_t index) {
  bool done = false;
  s->index = index;
  /* a rule changes inputs one by one, and looks at all of them */
  s->node = s->were[index];
  if (keel_node_is_random(s->function, &s->node) ||
      keel_node_has(&s->node, KEEL_OP_RANDOM))
    return compute_once(s);
  keel_split_rule rule = keel_split_rule_of(&s->node);
  if (rule && outputs_known(s)) KEEL_TRY(rule(s, &done));
  return done ? KD_OK : compute_whole(s);
}

static void begin_values(keel_splitter *s) {
  for (uint32_t i = 0; i < s->count; i++) {
    const keel_type *type = s->function->values[i].type;
    s->values[i] =
        (keel_shared){.type = type && keel_type_known(type) ? type : NULL,
                      .whole = KEEL_ABSENT,
                      .part = KEEL_ABSENT,
                      .wanted = KEEL_ABSENT};
    if (type && (s->function->values[i].constant || keel_split_is_later(s, i)))
      s->facts.weights += type->bytes;
  }
}

keel_status keel_split_slice_input(keel_splitter *s, uint32_t input,
                                   uint32_t axis) {
  keel_function *f = s->function;
  uint32_t part = f->inputs[input];
  uint32_t whole = keel_function_value(f, f->values[part].name);
  if (whole == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  keel_shared *at = &s->values[part];
  f->values[whole].type = at->type;
  f->inputs[input] = whole;
  at->share = KEEL_SHARE_PART;
  at->axis = axis;
  if (!s->shards_alone) at->whole = whole;
  KEEL_TRY(local_type(s, at, &f->values[part].type));
  return slice(s, whole, at->type->dims[axis], axis, &part);
}

/* The first dimension of the first input that has any. */
int64_t keel_split_batch_of(const keel_function *f) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    const keel_type *type = f->values[f->inputs[i]].type;
    if (f->input_ports[i].flags & KEEL_PORT_RESOURCE) continue;
    if (type && keel_type_known(type) && !type->rank) continue;
    return type && keel_type_known(type) ? type->dims[0] : -1;
  }
  return -1;
}

/* Inputs of the batch: each rank takes its part of them. */
static keel_status seed_batch(keel_splitter *s) {
  keel_function *f = s->function;
  int64_t batch = -1;
  for (uint32_t i = 0; i < f->input_count; i++) {
    uint32_t value = f->inputs[i];
    const keel_type *type = value < s->count ? s->values[value].type : NULL;
    if (value == s->member || (f->input_ports[i].flags & KEEL_PORT_RESOURCE))
      continue;
    if (type && !type->rank) continue; /* a number for all */
    if (!type) {
      if (batch >= 0) continue;
      return keel_fail(KD_INVALID_ARGUMENT,
                       "the batch of input \"%s\" is not known, and so can't be"
                       " shared among ranks; give its size (--dim)",
                       f->input_ports[i].name);
    }
    if (batch < 0) batch = type->dims[0];
    if (type->dims[0] != batch || !keel_split_can_be_part(type))
      continue; /* it is not a batch, or stays whole */
    if (!keel_split_divides(s, batch))
      return keel_fail(KD_INVALID_ARGUMENT,
                       "input \"%s\" has a batch of %lld, which %u ranks can't"
                       " share evenly",
                       f->input_ports[i].name, (long long)batch,
                       (unsigned)s->params->size);
    KEEL_TRY(keel_split_slice_input(s, i, 0));
  }
  return KD_OK;
}

static keel_status split_finish(keel_splitter *s) {
  keel_function *f = s->function;
  for (uint32_t i = 0; i < f->output_count && !s->apart; i++) {
    if (f->outputs[i] >= s->count) continue;
    /* exchanges have the name of the node that they are for */
    uint32_t from = f->values[f->outputs[i]].producer;
    s->node = from == KEEL_ABSENT ? (keel_node){0} : f->nodes[from];
    KEEL_TRY(whole_of(s, f->outputs[i], &f->outputs[i]));
  }
  KEEL_TRY(keel_function_sort(f));
  KEEL_TRY(keel_pass_prune(f));
  for (uint32_t i = 0; i < f->value_count; i++)
    if (f->values[i].producer != KEEL_ABSENT && !f->values[i].constant)
      f->values[i].type = NULL;
  return keel_function_types(f);
}

keel_status keel_split_drop_constants(keel_function *f, uint64_t *out_bytes) {
  keel_uses uses;
  *out_bytes = 0;
  keel_status status = keel_uses_count(f, &uses);
  for (uint32_t i = 0; i < f->value_count && status == KD_OK; i++) {
    keel_tensor *constant = f->values[i].constant;
    if (!constant) continue;
    if (uses.counts[i]) {
      *out_bytes += constant->type ? constant->type->bytes : 0;
    } else {
      keel_tensor_release(constant);
      f->values[i].constant = NULL;
    }
  }
  keel_uses_drop(&uses);
  return status;
}

/* Nodes as they are now; their ops are retained. */
static keel_status remember(keel_splitter *s) {
  keel_function *f = s->function;
  s->were = calloc((size_t)f->node_count + 1, sizeof *s->were);
  if (!s->were) return keel_no_memory(f->node_count * sizeof *s->were);
  s->were_count = f->node_count;
  for (uint32_t i = 0; i < f->node_count; i++) {
    keel_node *at = &s->were[i];
    if (f->nodes[i].dead) continue;
    *at = f->nodes[i];
    at->inputs = keel_arena_take(
        f->arena, (at->input_count + (size_t)1) * sizeof *at->inputs);
    at->op = at->inputs ? keel_opdef_retain(at->op) : NULL;
    if (!at->inputs) return KD_OUT_OF_MEMORY;
    if (at->input_count)
      memcpy(at->inputs, f->nodes[i].inputs,
             at->input_count * sizeof *at->inputs);
  }
  return KD_OK;
}

static void drop_splitter(keel_splitter *s) {
  for (uint32_t i = 0; i < s->were_count; i++)
    if (s->were[i].op) keel_opdef_release(s->were[i].op);
  for (keel_split_later *at = s->later; at; at = at->next)
    keel_tensor_release(at->whole);
  free(s->were);
  free(s->values);
}

static keel_status split_it(keel_splitter *s) {
  keel_function *f = s->function;
  uint32_t nodes = f->node_count;
  s->count = f->value_count;
  s->values = calloc((size_t)s->count + 1, sizeof *s->values);
  if (!s->values) return keel_no_memory(s->count * sizeof *s->values);
  KEEL_TRY(remember(s));
  begin_values(s);
  if (s->params->kind == KEEL_SPLIT_DATA) KEEL_TRY(seed_batch(s));
  if (s->annotations) KEEL_TRY(keel_split_seed(s));
  for (uint32_t i = 0; i < nodes; i++)
    if (!f->nodes[i].dead) KEEL_TRY(split_visit(s, i));
  if (s->annotations) KEEL_TRY(keel_split_count_followed(s));
  KEEL_TRY(split_finish(s));
  return keel_split_drop_constants(f, &s->facts.weights_here);
}

keel_status keel_split_batch(keel_function *function,
                             const keel_split_params *params, bool shards_alone,
                             keel_split_piece *out_pieces, bool *out_meets) {
  keel_splitter s = {.function = function,
                     .params = params,
                     .member = KEEL_ABSENT,
                     .apart = true,
                     .shards_alone = shards_alone};
  uint32_t n = function->output_count;
  uint32_t *outputs = malloc(((size_t)n + 1) * sizeof *outputs);
  if (!outputs) return keel_no_memory(n * sizeof *outputs);
  if (n) memcpy(outputs, function->outputs, n * sizeof *outputs);
  keel_status status = split_it(&s);
  for (uint32_t i = 0; i < n && status == KD_OK; i++) {
    const keel_shared *at = &s.values[outputs[i]];
    out_pieces[i] = (keel_split_piece){at->share == KEEL_SHARE_PART, at->axis};
    s.meets |= at->share == KEEL_SHARE_SUM;
  }
  *out_meets = s.meets;
  free(outputs);
  drop_splitter(&s);
  return status;
}

/* ---- the program ---------------------------------------------------------------------------- */

static keel_status split_check(const keel_program *program,
                               const keel_split_params *params) {
  if (params->kind > KEEL_SPLIT_ANNOTATED || !params->size ||
      params->rank >= params->size)
    return keel_fail(
        KD_INVALID_ARGUMENT, "a split of kind %u for rank %u of %u",
        (unsigned)params->kind, (unsigned)params->rank, (unsigned)params->size);
  if (program->device)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "the program was compiled for %s, and can't be split",
                     program->device->name);
  const keel_function *f = program->main;
  for (uint32_t i = 0; i < f->input_count; i++)
    if (!strcmp(f->input_ports[i].name, "keel.member"))
      return keel_fail(KD_FAILED_PRECONDITION,
                       "the program exchanges values already");
  return KD_OK;
}

/* Gives open dimensions of inputs their sizes. */
static keel_status fix_sizes(keel_function *f,
                             const keel_split_params *params) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    keel_port *port = &f->input_ports[i];
    bool fixed = false;
    if (!params->size_of || port->rank == KEEL_RANK_UNKNOWN || !port->rank)
      continue;
    int64_t dims[16];
    if (port->rank > 16) continue;
    for (uint32_t d = 0; d < port->rank; d++) {
      dims[d] = port->dims[d];
      if (dims[d] < 0) {
        dims[d] = params->size_of(params->size_context, port->name, d,
                                  port->symbols ? port->symbols[d] : NULL);
        fixed |= dims[d] >= 0;
      }
    }
    if (fixed) KEEL_TRY(keel_function_fix(f, i, dims));
  }
  return KD_OK;
}

static keel_status split_prepare(keel_program *to,
                                 const keel_split_params *params) {
  const keel_plan_params none = {.struct_size = sizeof none};
  const keel_pass_call call = {
      .params = &none,
      .main = to->main,
      .sizes_only = true}; /* weights in few bits stay as they are */
  KEEL_TRY(fix_sizes(to->main, params));
  /* its tables, of which each rank shall have a part */
  KEEL_TRY(
      keel_expand_all_of(to->main, "com.microsoft", "EmbedLayerNormalization"));
  KEEL_TRY(keel_function_sort(to->main));
  KEEL_TRY(keel_function_types(to->main));
  /* sizes that a model computes become constants */
  KEEL_TRY(keel_pass_fold(to->functions, &call));
  return keel_pass_prune(to->main);
}

keel_status keel_split_copy(keel_program *to, const keel_program *from,
                            const keel_split_params *params) {
  KEEL_TRY(
      keel_function_clone(from->main, &to->arena, &to->functions, &to->main));
  return split_prepare(to, params);
}

static keel_status split_fill(keel_program *to, const keel_program *from,
                              const keel_split_params *params,
                              const keel_configuration *annotations,
                              keel_split_facts *out_facts) {
  keel_splitter s = {
      .params = params, .annotations = annotations, .member = KEEL_ABSENT};
  uint64_t bytes = 0;
  KEEL_TRY(keel_split_copy(to, from, params));
  s.function = to->main;
  keel_status status = KD_OK;
  if (params->kind == KEEL_SPLIT_TENSOR) status = keel_split_columns(&s);
  if (status == KD_OK) status = keel_pass_prune(to->main);
  /* constants that were folded, or are in several products now, are not weights */
  if (status == KD_OK) status = keel_split_drop_constants(to->main, &bytes);
  if (status == KD_OK) status = split_it(&s);
  drop_splitter(&s);
  *out_facts = s.facts;
  return status;
}

/* Values that are only needed meanwhile are in a program of their own. */
static keel_status fill_pipe(keel_program *to, const keel_program *from,
                             const keel_split_params *params,
                             const keel_configuration *given,
                             keel_split_facts *out_facts) {
  keel_program *draft = NULL;
  KEEL_TRY(keel_program_create(from->context, &draft));
  keel_status status = keel_split_copy(draft, from, params);
  if (status == KD_OK)
    status = keel_split_pipe(to, draft, params, given, out_facts);
  keel_program_release(draft);
  return status;
}

keel_status keel_program_split(const keel_program *program,
                               const keel_split_params *given,
                               keel_program **out_program,
                               keel_split_facts *out_facts) {
  keel_split_params all;
  const keel_split_params *params = &all;
  keel_program *made = NULL;
  keel_split_facts facts = {0};
  const keel_configuration *own = NULL;
  *out_program = NULL;
  KEEL_TRY(KEEL_READ_PARAMS(keel_split_params, given,
                            offsetof(keel_split_params, size_of), &all));
  KEEL_TRY(split_check(program, params));
  if (params->kind == KEEL_SPLIT_ANNOTATED)
    KEEL_TRY(
        keel_split_configuration(&program->annotations, params->size, &own));
  bool staged = own && keel_split_is_staged(&program->annotations, own);
  KEEL_TRY(keel_program_create(program->context, &made));
  keel_status status = params->kind == KEEL_SPLIT_PIPE || staged
                           ? fill_pipe(made, program, params, own, &facts)
                           : split_fill(made, program, params, own, &facts);
  if (staged) facts.annotations = facts.followed = own->stage_count;
  if (out_facts) *out_facts = facts;
  if (status == KD_OK)
    *out_program = made;
  else
    keel_program_release(made);
  return status;
}
