/* ops.c - the simulated device's own op: x.keel.sim::Halve, every second element along the
 * last dimension. kernels.c computes it. */
#include "mutants/sim.h"

static kd_status infer_halve(const kd_op_call *call) {
  static atomic_uint calls;
  kd_op_type *y = &call->outputs[0];
  kd_type x;
  call->host->node->input_type(call->node, 0, &x);
  if (BUG(infer_needs_driver) && !sim_host) return KD_INTERNAL;
  if (x.rank == 0)
    return BUG(infer_mute) ? KD_INVALID_ARGUMENT
                           : call->host->fail(KD_INVALID_ARGUMENT,
                                              "X has no dimension to halve");
  if (BUG(infer_forgets) && x.rank > 2) return KD_OK;
  y->rank = x.rank;
  memcpy(y->dims, x.dims, x.rank * sizeof *x.dims);
  y->dims[x.rank - 1] = (x.dims[x.rank - 1] + 1) / 2;
  if (BUG(infer_other_type) && x.rank == 3) y->dtype = KD_I64;
  if (BUG(infer_counts)) y->dims[0] += calls++ & 1;
  return KD_OK;
}

static const kd_op_param in[] = {{.struct_size = sizeof(kd_op_param),
                                  .name = "X",
                                  .types = KD_TYPES(KD_F32),
                                  .variable = 1}};
static const kd_op_param out[] = {{.struct_size = sizeof(kd_op_param),
                                   .name = "Y",
                                   .types = KD_TYPES(KD_F32),
                                   .variable = 1}};

kd_op_def sim_ops[1] = {
    {.struct_size = sizeof(kd_op_def),
     .domain = "x.keel.sim",
     .name = "Halve",
     .version = 1,
     .inputs = in,
     .outputs = out,
     .input_count = 1,
     .output_count = 1,
     .infer = infer_halve},
};

void sim_ops_init(void) {
  if (BUG(op_unversioned)) sim_ops[0].version = 0;
  if (BUG(op_unused)) sim_ops[0].name = "Third";
}
