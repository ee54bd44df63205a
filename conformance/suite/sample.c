/* sample.c - graphs to show a plugin's compiler, and what it claims of them. */
#include "suite/sample.h"

#include <math.h>

/* ---- the list --------------------------------------------------------------------- */

#define INPUTS 5u
#define NODES  8u

/* Inputs have values 0, 1, 2 ..., and the node behind them the next. shapes: a letter a
 * dim: m, n, or a digit; "*" is the case's shape. Bit i of constants: input i is one; of
 * outputs: value i is one, beside the last. */
typedef struct recipe {
  const char *name;
  kc_kind kind;
  const char *shapes[INPUTS];
  uint32_t constants, outputs;
  struct {
    const char *op;
    uint32_t count, in[3];
  } nodes[NODES];
} recipe;

static const recipe recipes[] = {
    {.name = "diamond",
     .shapes = {"*"},
     .nodes = {{"Relu", 1, {0}},
               {"Add", 2, {1, 0}},
               {"Tanh", 1, {2}},
               {"Mul", 2, {3, 1}}}},
    {.name = "chain",
     .shapes = {"*"},
     .nodes = {{"Tanh", 1, {0}}, {"Relu", 1, {1}}, {"Tanh", 1, {2}}}},
    {.name = "pair",
     .shapes = {"*", "*"},
     .nodes = {{"Add", 2, {0, 1}}, {"Relu", 1, {2}}}},
    {.name = "operands",
     .shapes = {"*", "*", "*"},
     .nodes = {{"Mul", 2, {0, 1}}, {"Add", 2, {2, 3}}, {"Relu", 1, {4}}}},
    {.name = "gate",
     .shapes = {"*"},
     .nodes = {{"Sigmoid", 1, {0}}, {"Mul", 2, {0, 1}}}},
    {.name = "leaky",
     .shapes = {"*", "*"},
     .nodes = {{"LeakyRelu", 1, {0}}, {"Add", 2, {2, 1}}}},
    {.name = "two-outputs",
     .shapes = {"*"},
     .outputs = 1u << 1,
     .nodes = {{"Relu", 1, {0}}, {"Tanh", 1, {1}}}},
    {.name = "long",
     .shapes = {"*", "*"},
     .nodes = {{"Add", 2, {0, 1}},
               {"Tanh", 1, {2}},
               {"Mul", 2, {3, 0}},
               {"Add", 2, {1, 4}},
               {"Relu", 1, {5}},
               {"Mul", 2, {6, 6}},
               {"Add", 2, {7, 0}},
               {"Tanh", 1, {8}}}},

    {.name = "rows-and-columns",
     .kind = KC_SHAPES,
     .shapes = {"mn", "nn", "n", "m1"},
     .nodes = {{"MatMul", 2, {0, 1}},
               {"Add", 2, {4, 2}},
               {"Relu", 1, {5}},
               {"Mul", 2, {6, 0}},
               {"Add", 2, {7, 3}}}},
    {.name = "product",
     .kind = KC_SHAPES,
     .shapes = {"mn", "nn", "n"},
     .constants = 6,
     .nodes = {{"MatMul", 2, {0, 1}}, {"Add", 2, {3, 2}}, {"Relu", 1, {4}}}},
    {.name = "gemm",
     .kind = KC_SHAPES,
     .shapes = {"mn", "nn", "n"},
     .constants = 6,
     .nodes = {{"Gemm", 3, {0, 1, 2}}, {"Relu", 1, {3}}}},
    {.name = "convolution",
     .kind = KC_SHAPES,
     .shapes = {"m8nn", "8833", "8"},
     .constants = 6,
     .nodes = {{"Conv", 3, {0, 1, 2}}, {"Relu", 1, {3}}}},
    {.name = "residual",
     .kind = KC_SHAPES,
     .shapes = {"m4nn", "4411"},
     .constants = 2,
     .nodes = {{"Conv", 2, {0, 1}}, {"Add", 2, {2, 0}}, {"Relu", 1, {3}}}},
    {.name = "attention",
     .kind = KC_SHAPES,
     .shapes = {"mn", "nm", "mn"},
     .nodes = {{"MatMul", 2, {0, 1}},
               {"Softmax", 1, {3}},
               {"MatMul", 2, {4, 2}}}},
    {.name = "norm",
     .kind = KC_SHAPES,
     .shapes = {"mn", "mn", "n"},
     .constants = 4,
     .nodes = {{"Add", 2, {0, 1}}, {"LayerNormalization", 2, {3, 2}}}},

    {.name = "Relu",
     .kind = KC_SINGLE,
     .shapes = {"*"},
     .nodes = {{"Relu", 1, {0}}}},
    {.name = "Add",
     .kind = KC_SINGLE,
     .shapes = {"*", "*"},
     .nodes = {{"Add", 2, {0, 1}}}},
    {.name = "MatMul",
     .kind = KC_SINGLE,
     .shapes = {"mn", "nn"},
     .constants = 2,
     .nodes = {{"MatMul", 2, {0, 1}}}},
    {.name = "Conv",
     .kind = KC_SINGLE,
     .shapes = {"m8nn", "8833"},
     .constants = 2,
     .nodes = {{"Conv", 2, {0, 1}}}},
    {.name = "Softmax",
     .kind = KC_SINGLE,
     .shapes = {"mn"},
     .nodes = {{"Softmax", 1, {0}}}},
};
const uint32_t kc_sample_count = KC_COUNT_OF(recipes);

