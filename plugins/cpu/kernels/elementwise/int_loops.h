/* int_loops.h - the loops of one integer type: a function for each row of elementwise.def. */
#define UNARY_INT(op, expression) UNARY_LOOP(NAMED(u_##op), expression)
#define BINARY_INT(op, expression) \
  BINARY_LOOP(NAMED(b_##op), S, ELEMENT, expression)
#define COMPARE(op, expression) \
  BINARY_LOOP(NAMED(b_##op), uint8_t, TRUTH, expression)
#include "defs/elementwise.def"
