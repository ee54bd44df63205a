/* reduce.c - ops over lines of a tensor: reductions, norms, order. */
#include <string.h>

#include "families/map.h" /* before lines.h: it sets how many operands there are */

#include "families/lines.h"
#include "families/rows.h"

#define WIDE_FROM 256 /* elements that are worth a group; */
#define NEAR_FROM \
  64                /* where they are neighbours, and the device takes crowds */
#define WIDE  64u   /* its size, */
#define WARP  32u   /* where the device takes crowds: from so many on, */
#define CROWD 1024u /* and at most where the device takes crowds */

/* ---- lines -------------------------------------------------------------------------- */

/* Splits x's dimensions; returns how many elements a line has, and whether they are
 * neighbours. */
static int64_t split_dims(fam_plan *plan, fam_pass *pass, const fam_tensor *x,
                          const bool *gone, bool *out_close) {
  strided kept, left;
  lines_split(x->dims, x->rank, gone, &kept, &left);
  fam_int(plan, pass, "KEPT", kept.rank);
  fam_int(plan, pass, "GONE", left.rank);
  fam_dims(plan, pass, "KEPT_DIMS", kept.rank, kept.dims);
  fam_dims(plan, pass, "KEPT_STEPS", kept.rank, kept.steps[0]);
  fam_dims(plan, pass, "GONE_DIMS", left.rank, left.dims);
  fam_dims(plan, pass, "GONE_STEPS", left.rank, left.steps[0]);
  fam_int(plan, pass, "COUNT", strided_count(&left));
  if (left.rank == 1) fam_define(pass, "EVENLY", "1"); /* spares divisions */
  *out_close = left.rank == 1 && left.steps[0][0] == 1;
  return strided_count(&left);
}

/* Whether each line gets a group: items that take neighbouring lines would read far apart. */
static bool is_wide(const fam_plan *plan, int64_t count, bool close) {
  return count >= (plan->crowds && close ? NEAR_FROM : WIDE_FROM);
}

/* Of a group for a line of so many elements: each item has four of many. */
static uint32_t group_of(const fam_plan *plan, int64_t count) {
  uint32_t group = plan->crowds ? WARP : WIDE;
  while (plan->crowds && group < CROWD && count >= (int64_t)group * 8)
    group *= 2;
  return group;
}

/* Lines by groups where they are long, else by items. `close`: a line's elements are
 * neighbours. */
static void by_lines(fam_plan *plan, fam_pass *pass, int64_t lines,
                     int64_t count, bool close, kd_dtype compute) {
  if (!is_wide(plan, count, close)) {
    fam_items(plan, pass, lines);
    return;
  }
  fam_define(pass, "WIDE", "1");
  pass->vec4 = plan->vec4 && close && count % 4 == 0;
  if (pass->vec4) fam_define(pass, "VEC4", "1");
  uint32_t group = group_of(plan, count);
  fam_share(pass, "part", compute, group);
  fam_int(plan, pass, "ITEMS", lines);
  fam_groups(pass, lines, group);
}

/* What the sums of a group's items have lost. */
static void share_losses(fam_plan *plan, fam_pass *pass, int64_t count,
                         bool close) {
  if (is_wide(plan, count, close))
    fam_share(pass, "losses", KD_F32, group_of(plan, count));
}

kd_dtype fam_mean_type(const fam_plan *plan, kd_dtype dtype) {
  return plan->float64 ? KD_F64 : fam_compute(dtype);
}

void fam_define_mean(const fam_plan *plan, fam_pass *pass, kd_dtype dtype) {
  if (plan->float64) return;
  fam_define(pass, "PAIRED", "1");
  fam_define(pass, "ODD", "%d", dtype != KD_F32);
}

const char *fam_store_once(kd_dtype from, kd_dtype to) {
  return from == KD_F64 && to == KD_BF16 ? "REAL_TO_BF16(f64, s)" : "s";
}

static kd_dtype wide_type(kd_dtype dtype) {
  return dtype == KD_F64 ? KD_F64 : KD_F32;
}

/* ---- Reduce* -------------------------------------------------------------------------- */

