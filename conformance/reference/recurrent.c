/* recurrent.c - RNN, GRU, LSTM, step by step.
 *
 * A step's error is the next one's input: each state has with it how far a correct
 * implementation may be off, in unit roundoffs of the type that sums are kept in. */
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "reference/reference.h"

/* A number and how far it may be off. */
typedef struct near_real {
  real x, off;
} near_real;

enum { RNN, GRU, LSTM };

typedef struct activation {
  const char *name;
  real alpha, beta;
} activation;

typedef struct recurrence {
  uint32_t kind;
  int64_t gates, steps, batch, inputs, hidden, directions;
  bool batch_first;
  const value *x, *w, *r, *b, *lengths, *h0, *c0, *p;
  real clip; /* 0: none */
  activation f, g, h;
  real stored; /* roundoff of a state that is kept in the tensor's type */
} recurrence;

/* ---- activations --------------------------------------------------------------------- */

/* ONNX, "Activation functions" of RNN; NaN where the name is unknown. */
static real apply(const activation *a, real x) {
  const char *name = a->name;
  if (!strcasecmp(name, "Tanh")) return tanhl(x);
  if (!strcasecmp(name, "Sigmoid")) return 1 / (1 + expl(-x));
  if (!strcasecmp(name, "Relu")) return x > 0 ? x : 0;
  if (!strcasecmp(name, "Affine")) return a->alpha * x + a->beta;
  if (!strcasecmp(name, "LeakyRelu")) return x >= 0 ? x : a->alpha * x;
  if (!strcasecmp(name, "ThresholdedRelu")) return x >= a->alpha ? x : 0;
  if (!strcasecmp(name, "ScaledTanh")) return a->alpha * tanhl(a->beta * x);
  if (!strcasecmp(name, "HardSigmoid"))
    return fminl(fmaxl(a->alpha * x + a->beta, 0), 1);
  if (!strcasecmp(name, "Elu")) return x >= 0 ? x : a->alpha * expm1l(x);
  if (!strcasecmp(name, "Softsign")) return x / (1 + fabsl(x));
  if (!strcasecmp(name, "Softplus")) return log1pl(expl(x));
  return NAN;
}

/* How much an error grows at the most. */
static real slope(const activation *a) {
  const char *name = a->name;
  if (!strcasecmp(name, "Sigmoid")) return 0.25L;
  if (!strcasecmp(name, "ScaledTanh")) return fabsl(a->alpha * a->beta);
  if (!strcasecmp(name, "Affine") || !strcasecmp(name, "HardSigmoid"))
    return fabsl(a->alpha);
  return fmaxl(1, fabsl(a->alpha));
}

static near_real activated(const recurrence *n, const activation *a,
                           near_real x) {
  if (n->clip > 0) x.x = fminl(fmaxl(x.x, -n->clip), n->clip);
  near_real y = {apply(a, x.x), 0};
  y.off = slope(a) * x.off + 16 * fabsl(y.x) + 2;
  return y;
}

/* alpha and beta where the node gives none; a list is used up by those that have
 * one. */
static real parameter(const ref_call *call, const char *list, int64_t *used,
                      bool takes, real fallback) {
  const float *values = NULL;
  int64_t count = call->read->attr_floats(call->node, list, &values);
  if (!takes || *used >= count) return fallback;
  return values[(*used)++];
}

static bool is_one_of(const char *name, const char *const *names) {
  for (; *names; names++)
    if (!strcasecmp(name, *names)) return true;
  return false;
}

static activation read_activation(const ref_call *call, int64_t index,
                                  const char *fallback, int64_t *alphas,
                                  int64_t *betas) {
  static const char *const with_alpha[] = {
      "Affine",      "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "Elu",
      "HardSigmoid", NULL};
  static const char *const with_beta[] = {"Affine", "ScaledTanh", "HardSigmoid",
                                          NULL};
  const char *const *names = NULL;
  int64_t count = call->read->attr_strings(call->node, "activations", &names);
  activation a = {index < count ? names[index] : fallback, 1, 0};
  real alpha = !strcasecmp(a.name, "LeakyRelu")     ? 0.01L
               : !strcasecmp(a.name, "HardSigmoid") ? 0.2L
                                                    : 1;
  real beta = !strcasecmp(a.name, "HardSigmoid") ? 0.5L : 0;
  a.alpha = parameter(call, "activation_alpha", alphas,
                      is_one_of(a.name, with_alpha), alpha);
  a.beta = parameter(call, "activation_beta", betas,
                     is_one_of(a.name, with_beta), beta);
  return a;
}

/* ---- a step ---------------------------------------------------------------------------- */

/* Of one direction: where its weights begin. */
typedef struct weights {
  const real *w, *r, *wb, *rb, *p; /* the last three may be NULL */
} weights;

static real bias_of(const real *bias, int64_t row) {
  return bias ? bias[row] : 0;
}

