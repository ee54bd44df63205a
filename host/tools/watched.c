/* watched.c - a command that looks at plugins, in a child process.
 *
 * The child writes down which plugin it calls in memory that both processes have, and its result in
 * a file without a name: a plugin's own children may keep pipes open, which then block no
 * process. */
#include "watched.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "end.h"
#include "tool.h"

FILE *result;

typedef struct call {
  char path[4096], name[64];
} call;

#define TOLD_MOST 1024

/* The child's messages. A reader takes slot `count` % 2, which the child leaves alone until it has
 * made the next call. */
typedef struct notes {
  atomic_uint count; /* of calls: released after the slot is written */
  int status;        /* the command's */
  atomic_bool done;  /* status and the result are whole: released after both */
  call calls[2];
  /* hashes of the lines that all children have logged; not cleared */
  atomic_uint told_count;
  _Atomic uint64_t told[TOLD_MOST];
} notes;

#define BROKEN_MOST 64

/* A plugin that ended the child, or held it up, and how. */
typedef struct broken {
  char path[4096], why[300];
} broken;

static broken refused[BROKEN_MOST];
static uint32_t refused_count;
static notes *shared;
static int file = -1;         /* the result */
static unsigned told_earlier; /* in the child: by those before it */

void print(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(result, format, args);
  va_end(args);
}

uint32_t watched_broken(void) {
  return refused_count;
}

/* ---- in the child ----------------------------------------------------------- */

const char *watched_step(void *context, const char *path, const char *slot) {
  static atomic_flag writing = ATOMIC_FLAG_INIT; /* any thread may call */
  (void)context;
  if (!shared) return NULL;
  while (atomic_flag_test_and_set(&writing))
    continue;
  unsigned count = atomic_load(&shared->count) + 1;
  call *c = &shared->calls[count % 2];
  snprintf(c->path, sizeof c->path, "%s", path);
  snprintf(c->name, sizeof c->name, "%s", slot);
  atomic_store(&shared->count, count);
  atomic_flag_clear(&writing);
  for (uint32_t i = 0; i < refused_count; i++)
    if (!strcmp(refused[i].path, path)) return refused[i].why;
  return NULL;
}

void watched_own(void) {
  watched_step(NULL, "", "no call");
}

/* Whether an earlier child has logged the line; records it. */
static bool was_told(const char *line) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  if (!shared) return false;
  for (; *line; line++)
    hash = (hash ^ (unsigned char)*line) * UINT64_C(0x100000001b3);
  for (unsigned i = 0; i < told_earlier; i++)
    if (atomic_load(&shared->told[i]) == hash) return true;
  unsigned at = atomic_fetch_add(&shared->told_count, 1);
  if (at < TOLD_MOST) atomic_store(&shared->told[at], hash);
  return false;
}

void tell(const char *format, ...) {
  char line[4200]; /* a message and what stands before it */
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (!was_told(line)) fprintf(stderr, "%s\n", line);
}

void watched_log(void *context, uint32_t level, const char *line) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  (void)context;
  tell("keel: %s: %s", names[level < 4 ? level : 3], line);
}

static bool watched_write_all(const char *text, size_t size) {
  while (size) {
    ssize_t written = write(file, text, size);
    if (written <= 0) return false;
    text += written;
    size -= (size_t)written;
  }
  return true;
}

/* Never returns: the process ends as a command does, with what libraries do then. */
static void be_child(int (*look)(void), pid_t parent, const sigset_t *before) {
  char *text = NULL;
  size_t size = 0;
  setpgid(0, 0);            /* to be ended with what plugins start */
  signal(SIGTTOU, SIG_IGN); /* it may still write to the terminal */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  told_earlier = atomic_load(&shared->told_count);
  if (told_earlier > TOLD_MOST) told_earlier = TOLD_MOST;
  sigprocmask(SIG_SETMASK, before, NULL);
  end_expected();
  dup2(STDERR_FILENO, STDOUT_FILENO); /* what plugins print */
  result = open_memstream(&text, &size);
  if (!result) _exit(1);
  int status = look();
  bool whole = fclose(result) == 0 && watched_write_all(text, size);
  free(text);
  shared->status = status;
  if (whole) atomic_store(&shared->done, true);
  exit(status);
}

/* ---- in the command ----------------------------------------------------------- */

/* Whether the child is in a plugin, or in what libraries do as a process ends. */
static bool is_elsewhere(void) {
  return atomic_load(&shared->done) ||
         *shared->calls[atomic_load(&shared->count) % 2].path;
}

/* Ends the child and what plugins have started, and itself by the signal. */
static void end_by(int signal, pid_t child, const sigset_t *before) {
  kill(-child, SIGKILL);
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
    continue;
  sigprocmask(SIG_SETMASK, before, NULL);
  raise(signal);
}

/* Waits for the child's end, as long as it goes from call to call. `watched`: blocked signals,
 * of which those but SIGCHLD end the command. */
