/* attention.c - keel::Attention: products, softmax and products, one row at a time; and
 * com.microsoft's GroupQueryAttention, as an attention of each batch's keys. */
#include <math.h>
#include <stdlib.h>

#include "reference/reference.h"

typedef struct attention {
  const value *q, *k, *v, *mask; /* mask may be NULL */
  value *out;
  int64_t heads, groups, m, n, d, e; /* as in the op's description */
  real scale, softcap;               /* softcap 0: none */
  real
      rough; /* how far off products of Q and K may be, in unit roundoffs of their size */
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
    real score = all->scale * ref_total(&sum), size = 0;
    for (int64_t c = 0; c < all->d && all->rough > 0; c++)
      size += fabsl(q[c] * k[j * all->d + c]);
    real added = masked(all, outer, head, i, j);
    to->off[j] =
        fabsl(all->scale) * (4 * ref_spread(&sum) + all->rough * size) +
        2 * fabsl(score);
    if (all->softcap > 0) {
      score = all->softcap * tanhl(score / all->softcap);
      to->off[j] += 4 * fabsl(score);
    }
    to->power[j] = sees(all, i, j) ? score + added : -INFINITY;
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

static void attention_run_rows(const attention *all, int64_t outer,
                               int64_t head, const row *r) {
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
      attention_run_rows(&all, o, h, &r);
  free(room);
  return true;
}

/* ---- GroupQueryAttention ---------------------------------------------------------------------- */

enum {
  QUERY,
  KEY,
  VALUE,
  PAST_KEY,
  PAST_VALUE,
  LENGTHS,
  TOTAL,
  COS,
  SIN,
  PLACES,
  BIAS,
  SINK
};

typedef struct grouped {
  const ref_call *call;
  int64_t batch, rows, heads, groups, size, total, window, turning;
  bool packed, interleaved, sinks;
} grouped;

static int64_t attention_begin_of(const grouped *g, int64_t b) {
  return g->rows == g->total
             ? 0
             : (int64_t)ref_in(g->call, LENGTHS)->x[b] + 1 - g->rows;
}

/* Number c of a new row's head: of Q, K or V, which may lie one behind the other. */
static real fresh(const grouped *g, int part, int64_t b, int64_t row,
                  int64_t head, int64_t c) {
  int64_t at = b * g->rows + row, before = part ? g->heads : 0;
  if (part == VALUE) before += g->groups;
  if (g->packed)
    return ref_in(g->call, QUERY)
        ->x[(at * (g->heads + 2 * g->groups) + before + head) * g->size + c];
  return ref_in(g->call, (uint32_t)part)
      ->x[(at * (part ? g->groups : g->heads) + head) * g->size + c];
}

/* The same, turned by its place; *out_size: what rounding errors are in proportion to. */
static real attention_turned(const grouped *g, int part, int64_t b, int64_t row,
                             int64_t head, int64_t c, real *out_size) {
  real x = fresh(g, part, b, row, head, c);
  int64_t half = g->turning / 2, place = attention_begin_of(g, b) + row;
  *out_size = 0;
  if (part == VALUE || c >= g->turning) return x;
  const value *ids = ref_in(g->call, PLACES);
  if (ids) place = (int64_t)ids->x[b * g->rows + row];
  int64_t pair = g->interleaved ? c / 2 : c % half;
  bool second = g->interleaved ? c % 2 : c >= half;
  int64_t other = g->interleaved ? c ^ 1 : second ? c - half : c + half;
  real y = fresh(g, part, b, row, head, other);
  real cos = ref_in(g->call, COS)->x[place * half + pair];
  real sin = ref_in(g->call, SIN)->x[place * half + pair];
  *out_size = fabsl(x * cos) + fabsl(y * sin);
  return second ? x * cos + y * sin : x * cos - y * sin;
}

/* Roundoffs of f32 in half a unit of the last place of what is stored: of a half or brain float, in
 * which keys that turned are kept, and may queries be. */
static real stored(const grouped *g) {
  kd_dtype dtype = ref_in(g->call, QUERY)->dtype;
  return dtype == KD_F16 ? 8192 : dtype == KD_BF16 ? 65536 : 0;
}

/* A cache of all batches, [batch, groups, places, size]; new rows have slack. What lies behind
 * them is what was there, or anything where that had no such places. */
static void fill_cache(const grouped *g, int part, value *to) {
  const value *past = ref_in(g->call, part == KEY ? PAST_KEY : PAST_VALUE);
  int64_t places = to->dims[2], old = past ? past->dims[2] : 0;
  value_slack(to);
  for (int64_t i = 0; i < to->count; i++) {
    int64_t c = i % g->size, at = i / g->size % places;
    int64_t line = i / g->size / places, b = line / g->groups;
    int64_t row = at - attention_begin_of(g, b);
    real size = 0;
    if (row >= 0 && row < g->rows)
      to->x[i] = attention_turned(g, part, b, row, line % g->groups, c, &size);
    else if (at < old)
      to->x[i] = past->x[(line * old + at) * g->size + c];
    else
      to->slack[i] = INFINITY;
    if (size > 0) to->slack[i] = 3 * size + stored(g) * fabsl(to->x[i]);
  }
}

/* What a batch adds to its scores: the bias, and minus infinity where a key is not seen; behind
 * all `keys`, the sink. */
static void fill_mask(const grouped *g, int64_t b, int64_t keys, value *mask) {
  const value *bias = ref_in(g->call, BIAS), *sink = ref_in(g->call, SINK);
  int64_t n = mask->dims[3];
  for (int64_t i = 0; i < mask->count; i++) {
    int64_t key = i % n, row = i / n % g->rows, head = i / n / g->rows;
    int64_t place = attention_begin_of(g, b) + row;
    int64_t line = (bias && bias->dims[0] > 1 ? b : 0);
    if (key == keys) {
      mask->x[i] = sink ? sink->x[head] : 0;
      continue;
    }
    if (bias) line = line * bias->dims[1] + (bias->dims[1] > 1 ? head : 0);
    bool hidden = key > place || (g->window > 0 && key <= place - g->window);
    mask->x[i] = hidden ? -(real)INFINITY
                 : bias ? bias->x[(line * g->rows + row) * g->total + key]
                        : 0;
  }
}

/* A batch's `keys` or values that count, and zeros behind them, or its queries, as an operand of
 * attention. */
static value *operand(const grouped *g, int64_t b, const value *cache,
                      int64_t keys, int64_t n) {
  const int64_t dims[] = {1, cache ? g->groups : g->heads, n, g->size};
  value *to = value_make(ref_in(g->call, QUERY)->dtype, 4, dims);
  real size = 0;
  for (int64_t i = 0; to && i < to->count; i++) {
    int64_t c = i % g->size, at = i / g->size % n, head = i / g->size / n;
    if (at == keys) continue;
    to->x[i] =
        cache
            ? cache
                  ->x[((b * g->groups + head) * cache->dims[2] + at) * g->size +
                      c]
            : attention_turned(g, QUERY, b, at, head, c, &size);
  }
  return to;
}

static void attend_batch(const grouped *g, value *const *in, value *y,
                         const row *r) {
  float scale = ref_float(g->call, "scale", 0);
  attention all = {.q = in[QUERY],
                   .k = in[KEY],
                   .v = in[VALUE],
                   .mask = in[VALUE + 1],
                   .out = y,
                   .heads = g->heads,
                   .groups = g->groups,
                   .m = g->rows,
                   .n = in[KEY]->dims[2],
                   .d = g->size,
                   .e = g->size,
                   .scale = scale != 0 ? (real)scale : 1 / sqrtl((real)g->size),
                   .softcap = (real)ref_float(g->call, "softcap", 0),
                   .rough = g->turning ? 8 + 2 * stored(g) : 0,
                   .heads_last = true,
                   .nan_as_zero = true};
  for (int64_t h = 0; h < g->heads; h++)
    attention_run_rows(&all, 0, h, r);
}

static bool run_batch(const grouped *g, int64_t b, const value *key,
                      const value *kept, value *out) {
  /* a sink is the score of one more key, whose value is 0 */
  int64_t keys = attention_begin_of(g, b) + g->rows, n = keys + g->sinks;
  kd_dtype dtype = ref_in(g->call, QUERY)->dtype;
  const int64_t mask_dims[] = {1, g->heads, g->rows, n};
  const int64_t out_dims[] = {1, g->rows, g->heads, g->size};
  value *in[] = {operand(g, b, NULL, -1, g->rows), operand(g, b, key, keys, n),
                 operand(g, b, kept, keys, n), value_make(dtype, 4, mask_dims)};
  value *y = value_make(dtype, 4, out_dims);
  real *room = malloc(2 * (size_t)(n + 1) * sizeof *room);
  bool good = in[0] && in[1] && in[2] && in[3] && y && room && value_slack(y);
  if (good) {
    const row r = {room, room + n + 1};
    fill_mask(g, b, keys, in[3]);
    attend_batch(g, in, y, &r);
    for (int64_t i = 0; i < y->count; i++) {
      out->x[b * y->count + i] = y->x[i];
      out->slack[b * y->count + i] = y->slack[i];
    }
  }
  free(room);
  for (int i = 0; i < 4; i++)
    value_free(in[i]);
  value_free(y);
  return good;
}

static bool run_grouped(ref_call *call) {
  const value *q = ref_in(call, QUERY), *cos = ref_in(call, COS);
  grouped g = {
      .call = call,
      .batch = q->dims[0],
      .rows = q->dims[1],
      .heads = ref_int(call, "num_heads", 1),
      .groups = ref_int(call, "kv_num_heads", 1),
      .total = (int64_t)ref_in(call, TOTAL)->x[0],
      .window = ref_int(call, "local_window_size", -1),
      .packed = !ref_in(call, KEY),
      .sinks = ref_in(call, SINK) || ref_int(call, "smooth_softmax", -1) > 0,
      .interleaved = ref_int(call, "rotary_interleaved", 0) != 0};
  g.size = q->dims[2] / (g.packed ? g.heads + 2 * g.groups : g.heads);
  g.turning = ref_int(call, "do_rotary", 0) && cos ? 2 * cos->dims[1] : 0;
  const value *past = ref_in(call, PAST_KEY);
  int64_t places = past && past->dims[2] > g.total ? past->dims[2] : g.total;
  const int64_t dims[] = {g.batch, g.groups, places, g.size};
  value *caches[2] = {value_make(q->dtype, 4, dims),
                      value_make(q->dtype, 4, dims)};
  bool good = caches[0] && caches[1] && value_slack(call->out[0]);
  for (int i = 0; good && i < 2; i++) {
    fill_cache(&g, i ? VALUE : KEY, caches[i]);
    value *present = ref_out(call, 1 + (uint32_t)i);
    if (present) fill_cache(&g, i ? VALUE : KEY, present);
  }
  call->out[0]->ulps = 2;
  for (int64_t b = 0; good && b < g.batch; b++)
    good = run_batch(&g, b, caches[0], caches[1], call->out[0]);
  value_free(caches[0]);
  value_free(caches[1]);
  return good;
}

const ref_op ref_attention[] = {
    {"keel", "Attention", REF_SUM, 0, run_attention, false},
    {"com.microsoft", "GroupQueryAttention", REF_SUM, 0, run_grouped, false},
};
const uint32_t ref_attention_count =
    (uint32_t)(sizeof ref_attention / sizeof *ref_attention);
