/* trouble.c - the minimal plugin under its file's name, which does what the variable TROUBLE says:
 * "FILE:PLACE:WHAT", with blanks between several. PLACE is a slot's name, or "load" or "end",
 * when the linker loads the library and when the process ends. */
#include <dlfcn.h>
#include <fcntl.h>
#include <kd/kd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef KD_ENTRY
#define KD_ENTRY(plugin)
#include "minimal.c" /* NOLINT(bugprone-suspicious-include): the whole of it */

static char own_name[32];

/* What does no harm to a command that expects it: goes on. */
static void disturb(const char *what) {
  if (!strcmp(what, "print")) {
    printf("}garbage[");
    fflush(stdout);
    (void)!write(STDOUT_FILENO, "\"more", 5);
  }
  if (!strcmp(what, "fork") && fork() == 0) { /* holds all descriptors */
    alarm(60);
    for (;;)
      pause();
  }
}

static void harm(const char *what) {
  if (!strcmp(what, "segv")) raise(SIGSEGV);
  if (!strcmp(what, "kill")) raise(SIGKILL);
  if (!strcmp(what, "abort")) abort();
  if (!strcmp(what, "exit")) exit(0);
  if (!strcmp(what, "exit7")) exit(7);
  if (!strcmp(what, "_exit")) _exit(0);
  while (!strcmp(what, "hang"))
    pause();
  if (!strncmp(what, "second=", 7)) { /* not where the file is missing */
    int file = open(what + 7, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0) raise(SIGSEGV);
    close(file);
  }
}

static void at(const char *place) {
  const char *list = getenv("TROUBLE");
  char file[32], where[32], what[200];
  while (list &&
         sscanf(list, " %31[^:]:%31[^:]:%199s", file, where, what) == 3) {
    if (!strcmp(file, own_name) && !strcmp(where, place)) {
      disturb(what);
      harm(what);
    }
    list += strspn(list, " ");
    list += strcspn(list, " ");
  }
}

__attribute__((constructor)) static void load(void) {
  Dl_info facts;
  if (!dladdr((void *)(uintptr_t)at, &facts)) return;
  const char *slash = strrchr(facts.dli_fname, '/');
  snprintf(own_name, sizeof own_name, "%s",
           slash ? slash + 1 : facts.dli_fname);
  own_name[strcspn(own_name, ".")] = 0;
  at("load");
}

__attribute__((destructor)) static void unload(void) {
  at("end");
}

static kd_status troubled_open(const kd_host *host,
                               kd_instance **out_instance) {
  at("open");
  return open_driver(host, out_instance);
}

static uint32_t troubled_count(kd_instance *instance) {
  at("device_count");
  return device_count(instance);
}

static kd_status troubled_info(kd_instance *instance, uint32_t index,
                               kd_device_info *out_info) {
  at("device_info");
  return device_info(instance, index, out_info);
}

static kd_status troubled_device(kd_instance *instance, uint32_t index,
                                 kd_device **out_device) {
  at("device_open");
  return device_open(instance, index, out_device);
}

static void troubled_close(kd_instance *instance) {
  at("close");
  close_driver(instance);
}

KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host);

KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host) {
  static kd_plugin plugin;
  (void)host;
  at("entry");
  plugin = minimal_plugin;
  plugin.name = own_name;
  plugin.open = troubled_open;
  plugin.device_count = troubled_count;
  plugin.device_info = troubled_info;
  plugin.device_open = troubled_device;
  plugin.close = troubled_close;
  return &plugin;
}
