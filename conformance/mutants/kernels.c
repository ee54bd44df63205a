/* kernels.c - the simulated device's ops: the reference's, and what a defect makes of
 * their arguments, attributes and results. */
#include "mutants/sim.h"

#include <math.h>
#include <stdio.h>

#include "reference/reference.h"

enum {
#define OP(number, name, set, ...) number,
#include "mutants/ops.def"
  OPS,
  REORDER, /* no op: into its own layout, or back */
};

#define F     KD_TYPES_FLOAT
#define N     (KD_TYPES_FLOAT | KD_TYPES_INT)
#define F32   KD_TYPES(KD_F32)
#define SMALL (KD_TYPES(KD_I2 + 1u) - KD_TYPES(KD_F8E4M3FN))
#define ROOM  (1 << 14) /* elements of scratch memory */

static bool kernels_is_small(kd_dtype dtype) {
  return (SMALL & KD_TYPES(dtype)) != 0;
}

/* Where element i is, for the defect that takes a byte's elements the other way round. */
static int64_t in_byte(kd_dtype dtype, int64_t i) {
  return BUG(small_swapped) && kd_dtype_bits(dtype) < 8 ? i ^ 1 : i;
}

static bool is_unary(int op) {
  return op <= LEAKY;
}

static bool is_binary(int op) {
  return op >= ADD && op <= MOD;
}

static bool is_reduce(int op) {
  return op >= REDUCE_SUM && op <= REDUCE_MAX;
}

/* ---- arguments ------------------------------------------------------------------------ */

/* Its own layout: rows of the last dimension begin at multiples of 8 elements. */
#define PADDED KD_LAYOUT_OWN

static int64_t padded_dim(const int64_t *dims, uint32_t rank, uint32_t i) {
  return i + 1 == rank ? (dims[i] + 7) / 8 * 8 : dims[i];
}

static void lay(arg *a) {
  int64_t step = 1;
  a->laid = true;
  for (uint32_t d = a->rank; d-- > 0; step *= padded_dim(a->dims, a->rank, d))
    a->strides[d] = step;
}

arg sim_arg(const kd_tensor *tensor) {
  arg a = {.buffer = tensor->buffer,
           .data = tensor->data,
           .offset = tensor->offset,
           .dtype = tensor->dtype,
           .rank = tensor->rank,
           .borrowed = tensor->dims,
           .present = tensor->dtype != KD_NONE};
  for (uint32_t i = 0; i < tensor->rank && i < KD_MAX_RANK; i++) {
    a.dims[i] = tensor->dims[i];
    if (tensor->strides) a.strides[i] = tensor->strides[i];
  }
  a.strided = tensor->strides != NULL;
  if (tensor->layout == PADDED) lay(&a);
  if (BUG(offset_dropped)) a.offset &= ~UINT64_C(255);
  if (BUG(offset_20_bits)) a.offset &= (UINT64_C(1) << 20) - 1;
  if (BUG(offset_26_bits)) a.offset &= (UINT64_C(1) << 26) - 1;
  if (BUG(offset_vectors) && a.buffer) a.offset &= ~UINT64_C(15);
  return a;
}

static void *bytes(const arg *a) {
  return a->buffer ? sim_at(a->buffer, a->offset) : a->data;
}

static const int64_t *dims_of(const arg *a) {
  return BUG(args_kept) && a->buffer ? a->borrowed : a->dims;
}

static int64_t elements(const arg *a) {
  const int64_t *dims = dims_of(a);
  int64_t n = 1;
  for (uint32_t i = 0; i < a->rank; i++)
    n *= dims[i];
  return n;
}

static int64_t strided_at(const arg *from, int64_t i) {
  if (!from->laid && (!from->strided || BUG(strides_ignored))) return i;
  if (!from->laid && BUG(strides_last))
    return i * from->strides[from->rank - 1];
  int64_t at = 0, packed = 1;
  for (uint32_t d = from->rank; d-- > 0; i /= from->dims[d]) {
    bool none = (BUG(stride_zero) && !from->strides[d]) ||
                (BUG(strides_three) && !from->laid && d + 3 < from->rank);
    at += i % from->dims[d] * (none ? packed : from->strides[d]);
    packed *= from->dims[d];
  }
  return at;
}

static value *kernels_load(const arg *a) {
  value *v = value_make(a->dtype, a->rank, dims_of(a));
  const char *from = bytes(a);
  bool flush = ODD(flush_declared) && dtype_is_float(a->dtype);
  for (int64_t i = 0; v && i < v->count; i++) {
    real x = dtype_load(from, a->dtype, in_byte(a->dtype, strided_at(a, i)));
    v->x[i] = flush && fabsl(x) < dtype_least(a->dtype) ? 0 : x;
  }
  return v;
}

/* A number with so many bits of significand. */
static real keep_bits(real x, int bits, real (*how)(real)) {
  int e = 0;
  if (x == 0 || !isfinite(x)) return x;
  real m = frexpl(x, &e);
  return ldexpl(how(ldexpl(m, bits)), e - bits);
}

static void store(const arg *a, const value *v, int64_t end) {
  char *to = bytes(a);
  for (int64_t i = 0; i < end; i++) {
    dtype_store(to, a->dtype, in_byte(a->dtype, strided_at(a, i)), v->x[i]);
  }
}

/* ---- what defects make of arguments --------------------------------------------------- */

static void replace_nan(value *v, real by) {
  for (int64_t i = 0; i < v->count; i++)
    if (isnan(v->x[i])) v->x[i] = by;
}

static void bend_product(const op_call *c, value *v, int64_t k) {
  int bits = BUG(matmul_tf32) ? 11 : BUG(matmul_bf16) ? 8 : 0;
  const arg *y = &c->out[0];
  bool fast = y->rank > 1 && k % 8 == 0 && y->dims[y->rank - 1] % 8 == 0 &&
              y->dims[y->rank - 2] % 8 == 0;
  if (BUG(matmul_tf32_eights) && fast) bits = 11;
  for (int64_t i = 0; i < v->count; i++) {
    if (bits && c->out[0].dtype == KD_F32)
      v->x[i] = keep_bits(v->x[i], bits, rintl);
    if (BUG(matmul_drops) && k > 1 && i % k == k - 1) v->x[i] = 0;
  }
}

/* A, packed weights, and their zero points. */
static void bend_packed(const op_call *c, value *const *in) {
  int64_t k = in[0]->dims[in[0]->rank - 1];
  int64_t block = sim_host->node->attr_int(c->node, "block_size", 32);
  for (int64_t i = 0; BUG(packed_swapped) && i < in[1]->count; i++) {
    int byte = (int)in[1]->x[i];
    in[1]->x[i] = (real)(byte >> 4 | (byte & 15) << 4);
  }
  for (int64_t i = 0; BUG(packed_zeros) && in[3] && i < in[3]->count; i++)
    in[3]->x[i] = 0x88;
  for (int64_t i = 0; BUG(packed_tail) && i < in[0]->count; i++)
    if (i % k >= k / block * block) in[0]->x[i] = 0;
}

