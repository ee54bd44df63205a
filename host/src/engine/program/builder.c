/* builder.c - keel_builder: builds a program call by call. */
#include "program/builder.h"

#include "device/device.h"
#include "memory/copy.h"
#include "ops/registry.h"
#include "ops/vendor.h"
#include "program/draft.h"

keel_status keel_builder_sticky(keel_builder *builder, keel_status status) {
  if (status != KD_OK && builder->status == KD_OK) {
    builder->status = status;
    snprintf(builder->message, sizeof builder->message, "%s", keel_message());
  }
  return status;
}

keel_status keel_builder_again(const keel_builder *builder) {
  return keel_fail_text(builder->status, builder->message);
}

keel_status keel_builder_open(const keel_builder *builder) {
  if (builder->status != KD_OK) return keel_builder_again(builder);
  if (builder->function) return KD_OK;
  return keel_fail(KD_FAILED_PRECONDITION,
                   !builder->body ? "the builder is finished"
                   : builder->outer
                       ? "the body is complete: an op has taken it over"
                       : "the builder around the body is finished or gone");
}

keel_status keel_builder_create(keel_context *context, const char *name,
                                keel_builder **out_builder) {
  keel_builder *builder = calloc(1, sizeof *builder);
  *out_builder = NULL;
  if (!builder) return keel_no_memory(sizeof *builder);
  builder->context = context;
  keel_status status = keel_program_create(context, &builder->program);
  if (status == KD_OK)
    status = keel_function_create(context, &builder->program->arena,
                                  &builder->program->functions, name,
                                  &builder->function);
  if (status != KD_OK) {
    keel_builder_destroy(builder);
    return status;
  }
  builder->program->main = builder->function;
  *out_builder = builder;
  return KD_OK;
}

void keel_builder_destroy(keel_builder *builder) {
  if (!builder) return;
  keel_builder_drop_bodies(builder);
  keel_builder_leave(builder);
  if (!builder->body) keel_program_release(builder->program);
  free(builder->node_name);
  free(builder->opsets);
  free(builder->captured);
  free(builder->captures);
  free(builder);
}

/* The known type of an input; NULL if its rank is not known. */
static keel_status type_of_input(const keel_port *port,
                                 const keel_type **out_type) {
  *out_type = NULL;
  if (port->flags & KEEL_PORT_RESOURCE) return KD_OK;
  if (port->rank != KEEL_RANK_UNKNOWN)
    return keel_type_of(port->dtype, port->rank, port->dims, out_type);
  const keel_type *checked = NULL; /* the element type is one that there is */
  return keel_type_of(port->dtype, 0, NULL, &checked);
}

static keel_status builder_add_input(keel_builder *builder,
                                     const keel_port *port,
                                     uint32_t *out_value) {
  keel_function *function = builder->function;
  const keel_type *type = NULL;
  KEEL_TRY(type_of_input(port, &type));
  uint32_t value = keel_function_value(function, port->name);
  if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  function->values[value].type = type;
  KEEL_TRY(keel_function_input(function, value, port));
  *out_value = value;
  return KD_OK;
}

keel_value keel_builder_input(keel_builder *builder, const char *name,
                              kd_dtype dtype, uint32_t rank,
                              const int64_t *dims) {
  keel_port port = {.name = name, .dtype = dtype, .rank = rank, .dims = dims};
  uint32_t value = KEEL_ABSENT;
  keel_status status = keel_builder_open(builder);
  if (status == KD_OK) status = builder_add_input(builder, &port, &value);
  keel_builder_sticky(builder, status);
  return value;
}

keel_value keel_builder_resource(keel_builder *builder, const char *name) {
  keel_port port = {
      .name = name, .rank = KEEL_RANK_UNKNOWN, .flags = KEEL_PORT_RESOURCE};
  uint32_t value = KEEL_ABSENT;
  keel_status status = keel_builder_open(builder);
  if (status == KD_OK) status = builder_add_input(builder, &port, &value);
  keel_builder_sticky(builder, status);
  return value;
}

