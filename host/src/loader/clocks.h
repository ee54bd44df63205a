/* clocks.h - the clocks of devices, while a profile or a trace wants them. */
#ifndef KEEL_CLOCKS_H
#define KEEL_CLOCKS_H

#include "device/device.h"

/* Starts a device's records for the first who asks, or when it is opened; nothing where
 * it has no clock. Each call wants a keel_clock_leave. */
void keel_clock_join(keel_device *device);
void keel_clock_leave(keel_device *device);

/* For who opens and closes the device, with `opening` held. */
void keel_clock_opened(keel_device *device);
void keel_clock_closes(keel_device *device);

#endif /* KEEL_CLOCKS_H */
