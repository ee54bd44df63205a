/* each_int.h - includes the file EACH once for each integer type, with TYPE naming it: i8 ... */
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