/* The value in a form that kernels can read; otherwise each run would copy it. */
static keel_status align(keel_tensor *tensor, keel_tensor **out_aligned) {
  if (tensor->kind == KEEL_DATA && !keel_tensor_location(tensor) &&
      !keel_aligned_to(tensor->data, 64))
    return keel_copy_to(tensor, NULL, out_aligned);
  *out_aligned = keel_tensor_retain(tensor);
  return KD_OK;
}

static keel_status builder_add_constant(keel_builder *builder,
                                        keel_tensor *tensor,
                                        uint32_t *out_value) {
  keel_tensor *aligned = NULL;
  KEEL_TRY(keel_builder_open(builder));
  if (!tensor) return keel_fail(KD_INVALID_ARGUMENT, "the constant is NULL");
  KEEL_TRY(keel_tensor_wait_known(tensor));
  if (tensor->kind == KEEL_RESOURCE)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "a resource cannot be a constant: pass it to the program"
                     " as an input");
  KEEL_TRY(align(tensor, &aligned));
  *out_value = keel_function_constant(builder->function, "", aligned);
  keel_tensor_release(aligned);
  return *out_value == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
}

keel_value keel_builder_constant(keel_builder *builder, keel_tensor *tensor) {
  uint32_t value = KEEL_ABSENT;
  keel_builder_sticky(builder, builder_add_constant(builder, tensor, &value));
  return value;
}

/* ---- ops ------------------------------------------------------------------------ */

keel_status keel_builder_node_name(keel_builder *builder, const char *name) {
  keel_status status = keel_builder_open(builder);
  char *copy = NULL;
  if (status == KD_OK && name && *name) {
    copy = strdup(name);
    if (!copy) status = keel_no_memory(strlen(name));
  }
  if (status == KD_OK) {
    free(builder->node_name);
    builder->node_name = copy;
  }
  return keel_builder_sticky(builder, status);
}

static keel_domain_opset *find_opset(const keel_builder *builder,
                                     const char *domain) {
  for (uint32_t i = 0; i < builder->opset_count; i++)
    if (!strcmp(builder->opsets[i].domain, domain)) return &builder->opsets[i];
  return NULL;
}

static const char *plain_domain(const char *domain) {
  return domain && strcmp(domain, "ai.onnx") != 0 ? domain : "";
}

static keel_status set_opset(keel_builder *builder, const char *domain,
                             int64_t opset) {
  KEEL_TRY(keel_builder_open(builder));
  domain = plain_domain(domain);
  keel_domain_opset *at = find_opset(builder, domain);
  if (opset < 1)
    return keel_fail(KD_INVALID_ARGUMENT, "opset %lld of \"%s\" is none",
                     (long long)opset, *domain ? domain : "ai.onnx");
  if (!at) {
    if (strlen(domain) >= sizeof at->domain)
      return keel_fail(KD_INVALID_ARGUMENT, "domain \"%s\" is too long",
                       domain);
    if (!KEEL_ROOM(builder->opsets, builder->opset_count,
                   builder->opset_capacity))
      return KD_OUT_OF_MEMORY;
    at = &builder->opsets[builder->opset_count++];
    snprintf(at->domain, sizeof at->domain, "%s", domain);
  }
  at->version = opset;
  return KD_OK;
}

keel_status keel_builder_opset(keel_builder *builder, const char *domain,
                               int64_t opset) {
  return keel_builder_sticky(builder, set_opset(builder, domain, opset));
}

/* Domain and name of an op, and the opset that it is written for. */
static keel_status name_op(const keel_builder *builder, const char *name,
                           char domain[64], keel_draft *draft) {
  const char *colons = strstr(name, "::");
  size_t size = colons ? (size_t)(colons - name) : 0;
  if (size >= 64)
    return keel_fail(KD_INVALID_ARGUMENT, "%s: the domain is too long", name);
  memcpy(domain, name, size);
  domain[size] = 0;
  draft->domain = plain_domain(domain);
  draft->op = colons ? colons + 2 : name;
  const keel_domain_opset *set = find_opset(builder, draft->domain);
  const keel_schema *schema =
      keel_op_find(builder->context, draft->domain, draft->op);
  draft->opset = set               ? set->version
                 : !*draft->domain ? KEEL_OPSET_KNOWN
                 : schema          ? schema->since
                                   : 1;
  return KD_OK;
}

