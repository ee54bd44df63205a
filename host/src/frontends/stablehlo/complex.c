/* complex.c - complex numbers as pairs of tensors. Those of f32 are computed in f64 where
 * digits could be lost. */
#include <math.h>

#include "frontends/stablehlo/reduce.h"

/* ---- any op ------------------------------------------------------------------------------ */

/* The op on parts: `imaginary` says for each input which. */
static keel_status on_parts(hlo *h, const hlo_op *op, hlo_lowering lower,
                            const bool *imaginary, keel_value *outputs) {
  uint32_t all = op->input_count + op->output_count;
  vhlo_type *types = calloc((size_t)all + 1, sizeof *types);
  const vhlo_type **places = calloc((size_t)all + 1, sizeof *places);
  keel_value *in = calloc((size_t)op->input_count + 1, sizeof *in);
  keel_status status =
      types && places && in ? KD_OK : keel_no_memory(sizeof *types * all);
  if (status == KD_OK) {
    hlo_op real = *op;
    real.in = in;
    real.out = outputs;
    real.in_types = places;
    real.out_types = places + op->input_count;
    for (uint32_t i = 0; i < all; i++) {
      bool input = i < op->input_count;
      types[i] = input ? *op->in_types[i] : *op->out_types[i - op->input_count];
      if (input)
        in[i] = hlo_is_complex(types[i].dtype) && imaginary[i] ? op->in_imag[i]
                                                               : op->in[i];
      types[i].dtype = hlo_part_type(types[i].dtype);
      places[i] = &types[i];
    }
    status = lower(h, &real);
  }
  free(types);
  free(places);
  free(in);
  return status;
}

/* Bodies of complex numbers that act on each part alone. */
static keel_status check_bodies(const hlo *h, const hlo_op *op) {
  for (uint32_t i = 0; i < op->raw->region_count; i++) {
    const bytecode_block *body = &op->raw->regions[i];
    const bytecode_op *end = body->op_count == 1 ? &body->ops[0] : NULL;
    bool replaces = end && body->argument_count == 2 &&
                    vhlo_is(end, "return") && end->operand_count == 1 &&
                    end->operands[0] == body->first_argument + 1;
    if (!replaces && hlo_body_kind(h, body) != HLO_ADD)
      return hlo_refuse(h, op, "a body of complex numbers that is not a sum");
  }
  return KD_OK;
}

static keel_status both_parts(hlo *h, const hlo_op *op, hlo_lowering lower) {
  KEEL_TRY(check_bodies(h, op));
  bool *imaginary = calloc((size_t)op->input_count + 1, sizeof *imaginary);
  if (!imaginary) return keel_no_memory(op->input_count);
  keel_status status = on_parts(h, op, lower, imaginary, op->out);
  memset(imaginary, true, op->input_count);
  if (status == KD_OK) status = on_parts(h, op, lower, imaginary, op->out_imag);
  free(imaginary);
  return status;
}

/* (a + bi)(c + di) = ac - bd + (ad + bc)i */
static keel_status complex_product(hlo *h, const hlo_op *op,
                                   hlo_lowering lower) {
  keel_value parts[4];
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  if (op->in_types[0]->dtype != op->in_types[1]->dtype)
    return hlo_refuse(h, op, "complex numbers of two types");
  for (uint32_t i = 0; i < 4; i++) {
    const bool imaginary[] = {i >= 2, i % 2 == 1};
    KEEL_TRY(on_parts(h, op, lower, imaginary, &parts[i]));
  }
  op->out[0] = HLO(h, "Sub", parts[0], parts[3]);
  op->out_imag[0] = HLO(h, "Add", parts[1], parts[2]);
  return KD_OK;
}

keel_status hlo_lower_complex(hlo *h, const hlo_op *op, hlo_lowering lower,
                              unsigned flags) {
  if (flags & HLO_COMPLEX) return lower(h, op);
  if (flags & HLO_PARTS) return both_parts(h, op, lower);
  if (flags & HLO_BILINEAR) return complex_product(h, op, lower);
  return hlo_refuse(h, op, "complex numbers");
}

/* ---- ports ---------------------------------------------------------------------------------- */