kc_kind kc_sample_kind(uint32_t index) {
  return recipes[index].kind;
}

/* ---- making ------------------------------------------------------------------------ */

static kc_sample *sample_begin(const char *name) {
  kc_sample *sample = kc_take(sizeof *sample);
  memset(sample, 0, sizeof *sample);
  sample->largest = 1;
  snprintf(sample->name, sizeof sample->name, "%s", name);
  return sample;
}

void kc_sample_free(kc_sample *sample) {
  if (!sample) return;
  for (uint32_t i = 0; i < sample->graph.node_count; i++)
    kc_node_free(sample->graph.nodes[i]);
  for (uint32_t i = 0; i < KC_VALUES; i++) {
    value_free(sample->values[i]);
    free(sample->constants[i]);
  }
  free(sample);
}

/* A value of the graph, with its type. The sample owns it. */
static uint32_t add_value(kc_sample *s, value *made) {
  uint32_t id = s->graph.value_count++;
  s->values[id] = made;
  if (!made || keel_type_of(made->dtype, made->rank, made->dims,
                            &s->graph.types[id]) != KD_OK)
    kc_stop("no memory for a graph");
  return id;
}

static uint32_t sample_add_input(kc_sample *s, const kc_sizes *sizes,
                                 uint32_t rank, const int64_t *dims,
                                 bool constant, kc_random *random) {
  value *made = kc_floats(rank, dims, random);
  made->dtype = sizes->dtype;
  for (int64_t i = 0; i < made->count; i++)
    made->x[i] = dtype_round(made->x[i], made->dtype);
  if (sizes->special && !s->graph.value_count && made->count) made->x[0] = NAN;
  uint32_t id = add_value(s, made);
  s->graph.graph_inputs[s->graph.input_count++] = id;
  if (!constant) return id;
  s->constants[id] = kc_take(value_size(made) + 16);
  value_store(made, s->constants[id]);
  s->graph.constants[id] = s->constants[id];
  return id;
}

/* An attribute that changes values and no type; NULL: the op has none here. */
static const keel_attr *attribute_of(const char *op) {
  static const keel_attr alpha = {
      .name = "alpha", .kind = KD_ATTR_FLOAT, .f = 0.375f};
  static const keel_attr epsilon = {
      .name = "epsilon", .kind = KD_ATTR_FLOAT, .f = 0.5f};
  static const keel_attr axis = {.name = "axis", .kind = KD_ATTR_INT, .i = 0};
  if (!strcmp(op, "Gemm") || !strcmp(op, "LeakyRelu")) return &alpha;
  if (!strcmp(op, "LayerNormalization")) return &epsilon;
  return strcmp(op, "Softmax") ? NULL : &axis;
}

/* A node and its one output, whose value goes to *out_value, not yet the sample's;
 * NULL where these inputs do not fit. */
static kc_node *make_node(kc_sample *s, kc_op *op, const char *name,
                          uint32_t count, const uint32_t *in,
                          const keel_attr *attr, value **out_value) {
  *op = (kc_op){.name = name, .in_count = count, .out_count = 1};
  if (attr) op->attrs[op->attr_count++] = *attr;
  for (uint32_t i = 0; i < count; i++) {
    op->in[i] = s->values[in[i]];
    if (s->constants[in[i]]) op->constants |= 1u << i;
  }
  kc_node *node = kc_node_make(op, NULL, 0);
  if (node && kc_reference(op, node, out_value)) return node;
  kc_node_free(node);
  return NULL;
}