typedef enum accumulator {
#define ACCUMULATE(name, first, step, join) ACC_##name,
#include "families/rules.def"
} accumulator;

static const struct {
  const char *first, *step, *join;
} accumulators[] = {
#define ACCUMULATE(name, first, step, join) {#first, #step, #join},
#include "families/rules.def"
};

static const struct {
  const char *op;
  accumulator by;
  const char *result;
} reductions[] = {
#define REDUCE(op, accumulator, result) {#op, ACC_##accumulator, #result},
#include "families/rules.def"
};

/* What nothing of the type is smaller or larger than: the result of no elements. */
static void define_bounds(fam_pass *pass, kd_dtype type) {
  static const char *const least[KD_DTYPE_COUNT] = {
      [KD_I8] = "-128", [KD_I16] = "-32768", [KD_I32] = "(-2147483647 - 1)",
      [KD_U8] = "0",    [KD_U16] = "0",      [KD_U32] = "0",
      [KD_U64] = "0",   [KD_BOOL] = "0"};
  static const char *const most[KD_DTYPE_COUNT] = {
      [KD_I8] = "127", [KD_I16] = "32767", [KD_I32] = "2147483647",
      [KD_U8] = "255", [KD_U16] = "65535", [KD_U32] = "0xffffffffu",
      [KD_U64] = "-1", [KD_BOOL] = "1"};
  if (fam_is_float(type)) {
    fam_define(pass, "LEAST", "(-CAST(V, INF))");
    fam_define(pass, "MOST", "CAST(V, INF)");
  } else if (type == KD_I64) {
    fam_define(pass, "LEAST", "(CAST(V, 1) << CAST(V, 63))");
    fam_define(pass, "MOST", "(~(CAST(V, 1) << CAST(V, 63)))");
  } else {
    fam_define(pass, "LEAST", "CAST(V, %s)", least[type]);
    fam_define(pass, "MOST", "CAST(V, %s)", most[type]);
  }
}

static void define_finish(fam_pass *pass, const char *result, kd_dtype from,
                          kd_dtype to) {
  fam_define(pass, "RESULT(s)", "(%s)", result);
  fam_define(pass, "STORED(s)", "(%s)", fam_store_once(from, to));
  fam_define(pass, "FINISH(s)", "STORED(RESULT(s))");
}

static bool read_axes(const fam_op *op, fam_plan *plan, bool *gone) {
  int64_t axes[KD_MAX_RANK];
  int64_t count = fam_host_ints(op, plan, 1, axes, KD_MAX_RANK);
  if (count < 0) return false;
  for (uint32_t d = 0; d < op->in[0].rank; d++)
    gone[d] = count == 0 && !fam_attr(op, "noop_with_empty_axes", 0);
  for (int64_t i = 0; i < count; i++)
    gone[fam_axis(op, plan, axes[i], op->in[0].rank)] = true;
  return plan->status == KD_OK;
}

