/* load.c - opens a plugin from a path, or records why that failed.
 *
 * All tables are copied once into full-size ones, so that nothing later needs to check
 * whether a slot lies inside an older plugin's struct. */
#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <sys/stat.h>

#include "device/context.h"
#include "device/failures.h"
#include "layers/layers.h"
#include "layers/slots.h"
#include "loader/device.h"
#include "loader/library.h"
#include "loader/loader.h"
#include "loader/visible.h"
#include "ops/vendor.h"
#include "system/printable.h"

/* A plugin's own words, on one line. */
static const char *keep_string(keel_arena *arena, const char *string,
                               const char *otherwise) {
  char *copy = keel_arena_copy(arena, string ? string : otherwise);
  return copy ? keel_make_printable(copy, "") : NULL;
}

/* Gives the plugin a verdict; the reason is this thread's message. */
static keel_status load_refuse(keel_plugin *plugin, keel_status status,
                               const char *hint) {
  plugin->status = status;
  plugin->reason = keel_arena_copy(&plugin->context->arena, keel_message());
  plugin->hint = hint;
  if (!plugin->reason) plugin->reason = "";
  keel_log_line(&plugin->context->log, KD_LOG_INFO, "%s", plugin->reason);
  return status;
}

/* ---- the file ------------------------------------------------------------- */

/* Makes the path absolute, and checks whether the file was seen before. */
static keel_status settle_path(keel_plugin *plugin, bool *out_duplicate) {
  keel_context *context = plugin->context;
  char absolute[PATH_MAX];
  const char *given = plugin->path;
  struct stat facts;
  *out_duplicate = false;
  if (plugin->entry) { /* its function stands for the file */
    memcpy(&plugin->inode, &plugin->entry, sizeof plugin->entry);
    plugin->device_id = UINT64_MAX;
    return KD_OK;
  }
  if (!realpath(plugin->path, absolute) || stat(absolute, &facts) != 0) {
    keel_fail(KD_NOT_FOUND, "%s: no such file", plugin->path);
    return load_refuse(plugin, KD_NOT_FOUND, "correct the path");
  }
  plugin->path = keel_arena_copy(&context->arena, absolute);
  if (!plugin->path) return KD_OUT_OF_MEMORY;
  plugin->device_id = facts.st_dev;
  plugin->inode = facts.st_ino;
  for (uint32_t i = 0; i < context->plugin_count; i++) {
    const keel_plugin *other = context->plugins[i];
    *out_duplicate |=
        other->inode == plugin->inode && other->device_id == plugin->device_id;
  }
  if (*out_duplicate) return KD_OK;
  keel_status status = keel_path_check(given);
  return status == KD_OK
             ? KD_OK
             : load_refuse(
                   plugin, status,
                   "remove others' write permission (chmod o-w), or copy "
                   "the plugin to a folder of your own");
}

static keel_status load_open_library(keel_plugin *plugin) {
  if (plugin->entry) return keel_library_hold(plugin);
  const char *hint = "";
  keel_status status = keel_elf_check(plugin->path, &hint);
  if (status != KD_OK) return load_refuse(plugin, status, hint);
  status = keel_library_hold(plugin);
  if (status == KD_OK) status = keel_plugin_map(plugin);
  return status == KD_OK || status == KD_OUT_OF_MEMORY
             ? status
             : load_refuse(plugin, status, keel_linker_hint(keel_message()));
}

/* ---- the tables ----------------------------------------------------------- */

/* Copies a table of any size; missing fields are zero. It must have at least `least`
 * bytes. */
static keel_status copy_table(const keel_plugin *plugin, const char *what,
                              const void *table, size_t least, void *target,
                              size_t size) {
  uint32_t given = 0;
  memcpy(&given, table, sizeof given);
  if (given < least)
    return keel_fail(
        KD_INCOMPATIBLE,
        "%s: %s has struct_size %u, and its required slots end at %zu",
        plugin->path, what, (unsigned)given, least);
  memcpy(target, table, given < size ? given : size);
  return KD_OK;
}

