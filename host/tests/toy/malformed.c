/* malformed.c - what malformed.def does to the plain toy. */
#include <locale.h>
#include <math.h>
#include <string.h>

#include "common/single.h"
#include "device.h"

#define LATER_BIT   (UINT32_C(1) << 23)
#define LATER_HINTS UINT32_C(0xf0000000)

/* As a later ABI may have it. */
typedef struct longer_option {
  kd_option_def known;
  uint64_t later;
} longer_option;

typedef struct tables {
  kd_plugin plugin;
  uint64_t later[8]; /* what a newer ABI might have appended */
  kd_memory_table memory;
  kd_kernel_def kernels[TOY_OPS];
  longer_option options[4];
  uint32_t device_flags, space_flags, space_alignment, space_count;
  const char *refusal; /* instead of a table */
} tables;

static tables changed;

/* ---- functions that go wrong -------------------------------------------------------- */

static kd_status no_driver(const kd_host *host) {
  return host->fail(KD_UNAVAILABLE, "the flux driver is not installed");
}

static kd_status open_without_driver(const kd_host *host,
                                     kd_instance **out_instance) {
  return single_open(host, no_driver, out_instance);
}

static kd_status open_nothing(const kd_host *host, kd_instance **out_instance) {
  (void)host;
  *out_instance = NULL;
  return KD_OK;
}

static kd_status open_without_device(const kd_host *host,
                                     kd_instance **out_instance) {
  host->log(host, KD_LOG_DEBUG, "looking for flux");
  host->log(host, KD_LOG_INFO, "no device: no flux in slot %d", 3);
  toy_host = host;
  *out_instance = (kd_instance *)(void *)&changed;
  return KD_OK;
}

static uint32_t none(kd_instance *instance) {
  (void)instance;
  return 0;
}

static uint32_t minus_one(kd_instance *instance) {
  (void)instance;
  return (uint32_t)-1;
}

static uint32_t one_too_many(kd_instance *instance) {
  (void)instance;
  return 4097;
}

static kd_status stays_shut(kd_instance *instance, uint32_t index,
                            kd_device **out_device) {
  (void)instance, (void)index;
  *out_device = NULL;
  return KD_UNAVAILABLE; /* without a reason: legal, if unkind */
}

static kd_status device_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  (void)instance, (void)index;
  out_info->name = "Bad device";
  out_info->space_count = changed.space_count;
  out_info->flags = changed.device_flags;
  return KD_OK;
}

static kd_status space(kd_instance *instance, uint32_t device, uint32_t index,
                       kd_space *out_space) {
  (void)instance, (void)device, (void)index;
  out_space->flags = changed.space_flags;
  out_space->alignment = changed.space_alignment;
  return KD_OK;
}

/* ---- tables without slots ------------------------------------------------------------ */

static const kd_stream_table no_streams = {.struct_size = sizeof no_streams};
static const kd_capture_table no_capture = {.struct_size = sizeof no_capture};
static const kd_profile_table no_profile = {.struct_size = sizeof no_profile};
static const kd_peer_table no_peer = {.struct_size = sizeof no_peer};
static const kd_collective_table no_collectives = {.struct_size =
                                                       sizeof no_collectives};

static kd_status no_group(kd_device *const *devices, uint32_t count,
                          kd_group **out_group) {
  (void)devices, (void)count, (void)out_group;
  return KD_UNIMPLEMENTED;
}
static void free_group(kd_group *group) {
  (void)group;
}
static kd_status enqueue_none(kd_group *group, const kd_collective *what) {
  (void)group, (void)what;
  return KD_UNIMPLEMENTED;
}
static kd_status group_status(kd_group *group) {
  (void)group;
  return KD_OK;
}
static const kd_collective_table half_collectives = {
    .struct_size = sizeof half_collectives,
    .create = no_group,
    .destroy = free_group,
    .enqueue = enqueue_none,
    .status = group_status};