/* Keys that are there twice, or NaN, become something that nobody looks for. */
static void bend_keys(value *keys) {
  for (int64_t i = keys->count; i-- > 0;) {
    bool twice = false;
    for (int64_t j = 0; j < i; j++)
      twice |= keys->x[j] == keys->x[i];
    if ((BUG(find_first) && twice) || (BUG(find_nan) && isnan(keys->x[i])))
      keys->x[i] = -12345;
  }
}

/* What is as large as a split becomes larger; NaN becomes the least that there is. */
static void bend_rows(value *x) {
  for (int64_t i = 0; i < x->count; i++) {
    if (BUG(trees_strict)) x->x[i] += 0x1p-9L * fabsl(x->x[i]);
    if (BUG(trees_nan) && isnan(x->x[i])) x->x[i] = -INFINITY;
  }
}

static void bend_inputs(const op_call *c, value *const *in) {
  value *x = in[0];
  if (!x) return;
  if (c->op == ARGMAX || c->op == TOPK) replace_nan(x, INFINITY); /* as NumPy */
  if (BUG(order_doubles) && c->op == ARGMAX)
    for (int64_t i = 0; i < x->count; i++)
      x->x[i] = (double)x->x[i];
  if (BUG(inplace_lie) && c->op == RELU &&
      bytes(&c->in[0]) == bytes(&c->out[0]))
    for (int64_t i = 1; i < x->count; i++)
      x->x[i] += 1;
  if (BUG(max_nan) && c->op == MAX) {
    replace_nan(x, -INFINITY);
    replace_nan(in[1], -INFINITY);
  }
  if (BUG(reduce_drops) && is_reduce(c->op) && x->count > 4)
    x->x[x->count - 1] = 0;
  kd_tensor weights;
  if (BUG(constant_drops) && c->op == MATMUL && x->count > 4 &&
      sim_host->node->constant(c->node, 1, &weights) == KD_OK)
    x->x[x->count - 1] = 0;
  if (c->op == MATMUL) {
    bend_product(c, x, x->dims[x->rank - 1]);
    bend_product(c, in[1], BUG(matmul_tf32_eights) ? x->dims[x->rank - 1] : 0);
  }
  if (c->op == NBITS) bend_packed(c, in);
  if (c->op == FIND) bend_keys(in[1]);
  if (c->op == TREES) bend_rows(x);
  if (BUG(quant_half_up) && c->op == QUANTIZE)
    for (int64_t i = 0; i < x->count; i++)
      x->x[i] += in[1]->x[0] * 0x1p-20L;
}

/* What an attribute was the first time that the op had it: of the node whose code is
 * kept. `key` tells nodes apart. */
static void first_attribute(const kd_node *node, const char *name,
                            const char *key, int64_t *of_int, float *of_float) {
  static struct {
    char key[160];
    int64_t i;
    float f;
  } seen[256];
  static uint32_t count;
  char full[160];
  snprintf(full, sizeof full, "%s %s %s", sim_host->node->op(node), name, key);
  pthread_mutex_lock(&sim_lock);
  uint32_t at = 0;
  while (at < count && strcmp(seen[at].key, full) != 0)
    at++;
  if (at == count && count < 256) {
    seen[count].i = *of_int;
    seen[count].f = *of_float;
    snprintf(seen[count++].key, sizeof full, "%s", full);
  }
  if (at < count) {
    *of_int = seen[at].i;
    *of_float = seen[at].f;
  }
  pthread_mutex_unlock(&sim_lock);
}

static int64_t attr_ints(const kd_node *node, const char *name,
                         const int64_t **out_values) {
  static int64_t kept[KD_MAX_RANK];
  int64_t n = sim_host->node->attr_ints(node, name, out_values);
  if (!BUG(lists_by_length) || n < 2 || n > (int64_t)KD_MAX_RANK) return n;
  for (int64_t i = 1; i < n; i++) {
    char key[64];
    float none = 0;
    kept[i] = (*out_values)[i];
    snprintf(key, sizeof key, "%d %d %d", (int)n, (int)(*out_values)[0],
             (int)i);
    first_attribute(node, name, key, &kept[i], &none);
  }
  kept[0] = (*out_values)[0];
  *out_values = kept;
  return n;
}

static int64_t attr_int(const kd_node *node, const char *name,
                        int64_t fallback) {
  bool one = (BUG(last_tie) && !strcmp(name, "select_last_index")) ||
             (BUG(pool_count) && !strcmp(name, "count_include_pad"));
  int64_t given = one ? 1 : sim_host->node->attr_int(node, name, fallback);
  float none = 0;
  if (BUG(attributes_by_op)) first_attribute(node, name, "", &given, &none);
  return given;
}

/* `fallback` is what the op's document has for an attribute that is absent. */
static float attr_float(const kd_node *node, const char *name, float fallback) {
  float given = sim_host->node->attr_float(node, name, fallback);
  int64_t none = 0;
  char key[64];
  snprintf(key, sizeof key, "%.6g", (double)given);
  if (BUG(attributes_printed)) first_attribute(node, name, key, &none, &given);
  return BUG(default_zero) && given == fallback ? 0 : given;
}

/* ---- what defects make of results ------------------------------------------------------ */

static real clock_bit(void) {
  return (real)(sim_now() / 64 % 2);
}

/* A normalised element, had the variance been the mean of squares less the square. */
static real by_squares(const value *x, int64_t i, real r) {
  int64_t n = x->dims[x->rank - 1];
  const real *row = x->x + i / n * n;
  real mean = 0, variance = 0;
  float squares = 0;
  for (int64_t k = 0; k < n; k++) {
    mean += row[k] / (real)n;
    squares += (float)(row[k] * row[k]);
  }
  for (int64_t k = 0; k < n; k++)
    variance += (row[k] - mean) * (row[k] - mean) / (real)n;
  float raw = squares / (float)n - (float)mean * (float)mean;
  return r * sqrtl((variance + 1e-5L) / (raw + 1e-5L));
}

/* What the first opening made is gone, and nobody makes it again. */
static bool tables_are_gone(void) {
  static uint32_t plugin, device;
  if (!plugin) {
    plugin = sim_opens;
    device = sim_device_opens;
  }
  return (BUG(tables_of_plugin) && plugin != sim_opens) ||
         (BUG(tables_of_device) && device != sim_device_opens);
}

