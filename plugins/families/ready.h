/* ready.h - a plan with its compiled programs, for instances and regions. */
#ifndef KEEL_FAMILIES_READY_H
#define KEEL_FAMILIES_READY_H

#include "families/instance.h"

typedef struct fam_ready {
  fam_plan plan;
  void **programs; /* one a pass; NULL where it has no groups */
} fam_ready;

/* An empty plan for the device. */
void fam_plan_begin(fam_plan *plan, const fam_driver *driver);

/* Compiles the passes. To be freed in any case. */
kd_status fam_ready_compile(const fam_driver *driver, kd_device *device,
                            fam_ready *ready);
void fam_ready_free(const fam_driver *driver, kd_device *device,
                    fam_ready *ready);

/* Launches the passes in order. One thread at a time. */
kd_status fam_ready_run(const fam_driver *driver, kd_device *device,
                        kd_stream *stream, const fam_ready *ready,
                        const kd_launch *launch);

/* Whether the device computes in the type; in those of all arguments (KD_UNIMPLEMENTED:
 * not in one). */
bool fam_has_type(const fam_driver *driver, kd_dtype dtype);
kd_status fam_has_types(const fam_driver *driver, const fam_op *op);

#endif /* KEEL_FAMILIES_READY_H */
