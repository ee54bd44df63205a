/* list.c - `keel plugins`, `keel devices`, `keel ops`, `keel passes`. */
#include <kd/device.h>
#include <kd/option.h>
#include <kd/property.h>

#include "system/printable.h"
#include "tool.h"
#include "watched.h"

/* The options of these commands besides the common ones. */
typedef struct listing {
  common common;
  const char *device;
  double limit;
  bool json, markdown, memory, options, properties;
} listing;

static listing given = {.limit = WATCHED_LIMIT};

static int list_parse(const char *name, const char *help, const option *options,
                      int argc, char **argv) {
  given.common.command = name;
  const command syntax = {help, options, &given.common, NULL, false};
  return options_read(&syntax, argc, argv);
}

#define JSON \
  { "--json", .help = "as JSON", .flag = &given.json }

#define LIMIT                                                         \
  {                                                                   \
    "--limit", "SECONDS",                                             \
        "how long a call into a plugin may take (30), before it is\n" \
        "refused; 0: as long as it takes",                            \
        .number = &given.limit                                        \
  }

/* ---- plugins -------------------------------------------------------------- */

static const char *type_name(uint32_t type) {
  return type == KD_OPTION_INTEGER ? "integer"
         : type == KD_OPTION_REAL  ? "real"
                                   : "text";
}

/* "  tiles = auto   auto, on or off" and what it does. */
static void print_options(const keel_context *context, uint32_t plugin) {
  keel_option_facts option;
  uint32_t count = 0;
  keel_status status = KD_OK;
  while ((status = keel_plugin_option(context, plugin, count, &option)) ==
         KD_OK) {
    char value[80];
    snprintf(value, sizeof value, "%s=%.60s", option.name,
             option.default_value ? option.default_value : "");
    print("  %s%-22s %s\n", count++ ? "           " : "options    ",
          shown(value),
          option.choices ? shown(option.choices) : type_name(option.type));
    if (*option.doc) print("               %s\n", shown(option.doc));
  }
  if (!count)
    print("  options    %s\n",
          status == KD_OUT_OF_RANGE ? "none" : "not listed");
}

static void print_options_json(const keel_context *context, uint32_t plugin) {
  keel_option_facts option;
  uint32_t count = 0;
  if (keel_plugin_option(context, plugin, 0, &option) == KD_UNIMPLEMENTED) {
    print(", \"options\": null");
    return;
  }
  print(", \"options\": [");
  for (; keel_plugin_option(context, plugin, count, &option) == KD_OK;
       count++) {
    print("%s\n    {\"name\": ", count ? "," : "");
    keel_write_json(result, option.name);
    print(", \"type\": \"%s\"", type_name(option.type));
    const char *const texts[] = {"choices", option.choices,
                                 "default", option.default_value,
                                 "doc",     option.doc};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i += 2) {
      print(", \"%s\": ", texts[i]);
      if (texts[i + 1])
        keel_write_json(result, texts[i + 1]);
      else
        print("null");
    }
    print("}");
  }
  print("%s]", count ? "\n  " : "");
}

static void print_plugin(const keel_plugin_info *info) {
  print("%s\n", shown(info->path));
  print("  found by   %s\n", shown(info->source));
  if (info->name)
    print("  plugin     %s %s by %s\n", info->name,
          info->version ? info->version : "?",
          info->vendor ? info->vendor : "?");
  if (info->abi_version)
    print("  ABI        %u.%u (this host has %d.%d)\n", info->abi_version >> 16,
          info->abi_version & 0xffff, KD_ABI_MAJOR, KD_ABI_MINOR);
  if (info->status == KD_OK && !info->abi_version)
    print("  status     not loaded\n");
  else if (info->status == KD_OK)
    print("  status     loaded, %u device%s\n", info->device_count,
          info->device_count == 1 ? "" : "s");
  else
    print("  status     REFUSED: %s\n", keel_status_name(info->status));
  if (*info->reason) print("  reason     %s\n", info->reason);
  if (*info->hint) print("  hint       %s\n", shown(info->hint));
}

static void print_plugin_json(const keel_plugin_info *info) {
  const struct {
    const char *name, *value;
  } fields[] = {{"path", info->path},       {"source", info->source},
                {"name", info->name},       {"vendor", info->vendor},
                {"version", info->version}, {"reason", info->reason},
                {"hint", info->hint}};
  print("  {\"status\": \"%s\", \"devices\": %u, \"abi\": \"%u.%u\"",
        keel_status_name(info->status), info->device_count,
        info->abi_version >> 16, info->abi_version & 0xffff);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    print(", \"%s\": ", fields[i].name);
    keel_write_json(result, fields[i].value ? fields[i].value : "");
  }
}

