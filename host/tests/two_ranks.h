/* two_ranks.h - programs that two ranks share: one runs on the CPU, one on the simulated device
 * (without the suite there is none). */
#ifndef KEEL_TESTS_TWO_RANKS_H
#define KEEL_TESTS_TWO_RANKS_H

#include <keel/group.h>
#include <keel/split.h>

#define WORKERS 2
#ifdef SIM_PLUGIN
#define BESIDE SIM_PLUGIN
#endif
#include "with_cpu.h"

enum { INPUT_MOST = 4096 };

/* Small integers, for a program's first input. */
static inline keel_tensor *input_of(const keel_program *program) {
  static float data[INPUT_MOST];
  keel_port port;
  expect_ok(keel_program_input(program, 0, &port));
  for (int i = 0; i < INPUT_MOST; i++)
    data[i] = (float)(i * 11 % 7 - 3);
  return create_tensor(context, KD_F32, port.rank, port.dims, data);
}

/* Each rank's result, and how the program was split for it. */
static inline void run_split(const keel_program *program, uint32_t kind,
                             keel_tensor *x, keel_tensor *out[2],
                             keel_split_facts facts[2]) {
  keel_device *devices[] = {find_device(context, "cpu:0"),
                            find_device(context, "sim:0")};
  keel_group *group = NULL;
  keel_tensor *members[2];
  keel_plan *plans[2];
  expect_ok(keel_group_create(devices, 2, &group));
  expect_ok(keel_group_members(group, members));
  for (uint32_t r = 0; r < 2; r++) {
    const keel_split_params params = {
        .struct_size = sizeof params, .kind = kind, .rank = r, .size = 2};
    keel_program *own = NULL;
    expect_ok(keel_program_split(program, &params, &own, &facts[r]));
    plans[r] = create_plan(own, PLAN_PARAMS(.device = devices[r]));
    keel_program_release(own);
    keel_tensor *inputs[] = {x, members[r]};
    expect_ok(keel_plan_begin(plans[r], NULL, inputs,
                              keel_plan_input_count(plans[r]), &out[r], 1));
  }
  release_all(members, 2);
  for (uint32_t r = 0; r < 2; r++) {
    expect_ok(keel_tensor_wait(out[r]));
    keel_plan_release(plans[r]);
  }
  keel_group_release(group);
}

#endif /* KEEL_TESTS_TWO_RANKS_H */
