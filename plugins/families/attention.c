/* attention.c - keel::Attention (kernels/attention.k, and its kin). */
#include <string.h>

#include "families/attention.h"
#include "families/rows.h"
#include "families/strided.h"

/* From so many rows, two products by tensor cores and what is between them are faster
 * than one kernel. */
#define APART_FROM 32

static int64_t parts(int64_t whole, int64_t part) {
  return (whole + part - 1) / part;
}

/* The least of 1, 2, 4 ... that is not less than `count`, or `most`. */
static int64_t doubled(int64_t count, int64_t most) {
  int64_t result = 1;
  while (result < count && result < most)
    result *= 2;
  return result;
}

static attention attention_read(const fam_op *op) {
  const fam_tensor *q = &op->in[0], *k = &op->in[1], *v = &op->in[2];
  uint32_t rank = q->rank;
  int64_t heads = q->dims[rank - 3], groups = k->dims[rank - 3];
  return (attention){
      .compute = q->dtype == KD_F64 ? KD_F64 : KD_F32,
      .heads = heads,
      .share = groups ? heads / groups : 1,
      .all = fam_product(q->dims, 0, rank - 2),
      .m = q->dims[rank - 2],
      .d = q->dims[rank - 1],
      .e = v->dims[rank - 1],
      .scale = fam_attr_real(op, "scale", 1),
      .causal = fam_attr(op, "causal", 0) != 0,
      .heads_last = fam_attr(op, "heads_last", 0) != 0,
      .nan_as_zero = fam_attr(op, "nan_as_zero", 0) != 0,
  };
}

void fam_attention_mask(const fam_op *op, fam_plan *plan, fam_pass *pass,
                        uint32_t input, uint32_t rank, const int64_t *dims) {
  const fam_tensor *mask = &op->in[input];
  int64_t steps[KD_MAX_RANK] = {0}, step = 1;
  bool masked = fam_has(op, input);
  for (uint32_t i = mask->rank, d = rank; masked && i-- > 0;) {
    steps[--d] = mask->dims[i] == 1 ? 0 : step;
    step *= mask->dims[i];
  }
  fam_define(pass, "MASK_IS", "%d", !masked ? 0 : steps[rank - 2] ? 2 : 1);
  if (!masked) return;
  fam_int(plan, pass, "LEAD", rank - 3);
  fam_dims(plan, pass, "LEAD_DIMS", rank - 3, dims);
  fam_dims(plan, pass, "MASK_LEAD", rank - 3, steps);
  fam_int(plan, pass, "MASK_HEAD", steps[rank - 3]);
  fam_int(plan, pass, "MASK_ROW", steps[rank - 2]);
  fam_int(plan, pass, "MASK_KEY", steps[rank - 1]);
  fam_in(pass, "MASK", op, input);
}

/* Fails where a group would have to make a row in parts, and must not. */
static void check_span(const fam_op *op, fam_plan *plan, const attention *a,
                       int64_t span) {
  if (a->whole && a->e > span)
    fam_fail(op, plan, KD_UNIMPLEMENTED,
             "heads of %lld numbers: %lld are the most", (long long)a->e,
             (long long)span);
}

/* In vectors of a processor, one item a group. */
static fam_pass *by_vectors(const fam_op *op, fam_plan *plan,
                            const attention *a) {
  fam_pass *pass = fam_begin(plan, "attention_wide");
  const char *type = kd_dtype_name(a->compute);
  int64_t width = plan->wide / (a->compute == KD_F64 ? 2 : 1);
  int64_t rows = a->m == 1 ? 1 : a->m <= 4 ? 4 : plan->wide < 16 ? 6 : 12;
  int64_t block = a->m <= rows ? rows : 48;
  int64_t span = 2 * width * doubled(parts(a->e, 2 * width), 128 / width);
  check_span(op, plan, a, span);
  fam_define(pass, "WIDTH", "%d", (int)width);
  fam_define(pass, "WIDE", "WIDE_%s(WIDTH)", type);
  fam_define(pass, "MAD", "MAD_%s", type);
  fam_define(pass, "ROWS", "%d", (int)rows);
  fam_define(pass, "BLOCK", "%d", (int)block);
  fam_define(pass, "SPAN", "%d", (int)span);
  fam_groups(pass, a->all * parts(a->m, block) * parts(a->e, span), 1);
  return pass;
}

