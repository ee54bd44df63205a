/* resource.h - resources, which keep their content between ops and runs: variables,
 * counters, tables; and members of groups (member.h).
 *
 * A value of kind KEEL_RESOURCE holds a reference to one. Each function below is atomic. */
#ifndef KEEL_RESOURCE_H
#define KEEL_RESOURCE_H

#include "values/tensor.h"

typedef struct keel_resource keel_resource;
typedef enum keel_resource_kind {
  KEEL_VARIABLE,
  KEEL_COUNTER,
  KEEL_TABLE,
  KEEL_MEMBER
} keel_resource_kind;

void keel_resource_retain(keel_resource *resource);
void keel_resource_release(keel_resource *resource);

/* "variable of f32[2]", "counter", "table of f32[4]" */
void keel_resource_text(keel_resource *resource, char *buffer, size_t size);

/* The resource of a value. Returns KD_INVALID_ARGUMENT if it is not of that kind. */
keel_status keel_resource_of(keel_tensor *value, keel_resource_kind kind,
                             keel_resource **out_resource);

/* A variable holds one tensor: row-major, and where its home reads it, which creation and
 * assignment ensure.
 *
 * home       the device whose memory that is; NULL: the host's
 * any_shape  assigned tensors need only the same element type */
keel_status keel_variable_create(keel_tensor *initial, keel_device *home,
                                 bool any_shape, keel_tensor **out_value);
keel_device *keel_variable_home(const keel_resource *variable);
/* Retained; NULL for a resource that is not a variable. */
keel_tensor *keel_variable_read(keel_resource *variable);
/* Returns KD_INVALID_ARGUMENT if the type is not the variable's. */
keel_status keel_variable_assign(keel_resource *variable, keel_tensor *tensor);

/* A counter holds a 64-bit integer that wraps around. */
keel_status keel_counter_create(keel_context *context, int64_t start,
                                keel_tensor **out_value);
/* Returns the value before the addition. */
int64_t keel_counter_add(keel_resource *counter, int64_t by);

/* A table maps integer keys to rows, in host memory.
 *
 * absent  the row of keys that are not in it, in host memory; says the type of rows */
keel_status keel_table_create(keel_tensor *absent, keel_tensor **out_value);
const keel_type *keel_table_row(const keel_resource *resource);
int64_t keel_table_count(keel_resource *resource);
/* Rows are contiguous. The row of an existing key is replaced; of duplicate keys, the last
 * row counts. If memory runs out, nothing is changed. */
keel_status keel_table_insert(keel_resource *resource, const int64_t *keys,
                              int64_t count, const void *rows);
/* found: by key, 0 or 1 */
void keel_table_find(keel_resource *resource, const int64_t *keys,
                     int64_t count, void *out_rows, uint8_t *out_found);
/* Returns how many of them existed. */
int64_t keel_table_erase(keel_resource *resource, const int64_t *keys,
                         int64_t count);
/* All keys in ascending order, and their rows. */
keel_status keel_table_entries(keel_resource *resource, keel_tensor **out_keys,
                               keel_tensor **out_rows);

#endif /* KEEL_RESOURCE_H */