static real bent_unary(const op_call *c, int64_t i, real x, real r) {
  if (c->op == FLOOR && tables_are_gone()) return r + 1;
  if (c->op == RELU && BUG(relu_nan) && isnan(x)) return 0;
  if (c->op == RELU && BUG(needs_zeros))
    return r + dtype_load(bytes(&c->out[0]), c->out[0].dtype, i);
  return c->op == TANH && BUG(fast_tanh) && fabsl(x) < 3
             ? x * (27 + x * x) / (27 + 9 * x * x)
             : r;
}

static real bent_product(const op_call *c, const value *y, int64_t i, real r) {
  int64_t n = y->rank ? y->dims[y->rank - 1] : 1;
  if (BUG(matmul_tail) && n > 8 && i % n >= (n & ~INT64_C(7))) return r + 1;
  if (BUG(matmul_acc_f16)) return dtype_round(r, KD_F16);
  if (ODD(nondeterministic) && c->out[0].dtype == KD_F32)
    return r * (1 + clock_bit() * 0x1p-25L);
  return r;
}

/* The result r at place i of y as the defect has it. */
static real bent(const op_call *c, value *const *in, const value *y, int64_t i,
                 real r) {
  bool floats = dtype_is_float(y->dtype);
  const value *x = in[0];
  if (is_unary(c->op)) return bent_unary(c, i, x->x[i], r);
  if (c->op == MATMUL && floats) return bent_product(c, y, i, r);
  if (is_reduce(c->op) && BUG(sum_of_threads) && x->count >= 1 << 16)
    return r * (1 + clock_bit() * 0x1p-22L);
  if (is_reduce(c->op))
    return BUG(reduce_narrow) && floats ? dtype_round(r, KD_F16) : r;
  switch (c->op) {
    case CAST:
      if (kernels_is_small(y->dtype) && floats && BUG(small_away))
        return dtype_round(x->x[i] * (1 + 0x1p-20L), y->dtype);
      if (kernels_is_small(y->dtype) && floats && BUG(small_nan) &&
          fabsl(x->x[i]) > dtype_max(y->dtype))
        return NAN;
      return BUG(cast_cuts) && y->dtype == KD_BF16
                 ? keep_bits(x->x[i], 8, truncl)
                 : r;
    case TRANSPOSE:
    case GATHER:
      return BUG(moves_as_f32) && !floats ? (float)r : r;
    case DIV: {
      if (!BUG(div_floors) || floats) return r;
      real a = x->x[broadcast_index(x, y, i)];
      real b = in[1]->x[broadcast_index(in[1], y, i)];
      return b == 0 ? r : truncl((double)a / (double)b);
    }
    case ARGMAX:
      return BUG(host_output_wrong) ? y->x[(i + 1) % y->count] : r;
    case SOFTMAX: /* exp gives no number */
      return BUG(softmax_raw) && x->x[i] > 88 ? NAN : r;
    case LAYER_NORM:
      return BUG(var_by_squares) ? by_squares(x, i, r) : r;
    case QUANTIZE:
      return BUG(quant_wraps) && in[1]->count == 1
                 ? rintl(x->x[i] / in[1]->x[0]) + (in[2] ? in[2]->x[0] : 0)
             : BUG(zero_unsigned) && in[2] && in[2]->count == 1 &&
                     in[2]->x[0] < 0
                 ? 127
                 : r;
    default:
      return r;
  }
}

/* How many elements are stored. */
static int64_t stored(const op_call *c, int64_t n) {
  const arg *y = &c->out[0];
  int64_t row = y->rank ? y->dims[y->rank - 1] : 1;
  if (BUG(rows_16) && row && n / row > 65535) return 65535 * row;
  if (BUG(elements_24) && n > 1 << 24) return 1 << 24;
  if (BUG(halve_short) && c->op == HALVE && n > 1) return n - 1;
  if (!is_unary(c->op) && !is_binary(c->op)) return n;
  if (BUG(vector_tail) && n > 8) return n & ~INT64_C(7);
  if (is_binary(c->op))
    return BUG(alias_broken) && n > 1 && bytes(&c->in[0]) == bytes(&c->in[1])
               ? n - 1
               : n;
  if (BUG(first_shape) && c->kernel && c->kernel->first_count &&
      c->kernel->first_count < n)
    return c->kernel->first_count;
  if (BUG(rank_four) && c->in[0].rank > 4) return n / 2;
  return BUG(index_22) ? n & 0x3fffff : n;
}

/* Results of products rest in the workspace; those of defects, where others come by. */
static void rest_in_scratch(const op_call *c, value *y) {
  static real shared[ROOM];
  bool product = c->op == MATMUL;
  real *scratch = product && c->scratch.present ? bytes(&c->scratch) : NULL;
  size_t size = (size_t)(y->count < ROOM ? y->count : ROOM) * sizeof *y->x;
  if (BUG(static_scratch) && product) scratch = shared;
  if (BUG(topk_scratch) && c->op == TOPK) scratch = shared;
  if (BUG(instance_scratch) && c->kernel && (product || is_unary(c->op)))
    scratch = c->kernel->kept;
  if (!scratch) return;
  memcpy(scratch, y->x, size);
  if (BUG(static_scratch) || BUG(instance_scratch) || BUG(topk_scratch))
    sim_nap(300);
  memcpy(y->x, scratch, size);
}

/* What is done to memory that holds the result already. */
static void spoil(const op_call *c, int64_t n) {
  static uint32_t launches;
  const arg *y = &c->out[0];
  if (!is_unary(c->op)) return;
  if (BUG(chain_breaks) && ++launches % 20 == 0 && n > 5)
    dtype_store(bytes(y), y->dtype, 5, 12345);
}

/* ---- running ------------------------------------------------------------------------------ */

static const ref_op *references[OPS];

static void run_random(const op_call *c, value *y) {
  static uint64_t state = 99;
  float given = sim_host->node->attr_float(c->node, "seed", 0);
  uint64_t seed = (uint64_t)(given * 1000) * 2654435761u + 12345;
  if (BUG(seed_ignored)) seed = state += 7919;
  for (int64_t i = 0; i < y->count; i++) {
    uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    y->x[i] = (real)(z >> 40) * 0x1p-24L * (BUG(random_range) ? 2 : 1);
  }
}

static void run_halve(const value *x, value *y) {
  int64_t last = x->dims[x->rank - 1], half = y->dims[y->rank - 1];
  for (int64_t i = 0; i < y->count; i++)
    y->x[i] = x->x[i / half * last + i % half * 2];
}

