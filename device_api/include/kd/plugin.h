/* kd/plugin.h - the table that a plugin exports.
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
#include <kd/native.h>
#include <kd/op.h>
#include <kd/option.h>
#include <kd/profile.h>
#include <kd/property.h>
#include <kd/region.h>
#include <kd/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of kd_plugin. The host closes devices and unloads a library only on
 * request; an ordinary process exit does neither, and must still succeed. */
#define KD_PLUGIN_UNLOADABLE 0x1u /* dlclose after `close` is safe */

/* How a plugin behaves in a process that it shares with other code.
 *
 * A call that fails says why through host->fail. A plugin prints nothing: it
 * logs through host->log. It never ends the process, and lets no C++ exception
 * escape. */
/* It changes no state of the process: signal handlers and masks, environment,
 * locale, working directory, umask, resource limits. */
/* It leaves the floating-point control word unchanged. */
/* It leaves the calling thread's affinity, priority and cancellation state
 * unchanged. */
/* It works under any file name and from any directory. It needs no environment
 * variable and no writable home directory. It writes files only through
 * host->cache_put. It opens no socket. It starts no other process. Several
 * copies of a plugin may be loaded in one process. It should export nothing but
 * its entry function. */
/* It uses no processor time while it has nothing to do. Its threads have ended
 * when `close` returns. A forked child process can exit normally. */

/* A plugin: const, valid while the library is loaded. The host copies this
 * table and those it points to into full-size tables of its own at load, so a
 * plugin never changes them. Required are the three strings, `memory`, and all
 * slots up to device_close except `space`; the rest may be NULL.
 *
 * The calls come in this order: entry, open, device_count, device_info,
 * device_open ... device_close, close. For one instance the host makes them one
 * at a time. After `close` the plugin no longer calls that host, and may be
 * opened again. */