static const void *extension_without_slots(kd_instance *instance,
                                           const char *name) {
  static const kd_native_table native = {.struct_size = sizeof native};
  (void)instance;
  return strcmp(name, KD_NATIVE) ? NULL : &native;
}

/* ---- aliases that contradict each other, or name what can't be; the last is sound ------ */

static kd_status enqueue(kd_kernel *kernel, kd_stream *stream,
                         const kd_launch *launch) {
  return kernel || stream || launch ? KD_OK : KD_INTERNAL;
}

static const kd_alias twice[] = {{0, 0, KD_ALIAS_MUST, 0},
                                 {0, 1, KD_ALIAS_MUST, 0}};
static const kd_alias past[] = {{0, 40, 0, 0}};
static const kd_alias on_host[] = {{0, 1, 0, 0}};
static const kd_alias later[] = {{0, 0, 0x2u, 0}};
static const kd_alias good[] = {{0, 0, KD_ALIAS_MUST, 0}, {0, 1, 0, 0}};

#define DEF(name, list)                                                 \
  .struct_size = sizeof(kd_kernel_def), .op = name, .enqueue = enqueue, \
  .aliases = list, .alias_count = sizeof list / sizeof *list
static const kd_kernel_def aliasing[] = {
    {DEF("Relu", twice)},
    {DEF("Abs", past)},
    {DEF("Exp", on_host), .host_inputs = 2},
    {DEF("Sin", later)},
    {DEF("Neg", good)},
};
static const kd_kernel_def too_many_aliases[] = {
    {.struct_size = sizeof(kd_kernel_def),
     .op = "Relu",
     .enqueue = enqueue,
     .aliases = good,
     .alias_count = UINT32_MAX},
    {DEF("Neg", good)},
};
static const kd_op_def one_op = {.struct_size = sizeof one_op};
#define ALIASING (sizeof aliasing / sizeof *aliasing)

/* ---- options and properties ------------------------------------------------------------ */

#define OPTION .struct_size = sizeof(longer_option), .doc = "It does nothing."

static longer_option *has_options(tables *t) {
  const longer_option sound[] = {
      {{OPTION, .name = "queue", .type = KD_OPTION_INTEGER,
        .default_value = "4"},
       ~UINT64_C(0)},
      {{OPTION, .name = "share", .type = KD_OPTION_REAL, .flags = LATER_HINTS},
       ~UINT64_C(0)},
      {{OPTION, .name = "mode", .choices = "fast|safe",
        .default_value = "safe"},
       ~UINT64_C(0)},
      {{OPTION, .name = "later", .type = 77}, ~UINT64_C(0)},
  };
  memcpy(t->options, sound, sizeof sound);
  t->plugin.options = &t->options[0].known;
  t->plugin.option_count = sizeof sound / sizeof *sound;
  return t->options;
}

static kd_status endless_property(kd_instance *instance, uint32_t device,
                                  uint32_t index, kd_property *out_property) {
  (void)instance, (void)device, (void)index;
  *out_property = (kd_property){
      .name = "sound", .unit = "W", .type = KD_PROPERTY_REAL, .real = 2.5};
  return KD_OK;
}

static kd_status odd_property(kd_instance *instance, uint32_t device,
                              uint32_t index, kd_property *out_property) {
  static char longest[400]; /* two bytes, then "ä" without an end */
  static const kd_property odd[] = {
      {.name = "infinite",
       .unit = "a unit that is much too long",
       .type = KD_PROPERTY_REAL,
       .real = INFINITY},
      {.name = "textless", .type = KD_PROPERTY_TEXT},
      {.name = longest, .type = KD_PROPERTY_TEXT, .text = longest},
      {.name = "later",
       .type = KD_PROPERTY_INTEGER,
       .integer = 5,
       .flags = LATER_BIT},
      {.name = "strange", .type = 77},
      {.type = KD_PROPERTY_INTEGER},
  };
  for (size_t i = 0; i + 1 < sizeof longest; i++)
    longest[i] = i < 2 ? 'x' : i % 2 ? '\xa4' : '\xc3';
  if (index == 0)
    return endless_property(instance, device, index, out_property);
  if (index > 6) return toy_host->fail(KD_OUT_OF_RANGE, "there are 7");
  *out_property = odd[index - 1];
  return KD_OK;
}