/* x . W[row] + h . R[row] + biases + more; without x or h, none of its product and bias. */
static near_real gate(const recurrence *n, const weights *ws, const real *x,
                      const near_real *h, int64_t which, int64_t unit,
                      near_real more) {
  int64_t row = which * n->hidden + unit;
  ref_sum sum = {0};
  real off = more.off;
  if (x) {
    for (int64_t i = 0; i < n->inputs; i++)
      ref_add(&sum, x[i] * ws->w[row * n->inputs + i]);
    ref_add(&sum, bias_of(ws->wb, row));
  }
  if (h) {
    for (int64_t i = 0; i < n->hidden; i++) {
      real r = ws->r[row * n->hidden + i];
      ref_add(&sum, h[i].x * r);
      off += fabsl(r) * h[i].off;
    }
    ref_add(&sum, bias_of(ws->rb, row));
  }
  ref_add(&sum, more.x);
  return (near_real){ref_total(&sum), off + 4 * ref_spread(&sum)};
}

static near_real product_of(near_real a, near_real b) {
  return (near_real){a.x * b.x, fabsl(a.x) * b.off + fabsl(b.x) * a.off +
                                    2 * fabsl(a.x * b.x)};
}

static near_real recurrent_sum_of(near_real a, near_real b) {
  return (near_real){a.x + b.x, a.off + b.off + 2 * fabsl(a.x + b.x)};
}

static near_real kept(const recurrence *n, near_real a) {
  a.off += fabsl(a.x) * n->stored;
  return a;
}

static const near_real nothing = {0, 0};

static near_real recurrent_scaled(const real *p, int64_t at, near_real c) {
  if (!p) return nothing;
  return product_of((near_real){p[at], 0}, c);
}

static void step_lstm(const recurrence *n, const weights *ws, const real *x,
                      const near_real *h, near_real *c, near_real *next,
                      bool coupled) {
  for (int64_t k = 0; k < n->hidden; k++) {
    near_real in = activated(
        n, &n->f, gate(n, ws, x, h, 0, k, recurrent_scaled(ws->p, k, c[k])));
    near_real forget =
        activated(n, &n->f,
                  gate(n, ws, x, h, 2, k,
                       recurrent_scaled(ws->p, 2 * n->hidden + k, c[k])));
    if (coupled) forget = (near_real){1 - in.x, in.off + 1};
    near_real cell = activated(n, &n->g, gate(n, ws, x, h, 3, k, nothing));
    c[k] = kept(
        n, recurrent_sum_of(product_of(forget, c[k]), product_of(in, cell)));
    near_real out = activated(
        n, &n->f,
        gate(n, ws, x, h, 1, k, recurrent_scaled(ws->p, n->hidden + k, c[k])));
    next[k] = kept(n, product_of(out, activated(n, &n->h, c[k])));
  }
}

static void step_gru(const recurrence *n, const weights *ws, const real *x,
                     const near_real *h, near_real *next, near_real *reset,
                     bool linear_first) {
  for (int64_t k = 0; k < n->hidden; k++) /* r, for all units */
    reset[k] = activated(n, &n->f, gate(n, ws, x, h, 1, k, nothing));
  near_real *with = reset + n->hidden;
  for (int64_t k = 0; k < n->hidden; k++)
    with[k] = product_of(reset[k], h[k]);
  for (int64_t k = 0; k < n->hidden; k++) {
    near_real z = activated(n, &n->f, gate(n, ws, x, h, 0, k, nothing));
    near_real raw =
        linear_first
            ? gate(n, ws, x, NULL, 2, k,
                   product_of(reset[k], gate(n, ws, NULL, h, 2, k, nothing)))
            : gate(n, ws, x, with, 2, k, nothing);
    near_real fresh = activated(n, &n->g, raw);
    near_real rest = {1 - z.x, z.off + 1};
    next[k] =
        kept(n, recurrent_sum_of(product_of(rest, fresh), product_of(z, h[k])));
  }
}

static void step_rnn(const recurrence *n, const weights *ws, const real *x,
                     const near_real *h, near_real *next) {
  for (int64_t k = 0; k < n->hidden; k++)
    next[k] = kept(n, activated(n, &n->f, gate(n, ws, x, h, 0, k, nothing)));
}

/* ---- a sequence -------------------------------------------------------------------------- */

static void recurrent_put(value *out, int64_t at, near_real a) {
  if (!out) return;
  out->x[at] = a.x;
  out->ulps = 1;
  value_slack(out)[at] = a.off;
}

static int64_t state_at(const recurrence *n, int64_t direction, int64_t item) {
  return n->batch_first ? (item * n->directions + direction) * n->hidden
                        : (direction * n->batch + item) * n->hidden;
}

