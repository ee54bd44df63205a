/* move.c - ops that only move elements: each a map of bits, or a few. */
#include "families/map.h"
#include "families/rows.h"
#include "families/view.h"

/* Between X and Z, one of which is packed and the other lies as the view says:
 * X where `scatter` is false. */
static void move_view(fam_plan *plan, const view *v, kd_dtype dtype,
                      bool scatter, uint32_t input, uint32_t output) {
  kd_dtype bits = fam_bits(dtype);
  int64_t packed[STRIDED_RANK];
  fam_map map = {.inputs = 1};
  strided_begin(&map.space, v->dims, v->rank);
  strided_packed(v->dims, v->rank, packed);
  strided_operand(&map.space, scatter ? packed : v->strides);
  strided_operand(&map.space, scatter ? v->strides : packed);
  map.from[scatter ? 1 : 0] = v->from;
  fam_pass *pass = fam_map_pass(plan, &map, bits, "x");
  fam_bind(pass, "X0", FAM_INPUT, input, bits);
  fam_bind(pass, "Z", FAM_OUTPUT, output, bits);
}

static void fill_from(const fam_op *op, fam_plan *plan, view v) {
  move_view(plan, &v, op->in[0].dtype, false, 0, 0);
}

void fam_plan_transpose(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  int64_t perm[KD_MAX_RANK];
  int64_t given = fam_attr_list(op, "perm", perm, KD_MAX_RANK);
  fill_from(op, plan,
            view_transpose(x->dims, x->rank, given > 0 ? perm : NULL));
}

void fam_plan_expand(const fam_op *op, fam_plan *plan) {
  fam_map map;
  kd_dtype bits = fam_bits(op->in[0].dtype);
  fam_map_begin(&map, op);
  fam_map_broadcast(&map, &op->in[0]);
  fam_pass *pass = fam_map_pass(plan, &map, bits, "x");
  fam_bind(pass, "X0", FAM_INPUT, 0, bits);
  fam_bind(pass, "Z", FAM_OUTPUT, 0, bits);
}

void fam_plan_slice(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *y = &op->out[0];
  int64_t starts[KD_MAX_RANK], axes[KD_MAX_RANK], steps[KD_MAX_RANK];
  int64_t count = fam_host_ints(op, plan, 1, starts, KD_MAX_RANK);
  int64_t named = fam_host_ints(op, plan, 3, axes, KD_MAX_RANK);
  int64_t stepped = fam_host_ints(op, plan, 4, steps, KD_MAX_RANK);
  if (count < 0 || named < 0 || stepped < 0) return;
  view v = view_whole(x->dims, x->rank);
  for (int64_t i = 0; i < count; i++) {
    uint32_t axis = fam_axis(op, plan, i < named ? axes[i] : i, x->rank);
    if (plan->status != KD_OK) return;
    view_slice(&v, axis, starts[i], i < stepped ? steps[i] : 1, y->dims[axis]);
  }
  fill_from(op, plan, v);
}

void fam_plan_depth_to_space(const fam_op *op, fam_plan *plan) {
  int64_t b = fam_attr(op, "blocksize", 1);
  bool crd = fam_attr_is(op, "mode", "DCR", "CRD");
  fill_from(op, plan,
            view_depth_to_space(op->in[0].dims, op->out[0].dims[1], b, crd));
}

void fam_plan_space_to_depth(const fam_op *op, fam_plan *plan) {
  const int64_t *y = op->out[0].dims;
  fill_from(op, plan,
            view_space_to_depth(op->in[0].dims, y[2], y[3],
                                fam_attr(op, "blocksize", 1),
                                fam_attr_is(op, "mode", "DCR", "CRD")));
}

void fam_plan_tile(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *y = &op->out[0];
  if (2 * x->rank > STRIDED_RANK)
    fam_fail(op, plan, KD_UNIMPLEMENTED, "more than %d dimensions",
             STRIDED_RANK / 2);
  else
    fill_from(op, plan, view_tile(x->dims, y->dims, x->rank));
}

/* ---- joining and cutting ------------------------------------------------------------- */

#define PARTS_MOST 8u /* of one pass of kernels/concat.k */

/* Inputs `first` to `last`, some of them without elements: a line is what lies behind the axis,
 * the axis included. */
