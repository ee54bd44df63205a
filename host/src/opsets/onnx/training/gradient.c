/* gradient.c - Gradient: which nodes y depends on the xs through, and their rules, from y back.
 *
 * The importer puts the values that the attributes name behind the node's inputs: xs, zs, y. Where
 * the inputs are other values than these, the nodes between are written again for them. y may have
 * any shape: the gradient is that of the sum of its elements. */
#include "opsets/onnx/training/gradient.h"
#include "opsets/tables.h"

#include <kd/help.h>

#define NODES_MOST 500000 /* of a graph with its gradients */

/* ---- what rules read and give -------------------------------------------------------------- */

uint32_t keel_gradient_in(const keel_gradient *g, uint32_t index) {
  uint32_t value =
      index < g->node.input_count ? g->node.inputs[index] : KEEL_ABSENT;
  return value == KEEL_ABSENT ? value : g->at[value];
}

uint32_t keel_gradient_out(const keel_gradient *g, uint32_t index) {
  uint32_t value =
      index < g->node.output_count ? g->node.outputs[index] : KEEL_ABSENT;
  return value == KEEL_ABSENT ? value : g->at[value];
}

uint32_t keel_gradient_got(const keel_gradient *g, uint32_t index) {
  uint32_t value =
      index < g->node.output_count ? g->node.outputs[index] : KEEL_ABSENT;
  return value == KEEL_ABSENT ? value : g->sums[value];
}

const keel_type *keel_gradient_type(const keel_gradient *g, uint32_t value) {
  return value == KEEL_ABSENT ? NULL : g->all->function->values[value].type;
}

bool keel_gradient_wants(const keel_gradient *g, uint32_t index) {
  uint32_t value =
      index < g->node.input_count ? g->node.inputs[index] : KEEL_ABSENT;
  return value != KEEL_ABSENT && g->depends[value];
}

void keel_gradient_give(keel_gradient *g, uint32_t index, uint32_t value) {
  if (!keel_gradient_wants(g, index) || g->all->status != KD_OK) return;
  uint32_t *sum = &g->sums[g->node.inputs[index]];
  *sum = *sum == KEEL_ABSENT ? value
                             : keel_emit_binary(g->all, "Add", *sum, value);
}

void keel_gradient_give_wide(keel_gradient *g, uint32_t index, uint32_t value) {
  if (keel_gradient_wants(g, index))
    keel_gradient_give(
        g, index, keel_gradient_narrow(g, value, keel_gradient_in(g, index)));
}

void keel_gradient_refuse(keel_gradient *g, const char *why) {
  const keel_node *node = &g->node;
  keel_emit_fail(g->all, KD_UNIMPLEMENTED, "%s \"%s\" %s",
                 node->op->schema->name, node->name ? node->name : "", why);
}

static uint32_t gradient_read(void *context, char sigil, uint32_t index) {
  return sigil == '$'   ? keel_gradient_in(context, index)
         : sigil == '%' ? keel_gradient_out(context, index)
                        : keel_gradient_got(context, index);
}

static bool text_is_wanted(void *context, char sigil, uint32_t index) {
  return sigil == '$' && keel_gradient_wants(context, index);
}

static void text_gives(void *context, char sigil, uint32_t index,
                       uint32_t value, bool narrow) {
  (void)sigil;
  (narrow ? keel_gradient_give_wide : keel_gradient_give)(context, index,
                                                          value);
}

