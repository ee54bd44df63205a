/* helpers.c - what the suite does in processes of their own, and how those must end. */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rules/rules.h"

/* Opens the plugin, closes it; prints the names of its devices. */
static int help_open(const char *argument) {
  (void)argument;
  kp.mapped = dlopen(kc.plugin, RTLD_NOW | RTLD_LOCAL);
  if (!kp.mapped) {
    printf("dlopen: %s\n", dlerror());
    return 1;
  }
  dlclose(kp.mapped);
  kp.mapped = NULL;
  kc_load();
  kd_status status = kc_open();
  if (status != KD_OK) {
    printf("open: %s: %s\n", kd_status_name(status), kc_message());
    return 2;
  }
  uint32_t count = kp.p.device_count(kp.instance);
  for (uint32_t i = 0; i < count && i < KC_MAX_DEVICES; i++) {
    const kd_device_info *info = kc_info_at(i);
    printf("%s|%s|", info->name, info->kind);
    for (int k = 0; k < 16; k++)
      printf("%02x", info->uuid[k]);
    putchar('\n');
  }
  kc_close();
  return 0;
}

/* Prints the kernel definitions, without opening anything. */
static int help_kernels(const char *argument) {
  (void)argument;
  kc_load();
  for (uint32_t i = 0; i < kp.kernel_count; i++)
    printf("%s %s %u\n", kp.kernels[i].domain ? kp.kernels[i].domain : "-",
           kp.kernels[i].op ? kp.kernels[i].op : "-", kp.kernels[i].flags);
  return 0;
}

/* Ends the process without a close, as many programs do. */
static int help_exit(const char *argument) {
  kc_load();
  if (kc_open() != KD_OK) return 2;
  if (kp.p.device_count(kp.instance) > 0) {
    kd_device *device = kc_device();
    if (kc_claims(KC_ASYNC) && !strcmp(argument, "busy")) {
      kd_stream *stream = NULL;
      if (kp.s.create(device, 0, 0, &stream) == KD_OK)
        kc_busy(stream, 20 * KC_MS);
    }
  }
  exit(7);
}

/* Closes, unmaps, waits a little, ends. */
static int help_unload(const char *argument) {
  (void)argument;
  const kc_tasks known = kc_tasks_now();
  bool ended = true;
  char names[300];
  for (int i = 0; i < 5; i++) {
    kc_load();
    bool may = (kp.p.flags & KD_PLUGIN_UNLOADABLE) != 0;
    if (kc_open() != KD_OK) return 2;
    if (kp.p.device_count(kp.instance) > 0) kc_device();
    kc_close_devices();
    kc_close();
    if (!may) return 0;
    if (ended && !kc_tasks_ended(&known, names, sizeof names)) {
      ended = false;
      printf("after close threads of the plugin run: %s\n", names);
      fflush(stdout);
    }
    dlclose(kp.mapped);
    memset(&kp, 0, sizeof kp);
    kc_sleep(20 * KC_MS);
  }
  return ended ? 7 : 5;
}

/* The child of a fork ends without hanging. */
static int help_fork(const char *argument) {
  (void)argument;
  kc_load();
  if (kc_open() != KD_OK) return 2;
  if (kp.p.device_count(kp.instance) > 0) kc_device();
  pid_t pid = fork();
  if (pid == 0) exit(0);
  int status = 0;
  waitpid(pid, &status, 0);
  kc_close_devices();
  kc_close();
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 7 : 3;
}

