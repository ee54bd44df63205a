/* gradient.c - derivatives of ops that move data. Those that read elements by places of their
 * own are asked where these are: the op itself, of the numbers of x's elements, says which one each
 * element of y is, and there its gradient is added. */
#include "opsets/onnx/training/gradient_terms.h"
#include "opsets/tables.h"

static uint32_t data_gradient_x_of(const keel_gradient *g) {
  return keel_gradient_in(g, 0);
}
static uint32_t data_gradient_got_of(const keel_gradient *g) {
  return keel_gradient_got(g, 0);
}

static uint32_t flat(keel_gradient *g, uint32_t value) {
  return two(g, "Reshape", value, keel_emit_int(g->all, -1));
}

static int64_t attr(const keel_gradient *g, const char *name,
                    int64_t otherwise) {
  return keel_attr_int(g->node.op, name, otherwise);
}

static uint32_t zeros_like(keel_gradient *g, uint32_t value) {
  return keel_gradient_wide(g, keel_gradient_zero(g, value),
                            keel_gradient_shape(g, value));
}

/* ---- the same elements in another form ------------------------------------------------------- */

static void reshaped(keel_gradient *g) {
  keel_gradient_give(g, 0,
                     keel_gradient_shaped_like(g, data_gradient_got_of(g),
                                               data_gradient_x_of(g)));
}

static void expand(keel_gradient *g) {
  keel_gradient_give_wide(g, 0, data_gradient_got_of(g));
}

static void transpose(keel_gradient *g) {
  const int64_t *perm = NULL;
  int64_t back[KD_MAX_RANK] = {0};
  uint32_t got = data_gradient_got_of(g);
  int64_t rank = keel_attr_ints(g->node.op, "perm", &perm);
  if (rank < 0) { /* the other way round: again */
    keel_gradient_give(g, 0, of(g, "Transpose", got));
    return;
  }
  for (int64_t i = 0; i < rank && rank <= KD_MAX_RANK; i++)
    if (perm[i] >= 0 && perm[i] < rank) back[perm[i]] = i;
  keel_gradient_give(g, 0,
                     keel_emit_transpose(g->all, got, back, (uint32_t)rank));
}

/* `value` from `begin` on, as long as `like` along the axis; *begin goes behind that. */
static uint32_t next_part(keel_gradient *g, uint32_t value, uint32_t like,
                          int64_t axis, uint32_t *begin) {
  uint32_t list = keel_emit_int(g->all, axis);
  uint32_t size = two(g, "Gather", keel_gradient_shape(g, like), list);
  uint32_t end = add(g, *begin, size);
  const uint32_t inputs[] = {value, *begin, end, list};
  *begin = end;
  return keel_emit_op(g->all, "Slice", NULL, 0, inputs, 4);
}

static void concat(keel_gradient *g) {
  uint32_t begin = keel_emit_int(g->all, 0), got = data_gradient_got_of(g);
  for (uint32_t i = 0; i < g->node.input_count; i++) {
    uint32_t part =
        next_part(g, got, keel_gradient_in(g, i), attr(g, "axis", 0), &begin);
    keel_gradient_give(g, i, part);
  }
}

/* What nobody reads of the parts has a gradient of 0. */
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
    parts[i] = got == KEEL_ABSENT ? zeros_like(g, out) : got;
  }
  keel_gradient_give(g, 0,
                     keel_emit_concat(g->all, attr(g, "axis", 0), parts, n));
}

/* ---- elements by places --------------------------------------------------------------------- */

/* The node's op on 0, 1, 2 ... in the shape of x. */
static uint32_t gradient_places_of(keel_gradient *g) {
  uint32_t x = data_gradient_x_of(g), n = g->node.input_count, place = 0;
  uint32_t *inputs = keel_arena_take(g->all->function->arena,
                                     (n + (size_t)1) * sizeof *inputs);
  if (!inputs) {
    g->all->status = KD_OUT_OF_MEMORY;
    return KEEL_ABSENT;
  }
  uint32_t count =
      two(g, "Reshape", of(g, "Size", x), keel_emit_int(g->all, 1));
  inputs[0] = keel_gradient_shaped_like(g, keel_emit_range(g->all, count), x);
  for (uint32_t i = 1; i < n; i++)
    inputs[i] = keel_gradient_in(g, i);
  keel_emit_again(g->all, g->node.op, inputs, n, &place, 1);
  return place;
}

