/* each_float.h - includes the file EACH once for each float type, with TYPE naming it: f32 ... */
#define TYPE f32
#include EACH
#undef TYPE
#define TYPE f64
#include EACH
#undef TYPE
#define TYPE f16
#include EACH
#undef TYPE
#define TYPE bf16
#include EACH
#undef TYPE
