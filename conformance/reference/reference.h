/* reference.h - what each op is, computed with long double and compensated
 * sums; no code is shared with any plugin.
 *
 * Semantics are those of ONNX's operator documents (onnx/docs/Operators.md) at
 * the opset that the node states. */
#ifndef KC_REFERENCE_H
#define KC_REFERENCE_H

#include <math.h>

#include "reference/value.h"

/* One use of an op. Outputs come with type and shape, but for ops whose shape
 * depends on data: those get `out[i]` NULL and make their own. */
typedef struct ref_call {
  const kd_node_table *read;
  const kd_node *node;
  const value *const *in; /* NULL: absent */
  uint32_t in_count;
  value **out; /* NULL: not asked for, unless the op is dynamic */
  uint32_t out_count;
  uint32_t variant; /* of the op's row */
} ref_call;

/* What can be said of an op's results. */
typedef enum ref_kind {
  REF_EXACT, /* bit for bit */
  REF_ULP,   /* elementwise floating point */
  REF_SUM,   /* accumulates */
  REF_QUANT, /* rounds to steps */
} ref_kind;

typedef struct ref_op {
  const char *domain, *name;
  ref_kind kind;
  uint32_t variant;
  /* False where the reference does not do this node. */
  bool (*run)(ref_call *call);
  bool dynamic;
} ref_op;

const ref_op *ref_find(const char *domain, const char *name);
const ref_op *ref_at(uint32_t index); /* NULL past the last */

/* What an elementwise op is tried with: ranges as cases write them, "(-1,1)"; "": any. */
typedef struct ref_operands {
  const char *op, *attrs;
  const char *a, *b; /* a NULL: nothing here; b NULL: an op of one operand */
} ref_operands;
extern const ref_operands ref_operands_of[];
extern const uint32_t ref_operands_count;

/* ---- for the ops' own files --------------------------------------------------- */

extern const ref_op ref_elementwise[], ref_data[], ref_math[], ref_product[],
    ref_nn[], ref_einsum[], ref_recurrent[], ref_spectral[], ref_vision[],
    ref_attention[], ref_own[];
extern const uint32_t ref_elementwise_count, ref_data_count, ref_math_count,
    ref_product_count, ref_nn_count, ref_einsum_count, ref_recurrent_count,
    ref_spectral_count, ref_vision_count, ref_attention_count, ref_own_count;

static inline const value *ref_in(const ref_call *call, uint32_t index) {
  return index < call->in_count ? call->in[index] : NULL;
}
static inline value *ref_out(const ref_call *call, uint32_t index) {
  return index < call->out_count ? call->out[index] : NULL;
}
int64_t ref_int(const ref_call *call, const char *name, int64_t fallback);
float ref_float(const ref_call *call, const char *name, float fallback);
bool ref_text_is(const ref_call *call, const char *name, const char *fallback,
                 const char *value);
/* A list of ints, at most `room`; -1 where it is absent. */
int64_t ref_ints(const ref_call *call, const char *name, int64_t *out,
                 int64_t capacity);
uint32_t ref_axis(int64_t axis, uint32_t rank);

/* A sum whose rounding errors are summed too (Neumaier, 1974), with the sum of
 * squares that its error bound is made of. */
typedef struct ref_sum {
  real sum, error, squares;
  int64_t terms;
} ref_sum;
static inline void ref_add(ref_sum *sum, real term) {
  real total = sum->sum + term, added = total - sum->sum;
  /* exactly what the addition lost; without a branch, which would be mispredicted */
  sum->error += (sum->sum - (total - added)) + (term - added);
  sum->sum = total;
  sum->squares += term * term;
  sum->terms++;
}
static inline real ref_total(const ref_sum *sum) {
  return isfinite(sum->sum) ? sum->sum + sum->error : sum->sum;
}
/* sqrt(k) (sqrt Q + |r|): a correct sum's error stays within four times it, in
 * unit roundoffs. */
real ref_spread(const ref_sum *sum);
/* The attribute "activation" of keel::FusedMatMul and DepthwiseConv, of a sum; and the slack
 * of its result y, from that of the sum x: it goes through a slope of 1.2 at most. */
real ref_activated(const ref_call *call, real x);
real ref_activated_slack(const ref_call *call, real slack, real x, real y);

/* Stores a sum, scaled, with its slack. */
void ref_put(value *out, int64_t index, const ref_sum *sum, real scale);

/* Rounds to even, adds the zero point, saturates; one step of room at a tie. */
void ref_quantize(value *out, int64_t at, real x, real zero);

#endif /* KC_REFERENCE_H */