/* ---- texts of any bytes ------------------------------------------------------------------ */

#define EVIL "o\"\\\n\x1b[31m\a\xc2\x9b\xe2\x80\xae\xff\xed\xa0\x80\xc3"

static kd_status set_comma_locale(const kd_host *host) {
  toy_host = host;
  host->log(host, KD_LOG_ERROR, "%s", EVIL);
  setlocale(LC_ALL, "de_DE.UTF-8"); /* no plugin may */
  return KD_OK;
}

static kd_status open_in_comma_locale(const kd_host *host,
                                      kd_instance **out_instance) {
  return single_open(host, set_comma_locale, out_instance);
}

static kd_status evil_info(kd_instance *instance, uint32_t index,
                           kd_device_info *out_info) {
  (void)instance, (void)index;
  out_info->name = out_info->kind = out_info->driver = EVIL;
  out_info->space_count = 1;
  out_info->flags = KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE;
  return KD_OK;
}

static kd_status evil_property(kd_instance *instance, uint32_t device,
                               uint32_t index, kd_property *out_property) {
  static const kd_property evil[] = {
      {.name = EVIL, .unit = EVIL, .type = KD_PROPERTY_TEXT, .text = EVIL},
      {.name = "share", .type = KD_PROPERTY_REAL, .real = 0.5},
  };
  (void)instance, (void)device;
  if (index > 1) return toy_host->fail(KD_OUT_OF_RANGE, "%s", EVIL);
  *out_property = evil[index];
  return KD_OK;
}

static void has_evil_texts(tables *t) {
  longer_option *options = has_options(t);
  options[0].known.doc = options[2].known.doc = EVIL;
  options[2].known.choices = "fast|safe|" EVIL;
  t->plugin.vendor = t->plugin.version = EVIL;
  t->plugin.open = open_in_comma_locale;
  t->plugin.device_info = evil_info;
  t->plugin.property = evil_property;
}

/* ---- the cases --------------------------------------------------------------------------- */

#define CASE(name, ...)                  \
  static void change_##name(tables *t) { \
    __VA_ARGS__;                         \
  }
#include "malformed.def"
#undef CASE

static const struct {
  const char *name;
  void (*change)(tables *t);
} cases[] = {
#define CASE(name, ...) {"bad_" #name, change_##name},
#include "malformed.def"
#undef CASE
};

static size_t find_case(const char *name) {
  size_t i = 0;
  while (i < sizeof cases / sizeof *cases && strcmp(cases[i].name, name) != 0)
    i++;
  return i;
}

bool toy_malformed_knows(const char *name) {
  return find_case(name) < sizeof cases / sizeof *cases;
}

const kd_plugin *toy_malformed(const kd_host *host, const char *name,
                               const kd_plugin *sound) {
  tables *t = &changed;
  if (!t->plugin.struct_size) {
    t->plugin = *sound;
    t->memory = *sound->memory;
    memcpy(t->kernels, sound->kernels,
           sound->kernel_count * sizeof *t->kernels);
    memset(t->later, 0xff, sizeof t->later);
    t->plugin.name = "bad";
    t->plugin.memory = &t->memory;
    t->plugin.kernels = t->kernels;
    t->plugin.device_info = device_info;
    t->plugin.space = space;
    t->space_count = 1;
    cases[find_case(name)].change(t);
  }
  if (!t->refusal) return &t->plugin;
  host->fail(KD_INCOMPATIBLE, "%s", t->refusal);
  return NULL;
}
