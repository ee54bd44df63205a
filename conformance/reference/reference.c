/* reference.c - finding ops, reading attributes, compensated sums. */
#include "reference/reference.h"

#include <math.h>
#include <string.h>

static const struct {
  const ref_op *ops;
  const uint32_t *count;
} tables[] = {
    {ref_elementwise, &ref_elementwise_count},
    {ref_data, &ref_data_count},
    {ref_math, &ref_math_count},
    {ref_product, &ref_product_count},
    {ref_nn, &ref_nn_count},
    {ref_attention, &ref_attention_count},
    {ref_einsum, &ref_einsum_count},
    {ref_recurrent, &ref_recurrent_count},
    {ref_spectral, &ref_spectral_count},
    {ref_vision, &ref_vision_count},
    {ref_own, &ref_own_count},
};

const ref_op *ref_at(uint32_t index) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    if (index < *tables[i].count) return &tables[i].ops[index];
    index -= *tables[i].count;
  }
  return NULL;
}

const ref_op *ref_find(const char *domain, const char *name) {
  bool standard = !domain || !*domain || !strcmp(domain, "ai.onnx");
  const ref_op *op = NULL;
  for (uint32_t i = 0; (op = ref_at(i)); i++)
    if (!strcmp(op->name, name) &&
        (op->domain ? domain && !strcmp(op->domain, domain) : standard))
      return op;
  return NULL;
}

int64_t ref_int(const ref_call *call, const char *name, int64_t fallback) {
  return call->read->attr_int(call->node, name, fallback);
}

float ref_float(const ref_call *call, const char *name, float fallback) {
  return call->read->attr_float(call->node, name, fallback);
}

bool ref_text_is(const ref_call *call, const char *name, const char *fallback,
                 const char *value) {
  return !strcmp(call->read->attr_string(call->node, name, fallback), value);
}

int64_t ref_ints(const ref_call *call, const char *name, int64_t *out,
                 int64_t capacity) {
  const int64_t *values = NULL;
  int64_t count = call->read->attr_ints(call->node, name, &values);
  for (int64_t i = 0; i < count && i < capacity; i++)
    out[i] = values[i];
  return count < capacity ? count : capacity;
}

uint32_t ref_axis(int64_t axis, uint32_t rank) {
  return (uint32_t)(axis < 0 ? axis + rank : axis);
}

real ref_spread(const ref_sum *sum) {
  if (!isfinite(sum->squares)) return 0;
  return sqrtl((real)sum->terms) *
         (sqrtl(sum->squares) + fabsl(ref_total(sum)));
}

void ref_put(value *out, int64_t index, const ref_sum *sum, real scale) {
  real x = ref_total(sum) * scale;
  if (!dtype_is_float(out->dtype)) {
    out->x[index] = dtype_round(x, out->dtype);
    return;
  }
  out->x[index] = x;
  out->ulps = 1;
  if (value_slack(out)) out->slack[index] = 4 * ref_spread(sum) * fabsl(scale);
}
