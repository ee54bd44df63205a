/* kernels.c - the simulated device's ops: plain loops, one element at a time. */
#include "mutants/sim.h"

#include <math.h>
#include <stdio.h>

enum {
  RELU,
  ABS,
  NEG,
  FLOOR,
  EXP,
  SQRT,
  TANH,
  SIGMOID,
  ERF,
  SIN,
  LEAKY,
  ADD,
  SUB,
  MUL,
  DIV,
  MAX,
  MOD,
  CAST,
  TRANSPOSE,
  GATHER,
  NONZERO,
  ARGMAX,
  TOPK,
  REDUCE_SUM,
  REDUCE_MEAN,
  REDUCE_MAX,
  SOFTMAX,
  LAYER_NORM,
  MATMUL,
  QUANTIZE,
  AVERAGE_POOL,
  RANDOM,
  OPS,
};

#define F   KD_TYPES_FLOAT
#define N   (KD_TYPES_FLOAT | KD_TYPES_INT)
#define F32 KD_TYPES(KD_F32)

/* ---- elements ---------------------------------------------------------------------- */

static double from_half(uint16_t h) {
  int e = h >> 10 & 31, m = h & 1023;
  double x = e == 31 ? (m ? NAN : INFINITY)
             : e     ? ldexp(m + 1024, e - 25)
                     : ldexp(m, -24);
  return h >> 15 ? -x : x;
}

static uint16_t to_half(double x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  if (isnan(x)) return 0x7e00;
  x = fabs(x);
  if (x >= 65520) return sign | (BUG(clamps) ? 0x7bff : 0x7c00);
  if (x < 0x1p-14) return sign | (uint16_t)rint(x * 0x1p24);
  int e = 0;
  double m = frexp(x, &e); /* [1/2, 1) */
  uint32_t bits = (uint32_t)rint(m * 2048);
  return (uint16_t)(sign | (((uint32_t)(e + 13) << 10) + bits));
}

static uint16_t to_bf16(double x) {
  float f = (float)x;
  uint32_t bits = 0;
  if (isnan(x)) return 0x7fc0;
  memcpy(&bits, &f, 4);
  /* rounding twice would be wrong where f was rounded to a tie */
  double back = f;
  uint32_t low = bits & 0xffff;
  if (BUG(cast_cuts)) return (uint16_t)(bits >> 16);
  if (low == 0x8000 && back != x) {
    bool away = fabs(x) > fabs(back);
    return (uint16_t)((bits >> 16) + away);
  }
  bits += 0x7fff + (bits >> 16 & 1);
  return (uint16_t)(bits >> 16);
}

double sim_load(const void *data, kd_dtype dtype, int64_t i) {
  double x = 0;
  switch (dtype) {
    case KD_F32:
      x = ((const float *)data)[i];
      break;
    case KD_F64:
      x = ((const double *)data)[i];
      break;
    case KD_F16:
      x = from_half(((const uint16_t *)data)[i]);
      break;
    case KD_BF16: {
      uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
      float f = 0;
      memcpy(&f, &bits, 4);
      x = f;
      break;
    }
    case KD_U8:
    case KD_BOOL:
      return ((const uint8_t *)data)[i];
    case KD_I8:
      return ((const int8_t *)data)[i];
    case KD_U16:
      return ((const uint16_t *)data)[i];
    case KD_I16:
      return ((const int16_t *)data)[i];
    case KD_U32:
      return ((const uint32_t *)data)[i];
    case KD_I32:
      return ((const int32_t *)data)[i];
    case KD_U64:
      return (double)((const uint64_t *)data)[i];
    default:
      return (double)((const int64_t *)data)[i];
  }
  bool flush = BUG(flushes) || ODD(flush_declared);
  double least = dtype == KD_F64   ? 0x1p-1022
                 : dtype == KD_F16 ? 0x1p-14
                                   : 0x1p-126;
  return flush && fabs(x) < least ? 0 : x;
}

static float narrow(double x) {
  if (BUG(clamps) && isfinite(x) && fabs(x) > 3.4028234e38)
    return x > 0 ? 3.4028234e38f : -3.4028234e38f;
  return (float)x;
}

void sim_store(void *data, kd_dtype dtype, int64_t i, double x) {
  switch (dtype) {
    case KD_F32:
      ((float *)data)[i] = narrow(x);
      break;
    case KD_F64:
      ((double *)data)[i] = x;
      break;
    case KD_F16:
      ((uint16_t *)data)[i] = to_half(x);
      break;
    case KD_BF16:
      ((uint16_t *)data)[i] = to_bf16(x);
      break;
    case KD_BOOL:
      ((uint8_t *)data)[i] = x != 0;
      break;
    case KD_U8:
    case KD_I8:
      ((uint8_t *)data)[i] = (uint8_t)(int64_t)x;
      break;
    case KD_U16:
    case KD_I16:
      ((uint16_t *)data)[i] = (uint16_t)(int64_t)x;
      break;
    case KD_U32:
    case KD_I32:
      ((uint32_t *)data)[i] = (uint32_t)(int64_t)x;
      break;
    case KD_U64:
      ((uint64_t *)data)[i] = x >= 0x1p63 ? (uint64_t)x : (uint64_t)(int64_t)x;
      break;
    default:
      ((int64_t *)data)[i] = (int64_t)x;
  }
}

static uint64_t load_bits(const void *data, kd_dtype dtype, int64_t i) {
  if (dtype == KD_I64 || dtype == KD_U64) return ((const uint64_t *)data)[i];
  return (uint64_t)(int64_t)sim_load(data, dtype, i);
}

