/* device.h - opening and closing a plugin's devices. */
#ifndef KEEL_LOADER_DEVICE_H
#define KEEL_LOADER_DEVICE_H

#include "device/device.h"

/* keel_device.open: opens it if it is not open, or returns why it can't be used. */
keel_status keel_device_open(keel_device *device);

/* The same for a caller that holds device->opening, of a device that is not open. */
keel_status keel_device_open_locked(keel_device *device);

/* Gives its streams, its own events and the device back; its memory has gone before. */
void keel_device_leave(keel_device *device);

/* At the context's end: all of it. */
void keel_device_close(keel_device *device);

#endif /* KEEL_LOADER_DEVICE_H */
