/* operations.h - what the two files of the bytecode reader share. */
#ifndef KEEL_BYTECODE_OPERATIONS_H
#define KEEL_BYTECODE_OPERATIONS_H

#include "frontends/stablehlo/bytecode.h"

typedef struct op_name {
  const char *dialect, *name;
} op_name;

/* The state of reading a file. */
typedef struct tables {
  bytecode *file;
  const char **dialects;
  op_name *ops;
  uint32_t dialect_count, op_count;
} tables;

/* The next section: its number, and what is in it. */
keel_status bytecode_section(bytecode_cursor *c, uint32_t *out_id,
                             bytecode_cursor *out_section);

/* Reads the section of operations into file->top. */
keel_status bytecode_operations(tables *t, bytecode_cursor c);

#endif /* KEEL_BYTECODE_OPERATIONS_H */