static int64_t output_at(const recurrence *n, int64_t time, int64_t direction,
                         int64_t item) {
  return (n->batch_first
              ? (item * n->steps + time) * n->directions + direction
              : (time * n->directions + direction) * n->batch + item) *
         n->hidden;
}

static void run_sequence(const ref_call *call, const recurrence *n,
                         int64_t direction, int64_t item, bool backward,
                         near_real *room) {
  int64_t hidden = n->hidden, rows = n->gates * hidden;
  near_real *h = room, *next = h + hidden, *c = next + hidden;
  const real *bias = n->b ? n->b->x + direction * 2 * rows : NULL;
  weights ws = {n->w->x + direction * rows * n->inputs,
                n->r->x + direction * rows * hidden, bias,
                bias ? bias + rows : NULL,
                n->p ? n->p->x + direction * 3 * hidden : NULL};
  int64_t first = state_at(n, direction, item);
  int64_t length = n->lengths ? (int64_t)n->lengths->x[item] : n->steps;
  for (int64_t k = 0; k < hidden; k++) {
    h[k] = n->h0 ? (near_real){n->h0->x[first + k], 0} : nothing;
    c[k] = n->c0 ? (near_real){n->c0->x[first + k], 0} : nothing;
  }
  for (int64_t i = 0; i < length; i++) {
    int64_t time = backward ? length - 1 - i : i;
    const real *x = n->x->x + (n->batch_first ? item * n->steps + time
                                              : time * n->batch + item) *
                                  n->inputs;
    if (n->kind == LSTM)
      step_lstm(n, &ws, x, h, c, next, ref_int(call, "input_forget", 0) != 0);
    else if (n->kind == GRU)
      step_gru(n, &ws, x, h, next, c + hidden,
               ref_int(call, "linear_before_reset", 0) != 0);
    else
      step_rnn(n, &ws, x, h, next);
    near_real *t = h;
    h = next;
    next = t;
    for (int64_t k = 0; k < hidden; k++)
      recurrent_put(ref_out(call, 0), output_at(n, time, direction, item) + k,
                    h[k]);
  }
  for (int64_t k = 0; k < hidden; k++) {
    recurrent_put(ref_out(call, 1), first + k, h[k]);
    recurrent_put(ref_out(call, 2), first + k, c[k]);
  }
}

static bool run_recurrent(ref_call *call) {
  static const char *const names[] = {"Sigmoid", "Tanh", "Tanh"};
  recurrence n = {.kind = call->variant,
                  .gates = call->variant == LSTM  ? 4
                           : call->variant == GRU ? 3
                                                  : 1,
                  .x = call->in[0],
                  .w = call->in[1],
                  .r = call->in[2],
                  .b = ref_in(call, 3),
                  .lengths = ref_in(call, 4),
                  .h0 = ref_in(call, 5),
                  .c0 = ref_in(call, 6),
                  .p = ref_in(call, 7)};
  n.batch_first = ref_int(call, "layout", 0) != 0;
  n.steps = n.x->dims[n.batch_first];
  n.batch = n.x->dims[!n.batch_first];
  n.inputs = n.x->dims[2];
  n.hidden = n.r->dims[2];
  n.directions = n.w->dims[0];
  n.clip = ref_float(call, "clip", 0);
  n.stored = n.x->dtype == KD_F16 || n.x->dtype == KD_BF16
                 ? dtype_unit(n.x->dtype) / dtype_unit(KD_F32)
                 : 1;
  for (int64_t i = 0; n.lengths && i < n.batch; i++)
    if (n.lengths->x[i] < 0 || n.lengths->x[i] > n.steps) return false;
  near_real *room = calloc((size_t)(5 * n.hidden) + 1, sizeof *room);
  if (!room) return false;
  bool reverse = ref_text_is(call, "direction", "forward", "reverse");
  int64_t alphas = 0, betas = 0,
          each = n.kind == LSTM  ? 3
                 : n.kind == GRU ? 2
                                 : 1;
  bool known = true;
  for (int64_t d = 0; d < n.directions && known; d++) {
    activation *all[3] = {&n.f, &n.g, &n.h};
    for (int64_t i = 0; i < each; i++) {
      *all[i] =
          read_activation(call, d * each + i, n.kind == RNN ? "Tanh" : names[i],
                          &alphas, &betas);
      known &= !isnan(apply(all[i], 0));
    }
    for (int64_t item = 0; item < n.batch && known; item++)
      run_sequence(call, &n, d, item, reverse || d == 1, room);
  }
  free(room);
  return known;
}

const ref_op ref_recurrent[] = {
    {NULL, "RNN", REF_SUM, RNN, run_recurrent, false},
    {NULL, "GRU", REF_SUM, GRU, run_recurrent, false},
    {NULL, "LSTM", REF_SUM, LSTM, run_recurrent, false},
};
const uint32_t ref_recurrent_count =
    (uint32_t)(sizeof ref_recurrent / sizeof *ref_recurrent);
