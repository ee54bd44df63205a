/* library.c - the process's list of plugin libraries. */
#include "loader/library.h"
#include "device/context.h"

#include "layers/layers.h"
#include "loader/loader.h"
#include "system/printable.h"
#include "threads/pool.h"

/* Serialises open, close and device_open of all plugins, as kd_plugin says. */
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
/* Guards `speaker` separately, because plugins log inside calls that hold `listing`. */
static pthread_mutex_t speaking = PTHREAD_MUTEX_INITIALIZER;
static keel_library *libraries;

/* ---- calls into plugins ------------------------------------------------------ */

/* The plugin call that this thread is in; `depth` of plugins that load each other, 0: none. */
static _Thread_local struct {
  uint32_t depth;
  const char *path, *call;
} inside;

void keel_plugin_enter(const keel_plugin *plugin) {
  inside.depth++;
  inside.path = plugin->path;
}

void keel_plugin_leave(void) {
  inside.depth--;
}

keel_status keel_plugin_outside(const char *function) {
  return inside.depth
             ? keel_fail(
                   KD_FAILED_PRECONDITION,
                   "%s is called from %s of the plugin %s, which the host "
                   "waits for: there, a plugin may call kd_host alone; it may "
                   "call libkeel later, from a kernel or a thread of its own",
                   function, inside.call, inside.path)
             : KD_OK;
}

static void lock(const keel_plugin *plugin) {
  pthread_mutex_lock(&listing);
  keel_plugin_enter(plugin);
}

static void unlock(void) {
  keel_plugin_leave();
  pthread_mutex_unlock(&listing);
}

const char *keel_plugin_step(const keel_plugin *plugin, const char *call) {
  const keel_context *context = plugin->context;
  inside.call = call;
  return context->step
             ? context->step(context->step_context, plugin->path, call)
             : NULL;
}

/* ---- the libraries of the process ------------------------------------------- */

static keel_status library_make(keel_plugin *plugin,
                                keel_library **out_library) {
  keel_library *library = calloc(1, sizeof *library);
  if (!library) return keel_no_memory(sizeof *library);
  library->device_id = plugin->device_id;
  library->inode = plugin->inode;
  library->path = keel_arena_copy(&library->arena, plugin->path);
  if (!library->path) {
    keel_arena_free(&library->arena);
    free(library);
    return KD_OUT_OF_MEMORY;
  }
  library->host = *plugin->context->services;
  library->host.plugin_path = library->path;
  keel_layers_wrap_host(&library->host);
  library->next = libraries;
  libraries = library;
  *out_library = library;
  return KD_OK;
}

static void speak_for(keel_library *library, keel_plugin *plugin) {
  pthread_mutex_lock(&speaking);
  library->speaker = plugin;
  pthread_mutex_unlock(&speaking);
}

keel_status keel_library_hold(keel_plugin *plugin) {
  keel_status status = KD_OK;
  lock(plugin);
  keel_library *library = libraries;
  while (library && (library->inode != plugin->inode ||
                     library->device_id != plugin->device_id))
    library = library->next;
  if (!library) status = library_make(plugin, &library);
  if (status == KD_OK) {
    plugin->shared = library;
    plugin->next_sharer = library->speaker;
    library->holders++;
    speak_for(library, plugin);
  }
  unlock();
  return status;
}

/* Takes a plugin out of the list that `speaker` heads. */
static void library_leave(keel_library *library, keel_plugin *plugin) {
  pthread_mutex_lock(&speaking);
  keel_plugin **at = &library->speaker;
  while (*at != plugin)
    at = &(*at)->next_sharer;
  *at = plugin->next_sharer;
  pthread_mutex_unlock(&speaking);
}

static void library_forget(keel_library *library) {
  keel_library **at = &libraries;
  while (*at != library)
    at = &(*at)->next;
  *at = library->next;
  keel_arena_free(&library->arena);
  free(library);
}

void keel_library_drop(keel_plugin *plugin) {
  keel_library *library = plugin->shared;
  if (!library) return;
  lock(plugin);
  if (plugin->open && --library->openers == 0) {
    keel_plugin_step(plugin, "close");
    plugin->table.close(library->instance);
  }
  library_leave(library, plugin);
  if (--library->holders == 0) library_forget(library);
  unlock();
  plugin->shared = NULL;
  plugin->open = false;
}

/* ---- opening ------------------------------------------------------------------ */