uint32_t keel_gradient_text(keel_gradient *g, const char *text, ...) {
  const keel_text_of of = {g->all,        g->node.op,     g,
                           gradient_read, text_is_wanted, text_gives};
  va_list arguments;
  va_start(arguments, text);
  uint32_t last = keel_text_write(&of, text, arguments);
  va_end(arguments);
  return last;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

uint32_t keel_gradient_shape(keel_gradient *g, uint32_t value) {
  return keel_emit_dims(g->all, value, 0, INT64_MAX);
}

uint32_t keel_gradient_zero(keel_gradient *g, uint32_t like) {
  return keel_emit_number(g->all, 0, like);
}

uint32_t keel_gradient_shaped_like(keel_gradient *g, uint32_t value,
                                   uint32_t like) {
  return keel_emit_binary(g->all, "Reshape", value,
                          keel_gradient_shape(g, like));
}

uint32_t keel_gradient_wide(keel_gradient *g, uint32_t value, uint32_t shape) {
  return keel_emit_binary(g->all, "Expand", value, shape);
}

static const keel_type *known_type(const keel_gradient *g, uint32_t value) {
  return g->all->status == KD_OK ? keel_pass_type(g->all->function, value)
                                 : NULL;
}

static uint32_t sum_over(keel_gradient *g, uint32_t value, uint32_t axes) {
  const keel_attr attrs[] = {KEEL_INT("keepdims", 0),
                             KEEL_INT("noop_with_empty_axes", 1)};
  const uint32_t inputs[] = {value, axes};
  return keel_emit_op(g->all, "ReduceSum", attrs, 2, inputs, 2);
}

uint32_t keel_gradient_narrow(keel_gradient *g, uint32_t value, uint32_t like) {
  const keel_type *from = known_type(g, value), *to = known_type(g, like);
  int64_t axes[KD_MAX_RANK];
  int64_t count = 0;
  uint32_t list = KEEL_ABSENT;
  if (!from || !to || from->rank < to->rank) {
    const uint32_t shapes[] = {keel_gradient_shape(g, value),
                               keel_gradient_shape(g, like)};
    list = keel_emit_op(g->all, "keel::BroadcastAxes", NULL, 0, shapes, 2);
  } else {
    uint32_t missing = from->rank - to->rank;
    for (uint32_t i = 0; i < from->rank; i++)
      if (i < missing || to->dims[i - missing] != from->dims[i])
        axes[count++] = i;
    if (!count) return value;
    list = keel_emit_ints(g->all, axes, count);
  }
  return keel_gradient_shaped_like(g, sum_over(g, value, list), like);
}

/* ---- the nodes between ------------------------------------------------------------------------ */

typedef struct between {
  keel_gradient g;
  uint32_t xs, zs;  /* how many */
  uint32_t *order;  /* nodes that y depends on, each behind what it needs */
  uint32_t ordered; /* how many */
  uint8_t *seen;    /* by node: 1 open, 2 done */
  uint8_t *ends;    /* by value: an x or a z */
  uint8_t *moves; /* by value: depends on an x, or on a z that is another now */
} between;

static const keel_node *maker_of(const between *b, uint32_t value) {
  const keel_function *function = b->g.all->function;
  uint32_t maker = value == KEEL_ABSENT || b->ends[value]
                       ? KEEL_ABSENT
                       : function->values[value].producer;
  return maker == KEEL_ABSENT ? NULL : &function->nodes[maker];
}

static uint32_t x_or_z(const between *b, uint32_t index) {
  return keel_emit_in(b->g.all, b->xs + b->zs + index);
}

/* The first input whose maker is not in the order yet. */
static const keel_node *missing(const between *b, const keel_node *node) {
  const keel_function *function = b->g.all->function;
  for (uint32_t i = 0; i < node->input_count; i++) {
    const keel_node *maker = maker_of(b, node->inputs[i]);
    if (maker && b->seen[maker - function->nodes] != 2) return maker;
  }
  return NULL;
}

/* Finds the nodes behind y, up to the xs and zs, in the order of their needs. */
static keel_status order_nodes(between *b, uint32_t y) {
  const keel_function *function = b->g.all->function;
  uint32_t *stack = calloc((size_t)function->node_count + 1, sizeof *stack);
  uint32_t depth = 0;
  const keel_node *last = maker_of(b, y);
  if (!stack) return keel_no_memory(function->node_count * sizeof *stack);
  if (last) stack[depth++] = (uint32_t)(last - function->nodes);
  keel_status status = KD_OK;
  while (depth && status == KD_OK) {
    uint32_t at = stack[depth - 1];
    const keel_node *next = missing(b, &function->nodes[at]);
    b->seen[at] = next ? 1 : 2;
    if (!next) {
      b->order[b->ordered++] = at;
      depth--;
    } else if (b->seen[next - function->nodes] == 1) {
      status = keel_fail(KD_DATA_LOSS, "the graph has a cycle");
    } else {
      stack[depth++] = (uint32_t)(next - function->nodes);
    }
  }
  free(stack);
  return status;
}

static bool gradient_is_float(const between *b, uint32_t value) {
  kd_dtype dtype = keel_emit_dtype(b->g.all, value);
  return dtype == KD_NONE || KD_TYPES(dtype) & KD_TYPES_FLOAT;
}

/* Gradients are of floats, and a value stands for another of its type. */
static void check_types(const between *b) {
  for (uint32_t i = 0; i < b->xs + b->zs; i++) {
    kd_dtype named = keel_emit_dtype(b->g.all, x_or_z(b, i));
    kd_dtype given = keel_emit_dtype(b->g.all, keel_emit_in(b->g.all, i));
    if (i < b->xs && !gradient_is_float(b, x_or_z(b, i)))
      keel_emit_fail(b->g.all, KD_INVALID_ARGUMENT,
                     "tensor %u of xs is of %s, and must be of floats",
                     (unsigned)i, keel_dtype_name(named));
    if (named != given && named != KD_NONE && given != KD_NONE)
      keel_emit_fail(b->g.all, KD_INVALID_ARGUMENT,
                     "input %u is of %s, and the tensor that it stands for"
                     " of %s",
                     (unsigned)i, keel_dtype_name(given),
                     keel_dtype_name(named));
  }
}

static bool is_received(const keel_node *node) {
  return !strcmp(node->op->schema->name, "Receive") &&
         !strcmp(node->op->schema->domain, "keel");
}

/* Values that depend on the xs, and values that are replaced where the gradient is taken. */
static void find_dependent(between *b) {
  const keel_function *function = b->g.all->function;
  for (uint32_t i = 0; i < b->xs + b->zs; i++) {
    uint32_t named = x_or_z(b, i);
    b->g.depends[named] |= i < b->xs;
    b->g.at[named] = keel_emit_in(b->g.all, i);
    b->moves[named] |= b->g.at[named] != named;
  }
  for (uint32_t i = 0; i < b->ordered; i++) {
    const keel_node *node = &function->nodes[b->order[i]];
    bool depends = false, moves = false;
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t value = node->inputs[k];
      depends |= value != KEEL_ABSENT && b->g.depends[value];
      moves |= value != KEEL_ABSENT && b->moves[value];
    }
    depends |= is_received(node); /* on what another rank has, perhaps */
    for (uint32_t k = 0; k < node->output_count; k++) {
      uint32_t value = node->outputs[k];
      if (value == KEEL_ABSENT) continue;
      b->g.depends[value] = depends && gradient_is_float(b, value);
      b->moves[value] = moves;
    }
  }
}

