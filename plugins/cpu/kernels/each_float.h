/* each_float.h - includes EACH once for each float type. */
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
