/* optimisers.c - optimisers (ai.onnx.preview.training-1), written with elementwise ops, for
 * each of the tensors that they train. */
#include "opsets/tables.h"
#include "opsets/terms.h"
#include "passes/passes.h"

/* ---- shapes ---- */

/* Inputs R and T, then `groups` lists of as many tensors: X, G and so on; outputs are the lists
 * but G. */
static keel_status shape_of_groups(keel_infer *infer, uint32_t groups) {
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

/* None where the lists do not fit: the shape function says so, too, once shapes are known. */
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

static void optimisers_give(keel_emit *all, const trained *t, uint32_t group,
                            uint32_t index, uint32_t value) {
  keel_emit_give(all, group * t->count + index, value);
}

static double optimisers_number(const keel_emit *all, const char *name,
                                double otherwise) {
  return (double)keel_attr_float(all->node.op, name, (float)otherwise);
}

static uint32_t optimisers_times(keel_emit *all, double factor,
                                 uint32_t value) {
  return keel_emit_binary(all, "Mul", value,
                          keel_emit_number(all, factor, value));
}

static uint32_t plus(keel_emit *all, uint32_t a, uint32_t b) {
  return keel_emit_binary(all, "Add", a, b);
}

/* The gradient, with that of half the norm. */
static uint32_t regularized(keel_emit *all, const trained *t, uint32_t index) {
  uint32_t x = of_group(all, t, 0, index),
           gradient = of_group(all, t, 1, index);
  return plus(
      all,
      optimisers_times(all, optimisers_number(all, "norm_coefficient", 0), x),
      gradient);
}

/* x, less what it is to be changed by. */
static uint32_t moved(keel_emit *all, const trained *t, uint32_t index,
                      uint32_t by) {
  return keel_emit_binary(all, "Sub", of_group(all, t, 0, index), by);
}

static uint32_t is_later(keel_emit *all, const trained *t) {
  return keel_emit_binary(all, "Greater", t->step,
                          keel_emit_number(all, 0, t->step));
}

/* a * old + b * fresh */
static uint32_t mixed(keel_emit *all, double a, uint32_t old, double b,
                      uint32_t fresh) {
  return plus(all, optimisers_times(all, a, old),
              optimisers_times(all, b, fresh));
}

static void expand_momentum(keel_emit *all) {
  trained t = read_inputs(all, 3);
  double alpha = optimisers_number(all, "alpha", 0);
  const char *mode = keel_attr_string(all->node.op, "mode", "standard");
  uint32_t beta = keel_emit_where(
      all, is_later(all, &t),
      keel_emit_number(all, optimisers_number(all, "beta", 1), t.rate),
      keel_emit_number(all, 1, t.rate));
  for (uint32_t i = 0; i < t.count; i++) {
    uint32_t g = regularized(all, &t, i);
    uint32_t v =
        plus(all, optimisers_times(all, alpha, of_group(all, &t, 2, i)),
             keel_emit_binary(all, "Mul", g, beta));
    uint32_t by = strcmp(mode, "nesterov") != 0
                      ? v
                      : plus(all, g, optimisers_times(all, alpha, v));
    optimisers_give(
        all, &t, 0, i,
        moved(all, &t, i, keel_emit_binary(all, "Mul", by, t.rate)));
    optimisers_give(all, &t, 1, i, v);
  }
}

static void expand_adagrad(keel_emit *all) {
  trained t = read_inputs(all, 3);
  uint32_t slower =
      optimisers_times(all, optimisers_number(all, "decay_factor", 0), t.step);
  uint32_t rate = keel_emit_binary(
      all, "Div", t.rate, plus(all, slower, keel_emit_number(all, 1, t.step)));
  for (uint32_t i = 0; i < t.count; i++) {
    uint32_t g = regularized(all, &t, i);
    uint32_t h =
        plus(all, of_group(all, &t, 2, i), keel_emit_binary(all, "Mul", g, g));
    uint32_t root = keel_emit_unary(all, "Sqrt", h);
    root = plus(
        all, root,
        keel_emit_number(all, optimisers_number(all, "epsilon", 1e-6), root));
    uint32_t by = keel_emit_binary(all, "Mul", g, rate);
    optimisers_give(all, &t, 0, i,
                    moved(all, &t, i, keel_emit_binary(all, "Div", by, root)));
    optimisers_give(all, &t, 1, i, h);
  }
}

/* 1 - base ^ step */
static uint32_t left_of_power(keel_emit *all, const trained *t, double base) {
  uint32_t power = keel_emit_binary(
      all, "Pow", keel_emit_number(all, base, t->step), t->step);
  return keel_emit_binary(all, "Sub", keel_emit_number(all, 1, t->step), power);
}

static void expand_adam(keel_emit *all) {
  trained t = read_inputs(all, 4);
  double alpha = optimisers_number(all, "alpha", 0.9),
         beta = optimisers_number(all, "beta", 0.999);
  double kept = 1 - optimisers_number(all, "norm_coefficient_post", 0);
  uint32_t later = keel_emit_binary(
      all, "Mul", t.rate,
      keel_emit_unary(all, "Sqrt", left_of_power(all, &t, beta)));
  later = keel_emit_binary(all, "Div", later, left_of_power(all, &t, alpha));
  uint32_t rate = keel_emit_where(all, is_later(all, &t), later, t.rate);
  for (uint32_t i = 0; i < t.count; i++) {
    uint32_t g = regularized(all, &t, i);
    uint32_t v = mixed(all, alpha, of_group(all, &t, 2, i), 1 - alpha, g);
    uint32_t h = mixed(all, beta, of_group(all, &t, 3, i), 1 - beta,
                       keel_emit_binary(all, "Mul", g, g));
    uint32_t root = keel_emit_unary(all, "Sqrt", h);
    root = plus(
        all, root,
        keel_emit_number(all, optimisers_number(all, "epsilon", 1e-6), root));
    uint32_t by = keel_emit_binary(all, "Div",
                                   keel_emit_binary(all, "Mul", v, rate), root);
    optimisers_give(all, &t, 0, i,
                    optimisers_times(all, kept, moved(all, &t, i, by)));
    optimisers_give(all, &t, 1, i, v);
    optimisers_give(all, &t, 2, i, h);
  }
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
