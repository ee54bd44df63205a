/* strings.c - makes tensors of strings. */
#include "values/strings.h"

#include "base/refs.h"
#include "device/heap.h"

void keel_strings_retain(keel_strings *strings) {
  keel_refs_take(&strings->refs);
}

void keel_strings_release(keel_strings *strings) {
  if (!keel_refs_drop(&strings->refs)) return;
  keel_heap_give_back(strings->context, keel_strings_bytes(strings));
  free(strings);
}

keel_piece *keel_pieces_new(int64_t count) {
  uint64_t capacity = (uint64_t)count + 1;
  keel_piece *pieces = capacity <= SIZE_MAX / sizeof *pieces
                           ? calloc(capacity, sizeof *pieces)
                           : NULL;
  if (!pieces) keel_no_memory(capacity * sizeof *pieces);
  return pieces;
}

int keel_piece_compare(const keel_piece *a, const keel_piece *b) {
  uint64_t size = a->size < b->size ? a->size : b->size;
  int order = size ? memcmp(a->at, b->at, size) : 0;
  return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* Room for offsets and text, which are not set but for the text's size; NULL without memory. */
static keel_strings *strings_make(keel_context *context, int64_t count,
                                  uint64_t text) {
  uint64_t list = ((uint64_t)count + 1) * sizeof(uint64_t);
  keel_strings *made = NULL;
  bool fits = text <= INT64_MAX / 2 && (uint64_t)count < INT64_MAX / 16;
  if (fits && keel_heap_reserve(context, list + text) != KD_OK) return NULL;
  if (fits) made = malloc(sizeof *made + list + text);
  if (!made) {
    if (fits) keel_heap_give_back(context, list + text);
    keel_no_memory(list + text);
    return NULL;
  }
  keel_refs_init(&made->refs);
  made->context = context;
  made->count = count;
  made->offsets = (const uint64_t *)(const void *)(made + 1);
  made->text = (const char *)(made + 1) + list;
  return made;
}

/* Takes over the strings. */
static keel_status strings_wrap(keel_context *context, const keel_type *type,
                                keel_strings *strings,
                                keel_tensor **out_tensor) {
  keel_tensor *tensor = keel_tensor_new(context);
  if (!tensor) {
    keel_strings_release(strings);
    return KD_OUT_OF_MEMORY;
  }
  tensor->kind = KEEL_STRINGS;
  tensor->type = type;
  tensor->strings = strings;
  *out_tensor = tensor;
  return KD_OK;
}

keel_status keel_strings_tensor(keel_context *context, const keel_type *type,
                                const keel_piece *pieces,
                                keel_tensor **out_tensor) {
  uint64_t total = 0;
  for (int64_t i = 0; i < type->elements; i++)
    if (__builtin_add_overflow(total, pieces[i].size + 1, &total))
      return keel_no_memory(UINT64_MAX);
  keel_strings *made = strings_make(context, type->elements, total);
  if (!made) return KD_OUT_OF_MEMORY;
  uint64_t *offsets = (uint64_t *)(uintptr_t)made->offsets;
  char *text = (char *)(uintptr_t)made->text;
  uint64_t at = 0;
  for (int64_t i = 0; i < type->elements; i++) {
    offsets[i] = at;
    if (pieces[i].size) memcpy(text + at, pieces[i].at, pieces[i].size);
    at += pieces[i].size;
    text[at++] = 0;
  }
  offsets[type->elements] = at;
  return strings_wrap(context, type, made, out_tensor);
}

keel_status keel_strings_read(keel_context *context, const keel_type *type,
                              const void *bytes, uint64_t capacity,
                              keel_tensor **out_tensor) {
  const uint64_t *offsets = bytes;
  uint64_t count = (uint64_t)type->elements;
  bool whole = count < capacity / sizeof *offsets;
  uint64_t list = whole ? (count + 1) * sizeof *offsets : 0;
  const char *text = (const char *)bytes + list;
  whole = whole && !offsets[0] && offsets[count] <= capacity - list;
  for (uint64_t i = 0; i < count && whole; i++)
    whole = offsets[i] < offsets[i + 1] && offsets[i + 1] <= offsets[count] &&
            !text[offsets[i + 1] - 1];
  if (!whole) return keel_fail(KD_DATA_LOSS, "a list of strings is damaged");
  keel_strings *made = strings_make(context, type->elements, offsets[count]);
  if (!made) return KD_OUT_OF_MEMORY;
  memcpy((void *)(uintptr_t)made->offsets, bytes, list + offsets[count]);
  return strings_wrap(context, type, made, out_tensor);
}

/* ---- the public functions ---------------------------------------------------------- */

keel_status keel_strings_create(keel_context *context, uint32_t rank,
                                const int64_t *dims, const char *const *strings,
                                const uint64_t *sizes,
                                keel_tensor **out_tensor) {
  const keel_type *type = NULL;
  *out_tensor = NULL;
  KEEL_TRY(keel_type_of(KD_STRING, rank, dims, &type));
  if (!keel_type_known(type))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "a tensor of strings can't have an open dimension");
  keel_piece *pieces = keel_pieces_new(type->elements);
  keel_status status = pieces ? KD_OK : KD_OUT_OF_MEMORY;
  for (int64_t i = 0; i < type->elements && status == KD_OK; i++) {
    if (!strings || !strings[i])
      status =
          keel_fail(KD_INVALID_ARGUMENT, "string %lld is NULL", (long long)i);
    else
      pieces[i] =
          (keel_piece){strings[i], sizes ? sizes[i] : strlen(strings[i])};
  }
  if (status == KD_OK)
    status = keel_strings_tensor(context, type, pieces, out_tensor);
  free(pieces);
  return status;
}

keel_status keel_strings_at(keel_tensor *tensor, int64_t index,
                            const char **out_string, uint64_t *out_size) {
  *out_string = NULL;
  KEEL_TRY(keel_tensor_wait_known(tensor));
  if (!keel_is_strings(tensor))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the value is not a tensor of strings");
  if (index < 0 || index >= tensor->strings->count)
    return keel_fail(KD_OUT_OF_RANGE, "string %lld of %lld", (long long)index,
                     (long long)tensor->strings->count);
  keel_piece piece = keel_strings_get(tensor->strings, index);
  *out_string = piece.at;
  if (out_size) *out_size = piece.size;
  return KD_OK;
}
