/* prototypes.c - compiles where this MPI's functions are as abi_functions.h has them. */
#include <mpi.h>

#include "abi_functions.h"

#define DECLARE(name, parameters) extern int(*const keel_##name) parameters;
#define DEFINE(name, parameters)  int(*const keel_##name) parameters = name;
ABI_FUNCTIONS(DECLARE)
ABI_FUNCTIONS(DEFINE)
