/* lower.h - StableHLO's ops, written with the ops of Keel.
 *
 * A lowering gets an op whose inputs are values of the builder that is being filled, and gives a
 * value for each of its results. Its results are compared with the types that the file declares, so
 * a lowering only checks what could lead it astray. The builder keeps the first failure, so a
 * lowering need not look at each value that it makes. */
#ifndef KEEL_HLO_LOWER_H
#define KEEL_HLO_LOWER_H

#include <keel/program.h>

#include "frontends/stablehlo/vhlo.h"
#include "opsets/terms.h"
#include "opsets/text.h"
#include "values/type.h"

#define HLO_LEVELS_MOST 48 /* bodies in bodies */

/* The lowered form of a value of the file. */
typedef struct hlo_bound {
  keel_value value;
  keel_value imaginary; /* of a complex tensor, whose value is the real part */
  uint32_t level;       /* of the builder that it belongs to */
  struct hlo_bound *items;  /* of a tuple */
  const bytecode_op *maker; /* of a tensor that an op has made */
  uint32_t
      sharding; /* how it is split among devices: see hlo_sharding; 0: it's whole */
} hlo_bound;

typedef struct hlo {
  vhlo v;
  keel_context *context;
  keel_builder *at;                      /* the builder that is being filled */
  keel_emit emit;                        /* the writer of its nodes: hlo_at */
  keel_builder *levels[HLO_LEVELS_MOST]; /* it and those around it */
  uint32_t level;
  hlo_bound *bound;          /* of each value of the file */
  const bytecode_op **calls; /* the functions that are being written out */
  uint32_t call_count, function_count;
  uint32_t conditions; /* how many conditions of loops it is in */
  uint64_t made, most; /* ops */
  bool many;           /* a body's scalars are tensors: see hlo_body */
  keel_value
      member; /* of a program of several devices; KEEL_ABSENT: not needed yet */
  /* of main's arguments and results; NULL: each device has all */
  const char **in_shardings, **out_shardings;
  uint32_t in_count, out_count;
} hlo;

typedef struct hlo_op {
  const bytecode_op *raw;
  uint32_t input_count, output_count;
  keel_value *in, *out;
  keel_value *in_imag, *out_imag; /* of those that are complex */
  const vhlo_type **in_types, **out_types;
} hlo_op;

typedef keel_status (*hlo_lowering)(hlo *h, const hlo_op *op);

/* ---- lower.c: functions, blocks, values --------------------------------------------- */

/* Writes out a function of a file, with all that it calls. function: its name; NULL: "main",
 * or the only public one. */
keel_status hlo_program(hlo *h, const char *function,
                        keel_program **out_program);

/* The values of a block's arguments, and of its return: real parts, and imaginary ones of
 * those that are complex. */
typedef struct hlo_values {
  keel_value *real, *imaginary;
  uint32_t count;
} hlo_values;

/* The ops of a block up to its return, which the caller takes. */
keel_status hlo_ops(hlo *h, const bytecode_block *block,
                    const bytecode_op **out_end);

/* The ops of a block, in the builder that is being filled. outputs: of its return, which
 * must have as many. */
keel_status hlo_block(hlo *h, const bytecode_block *block,
                      const hlo_values *outputs);

/* The same with values for its arguments. */
keel_status hlo_block_with(hlo *h, const bytecode_block *block,
                           const hlo_values *inputs, const hlo_values *outputs);

/* A body of scalars, written out for tensors: each of its scalars becomes a tensor, element
 * for element. Only for bodies whose ops act on elements; others are refused. */
keel_status hlo_body(hlo *h, const hlo_op *op, const bytecode_block *block,
                     const keel_value *inputs, uint32_t input_count,
                     uint32_t count, keel_value *outputs);

/* A value of an outer builder as one of the builder that is being filled. */
keel_value hlo_here(hlo *h, keel_value value, uint32_t level);

/* A value of the file as one of the builder that is being filled. */
keel_status hlo_value(hlo *h, const bytecode_op *op, uint32_t value,
                      keel_value *out_value, keel_value *out_imaginary);

/* Opens a body in the builder that is being filled, and fills that. */
keel_status hlo_enter(hlo *h, const char *name, keel_builder **out_body);
/* Back to the builder around it. */
void hlo_leave(hlo *h);

/* "is not supported: " and why; what to do is the caller's affair. */
keel_status hlo_refuse(const hlo *h, const hlo_op *op, const char *format, ...)
    KD_PRINTF(3, 4);
