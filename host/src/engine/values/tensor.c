/* tensor.c - creates, retains, resolves and waits for values. */
#include "values/tensor.h"

#include <kd/help.h>

#include "base/refs.h"
#include "device/context.h"
#include "device/failures.h"
#include "threads/pool.h"
#include "values/resource.h"
#include "values/strings.h"

#define TENSORS_KEPT 256

keel_tensor *keel_tensor_new(keel_context *context) {
  keel_thread_lists *lists = &keel_lists;
  keel_tensor *tensor = lists->tensors;
  if (tensor) {
    assert(lists->tensor_count);
    lists->tensors = tensor->next_free;
    lists->tensor_count--;
  } else {
    tensor = malloc(sizeof *tensor);
    if (!tensor) {
      keel_no_memory(sizeof *tensor);
      return NULL;
    }
  }
  *tensor = (keel_tensor){.context = context};
  keel_refs_init(&tensor->refs);
  keel_future_init(&tensor->future, KEEL_READY);
  return tensor;
}

/* ---- identity ------------------------------------------------------------- */

/* relaxed: nothing else is published by a number */
static uint64_t give_identity(keel_tensor *tensor, uint64_t number) {
  uint64_t none = 0;
  return atomic_compare_exchange_strong_explicit(&tensor->identity, &none,
                                                 number, memory_order_relaxed,
                                                 memory_order_relaxed)
             ? number
             : none;
}

uint64_t keel_tensor_identity(keel_tensor *tensor) {
  static _Atomic uint64_t last;
  uint64_t known =
      atomic_load_explicit(&tensor->identity, memory_order_relaxed);
  if (known) return known;
  known = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
  return give_identity(tensor, known);
}

void keel_tensor_is_copy_of(keel_tensor *copy, keel_tensor *original) {
  if (copy != original) give_identity(copy, keel_tensor_identity(original));
}

/* ---- errors --------------------------------------------------------------- */

static keel_error *error_make(keel_status status, const char *message) {
  static keel_error last_resort = {1, KD_OUT_OF_MEMORY, "out of host memory"};
  size_t size = strlen(message) + 1;
  keel_error *error = malloc(sizeof *error + size);
  if (!error) { /* never freed: one reference is never dropped */
    keel_refs_take(&last_resort.refs);
    return &last_resort;
  }
  keel_refs_init(&error->refs);
  error->status = status;
  error->message = memcpy(error + 1, message, size);
  return error;
}

static void error_release(keel_error *error) {
  if (error && keel_refs_drop(&error->refs)) free(error);
}

/* ---- references ----------------------------------------------------------- */

static void late_free(keel_late *late) {
  if (!late) return;
  keel_tensor_release(late->constant);
  keel_tensor_release(atomic_load(&late->there));
  pthread_mutex_destroy(&late->lock);
  free(late);
}

static void drop_content(keel_tensor *tensor) {
  if (tensor->buffer) keel_buffer_release(tensor->buffer);
  error_release(tensor->error);
  late_free(tensor->late);
  if (tensor->kind == KEEL_RESOURCE) {
    keel_resource_release(tensor->resource);
    return;
  }
  if (tensor->kind == KEEL_STRINGS) {
    keel_strings_release(tensor->strings);
    return;
  }
  for (uint32_t i = 0; i < tensor->item_count; i++)
    keel_tensor_release(tensor->items[i]);
  free(tensor->items);
}

keel_tensor *keel_tensor_retain(keel_tensor *tensor) {
  if (tensor) keel_refs_take(&tensor->refs);
  return tensor;
}

void keel_tensor_release(keel_tensor *tensor) {
  if (!tensor || !keel_refs_drop(&tensor->refs)) return;
  drop_content(tensor);
  keel_thread_lists *lists = &keel_lists;
  if (lists->tensor_count >= TENSORS_KEPT) {
    free(tensor);
    return;
  }
  if (!lists->listed) keel_lists_enrol();
  tensor->next_free = lists->tensors;
  lists->tensors = tensor;
  lists->tensor_count++;
}

/* ---- making --------------------------------------------------------------- */

keel_status keel_tensor_on(keel_heap *heap, const keel_type *type,
                           keel_tensor **out_tensor) {
  keel_tensor *tensor = keel_tensor_new(heap->context);
  if (!tensor) return KD_OUT_OF_MEMORY;
  keel_status status = keel_heap_take(heap, type->bytes, &tensor->buffer);
  if (status != KD_OK) {
    keel_tensor_release(tensor);
    return status;
  }
  tensor->type = type;
  tensor->data = tensor->buffer->address;
  *out_tensor = tensor;
  return KD_OK;
}

