/* helper.c - this program again, in a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite/suite.h"

#define KC_OPTIONS 64 /* as many as main.c takes */

int kc_helper(const char *name, const char *argument, uint64_t timeout,
              char *out, size_t room, bool *out_timed_out) {
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) kc_stop("the suite has no pipe left");
  pid_t pid = fork();
  if (pid == 0) {
    dup2(pipes[1], 1);
    dup2(pipes[1], 2);
    close(3);
    close(4);
    for (int number = 1; number < 32; number++)
      signal(number, SIG_DFL);
    const char *argv[6 + KC_OPTIONS] = {"keel-conformance", "__helper", name,
                                        kc.plugin, argument};
    for (uint32_t i = 0; i < kc.option_count && i < KC_OPTIONS; i++)
      argv[5 + i] = kc.options[i];
    execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
    _exit(98);
  }
  close(pipes[1]);
  fcntl(pipes[0], F_SETFL, O_NONBLOCK);
  uint64_t began = kc_now();
  size_t used = 0;
  int status = 0;
  bool ended = false;
  if (out_timed_out) *out_timed_out = false;
  while (!ended) {
    char buffer[1024];
    struct pollfd fd = {pipes[0], POLLIN, 0};
    poll(&fd, 1, 5);
    ended = waitpid(pid, &status, WNOHANG) == pid;
    ssize_t got = 0;
    while ((got = read(pipes[0], buffer, sizeof buffer)) > 0)
      for (ssize_t i = 0; i < got && out && used + 1 < room; i++)
        out[used++] = buffer[i];
    kc_beat();
    if (!ended && kc_now() - began > timeout) {
      if (out_timed_out) *out_timed_out = true;
      kill(pid, SIGKILL);
    }
  }
  if (out && room) out[used] = 0;
  close(pipes[0]);
  return status;
}