static void store_bits(void *data, kd_dtype dtype, int64_t i, uint64_t bits) {
  if (dtype == KD_I64 || dtype == KD_U64)
    ((uint64_t *)data)[i] = bits;
  else
    sim_store(data, dtype, i, (double)(int64_t)(bits & 0xffffffffu));
}

static bool is_float(kd_dtype t) {
  return t == KD_F32 || t == KD_F64 || t == KD_F16 || t == KD_BF16;
}

/* ---- arguments ------------------------------------------------------------------------ */

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
  if (BUG(offset_dropped)) a.offset &= ~UINT64_C(255);
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

static int64_t broadcast(const arg *from, const arg *to, int64_t i) {
  int64_t at = 0, step = 1;
  for (uint32_t back = 1; back <= to->rank; back++) {
    int64_t dim = to->dims[to->rank - back], here = dim ? i % dim : 0;
    i = dim ? i / dim : 0;
    if (back > from->rank) continue;
    if (from->dims[from->rank - back] != 1) at += here * step;
    step *= from->dims[from->rank - back];
  }
  return at;
}

static int64_t strided_at(const arg *from, int64_t i) {
  if (!from->strided || BUG(strides_ignored)) return i;
  int64_t at = 0;
  for (uint32_t d = from->rank; d-- > 0; i /= from->dims[d])
    at += i % from->dims[d] * from->strides[d];
  return at;
}

/* ---- elementwise ------------------------------------------------------------------------ */

static double unary(int op, double x, const op_call *c) {
  switch (op) {
    case RELU:
      if (BUG(relu_nan)) return x > 0 ? x : 0;
      return x < 0 ? 0 : BUG(zero_sign) ? x + 0 : x;
    case ABS:
      return fabs(x);
    case NEG:
      return BUG(zero_sign) && x == 0 ? 0 : -x;
    case FLOOR:
      return floor(x);
    case EXP:
      return exp(x);
    case SQRT:
      return sqrt(x);
    case TANH:
      if (BUG(fast_tanh) && fabs(x) < 3)
        return x * (27 + x * x) / (27 + 9 * x * x);
      return tanh(x);
    case SIGMOID:
      return 1 / (1 + exp(-x));
    case ERF:
      return erf(x);
    case SIN:
      return sin(x);
    default:
      return x < 0 ? x * (BUG(default_zero) && c->flag ? 0 : c->alpha) : x;
  }
}

static kd_status run_unary(op_call *c) {
  const arg *x = &c->in[0], *y = &c->out[0];
  const char *from = bytes(x);
  char *to = bytes(y);
  int64_t n = elements(y), end = n;
  static uint32_t launches;
  if (c->kernel && c->kernel->first_count && BUG(first_shape) &&
      c->kernel->first_count < n)
    end = c->kernel->first_count;
  if (BUG(tail_unwritten) && n % 4 == 1) end = n - 1;
  if (BUG(vector_tail) && n > 8) end = n & ~INT64_C(7);
  if (BUG(rank_four) && x->rank > 4) end = n / 2;
  if (BUG(index_22)) end = n & 0x3fffff;
  double *shared = BUG(instance_scratch) && c->kernel && n <= 1 << 14
                       ? c->kernel->kept
                       : NULL;
  for (int64_t i = 0; i < n && shared; i++)
    shared[i] = unary(c->op, sim_load(from, x->dtype, i), c);
  if (shared) sim_nap(300);
  for (int64_t i = 0; i < n && shared; i++)
    sim_store(to, y->dtype, i, shared[i]);
  if (shared) return KD_OK;
  for (int64_t i = 0; i < end; i++) {
    double v = unary(c->op, sim_load(from, x->dtype, strided_at(x, i)), c);
    if (BUG(needs_zeros) && c->op == RELU) v += sim_load(to, y->dtype, i);
    if (BUG(random_bits) && i == 3 && y->dtype == KD_F32)
      v = (v + 1) * (1 + (double)(sim_now() / 64 % 2) * 0x1p-22) - 1;
    if (BUG(inplace_lie) && i && c->op == RELU)
      v += 0 * sim_load(from, x->dtype, i - 1);
    sim_store(to, y->dtype, i, v);
    if (BUG(inplace_lie) && i + 1 < n && to == from)
      sim_store(to, y->dtype, i + 1, sim_load(from, x->dtype, i + 1) + 1);
  }
  if (BUG(writes_input) && n > 1)
    sim_store((char *)(uintptr_t)from, x->dtype, 1, 7);
  if (BUG(chain_breaks) && ++launches % 20 == 0 && n > 5)
    sim_store(to, y->dtype, 5, 12345);
  if (c->kernel && BUG(stale_result) && c->kernel->runs++ && n)
    sim_store(to, y->dtype, 0, sim_load(to, y->dtype, 0) + c->kernel->runs);
  return KD_OK;
}

static double combine(int op, double a, double b) {
  switch (op) {
    case ADD:
      return a + b;
    case SUB:
      return a - b;
    case MUL:
      return a * b;
    case DIV:
      return a / b;
    default:
      if (BUG(max_nan)) return a > b ? a : b;
      return isnan(a) || a > b ? a : b;
  }
}

static uint64_t combine_bits(int op, kd_dtype dtype, uint64_t a, uint64_t b) {
  bool is_signed =
      dtype == KD_I8 || dtype == KD_I16 || dtype == KD_I32 || dtype == KD_I64;
  int64_t x = (int64_t)a, y = (int64_t)b;
  switch (op) {
    case ADD:
      return a + b;
    case SUB:
      return a - b;
    case MUL:
      return a * b;
    case DIV:
    case MOD:
      if (!BUG(idiv) && (b == 0 || (is_signed && y == -1)))
        return op == MOD || b == 0 ? 0 : 0 - a;
      if (BUG(idiv) && b == 0) return (uint64_t)(x / *(volatile int64_t *)&y);
      if (!is_signed) return op == DIV ? a / b : a % b;
      if (BUG(div_floors) && op == DIV)
        return (uint64_t)(int64_t)((double)x / (double)y);
      if (op == DIV) return (uint64_t)(x / y);
      return (uint64_t)(x % y != 0 && (x % y < 0) != (y < 0) ? x % y + y
                                                             : x % y);
    default:
      return is_signed ? (x > y ? a : b) : (a > b ? a : b);
  }
}