/* By groups, whose items trade what they have. */
static fam_pass *by_groups(const fam_op *op, fam_plan *plan,
                           const attention *a) {
  fam_pass *pass = fam_begin(plan, "attention");
  bool lanes = plan->lanes && a->compute == KD_F32;
  int64_t group = lanes ? plan->lanes : 64;
  int64_t most = (lanes ? 16 : 4) * (a->whole ? 2 : 1);
  int64_t across = doubled(parts(a->e, group), most);
  int64_t rows = doubled(a->m, across == 32 ? 8 : 16);
  bool paired = lanes && plan->int64 && op->in[0].dtype == KD_F32 &&
                a->d % 2 == 0 && a->e % 2 == 0 && across > 1;
  check_span(op, plan, a, group * across);
  fam_define(pass, "LANES", "%d", lanes);
  fam_define(pass, "PAIRED", "%d", paired);
  fam_define(pass, "ROWS", "%d", (int)rows);
  fam_define(pass, "COLUMNS", "%d", lanes ? 4 : 1);
  fam_define(pass, "ACROSS", "%d", (int)across);
  fam_groups(pass, a->all * parts(a->m, rows) * parts(a->e, group * across),
             (uint32_t)group);
  pass->trades = lanes;
  if (lanes) return pass;
  fam_share(pass, "part_q", a->compute, (uint32_t)(rows * 32));
  fam_share(pass, "part_p", a->compute, (uint32_t)(rows * group));
  fam_share(pass, "part_m", a->compute, (uint32_t)group);
  return pass;
}

fam_pass *fam_attention(const fam_op *op, fam_plan *plan, const attention *a) {
  bool wide = plan->wide && !plan->shared;
  fam_pass *pass = wide ? by_vectors(op, plan, a) : by_groups(op, plan, a);
  fam_define(pass, "V", "%s", kd_dtype_name(a->compute));
  fam_define(pass, "CAUSAL", "%d", a->causal);
  fam_define(pass, "NAN_AS_ZERO", "%s", a->nan_as_zero ? "true" : "false");
  fam_int(plan, pass, "HEADS", a->heads);
  fam_int(plan, pass, "SHARE", a->share);
  fam_int(plan, pass, "M", a->m);
  fam_int(plan, pass, "D", a->d);
  fam_int(plan, pass, "E", a->e);
  fam_int(plan, pass, "Y_HEAD", a->heads_last ? a->e : a->m * a->e);
  fam_int(plan, pass, "Y_ROW", a->heads_last ? a->heads * a->e : a->e);
  fam_real(pass, "SCALE", a->scale);
  return pass;
}

void fam_plan_attention(const fam_op *op, fam_plan *plan) {
  const attention a = attention_read(op);
  const fam_tensor *q = &op->in[0];
  plan->rather_products =
      (q->dtype == KD_F16 || q->dtype == KD_BF16) && a.m >= APART_FROM;
  if (!fam_need_math(op, plan, a.compute)) return;
  fam_pass *pass = fam_attention(op, plan, &a);
  fam_define(pass, "GROUPED", "0");
  fam_define(pass, "WINDOWED", "0");
  fam_define(pass, "CAPPED", "0");
  fam_define(pass, "SINK_IS", "0");
  fam_int(plan, pass, "N", op->in[1].dims[q->rank - 2]);
  fam_attention_mask(op, plan, pass, 3, q->rank, q->dims);
  fam_in(pass, "Q", op, 0);
  fam_in(pass, "KEY", op, 1);
  fam_in(pass, "VAL", op, 2);
  fam_out(pass, "Y", op, 0);
}
