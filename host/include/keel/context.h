/* keel/context.h - opening the runtime; its plugins, devices and kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_CONTEXT_H
#define KEEL_CONTEXT_H

#include <kd/plugin.h>
#include <keel/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open runtime: loaded plugins, open devices, one thread pool. A process may
 * have several. Any thread may call any function. */
typedef struct keel_context keel_context;

/* A device, named "cpu:0" or "acme:1". It lives as long as its context. */
typedef struct keel_device keel_device;

/* Only the plugins that `plugins` names are loaded. */
#define KEEL_ONLY_NAMED 0x1u
/* Plugins are found and described; a plugin is loaded only if its manifest is
 * not enough for that. Devices are not opened. */
#define KEEL_DESCRIBE 0x2u
/* keel_open succeeds even if a plugin that `plugins` or `options` name is refused: for
 * programs that report the outcome for each plugin (keel_plugin_at). */
#define KEEL_ALLOW_REFUSED 0x4u

/* How to open a runtime. Zero in any field but the first means its default. */
typedef struct keel_context_params {
  uint32_t struct_size; /* sizeof(keel_context_params) */
  uint32_t flags;       /* KEEL_ONLY_NAMED, KEEL_DESCRIBE, KEEL_ALLOW_REFUSED */

  /* Paths of plugins or of directories of plugins, searched first. Then come
   * KEEL_PLUGIN_PATH (paths separated by ':'), manifests in
   * $XDG_CONFIG_HOME/keel/plugins.d, /etc/keel/plugins.d and
   * /usr/share/keel/plugins.d, and the directory keel/ beside libkeel. */
  const char *const *plugins;
  uint32_t plugin_count;

  /* Threads that work for the context, in addition to the callers; contexts with
   * the same number share them. 0: one less than the process may use, or
   * KEEL_THREADS less one, as that variable counts the callers.
   * KEEL_NO_WORKERS: none; callers do all the work. KEEL_CALLERS_APART: one more
   * than for 0, for callers that wait elsewhere and so never help. */
  int32_t workers;

  /* The maximum bytes of tensors on all devices together, including memory that
   * the runtime's own ops use; 0: no limit but the machine's memory. */
  uint64_t memory_limit;

  /* Options of plugins, "plugin.name=value". A plugin that lists its options
   * (keel_plugin_option) is refused if it is given one that it does not have,
   * or an unsuitable value. */
  const char *const *options;
  uint32_t option_count;
  uint32_t reserved;

  /* Receives each log line; NULL: standard error. Any thread may call it.
   * `level` is KD_LOG_* of kd/host.h. The variable KEEL_LOG (error, warning,
   * info, debug) sets the lowest level that is logged; the default is
   * warning. */
  void (*log)(void *log_context, uint32_t level, const char *line);
  void *log_context;

  /* Which devices are visible, as entries separated by commas: "opencl" or
   * "vulkan:1" shows only those, "-opencl" or "-vulkan:1" all but those; the
   * last entry that names a device decides. Devices keep their names. A plugin
   * with no visible device is not opened. NULL or "": the variable
   * KEEL_VISIBLE_DEVICES; if that is not set, all.
   *
   * A plugin that the variable hides is not even loaded if its name is known before: from
   * its manifest, else from the file's name, acme.so. If the variable shows, or an option is
   * for, a name that no manifest and no loaded plugin has, the other files are loaded to
   * learn their names. */
  const char *visible;

  /* Entry functions of plugins that are linked into the application
   * (KD_ENTRY_AS of kd/plugin.h), for machines without shared libraries. They
   * come before all files. */
  const kd_entry *entries;
  uint32_t entry_count;
  uint32_t reserved_entries;

  /* Called before the runtime calls into a plugin to load, open, query or close
   * it and its devices, so that a program which does that in a child process can
   * tell which plugin ended the process or holds it up. `path` is the plugin's
   * file; `call` is "load" (the dynamic linker runs the library's constructors),
   * "unload", or the slot's name: "entry", "open", "device_count", "device_info",
   * "device_open" and so on. Before "load" it may return a reason to refuse the
   * plugin, which is copied; otherwise it returns NULL. Any thread may call it,
   * with locks held: it calls no function of Keel. NULL: nothing is called. */
  const char *(*step)(void *step_context, const char *path, const char *call);
  void *step_context;
} keel_context_params;

