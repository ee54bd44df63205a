/* state.c - what of the process is not the plugin's to change. */
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rules/rules.h"

/* What a folder of the child's own has in it: the runner made it empty. What begins with a
 * dot is a driver's, in a home folder. */
static void look_into(const char *folder, bool hidden_too) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", kc.scratch, folder);
  DIR *entries = opendir(path);
  const struct dirent *entry = NULL;
  kc_check(entries != NULL, "%s is gone", path);
  while (entries && (entry = readdir(entries)))
    kc_check(!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
                 (entry->d_name[0] == '.' && !hidden_too),
             "it wrote %s into the %s", entry->d_name,
             hidden_too ? "working directory" : "home folder");
  if (entries) closedir(entries);
}

static void state_files(void) {
  if (!kc.scratch) kc_unclaimed("in a process of the suite's only");
  kc_smoke();
  look_into("cwd", true);
  look_into("home", false);
}

/* What a thread finds that comes later, and what it leaves. */
static void work_on_thread(void *context, uint32_t index) {
  char bytes[64] = {0};
  (void)index;
  kc_write(context, 0, bytes, sizeof bytes);
  kc_read(context, 0, bytes, sizeof bytes);
}

static void state_fpu(void) {
  kc_smoke();
  kc_buffer *buffer = kc_buffer_make(64);
  kc_threads(1, work_on_thread, buffer);
  kc_buffer_free(buffer);
}

/* Of the Internet's: what a driver says to its own daemon stays on the machine. */
static void state_network(void) {
  uint32_t sockets = 0;
  kc_smoke();
  for (int fd = 4; fd < 256; fd++) {
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof own;
    sockets += !getsockname(fd, (struct sockaddr *)&own, &size) &&
               (own.ss_family == AF_INET || own.ss_family == AF_INET6);
  }
  kc_check(sockets == 0, "it keeps %u sockets of the Internet's open", sockets);
}

#define RULE(severity, id, check, flags, sentence, about)         \
  KC_RULE(severity, CORE, id, check, flags, "plugin.h", sentence, \
          "kd_plugin.open kd_kernel_def.enqueue", about)

#define PROCESS_RULE(id, about)                                           \
  RULE(MUST, id, kc_smoke, KC_WATCHED,                                    \
       "It changes no state of the process: signal handlers and masks,"   \
       " environment, locale, working directory, umask, resource limits", \
       about)

static const kc_rule rules[] = {
    RULE(MUST, "state.fpu", state_fpu, KC_WATCHED,
         "It leaves the floating-point control word unchanged",
         "A library built with -ffast-math turns subnormals off for the whole"
         " process (llvm/llvm-project#57589). Watched around each call."),
    PROCESS_RULE(
        "state.signals",
        "A handler of its own for SIGSEGV takes the application's debugger and"
        " crash reports away."),
    PROCESS_RULE("state.environment",
                 "setenv races with every getenv of the process."),
    PROCESS_RULE(
        "state.locale",
        "With a comma as the decimal point the application's files can't be"
        " read any more."),
    PROCESS_RULE("state.directory",
                 "Relative paths of the application lead nowhere."),
    PROCESS_RULE(
        "state.umask",
        "Files of the application become readable to all, or to nobody."),
    PROCESS_RULE("state.limits",
                 "Raising a limit is the administrator's business."),
    RULE(
        MUST, "state.direction-flag", kc_smoke, KC_WATCHED,
        "It leaves the floating-point control word unchanged",
        "Assembler that forgets cld breaks the next memcpy. Watched around each"
        " call."),
    RULE(
        SHOULD, "state.files", state_files, 0,
        "It writes files only through host->cache_put",
        "Caches of its own fill disks and races with other processes. Looked "
        "for"
        " in the working directory, and in HOME but for names with a dot, which"
        " drivers write."),
    RULE(SHOULD, "state.network", state_network, 0, "It opens no socket",
         "Many places where models run have no network, or forbid it."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT_AS(sets_fpu, "state.fpu", KC_AROUND, "flush-to-zero is switched on"),
    DEFECT(fast_math, "state.fpu", "flush-to-zero is switched on when the library is loaded"),
    DEFECT_AS(sets_handler, "state.signals", KC_AROUND, "a handler for SIGUSR1 is installed"),
    DEFECT_AS(sets_mask, "state.signals", KC_AROUND, "SIGTERM is blocked"),
    DEFECT_AS(sets_environment, "state.environment", KC_AROUND, "a variable is set"),
    DEFECT_AS(sets_locale, "state.locale", KC_AROUND, "the locale is set"),
    DEFECT_AS(writes_here, "state.files", KC_AROUND, "a log is written into the working directory"),
    DEFECT_AS(writes_home, "state.files", KC_AROUND, "a log is written into the home folder"),
    DEFECT_AS(sets_directory, "state.directory", KC_AROUND, "the working directory is changed"),
    DEFECT_AS(sets_umask, "state.umask", KC_AROUND, "the umask is changed"),
    DEFECT_AS(sets_limit, "state.limits", KC_AROUND, "a resource limit is changed"),
    DEFECT_AS(sets_direction, "state.direction-flag", KC_AROUND, "the direction flag stays set"),
    DEFECT_AS(keeps_socket, "state.network", KC_AROUND, "a socket is kept open"),
};
/* clang-format on */

KC_AREA(state, "The process's state");
