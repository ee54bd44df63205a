/* resource.c - variables, counters, tables, and handles of groups' members. */
#include "values/resource.h"

#include "base/refs.h"
#include "device/context.h"
#include "device/device.h"
#include "values/member.h"

/* Open addressing over a dense array of entries; a slot holds an entry's index + 1. The
 * last entry replaces one that is removed. */
typedef struct table {
  keel_tensor *absent; /* in host memory, row-major */
  uint64_t row_bytes;
  int64_t *keys;
  char *rows;
  uint32_t *slots;
  uint32_t mask; /* slots - 1, or 0: there are none */
  uint32_t count, capacity;
} table;

struct keel_resource {
  atomic_uint refs;
  keel_resource_kind kind;
  keel_context *context;
  /* guards the variable's tensor and the table's content; held while a pointer is exchanged
   * or rows are copied */
  pthread_rwlock_t lock;
  keel_tensor *tensor; /* of a variable */
  keel_device *home;   /* the device whose memory holds it; NULL: host memory */
  bool any_shape;
  /* of a counter; seq_cst */
  _Atomic uint64_t number;
  table table;
  keel_member *member;
};

/* ---- all kinds -------------------------------------------------------------- */

static keel_status resource_create(keel_context *context,
                                   keel_resource_kind kind,
                                   keel_tensor **out_value) {
  *out_value = NULL;
  keel_resource *resource = calloc(1, sizeof *resource);
  if (!resource) return keel_no_memory(sizeof *resource);
  keel_tensor *value = keel_tensor_new(context);
  if (!value) {
    free(resource);
    return KD_OUT_OF_MEMORY;
  }
  keel_refs_init(&resource->refs);
  pthread_rwlock_init(&resource->lock, NULL);
  resource->kind = kind;
  resource->context = context;
  value->kind = KEEL_RESOURCE;
  value->resource = resource;
  *out_value = value;
  return KD_OK;
}

void keel_resource_retain(keel_resource *resource) {
  /* relaxed: the caller already has a reference */
  keel_refs_take(&resource->refs);
}

void keel_resource_release(keel_resource *resource) {
  /* acq_rel: the last holder sees what all the others wrote */
  if (!keel_refs_drop(&resource->refs)) return;
  keel_tensor_release(resource->tensor);
  keel_tensor_release(resource->table.absent);
  free(resource->table.keys);
  free(resource->table.rows);
  free(resource->table.slots);
  if (resource->member) resource->member->leave(resource->member);
  pthread_rwlock_destroy(&resource->lock);
  free(resource);
}

static const char *kind_name(keel_resource_kind kind) {
  return kind == KEEL_VARIABLE  ? "variable"
         : kind == KEEL_COUNTER ? "counter"
         : kind == KEEL_TABLE   ? "table"
                                : "member";
}

void keel_resource_text(keel_resource *resource, char *buffer, size_t size) {
  keel_tensor *of = resource->kind == KEEL_VARIABLE
                        ? keel_variable_read(resource)
                        : keel_tensor_retain(resource->table.absent);
  char type[200];
  if (of)
    snprintf(buffer, size, "%s of %s", kind_name(resource->kind),
             keel_type_text(of->type, type, sizeof type));
  else
    snprintf(buffer, size, "%s", kind_name(resource->kind));
  keel_tensor_release(of);
}

keel_status keel_resource_of(keel_tensor *value, keel_resource_kind kind,
                             keel_resource **out_resource) {
  char text[256];
  if (!value)
    return keel_fail(KD_INVALID_ARGUMENT, "the %s is missing", kind_name(kind));
  if (value->kind != KEEL_RESOURCE || value->resource->kind != kind)
    return keel_fail(KD_INVALID_ARGUMENT, "takes a %s, and got a %s",
                     kind_name(kind),
                     keel_tensor_text(value, text, sizeof text));
  *out_resource = value->resource;
  return KD_OK;
}

/* ---- members ------------------------------------------------------------------ */