#define KEEL_NO_WORKERS    (-1)
#define KEEL_CALLERS_APART (-2)

/* Opens a runtime. Fails if a plugin that the caller names, as a file or by an option for
 * it, is refused. Other plugins that are refused do not make it fail (see
 * keel_plugin_info); if a variable names one, there is a warning.
 *
 * params  NULL: all defaults
 * Owns     the caller closes it.
 * Returns KD_OK, KD_INVALID_ARGUMENT (unknown flags, no struct_size, an option
 * without a value), KD_NOT_FOUND (no plugin for an option), the
 * status with which a named plugin is refused (the message says why),
 * KD_FAILED_PRECONDITION (called by a plugin while this libkeel loads, opens, queries or
 * closes it), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_open(const keel_context_params *params,
                               KD_OWNED keel_context **out_context);

/* Closes a runtime. All of its tensors, ops, programs and plans must have been
 * released, and no call may still be running. NULL does nothing. A process may end without
 * it: the runtime then calls no plugin any more. If a plugin calls it while this libkeel
 * loads, opens, queries or closes a plugin, the context stays open, with a line in the log. */
KEEL_API void keel_close(keel_context *context);

/* Keel's version, "0.1.0". */
KEEL_API const char *keel_version(void);

/* The outcome for one candidate plugin. */
typedef struct keel_plugin_info {
  const char *path;   /* of the library, or of a manifest without one */
  const char *source; /* where it was found: "application", "environment" ... */
  const char *name;   /* the plugin's, or NULL while it is not known */
  const char *vendor; /* or NULL */
  const char *version;  /* or NULL */
  uint32_t abi_version; /* it was built with; 0: not known */
  uint32_t device_count;
  /* KD_OK: loaded; or described, with KEEL_DESCRIBE; or hidden, and not loaded
   * (abi_version is 0 then) */
  keel_status status;
  const char *reason; /* of a refusal, or a note; "" if there is none */
  const char *hint;   /* what to do about it; "" if nothing */
} keel_plugin_info;

/* The number of candidates, and each of them, in the order found. The strings
 * live as long as the context. Returns KD_OK, KD_OUT_OF_RANGE. */
KEEL_API uint32_t keel_plugin_count(const keel_context *context);
KEEL_API keel_status keel_plugin_at(const keel_context *context, uint32_t index,
                                    keel_plugin_info *out_info);

/* An option of a plugin. It is set as "plugin.name=value" in
 * keel_context_params, in the plugin's manifest, or by the variable
 * KEEL_<PLUGIN>_<NAME>. */
typedef struct keel_option_facts {
  const char *name;
  uint32_t type;             /* KD_OPTION_* of kd/option.h */
  const char *choices;       /* the possible values, "auto|on|off"; or NULL */
  const char *default_value; /* used if none is given, or NULL */
  const char *doc;           /* one sentence, or "" */
} keel_option_facts;

/* One option, by its index, of the plugin with index `plugin`, even of one that
 * was refused because of an option. The strings live as long as the context.
 * Returns KD_OK, KD_OUT_OF_RANGE (no such plugin, or past its last option),
 * KD_UNIMPLEMENTED (the plugin was not loaded, or does not list its
 * options). */
KEEL_API keel_status keel_plugin_option(const keel_context *context,
                                        uint32_t plugin, uint32_t index,
                                        keel_option_facts *out_facts);

