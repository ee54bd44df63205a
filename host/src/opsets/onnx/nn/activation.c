/* activation.c - activations that products and convolutions end with. */
#include "opsets/onnx/passes.h"

/* x * Sigmoid(x): `mul` is the product, and nothing else reads its operands. */
static bool is_silu(const keel_function *function, const keel_uses *uses,
                    const keel_node *mul, uint32_t x, uint32_t *out_gate) {
  uint32_t gate = mul->inputs[mul->inputs[0] == x];
  *out_gate =
      gate == KEEL_ABSENT ? KEEL_ABSENT : function->values[gate].producer;
  const keel_node *sigmoid =
      *out_gate == KEEL_ABSENT ? NULL : &function->nodes[*out_gate];
  return sigmoid && keel_pass_is(sigmoid, "Sigmoid") &&
         sigmoid->inputs[0] == x && uses->counts[gate] == 1;
}

bool keel_pass_activation(const keel_function *function, const keel_uses *uses,
                          uint32_t value, const keel_device *device,
                          keel_activation *out) {
  uint32_t at = uses->reader[value], count = uses->counts[value];
  const keel_node *next = at == KEEL_ABSENT ? NULL : &function->nodes[at];
  *out = (keel_activation){.last = at, .gate = KEEL_ABSENT};
  if (!next || next->device != device || next->output_count != 1) return false;
  if (count == 1 && keel_pass_is(next, "Relu")) {
    out->name = "Relu";
  } else if (count == 1 && keel_pass_is(next, "Gelu")) {
    const char *form = keel_attr_string(next->op, "approximate", "none");
    out->name = strcmp(form, "tanh") ? "Gelu" : "GeluTanh";
  } else if (count == 2 && keel_pass_is(next, "Mul") &&
             is_silu(function, uses, next, value, &out->gate)) {
    out->name = "Silu";
  }
  return out->name != NULL;
}
