/* attr.c - attributes, and the data of constants. */
#include <errno.h>

#include <kd/kd.h>
#include "base/float.h"
#include "read.h"
#include "values/strings.h"

/* Bytes of a constant that one number may stand for. */
#define SPLAT_MOST (UINT64_C(1) << 31)

static keel_status value(cursor *c, mlir_attr *out);

/* ---- numbers ------------------------------------------------------------------------ */

/* A number as C's readers want it. */
static keel_status number_text(cursor *c, char *text, size_t capacity) {
  const char *from = c->at;
  span number = keel_mlir_number(c);
  if (!number.size || number.size >= capacity) {
    c->at = from;
    return keel_mlir_fail(c, "a number should come here");
  }
  memcpy(text, number.at, number.size);
  text[number.size] = 0;
  return KD_OK;
}

static bool attr_is_float(const char *text) {
  return strchr(text, '.') != NULL;
}

static bool is_hex(const char *text) {
  return strchr(text, 'x') != NULL;
}

/* In decimal or hex; the bits of an unsigned number beyond int64 are kept. */
static keel_status to_int(const cursor *c, const char *text, int64_t *out) {
  errno = 0;
  *out = *text == '-' ? strtoll(text, NULL, is_hex(text) ? 16 : 10)
                      : (int64_t)strtoull(text, NULL, is_hex(text) ? 16 : 10);
  return errno ? keel_mlir_fail(c, "%s has more than 64 bits", text) : KD_OK;
}

static keel_status to_float(const cursor *c, const char *text, float *out) {
  int64_t bits = 0;
  if (!is_hex(text)) {
    *out = strtof(text, NULL);
    return KD_OK;
  }
  KEEL_TRY(to_int(c, text, &bits));
  const uint32_t low = (uint32_t)bits;
  memcpy(out, &low, sizeof *out);
  return KD_OK;
}

/* "array<i64: 1, 2>", from behind its name. */
static keel_status array(cursor *c, mlir_attr *out) {
  char text[64];
  uint32_t capacity = 0;
  void *numbers = NULL;
  KEEL_TRY(keel_mlir_expect(c, "<"));
  out->kind = keel_mlir_take(c, "i64") ? ATTR_INTS : ATTR_FLOATS;
  if (out->kind == ATTR_FLOATS) KEEL_TRY(keel_mlir_expect(c, "f32"));
  size_t each = out->kind == ATTR_INTS ? sizeof(int64_t) : sizeof(float);
  if (keel_mlir_take(c, ":")) do {
      if (out->count == capacity)
        numbers = keel_arena_grow(&c->scratch, numbers, &capacity, each);
      if (out->count == capacity) return KD_OUT_OF_MEMORY;
      KEEL_TRY(number_text(c, text, sizeof text));
      if (out->kind == ATTR_INTS)
        KEEL_TRY(to_int(c, text, (int64_t *)numbers + out->count));
      else
        KEEL_TRY(to_float(c, text, (float *)numbers + out->count));
      out->count++;
    } while (keel_mlir_take(c, ","));
  if (out->kind == ATTR_INTS)
    out->ints = numbers;
  else
    out->floats = numbers;
  return keel_mlir_expect(c, ">");
}

/* A number, with its type if the text has one. */
static keel_status attr_number(cursor *c, mlir_attr *out) {
  char text[64];
  KEEL_TRY(number_text(c, text, sizeof text));
  bool hex = is_hex(text);
  out->kind = attr_is_float(text) ? ATTR_FLOAT : ATTR_INT;
  if (out->kind == ATTR_INT) KEEL_TRY(to_int(c, text, &out->i));
  if (keel_mlir_take(c, ":")) {
    span type = keel_mlir_word(c);
    bool f32 = type.size == 3 && !memcmp(type.at, "f32", 3);
    if (f32 && !hex && out->kind == ATTR_INT)
      return keel_mlir_fail(c, "%s has no point, and is said to be f32", text);
    if (f32) out->kind = ATTR_FLOAT;
    if (!f32 && out->kind == ATTR_FLOAT)
      return keel_mlir_fail(c, "Keel's float attributes are f32");
  }
  return out->kind == ATTR_FLOAT ? to_float(c, text, &out->f) : KD_OK;
}

