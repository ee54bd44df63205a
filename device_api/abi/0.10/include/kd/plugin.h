/* kd/plugin.h - the one thing that a plugin exports.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_PLUGIN_H
#define KD_PLUGIN_H

#include <kd/capture.h>
#include <kd/collective.h>
#include <kd/device.h>
#include <kd/host.h>
#include <kd/kernel.h>
#include <kd/layout.h>
#include <kd/memory.h>
#include <kd/op.h>
#include <kd/option.h>
#include <kd/profile.h>
#include <kd/property.h>
#include <kd/region.h>
#include <kd/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The plugin's devices must not be closed and the library not unloaded when
 * the process ends in the ordinary way; the host does so only on request. */
#define KD_PLUGIN_UNLOADABLE 0x1u /* dlclose after `close` is safe */

/* The manners of a plugin, which share a process with much else.
 *
 * A call that fails says why by host->fail. It prints nothing: host->log is for
 * that. It never ends the process, and lets no C++ exception out. */
/* It changes nothing of the process: signal handlers and masks, environment,
 * locale, working directory, umask, resource limits. */
/* It leaves the floating-point control word as it was. */
/* It leaves the calling thread as it was: affinity, priority, cancel state. */
/* It works under any file name and from any folder. It needs no environment
 * variable and no writable home. It writes no file but through host->cache_put.
 * It opens no socket. It starts no other process. Several copies of a plugin may
 * be loaded in one process. It should export nothing else than its entry. */
/* It uses no processor time when there is nothing to do. Its threads have ended
 * when close returns. A process that forks may end its child. */

/* A plugin: const, valid while the library is loaded. The host copies it and
 * the tables that it points to into full-size tables of its own at load, so a
 * plugin never changes them. All slots up to device_close but `space`, `memory` and
 * `kernels` are needed; the rest may be NULL.
 *
 * The order of life: entry, open, device_count, device_info, device_open ...
 * device_close, close. The host serialises all of these for one instance. After
 * `close` the plugin calls that host no more, and may be opened again. */
