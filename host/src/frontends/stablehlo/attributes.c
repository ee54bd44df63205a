/* attributes.c - attributes of ops: in a dictionary up to bytecode 4, and without names
 * behind it. */
#include "frontends/stablehlo/vhlo.h"
#include "values/type.h"

#define BUILTIN_DICTIONARY 1
#define BUILTIN_STRING     2
#define BUILTIN_TYPED      3 /* a string with a type */
#define NAMES_MOST         20

/* The op, and behind it its attributes. */
static const char *const ops[][NAMES_MOST + 2] = {
#define OP(...) {__VA_ARGS__},
#include "frontends/stablehlo/properties.def"
#undef OP
};

bool vhlo_known(const bytecode_op *op) {
  for (size_t i = 0; i < KEEL_COUNT_OF(ops); i++)
    if (!strcmp(ops[i][0], op->name)) return true;
  return false;
}

/* The first number of an attribute's own code. */
static keel_status open_attribute(const vhlo *self, uint32_t index,
                                  bytecode_cursor *out_cursor, bool *out_vhlo,
                                  uint64_t *out_code) {
  const bytecode_entry *entry = &self->file.attributes[index];
  *out_cursor = bytecode_of_entry(&self->file, entry);
  *out_vhlo = !strcmp(entry->dialect, "vhlo");
  *out_code = UINT64_MAX;
  return entry->custom ? bytecode_varint(out_cursor, out_code) : KD_OK;
}

static keel_status string_at(const vhlo *self, uint32_t index,
                             const char **out_text) {
  bytecode_cursor c;
  bool mine = false;
  uint64_t code = 0;
  uint32_t string = 0;
  KEEL_TRY(open_attribute(self, index, &c, &mine, &code));
  if (mine ? code != VHLO_STRING
           : code != BUILTIN_STRING && code != BUILTIN_TYPED)
    return bytecode_damaged(&c, "attribute %u is not a string",
                            (unsigned)index);
  KEEL_TRY(bytecode_index(&c, self->file.string_count, "string", &string));
  *out_text = self->file.strings[string].text;
  return KD_OK;
}

/* ---- finding one --------------------------------------------------------------------- */

/* In a dictionary whose entries are read next; *out does not change if there is no such key. */
static keel_status find_key(const vhlo *self, bytecode_cursor *c,
                            const char *name, uint32_t *out) {
  uint32_t count = 0, key = 0, value = 0;
  KEEL_TRY(bytecode_count(c, 2, "attributes", &count));
  for (uint32_t i = 0; i < count; i++) {
    const char *text = "";
    KEEL_TRY(bytecode_index(c, self->file.attribute_count, "attribute", &key));
    KEEL_TRY(
        bytecode_index(c, self->file.attribute_count, "attribute", &value));
    KEEL_TRY(string_at(self, key, &text));
    if (!strcmp(text, name)) *out = value;
  }
  return KD_OK;
}

static keel_status find_in_dictionary(const vhlo *self, const bytecode_op *op,
                                      const char *name, uint32_t *out) {
  bytecode_cursor c;
  bool mine = false;
  uint64_t code = 0;
  if (op->attributes == BYTECODE_NONE) return KD_OK;
  KEEL_TRY(open_attribute(self, op->attributes, &c, &mine, &code));
  if (mine || code != BUILTIN_DICTIONARY) return KD_OK;
  return find_key(self, &c, name, out);
}

static keel_status find_in_properties(const vhlo *self, const bytecode_op *op,
                                      const char *name, uint32_t *out) {
  const bytecode_span *span = &self->file.properties[op->properties];
  bytecode_cursor c = {&self->file, span->at, span->end};
  for (size_t i = 0; i < KEEL_COUNT_OF(ops); i++) {
    if (strcmp(ops[i][0], op->name) != 0) continue;
    for (uint32_t k = 1; ops[i][k]; k++) {
      uint32_t value = 0;
      KEEL_TRY(
          bytecode_index(&c, self->file.attribute_count, "attribute", &value));
      if (strcmp(ops[i][k], name) != 0) continue;
      *out = value;
      return KD_OK;
    }
  }
  return KD_OK;
}

keel_status vhlo_find(const vhlo *self, const bytecode_op *op, const char *name,
                      uint32_t *out_attribute) {
  *out_attribute = BYTECODE_NONE;
  if (op->properties != BYTECODE_NONE && !strcmp(op->dialect, "vhlo"))
    KEEL_TRY(find_in_properties(self, op, name, out_attribute));
  if (*out_attribute != BYTECODE_NONE) return KD_OK;
  return find_in_dictionary(self, op, name, out_attribute);
}

