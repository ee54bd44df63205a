/* type.c - the process's table of types: read without a lock, grown under one. */
#include "values/type.h"

#include <kd/help.h>
#include <pthread.h>

const keel_type keel_type_unknown = {
    .elements = -1, .dtype = KD_NONE, .rank = KD_RANK_UNKNOWN};

#define BUCKETS 4096

/* Lists that only grow, at their heads, under `growing`: a head is stored with release, and
 * loaded with acquire by readers, which take no lock. */
static _Atomic(const keel_type *) buckets[BUCKETS];
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;

static const keel_type *find(const keel_type *at, uint64_t hash, kd_dtype dtype,
                             uint32_t rank, const int64_t *dims) {
  for (; at; at = at->next)
    if (at->hash == hash && at->dtype == dtype && at->rank == rank &&
        (!rank || !memcmp(at->dims, dims, rank * sizeof *dims)))
      return at;
  return NULL;
}

/* Computes elements and bytes (of strings 0). False if the product of the positive dimensions exceeds 61
 * bits: strides and offsets of empty tensors are computed, too. */
static bool measure(keel_type *type) {
  int64_t product = 1, bytes = 0;
  bool open = false, empty = false;
  for (uint32_t i = 0; i < type->rank; i++) {
    int64_t dim = type->dims[i];
    open |= dim < 0;
    empty |= dim == 0;
    if (dim > 0 && !keel_mul_i64(product, dim, &product)) return false;
  }
  int64_t bits = kd_dtype_bits(type->dtype);
  if (!keel_mul_i64(product, bits > 8 ? bits / 8 : 1, &bytes) ||
      bytes >= INT64_MAX / 4)
    return false;
  type->elements = open ? -1 : empty ? 0 : product;
  if (!open)
    type->bytes = (uint64_t)(bits < 8 ? (type->elements * bits + 7) / 8
                                      : type->elements * (bits / 8));
  return true;
}

static keel_status check(kd_dtype dtype, uint32_t rank, const int64_t *dims) {
  if (dtype == KD_NONE)
    return keel_fail(KD_INVALID_ARGUMENT, "0 is not an element type");
  if (dtype >= KD_DTYPE_COUNT)
    return keel_fail(KD_UNIMPLEMENTED,
                     "element type %u is one that Keel does not have yet",
                     (unsigned)dtype);
  if (rank > KD_MAX_RANK)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "a tensor has at most %u dimensions,"
                     " not %u",
                     KD_MAX_RANK, (unsigned)rank);
  for (uint32_t i = 0; i < rank; i++)
    if (dims[i] < -1)
      return keel_fail(KD_INVALID_ARGUMENT, "dimension %u is %lld", (unsigned)i,
                       (long long)dims[i]);
  return KD_OK;
}

static keel_status make(uint64_t hash, kd_dtype dtype, uint32_t rank,
                        const int64_t *dims, const keel_type **out_type) {
  KEEL_TRY(check(dtype, rank, dims));
  keel_type *type = calloc(1, sizeof *type + rank * sizeof *dims);
  if (!type) return keel_no_memory(sizeof *type);
  type->hash = hash;
  type->dtype = dtype;
  type->rank = rank;
  if (rank) memcpy(type->dims, dims, rank * sizeof *dims);
  if (!measure(type)) {
    char text[200];
    keel_type_text(type, text, sizeof text);
    free(type);
    return keel_fail(KD_INVALID_ARGUMENT,
                     "%s is too large: its dimensions come to more than 2^61"
                     " bytes",
                     text);
  }
  *out_type = type;
  return KD_OK;
}

keel_status keel_type_of(kd_dtype dtype, uint32_t rank, const int64_t *dims,
                         const keel_type **out_type) {
  uint64_t key[2] = {dtype, rank};
  uint64_t hash = keel_hash(KEEL_HASH_SEED, key, sizeof key);
  if (rank && rank <= KD_MAX_RANK)
    hash = keel_hash(hash, dims, rank * sizeof *dims);
  _Atomic(const keel_type *) *bucket = &buckets[hash % BUCKETS];

  /* acquire: pairs with the release below */
  const keel_type *head = atomic_load_explicit(bucket, memory_order_acquire);
  const keel_type *type = find(head, hash, dtype, rank, dims);
  if (!type) {
    const keel_type *fresh = NULL;
    KEEL_TRY(make(hash, dtype, rank, dims, &fresh));
    pthread_mutex_lock(&growing);
    head = atomic_load_explicit(bucket, memory_order_relaxed);
    type = find(head, hash, dtype, rank, dims);
    if (!type) {
      keel_type *linked = (keel_type *)(uintptr_t)fresh;
      linked->next = head;
      type = linked;
      atomic_store_explicit(bucket, type, memory_order_release);
      fresh = NULL;
    }
    pthread_mutex_unlock(&growing);
    free((void *)(uintptr_t)fresh);
  }
  *out_type = type;
  return KD_OK;
}

keel_status keel_type_stack(const keel_type *each, int64_t axis, int64_t count,
                            const keel_type **out_type) {
  int64_t dims[KD_MAX_RANK + 1];
  axis += axis < 0 ? each->rank + 1 : 0;
  if (axis < 0 || axis > (int64_t)each->rank)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "a scan output's axis is out of range");
  for (uint32_t d = 0, from = 0; d <= each->rank; d++)
    dims[d] = d == (uint32_t)axis ? count : each->dims[from++];
  return keel_type_of(each->dtype, each->rank + 1, dims, out_type);
}

keel_status keel_type_slice(const keel_type *all, int64_t axis,
                            const keel_type **out_type) {
  int64_t dims[KD_MAX_RANK];
  axis += axis < 0 ? all->rank : 0;
  if (axis < 0 || axis >= (int64_t)all->rank)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "a scan input's axis is out of range");
  for (uint32_t d = 0, to = 0; d < all->rank; d++)
    if (d != (uint32_t)axis) dims[to++] = all->dims[d];
  return keel_type_of(all->dtype, all->rank - 1, dims, out_type);
}

uint32_t keel_dtype_alignment(kd_dtype dtype) {
  uint32_t size = kd_dtype_size(dtype);
  if (dtype == KD_C64 || dtype == KD_C128) return size / 2;
  return size ? size : 1;
}

const char *keel_type_text(const keel_type *type, char *buffer, size_t size) {
  if (!type) {
    snprintf(buffer, size, "-");
    return buffer;
  }
  int at = snprintf(buffer, size, "%s[", kd_dtype_name(type->dtype));
  for (uint32_t i = 0; i < type->rank && at >= 0 && (size_t)at < size; i++) {
    size_t left = size - (size_t)at;
    if (type->dims[i] < 0)
      at += snprintf(buffer + at, left, "%s?", i ? "," : "");
    else
      at += snprintf(buffer + at, left, "%s%lld", i ? "," : "",
                     (long long)type->dims[i]);
  }
  if (at >= 0 && (size_t)at < size)
    snprintf(buffer + at, size - (size_t)at, "]");
  return buffer;
}