static int list_plugins(void) {
  keel_context *context = common_open(&given.common, KEEL_ALLOW_REFUSED);
  if (!context) return 1;
  int status = 0;
  uint32_t count = keel_plugin_count(context);
  if (given.json) print("[\n");
  for (uint32_t i = 0; i < count; i++) {
    keel_plugin_info info;
    keel_plugin_at(context, i, &info);
    status |= info.status != KD_OK;
    if (!given.json) {
      print_plugin(&info);
      if (given.options) print_options(context, i);
      continue;
    }
    print_plugin_json(&info);
    if (given.options) print_options_json(context, i);
    print("}%s\n", i + 1 == count ? "" : ",");
  }
  if (given.json)
    print("]\n");
  else if (!count)
    print(
        "no plugins: looked in KEEL_PLUGIN_PATH, the manifests in"
        " ~/.config/keel/plugins.d, /etc/keel/plugins.d and"
        " /usr/share/keel/plugins.d, and the folder keel/ beside libkeel\n");
  keel_close(context);
  return status;
}

int keel_main_plugins(int argc, char **argv) {
  static const option options[] = {
      LIMIT,
      {"--options",
       .help = "and the options of each: name and default,\n"
               "the values that it takes, and what it does",
       .flag = &given.options},
      JSON,
      {0}};
  int status = list_parse(
      "plugins",
      "usage: keel plugins [OPTION]...\n\n"
      "Lists every plugin candidate, and whether it was loaded or why not. A\n"
      "child process looks at them: a plugin that ends or hangs it is "
      "refused.\n"
      "Exit status 1 if one was refused.\n\n",
      options, argc, argv);
  return status >= 0 ? status : watched_run(list_plugins, given.limit);
}

/* ---- devices -------------------------------------------------------------- */

static void print_memory(keel_device *device, const keel_device_facts *facts) {
  const double gib = 1u << 30;
  keel_memory_facts memory;
  if (!device) {
    if (facts->memory)
      print("  memory     %.1f GiB\n", (double)facts->memory / gib);
  } else if (keel_device_memory(device, &memory) != KD_OK) {
    print("  memory     not known: %s\n", keel_message());
  } else {
    print("  memory     ");
    if (memory.total) print("%.1f GiB, ", (double)memory.total / gib);
    if (memory.available)
      print("%.1f GiB free, ", (double)memory.available / gib);
    print("%llu bytes of this process\n", (unsigned long long)memory.used);
  }
}

static void print_value(const keel_property *property) {
  if (property->type == KD_PROPERTY_TEXT)
    print("%s", property->text);
  else if (property->type == KD_PROPERTY_REAL)
    print("%g", property->real);
  else if (property->type == KD_PROPERTY_INTEGER)
    print("%lld", (long long)property->integer);
  else
    print("not known now");
}

static void print_properties(const keel_device *device) {
  keel_property property;
  keel_status status = KD_OK;
  uint32_t count = 0;
  for (;; count++) {
    status = keel_device_property(device, count, &property);
    if (status != KD_OK) break;
    print("  %s%-20s ", count ? "           " : "properties ", property.name);
    print_value(&property);
    print("%s%s\n", *property.unit ? " " : "", property.unit);
  }
  if (status != KD_OUT_OF_RANGE)
    print("  properties not known: %s\n", keel_message());
}

/* ", "properties": {"clock": {"value": 1000000000, "unit": "Hz"}, ...}" */
static void print_properties_json(const keel_device *device) {
  keel_property property;
  print(", \"properties\": {");
  for (uint32_t i = 0; keel_device_property(device, i, &property) == KD_OK;
       i++) {
    print("%s\n    ", i ? "," : "");
    keel_write_json(result, property.name);
    print(": {\"value\": ");
    if (property.type == KD_PROPERTY_TEXT)
      keel_write_json(result, property.text);
    else if (property.type == KD_PROPERTY_NONE)
      print("null");
    else
      print_value(&property);
    print(", \"unit\": ");
    keel_write_json(result, property.unit);
    print("}");
  }
  print("}");
}