typedef struct kd_plugin {
  uint32_t struct_size; /* sizeof(kd_plugin) as the plugin knew it */
  uint32_t abi_version; /* KD_ABI_VERSION that it was built with */
  uint32_t abi_min;     /* lowest host version it works with; 0: any of MAJOR */
  uint32_t flags;       /* KD_PLUGIN_ */

  const char *name;    /* [a-z][a-z0-9_-]{0,31}; devices are name:0, name:1 */
  const char *vendor;  /* who to ask: "Acme Corp" */
  const char *version; /* of the plugin: "1.4.2" */

  /* Starts the driver for one host. A process may have several (two wheels,
   * each with a libkeel of its own), and each opens an instance, which knows
   * nothing of the others: it calls its own host, and `close` ends nothing that
   * is theirs. A plugin that can't do so takes one at a time, and the host then
   * loads a copy of its file.
   *
   * out_instance  not NULL
   * Returns KD_OK also where there is no device (then device_count gives 0,
   * and host->log says why), KD_UNAVAILABLE (driver missing or broken, with the
   * reason by host->fail), KD_INCOMPATIBLE, KD_ALREADY_EXISTS (another host has
   * it open). */
  kd_status (*open)(const kd_host *host, KD_OWNED kd_instance **out_instance);

  /* Ends what `open` began: memory, threads and the driver's own state. */
  void (*close)(kd_instance *instance);

  /* How many devices there are; fixed from `open` to `close`, as is their
   * order. */
  uint32_t (*device_count)(kd_instance *instance);

  /* Facts of a device, without opening it. Returns KD_OK, KD_OUT_OF_RANGE,
   * KD_UNAVAILABLE. */
  kd_status (*device_info)(kd_instance *instance, uint32_t index,
                           kd_device_info *out_info);

  /* Facts of a memory space of a device: `index` is less than
   * kd_device_info.space_count. NULL where no device has any.
   * Returns as device_info. */
  kd_status (*space)(kd_instance *instance, uint32_t device, uint32_t index,
                     kd_space *out_space);

  /* Opens a device; the host does so once before it uses it. Devices are apart:
   * what one device does is seen on no other.
   * Returns KD_OK, KD_UNAVAILABLE (in use, or lost and not back),
   * KD_OUT_OF_MEMORY. */
  kd_status (*device_open)(kd_instance *instance, uint32_t index,
                           KD_OWNED kd_device **out_device);

  /* Closes a device whose streams, buffers and kernels are gone. */
  void (*device_close)(kd_device *device);

  const kd_memory_table *memory;
  const kd_kernel_def *kernels; /* an array of kernel_count definitions */
  uint32_t kernel_count;
  uint32_t opset; /* KD_OPSET that it was built with; 0: 28, the first one */

  const kd_stream_table *streams; /* level async: both or neither */
  const kd_event_table *events;
  const kd_capture_table *capture; /* level replay */
  const kd_region_table *regions;  /* level compile */

  const kd_profile_table *profile; /* options */
  const kd_peer_table *peer;
  const kd_collective_table *collectives;
  const kd_external_table *external;

  /* Says that a run of a program on the device begins. Any thread. `correlation`
   * names the program's plan. May be NULL. What a plugin holds back for batching
   * goes to the device when the host flushes the stream, as it does at the end of
   * a run. */
  void (*run_begin)(kd_device *device, uint64_t correlation);

  /* Whether an open device still works. Cheap: the host asks after each failure
   * of a call or of work on the device, from any thread, and believes this
   * rather than the failure, which may be that of another device's work.
   *
   * A lost device stays lost until it is closed. Every call on it that can fail
   * returns KD_DEVICE_LOST and says why. Its events that are not done fail with
   * that status, callbacks come, and whoever waits returns promptly, when the
   * device touches no memory any more. What frees something (release, destroy,
   * device_close) works as before, and returns promptly; the host waits for a
   * stream before that, as ever. Then device_open may be called again.
   * Returns KD_OK, KD_DEVICE_LOST. NULL: always KD_OK; the host takes no failure
   * for a loss. */
  kd_status (*device_status)(kd_device *device);

  /* A vendor's own table by name ("x.acme.power/1"), or NULL. The name says
   * who defined it, so that no registry is needed. May be NULL. */
  const void *(*extension)(kd_instance *instance, const char *name);

  const kd_op_def *ops; /* an array of op_count ops that the plugin brings */
  uint32_t op_count;
  uint32_t reserved;

  /* The options, all that the plugin ever asks kd_host.option for: an array of
   * option_count definitions, stepped by the first one's struct_size. The host
   * lists them. It refuses the plugin before `open` where the application or
   * the manifest gives one that is not listed, or anybody a value that is not
   * of its type or choices.
   * NULL: nothing is known of them, and the host passes on whatever it has; not
   * NULL, and option_count 0: there are none. */
  const kd_option_def *options;
  uint32_t option_count;
  uint32_t reserved_options;

  /* What more is known of a device, one property by its index, without opening
   * the device; it may be open. Which there are, and their order, stays from
   * `open` to `close`. The host serialises it with device_info. May take
   * milliseconds, as it is asked for people. NULL: nothing.
   * Returns KD_OK, KD_OUT_OF_RANGE (no such device, or past its last property;
   * there are at most 1000). */
  kd_status (*property)(kd_instance *instance, uint32_t device, uint32_t index,
                        kd_property *out_property);

  const kd_layout_table *layouts; /* option: layouts of its own */
} kd_plugin;

/* The entry function's type and name. The host looks the name up; it carries
 * the ABI's major number, so a plugin may serve several majors. The function
 * does nothing but return the table: no driver call, no thread, no allocation.
 * NULL refuses this host; host->fail says why. */
typedef const kd_plugin *(*kd_entry)(const kd_host *host);

#define KD_ENTRY_SYMBOL "kd_entry_0"

#ifdef __cplusplus
#define KD_ENTRY_LINKAGE extern "C"
#else
#define KD_ENTRY_LINKAGE
#endif

/* Defines an entry function of another name, for plugins that are linked into an
 * application, which hands it to the host (several would clash by one name). */
#define KD_ENTRY_AS(function, plugin)                                        \
  KD_ENTRY_LINKAGE const kd_plugin *function(const kd_host *host_of_entry);  \
  KD_ENTRY_LINKAGE const kd_plugin *function(const kd_host *host_of_entry) { \
    (void)host_of_entry;                                                     \
    return &(plugin);                                                        \
  }

/* Defines the entry function: one line at the end of a plugin. */
#define KD_ENTRY(plugin)                                  \
  KD_ENTRY_LINKAGE KD_EXPORT const kd_plugin *kd_entry_0( \
      const kd_host *host_of_entry);                      \
  KD_ENTRY_LINKAGE KD_EXPORT const kd_plugin *kd_entry_0( \
      const kd_host *host_of_entry) {                     \
    (void)host_of_entry;                                  \
    return &(plugin);                                     \
  }

#ifdef __cplusplus
}
#endif
#endif /* KD_PLUGIN_H */