/* The real part is the lower half of the bits. */
void hlo_split(hlo *h, keel_value value, keel_value *out_real,
               keel_value *out_imaginary) {
  const uint64_t mask = UINT32_MAX;
  hlo_text(h, NULL,
           "bits = %v; high = BitShift[direction=RIGHT](bits, %v);"
           "%p = BitCast[to=1](u32(BitwiseAnd(bits, %v)));"
           "%p = BitCast[to=1](u32(high))",
           hlo_bits_as(h, value, KD_U64), hlo_number(h, KD_U64, 32), out_real,
           keel_emit_constant(hlo_at(h), KD_U64, 0, NULL, &mask),
           out_imaginary);
}

keel_value hlo_join(hlo *h, keel_value real, keel_value imaginary) {
  return hlo_text(h, NULL,
                  "low = u64(%v); high = BitShift[direction=LEFT](u64(%v), %v);"
                  "BitCast[to=%i](BitwiseOr(low, high))",
                  hlo_bits_as(h, real, KD_U32),
                  hlo_bits_as(h, imaginary, KD_U32), hlo_number(h, KD_U64, 32),
                  (int64_t)KD_C64);
}

keel_status hlo_complex(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  if (hlo_is_complex(op->in_types[0]->dtype) ||
      hlo_is_complex(op->in_types[1]->dtype))
    return hlo_wrong(h, op, "its parts are complex");
  op->out[0] = op->in[0];
  op->out_imag[0] = op->in[1];
  return KD_OK;
}

/* Of a real number the number, and zero. */
keel_status hlo_part_of(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  const vhlo_type *type = op->in_types[0];
  bool imaginary = vhlo_is(op->raw, "imag");
  op->out[0] = imaginary ? op->in_imag[0] : op->in[0];
  if (imaginary && !hlo_is_complex(type->dtype))
    op->out[0] =
        hlo_expand(h, hlo_number(h, type->dtype, 0), type->rank, type->dims);
  return KD_OK;
}

/* ---- elementwise ------------------------------------------------------------------------------ */

typedef struct pair {
  keel_value re, im;
} pair;

static pair wide_pair(hlo *h, keel_value re, keel_value im) {
  return (pair){keel_emit_cast(hlo_at(h), re, KD_F64),
                keel_emit_cast(hlo_at(h), im, KD_F64)};
}

/* |z|: of numbers that were f32 no square overflows; others are scaled. */
static keel_value complex_size_of(hlo *h, pair z, bool narrow) {
  if (narrow)
    return hlo_text(h, NULL, "a = %v; b = %v; Sqrt(a * a + b * b)", z.re, z.im);
  return hlo_text(h, NULL,
                  "a = Abs(%v); b = Abs(%v); most = Max(a, b);"
                  "ratio = Min(a, b) / most;"
                  "plain = Or(most == 0, most == %f);"
                  "Where(plain, most, most * Sqrt(1 + ratio * ratio))",
                  z.re, z.im, (double)INFINITY);
}

static pair quotient(hlo *h, pair a, pair b) {
  pair y = {KEEL_ABSENT, KEEL_ABSENT};
  hlo_text(h, NULL,
           "a = %v; b = %v; c = %v; d = %v; scale = Max(Abs(c), Abs(d));"
           "c = c / scale; d = d / scale; below = scale * (c * c + d * d);"
           "%p = (a * c + b * d) / below; %p = (b * c - a * d) / below",
           a.re, a.im, b.re, b.im, &y.re, &y.im);
  return y;
}

/* A real number's imaginary part stays what it is, also where the real one is infinite. */
#define EXPONENTIAL                                        \
  "re = %v; im = %v; size = Exp(re); %p = size * Cos(im);" \
  "%p = Where(im == 0, im, size * Sin(im))"
#define SINE \
  "re = %v; im = %v; %p = Sin(re) * Cosh(im); %p = Cos(re) * Sinh(im)"
#define COSINE \
  "re = %v; im = %v; %p = Cos(re) * Cosh(im); %p = -(Sin(re) * Sinh(im))"

static pair logarithm(hlo *h, pair z, bool narrow) {
  return (pair){HLO(h, "Log", complex_size_of(h, z, narrow)),
                HLO(h, "keel::Atan2", z.im, z.re)};
}

