/* several.c - runs one program on several devices at once. */
#include "several.h"

int several_open(several *all, keel_context *context, const char *list) {
  for (const char *at = list; *at;) {
    char name[128];
    size_t size = strcspn(at, ",");
    if (!size || size >= sizeof name || all->count == SEVERAL_MOST)
      return usage_error("run",
                         "--devices is \"%s\"; it must be up to %d names of"
                         " devices with commas between them",
                         list, SEVERAL_MOST);
    memcpy(name, at, size);
    name[size] = 0;
    if (keel_device_find(context, name, &all->devices[all->count++]) != KD_OK)
      return complain();
    at += size;
    at += *at == ',' && at[1];
  }
  return keel_group_create(all->devices, all->count, &all->group) == KD_OK
             ? 0
             : complain();
}

keel_status several_plan(several *all, keel_program *program,
                         const keel_plan_params *params, keel_plan *first) {
  keel_plan_params own = *params;
  all->plans[0] = first;
  for (uint32_t i = 1; i < all->count; i++) {
    own.device = all->devices[i];
    keel_status status = keel_plan_create(
        all->programs[i] ? all->programs[i] : program, &own, &all->plans[i]);
    if (status != KD_OK) return status;
  }
  return KD_OK;
}

/* One rank's inputs: with its handle. */
static keel_status several_begin(const several *all, uint32_t rank,
                                 const keel_run_params *params,
                                 keel_tensor *const *inputs,
                                 uint32_t input_count, uint32_t member,
                                 keel_tensor *handle, keel_tensor **outputs,
                                 uint32_t output_count) {
  keel_tensor **own = calloc((size_t)input_count + 1, sizeof *own);
  if (!own) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < input_count; i++)
    own[i] = i == member ? handle : inputs[i];
  keel_status status = keel_plan_begin(all->plans[rank], params, own,
                                       input_count, outputs, output_count);
  free(own);
  return status;
}

static keel_status several_wait_for(keel_tensor **outputs, uint32_t count) {
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < count; i++) {
    keel_status own = outputs[i] ? keel_tensor_wait(outputs[i]) : KD_OK;
    if (status == KD_OK) status = own;
    if (own != KD_OK) break;
  }
  return status;
}

/* The first failure is reported; the others follow from it. */
keel_status several_run(const several *all, const keel_run_params *params,
                        keel_tensor *const *inputs, uint32_t input_count,
                        uint32_t member, keel_tensor **outputs,
                        uint32_t output_count) {
  keel_tensor *handles[SEVERAL_MOST] = {NULL};
  size_t capacity = (size_t)all->count * output_count + 1;
  keel_tensor **made = calloc(capacity, sizeof *made);
  keel_status status =
      made ? keel_group_members(all->group, handles) : KD_OUT_OF_MEMORY;
  for (uint32_t r = 0; r < all->count && status == KD_OK; r++)
    status =
        several_begin(all, r, params, inputs, input_count, member, handles[r],
                      made + (size_t)r * output_count, output_count);
  /* a rank that has ended is gone: others do not wait for it */
  for (uint32_t r = 0; r < all->count; r++)
    keel_tensor_release(handles[r]);
  for (uint32_t r = 0; r < all->count && status == KD_OK; r++)
    status = several_wait_for(made + (size_t)r * output_count, output_count);
  for (size_t i = 0; made && i + 1 < capacity; i++)
    if (status == KD_OK && i < output_count)
      outputs[i] = made[i];
    else
      keel_tensor_release(made[i]);
  free(made);
  return status;
}

void several_close(several *all) {
  for (uint32_t i = 1; i < all->count; i++) {
    keel_plan_release(all->plans[i]);
    keel_program_release(all->programs[i]);
  }
  keel_group_release(all->group);
}

void several_print(const several *all) {
  keel_group_counts counts;
  if (!all->group) return;
  keel_group_count(all->group, &counts);
  printf(
      "%u devices: %llu exchanges by themselves, %llu by the runtime's"
      " copies\n",
      (unsigned)all->count, (unsigned long long)counts.direct,
      (unsigned long long)counts.staged);
}
