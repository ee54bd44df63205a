/* dialect.h - the families' language (families/README.md) as C, for kernels and rules
 * that this plugin compiles with itself.
 *
 * Of each element type: S_, how it lies in memory; C_, what it is loaded as; V_, what
 * sums are kept in; LOAD_ and STORE_ between the first two. A file that is included
 * once a type sees them as S, C, V, LOAD, STORE and NAMED(name), by TYPE. */
#ifndef KEEL_CPU_DIALECT_H
#define KEEL_CPU_DIALECT_H

#include "cpu.h"

#define IDX           int64_t
#define CAST(type, x) ((type)(x))
#define FN(name)      name
#define INF           ((double)INFINITY)
#include "families/dialects/common.h"

typedef int64_t i64; /* as kernels spell a cast */

typedef float S_f32, C_f32, C_f16, C_bf16;
typedef double S_f64, C_f64, V_f32, V_f64, V_f16, V_bf16;
typedef cpu_f16 S_f16;
typedef cpu_bf16 S_bf16;
typedef int8_t S_i8, C_i8;
typedef uint8_t S_u8, C_u8, S_truth, C_truth;
typedef int16_t S_i16, C_i16;
typedef uint16_t S_u16, C_u16;
typedef int32_t S_i32, C_i32;
typedef uint32_t S_u32, C_u32;
typedef int64_t S_i64, C_i64, V_i8, V_i16, V_i32, V_i64;
typedef uint64_t S_u64, C_u64, V_u8, V_u16, V_u32, V_u64;

#define LOAD_f32(x)   (x)
#define LOAD_f64(x)   (x)
#define LOAD_f16(x)   f16_float(x)
#define LOAD_bf16(x)  bf16_float(x)
#define LOAD_truth(x) (x)
#define LOAD_i8(x)    (x)
#define LOAD_u8(x)    (x)
#define LOAD_i16(x)   (x)
#define LOAD_u16(x)   (x)
#define LOAD_i32(x)   (x)
#define LOAD_u32(x)   (x)
#define LOAD_i64(x)   (x)
#define LOAD_u64(x)   (x)

#define ONE_ROUNDING(v) \
  _Generic((v), double : odd_float((double)(v)), default : (float)(v))
#define STORE_f32(v)   ((float)(v))
#define STORE_f64(v)   ((double)(v))
#define STORE_f16(v)   float_f16(ONE_ROUNDING(v))
#define STORE_bf16(v)  float_bf16(ONE_ROUNDING(v))
#define STORE_truth(v) ((uint8_t)((v) != 0))
#define STORE_i8(v)    ((int8_t)(v))
#define STORE_u8(v)    ((uint8_t)(v))
#define STORE_i16(v)   ((int16_t)(v))
#define STORE_u16(v)   ((uint16_t)(v))
#define STORE_i32(v)   ((int32_t)(v))
#define STORE_u32(v)   ((uint32_t)(v))
#define STORE_i64(v)   ((int64_t)(v))
#define STORE_u64(v)   ((uint64_t)(v))

/* of integers: which member of a union sums are, and the ends of the type */
#define WIDE_i8   whole
#define LEAST_i8  INT8_MIN
#define MOST_i8   INT8_MAX
#define WIDE_u8   natural
#define LEAST_u8  0
#define MOST_u8   UINT8_MAX
#define WIDE_i16  whole
#define LEAST_i16 INT16_MIN
#define MOST_i16  INT16_MAX
#define WIDE_u16  natural
#define LEAST_u16 0
#define MOST_u16  UINT16_MAX
#define WIDE_i32  whole
#define LEAST_i32 INT32_MIN
#define MOST_i32  INT32_MAX
#define WIDE_u32  natural
#define LEAST_u32 0
#define MOST_u32  UINT32_MAX
#define WIDE_i64  whole
#define LEAST_i64 INT64_MIN
#define MOST_i64  INT64_MAX
#define WIDE_u64  natural
#define LEAST_u64 0
#define MOST_u64  UINT64_MAX

#define PASTED(a, b) a##b
#define JOINED(a, b) PASTED(a, b)
#define NAMED(name)  JOINED(name##_, TYPE)
#define S            JOINED(S_, TYPE)
#define C            JOINED(C_, TYPE)
#define V            JOINED(V_, TYPE)
#define LOAD(x)      JOINED(LOAD_, TYPE)(x)
#define STORE(v)     JOINED(STORE_, TYPE)(v)

/* A table by element type of the functions that NAMED gave. */
#define FLOAT_TABLE(name)                                              \
  [KD_F32] = name##_f32, [KD_F64] = name##_f64, [KD_F16] = name##_f16, \
  [KD_BF16] = name##_bf16
#define INT_TABLE(name)                                                \
  [KD_I8] = name##_i8, [KD_U8] = name##_u8, [KD_I16] = name##_i16,     \
  [KD_U16] = name##_u16, [KD_I32] = name##_i32, [KD_U32] = name##_u32, \
  [KD_I64] = name##_i64, [KD_U64] = name##_u64

#endif /* KEEL_CPU_DIALECT_H */