/* The attribute, behind its code, which must be VHLO's `want`. */
static keel_status need(const vhlo *self, const bytecode_op *op,
                        const char *name, uint64_t want,
                        bytecode_cursor *out_cursor) {
  uint32_t index = 0;
  bool mine = false;
  uint64_t code = 0;
  KEEL_TRY(vhlo_find(self, op, name, &index));
  if (index == BYTECODE_NONE)
    return vhlo_fail(self, op, KD_DATA_LOSS, " has no attribute \"%s\"", name);
  KEEL_TRY(open_attribute(self, index, out_cursor, &mine, &code));
  if (!mine || code != want)
    return vhlo_fail(self, op, KD_DATA_LOSS,
                     ": attribute \"%s\" is of kind %llu, and %llu is needed",
                     name, (unsigned long long)code, (unsigned long long)want);
  return KD_OK;
}

static keel_status is_set(const vhlo *self, uint32_t index, bool *out_set) {
  bytecode_cursor c;
  bool mine = false;
  uint64_t code = 0, number = 1;
  KEEL_TRY(open_attribute(self, index, &c, &mine, &code));
  if (mine && code == VHLO_BOOLEAN) KEEL_TRY(bytecode_varint(&c, &number));
  *out_set = number != 0;
  return KD_OK;
}

keel_status vhlo_port_attribute(const vhlo *self, const bytecode_op *function,
                                const char *ports, uint32_t port,
                                const char *name, uint32_t *out_attribute) {
  bytecode_cursor c;
  bool mine = false;
  uint64_t code = 0;
  uint32_t index = 0, count = 0;
  *out_attribute = BYTECODE_NONE;
  KEEL_TRY(vhlo_find(self, function, ports, &index));
  if (index == BYTECODE_NONE) return KD_OK;
  KEEL_TRY(open_attribute(self, index, &c, &mine, &code));
  if (!mine || code != VHLO_ARRAY) return KD_OK;
  KEEL_TRY(bytecode_count(&c, 1, "arguments", &count));
  if (port >= count) return KD_OK;
  for (uint32_t i = 0; i <= port; i++)
    KEEL_TRY(
        bytecode_index(&c, self->file.attribute_count, "attribute", &index));
  KEEL_TRY(open_attribute(self, index, &c, &mine, &code));
  if (!mine || code != VHLO_DICTIONARY) return KD_OK;
  return find_key(self, &c, name, out_attribute);
}

keel_status vhlo_argument_has(const vhlo *self, const bytecode_op *function,
                              uint32_t argument, const char *name,
                              bool *out_has) {
  uint32_t value = BYTECODE_NONE;
  *out_has = false;
  KEEL_TRY(
      vhlo_port_attribute(self, function, "arg_attrs", argument, name, &value));
  return value == BYTECODE_NONE ? KD_OK : is_set(self, value, out_has);
}

/* ---- reading one ----------------------------------------------------------------------- */

keel_status vhlo_enum(const vhlo *self, const bytecode_op *op, const char *name,
                      uint64_t code, uint64_t *out_number) {
  bytecode_cursor c;
  KEEL_TRY(need(self, op, name, code, &c));
  return bytecode_varint(&c, out_number);
}

keel_status vhlo_string(const vhlo *self, const bytecode_op *op,
                        const char *name, const char **out_text) {
  uint32_t index = 0;
  KEEL_TRY(vhlo_find(self, op, name, &index));
  if (index == BYTECODE_NONE)
    return vhlo_fail(self, op, KD_DATA_LOSS, " has no attribute \"%s\"", name);
  return string_at(self, index, out_text);
}

/* Numbers of up to 8 bits are a byte. */
static keel_status read_bits(bytecode_cursor *c, uint32_t bytes,
                             int64_t *out_bits) {
  uint8_t byte = 0;
  if (bytes > 1) return bytecode_signed(c, out_bits);
  KEEL_TRY(bytecode_byte(c, &byte));
  *out_bits = byte < 128 ? byte : byte - 256;
  return KD_OK;
}

static keel_status scalar_bits(const vhlo *self, const bytecode_op *op,
                               const char *name, uint64_t code,
                               kd_dtype *out_dtype, int64_t *out_bits) {
  bytecode_cursor c;
  uint32_t type = 0;
  KEEL_TRY(need(self, op, name, code, &c));
  KEEL_TRY(bytecode_index(&c, self->file.type_count, "type", &type));
  *out_dtype = self->types[type].dtype;
  if (self->types[type].kind != VHLO_SCALAR || *out_dtype == KD_NONE)
    return vhlo_fail(self, op, KD_UNIMPLEMENTED,
                     ": attribute \"%s\" is of type %s, which Keel does not"
                     " have",
                     name, self->types[type].what);
  return read_bits(&c, keel_dtype_size(*out_dtype), out_bits);
}

keel_status vhlo_int(const vhlo *self, const bytecode_op *op, const char *name,
                     int64_t *out_number) {
  kd_dtype dtype = KD_NONE;
  return scalar_bits(self, op, name, VHLO_INTEGER, &dtype, out_number);
}

