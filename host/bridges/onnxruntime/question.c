/* question.c - whether a device takes a node.
 *
 * A program of the node alone is made as the program of a partition is, and Keel
 * is asked whether the device runs it by itself. Where that depends on sizes
 * that are open, the question is asked again with some that are not: those that
 * the node's other dimensions have, then some that are usual. The element types,
 * the attributes and what is constant are then judged as in a run. An op with
 * bodies, in which sizes may change from round to round, is taken if each node
 * of them is. Should the device still refuse the sizes of a run, Keel runs the
 * op on another of its devices. */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

static const int64_t usual_sizes[] = {8, 1, 2, 224};
static const uint32_t ranks[] = {4, 3, 2, 1, 0, 5};

typedef struct question {
  const target *to;
  const opsets *imports;
  const ort_node *node;
  bool open;     /* the answer depends on sizes that are open */
  bool unranked; /* an input has no known rank */
  int64_t sizes[SIZES_SEEN + COUNT_OF(usual_sizes)]; /* to ask with again */
  uint32_t size_count;
} question;

/* Makes outputs of all values of the node that are wanted. */
static ort_status *add_outputs(translation *program, const value_list *out) {
  for (size_t i = 0; i < out->count; i++) {
    const char *name = NULL;
    TRY(value_name(out->items[i], &name));
    if (!*name) continue;
    value_type type; /* it must be one that can cross */
    TRY(value_type_get(out->items[i], &type));
    TRY(translate_output(program, out->items[i]));
  }
  return NULL;
}

static ort_status *ask_program(question *one, translation *program) {
  value_list out;
  TRY(translate_node(program, one->node));
  TRY(node_outputs(one->node, &out));
  ort_status *failed = add_outputs(program, &out);
  free(out.items);
  if (failed) return failed;
  keel_program *finished = NULL;
  TRY_KEEL(keel_builder_finish(program->builder, &finished));
  keel_status status =
      keel_program_support(finished, one->to->device, NULL, NULL);
  keel_program_release(finished);
  one->open = status == KD_FAILED_PRECONDITION;
  return status == KD_OK ? NULL : keel_failure(status);
}

/* NULL: yes. */
static ort_status *ask(question *one, const stand_in *with,
                       translation *program) {
  one->open = false;
  ort_status *status = translation_begin(program, one->to->context,
                                         one->imports, "question", with);
  if (!status) status = ask_program(one, program);
  translation_end(program);
  return status;
}

static ort_status *ask_first(question *one) {
  translation program;
  ort_status *status = ask(one, &(stand_in){0}, &program);
  one->unranked = program.unranked;
  for (uint32_t i = 0; i < program.seen_count; i++)
    one->sizes[one->size_count++] = program.seen[i];
  for (uint32_t i = 0; i < COUNT_OF(usual_sizes); i++)
    one->sizes[one->size_count++] = usual_sizes[i];
  return status;
}

static bool takes_some_sizes(question *one) {
  size_t rank_count = one->unranked ? COUNT_OF(ranks) : 1;
  for (size_t r = 0; r < rank_count; r++) {
    for (uint32_t s = 0; s < one->size_count; s++) {
      translation program;
      stand_in with = {.rank = ranks[r], .size = one->sizes[s]};
      ort_status *refusal = ask(one, &with, &program);
      if (!refusal) return true;
      ort->ReleaseStatus(refusal);
    }
  }
  return false;
}

static bool takes_graph(const question *one, const ort_graph *graph) {
  node_list nodes;
  ort_status *status = graph_nodes(graph, &nodes);
  bool takes = !status;
  for (size_t i = 0; i < nodes.count && takes; i++)
    takes = target_takes(one->to, one->imports, nodes.items[i]);
  free(nodes.items);
  if (status) ort->ReleaseStatus(status);
  return takes;
}

/* Whether each node of the node's bodies is taken; no if it has none. */
static bool takes_bodies(const question *one) {
  graph_list graphs;
  ort_status *status = node_graphs(one->node, &graphs);
  bool takes = !status && graphs.count;
  for (size_t i = 0; i < graphs.count && takes; i++)
    takes = takes_graph(one, graphs.items[i]);
  if (status) ort->ReleaseStatus(status);
  return takes;
}

static void say_why(const target *one, const ort_node *node,
                    const ort_status *refusal) {
  const char *op = "?", *name = "";
  ort_status *status = ort->Node_GetOperatorType(node, &op);
  if (!status) status = ort->Node_GetName(node, &name);
  if (status) ort->ReleaseStatus(status);
  log_line(one->logger, ORT_LOGGING_LEVEL_INFO,
           "%s does not take %s \"%s\": %s", one->name, op, name,
           ort->GetErrorMessage(refusal));
}

bool target_takes(const target *one, const opsets *imports,
                  const ort_node *node) {
  question asked = {.to = one, .imports = imports, .node = node};
  ort_status *refusal = ask_first(&asked);
  if (!refusal) return true;
  bool takes = asked.open && (takes_some_sizes(&asked) || takes_bodies(&asked));
  if (!takes) say_why(one, node, refusal);
  ort->ReleaseStatus(refusal);
  return takes;
}
