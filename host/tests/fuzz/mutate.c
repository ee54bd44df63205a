/* mutate.c - changes of a ModelProto. What is made lives in an arena for one mutant. */
#include "mutate.h"

#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"

typedef Onnx__ModelProto model;
typedef Onnx__GraphProto graph;
typedef Onnx__NodeProto node;
typedef Onnx__AttributeProto attribute;
typedef Onnx__TensorProto tensor;

/* ---- memory of a mutant ------------------------------------------------------ */

typedef struct block {
  struct block *next;
  max_align_t data[];
} block;

static void *take(void *arena, size_t size) {
  block **list = arena;
  block *made = calloc(1, sizeof *made + size + 1);
  if (!made) abort();
  made->next = *list;
  *list = made;
  return made->data;
}

static void leave(void *arena, void *memory) {
  (void)arena;
  (void)memory;
}

static void drop(block *list) {
  while (list) {
    block *next = list->next;
    free(list);
    list = next;
  }
}

typedef struct mutant {
  fuzz_random *random;
  block *arena;
  model *model;
  node **nodes; /* of all graphs and functions */
  graph **graphs;
  tensor **tensors;
  char **names; /* of values */
  size_t node_count, graph_count, tensor_count, name_count;
} mutant;

#define PICK(all, what) \
  ((all)->what##s[fuzz_below((all)->random, (all)->what##_count)])

static char *text(mutant *all, const char *from) {
  char *copy = take(&all->arena, strlen(from) + 1);
  strcpy(copy, from);
  return copy;
}

/* One of the words of a list, between which a blank stands. */
static char *one_of(mutant *all, const char *list) {
  uint64_t count = 1;
  for (const char *at = list; (at = strchr(at, ' ')); at++)
    count++;
  for (uint64_t left = fuzz_below(all->random, count); left; left--)
    list = strchr(list, ' ') + 1;
  char *word = text(all, list);
  word[strcspn(word, " ")] = 0;
  return word;
}

/* A list with room for one more entry. */
static void *longer(mutant *all, const void *from, size_t count, size_t each) {
  char *list = take(&all->arena, (count + 1) * each);
  if (count) memcpy(list, from, count * each);
  return list;
}

/* ---- all that there is --------------------------------------------------------- */

static void collect_graph(mutant *all, graph *from);

static void note(mutant *all, void *list_of, size_t *count, const void *entry) {
  void ***list = list_of;
  *list = longer(all, *list, *count, sizeof **list);
  (*list)[(*count)++] = (void *)(uintptr_t)entry;
}

static void collect_nodes(mutant *all, node **nodes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    note(all, &all->nodes, &all->node_count, nodes[i]);
    for (size_t k = 0; k < nodes[i]->n_output; k++)
      note(all, &all->names, &all->name_count, nodes[i]->output[k]);
    for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
      attribute *attr = nodes[i]->attribute[k];
      if (attr->g) collect_graph(all, attr->g);
      if (attr->t) note(all, &all->tensors, &all->tensor_count, attr->t);
    }
  }
}

static void collect_graph(mutant *all, graph *from) {
  note(all, &all->graphs, &all->graph_count, from);
  for (size_t i = 0; i < from->n_initializer; i++) {
    note(all, &all->tensors, &all->tensor_count, from->initializer[i]);
    if (from->initializer[i]->name)
      note(all, &all->names, &all->name_count, from->initializer[i]->name);
  }
  for (size_t i = 0; i < from->n_input; i++)
    if (from->input[i]->name)
      note(all, &all->names, &all->name_count, from->input[i]->name);
  collect_nodes(all, from->node, from->n_node);
}

static void collect(mutant *all) {
  static char none[] = "", odd[] = "nothing makes this";
  note(all, &all->names, &all->name_count, none);
  note(all, &all->names, &all->name_count, odd);
  if (all->model->graph) collect_graph(all, all->model->graph);
  for (size_t i = 0; i < all->model->n_functions; i++)
    collect_nodes(all, all->model->functions[i]->node,
                  all->model->functions[i]->n_node);
}

/* ---- attributes ------------------------------------------------------------------ */

