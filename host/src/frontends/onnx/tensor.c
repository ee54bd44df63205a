/* tensor.c - TensorProto, SequenceProto and OptionalProto as values. */
#include <keel/file.h>

#include "device/context.h"
#include "import.h"
#include "values/strings.h"

/* ---- external data -------------------------------------------------------- */

static const char *external_entry(const onnx_tensor *tensor, const char *key) {
  for (size_t i = 0; i < tensor->n_external_data; i++)
    if (tensor->external_data[i]->key &&
        !strcmp(tensor->external_data[i]->key, key))
      return tensor->external_data[i]->value;
  return NULL;
}

/* A location must stay in the model's folder; what it leads to is looked at when it is
 * opened. */
static bool stays_inside(const char *location) {
  if (!*location || *location == '/') return false;
  for (const char *at = location; at; at = strchr(at, '/')) {
    at += *at == '/';
    if (!strncmp(at, "..", 2) && (at[2] == '/' || !at[2])) return false;
  }
  return true;
}

static keel_status external_number(const onnx_tensor *tensor, const char *key,
                                   uint64_t fallback, uint64_t *out_number) {
  const char *text = external_entry(tensor, key);
  char *end = NULL;
  *out_number = fallback;
  if (!text) return KD_OK;
  *out_number = strtoull(text, &end, 10);
  if (!*text || *end || *text == '-')
    return keel_fail(KD_DATA_LOSS, "tensor \"%s\": external %s is \"%s\"",
                     tensor->name ? tensor->name : "", key, text);
  return KD_OK;
}

/* The bytes of an external tensor, in a mapping of their own. stays: wherever they begin;
 * else they are copied where they do not begin as kernels want it. */
static keel_status read_external(keel_context *context, keel_file *file,
                                 uint64_t offset, const keel_type *type,
                                 bool stays, keel_tensor **out_tensor) {
  keel_mapping *mapping = NULL;
  const uint8_t *data = file->data + offset;
  if (!type->bytes || (!stays && offset % 64))
    return keel_tensor_create(context, type->dtype, type->rank, type->dims,
                              type->bytes ? data : NULL, out_tensor);
  KEEL_TRY(keel_mapping_create(file, &mapping));
  keel_status status =
      keel_mapping_wrap(mapping, context, type, data, out_tensor);
  keel_mapping_release(mapping); /* the tensor holds it */
  return status;
}

static keel_status external(keel_context *context, const char *path,
                            const onnx_tensor *tensor, const keel_type *type,
                            bool stays, keel_tensor **out_tensor) {
  const char *name = tensor->name ? tensor->name : "";
  const char *location = external_entry(tensor, "location");
  uint64_t offset = 0, length = 0;
  if (!location || !stays_inside(location))
    return keel_fail(KD_PERMISSION_DENIED,
                     "%s: tensor \"%s\": external location \"%s\" is not inside"
                     " the model's folder",
                     path, name, location ? location : "");
  KEEL_TRY(external_number(tensor, "offset", 0, &offset));
  KEEL_TRY(external_number(tensor, "length", type->bytes, &length));
  if (length != type->bytes)
    return keel_fail(KD_DATA_LOSS,
                     "%s: tensor \"%s\": external length is %llu, and its shape"
                     " needs %llu",
                     path, name, (unsigned long long)length,
                     (unsigned long long)type->bytes);
  const char *slash = strrchr(path, '/');
  keel_text full = {0};
  keel_text_add(&full, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path,
                location);
  keel_file file = {0};
  keel_status status = keel_file_open_beside(keel_text_get(&full), path, &file);
  if (status == KD_OK && (offset > file.size || length > file.size - offset))
    status = keel_fail(KD_DATA_LOSS,
                       "%s: tensor \"%s\" needs bytes %llu to %llu of it, and"
                       " it has %llu",
                       keel_text_get(&full), name, (unsigned long long)offset,
                       (unsigned long long)(offset + length),
                       (unsigned long long)file.size);
  keel_text_free(&full);
  if (status == KD_OK)
    status = read_external(context, &file, offset, type, stays, out_tensor);
  keel_file_close(&file);
  return status;
}

/* ---- data inside the file ------------------------------------------------- */

static keel_status wrong_count(const char *path, const onnx_tensor *tensor,
                               uint64_t have, uint64_t need) {
  return keel_fail(KD_DATA_LOSS,
                   "%s: tensor \"%s\" has %llu elements of data, and its shape"
                   " needs %llu",
                   path, tensor->name ? tensor->name : "",
                   (unsigned long long)have, (unsigned long long)need);
}

