/* strings.h - tensors of strings. They live in host memory and never come to a plugin: a value
 * of kind KEEL_STRINGS has a type of KD_STRING, and a list of strings instead of a buffer. */
#ifndef KEEL_STRINGS_H
#define KEEL_STRINGS_H

#include "values/tensor.h"

/* A string, which may contain bytes of 0. */
typedef struct keel_piece {
  const char *at;
  uint64_t size; /* bytes */
} keel_piece;

/* Immutable. String i is in text, from offsets[i] on, with a 0 behind it. */
typedef struct keel_strings {
  atomic_uint refs;
  int64_t count;
  const uint64_t *offsets; /* count + 1: the last is the size of text */
  const char *text;
  keel_context *context; /* whose limit counts them */
} keel_strings;

void keel_strings_retain(keel_strings *strings);
void keel_strings_release(keel_strings *strings);

static inline keel_piece keel_strings_get(const keel_strings *strings,
                                          int64_t index) {
  const uint64_t *at = strings->offsets + index;
  return (keel_piece){strings->text + at[0], at[1] - at[0] - 1};
}

/* Bytes of offsets and text, which lie one behind the other from offsets on. */
static inline uint64_t keel_strings_bytes(const keel_strings *strings) {
  return ((uint64_t)strings->count + 1) * sizeof(uint64_t) +
         strings->offsets[strings->count];
}

/* Makes a tensor of strings, which are copied; as many as the type has elements. */
keel_status keel_strings_tensor(keel_context *context, const keel_type *type,
                                const keel_piece *pieces,
                                keel_tensor **out_tensor);

/* The same from offsets and text as keel_strings_bytes says, of which `room` bytes can be read.
 * Returns KD_DATA_LOSS where they are not such. */
keel_status keel_strings_read(keel_context *context, const keel_type *type,
                              const void *bytes, uint64_t capacity,
                              keel_tensor **out_tensor);

/* Room for as many pieces; NULL without memory. The caller frees it. */
keel_piece *keel_pieces_new(int64_t count);

/* As strcmp: by bytes, which for UTF-8 is by code points. */
int keel_piece_compare(const keel_piece *a, const keel_piece *b);

static inline bool keel_is_strings(const keel_tensor *tensor) {
  return tensor && tensor->kind == KEEL_STRINGS;
}

/* Whether it has a type and elements. */
static inline bool keel_is_tensor(const keel_tensor *value) {
  return value->kind == KEEL_DATA || value->kind == KEEL_STRINGS;
}

#endif /* KEEL_STRINGS_H */
