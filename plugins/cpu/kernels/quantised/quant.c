/* quant.c - quantisation: y = saturate(round(x / scale) + zero_point), with
 * ties to even (ONNX QuantizeLinear-25). */
#include "defs/small.h"
#include "kernels.h"
#include "quant_loops.h"

const cpu_quant_loops *cpu_quant_get(void) {
  return CPU_LOOPS(cpu_quant);
}

/* Element `at` of integers: value, rounded, moved by zero, saturated. */
static void quantize(void *data, kd_dtype dtype, int64_t at, double value,
                     int zero) {
  static const struct {
    double low, high;
  } limits[KD_DTYPE_COUNT] = {
      [KD_U2] = {0, 3},           [KD_I2] = {-2, 1},
      [KD_U4] = {0, 15},          [KD_I4] = {-8, 7},
      [KD_U8] = {0, UINT8_MAX},   [KD_I8] = {INT8_MIN, INT8_MAX},
      [KD_U16] = {0, UINT16_MAX}, [KD_I16] = {INT16_MIN, INT16_MAX}};
  const double low = limits[dtype].low, high = limits[dtype].high;
  double rounded = rint(value) + zero;
  rounded = rounded != rounded ? zero
            : rounded < low    ? low
            : rounded > high   ? high
                               : rounded;
  if (onnx_is_small(dtype))
    onnx_small_put(data, dtype, at,
                   onnx_small_encode(dtype, rounded, (onnx_small_rules){0}));
  else
    cpu_set(data, dtype, at, rounded);
}

/* ---- rows ------------------------------------------------------------------------ */

#define CHUNK 4096 /* elements of a row that shares one scale */

/* A tensor as rows whose elements lie behind each other, and so do their scales, or the
 * row shares one. Rows and scales repeat in each period. */
typedef struct row_map {
  int64_t rows;
  int64_t period, row;  /* elements; the last row of a period may have less */
  int64_t in_period;    /* rows */
  int64_t scale_period; /* scales */
  int64_t share,
      next;     /* `share` rows have the same scales, then `next` follow */
  int64_t step; /* of the scales in a row: 0 or 1 */
} row_map;

/* Host and shape function have checked that scales fit. */
static row_map map_rows(const kd_launch *launch) {
  const kd_tensor *x = &launch->inputs[0];
  int64_t n = kd_elements(x), block = attr_int(launch, "block_size", 0);
  row_map map = {.period = n, .row = CHUNK, .share = 1};
  if (kd_elements(&launch->inputs[1]) != 1 && n) {
    uint32_t axis = axis_of(attr_int(launch, "axis", 1), x->rank);
    int64_t length = x->dims[axis], inner = product(x->dims, axis + 1, x->rank);
    map.period = length * inner;
    map.row = inner > 1 || !block ? inner : block;
    map.next = 1;
    if (block) map.scale_period = ((length - 1) / block + 1) * inner;
    if (block && inner > 1) {
      map.share = block;
      map.next = inner;
      map.step = 1;
    } else if (inner == 1 && !block) { /* a row has all scales */
      map.row = length;
      map.step = 1;
    }
  }
  map.in_period = n ? (map.period + map.row - 1) / map.row : 0;
  map.rows = n ? n / map.period * map.in_period : 0;
  return map;
}

typedef struct scaled_row {
  int64_t from, n, scale, step; /* scale: the first one */
} scaled_row;

static scaled_row quant_row_of(const row_map *map, int64_t row) {
  int64_t period = row / map->in_period, at = row % map->in_period;
  int64_t from = at * map->row, left = map->period - from;
  return (scaled_row){
      period * map->period + from, left < map->row ? left : map->row,
      period * map->scale_period + at / map->share * map->next, map->step};
}

/* The quotient in a type of less digits: rounding twice, from more than twice of them, is
 * rounding once. */
