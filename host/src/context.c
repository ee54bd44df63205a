/* context.c - opening and closing the runtime, and asking for its devices. */
#include "device/context.h"
#include "device/device.h"
#include "device/stream.h"
#include "loader/device.h"

#include <sched.h>
#include <unistd.h>

#include "base/params.h"
#include "device/lost.h"
#include "eager/cache.h"
#include "layers/layers.h"
#include "loader/clocks.h"
#include "loader/library.h"
#include "loader/loader.h"
#include "loader/visible.h"
#include "memory/copy.h"
#include "memory/transfer.h"
#include "ops/registry.h"
#include "services/services.h"
#include "system/environment.h"
#include "threads/cancel.h"
#include "threads/pool.h"
#include "values/type.h"

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
  const char *variable = keel_environment("KEEL_THREADS");
  const bool apart = params->workers == KEEL_CALLERS_APART;
  if (params->workers < KEEL_CALLERS_APART || params->workers > 1024)
    return keel_fail(KD_INVALID_ARGUMENT, "workers is %d; the maximum is 1024",
                     params->workers);
  if (params->workers && !apart) {
    *out_workers = params->workers < 0 ? 0 : (uint32_t)params->workers;
  } else if (variable && *variable) {
    char *end = NULL;
    long threads = strtol(variable, &end, 10);
    if (*end || threads < 0 || threads > 1025)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "KEEL_THREADS is \"%s\"; it is a number from 0 to 1025",
                       variable);
    *out_workers =
        threads ? (uint32_t)threads - 1 : 0; /* 0: the caller alone */
  } else {
    *out_workers = usable_threads() - 1;
  }
  if (apart && *out_workers < 1024) ++*out_workers;
  return KD_OK;
}

static void choose_default(keel_context *context) {
  const char *wanted = keel_environment("KEEL_DEVICE");
  keel_device *device = NULL;
  if (wanted && *wanted && keel_device_find(context, wanted, &device) != KD_OK)
    keel_log_line(&context->log, KD_LOG_WARNING, "KEEL_DEVICE: %s",
                  keel_message());
  for (uint32_t i = 0; i < context->device_count && !device; i++)
    if (!strcmp(keel_devices(context)[i]->name, "cpu:0"))
      device = keel_devices(context)[i];
  if (!device && context->device_count) device = keel_devices(context)[0];
  context->default_device = device;
}

/* Copies the parameters that must outlive the call. */
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

static keel_status copy_visible(keel_context *context, const char *list) {
  if (!list || !*list) list = keel_environment("KEEL_VISIBLE_DEVICES");
  const char *copy = NULL;
  if (list && *list) {
    KEEL_TRY(keel_visible_check(list));
    copy = keel_arena_copy(&context->arena, list);
    if (!copy) return KD_OUT_OF_MEMORY;
  }
  context->visible = copy;
  return KD_OK;
}

static keel_status context_fill(keel_context *context,
                                const keel_context_params *params) {
  uint32_t workers = 0;
  context->flags = params->flags;
  context->services = &keel_services;
  context->log.write = params->log;
  context->log.context = params->log_context;
  context->step = params->step;
  context->step_context = params->step_context;
  keel_log_init(&context->log);
  context->memory_limit =
      params->memory_limit
          ? params->memory_limit
          : (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  context->pool_limit = context->memory_limit / 4;
  KEEL_TRY(keel_layers_ready());
  KEEL_TRY(copy_options(context, params));
  KEEL_TRY(copy_visible(context, params->visible));
  context->by_variable =
      context->visible && !(params->visible && *params->visible);
  KEEL_TRY(workers_wanted(params, &workers));
  KEEL_TRY(keel_pool_retain(workers, &context->pool));
  keel_registry_fill();
  KEEL_TRY(keel_schema_ready());
  KEEL_TRY(keel_kernel_cache_create(&context->kernels));
  KEEL_TRY(keel_op_cache_create(&context->ops));
  KEEL_TRY(keel_search(context, params, keel_plugin_add));
  keel_plugins_learn(context);
  if (!(params->flags & (KEEL_DESCRIBE | KEEL_ALLOW_REFUSED)))
    KEEL_TRY(keel_named_check(context));
  keel_named_warn(context);
  keel_visible_warn(context);
  keel_options_warn(context);
  choose_default(context);
  return KD_OK;
}

static atomic_uint open_contexts; /* of the process: the layers are its own */

keel_status keel_open(const keel_context_params *params,
                      keel_context **out_context) {
  keel_context_params all;
  *out_context = NULL;
  KEEL_TRY(keel_plugin_outside("keel_open"));
  KEEL_TRY(KEEL_READ_PARAMS(keel_context_params, params,
                            offsetof(keel_context_params, plugins), &all));
  KEEL_TRY(
      keel_params_flags("a context", all.flags,
                        KEEL_ONLY_NAMED | KEEL_DESCRIBE | KEEL_ALLOW_REFUSED));
  keel_context *context = calloc(1, sizeof *context);
  if (!context) return keel_no_memory(sizeof *context);
  atomic_fetch_add(&open_contexts, 1);
  keel_heap_init(&context->host, context, NULL);
  keel_heap_enlist(&context->host);
  keel_status status = context_fill(context, &all);
  if (status != KD_OK) {
    keel_close(context);
    return status;
  }
  *out_context = context;
  return KD_OK;
}

/* ---- devices -------------------------------------------------------------- */

keel_status keel_show(keel_context *context, const char *visible) {
  static pthread_mutex_t showing = PTHREAD_MUTEX_INITIALIZER;
  if (context->flags & KEEL_DESCRIBE)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "devices can't be shown where plugins are only described:"
                     " open a runtime without KEEL_DESCRIBE");
  KEEL_TRY(keel_plugin_outside("keel_show"));
  pthread_mutex_lock(&showing);
  keel_status status = copy_visible(context, visible);
  for (uint32_t i = 0; status == KD_OK && i < context->plugin_count; i++)
    keel_plugin_show(context->plugins[i]);
  if (status == KD_OK) keel_visible_warn(context);
  if (status == KD_OK && !context->default_device) choose_default(context);
  pthread_mutex_unlock(&showing);
  return status;
}

