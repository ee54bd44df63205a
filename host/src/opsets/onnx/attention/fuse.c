/* fuse.c - makes keel::Attention of the ops that models write it with.
 *
 *     scores = MatMul(Q * a, Transpose(K) * b) * c + mask
 *     Y = MatMul(Softmax(scores), V)
 *
 * a, b and c are constants of one element, or not there; c may divide. There may be one number
 * a head besides, which need not be a constant.
 * The mask may not be there, or two may be, and one of them may be added between two Reshapes
 * that part the first dimensions and join them again, as models with shifted windows do; or a
 * Where gives a large negative number in place of the scores that it hides. K may come transposed
 * as it is. Torch writes Where(IsNaN(P), 0, P) behind the softmax P: that becomes nan_as_zero. A
 * NaN among the scores is hidden by Where, too, but not by the mask that is added instead. Heads
 * of K and V that were repeated for those of Q (Unsqueeze, Expand, Reshape) are read where they
 * are one, a mask that is known to be causal becomes an attribute, and a Transpose of Y's heads and
 * rows goes, too. Needs known shapes, and a device that has the op. */
#include <kd/help.h>
#include <math.h>

#include "base/float.h"
#include "device/device.h"
#include "opsets/onnx/passes.h"
#include "opsets/terms.h"

/* The largest value that masks add for a hidden key. */
#define HIDDEN     (-1e30)
#define HIDDEN_F16 (-65504.)

/* A number that Where puts in place of a score is as good as hidden up to here. */
#define REPLACED_MOST (-1e4)

/* Elements of scores whose two masks become one, which is kept. */
#define JOINED_MOST (INT64_C(1) << 22)

/* A value, as it is or in another shape. */
typedef struct part {
  uint32_t value, rank; /* rank 0: as it is */
  int64_t dims[KD_MAX_RANK];
} part;

/* The pattern found, from the softmax to both sides; values unless stated otherwise. */
typedef struct attention {
  keel_function *function;
  const keel_uses *uses;
  uint32_t q, k, v; /* k: as MatMul has it, transposed, until it is turned */
  part masks[2];    /* what is added to the scores, the outer one first */
  uint32_t mask_count;
  uint32_t where;   /* condition of a Where that hides scores, or KEEL_ABSENT */
  bool where_true;  /* and whether it hides where that is true, */
  double hidden;    /* by this number */
  uint32_t mask;    /* all of that */
  uint32_t by_head; /* what scores are multiplied by */
  uint32_t last;    /* node: the product with V */
  double scale;
  bool causal, nan_as_zero;
} attention;

static const keel_type *fuse_type_of(const attention *all, uint32_t value) {
  return keel_pass_type(all->function, value);
}

/* The node that makes a value, if it is such an op; or NULL. */
static const keel_node *fuse_maker(const attention *all, uint32_t value,
                                   const char *op) {
  const keel_node *node = keel_pass_maker(all->function, value);
  return node && keel_pass_is(node, op) ? node : NULL;
}

static bool is_read_once(const attention *all, uint32_t value) {
  return all->uses->counts[value] == 1;
}

static double fuse_element(const keel_tensor *tensor, int64_t index) {
  const char *data = keel_tensor_host_data(tensor);
  kd_dtype dtype = tensor->type->dtype;
  double number = NAN;
  uint64_t bits = 0;
  keel_float_decode(dtype, data + (size_t)index * keel_dtype_size(dtype),
                    &number, &bits);
  return number;
}

/* A constant of one floating number: true. */
static bool fuse_read_number(const attention *all, uint32_t value,
                             double *out) {
  const keel_tensor *tensor = keel_pass_constant(all->function, value);
  if (!tensor || tensor->type->elements != 1 ||
      !(KD_TYPES_FLOAT & KD_TYPES(tensor->type->dtype)))
    return false;
  *out = fuse_element(tensor, 0);
  return !isnan(*out);
}

/* ---- from the softmax back --------------------------------------------------------- */

/* The other factor of a product or quotient with a number, which is taken into the scale; else the
 * value itself. Shapes stay: a number of a higher rank would change them. */
static uint32_t unscaled(attention *all, uint32_t value) {
  const keel_node *mul = fuse_maker(all, value, "Mul");
  const keel_node *by = mul ? mul : fuse_maker(all, value, "Div");
  double number = 0;
  if (!by || !is_read_once(all, value)) return value;
  for (uint32_t i = 0; i < (mul ? 2u : 1u); i++) {
    uint32_t other = by->inputs[i];
    if (other == KEEL_ABSENT ||
        fuse_type_of(all, other) != fuse_type_of(all, value) ||
        !fuse_read_number(all, by->inputs[1 - i], &number))
      continue;
    all->scale *= mul ? number : 1 / number;
    return other;
  }
  return value;
}

