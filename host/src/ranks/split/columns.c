/* columns.c - a product that gives queries, keys and values in one becomes one for each, so that
 * each rank has columns of all three: a rank's part of all columns would be queries alone.
 *
 *     x - MatMul or Gemm by constant weights - Adds of biases, Reshapes that keep the columns -
 *
 *       Split, or Slices, of the columns                              - q, k, v
 *       Reshape to [..., pieces, ...] - Transpose - Gathers           - q, k, v
 *       Reshape to [..., pieces, ...] - Transpose - Split - Squeezes  - q, k, v
 *
 * becomes, for q, and for k and v alike:
 *
 *     x - product by q's columns of the weights - Adds, Reshapes - Reshape, Transpose - q */
#include <kd/help.h>

#include "memory/access.h"
#include "passes/passes.h"
#include "ranks/split/split.h"

#define PIECES_MOST 8

/* Columns [from, to) that a node has as its output. */
typedef struct piece {
  int64_t from, to;
  uint32_t node, output;
} piece;

typedef struct columns {
  keel_splitter *s; /* its node, which new ones are named after */
  keel_uses uses;
  piece pieces[PIECES_MOST];
  uint32_t count;
  /* the node after pieces that are a dimension of their own; else KEEL_ABSENT */
  uint32_t reshape, transpose;
} columns;

static const keel_type *columns_type_of(const columns *all, uint32_t value) {
  const keel_type *type = value < all->uses.value_count
                              ? all->s->function->values[value].type
                              : NULL;
  return type && keel_type_known(type) && type->rank && type->elements ? type
                                                                       : NULL;
}

static int64_t width(const keel_type *type) {
  return type->dims[type->rank - 1];
}

static bool is_onnx(const keel_node *node, const char *name) {
  return !node->dead && !strcmp(node->op->schema->name, name) &&
         !strcmp(node->op->schema->domain, "ai.onnx");
}

static const keel_node *columns_maker(const columns *all, uint32_t value) {
  uint32_t from = value < all->uses.value_count
                      ? all->s->function->values[value].producer
                      : KEEL_ABSENT;
  return from == KEEL_ABSENT ? NULL : &all->s->function->nodes[from];
}

static const keel_tensor *constant(const columns *all, uint32_t value) {
  const keel_tensor *tensor =
      value == KEEL_ABSENT ? NULL : all->s->function->values[value].constant;
  return tensor && tensor->kind == KEEL_DATA &&
                 tensor->layout == KD_LAYOUT_ROW_MAJOR &&
                 kd_dtype_size(tensor->type->dtype)
             ? tensor
             : NULL;
}

/* A constant list of int64, whose length is *out_count; NULL: it is none. */
static const int64_t *ints(const columns *all, uint32_t value,
                           int64_t *out_count) {
  const keel_tensor *tensor = constant(all, value);
  if (!tensor || tensor->type->dtype != KD_I64) return NULL;
  *out_count = tensor->type->elements;
  return keel_tensor_host_data(tensor);
}

/* ---- which products ---------------------------------------------------------------------- */

static uint32_t bias_of_add(const columns *all, const keel_node *node) {
  return constant(all, node->inputs[0]) ? 0 : 1;
}

/* Whether a bias is one number, or has the columns as its only dimension. */
static bool is_bias(const columns *all, uint32_t value, int64_t columns) {
  const keel_tensor *bias = constant(all, value);
  return bias && (bias->type->elements == 1 ||
                  (bias->type->rank == 1 && bias->type->elements == columns));
}

static bool columns_is_product(const columns *all, const keel_node *node,
                               int64_t columns) {
  const keel_tensor *weights =
      node->input_count > 1 ? constant(all, node->inputs[1]) : NULL;
  if (!weights || weights->type->rank != 2 || node->output_count != 1)
    return false;
  if (is_onnx(node, "MatMul"))
    return weights->type->dims[1] == columns &&
           columns_type_of(all, node->inputs[0]);
  bool transposed =
      is_onnx(node, "Gemm") && keel_attr_int(node->op, "transB", 0);
  return is_onnx(node, "Gemm") &&
         weights->type->dims[transposed ? 0 : 1] == columns &&
         (node->input_count < 3 || node->inputs[2] == KEEL_ABSENT ||
          is_bias(all, node->inputs[2], columns));
}