static keel_status copy_attrs(const keel_attr *attrs, uint32_t count,
                              keel_draft *draft) {
  if (count > KEEL_DRAFT_ATTRS)
    return keel_fail(KD_INVALID_ARGUMENT, "%s has %u attributes, more than %u",
                     draft->op, (unsigned)count, KEEL_DRAFT_ATTRS);
  for (uint32_t i = 0; i < count; i++) {
    if (!attrs[i].name)
      return keel_fail(KD_INVALID_ARGUMENT, "%s: attribute %u has no name",
                       draft->op, (unsigned)i);
    keel_attr *to = &draft->attrs[draft->attr_count++];
    *to = attrs[i];
    if (to->kind == KD_ATTR_TENSOR) keel_tensor_retain(to->tensor);
  }
  return KD_OK;
}

/* The op's own inputs, and behind them what its bodies capture. */
static keel_status copy_inputs(keel_builder *builder, const keel_value *inputs,
                               uint32_t count, keel_draft *draft) {
  uint32_t least = !strcmp(draft->op, "Loop") ? 2 : 0, capacity = count + least;
  for (uint32_t i = 0; i < count; i++)
    if (inputs[i] != KEEL_ABSENT && inputs[i] >= builder->function->value_count)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "%s: input %u is not a value of this builder", draft->op,
                       (unsigned)i);
  for (uint32_t i = 0; i < draft->attr_count; i++)
    if (draft->attrs[i].kind == KD_ATTR_GRAPH && draft->attrs[i].body)
      capacity += draft->attrs[i].body->capture_count;
  draft->inputs = keel_arena_take(
      builder->function->arena,
      ((size_t)capacity + KEEL_DRAFT_EXTRA) * sizeof *draft->inputs);
  if (!draft->inputs) return KD_OUT_OF_MEMORY;
  for (; draft->input_count < count; draft->input_count++)
    draft->inputs[draft->input_count] = inputs[draft->input_count];
  while (draft->input_count < least)
    draft->inputs[draft->input_count++] = KEEL_ABSENT;
  return KD_OK;
}

static keel_status take_bodies(keel_builder *builder, keel_draft *draft) {
  for (uint32_t i = 0; i < draft->attr_count; i++) {
    keel_builder *body = draft->attrs[i].body;
    if (draft->attrs[i].kind != KD_ATTR_GRAPH) continue;
    if (!body)
      return keel_fail(KD_INVALID_ARGUMENT, "%s: attribute \"%s\" has no body",
                       draft->op, draft->attrs[i].name);
    KEEL_TRY(
        keel_builder_take_body(builder, body, draft->op, &draft->graphs[i]));
    for (uint32_t k = 0; k < body->capture_count; k++)
      draft->inputs[draft->input_count++] = body->captured[k];
  }
  return KD_OK;
}