static keel_status check_slots(const keel_plugin *plugin, const char *what,
                               const void *table) {
  const keel_slot *missing = keel_slot_missing(what, table);
  return missing ? keel_fail(KD_INCOMPATIBLE, "%s: slot %s of %s is NULL",
                             plugin->path, missing->slot, what)
                 : KD_OK;
}

/* Copies a table that may be NULL, and checks its required slots (slots.def). */
static keel_status take_table(const keel_plugin *plugin, const char *what,
                              const void *table, void *target, size_t size) {
  if (!table) return KD_OK;
  KEEL_TRY(
      copy_table(plugin, what, table, keel_slots_least(what), target, size));
  return check_slots(plugin, what, target);
}

#define TAKE(type, from, to)                                          \
  KEEL_TRY(take_table(plugin, #type, plugin->table.from, &plugin->to, \
                      sizeof(type)))

static keel_status together(const keel_plugin *plugin, const char *what) {
  return keel_fail(KD_INCOMPATIBLE, "%s: %s must be all set or all NULL",
                   plugin->path, what);
}

static keel_status copy_tables(keel_plugin *plugin) {
  const kd_plugin *table = &plugin->table;
  if (!table->memory)
    return keel_fail(KD_INCOMPATIBLE, "%s: slot memory of kd_plugin is NULL",
                     plugin->path);
  TAKE(kd_memory_table, memory, memory);
  if (!table->streams != !table->events)
    return together(plugin, "streams and events");
  TAKE(kd_stream_table, streams, streams);
  TAKE(kd_event_table, events, events);
  TAKE(kd_capture_table, capture, capture);
  TAKE(kd_region_table, regions, regions);
  const kd_region_table *kept = &plugin->regions;
  if (!kept->serialize != !kept->validate || !kept->serialize != !kept->load)
    return together(plugin, "serialize, validate and load of regions");
  TAKE(kd_profile_table, profile, profile);
  TAKE(kd_peer_table, peer, peer);
  TAKE(kd_external_table, external, external);
  TAKE(kd_layout_table, layouts, layouts);
  TAKE(kd_collective_table, collectives, collectives);
  const kd_collective_table *groups = &plugin->collectives;
  if (!groups->make_id != !groups->join || !groups->join != !groups->status ||
      !groups->join != !groups->abort)
    return together(plugin, "make_id, join, status and abort of groups");
  return KD_OK;
}

static bool load_is_known(const keel_plugin *plugin, const kd_kernel_def *def) {
  for (uint32_t i = 0; i < plugin->op_count; i++)
    if (!strcmp(plugin->ops[i].name, def->op) &&
        !strcmp(plugin->ops[i].domain, def->domain))
      return true;
  return keel_op_find(plugin->context, def->domain, def->op) != NULL;
}

/* Copies the definitions, stepping by the plugin's own size of one. */
static keel_status copy_kernels(keel_plugin *plugin) {
  const kd_plugin *table = &plugin->table;
  /* tensors are never allocated that way */
  if (!table->kernel_count) return KD_OK;
  if (!table->kernels)
    return keel_fail(KD_INCOMPATIBLE, "%s: kernels is NULL, kernel_count is %u",
                     plugin->path, (unsigned)table->kernel_count);
  size_t stride = table->kernels->struct_size;
  if (stride < END_OF(kd_kernel_def, destroy) ||
      stride % _Alignof(kd_kernel_def) || stride > 4096 ||
      table->kernel_count > 100000)
    return keel_fail(KD_INCOMPATIBLE,
                     "%s: %u kernel definitions of struct_size %zu",
                     plugin->path, (unsigned)table->kernel_count, stride);
  plugin->kernels =
      keel_arena_take(&plugin->context->arena,
                      (table->kernel_count + 1) * sizeof(kd_kernel_def));
  if (!plugin->kernels) return KD_OUT_OF_MEMORY;
  const char *at = (const char *)table->kernels;
  for (uint32_t i = 0; i < table->kernel_count; i++, at += stride) {
    kd_kernel_def *def = &plugin->kernels[plugin->kernel_count];
    memset(def, 0, sizeof *def);
    memcpy(def, at, stride < sizeof *def ? stride : sizeof *def);
    if (!def->op || !def->enqueue || (def->create && !def->destroy))
      return keel_fail(KD_INCOMPATIBLE,
                       "%s: kernel definition %u (%s) lacks its %s",
                       plugin->path, (unsigned)i, def->op ? def->op : "?",
                       !def->op        ? "op"
                       : !def->enqueue ? "enqueue"
                                       : "destroy");
    if (!def->domain) def->domain = "ai.onnx";
    keel_horizon_set(plugin, def);
    if (keel_flags_of_kernel(plugin, def) != KD_OK) {
      keel_log_line(&plugin->context->log, KD_LOG_WARNING, "%s; it is not used",
                    keel_message());
      continue;
    }
    if (keel_ops_refused(plugin, def)) continue;
    if (!load_is_known(plugin, def))
      keel_log_line(&plugin->context->log, KD_LOG_DEBUG,
                    "%s: kernel for unknown op %s::%s is not used",
                    plugin->path, def->domain, def->op);
    plugin->kernel_count++;
  }
  return KD_OK;
}