static void concat_parts(const fam_op *op, fam_plan *plan, uint32_t first,
                         uint32_t last, uint32_t axis, int64_t from) {
  const fam_tensor *y = &op->out[0];
  const kd_dtype bits = fam_bits(y->dtype);
  const int64_t inner = fam_product(y->dims, axis + 1, y->rank);
  const int64_t lines = fam_product(y->dims, 0, axis);
  int64_t ends[PARTS_MOST], span = 0;
  uint32_t parts = 0;
  char name[] = "X0";
  fam_pass *pass = fam_begin(plan, "concat");
  bool even = from * inner % 4 == 0 && y->dims[axis] * inner % 4 == 0;
  for (uint32_t i = first; i <= last; i++) {
    if (!op->in[i].count) continue;
    int64_t length = op->in[i].dims[axis] * inner;
    even &= length % 4 == 0;
    ends[parts++] = span += length;
    fam_bind(pass, name, FAM_INPUT, i, bits);
    name[1]++;
  }
  pass->vec4 = plan->vec4 && even;
  if (pass->vec4) fam_define(pass, "VEC4", "1");
  fam_define(pass, "PARTS", "%u", parts);
  fam_items(plan, pass, lines * span / (pass->vec4 ? 4 : 1));
  fam_ints(plan, pass, "ENDS", parts, ends);
  fam_int(plan, pass, "SPAN", span);
  fam_int(plan, pass, "FROM", from * inner);
  fam_int(plan, pass, "WHOLE", y->dims[axis] * inner);
  fam_bind(pass, "Z", FAM_OUTPUT, 0, bits);
}

/* Where launches are what takes time, and where lines are short, parts share a pass. A processor
 * copies each part of a single line at once, without a division an element. */
void fam_plan_concat(const fam_op *op, fam_plan *plan) {
  const fam_tensor *y = &op->out[0];
  uint32_t axis = fam_axis(op, plan, fam_attr(op, "axis", 0), y->rank);
  const bool processor = plan->wide || plan->lanes;
  const bool apart = processor && fam_product(y->dims, 0, axis) == 1;
  const uint32_t most = apart ? 1 : PARTS_MOST;
  int64_t at = 0, size = 0;
  uint32_t first = 0, parts = 0;
  for (uint32_t i = 0; i < op->in_count && plan->status == KD_OK; i++) {
    size += op->in[i].dims[axis];
    parts += op->in[i].count > 0;
    if (!parts || (parts < most && i + 1 < op->in_count)) continue;
    if (apart) {
      view v = view_part(y->dims, y->rank, axis, at, size);
      move_view(plan, &v, y->dtype, true, i, 0);
    } else {
      concat_parts(op, plan, first, i, axis, at);
    }
    at += size;
    size = 0;
    first = i + 1;
    parts = 0;
  }
}

void fam_plan_split(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  uint32_t axis = fam_axis(op, plan, fam_attr(op, "axis", 0), x->rank);
  int64_t at = 0;
  for (uint32_t i = 0; i < op->out_count && plan->status == KD_OK; i++) {
    int64_t size = op->out[i].dims[axis];
    view v = view_part(x->dims, x->rank, axis, at, size);
    if (op->out[i].count) move_view(plan, &v, x->dtype, false, 0, i);
    at += size;
  }
}

/* ---- by a rule for each dimension ------------------------------------------------------ */

static const fam_expression pads_by_mode[] = {
#define PAD(mode, text) {#mode, #text},
#include "families/rules.def"
    {NULL, NULL}};

void fam_plan_pad(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *y = &op->out[0];
  int64_t pads[2 * KD_MAX_RANK], axes[KD_MAX_RANK], packed[KD_MAX_RANK];
  int64_t begin[KD_MAX_RANK] = {0};
  const char *padded = fam_rule(op, "mode", "constant", pads_by_mode);
  bool constant = fam_attr_is(op, "mode", "constant", "constant");
  int64_t count = fam_host_ints(op, plan, 1, pads, 2 * KD_MAX_RANK);
  int64_t named = fam_host_ints(op, plan, 3, axes, KD_MAX_RANK);
  if (count < 0 || named < 0) return;
  if (!padded && !constant)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "mode is not known");
  if (!constant && !x->count && y->count)
    FAM_REFUSE(op, plan, KD_INVALID_ARGUMENT, "there is nothing to pad with");
  for (int64_t i = 0; i < count / 2; i++)
    begin[fam_axis(op, plan, i < named ? axes[i] : i, x->rank)] = pads[i];
  strided_packed(x->dims, x->rank, packed);
  kd_dtype bits = fam_bits(x->dtype);
  bool value = constant && fam_has(op, 2) && op->in[2].count;
  fam_pass *pass = fam_begin(plan, "pad");
  fam_int(plan, pass, "RANK", x->rank);
  if (padded) fam_define(pass, "PADDED", "(%s)", padded);
  fam_items(plan, pass, y->count);
  fam_dims(plan, pass, "DIMS", y->rank, y->dims);
  fam_dims(plan, pass, "SIZES", x->rank, x->dims);
  fam_dims(plan, pass, "BEGIN", x->rank, begin);
  fam_dims(plan, pass, "STEPS", x->rank, packed);
  fam_bind(pass, "X", FAM_INPUT, 0, bits);
  if (value) {
    fam_define(pass, "FILL", "VALUE(0)");
    fam_bind(pass, "VALUE", FAM_INPUT, 2, bits);
  }
  fam_bind(pass, "Y", FAM_OUTPUT, 0, bits);
}