/* The other factor of a product with one number a head, which is to be taken into Q; else the value
 * itself. */
static uint32_t unscaled_by_head(attention *all, uint32_t value) {
  const keel_node *mul = fuse_maker(all, value, "Mul");
  if (!mul || !is_read_once(all, value)) return value;
  for (uint32_t i = 0; i < 2; i++) {
    const keel_type *by = fuse_type_of(all, mul->inputs[1 - i]);
    if (!by || by->dtype == KD_F16 || /* Q might become infinite */
        fuse_type_of(all, mul->inputs[i]) != fuse_type_of(all, value) ||
        by->rank < 2 || by->dims[by->rank - 1] != 1 ||
        by->dims[by->rank - 2] != 1)
      continue;
    all->by_head = mul->inputs[1 - i];
    return mul->inputs[i];
  }
  return value;
}

/* The product of Q and K that scores are made of; NULL: none. */
static const keel_node *find_product(attention *all, uint32_t scores) {
  uint32_t value = is_read_once(all, scores) ? unscaled(all, scores) : scores;
  all->by_head = KEEL_ABSENT;
  value = unscaled_by_head(all, value);
  const keel_node *product = fuse_maker(all, value, "MatMul");
  if (!product || !is_read_once(all, value)) return NULL;
  all->q = unscaled(all, product->inputs[0]);
  all->k = unscaled(all, product->inputs[1]);
  return product;
}

/* A mask for scores of the type `apart`, for those of the type `joined`, which has two of the
 * dimensions as one; false: it has no such shape. */
static bool join_mask(const keel_type *apart, const keel_type *joined,
                      const keel_type *mask, part *out) {
  uint32_t rank = joined->rank, d = 0;
  int64_t of[KD_MAX_RANK];
  if (apart->rank != rank + 1 || mask->rank > apart->rank) return false;
  for (uint32_t i = 0; i < apart->rank; i++)
    of[i] = i < apart->rank - mask->rank
                ? 1
                : mask->dims[i - (apart->rank - mask->rank)];
  while (d + 1 < rank && apart->dims[d] == joined->dims[d])
    d++;
  int64_t first = apart->dims[d], second = apart->dims[d + 1];
  if (first * second != joined->dims[d] || d + 2 >= rank) return false;
  if ((of[d] != first || of[d + 1] != second) && first != 1 && second != 1 &&
      (of[d] != 1 || of[d + 1] != 1))
    return false;
  out->rank = rank;
  for (uint32_t i = 0; i < rank; i++) {
    if (i > d && apart->dims[i + 1] != joined->dims[i]) return false;
    out->dims[i] = i < d ? of[i] : i > d ? of[i + 1] : of[d] * of[d + 1];
  }
  return true;
}

/* Takes a mask that is added between two Reshapes; the scores before it. */
static uint32_t unmasked_apart(attention *all, uint32_t scores) {
  const keel_node *join = fuse_maker(all, scores, "Reshape");
  const keel_node *add = join ? fuse_maker(all, join->inputs[0], "Add") : NULL;
  const keel_type *joined = fuse_type_of(all, scores);
  if (!add || !joined || !is_read_once(all, join->inputs[0])) return scores;
  const keel_type *apart = fuse_type_of(all, join->inputs[0]);
  for (uint32_t i = 0; i < 2; i++) {
    const keel_node *split = fuse_maker(all, add->inputs[i], "Reshape");
    const keel_type *mask = fuse_type_of(all, add->inputs[1 - i]);
    if (!split || !apart || !mask || !is_read_once(all, add->inputs[i]) ||
        fuse_type_of(all, add->inputs[i]) != apart ||
        fuse_type_of(all, split->inputs[0]) != joined ||
        !join_mask(apart, joined, mask, &all->masks[all->mask_count]))
      continue;
    all->masks[all->mask_count++].value = add->inputs[1 - i];
    return split->inputs[0];
  }
  return scores;
}

