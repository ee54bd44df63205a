/* bad.c - plugins that the loader must refuse, one for each CASE. */
#include <kd/kd.h>
#include <math.h>
#include <string.h>
#include "single.h"

#define OLD        1  /* ABI too old */
#define NEW        2  /* needs a newer host */
#define MAJOR      3  /* another major */
#define NULL_TABLE 4  /* entry returns NULL, with a reason */
#define SHORT      5  /* table shorter than the minimum */
#define OPEN       6  /* open fails */
#define NAME       7  /* a name that no device can have */
#define NO_SLOT    8  /* a needed slot is NULL */
#define EVENTS     9  /* streams without events */
#define STRIDE     10 /* kernel definitions of a senseless size */
#define NO_SYMBOL  11
#define NO_DEVICE  12 /* loads, and has no device: legal */
#define TWIN       13 /* sound; loaded twice under two paths */
#define LARGER     14 /* table larger than the host knows: legal */
#define CAPTURE    15 /* these: a table of a level or option without its slots */
#define PROFILE    16
#define PEER       17
#define COLLECTIVE 18
#define PLUGIN_BIT \
  19 /* these: a bit that must be understood, and is not known */
#define DEVICE_BIT 20
#define SPACE_BIT  21
#define KERNEL_BIT 22
#define ALIASES \
  35 /* aliases that contradict each other, or name what can't be */
#define HINT_BITS    23 /* hints that nobody knows, everywhere: legal */
#define NO_INSTANCE  24 /* open gives none */
#define OPTION_NULL  25 /* these: a list of options that can't be read */
#define OPTION_NAME  26
#define OPTION_TWICE 27
#define OPTION_SHORT 28
#define OPTION_NONE  29 /* options is NULL, option_count is not */
#define OPTION_BIT   30 /* one that must be understood, and is not known */
#define OPTIONS      31 /* a sound list of longer definitions: legal */
#define OPTIONS_NO   32 /* says that it has none: legal */
#define PROPERTIES \
  33 /* properties of every wrong kind, then one without a name */
#define PROPERTY_ALL 34 /* a list of properties that has no end */

#define LATER_BIT   (UINT32_C(1) << 23)
#define LATER_HINTS UINT32_C(0xf0000000)

static const kd_host *host;

static kd_status start(const kd_host *services) {
  host = services;
#if CASE == OPEN
  return host->fail(KD_UNAVAILABLE, "the flux driver is not installed");
#elif CASE == NO_DEVICE
  host->log(host, KD_LOG_DEBUG, "looking for flux");
  host->log(host, KD_LOG_INFO, "no device: no flux in slot %d", 3);
  return KD_OK;
#else
  return KD_OK;
#endif
}
static kd_status plugin_open(const kd_host *services,
                             kd_instance **out_instance) {
  kd_status status = single_open(services, start, out_instance);
  if (CASE == NO_INSTANCE) *out_instance = NULL;
  return status;
}

static void plugin_close(kd_instance *instance) {
  (void)instance;
  single_close();
}
static uint32_t device_count(kd_instance *instance) {
  (void)instance;
  return CASE == NO_DEVICE ? 0 : 1;
}
static kd_status device_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  (void)instance;
  (void)index;
  out_info->name = "Bad device";
  out_info->space_count = 1;
  out_info->flags = CASE == DEVICE_BIT  ? LATER_BIT
                    : CASE == HINT_BITS ? LATER_HINTS
                                        : 0;
  return KD_OK;
}
static kd_status space(kd_instance *instance, uint32_t device, uint32_t index,
                       kd_space *out_space) {
  (void)instance;
  (void)device;
  (void)index;
  out_space->flags = CASE == SPACE_BIT   ? LATER_BIT
                     : CASE == HINT_BITS ? LATER_HINTS
                                         : 0;
  return KD_OK;
}
static kd_status device_open(kd_instance *instance, uint32_t index,
                             kd_device **out_device) {
  (void)instance;
  (void)index;
  *out_device = NULL;
  return KD_UNAVAILABLE; /* without a reason: legal, if unkind */
}
static void device_close(kd_device *device) {
  (void)device;
}
static kd_status allocate(kd_device *device, const kd_allocation *wanted,
                          kd_buffer **out_buffer, void **out_address) {
  uint64_t size = wanted->size;
  (void)device;
  (void)size;
  (void)out_buffer;
  (void)out_address;
  return KD_OUT_OF_MEMORY;
}
static void release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  (void)buffer;
}
static kd_status copy_in(kd_device *device, kd_stream *stream,
                         const void *source, kd_buffer *target, uint64_t offset,
                         uint64_t size) {
  (void)device, (void)stream, (void)source, (void)target, (void)offset;
  (void)size;
  return KD_OK;
}
static kd_status copy_out(kd_device *device, kd_stream *stream,
                          kd_buffer *source, uint64_t offset, void *target,
                          uint64_t size) {
  (void)device, (void)stream, (void)source, (void)target, (void)offset;
  (void)size;
  return KD_OK;
}

static const kd_memory_table memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = CASE == NO_SLOT ? NULL : allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
};

#if CASE == EVENTS
static const kd_stream_table streams = {.struct_size = sizeof streams};
#endif
#if CASE == CAPTURE
static const kd_capture_table capture = {.struct_size = sizeof capture};
#endif
#if CASE == PROFILE
static const kd_profile_table profile = {.struct_size = sizeof profile};
#endif
#if CASE == PEER
static const kd_peer_table peer = {.struct_size = sizeof peer};
#endif
#if CASE == COLLECTIVE
static const kd_collective_table collectives = {.struct_size =
                                                    sizeof collectives};
#endif
#if CASE == STRIDE
static const kd_kernel_def kernels[] = {{.struct_size = 7, .op = "Relu"}};
#endif
#if CASE == ALIASES
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