keel_status keel_member_value(keel_context *context, keel_member *member,
                              keel_tensor **out_value) {
  KEEL_TRY(resource_create(context, KEEL_MEMBER, out_value));
  (*out_value)->resource->member = member;
  return KD_OK;
}

keel_member *keel_member_of(const keel_resource *resource) {
  return resource->kind == KEEL_MEMBER ? resource->member : NULL;
}

static keel_member *member_among(keel_tensor *const *values, uint32_t count,
                                 uint32_t *at) {
  for (; *at < count; ++*at) {
    keel_tensor *value = values[*at];
    if (value && keel_tensor_state(value) == KEEL_READY &&
        value->kind == KEEL_RESOURCE && value->resource->kind == KEEL_MEMBER)
      return value->resource->member;
  }
  return NULL;
}

bool keel_members_among(keel_tensor *const *values, uint32_t count) {
  uint32_t at = 0;
  return member_among(values, count, &at) != NULL;
}

void keel_members_fail(keel_tensor *const *values, uint32_t count,
                       keel_status failure) {
  uint32_t at = 0;
  keel_member *member = member_among(values, count, &at);
  if (!member) return;
  keel_tensor *failed = keel_tensor_failed(values[at]->context, failure);
  for (; failed && member; at++, member = member_among(values, count, &at))
    member->lose(member, failed);
  if (failed) keel_tensor_query(failed);
  keel_tensor_release(failed);
}

/* ---- variables ---------------------------------------------------------------- */

keel_status keel_variable_create(keel_tensor *initial, keel_device *home,
                                 bool any_shape, keel_tensor **out_value) {
  KEEL_TRY(resource_create(initial->context, KEEL_VARIABLE, out_value));
  keel_resource *variable = (*out_value)->resource;
  variable->tensor = keel_tensor_retain(initial);
  variable->home = home;
  variable->any_shape = any_shape;
  return KD_OK;
}

keel_device *keel_variable_home(const keel_resource *variable) {
  return variable->home;
}

keel_tensor *keel_variable_read(keel_resource *variable) {
  pthread_rwlock_rdlock(&variable->lock);
  keel_tensor *tensor = keel_tensor_retain(variable->tensor);
  pthread_rwlock_unlock(&variable->lock);
  return tensor;
}

/* All tensors of a variable agree in what is fixed about the type, so any one of them can
 * be checked against. */
static keel_status check_type(keel_resource *variable,
                              const keel_tensor *tensor) {
  char held[200], given[200];
  keel_tensor *now = keel_variable_read(variable);
  bool fits = variable->any_shape ? tensor->type->dtype == now->type->dtype
                                  : tensor->type == now->type;
  keel_status status = KD_OK;
  if (!fits)
    status = keel_fail(KD_INVALID_ARGUMENT, "the variable holds %s%s, not %s",
                       variable->any_shape ? "any shape of " : "",
                       variable->any_shape
                           ? kd_dtype_name(now->type->dtype)
                           : keel_type_text(now->type, held, sizeof held),
                       keel_type_text(tensor->type, given, sizeof given));
  keel_tensor_release(now);
  return status;
}

keel_status keel_variable_assign(keel_resource *variable, keel_tensor *tensor) {
  KEEL_TRY(check_type(variable, tensor));
  keel_tensor_retain(tensor);
  pthread_rwlock_wrlock(&variable->lock);
  keel_tensor *before = variable->tensor;
  variable->tensor = tensor;
  pthread_rwlock_unlock(&variable->lock);
  keel_tensor_release(before); /* outside the lock: it may free much memory */
  return KD_OK;
}

/* ---- counters ----------------------------------------------------------------- */

keel_status keel_counter_create(keel_context *context, int64_t start,
                                keel_tensor **out_value) {
  KEEL_TRY(resource_create(context, KEEL_COUNTER, out_value));
  atomic_init(&(*out_value)->resource->number, (uint64_t)start);
  return KD_OK;
}

int64_t keel_counter_add(keel_resource *counter, int64_t by) {
  /* relaxed: only the number matters; a run's ops are ordered otherwise */
  return (int64_t)atomic_fetch_add_explicit(&counter->number, (uint64_t)by,
                                            memory_order_relaxed);
}

