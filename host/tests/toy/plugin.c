/* plugin.c - the toy as a plugin: its models, its device, and the table that says so. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/single.h"
#include "device.h"

static const toy_model models[] = {
#define MODEL(name_, ...) {.name = #name_, __VA_ARGS__},
#include "models.def"
#undef MODEL
};

KD_EXPORT toy_state toy = {.naps = 1, .rebinds = 1};
const toy_model *toy_model_now;
const kd_host *toy_host;
atomic_int toy_buffers, toy_streams, toy_events, toy_captures;

kd_status toy_fail(kd_status status, const char *format, ...) {
  char text[200];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return toy_host->fail(status, "%s: %s", toy_model_now->name, text);
}

static kd_status start(const kd_host *host) {
  const char *ring = getenv("TOY_RING");
  toy_host = host;
  toy.ring = ring ? (int)strtol(ring, NULL, 10) : 0;
  return KD_OK;
}

static kd_status plugin_open(const kd_host *host, kd_instance **out_instance) {
  return single_open(host, start, out_instance);
}

static void plugin_close(kd_instance *instance) {
  (void)instance;
  if (toy_buffers || toy_streams || toy_events || toy_captures)
    toy_host->log(toy_host, KD_LOG_ERROR,
                  "left over: %d buffers, %d streams, %d events, %d recordings",
                  toy_buffers, toy_streams, toy_events, toy_captures);
  toy_trim(NULL);
  single_close();
}

static uint32_t device_count(kd_instance *instance) {
  (void)instance;
  return toy_model_now->devices ? toy_model_now->devices : 1;
}

static kd_status device_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  const toy_model *model = toy_model_now;
  (void)instance, (void)index;
  out_info->flags = KD_DEVICE_SOFTWARE |
                    (model->handles ? 0 : KD_DEVICE_HOST_ADDRESSABLE) |
                    (model->work == AT_ONCE ? KD_DEVICE_INLINE : 0);
  out_info->name = "Keel's toy";
  out_info->kind = "npu";
  memcpy(out_info->uuid, "the toy of tests", sizeof out_info->uuid);
  out_info->space_count = 1;
  return KD_OK;
}

static kd_status space(kd_instance *instance, uint32_t device, uint32_t index,
                       kd_space *out_space) {
  const toy_model *model = toy_model_now;
  (void)instance, (void)device, (void)index;
  out_space->flags =
      (model->handles ? KD_SPACE_DEVICE : 0) |
      (model->maps ? KD_SPACE_HOST_VISIBLE | KD_SPACE_CACHED : 0);
  out_space->alignment = model->alignment;
  return KD_OK;
}

static kd_status device_open(kd_instance *instance, uint32_t index,
                             kd_device **out_device) {
  static char devices[TOY_DEVICES]; /* what tells them apart */
  (void)instance;
  *out_device = (kd_device *)(void *)&devices[index];
  return KD_OK;
}

static void device_close(kd_device *device) {
  (void)device;
}

static const void *extension(kd_instance *instance, const char *name) {
  static const uint32_t watts[] = {75};
  (void)instance;
  return !strcmp(name, "x.linked.power/1") ? watts : NULL;
}

static kd_memory_table memory;
static kd_stream_table streams;
static kd_event_table events;
static kd_kernel_def kernels[TOY_OPS];
static kd_plugin plugin;

static void fill_tables(void) {
  const toy_model *model = toy_model_now;
  bool queues = model->work != AT_ONCE;
  memory = toy_memory();
  streams = toy_stream_table();
  events = toy_event_table();
  plugin = (kd_plugin){
      .struct_size = sizeof plugin,
      .abi_version = KD_ABI_VERSION,
      .opset = model->opset ? model->opset : KD_OPSET,
      .name = model->name,
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
      .kernels = kernels,
      .kernel_count = toy_kernels(kernels),
      .streams = queues ? &streams : NULL,
      .events = queues ? &events : NULL,
      .capture = model->calls_back ? &toy_capture : NULL,
      .regions = model->compiles ? &toy_regions : NULL,
      .extension = model->extends ? extension : NULL,
  };
}

static const toy_model *find_model(const char *name) {
  size_t i = sizeof models / sizeof *models;
  while (i-- && strcmp(models[i].name, name) != 0)
    ;
  return i < sizeof models / sizeof *models ? &models[i] : NULL;
}

const kd_plugin *toy_plugin(const kd_host *host, const char *model) {
  static pthread_mutex_t lock =
      PTHREAD_MUTEX_INITIALIZER; /* hosts may be two */
  bool malformed = toy_malformed_knows(model);
  const kd_plugin *result = &plugin;
  pthread_mutex_lock(&lock);
  if (!toy_model_now) {
    toy_model_now = find_model(malformed ? "plain" : model);
    if (toy_model_now) fill_tables();
  }
  if (!toy_model_now)
    result = NULL;
  else if (malformed)
    result = toy_malformed(host, model, &plugin);
  pthread_mutex_unlock(&lock);
  return result;
}