/* Takes a Where that hides scores; the scores before it. */
static uint32_t unhidden(attention *all, uint32_t scores) {
  const keel_node *node = fuse_maker(all, scores, "Where");
  double number = 0;
  if (!node || !is_read_once(all, scores)) return scores;
  for (uint32_t i = 1; i < 3; i++) {
    if (fuse_type_of(all, node->inputs[i]) != fuse_type_of(all, scores) ||
        !fuse_read_number(all, node->inputs[3 - i], &number) ||
        number > REPLACED_MOST)
      continue;
    all->where = node->inputs[0];
    all->where_true = i == 2;
    all->hidden = number;
    return node->inputs[i];
  }
  return scores;
}

/* Scores, with masks that are added or without. */
static bool find_scores(attention *all, uint32_t scores) {
  if (!is_read_once(all, scores)) return false;
  uint32_t inner = unhidden(all, unmasked_apart(all, scores));
  uint32_t outer = all->where;
  const keel_node *add = fuse_maker(all, inner, "Add");
  if (!is_read_once(all, inner)) return false;
  if (!add) return find_product(all, inner) != NULL;
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t from = add->inputs[i];
    if (from == KEEL_ABSENT ||
        fuse_type_of(all, from) != fuse_type_of(all, inner))
      continue;
    all->scale = 1;
    all->where = outer;
    if (outer == KEEL_ABSENT) from = unhidden(all, from);
    if (!find_product(all, from)) continue;
    all->masks[all->mask_count++] = (part){.value = add->inputs[1 - i]};
    return add->inputs[1 - i] != KEEL_ABSENT;
  }
  return false;
}

/* ---- from the softmax on ------------------------------------------------------------- */

/* The only node that reads a value; KEEL_ABSENT: none, or several. */
static uint32_t reader(const attention *all, uint32_t value) {
  return is_read_once(all, value) ? all->uses->reader[value] : KEEL_ABSENT;
}

/* Where(IsNaN(P), 0, P): what it makes; else P. */
static uint32_t guarded(attention *all, uint32_t powers) {
  uint32_t at = all->uses->reader[powers];
  const keel_node *where = at == KEEL_ABSENT ? NULL : &all->function->nodes[at];
  double zero = 1;
  if (all->uses->counts[powers] != 2 || !where ||
      !keel_pass_is(where, "Where") || where->inputs[2] != powers ||
      !fuse_read_number(all, where->inputs[1], &zero) || zero != 0)
    return powers;
  const keel_node *test = fuse_maker(all, where->inputs[0], "IsNaN");
  if (!test || test->inputs[0] != powers ||
      !is_read_once(all, where->inputs[0]) ||
      fuse_type_of(all, where->outputs[0]) != fuse_type_of(all, powers))
    return powers;
  all->nan_as_zero = true;
  return where->outputs[0];
}

static bool find_last(attention *all, const keel_node *softmax) {
  uint32_t weights = guarded(all, softmax->outputs[0]);
  all->last = reader(all, weights);
  if (all->last == KEEL_ABSENT) return false;
  const keel_node *product = &all->function->nodes[all->last];
  all->v = product->inputs[1];
  return keel_pass_is(product, "MatMul") && product->inputs[0] == weights &&
         all->v != KEEL_ABSENT && all->v != weights &&
         product->device == softmax->device;
}

static bool is_along_rows(const attention *all, const keel_node *softmax) {
  const keel_type *type = fuse_type_of(all, softmax->inputs[0]);
  int64_t axis = keel_attr_int(softmax->op, "axis", -1);
  return type && type->rank >= 3 &&
         (axis == -1 || axis == (int64_t)type->rank - 1);
}

/* ---- K as rows ------------------------------------------------------------------------- */

static keel_status fuse_add_node(attention *all, const char *op,
                                 const keel_attr *attr, const uint32_t *inputs,
                                 uint32_t input_count, uint32_t *out_value) {
  keel_emit e = keel_emit_for(all->function, &all->function->nodes[all->last]);
  *out_value = keel_emit_op(&e, op, attr, attr != NULL, inputs, input_count);
  return e.status;
}

/* Whether a Transpose can be written so that K has its rows last but one; *perm is what
 * remains of it. */
static const keel_node *fuse_turned(const attention *all, int64_t *perm) {
  const keel_node *node = fuse_maker(all, all->k, "Transpose");
  const keel_type *type = fuse_type_of(all, all->k);
  const int64_t *given = NULL;
  if (!node || !type) return NULL;
  int64_t count = keel_attr_ints(node->op, "perm", &given);
  for (uint32_t i = 0; i < type->rank; i++)
    perm[i] = count >= 0 ? given[i] : (int64_t)(type->rank - 1 - i);
  int64_t row = perm[type->rank - 2];
  perm[type->rank - 2] = perm[type->rank - 1];
  perm[type->rank - 1] = row;
  return node;
}

