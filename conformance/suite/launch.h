/* launch.h - what kd_host.set_output does in the suite. */
#ifndef KC_LAUNCH_H
#define KC_LAUNCH_H

#include <kd/kd.h>

kd_status kc_set_output(const kd_launch *launch, uint32_t index, uint32_t rank,
                        const int64_t *dims, kd_tensor *out_tensor);

#endif /* KC_LAUNCH_H */