/* The file contradicts itself. */
keel_status hlo_wrong(const hlo *h, const hlo_op *op, const char *format, ...)
    KD_PRINTF(3, 4);

const vhlo_type *hlo_type_of(const hlo *h, uint32_t value);
/* The module's functions and meshes; NULL: there is none. */
const bytecode_block *hlo_module(const hlo *h);
const bytecode_op *hlo_function(const hlo *h, const char *name);
/* Writes out a function where it is called. */
keel_status hlo_call(hlo *h, const hlo_op *op, const char *name);

/* ---- sharding.c: values that are split among devices (Shardy's dialect) --------------- */

/* Which part of a value a device has, as an attribute of the file says: its number + 1; 0:
 * each device has all of it. */
keel_status hlo_sharding(const hlo *h, uint32_t attribute,
                         uint32_t *out_sharding);
/* The sizes of a device's part. */
keel_status hlo_part_dims(const hlo *h, const bytecode_op *op,
                          uint32_t sharding, uint32_t rank, int64_t *dims);
/* The value, gathered and parted where it is split in another way. */
keel_status hlo_split_as(hlo *h, const bytecode_op *op, const hlo_bound *bound,
                         uint32_t sharding, hlo_bound *out_bound);
/* XLA's text for it, as "{devices=[2,1]<=[2]}". */
keel_status hlo_sharding_text(const hlo *h, uint32_t sharding, char *text,
                              size_t size);
/* A body that each device runs on its parts. */
keel_status hlo_manual(hlo *h, const bytecode_op *raw);

/* ---- collective.c ---------------------------------------------------------------------- */

/* The program's handle of the group that runs it, here. */
keel_value hlo_member(hlo *h);
/* The rows of the devices of each part, joined along an axis. */
keel_value hlo_gather_parts(hlo *h, keel_value value, uint32_t rank,
                            int64_t axis, int64_t size, uint32_t count,
                            const int64_t *ranks);

/* ---- emit.c: making values ------------------------------------------------------------ */

/* The writer of nodes of the builder that is being filled. */
keel_emit *hlo_at(hlo *h);

/* Writes a text (opsets/text.h). op: whose inputs are $0 ..., their imaginary parts ^0 ..., and whose
 * results are the targets %0 ...; NULL: the text names none. */
keel_value hlo_text(hlo *h, const hlo_op *op, const char *text, ...);

keel_value hlo_node(hlo *h, const char *op, const keel_attr *attrs,
                    uint32_t attr_count, const keel_value *inputs,
                    uint32_t input_count);
#define HLO(h, op, ...)                                           \
  hlo_node((h), (op), NULL, 0, (const keel_value[]){__VA_ARGS__}, \
           sizeof((const keel_value[]){__VA_ARGS__}) / sizeof(keel_value))

static inline keel_value hlo_i64(hlo *h, int64_t number) {
  return keel_emit_constant(hlo_at(h), KD_I64, 0, NULL, &number);
}
/* Of one value, the value; of a permutation that changes nothing, too. */
static inline keel_value hlo_concat(hlo *h, int64_t axis,
                                    const keel_value *values, uint32_t count) {
  return count == 1 ? values[0]
                    : keel_emit_concat(hlo_at(h), axis, values, count);
}
static inline keel_value hlo_transpose(hlo *h, keel_value value,
                                       const int64_t *perm, uint32_t rank) {
  bool same = true;
  for (uint32_t i = 0; i < rank; i++)
    same = same && perm[i] == i;
  return same ? value : keel_emit_transpose(hlo_at(h), value, perm, rank);
}
/* A scalar of any type; exact for integers up to 2^53. */
keel_value hlo_number(hlo *h, kd_dtype dtype, double number);
keel_value hlo_least(hlo *h, kd_dtype dtype,
                     bool most); /* the least, or the most */

/* The same bits as another type of the same size. */
keel_value hlo_bits_as(hlo *h, keel_value value, kd_dtype dtype);
/* These give the value where it has that shape already. */
keel_value hlo_reshape(hlo *h, keel_value value, uint32_t rank,
                       const int64_t *dims);
keel_value hlo_expand(hlo *h, keel_value value, uint32_t rank,
                      const int64_t *dims);
/* Elements first, first + step ... of one axis, in front of `limit`. */
keel_value hlo_part(hlo *h, keel_value value, int64_t axis, int64_t first,
                    int64_t limit, int64_t step);
keel_value hlo_reverse(hlo *h, keel_value value, int64_t axis);
keel_value hlo_gather(hlo *h, keel_value data, keel_value indices,
                      int64_t axis);