/* ---- definitions by op ---------------------------------------------------- */

static keel_kernel_list *list_slot(const keel_plugin *plugin,
                                   const char *domain, const char *op) {
  uint64_t hash =
      keel_hash_string(keel_hash_string(KEEL_HASH_SEED, domain), op);
  for (uint32_t i = 0;; i++) {
    keel_kernel_list *list =
        &plugin->by_op[(hash + i) & (plugin->op_slots - 1)];
    if (!list->op || (!strcmp(list->op, op) && !strcmp(list->domain, domain)))
      return list;
  }
}

static void insert_sorted(keel_kernel_list *list, const kd_kernel_def *def) {
  uint32_t at = list->count++;
  while (at && list->defs[at - 1]->priority < def->priority) {
    list->defs[at] = list->defs[at - 1];
    at--;
  }
  list->defs[at] = def;
}

static keel_status index_kernels(keel_plugin *plugin) {
  keel_arena *arena = &plugin->context->arena;
  plugin->op_slots = 16;
  while (plugin->op_slots < plugin->kernel_count * 2)
    plugin->op_slots *= 2;
  plugin->by_op =
      keel_arena_take(arena, plugin->op_slots * sizeof *plugin->by_op);
  if (!plugin->by_op) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < plugin->kernel_count; i++) {
    const kd_kernel_def *def = &plugin->kernels[i];
    keel_kernel_list *list = list_slot(plugin, def->domain, def->op);
    list->domain = def->domain;
    list->op = def->op;
    list->count++;
  }
  for (uint32_t i = 0; i < plugin->op_slots; i++) {
    keel_kernel_list *list = &plugin->by_op[i];
    if (!list->op) continue;
    list->defs = keel_arena_take(arena, list->count * sizeof *list->defs);
    if (!list->defs) return KD_OUT_OF_MEMORY;
    list->count = 0;
  }
  for (uint32_t i = 0; i < plugin->kernel_count; i++) {
    const kd_kernel_def *def = &plugin->kernels[i];
    insert_sorted(list_slot(plugin, def->domain, def->op), def);
  }
  return KD_OK;
}

const keel_kernel_list *keel_device_kernels(const keel_device *device,
                                            const char *domain,
                                            const char *op) {
  const keel_kernel_list *list = list_slot(device->plugin, domain, op);
  return list->op ? list : NULL;
}

/* ---- negotiation ---------------------------------------------------------- */

static keel_status check_versions(const keel_plugin *plugin) {
  const kd_plugin *table = &plugin->table;
  uint32_t theirs = table->abi_version, ours = KD_ABI_VERSION;
  if (KD_VERSION_MAJOR(theirs) != KD_ABI_MAJOR ||
      theirs < plugin->shared->host.abi_min)
    return keel_fail(
        KD_INCOMPATIBLE,
        "%s: built for ABI %u.%u, and this host works with ABI %u.%u"
        " and later minor versions of %u",
        plugin->path, KD_VERSION_MAJOR(theirs), KD_VERSION_MINOR(theirs),
        KD_VERSION_MAJOR(plugin->shared->host.abi_min),
        KD_VERSION_MINOR(plugin->shared->host.abi_min), KD_ABI_MAJOR);
  if (table->abi_min > ours)
    return keel_fail(KD_INCOMPATIBLE,
                     "%s: needs a host of ABI %u.%u, and this one has %u.%u",
                     plugin->path, KD_VERSION_MAJOR(table->abi_min),
                     KD_VERSION_MINOR(table->abi_min), KD_ABI_MAJOR,
                     KD_ABI_MINOR);
  return KD_OK;
}