/* ---- lost devices ----------------------------------------------------------- */

/* Frees what only the runtime holds of a lost device, and closes the device if nothing else
 * is held. */
static keel_status context_give_up(keel_device *device) {
  /* from now on other threads only free objects */
  keel_device_wait_unused(device);
  keel_transfers_end(device);
  keel_device_drain_quietly(device);
  keel_heap_drain(&device->heap);
  keel_device_wait_unused(device);
  /* acquire: pairs with the releases in keel_device_unpin and on the heap's `pieces` */
  uint64_t pieces =
      atomic_load_explicit(&device->heap.pieces, memory_order_acquire);
  uint32_t held = atomic_load_explicit(&device->pins, memory_order_acquire);
  if (pieces || held)
    return keel_fail(KD_FAILED_PRECONDITION,
                     "%s was lost, and cannot be reopened while anything of it "
                     "is held; release its tensors and plans (%llu allocations "
                     "on it and %u parts of plans are left)",
                     device->name, (unsigned long long)pieces, held);
  keel_instances_destroy(device);
  keel_device_wait_unused(device); /* threads that got a kernel before */
  keel_clock_closes(device);
  keel_device_leave(device);
  return KD_OK;
}

keel_status keel_device_reopen(keel_device *device) {
  KEEL_TRY(keel_plugin_outside("keel_device_reopen"));
  pthread_mutex_lock(&device->opening);
  bool lost = atomic_load(&device->lost);
  keel_status status = lost && device->handle ? context_give_up(device) : KD_OK;
  if (status == KD_OK &&
      !atomic_load_explicit(&device->ready, memory_order_acquire))
    status = keel_device_open_locked(device);
  pthread_mutex_unlock(&device->opening);
  return status;
}

void keel_close(keel_context *context) {
  if (!context) return;
  if (keel_plugin_outside("keel_close") != KD_OK) {
    keel_log_line(&context->log, KD_LOG_ERROR, "%s; the context is left open",
                  keel_message());
    return;
  }
  /* acquire: pairs with the release of each decrement */
  while (atomic_load_explicit(&context->async_runs, memory_order_acquire))
    if (!keel_pool_help(context->pool)) sched_yield();
  for (uint32_t i = 0; i < context->device_count; i++)
    keel_transfers_end(keel_devices(context)[i]);
  keel_op_cache_destroy(context->ops);
  keel_kernel_cache_destroy(context->kernels);
  keel_pool_release(context->pool);
  for (uint32_t i = context->device_count; i-- > 0;)
    keel_device_close(keel_devices(context)[i]);
  for (uint32_t i = context->plugin_count; i-- > 0;)
    keel_plugin_close(context->plugins[i]);
  if (atomic_fetch_sub(&open_contexts, 1) == 1)
    keel_layers_report(&context->log);
  keel_heap_deinit(&context->host);
  free(context->plugins);
  keel_arena_free(&context->arena);
  free(context);
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
      .type_bytes = keel_type_bytes(),
  };
}

keel_status keel_cancel_create(keel_context *context,
                               keel_cancel **out_cancel) {
  return keel_cancel_new(context->pool, out_cancel);
}

uint32_t keel_worker_count(const keel_context *context) {
  return keel_pool_size(context->pool);
}
