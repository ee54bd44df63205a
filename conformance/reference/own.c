/* own.c - ops of domain "keel" that StableHLO has and ONNX has not, and what models of ai.onnx.ml
 * are written with. Semantics are those of StableHLO's specification (openxla/stablehlo, docs/spec.md): popcnt, count_leading_zeros, sort,
 * dynamic_slice, dynamic_update_slice, reduce_window, select_and_scatter. The bits of
 * rng_bit_generator are XLA's, whose order the specification leaves open. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

/* ---- indices ------------------------------------------------------------------------ */

static void unravel(const value *of, int64_t number, int64_t *index) {
  for (uint32_t d = of->rank; d-- > 0; number /= of->dims[d])
    index[d] = number % of->dims[d];
}

static int64_t ravel(const value *of, const int64_t *index) {
  int64_t at = 0;
  for (uint32_t d = 0; d < of->rank; d++)
    at = at * of->dims[d] + index[d];
  return at;
}

/* ---- bits ----------------------------------------------------------------------------- */

static bool run_bits(ref_call *call) {
  const value *in = call->in[0];
  int bits = (int)kd_dtype_size(in->dtype) * 8;
  for (int64_t i = 0; i < in->count; i++) {
    uint64_t x =
        in->x[i] < 0 ? (uint64_t)(int64_t)in->x[i] : (uint64_t)in->x[i];
    int ones = 0, zeros = 0;
    for (int b = 0; b < bits; b++)
      ones += (int)(x >> b & 1);
    while (zeros < bits && !(x >> (bits - 1 - zeros) & 1))
      zeros++;
    call->out[0]->x[i] = call->variant ? zeros : ones;
  }
  return true;
}

/* ---- random numbers -------------------------------------------------------------------- */

/* Threefry-2x32-20 and Philox-4x32-10 (Salmon et al., SC 2011): lane numbers of a counter. */
static void threefry_lanes(uint64_t key, uint64_t counter, uint64_t *lane) {
  static const int turns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const uint64_t low = 0xffffffffu;
  uint64_t k[3] = {key & low, key >> 32, 0};
  uint64_t x = counter & low, y = counter >> 32;
  k[2] = 0x1bd11bdau ^ k[0] ^ k[1];
  for (int round = 0; round <= 20; round++) {
    if (round % 4 == 0) { /* a key after each four rounds */
      uint64_t n = (uint64_t)round / 4;
      x = (x + k[n % 3]) & low;
      y = (y + k[(n + 1) % 3] + n) & low;
    }
    if (round == 20) break;
    int by = turns[round % 8];
    x = (x + y) & low;
    y = ((y << by | y >> (32 - by)) & low) ^ x;
  }
  lane[0] = x;
  lane[1] = y;
}

static void philox_lanes(uint64_t key, uint64_t lower, uint64_t upper,
                         uint64_t *lane) {
  const uint64_t low = 0xffffffffu;
  lane[0] = lower & low;
  lane[1] = lower >> 32;
  lane[2] = upper & low;
  lane[3] = upper >> 32;
  for (uint64_t round = 0; round < 10; round++) {
    uint64_t a = ((key & low) + round * 0x9e3779b9u) & low;
    uint64_t b = ((key >> 32) + round * 0xbb67ae85u) & low;
    uint64_t p = lane[0] * 0xd2511f53u, q = lane[2] * 0xcd9e8d57u;
    const uint64_t made[4] = {(q >> 32) ^ lane[1] ^ a, q & low,
                              (p >> 32) ^ lane[3] ^ b, p & low};
    memcpy(lane, made, sizeof made);
  }
}

/* Which counter, and which of its lanes of 32 bits, an element of up to 32 bits has: in the
 * first even dimension, or the longest, two elements have one counter. */
static uint64_t threefry_place(const value *out, const int64_t *index,
                               uint32_t *lane) {
  uint32_t at = 0;
  uint64_t place = 0;
  bool even = false;
  for (uint32_t d = 0; d < out->rank && !even; d++) {
    even = out->dims[d] % 2 == 0;
    if (even || out->dims[d] > out->dims[at]) at = d;
  }
  *lane = 0;
  for (uint32_t d = 0; d < out->rank; d++) {
    int64_t size = d == at ? (out->dims[d] + 1) / 2 : out->dims[d];
    if (d == at) *lane = (uint32_t)(index[d] % 2);
    place =
        place * (uint64_t)size + (uint64_t)(d == at ? index[d] / 2 : index[d]);
  }
  return place;
}