/* Fills from int32_data, which also holds the narrow types and f16's bits. */
static void from_int32(const onnx_tensor *tensor, const keel_type *type,
                       void *data) {
  for (int64_t i = 0; i < type->elements; i++) {
    int32_t value = tensor->int32_data[i];
    switch (keel_dtype_size(type->dtype)) {
      case 1:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
      case 2:
        ((uint16_t *)data)[i] = (uint16_t)value;
        break;
      default:
        ((int32_t *)data)[i] = value;
    }
  }
}

/* Those smaller than a byte stand in int32_data as bytes. */
static keel_status from_packed(const char *path, const onnx_tensor *tensor,
                               const keel_type *type, void *data) {
  if (tensor->n_int32_data != type->bytes)
    return keel_fail(KD_DATA_LOSS,
                     "%s: tensor \"%s\" has %zu bytes of data, and its shape"
                     " needs %llu",
                     path, tensor->name ? tensor->name : "",
                     tensor->n_int32_data, (unsigned long long)type->bytes);
  for (size_t i = 0; i < tensor->n_int32_data; i++)
    ((uint8_t *)data)[i] = (uint8_t)tensor->int32_data[i];
  return KD_OK;
}

/* Which field holds the elements, and how many entries it needs. */
static keel_status from_fields(const char *path, const onnx_tensor *tensor,
                               const keel_type *type, void *data) {
  size_t have = 0, size = keel_dtype_size(type->dtype), per = 1;
  const void *from = NULL;
  switch (type->dtype) {
    case KD_F32:
    case KD_C64:
      have = tensor->n_float_data;
      from = tensor->float_data;
      per = type->dtype == KD_C64 ? 2 : 1;
      break;
    case KD_F64:
    case KD_C128:
      have = tensor->n_double_data;
      from = tensor->double_data;
      per = type->dtype == KD_C128 ? 2 : 1;
      break;
    case KD_I64:
      have = tensor->n_int64_data;
      from = tensor->int64_data;
      break;
    case KD_U64:
    case KD_U32:
      have = tensor->n_uint64_data;
      from = tensor->uint64_data;
      break;
    default:
      have = tensor->n_int32_data;
  }
  if (!size) return from_packed(path, tensor, type, data);
  if (have != (uint64_t)type->elements * per)
    return wrong_count(path, tensor, have / per, (uint64_t)type->elements);
  if (!have) return KD_OK;
  if (!from)
    from_int32(tensor, type, data);
  else if (type->dtype == KD_U32)
    for (int64_t i = 0; i < type->elements; i++)
      ((uint32_t *)data)[i] = (uint32_t)tensor->uint64_data[i];
  else
    memcpy(data, from, type->bytes);
  return KD_OK;
}

/* Strings are in a field of their own, and never outside of the file. */
static keel_status strings(keel_context *context, const char *path,
                           const onnx_tensor *proto, const keel_type *type,
                           keel_tensor **out_tensor) {
  if (proto->has_data_location &&
      proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    return keel_fail(KD_DATA_LOSS,
                     "%s: tensor \"%s\": strings can't be external data", path,
                     proto->name ? proto->name : "");
  if (proto->n_string_data != (uint64_t)type->elements)
    return wrong_count(path, proto, proto->n_string_data,
                       (uint64_t)type->elements);
  keel_piece *pieces = keel_pieces_new(type->elements);
  if (!pieces) return KD_OUT_OF_MEMORY;
  for (int64_t i = 0; i < type->elements; i++)
    pieces[i] = (keel_piece){(const char *)proto->string_data[i].data,
                             proto->string_data[i].len};
  keel_status status = keel_strings_tensor(context, type, pieces, out_tensor);
  free(pieces);
  return status;
}

/* Fields that change the place or the amount of data. */
static keel_status tensor_check(const char *path, const onnx_tensor *proto) {
  const char *name = proto->name ? proto->name : "";
  if (proto->segment)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: tensor \"%s\" is a segment of a larger one, which is"
                     " not supported",
                     path, name);
  if (proto->has_data_location &&
      proto->data_location > ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: tensor \"%s\": data location %d is not known", path,
                     name, (int)proto->data_location);
  return KD_OK;
}

/* Fewer bytes are copied: mapped pages gain nothing for them. */
#define LARGE (64 << 10)

