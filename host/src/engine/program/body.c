/* body.c - bodies in a builder: the branches of If, the bodies of Loop and Scan, and While, which
 * is made of Loop. */
#include "program/builder.h"

#include "device/device.h"
#include "ops/vendor.h"
#include "program/draft.h"

/* ---- starting and leaving one ----------------------------------------------------- */

static keel_status body_start(keel_builder *outer, const char *name,
                              keel_builder **out_body) {
  KEEL_TRY(keel_builder_open(outer));
  keel_builder *body = calloc(1, sizeof *body);
  if (!body) return keel_no_memory(sizeof *body);
  *out_body = body;
  body->context = outer->context;
  body->program = outer->program;
  body->body = true;
  body->outer = outer;
  body->next = outer->bodies;
  outer->bodies = body;
  for (uint32_t i = 0; i < outer->opset_count; i++) {
    if (!KEEL_ROOM(body->opsets, body->opset_count, body->opset_capacity))
      return KD_OUT_OF_MEMORY;
    body->opsets[body->opset_count++] = outer->opsets[i];
  }
  return keel_function_create(outer->context, &outer->program->arena,
                              &outer->program->functions, name,
                              &body->function);
}

keel_status keel_builder_body(keel_builder *outer, const char *name,
                              keel_builder **out_body) {
  *out_body = NULL;
  keel_status status = body_start(outer, name, out_body);
  if (status != KD_OK) {
    keel_builder_destroy(*out_body);
    *out_body = NULL;
  }
  return keel_builder_sticky(outer, status);
}

/* A function, and those that its nodes run, are no longer of the program. */
static void drop_function(keel_program *program, keel_function *function) {
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_opdef *op = function->nodes[i].op;
    for (uint32_t k = 0; k < op->attr_count; k++)
      if (op->attrs[k].graph) drop_function(program, op->attrs[k].graph);
  }
  keel_function **at = &program->functions;
  while (*at && *at != function)
    at = &(*at)->next;
  if (*at) *at = function->next;
  function->next = NULL;
  keel_functions_release(function);
}

void keel_builder_leave(keel_builder *body) {
  keel_builder *outer = body->outer;
  if (!outer) return;
  keel_builder **at = &outer->bodies;
  while (*at != body)
    at = &(*at)->next;
  *at = body->next;
  if (body->function) drop_function(body->program, body->function);
  body->function = NULL;
  body->outer = NULL;
}

void keel_builder_drop_bodies(keel_builder *builder) {
  while (builder->bodies) {
    keel_builder_drop_bodies(builder->bodies);
    keel_builder_leave(builder->bodies);
  }
}

/* ---- captures ----------------------------------------------------------------------- */

static keel_status capture(keel_builder *body, keel_value outer,
                           uint32_t *out_value) {
  KEEL_TRY(keel_builder_open(body));
  if (!body->body)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "the program itself has nothing around it to capture");
  const keel_function *around = body->outer->function;
  if (outer >= around->value_count)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "value %u is none of the builder around the body",
                     (unsigned)outer);
  const keel_value_info *info = &around->values[outer];
  for (uint32_t i = 0; i < body->capture_count; i++)
    if (body->captured[i] == outer) {
      *out_value = body->captures[i];
      return KD_OK;
    }
  uint32_t capacity = body->capture_capacity;
  if (info->constant) { /* constants are known everywhere */
    *out_value =
        keel_function_constant(body->function, info->name, info->constant);
    return *out_value == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
  }
  if (!KEEL_ROOM(body->captured, body->capture_count, capacity) ||
      !KEEL_ROOM(body->captures, body->capture_count, body->capture_capacity))
    return KD_OUT_OF_MEMORY;
  uint32_t value = keel_function_value(body->function, info->name);
  if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  body->function->values[value].type = info->type;
  body->captured[body->capture_count] = outer;
  body->captures[body->capture_count++] = value;
  *out_value = value;
  return KD_OK;
}

keel_value keel_builder_capture(keel_builder *body, keel_value outer) {
  uint32_t value = KEEL_ABSENT;
  keel_builder_sticky(body, capture(body, outer, &value));
  return value;
}