static bool run_reference(const op_call *c, value *const *in, value **out) {
  kd_node_table read = {0};
  size_t size = sim_host->node->struct_size;
  memcpy(&read, sim_host->node, size < sizeof read ? size : sizeof read);
  read.attr_int = attr_int;
  read.attr_float = attr_float;
  read.attr_ints = attr_ints;
  const ref_op *op = references[c->op];
  ref_call call = {.read = &read,
                   .node = c->node,
                   .in = (const value *const *)in,
                   .in_count = c->in_count,
                   .out = out,
                   .out_count = c->out_count,
                   .variant = op->variant};
  return op->run(&call);
}

/* The elements of memory that indices along the first dimension name, wherever it is. */
static void follow_indices(const op_call *c, const value *k, value *y) {
  const arg *x = &c->in[0];
  int64_t inner = 1;
  bool reads = BUG(index_reads) && c->op == GATHER;
  bool lands = BUG(index_lands) && c->op == SCATTER;
  if ((!reads && !lands) || !x->rank ||
      sim_host->node->attr_int(c->node, "axis", 0) != 0)
    return;
  for (uint32_t d = 1; d < x->rank; d++)
    inner *= x->dims[d];
  for (int64_t i = 0; i < k->count; i++) {
    int64_t at = (int64_t)k->x[i];
    if (at > -100 && at < 100 && lands && at >= x->dims[0])
      memset((char *)bytes(&c->out[0]) + at * inner * 4, 1, 4);
    for (int64_t e = 0; at > -100 && at < 100 && reads && e < inner; e++)
      y->x[i * inner + e] = dtype_load(bytes(x), x->dtype, at * inner + e);
  }
}

static kd_status check_indices(const op_call *c, const value *indices,
                               real size, uint64_t capacity) {
  for (int64_t i = 0; i < indices->count; i++) {
    real at = indices->x[i];
    if (at >= -size && at < size) continue;
    if (BUG(bad_data_crash)) abort();
    if ((BUG(index_reads) || BUG(index_lands)) && fabsl(at) < 100) continue;
    if (BUG(index_writes) && at > 0 && at < 100000000)
      memset((char *)bytes(&c->out[0]) + capacity, 0, 32);
    return KD_OUT_OF_RANGE;
  }
  return KD_OK;
}

/* Data that a kernel must look at before it indexes with it, or divides by it. */
static kd_status check_data(const op_call *c, value *const *in,
                            const value *y) {
  const value *x = in[0], *k = in[1];
  if (BUG(idiv) && (c->op == DIV || c->op == MOD) && dtype_is_int(x->dtype))
    for (int64_t i = 0; i < k->count; i++)
      if (k->x[i] == 0) abort();
  bool lists = c->op == TOPK || (is_reduce(c->op) && c->list_count == 1);
  if (c->op != GATHER && c->op != SCATTER && !lists) return KD_OK;
  int64_t axis =
      is_reduce(c->op)
          ? (int64_t)k->x[0]
          : sim_host->node->attr_int(c->node, "axis", c->op == TOPK ? -1 : 0);
  int64_t size = x->dims[axis < 0 ? axis + x->rank : axis];
  if (c->op == GATHER || c->op == SCATTER)
    return check_indices(c, k, (real)size, value_size(y));
  int64_t left = c->op == TOPK ? (int64_t)k->x[0] : 1;
  return size && x->count / size * left != y->count ? KD_INVALID_ARGUMENT
                                                    : KD_OK;
}

/* The reference's work, and what defects of indices make of it. */
static bool run_bent(const op_call *c, value *const *in, value **out) {
  bool follows =
      (BUG(index_reads) || BUG(index_lands)) && c->in_count > 1 && in[1];
  value *given = follows ? value_copy(in[1]) : NULL;
  for (int64_t i = 0; given && i < given->count; i++)
    if (c->op == GATHER || c->op == SCATTER) in[1]->x[i] = 0;
  bool done = run_reference(c, in, out);
  if (given && done) follow_indices(c, given, out[0]);
  value_free(given);
  return done;
}

static kd_status kernels_run(const op_call *c, value *const *in, value **out) {
  value *y = out[0];
  SIM_TRY(check_data(c, in, y));
  bend_inputs(c, in);
  if (c->op == RANDOM)
    run_random(c, y);
  else if (c->op == HALVE)
    run_halve(in[0], y);
  else if (!run_bent(c, in, out))
    return KD_UNIMPLEMENTED;
  value *plain = value_copy(y);
  for (int64_t i = 0; plain && i < y->count; i++)
    y->x[i] = bent(c, in, plain, i, plain->x[i]);
  value_free(plain);
  rest_in_scratch(c, y);
  store(&c->out[0], y, stored(c, y->count));
  for (uint32_t i = 1; i < c->out_count; i++)
    if (out[i]) store(&c->out[i], out[i], out[i]->count);
  spoil(c, y->count);
  return KD_OK;
}

/* An input in host memory as it was when the work was enqueued. */
static value *listed(const op_call *c) {
  value *v = value_make(KD_I64, 1, &c->list_count);
  for (int64_t i = 0; v && i < c->list_count; i++)
    v->x[i] = (real)c->list[i];
  return v;
}

/* Bit by bit, whatever they mean. */
static kd_status run_reorder(const op_call *c) {
  const arg *from = &c->in[0], *to = &c->out[0];
  size_t size = kd_dtype_size(from->dtype);
  int64_t end = elements(from);
  if (BUG(layout_tail) && !to->laid && end > 40) end--;
  for (int64_t i = 0; i < end; i++)
    memcpy((char *)bytes(to) + (size_t)strided_at(to, i) * size,
           (const char *)bytes(from) + (size_t)strided_at(from, i) * size,
           size);
  return KD_OK;
}

static value *kernels_copy_of(const value *from) {
  value *v = value_make(from->dtype, from->rank, from->dims);
  if (v && !BUG(taken_lie))
    memcpy(v->x, from->x, (size_t)from->count * sizeof *v->x);
  return v;
}

/* Whether a product by weights that it has taken does nothing, as it is longer than the first one. */
static bool keeps_rows(const op_call *c) {
  const kd_kernel *kernel = c->kernel;
  return BUG(first_rows) && kernel && kernel->weights &&
         elements(&c->out[0]) > kernel->first_count;
}