/* ---- the data of constants -------------------------------------------------------------- */

/* The value of a hex digit plus one; 0: not a hex digit. */
static const uint8_t digits_of[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
    ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['A'] = 11, ['B'] = 12,
    ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16, ['a'] = 11, ['b'] = 12,
    ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16};

static bool from_hex(const char *digits, uint64_t size, void *data) {
  uint8_t *to = data, all = 1;
  for (uint64_t i = 0; i < size; i++) {
    uint8_t high = digits_of[(uint8_t)digits[2 * i]];
    uint8_t low = digits_of[(uint8_t)digits[2 * i + 1]];
    all &= high != 0 && low != 0;
    to[i] = (uint8_t)((uint8_t)(high - 1) << 4 | (uint8_t)(low - 1));
  }
  return all;
}

/* The same element in all places, the first of which is written. */
static void repeat(void *data, uint64_t each, uint64_t bytes) {
  for (uint64_t at = each; at < bytes; at += each)
    memcpy((char *)data + at, data, each);
}

static keel_status hex_data(const cursor *c, const char *digits, size_t count,
                            const keel_type *type, void *data) {
  uint64_t each = keel_dtype_size(type->dtype);
  if (type->dtype == KD_BOOL)
    return keel_mlir_fail(c, "bools are a list of true and false");
  bool splat = each && count == 2 * each && type->elements > 1;
  if (!splat && count != 2 * type->bytes)
    return keel_mlir_fail(c, "%zu hex digits are not %llu bytes of data", count,
                          (unsigned long long)type->bytes);
  if (!from_hex(digits, count / 2, data))
    return keel_mlir_fail(c, "a hex digit cannot be here");
  if (splat) repeat(data, each, type->bytes);
  return KD_OK;
}

static keel_status resource_data(cursor *c, span name, const keel_type *type,
                                 void *data) {
  const resource *found = c->resources;
  while (found && (found->name_size != name.size ||
                   memcmp(found->name, name.at, name.size) != 0))
    found = found->next;
  if (!found && name.size == 10 && !memcmp(name.at, "__elided__", 10))
    return keel_mlir_fail(c,
                          "the data of a constant was left out of this"
                          " text: it is for looking at");
  if (!found)
    return keel_mlir_fail(c, "there is no resource \"%.*s\"",
                          (int)(name.size < 80 ? name.size : 80), name.at);
  if (found->digit_count != 2 * type->bytes + 8)
    return keel_mlir_fail(c,
                          "resource \"%.*s\" has %zu hex digits, and its type"
                          " needs %llu behind its alignment of 8",
                          (int)(name.size < 80 ? name.size : 80), name.at,
                          found->digit_count,
                          (unsigned long long)(2 * type->bytes));
  return from_hex(found->digits + 8, type->bytes, data)
             ? KD_OK
             : keel_mlir_fail(c, "resource \"%.*s\" is not hex data",
                              (int)(name.size < 80 ? name.size : 80), name.at);
}

static keel_status store_int(const cursor *c, kd_dtype dtype, int64_t number,
                             bool negative, void *out) {
  uint32_t bytes = keel_dtype_size(dtype), bits = bytes * 8;
  bool is_signed = KD_TYPES(dtype) & KD_TYPES_SIGNED;
  bool fits = true;
  if (bits < 64 && is_signed)
    fits = number >= -(INT64_C(1) << (bits - 1)) && number < INT64_C(1)
                                                                 << (bits - 1);
  else if (bits < 64)
    fits = number >= 0 && number < INT64_C(1) << bits;
  else
    fits = is_signed ? negative == (number < 0) : !negative;
  if (!fits) return keel_mlir_fail(c, "a number is not in its type's range");
  memcpy(out, &number, bytes); /* little-endian, as all of Keel's hosts */
  return KD_OK;
}