keel_status keel_builder_take_body(keel_builder *outer, keel_builder *body,
                                   const char *op,
                                   keel_function **out_function) {
  if (body->outer != outer)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "%s: the body was not started in this builder", op);
  keel_status status = keel_builder_open(body);
  if (status != KD_OK) return keel_while(status, "in a body of %s", op);
  keel_function *function = body->function;
  if (!function->output_count)
    return keel_fail(KD_INVALID_ARGUMENT, "%s: the body \"%s\" has no output",
                     op, function->name);
  for (keel_builder *inner = body->bodies; inner; inner = inner->next)
    if (inner->function)
      return keel_fail(KD_FAILED_PRECONDITION,
                       "%s: in its body \"%s\", the body \"%s\" was started,"
                       " and no op has taken it over",
                       op, function->name, inner->function->name);
  for (uint32_t i = 0; i < body->capture_count; i++)
    KEEL_TRY(keel_function_input(function, body->captures[i], NULL));
  function->capture_count = body->capture_count;
  body->function = NULL;
  *out_function = function;
  return KD_OK;
}

/* ---- While --------------------------------------------------------------------------- */

/* Loop's round is the body and then the condition; the condition stands before the loop,
 * too. */
typedef struct while_loop {
  keel_builder *builder, *condition_builder, *body_builder;
  keel_function *condition, *body, *round;
  const keel_value *inputs;
  uint32_t count;
  uint32_t *values; /* of a function that is written out: its inputs */
} while_loop;

static keel_status check_while(const while_loop *w) {
  uint32_t condition_own =
      w->condition->input_count - w->condition->capture_count;
  uint32_t body_own = w->body->input_count - w->body->capture_count;
  if (condition_own != w->count || body_own != w->count ||
      w->body->output_count != w->count || w->condition->output_count != 1)
    return keel_fail(
        KD_INVALID_ARGUMENT,
        "While of %u values: the condition has %u inputs and %u outputs (%u"
        " and 1 are needed), the body %u and %u (%u and %u are needed)",
        (unsigned)w->count, (unsigned)condition_own,
        (unsigned)w->condition->output_count, (unsigned)w->count,
        (unsigned)body_own, (unsigned)w->body->output_count, (unsigned)w->count,
        (unsigned)w->count);
  return KD_OK;
}

/* The condition on the values with which the loop begins. */
static keel_status condition_before(const while_loop *w,
                                    uint32_t *out_condition) {
  memcpy(w->values, w->inputs, w->count * sizeof *w->values);
  if (w->condition_builder->capture_count)
    memcpy(w->values + w->count, w->condition_builder->captured,
           w->condition_builder->capture_count * sizeof *w->values);
  return keel_function_inline(w->builder->function, w->condition,
                              &w->builder->program->functions, w->values,
                              out_condition);
}

static keel_status body_add_input(keel_function *function, const char *name,
                                  const keel_type *type, const keel_port *port,
                                  uint32_t *out_value) {
  uint32_t value = keel_function_value(function, name);
  if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  function->values[value].type = type;
  *out_value = value;
  return keel_function_input(function, value, port);
}

/* Inputs of the round: its number, whether it runs, what is carried, and what body and
 * condition capture. */
static keel_status add_round_inputs(while_loop *w, uint32_t *captures) {
  const keel_type *number = NULL, *flag = NULL;
  uint32_t none = 0, own = w->count;
  KEEL_TRY(keel_type_of(KD_I64, 0, NULL, &number));
  KEEL_TRY(keel_type_of(KD_BOOL, 0, NULL, &flag));
  KEEL_TRY(body_add_input(w->round, "round", number, NULL, &none));
  KEEL_TRY(body_add_input(w->round, "runs", flag, NULL, &none));
  for (uint32_t i = 0; i < own; i++)
    KEEL_TRY(body_add_input(w->round, w->body->input_ports[i].name,
                            w->body->values[w->body->inputs[i]].type,
                            &w->body->input_ports[i], &w->values[i]));
  for (int part = 0; part < 2; part++) {
    const keel_function *from = part ? w->condition : w->body;
    for (uint32_t i = 0; i < from->capture_count; i++)
      KEEL_TRY(body_add_input(w->round, from->input_ports[own + i].name,
                              from->values[from->inputs[own + i]].type, NULL,
                              captures++));
  }
  w->round->capture_count =
      w->body->capture_count + w->condition->capture_count;
  return KD_OK;
}

