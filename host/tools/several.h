/* several.h - one program on several devices of this process at once, each a rank of it. */
#ifndef KEEL_SEVERAL_H
#define KEEL_SEVERAL_H

#include <keel/group.h>
#include <keel/program.h>

#include "tool.h"

#define SEVERAL_MOST 64

typedef struct several {
  keel_group *group; /* NULL: there are none */
  uint32_t count;
  keel_device *devices[SEVERAL_MOST];
  keel_plan *plans[SEVERAL_MOST]; /* the first is the session's */
  /* of each but the first, where the model is split; NULL: all run the session's */
  keel_program *programs[SEVERAL_MOST];
} several;

/* Opens the devices of a list, "cpu:0,acme:0". Returns 0, or the exit status: what is wrong was
 * reported. */
int several_open(several *all, keel_context *context, const char *list);

/* Plans for all but the first device, whose plan is there. */
keel_status several_plan(several *all, keel_program *program,
                         const keel_plan_params *params, keel_plan *first);

/* Runs the plans at once, and waits. `member` is the input that is a rank's handle, or no input
 * at all. outputs: of rank 0. */
keel_status several_run(const several *all, const keel_run_params *params,
                        keel_tensor *const *inputs, uint32_t input_count,
                        uint32_t member, keel_tensor **outputs,
                        uint32_t output_count);

void several_close(several *all);

/* How many calls went which way, in a line. */
void several_print(const several *all);

#endif /* KEEL_SEVERAL_H */