static void sample_add_node(kc_sample *s, kc_node *node, const uint32_t *in,
                            value *made) {
  uint32_t at = s->graph.node_count++;
  s->graph.nodes[at] = node;
  for (uint32_t i = 0; i < s->ops[at].in_count; i++)
    s->graph.inputs[at][i] = in[i];
  s->graph.outputs[at][0] = add_value(s, made);
}

static void add_output(kc_sample *s, uint32_t id) {
  s->graph.graph_outputs[s->graph.output_count++] = id;
}

static uint32_t shape_of(const char *letters, const kc_sizes *sizes,
                         int64_t *dims) {
  if (*letters == '*') {
    memcpy(dims, sizes->dims, sizeof sizes->dims);
    return sizes->rank;
  }
  uint32_t rank = 0;
  for (; letters[rank]; rank++)
    dims[rank] = letters[rank] == 'm'   ? sizes->m
                 : letters[rank] == 'n' ? sizes->n
                                        : letters[rank] - '0';
  return rank;
}

static kc_sample *make_recipe(const recipe *r, const kc_sizes *sizes,
                              kc_random *random, bool adjusted) {
  kc_sample *s = sample_begin(r->name);
  int64_t dims[KD_MAX_RANK];
  for (uint32_t i = 0; i < INPUTS && r->shapes[i]; i++) {
    uint32_t rank = shape_of(r->shapes[i], sizes, dims);
    sample_add_input(s, sizes, rank, dims, r->constants >> i & 1, random);
  }
  for (uint32_t i = 0; i < NODES && r->nodes[i].op; i++) {
    value *made = NULL;
    const keel_attr *attr = adjusted ? attribute_of(r->nodes[i].op) : NULL;
    kc_node *node = make_node(s, &s->ops[i], r->nodes[i].op, r->nodes[i].count,
                              r->nodes[i].in, attr, &made);
    if (!node) {
      kc_sample_free(s);
      return NULL;
    }
    sample_add_node(s, node, r->nodes[i].in, made);
  }
  for (uint32_t i = 0; i < s->graph.value_count; i++)
    if (r->outputs >> i & 1 || i + 1 == s->graph.value_count) add_output(s, i);
  return s;
}

kc_sample *kc_sample_make(uint32_t index, const kc_sizes *sizes,
                          kc_random *random) {
  return make_recipe(&recipes[index], sizes, random, false);
}

kc_sample *kc_sample_adjusted(uint32_t index, const kc_sizes *sizes,
                              kc_random *random) {
  bool any = false;
  for (uint32_t i = 0; i < NODES && recipes[index].nodes[i].op; i++)
    any |= attribute_of(recipes[index].nodes[i].op) != NULL;
  return any ? make_recipe(&recipes[index], sizes, random, true) : NULL;
}

/* Where something is read. */
typedef struct place {
  uint32_t node, input;
} place;

static uint32_t sample_places_of(const recipe *r, place *out) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < NODES && r->nodes[i].op; i++)
    for (uint32_t k = 0; k < r->nodes[i].count; k++)
      out[count++] = (place){i, k};
  return count;
}

static uint32_t readers(const recipe *r, uint32_t id) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < NODES && r->nodes[i].op; i++)
    for (uint32_t k = 0; k < r->nodes[i].count; k++)
      count += r->nodes[i].in[k] == id;
  return count;
}

/* Two places change what they read, or the first reads what the second does; false where
 * that is not possible. */
static bool rewire(recipe *r, place a, place b, bool both) {
  uint32_t first = 0;
  while (first < INPUTS && r->shapes[first])
    first++;
  uint32_t *x = &r->nodes[a.node].in[a.input],
           *y = &r->nodes[b.node].in[b.input];
  uint32_t from = *x, to = *y;
  bool known = to < first + a.node && (!both || from < first + b.node);
  if (from == to || !known || (!both && readers(r, from) < 2)) return false;
  *x = to;
  if (both) *y = from;
  return true;
}