keel_status keel_tensor_in_buffer(keel_buffer *buffer, const keel_type *type,
                                  keel_tensor **out_tensor) {
  keel_tensor *tensor = keel_tensor_new(buffer->heap->context);
  if (!tensor) return KD_OUT_OF_MEMORY;
  tensor->buffer = keel_buffer_retain(buffer);
  tensor->type = type;
  tensor->data = buffer->address;
  *out_tensor = tensor;
  return KD_OK;
}

keel_status keel_tensor_view(keel_tensor *tensor, const keel_type *type,
                             keel_tensor **out_tensor) {
  keel_tensor *view = keel_tensor_new(tensor->context);
  if (!view) return KD_OUT_OF_MEMORY;
  view->type = type;
  if (keel_is_strings(tensor)) {
    keel_strings_retain(tensor->strings);
    view->kind = KEEL_STRINGS;
    view->strings = tensor->strings;
  }
  view->layout = tensor->layout;
  view->layout_bytes = tensor->layout_bytes;
  view->buffer = tensor->buffer ? keel_buffer_retain(tensor->buffer) : NULL;
  view->offset = tensor->offset;
  view->data = tensor->data;
  *out_tensor = view;
  return KD_OK;
}

keel_status keel_tensor_part(keel_tensor *tensor, const keel_type *type,
                             uint64_t offset, const int64_t *strides,
                             keel_tensor **out_tensor) {
  KEEL_TRY(keel_tensor_view(tensor, type, out_tensor));
  (*out_tensor)->offset += offset;
  assert(!tensor->buffer || (*out_tensor)->offset <= tensor->buffer->size ||
         !type->elements);
  if (tensor->data) (*out_tensor)->data = (char *)tensor->data + offset;
  (*out_tensor)->strides = strides;
  return KD_OK;
}

keel_status keel_tensor_type(kd_dtype dtype, uint32_t rank, const int64_t *dims,
                             const keel_type **out_type) {
  KEEL_TRY(keel_type_of(dtype, rank, dims, out_type));
  if (dtype == KD_STRING)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "strings are not plain data: keel_strings_create makes "
                     "tensors of them");
  if (!keel_type_known(*out_type))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "a tensor with data can't have an open dimension");
  return KD_OK;
}

/* data NULL: zeros */
static keel_status tensor_copy_in(keel_context *context, const keel_type *type,
                                  const void *data, keel_tensor **out_tensor) {
  KEEL_TRY(keel_tensor_on(&context->host, type, out_tensor));
  if (!data)
    memset((*out_tensor)->data, 0, type->bytes);
  else if (type->bytes)
    memcpy((*out_tensor)->data, data, type->bytes);
  return KD_OK;
}

keel_status keel_tensor_create(keel_context *context, kd_dtype dtype,
                               uint32_t rank, const int64_t *dims,
                               const void *data, keel_tensor **out_tensor) {
  const keel_type *type = NULL;
  *out_tensor = NULL;
  KEEL_TRY(keel_tensor_type(dtype, rank, dims, &type));
  return tensor_copy_in(context, type, data, out_tensor);
}

static keel_status tensor_share(keel_context *context, const keel_type *type,
                                const void *data, void (*done)(void *),
                                void *done_context, keel_tensor **out_tensor) {
  keel_tensor *tensor = keel_tensor_new(context);
  if (!tensor) return KD_OUT_OF_MEMORY;
  keel_status status = keel_heap_wrap(&context->host, data, type->bytes, done,
                                      done_context, &tensor->buffer);
  if (status != KD_OK) {
    keel_tensor_release(tensor);
    return status;
  }
  tensor->type = type;
  tensor->data = tensor->buffer->address;
  *out_tensor = tensor;
  return KD_OK;
}

keel_status keel_tensor_wrap(keel_context *context, kd_dtype dtype,
                             uint32_t rank, const int64_t *dims,
                             const void *data, void (*done)(void *),
                             void *done_context, keel_tensor **out_tensor) {
  const keel_type *type = NULL;
  *out_tensor = NULL;
  KEEL_TRY(keel_tensor_type(dtype, rank, dims, &type));
  if (!data && type->bytes)
    return keel_fail(KD_INVALID_ARGUMENT, "no data to wrap");
  if (keel_aligned_to(data, keel_dtype_alignment(dtype)))
    return tensor_share(context, type, data, done, done_context, out_tensor);
  KEEL_TRY(tensor_copy_in(context, type, data, out_tensor));
  if (done) done(done_context);
  return KD_OK;
}

