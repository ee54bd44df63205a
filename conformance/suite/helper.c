/* helper.c - this program again, in a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite/suite.h"
/**/
#include "suite/channel.h"

#define KC_OPTIONS 64 /* as many as main.c takes */

/* What a sanitizer said in the process: the runner looks for it in this one's output. */
static void helper_pass_on(const char *said, size_t size) {
  if (!strstr(said, "Sanitizer: ") && !strstr(said, "runtime error: ")) return;
  while (size > 0) {
    ssize_t wrote = write(STDERR_FILENO, said, size);
    if (wrote <= 0) return;
    said += wrote;
    size -= (size_t)wrote;
  }
}

int kc_helper(const char *name, const char *argument, uint64_t timeout,
              char *out, size_t capacity, bool *out_timed_out) {
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) kc_stop("the suite has no pipe left");
  pid_t pid = fork();
  if (pid < 0) {
    close(pipes[0]);
    close(pipes[1]);
    kc_stop("the suite could not start a process: %s", strerror(errno));
  }
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
  static char said[16384];
  size_t used = 0, all = 0;
  int status = 0;
  bool ended = false, late = false;
  while (!ended) {
    char buffer[1024];
    struct pollfd fd = {pipes[0], POLLIN, 0};
    poll(&fd, 1, 5);
    pid_t got_pid = waitpid(pid, &status, WNOHANG);
    ended = got_pid == pid || (got_pid < 0 && errno == ECHILD);
    if (ended && got_pid < 0) status = 255 << 8; /* somebody waited for it */
    ssize_t got = 0;
    while ((got = read(pipes[0], buffer, sizeof buffer)) > 0)
      for (ssize_t i = 0; i < got; i++) {
        if (out && used + 1 < capacity) out[used++] = buffer[i];
        if (all + 1 < sizeof said) said[all++] = buffer[i];
      }
    kc_beat();
    if (!ended && !late &&
        (double)(kc_now() - began) > (double)timeout * kc_patience()) {
      late = true;
      kc_send('T', name);
      kill(pid, SIGKILL);
    }
  }
  if (out_timed_out) *out_timed_out = late;
  if (out && capacity) out[used] = 0;
  said[all] = 0;
  helper_pass_on(said, all);
  close(pipes[0]);
  return status;
}
