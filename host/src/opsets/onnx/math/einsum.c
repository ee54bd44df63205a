/* einsum.c - writes Einsum as Transpose, Reshape, MatMul and Mul, which more devices have, run
 * faster, and which other passes know: attention is one of those.
 *
 * Operands are joined two at a time, from the left. A label that both of a pair have and nobody
 * needs any more is summed by the product; one that only one operand has, by ReduceSum before.
 * What stays with the device's own Einsum: diagonals ("ii"), dimensions that are broadcast,
 * empty operands, integers, f16 and bf16 that would be rounded in between, and what would make
 * far more elements than there are. */
#include "device/device.h"
#include "opsets/onnx/math/equation.h"
#include "opsets/onnx/passes.h"
#include "opsets/terms.h"

/* The limits of intermediates: in any case, and as a multiple of the largest operand or the
 * result. */
#define MADE_FREELY (INT64_C(1) << 20)
#define MADE_MOST   4

/* A value, and what its dimensions are. */
typedef struct operand {
  uint32_t value;
  keel_labels labels;
} operand;

typedef struct einsum {
  keel_function *function;
  keel_device *where;
  keel_node node; /* a copy: the function's nodes may move */
  keel_equation equation;
  int64_t largest; /* elements of an operand, or of the result */
  bool fits;       /* the device takes all that was made so far */
} einsum;

static bool einsum_has(const keel_labels *labels, uint8_t label) {
  for (uint32_t d = 0; d < labels->rank; d++)
    if (labels->at[d] == label) return true;
  return false;
}

static void einsum_append(keel_labels *to, uint8_t label) {
  to->at[to->rank++] = label;
}

static void append_all(keel_labels *to, const keel_labels *from) {
  for (uint32_t d = 0; d < from->rank; d++)
    einsum_append(to, from->at[d]);
}

/* Appends the labels of `from` that `other` has, or that it has not. */
static void append_those(keel_labels *to, const keel_labels *from,
                         const keel_labels *other, bool there) {
  for (uint32_t d = 0; d < from->rank; d++)
    if (einsum_has(other, from->at[d]) == there) einsum_append(to, from->at[d]);
}

static bool are_alike(const keel_labels *a, const keel_labels *b) {
  return a->rank == b->rank && !memcmp(a->at, b->at, a->rank);
}

/* ---- one op ---------------------------------------------------------------------------- */

/* Adds an op whose first input and output are the operand's value. */
static keel_status einsum_put(einsum *all, const char *op,
                              const keel_attr *attr, uint32_t other,
                              operand *x) {
  keel_function *function = all->function;
  const uint32_t inputs[] = {x->value, other};
  keel_emit e = keel_emit_for(function, &all->node);
  x->value = keel_emit_op(&e, op, attr, attr != NULL, inputs, 2);
  KEEL_TRY(e.status);
  all->fits &= !strcmp(op, "Reshape") ||
               keel_pass_takes(function, all->where,
                               &function->nodes[function->node_count - 1]);
  return KD_OK;
}

/* Brings the operand's dimensions into an order. */
static keel_status einsum_turn(einsum *all, operand *x,
                               const keel_labels *order) {
  int64_t perm[KD_MAX_RANK];
  if (are_alike(&x->labels, order)) return KD_OK;
  for (uint32_t i = 0; i < order->rank; i++)
    for (uint32_t d = 0; d < x->labels.rank; d++)
      if (x->labels.at[d] == order->at[i]) perm[i] = d;
  const keel_attr attr = {
      .name = "perm", .kind = KD_ATTR_INTS, .count = order->rank, .ints = perm};
  x->labels = *order;
  return einsum_put(all, "Transpose", &attr, KEEL_ABSENT, x);
}

static keel_status reshape(einsum *all, operand *x, const int64_t *dims,
                           uint32_t rank) {
  const keel_type *type = all->function->values[x->value].type;
  keel_emit e = keel_emit_for(all->function, &all->node);
  if (type && type->rank == rank &&
      !memcmp(type->dims, dims, rank * sizeof *dims))
    return KD_OK;
  uint32_t shape = keel_emit_ints(&e, dims, rank);
  KEEL_TRY(e.status);
  return einsum_put(all, "Reshape", NULL, shape, x);
}

/* Sums over the operand's labels that no other operand has. */
static keel_status sum_away(einsum *all, operand *x, const keel_labels *others,
                            uint32_t other_count, const keel_labels *out) {
  const keel_attr attr = KEEL_INT("keepdims", 0);
  keel_labels left = {0};
  int64_t axes[KD_MAX_RANK], count = 0;
  keel_emit e = keel_emit_for(all->function, &all->node);
  for (uint32_t d = 0; d < x->labels.rank; d++) {
    bool needed = einsum_has(out, x->labels.at[d]);
    for (uint32_t i = 0; i < other_count; i++)
      needed |= einsum_has(&others[i], x->labels.at[d]);
    if (needed)
      einsum_append(&left, x->labels.at[d]);
    else
      axes[count++] = d;
  }
  if (!count) return KD_OK;
  x->labels = left;
  uint32_t list = keel_emit_ints(&e, axes, count);
  KEEL_TRY(e.status);
  return einsum_put(all, "ReduceSum", &attr, list, x);
}

