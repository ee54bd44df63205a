/* type.c - the process's table of types: read without a lock, grown under one. */
#include "values/type.h"

#include <kd/help.h>
#include <pthread.h>

const keel_type keel_type_unknown = {
    .elements = -1, .dtype = KD_NONE, .rank = KD_RANK_UNKNOWN};

#define FIRST_SLOTS 4096u /* a power of two */

/* Open addressing: a type lies in the first free slot from its hash's on; a slot that is set
 * stays. Readers take no lock: one that has the table of before, or comes before a type that
 * is new, finds nothing, and looks again under `growing`, where types are added. */
typedef struct table {
  uint32_t shift; /* 64 less the logarithm of the number of slots */
  _Atomic(const keel_type *) *slots;
  struct table *older;
} table;

static _Atomic(const keel_type *) first_slots[FIRST_SLOTS];
static table first_table = {52, first_slots, NULL};
static _Atomic(table *) types = &first_table;
static uint64_t type_count;
static _Atomic uint64_t type_bytes; /* with the table; a statistic, relaxed */
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;

static uint64_t slots_of(const table *all) {
  return UINT64_C(1) << (64 - all->shift);
}

static bool is_type(const keel_type *at, uint64_t hash, kd_dtype dtype,
                    uint32_t rank, const int64_t *dims) {
  return at->hash == hash && at->dtype == dtype && at->rank == rank &&
         (!rank || !memcmp(at->dims, dims, rank * sizeof *dims));
}

/* The type's slot, or the empty one where it would be put. */
static _Atomic(const keel_type *) *find(const table *all, uint64_t hash,
                                        kd_dtype dtype, uint32_t rank,
                                        const int64_t *dims) {
  uint64_t mask = slots_of(all) - 1;
  uint64_t at = (hash * UINT64_C(0x9e3779b97f4a7c15)) >> all->shift;
  for (;; at = (at + 1) & mask) {
    /* acquire: pairs with the release in the function that adds a type */
    const keel_type *type =
        atomic_load_explicit(&all->slots[at], memory_order_acquire);
    if (!type || is_type(type, hash, dtype, rank, dims)) return &all->slots[at];
  }
}

/* Computes elements and bytes (of strings 0). False if the product of the positive dimensions exceeds 61
 * bits: strides and offsets of empty tensors are computed, too. */
static bool type_measure(keel_type *type) {
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

static keel_status type_check(kd_dtype dtype, uint32_t rank,
                              const int64_t *dims) {
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

static keel_status type_make(uint64_t hash, kd_dtype dtype, uint32_t rank,
                             const int64_t *dims, keel_type **out_type) {
  KEEL_TRY(type_check(dtype, rank, dims));
  keel_type *type = calloc(1, sizeof *type + rank * sizeof *dims);
  if (!type) return keel_no_memory(sizeof *type);
  type->hash = hash;
  type->dtype = dtype;
  type->rank = rank;
  if (rank) memcpy(type->dims, dims, rank * sizeof *dims);
  if (!type_measure(type)) {
    char text[200];
    keel_type_text(type, text, sizeof text);
    free(type);
    return keel_fail(
        KD_INVALID_ARGUMENT,
        "%s is too large: its dimensions amount to more than 2^61 bytes", text);
  }
  *out_type = type;
  return KD_OK;
}

/* Twice as many slots, with `growing` held. Those that readers may still look at stay, empty
 * and without memory. */
static keel_status type_grow(void) {
  table *old = atomic_load_explicit(&types, memory_order_relaxed);
  uint64_t slots = 2 * slots_of(old), bytes = slots * sizeof *old->slots;
  table *fresh = malloc(sizeof *fresh);
  void *memory = fresh ? calloc(slots, sizeof *old->slots) : NULL;
  if (!memory) {
    free(fresh);
    return keel_no_memory(bytes);
  }
  *fresh = (table){old->shift - 1, memory, old};
  for (uint64_t i = 0; i < slots / 2; i++) {
    const keel_type *type =
        atomic_load_explicit(&old->slots[i], memory_order_relaxed);
    if (type)
      atomic_store_explicit(
          find(fresh, type->hash, type->dtype, type->rank, type->dims), type,
          memory_order_relaxed);
  }
  /* release: pairs with the acquire in keel_type_of */
  atomic_store_explicit(&types, fresh, memory_order_release);
  if (old != &first_table) keel_file_evict((void *)old->slots, bytes / 2);
  atomic_fetch_add_explicit(&type_bytes, bytes / 2, memory_order_relaxed);
  return KD_OK;
}

/* Puts `fresh` into the table, unless another thread has put its like; `out_type` is the one
 * that is there. */
static keel_status type_add(keel_type *fresh, const keel_type **out_type) {
  table *all = atomic_load_explicit(&types, memory_order_relaxed);
  if (4 * type_count >= 3 * slots_of(all)) {
    KEEL_TRY(type_grow());
    all = atomic_load_explicit(&types, memory_order_relaxed);
  }
  _Atomic(const keel_type *) *slot =
      find(all, fresh->hash, fresh->dtype, fresh->rank, fresh->dims);
  *out_type = atomic_load_explicit(slot, memory_order_relaxed);
  if (*out_type) return KD_OK;
  type_count++;
  atomic_fetch_add_explicit(&type_bytes,
                            sizeof *fresh + fresh->rank * sizeof *fresh->dims,
                            memory_order_relaxed);
  atomic_store_explicit(slot, fresh, memory_order_release);
  *out_type = fresh;
  return KD_OK;
}

keel_status keel_type_of(kd_dtype dtype, uint32_t rank, const int64_t *dims,
                         const keel_type **out_type) {
  uint64_t key[2] = {dtype, rank};
  uint64_t hash = keel_hash(KEEL_HASH_SEED, key, sizeof key);
  if (rank && rank <= KD_MAX_RANK)
    hash = keel_hash(hash, dims, rank * sizeof *dims);
  const table *all = atomic_load_explicit(&types, memory_order_acquire);
  const keel_type *there = atomic_load_explicit(
      find(all, hash, dtype, rank, dims), memory_order_relaxed);
  if (there) {
    *out_type = there;
    return KD_OK;
  }
  keel_type *fresh = NULL;
  KEEL_TRY(type_make(hash, dtype, rank, dims, &fresh));
  pthread_mutex_lock(&growing);
  keel_status status = type_add(fresh, &there);
  pthread_mutex_unlock(&growing);
  if (status != KD_OK || there != fresh) free(fresh);
  if (status == KD_OK) *out_type = there;
  return status;
}

uint64_t keel_type_bytes(void) {
  return atomic_load_explicit(&type_bytes, memory_order_relaxed);
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
