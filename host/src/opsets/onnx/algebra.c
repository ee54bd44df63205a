/* algebra.c - ops that do nothing, shapes that are changed twice, and expensive ops that a
 * cheaper one does. Only what gives the same numbers, to the last bit and for every input:
 * x + 0 stays, as it makes 0 of -0. */
#include "base/float.h"
#include "device/device.h"
#include "opsets/onnx/passes.h"
#include "opsets/terms.h"

/* The node that makes an input, if it is such an op of one output; or NULL. */
static const keel_node *algebra_maker(const keel_function *function,
                                      const keel_node *node, uint32_t input,
                                      const char *op) {
  const keel_node *made = keel_pass_maker(function, node->inputs[input]);
  return made && keel_pass_is(made, op) ? made : NULL;
}

#define SMALL \
  4096 /* elements of constants that are looked at, once for each reader */

/* ---- numbers ------------------------------------------------------------------- */

static bool decode(const keel_tensor *tensor, int64_t i, double *out) {
  uint64_t bits = 0;
  const keel_type *type = tensor->type;
  const char *at =
      (const char *)tensor->data + (size_t)i * kd_dtype_size(type->dtype);
  int32_t narrow = 0;
  int64_t wide = 0;
  if (keel_float_decode(type->dtype, at, out, &bits)) return true;
  if (type->dtype == KD_I32) memcpy(&narrow, at, sizeof narrow);
  if (type->dtype == KD_I64) memcpy(&wide, at, sizeof wide);
  *out = type->dtype == KD_I32 ? (double)narrow : (double)wide;
  return type->dtype == KD_I32 || type->dtype == KD_I64;
}

/* Whether an input is a constant whose elements are all this number (0: not -0), and
 * does not make the result larger than `other`, the other one. */
static bool is_all(const keel_function *function, const keel_node *node,
                   uint32_t input, uint32_t other, double number) {
  if (node->inputs[input] == KEEL_ABSENT || node->inputs[other] == KEEL_ABSENT)
    return false;
  const keel_tensor *tensor = function->values[node->inputs[input]].constant;
  if (!tensor || !keel_tensor_host_data(tensor) || !tensor->type->elements ||
      tensor->type->elements > SMALL)
    return false;
  const keel_type *x = keel_pass_type(function, node->inputs[other]);
  if (tensor->type->rank &&
      (!x || x != keel_pass_type(function, node->outputs[0])))
    return false;
  for (int64_t i = 0; i < tensor->type->elements; i++) {
    double element = 0;
    if (!decode(tensor, i, &element) || element != number ||
        (element == 0 && __builtin_signbit(element)))
      return false;
  }
  return true;
}

static bool is_real(const keel_type *type) {
  return type && (KD_TYPES_FLOAT & KD_TYPES(type->dtype));
}

/* ---- other ops in a node's place ------------------------------------------------ */