/* ---- tables ------------------------------------------------------------------- */

#define MOST_ENTRIES (UINT32_C(1) << 30)

keel_status keel_table_create(keel_tensor *absent, keel_tensor **out_value) {
  KEEL_TRY(resource_create(absent->context, KEEL_TABLE, out_value));
  (*out_value)->resource->table = (table){.absent = keel_tensor_retain(absent),
                                          .row_bytes = absent->type->bytes};
  return KD_OK;
}

const keel_type *keel_table_row(const keel_resource *resource) {
  return resource->table.absent->type;
}

int64_t keel_table_count(keel_resource *resource) {
  pthread_rwlock_rdlock(&resource->lock);
  int64_t count = resource->table.count;
  pthread_rwlock_unlock(&resource->lock);
  return count;
}

static uint32_t first_slot(const table *t, int64_t key) {
  assert(t->mask);
  return (uint32_t)keel_hash(KEEL_HASH_SEED, &key, sizeof key) & t->mask;
}

/* The slot of a key, or the empty slot where it belongs. The table has slots. */
static uint32_t resource_slot_of(const table *t, int64_t key) {
  uint32_t at = first_slot(t, key);
  while (t->slots[at] && t->keys[t->slots[at] - 1] != key)
    at = (at + 1) & t->mask;
  return at;
}

static char *row_at(const table *t, uint32_t entry) {
  return t->rows + entry * t->row_bytes;
}

/* Makes room for so many entries, with at most half of the slots in use. */
static keel_status resource_grow(table *t, int64_t wanted) {
  if (wanted <= (int64_t)t->capacity) return KD_OK;
  if (wanted > MOST_ENTRIES)
    return keel_fail(KD_OUT_OF_MEMORY, "a table has at most %u entries",
                     (unsigned)MOST_ENTRIES);
  uint32_t capacity = t->capacity ? t->capacity : 16;
  while (capacity < wanted)
    capacity *= 2;
  uint64_t bytes = capacity * (t->row_bytes + 1); /* 1: rows may be empty */
  int64_t *keys = realloc(t->keys, capacity * sizeof *keys);
  if (keys) t->keys = keys;
  char *rows =
      t->row_bytes > UINT64_MAX / capacity / 2 ? NULL : realloc(t->rows, bytes);
  if (rows) t->rows = rows;
  uint32_t *slots = calloc(2 * (size_t)capacity, sizeof *slots);
  if (!keys || !rows || !slots) {
    free(slots);
    return keel_no_memory(bytes +
                          capacity * (sizeof *keys + 2 * sizeof *slots));
  }
  free(t->slots);
  t->slots = slots;
  t->mask = 2 * capacity - 1;
  t->capacity = capacity;
  for (uint32_t i = 0; i < t->count; i++)
    t->slots[resource_slot_of(t, t->keys[i])] = i + 1;
  return KD_OK;
}

keel_status keel_table_insert(keel_resource *resource, const int64_t *keys,
                              int64_t count, const void *rows) {
  table *t = &resource->table;
  pthread_rwlock_wrlock(&resource->lock);
  int64_t fresh = 0; /* a duplicate key counts twice, which only wastes room */
  for (int64_t i = 0; i < count; i++)
    fresh += !t->mask || !t->slots[resource_slot_of(t, keys[i])];
  keel_status status = resource_grow(t, (int64_t)t->count + fresh);
  for (int64_t i = 0; status == KD_OK && i < count; i++) {
    uint32_t slot = resource_slot_of(t, keys[i]);
    if (!t->slots[slot]) {
      assert(t->count < t->capacity);
      t->keys[t->count++] = keys[i];
      t->slots[slot] = t->count;
    }
    if (t->row_bytes)
      memcpy(row_at(t, t->slots[slot] - 1),
             (const char *)rows + (uint64_t)i * t->row_bytes, t->row_bytes);
  }
  pthread_rwlock_unlock(&resource->lock);
  return status;
}