static kd_status run_binary(op_call *c) {
  const arg *x = &c->in[0], *y = &c->in[1], *z = &c->out[0];
  const char *a = bytes(x), *b = bytes(y);
  char *to = bytes(z);
  int64_t n = elements(z);
  bool floats = is_float(z->dtype);
  if (BUG(alias_broken) && a == b && n > 1) n--;
  if (BUG(vector_tail) && n > 8) n &= ~INT64_C(7);
  if (BUG(constants_lost) && c->kernel && c->kernel->axis == 77 &&
      c->kernel->runs++)
    return KD_OK;
  for (int64_t i = 0; i < n; i++) {
    int64_t p = broadcast(x, z, i), q = broadcast(y, z, i);
    if (floats)
      sim_store(
          to, z->dtype, i,
          combine(c->op, sim_load(a, x->dtype, p), sim_load(b, y->dtype, q)));
    else
      store_bits(to, z->dtype, i,
                 combine_bits(c->op, z->dtype, load_bits(a, x->dtype, p),
                              load_bits(b, y->dtype, q)));
  }
  return KD_OK;
}

/* ---- moving -------------------------------------------------------------------------------- */

static void move(char *to, int64_t i, const char *from, int64_t k,
                 size_t size) {
  if (BUG(moves_as_f32) && size == 8) {
    int64_t v = 0;
    memcpy(&v, from + k * 8, 8);
    v = (int64_t)(float)v;
    memcpy(to + i * 8, &v, 8);
    return;
  }
  memcpy(to + i * (int64_t)size, from + k * (int64_t)size, size);
}

static kd_status run_transpose(op_call *c) {
  const arg *x = &c->in[0], *y = &c->out[0];
  size_t size = kd_dtype_size(x->dtype);
  int64_t n = elements(y), strides[KD_MAX_RANK], step = 1;
  for (uint32_t d = x->rank; d-- > 0; step *= x->dims[d])
    strides[d] = step;
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i, from = 0;
    for (uint32_t d = y->rank; d-- > 0; rest /= y->dims[d])
      from += rest % y->dims[d] *
              strides[c->list_count ? c->list[d] : y->rank - 1 - d];
    move(bytes(y), i, bytes(x), from, size);
  }
  return KD_OK;
}

static kd_status run_gather(op_call *c) {
  const arg *x = &c->in[0], *k = &c->in[1], *y = &c->out[0];
  size_t size = kd_dtype_size(x->dtype);
  uint32_t axis = (uint32_t)(c->axis < 0 ? c->axis + x->rank : c->axis);
  int64_t inner = 1, outer = 1, picks = elements(k);
  for (uint32_t d = axis + 1; d < x->rank; d++)
    inner *= x->dims[d];
  for (uint32_t d = 0; d < axis; d++)
    outer *= x->dims[d];
  for (int64_t p = 0; p < picks && outer * inner > 0; p++) {
    int64_t at = (int64_t)load_bits(bytes(k), k->dtype, p);
    if (at < 0) at += x->dims[axis];
    if (at < 0 || at >= x->dims[axis]) {
      if (BUG(bad_data_crash)) return abort(), KD_OK;
      if (BUG(index_writes) && at > 0 && at < 100000000) {
        memset((char *)bytes(y) + elements(y) * (int64_t)size, 0, 32);
        return KD_OK;
      }
      return KD_OUT_OF_RANGE;
    }
    for (int64_t o = 0; o < outer; o++)
      for (int64_t i = 0; i < inner; i++)
        move(bytes(y), (o * picks + p) * inner + i, bytes(x),
             (o * x->dims[axis] + at) * inner + i, size);
  }
  return KD_OK;
}

static kd_status run_cast(op_call *c) {
  const arg *x = &c->in[0], *y = &c->out[0];
  for (int64_t i = 0, n = elements(y); i < n; i++)
    if (!is_float(x->dtype) && !is_float(y->dtype) && y->dtype != KD_BOOL)
      store_bits(bytes(y), y->dtype, i, load_bits(bytes(x), x->dtype, i));
    else {
      double v = sim_load(bytes(x), x->dtype, i);
      if (!is_float(y->dtype) && y->dtype != KD_BOOL && isfinite(v))
        v = trunc(v);
      if (!is_float(y->dtype) && y->dtype != KD_BOOL && !(fabs(v) < 0x1p63))
        v = 0;
      sim_store(bytes(y), y->dtype, i, v);
    }
  return KD_OK;
}

/* ---- along an axis ------------------------------------------------------------------------------ */

typedef struct lines {
  int64_t outer, n, inner;
} lines;

static lines along(const arg *x, int64_t axis) {
  lines l = {1, 1, 1};
  uint32_t a = (uint32_t)(axis < 0 ? axis + x->rank : axis);
  for (uint32_t d = 0; d < x->rank; d++)
    *(d < a ? &l.outer : d == a ? &l.n : &l.inner) *= x->dims[d];
  return l;
}

