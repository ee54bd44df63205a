/* image.h - the binary form of a program: a file that is mapped and run in place.
 *
 *   head, streams, data
 *
 * Little-endian. The head says where each stream begins. A stream is an array of one
 * kind of record, read once, from its first to its last: what comes next needs no place
 * in the file, and nothing can be pointed to twice. Only names, types, tensors, ops and
 * nested functions are referred to, by their number; tensors of a sequence and nested
 * functions come before what holds them. Data is where tensors and compiled forms lie, at
 * multiples of IMAGE_ALIGN; it is not read before somebody runs the program.
 *
 * Versions: a field that is added to a record, or a stream that is added, raises
 * IMAGE_VERSION; what older readers must not overlook raises `needs` in the files that
 * use it. Records have their sizes in the head, and a reader takes a longer one. */
#ifndef KEEL_IMAGE_H
#define KEEL_IMAGE_H

#include "program/function.h"

#define IMAGE_MAGIC \
  "\x89KEEL\r\n\x1a"     /* 8 bytes: no text, no other line ends */
#define IMAGE_VERSION 3u /* what is written */
#define IMAGE_NEEDS   1u /* what its reader must know */
#define IMAGE_ALIGN   64u

typedef enum image_stream {
  IMAGE_STRINGS,   /* bytes, ended by NUL; referred to by their place */
  IMAGE_TYPES,     /* image_type */
  IMAGE_DIMS,      /* int64_t: of the types */
  IMAGE_TENSORS,   /* image_tensor */
  IMAGE_ITEMS,     /* uint32_t: tensors that are a sequence's */
  IMAGE_OPS,       /* image_op */
  IMAGE_FUNCTIONS, /* image_function; the last is the program's own */
  IMAGE_PORTS,     /* image_port: of each function, inputs, then outputs */
  IMAGE_VALUES,    /* image_value */
  IMAGE_NODES,     /* image_node */
  IMAGE_ATTRS,     /* image_attr */
  IMAGE_WORDS, /* uint32_t: values of functions and nodes, strings of attributes */
  IMAGE_LONGS,  /* int64_t: dimensions of ports, integer attributes */
  IMAGE_FLOATS, /* float attributes */
  /* version 2 */
  IMAGE_SYMBOLS, /* uint32_t: strings, for each dimension of ports, or "" */
  /* version 3 */
  IMAGE_FORMS, /* image_form: compiled regions, in the order of keel_form_order */
  IMAGE_STREAMS
} image_stream;

typedef struct image_part {
  uint64_t offset; /* bytes from the file's begin, a multiple of 8 */
  uint32_t count;  /* records */
  uint32_t size;   /* bytes of each */
} image_part;

typedef struct image_head {
  char magic[8];
  uint32_t version, needs;
  uint32_t head_size; /* bytes of this; larger in a later version */
  uint32_t device;    /* string: the device it was compiled for, or "" */
  uint64_t file_size;
  uint64_t data;  /* where the data begins */
  uint64_t check; /* keel_hash of all from behind the head to the data */
  image_part parts[IMAGE_STREAMS];
} image_head;

typedef struct image_type {
  uint32_t dtype, rank; /* and `rank` dims */
} image_type;

typedef struct image_tensor {
  uint32_t kind, type; /* KEEL_DATA, KEEL_SEQUENCE ... */
  uint64_t at;         /* data, strings (their offsets and text): bytes from the
                          data's begin; sequence: how many items */
} image_tensor;

typedef struct image_op {
  uint32_t domain, name, since, unused; /* the opset version of its meaning */
} image_op;

/* Words: the values that are inputs, then those that are outputs. */
typedef struct image_function {
  uint32_t name, value_count, node_count, input_count, output_count;
  uint32_t capture_count;
} image_function;

typedef struct image_port {
  uint32_t name, dtype, rank, flags; /* and `rank` longs, where it is known */
} image_port;

typedef struct image_value {
  uint32_t name, constant; /* tensor, or KEEL_ABSENT */
} image_value;

/* Words: inputs, then outputs. */
typedef struct image_node {
  uint32_t op, name, device; /* string: where it must run, or "" */
  uint32_t attr_count, input_count, output_count;
  uint32_t layout, unused; /* of output 0: the device's own, or 0 */
} image_node;

typedef struct image_attr {
  uint32_t name, kind;
  uint32_t count; /* of longs, floats, or words: strings */
  uint32_t at;    /* string, tensor or function; a float's bits */
  int64_t i;
} image_attr;

/* The compiled form of a region (forms.h). Readers that can't use it compile the region from the
 * nodes, which are in the file, too. */
typedef struct image_form {
  uint64_t graph[2]; /* its fingerprint */
  uint64_t options;
  uint64_t at, size; /* bytes, from the data's begin */
  uint64_t sum;
  uint32_t maker, unused; /* string */
} image_form;

#define IMAGE_HEAD_1 (48u + 16u * IMAGE_SYMBOLS) /* bytes of version 1's */

_Static_assert(sizeof(image_head) == 48 + 16 * IMAGE_STREAMS, "no gaps");
_Static_assert(sizeof(image_tensor) == 16, "no gaps");
_Static_assert(sizeof(image_node) == 32, "no gaps");
_Static_assert(sizeof(image_attr) == 24, "no gaps");
_Static_assert(sizeof(image_form) == 56, "no gaps");

/* Whether a file begins as one. */
bool keel_image_is(const void *data, uint64_t size);

/* Makes a program from a file. Takes over the file, even on failure.
 * Returns KD_OK, KD_DATA_LOSS (damaged), KD_INCOMPATIBLE (of a later Keel, or an op
 * whose meaning has changed), KD_NOT_FOUND (a device), KD_UNIMPLEMENTED (no such op). */
keel_status keel_image_read(keel_context *context, const char *path,
                            keel_file *file, keel_program **out_program);

/* Writes one. Returns KD_OK, KD_OUT_OF_MEMORY, or a constant's failure; ask the file for its own
 * errors. */
keel_status keel_image_write(const keel_program *program, FILE *file);

#endif /* KEEL_IMAGE_H */
