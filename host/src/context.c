/* context.c - opening and closing the runtime, and asking for its devices. */
#include "device/context.h"

#include <sched.h>
#include <unistd.h>

#include "device/lost.h"
#include "eager/cache.h"
#include "layers/layers.h"
#include "loader/clocks.h"
#include "loader/library.h"
#include "loader/loader.h"
#include "loader/visible.h"
#include "memory/copy.h"
#include "memory/transfer.h"
#include "ops/schema.h"
#include "threads/pool.h"

#define SCOPES 32

static _Thread_local struct {
  keel_device *devices[SCOPES];
  uint32_t count;
} scope;

const char *keel_version(void) {
  return KEEL_VERSION;
}

/* ---- opening -------------------------------------------------------------- */

static uint32_t usable_threads(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return (uint32_t)CPU_COUNT(&set);
  return 1;
}

static keel_status workers_wanted(const keel_context_params *params,
                                  uint32_t *out_workers) {
  const char *variable = getenv("KEEL_THREADS");
  if (params->workers < KEEL_NO_WORKERS || params->workers > 1024)
    return keel_fail(KD_INVALID_ARGUMENT, "workers is %d; the maximum is 1024",
                     params->workers);
  if (params->workers) {
    *out_workers = params->workers < 0 ? 0 : (uint32_t)params->workers;
  } else if (variable && *variable) {
    char *end = NULL;
    long threads = strtol(variable, &end, 10);
    if (*end || threads < 0 || threads > 1025)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "KEEL_THREADS is \"%s\"; it is a number from 0 to 1025",
                       variable);
    *out_workers =
        threads ? (uint32_t)threads - 1 : 0; /* 0 is the caller, too */
  } else {
    *out_workers = usable_threads() - 1;
  }
  return KD_OK;
}

static void choose_default(keel_context *context) {
  const char *wanted = getenv("KEEL_DEVICE");
  keel_device *device = NULL;
  if (wanted && *wanted && keel_device_find(context, wanted, &device) != KD_OK)
    keel_log_line(&context->log, KD_LOG_WARNING, "KEEL_DEVICE: %s",
                  keel_message());
  for (uint32_t i = 0; i < context->device_count && !device; i++)
    if (!strcmp(context->devices[i]->name, "cpu:0"))
      device = context->devices[i];
  if (!device && context->device_count) device = context->devices[0];
  context->default_device = device;
}

/* Copies what of the parameters must outlast the call. */
static keel_status copy_options(keel_context *context,
                                const keel_context_params *params) {
  const char **options = keel_arena_take(
      &context->arena, (params->option_count + 1) * sizeof *options);
  if (!options) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < params->option_count; i++) {
    const char *option = params->options[i];
    const char *equals = strchr(option, '='), *dot = strchr(option, '.');
    if (!equals || !dot || dot > equals)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "option \"%s\" does not have the form plugin.name=value",
                       option);
    options[i] = keel_arena_copy(&context->arena, option);
    if (!options[i]) return KD_OUT_OF_MEMORY;
  }
  context->options = options;
  context->option_count = params->option_count;
  return KD_OK;
}

static keel_status copy_visible(keel_context *context,
                                const keel_context_params *params) {
  const char *list = params->visible;
  if (!list || !*list) list = getenv("KEEL_VISIBLE_DEVICES");
  if (!list || !*list) return KD_OK;
  KEEL_TRY(keel_visible_check(list));
  context->visible = keel_arena_copy(&context->arena, list);
  return context->visible ? KD_OK : KD_OUT_OF_MEMORY;
}

