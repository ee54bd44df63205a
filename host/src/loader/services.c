/* services.c - what kd_host gives to a plugin. */
#include <ctype.h>

#include "eager/launch.h"
#include "exec/pool.h"
#include "loader/loader.h"
#include "ops/node.h"
#include "program/graph.h"

static keel_plugin *plugin_of(const kd_host *host) {
  return (keel_plugin *)(uintptr_t)host; /* its first member */
}

static void log_line(const kd_host *host, uint32_t level, const char *format,
                     ...) {
  keel_plugin *plugin = plugin_of(host);
  char prefix[80];
  snprintf(prefix, sizeof prefix,
           "%s: ", plugin->name ? plugin->name : plugin->path);
  va_list args;
  va_start(args, format);
  keel_log_args(&plugin->context->log, level, prefix, format, args);
  va_end(args);
}

static const char *environment_option(const keel_plugin *plugin,
                                      const char *name) {
  char variable[128];
  int size = snprintf(variable, sizeof variable, "KEEL_%s_%s",
                      plugin->name ? plugin->name : "", name);
  if (size < 0 || (size_t)size >= sizeof variable) return NULL;
  for (char *at = variable; *at; at++)
    *at = isalnum((unsigned char)*at) ? (char)toupper((unsigned char)*at) : '_';
  return getenv(variable);
}

static const char *option(const kd_host *host, const char *name) {
  const keel_plugin *plugin = plugin_of(host);
  const keel_context *context = plugin->context;
  for (uint32_t i = 0; i < context->option_count && plugin->name; i++) {
    const char *at = context->options[i];
    size_t n = strlen(plugin->name), m = strlen(name);
    if (!strncmp(at, plugin->name, n) && at[n] == '.' &&
        !strncmp(at + n + 1, name, m) && at[n + 1 + m] == '=')
      return at + n + m + 2;
  }
  for (uint32_t i = 0; i < plugin->option_count; i++)
    if (!strcmp(plugin->options[2 * i], name))
      return plugin->options[2 * i + 1];
  return keel_trusts_environment() ? environment_option(plugin, name) : NULL;
}

static void *allocate(uint64_t size, uint64_t alignment) {
  if (!alignment) alignment = 64;
  if (size > SIZE_MAX - alignment || (alignment & (alignment - 1))) return NULL;
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}

static void zone_begin(const char *name) {
  (void)name; /* no trace runs */
}

static void zone_end(void) {}

static void profile_push(const kd_host *host, const kd_profile_record *records,
                         uint32_t count) {
  (void)host; /* no trace runs, so nobody asked for them */
  (void)records;
  (void)count;
}

static const void *extension(const kd_host *host, const char *name) {
  (void)host;
  (void)name;
  return NULL;
}

void keel_services_fill(keel_plugin *plugin) {
  plugin->host = (kd_host){
      .struct_size = sizeof(kd_host),
      .abi_version = KD_ABI_VERSION,
      .abi_min = KD_VERSION(0, 9),
      .name = "keel " KEEL_VERSION,
      .plugin_path = plugin->path,
      .fail = keel_fail,
      .log = log_line,
      .option = option,
      .allocate = allocate,
      .release = free,
      .worker_count = keel_parallel_width,
      .parallel_for = keel_parallel_for,
      .cache_get = keel_store_get,
      .cache_put = keel_store_put,
      .zone_begin = zone_begin,
      .zone_end = zone_end,
      .profile_push = profile_push,
      .set_output = keel_launch_set_output,
      .node = &keel_node_table,
      .graph = &keel_graph_table,
      .extension = extension,
  };
}
