/* bytecode.c - MLIR bytecode: numbers, sections, strings, dialects, attributes' and types'
 * places. The operations: operations.c. */
#include "frontends/stablehlo/operations.h"

static const uint8_t magic[4] = {'M', 'L', 0xef, 'R'};

bool bytecode_is(const void *data, uint64_t size) {
  return size >= sizeof magic && !memcmp(data, magic, sizeof magic);
}

/* ---- numbers ---------------------------------------------------------------------- */

keel_status bytecode_damaged(const bytecode_cursor *c, const char *format,
                             ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return keel_fail(
      KD_DATA_LOSS, "%s: is damaged at byte %llu: %s; make the file again",
      c->file->path, (unsigned long long)(c->at - c->file->begin), text);
}

static keel_status ends_early(const bytecode_cursor *c) {
  return bytecode_damaged(c, "it ends within a number or name");
}

bytecode_cursor bytecode_of_entry(const bytecode *file,
                                  const bytecode_entry *entry) {
  return (bytecode_cursor){file, entry->at, entry->at + entry->size};
}

keel_status bytecode_byte(bytecode_cursor *c, uint8_t *out_byte) {
  if (c->at == c->end) return ends_early(c);
  *out_byte = *c->at++;
  return KD_OK;
}

/* The zeros below the first byte's lowest one say how many bytes follow. */
keel_status bytecode_varint(bytecode_cursor *c, uint64_t *out_number) {
  if (c->at == c->end) return ends_early(c);
  unsigned more = *c->at ? (unsigned)__builtin_ctz(*c->at) : 8;
  if ((size_t)(c->end - c->at) <= more) return ends_early(c);
  uint64_t number = more < 8 ? (uint64_t)*c->at >> (more + 1) : 0;
  unsigned shift = more < 8 ? 7 - more : 0;
  for (unsigned i = 1; i <= more; i++, shift += 8)
    number |= (uint64_t)c->at[i] << shift;
  c->at += 1 + more;
  *out_number = number;
  return KD_OK;
}

keel_status bytecode_signed(bytecode_cursor *c, int64_t *out_number) {
  uint64_t number = 0;
  KEEL_TRY(bytecode_varint(c, &number));
  *out_number = (int64_t)(number >> 1 ^ (0 - (number & 1)));
  return KD_OK;
}

keel_status bytecode_index(bytecode_cursor *c, uint32_t limit, const char *what,
                           uint32_t *out_index) {
  uint64_t number = 0;
  KEEL_TRY(bytecode_varint(c, &number));
  if (number >= limit)
    return bytecode_damaged(c, "there is no %s %llu (there are %u)", what,
                            (unsigned long long)number, (unsigned)limit);
  *out_index = (uint32_t)number;
  return KD_OK;
}

static keel_status check_count(const bytecode_cursor *c, uint64_t number,
                               uint32_t least, const char *what) {
  uint64_t left = (uint64_t)(c->end - c->at);
  if (number > left / least || number > UINT32_MAX / 2)
    return bytecode_damaged(c,
                            "%llu of %s do not fit into the %llu bytes that"
                            " are left",
                            (unsigned long long)number, what,
                            (unsigned long long)left);
  return KD_OK;
}

keel_status bytecode_count(bytecode_cursor *c, uint32_t least, const char *what,
                           uint32_t *out_count) {
  uint64_t number = 0;
  KEEL_TRY(bytecode_varint(c, &number));
  KEEL_TRY(check_count(c, number, least, what));
  *out_count = (uint32_t)number;
  return KD_OK;
}

/* ---- sections --------------------------------------------------------------------- */

keel_status bytecode_section(bytecode_cursor *c, uint32_t *out_id,
                             bytecode_cursor *out_section) {
  uint8_t head = 0;
  uint64_t size = 0, alignment = 0;
  KEEL_TRY(bytecode_byte(c, &head));
  KEEL_TRY(bytecode_varint(c, &size));
  if (head & 0x80) {
    KEEL_TRY(bytecode_varint(c, &alignment));
    if (!alignment || alignment & (alignment - 1) || alignment > 1 << 20)
      return bytecode_damaged(c, "a section has alignment %llu",
                              (unsigned long long)alignment);
    while (c->at < c->end && (uint64_t)(c->at - c->file->begin) % alignment)
      c->at++;
  }
  if (size > (uint64_t)(c->end - c->at))
    return bytecode_damaged(c, "section %u has %llu bytes, and %llu are left",
                            head & 0x7fu, (unsigned long long)size,
                            (unsigned long long)(c->end - c->at));
  *out_id = head & 0x7f;
  *out_section = (bytecode_cursor){c->file, c->at, c->at + size};
  c->at += size;
  return KD_OK;
}

