/* attribute.c - an AttributeProto becomes an attribute of an op. */
#include "attribute.h"

keel_status onnx_read_tensor(const scope *scope, const onnx_tensor *proto,
                             keel_mapping *mapping, keel_tensor **out_tensor) {
  importer *all = scope->all;
  bool inside = scope->body != KEEL_ABSENT;
  keel_tensor *known = inside ? onnx_shared_find(&all->tensors, proto) : NULL;
  if (known) {
    *out_tensor = keel_tensor_retain(known);
    return KD_OK;
  }
  KEEL_TRY(
      keel_onnx_tensor(all->context, all->path, proto, mapping, out_tensor));
  keel_onnx_bytes raw = keel_onnx_raw(proto);
  keel_file_evict(raw.data, raw.size);
  keel_status status =
      inside ? onnx_shared_add(&all->tensors, proto, *out_tensor) : KD_OK;
  if (status != KD_OK) keel_tensor_release(*out_tensor);
  return status;
}

static char *copy_bytes(keel_arena *arena, const ProtobufCBinaryData *bytes) {
  char *copy = keel_arena_take(arena, bytes->len + 1);
  if (copy && bytes->len) memcpy(copy, bytes->data, bytes->len);
  return copy;
}

static keel_status attribute_read_strings(const importer *all,
                                          const onnx_attr *from,
                                          keel_attr *to) {
  keel_arena *arena = &all->program->arena;
  const char **strings =
      keel_arena_take(arena, (from->n_strings + 1) * sizeof *strings);
  if (!strings) return KD_OUT_OF_MEMORY;
  for (size_t i = 0; i < from->n_strings; i++)
    if (!(strings[i] = copy_bytes(arena, &from->strings[i])))
      return KD_OUT_OF_MEMORY;
  to->strings = strings;
  to->count = (uint32_t)from->n_strings;
  return KD_OK;
}

/* The kind. Very old files do not name it: then it follows from the field that has a value. */
static uint32_t attribute_kind_of(const onnx_attr *attr) {
  if (attr->has_type) return (uint32_t)attr->type;
  return attr->has_f       ? KD_ATTR_FLOAT
         : attr->has_i     ? KD_ATTR_INT
         : attr->has_s     ? KD_ATTR_STRING
         : attr->t         ? KD_ATTR_TENSOR
         : attr->g         ? KD_ATTR_GRAPH
         : attr->n_floats  ? KD_ATTR_FLOATS
         : attr->n_ints    ? KD_ATTR_INTS
         : attr->n_strings ? KD_ATTR_STRINGS
                           : KD_ATTR_ABSENT;
}

/* Of which type an Optional without an element would be: nothing depends on it. */
static bool says_nothing(const onnx_node *node, const onnx_attr *attr) {
  return attribute_kind_of(attr) ==
             ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTO &&
         attr->name && !strcmp(attr->name, "type") && node->op_type &&
         !strcmp(node->op_type, "Optional");
}

keel_status onnx_read_attr(const scope *scope, const onnx_node *node,
                           const onnx_attr *from, keel_attr *to) {
  const importer *all = scope->all;
  *to = (keel_attr){.name = from->name, .kind = attribute_kind_of(from)};
  switch (to->kind) {
    case KD_ATTR_FLOAT:
      to->f = from->f;
      return KD_OK;
    case KD_ATTR_INT:
      to->i = from->i;
      return KD_OK;
    case KD_ATTR_STRING:
      to->s = copy_bytes(&all->program->arena, &from->s);
      return to->s ? KD_OK : KD_OUT_OF_MEMORY;
    case KD_ATTR_FLOATS:
      to->floats = from->floats;
      to->count = (uint32_t)from->n_floats;
      return KD_OK;
    case KD_ATTR_INTS:
      to->ints = from->ints;
      to->count = (uint32_t)from->n_ints;
      return KD_OK;
    case KD_ATTR_STRINGS:
      return attribute_read_strings(all, from, to);
    case KD_ATTR_TENSOR:
      if (!from->t)
        return onnx_bad(all, KD_DATA_LOSS,
                        "node \"%s\": attribute \"%s\" has no tensor",
                        node->name ? node->name : "", from->name);
      return onnx_read_tensor(scope, from->t, NULL, &to->tensor);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSOR:
      if (!from->sparse_tensor) break;
      to->kind = KD_ATTR_TENSOR;
      return keel_onnx_sparse(all->context, all->path, from->sparse_tensor,
                              &to->tensor);
    case KD_ATTR_GRAPH:
      return from->g ? KD_OK
                     : onnx_bad(all, KD_DATA_LOSS,
                                "node \"%s\": attribute \"%s\" has no graph",
                                node->name ? node->name : "", from->name);
    default:
      break;
  }
  return onnx_bad(all, KD_UNIMPLEMENTED,
                  "node \"%s\" (%s): attribute \"%s\" is of kind %u, which is"
                  " not supported",
                  node->name ? node->name : "",
                  node->op_type ? node->op_type : "", from->name,
                  (unsigned)to->kind);
}

const onnx_attr *onnx_find_attr(onnx_attr *const *attrs, size_t count,
                                const char *name) {
  for (size_t i = 0; i < count; i++)
    if (attrs[i]->name && !strcmp(attrs[i]->name, name)) return attrs[i];
  return NULL;
}

/* An attribute, or what it refers to in a function's body: an attribute of the call or, where
 * that is missing, the function's default. NULL: neither is there. *scope: where the attribute is
 * written. */
static keel_status referred(scope **scope, const onnx_attr *attr,
                            const onnx_attr **out_attr) {
  const importer *all = (*scope)->all;
  const onnx_node *call = (*scope)->call;
  struct scope *caller = (*scope)->caller;
  *out_attr = attr;
  if (!attr->ref_attr_name || !*attr->ref_attr_name) return KD_OK;
  if (!call)
    return onnx_bad(all, KD_DATA_LOSS,
                    "attribute \"%s\" refers to \"%s\", outside of a function",
                    attr->name ? attr->name : "", attr->ref_attr_name);
  const onnx_attr *given =
      onnx_find_attr(call->attribute, call->n_attribute, attr->ref_attr_name);
  *out_attr = NULL;
  if (given) KEEL_TRY(referred(&caller, given, out_attr));
  if (*out_attr) {
    *scope = caller;
    return KD_OK;
  }
  const onnx_function *body = all->model->functions[(*scope)->body];
  *out_attr = onnx_find_attr(body->attribute_proto, body->n_attribute_proto,
                             attr->ref_attr_name);
  if (*out_attr && (*out_attr)->ref_attr_name && *(*out_attr)->ref_attr_name)
    return onnx_bad(all, KD_DATA_LOSS,
                    "function \"%s\": the default of attribute \"%s\" refers to"
                    " \"%s\"",
                    body->name, (*out_attr)->name, (*out_attr)->ref_attr_name);
  return KD_OK;
}

keel_status onnx_resolve_attr(scope **scope, const onnx_node *node,
                              const onnx_attr *attr,
                              const onnx_attr **out_attr) {
  KEEL_TRY(referred(scope, attr, out_attr));
  if (*out_attr && says_nothing(node, *out_attr)) *out_attr = NULL;
  return KD_OK;
}
