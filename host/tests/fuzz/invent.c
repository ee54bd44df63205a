/* invent.c - a model of one node, as Keel's table of ops describes it: for ops that ONNX's
 * cases lack. */
#include <kd/host.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"
#include "onnx.pb-c.h"

#define MOST 8 /* inputs, or outputs */

typedef Onnx__ValueInfoProto port;

/* All that one model needs, at its place. */
typedef struct invention {
  Onnx__ModelProto model;
  Onnx__GraphProto graph;
  Onnx__NodeProto node, before;
  Onnx__OperatorSetIdProto opset;
  Onnx__AttributeProto attributes[MOST];
  port ports[2 * MOST];
  Onnx__TypeProto types[MOST];
  Onnx__TypeProto__Tensor tensors[MOST];
  Onnx__TensorShapeProto shapes[MOST];
  Onnx__TensorShapeProto__Dimension dims[MOST][2];
  Onnx__TensorShapeProto__Dimension *dim_list[MOST][2];
  Onnx__OperatorSetIdProto *opset_list[1];
  Onnx__NodeProto *node_list[2];
  Onnx__AttributeProto *attribute_list[MOST];
  port *input_list[MOST], *output_list[MOST];
  char *names_in[MOST], *names_out[MOST], *sequence[1];
  char names[2 * MOST + 1][4];
  int64_t ones[1];
  uint8_t word[32];
} invention;

/* An element type that the parameter takes: f32 where it can be. Its number is ONNX's, too. */
static int32_t type_of(const keel_param *param) {
  static const kd_dtype types[] = {KD_F32, KD_I64, KD_U8,
                                   KD_I8,  KD_I32, KD_BOOL};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!param->types || param->types & KD_TYPES(types[i]))
      return (int32_t)types[i];
  return KD_F32;
}

static char *name_of(invention *all, size_t number) {
  char *name = all->names[number];
  name[0] = 'v';
  name[1] = (char)('a' + number);
  return name;
}

/* Six by four; integers, which mostly say where or how many: one. */
static void add_input(invention *all, const keel_param *param, size_t at,
                      uint32_t rank_of_integers) {
  int32_t type = type_of(param);
  bool whole = type == KD_I64;
  uint32_t rank = whole ? rank_of_integers : 2;
  onnx__value_info_proto__init(&all->ports[at]);
  onnx__type_proto__init(&all->types[at]);
  onnx__type_proto__tensor__init(&all->tensors[at]);
  onnx__tensor_shape_proto__init(&all->shapes[at]);
  for (uint32_t i = 0; i < rank; i++) {
    Onnx__TensorShapeProto__Dimension *dim = &all->dims[at][i];
    onnx__tensor_shape_proto__dimension__init(dim);
    dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    dim->dim_value = rank == 1 ? 1 : i ? 4 : 6;
    all->dim_list[at][i] = dim;
  }
  all->shapes[at].n_dim = rank;
  all->shapes[at].dim = all->dim_list[at];
  all->tensors[at].has_elem_type = 1;
  all->tensors[at].elem_type = type;
  all->tensors[at].shape = &all->shapes[at];
  all->types[at].value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  all->types[at].tensor_type = &all->tensors[at];
  all->ports[at].type = &all->types[at];
  all->ports[at].name = name_of(all, at);
  all->input_list[at] = &all->ports[at];
  all->names_in[at] = all->ports[at].name;
}

/* A sequence comes from a node before: it holds the first input. */
static void add_sequence(invention *all) {
  static char op[] = "SequenceConstruct";
  all->sequence[0] = name_of(all, 2 * (size_t)MOST);
  onnx__node_proto__init(&all->before);
  all->before.op_type = op;
  all->before.n_input = all->before.n_output = 1;
  all->before.input = &all->ports[0].name;
  all->before.output = all->sequence;
  all->node_list[all->graph.n_node++] = &all->before;
  all->names_in[0] = all->sequence[0];
}

