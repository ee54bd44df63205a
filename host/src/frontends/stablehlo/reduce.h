/* reduce.h - what reductions of tensors, windows and scatters share. */
#ifndef KEEL_HLO_REDUCE_H
#define KEEL_HLO_REDUCE_H

#include "frontends/stablehlo/lower.h"
#include "program/builder.h"

typedef enum hlo_kind {
  HLO_OTHER,
  HLO_ADD,
  HLO_MULTIPLY,
  HLO_MAXIMUM,
  HLO_MINIMUM,
  HLO_AND,
  HLO_OR
} hlo_kind;

/* Which op a body with two scalars is. */
hlo_kind hlo_body_kind(const hlo *h, const bytecode_block *body);

keel_value hlo_combine(hlo *h, hlo_kind kind, kd_dtype dtype, keel_value a,
                       keel_value b);

/* Tensors that the op's body combines element by element. */
typedef struct hlo_lanes {
  const hlo_op *op;
  hlo_kind kind; /* of the body, if there is one pair of them */
  uint32_t count;
  keel_value *args; /* room for 2 * count */
} hlo_lanes;

/* results = body(a, b), of the shape that those have */
keel_status hlo_combine_lanes(hlo *h, const hlo_lanes *l, const keel_value *a,
                              const keel_value *b, keel_value *results);

/* The value combined with the scalar that a reduction starts with, if that matters. */
keel_value hlo_with_start(hlo *h, hlo_kind kind, kd_dtype dtype,
                          keel_value value, keel_value start);

/* Inputs, as many scalars and results, of types that match; one body. */
keel_status hlo_check_lanes(const hlo *h, const hlo_op *op);

#endif /* KEEL_HLO_REDUCE_H */