static bool keep_option(keel_library *library, const char *name, size_t size,
                        const char *value) {
  const char **pair = &library->options[2 * library->option_count];
  char *copy = keel_arena_take(&library->arena, size + 1);
  if (!copy) return false;
  memcpy(copy, name, size);
  pair[0] = copy;
  pair[1] = keel_arena_copy(&library->arena, value);
  library->option_count++;
  return pair[1] != NULL;
}

/* The options of the first opener: the application's, then the manifest's. */
static bool keep_options(keel_library *library, const keel_plugin *plugin) {
  const keel_context *context = plugin->context;
  size_t n = strlen(plugin->name);
  size_t most = context->option_count + plugin->option_count;
  library->options =
      keel_arena_take(&library->arena, (2 * most + 1) * sizeof(char *));
  library->option_count = 0;
  bool whole = library->options != NULL;
  for (uint32_t i = 0; whole && i < context->option_count; i++) {
    const char *at = context->options[i], *equals = strchr(at, '=');
    if (equals && !strncmp(at, plugin->name, n) && at[n] == '.')
      whole = keep_option(library, at + n + 1, (size_t)(equals - at) - n - 1,
                          equals + 1);
  }
  for (uint32_t i = 0; whole && i < plugin->option_count; i++)
    whole =
        keep_option(library, plugin->options[2 * i],
                    strlen(plugin->options[2 * i]), plugin->options[2 * i + 1]);
  return whole;
}

/* If it has no device, its log lines now are the reason. */
static void set_opening(keel_library *library, bool opening) {
  pthread_mutex_lock(&speaking);
  if (opening) *library->said = 0;
  library->opening = opening;
  pthread_mutex_unlock(&speaking);
}

/* A driver's error may come as a count. */
static keel_status make_devices(keel_library *library,
                                const keel_plugin *plugin) {
  keel_plugin_step(plugin, "device_count");
  uint32_t count = plugin->table.device_count(library->instance);
  if (count > KEEL_DEVICES_MOST)
    return keel_fail(KD_INCOMPATIBLE,
                     "%s: device_count returned %u (as a signed number %d), and"
                     " a plugin has at most %u devices",
                     plugin->path, (unsigned)count, (int)count,
                     KEEL_DEVICES_MOST);
  library->device_count = count;
  KEEL_ARENA_ARRAY(&library->arena, library->devices, count);
  return library->devices ? KD_OK : KD_OUT_OF_MEMORY;
}

static keel_status open_first(keel_library *library, keel_plugin *plugin) {
  library->name = keel_arena_copy(&library->arena, plugin->name);
  if (!library->name || !keep_options(library, plugin)) return KD_OUT_OF_MEMORY;
  keel_clear_error();
  keel_plugin_step(plugin, "open");
  kd_status status = keel_layers_enter("plugin.open");
  uint64_t began = keel_now();
  set_opening(library, true);
  library->instance = NULL;
  if (status == KD_OK)
    status = plugin->table.open(&library->host, &library->instance);
  set_opening(library, false);
  if (status == KD_OK && !library->instance)
    status = keel_fail(KD_INTERNAL, "open returned KD_OK and no instance");
  keel_layers_exit(&plugin->context->log, "plugin.open", began, status);
  if (status != KD_OK) {
    if (!keel_has_error())
      keel_fail(status, "no reason given (%s)", keel_status_name(status));
    return keel_while(status, "while %s was opened", plugin->path);
  }
  status = make_devices(library, plugin);
  if (status != KD_OK) {
    keel_plugin_step(plugin, "close");
    plugin->table.close(library->instance);
  }
  return status;
}

keel_status keel_library_open(keel_plugin *plugin) {
  keel_library *library = plugin->shared;
  lock(plugin);
  keel_status status = KD_OK;
  if (library->copy && !plugin->copied)
    status = KD_ALREADY_EXISTS; /* mapped before there was a copy */
  else if (!library->openers)
    status = open_first(library, plugin);
  if (status == KD_ALREADY_EXISTS && !library->copy && !plugin->entry) {
    keel_status made = keel_library_copy(library);
    if (made != KD_OK) status = made;
  }
  if (status == KD_OK) {
    library->openers++;
    plugin->open = true;
  }
  unlock();
  return status;
}