void fam_plan_reduce(const fam_op *op, fam_plan *plan) {
  size_t r = 0;
  bool gone[KD_MAX_RANK] = {false}, real = fam_is_float(op->in[0].dtype);
  kd_dtype compute = fam_compute(op->in[0].dtype);
  if (!real) /* a mean's sum does not wrap */
    compute = fam_is_signed(compute) ? KD_I64 : KD_U64;
  while (strcmp(reductions[r].op, op->row->op) != 0)
    r++;
  accumulator by = reductions[r].by;
  bool mean = !strcmp(op->row->op, "ReduceMean");
  bool halves = mean && !real && kd_dtype_size(op->in[0].dtype) == 8;
  if (mean && real) compute = fam_mean_type(plan, op->in[0].dtype);
  bool logs = !strncmp(op->row->op, "ReduceLog", 9);
  bool rooted = logs || !strcmp(op->row->op, "ReduceL2");
  if (rooted && !real) {
    if (!plan->float64) FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "needs f64");
    compute = KD_F64;
  }
  if (!real && !rooted && !plan->int64)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED,
               "integers, without i64 to sum them in");
  if (logs && !fam_need_math(op, plan, compute)) return;
  if (!read_axes(op, plan, gone)) return;
  bool any =
      false; /* over nothing, only squares, roots and logarithms are left */
  for (uint32_t d = 0; d < op->in[0].rank; d++)
    any |= gone[d];
  bool same = by == ACC_largest || by == ACC_smallest || by == ACC_product ||
              by == ACC_powers || (by == ACC_sum && !logs);
  if (!any && op->in[0].rank && fam_attr(op, "noop_with_empty_axes", 0) &&
      same) {
    fam_plan_expand(op, plan);
    return;
  }
  fam_pass *pass = fam_begin(plan, "reduce");
  fam_define(pass, "V", "%s", kd_dtype_name(compute));
  fam_define(pass, "INIT", "(%s)", accumulators[by].first);
  fam_define(pass, "TAKE(s, x)", "(%s)", accumulators[by].step);
  fam_define(pass, "JOIN(s, x)", "(%s)", accumulators[by].join);
  bool paired = mean && real && !plan->float64;
  define_finish(pass, halves || paired ? "s" : reductions[r].result, compute,
                op->out[0].dtype);
  if (mean && real) fam_define_mean(plan, pass, op->out[0].dtype);
  if (halves) {
    fam_define(pass, "BY_HALVES", "1");
    fam_define(pass, "BELOW_ZERO(x)",
               compute == KD_I64 ? "((x) >> CAST(V, 63))" : "CAST(V, 0)");
  }
  fam_define(pass, "PARTS", real ? "COUNT" : "(COUNT > 0 ? COUNT : 1)");
  if (by == ACC_powers) fam_define(pass, "BY_MOST", "1");
  /* by the sign's bits: lavapipe 22.3 compares extended integers wrongly */
  fam_define(pass, "ABS(x)",
             real                ? "FN(fabs)(x)"
             : compute == KD_I64 ? "(((x) ^ ((x) >> 63)) - ((x) >> 63))"
                                 : "(x)");
  define_bounds(pass, real ? compute : op->in[0].dtype);
  bool close = false;
  int64_t count = split_dims(plan, pass, &op->in[0], gone, &close);
  by_lines(plan, pass, op->out[0].count, count, close, compute);
  if (paired) share_losses(plan, pass, count, close);
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
}

bool fam_need_power(const fam_op *op, fam_plan *plan, kd_dtype compute) {
  return fam_attr(op, "p", 2) <= 2 || fam_need_math(op, plan, compute);
}

void fam_define_power(const fam_op *op, fam_plan *plan, fam_pass *pass) {
  int64_t p = fam_attr(op, "p", 2);
  fam_define(pass, "POWER(x)",
             p == 2   ? "((x) * (x))"
             : p == 1 ? "(x)"
                      : "FN(pow)((x), CAST(V, EXPONENT))");
  fam_define(pass, "ROOT(x)",
             p == 2   ? "FN(sqrt)(x)"
             : p == 1 ? "(x)"
                      : "FN(pow)((x), CAST(V, 1) / CAST(V, EXPONENT))");
  fam_int(plan, pass, "EXPONENT", p);
}

