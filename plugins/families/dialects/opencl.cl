/* opencl.cl - what families/kernels are written in, as OpenCL C 1.2. */
#pragma OPENCL FP_CONTRACT OFF
#ifdef HAS_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
#endif
typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
typedef ulong2 c128;

/* as they lie in memory */
typedef i8 S_i8;
typedef u8 S_u8, S_bool;
typedef i16 S_i16;
typedef u16 S_u16, S_bf16;
typedef i32 S_i32;
typedef u32 S_u32;
typedef i64 S_i64;
typedef u64 S_u64, S_c64;
typedef f32 S_f32;
typedef half S_f16;
typedef c128 S_c128;
#ifdef HAS_F64
typedef f64 S_f64;
#endif

#define LOAD_f16(b, i) vload_half(i, b)
#define LOAD_bf16(b, i) as_float((u32)b[i] << 16)

#define STORE_f16(b, i, v) vstore_half_rte(v, i, b)
#define STORE_bf16(b, i, v) b[i] = to_bf16(v)

static u16 to_bf16(f32 v) {
  u32 bits = as_uint(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)(bits >> 16 | 0x40u);
  return (u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* The error function in f32 as math.glsl has it: a processor's driver may take twenty times
 * as long over its own. */
static f32 erfc_far(f32 x) {
  if (x > 10.2f) return 0.0f;
  f32 t = (x - 2.0f) / (x + 2.0f);
  f32 p = (((((((((0.0002373287416f * t - 0.0003220756739f) * t - 0.001488298147f) * t +
                 0.001224188477f) * t + 0.008732989123f) * t - 0.008026362922f) * t -
              0.05422134287f) * t + 0.1640507602f) * t - 0.1660303379f) * t -
           0.09276381648f) * t + 1.276978381f;
  f32 cut = as_float(as_uint(x) & 0xfffff000u), low = -(x - cut) * (x + cut);
  f32 rest = (((low / 24.0f + 1.0f / 6.0f) * low + 0.5f) * low + 1.0f) * low;
  f32 power = exp(-cut * cut);
  return (power + power * rest) * (p / (1.0f + 2.0f * x));
}
static f32 erf_near(f32 x) {
  f32 z = x * x;
  return (((((8.212780533e-5f * z - 0.0008105054511f) * z + 0.005197684914f) * z -
            0.02685804248f) * z + 0.1128367104f) * z - 0.3761263215f) * z * x + 1.128379166f * x;
}
__attribute__((overloadable)) static f32 f_erf(f32 x) {
  f32 a = fabs(x);
  if (x != x) return x;
  if (a < 0.92f) return erf_near(x);
  f32 y = 1.0f - erfc_far(a);
  return x < 0.0f ? -y : y;
}
__attribute__((overloadable)) static f32 f_erfc(f32 x) {
  if (x != x) return x;
  if (fabs(x) < 0.5f) return 1.0f - erf_near(x);
  return x > 0.0f ? erfc_far(x) : 2.0f - erfc_far(-x);
}
/* Far out it is 1 exactly, which not every driver's own is. */
__attribute__((overloadable)) static f32 f_tanh(f32 x) {
  return fabs(x) > 9.1f ? copysign(1.0f, x) : tanh(x);
}
#ifdef HAS_F64
__attribute__((overloadable)) static f64 f_tanh(f64 x) {
  return fabs(x) > 20.0 ? copysign(1.0, x) : tanh(x);
}
__attribute__((overloadable)) static f64 f_erf(f64 x) {
  return erf(x);
}
__attribute__((overloadable)) static f64 f_erfc(f64 x) {
  return erfc(x);
}
#endif
#define erf  f_erf
#define erfc f_erfc
#define tanh f_tanh

#define AS_F32(x) as_float(x)
#define AS_I32(x) as_int(x)
#define GID ((IDX)get_global_id(0))
#define GRP ((IDX)get_group_id(0))
#define LID ((IDX)get_local_id(0))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define INF INFINITY

#define ZERO_OF(type) ((type)(0))
#define AS_F64(word) as_double(word)

/* vectors, for processors: gemm_wide.k */
#define JOINED_(a, b)          a##b
#define JOINED(a, b)           JOINED_(a, b)
#define WIDE_f32(n)            JOINED(float, n)
#define WIDE_f64(n)            JOINED(double, n)
#define WIDE_i32(n)            JOINED(int, n)
#define WIDE_u32(n)            JOINED(uint, n)
#define WIDE_i64(n)            JOINED(long, n)
#define WIDE_u64(n)            JOINED(ulong, n)
#define WIDE_LOAD(i, from)     JOINED(vload, WIDTH)(i, from)
#define WIDE_STORE(v, i, into) JOINED(vstore, WIDTH)(v, i, into)
#ifdef FP_FAST_FMAF
#define MAD_f32(a, b, c) fma(a, b, c)
#else
#define MAD_f32(a, b, c) ((a) * (b) + (c))
#endif
#ifdef FP_FAST_FMA
#define MAD_f64(a, b, c) fma(a, b, c)
#else
#define MAD_f64(a, b, c) ((a) * (b) + (c))
#endif
#define MAD_i32(a, b, c) ((a) * (b) + (c))
#define MAD_u32          MAD_i32
#define MAD_i64          MAD_i32
#define MAD_u64          MAD_i32
