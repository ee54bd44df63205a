/* named.c - plugins that were named and are refused: an error of the call that named them, a
 * warning if a variable did. Plugins that were only found have a line in the log. */
#include "device/context.h"
#include "device/device.h"
#include "loader/loader.h"

/* The plugin of a name: one that is loaded, else one that is refused, else NULL. */
static const keel_plugin *named_find(const keel_context *context,
                                     const char *name, size_t size) {
  const keel_plugin *found = NULL;
  for (uint32_t i = 0; i < context->plugin_count; i++) {
    const keel_plugin *plugin = context->plugins[i];
    if (!plugin->name || strlen(plugin->name) != size ||
        strncmp(plugin->name, name, size) != 0)
      continue;
    if (plugin->status == KD_OK) return plugin;
    found = plugin;
  }
  return found;
}

/* Why a plugin is refused; its path first, which most reasons begin with. */
static void named_say(const keel_plugin *plugin, char *text, size_t size) {
  bool has_path = !strncmp(plugin->reason, plugin->path, strlen(plugin->path));
  snprintf(text, size, "%s%s%s%s%s", has_path ? "" : plugin->path,
           has_path ? "" : ": ", plugin->reason, *plugin->hint ? "; " : "",
           plugin->hint);
}

static keel_status check_option(const keel_context *context,
                                const char *option) {
  size_t size = strcspn(option, ".");
  const keel_plugin *plugin = named_find(context, option, size);
  if (!plugin)
    return keel_fail(KD_NOT_FOUND,
                     "option \"%.60s\": there is no plugin \"%.*s\" (`keel"
                     " plugins` lists them)",
                     option, (int)(size < 60 ? size : 60), option);
  if (plugin->status == KD_OK) return KD_OK;
  char why[700];
  named_say(plugin, why, sizeof why);
  return keel_fail(plugin->status,
                   "option \"%.60s\": its plugin is refused: %s", option, why);
}

keel_status keel_named_check(const keel_context *context) {
  for (uint32_t i = 0; i < context->plugin_count; i++) {
    const keel_plugin *plugin = context->plugins[i];
    char why[700];
    if (plugin->status == KD_OK || plugin->source != keel_source_application)
      continue;
    named_say(plugin, why, sizeof why);
    return keel_fail(plugin->status, "a plugin that was named is refused: %s",
                     why);
  }
  for (uint32_t i = 0; i < context->option_count; i++)
    KEEL_TRY(check_option(context, context->options[i]));
  return KD_OK;
}

/* Whether the process has not logged it yet: it may open many contexts. */
static bool is_news(const char *text) {
  static atomic_uint_least64_t last;
  uint64_t hash = keel_hash_string(KEEL_HASH_SEED, text);
  return atomic_exchange(&last, hash) != hash;
}

void keel_named_warn(const keel_context *context) {
  bool has_cpu = false;
  for (uint32_t i = 0; i < context->device_count; i++)
    has_cpu |= !strcmp(keel_devices(context)[i]->name, "cpu:0");
  for (uint32_t i = 0; i < context->plugin_count; i++) {
    const keel_plugin *plugin = context->plugins[i];
    bool is_cpu = plugin->name && !strcmp(plugin->name, "cpu") && !has_cpu;
    char why[700];
    if (plugin->status == KD_OK || !(is_cpu || plugin->by_option ||
                                     plugin->source == keel_source_environment))
      continue;
    named_say(plugin, why, sizeof why);
    if (is_news(why))
      keel_log_line(&context->log, KD_LOG_WARNING, "a plugin is refused: %s",
                    why);
  }
}
