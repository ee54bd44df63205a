/* runtime.h - runtime ops, which work on every device: views of data, shapes, and values
 * that are not tensors. */
#ifndef KEEL_RUNTIME_H
#define KEEL_RUNTIME_H

#include "ops/node.h"

/* Arguments of a runtime op. The caller owns the outputs that it sets. */
struct keel_host_call {
  keel_context *context;
  const keel_opdef *op;
  const char *where;
  keel_device *scope;
  uint32_t input_count, output_count;
  keel_tensor *const *inputs;
  keel_tensor **outputs;
  const keel_type *const *types; /* of the outputs; NULL: not inferred */
  struct keel_executable *const *graphs; /* by attribute of the op */
  const keel_type *part;                 /* of keel::Part */
  /* Of a Call: inputs may have failed, and outputs are handed out; and by input, whether it is
   * donated to the run, or NULL. */
  bool partial;
  const bool *donated;
  /* keel_call, for work that a kernel does better */
  keel_status (*run_op)(keel_context *context, const char *name,
                        const keel_attr *attrs, uint32_t attr_count,
                        keel_tensor *const *inputs, uint32_t input_count,
                        keel_tensor **outputs, uint32_t output_count);
};

keel_status keel_run_identity(keel_host_call *call);
keel_status keel_run_copy(keel_host_call *call);
keel_status keel_run_view(keel_host_call *call);
keel_status keel_run_part(keel_host_call *call);
keel_status keel_run_shape(keel_host_call *call);
keel_status keel_run_size(keel_host_call *call);
keel_status keel_run_constant(keel_host_call *call);
keel_status keel_run_broadcast_axes(keel_host_call *call);

/* Fails with "Op \"node\": " and the text. */
keel_status keel_call_fail(const keel_host_call *call, keel_status status,
                           const char *format, ...) KD_PRINTF(3, 4);

/* The integer value of a scalar input; `fallback` if it is absent. */
keel_status keel_call_int(const keel_host_call *call, uint32_t index,
                          int64_t fallback, int64_t *out_value);

#endif /* KEEL_RUNTIME_H */
