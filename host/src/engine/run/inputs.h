/* inputs.h - the inputs of a run, with a reference to each: the run's own, or the caller's donated
 * one. */
#ifndef KEEL_RUN_INPUTS_H
#define KEEL_RUN_INPUTS_H

#include <keel/program.h>

#include "values/tensor.h"

/* Fills `held` with a reference to each input: the caller's to those that are donated, new
 * ones to the others. Sets `donated`, of as many zeros (NULL where none is). On a failure
 * `held` is empty, and the references to donated inputs are gone. Returns KD_OK,
 * KD_INVALID_ARGUMENT. */
keel_status keel_inputs_take(const keel_run_params *params,
                             keel_tensor *const *inputs, uint32_t count,
                             keel_tensor **held, bool *donated);

/* Releases the donated inputs of a run that does not begin. */
void keel_inputs_drop(const keel_run_params *params, keel_tensor *const *inputs,
                      uint32_t count);

/* Releases what is left, and empties it. */
void keel_inputs_release(keel_tensor **held, uint32_t count);

static inline bool keel_input_is_resource(keel_tensor *input) {
  return keel_tensor_state(input) == KEEL_READY && input->kind == KEEL_RESOURCE;
}

/* Passes a reference on. */
static inline void keel_inputs_pass(keel_tensor **held, uint32_t index,
                                    keel_tensor **out_tensor) {
  *out_tensor = held[index];
  held[index] = NULL;
}

#endif /* KEEL_RUN_INPUTS_H */