/* ---- a pair ---------------------------------------------------------------------------- */

/* More than any tensor has: INT64_MAX. */
static int64_t elements_of(const keel_equation *e, const keel_labels *labels) {
  int64_t elements = 1;
  for (uint32_t d = 0; d < labels->rank; d++)
    if (__builtin_mul_overflow(elements, e->size[labels->at[d]], &elements))
      return INT64_MAX;
  return elements;
}

static bool is_too_large(const einsum *all, const keel_labels *made) {
  int64_t elements = elements_of(&all->equation, made);
  return elements > MADE_FREELY && elements / MADE_MOST > all->largest;
}

/* Brings an operand into batch, rows, columns, where the last two are one dimension each. */
static keel_status as_matrices(einsum *all, operand *x,
                               const keel_labels *batch,
                               const keel_labels *rows,
                               const keel_labels *columns) {
  keel_labels order = *batch;
  int64_t dims[KD_MAX_RANK];
  append_all(&order, rows);
  append_all(&order, columns);
  KEEL_TRY(einsum_turn(all, x, &order));
  for (uint32_t d = 0; d < batch->rank; d++)
    dims[d] = all->equation.size[batch->at[d]];
  dims[batch->rank] = elements_of(&all->equation, rows);
  dims[batch->rank + 1] = elements_of(&all->equation, columns);
  return reshape(all, x, dims, batch->rank + 2);
}

/* Products without a sum: elements, where the other's dimensions are 1. */
static keel_status einsum_multiply(einsum *all, operand *a, operand *b,
                                   const keel_labels *to) {
  operand *both[] = {a, b};
  int64_t dims[KD_MAX_RANK];
  for (int i = 0; i < 2; i++) {
    keel_labels order = {0};
    append_those(&order, to, &both[i]->labels, true);
    for (uint32_t d = 0; d < to->rank; d++)
      dims[d] = einsum_has(&both[i]->labels, to->at[d])
                    ? all->equation.size[to->at[d]]
                    : 1;
    KEEL_TRY(einsum_turn(all, both[i], &order));
    KEEL_TRY(reshape(all, both[i], dims, to->rank));
  }
  a->labels = *to;
  return einsum_put(all, "Mul", NULL, b->value, a);
}

/* How the labels of a product split; `made`: as it has them. */
typedef struct split {
  keel_labels batch, rows, columns, summed, made;
} split;

static split split_of(const operand *a, const operand *b,
                      const keel_labels *to) {
  split s = {0};
  append_those(&s.summed, &a->labels, to, false);
  for (uint32_t d = 0; d < to->rank; d++) {
    bool left = einsum_has(&a->labels, to->at[d]),
         right = einsum_has(&b->labels, to->at[d]);
    einsum_append(left && right ? &s.batch
                  : left        ? &s.rows
                                : &s.columns,
                  to->at[d]);
  }
  s.made = s.batch;
  append_all(&s.made, &s.rows);
  append_all(&s.made, &s.columns);
  return s;
}

/* Joins b to a: what `to` has, in its order, is left. */
static keel_status einsum_join(einsum *all, operand *a, operand *b,
                               const keel_labels *to) {
  int64_t dims[KD_MAX_RANK];
  split s = split_of(a, b, to);
  if (is_too_large(all, to)) {
    all->fits = false;
    return KD_OK;
  }
  if (!s.summed.rank) return einsum_multiply(all, a, b, to);
  if (s.rows.rank && s.columns.rank &&
      einsum_has(&s.rows,
                 to->at[to->rank - 1])) { /* so that no Transpose is needed */
    operand swapped = *a;
    *a = *b;
    *b = swapped;
    s = split_of(a, b, to);
  }
  all->fits &= s.batch.rank + 2 <= KD_MAX_RANK;
  if (!all->fits) return KD_OK;
  KEEL_TRY(as_matrices(all, a, &s.batch, &s.rows, &s.summed));
  KEEL_TRY(as_matrices(all, b, &s.batch, &s.summed, &s.columns));
  KEEL_TRY(einsum_put(all, "MatMul", NULL, b->value, a));
  a->labels = s.made;
  for (uint32_t d = 0; d < s.made.rank; d++)
    dims[d] = all->equation.size[s.made.at[d]];
  KEEL_TRY(reshape(all, a, dims, s.made.rank));
  return einsum_turn(all, a, to);
}

/* The labels that are still needed once the first `done` operands are joined; false: more
 * dimensions than a tensor has. */
static bool needed_after(const keel_equation *e, const operand *a,
                         const operand *b, uint32_t done, keel_labels *out) {
  const operand *both[] = {a, b};
  *out = (keel_labels){0};
  if (done == e->count) {
    *out = e->out;
    return true;
  }
  for (int i = 0; i < 2; i++)
    for (uint32_t d = 0; d < both[i]->labels.rank; d++) {
      uint8_t label = both[i]->labels.at[d];
      bool later = einsum_has(&e->out, label);
      for (uint32_t k = done; k < e->count; k++)
        later |= einsum_has(&e->in[k], label);
      if (!later || einsum_has(out, label)) continue;
      if (out->rank == KD_MAX_RANK) return false;
      einsum_append(out, label);
    }
  return true;
}