static int watched_wait_for(pid_t child, double limit, const sigset_t *watched,
                            const sigset_t *before, bool *out_late) {
  const struct timespec while_ = {.tv_nsec = 20000000};
  int status = 0;
  unsigned count = 0;
  double since = now();
  *out_late = false;
  for (;;) {
    pid_t ended = waitpid(child, &status, *out_late ? 0 : WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return status;
    unsigned count_now = atomic_load(&shared->count);
    if (count_now != count || !is_elsewhere()) since = now();
    count = count_now;
    *out_late = limit > 0 && now() - since > limit;
    if (*out_late) {
      kill(child, SIGKILL);
      continue;
    }
    int came = sigtimedwait(watched, NULL, &while_);
    if (came > 0 && came != SIGCHLD) end_by(came, child, before);
  }
}

static void say_end(char *why, size_t size, const char *call, int status,
                    bool late, double limit) {
  if (late)
    snprintf(why, size, "it had not returned from %s after %g s", call, limit);
  else if (WIFSIGNALED(status))
    snprintf(why, size, "it ended its process in %s, by signal %d (%s)", call,
             WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    snprintf(why, size, "it ended its process in %s, with exit status %d", call,
             WEXITSTATUS(status));
}

/* Evaluates a child's end. Returns whether another child is to look again. */
static bool conclude(int status, bool late, double limit, int *out_status) {
  const call *last = &shared->calls[atomic_load(&shared->count) % 2];
  bool done = atomic_load(&shared->done), again = true;
  char why[300];
  say_end(why, sizeof why,
          done          ? "the exit handlers of libraries"
          : *last->name ? last->name
                        : "no call",
          status, late, limit);
  if (done && WIFEXITED(status) && !late) { /* maybe as a library will */
    *out_status = shared->status ? shared->status : WEXITSTATUS(status);
    return false;
  }
  for (uint32_t i = 0; i < refused_count; i++)
    again &= strcmp(refused[i].path, last->path) != 0;
  if (done || !again || !*last->path || refused_count == BROKEN_MOST) {
    fprintf(stderr,
            "keel: a plugin or a library that it has loaded is broken: %s; look"
            " at plugins one by one to find it (--only --plugin PATH)\n",
            why);
    return false;
  }
  broken *b = &refused[refused_count++];
  snprintf(b->path, sizeof b->path, "%s", last->path);
  snprintf(b->why, sizeof b->why, "%s", why);
  return true;
}

/* Blocks the signal of the child's end, and signals that would end the command. */
static void block(sigset_t *out_watched, sigset_t *out_before) {
  static const int enders[] = {SIGINT, SIGTERM, SIGHUP};
  sigemptyset(out_watched);
  sigaddset(out_watched, SIGCHLD);
  sigprocmask(SIG_BLOCK, NULL, out_before);
  for (size_t i = 0; i < sizeof enders / sizeof *enders; i++) {
    struct sigaction is;
    if (sigaction(enders[i], NULL, &is) == 0 && is.sa_handler == SIG_DFL &&
        !sigismember(out_before, enders[i])) /* else as under nohup */
      sigaddset(out_watched, enders[i]);
  }
  sigprocmask(SIG_BLOCK, out_watched, NULL);
}

/* One child. Returns whether another one is to look again. */
static bool look_once(int (*look)(void), double limit, int *out_status) {
  sigset_t watched, before;
  bool late = false;
  *out_status = 1;
  memset(shared, 0, offsetof(notes, told_count));
  if (ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0) return false;
  fflush(NULL);
  block(&watched, &before);
  pid_t parent = getpid(), child = fork();
  if (child == 0) be_child(look, parent, &before);
  if (child > 0) setpgid(child, child); /* as it does itself, or first */
  int status =
      child > 0 ? watched_wait_for(child, limit, &watched, &before, &late) : 0;
  if (child > 0) kill(-child, SIGKILL); /* what plugins have started */
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (child < 0) {
    fprintf(stderr, "keel: no child process can be started: %s\n",
            strerror(errno));
    return false;
  }
  return conclude(status, late, limit, out_status);
}

/* Prints what the child has written. */
static void print_result(void) {
  char piece[65536];
  ssize_t size = 0;
  lseek(file, 0, SEEK_SET);
  while ((size = read(file, piece, sizeof piece)) > 0)
    fwrite(piece, 1, (size_t)size, stdout);
}

int watched_run(int (*look)(void), double limit) {
  int status = 1;
  signal(SIGCHLD, SIG_DFL);
  file = memfd_create("keel", MFD_CLOEXEC);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (file < 0 || shared == MAP_FAILED) {
    fprintf(stderr, "keel: no memory to look at plugins: %s\n",
            strerror(errno));
    return 1;
  }
  while (look_once(look, limit, &status))
    continue;
  print_result();
  munmap(shared, sizeof *shared);
  shared = NULL;
  close(file);
  return status ? status : refused_count != 0;
}
