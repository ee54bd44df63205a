/* group.h - what the simulated device's groups share: those of one process (collective.c), and
 * those that their members join (joined.c). */
#ifndef SIM_GROUP_H
#define SIM_GROUP_H

#include "mutants/sim.h"

typedef struct joined joined;

struct kd_group {
  joined *joined; /* NULL: of one process */
  uint32_t size;  /* members whose streams a call has */
  kd_device *devices[];
};

typedef struct member {
  arg in, out;
  point *ready;
} member;

/* What the members do together that one call is for. */
typedef struct round {
  uint32_t kind, reduction, root, size;
  point *done;
  joined *joined;
  char *early; /* for the defect: the input as it was when the call was made */
  member members[];
} round;

float *sim_floats(const arg *a);
int64_t sim_count_of(const arg *a);
float sim_reduce(uint32_t kind, float a, float b);

/* ---- joined.c ------------------------------------------------------------------------ */

kd_status joined_make_id(kd_device *device, uint32_t flags,
                         kd_group_id *out_id);
kd_status joined_join(kd_device *device, const kd_join *what,
                      kd_group **out_group);
kd_status joined_status(kd_group *group);
void joined_abort(kd_group *group);

joined *joined_hold(joined *g);
void joined_drop(joined *g);
/* The member leaves a group that others may still be in. */
void joined_leave(joined *g);
bool joined_is_aborted(joined *g);
/* Has what the others wait for fail. */
void joined_fail(joined *g);
/* One member's part, on its stream's thread. */
kd_status joined_run(job *j);

#endif /* SIM_GROUP_H */
