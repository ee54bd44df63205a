/* values.c - types, names and tensors, from ONNX Runtime's to Keel's. */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

kd_dtype dtype_of_ort(int type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2:
      return KD_U2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2:
      return KD_I2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0:
      return KD_F8E8M0;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING:
      return KD_NONE; /* C++ objects there, lengths and bytes here */
    default:
      return type >= 1 && type <= ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1
                 ? (kd_dtype)type
                 : KD_NONE;
  }
}

ort_status *value_name(const ort_value_info *value, const char **out) {
  *out = "";
  return value ? ort->GetValueInfoName(value, out) : NULL;
}

static ort_status *type_failure(const ort_value_info *value, const char *what) {
  const char *name = "";
  TRY(value_name(value, &name));
  return failure(ORT_NOT_IMPLEMENTED, "Keel: %.200s %s", name, what);
}

ort_status *value_no_strings(const ort_value_info *value) {
  const ort_type *type = NULL;
  const ort_tensor_type *tensor = NULL;
  int element = 0;
  TRY(ort->GetValueInfoTypeInfo(value, &type));
  if (type) TRY(ort->CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor) TRY(ort->GetTensorElementType(tensor, &element));
  return element == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING
             ? type_failure(value, "has strings, which do not cross")
             : NULL;
}

ort_status *value_type_get(const ort_value_info *value, value_type *out) {
  *out = (value_type){.rank = KEEL_RANK_UNKNOWN};
  const ort_type *type = NULL;
  const ort_tensor_type *tensor = NULL;
  TRY(ort->GetValueInfoTypeInfo(value, &type));
  if (type) TRY(ort->CastTypeInfoToTensorInfo(type, &tensor));
  if (!tensor) return type_failure(value, "is not a tensor");
  int element = 0;
  TRY(ort->GetTensorElementType(tensor, &element));
  out->dtype = dtype_of_ort(element);
  if (out->dtype == KD_NONE)
    return type_failure(value, "has elements of a type that does not cross");
  if (!ort->TensorTypeAndShape_HasShape(tensor)) return NULL;
  size_t rank = 0;
  TRY(ort->GetDimensionsCount(tensor, &rank));
  if (rank > RANK_MOST)
    return type_failure(value, "has more than 16 dimensions");
  out->rank = (uint32_t)rank;
  return rank ? ort->GetDimensions(tensor, out->dims, rank) : NULL;
}

/* ---- data ------------------------------------------------------------------- */

ort_status *value_look(const ort_value *value, tensor_view *out) {
  int type = 0;
  size_t rank = 0;
  *out = (tensor_view){0};
  TRY(ort->GetTensorElementTypeAndShapeDataReference(value, &type, &out->dims,
                                                     &rank));
  out->dtype = dtype_of_ort(type);
  if (out->dtype == KD_NONE)
    return failure(ORT_NOT_IMPLEMENTED,
                   "Keel: a tensor has elements of a type that does not cross");
  if (rank > RANK_MOST)
    return failure(ORT_NOT_IMPLEMENTED,
                   "Keel: a tensor has %zu dimensions; %d are possible", rank,
                   RANK_MOST);
  out->rank = (uint32_t)rank;
  return ort->GetTensorData(value, &out->data);
}

ort_status *view_wrap(keel_context *context, const tensor_view *seen,
                      keel_tensor **out) {
  /* without elements there may be no address */
  if (!seen->data)
    TRY_KEEL(keel_tensor_create(context, seen->dtype, seen->rank, seen->dims,
                                NULL, out));
  else
    TRY_KEEL(keel_tensor_wrap(context, seen->dtype, seen->rank, seen->dims,
                              seen->data, NULL, NULL, out));
  return NULL;
}

ort_status *value_wrap(keel_context *context, const ort_value *value,
                       keel_tensor **out) {
  tensor_view seen;
  TRY(value_look(value, &seen));
  return view_wrap(context, &seen, out);
}

ort_status *value_copy(keel_context *context, const ort_value *value,
                       keel_tensor **out) {
  tensor_view seen;
  TRY(value_look(value, &seen));
  TRY_KEEL(keel_tensor_create(context, seen.dtype, seen.rank, seen.dims,
                              seen.data, out));
  return NULL;
}

/* ---- names -------------------------------------------------------------------- */

static uint32_t hash(const char *name) {
  uint32_t value = 2166136261u; /* FNV-1a */
  for (; *name; name++)
    value = (value ^ (uint8_t)*name) * 16777619u;
  return value;
}

/* Where a name is, or would be. There is a free slot. */
static name_entry *values_slot_of(const name_map *map, const char *name) {
  uint32_t at = hash(name) & (map->capacity - 1);
  while (map->slots[at].name && strcmp(map->slots[at].name, name) != 0)
    at = (at + 1) & (map->capacity - 1);
  return &map->slots[at];
}

name_entry *name_find(const name_map *map, const char *name) {
  if (!map->capacity) return NULL;
  name_entry *found = values_slot_of(map, name);
  return found->name ? found : NULL;
}

static bool values_grow(name_map *map) {
  name_map wide = {.capacity = map->capacity ? map->capacity * 2 : 16};
  wide.slots = calloc(wide.capacity, sizeof *wide.slots);
  if (!wide.slots) return false;
  for (uint32_t i = 0; i < map->capacity; i++)
    if (map->slots[i].name)
      *values_slot_of(&wide, map->slots[i].name) = map->slots[i];
  wide.count = map->count;
  free(map->slots);
  *map = wide;
  return true;
}

name_entry *name_add(name_map *map, const char *name) {
  if (map->count * 2 >= map->capacity && !values_grow(map)) return NULL;
  name_entry *found = values_slot_of(map, name);
  if (!found->name) {
    *found = (name_entry){.name = name};
    map->count++;
  }
  return found;
}

void name_free(name_map *map) {
  free(map->slots);
  *map = (name_map){0};
}