void keel_table_find(keel_resource *resource, const int64_t *keys,
                     int64_t count, void *out_rows, uint8_t *out_found) {
  const table *t = &resource->table;
  pthread_rwlock_rdlock(&resource->lock);
  for (int64_t i = 0; i < count; i++) {
    uint32_t entry = t->mask ? t->slots[resource_slot_of(t, keys[i])] : 0;
    if (out_found) out_found[i] = entry != 0;
    if (t->row_bytes)
      memcpy((char *)out_rows + (uint64_t)i * t->row_bytes,
             entry ? row_at(t, entry - 1) : t->absent->data, t->row_bytes);
  }
  pthread_rwlock_unlock(&resource->lock);
}

/* Empties a slot, and moves displaced entries after it up. */
static void close_gap(table *t, uint32_t gap) {
  t->slots[gap] = 0;
  for (uint32_t at = (gap + 1) & t->mask; t->slots[at];
       at = (at + 1) & t->mask) {
    uint32_t wish = first_slot(t, t->keys[t->slots[at] - 1]);
    /* whether the gap lies between its home slot and its slot */
    if (((at - wish) & t->mask) < ((at - gap) & t->mask)) continue;
    t->slots[gap] = t->slots[at];
    t->slots[at] = 0;
    gap = at;
  }
}

static void erase_entry(table *t, uint32_t slot) {
  uint32_t entry = t->slots[slot] - 1, last = t->count - 1;
  assert(t->slots[slot] && entry <= last);
  close_gap(t, slot);
  if (entry != last) {
    t->slots[resource_slot_of(t, t->keys[last])] = entry + 1;
    t->keys[entry] = t->keys[last];
    if (t->row_bytes) memcpy(row_at(t, entry), row_at(t, last), t->row_bytes);
  }
  t->count = last;
}

int64_t keel_table_erase(keel_resource *resource, const int64_t *keys,
                         int64_t count) {
  table *t = &resource->table;
  int64_t gone = 0;
  pthread_rwlock_wrlock(&resource->lock);
  for (int64_t i = 0; i < count && t->count; i++) {
    uint32_t slot = resource_slot_of(t, keys[i]);
    if (!t->slots[slot]) continue;
    erase_entry(t, slot);
    gone++;
  }
  pthread_rwlock_unlock(&resource->lock);
  return gone;
}

static int by_key(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Tensors for so many entries. */
static keel_status entry_tensors(keel_resource *resource, int64_t count,
                                 keel_tensor **out_keys,
                                 keel_tensor **out_rows) {
  const keel_type *row = keel_table_row(resource), *keys = NULL, *rows = NULL;
  int64_t dims[KD_MAX_RANK + 1] = {count};
  memcpy(dims + 1, row->dims, row->rank * sizeof *dims);
  KEEL_TRY(keel_type_of(KD_I64, 1, dims, &keys));
  KEEL_TRY(keel_type_of(row->dtype, row->rank + 1, dims, &rows));
  KEEL_TRY(keel_tensor_on(&resource->context->host, keys, out_keys));
  return keel_tensor_on(&resource->context->host, rows, out_rows);
}

keel_status keel_table_entries(keel_resource *resource, keel_tensor **out_keys,
                               keel_tensor **out_rows) {
  const table *t = &resource->table;
  *out_keys = *out_rows = NULL;
  pthread_rwlock_rdlock(&resource->lock);
  keel_status status = entry_tensors(resource, t->count, out_keys, out_rows);
  if (status == KD_OK && t->count) {
    int64_t *keys = (*out_keys)->data;
    memcpy(keys, t->keys, t->count * sizeof *keys);
    qsort(keys, t->count, sizeof *keys, by_key);
    for (uint32_t i = 0; t->row_bytes && i < t->count; i++)
      memcpy((char *)(*out_rows)->data + i * t->row_bytes,
             row_at(t, t->slots[resource_slot_of(t, keys[i])] - 1),
             t->row_bytes);
  }
  pthread_rwlock_unlock(&resource->lock);
  if (status != KD_OK) {
    keel_tensor_release(*out_keys);
    keel_tensor_release(*out_rows);
    *out_keys = *out_rows = NULL;
  }
  return status;
}
