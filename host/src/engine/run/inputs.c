/* inputs.c - takes over donated inputs. */
#include "run/inputs.h"

#include "values/tensor.h"

void keel_inputs_release(keel_tensor **held, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    keel_tensor_release(held[i]);
    held[i] = NULL;
  }
}

static bool is_named_before(const keel_run_params *params, uint32_t at) {
  for (uint32_t i = 0; i < at; i++)
    if (params->donated[i] == params->donated[at]) return true;
  return false;
}

void keel_inputs_drop(const keel_run_params *params, keel_tensor *const *inputs,
                      uint32_t count) {
  for (uint32_t i = 0; params->donated && i < params->donated_count; i++)
    if (params->donated[i] < count && !is_named_before(params, i))
      keel_tensor_release(inputs[params->donated[i]]);
}

static keel_status inputs_mark(const keel_run_params *params, uint32_t count,
                               bool *donated) {
  if (params->donated_count && !params->donated)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "a run donates %u inputs and does not say which",
                     (unsigned)params->donated_count);
  for (uint32_t i = 0; i < params->donated_count; i++) {
    uint32_t index = params->donated[i];
    if (index >= count)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "a run donates input %u; the program has %u",
                       (unsigned)index, (unsigned)count);
    if (donated[index])
      return keel_fail(KD_INVALID_ARGUMENT, "a run donates input %u twice",
                       (unsigned)index);
    donated[index] = true;
  }
  return KD_OK;
}

keel_status keel_inputs_take(const keel_run_params *params,
                             keel_tensor *const *inputs, uint32_t count,
                             keel_tensor **held, bool *donated) {
  keel_status status = inputs_mark(params, count, donated);
  if (status != KD_OK) {
    keel_inputs_drop(params, inputs, count);
    return status;
  }
  for (uint32_t i = 0; i < count; i++)
    held[i] = donated && donated[i] ? inputs[i] : keel_tensor_retain(inputs[i]);
  return KD_OK;
}
