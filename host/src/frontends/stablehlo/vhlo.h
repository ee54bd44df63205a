/* vhlo.h - VHLO, the dialect in which StableHLO is stored: its types and attributes.
 *
 * Facts of the encoding: StableHLO's VhloBytecode.cpp, VhloEnums.td. */
#ifndef KEEL_VHLO_H
#define KEEL_VHLO_H

#include <kd/tensor.h>

#include "frontends/stablehlo/bytecode.h"

typedef enum vhlo_kind {
  VHLO_UNREAD,
  VHLO_SCALAR, /* an element type */
  VHLO_TENSOR,
  VHLO_TUPLE,
  VHLO_TOKEN,
  VHLO_FUNCTION,
  VHLO_OTHER /* Keel lacks it: `what` names it */
} vhlo_kind;

typedef struct vhlo_type {
  vhlo_kind kind;
  kd_dtype dtype; /* of a scalar or tensor; KD_NONE: Keel has none for it */
  const char
      *what; /* of others, and of element types that Keel does not have */
  uint32_t rank;
  bool dynamic;     /* a dimension is not known */
  int64_t elements; /* where all are */
  uint32_t *items;  /* of a tuple; of a function: inputs, then outputs */
  uint32_t count, outputs;
  int64_t dims[KD_MAX_RANK]; /* -1: not known */
} vhlo_type;

typedef struct vhlo {
  bytecode file;
  vhlo_type *types; /* of file.types */
} vhlo;

/* Reads all types of a file. */
keel_status vhlo_types(vhlo *self);

/* ---- attributes ------------------------------------------------------------------- */

/* VHLO's codes of attributes. */
enum {
  VHLO_ARRAY = 1,
  VHLO_BOOLEAN = 2,
  VHLO_DIRECTION = 3,
  VHLO_COMPARISON = 4,
  VHLO_DICTIONARY = 6,
  VHLO_FFT_TYPE = 7,
  VHLO_FLOAT = 8,
  VHLO_INTEGER = 9,
  VHLO_RNG_ALGORITHM = 12,
  VHLO_RNG_DISTRIBUTION = 13,
  VHLO_STRING = 14,
  VHLO_DENSE = 15,
  VHLO_TRANSPOSE = 16,
  VHLO_TYPE = 17
};

enum { VHLO_EQ, VHLO_NE, VHLO_GE, VHLO_GT, VHLO_LE, VHLO_LT };
enum { VHLO_NOTYPE, VHLO_FLOATS, VHLO_TOTAL_ORDER, VHLO_SIGNED, VHLO_UNSIGNED };

/* Tensor data in the file; of booleans one byte each. */
typedef struct vhlo_dense {
  const vhlo_type *type;
  const uint8_t *data;
  uint64_t size;
  bool splat;  /* one element stands for all */
  bool packed; /* eight booleans in a byte */
} vhlo_dense;

/* An attribute of an op, or BYTECODE_NONE. */
keel_status vhlo_find(const vhlo *self, const bytecode_op *op, const char *name,
                      uint32_t *out_attribute);

/* The attribute of an op, which must have it. */
keel_status vhlo_int(const vhlo *self, const bytecode_op *op, const char *name,
                     int64_t *out_number);
keel_status vhlo_float(const vhlo *self, const bytecode_op *op,
                       const char *name, double *out_number);
/* code: VHLO_BOOLEAN, VHLO_DIRECTION and so on. */
keel_status vhlo_enum(const vhlo *self, const bytecode_op *op, const char *name,
                      uint64_t code, uint64_t *out_number);
keel_status vhlo_string(const vhlo *self, const bytecode_op *op,
                        const char *name, const char **out_text);
keel_status vhlo_dense_of(const vhlo *self, const bytecode_op *op,
                          const char *name, vhlo_dense *out_dense);
/* At most `most` integers or booleans, of a tensor of any rank. */
keel_status vhlo_ints(const vhlo *self, const bytecode_op *op, const char *name,
                      uint32_t most, uint32_t *out_count, int64_t *numbers);

/* An attribute of a function's argument or result, or BYTECODE_NONE. ports: "arg_attrs" or
 * "res_attrs" */
keel_status vhlo_port_attribute(const vhlo *self, const bytecode_op *function,
                                const char *ports, uint32_t port,
                                const char *name, uint32_t *out_attribute);

/* Whether a function's argument has an attribute: a boolean that is true, or any other. */
keel_status vhlo_argument_has(const vhlo *self, const bytecode_op *function,
                              uint32_t argument, const char *name,
                              bool *out_has);

/* Writes `count` elements, those of a splat again and again. */
void vhlo_dense_copy(const vhlo_dense *dense, void *target, int64_t count);

/* "add" of "add_v1": the name's size without its version. */
size_t vhlo_name_size(const bytecode_op *op);
bool vhlo_is(const bytecode_op *op, const char *name);
/* Whether this version of an op is one of those in properties.def. */
bool vhlo_known(const bytecode_op *op);

/* "PATH: op stablehlo.NAME at byte N" in front of the text. */
keel_status vhlo_fail(const vhlo *self, const bytecode_op *op,
                      keel_status status, const char *format, ...)
    KD_PRINTF(4, 5);

#endif /* KEEL_VHLO_H */
