/* loader.h - finding, checking and opening plugins. */
#ifndef KEEL_LOADER_H
#define KEEL_LOADER_H

#include "device/plugin.h"

/* Where a field of a struct ends: what of it an older plugin has. */
#define END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* Where a candidate was found, and what its manifest says. */
typedef struct keel_candidate {
  const char *path;   /* of the library; the manifest's where it names none */
  kd_entry entry;     /* of a plugin that is linked in, or NULL */
  const char *source; /* "application", "environment", "manifest X", ... */
  const char *name, *vendor, *version; /* from a manifest, or NULL */
  uint32_t abi_version;                /* from a manifest, or 0 */
  const char **options;                /* name, value ... */
  uint32_t option_count;
  keel_status status; /* not KD_OK: refused already */
  const char *reason, *hint;
} keel_candidate;

/* Calls `take` for each candidate, in the order of keel_context_params. */
keel_status keel_search(keel_context *context,
                        const keel_context_params *params,
                        keel_status (*take)(keel_context *,
                                            const keel_candidate *));

/* Reads a manifest into a candidate; a broken one is a refused candidate. */
void keel_manifest_read(keel_arena *arena, const char *path,
                        keel_candidate *out_candidate);

/* Whether a file is a shared library for this machine, whole, that the dynamic
 * linker may be given. What to do about it goes to *out_hint. */
keel_status keel_elf_check(const char *path, const char **out_hint);

/* Maps the plugin's file, or the copy that its library has. */
keel_status keel_plugin_map(keel_plugin *plugin);

/* Whether this host knows all bits that must be understood: in the flags of the plugin, of
 * a kernel's or an option's definition, of a device and its memory spaces. Returns KD_OK, KD_UNIMPLEMENTED
 * (the message names bit and versions). */
keel_status keel_flags_of_plugin(const keel_plugin *plugin);
/* Whether the aliases of a definition, or of a region's, can be kept to. */
keel_status keel_aliases_check(const keel_plugin *plugin, const char *what,
                               const kd_kernel_def *def);
keel_status keel_flags_of_kernel(const keel_plugin *plugin,
                                 const kd_kernel_def *def);
keel_status keel_flags_of_option(const keel_plugin *plugin,
                                 const kd_option_def *def);
keel_status keel_flags_of_device(const keel_device *device);
keel_status keel_flags_of_space(const keel_device *device, uint32_t index,
                                const kd_space *space);

/* The same of an op that a plugin brings: `part` is "it", or an argument or attribute. */
keel_status keel_flags_of_op(const keel_plugin *plugin, const char *op,
                             const char *part, uint32_t flags, uint32_t known);

/* Reads the definitions of ops into plugin->ops. One that another plugin, or Keel, has
 * otherwise, or with a flag that must be understood, is refused with a warning.
 * Returns KD_OK, KD_INCOMPATIBLE (one is no definition: the plugin is broken),
 * KD_OUT_OF_MEMORY. */
keel_status keel_ops_read(keel_plugin *plugin);

/* Whether a kernel is for an op that was refused. */
bool keel_ops_refused(const keel_plugin *plugin, const kd_kernel_def *def);

/* Makes a good plugin's ops the context's. Returns KD_OK, KD_OUT_OF_MEMORY. */
keel_status keel_ops_add(keel_plugin *plugin);

/* Puts what a plugin's headers knew in place of the zeros of a definition: opset_max and the
 * sets of types. */
void keel_horizon_set(const keel_plugin *plugin, kd_kernel_def *def);

/* Whether nobody but the caller and root can exchange a file: it, or a folder or link on
 * the way to it. Returns KD_OK, KD_PERMISSION_DENIED, KD_NOT_FOUND. */
keel_status keel_path_check(const char *path);

/* Loads one candidate and adds it to the context's list, whatever comes of
 * it. Fails only where memory runs out. */
keel_status keel_plugin_add(keel_context *context,
                            const keel_candidate *candidate);

/* Closes devices and the plugin. */
void keel_plugin_close(keel_plugin *plugin);

/* Copies a property that a plugin gave; what is too long is cut, a value that is none is
 * KD_PROPERTY_NONE. Returns KD_OK, KD_INTERNAL (it has no name). */
keel_status keel_property_copy(const kd_property *given, keel_property *out);

/* What a plugin with layouts of its own gets beside its kernels: keel::Reorder, from
 * rows into a layout and back. */
void keel_reorder_kernel(keel_plugin *plugin, kd_kernel_def *def);

/* ---- options ---- */

/* kd_host.option. */
const char *keel_option_get(const kd_host *host, const char *name);

/* Adds all options that a plugin can ask for: what depends on them is another thing with
 * others. */
void keel_options_add(const keel_library *library, keel_text *out);

/* Copies the plugin's list of its options. Returns KD_OK, KD_INCOMPATIBLE (it is malformed),
 * KD_OUT_OF_MEMORY. */
keel_status keel_options_read(keel_plugin *plugin);

/* Whether what the plugin is given fits its list, where it has one.
 * Returns KD_OK, KD_INVALID_ARGUMENT (the message says what there is). */
keel_status keel_options_check(const keel_plugin *plugin);

/* Whether a value is of an option's type and choices. */
bool keel_option_fits(const kd_option_def *def, const char *value);

/* Logs which options reach no plugin: an application's for one that is not there, and
 * variables that look like one of a plugin and are none. */
void keel_options_warn(const keel_context *context);

/* The persistent store behind kd_host.cache_get and cache_put. */
kd_status keel_store_get(const kd_host *host, const char *key, void **out_blob,
                         uint64_t *out_size);
kd_status keel_store_put(const kd_host *host, const char *key, const void *blob,
                         uint64_t size);

#endif /* KEEL_LOADER_H */
