/* builder.c - keel_builder: builds a program call by call. */
#include "device/device.h"
#include "memory/copy.h"
#include "ops/vendor.h"
#include "program/function.h"

struct keel_builder {
  keel_context *context;
  keel_program *program;
  keel_function *function;
  keel_status status; /* the first failure */
  char message[1024];
};

static keel_status sticky(keel_builder *builder, keel_status status) {
  if (status != KD_OK && builder->status == KD_OK) {
    builder->status = status;
    snprintf(builder->message, sizeof builder->message, "%s", keel_message());
  }
  return status;
}

static keel_status again(const keel_builder *builder) {
  return keel_fail_text(builder->status, builder->message);
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
  keel_program_release(builder->program);
  free(builder);
}

static keel_status add_input(keel_builder *builder, const keel_port *port,
                             uint32_t *out_value) {
  keel_function *function = builder->function;
  const keel_type *type = NULL;
  if (!(port->flags & KEEL_PORT_RESOURCE))
    KEEL_TRY(keel_type_of(port->dtype, port->rank, port->dims, &type));
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
  if (builder->status == KD_OK)
    sticky(builder, add_input(builder, &port, &value));
  return value;
}

keel_value keel_builder_resource(keel_builder *builder, const char *name) {
  keel_port port = {
      .name = name, .rank = KEEL_RANK_UNKNOWN, .flags = KEEL_PORT_RESOURCE};
  uint32_t value = KEEL_ABSENT;
  if (builder->status == KD_OK)
    sticky(builder, add_input(builder, &port, &value));
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

keel_value keel_builder_constant(keel_builder *builder, keel_tensor *tensor) {
  if (builder->status != KD_OK) return KEEL_ABSENT;
  if (!tensor) {
    sticky(builder, keel_fail(KD_INVALID_ARGUMENT, "the constant is NULL"));
    return KEEL_ABSENT;
  }
  if (sticky(builder, keel_tensor_wait(tensor)) != KD_OK) return KEEL_ABSENT;
  if (tensor->kind == KEEL_RESOURCE) {
    sticky(
        builder,
        keel_fail(KD_INVALID_ARGUMENT,
                  "a resource cannot be a constant: pass it to the program as"
                  " an input"));
    return KEEL_ABSENT;
  }
  keel_tensor *aligned = NULL;
  if (sticky(builder, align(tensor, &aligned)) != KD_OK) return KEEL_ABSENT;
  uint32_t value = keel_function_constant(builder->function, "", aligned);
  keel_tensor_release(aligned);
  if (value == KEEL_ABSENT) sticky(builder, KD_OUT_OF_MEMORY);
  return value;
}

static keel_status add_op(keel_builder *builder, const char *name,
                          const keel_attr *attrs, uint32_t attr_count,
                          const keel_value *inputs, uint32_t input_count,
                          keel_value *outputs, uint32_t output_count) {
  keel_function *function = builder->function;
  char domain[64] = "";
  const char *colons = strstr(name, "::");
  if (colons)
    snprintf(domain, sizeof domain, "%.*s", (int)(colons - name), name);
  const char *bare = colons ? colons + 2 : name;
  const keel_schema *schema = keel_op_find(function->context, domain, bare);
  if (!schema) return keel_op_missing(function->context, domain, bare);
  if (schema->flags & KEEL_OP_CONTROL)
    return keel_fail(KD_UNIMPLEMENTED,
                     "the builder cannot make the nested functions of %s",
                     name);
  for (uint32_t i = 0; i < input_count; i++)
    if (inputs[i] != KEEL_ABSENT && inputs[i] >= function->value_count)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "%s: input %u is not a value of this builder", name,
                       (unsigned)i);
  keel_opdef *op = NULL;
  if (!output_count)
    return keel_fail(KD_INVALID_ARGUMENT, "%s is called without outputs", name);
  KEEL_TRY(keel_opdef_create(builder->context, schema, attrs, attr_count, NULL,
                             &op));
  for (uint32_t i = 0; i < output_count; i++) {
    outputs[i] = keel_function_value(function, "");
    if (outputs[i] == KEEL_ABSENT) {
      keel_opdef_release(op);
      return KD_OUT_OF_MEMORY;
    }
  }
  keel_node *node = NULL;
  KEEL_TRY(keel_function_node(function, op, "", inputs, input_count, outputs,
                              output_count, &node));
  node->device = keel_device_scope(builder->context);
  return KD_OK;
}

keel_status keel_builder_op_n(keel_builder *builder, const char *op,
                              const keel_attr *attrs, uint32_t attr_count,
                              const keel_value *inputs, uint32_t input_count,
                              keel_value *outputs, uint32_t output_count) {
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = KEEL_ABSENT;
  if (builder->status != KD_OK) return again(builder);
  return sticky(builder, add_op(builder, op, attrs, attr_count, inputs,
                                input_count, outputs, output_count));
}

keel_value keel_builder_op(keel_builder *builder, const char *op,
                           const keel_attr *attrs, uint32_t attr_count,
                           const keel_value *inputs, uint32_t input_count) {
  keel_value output = KEEL_ABSENT;
  keel_builder_op_n(builder, op, attrs, attr_count, inputs, input_count,
                    &output, 1);
  return output;
}

keel_status keel_builder_output(keel_builder *builder, const char *name,
                                keel_value value) {
  if (builder->status != KD_OK) return again(builder);
  if (value >= builder->function->value_count)
    return sticky(builder,
                  keel_fail(KD_INVALID_ARGUMENT,
                            "output %s is not a value of this builder", name));
  keel_port port = {.name = name, .rank = KEEL_RANK_UNKNOWN};
  return sticky(builder, keel_function_output(builder->function, value, &port));
}

keel_status keel_builder_finish(keel_builder *builder,
                                keel_program **out_program) {
  *out_program = NULL;
  if (builder->status != KD_OK) return again(builder);
  if (!builder->program)
    return keel_fail(KD_FAILED_PRECONDITION, "the builder is finished");
  if (!builder->function->output_count)
    return keel_fail(KD_FAILED_PRECONDITION, "the program has no output");
  *out_program = builder->program;
  builder->program = NULL;
  builder->function = NULL;
  return KD_OK;
}