/* K with its rows last but one: what the Transpose made it of, or that turned otherwise. */
static keel_status turn_k(attention *all) {
  int64_t perm[KD_MAX_RANK];
  const keel_node *node = fuse_turned(all, perm);
  uint32_t rank = fuse_type_of(all, all->k)->rank;
  uint32_t source = node ? node->inputs[0] : all->k;
  bool still = node != NULL;
  for (uint32_t i = 0; i < rank; i++) {
    if (!node) perm[i] = i + 2 < rank ? i : 2 * rank - 3 - i;
    still &= perm[i] == (int64_t)i;
  }
  all->k = source;
  if (still) return KD_OK;
  const keel_attr attr = {
      .name = "perm", .kind = KD_ATTR_INTS, .count = rank, .ints = perm};
  return fuse_add_node(all, "Transpose", &attr, &source, 1, &all->k);
}

/* Whether K is worth turning: a single row reads it once, as it lies. */
static bool can_turn(const attention *all, int64_t rows) {
  const keel_type *type = fuse_type_of(all, all->k);
  int64_t perm[KD_MAX_RANK];
  return type && type->rank >= 3 && (rows > 1 || fuse_turned(all, perm));
}

static keel_status scale_q(attention *all) {
  const uint32_t both[] = {all->q, all->by_head};
  return all->by_head == KEEL_ABSENT
             ? KD_OK
             : fuse_add_node(all, "Mul", NULL, both, 2, &all->q);
}

/* ---- heads that were repeated ---------------------------------------------------------- */

/* The source of heads [B,G,N,D] that were repeated to [B,G,R,N,D], and then [B,G*R,N,D];
 * KEEL_ABSENT: they were not repeated. */
static uint32_t unrepeated(const attention *all, uint32_t value) {
  const keel_node *reshape = fuse_maker(all, value, "Reshape");
  const keel_node *expand =
      reshape ? fuse_maker(all, reshape->inputs[0], "Expand") : NULL;
  const keel_node *put =
      expand ? fuse_maker(all, expand->inputs[0], "Unsqueeze") : NULL;
  const keel_type *whole = fuse_type_of(all, value);
  const keel_type *wide = put ? fuse_type_of(all, expand->outputs[0]) : NULL;
  const keel_type *one = wide ? fuse_type_of(all, expand->inputs[0]) : NULL;
  const keel_type *few = one ? fuse_type_of(all, put->inputs[0]) : NULL;
  if (!few || whole->rank != 4 || wide->rank != 5 || one->rank != 5 ||
      few->rank != 4)
    return KEEL_ABSENT;
  const int64_t *f = few->dims;
  const int64_t narrow[] = {f[0], f[1], 1, f[2], f[3]};
  const int64_t repeated[] = {f[0], f[1], wide->dims[2], f[2], f[3]};
  const int64_t joined[] = {f[0], f[1] * wide->dims[2], f[2], f[3]};
  return !memcmp(one->dims, narrow, sizeof narrow) &&
                 !memcmp(wide->dims, repeated, sizeof repeated) &&
                 !memcmp(whole->dims, joined, sizeof joined)
             ? put->inputs[0]
             : KEEL_ABSENT;
}

static void share_heads(attention *all) {
  uint32_t k = unrepeated(all, all->k), v = unrepeated(all, all->v);
  if (k == KEEL_ABSENT || v == KEEL_ABSENT ||
      fuse_type_of(all, k)->dims[1] != fuse_type_of(all, v)->dims[1])
    return;
  all->k = k;
  all->v = v;
}

/* ---- the mask ----------------------------------------------------------------------------- */

static keel_status reshape(attention *all, const part *from,
                           uint32_t *out_value) {
  keel_emit e = keel_emit_for(all->function, &all->function->nodes[all->last]);
  *out_value = from->value;
  if (!from->rank) return KD_OK;
  *out_value = keel_emit_reshape(&e, from->value, from->dims, from->rank);
  return e.status;
}