static bool run_random_bits(ref_call *call) {
  const value *state = call->in[0];
  value *next = ref_out(call, 0), *out = ref_out(call, 1);
  bool counts64 = ref_text_is(call, "algorithm", "philox", "threefry");
  uint64_t key = (uint64_t)state->x[0], from = (uint64_t)state->x[1];
  uint64_t high = (uint64_t)state->x[state->count == 3 ? 2 : 0];
  uint64_t used = 0;
  if (!out) return false;
  size_t size = kd_dtype_size(out->dtype);
  for (int64_t i = 0; i < out->count; i++) {
    int64_t index[KD_MAX_RANK];
    uint64_t lanes[4], counter = (uint64_t)i;
    uint32_t lane = 0, each = size == 8 ? 2 : 4;
    unravel(out, i, index);
    if (counts64) {
      if (size < 8) counter = threefry_place(out, index, &lane);
      threefry_lanes(key, from + counter, lanes);
    } else {
      counter = (uint64_t)i / each;
      lane = (uint32_t)((uint64_t)i % each) * (4 / each);
      philox_lanes(key, from + counter, high + (from + counter < from), lanes);
    }
    uint64_t bits =
        size == 8 ? lanes[lane] | lanes[lane + 1] << 32 : lanes[lane];
    if (counter >= used) used = counter + 1;
    if (size < 8) bits &= (UINT64_C(1) << 8 * size) - 1;
    bool negative =
        KD_TYPES_SIGNED & KD_TYPES(out->dtype) && bits >> (8 * size - 1);
    out->x[i] = (real)bits - (negative ? ldexpl(1, (int)(8 * size)) : 0);
  }
  for (int64_t i = 0; next && i < state->count; i++)
    next->x[i] = i == 0   ? (real)key
                 : i == 1 ? (real)(from + used)
                          : (real)(high + (from + used < from));
  return true;
}

/* ---- order ---------------------------------------------------------------------------- */

typedef struct order {
  const ref_call *call;
  int64_t from, step; /* of the line */
  bool descending;
} order;

/* -1, 0, 1; NaN is the largest. */
static int own_compare(real a, real b) {
  if (isnan(a) || isnan(b)) return (int)isnan(a) - (int)isnan(b);
  return (a > b) - (a < b);
}

static bool goes_before(const order *by, int64_t a, int64_t b) {
  for (uint32_t k = 0; k < by->call->in_count; k++) {
    const real *x = by->call->in[k]->x + by->from;
    int sign = own_compare(x[a * by->step], x[b * by->step]);
    if (sign) return by->descending ? sign > 0 : sign < 0;
  }
  return a < b;
}

static bool run_arg_sort(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  if (!in->rank) return false;
  uint32_t axis = ref_axis(ref_int(call, "axis", -1), in->rank);
  order by = {.call = call,
              .step = 1,
              .descending = ref_int(call, "descending", 0) != 0};
  int64_t n = in->dims[axis], index[KD_MAX_RANK];
  for (uint32_t d = axis + 1; d < in->rank; d++)
    by.step *= in->dims[d];
  for (int64_t i = 0; i < in->count; i++) {
    unravel(in, i, index);
    by.from = i - index[axis] * by.step;
    int64_t place = 0;
    for (int64_t other = 0; other < n; other++)
      place += goes_before(&by, other, index[axis]);
    out->x[by.from + place * by.step] = (real)index[axis];
  }
  return true;
}

/* ---- parts ---------------------------------------------------------------------------- */

static bool own_run_part(ref_call *call) {
  bool update = call->variant != 0;
  const value *x = call->in[0], *starts = call->in[update ? 2 : 1];
  const value *part = update ? call->in[1] : call->out[0];
  value *out = call->out[0];
  int64_t index[KD_MAX_RANK];
  if (update) memcpy(out->x, x->x, (size_t)x->count * sizeof *x->x);
  for (int64_t i = 0; i < part->count; i++) {
    unravel(part, i, index);
    for (uint32_t d = 0; d < x->rank; d++) {
      real start = fminl(starts->x[d], (real)(x->dims[d] - part->dims[d]));
      index[d] += (int64_t)fmaxl(start, 0);
    }
    if (update)
      out->x[ravel(x, index)] = part->x[i];
    else
      out->x[i] = x->x[ravel(x, index)];
  }
  return true;
}

/* ---- windows -------------------------------------------------------------------------- */

typedef struct windows {
  int64_t size[KD_MAX_RANK], strides[KD_MAX_RANK], base[KD_MAX_RANK];
  int64_t spread[KD_MAX_RANK], pads[2 * KD_MAX_RANK];
} windows;