/* A plane is a line. Of planes without elements the pool's result is that of no window. */
void fam_plan_global_pool(const fam_op *op, fam_plan *plan) {
  static const struct {
    const char *init, *take, *join, *finish;
  } kinds[] = {
      {"LEAST", "LARGER(s, x)", "LARGER(s, x)", "s"},
      {"CAST(V, 0)", "s + x", "s + x", "s / CAST(V, COUNT)"},
      {"CAST(V, 0)", "s + POWER(FN(fabs)(x))", "s + x", "ROOT(s)"},
  };
  const fam_tensor *x = &op->in[0];
  const uint32_t kind = op->row->number;
  const kd_dtype compute =
      kind == 1 ? fam_mean_type(plan, x->dtype) : fam_compute(x->dtype);
  bool gone[KD_MAX_RANK] = {false}, close = false;
  if (x->rank < 2 || !fam_product(x->dims, 2, x->rank)) {
    fam_plan_pool(op, plan);
    return;
  }
  for (uint32_t d = 2; d < x->rank; d++)
    gone[d] = true;
  if (kind == 2 && !fam_need_power(op, plan, compute)) return;
  fam_pass *pass = fam_begin(plan, "reduce");
  fam_define(pass, "V", "%s", kd_dtype_name(compute));
  fam_define(pass, "INIT", "(%s)", kinds[kind].init);
  fam_define(pass, "TAKE(s, x)", "(%s)", kinds[kind].take);
  fam_define(pass, "JOIN(s, x)", "(%s)", kinds[kind].join);
  bool paired = kind == 1 && !plan->float64;
  define_finish(pass, paired ? "s" : kinds[kind].finish, compute, x->dtype);
  if (kind == 1) fam_define_mean(plan, pass, x->dtype);
  if (kind == 2) fam_define_power(op, plan, pass);
  define_bounds(pass, compute);
  int64_t count = split_dims(plan, pass, x, gone, &close);
  by_lines(plan, pass, op->out[0].count, count, close, compute);
  if (paired) share_losses(plan, pass, count, close);
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
}

/* ---- along an axis -------------------------------------------------------------------- */

/* N and STEP; returns how many lines there are. */
static int64_t axis_lines(const fam_op *op, fam_plan *plan, fam_pass *pass,
                          uint32_t axis) {
  lines all = lines_along(op->in[0].dims, op->in[0].rank, axis);
  fam_int(plan, pass, "N", all.length);
  fam_int(plan, pass, "STEP", all.step);
  return all.length ? all.count : 0;
}

/* Where each item of a group has found its best. */
static void share_places(fam_plan *plan, fam_pass *pass, int64_t n,
                         bool close) {
  if (is_wide(plan, n, close))
    fam_share(pass, "place", KD_I32, group_of(plan, n));
}

void fam_plan_softmax(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  kd_dtype compute = wide_type(x->dtype);
  uint32_t axis =
      x->rank ? fam_axis(op, plan, fam_attr(op, "axis", -1), x->rank) : 0;
  if (op->row->number != 2 && !fam_need_math(op, plan, compute)) return;
  fam_pass *pass = fam_begin(plan, "softmax");
  fam_define(pass, "V", "%s", kd_dtype_name(compute));
  fam_define(pass, "KIND", "%u", op->row->number);
  int64_t lines = axis_lines(op, plan, pass, axis);
  int64_t n = lines ? x->count / lines : 0;
  bool close = x->rank && axis == x->rank - 1;
  by_lines(plan, pass, lines, n, close, compute);
  share_places(plan, pass, n, close);
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
}

/* BEATS(x, y) */
static void define_order(fam_pass *pass, const char *name) {
  static const fam_expression orders[] = {
#define ORDER(name, text) {#name, #text},
#include "families/rules.def"
  };
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    if (!strcmp(orders[i].name, name))
      fam_define(pass, "BEATS(x, y)", "(%s)", orders[i].text);
}

void fam_plan_arg(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  bool last = fam_attr(op, "select_last_index", 0) != 0;
  uint32_t axis =
      x->rank ? fam_axis(op, plan, fam_attr(op, "axis", 0), x->rank) : 0;
  fam_pass *pass = fam_begin(plan, "arg");
  define_order(pass, op->row->op);
  fam_define(pass, "BETTER(x, y)", last ? "!BEATS(y, x)" : "BEATS(x, y)");
  fam_define(pass, "BEFORE(i, j)", last ? "((i) > (j))" : "((i) < (j))");
  int64_t lines = axis_lines(op, plan, pass, axis);
  int64_t n = lines ? x->count / lines : 0;
  bool close = x->rank && axis == x->rank - 1;
  by_lines(plan, pass, lines, n, close, fam_compute(x->dtype));
  pass->vec4 = false; /* the kernel reads one by one */
  share_places(plan, pass, n, close);
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
}