/* z / |z|, and 0 of 0. */
static pair sign(hlo *h, pair z, bool narrow) {
  pair y = {KEEL_ABSENT, KEEL_ABSENT};
  hlo_text(h, NULL,
           "size = %v; none = size == 0;"
           "%p = Where(none, 0~size, %v / size);"
           "%p = Where(none, 0~size, %v / size)",
           complex_size_of(h, z, narrow), &y.re, z.re, &y.im, z.im);
  return y;
}

static keel_status complex_unary(hlo *h, const hlo_op *op, pair z, bool narrow,
                                 pair *out) {
  const char *text = vhlo_is(op->raw, "exponential") ? EXPONENTIAL
                     : vhlo_is(op->raw, "sine")      ? SINE
                     : vhlo_is(op->raw, "cosine")    ? COSINE
                                                     : NULL;
  if (text)
    hlo_text(h, NULL, text, z.re, z.im, &out->re, &out->im);
  else if (vhlo_is(op->raw, "log") && narrow)
    *out = logarithm(h, z, narrow);
  else if (vhlo_is(op->raw, "sign"))
    *out = sign(h, z, narrow);
  else
    return hlo_refuse(h, op, "complex numbers");
  return KD_OK;
}

static keel_status complex_compare(hlo *h, const hlo_op *op) {
  uint64_t direction = 0;
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  KEEL_TRY(vhlo_enum(&h->v, op->raw, "comparison_direction", VHLO_DIRECTION,
                     &direction));
  if (direction > VHLO_NE || op->in_types[0]->dtype != op->in_types[1]->dtype)
    return hlo_refuse(h, op, "complex numbers other than EQ and NE");
  hlo_text(h, op,
           "equal = And($0 == $1, ^0 == ^1); %0 = %b ? equal : Not(equal)",
           direction == VHLO_EQ);
  return KD_OK;
}

static keel_status convert(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  const vhlo_type *out = op->out_types[0];
  kd_dtype dtype = hlo_part_type(out->dtype);
  if (!hlo_is_complex(out->dtype))
    return hlo_refuse(h, op, "complex numbers to %s", out->what);
  op->out[0] = keel_emit_cast(hlo_at(h), op->in[0], dtype);
  op->out_imag[0] =
      hlo_is_complex(op->in_types[0]->dtype)
          ? keel_emit_cast(hlo_at(h), op->in_imag[0], dtype)
          : hlo_expand(h, hlo_number(h, dtype, 0), out->rank, out->dims);
  return KD_OK;
}

keel_status hlo_complex_op(hlo *h, const hlo_op *op) {
  kd_dtype dtype = hlo_part_type(op->in_types[0]->dtype);
  bool narrow = dtype == KD_F32, divides = vhlo_is(op->raw, "divide");
  pair out = {KEEL_ABSENT, KEEL_ABSENT};
  if (vhlo_is(op->raw, "compare")) return complex_compare(h, op);
  if (vhlo_is(op->raw, "convert")) return convert(h, op);
  KEEL_TRY(hlo_arity(h, op, divides ? 2 : 1, 1));
  if (divides && op->in_types[1]->dtype != op->in_types[0]->dtype)
    return hlo_wrong(h, op, "its inputs are of two types");
  pair z = wide_pair(h, op->in[0], op->in_imag[0]);
  if (vhlo_is(op->raw, "abs")) {
    op->out[0] =
        keel_emit_cast(hlo_at(h), complex_size_of(h, z, narrow), dtype);
    return KD_OK;
  }
  if (divides)
    out = quotient(h, z, wide_pair(h, op->in[1], op->in_imag[1]));
  else
    KEEL_TRY(complex_unary(h, op, z, narrow, &out));
  op->out[0] = keel_emit_cast(hlo_at(h), out.re, dtype);
  op->out_imag[0] = keel_emit_cast(hlo_at(h), out.im, dtype);
  return KD_OK;
}

/* ---- fft ---------------------------------------------------------------------------------------- */

enum { FFT, IFFT, RFFT, IRFFT };

