/* form.h - serialised regions: the code of a plan's programs, and what it is valid for. */
#ifndef KEEL_FAMILIES_FORM_H
#define KEEL_FAMILIES_FORM_H

#include "families/ready.h"

/* For kd_region_table.serialize. KD_UNIMPLEMENTED: the device gives no code. */
kd_status fam_form_write(const fam_driver *driver, kd_device *device,
                         const fam_plan *plan, void **out_blob,
                         uint64_t *out_size);

/* For validate. Returns KD_OK, KD_DATA_LOSS, KD_INCOMPATIBLE, KD_UNIMPLEMENTED. */
kd_status fam_form_check(const fam_driver *driver, kd_device *device,
                         const void *blob, uint64_t size);

/* For load: makes the programs of a plan known to the device.
 * Returns KD_OK, KD_INCOMPATIBLE (it is of another plan, or the driver refuses it). */
kd_status fam_form_read(const fam_driver *driver, kd_device *device,
                        const fam_plan *plan, const void *blob, uint64_t size);

#endif /* KEEL_FAMILIES_FORM_H */