static keel_status add_number(attention *all, double number,
                              uint32_t *out_value) {
  char element[8];
  kd_dtype dtype = fuse_type_of(all, all->q)->dtype;
  keel_tensor *tensor = NULL;
  keel_float_encode(dtype, number, element);
  KEEL_TRY(keel_tensor_create(all->function->context, dtype, 0, NULL, element,
                              &tensor));
  *out_value = keel_function_constant(all->function, "", tensor);
  keel_tensor_release(tensor);
  return *out_value == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
}

/* The mask of a Where as one that is added. A finite number becomes one so large that scores are
 * lost beside it: rows that see no key then have equal weights, as after the Where. */
static keel_status add_hidden(attention *all, uint32_t *out_value) {
  uint32_t inputs[] = {all->where, KEEL_ABSENT, KEEL_ABSENT};
  uint32_t low = all->where_true ? 1 : 2;
  KEEL_TRY(
      add_number(all, isinf(all->hidden) ? all->hidden : HIDDEN, &inputs[low]));
  KEEL_TRY(add_number(all, 0, &inputs[3 - low]));
  return fuse_add_node(all, "Where", NULL, inputs, 3, out_value);
}

/* Whether masks can be added instead of what a finite number is put in place of. */
static bool can_add(const attention *all) {
  return all->where == KEEL_ABSENT || isinf(all->hidden) ||
         (!all->mask_count && fuse_type_of(all, all->q)->dtype != KD_F16);
}

/* Makes one mask of all. */
static keel_status join_masks(attention *all) {
  for (uint32_t i = 0; i < all->mask_count + 1; i++) {
    uint32_t both[] = {all->mask, KEEL_ABSENT};
    if (i < all->mask_count)
      KEEL_TRY(reshape(all, &all->masks[i], &both[1]));
    else if (all->where != KEEL_ABSENT)
      KEEL_TRY(add_hidden(all, &both[1]));
    if (all->mask == KEEL_ABSENT)
      all->mask = both[1];
    else if (both[1] != KEEL_ABSENT)
      KEEL_TRY(fuse_add_node(all, "Add", NULL, both, 2, &all->mask));
  }
  return KD_OK;
}

/* Whether element `at` of a mask, or of a Where's condition, hides a key (1), or not (0), or
 * does something else (-1). */
static int hides(const attention *all, const keel_tensor *mask, int64_t at) {
  kd_dtype dtype = mask->type->dtype;
  if (dtype == KD_BOOL) {
    const char *truth = keel_tensor_host_data(mask);
    return (truth[at] != 0) == all->where_true;
  }
  double added = fuse_element(mask, at);
  return added == 0                                         ? 0
         : added <= (dtype == KD_F16 ? HIDDEN_F16 : HIDDEN) ? 1
                                                            : -1;
}

/* Whether what hides keys hides from each row the keys after it, and nothing else. */
static bool is_causal(const attention *all, int64_t rows, int64_t keys) {
  bool by_where = all->where != KEEL_ABSENT;
  if (all->mask_count + by_where != 1) return false;
  const keel_tensor *tensor = keel_pass_constant(
      all->function, by_where ? all->where : all->masks[0].value);
  if (!tensor ||
      !((KD_TYPES_FLOAT | KD_TYPES(KD_BOOL)) & KD_TYPES(tensor->type->dtype)) ||
      tensor->type->rank < 2 || tensor->type->elements != rows * keys ||
      keys < rows || tensor->type->dims[tensor->type->rank - 1] != keys ||
      tensor->type->dims[tensor->type->rank - 2] != rows)
    return false;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < keys; j++)
      if (hides(all, tensor, i * keys + j) != (j > i + keys - rows))
        return false;
  return true;
}

/* ---- the op ---------------------------------------------------------------------------- */

/* Whether Q, K and V are what the op wants: one rank, leading dimensions alike. */
static bool do_fit(const attention *all) {
  const keel_type *q = fuse_type_of(all, all->q),
                  *k = fuse_type_of(all, all->k),
                  *v = fuse_type_of(all, all->v);
  if (!q || !k || !v || q->rank < 3 || k->rank != q->rank || v->rank != q->rank)
    return false;
  for (uint32_t i = 0; i + 2 < q->rank; i++)
    if (k->dims[i] != q->dims[i] || v->dims[i] != q->dims[i]) return false;
  return true;
}

static keel_status fuse_make_op(const attention *all, bool heads_last,
                                keel_opdef **out_op) {
  const keel_attr attrs[] = {KEEL_FLOAT("scale", (float)all->scale),
                             KEEL_INT("causal", all->causal),
                             KEEL_INT("heads_last", heads_last),
                             KEEL_INT("nan_as_zero", all->nan_as_zero)};
  return keel_opdef_create(all->function->context,
                           keel_schema_find("keel", "Attention"), attrs,
                           KEEL_COUNT_OF(attrs), NULL, out_op);
}

