/* shapes_training.c - shapes of ai.onnx.preview.training: optimisers. */
#include "ops/shapes.h"

/* Inputs R and T, then `groups` lists of as many tensors: X, G and so on; outputs are the lists
 * but G. */
static keel_status trained(keel_infer *infer, uint32_t groups) {
  uint32_t count = infer->input_count < 2 ? 0 : infer->input_count - 2;
  uint32_t each = count / groups;
  if (!each || count % groups || infer->output_count != each * (groups - 1))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "takes %u tensors for each that it trains, and gives"
                           " %u: not %u and %u",
                           (unsigned)groups, (unsigned)groups - 1,
                           (unsigned)count, (unsigned)infer->output_count);
  for (uint32_t i = 2; i < infer->input_count; i++) {
    const keel_type *first = infer->in[2 + (i - 2) % each];
    if (infer->in[i] != first)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "input %u has not the shape of input %u, which it"
                             " belongs to",
                             (unsigned)i, 2 + (unsigned)(i - 2) % each);
  }
  for (uint32_t i = 0; i < infer->output_count; i++) {
    const keel_type *type = infer->in[2 + i % each];
    KEEL_TRY(keel_infer_out(infer, i, type->rank, type->dims));
  }
  return KD_OK;
}

keel_status keel_shape_trained_by_three(keel_infer *infer) {
  return trained(infer, 3);
}

keel_status keel_shape_trained_by_four(keel_infer *infer) {
  return trained(infer, 4);
}