keel_tensor *keel_tensor_failed(keel_context *context, keel_status status) {
  keel_tensor *tensor = keel_tensor_new(context);
  if (!tensor) return NULL;
  tensor->error = error_make(status, keel_message());
  keel_future_init(&tensor->future, KEEL_FAILED);
  return tensor;
}

/* ---- pending values ------------------------------------------------------- */

keel_tensor *keel_tensor_pending(keel_context *context) {
  keel_tensor *tensor = keel_tensor_new(context);
  if (!tensor) return NULL;
  keel_future_init(&tensor->future, KEEL_PENDING);
  return tensor;
}

/* Resolves the value: its content is final, and all waiters are called. */
static void make_known(keel_tensor *pending, uint32_t state) {
  keel_context *context = pending->context;
  keel_future_settle(&pending->future, state);
  keel_pool_wake_waiters(context->pool);
}

void keel_tensor_resolve_failed(keel_tensor *pending, keel_status status) {
  pending->error = error_make(status, keel_message());
  make_known(pending, KEEL_FAILED);
}

void keel_tensor_announce_failed(keel_tensor *pending, keel_status status) {
  keel_pool *pool = pending->context->pool;
  pending->error = error_make(status, keel_message());
  keel_future_publish(&pending->future, KEEL_FAILED);
  keel_pool_wake_waiters(pool);
}

void keel_tensor_tell(keel_tensor *pending) {
  keel_future_tell(&pending->future);
}

void keel_tensor_resolve(keel_tensor *pending, keel_tensor *value) {
  uint32_t state = keel_tensor_state(value);
  assert(value != pending && state != KEEL_PENDING);
  pending->kind = value->kind;
  pending->layout = value->layout;
  pending->layout_bytes = value->layout_bytes;
  pending->type = value->type;
  pending->offset = value->offset;
  pending->data = value->data;
  if (value->buffer) pending->buffer = keel_buffer_retain(value->buffer);
  if (value->error) {
    keel_refs_take(&value->error->refs);
    pending->error = value->error;
  }
  if (value->kind == KEEL_RESOURCE) {
    keel_resource_retain(value->resource);
    pending->resource = value->resource;
  }
  if (keel_is_strings(value)) {
    keel_strings_retain(value->strings);
    pending->strings = value->strings;
  }
  if (value->item_count) {
    pending->items = malloc(value->item_count * sizeof *pending->items);
    if (pending->items) {
      pending->item_count = value->item_count;
      for (uint32_t i = 0; i < value->item_count; i++)
        pending->items[i] = keel_tensor_retain(value->items[i]);
    } else {
      pending->error =
          error_make(keel_no_memory(value->item_count), keel_message());
      state = KEEL_FAILED;
    }
  }
  make_known(pending, state);
}

typedef struct follower {
  keel_waiter waiter; /* must be first: cast from keel_waiter */
  keel_tensor *pending, *value;
} follower;

static void value_came(keel_waiter *waiter) {
  follower *self = (follower *)(void *)waiter;
  keel_tensor_resolve(self->pending, self->value);
  keel_tensor_release(self->pending);
  keel_tensor_release(self->value);
  free(self);
}

void keel_tensor_follow(keel_tensor *pending, keel_tensor *value) {
  if (keel_tensor_state(value) != KEEL_PENDING) {
    keel_tensor_resolve(pending, value);
    return;
  }
  follower *made = malloc(sizeof *made);
  if (!made) {
    keel_tensor_resolve_failed(pending, keel_no_memory(sizeof *made));
    return;
  }
  *made = (follower){{NULL, value_came},
                     keel_tensor_retain(pending),
                     keel_tensor_retain(value)};
  keel_tensor_then(value, &made->waiter);
}

void keel_tensor_then(keel_tensor *tensor, keel_waiter *waiter) {
  keel_future_then(&tensor->future, waiter);
}

typedef struct notice {
  keel_waiter waiter; /* must be first: cast from keel_waiter */
  keel_tensor *tensor;
  void (*function)(void *context, keel_tensor *tensor, keel_status status);
  void *context;
} notice;

static void tensor_tell(keel_waiter *waiter) {
  notice *self = (notice *)(void *)waiter;
  self->function(self->context, self->tensor, keel_tensor_query(self->tensor));
  keel_tensor_release(self->tensor);
  free(self);
}