static keel_status fill(keel_context *context,
                        const keel_context_params *params) {
  uint32_t workers = 0;
  context->flags = params->flags;
  context->log.write = params->log;
  context->log.context = params->log_context;
  keel_log_init(&context->log);
  context->memory_limit =
      params->memory_limit
          ? params->memory_limit
          : (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  context->pool_limit = context->memory_limit / 4;
  KEEL_TRY(keel_layers_ready());
  KEEL_TRY(copy_options(context, params));
  KEEL_TRY(copy_visible(context, params));
  KEEL_TRY(workers_wanted(params, &workers));
  KEEL_TRY(keel_pool_retain(workers, &context->pool));
  KEEL_TRY(keel_schema_ready());
  KEEL_TRY(keel_kernel_cache_create(&context->kernels));
  KEEL_TRY(keel_op_cache_create(&context->ops));
  KEEL_TRY(keel_search(context, params, keel_plugin_add));
  keel_visible_warn(context);
  keel_options_warn(context);
  choose_default(context);
  return KD_OK;
}

keel_status keel_open(const keel_context_params *params,
                      keel_context **out_context) {
  keel_context_params all = {0};
  *out_context = NULL;
  if (params) {
    if (params->struct_size < offsetof(keel_context_params, plugins))
      return keel_fail(KD_INVALID_ARGUMENT,
                       "keel_context_params.struct_size is not set");
    memcpy(&all, params,
           params->struct_size < sizeof all ? params->struct_size : sizeof all);
  }
  keel_context *context = calloc(1, sizeof *context);
  if (!context) return keel_no_memory(sizeof *context);
  keel_status status = keel_heap_init(&context->host, context, NULL);
  if (status != KD_OK) {
    free(context);
    return status;
  }
  status = fill(context, &all);
  if (status != KD_OK) {
    keel_close(context);
    return status;
  }
  *out_context = context;
  return KD_OK;
}

/* ---- devices -------------------------------------------------------------- */

static keel_status open_device(keel_device *device) {
  keel_plugin *plugin = device->plugin;
  kd_status status =
      keel_library_device(plugin, device->index, &device->handle);
  if (status == KD_OK && plugin->streams.create &&
      !(device->info.flags & KD_DEVICE_INLINE)) {
    keel_hush();
    status = plugin->streams.create(device->handle, 0, 0, &device->stream);
    if (status != KD_OK) {
      if (!keel_said())
        keel_fail(status, "no reason given (%s)", keel_status_name(status));
      keel_library_device_drop(plugin, device->index, false);
    }
  }
  if (status != KD_OK) {
    device->handle = NULL;
    return keel_while(status, "while %s was opened", device->name);
  }
  keel_clock_opened(device);
  atomic_store(&device->lost, false);
  atomic_store_explicit(&device->ready, true, memory_order_release);
  return KD_OK;
}

keel_status keel_device_ready(keel_device *device) {
  if (atomic_load_explicit(&device->ready, memory_order_acquire)) return KD_OK;
  /* not with the lock: who opens it again has that, and waits for those inside */
  if (atomic_load(&device->lost)) return keel_lost_refuse(device);
  pthread_mutex_lock(&device->opening);
  keel_status status = KD_OK;
  if (atomic_load(&device->lost))
    status = keel_lost_refuse(device);
  else if (!atomic_load_explicit(&device->ready, memory_order_acquire))
    status = open_device(device);
  pthread_mutex_unlock(&device->opening);
  return status;
}

/* Nothing of it is left but its streams. */
static void leave_device(keel_device *device) {
  const kd_stream_table *streams = &device->plugin->streams;
  if (device->transfers.stream) streams->destroy(device->transfers.stream);
  if (device->stream) streams->destroy(device->stream);
  if (device->handle)
    keel_library_device_drop(device->plugin, device->index,
                             atomic_load(&device->lost));
  device->transfers.stream = NULL;
  device->stream = NULL;
  device->handle = NULL;
}

static void close_device(keel_device *device) {
  keel_device_drain(device);
  keel_clock_closes(device);
  keel_heap_deinit(&device->heap);
  leave_device(device);
  pthread_mutex_destroy(&device->opening);
  pthread_mutex_destroy(&device->stream_lock);
  pthread_mutex_destroy(&device->transfers.lock);
  pthread_mutex_destroy(&device->map_lock);
  pthread_mutex_destroy(&device->words_lock);
}

/* ---- lost devices ----------------------------------------------------------- */

keel_status keel_device_status(keel_device *device) {
  return atomic_load(&device->lost) ? keel_lost_refuse(device) : KD_OK;
}

/* Gives back what the runtime alone holds of a lost device, and the device, where that is
 * all. */
static keel_status give_up(keel_device *device) {
  keel_lost_await(device); /* from now on threads only free things */
  keel_transfers_end(device);
  keel_device_settle(device);
  keel_heap_drain(&device->heap);
  keel_lost_await(device);
  /* acquire: what was done with it */
  uint64_t pieces =
      atomic_load_explicit(&device->heap.pieces, memory_order_acquire);
  uint32_t held = atomic_load_explicit(&device->held, memory_order_acquire);
  if (pieces || held)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "%s was lost, and is opened again when nothing of it is"
                     " held; release its tensors and plans (%llu pieces of its"
                     " memory and %u parts of plans are left)",
                     device->name, (unsigned long long)pieces, held);
  keel_instances_destroy(device);
  keel_lost_await(device); /* who had taken a kernel before */
  keel_clock_closes(device);
  leave_device(device);
  return KD_OK;
}

keel_status keel_device_reopen(keel_device *device) {
  pthread_mutex_lock(&device->opening);
  bool lost = atomic_load(&device->lost);
  keel_status status = lost && device->handle ? give_up(device) : KD_OK;
  if (status == KD_OK &&
      !atomic_load_explicit(&device->ready, memory_order_acquire))
    status = open_device(device);
  pthread_mutex_unlock(&device->opening);
  return status;
}