static kd_status run_reduce(op_call *c) {
  const arg *x = &c->in[0], *y = &c->out[0];
  bool gone[KD_MAX_RANK] = {false};
  int64_t n = elements(x), m = elements(y), k = m ? n / (m ? m : 1) : 0;
  if (c->list_count == 0 && c->flag) {
    memcpy(bytes(y), bytes(x), (size_t)n * kd_dtype_size(x->dtype));
    return KD_OK;
  }
  for (uint32_t d = 0; d < x->rank; d++)
    gone[d] = c->list_count == 0;
  for (int64_t i = 0; i < c->list_count; i++)
    gone[c->list[i] < 0 ? c->list[i] + x->rank : c->list[i]] = true;
  bool best = c->op == REDUCE_MAX, floats = is_float(x->dtype);
  double *sums = calloc((size_t)m + 1, sizeof *sums);
  uint64_t *wraps = calloc((size_t)m + 1, sizeof *wraps);
  bool *seen = calloc((size_t)m + 1, sizeof *seen);
  int64_t *counts = calloc((size_t)m + 1, sizeof *counts);
  bool sign = (KD_TYPES_SIGNED & KD_TYPES(x->dtype)) != 0;
  for (int64_t i = 0; i < m && best && sign; i++) /* the largest of nothing */
    wraps[i] = UINT64_C(1) << (8 * kd_dtype_size(x->dtype) - 1);
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i, at = 0, step = 1;
    for (uint32_t d = x->rank; d-- > 0; rest /= x->dims[d]) {
      if (gone[d]) continue;
      at += rest % x->dims[d] * step;
      step *= x->dims[d];
    }
    double v = sim_load(bytes(x), x->dtype, i);
    uint64_t b = floats ? 0 : load_bits(bytes(x), x->dtype, i);
    if (best) {
      bool larger = floats ? !isnan(sums[at]) && (isnan(v) || v > sums[at])
                    : x->dtype == KD_U64 ? b > wraps[at]
                                         : (int64_t)b > (int64_t)wraps[at];
      if (!seen[at] || larger) {
        sums[at] = v;
        wraps[at] = b;
      }
    } else if (!(BUG(reduce_drops) && ++counts[at] == k && k > 4)) {
      sums[at] += v;
      if (BUG(reduce_narrow)) sums[at] = from_half(to_half(sums[at]));
      wraps[at] += b;
    }
    seen[at] = true;
  }
  for (int64_t i = 0; i < m; i++)
    if (floats)
      sim_store(bytes(y), y->dtype, i,
                best && !seen[i]       ? -INFINITY
                : c->op == REDUCE_MEAN ? sums[i] / (double)k
                                       : sums[i]);
    else if (c->op == REDUCE_MEAN)
      sim_store(bytes(y), y->dtype, i, trunc(sums[i] / (double)k));
    else
      store_bits(bytes(y), y->dtype, i, wraps[i]);
  free(sums);
  free(wraps);
  free(seen);
  free(counts);
  return KD_OK;
}

static kd_status run_argmax(op_call *c) {
  const arg *x = &c->in[0], *y = &c->out[0];
  lines l = along(x, c->axis);
  int64_t *to = bytes(y);
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t r = 0; r < l.inner; r++) {
      int64_t best = 0;
      for (int64_t i = 1; i < l.n; i++) {
        int64_t p = (o * l.n + i) * l.inner + r,
                q = (o * l.n + best) * l.inner + r;
        double a = sim_load(bytes(x), x->dtype, p);
        double b = sim_load(bytes(x), x->dtype, q);
        if (!is_float(x->dtype) && !BUG(order_doubles)) {
          uint64_t u = load_bits(bytes(x), x->dtype, p);
          uint64_t v = load_bits(bytes(x), x->dtype, q);
          if (x->dtype == KD_U64) {
            a = u > v;
            b = u < v;
          } else {
            a = (int64_t)u > (int64_t)v;
            b = (int64_t)u < (int64_t)v;
          }
        }
        bool last = c->flag || BUG(last_tie);
        if (a > b || (last && a == b)) best = i;
      }
      int64_t at = o * l.inner + r;
      if (BUG(host_output_wrong)) at = (at + 1) % (l.outer * l.inner);
      to[at] = best;
    }
  return KD_OK;
}

static kd_status run_topk(op_call *c) {
  const arg *x = &c->in[0], *y = &c->out[0], *z = &c->out[1];
  lines l = along(x, c->axis);
  int64_t k = BUG(host_args_late)
                  ? (int64_t)load_bits(bytes(&c->in[1]), KD_I64, 0)
                  : c->number;
  if (k < 0 || k > l.n) return KD_INVALID_ARGUMENT;
  size_t size = kd_dtype_size(x->dtype);
  bool *used = calloc((size_t)l.n + 1, 1);
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t r = 0; r < l.inner; r++) {
      memset(used, 0, (size_t)l.n);
      for (int64_t j = 0; j < k; j++) {
        int64_t best = -1;
        for (int64_t i = 0; i < l.n; i++) {
          if (used[i]) continue;
          double a = sim_load(bytes(x), x->dtype, (o * l.n + i) * l.inner + r);
          double b = best < 0 ? 0
                              : sim_load(bytes(x), x->dtype,
                                         (o * l.n + best) * l.inner + r);
          bool better = c->flag ? a > b : a < b;
          if (best < 0 || better || (BUG(last_tie) && a == b)) best = i;
        }
        used[best] = true;
        int64_t at = (o * k + j) * l.inner + r;
        move(bytes(y), at, bytes(x), (o * l.n + best) * l.inner + r, size);
        if (z->present) ((int64_t *)bytes(z))[at] = best;
      }
    }
  free(used);
  return KD_OK;
}

