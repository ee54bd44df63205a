/* float_loops.h - the loops of one float type: a function for each row of elementwise.def.
 * Half floats are computed as floats. */
#define UNARY_FLOAT(op, a, b, expression) UNARY_LOOP(NAMED(u_##op), expression)
#define UNARY_MATH(op, a, b, expression)  UNARY_BLOCKS(NAMED(u_##op), expression)
#define BINARY_FLOAT(op, expression) \
  BINARY_LOOP(NAMED(b_##op), S, ELEMENT, expression)
#define COMPARE(op, expression) \
  BINARY_LOOP(NAMED(b_##op), uint8_t, TRUTH, expression)
#include "defs/elementwise.def"
#define UNARY(op, expression) JOINED(GELU_, TYPE)(NAMED(u_##op), expression)
#include "elementwise/gelu.def"