/* Shows devices that `visible` hid when the context was opened, and opens their
 * drivers: an application that knows which device it wants opens that plugin
 * alone, and the others when it needs them. They follow the devices that are
 * visible already, which stay. A plugin that KEEL_VISIBLE_DEVICES kept from being
 * loaded is not loaded now. Any thread, at any time; calls that other threads
 * have begun do not see the new devices.
 *
 * visible  as in keel_context_params
 * Returns KD_OK, also where a plugin cannot be opened, as keel_open does;
 * KD_INVALID_ARGUMENT, KD_FAILED_PRECONDITION (KEEL_DESCRIBE),
 * KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_show(keel_context *context, const char *visible);

/* Devices, in a stable order: by plugin as found, then in the plugin's order;
 * devices that keel_show has shown follow them. NULL past the last. */
KEEL_API uint32_t keel_device_count(const keel_context *context);
KEEL_API keel_device *keel_device_at(const keel_context *context,
                                     uint32_t index);

/* A device by name; "cpu" means "cpu:0", and NULL or "" the default device.
 * Returns KD_OK, KD_NOT_FOUND (the message lists the devices). */
KEEL_API keel_status keel_device_find(keel_context *context, const char *name,
                                      keel_device **out_device);

/* The default device: the one that the variable KEEL_DEVICE names, else cpu:0,
 * else the first. NULL if there is no device. */
KEEL_API keel_device *keel_device_default(const keel_context *context);

/* Facts of a device; see kd_device_info for what each means. */
typedef struct keel_device_facts {
  const char *name;    /* "cpu:0" */
  const char *product; /* "AMD EPYC" */
  const char *kind;    /* "cpu" */
  const char *driver;  /* or "" */
  const char *plugin;  /* path of its library */
  uint32_t level;      /* of the ABI: 0 core, 1 async, 2 replay, 3 compile */
  uint32_t flags;      /* KD_DEVICE_* */
  uint32_t compute_units;
  uint32_t kernel_count;
  uint64_t memory; /* bytes of the first space; 0: not known */
  uint8_t uuid[16];
  const char *same_as; /* an earlier device that is the same hardware through
                          another plugin (by uuid or PCI address), or NULL */
} keel_device_facts;

KEEL_API void keel_device_describe(const keel_device *device,
                                   keel_device_facts *out_facts);

/* 1 if the device has a compiler of its own, which makes regions of parts of programs. */
KEEL_API int keel_device_compiles(const keel_device *device);

/* A property of a device, for people and their tools. kd/property.h lists the
 * names that mean the same everywhere, with their units. */
typedef struct keel_property {
  char name[64];
  char unit[16];  /* "Hz", "bytes", or "" */
  uint32_t type;  /* KD_PROPERTY_*; says which of these is its value */
  uint32_t flags; /* KD_PROPERTY_CHANGES: it changes over time */
  int64_t integer;
  double real;
  char text[256];
} keel_property;

/* A property by its index. First come those of kd_device_info that the plugin
 * filled (driver, compute_units, memory, peak_flops_f32, bandwidth, pci,
 * numa_node), then the plugin's own, in a fixed order. Does not open the
 * device. Any thread, except in a callback of the runtime.
 * Returns KD_OK, KD_OUT_OF_RANGE (past the last), or the plugin's failure. */
KEEL_API keel_status keel_device_property(const keel_device *device,
                                          uint32_t index,
                                          keel_property *out_property);

/* The property with a given name. Returns as keel_device_property does, but
 * KD_NOT_FOUND if the device has none of that name. */
KEEL_API keel_status keel_device_find_property(const keel_device *device,
                                               const char *name,
                                               keel_property *out_property);

/* Memory usage of a device, in the space where tensors live. */
typedef struct keel_memory_facts {
  uint64_t total;     /* bytes; 0: not known */
  uint64_t available; /* bytes still available; 0: not known */
  uint64_t used;      /* bytes that this process has allocated */
  uint64_t buffers;   /* allocations; 0: not known */
} keel_memory_facts;

/* Reports the memory usage of a device, which is opened if it is not open yet.
 * If the plugin cannot report it, the figures are of this context's allocations
 * there. Any thread.
 * Returns KD_OK, or why it cannot be opened. */
KEEL_API keel_status keel_device_memory(keel_device *device,
                                        keel_memory_facts *out_facts);