static keel_status write_out(einsum *all, uint32_t *out_value) {
  const keel_equation *e = &all->equation;
  operand sum = {all->node.inputs[0], e->in[0]};
  KEEL_TRY(sum_away(all, &sum, e->in + 1, e->count - 1, &e->out));
  for (uint32_t i = 1; i < e->count && all->fits; i++) {
    operand next = {all->node.inputs[i], e->in[i]};
    keel_labels others[KEEL_TERMS] = {sum.labels};
    for (uint32_t k = i + 1; k < e->count; k++)
      others[k - i] = e->in[k];
    KEEL_TRY(sum_away(all, &next, others, e->count - i, &e->out));
    keel_labels to;
    all->fits &= needed_after(e, &sum, &next, i + 1, &to);
    if (all->fits) KEEL_TRY(einsum_join(all, &sum, &next, &to));
  }
  if (all->fits) KEEL_TRY(einsum_turn(all, &sum, &e->out));
  *out_value = sum.value;
  return KD_OK;
}

/* ---- which ------------------------------------------------------------------------------- */

static bool is_twice(const keel_labels *labels) {
  for (uint32_t d = 1; d < labels->rank; d++)
    for (uint32_t i = 0; i < d; i++)
      if (labels->at[i] == labels->at[d]) return true;
  return false;
}

/* Whether sums of products may be taken in parts: f16 would round in between. */
static bool has_few_parts(const keel_equation *e, kd_dtype dtype) {
  if (dtype == KD_F32 || dtype == KD_F64) return true;
  bool some = e->count <= 2 && (dtype == KD_F16 || dtype == KD_BF16);
  for (uint32_t label = 0; label < KEEL_LABELS; label++)
    some &= e->seen[label] != 1 || einsum_has(&e->out, (uint8_t)label);
  return some;
}

static bool einsum_is_plain(const keel_equation *e,
                            const keel_type *const *types) {
  bool plain = !is_twice(&e->out) && has_few_parts(e, types[0]->dtype);
  for (uint32_t i = 0; i < e->count; i++) {
    plain &= !is_twice(&e->in[i]) && types[i]->elements > 0;
    for (uint32_t d = 0; d < e->in[i].rank; d++)
      plain &= types[i]->dims[d] == e->size[e->in[i].at[d]];
  }
  return plain;
}

static bool einsum_read(einsum *all) {
  const keel_type *types[KEEL_TERMS];
  if (!all->node.input_count || all->node.input_count > KEEL_TERMS)
    return false;
  for (uint32_t i = 0; i < all->node.input_count; i++) {
    uint32_t value = all->node.inputs[i];
    types[i] = value == KEEL_ABSENT ? NULL : all->function->values[value].type;
    if (!types[i] || !keel_type_known(types[i])) return false;
  }
  if (!keel_equation_read(keel_attr_string(all->node.op, "equation", ""), types,
                          all->node.input_count, &all->equation) ||
      !einsum_is_plain(&all->equation, types))
    return false;
  all->largest = elements_of(&all->equation, &all->equation.out);
  for (uint32_t i = 0; i < all->node.input_count; i++)
    if (types[i]->elements > all->largest) all->largest = types[i]->elements;
  return true;
}

static keel_status einsum_visit(keel_function *function, keel_device *where,
                                uint32_t index) {
  einsum all = {.function = function,
                .where = where,
                .node = function->nodes[index],
                .fits = true};
  uint32_t first = function->node_count, value = KEEL_ABSENT;
  keel_opdef *op = NULL;
  if (!where || !einsum_read(&all)) return KD_OK;
  KEEL_TRY(write_out(&all, &value));
  if (!all.fits) { /* it stays as it was */
    for (uint32_t i = first; i < function->node_count; i++)
      function->nodes[i].dead = true;
    return KD_OK;
  }
  KEEL_TRY(keel_opdef_create(
      function->context, keel_schema_find("", "Identity"), NULL, 0, NULL, &op));
  keel_node *node = &function->nodes[index];
  keel_opdef_release(node->op);
  node->op = op;
  node->input_count = 1;
  node->inputs = keel_arena_copy_bytes(function->arena, &value, sizeof value);
  return node->inputs ? KD_OK : KD_OUT_OF_MEMORY;
}

keel_status keel_pass_einsum(keel_function *function, keel_device *device) {
  uint32_t count = function->node_count;
  for (uint32_t i = 0; i < count; i++) {
    const keel_node *node = &function->nodes[i];
    if (keel_pass_is(node, "Einsum"))
      KEEL_TRY(einsum_visit(function, node->device ? node->device : device, i));
  }
  return function->node_count == count ? KD_OK : keel_function_sort(function);
}