/* The other operand of a bias's Add, or the input of a Reshape with the same columns; KEEL_ABSENT:
 * it is neither. */
static uint32_t before(const columns *all, const keel_node *node,
                       int64_t columns) {
  uint32_t from = node->input_count ? node->inputs[0] : KEEL_ABSENT;
  if (is_onnx(node, "Add")) {
    uint32_t bias = bias_of_add(all, node);
    from = node->inputs[1 - bias];
    if (!is_bias(all, node->inputs[bias], columns)) return KEEL_ABSENT;
  } else if (!is_onnx(node, "Reshape")) {
    return KEEL_ABSENT;
  }
  const keel_type *type = columns_type_of(all, from);
  bool alone = type && all->uses.counts[from] == 1;
  return alone && width(type) == columns ? from : KEEL_ABSENT;
}

/* Whether a value comes from a product, and the values between have no other reader. */
static bool comes_of_product(const columns *all, uint32_t value) {
  const keel_type *type = columns_type_of(all, value);
  while (type && value != KEEL_ABSENT) {
    const keel_node *node = columns_maker(all, value);
    if (!node || node->dead) return false;
    if (columns_is_product(all, node, width(type))) return true;
    value = before(all, node, width(type));
  }
  return false;
}

/* ---- nodes that cut ------------------------------------------------------------------------- */

static bool add_piece(columns *all, int64_t from, int64_t to, uint32_t node,
                      uint32_t output) {
  if (all->count == PIECES_MOST || from < 0 || from >= to ||
      !keel_split_divides(all->s, to - from))
    return false;
  all->pieces[all->count++] = (piece){from, to, node, output};
  return true;
}

static bool is_split(columns *all, uint32_t index) {
  const keel_node *node = &all->s->function->nodes[index];
  const keel_type *type = columns_type_of(all, node->inputs[0]);
  if (!is_onnx(node, "Split") || !type ||
      all->uses.counts[node->inputs[0]] != 1)
    return false;
  int64_t axis = keel_attr_int(node->op, "axis", 0), from = 0;
  if (axis != -1 && axis != type->rank - 1) return false;
  for (uint32_t i = 0; i < node->output_count; i++) {
    const keel_type *out = columns_type_of(all, node->outputs[i]);
    if (!out || !add_piece(all, from, from + width(out), index, i))
      return false;
    from += width(out);
  }
  return from == width(type);
}

/* One Slice of columns: the last dimension alone, in steps of 1. */
static bool is_slice(columns *all, uint32_t index, uint32_t value) {
  const keel_node *node = &all->s->function->nodes[index];
  const keel_type *type = columns_type_of(all, value);
  int64_t counts[4] = {1, 1, 1, 1};
  const int64_t *lists[4] = {NULL};
  if (!is_onnx(node, "Slice") || node->inputs[0] != value ||
      node->input_count < 4)
    return false;
  for (uint32_t i = 1; i < node->input_count; i++)
    if (node->inputs[i] != KEEL_ABSENT &&
        (!(lists[i - 1] = ints(all, node->inputs[i], &counts[i - 1])) ||
         counts[i - 1] != 1))
      return false;
  if (!lists[0] || !lists[1] || !lists[2] || (lists[3] && *lists[3] != 1))
    return false;
  int64_t all_of = width(type), from = *lists[0], to = *lists[1];
  if (*lists[2] != -1 && *lists[2] != type->rank - 1) return false;
  from += from < 0 ? all_of : 0;
  to += to < 0 ? all_of : 0;
  return add_piece(all, from, to < all_of ? to : all_of, index, 0);
}

static bool are_slices(columns *all, uint32_t index) {
  const keel_function *f = all->s->function;
  const keel_node *node = &f->nodes[index];
  if (!is_onnx(node, "Slice") || !columns_type_of(all, node->inputs[0]))
    return false;
  uint32_t value = node->inputs[0];
  for (uint32_t i = 0; i < f->node_count; i++)
    if (!f->nodes[i].dead && is_onnx(&f->nodes[i], "Slice") &&
        f->nodes[i].inputs[0] == value && !is_slice(all, i, value))
      return false;
  return all->count > 1 && all->count == all->uses.counts[value];
}