static void change_ints(mutant *all, attribute *attr) {
  uint64_t how = fuzz_below(all->random, 6);
  attr->ints = longer(all, attr->ints, attr->n_ints, sizeof *attr->ints);
  if (how == 0)
    attr->ints[attr->n_ints++] = fuzz_int(all->random);
  else if (how == 1 && attr->n_ints)
    attr->n_ints--;
  else if (how == 2 && attr->n_ints > 1)
    attr->ints[fuzz_below(all->random, attr->n_ints)] = attr->ints[0];
  else if (attr->n_ints)
    attr->ints[fuzz_below(all->random, attr->n_ints)] = fuzz_int(all->random);
}

static void change_text(mutant *all, attribute *attr) {
  static const char words[] =
      " SAME_UPPER SAME_LOWER VALID NOTSET linear cubic nearest bilinear "
      "none sum mean mul add max min constant reflect edge wrap DCR CRD tanh "
      "RIGHT LEFT forward reverse bidirectional Sigmoid Affine ij,jk->ik "
      "...ii->...i -> i,i,i %s%n tf_crop_and_resize align_corners half_pixel "
      "asymmetric zeros border";
  char *word = one_of(all, words);
  attr->s.data = (uint8_t *)word;
  attr->s.len = strlen(word);
}

static void change_value(mutant *all, attribute *attr) {
  if (attr->n_ints) change_ints(all, attr);
  if (attr->has_i) attr->i = fuzz_int(all->random);
  if (attr->has_f) attr->f = (float)fuzz_real(all->random);
  if (attr->has_s) change_text(all, attr);
  if (attr->n_floats) {
    attr->floats =
        longer(all, attr->floats, attr->n_floats, sizeof *attr->floats);
    attr->floats[fuzz_below(all->random, attr->n_floats)] =
        (float)fuzz_real(all->random);
  }
}

static void add_attribute(mutant *all, node *to, attribute *from) {
  to->attribute =
      longer(all, to->attribute, to->n_attribute, sizeof *to->attribute);
  to->attribute[to->n_attribute++] = from;
}

/* An attribute that the op may have, by Keel's table of ops; NULL: there is none. */
static const keel_attr_rule *rule_for(mutant *all, const node *to) {
  const char *domain = to->domain ? to->domain : "";
  const keel_schema *schema =
      to->op_type ? keel_schema_find(domain, to->op_type) : NULL;
  return schema && schema->attr_count
             ? &schema->attrs[fuzz_below(all->random, schema->attr_count)]
             : NULL;
}

static void drop_named(node *from, const char *name) {
  size_t count = 0;
  for (size_t i = 0; i < from->n_attribute; i++)
    if (!from->attribute[i]->name ||
        strcmp(from->attribute[i]->name, name) != 0)
      from->attribute[count++] = from->attribute[i];
  from->n_attribute = count;
}

/* As many as another list of the node has, or a pair for each of its entries, as pads are:
 * another count is refused at once. */
static void make_ints(mutant *all, const node *to, attribute *made) {
  size_t count = fuzz_below(all->random, 5);
  bool small = !fuzz_once_in(all->random, 3);
  for (size_t i = 0; i < to->n_attribute && small; i++)
    if (to->attribute[i]->n_ints && to->attribute[i]->n_ints <= 8)
      count = to->attribute[i]->n_ints * (1 + fuzz_below(all->random, 2));
  made->n_ints = count;
  made->ints = take(&all->arena, 20 * sizeof *made->ints);
  for (size_t i = 0; i < count; i++)
    made->ints[i] =
        small ? (int64_t)fuzz_below(all->random, 4) : fuzz_int(all->random);
}

/* Sets one of the op's attributes to something. */
static void add_named(mutant *all, node *to) {
  const keel_attr_rule *rule = rule_for(all, to);
  attribute *made = take(&all->arena, sizeof *made);
  onnx__attribute_proto__init(made);
  made->name = text(all, rule ? rule->name : "axis");
  made->has_type = 1;
  made->type = rule ? (Onnx__AttributeProto__AttributeType)rule->kind
                    : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  switch (made->type) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
      made->has_f = 1;
      made->f = (float)fuzz_real(all->random);
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
      made->has_s = 1;
      change_text(all, made);
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
      make_ints(all, to, made);
      break;
    default:
      made->has_i = 1;
      made->i = fuzz_once_in(all->random, 2) ? 1 : fuzz_int(all->random);
  }
  drop_named(to, made->name);
  add_attribute(all, to, made);
}