/* device: to ask for its memory, or NULL */
static void print_device(const keel_device_facts *facts, keel_device *device) {
  static const char *const levels[] = {"core", "async", "replay", "compile"};
  print("%s\n", facts->name);
  print("  product    %s (%s)\n", facts->product, facts->kind);
  if (*facts->driver) print("  driver     %s\n", facts->driver);
  print("  level      %u %s%s%s\n", facts->level, levels[facts->level & 3],
        facts->flags & KD_DEVICE_INLINE ? ", inline" : "",
        facts->flags & KD_DEVICE_HOST_ADDRESSABLE ? ", host-addressable" : "");
  if (facts->compute_units) print("  units      %u\n", facts->compute_units);
  print_memory(device, facts);
  print("  kernels    %u\n", facts->kernel_count);
  if (facts->same_as)
    print("  same as    %s, through another plugin\n", facts->same_as);
  print("  plugin     %s\n", shown(facts->plugin));
}

static void print_device_json(const keel_device_facts *facts,
                              const keel_device *device) {
  print("  {\"name\": \"%s\", \"product\": ", facts->name);
  keel_write_json(result, facts->product);
  print(", \"kind\": ");
  keel_write_json(result, facts->kind);
  print(", \"level\": %u, \"kernels\": %u, \"memory\": %llu, \"plugin\": ",
        facts->level, facts->kernel_count, (unsigned long long)facts->memory);
  keel_write_json(result, facts->plugin);
  if (facts->same_as) print(", \"same_as\": \"%s\"", facts->same_as);
  if (given.properties) print_properties_json(device);
}

/* Reports the plugins whose devices are missing, besides the list. */
static void print_refusals(const keel_context *context) {
  for (uint32_t i = 0; i < keel_plugin_count(context); i++) {
    keel_plugin_info info;
    keel_plugin_at(context, i, &info);
    if (info.status != KD_OK)
      tell("keel: %s was refused: %s (`keel plugins` says more)",
           shown(info.name && *info.name ? info.name : info.path), info.reason);
  }
}

static int list_devices(void) {
  keel_context *context =
      common_open(&given.common, watched_broken() ? KEEL_ALLOW_REFUSED : 0);
  if (!context) return 1;
  uint32_t count = keel_device_count(context);
  if (given.json) print("[\n");
  for (uint32_t i = 0; i < count; i++) {
    keel_device_facts facts;
    keel_device *device = keel_device_at(context, i);
    keel_device_describe(device, &facts);
    if (given.json) {
      print_device_json(&facts, device);
      print("}%s\n", i + 1 == count ? "" : ",");
    } else {
      print_device(&facts, given.memory ? device : NULL);
      if (given.properties) print_properties(device);
    }
    watched_own();
  }
  if (given.json)
    print("]\n");
  else if (!count)
    print("no devices: `keel plugins` shows why\n");
  print_refusals(context);
  keel_close(context);
  return count ? 0 : 1;
}

int keel_main_devices(int argc, char **argv) {
  static const option options[] = {
      LIMIT,
      {"--memory", .help = "opens them, and shows their free memory",
       .flag = &given.memory},
      {"--properties", .help = "and all properties of each, with units",
       .flag = &given.properties},
      JSON,
      {0}};
  int status = list_parse(
      "devices",
      "usage: keel devices [OPTION]...\n\n"
      "Lists the devices of the plugins that were loaded, as\n"
      "KEEL_VISIBLE_DEVICES shows them: \"opencl,vulkan:1\" those alone,\n"
      "\"-opencl\" all but those. A child process looks at plugins. Exit "
      "status\n"
      "1 if there is no device, or if a plugin ends or hangs that process.\n\n",
      options, argc, argv);
  return status >= 0 ? status : watched_run(list_devices, given.limit);
}

/* ---- ops ------------------------------------------------------------------ */

/* The types of a definition that names none. */
static const uint64_t every = (UINT64_C(1) << KD_DTYPE_COUNT) - 2;

static void types_text(uint64_t types, char *text, size_t size) {
  size_t used = 0;
  snprintf(text, size, "%s", types == every ? "all that the op allows" : "");
  for (kd_dtype i = 1; types != every && i < KD_DTYPE_COUNT && used < size; i++)
    if (types & KD_TYPES(i))
      used += (size_t)snprintf(text + used, size - used, "%s%s",
                               used ? " " : "", keel_dtype_name(i));
}

typedef struct row {
  char op[130]; /* with its domain, but for ONNX's */
  uint64_t types;
  bool any; /* one definition takes all that the op allows */
} row;

static int by_op(const void *a, const void *b) {
  return strcmp(((const row *)a)->op, ((const row *)b)->op);
}