static bool same_results(const kc_sample *a, const kc_sample *b) {
  for (uint32_t i = 0; i < a->graph.output_count; i++) {
    const value *x = a->values[a->graph.graph_outputs[i]],
                *y = b->values[b->graph.graph_outputs[i]];
    for (int64_t k = 0; k < x->count; k++)
      if (fabsl(x->x[k] - y->x[k]) > 0.05L) return false;
  }
  return true;
}

kc_sample *kc_sample_rewired(uint32_t index, const kc_sizes *sizes,
                             kc_random *random, uint32_t way) {
  place places[3 * NODES];
  const recipe *r = &recipes[index];
  uint32_t count = sample_places_of(r, places);
  kc_random same = *random;
  kc_sample *plain = make_recipe(r, sizes, &same, false), *found = NULL;
  for (uint32_t i = 0; plain && i < 2 * count * count && !found; i++) {
    recipe other = *r;
    place a = places[i / 2 / count], b = places[i / 2 % count];
    const keel_type *const *types = plain->graph.types;
    if (types[r->nodes[a.node].in[a.input]] !=
            types[r->nodes[b.node].in[b.input]] ||
        !rewire(&other, a, b, i % 2 == 0))
      continue;
    same = *random;
    kc_sample *made = make_recipe(&other, sizes, &same, false);
    if (made && !same_results(plain, made) && way-- == 0)
      found = made;
    else
      kc_sample_free(made);
  }
  kc_sample_free(plain);
  return found;
}

/* ---- by chance ---------------------------------------------------------------------- */

#define TOO_LARGE 4 /* what products may come to */

static bool sample_is_small(const value *made) {
  for (int64_t i = 0; i < made->count; i++)
    if (fabsl(made->x[i]) > TOO_LARGE) return false;
  return true;
}

static void add_by_chance(kc_sample *s, kc_random *random) {
  static const struct {
    const char *name;
    uint32_t count;
  } ops[] = {{"Relu", 1}, {"Tanh", 1}, {"Sigmoid", 1}, {"Neg", 1}, {"Abs", 1},
             {"Add", 2},  {"Mul", 2},  {"Sub", 2},     {"Max", 2}, {"Min", 2}};
  uint64_t pick = kc_below(random, KC_COUNT_OF(ops));
  uint32_t last = s->graph.value_count - 1, in[2];
  in[0] = kc_below(random, 4) ? last : (uint32_t)kc_below(random, last + 1);
  in[1] = (uint32_t)kc_below(random, last + 1);
  if (kc_below(random, 2)) {
    uint32_t other = in[0];
    in[0] = in[1];
    in[1] = other;
  }
  value *made = NULL;
  kc_op *op = &s->ops[s->graph.node_count];
  kc_node *node =
      make_node(s, op, ops[pick].name, ops[pick].count, in, NULL, &made);
  if (node && !sample_is_small(made)) {
    kc_node_free(node);
    value_free(made);
    node = make_node(s, op, "Tanh", 1, in, NULL, &made);
  }
  if (!node) kc_stop("the suite could not make a %s", ops[pick].name);
  sample_add_node(s, node, in, made);
}

kc_sample *kc_sample_random(kd_dtype dtype, kc_random *random) {
  kc_sample *s = sample_begin("random");
  kc_sizes sizes = {.dtype = dtype, .rank = 1 + (uint32_t)kc_below(random, 3)};
  for (uint32_t i = 0; i < sizes.rank; i++)
    sizes.dims[i] = 1 + (int64_t)kc_below(random, 6);
  uint64_t inputs = 1 + kc_below(random, 3), nodes = 1 + kc_below(random, 10);
  s->largest = TOO_LARGE;
  for (uint64_t i = 0; i < inputs; i++)
    sample_add_input(s, &sizes, sizes.rank, sizes.dims, false, random);
  for (uint64_t i = 0; i < nodes; i++)
    add_by_chance(s, random);
  for (uint32_t id = (uint32_t)inputs; id < s->graph.value_count; id++) {
    bool read = false;
    for (uint32_t i = 0; i < s->graph.node_count; i++)
      for (uint32_t k = 0; k < s->ops[i].in_count; k++)
        read |= s->graph.inputs[i][k] == id;
    if (!read) add_output(s, id);
  }
  return s;
}