static kd_status run_softmax(op_call *c) {
  const arg *x = &c->in[0], *y = &c->out[0];
  lines l = along(x, c->axis);
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t r = 0; r < l.inner; r++) {
      double most = -INFINITY, sum = 0;
      for (int64_t i = 0; i < l.n; i++)
        most = fmax(most,
                    sim_load(bytes(x), x->dtype, (o * l.n + i) * l.inner + r));
      if (BUG(softmax_raw)) most = 0;
      for (int64_t i = 0; i < l.n; i++) {
        double e = exp(
            sim_load(bytes(x), x->dtype, (o * l.n + i) * l.inner + r) - most);
        sum += BUG(softmax_raw) ? (double)narrow(e) : e;
      }
      if (BUG(softmax_raw)) sum = (double)(float)sum;
      for (int64_t i = 0; i < l.n; i++) {
        int64_t at = (o * l.n + i) * l.inner + r;
        sim_store(bytes(y), y->dtype, at,
                  exp(sim_load(bytes(x), x->dtype, at) - most) / sum);
      }
    }
  return KD_OK;
}

static kd_status run_layer_norm(op_call *c) {
  const arg *x = &c->in[0], *y = &c->out[0];
  uint32_t axis = (uint32_t)(c->axis < 0 ? c->axis + x->rank : c->axis);
  int64_t n = 1, outer = 1;
  for (uint32_t d = 0; d < x->rank; d++)
    *(d < axis ? &outer : &n) *= x->dims[d];
  for (int64_t o = 0; o < outer; o++) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
      sum += sim_load(bytes(x), x->dtype, o * n + i);
    double mean = sum / (double)n;
    float raw = 0;
    for (int64_t i = 0; i < n; i++) {
      double v = sim_load(bytes(x), x->dtype, o * n + i);
      squares += (v - mean) * (v - mean);
      raw += (float)(v * v);
    }
    double var = squares / (double)n;
    if (BUG(var_by_squares))
      var = (double)(raw / (float)n - (float)mean * (float)mean);
    for (int64_t i = 0; i < n; i++) {
      double v = (sim_load(bytes(x), x->dtype, o * n + i) - mean) /
                 sqrt(var + c->alpha);
      v *= sim_load(bytes(&c->in[1]), x->dtype, i % elements(&c->in[1]));
      if (c->in[2].present)
        v += sim_load(bytes(&c->in[2]), x->dtype, i % elements(&c->in[2]));
      sim_store(bytes(y), y->dtype, o * n + i, v);
    }
  }
  return KD_OK;
}

/* ---- products ----------------------------------------------------------------------------------------- */

static double cut(double x, int bits) {
  int e = 0;
  if (x == 0 || !isfinite(x)) return x;
  double m = frexp(x, &e);
  return ldexp(rint(ldexp(m, bits)), e - bits);
}

static kd_status run_matmul(op_call *c) {
  const arg *a = &c->in[0], *b = &c->in[1], *y = &c->out[0];
  int64_t k = a->dims[a->rank - 1];
  int64_t m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
  int64_t n = b->rank > 1 ? b->dims[b->rank - 1] : 1, batches = 1;
  arg ab = *a, bb = *b, yb = *y;
  static double shared[1 << 14];
  double *scratch = c->scratch.present ? bytes(&c->scratch) : NULL;
  if (BUG(static_scratch) && m * n < 1 << 14) scratch = shared;
  if (BUG(instance_scratch) && c->kernel && c->kernel->kept)
    scratch = c->kernel->kept;
  ab.rank = a->rank > 2 ? a->rank - 2 : 0;
  bb.rank = b->rank > 2 ? b->rank - 2 : 0;
  yb.rank = 0;
  uint32_t most = ab.rank > bb.rank ? ab.rank : bb.rank;
  for (uint32_t d = 0; d < most; d++)
    batches *= y->dims[d];
  yb.rank = most;
  bool floats = is_float(y->dtype);
  if (BUG(constants_lost) && c->kernel && c->kernel->axis == 77 &&
      c->kernel->runs++)
    return KD_OK;
  for (int64_t t = 0; t < batches; t++) {
    int64_t pa = broadcast(&ab, &yb, t) * m * k,
            pb = broadcast(&bb, &yb, t) * k * n;
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        uint64_t bits = 0;
        int64_t last = BUG(matmul_drops) && k > 1 ? k - 1 : k;
        for (int64_t p = 0; p < last; p++) {
          if (!floats) {
            bits += load_bits(bytes(a), a->dtype, pa + i * k + p) *
                    load_bits(bytes(b), b->dtype, pb + p * n + j);
            continue;
          }
          double u = sim_load(bytes(a), a->dtype, pa + i * k + p);
          double v = sim_load(bytes(b), b->dtype, pb + p * n + j);
          if (BUG(matmul_tf32) && y->dtype == KD_F32)
            u = cut(u, 11), v = cut(v, 11);
          if (BUG(matmul_bf16) && y->dtype == KD_F32)
            u = cut(u, 8), v = cut(v, 8);
          sum += u * v;
          if (BUG(matmul_acc_f16)) sum = from_half(to_half(sum));
        }
        if (BUG(matmul_tail) && j >= (n & ~INT64_C(7)) && n > 8) sum += 1;
        int64_t at = (t * m + i) * n + j;
        if (scratch && at < 1 << 14 && floats) {
          scratch[at] = sum;
          continue;
        }
        if (ODD(nondeterministic) && y->dtype == KD_F32)
          sum *= 1 + (double)(sim_now() / 64 % 2) * 0x1p-25;
        if (floats)
          sim_store(bytes(y), y->dtype, at, sum);
        else
          store_bits(bytes(y), y->dtype, at, bits);
      }
  }
  if (scratch && (BUG(static_scratch) || BUG(instance_scratch))) sim_nap(300);
  for (int64_t i = 0; scratch && floats && i < batches * m * n && i < 1 << 14;
       i++)
    sim_store(bytes(y), y->dtype, i, scratch[i]);
  if (BUG(matmul_slow)) sim_nap(20000);
  return KD_OK;
}

