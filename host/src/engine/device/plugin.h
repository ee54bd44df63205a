/* plugin.h - a plugin in a context: its tables, kernels, ops and options. */
#ifndef KEEL_INSIDE_PLUGIN_H
#define KEEL_INSIDE_PLUGIN_H

#include <kd/kd.h>
#include <keel/context.h>

#include "base/base.h"

typedef struct keel_plugin keel_plugin;
typedef struct keel_library keel_library;
typedef struct keel_schema keel_schema;

/* Kernel definitions of one op on a device, best first. */
typedef struct keel_kernel_list {
  const char *domain;
  const char *op;
  const kd_kernel_def **defs;
  uint32_t count;
} keel_kernel_list;

/* A plugin's op that was refused; the plugin's kernels for it are not used either. */
typedef struct keel_refused_op {
  const char *domain, *name;
  struct keel_refused_op *next;
} keel_refused_op;

/* A candidate plugin, loaded or refused. */
struct keel_plugin {
  keel_context *context;
  keel_library *shared;     /* the library, while this plugin holds it */
  keel_plugin *next_sharer; /* the next context's plugin for the same library */
  const char *path;
  const char *source;
  void *library;  /* of dlopen */
  kd_entry entry; /* of a statically linked plugin, or NULL */
  bool copied;    /* a copy of the file is mapped */
  bool open;      /* this plugin holds the library open */
  bool by_option; /* refused because of an option */
  bool left_out;  /* hidden, and not loaded */

  kd_plugin table; /* full-size copies; a NULL slot is not supported */
  kd_memory_table memory;
  kd_stream_table streams;
  kd_event_table events;
  kd_capture_table capture;
  kd_region_table regions;
  kd_profile_table profile;
  kd_peer_table peer;
  kd_collective_table collectives;
  kd_external_table external;
  kd_layout_table layouts;
  kd_native_table native; /* from the extension, once open */
  kd_kernel_def *kernels;
  uint32_t kernel_count;
  kd_option_def *option_defs; /* NULL: the plugin lists none */
  uint32_t option_def_count;
  keel_kernel_list *by_op; /* hash table by op, with open addressing */
  uint32_t op_slots;       /* a power of two */
  keel_schema *ops;        /* the ops that it defines; op_count of them */
  uint32_t op_count;
  /* ops that another plugin defines differently */
  struct keel_refused_op *refused_ops;

  const char *name, *vendor, *version; /* copies, or NULL */
  uint32_t abi_version;
  uint32_t device_count;
  keel_status status;
  const char *reason, *hint;
  uint64_t device_id, inode; /* of the file, to find duplicates */
  /* from the manifest: name, value, name, value ... */
  const char **options;
  uint32_t option_count;
};

#endif /* KEEL_INSIDE_PLUGIN_H */
