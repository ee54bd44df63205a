/* gradient.c - derivatives of ops that move data. Those that read elements by places of their
 * own are asked where these are: the op itself, of the numbers of x's elements, says which one each
 * element of y is, and there its gradient is added. */
#include "opsets/onnx/training/gradient_terms.h"
#include "opsets/tables.h"

/* ---- the same elements in another form ------------------------------------------------------- */

static void transpose(keel_gradient *g) {
  const int64_t *perm = NULL;
  int64_t back[KD_MAX_RANK] = {0};
  int64_t rank = keel_attr_ints(g->node.op, "perm", &perm);
  for (int64_t i = 0; i < rank && rank <= KD_MAX_RANK; i++)
    if (perm[i] >= 0 && perm[i] < rank) back[perm[i]] = i;
  /* without perm it is the other way round: again */
  keel_gradient_text(g, "$0 = %b ? Transpose(^0) : Transpose[perm=%l](^0)",
                     rank < 0, back, rank);
}

static void concat(keel_gradient *g) {
  uint32_t begin = keel_emit_int(g->all, 0);
  for (uint32_t i = 0; i < g->node.input_count; i++) {
    uint32_t end = keel_gradient_text(g, "%v + Gather(dims(%v), {@axis})",
                                      begin, keel_gradient_in(g, i));
    keel_gradient_give(
        g, i, keel_gradient_text(g, "Slice(^0, %v, %v, {@axis})", begin, end));
    begin = end;
  }
}

/* Parts without a reader have a gradient of 0. */
static void gradient_split(keel_gradient *g) {
  uint32_t n = g->node.output_count;
  uint32_t *parts =
      keel_arena_take(g->all->function->arena, (n + (size_t)1) * sizeof *parts);
  if (!parts) {
    g->all->status = KD_OUT_OF_MEMORY;
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t out = keel_gradient_out(g, i), got = keel_gradient_got(g, i);
    if (out == KEEL_ABSENT) {
      keel_gradient_refuse(g,
                           "has an output without a name, and no gradient"
                           " so; name all of them");
      return;
    }
    parts[i] = got != KEEL_ABSENT
                   ? got
                   : keel_gradient_text(g, "Expand(0~%v, dims(%v))", out, out);
  }
  int64_t axis = keel_attr_int(g->node.op, "axis", 0);
  keel_gradient_give(g, 0, keel_emit_concat(g->all, axis, parts, n));
}

/* ---- elements by places --------------------------------------------------------------------- */

/* The node's op on 0, 1, 2 ... in the shape of x. */
static uint32_t gradient_places_of(keel_gradient *g) {
  uint32_t n = g->node.input_count, place = 0;
  uint32_t *inputs = keel_arena_take(g->all->function->arena,
                                     (n + (size_t)1) * sizeof *inputs);
  if (!inputs) {
    g->all->status = KD_OUT_OF_MEMORY;
    return KEEL_ABSENT;
  }
  inputs[0] =
      keel_gradient_text(g, "Reshape(range(Reshape(Size($0), {1})), dims($0))");
  for (uint32_t i = 1; i < n; i++)
    inputs[i] = keel_gradient_in(g, i);
  keel_emit_again(g->all, g->node.op, inputs, n, &place, 1);
  return place;
}

/* Zeros in the shape of x, and to each place its gradient added. */
static void by_places(keel_gradient *g) {
  keel_gradient_text(
      g,
      "sums = ScatterElements[reduction=add]("
      "    Reshape(Expand(0~$0, dims($0)), {-1}), Reshape(%v, {-1}),"
      "    Reshape(^0, {-1}));"
      "$0 = Reshape(sums, dims($0))",
      gradient_places_of(g));
}

/* With constants it is cut off again, which is padding by less than nothing. */
static void pad(keel_gradient *g) {
  if (keel_gradient_wants(g, 2))
    keel_gradient_refuse(g, "has no gradient in Keel for its constant");
  else if (!strcmp(keel_attr_string(g->node.op, "mode", "constant"),
                   "constant"))
    keel_gradient_text(g, "$0 = Pad(^0, -$1, _, $3)");
  else
    by_places(g);
}

/* The data's is gone where updates took its place, and there is that of the updates. */
static void scattered(keel_gradient *g, const char *text) {
  const char *how = keel_attr_string(g->node.op, "reduction", "none");
  if (strcmp(how, "none") != 0 && strcmp(how, "add") != 0)
    keel_gradient_refuse(g,
                         "has a gradient in Keel with reduction none and"
                         " add only");
  else
    keel_gradient_text(g, text);
}

#define OF_DATA \
  "$0 = @reduction=none ? self(^0, $1, Expand(0~$2, dims($2))) : ^0"
static void scatter_elements(keel_gradient *g) {
  scattered(g, "$2 = GatherElements[axis=@axis](^0, $1); " OF_DATA);
}
static void scatter_nd(keel_gradient *g) {
  scattered(g, "$2 = GatherND(^0, $1); " OF_DATA);
}

#define RESHAPED "$0 = Reshape(^0, dims($0))"

static const keel_op_rule rules[] = {
    {"Reshape", .slopes = RESHAPED},
    {"Flatten", .slopes = RESHAPED},
    {"Squeeze", .slopes = RESHAPED},
    {"Unsqueeze", .slopes = RESHAPED},
    {"Expand", .slopes = "$0 ~= ^0"},
    {"Transpose", .gradient = transpose},
    {"Concat", .gradient = concat},
    {"Split", .gradient = gradient_split},
    {"Slice", .gradient = by_places},
    {"Gather", .gradient = by_places},
    {"GatherElements", .gradient = by_places},
    {"GatherND", .gradient = by_places},
    {"Tile", .gradient = by_places},
    {"DepthToSpace", .gradient = by_places},
    {"SpaceToDepth", .gradient = by_places},
    {"ReverseSequence", .gradient = by_places},
    {"Pad", .gradient = pad},
    {"Trilu", .slopes = "$0 = self(^0, $1)"},
    {"CumSum", .slopes = "$0 = @reverse ? CumSum[exclusive=@exclusive](^0, $1)"
                         "  : CumSum[exclusive=@exclusive, reverse=1](^0, $1)"},
    {"ScatterElements", .gradient = scatter_elements},
    {"ScatterND", .gradient = scatter_nd},
};

const keel_op_table keel_ops_gradient_data = {KEEL_TABLE_RULES(rules)};