void keel_close(keel_context *context) {
  if (!context) return;
  /* acquire: what was done by those that counted down */
  while (atomic_load_explicit(&context->begun, memory_order_acquire))
    if (!keel_pool_help(context->pool)) sched_yield();
  for (uint32_t i = 0; i < context->device_count; i++)
    keel_transfers_end(context->devices[i]);
  keel_op_cache_destroy(context->ops);
  keel_kernel_cache_destroy(context->kernels);
  keel_pool_release(context->pool);
  for (uint32_t i = context->device_count; i-- > 0;)
    close_device(context->devices[i]);
  for (uint32_t i = context->plugin_count; i-- > 0;)
    keel_plugin_close(context->plugins[i]);
  keel_heap_deinit(&context->host);
  free(context->devices);
  free(context->plugins);
  keel_arena_free(&context->arena);
  free(context);
}

uint32_t keel_device_count(const keel_context *context) {
  return context->device_count;
}

keel_device *keel_device_at(const keel_context *context, uint32_t index) {
  return index < context->device_count ? context->devices[index] : NULL;
}

keel_device *keel_device_default(const keel_context *context) {
  return context->default_device;
}

/* Whether a plugin that was refused may be the one that a device is named after: by its
 * name or its file's, or as one that the application named. */
static bool may_be(const keel_plugin *plugin, const char *name, size_t size) {
  const char *slash = strrchr(plugin->path, '/');
  const char *file = slash ? slash + 1 : plugin->path;
  if (!strncmp(file, "lib", 3) && strncmp(name, "lib", 3) != 0) file += 3;
  return (plugin->name && strlen(plugin->name) == size &&
          !strncmp(plugin->name, name, size)) ||
         (strcspn(file, ".") == size && !strncmp(file, name, size)) ||
         !strcmp(plugin->source, "application");
}

/* "; plugin opencl: ...": what became of those that might have had the device. */
static void add_refusal(const keel_context *context, const char *name,
                        keel_text *out) {
  size_t size = strcspn(name, ":");
  for (uint32_t i = 0; i < context->plugin_count; i++) {
    const keel_plugin *plugin = context->plugins[i];
    if (!plugin->reason || !*plugin->reason || !may_be(plugin, name, size))
      continue;
    /* one that is loaded may have no device, or hide it; a reason has the path */
    keel_text_add(out, "; %s%s%s: %s", plugin->name ? "plugin " : "a plugin",
                  plugin->name ? plugin->name : "",
                  plugin->status == KD_OK ? "" : " was refused",
                  plugin->reason);
  }
}

keel_status keel_device_find(keel_context *context, const char *name,
                             keel_device **out_device) {
  *out_device = NULL;
  if (!name || !*name) {
    *out_device = context->default_device;
    if (*out_device) return KD_OK;
    return keel_fail(KD_NOT_FOUND,
                     "there is no device; `keel plugins` says what became of"
                     " each plugin");
  }
  keel_text there = {0};
  size_t size = strlen(name);
  for (uint32_t i = 0; i < context->device_count; i++) {
    keel_device *device = context->devices[i];
    if (!strcmp(device->name, name) ||
        (!strncmp(device->name, name, size) && device->name[size] == ':' &&
         !*out_device))
      *out_device = device;
    keel_text_add(&there, "%s%s", i ? ", " : "", device->name);
  }
  keel_status status = KD_OK;
  if (!*out_device && !there.size) keel_text_add(&there, "none");
  if (!*out_device) add_refusal(context, name, &there);
  if (!*out_device && context->visible)
    keel_text_add(&there, "; only \"%s\" is shown (KEEL_VISIBLE_DEVICES)",
                  context->visible);
  if (!*out_device)
    status = keel_fail(KD_NOT_FOUND, "there is no device \"%s\"; there are %s",
                       name, keel_text_get(&there));
  keel_text_free(&there);
  return status;
}

static uint32_t level_of(const keel_plugin *plugin) {
  if (!plugin->streams.create) return 0;
  if (!plugin->capture.begin) return 1;
  return plugin->regions.compile ? 3 : 2;
}

void keel_device_describe(const keel_device *device,
                          keel_device_facts *out_facts) {
  *out_facts = (keel_device_facts){
      .name = device->name,
      .product = device->info.name,
      .kind = device->info.kind,
      .driver = device->info.driver,
      .plugin = device->plugin->path,
      .level = level_of(device->plugin),
      .flags = device->info.flags,
      .compute_units = device->info.compute_units,
      .kernel_count = device->plugin->kernel_count,
      .memory = device->space.size,
  };
  memcpy(out_facts->uuid, device->info.uuid, sizeof out_facts->uuid);
  if (device->same) out_facts->same_as = device->same->name;
}

const void *keel_device_extension(const keel_device *device, const char *name) {
  const keel_plugin *plugin = device->plugin;
  return plugin->table.extension
             ? plugin->table.extension(plugin->shared->instance, name)
             : NULL;
}