static void own_read_list(const ref_call *call, const char *name,
                          int64_t otherwise, int64_t count, int64_t *out) {
  for (int64_t i = 0; i < count; i++)
    out[i] = otherwise;
  ref_ints(call, name, out, count);
}

static windows read_windows(const ref_call *call, uint32_t rank) {
  windows w;
  own_read_list(call, "window", 1, rank, w.size);
  own_read_list(call, "strides", 1, rank, w.strides);
  own_read_list(call, "base_dilations", 1, rank, w.base);
  own_read_list(call, "window_dilations", 1, rank, w.spread);
  own_read_list(call, "pads", 0, 2 * (int64_t)rank, w.pads);
  return w;
}

/* Whether window `at` has element `index` of x. */
static bool own_has(const windows *w, uint32_t rank, const int64_t *at,
                    const int64_t *index) {
  for (uint32_t d = 0; d < rank; d++) {
    int64_t from = index[d] * w->base[d] + w->pads[d] - at[d] * w->strides[d];
    if (from < 0 || from % w->spread[d] || from / w->spread[d] >= w->size[d])
      return false;
  }
  return true;
}

enum { BY_ADD, BY_MUL, BY_MAX, BY_MIN };

static int reduction_of(const ref_call *call) {
  static const char *const names[] = {"add", "mul", "max", "min"};
  for (int i = BY_MIN; i > BY_ADD; i--)
    if (ref_text_is(call, "reduction", "add", names[i])) return i;
  return BY_ADD;
}

static bool run_reduce_window(ref_call *call) {
  const value *x = call->in[0];
  value *out = call->out[0];
  windows w = read_windows(call, x->rank);
  int how = reduction_of(call);
  bool whole = dtype_is_int(x->dtype);
  int64_t at[KD_MAX_RANK], index[KD_MAX_RANK];
  if (how == BY_MUL && whole) return false; /* may wrap */
  if (!whole && how <= BY_MUL) value_slack(out);
  if (!whole && how == BY_MUL) out->ulps = 1;
  for (int64_t i = 0; i < out->count; i++) {
    real best = call->in[1]->x[0], product = best;
    ref_sum sum = {0};
    int64_t terms = 1;
    ref_add(&sum, best);
    unravel(out, i, at);
    for (int64_t k = 0; k < x->count; k++) {
      unravel(x, k, index);
      if (!own_has(&w, x->rank, at, index)) continue;
      real here = x->x[k];
      ref_add(&sum, here);
      product *= here;
      terms++;
      if (isnan(here) || (how == BY_MAX ? here > best : here < best))
        best = isnan(best) ? best : here;
    }
    if (how == BY_ADD)
      ref_put(out, i, &sum, 1);
    else
      out->x[i] = how == BY_MUL ? product : best;
    if (how == BY_MUL && value_slack(out))
      value_slack(out)[i] = 2 * (real)terms * fabsl(product);
  }
  return true;
}

/* The element that window `at` selects; -1: none. */
static int64_t selected(const value *x, const windows *w, const int64_t *at,
                        bool most) {
  int64_t best = -1, index[KD_MAX_RANK];
  for (int64_t k = 0; k < x->count; k++) {
    unravel(x, k, index);
    if (own_has(w, x->rank, at, index) &&
        (best < 0 || (most ? x->x[k] > x->x[best] : x->x[k] < x->x[best])))
      best = k;
  }
  return best;
}

static bool run_select_and_scatter(ref_call *call) {
  const value *x = call->in[0], *source = call->in[1];
  value *out = call->out[0];
  windows w = read_windows(call, x->rank);
  bool most = ref_text_is(call, "select", "ge", "ge");
  int64_t at[KD_MAX_RANK];
  ref_sum *sums = calloc((size_t)x->count + 1, sizeof *sums);
  for (int64_t i = 0; i < x->count; i++)
    if (isnan(x->x[i])) {
      free(sums);
      return false;
    }
  for (int64_t i = 0; i < x->count; i++)
    ref_add(&sums[i], call->in[2]->x[0]);
  for (int64_t i = 0; i < source->count; i++) {
    unravel(source, i, at);
    int64_t best = selected(x, &w, at, most);
    if (best >= 0) ref_add(&sums[best], source->x[i]);
  }
  if (dtype_is_float(x->dtype)) value_slack(out);
  for (int64_t i = 0; i < x->count; i++)
    ref_put(out, i, &sums[i], 1);
  free(sums);
  return true;
}

/* ---- what models of ai.onnx.ml are written with ----------------------------------------- */

