/* text_cast.c - numbers as text, and text as numbers: Cast from and to strings. */
#include <ctype.h>
#include <errno.h>
#include <fenv.h>
#include <math.h>

#include "memory/access.h"
#include "opsets/strings/on_strings.h"
#include "system/locale.h"
#include "values/strings.h"

#include <kd/help.h>

typedef struct cast {
  const char *op, *where;
  keel_context *context;
} cast;

static keel_status text_cast_fail(const cast *c, keel_status status,
                                  const char *format, ...) KD_PRINTF(3, 4);
static keel_status text_cast_fail(const cast *c, keel_status status,
                                  const char *format, ...) {
  char text[300];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return keel_fail(status, "%s%s%s%s: %s", c->op, *c->where ? " \"" : "",
                   c->where, *c->where ? "\"" : "", text);
}

/* A Cast between types of numbers. */
static keel_status convert(const cast *c, keel_tensor *from, kd_dtype to,
                           keel_tensor **out_tensor) {
  const keel_attr attr = KEEL_INT("to", to);
  return keel_call(c->context, "Cast", &attr, 1, &from, 1, out_tensor, 1);
}

/* ---- numbers as text --------------------------------------------------------------- */

#define LONGEST 32 /* bytes of a number, and a 0 */

static void write_real(double number, bool narrow, char *text) {
  if (isnan(number) || isinf(number)) {
    snprintf(text, LONGEST, "%s",
             isnan(number) ? "NaN"
             : number > 0  ? "INF"
                           : "-INF");
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, LONGEST, "%.*g", digits, number);
    if (narrow ? strtof(text, NULL) == (float)number
               : strtod(text, NULL) == number)
      return;
  }
}

/* Of f32, f64, i64 and u64. */
static void write_number(const keel_tensor *from, int64_t i, char *text) {
  switch (from->type->dtype) {
    case KD_F32:
      write_real((double)((const float *)from->data)[i], true, text);
      return;
    case KD_F64:
      write_real(((const double *)from->data)[i], false, text);
      return;
    case KD_U64:
      snprintf(text, LONGEST, "%llu",
               (unsigned long long)((const uint64_t *)from->data)[i]);
      return;
    default:
      snprintf(text, LONGEST, "%lld",
               (long long)((const int64_t *)from->data)[i]);
  }
}

/* The type that holds all numbers of another, and is written. */
static kd_dtype written_as(kd_dtype dtype) {
  if (dtype == KD_F64 || dtype == KD_U64) return dtype;
  return (KD_TYPES_INT | KD_TYPES(KD_BOOL)) & KD_TYPES(dtype) ? KD_I64 : KD_F32;
}

static keel_status text_cast_write_all(const cast *c,
                                       const keel_tensor *numbers,
                                       keel_tensor **out_tensor) {
  const keel_type *from = numbers->type, *type = NULL;
  keel_piece *pieces = keel_pieces_new(from->elements);
  char *text = calloc((size_t)from->elements + 1, LONGEST);
  keel_status status =
      pieces && text ? keel_type_of(KD_STRING, from->rank, from->dims, &type)
                     : keel_no_memory((uint64_t)from->elements * LONGEST);
  for (int64_t i = 0; i < from->elements && status == KD_OK; i++) {
    write_number(numbers, i, text + i * LONGEST);
    pieces[i] = (keel_piece){text + i * LONGEST, strlen(text + i * LONGEST)};
  }
  if (status == KD_OK)
    status = keel_strings_tensor(c->context, type, pieces, out_tensor);
  free(pieces);
  free(text);
  return status;
}

static keel_status to_text(const cast *c, keel_tensor *from,
                           keel_tensor **out_tensor) {
  kd_dtype dtype = from->type->dtype, as = written_as(dtype);
  keel_tensor *wide = NULL, *here = NULL;
  if (dtype == KD_C64 || dtype == KD_C128)
    return text_cast_fail(c, KD_UNIMPLEMENTED, "complex numbers have no text");
  if (as == dtype)
    wide = keel_tensor_retain(from);
  else
    KEEL_TRY(convert(c, from, as, &wide));
  keel_status status = keel_tensor_to_host(wide, &here);
  if (status == KD_OK) status = text_cast_write_all(c, here, out_tensor);
  keel_tensor_release(here);
  keel_tensor_release(wide);
  return status;
}

/* ---- text as numbers --------------------------------------------------------------- */

/* Whether nothing but blanks follows, up to the string's end. */
static bool is_end(keel_piece piece, const char *at) {
  while (isspace((unsigned char)*at))
    at++;
  return at == piece.at + piece.size && piece.size;
}

static double read_rounded(const char *text, int direction, char **end) {
  int before = fegetround();
  fesetround(direction);
  double number = strtod(text, end);
  fesetround(before);
  return number;
}

/* A double that a narrower type rounds as it would the number of the text: of the two beside
 * it, the one whose last bit is set. */
static double read_odd(const char *text, char **end) {
  double low = read_rounded(text, FE_DOWNWARD, end),
         high = read_rounded(text, FE_UPWARD, end);
  uint64_t bits = 0;
  memcpy(&bits, &low, sizeof bits);
  return bits & 1 ? low : high; /* the same where it is exact */
}

