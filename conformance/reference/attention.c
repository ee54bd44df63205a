/* attention.c - keel::Attention: products, softmax and products, one row at a time. */
#include <math.h>
#include <stdlib.h>

#include "reference/reference.h"

typedef struct attention {
  const value *q, *k, *v, *mask; /* mask may be NULL */
  value *out;
  int64_t heads, groups, m, n, d, e; /* as in the op's description */
  real scale;
  bool causal, heads_last, nan_as_zero;
} attention;

/* A row's scores, what e is raised to, and how far off that may be, in unit roundoffs. */
typedef struct row {
  real *power, *off;
} row;

/* The mask's element for a place in [..., H, M, N], to whose rank it is broadcast. */
static real masked(const attention *all, int64_t outer, int64_t head, int64_t i,
                   int64_t j) {
  const value *mask = all->mask;
  int64_t at = 0, step = 1;
  if (!mask) return 0;
  for (uint32_t d = all->q->rank; d-- > 0;) {
    uint32_t last = all->q->rank - 1 - d;
    int64_t dim = last == 0 ? all->n : all->q->dims[d];
    int64_t index = last == 0   ? j
                    : last == 1 ? i
                    : last == 2 ? head
                                : outer % dim;
    if (last > 2) outer /= dim;
    if (last >= mask->rank) continue;
    int64_t own = mask->dims[mask->rank - 1 - last];
    at += own == 1 ? 0 : index * step;
    step *= own;
  }
  return mask->x[at];
}

static bool sees(const attention *all, int64_t i, int64_t j) {
  return !all->causal || j <= i + all->n - all->m;
}

/* Returns how far off the scores may be at most. */
static real make_scores(const attention *all, int64_t outer, int64_t head,
                        int64_t i, const row *to) {
  int64_t group = head / (all->heads / all->groups);
  const real *q =
      all->q->x + ((outer * all->heads + head) * all->m + i) * all->d;
  const real *k = all->k->x + (outer * all->groups + group) * all->n * all->d;
  real most = 0;
  for (int64_t j = 0; j < all->n; j++) {
    ref_sum sum = {0};
    for (int64_t c = 0; c < all->d; c++)
      ref_add(&sum, q[c] * k[j * all->d + c]);
    real score = all->scale * ref_total(&sum);
    real added = masked(all, outer, head, i, j);
    to->power[j] = sees(all, i, j) ? score + added : -INFINITY;
    to->off[j] = fabsl(all->scale) * 4 * ref_spread(&sum) + 2 * fabsl(score);
    if (isfinite(added)) to->off[j] += fabsl(score + added);
    if (isfinite(to->power[j]) && to->off[j] > most) most = to->off[j];
  }
  return most;
}

/* Powers of scores less the largest; returns their sum. */
static real make_powers(const attention *all, real off, const row *r) {
  real most = -INFINITY;
  ref_sum sum = {0};
  for (int64_t j = 0; j < all->n; j++)
    if (r->power[j] > most) most = r->power[j];
  for (int64_t j = 0; j < all->n; j++) {
    real below = r->power[j] - most;
    r->power[j] = expl(below);
    r->off[j] = isfinite(below) ? r->off[j] + off + 2 * fabsl(below) + 8 : 0;
    ref_add(&sum, r->power[j]);
  }
  return ref_total(&sum);
}

static void put_row(const attention *all, const real *v, int64_t at, real total,
                    const row *r) {
  bool zero = all->nan_as_zero && !(total > 0);
  real off = 0;
  for (int64_t j = 0; j < all->n; j++)
    off += r->power[j] * r->off[j];
  for (int64_t c = 0; c < all->e; c++) {
    ref_sum sum = {0};
    real slack = 0;
    for (int64_t j = 0; j < all->n; j++) {
      real term = r->power[j] * v[j * all->e + c];
      ref_add(&sum, term);
      slack += fabsl(term) * r->off[j];
    }
    real y = zero ? 0 : ref_total(&sum) / total;
    slack = (slack + 4 * ref_spread(&sum) + fabsl(y) * off) / total;
    all->out->x[at + c] = all->n || zero ? y : (real)NAN;
    all->out->slack[at + c] = isfinite(slack) ? slack + 4 * fabsl(y) : 0;
  }
}

static void run_rows(const attention *all, int64_t outer, int64_t head,
                     const row *r) {
  int64_t group = head / (all->heads / all->groups);
  const real *v = all->v->x + (outer * all->groups + group) * all->n * all->e;
  for (int64_t i = 0; i < all->m; i++) {
    real off = make_scores(all, outer, head, i, r);
    real total = make_powers(all, off, r);
    int64_t line = all->heads_last ? (outer * all->m + i) * all->heads + head
                                   : (outer * all->heads + head) * all->m + i;
    put_row(all, v, line * all->e, total, r);
  }
}

static bool run_attention(ref_call *call) {
  const value *q = call->in[0], *k = call->in[1], *v = call->in[2];
  uint32_t rank = q->rank;
  attention all = {.q = q,
                   .k = k,
                   .v = v,
                   .mask = ref_in(call, 3),
                   .out = call->out[0],
                   .heads = q->dims[rank - 3],
                   .groups = k->dims[rank - 3],
                   .m = q->dims[rank - 2],
                   .n = k->dims[rank - 2],
                   .d = q->dims[rank - 1],
                   .e = v->dims[rank - 1],
                   .scale = ref_float(call, "scale", 1),
                   .causal = ref_int(call, "causal", 0) != 0,
                   .heads_last = ref_int(call, "heads_last", 0) != 0,
                   .nan_as_zero = ref_int(call, "nan_as_zero", 0) != 0};
  int64_t outer = 1;
  for (uint32_t i = 0; i + 3 < rank; i++)
    outer *= q->dims[i];
  real *room = malloc((size_t)(2 * all.n + 1) * sizeof *room);
  const row r = {room, room + all.n};
  if (!room) return false;
  all.out->ulps = 2;
  value_slack(all.out);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t h = 0; h < all.heads; h++)
      run_rows(&all, o, h, &r);
  free(room);
  return true;
}

const ref_op ref_attention[] = {
    {"keel", "Attention", REF_SUM, 0, run_attention, false},
};
const uint32_t ref_attention_count =
    (uint32_t)(sizeof ref_attention / sizeof *ref_attention);
