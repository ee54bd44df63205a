/* sizes.h - giving open dimensions their sizes. */
#ifndef KEEL_SIZES_H
#define KEEL_SIZES_H

#include "program/function.h"

/* Gives an input these sizes, of which there are as many as its port has (-1: open). Returns KD_OK,
 * KD_INVALID_ARGUMENT (no type has them), KD_OUT_OF_MEMORY. */
keel_status keel_function_fix(keel_function *f, uint32_t input,
                              const int64_t *dims);

/* Gives inputs the sizes that a caller names, as keel_program_fix says, and others of the same name
 * theirs. */
keel_status keel_function_fix_inputs(keel_function *f,
                                     const keel_input_sizes *inputs,
                                     uint32_t count);

#endif /* KEEL_SIZES_H */
