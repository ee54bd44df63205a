/* attributes.c - a node's attributes as Keel takes them. */
#include <kd/host.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

ort_status *attribute_data(const ort_attr *attr, int type, void **out,
                           size_t *out_size) {
  *out = NULL;
  *out_size = 0;
  /* it fails for lack of room, and says how much it needs */
  ort_status *asked = ort->ReadOpAttr(attr, type, NULL, 0, out_size);
  if (asked) ort->ReleaseStatus(asked);
  *out = calloc(1, *out_size + 1);
  if (!*out) return no_memory();
  if (!*out_size) return NULL;
  return ort->ReadOpAttr(attr, type, *out, *out_size, out_size);
}

/* The strings in `data`, each of which ends with a 0, as a list that is freed
 * as one. */
static ort_status *attributes_split(const char *data, size_t size, void **out,
                                    uint32_t *out_count) {
  uint32_t count = 0;
  for (size_t i = 0; i < size; i++)
    count += data[i] == 0;
  const char **list = malloc((count + 1) * sizeof *list + size + 1);
  if (!list) return no_memory();
  char *text = (char *)(list + count + 1);
  memcpy(text, data, size);
  text[size] = 0;
  for (uint32_t i = 0; i < count; i++) {
    list[i] = text;
    text += strlen(text) + 1;
  }
  *out = list;
  *out_count = count;
  return NULL;
}

static ort_status *attributes_read_strings(const ort_attr *attr, keel_attr *out,
                                           void **memory) {
  void *data = NULL;
  size_t size = 0;
  ort_status *status = attribute_data(attr, ORT_OP_ATTR_STRINGS, &data, &size);
  if (!status) status = attributes_split(data, size, memory, &out->count);
  free(data);
  out->kind = KD_ATTR_STRINGS;
  out->strings = *memory;
  return status;
}

static ort_status *attributes_read_tensor(keel_context *context,
                                          const ort_attr *attr,
                                          keel_attr *out) {
  ort_value *value = NULL;
  TRY(ort->OpAttr_GetTensorAttributeAsOrtValue(attr, &value));
  if (!value)
    return failure(ORT_NOT_IMPLEMENTED, "Keel: attribute %.80s has no tensor",
                   out->name);
  ort_status *status = value_copy(context, value, &out->tensor);
  ort->ReleaseValue(value);
  out->kind = KD_ATTR_TENSOR;
  return status;
}

static ort_status *attributes_read_list(const ort_attr *attr, int type,
                                        keel_attr *out, void **memory) {
  size_t size = 0;
  TRY(attribute_data(attr, type, memory, &size));
  switch (type) {
    case ORT_OP_ATTR_STRING:
      out->kind = KD_ATTR_STRING;
      out->s = *memory;
      return NULL;
    case ORT_OP_ATTR_INTS:
      out->kind = KD_ATTR_INTS;
      out->ints = *memory;
      out->count = (uint32_t)(size / sizeof *out->ints);
      return NULL;
    default:
      out->kind = KD_ATTR_FLOATS;
      out->floats = *memory;
      out->count = (uint32_t)(size / sizeof *out->floats);
      return NULL;
  }
}

static ort_status *read_one(keel_context *context, const ort_attr *attr,
                            int type, keel_attr *out, void **memory) {
  size_t size = 0;
  switch (type) {
    case ORT_OP_ATTR_INT:
      out->kind = KD_ATTR_INT;
      return ort->ReadOpAttr(attr, type, &out->i, sizeof out->i, &size);
    case ORT_OP_ATTR_FLOAT:
      out->kind = KD_ATTR_FLOAT;
      return ort->ReadOpAttr(attr, type, &out->f, sizeof out->f, &size);
    case ORT_OP_ATTR_STRING:
    case ORT_OP_ATTR_INTS:
    case ORT_OP_ATTR_FLOATS:
      return attributes_read_list(attr, type, out, memory);
    case ORT_OP_ATTR_STRINGS:
      return attributes_read_strings(attr, out, memory);
    case ORT_OP_ATTR_TENSOR:
      return attributes_read_tensor(context, attr, out);
    default:
      return failure(ORT_NOT_IMPLEMENTED,
                     "Keel: attribute %.80s is of a kind that does not cross",
                     out->name);
  }
}

static ort_status *attributes_read_all(keel_context *context,
                                       const attr_list *attrs,
                                       attributes *out) {
  for (size_t i = 0; i < attrs->count; i++) {
    int type = 0;
    TRY(ort->OpAttr_GetType(attrs->items[i], &type));
    if (type == ORT_OP_ATTR_GRAPH) continue;
    uint32_t at = out->count++;
    TRY(ort->OpAttr_GetName(attrs->items[i], &out->list[at].name));
    TRY(read_one(context, attrs->items[i], type, &out->list[at],
                 &out->memory[at]));
  }
  return NULL;
}

ort_status *attributes_read(keel_context *context, const ort_node *node,
                            attributes *out) {
  *out = (attributes){0};
  attr_list attrs;
  TRY(node_attributes(node, &attrs));
  out->list = calloc(attrs.count + GRAPHS_MOST, sizeof *out->list);
  out->memory = calloc(attrs.count + GRAPHS_MOST, sizeof *out->memory);
  ort_status *status = out->list && out->memory
                           ? attributes_read_all(context, &attrs, out)
                           : no_memory();
  free(attrs.items);
  return status;
}

void attributes_free(attributes *one) {
  for (uint32_t i = 0; i < one->count; i++) {
    keel_tensor_release(one->list[i].tensor);
    free(one->memory[i]);
  }
  free(one->list);
  free(one->memory);
  *one = (attributes){0};
}