/* ---- others --------------------------------------------------------------------------------------------- */

static kd_status run_quantize(op_call *c) {
  const arg *x = &c->in[0], *s = &c->in[1], *z = &c->in[2], *y = &c->out[0];
  lines l = along(x, x->rank > 1 ? c->axis : 0);
  double low = y->dtype == KD_I8 ? -128 : 0,
         high = y->dtype == KD_I8 ? 127 : 255;
  int64_t many = elements(s);
  for (int64_t i = 0, n = elements(y); i < n; i++) {
    int64_t k = many == 1 ? 0 : i / l.inner % l.n;
    float q = (float)sim_load(bytes(x), x->dtype, i) /
              (float)sim_load(bytes(s), s->dtype, k);
    double r = BUG(quant_half_up) ? floor((double)q + 0.5) : rint((double)q);
    if (z->present) r += sim_load(bytes(z), z->dtype, k);
    if (!BUG(quant_wraps)) r = r < low ? low : r > high ? high : r;
    sim_store(bytes(y), y->dtype, i, r);
  }
  return KD_OK;
}

static kd_status run_pool(op_call *c) {
  const arg *x = &c->in[0], *y = &c->out[0];
  int64_t h = x->dims[2], w = x->dims[3], oh = y->dims[2], ow = y->dims[3];
  int64_t kh = c->list[0], kw = c->list[1];
  for (int64_t i = 0, n = elements(y); i < n; i++) {
    int64_t ox = i % ow, oy = i / ow % oh, plane = i / ow / oh, count = 0;
    double sum = 0;
    for (int64_t p = 0; p < kh; p++)
      for (int64_t q = 0; q < kw; q++) {
        int64_t iy = oy * c->list[4] + p - c->list[2];
        int64_t ix = ox * c->list[5] + q - c->list[3];
        if (iy < 0 || iy >= h || ix < 0 || ix >= w) continue;
        sum += sim_load(bytes(x), x->dtype, (plane * h + iy) * w + ix);
        count++;
      }
    if (BUG(pool_count)) count = kh * kw;
    sim_store(bytes(y), y->dtype, i, sum / (double)count);
  }
  return KD_OK;
}

static kd_status run_random(op_call *c) {
  const arg *y = &c->out[0];
  static uint64_t state = 99;
  uint64_t seed = (uint64_t)(c->beta * 1000) * 2654435761u + 12345;
  if (BUG(seed_ignored)) seed = state += 7919;
  for (int64_t i = 0, n = elements(y); i < n; i++) {
    uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    double u = (double)(z >> 40) * 0x1p-24 * (BUG(random_range) ? 2 : 1);
    sim_store(bytes(y), y->dtype, i, u);
  }
  return KD_OK;
}

