/* c.h - words of the kernels' language that dialects of C spell alike; it comes behind the
 * dialect's own. */

#define LOAD_i8(b, i)       b[i]
#define LOAD_u8(b, i)       b[i]
#define LOAD_bool(b, i)     b[i]
#define LOAD_i16(b, i)      b[i]
#define LOAD_u16(b, i)      b[i]
#define LOAD_i32(b, i)      b[i]
#define LOAD_u32(b, i)      b[i]
#define LOAD_i64(b, i)      b[i]
#define LOAD_u64(b, i)      b[i]
#define LOAD_c64(b, i)      b[i]
#define LOAD_c128(b, i)     b[i]
#define LOAD_f32(b, i)      b[i]
#define LOAD_f64(b, i)      b[i]
#define STORE_i8(b, i, v)   b[i] = (i8)(v)
#define STORE_u8(b, i, v)   b[i] = (u8)(v)
#define STORE_bool(b, i, v) b[i] = (u8)(v)
#define STORE_i16(b, i, v)  b[i] = (i16)(v)
#define STORE_u16(b, i, v)  b[i] = (u16)(v)
#define STORE_i32(b, i, v)  b[i] = (i32)(v)
#define STORE_u32(b, i, v)  b[i] = (u32)(v)
#define STORE_i64(b, i, v)  b[i] = (i64)(v)
#define STORE_u64(b, i, v)  b[i] = (u64)(v)
#define STORE_c64(b, i, v)  b[i] = (v)
#define STORE_c128(b, i, v) b[i] = (v)
#define STORE_f32(b, i, v)  b[i] = (f32)(v)
#define STORE_f64(b, i, v)  b[i] = (f64)(v)
/* small integers are what they are: nothing is to be cut */
#define CUT_i8(x)       (x)
#define CUT_u8(x)       (x)
#define CUT_i16(x)      (x)
#define CUT_u16(x)      (x)
#define IDX             int
#define CAST(type, x)   ((type)(x))
#define FN(name)        name
#define REM(x, y)       ((x) % (y))
#define IS_MINUS_ONE(y) (CAST(T, -1) < 0 && (y) == CAST(T, -1))
#define PARAM(i)        params.v[i]
#define ONE_PARAM       PARAM
#define WORD(high, low) ((u64)(u32)(high) << 32 | (u64)(u32)(low))
