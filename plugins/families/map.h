/* map.h - passes of kernels/map.k. */
#ifndef KEEL_FAMILIES_MAP_H
#define KEEL_FAMILIES_MAP_H

#define STRIDED_OPERANDS 9
#include "families/family.h"
#include "families/strided.h"

#define FAM_TERM 512 /* letters of an expression */

/* What one pass maps: the operands' steps stand in `space`, and, where the result does
 * not lie packed, its own behind those of the `inputs`. */
typedef struct fam_map {
  strided space;
  int inputs;
  int64_t from[STRIDED_OPERANDS]; /* elements; first of each operand */
} fam_map;

/* Over the dims of output 0. */
void fam_map_begin(fam_map *map, const fam_op *op);
void fam_map_broadcast(fam_map *map, const fam_tensor *operand);

/* Adds the pass, without buffers: X0 ... and Z are the caller's to bind. V is the
 * type of the arithmetic. */
fam_pass *fam_map_pass(fam_plan *plan, fam_map *map, kd_dtype compute,
                       const char *expression);

/* What an elementwise op computes: an expression of x, y, z, w, x4 to x7, and of a and b,
 * all of the type that the op is computed in. */
typedef struct fam_term {
  kd_dtype compute;
  uint32_t operands;
  uint8_t inputs[8]; /* of the op, by operand */
  double a, b;       /* where they are used */
  bool has_a, has_b;
  char text[FAM_TERM];
} fam_term;

/* The term of an op, if it is one of those that have one; fails the plan where the
 * device can't compute it. */
bool fam_term_of(const fam_op *op, fam_plan *plan, fam_term *out_term);

/* T, U, BITS, LIT: what the expressions are written with. */
void fam_define_language(fam_pass *pass, kd_dtype compute);

/* The expression that casts x, of type `from`, to the element type Z_t, `to`, as Cast does. */
const char *fam_cast_of(kd_dtype from, kd_dtype to);

#endif /* KEEL_FAMILIES_MAP_H */
