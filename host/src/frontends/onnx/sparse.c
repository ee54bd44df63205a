/* sparse.c - SparseTensorProto as a tensor that has all elements. */
#include "device/context.h"
#include "import.h"

typedef struct sparse {
  const char *name;      /* for messages */
  const keel_type *type; /* of the result */
  const keel_tensor *values, *indices;
} sparse;

static keel_status sparse_bad(const char *why) {
  return keel_fail(KD_DATA_LOSS, "the sparse tensor %s", why);
}

static keel_status sparse_check(const sparse *all) {
  const keel_type *values = all->values->type, *indices = all->indices->type;
  if (values->rank != 1)
    return sparse_bad("has values of more dimensions than 1");
  if (!keel_dtype_size(values->dtype) || values->dtype == KD_STRING)
    return sparse_bad("has values of a type that is not supported");
  if (indices->dtype != KD_I64)
    return sparse_bad("has indices that are not i64");
  if (indices->rank < 1 || indices->rank > 2 ||
      indices->dims[0] != values->dims[0] ||
      (indices->rank == 2 && indices->dims[1] != (int64_t)all->type->rank))
    return sparse_bad(
        "has indices of another shape than [values] or [values,"
        " dimensions]");
  return KD_OK;
}

/* The element that a value is for; -1: none. */
static int64_t sparse_place_of(const sparse *all, int64_t value) {
  const int64_t *indices = all->indices->data;
  if (all->indices->type->rank == 1)
    return indices[value] < all->type->elements ? indices[value] : -1;
  int64_t place = 0;
  for (uint32_t i = 0; i < all->type->rank; i++) {
    int64_t index = indices[value * all->type->rank + i];
    if (index < 0 || index >= all->type->dims[i]) return -1;
    place = place * all->type->dims[i] + index;
  }
  return place;
}

/* ONNX wants them in ascending order: no element has two values. */
static keel_status sparse_spread(const sparse *all, uint8_t *to) {
  const uint8_t *from = all->values->data;
  size_t size = keel_dtype_size(all->type->dtype);
  int64_t last = -1;
  memset(to, 0, all->type->bytes);
  for (int64_t i = 0; i < all->values->type->elements; i++) {
    int64_t place = sparse_place_of(all, i);
    if (place < 0) return sparse_bad("has an index beyond its dimensions");
    if (place <= last)
      return sparse_bad("has indices that are not in ascending order");
    last = place;
    memcpy(to + (uint64_t)place * size, from + (uint64_t)i * size, size);
  }
  return KD_OK;
}

static keel_status sparse_make(sparse *all, keel_context *context,
                               const Onnx__SparseTensorProto *proto,
                               keel_tensor **out_tensor) {
  keel_tensor *tensor = NULL;
  if (proto->n_dims > KD_MAX_RANK)
    return sparse_bad("has more dimensions than are supported");
  KEEL_TRY(keel_type_of(all->values->type->dtype, (uint32_t)proto->n_dims,
                        proto->dims, &all->type));
  if (!keel_type_known(all->type))
    return sparse_bad("has a negative dimension");
  KEEL_TRY(sparse_check(all));
  KEEL_TRY(keel_tensor_on(&context->host, all->type, &tensor));
  keel_status status = sparse_spread(all, tensor->data);
  if (status == KD_OK)
    *out_tensor = tensor;
  else
    keel_tensor_release(tensor);
  return status;
}

static keel_status sparse_read(keel_context *context, const char *path,
                               const Onnx__SparseTensorProto *proto,
                               keel_tensor **out_tensor) {
  sparse all = {0};
  keel_tensor *values = NULL, *indices = NULL;
  if (!proto->values || !proto->indices)
    return sparse_bad("lacks values or indices");
  keel_status status =
      keel_onnx_tensor(context, path, proto->values, NULL, &values);
  if (status == KD_OK)
    status = keel_onnx_tensor(context, path, proto->indices, NULL, &indices);
  all.values = values;
  all.indices = indices;
  if (status == KD_OK) status = sparse_make(&all, context, proto, out_tensor);
  keel_tensor_release(values);
  keel_tensor_release(indices);
  return status;
}

keel_status keel_onnx_sparse(keel_context *context, const char *path,
                             const Onnx__SparseTensorProto *proto,
                             keel_tensor **out_tensor) {
  const char *name = proto->values ? proto->values->name : NULL;
  keel_status status = sparse_read(context, path, proto, out_tensor);
  return status == KD_OK ? KD_OK
                         : keel_while(status, "while reading %s, tensor \"%s\"",
                                      path, name ? name : "");
}
