/* device.h - opening and closing a plugin's devices. */
#ifndef KEEL_LOADER_DEVICE_H
#define KEEL_LOADER_DEVICE_H

#include "device/device.h"

/* keel_device.open: opens it where nobody did, or says why it can't be used. */
keel_status keel_device_open(keel_device *device);

/* The same for who holds device->opening, of one that is not open. */
keel_status keel_device_open_locked(keel_device *device);

/* Gives its streams, its own events and the device back; its memory has gone before. */
void keel_device_leave(keel_device *device);

/* At the context's end: all of it. */
void keel_device_close(keel_device *device);

#endif /* KEEL_LOADER_DEVICE_H */
