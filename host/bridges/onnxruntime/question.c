/* question.c - whether a device takes a node.
 *
 * A program of the node alone is made as the program of a partition is, and Keel
 * is asked whether the device runs it by itself. Unless it says yes, the question
 * is asked again with sizes for those that are open: those that the node's other
 * dimensions have, then some that are usual. If the device takes one of them, it
 * takes the node. If it says no, that holds. If the first answer was that it
 * depends, and no sizes fit the op, what counts is whether the device has kernels
 * for its element types. An op with bodies, in which sizes may change from round to round, is
 * taken if each node of them is. Should the device still refuse the sizes of a
 * run, Keel runs the op on another of its devices. */
#include <stdlib.h>

#include <string.h>

#include "bridge.h"

static const int64_t usual_sizes[] = {8, 1, 2, 224};
static const uint32_t ranks[] = {4, 3, 2, 1, 0, 5};

typedef enum answer { YES, NO, OPEN, UNFIT } answer;

typedef struct question {
  const target *to;
  const opsets *imports;
  const ort_node *node;
  ort_status *refusal; /* the text of the last answer; NULL: it was yes */
  bool unranked;       /* an input has no known rank */
  bool sizes_open;     /* or has an open dimension */
  int64_t sizes[SIZES_SEEN + COUNT_OF(usual_sizes)]; /* to ask with again */
  uint32_t size_count;
} question;

/* ---- one question ------------------------------------------------------------ */

/* Makes outputs of all values of the node that are wanted. */
static ort_status *question_add_outputs(translation *program,
                                        const value_list *out) {
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

static ort_status *make_program(const question *one, translation *made,
                                keel_program **out) {
  value_list outputs;
  TRY(translate_node(made, one->node));
  TRY(node_outputs(one->node, &outputs));
  ort_status *failed = question_add_outputs(made, &outputs);
  free(outputs.items);
  if (failed) return failed;
  TRY_KEEL(keel_builder_finish(made->builder, out));
  return NULL;
}

static answer answer_of(keel_status status) {
  return status == KD_OK                    ? YES
         : status == KD_UNIMPLEMENTED       ? NO
         : status == KD_FAILED_PRECONDITION ? OPEN
                                            : UNFIT;
}

static answer ask_program(question *one, translation *made) {
  keel_program *program = NULL;
  one->refusal = make_program(one, made, &program);
  if (one->refusal)
    return ort->GetErrorCode(one->refusal) == ORT_NOT_IMPLEMENTED ? NO : UNFIT;
  keel_status status =
      keel_program_support(program, one->to->device, NULL, NULL);
  if (status != KD_OK) one->refusal = keel_failure(status);
  keel_program_release(program);
  return answer_of(status);
}

static void question_forget(question *one) {
  if (one->refusal) ort->ReleaseStatus(one->refusal);
  one->refusal = NULL;
}

static answer question_ask(question *one, stand_in with, translation *made) {
  answer found = UNFIT;
  question_forget(one);
  one->refusal = translation_begin(made, one->to->context, one->imports,
                                   "question", &with);
  if (!one->refusal) found = ask_program(one, made);
  translation_end(made);
  return found;
}

/* As the graph has it. */
static answer ask_first(question *one) {
  translation made;
  answer found = question_ask(one, (stand_in){0}, &made);
  one->unranked = made.unranked;
  one->sizes_open = made.open;
  for (uint32_t i = 0; i < made.seen_count; i++)
    one->sizes[one->size_count++] = made.seen[i];
  for (uint32_t i = 0; i < COUNT_OF(usual_sizes); i++)
    one->sizes[one->size_count++] = usual_sizes[i];
  return found;
}

/* ---- where it depends on open sizes ---------------------------------------------- */

/* YES if some sizes are taken, NO if all that fit are refused, else OPEN. */
static answer ask_sizes(question *one) {
  size_t rank_count = one->unranked ? COUNT_OF(ranks) : 1;
  answer found = OPEN;
  for (size_t r = 0; r < rank_count; r++) {
    for (uint32_t s = 0; s < one->size_count; s++) {
      translation made;
      stand_in with = {.rank = ranks[r], .size = one->sizes[s]};
      answer said = question_ask(one, with, &made);
      if (said == YES) return YES;
      if (said == NO) found = NO;
    }
  }
  return found;
}

/* Whether the device has kernels for the element types. */
static answer ask_types(question *one) {
  if (!one->unranked) return YES; /* that was asked first */
  for (size_t r = 0; r < COUNT_OF(ranks); r++) {
    translation made;
    answer said =
        question_ask(one, (stand_in){.rank = ranks[r], .size = -1}, &made);
    if (said == YES || said == OPEN) return YES;
  }
  return NO;
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

static bool takes_graphs(const question *one, const graph_list *graphs) {
  for (size_t i = 0; i < graphs->count; i++)
    if (!takes_graph(one, graphs->items[i])) return false;
  return true;
}

/* Whether each node of the node's bodies is taken; no if it has none. */
static bool takes_bodies(const question *one) {
  graph_list graphs;
  ort_status *status = node_graphs(one->node, &graphs);
  if (status) {
    ort->ReleaseStatus(status);
    return false;
  }
  return graphs.count && takes_graphs(one, &graphs);
}

static bool takes_open(question *one) {
  answer found = ask_sizes(one);
  return found == YES || takes_bodies(one) ||
         (found == OPEN && ask_types(one) == YES);
}

/* ---- the answer ---------------------------------------------------------------- */

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

/* What may drop in a run would fail there: no size changes that. */
static bool is_dropout(const ort_node *node) {
  const char *op = "";
  ort_status *status = ort->Node_GetOperatorType(node, &op);
  if (status) ort->ReleaseStatus(status);
  return !strcmp(op, "Dropout");
}

bool target_takes(const target *one, const opsets *imports,
                  const ort_node *node) {
  question asked = {.to = one, .imports = imports, .node = node};
  answer found = ask_first(&asked);
  if (found == OPEN && is_dropout(node)) found = NO;
  bool takes = found == YES || (found == OPEN && takes_open(&asked)) ||
               (found == NO && asked.sizes_open && ask_sizes(&asked) == YES);
  if (!takes && asked.refusal) say_why(one, node, asked.refusal);
  question_forget(&asked);
  return takes;
}