static keel_status fill_draft(keel_builder *builder, const keel_value *inputs,
                              uint32_t input_count, keel_value *outputs,
                              uint32_t output_count, keel_draft *draft) {
  if (!output_count)
    return keel_fail(KD_INVALID_ARGUMENT, "%s is called without outputs",
                     draft->op);
  KEEL_TRY(copy_inputs(builder, inputs, input_count, draft));
  KEEL_TRY(take_bodies(builder, draft));
  for (uint32_t i = 0; i < output_count; i++) {
    outputs[i] = keel_function_value(builder->function, "");
    if (outputs[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  }
  draft->outputs = outputs;
  draft->output_count = draft->outputs_written = output_count;
  return KD_OK;
}

static keel_status add_draft(keel_builder *builder, keel_draft *draft) {
  bool versioned = find_opset(builder, draft->domain) != NULL;
  keel_node *node = NULL;
  keel_status status = keel_registry_get()->upgrade(draft);
  /* a builder has no file that could be damaged */
  if (status == KD_DATA_LOSS) status = KD_INVALID_ARGUMENT;
  if (status == KD_OK && versioned) status = keel_draft_check(draft);
  KEEL_TRY(status);
  KEEL_TRY(keel_draft_add(draft, &node));
  node->device = keel_device_scope(builder->context);
  return KD_OK;
}

static keel_status add_op(keel_builder *builder, const char *name,
                          const keel_attr *attrs, uint32_t attr_count,
                          const keel_value *inputs, uint32_t input_count,
                          keel_value *outputs, uint32_t output_count) {
  char domain[64];
  KEEL_TRY(keel_builder_open(builder));
  keel_draft *draft = calloc(1, sizeof *draft);
  if (!draft) return keel_no_memory(sizeof *draft);
  draft->function = builder->function;
  draft->path = builder->function->name;
  draft->name = builder->node_name ? builder->node_name : "";
  keel_status status = name_op(builder, name, domain, draft);
  if (status == KD_OK) status = copy_attrs(attrs, attr_count, draft);
  if (status == KD_OK)
    status =
        fill_draft(builder, inputs, input_count, outputs, output_count, draft);
  if (status == KD_OK) status = add_draft(builder, draft);
  for (uint32_t i = 0; i < draft->attr_count; i++)
    if (draft->attrs[i].kind == KD_ATTR_TENSOR)
      keel_tensor_release(draft->attrs[i].tensor);
  free(draft);
  return status;
}

keel_status keel_builder_op_n(keel_builder *builder, const char *op,
                              const keel_attr *attrs, uint32_t attr_count,
                              const keel_value *inputs, uint32_t input_count,
                              keel_value *outputs, uint32_t output_count) {
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = KEEL_ABSENT;
  return keel_builder_sticky(
      builder, add_op(builder, op, attrs, attr_count, inputs, input_count,
                      outputs, output_count));
}

keel_value keel_builder_op(keel_builder *builder, const char *op,
                           const keel_attr *attrs, uint32_t attr_count,
                           const keel_value *inputs, uint32_t input_count) {
  keel_value output = KEEL_ABSENT;
  keel_builder_op_n(builder, op, attrs, attr_count, inputs, input_count,
                    &output, 1);
  return output;
}

/* ---- the end -------------------------------------------------------------------- */

static keel_status add_output(keel_builder *builder, const char *name,
                              keel_value value) {
  keel_port port = {.name = name, .rank = KEEL_RANK_UNKNOWN};
  KEEL_TRY(keel_builder_open(builder));
  if (value >= builder->function->value_count)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "output %s is not a value of this builder", name);
  const keel_type *type = builder->function->values[value].type;
  if (type && keel_type_known(type)) {
    port.dtype = type->dtype;
    port.rank = type->rank;
    port.dims = type->dims;
  }
  return keel_function_output(builder->function, value, &port);
}

keel_status keel_builder_output(keel_builder *builder, const char *name,
                                keel_value value) {
  return keel_builder_sticky(builder, add_output(builder, name, value));
}

keel_status keel_builder_finish(keel_builder *builder,
                                keel_program **out_program) {
  *out_program = NULL;
  KEEL_TRY(keel_builder_open(builder));
  if (builder->body)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "this is a body: pass it to an op of the builder that it"
                     " was started in");
  if (!builder->function->output_count)
    return keel_fail(KD_FAILED_PRECONDITION, "the program has no output");
  for (keel_builder *body = builder->bodies; body; body = body->next)
    if (body->function)
      return keel_fail(KD_FAILED_PRECONDITION,
                       "the body \"%s\" was started, and no op has taken it"
                       " over: pass it to one, or destroy it",
                       body->function->name);
  keel_builder_drop_bodies(builder);
  *out_program = builder->program;
  builder->program = NULL;
  builder->function = NULL;
  return KD_OK;
}
