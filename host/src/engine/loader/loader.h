/* loader.h - finding, checking and opening plugins. */
#ifndef KEEL_LOADER_H
#define KEEL_LOADER_H

#include "device/plugin.h"

/* The end of a struct's field: the size of an older plugin's struct. */
#define END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* Where a candidate was found, and the contents of its manifest. */
typedef struct keel_candidate {
  const char *path;   /* of the library, or of the manifest if it names none */
  kd_entry entry;     /* of a statically linked plugin, or NULL */
  const char *source; /* "application", "environment", "manifest X", ... */
  const char *name, *vendor, *version; /* from a manifest, or NULL */
  uint32_t abi_version;                /* from a manifest, or 0 */
  const char **options;                /* name, value ... */
  uint32_t option_count;
  keel_status status; /* not KD_OK: refused already */
  const char *reason, *hint;
} keel_candidate;

/* Sources of candidates that a caller, or a variable, named one by one. */
extern const char keel_source_application[], keel_source_environment[];

/* Fails if a plugin that the caller named is refused, or one that it gave an option to, with
 * the plugin's reason; or if there is none to give an option to. */
keel_status keel_named_check(const keel_context *context);

/* Warns of refused plugins that a variable named, or that the default device is missing for. */
void keel_named_warn(const keel_context *context);

/* Calls `take` for each candidate, in the order of keel_context_params. */
keel_status keel_search(keel_context *context,
                        const keel_context_params *params,
                        keel_status (*take)(keel_context *,
                                            const keel_candidate *));

/* Reads a manifest into a candidate; a broken one is a refused candidate. */
void keel_manifest_read(keel_arena *arena, const char *path,
                        keel_candidate *out_candidate);

/* Checks that a file is a complete shared library for this machine, safe to pass to the dynamic
 * linker. *out_hint: the remedy if not. */
keel_status keel_elf_check(const char *path, const char **out_hint);

/* The remedy for a dynamic linker's message. */
const char *keel_linker_hint(const char *text);

/* Maps the plugin's file, or the copy that its library has. */
keel_status keel_plugin_map(keel_plugin *plugin);

/* Checks that this host knows all non-hint bits in the flags of the plugin, of a kernel's
 * or an option's definition, of a device and its memory spaces. Returns KD_OK,
 * KD_UNIMPLEMENTED (the message names bit and versions). */
keel_status keel_flags_of_plugin(const keel_plugin *plugin);
/* Checks the aliases of a definition, or of a region. */
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

/* Reads the definitions of ops into plugin->ops. A definition that differs from another
 * plugin's or Keel's, or has an unknown flag that is not a hint, is refused with a warning.
 * Returns KD_OK, KD_INCOMPATIBLE (a malformed definition: the plugin is broken),
 * KD_OUT_OF_MEMORY. */
keel_status keel_ops_read(keel_plugin *plugin);

/* Whether a kernel's op was refused. */
bool keel_ops_refused(const keel_plugin *plugin, const kd_kernel_def *def);

/* Adds an accepted plugin's ops to the context. Returns KD_OK, KD_OUT_OF_MEMORY. */
keel_status keel_ops_add(keel_plugin *plugin);

/* Replaces zeros in a definition (opset_max, sets of types) by what the plugin's headers
 * knew. */
void keel_horizon_set(const keel_plugin *plugin, kd_kernel_def *def);

/* Checks that only the caller and root can replace a file, or a folder or link on the path
 * to it. Returns KD_OK, KD_PERMISSION_DENIED, KD_NOT_FOUND. */
keel_status keel_path_check(const char *path);

/* Loads one candidate and adds it to the context's list, loaded or refused. Fails only if
 * memory runs out. */
keel_status keel_plugin_add(keel_context *context,
                            const keel_candidate *candidate);

/* Loads those that were left out because their file's name is hidden, where a plugin is wanted
 * by a name that none has so far. */
void keel_plugins_learn(keel_context *context);

/* Opens a plugin that was hidden, as far as the context's list of visible devices shows it
 * now, and adds its devices. */
void keel_plugin_show(keel_plugin *plugin);

/* Closes devices and the plugin. */
void keel_plugin_close(keel_plugin *plugin);

/* Copies a plugin's property: long text is truncated, an invalid value becomes
 * KD_PROPERTY_NONE. Returns KD_OK, KD_INTERNAL (it has no name). */
keel_status keel_property_copy(const kd_property *given, keel_property *out);

/* Adds a kernel for keel::Reorder (row-major to an own layout, and back) to a plugin with
 * layouts. */
void keel_reorder_kernel(keel_plugin *plugin, kd_kernel_def *def);

/* ---- options ---- */

/* kd_host.option. */
const char *keel_option_get(const kd_host *host, const char *name);

/* Adds all of a plugin's options to a key: what depends on them differs if they differ. */
void keel_options_add(const keel_library *library, keel_text *out);

/* Copies the plugin's list of options. Returns KD_OK, KD_INCOMPATIBLE (the list is
 * malformed), KD_OUT_OF_MEMORY. */
keel_status keel_options_read(keel_plugin *plugin);

/* Checks the plugin's given options against its list, if it has one. Returns KD_OK,
 * KD_INVALID_ARGUMENT (the message lists the options). */
keel_status keel_options_check(const keel_plugin *plugin);

/* Whether a value is of an option's type and choices. */
bool keel_option_fits(const kd_option_def *def, const char *value);

/* Warns of options that reach no plugin: an application's for an unknown plugin, and
 * variables that look like a plugin's option but are not. */
void keel_options_warn(const keel_context *context);

/* The persistent cache behind kd_host.cache_get and cache_put. */
kd_status keel_store_get(const kd_host *host, const char *key, void **out_blob,
                         uint64_t *out_size);
kd_status keel_store_put(const kd_host *host, const char *key, const void *blob,
                         uint64_t size);

#endif /* KEEL_LOADER_H */