/* A part of an element: all of it, but for complex ones. */
static keel_status store(cursor *c, kd_dtype dtype, void *out) {
  char text[400];
  int64_t number = 0;
  if (dtype == KD_BOOL) {
    bool yes = keel_mlir_take(c, "true");
    if (!yes) KEEL_TRY(keel_mlir_expect(c, "false"));
    *(uint8_t *)out = yes;
    return KD_OK;
  }
  KEEL_TRY(number_text(c, text, sizeof text));
  bool integer = KD_TYPES(dtype) & KD_TYPES_INT;
  if (integer && attr_is_float(text))
    return keel_mlir_fail(c, "%s is not an integer", text);
  if (integer || is_hex(text)) {
    KEEL_TRY(to_int(c, text, &number));
    if (integer) return store_int(c, dtype, number, *text == '-', out);
    memcpy(out, &number, keel_dtype_size(dtype)); /* a float's bits */
    return KD_OK;
  }
  if (!attr_is_float(text))
    return keel_mlir_fail(c, "%s has no point, and is said to be a float",
                          text);
  return keel_float_encode(dtype, strtod(text, NULL), out)
             ? KD_OK
             : keel_mlir_fail(c, "numbers of type %s have no text here",
                              keel_dtype_name(dtype));
}

static keel_status attr_element(cursor *c, kd_dtype dtype, void *out) {
  if (!keel_dtype_size(dtype))
    return keel_mlir_fail(c,
                          "elements of type %s are hex digits, as in"
                          " dense<\"0x21\">",
                          keel_dtype_name(dtype));
  if (dtype != KD_C64 && dtype != KD_C128) return store(c, dtype, out);
  kd_dtype part = dtype == KD_C64 ? KD_F32 : KD_F64;
  KEEL_TRY(keel_mlir_expect(c, "("));
  KEEL_TRY(store(c, part, out));
  KEEL_TRY(keel_mlir_expect(c, ","));
  KEEL_TRY(store(c, part, (char *)out + keel_dtype_size(part)));
  return keel_mlir_expect(c, ")");
}

/* A string, which stays in the scratch memory. */
static keel_status string_element(cursor *c, keel_piece *out) {
  size_t size = 0;
  KEEL_TRY(keel_mlir_string(c, &out->at, &size));
  out->size = size;
  return KD_OK;
}

/* Elements in brackets that are nested as the dimensions are, or one for all; data: pieces, if
 * they are strings. */
static keel_status list_data(cursor *c, const keel_type *type, uint32_t level,
                             int64_t *done, void *data) {
  uint32_t each = keel_dtype_size(type->dtype);
  if (level == type->rank) {
    if (*done >= type->elements)
      return keel_mlir_fail(c, "there are more elements than the type has");
    if (type->dtype == KD_STRING)
      return string_element(c, (keel_piece *)data + (*done)++);
    return attr_element(c, type->dtype,
                        (char *)data + (uint64_t)(*done)++ * each);
  }
  int64_t count = 0;
  KEEL_TRY(keel_mlir_expect(c, "["));
  if (!keel_mlir_take(c, "]")) {
    do {
      KEEL_TRY(list_data(c, type, level + 1, done, data));
      count++;
    } while (keel_mlir_take(c, ","));
    KEEL_TRY(keel_mlir_expect(c, "]"));
  }
  return count == type->dims[level]
             ? KD_OK
             : keel_mlir_fail(c,
                              "a list has %lld items, and dimension %u has"
                              " %lld",
                              (long long)count, (unsigned)level,
                              (long long)type->dims[level]);
}