#define DEF(name, list, ...)                                                \
  {                                                                         \
    .struct_size = sizeof(kd_kernel_def), .op = name, .enqueue = enqueue,   \
    .aliases = list, .alias_count = sizeof list / sizeof *list, __VA_ARGS__ \
  }
static const kd_kernel_def kernels[] = {
    DEF("Relu", twice, .flags = 0),        DEF("Abs", past, .flags = 0),
    DEF("Exp", on_host, .host_inputs = 2), DEF("Sin", later, .flags = 0),
    DEF("Neg", good, .flags = 0),
};
#endif
#if CASE == KERNEL_BIT || CASE == HINT_BITS
static kd_status enqueue(kd_kernel *self, kd_stream *stream,
                         const kd_launch *launch) {
  (void)self, (void)stream, (void)launch;
  return KD_OK;
}
static const kd_kernel_def kernels[] = {
    {.struct_size = sizeof(kd_kernel_def),
     .flags = CASE == KERNEL_BIT ? LATER_BIT : LATER_HINTS,
     .op = "Relu",
     .enqueue = enqueue},
    {.struct_size = sizeof(kd_kernel_def), .op = "Neg", .enqueue = enqueue},
};
#endif

#if CASE == PROPERTIES || CASE == PROPERTY_ALL
static kd_status property(kd_instance *instance, uint32_t device,
                          uint32_t index, kd_property *out_property) {
  static char longest[400]; /* two bytes, then "ä" without an end */
  static const kd_property all[] = {
      {.name = "sound", .unit = "W", .type = KD_PROPERTY_REAL, .real = 2.5},
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
  (void)instance, (void)device;
  for (size_t i = 0; i + 1 < sizeof longest; i++)
    longest[i] = i < 2 ? 'x' : i % 2 ? '\xa4' : '\xc3';
  if (CASE == PROPERTIES && index > 6)
    return host->fail(KD_OUT_OF_RANGE, "there are 7");
  *out_property = all[CASE == PROPERTIES ? index : 0];
  return KD_OK;
}
#endif

#if CASE >= OPTION_NULL && CASE <= OPTIONS_NO
/* As a later ABI may have it. */
typedef struct longer_option {
  kd_option_def known;
  uint64_t later;
} longer_option;

#define OPTION                                                                \
  .struct_size = CASE == OPTION_SHORT ? 40 : (uint32_t)sizeof(longer_option), \
  .doc = "It does nothing.", .name

static const longer_option options[] = {
    {{OPTION = "queue", .type = KD_OPTION_INTEGER, .default_value = "4"},
     ~UINT64_C(0)},
    {{OPTION = CASE == OPTION_NULL    ? NULL
               : CASE == OPTION_NAME  ? "Queue-2"
               : CASE == OPTION_TWICE ? "queue"
                                      : "share",
      .type = KD_OPTION_REAL,
      .flags = CASE == OPTION_BIT ? LATER_BIT : LATER_HINTS},
     ~UINT64_C(0)},
    {{OPTION = "mode", .choices = "fast|safe", .default_value = "safe"},
     ~UINT64_C(0)},
    {{OPTION = "later", .type = 77}, ~UINT64_C(0)},
};
#endif

static const struct {
  kd_plugin known;
  uint64_t later[8]; /* what a newer ABI might have appended */
} table = {{
               .struct_size = CASE == SHORT    ? 24
                              : CASE == LARGER ? sizeof(kd_plugin) + 64
                                               : sizeof(kd_plugin),
               .abi_version = CASE == OLD     ? KD_VERSION(0, 1)
                              : CASE == MAJOR ? KD_VERSION(7, 0)
                              : CASE == NEW   ? KD_VERSION(0, 99)
                                              : KD_ABI_VERSION,
               .abi_min = CASE == NEW ? KD_VERSION(0, 99) : 0,
               .flags = CASE == PLUGIN_BIT  ? LATER_BIT
                        : CASE == HINT_BITS ? LATER_HINTS
                                            : 0,
               .name = CASE == NAME ? "Bad Name!" : "bad",
               .vendor = "Keel's tests",
               .version = "1",
               .open = plugin_open,
               .close = plugin_close,
               .device_count = device_count,
               .device_info = device_info,
               .space = space,
               .device_open = device_open,
               .device_close = device_close,
               .memory = &memory,
#if CASE == EVENTS
               .streams = &streams,
#endif
#if CASE == CAPTURE
               .capture = &capture,
#endif
#if CASE == PROFILE
               .profile = &profile,
#endif
#if CASE == PEER
               .peer = &peer,
#endif
#if CASE == COLLECTIVE
               .collectives = &collectives,
#endif
#if CASE == STRIDE || CASE == KERNEL_BIT || CASE == HINT_BITS || CASE == ALIASES
               .kernels = kernels,
               .kernel_count = sizeof kernels / sizeof *kernels,
#endif
#if CASE == PROPERTIES || CASE == PROPERTY_ALL
               .property = property,
#endif
#if CASE >= OPTION_NULL && CASE <= OPTIONS_NO
               .options = CASE == OPTION_NONE ? NULL : &options[0].known,
               .option_count =
                   CASE == OPTIONS_NO ? 0 : sizeof options / sizeof *options,
#endif
           },
           {~UINT64_C(0)}};

#if CASE == NULL_TABLE
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *services);
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *services) {
  (void)table;
  services->fail(KD_INCOMPATIBLE, "this host has no licence");
  return NULL;
}
#elif CASE == NO_SYMBOL
KD_EXPORT const kd_plugin *another_entry(void);
KD_EXPORT const kd_plugin *another_entry(void) {
  return &table.known;
}
#else
KD_ENTRY(table.known)
#endif