static bool valid_name(const char *name) {
  size_t size = strlen(name);
  if (size == 0 || size > 32 || !islower((unsigned char)name[0])) return false;
  for (size_t i = 0; i < size; i++)
    if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) &&
        name[i] != '_' && name[i] != '-')
      return false;
  return true;
}

static keel_status check_names(keel_plugin *plugin) {
  const kd_plugin *table = &plugin->table;
  if (!table->name || !valid_name(table->name))
    return keel_fail(KD_INCOMPATIBLE,
                     "%s: its name is %s%s%s; it must match"
                     " [a-z][a-z0-9_-]{0,31}",
                     plugin->path, table->name ? "\"" : "",
                     table->name ? table->name : "NULL",
                     table->name ? "\"" : "");
  if (!table->vendor || !table->version)
    return keel_fail(KD_INCOMPATIBLE, "%s: slot %s of kd_plugin is NULL",
                     plugin->path, table->vendor ? "version" : "vendor");
  return check_slots(plugin, "kd_plugin", table);
}

static keel_status read_tables(keel_plugin *plugin, const kd_plugin *table) {
  KEEL_TRY(copy_table(plugin, "kd_plugin", table,
                      END_OF(kd_plugin, kernel_count), &plugin->table,
                      sizeof plugin->table));
  plugin->abi_version = plugin->table.abi_version;
  KEEL_TRY(check_versions(plugin));
  KEEL_TRY(keel_flags_of_plugin(plugin));
  KEEL_TRY(check_names(plugin));
  KEEL_TRY(copy_tables(plugin));
  KEEL_TRY(keel_options_read(plugin));
  KEEL_TRY(keel_ops_read(plugin));
  KEEL_TRY(copy_kernels(plugin));
  KEEL_TRY(keel_layers_wrap(plugin));
  /* the host's own, to which its slots are the layers */
  if (plugin->table.layouts && plugin->kernels)
    keel_reorder_kernel(plugin, &plugin->kernels[plugin->kernel_count++]);
  return index_kernels(plugin);
}

static keel_status negotiate(keel_plugin *plugin) {
  keel_arena *arena = &plugin->context->arena;
  kd_entry entry = plugin->entry;
  /* ISO C has no such conversion from an object pointer; POSIX guarantees it */
  if (!entry) *(void **)&entry = dlsym(plugin->library, KD_ENTRY_SYMBOL);
  if (!entry) {
    keel_fail(KD_INCOMPATIBLE, "%s: exports no function " KD_ENTRY_SYMBOL,
              plugin->path);
    return load_refuse(
        plugin, KD_INCOMPATIBLE,
        "end the plugin's source with KD_ENTRY(...); otherwise it is"
        " for another major version, or is not a Keel plugin");
  }
  keel_clear_error();
  keel_plugin_enter(plugin);
  keel_plugin_step(plugin, "entry");
  const kd_plugin *table = entry(&plugin->shared->host);
  keel_plugin_leave();
  if (!table) {
    if (!keel_has_error()) keel_fail(KD_INCOMPATIBLE, "no reason given");
    keel_while(KD_INCOMPATIBLE,
               "while %s was asked for its table, it refused"
               " this host",
               plugin->path);
    return load_refuse(plugin, KD_INCOMPATIBLE, "ask the plugin's vendor");
  }
  keel_status status = read_tables(plugin, table);
  if (status != KD_OK)
    return load_refuse(
        plugin, status,
        KD_VERSION_MAJOR(plugin->abi_version) != KD_ABI_MAJOR
            ? "use the plugin's build for this version of Keel"
            : "ask the plugin's vendor; conformance finds such faults");
  plugin->name = keel_arena_copy(arena, plugin->table.name);
  plugin->vendor = keep_string(arena, plugin->table.vendor, "");
  plugin->version = keep_string(arena, plugin->table.version, "");
  return plugin->name && plugin->vendor && plugin->version ? KD_OK
                                                           : KD_OUT_OF_MEMORY;
}