static bool read_real(keel_piece piece, kd_dtype to, double *out) {
  char *end = NULL;
  *out = to == KD_F32   ? (double)strtof(piece.at, &end)
         : to == KD_F64 ? strtod(piece.at, &end)
                        : read_odd(piece.at, &end);
  return end != piece.at && is_end(piece, end);
}

/* An integer; a number with a point or an exponent is cut to one. */
static bool read_integer(keel_piece piece, kd_dtype dtype, void *out) {
  char *end = NULL;
  double real = 0;
  uint32_t bits = dtype == KD_BOOL ? 64 : kd_dtype_bits(dtype);
  bool is_signed = KD_TYPES(dtype) & KD_TYPES_SIGNED;
  errno = 0;
  int64_t number = strtoll(piece.at, &end, 10);
  bool fits = !errno && end != piece.at && is_end(piece, end);
  if (!fits && dtype == KD_U64) {
    errno = 0;
    uint64_t large = strtoull(piece.at, &end, 10);
    fits = !errno && end != piece.at && is_end(piece, end) &&
           !memchr(piece.at, '-', piece.size);
    memcpy(out, &large, sizeof large);
    if (fits) return true;
  }
  if (!fits && read_real(piece, KD_F64, &real) && real > -0x1p63 &&
      real < 0x1p63) {
    number = (int64_t)real;
    fits = true;
  }
  if (bits < 64 && is_signed)
    fits = fits && number >= -(INT64_C(1) << (bits - 1)) &&
           number < INT64_C(1) << (bits - 1);
  else if (bits < 64)
    fits = fits && number >= 0 && number < INT64_C(1) << bits;
  else if (dtype == KD_U64)
    fits = fits && number >= 0;
  memcpy(out, &number, sizeof number);
  return fits;
}

/* The type that text becomes first. */
static kd_dtype read_as(kd_dtype dtype) {
  if (dtype == KD_F32 || dtype == KD_U64) return dtype;
  return (KD_TYPES_INT | KD_TYPES(KD_BOOL)) & KD_TYPES(dtype) ? KD_I64 : KD_F64;
}

static keel_status text_cast_read_all(const cast *c, const keel_tensor *from,
                                      kd_dtype to, keel_tensor *target) {
  for (int64_t i = 0; i < from->type->elements; i++) {
    keel_piece piece = keel_strings_get(from->strings, i);
    kd_dtype as = target->type->dtype;
    double real = 0;
    bool fits = false;
    if (as == KD_I64 || as == KD_U64) {
      fits = read_integer(piece, to, (int64_t *)target->data + i);
    } else {
      fits = read_real(piece, to, &real);
      if (as == KD_F32)
        ((float *)target->data)[i] = (float)real;
      else
        ((double *)target->data)[i] = real;
    }
    if (!fits)
      return text_cast_fail(
          c, KD_INVALID_ARGUMENT,
          "string %lld, \"%.40s\", is not a number that %s can be",
          (long long)i, piece.at, keel_dtype_name(to));
  }
  return KD_OK;
}

static keel_status to_numbers(const cast *c, const keel_tensor *from,
                              kd_dtype to, keel_tensor **out_tensor) {
  keel_tensor *read = NULL;
  kd_dtype as = read_as(to);
  if (to == KD_C64 || to == KD_C128)
    return text_cast_fail(c, KD_UNIMPLEMENTED, "complex numbers have no text");
  KEEL_TRY(keel_tensor_create(c->context, as, from->type->rank,
                              from->type->dims, NULL, &read));
  keel_status status = text_cast_read_all(c, from, to, read);
  if (status == KD_OK && as != to) status = convert(c, read, to, out_tensor);
  if (status == KD_OK && as == to) *out_tensor = keel_tensor_retain(read);
  keel_tensor_release(read);
  return status;
}

/* ---- Cast and CastLike ------------------------------------------------------------- */

keel_status keel_text_cast(const keel_opdef *op, const char *where,
                           keel_tensor *const *inputs, uint32_t n,
                           keel_tensor **out_tensor) {
  const cast c = {op->schema->name, where, op->context};
  bool like = !strcmp(op->schema->name, "CastLike");
  if (n != (like ? 2u : 1u) || !inputs[0] || (like && !inputs[1]))
    return text_cast_fail(&c, KD_INVALID_ARGUMENT, "takes %s",
                          like ? "two inputs" : "one input");
  for (uint32_t i = 0; i < n; i++)
    if (!keel_is_tensor(inputs[i]))
      return text_cast_fail(&c, KD_INVALID_ARGUMENT, "input %u is not a tensor",
                            (unsigned)i);
  int64_t to =
      like ? (int64_t)inputs[1]->type->dtype : keel_attr_int(op, "to", KD_NONE);
  if (to <= 0 || to >= (int64_t)KD_DTYPE_COUNT)
    return text_cast_fail(
        &c, KD_INVALID_ARGUMENT,
        "attribute \"to\" is %lld, which is not an element type",
        (long long)to);
  bool strings = keel_is_strings(inputs[0]);
  if (strings && to == KD_STRING) {
    *out_tensor = keel_tensor_retain(inputs[0]);
    return KD_OK;
  }
  keel_plain plain = keel_plain_begin();
  keel_status status = strings
                           ? to_numbers(&c, inputs[0], (kd_dtype)to, out_tensor)
                           : to_text(&c, inputs[0], out_tensor);
  keel_plain_end(plain);
  return status;
}