/* Another plugin's library first or last, then a smoke test. */
static int help_twice(const char *argument) {
  char line[600];
  snprintf(line, sizeof line, "%s", argument);
  void *other = dlopen(line, RTLD_NOW | RTLD_LOCAL);
  kd_entry entry = NULL;
  if (!other) {
    printf("the copy: %s\n", dlerror());
    return 1;
  }
  *(void **)&entry = dlsym(other, KD_ENTRY_SYMBOL);
  const kd_plugin *table = entry ? entry(kc_services()) : NULL;
  kd_host *services = kc_services_copy();
  kd_instance *theirs = NULL;
  if (!table || table->open(services, &theirs) != KD_OK) return 2;
  kc_load();
  if (kc_open() != KD_OK) return 3;
  if (kp.p.device_count(kp.instance) != table->device_count(theirs)) return 4;
  if (kp.p.device_count(kp.instance) > 0) {
    kd_device *a = NULL, *b = NULL;
    if (table->device_open(theirs, 0, &b) != KD_OK ||
        kp.p.device_open(kp.instance, 0, &a) != KD_OK)
      return 5;
    table->device_close(b);
    table->close(theirs);
    kd_buffer *buffer = NULL;
    void *address = NULL;
    if (kc_allocate(a, 0, 100, &buffer, &address) != KD_OK) return 6;
    kp.m.release(a, buffer);
    kp.p.device_close(a);
  } else {
    table->close(theirs);
  }
  kc_close();
  return 7;
}

static atomic_int foreign; /* messages to the second host */

static kd_status fail_second(kd_status code, const char *format, ...) {
  (void)format;
  atomic_fetch_add(&foreign, 1);
  return code;
}

/* A second host, that comes and goes while the first one's device is open. */
static int help_hosts(const char *argument) {
  (void)argument;
  kd_host *services = kc_services_copy();
  services->fail = fail_second;
  kd_instance *second = NULL;
  kc_load();
  if (kc_open() != KD_OK) return 2;
  uint32_t count = kp.p.device_count(kp.instance);
  kd_device *device = count ? kc_device() : NULL;
  kd_status status = kp.p.open(services, &second);
  if (status != KD_OK && status != KD_ALREADY_EXISTS) {
    printf("the second open returned %s\n", kd_status_name(status));
    return 3;
  }
  if (status == KD_OK && (!second || second == kp.instance)) {
    printf("the second host got %s\n",
           second ? "the first one's instance" : "none");
    return 4;
  }
  atomic_store(&foreign, 0);
  kd_device_info info = {.struct_size = sizeof info};
  for (int closed = 0; closed < 2; closed++) {
    kp.p.device_info(kp.instance, UINT32_MAX, &info);
    if (atomic_load(&foreign)) {
      printf("the first host's call was answered to the second\n");
      return 5;
    }
    if (status == KD_OK && !closed) kp.p.close(second);
  }
  if (kp.p.device_count(kp.instance) != count) return 6;
  if (device) {
    kd_buffer *buffer = NULL;
    void *address = NULL;
    char data[16] = "two hosts", back[16] = "";
    if (kc_allocate(device, 0, sizeof data, &buffer, &address) != KD_OK ||
        kp.m.copy_in(device, NULL, data, buffer, 0, sizeof data) != KD_OK ||
        kp.m.copy_out(device, NULL, buffer, 0, back, sizeof back) != KD_OK ||
        memcmp(data, back, sizeof data) != 0)
      return 8;
    kp.m.release(device, buffer);
    kc_close_devices();
  }
  kc_close();
  return 9;
}

int kc_help_first_use(const char *argument);

const kc_helper_entry kc_helpers[] = {
    {"open", help_open},   {"kernels", help_kernels},
    {"exit", help_exit},   {"unload", help_unload},
    {"fork", help_fork},   {"twice", help_twice},
    {"hosts", help_hosts}, {"first-use", kc_help_first_use},
};
const uint32_t kc_helper_count = KC_COUNT_OF(kc_helpers);

bool kc_helper_ends(const char *name, const char *argument, int wanted,
                    const char *what) {
  char out[2000];
  bool late = false;
  int status = kc_helper(name, argument, 10 * KC_S, out, sizeof out, &late);
  if (late) return kc_check(false, "%s: the process hung", what);
  if (WIFSIGNALED(status))
    return kc_check(false, "%s: the process died of %s: %.300s", what,
                    strsignal(WTERMSIG(status)), out);
  return kc_check(WEXITSTATUS(status) == wanted,
                  "%s: the process ended with %d instead of %d: %.300s", what,
                  WEXITSTATUS(status), wanted, out);
}