static keel_status check_duplicate_name(keel_plugin *plugin) {
  const keel_context *context = plugin->context;
  for (uint32_t i = 0; i < context->plugin_count; i++) {
    const keel_plugin *other = context->plugins[i];
    if (other->status == KD_OK && other->name &&
        !strcmp(other->name, plugin->name)) {
      keel_fail(KD_ALREADY_EXISTS,
                "%s: a plugin named \"%s\" is loaded from %s", plugin->path,
                plugin->name, other->path);
      return load_refuse(plugin, KD_ALREADY_EXISTS,
                         "remove one of them, or rename it");
    }
  }
  return KD_OK;
}

/* ---- devices -------------------------------------------------------------- */

/* An earlier device of another plugin that is the same hardware. */
static keel_device *same_silicon(const keel_context *context,
                                 const keel_device *device) {
  static const uint8_t none[sizeof device->info.uuid];
  bool named = memcmp(device->info.uuid, none, sizeof none) != 0;
  for (uint32_t i = 0; i < context->device_count; i++) {
    keel_device *other = keel_devices(context)[i];
    if (other->plugin == device->plugin) continue;
    if ((named && !memcmp(other->info.uuid, device->info.uuid, sizeof none)) ||
        (device->info.pci && other->info.pci == device->info.pci))
      return other->same ? other->same : other;
  }
  return NULL;
}

/* Refuses a device that this host can't use; the reason is this thread's message. The
 * plugin's other devices stay. */
static keel_status leave_out(keel_plugin *plugin) {
  keel_log_line(&plugin->context->log, KD_LOG_WARNING, "%s; it is not used",
                keel_message());
  plugin->reason = keel_arena_copy(&plugin->context->arena, keel_message());
  plugin->hint = "use a newer Keel, or the plugin's build for this one";
  return plugin->reason ? KD_OK : KD_OUT_OF_MEMORY;
}

#define SPACES_MOST 64u

/* Of all spaces, and keeps the first. */
static keel_status read_spaces(keel_device *device) {
  uint32_t count = device->info.space_count;
  if (count > SPACES_MOST)
    return keel_fail(KD_INCOMPATIBLE,
                     "%s reports %u memory spaces; a device has at most %u",
                     device->name, (unsigned)count, SPACES_MOST);
  if (count && !device->plugin->table.space)
    return keel_fail(KD_INCOMPATIBLE,
                     "%s has %u memory spaces, and slot space of kd_plugin is"
                     " NULL",
                     device->name, (unsigned)count);
  for (uint32_t i = 0; i < count; i++) {
    kd_space space = {.struct_size = sizeof space};
    keel_status status =
        keel_library_space(device->plugin, device->index, i, &space);
    if (status != KD_OK)
      return keel_while(status, "while memory space %u of %s was asked for",
                        (unsigned)i, device->name);
    KEEL_TRY(keel_flags_of_space(device, i, &space));
    if (space.alignment & (space.alignment - 1))
      return keel_fail(
          KD_INCOMPATIBLE,
          "memory space %u of %s has alignment %u, which is not a power of two",
          (unsigned)i, device->name, (unsigned)space.alignment);
    if (i == 0) device->space = space;
  }
  return KD_OK;
}

