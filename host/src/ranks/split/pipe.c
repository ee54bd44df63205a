/* pipe.c - one rank's stage of a pipe. The program is written once for each micro-batch; of each,
 * the rank keeps the nodes of its stage, receives the values that these read from other stages, and
 * sends the values that those read from it. The stage of an output sends it to all. */
#include "ranks/split/split.h"

#include <kd/help.h>

#include "passes/passes.h"

#define PARTS_EACH 4 /* of the batch, for each stage */

typedef struct piper {
  keel_function *to;
  const keel_split_params *params;
  const keel_configuration *given; /* stages that are, or NULL */
  keel_split_facts *facts;
  uint32_t parts;
  uint32_t *stages;         /* by node of one part */
  uint32_t each;            /* nodes of a part */
  keel_split_piece *pieces; /* by output */
  uint32_t *outputs;        /* of `to`, by part and output */
  uint32_t member;          /* the handle, or KEEL_ABSENT */
  uint32_t written; /* nodes of all parts; those behind it are exchanges */
} piper;

/* Where a node that is added belongs: in front of all, behind a part's own, or behind all. */
typedef struct place {
  uint64_t key;
  uint32_t node;
} place;

/* ---- parts of the batch ---------------------------------------------------------------- */

/* State is kept by one program; random numbers of parts are others than those of the whole. */
static keel_status check_nodes(const keel_function *f, bool *out_random) {
  *out_random = false;
  for (uint32_t i = 0; i < f->node_count; i++) {
    const keel_node *node = &f->nodes[i];
    if (node->dead) continue;
    if (keel_node_has_effects(node) || keel_node_has(node, KEEL_OP_MAKES))
      return keel_fail(KD_FAILED_PRECONDITION,
                       "node \"%s\" (%s) keeps a state, which stages of a pipe"
                       " can't share",
                       node->name, node->op->schema->name);
    *out_random |=
        keel_node_is_random(f, node) || keel_node_has(node, KEEL_OP_RANDOM);
  }
  return KD_OK;
}

static keel_status choose_parts(piper *p, const keel_function *whole,
                                bool random) {
  int64_t batch = keel_split_batch_of(whole);
  uint32_t asked = p->params->parts;
  p->parts = asked ? asked : 1;
  if (asked && (batch < 1 || batch % asked))
    return keel_fail(KD_INVALID_ARGUMENT,
                     batch < 1
                         ? "the size of the batch is not known, so it cannot "
                           "be cut into %u micro-batches; give it (--dim)"
                         : "%u micro-batches do not divide the batch of %lld",
                     (unsigned)asked, (long long)batch);
  uint64_t most = (uint64_t)PARTS_EACH * p->params->size;
  if (asked || random || batch < 2) return KD_OK;
  p->parts = most < (uint64_t)batch ? (uint32_t)most : (uint32_t)batch;
  while (batch % p->parts)
    p->parts--;
  return KD_OK;
}

/* The function for one part; NULL in *out: it can't be parted. */
static keel_status make_part(piper *p, keel_program *draft, uint32_t part,
                             keel_function **out) {
  keel_split_params own = *p->params;
  bool meets = false;
  own.kind = KEEL_SPLIT_DATA;
  own.rank = part;
  own.size = p->parts;
  KEEL_TRY(
      keel_function_clone(draft->main, &draft->arena, &draft->functions, out));
  KEEL_TRY(keel_function_types(*out));
  if (p->parts == 1) return KD_OK;
  keel_status status = keel_split_batch(*out, &own, false, p->pieces, &meets);
  if (!meets) return status;
  keel_clear_error();
  *out = NULL;
  return KD_OK;
}

/* One whole, where parts can't be. */
static keel_status make_first(piper *p, keel_program *draft,
                              keel_function **out) {
  KEEL_TRY(make_part(p, draft, 0, out));
  if (*out) return KD_OK;
  if (p->params->parts)
    return keel_fail(
        KD_INVALID_ARGUMENT,
        "the batch can't be cut into %u micro-batches: nodes need all of it",
        (unsigned)p->parts);
  p->parts = 1;
  return make_part(p, draft, 0, out);
}