/* Zeros in the shape of x, and to each of `places` its gradient added. */
static uint32_t gathered(keel_gradient *g, uint32_t places, uint32_t got) {
  const keel_attr add = KEEL_STRING("reduction", "add");
  const uint32_t inputs[] = {flat(g, zeros_like(g, data_gradient_x_of(g))),
                             flat(g, places), flat(g, got)};
  return keel_gradient_shaped_like(
      g, keel_emit_op(g->all, "ScatterElements", &add, 1, inputs, 3),
      data_gradient_x_of(g));
}

static void by_places(keel_gradient *g) {
  keel_gradient_give(
      g, 0, gathered(g, gradient_places_of(g), data_gradient_got_of(g)));
}

/* With constants it is cut off again, which is padding by less than nothing. */
static void pad(keel_gradient *g) {
  if (keel_gradient_wants(g, 2)) {
    keel_gradient_refuse(g, "has no gradient in Keel for its constant");
    return;
  }
  if (strcmp(keel_attr_string(g->node.op, "mode", "constant"), "constant") !=
      0) {
    by_places(g);
    return;
  }
  const uint32_t inputs[] = {data_gradient_got_of(g),
                             of(g, "Neg", keel_gradient_in(g, 1)), KEEL_ABSENT,
                             keel_gradient_in(g, 3)};
  keel_gradient_give(g, 0, keel_emit_op(g->all, "Pad", NULL, 0, inputs, 4));
}

/* The op's own attributes, and inputs behind the first. */
static uint32_t same_op(keel_gradient *g, uint32_t first) {
  const uint32_t inputs[] = {first, keel_gradient_in(g, 1)};
  uint32_t result = 0;
  keel_emit_again(g->all, g->node.op, inputs, g->node.input_count, &result, 1);
  return result;
}

static void trilu(keel_gradient *g) {
  keel_gradient_give(g, 0, same_op(g, data_gradient_got_of(g)));
}

static void cumulated(keel_gradient *g) {
  const keel_attr attrs[] = {KEEL_INT("exclusive", attr(g, "exclusive", 0)),
                             KEEL_INT("reverse", !attr(g, "reverse", 0))};
  const uint32_t inputs[] = {data_gradient_got_of(g), keel_gradient_in(g, 1)};
  keel_gradient_give(g, 0, keel_emit_op(g->all, "CumSum", attrs, 2, inputs, 2));
}

/* The data's is gone where updates took its place, and there is that of the updates. */
static void scattered(keel_gradient *g, const char *gather) {
  const char *how = keel_attr_string(g->node.op, "reduction", "none");
  const keel_attr axis = KEEL_INT("axis", attr(g, "axis", 0));
  bool elements = !strcmp(gather, "GatherElements");
  uint32_t data = data_gradient_got_of(g), places = keel_gradient_in(g, 1);
  if (strcmp(how, "none") != 0 && strcmp(how, "add") != 0) {
    keel_gradient_refuse(g,
                         "has a gradient in Keel with reduction none and"
                         " add only");
    return;
  }
  const uint32_t read[] = {data, places};
  if (keel_gradient_wants(g, 2))
    keel_gradient_give(g, 2,
                       keel_emit_op(g->all, gather, &axis, elements, read, 2));
  if (!strcmp(how, "none")) {
    const uint32_t inputs[] = {data, places,
                               zeros_like(g, keel_gradient_in(g, 2))};
    keel_emit_again(g->all, g->node.op, inputs, 3, &data, 1);
  }
  keel_gradient_give(g, 0, data);
}

static void scatter_elements(keel_gradient *g) {
  scattered(g, "GatherElements");
}
static void scatter_nd(keel_gradient *g) {
  scattered(g, "GatherND");
}

static const keel_op_rule rules[] = {
    {"Reshape", .gradient = reshaped},
    {"Flatten", .gradient = reshaped},
    {"Squeeze", .gradient = reshaped},
    {"Unsqueeze", .gradient = reshaped},
    {"Expand", .gradient = expand},
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
    {"Trilu", .gradient = trilu},
    {"CumSum", .gradient = cumulated},
    {"ScatterElements", .gradient = scatter_elements},
    {"ScatterND", .gradient = scatter_nd},
};

const keel_op_table keel_ops_gradient_data = {KEEL_TABLE_RULES(rules)};