/* Their sizes, from the last to the first; then their characters. */
static keel_status bytecode_read_strings(bytecode *file, bytecode_cursor c) {
  KEEL_TRY(bytecode_count(&c, 2, "strings", &file->string_count));
  if (!KEEL_ARENA_ARRAY(&file->arena, file->strings, file->string_count))
    return KD_OUT_OF_MEMORY;
  uint64_t total = 0;
  for (uint32_t i = file->string_count; i--;) {
    uint32_t size = 0;
    KEEL_TRY(bytecode_count(&c, 1, "characters", &size));
    if (!size) return bytecode_damaged(&c, "string %u has no end", i);
    file->strings[i].size = size - 1;
    total += size;
  }
  if (total != (uint64_t)(c.end - c.at))
    return bytecode_damaged(&c,
                            "its strings have %llu characters, and %llu"
                            " are there",
                            (unsigned long long)total,
                            (unsigned long long)(c.end - c.at));
  for (uint32_t i = 0; i < file->string_count; i++) {
    bytecode_string *string = &file->strings[i];
    string->text = (const char *)c.at;
    c.at += string->size;
    if (*c.at++) return bytecode_damaged(&c, "string %u does not end", i);
  }
  return KD_OK;
}

/* The string with an index; one with a NUL in it is what is in front of that. */
static keel_status name_at(bytecode_cursor *c, uint64_t index,
                           const char **out_name) {
  if (index >= c->file->string_count)
    return bytecode_damaged(c, "there is no string %llu",
                            (unsigned long long)index);
  *out_name = c->file->strings[index].text;
  return KD_OK;
}

static keel_status read_dialect_name(tables *t, bytecode_cursor *c,
                                     const char **out_name) {
  uint64_t number = 0;
  KEEL_TRY(bytecode_varint(c, &number));
  if (t->file->version < 1) return name_at(c, number, out_name);
  if (number & 1) { /* with a version of its own, which VHLO's types replace */
    uint32_t id = 0;
    bytecode_cursor section;
    KEEL_TRY(bytecode_section(c, &id, &section));
  }
  return name_at(c, number >> 1, out_name);
}

static keel_status read_op_names(tables *t, bytecode_cursor *c) {
  uint32_t dialect = 0, count = 0, capacity = 0;
  if (t->file->version >= 4)
    KEEL_TRY(bytecode_count(c, 1, "names of ops", &count));
  while (c->at < c->end) {
    KEEL_TRY(bytecode_index(c, t->dialect_count, "dialect", &dialect));
    KEEL_TRY(bytecode_count(c, 1, "names of ops", &count));
    for (uint32_t i = 0; i < count; i++) {
      uint64_t number = 0;
      KEEL_TRY(bytecode_varint(c, &number));
      if (t->file->version >= 5) number >>= 1; /* whether it was registered */
      if (!KEEL_ARENA_ROOM(&t->file->arena, t->ops, t->op_count, capacity))
        return KD_OUT_OF_MEMORY;
      t->ops[t->op_count].dialect = t->dialects[dialect];
      KEEL_TRY(name_at(c, number, &t->ops[t->op_count].name));
      t->op_count++;
    }
  }
  return KD_OK;
}

static keel_status read_dialects(tables *t, bytecode_cursor c) {
  KEEL_TRY(bytecode_count(&c, 1, "dialects", &t->dialect_count));
  if (!KEEL_ARENA_ARRAY(&t->file->arena, t->dialects, t->dialect_count))
    return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < t->dialect_count; i++)
    KEEL_TRY(read_dialect_name(t, &c, &t->dialects[i]));
  return read_op_names(t, &c);
}

/* ---- attributes and types ---------------------------------------------------------- */

static keel_status read_entries(tables *t, bytecode_cursor *offsets,
                                bytecode_cursor *data, bytecode_entry *entries,
                                uint32_t count) {
  for (uint32_t i = 0; i < count;) {
    uint32_t dialect = 0, run = 0;
    KEEL_TRY(bytecode_index(offsets, t->dialect_count, "dialect", &dialect));
    KEEL_TRY(bytecode_count(offsets, 1, "attributes or types", &run));
    if (!run || run > count - i)
      return bytecode_damaged(offsets, "a dialect has %u of %u entries", run,
                              count - i);
    for (; run; run--, i++) {
      uint64_t number = 0;
      KEEL_TRY(bytecode_varint(offsets, &number));
      if (number >> 1 > (uint64_t)(data->end - data->at))
        return bytecode_damaged(offsets, "entry %u has %llu bytes", i,
                                (unsigned long long)(number >> 1));
      entries[i] = (bytecode_entry){.dialect = t->dialects[dialect],
                                    .at = data->at,
                                    .size = number >> 1,
                                    .custom = number & 1};
      data->at += number >> 1;
    }
  }
  return KD_OK;
}

