/* fingerprint.c - hashes of graphs, by which compiled forms are found.
 *
 * Equal graphs have equal hashes in every process. They cover ops, attributes, types, edges
 * and the data of constants, but not the model's names. */
#include "program/fingerprint.h"

#include "program/graph.h"

typedef keel_fingerprint sums;

static void fingerprint_add(sums *s, const void *bytes, size_t size) {
  s->a = keel_hash(s->a, bytes, size);
  s->b = keel_hash(s->b, bytes, size);
}

#define MIX_A UINT64_C(0x9e3779b97f4a7c15) /* odd, with bits all over */
#define MIX_B UINT64_C(0xbf58476d1ce4e5b9)

/* The same for large data, eight bytes at a time: weights are read at the speed of memory. High
 * bits come down between words, so that no two changes cancel out there. */
static void add_words(sums *s, const void *bytes, size_t size) {
  const unsigned char *at = bytes;
  for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    at += sizeof word;
    s->a = (s->a ^ word) * MIX_A;
    s->b = (s->b ^ word) * MIX_B;
    s->a ^= s->a >> 32;
    s->b ^= s->b >> 29;
  }
  fingerprint_add(s, at, size);
}

static void add_number(sums *s, uint64_t number) {
  fingerprint_add(s, &number, sizeof number);
}

static void add_text(sums *s, const char *text) {
  fingerprint_add(s, text, strlen(text) + 1);
}

static void add_type(sums *s, const keel_type *type) {
  if (!type) {
    add_number(s, 0);
    return;
  }
  add_number(s, type->dtype);
  add_number(s, type->rank);
  if (type->rank == KD_RANK_UNKNOWN) return;
  fingerprint_add(s, type->dims, type->rank * sizeof *type->dims);
}

static void add_tensor(sums *s, const keel_tensor *tensor) {
  if (!tensor || !tensor->type) return;
  add_type(s, tensor->type);
  add_words(s, tensor->data, (size_t)tensor->type->bytes);
}

static void add_graph(sums *s, const struct kd_graph *graph);

static void add_attr(sums *s, const keel_attr *attr) {
  add_text(s, attr->name);
  add_number(s, attr->kind);
  add_number(s, attr->count);
  switch (attr->kind) {
    case KD_ATTR_INT:
      add_number(s, (uint64_t)attr->i);
      break;
    case KD_ATTR_FLOAT:
      fingerprint_add(s, &attr->f, sizeof attr->f);
      break;
    case KD_ATTR_STRING:
      add_text(s, attr->s);
      break;
    case KD_ATTR_INTS:
      fingerprint_add(s, attr->ints, attr->count * sizeof *attr->ints);
      break;
    case KD_ATTR_FLOATS:
      fingerprint_add(s, attr->floats, attr->count * sizeof *attr->floats);
      break;
    case KD_ATTR_GRAPH: /* its contents come next */
      break;
    case KD_ATTR_STRINGS:
      for (uint32_t i = 0; i < attr->count; i++)
        add_text(s, attr->strings[i]);
      break;
    default:
      add_tensor(s, attr->tensor);
      break;
  }
}

/* The meaning of value ids depends on the graph alone: they are numbered as the plugin sees
 * them. */
static void fingerprint_add_node(sums *s, const struct kd_graph *graph,
                                 uint32_t index) {
  const struct kd_node *node = &graph->nodes[index];
  const keel_schema *schema = node->op->schema;
  add_text(s, schema->domain);
  add_text(s, schema->name);
  add_number(s, schema->since);
  for (uint32_t i = 0; i < node->op->attr_count; i++) {
    add_attr(s, &node->op->attrs[i].value);
    if (node->graphs && node->graphs[i]) add_graph(s, node->graphs[i]);
  }
  add_number(s, node->input_count);
  add_number(s, node->output_count);
  for (uint32_t i = 0; i < node->input_count; i++) {
    add_number(s, keel_graph_table.node_input(graph, index, i));
    add_type(s, node->inputs[i]);
    if (node->constants) add_tensor(s, node->constants[i]);
  }
  for (uint32_t i = 0; i < node->output_count; i++) {
    add_number(s, keel_graph_table.node_output(graph, index, i));
    add_type(s, node->outputs[i]);
  }
}

static void add_graph(sums *s, const struct kd_graph *graph) {
  add_number(s, graph->node_count);
  for (uint32_t i = 0; i < graph->node_count; i++)
    fingerprint_add_node(s, graph, i);
  for (uint32_t i = 0; i < graph->input_count; i++)
    add_number(s, graph->inputs[i]);
  for (uint32_t i = 0; i < graph->output_count; i++) {
    uint32_t value = graph->outputs[i];
    add_number(s, value);
    add_tensor(s, graph->function->values[value].constant);
  }
}

keel_fingerprint keel_graph_fingerprint(const struct kd_graph *graph) {
  sums s = {KEEL_HASH_SEED, ~KEEL_HASH_SEED};
  add_graph(&s, graph);
  return s;
}