/* The contents of "dense<" and ">". */
static keel_status dense_data(cursor *c, const keel_type *type, void *data) {
  uint32_t each = keel_dtype_size(type->dtype);
  const char *digits = NULL;
  size_t count = 0;
  int64_t done = 0;
  keel_mlir_skip(c);
  if (c->at < c->end && *c->at == '"') {
    KEEL_TRY(keel_mlir_string(c, &digits, &count));
    if (count < 2 || memcmp(digits, "0x", 2) != 0)
      return keel_mlir_fail(c, "a string as data is hex, and begins with 0x");
    return hex_data(c, digits + 2, count - 2, type, data);
  }
  if (c->at < c->end && *c->at == '>')
    return type->elements ? keel_mlir_fail(c, "the data is missing") : KD_OK;
  if (c->at < c->end && *c->at == '[')
    return list_data(c, type, 0, &done, data);
  if (!type->elements) {
    uint8_t unused[16];
    return attr_element(c, type->dtype, unused);
  }
  KEEL_TRY(attr_element(c, type->dtype, data));
  repeat(data, each, type->bytes);
  return KD_OK;
}

static void keep_tensor(cursor *c, mlir_attr *out) {
  out->kind = ATTR_TENSOR;
  out->next_tensor = c->tensors;
  c->tensors = out;
}

/* The type behind a constant. */
static keel_status constant_type(cursor *c, const keel_type **out_type) {
  mlir_type type;
  KEEL_TRY(keel_mlir_expect(c, ":"));
  KEEL_TRY(keel_mlir_type(c, &type));
  if (type.kind != MLIR_TENSOR || type.rank == KEEL_RANK_UNKNOWN)
    return keel_mlir_fail(c, "a constant is a tensor of known shape");
  keel_status status = keel_type_of(type.dtype, type.rank, type.dims, out_type);
  if (status != KD_OK) return keel_while(status, "while reading %s", c->path);
  if (!keel_type_known(*out_type) ||
      (!kd_dtype_bits(type.dtype) && type.dtype != KD_STRING))
    return keel_mlir_fail(c,
                          "a constant's type must be known, with elements of"
                          " some bits");
  return KD_OK;
}

/* A tensor of numbers, which are not set. */
static keel_status make_tensor(cursor *c, const keel_type *type,
                               mlir_attr *out) {
  if (type->bytes > SPLAT_MOST && type->bytes > (uint64_t)(c->last - c->begin))
    return keel_mlir_fail(c, "a constant has %llu bytes, more than the text",
                          (unsigned long long)type->bytes);
  KEEL_TRY(keel_tensor_create(c->context, type->dtype, type->rank, type->dims,
                              NULL, &out->tensor));
  keep_tensor(c, out);
  return KD_OK;
}

/* The strings between "dense<" and ">". */
static keel_status dense_strings(cursor *c, const keel_type *type,
                                 mlir_attr *out) {
  int64_t done = 0;
  if (type->elements > c->last - c->begin)
    return keel_mlir_fail(c, "a constant has %lld strings, more than the text",
                          (long long)type->elements);
  keel_piece *pieces = keel_pieces_new(type->elements);
  if (!pieces) return KD_OUT_OF_MEMORY;
  keel_status status =
      type->elements ? list_data(c, type, 0, &done, pieces) : KD_OK;
  if (status == KD_OK)
    status = keel_strings_tensor(c->context, type, pieces, &out->tensor);
  free(pieces);
  if (status == KD_OK) keep_tensor(c, out);
  return status;
}

static keel_status dense(cursor *c, mlir_attr *out) {
  const keel_type *type = NULL;
  cursor data = *c;
  KEEL_TRY(keel_mlir_skip_brackets(c));
  KEEL_TRY(constant_type(c, &type));
  if (type->dtype != KD_STRING) KEEL_TRY(make_tensor(c, type, out));
  const char *behind = c->at;
  c->at = data.at;
  KEEL_TRY(keel_mlir_expect(c, "<"));
  KEEL_TRY(type->dtype == KD_STRING ? dense_strings(c, type, out)
                                    : dense_data(c, type, out->tensor->data));
  KEEL_TRY(keel_mlir_expect(c, ">"));
  c->at = behind;
  return KD_OK;
}

