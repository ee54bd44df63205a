/* vhlo.c - types and attributes of VHLO, and what of MLIR's own dialect goes with them. */
#include "frontends/stablehlo/vhlo.h"

#include "values/type.h"

#define TYPE_NESTING_MOST 16

/* ---- names ------------------------------------------------------------------------ */

size_t vhlo_name_size(const bytecode_op *op) {
  const char *version = NULL;
  for (const char *at = strstr(op->name, "_v"); at; at = strstr(at + 1, "_v"))
    version = at;
  return version ? (size_t)(version - op->name) : strlen(op->name);
}

bool vhlo_is(const bytecode_op *op, const char *name) {
  size_t size = vhlo_name_size(op);
  return !strcmp(op->dialect, "vhlo") && strlen(name) == size &&
         !memcmp(op->name, name, size);
}

keel_status vhlo_fail(const vhlo *self, const bytecode_op *op,
                      keel_status status, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  bool known = !strcmp(op->dialect, "vhlo");
  return keel_fail(status, "%s: op %s.%.*s at byte %llu%s", self->file.path,
                   known ? "stablehlo" : op->dialect,
                   known ? (int)vhlo_name_size(op) : 99, op->name,
                   (unsigned long long)op->offset, text);
}

/* ---- types ------------------------------------------------------------------------ */

/* VHLO's codes of element types. */
static const struct {
  kd_dtype dtype;
  const char *what;
} elements[] = {
    [0] = {KD_BOOL, "i1"},
    [2] = {KD_BF16, "bf16"},
    [3] = {KD_F16, "f16"},
    [4] = {KD_F32, "f32"},
    [5] = {KD_F64, "f64"},
    [6] = {KD_F8E4M3FN, "f8E4M3FN"},
    [7] = {KD_F8E5M2, "f8E5M2"},
    [9] = {KD_NONE, "index"},
    [10] = {KD_NONE, "i4"},
    [11] = {KD_I8, "i8"},
    [12] = {KD_I16, "i16"},
    [13] = {KD_I32, "i32"},
    [14] = {KD_I64, "i64"},
    [15] = {KD_NONE, "ui4"},
    [16] = {KD_U8, "ui8"},
    [17] = {KD_U16, "ui16"},
    [18] = {KD_U32, "ui32"},
    [19] = {KD_U64, "ui64"},
    [24] = {KD_NONE, "quantized"},
    [27] = {KD_F8E4M3FNUZ, "f8E4M3FNUZ"},
    [28] = {KD_F8E5M2FNUZ, "f8E5M2FNUZ"},
    [29] = {KD_NONE, "f8E4M3B11FNUZ"},
    [30] = {KD_NONE, "quantized"},
    [31] = {KD_NONE, "i2"},
    [32] = {KD_NONE, "ui2"},
    [34] = {KD_NONE, "tf32"},
    [35] = {KD_NONE, "f8E4M3"},
    [36] = {KD_NONE, "f8E3M4"},
    [37] = {KD_NONE, "f4E2M1FN"},
    [38] = {KD_NONE, "f6E2M3FN"},
    [39] = {KD_NONE, "f6E3M2FN"},
    [40] = {KD_NONE, "f8E8M0FNU"},
};

enum {
  COMPLEX = 1,
  FUNCTION = 8,
  RANKED = 20,
  RANKED_ENCODED = 21,
  TOKEN = 22,
  TUPLE = 23,
  UNRANKED = 25,
  TYPE_CODES = 43
};

static keel_status read_type(vhlo *self, uint32_t index, unsigned depth);

static keel_status read_item(vhlo *self, bytecode_cursor *c, unsigned depth,
                             uint32_t *out_type) {
  KEEL_TRY(bytecode_index(c, self->file.type_count, "type", out_type));
  return read_type(self, *out_type, depth + 1);
}

static keel_status read_dims(bytecode_cursor *c, vhlo_type *type) {
  uint32_t rank = 0;
  KEEL_TRY(bytecode_count(c, 1, "dimensions", &rank));
  if (rank > KD_MAX_RANK)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: a tensor has rank %u, and Keel's have at most %u",
                     c->file->path, (unsigned)rank, KD_MAX_RANK);
  type->rank = rank;
  type->elements = 1;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t dim = 0;
    KEEL_TRY(bytecode_signed(c, &dim));
    if (dim < 0) type->dynamic = true;
    type->dims[i] = dim < 0 ? -1 : dim;
    if (!keel_mul_i64(type->elements, dim < 0 ? 1 : dim, &type->elements) ||
        type->elements > INT64_MAX / 16)
      return bytecode_damaged(c, "a tensor has more elements than fit");
  }
  return KD_OK;
}

