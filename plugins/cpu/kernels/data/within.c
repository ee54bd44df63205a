/* within.c - keel::Within: a list of numbers that must lie between bounds. */
#include "kernels.h"

CPU_KERNEL(cpu_run_within) {
  const kd_tensor *x = &launch->inputs[0];
  int64_t count = kd_elements(x);
  int64_t least = int_at(&launch->inputs[1], 0),
          most = int_at(&launch->inputs[2], 0);
  for (int64_t i = 0; i < count; i++)
    if (int_at(x, i) < least || int_at(x, i) > most)
      return FAIL(KD_INVALID_ARGUMENT,
                  "%s: %s[%lld] is %lld, outside of %lld..%lld",
                  attr_string(launch, "op", ""),
                  attr_string(launch, "input", ""), (long long)i,
                  (long long)int_at(x, i), (long long)least, (long long)most);
  memmove(launch->outputs[0].data, x->data, (size_t)count * sizeof(int64_t));
  return KD_OK;
}