void fam_plan_cum_sum(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  int64_t axis = 0;
  if (fam_host_ints(op, plan, 1, &axis, 1) < 0) return;
  fam_pass *pass = fam_begin(plan, "cum_sum");
  fam_define(pass, "V", "%s", kd_dtype_name(fam_compute(x->dtype)));
  fam_define(pass, "REVERSE", "%d", fam_attr(op, "reverse", 0) != 0);
  fam_define(pass, "PRODUCT", "%d", !strcmp(op->row->op, "CumProd"));
  fam_define(pass, "EXCLUSIVE", "%d", fam_attr(op, "exclusive", 0) != 0);
  fam_items(plan, pass,
            axis_lines(op, plan, pass, fam_axis(op, plan, axis, x->rank)));
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
}

void fam_plan_top_k(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  uint32_t axis = fam_axis(op, plan, fam_attr(op, "axis", -1), x->rank);
  if (op->out_count < 2 || !op->out[0].dtype || !op->out[1].dtype)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "with one output");
  fam_pass *pass = fam_begin(plan, "top_k");
  define_order(pass, fam_attr(op, "largest", 1) ? "descending" : "ascending");
  axis_lines(op, plan, pass, axis);
  fam_items(plan, pass, x->count);
  fam_int(plan, pass, "K", op->out[0].dims[axis]);
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
  fam_out(pass, "PLACE", op, 1);
}

/* ---- norms ------------------------------------------------------------------------------ */

static fam_pass *begin_norm(const fam_op *op, fam_plan *plan, int kind,
                            const bool *gone) {
  const fam_tensor *x = &op->in[0];
  kd_dtype compute = wide_type(x->dtype);
  fam_pass *pass = fam_begin(plan, "norm");
  fam_define(pass, "V", "%s", kd_dtype_name(compute));
  fam_define(pass, "KIND", "%d", kind);
  bool close = false;
  int64_t count = split_dims(plan, pass, x, gone, &close);
  by_lines(plan, pass, count ? x->count / count : 0, count, close, compute);
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
  return pass;
}

void fam_plan_layer_norm(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  bool gone[KD_MAX_RANK] = {false};
  uint32_t axis = fam_axis(op, plan, fam_attr(op, "axis", -1), x->rank);
  int64_t count = fam_product(x->dims, axis, x->rank);
  for (uint32_t d = axis; d < x->rank; d++)
    gone[d] = true;
  for (uint32_t i = 1; i < 3; i++)
    if (fam_has(op, i) && op->in[i].count != count && op->in[i].count != 1)
      FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "a scale that is broadcast");
  fam_pass *pass = begin_norm(op, plan, 0, gone);
  fam_real(pass, "EPSILON", fam_attr_real(op, "epsilon", 1e-5));
  fam_define(pass, "SCALE_AT", op->in[1].count == 1 ? "0" : "i");
  fam_in(pass, "SCALE", op, 1);
  if (fam_has(op, 2)) {
    fam_define(pass, "SHIFT_AT", op->in[2].count == 1 ? "0" : "i");
    fam_in(pass, "SHIFT", op, 2);
  }
  if (op->out_count > 1 && op->out[1].dtype) {
    fam_define(pass, "HAS_MEAN", "1");
    fam_out(pass, "MEAN", op, 1);
  }
  if (op->out_count > 2 && op->out[2].dtype) {
    fam_define(pass, "HAS_INV", "1");
    fam_out(pass, "INV", op, 2);
  }
}

/* Scale has some of the last dimensions, or ones before them. */
void fam_plan_rms_norm(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  bool gone[KD_MAX_RANK] = {false};
  uint32_t axis = fam_axis(op, plan, fam_attr(op, "axis", -1), x->rank);
  for (uint32_t d = axis; d < x->rank; d++)
    gone[d] = true;
  fam_pass *pass = begin_norm(op, plan, 4, gone);
  fam_real(pass, "EPSILON", fam_attr_real(op, "epsilon", 1e-5));
  fam_int(plan, pass, "SCALES", op->in[1].count);
  fam_define(pass, "SCALE_AT", "i %% SCALES");
  fam_in(pass, "SCALE", op, 1);
}