/* Numbers as they are. Not done where one outside of the bounds is an error. */
static bool run_within(ref_call *call) {
  const value *x = call->in[0], *least = call->in[1], *most = call->in[2];
  for (int64_t i = 0; i < x->count; i++) {
    if (x->x[i] < least->x[0] || x->x[i] > most->x[0]) return false;
    call->out[0]->x[i] = x->x[i];
  }
  return true;
}

/* The last place of each element among the keys; -1: none. Not done where that is an error. */
static bool run_find(ref_call *call) {
  const value *x = call->in[0], *keys = call->in[1];
  for (int64_t i = 0; i < x->count; i++) {
    int64_t place = keys->count - 1;
    while (place >= 0 && keys->x[place] != x->x[i] &&
           !(isnan(keys->x[place]) && isnan(x->x[i])))
      place--;
    if (place < 0 && ref_int(call, "strict", 0)) return false;
    call->out[0]->x[i] = (real)place;
  }
  return true;
}

/* What is least where p fits the pairs best: the sum over pairs of
 * (r[j][i] p[i] - r[i][j] p[j])^2, as p'Qp. */
static void fill_pairs(const real *pairs, int64_t k, real *q) {
  for (int64_t i = 0; i < k * k; i++)
    q[i] = 0;
  for (int64_t i = 0, at = 0; i < k; i++)
    for (int64_t j = i + 1; j < k; j++, at++) {
      real own = pairs[at], other = 1 - own;
      q[i * k + i] += other * other;
      q[j * k + j] += own * own;
      q[i * k + j] -= own * other;
      q[j * k + i] -= own * other;
    }
}

/* Qp in `products`; returns p'Qp. */
static real multiply_pairs(const real *q, const real *p, int64_t k,
                           real *products) {
  real whole = 0;
  for (int64_t i = 0; i < k; i++) {
    ref_sum sum = {0};
    for (int64_t j = 0; j < k; j++)
      ref_add(&sum, q[i * k + j] * p[j]);
    products[i] = ref_total(&sum);
    whole += p[i] * products[i];
  }
  return whole;
}

/* One class after the other gets its best, and then all are scaled to a sum of 1; it ends where
 * no element of Qp is 0.005 / k from p'Qp. */
static void couple_row(const real *pairs, int64_t k, real *q, real *products,
                       real *p) {
  fill_pairs(pairs, k, q);
  for (int64_t i = 0; i < k; i++)
    p[i] = 1 / (real)k;
  for (int64_t round = 0; round < (k > 100 ? k : 100); round++) {
    real whole = multiply_pairs(q, p, k, products), worst = 0;
    for (int64_t i = 0; i < k; i++)
      worst = fmaxl(worst, fabsl(products[i] - whole));
    if (worst < 0.005L / (real)k) return;
    for (int64_t t = 0; t < k; t++) {
      real sum = 0;
      whole = multiply_pairs(q, p, k, products);
      p[t] += (whole - products[t]) / q[t * k + t];
      for (int64_t i = 0; i < k; i++)
        sum += p[i];
      for (int64_t i = 0; i < k; i++)
        p[i] /= sum;
    }
  }
}

/* Not done where a pair is all but certain: then there is next to nothing to divide by. */
static bool run_couple(ref_call *call) {
  const value *x = call->in[0];
  value *out = call->out[0];
  int64_t k = ref_int(call, "classes", 2);
  for (int64_t i = 0; i < x->count; i++)
    if (!(x->x[i] > 0.001L && x->x[i] < 0.999L)) return false;
  real *room = malloc((size_t)(k * k + k) * sizeof *room);
  if (!room) return false;
  for (int64_t row = 0; row < out->dims[0]; row++)
    couple_row(x->x + row * (k * (k - 1) / 2), k, room, room + k * k,
               out->x + row * k);
  out->ulps = 64; /* as many steps as it takes */
  free(room);
  return true;
}

/* Trees, as their lists say. */
typedef struct trees {
  const int64_t *features, *modes, *yes, *no, *roots, *targets;
  kd_tensor splits, weights;
  int64_t count, root_count, vote_count;
} trees;

/* Whether a node leads to those behind it, or a leaf has votes that there are. */
static bool node_fits(const trees *t, int64_t i, int64_t features) {
  int64_t yes = t->yes[i], no = t->no[i];
  if (t->features[i] < 0) return 0 <= yes && yes <= no && no <= t->vote_count;
  return t->features[i] < features && (t->modes[i] & ~15) == 0 &&
         (t->modes[i] & 7) < 6 && yes > i && no > i && yes < t->count &&
         no < t->count;
}