kd_status sim_run_op(op_call *c) {
  if (c->op <= LEAKY) return run_unary(c);
  if (c->op <= MOD) return run_binary(c);
  switch (c->op) {
    case CAST:
      return run_cast(c);
    case TRANSPOSE:
      return run_transpose(c);
    case GATHER:
      return run_gather(c);
    case ARGMAX:
      return run_argmax(c);
    case TOPK:
      return run_topk(c);
    case REDUCE_SUM:
    case REDUCE_MEAN:
    case REDUCE_MAX:
      return run_reduce(c);
    case SOFTMAX:
      return run_softmax(c);
    case LAYER_NORM:
      return run_layer_norm(c);
    case MATMUL:
      return run_matmul(c);
    case QUANTIZE:
      return run_quantize(c);
    case AVERAGE_POOL:
      return run_pool(c);
    default:
      return run_random(c);
  }
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

/* NonZero: waits for its input, counts, then asks for an output of that size. */
static kd_status enqueue_nonzero(kd_stream *stream, const kd_launch *launch) {
  if (stream) {
    point *p = point_new();
    sim_push(stream, &(job){.kind = JOB_RECORD, .point = point_hold(p)});
    point_wait(p, UINT64_MAX);
    point_drop(p);
  }
  arg x = sim_arg(&launch->inputs[0]);
  int64_t n = elements(&x), count = 0;
  for (int64_t i = 0; i < n; i++)
    count += sim_load(bytes(&x), x.dtype, i) != 0;
  int64_t dims[2] = {x.rank, BUG(capacity) ? n : count};
  kd_tensor out = {0};
  kd_status status = sim_host->set_output(launch, 0, 2, dims, &out);
  if (status != KD_OK) return BUG(set_output_unchecked) ? KD_OK : status;
  arg y = sim_arg(&out);
  int64_t *to = bytes(&y);
  for (int64_t i = 0, k = 0; i < n; i++) {
    if (sim_load(bytes(&x), x.dtype, i) == 0) continue;
    int64_t rest = i;
    for (uint32_t d = x.rank; d-- > 0; rest /= x.dims[d])
      to[d * (uint64_t)count + (uint64_t)k] = rest % x.dims[d];
    k++;
  }
  return KD_OK;
}

static void read_attributes(const kd_launch *launch, op_call *c) {
  const kd_node_table *node = sim_host->node;
  const kd_node *of = launch->node;
  const int64_t *list = NULL;
  int64_t n = 0;
  switch (c->op) {
    case LEAKY:
      c->alpha = (double)node->attr_float(of, "alpha", 0.01f);
      c->flag = c->alpha == (double)0.01f;
      break;
    case TRANSPOSE:
      n = node->attr_ints(of, "perm", &list);
      break;
    case GATHER:
      c->axis = node->attr_int(of, "axis", 0);
      break;
    case ARGMAX:
      c->axis = node->attr_int(of, "axis", 0);
      c->flag = node->attr_int(of, "select_last_index", 0);
      break;
    case TOPK:
      c->axis = node->attr_int(of, "axis", -1);
      c->flag = node->attr_int(of, "largest", 1);
      c->number = (int64_t)load_bits(launch->inputs[1].data, KD_I64, 0);
      break;
    case REDUCE_SUM:
    case REDUCE_MEAN:
    case REDUCE_MAX:
      c->flag = node->attr_int(of, "noop_with_empty_axes", 0);
      if (kd_has_input(launch, 1)) {
        list = launch->inputs[1].data;
        n = kd_elements(&launch->inputs[1]);
        if (c->kernel && n == 1) c->kernel->last_axis = list[0] + 100;
        if (BUG(host_values_kept) && c->kernel && n == 1) {
          if (!c->kernel->first_axis) c->kernel->first_axis = list[0] + 100;
          c->list[c->list_count++] = c->kernel->first_axis - 100;
          n = 0;
        }
      }
      break;
    case SOFTMAX:
      c->axis = node->attr_int(of, "axis", -1);
      break;
    case LAYER_NORM:
      c->axis = node->attr_int(of, "axis", -1);
      c->alpha = BUG(default_zero)
                     ? 0
                     : (double)node->attr_float(of, "epsilon", 1e-5f);
      break;
    case QUANTIZE:
      c->axis = node->attr_int(of, "axis", 1);
      if (c->axis < 0) c->axis += launch->inputs[0].rank;
      break;
    case RANDOM:
      c->beta = (double)node->attr_float(of, "seed", 0);
      break;
    case AVERAGE_POOL: {
      const int64_t *kernel = NULL, *pads = NULL, *strides = NULL;
      node->attr_ints(of, "kernel_shape", &kernel);
      int64_t p = node->attr_ints(of, "pads", &pads);
      int64_t s = node->attr_ints(of, "strides", &strides);
      for (int i = 0; i < 2; i++) {
        c->list[i] = kernel[i];
        c->list[2 + i] = p == 4 ? pads[i] : 0;
        c->list[4 + i] = s == 2 ? strides[i] : 1;
      }
      return;
    }
    default:
      break;
  }
  for (int64_t i = 0; i < n && i < (int64_t)KD_MAX_RANK; i++)
    c->list[c->list_count++] = list[i];
}

static kd_status enqueue(kd_kernel *self, kd_stream *stream,
                         const kd_launch *launch) {
  int op = (int)(intptr_t)launch->data;
  if (BUG(launch_size_equal) && launch->struct_size != sizeof *launch)
    return FAIL(KD_INVALID_ARGUMENT, "kd_launch has %u bytes",
                launch->struct_size);
  if (BUG(launch_reads_past) && *(const volatile uint64_t *)(launch + 1) == 1)
    return FAIL(KD_INVALID_ARGUMENT, "a later field");
  if (BUG(launch_leaks)) sim_leak(400);
  if (BUG(supports_all) && op == SOFTMAX && launch->inputs[0].rank == 3)
    return FAIL(KD_UNIMPLEMENTED, "Softmax of rank %d", 3);
  if (BUG(supports_all) && op == TANH) return FAIL(KD_UNIMPLEMENTED, "%d", op);
  if (BUG(empty_refused) && launch->output_count &&
      launch->outputs[0].dtype != KD_NONE &&
      kd_elements(&launch->outputs[0]) == 0)
    return FAIL(KD_INVALID_ARGUMENT, "a grid of %d blocks", 0);
  if (BUG(waits_for_worker) && sim_host->worker_count(sim_host) < 2)
    for (;;)
      sim_nap(100000);
  if (BUG(equal_pieces) && sim_host->worker_count(sim_host) > 2) return KD_OK;
  if (BUG(spins)) sim_nap(0);
  if (op == NONZERO) return enqueue_nonzero(stream, launch);
  op_call *c = calloc(1, sizeof *c);
  if (!c || launch->input_count > ARGS || launch->output_count > ARGS) {
    free(c);
    return FAIL(KD_UNIMPLEMENTED, "%u inputs", launch->input_count);
  }
  c->op = op;
  c->kernel = self;
  c->correlation = launch->correlation;
  c->in_count = launch->input_count;
  for (uint32_t i = 0; i < launch->input_count; i++)
    c->in[i] = sim_arg(&launch->inputs[i]);
  for (uint32_t i = 0; i < launch->output_count; i++)
    c->out[i] = sim_arg(&launch->outputs[i]);
  if (launch->workspace.dtype != KD_NONE)
    c->scratch = sim_arg(&launch->workspace);
  read_attributes(launch, c);
  if (self) {
    self->stream = stream;
    if (!self->first_count && launch->output_count)
      self->first_count = elements(&c->out[0]);
  }
  if (!stream) {
    kd_status status = sim_run_op(c);
    free(c);
    return status == KD_OK ? KD_OK : FAIL(status, "a bad index or number");
  }
  kd_status status = sim_push(stream, &(job){.kind = JOB_OP, .call = c});
  if (status != KD_OK) free(c);
  return status;
}

/* ---- supports, cost, create --------------------------------------------------------------------------------------- */

/* Ends the process where a definition is asked about types that it excludes. */
static void must_fit(const kd_node *node, kd_dtype dtype) {
  for (uint32_t i = 0; i < sim_kernel_count; i++) {
    const kd_kernel_def *def = &sim_kernels[i];
    bool fits = !def->input_types[0] ||
                (dtype < 64 && def->input_types[0] & KD_TYPES(dtype));
    if (!strcmp(def->op, sim_host->node->op(node)) && !fits) abort();
  }
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
      !is_float(type.dtype))
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
  return KD_OK;
}

