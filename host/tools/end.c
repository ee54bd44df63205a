/* end.c - how a command ends: its output was written in full, or it reports an error. */
#include "end.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool done;

/* A plugin, or what it loads, may call exit(0). */
static void end_early(void) {
  if (done) return;
  fflush(stdout);
  fprintf(stderr,
          "keel: the command is not done: a plugin or a library that it has"
          " loaded has ended the process; `keel plugins` lists them, and"
          " KEEL_VISIBLE_DEVICES hides one\n");
  _exit(1);
}

/* A file that is opened later must not be what is printed to. */
static void open_standard(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void end_prepare(void) {
  open_standard();
  signal(SIGXFSZ, SIG_IGN); /* a file that would be too large is an error */
  atexit(end_early);
  at_quick_exit(end_early);
}

void end_expected(void) {
  done = true;
}

int end_with(int status) {
  done = true;
  bool bad = ferror(stdout) != 0;
  errno = 0;
  bad |= fflush(stdout) != 0;
  if (!bad) return status;
  fprintf(
      stderr,
      "keel: standard output can't be written: %s; the output is incomplete\n",
      errno ? strerror(errno) : "an error");
  return status ? status : 1;
}