/* One more output, which the op may have. */
static void add_output(mutant *all) {
  node *to = PICK(all, node);
  to->output = longer(all, to->output, to->n_output, sizeof *to->output);
  to->output[to->n_output++] = text(all, "one more");
}

/* A graph inside of itself would have no end. */
static bool has_graph(const node *at) {
  for (size_t i = 0; i < at->n_attribute; i++)
    if (at->attribute[i]->g) return true;
  return false;
}

static void change_attribute(mutant *all) {
  node *at = PICK(all, node);
  uint64_t how = fuzz_below(all->random, 14);
  attribute *attr =
      at->n_attribute ? at->attribute[fuzz_below(all->random, at->n_attribute)]
                      : NULL;
  if (!attr || how == 0 || how > 9) {
    add_named(all, at);
  } else if (how == 1) {
    at->n_attribute--;
  } else if (how == 2) {
    add_attribute(all, at, attr); /* twice */
  } else if (how == 3) {
    attr->type =
        (Onnx__AttributeProto__AttributeType)fuzz_below(all->random, 15);
    attr->has_type = fuzz_once_in(all->random, 2);
  } else if (how == 4) {
    node *from = PICK(all, node);
    if (from->n_attribute && !has_graph(from))
      add_attribute(all, at, from->attribute[0]);
  } else {
    change_value(all, attr);
  }
}

/* ---- edges and nodes -------------------------------------------------------------- */

static void change_edge(mutant *all) {
  node *at = PICK(all, node);
  uint64_t how = fuzz_below(all->random, 8);
  at->input = longer(all, at->input, at->n_input, sizeof *at->input);
  at->output = longer(all, at->output, at->n_output, sizeof *at->output);
  size_t in = fuzz_below(all->random, at->n_input);
  size_t out = fuzz_below(all->random, at->n_output);
  if (how == 0)
    at->input[at->n_input++] = PICK(all, name);
  else if (how == 1 && at->n_input)
    at->n_input--;
  else if (how == 2 && at->n_input)
    at->input[in] = text(all, "");
  else if (how == 3 && at->n_output)
    at->output[out] = PICK(all, name);
  else if (how == 4) {
    at->output[at->n_output] = at->n_output ? at->output[0] : text(all, "z");
    at->n_output++;
  } else if (how == 5 && at->n_output)
    at->n_output--;
  else if (at->n_input)
    at->input[in] = PICK(all, name);
}

static void change_op(mutant *all) {
  static const char ops[] =
      "Add Relu Identity Slice Reshape Concat Split Gather MatMul Conv "
      "MaxPool ReduceSum Cast Shape If Loop Scan SequenceAt SplitToSequence "
      "Optional Where Pad Expand Range TopK Softmax PRelu Upsample Resize "
      "Transpose Squeeze Unsqueeze NonZero Einsum Tile ConstantOfShape "
      "QuantizeLinear LSTM Gemm BatchNormalization SequenceMap "
      "SequenceConstruct ConcatFromSequence Scatter";
  node *at = PICK(all, node);
  if (fuzz_once_in(all->random, 3))
    at->op_type = PICK(all, node)->op_type;
  else
    at->op_type = one_of(all, ops);
  if (fuzz_once_in(all->random, 8))
    at->domain = text(all, fuzz_once_in(all->random, 2) ? "keel" : "other");
}

static void change_nodes(mutant *all) {
  graph *at = PICK(all, graph);
  uint64_t how = fuzz_below(all->random, 4);
  if (!at->n_node) return;
  at->node = longer(all, at->node, at->n_node, sizeof *at->node);
  size_t i = fuzz_below(all->random, at->n_node);
  if (how == 0) {
    node *again = PICK(all, node);
    if (!has_graph(again)) at->node[at->n_node++] = again;
  } else if (how == 1) {
    at->node[i] = at->node[--at->n_node];
  } else {
    node *first = at->node[0];
    at->node[0] = at->node[i];
    at->node[i] = first;
  }
}

/* ---- tensors and types ----------------------------------------------------------- */