/* Gradients of gradients grow as powers do. */
static bool gradient_is_small(keel_emit *all) {
  if (all->function->node_count > NODES_MOST)
    keel_emit_fail(all, KD_OUT_OF_RANGE,
                   "the graph amounts to more than %d nodes; take fewer "
                   "gradients of gradients",
                   NODES_MOST);
  return all->status == KD_OK;
}

/* Writes a node again, for the values at which the gradient is taken. */
static void write_again(between *b, uint32_t index) {
  keel_emit *all = b->g.all;
  const keel_node node = all->function->nodes[index];
  uint32_t n = node.input_count, m = node.output_count;
  bool moves = false;
  for (uint32_t k = 0; k < m; k++)
    moves |= node.outputs[k] != KEEL_ABSENT && b->moves[node.outputs[k]];
  if (!moves || !gradient_is_small(all)) return;
  uint32_t *values = keel_arena_take(all->function->arena,
                                     ((size_t)n + m + 1) * sizeof *values);
  if (!values) {
    all->status = KD_OUT_OF_MEMORY;
    return;
  }
  for (uint32_t k = 0; k < n; k++)
    values[k] =
        node.inputs[k] == KEEL_ABSENT ? KEEL_ABSENT : b->g.at[node.inputs[k]];
  for (uint32_t k = 0; k < m; k++)
    values[n + k] = node.outputs[k]; /* absent ones stay absent */
  keel_emit_again(all, node.op, values, n, values + n, m);
  for (uint32_t k = 0; k < m; k++)
    if (node.outputs[k] != KEEL_ABSENT)
      b->g.at[node.outputs[k]] = values[n + k];
}

/* ---- from y back --------------------------------------------------------------------------- */

static void go_back(between *b, uint32_t index) {
  keel_gradient *g = &b->g;
  g->node = g->all->function->nodes[index];
  bool wanted = is_received(&g->node), has = false;
  for (uint32_t i = 0; i < g->node.input_count; i++)
    wanted |= keel_gradient_wants(g, i);
  for (uint32_t i = 0; i < g->node.output_count; i++)
    has |= keel_gradient_got(g, i) != KEEL_ABSENT;
  if (!wanted || !has || !gradient_is_small(g->all)) return;
  const keel_schema *schema = g->node.op->schema;
  if (schema->gradient)
    schema->gradient(g);
  else if (schema->slopes)
    keel_gradient_text(g, schema->slopes);
  else
    keel_gradient_refuse(g, "has no gradient in Keel");
}