/* ---- writing them out ------------------------------------------------------------------- */

static keel_status pipe_add_inputs(piper *p, const keel_function *whole,
                                   uint32_t *values) {
  for (uint32_t i = 0; i < whole->input_count; i++) {
    const keel_value_info *info = &whole->values[whole->inputs[i]];
    values[i] = keel_function_value(p->to, info->name);
    if (values[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    p->to->values[values[i]].type = info->type;
    KEEL_TRY(keel_function_input(p->to, values[i], &whole->input_ports[i]));
  }
  return KD_OK;
}

/* Stages are those of the first part's nodes; the others have the same ones. */
static keel_status find_stages(piper *p, const keel_function *first) {
  uint32_t size = p->params->size;
  uint32_t *stages = malloc(((size_t)first->node_count + 1) * sizeof *stages);
  double *shares = calloc(size, sizeof *shares);
  keel_status status =
      stages && shares ? KD_OK : keel_no_memory(size * sizeof *shares);
  if (status == KD_OK)
    status = p->given ? keel_split_given_stages(first, size, p->params->speeds,
                                                p->given, stages, shares)
                      : keel_split_stages(first, size, p->params->speeds,
                                          stages, shares);
  for (uint32_t i = 0; i < first->node_count && status == KD_OK; i++)
    if (!first->nodes[i].dead) stages[p->each++] = stages[i];
  p->stages = stages;
  if (shares) p->facts->share = shares[p->params->rank];
  free(shares);
  return status;
}

static keel_status write_parts(piper *p, keel_program *to, keel_program *draft,
                               const uint32_t *inputs) {
  keel_function *part = NULL;
  KEEL_TRY(make_first(p, draft, &part));
  KEEL_TRY(find_stages(p, part));
  uint32_t n = part->output_count;
  p->outputs = calloc((size_t)p->parts * n + 1, sizeof *p->outputs);
  if (!p->outputs) return keel_no_memory((uint64_t)n * p->parts);
  for (uint32_t i = 0; i < p->parts; i++) {
    if (i) KEEL_TRY(make_part(p, draft, i, &part));
    KEEL_TRY(keel_function_inline(p->to, part, &to->functions, inputs,
                                  p->outputs + (size_t)i * n));
    if (p->to->node_count != (i + 1) * p->each)
      return keel_fail(KD_INTERNAL, "parts of a batch have other nodes");
  }
  p->written = p->to->node_count;
  return KD_OK;
}

typedef struct constant {
  const keel_tensor *tensor;
  uint32_t value;
} constant;

static int by_tensor(const void *a, const void *b) {
  const constant *x = a, *y = b;
  if (x->tensor != y->tensor)
    return (uintptr_t)x->tensor < (uintptr_t)y->tensor ? -1 : 1;
  return x->value < y->value ? -1 : 1;
}

/* All parts read one value of each weight. */
static keel_status share_constants(piper *p) {
  keel_function *f = p->to;
  size_t count = 0;
  constant *list = malloc(((size_t)f->value_count + 1) * sizeof *list);
  uint32_t *first = malloc(((size_t)f->value_count + 1) * sizeof *first);
  keel_status status =
      list && first ? KD_OK : keel_no_memory(f->value_count * sizeof *list);
  for (uint32_t i = 0; i < f->value_count && status == KD_OK; i++) {
    first[i] = i;
    if (f->values[i].constant)
      list[count++] = (constant){f->values[i].constant, i};
  }
  if (status == KD_OK) qsort(list, count, sizeof *list, by_tensor);
  for (size_t i = 1; i < count && status == KD_OK; i++)
    if (list[i].tensor == list[i - 1].tensor)
      first[list[i].value] = first[list[i - 1].value];
  for (uint32_t i = 0; i < f->node_count && status == KD_OK; i++)
    for (uint32_t k = 0; k < f->nodes[i].input_count; k++)
      if (f->nodes[i].inputs[k] != KEEL_ABSENT)
        f->nodes[i].inputs[k] = first[f->nodes[i].inputs[k]];
  free(list);
  free(first);
  return status;
}

/* ---- exchanges ---------------------------------------------------------------------------- */

static uint32_t stage_of(const piper *p, uint32_t node) {
  return p->stages[node % p->each];
}

/* The stage that makes a value; KEEL_SPLIT_ANY_STAGE: all have it. */
static uint32_t stage_with(const piper *p, uint32_t value) {
  uint32_t from = value == KEEL_ABSENT || p->to->values[value].constant
                      ? KEEL_ABSENT
                      : p->to->values[value].producer;
  return from == KEEL_ABSENT ? KEEL_SPLIT_ANY_STAGE : stage_of(p, from);
}

/* name: of the node that the exchange is for */
static keel_status pipe_add(piper *p, const char *domain, const char *op,
                            const keel_attr *attrs, uint32_t attr_count,
                            const uint32_t *inputs, uint32_t input_count,
                            const char *name, uint32_t *out_value) {
  keel_opdef *made = NULL;
  keel_node *node = NULL;
  *out_value = keel_function_value(p->to, "");
  if (*out_value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  KEEL_TRY(keel_opdef_create(p->to->context, keel_schema_find(domain, op),
                             attrs, attr_count, NULL, &made));
  KEEL_TRY(keel_function_node(p->to, made, name, inputs, input_count, out_value,
                              1, &node));
  return keel_function_infer(p->to, node);
}

static keel_status receive(piper *p, uint32_t value, uint32_t from,
                           uint32_t *out_value) {
  const keel_value_info info = p->to->values[value];
  const keel_attr attrs[] = {
      KEEL_INT("from", from), KEEL_INT("dtype", info.type->dtype),
      KEEL_INTS("shape", info.type->rank, info.type->dims)};
  KEEL_TRY(keel_split_member(p->to, &p->member));
  p->facts->exchanges++;
  return pipe_add(p, "keel", "Receive", attrs, 3, &p->member, 1,
                  p->to->nodes[info.producer].name, out_value);
}

static keel_status send(piper *p, uint32_t value, uint32_t to) {
  const keel_attr attr = KEEL_INT("to", to);
  uint32_t sent = KEEL_ABSENT;
  KEEL_TRY(keel_split_member(p->to, &p->member));
  const uint32_t inputs[] = {p->member, value};
  p->facts->exchanges++;
  return pipe_add(p, "keel", "Send", &attr, 1, inputs, 2,
                  p->to->nodes[p->to->values[value].producer].name, &sent);
}

/* By value: the stages that read it of another one, the list of which ends with its own. */
typedef struct crossing {
  uint32_t value, stage;
} crossing;

static int by_value(const void *a, const void *b) {
  const crossing *x = a, *y = b;
  if (x->value != y->value) return x->value < y->value ? -1 : 1;
  return x->stage < y->stage ? -1 : x->stage > y->stage;
}

/* All values that go from one stage to another, once for each that reads them, in the order of
 * the values: that of the nodes that make them, for all ranks alike. */
static keel_status find_crossings(const piper *p, crossing **out_list,
                                  size_t *out_count) {
  const keel_function *f = p->to;
  size_t count = 0, capacity = 0;
  for (uint32_t i = 0; i < p->written; i++)
    capacity += f->nodes[i].input_count;
  crossing *list = malloc((capacity + 1) * sizeof *list);
  *out_list = list;
  *out_count = 0;
  if (!list) return keel_no_memory(capacity * sizeof *list);
  for (uint32_t i = 0; i < p->written; i++)
    for (uint32_t k = 0; k < f->nodes[i].input_count; k++) {
      uint32_t value = f->nodes[i].inputs[k];
      uint32_t from = stage_with(p, value);
      if (from != KEEL_SPLIT_ANY_STAGE && from != stage_of(p, i))
        list[count++] = (crossing){value, stage_of(p, i)};
    }
  qsort(list, count, sizeof *list, by_value);
  for (size_t i = 0; i < count; i++)
    if (!i || by_value(&list[i], &list[i - 1])) list[(*out_count)++] = list[i];
  return KD_OK;
}

/* Reads of a value by the rank's nodes become reads of what it has received. Values on all ranks
 * depend on no stage. */
static void read_instead(piper *p, const uint32_t *received) {
  for (uint32_t i = 0; i < p->written; i++)
    for (uint32_t k = 0; k < p->to->nodes[i].input_count; k++) {
      uint32_t *input = &p->to->nodes[i].inputs[k];
      if (*input != KEEL_ABSENT && stage_of(p, i) == p->params->rank &&
          received[*input] != KEEL_ABSENT)
        *input = received[*input];
    }
}

static keel_status pipe_exchange(piper *p) {
  uint32_t rank = p->params->rank, values = p->to->value_count;
  crossing *list = NULL;
  size_t count = 0;
  uint32_t *received = malloc(((size_t)values + 1) * sizeof *received);
  keel_status status = received ? find_crossings(p, &list, &count)
                                : keel_no_memory(values * sizeof *received);
  for (uint32_t i = 0; i < values && received; i++)
    received[i] = KEEL_ABSENT;
  for (size_t i = 0; i < count && status == KD_OK; i++) {
    uint32_t value = list[i].value;
    uint32_t from = stage_with(p, value);
    if (list[i].stage == rank)
      status = receive(p, value, from, &received[value]);
    else if (from == rank)
      status = send(p, value, list[i].stage);
  }
  if (status == KD_OK) read_instead(p, received);
  free(list);
  free(received);
  return status;
}

/* ---- outputs ------------------------------------------------------------------------------ */

/* From the rank that has it to all. value: KEEL_ABSENT where this one has not. */
static keel_status pipe_share(piper *p, uint32_t root, const keel_type *type,
                              uint32_t value, uint32_t *out_value) {
  uint32_t size = p->params->size;
  int64_t *ranks = keel_arena_take(p->to->arena, size * sizeof *ranks);
  keel_tensor *zeros = NULL;
  if (!ranks) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < size; i++)
    ranks[i] = (root + i) % size;
  if (value == KEEL_ABSENT) {
    KEEL_TRY(keel_tensor_create(p->to->context, type->dtype, type->rank,
                                type->dims, NULL, &zeros));
    value = keel_function_constant(p->to, "", zeros);
    keel_tensor_release(zeros);
    if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  }
  KEEL_TRY(keel_split_member(p->to, &p->member));
  const uint32_t inputs[] = {p->member, value};
  const keel_attr attrs[] = {KEEL_INT("size", size),
                             KEEL_INTS("ranks", size, ranks)};
  p->facts->exchanges++;
  return pipe_add(p, "keel", "Broadcast", attrs, 2, inputs, 2, "", out_value);
}

/* The parts of an output, joined. */
static keel_status pipe_join(piper *p, uint32_t output, uint32_t count,
                             uint32_t *out_value) {
  uint32_t *values = keel_arena_take(p->to->arena, p->parts * sizeof *values);
  const keel_attr axis = KEEL_INT("axis", p->pieces[output].axis);
  if (!values) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < p->parts; i++)
    values[i] = p->outputs[(size_t)i * count + output];
  return pipe_add(p, "", "Concat", &axis, 1, values, p->parts, "", out_value);
}

static keel_status make_output(piper *p, const keel_function *whole,
                               uint32_t output, uint32_t *out_value) {
  uint32_t first = p->outputs[output], root = stage_with(p, first);
  bool parted = p->parts > 1 && p->pieces[output].part;
  bool all_have = root == KEEL_SPLIT_ANY_STAGE || p->params->size == 1;
  if (all_have && !parted) {
    *out_value = first;
    return KD_OK;
  }
  const keel_type *type = whole->values[whole->outputs[output]].type;
  uint32_t value = KEEL_ABSENT;
  if (!type || !keel_type_known(type) || !kd_dtype_size(type->dtype))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the shape of output \"%s\" is not known before a run, so "
                     "it cannot be sent to all ranks",
                     whole->output_ports[output].name);
  if (parted && (all_have || root == p->params->rank))
    KEEL_TRY(pipe_join(p, output, whole->output_count, &value));
  else if (root == p->params->rank)
    value = first;
  *out_value = value;
  return all_have ? KD_OK : pipe_share(p, root, type, value, out_value);
}