static keel_status add_device(keel_plugin *plugin, uint32_t index) {
  keel_context *context = plugin->context;
  keel_device *device = keel_arena_take(&context->arena, sizeof *device);
  if (!device) return KD_OUT_OF_MEMORY;
  device->context = context;
  device->plugin = plugin;
  device->index = index;
  snprintf(device->name, sizeof device->name, "%s:%u", plugin->name, index);
  device->info.struct_size = sizeof device->info;
  keel_status status = keel_library_info(plugin, index, &device->info);
  if (status != KD_OK)
    return keel_while(status, "while asking for the facts of %s", device->name);
  status = keel_flags_of_device(device);
  if (status == KD_OK) status = read_spaces(device);
  if (status == KD_UNIMPLEMENTED || status == KD_INCOMPATIBLE)
    return leave_out(plugin);
  if (status != KD_OK) return status;
  device->info.name =
      keep_string(&context->arena, device->info.name, device->name);
  device->info.kind = keep_string(&context->arena, device->info.kind, "other");
  device->info.driver = keep_string(&context->arena, device->info.driver, "");
  if (!device->info.name || !device->info.kind || !device->info.driver)
    return KD_OUT_OF_MEMORY;
  keel_heap_init(&device->heap, context, device);
  KEEL_TRY(keel_failures_init(device));
  device->open = keel_device_open;
  pthread_mutex_init(&device->opening, NULL);
  pthread_mutex_init(&device->stream_lock, NULL);
  pthread_mutex_init(&device->transfers.lock, NULL);
  pthread_mutex_init(&device->watch_lock, NULL);
  pthread_mutex_init(&device->map_lock, NULL);
  pthread_mutex_init(&device->lost_lock, NULL);
  device->can_be_lost = plugin->table.device_status != NULL;
  device->same = same_silicon(context, device);
  keel_devices(context)[context->device_count] = device;
  context->device_count++;
  plugin->device_count++;
  return KD_OK;
}

static bool load_is_there(const keel_plugin *plugin, uint32_t index) {
  const keel_context *context = plugin->context;
  for (uint32_t i = 0; i < context->device_count; i++)
    if (keel_devices(context)[i]->plugin == plugin &&
        keel_devices(context)[i]->index == index)
      return true;
  return false;
}

/* Those that are visible and not there yet. */
static keel_status load_add_devices(keel_plugin *plugin) {
  keel_context *context = plugin->context;
  uint32_t count = plugin->shared->device_count, before = context->device_count;
  keel_device **old = keel_devices(context);
  keel_device **devices = keel_arena_take(
      &context->arena, (before + (size_t)count + 1) * sizeof *devices);
  if (!devices) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < before; i++)
    devices[i] = old[i];
  context->devices = devices;
  for (uint32_t i = 0; i < count; i++)
    if (keel_visible_device(context->visible, plugin->name, i) &&
        !load_is_there(plugin, i))
      KEEL_TRY(add_device(plugin, i));
  return KD_OK;
}

/* Starts over with this libkeel's copy of the file. */
static keel_status load_copy(keel_plugin *plugin) {
  keel_layers_closed(plugin);
  plugin->kernels = NULL;
  plugin->kernel_count = 0;
  keel_status status = keel_plugin_map(plugin);
  return status == KD_OK ? negotiate(plugin)
                         : load_refuse(plugin, status,
                                       "load the plugin in one host at a time");
}

/* The extensions that this host knows. */
static keel_status take_extensions(keel_plugin *plugin) {
  if (!plugin->table.extension) return KD_OK;
  keel_plugin_step(plugin, "extension");
  KEEL_TRY(
      take_table(plugin, "kd_native_table",
                 plugin->table.extension(plugin->shared->instance, KD_NATIVE),
                 &plugin->native, sizeof plugin->native));
  keel_layers_wrap_native(plugin);
  return KD_OK;
}

static const char see_options[] =
    "look at the plugin's options: `keel plugins --options`";