kc_sample *kc_sample_at(uint32_t index, kc_random *random, bool *out_none) {
  static const kd_dtype dtypes[] = {KD_F32, KD_F16, KD_BF16};
  kc_sample *sample = NULL;
  uint32_t chances = kc.quick ? 200 : 1000, type = index / kc_sample_count;
  *out_none = false;
  if (type < KC_COUNT_OF(dtypes)) {
    kc_sizes sizes = {
        .m = 5, .n = 7, .rank = 2, .dims = {17, 5}, .dtype = dtypes[type]};
    sample = kc_sample_make(index % kc_sample_count, &sizes, random);
    *out_none = !sample;
  } else if (index - KC_COUNT_OF(dtypes) * kc_sample_count < chances) {
    sample = kc_sample_random(dtypes[index % 2], random);
  }
  return sample;
}

/* ---- sizes that are not known -------------------------------------------------------- */

static void retype_nodes(kc_sample *s) {
  for (uint32_t i = 0; i < s->graph.node_count; i++) {
    kc_node *node = s->graph.nodes[i];
    for (uint32_t k = 0; k < s->ops[i].in_count; k++)
      node->in[k] = s->graph.types[s->graph.inputs[i][k]];
    node->out[0] = s->graph.types[s->graph.outputs[i][0]];
  }
}

void kc_sample_forget(kc_sample *s, const kc_sample *other) {
  for (uint32_t i = 0; i < s->graph.value_count; i++) {
    int64_t dims[KD_MAX_RANK];
    const value *a = s->values[i], *b = other->values[i];
    for (uint32_t d = 0; d < a->rank; d++)
      dims[d] = a->dims[d] == b->dims[d] ? a->dims[d] : -1;
    if (keel_type_of(a->dtype, a->rank, dims, &s->graph.types[i]) != KD_OK)
      kc_stop("no memory for a graph");
  }
  retype_nodes(s);
}

void kc_sample_hide(kc_sample *s, kc_random *random) {
  for (uint32_t i = 0; i < s->graph.value_count; i++)
    if (kc_below(random, 3) == 0) s->graph.types[i] = &keel_type_unknown;
  retype_nodes(s);
}

/* ---- claims -------------------------------------------------------------------------- */

/* Whether the nodes hang together by values that both read or write. */
static bool connected(const kc_claimed *c, const uint32_t *nodes,
                      uint32_t count) {
  const struct kd_graph *g = c->graph;
  bool values[KC_VALUES] = {false}, met[KC_NODES] = {true};
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < count; i++) {
      const kc_node *node = g->nodes[nodes[i]];
      uint32_t inputs = node->node.input_count;
      for (uint32_t k = 0; k <= inputs; k++) {
        uint32_t id =
            k < inputs ? g->inputs[nodes[i]][k] : g->outputs[nodes[i]][0];
        if (met[i] && !values[id]) values[id] = more = true;
        if (!met[i] && values[id]) met[i] = more = true;
      }
    }
  }
  for (uint32_t i = 0; i < count; i++)
    if (!met[i]) return false;
  return true;
}

/* Whether all that the nodes of a group read is written, or by the group itself. */
static bool is_ready(const struct kd_graph *g, const uint32_t *groups,
                     uint32_t group, const bool *written) {
  bool own[KC_VALUES] = {false};
  for (uint32_t i = 0; i < g->node_count; i++)
    if (groups[i] == group) own[g->outputs[i][0]] = true;
  for (uint32_t i = 0; i < g->node_count; i++)
    for (uint32_t k = 0; k < g->nodes[i]->node.input_count; k++) {
      uint32_t id = g->inputs[i][k];
      if (groups[i] == group && !own[id] && !written[id]) return false;
    }
  return true;
}

/* Whether no path leaves a claim and enters it again: with each claim as one node, the
 * graph can be walked to its end. */
static bool acyclic(const struct kd_graph *g, const uint32_t *owner) {
  uint32_t groups[KC_NODES], left = g->node_count;
  bool written[KC_VALUES] = {false}, done[KC_NODES] = {false};
  for (uint32_t i = 0; i < g->node_count; i++)
    groups[i] = owner[i] ? owner[i] : KC_NODES + 1 + i;
  for (uint32_t i = 0; i < g->input_count; i++)
    written[g->graph_inputs[i]] = true;
  for (uint32_t before = 0; before != left;) {
    before = left;
    for (uint32_t i = 0; i < g->node_count; i++) {
      if (done[i] || !is_ready(g, groups, groups[i], written)) continue;
      for (uint32_t k = 0; k < g->node_count; k++)
        if (groups[k] == groups[i]) {
          done[k] = written[g->outputs[k][0]] = true;
          left--;
        }
    }
  }
  return left == 0;
}