static keel_status make_round(while_loop *w, uint32_t *captures,
                              uint32_t *made) {
  const uint32_t own = w->count, inner = w->body->capture_count;
  keel_function **list = &w->builder->program->functions;
  uint32_t condition = KEEL_ABSENT;
  KEEL_TRY(add_round_inputs(w, captures));
  if (inner) memcpy(w->values + own, captures, inner * sizeof *captures);
  KEEL_TRY(keel_function_inline(w->round, w->body, list, w->values, made));
  memcpy(w->values, made, own * sizeof *made);
  if (w->condition->capture_count)
    memcpy(w->values + own, captures + inner,
           w->condition->capture_count * sizeof *captures);
  KEEL_TRY(keel_function_inline(w->round, w->condition, list, w->values,
                                &condition));
  KEEL_TRY(keel_function_output(w->round, condition, NULL));
  for (uint32_t i = 0; i < own; i++)
    KEEL_TRY(keel_function_output(w->round, made[i], NULL));
  return KD_OK;
}

static keel_status add_loop(const while_loop *w, uint32_t condition,
                            uint32_t *inputs, keel_value *outputs) {
  keel_builder *builder = w->builder;
  uint32_t count = 0;
  inputs[count++] = KEEL_ABSENT; /* no limit of rounds */
  inputs[count++] = condition;
  for (uint32_t i = 0; i < w->count; i++)
    inputs[count++] = w->inputs[i];
  for (uint32_t i = 0; i < w->body_builder->capture_count; i++)
    inputs[count++] = w->body_builder->captured[i];
  for (uint32_t i = 0; i < w->condition_builder->capture_count; i++)
    inputs[count++] = w->condition_builder->captured[i];
  for (uint32_t i = 0; i < w->count; i++) {
    outputs[i] = keel_function_value(builder->function, "");
    if (outputs[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  }
  keel_draft draft = {.function = builder->function,
                      .path = builder->function->name,
                      .name = builder->node_name ? builder->node_name : "",
                      .op = "Loop",
                      .domain = "",
                      .opset = KEEL_OPSET_KNOWN,
                      .inputs = inputs,
                      .input_count = count,
                      .outputs = outputs,
                      .output_count = w->count,
                      .outputs_written = w->count,
                      .attr_count = 1};
  keel_node *node = NULL;
  draft.attrs[0] = (keel_attr){.name = "body", .kind = KD_ATTR_GRAPH};
  draft.graphs[0] = w->round;
  KEEL_TRY(keel_draft_add(&draft, &node));
  node->device = keel_device_scope(builder->context);
  return KD_OK;
}

static keel_status write_while(while_loop *w, keel_value *outputs) {
  keel_function *around = w->builder->function;
  const char *name = w->body->name;
  uint32_t condition = KEEL_ABSENT;
  size_t capacity = 2 + (size_t)w->count + w->body->capture_count +
                    w->condition->capture_count;
  w->values = keel_arena_take(around->arena, 4 * capacity * sizeof *w->values);
  if (!w->values) return KD_OUT_OF_MEMORY;
  KEEL_TRY(check_while(w));
  KEEL_TRY(condition_before(w, &condition));
  KEEL_TRY(keel_function_create(w->builder->context, around->arena,
                                &w->builder->program->functions, name,
                                &w->round));
  KEEL_TRY(make_round(w, w->values + capacity, w->values + 2 * capacity));
  return add_loop(w, condition, w->values + 3 * capacity, outputs);
}

static keel_status add_while(keel_builder *builder, keel_builder *condition,
                             keel_builder *body, const keel_value *inputs,
                             uint32_t count, keel_value *outputs) {
  while_loop w = {.builder = builder,
                  .condition_builder = condition,
                  .body_builder = body,
                  .inputs = inputs,
                  .count = count};
  KEEL_TRY(keel_builder_open(builder));
  if (!condition || !body)
    return keel_fail(KD_INVALID_ARGUMENT, "While needs a condition and a body");
  if (!count) return keel_fail(KD_INVALID_ARGUMENT, "While carries no value");
  for (uint32_t i = 0; i < count; i++)
    if (inputs[i] >= builder->function->value_count)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "While: input %u is not a value of this builder",
                       (unsigned)i);
  KEEL_TRY(keel_builder_take_body(builder, condition, "While", &w.condition));
  keel_status status = keel_builder_take_body(builder, body, "While", &w.body);
  if (status == KD_OK) status = write_while(&w, outputs);
  drop_function(builder->program, w.condition); /* written out by now */
  if (w.body) drop_function(builder->program, w.body);
  return status;
}

keel_status keel_builder_while(keel_builder *builder, keel_builder *condition,
                               keel_builder *body, const keel_value *inputs,
                               uint32_t count, keel_value *outputs) {
  for (uint32_t i = 0; i < count; i++)
    outputs[i] = KEEL_ABSENT;
  return keel_builder_sticky(
      builder, add_while(builder, condition, body, inputs, count, outputs));
}
