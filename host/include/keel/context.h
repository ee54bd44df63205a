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
 * have several. All functions may be called from any thread. */
typedef struct keel_context keel_context;

/* One accelerator, named "cpu:0", "acme:1"; lives as long as its context. */
typedef struct keel_device keel_device;

/* Only the plugins that `plugins` names are loaded. */
#define KEEL_ONLY_NAMED 0x1u
/* Plugins are found and described, and nothing is loaded where a manifest says
 * enough. Devices are not opened. */
#define KEEL_DESCRIBE 0x2u

/* How to open a runtime; zero is the default of each field. */
typedef struct keel_context_params {
  uint32_t struct_size; /* sizeof(keel_context_params) */
  uint32_t flags;       /* KEEL_ONLY_NAMED, KEEL_DESCRIBE */

  /* Paths of plugins or of folders of plugins, looked at first. Then come
   * KEEL_PLUGIN_PATH (paths with ':' between), manifests in
   * $XDG_CONFIG_HOME/keel/plugins.d, /etc/keel/plugins.d and
   * /usr/share/keel/plugins.d, and the folder keel/ beside libkeel. */
  const char *const *plugins;
  uint32_t plugin_count;

  /* Threads of the pool beside the callers: 0 means one less than the process
   * may use, KEEL_NO_WORKERS means none (callers do all work). The variable
   * KEEL_THREADS (callers included) sets what 0 means. */
  int32_t workers;

  /* Most bytes that tensors may take, over all devices; 0: no limit but the
   * machine's memory. */
  uint64_t memory_limit;

  /* Options of plugins, "plugin.name=value". A plugin that lists its options
   * (keel_plugin_option) is refused where it is given one that it doesn't have, or
   * a value that doesn't fit. */
  const char *const *options;
  uint32_t option_count;
  uint32_t reserved;

  /* Gets each log line; NULL: standard error. level is KD_LOG_* of
   * kd/host.h; KEEL_LOG (error, warning, info, debug) sets the lowest that
   * is written, warning at first. May be called by any thread. */
  void (*log)(void *log_context, uint32_t level, const char *line);
  void *log_context;

  /* Which devices there are: entries with commas between, "opencl" or "vulkan:1"
   * to show those alone, "-opencl" or "-vulkan:1" to show all but those; the last
   * that names a device decides. Devices keep their names; a plugin of which
   * nothing is shown is not opened. NULL or "": the variable KEEL_VISIBLE_DEVICES
   * says; without it, all. */
  const char *visible;

  /* Entry functions of plugins that are linked into the application (KD_ENTRY_AS of
   * kd/plugin.h), for machines without shared libraries: looked at before all
   * files. */
  const kd_entry *entries;
  uint32_t entry_count;
  uint32_t reserved_entries;
} keel_context_params;

#define KEEL_NO_WORKERS (-1)

/* Opens a runtime. A bad plugin never stops it: see keel_plugin_info.
 *
 * params  NULL: all defaults
 * Owns     the caller closes it.
 * Returns KD_OK, KD_INVALID_ARGUMENT, KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_open(const keel_context_params *params,
                               KD_OWNED keel_context **out_context);

/* Closes it: every tensor, op and program of it must be released before, and no
 * call may still run. NULL does nothing. */
KEEL_API void keel_close(keel_context *context);

/* Keel's version, "0.1.0". */
KEEL_API const char *keel_version(void);

/* What became of one candidate for a plugin. */
typedef struct keel_plugin_info {
  const char *path;   /* of the library, or of the manifest that names none */
  const char *source; /* where it was found: "application", "environment" ... */
  const char *name;   /* the plugin's, or NULL while it is not known */
  const char *vendor; /* or NULL */
  const char *version;  /* or NULL */
  uint32_t abi_version; /* that it was built with; 0: not known */
  uint32_t device_count;
  keel_status status; /* KD_OK: loaded (or described, with KEEL_DESCRIBE) */
  const char *reason; /* why not, or a note; "" where there is none */
  const char *hint;   /* what to do about it; "" where there is nothing */
} keel_plugin_info;