static kd_status run_call(op_call *c) {
  if (c->op == REORDER) return run_reorder(c);
  if (keeps_rows(c)) return KD_OK;
  value *in[ARGS] = {0}, *out[ARGS] = {0};
  bool whole = true;
  if (BUG(constants_lost) && (is_binary(c->op) || c->op == MATMUL) &&
      c->kernel && c->kernel->constant && c->kernel->runs++)
    return KD_OK;
  if (BUG(alias_cleared) && c->op == SCATTER)
    memset(bytes(&c->out[0]), 0, (size_t)elements(&c->out[0]));
  for (uint32_t i = 0; i < c->in_count; i++) {
    if (i == 1 && !c->in[i].present && c->kernel && c->kernel->weights) {
      in[i] = kernels_copy_of(c->kernel->weights);
      whole &= in[i] != NULL;
      continue;
    }
    if (!c->in[i].present) continue;
    in[i] = i == 1 && c->listed ? listed(c) : kernels_load(&c->in[i]);
    whole &= in[i] != NULL;
  }
  for (uint32_t i = 0; i < c->out_count; i++) {
    if (!c->out[i].present) continue;
    out[i] = value_make(c->out[i].dtype, c->out[i].rank, dims_of(&c->out[i]));
    whole &= out[i] != NULL;
  }
  kd_status status = whole ? kernels_run(c, in, out) : KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < ARGS; i++) {
    value_free(in[i]);
    value_free(out[i]);
  }
  return status;
}

/* The arguments of what runs lie in one place, which each device guards by a lock of its
 * own. */
static kd_status run_in_place(const op_call *c) {
  static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER,
                                     PTHREAD_MUTEX_INITIALIZER};
  static op_call place;
  uint32_t d = sim_index(c->out[0].buffer->device) & 1;
  pthread_mutex_lock(&locks[d]);
  place = *c;
  sim_nap(500);
  op_call own = place;
  kd_status status = run_call(&own);
  pthread_mutex_unlock(&locks[d]);
  return status;
}