keel_status keel_library_info(keel_plugin *plugin, uint32_t index,
                              kd_device_info *out_info) {
  lock(plugin);
  keel_clear_error();
  keel_plugin_step(plugin, "device_info");
  kd_status status = keel_layers_enter("plugin.device_info");
  keel_pool *before = keel_pool_use(plugin->context->pool);
  uint64_t began = keel_now();
  if (status == KD_OK)
    status =
        plugin->table.device_info(plugin->shared->instance, index, out_info);
  keel_pool_use(before);
  keel_layers_exit(&plugin->context->log, "plugin.device_info", began, status);
  unlock();
  if (status != KD_OK && !keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  return status;
}

keel_status keel_library_space(keel_plugin *plugin, uint32_t device,
                               uint32_t index, kd_space *out_space) {
  lock(plugin);
  keel_clear_error();
  keel_plugin_step(plugin, "space");
  kd_status status = keel_layers_enter("plugin.space");
  uint64_t began = keel_now();
  if (status == KD_OK)
    status =
        plugin->table.space(plugin->shared->instance, device, index, out_space);
  keel_layers_exit(&plugin->context->log, "plugin.space", began, status);
  unlock();
  if (status != KD_OK && !keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  return status;
}

keel_status keel_library_property(const keel_plugin *plugin, uint32_t device,
                                  uint32_t index, keel_property *out_property) {
  kd_property given = {.struct_size = sizeof given};
  KEEL_TRY(keel_plugin_outside("keel_device_property"));
  lock(plugin);
  keel_clear_error();
  keel_plugin_step(plugin, "property");
  kd_status status = keel_layers_enter("plugin.property");
  uint64_t began = keel_now();
  if (status == KD_OK)
    status =
        plugin->table.property(plugin->shared->instance, device, index, &given);
  keel_layers_exit(&plugin->context->log, "plugin.property", began, status);
  if (status == KD_OK) /* under the lock: its strings are the plugin's */
    status = keel_property_copy(&given, out_property);
  unlock();
  if (status != KD_OK && !keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  return status;
}

keel_status keel_library_device(keel_plugin *plugin, uint32_t index,
                                kd_device **out_device) {
  keel_library *library = plugin->shared;
  kd_status status = KD_OK;
  kd_device *opened = NULL;
  KEEL_TRY(keel_plugin_outside("a function that opens a device"));
  lock(plugin);
  if (library->devices[index].lost) {
    status = keel_fail(KD_FAILED_PRECONDITION,
                       "it was lost, and another context of this process still"
                       " has it; open it again there, too, or close that");
  } else if (library->devices[index].holders == 0) {
    keel_clear_error();
    keel_plugin_step(plugin, "device_open");
    status = keel_layers_enter("plugin.device_open");
    uint64_t began = keel_now();
    if (status == KD_OK)
      status = plugin->table.device_open(library->instance, index, &opened);
    keel_layers_exit(&plugin->context->log, "plugin.device_open", began,
                     status);
    if (status == KD_OK) {
      atomic_store(&library->devices[index].handle, opened);
      keel_layers_opened(plugin, index, opened);
    } else if (!keel_has_error())
      keel_fail(status, "no reason given (%s)", keel_status_name(status));
  }
  if (status == KD_OK) {
    library->devices[index].holders++;
    *out_device = library->devices[index].handle;
  }
  unlock();
  return status;
}

void keel_library_device_drop(keel_plugin *plugin, uint32_t index, bool lost) {
  keel_library *library = plugin->shared;
  lock(plugin);
  library->devices[index].lost |= lost;
  if (--library->devices[index].holders == 0) {
    library->devices[index].lost = false;
    keel_plugin_step(plugin, "device_close");
    plugin->table.device_close(library->devices[index].handle);
  }
  unlock();
}

keel_clock *keel_device_clock(const keel_device *device) {
  return &device->plugin->shared->devices[device->index].clock;
}

/* ---- speaking ------------------------------------------------------------------ */

void keel_library_log(const kd_host *host, uint32_t level, const char *format,
                      va_list args) {
  /* a library is never const itself: its host table is its first member */
  keel_library *library = (keel_library *)(uintptr_t)host;
  char prefix[80];
  pthread_mutex_lock(&speaking);
  if (library->opening) {
    va_list again;
    va_copy(again, args);
    vsnprintf(library->said, sizeof library->said, format, again);
    va_end(again);
    keel_make_printable(library->said, "\n\t");
  }
  snprintf(prefix, sizeof prefix,
           "%s: ", library->name ? library->name : library->path);
  if (library->speaker)
    keel_log_args(&library->speaker->context->log, level, prefix, format, args);
  pthread_mutex_unlock(&speaking);
}
