/* functions.c - RotaryEmbedding, TensorScatter, CenterCropPad and AffineGrid, written with ops
 * that move data. Dimensions are asked for with Shape, which is folded where they are known. */
#include "opsets/tables.h"
#include "opsets/terms.h"
#include "opsets/text.h"
#include "passes/passes.h"

/* ---- shapes ---- */

keel_status keel_shape_rotary(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  const keel_type *places = keel_infer_in(infer, 3);
  int64_t count = keel_attr_int(infer->op, "num_heads", 0);
  int64_t rotating = keel_attr_int(infer->op, "rotary_embedding_dim", 0);
  if (x->rank != 4 && (x->rank != 3 || count <= 0 || x->dims[2] % count))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "X must have 4 dimensions, or 3 and num_heads, which divides the last");
  int64_t size = x->rank == 4 ? x->dims[3] : x->dims[2] / count;
  int64_t rotated = rotating ? rotating : size;
  if (rotated < 0 || rotated > size || rotated % 2)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "rotary_embedding_dim must be even, and at most %lld", (long long)size);
  for (uint32_t i = 1; i <= 2; i++) {
    const keel_type *cache = infer->in[i];
    uint32_t rank = places ? 2 : 3;
    if (cache->rank != rank || cache->dims[rank - 1] != rotated / 2)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT,
          "cos_cache and sin_cache must have %u dimensions, the last of %lld",
          (unsigned)rank, (long long)rotated / 2);
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

/* Pairs of numbers of x rotated: halves of a head, or neighbours if interleaved. heads_axis: where
 * cos and sin of the places get a dimension for heads. */
static uint32_t functions_turned(keel_emit *all, uint32_t x,
                                 int64_t heads_axis) {
  return keel_emit_text(
      all,
      "x = %v; heads = {%i}; half = @interleaved ? _ : dims(x, -1) / {2};"
      "cos = Unsqueeze($3 ? Gather($1, $3) : $1, heads);"
      "sin = Unsqueeze($3 ? Gather($2, $3) : $2, heads);"
      "a = @interleaved ? Slice(x, {0}, {max}, {-1}, {2})"
      "                 : Slice(x, {0}, half, {-1});"
      "b = @interleaved ? Slice(x, {1}, {max}, {-1}, {2})"
      "                 : Slice(x, half, {max}, {-1});"
      "first = cos * a - sin * b; second = sin * a + cos * b;"
      "@interleaved ? Reshape(Concat[axis=-1](Unsqueeze(first, {-1}),"
      "                                       Unsqueeze(second, {-1})), "
      "dims(x))"
      "             : Concat[axis=-1](first, second)",
      x, heads_axis);
}

/* The first rotary_embedding_dim numbers of a head turn, in pairs; the others stay. X of three
 * dimensions has the attribute num_heads. */
static void expand_rotary_embedding(keel_emit *all) {
  const keel_type *type = keel_emit_type(all, 0);
  int64_t heads = keel_attr_int(all->node.op, "num_heads", 0);
  int64_t rotating = keel_attr_int(all->node.op, "rotary_embedding_dim", 0);
  bool flat = type ? type->rank == 3 : heads != 0;
  uint32_t x = keel_emit_in(all, 0);
  if (flat && heads <= 0) {
    all->status = keel_fail(
        KD_INVALID_ARGUMENT,
        "RotaryEmbedding \"%s\": X has 3 dimensions, and needs num_heads",
        all->node.name);
    return;
  }
  if (flat)
    x = keel_emit_text(
        all, "Reshape($0, {dims($0, 0, 2), %i, dims($0, 2, 3) / {%i}})", heads,
        heads);
  if (rotating) {
    uint32_t first =
        keel_emit_text(all, "Slice(%v, {0}, {@rotary_embedding_dim}, {-1})", x);
    first = functions_turned(all, first, flat ? 2 : 1);
    x = keel_emit_text(
        all,
        "Concat[axis=-1](%v, Slice(%v, {@rotary_embedding_dim}, {max}, {-1}))",
        first, x);
  } else {
    x = functions_turned(all, x, flat ? 2 : 1);
  }
  keel_emit_text(all, "x = %v; %0 = %b ? Reshape(x, dims($0)) : x", x, flat);
}

/* ---- TensorScatter ------------------------------------------------------------------------- */

/* ScatterElements, with the places of all elements along the axis: a list, with a dimension of one
 * for each that follows. Within refuses a place by a number below 0. */
