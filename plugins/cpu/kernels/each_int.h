/* each_int.h - includes EACH once for each integer type. */
#define TYPE i8
#include EACH
#undef TYPE
#define TYPE u8
#include EACH
#undef TYPE
#define TYPE i16
#include EACH
#undef TYPE
#define TYPE u16
#include EACH
#undef TYPE
#define TYPE i32
#include EACH
#undef TYPE
#define TYPE u32
#include EACH
#undef TYPE
#define TYPE i64
#include EACH
#undef TYPE
#define TYPE u64
#include EACH
#undef TYPE