static keel_status vhlo_read_tensor(vhlo *self, bytecode_cursor *c,
                                    uint64_t code, unsigned depth,
                                    vhlo_type *type) {
  uint32_t item = 0, encoding = 0;
  if (code == RANKED_ENCODED)
    KEEL_TRY(
        bytecode_index(c, self->file.attribute_count, "attribute", &encoding));
  KEEL_TRY(read_dims(c, type));
  KEEL_TRY(read_item(self, c, depth, &item));
  const vhlo_type *element = &self->types[item];
  if (element->kind != VHLO_SCALAR)
    return bytecode_damaged(c, "a tensor is of type %u, which is not a scalar",
                            item);
  type->kind = VHLO_TENSOR;
  type->dtype = element->dtype;
  type->what = element->what;
  return KD_OK;
}

/* A list of types behind those that a type has. */
static keel_status read_items(vhlo *self, bytecode_cursor *c, unsigned depth,
                              vhlo_type *type) {
  uint32_t count = 0, before = type->count;
  KEEL_TRY(bytecode_count(c, 1, "types", &count));
  uint32_t *items = NULL;
  if (!KEEL_ARENA_ARRAY(&self->file.arena, items, before + count))
    return KD_OUT_OF_MEMORY;
  if (before) memcpy(items, type->items, before * sizeof *items);
  type->items = items;
  for (uint32_t i = 0; i < count; i++)
    KEEL_TRY(read_item(self, c, depth, &items[before + i]));
  type->count = before + count;
  type->outputs = count;
  return KD_OK;
}

static keel_status read_complex(vhlo *self, bytecode_cursor *c, unsigned depth,
                                vhlo_type *type) {
  uint32_t item = 0;
  KEEL_TRY(read_item(self, c, depth, &item));
  kd_dtype part = self->types[item].dtype;
  type->kind = VHLO_SCALAR;
  type->dtype = part == KD_F32 ? KD_C64 : part == KD_F64 ? KD_C128 : KD_NONE;
  type->what = "complex";
  return KD_OK;
}

static keel_status read_coded(vhlo *self, bytecode_cursor *c, unsigned depth,
                              vhlo_type *type) {
  uint64_t code = 0;
  KEEL_TRY(bytecode_varint(c, &code));
  type->kind = VHLO_OTHER;
  type->what = "a type that StableHLO's readers know, and Keel does not";
  switch (code) {
    case COMPLEX:
      return read_complex(self, c, depth, type);
    case FUNCTION:
      type->kind = VHLO_FUNCTION;
      KEEL_TRY(read_items(self, c, depth, type));
      return read_items(self, c, depth, type);
    case RANKED:
    case RANKED_ENCODED:
      return vhlo_read_tensor(self, c, code, depth, type);
    case TOKEN:
      type->kind = VHLO_TOKEN;
      type->what = "a token";
      return KD_OK;
    case TUPLE:
      type->kind = VHLO_TUPLE;
      type->what = "a tuple";
      return read_items(self, c, depth, type);
    case UNRANKED:
      type->what = "a tensor of unknown rank";
      return KD_OK;
  }
  if (code >= TYPE_CODES)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: type %llu of VHLO is from a later version than Keel"
                     " knows; serialize it for an older one",
                     c->file->path, (unsigned long long)code);
  if (code < KEEL_COUNT_OF(elements) && elements[code].what) {
    type->kind = VHLO_SCALAR;
    type->dtype = elements[code].dtype;
    type->what = elements[code].what;
  }
  return KD_OK;
}

static keel_status read_type(vhlo *self, uint32_t index, unsigned depth) {
  const bytecode_entry *entry = &self->file.types[index];
  vhlo_type *type = &self->types[index];
  bytecode_cursor c = bytecode_of_entry(&self->file, entry);
  if (type->kind != VHLO_UNREAD) return KD_OK;
  if (depth > TYPE_NESTING_MOST)
    return bytecode_damaged(&c, "types are nested more than %u deep",
                            TYPE_NESTING_MOST);
  if (entry->custom && !strcmp(entry->dialect, "vhlo"))
    return read_coded(self, &c, depth, type);
  type->kind = VHLO_OTHER;
  type->what = "a type of another dialect than VHLO";
  return KD_OK;
}

keel_status vhlo_types(vhlo *self) {
  if (!KEEL_ARENA_ARRAY(&self->file.arena, self->types, self->file.type_count))
    return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < self->file.type_count; i++)
    KEEL_TRY(read_type(self, i, 0));
  return KD_OK;
}