static keel_status open_plugin(keel_plugin *plugin) {
  keel_context *context = plugin->context;
  keel_status status = keel_options_check(plugin);
  plugin->by_option = status != KD_OK;
  if (status != KD_OK) return load_refuse(plugin, status, see_options);
  status = keel_library_open(plugin);
  if (status == KD_ALREADY_EXISTS && plugin->shared->copy && !plugin->copied) {
    KEEL_TRY(load_copy(plugin));
    status = keel_library_open(plugin);
  }
  if (status != KD_OK)
    return load_refuse(plugin, status,
                       status == KD_INVALID_ARGUMENT &&
                               (plugin->option_count || context->option_count)
                           ? see_options
                           : "check the device's driver");
  status = take_extensions(plugin);
  if (status != KD_OK)
    return load_refuse(
        plugin, status,
        "ask the plugin's vendor; conformance finds such faults");
  status = load_add_devices(plugin);
  if (status != KD_OK)
    return load_refuse(plugin, status, "check the device's driver");
  if (!plugin->shared->device_count) {
    const char *said = plugin->shared->said;
    plugin->reason = *said ? keel_arena_copy(&context->arena, said)
                           : "it found no device, and does not say why";
    if (!plugin->reason) return KD_OUT_OF_MEMORY;
    plugin->hint =
        "check the device and its driver; KEEL_LOG=info shows everything that "
        "the plugin logs";
  }
  return KD_OK;
}

/* ---- all of it ------------------------------------------------------------ */

static keel_status may_load(keel_plugin *plugin) {
  const char *why = keel_plugin_step(plugin, "load");
  if (!why) return KD_OK;
  keel_fail(KD_ABORTED, "%s: %s", plugin->path, why);
  return load_refuse(
      plugin, KD_ABORTED,
      "remove it, or ask its vendor; KEEL_VISIBLE_DEVICES=-NAME hides"
      " a file NAME.so");
}

static keel_status loader_load_load(keel_plugin *plugin) {
  KEEL_TRY(may_load(plugin));
  KEEL_TRY(load_open_library(plugin));
  KEEL_TRY(negotiate(plugin));
  KEEL_TRY(check_duplicate_name(plugin));
  if (plugin->context->flags & KEEL_DESCRIBE) return KD_OK;
  if (keel_visible_plugin(plugin->context->visible, plugin->name))
    return open_plugin(plugin);
  plugin->reason = "its devices are hidden";
  plugin->hint = "KEEL_VISIBLE_DEVICES says which are shown";
  return KD_OK;
}

static keel_status load_keep(keel_context *context, keel_plugin *plugin) {
  if (!KEEL_ROOM(context->plugins, context->plugin_count,
                 context->plugin_capacity))
    return KD_OUT_OF_MEMORY;
  context->plugins[context->plugin_count++] = plugin;
  return KD_OK;
}

/* At KEEL_LOG=debug: the outcome for a candidate. */
static void load_tell(const keel_plugin *plugin, uint64_t began) {
  const keel_log *log = &plugin->context->log;
  double ms = (double)(keel_now() - began) / 1e6;
  if (plugin->status != KD_OK)
    keel_log_line(log, KD_LOG_DEBUG, "%s (%s): refused: %s%s%s", plugin->path,
                  plugin->source, plugin->reason, *plugin->hint ? "; " : "",
                  plugin->hint);
  else
    keel_log_line(
        log, KD_LOG_DEBUG,
        "%s (%s): %s %s, ABI %u.%u; kernels: %u, devices: %u%s%s; %.1f ms",
        plugin->path, plugin->source, plugin->name ? plugin->name : "?",
        plugin->version ? plugin->version : "?",
        KD_VERSION_MAJOR(plugin->abi_version),
        KD_VERSION_MINOR(plugin->abi_version), plugin->kernel_count,
        plugin->device_count, *plugin->reason ? ", " : "", plugin->reason, ms);
}

/* Loads it, or refuses it. */
static void load_whole(keel_plugin *plugin) {
  keel_status status = loader_load_load(plugin);
  if (status == KD_OK) status = keel_ops_add(plugin);
  if (status != KD_OK && plugin->status == KD_OK)
    load_refuse(plugin, status, "");
  if (status != KD_OK && !plugin->open) keel_plugin_close(plugin);
}

/* ---- hidden by its name ---- */

static bool is_hidden_by_name(const keel_plugin *plugin) {
  char name[NAME_MAX + 1];
  return plugin->context->by_variable && !plugin->entry &&
         !keel_visible_plugin(plugin->context->visible,
                              plugin->name
                                  ? plugin->name
                                  : keel_visible_file(plugin->path, name));
}

static void leave_unloaded(keel_plugin *plugin) {
  plugin->left_out = true;
  plugin->abi_version = 0;
  plugin->reason = "its devices are hidden, so that it is not loaded";
  plugin->hint = "KEEL_VISIBLE_DEVICES says which are shown";
}

