/* exchange.c - ops by which ranks exchange values: Keel's own, and ONNX Runtime's three, which are
 * the same under other names. In a model they have no handle of the rank; the importer adds it. */
#include "exchange.h"

#include "ops/schema.h"

static const struct {
  const char *op;
  bool has_size; /* group_size */
} microsoft[] = {{"AllReduce", false}, {"AllGather", true}, {"AllToAll", true}};

bool keel_onnx_is_exchange(const keel_draft *draft) {
  for (size_t i = 0; i < KEEL_COUNT_OF(microsoft); i++)
    if (!strcmp(draft->domain, "com.microsoft") &&
        !strcmp(draft->op, microsoft[i].op))
      return true;
  const keel_schema *schema = !strcmp(draft->domain, "keel")
                                  ? keel_schema_find("keel", draft->op)
                                  : NULL;
  return schema && schema->kind == KEEL_BY_HOST && schema->input_count &&
         !strcmp(schema->inputs[0].name, "member");
}

static keel_attr *exchange_find(keel_draft *draft, const char *name) {
  for (uint32_t i = 0; i < draft->attr_count; i++)
    if (!strcmp(draft->attrs[i].name, name)) return &draft->attrs[i];
  return NULL;
}

static void exchange_drop(keel_draft *draft, const keel_attr *attr) {
  uint32_t at = (uint32_t)(attr - draft->attrs);
  for (uint32_t i = at; i + 1 < draft->attr_count; i++)
    draft->attrs[i] = draft->attrs[i + 1];
  draft->attr_count--;
}

/* A Transpose of a value by two axes that change places. */
static keel_status exchange_transpose(const keel_draft *draft, uint32_t rank,
                                      uint32_t axis, uint32_t from,
                                      uint32_t to) {
  int64_t perm[KD_MAX_RANK];
  keel_opdef *op = NULL;
  keel_node *node = NULL;
  for (uint32_t i = 0; i < rank; i++)
    perm[i] = i;
  perm[0] = axis;
  perm[axis] = 0;
  const keel_attr attr = KEEL_INTS("perm", rank, perm);
  KEEL_TRY(keel_opdef_create(draft->function->context,
                             keel_schema_find("", "Transpose"), &attr, 1, NULL,
                             &op));
  KEEL_TRY(keel_function_node(draft->function, op, draft->name, &from, 1, &to,
                              1, &node));
  return keel_function_infer(draft->function, node);
}

/* Rows are joined along the first dimension; another one becomes the first, and back. */
static keel_status gather_along(keel_draft *draft, int64_t axis) {
  keel_function *function = draft->function;
  const keel_type *type = function->values[draft->inputs[0]].type;
  if (!type)
    return keel_fail(
        KD_UNIMPLEMENTED,
        "AllGather \"%s\" along axis %lld of a tensor whose rank is"
        " not known",
        draft->name, (long long)axis);
  axis += axis < 0 ? type->rank : 0;
  if (axis < 0 || axis >= (int64_t)type->rank)
    return keel_fail(KD_DATA_LOSS,
                     "AllGather \"%s\" has axis %lld of %u dimensions",
                     draft->name, (long long)axis, (unsigned)type->rank);
  uint32_t transposed = keel_function_value(function, ""),
           joined = keel_function_value(function, ""), rank = type->rank;
  if (transposed == KEEL_ABSENT || joined == KEEL_ABSENT)
    return KD_OUT_OF_MEMORY;
  KEEL_TRY(exchange_transpose(draft, rank, (uint32_t)axis, draft->inputs[0],
                              transposed));
  KEEL_TRY(exchange_transpose(draft, rank, (uint32_t)axis, joined,
                              draft->outputs[0]));
  draft->inputs[0] = transposed;
  draft->outputs[0] = joined;
  return KD_OK;
}

static keel_status rename_microsoft(keel_draft *draft) {
  keel_attr *axis = exchange_find(draft, "axis"),
            *size = exchange_find(draft, "group_size");
  if (size && size->kind == KD_ATTR_INT) size->name = "size";
  if (axis && axis->kind == KD_ATTR_INT && !strcmp(draft->op, "AllGather")) {
    int64_t along = axis->i;
    exchange_drop(draft, axis);
    if (along) KEEL_TRY(gather_along(draft, along));
  }
  draft->domain = "keel";
  return KD_OK;
}

keel_status keel_onnx_exchange(keel_draft *draft, uint32_t member) {
  if (!strcmp(draft->domain, "com.microsoft") && draft->input_count &&
      draft->output_count)
    KEEL_TRY(rename_microsoft(draft));
  for (uint32_t i = draft->input_count; i > 0; i--)
    draft->inputs[i] = draft->inputs[i - 1];
  draft->inputs[0] = member;
  draft->input_count++;
  return KD_OK;
}
