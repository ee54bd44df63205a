/* int_loops.h - the integer loops of one type: a function for each row of elementwise.def.
 *
 * Included by loops.c for each type, with N its name, T the type and U its unsigned twin. */
#define UNARY_INT(op, expression)  INT_UNARY_OF(op, N, T, expression)
#define BINARY_INT(op, expression) INT_BINARY_OF(op, N, T, expression)
#define COMPARE(op, expression)    INT_COMPARE_OF(op, N, T, expression)
#include "defs/elementwise.def"
#undef N
#undef T
#undef U
