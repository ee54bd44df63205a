/* cpu.h - shared by the files of the CPU plugin. */
#ifndef KEEL_CPU_H
#define KEEL_CPU_H

#include <kd/kd.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "families/strided.h"

extern const kd_host *cpu_host; /* from open to close */

#define FAIL(...) cpu_host->fail(__VA_ARGS__)

extern const kd_external_table cpu_external;

/* As kd_memory_table.allocate, of what is to be exported. */
kd_status cpu_external_allocate(const kd_allocation *wanted,
                                kd_buffer **out_buffer, void **out_address);
/* Gives back what is no piece of malloc's; false: it is one. */
bool cpu_external_release(kd_buffer *buffer);

#define CPU_UNUSED __attribute__((unused))

/* Every table row's function. Many use the launch alone. */
#define CPU_KERNEL(name)                                                   \
  kd_status name(CPU_UNUSED kd_kernel *self, CPU_UNUSED kd_stream *stream, \
                 CPU_UNUSED const kd_launch *launch)

/* Attributes of the op that is run. */
static inline int64_t attr_int(const kd_launch *launch, const char *name,
                               int64_t fallback) {
  return cpu_host->node->attr_int(launch->node, name, fallback);
}
static inline float attr_float(const kd_launch *launch, const char *name,
                               float fallback) {
  return cpu_host->node->attr_float(launch->node, name, fallback);
}
static inline const char *attr_string(const kd_launch *launch, const char *name,
                                      const char *fallback) {
  return cpu_host->node->attr_string(launch->node, name, fallback);
}
static inline int64_t attr_ints(const kd_launch *launch, const char *name,
                                const int64_t **out_values) {
  return cpu_host->node->attr_ints(launch->node, name, out_values);
}

