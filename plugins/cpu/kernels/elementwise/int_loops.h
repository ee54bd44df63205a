/* int_loops.h - the integer loops of one type: included by loops.c for each,
 * with N its name, T the type and U its unsigned twin. */
#define UNARY_INT(op, expression)  INT_UNARY_OF(op, N, T, expression)
#define BINARY_INT(op, expression) INT_BINARY_OF(op, N, T, expression)
#define COMPARE(op, expression)    INT_COMPARE_OF(op, N, T, expression)
#include "defs/elementwise.def"
#undef N
#undef T
#undef U