static kd_status sample_refuse(kc_claimed *c) {
  c->refused++;
  return KD_INVALID_ARGUMENT;
}

static kd_status sample_take(void *context, const kd_part *part) {
  kc_claimed *c = context;
  uint32_t limit = c->graph ? c->graph->node_count : KC_NODES;
  const uint32_t *nodes = part->nodes;
  uint32_t count = part->node_count;
  if (part->struct_size < sizeof *part || part->flags || part->reserved)
    kc_violation("abi.flags-known", "a claim of %u bytes has flags 0x%x",
                 part->struct_size, part->flags);
  if (c->refuse_all || !count || count > KC_NODES || c->count >= KC_NODES)
    return sample_refuse(c);
  for (uint32_t i = 0; i < count; i++) {
    if (nodes[i] >= limit)
      c->outside = true;
    else if (c->owner[nodes[i]])
      c->twice = true;
    else if (c->graph && c->graph->shown_only[nodes[i]])
      c->shown = true;
    else
      continue;
    return sample_refuse(c);
  }
  uint32_t owner[KC_NODES];
  memcpy(owner, c->owner, sizeof owner);
  for (uint32_t i = 0; i < count; i++)
    owner[nodes[i]] = c->count + 1;
  if (c->graph && (!connected(c, nodes, count) || !acyclic(c->graph, owner)))
    return sample_refuse(c);
  memcpy(c->owner, owner, sizeof owner);
  memcpy(c->nodes[c->count], nodes, count * sizeof *nodes);
  c->sizes[c->count++] = count;
  return KD_OK;
}

kd_status kc_claim_of(const struct kd_graph *graph, kc_claimed *claims) {
  return KC_CALL(kd_status, kp.r.claim(kc_device(), graph, sample_take, claims),
                 "region.claim(%u nodes)", graph->node_count);
}

static bool reads(const struct kd_graph *g, uint32_t node, uint32_t id) {
  for (uint32_t i = 0; i < g->nodes[node]->node.input_count; i++)
    if (g->inputs[node][i] == id) return true;
  return false;
}

void kc_claim_part(const kc_claimed *claims, uint32_t index,
                   struct kd_graph *part) {
  const struct kd_graph *g = claims->graph;
  bool met[KC_VALUES] = {false}; /* written inside, or an input already */
  *part = *g;
  part->node_count = part->input_count = part->output_count = 0;
  for (uint32_t i = 0; i < g->node_count; i++) {
    if (claims->owner[i] != index + 1) continue;
    uint32_t at = part->node_count++, id = g->outputs[i][0];
    part->nodes[at] = g->nodes[i];
    memcpy(part->inputs[at], g->inputs[i], sizeof part->inputs[at]);
    memcpy(part->outputs[at], g->outputs[i], sizeof part->outputs[at]);
    for (uint32_t k = 0; k < g->nodes[i]->node.input_count; k++) {
      uint32_t from = g->inputs[i][k];
      if (!met[from]) part->graph_inputs[part->input_count++] = from;
      met[from] = true;
    }
    met[id] = true;
    bool out = false;
    for (uint32_t k = 0; k < g->output_count; k++)
      out |= g->graph_outputs[k] == id;
    for (uint32_t k = 0; k < g->node_count; k++)
      out |= claims->owner[k] != index + 1 && reads(g, k, id);
    if (out) part->graph_outputs[part->output_count++] = id;
  }
}

const char *kc_part_text(const struct kd_graph *part, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (uint32_t i = 0; i < part->node_count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
                             part->nodes[i]->op->schema->name);
  for (uint32_t i = 0; i < part->input_count && used < size; i++) {
    const keel_type *type = part->types[part->graph_inputs[i]];
    used += (size_t)snprintf(text + used, size - used, "%s%s[",
                             i ? ", " : " of ", kd_dtype_name(type->dtype));
    for (uint32_t d = 0; d < type->rank && used < size; d++)
      used += (size_t)snprintf(text + used, size - used, "%s%lld", d ? "," : "",
                               (long long)type->dims[d]);
    if (used < size) used += (size_t)snprintf(text + used, size - used, "]");
  }
  return text;
}

kd_compile kc_compile(const struct kd_graph *graph) {
  return (kd_compile){.struct_size = sizeof(kd_compile), .graph = graph};
}