typedef struct kd_plugin {
  uint32_t struct_size; /* sizeof(kd_plugin) as the plugin knew it */
  uint32_t abi_version; /* KD_ABI_VERSION it was built with */
  uint32_t abi_min;     /* lowest host version it works with; 0: any of MAJOR */
  uint32_t flags;       /* KD_PLUGIN_* */

  const char *name;    /* [a-z][a-z0-9_-]{0,31}; devices are name:0, name:1 */
  const char *vendor;  /* whom to contact: "Acme Corp" */
  const char *version; /* of the plugin: "1.4.2" */

  /* Opens an instance for one host, and starts the driver. A process may
   * contain several hosts (two wheels, each with a libkeel of its own); each
   * opens its own instance, independent of the others: an instance calls only
   * its own host, and its `close` does not affect other instances. A plugin that
   * cannot do so allows one instance at a time, and the host then loads a copy
   * of its file.
   *
   * out_instance  not NULL on KD_OK
   * Returns KD_OK, also if there is no device (device_count then returns 0, and
   * host->log says why), KD_UNAVAILABLE (driver missing or broken; host->fail
   * says why), KD_INCOMPATIBLE, KD_ALREADY_EXISTS (another host has it
   * open). */
  kd_status (*open)(const kd_host *host, KD_OWNED kd_instance **out_instance);

  /* Closes an instance: frees its memory, ends its threads, and shuts the
   * driver down unless another instance uses it. */
  void (*close)(kd_instance *instance);

  /* Returns how many devices there are. Their number and order stay the same
   * from `open` to `close`. */
  uint32_t (*device_count)(kd_instance *instance);

  /* Describes a device without opening it. Returns KD_OK, KD_OUT_OF_RANGE,
   * KD_UNAVAILABLE. */
  kd_status (*device_info)(kd_instance *instance, uint32_t index,
                           kd_device_info *out_info);

  /* Describes a memory space of a device; `index` is less than
   * kd_device_info.space_count. May be NULL if no device has any. Returns the
   * same statuses as device_info. */
  kd_status (*space)(kd_instance *instance, uint32_t device, uint32_t index,
                     kd_space *out_space);

  /* Opens a device; the host does so once before it uses it. Devices are
   * independent: the work of one has no effect on another.
   * Returns KD_OK, KD_OUT_OF_RANGE, KD_UNAVAILABLE (in use, or lost and not
   * back yet), KD_OUT_OF_MEMORY. */
  kd_status (*device_open)(kd_instance *instance, uint32_t index,
                           KD_OWNED kd_device **out_device);

  /* Closes a device whose streams, buffers and kernels have been destroyed. */
  void (*device_close)(kd_device *device);

  const kd_memory_table *memory;
  const kd_kernel_def *kernels; /* an array of kernel_count definitions */
  uint32_t kernel_count;
  uint32_t opset; /* KD_OPSET it was built with; 0: 28, the first */

  const kd_stream_table *streams; /* level async: both or neither */
  const kd_event_table *events;
  const kd_capture_table *capture; /* level replay */
  const kd_region_table *regions;  /* level compile */

  const kd_profile_table *profile; /* options */
  const kd_peer_table *peer;
  const kd_collective_table *collectives;
  const kd_external_table *external;

  /* Announces a run of a program on the device. Any thread may call it.
   * `correlation` identifies the program's plan. May be NULL. The host flushes
   * the stream at the end of a run, so a plugin may hold work back until
   * then. */
  void (*run_begin)(kd_device *device, uint64_t correlation);

  /* Whether an open device still works. Cheap: the host asks after every failed
   * call and all failed work on the device, from any thread. It trusts this
   * answer rather than the failure's status, which may come from another
   * device's work.
   *
   * A lost device stays lost until it is closed. Every call on it that can fail
   * returns KD_DEVICE_LOST and says why. Its incomplete events fail with that
   * status: callbacks are called and waits return, promptly, but only once the
   * device no longer accesses memory. Calls that free something (release, destroy,
   * device_close) work as before and return promptly; the host still waits for
   * a stream before it makes them. After device_close, device_open may be
   * called again.
   * Returns KD_OK, KD_DEVICE_LOST. NULL: always KD_OK; the host then treats no
   * failure as a loss. */
  kd_status (*device_status)(kd_device *device);

  /* A table by name, or NULL where the plugin has none of that name. The name contains its
   * owner, so that no registry is needed: a vendor's own is "x.acme.power/1", those of this
   * ABI begin with "kd." (KD_NATIVE). Any thread. The slot may be NULL. */
  const void *(*extension)(kd_instance *instance, const char *name);

  const kd_op_def *ops; /* an array of op_count ops of the plugin's own */
  uint32_t op_count;
  uint32_t reserved;

  /* The plugin's options: an array of option_count definitions, stepped by the
   * first one's struct_size. It lists every option that the plugin ever reads
   * through kd_host.option. Before `open`, the host refuses the plugin if the
   * application or the manifest sets an option that is not listed, or if any
   * value, wherever it comes from, is not of the option's type and choices.
   * NULL: the options are not known, and the host passes on all that are set.
   * Not NULL, and option_count 0: there are none. */
  const kd_option_def *options;
  uint32_t option_count;
  uint32_t reserved_options;

  /* Returns one further property of a device, by index. The device need not be
   * open. The list of properties and its order stay the same from `open` to
   * `close`. The host calls it and device_info one at a time. May take
   * milliseconds: it serves people, not runs. NULL: there are none.
   * Returns KD_OK, KD_OUT_OF_RANGE (no such device, or past its last property;
   * there are at most 1000). */
  kd_status (*property)(kd_instance *instance, uint32_t device, uint32_t index,
                        kd_property *out_property);

  const kd_layout_table *layouts; /* option: the plugin's own layouts */
} kd_plugin;

/* The entry function's type and name. The host looks up the name, which
 * contains the ABI's major number, so that one library may serve several
 * majors. The function does nothing but return the table: no driver call, no
 * thread, no allocation. To refuse this host it returns NULL, and says why
 * through host->fail. */
typedef const kd_plugin *(*kd_entry)(const kd_host *host);

#define KD_ENTRY_SYMBOL "kd_entry_0"

#ifdef __cplusplus
#define KD_ENTRY_LINKAGE extern "C"
#else
#define KD_ENTRY_LINKAGE
#endif

/* Defines an entry function under another name, for a plugin that is linked
 * into an application, which passes the function to the host. Under one name,
 * several plugins would clash. */
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