/* A vendor's own table of the device's plugin, by name ("x.acme.power/1"); NULL
 * if the plugin has none of that name. The vendor's header defines the table;
 * its functions may take the handle that keel_device_handle returns. */
KEEL_API const void *keel_device_extension(const keel_device *device,
                                           const char *name);

/* The plugin's own handle of a device, for functions of an extension. The
 * device is opened if it is not open yet. Valid until the context is closed or
 * the device is opened again.
 * Returns KD_OK, or why it cannot be opened. */
KEEL_API keel_status keel_device_handle(keel_device *device,
                                        kd_device **out_handle);

/* One kernel definition of a device. */
typedef struct keel_kernel_facts {
  const char *domain; /* "ai.onnx" */
  const char *op;
  uint32_t opset_min, opset_max; /* UINT32_MAX: no bound */
  uint64_t input_types[8];       /* sets of KD_TYPES */
} keel_kernel_facts;

/* Returns KD_OK, KD_OUT_OF_RANGE. */
KEEL_API keel_status keel_device_kernel(const keel_device *device,
                                        uint32_t index,
                                        keel_kernel_facts *out_facts);

/* Ops that the runtime itself runs on every device (views of data, control
 * flow, sequences): a name by index, or NULL past the last. */
KEEL_API const char *keel_runtime_op(uint32_t index);

/* Whether a device works, as far as the runtime knows: it learns of a loss when
 * a call fails. Returns KD_OK, KD_DEVICE_LOST (with the plugin's message). */
KEEL_API keel_status keel_device_status(keel_device *device);

/* Opens a lost device again; leaves one that works as it is.
 *
 * When a device is lost (unplugged, reset, hung), its work fails with
 * KD_DEVICE_LOST, and so does all work that is started on it from then on.
 * Other devices, and runs that do not need it, go on. Nothing moves to another
 * device by itself. Its memory is gone: values on it can no longer be read.
 * Before the call, release them and the plans that use the device; afterwards,
 * make new plans from their programs. Prepared ops stay and work again: their
 * kernels are created again as needed.
 *
 * Any thread may call it, but not from a callback of the runtime. It waits for
 * calls on the device that are under way, which fail. If the call fails, the
 * device stays lost, and the call may be repeated.
 * Returns KD_OK, KD_FAILED_PRECONDITION (values or plans are left: the message
 * has their number; or another context of the process still has the device), or
 * why the device cannot be opened (KD_UNAVAILABLE: not back yet, or gone for
 * good). */
KEEL_API keel_status keel_device_reopen(keel_device *device);

/* The calling thread's device scopes: ops without a device of their own run on
 * the innermost one. A pop without a push does nothing. Returns KD_OK,
 * KD_OUT_OF_RANGE (more than 32 deep). */
KEEL_API keel_status keel_device_push(keel_device *device);
KEEL_API void keel_device_pop(void);

/* Memory and kernels that the runtime holds at present. */
typedef struct keel_stats {
  uint64_t tensor_bytes; /* in live tensors */
  uint64_t peak_bytes;   /* the largest value of tensor_bytes so far */
  uint64_t pooled_bytes; /* kept for reuse */
  uint64_t kernels;      /* kernel instances in the cache */
  uint64_t type_bytes;   /* of the element types and shapes that the process, in
                          * any context, has met: about 100 each, which stay */
} keel_stats;

KEEL_API void keel_get_stats(const keel_context *context,
                             keel_stats *out_stats);

/* Gives back memory that is kept for reuse: the pools of the host and of all devices, and
 * the memory that plugins and the C library keep. Values, programs and plans stay as they are; of memory
 * that threads keep for small values (up to 64 KiB each), only the calling thread's goes. Best once
 * a large model has been released. Waits for the devices' work. Any thread, but not a callback. */
KEEL_API void keel_trim(keel_context *context);

/* The number of threads that share work: the pool's and the caller. */
KEEL_API uint32_t keel_worker_count(const keel_context *context);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_CONTEXT_H */