keel_status keel_tensor_on_done(keel_tensor *tensor,
                                void (*function)(void *context,
                                                 keel_tensor *tensor,
                                                 keel_status status),
                                void *function_context) {
  notice *made = malloc(sizeof *made);
  if (!made) return keel_no_memory(sizeof *made);
  *made = (notice){{NULL, tensor_tell},
                   keel_tensor_retain(tensor),
                   function,
                   function_context};
  keel_tensor_then(tensor, &made->waiter);
  return KD_OK;
}

keel_status keel_tensor_promise(keel_context *context,
                                keel_tensor **out_tensor) {
  *out_tensor = keel_tensor_pending(context);
  return *out_tensor ? KD_OK : KD_OUT_OF_MEMORY;
}

keel_status keel_tensor_fulfil(keel_tensor *promise, keel_tensor *value) {
  if (keel_tensor_state(promise) != KEEL_PENDING)
    return keel_fail(KD_FAILED_PRECONDITION, "the promise already has a value");
  if (keel_tensor_state(value) == KEEL_PENDING) keel_tensor_wait_known(value);
  keel_tensor_resolve(promise, value);
  return KD_OK;
}

keel_status keel_tensor_fail(keel_tensor *promise, keel_status status,
                             const char *message) {
  if (keel_tensor_state(promise) != KEEL_PENDING)
    return keel_fail(KD_FAILED_PRECONDITION, "the promise already has a value");
  if (status == KD_OK)
    return keel_fail(KD_INVALID_ARGUMENT, "KD_OK is not a failure");
  keel_fail_text(status, message ? message : keel_status_name(status));
  keel_tensor_resolve_failed(promise, status);
  return KD_OK;
}

keel_status keel_tensor_query(keel_tensor *tensor) {
  switch (keel_tensor_state(tensor)) {
    case KEEL_READY:
      return KD_OK;
    case KEEL_PENDING:
      return keel_fail(KD_BUSY, "the value is not known yet");
    default:
      return keel_fail_text(tensor->error->status, tensor->error->message);
  }
}

static bool tensor_is_known(void *tensor) {
  return keel_tensor_state(tensor) != KEEL_PENDING;
}

keel_status keel_tensor_wait_known(keel_tensor *tensor) {
  if (keel_tensor_state(tensor) == KEEL_PENDING)
    keel_pool_wait_limited(tensor->context->pool, tensor_is_known, tensor, 0,
                           tensor->future.limited);
  return keel_tensor_query(tensor);
}

static keel_status wait_for_variable(keel_resource *resource) {
  keel_tensor *held = keel_variable_read(resource);
  keel_status status = held ? keel_tensor_wait(held) : KD_OK;
  keel_tensor_release(held);
  return status;
}

/* For work that writes it, its items or what a variable holds, too. Within a run, the end of the
 * run ends the wait. */
keel_status keel_tensor_wait(keel_tensor *tensor) {
  KEEL_TRY(keel_tensor_wait_known(tensor));
  if (tensor->kind == KEEL_RESOURCE) return wait_for_variable(tensor->resource);
  for (uint32_t i = 0; i < tensor->item_count; i++)
    KEEL_TRY(keel_tensor_wait(tensor->items[i]));
  return keel_failures_await_written(tensor->buffer);
}

/* ---- looking -------------------------------------------------------------- */

static const keel_type *tensor_type_of(keel_tensor *tensor) {
  if (keel_tensor_state(tensor) == KEEL_PENDING) keel_tensor_wait_known(tensor);
  return keel_tensor_state(tensor) == KEEL_READY ? tensor->type : NULL;
}

kd_dtype keel_tensor_dtype(keel_tensor *tensor) {
  const keel_type *type = tensor_type_of(tensor);
  return type ? type->dtype : KD_NONE;
}

uint32_t keel_tensor_rank(keel_tensor *tensor) {
  const keel_type *type = tensor_type_of(tensor);
  return type ? type->rank : 0;
}

const int64_t *keel_tensor_dims(keel_tensor *tensor) {
  const keel_type *type = tensor_type_of(tensor);
  return type ? type->dims : NULL;
}

int64_t keel_tensor_elements(keel_tensor *tensor) {
  const keel_type *type = tensor_type_of(tensor);
  return type ? type->elements : -1;
}