void fam_plan_reverse_sequence(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  bool second = fam_attr(op, "batch_axis", 1) != 0;
  if (x->rank < 2 || op->in[1].count != x->dims[second ? 1 : 0])
    FAM_REFUSE(op, plan, KD_INVALID_ARGUMENT,
               "one length is needed for each"
               " batch");
  kd_dtype bits = fam_bits(x->dtype);
  fam_pass *pass = fam_begin(plan, "reverse_sequence");
  fam_define(pass, "BATCH_SECOND", "%d", second);
  fam_items(plan, pass, x->count);
  fam_int(plan, pass, "FIRST", x->dims[0]);
  fam_int(plan, pass, "SECOND", x->dims[1]);
  fam_int(plan, pass, "INNER", fam_product(x->dims, 2, x->rank));
  fam_bind(pass, "X", FAM_INPUT, 0, bits);
  fam_in(pass, "LENGTH", op, 1);
  fam_bind(pass, "Y", FAM_OUTPUT, 0, bits);
}

/* ---- by indices -------------------------------------------------------------------------- */

/* Fails where indices that are known now (a constant's) leave `dims`, which they name in
 * turn; the device itself can't say so, and takes zeros for them. */
static bool indices_fit(const fam_op *op, fam_plan *plan, const int64_t *dims,
                        int64_t count) {
  const fam_tensor *in = &op->in[1];
  for (int64_t i = 0; in->data && i < in->count; i++) {
    int64_t at = in->dtype == KD_I32 ? ((const int32_t *)in->data)[i]
                                     : ((const int64_t *)in->data)[i];
    int64_t dim = dims[i % count];
    if (index_fits(at, dim)) continue;
    fam_fail(op, plan, KD_INVALID_ARGUMENT,
             "index %lld (element %lld) of a dimension of %lld", (long long)at,
             (long long)i, (long long)dim);
    return false;
  }
  return true;
}

void fam_plan_gather(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *indices = &op->in[1];
  uint32_t axis = fam_axis(op, plan, fam_attr(op, "axis", 0), x->rank);
  kd_dtype bits = fam_bits(x->dtype);
  if (!indices_fit(op, plan, &x->dims[axis], 1)) return;
  fam_pass *pass = fam_begin(plan, "gather");
  fam_items(plan, pass, op->out[0].count);
  fam_int(plan, pass, "PICKED", indices->count);
  fam_int(plan, pass, "DIM", x->dims[axis]);
  fam_int(plan, pass, "INNER", fam_product(x->dims, axis + 1, x->rank));
  fam_bind(pass, "X", FAM_INPUT, 0, bits);
  fam_in(pass, "INDEX", op, 1);
  fam_bind(pass, "Y", FAM_OUTPUT, 0, bits);
}

void fam_plan_gather_elements(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *y = &op->out[0];
  uint32_t axis = fam_axis(op, plan, fam_attr(op, "axis", 0), x->rank);
  int64_t packed[KD_MAX_RANK];
  kd_dtype bits = fam_bits(x->dtype);
  if (!indices_fit(op, plan, &x->dims[axis], 1)) return;
  strided_packed(x->dims, x->rank, packed);
  fam_pass *pass = fam_begin(plan, "gather_elements");
  fam_int(plan, pass, "RANK", y->rank);
  fam_items(plan, pass, y->count);
  fam_int(plan, pass, "AXIS", axis);
  fam_int(plan, pass, "DIM", x->dims[axis]);
  fam_dims(plan, pass, "DIMS", y->rank, y->dims);
  fam_dims(plan, pass, "STEPS", x->rank, packed);
  fam_bind(pass, "X", FAM_INPUT, 0, bits);
  fam_in(pass, "INDEX", op, 1);
  fam_bind(pass, "Y", FAM_OUTPUT, 0, bits);
}