/* [..., n] of parts as [..., n, 2], as ONNX has them; im: KEEL_ABSENT of real ones. */
static keel_value interleave(hlo *h, uint32_t rank, keel_value re,
                             keel_value im) {
  int64_t dims[KD_MAX_RANK + 1];
  const keel_type *type = hlo_known(h, re);
  if (!type || type->rank != rank) return KEEL_ABSENT;
  memcpy(dims, type->dims, rank * sizeof *dims);
  dims[rank] = 1;
  re = hlo_reshape(h, re, rank + 1, dims);
  if (im == KEEL_ABSENT) return re;
  const keel_value both[] = {re, hlo_reshape(h, im, rank + 1, dims)};
  return hlo_concat(h, rank, both, 2);
}

static keel_value take_part(hlo *h, uint32_t rank, keel_value value,
                            int64_t part) {
  const keel_type *type = hlo_known(h, value);
  int64_t dims[KD_MAX_RANK];
  if (!type || type->rank != rank + 1) return KEEL_ABSENT;
  memcpy(dims, type->dims, rank * sizeof *dims);
  return hlo_reshape(h, hlo_part(h, value, rank, part, part + 1, 1), rank,
                     dims);
}

static keel_value transform(hlo *h, keel_value value, int64_t axis,
                            bool inverse, bool onesided) {
  const keel_attr attrs[] = {KEEL_INT("inverse", inverse),
                             KEEL_INT("onesided", onesided)};
  const keel_value in[] = {value, KEEL_ABSENT, hlo_i64(h, axis)};
  return hlo_node(h, "DFT", attrs, 2, in, 3);
}

/* The other half of a spectrum of real numbers: the conjugates, the other way round. */
static keel_value complete(hlo *h, uint32_t rank, keel_value value,
                           int64_t size) {
  static const float signs[] = {1, -1};
  static const int64_t two[] = {2};
  int64_t axis = rank - 1, half = size / 2 + 1;
  keel_value rest = hlo_part(h, value, axis, 1, size - half + 1, 1);
  rest = hlo_reverse(h, rest, axis);
  keel_value sign = keel_emit_constant(hlo_at(h), KD_F32, 1, two, signs);
  const keel_type *type = hlo_known(h, value);
  if (type) sign = keel_emit_cast(hlo_at(h), sign, type->dtype);
  const keel_value both[] = {value, HLO(h, "Mul", rest, sign)};
  return size > half ? hlo_concat(h, axis, both, 2) : value;
}

keel_status hlo_fft(hlo *h, const hlo_op *op) {
  int64_t lengths[3];
  uint64_t kind = 0;
  uint32_t count = 0;
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  const vhlo_type *type = op->in_types[0], *out = op->out_types[0];
  KEEL_TRY(vhlo_enum(&h->v, op->raw, "fft_type", VHLO_FFT_TYPE, &kind));
  KEEL_TRY(vhlo_ints(&h->v, op->raw, "fft_length", 3, &count, lengths));
  uint32_t rank = type->rank;
  bool right = count >= 1 && count <= rank && out->rank == rank &&
               kind <= IRFFT && rank < KD_MAX_RANK && !type->dynamic &&
               hlo_is_complex(type->dtype) == (kind != RFFT) &&
               hlo_is_complex(out->dtype) == (kind != IRFFT) &&
               (kind != RFFT || hlo_is_float(type->dtype));
  for (uint32_t i = 0; right && i < count; i++) {
    int64_t size = type->dims[rank - count + i];
    bool halved = kind == IRFFT && i + 1 == count;
    right =
        lengths[i] >= 1 && size == (halved ? lengths[i] / 2 + 1 : lengths[i]);
  }
  if (!right) return hlo_wrong(h, op, "its type and lengths do not match");
  if (!type->elements) return hlo_refuse(h, op, "no elements");
  keel_value x = interleave(h, rank, op->in[0],
                            kind == RFFT ? KEEL_ABSENT : op->in_imag[0]);
  int64_t last = rank - 1, first = rank - count;
  if (kind == RFFT) x = transform(h, x, last, false, true);
  for (int64_t axis = first; axis <= last; axis++)
    if (kind == FFT || kind == IFFT || axis < last)
      x = transform(h, x, axis, kind == IFFT || kind == IRFFT, false);
  if (kind == IRFFT)
    x = transform(h, complete(h, rank, x, lengths[count - 1]), last, true,
                  false);
  op->out[0] = take_part(h, rank, x, 0);
  if (kind != IRFFT) op->out_imag[0] = take_part(h, rank, x, 1);
  return KD_OK;
}
