/* options.c - options of plugins: their lists, the sources of values, and their checks. */
#include <ctype.h>
#include <errno.h>

#include "device/context.h"
#include "loader/library.h"
#include "loader/loader.h"
#include "system/environment.h"

extern char **environ;

/* ---- the environment ------------------------------------------------------ */

/* "KEEL_CPU_ISA": false where it would be too long. */
static bool name_variable(const char *plugin, const char *name, char *variable,
                          size_t capacity) {
  int size =
      snprintf(variable, capacity, "KEEL_%s_%s", plugin ? plugin : "", name);
  for (char *at = variable; *at; at++)
    *at = isalnum((unsigned char)*at) ? (char)toupper((unsigned char)*at) : '_';
  return size >= 0 && (size_t)size < capacity;
}

/* The value of KEEL_<PLUGIN>_<NAME>, whose name goes to `variable`; or NULL. */
static const char *of_environment(const char *plugin, const char *name,
                                  char variable[128]) {
  return name_variable(plugin, name, variable, 128) ? keel_environment(variable)
                                                    : NULL;
}

/* ---- an open plugin's values ---------------------------------------------- */

const char *keel_option_get(const kd_host *host, const char *name) {
  /* a library's first member */
  const keel_library *library = (const keel_library *)(const void *)host;
  char variable[128];
  for (uint32_t i = 0; i < library->option_count; i++)
    if (!strcmp(library->options[2 * i], name))
      return library->options[2 * i + 1];
  return of_environment(library->name, name, variable);
}

void keel_options_add(const keel_library *library, keel_text *out) {
  char begin[128];
  for (uint32_t i = 0; i < library->option_count; i++)
    keel_text_add(out, "/%s=%s", library->options[2 * i],
                  library->options[2 * i + 1]);
  if (!keel_trusts_environment() ||
      !name_variable(library->name, "", begin, sizeof begin))
    return;
  for (char **at = environ; *at; at++)
    if (!strncmp(*at, begin, strlen(begin))) keel_text_add(out, "/%s", *at);
}

/* ---- the plugin's list ---------------------------------------------------- */

static bool valid_name(const char *name) {
  if (!name || !islower((unsigned char)*name)) return false;
  size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
  return !name[size] && size <= 32;
}

static const kd_option_def *options_find(const keel_plugin *plugin,
                                         const char *name) {
  for (uint32_t i = 0; i < plugin->option_def_count; i++)
    if (!strcmp(plugin->option_defs[i].name, name))
      return &plugin->option_defs[i];
  return NULL;
}

/* Puts copies in place of the strings, which go with a library that is refused. */
static keel_status keep_strings(keel_arena *arena, kd_option_def *def) {
  const char **const strings[] = {&def->name, &def->choices,
                                  &def->default_value, &def->doc};
  if (!def->doc) def->doc = "";
  for (size_t i = 0; i < KEEL_COUNT_OF(strings); i++) {
    if (!*strings[i]) continue;
    *strings[i] = keel_arena_copy(arena, *strings[i]);
    if (!*strings[i]) return KD_OUT_OF_MEMORY;
  }
  return KD_OK;
}

static keel_status add_def(keel_plugin *plugin, const kd_option_def *given,
                           size_t size, uint32_t index) {
  kd_option_def *def = &plugin->option_defs[plugin->option_def_count];
  memset(def, 0, sizeof *def);
  memcpy(def, given, size < sizeof *def ? size : sizeof *def);
  if (!valid_name(def->name))
    return keel_fail(KD_INCOMPATIBLE,
                     "%s: the name of option %u is %s%.40s%s; it must match"
                     " [a-z][a-z0-9_]{0,31}",
                     plugin->path, (unsigned)index, def->name ? "\"" : "",
                     def->name ? def->name : "NULL", def->name ? "\"" : "");
  if (options_find(plugin, def->name))
    return keel_fail(KD_INCOMPATIBLE, "%s: it lists option %s twice",
                     plugin->path, def->name);
  if (keel_flags_of_option(plugin, def) != KD_OK) {
    keel_log_line(&plugin->context->log, KD_LOG_WARNING, "%s; it is not used",
                  keel_message());
    return KD_OK;
  }
  KEEL_TRY(keep_strings(&plugin->context->arena, def));
  plugin->option_def_count++;
  return KD_OK;
}