/* The Transpose that alone reads Y and exchanges heads and rows; KEEL_ABSENT: none. */
static uint32_t find_exchange(const attention *all) {
  uint32_t y = all->function->nodes[all->last].outputs[0], at = reader(all, y);
  const keel_type *type = fuse_type_of(all, y);
  const int64_t *perm = NULL;
  if (at == KEEL_ABSENT || !type) return KEEL_ABSENT;
  const keel_node *node = &all->function->nodes[at];
  if (!keel_pass_is(node, "Transpose") ||
      node->device != all->function->nodes[all->last].device ||
      keel_attr_ints(node->op, "perm", &perm) != (int64_t)type->rank)
    return KEEL_ABSENT;
  for (uint32_t i = 0; i < type->rank; i++) {
    uint32_t from = i == type->rank - 3   ? type->rank - 2
                    : i == type->rank - 2 ? type->rank - 3
                                          : i;
    if (perm[i] != (int64_t)from) return KEEL_ABSENT;
  }
  return at;
}

/* The product with V, or the Transpose behind it, becomes the op; its inputs then have no
 * reader. */
static keel_status fuse_replace(attention *all, keel_device *where) {
  keel_function *function = all->function;
  uint32_t exchange = find_exchange(all);
  uint32_t at = exchange == KEEL_ABSENT ? all->last : exchange;
  uint32_t *inputs = keel_arena_take(function->arena, 4 * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  inputs[0] = all->q;
  inputs[1] = all->k;
  inputs[2] = all->v;
  inputs[3] = all->mask;
  keel_node made = function->nodes[at];
  made.name = function->nodes[all->last].name;
  made.inputs = inputs;
  made.input_count = all->mask == KEEL_ABSENT ? 3 : 4;
  KEEL_TRY(fuse_make_op(all, exchange != KEEL_ABSENT, &made.op));
  if (!keel_pass_takes(all->function, where, &made)) {
    keel_opdef_release(made.op);
    return KD_OK;
  }
  keel_opdef_release(function->nodes[at].op);
  function->nodes[at] = made;
  if (exchange != KEEL_ABSENT) function->nodes[all->last].dead = true;
  return KD_OK;
}

static keel_status fuse_visit(keel_function *function, const keel_uses *uses,
                              keel_device *device, uint32_t index) {
  const keel_node *softmax = &function->nodes[index];
  keel_device *where = softmax->device ? softmax->device : device;
  attention all = {.function = function,
                   .uses = uses,
                   .mask = KEEL_ABSENT,
                   .where = KEEL_ABSENT,
                   .by_head = KEEL_ABSENT,
                   .scale = 1};
  if (!where || !keel_pass_is(softmax, "Softmax") ||
      softmax->output_count != 1 ||
      !keel_device_kernels(where, "keel", "Attention") ||
      !is_along_rows(&all, softmax) || !find_last(&all, softmax) ||
      !find_scores(&all, softmax->inputs[0]))
    return KD_OK;
  const keel_type *scores = fuse_type_of(&all, softmax->inputs[0]);
  const int64_t rows = scores->dims[scores->rank - 2];
  all.causal = is_causal(&all, rows, scores->dims[scores->rank - 1]);
  bool joined = all.mask_count + (all.where != KEEL_ABSENT) >= 2;
  if ((joined && scores->elements > JOINED_MOST) || !can_turn(&all, rows) ||
      (!all.causal && !can_add(&all)))
    return KD_OK;
  KEEL_TRY(turn_k(&all));
  if (!do_fit(&all)) return KD_OK;
  share_heads(&all);
  KEEL_TRY(scale_q(&all));
  if (!all.causal) KEEL_TRY(join_masks(&all));
  return fuse_replace(&all, where);
}

keel_status keel_pass_attention(keel_function *function, keel_device *device) {
  keel_uses uses = {0};
  uint32_t count = function->node_count;
  keel_status status = keel_uses_count(function, &uses);
  for (uint32_t i = 0; status == KD_OK && i < count; i++)
    status = fuse_visit(function, &uses, device, i);
  keel_uses_drop(&uses);
  if (status != KD_OK) return status;
  KEEL_TRY(keel_function_sort(function));
  return keel_pass_prune(function);
}
