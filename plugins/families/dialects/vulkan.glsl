/* vulkan.glsl - what families/kernels are written in, as GLSL for Vulkan 1.2. Elements
 * of less than 32 bits are computed in 32, and cut when they are stored. */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_spirv_intrinsics : require
#ifdef TRADES
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define SHUFFLE(x, item) subgroupShuffle(x, uint(item))
#define UNROLL [[unroll]]
#define ROLLED [[dont_unroll]]
/* Two f32 at once: devices whose subgroups are vectors read an item at a time, at any
 * address, and take as long over four bytes as over eight. */
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer family_pair { uint64_t v; };
#define PAIR uvec2
#define PAIR_AT(b, i) family_pair(uint64_t(b##_) + (uint64_t(uint(i)) << 2)).v
#define PAIR_LOAD(b, i) unpackUint2x32(PAIR_AT(b, i))
#define PAIR_STORE(b, i, low, high) \
  PAIR_AT(b, i) = packUint2x32(uvec2(floatBitsToUint(low), floatBitsToUint(high)))
#define PAIR_LOW(both) uintBitsToFloat((both).x)
#define PAIR_HIGH(both) uintBitsToFloat((both).y)
#endif

#ifdef KEEPS_NAN
/* 4466, 4461: SignedZeroInfNanPreserve, SPV_KHR_float_controls */
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
#endif

#define i8 int
#define u8 uint
#define i16 int
#define u16 uint
#define i32 int
#define u32 uint
#define i64 int64_t
#define u64 uint64_t
#define f32 float
#define f64 double
#define c128 uvec4

/* as they lie in memory */
#define S_i8 int8_t
#define S_u8 uint8_t
#define S_bool uint8_t
#define S_i16 int16_t
#define S_u16 uint16_t
#define S_bf16 uint16_t
#define S_f16 uint16_t
#define S_i32 int
#define S_u32 uint
#define S_i64 int64_t
#define S_u64 uint64_t
#define S_c64 uint64_t
#define S_f32 float
#define S_f64 double
#define S_c128 uvec4

#define LOAD_i8(b, i) int(b.v[i])
#define LOAD_u8(b, i) uint(b.v[i])
#define LOAD_bool(b, i) uint(b.v[i])
#define LOAD_i16(b, i) int(b.v[i])
#define LOAD_u16(b, i) uint(b.v[i])
#define LOAD_i32(b, i) b.v[i]
#define LOAD_u32(b, i) b.v[i]
#define LOAD_i64(b, i) b.v[i]
#define LOAD_u64(b, i) b.v[i]
#define LOAD_c64(b, i) b.v[i]
#define LOAD_c128(b, i) b.v[i]
#define LOAD_f32(b, i) b.v[i]
#define LOAD_f64(b, i) b.v[i]
#define LOAD_f16(b, i) from_f16(uint(b.v[i]))
#define LOAD_bf16(b, i) uintBitsToFloat(uint(b.v[i]) << 16)

#define STORE_i8(b, i, x) b.v[i] = int8_t(int(x))
#define STORE_u8(b, i, x) b.v[i] = uint8_t(uint(x))
#define STORE_bool(b, i, x) b.v[i] = uint8_t(uint(x))
#define STORE_i16(b, i, x) b.v[i] = int16_t(int(x))
#define STORE_u16(b, i, x) b.v[i] = uint16_t(uint(x))
#define STORE_i32(b, i, x) b.v[i] = int(x)
#define STORE_u32(b, i, x) b.v[i] = uint(x)
#define STORE_i64(b, i, x) b.v[i] = int64_t(x)
#define STORE_u64(b, i, x) b.v[i] = uint64_t(x)
#define STORE_c64(b, i, x) b.v[i] = x
#define STORE_c128(b, i, x) b.v[i] = x
#define STORE_f32(b, i, x) b.v[i] = float(x)
#define STORE_f64(b, i, x) b.v[i] = double(x)
#define STORE_f16(b, i, x) b.v[i] = uint16_t(to_f16(x))
#define STORE_bf16(b, i, x) b.v[i] = uint16_t(to_bf16(float(x)))

/* as memory would give it back */
#define CUT_i8(x) ((x) << 24 >> 24)
#define CUT_u8(x) ((x) & 0xffu)
#define CUT_i16(x) ((x) << 16 >> 16)
#define CUT_u16(x) ((x) & 0xffffu)