keel_status vhlo_float(const vhlo *self, const bytecode_op *op,
                       const char *name, double *out_number) {
  kd_dtype dtype = KD_NONE;
  int64_t bits = 0;
  KEEL_TRY(scalar_bits(self, op, name, VHLO_FLOAT, &dtype, &bits));
  if (dtype == KD_F64) {
    memcpy(out_number, &bits, sizeof *out_number);
    return KD_OK;
  }
  float number = 0;
  uint32_t low = (uint32_t)bits;
  if (dtype != KD_F32)
    return vhlo_fail(self, op, KD_UNIMPLEMENTED,
                     ": attribute \"%s\" is neither f32 nor f64", name);
  memcpy(&number, &low, sizeof number);
  *out_number = number;
  return KD_OK;
}

static keel_status check_size(const vhlo *self, const bytecode_op *op,
                              vhlo_dense *dense) {
  const vhlo_type *type = dense->type;
  uint64_t count = (uint64_t)type->elements;
  if (type->kind != VHLO_TENSOR || type->dynamic)
    return vhlo_fail(self, op, KD_DATA_LOSS,
                     " has data without a type of known size");
  if (type->dtype == KD_NONE || !keel_dtype_size(type->dtype))
    return vhlo_fail(self, op, KD_UNIMPLEMENTED,
                     ": Keel does not have the type %s", type->what);
  if (type->dtype == KD_BOOL) {
    dense->splat = dense->size == 1 && *dense->data == 0xff;
    dense->packed =
        !dense->splat && dense->size == (count + 7) / 8 && dense->size != count;
    if (dense->splat || dense->packed) return KD_OK;
  }
  uint64_t one = keel_dtype_size(type->dtype);
  dense->splat = dense->size == one && count != 1;
  if (dense->splat || dense->size == count * one) return KD_OK;
  return vhlo_fail(self, op, KD_DATA_LOSS,
                   " has %llu bytes of data for %llu elements of %llu bytes",
                   (unsigned long long)dense->size, (unsigned long long)count,
                   (unsigned long long)one);
}

keel_status vhlo_dense_of(const vhlo *self, const bytecode_op *op,
                          const char *name, vhlo_dense *out_dense) {
  bytecode_cursor c;
  uint32_t type = 0, size = 0;
  KEEL_TRY(need(self, op, name, VHLO_DENSE, &c));
  KEEL_TRY(bytecode_index(&c, self->file.type_count, "type", &type));
  KEEL_TRY(bytecode_count(&c, 1, "bytes of data", &size));
  *out_dense =
      (vhlo_dense){.type = &self->types[type], .data = c.at, .size = size};
  return check_size(self, op, out_dense);
}

void vhlo_dense_copy(const vhlo_dense *dense, void *target, int64_t count) {
  uint8_t *to = target;
  size_t one = keel_dtype_size(dense->type->dtype);
  if (dense->type->dtype == KD_BOOL) {
    for (int64_t i = 0; i < count; i++) {
      int byte = dense->data[dense->packed ? i / 8 : dense->splat ? 0 : i];
      if (dense->packed) byte >>= i % 8;
      to[i] = (uint8_t)(byte & 1);
    }
  } else if (dense->splat) {
    for (int64_t i = 0; i < count; i++)
      memcpy(to + (size_t)i * one, dense->data, one);
  } else if (count) {
    memcpy(to, dense->data, (size_t)count * one);
  }
}

keel_status vhlo_ints(const vhlo *self, const bytecode_op *op, const char *name,
                      uint32_t most, uint32_t *out_count, int64_t *numbers) {
  vhlo_dense dense;
  KEEL_TRY(vhlo_dense_of(self, op, name, &dense));
  int64_t count = dense.type->elements;
  if (count > (int64_t)most)
    return vhlo_fail(self, op, KD_DATA_LOSS,
                     ": attribute \"%s\" has %lld numbers, and at most %u are"
                     " right",
                     name, (long long)count, (unsigned)most);
  *out_count = (uint32_t)count;
  if (dense.type->dtype == KD_I64) {
    vhlo_dense_copy(&dense, numbers, count);
    return KD_OK;
  }
  if (dense.type->dtype != KD_BOOL)
    return vhlo_fail(self, op, KD_DATA_LOSS,
                     ": attribute \"%s\" is neither i64 nor boolean", name);
  uint8_t flags[256];
  if (count > (int64_t)sizeof flags)
    return vhlo_fail(self, op, KD_DATA_LOSS,
                     ": attribute \"%s\" has %lld booleans", name,
                     (long long)count);
  vhlo_dense_copy(&dense, flags, count);
  for (int64_t i = 0; i < count; i++)
    numbers[i] = flags[i];
  return KD_OK;
}
