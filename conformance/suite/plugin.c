/* plugin.c - the plugin under test: mapping it, its tables, its devices. */
#include <dlfcn.h>

#include "suite/run.h"
#include "suite/suite.h"
/**/
#include "suite/channel.h"

kc_plugin kp;

static struct {
  kd_device *handle;
  kd_device_info info;
  bool known;
} devices[KC_MAX_DEVICES];

/* ---- tables ------------------------------------------------------------------- */

/* Copies a table of another size; what it lacks is zero. */
static void copy_table(const void *table, void *target, size_t size) {
  uint32_t given = 0;
  memset(target, 0, size);
  if (!table) return;
  memcpy(&given, table, sizeof given);
  memcpy(target, table, given < size ? given : size);
}

static void copy_kernels(void) {
  kp.kernel_count = kp.p.kernels ? kp.p.kernel_count : 0;
  if (!kp.kernel_count) return;
  size_t stride = kp.p.kernels->struct_size;
  KC_NEED(stride >= offsetof(kd_kernel_def, destroy) && stride % 8 == 0,
          "kernel definitions have struct_size %zu", stride);
  kp.kernels = kc_take(kp.kernel_count * sizeof *kp.kernels);
  for (uint32_t i = 0; i < kp.kernel_count; i++) {
    copy_table((const char *)kp.p.kernels + i * stride, &kp.kernels[i],
               sizeof *kp.kernels);
    if (stride < sizeof *kp.kernels) continue;
    memcpy(&kp.kernels[i], (const char *)kp.p.kernels + i * stride,
           sizeof *kp.kernels);
  }
}

static void copy_options(void) {
  uint32_t count = kp.p.options ? kp.p.option_count : 0;
  size_t stride = count ? kp.p.options->struct_size : 0;
  if (stride < offsetof(kd_option_def, doc) + sizeof(char *) || stride % 8)
    return; /* which option.list finds */
  kp.options = kc_take(count * sizeof *kp.options);
  kp.option_count = count;
  for (uint32_t i = 0; i < count; i++)
    copy_table((const char *)kp.p.options + i * stride, &kp.options[i],
               sizeof *kp.options);
}

bool kc_option_listed(const char *name) {
  for (uint32_t i = 0; i < kp.option_count; i++)
    if (kp.options[i].name && !strcmp(kp.options[i].name, name)) return true;
  return !kp.p.options;
}

void kc_load(void) {
  if (kp.mapped) return;
  kc_watch_load();
  kp.mapped = dlopen(kc.plugin, RTLD_NOW | RTLD_LOCAL);
  kc_watch_loaded();
  if (!kp.mapped) kc_stop("dlopen: %s", dlerror());
  kd_entry entry = NULL;
  /* ISO C has no conversion from an object pointer; POSIX promises this one */
  *(void **)&entry = dlsym(kp.mapped, KD_ENTRY_SYMBOL);
  if (!entry) kc_stop("no symbol %s", KD_ENTRY_SYMBOL);
  kp.table = KC_CALL(const kd_plugin *, entry(kc_services()),
                     KD_ENTRY_SYMBOL "(host)");
  if (!kp.table) kc_stop("the entry function gave NULL: %s", kc_message());
  copy_table(kp.table, &kp.p, sizeof kp.p);
#define COPY(type, name, pointer) \
  copy_table(kp.p.pointer, &kp.name, sizeof kp.name);
  KC_TABLES(COPY)
#undef COPY
  if (kc.rule) kc_watch_tables(); /* measuring is done without */
  copy_kernels();
  copy_options();
}

bool kc_claims(kc_level level) {
  switch (level) {
    case KC_ASYNC:
      return kp.p.streams && kp.p.events;
    case KC_REPLAY:
      return kp.p.capture != NULL;
    case KC_COMPILE:
      return kp.p.regions != NULL;
    case KC_PROFILE:
      return kp.p.profile != NULL;
    case KC_PEER:
      return kp.p.peer != NULL;
    case KC_COLLECTIVE:
      return kp.p.collectives != NULL;
    case KC_EXTERNAL:
      return kp.p.external != NULL;
    default:
      return true;
  }
}

