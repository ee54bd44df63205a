/* loss.c - NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. */
#include "kernels.h"

typedef struct loss {
  const kd_tensor *x, *target, *weights, *y;
  int64_t batch, classes, space;
  bool ignores;
  int64_t ignored;
  const double *shift; /* by position, the largest x and the log of the sum of
                          exponents less it; NULL: x is the log probability already */
} loss;

/* The log probability of an x at a position: what is large goes first, so that the rest
 * keeps its digits. */
static double log_probability(const loss *l, double x, int64_t position) {
  return l->shift ? x - l->shift[2 * position] - l->shift[2 * position + 1] : x;
}

static kd_status sum_losses(const kd_launch *launch, const loss *l) {
  const char *reduction = attr_string(launch, "reduction", "mean");
  bool none = !strcmp(reduction, "none");
  double total = 0, weight_sum = 0;
  for (int64_t i = 0; i < l->batch * l->space; i++) {
    int64_t label = int_at(l->target, i), n = i / l->space, s = i % l->space;
    double weight = 0, value = 0;
    if (!(l->ignores && label == l->ignored)) {
      if (label < 0 || label >= l->classes)
        return FAIL(KD_OUT_OF_RANGE, "label %lld of %lld classes",
                    (long long)label, (long long)l->classes);
      weight =
          l->weights ? cpu_get(l->weights->data, l->weights->dtype, label) : 1;
      value = cpu_get(l->x->data, l->x->dtype,
                      (n * l->classes + label) * l->space + s);
      value = -weight * log_probability(l, value, i);
    }
    if (none) cpu_set(l->y->data, l->y->dtype, i, value);
    total += value;
    weight_sum += weight;
  }
  if (!none)
    cpu_set(l->y->data, l->y->dtype, 0,
            !strcmp(reduction, "sum") ? total : total / weight_sum);
  return KD_OK;
}

static loss read_loss(const kd_launch *launch) {
  const kd_tensor *x = &launch->inputs[0];
  return (loss){
      .x = x,
      .target = &launch->inputs[1],
      .weights = kd_has_input(launch, 2) ? &launch->inputs[2] : NULL,
      .y = &launch->outputs[0],
      .batch = x->dims[0],
      .classes = x->dims[1],
      .space = product(x->dims, 2, x->rank),
      .ignores = cpu_host->node->attr_kind(launch->node, "ignore_index") !=
                 KD_ATTR_ABSENT,
      .ignored = attr_int(launch, "ignore_index", 0),
  };
}

CPU_KERNEL(cpu_run_nll_loss) {
  loss l = read_loss(launch);
  return sum_losses(launch, &l);
}

CPU_KERNEL(cpu_run_sce_loss) {
  loss l = read_loss(launch);
  int64_t positions = l.batch * l.space;
  double *shift = malloc(((size_t)positions + 1) * 2 * sizeof *shift);
  if (!shift) return FAIL(KD_OUT_OF_MEMORY, "no memory for the loss");
  l.shift = shift;
  for (int64_t i = 0; i < positions; i++) {
    int64_t start = i / l.space * l.classes * l.space + i % l.space;
    double most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < l.classes; c++) {
      double value = cpu_get(l.x->data, l.x->dtype, start + c * l.space);
      most = value > most ? value : most;
    }
    for (int64_t c = 0; c < l.classes; c++)
      sum += exp(cpu_get(l.x->data, l.x->dtype, start + c * l.space) - most);
    shift[2 * i] = most;
    shift[2 * i + 1] = log(sum);
    for (int64_t c = 0; c < l.classes && kd_has_output(launch, 1); c++)
      cpu_set(launch->outputs[1].data, launch->outputs[1].dtype,
              start + c * l.space,
              log_probability(
                  &l, cpu_get(l.x->data, l.x->dtype, start + c * l.space), i));
  }
  kd_status status = sum_losses(launch, &l);
  free(shift);
  return status;
}