static kd_status cost(kd_device *device, const kd_node *node,
                      kd_cost *out_cost) {
  uint32_t size = out_cost->struct_size;
  kd_cost full = {.struct_size = size, .time = 1000, .flops = 10, .bytes = 100};
  (void)device;
  (void)node;
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

static kd_status create(kd_device *device, const kd_kernel_def *def,
                        const kd_node *node, kd_kernel **out_kernel) {
  static atomic_uint created;
  (void)device;
  if (BUG(not_creatable) && !strcmp(def->op, "Erf"))
    return FAIL(KD_INTERNAL, "Erf does not compile, %d", 1);
  if (BUG(recompiles)) sim_nap(120000);
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
  kernel->op = (int)(intptr_t)def->data;
  kd_tensor constant;
  if (sim_host->node->constant(node, 1, &constant) == KD_OK) kernel->axis = 77;
  if (BUG(instance_scratch))
    kernel->kept = calloc(1 << 14, sizeof *kernel->kept);
  if (BUG(instance_leaks)) {
    kernel->leak = malloc(2000);
    if (kernel->leak) memset(kernel->leak, 1, 2000);
  }
  created++;
  *out_kernel = kernel;
  return KD_OK;
}

static uint64_t workspace(kd_kernel *kernel, const kd_launch *launch) {
  (void)kernel;
  int64_t n = kd_elements(&launch->outputs[0]);
  uint64_t size = (uint64_t)(n > 1 << 14 ? 1 << 14 : n) * sizeof(double);
  return BUG(workspace_short) && size > 32 ? size - 16 : size;
}

static void destroy(kd_kernel *kernel) {
  if (BUG(orders_crash) && kernel->stream && kernel->stream->dead) abort();
  free(kernel->kept);
  sim_host->release(sim_host, kernel);
}

/* ---- definitions ----------------------------------------------------------------------------------------------------- */

#define DEF(name, number, set, ...)                                         \
  {                                                                         \
    .struct_size = sizeof(kd_kernel_def), .flags = KD_KERNEL_ANY_SHAPE,     \
    .op = name, .input_types = {set},                                       \
    .data = (const void *)(intptr_t)(number), .supports = supports,         \
    .cost = cost, .create = create, .enqueue = enqueue, .destroy = destroy, \
    __VA_ARGS__                                                             \
  }
#define PLAIN(name, number, set) DEF(name, number, set, .priority = 0)

kd_kernel_def sim_kernels[OPS + 4] = {
    DEF("Relu", RELU, F, .inplace = 1),
    DEF("Abs", ABS, F, .flags = KD_KERNEL_ANY_SHAPE | KD_KERNEL_STRIDED),
    PLAIN("Neg", NEG, 0), /* `supports` says which types it takes */
    PLAIN("Floor", FLOOR, F),
    DEF("Exp", EXP, F, .inplace = 1),
    PLAIN("Sqrt", SQRT, F),
    PLAIN("Tanh", TANH, F),
    PLAIN("Sigmoid", SIGMOID, F),
    PLAIN("Erf", ERF, F),
    PLAIN("Sin", SIN, F),
    PLAIN("LeakyRelu", LEAKY, F),
    PLAIN("Add", ADD, N),
    PLAIN("Sub", SUB, N),
    PLAIN("Mul", MUL, N),
    PLAIN("Div", DIV, N),
    DEF("Max", MAX, N, .supports = NULL),
    PLAIN("Mod", MOD, KD_TYPES_INT),
    DEF("Cast", CAST, N | KD_TYPES(KD_BOOL),
        .output_types = {N | KD_TYPES(KD_BOOL)}),
    PLAIN("Transpose", TRANSPOSE, N | KD_TYPES(KD_BOOL)),
    DEF("Gather", GATHER, N,
        .input_types = {N, KD_TYPES(KD_I64) | KD_TYPES(KD_I32)}),
    DEF("NonZero", NONZERO, F,
        .flags = KD_KERNEL_ANY_SHAPE | KD_KERNEL_DYNAMIC_OUTPUT),
    DEF("ArgMax", ARGMAX, N, .host_outputs = 1),
    DEF("TopK", TOPK, F, .input_types = {F, KD_TYPES(KD_I64)},
        .host_inputs = 2),
    DEF("ReduceSum", REDUCE_SUM, N, .host_inputs = 2),
    DEF("ReduceMean", REDUCE_MEAN, N, .host_inputs = 2),
    DEF("ReduceMax", REDUCE_MAX, N, .host_inputs = 2),
    PLAIN("Softmax", SOFTMAX, F),
    PLAIN("LayerNormalization", LAYER_NORM, F),
    DEF("MatMul", MATMUL, N, .workspace = workspace),
    DEF("QuantizeLinear", QUANTIZE, F32,
        .input_types = {F32, F32, KD_TYPES(KD_U8) | KD_TYPES(KD_I8)},
        .output_types = {KD_TYPES(KD_U8) | KD_TYPES(KD_I8)}),
    PLAIN("AveragePool", AVERAGE_POOL, F),
    DEF("RandomUniform", RANDOM, 0, .supports = NULL, .output_types = {F32}),
};
uint32_t sim_kernel_count = OPS;

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
  if (BUG(kernel_flag)) sim_kernels[3].flags |= 0x800000u;
  if (BUG(def_types)) sim_kernels[16].input_types[0] |= KD_TYPES(KD_BOOL);
  if (BUG(def_double)) {
    sim_kernels[OPS] = sim_kernels[2];
    sim_kernels[OPS].supports = sim_kernels[2].supports = NULL;
    sim_kernel_count = OPS + 1;
  }
}