/* Tuples of `depth` indices, each naming a slice of x from dimension `first`. */
static void use_tuples(fam_plan *plan, fam_pass *pass, const fam_tensor *x,
                       uint32_t first, int64_t depth) {
  int64_t packed[KD_MAX_RANK];
  strided_packed(x->dims, x->rank, packed);
  fam_int(plan, pass, "DEPTH", depth);
  fam_int(plan, pass, "SLICE",
          fam_product(x->dims, first + (uint32_t)depth, x->rank));
  fam_dims(plan, pass, "SIZES", depth, x->dims + first);
  fam_dims(plan, pass, "STEPS", depth, packed + first);
}

void fam_plan_gather_nd(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *indices = &op->in[1];
  uint32_t batch_dims = (uint32_t)fam_attr(op, "batch_dims", 0);
  int64_t depth = indices->rank ? indices->dims[indices->rank - 1] : 0;
  int64_t batches = fam_product(x->dims, 0, batch_dims);
  int64_t tuples = depth ? indices->count / depth : 0;
  kd_dtype bits = fam_bits(x->dtype);
  if (!depth && op->out[0].count)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "tuples of nothing");
  if (!indices_fit(op, plan, x->dims + batch_dims, depth)) return;
  fam_pass *pass = fam_begin(plan, "gather_nd");
  fam_items(plan, pass, op->out[0].count);
  fam_int(plan, pass, "PER_BATCH", batches ? tuples / batches : 1);
  fam_int(plan, pass, "BATCH_SIZE", fam_product(x->dims, batch_dims, x->rank));
  use_tuples(plan, pass, x, batch_dims, depth);
  fam_bind(pass, "X", FAM_INPUT, 0, bits);
  fam_in(pass, "INDEX", op, 1);
  fam_bind(pass, "Y", FAM_OUTPUT, 0, bits);
}

/* How an update meets what is there; NULL: it takes its place. */
static bool combine(const fam_op *op, fam_plan *plan, const char **out_text) {
  static const fam_expression rows[] = {
#define COMBINE(reduction, text) {#reduction, #text},
#include "families/rules.def"
      {NULL, NULL}};
  *out_text = fam_rule(op, "reduction", "none", rows);
  if (*out_text || fam_attr_is(op, "reduction", "none", "none")) return true;
  fam_fail(op, plan, KD_UNIMPLEMENTED, "reduction is not known");
  return false;
}

static void bind_scatter(const fam_op *op, fam_pass *pass, const char *text) {
  kd_dtype type = text ? op->in[0].dtype : fam_bits(op->in[0].dtype);
  if (text) fam_define(pass, "COMBINE(p, q)", "(%s)", text);
  fam_in(pass, "INDEX", op, 1);
  fam_bind(pass, "UPDATE", FAM_INPUT, 2, type);
  fam_bind(pass, "Y", FAM_OUTPUT, 0, type);
}

/* One item a line along the axis, which takes its updates in order. */
void fam_plan_scatter_elements(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *indices = &op->in[1];
  uint32_t axis = fam_axis(op, plan, fam_attr(op, "axis", 0), x->rank);
  int64_t packed[KD_MAX_RANK];
  const char *text = NULL;
  if (!combine(op, plan, &text) || !indices_fit(op, plan, &x->dims[axis], 1))
    return;
  if (!indices->count) return;
  strided_packed(x->dims, x->rank, packed);
  fam_pass *pass = fam_begin(plan, "scatter_elements");
  fam_int(plan, pass, "RANK", x->rank);
  fam_items(plan, pass, indices->count / indices->dims[axis]);
  fam_int(plan, pass, "AXIS", axis);
  fam_int(plan, pass, "DIM", x->dims[axis]);
  fam_dims(plan, pass, "DIMS", indices->rank, indices->dims);
  fam_dims(plan, pass, "STEPS", x->rank, packed);
  bind_scatter(op, pass, text);
}

/* One item an element of a slice, which takes its updates in order. */
void fam_plan_scatter_nd(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *indices = &op->in[1];
  int64_t depth = indices->rank ? indices->dims[indices->rank - 1] : 0;
  const char *text = NULL;
  if (!combine(op, plan, &text) || !indices_fit(op, plan, x->dims, depth))
    return;
  if (!depth || !indices->count) return;
  fam_pass *pass = fam_begin(plan, "scatter_nd");
  fam_items(plan, pass, fam_product(x->dims, (uint32_t)depth, x->rank));
  fam_int(plan, pass, "TUPLES", indices->count / depth);
  use_tuples(plan, pass, x, 0, depth);
  bind_scatter(op, pass, text);
}
