/* linalg.c - Cholesky's factors and triangular systems, of halves: what is left of a matrix
 * are numbers and products of matrices. */
#include "frontends/stablehlo/lower.h"

#define SIZE_MOST 512

/* Matrices in the last two of `rank` dimensions. */
typedef struct solver {
  uint32_t rank;
  bool lower, unit;
} solver;

static keel_value block(hlo *h, const solver *s, keel_value a, int64_t row,
                        int64_t rows, int64_t column, int64_t columns) {
  a = hlo_part(h, a, (int64_t)s->rank - 2, row, row + rows, 1);
  return hlo_part(h, a, (int64_t)s->rank - 1, column, column + columns, 1);
}

static keel_value transposed(hlo *h, const solver *s, keel_value a) {
  int64_t order[KD_MAX_RANK];
  for (uint32_t i = 0; i < s->rank; i++)
    order[i] = i;
  order[s->rank - 2] = s->rank - 1;
  order[s->rank - 1] = s->rank - 2;
  return hlo_transpose(h, a, order, s->rank);
}

/* X with A X = B, where A has `size` rows: first the half that depends on itself alone, and
 * the other on what is left of its B. `columns`: of B. */
static keel_value solve(hlo *h, const solver *s, keel_value a, keel_value b,
                        int64_t size, int64_t columns) {
  int64_t top = size / 2, low = size - top;
  keel_value x[2];
  if (size == 1) return s->unit ? b : HLO(h, "Div", b, a);
  keel_value a11 = block(h, s, a, 0, top, 0, top);
  keel_value a22 = block(h, s, a, top, low, top, low);
  keel_value b1 = block(h, s, b, 0, top, 0, columns);
  keel_value b2 = block(h, s, b, top, low, 0, columns);
  if (s->lower) {
    keel_value a21 = block(h, s, a, top, low, 0, top);
    x[0] = solve(h, s, a11, b1, top, columns);
    b2 = HLO(h, "Sub", b2, HLO(h, "MatMul", a21, x[0]));
    x[1] = solve(h, s, a22, b2, low, columns);
  } else {
    keel_value a12 = block(h, s, a, 0, top, top, low);
    x[1] = solve(h, s, a22, b2, low, columns);
    b1 = HLO(h, "Sub", b1, HLO(h, "MatMul", a12, x[1]));
    x[0] = solve(h, s, a11, b1, top, columns);
  }
  return hlo_concat(h, (int64_t)s->rank - 2, x, 2);
}

static keel_status check_matrix(const hlo *h, const hlo_op *op,
                                const vhlo_type *a) {
  if (!hlo_is_float(a->dtype) || a->dynamic)
    return hlo_refuse(h, op, "%s, or a size that is not known", a->what);
  if (a->rank < 2 || a->dims[a->rank - 1] != a->dims[a->rank - 2])
    return hlo_wrong(h, op, "its matrix is not square");
  if (a->dims[a->rank - 1] > SIZE_MOST)
    return hlo_refuse(h, op, "matrices of more than %d rows", SIZE_MOST);
  return KD_OK;
}

keel_status hlo_triangular_solve(hlo *h, const hlo_op *op) {
  uint64_t left = 0, lower = 0, unit = 0, transpose = 0;
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  const vhlo_type *a = op->in_types[0], *b = op->in_types[1];
  KEEL_TRY(check_matrix(h, op, a));
  KEEL_TRY(vhlo_enum(&h->v, op->raw, "left_side", VHLO_BOOLEAN, &left));
  KEEL_TRY(vhlo_enum(&h->v, op->raw, "lower", VHLO_BOOLEAN, &lower));
  KEEL_TRY(vhlo_enum(&h->v, op->raw, "unit_diagonal", VHLO_BOOLEAN, &unit));
  KEEL_TRY(
      vhlo_enum(&h->v, op->raw, "transpose_a", VHLO_TRANSPOSE, &transpose));
  if (transpose < 1 || transpose > 3 || b->rank != a->rank || b->dynamic)
    return hlo_wrong(h, op, "transpose_a is %llu, and the ranks %u and %u",
                     (unsigned long long)transpose, (unsigned)a->rank,
                     (unsigned)b->rank);
  int64_t size = a->dims[a->rank - 1];
  int64_t rows = b->dims[b->rank - 2], columns = b->dims[b->rank - 1];
  if ((left ? rows : columns) != size)
    return hlo_wrong(h, op, "the matrix has %lld rows, and the other %lld",
                     (long long)size, (long long)(left ? rows : columns));
  /* X A = B is A' X' = B' */
  bool turn = (transpose != 1) == (left != 0);
  solver s = {.rank = a->rank, .lower = (lower != 0) != turn, .unit = unit};
  keel_value x = op->in[0], y = op->in[1];
  if (!b->elements) {
    op->out[0] = y;
    return KD_OK;
  }
  if (turn) x = transposed(h, &s, x);
  if (!left) y = transposed(h, &s, y);
  y = solve(h, &s, x, y, size, left ? columns : rows);
  op->out[0] = left ? y : transposed(h, &s, y);
  return KD_OK;
}

/* The lower factor of a matrix whose lower half is read. */
static keel_value factor(hlo *h, const solver *s, keel_value a, int64_t size,
                         keel_value zero) {
  int64_t top = size / 2, low = size - top, dims[KD_MAX_RANK];
  if (size == 1) return HLO(h, "Sqrt", a);
  keel_value l11 = factor(h, s, block(h, s, a, 0, top, 0, top), top, zero);
  keel_value a21 = transposed(h, s, block(h, s, a, top, low, 0, top));
  keel_value l21 = transposed(h, s, solve(h, s, l11, a21, top, low));
  keel_value a22 = HLO(h, "Sub", block(h, s, a, top, low, top, low),
                       HLO(h, "MatMul", l21, transposed(h, s, l21)));
  keel_value l22 = factor(h, s, a22, low, zero);
  const keel_type *type = hlo_known(h, l11);
  if (!type || type->rank != s->rank) return KEEL_ABSENT;
  memcpy(dims, type->dims, s->rank * sizeof *dims);
  dims[s->rank - 1] = low;
  const keel_value first[] = {l11, hlo_expand(h, zero, s->rank, dims)};
  const keel_value second[] = {l21, l22};
  const keel_value both[] = {hlo_concat(h, (int64_t)s->rank - 1, first, 2),
                             hlo_concat(h, (int64_t)s->rank - 1, second, 2)};
  return hlo_concat(h, (int64_t)s->rank - 2, both, 2);
}

keel_status hlo_cholesky(hlo *h, const hlo_op *op) {
  uint64_t lower = 0;
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  const vhlo_type *a = op->in_types[0];
  KEEL_TRY(check_matrix(h, op, a));
  KEEL_TRY(vhlo_enum(&h->v, op->raw, "lower", VHLO_BOOLEAN, &lower));
  solver s = {.rank = a->rank, .lower = true};
  op->out[0] = op->in[0];
  if (!a->elements) return KD_OK;
  if (!lower) op->out[0] = transposed(h, &s, op->out[0]);
  op->out[0] = factor(h, &s, op->out[0], a->dims[a->rank - 1],
                      hlo_number(h, a->dtype, 0));
  if (!lower) op->out[0] = transposed(h, &s, op->out[0]);
  return KD_OK;
}