/* How many candidates there were, and each of them, in the order found. The
 * strings live as long as the context. Returns KD_OK, KD_OUT_OF_RANGE. */
KEEL_API uint32_t keel_plugin_count(const keel_context *context);
KEEL_API keel_status keel_plugin_at(const keel_context *context, uint32_t index,
                                    keel_plugin_info *out_info);

/* An option of a plugin, which its devices may depend on: given as
 * "plugin.name=value" in keel_context_params, in its manifest, or by the variable
 * KEEL_<PLUGIN>_<NAME>. */
typedef struct keel_option_facts {
  const char *name;
  uint32_t type;             /* KD_OPTION_* of kd/option.h */
  const char *choices;       /* the values there are, "auto|on|off"; or NULL */
  const char *default_value; /* what holds where nobody gives one, or NULL */
  const char *doc;           /* one sentence, or "" */
} keel_option_facts;

/* An option by its index, of the plugin by its own; also of one that was refused for an
 * option. The strings live as long as the context.
 * Returns KD_OK, KD_OUT_OF_RANGE (no such plugin, or past its last option),
 * KD_UNIMPLEMENTED (the plugin was not loaded, or doesn't say what options it has). */
KEEL_API keel_status keel_plugin_option(const keel_context *context,
                                        uint32_t plugin, uint32_t index,
                                        keel_option_facts *out_facts);

/* Devices, in a stable order: by plugin as found, then by the plugin's. */
KEEL_API uint32_t keel_device_count(const keel_context *context);
KEEL_API keel_device *keel_device_at(const keel_context *context,
                                     uint32_t index);

/* A device by name; "cpu" means "cpu:0", NULL or "" the default device.
 * Returns KD_OK, KD_NOT_FOUND (the message lists those there are). */
KEEL_API keel_status keel_device_find(keel_context *context, const char *name,
                                      keel_device **out_device);

/* The device that is used where nothing else is said: KEEL_DEVICE, or cpu:0, or
 * the first one; NULL where there is no device. */
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
  const char *same_as; /* an earlier device that is the same silicon through
                          another plugin (by uuid or PCI address), or NULL */
} keel_device_facts;

KEEL_API void keel_device_describe(const keel_device *device,
                                   keel_device_facts *out_facts);

/* Something that is known of a device, for people and their tools: kd/property.h has the
 * names that mean the same everywhere, with their units. */
typedef struct keel_property {
  char name[64];
  char unit[16];  /* "Hz", "bytes", or "" */
  uint32_t type;  /* KD_PROPERTY_*; says which of these is its value */
  uint32_t flags; /* KD_PROPERTY_CHANGES: it is of the moment */
  int64_t integer;
  double real;
  char text[256];
} keel_property;

/* A property by its index. The first are those that kd_device_info has and the plugin
 * filled (driver, compute_units, memory, peak_flops_f32, bandwidth, pci, numa_node), then
 * come the plugin's own, in an order that stays. Doesn't open the device. Any thread, but
 * not from a callback of the runtime.
 * Returns KD_OK, KD_OUT_OF_RANGE (past the last), or why the plugin can't say. */
KEEL_API keel_status keel_device_property(const keel_device *device,
                                          uint32_t index,
                                          keel_property *out_property);

/* The property of a name. Returns as keel_device_property, but KD_NOT_FOUND where the
 * device has none of that name. */
KEEL_API keel_status keel_device_find_property(const keel_device *device,
                                               const char *name,
                                               keel_property *out_property);

/* What a device's memory is doing: the space where tensors live. */
typedef struct keel_memory_facts {
  uint64_t total;     /* bytes, 0: not known */
  uint64_t available; /* bytes that may still be had, 0: not known */
  uint64_t used;      /* bytes that this process has allocated */
  uint64_t buffers;   /* how many pieces those are; 0: not known */
} keel_memory_facts;

