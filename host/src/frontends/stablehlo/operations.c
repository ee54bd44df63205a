/* operations.c - MLIR bytecode: operations, their values and regions.
 *
 * A value's number in the file counts from the region around it that is isolated from
 * above; here it gets a number of its own in the whole file. */
#include "frontends/stablehlo/operations.h"

enum {
  HAS_ATTRIBUTES = 1,
  HAS_RESULTS = 2,
  HAS_OPERANDS = 4,
  HAS_SUCCESSORS = 8,
  HAS_REGIONS = 16,
  HAS_USE_LISTS = 32,
  HAS_PROPERTIES = 64,
};

#define IR_SECTION 4

/* The values that can be seen from a place: by their number in the file. */
typedef struct scope {
  uint32_t *values; /* in the whole file; BYTECODE_NONE: not defined yet */
  uint32_t count, capacity;
} scope;

/* A region being read. */
typedef struct place {
  tables *t;
  scope *scope;
  uint32_t next, end; /* the region's own values in the scope */
  unsigned depth;
} place;

static keel_status read_region(const place *around, bytecode_cursor *c,
                               bytecode_block *block);

/* Gives the next value of the region a number, and a type. */
static keel_status define(place *p, bytecode_cursor *c, uint32_t type,
                          uint32_t *out_value) {
  bytecode *file = p->t->file;
  if (p->next == p->end)
    return bytecode_damaged(c, "a region has more values than it declares");
  if (!KEEL_ARENA_ROOM(&file->arena, file->value_types, file->value_count,
                       file->value_capacity))
    return KD_OUT_OF_MEMORY;
  *out_value = file->value_count;
  p->scope->values[p->next++] = file->value_count;
  file->value_types[file->value_count++] = type;
  return KD_OK;
}

/* Orders of uses, which nothing here depends on. */
static keel_status skip_use_lists(bytecode_cursor *c, uint32_t values) {
  uint64_t lists = 1, number = 0;
  if (values > 1) KEEL_TRY(bytecode_varint(c, &lists));
  for (uint64_t i = 0; i < lists; i++) {
    if (values > 1) KEEL_TRY(bytecode_varint(c, &number));
    KEEL_TRY(bytecode_varint(c, &number));
    for (uint64_t k = number >> 1, index; k; k--)
      KEEL_TRY(bytecode_varint(c, &index));
  }
  return KD_OK;
}

/* ---- an operation ---------------------------------------------------------------- */

static keel_status read_results(place *p, bytecode_cursor *c, bytecode_op *op) {
  KEEL_TRY(bytecode_count(c, 1, "results", &op->result_count));
  for (uint32_t i = 0; i < op->result_count; i++) {
    uint32_t type = 0, value = 0;
    KEEL_TRY(bytecode_index(c, p->t->file->type_count, "type", &type));
    KEEL_TRY(define(p, c, type, &value));
    if (!i) op->first_result = value;
  }
  return KD_OK;
}

/* `before`: the region's first value that is not defined in front of the operation. */
static keel_status read_operands(place *p, bytecode_cursor *c, uint32_t before,
                                 bytecode_op *op) {
  KEEL_TRY(bytecode_count(c, 1, "operands", &op->operand_count));
  if (!KEEL_ARENA_ARRAY(&p->t->file->arena, op->operands, op->operand_count))
    return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    uint32_t number = 0;
    KEEL_TRY(bytecode_index(c, before, "value in front of its use", &number));
    op->operands[i] = p->scope->values[number];
    if (op->operands[i] == BYTECODE_NONE)
      return bytecode_damaged(c, "value %u is used in front of its op", number);
  }
  return KD_OK;
}

/* Those of an isolated op have a section, and begin to count anew. */
static keel_status read_regions(const place *p, bytecode_cursor *c,
                                bytecode_op *op) {
  uint64_t number = 0;
  uint32_t id = 0;
  scope own = {0};
  place inner = *p;
  bytecode_cursor section = *c, *from = c;
  KEEL_TRY(bytecode_varint(c, &number));
  bool isolated = number & 1;
  if (isolated) {
    inner.scope = &own;
    inner.next = inner.end = 0;
    if (p->t->file->version >= 2) {
      KEEL_TRY(bytecode_section(c, &id, &section));
      if (id != IR_SECTION)
        return bytecode_damaged(c, "section %u has no regions", id);
      from = &section;
    }
  }
  if (number >> 1 > (uint64_t)(from->end - from->at))
    return bytecode_damaged(from, "%llu regions do not fit",
                            (unsigned long long)(number >> 1));
  op->region_count = (uint32_t)(number >> 1);
  if (!KEEL_ARENA_ARRAY(&p->t->file->arena, op->regions, op->region_count))
    return KD_OUT_OF_MEMORY;
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < op->region_count && status == KD_OK; i++)
    status = read_region(&inner, from, &op->regions[i]);
  free(own.values);
  return status;
}

static keel_status read_name(place *p, bytecode_cursor *c, bytecode_op *op,
                             uint8_t *out_mask) {
  uint32_t name = 0, location = 0;
  op->offset = (uint64_t)(c->at - p->t->file->begin);
  op->attributes = op->properties = BYTECODE_NONE;
  KEEL_TRY(bytecode_index(c, p->t->op_count, "name of an op", &name));
  op->name = p->t->ops[name].name;
  op->dialect = p->t->ops[name].dialect;
  KEEL_TRY(bytecode_byte(c, out_mask));
  return bytecode_index(c, p->t->file->attribute_count, "location", &location);
}

