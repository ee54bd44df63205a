/* bytecode.h - MLIR bytecode of versions 0 to 6, read into a tree of operations.
 *
 * The file is of any origin. All that is read from it is checked against its size before
 * it is used, and what is allocated is at most some hundred bytes for each of its bytes.
 *
 * Format: "MLIR Bytecode Format", mlir.llvm.org. */
#ifndef KEEL_BYTECODE_H
#define KEEL_BYTECODE_H

#include "base/base.h"

#define BYTECODE_VERSION_MOST 6
#define BYTECODE_NESTING_MOST 64 /* regions in regions */
#define BYTECODE_NONE         UINT32_MAX

/* An attribute or a type: where it is encoded. */
typedef struct bytecode_entry {
  const char *dialect;
  const uint8_t *at;
  uint64_t size;
  bool custom; /* by the dialect's own code; otherwise as text */
} bytecode_entry;

typedef struct bytecode_op {
  const char *dialect, *name;
  uint64_t offset;     /* in the file */
  uint32_t attributes; /* an attribute, or BYTECODE_NONE */
  uint32_t properties; /* one of the section's, or BYTECODE_NONE */
  uint32_t operand_count, result_count; /* of values */
  uint32_t *operands;
  uint32_t first_result; /* the others follow */
  uint32_t region_count;
  struct bytecode_block *regions; /* a block each; without ops: empty */
} bytecode_op;

typedef struct bytecode_block {
  uint32_t first_argument, argument_count; /* values */
  uint32_t op_count;
  bytecode_op *ops;
} bytecode_block;

/* A run of the file's bytes. */
typedef struct bytecode_span {
  const uint8_t *at, *end;
} bytecode_span;

typedef struct bytecode_string {
  const char *text; /* ended by a NUL, which is not counted */
  uint64_t size;
} bytecode_string;

typedef struct bytecode {
  const char *path; /* for messages */
  const uint8_t *begin, *end;
  uint64_t version;
  const char *producer;
  keel_arena arena;
  bytecode_string *strings;
  bytecode_entry *attributes, *types;
  bytecode_span *properties;
  uint32_t string_count, attribute_count, type_count, property_count;
  /* The type of each value. A value has one number in the whole file. */
  uint32_t *value_types;
  uint32_t value_count, value_capacity;
  bytecode_block top;
} bytecode;

bool bytecode_is(const void *data, uint64_t size);

/* Reads a file, which must stay where it is. Free with bytecode_free, after a failure as
 * well. Returns KD_OK, KD_DATA_LOSS, KD_UNIMPLEMENTED (a later version, branches between
 * blocks), KD_OUT_OF_MEMORY. */
keel_status bytecode_read(const char *path, const void *data, uint64_t size,
                          bytecode *out_file);
void bytecode_free(bytecode *file);

/* ---- reading what a dialect has encoded ----------------------------------------- */

typedef struct bytecode_cursor {
  const bytecode *file;
  const uint8_t *at, *end;
} bytecode_cursor;

bytecode_cursor bytecode_of_entry(const bytecode *file,
                                  const bytecode_entry *entry);

/* Fails with "PATH: is damaged at byte N: " and the text: KD_DATA_LOSS. */
keel_status bytecode_damaged(const bytecode_cursor *c, const char *format, ...)
    KD_PRINTF(2, 3);

keel_status bytecode_byte(bytecode_cursor *c, uint8_t *out_byte);
keel_status bytecode_varint(bytecode_cursor *c, uint64_t *out_number);
keel_status bytecode_signed(bytecode_cursor *c, int64_t *out_number);

/* A number below `limit`. what: "string", for the message. */
keel_status bytecode_index(bytecode_cursor *c, uint32_t limit, const char *what,
                           uint32_t *out_index);

/* How many of something follow, each of at least `least` bytes. */
keel_status bytecode_count(bytecode_cursor *c, uint32_t least, const char *what,
                           uint32_t *out_count);

#endif /* KEEL_BYTECODE_H */
