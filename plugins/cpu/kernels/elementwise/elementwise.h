/* elementwise.h - the loops of elementwise.c, one set for each ISA. */
#ifndef KEEL_CPU_ELEMENTWISE_H
#define KEEL_CPU_ELEMENTWISE_H

#include "cpu.h"

/* n elements; a and b are the op's attributes. */
typedef void (*cpu_unary)(const void *x, void *y, int64_t n, double a,
                          double b);
/* n results, packed; x and y step by sx and sy elements. */
typedef void (*cpu_binary)(const void *x, int64_t sx, const void *y, int64_t sy,
                           void *z, int64_t n);

typedef struct cpu_unary_row {
  const char *a, *b; /* names of attributes, or "" */
  cpu_unary loops[KD_DTYPE_COUNT];
} cpu_unary_row;

typedef struct cpu_binary_row {
  cpu_binary loops[KD_DTYPE_COUNT];
} cpu_binary_row;

/* Ops by number: UNARY_Relu, BINARY_Add ... */
enum {
#define UNARY_FLOAT(op, a, b, expression) UNARY_##op,
#include "defs/elementwise.def"
#define UNARY(op, expression) UNARY_##op,
#include "elementwise/gelu.def"
  UNARY_BitwiseNot,
  UNARY_COUNT
};
enum {
#define BINARY_FLOAT(op, expression) BINARY_##op,
#define BINARY_BOOL(op, expression)  BINARY_##op,
#define COMPARE(op, expression)      BINARY_##op,
#include "defs/elementwise.def"
  BINARY_BitwiseAnd,
  BINARY_BitwiseOr,
  BINARY_BitwiseXor,
  BINARY_ShiftLeft,
  BINARY_ShiftRight,
  BINARY_COUNT
};

typedef struct cpu_loops {
  cpu_unary_row unary[UNARY_COUNT];
  cpu_binary_row binary[BINARY_COUNT];
} cpu_loops;

extern const cpu_loops cpu_loops_base, cpu_loops_avx2, cpu_loops_avx512;
const cpu_loops *cpu_loops_get(void);

/* The loop over f32 of what follows a product, by its attribute: Relu, Gelu, GeluTanh or
 * Silu; NULL: none of them. The last two arguments are not read. */
void (*cpu_activation_loop(const char *name))(const void *x, void *y, int64_t n,
                                              double a, double b);

/* The loop of a Gelu, which its attribute names. */
uint32_t cpu_gelu_row(const kd_node *node);

#endif /* KEEL_CPU_ELEMENTWISE_H */