#define IDX int
#define CAST(type, x) (type(x))
#define FN(name) f_##name
#define REM(x, y) ((x) - (y) * ((x) / (y)))
#define IS_MINUS_ONE(y) (CAST(T, -1) < CAST(T, 0) && (y) == CAST(T, -1))
#define AS_F32(x) intBitsToFloat(x)
#define AS_I32(x) floatBitsToInt(x)
/* Those of lists; where EAGER, they are read once at the beginning, as single ones always are:
 * software devices read them an item at a time behind any condition. */
#ifdef EAGER
#define PARAM(i) params_[i]
#else
#define PARAM(i) family.params.v[i]
#endif
#define ONE_PARAM(i) param_##i
#define GRP IDX(gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + family.first)
#define LID IDX(gl_LocalInvocationID.x)
#define GID (GRP * GROUP + LID)
#define BARRIER barrier()
#define EXACT precise
#define INF uintBitsToFloat(0x7f800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)

#define ZERO_OF(type) (type(0))
#define WORD(high, low) (u64(u32(high)) << 32 | u64(u32(low)))
#define AS_F64(word) uint64BitsToDouble(word)

float from_f16(uint h) {
  uint negative = (h & 0x8000u) << 16, e = h >> 10 & 31u, m = h & 0x3ffu;
  if (e == 31u) return uintBitsToFloat(negative | 0x7f800000u | m << 13);
  if (e != 0u) return uintBitsToFloat(negative | (e + 112u) << 23 | m << 13);
  float small = float(m) * 5.9604644775390625e-8; /* 2^-24 */
  return negative != 0u ? -small : small;
}

/* to the nearest; ties to even */
uint to_f16(float x) {
  uint bits = floatBitsToUint(x), negative = bits >> 16 & 0x8000u;
  bits = bits & 0x7fffffffu;
  if (bits > 0x7f800000u) return negative | 0x7e00u;
  if (bits >= 0x477ff000u) return negative | 0x7c00u;
  uint e = bits >> 23;
  if (e >= 113u) {
    bits = bits - 0x38000000u;
    return negative | (bits + 0xfffu + (bits >> 13 & 1u)) >> 13;
  }
  if (e < 102u) return negative;
  uint m = (bits & 0x7fffffu) | 0x800000u, shift = 126u - e;
  uint whole = m >> shift, rest = m & ((1u << shift) - 1u), middle = 1u << (shift - 1u);
  if (rest > middle || (rest == middle && (whole & 1u) != 0u)) whole++;
  return negative | whole;
}

uint to_bf16(float x) {
  uint bits = floatBitsToUint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
  return bits + 0x7fffu + (bits >> 16 & 1u) >> 16;
}

#ifdef HAS_F64
/* to odd first, so that the second rounding is the only one */
uint to_f16(double x) {
  float near = float(x);
  uint bits = floatBitsToUint(near);
  if (double(near) != x && x == x && near < INF && near > -INF) {
    if (abs(double(near)) > abs(x)) bits--;
    bits = bits | 1u;
  }
  return to_f16(uintBitsToFloat(bits));
}
double f_fabs(double x) {
  return abs(x);
}
double f_floor(double x) {
  return floor(x);
}
double f_ceil(double x) {
  return ceil(x);
}
double f_sqrt(double x) {
  return sqrt(x);
}
/* to the nearest, ties to even, by an addition: a driver's roundEven may not be (Mesa's
 * for vectors of 512 bits makes 1 of 1.5) */
double f_rint(double x) {
  precise double big = abs(x) + 4503599627370496.0LF, near = big - 4503599627370496.0LF;
  if (!(abs(x) < 4503599627370496.0LF)) return x;
  uvec2 words = unpackDouble2x32(near);
  return packDouble2x32(uvec2(words.x, words.y | (unpackDouble2x32(x).y & 0x80000000u)));
}
double f_fmax(double x, double y) {
  return x > y || y != y ? x : y;
}
double f_fmin(double x, double y) {
  return x < y || y != y ? x : y;
}
#endif
uint to_f16(int x) {
  return to_f16(float(x));
}
uint to_f16(uint x) {
  return to_f16(float(x));
}