/* Those that must be there. */
static bool add_attribute(invention *all, const keel_attr_rule *rule) {
  Onnx__AttributeProto *made = &all->attributes[all->node.n_attribute];
  if (!rule->required) return true;
  if (all->node.n_attribute == MOST) return false;
  onnx__attribute_proto__init(made);
  made->name = (char *)(uintptr_t)rule->name;
  made->has_type = 1;
  made->type = (Onnx__AttributeProto__AttributeType)rule->kind;
  all->ones[0] = 1;
  if (rule->kind == KD_ATTR_INT) {
    made->has_i = 1;
    made->i = 1;
  } else if (rule->kind == KD_ATTR_INTS) {
    made->n_ints = 1;
    made->ints = all->ones;
  } else if (rule->kind == KD_ATTR_STRING) {
    const char *word = rule->choices ? rule->choices : "";
    made->has_s = 1;
    made->s.len = strcspn(word, "|");
    if (made->s.len > sizeof all->word) return false;
    memcpy(all->word, word, made->s.len);
    made->s.data = all->word;
  } else {
    return false; /* a graph or a tensor */
  }
  all->attribute_list[all->node.n_attribute++] = made;
  return true;
}

static bool add_node(invention *all, const keel_schema *schema,
                     uint32_t rank_of_integers) {
  Onnx__NodeProto *node = &all->node;
  onnx__node_proto__init(node);
  node->op_type = (char *)(uintptr_t)schema->name;
  node->domain = (char *)(uintptr_t)schema->domain;
  node->input = all->names_in;
  node->output = all->names_out;
  node->attribute = all->attribute_list;
  for (uint32_t i = 0; i < MOST && keel_schema_input(schema, i); i++) {
    const keel_param *param = keel_schema_input(schema, i);
    if (param->variadic && i > schema->input_count) break; /* two of them */
    add_input(all, param, i, rank_of_integers);
    node->n_input++;
    if (!i && strstr(param->name, "sequence")) add_sequence(all);
  }
  for (uint32_t i = 0; i < schema->output_count && i < MOST; i++) {
    all->names_out[i] = name_of(all, MOST + i);
    onnx__value_info_proto__init(&all->ports[MOST + i]);
    all->ports[MOST + i].name = all->names_out[i];
    all->output_list[i] = &all->ports[MOST + i];
    node->n_output++;
  }
  for (uint32_t i = 0; i < schema->attr_count; i++)
    if (!add_attribute(all, &schema->attrs[i])) return false;
  return true;
}

uint8_t *fuzz_invent(const keel_schema *schema, uint32_t rank_of_integers,
                     size_t *out_size) {
  static char graph_name[] = "invented";
  invention *all = calloc(1, sizeof *all);
  uint8_t *made = NULL;
  if (!all) abort();
  onnx__model_proto__init(&all->model);
  onnx__graph_proto__init(&all->graph);
  onnx__operator_set_id_proto__init(&all->opset);
  if (add_node(all, schema, rank_of_integers)) {
    all->graph.name = graph_name;
    all->node_list[all->graph.n_node++] = &all->node;
    all->graph.node = all->node_list;
    all->graph.n_input = all->node.n_input;
    all->graph.input = all->input_list;
    all->graph.n_output = all->node.n_output;
    all->graph.output = all->output_list;
    all->opset.has_version = 1;
    all->opset.version = schema->since > 18 ? schema->since : 18;
    all->opset_list[0] = &all->opset;
    all->model.has_ir_version = 1;
    all->model.ir_version = 8;
    all->model.n_opset_import = 1;
    all->model.opset_import = all->opset_list;
    all->model.graph = &all->graph;
    *out_size = onnx__model_proto__get_packed_size(&all->model);
    made = malloc(*out_size + 1);
    if (made) onnx__model_proto__pack(&all->model, made);
  }
  free(all);
  return made;
}
