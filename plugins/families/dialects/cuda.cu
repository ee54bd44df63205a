/* cuda.cu - what families/kernels are written in, as CUDA C++ for NVRTC, which brings its
 * own mathematics and no other header. */
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct __align__(16) c128 {
  u64 low, high;
};

/* as they lie in memory */
typedef i8 S_i8;
typedef u8 S_u8, S_bool;
typedef i16 S_i16;
typedef u16 S_u16, S_bf16, S_f16;
typedef i32 S_i32;
typedef u32 S_u32;
typedef i64 S_i64;
typedef u64 S_u64, S_c64;
typedef f32 S_f32;
typedef f64 S_f64;
typedef c128 S_c128;

#define LOAD_f16(b, i) from_f16(b[i])
#define LOAD_bf16(b, i) __int_as_float((int)((u32)b[i] << 16))

#define STORE_f16(b, i, v) b[i] = to_f16(v)
#define STORE_bf16(b, i, v) b[i] = to_bf16((f32)(v))

__device__ static inline f32 from_f16(u16 bits) {
  f32 value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ static inline u16 to_f16(f32 value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

/* one rounding, not two */
__device__ static inline u16 to_f16(f64 value) {
  u16 bits;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(value));
  return bits;
}

template <class T>
__device__ static inline u16 to_f16(T value) {
  return to_f16((f32)value);
}

__device__ static inline u16 to_bf16(f32 v) {
  u32 bits = __float_as_uint(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)(bits >> 16 | 0x40u);
  return (u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* parameters are read where they lie, by any number; else each item makes itself a copy */
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1107
#define IN_PLACE __grid_constant__
#else
#define IN_PLACE
#endif

#define AS_F32(x) __uint_as_float((u32)(x))
#define AS_I32(x) __float_as_int(x)
#define GID ((IDX)(blockIdx.x * GROUP + threadIdx.x))
#define GRP ((IDX)blockIdx.x)
#define LID ((IDX)threadIdx.x)
#define BARRIER __syncthreads()
#define INF __int_as_float(0x7f800000)

/* in each warp without shared memory, then over the warps; groups are whole warps */
#define OVER_GROUP(part, s, join)                             \
  for (int apart = 16; apart > 0; apart /= 2) {               \
    V q_ = (V)__shfl_down_sync(0xffffffffu, s, apart);        \
    s = join(s, q_);                                          \
  }                                                           \
  if (LID % 32 == 0) part[LID / 32] = s;                      \
  BARRIER;                                                    \
  s = part[0];                                                \
  for (int warp = 1; warp < GROUP / 32; warp++) {             \
    V q_ = part[warp];                                        \
    s = join(s, q_);                                          \
  }                                                           \
  BARRIER;

#define ZERO_OF(type) (type{})
#define AS_F64(word) __longlong_as_double((i64)(word))

/* Four neighbours are read and written at once where they lie as they would have to.
 *
 * Of narrow types, what is read stays in words as it came, and is taken apart where each is
 * needed: so what is read next is asked for before these are there. */
template <class S>
struct __align__(sizeof(S) < 4 ? 4 * sizeof(S) : 16) four_of {
  S at[4];
};

template <class S, int SIZE>
struct four_taken : four_of<S> {
  __device__ inline S operator[](int k) const { return this->at[k]; }
  __device__ inline void set(int k, S one) { this->at[k] = one; }
};

template <class S>
struct __align__(4) four_taken<S, 1> {
  u32 word;
  __device__ inline S operator[](int k) const { return (S)(word >> 8 * k); }
  __device__ inline void set(int k, S one) {
    word = (k ? word : 0) | (u32)(u8)one << 8 * k;
  }
};

template <class S>
struct __align__(8) four_taken<S, 2> {
  u32 words[2];
  __device__ inline S operator[](int k) const {
    return (S)(words[k / 2] >> 16 * (k % 2));
  }
  __device__ inline void set(int k, S one) {
    words[k / 2] = (k % 2 ? words[k / 2] : 0) | (u32)(u16)one << 16 * (k % 2);
  }
};

/* those from there on; step 0: the first of them, four times */
template <class S>
__device__ static inline four_taken<S, sizeof(S)> take_four(const S *from,
                                                            int step) {
  four_taken<S, sizeof(S)> four;
  if (step && (u64)from % alignof(four_of<S>) == 0)
    return *(const four_taken<S, sizeof(S)> *)from;
  for (int k = 0; k < 4; k++)
    four.set(k, from[k * step]);
  return four;
}

template <class S>
__device__ static inline void put_four(S *to, const four_of<S> &four) {
  if ((u64)to % alignof(four_of<S>) == 0) {
    *(four_of<S> *)to = four;
    return;
  }
  for (int k = 0; k < 4; k++)
    to[k] = four.at[k];
}
