/* clocks.h - devices' clocks, while a profile or a trace uses them. */
#ifndef KEEL_CLOCKS_H
#define KEEL_CLOCKS_H

#include "device/device.h"

/* Starts a device's profile records for the first user, or when the device is opened; does
 * nothing if it has no clock. Each call needs a keel_clock_leave. */
void keel_clock_join(keel_device *device);
void keel_clock_leave(keel_device *device);

/* For opening and closing the device, with `opening` held. */
void keel_clock_opened(keel_device *device);
void keel_clock_closes(keel_device *device);

#endif /* KEEL_CLOCKS_H */