static bool read_trees(const ref_call *call, int64_t features, int64_t targets,
                       trees *t) {
  const kd_node_table *read = call->read;
  t->count = read->attr_ints(call->node, "features", &t->features);
  t->root_count = read->attr_ints(call->node, "roots", &t->roots);
  t->vote_count = read->attr_ints(call->node, "vote_targets", &t->targets);
  bool good =
      read->attr_ints(call->node, "modes", &t->modes) == t->count &&
      read->attr_ints(call->node, "yes", &t->yes) == t->count &&
      read->attr_ints(call->node, "no", &t->no) == t->count &&
      read->attr_tensor(call->node, "splits", &t->splits) == KD_OK &&
      read->attr_tensor(call->node, "vote_weights", &t->weights) == KD_OK &&
      t->splits.size == (uint64_t)t->count * kd_dtype_size(t->splits.dtype) &&
      t->weights.size ==
          (uint64_t)t->vote_count * kd_dtype_size(t->weights.dtype);
  for (int64_t i = 0; good && i < t->count; i++)
    good = node_fits(t, i, features);
  for (int64_t i = 0; good && i < t->root_count; i++)
    good = t->roots[i] >= 0 && t->roots[i] < t->count;
  for (int64_t i = 0; good && i < t->vote_count; i++)
    good = t->targets[i] >= 0 && t->targets[i] < targets;
  return good;
}

static bool says_yes(const trees *t, int64_t i, real x) {
  real split = dtype_load(t->splits.data, t->splits.dtype, i);
  if (isnan(x) && t->modes[i] > 7) return true;
  switch (t->modes[i] & 7) {
    case 0:
      return x <= split;
    case 1:
      return x < split;
    case 2:
      return x >= split;
    case 3:
      return x > split;
    case 4:
      return x == split;
    default:
      return x != split;
  }
}

/* All votes for one target of a row: `first` is the first of them. */
static void count_tree(const trees *t, int64_t root, const real *x,
                       int64_t target, int way, ref_sum *sum, bool *first) {
  int64_t at = root;
  while (t->features[at] >= 0)
    at = says_yes(t, at, x[t->features[at]]) ? t->yes[at] : t->no[at];
  for (int64_t v = t->yes[at]; v < t->no[at]; v++) {
    real vote = dtype_load(t->weights.data, t->weights.dtype, v);
    if (t->targets[v] != target) continue;
    real now = ref_total(sum);
    bool takes = *first || (way == 2 ? vote < now : vote > now);
    if (way >= 2 && takes) *sum = (ref_sum){0};
    if (way < 2 || takes) ref_add(sum, vote);
    *first = false;
  }
}

/* The votes of the leaves that a row comes to, by target. */
static bool run_trees(ref_call *call) {
  static const char *const ways[] = {"sum", "average", "min", "max"};
  const value *x = call->in[0];
  value *out = call->out[0];
  int64_t features = x->dims[x->rank - 1];
  int64_t targets = ref_int(call, "targets", 1);
  trees t = {0};
  int way = 0;
  while (way < 3 && !ref_text_is(call, "aggregate", "sum", ways[way]))
    way++;
  if (!read_trees(call, features, targets, &t)) return false;
  for (int64_t i = 0; i < out->count; i++) {
    ref_sum sum = {0};
    bool first = true;
    for (int64_t tree = 0; tree < t.root_count; tree++)
      count_tree(&t, t.roots[tree], x->x + i / targets * features, i % targets,
                 way, &sum, &first);
    ref_put(out, i, &sum, way == 1 ? 1 / (real)t.root_count : 1);
  }
  return true;
}

const ref_op ref_own[] = {
    {"keel", "PopCount", REF_EXACT, 0, run_bits, false},
    {"keel", "LeadingZeros", REF_EXACT, 1, run_bits, false},
    {"keel", "ArgSort", REF_EXACT, 0, run_arg_sort, false},
    {"keel", "DynamicSlice", REF_EXACT, 0, own_run_part, false},
    {"keel", "DynamicUpdateSlice", REF_EXACT, 1, own_run_part, false},
    {"keel", "RngBitGenerator", REF_EXACT, 0, run_random_bits, false},
    {"keel", "ReduceWindow", REF_SUM, 0, run_reduce_window, false},
    {"keel", "SelectAndScatter", REF_SUM, 0, run_select_and_scatter, false},
    {"keel", "Within", REF_EXACT, 0, run_within, false},
    {"keel", "Find", REF_EXACT, 0, run_find, false},
    {"keel", "Couple", REF_ULP, 0, run_couple, false},
    {"keel", "Trees", REF_SUM, 0, run_trees, false},
};
const uint32_t ref_own_count = (uint32_t)(sizeof ref_own / sizeof *ref_own);