keel_status keel_options_read(keel_plugin *plugin) {
  const kd_plugin *table = &plugin->table;
  plugin->option_def_count = 0;
  if (!table->option_count) return KD_OK;
  if (!table->options)
    return keel_fail(KD_INCOMPATIBLE, "%s: options is NULL, option_count is %u",
                     plugin->path, (unsigned)table->option_count);
  size_t stride = table->options->struct_size;
  if (stride < offsetof(kd_option_def, doc) + sizeof(char *) ||
      stride % _Alignof(kd_option_def) || stride > 4096 ||
      table->option_count > 1000)
    return keel_fail(KD_INCOMPATIBLE,
                     "%s: %u option definitions of struct_size %zu",
                     plugin->path, (unsigned)table->option_count, stride);
  plugin->option_defs = keel_arena_take(
      &plugin->context->arena, table->option_count * sizeof(kd_option_def));
  if (!plugin->option_defs) return KD_OUT_OF_MEMORY;
  const char *at = (const char *)table->options;
  for (uint32_t i = 0; i < table->option_count; i++, at += stride)
    KEEL_TRY(
        add_def(plugin, (const kd_option_def *)(const void *)at, stride, i));
  return KD_OK;
}

/* ---- values --------------------------------------------------------------- */

static bool is_integer(const char *text) {
  char *end = NULL;
  if (!isdigit((unsigned char)text[text[0] == '-'])) return false;
  errno = 0;
  strtoll(text, &end, 10);
  return !*end && !errno;
}

/* Behind the digits at `at`; NULL: there are none. */
static const char *digits(const char *at) {
  size_t size = strspn(at, "0123456789");
  return size ? at + size : NULL;
}

/* In any locale, which strtod would heed. */
static bool is_real(const char *text) {
  const char *at = digits(text + (*text == '-'));
  if (at && *at == '.') at = digits(at + 1);
  if (at && (*at == 'e' || *at == 'E'))
    at = digits(at + 1 + (at[1] == '-' || at[1] == '+'));
  return at && !*at;
}

static bool is_of_type(uint32_t type, const char *text) {
  return type == KD_OPTION_INTEGER ? is_integer(text)
         : type == KD_OPTION_REAL  ? is_real(text)
                                   : true;
}

/* One of "auto|on|off". */
static bool is_choice(const char *choices, const char *value) {
  size_t size = strlen(value);
  for (const char *at = choices;; at++) {
    size_t one = strcspn(at, "|");
    if (one == size && !strncmp(at, value, size)) return true;
    at += one;
    if (!*at) return false;
  }
}

bool keel_option_fits(const kd_option_def *def, const char *value) {
  return is_of_type(def->type, value) &&
         (!def->choices || is_choice(def->choices, value));
}

static keel_status misfit(const keel_plugin *plugin, const kd_option_def *def,
                          const char *value, const char *from) {
  keel_text wanted = {0};
  for (const char *at = def->choices; at && *at;) {
    size_t one = strcspn(at, "|");
    keel_text_add(&wanted, "%s%.*s", wanted.size ? ", " : "one of ", (int)one,
                  at);
    at += one + (at[one] == '|');
  }
  if (!def->choices)
    keel_text_add(&wanted, "%s",
                  def->type == KD_OPTION_INTEGER ? "a whole number"
                                                 : "a number like 0.5");
  keel_status status =
      keel_fail(KD_INVALID_ARGUMENT,
                "%s: option %s is \"%.100s\" (from %s); it must be %s",
                plugin->path, def->name, value, from, keel_text_get(&wanted));
  keel_text_free(&wanted);
  return status;
}

static keel_status options_check_value(const keel_plugin *plugin,
                                       const kd_option_def *def,
                                       const char *value, const char *from) {
  return keel_option_fits(def, value) ? KD_OK
                                      : misfit(plugin, def, value, from);
}

/* ---- names ---------------------------------------------------------------- */

#define NEAREST 3

/* "isa, products, regions": those of the list that are most like the name. */
static void add_nearest(const keel_plugin *plugin, const char *name,
                        keel_text *out) {
  bool taken[1000] = {false}; /* no list is longer */
  for (uint32_t n = 0; n < NEAREST && n < plugin->option_def_count; n++) {
    uint32_t best = UINT32_MAX;
    unsigned least = UINT32_MAX;
    for (uint32_t i = 0; i < plugin->option_def_count; i++) {
      unsigned distance = keel_distance(plugin->option_defs[i].name, name);
      if (taken[i] || distance >= least) continue;
      least = distance;
      best = i;
    }
    taken[best] = true;
    keel_text_add(out, "%s%s", n ? ", " : "", plugin->option_defs[best].name);
  }
}

static keel_status unknown(const keel_plugin *plugin, const char *name,
                           const char *from) {
  keel_text near = {0};
  if (plugin->option_def_count) keel_text_add(&near, "nearest are ");
  add_nearest(plugin, name, &near);
  if (!plugin->option_def_count) keel_text_add(&near, "it has none");
  keel_status status =
      keel_fail(KD_INVALID_ARGUMENT,
                "%s: plugin %s has no option \"%.60s\" (from %s); %s",
                plugin->path, plugin->name, name, from, keel_text_get(&near));
  keel_text_free(&near);
  return status;
}