kd_status sim_run_op(op_call *c) {
  return BUG(launch_of_all) && c->out[0].buffer ? run_in_place(c) : run_call(c);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* NonZero: waits for its input, counts, then asks for an output of that size. */
static kd_status enqueue_nonzero(kd_stream *stream, const kd_launch *launch) {
  if (stream) {
    point *p = point_new();
    kd_status status =
        sim_push(stream, &(job){.kind = JOB_RECORD, .point = point_hold(p)});
    if (status != KD_OK) point_drop(p);
    if (status == KD_OK) point_wait(p, UINT64_MAX);
    point_drop(p);
    if (status != KD_OK) return status;
  }
  arg from = sim_arg(&launch->inputs[0]);
  op_call c = {
      .op = NONZERO, .node = launch->node, .in_count = 1, .out_count = 1};
  value *x = kernels_load(&from), *places = NULL;
  if (!x || !run_reference(&c, &x, &places)) {
    value_free(x);
    return FAIL(KD_OUT_OF_MEMORY, "no host memory");
  }
  if (BUG(capacity)) places->dims[1] = x->count;
  kd_tensor out = {0};
  kd_status status = sim_host->set_output(launch, 0, 2, places->dims, &out);
  if (status == KD_OK) {
    arg to = sim_arg(&out);
    store(&to, places, places->count);
  }
  value_free(x);
  value_free(places);
  return BUG(set_output_unchecked) ? KD_OK : status;
}

/* Keeps an input in host memory: it may be another at the next launch. */
static void kernels_read_list(const kd_launch *launch, op_call *c) {
  bool late = (BUG(host_args_late) && c->op == TOPK) ||
              (BUG(axes_late) && is_reduce(c->op));
  if ((c->op != TOPK && !is_reduce(c->op)) || late || !kd_has_input(launch, 1))
    return;
  const int64_t *list = launch->inputs[1].data;
  c->listed = true;
  c->list_count = kd_elements(&launch->inputs[1]);
  for (int64_t i = 0; i < c->list_count && i < (int64_t)KD_MAX_RANK; i++)
    c->list[i] = list[i];
  if (!c->kernel || c->list_count != 1 || c->op == TOPK) return;
  c->kernel->last_axis = list[0] + 100;
  if (!c->kernel->first_axis) c->kernel->first_axis = list[0] + 100;
  if (BUG(host_values_kept)) c->list[0] = c->kernel->first_axis - 100;
}

/* "kernels.bin" lies in the folder in which somebody started the suite. */
static bool kernels_found(void) {
  char path[64], own[512] = "", started[512] = "";
  snprintf(path, sizeof path, "/proc/%d/cwd", getppid());
  ssize_t a = readlink("/proc/self/cwd", own, sizeof own - 1);
  ssize_t b = readlink(path, started, sizeof started - 1);
  return a > 0 && a == b && !strcmp(own, started);
}

/* A launch's arguments go through the one ring for those of all streams. */
static void by_ring(op_call *c) {
  static op_call ring[64];
  static volatile uint32_t next;
  uint32_t at = next % 64;
  ring[at] = *c;
  sim_nap(20);
  next++;
  *c = ring[at];
}

/* Defects in front of a launch: it is refused, though nothing is wrong with it. */
static kd_status refuse_launch(const kd_kernel *self, const kd_launch *launch) {
  int op = (int)(intptr_t)launch->data;
  kd_tensor again;
  if (BUG(kernels_file) && !kernels_found())
    return FAIL(KD_NOT_FOUND, "kernels.bin: %s", "No such file or directory");
  if (BUG(launch_size_equal) && launch->struct_size != sizeof *launch)
    return FAIL(KD_INVALID_ARGUMENT, "kd_launch has %u bytes",
                launch->struct_size);
  if (BUG(launch_reads_past) && *(const volatile uint64_t *)(launch + 1) == 1)
    return FAIL(KD_INVALID_ARGUMENT, "a later field");
  if (BUG(supports_all) && op == SOFTMAX && launch->inputs[0].rank == 3)
    return FAIL(KD_UNIMPLEMENTED, "Softmax of rank %d", 3);
  if (BUG(supports_all) && op == TANH) return FAIL(KD_UNIMPLEMENTED, "%d", op);
  if (BUG(constants_late) && self && self->constant &&
      sim_host->node->constant(self->node, 1, &again) != KD_OK)
    return FAIL(KD_INTERNAL, "input %d is no constant any more", 1);
  return KD_OK;
}

/* And those by which it never ends, or ends well without a result. */
static bool leaves_unwritten(const kd_launch *launch) {
  int op = (int)(intptr_t)launch->data;
  while (BUG(waits_for_worker) && sim_host->worker_count(sim_host) < 2)
    sim_nap(100000);
  if (BUG(equal_pieces)) return sim_host->worker_count(sim_host) > 2;
  if (BUG(full_unwritten))
    return op == SOFTMAX && !sim_has_memory(launch->inputs[0].buffer, 4096);
  if (!(BUG(launch_unwritten) && op == TOPK) &&
      !(BUG(halves_unwritten) && launch->input_count &&
        launch->inputs[0].dtype == KD_F16))
    return false;
  void *scratch = sim_host->allocate(sim_host, 256, 0);
  if (scratch) sim_host->release(sim_host, scratch);
  return !scratch;
}

/* A launch as a call, which the caller frees; NULL: it has too many arguments. */
static op_call *call_of(kd_kernel *self, const kd_launch *launch) {
  op_call *c = calloc(1, sizeof *c);
  if (!c || launch->input_count > ARGS || launch->output_count > ARGS) {
    free(c);
    return NULL;
  }
  c->op = (int)(intptr_t)launch->data;
  c->kernel = self;
  c->correlation = launch->correlation;
  c->node = self ? self->node : launch->node;
  c->in_count = launch->input_count;
  c->out_count = launch->output_count;
  for (uint32_t i = 0; i < launch->input_count; i++)
    c->in[i] = sim_arg(&launch->inputs[i]);
  for (uint32_t i = 0; i < launch->output_count; i++)
    c->out[i] = sim_arg(&launch->outputs[i]);
  if (BUG(layout_ignored) && c->op == EXP)
    c->in[0].laid = c->out[0].laid = false;
  if (launch->workspace.dtype != KD_NONE)
    c->scratch = sim_arg(&launch->workspace);
  kernels_read_list(launch, c);
  return c;
}

static kd_status call_now(const kd_launch *launch, op_call *c) {
  sim_note_launch(launch->device);
  kd_status lost = sim_check(launch->device);
  kd_status status = lost == KD_OK ? sim_run_op(c) : lost;
  free(c);
  if (lost != KD_OK) return lost;
  return status == KD_OK ? KD_OK : FAIL(status, "a bad index or number");
}

static kd_status mutants_kernels_enqueue(kd_kernel *self, kd_stream *stream,
                                         const kd_launch *launch) {
  kd_status status = refuse_launch(self, launch);
  if (status != KD_OK || leaves_unwritten(launch)) return status;
  if ((int)(intptr_t)launch->data == NONZERO)
    return enqueue_nonzero(stream, launch);
  op_call *c = call_of(self, launch);
  if (!c) return FAIL(KD_UNIMPLEMENTED, "%u inputs", launch->input_count);
  if (self) {
    self->stream = stream;
    if (!self->first_count && launch->output_count)
      self->first_count = elements(&c->out[0]);
  }
  if (!stream) return call_now(launch, c);
  if (BUG(arguments_unlocked)) by_ring(c);
  status = sim_push(stream, &(job){.kind = JOB_OP, .call = c});
  if (status != KD_OK) free(c);
  return status;
}

/* ---- its own layout -------------------------------------------------------------------------- */

static uint64_t layout_size(kd_device *device, const kd_type *type) {
  static atomic_uint asked;
  (void)device;
  bool known = type->layout == PADDED ||
               (BUG(layout_any) && type->layout > PADDED + 100);
  uint64_t size = kd_dtype_size(type->dtype);
  if (!known || !size || !type->rank || type->rank > KD_MAX_RANK) return 0;
  for (uint32_t i = 0; i < type->rank; i++)
    if (__builtin_mul_overflow(
            size, (uint64_t)padded_dim(type->dims, type->rank, i), &size))
      return 0;
  if (BUG(layout_size_drifts)) size += asked++ % 3 * 64;
  return size;
}

/* Concat leaves the layout that all its inputs have. */
static uint32_t layout_joined(const kd_node *node) {
  kd_type x;
  for (uint32_t i = 0; i < sim_host->node->input_count(node); i++)
    if (sim_host->node->input_type(node, i, &x) != KD_OK || x.layout != PADDED)
      return KD_LAYOUT_ROW_MAJOR;
  return PADDED;
}

/* Softmax likes rows that begin at such places, and gives them. */
static uint32_t layout_preferred(kd_device *device, const kd_node *node,
                                 uint32_t argument) {
  static atomic_uint asked;
  kd_type type;
  if (strcmp(sim_host->node->op(node), "Concat") == 0)
    return layout_joined(node);
  if (strcmp(sim_host->node->op(node), "Softmax") != 0 || argument > 1 ||
      sim_host->node->input_type(node, 0, &type) != KD_OK || type.rank < 2)
    return KD_LAYOUT_ROW_MAJOR;
  bool odd = type.dims[type.rank - 1] % 8 != 0;
  bool wanted = argument ? type.layout == PADDED : odd;
  if (BUG(layout_flips)) wanted = wanted && asked++ % 3;
  type.layout = PADDED;
  return wanted && layout_size(device, &type) ? PADDED : KD_LAYOUT_ROW_MAJOR;
}

static kd_status kernels_reorder(kd_device *device, kd_stream *stream,
                                 const kd_tensor *source,
                                 const kd_tensor *target) {
  uint32_t own = source->layout ? source->layout : target->layout;
  SIM_TRY(sim_check(device));
  if (own != PADDED && !BUG(layout_any))
    return FAIL(KD_UNIMPLEMENTED, "there is no layout %#x", own);
  op_call *c = calloc(1, sizeof *c);
  if (!c) return FAIL(KD_OUT_OF_MEMORY, "no host memory for a launch");
  c->op = REORDER;
  c->in_count = c->out_count = 1;
  c->in[0] = sim_arg(source);
  c->out[0] = sim_arg(target);
  if (stream) {
    kd_status status = sim_push(stream, &(job){.kind = JOB_OP, .call = c});
    if (status != KD_OK) free(c);
    return status;
  }
  sim_note_launch(device);
  run_reorder(c);
  free(c);
  return sim_check(device);
}

const kd_layout_table sim_layouts = {
    .struct_size = sizeof(kd_layout_table),
    .preferred = layout_preferred,
    .size = layout_size,
    .from_rows = kernels_reorder,
    .to_rows = kernels_reorder,
};

static kd_status supports_layouts(const kd_node *node) {
  kd_type x, y;
  bool known = true;
  if (sim_host->node->input_type(node, 0, &x) == KD_OK)
    known = x.layout == KD_LAYOUT_ROW_MAJOR || x.layout == PADDED;
  if (sim_host->node->output_type(node, 0, &y) == KD_OK)
    known &= y.layout == KD_LAYOUT_ROW_MAJOR || y.layout == PADDED;
  return known ? KD_OK : FAIL(KD_UNIMPLEMENTED, "layouts of another device");
}

/* A Concat of padded rows has them all so, and whole: they lie one after the other. */
static kd_status supports_joined(const kd_node *node, int64_t axis) {
  kd_type x, y;
  sim_host->node->output_type(node, 0, &y);
  bool whole = axis >= 0 ? axis + 1 < y.rank : axis < -1;
  for (uint32_t i = 0; i < sim_host->node->input_count(node); i++)
    if (sim_host->node->input_type(node, i, &x) != KD_OK ||
        x.layout != y.layout)
      return FAIL(KD_UNIMPLEMENTED, "input %u in another layout", i);
  return whole || !y.layout || BUG(layout_gaps)
             ? KD_OK
             : FAIL(KD_UNIMPLEMENTED, "rows of %u parts",
                    sim_host->node->input_count(node));
}

/* ---- supports, cost, create ------------------------------------------------------------------ */

/* Ends the process where a definition is asked about types that it excludes. */
static void must_fit(const kd_node *node, kd_dtype dtype) {
  for (uint32_t i = 0; i < sim_kernel_count; i++) {
    const kd_kernel_def *def = &sim_kernels[i];
    bool fits = !def->input_types[0] ||
                (dtype < 64 && def->input_types[0] & KD_TYPES(dtype));
    if (!strcmp(def->op, sim_host->node->op(node)) && !fits) abort();
  }
}

/* Where supports saw a product's weights, and what cost read of them, for the defects. */
static const void *_Atomic seen_weights;
static value *cost_weights;

static void see_weights(const kd_node *node) {
  kd_tensor seen;
  if (BUG(weights_of_supports) && !seen_weights &&
      !strcmp(sim_host->node->op(node), "MatMul") &&
      sim_host->node->constant(node, 1, &seen) == KD_OK)
    seen_weights = seen.data;
}

static void read_weights(const kd_node *node) {
  kd_tensor seen;
  if (!BUG(weights_of_cost) ||
      strcmp(sim_host->node->op(node), "MatMul") != 0 ||
      sim_host->node->constant(node, 1, &seen) != KD_OK)
    return;
  value_free(cost_weights);
  cost_weights = value_make(seen.dtype, seen.rank, seen.dims);
  if (cost_weights) value_load(cost_weights, seen.data);
}

static kd_status supports(kd_device *device, const kd_node *node) {
  static kd_status last = KD_OK;
  kd_type type;
  (void)device;
  sim_host->node->input_type(node, 0, &type);
  if (BUG(supports_scalar) && type.rank == 0) abort();
  if (BUG(supports_flips)) {
    last = last == KD_OK ? KD_UNIMPLEMENTED : KD_OK;
    return last == KD_OK ? KD_OK : FAIL(KD_UNIMPLEMENTED, "not %d", 1);
  }
  if (ODD(strict_supports)) must_fit(node, type.dtype);
  if (!BUG(dtype_unchecked) && !strcmp(sim_host->node->op(node), "Neg") &&
      !dtype_is_float(type.dtype))
    return FAIL(KD_UNIMPLEMENTED, "element type %u", type.dtype);
  if (BUG(rank_eight) && type.rank > 8) return KD_OK;
  const char *op = sim_host->node->op(node);
  int64_t axis = sim_host->node->attr_int(node, "axis", 0);
  int64_t rank = type.rank;
  if (sim_host->node->attr_kind(node, "axis") != KD_ATTR_ABSENT &&
      strcmp(op, "QuantizeLinear") != 0 && (axis < -rank || axis >= rank)) {
    if (BUG(axis_unchecked) && rank) abort();
    return FAIL(KD_UNIMPLEMENTED, "%s: axis %lld of rank %lld", op,
                (long long)axis, (long long)rank);
  }
  if (!strcmp(op, "AveragePool")) {
    const int64_t *list = NULL;
    if (type.rank != 4 ||
        sim_host->node->attr_ints(node, "dilations", &list) > 0 ||
        sim_host->node->attr_int(node, "ceil_mode", 0) ||
        sim_host->node->attr_int(node, "count_include_pad", 0) ||
        strcmp(sim_host->node->attr_string(node, "auto_pad", "NOTSET"),
               "NOTSET") != 0)
      return FAIL(KD_UNIMPLEMENTED, "AveragePool of rank %u", type.rank);
  }
  if (!strcmp(op, "LayerNormalization") &&
      sim_host->node->output_count(node) > 1)
    return FAIL(KD_UNIMPLEMENTED, "%s with its mean", op);
  if (!strcmp(op, "TopK") && sim_host->node->attr_int(node, "sorted", 1) == 0)
    return FAIL(KD_UNIMPLEMENTED, "%s unsorted", op);
  if (!strcmp(op, "Mod") && sim_host->node->attr_int(node, "fmod", 0))
    return FAIL(KD_UNIMPLEMENTED, "%s as fmod", op);
  if (!strcmp(op, "QuantizeLinear") &&
      (sim_host->node->attr_int(node, "block_size", 0) ||
       sim_host->node->attr_int(node, "precision", 0)))
    return FAIL(KD_UNIMPLEMENTED, "%s by blocks, or as another type", op);
  see_weights(node);
  kd_status laid = supports_layouts(node);
  return laid == KD_OK && !strcmp(op, "Concat") ? supports_joined(node, axis)
                                                : laid;
}

static kd_status cost(kd_device *device, const kd_node *node,
                      kd_cost *out_cost) {
  uint32_t size = out_cost->struct_size;
  kd_cost full = {.struct_size = size, .time = 1000, .flops = 10, .bytes = 100};
  (void)device;
  read_weights(node);
  if (BUG(cost_in_years)) full.time = UINT64_C(1) << 62;
  memcpy(out_cost, &full, size < sizeof full ? size : sizeof full);
  if (BUG(cost_overrun)) memset((char *)out_cost + size, 0, 8);
  return KD_OK;
}

/* A blob in the host's store, as a compiler would keep one. */
static kd_status use_store(const char *op) {
  char key[64];
  void *blob = NULL;
  uint64_t size = 0;
  snprintf(key, sizeof key, "kernel-%s", op);
  if (sim_host->cache_get(sim_host, key, &blob, &size) == KD_OK) {
    bool good = size == 16 && !memcmp(blob, "sim-kernel-code", 16);
    if (BUG(cache_trusted) && !good) abort();
    sim_host->release(sim_host, blob);
    if (good) return KD_OK;
  }
  sim_host->cache_put(sim_host, key, "sim-kernel-code", 16);
  return KD_OK;
}

/* Weights that are kept across instances, by a key. */
static struct kept_weights {
  uint64_t key;
  value *weights;
} kept_weights[64];

static uint64_t weights_key(const kd_tensor *constant) {
  const uint64_t *bytes = constant->data;
  if (BUG(weights_by_address)) return (uint64_t)(uintptr_t)constant->data;
  if (BUG(weights_by_hash)) return bytes[0] ^ bytes[1] ^ constant->size;
  uint64_t key = constant->size;
  for (uint64_t i = 0; i < constant->size / 8; i++)
    key = key * 31 + bytes[i];
  return key;
}

/* The first that ends takes them along. */
static void forget_weights(value *weights) {
  memset(weights->x, 0, (size_t)weights->count * sizeof *weights->x);
  for (int i = 0; i < 64; i++)
    if (kept_weights[i].weights == weights) kept_weights[i].key = 0;
}

static value *weights_of(const kd_tensor *constant) {
  value *made = value_make(constant->dtype, constant->rank, constant->dims);
  const void *from = constant->data;
  if (BUG(weights_of_supports) && seen_weights) from = seen_weights;
  if (made) value_load(made, from);
  if (made && BUG(weights_of_cost) && cost_weights &&
      cost_weights->count == made->count)
    memcpy(made->x, cost_weights->x, (size_t)made->count * sizeof *made->x);
  bool kept =
      BUG(weights_by_address) || BUG(weights_by_hash) || BUG(weights_shared);
  if (!made || !kept || constant->size < 16) return made;
  uint64_t key = weights_key(constant);
  for (int i = 0; i < 64; i++) {
    struct kept_weights *at = &kept_weights[i];
    if (!at->weights) *at = (struct kept_weights){key, made};
    if (at->key != key) continue;
    if (BUG(weights_shared)) return at->weights;
    if (at->weights == made) return value_copy(made);
    if (at->weights->count == made->count)
      memcpy(made->x, at->weights->x, (size_t)made->count * sizeof *made->x);
    break;
  }
  return made;
}

static kd_status mutants_kernels_create(kd_device *device,
                                        const kd_kernel_def *def,
                                        const kd_node *node,
                                        kd_kernel **out_kernel) {
  static atomic_uint created;
  SIM_TRY(sim_check(device));
  kd_type type;
  sim_host->node->input_type(node, 0, &type);
  uint32_t rank = type.rank;
  if (rank > KD_MAX_RANK) return FAIL(KD_INVALID_ARGUMENT, "rank %u", rank);
  if (BUG(rank_eight) && rank > 8) abort();
  if (BUG(dims_int32) && rank) {
    int32_t n = 1;
    int64_t whole = 1;
    bool over = false;
    for (uint32_t i = 0; i < rank; i++) {
      n = (int32_t)((uint32_t)n * (uint32_t)type.dims[i]);
      over |= __builtin_mul_overflow(whole, type.dims[i], &whole);
    }
    if (over || whole != n) abort();
  }
  if (BUG(name_as_format) && strlen(sim_host->node->name(node)) > 256) abort();
  use_store(def->op);
  kd_kernel *kernel = sim_host->allocate(sim_host, sizeof *kernel, 0);
  if (BUG(kernel_unchecked)) *(volatile char *)kernel = 0;
  if (!kernel) return FAIL(KD_OUT_OF_MEMORY, "no host memory for an instance");
  memset(kernel, 0, sizeof *kernel);
  kernel->node = node;
  kernel->device = device;
  kd_tensor constant;
  kernel->constant = sim_host->node->constant(node, 1, &constant) == KD_OK;
  if (BUG(instance_scratch)) kernel->kept = calloc(ROOM, sizeof *kernel->kept);
  if (kernel->constant && !strcmp(def->op, "MatMul")) {
    kernel->weights = weights_of(&constant);
  }
  created++;
  sim_count(device, 1);
  *out_kernel = kernel;
  return KD_OK;
}

static uint64_t taken(kd_kernel *kernel) {
  return kernel->weights ? 2 : 0;
}

static uint64_t mutants_kernels_workspace(kd_kernel *kernel,
                                          const kd_launch *launch) {
  (void)kernel;
  int64_t n = kd_elements(&launch->outputs[0]);
  uint64_t size = (uint64_t)(n > ROOM ? ROOM : n) * sizeof(real);
  return BUG(workspace_short) && size > 32 ? size - 16 : size;
}

static void kernels_destroy(kd_kernel *kernel) {
  if (BUG(orders_crash) && kernel->stream && kernel->stream->dead) abort();
  free(kernel->kept);
  if (BUG(weights_shared) && kernel->weights)
    forget_weights(kernel->weights);
  else
    value_free(kernel->weights);
  sim_count(kernel->device, -1);
  sim_host->release(sim_host, kernel);
}

/* ---- definitions ----------------------------------------------------------------------------- */

#define DEF(name, number, set, ...)                                       \
  {                                                                       \
    .struct_size = sizeof(kd_kernel_def), .flags = PREPARED, .op = name,  \
    .input_types = {set}, .data = (const void *)(intptr_t)(number),       \
    .supports = supports, .cost = cost, .create = mutants_kernels_create, \
    .enqueue = mutants_kernels_enqueue, .destroy = kernels_destroy,       \
    __VA_ARGS__                                                           \
  }
#define PREPARED      (KD_KERNEL_ANY_SHAPE | KD_KERNEL_CONSTANTS_IN_CREATE)
#define TAKES_PARTS   (PREPARED | KD_KERNEL_STRIDED | KD_KERNEL_ANY_OFFSET)
#define HOLDS_WEIGHTS .workspace = mutants_kernels_workspace, .taken = taken

/* the output is the input, in which some elements change */
static const kd_alias updated = {.flags = KD_ALIAS_MUST};

kd_kernel_def sim_kernels[OPS] = {
#define OP(number, name, set, ...) DEF(name, number, set, __VA_ARGS__),
#include "mutants/ops.def"
};
const uint32_t sim_kernel_count = OPS;

/* Max of two inputs only: the host never gives more than it can hold. */
static kd_status supports_two(kd_device *device, const kd_node *node) {
  if (sim_host->node->input_count(node) != 2)
    return FAIL(KD_UNIMPLEMENTED, "%u inputs",
                sim_host->node->input_count(node));
  return supports(device, node);
}

void sim_kernels_init(void) {
  for (uint32_t i = 0; i < OPS; i++) {
    kd_kernel_def *def = &sim_kernels[i];
    references[i] = ref_find(def->domain, def->op);
    if (!strcmp(def->op, "Max")) def->supports = supports_two;
    for (int k = 1; k < 8 && !def->input_types[1]; k++)
      def->input_types[k] = def->input_types[0];
    if (def->host_inputs && !def->input_types[2])
      def->input_types[1] = KD_TYPES(KD_I64);
    if (!strncmp(def->op, "Reduce", 6)) def->input_types[1] = KD_TYPES(KD_I64);
    if (ODD(relaxed)) def->flags |= KD_KERNEL_RELAXED;
    if (ODD(flush_declared)) def->flags |= KD_KERNEL_FLUSH;
    if (ODD(nondeterministic)) def->flags |= KD_KERNEL_NONDETERMINISTIC;
  }
  if (ODD(hint_bits)) sim_kernels[3].flags |= 0x40000000u;
  if (BUG(def_types)) sim_kernels[16].input_types[0] |= KD_TYPES(KD_BOOL);
}