static void write_gradient(between *b, uint32_t y) {
  keel_gradient *g = &b->g;
  for (uint32_t i = 0; i < b->ordered; i++)
    write_again(b, b->order[i]);
  uint32_t at_y = g->at[y];
  if (g->depends[y])
    g->sums[y] = keel_gradient_wide(g, keel_emit_number(g->all, 1, at_y),
                                    keel_gradient_shape(g, at_y));
  for (uint32_t i = b->ordered; i-- > 0;)
    go_back(b, b->order[i]);
  for (uint32_t i = 0; i < b->xs; i++) {
    if (!keel_emit_wants(g->all, i)) continue;
    uint32_t sum = g->sums[x_or_z(b, i)], x = keel_emit_in(g->all, i);
    if (sum == KEEL_ABSENT)
      sum = keel_gradient_wide(g, keel_gradient_zero(g, x),
                               keel_gradient_shape(g, x));
    keel_emit_give(g->all, i, sum);
  }
}

/* Of values and nodes as there are before anything is added. */
static keel_status gradient_make_room(between *b) {
  const keel_function *function = b->g.all->function;
  size_t values = (size_t)function->value_count + 1;
  size_t nodes = (size_t)function->node_count + 1;
  b->g.count = function->value_count;
  b->g.at = calloc(values, sizeof *b->g.at);
  b->g.sums = calloc(values, sizeof *b->g.sums);
  b->g.depends = calloc(values, 1);
  b->ends = calloc(values, 1);
  b->moves = calloc(values, 1);
  b->seen = calloc(nodes, 1);
  b->order = calloc(nodes, sizeof *b->order);
  if (!b->g.at || !b->g.sums || !b->g.depends || !b->ends || !b->moves ||
      !b->seen || !b->order)
    return keel_no_memory(values * sizeof(uint32_t));
  for (uint32_t i = 0; i < function->value_count; i++) {
    b->g.at[i] = i;
    b->g.sums[i] = KEEL_ABSENT;
  }
  return KD_OK;
}

static void gradient_drop(between *b) {
  free(b->g.at);
  free(b->g.sums);
  free(b->g.depends);
  free(b->ends);
  free(b->moves);
  free(b->seen);
  free(b->order);
}

/* The node's inputs are values for the xs and zs, these, and y. */
static bool gradient_read_node(between *b) {
  const keel_node *node = &b->g.all->node;
  const keel_node_attr *xs = keel_attr_find(node->op, "xs");
  const keel_node_attr *zs = keel_attr_find(node->op, "zs");
  b->xs = xs ? xs->value.count : 0;
  b->zs = zs ? zs->value.count : 0;
  bool fits = b->xs && node->input_count == 2 * ((uint64_t)b->xs + b->zs) + 1 &&
              node->output_count <= b->xs;
  for (uint32_t i = 0; fits && i < node->input_count; i++)
    fits = node->inputs[i] != KEEL_ABSENT;
  return fits;
}

static void expand_gradient(keel_emit *all) {
  between b = {.g = {.all = all}};
  if (!gradient_read_node(&b)) {
    keel_emit_fail(all, KD_INVALID_ARGUMENT,
                   "takes a value for each tensor of xs and zs, returns one "
                   "for each of xs, and works in ONNX files only, whose values "
                   "have the names of these");
    return;
  }
  uint32_t y = keel_emit_in(all, all->node.input_count - 1);
  all->status = gradient_make_room(&b);
  for (uint32_t i = 0; all->status == KD_OK && i < b.xs + b.zs; i++)
    b.ends[x_or_z(&b, i)] = 1;
  if (all->status == KD_OK) all->status = order_nodes(&b, y);
  if (all->status == KD_OK) check_types(&b);
  if (all->status == KD_OK) {
    find_dependent(&b);
    write_gradient(&b, y);
  }
  gradient_drop(&b);
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    /* derivatives and optimisers, which are written with other ops. Gradient's inputs are values
     * for xs and zs, then these and y, which the importer finds by their names */
    {"ai.onnx.preview.training", "Gradient", 1, "any",
     "Inputs:any% -> Outputs:any%", "xs:S! y:s! zs:S", keel_shape_none, 0, 0,
     KEEL_BY_KERNEL, NULL},
};

static const keel_op_rule rules[] = {
    {"ai.onnx.preview.training::Gradient", .expand = expand_gradient},
};

const keel_op_table keel_ops_gradient = {KEEL_TABLE_ROWS(rows),
                                         KEEL_TABLE_RULES(rules)};