static void change_tensor(mutant *all) {
  if (!all->tensor_count) return;
  tensor *at = PICK(all, tensor);
  uint64_t how = fuzz_below(all->random, 6);
  at->dims = longer(all, at->dims, at->n_dims, sizeof *at->dims);
  if (how == 0) {
    at->dims[at->n_dims++] = fuzz_int(all->random);
  } else if (how == 1 && at->n_dims) {
    at->n_dims--;
  } else if (how == 2 && at->n_dims) {
    at->dims[fuzz_below(all->random, at->n_dims)] = fuzz_int(all->random);
  } else if (how == 3) {
    at->data_type = (int32_t)fuzz_below(all->random, 26);
  } else if (at->has_raw_data && at->raw_data.len) {
    uint8_t *raw = take(&all->arena, at->raw_data.len + 8);
    memcpy(raw, at->raw_data.data, at->raw_data.len);
    int64_t value = fuzz_int(all->random);
    size_t where = fuzz_below(all->random, at->raw_data.len);
    if (how == 4) where = where / 8 * 8;
    memcpy(raw + where, &value, sizeof value);
    at->raw_data.data = raw;
    if (fuzz_once_in(all->random, 6))
      at->raw_data.len = fuzz_below(all->random, at->raw_data.len + 8);
  } else if (at->n_int64_data) {
    at->int64_data = longer(all, at->int64_data, at->n_int64_data, 8);
    at->int64_data[fuzz_below(all->random, at->n_int64_data)] =
        fuzz_int(all->random);
  } else if (at->n_float_data) {
    at->float_data = longer(all, at->float_data, at->n_float_data, 4);
    at->float_data[fuzz_below(all->random, at->n_float_data)] =
        (float)fuzz_real(all->random);
  }
}

static void change_type(mutant *all) {
  graph *at = PICK(all, graph);
  size_t ports = at->n_input + at->n_output;
  if (!ports) return;
  size_t i = fuzz_below(all->random, ports);
  Onnx__ValueInfoProto *port =
      i < at->n_input ? at->input[i] : at->output[i - at->n_input];
  Onnx__TypeProto__Tensor *type =
      port->type &&
              port->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
          ? port->type->tensor_type
          : NULL;
  if (!type || fuzz_once_in(all->random, 12)) {
    port->type = NULL;
  } else if (fuzz_once_in(all->random, 4)) {
    type->elem_type = (int32_t)fuzz_below(all->random, 26);
  } else if (type->shape && type->shape->n_dim) {
    Onnx__TensorShapeProto__Dimension *dim =
        type->shape->dim[fuzz_below(all->random, type->shape->n_dim)];
    dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    dim->dim_value = fuzz_once_in(all->random, 3)
                         ? fuzz_int(all->random)
                         : (int64_t)fuzz_below(all->random, 6);
    if (fuzz_once_in(all->random, 6)) type->shape->n_dim--;
  }
}

/* ---- versions, functions, nesting ------------------------------------------------- */

static void change_opset(mutant *all) {
  model *at = all->model;
  if (!at->n_opset_import) return;
  at->opset_import = longer(all, at->opset_import, at->n_opset_import,
                            sizeof *at->opset_import);
  Onnx__OperatorSetIdProto *made = take(&all->arena, sizeof *made);
  *made = *at->opset_import[0];
  made->version = fuzz_once_in(all->random, 8)
                      ? fuzz_int(all->random)
                      : (int64_t)fuzz_below(all->random, 24);
  if (fuzz_once_in(all->random, 4))
    at->opset_import[at->n_opset_import++] = made;
  else
    at->opset_import[0] = made;
}

/* A node becomes one of an old opset, with what only those have. */
static void age(mutant *all) {
  model *to = all->model;
  attribute *made = take(&all->arena, sizeof *made);
  if (!to->n_opset_import) return;
  Onnx__OperatorSetIdProto *opset = take(&all->arena, sizeof *opset);
  *opset = *to->opset_import[0];
  opset->version = 5 + (int64_t)fuzz_below(all->random, 9);
  to->opset_import = longer(all, to->opset_import, to->n_opset_import,
                            sizeof *to->opset_import);
  to->opset_import[0] = opset;
  onnx__attribute_proto__init(made);
  made->has_type = 1;
  if (fuzz_once_in(all->random, 2)) {
    made->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    made->name = one_of(all, "axis broadcast k spatial");
    made->has_i = 1;
    made->i = fuzz_int(all->random);
  } else {
    made->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    made->name = one_of(all, "axes starts ends split pads scales");
    made->ints = take(&all->arena, sizeof *made->ints);
    change_ints(all, made);
  }
  add_attribute(all, PICK(all, node), made);
}

/* Some nodes become a function, which takes and gives the values of one of them; a node
 * calls it, which may be one inside. */