static double quotient(double x, double scale, kd_dtype precision) {
  float a = (float)x, b = (float)scale;
  switch (precision) {
    case KD_F64:
      return x / scale;
    case KD_F16:
      a = f16_float(float_f16(a)) / f16_float(float_f16(b));
      return (double)f16_float(float_f16(a));
    case KD_BF16:
      a = bf16_float(float_bf16(a)) / bf16_float(float_bf16(b));
      return (double)bf16_float(float_bf16(a));
    default:
      return (double)(a / b);
  }
}

/* ---- QuantizeLinear, DequantizeLinear -------------------------------------------- */

typedef struct quant_work {
  const kd_tensor *x, *y, *scale, *zero; /* zero: or NULL */
  kd_dtype precision;
  onnx_small_rules rules; /* of float8 and float4 */
  row_map map;
  /* one of them where there are loops for the types, and zero points for them */
  cpu_quantise_fn quantise;
  cpu_dequantise_fn dequantise;
  float *zeros;
} quant_work;

static void run_row(const quant_work *work, const scaled_row *row) {
  const float *scale = (const float *)work->scale->data + row->scale;
  const float *zero = work->zeros + row->scale;
  const char *x = work->x->data;
  char *y = work->y->data;
  x += (size_t)row->from * kd_dtype_size(work->x->dtype);
  y += (size_t)row->from * kd_dtype_size(work->y->dtype);
  if (work->quantise)
    work->quantise((const float *)(const void *)x, row->n, scale, zero,
                   row->step, y);
  else
    work->dequantise(x, row->n, scale, zero, row->step, (float *)(void *)y);
}

/* Types without a loop: in double. */
static void run_slow(const quant_work *work, const scaled_row *row) {
  const kd_tensor *x = work->x, *y = work->y, *zero = work->zero;
  for (int64_t i = row->from; i < row->from + row->n; i++) {
    int64_t s = row->scale + (i - row->from) * row->step;
    double by = cpu_get(work->scale->data, work->scale->dtype, s);
    double less = zero ? cpu_get(zero->data, zero->dtype, s) : 0;
    double value = cpu_get(x->data, x->dtype, i);
    if (work->precision && onnx_small_float_of(y->dtype))
      onnx_small_put(y->data, y->dtype, i,
                     onnx_small_encode(
                         y->dtype, quotient(value, by, work->precision) + less,
                         work->rules));
    else if (work->precision)
      quantize(y->data, y->dtype, i, quotient(value, by, work->precision),
               (int)less);
    else
      cpu_set(y->data, y->dtype, i, (value - less) * by);
  }
}

static void quant_run_rows(void *context, int64_t begin, int64_t end) {
  const quant_work *work = context;
  for (int64_t i = begin; i < end; i++) {
    scaled_row row = quant_row_of(&work->map, i);
    if (work->zeros)
      run_row(work, &row);
    else
      run_slow(work, &row);
  }
}

static cpu_quantise_fn quantise_loop(const quant_work *work) {
  bool floats = work->x->dtype == KD_F32 && work->scale->dtype == KD_F32 &&
                work->precision == KD_F32;
  return floats ? cpu_quant_get()->to[work->y->dtype] : NULL;
}

static cpu_dequantise_fn dequantise_loop(const quant_work *work) {
  if (work->y->dtype != KD_F32 || work->scale->dtype != KD_F32 ||
      (work->x->dtype == KD_I32 && work->zero))
    return NULL;
  return cpu_quant_get()->from[work->x->dtype];
}

/* Either way: `work` has its types. A failure to get memory is slow, no more. */
static void run_quant(quant_work *work) {
  int64_t count = kd_elements(work->scale);
  if (work->quantise || work->dequantise)
    work->zeros = malloc((size_t)(count + 1) * sizeof *work->zeros);
  for (int64_t i = 0; work->zeros && i < count; i++)
    work->zeros[i] =
        work->zero ? (float)cpu_get(work->zero->data, work->zero->dtype, i) : 0;
  if (kd_dtype_size(work->y->dtype))
    cpu_host->parallel_for(cpu_host, work->map.rows,
                           2 * CPU_GRAIN / (work->map.row + 1) + 1,
                           quant_run_rows, work);
  else { /* rows share bytes; unused bits are zero */
    memset(work->y->data, 0, work->y->size);
    quant_run_rows(work, 0, work->map.rows);
  }
  free(work->zeros);
}