/* Asks a device, and opens it where nobody did yet. A device that can't say is answered
 * for by what this context has allocated on it. Any thread.
 * Returns KD_OK, or why it can't be opened. */
KEEL_API keel_status keel_device_memory(keel_device *device,
                                        keel_memory_facts *out_facts);

/* A vendor's own table by name ("x.acme.power/1"), of the device's plugin, or NULL: the
 * plugin has none of that name. What it is the vendor's header says; the functions in it
 * take what the vendor says, as keel_device_handle gives it. */
KEEL_API const void *keel_device_extension(const keel_device *device,
                                           const char *name);

/* The plugin's own handle of a device, for functions of an extension; opens it where nobody
 * did yet. Valid until the context is closed or the device opened again.
 * Returns KD_OK, or why it can't be opened. */
KEEL_API keel_status keel_device_handle(keel_device *device,
                                        kd_device **out_handle);

/* One kernel definition of a device. */
typedef struct keel_kernel_facts {
  const char *domain; /* "ai.onnx" */
  const char *op;
  uint32_t opset_min, opset_max; /* UINT32_MAX: no bound */
  uint64_t input_types[8];       /* sets of KD_TYPES, of what the op allows */
} keel_kernel_facts;

/* Returns KD_OK, KD_OUT_OF_RANGE. */
KEEL_API keel_status keel_device_kernel(const keel_device *device,
                                        uint32_t index,
                                        keel_kernel_facts *out_facts);

/* Ops that the runtime itself does on every device (views of data, control
 * flow, sequences): name by index, or NULL past the last. */
KEEL_API const char *keel_runtime_op(uint32_t index);

/* Whether a device works, as far as the runtime knows: it finds out by a call that fails.
 * Returns KD_OK, KD_DEVICE_LOST (the message has the device's own words). */
KEEL_API keel_status keel_device_status(keel_device *device);

/* Opens a lost device again; one that works stays as it is.
 *
 * When a device is lost (unplugged, reset, hung), what runs on it fails with KD_DEVICE_LOST,
 * and so does all that is begun on it from then on; other devices, and runs that do not need
 * it, go on. Nothing is moved to another device by itself. Its memory is gone: values on it
 * can't be read any more. They and the plans that use the device are released first, and
 * plans are made anew of their programs afterwards. Prepared ops stay, and work again:
 * kernels are made anew as they are needed.
 *
 * Any thread may call it, but not from a callback of the runtime; it waits for calls of the
 * device that are under way, which fail. Where the call fails the device stays lost, and it
 * may be made again.
 * Returns KD_OK, KD_FAILED_PRECONDITION (values or plans are left, which the message counts;
 * or another context of the process still has the device), or why the device can't be opened
 * (KD_UNAVAILABLE: it is not there yet, or for good). */
KEEL_API keel_status keel_device_reopen(keel_device *device);

/* The calling thread's device scopes: ops without a device of their own run on
 * the innermost one. A pop without a push does nothing. Returns KD_OK,
 * KD_OUT_OF_RANGE (more than 32 deep). */
KEEL_API keel_status keel_device_push(keel_device *device);
KEEL_API void keel_device_pop(void);

/* What the runtime holds now. */
typedef struct keel_stats {
  uint64_t tensor_bytes; /* in live tensors */
  uint64_t peak_bytes;   /* the most that it was */
  uint64_t pooled_bytes; /* kept for reuse */
  uint64_t kernels;      /* kernel instances in the cache */
} keel_stats;

KEEL_API void keel_get_stats(const keel_context *context,
                             keel_stats *out_stats);

/* Threads that share work: the pool's, and the caller. */
KEEL_API uint32_t keel_worker_count(const keel_context *context);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_CONTEXT_H */
