/* quant.c - quantisation: y = saturate(round(x / scale) + zero_point), with
 * ties to even (ONNX QuantizeLinear-25). */
#include "kernels.h"

void cpu_quantize(void *data, kd_dtype dtype, int64_t at, double value,
                  int zero) {
  double low = 0, high = 0;
  switch (dtype) {
    case KD_I8:
      low = INT8_MIN;
      high = INT8_MAX;
      break;
    case KD_U16:
      high = UINT16_MAX;
      break;
    case KD_I16:
      low = INT16_MIN;
      high = INT16_MAX;
      break;
    default:
      high = UINT8_MAX;
  }
  double rounded = rint(value) + zero;
  rounded = rounded != rounded ? zero
            : rounded < low    ? low
            : rounded > high   ? high
                               : rounded;
  cpu_set(data, dtype, at, rounded);
}

/* Which of the scales element i takes: they lie as (outer, blocks, inner), and `block`
 * elements of the axis share one. */
typedef struct scale_map {
  int64_t length, block, blocks, inner; /* length: of the axis */
} scale_map;

static int64_t scale_of(const scale_map *map, int64_t i) {
  int64_t r = i % map->inner, k = i / map->inner % map->length;
  int64_t o = i / map->inner / map->length;
  return (o * map->blocks + k / map->block) * map->inner + r;
}

/* Host and shape function have checked that they fit. */
static scale_map map_scales(const kd_launch *launch) {
  const kd_tensor *x = &launch->inputs[0];
  int64_t n = kd_elements(x), block = attr_int(launch, "block_size", 0);
  if (kd_elements(&launch->inputs[1]) == 1 || !n)
    return (scale_map){
        .length = n + 1, .block = n + 1, .blocks = 1, .inner = 1};
  uint32_t axis = axis_of(attr_int(launch, "axis", 1), x->rank);
  int64_t length = x->dims[axis], inner = product(x->dims, axis + 1, x->rank);
  if (block) /* blocks of elements */
    return (scale_map){length, block, (length - 1) / block + 1, inner};
  /* one a place: each is a block of all that is inside, again and again */
  return (scale_map){length * inner, inner, 0, 1};
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

CPU_KERNEL(cpu_run_quantize) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const kd_tensor *scale = &launch->inputs[1];
  const kd_tensor *zero = kd_has_input(launch, 2) ? &launch->inputs[2] : NULL;
  kd_dtype precision = (kd_dtype)attr_int(launch, "precision", KD_NONE);
  scale_map map = map_scales(launch);
  if (!precision) precision = scale->dtype;
  for (int64_t i = 0, n = kd_elements(x); i < n; i++) {
    int64_t s = scale_of(&map, i);
    double by = cpu_get(scale->data, scale->dtype, s);
    cpu_quantize(y->data, y->dtype, i,
                 quotient(cpu_get(x->data, x->dtype, i), by, precision),
                 zero ? (int)cpu_get(zero->data, zero->dtype, s) : 0);
  }
  return KD_OK;
}

CPU_KERNEL(cpu_run_dequantize) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const kd_tensor *scale = &launch->inputs[1];
  const kd_tensor *zero = kd_has_input(launch, 2) ? &launch->inputs[2] : NULL;
  scale_map map = map_scales(launch);
  for (int64_t i = 0, n = kd_elements(x); i < n; i++) {
    int64_t s = scale_of(&map, i);
    double less = zero ? cpu_get(zero->data, zero->dtype, s) : 0;
    cpu_set(y->data, y->dtype, i,
            (cpu_get(x->data, x->dtype, i) - less) *
                cpu_get(scale->data, scale->dtype, s));
  }
  return KD_OK;
}

CPU_KERNEL(cpu_run_dynamic_quantize) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const float *from = x->data;
  int64_t n = kd_elements(x);
  float low = 0, high = 0; /* the range always holds 0 */
  for (int64_t i = 0; i < n; i++) {
    low = from[i] < low ? from[i] : low;
    high = from[i] > high ? from[i] : high;
  }
  float scale = (high - low) / 255;
  double zero = scale > 0 ? rint((double)(-low / scale)) : 0;
  zero = zero >= 0 && zero <= 255 ? zero : zero > 255 ? 255 : 0; /* NaN: 0 */
  for (int64_t i = 0; i < n; i++)
    cpu_quantize(y->data, KD_U8, i, scale > 0 ? (double)(from[i] / scale) : 0,
                 (int)zero);
  if (kd_has_output(launch, 1)) *(float *)launch->outputs[1].data = scale;
  if (kd_has_output(launch, 2))
    *(uint8_t *)launch->outputs[2].data = (uint8_t)zero;
  return KD_OK;
}
