/* rows.h - the families' plans, for table.c and for each other. */
#ifndef KEEL_FAMILIES_ROWS_H
#define KEEL_FAMILIES_ROWS_H

#include "families/family.h"

#define FAM_PLAN(name) void fam_plan_##name(const fam_op *op, fam_plan *plan);

/* clang-format off */
#define FAM_PLANS(X) \
  X(arg) X(attention) X(batch_norm) X(binary) X(cast) X(clip) X(concat) X(constant) \
  X(conv) X(conv_integer) X(conv_transpose) X(cum_sum) X(depth_to_space) \
  X(dequantize) X(expand) X(eye) X(gather) X(gather_elements) X(gather_nd) \
  X(gelu) X(gemm) X(global_pool) X(group_norm) \
  X(group_query_attention) X(instance_norm) X(is_inf) X(is_nan) X(layer_norm) \
  X(lp_norm) X(lrn) X(matmul) X(matmul_integer) X(matmul_nbits) X(mod) X(mvn) X(not) \
  X(one_hot) X(pad) X(pool) X(pow) X(qlinear_conv) X(qlinear_matmul) \
  X(quantize) X(range) X(reduce) X(resize) X(reverse_sequence) X(rms_norm) \
  X(scatter_elements) X(scatter_nd) X(shift) X(slice) X(softmax) \
  X(space_to_depth) X(split) X(tile) X(top_k) X(transpose) X(trilu) \
  X(unary) X(variadic) X(where) X(window)
/* clang-format on */
FAM_PLANS(FAM_PLAN)

/* POWER(x) and ROOT(x) of the Lp pools, by their attribute p; whether the device has what they
 * take, else the plan fails. */
bool fam_need_power(const fam_op *op, fam_plan *plan, kd_dtype compute);
void fam_define_power(const fam_op *op, fam_plan *plan, fam_pass *pass);

#endif /* KEEL_FAMILIES_ROWS_H */