static keel_status become(keel_function *function, keel_node *node,
                          const char *op, const keel_attr *attr, uint32_t a,
                          uint32_t b) {
  keel_opdef *made = NULL;
  uint32_t *inputs = keel_arena_take(function->arena, 2 * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  KEEL_TRY(keel_opdef_create(function->context, keel_schema_find("", op), attr,
                             attr != NULL, NULL, &made));
  keel_opdef_release(node->op);
  inputs[0] = a;
  inputs[1] = b;
  node->op = made;
  node->inputs = inputs;
  node->input_count = b == KEEL_ABSENT ? 1 : 2;
  return KD_OK;
}

static keel_status algebra_pass_on(keel_function *function, keel_node *node,
                                   uint32_t value) {
  return become(function, node, "Identity", NULL, value, KEEL_ABSENT);
}

/* ---- rules ------------------------------------------------------------------------ */

/* x * 1, x / 1, x - 0, x ^ 1; x + 0 of integers; x ^ 2 is x * x. */
static keel_status visit_pair(keel_function *function, keel_node *node) {
  uint32_t x = node->inputs[0], y = node->inputs[1];
  const keel_type *type = x == KEEL_ABSENT ? NULL : function->values[x].type;
  bool whole = type && !is_real(type);
  if ((keel_pass_is(node, "Mul") || keel_pass_is(node, "Div") ||
       keel_pass_is(node, "Pow")) &&
      is_all(function, node, 1, 0, 1))
    return algebra_pass_on(function, node, x);
  if (keel_pass_is(node, "Mul") && is_all(function, node, 0, 1, 1))
    return algebra_pass_on(function, node, y);
  if ((keel_pass_is(node, "Sub") || (keel_pass_is(node, "Add") && whole)) &&
      is_all(function, node, 1, 0, 0))
    return algebra_pass_on(function, node, x);
  if (keel_pass_is(node, "Add") && whole && is_all(function, node, 0, 1, 0))
    return algebra_pass_on(function, node, y);
  if (keel_pass_is(node, "Pow") && is_real(type) &&
      is_all(function, node, 1, 0, 2))
    return become(function, node, "Mul", NULL, x, x);
  return KD_OK;
}

/* perm of a Transpose, for a rank; false: it is none. */
static bool read_perm(const keel_node *node, uint32_t rank, int64_t *out) {
  const int64_t *perm = NULL;
  int64_t count = keel_attr_ints(node->op, "perm", &perm);
  if (count >= 0 && count != (int64_t)rank) return false;
  for (uint32_t i = 0; i < rank; i++) {
    out[i] = count < 0 ? (int64_t)(rank - 1 - i) : perm[i];
    if (out[i] < 0 || out[i] >= (int64_t)rank) return false;
  }
  return true;
}

static keel_status visit_transpose(keel_function *function, keel_node *node) {
  const keel_type *type = keel_pass_type(function, node->inputs[0]);
  int64_t perm[KD_MAX_RANK], first[KD_MAX_RANK];
  if (!type || !read_perm(node, type->rank, perm)) return KD_OK;
  uint32_t x = node->inputs[0], rank = type->rank;
  const keel_node *before = algebra_maker(function, node, 0, "Transpose");
  bool joins = before && read_perm(before, rank, first), still = true;
  for (uint32_t i = 0; i < rank && joins; i++)
    perm[i] = first[perm[i]];
  if (joins) x = before->inputs[0];
  for (uint32_t i = 0; i < rank; i++)
    still &= perm[i] == (int64_t)i;
  if (still) return algebra_pass_on(function, node, x);
  if (!joins) return KD_OK;
  const keel_attr attr = {
      .name = "perm", .kind = KD_ATTR_INTS, .count = rank, .ints = perm};
  return become(function, node, "Transpose", &attr, x, KEEL_ABSENT);
}

/* ---- images and lines of pixels ----------------------------------------------------- */

/* Whether one type is the other with its pixels in a line: N, C, pixels. Of empty ones a
 * Reshape would take the 0 for a dimension that is to stay. */
static bool is_line_of(const keel_type *line, const keel_type *image) {
  int64_t pixels = 1;
  if (!line || !image || !line->elements || line->rank != 3 ||
      image->rank < 4 || line->dims[0] != image->dims[0] ||
      line->dims[1] != image->dims[1])
    return false;
  for (uint32_t i = 2; i < image->rank; i++)
    pixels *= image->dims[i];
  return line->dims[2] == pixels;
}

/* Whether a Transpose swaps channels and pixels of a line. */
static bool swaps(const keel_function *function, const keel_node *node) {
  const keel_type *type = keel_pass_type(function, node->inputs[0]);
  int64_t perm[KD_MAX_RANK];
  return type && type->rank == 3 && read_perm(node, 3, perm) && !perm[0] &&
         perm[1] == 2 && perm[2] == 1;
}

/* A line's Transpose, then a Reshape to an image, N, C, ...: the Reshape comes first, and the
 * Transpose moves an image's channels, as convolutions and layouts know it. */
static keel_status reshape_first(keel_function *function, uint32_t index,
                                 uint32_t x) {
  const keel_type *to =
      keel_pass_type(function, function->nodes[index].outputs[0]);
  int64_t dims[KD_MAX_RANK], perm[KD_MAX_RANK];
  uint32_t rank = to->rank;
  keel_emit e = keel_emit_for(function, &function->nodes[index]);
  for (uint32_t i = 0; i < rank; i++) {
    dims[i] = to->dims[!i ? 0 : i + 1 < rank ? i + 1 : 1];
    perm[i] = !i ? 0 : i == 1 ? rank - 1 : i - 1;
  }
  const keel_attr attr = {
      .name = "perm", .kind = KD_ATTR_INTS, .count = rank, .ints = perm};
  uint32_t image = keel_emit_reshape(&e, x, dims, rank);
  KEEL_TRY(e.status);
  return become(function, &function->nodes[index], "Transpose", &attr, image,
                KEEL_ABSENT);
}

/* An image's Reshape to a line, then a Transpose of that: the other way round. */
static keel_status transpose_first(keel_function *function, uint32_t index,
                                   uint32_t x) {
  const keel_type *to =
      keel_pass_type(function, function->nodes[index].outputs[0]);
  int64_t perm[KD_MAX_RANK];
  uint32_t rank = keel_pass_type(function, x)->rank;
  keel_emit e = keel_emit_for(function, &function->nodes[index]);
  for (uint32_t i = 0; i < rank; i++)
    perm[i] = !i ? 0 : i + 1 < rank ? i + 1 : 1;
  uint32_t image = keel_emit_transpose(&e, x, perm, rank);
  uint32_t list = keel_emit_ints(&e, to->dims, to->rank);
  KEEL_TRY(e.status);
  return become(function, &function->nodes[index], "Reshape", NULL, image,
                list);
}

/* *out_done: the node is another one now. */
static keel_status visit_line(keel_function *function, uint32_t index,
                              bool *out_done) {
  const keel_node *node = &function->nodes[index];
  bool reshape = keel_pass_is(node, "Reshape");
  const keel_node *before =
      algebra_maker(function, node, 0, reshape ? "Transpose" : "Reshape");
  *out_done = false;
  if (!before || before->device != node->device) return KD_OK;
  uint32_t x = before->inputs[0];
  const keel_type *line = keel_pass_type(function, node->inputs[0]);
  const keel_type *image =
      keel_pass_type(function, reshape ? node->outputs[0] : x);
  if (!is_line_of(line, image) || !keel_pass_type(function, node->outputs[0]) ||
      !swaps(function, reshape ? before : node))
    return KD_OK;
  *out_done = true;
  return reshape ? reshape_first(function, index, x)
                 : transpose_first(function, index, x);
}

/* ---- shapes --------------------------------------------------------------------------- */

/* The shape that a Reshape wants, if it does not look at the one that it gets. */
static bool is_absolute(const keel_function *function, const keel_node *node) {
  uint32_t value = node->input_count > 1 ? node->inputs[1] : KEEL_ABSENT;
  const keel_tensor *shape = keel_pass_constant(function, value);
  if (!shape || shape->type->dtype != KD_I64) return false;
  for (int64_t i = 0; i < shape->type->elements; i++)
    if (((const int64_t *)shape->data)[i] == 0) return false;
  return true;
}

/* Nodes whose input already has the new shape, or gets another one in between. */
static keel_status visit_shape(keel_function *function, keel_node *node) {
  const keel_type *to = keel_pass_type(function, node->outputs[0]);
  const keel_node *before = keel_pass_is(node, "Reshape")
                                ? algebra_maker(function, node, 0, "Reshape")
                                : NULL;
  if (before && !is_absolute(function, node)) before = NULL;
  uint32_t x = before ? before->inputs[0] : node->inputs[0];
  if (to && to->elements && to == keel_pass_type(function, x))
    return algebra_pass_on(function, node, x);
  return before ? become(function, node, "Reshape", NULL, x, node->inputs[1])
                : KD_OK;
}

/* A Resize by scales of 1, or to the size that it has. */
static keel_status visit_resize(keel_function *function, keel_node *node) {
  const keel_type *x = keel_pass_type(function, node->inputs[0]);
  uint32_t scales = node->input_count > 2 ? node->inputs[2] : KEEL_ABSENT;
  if (!x || x != keel_pass_type(function, node->outputs[0]) ||
      !strcmp(keel_attr_string(node->op, "coordinate_transformation_mode", ""),
              "tf_crop_and_resize") ||
      strcmp(keel_attr_string(node->op, "keep_aspect_ratio_policy", "stretch"),
             "stretch") != 0)
    return KD_OK;
  if (scales != KEEL_ABSENT) {
    const keel_tensor *given = keel_pass_constant(function, scales);
    double one = 1;
    if (!given || given->type->elements > KD_MAX_RANK) return KD_OK;
    for (int64_t i = 0; i < given->type->elements; i++)
      if (!decode(given, i, &one) || one != 1) return KD_OK;
  }
  return algebra_pass_on(function, node, node->inputs[0]);
}

static keel_status algebra_visit(keel_function *function, uint32_t index) {
  keel_node *node = &function->nodes[index];
  static const char *const pairs[] = {"Mul", "Div", "Sub", "Add", "Pow"};
  static const char *const shapes[] = {"Reshape", "Expand", "Tile", "Cast",
                                       "CastLike"};
  static const char *const lists[] = {"Concat", "Sum", "Max", "Min", "Mean"};
  uint32_t n = node->input_count;
  if (!n || node->output_count != 1 || node->outputs[0] == KEEL_ABSENT ||
      node->inputs[0] == KEEL_ABSENT)
    return KD_OK;
  if (keel_pass_is(node, "Reshape") || keel_pass_is(node, "Transpose")) {
    bool done = false;
    KEEL_TRY(visit_line(function, index, &done));
    if (done) return KD_OK;
  }
  for (size_t i = 0; i < KEEL_COUNT_OF(pairs) && n == 2; i++)
    if (keel_pass_is(node, pairs[i])) return visit_pair(function, node);
  for (size_t i = 0; i < KEEL_COUNT_OF(shapes); i++)
    if (keel_pass_is(node, shapes[i])) return visit_shape(function, node);
  for (size_t i = 0; i < KEEL_COUNT_OF(lists) && n == 1; i++)
    if (keel_pass_is(node, lists[i]))
      return algebra_pass_on(function, node, node->inputs[0]);
  if (keel_pass_is(node, "Resize")) return visit_resize(function, node);
  return keel_pass_is(node, "Transpose") ? visit_transpose(function, node)
                                         : KD_OK;
}

/* Reads what Identity passes on from where that has it. */
static void look_through(const keel_function *function, keel_node *node) {
  for (uint32_t i = 0; i < node->input_count; i++)
    while (node->inputs[i] != KEEL_ABSENT) {
      const keel_node *made = algebra_maker(function, node, i, "Identity");
      if (!made || made->inputs[0] == KEEL_ABSENT) break;
      node->inputs[i] = made->inputs[0];
    }
}

keel_status keel_pass_algebra(keel_function *function) {
  uint32_t count = function->node_count;
  for (uint32_t i = 0; i < function->node_count; i++) { /* and those it adds */
    if (function->nodes[i].dead) continue;
    look_through(function, &function->nodes[i]);
    KEEL_TRY(algebra_visit(function, i));
  }
  return function->node_count == count ? KD_OK : keel_function_sort(function);
}