static void expand_tensor_scatter(keel_emit *all) {
  int64_t axis = keel_attr_int(all->node.op, "axis", -2);
  int64_t next = axis == -1 ? INT64_MAX : axis + 1;
  if (axis < -(int64_t)KD_MAX_RANK || axis >= (int64_t)KD_MAX_RANK) {
    all->status = keel_fail(KD_INVALID_ARGUMENT,
                            "TensorScatter \"%s\": axis %lld is in no tensor",
                            all->node.name, (long long)axis);
    return;
  }
  keel_emit_text(
      all,
      "length = dims($1, %i, %i); room = dims($0, %i, %i);"
      "at = Reshape(range(length), %b ? {-1}"
      "                               : {-1, Expand({1}, dims(dims($1, %i)))});"
      "last = $2 ? (@mode=circular ? {max} : room - length) : _;"
      "begin = $2 ? keel::Within[input=write_indices, op=TensorScatter]"
      "             ($2, {0}, last) : _;"
      "at = $2 ? at + Reshape(begin, {-1, Expand({1}, dims(dims($1, 1)))}) : "
      "at;"
      "at = @mode=circular ? Where(at < {0}, at, Mod(at, room)) : at;"
      "%0 = ScatterElements[axis=%i]($0, Expand(at, dims($1)), $1)",
      axis, next, axis, next, axis == -1, next, axis);
}

/* ---- CenterCropPad ------------------------------------------------------------------------- */

/* A Slice of what is too long, then a Pad of what is too short. */
static void expand_center_crop_pad(keel_emit *all) {
  const int64_t *axes = NULL;
  int64_t count = keel_attr_ints(all->node.op, "axes", &axes);
  int some = count > 0;
  if (count > (int64_t)KD_MAX_RANK) {
    keel_emit_fail(all, KD_INVALID_ARGUMENT, "%lld axes are more than %u",
                   (long long)count, KD_MAX_RANK);
    return;
  }
  keel_emit_text(all,
                 "shape = i64($1); axes = %b ? {@axes} : _;"
                 "size = %b ? Gather(dims($0), axes) : dims($0);"
                 "begin = Max(size - shape, {0}) / {2};"
                 "x = Slice($0, begin, begin + Min(size, shape), axes);"
                 "lacking = Max(shape - size, {0}); before = lacking / {2};"
                 "%0 = Pad(x, {before, lacking - before}, _, axes)",
                 some, some);
}

/* ---- AffineGrid ---------------------------------------------------------------------------- */

/* Places from -1 to 1 along dimension `index` of the grid, as a list: centres of the elements, or with
 * their corners aligned, where one element lies at -1. */
static uint32_t functions_places(keel_emit *all, int64_t index) {
  return keel_emit_text(
      all,
      "count = Slice($1, {%i}, {%i}, {0}); n = f32(count);"
      "at = f32(range(count)) * 2;"
      "(@align_corners ? at / Max(n - 1, 1) : (at + 1) / n) - 1",
      2 + index, 3 + index);
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
  uint32_t rank = grid_rank(all), parts[4];
  if (rank != 2 && rank != 3) {
    all->status = keel_fail(KD_UNIMPLEMENTED,
                            "AffineGrid \"%s\": neither the length of size nor "
                            "the shape of theta is known before the"
                            " run; declare one of them",
                            all->node.name);
    return;
  }
  for (uint32_t i = 0; i < rank; i++) {
    int64_t dims[] = {1, 1, 1, 1};
    dims[i] = -1;
    parts[rank - 1 - i] = keel_emit_text(
        all, "Expand(Reshape(%v, %l), {Slice($1, {2}, {max}, {0}), 1})",
        functions_places(all, i), dims, (int64_t)rank + 1);
  }
  parts[rank] =
      keel_emit_text(all, "Expand(f32({1}), {Slice($1, {2}, {max}, {0}), 1})");
  keel_emit_text(
      all,
      "places = CastLike(Reshape(%v, {-1, %i}), $0);"
      "grid = MatMul(places, Transpose[perm=(0 2 1)]($0));"
      "%0 = Reshape(grid, {dims($0, 0, 1), Slice($1, {2}, {max}, {0}), %i})",
      keel_emit_concat(all, -1, parts, rank + 1), (int64_t)rank + 1,
      (int64_t)rank);
}

/* ---- rows ---- */

static const keel_op_rule rules[] = {
    {"RotaryEmbedding", .expand = expand_rotary_embedding},
    {"TensorScatter", .expand = expand_tensor_scatter},
    {"CenterCropPad", .expand = expand_center_crop_pad},
    {"AffineGrid", .expand = expand_affine_grid},
    /* a number that no kernel can refuse is so far off that nothing is seen or written there */
    {"keel::Within",
     .body = "%0 = Where(Or($0 < $1, $0 > $2), {-1099511627776}, $0)"},
};

const keel_op_table keel_ops_functions = {KEEL_TABLE_RULES(rules)};
