/* quant.c - quantisation: y = saturate(round(x / scale) + zero_point), with
 * ties to even (ONNX QuantizeLinear-13). */
#include "kernels.h"

void cpu_quantize(void *data, kd_dtype dtype, int64_t at, double value,
                  int zero) {
  double low = dtype == KD_U8 ? 0 : -128, high = dtype == KD_U8 ? 255 : 127;
  double rounded = rint(value) + zero;
  rounded = rounded != rounded ? zero
            : rounded < low    ? low
            : rounded > high   ? high
                               : rounded;
  cpu_set(data, dtype, at, rounded);
}

/* Which entry of a list of scales element i takes. */
typedef struct scale_map {
  int64_t step, count; /* count 1: one for all */
} scale_map;

static bool map_scales(const kd_launch *launch, scale_map *map) {
  const kd_tensor *x = &launch->inputs[0], *scale = &launch->inputs[1];
  int64_t axis = attr_int(launch, "axis", 1);
  *map = (scale_map){1, 1};
  if (kd_elements(scale) == 1) return true;
  if (axis < -(int64_t)x->rank || axis >= (int64_t)x->rank) return false;
  uint32_t at = axis_of(axis, x->rank);
  map->step = product(x->dims, at + 1, x->rank);
  map->count = x->dims[at];
  return kd_elements(scale) == map->count;
}

static kd_status bad_scales(void) {
  return FAIL(KD_INVALID_ARGUMENT,
              "a scale and zero point are needed for all, or for each element"
              " of the axis");
}

static bool zero_fits(const kd_launch *launch) {
  return !kd_has_input(launch, 2) ||
         kd_elements(&launch->inputs[2]) == kd_elements(&launch->inputs[1]);
}

CPU_KERNEL(cpu_run_quantize) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const float *scales = launch->inputs[1].data;
  scale_map map;
  if (!map_scales(launch, &map) || !zero_fits(launch)) return bad_scales();
  for (int64_t i = 0, n = kd_elements(x); i < n; i++) {
    int64_t s = map.count == 1 ? 0 : i / map.step % map.count;
    int zero =
        kd_has_input(launch, 2)
            ? (int)cpu_get(launch->inputs[2].data, launch->inputs[2].dtype, s)
            : 0;
    /* the quotient is a float's, as in the reference */
    float quotient = (float)cpu_get(x->data, x->dtype, i) / scales[s];
    cpu_quantize(y->data, y->dtype, i, (double)quotient, zero);
  }
  return KD_OK;
}

CPU_KERNEL(cpu_run_dequantize) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const float *scales = launch->inputs[1].data;
  scale_map map;
  if (!map_scales(launch, &map) || !zero_fits(launch)) return bad_scales();
  for (int64_t i = 0, n = kd_elements(x); i < n; i++) {
    int64_t s = map.count == 1 ? 0 : i / map.step % map.count;
    double zero = kd_has_input(launch, 2) ? cpu_get(launch->inputs[2].data,
                                                    launch->inputs[2].dtype, s)
                                          : 0;
    cpu_set(y->data, y->dtype, i,
            (cpu_get(x->data, x->dtype, i) - zero) * (double)scales[s]);
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
  zero = zero > 255 ? 255 : zero;
  for (int64_t i = 0; i < n; i++)
    cpu_quantize(y->data, KD_U8, i, scale > 0 ? (double)(from[i] / scale) : 0,
                 (int)zero);
  if (kd_has_output(launch, 1)) *(float *)launch->outputs[1].data = scale;
  if (kd_has_output(launch, 2))
    *(uint8_t *)launch->outputs[2].data = (uint8_t)zero;
  return KD_OK;
}