kd_status kc_open(void) {
  kc_load();
  if (kp.open) return KD_OK;
  kc_host.closed = false;
  kd_status status =
      KC_CALL(kd_status, kp.p.open(kc_services(), &kp.instance), "open(host)");
  kp.open = status == KD_OK;
  return status;
}

void kc_close(void) {
  if (!kp.open) return;
  KC_DO(kp.p.close(kp.instance), "close()");
  kp.open = false;
  kc_host.closed = true;
}

kd_status kc_allocate(kd_device *device, uint32_t space, uint64_t size,
                      kd_buffer **out_buffer, void **out_address) {
  const kd_allocation wanted = {
      .struct_size = sizeof wanted, .size = size, .space = space};
  return kp.m.allocate(device, &wanted, out_buffer, out_address);
}

/* ---- devices -------------------------------------------------------------------- */

const kd_device_info *kc_info_at(uint32_t index) {
  if (index >= KC_MAX_DEVICES) kc_stop("device %u is one too many", index);
  kc_ok(kc_open(), "open");
  if (devices[index].known) return &devices[index].info;
  kd_device_info *info = &devices[index].info;
  memset(info, 0, sizeof *info);
  info->struct_size = sizeof *info;
  kc_ok(KC_CALL(kd_status, kp.p.device_info(kp.instance, index, info),
                "device_info(%u, out)", index),
        "device_info");
  if (!info->space_count) info->space_count = 1;
  devices[index].known = true;
  return info;
}

kd_space kc_space(uint32_t index) {
  kd_space space = {.struct_size = sizeof space};
  if (!kp.p.space)
    space.flags = KD_SPACE_DEVICE;
  else
    kc_ok(KC_CALL(kd_status, kp.p.space(kp.instance, kc.device, index, &space),
                  "space(%u, %u, out)", kc.device, index),
          "space");
  return space;
}

uint32_t kc_device_count(void) {
  kc_ok(kc_open(), "open");
  return KC_CALL(uint32_t, kp.p.device_count(kp.instance), "device_count");
}

void kc_need_device(void) {
  if (!kc_device_count())
    kc_unclaimed("the plugin has no device on this machine");
}

void kc_need_two_devices(void) {
  if (kc_device_count() < 2) kc_unclaimed("there is one device");
}

kd_device *kc_device_at(uint32_t index) {
  kc_info_at(index);
  if (!devices[index].handle)
    kc_ok(KC_CALL(kd_status,
                  kp.p.device_open(kp.instance, index, &devices[index].handle),
                  "device_open(%u, out)", index),
          "device_open");
  return devices[index].handle;
}

kd_device *kc_device(void) {
  return kc_device_at(kc.device);
}

bool kc_is_open_device(const kd_device *device) {
  bool is = false;
  for (uint32_t i = 0; i < KC_MAX_DEVICES; i++)
    is |= device && devices[i].handle == device;
  return is;
}

const kd_device_info *kc_info(void) {
  return kc_info_at(kc.device);
}

void kc_close_devices(void) {
  kc_run_close();
  for (uint32_t i = 0; i < KC_MAX_DEVICES; i++) {
    if (devices[i].handle)
      KC_DO(kp.p.device_close(devices[i].handle), "device_close(%u)", i);
    devices[i].handle = NULL;
    devices[i].known = false;
  }
}

/* ---- statuses --------------------------------------------------------------------- */

void kc_ok(kd_status status, const char *what) {
  if (status == KD_OK)
    kc_check(true, " ");
  else
    kc_stop("%s returned %s: %s", what, kd_status_name(status), kc_message());
}

void kc_said(kd_status status, const char *what) {
  if (kc.rule && strncmp(kc.rule, "err.", 4) == 0) {
    kc_check(status >= 0 && status < 20,
             "%s returned %d, which is not a status of kd/base.h", what,
             status);
    kc_check(*kc_message(), "%s returned %s and left no message by host->fail",
             what, kd_status_name(status));
    return;
  }
  if (status < 0 || status > 19)
    kc_violation("err.code-defined",
                 "%s returned %d, which is not a status of kd/base.h", what,
                 status);
  else if (!*kc_message())
    kc_violation("err.message",
                 "%s returned %s and left no message by host->fail", what,
                 kd_status_name(status));
}
