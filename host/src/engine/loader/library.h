/* library.h - a plugin's library in this process, shared by all contexts.
 *
 * A library is mapped once, however many contexts load it, so its plugin is
 * opened by the first of them and closed by the last, and they share its open
 * devices. */
#ifndef KEEL_LIBRARY_H
#define KEEL_LIBRARY_H

#include "device/device.h"

/* A device's times while it was profiled, by its own clock. */
typedef struct keel_clock {
  /* ticks, and bytes copied: sums, relaxed; read when the work is done */
  _Atomic uint64_t kernels, copies;
  _Atomic uint64_t bytes;
  double tick;          /* nanoseconds; 0: there is no clock */
  uint64_t ticks, host; /* the same moment, on its clock and on keel_now's */
} keel_clock;

/* The most devices of a plugin. */
#define KEEL_DEVICES_MOST 4096u

struct keel_library {
  kd_host host; /* must be first: cast from kd_host */
  keel_library *next;
  uint64_t device_id, inode; /* of the file */
  const char *copy;          /* path of a copy to be mapped instead, or NULL */
  kd_instance *instance;     /* set from the first open to the last close */
  uint32_t holders;          /* plugins of contexts */
  uint32_t openers;          /* those of them that opened it */
  keel_plugin *speaker;      /* whose context's log it writes to */
  keel_arena arena;          /* set from the first open to the last close */
  const char *path, *name;
  const char **options; /* name, value ... */
  uint32_t option_count;
  struct {
    /* Stored with release when the device opens, because the plugin's threads look it
     * up. */
    kd_device *_Atomic handle;
    uint32_t holders;
    keel_clock clock;
    /* lost: it is reopened once all users have released it */
    bool lost;
  } * devices;
  uint32_t device_count;
  char said[256]; /* the last line that the plugin logged while it was opened */
  bool opening;
};

/* keel_context_params.step: what it returns, or NULL. */
const char *keel_plugin_step(const keel_plugin *plugin, const char *call);

/* Around calls into a plugin that nothing of libkeel may be called in which loads, opens or
 * closes: it would load the plugin again, or wait for this thread. */
void keel_plugin_enter(const keel_plugin *plugin);
void keel_plugin_leave(void);
/* KD_FAILED_PRECONDITION, with a sentence, where this thread is in such a call. */
keel_status keel_plugin_outside(const char *function);

/* Finds or creates the library of a plugin's file, and sets it in the plugin. */
keel_status keel_library_hold(keel_plugin *plugin);

/* Copies the file, so that it can be mapped apart from another host's mapping. The caller holds the
 * list's lock. */
keel_status keel_library_copy(keel_library *library);

/* Releases it; closes the plugin if no one else has it open. */
void keel_library_drop(keel_plugin *plugin);

/* Opens the plugin, if it is not open. Returns KD_ALREADY_EXISTS if another host in this
 * process has it open: the library then has a copy, to be mapped first. */
keel_status keel_library_open(keel_plugin *plugin);

/* Asks for a device's facts. */
keel_status keel_library_info(keel_plugin *plugin, uint32_t index,
                              kd_device_info *out_info);

/* Asks for a memory space's facts. */
keel_status keel_library_space(keel_plugin *plugin, uint32_t device,
                               uint32_t index, kd_space *out_space);

/* Asks for a property of a device. Returns KD_OK, KD_OUT_OF_RANGE, or what the plugin
 * returned, with a message. */
keel_status keel_library_property(const keel_plugin *plugin, uint32_t device,
                                  uint32_t index, keel_property *out_property);

/* Opens a device or shares it, and releases it. A lost device is not shared
 * (KD_FAILED_PRECONDITION). */
keel_status keel_library_device(keel_plugin *plugin, uint32_t index,
                                kd_device **out_device);
void keel_library_device_drop(keel_plugin *plugin, uint32_t index, bool lost);

/* Reads an open device's clock. */
keel_clock *keel_device_clock(const keel_device *device);

/* Writes a line to the log of a context that uses the library. */
void keel_library_log(const kd_host *host, uint32_t level, const char *format,
                      va_list args);

#endif /* KEEL_LIBRARY_H */
