/* power.c - Pow: integers, which wrap, and floats, whose exponent may have another type. */
#include "power.h"

#include "elementwise.h"
#include "kernels.h"

/* ---- any types, any strides ----------------------------------------------------- */

/* An integer's bits, with its sign extended. */
static uint64_t whole_at(const kd_tensor *x, int64_t i) {
  switch (x->dtype) {
    case KD_U64:
    case KD_I64:
      return ((const uint64_t *)x->data)[i];
    default: /* a double holds all of the others */
      return (uint64_t)(int64_t)cpu_get(x->data, x->dtype, i);
  }
}

/* Integers to the power of integers, which wrap; parts of one are cut off. */
static uint64_t whole_power(uint64_t base, uint64_t power, bool is_signed) {
  uint64_t result = 1;
  if (is_signed && (int64_t)power < 0) {
    if (base == UINT64_MAX) return power & 1 ? base : 1;
    return base == 1;
  }
  for (; power; power >>= 1, base *= base)
    if (power & 1) result *= base;
  return result;
}

typedef struct rows_work {
  strided space; /* operands x, y; z is packed */
  const kd_tensor *x, *y, *z;
} rows_work;

static void power_row(const rows_work *work, const int64_t *offsets,
                      int64_t first) {
  const kd_tensor *x = work->x, *y = work->y, *z = work->z;
  const strided *space = &work->space;
  bool whole = !((KD_TYPES(x->dtype) | KD_TYPES(y->dtype)) & KD_TYPES_FLOAT);
  size_t size = kd_dtype_size(z->dtype);
  int last = space->rank - 1;
  for (int64_t i = 0; i < space->dims[last]; i++) {
    int64_t at = offsets[0] + i * space->steps[0][last];
    int64_t by = offsets[1] + i * space->steps[1][last];
    if (whole) { /* little-endian: the low bytes come first */
      uint64_t made =
          whole_power(whole_at(x, at), whole_at(y, by), y->dtype != KD_U64);
      memcpy((char *)z->data + (size_t)(first + i) * size, &made, size);
      continue;
    }
    cpu_set(
        z->data, z->dtype, first + i,
        pow(cpu_get(x->data, x->dtype, at), cpu_get(y->data, y->dtype, by)));
  }
}

static void power_rows(void *context, int64_t begin, int64_t end) {
  const rows_work *work = context;
  const strided *space = &work->space;
  int64_t offsets[STRIDED_OPERANDS], index[STRIDED_RANK];
  strided_row(space, begin, offsets);
  strided_index(space, begin, index);
  for (int64_t i = begin; i < end; i++) {
    power_row(work, offsets, i * space->dims[space->rank - 1]);
    strided_next(space, index, offsets);
  }
}

static void each_row(const kd_tensor *x, const kd_tensor *y,
                     const kd_tensor *z) {
  rows_work work = {.x = x, .y = y, .z = z};
  strided_begin(&work.space, z->dims, z->rank);
  strided_tensor(&work.space, x);
  strided_tensor(&work.space, y);
  if (!strided_count(&work.space)) return;
  strided_simplify(&work.space);
  int64_t row = work.space.dims[work.space.rank - 1];
  cpu_host->parallel_for(cpu_host, strided_rows(&work.space),
                         CPU_GRAIN / 16 / row + 1, power_rows, &work);
}

/* ---- floats that lie one after the other ------------------------------------------ */

typedef struct flat_work {
  const char *x, *y;
  char *z;
  kd_dtype dtype;
  float exponent; /* where y is NULL */
} flat_work;

static void flat_piece(void *context, int64_t begin, int64_t end) {
  const flat_work *work = context;
  const cpu_powers *powers = CPU_LOOPS(cpu_powers);
  size_t size = kd_dtype_size(work->dtype);
  float in[256], out[256];
  if (work->dtype == KD_F32) {
    const float *x = (const void *)work->x, *y = (const void *)work->y;
    powers->f32(x + begin, y ? y + begin : &work->exponent, y != NULL,
                (float *)(void *)work->z + begin, end - begin);
    return;
  }
  for (int64_t i = begin, n; i < end; i += n) {
    n = end - i < 256 ? end - i : 256;
    cpu_convert(work->x + (size_t)i * size, work->dtype, in, KD_F32, n);
    powers->f32(in, &work->exponent, 0, out, n);
    cpu_convert(out, KD_F32, work->z + (size_t)i * size, work->dtype, n);
  }
}

/* Takes floats of up to 32 bits whose exponent is one number, or f32 as well and of the
 * same shape; false: it does not. */
static bool flat(const kd_tensor *x, const kd_tensor *y, const kd_tensor *z) {
  int64_t n = kd_elements(z);
  bool narrow = KD_TYPES(z->dtype) & KD_TYPES_FLOAT && z->dtype != KD_F64;
  bool pairs = z->dtype == KD_F32 && y->dtype == KD_F32 && !x->strides &&
               !y->strides && kd_elements(x) == n && kd_elements(y) == n;
  double one = 0;
  if (kd_elements(y) == 1) one = cpu_get(y->data, y->dtype, 0);
  if (!narrow || (!pairs && (kd_elements(y) != 1 || (double)(float)one != one)))
    return false;
  flat_work work = {.x = x->data,
                    .y = pairs ? y->data : NULL,
                    .z = z->data,
                    .dtype = z->dtype,
                    .exponent = (float)one};
  if (!pairs && (x->strides || kd_elements(x) != n)) {
    cpu_spread(x, z);
    work.x = z->data;
  }
  cpu_host->parallel_for(cpu_host, n, CPU_GRAIN / 4, flat_piece, &work);
  return true;
}

CPU_KERNEL(cpu_run_pow) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->inputs[1],
                  *z = &launch->outputs[0];
  if (kd_elements(z) && !flat(x, y, z)) each_row(x, y, z);
  return KD_OK;
}
