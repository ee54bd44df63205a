/* read.h - the parts of the reader. */
#ifndef KEEL_MLIR_READ_H
#define KEEL_MLIR_READ_H

#include "mlir.h"

#define NESTING_MOST 64 /* regions in regions, lists in lists */

/* A resource: hex digits in the file's last section. */
typedef struct resource {
  const char *name, *digits;
  size_t name_size, digit_count;
  struct resource *next;
} resource;

/* A place in the text, and what all of the reader needs. */
typedef struct cursor {
  const char *path, *begin, *at;
  const char *end;  /* of the operations */
  const char *last; /* of the text */
  keel_context *context;
  keel_arena scratch;
  resource *resources;
  struct mlir_attr *tensors; /* those that attributes hold, by `next_tensor` */
  unsigned depth;
} cursor;

/* A run of characters; not ended by NUL. */
typedef struct span {
  const char *at;
  size_t size;
} span;

/* Fails with "FILE:LINE:COLUMN: " and the text. */
keel_status keel_mlir_fail(const cursor *c, const char *format, ...)
    KD_PRINTF(2, 3);

/* ---- tokens: lex.c ------------------------------------------------------------ */

/* Moves over white space and comments. */
void keel_mlir_skip(cursor *c);
/* Whether `text` comes next; takes it. A word must end there. */
bool keel_mlir_take(cursor *c, const char *text);
/* Takes it or fails. */
keel_status keel_mlir_expect(cursor *c, const char *text);
/* A bare word: letters, digits, '_', '$', '.'; size 0 where there is none. */
span keel_mlir_word(cursor *c);
/* A string literal, with its escapes undone, in the scratch arena. */
keel_status keel_mlir_string(cursor *c, const char **out_text,
                             size_t *out_size);
/* The characters of a number, with its sign: size 0 where there is none. */
span keel_mlir_number(cursor *c);
/* Moves behind what closes the bracket that comes next. */
keel_status keel_mlir_skip_brackets(cursor *c);

/* ---- types: lex.c ---------------------------------------------------------------- */

typedef enum mlir_kind {
  MLIR_TENSOR, /* of dtype; rank may be KEEL_RANK_UNKNOWN */
  MLIR_NONE,
  MLIR_VALUE, /* something: flags say what, where that is known */
} mlir_kind;

typedef struct mlir_type {
  mlir_kind kind;
  uint32_t flags; /* KEEL_PORT_* */
  kd_dtype dtype;
  uint32_t rank;
  int64_t dims[KD_MAX_RANK];
} mlir_type;

keel_status keel_mlir_type(cursor *c, mlir_type *out_type);

/* ---- attributes: attr.c ------------------------------------------------------------- */

typedef enum attr_kind {
  ATTR_UNIT,
  ATTR_BOOL,
  ATTR_INT,
  ATTR_FLOAT,
  ATTR_STRING,
  ATTR_INTS,   /* array<i64: ...>, or a list of integers */
  ATTR_FLOATS, /* array<f32: ...>, or a list of floats */
  ATTR_LIST,
  ATTR_DICT,
  ATTR_TENSOR,
  ATTR_TYPE
} attr_kind;

typedef struct mlir_attr mlir_attr;
struct mlir_attr {
  attr_kind kind;
  const char *name;  /* in a dict */
  const char *where; /* in the text */
  int64_t i;
  float f;
  const char *s;
  const int64_t *ints;
  const float *floats;
  mlir_attr *items;    /* of a list or dict, by `next` */
  uint32_t count;      /* of items, ints, floats */
  keel_tensor *tensor; /* the cursor releases it */
  mlir_type *type;
  mlir_attr *next;
  mlir_attr *next_tensor;
};

/* A dict, "{" to "}". */
keel_status keel_mlir_dict(cursor *c, mlir_attr *out_dict);
/* An entry of a dict, or NULL. */
const mlir_attr *keel_mlir_find(const mlir_attr *dict, const char *name);

/* Reads the section of resources, wherever it is. */
keel_status keel_mlir_resources(cursor *c);

/* ---- facts of functions: facts.c ------------------------------------------------ */

/* The facts of a port in its type; its dims are the type's. */
void keel_mlir_port(const mlir_type *type, keel_port *out_port);

/* Gives a function, whose inputs and outputs are there, what its facts say. */
keel_status keel_mlir_facts(cursor *c, const mlir_attr *facts,
                            keel_function *function);

#endif /* KEEL_MLIR_READ_H */