static void add_function(mutant *all) {
  model *to = all->model;
  node *from = PICK(all, node);
  Onnx__FunctionProto *made = take(&all->arena, sizeof *made);
  onnx__function_proto__init(made);
  made->name = text(all, "F");
  made->domain = text(all, "other");
  made->n_input = from->n_input;
  made->input = from->input;
  made->n_output = from->n_output;
  made->output = from->output;
  made->n_node = 1 + fuzz_below(all->random, 3);
  made->node = take(&all->arena, 4 * sizeof *made->node);
  made->node[0] = from;
  for (size_t i = 1; i < made->n_node; i++)
    made->node[i] = PICK(all, node);
  made->n_opset_import = to->n_opset_import;
  made->opset_import = to->opset_import;
  to->functions =
      longer(all, to->functions, to->n_functions, sizeof *to->functions);
  to->functions[to->n_functions++] = made;
  node *call = take(&all->arena, sizeof *call);
  *call = *from;
  call->op_type = made->name;
  call->domain = made->domain;
  call->n_attribute = 0;
  graph *main = to->graph;
  for (size_t i = 0; main && i < main->n_node; i++)
    if (main->node[i] == from) main->node[i] = call;
}

/* A node becomes an If, a Loop or a Scan around itself. */
static void nest(mutant *all) {
  static const char *const ops[] = {"If", "Loop", "Scan", "SequenceMap"};
  static const char *const names[] = {"then_branch", "body", "body", "body"};
  uint64_t which = fuzz_below(all->random, 4);
  graph *around = PICK(all, graph);
  if (!around->n_node) return;
  size_t i = fuzz_below(all->random, around->n_node);
  node *inner = around->node[i], *outer = take(&all->arena, sizeof *outer);
  *outer = *inner;
  graph *body = take(&all->arena, sizeof *body);
  onnx__graph_proto__init(body);
  body->name = text(all, "body");
  body->node = take(&all->arena, sizeof *body->node);
  body->node[0] = inner;
  body->n_node = 1;
  body->output =
      take(&all->arena, (inner->n_output + 1) * sizeof *body->output);
  for (size_t k = 0; k < inner->n_output; k++) {
    body->output[k] = take(&all->arena, sizeof **body->output);
    onnx__value_info_proto__init(body->output[k]);
    body->output[k]->name = inner->output[k];
    body->n_output++;
  }
  outer->op_type = text(all, ops[which]);
  outer->n_attribute = 0;
  for (int k = 0; k < (which ? 1 : 2); k++) {
    attribute *made = take(&all->arena, sizeof *made);
    onnx__attribute_proto__init(made);
    made->name = text(all, k ? "else_branch" : names[which]);
    made->has_type = 1;
    made->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    made->g = body;
    add_attribute(all, outer, made);
  }
  around->node[i] = outer;
}

/* ---- a mutant -------------------------------------------------------------------------- */

static void change(mutant *all) {
  static void (*const changes[])(mutant *) = {change_attribute,
                                              change_attribute,
                                              change_attribute,
                                              change_edge,
                                              change_edge,
                                              change_op,
                                              change_nodes,
                                              change_tensor,
                                              change_tensor,
                                              change_type,
                                              change_type,
                                              change_opset,
                                              age,
                                              age,
                                              add_function,
                                              nest};
  if (!all->node_count || !all->graph_count) return;
  changes[fuzz_below(all->random, sizeof changes / sizeof *changes)](all);
}

uint8_t *fuzz_mutate(fuzz_random *random, const uint8_t *bytes, size_t size,
                     unsigned flags, size_t *out_size) {
  mutant all = {.random = random};
  ProtobufCAllocator allocator = {take, leave, &all.arena};
  uint8_t *made = NULL;
  all.model = onnx__model_proto__unpack(&allocator, size, bytes);
  if (all.model) {
    collect(&all);
    for (uint64_t i = 1 + fuzz_below(random, 4); i > 0; i--) {
      if (!(flags & FUZZ_ATTRIBUTES))
        change(&all);
      else if (all.node_count && fuzz_once_in(random, 6))
        add_output(&all);
      else if (all.node_count)
        change_attribute(&all);
    }
    *out_size = onnx__model_proto__get_packed_size(all.model);
    made = malloc(*out_size + 1);
    if (made) onnx__model_proto__pack(all.model, made);
  }
  drop(all.arena);
  return made;
}