/* One row an op: what its definitions take as the first input. */
static uint32_t collect_ops(keel_device *device, row *rows, uint32_t capacity) {
  keel_kernel_facts facts;
  uint32_t count = 0;
  for (uint32_t i = 0; keel_device_kernel(device, i, &facts) == KD_OK; i++) {
    uint32_t at = 0;
    row made = {.types = 0};
    bool plain = !strcmp(facts.domain, "ai.onnx");
    snprintf(made.op, sizeof made.op, "%s%s%s", plain ? "" : facts.domain,
             plain ? "" : "::", facts.op);
    while (at < count && strcmp(rows[at].op, made.op) != 0)
      at++;
    if (at == count && count < capacity) rows[count++] = made;
    if (at < capacity) {
      rows[at].types |= facts.input_types[0];
      rows[at].any |= facts.input_types[0] == every;
    }
  }
  qsort(rows, count, sizeof *rows, by_op);
  return count;
}

static void print_op_json(const char *op, const char *types, bool last) {
  print("  {\"op\": ");
  keel_write_json(result, op);
  print(", \"types\": \"%s\"}%s\n", types, last ? "" : ",");
}

static void print_ops(const listing *all, keel_device *device) {
  static row rows[1024];
  keel_device_facts facts;
  keel_device_describe(device, &facts);
  uint32_t count = collect_ops(device, rows, 1024);
  if (all->json)
    print("[\n");
  else if (all->markdown)
    print("| op | types of the first input |\n| --- | --- |\n");
  else
    print("%s: %u ops\n", facts.name, count);
  for (uint32_t i = 0; i < count; i++) {
    char types[300];
    types_text(rows[i].any ? every : rows[i].types, types, sizeof types);
    if (all->json)
      print_op_json(rows[i].op, types, i + 1 == count);
    else if (all->markdown)
      print("| %s | %s |\n", shown(rows[i].op), types);
    else
      print("  %-28s %s\n", shown(rows[i].op), types);
  }
  if (all->json) print("]\n");
  const char *op = NULL;
  if (!all->json && !all->markdown)
    print("and on every device, by the runtime itself:");
  for (uint32_t i = 0; (op = keel_runtime_op(i)) && !all->json; i++) {
    if (all->markdown)
      print("| %s | (the runtime, on every device) |\n", op);
    else
      print("%s%s", i % 6 ? " " : "\n  ", op);
  }
  if (!all->json && !all->markdown) print("\n");
}

static int list_ops(void) {
  keel_context *context =
      common_open(&given.common, watched_broken() ? KEEL_ALLOW_REFUSED : 0);
  keel_device *device = NULL;
  int status = 0;
  if (!context) return 1;
  if (keel_device_find(context, given.device, &device) != KD_OK)
    status = complain();
  else
    print_ops(&given, device);
  print_refusals(context);
  keel_close(context);
  return status;
}

int keel_main_ops(int argc, char **argv) {
  static const option options[] = {
      LIMIT,
      {"--device", "D", "the device (default: the default device)",
       .text = &given.device},
      {"--markdown", .help = "as a Markdown table", .flag = &given.markdown},
      JSON,
      {0}};
  int status = list_parse(
      "ops",
      "usage: keel ops [--device D] [OPTION]...\n\n"
      "Lists the ops that a device supports, with the types of the first "
      "input.\nA child process looks at plugins. Exit status 1 if there is no "
      "such device,\nor if a plugin ends or hangs that process.\n\n",
      options, argc, argv);
  return status >= 0 ? status : watched_run(list_ops, given.limit);
}

/* ---- passes --------------------------------------------------------------- */

int keel_main_passes(int argc, char **argv) {
  static const option options[] = {JSON, {0}};
  int status = list_parse(
      "passes",
      "usage: keel passes [OPTION]...\n\n"
      "Lists the passes that transform a model before it runs, in their\n"
      "order. Those in brackets can be left out: keel run --skip-pass PASS.\n"
      "`keel compile` stops before the first pass with a star; those run in"
      "\nevery process.\n\n",
      options, argc, argv);
  if (status >= 0) return status;
  const char *name = NULL;
  if (given.json) printf("[\n");
  for (uint32_t i = 0; (name = keel_pass_name(i)); i++) {
    int needed = keel_pass_needed(i);
    char bracketed[40];
    snprintf(bracketed, sizeof bracketed, needed ? "%s" : "[%s]", name);
    if (!given.json)
      printf("%c %-12s %s\n", keel_pass_last(i) ? '*' : ' ', bracketed,
             keel_pass_about(i));
    else
      printf(
          "  {\"pass\": \"%s\", \"needed\": %s, \"last\": %s, \"about\": "
          "\"%s\"}%s\n",
          name, needed ? "true" : "false", keel_pass_last(i) ? "true" : "false",
          keel_pass_about(i), keel_pass_name(i + 1) ? "," : "");
  }
  if (given.json) printf("]\n");
  return 0;
}