/* The axis after a Transpose at which its input's axis `from` is. */
static int64_t columns_place_of(const keel_node *transpose, int64_t from,
                                uint32_t rank) {
  const int64_t *perm = NULL;
  if (keel_attr_ints(transpose->op, "perm", &perm) != rank) return -1;
  for (uint32_t i = 0; i < rank; i++)
    if (perm[i] == from) return i;
  return -1;
}

/* A Transpose of a Reshape of [..., columns] to [..., pieces, ...], of which `value` is the result:
 * the axis at which pieces are then, and how many columns each has. */
static bool has_axis(columns *all, uint32_t value, int64_t *out_axis,
                     int64_t *out_each) {
  const keel_function *f = all->s->function;
  const keel_node *transpose = columns_maker(all, value);
  if (!transpose || !is_onnx(transpose, "Transpose")) return false;
  const keel_node *reshape = columns_maker(all, transpose->inputs[0]);
  if (!reshape || !is_onnx(reshape, "Reshape")) return false;
  const keel_type *in = columns_type_of(all, reshape->inputs[0]);
  const keel_type *out = columns_type_of(all, reshape->outputs[0]);
  if (!in || !out || out->rank <= in->rank ||
      all->uses.counts[reshape->inputs[0]] != 1 ||
      all->uses.counts[reshape->outputs[0]] != 1)
    return false;
  uint32_t at = in->rank - 1;
  for (uint32_t i = 0; i < at; i++)
    if (in->dims[i] != out->dims[i]) return false;
  *out_axis = columns_place_of(transpose, at, out->rank);
  *out_each = width(in) / out->dims[at];
  all->reshape = (uint32_t)(reshape - f->nodes);
  all->transpose = (uint32_t)(transpose - f->nodes);
  return *out_axis >= 0;
}

/* Gathers along that axis, of one piece each. */
static bool are_gathers(columns *all, uint32_t index) {
  const keel_function *f = all->s->function;
  uint32_t value = f->nodes[index].inputs[0];
  int64_t axis = 0, each = 0;
  if (!is_onnx(&f->nodes[index], "Gather") ||
      !has_axis(all, value, &axis, &each))
    return false;
  int64_t pieces =
      columns_type_of(all, value) ? columns_type_of(all, value)->dims[axis] : 0;
  for (uint32_t i = 0; i < f->node_count; i++) {
    const keel_node *node = &f->nodes[i];
    if (node->dead || !node->input_count || node->inputs[0] != value) continue;
    int64_t count = 0;
    const int64_t *which =
        is_onnx(node, "Gather") ? ints(all, node->inputs[1], &count) : NULL;
    if (!which || keel_attr_int(node->op, "axis", 0) != axis ||
        constant(all, node->inputs[1])->type->rank)
      return false;
    int64_t k = *which < 0 ? *which + pieces : *which;
    if (k < 0 || k >= pieces || /* Gather refuses it */
        !add_piece(all, k * each, (k + 1) * each, i, 0))
      return false;
  }
  return all->count > 1 && all->count == all->uses.counts[value];
}

/* A Split along that axis, and a Squeeze of each piece. */
static bool are_squeezed(columns *all, uint32_t index) {
  const keel_function *f = all->s->function;
  const keel_node *split = &f->nodes[index];
  int64_t axis = 0, each = 0;
  if (!is_onnx(split, "Split") ||
      !has_axis(all, split->inputs[0], &axis, &each) ||
      all->uses.counts[split->inputs[0]] != 1 ||
      keel_attr_int(split->op, "axis", 0) != axis)
    return false;
  for (uint32_t i = 0; i < split->output_count; i++) {
    uint32_t value = split->outputs[i];
    const keel_type *type = columns_type_of(all, value);
    uint32_t reader = type ? all->uses.reader[value] : KEEL_ABSENT;
    int64_t count = 0;
    if (reader == KEEL_ABSENT || type->dims[axis] != 1 ||
        all->uses.counts[value] != 1)
      return false;
    const keel_node *squeeze = &f->nodes[reader];
    const int64_t *axes =
        is_onnx(squeeze, "Squeeze") && squeeze->input_count > 1
            ? ints(all, squeeze->inputs[1], &count)
            : NULL;
    if (!axes || count != 1 ||
        (*axes < 0 ? *axes + type->rank : *axes) != axis ||
        !add_piece(all, i * each, (i + 1) * each, reader, 0))
      return false;
  }
  return true;
}