static keel_status dense_resource(cursor *c, mlir_attr *out) {
  const keel_type *type = NULL;
  KEEL_TRY(keel_mlir_expect(c, "<"));
  span name = keel_mlir_word(c);
  KEEL_TRY(keel_mlir_expect(c, ">"));
  KEEL_TRY(constant_type(c, &type));
  if (type->dtype == KD_STRING)
    return keel_mlir_fail(c, "strings are a list in dense<...>");
  KEEL_TRY(make_tensor(c, type, out));
  return resource_data(c, name, type, out->tensor->data);
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* A list of numbers is what array<...> would be. */
static keel_status number_list(cursor *c, mlir_attr *out) {
  attr_kind kind = out->items->kind;
  for (const mlir_attr *at = out->items; at; at = at->next)
    if (at->kind != kind || (kind != ATTR_INT && kind != ATTR_FLOAT))
      return KD_OK;
  int64_t *ints = keel_arena_take(&c->scratch, out->count * sizeof *ints);
  float *floats = keel_arena_take(&c->scratch, out->count * sizeof *floats);
  if (!ints || !floats) return KD_OUT_OF_MEMORY;
  uint32_t i = 0;
  for (const mlir_attr *at = out->items; at; at = at->next, i++) {
    ints[i] = at->i;
    floats[i] = at->f;
  }
  out->kind = kind == ATTR_INT ? ATTR_INTS : ATTR_FLOATS;
  out->ints = ints;
  out->floats = floats;
  return KD_OK;
}

static keel_status list(cursor *c, mlir_attr *out) {
  mlir_attr **last = &out->items;
  out->kind = ATTR_LIST;
  if (keel_mlir_take(c, "]")) return KD_OK;
  do {
    mlir_attr *item = keel_arena_take(&c->scratch, sizeof *item);
    if (!item) return KD_OUT_OF_MEMORY;
    *last = item;
    last = &item->next;
    out->count++;
    KEEL_TRY(value(c, item));
  } while (keel_mlir_take(c, ","));
  KEEL_TRY(keel_mlir_expect(c, "]"));
  return number_list(c, out);
}

static keel_status entry(cursor *c, mlir_attr *dict, mlir_attr *item) {
  keel_mlir_skip(c);
  item->where = c->at;
  if (c->at < c->end && *c->at == '"') {
    KEEL_TRY(keel_mlir_string(c, &item->name, NULL));
  } else {
    span word = keel_mlir_word(c);
    char *name = keel_arena_take(&c->scratch, word.size + 1);
    if (!name) return KD_OUT_OF_MEMORY;
    if (!word.size) return keel_mlir_fail(c, "an attribute's name is missing");
    memcpy(name, word.at, word.size);
    item->name = name;
  }
  for (const mlir_attr *at = dict->items; at != item; at = at->next)
    if (!strcmp(at->name, item->name))
      return keel_mlir_fail(c, "attribute \"%s\" is there twice", item->name);
  if (keel_mlir_take(c, "=")) return value(c, item);
  item->kind = ATTR_UNIT;
  return KD_OK;
}

keel_status keel_mlir_dict(cursor *c, mlir_attr *out) {
  KEEL_TRY(keel_mlir_expect(c, "{"));
  mlir_attr **last = &out->items;
  while (*last) /* what is there stays: properties come before attributes */
    last = &(*last)->next;
  out->kind = ATTR_DICT;
  if (keel_mlir_take(c, "}")) return KD_OK;
  do {
    mlir_attr *item = keel_arena_take(&c->scratch, sizeof *item);
    if (!item) return KD_OUT_OF_MEMORY;
    *last = item;
    last = &item->next;
    out->count++;
    KEEL_TRY(entry(c, out, item));
  } while (keel_mlir_take(c, ","));
  return keel_mlir_expect(c, "}");
}

const mlir_attr *keel_mlir_find(const mlir_attr *dict, const char *name) {
  for (const mlir_attr *at = dict->items; at; at = at->next)
    if (!strcmp(at->name, name)) return at;
  return NULL;
}

static keel_status nested(cursor *c, mlir_attr *out) {
  if (keel_mlir_take(c, "[")) return list(c, out);
  return keel_mlir_dict(c, out);
}

static keel_status value(cursor *c, mlir_attr *out) {
  keel_mlir_skip(c);
  out->where = c->at;
  char next = c->at < c->end ? *c->at : 0;
  if (next == '[' || next == '{') {
    if (++c->depth > NESTING_MOST)
      return keel_mlir_fail(c, "attributes are nested too deeply");
    keel_status status = nested(c, out);
    c->depth--;
    return status;
  }
  if (next == '"') {
    out->kind = ATTR_STRING;
    return keel_mlir_string(c, &out->s, NULL);
  }
  if (keel_mlir_take(c, "unit")) {
    out->kind = ATTR_UNIT;
    return KD_OK;
  }
  bool yes = keel_mlir_take(c, "true");
  if (yes || keel_mlir_take(c, "false")) {
    out->kind = ATTR_BOOL;
    out->i = yes;
    return KD_OK;
  }
  if (keel_mlir_take(c, "array")) return array(c, out);
  if (keel_mlir_take(c, "dense_resource")) return dense_resource(c, out);
  if (keel_mlir_take(c, "dense")) return dense(c, out);
  if (next == '-' || next == '+' || (next >= '0' && next <= '9'))
    return attr_number(c, out);
  out->kind = ATTR_TYPE;
  out->type = keel_arena_take(&c->scratch, sizeof *out->type);
  return out->type ? keel_mlir_type(c, out->type) : KD_OUT_OF_MEMORY;
}

/* ---- resources ----------------------------------------------------------------------------------- */

/* Where the section begins: its mark, outside of strings and comments. */
static const char *find_section(const cursor *c) {
  for (const char *at = c->begin; c->end - at >= 3; at++) {
    if (*at == '"') {
      for (at++; at < c->end && *at != '"';)
        at += *at == '\\' ? 2 : 1;
    } else if (at[0] == '/' && at[1] == '/') {
      while (at < c->end && *at != '\n')
        at++;
    } else if (!memcmp(at, "{-#", 3)) {
      return at;
    }
  }
  return NULL;
}

/* One "name: "0x..."". */
static keel_status one_resource(cursor *c) {
  resource *made = keel_arena_take(&c->scratch, sizeof *made);
  if (!made) return KD_OUT_OF_MEMORY;
  span name = keel_mlir_word(c);
  if (!name.size) return keel_mlir_fail(c, "a resource has no name");
  made->name = name.at;
  made->name_size = name.size;
  KEEL_TRY(keel_mlir_expect(c, ":"));
  KEEL_TRY(keel_mlir_expect(c, "\"0x"));
  made->digits = c->at;
  const char *close = memchr(c->at, '"', (size_t)(c->end - c->at));
  if (!close) return keel_mlir_fail(c, "a resource does not end");
  made->digit_count = (size_t)(close - c->at);
  c->at = close + 1;
  made->next = c->resources;
  c->resources = made;
  return KD_OK;
}

keel_status keel_mlir_resources(cursor *c) {
  const char *from = c->at, *section = find_section(c);
  if (!section) return KD_OK;
  c->at = section + 3;
  if (keel_mlir_take(c, "dialect_resources")) {
    KEEL_TRY(keel_mlir_expect(c, ":"));
    KEEL_TRY(keel_mlir_expect(c, "{"));
    KEEL_TRY(keel_mlir_expect(c, "builtin"));
    KEEL_TRY(keel_mlir_expect(c, ":"));
    KEEL_TRY(keel_mlir_expect(c, "{"));
    if (!keel_mlir_take(c, "}")) {
      do
        KEEL_TRY(one_resource(c));
      while (keel_mlir_take(c, ","));
      KEEL_TRY(keel_mlir_expect(c, "}"));
    }
    KEEL_TRY(keel_mlir_expect(c, "}"));
  }
  KEEL_TRY(keel_mlir_expect(c, "#-}"));
  c->end = section;
  c->at = from;
  return KD_OK;
}