void fam_plan_instance_norm(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  bool gone[KD_MAX_RANK] = {false};
  if (x->rank < 2 || op->in[1].count != x->dims[1] ||
      op->in[2].count != x->dims[1])
    FAM_REFUSE(op, plan, KD_INVALID_ARGUMENT,
               "scale and B need one element a"
               " channel");
  for (uint32_t d = 2; d < x->rank; d++)
    gone[d] = true;
  fam_pass *pass = begin_norm(op, plan, 0, gone);
  fam_real(pass, "EPSILON", fam_attr_real(op, "epsilon", 1e-5));
  fam_int(plan, pass, "CHANNELS", x->dims[1]);
  fam_define(pass, "SCALE_AT", "line %% CHANNELS");
  fam_define(pass, "SHIFT_AT", "line %% CHANNELS");
  fam_in(pass, "SCALE", op, 1);
  fam_in(pass, "SHIFT", op, 2);
}

/* A line is a group: neighbouring channels of an image. */
void fam_plan_group_norm(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  static const bool gone[2] = {false, true};
  int64_t groups = fam_attr(op, "num_groups", 1);
  int64_t lines = x->count ? x->dims[0] * groups : 0;
  fam_op flat = *op;
  flat.in[0].rank = 2;
  flat.in[0].dims[0] = lines;
  flat.in[0].dims[1] = lines ? x->count / lines : 1;
  fam_pass *pass = begin_norm(&flat, plan, 0, gone);
  fam_real(pass, "EPSILON", fam_attr_real(op, "epsilon", 1e-5));
  fam_int(plan, pass, "CHANNELS", x->dims[1]);
  fam_int(plan, pass, "EACH_GROUP", x->dims[1] / groups);
  fam_int(plan, pass, "SPACE", fam_product(x->dims, 2, x->rank));
  fam_define(pass, "SCALE_AT", "((line * EACH_GROUP + i / SPACE) %% CHANNELS)");
  fam_define(pass, "SHIFT_AT", "((line * EACH_GROUP + i / SPACE) %% CHANNELS)");
  fam_in(pass, "SCALE", op, 1);
  fam_in(pass, "SHIFT", op, 2);
}

void fam_plan_mvn(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  int64_t axes[KD_MAX_RANK] = {0, 2, 3};
  int64_t count = fam_attr_list(op, "axes", axes, KD_MAX_RANK);
  bool gone[KD_MAX_RANK] = {false};
  for (int64_t i = 0; i < (count < 0 ? 3 : count); i++)
    gone[fam_axis(op, plan, axes[i], x->rank)] = true;
  begin_norm(op, plan, 1, gone);
}

void fam_plan_lp_norm(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  bool gone[KD_MAX_RANK] = {false};
  int64_t p = fam_attr(op, "p", 2);
  if (p != 1 && p != 2)
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "p is %lld", (long long)p);
  gone[fam_axis(op, plan, fam_attr(op, "axis", -1), x->rank)] = true;
  begin_norm(op, plan, p == 1 ? 2 : 3, gone);
}

void fam_plan_lrn(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0];
  int64_t size = fam_attr(op, "size", 1);
  if (x->rank < 2 || size < 1)
    FAM_REFUSE(op, plan, KD_INVALID_ARGUMENT, "needs channels and a size");
  if (!fam_need_math(op, plan, wide_type(x->dtype))) return;
  fam_pass *pass = fam_begin(plan, "lrn");
  fam_define(pass, "V", "%s", kd_dtype_name(wide_type(x->dtype)));
  fam_items(plan, pass, x->count);
  fam_int(plan, pass, "CHANNELS", x->dims[1]);
  fam_int(plan, pass, "INNER", fam_product(x->dims, 2, x->rank));
  fam_int(plan, pass, "BEFORE", (size - 1) / 2);
  fam_int(plan, pass, "BEHIND", size / 2);
  fam_real(pass, "ALPHA", fam_attr_real(op, "alpha", 1e-4));
  fam_int(plan, pass, "SIZE", size);
  fam_real(pass, "BIAS", fam_attr_real(op, "bias", 1));
  fam_real(pass, "BETA", fam_attr_real(op, "beta", 0.75));
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
}