/* ---- one product for each ------------------------------------------------------------------- */

/* Some of a bias; one number stays. */
static keel_status some_of(columns *all, uint32_t value, const piece *p,
                           uint32_t *out_value) {
  keel_tensor *whole = all->s->function->values[value].constant, *made = NULL;
  if (whole->type->elements == 1) {
    *out_value = value;
    return KD_OK;
  }
  const keel_split_block block = {.to = {1, p->to}, .from = {0, p->from}};
  KEEL_TRY(keel_split_copy_block(whole, &block, &made));
  return keel_split_add_constant(all->s, made, out_value);
}

/* Some columns of weights: a value that has no data until it is known which of them a rank has. */
static keel_status later(columns *all, uint32_t value, uint32_t axis,
                         const piece *p, uint32_t *out_value) {
  keel_splitter *s = all->s;
  keel_function *f = s->function;
  keel_tensor *whole = f->values[value].constant;
  keel_split_later *made = keel_arena_take(f->arena, sizeof *made);
  int64_t dims[] = {whole->type->dims[0], whole->type->dims[1]};
  uint32_t own = keel_function_value(f, "");
  if (!made || own == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  *made = (keel_split_later){.next = s->later,
                             .value = own,
                             .whole = keel_tensor_retain(whole),
                             .block = {.to = {dims[0], dims[1]}}};
  made->block.from[axis] = p->from;
  made->block.to[axis] = p->to;
  s->later = made;
  dims[axis] = p->to - p->from;
  *out_value = own;
  return keel_type_of(whole->type->dtype, 2, dims, &f->values[own].type);
}

/* A node like another one, with other inputs. out_value: as of keel_split_add. */
static keel_status again(columns *all, const keel_node *node,
                         const uint32_t *inputs, uint32_t *out_value) {
  keel_attr attrs[8];
  const keel_opdef *op = node->op;
  uint32_t count = op->attr_count < 8 ? op->attr_count : 8;
  for (uint32_t i = 0; i < count; i++)
    attrs[i] = op->attrs[i].value;
  all->s->node = *node;
  return keel_split_add(all->s, op->schema->name, attrs, count, inputs,
                        node->input_count, out_value);
}

/* The shape of a type, but for its last dimension. */
static keel_status shape_of(columns *all, const keel_type *type, int64_t last,
                            uint32_t *out_value) {
  int64_t dims[KD_MAX_RANK];
  memcpy(dims, type->dims, type->rank * sizeof *dims);
  dims[type->rank - 1] = last;
  return keel_split_ints(all->s, dims, type->rank, out_value);
}

/* Columns of a value; out_value: as of keel_split_add. */
static keel_status make_columns(columns *all, uint32_t value, const piece *p,
                                uint32_t *out_value) {
  const keel_node node = *columns_maker(all, value); /* nodes may move */
  uint32_t inputs[3] = {KEEL_ABSENT, KEEL_ABSENT, KEEL_ABSENT};
  for (uint32_t i = 0; i < node.input_count && i < 3; i++)
    inputs[i] = node.inputs[i];
  if (is_onnx(&node, "Add")) {
    uint32_t bias = bias_of_add(all, &node);
    inputs[1 - bias] = KEEL_ABSENT;
    KEEL_TRY(make_columns(all, node.inputs[1 - bias], p, &inputs[1 - bias]));
    KEEL_TRY(some_of(all, node.inputs[bias], p, &inputs[bias]));
  } else if (is_onnx(&node, "Reshape")) {
    const keel_type *type = columns_type_of(all, node.outputs[0]);
    inputs[0] = KEEL_ABSENT;
    KEEL_TRY(make_columns(all, node.inputs[0], p, &inputs[0]));
    KEEL_TRY(shape_of(all, type, p->to - p->from, &inputs[1]));
  } else {
    bool transposed =
        is_onnx(&node, "Gemm") && keel_attr_int(node.op, "transB", 0);
    KEEL_TRY(later(all, inputs[1], transposed ? 0 : 1, p, &inputs[1]));
    if (inputs[2] != KEEL_ABSENT)
      KEEL_TRY(some_of(all, inputs[2], p, &inputs[2]));
  }
  return again(all, &node, inputs, out_value);
}

/* A Gather's input: the Reshape and the Transpose without the axis of pieces. */
static keel_status without_axis(columns *all, const piece *p,
                                uint32_t *out_value) {
  const keel_node reshape = all->s->function->nodes[all->reshape];
  const keel_node transpose = all->s->function->nodes[all->transpose];
  const keel_type *type = columns_type_of(all, reshape.outputs[0]);
  const int64_t *perm = NULL;
  int64_t dims[KD_MAX_RANK], order[KD_MAX_RANK];
  uint32_t rank = type->rank, count = 0, left = 0, transposed[2];
  uint32_t at = columns_type_of(all, reshape.inputs[0])->rank - 1;
  keel_attr_ints(transpose.op, "perm", &perm);
  for (uint32_t i = 0; i < rank; i++) {
    if (i != at) dims[count++] = type->dims[i];
    if (perm[i] != at) order[left++] = perm[i] - (perm[i] > at);
  }
  uint32_t inputs[2] = {KEEL_ABSENT, KEEL_ABSENT};
  KEEL_TRY(make_columns(all, reshape.inputs[0], p, &inputs[0]));
  KEEL_TRY(keel_split_ints(all->s, dims, count, &inputs[1]));
  transposed[0] = KEEL_ABSENT;
  all->s->node = reshape;
  KEEL_TRY(
      keel_split_add(all->s, "Reshape", NULL, 0, inputs, 2, &transposed[0]));
  const keel_attr attr = KEEL_INTS("perm", count, order);
  all->s->node = transpose;
  return keel_split_add(all->s, "Transpose", &attr, 1, transposed, 1,
                        out_value);
}

static keel_status part(columns *all) {
  keel_function *f = all->s->function;
  for (uint32_t i = 0; i < all->count; i++) {
    const piece *p = &all->pieces[i];
    uint32_t value = f->nodes[p->node].outputs[p->output];
    if (value == KEEL_ABSENT) continue;
    KEEL_TRY(all->reshape == KEEL_ABSENT
                 ? make_columns(all, f->nodes[p->node].inputs[0], p, &value)
                 : without_axis(all, p, &value));
  }
  for (uint32_t i = 0; i < all->count; i++)
    f->nodes[all->pieces[i].node].dead = true;
  return KD_OK;
}

/* The value that a node and similar ones cut, if it comes from a product. */
static keel_status columns_visit(columns *all, uint32_t index) {
  bool (*const forms[])(columns *, uint32_t) = {is_split, are_slices,
                                                are_gathers, are_squeezed};
  const keel_function *f = all->s->function;
  if (f->nodes[index].dead || !f->nodes[index].input_count) return KD_OK;
  for (size_t i = 0; i < KEEL_COUNT_OF(forms); i++) {
    all->count = 0;
    all->reshape = all->transpose = KEEL_ABSENT;
    if (!forms[i](all, index)) continue;
    uint32_t value = all->reshape == KEEL_ABSENT
                         ? f->nodes[index].inputs[0]
                         : f->nodes[all->reshape].inputs[0];
    return comes_of_product(all, value) ? part(all) : KD_OK;
  }
  return KD_OK;
}

keel_status keel_split_columns(keel_splitter *s) {
  columns all = {.s = s};
  uint32_t count = s->function->node_count;
  keel_status status = keel_uses_count(s->function, &all.uses);
  for (uint32_t i = 0; i < count && status == KD_OK; i++)
    status = columns_visit(&all, i);
  keel_uses_drop(&all.uses);
  return status == KD_OK ? keel_function_sort(s->function) : status;
}