uint64_t keel_tensor_size(keel_tensor *tensor) {
  const keel_type *type = tensor_type_of(tensor);
  return type ? type->bytes : 0;
}

keel_device *keel_tensor_device(keel_tensor *tensor) {
  return tensor_type_of(tensor) ? keel_tensor_location(tensor) : NULL;
}

void *keel_tensor_host_data(const keel_tensor *tensor) {
  return keel_device_addressable(keel_tensor_location(tensor)) ? tensor->data
                                                               : NULL;
}

const void *keel_tensor_data(keel_tensor *tensor) {
  return tensor_type_of(tensor) && tensor->layout == KD_LAYOUT_ROW_MAJOR &&
                 keel_failures_await(tensor->buffer) == KD_OK
             ? keel_tensor_host_data(tensor)
             : NULL;
}

const char *keel_tensor_text(keel_tensor *tensor, char *buffer, uint32_t size) {
  uint32_t state = keel_tensor_state(tensor);
  if (state == KEEL_PENDING)
    snprintf(buffer, size, "pending");
  else if (state == KEEL_FAILED)
    snprintf(buffer, size, "failed: %s", tensor->error->message);
  else if (tensor->kind == KEEL_SEQUENCE)
    snprintf(buffer, size, "sequence of %u", tensor->item_count);
  else if (tensor->kind == KEEL_OPTIONAL_EMPTY)
    snprintf(buffer, size, "empty optional");
  else if (tensor->kind == KEEL_RESOURCE)
    keel_resource_text(tensor->resource, buffer, size);
  else
    keel_type_text(tensor->type, buffer, size);
  return buffer;
}

keel_status keel_tensor_need_data(keel_tensor *tensor) {
  KEEL_TRY(keel_tensor_wait_known(tensor));
  if (tensor->kind != KEEL_DATA)
    return keel_fail(KD_INVALID_ARGUMENT, "%s, not a tensor of numbers",
                     tensor->kind == KEEL_SEQUENCE   ? "a sequence"
                     : tensor->kind == KEEL_RESOURCE ? "a resource"
                     : tensor->kind == KEEL_STRINGS  ? "strings"
                                                     : "an empty optional");
  return KD_OK;
}

/* ---- sequences and optionals ---------------------------------------------- */

keel_status keel_sequence_create(keel_context *context,
                                 keel_tensor *const *items, uint32_t count,
                                 keel_tensor **out_sequence) {
  *out_sequence = NULL;
  keel_tensor *sequence = keel_tensor_new(context);
  if (!sequence) return KD_OUT_OF_MEMORY;
  sequence->kind = KEEL_SEQUENCE;
  if (count) {
    sequence->items = malloc(count * sizeof *items);
    if (!sequence->items) {
      keel_tensor_release(sequence);
      return keel_no_memory(count * sizeof *items);
    }
  }
  for (uint32_t i = 0; i < count; i++)
    sequence->items[i] = keel_tensor_retain(items[i]);
  sequence->item_count = count;
  *out_sequence = sequence;
  return KD_OK;
}

int64_t keel_sequence_length(keel_tensor *sequence) {
  if (keel_tensor_wait_known(sequence) != KD_OK ||
      sequence->kind != KEEL_SEQUENCE)
    return -1;
  return sequence->item_count;
}

keel_status keel_sequence_at(keel_tensor *sequence, int64_t index,
                             keel_tensor **out_item) {
  *out_item = NULL;
  KEEL_TRY(keel_tensor_wait_known(sequence));
  if (sequence->kind != KEEL_SEQUENCE)
    return keel_fail(KD_INVALID_ARGUMENT, "the value is not a sequence");
  int64_t count = sequence->item_count;
  int64_t at = index < 0 ? index + count : index;
  if (at < 0 || at >= count)
    return keel_fail(KD_OUT_OF_RANGE, "item %lld of a sequence of %lld",
                     (long long)index, (long long)count);
  *out_item = keel_tensor_retain(sequence->items[at]);
  return KD_OK;
}

keel_status keel_optional_empty(keel_context *context,
                                keel_tensor **out_optional) {
  *out_optional = keel_tensor_new(context);
  if (!*out_optional) return KD_OUT_OF_MEMORY;
  (*out_optional)->kind = KEEL_OPTIONAL_EMPTY;
  return KD_OK;
}

int keel_optional_is_empty(keel_tensor *value) {
  return keel_tensor_wait_known(value) == KD_OK &&
         value->kind == KEEL_OPTIONAL_EMPTY;
}