/* 0, 1 ... count - 1 */
keel_value hlo_range(hlo *h, int64_t count);
/* A value of `rank` dims with `interior` elements between, and `low` and `high` around each
 * dimension's; negative ones are cut off. dims: is changed to the new ones. */
keel_value hlo_pad(hlo *h, keel_value value, keel_value padding, uint32_t rank,
                   int64_t *dims, const int64_t *low, const int64_t *high,
                   const int64_t *interior);

/* The type that the builder knows of a value, or NULL. */
const keel_type *hlo_known(const hlo *h, keel_value value);

static inline bool hlo_is_float(kd_dtype dtype) {
  return dtype == KD_F32 || dtype == KD_F64 || dtype == KD_F16 ||
         dtype == KD_BF16;
}
static inline bool hlo_is_unsigned(kd_dtype dtype) {
  return dtype == KD_U8 || dtype == KD_U16 || dtype == KD_U32 ||
         dtype == KD_U64;
}
static inline bool hlo_is_signed(kd_dtype dtype) {
  return dtype == KD_I8 || dtype == KD_I16 || dtype == KD_I32 ||
         dtype == KD_I64;
}
static inline bool hlo_is_complex(kd_dtype dtype) {
  return dtype == KD_C64 || dtype == KD_C128;
}
/* The type of a complex one's parts; of another itself. */
static inline kd_dtype hlo_part_type(kd_dtype dtype) {
  return dtype == KD_C64 ? KD_F32 : dtype == KD_C128 ? KD_F64 : dtype;
}

/* ---- complex.c ------------------------------------------------------------------------ */

/* Runs a lowering of complex numbers, by its flags. */
keel_status hlo_lower_complex(hlo *h, const hlo_op *op, hlo_lowering lower,
                              unsigned flags);

/* An input's tensor of complex numbers as its parts, and the other way round. */
void hlo_split(hlo *h, keel_value value, keel_value *out_real,
               keel_value *out_imaginary);
keel_value hlo_join(hlo *h, keel_value real, keel_value imaginary);

/* Elementwise ops of complex numbers: exponential and so on. */
keel_status hlo_complex_op(hlo *h, const hlo_op *op);

/* ---- attributes with their bounds ---------------------------------------------------- */

/* Exactly `count` numbers of an attribute. */
keel_status hlo_ints(const hlo *h, const hlo_op *op, const char *name,
                     uint32_t count, int64_t *numbers);
/* Up to KD_MAX_RANK different dimensions, each below `rank`. */
keel_status hlo_axes(const hlo *h, const hlo_op *op, const char *name,
                     uint32_t rank, uint32_t *out_count, int64_t *axes);
/* One dimension below `rank`. */
keel_status hlo_axis(const hlo *h, const hlo_op *op, const char *name,
                     uint32_t rank, int64_t *out_axis);
/* Inputs and outputs: their number, and that all are tensors of known sizes. */
keel_status hlo_arity(const hlo *h, const hlo_op *op, uint32_t inputs,
                      uint32_t outputs);

/* ---- total.c: the total order of floats ------------------------------------------------ */

/* The op that makes a value: in the block, or what has been written out. Or NULL. */
const bytecode_op *hlo_maker(const hlo *h, const bytecode_block *block,
                             uint32_t value);

/* Whether a value is another one (out_of; the value itself where it is none) with all NaN
 * made the positive one, and -0 made 0: as JAX does before it compares. */
bool hlo_is_canonical(const hlo *h, const bytecode_block *block, uint32_t value,
                      uint32_t *out_of);

/* That, made here. */
keel_value hlo_canonical(hlo *h, keel_value x, kd_dtype dtype);

/* An integer of a float's size; the order of these is the total order. */
keel_value hlo_total_number(hlo *h, keel_value x, kd_dtype dtype);

/* ---- the lowerings -------------------------------------------------------------------- */

/* Each element of the result depends on the same elements of the inputs alone. */
#define HLO_ELEMENTS 1u
/* How it takes complex numbers; none of these: it does not. Real and imaginary parts each for
 * itself; as a product, which is linear in both inputs; by itself. */
#define HLO_PARTS    2u
#define HLO_BILINEAR 4u
#define HLO_COMPLEX  8u

#define LOWER(name, function, flags, limits) \
  keel_status hlo_##function(hlo *h, const hlo_op *op);
#include "frontends/stablehlo/lower.def"
#undef LOWER

#endif /* KEEL_HLO_LOWER_H */