/* An axis in [-rank, rank), which the shape function has checked. */
static inline uint32_t axis_of(int64_t axis, uint32_t rank) {
  return (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
}

static inline int64_t product(const int64_t *dims, uint32_t from, uint32_t to) {
  int64_t result = 1;
  for (uint32_t i = from; i < to; i++)
    result *= dims[i];
  return result;
}

static inline int64_t cpu_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
/* To a multiple of `step`. */
static inline int64_t cpu_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

/* Cases of a switch by the size of an element: loop(T) for an integer T of each. */
#define CPU_SIZES(loop) \
  case 1:               \
    loop(uint8_t);      \
    break;              \
  case 2:               \
    loop(uint16_t);     \
    break;              \
  case 4:               \
    loop(uint32_t);     \
    break;              \
  case 8:               \
    loop(uint64_t);     \
    break;

/* Integer i of an i32 or i64 tensor. */
static inline int64_t int_at(const kd_tensor *tensor, int64_t i) {
  return tensor->dtype == KD_I64 ? ((const int64_t *)tensor->data)[i]
                                 : ((const int32_t *)tensor->data)[i];
}

/* ---- half and brain floats ------------------------------------------------ */

typedef struct cpu_f16 {
  uint16_t bits;
} cpu_f16;
typedef struct cpu_bf16 {
  uint16_t bits;
} cpu_bf16;

static inline uint32_t float_bits(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline float bits_float(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Exact. A subnormal is a normal float once it is scaled by 2^112. */
static inline float f16_float(cpu_f16 half) {
  uint32_t sign = (uint32_t)(half.bits & 0x8000u) << 16;
  uint32_t rest = (uint32_t)(half.bits & 0x7fffu) << 13;
  float scaled = bits_float(rest) * 0x1p112f;
  uint32_t bits = float_bits(scaled);
  bits = rest >= 0x0f800000u ? rest | 0x7f800000u : bits; /* inf, nan */
  return bits_float(bits | sign);
}

/* Rounds to nearest, ties to even. */
static inline cpu_f16 float_f16(float value) {
  uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000u;
  bits &= 0x7fffffffu;
  uint32_t half;
  if (bits > 0x7f800000u)
    half = 0x7e00u;
  else if (bits >= 0x477ff000u) /* rounds past 65504 */
    half = 0x7c00u;
  else if (bits < 0x38800000u) /* subnormal: let an addition round */
    half = float_bits(bits_float(bits) + 0.5f) - 0x3f000000u;
  else
    half = (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1)) >> 13;
  return (cpu_f16){(uint16_t)(half | sign)};
}

static inline float bf16_float(cpu_bf16 value) {
  return bits_float((uint32_t)value.bits << 16);
}
static inline cpu_bf16 float_bf16(float value) {
  uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return (cpu_bf16){(uint16_t)(bits >> 16 | 0x40u)};
  return (cpu_bf16){(uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16)};
}

/* An f32 that f16 and bf16 round as they would the number: where it is between two, the one
 * whose last bit is set. */
static inline float odd_float(double value) {
  float near = (float)value;
  if ((double)near == value || value != value || float_bits(near) & 1)
    return near;
  bool above = (double)fabsf(near) > fabs(value);
  return bits_float(float_bits(near) + (above ? UINT32_MAX : 1));
}

static inline float plain_float(float value) {
  return value;
}
static inline double plain_double(double value) {
  return value;
}

/* Converts n elements between any two plain types (cast.c). */
void cpu_convert(const void *from, kd_dtype from_type, void *to,
                 kd_dtype to_type, int64_t n);

/* Element i as a double, and back; for what is not worth a loop per type. */
double cpu_get(const void *data, kd_dtype dtype, int64_t i);
/* Element i as an integer: exact for integers, toward zero and saturated for others, NaN 0. */
int64_t cpu_get_whole(const void *data, kd_dtype dtype, int64_t i);
/* Element i as a double that a narrower type rounds as it would the element: of an integer
 * that has more digits, the last one that is kept says whether any were lost. */
double cpu_get_odd(const void *data, kd_dtype dtype, int64_t i);
/* Rounds once, to the nearest, ties to even; integers toward zero. */
void cpu_set(void *data, kd_dtype dtype, int64_t i, double value);

/* ---- moving data ---------------------------------------------------------- */

/* Copies elements of `size` bytes: operand 0 of the space is the target,
 * operand 1 the source (copy.c). The space is used up. */
void cpu_copy_strided(strided *space, size_t size, void *to, const void *from);

/* n elements of `size` bytes, all of one value (move.c). */
void cpu_fill(void *target, const void *value, size_t size, int64_t n);

/* Copies a tensor, packed or by its strides, broadcast to a packed one's shape. */
void cpu_spread(const kd_tensor *from, const kd_tensor *to);
/* An input's elements behind each other, in *out_memory of the host's: of *in, too. */
kd_status cpu_pack_input(const kd_launch *launch, uint32_t input, kd_tensor *in,
                         void **out_memory);

/* ---- matrices ------------------------------------------------------------- */

/* What is done to a product when it is there: bias and z are added, then comes an
 * activation, or NULL. */
typedef struct cpu_epilogue {
  float *c; /* all of it, as a whole: `step` from a row to the next */
  int64_t step;
  const float *bias, *z; /* one a column; as C lies. NULL: none */
  void (*activation)(const void *x, void *y, int64_t n, double a, double b);
} cpu_epilogue;

/* C = alpha * op(A) op(B) + beta * C, row-major, on f32 or f64 (gemm.c). The
 * host's threads share it where it is worth it. Equal rows of A give equal rows of C, and
 * equal columns of B equal columns, to the last bit, unless OpenBLAS is wanted. */
typedef struct cpu_gemm {
  kd_dtype dtype; /* KD_F32 or KD_F64 */
  bool trans_a, trans_b;
  bool vector; /* all of it has one row or one column: dot products will do */
  int64_t m, n, k;
  double alpha, beta;
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc;
  /* op(B) as cpu_gemm_pack has packed it, or NULL: b and ldb count */
  const void *panels;
  const cpu_epilogue *finish; /* of f32; NULL: C stays as it is */
} cpu_gemm;
void cpu_gemm_run(const cpu_gemm *gemm);
/* The same on the calling thread alone. */
void cpu_gemm_here(const cpu_gemm *gemm);
/* Finishes rows of C, `columns` of each, from `at` on. */
void cpu_gemm_finish(const cpu_epilogue *finish, float *at, int64_t rows,
                     int64_t columns);
/* op(B) of an f32 product, and of others whose B follow, in the order that products read it,
 * for as often as it is wanted: free() it. NULL: no memory. */
float *cpu_gemm_pack(const cpu_gemm *gemm, int64_t matrices);
/* Floats of one of those. */
int64_t cpu_gemm_packed(const cpu_gemm *gemm);

/* ---- fused convolutions ------------------------------------------------------- */

/* What follows a keel::FusedConv, which brings the result into [low, high], or a
 * keel::ActivatedConv. */
typedef enum cpu_last {
  CPU_LAST_NONE,
  CPU_LAST_RELU,
  CPU_LAST_CLIP,
  CPU_LAST_SILU,
  CPU_LAST_HARD_SWISH,
  CPU_LAST_LEAKY_RELU
} cpu_last;

typedef struct cpu_activation {
  cpu_last last;
  float low, high; /* of Relu and Clip; the others: no bound */
  float alpha;     /* of LeakyRelu */
} cpu_activation;

/* Returns KD_OK, KD_UNIMPLEMENTED. */
kd_status cpu_read_activation(const kd_node *node, cpu_activation *out);

/* Elements, as grain, so that a piece of a loop takes some 10 microseconds. */
#define CPU_GRAIN 16384

/* Rows of fewer elements are joined where a window allows it (families/window.h): a convolution's,
 * one's of groups, and a pool's, which counts the taps of each element. */
#define CPU_NARROW        33
#define CPU_NARROW_GROUPS 64
#define CPU_NARROW_POOL   16

/* Which set of loops this processor takes: 0 plain, 1 AVX2, 2 AVX-512. Set once, when the plugin
 * opens. */
extern int cpu_isa_taken;
static inline int cpu_isa(void) {
  return cpu_isa_taken;
}

/* The one that it takes of the sets of a file that is compiled for each of them. */
#if defined(__x86_64__)
#define CPU_LOOPS(name)              \
  (cpu_isa() == 2   ? &name##_avx512 \
   : cpu_isa() == 1 ? &name##_avx2   \
                    : &name##_base)
#else
#define CPU_LOOPS(name) (&name##_base)
#endif

/* Room for weights that are read again and again, at a line of the cache, in huge pages where
 * the system has them. free() lets go of it. NULL: no memory. */
void *cpu_weights_alloc(size_t bytes);

/* The same beside others, so that small ones lie in huge pages, too; NULL: no memory. */
typedef struct cpu_region cpu_region;
void *cpu_weights_take(size_t bytes, cpu_region **out_region);
void cpu_weights_drop(cpu_region *region);

/* Instructions for products of bytes, beyond those of the set. */
typedef enum cpu_bytes_isa {
  CPU_BYTES_PLAIN,
  CPU_BYTES_VNNI,
  CPU_BYTES_AMX
} cpu_bytes_isa;
cpu_bytes_isa cpu_bytes(void);

/* What the option "bytes" says, or the best; once the set is known. */
kd_status cpu_choose_bytes(void);

/* Takes the loops for that; `cpu_int8_get` gives them. */
void cpu_int8_choose(void);

/* The option "products" is openblas. */
bool cpu_wants_openblas(void);

/* The option "winograd" is not off. */
bool cpu_wants_winograd(void);

#endif /* KEEL_CPU_H */
