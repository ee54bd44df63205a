/* functions.c - RotaryEmbedding, TensorScatter, CenterCropPad and AffineGrid, written with ops
 * that move data. Dimensions are asked for with Shape, which is folded where they are known. */
#include "opsets/tables.h"
#include "opsets/terms.h"
#include "passes/passes.h"

/* ---- shapes ---- */

keel_status keel_shape_rotary(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  const keel_type *places = keel_infer_in(infer, 3);
  int64_t count = keel_attr_int(infer->op, "num_heads", 0);
  int64_t turning = keel_attr_int(infer->op, "rotary_embedding_dim", 0);
  if (x->rank != 4 && (x->rank != 3 || count <= 0 || x->dims[2] % count))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "X must have 4 dimensions, or 3 and num_heads, which divides the last");
  int64_t size = x->rank == 4 ? x->dims[3] : x->dims[2] / count;
  int64_t turned = turning ? turning : size;
  if (turned < 0 || turned > size || turned % 2)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "rotary_embedding_dim must be even, and at most %lld", (long long)size);
  for (uint32_t i = 1; i <= 2; i++) {
    const keel_type *cache = infer->in[i];
    uint32_t rank = places ? 2 : 3;
    if (cache->rank != rank || cache->dims[rank - 1] != turned / 2)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT,
          "cos_cache and sin_cache must have %u dimensions, the last of %lld",
          (unsigned)rank, (long long)turned / 2);
  }
  const keel_dims dims = keel_dims_of(x);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_tensor_scatter(keel_infer *infer) {
  const keel_type *cache = infer->in[0], *update = infer->in[1];
  const keel_type *begin = keel_infer_in(infer, 2);
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", -2),
                           cache->rank, &axis));
  bool fits = axis && update->rank == cache->rank;
  for (uint32_t i = 0; fits && i < cache->rank; i++)
    fits = i == axis ? update->dims[i] <= cache->dims[i]
                     : update->dims[i] == cache->dims[i];
  if (!fits ||
      (begin && (begin->rank != 1 || begin->dims[0] != cache->dims[0])))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "update must be as past_cache, but no longer along the axis, which is "
        "not the first, and write_indices one number a sample");
  bool turns = !strcmp(keel_attr_string(infer->op, "mode", ""), "circular");
  KEEL_TRY(keel_infer_within(
      infer, 2, cache->dims[0], 0,
      turns ? INT64_MAX : cache->dims[axis] - update->dims[axis]));
  const keel_dims dims = keel_dims_of(cache);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_center_crop_pad(keel_infer *infer) {
  int64_t shape[KD_MAX_RANK];
  const int64_t *axes = NULL;
  uint32_t seen = 0;
  keel_dims dims = keel_dims_of(infer->in[0]);
  int64_t given = keel_attr_ints(infer->op, "axes", &axes);
  int64_t wanted = given > 0 ? given : (int64_t)dims.rank;
  int64_t count = keel_infer_ints(infer, 1, shape, KD_MAX_RANK);
  if (count < 0) return KD_INVALID_ARGUMENT;
  if (count != wanted)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "shape has %lld numbers instead of %lld",
                           (long long)count, (long long)wanted);
  for (int64_t i = 0; i < count; i++) {
    uint32_t axis = (uint32_t)i;
    if (given > 0)
      KEEL_TRY(keel_infer_new_axis(infer, axes[i], dims.rank, &seen, &axis));
    dims.dims[axis] = shape[i];
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_affine_grid(keel_infer *infer) {
  int64_t size[5];
  const keel_type *theta = infer->in[0];
  int64_t count = keel_infer_ints(infer, 1, size, 5);
  if (count < 0) return KD_INVALID_ARGUMENT;
  int64_t rank = count - 2;
  if (count < 4 || theta->rank != 3 || theta->dims[1] != rank ||
      theta->dims[2] != rank + 1 || theta->dims[0] != size[0])
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "size must be N, C, H, W with theta [N,2,3], or N, C, D, H, W with "
        "theta [N,3,4]");
  keel_dims dims = {.rank = (uint32_t)count, .dims = {size[0]}};
  for (int64_t i = 0; i < rank; i++)
    dims.dims[1 + i] = size[2 + i];
  dims.dims[count - 1] = rank;
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- in simpler ops ---- */

/* ---- RotaryEmbedding ----------------------------------------------------------------------- */

typedef struct halves {
  uint32_t first, second; /* of the numbers that turn */
} halves;

static halves split_turning(keel_emit *all, uint32_t x, bool interleaved) {
  halves parts;
  if (interleaved) {
    parts.first = keel_emit_slice(all, x, -1, 0, INT64_MAX, 2);
    parts.second = keel_emit_slice(all, x, -1, 1, INT64_MAX, 2);
    return parts;
  }
  uint32_t half = keel_emit_binary(
      all, "Div", keel_emit_dims(all, x, -1, INT64_MAX), keel_emit_int(all, 2));
  const uint32_t first[] = {x, keel_emit_int(all, 0), half,
                            keel_emit_int(all, -1)};
  const uint32_t second[] = {x, half, keel_emit_int(all, INT64_MAX),
                             keel_emit_int(all, -1)};
  parts.first = keel_emit_op(all, "Slice", NULL, 0, first, 4);
  parts.second = keel_emit_op(all, "Slice", NULL, 0, second, 4);
  return parts;
}

static uint32_t join_turned(keel_emit *all, halves parts, uint32_t like,
                            bool interleaved) {
  if (interleaved) {
    uint32_t axis = keel_emit_int(all, -1);
    parts.first = keel_emit_binary(all, "Unsqueeze", parts.first, axis);
    parts.second = keel_emit_binary(all, "Unsqueeze", parts.second, axis);
  }
  const uint32_t both[] = {parts.first, parts.second};
  uint32_t joined = keel_emit_concat(all, -1, both, 2);
  return interleaved ? keel_emit_binary(all, "Reshape", joined,
                                        keel_emit_dims(all, like, 0, INT64_MAX))
                     : joined;
}

/* cos or sin of the places, with a dimension of one for heads. */
static uint32_t of_places(keel_emit *all, uint32_t index, int64_t heads_axis) {
  uint32_t cache = keel_emit_in(all, index);
  uint32_t places = keel_emit_in(all, 3);
  if (places != KEEL_ABSENT)
    cache = keel_emit_binary(all, "Gather", cache, places);
  return keel_emit_binary(all, "Unsqueeze", cache,
                          keel_emit_int(all, heads_axis));
}

static uint32_t functions_turned(keel_emit *all, uint32_t x,
                                 int64_t heads_axis) {
  bool interleaved = keel_attr_int(all->node.op, "interleaved", 0) != 0;
  uint32_t cos = of_places(all, 1, heads_axis);
  uint32_t sin = of_places(all, 2, heads_axis);
  halves in = split_turning(all, x, interleaved), out;
  out.first =
      keel_emit_binary(all, "Sub", keel_emit_binary(all, "Mul", cos, in.first),
                       keel_emit_binary(all, "Mul", sin, in.second));
  out.second =
      keel_emit_binary(all, "Add", keel_emit_binary(all, "Mul", sin, in.first),
                       keel_emit_binary(all, "Mul", cos, in.second));
  return join_turned(all, out, x, interleaved);
}

/* [batch, rows, heads * size] with heads apart. */
static uint32_t functions_with_heads(keel_emit *all, uint32_t x,
                                     int64_t heads) {
  uint32_t count = keel_emit_int(all, heads);
  const uint32_t parts[] = {
      keel_emit_dims(all, x, 0, 2), count,
      keel_emit_binary(all, "Div", keel_emit_dims(all, x, 2, 3), count)};
  return keel_emit_binary(all, "Reshape", x,
                          keel_emit_concat(all, 0, parts, 3));
}

/* The first rotary_embedding_dim numbers of a head turn, in pairs; the others stay. X of three
 * dimensions has the attribute num_heads. */
static void expand_rotary_embedding(keel_emit *all) {
  const keel_type *type = keel_emit_type(all, 0);
  int64_t heads = keel_attr_int(all->node.op, "num_heads", 0);
  int64_t turning = keel_attr_int(all->node.op, "rotary_embedding_dim", 0);
  bool flat = type ? type->rank == 3 : heads != 0;
  uint32_t x = keel_emit_in(all, 0), whole = x;
  if (flat && heads <= 0) {
    all->status = keel_fail(
        KD_INVALID_ARGUMENT,
        "RotaryEmbedding \"%s\": X has 3 dimensions, and needs num_heads",
        all->node.name);
    return;
  }
  if (flat) x = functions_with_heads(all, x, heads);
  if (turning) {
    const uint32_t parts[] = {
        functions_turned(all, keel_emit_slice(all, x, -1, 0, turning, 1),
                         flat ? 2 : 1),
        keel_emit_slice(all, x, -1, turning, INT64_MAX, 1)};
    x = keel_emit_concat(all, -1, parts, 2);
  } else {
    x = functions_turned(all, x, flat ? 2 : 1);
  }
  if (flat)
    x = keel_emit_binary(all, "Reshape", x,
                         keel_emit_dims(all, whole, 0, INT64_MAX));
  keel_emit_give(all, 0, x);
}

/* ---- Within -------------------------------------------------------------------------------- */

/* A number that no kernel can refuse is so far off that nothing is seen or written there. */
static void expand_within(keel_emit *all) {
  uint32_t x = keel_emit_in(all, 0);
  uint32_t off = keel_emit_binary(
      all, "Or", keel_emit_binary(all, "Less", x, keel_emit_in(all, 1)),
      keel_emit_binary(all, "Greater", x, keel_emit_in(all, 2)));
  keel_emit_give(
      all, 0,
      keel_emit_where(all, off, keel_emit_int(all, -(INT64_C(1) << 40)), x));
}

/* ---- TensorScatter ------------------------------------------------------------------------- */

/* As many ones as a list has numbers. */
static uint32_t ones_for(keel_emit *all, uint32_t list) {
  return keel_emit_binary(all, "Expand", keel_emit_int(all, 1),
                          keel_emit_unary(all, "Shape", list));
}

/* A list of numbers along one dimension, with the dimensions of ones that follow it. */
static uint32_t functions_along(keel_emit *all, uint32_t list, uint32_t ones) {
  const uint32_t parts[] = {keel_emit_int(all, -1), ones};
  uint32_t dims =
      ones == KEEL_ABSENT ? parts[0] : keel_emit_concat(all, 0, parts, 2);
  return keel_emit_binary(all, "Reshape", list, dims);
}

/* ScatterElements, with the places of all elements along the axis. */
static void expand_tensor_scatter(keel_emit *all) {
  uint32_t cache = keel_emit_in(all, 0), update = keel_emit_in(all, 1);
  uint32_t begin = keel_emit_in(all, 2), ones = KEEL_ABSENT;
  int64_t axis = keel_attr_int(all->node.op, "axis", -2);
  const char *mode = keel_attr_string(all->node.op, "mode", "linear");
  if (axis < -(int64_t)KD_MAX_RANK || axis >= (int64_t)KD_MAX_RANK) {
    all->status = keel_fail(KD_INVALID_ARGUMENT,
                            "TensorScatter \"%s\": axis %lld is in no tensor",
                            all->node.name, (long long)axis);
    return;
  }
  int64_t next = axis == -1 ? INT64_MAX : axis + 1;
  uint32_t length = keel_emit_dims(all, update, axis, next);
  if (axis != -1)
    ones = ones_for(all, keel_emit_dims(all, update, next, INT64_MAX));
  uint32_t at = functions_along(all, keel_emit_range(all, length), ones);
  bool circular = !strcmp(mode, "circular");
  uint32_t room = keel_emit_dims(all, cache, axis, next);
  if (begin != KEEL_ABSENT) {
    uint32_t last = circular ? keel_emit_int(all, INT64_MAX)
                             : keel_emit_binary(all, "Sub", room, length);
    begin = keel_emit_within(all, begin, keel_emit_int(all, 0), last,
                             "write_indices");
    uint32_t others = keel_emit_dims(all, update, 1, INT64_MAX);
    begin = functions_along(all, begin, ones_for(all, others));
    at = keel_emit_binary(all, "Add", at, begin);
  }
  if (circular) { /* what Within refuses stays below 0 */
    uint32_t refused = keel_emit_binary(all, "Less", at, keel_emit_int(all, 0));
    at = keel_emit_where(all, refused, at,
                         keel_emit_binary(all, "Mod", at, room));
  }
  at = keel_emit_binary(all, "Expand", at,
                        keel_emit_unary(all, "Shape", update));
  const keel_attr attr = KEEL_INT("axis", axis);
  const uint32_t inputs[] = {cache, at, update};
  keel_emit_give(all, 0,
                 keel_emit_op(all, "ScatterElements", &attr, 1, inputs, 3));
}

/* ---- CenterCropPad ------------------------------------------------------------------------- */

static uint32_t beyond(keel_emit *all, uint32_t a, uint32_t b) {
  return keel_emit_binary(all, "Max", keel_emit_binary(all, "Sub", a, b),
                          keel_emit_int(all, 0));
}

/* A Slice of what is too long, then a Pad of what is too short. */
static void expand_center_crop_pad(keel_emit *all) {
  const int64_t *given = NULL;
  int64_t count = keel_attr_ints(all->node.op, "axes", &given);
  const keel_attr to = KEEL_INT("to", 7);
  uint32_t x = keel_emit_in(all, 0), shape = keel_emit_in(all, 1);
  uint32_t axes = count > 0 ? keel_emit_ints(all, given, count) : KEEL_ABSENT;
  shape = keel_emit_op(all, "Cast", &to, 1, &shape, 1);
  uint32_t dims = keel_emit_unary(all, "Shape", x);
  if (axes != KEEL_ABSENT) dims = keel_emit_binary(all, "Gather", dims, axes);
  uint32_t two = keel_emit_int(all, 2);
  uint32_t begin = keel_emit_binary(all, "Div", beyond(all, dims, shape), two);
  uint32_t end = keel_emit_binary(all, "Add", begin,
                                  keel_emit_binary(all, "Min", dims, shape));
  const uint32_t slice[] = {x, begin, end, axes};
  x = keel_emit_op(all, "Slice", NULL, 0, slice, 4);
  uint32_t lacking = beyond(all, shape, dims);
  uint32_t before = keel_emit_binary(all, "Div", lacking, two);
  const uint32_t pads[] = {before,
                           keel_emit_binary(all, "Sub", lacking, before)};
  const uint32_t pad[] = {x, keel_emit_concat(all, 0, pads, 2), KEEL_ABSENT,
                          axes};
  keel_emit_give(all, 0, keel_emit_op(all, "Pad", NULL, 0, pad, 4));
}

/* ---- AffineGrid ---------------------------------------------------------------------------- */

static uint32_t as_f32(keel_emit *all, uint32_t value) {
  const keel_attr to = KEEL_INT("to", 1);
  return keel_emit_op(all, "Cast", &to, 1, &value, 1);
}

/* Places from -1 to 1 along dimension `index` of the grid, as a list: centres of the elements,
 * or with their corners aligned. */
static uint32_t functions_places(keel_emit *all, uint32_t size, int64_t index) {
  bool aligned = keel_attr_int(all->node.op, "align_corners", 0) != 0;
  uint32_t count = keel_emit_slice(all, size, 0, 2 + index, 3 + index, 1);
  uint32_t one = as_f32(all, keel_emit_int(all, 1));
  uint32_t steps = as_f32(all, count);
  uint32_t at = as_f32(all, keel_emit_range(all, count));
  at = keel_emit_binary(all, "Add", at, at);
  if (aligned) /* one element lies at -1 */
    steps = keel_emit_binary(all, "Max",
                             keel_emit_binary(all, "Sub", steps, one), one);
  else
    at = keel_emit_binary(all, "Add", at, one);
  return keel_emit_binary(all, "Sub", keel_emit_binary(all, "Div", at, steps),
                          one);
}

/* How many dimensions the grid has: 2 or 3; 0: not known. */
static uint32_t grid_rank(const keel_emit *all) {
  const keel_type *theta = keel_emit_type(all, 0);
  const keel_type *size = keel_emit_type(all, 1);
  if (size && size->rank == 1 && size->dims[0] >= 4)
    return (uint32_t)size->dims[0] - 2;
  return theta && theta->rank == 3 && theta->dims[1] >= 2
             ? (uint32_t)theta->dims[1]
             : 0;
}

/* The places x, y (, z), 1 of all elements, as a matrix, times Transpose(theta). */
static void expand_affine_grid(keel_emit *all) {
  static const int64_t turn[] = {0, 2, 1};
  uint32_t rank = grid_rank(all), parts[4];
  uint32_t theta = keel_emit_in(all, 0), size = keel_emit_in(all, 1);
  if (rank != 2 && rank != 3) {
    all->status = keel_fail(KD_UNIMPLEMENTED,
                            "AffineGrid \"%s\": neither the length of size nor "
                            "the shape of theta is known before the"
                            " run; declare one of them",
                            all->node.name);
    return;
  }
  uint32_t inner = keel_emit_slice(all, size, 0, 2, INT64_MAX, 1);
  const uint32_t with_one[] = {inner, keel_emit_int(all, 1)};
  uint32_t column = keel_emit_concat(all, 0, with_one, 2);
  for (uint32_t i = 0; i < rank; i++) {
    int64_t dims[] = {1, 1, 1, 1};
    dims[i] = -1;
    uint32_t list = keel_emit_reshape(all, functions_places(all, size, i), dims,
                                      (int64_t)rank + 1);
    parts[rank - 1 - i] = keel_emit_binary(all, "Expand", list, column);
  }
  parts[rank] = keel_emit_binary(all, "Expand",
                                 as_f32(all, keel_emit_int(all, 1)), column);
  const int64_t rows[] = {-1, (int64_t)rank + 1};
  uint32_t matrix = keel_emit_reshape(
      all, keel_emit_concat(all, -1, parts, rank + 1), rows, 2);
  matrix = keel_emit_binary(all, "CastLike", matrix, theta);
  uint32_t grid = keel_emit_binary(all, "MatMul", matrix,
                                   keel_emit_transpose(all, theta, turn, 3));
  const uint32_t dims[] = {keel_emit_dims(all, theta, 0, 1), inner,
                           keel_emit_int(all, rank)};
  keel_emit_give(all, 0,
                 keel_emit_binary(all, "Reshape", grid,
                                  keel_emit_concat(all, 0, dims, 3)));
}

/* ---- rows ---- */

static const keel_op_rule rules[] = {
    {"RotaryEmbedding", .expand = expand_rotary_embedding},
    {"TensorScatter", .expand = expand_tensor_scatter},
    {"CenterCropPad", .expand = expand_center_crop_pad},
    {"AffineGrid", .expand = expand_affine_grid},
    {"keel::Within", .expand = expand_within},
};

const keel_op_table keel_ops_data = {KEEL_TABLE_RULES(rules)};
