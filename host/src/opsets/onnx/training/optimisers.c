/* optimisers.c - optimisers (ai.onnx.preview.training-1), written with elementwise ops, for
 * each of the tensors that they train. */
#include "opsets/tables.h"
#include "opsets/text.h"
#include "passes/passes.h"

/* ---- shapes ---- */

/* Inputs R and T, then `groups` lists of as many tensors: X, G and so on; outputs are the lists
 * but G. */
static keel_status shape_of_groups(keel_infer *infer, uint32_t groups) {
  uint32_t count = infer->input_count < 2 ? 0 : infer->input_count - 2;
  uint32_t each = count / groups;
  if (!each || count % groups || infer->output_count != each * (groups - 1))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "takes %u tensors for each that it trains, and "
                           "returns %u: not %u and %u",
                           (unsigned)groups, (unsigned)groups - 1,
                           (unsigned)count, (unsigned)infer->output_count);
  for (uint32_t i = 2; i < infer->input_count; i++) {
    const keel_type *first = infer->in[2 + (i - 2) % each];
    if (infer->in[i] != first)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT,
          "input %u does not have the shape of input %u, which it belongs to",
          (unsigned)i, 2 + (unsigned)(i - 2) % each);
  }
  for (uint32_t i = 0; i < infer->output_count; i++) {
    const keel_type *type = infer->in[2 + i % each];
    KEEL_TRY(keel_infer_out(infer, i, type->rank, type->dims));
  }
  return KD_OK;
}

keel_status keel_shape_trained_by_three(keel_infer *infer) {
  return shape_of_groups(infer, 3);
}

keel_status keel_shape_trained_by_four(keel_infer *infer) {
  return shape_of_groups(infer, 4);
}

/* ---- in simpler ops ---- */

enum { RATE, STEP, FIRST };

/* X, its gradient and what is kept of former ones; each list has `count`. */
typedef struct trained {
  uint32_t count, rate, step;
} trained;

/* None where the lists do not fit: the shape function reports it, too, once shapes are known. */
static trained read_inputs(keel_emit *all, uint32_t groups) {
  uint32_t x = keel_emit_in(all, FIRST), rate = keel_emit_in(all, RATE);
  uint32_t each =
      x == KEEL_ABSENT ? 0 : (all->node.input_count - FIRST) / groups;
  if (!each || (all->node.input_count - FIRST) % groups ||
      all->node.output_count != each * (groups - 1)) {
    all->status =
        keel_fail(KD_INVALID_ARGUMENT,
                  "%s \"%s\" takes %u tensors for each that it trains,"
                  " not %u",
                  all->node.op->schema->name, all->node.name, (unsigned)groups,
                  (unsigned)all->node.input_count - FIRST);
    return (trained){0, KEEL_ABSENT, KEEL_ABSENT};
  }
  return (trained){
      .count = (all->node.input_count - FIRST) / groups,
      .rate = keel_emit_binary(all, "CastLike", rate, x),
      .step = keel_emit_binary(all, "CastLike", keel_emit_in(all, STEP), x)};
}

/* Tensor `index` of list `group`. */
static uint32_t of_group(const keel_emit *all, const trained *t, uint32_t group,
                         uint32_t index) {
  return keel_emit_in(all, FIRST + group * t->count + index);
}

static void expand_momentum(keel_emit *all) {
  trained t = read_inputs(all, 3);
  uint32_t beta = keel_emit_text(all, "r = %v; Where(%v > 0, @beta~r, 1~r)",
                                 t.rate, t.step);
  for (uint32_t i = 0; i < t.count; i++)
    keel_emit_text(all,
                   "x = %v; g = @norm_coefficient * x + %v;"
                   "v = @alpha * %v + g * %v;"
                   "by = @mode=nesterov ? g + @alpha * v : v;"
                   "%i = x - by * %v; %i = v",
                   of_group(all, &t, 0, i), of_group(all, &t, 1, i),
                   of_group(all, &t, 2, i), beta, (int64_t)i, t.rate,
                   (int64_t)t.count + i);
}

static void expand_adagrad(keel_emit *all) {
  trained t = read_inputs(all, 3);
  uint32_t rate =
      keel_emit_text(all, "%v / (@decay_factor * %v + 1)", t.rate, t.step);
  for (uint32_t i = 0; i < t.count; i++)
    keel_emit_text(all,
                   "x = %v; g = @norm_coefficient * x + %v; h = %v + g * g;"
                   "%i = x - g * %v / (Sqrt(h) + @epsilon); %i = h",
                   of_group(all, &t, 0, i), of_group(all, &t, 1, i),
                   of_group(all, &t, 2, i), (int64_t)i, rate,
                   (int64_t)t.count + i);
}

static void expand_adam(keel_emit *all) {
  trained t = read_inputs(all, 4);
  uint32_t rate =
      keel_emit_text(all,
                     "rate = %v; step = %v;"
                     "later = rate * Sqrt(1 - Pow(@beta~step, step))"
                     "             / (1 - Pow(@alpha~step, step));"
                     "Where(step > 0, later, rate)",
                     t.rate, t.step);
  for (uint32_t i = 0; i < t.count; i++)
    keel_emit_text(all,
                   "x = %v; g = @norm_coefficient * x + %v;"
                   "v = @alpha * %v + (1 - @alpha) * g;"
                   "h = @beta * %v + (1 - @beta) * (g * g);"
                   "by = v * %v / (Sqrt(h) + @epsilon);"
                   "%i = (1 - @norm_coefficient_post) * (x - by);"
                   "%i = v; %i = h",
                   of_group(all, &t, 0, i), of_group(all, &t, 1, i),
                   of_group(all, &t, 2, i), of_group(all, &t, 3, i), rate,
                   (int64_t)i, (int64_t)t.count + i, 2 * (int64_t)t.count + i);
}

/* ---- rows ---- */

#define TRAINING(name, params, attrs, shape)                     \
  {                                                              \
    "ai.onnx.preview.training", name, 1, "float", params, attrs, \
        keel_shape_##shape, 0, 0, KEEL_BY_KERNEL, NULL           \
  }

static const keel_schema_row rows[] = {
    TRAINING("Momentum", "R:T T:i64 inputs:S=float* -> outputs:S*",
             "alpha:f! beta:f! mode:s=standard|nesterov norm_coefficient:f!",
             trained_by_three),
    TRAINING("Adagrad", "R:T T:i64 inputs:S=float* -> outputs:S*",
             "decay_factor:f=0 epsilon:f=1e-06 norm_coefficient:f=0",
             trained_by_three),
    TRAINING("Adam", "R:T T:i64 inputs:S=float* -> outputs:S*",
             "alpha:f=0.9 beta:f=0.999 epsilon:f=1e-06 norm_coefficient:f=0"
             " norm_coefficient_post:f=0",
             trained_by_four),
};

static const keel_op_rule rules[] = {
    {"ai.onnx.preview.training::Momentum", .expand = expand_momentum},
    {"ai.onnx.preview.training::Adagrad", .expand = expand_adagrad},
    {"ai.onnx.preview.training::Adam", .expand = expand_adam},
};

const keel_op_table keel_ops_training = {KEEL_TABLE_ROWS(rows),
                                         KEEL_TABLE_RULES(rules)};