static keel_status operations_read_op(place *p, bytecode_cursor *c,
                                      bytecode_op *op) {
  const bytecode *file = p->t->file;
  uint32_t before = p->next;
  uint8_t mask = 0;
  KEEL_TRY(read_name(p, c, op, &mask));
  if (mask & HAS_ATTRIBUTES)
    KEEL_TRY(
        bytecode_index(c, file->attribute_count, "attribute", &op->attributes));
  if (mask & HAS_PROPERTIES)
    KEEL_TRY(bytecode_index(c, file->property_count, "set of properties",
                            &op->properties));
  if (mask & HAS_RESULTS) KEEL_TRY(read_results(p, c, op));
  if (mask & HAS_OPERANDS) KEEL_TRY(read_operands(p, c, before, op));
  if (mask & HAS_SUCCESSORS)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: op %s.%s at byte %llu jumps to another block, which"
                     " StableHLO does not have",
                     file->path, op->dialect, op->name,
                     (unsigned long long)op->offset);
  if (mask & HAS_USE_LISTS) KEEL_TRY(skip_use_lists(c, op->result_count));
  if (mask & HAS_REGIONS) KEEL_TRY(read_regions(p, c, op));
  return KD_OK;
}

/* ---- a region ------------------------------------------------------------------------ */

static keel_status read_arguments(place *p, bytecode_cursor *c,
                                  bytecode_block *block) {
  const bytecode *file = p->t->file;
  uint8_t use_lists = 0;
  KEEL_TRY(bytecode_count(c, 1, "arguments", &block->argument_count));
  for (uint32_t i = 0; i < block->argument_count; i++) {
    uint64_t number = 0;
    uint32_t value = 0, location = 0;
    bool located = true;
    KEEL_TRY(bytecode_varint(c, &number));
    if (file->version >= 4) {
      located = number & 1;
      number >>= 1;
    }
    if (number >= file->type_count)
      return bytecode_damaged(c, "there is no type %llu",
                              (unsigned long long)number);
    if (located)
      KEEL_TRY(bytecode_index(c, file->attribute_count, "location", &location));
    KEEL_TRY(define(p, c, (uint32_t)number, &value));
    if (!i) block->first_argument = value;
  }
  if (file->version >= 3) KEEL_TRY(bytecode_byte(c, &use_lists));
  return use_lists ? skip_use_lists(c, block->argument_count) : KD_OK;
}

static keel_status read_block(place *p, bytecode_cursor *c,
                              bytecode_block *block) {
  uint64_t number = 0;
  KEEL_TRY(bytecode_varint(c, &number));
  if (number >> 1 > (uint64_t)(c->end - c->at) / 3)
    return bytecode_damaged(c, "%llu operations do not fit",
                            (unsigned long long)(number >> 1));
  if (number & 1) KEEL_TRY(read_arguments(p, c, block));
  block->op_count = (uint32_t)(number >> 1);
  if (!KEEL_ARENA_ARRAY(&p->t->file->arena, block->ops, block->op_count))
    return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < block->op_count; i++)
    KEEL_TRY(operations_read_op(p, c, &block->ops[i]));
  return KD_OK;
}

/* Its values follow all of those of the region around it. */
static keel_status open_region(const place *around, bytecode_cursor *c,
                               uint32_t values, place *out_place) {
  scope *s = around->scope;
  *out_place = *around;
  out_place->next = around->end;
  out_place->end = around->end + values;
  if (++out_place->depth > BYTECODE_NESTING_MOST)
    return bytecode_damaged(c, "regions are nested more than %u deep",
                            BYTECODE_NESTING_MOST);
  while (s->capacity < out_place->end) {
    uint32_t capacity = s->capacity;
    s->values = keel_grow(s->values, &s->capacity, sizeof *s->values);
    if (s->capacity == capacity) return KD_OUT_OF_MEMORY;
  }
  for (uint32_t i = out_place->next; i < out_place->end; i++)
    s->values[i] = BYTECODE_NONE;
  return KD_OK;
}

static keel_status read_region(const place *around, bytecode_cursor *c,
                               bytecode_block *block) {
  uint64_t blocks = 0;
  uint32_t values = 0;
  place inner;
  KEEL_TRY(bytecode_varint(c, &blocks));
  if (!blocks) return KD_OK;
  if (blocks > 1)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: the region at byte %llu has %llu blocks, and"
                     " StableHLO has one",
                     c->file->path,
                     (unsigned long long)(c->at - c->file->begin),
                     (unsigned long long)blocks);
  KEEL_TRY(bytecode_count(c, 1, "values", &values));
  KEEL_TRY(open_region(around, c, values, &inner));
  return read_block(&inner, c, block);
}

keel_status bytecode_operations(tables *t, bytecode_cursor c) {
  scope none = {0};
  place top = {.t = t, .scope = &none};
  keel_status status = read_block(&top, &c, &t->file->top);
  free(none.values);
  return status;
}
