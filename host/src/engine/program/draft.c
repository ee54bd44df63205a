/* draft.c - adds a node that was written for some opset. */
#include "program/draft.h"

#include "ops/vendor.h"

static keel_status check_attrs(const keel_draft *draft,
                               const keel_schema *schema) {
  for (uint32_t i = 0; i < draft->attr_count; i++) {
    bool known = false;
    for (uint32_t k = 0; k < schema->attr_count && !known; k++)
      known = !strcmp(schema->attrs[k].name, draft->attrs[i].name);
    if (!known)
      return keel_fail(KD_UNIMPLEMENTED,
                       "attribute \"%s\" of %s is not supported",
                       draft->attrs[i].name, schema->name);
  }
  return KD_OK;
}

static keel_status check_types(const keel_draft *draft,
                               const keel_schema *schema) {
  for (uint32_t i = 0; i < draft->input_count; i++) {
    const keel_param *param = keel_schema_input(schema, i);
    const keel_type *type =
        draft->inputs[i] == KEEL_ABSENT
            ? NULL
            : draft->function->values[draft->inputs[i]].type;
    if (param && type && keel_dtype_exists(type->dtype) &&
        !keel_schema_takes(schema, param, type->dtype))
      return keel_fail(KD_UNIMPLEMENTED, "%s of %s as %s is not supported",
                       param->name, schema->name, keel_dtype_name(type->dtype));
  }
  return KD_OK;
}

keel_status keel_draft_check(const keel_draft *draft) {
  keel_context *context = draft->function->context;
  const keel_schema *schema = keel_op_find(context, draft->domain, draft->op);
  if (!schema) {
    keel_status status = keel_op_missing(context, draft->domain, draft->op);
    return status == KD_NOT_FOUND ? KD_UNIMPLEMENTED : status;
  }
  KEEL_TRY(check_attrs(draft, schema));
  return check_types(draft, schema);
}

keel_status keel_draft_add(const keel_draft *draft, keel_node **out_node) {
  keel_context *context = draft->function->context;
  const keel_schema *schema = keel_op_find(context, draft->domain, draft->op);
  keel_opdef *op = NULL;
  keel_node *node = NULL;
  if (!schema) return keel_op_missing(context, draft->domain, draft->op);
  KEEL_TRY(keel_opdef_create(context, schema, draft->attrs, draft->attr_count,
                             draft->graphs, &op));
  KEEL_TRY(keel_function_node(draft->function, op, draft->name, draft->inputs,
                              draft->input_count, draft->outputs,
                              draft->output_count, &node));
  if (out_node) *out_node = node;
  return keel_function_infer(draft->function, node);
}