keel_status keel_device_handle(keel_device *device, kd_device **out_handle) {
  KEEL_TRY(keel_device_ready(device));
  *out_handle = device->handle;
  return KD_OK;
}

keel_status keel_device_memory(keel_device *device,
                               keel_memory_facts *out_facts) {
  kd_memory_stats stats = {.struct_size = sizeof stats};
  KEEL_TRY(keel_device_ready(device));
  KEEL_TRY(keel_device_enter(device));
  const kd_memory_table *memory = &device->plugin->memory;
  keel_hush();
  kd_status status = keel_lost_judge(
      device, memory->stats ? memory->stats(device->handle, 0, &stats) : KD_OK);
  keel_lost_leave(device);
  if (status != KD_OK) {
    if (!keel_said())
      keel_fail(status, "no reason given (%s)", keel_status_name(status));
    return keel_while(status, "while asking %s for its memory usage",
                      device->name);
  }
  *out_facts = (keel_memory_facts){
      .total = memory->stats ? stats.total : device->space.size,
      .available = stats.available,
      .used = memory->stats ? stats.used : atomic_load(&device->heap.bytes),
      .buffers =
          memory->stats ? stats.buffers : atomic_load(&device->heap.pieces),
  };
  return KD_OK;
}

keel_status keel_device_kernel(const keel_device *device, uint32_t index,
                               keel_kernel_facts *out_facts) {
  if (index >= device->plugin->kernel_count)
    return keel_fail(KD_OUT_OF_RANGE, "%s has %u kernels", device->name,
                     device->plugin->kernel_count);
  const kd_kernel_def *def = &device->plugin->kernels[index];
  *out_facts = (keel_kernel_facts){
      .domain = def->domain,
      .op = def->op,
      .opset_min = def->opset_min,
      .opset_max = def->opset_max,
  };
  memcpy(out_facts->input_types, def->input_types,
         sizeof out_facts->input_types);
  return KD_OK;
}

keel_status keel_device_push(keel_device *device) {
  if (scope.count == SCOPES)
    return keel_fail(KD_OUT_OF_RANGE, "more than %d device scopes", SCOPES);
  scope.devices[scope.count++] = device;
  return KD_OK;
}

void keel_device_pop(void) {
  if (scope.count) scope.count--;
}

keel_device *keel_device_scope(const keel_context *context) {
  if (!scope.count) return NULL;
  keel_device *device = scope.devices[scope.count - 1];
  return device && device->context == context ? device : NULL;
}

/* ---- asking --------------------------------------------------------------- */

uint32_t keel_plugin_count(const keel_context *context) {
  return context->plugin_count;
}

keel_status keel_plugin_at(const keel_context *context, uint32_t index,
                           keel_plugin_info *out_info) {
  if (index >= context->plugin_count)
    return keel_fail(KD_OUT_OF_RANGE, "there are %u plugins",
                     context->plugin_count);
  const keel_plugin *plugin = context->plugins[index];
  *out_info = (keel_plugin_info){
      .path = plugin->path,
      .source = plugin->source,
      .name = plugin->name,
      .vendor = plugin->vendor,
      .version = plugin->version,
      .abi_version = plugin->abi_version,
      .device_count = plugin->device_count,
      .status = plugin->status,
      .reason = plugin->reason,
      .hint = plugin->hint,
  };
  return KD_OK;
}

keel_status keel_plugin_option(const keel_context *context, uint32_t plugin,
                               uint32_t index, keel_option_facts *out_facts) {
  keel_plugin_info info;
  KEEL_TRY(keel_plugin_at(context, plugin, &info));
  const keel_plugin *it = context->plugins[plugin];
  if (!it->table.options)
    return keel_fail(KD_UNIMPLEMENTED, "%s: it lists no options", info.path);
  if (index >= it->option_def_count)
    return keel_fail(KD_OUT_OF_RANGE, "%s has %u options", info.name,
                     it->option_def_count);
  const kd_option_def *def = &it->option_defs[index];
  *out_facts = (keel_option_facts){
      .name = def->name,
      .type = def->type,
      .choices = def->choices,
      .default_value = def->default_value,
      .doc = def->doc,
  };
  return KD_OK;
}

void keel_get_stats(const keel_context *context, keel_stats *out_stats) {
  uint64_t pooled = atomic_load(&context->pooled);
  uint64_t allocated = atomic_load(&context->allocated);
  *out_stats = (keel_stats){
      .tensor_bytes = allocated > pooled ? allocated - pooled : 0,
      .peak_bytes = atomic_load(&context->peak),
      .pooled_bytes = pooled,
      .kernels = keel_kernel_cache_count(context->kernels),
  };
}

uint32_t keel_worker_count(const keel_context *context) {
  return keel_pool_size(context->pool);
}