static keel_status pipe_add_outputs(piper *p, const keel_function *whole) {
  for (uint32_t i = 0; i < whole->output_count; i++) {
    uint32_t value = KEEL_ABSENT;
    KEEL_TRY(make_output(p, whole, i, &value));
    KEEL_TRY(keel_function_output(p->to, value, &whole->output_ports[i]));
  }
  return KD_OK;
}

/* ---- order --------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->node < y->node ? -1 : 1;
}

/* Receives come first, since none keeps another from going on; a part's Sends behind its nodes. */
static uint64_t pipe_key_of(const piper *p, uint32_t node) {
  const keel_node *at = &p->to->nodes[node];
  if (node < p->written) return 2 * (uint64_t)(node / p->each) + 1;
  if (!strcmp(at->op->schema->name, "Receive")) return 0;
  if (strcmp(at->op->schema->name, "Send") != 0) return UINT64_MAX;
  uint32_t producer = p->to->values[at->inputs[1]].producer;
  return 2 * (uint64_t)(producer / p->each) + 2;
}

static keel_status sort(piper *p) {
  keel_function *f = p->to;
  size_t n = f->node_count;
  place *places = malloc((n + 1) * sizeof *places);
  keel_node *nodes = malloc((n + 1) * sizeof *nodes);
  keel_status status =
      places && nodes ? KD_OK : keel_no_memory(n * sizeof *nodes);
  for (uint32_t i = 0; i < n && status == KD_OK; i++) {
    places[i] = (place){pipe_key_of(p, i), i};
    nodes[i] = f->nodes[i];
  }
  if (status == KD_OK) qsort(places, n, sizeof *places, by_key);
  for (uint32_t i = 0; i < n && status == KD_OK; i++) {
    f->nodes[i] = nodes[places[i].node];
    for (uint32_t k = 0; k < f->nodes[i].output_count; k++)
      if (f->nodes[i].outputs[k] != KEEL_ABSENT)
        f->values[f->nodes[i].outputs[k]].producer = i;
  }
  free(places);
  free(nodes);
  return status;
}

