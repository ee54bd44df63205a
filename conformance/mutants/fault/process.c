/* process.c - defects that change the process or the calling thread. */
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "mutants/fault/fault.h"

static void on_signal(int number) {
  (void)number;
}

static void write_log(const char *folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/mutant.log", folder ? folder : ".");
  FILE *log = fopen(path, "we");
  if (log) fclose(log);
}

void change_process(void) {
#if defined(__x86_64__)
  if (BUG(sets_fpu)) _mm_setcsr(_mm_getcsr() | 0x8040);
  if (BUG(sets_direction)) __asm__ volatile("std");
#endif
  if (BUG(sets_handler)) signal(SIGUSR1, on_signal);
  if (BUG(sets_mask)) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
  }
  if (BUG(sets_environment)) setenv("MUTANT_WAS_HERE", "1", 1);
  if (BUG(sets_locale)) setlocale(LC_ALL, "C.UTF-8");
  if (BUG(writes_here)) write_log(".");
  if (BUG(writes_home)) write_log(getenv("HOME"));
  if (BUG(sets_directory) && chdir("/usr") != 0) return;
  if (BUG(sets_umask)) umask(077);
  if (BUG(sets_limit)) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_cur > 200 ? 200 : 100;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (BUG(keeps_socket) && socket(AF_INET, SOCK_STREAM, 0) < 0) return;
  if (BUG(pins_caller)) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  if (BUG(nices_caller) && nice(3) == -1) return;
}
