/* instance.h - kernels of a plugin that uses the families: definitions, plans that follow
 * host inputs, and launches. The plugin supplies how to compile and launch a pass. */
#ifndef KEEL_FAMILIES_INSTANCE_H
#define KEEL_FAMILIES_INSTANCE_H

#include "families/dialect.h"
#include "families/programs.h"
#include "families/record.h"
#include "families/script.h"
#include "families/streams.h"
#include "families/tune.h"

typedef struct fam_driver {
  const kd_host *host;
  const char *name; /* of the device, for messages */
  fam_dialect dialect;
  bool shared; /* as in fam_plan, and the next two */
  uint32_t wide, lanes;
  fam_script *script; /* gets all commands; or NULL */
  fam_tuner *tuner;   /* NULL: there is none, and the next two may be NULL */
  const kd_memory_table *memory;
  const kd_stream_table *streams;
  const fam_marks *marks;
  const fam_recorder *recorder;

  /* The pass in the device's language; host->release frees it. */
  char *(*source)(const kd_host *host, const fam_dialect *dialect,
                  const fam_pass *pass);
  /* Whether a pass can be compiled at all; NULL: all can. */
  kd_status (*can)(kd_device *device, const fam_pass *pass);
  /* Prepares a pass for launches; called once per pass. */
  kd_status (*compile)(kd_device *device, const fam_pass *pass,
                       void **out_program);
  void (*release)(kd_device *device, void *program);
  /* Enqueues a command. `stream` NULL: beside all streams, and done when this returns. One
   * at a time for a program. */
  kd_status (*run)(kd_device *device, kd_stream *stream,
                   const fam_command *command, uint64_t correlation);
  /* Whether a library computes products, or convolutions, and so only what it knows is to
   * be done behind them in one (epilogue.h; behind convolutions nothing). NULL: none does. */
  bool (*has_library)(kd_device *device, bool convolution);
  /* Its programs, for regions that are kept as a whole; NULL: they are not. */
  fam_programs *programs;
  /* For profilers: called with an op's name before what it enqueues, and with NULL after.
   * May be NULL. */
  void (*range)(const char *name);
} fam_driver;

/* A plugin's kd_device begins with its driver, and its kd_buffer with the size. */
static inline const fam_driver *fam_driver_of(const kd_device *device) {
  return (const fam_driver *)(const void *)device;
}
static inline uint64_t fam_size_of(const kd_buffer *buffer) {
  return *(const uint64_t *)(const void *)buffer;
}

/* The option "tiles" (auto, on, off): whether groups share tiles in local memory;
 * auto: as `prefer`. */
bool fam_tiles(const kd_host *host, bool prefer);
/* Whether it leaves the choice to the device's facts. */
bool fam_tiles_are_free(const kd_host *host);
#define FAM_TILES_OPTION                                                \
  OPTION("tiles", "auto|on|off", "auto",                                \
         "Products go through tiles in the memory that a group shares;" \
         " auto: where that is faster, and through registers alone on"  \
         " processors; off: through neither.")

/* kd_plugin.run_begin */
void fam_run_begin(kd_device *device, uint64_t correlation);

/* For kd_plugin.kernels. */
extern const kd_kernel_def fam_kernels[FAM_ROW_COUNT];

/* For kd_plugin.regions: chains of elementwise ops, each compiled as one kernel. */
extern const kd_region_table fam_regions;

/* What such plugins have in common in their kd_plugin; `prefix` is that of their tables. */
#define FAM_PLUGIN(plugin, prefix)                                             \
  .struct_size = sizeof(kd_plugin), .abi_version = KD_ABI_VERSION,             \
  .opset = KD_OPSET, .name = #plugin, .vendor = "Keel", .version = "0.1.0",    \
  .open = plugin##_plugin_open, .close = plugin##_plugin_close,                \
  .device_count = plugin##_device_count, .device_info = plugin##_device_info,  \
  .space = plugin##_space, .property = plugin##_property,                      \
  .device_open = plugin##_device_open, .device_close = plugin##_device_close,  \
  .run_begin = fam_run_begin, .extension = plugin##_extension,                 \
  .memory = &prefix##_memory, .regions = &fam_regions, .kernels = fam_kernels, \
  .kernel_count = FAM_ROW_COUNT, .streams = &prefix##_streams,                 \
  .events = &fam_events, .capture = &fam_captures,                             \
  .profile = &prefix##_profile, .options = options,                            \
  .option_count = sizeof options / sizeof *options

#endif /* KEEL_FAMILIES_INSTANCE_H */
