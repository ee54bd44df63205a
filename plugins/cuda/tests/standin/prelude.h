/* prelude.h - CUDA's words in C++, before a kernel's source; runner.h comes behind it. */
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <utility>

extern "C" {
float expf(float), logf(float), log1pf(float), sinf(float), cosf(float);
float tanf(float), asinf(float), acosf(float), atanf(float), sinhf(float);
float coshf(float), tanhf(float), asinhf(float), acoshf(float), atanhf(float);
float erff(float), erfcf(float), sqrtf(float), floorf(float), ceilf(float),
    rintf(float);
float fabsf(float), fmodf(float, float), powf(float, float);
float fmaxf(float, float), fminf(float, float), roundf(float), truncf(float);
float exp2f(float), log2f(float), ldexpf(float, int), expm1f(float);
float cbrtf(float), atan2f(float, float);
double exp(double), log(double), log1p(double), sin(double), cos(double);
double tan(double), asin(double), acos(double), atan(double), sinh(double);
double cosh(double), tanh(double), asinh(double), acosh(double), atanh(double);
double erf(double), erfc(double), sqrt(double), floor(double), ceil(double),
    rint(double);
double fabs(double), fmod(double, double), pow(double, double);
double fmax(double, double), fmin(double, double), round(double), trunc(double);
double exp2(double), log2(double), ldexp(double, int), expm1(double);
double cbrt(double), atan2(double, double);
}
#define __device__
#define __global__
#define __shared__ static thread_local
#define __launch_bounds__(x)
#define __align__(n) __attribute__((aligned(n)))

struct standin_place {
  unsigned x;
};
static thread_local standin_place blockIdx, threadIdx;
static void standin_barrier(void);
#define __syncthreads() standin_barrier()

/* Of a group in whole warps, all of whose items come here. */
template <typename T>
static T __shfl_down_sync(unsigned, T value, int apart) {
  static thread_local unsigned char values[1024][sizeof(T)];
  memcpy(values[threadIdx.x], &value, sizeof value);
  standin_barrier();
  if (threadIdx.x % 32 + apart < 32)
    memcpy(&value, values[threadIdx.x + apart], sizeof value);
  standin_barrier();
  return value;
}

template <typename To, typename From>
static inline To standin_bits(From from) {
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
#define __int_as_float(x)       standin_bits<float>((int)(x))
#define __uint_as_float(x)      standin_bits<float>((unsigned)(x))
#define __float_as_uint(x)      standin_bits<unsigned>((float)(x))
#define __float_as_int(x)       standin_bits<int>((float)(x))
#define __longlong_as_double(x) standin_bits<double>((long long)(x))

/* the three instructions that the dialect has */
static inline void standin_asm(const char *text, float *value,
                               unsigned short *bits) {
  if (!strncmp(text, "\"cvt.f32.f16", 12))
    *value = (float)standin_bits<_Float16>(*bits);
  else
    *bits = standin_bits<unsigned short>((_Float16)*value);
}
template <typename T>
static inline void standin_asm(const char *text, const T *value,
                               unsigned short *bits) {
  (void)text;
  *bits = standin_bits<unsigned short>((_Float16)*value);
}
#define asm(...) standin_asm(#__VA_ARGS__, &value, &bits)

/* overloads for f32 */
#define ONE(name)                     \
  static inline float name(float x) { \
    return name##f(x);                \
  }
#define TWO(name)                              \
  static inline float name(float x, float y) { \
    return name##f(x, y);                      \
  }
/* clang-format off */
ONE(exp) ONE(log) ONE(log1p) ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos)
ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(asinh) ONE(acosh) ONE(atanh)
ONE(erf) ONE(erfc) ONE(sqrt) ONE(floor) ONE(ceil) ONE(rint) ONE(fabs)
ONE(round) ONE(trunc) ONE(exp2) ONE(log2) ONE(expm1) ONE(cbrt) TWO(fmod)
TWO(pow) TWO(fmax) TWO(fmin) TWO(atan2)
/* clang-format on */
#undef ONE
#undef TWO