static quant_work work_of(const kd_launch *launch) {
  return (quant_work){
      .x = &launch->inputs[0],
      .y = &launch->outputs[0],
      .scale = &launch->inputs[1],
      .zero = kd_has_input(launch, 2) ? &launch->inputs[2] : NULL,
      .map = map_rows(launch)};
}

CPU_KERNEL(cpu_run_quantize) {
  quant_work work = work_of(launch);
  work.precision = (kd_dtype)attr_int(launch, "precision", KD_NONE);
  if (!work.precision) work.precision = work.scale->dtype;
  work.rules.saturate = attr_int(launch, "saturate", 1) != 0;
  work.quantise = quantise_loop(&work);
  run_quant(&work);
  return KD_OK;
}

CPU_KERNEL(cpu_run_dequantize) {
  quant_work work = work_of(launch);
  work.dequantise = dequantise_loop(&work);
  run_quant(&work);
  return KD_OK;
}

/* ---- DynamicQuantizeLinear ---------------------------------------------------------- */

typedef struct dynamic_work {
  const float *x;
  uint8_t *y;
  int64_t n;
  float *low, *high; /* of each chunk */
  float scale, zero;
} dynamic_work;

static int64_t chunk_length(const dynamic_work *work, int64_t chunk) {
  int64_t left = work->n - chunk * CHUNK;
  return left < CHUNK ? left : CHUNK;
}

static void find_ranges(void *context, int64_t begin, int64_t end) {
  const dynamic_work *work = context;
  for (int64_t i = begin; i < end; i++) {
    work->low[i] = work->high[i] = 0; /* the range always holds 0 */
    cpu_quant_get()->range(work->x + i * CHUNK, chunk_length(work, i),
                           &work->low[i], &work->high[i]);
  }
}

static void quantise_chunks(void *context, int64_t begin, int64_t end) {
  const dynamic_work *work = context;
  for (int64_t i = begin; i < end; i++)
    cpu_quant_get()->to[KD_U8](work->x + i * CHUNK, chunk_length(work, i),
                               &work->scale, &work->zero, 0,
                               work->y + i * CHUNK);
}

CPU_KERNEL(cpu_run_dynamic_quantize) {
  const kd_tensor *x = &launch->inputs[0];
  dynamic_work work = {
      .x = x->data, .y = launch->outputs[0].data, .n = kd_elements(x)};
  int64_t chunks = (work.n + CHUNK - 1) / CHUNK, grain = 2 * CPU_GRAIN / CHUNK;
  float low = 0, high = 0;
  work.low = malloc((size_t)(2 * chunks + 1) * sizeof *work.low);
  if (!work.low)
    return FAIL(KD_OUT_OF_MEMORY, "no memory for the ranges of chunks");
  work.high = work.low + chunks;
  cpu_host->parallel_for(cpu_host, chunks, grain, find_ranges, &work);
  for (int64_t i = 0; i < chunks; i++) {
    low = work.low[i] < low ? work.low[i] : low;
    high = work.high[i] > high ? work.high[i] : high;
  }
  free(work.low);
  float scale = high == low ? 1 : (high - low) / 255; /* zeros have any */
  double zero = scale > 0 ? rint((double)(-low / scale)) : 0;
  zero = zero >= 0 && zero <= 255 ? zero : zero > 255 ? 255 : 0; /* NaN: 0 */
  work.zero = (float)zero;
  work.scale = scale;
  if (scale > 0)
    cpu_host->parallel_for(cpu_host, chunks, grain, quantise_chunks, &work);
  else
    memset(work.y, (int)zero, (size_t)work.n);
  if (kd_has_output(launch, 1)) *(float *)launch->outputs[1].data = scale;
  if (kd_has_output(launch, 2))
    *(uint8_t *)launch->outputs[2].data = (uint8_t)zero;
  return KD_OK;
}