/* `size` bytes of a name. */
static keel_status check_given(const keel_plugin *plugin, const char *name,
                               size_t size, const char *value,
                               const char *from) {
  char word[64]; /* longer than any name that is listed */
  snprintf(word, sizeof word, "%.*s", (int)(size < 60 ? size : 60), name);
  const kd_option_def *def = options_find(plugin, word);
  return def ? options_check_value(plugin, def, value, from)
             : unknown(plugin, word, from);
}

/* The name behind "plugin." where the application's option is of the plugin, or NULL. */
static const char *of_plugin(const char *option, const char *plugin) {
  size_t size = strlen(plugin);
  return !strncmp(option, plugin, size) && option[size] == '.'
             ? option + size + 1
             : NULL;
}

/* Whether the application or the manifest gives it, so that no variable counts. */
static bool is_given(const keel_plugin *plugin, const kd_option_def *def) {
  const keel_context *context = plugin->context;
  size_t size = strlen(def->name);
  for (uint32_t i = 0; i < context->option_count; i++) {
    const char *name = of_plugin(context->options[i], plugin->name);
    if (name && !strncmp(name, def->name, size) && name[size] == '=')
      return true;
  }
  for (uint32_t i = 0; i < plugin->option_count; i++)
    if (!strcmp(plugin->options[2 * i], def->name)) return true;
  return false;
}

keel_status keel_options_check(const keel_plugin *plugin) {
  const keel_context *context = plugin->context;
  if (!plugin->table.options) return KD_OK;
  for (uint32_t i = 0; i < context->option_count; i++) {
    const char *name = of_plugin(context->options[i], plugin->name);
    const char *equals = name ? strchr(name, '=') : NULL;
    if (equals)
      KEEL_TRY(check_given(plugin, name, (size_t)(equals - name), equals + 1,
                           "the application"));
  }
  for (uint32_t i = 0; i < plugin->option_count; i++) {
    const char *name = plugin->options[2 * i];
    KEEL_TRY(check_given(plugin, name, strlen(name), plugin->options[2 * i + 1],
                         "the manifest"));
  }
  char variable[128];
  for (uint32_t i = 0; i < plugin->option_def_count; i++) {
    const kd_option_def *def = &plugin->option_defs[i];
    const char *value = of_environment(plugin->name, def->name, variable);
    if (value && !is_given(plugin, def))
      KEEL_TRY(options_check_value(plugin, def, value, variable));
  }
  return KD_OK;
}

/* ---- values without a reader ---------------------------------------------- */

/* The plugin whose variables begin as this one does, of several the one of the longest
 * name; *out_rest is what follows. */
static const keel_plugin *owner(const keel_context *context,
                                const char *variable, const char **out_rest) {
  const keel_plugin *found = NULL;
  size_t longest = 0;
  char begin[128];
  for (uint32_t i = 0; i < context->plugin_count; i++) {
    const keel_plugin *plugin = context->plugins[i];
    if (!plugin->name || !name_variable(plugin->name, "", begin, sizeof begin))
      continue;
    size_t size = strlen(begin);
    if (size <= longest || strncmp(variable, begin, size) != 0) continue;
    found = plugin;
    longest = size;
  }
  *out_rest = variable + longest;
  return found;
}

static bool is_keels_own(const char *variable) {
  static const char *const own[] = {"KEEL_PLUGIN_PATH=",
                                    "KEEL_VISIBLE_DEVICES="};
  for (size_t i = 0; i < KEEL_COUNT_OF(own); i++)
    if (!strncmp(variable, own[i], strlen(own[i]))) return true;
  return false;
}

/* A variable may be meant for another version or another program: nothing is refused for it. */
static void warn_variable(const keel_context *context, const char *variable) {
  char name[64], from[128];
  const char *rest = NULL;
  if (strncmp(variable, "KEEL_", 5) != 0 || is_keels_own(variable)) return;
  const keel_plugin *plugin = owner(context, variable, &rest);
  if (!plugin || !plugin->open || !plugin->table.options) return;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "="), rest);
  for (char *at = name; *at; at++)
    *at = (char)tolower((unsigned char)*at);
  if (options_find(plugin, name)) return;
  snprintf(from, sizeof from, "%.*s", (int)strcspn(variable, "="), variable);
  unknown(plugin, name, from);
  keel_log_line(&context->log, KD_LOG_WARNING, "%s; it is ignored",
                keel_message());
}

void keel_options_warn(const keel_context *context) {
  for (char **at = environ; keel_trusts_environment() && at && *at; at++)
    warn_variable(context, *at);
}