keel_status keel_onnx_tensor(keel_context *context, const char *path,
                             const onnx_tensor *proto, keel_mapping *mapping,
                             keel_tensor **out_tensor) {
  const char *name = proto->name ? proto->name : "";
  const keel_type *type = NULL;
  keel_tensor *tensor = NULL;
  KEEL_TRY(tensor_check(path, proto));
  keel_status status =
      proto->n_dims <= KD_MAX_RANK
          ? keel_type_of((kd_dtype)proto->data_type, (uint32_t)proto->n_dims,
                         proto->dims, &type)
          : keel_fail(KD_UNIMPLEMENTED, "more than %u dimensions", KD_MAX_RANK);
  if (status == KD_OK && !keel_type_known(type))
    status = keel_fail(KD_DATA_LOSS, "a dimension is negative");
  if (status != KD_OK)
    return keel_while(status, "while reading %s, tensor \"%s\"", path, name);
  if (type->dtype == KD_STRING)
    return strings(context, path, proto, type, out_tensor);
  if (proto->has_data_location &&
      proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    return external(context, path, proto, type, mapping && type->bytes >= LARGE,
                    out_tensor);
  keel_onnx_bytes raw = keel_onnx_raw(proto);
  if (proto->has_raw_data && raw.size != type->bytes)
    return keel_fail(KD_DATA_LOSS,
                     "%s: tensor \"%s\" has %llu bytes of data, and its shape"
                     " needs %llu",
                     path, name, (unsigned long long)raw.size,
                     (unsigned long long)type->bytes);
  /* sizes are checked before memory is taken */
  uint64_t entries = proto->n_float_data + proto->n_int32_data +
                     proto->n_int64_data + proto->n_double_data +
                     proto->n_uint64_data;
  bool packed = !keel_dtype_size(type->dtype);
  if (!proto->has_raw_data && !packed && entries < (uint64_t)type->elements)
    return wrong_count(path, proto, entries, (uint64_t)type->elements);
  if (!proto->has_raw_data && packed && entries < type->bytes)
    return wrong_count(path, proto, entries, type->bytes);
  if (mapping && raw.data && type->bytes >= LARGE)
    return keel_mapping_wrap(mapping, context, type, raw.data, out_tensor);
  KEEL_TRY(keel_tensor_on(&context->host, type, &tensor));
  if (!proto->has_raw_data)
    status = from_fields(path, proto, type, tensor->data);
  else if (type->bytes)
    memcpy(tensor->data, raw.data, type->bytes);
  if (status != KD_OK) {
    keel_tensor_release(tensor);
    return status;
  }
  *out_tensor = tensor;
  return KD_OK;
}

/* ---- sequences and optionals ---------------------------------------------- */

static keel_status sequence(keel_context *context, const char *path,
                            const Onnx__SequenceProto *proto,
                            keel_tensor **out_value) {
  uint32_t count = (uint32_t)proto->n_tensor_values;
  if (proto->n_sequence_values || proto->n_optional_values ||
      proto->n_map_values || proto->n_sparse_tensor_values)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: only sequences of tensors are supported", path);
  keel_tensor **items = calloc(count + 1, sizeof(keel_tensor *));
  if (!items) return keel_no_memory(count * sizeof *items);
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < count && status == KD_OK; i++)
    status = keel_onnx_tensor(context, path, proto->tensor_values[i], NULL,
                              &items[i]);
  if (status == KD_OK)
    status = keel_sequence_create(context, items, count, out_value);
  for (uint32_t i = 0; i < count; i++)
    keel_tensor_release(items[i]);
  free(items);
  return status;
}

static keel_status optional(keel_context *context, const char *path,
                            const Onnx__OptionalProto *proto,
                            keel_tensor **out_value) {
  if (proto->tensor_value)
    return keel_onnx_tensor(context, path, proto->tensor_value, NULL,
                            out_value);
  if (proto->sequence_value)
    return sequence(context, path, proto->sequence_value, out_value);
  if (proto->sparse_tensor_value || proto->map_value || proto->optional_value)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: only optionals of tensors and of sequences are"
                     " supported",
                     path);
  return keel_optional_empty(context, out_value);
}

keel_status keel_onnx_value(keel_context *context, const char *path,
                            const uint8_t *data, uint64_t size, uint32_t kind,
                            keel_tensor **out_value) {
  const ProtobufCMessageDescriptor *descriptor =
      kind == KEEL_FILE_SEQUENCE   ? &onnx__sequence_proto__descriptor
      : kind == KEEL_FILE_OPTIONAL ? &onnx__optional_proto__descriptor
                                   : &onnx__tensor_proto__descriptor;
  ProtobufCMessage *message = NULL;
  keel_status status = keel_onnx_unpack(path, descriptor, data, size, &message);
  if (status != KD_OK) return status;
  if (kind == KEEL_FILE_SEQUENCE)
    status = sequence(context, path, (Onnx__SequenceProto *)message, out_value);
  else if (kind == KEEL_FILE_OPTIONAL)
    status = optional(context, path, (Onnx__OptionalProto *)message, out_value);
  else
    status = keel_onnx_tensor(context, path, (onnx_tensor *)message, NULL,
                              out_value);
  keel_onnx_free(message);
  return status;
}