/* ---- the program --------------------------------------------------------------------------- */

static uint64_t bytes_of_constants(const keel_function *f) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < f->value_count; i++)
    if (f->values[i].constant && f->values[i].type)
      bytes += f->values[i].type->bytes;
  return bytes;
}

static keel_status write_program(piper *p, keel_program *to,
                                 keel_program *draft, uint32_t *inputs) {
  const keel_function *whole = draft->main;
  bool random = false;
  KEEL_TRY(check_nodes(whole, &random));
  KEEL_TRY(choose_parts(p, whole, random));
  KEEL_TRY(pipe_add_inputs(p, whole, inputs));
  KEEL_TRY(write_parts(p, to, draft, inputs));
  KEEL_TRY(share_constants(p));
  KEEL_TRY(pipe_exchange(p));
  KEEL_TRY(pipe_add_outputs(p, whole));
  KEEL_TRY(sort(p));
  KEEL_TRY(keel_pass_prune(p->to)); /* inputs that only other ranks need */
  p->facts->parts = p->parts;
  p->facts->weights = bytes_of_constants(whole);
  return keel_split_drop_constants(p->to, &p->facts->weights_here);
}

keel_status keel_split_pipe(keel_program *to, keel_program *draft,
                            const keel_split_params *params,
                            const keel_configuration *given,
                            keel_split_facts *out_facts) {
  const keel_function *whole = draft->main;
  piper p = {.params = params,
             .given = given,
             .facts = out_facts,
             .member = KEEL_ABSENT};
  KEEL_TRY(keel_function_create(draft->context, &to->arena, &to->functions,
                                whole->name, &to->main));
  p.to = to->main;
  uint32_t *inputs = malloc(((size_t)whole->input_count + 1) * sizeof *inputs);
  p.pieces = calloc((size_t)whole->output_count + 1, sizeof *p.pieces);
  keel_status status = inputs && p.pieces ? write_program(&p, to, draft, inputs)
                                          : keel_no_memory(whole->input_count);
  free(inputs);
  free(p.pieces);
  free(p.stages);
  free(p.outputs);
  return status;
}