keel_status keel_plugin_add(keel_context *context,
                            const keel_candidate *candidate) {
  uint64_t began = keel_now();
  keel_plugin *plugin = keel_arena_take(&context->arena, sizeof *plugin);
  if (!plugin) return KD_OUT_OF_MEMORY;
  plugin->context = context;
  plugin->path = candidate->path;
  plugin->entry = candidate->entry;
  plugin->source = candidate->source;
  plugin->name = candidate->name;
  plugin->vendor = candidate->vendor;
  plugin->version = candidate->version;
  plugin->abi_version = candidate->abi_version;
  plugin->options = candidate->options;
  plugin->option_count = candidate->option_count;
  plugin->status = candidate->status;
  plugin->reason = candidate->reason ? candidate->reason : "";
  plugin->hint = candidate->hint ? candidate->hint : "";
  keel_status status = candidate->status;
  bool twice = false;
  if (status == KD_OK) status = settle_path(plugin, &twice);
  if (twice) return KD_OK; /* the same file by another path: listed once */
  bool described = (context->flags & KEEL_DESCRIBE) && candidate->name &&
                   candidate->vendor && candidate->abi_version;
  if (status == KD_OK && is_hidden_by_name(plugin))
    leave_unloaded(plugin);
  else if (status == KD_OK && !described)
    load_whole(plugin);
  load_tell(plugin, began);
  return load_keep(context, plugin);
}

/* Whether a plugin of the name is loaded, or left out by the name in its manifest. */
static bool is_named(const keel_context *context, const char *name,
                     size_t size) {
  for (uint32_t i = 0; i < context->plugin_count; i++) {
    const char *other = context->plugins[i]->name;
    if (other && strlen(other) == size && !strncmp(other, name, size))
      return true;
  }
  return false;
}

void keel_plugins_learn(keel_context *context) {
  bool missed = false;
  const char *at = context->by_variable ? context->visible : NULL, *name = NULL;
  size_t size = 0;
  while (keel_visible_next(&at, &name, &size))
    missed |= !is_named(context, name, size);
  for (uint32_t i = 0; i < context->option_count; i++)
    missed |= !is_named(context, context->options[i],
                        strcspn(context->options[i], "."));
  for (uint32_t i = 0; missed && i < context->plugin_count; i++) {
    keel_plugin *plugin = context->plugins[i];
    char name_of_file[NAME_MAX + 1];
    uint64_t began = keel_now();
    if (!plugin->left_out || plugin->name ||
        keel_visible_hides(context->visible,
                           keel_visible_file(plugin->path, name_of_file)))
      continue;
    plugin->left_out = false;
    plugin->reason = plugin->hint = "";
    load_whole(plugin);
    load_tell(plugin, began);
  }
}

void keel_plugin_show(keel_plugin *plugin) {
  uint64_t began = keel_now();
  if (plugin->status != KD_OK || plugin->left_out ||
      !keel_visible_plugin(plugin->context->visible, plugin->name))
    return;
  keel_status status = KD_OK;
  if (plugin->open) {
    status = load_add_devices(plugin);
    if (status != KD_OK)
      load_refuse(plugin, status, "check the device's driver");
    return;
  }
  plugin->reason = plugin->hint = "";
  status = open_plugin(plugin);
  if (status != KD_OK && plugin->status == KD_OK)
    load_refuse(plugin, status, "");
  if (status != KD_OK && !plugin->open) keel_plugin_close(plugin);
  load_tell(plugin, began);
}

void keel_plugin_close(keel_plugin *plugin) {
  bool was_open = plugin->open;
  keel_library_drop(plugin);
  keel_layers_closed(plugin);
  /* an opened library stays mapped, unless it is KD_PLUGIN_UNLOADABLE */
  if (plugin->library &&
      (!was_open || (plugin->table.flags & KD_PLUGIN_UNLOADABLE))) {
    keel_plugin_step(plugin, "unload");
    dlclose(plugin->library);
  }
  plugin->library = NULL;
}