static keel_status read_places(tables *t, bytecode_cursor offsets,
                               bytecode_cursor data) {
  bytecode *file = t->file;
  KEEL_TRY(bytecode_count(&offsets, 1, "attributes", &file->attribute_count));
  KEEL_TRY(bytecode_count(&offsets, 1, "types", &file->type_count));
  KEEL_TRY(check_count(&offsets,
                       (uint64_t)file->attribute_count + file->type_count, 1,
                       "attributes and types"));
  if (!KEEL_ARENA_ARRAY(&file->arena, file->attributes,
                        file->attribute_count) ||
      !KEEL_ARENA_ARRAY(&file->arena, file->types, file->type_count))
    return KD_OUT_OF_MEMORY;
  KEEL_TRY(read_entries(t, &offsets, &data, file->attributes,
                        file->attribute_count));
  return read_entries(t, &offsets, &data, file->types, file->type_count);
}

static keel_status read_properties(bytecode *file, bytecode_cursor c) {
  KEEL_TRY(bytecode_count(&c, 1, "properties", &file->property_count));
  if (!KEEL_ARENA_ARRAY(&file->arena, file->properties, file->property_count))
    return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < file->property_count; i++) {
    uint32_t size = 0;
    KEEL_TRY(bytecode_count(&c, 1, "bytes of properties", &size));
    file->properties[i] = (bytecode_span){c.at, c.at + size};
    c.at += size;
  }
  return KD_OK;
}

/* ---- the file ----------------------------------------------------------------------- */

enum {
  STRINGS,
  DIALECTS,
  ENTRIES,
  OFFSETS,
  IR,
  RESOURCES,
  RESOURCE_OFFSETS,
  DIALECT_VERSIONS,
  PROPERTIES,
  SECTIONS
};

static keel_status read_head(bytecode *file, bytecode_cursor *c) {
  c->at += sizeof magic;
  KEEL_TRY(bytecode_varint(c, &file->version));
  if (file->version > BYTECODE_VERSION_MOST)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: is MLIR bytecode of version %llu, and Keel reads"
                     " 0 to %u; serialize it for an older version of StableHLO",
                     file->path, (unsigned long long)file->version,
                     BYTECODE_VERSION_MOST);
  file->producer = (const char *)c->at;
  const uint8_t *end = memchr(c->at, 0, (size_t)(c->end - c->at));
  if (!end) return bytecode_damaged(c, "the producer's name does not end");
  c->at = end + 1;
  return KD_OK;
}

static keel_status find_sections(bytecode_cursor *c,
                                 bytecode_cursor sections[SECTIONS]) {
  static const char *const needed[] = {"strings", "dialects", "attributes",
                                       "places of attributes", "operations"};
  while (c->at < c->end) {
    uint32_t id = 0;
    bytecode_cursor section;
    KEEL_TRY(bytecode_section(c, &id, &section));
    if (id >= SECTIONS)
      return bytecode_damaged(c, "section %u is not known", id);
    if (sections[id].file) return bytecode_damaged(c, "section %u again", id);
    sections[id] = section;
  }
  for (uint32_t i = STRINGS; i <= IR; i++)
    if (!sections[i].file)
      return bytecode_damaged(c, "the section of %s is missing", needed[i]);
  return KD_OK;
}

keel_status bytecode_read(const char *path, const void *data, uint64_t size,
                          bytecode *out_file) {
  bytecode *file = out_file;
  bytecode_cursor sections[SECTIONS] = {{0}};
  tables t = {.file = file};
  *file = (bytecode){
      .path = path, .begin = data, .end = (const uint8_t *)data + size};
  bytecode_cursor c = {file, file->begin, file->end};
  KEEL_TRY(read_head(file, &c));
  KEEL_TRY(find_sections(&c, sections));
  KEEL_TRY(bytecode_read_strings(file, sections[STRINGS]));
  KEEL_TRY(read_dialects(&t, sections[DIALECTS]));
  KEEL_TRY(read_places(&t, sections[OFFSETS], sections[ENTRIES]));
  if (sections[PROPERTIES].file)
    KEEL_TRY(read_properties(file, sections[PROPERTIES]));
  return bytecode_operations(&t, sections[IR]);
}

void bytecode_free(bytecode *file) {
  keel_arena_free(&file->arena);
}
